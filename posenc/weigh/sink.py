r"""A softmax with a sink: one more slot in each row, which takes weight and has no value."""

import torch
from torch import nn

from ..encoding import Encoding
from ..errors import check_int
from ..inputs import check_visible


def weigh(scores: torch.Tensor, visible: torch.Tensor, sinks: torch.Tensor) -> torch.Tensor:
    r"""The softmax over the visible keys and one slot more, which is then left out.

    A_ij = exp(z_ij) / (exp(s_h) + sum over k of exp(z_ik)),  so a row sums to less than 1

    Arguments:
        scores: [..., H, Tq, Tk] logits z.
        visible: bool, broadcastable to scores.
        sinks: [H], the logit s of each head's slot; -inf is the plain softmax.
    Returns: weights in the shape of scores; a query that sees no key gives all of its weight to the sink.
    Paper: gpt-oss's model card, arXiv 2508.10925, section 2.2. Chapter: When content moves the ruler.
    """
    visible = check_visible(scores, visible)
    if sinks.shape != scores.shape[-3:-2]:
        raise ValueError(f"sinks must have shape [H] = {list(scores.shape[-3:-2])}, got {list(sinks.shape)}")
    slot = sinks.to(scores.dtype)[:, None, None].expand(*scores.shape[:-1], 1)
    return torch.softmax(torch.cat((scores.masked_fill(~visible, float("-inf")), slot), dim=-1), dim=-1)[..., :-1]


class Sink(nn.Module):
    """The `weigh` callable, with one learned logit a head."""

    no_kernel = "a sink takes weight and has no key, and the softmax kernel sums over keys only"

    def __init__(self, num_heads):
        super().__init__()
        self.sinks = nn.Parameter(torch.empty(num_heads))
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.zeros_(self.sinks)

    def forward(self, scores, at):
        return weigh(scores, at.visible, self.sinks)


def sink(num_heads: int) -> Encoding:
    r"""A softmax with a learned sink a head, an `Encoding` at the place `weigh`. It knows no position.

    Arguments:
        num_heads: H; the logits of the sinks start at 0.
    Paper: gpt-oss's model card, arXiv 2508.10925, section 2.2. Chapter: When content moves the ruler.
    """
    num_heads = check_int("num_heads", num_heads)
    return Encoding(weigh=Sink(num_heads), num_heads=num_heads)
