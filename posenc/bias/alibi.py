r"""ALiBi, attention with linear biases: a penalty on the logit that grows with distance."""

import torch
from torch import nn

from ..encoding import Encoding
from ..errors import check_bool, check_device, check_int, check_tensor
from ..fixed import FixedNumbers
from ..positions import check_positions


def slopes(num_heads: int) -> torch.Tensor:
    r"""The slope m_h of each head.

    m_h = 2^(-8h/H), h = 1 .. H, for H a power of two; else the slopes for the power of two p below H, followed by
    every other slope for 2p, as in the authors' code.

    Returns: [H] float32, on the CPU, the first head the steepest where H is a power of two.
    Paper: arXiv 2108.12409, section 3. Chapter: ALiBi.
    """
    num_heads = check_int("num_heads", num_heads)
    power = 1 << (num_heads.bit_length() - 1)  # the largest power of two up to num_heads
    own = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    between = [2 ** (-4 * h / power) for h in range(1, 2 * power + 1)][0::2]
    return torch.tensor((own + between)[:num_heads], dtype=torch.float32, device="cpu")


def bias(pos_q: torch.Tensor, pos_k: torch.Tensor, slopes: torch.Tensor, symmetric: bool = False) -> torch.Tensor:
    r"""The bias -m_h (pos_q - pos_k) that is added to the scaled logits.

    Arguments:
        pos_q, pos_k: [Tq] and [Tk] (or [B, Tq] and [B, Tk]), integers or floats, in tokens.
        slopes: [H].
        symmetric: True takes |pos_q - pos_k|, an extension for encoders that is not in the paper.
    Returns: [H, Tq, Tk] (or [B, H, Tq, Tk]), in the dtype of slopes. Causal masking is not included: without
        `symmetric` a key in the future gets a bonus, and nothing here hides it.
    Convention: the penalty is negative. Paper: arXiv 2108.12409, equation in section 3. Chapter: ALiBi.
    """
    pos_q, pos_k = check_positions("pos_q", pos_q), check_positions("pos_k", pos_k)
    check_tensor("slopes", slopes, "[H]", ndim=1, floating=True)
    check_bool("symmetric", symmetric)
    check_device("pos_k", pos_k, pos_q.device)
    check_device("slopes", slopes, pos_q.device)
    batches = {pos_q.shape[0], pos_k.shape[0]} if pos_q.ndim == 2 else {1}
    if pos_q.ndim > 2 or pos_k.ndim != pos_q.ndim or len(batches - {1}) > 1:
        shapes = f"{list(pos_q.shape)} and {list(pos_k.shape)}"
        raise ValueError(f"pos_q and pos_k must have shapes [Tq] and [Tk], or [B, Tq] and [B, Tk], got {shapes}")
    distance = (pos_q[..., :, None] - pos_k[..., None, :]).to(slopes.dtype)  # [..., Tq, Tk]
    if symmetric:
        distance = distance.abs()
    return -slopes[:, None, None] * distance[..., None, :, :]


class LinearBias(FixedNumbers):
    """The `bias` callable."""

    reads_scores = False  # of At: PyTorch's fused attention can add this bias

    @property
    def kernel(self):
        """The name of its twin, a variant in posenc.kernels."""
        return "symmetric" if self.symmetric else "linear"

    def kernel_inputs(self, q, at):
        """What the twin reads besides q and k: a [H], the slopes."""
        return {"a": self.here("slopes", q).to(torch.float32)}

    def __init__(self, num_heads, symmetric, learned):
        super().__init__()
        self.symmetric = symmetric
        self.fix(slopes=nn.Parameter(torch.empty(num_heads)) if learned else slopes(num_heads))
        self.reset_parameters()

    def reset_parameters(self):
        if isinstance(self.slopes, nn.Parameter):
            with torch.no_grad():
                self.slopes.copy_(slopes(len(self.slopes)))

    def forward(self, q, k, at):
        return bias(at.pos_q, at.pos_k, self.here("slopes", q), self.symmetric)


def alibi(num_heads: int, *, symmetric: bool = False, learned: bool = False) -> Encoding:
    r"""Attention with linear biases, an `Encoding` at the place `bias`.

    Arguments:
        num_heads: H, any number of heads; slopes as in `slopes`.
        symmetric: True penalizes |i - j|, which allows attention in both directions.
        learned: True makes the slopes parameters, starting from the paper's. The paper found no gain in that.
    Paper: arXiv 2108.12409. Chapter: ALiBi.
    """
    check_int("num_heads", num_heads)
    check_bool("symmetric", symmetric)
    check_bool("learned", learned)
    reason = "ALiBi penalizes the past only; symmetric=True penalizes both directions"
    bias = LinearBias(num_heads, symmetric, learned)
    return Encoding(bias=bias, causal_only=None if symmetric else reason, num_heads=num_heads)
