r"""CoPE: a key's position is how many gates stand open between it and the query: content decides what is counted."""

import torch
from torch import nn

from ..encoding import Encoding
from ..errors import check_int, check_tensor
from ..inputs import check_visible


def positions(logits, visible):
    r"""How far back each key stands, counted by the gates of the query.

    g_ij = sigmoid(logits_ij) where j is visible, else 0;  p_ij = sum of g_ik over the keys k = j .. i, both ends in

    Arguments:
        logits: [..., Tq, Tk], what the gates are made of.
        visible: bool, broadcastable to logits, causal; a key that is not visible counts nothing.
    Returns: p [..., Tq, Tk], float32 (float64 where logits are), 0 for keys after the query.
    Convention: with all gates 1, p_ij = i - j + 1: the query itself stands at 1.
    Paper: arXiv 2405.18719. Chapter: CoPE: counting what matters.
    """
    visible = check_visible(logits, visible, "logits")
    gates = torch.sigmoid(logits.to(torch.promote_types(logits.dtype, torch.float32))).masked_fill(~visible, 0.0)
    return gates.flip(-1).cumsum(-1).flip(-1)


def lookup(q, table, p):
    r"""The query's product with the vector of each position, interpolated between whole positions.

    z_i[c] = q_i . e[c] for whole c;  between them  z_i[p] = (1 - w) z_i[floor p] + w z_i[floor p + 1],  w = p - floor p

    Equal to q_i . e[p] with e interpolated, and P products a query in place of one a pair.

    Arguments:
        q: [..., Tq, D] queries.
        table: [P, D], or broadcastable to [..., P, D], the vectors e of the positions 0 .. P-1.
        p: [..., Tq, Tk] positions; those beyond P-1 stand at P-1 and get no gradient.
    Returns: [..., Tq, Tk] in the dtype of p.
    Paper: arXiv 2405.18719. Chapter: CoPE: counting what matters.
    """
    check_tensor("q", q, "[..., Tq, D]", floating=True)
    check_tensor("table", table, "[..., P, D]", floating=True)
    check_tensor("p", p, "[..., Tq, Tk]", floating=True)
    if q.shape[-1] != table.shape[-1]:
        raise ValueError(f"table has {table.shape[-1]} lanes, it must have the {q.shape[-1]} of q")
    if q.shape[:-1] != p.shape[:-1]:
        raise ValueError(f"p must have shape {[*q.shape[:-1], 'Tk']} to go with q, got {list(p.shape)}")
    last = table.shape[-2] - 1
    z = (q @ table.to(q.dtype).transpose(-2, -1)).to(p.dtype)  # [..., Tq, P]
    p = p.clamp(max=last)
    low = p.detach().floor()
    share = p - low
    low = low.long()
    return (1 - share) * z.gather(-1, low) + share * z.gather(-1, (low + 1).clamp(max=last))


class ContextualBias(nn.Module):
    """The `bias` callable: the table of positions, looked up where each query's own gates say that a key stands."""

    kernel = "cope"  # its twin, a kernel of its own in posenc.kernels

    def __init__(self, head_dim, num_positions, num_heads):
        super().__init__()
        shape = (num_positions, head_dim) if num_heads is None else (num_heads, num_positions, head_dim)
        self.table = nn.Parameter(torch.empty(shape))
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.zeros_(self.table)

    def forward(self, q, k, at):
        return lookup(q, self.table, positions(at.scores, at.visible))

    def kernel_inputs(self, q, at):
        """What the twin reads besides q and k: z [B, H, Tq, P], the product of each query with each position."""
        return {"z": (q @ self.table.to(q.dtype).transpose(-2, -1)).to(torch.float32)}

    def extra_repr(self):
        return f"table={list(self.table.shape)}"


def cope(head_dim: int, num_positions: int = 64, *, num_heads: int | None = None) -> Encoding:
    r"""Contextual position encoding, an `Encoding` at the place `bias`.

    logit_ij = scale q_i . k_j + q_i . e[p_ij],  p_ij the sum of sigmoid(scale q_i . k_k) over the keys k = j .. i

    Arguments:
        head_dim: D.
        num_positions: P, at least 2: rows of the learned table e [P, D], which starts at zero, where CoPE is NoPE.
        num_heads: None shares the table among the heads, as the paper's listing does; H gives each its own [H, P, D].
    Not defined without a causal mask.
    Convention: the listing in the paper's appendix: gates are made of the scaled and masked logits, q . e is not
        scaled. Equations 3 and 5 know no 1/sqrt(D) at all: `attention(..., scale=1.0)` computes them.
    Paper: arXiv 2405.18719. Chapter: CoPE: counting what matters.
    """
    head_dim = check_int("head_dim", head_dim)
    num_positions = check_int("num_positions", num_positions, minimum=2)
    if num_heads is not None:
        num_heads = check_int("num_heads", num_heads)
    return Encoding(
        bias=ContextualBias(head_dim, num_positions, num_heads),
        causal_only="CoPE counts the gates from a key up to the query, which says nothing of the keys after it",
        num_heads=num_heads,
        head_dim=head_dim,
    )
