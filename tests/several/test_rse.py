"""RSE against the report's section 6 in loops, and where its peak stands."""

import math

import pytest
import torch
from cases import equals_loops
from loops import dot, inputs, ladder, stick, turn

import posenc
from posenc.chapters.rse import exercises
from posenc.rotate.rope import rope
from posenc.several.rse import penalty, rse
from posenc.weigh.stickbreaking import stickbreaking, weigh

BOTH = [("first", True), ("first", False), ("recent", True)]  # order, causal; "recent" is not defined without a mask
both = pytest.mark.parametrize("order, causal", BOTH)


def row(z, order="first"):
    """One query that sees all keys: (weights [n], what is left)."""
    z = torch.as_tensor(z, dtype=torch.float64)[None]
    weights, rest = weigh(z, torch.ones_like(z, dtype=torch.bool), order, return_remainder=True)
    return weights[0], rest[0]


@both
@pytest.mark.parametrize("queries, keys", [(6, 6), (2, 7), (1, 1)], ids=str)
def test_attention_equals_the_report_in_loops(order, causal, queries, keys):
    encoding = rse(4, base=100.0, rate=0.3, order=order).double()
    rate = encoding.bias.rate.item()

    def logit(h, i, j, q_i, k_j):
        w = ladder(len(q_i), 100.0)
        return dot(turn(q_i, i, w), turn(k_j, j, w)) / math.sqrt(len(q_i)) - rate * abs(i - j)

    equals_loops(encoding, inputs(queries=queries, keys=keys), logit, lambda row: stick(row, order)[0], causal)


@both
def test_it_is_the_composition_of_its_parts(order, causal):
    q, k, v = inputs(queries=7)
    parts = rope(4), penalty(0.05), stickbreaking(order=order, attend_current=True)
    whole = rse(4, rate=0.05, order=order)
    assert whole.places == ("rotate", "bias", "weigh")
    assert [name for name, _ in whole.named_parameters()] == ["bias.raw"], "one number is learned"
    expected = posenc.attention(q, k, v, posenc.compose(*parts), causal=causal)
    assert torch.equal(posenc.attention(q, k, v, whole, causal=causal), expected)


def test_lambda_stays_at_least_zero():
    encoding = penalty(0.01)
    optimizer = torch.optim.SGD(encoding.parameters(), lr=1e4)
    for _ in range(5):  # a loss that would make lambda as negative as it can
        optimizer.zero_grad()
        encoding.bias.rate.backward()
        optimizer.step()
        assert encoding.bias.rate >= 0
    assert encoding.bias.rate < 1e-6


@pytest.mark.parametrize("content", [-4.0, 0.0, 2.0])
@pytest.mark.parametrize("rate", [0.01, 0.5, 3.0])
def test_first_order_peaks_where_the_formula_says_and_recency_is_always_local(content, rate):
    z = content - rate * torch.arange(3000, -1, -1, dtype=torch.float64)
    first, recent = row(z)[0].flip(0), row(z, "recent")[0].flip(0)  # by distance
    peak, top = (content - math.log(math.expm1(rate))) / rate, first.argmax().item()
    assert top == 0 if peak <= 0 else abs(top - peak) <= 1, (top, peak)
    assert exercises.peak(content, rate) == pytest.approx(max(0.0, peak))
    assert bool((first[:200].diff() <= 0).all()) == (rate >= math.log1p(math.exp(content)))
    assert (recent[:200].diff() <= 0).all() and recent.argmax() == 0


def test_the_penalty_is_exact_in_float64_and_told_to_kernels_in_float32():
    where, place = torch.tensor([[0, 3, 700]]), penalty(0.1).bias
    x = torch.randn(1, 2, 3, 8, dtype=torch.float64)
    slopes = torch.nn.functional.softplus(place.raw).double().expand(2)
    expected = posenc.alibi.bias(where, where, slopes, symmetric=True)
    torch.testing.assert_close(place(x, x, posenc.At(where, where, None)), expected, rtol=1e-14, atol=0)
    (slope,) = place.double().kernel_inputs(x, None).values()
    assert slope.dtype == torch.float32 and slope.tolist() == pytest.approx([0.1, 0.1])
