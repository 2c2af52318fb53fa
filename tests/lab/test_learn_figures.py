r"""The figure of "trained short, tested long": its numbers are those of the frozen file, read here on their own."""

import json
import statistics
from pathlib import Path

import pytest

from posenc.lab.figures import learn, load
from posenc.methods import METHODS

RUNS = json.loads((Path(__file__).parents[2] / "results" / "train_short_test_long.json").read_text("utf-8"))
LENGTHS = RUNS["lengths"]
PAGES = ["alibi", "fox", "learned", "measure", "relative", "rope", "sinusoidal", "stickbreaking", "why_position"]


def losses(method, kind, length):
    return [run[LENGTHS.index(length)] for run in RUNS["methods"][method][kind]]


def drawn(page, **state):
    r"""The traces by name and the readout of a page's figure; `beside` is a method's title."""
    e = load(f"learn.{page}")
    if "beside" in state:
        state["beside"] = e.sliders["beside"].words.index(state["beside"])
    figure, readouts = e.fn(**{**e.default_state(), **state})
    return {trace["name"]: trace for trace in figure["data"]}, e.readout_text(readouts)


@pytest.mark.parametrize("page, own, other", [("rope", "rope", "kerple"), ("alibi", "alibi", "rope")])
def test_the_lines_are_means_of_the_runs(page, own, other):
    lines, _ = drawn(page, beside=METHODS[other].title)
    for name, arm, kind in [
        ("whole", own, "whole"),
        ("cut", own, "cut"),
        ("beside", other, "whole"),
        ("cut beside", other, "cut"),
    ]:
        assert lines[name]["x"] == LENGTHS
        assert lines[name]["y"] == pytest.approx([statistics.fmean(losses(arm, kind, n)) for n in LENGTHS])
    band = lines["spread"]["y"]
    for n, low, high in zip(LENGTHS, band, reversed(band)):
        assert high - low == pytest.approx(2 * statistics.stdev(losses(own, "whole", n)))


def test_the_pointer_meets_every_method_with_its_own_numbers():
    pale = drawn("rope")[0]["every method"]
    met = set()
    for name, x, (mean, spread, seeds, cut) in zip(pale["text"], pale["x"], pale["customdata"]):
        if x == x:  # between two methods stands a gap
            arm = next(key for key in RUNS["methods"] if METHODS[key].title == name)
            whole = losses(arm, "whole", x)
            assert (mean, spread, seeds) == pytest.approx(
                (statistics.fmean(whole), statistics.stdev(whole), len(whole))
            )
            assert cut == pytest.approx(statistics.fmean(losses(arm, "cut", x)))
            met.add((arm, x))
    assert len(met) == len(RUNS["methods"]) * len(LENGTHS)


def test_the_chips_are_the_numbers_at_the_context():
    whole, cut, shaw = losses("rope", "whole", 128), losses("rope", "cut", 128), losses("shaw", "whole", 128)
    mean, spread = statistics.fmean(whole), statistics.stdev(whole)
    chips = [
        f"RoPE at 128: {mean:.2f} ± {spread:.2f}, 5 seeds",
        f"cut {statistics.fmean(cut):.2f}, {statistics.fmean(cut) - mean:.2f}".replace("-", "−"),
        f"Shaw {statistics.fmean(shaw):.2f}",
    ]
    lines, said = drawn("rope", beside="Shaw", length=128)
    assert said.split(" · ") == chips and set(lines["context"]["x"]) == {128}
    drop = lines["what the cut takes off"]
    assert drop["x"] == [128] * 2 and drop["y"] == pytest.approx([mean, statistics.fmean(cut)])


@pytest.mark.parametrize("page", PAGES)
def test_each_page_opens_at_a_method_of_its_own_and_names_stand_apart(page):
    rank = load(f"learn.{page}").sliders["beside"].words
    own = {METHODS[arm].title for arm in RUNS["methods"] if METHODS[arm].page == page}
    for other in rank:
        lines, said = drawn(page, beside=other)
        names = dict(zip(lines["names"]["text"], lines["names"]["y"]))
        shown = said.partition(" at ")[0]
        assert page == "measure" or shown in own
        ends, expected = [], []
        for method, whole, cut in [(shown, "whole", "cut"), (other, "beside", "cut beside")][: 1 + (other != shown)]:
            if cut not in lines:  # the learned table's page draws the other one whole alone
                assert page == "learned"
                ends, expected = [*ends, lines[whole]["y"][-1]], [*expected, method]
                continue
            pair = [lines[name]["y"][-1] for name in (whole, cut)]
            name, meet = method.removeprefix("Softmax with a "), abs(pair[0] - pair[1]) < learn.ALIKE
            ends += pair[: 1 if meet else 2]
            expected += [f"{name} ≈ cut"] if meet else [name, f"{name}, cut"]
        assert list(names) == expected
        assert min(lines["names"]["x"]) > LENGTHS[-1] and lines["from line to name"]["y"][::3] == ends
        heights = [learn.LOW, *sorted(names.values()), learn.HIGH]
        assert min(b - a for a, b in zip(heights, heights[1:])) > learn.APART / 2 - 1e-9
        assert all(b - a > 0.99 * learn.APART for a, b in zip(heights[1:-1], heights[2:-1]))


def test_nothing_runs_where_the_word_for_the_gray_lines_stands():
    (x,), (y,) = (drawn("rope")[0]["others"][axis] for axis in "xy")
    assert LENGTHS[-2] < x < LENGTHS[-1]
    ends = [
        statistics.fmean(losses(m, kind, n)) for m in RUNS["methods"] for kind in ("whole", "cut") for n in LENGTHS[-2:]
    ]
    for left, right in zip(ends[::2], ends[1::2]):  # a line is straight from one to the next
        assert abs((left + right) / 2 - y) > 0.15
