"""The trainer, the fair test it is followed by, and the frozen results."""

import copy
import json
import math
import statistics
import sys
import types
from concurrent.futures import Future

import matplotlib.figure
import pytest
import torch

import posenc
from posenc import train as train_module
from posenc.experiments import PREDICTIONS, TOLERANCE, check_results, load_results, verdict
from posenc.measure import KINDS, check_windows, head_scores, held_out_windows, short_long, target_losses
from posenc.plots import plot_loss, plot_short_long
from posenc.tasks import load_corpus
from posenc.train import (
    PRESETS,
    LiveCurve,
    Settings,
    build,
    encoding_maker,
    learning_rate,
    main,
    pick_device,
    sample,
    settings_for,
    train,
)

TINY = Settings(
    dim=16, num_layers=1, num_heads=2, length=16, batch=4, steps=6, warmup=2, multiples=(1, 2, 4), windows=4, targets=8
)
QUICK = {"steps": 12, "warmup": 2}


@pytest.fixture(scope="module")
def corpus():
    return load_corpus()


@pytest.fixture(scope="module")
def nano():
    """A RoPE model at preset nano, trained once for this file."""
    return train("rope", preset="nano", progress=False)


# ------------------------------------------------------------------------------------------------ settings and corpus


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
        ({"multiples": (1, 3, 8)}, ValueError, "3 must divide the last, 8"),
        ({"multiples": (0.5, 1)}, TypeError, "multiples=0.5 must be an int"),
        ({"step": 3}, ValueError, r"step=3 is no setting; .* Did you mean 'steps'\?"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_bad_settings_are_named_before_the_first_step(changes, error, words, monkeypatch):
    monkeypatch.setattr(train_module, "build", lambda *args: pytest.fail("a model was built"))
    with pytest.raises(error, match=words):
        train("rope", preset="lab", **changes)


@pytest.mark.parametrize(
    "arguments, error, words",
    [
        (dict(method="ropes"), ValueError, r"'ropes' is no method; .* Did you mean 'rope'\?"),
        (dict(method="rope", preset="labs"), ValueError, r"preset='labs' .* Did you mean 'lab'\?"),
        (dict(method="rope", seed=-1), ValueError, "seed=-1"),
        (dict(method="rope", device="warp"), RuntimeError, "warp"),
        (dict(method="rope", length=10**6, targets=1), ValueError, "length=1000000 must be less than the"),
        (dict(method=lambda layer: "rope"), TypeError, r"make_encoding\(0\) must return an Encoding"),
    ],
)
def test_bad_arguments_are_named(arguments, error, words):
    with pytest.raises(error, match=words):
        train(**arguments, progress=False)


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
    assert asked == [("cuda", torch.bfloat16, native)]


def test_methods_get_the_sizes_they_ask_for():
    settings = settings_for("study", dim=64, num_heads=2)
    assert encoding_maker("rope", settings)(0).rotate.inv_freq.shape == (16,)
    assert encoding_maker("alibi", settings)(0).bias.slopes.shape == (2,)
    assert encoding_maker("nope", settings)(0).places == ()
    assert encoding_maker("rope", settings)(0) is not encoding_maker("rope", settings)(0)


def test_the_corpus_is_split_by_topic_and_no_paragraph_stands_on_both_sides(corpus):
    both = [{p for p in corpus.decode(part).split("\n\n") if len(p) > 60} for part in (corpus.train, corpus.held_out)]
    assert all(len(side) > 50 for side in both) and not both[0] & both[1]
    characters = len(corpus.train) + len(corpus.held_out)
    assert 0.09 < len(corpus.held_out) / characters < 0.14
    assert len(set(corpus.vocabulary)) == len(corpus.vocabulary) == int(corpus.train.max()) + 1
    again = load_corpus.__wrapped__()
    assert again.sha256 == corpus.sha256 and torch.equal(again.train, corpus.train)


def test_the_corpus_reads_back_and_names_a_foreign_character(corpus):
    assert corpus.decode(corpus.encode("The if statement\n")) == "The if statement\n"
    with pytest.raises(ValueError, match="'☃'"):
        corpus.encode("a ☃")


def test_a_python_without_the_topics_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(FileNotFoundError, match="pydoc_data.topics, the corpus, is missing"):
        load_corpus.__wrapped__()


# ----------------------------------------------------------------------------------------------------------- training


def test_the_learning_rate_warms_up_and_comes_down():
    settings = settings_for("study")
    rates = [learning_rate(step, settings) for step in range(settings.steps)]
    assert rates[0] == settings.lr / settings.warmup and max(rates) == rates[settings.warmup] == settings.lr
    assert rates[: settings.warmup] == sorted(rates[: settings.warmup])
    assert rates[settings.warmup :] == sorted(rates[settings.warmup :], reverse=True)
    assert rates[-1] == pytest.approx(settings.lr / 10, rel=0.01)


def test_training_learns_more_than_letter_counts(nano, corpus):
    model, history = nano
    counts = torch.bincount(corpus.train).double()
    share = counts[counts > 0] / counts.sum()
    unigram = -(share * share.log()).sum().item()
    assert len(history["loss"]) == PRESETS["nano"].steps and history["seconds"] > 0
    assert statistics.mean(history["loss"][-20:]) < unigram - 0.8
    assert short_long(model, history["settings"])["whole"][0] < unigram - 0.6
    assert not model.training


def test_the_same_seed_gives_the_same_weights():
    runs = [train("alibi", preset="nano", seed=seed, progress=False, **QUICK) for seed in (1, 1, 2)]
    states = [model.state_dict() for model, _ in runs]
    assert runs[0][1]["loss"] == runs[1][1]["loss"] != runs[2][1]["loss"]
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    assert any(not torch.equal(states[0][key], states[2][key]) for key in states[0])


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
        train_module.train_with(method, TINY, seed=0, progress=False)
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
    train("nope", preset="nano", progress=False, **QUICK)
    assert torch.equal(torch.rand(3), wanted)


def test_make_encoding_of_your_own_trains():
    shared = posenc.make("stickbreaking")
    model, history = train(lambda layer: shared, preset="nano", progress=False, **QUICK)
    assert history["loss"][-1] < history["loss"][0] and model.blocks[1].attention.encoding is shared


def test_the_progress_bar_writes_only_when_asked(capfd):
    train("nope", preset="nano", progress=False, **QUICK)
    assert capfd.readouterr() == ("", "")
    train("nope", preset="nano", **QUICK)
    assert "12/12" in capfd.readouterr().err


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


def test_a_sample_goes_on_from_its_prompt(nano):
    model, _ = nano
    text = sample(model, prompt="The list ", length=40, window=32)
    assert text.startswith("The list ") and len(text) == 49
    assert text == sample(model, prompt="The list ", length=40, window=32)


# ----------------------------------------------------------------------------------------------------- the fair test


class Letters(torch.nn.Module):
    """Predicts every character by how common it is, so that a loss tells which characters were the targets."""

    def __init__(self, corpus):
        super().__init__()
        counts = torch.bincount(corpus.train, minlength=len(corpus.vocabulary)).double() + 0.5
        self.logits = torch.nn.Parameter((counts / counts.sum()).log())

    def forward(self, tokens, mask=None, positions=None):
        return self.logits.expand(*tokens.shape, -1)


def test_targets_are_the_same_characters_at_every_length(corpus):
    settings = settings_for("study")
    losses = short_long(Letters(corpus), settings)
    windows = held_out_windows(corpus.held_out, settings)
    expected = -Letters(corpus).logits[windows[:, -settings.targets :]].mean().item()
    assert losses["lengths"] == [64, 128, 256, 512] and losses.keys() - {"lengths"} == KINDS.keys()
    for kind in ("whole", "cut", "early"):
        assert losses[kind] == pytest.approx([expected] * 4, abs=1e-5), kind
    everything = -Letters(corpus).logits[windows[:, 1:]].mean().item()
    assert losses["chopped"] == pytest.approx([everything] * 4, abs=1e-5)
    assert abs(everything - expected) > 1e-3  # else this test could not tell the two apart


def test_targets_of_different_windows_do_not_overlap(corpus):
    for settings in PRESETS.values():
        size = settings.lengths[-1] + 1
        marked = held_out_windows(torch.arange(len(corpus.held_out)), settings)
        assert marked.shape == (settings.windows, size)
        assert len(marked[:, -settings.targets :].unique()) == settings.windows * settings.targets
        assert torch.equal(marked, marked[:, :1] + torch.arange(size))


def test_windows_that_do_not_fit_are_refused(corpus):
    with pytest.raises(ValueError, match="windows=5000 of 512 characters .* fewer windows"):
        check_windows(corpus.held_out, settings_for("study", windows=5000))
    with pytest.raises(ValueError, match="windows=1 of 65536 characters"):
        check_windows(corpus.held_out, settings_for("study", multiples=(1, 1024), windows=1))


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_the_cut_hides_all_that_its_reach_does_not_cover(layers, corpus):
    settings = settings_for("nano", num_layers=layers, length=8, targets=4)
    model = build("rope", settings, seed=3).eval()
    window = corpus.held_out[None, :65]
    cut, last = 8, 63  # the last query reads character 63 and predicts 64
    reach = layers * (cut - 1)
    before = target_losses(model, window, cut=cut)[0, -1]
    for index, hidden in ((last - reach - 1, True), (last - reach, False)):
        other = window.clone()
        other[0, index] = (other[0, index] + 1) % 50
        assert (target_losses(model, other, cut=cut)[0, -1] == before) == hidden, index
        assert target_losses(model, other)[0, -1] != target_losses(model, window)[0, -1]


def test_kinds_agree_where_they_must(nano, corpus):
    model, history = nano
    settings = history["settings"]
    losses = short_long(model, settings)
    windows = held_out_windows(corpus.held_out, settings)
    assert losses["whole"][0] == pytest.approx(losses["cut"][0], abs=1e-6)
    for index, length in enumerate(settings.lengths):
        direct = target_losses(model, windows[:, -(length + 1) :])[:, -settings.targets :].mean().item()
        assert losses["whole"][index] == pytest.approx(direct, abs=1e-5)
    # A longer window that starts at the same character gives early targets the same loss: the future is not seen.
    start = settings.lengths[-1] - settings.targets
    longer = corpus.held_out[held_out_windows(torch.arange(len(corpus.held_out)), settings)[:-1, start:][:, :1]
                             + torch.arange(3 * settings.targets + 1)]  # fmt: skip
    early = target_losses(model, longer)[:, : settings.targets]
    short = target_losses(model, windows[:-1, start:])
    torch.testing.assert_close(early, short, rtol=0, atol=1e-5)


def test_at_nano_size_rope_fails_beyond_its_window_and_the_cut_saves_it(nano):
    model, history = nano
    losses = short_long(model, history["settings"])
    assert losses["whole"][-1] - losses["whole"][0] > 0.2
    assert abs(losses["cut"][-1] - losses["cut"][0]) < 0.05


def test_head_scores_are_the_model_s_own(corpus):
    settings = settings_for("nano", length=8, targets=4)
    model = build("rope", settings, seed=1)
    found = head_scores(model, settings, windows=2, longest=16)
    assert len(found["heads"]) == settings.num_layers * settings.num_heads
    w, size = torch.tensor(found["inv_freq"], dtype=torch.float64), settings.dim // settings.num_heads

    def turned(x, position):  # one vector [D], by the pencil
        a, b = x[0::2], x[1::2]
        cos, sin = (position * w).cos(), (position * w).sin()
        return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten()

    seen = []
    model.blocks[1].attention.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    starts = {8: torch.linspace(0, len(corpus.held_out) - 8, 4).long(), 16: [0, len(corpus.held_out) - 16]}
    for length, begins in starts.items():
        with torch.no_grad():
            model(torch.stack([corpus.held_out[b : b + length] for b in begins]))
    layer, head = model.blocks[1].attention, found["heads"][settings.num_heads + 2]
    assert (head["layer"], head["head"]) == (1, 2)
    by_distance, moved = {d: [] for d in range(16)}, {d: [] for d in (0, 3, 40)}
    for x, distances in ((seen[0], range(8)), (seen[1], range(8, 16))):
        q, k = layer.to_q(x)[..., 2 * size : 3 * size].double(), layer.to_k(x)[..., 2 * size : 3 * size].double()
        for b in range(len(x)):
            for i in range(x.shape[1]):
                for j in range(i + 1):
                    if i - j in distances:
                        score = turned(q[b, i], i) @ turned(k[b, j], j) / math.sqrt(size)
                        by_distance[i - j].append(score.item())
                    for d in moved if len(distances) == 8 and distances[0] == 0 else ():
                        moved[d].append((turned(q[b, i], d) @ k[b, j] / math.sqrt(size)).item())
    for d in range(16):
        assert head["mean"][d] == pytest.approx(statistics.mean(by_distance[d]), abs=2e-4), d
        if len(by_distance[d]) > 1:
            assert head["std"][d] == pytest.approx(statistics.stdev(by_distance[d]), abs=2e-4), d
    for d, scores in moved.items():
        formula = sum(
            c * math.cos(d * v) + s * math.sin(d * v) for c, s, v in zip(head["cos"], head["sin"], w.tolist())
        )
        assert formula == pytest.approx(statistics.mean(scores), abs=2e-4), d


def test_head_scores_refuse_other_methods():
    with pytest.raises(posenc.UnsupportedError, match=r"encodings at \('bias',\)"):
        head_scores(build("alibi", TINY), TINY)


# ----------------------------------------------------------------------------------------------------------- verdicts


def results_with(whole, cut=None):
    seeds = len(whole)
    values = {"whole": whole, "cut": cut or [[row[0]] * len(row) for row in whole]}
    return {
        "seeds": list(range(seeds)), "lengths": [64, 512], "tolerance": 0.05, "methods": {"rope": values},
        "claims": {"rope": "rises"},
    }  # fmt: skip


@pytest.mark.parametrize(
    "name, ends, rises, holds",
    [
        ("a clear rise", (1.50, 1.52, 1.51), "held", "failed"),
        ("level", (1.01, 1.00, 1.00), "failed", "held"),
        ("a fall", (0.90, 0.92, 0.91), "failed", "held"),
        ("a fall with a wide spread", (0.40, 0.90, 0.70), "failed", "held"),
        ("a rise too small to count", (1.030, 1.031, 1.032), "failed", "held"),
        ("seeds that disagree", (1.00, 1.30, 1.02), "within the spread", "within the spread"),
        ("seeds that disagree around less", (1.00, 1.12, 1.00), "within the spread", "within the spread"),
    ],
)
def test_verdict_follows_from_the_numbers(name, ends, rises, holds):
    results = results_with([[1.0, end] for end in ends])
    found = verdict(results, "rope")
    assert found.outcome == rises and verdict(results, "rope", "holds").outcome == holds
    assert found.change == pytest.approx(statistics.mean(end - 1 for end in ends))
    assert found.spread == pytest.approx(statistics.stdev(ends))
    assert found.gap == pytest.approx(found.change)
    assert f"the loss {'rises' if found.change > 0 else 'falls'} by" in found.words
    end = {"held": "held.", "failed": "failed.", "within the spread": "that lies within the spread."}
    assert found.words.endswith(f"Predicted was a rise of more than 0.05 nats: {end[rises]}")
    assert verdict(results, "rope", "holds").words.endswith(
        f"Predicted was no rise of more than 0.05 nats: {end[holds]}"
    )


def test_verdict_measures_the_gap_to_the_cut():
    found = verdict(results_with([[1.0, 1.5], [1.0, 1.7]], cut=[[1.0, 1.6], [1.0, 1.9]]), "rope")
    assert found.gap == pytest.approx(-0.15) and found.gap_spread == pytest.approx(statistics.stdev([-0.1, -0.2]))
    assert "0.150 ± 0.071 nats below" in found.words


def test_verdict_names_what_it_does_not_know():
    with pytest.raises(ValueError, match="method='alibi'"):
        verdict(results_with([[1.0, 2.0]]), "alibi")
    with pytest.raises(ValueError, match="claim='rise' .* Did you mean 'rises'"):
        verdict(results_with([[1.0, 2.0]]), "rope", "rise")


# -------------------------------------------------------------------------------------------------------- the command


class AtOnce:
    """Stands in for the pool of processes: runs each cell when it is submitted, in this one."""

    cancelled = []

    def __init__(self, workers, mp_context):
        AtOnce.cancelled.clear()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

    def submit(self, function, *arguments):
        future = Future()
        future.set_result(function(*arguments))
        return future

    def shutdown(self, cancel_futures):
        AtOnce.cancelled.append(cancel_futures)


@pytest.fixture
def tiny_study(monkeypatch):
    monkeypatch.setitem(train_module.PRESETS, "nano", TINY)
    monkeypatch.setattr(train_module, "ProcessPoolExecutor", AtOnce)
    monkeypatch.setattr(train_module, "as_completed", list)
    monkeypatch.setattr(train_module, "sample", lambda *args, **options: "text")
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    return "short-long --preset nano --seeds 2 --methods nope rope --out".split()


def without_times(results):
    for values in results["methods"].values():
        assert len(values.pop("seconds")) == 2
    return {key: value for key, value in results.items() if key not in ("command", "commit")}


def test_an_interrupted_study_goes_on_where_it_stopped(tiny_study, tmp_path, monkeypatch, capsys):
    whole, resumed = tmp_path / "whole.json", tmp_path / "resumed.json"
    main([*tiny_study, str(whole)])
    write, ran, cell = train_module.write_json, [], train_module.run_cell

    def write_once(path, value):
        write(path, value)
        raise KeyboardInterrupt

    monkeypatch.setattr(train_module, "write_json", write_once)
    with pytest.raises(KeyboardInterrupt):
        main([*tiny_study, str(resumed)])
    assert AtOnce.cancelled == [True]  # leaving the pool must not first run all that is left
    assert not resumed.exists() and len(json.loads((tmp_path / "resumed.json.partial").read_text())["cells"]) == 1

    monkeypatch.setattr(train_module, "write_json", write)
    monkeypatch.setattr(train_module, "run_cell", lambda *given: ran.append(given[:2]) or cell(*given))
    main([*tiny_study, str(resumed)])
    assert ran == [("rope", 0), ("nope", 1), ("rope", 1)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["resumed.json", "whole.json"]
    a, b = (json.loads(path.read_text()) for path in (whole, resumed))
    assert without_times(a) == without_times(b)
    assert a["methods"]["nope"]["whole"] != a["methods"]["rope"]["whole"]
    check_results(b)


def test_a_study_begun_otherwise_is_not_mixed_in(tiny_study, tmp_path):
    out = tmp_path / "r.json"
    (tmp_path / "r.json.partial").write_text(json.dumps({"same": {"settings": "others"}, "cells": {"nope 0": {}}}))
    with pytest.raises(ValueError, match=r"r.json.partial was begun with other settings"):
        main([*tiny_study, str(out)])
    assert not out.exists()


def test_the_command_refuses_what_it_does_not_know(capsys):
    for arguments in (["short-lon"], ["short-long", "--methods", "ropes"], ["short-long", "--preset", "big"]):
        with pytest.raises(SystemExit):
            main(arguments)
        assert "invalid choice" in capsys.readouterr().err
    with pytest.raises(ValueError, match="--seeds=0"):
        main(["short-long", "--seeds", "0"])


def test_rope_heads_are_written(tmp_path, monkeypatch):
    monkeypatch.setitem(train_module.PRESETS, "nano", TINY)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    main(["rope-heads", "--preset", "nano", "--out", str(tmp_path / "heads.json")])
    heads = check_results(json.loads((tmp_path / "heads.json").read_text()))
    assert len(heads["heads"]) == 2 and len(heads["heads"][0]["mean"]) == 256


# ----------------------------------------------------------------------------------------------------- frozen results


def test_frozen_short_long_is_the_study_s():
    results = load_results("train_short_test_long")
    assert results["seeds"] == [0, 1, 2, 3, 4] and results["lengths"] == [64, 128, 256, 512]
    assert results["preset"] == "study" and results["command"].startswith("python -m posenc.train short-long")
    settings = {
        key: list(value) if isinstance(value, tuple) else value for key, value in vars(PRESETS["study"]).items()
    }
    assert results["settings"] == settings and results["tolerance"] == TOLERANCE
    assert list(results["methods"]) == list(PREDICTIONS) == list(results["predictions"])
    for method, (claim, words) in PREDICTIONS.items():
        assert (results["claims"][method], results["predictions"][method]) == (claim, words)
    assert len(results["commit"].split(",")[0]) == 40 and results["corpus"]["sha256"]
    assert len({values["parameters"] for values in results["methods"].values()}) == 1
    for method, values in results["methods"].items():
        assert values["sample"].startswith("The ") and len(values["sample"]) == 204, method
        for whole, cut, early in zip(values["whole"], values["cut"], values["early"]):
            assert whole[0] == pytest.approx(cut[0], abs=1e-5) and len(set(early)) == 1
            assert all(0.5 < loss < 12 for loss in (*whole, *cut, *early))


def test_frozen_verdicts_recompute_by_hand():
    results = load_results("train_short_test_long")
    for method, values in results["methods"].items():
        found = verdict(results, method)
        changes = [row[-1] - row[0] for row in values["whole"]]
        gaps = [whole[-1] - cut[-1] for whole, cut in zip(values["whole"], values["cut"])]
        assert found.change == pytest.approx(statistics.mean(changes))
        assert found.spread == pytest.approx(statistics.stdev(changes))
        assert (found.gap, found.gap_spread) == pytest.approx((statistics.mean(gaps), statistics.stdev(gaps)))


def test_this_python_s_corpus_is_hashed_as_the_results_say(corpus):
    results = load_results("train_short_test_long")
    same_text = len(corpus.train) == results["corpus"]["train_characters"]
    assert (corpus.sha256 == results["corpus"]["sha256"]) == same_text


def test_frozen_heads_are_the_study_s():
    heads, settings = load_results("rope_heads"), PRESETS["study"]
    assert heads["preset"] == "study" and heads["seed"] == 0
    assert len(heads["heads"]) == settings.num_layers * settings.num_heads
    assert len(heads["inv_freq"]) == settings.dim // settings.num_heads // 2
    for head in heads["heads"]:
        assert len(head["mean"]) == len(head["std"]) == 256
        assert len(head["cos"]) == len(head["sin"]) == len(heads["inv_freq"])


def test_an_unknown_result_is_named():
    with pytest.raises(FileNotFoundError, match="Did you mean 'rope_heads'"):
        load_results("rope_head")


def test_broken_results_are_refused():
    results = load_results("train_short_test_long")
    for damage, words in (
        (lambda r: r.pop("commit"), "lack 'commit'"),
        (lambda r: r["methods"]["rope"]["cut"].pop(), "rope cut has 4 seeds, not 5"),
        (lambda r: r["methods"]["rope"]["cut"][1].pop(), "isn't 4 finite numbers"),
        (lambda r: r["methods"]["nope"]["whole"][1].__setitem__(2, float("nan")), "isn't 4 finite numbers"),
    ):
        broken = copy.deepcopy(results)
        damage(broken)
        with pytest.raises(ValueError, match=words):
            check_results(broken)


# -------------------------------------------------------------------------------------------------------------- plots


def test_plot_draws_the_means_that_were_measured():
    results = load_results("train_short_test_long")
    axes = plot_short_long(results, methods=["rope", "alibi"], highlight="rope").axes[0]
    drawn = {bars.get_label(): bars.lines[0].get_ydata() for bars in axes.containers}
    assert list(drawn) == ["RoPE", "RoPE, cut", "ALiBi"]
    for label, kind in (("RoPE", "whole"), ("RoPE, cut", "cut")):
        means = [statistics.mean(column) for column in zip(*results["methods"]["rope"][kind])]
        assert list(drawn[label]) == pytest.approx(means)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["64", "128", "256", "512"]


def test_plot_draws_your_own_beside():
    results = load_results("train_short_test_long")
    own = {"mine": {"lengths": [32, 64, 128], "whole": [2.0, 2.1, 2.2], "cut": [2.0] * 3}}
    axes = plot_short_long(results, methods=["rope"], own=own).axes[0]
    lines = {line.get_label(): list(line.get_ydata()) for line in axes.lines}
    assert [list(line.get_xdata()) for line in axes.lines if line.get_label() == "mine"] == [[32, 64, 128]]
    assert lines["mine"] == own["mine"]["whole"] and lines["mine, cut"] == own["mine"]["cut"]
    with pytest.raises(ValueError, match="methods='ropes'"):
        plot_short_long(results, methods=["ropes"])


def test_plots_are_not_left_open():
    import matplotlib.pyplot as plt

    plt.close("all")
    plot_short_long(load_results("train_short_test_long"))
    figure = plot_loss([3.0, 2.5, 2.0])
    assert isinstance(figure, matplotlib.figure.Figure) and plt.get_fignums() == []


def test_the_live_curve_is_silent_without_ipython(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    curve = LiveCurve(10, "rope")
    curve.draw([1.0] * 10)
    assert curve.handle is None
