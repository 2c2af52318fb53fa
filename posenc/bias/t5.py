r"""T5's relative bias: one learned number a head for each bucket of offsets."""

import math

import torch
from torch import nn

from ..encoding import Encoding
from ..errors import check_bool, check_int, check_tensor
from ..inputs import accumulation_dtype
from ..positions import offsets


def bucket(
    relative: torch.Tensor, num_buckets: int = 32, max_distance: int = 128, bidirectional: bool = True
) -> torch.Tensor:
    r"""The bucket of each offset: small ones have their own, larger ones share on a logarithmic scale.

    Arguments:
        relative: integers of any shape, key position minus query position.
        num_buckets: n, even. `bidirectional` gives one half to keys before the query, one to those after it.
        max_distance: from this distance on all offsets share the last bucket of their side.
        bidirectional: False puts all keys after the query into bucket 0.
    Returns: int64 of the same shape, 0 .. n-1.
    Paper: arXiv 1910.10683, section 2.1; the formula is in its code alone. Chapter: Relative position.
    """
    check_tensor("relative", relative)
    if relative.is_floating_point():
        raise TypeError(f"relative must hold integers, got {relative.dtype}")
    relative = relative.long()  # a narrower integer may have no negative
    check_bool("bidirectional", bidirectional)
    halves = "one half is for the keys before the query" if bidirectional else "one half is for single distances"
    num_buckets = check_int("num_buckets", num_buckets, minimum=4 if bidirectional else 2, even=halves)
    side = num_buckets // 2 if bidirectional else num_buckets  # buckets for one direction
    exact = side // 2  # distances below this have a bucket of their own
    max_distance = check_int("max_distance", max_distance, minimum=exact + 1)
    distance = relative.abs() if bidirectional else (-relative).clamp(min=0)
    steps = torch.log(distance.clamp(min=1).double() / exact) / math.log(max_distance / exact) * (side - exact)
    shared = (exact + (steps + 1e-9).long()).clamp(max=side - 1)  # 1e-9: a power of two lands on a whole number
    return torch.where(distance < exact, distance, shared) + (relative > 0) * (side if bidirectional else 0)


class TableBias(nn.Module):
    """The `bias` callable: table[bucket(j - i)] of each head."""

    reads_scores = False  # of At: PyTorch's fused attention can add this bias
    kernel = "table"  # its twin, a variant in posenc.kernels

    def __init__(self, num_heads, num_buckets, max_distance, bidirectional):
        super().__init__()
        self.table = nn.Parameter(torch.empty(num_heads, num_buckets))
        self.num_buckets, self.max_distance, self.bidirectional = num_buckets, max_distance, bidirectional
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.normal_(self.table, std=0.1)

    def by_offset(self, q, relative):
        """The bias of each head for offsets of any shape: [H, ...] in the dtype of the logits of q."""
        rows = bucket(relative, self.num_buckets, self.max_distance, self.bidirectional)
        return self.table.to(accumulation_dtype(q))[:, rows]

    def kernel_inputs(self, q, at):
        """What the twin reads besides q and k: the bias for each offset from `first` on; outside it is constant."""
        far = self.max_distance
        relative = torch.arange(-far, far + 1 if self.bidirectional else 1, device=q.device)
        return {"table": self.by_offset(q, relative).to(torch.float32), "first": -far}

    def forward(self, q, k, at):
        return self.by_offset(q, offsets(at)).transpose(0, 1)  # [B or 1, H, Tq, Tk]


def t5(num_heads: int, *, num_buckets: int = 32, max_distance: int = 128, bidirectional: bool = False) -> Encoding:
    r"""T5's relative bias, an `Encoding` at the place `bias`.

    Arguments:
        num_heads: H; the table [H, num_buckets] is the parameter.
        num_buckets, max_distance: see `bucket`.
        bidirectional: False as in T5's decoder, True as in its encoder.
    Convention: T5 has one table for all layers of its encoder and one for those of its decoder: give layers the same
        object. (Under FSDP2 give `encoding.bias` to `fully_shard` before the layers that share it.) It also leaves out
        the factor 1/sqrt(D) on q.k and starts W_Q smaller instead: give `scale=1.0` to `attention` or `SelfAttention`
        for that. Its attention between decoder and encoder has no bias. Whole numbers as positions.
    Paper: arXiv 1910.10683, section 2.1. Chapter: Relative position.
    """
    num_heads = check_int("num_heads", num_heads)
    bucket(torch.zeros(1, dtype=torch.long, device="cpu"), num_buckets, max_distance, bidirectional)  # checks the rest
    reason = "the causal buckets put every later key into bucket 0; bidirectional=True tells them apart"
    bias = TableBias(num_heads, num_buckets, max_distance, bidirectional)
    return Encoding(bias=bias, causal_only=None if bidirectional else reason, num_heads=num_heads)
