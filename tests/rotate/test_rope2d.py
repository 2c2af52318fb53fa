"""RoPE on several axes (arXiv 2403.13298) as loops over complex numbers, and beside transformers' own models."""

import cmath

import pytest
import torch
from loops import close, normal
from test_liere import grid, weights

import posenc
from posenc.rotate.rope import inv_freq
from posenc.rotate.rope2d import axial, rope2d, rotate

HEADS, DIM = 3, 24


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
def test_scores_are_relative(form):
    encoding, positions = made(form), grid(4, 5)
    q, k = normal(2, 2, HEADS, 20, DIM)
    close(weights(encoding, q, k, positions + torch.tensor([3, -8])), weights(encoding, q, k, positions))
    moved = positions.clone()
    moved[7] += 1
    assert (weights(encoding, q, k, moved) - weights(encoding, q, k, positions)).abs().max() > 1e-3


def test_each_mixed_head_starts_in_an_orthogonal_frame_of_its_own():
    freqs = made("mixed", base=10.0).rotate.freqs
    for t in range(DIM // 4):
        frame = freqs[:, :, 2 * t : 2 * t + 2] * 10 ** (t / (DIM // 4))
        close(frame @ frame.mT, torch.eye(2, dtype=torch.float64).expand(HEADS, 2, 2), tolerance=1e-6)
    assert (freqs[0] - freqs[1]).abs().max() > 0.01


@pytest.mark.parametrize("name", ["rope2d", "liere", "comrope"])
def test_a_token_without_a_place_stays_unturned(name):
    positions = torch.cat((torch.tensor([[torch.nan, 3.0]]), grid(2, 2).float()))  # one coordinate is enough
    options = {"form": "mixed"} if name == "rope2d" else {}
    x, encoding = normal(1, HEADS, 5, DIM), posenc.make(name, head_dim=DIM, num_heads=HEADS, **options).double()
    turned, _ = encoding.rotate(x, x, posenc.At(positions[None], positions[None], None))
    assert torch.equal(turned[:, :, 0], x[:, :, 0]) and not torch.equal(turned[:, :, 2], x[:, :, 2])
    assert weights(encoding, x, x, positions).isfinite().all()


# Others' code: their frequencies, in the order in which they deal them to pairs


def rows_then_columns(of_rows, of_columns):
    """[2, P]: the first pairs turn along the rows' axis, the others along the columns'."""
    none = torch.zeros_like(of_rows)
    return torch.stack((torch.cat((of_rows, none)), torch.cat((none, of_columns)))).double()


def test_equals_the_axial_frequencies_of_rotary_embedding_torch():
    from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

    ours = axial(DIM, dtype=torch.float64)
    steps = ours[0, ::2]  # theta_t of the rows, as of the columns
    theirs = RotaryEmbedding(DIM // 2, custom_freqs=steps).double()
    x = normal(1, HEADS, 20, DIM)
    expected = apply_rotary_emb(theirs.get_axial_freqs(4, 5), x.unflatten(2, (4, 5))).flatten(2, 3)
    close(rotate(x, grid(4, 5), rows_then_columns(steps, steps)), expected)
    order = torch.cat((torch.arange(0, DIM // 2, 2), torch.arange(1, DIM // 2, 2)))  # ours deal pairs in turn
    lanes = (2 * order[:, None] + torch.arange(2)).flatten()
    close(rotate(x[..., lanes.argsort()], grid(4, 5), ours)[..., lanes], expected)


def test_equals_pixtral():
    from transformers import PixtralVisionConfig
    from transformers.models.pixtral import modeling_pixtral as pixtral

    config = PixtralVisionConfig(hidden_size=2 * DIM, num_attention_heads=2, image_size=80, patch_size=16)
    rotary, x = pixtral.PixtralRotaryEmbedding(config), normal(1, 2, 12, DIM)
    ids = pixtral.position_ids_in_meshgrid([torch.zeros(1, 3, 4)], 5)
    cos, sin = rotary(x.float(), ids)
    expected, _ = pixtral.apply_rotary_pos_emb(x.float(), x.float(), cos, sin, unsqueeze_dim=0)
    steps = inv_freq(DIM, config.rope_parameters["rope_theta"])  # rows and columns take turns on one ladder
    turned = rotate(x.float(), grid(3, 4), rows_then_columns(steps[::2], steps[1::2]), "half")
    close(turned, expected, tolerance=1e-5)


def test_equals_dinov3_whose_first_tokens_have_no_place():
    from transformers import DINOv3ViTConfig
    from transformers.models.dinov3_vit import modeling_dinov3_vit as dino

    config = DINOv3ViTConfig(hidden_size=2 * DIM, num_attention_heads=2, image_size=64, patch_size=16)
    rotary, x = dino.DINOv3ViTRopePositionEmbedding(config).eval(), normal(1, 2, 3 + 12, DIM)
    cos, sin = rotary(torch.zeros(1, 3, 48, 64))
    expected, _ = dino.apply_rotary_pos_emb(x.float(), x.float(), cos, sin)
    centers = (grid(3, 4) + 0.5) / torch.tensor([3, 4]) * 2 - 1  # -1 to 1 from edge to edge
    positions = torch.cat((torch.full((3, 2), torch.nan), 2 * torch.pi * centers))
    steps = axial(DIM, base=config.rope_theta)[0, ::2]
    close(rotate(x.float(), positions, rows_then_columns(steps, steps), "half"), expected, tolerance=1e-5)
