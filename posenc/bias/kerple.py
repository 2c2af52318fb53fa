r"""KERPLE: a learned penalty on distance, logarithmic or a power, two numbers a head."""

import torch
from torch import nn

from ..encoding import Encoding
from ..errors import check_choice, check_int
from ..inputs import accumulation_dtype
from ..positions import distances

FORMS = ("log", "power")


class DistanceKernel(nn.Module):
    """The `bias` callable. Logarithms of r1 and r2 are trained, so that both stay positive."""

    reads_scores = False  # of At: PyTorch's fused attention can add this bias

    def __init__(self, num_heads, form):
        super().__init__()
        self.form = form
        self.log_r1 = nn.Parameter(torch.empty(num_heads))
        self.log_r2 = nn.Parameter(torch.empty(num_heads))
        self.reset_parameters()

    def reset_parameters(self):
        with torch.no_grad():
            self.log_r1.copy_(torch.linspace(0.0, -3.0, len(self.log_r1)))  # heads start apart, as ALiBi's do
        nn.init.constant_(self.log_r2, -0.7)  # r2 near 1/2

    def forward(self, q, k, at):
        dtype = accumulation_dtype(q)
        distance = distances(at)[:, None].abs().to(dtype)  # [B or 1, 1, Tq, Tk]
        r1, r2 = (r.to(dtype).exp()[:, None, None] for r in (self.log_r1, self.log_r2))
        if self.form == "log":
            return -r1 * torch.log1p(r2 * distance)
        apart = distance > 0  # the power of 0 has no gradient
        grown = torch.exp(r2.clamp(max=2) * distance.where(apart, 1.0).log())
        return -r1 * grown.where(apart, 0.0)


def kerple(num_heads: int, *, form: str = "log") -> Encoding:
    r"""KERPLE, an `Encoding` at the place `bias`: the kernels of distance that are conditionally positive definite.

    log:   -r1 log(1 + r2 |i - j|)        power: -r1 |i - j|^r2,  0 < r2 <= 2

    Arguments:
        num_heads: H; r1 and r2 are learned, one of each a head. `power` with r2 = 1 is ALiBi with learned slopes.
        form: "log" (the paper's best) or "power".
    Convention: the logarithms of r1 and r2 are trained, and start spread over the heads. The authors' code trains r1
        and r2 themselves, starts them at random and clamps them from below at 0.01. Fractional positions are fine.
    Paper: arXiv 2205.09921, section 4. Chapter: Relative position.
    """
    num_heads = check_int("num_heads", num_heads)
    check_choice("form", form, FORMS)
    return Encoding(bias=DistanceKernel(num_heads, form), num_heads=num_heads)
