r"""What the code of transformers 5.15 makes of each model type's keys: one table, facts of that code."""

from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import check_int, shown

FULL, SLIDING, CHUNKED, LINEAR = "full_attention", "sliding_attention", "chunked_attention", "linear_attention"


class ModelType(NamedTuple):
    r"""What transformers' code makes of a model type's keys; each field a fact of that code, defaults those of Llama.

    method: "rope", "alibi", "t5", "learned", "sinusoidal", "transformer_xl", "inkling", "nope", or a stack each of
        (encoder, decoder).
    base: of the frequencies, where no key says it; by layer type (base, key) where layers differ.
    head_dim: where its key is absent; None: hidden_size / heads. fixed_head: the attention never reads the key.
    fraction: default of partial_rotary_factor; None: RoPE of the type "default" turns the whole head, whatever it says.
    rotary_dim: default of the key of that name, where it says how many lanes turn.
    layout: see `posenc.rope.rotate`. last: the lanes that turn stand last, behind qk_nope_head_dim others.
    layers: (config, number of layers) -> a list of layer types, where the file has none. None: it is not read.
    window, window_key: default and key. windowed: the layer types that have one. switch: the key that says whether.
    nope: which layers don't rotate: "full" ones, full ones "beside windows", or by the key of the name.
    rope: rope_parameters where the file has none; under a layer type, of that layer.
    offset: rows that a learned table has before that of position 0. note: what else the code does.
    """

    method: str | tuple[str, str] = "rope"
    base: Any = 10000.0
    head_dim: int | None = None
    fixed_head: bool = False
    fraction: float | None = None
    rotary_dim: int | None = None
    layout: str = "half"
    last: bool = False
    sign: int = 1
    layers: Callable | None = None
    window: int | None = None
    window_key: str = "sliding_window"
    windowed: tuple[str, ...] = (SLIDING,)
    switch: str = ""
    nope: str = ""
    rope: dict = {}
    sections: Any = None
    interleaved: bool = False
    causal: bool = True
    sink: bool = False
    temperature: str = ""
    offset: int = 0
    note: str = ""


def every(other, key, period, offset=-1, full=FULL):
    """A full layer in each `period`, others of one type; `offset`: which, or the key that says it and its default."""

    def layers(config, n):
        p = config.whole(key, period) if key else period
        at = n - 1 if offset == "end" else config.whole(*offset, minimum=0) if isinstance(offset, tuple) else offset
        return [full if i % p == at % p else other for i in range(n)]

    return layers


def always_sliding(config, n):
    return [SLIDING] * n


def always_linear(config, n):
    return [LINEAR] * n


def from_layer(default):
    """Qwen's rule: windows from max_window_layers on, where use_sliding_window says so."""

    def layers(config, n):
        first = config.whole("max_window_layers", default, minimum=0) if config.flag("use_sliding_window") else n
        return [SLIDING if i >= first else FULL for i in range(n)]

    return layers


def by_rope(kind, with_rope):
    """Llama 4 and SmolLM3: the layer types follow from no_rope_layers, in which 1 says that a layer turns."""

    def layers(config, n):
        other = kind == CHUNKED or config.flag("use_sliding_window")
        return [kind if other and turns == with_rope else FULL for turns in config.turning(n)]

    return layers


COMPRESSED = "heavily_compressed_attention", "compressed_sparse_attention"


def compressed(config, n):
    """DeepSeek-V4: by compress_ratios, else two layers of one kind and then the two in turn."""
    ratios = config.list_for("compress_ratios", n)
    if ratios:
        return [{0: SLIDING, 4: COMPRESSED[1], 128: COMPRESSED[0]}.get(ratio) or ratio for ratio in ratios]
    return [COMPRESSED[i > 2 and i % 2] for i in range(n)]


def local(config, n):
    """GPT-Neo: attention_types holds [[kinds, times], ...]."""
    types = config.get("attention_types", [[["global", "local"], n // 2]])
    try:
        kinds = [kind for group, times in types for kind in list(group) * check_int("times", min(times, n))]
        if len(kinds) == n:
            return [{"global": FULL, "local": SLIDING}[kind] for kind in kinds]
    except (TypeError, ValueError, KeyError):
        pass
    raise ValueError(
        f"attention_types={shown(types)} must give each of {n} layers a kind, like [[['global', 'local'], {n // 2}]]"
    )


LEARNED = ModelType("learned", causal=False)
PREFIX = LEARNED._replace(offset=2, note="counts from padding_idx + 1 = 2, so two rows of the table stand for no place")
INTERLEAVED = ModelType(layout="interleaved")
QUARTER, HALF = ModelType(fraction=0.25, fixed_head=True), ModelType(fraction=0.5)
MLA = INTERLEAVED._replace(last=True, note="the code writes the lanes that turn as halves; scores are the same")
QWEN, WINDOWED = ModelType(layers=from_layer(28), switch="use_sliding_window"), ModelType(layers=always_sliding)
QWEN_VL = QWEN._replace(base=1e6, layers=from_layer(80), sections=())
QWEN_NEXT = ModelType(head_dim=256, fraction=0.25, layers=every(LINEAR, "full_attention_interval", 4))
GEMMA2 = ModelType(head_dim=256, layers=every(SLIDING, None, 2), window=4096)
NOPE_FULL = ModelType(layers=every(SLIDING, "sliding_window_pattern", 4), window=4096, nope="full")
TWO_BASES = {FULL: (1e6, "rope_theta"), SLIDING: (1e4, "rope_local_base_freq")}
LLAMA3 = {"rope_type": "llama3", "original_max_position_embeddings": 8192, "low_freq_factor": 1, "high_freq_factor": 4}
YARN = {"rope_type": "yarn", "original_max_position_embeddings": 4096, "beta_fast": 32, "beta_slow": 1}
MISTRAL = YARN | {"original_max_position_embeddings": 16384, "mscale": 1.0, "mscale_all_dim": 1.0}
MISTRAL |= {"llama_4_scaling_beta": 0.1}
QUARTER_SPREAD = {"rope_type": "proportional", "partial_rotary_factor": 0.25}


def types(names, facts):
    return dict.fromkeys(names.split(), facts)


MODELS = {
    **types("llama olmo olmo2 olmoe arcee granite", ModelType()),
    **types("bert electra distilbert", LEARNED),
    **types("roberta xlm-roberta", PREFIX),
    **types("t5 mt5", ModelType(("t5", "t5"))),
    **types("gptj codegen", INTERLEAVED._replace(fixed_head=True, rotary_dim=64)),
    **types("gpt_neox stablelm", QUARTER),
    **types("phi glm4_moe", HALF),
    **types("glm glm4", HALF._replace(head_dim=128, layout="interleaved")),
    **types("mixtral starcoder2 ministral3", WINDOWED),
    **types("qwen2_vl_text qwen2_5_vl_text", QWEN_VL),
    **types("gemma2 vaultgemma", GEMMA2),
    **types("deepseek_v2 deepseek_v3", MLA),
    "gpt2": ModelType("learned"),
    "gpt_neo": ModelType("learned", layers=local, window=256, window_key="window_size"),
    "opt": ModelType("learned", offset=2, note="two rows of the table stand before position 0"),
    "umt5": ModelType(("t5", "t5"), note="each layer has a table of its own"),
    "whisper": ModelType(("sinusoidal", "learned")),
    "xlnet": ModelType("transformer_xl", causal=False, note="content has a third term of segments, beside position"),
    "bloom": ModelType("alibi"),
    "mpt": ModelType("alibi"),
    "falcon": ModelType(fixed_head=True),
    "persimmon": HALF._replace(fixed_head=True),
    "nemotron": HALF,
    "nanochat": ModelType(sign=-1, note="turns clockwise; q and k are normalized after it"),
    "gemma": ModelType(head_dim=256),
    "seed_oss": ModelType(head_dim=128),
    "helium": INTERLEAVED._replace(base=1e5, head_dim=128),
    "ernie4_5": INTERLEAVED._replace(base=5e5, head_dim=128),
    "cohere": INTERLEAVED._replace(base=5e5),
    "minimax_m2": ModelType(base=5e6, fraction=1.0),
    "apertus": ModelType(base=1.2e7, rope=LLAMA3 | {"factor": 8.0}),
    "eurobert": ModelType(causal=False),
    "mistral": WINDOWED._replace(window=4096),
    "mixtral": WINDOWED._replace(base=1e6),
    "phi3": WINDOWED._replace(fraction=1.0),
    "ministral3": WINDOWED._replace(
        head_dim=128, temperature="llama_4_scaling_beta", rope=MISTRAL | {"rope_theta": 1e6, "factor": 16.0}
    ),
    "mistral4": MLA._replace(
        temperature="llama_4_scaling_beta", rope=MISTRAL | {"factor": 128.0, "original_max_position_embeddings": 8192}
    ),
    "qwen2": QWEN,
    "qwen3": QWEN._replace(head_dim=128),
    "qwen3_vl_text": ModelType(base=5e5, head_dim=128, sections=(24, 20, 20), interleaved=True),
    "qwen3_next": QWEN_NEXT,
    "qwen3_5_text": QWEN_NEXT._replace(sections=(11, 11, 10), interleaved=True),
    "gemma3_text": GEMMA2._replace(base=TWO_BASES, layers=every(SLIDING, "sliding_window_pattern", 6)),
    "gemma4_text": GEMMA2._replace(
        base=TWO_BASES, layers=every(SLIDING, None, 6), window=512, rope={FULL: QUARTER_SPREAD, SLIDING: {}}
    ),
    "olmo3": ModelType(
        base={FULL: (5e5, "rope_theta"), SLIDING: (5e5, None)}, layers=every(SLIDING, None, 4), window=4096
    ),
    "modernbert": ModelType(
        base={FULL: (1.6e5, "global_rope_theta"), SLIDING: (1e4, "local_rope_theta")},
        fixed_head=True,
        layers=every(SLIDING, "global_attn_every_n_layers", 3, 0),
        window=128,
        window_key="local_attention",
        causal=False,
    ),
    "cwm": ModelType(base=1e6, layers=every(SLIDING, None, 4, 0), window=8192, rope=LLAMA3 | {"factor": 16.0}),
    "gpt_oss": GEMMA2._replace(
        base=1.5e5, head_dim=64, window=128, sink=True, rope=YARN | {"factor": 32.0, "truncate": False}
    ),
    "granite_swa": ModelType(layers=every(SLIDING, None, 4, 0), window=128, sink=True, nope="layer_rope_theta"),
    "cohere2": NOPE_FULL._replace(layout="interleaved", fixed_head=True),
    "exaone4": NOPE_FULL._replace(nope="beside windows"),
    "afmoe": NOPE_FULL._replace(head_dim=128, layers=every(SLIDING, "global_attn_every_n_layers", 4), window=1024),
    "muse_glimmer_text": ModelType(
        head_dim=128, layers=every(SLIDING, None, 4, "end"), window=2048, nope="layer_rope_theta"
    ),
    "smollm3": ModelType(
        base=2e6, layers=by_rope(SLIDING, with_rope=False), switch="use_sliding_window", nope="no_rope_layers"
    ),
    "llama4_text": INTERLEAVED._replace(
        base=5e5,
        head_dim=128,
        layers=by_rope(CHUNKED, with_rope=True),
        window=8192,
        window_key="attention_chunk_size",
        windowed=(CHUNKED,),
        nope="no_rope_layers",
        temperature="attn_temperature_tuning",
    ),
    "minimax": ModelType(base=1e6, layers=every(LINEAR, None, 2, 0), windowed=(FULL,)),
    "granitemoehybrid": ModelType(layers=always_linear, nope="position_embedding_type"),
    "jamba": ModelType("nope", layers=every(LINEAR, "attn_layer_period", 8, ("attn_layer_offset", 4))),
    "deepseek_v4": INTERLEAVED._replace(
        base={"main": (1e4, "rope_theta"), "compress": (1.6e5, "compress_rope_theta")},
        head_dim=512,
        fraction=0.125,
        last=True,
        layers=compressed,
        window=128,
        windowed=(SLIDING, *COMPRESSED),
        sink=True,
        note="keys are values too, so the output is turned back by the query's position: no place holds that",
    ),
    "inkling_text": ModelType(
        "inkling",
        head_dim=128,
        layers=every("hybrid_sliding", None, 6, full="hybrid"),
        window=512,
        window_key="sliding_window_size",
        windowed=("hybrid_sliding",),
    ),
}

OTHERS = {  # a file of a model with pictures, in which text stands by itself, may have the old type
    "qwen2_vl": "qwen2_vl_text",
    "qwen2_5_vl": "qwen2_5_vl_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_5": "qwen3_5_text",
    "gemma3": "gemma3_text",
    "gemma4": "gemma4_text",
    "llama4": "llama4_text",
    "muse_glimmer": "muse_glimmer_text",
    "inkling_mm_model": "inkling_text",
}
ALTERNATING = (
    "its frequencies are the paper's and its lanes all sines, then all cosines: posenc.sinusoidal has no such layout"
)
NOT_READ = {  # in transformers 5.15, but not here
    "marian": ALTERNATING,
    "ctrl": ALTERNATING,
    "deberta": "its logits have terms from content to position and back, which posenc has no method for",
    "deberta-v2": "its logits have terms from content to position and back, which posenc has no method for",
    "deepseek_v32": "a second, sparse attention chooses the keys, and turns another part of them by halves",
    "phimoe": "beyond its trained length it changes the factor on cos and sin and keeps the short frequencies",
    "hunyuan_v1_dense": "with alpha its type 'dynamic' is a larger base at every length",
    "mimo_v2_flash": "its window layers have other numbers of heads",
    "laguna": "its layers have other numbers of heads",
    "gemma3n_text": "not held against its code, which takes long to load; its layers are those of gemma3_text",
    "esm": "rotary or learned by position_embedding_type, with frequencies that are saved with the weights",
    "falcon_h1": "not held against its code; each layer is attention and a recurrent one side by side",
    "qwen2_moe": "its window layers alternate below max_window_layers, by a rule of their own",
    "kimi_linear": "transformers 5.15 has no code for it",
}
