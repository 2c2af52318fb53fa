r"""The keys of a configuration under one name each: their aliases, what they mean, and what is odd about them."""

import functools
import math

from ..errors import check_bool, check_int, check_number, shown

MOST = {"size": 2**20, "length": 2**40, "layers": 2000, "head": 2**14}  # beyond these a number is taken for a slip
ALIASES = {
    **dict.fromkeys(("n_embd", "d_model", "dim", "n_embed"), "hidden_size"),
    **dict.fromkeys(("n_layer", "n_layers", "num_layers", "encoder_layers"), "num_hidden_layers"),
    **dict.fromkeys(("n_head", "n_heads", "num_heads", "encoder_attention_heads"), "num_attention_heads"),
    **dict.fromkeys(("n_positions", "max_seq_len", "model_max_length"), "max_position_embeddings"),
    **dict.fromkeys(("d_kv", "d_head"), "head_dim"),
    "decoder_layers": "num_decoder_layers",
    "rotary_emb_base": "rope_theta",
    "rotary_pct": "partial_rotary_factor",
    "_sliding_window_pattern": "sliding_window_pattern",
}
MEANINGS = {
    "model_type": "whose code reads the rest",
    "hidden_size": "C, the width of the model",
    "num_hidden_layers": "how many layers",
    "num_decoder_layers": "how many of them in the decoder",
    "num_attention_heads": "H, heads of queries",
    "decoder_attention_heads": "the decoder's heads",
    "swa_num_attention_heads": "H in window layers",
    "head_dim": "D, lanes of a head",
    "swa_head_dim": "D in window layers",
    "qk_nope_head_dim": "lanes of a head that don't turn",
    "qk_rope_head_dim": "lanes of a head that turn, behind the others",
    "max_position_embeddings": "the length that is promised, in tokens; of a learned table, its rows",
    "max_source_positions": "the encoder's length",
    "max_target_positions": "rows of the decoder's table",
    "rope_theta": "base of the frequencies",
    "rope_local_base_freq": "base in window layers",
    "global_rope_theta": "base in full layers",
    "local_rope_theta": "base in window layers",
    "compress_rope_theta": "base in layers with compressed keys",
    "rope_parameters": "RoPE's numbers",
    "rope_scaling": "RoPE's numbers, under their old name",
    "partial_rotary_factor": "the share of a head's lanes that turn",
    "rotary_dim": "how many lanes of a head turn",
    "original_max_position_embeddings": "the length before scaling",
    "layer_types": "what each layer is",
    "sliding_window": "how many keys a window layer sees, its own among them",
    "sliding_window_size": "how many keys a window layer sees; what its bias knows of distance",
    "window_size": "how many keys a local layer sees",
    "local_attention": "width of the window, half to either side",
    "attention_chunk_size": "length of the chunks outside of which a layer sees nothing",
    "use_sliding_window": "whether there are windows at all",
    "max_window_layers": "the first layer with a window",
    "no_rope_layers": "1 for each layer that rotates, 0 for one that doesn't",
    "layer_rope_theta": "a base for each layer, 0 for none",
    "alibi": "ALiBi in place of RoPE",
    "relative_attention_num_buckets": "buckets of T5's bias",
    "relative_attention_max_distance": "from there on offsets share a bucket",
    "d_rel": "how many curves over distance the heads share",
    "rel_extent": "how far the curves of full layers know distance",
    "pad_token_id": "positions are counted from one past it",
    "position_embedding_type": "which method",
    "attn_temperature_tuning": "whether queries of layers without rotation grow with their position",
}
POSITIONAL = "rope rotary position window sliding alibi chunk_size relative yarn layer_types".split()


class Keys:
    """The keys of a file under one name each; remembers which were read, and what is odd about them."""

    def __init__(self, raw):
        self.values, self.names, self.read, self.faults = {}, {}, {"model_type"}, []
        self.nulls = {ALIASES.get(name, name) for name, value in raw.items() if value is None}
        for name, value in sorted(raw.items(), key=lambda item: item[0] in ALIASES):  # a key's own name comes first
            key = ALIASES.get(name, name)
            if value is not None and self.values.setdefault(key, value) != value:
                self.fault(
                    f"{name}={shown(value)} and {self.names[key]}={shown(self.values[key])} should be one number"
                )
            if value is not None:
                self.names.setdefault(key, name)

    def fault(self, words):
        if words not in self.faults:
            self.faults.append(words)

    def get(self, key, default=None):
        self.read.add(key)
        return self.values.get(key, default)

    def checked(self, key, default, check, most):
        value = self.get(key, default)
        name = self.names.get(key, key)
        if value is None:
            raise ValueError(f"{name} is missing from the configuration, and nothing here is guessed: add {name}")
        value = check(name, value)
        if value > most:
            raise ValueError(f"{name}={shown(value)} must be at most {most}")
        return value

    def whole(self, key, default=None, minimum=1, most=MOST["size"]):
        return self.checked(key, default, functools.partial(check_int, minimum=minimum), most)

    def number(self, key, default=None):
        return self.checked(key, default, functools.partial(check_number, above=0), math.inf)

    def window(self, key, default):
        """The tokens under a key, or None: null in a file is no window, a missing key the default."""
        default = None if key in self.nulls else default
        return self.get(key, default) and self.whole(key, default, most=MOST["length"])

    def length(self, key="max_position_embeddings"):
        """The tokens under a key, or None."""
        return self.window(key, None)

    def flag(self, key, default=False):
        value = self.get(key, default)
        check_bool(key, value)
        return value

    def list_for(self, key, n):
        """The list of n entries under a key, or None."""
        value = self.get(key)
        if value is not None and (not isinstance(value, list | tuple) or len(value) < n):
            raise ValueError(f"{key}={shown(value)} must be a list with an entry for each of {n} layers")
        if value is not None and len(value) > n:
            self.fault(f"{key} has {len(value)} entries for {n} layers: the last are not read")
        return value and list(value[:n])

    def turning(self, n):
        """Whether each layer rotates, by no_rope_layers."""
        listed = self.list_for("no_rope_layers", n)
        if listed:
            if not all(isinstance(turns, int) for turns in listed):
                raise ValueError(
                    f"no_rope_layers={shown(listed)} must hold 1 for a layer that rotates and 0 for others"
                )
            return [bool(turns) for turns in listed]
        return [bool((i + 1) % self.whole("no_rope_layer_interval", 4)) for i in range(n)]

    def mapping(self, key):
        """The dict under a key, empty without one."""
        value = self.get(key, {})
        if not isinstance(value, dict):
            raise TypeError(f"{key}={shown(value)} must be a dictionary, got {type(value).__name__}")
        return value

    def unread(self):
        """{name in the file: value} of what no rule asked for."""
        return {name: self.values[key] for key, name in self.names.items() if key not in self.read}
