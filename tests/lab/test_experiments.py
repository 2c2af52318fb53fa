"""The experiments: predictions, verdicts, sweeps that are killed or shared, and what stands in results/."""

import dataclasses
import json
import os
import re
import shutil
import signal
import statistics
from pathlib import Path

import pytest
import torch
from train_runs import finish, start_train, wait_for, workers

from posenc import METHODS
from posenc.lab.experiments import (
    CLAIMS,
    PREDICTIONS,
    SWEEPS,
    TOLERANCE,
    VOLUMES,
    arms_of,
    changes,
    check_results,
    load_results,
    mean_and_spread,
    recall_batches,
    recall_pairs,
    verdict,
)
from posenc.lab.experiments import core as experiments_module
from posenc.lab.train import PRESETS, settings_for
from posenc.lab.train import trainer as train_module
from posenc.lab.train.measure import KINDS, key_cuts, unseen_gaps
from posenc.lab.train.tasks import TASKS, load_corpus
from posenc.lab.train.trainer import main

# -------------------------------------------------------------------------------------------------------- predictions


@pytest.mark.parametrize("name", SWEEPS)
def test_every_sweep_predicts_something_for_every_method(name):
    sweep = SWEEPS[name]
    arms = arms_of(sweep)
    assert list(sweep.predictions) == [arm for arm in arms if arm != sweep.against]
    assert sweep.arms or set(METHODS) - set(arms) <= {"kerple", "fire"}  # which have a section, not a row, elsewhere
    assert sweep.against is None or sweep.against in arms
    for arm, (claim, why) in sweep.predictions.items():
        assert claim in CLAIMS and why.endswith(".") and len(why) > 20, arm
    assert sweep.question.endswith("?") and sweep.shows_not.endswith(".")
    assert "arXiv" in sweep.headline or name.startswith("ablation") and "report" in sweep.headline  # which is no paper
    assert sweep.task in TASKS and sweep.tolerance > 0
    for method, options in (sweep.arms or {}).values():
        settings = settings_for("study", sweep.task)
        assert train_module.build(method, settings, sweep.task, options=options)
    tests = sweep.facts(settings_for("study", sweep.task)).get("tests", TASKS[sweep.task].words)
    assert all(test is None or test in tests for test in sweep.contrast)


@pytest.mark.parametrize("preset", PRESETS)
def test_recall_is_tested_with_pairs_that_fit(preset):
    settings = settings_for(preset, "recall")
    pairs = recall_pairs(settings)
    assert pairs == sorted(set(pairs)) and pairs[-1] >= 4 * pairs[2]
    for n, batch in zip(pairs, recall_batches(settings)):
        assert batch.tokens.shape == (128, max(settings.length, 4 * n))


# ----------------------------------------------------------------------------------------------------------- verdicts


def results_with(whole, cut=None):
    seeds = len(whole)
    values = {"whole": whole, "cut": cut or [[row[0]] * len(row) for row in whole]}
    return {
        "seeds": list(range(seeds)),
        "lengths": [64, 512],
        "tolerance": 0.05,
        "methods": {"rope": values},
        "claims": {"rope": "rises"},
    }


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


def scores_with(before, after, against=None, claim="rises"):
    """Results of a puzzle, or of arms beside one of them."""
    methods = {"rope": {"scores": {"in": before, "far": after}}}
    contrast = ["in", "far"]
    if against is not None:
        methods, contrast = {"rope": {"scores": {"far": after}}, "nope": {"scores": {"far": before}}}, [None, "far"]
    return {
        "seeds": list(range(len(before))),
        "tolerance": 0.05,
        "methods": methods,
        "claims": {"rope": claim},
        "contrast": contrast,
        "against": against,
        "unit": "share of wrong answers",
    }


@pytest.mark.parametrize("against", [None, "nope"])
@pytest.mark.parametrize(
    "moves, rises, holds, falls, stays",
    [
        ((0.20, 0.22, 0.21), "held", "failed", "failed", "held"),
        ((-0.20, -0.22, -0.21), "failed", "held", "held", "failed"),
        ((0.01, 0.00, -0.01), "failed", "held", "failed", "held"),
        ((0.00, 0.20, 0.01), "within the spread", "within the spread", "failed", "held"),
        ((0.00, -0.20, -0.01), "failed", "held", "within the spread", "within the spread"),
    ],
)
def test_verdict_of_a_puzzle(moves, rises, holds, falls, stays, against):
    before = [0.5, 0.4, 0.45]
    results = scores_with(before, [b + m for b, m in zip(before, moves)], against)
    for claim, outcome in {"rises": rises, "holds": holds, "falls": falls, "stays": stays}.items():
        found = verdict(results, "rope", claim)
        assert found.outcome == outcome, claim
        assert (found.change, found.spread) == pytest.approx((statistics.mean(moves), statistics.stdev(moves)))
        assert f"Predicted was {CLAIMS[claim]} 0.05" in found.words and found.words.endswith(f"{outcome}.")
    where = "beside NoPE" if against else "from 'in' to 'far'"
    direction = "rises" if found.change > 0 else "falls"
    assert found.words.startswith(f"RoPE: {where} the share of wrong answers {direction} by")


@pytest.mark.parametrize(
    "change, rises, holds",
    [(0.0625, "held", "failed"), (0.05, "failed", "held"), (0.0500001, "held", "failed"), (-0.05, "failed", "held")],
)
def test_a_change_of_just_the_tolerance_is_none(change, rises, holds):
    results = scores_with([0.0], [change])
    assert (verdict(results, "rope", "rises").outcome, verdict(results, "rope", "holds").outcome) == (rises, holds)
    mirrored = scores_with([0.0], [-change])
    assert (verdict(mirrored, "rope", "falls").outcome, verdict(mirrored, "rope", "stays").outcome) == (rises, holds)


def test_the_contrast_is_read_from_start_to_end():
    results = scores_with([0.1, 0.3], [0.7, 0.5])
    assert changes(results, "rope") == pytest.approx([0.6, 0.2])
    assert changes(scores_with([0.1, 0.3], [0.7, 0.5], "nope"), "rope") == pytest.approx([0.6, 0.2])
    assert mean_and_spread([2.0]) == (2.0, 0.0)


def test_verdict_measures_the_gap_to_the_cut():
    found = verdict(results_with([[1.0, 1.5], [1.0, 1.7]], cut=[[1.0, 1.6], [1.0, 1.9]]), "rope")
    assert found.gap == pytest.approx(-0.15) and found.gap_spread == pytest.approx(statistics.stdev([-0.1, -0.2]))
    assert "0.150 ± 0.071 nats below" in found.words


def test_verdict_names_what_it_does_not_know():
    with pytest.raises(ValueError, match="method='alibi'"):
        verdict(results_with([[1.0, 2.0]]), "alibi")
    with pytest.raises(ValueError, match="claim='rise' .* Did you mean 'rises'"):
        verdict(results_with([[1.0, 2.0]]), "rope", "rise")


# ----------------------------------------------------------------------------------------------------------- a sweep

# The sizes of a sweep's cell here: enough work that a kill finds it in the middle, little enough to do often.
SIZES = {"dim": 16, "num_layers": 1, "num_heads": 2, "length": 32, "batch": 8, "steps": 60, "warmup": 6, "windows": 4}
ARMS = ["nope", "rope", "alibi"]


def sweep_command(out, *more):
    return ["sweep", "counting", "--preset", "nano", "--seeds", "2", "--methods", *ARMS, "--out", str(out), *more]


def without_times(path):
    """A sweep's JSON less what may differ between two runs of it."""
    results = json.loads(path.read_text())
    for values in results["methods"].values():
        assert len(values.pop("seconds")) == 2
    return {key: value for key, value in results.items() if key not in ("command", "commit")}


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setitem(train_module.PRESETS, "nano", train_module.Settings(**SIZES | {"steps": 6, "warmup": 1}))
    monkeypatch.setitem(train_module.PUZZLES, "nano", {})
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The sweep that the killed ones are compared with."""
    folder = tmp_path_factory.mktemp("whole")
    finish(start_train(folder, SIZES, sweep_command(folder / "r.json")))
    assert {file.name for file in folder.iterdir()} == {"command.py", "r.json"}
    return without_times(folder / "r.json")


def finished(folder):
    """The cells that are done: {name: what its file holds}."""
    cells = [file for file in folder.glob("*.json") if not file.name.startswith("begun")]
    return {file.stem: json.loads(file.read_text()) for file in cells}


def test_a_sweep_killed_in_the_middle_goes_on(tmp_path, uninterrupted):
    out, cells = tmp_path / "r.json", tmp_path / "r.json.cells"
    kept = {}
    for wanted in (1, 3):
        process = start_train(tmp_path, SIZES, sweep_command(out))
        wait_for(lambda: len(list(cells.glob("[!b]*-?.json"))) >= wanted, process)  # noqa: B023
        process.send_signal(signal.SIGKILL)
        finish(process, -signal.SIGKILL)
        assert not out.exists() and len(finished(cells)) < 6
        assert kept.items() <= finished(cells).items()
        kept = finished(cells)
    output = finish(start_train(tmp_path, SIZES, sweep_command(out)))
    assert f"{len(kept)} finished runs found, {6 - len(kept)} to go" in output
    assert without_times(out) == uninterrupted
    found = json.loads(out.read_text())["methods"]
    for name, cell in kept.items():  # not trained again: the seconds are those of the killed run
        arm, seed = name.split("-")
        assert found[arm]["seconds"][int(seed)] == cell["seconds"]
    assert {file.name for file in tmp_path.iterdir()} == {"command.py", "r.json"}
    results = check_results(json.loads(out.read_text()))
    assert results["methods"]["nope"]["scores"] != results["methods"]["rope"]["scores"]
    assert results["methods"]["rope"]["curve"][0] != results["methods"]["rope"]["curve"][1]  # two seeds


@pytest.mark.slow
def test_a_sweep_shared_by_processes_survives_one_that_is_killed(tmp_path, uninterrupted):
    out, cells = tmp_path / "r.json", tmp_path / "r.json.cells"
    process = start_train(tmp_path, SIZES | {"steps": 400}, sweep_command(out), processes=2)
    wait_for(lambda: len(list(cells.glob("[!b]*-?.json"))) >= 2, process)
    os.kill(workers(process)[-1], signal.SIGKILL)
    finish(process, None)
    kept = finished(cells)
    assert 2 <= len(kept) < 6 and not out.exists()
    assert {file.name for file in cells.glob("begun*")} == {"begun-0.json", "begun-1.json"}  # both had cells to do
    finish(start_train(tmp_path, SIZES | {"steps": 400}, sweep_command(out), processes=2))
    found = json.loads(out.read_text())
    for name, cell in kept.items():
        arm, seed = name.split("-")
        assert all(found["methods"][arm][key][int(seed)] == cell[key] for key in ("seconds", "curve"))
    out.unlink()
    finish(start_train(tmp_path, SIZES, sweep_command(out), processes=2))
    assert without_times(out) == uninterrupted  # however many processes there are
    assert json.loads(out.read_text())["command"].startswith("torchrun --nproc-per-node 2 -m posenc.lab.train sweep")


def test_a_finished_cell_is_not_trained_again(tiny, tmp_path, monkeypatch):
    whole, resumed = tmp_path / "whole.json", tmp_path / "resumed.json"
    main(sweep_command(whole))
    cell, ran = experiments_module.run_cell, []

    def run_cell(sweep, arm, seed, *given):
        if len(ran) == 2 and not resumed.with_name("again").exists():
            resumed.with_name("again").touch()
            raise KeyboardInterrupt
        ran.append((arm, seed))
        return cell(sweep, arm, seed, *given)

    monkeypatch.setattr(experiments_module, "run_cell", run_cell)
    with pytest.raises(KeyboardInterrupt):
        main(sweep_command(resumed))
    assert not resumed.exists()
    main(sweep_command(resumed))
    assert ran == [("nope", 0), ("rope", 0), ("alibi", 0), ("nope", 1), ("rope", 1), ("alibi", 1)]
    assert without_times(resumed) == without_times(whole)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "resumed.json", "whole.json"]


def test_the_cells_are_dealt_to_the_processes(tiny, tmp_path, monkeypatch):
    ran = []

    class Stop(Exception):
        pass

    def group(*given, **more):
        raise Stop  # where the processes wait for one another

    cell = {"scores": {}, "final_train_loss": 0.0, "curve": [], "parameters": 0, "seconds": 0.0}
    keep = ran.append
    monkeypatch.setattr(experiments_module, "run_cell", lambda sweep, arm, seed, *given: keep((arm, seed)) or cell)
    monkeypatch.setattr(experiments_module.Path, "unlink", lambda path: None)
    monkeypatch.setattr(experiments_module.distributed, "init_process_group", group)
    monkeypatch.setenv("WORLD_SIZE", "2")
    shares = {"1": [("rope", 0), ("nope", 1), ("alibi", 1)], "0": [("nope", 0), ("alibi", 0), ("rope", 1)]}
    for rank, mine in shares.items():
        monkeypatch.setenv("RANK", rank)
        ran.clear()
        with pytest.raises(Stop):
            main(sweep_command(tmp_path / "r.json"))
        assert ran == mine


def test_a_damaged_cell_is_named_before_anything_is_trained(tiny, tmp_path, monkeypatch):
    out = tmp_path / "r.json"
    folder = tmp_path / "r.json.cells"
    folder.mkdir()
    (folder / "alibi-1.json").write_text('{"scores": {"in"')
    monkeypatch.setattr(experiments_module, "run_cell", lambda *given: pytest.fail("a cell was trained"))
    with pytest.raises(ValueError, match=r"r.json.cells/alibi-1.json is damaged .* move it away"):
        main(sweep_command(out))
    assert (folder / "alibi-1.json").read_text() == '{"scores": {"in"' and not out.exists()


def test_a_damaged_checkpoint_of_a_cell_is_named(tiny, tmp_path):
    folder = tmp_path / "r.json.cells"
    folder.mkdir()
    (folder / "nope-0.pt").write_bytes(b"PK damaged")
    with pytest.raises(ValueError, match=r"nope-0.pt is no whole posenc checkpoint"):
        main(sweep_command(tmp_path / "r.json"))
    assert (folder / "nope-0.pt").read_bytes() == b"PK damaged"


@pytest.mark.parametrize("change", ["settings", "versions", "corpus"])
def test_a_sweep_begun_otherwise_is_not_mixed_in(change, tiny, tmp_path, monkeypatch):
    out, cell = tmp_path / "r.json", experiments_module.run_cell

    def stop(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(experiments_module, "run_cell", stop)
    with pytest.raises(KeyboardInterrupt):
        main(sweep_command(out))
    begun = tmp_path / "r.json.cells" / "begun-0.json"
    saved = json.loads(begun.read_text())
    saved["same"][change] = "others"
    begun.write_text(json.dumps(saved))
    before = {file.name: file.read_bytes() for file in begun.parent.iterdir()}
    with pytest.raises(ValueError, match=r"r.json.cells was begun with other settings, corpus or versions"):
        main(sweep_command(out))
    assert not out.exists() and before == {file.name: file.read_bytes() for file in begun.parent.iterdir()}
    shutil.rmtree(begun.parent)
    monkeypatch.setattr(experiments_module, "run_cell", cell)
    main(sweep_command(out))
    assert out.exists()


def test_a_sweep_gone_on_with_at_another_commit_says_so(tiny, tmp_path):
    folder = tmp_path / "r.json.cells"
    main(sweep_command(tmp_path / "r.json"))
    whole = json.loads((tmp_path / "r.json").read_text())
    folder.mkdir()
    same = {key: whole[key] for key in ("settings", "versions", "corpus")}
    for rank in (0, 1):
        (folder / f"begun-{rank}.json").write_text(json.dumps({"same": same, "commit": "a" * 40}))
    main(sweep_command(tmp_path / "r.json"))
    assert json.loads((tmp_path / "r.json").read_text())["commit"] == f"{'a' * 40}, gone on with at {whole['commit']}"


@pytest.mark.parametrize("name", SWEEPS)
def test_every_sweep_writes_what_a_reader_needs(name, tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(experiments_module, "sample", lambda *given, **more: "text")
    out, sweep = tmp_path / "r.json", SWEEPS[name]
    arms = arms_of(sweep)[:3]
    main(["sweep", name, "--preset", "nano", "--seeds", "2", "--methods", *arms, "--out", str(out)])
    results = check_results(json.loads(out.read_text()))
    assert results["name"] == name and list(results["methods"]) == arms and results["seeds"] == [0, 1]
    words = f"sweep {name} --preset nano --seeds 2 --methods {' '.join(arms)} --out {out}"
    assert results["command"] == f"python -m posenc.lab.train {words}"
    assert results["corpus"]["sha256"] == load_corpus().sha256 and f"torch {torch.__version__}" in results["versions"]
    assert results["machine"] and results["commit"]
    assert results["settings"] == json.loads(json.dumps(dataclasses.asdict(settings_for("nano", sweep.task))))
    for arm in arms:
        values = results["methods"][arm]
        assert len(values["seconds"]) == len(values["curve"]) == len(values["final_train_loss"]) == 2
        assert values["parameters"] > 1000
    said = capsys.readouterr().out.split("\n")
    assert [line for line in said if line] == [verdict(results, arm).words for arm in results["claims"]]


def test_results_of_some_methods_alone():
    some, everything = load_results("flipflop", ["nope", "alibi"]), load_results("flipflop")
    assert list(some["methods"]) == list(some["claims"]) == list(some["predictions"]) == ["nope", "alibi"]
    assert some["methods"]["alibi"] == everything["methods"]["alibi"] and some["seeds"] == everything["seeds"]
    with pytest.raises(ValueError, match="methods='alibis' is not known.*Did you mean 'alibi'"):
        load_results("flipflop", ["alibis"])


def test_arms_are_added_to_results_that_are_there(tiny, tmp_path, capsys):
    together, out = tmp_path / "all.json", tmp_path / "r.json"
    options = ["--preset", "nano", "--seeds", "2", "--methods"]
    main(["sweep", "flipflop", *options, "nope", "sinusoidal", "rope", "--out", str(together)])
    main(["sweep", "flipflop", *options, "nope", "rope", "--out", str(out)])
    main(["sweep", "flipflop", *options, "sinusoidal", "--out", str(out), "--add"])
    whole, grown = (json.loads(path.read_text()) for path in (together, out))
    assert list(grown["methods"]) == list(whole["methods"]) == ["nope", "sinusoidal", "rope"]
    assert grown["methods"]["sinusoidal"].pop("seeds") == [0, 1]
    for arm in whole["methods"]:
        assert grown["methods"][arm]["scores"] == whole["methods"][arm]["scores"]
    assert grown["claims"] == whole["claims"] and grown["predictions"] == whole["predictions"]
    (note,) = grown["added"]
    assert note["arms"] == ["sinusoidal"] and note["command"].endswith("--add") and len(note["commit"]) >= 40
    assert verdict(grown, "sinusoidal").words == verdict(whole, "sinusoidal").words
    assert verdict(grown, "sinusoidal").words in capsys.readouterr().out

    main(["sweep", "masked", *options, "nope", "rope", "--out", str(tmp_path / "m.json")])
    main(["sweep", "masked", *options, "learned", "--out", str(tmp_path / "m.json"), "--add"])  # which nope is beside
    assert "Learned: beside NoPE" in capsys.readouterr().out
    with pytest.raises(ValueError, match="already holds \\['sinusoidal'\\]"):
        main(["sweep", "flipflop", *options, "sinusoidal", "--out", str(out), "--add"])
    with pytest.raises(ValueError, match="made with other settings"):
        main(["sweep", "flipflop", "--preset", "lab", *options[2:], "alibi", "--out", str(out), "--add"])
    grown["methods"]["sinusoidal"]["seeds"] = [0, 1, 2]
    with pytest.raises(ValueError, match="sinusoidal in has 2 seeds, not 3"):
        check_results(grown)


# ----------------------------------------------------------------------------------------------------- frozen results


def made_by(name, preset, command):
    """Whether a command is that of a sweep at a preset; "study" is what it takes where none is named."""
    named = re.search(r"--preset (\w+)", command)
    known = re.search(rf"-m posenc\.(lab\.)?train sweep {name} ", command)
    return bool(known) and (named[1] if named else "study") == preset


@pytest.mark.parametrize("name", SWEEPS)
def test_a_frozen_sweep_is_the_study_s(name):
    results, sweep = load_results(name), SWEEPS[name]
    preset = "lab" if name in ("sinusoidal_volume", "ablation_text") else "study"
    settings = settings_for(preset, sweep.task)
    assert results["preset"] == preset and made_by(name, preset, results["command"])
    assert results["settings"] == json.loads(json.dumps(dataclasses.asdict(settings)))
    assert results["seeds"] == list(range(3 if name.startswith("ablation") else 5))
    assert list(results["methods"]) == arms_of(sweep)
    assert results["claims"] == {arm: claim for arm, (claim, _) in sweep.predictions.items()}
    assert results["predictions"] == {arm: words for arm, (_, words) in sweep.predictions.items()}
    assert results["tolerance"] == sweep.tolerance and results["unit"] == sweep.unit
    assert (results["question"], results["headline"], results["shows_not"]) == (
        sweep.question,
        sweep.headline,
        sweep.shows_not,
    )
    facts = json.loads(json.dumps(sweep.facts(settings)))
    assert facts.items() <= results.items()
    if "tests" in results:
        assert results["tests"] == facts.get("tests", TASKS[sweep.task].words)
    assert len(results["commit"].split(",")[0]) == 40 and results["corpus"]["sha256"]
    for arm, values in results["methods"].items():
        seeds = values.get("seeds", results["seeds"])
        assert len(seeds) >= 3 and seeds == results["seeds"][: len(seeds)]
        assert len(values["curve"]) == len(seeds) and len(values["curve"][0]) == settings.steps // 10
        assert len({json.dumps(curve) for curve in values["curve"]}) == len(seeds), arm  # not one seed many times
        method, options = (sweep.arms or {}).get(arm, (arm, {}))
        model = train_module.build(method, settings, sweep.task, options=options)
        assert values["parameters"] == sum(p.numel() for p in model.parameters())
    later = [arm for note in results.get("added", []) for arm in note["arms"]]
    assert later == sorted(set(later), key=later.index) and set(later) <= set(results["methods"])
    for note in results.get("added", []):
        assert made_by(name, preset, note["command"]) and len(note["commit"].split(",")[0]) == 40
        if sweep.unit.startswith("share"):
            assert all(0 <= share <= 1 for row in values["scores"].values() for share in row)
    for arm in results["claims"]:
        assert verdict(results, arm).outcome in ("held", "failed", "within the spread")


def test_frozen_short_long_is_whole():
    results = load_results("train_short_test_long")
    assert results["lengths"] == [64, 128, 256, 512] and results["tolerance"] == TOLERANCE
    assert list(results["methods"]) == list(PREDICTIONS)
    for method, values in results["methods"].items():
        assert values["sample"].startswith("The ") and len(values["sample"]) == 204, method
        for whole, cut, early in zip(values["whole"], values["cut"], values["early"]):
            assert whole[0] == pytest.approx(cut[0], abs=1e-5) and len(set(early)) == 1
            assert all(0.5 < loss < 12 for loss in (*whole, *cut, *early))
        for kind in KINDS:
            assert len(values[kind]) == len(values.get("seeds", results["seeds"]))
        for grid, cuts, places in zip(values["distance_and_keys"], values["context_cut"], values["by_position"]):
            assert [len(row) for row in grid] == [len(results["gaps"])] * len(results["lengths"])
            assert len(cuts) == len(results["cuts"]) and len(places) == len(results["until"])
            if method in ("nope", "stickbreaking"):
                assert all(len(set(row)) == 1 for row in grid)  # no gap is seen


def test_frozen_needle_grids_are_whole():
    results = load_results("needle")
    for values in results["methods"].values():
        for grid, cut in zip(values["grid"], values["cut_row"]):
            assert len(cut) == len(results["distances"])
            for context, row in zip(results["contexts"], grid):
                assert [value is None for value in row] == [distance >= context for distance in results["distances"]]


def test_frozen_volumes_are_the_sweep_s():
    results = load_results("sinusoidal_volume")
    assert results["volumes"] == list(VOLUMES) and list(results["methods"]) == [f"{v:.4f}" for v in VOLUMES]


def test_frozen_verdicts_recompute_by_hand():
    results = load_results("train_short_test_long")
    for method, values in results["methods"].items():
        found = verdict(results, method)
        changes = [row[-1] - row[0] for row in values["whole"]]
        gaps = [whole[-1] - cut[-1] for whole, cut in zip(values["whole"], values["cut"])]
        assert found.change == pytest.approx(statistics.mean(changes))
        assert found.spread == pytest.approx(statistics.stdev(changes))
        assert (found.gap, found.gap_spread) == pytest.approx((statistics.mean(gaps), statistics.stdev(gaps)))


def test_this_python_s_corpus_is_hashed_as_the_results_say():
    corpus = load_corpus()
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


def whole_results():
    """A small file as a sweep writes it."""
    return {
        **{key: "x" for key in ("name", "command", "commit", "versions", "machine", "settings")},
        "seeds": [0, 1],
        "lengths": [64, 128],
        "tests": {"in": "as trained"},
        "methods": {
            "rope": {
                "whole": [[1.0, 2.0], [1.0, 2.0]],
                "cut": [[1.0, 2.0], [1.0, 2.0]],
                "scores": {"in": [0.1, 0.2]},
                "seconds": [1.0, 2.0],
            }
        },
    }


@pytest.mark.parametrize(
    "damage, words",
    [
        (lambda r: r.pop("commit"), "lack 'commit'"),
        (lambda r: r.update(machine=""), "lack 'machine'"),
        (lambda r: r["methods"]["rope"]["cut"].pop(), "rope cut has 1 seeds, not 2"),
        (lambda r: r["methods"]["rope"]["cut"][1].pop(), r"rope cut has a row that isn't \[64, 128\]"),
        (lambda r: r["methods"]["rope"]["whole"][1].__setitem__(1, float("nan")), "rope whole holds nan"),
        (lambda r: r["methods"]["rope"]["scores"]["in"].__setitem__(1, float("inf")), "scores in holds inf"),
        (lambda r: r["methods"]["rope"]["scores"]["in"].pop(), "rope in has 1 seeds, not 2"),
        (lambda r: r["methods"]["rope"]["scores"].update(far=[0.1, 0.2]), r"rope has scores for \['in', 'far'\]"),
        (lambda r: r["methods"].update(nope={"seconds": [1.0, 2.0]}), "nope has no scores"),
    ],
)
def test_broken_results_are_refused(damage, words):
    assert check_results(whole_results()) == whole_results()
    broken = whole_results()
    damage(broken)
    with pytest.raises(ValueError, match=words):
        check_results(broken)


def test_every_frozen_result_says_what_it_asks():
    names = [path.stem for path in (Path(__file__).parents[2] / "results").glob("*.json")]
    assert len(names) > 15
    for name in names:
        assert load_results(name).get("question") or load_results(name).get("definition"), name


@pytest.mark.parametrize("name", SWEEPS)
def test_what_stands_once_in_a_frozen_sweep_is_what_the_code_says(name):
    """Gaps, cuts, distances, pairs and tests: figures read them from the file, new models are measured by the code."""
    results = load_results(name)
    facts = SWEEPS[name].facts(settings_for(results["preset"], SWEEPS[name].task))
    for key, value in json.loads(json.dumps(facts)).items():
        assert results[key] == value, key


def test_gaps_and_cuts_by_hand():
    settings = settings_for("study")
    assert unseen_gaps(settings) == [0, 64, 192, 448]
    assert key_cuts(settings) == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
