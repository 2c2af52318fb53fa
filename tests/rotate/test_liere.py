"""LieRE (arXiv 2406.10322) and ComRoPE (arXiv 2506.03737) alike: exponentials of written-out sums, and the theorem."""

import pytest
import torch
from loops import close

import posenc
from posenc.rotate.comrope import comrope
from posenc.rotate.liere import liere, rotation, skew

HEADS, DIM = 2, 24


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def made(name, **options):
    torch.manual_seed(0)
    factory = {"liere": liere, "ap": comrope, "ld": comrope}[name]
    form = {} if name == "liere" else {"form": name}
    return factory(DIM, HEADS, **form, **({"std": 0.5} | options)).double()


def grid(rows, columns):
    return torch.cartesian_prod(torch.arange(rows), torch.arange(columns))


def weights(encoding, q, k, positions):
    return posenc.attention(q, k, k, encoding, pos_q=positions, pos_k=positions, causal=False, return_weights=True)[1]


def relativity_error(generators, x, y):
    """The largest entry of R(x)^T R(y) - R(y - x), for positions x and y [T, n]."""
    return (rotation(x, generators).mT @ rotation(y, generators) - rotation(y - x, generators)).abs().max().item()


VARIANTS = [("liere", 2), ("liere", 4), ("liere", DIM), ("ap", 2), ("ap", 4), ("ld", 3), ("ld", 8)]


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("name, block", VARIANTS)
def test_rotation_equals_whole_matrices_written_out(name, block, axes):
    if name == "ap" and DIM // block % axes:
        pytest.skip("ap needs a multiple of axes")
    encoding = made(name, block=block, axes=axes)
    positions, x = normal(5, axes, seed=1), normal(1, HEADS, 5, DIM)
    turned, _ = encoding.rotate(x, x, posenc.At(positions[None], positions[None], None))
    matrices, theta = encoding.rotate.matrices, getattr(encoding.rotate, "theta", None)
    for h in range(HEADS):
        for t in range(5):
            whole = torch.zeros(DIM, DIM, dtype=torch.float64)
            for j in range(DIM // block):
                lanes = slice(j * block, (j + 1) * block)
                for a in range(axes):
                    if name == "liere":
                        generator = matrices[h, a, j] - matrices[h, a, j].T
                    else:
                        factor = float(j % axes == a) if name == "ap" else theta[h, a, j]
                        generator = factor * (matrices[h, j] - matrices[h, j].T)
                    whole[lanes, lanes] += positions[t, a] * generator
            close(turned[0, h, t], torch.matrix_exp(whole) @ x[0, h, t])


@pytest.mark.parametrize("name, block, relative", [
    ("liere", 2, True), ("liere", 4, False), ("ap", 4, True), ("ld", 4, True), ("ap", 2, True), ("ld", 8, True),
])  # fmt: skip
def test_norms_are_kept_always_and_scores_are_relative_where_generators_commute(name, block, relative):
    encoding, positions = made(name, block=block), grid(3, 4).double()
    q, k = normal(2, 1, HEADS, 12, DIM)
    turned, _ = encoding.rotate(q, k, posenc.At(positions[None], positions[None], None))
    close(turned.norm(dim=-1), q.norm(dim=-1))
    generators = encoding.rotate.generators()
    for a in range(2):
        for b in range(2):
            bracket = generators[:, a] @ generators[:, b] - generators[:, b] @ generators[:, a]
            assert (bracket.abs().max() < 1e-14) == (relative or a == b)
    error = relativity_error(generators[:, :, :], positions[:6], positions[6:])
    assert error < 1e-13 if relative else error > 0.1
    moved = weights(encoding, q, k, positions + torch.tensor([2.0, -1.0])) - weights(encoding, q, k, positions)
    assert (moved.abs().max() < 1e-12) == relative


def test_without_skew_symmetry_commuting_is_not_enough():
    """The theorem's counterexample: symmetric matrices commute with themselves, and yet R(1)^T R(0) is not R(-1)."""
    symmetric = torch.diag(torch.tensor([1.0, -1.0], dtype=torch.float64))[None, None]  # n = m = 1
    one, zero = torch.ones(1, 1), torch.zeros(1, 1)
    assert relativity_error(symmetric, one, zero) > 2
    assert relativity_error(skew(normal(1, 1, 2, 2)), one, zero) < 1e-14


def test_each_distinct_position_is_exponentiated_once(monkeypatch):
    """Rows that stand at the same places, and padding of all of them, share their rotations."""
    encoding, seen = made("liere", block=4), []
    exponential = torch.linalg.matrix_exp
    monkeypatch.setattr(torch.linalg, "matrix_exp", lambda a: seen.append(a.shape) or exponential(a))
    q, k = normal(2, 3, HEADS, 9, DIM)
    nowhere = torch.full((1, 2), torch.nan)
    one, other = (torch.cat((nowhere, place)) for place in (grid(2, 4).double(), grid(4, 2).double()))
    positions = torch.stack((one, one, other))
    together = posenc.attention(q, k, k, encoding, pos_q=positions, pos_k=positions, causal=False)
    assert seen == [(HEADS, 13, DIM // 4, 4, 4)]  # 8 + 8 - 4 in common + nowhere
    for b, place in enumerate((one, one, other)):
        alone = posenc.attention(q[b : b + 1], k[b : b + 1], k[b : b + 1], encoding, pos_q=place, causal=False)
        close(together[b : b + 1], alone)


@pytest.mark.parametrize("name", ["liere", "ap", "ld"])
def test_gradients_reach_generators(name):
    encoding, positions, x = made(name, block=3 if name != "ap" else 6), normal(3, 2, seed=1), normal(1, HEADS, 3, DIM)
    at = posenc.At(positions[None], positions[None], None)
    names = [name for name, _ in encoding.rotate.named_parameters()]

    def turned(*values):
        return torch.func.functional_call(encoding.rotate, dict(zip(names, values)), (x, x, at))[0]

    assert torch.autograd.gradcheck(turned, [p.detach().requires_grad_() for p in encoding.rotate.parameters()])


def test_a_token_without_a_place_stays_unturned_and_the_cache_keeps_places():
    encoding = made("ap", block=4)
    positions = torch.cat((torch.full((1, 2), torch.nan), grid(2, 2).float()))
    x = normal(1, HEADS, 5, DIM)
    turned, _ = encoding.rotate(x, x, posenc.At(positions[None], positions[None], None))
    assert torch.equal(turned[:, :, 0], x[:, :, 0]) and not torch.equal(turned[:, :, 2], x[:, :, 2])
    layer, tokens, cache = (
        posenc.SelfAttention(HEADS * DIM, HEADS, encoding).double(),
        normal(2, 5, HEADS * DIM),
        posenc.KVCache(),
    )
    steps = [layer(tokens[:, t : t + 1], positions=positions[t : t + 1], cache=cache) for t in range(5)]
    close(torch.cat(steps, 1), layer(tokens, positions=positions))


def test_half_precision_and_autocast_compute_in_float32():
    encoding = made("ld", block=4)
    x, positions = normal(1, HEADS, 4, DIM), grid(2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        turned, _ = encoding.float().rotate(x.float(), x.float(), posenc.At(positions[None], positions[None], None))
    at = posenc.At(100 + positions[None], 100 + positions[None], None)
    exact, _ = encoding.double().rotate(x, x, posenc.At(positions[None], positions[None], None))
    assert (turned.double() - exact).abs().max() < 1e-4
    half, rounded = x.half(), x.half().double()
    far = encoding.rotate(rounded, rounded, at)[0]
    assert (encoding.rotate(half, half, at)[0].double() - far).abs().max() < 1e-2


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: liere(24, 2, block=5), ["block=5", "head_dim=24"]),
        (lambda: liere(24, 2, axes=0), ["axes=0"]),
        (lambda: liere(24, 2, std=0), ["std=0"]),
        (lambda: rotation(normal(4, 3), normal(2, 1, 4, 4)), ["positions [4, 3]", "n = 2"]),
        (lambda: rotation(normal(4, 2), normal(2, 1, 4, 3)), ["[2, 1, 4, 3]"]),
        (
            lambda: posenc.attention(*[normal(1, 4, 4, DIM)] * 3, made("liere"), pos_q=grid(2, 2)),
            ["num_heads=2", "must be 4"],
        ),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises((TypeError, ValueError)) as error:
        call()
    assert all(word in str(error.value) for word in words), str(error.value)
