r"""Relative position representations (Shaw et al.): a learned vector for each clipped offset, on keys and values."""

import math

import torch
from torch import nn

from ..attention import attention
from ..encoding import Encoding
from ..errors import check_bool, check_int
from ..inputs import accumulation_dtype
from ..positions import offsets


class RelativeKeys(nn.Module):
    """The `bias` callable: q_i . a_clip(j - i) / sqrt(D), the keys' part of the paper's equation 4."""

    reads_scores = False  # of At: PyTorch's fused attention can add this bias

    def __init__(self, head_dim, clip, values):
        super().__init__()
        self.clip = clip
        self.keys = nn.Parameter(torch.empty(2 * clip + 1, head_dim))  # a^K
        self.values = nn.Parameter(torch.empty(2 * clip + 1, head_dim)) if values else None  # a^V
        self.reset_parameters()

    def reset_parameters(self):
        for table in self.parameters(recurse=False):
            nn.init.xavier_uniform_(table)

    def rows(self, at):
        """The row of the tables for each pair, [B or 1, 1, Tq, Tk]."""
        return (offsets(at).clamp(-self.clip, self.clip) + self.clip)[:, None]

    def forward(self, q, k, at):
        by_offset = (q @ self.keys.to(q.dtype).T).to(accumulation_dtype(q))  # [B, H, Tq, 2k+1]
        rows = self.rows(at).expand(*q.shape[:3], -1)
        return by_offset.gather(-1, rows) / math.sqrt(q.shape[-1])


def attend(q, k, v, encoding, *, return_weights=False, **options):
    r"""Attention with Shaw's value term: output_i = sum_j A_ij (v_j + a^V_clip(j - i)).

    Arguments and errors as for `posenc.attention`, which calls this for `shaw(values=True)`: what a key's offset adds
    to the output fits none of the four places.
    Paper: arXiv 1803.02155, equation 3. Chapter: Relative position.
    """
    bias = encoding.bias
    if v.shape[-1] != bias.values.shape[1]:
        raise ValueError(f"head_dim={bias.values.shape[1]} of this encoding must equal the {v.shape[-1]} lanes of v")
    seen = {}

    def keys(q, k, at):  # where attention stands: the offsets are taken down for the values
        seen["rows"] = bias.rows(at)
        return bias(q, k, at)

    inner = Encoding(rotate=encoding.rotate, bias=keys, weigh=encoding.weigh, causal_only=encoding.causal_only)
    out, weights = attention(q, k, v, inner, return_weights=True, **options)
    by_row = weights.new_zeros(*weights.shape[:3], bias.values.shape[0])  # [B, H, Tq, 2k+1], the weight on each row
    by_row = by_row.scatter_add(-1, seen["rows"].expand_as(weights), weights)
    out = out + by_row.to(v.dtype) @ bias.values.to(v.dtype)
    return (out, weights) if return_weights else out


def shaw(head_dim: int, clip: int = 16, *, values: bool = False) -> Encoding:
    r"""Relative position representations, an `Encoding` at the place `bias`, with an attention of its own for values.

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
    return Encoding(bias=RelativeKeys(head_dim, clip, values), attend=attend if values else None, head_dim=head_dim)
