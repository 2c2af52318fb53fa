r"""FoX, the forgetting transformer: each token closes a door a little on all that was before it."""

import torch
from torch import nn
from torch.nn.functional import logsigmoid, pad

from ..encoding import Encoding, Gates
from ..errors import check_int, check_tensor, check_values


def decay(log_forget: torch.Tensor, queries: int | None = None) -> torch.Tensor:
    r"""What is left of each key when the query comes, as a logarithm.

    D_ij = sum of log f_l over l = j+1 .. i = c_i - c_j,  c the cumulative sum of log f;  -inf for keys after the query

    Arguments:
        log_forget: [..., Tk], log f of each token, at most 0; -inf forgets all that was before, exactly.
        queries: Tq, how many tokens ask, of which the last is the last; default Tk.
    Returns: [..., Tq, Tk], float32 (float64 where log_forget is), 0 on the diagonal, at most 0.
    Convention: the gate of token l closes on what is before l, not on l: the first gate is never used.
    Paper: arXiv 2503.02130. Chapter: FoX: a door that closes.
    """
    check_tensor("log_forget", log_forget, "[..., Tk]", floating=True)
    check_log_forget(log_forget)
    keys = log_forget.shape[-1]
    queries = keys if queries is None else queries
    queries = check_int("queries", queries, minimum=0)
    log_f = log_forget.to(torch.promote_types(log_forget.dtype, torch.float32))[..., None, :]
    later = torch.ones(queries, keys, dtype=torch.bool, device=log_f.device).triu(keys - queries + 1)
    closed = pad(log_f.masked_fill(later, 0.0), (0, 1))[..., 1:]  # [..., Tq, Tk], log f of the token after each key
    return closed.flip(-1).cumsum(-1).flip(-1).masked_fill(later, float("-inf"))


SHUT = -(2.0**16)  # what a sum takes log f for where it is less: exp(SHUT) is 0, and later sums keep their digits


def sums(log_forget):
    """c [..., Tk] in float64, of checked gates of which none takes more than SHUT off it, not even one of -inf."""
    check_log_forget(log_forget)
    return log_forget.to(torch.float64).clamp(min=SHUT).cumsum(-1)


def at_queries(c, queries):
    """The sums c [..., Tk] at the last tokens, [..., Tq]; a query before the first token, which sees no key, gets 0."""
    return pad(c, (max(queries - c.shape[-1], 0), 0))[..., max(c.shape[-1] - queries, 0) :]


def check_log_forget(log_forget):
    """Raise ValueError where one of the numbers is no logarithm of a gate between 0 and 1."""
    must = "it must be at most 0, as logsigmoid(x) is"

    def words():
        worst = "nan" if log_forget.isnan().any() else f"{log_forget.max().item():g}"
        return f"log_forget (gates) holds {worst}, {must}"

    check_values(log_forget <= 0, f"log_forget (gates): {must}", words)


class Forgetting(nn.Module):
    """The `bias` callable: the decay of the gates that `attention` was given."""

    reads_scores = False  # of At: PyTorch's fused attention can add this bias
    kernel = "decay"  # its twin, a variant in posenc.kernels

    def kernel_inputs(self, q, at):
        """What the twin reads besides q and k: x [B, H, Tq] and y [B, H, Tk], c at the queries and at the keys.

        In float64: far into a text the sums are large, and only their difference is small.
        """
        c = sums(at.gates)
        return {"x": at_queries(c, q.shape[2]).contiguous(), "y": c}

    def forward(self, q, k, at):
        return decay(at.gates, q.shape[2])


def fox() -> Encoding:
    r"""Forgetting attention, an `Encoding` at the place `bias`: softmax(q.k / sqrt(D) + D).

    It has no parameters: `attention(..., gates=log_forget)` is given log f [B, H, Tk], and `SelfAttention` makes them
    from its input, log f = logsigmoid(x W_f + b_f), with a weight w_f and a bias b_f for each head. Packed sequences
    need no care: the decay between two tokens reads the gates between them alone.
    Not defined without a causal mask.
    Paper: arXiv 2503.02130. Chapter: FoX: a door that closes.
    """
    return Encoding(
        bias=Forgetting(),
        gates=Gates(activation=logsigmoid),
        causal_only="FoX forgets what is before a token, which says nothing of the keys after it",
    )
