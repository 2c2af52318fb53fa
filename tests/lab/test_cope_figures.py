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
