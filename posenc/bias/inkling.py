r"""Inkling's bias: each query mixes its own curve over distance from a small bank of learned ones."""

import torch
from torch import nn

from ..encoding import Encoding, Gates
from ..errors import check_int, check_tensor
from ..positions import offsets


def curves(mix: torch.Tensor, bank: torch.Tensor, distance: torch.Tensor) -> torch.Tensor:
    r"""The bias at each distance, by the curve that each query mixes for itself; 0 in the future and beyond the bank.

    b_ij = sum over n of mix_in bank_n[i - j] for 0 <= i - j < E, else 0

    Arguments:
        mix: [..., Tq, n], the share of each curve, by query.
        bank: [n, E], the curves.
        distance: [..., Tq, Tk] whole numbers i - j.
    Returns: [..., Tq, Tk].
    Source: transformers 5.15, models/inkling. Chapter: When content moves the ruler.
    """
    check_tensor("mix", mix, "[..., Tq, n]", floating=True)
    check_tensor("bank", bank, "[n, E]", ndim=2, floating=True)
    if mix.shape[-1] != bank.shape[0]:
        raise ValueError(f"mix has {mix.shape[-1]} shares, it must have the {bank.shape[0]} of bank's curves")
    extent = bank.shape[1]
    own = mix @ bank.to(mix.dtype)  # [..., Tq, E]: each query's curve
    index = distance.clamp(0, extent - 1).expand(*own.shape[:-1], distance.shape[-1])
    return own.gather(-1, index).masked_fill((distance < 0) | (distance >= extent), 0.0)


class CurveBank(nn.Module):
    """The `bias` callable: the bank is shared by the heads, the mix is made from the layer's input."""

    reads_scores = False  # of At: PyTorch's fused attention can add this bias

    no_kernel = "Inkling's queries have a curve over distance each, and the kernels read one table a head"

    def __init__(self, num_curves, extent):
        super().__init__()
        self.bank = nn.Parameter(torch.empty(num_curves, extent))
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.normal_(self.bank, std=len(self.bank) ** -0.5)

    def forward(self, q, k, at):
        if q.shape[2] > k.shape[2]:
            raise ValueError(f"q has {q.shape[2]} tokens, k {k.shape[2]}: gates hold a mix a key, give q no more")
        mix = at.gates[:, :, k.shape[2] - q.shape[2] :]
        return curves(mix, self.bank, -offsets(at)[:, None])


def inkling(extent: int = 128, *, num_curves: int = 16) -> Encoding:
    r"""Inkling's content-dependent relative bias, an `Encoding` at the place `bias`, without any rotation.

    logit_ij = scale q_i . k_j + r_i . bank[:, i - j],  r_i = x_i W_r a head, made by `SelfAttention` from its input

    Arguments:
        extent: E, how many distances the curves know; a key farther back gets no bias.
        num_curves: n, how many curves the heads share.
    Convention: only the bias. Inkling also normalizes q and k, scales by 1/D, convolves keys and values, and in full
        layers multiplies the logits by a number that grows with the index: see the chapter.
    Source: transformers 5.15, models/inkling. Chapter: When content moves the ruler.
    """
    extent = check_int("extent", extent)
    num_curves = check_int("num_curves", num_curves)
    return Encoding(bias=CurveBank(num_curves, extent), gates=Gates((num_curves,)))
