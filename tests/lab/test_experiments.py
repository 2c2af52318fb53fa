"""The experiments: predictions, verdicts, sweeps that are stopped or shared, and what stands in results/."""

import json
import math
import statistics
from pathlib import Path
from unittest import mock

import matplotlib.text
import numpy
import pytest
import torch
from train_runs import SIZES as TINY_SIZES

import posenc
from posenc import METHODS
from posenc.lab.experiments import (
    SWEEPS,
    check_results,
    compare,
    comparison,
    interval,
    load_results,
    run,
    verdict,
    write_json,
)
from posenc.lab.experiments.command import main
from posenc.lab.experiments.sweeps import CUT, arms_of
from posenc.lab.experiments.verdicts import CLAIMS, T95, half_width, in_longer
from posenc.lab.train import Settings, settings, settings_for
from posenc.lab.train.tasks import TASKS, load_corpus
from posenc.methods import on_text

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", run.KNOWN)
def test_every_sweep_predicts_something_for_every_method(name):
    sweep, arms = run.KNOWN[name], arms_of(run.KNOWN[name])
    assert list(sweep.predictions) == [arm for arm in arms if arm != sweep.against]
    rows = {m: METHODS[m] for m in on_text()}
    defined = {m for m, row in rows.items() if TASKS[sweep.task].causal or row.both_ways or not row.causal_only}
    assert sweep.arms or defined - {"path"} == set(arms)  # without a kernel it takes twenty times as long
    assert sweep.against is None or sweep.against in arms
    for arm, (claim, why) in sweep.predictions.items():
        assert claim in CLAIMS and why.endswith(".") and len(why) > 20, arm
    assert sweep.task in TASKS and sweep.tolerance > 0
    tests = sweep.facts(settings_for("study", sweep.task, **sweep.changes)).get("tests", TASKS[sweep.task].words)
    assert all(test is None or test in tests for test in sweep.contrast)


def results_with(whole, cut=None):
    """Results on text: losses of RoPE at two lengths, a row a seed."""
    values = {"whole": whole, "cut": cut or [[row[0]] * 2 for row in whole]}
    return {"lengths": [64, 512], "tolerance": 0.05, "methods": {"rope": values}, "claims": {"rope": "rises"}}


def test_verdict_on_text_is_on_the_rise_and_the_gap_to_the_cut():
    ends, cuts = (1.50, 1.52, 1.51), (2.0, 2.1, 2.2)
    mine = verdict(results_with([[1.0, end] for end in ends], cut=[[1.0, cut] for cut in cuts]), "rope")
    assert (mine.outcome, mine.change) == ("came true", pytest.approx(0.51))
    gaps = [end - cut for end, cut in zip(ends, cuts)]
    assert (mine.gap, mine.gap_spread) == pytest.approx((statistics.mean(gaps), statistics.stdev(gaps)))
    assert f"{mine.change:.3f} ± {mine.spread:.3f}" in mine.words and ": came true." in mine.words


def scores_with(before, after, against=None, claim="rises"):
    """Results of a puzzle, or of arms beside one of them."""
    methods, contrast = {"rope": {"scores": {"in": before, "far": after}}}, ["in", "far"]
    if against is not None:
        methods, contrast = {"rope": {"scores": {"far": after}}, "nope": {"scores": {"far": before}}}, [None, "far"]
    told = {"contrast": contrast, "against": against, "unit": "share of wrong answers"}
    return told | {"tolerance": 0.05, "methods": methods, "claims": {"rope": claim}}


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
        assert ("NoPE" if against else "'far'") in mine.words and f": {outcome}." in mine.words


@pytest.mark.parametrize("freedom", range(1, 11))
def test_student_t_leaves_out_five_percent(freedom):
    angle = torch.atan(torch.linspace(0, T95[freedom - 1] / math.sqrt(freedom), 20001, dtype=torch.float64))
    density = angle.cos() ** (freedom - 1)  # of t = tan(angle) sqrt(freedom)
    scale = math.gamma((freedom + 1) / 2) / (math.sqrt(math.pi) * math.gamma(freedom / 2))
    assert 2 * scale * torch.trapezoid(density, angle).item() == pytest.approx(0.95, abs=1e-4)


def test_how_a_model_holds_is_said_by_the_interval_of_whole_less_cut():
    half = 4.303 * 0.001 / math.sqrt(3)

    def word(mean, tolerance):
        return in_longer([1.0] * 3, [1 + mean - 0.001, 1 + mean, 1 + mean + 0.001], [1.0] * 3, tolerance)

    assert word(0.99 * half, 0.02) == word(-0.99 * half, 0.02) == "holds"
    assert word(1.01 * half, 0.02) == "suffers" and word(-1.01 * half, 0.02) == "extrapolates"
    assert word(1.01 * half, 20.2 * half) == "ignores"
    short, whole, blocks = [1.0] * 21, [1.01] * 5, [1.1, 0.9] * 8
    assert in_longer(short[:5], whole, short[:5], 0.09) == "suffers"
    assert in_longer(short, whole + blocks, short, 0.09, seeds=5) == "holds"  # other windows might say otherwise


def test_an_interval_is_student_s_over_seeds():
    moves = [0.06, 0.09, 0.07, 0.10, 0.08]
    results = scores_with([0.5] * 5, [0.5 + move for move in moves])
    found = interval(results, "rope")
    half = 2.776 * statistics.stdev(moves) / math.sqrt(5)
    assert found == pytest.approx((0.08, 0.08 - half, 0.08 + half, 5, 0))
    # by hand: 0.0604 to 0.0996, so beyond 0.05 as a whole, across 0.08, within 0.1
    for tolerance, rises in ((0.05, "came true"), (0.08, "not decided"), (0.1, "failed")):
        assert verdict(results | {"tolerance": tolerance}, "rope").outcome == rises
    mirrored = scores_with([0.5] * 5, [0.5 - move for move in moves], "nope", "falls")
    with pytest.raises(ValueError, match="arm='nope' is what the others"):
        interval(mirrored, "nope")
    with pytest.raises(ValueError, match="arm='rope' has 1 seed"):
        interval(scores_with([0.5], [0.6]), "rope")


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
    ends = 0.1 + seeds + windows
    assert 2 * half_width([*ends.mean(1), *ends.mean(0)], seeds=5) == pytest.approx(both.high - both.low, rel=0.1)
    scored = scores_with([1.0] * 5, (1 + ends.mean(1)).tolist()) | {"tests": {"in": "", "far": ""}}
    scored["methods"]["rope"]["blocks"] = blocks_with(ends)["methods"]["rope"]["blocks"]
    assert interval(scored, "rope") == pytest.approx(both)


# The sizes of a sweep's cell here: little enough to do often.
SIZES = TINY_SIZES | {"length": 32, "batch": 8, "steps": 12, "warmup": 2}
ARMS = ["nope", "rope", "alibi"]
CELL = {"curve": [], "parameters": 0, "seconds": 0.0}


def sweep_command(out, *more, name="counting", arms=ARMS):
    return ["sweep", name, "--preset", "nano", "--seeds", "2", "--methods", *arms, "--out", str(out), *more]


def read(path):
    return check_results(json.loads(path.read_text()))


@pytest.fixture
def tiny(monkeypatch):
    """A preset nano of these sizes, and as many threads afterwards as before: a sweep takes one."""
    monkeypatch.setitem(settings.PRESETS, "nano", Settings(**SIZES))
    monkeypatch.setitem(settings.PUZZLES, "nano", {})
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def pretend(monkeypatch, numbers):
    """Let numbers(sweep, arm, seed, settings) stand for training; return the list of (arm, seed, settings) it saw."""
    seen = []

    def cell(sweep, arm, seed, settings, device):
        seen.append((arm, seed, settings))
        return CELL | numbers(sweep, arm, seed, settings)

    monkeypatch.setattr(run, "run_cell", cell)
    return seen


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", SWEEPS)
def test_every_sweep_writes_what_a_reader_needs(name, tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(run, "sample", lambda *given, **more: "text")
    out, sweep, arms = tmp_path / "r.json", SWEEPS[name], arms_of(SWEEPS[name])[:2]
    if sweep.against:
        arms = list(dict.fromkeys([sweep.against, *arms]))[:2]
    command = sweep_command(out, name=name, arms=arms)
    main(command)
    results = read(out)
    assert results["name"] == name and list(results["methods"]) == arms and results["seeds"] == [0, 1]
    assert results["command"] == f"python -m posenc.lab.experiments {' '.join(command)}"
    assert results["corpus"]["sha256"] == load_corpus().sha256 and f"torch {torch.__version__}" in results["versions"]
    assert results["settings"] == json.loads(json.dumps(settings_for("nano", sweep.task).as_dict()))
    for values in results["methods"].values():
        assert len(values["seconds"]) == len(values["curve"]) == 2
        assert values["parameters"] > 1000 and values["curve"][0] != values["curve"][1]
    lines = capsys.readouterr().out.split("\n")
    assert [line for line in lines if line] == [verdict(results, arm).words for arm in results["claims"]]
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_a_stopped_sweep_goes_on_and_trains_no_finished_cell_again(tiny, tmp_path, monkeypatch):
    def numbers(sweep, arm, seed, settings):
        if len(trained) == 3:
            raise KeyboardInterrupt
        return {"scores": {test: len(arm) / 100 + seed / 10 for test in (*TASKS["counting"].words, CUT)}}

    trained, out, cells = pretend(monkeypatch, numbers), tmp_path / "r.json", tmp_path / "r.json.cells"
    with pytest.raises(KeyboardInterrupt):
        main(sweep_command(out))
    assert {path.name for path in cells.iterdir()} == {"nope-0.json", "rope-0.json"} and not out.exists()
    with pytest.raises(ValueError, match="nope-0.json was made with other settings"):
        main(sweep_command(out, "--set", "steps=9"))
    (cells / "alibi-1.json").write_bytes(b'{"scores": {"in"')
    with pytest.raises(ValueError, match="r.json.cells/alibi-1.json .*ove it away"):  # before anything is trained
        main(sweep_command(out))
    (cells / "alibi-1.json").unlink()
    first = json.loads((cells / "nope-0.json").read_text())
    write_json(cells / "nope-0.json", first | {"made": first["made"] | {"commit": "a" * 40}})
    main(sweep_command(out))
    begun, rest = [("nope", 0), ("rope", 0), ("alibi", 0)], [("alibi", 0), ("nope", 1), ("rope", 1), ("alibi", 1)]
    assert [cell[:2] for cell in trained] == begun + rest and not cells.exists()
    results = read(out)
    assert results["methods"]["rope"]["scores"]["in"] == [0.04, 0.14]
    assert results["commit"].startswith("a" * 40 + ", gone on with at ") and results["commit"].count("gone on") == 1


def test_the_cells_are_dealt_to_the_processes(tiny, tmp_path, monkeypatch):
    cells = pretend(monkeypatch, lambda *given: {"scores": dict.fromkeys([*TASKS["counting"].words, CUT], 0.5)})
    monkeypatch.setattr(run, "distributed", mock.Mock())  # by which they wait for one another
    monkeypatch.setenv("WORLD_SIZE", "2")
    shares = {"1": [("rope", 0), ("nope", 1), ("alibi", 1)], "0": [("nope", 0), ("alibi", 0), ("rope", 1)]}
    for rank, share in shares.items():
        monkeypatch.setenv("RANK", rank)
        cells.clear()
        main(sweep_command(tmp_path / "r.json"))
        assert [cell[:2] for cell in cells] == share and (tmp_path / "r.json").exists() == (rank == "0")


@pytest.mark.parametrize(
    "arguments, words",
    [
        ("sweep flipflop --methods ropes", "'rope'"),
        ("sweep masked --methods rope", "'nope'"),
        ("sweep flipflop --set step=3", "'steps'"),
        ("sweep flipflop --rates nowhere.json", "rates flipflop --out nowhere.json"),
        ("sweep flipflop --out .", "out='.' is a folder"),
    ],
)
def test_the_command_refuses_what_cannot_be_and_writes_nothing(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((SystemExit, ValueError, OSError)) as caught:
        main(arguments.split())
    assert words in (capsys.readouterr().err if caught.type is SystemExit else str(caught.value))
    assert list(tmp_path.iterdir()) == []


def test_rates_are_chosen_by_validation_and_a_sweep_trains_with_them(tiny, tmp_path, monkeypatch):
    rates, out = tmp_path / "rates.json", tmp_path / "r.json"
    masked = SWEEPS["masked"]._replace(against="rope", facts=lambda settings: {"tests": {"32": "as told"}})
    monkeypatch.setitem(run.KNOWN, "masked", masked)

    def numbers(sweep, arm, seed, settings):
        if arm.startswith("rope lr=0.0015"):
            raise FloatingPointError("diverged")
        score = {0.003: 2.0, 0.006: 1.0}.get(settings.lr, 3.0) - {10: 0.01, 100: 0.1}.get(settings.own, 0) + seed / 1000
        return {"score": score if arm.startswith("t5") else 1.0, "scores": {"32": 1.0}}

    trained = pretend(monkeypatch, numbers)
    main(["rates", "masked", "--preset", "nano", "--methods", "rope", "t5", "--out", str(rates)])
    assert len(trained) == 2 * (3 + 7) and {seed for _, seed, _ in trained} == {100, 101}
    assert {settings.held_back for *_, settings in trained} == {16000}
    found = read(rates)
    assert found["choice"] == {"rope": {"lr": 0.003, "own": 1.0}, "t5": {"lr": 0.006, "own": 100.0}}
    assert found["ties"] == ["rope"] and not found["at_edge"]
    tried = [(trial["lr"], trial["own"]) for trial in found["trials"]["t5"]]
    assert tried[3:] == [(0.006, 10), (0.006, 100), (0.012, 100), (0.006, 1000)]  # its own, then beyond both ends
    (diverged,) = (trial for trial in found["trials"]["rope"] if trial["mean"] is None)
    assert diverged["lr"] == 0.0015 and found["trials"]["t5"][4]["mean"] == pytest.approx(1.0005)

    trained.clear()
    main(sweep_command(out, "--rates", str(rates), name="masked", arms=["rope", "t5"]))
    assert {(arm, seed, s.lr, s.own, s.held_back) for arm, seed, s in trained} == {
        (arm, seed, lr, own, 16000) for seed in (0, 1) for arm, lr, own in (("rope", 3e-3, 1), ("t5", 6e-3, 100))
    }
    assert read(out)["choice"] == found["choice"]
    for more, words in (
        (["--rates", str(rates), "--methods", "rope", "alibi"], "none for 'alibi'"),
        (["--rates", str(rates), "--set", "steps=9"], "steps"),
        (["--rates", str(out)], "holds the results 'masked', no rates"),
    ):
        with pytest.raises(ValueError, match=words):
            main(sweep_command(out, name="masked", arms=["rope"]) + more)


def test_arms_are_added_to_results_that_are_there(tiny, tmp_path, monkeypatch, capsys):
    def numbers(sweep, arm, seed, settings):  # of its own for each arm and seed
        return {"scores": {test: round(len(arm) / 100 + seed / 10, 6) for test in (*TASKS["flipflop"].words, CUT)}}

    pretend(monkeypatch, numbers)
    together, out = tmp_path / "all.json", tmp_path / "r.json"
    main(sweep_command(together, name="flipflop", arms=["nope", "sinusoidal", "rope"]))
    main(sweep_command(out, name="flipflop", arms=["nope", "rope"]))
    main(sweep_command(out, "--add", name="flipflop", arms=["sinusoidal"]))
    whole, grown = (json.loads(path.read_text()) for path in (together, out))
    assert list(grown["methods"]) == ["nope", "sinusoidal", "rope"]
    assert grown["methods"]["sinusoidal"].pop("seeds") == [0, 1]
    for key in ("methods", "claims", "predictions"):
        assert grown[key] == whole[key]
    (note,) = grown["added"]
    assert note["arms"] == ["sinusoidal"] and note["command"].endswith("--add") and len(note["commit"]) >= 40
    assert verdict(grown, "sinusoidal").words in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"\['sinusoidal'\]"):
        main(sweep_command(out, "--add", name="flipflop", arms=["sinusoidal"]))
    with pytest.raises(ValueError, match="other settings"):
        main(["sweep", "flipflop", "--preset", "lab", "--methods", "alibi", "--out", str(out), "--add"])


def test_an_encoding_of_your_own_stands_beside_the_frozen_arms(tiny, tmp_path, monkeypatch):
    main(sweep_command(tmp_path / "r.json", name="masked", arms=["nope", "rope"]))
    frozen = read(tmp_path / "r.json")
    monkeypatch.setattr(comparison, "load_results", lambda asked: frozen)
    yours = compare(lambda layer: posenc.make("rope", head_dim=8), sweep="masked", seeds=2, name="my own")
    theirs, mine = frozen["methods"]["rope"], yours.results["methods"]["my own"]
    assert mine["scores"] == theirs["scores"]  # it is rope: from the same weights, on the same batches
    assert yours.verdict == verdict(frozen | {"methods": yours.results["methods"]}, "my own", "falls")
    assert {"my own", "RoPE"} <= {text.get_text() for text in yours.figure().findobj(matplotlib.text.Text)}
    for given, error, words in (
        ({"my_encoding": "rope"}, TypeError, "my_encoding='rope'"),
        ({"seeds": 3}, ValueError, "seeds=3 .*2"),
        ({"name": "rope"}, ValueError, "name='rope'"),
        ({"claim": "rise"}, ValueError, "claim='rise'"),
    ):
        with pytest.raises(error, match=words):
            compare(**{"my_encoding": lambda layer: None, "sweep": "masked", "seeds": 1} | given)


@pytest.mark.parametrize("name", SWEEPS)
def test_a_frozen_sweep_is_the_study_s(name):
    """What was predicted, asked and told of each arm is what the sweep says today."""
    results, sweep = load_results(name), SWEEPS[name]
    preset = "lab" if name == "sinusoidal_volume" else "study"
    scored = {"windows": 960, "held_back": 16000} if "choice" in results and sweep.task in ("text", "masked") else {}
    settings = settings_for(preset, sweep.task, **scored)
    assert results["preset"] == preset and results["settings"] == json.loads(json.dumps(settings.as_dict()))
    assert results["seeds"] == list(range(5))
    assert list(results["methods"]) == arms_of(sweep)
    assert {arm: (claim, results["predictions"][arm]) for arm, claim in results["claims"].items()} == sweep.predictions
    for key in ("tolerance", "unit", "question", "headline", "shows_not"):
        assert results[key] == getattr(sweep, key)
    facts = json.loads(json.dumps(sweep.facts(settings)))
    asked = TASKS[sweep.task].words | facts.pop("tests", {})  # of which an older file may lack some
    assert facts.items() <= results.items() and results.get("tests", {}).items() <= asked.items()


def test_what_is_frozen_stands_as_it_is_written(tmp_path):
    for path in sorted((ROOT / "results").glob("**/*.json")):
        write_json(tmp_path / "r.json", json.loads(path.read_text("utf-8")))
        assert (tmp_path / "r.json").read_bytes() == path.read_bytes(), path.name


def test_results_are_read_by_name_and_method():
    some, everything = load_results("flipflop", ["nope", "alibi"]), load_results("flipflop")
    assert list(some["methods"]) == list(some["claims"]) == list(some["predictions"]) == ["nope", "alibi"]
    assert some["methods"]["alibi"] == everything["methods"]["alibi"] and some["seeds"] == everything["seeds"]
    assert "claims" not in load_results("practice", ["rope"])  # arms, and no claims about them
    for error, words, given in (
        (ValueError, "'alibis' .*'alibi'", ("flipflop", ["alibis"])),
        (ValueError, "methods='rope' is not known", ("audit", ["rope"])),
        (FileNotFoundError, "Did you mean 'rope_surgery'", ("rope_surgry",)),
        (FileNotFoundError, "is no frozen result", ("../results/flipflop",)),
    ):
        with pytest.raises(error, match=words):
            load_results(*given)


@pytest.mark.parametrize(
    "damage, words",
    [
        (lambda r, rope: r.pop("commit"), "lack 'commit'"),
        (lambda r, rope: rope["cut"][1].pop(), r"rope cut has a row that isn't \[64, 128\]"),
        (lambda r, rope: rope["whole"][1].__setitem__(1, math.nan), "rope whole holds nan"),
        (lambda r, rope: rope.update(seeds=[0, 1, 2]), "rope whole has 2 seeds, not 3"),
        (lambda r, rope: r["methods"].update(nope={"seconds": [1.0, 2.0]}), "nope has no scores"),
    ],
)
def test_broken_results_are_refused(damage, words):
    results = dict.fromkeys(("name", "command", "commit", "versions", "machine", "settings"), "x")
    rope = {"whole": [[1.0, 2.0], [1.0, 2.0]], "cut": [[1.0, 2.0], [1.0, 2.0]], "scores": {"in": [0.1, 0.2]}}
    results |= {"seeds": [0, 1], "lengths": [64, 128], "tests": {"in": "as trained"}, "methods": {"rope": rope}}
    assert check_results(results) is results
    damage(results, rope)
    with pytest.raises(ValueError, match=words):
        check_results(results)
