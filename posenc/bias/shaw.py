r"""Relative position representations (Shaw et al.): a learned vector for each clipped offset, on keys and values."""

import math

import torch
from torch import nn

from ..encoding import Encoding, weighted_sum
from ..errors import check_bool, check_int
from ..inputs import accumulation_dtype
from ..positions import offsets


class RelativeKeys(nn.Module):
    """The `bias` callable: q_i . a_clip(j - i) / sqrt(D), the keys' part of the paper's equation 4."""

    reads_scores = False  # of At: PyTorch's fused attention can add this bias

    def __init__(self, head_dim, clip):
        super().__init__()
        self.clip = clip
        self.keys = nn.Parameter(torch.empty(2 * clip + 1, head_dim))  # a^K
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.xavier_uniform_(self.keys)

    def forward(self, q, k, at):
        by_offset = (q @ self.keys.to(q.dtype).T).to(accumulation_dtype(q))  # [B, H, Tq, 2k+1]
        return by_offset.gather(-1, _rows(at, self.clip).expand(*q.shape[:3], -1)) / math.sqrt(q.shape[-1])


class RelativeValues(nn.Module):
    """The `gather` callable: sum_j A_ij (v_j + a_clip(j - i)), the values' part, the paper's equation 3."""

    no_kernel = "Shaw's values need each row's share of the weights, and a kernel holds no weights"

    def __init__(self, head_dim, clip):
        super().__init__()
        self.clip = clip
        self.values = nn.Parameter(torch.empty(2 * clip + 1, head_dim))  # a^V
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.xavier_uniform_(self.values)

    def forward(self, weights, v, at):
        if v.shape[-1] != self.values.shape[1]:
            raise ValueError(f"head_dim={self.values.shape[1]} of the encoding must equal the {v.shape[-1]} lanes of v")
        by_row = weights.new_zeros(*weights.shape[:3], self.values.shape[0])  # [B, H, Tq, 2k+1]
        by_row = by_row.scatter_add(-1, _rows(at, self.clip).expand_as(weights), weights)
        return weighted_sum(weights, v, at) + by_row.to(v.dtype) @ self.values.to(v.dtype)


def _rows(at, clip):
    """The row of a table for each pair, [B or 1, 1, Tq, Tk]."""
    return (offsets(at).clamp(-clip, clip) + clip)[:, None]


def shaw(head_dim: int, clip: int = 16, *, values: bool = False) -> Encoding:
    r"""Relative position representations, an `Encoding` at `bias`, and at `gather` for values.

    score_ij = q_i . (k_j + a^K_c) / sqrt(D),  c = clip(j - i, -k, k);  with `values` also a^V_c on the values.

    Arguments:
        head_dim: D. One table serves all heads of a layer.
        clip: k, the offset beyond which all are one; the tables have 2k + 1 rows.
        values: True adds a^V to the values too. The paper found no gain in that for translation (its Table 3).
    Convention: the term is divided by sqrt(D), whatever `scale` attention is given. Whole numbers as positions.
    Paper: arXiv 1803.02155. Chapter: Relative position.
    """
    head_dim = check_int("head_dim", head_dim)
    clip = check_int("clip", clip)
    check_bool("values", values)
    keys = RelativeKeys(head_dim, clip)
    return Encoding(bias=keys, gather=RelativeValues(head_dim, clip) if values else None, head_dim=head_dim)
