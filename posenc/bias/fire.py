r"""FIRE: a small network reads the distance, as a share of the query's position, and gives the bias."""

import torch
from torch import nn
from torch.nn.functional import linear, relu_

from ..encoding import Encoding
from ..errors import check_int, check_number
from ..inputs import accumulation_dtype
from ..positions import distances


class ProgressiveInterpolation(nn.Module):
    """The `bias` callable: MLP(psi(i - j) / psi(max(L, i))) with psi(x) = log(c x + 1)."""

    reads_scores = False  # of At: PyTorch's fused attention can add this bias

    def __init__(self, num_heads, hidden, threshold):
        super().__init__()
        self.c = nn.Parameter(torch.empty(1))
        self.start = float(threshold)
        self.stretch = nn.Parameter(torch.empty(1))  # L = start * stretch, as in the authors' code: a step of the
        # optimizer then moves L by a share of itself. As a number of tokens it would hardly move at all.
        self.widen, self.narrow = nn.Linear(1, hidden), nn.Linear(hidden, num_heads)
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.constant_(self.c, 0.1)
        nn.init.constant_(self.stretch, 1.0)

    @property
    def threshold(self):
        """L [1], the position up to which the bias is relative."""
        return self.start * self.stretch.abs()

    def share(self, at, dtype):
        """The normalized distance of every pair, 0 at the query and 1 at position 0: [B or 1, Tq, Tk]."""
        distance = distances(at).abs().to(dtype)
        c, threshold = self.c.to(dtype).abs(), self.threshold.to(dtype)
        longest = torch.maximum(at.pos_q[:, :, None].to(dtype), threshold)
        return torch.log1p(c * distance) / (torch.log1p(c * longest) + 1e-6)

    def forward(self, q, k, at):
        dtype = accumulation_dtype(q)
        x = self.share(at, dtype)[..., None]
        # The hidden layer, [B or 1, Tq, Tk, hidden], is nearly all the memory that FIRE takes: it is held once.
        x = relu_(linear(x, self.widen.weight.to(dtype), self.widen.bias.to(dtype)))
        x = linear(x, self.narrow.weight.to(dtype), self.narrow.bias.to(dtype))
        return x.permute(0, 3, 1, 2)  # [B or 1, H, Tq, Tk]


def fire(num_heads: int, *, hidden: int = 32, threshold: float = 512.0) -> Encoding:
    r"""FIRE, functional interpolation for relative positions, an `Encoding` at the place `bias`.

    b_ij = f( psi(i - j) / psi(max(L, i)) ),  psi(x) = log(c x + 1),  f a network of one hidden layer

    Arguments:
        num_heads: H, outputs of f.
        hidden: width of the hidden layer, 32 in the paper.
        threshold: L at the start; a factor on it is learned, as c is. 512 is the authors', who train at length 2048.
    Convention: i is the query's position, so the bias is relative only up to L; beyond, moving all positions changes
        it. The network's input stays within 0 .. 1 at any length.
    Paper: arXiv 2310.04418, section 3. Chapter: Relative position.
    """
    num_heads = check_int("num_heads", num_heads)
    hidden = check_int("hidden", hidden)
    threshold = check_number("threshold", threshold, above=0)
    reason = "FIRE divides by the query's position, the length of its past; a key after the query has no such share"
    bias = ProgressiveInterpolation(num_heads, hidden, threshold)
    return Encoding(bias=bias, causal_only=reason, num_heads=num_heads)
