"""The trainer: settings, seeds, checkpoints, a process that is killed, processes that share a run, the command."""

import contextlib
import copy
import dataclasses
import errno
import json
import math
import os
import re
import signal
import socket
import statistics
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor

import matplotlib.figure
import pytest
import torch
from torch import distributed
from train_runs import SIZES, TINY, TINY_TASK, finish, start, wait_for, workers

import posenc
from posenc import METHODS
from posenc.lab.train import (
    PRESETS,
    HeldError,
    Settings,
    build,
    encoding_maker,
    files,
    load,
    models,
    pick_device,
    read_checkpoint,
    sample,
    settings_for,
    train,
    train_with,
    trainer,
)
from posenc.lab.train.checkpoints import write_checkpoint
from posenc.lab.train.command import in_one_line, main
from posenc.lab.train.curve import LiveCurve, plot_loss
from posenc.lab.train.measure import short_long
from posenc.lab.train.tasks import TASKS, load_corpus
from posenc.lab.train.tiny import Decoder, Encoder
from posenc.lab.train.trainer import check_task, learning_rate
from posenc.methods import on_text

QUICK = {"steps": 12, "warmup": 2}


def same(tensors, others):
    return tensors.keys() == others.keys() and all(torch.equal(tensors[key], others[key]) for key in tensors)


def same_weights(model, other):
    return same(model.state_dict(), other.state_dict())


@pytest.fixture
def no_step(monkeypatch):
    """A step is a failure."""
    monkeypatch.setattr(trainer, "learning_rate", lambda *args: pytest.fail("a step was taken"))


# ----------------------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    "changes, error, words",
    [
        ({"dim": 96.0}, TypeError, "dim=96.0"),
        ({"num_heads": 5}, ValueError, "num_heads=5 .*dim=96"),
        ({"steps": -1}, ValueError, "steps=-1"),
        ({"warmup": 300}, ValueError, "warmup=300 .*steps=300"),
        ({"lr": 0}, ValueError, "lr=0"),
        ({"clip": float("nan")}, ValueError, "clip=nan"),
        ({"own": 0}, ValueError, "own=0"),
        ({"held_back": 1.5}, TypeError, "held_back=1.5"),
        ({"held_back": 10**6}, ValueError, "held_back=1000000"),
        ({"held_back": 9, "task": "flipflop"}, ValueError, "held_back=9 .*'flipflop'"),
        ({"weight_decay": "0"}, TypeError, "weight_decay='0'"),
        ({"targets": 65}, ValueError, "targets=65 .*length=64"),
        ({"multiples": (4, 1)}, ValueError, r"multiples=\(4, 1\) .*rise"),
        ({"multiples": ()}, ValueError, r"multiples=\(\) .*rise"),
        ({"multiples": 8}, TypeError, "multiples=8 .*tuple"),
        ({"multiples": (1, 3, 8)}, ValueError, "multiples.* 3 .*divide.* 8"),
        ({"multiples": (0.5, 1)}, TypeError, "multiples=0.5"),
        ({"step": 3}, ValueError, "step=3 .*'steps'"),
        ({"windows": 5000}, ValueError, "windows=5000"),
        ({"length": 10**6, "targets": 1}, ValueError, "length=1000000"),
        ({"task": "flipflops"}, ValueError, "task='flipflops' .*'flipflop'"),
        ({"task": "masked", "multiples": (1, 1024)}, ValueError, "windows=48 .*65536"),
        ({"task": "needle", "length": 8, "targets": 8}, ValueError, "length=8 .*needles=4"),
        ({"method": "ropes"}, ValueError, "'ropes' .*'rope'"),
        ({"method": lambda layer: "rope"}, TypeError, "make_encoding.*Encoding"),
        ({"method": lambda layer: posenc.make("nope")}, TypeError, "checkpoint: method=.*name"),
        ({"options": {"bass": 5.0}}, ValueError, "bass=5.0 .*'base'"),
        ({"preset": "labs"}, ValueError, "preset='labs' .*'lab'"),
        ({"seed": -1}, ValueError, "seed=-1"),
        ({"device": "gpu"}, ValueError, "device='gpu' .*'cuda'"),
        ({"device": 3.5}, ValueError, "device=3.5 .*'cpu'"),
        ({"device": "meta"}, ValueError, "device='meta'"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_what_cannot_be_is_told_before_the_first_step(changes, error, words, no_step, tmp_path):
    with pytest.raises(error, match=words):
        train(**{"method": "rope", "progress": False, "checkpoint": tmp_path / "run.pt"} | changes)
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_holds_self_attention_alone(no_step, tmp_path):
    with pytest.raises(TypeError, match="checkpoint: make_attention=.*FoxPro"):
        train_with("fox", TINY, progress=False, checkpoint=tmp_path / "run.pt", make_attention=posenc.FoxPro)
    assert list(tmp_path.iterdir()) == []


def test_an_absent_gpu_is_refused_not_replaced(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pick_device() == torch.device("cpu")
    with pytest.raises(posenc.UnsupportedError, match="device='cuda'"):
        pick_device("cuda")


@pytest.mark.parametrize("capability, native", [((7, 5), False), ((8, 0), True), ((9, 0), True)])
def test_bf16_is_for_gpus_that_compute_in_it(capability, native, monkeypatch):
    calls = []
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch, "autocast", lambda kind, dtype, enabled: calls.append((kind, dtype, enabled)))
    for kind in ("cuda", "cpu"):
        models.precision(torch.device(kind))
    assert calls == [("cuda", torch.bfloat16, native), ("cpu", torch.bfloat16, False)]


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_has_settings_for_every_task(preset):
    text = PRESETS[preset]
    for task in TASKS:
        settings = settings_for(preset, task)
        check_task(TASKS[task], settings)
        for field in ("length", "multiples", "lr", "windows", "targets"):
            assert getattr(settings, field) == getattr(text, field), (task, field)
        assert settings == text if task in ("text", "masked") else settings.dim <= text.dim
        assert settings_for(preset, task, steps=7777).steps == 7777


def test_the_original_preset_is_the_report_s():
    settings = settings_for("original")
    sizes = settings.dim, settings.num_layers, settings.num_heads, settings.length, settings.batch, settings.lr
    assert sizes == (384, 6, 6, 256, 8, 1e-4) and settings == settings_for("original", "flipflop")


def test_methods_get_the_sizes_they_ask_for():
    settings = settings_for("study", dim=64, num_heads=2)
    rope = encoding_maker("rope", settings)
    assert rope(0).rotate.inv_freq.shape == (16,) and rope(0) is not rope(0)
    assert encoding_maker("alibi", settings)(0).bias.slopes.shape == (2,)
    assert encoding_maker("nope", settings)(0).places == ()
    other = encoding_maker("rope", settings, options={"base": 9.0})(0)
    assert other.rotate.inv_freq[1].item() == pytest.approx(9 ** (-1 / 16))


# ----------------------------------------------------------------------------------------------------------- training


def test_the_learning_rate_warms_up_and_comes_down():
    settings = settings_for("study")
    rates = [learning_rate(step, settings) for step in range(settings.steps)]
    assert rates[0] == settings.lr / settings.warmup and max(rates) == rates[settings.warmup] == settings.lr
    assert rates[: settings.warmup] == sorted(rates[: settings.warmup])
    assert rates[settings.warmup :] == sorted(rates[settings.warmup :], reverse=True)
    assert rates[-1] == pytest.approx(settings.lr / 10, rel=0.01)


def trains(method, task):
    model, history = train(method, "nano", task=task, progress=False, **TINY_TASK)
    assert isinstance(model, Decoder if TASKS[task].causal else Encoder) and not model.training
    assert len(history["loss"]) == 4 and all(0 < loss < 20 for loss in history["loss"])
    assert history["task"] == task and history["settings"] == settings_for("nano", task, **TINY_TASK)
    before = build(method, history["settings"], task).state_dict()
    assert all(not torch.equal(weight, before[name]) for name, weight in model.state_dict().items() if "to_q" in name)


@pytest.mark.parametrize("method", on_text())
def test_every_method_trains_both_ways(method):
    trains(method, "flipflop")
    if METHODS[method].causal_only and not METHODS[method].both_ways:
        with pytest.raises(posenc.UnsupportedError, match="causal=False"):
            trains(method, "masked")
    else:
        trains(method, "masked")


@pytest.mark.parametrize("task", TASKS)
def test_every_task_trains(task):
    trains("rope", task)


def test_the_loss_is_the_mean_over_scored_tokens():
    settings = settings_for("nano", "flipflop", **TINY_TASK)
    _, history = train_with("rope", settings, seed=3, task="flipflop", progress=False)
    tokens, targets = TASKS["flipflop"].batch(torch.Generator().manual_seed(3), settings.batch, settings.length)
    chances = build("rope", settings, "flipflop", seed=3)(tokens).log_softmax(-1)
    scored = [
        -chances[b, t, targets[b, t]].item()
        for b in range(settings.batch)
        for t in range(settings.length)
        if targets[b, t] >= 0
    ]
    assert history["loss"][0] == pytest.approx(statistics.mean(scored), abs=1e-5)


def test_a_masked_language_model_learns():
    _, history = train("rope", "nano", task="masked", progress=False, dim=32, steps=60, warmup=6)
    first, last = statistics.mean(history["loss"][:5]), statistics.mean(history["loss"][-5:])
    assert last < first - 0.8


def test_training_learns_more_than_letter_counts():
    model, history = train("rope", preset="nano", progress=False)
    counts = torch.bincount(load_corpus().train).double()
    share = counts[counts > 0] / counts.sum()
    unigram = -(share * share.log()).sum().item()
    assert len(history["loss"]) == PRESETS["nano"].steps and history["seconds"] > 0
    assert statistics.mean(history["loss"][-20:]) < unigram - 0.8
    losses = short_long(model, history["settings"])
    assert losses["whole"][0] < unigram - 0.6
    # and what the fair test says of RoPE: it fails beyond its window, and the cut saves it
    assert losses["whole"][-1] - losses["whole"][0] > 0.2
    assert abs(losses["cut"][-1] - losses["cut"][0]) < 0.05


def test_a_sample_goes_on_from_its_prompt():
    model = build("rope", TINY)
    text = sample(model, prompt="The list ", length=40, window=32)
    assert text.startswith("The list ") and len(text) == 49
    assert text == sample(model, prompt="The list ", length=40, window=32)


def test_the_same_seed_gives_the_same_weights():
    runs = [train("alibi", preset="nano", seed=seed, progress=False, **QUICK) for seed in (1, 1, 2)]
    assert runs[0][1]["loss"] == runs[1][1]["loss"] != runs[2][1]["loss"]
    assert same_weights(runs[0][0], runs[1][0]) and not same_weights(runs[0][0], runs[2][0])


def test_methods_start_from_the_same_weights_and_read_the_same_batches(monkeypatch):
    starts, batches = [], []
    for method in ("nope", "rope"):
        model, read = build(method, TINY), []
        model.register_forward_pre_hook(lambda module, args, read=read: read.append(args[0]))
        monkeypatch.setattr(trainer, "build", lambda *args, model=model: model)
        starts.append(copy.deepcopy(model.state_dict()))
        train_with(method, TINY, seed=0, progress=False)
        batches.append(read)
    assert same(*starts)
    assert len(batches[0]) == TINY.steps and all(torch.equal(a, b) for a, b in zip(*batches))
    assert not torch.equal(batches[0][0], batches[0][1])


def test_the_seed_alone_decides_and_the_random_state_is_left_alone():
    weights = []
    for state, seed in ((7, 1), (8, 1), (8, 2)):
        torch.manual_seed(state)
        weights.append(build("nope", TINY, seed=seed).head.weight)
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[1], weights[2])
    train_with("nope", TINY, progress=False)
    after = torch.rand(3)
    torch.manual_seed(8)
    assert torch.equal(torch.rand(3), after)


def test_make_encoding_of_your_own_trains():
    shared = posenc.make("stickbreaking")
    model, history = train(lambda layer: shared, preset="nano", progress=False, **QUICK)
    assert history["loss"][-1] < history["loss"][0] and model.blocks[1].attention.encoding is shared


def test_the_progress_bar_writes_only_when_asked(capfd):
    train_with("nope", TINY, progress=False)
    assert capfd.readouterr() == ("", "")
    train_with("nope", TINY)
    assert "6/6" in capfd.readouterr().err


def test_the_live_curve_draws_in_a_notebook_and_nowhere_else(monkeypatch):
    import IPython
    import IPython.display

    figures = []

    def display(figure, display_id):
        figures.append(figure)
        return types.SimpleNamespace(update=figures.append)

    plot_loss([1.0])  # matplotlib asks IPython who it is when it draws first; our stand-in is no full answer
    monkeypatch.setattr(IPython.display, "display", display)
    monkeypatch.setattr(IPython, "get_ipython", lambda: None)
    train("nope", preset="nano", live=True, progress=False, **QUICK)
    assert figures == []
    monkeypatch.setattr(IPython, "get_ipython", lambda: types.SimpleNamespace(kernel=object()))
    train("nope", preset="nano", live=True, progress=False, **QUICK)
    assert len(figures) >= 2 and all(isinstance(figure, matplotlib.figure.Figure) for figure in figures)
    assert len(figures[-1].axes[0].lines[0].get_xdata()) == QUICK["steps"]
    figures.clear()
    monkeypatch.setenv("POSENC_BOOK", "1")
    train("nope", preset="nano", live=True, progress=False, **QUICK)
    assert len(figures) == 1, "nobody looks on while the book is built"
    monkeypatch.delitem(sys.modules, "IPython")
    curve = LiveCurve(10, "rope")
    curve.draw([1.0] * 10)
    assert curve.handle is None


def steps_of(method, taken, **changes):
    """How far each parameter moves in so many steps, by name."""
    settings = dataclasses.replace(TINY, **changes)
    run = trainer.Run(method, settings, 0, "text", torch.device("cpu"), None, False, posenc.SelfAttention)
    before = copy.deepcopy(dict(run.model.named_parameters()))
    for _ in range(taken):
        run.step(types.SimpleNamespace(pending=False))
    return {name: (new - before[name]).detach() for name, new in run.model.named_parameters()}


def test_an_encoding_s_own_parameters_have_a_rate_of_their_own():
    (table,) = models.own_parameters(build("t5", TINY), TINY)
    plain, quick = steps_of("t5", 1), steps_of("t5", 1, own=10.0)
    assert table.endswith("table")
    torch.testing.assert_close(quick.pop(table), 10 * plain.pop(table), rtol=1e-3, atol=1e-6)
    assert same(plain, quick)
    assert steps_of("t5", 6, own=10.0)[table].norm() > 3 * steps_of("t5", 6)[table].norm()
    assert same(steps_of("rope", 2), steps_of("rope", 2, own=10.0))  # which has none


def test_with_own_1_all_is_as_it_was_before_there_was_one(tmp_path):
    """The one group of parameters and the words of a checkpoint: an older one, which kept no hash, is gone on with."""
    path, rate = tmp_path / "run.pt", learning_rate
    whole, _ = train_with("t5", TINY, progress=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "learning_rate", lambda *given: signal.raise_signal(signal.SIGTERM) or rate(*given))
        with pytest.raises(KeyboardInterrupt):
            train_with("t5", TINY, progress=False, checkpoint=path)
    state = read_checkpoint(path)
    fields = set(json.loads(state["config"])["settings"])
    assert fields == {field.name for field in dataclasses.fields(Settings)} - {"own", "held_back"}
    (group,) = state["optimizer"]["param_groups"]
    assert "factor" not in group
    state.pop("read")
    write_checkpoint(path, state)
    with pytest.raises(ValueError, match="own=1.0, not 10.0"):
        train_with("t5", dataclasses.replace(TINY, own=10.0), progress=False, checkpoint=path)
    model, history = train_with("t5", TINY, progress=False, checkpoint=path)
    assert same_weights(model, whole) and history["batches"] is None


def test_a_run_with_a_rate_of_its_own_goes_on(tmp_path, monkeypatch):
    settings, path, rate = dataclasses.replace(TINY, own=10.0, held_back=999), tmp_path / "run.pt", learning_rate
    whole, history = train_with("t5", settings, progress=False)
    stop = lambda step, given: (signal.raise_signal(signal.SIGTERM) if step == 2 else None) or rate(step, given)  # noqa: E731
    monkeypatch.setattr(trainer, "learning_rate", stop)
    with pytest.raises(KeyboardInterrupt):
        train_with("t5", settings, progress=False, checkpoint=path)
    monkeypatch.undo()
    model, record = train_with("t5", settings, progress=False, checkpoint=path)
    assert same_weights(model, whole) and record["batches"] == history["batches"] == load(path)[1]["batches"]


def test_what_is_held_back_is_not_read(monkeypatch):
    corpus = load_corpus()
    texts = []
    monkeypatch.setattr(type(TASKS["text"]), "batch", lambda self, *given, **options: texts.append(options) or 1 / 0)
    for held_back in (0, 300):
        with pytest.raises(ZeroDivisionError):
            train_with("nope", dataclasses.replace(TINY, held_back=held_back), progress=False)
    assert texts[0] == {} and torch.equal(texts[1]["text"], corpus.train[:-300])


# -------------------------------------------------------------------------------------------------------- checkpoints

OPTIONS = {"base": 50.0}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished tiny run: (model, history, its checkpoint's bytes)."""
    path = tmp_path_factory.mktemp("finished") / "run.pt"
    model, history = train_with("rope", TINY, seed=1, progress=False, checkpoint=path, options=OPTIONS)
    assert [file.name for file in path.parent.iterdir()] == ["run.pt"]
    return model, history, path.read_bytes()


@pytest.fixture
def path(finished, tmp_path):
    """A checkpoint of the finished run to do things to."""
    (tmp_path / "run.pt").write_bytes(finished[2])
    return tmp_path / "run.pt"


def go_on(path, **changes):
    given = {"method": "rope", "settings": TINY, "seed": 1, "options": OPTIONS} | changes
    return train_with(**given, progress=False, checkpoint=path)


def test_a_checkpoint_holds_the_trained_model(finished, path):
    model, history, _ = finished
    copied, record = load(path)
    tokens = torch.arange(12)[None]
    assert same_weights(model, copied) and not copied.training and torch.equal(model(tokens), copied(tokens))
    assert not torch.equal(copied(tokens), build("rope", TINY, seed=1)(tokens))
    assert {**history, "seconds": 0} == {**record, "seconds": 0} and 0 < record["seconds"] <= history["seconds"]


def test_a_finished_run_is_not_trained_again(finished, path, no_step):
    again, record = go_on(path)
    assert same_weights(finished[0], again) and record["loss"] == finished[1]["loss"]
    assert path.read_bytes() == finished[2]


def test_an_encoder_s_checkpoint_gives_an_encoder(tmp_path):
    settings = settings_for("nano", "masked", **TINY_TASK)
    path = tmp_path / "run.pt"
    model, _ = train_with("alibi", settings, 0, "masked", progress=False, checkpoint=path)
    copied, record = load(path)
    assert isinstance(copied, Encoder) and same_weights(model, copied) and record["settings"] == settings


@pytest.mark.parametrize("where", ["torch.save", "os.replace", "os.fsync"])
def test_an_interruption_while_writing_leaves_the_old_checkpoint(path, where, monkeypatch):
    before, save = path.read_bytes(), torch.save

    def half(state, file):
        save(state, file)
        file.truncate(1000)
        raise KeyboardInterrupt

    def stop(*args):
        raise KeyboardInterrupt

    owner, name = where.split(".")
    monkeypatch.setattr({"torch": torch, "os": os}[owner], name, half if owner == "torch" else stop)
    state = read_checkpoint(path)
    with pytest.raises(KeyboardInterrupt):
        write_checkpoint(path, state | {"step": 3})
    assert path.read_bytes() == before and [file.name for file in path.parent.iterdir()] == ["run.pt"]


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"seed": 2}, ["seed=1", "2"]),
        ({"method": "nope", "options": None}, ["method='rope'", "'nope'"]),
        ({"task": "flipflop", "settings": settings_for("nano", "flipflop")}, ["task='text'", "'flipflop'"]),
        ({"settings": dataclasses.replace(TINY, lr=0.01)}, ["lr=0.003", "0.01"]),
        ({"options": {"base": 60.0}}, ["options={'base': 50.0}", "60.0"]),
    ],
)
def test_another_run_s_checkpoint_is_refused_and_left(path, changes, words):
    before = path.read_bytes()
    with pytest.raises(ValueError) as caught:
        go_on(path, **changes)
    assert all(word in str(caught.value) for word in [str(path), *words])
    if len(changes) == 1:
        assert str(caught.value).count("=") == 1  # nothing else is said to differ
    assert path.read_bytes() == before


def test_a_checkpoint_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere.pt"):
        load(tmp_path / "nowhere.pt")


@pytest.fixture
def ctrl_c():
    """Ctrl-C as in a terminal: a shell makes what it starts in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number, at", [(signal.SIGINT, 0), (signal.SIGTERM, 3), (signal.SIGINT, 5)])
def test_a_signal_saves_the_run_which_then_goes_on_as_if_nothing_had_been(number, at, ctrl_c, tmp_path, monkeypatch):
    whole, history = train_with("alibi", TINY, seed=4, progress=False)
    path, rate = tmp_path / "run.pt", learning_rate
    handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]

    def signalled(step, settings):
        if step == at:
            signal.raise_signal(number)
        return rate(step, settings)

    monkeypatch.setattr(trainer, "learning_rate", signalled)
    with pytest.raises(KeyboardInterrupt, match="saved to"):
        train_with("alibi", TINY, seed=4, progress=False, checkpoint=path)
    assert read_checkpoint(path)["step"] == at + 1
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == handlers
    monkeypatch.undo()
    model, record = train_with("alibi", TINY, seed=4, progress=False, checkpoint=path)
    assert same_weights(model, whole) and record["loss"] == history["loss"]


def test_a_signal_in_the_very_last_saving_is_not_swallowed(tmp_path, monkeypatch):
    def write(*given):
        write_checkpoint(*given)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(trainer, "write_checkpoint", write)
    with pytest.raises(KeyboardInterrupt):
        train_with("nope", TINY, progress=False, checkpoint=tmp_path / "run.pt")
    assert read_checkpoint(tmp_path / "run.pt")["step"] == TINY.steps


def test_without_a_checkpoint_a_signal_stops_at_once(ctrl_c, monkeypatch):
    monkeypatch.setattr(trainer, "learning_rate", lambda *args: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt, match="^$"):
        train_with("nope", TINY, progress=False)


@pytest.fixture
def one_thread():
    """As many threads as the processes started here have: sums in another order would differ."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_weights(one_thread, tmp_path, monkeypatch):
    """kill -9 at whatever step it stands, and the same command again; refused before, while the first one is there."""
    sizes = SIZES | {"length": 32, "batch": 8, "steps": 200, "warmup": 30}
    command = ["run", "--method", "rope", "--preset", "nano", "--seed", "5"]
    whole, killed = tmp_path / "whole.pt", tmp_path / "killed.pt"
    process = start(tmp_path, "train", sizes, [*command, "--save-every", "0", "--out", killed])
    wait_for(killed.exists, process)
    process.send_signal(signal.SIGSTOP)  # it stands, and holds what it held
    monkeypatch.setitem(PRESETS, "nano", Settings(**sizes))
    with pytest.raises(
        HeldError, match=rf"killed.pt is held by the process {process.pid} on .* since 20.*another file"
    ):
        main([*command, "--out", str(killed)])
    process.send_signal(signal.SIGKILL)
    finish(process, -signal.SIGKILL)
    assert 0 < read_checkpoint(killed)["step"] < 200
    (tmp_path / f"killed.pt.0{files.WRITING}").write_bytes(b"half of a checkpoint")
    for path in (killed, whole):
        main([*command, "--out", str(path)])
    a, b = read_checkpoint(whole), read_checkpoint(killed)
    assert torch.equal(a["losses"], b["losses"]) and len(a["losses"]) == 200
    assert same(a["model"], b["model"])
    assert torch.equal(a["batches"], b["batches"]) and a["config"] == b["config"]
    assert {file.name for file in tmp_path.iterdir()} == {"whole.pt", "killed.pt", "command.py"}


def test_many_may_write_one_checkpoint_and_every_reader_finds_a_whole_one(path):
    state, reads = read_checkpoint(path), []

    def write(number):
        for _ in range(25):
            write_checkpoint(path, state | {"seconds": float(number)})

    def read():
        while not all(writing.done() for writing in writings):
            reads.append(read_checkpoint(path)["seconds"])

    with ThreadPoolExecutor(6) as pool:
        writings = [pool.submit(write, number) for number in range(4)]
        readings = [pool.submit(read) for _ in range(2)]
    for done in (*writings, *readings):
        done.result()
    assert len(reads) > 10 and {file.name for file in path.parent.iterdir()} == {"run.pt"}


def test_of_many_that_take_one_file_at_once_one_has_it(tmp_path):
    inside, most, taken = [], [], []

    def take(number):
        for _ in range(100):
            with contextlib.suppress(HeldError), files.held("out", tmp_path / "run.pt"):
                inside.append(number)
                most.append(len(inside))
                taken.append(number)
                time.sleep(0.0005)
                inside.remove(number)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(take, number) for number in range(4)]:
            done.result()
    assert max(most) == 1 and len(taken) > 4 and not list(tmp_path.iterdir())


def test_a_lock_file_that_its_holder_removes_while_another_opens_it_holds_nothing(tmp_path, monkeypatch):
    path, lock, first, second = tmp_path / "run.pt", files.lock_file, contextlib.ExitStack(), contextlib.ExitStack()

    def late(file):
        monkeypatch.setattr(files, "lock_file", lock)
        first.close()
        second.enter_context(files.held("out", path))
        lock(file)

    first.enter_context(files.held("out", path))
    monkeypatch.setattr(files, "lock_file", late)
    with second, pytest.raises(HeldError), files.held("out", path):
        pytest.fail("two hold one file")


def test_where_a_file_system_has_no_locks_a_warning_says_so(tmp_path, monkeypatch):
    def none(*given):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(files.fcntl, "flock", none)
    with pytest.warns(UserWarning, match="run.pt.lock: .*no locks.*second process"):
        train_with("nope", TINY, progress=False, checkpoint=tmp_path / "run.pt")
    assert [file.name for file in tmp_path.iterdir()] == ["run.pt"]


@pytest.mark.parametrize("out, words", [("folder", "is a folder"), ("file/run.pt", "can't be written")])
def test_a_checkpoint_that_cannot_be_written_is_told_before_the_first_step(out, words, no_step, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=rf"checkpoint='{tmp_path / out}' {words}.*name a file"):
        train_with("nope", TINY, progress=False, checkpoint=tmp_path / out)


# --------------------------------------------------------------------------------------------------- what goes astray


def test_a_rate_too_high_stops_with_the_step_and_the_remedy(tmp_path):
    settings = dataclasses.replace(TINY, steps=200, lr=1e9)
    path = tmp_path / "run.pt"
    with pytest.raises(
        FloatingPointError, match=r"step \d+ of 200, .*lr=1e\+09.*smaller lr.*run.pt keeps step"
    ) as caught:
        train_with("rope", settings, progress=False, checkpoint=path, save_every=0)
    model, history = load(path)
    assert f"keeps step {len(history['loss'])}." in str(caught.value)
    assert (
        all(weight.isfinite().all() for weight in model.parameters()) and torch.tensor(history["loss"]).isfinite().all()
    )


@pytest.mark.parametrize("at", [2, 5])
def test_weights_that_are_no_numbers_are_not_saved(at, tmp_path, monkeypatch):
    """The loss is that before the step: the weights after it may be the first that are NaN."""
    path, rate = tmp_path / "run.pt", learning_rate
    monkeypatch.setattr(trainer, "learning_rate", lambda step, given: math.nan if step == at else rate(step, given))
    with pytest.raises(
        FloatingPointError, match=rf"weights are no finite numbers at step {at + 2} of 6.*keeps step {at}"
    ):
        train_with("nope", TINY, progress=False, checkpoint=path, save_every=0)
    assert read_checkpoint(path)["step"] == at and all(w.isfinite().all() for w in load(path)[0].parameters())


def test_a_loss_that_is_no_number_stops_at_once_and_names_no_file_where_there_is_none(monkeypatch):
    steps = []
    monkeypatch.setattr(trainer, "learning_rate", lambda step, given: steps.append(step) or math.nan)
    with pytest.raises(FloatingPointError, match="the loss is nan at step 2 of 6, after .*clip than 1.$"):
        train_with("nope", TINY, progress=False)
    assert steps == [0, 1]


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_a_command_with_its_code_and_one_line(number, code, ctrl_c, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(trainer, "learning_rate", lambda *given: signal.raise_signal(number) or 0.0)
    path = tmp_path / "run.pt"
    assert in_one_line(lambda: train_with("nope", TINY, progress=False, checkpoint=path)) == code
    assert capsys.readouterr().err == f"stopped after step 1, saved to {path}\n" and read_checkpoint(path)["step"] == 1


@pytest.mark.slow
def test_sigterm_ends_the_process_so(tmp_path):
    path = tmp_path / "run.pt"
    command = ["run", "--method", "nope", "--preset", "nano", "--save-every", "0", "--out", path]
    process = start(tmp_path, "train", SIZES | {"length": 32, "batch": 4, "steps": 10**6}, command)
    wait_for(path.exists, process)
    process.terminate()
    output = finish(process, 143)
    last = output.replace("\r", "\n").strip().split("\n")[-1]
    assert last == f"stopped after step {read_checkpoint(path)['step']}, saved to {path}" and "Traceback" not in output


def test_an_error_that_a_line_can_say_is_one_line(tmp_path, capsys):
    command = ["run", "--method", "nope", "--preset", "nano", "--out", str(tmp_path)]
    assert in_one_line(lambda: main(command)) == 1
    assert capsys.readouterr().err == f"error: checkpoint='{tmp_path}' is a folder; name a file in it\n"
    assert in_one_line(lambda: None) == 0


# ------------------------------------------------------------------------------------------- many processes, one run

SHARED = SIZES | {"length": 32, "batch": 6, "steps": 25, "warmup": 3}


@pytest.mark.slow
def test_two_processes_give_the_loss_curve_of_one(tmp_path):
    """Flip-flop scores more tokens in one sequence than in the next: the loss must be the whole batch's mean."""
    command = ["run", "--method", "rope", "--task", "flipflop", "--preset", "nano", "--out", tmp_path / "run.pt"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        group = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    processes = [start(tmp_path, "train", SHARED, command, **group, RANK=rank) for rank in "01"]
    output = "".join(finish(process) for process in processes)
    shared, record = load(tmp_path / "run.pt")
    assert SHARED.items() <= dataclasses.asdict(record["settings"]).items()
    alone, history = train_with("rope", record["settings"], task="flipflop", progress=False)
    assert record["loss"] == pytest.approx(history["loss"], abs=1e-4) and len(record["loss"]) == SHARED["steps"]
    assert record["loss"] != history["loss"]  # sums in another order: two processes did share it
    for key, weight in alone.state_dict().items():
        torch.testing.assert_close(shared.state_dict()[key], weight, rtol=0, atol=2e-3)
    assert output.count("run.pt: 25 steps") == 1  # one of them tells


def test_a_batch_that_does_not_divide_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(distributed, "get_rank", lambda: 0)
    monkeypatch.setattr(distributed, "get_world_size", lambda: 3)
    monkeypatch.setattr(trainer, "build", lambda *args: pytest.fail("a model was built"))
    with pytest.raises(ValueError, match="batch=4 .*3 processes"):
        train_with("rope", TINY, together=True, checkpoint=tmp_path / "run.pt", progress=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_signal_to_one_process_stops_all_after_the_same_step(tmp_path):
    path = tmp_path / "run.pt"
    command = ["run", "--method", "nope", "--preset", "nano", "--save-every", "0.05", "--out", path]
    process = start(tmp_path, "train", SHARED | {"steps": 10**6}, command, processes=2)
    wait_for(path.exists, process)
    os.kill(workers(process)[-1], signal.SIGTERM)
    output = finish(process, None)
    steps = re.findall(r"stopped after step (\d+)", output)
    assert len(steps) >= 2 and set(steps) == {str(read_checkpoint(path)["step"])}, output


# -------------------------------------------------------------------------------------------------------- the command


@pytest.mark.parametrize("task", ["text", "masked", "flipflop"])
def test_the_command_trains_one_model_and_tells_how_it_does(task, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sizes = [f"{key}={value}" for key, value in TINY_TASK.items()]
    main(["run", "--method", "alibi", "--task", task, "--preset", "nano", "--seed", "2", "--set", *sizes])
    first, *lines = capsys.readouterr().out.strip().split("\n")
    path = f"runs/{task}-alibi-nano-2.pt"
    _, history = load(path)
    assert history["task"] == task and history["seed"] == 2 and len(history["loss"]) == TINY_TASK["steps"]
    assert first.startswith(path) and f"{history['loss'][-1]:.4f}" in first
    names = {
        "text": [f"{kind} {32 * n}" for kind in ("whole", "cut") for n in (1, 2, 4, 8)],
        "masked": [f"loss {32 * n}" for n in (1, 2, 4, 8)],
        "flipflop": [f"error {name}" for name in TASKS["flipflop"].tests(32)],
    }
    assert [" ".join(line.split()[:-1]) for line in lines] == names[task]
    assert all(0 <= float(line.split()[-1]) < 20 for line in lines)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ("sweep flipflop", "'sweep'"),
        ("run", "--method"),
        ("run --method ropes", "'ropes'"),
        ("run --method rope --task flipflap", "'flipflap'"),
        ("run --method rope --preset big", "'big'"),
        ("run --method rope --set steps", "NAME=NUMBER"),
        ("run --method rope --set steps=many", "NAME=NUMBER"),
        ("run --method rope --set step=9", "'steps'"),
        ("run --method rope --set steps=9.5", "steps=9.5"),
        ("run --method rope --task needle --set length=8 targets=8", "length=8"),
        ("run --method rope --seed -1", "seed=-1"),
        ("run --method rope --save-every -1", "save_every=-1"),
        ("run --method rope --device gpu", "--device: device='gpu'"),
        ("run --method rope --device cuda:99", "device='cuda:99'"),
    ],
)
def test_the_command_refuses_what_cannot_be_and_writes_nothing(
    arguments, words, no_step, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((SystemExit, ValueError, TypeError)) as caught:
        main(arguments.split())
    assert words in (capsys.readouterr().err if caught.type is SystemExit else str(caught.value))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("method", [name for name in METHODS if name not in on_text()])
def test_a_method_of_several_axes_is_refused_on_text(method):
    with pytest.raises(posenc.UnsupportedError, match=f"{METHODS[method].axes} axes.*pictures"):
        train(method, preset="nano", steps=2, warmup=1, progress=False)
