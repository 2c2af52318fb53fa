r"""Stick-breaking attention: keys take their share of a stick one after the other, nearest first."""

import torch
from torch import nn
from torch.nn.functional import logsigmoid, pad

from ..encoding import Encoding
from ..errors import check_bool, check_choice
from ..inputs import check_visible

ORDERS = ("recent", "first")


def weigh(
    scores: torch.Tensor, visible: torch.Tensor, order: str = "recent", return_remainder: bool = False
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    r"""Break a stick of length 1 into one piece a key.

    A_ij = beta_ij * prod over the keys k that come before j in the order of (1 - beta_ik),  beta = sigmoid(scores)

    Arguments:
        scores: [..., Tq, Tk] logits z.
        visible: bool, broadcastable to scores; keys that are not visible take nothing and break nothing.
        order: "recent" starts at the last key and walks back (the paper), "first" starts at key 0.
        return_remainder: True returns (weights, remainder [..., Tq]) with the part of the stick that is left.
    Returns: weights like scores, each at least 0, each row summing to 1 - remainder. All in log space.
    Paper: arXiv 2410.17980, equations 2 to 4. Chapter: Stick-breaking.
    """
    visible = check_visible(scores, visible)
    check_choice("order", order, ORDERS)
    check_bool("return_remainder", return_remainder)

    kept = logsigmoid(-scores).masked_fill(~visible, 0.0)  # log(1 - beta), 0 where a key is not asked
    if order == "recent":
        before = pad(kept, (0, 1)).flip(-1).cumsum(-1).flip(-1)[..., 1:]  # log of the stick that reaches key j
    else:
        before = pad(kept, (1, 0)).cumsum(-1)[..., :-1]
    weights = (logsigmoid(scores) + before).exp().masked_fill(~visible, 0.0)
    return (weights, kept.sum(-1).exp()) if return_remainder else weights


class StickBreaking(nn.Module):
    """The `weigh` callable."""

    kernel = "stickbreaking"  # its twin in posenc.kernels

    def __init__(self, order, attend_current, remainder):
        super().__init__()
        self.order, self.attend_current, self.remainder = order, attend_current, remainder

    def forward(self, scores, at):
        queries, keys = scores.shape[-2:]
        row = torch.arange(keys - queries, keys, device=scores.device)  # the index of each query among the keys
        current = row[:, None] == torch.arange(keys, device=scores.device)  # [Tq, Tk]
        visible = at.visible if self.attend_current else at.visible & ~current
        weights, left = weigh(scores, visible, self.order, return_remainder=True)
        if self.remainder == "current":
            weights = weights + left[..., None] * (current & at.visible)
        return weights


def stickbreaking(*, order: str = "recent", attend_current: bool = False, remainder: str = "drop") -> Encoding:
    r"""Stick-breaking attention, an `Encoding` at the place `weigh`. It needs no other position.

    Arguments:
        order: see `weigh`. "recent" is the paper's and needs a causal mask.
        attend_current: True lets a query take from its own key; the paper's strictly past form does not.
        remainder: "drop" leaves what nobody took unallocated (the paper), so weights sum to less than 1;
            "current" gives it to the query's own value.
    Paper: arXiv 2410.17980. Chapter: Stick-breaking.
    """
    check_choice("order", order, ORDERS)
    check_bool("attend_current", attend_current)
    check_choice("remainder", remainder, ("drop", "current"))
    reason = "stick-breaking from the most recent key needs a past and a future; order='first' works both ways"
    return Encoding(
        weigh=StickBreaking(order, attend_current, remainder), causal_only=reason if order == "recent" else None
    )
