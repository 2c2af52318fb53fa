r"""PaTH: between a key and a query lie the reflections of all tokens between them, one after the other."""

import math

import torch
from torch.nn.functional import normalize

from ..attention import attention
from ..encoding import Encoding, Gates
from ..errors import check_int
from ..inputs import accumulation_dtype


def scores_along(q, k, w, beta):
    r"""The products of queries with keys through all that lies between them.

    s_ij = q_i . H_i H_(i-1) ... H_(j+1) k_j,  H_t = I - beta_t w_t w_t^T

    Arguments:
        q: [..., Tq, D] queries, the last Tq of the tokens.
        k, w: [..., Tk, D] keys, and the directions of the reflections, of length 1.
        beta: [..., Tk], how far each reflects: 0 leaves all as it is, 1 projects w out, 2 is a mirror.
    Returns: [..., Tq, Tk]; what stands at keys after the query has no meaning.
    Paper: arXiv 2505.16381. Chapter: When content moves the ruler.
    """
    queries, keys = q.shape[-2], k.shape[-2]
    index = torch.arange(keys - queries, keys, device=q.device)[:, None]
    columns, u = [], q
    for j in reversed(range(keys)):  # u is q_i H_i ... H_(j+1), one step farther for each key
        columns.append((u * k[..., j : j + 1, :]).sum(-1))
        step = beta[..., j, None, None] * (u * w[..., j : j + 1, :]).sum(-1, keepdim=True) * w[..., j : j + 1, :]
        u = torch.where(index >= j, u - step, u)
    return torch.stack(columns[::-1], dim=-1)


def attend(q, k, v, encoding, *, gates=None, scale=None, **options):
    r"""Attention whose logits are the products through the reflections of all tokens between query and key.

    Arguments and errors as for `posenc.attention`, which calls this for `path(...)`; gates [B, H, Tk, D + 1] hold w and
    beta of each token. The products take the place of q.k, which is none of the places.
    Paper: arXiv 2505.16381. Chapter: When content moves the ruler.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale

    def instead(q, k, at):
        dtype = accumulation_dtype(q)
        w, beta = gates[..., :-1].to(dtype), gates[..., -1].to(dtype)
        scores = scale * scores_along(q.to(dtype), k.to(dtype), w, beta)
        more = 0 if encoding.bias is None else encoding.bias(q, k, at._replace(scores=scores))
        return scores + more - at.scores

    instead.no_kernel = attend.no_kernel
    kept = {name: getattr(encoding, name) for name in ("rotate", "weigh", "gather", "causal_only")}
    inner = Encoding(bias=instead, **kept)
    return attention(q, k, v, inner, scale=scale, **options)


attend.no_kernel = "PaTH's products run through every token between key and query, which no kernel here does"


def reflections(raw):
    """What the layer's input says, [..., D + 1], as w of length 1 and beta between 0 and 2."""
    return torch.cat((normalize(raw[..., :-1], dim=-1), 2 * torch.sigmoid(raw[..., -1:])), dim=-1)


def path(head_dim: int) -> Encoding:
    r"""PaTH attention, an `Encoding` with an attention of its own: position by accumulated reflections.

    logit_ij = scale q_i . H_i ... H_(j+1) k_j,  H_t = I - beta_t w_t w_t^T,  w_t and beta_t made from the token t

    Arguments:
        head_dim: D.
    Not defined without a causal mask.
    Convention: w and beta are one linear map of the layer's input; the paper makes w by a low rank and a short
        convolution, and may add FoX's decay: `compose` does not, since both read gates.
    Paper: arXiv 2505.16381. Chapter: When content moves the ruler.
    """
    head_dim = check_int("head_dim", head_dim)
    return Encoding(
        attend=attend,
        gates=Gates((head_dim + 1,), reflections),
        causal_only="PaTH accumulates what lies between a key and the query after it; keys in the future have no path",
        head_dim=head_dim,
    )
