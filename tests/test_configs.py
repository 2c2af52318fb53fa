r"""What a configuration says of position, held against the models of transformers themselves, tiny and random."""

import copy
import inspect
import json
import re
import runpy
import sys

import attach_kinds
import pytest
import torch
import transformers

import posenc
from posenc import UnsupportedError, configs
from posenc.bridges import models as bridge
from posenc.encoding import At

TYPES = configs.table()["types"]
LONG = 24  # tokens, more than the windows of tiny models
THREE = torch.tensor([1, 3, 2])  # times the position: time, row and column
FAR = (1, 2, 3, 5, 50, 500, 4000, 4001)
YARN = {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 512, "beta_fast": 8.0}
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)
LLAMA3 |= {"original_max_position_embeddings": 128, "rope_theta": 5e5}
LONGER = {"short_factor": [1.0, 1.1, 1.2, 2.0], "long_factor": [1.5, 2.0, 4.0, 8.0]}
SHORTER = {"type": "longrope", "factor": 2.0, "short_factor": [1.0], "long_factor": [1.0]}
SCALES = {"mscale": 1.0, "mscale_all_dim": 0.7}
BETA = YARN | SCALES | {"llama_4_scaling_beta": 0.1}
TURNS = {"rope_type": "default", "mrope_section": [2, 1, 1]}
MROPE = {"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}
GATED = {"use_sliding_window": True, "sliding_window": 6}
HALF = {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 1e3, "factor": 2.0}
ALPHA = {"rope_type": "dynamic", "alpha": 50.0, "factor": 1.0}
SHORT = {"max_position_embeddings": 64}
#: what a tiny configuration says besides sizes, so that every part of the reading has something to do.
SAYS = (
    dict.fromkeys((kind for kind in TYPES if "mscale" in TYPES[kind]), {"rope_scaling": YARN | SCALES})
    | dict.fromkeys(("gpt_bigcode", "openai-gpt"), SHORT)
    | dict.fromkeys(("dinov3_vit", "pixtral"), {"image_size": 32, "patch_size": 8})
    | dict.fromkeys(("granite_swa", "granitemoe_swa"), {"layer_rope_theta": [1e4, 0, 5e3, 1e4]})
    | dict.fromkeys(("mixtral", "phi3", "phimoe", "starcoder2", "minimax"), {"sliding_window": 6})
    | dict.fromkeys(("laguna", "mellum"), {"layer_types": ["full_attention", "sliding_attention"] * 2})
    | dict.fromkeys(("granite", "granitemoe", "granitemoeshared", "hyperclovax"), {"attention_multiplier": 0.3})
    | dict.fromkeys(("hunyuan_v1_dense", "hunyuan_v1_moe"), {"rope_parameters": ALPHA})
    | dict.fromkeys(("qwen2_vl_text", "qwen2_5_vl_text"), GATED | {"max_window_layers": 2, "rope_scaling": TURNS})
    | dict.fromkeys(("qwen3_vl_text", "qwen3_vl_moe_text"), {"rope_scaling": TURNS})
    | dict.fromkeys(("qwen3_5_text", "qwen3_5_moe_text"), {"head_dim": 32, "rope_parameters": TURNS})
    | {kind: GATED | {"max_window_layers": n} for kind, n in (("qwen2", 2), ("qwen2_moe", 3), ("qwen3", 1))}
) | {
    "dots1": {"max_window_layers": 2, "n_shared_experts": 1}, "falcon": {"multi_query": False, "num_kv_heads": 4},
    "gemma3_text": {"query_pre_attn_scalar": 11}, "glm4_moe": {"head_dim": 16}, "qwen3_moe": GATED,
    "gemma3n_text": {"num_kv_shared_layers": 0, "hidden_size_per_layer_input": 8},
    "gemma4_text": {"per_layer_config": {1: {"head_dim": 16}, 3: {"head_dim": 16}}},
    "gpt_neo": SHORT | {"attention_types": [[["global", "local"], 2]], "window_size": 6},
    "granitemoehybrid": {"position_embedding_type": "rope", "layer_types": ["mamba", "attention"] * 2},
    "minimax_m2": {"partial_rotary_factor": 0.5}, "lfm2": {"layer_types": ["conv", "full_attention"] * 2},
    "llama4_text": {"attention_chunk_size": 7, "floor_scale": 9, "no_rope_layers": [1, 0, 1, 0], "layer_types": None},
    "ministral3": {"rope_parameters": BETA, "sliding_window": 6}, "mistral4": {"head_dim": 24, "rope_parameters": BETA},
    "smollm3": GATED | {"no_rope_layers": [1, 0, 1, 0], "layer_types": None},
}  # fmt: skip
#: what leaves plain queries and keys as their weights make them: no factor on them, and pairs not brought into halves.
PLAIN = {kind: {"rope_interleave": False} for kind in TYPES if TYPES[kind].get("reordered")}
PLAIN["ministral3"] = {"rope_parameters": BETA | {"llama_4_scaling_beta": 0.0}}
PLAIN |= {"mistral4": PLAIN["mistral4"] | PLAIN["ministral3"], "llama4_text": {"attn_temperature_tuning": False}}


def told(kind, **says):
    """What a tiny configuration of this type says, anew: the library writes into what it is given."""
    return copy.deepcopy(attach_kinds.sizes_of(kind) | SAYS.get(kind, {}) | says)


def rotations(model):
    return [module for module in model.modules() if type(module).__name__.endswith("RotaryEmbedding")]


def three(module, given):
    """Make the ids of M-RoPE differ, which of a text are alike: time, row and column."""
    return (given[0], given[1] * THREE[:, None, None]) if len(given) > 1 and given[1].ndim == 3 else given


def tiny(kind, attention=None, **says):
    """(a model of this type with random weights, the reading of its configuration)."""
    config = transformers.CONFIG_MAPPING[kind](**told(kind, **says))
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(config, attn_implementation=attention)
    for rotation in rotations(model):
        rotation.register_forward_pre_hook(three)
    for module in model.modules():  # without softmax: nothing is asked of it, and its kernel may want a GPU
        if hasattr(module, "linear_attn"):
            module.linear_attn.forward = lambda hidden_states, **options: torch.zeros_like(hidden_states)
    return model.eval(), configs.read(config)


def alike(*readings):
    """Whether two readings say the same of each layer."""
    one, other = ([x._replace(inv_freq=getattr(x.inv_freq, "tolist", list)()) for x in reading] for reading in readings)
    return one == other


@pytest.fixture
def listening(monkeypatch):
    """A function that hears a model: [(turned (q, k, v), told to a layer, mask, options, unturned, causal)] of each."""

    def silent(rotation, inputs, output, own=bridge.unturned):  # a rotation may be complex numbers
        return torch.ones_like(output) if torch.is_tensor(output) else own(rotation, inputs, output)

    def listen(model, unturned, at, moving=False):
        """moving: frequencies follow the length of the text, where `_listen` has them stand still."""
        monkeypatch.setattr(bridge, "TRIED_AT", tuple(at))
        heard = []
        with torch.no_grad():
            for one, quiet in ((model, False), (unturned, True)):
                monkeypatch.setattr(bridge, "rotations_of", (lambda model: []) if moving and not quiet else rotations)
                layers = [module for module in one.modules() if type(module).__name__.endswith("Attention")]
                own = bridge._listen(one, layers, silent=quiet)
                heard.append([(layer, own[layer]) for layer in layers if layer in own])
        return [(*own, plain[0], layer.is_causal) for (layer, own), (_, plain) in zip(*heard)]

    transformers.AttentionInterface.register("posenc", bridge.attend)
    transformers.AttentionMaskInterface.register("posenc", transformers.masking_utils.sdpa_mask)
    monkeypatch.setattr(bridge, "unturned", silent)
    return listen


def check_turns(layer, plain, own, where):
    """Queries and keys as the model's attention is given them, against the encoding of this layer."""
    encoding, (q, k, _), first = layer.encoding(), plain, layer.head_dim - layer.rotary_dim
    turned = q, k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    if encoding.rotate is not None:
        at = where[None, :, None] * THREE if encoding.axes else where[None]
        turned = encoding.rotate(*turned, At(at, at, None))
    if layer.reordered:  # pairs (2i, 2i + 1), which the library brings into halves
        turned = (torch.cat((x[..., :first], x[..., first::2], x[..., first + 1 :: 2]), dim=-1) for x in turned)
    limit = (3e-7 * where).clamp(min=1e-5)[:, None]  # far out their angles in float32 have no more digits
    for ours, theirs in zip(turned, (own[0], own[1].repeat_interleave(q.shape[1] // own[1].shape[1], dim=1))):
        assert ours.shape == theirs.shape
        assert ((ours - theirs).abs() < limit * theirs.abs().max().clamp(min=1)).all(), layer


BY_HAND = ("codegen", "falcon", "gptj", "roformer")
ROTATING = [kind for kind in TYPES if TYPES[kind].get("method", "rope") in ("rope", "mrope") and kind not in BY_HAND]
#: one for each convention; the weekly run has all types.
GATE = """cohere2 deepseek_v2 deepseek_v3 gemma4_text glm gpt_oss granite_swa llama llama4_text ministral3 mistral
mistral4 modernbert nanochat phi qwen2 qwen2_vl_text qwen3_5_text smollm3""".split()
ALL = [pytest.param(kind, marks=[] if kind in GATE else pytest.mark.weekly) for kind in ROTATING]


@pytest.mark.parametrize("kind", ALL)
def test_queries_and_keys_turn_and_windows_hide_as_in_the_library(kind, listening):
    (model, reading), (unturned, _) = tiny(kind), tiny(kind, **PLAIN.get(kind, {}))
    layers = [layer for layer in reading if layer.method != "linear"]
    for at in (range(LONG), FAR):
        heard = listening(model, unturned, at)
        assert len(heard) == len(layers)
        for layer, (own, _, mask, options, plain, causal) in zip(layers, heard):
            if at == range(LONG):
                full = torch.ones(LONG, LONG).tril() > 0 if causal else torch.ones(LONG, LONG) > 0
                assert torch.equal(layer.visible(LONG), full if mask is None else mask.expand(1, 1, LONG, LONG)[0, 0])
                assert (options.get("s_aux") is not None) == layer.sink
                assert options["scaling"] == pytest.approx(layer.scale)
            elif kind == "llama4_text" and layer.query:  # counts tokens, and not where they stand
                continue
            check_turns(layer, plain, own, torch.tensor(at))


def kinds(full):
    return {"rope_parameters": {"sliding_attention": {"rope_theta": 500.0}, "full_attention": full}}


#: a name: (model type, what its configuration says besides).
SCALED = {
    "linear": ("llama", {"rope_scaling": {"type": "linear", "factor": 4.0}, "rope_theta": 5e4}),
    "llama3, a step": ("llama", {"rope_scaling": LLAMA3 | {"high_freq_factor": 1.0}}),
    "llama3": ("llama", {"rope_scaling": LLAMA3}), "theta of one kind": ("olmo3", {"rope_theta": 3e4}),
    "dynamic": ("llama", {"rope_scaling": {"type": "dynamic", "factor": 3.0}} | SHORT),
    "yarn": ("llama", {"rope_scaling": {"type": "yarn", "factor": 8.0}, "max_position_embeddings": 128}),
    "yarn, two mscales": ("qwen3", {"rope_scaling": YARN | SCALES}),
    "yarn, one mscale": ("qwen3", {"rope_scaling": YARN | {"mscale": 0.7}}),
    "yarn, a factor of its own": ("llama", {"rope_scaling": YARN | {"attention_factor": 1.3, "truncate": False}}),
    "yarn, no factor": ("llama", {"rope_parameters": YARN | {"factor": None}, "max_position_embeddings": 2048}),
    "yarn, of a kind": ("gemma3_text", kinds(YARN | {"rope_theta": 1e5, "truncate": False})),
    "yarn of a part": ("qwen3_5_text", {"rope_scaling": YARN | {"mrope_section": [2, 1, 1]}}),
    "linear, full layers alone": ("gemma3_text", {"rope_scaling": {"rope_type": "linear", "factor": 8.0}}),
    "an old name that is not read": ("gemma3_text", {"rope_scaling": {"type": "linear", "factor": 8.0}}),
    "longrope": ("phi3", {"rope_scaling": LONGER | {"type": "longrope"}, "original_max_position_embeddings": 512}),
    "longrope, old name": ("phi3", {"rope_scaling": LONGER | {"type": "su", "original_max_position_embeddings": 8192}}),
    "both kinds": ("modernbert", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}, "local_rope_theta": 300.0}),
    "halves": ("deepseek_v3", {"rope_interleave": False}),
    "no position": ("granitemoehybrid", {"position_embedding_type": None}),
    "partial": ("phi3", {"partial_rotary_factor": 0.75}), "proportional": ("gemma4_text", kinds(HALF)),
    "old names": ("gpt_neox", {"rotary_pct": 0.75, "rotary_emb_base": 500}),
    "no windows, all turn": ("exaone4", {"sliding_window": None, "layer_types": ["full_attention"] * 4}),
}  # fmt: skip


@pytest.mark.parametrize("name", SCALED)
def test_what_a_configuration_says_is_what_the_model_does(name, listening):
    kind, says = SCALED[name]
    model, reading = tiny(kind, **says)
    assert alike(configs.read({"model_type": kind} | told(kind, **says)), reading)
    heard = listening(model, model, FAR, moving=True)
    for layer, (own, _, _, options, plain, _) in zip([layer for layer in reading if layer.method != "linear"], heard):
        check_turns(layer, plain, own, torch.tensor(FAR))
        assert options["scaling"] == pytest.approx(layer.scale)


@pytest.mark.parametrize("kind", ["bloom", "falcon", "gpt_neo", "mpt", "mt5", "t5", "umt5"])
@torch.no_grad()
def test_biases_and_windows_weigh_as_in_the_library(kind, monkeypatch):
    """With queries of zero weights are a softmax of the bias alone, over the keys that are seen."""
    falcon = kind == "falcon"  # whose eager attention adds its penalties twice in 5.15, its fused one once
    model, reading = tiny(kind, **({"alibi": True} if falcon else {"attention": "eager"}))
    fused, masks = torch.nn.functional.scaled_dot_product_attention, []

    def catch(*given, attn_mask, **options):
        masks.append(attn_mask)
        return fused(*given, attn_mask=attn_mask, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", catch)
    for name, parameter in model.named_parameters():
        if name.split(".")[-2] in ("query_key_value", "Wqkv", "q", "q_proj"):
            parameter.zero_()
    ids = torch.arange(2, LONG + 2)[None]
    both = {"decoder_input_ids": ids} if "5" in kind else {}
    out = model(input_ids=ids, output_attentions=not falcon, **both)
    given = [*out.encoder_attentions, *out.decoder_attentions] if both else out.attentions
    given = [mask.softmax(-1) for mask in masks] if falcon else given
    tables = [p for name, p in model.named_parameters() if name.endswith("relative_attention_bias.weight")]
    assert len(given) == len(reading) == 4 * (1 + bool(both))
    for i, (layer, theirs) in enumerate(zip(reading, given)):
        encoding, q = layer.encoding(), torch.zeros(1, 4, LONG, 8)
        if both:
            encoding.bias.table.copy_(tables[i if len(tables) == len(given) else i // 4].T)
        options = {"causal": layer.causal, "mask": layer.visible(LONG), "scale": layer.scale, "return_weights": True}
        weights = posenc.attention(q, q, q, None if "embed" in encoding.places else encoding, **options)[1]
        assert (weights - theirs).abs().max() < 1e-6, layer


@pytest.mark.parametrize("kind", [kind for kind in TYPES if TYPES[kind].get("method") == "learned"])
@torch.no_grad()
def test_rows_of_a_table_are_those_that_the_library_adds(kind):
    model, (layer, *_) = tiny(kind)
    names, rows = ("position_embeddings", "wpe", "embed_positions", "positions_embed"), []
    module = next(module for name, module in model.named_modules() if name.split(".")[-1] in names)
    module.register_forward_hook(lambda module, given, out: rows.append(out))
    model(torch.arange(3, LONG + 3)[None])
    encoding = layer.encoding()
    assert len(module.weight) - layer.offset == layer.embed[0]
    encoding.embed.table.copy_(module.weight[layer.offset :])
    ours = encoding.embed(torch.zeros(1, LONG, layer.embed[1]), torch.arange(LONG))
    assert torch.equal(ours, rows[0].expand_as(ours))
    assert layer.causal == (kind in ("biogpt", "gpt2", "gpt_bigcode", "gpt_neo", "openai-gpt", "opt"))


@pytest.mark.parametrize("kind", [*BY_HAND, "dinov3_vit", "pixtral"])
@torch.no_grad()
def test_what_turns_elsewhere_turns_as_in_the_library(kind, monkeypatch):
    """Models without a rotary_emb, or with an attention of their own: what goes into their rotation, and comes out."""
    model, reading = tiny(kind)
    heard, layer, module = [], reading[0], inspect.getmodule(type(model))
    owner = getattr(module, "RoFormerSelfAttention", module)
    name = "apply_rotary_position_embeddings" if kind == "roformer" else "apply_rotary_pos_emb"

    own = getattr(owner, name)

    def listen(*given, **options):
        out = own(*given, **options)
        heard.append((given[1:3] if kind == "roformer" else given[:2], out))
        return out

    monkeypatch.setattr(owner, name, staticmethod(listen) if kind == "roformer" else listen)
    model(torch.randn(1, 3, 32, 24) if layer.method == "rope2d" else torch.arange(2, LONG + 2)[None])
    plain, turned = ([x if x.ndim == 4 else x[None] for x in pair] for pair in heard[0])
    if kind in ("codegen", "gptj"):  # keys, then queries, [B, T, H, p], one after the other
        plain, turned = zip(*((given[0].transpose(1, 2), out.transpose(1, 2)) for given, out in heard[:2]))
    at = torch.arange(plain[0].shape[2])
    if layer.method == "rope2d":
        at = torch.cartesian_prod(torch.arange(4), torch.arange(3)).double()  # rows, columns
    if kind == "dinov3_vit":  # from -1 to 1, a class token without a place before them
        at = torch.cat((torch.full((1, 2), torch.nan), (2 * at + 1) / torch.tensor([4, 3]) - 1))
    ours = layer.encoding().rotate(*plain, At(at[None], at[None], None))
    for one, theirs in zip(ours, turned):
        assert (one - theirs).abs().max() < 1e-5 * theirs.abs().max()


def test_what_is_left_out_is_what_the_library_takes():
    """Defaults and patterns of layers of all types, at another depth than theirs, too."""
    needs = {"glm4_moe": {"head_dim": 16}} | dict.fromkeys(("qwen2_vl_text", "qwen2_5_vl_text"), MROPE)
    cases = [(kind, needs.get(kind, {})) for kind in TYPES]
    cases += [(kind, {row["every"][0]: 5}) for kind, row in TYPES.items() if "every" in row]
    cases += [("bloom", {"n_embed": 128}), ("jetmoe", {"kv_channels": 64}), ("falcon", {"n_embed": 142})]
    for kind in ("qwen2", "qwen2_moe", "qwen2_vl_text", "gemma2", "gemma3_text", "olmo3", "exaone4", "llama4_text"):
        cases.append((kind, {"num_hidden_layers": 13, "max_window_layers": 7} | GATED | needs.get(kind, {})))
    for kind, says in cases:
        config = transformers.CONFIG_MAPPING[kind](**copy.deepcopy(says))
        bare = configs.read({"model_type": kind} | says)
        assert alike(bare, configs.read(config)), kind
        assert not bare.faults or says or kind == "mimo_v2_flash", kind


def test_every_type_of_the_library_has_a_row_or_a_reason():
    table = configs.table()
    listed = [*TYPES, *table["texts"], *(name for names in table["uncovered"].values() for name in names)]
    assert len(listed) == len(set(listed)) and {*transformers.CONFIG_MAPPING} <= {*listed}
    assert transformers.__version__ in table["source"]


#: (model type, what it says that does not do what it seems to, words of the fault).
FAULTS = [
    ("mimo_v2_flash", {}, "0.334 of 192 lanes is 64.128.*64"),
    ("llama", {"rope_scaling": {"type": "yarn", "factor": 4.0}}, "without original_max_position_embeddings.*2048"),
    ("llama", {"rope_scaling": YARN, "max_position_embeddings": 4096}, "factor=16.* 8 times"),
    ("qwen3", SCALED["yarn, one mscale"][1], "mscale alone"),
    ("deepseek_v3", {"rope_scaling": YARN}, "mscale_all_dim is missing"),
    ("llama", {"rope_scaling": YARN | {"rope_type": "dynamic"}}, "static up to .*2048"),
    ("llama", {"partial_rotary_factor": 0.5, "alibi": True}, "alibi=True is ignored"),
    ("minimax_m2", {"rotary_dim": 64}, "rotary_dim=64 is ignored"),
    ("qwen2", {"sliding_window": 4096}, "4096 is not in force"),
    ("qwen3", {"sliding_window": 9, "use_sliding_window": True, "max_window_layers": 32}, "max_window_layers=32 lea"),
    ("llama", {"rope_stretch": 2}, "rope_stretch=2 is not known"),
    ("gemma3_text", SCALED["yarn, of a kind"][1], "truncate=false is ignored"),
]


@pytest.mark.parametrize("kind, says, words", FAULTS)
def test_faults_are_named(kind, says, words):
    reading = configs.read({"model_type": kind} | says)
    assert any(re.search(words, fault) for fault in reading.faults), reading.faults
    assert all(fault in str(reading) for fault in reading.faults)


#: words of an error: what a Llama's configuration says, or another's.
BAD = {
    "config=7": 7, "model_type=None": {}, "lama.*nothing is guessed.*'llama'": {"model_type": "lama"},
    "num_hidden_layers=1000000000.*10,000": {"num_hidden_layers": 10**9}, "rope_theta.*finite": {"rope_theta": 10**400},
    "hidden_size='4096'": {"hidden_size": "4096"}, "rope_scaling.*dict.*list": {"rope_scaling": [8.0]},
    "rope_type='ntk'.*'linear'": {"rope_scaling": {"type": "ntk"}},
    r"rope_scaling\['factor'\] is missing": {"rope_scaling": {"type": "linear"}},
    "rope_parameters.*all layers": {"rope_parameters": {"full_attention": {}}},
    "rope_parameters.*each": {"model_type": "gemma3_text", "rope_parameters": {"rope_theta": 1e6}},
    "layer_types='window'.*sliding_attention": {"model_type": "gemma2", "layer_types": ["window"] * 26},
    "layer_types.*26": {"model_type": "gemma2", "layer_types": ["full_attention"]},
    "attention_types": {"model_type": "gpt_neo", "attention_types": [1]},
    "21 lanes of head_dim=42": {"model_type": "glm4_moe"}, "deepseek_v4.*values": {"model_type": "deepseek_v4"},
    "head_dim=0": {"hidden_size": 4, "num_attention_heads": 8}, "frequencies|short": {"rope_scaling": SHORTER},
    "mrope_section": {"model_type": "qwen2_vl"}, "value=True": {"model_type": "roformer", "rotary_value": True},
}  # fmt: skip


@pytest.mark.parametrize("words", BAD)
def test_what_can_not_be_read_is_named(words):
    given = BAD[words]
    with pytest.raises((TypeError, ValueError), match=words):
        configs.read({"model_type": "llama"} | given if given and isinstance(given, dict) else given)


def test_files_and_folders_are_read_and_the_command_prints_them(tmp_path, monkeypatch, capsys):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "gpt_oss", "rope_stretch": 2}), "utf-8")
    assert alike(configs.read(path), configs.read(str(tmp_path))) and len(configs.read(path)) == 36
    monkeypatch.setattr(sys, "argv", ["posenc.configs", str(path), "--length", "100000"])
    runpy.run_module("posenc.configs", run_name="__main__")
    page = capsys.readouterr().out
    assert "a sink a head" in page and "rope_stretch=2" in page and "127 away" in page and "99,999 away" in page
    for text, words in (("{", "not JSON"), ("[1, 2]", "dict"), ("", "JSON")):
        path.write_text(text, "utf-8")
        with pytest.raises(SystemExit, match=words):
            runpy.run_module("posenc.configs", run_name="__main__")
    for says in (MROPE, {"text_config": {"model_type": "qwen2_vl_text"} | MROPE}):
        assert configs.read({"model_type": "qwen2_vl"} | says)[0].sections == (16, 24, 24)


def test_what_follows_at_a_length():
    """Llama 3.1 by hand: pair i comes full circle in L tokens where base^(-2i/128) L reaches 2 pi."""
    says = {"model_type": "llama", "head_dim": 128, "rope_theta": 5e5, "max_position_embeddings": 131072}
    reading = configs.read(says | {"rope_scaling": LLAMA3 | {"original_max_position_embeddings": 8192}})
    slow = sum(5e5 ** (-i / 64) * 8192 < 6.283185307 for i in range(64))
    for length, unseen in ((8192, 0), (65536, 0), (65537, slow), (131072, slow)):
        (extent,) = reading.at(length)
        assert extent[1:6] == (length, length - 1, 64, slow, unseen) and extent.layers == list(range(32))
    windows = {one.layers[0]: one for one in configs.read({"model_type": "gemma3_text"}).at(262144)}
    assert windows[0].distance == 4095 and windows[0].unseen == 0 and windows[5].unseen == windows[5].slow > 0
    assert windows[0].slow == sum(1e4 ** (-i / 128) * 4096 < 6.283185307 for i in range(128))
    assert f"{1 + 0.1 * 2.1972246:.4f}" in configs.read({"model_type": "ministral3"}).at(131073)[0].words
    with pytest.raises(ValueError, match="length"):
        reading.at(2**40)
    hybrid = configs.read({"model_type": "qwen3_next"})
    assert [layer.method for layer in hybrid[:4]] == ["linear"] * 3 + ["rope"] and "recurrence" in hybrid.at(9)[0].words
    with pytest.raises(UnsupportedError, match="layer 0 is linear_attention"):
        hybrid.encoding(0)
