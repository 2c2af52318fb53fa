"""RSE against the report's section 6 in loops: the true stick in reference and kernel, and what the report runs."""

import math
from pathlib import Path

import pytest
import torch
from loops import attend, close, dot, inputs, softmax

import posenc
from posenc import UnsupportedError
from posenc.lab.exercises import rse as exercises
from posenc.lab.figures import four_places
from posenc.rotate.rope import rope
from posenc.several.rse import Penalty, penalty, rse
from posenc.weigh.stickbreaking import stickbreaking, weigh

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BOTH = [("first", True), ("first", False), ("recent", True)]  # order, causal; "recent" is not defined without a mask
both = pytest.mark.parametrize("order, causal", BOTH)


# The report's formulas, nothing of posenc


def sigmoid(z):
    return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))


def turn(x, position, base):
    """Pairs (2i, 2i+1) as complex numbers, turned by position * base^(-2i/D)."""
    out = []
    for i in range(0, len(x), 2):
        z = complex(x[i], x[i + 1])
        angle = position * base ** (-i / len(x))
        z *= complex(math.cos(angle), math.sin(angle))
        out += [z.real, z.imag]
    return out


def stick(row, order):
    """Pieces of the stick and what is left; None is a key that is not asked. rest <- rest (1 - beta)."""
    pieces, rest = [0.0] * len(row), 1.0
    for j in range(len(row)) if order == "first" else reversed(range(len(row))):
        if row[j] is not None:
            pieces[j] = sigmoid(row[j]) * rest
            rest *= 1 - sigmoid(row[j])
    return pieces, rest


def logits(rate, base=10000.0, positions=None):
    def of_pair(h, i, j, q_i, k_j):
        at_i, at_j = (i, j) if positions is None else (positions[i], positions[j])
        score = dot(turn(q_i, at_i, base), turn(k_j, at_j, base)) / math.sqrt(len(q_i))
        return score - rate * abs(at_i - at_j)

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
def test_positions_are_data(order, causal):
    q, k, v = inputs(queries=5)
    positions = [3, 4, 9, 9, 20]
    encoding = rse(4, rate=0.2, order=order).double()
    out, weights = posenc.attention(
        q, k, v, encoding, pos_q=torch.tensor(positions), causal=causal, return_weights=True
    )
    expected = report(q, k, v, encoding.bias.rate.item(), order, causal, positions=positions)
    close(out, expected[0])
    close(weights, expected[1])


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


@pytest.mark.parametrize("parts", [(), ("rotation",), ("penalty",), ("stick",), ("rotation", "penalty")], ids=str)
def test_a_part_can_be_left_out(parts):
    q, k, v = inputs(queries=5)
    made = {"rotation": rope(4), "penalty": penalty(0.2), "stick": stickbreaking(order="first", attend_current=True)}
    switches = {name: name in parts for name in made}
    expected = posenc.compose(*(part for name, part in made.items() if name in parts))
    assert rse(4, rate=0.2, **switches).places == expected.places
    close(posenc.attention(q, k, v, rse(4, rate=0.2, **switches)), posenc.attention(q, k, v, expected))


# What must hold


@both
@pytest.mark.parametrize("rate", [1e-4, 0.3, 40.0])
def test_weights_are_positive_and_add_up_with_the_remainder(order, causal, rate):
    q, k, v = inputs(queries=9)
    _, weights = posenc.attention(5 * q, k, v, rse(4, rate=rate, order=order), causal=causal, return_weights=True)
    z = torch.randn(4, 9, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    z = z + posenc.alibi.bias(torch.arange(9), torch.arange(9), torch.full((4,), rate).double(), symmetric=True)
    visible = torch.ones(9, 9, dtype=torch.bool)
    visible = visible.tril() if causal else visible
    pieces, rest = weigh(z, visible, order, return_remainder=True)
    assert (weights >= 0).all() and (weights.sum(-1) <= 1 + 1e-12).all() and (pieces >= 0).all()
    close(pieces.sum(-1) + rest, torch.ones(4, 9, dtype=torch.float64))
    close(rest, (1 - torch.sigmoid(z)).masked_fill(~visible, 1.0).prod(-1))  # whatever the order


@both
def test_only_differences_of_positions_count(order, causal):
    q, k, v = inputs(queries=6)
    encoding, at = rse(4, rate=0.1, order=order), torch.arange(6)
    plain = posenc.attention(q, k, v, encoding, causal=causal)
    close(posenc.attention(q, k, v, encoding, causal=causal, pos_q=at + 1000), plain, 1e-10)
    assert (posenc.attention(q, k, v, encoding, causal=causal, pos_q=2 * at) - plain).abs().max() > 1e-3


def test_a_saturated_first_key_takes_all_and_what_stands_before_a_match_takes_from_it():
    weights, rest = row([60.0, 5.0, 5.0, 9.0])
    close(weights, torch.tensor([1.0, 0, 0, 0], dtype=torch.float64), 1e-20)
    assert rest < 1e-20
    near = [-1.0, 3.0]
    for prefix in ([2.0], [-1.0] * 50, [0.0] * 400):
        beta = torch.sigmoid(torch.tensor(prefix, dtype=torch.float64))
        close(row(prefix + near)[0][-2:], row(near)[0] * (1 - beta).prod())  # a product over all that is older
        close(row(prefix + near, "recent")[0][-2:], row(near, "recent")[0])  # recency: exactly nothing


def test_lambda_gets_its_gradient():
    q, k, v = (x.requires_grad_() for x in inputs(batch=1, heads=1, queries=2, keys=3))
    for order, causal in BOTH:
        encoding = rse(4, rate=0.3, order=order).double()
        raw = encoding.bias.raw.detach().clone().requires_grad_()
        del encoding.bias.raw

        def f(q, k, v, raw, encoding=encoding, causal=causal):
            encoding.bias.raw = raw
            return posenc.attention(q, k, v, encoding, causal=causal)

        assert torch.autograd.gradcheck(f, (q, k, v, raw))
        (gradient,) = torch.autograd.grad(f(q, k, v, raw).square().sum(), raw)
        assert abs(gradient) > 1e-4


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


def test_a_bare_parameter_may_go_negative_and_ours_may_not():
    z = 0.5 * torch.arange(20, -1, -1)  # lambda = -0.5: every step away is a bonus
    assert row(z, "recent")[0].sum() == pytest.approx(1) and row(z)[0][0] > 0.999
    with pytest.raises(ValueError, match="rate=-0.5 must be greater than 0"):
        penalty(-0.5)


# The kernel


def run(impl, tensors, options, dtype):
    order, causal, rate = options
    encoding = rse(tensors[0].shape[-1], rate=rate, order=order).to(DEVICE)
    q, k, v = (x.to(dtype).requires_grad_() for x in tensors[:3])
    out = posenc.attention(q, k, v, encoding, causal=causal, impl=impl)
    return (out, *torch.autograd.grad(out, (q, k, v, encoding.bias.raw), tensors[3].to(dtype)))


DTYPES = [torch.float32, torch.float16]
if DEVICE == "cuda" and torch.cuda.get_device_capability() >= (8, 0):
    DTYPES.append(torch.bfloat16)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("queries, keys", [(1, 1), (65, 65), (19, 40), (40, 19)], ids=str)
@both
def test_kernel_equals_reference(order, causal, queries, keys, dtype):
    pytest.importorskip("triton", reason="Triton is published for Linux only")
    generator = torch.Generator().manual_seed(0)
    shapes = [(1, 2, queries, 16), (1, 1, keys, 16), (1, 1, keys, 16), (1, 2, queries, 16)]
    tensors = [torch.randn(shape, generator=generator).to(dtype).double().to(DEVICE) for shape in shapes]
    options = (order, causal, 0.07)
    exact = run("torch", tensors, options, torch.float64)
    ours, eager = (run(impl, tensors, options, dtype) for impl in ("triton", "torch"))
    for name, a, b, c in zip(("output", "q", "k", "v", "lambda"), ours, eager, exact):
        assert a.shape == c.shape and a.dtype == b.dtype, name
        a, b, c = (x.detach().double() for x in (a, b, c))
        if dtype == torch.float32:  # lambda's gradient sums thousands of terms as large as the distance, of both signs
            largest = max(25.0 if name == "lambda" else 1.0, float(c.abs().max()) if c.numel() else 0.0)
            torch.testing.assert_close(a, c, rtol=1e-5, atol=2e-6 * largest, msg=name)
        else:
            allowed = 2 * float((b - c).norm()) + 0.3 * torch.finfo(dtype).eps * float(c.norm()) + 1e-5
            assert float((a - c).norm()) <= allowed, name


def test_the_kernel_breaks_one_stick_whatever_its_blocks(monkeypatch):
    """130 keys of beta = 0.3 span three blocks, or nine: the report's one rest a block would hand out 4.8 to 19.2."""
    pytest.importorskip("triton", reason="Triton is published for Linux only")
    from posenc.kernels import stickbreaking as kernel
    from posenc.kernels.common import Tile

    q, k = torch.zeros(1, 1, 4, 16, device=DEVICE), torch.zeros(1, 1, 130, 16, device=DEVICE)
    q[..., 0], k[..., 0] = 4.0, math.log(0.3 / 0.7)  # scale 1/4
    v = torch.ones(1, 1, 130, 16, device=DEVICE)
    parts = stickbreaking(order="first", attend_current=True)
    for width in (16, 64):
        monkeypatch.setattr(kernel, "tiles", lambda *_, width=width, **__: (Tile(16, width, 4, 1),) * 2)
        total = posenc.attention(q, k, v, parts, impl="triton", causal=False)[..., 0]
        torch.testing.assert_close(total, torch.ones_like(total), rtol=0, atol=1e-5)


# Bad input


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: rse(7), ValueError, ["head_dim=7", "even"]),
        (lambda: rse(0), ValueError, ["head_dim=0", "at least 2"]),
        (lambda: rse("8"), TypeError, ["head_dim='8'", "int"]),
        (lambda: rse(True), TypeError, ["head_dim=True", "int"]),
        (lambda: rse(8, base=0), ValueError, ["base=0", "greater than 0"]),
        (lambda: rse(8, base="e"), TypeError, ["base='e'", "number"]),
        (lambda: rse(8, rate=0), ValueError, ["rate=0", "greater than 0"]),
        (lambda: rse(8, rate=float("inf")), ValueError, ["rate=inf", "finite"]),
        (lambda: rse(8, rate=None), TypeError, ["rate=None", "number"]),
        (lambda: rse(8, order="last"), ValueError, ["order='last'", "'recent', 'first'"]),
        (lambda: rse(8, order=None), ValueError, ["order=None"]),
        (lambda: rse(8, rotation=1), TypeError, ["rotation=1", "True or False"]),
        (lambda: rse(8, penalty=0.1), TypeError, ["penalty=0.1", "True or False"]),
        (lambda: rse(8, stick=None), TypeError, ["stick=None", "True or False"]),
        (lambda: penalty(-1), ValueError, ["rate=-1", "greater than 0"]),
        (lambda: penalty(float("nan")), ValueError, ["rate=nan", "finite"]),
        (lambda: penalty("small"), TypeError, ["rate='small'", "number"]),
        (lambda: penalty(True), TypeError, ["rate=True", "number"]),
    ],
)
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_recency_needs_a_mask_and_other_head_sizes_are_refused():
    q, k, v = inputs(dim=6)
    with pytest.raises(UnsupportedError, match="order='first' works both ways"):
        posenc.attention(q, k, v, rse(6, order="recent"), causal=False)
    with pytest.raises(ValueError, match="at least as many"):
        posenc.attention(q, k, v, rse(8))


def test_the_chapter_lights_the_three_places():
    drawn = Path(__file__).resolve().parents[2] / "book" / "_static" / "four-places-rse.svg"
    assert drawn.read_text("utf-8") == four_places.diagram(("rotate", "bias", "weigh"))
