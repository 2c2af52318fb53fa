r"""What a model's config.json says about position, and an `Encoding` that computes the same.

    model = posenc.configs.read("config.json")
    print(model)               # a page: layers, keys, faults
    print(model.at(131072))    # and what follows at that length
    model.encoding(3)          # what the fourth layer does, for posenc.attention
    model.visible(3, 512)      # and what it sees, a mask for posenc.attention

`python -m posenc.configs config.json --length 131072` prints the same page. `posenc.configs.models.MODELS` says what
the code of transformers 5.15 makes of each model type's keys: where a paper says otherwise, the code counts.
"""

import functools
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from ..bias.alibi import alibi
from ..bias.inkling import inkling
from ..bias.t5 import t5
from ..bias.transformer_xl import transformer_xl
from ..embed.learned import learned
from ..embed.sinusoidal import sinusoidal
from ..encoding import Encoding, compose
from ..errors import UnsupportedError, check_int, nearest, shown
from ..rotate.mrope import AXES, dealt
from ..rotate.rope import Rotary, rope
from ..rotate.rope2d import Rotary2d
from ..rotate.scaling import DynamicRotary
from ..weigh.sink import sink
from .keys import MEANINGS, MOST, POSITIONAL, Keys
from .layers import Layer, layers_of
from .models import MODELS, NOT_READ, OTHERS
from .turning import scheme


class Unseen(NamedTuple):
    r"""What a layer meets at a length and did not meet in training, as far as the file tells the trained length.

    pairs: how many pairs of lanes turn. unturned: of these, those that never finished a turn in training. beyond: of
    these, those that reach angles at this length which training did not have. scores: share of (query, key) pairs
    that are farther apart than any in training, of all that the layer sees. rows: positions without a row in the table.
    """

    pairs: int
    unturned: int
    beyond: int
    scores: float
    rows: int


@dataclass(frozen=True)
class Reading:
    r"""What `read` returns; printing it shows a page.

    model_type: whose code it is. layers: a `Layer` each. keys: {name in the file: (value, meaning)} of those read.
    unread: names of the others. faults: what is missing, contradicts or is not read, a sentence each. length: of `at`.
    """

    model_type: str
    layers: tuple[Layer, ...]
    keys: dict
    unread: tuple[str, ...]
    faults: tuple[str, ...]
    length: int | None = None

    def encoding(self, layer: int) -> Encoding:
        r"""What this layer does about position, as an `Encoding`; learned parts start at random, to be loaded.

        What is added to the embeddings (GPT-2, BERT) is the same in each layer's: `posenc.embed_input` adds it once.
        Windows are no part of it: give `visible` as mask.
        Errors: IndexError, TypeError for the layer; UnsupportedError for one without softmax.
        Chapter: Position in practice.
        """
        return encoding_of(self.layer(layer))

    def visible(self, layer: int, length: int) -> torch.Tensor:
        r"""Which keys each of `length` queries sees, bool [T, T], causality included.

        Errors: IndexError, TypeError, ValueError naming the argument; UnsupportedError for a layer without softmax.
        Chapter: Position in practice.
        """
        row, length = self.layer(layer), check_int("length", length)
        if row.place is None and row.method == "linear":
            raise UnsupportedError(f"layer={layer} is {row.kind}: it has no scores, so nothing to mask")
        index = torch.arange(length, device="cpu")
        distance = index[:, None] - index
        seen = distance >= 0 if row.causal else torch.ones(length, length, dtype=torch.bool, device="cpu")
        if row.window is not None:
            seen &= distance.abs() < row.window
        if row.chunk is not None:
            seen &= index[:, None] // row.chunk == index // row.chunk
        return seen

    def at(self, length: int) -> "Reading":
        r"""The same with a length in tokens to look at: its page says what is unseen there, `unseen` tells the numbers.

        Errors: TypeError, ValueError naming the argument.
        Chapter: Position in practice.
        """
        length = check_int("length", length)
        if length > MOST["length"]:
            raise ValueError(f"length={shown(length)} must be at most {MOST['length']}")
        return replace(self, length=length)

    def unseen(self, layer: int) -> Unseen | None:
        r"""What this layer has not met in training at the length of `at`; None where the file tells no trained length.

        A window bounds distances in training too. Errors: IndexError, TypeError for the layer; ValueError before `at`.
        """
        row = self.layer(layer)
        if self.length is None:
            raise ValueError("length=None: say at which length, reading.at(131072).unseen(layer)")
        if row.trained is None or row.method == "linear":
            return None
        span = row.window or row.chunk or math.inf
        trained, reach = min(row.trained, span), min(self.length, span)  # tokens that a query sees, itself included
        turned = [abs(w) * (trained - 1) < 2 * math.pi for w in row.plain]
        frequencies = frequencies_at(row, self.length)
        far = [
            slow and abs(w) * (reach - 1) > abs(v) * (trained - 1) for slow, w, v in zip(turned, frequencies, row.plain)
        ]
        rows = max(self.length - row.rows, 0) if row.rows is not None else 0
        scores = 1 - pairs_within(row, self.length, trained) / pairs_within(row, self.length, span)
        moving = [w != 0 for w in row.plain]
        count = [sum(a and m for a, m in zip(these, moving)) for these in (moving, turned, far)]
        return Unseen(*count, scores, rows)

    def layer(self, index):
        index = check_int("layer", index, minimum=-len(self.layers))
        if index >= len(self.layers):
            raise IndexError(f"layer={index} must be below {len(self.layers)}, the number of layers")
        return self.layers[index]

    def __str__(self):
        lines = [f"{self.model_type}, {len(self.layers)} layers", ""]
        for rows in grouped(self.layers):
            lines += [f"{which(rows)}: {words(rows[0])}"]
        if self.length is not None:
            lines += ["", f"At {self.length:,} tokens"]
            for rows in grouped(self.layers):
                lines += [f"  {which(rows)}: {unseen_words(rows[0], self.unseen(rows[0].index))}"]
        lines += ["", "Keys"]
        lines += [f"  {name} = {shown(value, 60)}: {meaning}" for name, (value, meaning) in self.keys.items()]
        lines += ["", "Faults"] + [f"  {fault}" for fault in self.faults or ["none that this module knows"]]
        if self.unread:
            lines += ["", f"Not read, as they say nothing about position or nothing known: {', '.join(self.unread)}"]
        return "\n".join(lines)


def pairs_within(row, length, reach):
    """How many (query, key) pairs with |i - j| < reach a layer has that sees no farther."""

    def pairs(n):
        near = min(n, reach)
        causal = near * (near + 1) // 2 + (n - near) * near
        return causal if row.causal else 2 * causal - n

    chunk = row.chunk or length
    return length // chunk * pairs(chunk) + pairs(length % chunk)


def grouped(layers):
    """Layers that differ in their index alone, together."""
    groups = {}
    for layer in layers:
        groups.setdefault(repr(layer._replace(index=0)), []).append(layer)
    return list(groups.values())


def which(rows):
    """Which layers these are: "layers 0-2, 4-6"."""
    runs = []
    for index in (row.index for row in rows):
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    text = ", ".join(f"{first}-{last}" if first != last else f"{first}" for first, last in runs)
    return f"{'layers' if len(rows) > 1 else 'layer'} {text}{' of the ' + rows[0].stack if rows[0].stack else ''}"


TITLES = {
    "rope": "RoPE",
    "mrope": "M-RoPE",
    "alibi": "ALiBi",
    "t5": "T5's buckets",
    "learned": "a learned table, added to the embeddings",
    "sinusoidal": "sinusoids, all sines then all cosines, added to the embeddings",
    "transformer_xl": "Transformer-XL's four terms",
    "inkling": "a bias that each query mixes from curves over distance",
    "nope": "no position (NoPE)",
    "linear": "no softmax, so none of the four places: order comes from the recurrence",
}


def words(row):
    """A layer in words."""
    parts = [TITLES[row.method]]
    if row.lanes:
        pairs = "(2i, 2i + 1)" if row.layout == "interleaved" else "halves"
        parts += [row.partial or f"all {row.head_dim} lanes", f"pairs {pairs}", f"base {row.base:g}"]
        numbers = ", ".join(f"{name} {shown(value, 40)}" for name, value in row.settings.items() if name != "trained")
        parts += [f"{row.scaling} scaling ({numbers})"] if row.scaling not in ("default", "proportional") else []
        parts += [f"cos and sin times {row.attention_factor:.4g}"] if row.attention_factor != 1 else []
    if row.sections:
        parts.append(f"sections {list(row.sections)} {'dealt in turn' if row.interleaved else 'in blocks'}")
    parts += [f"{row.buckets[0]} buckets to distance {row.buckets[1]}"] if row.buckets else []
    parts += [f"{row.rows:,} rows"] if row.rows is not None else []
    parts += [f"a window of {row.window:,}{'' if row.causal else ' either way'}"] if row.window else []
    parts += [f"chunks of {row.chunk:,}"] if row.chunk else []
    parts += ["a sink"] if row.sink else []
    parts += [f"queries grow with log(1 + position / {row.temperature[1]:g})"] if row.temperature else []
    return "; ".join([*parts, *([row.note] if row.note else [])])


def unseen_words(row, unseen):
    if row.method == "linear":
        return "no scores"
    if unseen is None:
        return "the file tells no trained length"
    parts = [f"{unseen.scores:.0%} of scores at distances beyond the {row.trained:,} tokens of training"]
    if row.lanes:
        unturned = f"{unseen.unturned} of {unseen.pairs} pairs never turned fully in training"
        parts.append(f"{unturned}, {unseen.beyond} of them at unseen angles")
    parts += [f"{unseen.rows:,} positions without a row: refused"] if unseen.rows else []
    return "; ".join(parts)


class Turned(nn.Module):
    """The `rotate` callable of what `rope` alone does not say: some lanes turn, and queries may grow with position."""

    def __init__(self, turning, lanes, factor, temperature):
        super().__init__()
        self.turning, self.lanes, self.factor, self.temperature = turning, lanes, factor, temperature

    def forward(self, q, k, at):
        if self.turning is not None:
            first, last = self.lanes
            turned = self.turning(q[..., first:last], k[..., first:last], at)
            q, k = (
                torch.cat((x[..., :first], self.factor * lanes, x[..., last:]), dim=-1)
                for x, lanes in zip((q, k), turned)
            )
        if self.temperature is not None:
            grow, every, shift = self.temperature
            growth = 1 + grow * torch.log1p(((at.pos_q + shift) / every).floor())
            q = q * growth[:, None, :, None].to(q.dtype)
        return q, k


def frequencies_at(row, length):
    """A layer's frequencies when the text has this length."""
    if row.scaling not in ("dynamic", "longrope"):
        return row.inv_freq
    return tuple(schemes(row)(length=length)[0].tolist())


def schemes(row):
    """A layer's frequencies as a function of the length, for `posenc.scaling.dynamic`."""
    p = row.lanes[1] - row.lanes[0]
    return functools.partial(scheme, row.scaling, p, row.head_dim, row.base, row.settings)


def encoding_of(row):
    """The `Encoding` of a `Layer`."""
    if row.method == "linear":
        raise UnsupportedError(f"layer={row.index} is {row.kind}: it has no softmax, so none of posenc's four places")
    parts = [sink(row.heads)] if row.sink else []
    turning, factor = None, 1.0
    if row.sections:
        inv_freq = torch.tensor(row.inv_freq, dtype=torch.float64, device="cpu")
        owned = dealt(2 * len(inv_freq), row.sections, row.base, row.interleaved) > 0
        turning, factor = Rotary2d(inv_freq * owned, row.layout), row.attention_factor
    elif row.scaling in ("dynamic", "longrope"):
        turning = DynamicRotary(schemes(row), row.layout)
    elif row.lanes:
        inv_freq = torch.tensor(row.inv_freq, dtype=torch.float64, device="cpu")
        turning = Rotary(inv_freq, row.layout, row.attention_factor)
    if isinstance(turning, Rotary) and row.lanes[0] == 0 and row.temperature is None:
        options = dict(inv_freq=inv_freq, attention_factor=row.attention_factor)
        parts.append(rope(row.head_dim, layout=row.layout, **options))
    elif turning is not None or row.temperature is not None:
        turned = Turned(turning, row.lanes, factor, row.temperature)
        parts.append(Encoding(rotate=turned, axes=AXES if row.sections else None, head_dim=row.head_dim))
    elif row.method == "alibi":
        parts.append(alibi(row.heads, symmetric=not row.causal))
        parts[-1].bias.slopes = row.slope_scale * parts[-1].bias.slopes
    elif row.method == "t5":
        parts.append(
            t5(row.heads, num_buckets=row.buckets[0], max_distance=row.buckets[1], bidirectional=not row.causal)
        )
    elif row.method == "learned":
        parts.append(learned(row.rows, row.dim))
    elif row.method == "sinusoidal":
        parts.append(sinusoidal(layout="concatenated"))
    elif row.method == "transformer_xl":
        parts.append(transformer_xl(row.heads, row.head_dim, row.dim))
    elif row.method == "inkling":
        parts.append(inkling(row.buckets[1], num_curves=row.buckets[0]))
    return compose(*parts)


def read(config: dict | str | Path | object) -> Reading:
    r"""Read what a configuration says about position, layer by layer, as transformers' code would act on it.

    Arguments:
        config: a dict, the path of a config.json, or a configuration object of transformers (what has `to_dict`). Keys
            by their old or new names. Of a model with pictures or sound the part of the text is read.
    Returns: a `Reading`.
    Errors: TypeError, ValueError naming the argument, the key and its value; UnsupportedError for a model type that is
        not in `posenc.configs.models.MODELS`, with the reason where it is known.
    Convention: a missing key has the value that transformers gives it, a missing size is an error.
    Chapter: Position in practice.
    """
    raw = opened(config)
    if isinstance(raw.get("text_config"), dict):
        text = raw["text_config"]
        raw = {"model_type": OTHERS.get(raw.get("model_type"), raw.get("model_type"))} | text
    model_type = raw.get("model_type")
    if not isinstance(model_type, str):
        raise ValueError(f"model_type={shown(model_type)} must be a model type of transformers, such as 'llama'")
    model_type = OTHERS.get(model_type, model_type)
    if model_type not in MODELS:
        reason = NOT_READ.get(model_type, f"this module knows {len(MODELS)} types, and guesses none")
        raise UnsupportedError(f"model_type={shown(model_type)} is not read: {reason}.{nearest(model_type, MODELS)}")
    keys, spec = Keys(raw | {"model_type": model_type}), MODELS[model_type]
    stacks = (
        [("encoder", spec.method[0]), ("decoder", spec.method[1])] if isinstance(spec.method, tuple) else [("", "")]
    )
    layers = []
    for stack, method in stacks:
        own = spec._replace(method=method or spec.method, causal=spec.causal and stack != "encoder")
        layers += layers_of(keys, own, stack, len(layers))
    for name, value in keys.unread().items():
        if any(word in name for word in POSITIONAL) and value not in (False, {}, []):
            keys.fault(f"{name}={shown(value, 40)} looks as if it were about position: it is not read for {model_type}")
    known = {
        name: (keys.values[key], MEANINGS.get(key, "read")) for key, name in keys.names.items() if key in keys.read
    }
    return Reading(model_type, tuple(layers), known, tuple(keys.unread()), tuple(keys.faults))


def opened(config):
    """The dict of a configuration, from wherever it is."""
    if isinstance(config, dict):
        return config
    if isinstance(config, str | Path):
        path = Path(config)
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError, OSError) as error:
            words = "is a folder" if isinstance(error, IsADirectoryError) else "can't be read"
            raise ValueError(
                f"config={shown(str(config))} {words}: give the path of a config.json, or a dict"
            ) from None
        except RecursionError:
            raise ValueError(f"config={shown(str(config))} is nested too deeply to be a config.json") from None
        except ValueError as error:
            raise ValueError(
                f"config={shown(str(config))} is no JSON ({error}): give the path of a config.json"
            ) from None
        if not isinstance(raw, dict):
            raise TypeError(f"config={shown(str(config))} holds a {type(raw).__name__}, it must hold an object {{...}}")
        return raw
    if callable(getattr(config, "to_dict", None)):
        return config.to_dict()
    raise TypeError(
        f"config={shown(config)} must be a dict, the path of a config.json or a configuration of transformers, "
        f"got {type(config).__name__}"
    )
