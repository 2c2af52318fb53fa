r"""Transformer-XL's relative attention: four terms, two of content and two of distance."""

import math

import torch
from torch import nn

from ..embed.sinusoidal import table
from ..encoding import Encoding
from ..errors import check_int, check_number, check_tensor
from ..inputs import accumulation_dtype
from ..positions import distances


def shift(x: torch.Tensor) -> torch.Tensor:
    r"""Line up scores by distance with keys, by the paper's trick: one zero column, one reshape, one row dropped.

    Column c of row i holds the score at distance Tk - 1 - c; in the result, column j of row i holds the one at
    distance i + Tk - Tq - j, for every key that query may see. What stands right of that is left over from the next
    row and is meant to be hidden by the causal mask.

    Arguments: x: [..., Tq, Tk]. Returns: [..., Tq, Tk].
    Paper: arXiv 1901.02860, appendix B. Chapter: Relative position.
    """
    check_tensor("x", x, "[..., Tq, Tk]", floating=True)
    if x.ndim < 2:
        raise ValueError(f"x must have shape [..., Tq, Tk], got {list(x.shape)}")
    queries, keys = x.shape[-2:]
    padded = torch.cat((x.new_zeros(*x.shape[:-1], 1), x), dim=-1)  # [..., Tq, Tk + 1]
    return padded.reshape(*x.shape[:-2], keys + 1, queries)[..., 1:, :].reshape(x.shape)


class FourTerms(nn.Module):
    """The `bias` callable: the terms b, c and d, beside the content term a = q.k that attention makes itself."""

    reads_scores = False  # of At: PyTorch's fused attention can add this bias

    def __init__(self, num_heads, head_dim, dim, base):
        super().__init__()
        self.base = base
        self.u = nn.Parameter(torch.empty(num_heads, head_dim))
        self.v = nn.Parameter(torch.empty(num_heads, head_dim))
        self.w_r = nn.Parameter(torch.empty(num_heads * head_dim, dim))  # W_{k,R}
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.normal_(self.u, std=0.02)
        nn.init.normal_(self.v, std=0.02)
        nn.init.kaiming_uniform_(self.w_r, a=math.sqrt(5))  # as W_k of SelfAttention, a linear map

    def terms(self, q, k, at):
        """b = q_i . r, c = u . k_j and d = v . r with r = W_R R_(i-j), each [B or 1, H, Tq, Tk], before scaling."""
        dtype = accumulation_dtype(q)
        distances(at)  # checks the positions
        at_q, at_k = (table(p.double(), self.w_r.shape[1], self.base).to(dtype) for p in (at.pos_q, -at.pos_k.double()))
        sin, cos = at_q[:, None].unflatten(-1, (-1, 2)).unbind(-1)  # [B or 1, 1, Tq, C/2]
        w_r = self.w_r.to(dtype).unflatten(0, self.u.shape)  # [H, D, C]

        def along(x):  # x . W_R R_(i-j), where R_(i-j) is R_(-j) with each pair of lanes turned by i
            first, second = (x.to(dtype) @ w_r).unflatten(-1, (-1, 2)).unbind(-1)
            turned = torch.stack((first * cos - second * sin, first * sin + second * cos), dim=-1).flatten(-2)
            return turned @ at_k[:, None].transpose(-2, -1)

        b, d = along(q), along(self.v[:, None])
        c = (self.u[:, None].to(dtype) @ k.to(dtype).transpose(-2, -1)).expand(-1, -1, q.shape[2], -1)
        return b, c, d

    def forward(self, q, k, at):
        b, c, d = self.terms(q, k, at)
        return (b + c + d) / math.sqrt(q.shape[-1])


def transformer_xl(num_heads: int, head_dim: int, dim: int | None = None, *, base: float = 10000.0) -> Encoding:
    r"""Transformer-XL's relative attention, an `Encoding` at the place `bias`.

    score_ij = [ (q_i + u) . k_j + (q_i + v) . W_R R_(i-j) ] / sqrt(D)

    Arguments:
        num_heads, head_dim: H and D; u, v [H, D] and W_R [H D, C] are parameters.
        dim: C, the width of the sinusoid R, even; default H D.
        base: b of the sinusoid.
    Convention: R is the sinusoid of the signed distance i - j, not learned. The terms are divided by sqrt(D), whatever
        `scale` attention is given. Each encoding has its own u and v, as the layers have in the authors' scripts
        (`untie_r`), though not by their code's default: give layers the same object to share it, W_R included.
    Paper: arXiv 1901.02860, section 3.3. Chapter: Relative position.
    """
    num_heads = check_int("num_heads", num_heads)
    head_dim = check_int("head_dim", head_dim)
    dim = num_heads * head_dim if dim is None else dim
    dim = check_int("dim", dim, minimum=2, even=True)
    base = check_number("base", base, above=0)
    bias = FourTerms(num_heads, head_dim, dim, base)
    return Encoding(bias=bias, num_heads=num_heads, head_dim=head_dim)
