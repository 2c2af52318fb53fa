"""The trainer: settings, seeds, checkpoints, processes that are killed, processes that share a run, the command."""

import copy
import dataclasses
import os
import pickle
import random
import re
import signal
import statistics
import sys
import time
import types

import matplotlib.figure
import pytest
import torch
from torch import distributed
from train_runs import TINY, TINY_TASK, finish, start, start_train, wait_for, workers

import posenc
from posenc import METHODS
from posenc.lab.train import (
    PRESETS,
    build,
    check_task,
    encoding_maker,
    learning_rate,
    load,
    pick_device,
    read_checkpoint,
    sample,
    settings_for,
    train,
    train_with,
    write_checkpoint,
)
from posenc.lab.train import trainer as train_module
from posenc.lab.train.curve import LiveCurve, plot_loss
from posenc.lab.train.measure import short_long
from posenc.lab.train.tasks import TASKS, load_corpus
from posenc.lab.train.tiny import Decoder, Encoder
from posenc.lab.train.trainer import main

QUICK = {"steps": 12, "warmup": 2}


@pytest.fixture(scope="module")
def nano():
    """A RoPE model at preset nano, trained once for this file."""
    return train("rope", preset="nano", progress=False)


def same_weights(model, other):
    a, b = model.state_dict(), other.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


# ----------------------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    "changes, error, words",
    [
        ({"dim": 0}, ValueError, "dim=0 must be at least 1"),
        ({"dim": 96.0}, TypeError, "dim=96.0 must be an int"),
        ({"num_heads": 5}, ValueError, "num_heads=5 must divide dim=96"),
        ({"steps": -1}, ValueError, "steps=-1"),
        ({"warmup": 300}, ValueError, "warmup=300 must be less than steps=300"),
        ({"lr": 0}, ValueError, "lr=0 must be greater than 0"),
        ({"clip": float("nan")}, ValueError, "clip=nan must be finite"),
        ({"weight_decay": "0"}, TypeError, "weight_decay='0' must be a number"),
        ({"targets": 65}, ValueError, "targets=65 must be at most length=64"),
        ({"multiples": (4, 1)}, ValueError, r"multiples=\(4, 1\) must rise"),
        ({"multiples": ()}, ValueError, r"multiples=\(\) must rise"),
        ({"multiples": 8}, TypeError, "multiples=8 must be a tuple"),
        ({"multiples": (1, 3, 8)}, ValueError, "3 must divide the last, 8"),
        ({"multiples": (0.5, 1)}, TypeError, "multiples=0.5 must be an int"),
        ({"step": 3}, ValueError, r"step=3 is no setting; .* Did you mean 'steps'\?"),
        ({"windows": 5000}, ValueError, "windows=5000 of 512 characters"),
        ({"length": 10**6, "targets": 1}, ValueError, "length=1000000 must be less than the"),
        ({"task": "flipflops"}, ValueError, r"task='flipflops' .* Did you mean 'flipflop'\?"),
        ({"task": "masked", "multiples": (1, 1024)}, ValueError, "windows=48 of 65536 characters"),
        ({"task": "needle", "length": 8, "targets": 8}, ValueError, "length=8 is too short for needles=4"),
        ({"task": "recall", "length": 4, "targets": 1}, ValueError, "length=4 must be at least 8"),
        ({"method": "ropes"}, ValueError, r"'ropes' is no method; .* Did you mean 'rope'\?"),
        ({"method": lambda layer: "rope"}, TypeError, r"make_encoding\(0\) must return an Encoding"),
        ({"method": lambda layer: posenc.make("nope")}, TypeError, "checkpoint: method=.* must be a name"),
        ({"options": {"bass": 5.0}}, ValueError, r"bass=5.0 is no option of rope; .* Did you mean 'base'\?"),
        ({"preset": "labs"}, ValueError, r"preset='labs' .* Did you mean 'lab'\?"),
        ({"seed": -1}, ValueError, "seed=-1"),
        ({"device": "warp"}, RuntimeError, "warp"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_what_cannot_be_is_told_before_the_first_step(changes, error, words, monkeypatch, tmp_path):
    monkeypatch.setattr(train_module, "learning_rate", lambda *args: pytest.fail("a step was taken"))
    with pytest.raises(error, match=words):
        train(**{"method": "rope", "progress": False, "checkpoint": tmp_path / "run.pt"} | changes)
    assert list(tmp_path.iterdir()) == []


def test_an_absent_gpu_is_refused_not_replaced(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pick_device() == torch.device("cpu")
    with pytest.raises(posenc.UnsupportedError, match="device='cuda': torch sees no CUDA device"):
        pick_device("cuda")


@pytest.mark.parametrize("capability, native", [((7, 5), False), ((8, 0), True), ((9, 0), True)])
def test_bf16_is_for_gpus_that_compute_in_it(capability, native, monkeypatch):
    asked = []
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch, "autocast", lambda kind, dtype, enabled: asked.append((kind, dtype, enabled)))
    train_module.precision(torch.device("cuda"))
    train_module.precision(torch.device("cpu"))
    assert asked == [("cuda", torch.bfloat16, native), ("cpu", torch.bfloat16, False)]


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("task", TASKS)
def test_every_preset_has_settings_for_every_task(preset, task):
    settings = settings_for(preset, task)
    check_task(TASKS[task], settings)
    of_text = {field: getattr(PRESETS[preset], field) for field in ("length", "multiples", "lr", "windows", "targets")}
    assert of_text.items() <= dataclasses.asdict(settings).items()
    if task in ("text", "masked"):
        assert settings == PRESETS[preset]
    else:
        assert settings.dim <= PRESETS[preset].dim and settings_for(preset, task, steps=7777).steps == 7777


def test_the_original_preset_is_the_report_s_and_takes_a_step():
    settings = settings_for("original")
    sizes = settings.dim, settings.num_layers, settings.num_heads, settings.length, settings.batch, settings.lr
    assert sizes == (384, 6, 6, 256, 8, 1e-4) and settings == settings_for("original", "flipflop")
    model, history = train("rope", preset="original", steps=1, warmup=0, progress=False)
    assert (model.embedding.embedding_dim, len(model.blocks), len(history["loss"])) == (384, 6, 1)
    assert not same_weights(model, build("rope", settings))


def test_methods_get_the_sizes_they_ask_for():
    settings = settings_for("study", dim=64, num_heads=2)
    assert encoding_maker("rope", settings)(0).rotate.inv_freq.shape == (16,)
    assert encoding_maker("alibi", settings)(0).bias.slopes.shape == (2,)
    assert encoding_maker("nope", settings)(0).places == ()
    assert encoding_maker("rope", settings)(0) is not encoding_maker("rope", settings)(0)
    assert encoding_maker("rope", settings, options={"base": 9.0})(0).rotate.inv_freq[1].item() == pytest.approx(
        9 ** (-1 / 16)
    )


# ----------------------------------------------------------------------------------------------------------- training


def test_the_learning_rate_warms_up_and_comes_down():
    settings = settings_for("study")
    rates = [learning_rate(step, settings) for step in range(settings.steps)]
    assert rates[0] == settings.lr / settings.warmup and max(rates) == rates[settings.warmup] == settings.lr
    assert rates[: settings.warmup] == sorted(rates[: settings.warmup])
    assert rates[settings.warmup :] == sorted(rates[settings.warmup :], reverse=True)
    assert rates[-1] == pytest.approx(settings.lr / 10, rel=0.01)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_on_every_task(method, task):
    if METHODS[method].causal_only and not METHODS[method].both_ways and not TASKS[task].causal:
        with pytest.raises(posenc.UnsupportedError, match="causal=False"):
            train(method, "nano", task=task, progress=False, **TINY_TASK)
        return
    model, history = train(method, "nano", task=task, progress=False, **TINY_TASK)
    assert isinstance(model, Decoder if TASKS[task].causal else Encoder) and not model.training
    assert len(history["loss"]) == 4 and all(0 < loss < 20 for loss in history["loss"])
    assert history["task"] == task and history["settings"] == settings_for("nano", task, **TINY_TASK)
    before = build(method, history["settings"], task).state_dict()
    assert all(not torch.equal(weight, before[name]) for name, weight in model.state_dict().items() if "to_q" in name)


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


def test_training_learns_more_than_letter_counts(nano):
    model, history = nano
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


def test_a_sample_goes_on_from_its_prompt(nano):
    model, _ = nano
    text = sample(model, prompt="The list ", length=40, window=32)
    assert text.startswith("The list ") and len(text) == 49
    assert text == sample(model, prompt="The list ", length=40, window=32)


def test_the_same_seed_gives_the_same_weights():
    runs = [train("alibi", preset="nano", seed=seed, progress=False, **QUICK) for seed in (1, 1, 2)]
    assert runs[0][1]["loss"] == runs[1][1]["loss"] != runs[2][1]["loss"]
    assert same_weights(runs[0][0], runs[1][0]) and not same_weights(runs[0][0], runs[2][0])


def test_methods_start_from_the_same_weights_and_read_the_same_batches(monkeypatch):
    read = {}

    def recorded(method):
        model = build(method, TINY)
        model.register_forward_pre_hook(lambda module, args: read.setdefault(method, []).append(args[0]))
        return model

    for method in ("nope", "rope"):
        model = recorded(method)
        monkeypatch.setattr(train_module, "build", lambda *args, model=model: model)
        read[f"{method} start"] = copy.deepcopy(model.state_dict())
        train_with(method, TINY, seed=0, progress=False)
    assert all(torch.equal(read["nope start"][key], read["rope start"][key]) for key in read["nope start"])
    assert len(read["nope"]) == TINY.steps and all(torch.equal(a, b) for a, b in zip(read["nope"], read["rope"]))
    assert not torch.equal(read["nope"][0], read["nope"][1])


def test_the_seed_alone_decides_the_first_weights():
    weights = []
    for state, seed in ((7, 1), (8, 1), (8, 2)):
        torch.manual_seed(state)
        weights.append(build("nope", TINY, seed=seed).head.weight)
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[1], weights[2])


def test_training_leaves_the_random_state_alone():
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    train_with("nope", TINY, progress=False)
    assert torch.equal(torch.rand(3), wanted)


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

    drawn = []

    def display(figure, display_id):
        drawn.append(figure)
        return types.SimpleNamespace(update=drawn.append)

    plot_loss([1.0])  # matplotlib asks IPython who it is when it draws first; our stand-in is no full answer
    monkeypatch.setattr(IPython.display, "display", display)
    monkeypatch.setattr(IPython, "get_ipython", lambda: None)
    train("nope", preset="nano", live=True, progress=False, **QUICK)
    assert drawn == []
    monkeypatch.setattr(IPython, "get_ipython", lambda: types.SimpleNamespace(kernel=object()))
    train("nope", preset="nano", live=True, progress=False, **QUICK)
    assert len(drawn) >= 2 and all(isinstance(figure, matplotlib.figure.Figure) for figure in drawn)
    assert len(drawn[-1].axes[0].lines[0].get_xdata()) == QUICK["steps"]


def test_the_live_curve_is_silent_without_ipython(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    curve = LiveCurve(10, "rope")
    curve.draw([1.0] * 10)
    assert curve.handle is None


# -------------------------------------------------------------------------------------------------------- checkpoints


@pytest.fixture
def trained(tmp_path):
    """A finished tiny run with its checkpoint: (model, history, path)."""
    path = tmp_path / "run.pt"
    model, history = train_with("rope", TINY, seed=1, progress=False, checkpoint=path, options={"base": 50.0})
    return model, history, path


def test_a_checkpoint_holds_the_trained_model(trained):
    model, history, path = trained
    loaded, told = load(path)
    tokens = torch.arange(12)[None]
    assert same_weights(model, loaded) and not loaded.training and torch.equal(model(tokens), loaded(tokens))
    assert not torch.equal(loaded(tokens), build("rope", TINY, seed=1)(tokens))
    assert {**history, "seconds": 0} == {**told, "seconds": 0} and 0 < told["seconds"] <= history["seconds"]
    assert [file.name for file in path.parent.iterdir()] == ["run.pt"]


def test_a_finished_run_is_not_trained_again(trained, monkeypatch):
    model, history, path = trained
    before = path.read_bytes()
    monkeypatch.setattr(train_module, "learning_rate", lambda *args: pytest.fail("a step was taken"))
    again, told = train_with("rope", TINY, seed=1, progress=False, checkpoint=path, options={"base": 50.0})
    assert same_weights(model, again) and told["loss"] == history["loss"] and path.read_bytes() == before


def test_an_encoder_s_checkpoint_gives_an_encoder(tmp_path):
    settings = settings_for("nano", "masked", **TINY_TASK)
    path = tmp_path / "run.pt"
    model, _ = train_with("alibi", settings, 0, "masked", progress=False, checkpoint=path)
    loaded, told = load(path)
    assert isinstance(loaded, Encoder) and same_weights(model, loaded) and told["settings"] == settings


@pytest.mark.parametrize("where", ["torch.save", "os.replace", "os.fsync"])
def test_an_interruption_while_writing_leaves_the_old_checkpoint(trained, where, monkeypatch):
    _, _, path = trained
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
    assert path.read_bytes() == before
    monkeypatch.undo()
    write_checkpoint(path, state | {"seconds": 9.0})  # what the interruption left is no obstacle
    assert read_checkpoint(path)["seconds"] == 9.0


class Code:
    """Unpickled, it makes a file."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return (open, (self.marker, "w"))


DAMAGES = {
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-3000]),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "text": lambda path: path.write_text("loss 3.2\n"),
    "pickle with code": lambda path: path.write_bytes(pickle.dumps(Code(str(path.with_name("ran"))))),
    "checkpoint with code": lambda path: torch.save(
        torch.load(path, weights_only=True) | {"seconds": Code(str(path.with_name("ran")))}, path
    ),
    "foreign weights": lambda path: torch.save(build("rope", TINY).state_dict(), path),
    "foreign list": lambda path: torch.save([1, 2], path),
    "another version": lambda path: torch.save(
        torch.load(path, weights_only=True) | {"format": "posenc checkpoint 0"}, path
    ),
    "lacks losses": lambda path: torch.save(torch.load(path, weights_only=True) | {"losses": torch.zeros(2)}, path),
    "lacks the optimizer": lambda path: torch.save(
        {key: value for key, value in torch.load(path, weights_only=True).items() if key != "optimizer"}, path
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_or_foreign_checkpoint_is_refused_and_left(trained, damage, monkeypatch):
    path = trained[2]
    DAMAGES[damage](path)
    before = path.read_bytes()
    monkeypatch.setattr(train_module, "learning_rate", lambda *args: pytest.fail("a step was taken"))
    for call in (
        lambda: load(path),
        lambda: train_with("rope", TINY, seed=1, progress=False, checkpoint=path, options={"base": 50.0}),
    ):
        with pytest.raises(ValueError) as caught:
            call()
        assert f"{path} is no whole posenc checkpoint" in str(caught.value)
        assert path.read_bytes() == before and [file.name for file in path.parent.iterdir()] == ["run.pt"]


@pytest.mark.parametrize(
    "other, words",
    [
        (dict(seed=2), "seed=1, not 2"),
        (dict(method="nope", options=None), "method='rope', not 'nope'"),
        (dict(task="flipflop", settings=settings_for("nano", "flipflop")), "task='text', not 'flipflop'"),
        (dict(settings=dataclasses.replace(TINY, lr=0.01)), "lr=0.003, not 0.01$"),
        (dict(options={"base": 60.0}), "options={'base': 50.0}, not {'base': 60.0}"),
    ],
)
def test_another_run_s_checkpoint_is_refused_and_left(trained, other, words):
    path = trained[2]
    before = path.read_bytes()
    mine = {"method": "rope", "settings": TINY, "seed": 1, "options": {"base": 50.0}}
    with pytest.raises(ValueError) as caught:
        train_with(**mine | other, progress=False, checkpoint=path)
    assert f"{path} is another run's" in str(caught.value) and words.strip("$") in str(caught.value)
    if words.endswith("$"):
        assert str(caught.value).count("=") == 1  # nothing else is said to differ
    assert path.read_bytes() == before


def test_a_checkpoint_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere.pt.*no such checkpoint"):
        load(tmp_path / "nowhere.pt")


@pytest.fixture
def ctrl_c():
    """Ctrl-C as in a terminal: a shell makes what it starts in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
@pytest.mark.parametrize("at", [0, 3, 5])
def test_a_signal_saves_the_run_which_then_goes_on_as_if_nothing_had_been(number, at, ctrl_c, tmp_path, monkeypatch):
    whole, history = train_with("alibi", TINY, seed=4, progress=False)
    path, rate = tmp_path / "run.pt", learning_rate
    handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]

    def signalled(step, settings):
        if step == at:
            signal.raise_signal(number)
        return rate(step, settings)

    monkeypatch.setattr(train_module, "learning_rate", signalled)
    with pytest.raises(KeyboardInterrupt, match="saved to"):
        train_with("alibi", TINY, seed=4, progress=False, checkpoint=path)
    assert read_checkpoint(path)["step"] == at + 1
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == handlers
    monkeypatch.undo()
    model, told = train_with("alibi", TINY, seed=4, progress=False, checkpoint=path)
    assert same_weights(model, whole) and told["loss"] == history["loss"]


def test_a_signal_in_the_very_last_step_is_not_swallowed(tmp_path, monkeypatch):
    def note(state):  # the last thing that is done in a step
        signal.raise_signal(signal.SIGTERM)

    path = tmp_path / "run.pt"
    write = write_checkpoint
    monkeypatch.setattr(train_module, "write_checkpoint", lambda *given: (write(*given), note(given)))
    with pytest.raises(KeyboardInterrupt, match="after the last step"):
        train_with("nope", TINY, progress=False, checkpoint=path)
    assert read_checkpoint(path)["step"] == TINY.steps


def test_without_a_checkpoint_a_signal_stops_at_once(ctrl_c, monkeypatch):
    monkeypatch.setattr(train_module, "learning_rate", lambda *args: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt, match="^$"):
        train_with("nope", TINY, progress=False)


def test_a_killed_run_goes_on_to_the_same_weights(tmp_path):
    """kill -9 at seeded random moments, and the same command again."""
    rng = random.Random(7)

    def command(path):
        sizes = "steps=400", "dim=32", "length=32", "batch=8", "windows=4"
        run = ["-m", "posenc.lab.train", "run", "--method", "rope", "--task", "text", "--preset", "nano", "--seed", 5]
        return start(*run, "--set", *sizes, "--save-every", 0.05, "--out", path)

    whole, killed = tmp_path / "whole.pt", tmp_path / "killed.pt"
    finish(command(whole))
    steps = []
    for _ in range(3):
        process, before = command(killed), killed.stat().st_mtime_ns if killed.exists() else 0
        wait_for(lambda: killed.exists() and killed.stat().st_mtime_ns > before, process)  # noqa: B023
        time.sleep(rng.uniform(0, 0.15))
        process.send_signal(signal.SIGKILL)
        finish(process, -signal.SIGKILL)
        steps.append(read_checkpoint(killed)["step"])
    assert 0 < steps[0] < steps[1] < steps[2] < 400, steps
    assert "400 steps" in finish(command(killed))
    a, b = read_checkpoint(whole), read_checkpoint(killed)
    assert torch.equal(a["losses"], b["losses"]) and len(a["losses"]) == 400
    assert a["model"].keys() == b["model"].keys()
    assert all(torch.equal(a["model"][key], b["model"][key]) for key in a["model"])
    assert torch.equal(a["batches"], b["batches"]) and a["config"] == b["config"]


# ------------------------------------------------------------------------------------------- many processes, one run

SHARED = {"dim": 16, "num_layers": 1, "num_heads": 2, "length": 32, "batch": 6, "steps": 25, "warmup": 3, "windows": 4}


@pytest.mark.parametrize("task", ["flipflop", pytest.param("text", marks=pytest.mark.slow)])
def test_two_processes_give_the_loss_curve_of_one(task, tmp_path):
    """Flip-flop scores more tokens in one sequence than in the next: the loss must be the whole batch's mean."""
    command = ["run", "--method", "rope", "--task", task, "--preset", "nano", "--out", tmp_path / "run.pt"]
    output = finish(start_train(tmp_path, SHARED, command, processes=2))
    shared, told = load(tmp_path / "run.pt")
    assert SHARED.items() <= dataclasses.asdict(told["settings"]).items()
    alone, history = train_with("rope", told["settings"], task=task, progress=False)
    assert told["loss"] == pytest.approx(history["loss"], abs=1e-4) and len(told["loss"]) == SHARED["steps"]
    assert told["loss"] != history["loss"]  # sums in another order: two processes did share it
    for key, weight in alone.state_dict().items():
        torch.testing.assert_close(shared.state_dict()[key], weight, rtol=0, atol=2e-3)
    assert output.count("run.pt: 25 steps") == 1  # one of them tells


def test_a_batch_that_does_not_divide_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(distributed, "get_rank", lambda: 0)
    monkeypatch.setattr(distributed, "get_world_size", lambda: 3)
    monkeypatch.setattr(train_module, "build", lambda *args: pytest.fail("a model was built"))
    with pytest.raises(ValueError, match="batch=4 must be a multiple of the 3 processes"):
        train_with("rope", TINY, together=True, checkpoint=tmp_path / "run.pt", progress=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_signal_to_one_process_stops_all_after_the_same_step(tmp_path):
    path = tmp_path / "run.pt"
    command = ["run", "--method", "nope", "--preset", "nano", "--save-every", "0.05", "--out", path]
    process = start_train(tmp_path, SHARED | {"steps": 10**6}, command, processes=2)
    wait_for(path.exists, process)
    os.kill(workers(process)[-1], signal.SIGTERM)
    output = finish(process, None)
    said = re.findall(r"KeyboardInterrupt: stopped after step (\d+)", output)
    assert len(said) >= 2 and set(said) == {str(read_checkpoint(path)["step"])}, output


# -------------------------------------------------------------------------------------------------------- the command


@pytest.mark.parametrize("task", ["text", "masked", "flipflop"])
def test_the_command_trains_one_model_and_tells_how_it_does(task, tmp_path, capsys):
    path = tmp_path / "runs" / "new.pt"
    sizes = [f"{key}={value}" for key, value in TINY_TASK.items()]
    main(
        [
            "run",
            "--method",
            "alibi",
            "--task",
            task,
            "--preset",
            "nano",
            "--seed",
            "2",
            "--set",
            *sizes,
            "--out",
            str(path),
        ]
    )
    said = capsys.readouterr().out.split("\n")
    model, history = load(path)
    assert history["task"] == task and history["seed"] == 2 and len(history["loss"]) == TINY_TASK["steps"]
    assert said[0].startswith(f"{path}: 4 steps, last loss {history['loss'][-1]:.4f}")
    expected = {
        "text": [f"{kind} {32 * n}" for kind in ("whole", "cut") for n in (1, 2, 4, 8)],
        "masked": [f"loss {32 * n}" for n in (1, 2, 4, 8)],
        "flipflop": [f"error {name}" for name in TASKS["flipflop"].tests(32)],
    }
    told = {line[:14].strip(): line for line in said[1:] if line}
    assert [" ".join(line.split()[:-1]) for line in said[1:] if line] == expected[task] and told
    assert all(0 <= float(line.split()[-1]) < 20 for line in said[1:] if line)


def test_the_command_names_its_checkpoint_by_the_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(train_module.PRESETS, "nano", TINY)
    main(["run", "--method", "nope", "--preset", "nano", "--seed", "3"])
    assert load("runs/text-nope-nano-3.pt")[1]["settings"] == TINY


@pytest.mark.parametrize(
    "arguments, words",
    [
        ("train --method rope", "invalid choice: 'train'"),
        ("run", "required: --method"),
        ("run --method ropes", "invalid choice: 'ropes'"),
        ("run --method rope --task flipflap", "invalid choice: 'flipflap'"),
        ("run --method rope --preset big", "invalid choice: 'big'"),
        ("run --method rope --set steps", "must be NAME=NUMBER"),
        ("run --method rope --set steps=many", "must be NAME=NUMBER"),
        ("run --method rope --set step=9", "Did you mean 'steps'"),
        ("run --method rope --set steps=9.5", "steps=9.5 must be an int"),
        ("run --method rope --set windows=5000", "windows=5000 of"),
        ("run --method rope --task needle --set length=8 targets=8", "length=8 is too short for needles=4"),
        ("run --method rope --seed -1", "seed=-1"),
        ("run --method rope --save-every -1", "save_every=-1"),
        ("sweep flipflops", "invalid choice: 'flipflops'"),
        ("sweep flipflop --preset big", "invalid choice: 'big'"),
        ("sweep flipflop --methods ropes", r"methods='ropes'.* Did you mean 'rope'"),
        ("sweep flipflop --seeds 0", "--seeds=0"),
        ("sweep masked --methods rope", "must hold 'nope'"),
    ],
)
def test_the_command_refuses_what_cannot_be_and_writes_nothing(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(train_module, "learning_rate", lambda *args: pytest.fail("a step was taken"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises((SystemExit, ValueError, TypeError)) as caught:
        main(arguments.split())
    said = capsys.readouterr().err if caught.type is SystemExit else str(caught.value)
    assert re.search(words, said), said
    assert list(tmp_path.iterdir()) == []
