"""RoPE on several axes (arXiv 2403.13298) as loops over complex numbers, and beside transformers' own models."""

import cmath

import pytest
import torch
from loops import close

import posenc
from posenc.rotate.mrope import dealt, mrope, positions_for
from posenc.rotate.rope import inv_freq
from posenc.rotate.rope import rotate as rotate_1d
from posenc.rotate.rope2d import axial, rope2d, rotate

HEADS, DIM = 3, 24


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def grid(rows, columns):
    return torch.cartesian_prod(torch.arange(rows), torch.arange(columns))


def made(form, **options):
    torch.manual_seed(0)
    return rope2d(DIM, form, num_heads=HEADS if form == "mixed" else None, **options).double()


def by_loops(x, positions, freqs):
    """Pair i of lanes as a complex number, times e^(i (p_1 w_1i + p_2 w_2i ..)); x [H, T, D], freqs [H, n, D/2]."""
    out = torch.empty_like(x)
    for h in range(x.shape[0]):
        for t, place in enumerate(positions.tolist()):
            for i in range(x.shape[2] // 2):
                angle = sum(p * freqs[h, a, i].item() for a, p in enumerate(place))
                z = complex(x[h, t, 2 * i], x[h, t, 2 * i + 1]) * cmath.exp(1j * angle)
                out[h, t, 2 * i], out[h, t, 2 * i + 1] = z.real, z.imag
    return out


def weights(encoding, q, k, positions):
    return posenc.attention(q, k, k, encoding, pos_q=positions, pos_k=positions, causal=False, return_weights=True)[1]


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("form", ["axial", "mixed"])
def test_rotation_equals_loops_over_complex_numbers(form, axes):
    encoding = made(form, axes=axes)
    positions, x = normal(5, axes, seed=1) * 7, normal(1, HEADS, 5, DIM)
    freqs = encoding.rotate.freqs.expand(HEADS, axes, DIM // 2)
    turned, _ = encoding.rotate(x, x, posenc.At(positions[None], positions[None], None))
    close(turned[0], by_loops(x[0], positions, freqs))


def test_the_axial_frequencies_are_the_papers():
    freqs = axial(16, dtype=torch.float64)
    for t in range(4):  # R(n, 2t) = e^(i theta_t x), R(n, 2t + 1) = e^(i theta_t y), theta_t = 100^(-t/(D/4)), t < D/4
        theta = 100 ** (-t / 4)
        close(freqs[:, 2 * t], torch.tensor([theta, 0.0], dtype=torch.float64))
        close(freqs[:, 2 * t + 1], torch.tensor([0.0, theta], dtype=torch.float64))
    close(axial(16, 1, 10000.0, torch.float64)[0], inv_freq(16, dtype=torch.float64))


@pytest.mark.parametrize("form", ["axial", "mixed"])
def test_scores_are_relative_and_norms_kept(form):
    encoding, positions = made(form), grid(4, 5)
    q, k = normal(2, 2, HEADS, 20, DIM)
    close(weights(encoding, q, k, positions + torch.tensor([3, -8])), weights(encoding, q, k, positions))
    turned, _ = encoding.rotate(q, k, posenc.At(positions[None], positions[None], None))
    close(turned.norm(dim=-1), q.norm(dim=-1))
    moved = positions.clone()
    moved[7] += 1
    assert (weights(encoding, q, k, moved) - weights(encoding, q, k, positions)).abs().max() > 1e-3


def test_gradients_reach_the_learned_frequencies():
    positions, x = normal(4, 2, seed=1), normal(1, HEADS, 4, DIM)
    freqs = made("mixed").rotate.freqs.detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda f: rotate(x, positions, f), freqs)


def test_each_mixed_head_starts_in_an_orthogonal_frame_of_its_own():
    freqs = made("mixed", base=10.0).rotate.freqs
    for t in range(DIM // 4):
        frame = freqs[:, :, 2 * t : 2 * t + 2] * 10 ** (t / (DIM // 4))
        close(frame @ frame.mT, torch.eye(2, dtype=torch.float64).expand(HEADS, 2, 2), tolerance=1e-6)
    assert (freqs[0] - freqs[1]).abs().max() > 0.01


def test_a_token_without_a_place_stays_unturned():
    positions = torch.cat((torch.tensor([[torch.nan, 3.0]]), grid(2, 2).float()))  # one coordinate is enough
    x, encoding = normal(1, HEADS, 5, DIM), made("mixed")
    turned, _ = encoding.rotate(x, x, posenc.At(positions[None], positions[None], None))
    assert torch.equal(turned[:, :, 0], x[:, :, 0]) and not torch.equal(turned[:, :, 2], x[:, :, 2])
    assert weights(encoding, x, x, positions).isfinite().all()


def test_positions_are_data_and_the_cache_keeps_them():
    layer = posenc.SelfAttention(HEADS * DIM, HEADS, made("mixed")).double()
    x, positions, cache = normal(2, 6, HEADS * DIM), grid(2, 3), posenc.KVCache()
    whole = layer(x, positions=positions)
    steps = [layer(x[:, t : t + 1], positions=positions[t : t + 1], cache=cache) for t in range(6)]
    close(torch.cat(steps, 1), whole)
    close(layer(x, positions=positions.expand(2, 6, 2)), whole)
    with pytest.raises(ValueError, match=r"positions=None.*\[T, 2\]"):
        layer(x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_angles_of_half_precision_are_float32(dtype):
    positions, x = 1000 + grid(3, 3), normal(1, HEADS, 9, DIM)
    freqs = axial(DIM, dtype=torch.float64)
    exact = rotate(x.to(dtype).double(), positions, freqs)
    assert (rotate(x.to(dtype), positions, freqs).double() - exact).abs().max() < 0.02
    with torch.autocast("cpu", dtype=dtype):
        assert (rotate(x.float(), positions, freqs).double() - rotate(x, positions, freqs)).abs().max() < 1e-3


# M-RoPE


def test_text_alone_is_rope():
    x, positions = normal(1, 2, 7, 16), positions_for([7])
    for interleaved in (False, True):
        turned = rotate(x, positions, dealt(16, (4, 2, 2), interleaved=interleaved), "half")
        close(turned, rotate_1d(x, torch.arange(7), inv_freq(16, 1e6, torch.float64), "half"))


def test_ids_and_angles_are_those_of_qwen2_vl_and_qwen3_vl():
    from transformers.models.qwen2_vl import modeling_qwen2_vl as two
    from transformers.models.qwen3_vl import modeling_qwen3_vl as three

    layout, sections, dim = [3, (1, 2, 4), 2, (1, 3, 2), 1], (4, 6, 6), 32
    ids = positions_for(layout)
    index = torch.tensor([0] * 3 + [1] * 8 + [0] * 2 + [1] * 6 + [0])

    class Model(torch.nn.Module):  # get_rope_index reads the configuration alone
        get_vision_position_ids = two.Qwen2VLModel.get_vision_position_ids

        class config:  # noqa: N801
            class vision_config:  # noqa: N801
                spatial_merge_size = 1

    theirs, delta = two.Qwen2VLModel.get_rope_index(
        Model(), index[None], index[None], image_grid_thw=torch.tensor([[1, 2, 4], [1, 3, 2]])
    )
    assert torch.equal(theirs[:, 0].T, ids)
    assert len(index) + delta.item() == ids.max() + 1  # where decoding goes on

    x = normal(1, 2, len(ids), dim)
    angle = ids.T[:, None, :, None] * inv_freq(dim, 1e6, torch.float64)  # [3, 1, T, D/2]
    doubled = torch.cat((angle, angle), -1)
    expected, _ = two.apply_multimodal_rotary_pos_emb(x, x, doubled.cos(), doubled.sin(), list(sections))
    close(rotate(x, ids, dealt(dim, sections), "half"), expected)

    for sections in ((6, 5, 5), (8, 4, 4)):
        mixed = three.Qwen3VLTextRotaryEmbedding.apply_interleaved_mrope(None, angle.clone(), sections)
        close((ids[..., None].double() * dealt(dim, sections, interleaved=True)).sum(-2), mixed[0])


def test_an_image_between_words_keeps_the_words_close():
    encoding, ids = mrope(16, (2, 3, 3)), positions_for([2, (1, 8, 8), 2])
    assert len(ids) == 68 and ids[-1].tolist() == [11, 11, 11] and encoding.axes == 3
    assert positions_for([]).shape == (0, 3) and positions_for([0, 2]).tolist() == [[0, 0, 0], [1, 1, 1]]


# Bad input


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: rope2d(10), ["head_dim=10", "multiple of 4"]),
        (lambda: rope2d(16, axes=3), ["head_dim=16", "multiple of 6"]),
        (lambda: rope2d(16, "mixed"), ["num_heads=None"]),
        (lambda: rope2d(16, num_heads=2), ["num_heads=2", "leave it out"]),
        (lambda: rope2d(16, "axal"), ["form='axal'", "axial"]),
        (lambda: rotate(normal(4, 8), torch.arange(4), axial(8)), ["positions [4]", "[..., T, n]"]),
        (lambda: rotate(normal(4, 8), normal(4, 3), axial(8)), ["positions [4, 3]", "[2, 4]"]),
        (lambda: rotate(normal(4, 8), normal(5, 2), axial(8)), ["positions [5, 2]", "broadcast"]),
        (lambda: rotate(normal(4, 8), normal(4, 2), axial(16)), ["16 lanes", "[4, 8]"]),
        (
            lambda: posenc.attention(*[normal(1, 2, 4, DIM)] * 3, made("mixed"), pos_q=grid(2, 2)),
            ["num_heads=3", "has 2"],
        ),
        (lambda: posenc.attention(*[normal(1, 2, 4, DIM)] * 3, made("axial")), ["pos_q=None", "[T, 2]"]),
        (lambda: mrope(16, (4, 4)), ["sections=[4, 4]", "8"]),
        (lambda: mrope(16, (0, 4, 4), interleaved=True), ["sections=[0, 4, 4]", "interleaved"]),
        (lambda: positions_for([(2, 2)]), ["layout holds (2, 2)"]),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises((TypeError, ValueError)) as error:
        call()
    assert all(word in str(error.value) for word in words), str(error.value)
