r"""What the chapter *Models that ship* reads out of configurations: its table, and the numbers behind its prose."""

import functools
import itertools
import json
import math
from collections import Counter
from pathlib import Path

import torch

from posenc import UnsupportedError, configs, scaling
from posenc.encoding import PLACES
from posenc.lab.write import listed, say_all, table, unbroken
from posenc.methods import METHODS
from posenc.rotate.rope import ladder

#: {"source": where from, "as_of": date, "rows": a model each, newest first}
MODELS = json.loads(Path(__file__).with_name("models.json").read_text("utf-8"))
PAGES = "https://huggingface.co/docs/transformers/model_doc/"
SCHEMES = {"default": "", "proportional": "", "yarn": "YaRN", "llama3": "Llama 3.1's", "linear": "linear"}


def read(row):
    r"""The `Reading` of a row; the reason in words where it is refused; None where there is no configuration."""
    if "type" not in row:
        return None
    try:
        return configs.read({"model_type": row["type"], **row.get("given", {})})
    except (UnsupportedError, ValueError) as error:
        return str(error).removeprefix(f"model_type='{row['type']}' ").removesuffix("; nothing is guessed.")


@functools.cache
def readings():
    r"""{name: its Reading} of the rows that are read, newest first."""
    pairs = {row["name"]: read(row) for row in MODELS["rows"]}
    return {name: reading for name, reading in pairs.items() if isinstance(reading, configs.Reading)}


def kind(layer):
    r"""What a layer sees, and whether it has a position."""
    if layer.method == "linear":
        return "linear"
    sees = f"window of {layer.window:,}" if layer.window else f"blocks of {layer.chunk:,}" if layer.chunk else "full"
    return sees + " without position" * (layer.method == "nope")


def depth(kinds):
    r"""The kinds of layers from the first to the last, in words: one period, where they repeat."""
    period = next((n for n in range(1, 9) if all(one == kinds[i % n] for i, one in enumerate(kinds))), None)
    if period == 1:
        return kinds[0]
    runs = itertools.groupby(kinds[:period]) if period else ()
    counts = [(name, len([*run])) for name, run in runs] or Counter(kinds).most_common()
    return ", ".join(unbroken(f"{count} {name}") for name, count in counts) + (", repeated" if period else " in all")


def lanes(layer):
    r"""How many lanes of a head turn, and which."""
    return f"{layer.rotary_dim} of {layer.head_dim}" + f", {layer.lanes}" * (layer.lanes != "all")


def speed(layer):
    r"""The base, and the scheme on top."""
    name, factor = SCHEMES[layer.rope.kind], layer.rope.settings.get("factor")
    return f"{layer.rope.base:,.0f}" + (f", {name} × {factor:g}" if name else "")


def said(reading, cell):
    r"""What a cell says of the layers that turn; where they differ, of each kind."""
    words = {}
    for layer in reading:
        if layer.rope is not None:
            words.setdefault(cell(layer), []).append(kind(layer).split()[0])
    if len(words) < 2:
        return next(iter(words), "–")
    return "; ".join(f"{word} ({kinds[0]})" for word, kinds in words.items())


def places(reading):
    r"""The places where position enters in some layer."""
    found = {layer.place for layer in reading} | {"weigh" for layer in reading if layer.sink}
    return [place for place in PLACES if place in found]


def method(reading):
    names = dict.fromkeys(METHODS[one.method].title for one in reading if one.place)
    more = {"a sink": any(one.sink for one in reading), "a query factor": any(one.query for one in reading)}
    return ", ".join([*names, *(words for words, has in more.items() if has)]) or "no position"


def source(row):
    if "cite" in row:
        return f"{{cite}}`{','.join(row['cite'])}`"
    return f"[library]({PAGES}{row['doc']})"


def models_table():
    r"""The models, newest first, below buttons that leave those of one place (style sheets alone make them work); and
    those that are refused, with the reason."""
    from IPython.display import Markdown

    rows, counts, refused = [], Counter(), ["Not read:", ""]
    for row in MODELS["rows"]:
        reading, told = read(row), row.get("told", {})
        since = f" ({row['since'].replace('-', chr(0x2011))})"
        if isinstance(reading, str):
            refused.append(f"- {row['name']}{since}: {reading} ({source(row)}).")
            continue
        cells, found = ["–", "–"], told.get("places", [])
        way, kinds, length = told.get("method"), told.get("depth", "–"), told.get("length", "–")
        if reading is not None:
            found, way, kinds = places(reading), method(reading), depth([kind(layer) for layer in reading])
            cells = [said(reading, cell) for cell in (lanes, speed)]
            length = f"{reading.trained:,}" if reading.trained else "–"
        counts.update(names := found or ["nowhere"])
        marks = "†" * ("given" in row) + "‡" * ("told" in row)
        where = " ".join(f"[{name}]{{.at-{name}}}" for name in names)
        name = unbroken(f"{row['name']}{marks}") + since
        rows.append([name, where, way, *cells, kinds, length, source(row)])
    head = ["model (since)", "place", "method", "lanes turned", "base, scaling", "depth", "length", "source"]
    buttons = "".join(
        f'<label class="place"><input type="radio" name="place" value="{name}" autocomplete="off"'
        f"{' checked' * (name == 'all')}><span><b>{name}</b> {count}</span></label>"
        for name, count in [*((name, counts[name]) for name in (*PLACES[:4], "nowhere")), ("all", len(rows))]
    )
    legend = "<legend>Where position enters: choose a place</legend>"
    raw = f'```{{raw}} html\n<fieldset class="places">{legend}{buttons}</fieldset>\n```'
    told = "\n".join(refused)
    return Markdown(f":::::{{div}} methods\n{raw}\n\n{table(head, rows).data}\n:::::\n\n{told}")


def numbers():
    r"""Give the prose what the table counts, and what latent attention costs. Errors: where the page says otherwise."""
    known = readings()
    mixed = [name for name, one in known.items() if {"rope", "nope"} <= {layer.method for layer in one}]
    recent = [row["name"] for row in MODELS["rows"] if row["since"] >= "2024" and row["name"] in known]
    still = [name for name in recent if not any(layer.place for layer in known[name])]
    near = [name for name in mixed if all(layer.reach or layer.chunk for layer in known[name] if layer.rope)]
    assert [*set(mixed) - set(near)] == ["SmolLM3"] and still == ["Granite 4"], (mixed, near, still)
    refused = sum(isinstance(read(row), str) for row in MODELS["rows"])
    counts = {
        "models": len(MODELS["rows"]) - refused,
        "read": len(known),
        "refused": refused,
        "rotate": sum("rotate" in places(one) for one in known.values()),
        "windowed": sum(any(layer.window for layer in one) for one in known.values()),
        "part": sum(any(layer.lanes in ("first", "last", "spread") for layer in one) for one in known.values()),
        "mixed": len(mixed),
        "types": len(configs.table()["types"]),
    }
    say_all("shipped", {name: f"{count}" for name, count in counts.items()})
    heat = scaling.get_mscale(4.0)
    squares = {"wrong": scaling.get_mscale(16.0) ** 2, "heat": heat, "hotter": heat**2}
    say_all("shipped", {name: f"{value:.4f}" for name, value in squares.items()})
    say_all("shipped", {"mixed_names": listed(mixed), "as_of": MODELS["as_of"], **latent()})


#: DeepSeek-V3's sizes: heads, lanes of a head without and with position, lanes of a value, of the latent, layers.
HEADS, NOPE, ROPE, VALUE, LATENT, LAYERS = 128, 128, 64, 128, 512, 61


def latent(tokens=131072):
    r"""What latent attention keeps of each token and pays in each step, and what it would otherwise."""
    kept, plain = LATENT + ROPE, HEADS * (NOPE + ROPE + VALUE)
    rebuilt, absorbed = LATENT * HEADS * NOPE, HEADS * (LATENT + ROPE)
    gigabytes = [2 * LAYERS * tokens * size / 1e9 for size in (kept, plain)]
    ints = {"kept": kept, "plain": plain, "times": plain / kept, "rebuilt": rebuilt, "absorbed": absorbed}
    words = {name: f"{value:,.0f}" for name, value in (ints | {"dearer": rebuilt / absorbed}).items()}
    return words | {"cache": f"{gigabytes[0]:.1f}", "cache_plain": f"{gigabytes[1]:,.0f}"}


def factors_table():
    r"""YaRN's two factors, of Ministral 3 and of DeepSeek's models, as read from what they say."""
    rows = []
    for name in ("Ministral 3", "Mistral 4", "DeepSeek-V2", "DeepSeek-V3"):
        layer = readings()[name][0]
        told = [layer.rope.settings[key] for key in ("factor", "mscale", "mscale_all_dim")]
        scores = layer.scale * math.sqrt(layer.head_dim)
        rows.append([name, *(f"{x:g}" for x in told), f"{layer.attention_factor:.4f}", f"{scores:.4f}"])
    head = ["model", "`factor` $s$", "`mscale`", "`mscale_all_dim`", "on cosines and sines", "on the softmax scale"]
    return table(head, rows)


def changes(distance, factor=4.0, trained=32768, base=1e6, dim=128):
    r"""How far YaRN moves the score of a random query and key at a distance: by its frequencies, and with its factor.

    The root of the mean square of the change, as a share of that of the score; q and k have independent normal lanes.
    """
    frequencies, heat = scaling.yarn(dim, factor, trained=trained, base=base)
    moved = torch.cos((frequencies - ladder(dim, base)) * distance)
    return tuple((a**4 + 1 - 2 * a**2 * moved).mean().clamp(min=0).sqrt().item() for a in (1.0, heat))


def price_table():
    r"""What YaRN with s = 4 changes in scores at distances that training had."""
    rows = [[f"{d:,}", *(f"{100 * x:.1f}%" for x in changes(d))] for d in (0, 1, 16, 256, 1024, 4096, 32767)]
    assert changes(1)[0] < 0.01 and changes(0)[1] > 0.29
    return table(["distance", "frequencies alone", "frequencies and factor"], rows)
