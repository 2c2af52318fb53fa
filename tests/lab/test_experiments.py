"""The experiments: predictions, verdicts, sweeps that are killed or shared, and what stands in results/."""

import json
import math
import re
import statistics
from pathlib import Path

import matplotlib.text
import numpy
import pytest
import torch
from train_runs import SIZES as TINY_SIZES
from train_runs import under_torchrun

import posenc
from posenc import METHODS
from posenc.lab.experiments import (
    SWEEPS,
    check_results,
    compare,
    comparison,
    interval,
    load_results,
    mean_and_spread,
    runner,
    verdict,
)
from posenc.lab.experiments.command import main
from posenc.lab.experiments.provenance import start_of
from posenc.lab.experiments.results import read_rates
from posenc.lab.experiments.runner import SAME
from posenc.lab.experiments.sweeps import TOLERANCE, arms_of, measure_needle, recall_batches, recall_pairs
from posenc.lab.experiments.verdicts import CLAIMS, T95, block_changes, changes, ignores_far
from posenc.lab.train import PRESETS, Settings, build, measure, settings, settings_for
from posenc.lab.train.measure import KINDS, key_cuts, unseen_gaps
from posenc.lab.train.tasks import TASKS, load_corpus
from posenc.methods import on_text

# -------------------------------------------------------------------------------------------------------- predictions


@pytest.mark.parametrize("name", SWEEPS)
def test_every_sweep_predicts_something_for_every_method(name):
    sweep, arms = SWEEPS[name], arms_of(SWEEPS[name])
    assert list(sweep.predictions) == [arm for arm in arms if arm != sweep.against]
    rows = {m: METHODS[m] for m in on_text()}
    defined = {m for m, row in rows.items() if TASKS[sweep.task].causal or row.both_ways or not row.causal_only}
    assert sweep.arms or defined - {"path"} == set(arms)  # without a kernel it takes twenty times as long
    assert sweep.against is None or sweep.against in arms
    for arm, (claim, why) in sweep.predictions.items():
        assert claim in CLAIMS and why.endswith(".") and len(why) > 20, arm
    assert sweep.question.endswith("?") and sweep.shows_not.endswith(".")
    assert "arXiv" in sweep.headline or name.startswith("ablation") and "report" in sweep.headline  # which is no paper
    assert sweep.task in TASKS and sweep.tolerance > 0
    for method, options in (sweep.arms or {}).values():
        assert build(method, settings_for("study", sweep.task), sweep.task, options=options)
    tests = sweep.facts(settings_for("study", sweep.task)).get("tests", TASKS[sweep.task].words)
    assert all(test is None or test in tests for test in sweep.contrast)


@pytest.mark.parametrize("preset", PRESETS)
def test_recall_is_tested_with_pairs_that_fit(preset):
    settings = settings_for(preset, "recall")
    pairs = recall_pairs(settings)
    assert pairs == sorted(set(pairs)) and pairs[-1] >= 4 * pairs[2]
    for n, batch in zip(pairs, recall_batches(settings)):
        assert batch.tokens.shape == (128, max(settings.length, 4 * n))


def test_the_needle_s_scores_are_means_of_its_grid(monkeypatch):
    grid, cut = [[0.1, 0.3, None, None], [0.5, 0.7, 0.2, 0.4]], [0.0, 0.5, 1.0, 0.8]
    errors = {"distances": [4, 16, 58, 122], "grid": grid, "cut_row": cut}
    monkeypatch.setattr(measure, "needle_errors", lambda model, settings: errors)
    scores = measure_needle(None, settings_for("nano", "needle"))["scores"]
    assert scores == pytest.approx({"in": 0.2, "near": 0.6, "far": 0.3, "near, cut": 0.25, "far, cut": 0.9})


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
        ("a clear rise", (1.50, 1.52, 1.51), "came true", "failed"),
        ("level", (1.01, 1.00, 1.00), "failed", "came true"),
        ("a fall", (0.90, 0.92, 0.91), "failed", "came true"),
        ("a fall with a wide spread", (0.10, 0.40, 0.30), "failed", "came true"),
        ("a rise too small to count", (1.030, 1.031, 1.032), "failed", "came true"),
        ("seeds that disagree", (1.00, 1.30, 1.02), "not decided", "not decided"),
        ("seeds that disagree around less", (1.00, 1.12, 1.00), "not decided", "not decided"),
    ],
)
def test_verdict_follows_from_the_numbers(name, ends, rises, holds):
    results = results_with([[1.0, end] for end in ends])
    mine = verdict(results, "rope")
    assert mine.outcome == rises and verdict(results, "rope", "holds").outcome == holds
    assert mine.change == pytest.approx(statistics.mean(end - 1 for end in ends))
    assert mine.spread == pytest.approx(statistics.stdev(ends))
    assert mine.gap == pytest.approx(mine.change)
    for part in (f"{abs(mine.change):.3f} ± {mine.spread:.3f}", rises, CLAIMS["rises"], "64", "512"):
        assert part in mine.words
    assert ("rises by" in mine.words) == (mine.change > 0) == ("falls by" not in mine.words)


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
        ((0.20, 0.22, 0.21), "came true", "failed", "failed", "came true"),
        ((-0.20, -0.22, -0.21), "failed", "came true", "came true", "failed"),
        ((0.01, 0.00, -0.01), "failed", "came true", "failed", "came true"),
        ((0.00, 0.20, 0.01), *["not decided"] * 4),
        ((0.10, 0.30, 0.22), "not decided", "not decided", "failed", "came true"),
    ],
)
def test_verdict_of_a_puzzle(moves, rises, holds, falls, stays, against):
    before = [0.5, 0.4, 0.45]
    results = scores_with(before, [b + m for b, m in zip(before, moves)], against)
    for claim, outcome in {"rises": rises, "holds": holds, "falls": falls, "stays": stays}.items():
        mine = verdict(results, "rope", claim)
        assert mine.outcome == outcome, claim
        assert (mine.change, mine.spread) == pytest.approx((statistics.mean(moves), statistics.stdev(moves)))
        for part in ("RoPE", "NoPE" if against else "'far'", results["unit"], CLAIMS[claim], "0.05", outcome):
            assert part in mine.words


@pytest.mark.parametrize(
    "change, rises, holds",
    [
        (0.0625, "came true", "failed"),
        (0.05, "failed", "came true"),
        (0.0500001, "came true", "failed"),
        (-0.05, "failed", "came true"),
    ],
)
def test_a_change_of_just_the_tolerance_is_none(change, rises, holds):
    results = scores_with([0.0] * 2, [change] * 2)
    assert (verdict(results, "rope", "rises").outcome, verdict(results, "rope", "holds").outcome) == (rises, holds)
    mirrored = scores_with([0.0] * 2, [-change] * 2)
    assert (verdict(mirrored, "rope", "falls").outcome, verdict(mirrored, "rope", "stays").outcome) == (rises, holds)


def test_the_contrast_is_read_from_start_to_end():
    results = scores_with([0.1, 0.3], [0.7, 0.5])
    assert changes(results, "rope") == pytest.approx([0.6, 0.2])
    assert changes(scores_with([0.1, 0.3], [0.7, 0.5], "nope"), "rope") == pytest.approx([0.6, 0.2])
    assert mean_and_spread([2.0]) == (2.0, 0.0)


def test_verdict_measures_the_gap_to_the_cut():
    mine = verdict(results_with([[1.0, 1.5], [1.0, 1.7]], cut=[[1.0, 1.6], [1.0, 1.9]]), "rope")
    assert mine.gap == pytest.approx(-0.15) and mine.gap_spread == pytest.approx(statistics.stdev([-0.1, -0.2]))
    assert "0.150 ± 0.071 nats below" in mine.words


@pytest.mark.parametrize("seeds", range(2, 12))
def test_student_t_leaves_out_five_percent(seeds):
    freedom = seeds - 1
    angle = torch.atan(torch.linspace(0, T95[freedom - 1] / math.sqrt(freedom), 20001, dtype=torch.float64))
    density = angle.cos() ** (freedom - 1)  # of t = tan(angle) sqrt(freedom)
    scale = math.gamma((freedom + 1) / 2) / (math.sqrt(math.pi) * math.gamma(freedom / 2))
    assert 2 * scale * torch.trapezoid(density, angle).item() == pytest.approx(0.95, abs=1e-4)


def test_far_context_is_ignored_where_its_interval_holds_zero():
    bound, cut = 4.303 * 0.001 / math.sqrt(3), [1.0] * 3
    within, beyond = ([1 + factor * bound + noise for noise in (-0.001, 0, 0.001)] for factor in (0.99, 1.01))
    assert ignores_far(within, cut) and not ignores_far(beyond, cut) and not ignores_far(cut, beyond)
    assert ignores_far([1.0009] * 5, [1.0] * 5) and not ignores_far([1.0011] * 5, [1.0] * 5)


def test_an_interval_is_student_s_over_seeds():
    moves = [0.06, 0.09, 0.07, 0.10, 0.08]
    results = scores_with([0.5] * 5, [0.5 + move for move in moves])
    found = interval(results, "rope")
    half = 2.776 * statistics.stdev(moves) / math.sqrt(5)
    assert found == pytest.approx((0.08, 0.08 - half, 0.08 + half, 5, 0))
    # by hand: 0.0604 to 0.0996, so beyond 0.05 as a whole, across 0.08, within 0.1
    for tolerance, rises, holds in (
        (0.05, "came true", "failed"),
        (0.08, "not decided", "not decided"),
        (0.1, "failed", "came true"),
    ):
        assert verdict(results | {"tolerance": tolerance}, "rope").outcome == rises
        assert verdict(results | {"tolerance": tolerance}, "rope", "holds").outcome == holds
    mirrored = scores_with([0.5] * 5, [0.5 - move for move in moves], "nope", "falls")
    assert verdict(mirrored, "rope").outcome == "came true" and verdict(mirrored, "rope", "stays").outcome == "failed"
    with pytest.raises(ValueError, match="arm='nope' is what the others"):
        interval(mirrored, "nope")
    with pytest.raises(ValueError, match="arm='rope' has 1 seed"):
        interval(scores_with([0.5], [0.6]), "rope")
    with pytest.raises(ValueError, match="arm='ropes'.*'rope'"):
        interval(results, "ropes")


def blocks_with(ends):
    """Results on text whose change is `ends` [seeds, blocks]."""
    results = results_with([[1.0, 1 + float(numpy.mean(row))] for row in ends])
    results["methods"]["rope"]["blocks"] = [{"whole": [[1.0] * len(row), [1 + x for x in row]]} for row in ends]
    return results


def test_an_interval_is_over_windows_too_where_their_blocks_are_stored():
    random = numpy.random.default_rng(1)
    seeds, windows = random.normal(0, 0.02, (5, 1)), random.normal(0, 0.1, (1, 40))
    by_seeds = interval(blocks_with(0.1 + seeds + 0 * windows), "rope")
    plain = interval(results_with([[1.0, 1.1 + x] for x in seeds[:, 0]]), "rope")
    assert by_seeds.blocks == 40 and by_seeds.high - by_seeds.low == pytest.approx(plain.high - plain.low, rel=0.1)
    by_windows = interval(blocks_with(0.1 + 0 * seeds + windows), "rope")
    assert by_windows.high - by_windows.low == pytest.approx(2 * 1.96 * windows.std() / math.sqrt(40), rel=0.1)
    both = interval(blocks_with(0.1 + seeds + windows), "rope")
    wide = math.hypot(by_seeds.high - by_seeds.low, by_windows.high - by_windows.low)
    assert both.high - both.low == pytest.approx(wide, rel=0.15)
    assert both == interval(blocks_with(0.1 + seeds + windows), "rope")
    assert both.low < both.mean < both.high and both.mean == pytest.approx(float((0.1 + seeds + windows).mean()))


def test_blocks_are_compared_with_the_other_arm_s():
    cell = {"whole": [[1.0, 2.0], [3.0, 5.0]]}
    rope = {"scores": {"64": [0.0] * 2}, "blocks": [{"whole": [[0.5, 2.5], [9.0, 9.0]]}] * 2}
    results = scores_with([0.0] * 2, [0.0] * 2, "nope") | {"lengths": [64, 128], "contrast": [None, "128"]}
    results["methods"] = {"rope": rope, "nope": {"scores": {"64": [0.0] * 2}, "blocks": [cell] * 2}}
    assert block_changes(results, "rope").tolist() == [[6.0, 4.0]] * 2
    del results["methods"]["nope"]["blocks"]
    assert block_changes(results, "rope") is None


def test_verdict_names_what_it_does_not_know():
    with pytest.raises(ValueError, match="method='alibi'"):
        verdict(results_with([[1.0, 2.0]]), "alibi")
    with pytest.raises(ValueError, match="claim='rise' .* Did you mean 'rises'"):
        verdict(results_with([[1.0, 2.0]]), "rope", "rise")


# ----------------------------------------------------------------------------------------------------------- a sweep

# The sizes of a sweep's cell here: little enough to do often.
SIZES = TINY_SIZES | {"length": 32, "batch": 8, "steps": 12, "warmup": 2}
ARMS = ["nope", "rope", "alibi"]


def sweep_command(out, *more, name="counting", arms=ARMS):
    return ["sweep", name, "--preset", "nano", "--seeds", "2", "--methods", *arms, "--out", str(out), *more]


def without_times(path):
    """A sweep's JSON less what may differ between two runs of it."""
    results = json.loads(path.read_text())
    for values in results["methods"].values():
        assert len(values.pop("seconds")) == 2
    return {key: value for key, value in results.items() if key not in ("command", "commit")}


@pytest.fixture
def tiny(monkeypatch):
    """A preset nano of these sizes, and as many threads afterwards as before: a sweep takes one."""
    monkeypatch.setitem(settings.PRESETS, "nano", Settings(**SIZES))
    monkeypatch.setitem(settings.PUZZLES, "nano", {})
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def whole(tiny, tmp_path):
    """The sweep that the interrupted ones are compared with."""
    main(sweep_command(tmp_path / "whole.json"))
    assert not (tmp_path / "whole.json.cells").exists()
    return without_times(tmp_path / "whole.json")


def done(folder):
    """The cells that are done: {name: what its file holds}."""
    return {file.stem: json.loads(file.read_text()) for file in folder.glob("[!b]*-?.json")}


def test_a_stopped_sweep_goes_on_and_trains_no_finished_cell_again(whole, tmp_path, monkeypatch):
    out, cells, one = tmp_path / "r.json", tmp_path / "r.json.cells", runner.run_cell

    def stops(*given):
        if len(done(cells)) == 3:
            raise KeyboardInterrupt
        return one(*given)

    monkeypatch.setattr(runner, "run_cell", stops)
    with pytest.raises(KeyboardInterrupt):
        main(sweep_command(out))
    before = done(cells)
    assert not out.exists() and len(before) == 3
    monkeypatch.setattr(runner, "run_cell", one)
    main(sweep_command(out))
    assert without_times(out) == whole and not cells.exists()
    results = check_results(json.loads(out.read_text()))
    for name, cell in before.items():  # the seconds are those of the stopped run
        arm, seed = name.split("-")
        assert results["methods"][arm]["seconds"][int(seed)] == cell["seconds"]
    assert results["methods"]["nope"]["scores"] != results["methods"]["rope"]["scores"]
    assert results["methods"]["rope"]["curve"][0] != results["methods"]["rope"]["curve"][1]  # two seeds


@pytest.mark.weekly
def test_a_sweep_is_the_same_however_many_processes_share_it(whole, tmp_path):
    out = tmp_path / "r.json"
    under_torchrun(tmp_path, "experiments", SIZES, sweep_command(out))
    assert without_times(out) == whole
    assert json.loads(out.read_text())["command"].startswith("torchrun --nproc-per-node 2 -m posenc.lab.experiments")


@pytest.mark.parametrize("out", ["", "file/r.json"])
def test_a_sweep_s_file_that_cannot_be_written_is_told_first(out, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "run_cell", lambda *given: pytest.fail("a cell was trained"))
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=str(tmp_path / out.split("/")[0])):
        main(sweep_command(tmp_path / out))


CELL = {"scores": {}, "final_train_loss": 0.0, "curve": [], "parameters": 0, "seconds": 0.0}


def test_the_cells_are_dealt_to_the_processes(tiny, tmp_path, monkeypatch):
    cells = []

    class Stop(Exception):
        pass

    def group(*given, **more):
        raise Stop  # where the processes wait for one another

    monkeypatch.setattr(runner, "run_cell", lambda sweep, arm, seed, *given: cells.append((arm, seed)) or CELL)
    monkeypatch.setattr(runner.distributed, "init_process_group", group)
    monkeypatch.setenv("WORLD_SIZE", "2")
    shares = {"1": [("rope", 0), ("nope", 1), ("alibi", 1)], "0": [("nope", 0), ("alibi", 0), ("rope", 1)]}
    for rank, share in shares.items():
        monkeypatch.setenv("RANK", rank)
        cells.clear()
        with pytest.raises(Stop):
            main(sweep_command(tmp_path / "r.json"))
        assert cells == share


@pytest.mark.parametrize("name, data", [("alibi-1.json", b'{"scores": {"in"'), ("nope-0.pt", b"PK damaged")])
def test_a_damaged_cell_is_named_before_anything_is_trained(name, data, tiny, tmp_path, monkeypatch):
    file = tmp_path / "r.json.cells" / name
    file.parent.mkdir()
    file.write_bytes(data)
    monkeypatch.setattr(runner, "run_cell", lambda *given: pytest.fail("a cell was trained"))
    with pytest.raises(ValueError, match=f"r.json.cells/{name} .*ove it away"):
        main(sweep_command(tmp_path / "r.json"))
    assert file.read_bytes() == data and not (tmp_path / "r.json").exists()


def test_a_cell_of_something_else_is_named(tiny, tmp_path, monkeypatch):
    cells = iter([CELL | {"scores": {"in": 0.5}}, CELL | {"scores": {"far": 0.5}}])
    monkeypatch.setattr(runner, "run_cell", lambda *given: next(cells))
    with pytest.raises(ValueError, match="nope-1.json .*'far'.*'in'"):
        main(["sweep", "counting", "--preset", "nano", "--seeds", "2", "--methods", "nope", "--out", f"{tmp_path}/r"])


@pytest.mark.parametrize("change", SAME)
def test_a_sweep_begun_otherwise_is_not_mixed_in(change, tiny, tmp_path, monkeypatch):
    def stop(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run_cell", stop)
    with pytest.raises(KeyboardInterrupt):
        main(sweep_command(tmp_path / "r.json"))
    begun = tmp_path / "r.json.cells" / "begun-0.json"
    start = json.loads(begun.read_text())
    start["same"][change] = "others"
    begun.write_text(json.dumps(start))
    before = {file.name: file.read_bytes() for file in begun.parent.iterdir()}
    with pytest.raises(ValueError, match="r.json.cells .*delete"):
        main(sweep_command(tmp_path / "r.json"))
    assert not (tmp_path / "r.json").exists()
    assert before == {file.name: file.read_bytes() for file in begun.parent.iterdir()}


def test_a_sweep_gone_on_with_at_another_commit_says_so(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "run_cell", lambda *given: CELL | {"scores": {"in": 0.5, "longer 4x": 0.5}})
    monkeypatch.setattr(runner, "check_results", lambda results: results)
    out, folder = tmp_path / "r.json", tmp_path / "r.json.cells"
    main(sweep_command(out))
    results = json.loads(out.read_text())
    folder.mkdir()
    for rank in (0, 1):
        same = {key: results[key] for key in SAME if key in results}
        (folder / f"begun-{rank}.json").write_text(json.dumps({"same": same, "commit": "a" * 40}))
    main(sweep_command(out))
    commit = json.loads(out.read_text())["commit"]
    assert commit.startswith("a" * 40) and commit.endswith(results["commit"]) and commit.count("a" * 40) == 1


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", SWEEPS)
def test_every_sweep_writes_what_a_reader_needs(name, tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runner, "sample", lambda *given, **more: "text")
    out, sweep, arms = tmp_path / "r.json", SWEEPS[name], arms_of(SWEEPS[name])[:2]
    if sweep.against:
        arms = list(dict.fromkeys([sweep.against, *arms]))[:2]
    command = sweep_command(out, name=name, arms=arms)
    main(command)
    results = check_results(json.loads(out.read_text()))
    assert results["name"] == name and list(results["methods"]) == arms and results["seeds"] == [0, 1]
    assert results["command"] == f"python -m posenc.lab.experiments {' '.join(command)}"
    assert results["corpus"]["sha256"] == load_corpus().sha256 and f"torch {torch.__version__}" in results["versions"]
    assert results["machine"] and results["commit"]
    assert results["settings"] == json.loads(json.dumps(settings_for("nano", sweep.task).as_dict()))
    for values in results["methods"].values():
        assert len(values["seconds"]) == len(values["curve"]) == len(values["final_train_loss"]) == 2
        assert values["parameters"] > 1000
        assert values["start"] == results["methods"][arms[0]]["start"] and len(set(values["start"])) == 2
    lines = capsys.readouterr().out.split("\n")
    assert [line for line in lines if line] == [verdict(results, arm).words for arm in results["claims"]]


@pytest.mark.parametrize(
    "arguments, words",
    [
        ("sweep flipflops", "'flipflops'"),
        ("sweep flipflop --preset big", "'big'"),
        ("sweep flipflop --methods ropes", "'rope'"),
        ("sweep flipflop --seeds 0", "seeds=0"),
        ("sweep masked --methods rope", "'nope'"),
        ("sweep flipflop --device gpu", "device='gpu'"),
        ("sweep flipflop --device cuda:99", "device='cuda:99'"),
        ("sweep flipflop --set step=3", "'steps'"),
        ("rates flipflop --methods ropes", "'rope'"),
    ],
)
def test_the_command_refuses_what_cannot_be_and_writes_nothing(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((SystemExit, ValueError)) as caught:
        main(arguments.split())
    assert words in (capsys.readouterr().err if caught.type is SystemExit else str(caught.value))
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_rates_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere.json.*rates counting --out"):
        main(sweep_command(tmp_path / "r.json", "--rates", str(tmp_path / "nowhere.json")))


def test_processes_take_the_gpus_in_turn(monkeypatch):
    assert str(runner.deal("cpu", 3)) == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [str(runner.deal("cuda", rank)) for rank in range(3)] == ["cuda:0", "cuda:1", "cuda:0"]
    assert str(runner.deal("cuda:1", 0)) == "cuda:1"
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    assert runner.on("cuda") == {"device": "a GPU"} and runner.on("cpu") == {}


def test_a_start_is_what_is_shared_with_nope():
    small = Settings(**SIZES)
    starts = [
        [start_of(arm, small, "text", seed) for arm in ("nope", "rope", "learned", "t5", "fox")] for seed in (0, 1)
    ]
    assert [len(set(row)) for row in starts] == [1, 1] and starts[0] != starts[1]


def rates_command(out, *more, name="counting"):
    return ["rates", name, "--preset", "nano", "--methods", "rope", "t5", "--out", str(out), *more]


def test_rates_are_chosen_by_validation_and_a_sweep_trains_with_them(tiny, tmp_path, monkeypatch):
    rates, out, trained = tmp_path / "rates.json", tmp_path / "r.json", []

    def run_cell(sweep, arm, seed, settings, *given):
        trained.append((arm, seed, settings.lr, settings.own, settings.held_back))
        if arm.startswith("rope lr=0.0015"):
            raise FloatingPointError("diverged")
        score = {0.003: 2.0, 0.006: 1.0}.get(settings.lr, 3.0) - settings.own / 100 + seed / 1000
        return CELL | {"score": score if arm.startswith("t5") else 1.0, "scores": {}}

    monkeypatch.setattr("posenc.lab.experiments.rates.run_cell", run_cell)
    main(rates_command(rates, "--device", "cpu", name="masked"))
    assert len(trained) == 2 * (3 + 6 + 1) and {seed for _, seed, *_ in trained} == {100, 101}
    assert {held_back for *_, held_back in trained} == {16000}
    found = load_results_at(rates)
    assert found["choice"] == {"rope": {"lr": 0.003, "own": 1.0}, "t5": {"lr": 0.006, "own": 10.0}}
    assert found["ties"] == ["rope"] and found["arms"]["rope"]["ties"] == [{"lr": 0.006, "own": 1.0}]
    assert found["at_edge"] == {"t5": ["own"]}  # since a rate beyond .006 was tried
    assert [(t["lr"], t["own"], t["mean"] > 2) for t in found["arms"]["t5"]["trials"][6:]] == [(0.012, 10.0, True)]
    diverged = next(trial for trial in found["arms"]["rope"]["trials"] if trial["lr"] == 0.0015)
    assert diverged["mean"] is None and diverged["diverged"] == ["diverged"] * 2
    t5 = found["arms"]["t5"]["trials"][5]
    assert t5["scores"] == pytest.approx([1.0, 1.001]) and t5["mean"] == pytest.approx(1.0005)

    trained.clear()
    monkeypatch.setattr(runner, "run_cell", lambda *given: run_cell(*given) | {"scores": {"32": 1.0}})
    masked = SWEEPS["masked"]._replace(against="rope", facts=lambda settings: {"tests": {"32": "as told"}})
    monkeypatch.setitem(SWEEPS, "masked", masked)
    main(sweep_command(out, "--rates", str(rates), name="masked", arms=["rope", "t5"]))
    assert set(trained) == {(a, s, r, o, 16000) for s in (0, 1) for a, r, o in (("rope", 3e-3, 1), ("t5", 6e-3, 10))}
    results = json.loads(out.read_text())
    assert results["choice"] == found["choice"] and results["settings"]["held_back"] == 16000
    for arguments, words in (
        (sweep_command(out, "--rates", str(rates), name="masked", arms=["rope", "alibi"]), "none for 'alibi'"),
        (sweep_command(out, "--rates", str(rates), "--set", "steps=9", name="masked", arms=["rope"]), "steps"),
        (sweep_command(out, "--rates", str(rates), name="counting"), "none for 'nope'"),
        (sweep_command(out, "--rates", str(out), name="counting"), "holds the results 'masked', no rates"),
    ):
        with pytest.raises(ValueError, match=words):
            main(arguments)
    longer = Settings(**results["settings"] | {"steps": results["settings"]["steps"] + 9})
    assert read_rates(rates, "recall", longer, ["rope"])[1] == found["choice"]  # one choice for two sweeps
    with pytest.raises(ValueError, match="other settings: steps"):
        read_rates(rates, "masked", longer, ["rope"])


def load_results_at(path):
    return check_results(json.loads(path.read_text()))


@pytest.mark.weekly
def test_killed_rates_go_on_and_devices_are_not_mixed(tiny, tmp_path, monkeypatch):
    out, runs = tmp_path / "rates.json", []
    once, whole = tmp_path / "once.json", runner.run_cell
    main(rates_command(once))

    def stops(*given):
        runs.append(given[1:3])
        if len(runs) in (5, 21):  # the second while it tries rates beyond
            raise KeyboardInterrupt
        return whole(*given)

    monkeypatch.setattr("posenc.lab.experiments.rates.run_cell", stops)
    with pytest.raises(KeyboardInterrupt):
        main(rates_command(out))
    with pytest.raises(KeyboardInterrupt):
        main(rates_command(out))
    main(rates_command(out))
    assert len(runs) == 18 + 4 + 2  # two of them twice
    assert load_results_at(out)["arms"] == load_results_at(once)["arms"]


def test_results_of_some_methods_alone():
    some, everything = load_results("flipflop", ["nope", "alibi"]), load_results("flipflop")
    assert list(some["methods"]) == list(some["claims"]) == list(some["predictions"]) == ["nope", "alibi"]
    assert some["methods"]["alibi"] == everything["methods"]["alibi"] and some["seeds"] == everything["seeds"]
    with pytest.raises(ValueError, match="'alibis' .*'alibi'"):
        load_results("flipflop", ["alibis"])


def test_arms_are_added_to_results_that_are_there(tiny, tmp_path, monkeypatch, capsys):
    def run_cell(sweep, arm, seed, *given):  # numbers of its own for each arm and seed
        scores = {test: round(len(arm) / 100 + seed / 10, 6) for test in TASKS["flipflop"].words}
        return CELL | {"scores": scores if sweep.task == "flipflop" else {"32": seed + len(arm) / 10}}

    monkeypatch.setattr(runner, "run_cell", run_cell)
    together, out, masked = tmp_path / "all.json", tmp_path / "r.json", tmp_path / "m.json"
    main(sweep_command(together, name="flipflop", arms=["nope", "sinusoidal", "rope"]))
    main(sweep_command(out, name="flipflop", arms=["nope", "rope"]))
    main(sweep_command(out, "--add", name="flipflop", arms=["sinusoidal"]))
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

    monkeypatch.setitem(
        SWEEPS, "masked", SWEEPS["masked"]._replace(facts=lambda settings: {"tests": {"32": "as told"}})
    )
    main(sweep_command(masked, name="masked", arms=["nope", "rope"]))
    main(sweep_command(masked, "--add", name="masked", arms=["learned"]))  # which nope is beside
    assert "beside NoPE" in capsys.readouterr().out.split("Learned")[1]
    with pytest.raises(ValueError, match=r"\['sinusoidal'\]"):
        main(sweep_command(out, "--add", name="flipflop", arms=["sinusoidal"]))
    with pytest.raises(ValueError, match="other settings"):
        main(["sweep", "flipflop", "--preset", "lab", "--methods", "alibi", "--out", str(out), "--add"])
    grown["methods"]["sinusoidal"]["seeds"] = [0, 1, 2]
    with pytest.raises(ValueError, match="sinusoidal in has 2 seeds, not 3"):
        check_results(grown)


# ------------------------------------------------------------------------------------------------- one of your own


@pytest.mark.parametrize("name, arms", [("counting", ["nope", "rope"]), ("train_short_test_long", ["rope", "alibi"])])
def test_an_encoding_of_your_own_stands_beside_the_frozen_arms(name, arms, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "sample", lambda *given, **more: "text")
    monkeypatch.setattr(runner, "start_of", lambda *given: "start")
    main(sweep_command(tmp_path / "r.json", name=name, arms=arms))
    frozen = json.loads((tmp_path / "r.json").read_text())
    monkeypatch.setattr(comparison, "load_results", lambda asked: frozen if asked == name else None)
    yours = compare(lambda layer: posenc.make("rope", head_dim=8), sweep=name, seeds=2, name="my own")
    theirs, mine = frozen["methods"]["rope"], yours.results["methods"]["my own"]
    measured = "scores" if "scores" in mine else "whole"
    assert mine[measured] == theirs[measured]  # it is rope
    assert yours.verdict == verdict(frozen | {"methods": yours.results["methods"]}, "my own", "holds")
    assert yours.verdict[3:5] == interval(yours.results, "my own")[1:3] and "my own" in yours.verdict.words
    assert "95% interval" in yours.verdict.words
    words = {text.get_text() for text in yours.figure().findobj(matplotlib.text.Text)}
    assert {"my own", "RoPE"} <= words
    for given, error, words in (
        ({"my_encoding": "rope"}, TypeError, "my_encoding='rope'"),
        ({"seeds": 3}, ValueError, "seeds=3 .*2"),
        ({"name": "rope"}, ValueError, "name='rope'"),
        ({"sweep": "ablation_text"}, ValueError, "sweep='ablation_text'"),
        ({"claim": "rise"}, ValueError, "claim='rise'"),
        ({"own": 0}, ValueError, "own=0"),
        ({"lr": -1}, ValueError, "lr=-1"),
    ):
        monkeypatch.setattr(comparison, "run_cell", lambda *given: pytest.fail("a cell was trained"))
        with pytest.raises(error, match=words):
            compare(**{"my_encoding": lambda layer: None, "sweep": name, "seeds": 1} | given)
    if name != "counting":
        monkeypatch.setitem(frozen, "corpus", {"sha256": "0"})
        with pytest.raises(ValueError, match="another text.*Python 3"):
            compare(lambda layer: None, name, seeds=1)


# ----------------------------------------------------------------------------------------------------- frozen results


def made_by(name, preset, command):
    """Whether a command is that of a sweep at a preset; "study" is what it takes where none is named."""
    named = re.search(r"--preset (\w+)", command)
    known = re.search(rf"-m posenc\.(train|lab\.experiments) sweep {name} ", command)  # its older name and today's
    return bool(known) and (named[1] if named else "study") == preset


@pytest.mark.parametrize("name", SWEEPS)
def test_a_frozen_sweep_is_the_study_s(name):
    results, sweep = load_results(name), SWEEPS[name]
    preset = "lab" if name in ("sinusoidal_volume", "ablation_text") else "study"
    settings = settings_for(preset, sweep.task)
    assert results["preset"] == preset and made_by(name, preset, results["command"])
    scored = {"windows": 960, "held_back": 16000} if "choice" in results and sweep.task in ("text", "masked") else {}
    assert results["settings"] == json.loads(json.dumps(settings.as_dict())) | scored
    assert results["seeds"] == list(range(3 if name.startswith("ablation") else 5))
    arms = arms_of(sweep)
    assert list(results["methods"]) == arms
    claimed = {arm: said for arm, said in sweep.predictions.items() if arm in arms}
    assert results["claims"] == {arm: claim for arm, (claim, _) in claimed.items()}
    assert results["predictions"] == {arm: words for arm, (_, words) in claimed.items()}
    assert results["tolerance"] == sweep.tolerance and results["unit"] == sweep.unit
    assert (results["question"], results["headline"], results["shows_not"]) == (
        sweep.question,
        sweep.headline,
        sweep.shows_not,
    )
    facts = json.loads(json.dumps(sweep.facts(Settings(**settings.as_dict() | scored))))
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
        model = build(method, settings, sweep.task, options=options)
        assert values["parameters"] == sum(p.numel() for p in model.parameters())
    later = [arm for note in results.get("added", []) for arm in note["arms"]]
    assert later == sorted(set(later), key=later.index) and set(later) <= set(results["methods"])
    for note in results.get("added", []):
        assert made_by(name, preset, note["command"]) and len(note["commit"].split(",")[0]) == 40
        if sweep.unit.startswith("share"):
            assert all(0 <= share <= 1 for row in values["scores"].values() for share in row)
    for arm in results["claims"]:
        assert verdict(results, arm).outcome in ("came true", "failed", "not decided")


def test_frozen_short_long_is_whole():
    results = load_results("train_short_test_long")
    assert results["lengths"] == [64, 128, 256, 512] and results["tolerance"] == TOLERANCE
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


ROOT = Path(__file__).parents[2]
FROZEN = sorted(path.stem for path in (ROOT / "results").glob("*.json"))


def pairing(results):
    """Raise unless arms that hold them share starts and batches, seed by seed."""
    held = {arm: values for arm, values in results.get("methods", {}).items() if "start" in values}
    assert not held or set(held) == set(results["methods"])
    for kind in ("start", "batches"):
        by_seed = {}
        for arm, values in held.items():
            for seed, value in zip(values.get("seeds", results["seeds"]), values[kind], strict=True):
                assert by_seed.setdefault(seed, value) == value, f"{results['name']}: {arm} has another {kind}"
        assert len(set(by_seed.values())) == len(by_seed)


@pytest.mark.parametrize("name", FROZEN)
def test_arms_of_a_frozen_result_share_starts_and_batches(name):
    pairing(load_results(name))


def test_an_arm_of_another_start_or_batch_is_found():
    values = {"start": ["a", "b"], "batches": ["c", "d"]}
    pairing({"name": "x", "seeds": [0, 1], "methods": {"rope": values, "nope": values}})
    for other in (values | {"start": ["a", "x"]}, values | {"batches": ["d", "c"]}, {}):
        with pytest.raises(AssertionError):
            pairing({"name": "x", "seeds": [0, 1], "methods": {"rope": values, "nope": other}})


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


def test_gaps_and_cuts_by_hand():
    settings = settings_for("study")
    assert unseen_gaps(settings) == [0, 64, 192, 448]
    assert key_cuts(settings) == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
