r"""Which decoders of transformers take an encoding of ours by `posenc.bridges.attach`?

    python benchmarks/attach_kinds.py

Of each model type that the library lists for causal language modeling, a tiny model with random weights, norms
included, says its logits for twelve tokens and writes eight more. Then its own rotation is read by `read_rope` and put
in its place by `attach`: "serves" means that the logits agree to 1e-4 and the text is the same, with one encoding or
with a list of one for each layer, where NoPE moves logits by more than 1e-2; "refuses" that a bridge says why not;
"not built" that our sizes make no such model.
Writes results/attach_kinds.json. Chapter: In your own model.
"""

import re
import warnings

import record
import torch
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as KINDS

from posenc import UnsupportedError, bridges

LARGEST = 3_000_000  # parameters of a model that counts as tiny
AGREE, HEARD = 1e-4, 1e-2
SIZES = {  # those that a configuration knows are set
    32: "hidden_size n_embd d_model dim word_embed_proj_dim embedding_size",
    48: "intermediate_size intermediate_size_mlp ffn_dim n_inner ffn_hidden_size",
    16: "moe_intermediate_size shared_expert_intermediate_size shared_intermediate_size qk_nope_head_dim v_head_dim "
    "q_lora_rank kv_lora_rank index_head_dim index_topk mamba_d_head",
    8: "head_dim qk_rope_head_dim global_head_dim swa_head_dim rotary_dim linear_key_head_dim linear_value_head_dim "
    "mamba_d_state hidden_size_per_layer_input",
    4: "num_hidden_layers n_layer num_layers decoder_layers num_attention_heads n_head n_heads decoder_attention_heads "
    "n_routed_experts num_experts num_local_experts moe_num_experts mamba_n_heads linear_num_value_heads",
    2: "num_key_value_heads num_kv_heads num_experts_per_tok num_experts_per_token moe_k n_shared_experts eos_token_id "
    "linear_num_key_heads index_n_heads",
    **{1: "n_group topk_group first_k_dense_replace num_nextn_predict_layers bos_token_id", 0: "pad_token_id"},
    **{64: "vocab_size vocab_size_per_layer_input", 6: "sliding_window", 8192: "max_position_embeddings"},
    0.3: "initializer_range",
}
UNSAID = "head_dim num_key_value_heads n_routed_experts num_experts_per_tok n_group topk_group".split()  # None if left


def takes(config, name):
    """Whether a configuration has this size and lets it be set."""
    fixed = getattr(type(config), name, None)
    try:
        known = getattr(config, name, None) is not None or (name in UNSAID and hasattr(config, name))
    except Exception:  # one that differs from layer to layer
        return False
    return known and not (isinstance(fixed, property) and fixed.fset is None)


def sizes_of(kind):
    """Our sizes for a configuration of this type."""
    whole = transformers.CONFIG_MAPPING[kind]()
    if hasattr(whole, "text_config"):
        raise ValueError("several models in one, whose decoder may have a type of its own")
    sizes = {name: size for size, names in SIZES.items() for name in names.split() if takes(whole, name)}
    if hasattr(whole, "qk_rope_head_dim"):  # latent attention gives each head a key of its own
        sizes["num_key_value_heads"] = 4
    types = list(dict.fromkeys(getattr(whole, "layer_types", None) or ()))
    return sizes | ({"layer_types": (types * 4)[:4]} if len(types) > 1 else {})  # one of each in turn


def tiny(kind):
    """A model of this type with random weights."""
    config = transformers.CONFIG_MAPPING[kind](**sizes_of(kind))
    model_class = getattr(transformers, KINDS[kind])
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in model_class(config).parameters())
    if count > LARGEST:
        raise ValueError(f"our sizes leave {count:,} parameters")
    torch.manual_seed(0)
    model = model_class(config).eval()
    for parameter in model.parameters():
        if parameter.ndim == 1:
            parameter.data += 0.2 * torch.randn_like(parameter)
    return model


def same(one, other):
    """Whether two encodings turn alike."""
    a, b = one.rotate, other.rotate
    if None in (a, b):
        return a is b
    return torch.equal(a.inv_freq, b.inv_freq) and a.attention_factor == b.attention_factor


def words(error):
    """The reason in an error, without names of classes and remedies."""
    said = re.sub(r"^model=\w+[^:]*?(: | has )|: layer \d+ of \w+", "", str(error).split("; ")[0])
    return (said.splitlines() or [type(error).__name__])[0][:140].rstrip(" .:")


def written(model, ids):
    """What it writes after ids, one token a call, from its cache."""
    return model.generate(ids, max_new_tokens=8, do_sample=False, eos_token_id=None, pad_token_id=0)


@torch.no_grad()
def verdict_on(kind):
    """[verdict, why or by how much logits differ] of a model type."""
    ids = torch.randint(3, 60, (1, 12), generator=torch.Generator().manual_seed(1))
    try:
        model = tiny(kind)
        own, text = model(ids, use_cache=False).logits, written(model, ids)
    except Exception as error:  # whatever a strange configuration raises
        return ["not built", words(error)]
    try:
        each = bridges.read_rope(model, each=True)
        alike = all(same(one, each[0]) for one in each)
        models = bridges.attach(model, each[0] if alike else each), bridges.attach(tiny(kind), None)
    except UnsupportedError as error:
        return ["refuses", words(error)]
    off, moved = ((one(ids, use_cache=False).logits - own).abs().max().item() for one in models)
    assert off < AGREE and moved > HEARD, f"{kind}: off by {off}, and NoPE by {moved}"
    assert torch.equal(written(models[0], ids), text), f"{kind}: writes something else"
    return ["serves" if alike else "serves with a list", f"off by {off:.0e}"]


def main():
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    results = record.of_libraries(__doc__, "attach_kinds", ("transformers",))
    results["settings"] = {"agree": AGREE, "layers": 4, "tokens": 12}
    results["kinds"] = {kind: " | ".join(verdict_on(kind)) for kind in sorted(KINDS)}
    record.write(results)


if __name__ == "__main__":
    main()
