"""Every method with its options, for the tests that hold for all of them."""

import torch

import posenc

HEADS, HEAD_DIM = 4, 8
DIM = HEADS * HEAD_DIM

# What a factory must be given, beside its defaults.
REQUIRED = {
    "rope": {"head_dim": HEAD_DIM},
    "alibi": {"num_heads": HEADS},
    "learned": {"max_positions": 8192, "dim": DIM, "std": 0.5},
    "shaw": {"head_dim": HEAD_DIM},
    "transformer_xl": {"num_heads": HEADS, "head_dim": HEAD_DIM},
    "t5": {"num_heads": HEADS},
    "kerple": {"num_heads": HEADS},
    "fire": {"num_heads": HEADS},
    "exposb": {"head_dim": HEAD_DIM, "num_heads": HEADS},
    "rse": {"head_dim": HEAD_DIM},
}

VARIANTS = {
    "sinusoidal-layer_qk": ("sinusoidal", {"embed_at": "layer_qk"}),
    "sinusoidal-layer_qkv": ("sinusoidal", {"embed_at": "layer_qkv", "volume": 0.5}),
    "sinusoidal-concatenated": ("sinusoidal", {"layout": "concatenated"}),
    "learned-layer_qk": ("learned", {"embed_at": "layer_qk"}),
    "learned-layer_qkv": ("learned", {"embed_at": "layer_qkv"}),
    "shaw-clipped": ("shaw", {"clip": 2}),
    "shaw-values": ("shaw", {"clip": 3, "values": True}),
    "t5-bidirectional": ("t5", {"bidirectional": True, "num_buckets": 8, "max_distance": 6}),
    "kerple-power": ("kerple", {"form": "power"}),
    "fire-near": ("fire", {"threshold": 3.0}),
    "rope-half": ("rope", {"layout": "half"}),
    "rope-partial": ("rope", {"rotary_dim": 4}),
    "rope-proportional": ("rope", {"rotary_dim": 4, "proportional": True, "layout": "half"}),
    "rope-own-frequencies": ("rope", {"inv_freq": torch.tensor([0.5, 0.1]), "attention_factor": 1.2}),
    "alibi-symmetric": ("alibi", {"symmetric": True}),
    "alibi-learned": ("alibi", {"learned": True}),
    "stickbreaking-current": ("stickbreaking", {"attend_current": True}),
    "stickbreaking-remainder": ("stickbreaking", {"remainder": "current"}),
    "stickbreaking-first": ("stickbreaking", {"order": "first"}),
    "stickbreaking-first-both": ("stickbreaking", {"order": "first", "attend_current": True, "remainder": "current"}),
    "exposb-log": ("exposb", {"on": "log", "per_pair": True, "learn_rate": True}),
    "exposb-weights": ("exposb", {"on": "weights", "gain": False}),
    "rse-recent": ("rse", {"order": "recent", "rate": 0.2}),
    "rse-softmax": ("rse", {"stick": False}),
}

NAMES = [*posenc.METHODS, *VARIANTS, "rope+alibi", "rope+stickbreaking", "rope+shaw-values", "t5+stickbreaking"]


def encoding(name):
    """A fresh encoding for one of NAMES, with the same parameters each time."""
    if "+" in name:
        return posenc.compose(*(encoding(part) for part in name.split("+")))
    method, options = VARIANTS.get(name, (name, {}))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return posenc.make(method, **(REQUIRED.get(method, {}) | options))


def causal_modes(name):
    """[True], or [True, False] where the method is defined without a causal mask."""
    return [True] if encoding(name).causal_only else [True, False]


class Block(torch.nn.Module):
    """One attention layer behind its encoding's embedding, as a model would have them."""

    def __init__(self, name, causal=True, num_kv_heads=2, dtype=torch.float64, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.attention = posenc.SelfAttention(DIM, HEADS, encoding(name), num_kv_heads=num_kv_heads, causal=causal)
        self.to(dtype)

    def forward(self, x, positions=None, cache=None, **options):
        encoding = self.attention.encoding
        if encoding.embed is not None and encoding.embed_at == "input":
            start = 0 if cache is None else len(cache)
            at = torch.arange(start, start + x.shape[1]) if positions is None else positions
            x = encoding.embed(x, at)
        return self.attention(x, positions=positions, cache=cache, **options)


def tokens(batch, length, dtype=torch.float64, seed=1):
    """Seeded inputs [B, T, C]."""
    return torch.randn(batch, length, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)
