"""ALiBi against Press et al. 2022 (arXiv 2108.12409), section 3, in loops; Bloom's; PyTorch's own attention."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loops import attend, close, dot, inputs

import posenc
from posenc.bias.alibi import bias, slopes

quick = settings(max_examples=60, derandomize=True, deadline=None)


def paper_slopes(n):
    """A geometric sequence that starts at 2^(-8/n) and uses that as its ratio; n a power of two."""
    start = 2 ** (-8 / n)
    return [start * start**h for h in range(n)]


def any_slopes(n):
    """The authors' rule for any n: those of the power of two below, then every other one of twice that."""
    if math.log2(n).is_integer():
        return paper_slopes(n)
    below = 2 ** math.floor(math.log2(n))
    return paper_slopes(below) + paper_slopes(2 * below)[0::2][: n - below]


def penalty(m, symmetric=False):
    """logit(h, i, j, q_i, k_j) of ALiBi with slopes m."""

    def logit(h, i, j, q_i, k_j):
        distance = abs(i - j) if symmetric else i - j
        return dot(q_i, k_j) / math.sqrt(len(q_i)) - m[h] * distance

    return logit


# The construction


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 25, 40, 71])
def test_slopes_equal_the_construction(heads):
    assert slopes(heads).dtype == torch.float32
    close(slopes(heads).double(), torch.tensor(any_slopes(heads), dtype=torch.float64), 6e-8)


def test_slopes_of_the_paper():
    assert slopes(8).tolist() == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
    assert [round(m, 4) for m in slopes(12)[-4:].tolist()] == [0.7071, 0.3536, 0.1768, 0.0884]
    assert slopes(12)[:8].tolist() == slopes(8).tolist()


@pytest.mark.parametrize("heads", [2, 8, 64])
def test_first_head_is_the_steepest(heads):
    m = slopes(heads)
    assert (m[1:] < m[:-1]).all() and math.isclose(m[0], 2 ** (-8 / heads), rel_tol=1e-6)
    assert math.isclose(m[-1], 2**-8, rel_tol=1e-6)


@pytest.mark.parametrize("symmetric", [False, True])
def test_bias_equals_the_construction(symmetric):
    pos_q, pos_k, m = [5, 2, 9], [0, 3, 4.5, 9], [0.5, 0.125]
    expected = torch.zeros(2, 3, 4, dtype=torch.float64)
    for h in range(2):
        for a, i in enumerate(pos_q):
            for b, j in enumerate(pos_k):
                expected[h, a, b] = -m[h] * (abs(i - j) if symmetric else i - j)
    actual = bias(torch.tensor(pos_q), torch.tensor(pos_k), torch.tensor(m, dtype=torch.float64), symmetric)
    close(actual, expected)
    batched = bias(torch.tensor([pos_q, pos_q]) + 7, torch.tensor([pos_k, pos_k]) + 7, torch.tensor(m), symmetric)
    assert batched.shape == (2, 2, 3, 4)
    close(batched[1].double(), expected, 1e-6)


@pytest.mark.parametrize("heads", [1, 3, 4])
@pytest.mark.parametrize("queries, keys", [(5, 5), (2, 7), (1, 1)], ids=str)
def test_attention_equals_the_construction(heads, queries, keys):
    q, k, v = inputs(heads=heads, queries=queries, keys=keys)
    m = slopes(heads).double().tolist()
    out, weights = posenc.attention(q, k, v, posenc.make("alibi", num_heads=heads), return_weights=True)
    expected_out, expected_weights = attend(q, k, v, penalty(m))
    close(weights, expected_weights)
    close(out, expected_out)


def test_symmetric_attention_looks_both_ways():
    q, k, v = inputs(queries=5)
    encoding = posenc.make("alibi", num_heads=2, symmetric=True)
    expected, _ = attend(q, k, v, penalty(slopes(2).double().tolist(), symmetric=True), causal=False)
    close(posenc.attention(q, k, v, encoding, causal=False), expected)


# What must hold


def test_weights_of_equal_logits_fall_by_one_factor_a_token():
    q = torch.zeros(1, 8, 6, 4, dtype=torch.float64)
    _, weights = posenc.attention(q, q, q, posenc.make("alibi", num_heads=8), return_weights=True)
    last = weights[0, :, -1]  # [H, Tk]
    close(last[:, :-1] / last[:, 1:], torch.exp(-slopes(8).double())[:, None].expand(8, 5))
    assert (last[:-1, 0] < last[1:, 0]).all(), "the steeper the head, the less it sees of the first key"


@pytest.mark.parametrize("heads", [4, 12])
def test_adding_slope_times_key_position_is_the_same_after_softmax(heads):
    q, k, v = inputs(heads=heads, queries=7)
    pos, m = torch.arange(7), slopes(heads).double()
    by_key = posenc.Encoding(bias=lambda q, k, at: m[:, None, None] * at.pos_k[:, None, None, :])
    close(posenc.attention(q, k, v, posenc.make("alibi", num_heads=heads)), posenc.attention(q, k, v, by_key))
    rows = bias(pos, pos, m) - m[:, None, None] * pos  # what differs is constant in each row
    close(rows, rows[..., :1].expand_as(rows))
    assert rows[:, 1:].abs().min() > 0


def test_distance_is_of_positions_not_of_indices():
    q, k, v = inputs(queries=5)
    encoding = posenc.make("alibi", num_heads=2)
    sparse = posenc.attention(q, k, v, encoding, pos_q=torch.arange(5) * 2)
    close(sparse, attend(q, k, v, penalty([2 * m for m in slopes(2).double().tolist()]))[0])


def test_without_a_causal_mask_only_the_symmetric_form_is_defined():
    q, k, v = inputs()
    with pytest.raises(posenc.UnsupportedError, match="symmetric=True"):
        posenc.attention(q, k, v, posenc.make("alibi", num_heads=2), causal=False)


def test_another_number_of_heads_is_refused():
    q, k, v = inputs(heads=4)
    with pytest.raises(ValueError, match="num_heads=2.*4 heads"):
        posenc.attention(q, k, v, posenc.make("alibi", num_heads=2))


def test_half_precision_rounds_neither_slopes_nor_distances():
    encoding = posenc.make("alibi", num_heads=12).half()
    assert torch.equal(encoding.bias.slopes, slopes(12))
    q = torch.zeros(1, 12, 1, 2, dtype=torch.bfloat16)
    k = torch.zeros(1, 12, 4100, 2, dtype=torch.bfloat16)
    at = posenc.At(torch.tensor([[4099]]), torch.arange(4100)[None], None)
    added = encoding.bias(q, k, at)
    expected = -slopes(12).double()[:, None] * (4099 - torch.arange(4100))
    close(added[0, :, 0].double(), expected, 2e-4)  # float32's step at 2048 is 2.4e-4


# Independent implementations


def test_equals_bloom_with_twelve_heads():
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    q, k, v = inputs(heads=12, queries=6)
    theirs = build_alibi_tensor(torch.ones(2, 6, dtype=torch.long), 12, torch.float32).view(2, 12, 1, 6)
    close(theirs[0, :, 0, 1].double(), slopes(12).double(), 6e-8)
    logits = q @ k.transpose(-2, -1) / math.sqrt(4) + theirs.double()  # slope times key position
    hidden = torch.ones(6, 6, dtype=torch.bool).triu(1)
    expected = logits.masked_fill(hidden, -torch.inf).softmax(-1) @ v
    close(posenc.attention(q, k, v, posenc.make("alibi", num_heads=12)), expected, 1e-6)  # theirs is float32


@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=str)
@pytest.mark.parametrize("queries, keys", [(9, 9), (3, 9)], ids=str)
def test_equals_scaled_dot_product_attention_with_the_bias(dtype, tolerance, queries, keys):
    q, k, v = inputs(heads=3, queries=queries, keys=keys, dim=8, dtype=dtype)
    mask = torch.zeros(3, queries, keys, dtype=dtype)
    for h, m in enumerate(any_slopes(3)):
        for i in range(queries):
            for j in range(keys):
                distance = i + keys - queries - j
                mask[h, i, j] = -m * distance if distance >= 0 else -math.inf
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    close(
        posenc.attention(q, k, v, posenc.make("alibi", num_heads=3)), expected, tolerance
    )  # slopes(3) are powers of two


@pytest.mark.parametrize("causal", [True, False])
def test_without_an_encoding_equals_scaled_dot_product_attention(causal):
    q, k, v = inputs(heads=3, queries=9, dim=8)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    close(posenc.attention(q, k, v, posenc.make("nope"), causal=causal), expected)


# Gradients, any input


@pytest.mark.parametrize("symmetric", [False, True])
def test_gradcheck(symmetric):
    encoding = posenc.make("alibi", num_heads=2, symmetric=symmetric)
    q, k, v = (x.requires_grad_() for x in inputs(batch=1, queries=3, keys=4))
    assert torch.autograd.gradcheck(
        lambda q, k, v: posenc.attention(q, k, v, encoding, causal=not symmetric), (q, k, v)
    )


def test_learned_slopes_start_at_the_papers_and_get_a_gradient():
    encoding = posenc.make("alibi", num_heads=2, learned=True).double()
    (parameter,) = encoding.parameters()
    assert torch.equal(parameter, slopes(2).double())
    assert not list(posenc.make("alibi", num_heads=2).parameters())
    q, k, v = inputs(batch=1, queries=4)

    def through(m):
        return posenc.attention(q, k, v, posenc.Encoding(bias=lambda q, k, at: bias(at.pos_q, at.pos_k, m)))

    assert torch.autograd.gradcheck(through, parameter)
    posenc.attention(q, k, v, encoding).square().sum().backward()
    assert parameter.grad.abs().min() > 0


def test_bias_passes_gradients_of_scores_unchanged():
    r"""An additive bias moves the weights; q and k get what softmax attention with those weights gives them."""
    q, k, v = inputs(batch=1, heads=1, queries=5)
    q.requires_grad_()
    out, weights = posenc.attention(q, k, v, posenc.make("alibi", num_heads=1), return_weights=True)
    out.sum().backward()
    upstream = v.sum(-1)[0, 0]  # dL/dA_ij for L = sum of outputs
    A = weights[0, 0].detach()
    to_scores = A * (upstream - (A * upstream).sum(-1, keepdim=True))
    close(q.grad[0, 0], to_scores @ k[0, 0] / 2)


@quick
@given(heads=st.integers(1, 200))
def test_slopes_of_any_number_of_heads(heads):
    m = slopes(heads)
    power = 1 << (heads.bit_length() - 1)
    assert m.shape == (heads,) and len(set(m.tolist())) == heads
    assert torch.equal(m[:power], slopes(power))
    assert 2**-8 <= m.min() * (1 + 1e-6) and m.max() < 1


@quick
@given(
    positions=st.lists(st.floats(-300, 300, allow_nan=False, width=32), min_size=1, max_size=6),
    shift=st.integers(-10000, 10000),
    symmetric=st.booleans(),
)
def test_any_shift_of_all_positions_changes_nothing(positions, shift, symmetric):
    at, m = torch.tensor(positions, dtype=torch.float64), torch.tensor([0.5, 0.01], dtype=torch.float64)
    close(bias(at, at, m, symmetric), bias(at + shift, at + shift, m, symmetric), 1e-9)
    assert (bias(at, at, m, symmetric).diagonal(dim1=1, dim2=2) == 0).all()
