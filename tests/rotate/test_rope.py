"""RoPE against Su et al. 2021 (arXiv 2104.09864), equations 14 to 16, as matrices, and against transformers."""

import math

import pytest
import torch
from loops import close, inputs, normal, pair

import posenc
from posenc.rotate.rope import inv_freq, rope, rotate, xpos

LAYOUTS = ("interleaved", "half")


def matrix(m, dim, base, layout):
    """R(m) as a D x D matrix: [[cos, -sin], [sin, cos]] of m theta_i at the lanes of pair i, theta_i = base^(-2i/D)."""
    R = torch.zeros(dim, dim, dtype=torch.float64)
    for i in range(dim // 2):
        angle = m * base ** (-2 * i / dim)
        a, b = pair(i, dim, layout)
        R[a, a], R[a, b] = math.cos(angle), -math.sin(angle)
        R[b, a], R[b, b] = math.sin(angle), math.cos(angle)
    return R


def turned(x, positions, dim, base=10000.0, layout="interleaved"):
    return torch.stack([matrix(m, dim, base, layout) @ row for m, row in zip(positions, x)])


def ladder(dim, base=10000.0):
    return inv_freq(dim, base, dtype=torch.float64)


@pytest.mark.parametrize("base", [10000.0, 5e5])
@pytest.mark.parametrize("dim", [2, 6, 128])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rotate_equals_the_matrices(layout, dim, base):
    """In any lanes after those that turn too: they stay as they are."""
    positions = [0, 1, 2, 17, -4, 2.5, 511]
    x = normal(len(positions), dim + 3)
    actual = rotate(x, torch.tensor(positions, dtype=torch.float64), ladder(dim, base), layout)
    close(actual, torch.cat((turned(x[:, :dim], positions, dim, base, layout), x[:, dim:]), -1))


def test_frequencies():
    close(ladder(8), torch.tensor([1.0, 0.1, 0.01, 0.001], dtype=torch.float64))
    assert inv_freq(8).dtype == torch.float32 and (ladder(128)[1:] < ladder(128)[:-1]).all()
    assert math.isclose(ladder(128)[-1], 10000 ** (-126 / 128)), "the last is not 1/base"
    close(inv_freq(128).double(), ladder(128), 6e-8)  # rounded once


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_proportional_is_what_gemma_4_turns(share):
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    from transformers.models.gemma4.modeling_gemma4 import apply_rotary_pos_emb

    parameters = {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": share}
    config = LlamaConfig(hidden_size=64, num_attention_heads=4, head_dim=16, rope_parameters=parameters)
    theirs, factor = ROPE_INIT_FUNCTIONS["proportional"](config, "cpu")
    ours = posenc.make("rope", head_dim=16, base=1e6, rotary_dim=int(16 * share), proportional=True, layout="half")
    q, k, v = inputs(dim=16)
    angles = torch.arange(q.shape[2])[:, None] * torch.cat((theirs, theirs)).double()
    cos, sin = (factor * x[None] for x in (angles.cos(), angles.sin()))
    expected = apply_rotary_pos_emb(q, cos, sin) @ apply_rotary_pos_emb(k, cos, sin).transpose(-2, -1) / 4
    later = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).triu(1)
    weights = posenc.attention(q, k, v, ours, return_weights=True)[1]
    close(weights, expected.masked_fill(later, -math.inf).softmax(-1), 1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_rounds_the_result_once(dtype):
    x, positions = normal(512, 64).to(dtype), torch.arange(512) * 16
    exact = rotate(x.double(), positions, ladder(64))
    error = (rotate(x, positions, ladder(64)).double() - exact).abs()
    assert (error <= 1e-6 + torch.finfo(dtype).eps * exact.abs()).all()


def test_far_positions_turn_as_exactly_as_near_ones():
    """Where a product in float32 is off by .03 (10^6) and .5 (10^7) radians."""
    far = [5, 10**6, 10**7 + 1]
    x = torch.tensor([1.0, 0.0]).repeat(3, 32)
    close(rotate(x, torch.tensor(far), ladder(64)).double(), turned(x.double(), far, 64), 1e-7)


def test_xpos_overflows_in_half_precision_unless_centered():
    q = torch.ones(1, 1, 6000, 64, dtype=torch.float16)
    at = posenc.encoding.At(*[torch.arange(6000)[None]] * 2, None)
    for center, finite in ((True, True), (False, False)):
        _, k = xpos(64, center=center).rotate(q, q, at)
        assert k.isfinite().all() == finite


def test_half_layout_equals_llama():
    from transformers.models.llama.configuration_llama import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    config = LlamaConfig(
        hidden_size=4 * 16, num_attention_heads=4, rope_parameters={"rope_type": "default", "rope_theta": 5e5}
    )
    q, k, _ = inputs(batch=2, heads=4, queries=9, dim=16, dtype=torch.float32)
    positions = torch.stack((torch.arange(9), torch.arange(9) + 300))
    cos, sin = LlamaRotaryEmbedding(config)(q, positions)
    theirs = apply_rotary_pos_emb(q, k, cos, sin)
    for x, expected in zip((q, k), theirs):
        close(rotate(x, positions[:, None], inv_freq(16, 5e5), "half"), expected, 1e-4)


def test_interleaved_layout_equals_gptj():
    from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb, create_sinusoidal_positions

    q, _, _ = inputs(batch=2, heads=3, queries=9, dim=16)
    positions = torch.stack((torch.arange(9), torch.arange(9) + 300))
    sin, cos = create_sinusoidal_positions(512, 8)[positions].chunk(2, dim=-1)  # rotary_dim 8 of 16, as GPT-J's partial
    rotated = apply_rotary_pos_emb(q.transpose(1, 2)[..., :8], sin, cos).transpose(1, 2)  # theirs is [B, T, H, D]
    theirs = torch.cat((rotated, q[..., 8:]), dim=-1)
    close(rotate(q, positions[:, None], ladder(8)), theirs, 1e-4)  # their table is float32


def test_values_equal_deepseek_v4():
    """A layer with a window and sinks, of a random model: its last lanes turn, and its keys are its values."""
    from transformers import DeepseekV4Config, DeepseekV4Model

    sizes = dict(hidden_size=32, num_attention_heads=4, head_dim=16, q_lora_rank=8, o_groups=2, o_lora_rank=8)
    sizes |= dict(vocab_size=20, moe_intermediate_size=8, n_routed_experts=4, num_experts_per_tok=2, hc_mult=2)
    sizes |= dict(num_hidden_layers=1, layer_types=["sliding_attention"], mlp_layer_types=["moe"], sliding_window=4)
    torch.manual_seed(0)
    model = DeepseekV4Model(DeepseekV4Config(qk_rope_head_dim=6, **sizes)).eval()
    layer, seen = model.layers[0].self_attn, {}
    torch.nn.init.normal_(layer.sinks)
    layer.q_a_proj.register_forward_pre_hook(lambda _, args: seen.update(x=args[0]))
    layer.o_a_proj.register_forward_pre_hook(lambda _, args: seen.update(out=args[0]))
    positions = torch.stack((torch.arange(9), torch.arange(9) + 300))
    with torch.no_grad():
        model(torch.randint(20, (2, 9)), position_ids=positions)
        q = layer.q_b_norm(layer.q_b_proj(layer.q_a_norm(layer.q_a_proj(seen["x"]))).unflatten(-1, (4, 16)))
        kv = layer.kv_norm(layer.kv_proj(seen["x"]))[:, :, None]
        q, kv = (x.transpose(1, 2).roll(6, -1) for x in (q, kv))  # the last six lanes to the front
        sink = posenc.sink.sink(4)
        sink.weigh.sinks.data = layer.sinks
        index = torch.arange(9)
        told = dict(pos_q=positions, mask=index[:, None] - index < 4)
        off = []
        for values in (True, False):
            encoding = posenc.compose(rope(16, rotary_dim=6, values=values), sink)
            out = posenc.attention(q, kv, kv, encoding, **told).roll(-6, -1)
            off.append((out.transpose(1, 2).flatten(2) - seen["out"].flatten(2)).abs().max())
    assert off[0] < 1e-5 and off[1] > 0.1
