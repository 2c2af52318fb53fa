"""What the explorables of CoPE show, against sums in plain loops."""

import pytest
import torch

from posenc.lab.figures import cope as figures


def traces(figure):
    return {trace["name"]: trace for trace in figure["data"]}


def by_loops(gates, query):
    return [sum(gates[j : query + 1]) for j in range(query + 1)]


@pytest.mark.parametrize("preset", figures.PRESETS)
@pytest.mark.parametrize("query, token, gate", [(11, 8, 0.5), (5, 0, 0.25), (11, 11, 0.0), (4, 9, 1.0)])
def test_positions_are_sums_of_the_gates_that_are_drawn(preset, query, token, gate):
    figure, _ = figures._gates(preset, query, token, gate)
    lines = traces(figure)
    expected = by_loops(lines["gate"]["y"], query)
    assert lines["gate"]["y"][token] == gate
    assert lines["position p of each key"]["y"].tolist() == pytest.approx(expected)


def test_the_presets_count_what_their_names_say():
    tokens = figures.TOKENS
    last = len(tokens) - 1
    oldest = {name: traces(figures._gates(name, last, 1, figures.PRESETS[name][1])[0]) for name in figures.PRESETS}
    p = {name: lines["position p of each key"]["y"][0].item() for name, lines in oldest.items()}
    assert p == {"words": 10, "sentences": tokens.count("."), "all": len(tokens)}


def test_keys_lie_on_the_lines_between_the_rows_and_the_last_row_takes_the_rest():
    lines = traces(figures._gates("all", 11, 8, 0.5)[0])
    x, y, rows = lines["the keys"]["x"], lines["the keys"]["y"], figures.TABLE
    for at, bias in zip(x.tolist(), y.tolist()):
        low = min(int(at), len(rows) - 2)
        assert bias == pytest.approx((rows[low] + (at - low) * (rows[low + 1] - rows[low])).item())
    assert x.max() == len(rows) - 1 and (x == x.max()).sum() > 1


@pytest.mark.parametrize(
    "preset, query, token, gate, words",
    [
        ("all", 4, 9, 1.0, "after the query"),
        ("all", 11, 0, 1.0, "beyond row 7"),
        ("all", 11, 11, 1.0, "row 1"),
        ("words", 11, 9, 0.5, "rows 2 and 3"),
    ],
)
def test_the_readout_says_where_the_key_stands(preset, query, token, gate, words):
    assert figures._gates(preset, query, token, gate)[1]["where"] == words


@pytest.mark.parametrize("rows", [4, 16, 128])
@pytest.mark.parametrize("count", figures.RATES)
def test_a_gate_hears_from_the_unclamped_keys_behind_it_as_autograd_says(rows, count):
    length = 32
    p, heard = figures.clamped(rows, count, length)
    every = figures.RATES[count]
    gates = torch.tensor([1.0 if distance % every == 0 else 0.0 for distance in range(length)], dtype=torch.float64)
    gates.requires_grad_()
    counted = gates.cumsum(0)  # by distance from the query, so the sum runs from the query on
    assert torch.equal(counted.detach(), p)
    inside = torch.where(counted < rows - 1, counted, 0.0)  # what reaches z through the clamp, with slope 1
    (gradient,) = torch.autograd.grad(inside.sum() + 0 * gates.sum(), gates)
    assert torch.equal(gradient, heard.double())


def test_the_chapters_answer_on_the_clamp():
    p, heard = figures.clamped(16, "1 in 2", 64)
    assert (p >= 15).nonzero().min() == 28 and (p >= 15).sum() > 32
    assert torch.equal(heard == 0, p >= 15)


def test_the_last_row_stays_in_sight_and_is_said_to_be_above_where_no_key_reaches_it():
    for rows, arrow in ((48, True), (16, False)):
        figure, said = figures._clamp(rows, "1 in 2", 64)
        lines = traces(figure)
        assert lines["last row"]["y"][0] < figure["layout"]["yaxis"]["range"][1]
        assert ("↑" in lines["row of the clamp"]["text"][0]) == arrow == (said["piled"] == 0)


def test_the_frozen_gates_are_those_of_a_line_and_its_heads():
    frozen = figures.trained_gates()
    layers, heads = (figures.trained.sliders[name].values for name in ("layer", "head"))
    names = [f"layer {layer}, head {head}" for layer in layers for head in heads]
    assert [figures.name_of(head) for head in frozen["heads"]] == names
    assert frozen["queries"] == list(figures.trained.sliders["query"].values)
    for head in frozen["heads"]:
        assert [len(row) for row in head["gates"]] == [query + 1 for query in frozen["queries"]]
        assert all(0 <= gate <= 1 for row in head["gates"] for gate in row)


def test_a_trained_heads_staircase_sums_the_gates_that_are_drawn():
    lines = traces(figures._trained(2, 3, 31)[0])
    gates = dict(zip(lines["space"]["x"], lines["space"]["y"].tolist()))
    gates |= dict(zip(lines["letter"]["x"], lines["letter"]["y"].tolist()))
    assert sorted(gates) == list(range(32))
    expected = by_loops([gates[key] for key in range(32)], 31)
    assert lines["position p of each key"]["y"].tolist() == pytest.approx(expected)
    assert {figures.trained_gates()["line"][key] for key in lines["space"]["x"]} == {" "}


@pytest.mark.parametrize("layer, head, query", [(3, 1, 63), (1, 3, 39), (2, 4, 31), (1, 1, 7)])
def test_words_say_how_often_a_trained_head_counts_a_space(layer, head, query):
    lines, text = traces(figures._trained(layer, head, query)[0]), figures.trained_gates()["line"]
    space = lines["space"]["y"].mean().item()
    letter = lines["letter"]["y"][[text[key].isalpha() for key in lines["letter"]["x"]]].mean().item()
    (words,) = lines["verdict"]["text"]
    if query == 7:
        assert "no space" in words
    else:
        more, less = ("space", "letter") if space > letter else ("letter", "space")
        assert words == f"a {more} counts {max(space / letter, letter / space):.1f} times a {less}"
