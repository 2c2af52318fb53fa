r"""posenc.configs against transformers: a tiny random model of each type runs, and what its layers do equals ours.

The models are the library's, built from its configuration classes. Two spies stand in them: one around the function
that turns queries and keys, one for the attention function, which is told what is turned and what is seen.
"""

import copy
import functools
import importlib
import inspect
import json
import math
import subprocess
import sys

import pytest
import torch
from torch import nn

import posenc
from posenc import configs
from posenc.configs.__main__ import main
from posenc.configs.models import MODELS, NOT_READ, OTHERS
from posenc.encoding import At

transformers = pytest.importorskip("transformers")
T = 13  # beyond every window, chunk and trained length of the tiny models
TOLERANCE = dict(atol=1e-5, rtol=1e-5)
SIZES = dict(
    vocab_size=64,
    hidden_size=32,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    intermediate_size=16,
    max_position_embeddings=64,
    pad_token_id=0,
    eos_token_id=1,
    bos_token_id=1,
)
EIGHT = dict(head_dim=8)
WINDOW = dict(sliding_window=4)
MOE = dict(num_experts_per_tok=2, moe_intermediate_size=8)
LATENT = dict(
    kv_lora_rank=8, q_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=4, n_routed_experts=4, n_group=1
)
LATENT |= dict(topk_group=1, first_k_dense_replace=4, num_key_value_heads=4)
LINEAR = dict(linear_key_head_dim=4, linear_value_head_dim=4, linear_num_key_heads=2, linear_num_value_heads=2)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, rope_theta=100.0)
LLAMA3 = dict(rope_type="llama3", factor=4.0, original_max_position_embeddings=32, rope_theta=100.0)
LLAMA3 |= dict(low_freq_factor=1.0, high_freq_factor=4.0)
LONG = dict(rope_type="longrope", short_factor=[1.0, 1.5, 2.0, 2.5], long_factor=[2.0, 3.0, 4.0, 5.0])
SECTIONS = dict(rope_type="default", rope_theta=100.0, mrope_section=[1, 1, 2])
MAMBA = dict(mamba_n_heads=4, mamba_d_head=16, mamba_expand=2, mamba_d_state=4, mamba_n_groups=1, mamba_chunk_size=4)

# case: (model type, what is not as in SIZES); the name of a case starts with its type
ROTATE = {
    "llama": {},
    "llama linear": dict(rope_parameters=dict(rope_type="linear", factor=4.0, rope_theta=100.0)),
    "llama dynamic": dict(
        rope_parameters=dict(rope_type="dynamic", factor=4.0, rope_theta=100.0), max_position_embeddings=8
    ),
    "llama yarn": dict(rope_parameters=YARN),
    "llama yarn mscale": dict(
        rope_parameters=YARN | dict(mscale=0.7, mscale_all_dim=1.0, beta_fast=4.0, beta_slow=0.5)
    ),
    "llama llama3": dict(rope_parameters=LLAMA3),
    "llama proportional": dict(
        rope_parameters=dict(rope_type="proportional", partial_rotary_factor=0.5, factor=2.0, rope_theta=100.0)
    ),
    "olmo": {},
    "olmo2": {},
    "olmoe": dict(num_experts=4, num_experts_per_tok=2),
    "arcee": {},
    "granite": {},
    "gemma": EIGHT,
    "seed_oss": EIGHT,
    "helium": EIGHT,
    "ernie4_5": EIGHT,
    "cohere": {},
    "glm": EIGHT,
    "glm4": EIGHT,
    "glm4_moe": dict(n_routed_experts=4, n_shared_experts=1, first_k_dense_replace=4) | MOE,
    "gpt_neox": dict(hidden_size=64),
    "gpt_neox yarn": dict(hidden_size=64, rope_parameters=YARN | dict(partial_rotary_factor=0.5)),
    "stablelm": dict(hidden_size=64),
    "phi": {},
    "persimmon": {},
    "nemotron": EIGHT,
    "minimax_m2": dict(num_local_experts=4, rope_parameters=dict(rope_theta=100.0, partial_rotary_factor=0.5))
    | EIGHT
    | MOE,
    "nanochat": {},
    "apertus": dict(max_position_embeddings=16384),
    "falcon": dict(alibi=False),
    "gptj": dict(n_embd=32, n_layer=2, n_head=4, rotary_dim=4, n_positions=64),
    "codegen": dict(n_embd=32, n_layer=2, n_head=4, rotary_dim=4, n_positions=64),
    "eurobert": {},
    "mistral": WINDOW,
    "mixtral": dict(num_local_experts=4, num_experts_per_tok=2) | WINDOW,
    "mixtral full": dict(num_local_experts=4, num_experts_per_tok=2),
    "starcoder2": WINDOW,
    "phi3": WINDOW,
    "phi3 short": dict(rope_parameters=LONG | dict(rope_theta=100.0), original_max_position_embeddings=16),
    "phi3 long": dict(rope_parameters=LONG | dict(rope_theta=100.0), original_max_position_embeddings=8),
    "phi3 su": dict(rope_scaling=LONG | dict(type="su"), rope_theta=100.0, original_max_position_embeddings=8),
    "ministral3": EIGHT
    | dict(rope_parameters=YARN | dict(llama_4_scaling_beta=0.3, original_max_position_embeddings=4)),
    "mistral4": LATENT
    | dict(rope_parameters=YARN | dict(llama_4_scaling_beta=0.3, original_max_position_embeddings=4)),
    "qwen2": dict(use_sliding_window=True, max_window_layers=2) | WINDOW,
    "qwen2 full": WINDOW,
    "qwen3": dict(use_sliding_window=True, max_window_layers=1) | EIGHT | WINDOW,
    "qwen2_vl_text": dict(rope_parameters=SECTIONS),
    "qwen2_vl_text yarn": dict(rope_parameters=YARN | dict(mrope_section=[1, 1, 2])),
    "qwen2_5_vl_text": dict(rope_scaling=dict(type="mrope", mrope_section=[1, 1, 2])),
    "qwen3_vl_text": dict(rope_parameters=SECTIONS | dict(mrope_section=[4, 2, 2]), head_dim=16),
    "qwen3_next": EIGHT | LINEAR | MOE | dict(num_experts=4, shared_expert_intermediate_size=8),
    "qwen3_5_text": dict(
        head_dim=32, rope_parameters=SECTIONS | dict(mrope_section=[2, 1, 1], partial_rotary_factor=0.25)
    )
    | LINEAR,
    "gemma2": EIGHT | WINDOW,
    "vaultgemma": EIGHT | WINDOW,
    "gemma3_text": EIGHT | WINDOW | dict(num_hidden_layers=7),
    "gemma4_text": EIGHT
    | WINDOW
    | dict(num_hidden_layers=3, global_head_dim=16, layer_types=["full_attention"] * 2 + ["sliding_attention"])
    | dict(hidden_size_per_layer_input=0, vocab_size_per_layer_input=64),
    "olmo3": WINDOW,
    "olmo3 yarn": WINDOW | dict(rope_scaling=YARN),
    "modernbert": dict(local_attention=6),
    "cwm": EIGHT | WINDOW,
    "gpt_oss": EIGHT | WINDOW | dict(num_local_experts=4, num_experts_per_tok=2),
    "granite_swa": WINDOW | dict(layer_rope_theta=[100.0, 0, 200.0, 100.0]),
    "cohere2": WINDOW,
    "exaone4": WINDOW,
    "exaone4 all": dict(sliding_window=None, layer_types=["full_attention"] * 4),
    "afmoe": EIGHT | WINDOW | dict(num_experts=4, num_dense_layers=4) | MOE,
    "muse_glimmer_text": EIGHT | WINDOW | dict(num_hidden_layers=6),
    "smollm3": dict(use_sliding_window=True) | WINDOW,
    "llama4_text": EIGHT
    | dict(attention_chunk_size=4, floor_scale=3, attn_scale=0.5, num_local_experts=2, intermediate_size_mlp=16),
    "minimax": dict(num_local_experts=4, num_experts_per_tok=2, block_size=4),
    "granitemoehybrid": MAMBA
    | dict(layer_types=["full_attention", "linear_attention"] * 2, num_local_experts=0, shared_intermediate_size=16),
    "granitemoehybrid rope": MAMBA
    | dict(layer_types=["full_attention", "linear_attention"] * 2, num_local_experts=0, shared_intermediate_size=16)
    | dict(position_embedding_type="rope"),
    "jamba": dict(
        attn_layer_period=2,
        attn_layer_offset=1,
        num_experts=2,
        mamba_d_state=4,
        mamba_dt_rank=4,
        use_mamba_kernels=False,
    ),
    "deepseek_v2": LATENT | dict(topk_method="greedy", num_experts_per_tok=2),
    "deepseek_v3": LATENT | dict(num_experts_per_tok=2, moe_intermediate_size=8),
    "deepseek_v3 yarn": LATENT
    | dict(num_experts_per_tok=2, rope_parameters=YARN | dict(mscale=1.0, mscale_all_dim=0.5)),
    "deepseek_v4": dict(head_dim=16, q_lora_rank=8, qk_rope_head_dim=4, o_groups=2, o_lora_rank=8, n_routed_experts=4)
    | MOE
    | WINDOW
    | dict(layer_types=["sliding_attention"] * 2 + ["heavily_compressed_attention"], num_hidden_layers=3, hc_mult=2)
    | dict(rope_parameters=YARN | dict(rope_theta=None)),
    "inkling_text": dict(
        sliding_window_size=4, swa_num_attention_heads=4, swa_num_key_value_heads=2, swa_head_dim=8, d_rel=3
    )
    | dict(rel_extent=6, num_hidden_layers=7, n_routed_experts=4, n_shared_experts=1)
    | EIGHT
    | MOE,
}
NORMS_AFTER = {"llama4_text", "nanochat"}  # q and k are normalized between the rotation and the product
HALVES_OUT = {"deepseek_v3", "mistral4"}  # the lanes that turn are read interleaved and written as halves
OWN_ATTENTION = {"falcon", "gptj", "codegen"}  # no attention function to spy on
TURNS = (
    "apply_rotary_pos_emb",
    "apply_rotary_emb",
    "apply_multimodal_rotary_pos_emb",
    "apply_rotary_pos_emb_interleave",
)
EVENTS = []


def spy_on_attention(module, query, key, value, attention_mask, scaling=None, **kwargs):
    EVENTS.append(("attend", module, query, key, attention_mask, kwargs))
    return torch.zeros(*query.shape[:3], value.shape[-1]).transpose(1, 2).contiguous(), None


def whole_mask(*args, **kwargs):
    skips = dict(allow_is_causal_skip=False, allow_is_bidirectional_skip=False)
    return transformers.masking_utils.sdpa_mask(*args, **kwargs | skips)


@pytest.fixture(scope="module", autouse=True)
def spies():
    transformers.AttentionInterface.register("spy", spy_on_attention)
    transformers.masking_utils.AttentionMaskInterface.register("spy", whole_mask)


def configuration(model_type, changes):
    """The library's configuration of a tiny model, and the dict of the keys that made it."""
    raw = SIZES | changes
    old = {
        "gptj": ("n_embd", "n_layer", "n_head", "n_positions"),
        "codegen": ("n_embd", "n_layer", "n_head", "n_positions"),
    }
    if model_type in old:
        raw = {key: raw[key] for key in (*old[model_type], "rotary_dim", "vocab_size")}
    config = transformers.CONFIG_MAPPING[model_type](**copy.deepcopy(raw))
    return config, {"model_type": model_type} | copy.deepcopy(raw)


def run(config, monkeypatch, positions=None):
    """What happens in the library's model, in order: ("turn", x, turned) and ("attend", ...)."""
    module = importlib.import_module(type(config).__module__.replace("configuration_", "modeling_"))
    for name, function in list(vars(module).items()):  # fla-core's kernels, where they were imported, want a GPU
        if name.startswith("torch_") and hasattr(function, "__wrapped__"):
            monkeypatch.setattr(module, name, inspect.unwrap(function))
    for name in TURNS:
        if hasattr(module, name):
            monkeypatch.setattr(module, name, turning_spy(getattr(module, name)))
    if config.model_type not in OWN_ATTENTION:
        config._attn_implementation = "spy"
    names = {"inkling_text": "InklingTextModel"}
    model = (
        getattr(module, names[config.model_type])(config)
        if config.model_type in names
        else transformers.AutoModel.from_config(config)
    )
    for name, linear in model.eval().named_modules():
        if name.rpartition(".")[2] in ("q_proj", "r_proj"):
            linear.register_forward_hook(lambda linear, _, out: setattr(linear, "out", out))
    EVENTS.clear()
    options = {} if positions is None else {"position_ids": positions}
    options |= {} if config.model_type in ("eurobert", "modernbert") else {"use_cache": False}
    with torch.no_grad():
        model(input_ids=torch.arange(T)[None] + 3, **options)
    return list(EVENTS)


def turning_spy(function):
    def spy(*args, **kwargs):
        out = function(*args, **kwargs)
        both = isinstance(out, tuple)
        for x, turned in zip(args[:2], out) if both else [(args[0], out)]:
            EVENTS.append(("turn", x, turned))
        return out

    return spy


def by_layer(events, model_type):
    """[(turns, attend or None)] of each layer that attends."""
    if model_type in OWN_ATTENTION:
        return [(events[i : i + 2], None) for i in range(0, len(events), 2)]
    layers, turns = [], []
    for event in events:
        if event[0] == "turn":
            turns.append(event)
        else:
            first = 1 if model_type == "deepseek_v4" and layers else 0  # the last layer's output, turned back
            layers.append((turns[first : first + 2], event))
            turns = []
    return layers


def heads_first(x):
    return x.transpose(1, 2) if x.shape[1] == T and x.shape[2] != T else x


def turned_by_us(encoding, row, x, positions, model_type):
    """The lanes x [B, H, T, p or D] as our encoding turns them, in the library's order of lanes."""
    first, last = row.lanes
    whole = x if x.shape[-1] == row.head_dim else nn.functional.pad(x, (first, row.head_dim - last))
    at = At(positions, positions, torch.ones(1, 1, T, T, dtype=torch.bool))
    out = encoding.rotate(whole, whole, at)[0 if row.temperature else 1]
    if model_type in HALVES_OUT:
        lanes = out[..., first:last].unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
        out = torch.cat((out[..., :first], lanes, out[..., last:]), dim=-1)
    return out if x.shape[-1] == row.head_dim else out[..., first:last]


@pytest.mark.parametrize("case", ROTATE)
def test_queries_keys_and_masks_of_the_library_are_ours(case, monkeypatch):
    model_type = case.split(" ")[0]
    config, raw = configuration(model_type, ROTATE[case])
    reading = configs.read(config)
    assert configs.read(raw).layers == reading.layers, "the keys of a file, old names and missing ones among them"
    assert configs.read(json.loads(config.to_json_string())).layers == reading.layers
    positions = torch.arange(T)[None]
    ids = None
    if reading.layers[-1].sections:
        ids = torch.randint(0, T, (3, 1, T), generator=torch.Generator().manual_seed(0))
        positions = ids.permute(1, 2, 0)
    layers = by_layer(run(config, monkeypatch, ids), model_type)
    rows = [row for row in reading.layers if row.method != "linear"]
    assert len(layers) == len(rows) and [row.index for row in reading.layers] == [*range(len(reading.layers))]
    for row, (turns, attend) in zip(rows, layers):
        encoding = reading.encoding(row.index)
        assert len(turns) == (2 if row.lanes else 0), "a layer rotates where we say so"
        for _, x, turned in turns:
            x, turned = heads_first(x), heads_first(turned)
            plain = turned_by_us(encoding, row._replace(temperature=None), x, positions, model_type)
            torch.testing.assert_close(plain, turned, **TOLERANCE)
        if attend is None:
            continue
        _, module, query, key, mask, kwargs = attend
        assert (query.shape[1], query.shape[3]) == (row.heads, row.head_dim)
        assert torch.equal(mask[0, 0, :, :T], reading.visible(row.index, T))
        assert row.sink == ("s_aux" in kwargs)
        if turns and model_type not in NORMS_AFTER:
            whole = key[..., slice(*row.lanes)] if turns[1][1].shape[-1] != row.head_dim else key
            torch.testing.assert_close(whole[:, :1, :T], heads_first(turns[1][2])[:, :1])
        if row.temperature:
            x = (
                heads_first(turns[0][1])
                if turns
                else module.q_proj.out.unflatten(-1, (-1, row.head_dim)).transpose(1, 2)
            )
            lanes = slice(*row.lanes) if turns and x.shape[-1] != row.head_dim else slice(None)
            row = row if turns else row._replace(lanes=(0, row.head_dim))
            ours = turned_by_us(encoding, row, x, positions, model_type)
            torch.testing.assert_close(ours, query[..., lanes], **TOLERANCE)
            assert not torch.allclose(
                ours, turned_by_us(encoding, row._replace(temperature=None), x, positions, model_type)
            )
        if "position_bias" in kwargs:
            gates = module.r_proj.out.unflatten(-1, (row.heads, -1)).transpose(1, 2)
            with torch.no_grad():
                encoding.bias.bank.copy_(module.rel_logits_proj.proj)
                bias = encoding.bias(query, key, At(positions, positions, None, gates))
            torch.testing.assert_close(bias, kwargs["position_bias"], **TOLERANCE)


# ------------------------------------------------------------------------------------------ what is added, and biases

SMALL = dict(num_hidden_layers=2, intermediate_size=16)
# model type: (what is not as in SIZES, the name of the module that holds the table)
TABLES = {
    "gpt2": (dict(n_embd=32, n_layer=2, n_head=4, n_positions=64), "wpe"),
    "gpt_neo": (dict(num_layers=4, num_heads=4, attention_types=[[["global", "local"], 2]], window_size=4), "wpe"),
    "bert": (SMALL, "embeddings.position_embeddings"),
    "electra": (SMALL | dict(embedding_size=16), "embeddings.position_embeddings"),
    "distilbert": (dict(dim=32, n_layers=2, n_heads=4, hidden_dim=16), "embeddings.position_embeddings"),
    "roberta": (SMALL | dict(pad_token_id=1), "embeddings.position_embeddings"),
    "xlm-roberta": (SMALL | dict(pad_token_id=2), "embeddings.position_embeddings"),
    "opt": (SMALL | dict(ffn_dim=16, word_embed_proj_dim=32), "decoder.embed_positions"),
}


@functools.cache
def tiny(model_type, **changes):
    config, raw = configuration(model_type, changes)
    return transformers.AutoModel.from_config(config).eval(), configs.read(config), raw


@pytest.mark.parametrize("model_type", TABLES)
def test_what_the_library_adds_to_the_embeddings_is_ours(model_type):
    changes, name = TABLES[model_type]
    config, raw = configuration(model_type, changes)
    model, reading = transformers.AutoModel.from_config(config).eval(), configs.read(config)
    assert configs.read(raw).layers == reading.layers
    module, added = model.get_submodule(name), []
    module.register_forward_hook(lambda module, _, out: added.append(out))
    with torch.no_grad():
        model(input_ids=torch.arange(T)[None] + 3)
    for row in reading.layers:
        encoding = reading.encoding(row.index)
        assert module.weight.shape == (row.rows + row.offset, row.dim)
        with torch.no_grad():
            encoding.embed.table.copy_(module.weight[row.offset :])
            ours = encoding.embed(torch.zeros(1, T, row.dim), torch.arange(T)[None])
        torch.testing.assert_close(ours[0], added[0].reshape(T, -1), **TOLERANCE)
        with pytest.raises(ValueError):
            encoding.embed(torch.zeros(1, 1, row.dim), torch.tensor([[row.rows]]))
        if model_type == "gpt_neo":
            seen = model.h[row.index].attn.attention.bias[0, 0, :T, :T]
            assert torch.equal(seen, reading.visible(row.index, T)) and row.window == (4 if row.index % 2 else None)
        else:
            assert bool(reading.visible(row.index, T)[0, -1]) == (model_type not in ("gpt2", "opt"))


def test_whisper_has_sinusoids_in_its_encoder_and_a_table_in_its_decoder():
    changes = dict(d_model=32, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=2)
    changes |= dict(encoder_ffn_dim=16, decoder_ffn_dim=16, max_source_positions=20, max_target_positions=24)
    config = transformers.WhisperConfig(vocab_size=64, pad_token_id=0, **changes)
    model, reading = transformers.WhisperModel(config), configs.read(config)
    encoder, *decoder = reading.layers
    assert [(row.stack, row.heads, row.method) for row in decoder] == [("decoder", 2, "learned")] * 2
    ours = reading.encoding(0).embed(torch.zeros(1, 20, 32), torch.arange(20)[None])
    torch.testing.assert_close(ours[0], model.encoder.embed_positions.weight, **TOLERANCE)
    assert (encoder.causal, encoder.rows) == (False, 20) and all(row.causal for row in decoder)
    assert model.decoder.embed_positions.weight.shape == (decoder[0].rows, decoder[0].dim)


@pytest.mark.parametrize("model_type", ["t5", "mt5", "umt5"])
def test_t5s_buckets_are_the_librarys(model_type):
    changes = dict(d_model=32, d_kv=8, d_ff=16, num_layers=2, num_decoder_layers=3, num_heads=4)
    changes |= dict(relative_attention_num_buckets=16, relative_attention_max_distance=40)
    config = transformers.CONFIG_MAPPING[model_type](vocab_size=64, pad_token_id=0, **changes)
    model, reading = transformers.AutoModel.from_config(config), configs.read(config)
    assert [row.stack for row in reading.layers] == ["encoder"] * 2 + ["decoder"] * 3
    blocks = [*model.encoder.block, *model.decoder.block]
    positions = torch.arange(100)[None]
    q = torch.zeros(1, 4, 100, 8)
    for row, block in zip(reading.layers, blocks):
        first = block if model_type == "umt5" else blocks[0 if row.stack == "encoder" else 2]  # which all layers share
        attention, encoding = first.layer[0].SelfAttention, reading.encoding(row.index)
        with torch.no_grad():
            encoding.bias.table.copy_(attention.relative_attention_bias.weight.T)
            ours = encoding.bias(q, q, At(positions, positions, None))
            torch.testing.assert_close(ours, attention.compute_bias(100, 100), **TOLERANCE)


@pytest.mark.parametrize("heads", [4, 6])
@pytest.mark.parametrize("model_type", ["bloom", "mpt", "falcon"])
def test_alibi_is_the_librarys(model_type, heads):
    own = {
        "bloom": dict(hidden_size=48, n_layer=2, n_head=heads),
        "mpt": dict(d_model=48, n_layers=2, n_heads=heads, max_seq_len=64),
        "falcon": dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=heads, alibi=True),
    }[model_type]
    config = transformers.CONFIG_MAPPING[model_type](vocab_size=64, **own)
    reading = configs.read(config)
    module = importlib.import_module(f"transformers.models.{model_type}.modeling_{model_type}")
    if model_type == "mpt":
        by_key = module.build_mpt_alibi_tensor(heads, T)  # [H, 1, Tk]
    else:
        by_key = module.build_alibi_tensor(torch.ones(1, T, dtype=torch.long), heads, torch.float32)
    if model_type == "falcon":
        by_key = by_key * module.FalconModel(config).h[0].self_attention.inv_norm_factor
    positions = torch.arange(T)[None]
    q = torch.zeros(1, heads, T, 48 // heads)
    for row in reading.layers:
        ours = reading.encoding(row.index).bias(q, q, At(positions, positions, None))
        difference = (by_key - by_key.transpose(1, 2)).expand(heads, T, T)  # by key alone is the same after the softmax
        tolerance = dict(atol=2e-2, rtol=4e-3) if (model_type, heads) == ("falcon", 6) else TOLERANCE  # bfloat16 slopes
        torch.testing.assert_close(ours.expand(1, heads, T, T)[0], difference, **tolerance)


@pytest.mark.parametrize("kind", ["bi", "uni"])
def test_xlnets_scores_are_transformer_xls(kind):
    config = transformers.XLNetConfig(vocab_size=64, d_model=32, n_layer=2, n_head=4, d_inner=16, attn_type=kind)
    model, reading = transformers.XLNetModel(config), configs.read(config)
    q, k = torch.randn(2, 1, 4, T, 8)
    positions = torch.arange(T)[None]
    distances = model.relative_positional_encoding(T, T, bsz=1)  # [2T or T + 1, 1, C], sines and then cosines
    for row, layer in zip(reading.layers, model.layer):
        part, encoding = layer.rel_attn, reading.encoding(row.index)
        with torch.no_grad():
            for name in ("r_w_bias", "r_r_bias", "r"):
                getattr(part, name).normal_()
            by_lane = part.r.permute(1, 2, 0).flatten(0, 1).unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)
            encoding.bias.u.copy_(part.r_w_bias), encoding.bias.v.copy_(part.r_r_bias), encoding.bias.w_r.copy_(by_lane)
            content = torch.einsum("bnid,bnjd->bnij", q + part.r_w_bias[:, None], k)
            keys = torch.einsum("ibh,hnd->bnid", distances, part.r)
            distance = torch.einsum("bnid,bnjd->bnij", q + part.r_r_bias[:, None], keys)
            theirs = (content + part.rel_shift_bnij(distance, klen=T)) * part.scale
            ours = q @ k.mT / math.sqrt(8) + encoding.bias(q, k, At(positions, positions, None))
        seen = reading.visible(row.index, T)
        torch.testing.assert_close(ours[:, :, seen], theirs[:, :, seen], **TOLERANCE)
        assert row.causal == (kind == "uni")


def test_every_type_of_the_table_is_held_against_the_library():
    here = {case.split(" ")[0] for case in ROTATE} | {*TABLES, "whisper", "t5", "mt5", "umt5", "bloom", "mpt", "xlnet"}
    assert here == {*MODELS} and len(MODELS) >= 40
    assert not {*NOT_READ} & {*MODELS} and {*OTHERS.values()} <= {*MODELS}
    known = {*transformers.CONFIG_MAPPING, "kimi_linear", "muse_glimmer_text", "inkling_text"}
    assert {*MODELS, *NOT_READ, *OTHERS} <= known


# ------------------------------------------------------------------------------------------------ files as people have

LLAMA = dict(
    model_type="llama", hidden_size=64, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=4096
)
OLMO3 = LLAMA | dict(model_type="olmo3", num_hidden_layers=4)
V4 = LLAMA | dict(
    model_type="deepseek_v4", head_dim=32, layer_types=["sliding_attention", "compressed_sparse_attention"]
)

# each: two ways to say the same
SAME = {
    "rope_scaling": (
        LLAMA | dict(rope_theta=5e5, rope_scaling=dict(type="linear", factor=2.0)),
        LLAMA | dict(rope_parameters=dict(rope_type="linear", factor=2.0, rope_theta=5e5)),
    ),
    "gpt_neox": (
        LLAMA | dict(model_type="gpt_neox", rotary_emb_base=500, rotary_pct=0.5),
        LLAMA | dict(model_type="gpt_neox", rope_parameters=dict(rope_theta=500, partial_rotary_factor=0.5)),
    ),
    "phi": (
        LLAMA | dict(model_type="phi", partial_rotary_factor=0.25),
        LLAMA | dict(model_type="phi", rope_parameters=dict(partial_rotary_factor=0.25)),
    ),
    "gemma3": (
        LLAMA
        | dict(model_type="gemma3_text", rope_theta=5e5, rope_local_base_freq=500, sliding_window_pattern=2)
        | dict(rope_scaling=dict(rope_type="linear", factor=8.0)),
        LLAMA
        | dict(model_type="gemma3_text", layer_types=["sliding_attention", "full_attention"])
        | dict(
            rope_parameters=dict(
                full_attention=dict(rope_type="linear", factor=8.0, rope_theta=5e5),
                sliding_attention=dict(rope_type="default", rope_theta=500),
            )
        ),
    ),
    "modernbert": (
        LLAMA | dict(model_type="modernbert", global_rope_theta=5e5, local_rope_theta=500),
        LLAMA
        | dict(model_type="modernbert")
        | dict(rope_parameters=dict(full_attention=dict(rope_theta=5e5), sliding_attention=dict(rope_theta=500))),
    ),
    "gpt2": (
        dict(model_type="gpt2", n_embd=64, n_layer=2, n_head=4, n_positions=32),
        dict(model_type="gpt2", hidden_size=64, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=32),
    ),
    "pictures": ({"model_type": "llava", "text_config": LLAMA, "vision_config": {}}, LLAMA),
    "a text type by its model": (
        LLAMA | dict(model_type="qwen2_vl", rope_scaling=dict(type="mrope", mrope_section=[2, 3, 3])),
        LLAMA | dict(model_type="qwen2_vl_text", rope_parameters=dict(rope_type="default", mrope_section=[2, 3, 3])),
    ),
    "layer types": (
        LLAMA | dict(model_type="granitemoehybrid", layer_types=["mamba", "attention"]),
        LLAMA | dict(model_type="granitemoehybrid", layer_types=["linear_attention", "full_attention"]),
    ),
}


@pytest.mark.parametrize("case", SAME)
def test_old_and_new_names_say_the_same(case):
    old, new = map(configs.read, SAME[case])
    assert old.layers == new.layers
    if case not in ("pictures", "a text type by its model"):
        for raw in SAME[case]:
            rest = {key: value for key, value in raw.items() if key != "model_type"}
            config = transformers.CONFIG_MAPPING[raw["model_type"]](**copy.deepcopy(rest))
            assert configs.read(config).layers == new.layers, "and the library agrees"


YARNED = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=1024)
# what is odd about a file: (the file, words of the fault)
FAULTS = {
    "a fraction that is not read": (LLAMA | dict(partial_rotary_factor=0.5), "partial_rotary_factor=0.5 is not read"),
    "a fraction of another head": (
        LLAMA | dict(model_type="phi", partial_rotary_factor=0.4),
        "partial_rotary_factor=0.4 of head_dim=16 is 6.4",
    ),
    "a fraction that breaks": (
        LLAMA | dict(rope_scaling=dict(rope_type="linear", factor=2.0, partial_rotary_factor=0.5)),
        "fails",
    ),
    "another head": (LLAMA | dict(model_type="stablelm", head_dim=32), "head_dim=32"),
    "no original length": (
        LLAMA | dict(rope_scaling=dict(rope_type="yarn", factor=4.0)),
        "original_max_position_embeddings is missing",
    ),
    "another ratio": (LLAMA | dict(rope_scaling=YARNED | dict(factor=8.0)), "factor=8"),
    "no attention factor": (LLAMA | dict(rope_scaling=YARNED), "attention_factor is missing"),
    "no attention factor where it was 1": (
        V4 | dict(rope_parameters=dict(main={}, compress=YARNED)),
        "attention_factor is missing",
    ),
    "one mscale": (LLAMA | dict(rope_scaling=YARNED | dict(mscale=1.0)), "mscale_all_dim"),
    "truncate by layer": (
        OLMO3 | dict(rope_parameters=dict(full_attention=YARNED | dict(truncate=False), sliding_attention={})),
        "truncate=False is not read",
    ),
    "flat numbers": (OLMO3 | dict(rope_parameters=YARNED), "layer type"),
    "dynamic that is static": (
        LLAMA | dict(rope_scaling=dict(rope_type="dynamic", factor=2.0), original_max_position_embeddings=2048),
        "static",
    ),
    "dynamic with alpha": (
        LLAMA | dict(rope_scaling=dict(rope_type="dynamic", factor=2.0, alpha=1000.0)),
        "alpha=1000",
    ),
    "a base said twice": (LLAMA | dict(rope_theta=5e5, rope_parameters=dict(rope_theta=1e4)), "rope_theta=10000"),
    "two names, two numbers": (LLAMA | dict(n_head=8), "n_head=8"),
    "a key for another type": (LLAMA | dict(sliding_window=1024), "sliding_window=1024"),
    "layer types for another type": (LLAMA | dict(layer_types=["full_attention"] * 2), "layer_types"),
    "an unknown key on position": (LLAMA | dict(rope_magic=3), "rope_magic=3"),
    "an unknown setting": (LLAMA | dict(rope_scaling=dict(rope_type="linear", factor=2.0, magic=3)), "magic=3"),
    "no longrope factor": (
        dict(model_type="phi3", original_max_position_embeddings=4096)
        | LLAMA
        | dict(
            model_type="phi3", rope_scaling=dict(rope_type="longrope", short_factor=[1.0] * 8, long_factor=[2.0] * 8)
        ),
        "factor is missing",
    ),
    "ALiBi all the same": (
        dict(model_type="mpt", d_model=64, n_heads=4, n_layers=2, attn_config={"alibi": False}),
        "attn_config",
    ),
    "relative keys": (LLAMA | dict(model_type="bert", position_embedding_type="relative_key"), "relative_key"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_what_is_odd_is_said(case):
    raw, words = FAULTS[case]
    reading = configs.read(raw)
    assert any(words in fault for fault in reading.faults), reading.faults
    assert words in str(reading)


@pytest.mark.parametrize(
    "raw", [LLAMA, LLAMA | dict(rope_theta=5e5, vocab_size=3), SAME["gemma3"][1]], ids=["1", "2", "3"]
)
def test_nothing_is_said_of_a_good_file(raw):
    assert configs.read(raw).faults == ()


def test_where_the_library_fails_or_is_silent_as_the_faults_say():
    config = transformers.Olmo3Config(
        **{k: v for k, v in OLMO3.items() if k != "model_type"}, rope_parameters=dict(YARNED)
    )
    rotary = importlib.import_module("transformers.models.olmo3.modeling_olmo3").Olmo3RotaryEmbedding(config)
    assert rotary.full_attention_attention_scaling == 1, "flat numbers are not read"
    config = transformers.LlamaConfig(
        **{k: v for k, v in LLAMA.items() if k != "model_type"}, partial_rotary_factor=0.5
    )
    rotary = importlib.import_module("transformers.models.llama.modeling_llama").LlamaRotaryEmbedding(config)
    assert len(rotary.inv_freq) == 8, "the fraction is not read"


GOOD = dict(LLAMA)
# a file that can't be read: (its keys, error, words that it has)
ERRORS = {
    "no type": ({k: v for k, v in GOOD.items() if k != "model_type"}, ValueError, "model_type=None"),
    "unknown type": (GOOD | dict(model_type="lama"), posenc.UnsupportedError, "'llama'"),
    "known, not read": (GOOD | dict(model_type="marian"), posenc.UnsupportedError, "sines"),
    "type of a number": (GOOD | dict(model_type=3), ValueError, "model_type=3"),
    "missing size": ({k: v for k, v in GOOD.items() if k != "hidden_size"}, ValueError, "hidden_size"),
    "string": (GOOD | dict(hidden_size="64"), TypeError, "hidden_size='64'"),
    "negative": (GOOD | dict(num_attention_heads=-4), ValueError, "num_attention_heads=-4"),
    "negative under an old name": (
        dict(model_type="gpt2", n_embd=64, n_layer=2, n_head=-4, n_positions=32),
        ValueError,
        "n_head=-4",
    ),
    "fraction of a layer": (GOOD | dict(num_hidden_layers=2.5), TypeError, "num_hidden_layers=2.5"),
    "bool": (GOOD | dict(num_hidden_layers=True), TypeError, "num_hidden_layers=True"),
    "huge": (GOOD | dict(hidden_size=10**30), ValueError, "hidden_size=10000"),
    "huge number of layers": (GOOD | dict(num_hidden_layers=10**9), ValueError, "num_hidden_layers=1000000000"),
    "huge head": (GOOD | dict(head_dim=2**19), ValueError, "head_dim=524288"),
    "huge length": (GOOD | dict(max_position_embeddings=10**5000), ValueError, "max_position_embeddings"),
    "huge base": (GOOD | dict(rope_theta=10**400), ValueError, "rope_theta"),
    "infinite base": (GOOD | dict(rope_theta=math.inf), ValueError, "rope_theta=inf"),
    "base of a string": (GOOD | dict(rope_theta="1e4"), TypeError, "rope_theta='1e4'"),
    "base below 0": (GOOD | dict(rope_parameters=dict(rope_theta=-1)), ValueError, "rope_theta=-1"),
    "heads that don't divide": (GOOD | dict(num_attention_heads=5), ValueError, "num_attention_heads=5"),
    "scaling of a string": (GOOD | dict(rope_scaling="yarn"), TypeError, "rope_scaling='yarn'"),
    "scaling of a list": (GOOD | dict(rope_parameters=[1]), TypeError, "rope_parameters=[1]"),
    "unknown scaling": (GOOD | dict(rope_scaling=dict(rope_type="yarm", factor=2)), ValueError, "'yarn'"),
    "no factor": (GOOD | dict(rope_scaling=dict(rope_type="linear")), ValueError, "factor"),
    "a factor of a string": (GOOD | dict(rope_scaling=dict(rope_type="linear", factor="2")), TypeError, "factor='2'"),
    "a factor below 1": (GOOD | dict(rope_scaling=dict(rope_type="linear", factor=0.5)), ValueError, "factor=0.5"),
    "no low": (
        GOOD | dict(rope_scaling=dict(rope_type="llama3", factor=2.0, original_max_position_embeddings=8)),
        ValueError,
        "low_freq_factor",
    ),
    "factors of another head": (
        GOOD
        | dict(model_type="phi3", original_max_position_embeddings=8)
        | dict(rope_scaling=dict(type="longrope", short_factor=[1.0] * 4, long_factor=[1.0] * 4)),
        ValueError,
        "8 pairs",
    ),
    "factors of a number": (
        GOOD
        | dict(model_type="phi3", original_max_position_embeddings=8)
        | dict(rope_scaling=dict(type="longrope", short_factor=1.0, long_factor=[1.0] * 8)),
        TypeError,
        "short_factor=1.0",
    ),
    "a fraction above 1": (
        GOOD | dict(model_type="phi", partial_rotary_factor=2),
        ValueError,
        "partial_rotary_factor=2",
    ),
    "a fraction of an odd number": (GOOD | dict(model_type="phi", partial_rotary_factor=0.2), ValueError, "3 lanes"),
    "numbers by layer": (GOOD | dict(rope_parameters=dict(full_attention={})), ValueError, "layer type"),
    "flat numbers": (
        GOOD | dict(model_type="gemma4_text", rope_parameters=dict(rope_theta=1)),
        ValueError,
        "layer type",
    ),
    "sections that don't add up": (
        GOOD | dict(model_type="qwen2_vl", rope_scaling=dict(type="mrope", mrope_section=[1, 1, 1])),
        ValueError,
        "sections=[1, 1, 1]",
    ),
    "no sections": (GOOD | dict(model_type="qwen2_vl"), ValueError, "mrope_section"),
    "layer types of a string": (OLMO3 | dict(layer_types="full"), ValueError, "layer_types='full'"),
    "too few layer types": (OLMO3 | dict(layer_types=["full_attention"]), ValueError, "layer_types"),
    "unknown layer type": (OLMO3 | dict(layer_types=["full_attention"] * 3 + ["full"]), ValueError, "'full'"),
    "layer type of a list": (OLMO3 | dict(layer_types=[[]] * 4), ValueError, "layer_types=[]"),
    "a window below 0": (GOOD | dict(model_type="mistral", sliding_window=-4), ValueError, "sliding_window=-4"),
    "a pattern of 0": (
        GOOD | dict(model_type="cohere2", sliding_window_pattern=0),
        ValueError,
        "sliding_window_pattern=0",
    ),
    "a flag of a number": (GOOD | dict(model_type="qwen2", use_sliding_window=1), TypeError, "use_sliding_window=1"),
    "kinds of a number": (
        dict(
            model_type="gpt_neo",
            hidden_size=64,
            num_layers=2,
            num_heads=4,
            max_position_embeddings=8,
            attention_types=3,
        ),
        ValueError,
        "attention_types=3",
    ),
    "too many kinds": (
        dict(model_type="gpt_neo", hidden_size=64, num_layers=2, num_heads=4, max_position_embeddings=8)
        | dict(attention_types=[[["global"], 10**12]] * 2),
        ValueError,
        "attention_types",
    ),
    "rotation of words": (
        GOOD | dict(model_type="smollm3", no_rope_layers=["yes", "no"]),
        ValueError,
        "no_rope_layers",
    ),
    "a clamp": (
        dict(model_type="xlnet", d_model=64, n_layer=1, n_head=4, clamp_len=8),
        posenc.UnsupportedError,
        "clamp_len=8",
    ),
    "no temperature": (
        GOOD | dict(model_type="ministral3", rope_parameters=YARNED),
        ValueError,
        "llama_4_scaling_beta",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_what_can_not_be_read_names_the_key_and_its_value(case):
    raw, error, words = ERRORS[case]
    with pytest.raises(error) as caught:
        configs.read(raw)
    assert words in str(caught.value) and len(str(caught.value)) < 700


FILES = {
    "a list": ("[1, 2]", "list"),
    "a number": ("3", "int"),
    "half a file": ('{"model_type": "llama"', "JSON"),
    "nothing": ("", "JSON"),
    "nested": ("[" * 100_000, "JSON|nested"),
    "bytes": (b"\xff\xfe\x00", "JSON"),
    "an unknown type": ('{"model_type": "lama"}', "llama"),
    "a huge number": (json.dumps(LLAMA)[:-1] + ', "head_dim": 1e999}', "head_dim"),
    "many digits": (json.dumps(LLAMA)[:-1] + f', "head_dim": {"9" * 5000}}}', "JSON|head_dim"),
}


@pytest.mark.parametrize("case", FILES)
def test_a_file_that_is_none_is_one_line_of_the_command(case, tmp_path, capsys):
    text, words = FILES[case]
    path = tmp_path / "config.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises((TypeError, ValueError)) as caught:
        configs.read(path)
    assert any(word in str(caught.value) for word in words.split("|"))
    assert main([str(path)]) == 1
    out, err = capsys.readouterr()
    assert not out and len(err.splitlines()) == 1 and any(word in err for word in words.split("|"))


@pytest.mark.parametrize("config", [3, None, [LLAMA], object()], ids=["int", "None", "list", "object"])
def test_what_is_no_configuration_is_refused(config):
    with pytest.raises(TypeError, match="config="):
        configs.read(config)


def test_a_path_that_is_no_file_is_refused(tmp_path, capsys):
    for path in (tmp_path, tmp_path / "none.json", "a\0b"):
        with pytest.raises(ValueError, match="config="):
            configs.read(path)
        assert main([str(path)]) == 1
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_command_prints_the_page(tmp_path, capsys):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA | dict(vocab_size=3)))
    assert main([str(path)]) == 0
    assert capsys.readouterr().out == f"{configs.read(path)}\n" == f"{configs.read(str(path))}\n"
    assert main([str(path), "--length", "8192"]) == 0
    assert capsys.readouterr().out == f"{configs.read(path).at(8192)}\n"
    assert main([str(path), "--length", "0"]) == 1 and "length=0" in capsys.readouterr().err


def test_the_command_runs_as_a_module(tmp_path):
    result = subprocess.run(
        [sys.executable, "-m", "posenc.configs", str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 1 and "Traceback" not in result.stderr and len(result.stderr.splitlines()) == 1


# ------------------------------------------------------------------------------------------------------- what it means


def test_a_page_says_each_key_that_is_read_and_each_that_is_not():
    page = str(configs.read(LLAMA | dict(rope_theta=5e5, vocab_size=3)))
    assert all(f"{key} = " in page for key in (*LLAMA, "rope_theta")) and "vocab_size" in page.splitlines()[-1]
    assert "layers 0-1" in page and "500000" in page and "16 lanes" in page


def test_three_dialects_of_a_quarter():
    first = configs.read(LLAMA | dict(model_type="stablelm", hidden_size=256)).layers[0]
    spread = configs.read(
        LLAMA | dict(rope_parameters=dict(rope_type="proportional", partial_rotary_factor=0.25), hidden_size=256)
    ).layers[0]
    last = configs.read(V4 | dict(head_dim=64, partial_rotary_factor=0.25)).layers[0]
    assert [row.lanes for row in (first, spread, last)] == [(0, 16), (0, 64), (48, 64)]
    assert [sum(w != 0 for w in row.inv_freq) for row in (first, spread, last)] == [8, 8, 8]
    assert len({row.partial for row in (first, spread, last)}) == 3
    assert first.inv_freq[1] == pytest.approx(1e4 ** (-2 / 16)) and spread.inv_freq[1] == pytest.approx(
        1e4 ** (-2 / 64)
    )


def unseen_by_hand(row, seen, plain, length, trained):
    """Pairs and scores, one after the other."""
    far = near = 0
    for i in range(length):
        for j in range(length):
            if seen[i, j]:
                far, near = far + (abs(i - j) >= trained), near + 1
    return far / near


@pytest.mark.parametrize("length", [8, 40, 65])
@pytest.mark.parametrize("changes", [{}, dict(sliding_window=16), dict(sliding_window=48)], ids=["full", "16", "48"])
def test_the_scores_unseen_are_those_counted(changes, length):
    reading = configs.read(
        LLAMA | dict(model_type="mistral", max_position_embeddings=32, sliding_window=None) | changes
    )
    seen = reading.visible(0, length)
    row, unseen = reading.layers[0], reading.at(length).unseen(0)
    assert unseen.scores == pytest.approx(unseen_by_hand(row, seen, row.plain, length, 32))
    trained = min(32, row.window or 32)
    slow = [w for w in row.plain if w * (trained - 1) < 2 * math.pi]
    assert (unseen.pairs, unseen.unturned) == (8, len(slow)) and 0 < len(slow) < 8
    assert unseen.beyond == (len(slow) if min(length, row.window or length) > trained else 0)


def test_scores_of_chunks_and_of_encoders_are_counted_too():
    raw = LLAMA | dict(max_position_embeddings=8)
    chunks = configs.read(raw | dict(model_type="llama4_text", attention_chunk_size=12))
    both = configs.read(raw | dict(model_type="eurobert"))
    for reading in (chunks, both):
        row, seen = reading.layers[0], reading.visible(0, 30)
        assert reading.at(30).unseen(0).scores == pytest.approx(unseen_by_hand(row, seen, row.plain, 30, 8))


def test_interpolation_brings_no_unseen_angle_within_its_factor():
    reading = configs.read(LLAMA | dict(rope_scaling=dict(rope_type="linear", factor=4.0)))
    inside, outside = (reading.at(n).unseen(0) for n in (4 * 4096 - 3, 5 * 4096))
    assert inside.beyond == 0 < outside.beyond == outside.unturned and inside.scores > 0.5


def test_a_table_has_no_rows_beyond_and_a_recurrence_no_scores():
    gpt2 = configs.read(SAME["gpt2"][0]).at(40)
    assert gpt2.unseen(1).rows == 8 and "8 positions" in str(gpt2)
    hybrid = configs.read(SAME["layer types"][1]).at(9000)
    assert hybrid.unseen(0) is None and hybrid.unseen(1).pairs == 0 and "no scores" in str(hybrid)
    assert hybrid.encoding(1).places == ()
    for ask in (hybrid.encoding, lambda layer: hybrid.visible(layer, 3)):
        with pytest.raises(posenc.UnsupportedError, match="linear_attention"):
            ask(0)


def test_a_layer_that_is_not_there_and_a_length_that_is_none():
    reading = configs.read(LLAMA)
    for layer, error in ((2, IndexError), (-3, (IndexError, ValueError)), ("0", TypeError)):
        with pytest.raises(error, match="layer="):
            reading.encoding(layer)
    for length, error in ((0, ValueError), ("3", TypeError), (10**30, ValueError)):
        with pytest.raises(error, match="length="):
            reading.at(length)
    with pytest.raises(ValueError, match="length=None"):
        reading.unseen(0)


def test_an_encoding_with_its_mask_serves_attention():
    """Windows by `visible`, sinks and rotation by `encoding`, step by step as at once."""
    raw = LLAMA | dict(model_type="gpt_oss", head_dim=16, sliding_window=4)
    reading = configs.read(raw)
    q, k, v = torch.randn(3, 1, 4, 9, 16)
    for layer in (0, 1):
        encoding, seen = reading.encoding(layer), reading.visible(layer, 9)
        assert encoding.places == ("rotate", "weigh") and seen[8].sum() == (4 if layer == 0 else 9)
        whole = posenc.attention(q, k, v, encoding, mask=seen)
        last = posenc.attention(q[:, :, 8:], k, v, encoding, mask=seen[8:])
        torch.testing.assert_close(last, whole[:, :, 8:], **TOLERANCE)


def test_reading_needs_no_transformers():
    code = (
        "import sys, posenc.configs; posenc.configs.read({'model_type': 'llama', 'hidden_size': 8, 'num_hidden_layers':"
    )
    code += " 1, 'num_attention_heads': 1}); print('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
