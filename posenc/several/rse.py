r"""RSE, rotary stick-breaking encoding: rotation, a learned penalty on distance and a stick, made of existing parts."""

import math

import torch
from torch import nn
from torch.nn.functional import softplus

from ..bias.alibi import bias
from ..encoding import Encoding, compose
from ..errors import check_bool, check_number
from ..inputs import accumulation_dtype
from ..rotate.rope import rope
from ..weigh.stickbreaking import stickbreaking


class Penalty(nn.Module):
    """The `bias` callable -lambda |i - j|, one learned lambda for all heads. Its softplus inverse is trained."""

    reads_scores = False  # of At: PyTorch's fused attention can add this bias
    kernel = "symmetric"  # its twin, a variant in posenc.kernels

    def __init__(self, rate):
        super().__init__()
        self.start = rate
        self.raw = nn.Parameter(torch.empty(1))
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.constant_(self.raw, self.start + math.log(-math.expm1(-self.start)))  # softplus(raw) = rate

    @property
    def rate(self):
        """lambda [1], at least 0, per token; float32 also where `model.half()` has rounded what is trained."""
        return softplus(self.raw.to(accumulation_dtype(self.raw)))

    def kernel_inputs(self, q, at):
        """What the twin reads besides q and k: a [H], lambda for each head."""
        return {"a": self.rate.to(torch.float32).repeat(q.shape[1])}

    def forward(self, q, k, at):
        rates = self.rate.to(accumulation_dtype(q)).expand(q.shape[1])
        return bias(at.pos_q, at.pos_k, rates, symmetric=True)


def penalty(rate: float = 0.01) -> Encoding:
    r"""A learned penalty on distance, -lambda |i - j|, an `Encoding` at the place `bias`.

    Arguments:
        rate: lambda at the start, greater than 0, per token, one for all heads. Trained is raw with lambda =
            softplus(raw), so no step makes it negative; the gradient on raw is that on lambda times 1 - exp(-lambda).
    Source: a report, section 6.3; no paper. Chapter: RSE.
    """
    rate = check_number("rate", rate, above=0)
    return Encoding(bias=Penalty(float(rate)))


def rse(
    head_dim: int,
    base: float = 10000.0,
    *,
    rate: float = 0.01,
    order: str = "first",
    rotation: bool = True,
    penalty: bool = True,
    stick: bool = True,
) -> Encoding:
    r"""Rotary stick-breaking encoding, an `Encoding` at the places `rotate`, `bias` and `weigh`.

    compose(rope(head_dim, base), penalty(rate), stickbreaking(order=order, attend_current=True))

    Arguments:
        head_dim: D, even.
        base: of the rotation.
        rate: lambda at the start, greater than 0, per token. The report gives no value.
        order: "first" breaks the stick from key 0 on (the report), "recent" from the last key back, which needs a
            causal mask.
        rotation, penalty, stick: False leaves a part out, to see what it does; without the stick it is a softmax.
    Source: a report, section 6; no paper. Chapter: RSE.
    """
    rate = check_number("rate", rate, above=0)
    for name, value in (("rotation", rotation), ("penalty", penalty), ("stick", stick)):
        check_bool(name, value)
    parts = (
        (rotation, rope(head_dim, base)),
        (penalty, Encoding(bias=Penalty(float(rate)))),
        (stick, stickbreaking(order=order, attend_current=True)),
    )
    return compose(*(part for wanted, part in parts if wanted))
