"""The trainer: settings, seeds, checkpoints, processes that share a run, the command."""

import copy
import dataclasses
import os
import pickle
import re
import statistics
import subprocess
import sys

import pytest
import torch
from train_runs import SIZES, TINY, TINY_TASK

import posenc
from posenc import METHODS
from posenc.lab.train import PRESETS, build, load, pick_device, sample, settings_for, tiny, train, train_with, trainer
from posenc.lab.train.checkpoints import read_checkpoint
from posenc.lab.train.command import main
from posenc.lab.train.tasks import TASKS, load_corpus
from posenc.lab.train.trainer import check_task, learning_rate
from posenc.methods import on_text


def same(tensors, others):
    return tensors.keys() == others.keys() and all(torch.equal(tensors[key], others[key]) for key in tensors)


def same_weights(*models):
    return same(*(model.state_dict() for model in models))


@pytest.fixture
def no_step(monkeypatch):
    """A step is a failure."""
    monkeypatch.setattr(trainer, "learning_rate", lambda *args: pytest.fail("a step was taken"))


@pytest.mark.parametrize(
    "changes, error, words",
    [
        ({"num_heads": 5}, ValueError, "num_heads=5 .*dim=96"),
        ({"warmup": 300}, ValueError, "warmup=300 .*steps=300"),
        ({"held_back": 10**6}, ValueError, "held_back=1000000"),
        ({"targets": 65}, ValueError, "targets=65 .*length=64"),
        ({"multiples": (1, 3, 8)}, ValueError, "multiples.* 3 .*divide.* 8"),
        ({"step": 3}, ValueError, "step=3 .*'steps'"),
        ({"length": 10**6, "targets": 1}, ValueError, "length=1000000"),
        ({"method": "ropes"}, ValueError, "'ropes' .*'rope'"),
        ({"method": "liere"}, posenc.UnsupportedError, "2 axes.*glyphs"),
        ({"method": lambda layer: "rope", "checkpoint": None}, TypeError, "make_encoding.*Encoding"),
        ({"method": lambda layer: posenc.make("nope")}, TypeError, "checkpoint: method=.*name"),
        ({"options": {"bass": 5.0}}, ValueError, "bass=5.0 .*'base'"),
        ({"device": "gpu"}, ValueError, "device='gpu' .*'cuda'"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_what_cannot_be_is_told_before_the_first_step(changes, error, words, no_step, tmp_path):
    with pytest.raises(error, match=words):
        train(**{"method": "rope", "progress": False, "checkpoint": tmp_path / "run.pt"} | changes)
    assert list(tmp_path.iterdir()) == []


def test_an_absent_gpu_is_refused_not_replaced(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pick_device() == torch.device("cpu")
    with pytest.raises(posenc.UnsupportedError, match="device='cuda'"):
        pick_device("cuda")


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_has_settings_for_every_task(preset):
    for task in TASKS:
        settings = settings_for(preset, task)
        check_task(TASKS[task], settings)
        assert (settings.length, settings.lr) == (PRESETS[preset].length, PRESETS[preset].lr)
        assert settings_for(preset, task, steps=7777).steps == 7777


def test_the_learning_rate_warms_up_and_comes_down():
    settings = settings_for("study")
    rates = [learning_rate(step, settings) for step in range(settings.steps)]
    assert rates[0] == settings.lr / settings.warmup and max(rates) == rates[settings.warmup] == settings.lr
    assert rates[settings.warmup :] == sorted(rates[settings.warmup :], reverse=True)
    assert rates[-1] == pytest.approx(settings.lr / 10, rel=0.01)


def test_no_steps_leave_every_weight_where_it_started(monkeypatch):
    monkeypatch.setenv("POSENC_STEPS", "0")
    model, history = train("rope", "nano", progress=False)
    before = build("rope", settings_for("nano"), "text").state_dict()
    assert len(history["loss"]) == 1 and all(torch.equal(model.state_dict()[name], x) for name, x in before.items())


def trains(method, task):
    model, history = train(method, "nano", task=task, progress=False, **TINY_TASK)
    assert isinstance(model, tiny.Decoder if TASKS[task].causal else tiny.Encoder) and not model.training
    assert len(history["loss"]) == 4 and all(0 < loss < 20 for loss in history["loss"])
    assert history["task"] == task and history["settings"] == settings_for("nano", task, **TINY_TASK)
    before = build(method, history["settings"], task).state_dict()
    assert all(not torch.equal(weight, before[name]) for name, weight in model.state_dict().items() if "to_q" in name)


@pytest.mark.parametrize("method, task", [(method, "flipflop") for method in on_text()] + [("rope", t) for t in TASKS])
def test_every_method_and_task_trains(method, task):
    trains(method, task)


@pytest.mark.parametrize("method", on_text())
def test_a_method_trains_both_ways_or_says_why_not(method):
    if METHODS[method].causal_only and not METHODS[method].both_ways:
        with pytest.raises(posenc.UnsupportedError, match="causal=False"):
            trains(method, "masked")
    else:
        trains(method, "masked")


GOLDEN = {
    ("rope", "text"): [4.883034, 4.347486, 3.905623],
    ("fox", "flipflop"): [1.877971, 1.07012, 1.027699],
    ("nope", "needle"): [4.701487, 4.420052, 4.164224],
    ("nope", "selective_copy"): [3.04364, 3.068849, 2.942003],
}


@pytest.mark.parametrize("method, task", GOLDEN)
def test_the_first_losses_are_those_that_frozen_results_began_with(method, task):
    r"""Whoever changes what a seed trains makes every frozen result another: then these change with them."""
    _, history = train(method, "nano", task=task, steps=3, warmup=1, device="cpu", progress=False)
    assert history["loss"] == pytest.approx(GOLDEN[method, task], rel=1e-5)


def test_the_loss_is_the_mean_over_scored_tokens():
    settings = settings_for("nano", "flipflop", **TINY_TASK)
    _, history = train_with("rope", settings, seed=3, task="flipflop", progress=False)
    tokens, targets = TASKS["flipflop"].batch(torch.Generator().manual_seed(3), settings.batch, settings.length)
    chances = build("rope", settings, "flipflop", seed=3)(tokens).log_softmax(-1)
    places = [(b, t) for b in range(settings.batch) for t in range(settings.length) if targets[b, t] >= 0]
    scored = [-chances[b, t, targets[b, t]].item() for b, t in places]
    assert history["loss"][0] == pytest.approx(statistics.mean(scored), abs=1e-5)


def test_the_seed_alone_decides_and_the_random_state_is_left_alone():
    runs = []
    for state, seed in ((7, 1), (8, 1), (8, 2)):
        torch.manual_seed(state)
        runs.append(train_with("alibi", TINY, seed=seed, progress=False)[0])
        after = torch.rand(3)
        torch.manual_seed(state)
        assert torch.equal(torch.rand(3), after)
    assert same_weights(runs[0], runs[1]) and not same_weights(runs[1], runs[2])


def test_make_encoding_of_your_own_trains_in_sight(capfd):
    shared = posenc.make("stickbreaking")
    model, _ = train_with(lambda layer: shared, TINY)
    assert "6/6" in capfd.readouterr().err and model.blocks[0].attention.encoding is shared
    text = sample(model, prompt="The list ", length=40, window=32)
    assert capfd.readouterr() == ("", "") and text.startswith("The list ") and len(text) == 49


def step_of(method, **changes):
    """How far each parameter moves in one step, by name."""
    settings = dataclasses.replace(TINY, **changes)
    run = trainer.Run(method, settings, 0, "text", torch.device("cpu"), None, False, posenc.SelfAttention)
    before = copy.deepcopy(dict(run.model.named_parameters()))
    run.step()
    return {name: (new - before[name]).detach() for name, new in run.model.named_parameters()}


def test_an_encoding_s_own_parameters_have_a_rate_of_their_own():
    (table,) = tiny.own_parameters(build("t5", TINY), TINY)
    plain, quick = step_of("t5"), step_of("t5", own=10.0)
    torch.testing.assert_close(quick.pop(table), 10 * plain.pop(table), rtol=1e-3, atol=1e-6)
    assert same(plain, quick) and same(step_of("rope"), step_of("rope", own=10.0))  # which has none


def test_what_is_held_back_is_not_read(monkeypatch):
    texts = []
    monkeypatch.setattr(type(TASKS["text"]), "batch", lambda self, *given, **options: texts.append(options) or 1 / 0)
    for held_back in (0, 300):
        with pytest.raises(ZeroDivisionError):
            train_with("nope", dataclasses.replace(TINY, held_back=held_back), progress=False)
    assert texts[0] == {} and torch.equal(texts[1]["text"], load_corpus().train[:-300])


def test_a_rate_too_high_stops_with_the_step_and_the_remedy():
    settings = dataclasses.replace(TINY, steps=200, lr=1e9)
    with pytest.raises(FloatingPointError, match=r"loss is (nan|inf) at step \d+ of 200, .*lr=1e\+09.*smaller lr"):
        train_with("rope", settings, progress=False)


OPTIONS = {"base": 50.0}


def go_on(path, **changes):
    given = {"method": "rope", "settings": TINY, "seed": 1, "options": OPTIONS} | changes
    return train_with(**given, progress=False, checkpoint=path)


@pytest.mark.parametrize("method, changes", [("rope", {}), ("t5", {"own": 10.0, "held_back": 999})])
def test_an_interrupted_run_goes_on_as_if_nothing_had_been(method, changes, tmp_path, monkeypatch):
    given = {"method": method, "settings": dataclasses.replace(TINY, **changes), "seed": 4, "progress": False}
    whole, history = train_with(**given)

    def stop(step, settings):
        if step == 3:
            raise KeyboardInterrupt
        return learning_rate(step, settings)

    monkeypatch.setattr(trainer, "learning_rate", stop)
    with pytest.raises(KeyboardInterrupt):
        train_with(**given, checkpoint=tmp_path / "run.pt", save_every=0)
    monkeypatch.undo()
    assert len(read_checkpoint(tmp_path / "run.pt")["losses"]) == 3
    model, record = train_with(**given, checkpoint=tmp_path / "run.pt")
    assert same_weights(model, whole) and record["loss"] == history["loss"]
    copied, found = load(tmp_path / "run.pt")
    assert same_weights(copied, whole) and not copied.training and record["seconds"] >= found["seconds"] > 0
    assert found | {"seconds": 0} == record | {"seconds": 0}


class Code:
    """Unpickled, it makes a file."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return open, (self.marker, "w")


def test_a_finished_run_is_not_trained_again_and_another_run_s_or_damaged_checkpoint_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "run.pt"
    go_on(path)
    whole = path.read_bytes()
    monkeypatch.setattr(trainer, "learning_rate", lambda *args: pytest.fail("a step was taken"))
    go_on(path)
    for changes, words in (
        ({"seed": 2}, "is another run's: seed=1, not 2. "),
        ({"method": "nope", "options": None}, "method='rope', not 'nope'"),
        ({"settings": dataclasses.replace(TINY, lr=0.01)}, "is another run's: lr=0.003, not 0.01. "),
        ({"options": {"base": 60.0}}, "options={'base': 50.0}, not {'base': 60.0}"),
    ):
        with pytest.raises(ValueError, match=f"{path} .*{re.escape(words)}"):
            go_on(path, **changes)
    assert path.read_bytes() == whole
    torch.save(Code(tmp_path / "ran"), path)
    for data in (path.read_bytes(), whole[: len(whole) // 2], b"", pickle.dumps(Code(tmp_path / "ran"))):
        path.write_bytes(data)
        for reader in (load, go_on):
            with pytest.raises(ValueError, match="run.pt is no whole posenc checkpoint .*another file"):
                reader(path)
        assert path.read_bytes() == data and list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileNotFoundError, match="nowhere.pt"):
        load(path.with_name("nowhere.pt"))


SHARED = SIZES | {"length": 32, "batch": 6, "steps": 25, "warmup": 3}


@pytest.mark.weekly
def test_two_processes_give_the_loss_curve_of_one(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "posenc.lab.train", "run", "--method", "rope", "--task", "flipflop", "--preset", "nano"]
    command += ["--out", tmp_path / "run.pt", "--set", *(f"{key}={value}" for key, value in SHARED.items())]
    output = subprocess.run(
        command, env=os.environ | {"OMP_NUM_THREADS": "1"}, text=True, stdout=subprocess.PIPE
    ).stdout
    shared, record = load(tmp_path / "run.pt")
    alone, history = train_with("rope", record["settings"], task="flipflop", progress=False)
    assert record["loss"] == pytest.approx(history["loss"], abs=1e-4) and len(record["loss"]) == SHARED["steps"]
    assert record["loss"] != history["loss"]  # sums in another order: two processes did share it
    for key, weight in alone.state_dict().items():
        torch.testing.assert_close(shared.state_dict()[key], weight, rtol=0, atol=2e-3)
    assert output.count("run.pt: 25 steps") == 1  # one of them tells


@pytest.mark.parametrize(
    "task, tests",
    [
        ("text", [f"{kind} {32 * n}" for kind in ("whole", "cut") for n in (1, 2, 4, 8)]),
        ("masked", [f"loss {32 * n}" for n in (1, 2, 4, 8)]),
        ("flipflop", [f"error {name}" for name in TASKS["flipflop"].tests(32)]),
    ],
)
def test_the_command_trains_one_model_and_tells_how_it_does(task, tests, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sizes = [f"{key}={value}" for key, value in TINY_TASK.items()]
    main(["run", "--method", "alibi", "--task", task, "--preset", "nano", "--seed", "2", "--set", *sizes])
    first, *lines = capsys.readouterr().out.strip().split("\n")
    _, history = load(f"runs/{task}-alibi-nano-2.pt")
    assert history["task"] == task and history["seed"] == 2 and f"{history['loss'][-1]:.4f}" in first
    assert [" ".join(line.split()[:-1]) for line in lines] == tests


@pytest.mark.parametrize("words", ["--method ropes", "--set steps", "--set steps=many", "--set step=9", "--device gpu"])
def test_the_command_refuses_what_cannot_be_and_writes_nothing(words, no_step, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((SystemExit, ValueError)) as caught:
        main(["run", "--method", "rope", *words.split()])
    told = capsys.readouterr().err if caught.type is SystemExit else str(caught.value)
    assert words.split()[1].split("=")[0] in told and list(tmp_path.iterdir()) == []
