"""What must hold for every method and every option: causality, decoding, padding, packing, shapes, dtypes."""

import pytest
import torch
from cases import DIM, HEAD_DIM, HEADS, NAMES, Block, attend, causal_modes, encoding, tokens, told
from loops import close

import posenc

# Measured below, so that a table of methods never takes it from a paper: moving all positions changes these alone.
# FIRE divides by the query's position beyond its threshold; Shaw's table meets queries that RoPE has turned by theirs;
# ExpoSB's gain falls with the position, and its band weighs the two lanes of a pair differently.
ABSOLUTE = {name for name in NAMES if name.startswith(("sinusoidal", "learned", "exposb"))}
ABSOLUTE |= {"fire-near", "rope+shaw-values"}

each = pytest.mark.parametrize("name", NAMES)
each_mode = pytest.mark.parametrize("name, causal", [(name, causal) for name in NAMES for causal in causal_modes(name)])


@pytest.mark.parametrize("name", posenc.METHODS)
def test_places_are_those_in_the_table(name):
    method = posenc.METHODS[name]
    assert encoding(name).places == method.places
    assert encoding(name).axes == method.axes
    assert bool(encoding(name).causal_only) == method.causal_only


@each
def test_future_changes_nothing(name):
    block, x = Block(name), tokens(2, 9)
    changed = x.clone()
    changed[:, 5:] = tokens(2, 4, seed=2)
    before, after = block(x), block(changed)
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.equal(before[:, 5:], after[:, 5:])


@each
def test_decoding_equals_full_pass(name):
    """One token at a time, and in chunks; at positions from 0, and at ids of each sequence."""
    block, x, positions = Block(name), tokens(2, 6), torch.arange(6)
    ids = torch.stack((positions + 3, positions))
    for chunks, at in (([1] * 6, positions), ([3, 1, 2], positions), ([1] * 6, ids)):
        cache = posenc.KVCache()
        options = [{} if at is positions else {"positions": part} for part in at.split(chunks, dim=-1)]
        steps = [block(part, cache=cache, **given) for part, given in zip(x.split(chunks, dim=1), options)]
        close(torch.cat(steps, dim=1), block(x, at))
        assert len(cache) == 6


@each
def test_positions_per_sequence_equal_one_by_one(name):
    block, x = Block(name), tokens(3, 5)
    positions = torch.tensor([[0, 1, 2, 3, 4], [7, 8, 9, 10, 11], [0, 2, 4, 6, 8]])
    together = block(x, positions)
    for b in range(3):
        close(together[b : b + 1], block(x[b : b + 1], positions[b]))


@each
def test_left_padding_changes_nothing(name):
    block, x, pad, cache = Block(name), tokens(1, 6), 3, posenc.KVCache()
    padded = torch.cat((tokens(1, pad, seed=3), x), dim=1)
    valid = torch.arange(6 + pad)[None] >= pad
    positions = (valid.cumsum(-1) - 1).clamp(min=0)
    alone = block(x)
    close(block(padded, positions, valid=valid)[:, pad:], alone)
    first = block(padded[:, :5], positions[:, :5], cache=cache, valid=valid[:, :5])
    rest = [block(padded[:, t : t + 1], positions[:, t : t + 1], cache=cache) for t in range(5, 9)]
    close(torch.cat([first, *rest], dim=1)[:, pad:], alone)


@pytest.mark.parametrize("name", [name for name in NAMES if encoding(name).axes is None])
def test_a_block_that_is_told_of_padding_does_not_count_it(name):
    """Two rows, padded by 3 and by 1: without positions each equals its tokens alone, in steps too, and cropped."""
    block, rows, cache = Block(name).attention, [tokens(1, 6), tokens(1, 8, seed=4)], posenc.KVCache()
    alone = [block(row) for row in rows]
    x = torch.cat([torch.cat((tokens(1, 9 - row.shape[1], seed=3), row), dim=1) for row in rows])
    valid = torch.arange(9) >= torch.tensor([[3], [1]])
    found = block(x, valid=valid)
    steps = [block(x[:, :5], valid=valid[:, :5], cache=cache), block(x[:, 5:7], valid=valid[:, 5:7], cache=cache)]
    cache.crop(stop=6)
    steps[1] = torch.cat((steps[1][:, :1], block(x[:, 6:7], cache=cache)), dim=1)
    steps = torch.cat([*steps, *(block(x[:, t : t + 1], cache=cache) for t in (7, 8))], dim=1)
    for b, row in enumerate(alone):
        close(found[b : b + 1, -row.shape[1] :], row)
        close(steps[b : b + 1, -row.shape[1] :], row)


@each_mode
def test_packed_sequences_stay_apart(name, causal):
    block, a, b = Block(name, causal), tokens(1, 4), tokens(1, 5, seed=4)
    segment = torch.tensor([[0] * 4 + [1] * 5])
    mask = segment[:, None, :, None] == segment[:, None, None, :]
    positions = torch.tensor([0, 1, 2, 3, 0, 1, 2, 3, 4])
    packed = block(torch.cat((a, b), dim=1), positions, mask=mask)
    close(packed, torch.cat((block(a), block(b)), dim=1))


@each_mode
def test_shifting_all_positions(name, causal):
    block, x, positions = Block(name, causal), tokens(2, 9), torch.arange(9)
    difference = (block(x, positions + 40) - block(x, positions)).abs().max()
    assert (difference > 1e-4) if name in ABSOLUTE else (difference < 1e-12)


@each
def test_float_and_integer_positions_agree(name):
    block, x = Block(name), tokens(1, 6)
    close(block(x, torch.arange(6)), block(x, torch.arange(6.0, dtype=torch.float64)))


@each_mode
def test_a_query_that_sees_nothing_gets_zeros_and_finite_gradients(name, causal):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, HEADS, 5, HEAD_DIM, dtype=torch.float64, requires_grad=True) for _ in range(3))
    mask = torch.ones(2, 1, 5, 5, dtype=torch.bool)
    mask[1, :, 2] = False
    out, weights = attend(name, q, k, v, causal=causal, mask=mask, return_weights=True)
    assert (out[1, :, 2] == 0).all() and (weights[1, :, 2] == 0).all()
    assert (out[0, :, 2] != 0).any()
    out.sum().backward()
    assert all(x.grad.isfinite().all() for x in (q, k, v))


@each_mode
def test_fewer_queries_than_keys_align_at_the_end(name, causal):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, HEADS, 6, HEAD_DIM, dtype=torch.float64) for _ in range(3))
    full = attend(name, q, k, v, causal=causal)
    for queries in (1, 4):
        close(attend(name, q[:, :, -queries:], k, v, causal=causal), full[:, :, -queries:])


@each_mode
def test_grouped_queries_equal_repeated_heads(name, causal):
    torch.manual_seed(0)
    q = torch.randn(2, HEADS, 5, HEAD_DIM, dtype=torch.float64)
    k, v = (torch.randn(2, 2, 5, HEAD_DIM, dtype=torch.float64) for _ in range(2))
    grouped = attend(name, q, k, v, causal=causal)
    heads = torch.tensor([0, 0, 1, 1])
    close(grouped, attend(name, q, k[:, heads], v[:, heads], causal=causal))


@each_mode
def test_gradients(name, causal):
    """Of x and of every parameter, along random directions: all at once, where one by one takes minutes."""
    block, x = Block(name, causal), tokens(1, 4).requires_grad_()
    parameters = dict(block.named_parameters())

    def run(x, *values):
        return torch.func.functional_call(block, dict(zip(parameters, values)), (x,))

    assert torch.autograd.gradcheck(run, (x, *parameters.values()), atol=1e-5, fast_mode=True)
    block(x).pow(2).sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in block.parameters())


@each
def test_half_model_keeps_its_frequencies_and_slopes(name):
    """model.half() must not round what positions are multiplied with; learned slopes are weights and may be."""
    x, positions = tokens(1, 16, torch.float32), torch.arange(2000, 2016)
    exact, half = Block(name, dtype=torch.float32), Block(name, dtype=torch.float32).half().float()
    if name == "alibi-learned":
        half.attention.encoding.bias.slopes.data.copy_(exact.attention.encoding.bias.slopes.data)
    for target, source in zip(exact.parameters(), half.parameters()):
        target.data.copy_(source.data)
    assert torch.equal(half(x, positions), exact(x, positions))


@pytest.mark.parametrize("name", [n for n in NAMES if encoding(n).causal_only])
def test_what_is_not_defined_is_refused_with_the_reason(name):
    q = torch.randn(1, HEADS, 3, HEAD_DIM)
    with pytest.raises(posenc.UnsupportedError, match="causal=False") as error:
        attend(name, q, q, q, causal=False)
    assert encoding(name).causal_only in str(error.value)


def test_autocast_keeps_angles_in_float32():
    x, positions = tokens(1, 16, torch.float32), torch.arange(5000, 5016)
    frequencies = posenc.rope.inv_freq(DIM)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = posenc.rope.rotate(x, positions, frequencies)
        table = posenc.sinusoidal.table(positions, DIM)
        bias = posenc.alibi.bias(positions, positions, posenc.alibi.slopes(HEADS))
    assert torch.equal(cast, posenc.rope.rotate(x, positions, frequencies))
    assert torch.equal(table, posenc.sinusoidal.table(positions, DIM))
    assert torch.equal(bias, posenc.alibi.bias(positions, positions, posenc.alibi.slopes(HEADS)))


@each_mode
@pytest.mark.parametrize(
    "dtype, near, far",
    [(torch.float32, 1e-5, 1e-2), (torch.float16, 1e-2, 1e-2), (torch.bfloat16, 6e-2, 6e-2)],
    ids=["float32", "float16", "bfloat16"],
)
def test_each_dtype_is_near_float64_and_rounds_no_positions(name, causal, dtype, near, far):
    """Positions above 256 don't fit bfloat16, above 2048 not float16: angles must not pass through them."""
    block, x, exact = Block(name, causal, dtype=dtype), tokens(1, 17, dtype), Block(name, causal)
    for target, source in zip(exact.parameters(), block.parameters()):
        target.data.copy_(source.data)
    for positions, tolerance in ((torch.arange(17), near), (torch.arange(17) * 97 + 4097, far)):
        out = block(x, positions)
        assert out.dtype == dtype
        close(out.double(), exact(x.double(), positions), tolerance)


BIASES = [name for name in NAMES if "+" not in name and encoding(name).bias is not None]


@pytest.mark.parametrize("name", BIASES)
def test_a_half_precision_model_computes_its_bias_in_float32(name):
    q, method = torch.randn(2, HEADS, 5, HEAD_DIM).half(), encoding(name).half()
    here = told(method, q, q)
    rough = method.bias(q, q, here)
    exact = method.float().bias(q.float(), q.float(), here)
    assert rough.dtype == torch.float32
    torch.testing.assert_close(rough, exact, rtol=2e-3, atol=2e-3)  # Shaw's product with q is rounded by the matmul
