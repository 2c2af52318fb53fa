r"""What does an audit find in the positional encodings that other libraries ship?

    python benchmarks/audit_libraries.py

Calls each library's own function with the inputs of `posenc.audit.audit`, on the CPU, and keeps the verdicts. "cast"
means that the module is cast as model.to(dtype) casts it, buffers included; "kept" that its buffers stay in float32.
Where a library's kernel needs CUDA, its own reference in plain PyTorch is asked. A verdict is about the function named,
in the version named, and not about models that use it.
Writes results/audit.json. Chapter: Auditing a proposal.
"""

import importlib
from functools import partial

import record
import torch
from torch import nn

from posenc import Encoding
from posenc.audit import QUESTIONS, audit

LIBRARIES = ("transformers", "rotary-embedding-torch", "x-transformers", "fla-core")
HEAD_DIM, HEADS, LENGTH = 16, 4, 64
DIM = HEAD_DIM * HEADS


class Calls(nn.Module):
    """A module of a library and how it is called: call(module, *inputs)."""

    def __init__(self, module, call):
        super().__init__()
        self.module, self.call = module, call

    def forward(self, *inputs):
        return self.call(self.module, *inputs)


def kept(module, call):
    """The same, out of reach of casts."""
    return lambda *inputs: call(module, *inputs)


# ------------------------------------------------------------------------------------------------------- transformers


def hf_rotary(model, prefix, apply_name="apply_rotary_pos_emb", cast=False, **options):
    """A rotation of transformers: the module that makes cosines and sines, and the function that applies them."""
    sizes = dict(hidden_size=DIM, num_attention_heads=HEADS, num_key_value_heads=HEADS, max_position_embeddings=8192)
    modeling = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    configuration = importlib.import_module(f"transformers.models.{model}.configuration_{model}")
    config = getattr(configuration, f"{prefix}Config")(**sizes, **options)
    apply = getattr(modeling, apply_name)

    def call(rotary, x, positions):
        cos, sin = rotary(x, positions[None])
        return apply(x, x, cos, sin)[0]

    return (Calls if cast else kept)(getattr(modeling, f"{prefix}RotaryEmbedding")(config), call), "rotate"


def gptj():
    from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb, create_sinusoidal_positions

    table = create_sinusoidal_positions(8192, HEAD_DIM)

    def rotate(x, positions):
        sin, cos = table[positions].to(x.dtype)[None].chunk(2, dim=-1)
        return apply_rotary_pos_emb(x.transpose(1, 2), sin, cos).transpose(1, 2)

    return rotate, "rotate"


def roformer():
    from transformers.models.roformer import modeling_roformer as modeling

    table = modeling.RoFormerSinusoidalPositionalEmbedding(8192, HEAD_DIM)
    table.weight.data = table.create_weight()

    def rotate(x, positions):
        angles = table(None, position_ids=positions)[None, None].to(x.dtype)
        return modeling.RoFormerSelfAttention.apply_rotary_position_embeddings(angles, x, x)[0]

    return rotate, "rotate"


class BuiltAlibi(nn.Module):
    """BLOOM's and Falcon's bias, built in the dtype of the hidden states from a mask of ones up to the last key."""

    def __init__(self, build):
        super().__init__()
        self.build, self.hidden = build, nn.Buffer(torch.zeros(()))  # casts along, and stays under autocast

    def forward(self, q, k, at):
        ones = torch.ones(1, int(at.pos_k.max()) + 1, dtype=torch.long)
        table = self.build(ones, q.shape[1], self.hidden.dtype)  # [H, 1, keys]
        return table[:, :, at.pos_k.long()].movedim(2, 0)


def hf_alibi(model):
    modeling = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    return Encoding(bias=BuiltAlibi(modeling.build_alibi_tensor)), None


def mpt():
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

    def bias(pos_q, pos_k):
        return build_mpt_alibi_tensor(HEADS, int(pos_k.max()) + 1)[..., pos_k.long()]

    return bias, "bias"


def t5(is_decoder):
    from transformers.models.t5.configuration_t5 import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    config = T5Config(d_model=DIM, num_heads=HEADS, d_kv=HEAD_DIM, is_decoder=is_decoder)
    layer = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)

    def call(layer, pos_q, pos_k):
        past = int(pos_q[0])
        return layer.compute_bias(len(pos_q), int(pos_k.max()) + 1, past_seen_tokens=past)[..., pos_k.long()]

    return Calls(layer, call), "bias"


def gpt2():
    from transformers import GPT2Config, GPT2Model

    table = GPT2Model(GPT2Config(vocab_size=8, n_positions=LENGTH, n_embd=DIM, n_layer=1, n_head=HEADS)).wpe
    return Calls(table, lambda table, x, positions: x + 25 * table(positions)), "embed"  # as loud as a trained one


def opt():
    from transformers.models.opt.modeling_opt import OPTLearnedPositionalEmbedding

    def call(table, x, positions):
        return x + table(None, position_ids=positions[None])

    return Calls(OPTLearnedPositionalEmbedding(LENGTH, DIM), call), "embed"


def m2m100():
    from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding

    def call(table, x, positions):
        ids = torch.full((1, int(positions.max()) + 1), 5)  # no padding; positions are counted from them
        return x + table(ids)[:, positions.long()]

    return Calls(M2M100SinusoidalPositionalEmbedding(8192, DIM, padding_idx=1), call), "embed"


# --------------------------------------------------------------------------------------------- rotary-embedding-torch


def rotary_embedding_torch():
    from rotary_embedding_torch import RotaryEmbedding

    def call(rotary, x, positions):
        parts, start = [], 0
        steps = (positions.diff() != 1).nonzero().flatten().tolist()  # it takes an offset: runs of positions, in turn
        for end in [*(s + 1 for s in steps), len(positions)]:
            parts.append(rotary.rotate_queries_or_keys(x[:, :, start:end], offset=int(positions[start])))
            start = end
        return torch.cat(parts, 2)

    return RotaryEmbedding(HEAD_DIM), call


# ----------------------------------------------------------------------------------------------------- x-transformers


def xt_rotary():
    from x_transformers.x_transformers import RotaryEmbedding, apply_rotary_pos_emb

    def call(rotary, x, positions):
        freqs, scale = rotary(positions)
        return apply_rotary_pos_emb(x, freqs, scale)

    return RotaryEmbedding(HEAD_DIM), call


def xt_bias(name, **options):
    """A bias of x-transformers, which counts i queries at the end of j keys."""
    from x_transformers import x_transformers

    def call(module, pos_q, pos_k):
        return module(len(pos_q), int(pos_q[-1]) + 1)[..., pos_k.long()]

    module = getattr(x_transformers, name)(heads=HEADS, **options)
    return (kept if name == "DynamicPositionBias" else Calls)(module, call), "bias"  # that one is float32 inside


def xt_embed(name, *arguments):
    from x_transformers import x_transformers

    def call(module, x, positions):
        return x + 8 * module(x, pos=positions)  # its scale of 1/sqrt(C) goes with embeddings that are small

    return Calls(getattr(x_transformers, name)(DIM, *arguments), call), "embed"


# ----------------------------------------------------------------------------------------------------------- fla-core


def fla_rotary():
    from fla.modules.rotary.ops import RotaryEmbedding, rotary_embedding_ref

    def call(rotary, x, positions):
        rotary._update_cos_sin_cache(int(positions.max()) + 1, device=x.device, dtype=x.dtype)
        cos, sin = rotary._cos_cached[positions.long()], rotary._sin_cached[positions.long()]
        return rotary_embedding_ref(x.transpose(1, 2), cos, sin).transpose(1, 2)

    return Calls(RotaryEmbedding(HEAD_DIM), call), "rotate"


def fla_attention(name, gate=None):
    """A whole attention function of fla, its naive reference; it takes [B, T, H, D] and no positions."""
    function = getattr(importlib.import_module(f"fla.ops.{name}.naive"), f"naive_{name}")

    def attend(q, k, v, positions, causal):
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        gates = () if gate is None else (torch.full(q.shape[:3], gate, dtype=q.dtype),)
        out = function(q, k, v, *gates)
        return (out[0] if isinstance(out, tuple) else out).to(v.dtype).transpose(1, 2)

    return attend, "attention"


def retention():
    from fla.ops.retention.naive import naive_retention

    return lambda q, k, v, positions, causal: naive_retention(q, k, v), "attention"  # it takes [B, H, T, D]


def both_ways(make, cast):
    """A (module, call) of a library as a rotation, cast along or kept."""
    module, call = make()
    return (Calls if cast else kept)(module, call), "rotate"


HF, RET, XT, FLA = LIBRARIES
SIZES = {"qk_rope_head_dim": HEAD_DIM, "head_dim": HEAD_DIM}
DEEPSEEK = partial(hf_rotary, "deepseek_v3", "DeepseekV3", "apply_rotary_pos_emb_interleave", **SIZES)
SUBJECTS = {  # (a library, its function in words, what makes (subject, place))
    "llama": (HF, "Llama's rotation, kept", partial(hf_rotary, "llama", "Llama")),
    "llama-cast": (HF, "Llama's rotation, cast", partial(hf_rotary, "llama", "Llama", cast=True)),
    "gpt_neox": (HF, "GPT-NeoX's rotation, kept", partial(hf_rotary, "gpt_neox", "GPTNeoX")),
    "cohere": (HF, "Cohere's rotation, kept", partial(hf_rotary, "cohere", "Cohere")),
    "deepseek_v3": (HF, "DeepSeek-V3's interleaved rotation, kept", DEEPSEEK),
    "gptj": (HF, "GPT-J's rotation", gptj),
    "roformer": (HF, "RoFormer's rotation", roformer),
    "bloom": (HF, "BLOOM's ALiBi, in the model's dtype", partial(hf_alibi, "bloom")),
    "falcon": (HF, "Falcon's ALiBi", partial(hf_alibi, "falcon")),
    "mpt": (HF, "MPT's ALiBi", mpt),
    "t5-decoder": (HF, "T5's bias, decoder", partial(t5, True)),
    "t5-encoder": (HF, "T5's bias, encoder", partial(t5, False)),
    "gpt2": (HF, "GPT-2's learned table", gpt2),
    "opt": (HF, "OPT's learned table", opt),
    "m2m_100": (HF, "M2M100's sinusoid", m2m100),
    "ret": (RET, "rotate_queries_or_keys, kept", partial(both_ways, rotary_embedding_torch, False)),
    "ret-cast": (RET, "rotate_queries_or_keys, cast", partial(both_ways, rotary_embedding_torch, True)),
    "xt-rotary": (XT, "RotaryEmbedding, kept", partial(both_ways, xt_rotary, False)),
    "xt-rotary-cast": (XT, "RotaryEmbedding, cast", partial(both_ways, xt_rotary, True)),
    "xt-alibi": (XT, "AlibiPositionalBias", partial(xt_bias, "AlibiPositionalBias")),
    "xt-t5": (XT, "RelativePositionBias (T5's)", partial(xt_bias, "RelativePositionBias", scale=1.0, causal=True)),
    "xt-dynamic": (XT, "DynamicPositionBias", partial(xt_bias, "DynamicPositionBias", dim=16, depth=2)),
    "xt-absolute": (XT, "AbsolutePositionalEmbedding", partial(xt_embed, "AbsolutePositionalEmbedding", LENGTH)),
    "xt-sinusoidal": (XT, "ScaledSinusoidalEmbedding", partial(xt_embed, "ScaledSinusoidalEmbedding")),
    "fla-rotary": (FLA, "RotaryEmbedding's tables and rotary_embedding_ref, cast", fla_rotary),
    "fla-stickbreaking": (FLA, "naive_stickbreaking_attn", partial(fla_attention, "stickbreaking_attn")),
    "fla-forgetting": (FLA, "naive_forgetting_attn, a constant gate", partial(fla_attention, "forgetting_attn", -0.1)),
    "fla-retention": (FLA, "naive_retention", retention),
}


def report_on(key):
    """The audit of one of SUBJECTS, its weights seeded."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        subject, place = SUBJECTS[key][2]()
    return audit(subject, place, head_dim=HEAD_DIM, num_heads=HEADS, trained_length=LENGTH, name=key)


def main():
    results = record.of_libraries(__doc__, "audit", LIBRARIES) | {"questions": QUESTIONS, "subjects": {}}
    for key, (library, what, _) in SUBJECTS.items():
        report = report_on(key)
        print(report)
        results["settings"] = report.settings
        results["subjects"][key] = {
            "library": library,
            "what": what,
            "places": list(report.places),
            "verdicts": report.verdicts,
            "words": {f.name: f.words for f in report.findings},
            "examples": {f.name: f.example for f in report.findings if f.verdict == "fails"},
        }
    record.write(results)


if __name__ == "__main__":
    main()
