"""Every method with its options, for the tests that hold for all of them."""

import loops
import torch

import posenc
from posenc.inputs import accumulation_dtype

HEADS, HEAD_DIM = 4, 8
DIM = HEADS * HEAD_DIM

VARIANTS = {f"{name}-{words}": (name, o) for name, row in posenc.METHODS.items() for words, o in row.variants.items()}
VARIANTS["rope-own-frequencies"] = ("rope", {"inv_freq": torch.tensor([0.5, 0.1]), "attention_factor": 1.2})
NAMES = [*posenc.METHODS, *VARIANTS, "rope+alibi", "rope+stickbreaking", "rope+shaw-values", "t5+stickbreaking"]
NAMES += ["path+shaw-values"]


def as_made(name):
    """A fresh encoding for one of NAMES as its factory makes it."""
    if "+" in name:
        return posenc.compose(*(as_made(part) for part in name.split("+")))
    method, options = VARIANTS.get(name, (name, {}))
    sizes = posenc.methods.sizes(method, num_heads=HEADS, head_dim=HEAD_DIM, length=8192)
    return posenc.make(method, **(sizes | options))


def encoding(name):
    """A fresh encoding for one of NAMES, with the same parameters each time, none of them at zero throughout."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = as_made(name)
        for parameter in made.parameters():
            if not parameter.is_meta and not parameter.any():  # CoPE's table starts at 0, where it is NoPE: every test
                torch.nn.init.normal_(parameter)  # would hold
        return made


def gates(made, q, k):
    """What an encoding reads of each token besides q, k and v, seeded, on q's device; None where it reads nothing."""
    if made.gates is None:
        return None
    size, activation = made.gates
    shape = (q.shape[0], q.shape[1], k.shape[2], *size)
    raw = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    return activation(raw.to(q.device, accumulation_dtype(q)))


def told(made, q, k):
    """What `attention` tells the bias of an encoding about q and k, causal, with Tq = Tk: positions, gates, scores."""
    positions = torch.arange(q.shape[2], device=q.device)[None]
    visible = positions[:, None, None, :] <= positions[:, None, :, None]
    scores = (q @ k.transpose(-2, -1)).to(accumulation_dtype(q)) / q.shape[3] ** 0.5
    return posenc.At(positions, positions, visible, gates(made, q, k), scores)


def attend(name, q, k, v, **options):
    """`posenc.attention` with the encoding of one of NAMES, and the gates that it reads."""
    made = encoding(name)
    if made.axes is not None:
        at = {"pos_q": torch.arange(k.shape[2] - q.shape[2], k.shape[2]), "pos_k": torch.arange(k.shape[2])} | options
        options |= {name: along_a_line(at[name], made.axes) for name in ("pos_q", "pos_k")}
    return posenc.attention(q, k, v, made, gates=gates(made, q, k), **options)


def equals_loops(made, tensors, logit, weigh=loops.softmax, causal=True, tolerance=1e-12, **options):
    """Hold the output and the weights of attention with an encoding against the plain loops of `loops.attend`."""
    found = posenc.attention(*tensors, made, causal=causal, return_weights=True, **options)
    for actual, expected in zip(found, loops.attend(*tensors, logit, weigh, causal)):
        loops.close(actual, expected, tolerance)


def causal_modes(name):
    """[True], or [True, False] where the method is defined without a causal mask."""
    return [True] if encoding(name).causal_only else [True, False]


def along_a_line(positions, axes):
    """Positions of numbers for an encoding of n axes: token p stands at (p, 2 p, ..); as they are where it has none.

    On one line every LieRE is relative too; tests/rotate/test_liere.py asks about the plane.
    """
    if axes is None:
        return positions
    return positions[..., None] * torch.arange(1, axes + 1, dtype=positions.dtype, device=positions.device)


class Block(torch.nn.Module):
    """One attention layer behind its encoding's embedding, as a model would have them."""

    def __init__(self, name, causal=True, num_kv_heads=2, dtype=torch.float64, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        whole = encoding(name)
        self.at_input, layers = whole.at_input(), whole.in_layers()
        self.attention = posenc.SelfAttention(DIM, HEADS, layers, num_kv_heads=num_kv_heads, causal=causal)
        self.to(dtype)

    def forward(self, x, positions=None, cache=None, **options):
        axes = self.attention.encoding.axes
        start = 0 if cache is None else len(cache)
        at = torch.arange(start, start + x.shape[1]) if positions is None else positions
        x = posenc.embed_input(self.at_input, x, along_a_line(at, axes))
        if positions is not None or axes is not None:  # else the layer counts
            positions = along_a_line(at, axes)
        return self.attention(x, positions=positions, cache=cache, **options)


def tokens(batch, length, dtype=torch.float64, seed=1):
    """Seeded inputs [B, T, C]."""
    return torch.randn(batch, length, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)
