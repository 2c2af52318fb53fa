"""What the explorables and the page of *Inside a pretrained model* draw and say, against the frozen results."""

import copy
import math
import statistics

import pytest
import torch

from posenc.lab.experiments import half_width, load_results
from posenc.lab.figures import pretrained as figures
from posenc.lab.pages import pretrained as page

FROZEN = load_results("pretrained")


def named(figure):
    return {trace["name"]: trace for trace in figure["data"]}


@pytest.mark.parametrize("layer, head", [(0, 0), (12, 5), (29, 8)])
def test_a_head_s_weights_and_scores_are_the_frozen_ones(layer, head):
    row = FROZEN["heads"][9 * layer + head]
    weights = named(figures.heads_by_layer.fn(layer=layer, head=head, show="weight")[0])["share of the weight"]
    assert weights["y"].tolist() == pytest.approx([100 * x for x in [row["first"], *row["weight"]]])
    traces = named(figures.heads_by_layer.fn(layer=layer, head=head, show="score")[0])
    assert traces["mean score of real pairs"]["y"].tolist() == pytest.approx(row["score"])
    line = traces["the same vectors at every distance"]
    x, y = line["x"][50].item(), line["y"][50].item()
    terms = zip(row["cos"], row["sin"], FROZEN["inv_freq"])
    assert y == pytest.approx(sum(a * math.cos(2**x * w) + b * math.sin(2**x * w) for a, b, w in terms), abs=1e-6)


def test_each_head_is_on_the_map_once_where_most_of_its_weight_is():
    traces = figures.heads_by_layer.fn(layer=0, head=0, show="weight")[0]["data"][:4]
    places = [(int(x), int(y)) for trace in traces for x, y in zip(trace["x"], trace["y"])]
    assert sorted(places) == [(layer, head) for layer in range(30) for head in range(9)]
    shares = figures.shares()
    for kind, trace in enumerate(traces):
        assert all(shares[int(x), int(y)].argmax() == kind for x, y in zip(trace["x"], trace["y"]))
    whole = shares.sum(-1)  # not more than all of a query's weight
    assert whole.min() > 0.95 and whole.max() < 1.02  # rounded to a thousandth, bin by bin


def test_bars_of_the_pairs_are_the_energy_in_two_parts():
    drawn, said = figures.pairs.fn(layer=7, head=2)
    traces, row = named(drawn), FROZEN["heads"][9 * 7 + 2]
    parts = [torch.as_tensor(traces[name]["y"]) for name in ("from distance alone", "from content")]
    energy = torch.tensor(row["energy"], dtype=torch.float64)
    assert torch.allclose(sum(parts), 100 * energy / energy.sum()) and min(part.min() for part in parts) >= 0
    assert said["slow"] == f"{100 * energy[20:].sum() / energy.sum():.0f}"


def test_what_distance_alone_makes_of_a_pair_s_score():
    row, pair = FROZEN["heads"][9 * 3 + 1], 9
    d = torch.arange(1, 8192, dtype=torch.float64) * FROZEN["inv_freq"][pair]
    variance = (row["cos"][pair] * d.cos() + row["sin"][pair] * d.sin()).var(unbiased=False)
    assert figures.position_energy()[3, 1, pair] == pytest.approx(min(variance.item(), row["energy"][pair]), abs=1e-9)


def test_pairs_that_finish_a_turn_are_told_from_those_that_do_not():
    w = FROZEN["inv_freq"]
    assert w[figures.first_slow()] * 8191 < 2 * math.pi <= w[figures.first_slow() - 1] * 8191


@pytest.mark.parametrize("times", [1, 2, 4])
def test_rises_are_paired_and_their_bars_are_student_s_intervals(times):
    traces = named(figures.lengths.fn(times=times)[0])
    assert traces["this length"]["y"] == [*range(len(figures.WAYS))]
    plain = FROZEN["losses"]["1 plain"]
    for x, row in zip(traces["this length"]["x"], traces["this length"]["y"]):
        name = f"{times} {list(figures.WAYS)[row]}"
        losses = FROZEN["losses"].get(name) if times > 1 or row > 2 else plain  # where nothing is done to it
        values = [a - b for a, b in zip(losses, plain)]
        assert x == pytest.approx(statistics.fmean(values))
        ends = [e for e, y in zip(traces["95% interval"]["x"], traces["95% interval"]["y"]) if y == row][:2]
        assert ends == pytest.approx([x - half_width(values), x + half_width(values)])


def test_results_of_another_model_or_with_a_window_missing_are_refused(monkeypatch):
    for change, word in (
        (lambda r: r["losses"]["4 whole"].pop(), "4 whole"),
        (lambda r: r["inv_freq"].__setitem__(3, 0.9), "CONFIG"),
    ):
        spoiled = copy.deepcopy(FROZEN)
        change(spoiled)
        monkeypatch.setattr(page, "load_results", lambda name, spoiled=spoiled: spoiled)
        with pytest.raises(ValueError, match=word):
            page.results.__wrapped__()


def test_the_frozen_file_says_where_it_is_from():
    assert len(FROZEN["weights"]["sha256"]) == len(FROZEN["table"]["sha256"]) == 64
    assert FROZEN["command"].startswith("python benchmarks/pretrained.py") and "/tmp" not in str(FROZEN["command"])
    assert all(len(values) == 5 for values in FROZEN["losses"].values())


def test_the_numbers_of_the_prose_are_the_frozen_ones():
    said, losses = page.numbers(), FROZEN["losses"]
    rise = statistics.fmean(losses["4 whole"]) - statistics.fmean(losses["1 plain"])
    assert said["rise_4_whole"].startswith(f"{rise:.2f} (")
    first = [row["first"] for row in FROZEN["heads"]]
    assert said["first_mean"] == f"{statistics.fmean(first):.0%}" and said["first_half"] == sum(x > 0.5 for x in first)
    assert said["row_127"] == f"{FROZEN['table']['norms'][127]:.2f}"
    assert (said["slow"], said["pairs"], said["unseen_long"]) == (12, 32, "56%")


def test_slow_pairs_of_the_small_model_are_those_that_finish_no_turn():
    """Its energy on them, the mean over heads, from the frozen heads alone: RoPE's angles at base 10,000."""
    frozen = load_results("rope_closely")
    pairs, reach = len(frozen["heads"][0]["energy"]), frozen["settings"]["length"] - 1
    slow = [i for i in range(pairs) if reach * 10_000 ** (-i / pairs) < 2 * math.pi]
    shares = [[e / sum(head["energy"]) for e in head["energy"]] for head in frozen["heads"]]
    on = [statistics.fmean(share[i] for share in shares) for i in range(pairs)]
    said = page.numbers()
    assert (said["study_slow"], said["study_others"]) == (len(slow), len(slow) - 1)
    assert said["study_even"] == f"{len(slow) / pairs:.0%}"
    assert said["study_share"] == f"{sum(on[i] for i in slow):.0%}"
    assert said["study_first"] == f"{on[slow[0]]:.0%}" and said["study_rest"] == f"{sum(on[i] for i in slow[1:]):.0%}"


@pytest.mark.parametrize("times", figures.TIMES)
def test_the_words_beside_the_rises_hold(times):
    """No harm: the interval of more keys ends under a tenth of a nat. Mends best: the least mean of the schemes."""
    rises = figures.rises_of(times)
    words = named(figures.lengths.fn(times)[0])["verdicts"]["text"]
    mean = {way: statistics.fmean(values) for way, values in rises.items()}
    if times == 1:
        assert words == ["", "a price even here"] and mean["yarn"] - half_width(rises["yarn"]) > 0
    else:
        assert words == ["no harm", "mends best"] and mean["keys"] + half_width(rises["keys"]) < 0.1
        assert min(("linear", "ntk", "yarn"), key=mean.get) == "yarn"
