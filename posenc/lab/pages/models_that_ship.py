r"""What the chapter *Models that ship* runs: its table of models, and small computations behind its prose."""

import functools
import json
import math

import torch

from posenc import configs, rope
from posenc.configs.layers import Layer
from posenc.lab.figures import models_that_ship as figure
from posenc.lab.pages import ROOT, table

CONFIGS = ROOT / "book" / "configs"
ENCODINGS = {
    "rope": "RoPE",
    "mrope": "M-RoPE",
    "alibi": "ALiBi",
    "t5": "T5 buckets",
    "learned": "learned",
    "inkling": "relative bias, mixed by the query",
    "nope": "NoPE",
}
SCALINGS = {
    "yarn": "YaRN",
    "llama3": "Llama 3.1's",
    "linear": "linear",
    "dynamic": "dynamic NTK",
    "longrope": "LongRoPE",
}
PERIODS = {1: "every", 2: "every other", 3: "every third", 4: "every fourth", 6: "every sixth"}
NEAR = ("RoPE, near", "near and summaries", "recurrence")  # kinds in the figure that see no single token far away
HEAD = (
    "model",
    "position",
    "lanes that turn",
    "base",
    "scaling",
    "sees at most",
    "NoPE layers",
    "length in the file",
    "trained",
    "source",
)


@functools.cache
def index() -> dict:
    r"""The list of models with sources: {"as_of": date, "read": what was read, by name, "models": [a model each]}."""
    return json.loads((CONFIGS / "index.json").read_text("utf-8"))


@functools.cache
def reading(file: str) -> configs.Reading:
    r"""What a frozen configuration says, by the name of its file without the ending."""
    return configs.read(CONFIGS / f"{file}.json")


def often(layers: list[int], n: int) -> str:
    r"""How many of n layers these are: a period where there is one, else a count."""
    steps = {b - a for a, b in zip(layers, layers[1:])}
    period = steps.pop() if len(steps) == 1 else 0
    if period in PERIODS and len(layers) in (n // period, -(-n // period)):
        return PERIODS[period]
    return f"{len(layers)} of {n}"


def label(row: Layer) -> str:
    r"""What tells a layer from the others of its model."""
    return "compressed" if "compressed" in row.kind else "window" if row.window or row.chunk else "full"


def by_kind(rows: list[Layer], words) -> str:
    r"""The words of all layers, once where they agree, else by kind of layer."""
    said = {}
    for row in rows:
        said.setdefault(words(row), []).append(label(row))
    if len(said) <= 1:
        return "".join(said)
    return "; ".join(f"{text} ({', '.join(dict.fromkeys(kinds))})" for text, kinds in said.items())


def lanes_of(row: Layer) -> str:
    r"""Which lanes of a head turn, in a few words."""
    pairs = "interleaved" if row.layout == "interleaved" else "half-split"
    moving = sum(w != 0 for w in row.inv_freq)
    first, last = row.lanes
    if 2 * moving < last - first:
        return f"{moving} fastest pairs of {row.head_dim} lanes, {pairs}"
    if last - first == row.head_dim:
        return f"all {row.head_dim}, {pairs}"
    return f"{'last' if first else 'first'} {last - first} of {row.head_dim}, {pairs}"


def scaling_of(row: Layer) -> str:
    r"""How the frequencies are scaled, in a few words."""
    if row.scaling not in SCALINGS:
        return "none"
    original = row.settings.get("original_max_position_embeddings")
    start = f" from {original:,}" if original else ""
    return f"{SCALINGS[row.scaling]} by {row.settings['factor']:g}{start}"


def scaled_and_grown(rows: list[Layer], grown: bool) -> str:
    r"""How the frequencies are scaled in all layers, and whether queries grow with their position beside it."""
    words = by_kind(rows, scaling_of) or "–"
    return f"{words}; queries grow" if grown else words


def sight_of(rows: tuple[Layer, ...]) -> str:
    r"""How far the layers see, in tokens: windows and chunks with how many layers have them, and what else there is."""
    n, parts = len(rows), {}
    for row in rows:
        if row.method == "linear":
            words = "a recurrence"
        elif "compressed" in row.kind:
            words = f"{row.window:,} and summaries"
        elif row.chunk:
            words = f"chunks of {row.chunk:,}"
        elif row.window:
            words = f"{row.window:,}" if row.causal else f"{row.window - 1:,} either way"
        else:
            words = "all"
        parts.setdefault(words, []).append(row.index)
    if len(parts) == 1:
        return next(iter(parts))
    return "; ".join(f"{words} in {len(layers)} of {n}" for words, layers in parts.items())


def length_of(model: configs.Reading) -> str:
    r"""The length that the file promises, in tokens."""
    names = ("max_position_embeddings", "n_positions", "max_seq_len")
    promised = next((model.keys[name][0] for name in names if name in model.keys), None)
    return "–" if promised is None else f"{promised:,}"


def cells(entry: dict) -> dict[str, str]:
    r"""A model's row: {column: words}, from its frozen configuration where it has one, else from its paper."""
    dash = dict.fromkeys(("lanes", "base", "scaling", "length"), "–")
    if "file" not in entry:
        said = entry["said"]
        if "RoPE" in said["encoding"]:
            dash = dict.fromkeys(dash, "not stated")
        row = dash | {"encoding": said["encoding"], "sight": said["depth"], "nope": said["nope"]}
    else:
        model = reading(entry["file"])
        soft = [layer for layer in model.layers if layer.method != "linear"]
        turning = [layer for layer in soft if layer.inv_freq]
        nope = [layer.index for layer in soft if layer.method == "nope"]
        row = {
            "encoding": " and ".join(ENCODINGS[name] for name in dict.fromkeys(layer.method for layer in soft)),
            "lanes": by_kind(turning, lanes_of) or "–",
            "base": by_kind(turning, lambda layer: f"{layer.base:,.0f}") or "–",
            "scaling": scaled_and_grown(turning, any(layer.temperature for layer in soft)),
            "sight": sight_of(model.layers),
            "nope": often(nope, len(model.layers)) if nope else "none",
            "length": length_of(model),
        }
    row |= dict.fromkeys(entry.get("unverified", ()), "not verified")
    return row | {"trained": entry.get("trained", "not stated")}


def marks(row: dict) -> list[str]:
    r"""What the buttons above the table ask of a row: names of classes."""
    layers = reading(row["file"]).layers if "file" in row else ()
    asked = {
        "part": any(word in row["lanes"] for word in ("first", "last", "fastest")),
        "scaled": any(name in row["scaling"] for name in SCALINGS.values()),
        "near": any(layer.window or layer.chunk for layer in layers)
        or not (layers or row["sight"] == "all" or "linear" in row["sight"]),
        "nope": row["nope"] != "none",
        "other": "RoPE" not in row["encoding"],
    }
    return [name for name, holds in asked.items() if holds]


@functools.cache
def models() -> tuple[dict, ...]:
    r"""All models, newest first: what the index says of each, and the cells of its row."""
    return tuple(entry | cells(entry) for entry in index()["models"])


BUTTONS = {
    "all": "all",
    "part": "a part turns",
    "scaled": "scaled",
    "near": "windows",
    "nope": "NoPE",
    "other": "no RoPE",
}


def models_table():
    r"""The table: a row a model, marked for the buttons above it, which need no script."""
    rows = []
    for row in models():
        kind = "" if row["kind"] == "decoder" else f", {row['kind']}"
        mark = f'<span class="ship {" ".join(f"ship-{name}" for name in marks(row))}"></span>'
        source = f"{{cite}}`{','.join(row['cite'])}`"
        keys = ("encoding", "lanes", "base", "scaling", "sight", "nope", "length", "trained")
        rows.append([f"{mark}{row['model']} ({row['year']}{kind})", *(row[key] for key in keys), source])
    return table(HEAD, rows)


def buttons():
    r"""The choice above the table, as radio buttons: style sheets hide the other rows."""
    from IPython.display import HTML

    boxes = "".join(
        f'<label><input type="radio" name="ship" id="ship-{name}"{" checked" if name == "all" else ""}> {words} '
        f"({sum(name == 'all' or name in marks(row) for row in models())})</label>"
        for name, words in BUTTONS.items()
    )
    return HTML(f'<fieldset class="ships"><legend>Show models with</legend>{boxes}</fieldset>')


def numbers() -> dict[str, str]:
    r"""What the table adds up to."""
    rows = models()
    recent = [row for row in rows if row["year"] >= 2024]
    turning = [row for row in recent if "RoPE" in row["encoding"]]
    count = {name: sum(name in marks(row) for row in recent) for name in BUTTONS}
    sure = [row for row in rows if "file" in row and "base" not in row.get("unverified", ())]
    bases = [layer.base for row in sure for layer in reading(row["file"]).layers if layer.base]
    return {
        "as_of": index()["as_of"],
        "models": f"{len(rows)}",
        "read": f"{sum('file' in row for row in rows)}",
        "cited": f"{sum('file' not in row for row in rows)}",
        "recent": f"{len(recent)}",
        "turning": f"{len(turning)}",
        "windowed": f"{count['near']}",
        "nope": f"{count['nope']}",
        "scaled": f"{count['scaled']}",
        "lowest": f"{min(bases):,.0f}",
        "highest": f"{max(bases):,.0f}",
        "shown": f"{len(figure.MODELS)}",
        "shown_near": f"{sum(figure.kind_of(figure.groups(name)[0][0]) in NEAR for name in figure.MODELS)}",
        "gemma_slowest": f"{2 * math.pi / min(filter(None, reading('gemma-4-31b').layers[-1].inv_freq)):.0f}",
        "gemma_window": f"{reading('gemma-4-31b').layers[0].window:,}",
        "mla_turning": lanes_of(reading("deepseek-v3").layers[0]).removeprefix("last ").removesuffix(", interleaved"),
    }


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    r"""Normal numbers in float64."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def turning(position: int, dim: int) -> torch.Tensor:
    r"""RoPE's rotation of a position as a matrix [dim, dim]: turned x is R x."""
    return rope.rotate(torch.eye(dim, dtype=torch.float64), torch.full((dim,), position), rope.inv_freq(dim)).T


def yarn_on_short(prompt: int = 512, tokens: int = 64) -> dict[str, float]:
    r"""What a YaRN setting does to the scores of a prompt that plain RoPE could read: shares of their spread.

    Random queries and keys of OLMo 3's full layers, at positions drawn from a prompt of this many tokens. "whole": by
    how much scores change, in units of their standard deviation; "frequencies": by the changed pairs alone, without the
    attention factor; "growth": what the factor alone multiplies scores by.
    """
    layer = next(row for row in reading("olmo-3-7b").layers if row.scaling == "yarn")
    at = torch.randperm(prompt, generator=torch.Generator().manual_seed(1))[:tokens].sort().values
    q, k = (normal(tokens, layer.head_dim, seed=seed) for seed in (2, 3))
    past = torch.ones(tokens, tokens, dtype=torch.bool).tril()

    def scores(rates, factor):
        inv_freq = torch.tensor(rates, dtype=torch.float64)
        left, right = (rope.rotate(x, at, inv_freq, layer.layout, attention_factor=factor) for x in (q, k))
        return (left @ right.T)[past] / math.sqrt(layer.head_dim)

    plain = scores(layer.plain, 1.0)
    changed, whole = scores(layer.inv_freq, 1.0), scores(layer.inv_freq, layer.attention_factor)
    return {
        "whole": ((whole - plain).std() / plain.std()).item(),
        "frequencies": ((changed - plain).std() / plain.std()).item(),
        "growth": layer.attention_factor**2,
    }


def yarn_numbers() -> dict[str, str]:
    r"""What the page says of YaRN's price."""
    price, layer = yarn_on_short(), next(row for row in reading("olmo-3-7b").layers if row.scaling == "yarn")
    return {
        "yarn_prompt": "512",
        "yarn_factor": f"{layer.settings['factor']:g}",
        "yarn_pairs": f"{sum(w != v for w, v in zip(layer.inv_freq, layer.plain))} of {len(layer.plain)}",
        "yarn_frequencies": f"{price['frequencies']:.0%}",
        "yarn_growth": f"{price['growth']:.2f}",
        "yarn_whole": f"{price['whole']:.0%}",
    }


def quarter_numbers(head_dim: int = 64, base: float = 10000.0) -> dict[str, str]:
    r"""How far the slowest pairs of a quarter are apart: a ladder of its own against the fast quarter of the whole."""
    own, whole = rope.inv_freq(head_dim // 4, base), rope.inv_freq(head_dim, base)[: head_dim // 8]
    return {"quarter_ratio": f"{whole[-1] / own[-1]:,.0f}"}


def notes_table():
    r"""What the index notes of a model, in the order of the table."""
    return table(
        ("model", "note"), [[row["model"], row["note"].replace("_", "\\_")] for row in models() if "note" in row]
    )
