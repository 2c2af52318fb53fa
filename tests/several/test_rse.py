"""RSE against the report's section 6 in loops: the true stick in reference and kernel, and what the report runs."""

import math
from pathlib import Path

import pytest
import torch
from loops import attend, close, dot, inputs, ladder, sigmoid, softmax, stick, turn

import posenc
from posenc.lab.exercises import rse as exercises
from posenc.lab.figures import four_places
from posenc.rotate.rope import rope
from posenc.several.rse import Penalty, penalty, rse
from posenc.weigh.stickbreaking import stickbreaking, weigh

BOTH = [("first", True), ("first", False), ("recent", True)]  # order, causal; "recent" is not defined without a mask
both = pytest.mark.parametrize("order, causal", BOTH)


# The report's formulas, nothing of posenc


def logits(rate, base=10000.0):
    def of_pair(h, i, j, q_i, k_j):
        w = ladder(len(q_i), base)
        return dot(turn(q_i, i, w), turn(k_j, j, w)) / math.sqrt(len(q_i)) - rate * abs(i - j)

    return of_pair


def report(q, k, v, rate, order="first", causal=True, **options):
    return attend(q, k, v, logits(rate, **options), lambda row: stick(row, order)[0], causal)


def row(z, order="first"):
    """One query that sees all keys: (weights [n], what is left)."""
    z = torch.as_tensor(z, dtype=torch.float64)[None]
    weights, rest = weigh(z, torch.ones_like(z, dtype=torch.bool), order, return_remainder=True)
    return weights[0], rest[0]


# The construction


@both
@pytest.mark.parametrize("queries, keys", [(6, 6), (2, 7), (1, 1)], ids=str)
def test_attention_equals_the_report_in_loops(order, causal, queries, keys):
    q, k, v = inputs(queries=queries, keys=keys)
    encoding = rse(4, base=100.0, rate=0.3, order=order).double()
    out, weights = posenc.attention(q, k, v, encoding, causal=causal, return_weights=True)
    expected_out, expected_weights = report(q, k, v, encoding.bias.rate.item(), order, causal, base=100.0)
    close(weights, expected_weights)
    close(out, expected_out)


@both
def test_it_is_the_composition_of_its_parts(order, causal):
    q, k, v = inputs(queries=7)
    parts = rope(4), penalty(0.05), stickbreaking(order=order, attend_current=True)
    whole = rse(4, rate=0.05, order=order)
    assert whole.places == ("rotate", "bias", "weigh")
    assert [name for name, _ in whole.named_parameters()] == ["bias.raw"], "one number is learned"
    assert torch.equal(
        posenc.attention(q, k, v, whole, causal=causal),
        posenc.attention(q, k, v, posenc.compose(*parts), causal=causal),
    )
    assert parts[0].places + parts[1].places + parts[2].places == whole.places
    for left_out in range(3):
        without = posenc.compose(*(part for number, part in enumerate(parts) if number != left_out))
        moved = posenc.attention(q, k, v, whole, causal=causal) - posenc.attention(q, k, v, without, causal=causal)
        assert moved.abs().max() > 1e-3, "each part does something"


# What must hold


def test_a_saturated_first_key_takes_all_and_what_stands_before_a_match_takes_from_it():
    weights, rest = row([60.0, 5.0, 5.0, 9.0])
    close(weights, torch.tensor([1.0, 0, 0, 0], dtype=torch.float64), 1e-20)
    assert rest < 1e-20
    near = [-1.0, 3.0]
    for prefix in ([2.0], [-1.0] * 50, [0.0] * 400):
        beta = torch.sigmoid(torch.tensor(prefix, dtype=torch.float64))
        close(row(prefix + near)[0][-2:], row(near)[0] * (1 - beta).prod())  # a product over all that is older
        close(row(prefix + near, "recent")[0][-2:], row(near, "recent")[0])  # recency: exactly nothing


@pytest.mark.parametrize("order", ["first", "recent"])
def test_the_gradient_of_a_weight_with_respect_to_lambda(order):
    """A_j (sum over the keys asked before j of beta_k d_k - (1 - beta_j) d_j), d the distance."""
    content = torch.randn(8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    distance = torch.tensor([5.0, 4, 3, 2, 1, 0, 1, 2], dtype=torch.float64)  # a query that sees both sides
    rate = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
    jacobian = torch.autograd.functional.jacobian(lambda r: row(content - r * distance, order)[0], rate)
    z = (content - rate.detach() * distance).tolist()
    pieces, _ = stick(z, order)
    for j in range(8):
        asked = range(j) if order == "first" else range(j + 1, 8)
        gained = sum(sigmoid(z[k]) * distance[k].item() for k in asked)
        expected = pieces[j] * (gained - (1 - sigmoid(z[j])) * distance[j].item())
        assert abs(jacobian[j].item() - expected) < 1e-14


def test_lambda_stays_at_least_zero_and_its_gradient_is_thin_where_it_is_small():
    for rate in (1e-3, 0.01, 1.0, 30.0):
        part = Penalty(rate)
        assert part.rate.item() == pytest.approx(rate, rel=1e-5)
        (gradient,) = torch.autograd.grad(part.rate, part.raw)
        assert gradient.item() == pytest.approx(1 - math.exp(-rate), rel=1e-4)
    encoding = penalty(0.01)
    optimizer = torch.optim.SGD(encoding.parameters(), lr=1e4)
    for _ in range(5):  # a loss that would make lambda as negative as it can
        optimizer.zero_grad()
        encoding.bias.rate.backward()
        optimizer.step()
        assert encoding.bias.rate >= 0
    assert encoding.bias.rate < 1e-6
    assert penalty(0.01).half().bias.rate.dtype == torch.float32


# Who looks near: the chapter's theorem


@pytest.mark.parametrize("content", [-4.0, -1.0, 0.0, 2.0])
@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 1.0, 3.0])
def test_first_order_peaks_where_the_formula_says_and_recency_is_always_local(content, rate):
    distance = torch.arange(3000, -1, -1, dtype=torch.float64)
    z = content - rate * distance
    first, recent = row(z)[0].flip(0), row(z, "recent")[0].flip(0)  # by distance
    peak = (content - math.log(math.expm1(rate))) / rate
    reached = min(2999, int(max(0, peak)))
    some = max(1, reached - 30)
    near = slice(some, reached + 30)
    # to the digits: one step nearer multiplies the weight by e^rate / (1 + e^(content - rate d))
    d = torch.arange(near.start, near.stop, dtype=torch.float64)
    expected = math.exp(rate) / (1 + (content - rate * d).exp())
    alive = first[near.start + 1 : near.stop + 1] > 1e-200
    close((first[near] / first[near.start + 1 : near.stop + 1])[alive], expected[alive], 1e-9)
    top = first.argmax().item()
    assert top == 0 if peak <= 0 else abs(top - peak) <= 1, (top, peak)
    assert exercises.peak(content, rate) == pytest.approx(max(0.0, peak))
    local = bool((first[:200].diff() <= 0).all())
    assert local == (rate >= math.log1p(math.exp(content)))
    assert (recent[:200].diff() <= 0).all() and recent.argmax() == 0


def test_without_lambda_nothing_is_left_for_the_near_keys_and_with_it_a_bound_is():
    for content in (-2.0, 0.0):
        left = []
        for keys in (10, 100, 1000):
            flat = row([content] * keys)[0]
            assert flat.argmax() == 0
            left.append(flat[-1].item())
        assert left[2] < 1e-50 < left[0]
        for rate in (0.1, 0.5, 1.0):
            z = content - rate * torch.arange(5000, 0, -1, dtype=torch.float64)
            reaches = row(z)[1].item()
            assert reaches >= math.exp(-math.exp(content) / math.expm1(rate)) > 0


def test_both_sides_of_a_query_are_not_alike():
    z = -0.3 * torch.tensor([3.0, 2, 1, 0, 1, 2, 3])
    weights, _ = row(z)
    left, right = weights[:3].flip(0), weights[4:]
    assert (left > 1.5 * right).all(), "the left one of two equal neighbors is asked first"


# What the report runs instead


def described(beta, block, update="block", floor=1e-6):
    """The kernel as the report describes it: the keys of a block share one rest, which then loses their sum."""
    rest, pieces = 1.0, []
    for start in range(0, len(beta), block):
        own = [b * rest for b in beta[start : start + block]]
        pieces += own
        rest = max(rest * (1 - sum(own)), floor)
    return pieces, rest


@pytest.mark.parametrize("block, total", [(16, 4.8), (32, 9.6), (64, 19.2)])
def test_one_rest_a_block_hands_out_more_than_there_is(block, total):
    pieces, rest = described([0.3] * 1024, block)
    assert sum(pieces) == pytest.approx(total, abs=2e-3)
    assert rest == 1e-6, "the first block has overdrawn the stick: the floor hides a negative rest"
    assert sum(pieces[block:]) < 2e-3, "whoever stands behind the first block gets next to nothing"
    assert 1 - sum(pieces[:block]) < 0
    assert sum(stick([math.log(0.3 / 0.7)] * 1024, "first")[0]) == pytest.approx(1, abs=1e-12)


def test_the_printed_update_is_not_the_stick_even_key_by_key():
    beta = [0.30, 0.25, 0.40, 0.35, 0.50]
    true, left = stick([math.log(b / (1 - b)) for b in beta], "first")
    by_pieces, _ = described(beta, 1)
    assert by_pieces[:2] == pytest.approx(true[:2]), "at the first key piece and bite are one"
    assert min(a - b for a, b in zip(by_pieces[2:], true[2:])) > 0.02
    assert sum(true) + left == pytest.approx(1, abs=1e-15)
    assert sum(described([0.3] * 4000, 1)[0]) > 5


def test_the_worked_example_follows_the_true_stick_and_slips_in_its_last_digit():
    beta, printed = [0.30, 0.25, 0.40, 0.35, 0.50], [0.300, 0.175, 0.210, 0.110, 0.103]
    printed_rest = [0.700, 0.525, 0.315, 0.205, 0.103]
    pieces, rest, rests = [], 1.0, []
    for b in beta:
        pieces.append(b * rest)
        rest *= 1 - b
        rests.append(rest)
    slips = [n for n in range(5) if abs(pieces[n] - printed[n]) > 5.0001e-4]
    slips_of_rest = [n for n in range(5) if abs(rests[n] - printed_rest[n]) > 5.0001e-4]
    assert slips == slips_of_rest == [4]
    assert pieces[4] == pytest.approx(0.102375) and rests[4] == pytest.approx(0.102375)
    assert sum(printed) + printed_rest[-1] == pytest.approx(1.001)
    update = [1.0]  # "remaining x (1 - sum of alpha)", the sum over all keys so far
    for n in range(4):
        update.append(update[-1] * (1 - sum(pieces[: n + 1])))
    assert abs(update[2] - printed_rest[1]) > 0.1, "the formula above the example is another one"


def test_the_fallback_is_another_method():
    q, k, v = inputs(queries=8)
    rate = 0.1
    encoding = rse(4, rate=rate).double()
    for causal in (True, False):
        fallback = posenc.compose(rope(4), penalty(rate).double())  # a softmax over the same logits
        _, soft = posenc.attention(q, k, v, fallback, causal=causal, return_weights=True)
        _, true = posenc.attention(q, k, v, encoding, causal=causal, return_weights=True)
        close(soft, attend(q, k, v, logits(encoding.bias.rate.item()), softmax, causal)[1])
        close(soft.sum(-1), torch.ones(2, 2, 8, dtype=torch.float64))
        assert (true.sum(-1) < 0.9999).all() and (true - soft).abs().max() > 0.3
    volume = posenc.Encoding(bias=lambda q, k, at: 3 + encoding.bias(q, k, at))  # three more logits for every key
    louder = [posenc.compose(rope(4), volume), posenc.compose(rope(4), volume, stickbreaking(order="first"))]
    _, soft_louder = posenc.attention(q, k, v, louder[0], causal=False, return_weights=True)
    _, stick_louder = posenc.attention(q, k, v, louder[1], causal=False, return_weights=True)
    close(soft_louder, soft)
    assert (stick_louder - true).abs().max() > 0.3


def test_the_chapter_lights_the_three_places():
    drawn = Path(__file__).resolve().parents[2] / "book" / "_static" / "four-places-rse.svg"
    assert drawn.read_text("utf-8") == four_places.diagram(("rotate", "bias", "weigh"))


def test_the_penalty_is_exact_in_float64_and_told_to_kernels_in_float32():
    where, place = torch.tensor([[0, 3, 700]]), penalty(0.1).bias
    x = torch.randn(1, 2, 3, 8, dtype=torch.float64)
    slopes = torch.nn.functional.softplus(place.raw).double().expand(2)
    expected = posenc.alibi.bias(where, where, slopes, symmetric=True)
    torch.testing.assert_close(place(x, x, posenc.At(where, where, None)), expected, rtol=1e-14, atol=0)
    (slope,) = place.double().kernel_inputs(x, None).values()
    assert slope.dtype == torch.float32 and slope.tolist() == pytest.approx([0.1, 0.1])
