r"""From a configuration, and the conventions of its model type, to a `Layer` for each layer."""

import functools
import json
import math
import re
from pathlib import Path

import torch

from ..encoding import Encoding
from ..errors import UnsupportedError, check_choice, check_int, check_number, shown
from ..rotate import scaling
from ..rotate.mrope import dealt
from ..rotate.rope import ladder
from .layers import Layer, Query, Rope, extent, groups, text

LIMIT = 2**31  # no size of a model and no length is larger
ABOUT = re.compile(r"rope|rotary|position|alibi|sliding|window|relative_att|_theta|yarn|ntk|mscale")
FULL, SLIDING, CHUNKED, LINEAR = "full_attention", "sliding_attention", "chunked_attention", "linear_attention"
LETTERS = {"F": FULL, "s": SLIDING, "c": CHUNKED, "L": LINEAR}  # of a pattern of kinds of layers
LEGACY = {"attention": FULL, "global": FULL, "local": SLIDING, "mamba": LINEAR, "conv": LINEAR}
EXTENDED, ORIGINAL = ("yarn", "longrope", "llama3"), "original_max_position_embeddings"  # they count turns in that


@functools.cache
def table():
    """What `types.json` holds, made from the code and the default configurations of transformers; it says of what."""
    return json.loads(Path(__file__).with_name("types.json").read_text("utf-8"))


class Keys:
    """What a configuration says, or the defaults of its type; `used` are those that something has asked for."""

    def __init__(self, given, defaults, pattern="{}"):
        self.given, self.defaults, self.pattern, self.used = given, defaults, pattern, {}

    def get(self, *names, kind=None, needed=False, length=None, most=LIMIT, **limits):
        r"""The value of the first of these names that is given, if by null, else of the first with a default, or None.

        kind: int, float, bool, str, list or dict: what it must be unless it is null. needed: whether null is refused.
        """
        places = [(source, name) for source in (self.given, self.defaults) for name in names if name in source]
        source, key = (places or [({}, names[0])])[0]
        self.used |= {name: where[name] for where, name in places if where is self.given or (where, name) == places[0]}
        value, name = source.get(key), self.pattern.format(key)
        if value is None and needed:
            raise ValueError(f"{name} is missing: position can't be read without it")
        if value is not None and kind is int:
            value = int(value) if isinstance(value, float) and value.is_integer() else value
            value = check_int(name, value, **{"minimum": 1} | limits)
            if value > most:
                raise ValueError(f"{name}={shown(value)} must be at most {most:,}")
        elif value is not None and kind is float:
            check_number(name, value, **limits)
        elif value is not None and kind and (not isinstance(value, kind) or (length and len(value) != length)):
            many = f" of {length} entries, one for each layer" * bool(length)
            raise TypeError(f"{name}={shown(value)} must be a {kind.__name__}{many}, got {type(value).__name__}")
        return value

    def ignored(self, meanings, quiet):
        """What is wrong, in words, with keys that say something and that nothing has asked for."""
        for key, value in self.given.items():
            name, silent = self.pattern.format(key), [None, False, "", "absolute", [], {}, self.defaults.get(key)]
            if key not in self.used | quiet and value not in silent and (value != 1 or value is True):
                if key in meanings:
                    yield f"{name}={shown(value)} is ignored: the code in transformers does not read it"
                elif ABOUT.search(name):
                    yield f"{name}={shown(value)} is not known here: nothing is guessed"


class Reading(list):
    """What `read` returns: a `Layer` for each layer, and `faults` in words. Printed, it is a page."""

    def __init__(self, model_type, config):
        self.model_type, self.table, row = model_type, table(), table()["types"][model_type]
        self.row, self.keys, self.faults, self.parameters = row, Keys(config, row["defaults"]), [], {}
        self.get, self.fault = self.keys.get, self.faults.append
        for size, (names, most) in self.table["sizes"].items():  # count, heads, width
            setattr(self, size, self.get(*names, kind=int, needed=True, most=most))
        self.trained = self.get("max_position_embeddings", "n_positions", "max_seq_len", kind=int)
        head = self.get("head_dim", "d_kv", "kv_channels", kind=int) if row.get("head") != "width" else None
        self.head_dim = head or Keys({"head_dim": self.width // self.heads}, {}).get("head_dim", kind=int)
        if row.get("lanes") == "last":
            self.head_dim = sum(self.get(f"qk_{part}_head_dim", kind=int, needed=True) for part in ("nope", "rope"))
        for key in ("use_bidirectional_attention", "rotary_value"):
            if self.get(key):
                raise UnsupportedError(f"{key}={shown(self.get(key))} is not read: other windows, or values that turn")
        self.method = "alibi" if row.get("alibi") and self.get("alibi", kind=bool) else row.get("method", "rope")
        self.both = bool(row.get("both")) and not self.get("is_decoder", kind=bool)
        self.window, self.turns = self.window_of(), self.turns_of()
        self += [self.layer(index, kind) for index, kind in enumerate(self.kinds_of())]
        if self.method == "t5":
            first = self[0]._replace(stack="decoder", bias=self[0].bias | {"bidirectional": False})
            decoder = [first._replace(index=i) for i in range(self.get("num_decoder_layers", kind=int) or self.count)]
            self[:] = [one._replace(stack="encoder", causal=False) for one in self] + decoder
        for told, what in ((self.keys, "keys"), *((told, "parameters") for told in self.parameters.values())):
            self.faults += told.ignored(self.table[what], dict.fromkeys(self.table["quiet"]))
        self.faults = list(dict.fromkeys(self.faults))

    def __str__(self):
        return text(self)

    def encoding(self, layer: int) -> Encoding:
        r"""The `Encoding` that computes what a layer does with position, for q and k of its heads.

        `posenc.attention` is also given its window, mask=reading[layer].visible(length), and its scale. Tables, sinks
        and T5's biases are parameters to fill. Positions are tokens; three ids for M-RoPE; (row, column) in patches
        for Pixtral, and from -1 to 1 over the picture for DINOv3. UnsupportedError for a layer without softmax.
        Lanes are paired as in the weights; where `reordered`, q and k are those before the library's code brings pairs
        into halves. Falcon's slopes are exact here, and bfloat16 there.
        """
        return self[layer].encoding()

    def at(self, length: int) -> list:
        """What follows in a text of so many tokens, an `Extent` for each kind of layer."""
        Keys({"length": length}, {}).get("length", kind=int)
        return [extent(group, length, self.table["words"]) for group in groups(self)]

    def window_of(self):
        """What a window is said to be, or None where there is none."""
        window = self.get("sliding_window", "window_size", kind=int, minimum=0) if "window" in self.row else None
        if window is None and self.row.get("local"):
            window = self.get("local_attention", kind=int, needed=True) // 2
        if self.row.get("gate") and not self.get("use_sliding_window", kind=bool):
            if window and "sliding_window" in self.keys.given:
                self.fault(f"sliding_window={window} is not in force: use_sliding_window is not true")
            return None
        return window or None

    def turns_of(self):
        """Of each layer, whether it turns (or its base), by a list of the configuration; None where there is none."""
        rule = self.row.get("nope")
        if rule in ("no_rope_layers", "layer_rope_theta") and self.get(rule):
            return self.get(rule, kind=list, length=self.count)
        step = self.get("no_rope_layer_interval", kind=int, needed=True) if rule == "no_rope_layers" else None
        return step and [(i + 1) % step for i in range(self.count)]

    def kinds_of(self):
        """The kind of each layer, given or by the pattern of the model type."""
        row, count, pattern = self.row, self.count, self.row.get("pattern", "F")
        names = ("layer_types", "layers_block_type", "attention_layers")
        given = self.get(*names, kind=list, length=count) if "pattern" in row else None
        if given is None and (blocks := self.get("attention_types", kind=list)):  # GPT-Neo: [[["global", "local"], 12]]
            given = [kind for block in blocks if isinstance(block, list) for kind in block[0] * block[-1]]
            check_choice("attention_types: layers named", f"{len(given)}", [f"{count}"])
        if given is not None:
            kinds = [LEGACY.get(kind, kind) if isinstance(kind, str) else kind for kind in given]
            for kind in kinds:
                check_choice("layer_types", kind, [FULL, *(LETTERS[letter] for letter in row["known"])])
            return kinds[:-1] + [FULL if row.get("ends") == [-1] else kinds[-1]]
        if step := self.get(*row["every"], kind=int, minimum=0) if "every" in row else 0:
            pattern = "F" + pattern[-1] * (step - 1) if pattern[0] == "F" else pattern[0] * (step - 1) + "F"
        letters = [pattern[i % len(pattern)] for i in range(count)]
        if "from" in row:
            first, even = self.get("max_window_layers", kind=int, minimum=0, needed=True), row["from"] == "even"
            letters = ["s" if (i < first and i % 2 == 0 if even else i >= first) else "F" for i in range(count)]
            if self.window and "s" not in letters and "sliding_window" in self.keys.given:
                self.fault(f"sliding_window={self.window} is not in force: max_window_layers={first} leaves no layer")
        elif "by_turns" in row:
            letters = [pattern[bool(turns)] for turns in self.turns]
        elif full := self.get("full_attn_idxs", kind=list):
            letters = ["F" if i in full else "L" for i in range(count)]
        for end in row.get("ends", ()):
            letters[end] = "F"
        return [FULL if letter == "s" and self.window is None else LETTERS[letter] for letter in letters]

    def layer(self, index, kind):
        row, rule, head = self.row, self.row.get("nope"), self.head_dim
        if kind == LINEAR:
            return Layer(index, kind, "linear")
        if kind == FULL and "global_head" in row:
            each = [*(self.get("per_layer_config", kind=dict) or {}).values()]  # {"05": {"head_dim": 512}}
            head = each[0].get("head_dim") if each else self.get("global_head_dim", kind=int) or row["global_head"]
        scale = row.get("scale", head**-0.5)
        if isinstance(scale, list):
            value = self.get(scale[0], kind=float, above=0)
            scale = value ** scale[1] if value else head**-0.5
        windowed = bool(self.window) and (kind == SLIDING or row["window"] == "all")
        turns = bool(self.turns[index]) if self.turns else True
        if rule == "full" or (rule == "full_if_window" and self.window):
            turns = windowed
        elif rule == "position_embedding_type":
            check_choice(rule, self.get(rule) or "nope", ("rope", "nope"))
            turns = self.get(rule) == "rope"
        layer = Layer(
            index, kind, num_heads=self.heads, head_dim=head, scale=scale, causal=not self.both, trained=self.trained,
            window=(2 * self.window + 1 if self.both else self.window) if windowed else None,
            chunk=self.get("attention_chunk_size", kind=int) if kind == CHUNKED else None, query=self.query_of(turns),
            sink=row.get("sink") == "all" or (row.get("sink") == "windows" and windowed),
        )  # fmt: skip
        return getattr(self, f"as_{self.method}")(layer) if turns else layer

    def query_of(self, turns):
        rule, above = self.row.get("query"), {"kind": float, "above": 0, "needed": True}
        if rule == "floor_scale" and not turns and self.get("attn_temperature_tuning"):
            return Query(self.get("attn_scale", **above), self.get("floor_scale", **above), 1)
        beta = self.told(FULL).get("llama_4_scaling_beta", kind=float, minimum=0) if rule == "beta" else None
        return Query(beta, self.told(FULL).get(ORIGINAL, **above)) if beta else None

    def told(self, kind):
        """The Keys of rope_parameters for a kind of layer, with what stands outside of them as defaults."""
        row, theta = self.row, self.row["theta"]
        nested, key = isinstance(theta, dict), row.get("theta_key", "rope_theta")
        if (kind := kind if nested else None) not in self.parameters:
            given, older = (self.get(name, kind=dict) for name in ("rope_parameters", "rope_scaling"))
            if given and nested != isinstance(given.get(FULL, given.get(SLIDING)), dict):
                each = f"for {FULL} and {SLIDING} each" if nested else "of all layers: the code has no others"
                raise ValueError(f"rope_parameters={shown(given)} must be those {each}")
            told, pattern = given or row.get("rope", {}), "rope_parameters[{!r}]"
            if nested:
                told, pattern = told.get(kind) or {"rope_type": "default"}, f"rope_parameters[{kind!r}][{{!r}}]"
                theta, key = theta[kind], key[kind] if isinstance(key, dict) else key
            if older and (not nested or kind in row.get("scaled", ())):
                told, pattern = (told | older if nested else older), "rope_scaling[{!r}]"
            outer = {"rope_theta": self.get(key, "rope_theta", kind=float, above=1) if key else None}
            if "partial" in row:
                names = ["partial_rotary_factor", *row.get("partial_key", ())]
                outer["partial_rotary_factor"] = self.get(*names, kind=float, above=0) or row["partial"]
            told = {name: value for name, value in told.items() if value is not None}
            if not nested and (original := self.get(ORIGINAL, kind=int)):
                told[ORIGINAL] = original
            outer |= {"rope_theta": outer["rope_theta"] or theta, "type": told.get("rope_type")}
            self.parameters[kind] = Keys(told, outer, pattern)
        return self.parameters[kind]

    def as_rope(self, layer):
        row = self.row
        told = Keys({}, {"rope_theta": row["theta"]}) if row.get("fixed") else self.told(layer.kind)
        name = told.get("rope_type", kind=str) or told.get("type", kind=str) or "default"
        name = row.get("types", {}).get(name, name)
        check_choice("rope_type", name, self.table["schemes"])
        base, (lanes, dim, where) = told.get("rope_theta", kind=float, above=1), self.lanes_of(told, layer, name)
        if row.get("nope") == "layer_rope_theta" and self.turns:
            base = check_number(f"layer_rope_theta[{layer.index}]", self.turns[layer.index], above=1)
        trained, settings = self.settings_of(told, name)
        if name == "dynamic" and "alpha" in row and (alpha := told.get("alpha", kind=float, minimum=1)):
            name, settings = "ntk", {"factor": alpha}
        how = Rope(name, dim, base, trained, settings, lanes)
        kept = row.get("interleave") and not self.get("rope_interleave", kind=bool)
        layout, (frequencies, factor) = "half" if kept else row.get("layout", "half"), how.at(1)
        weight = told.get("mscale_all_dim", kind=float) if row.get("mscale") and name != "default" else None
        return layer._replace(
            method="rope", place="rotate", lanes=where, rotary_dim=lanes, layout=layout, rope=how,
            scale=layer.scale * scaling.get_mscale(settings["factor"], weight) ** 2 if weight else layer.scale,
            inv_freq=frequencies, attention_factor=factor, direction=row.get("direction", 1),
            reordered=bool(row.get("reordered")) and layout == "interleaved",
            trained=trained if name in EXTENDED else self.trained,
        )  # fmt: skip

    def lanes_of(self, told, layer, scheme):
        """How many lanes turn, of how many lanes the frequencies are made, and which lanes turn."""
        row, head, spread = self.row, layer.head_dim, scheme == "proportional"
        exact = self.get("rotary_dim", kind=int, needed=True) if "rotary_dim" in row else head
        if "partial" in row or "lanes" in row or spread:
            exact = head * (told.get("partial_rotary_factor", kind=float, above=0) or 1.0)
        if "lanes" in row:  # latent attention
            return *(self.get("qk_rope_head_dim", kind=int),) * 2, "last"
        lanes = 2 * int(exact / 2) if spread else int(exact)
        if abs(lanes - exact) > 1e-6 * head:
            self.fault(f"a part of {exact / head:.6g} of {head} lanes is {exact:.6g}: the code turns {lanes}")
        if lanes < 2 or lanes % 2 or lanes > head:
            raise ValueError(f"{lanes} lanes of head_dim={head} can't turn: an even number of them, at least 2, can")
        return lanes, head if spread else lanes, "all" if lanes == head else "spread" if spread else "first"

    def settings_of(self, told, name):
        """(the length that a scheme counts turns in, its settings by posenc's names)."""
        settings, trained, original = {}, self.trained or 1, told.get(ORIGINAL, kind=int)
        for ours, (key, needed, default) in self.table["schemes"][name].items():
            value = (
                told.get(key, kind=float, needed=needed, **{"minimum" if "mscale" in key else "above": 0}) or default
            )
            settings |= {} if value is None else {ours: value}
        if name == "llama3" and settings["low"] == settings["high"]:
            settings["high"] *= 1 + 1e-9  # a step, as in Llama 4's files
        if name in EXTENDED:
            trained = original or trained
            if not original:
                self.fault(f"{name} without {ORIGINAL}: the code counts turns in all {trained} tokens")
            ratio = (self.trained or trained) / trained
            if settings.setdefault("factor", max(ratio, 1.0)) != ratio != 1 and name == "yarn":
                self.fault(f"factor={settings['factor']:g} is in force, though the length is {ratio:g} times {trained}")
        elif name == "dynamic" and (original or trained) < trained:
            self.fault(f"dynamic is static up to max_position_embeddings={trained}: frequencies change only beyond")
        for ours in ("short", "long") if name == "longrope" else ():
            entries = told.get(f"{ours}_factor", kind=list, needed=True)
            settings[ours] = [float(check_number(f"{ours}_factor[{i}]", x, above=0)) for i, x in enumerate(entries)]
        if name == "yarn":
            settings["truncate"] = isinstance(self.row["theta"], dict) or told.get("truncate") is not False
            if settings["truncate"] and told.get("truncate") is False:
                self.fault("truncate=false is ignored: the code looks for it outside of the settings of a layer type")
            scales = [key for key in ("mscale", "mscale_all_dim") if key in settings]
            if len(scales) == 1:
                self.fault(f"{scales[0]} alone leaves the factor on cosines at 0.1 ln s + 1: it takes both mscales")
            if self.row.get("mscale") and "mscale_all_dim" not in settings:
                self.fault("mscale_all_dim is missing, by which DeepSeek's code scales scores up: here it does not")
            if len(scales) < 2 or "attention_factor" in settings:
                settings = {key: value for key, value in settings.items() if key not in scales}
        return trained, settings

    def as_mrope(self, layer):
        layer, told, turns = self.as_rope(layer), self.told(layer.kind), self.row["interleaved"]
        sections = told.get("mrope_section", kind=list, needed="sections" not in self.row) or self.row["sections"]
        dealt(layer.rope.dim, sections, layer.rope.base, turns)  # whether they add up
        return layer._replace(method="mrope", sections=tuple(sections), interleaved=turns)

    def as_rope2d(self, layer):
        """RoPE along rows and columns, each axis with half of the pairs."""
        head, base = layer.head_dim, self.told(layer.kind).get("rope_theta", kind=float, above=1)
        pairs = ladder(head, base).unflatten(0, (-1, 2)).unbind(-1)
        rows, columns = pairs if self.row["axes"] == "dealt" else (ladder(head // 2, base),) * 2
        both = torch.block_diag(rows, columns) * (2 * math.pi if self.row["axes"] == "turns" else 1)  # [2, D/2]
        told = {"method": "rope2d", "place": "rotate", "lanes": "all", "rotary_dim": head, "layout": "half"}
        return layer._replace(inv_freq=both, rope=Rope("default", head, base, 1, {}, head), **told)

    def as_alibi(self, layer):
        bias = {"factor": layer.head_dim**-0.5 if self.row.get("alibi") == "scaled" else 1.0}
        return layer._replace(method="alibi", place="bias", bias=bias)

    def as_t5(self, layer):
        bias = {n: self.get(f"relative_attention_{n}", kind=int, needed=True) for n in ("num_buckets", "max_distance")}
        return layer._replace(method="t5", place="bias", bias=bias | {"bidirectional": True})

    def as_learned(self, layer):
        inside = self.row.get("offset") == "pad"  # rows that the length counts, too
        offset = self.get("pad_token_id", kind=int, minimum=0) + 1 if inside else self.row.get("offset", 0)
        width = self.get("embedding_size", kind=int) if "embed" in self.row else self.width
        embed = self.trained - offset * inside, width
        return layer._replace(method="learned", place="embed", embed=embed, offset=offset, trained=embed[0])
