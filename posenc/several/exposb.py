r"""ExpoSB: rotary attention with a gain by position, a band of lanes and a factor that fades with distance.

The report that defines it calls it exponential stick-breaking. It breaks no stick: `hazard` is what the name promises.
"""

import math

import torch
from torch import nn
from torch.nn.functional import logsigmoid, pad, softplus

from ..encoding import Encoding, softmax
from ..errors import check_bool, check_choice, check_int, check_number, check_tensor
from ..inputs import accumulation_dtype, check_visible
from ..positions import check_positions, distances
from ..rotate.rope import Rotary, ladder

FORMS = ("logits", "weights", "log")


def _check_rate(argument, rate, against):
    """Raise unless `rate` is a number of at least 0, or a tensor of floats that broadcasts against `against`."""
    if not isinstance(rate, torch.Tensor):
        return check_number(argument, rate, minimum=0)
    check_tensor(argument, rate, floating=True)
    try:
        torch.broadcast_shapes(rate.shape, against.shape)
    except RuntimeError:
        shapes = f"{list(rate.shape)} and {list(against.shape)}"
        raise ValueError(f"{argument} must broadcast against what it is multiplied with, got {shapes}") from None


def gain(positions: torch.Tensor, rates: torch.Tensor | float = 0.001, boost: float = 0.2) -> torch.Tensor:
    r"""The factor 1 + boost exp(-rate m) on a vector at position m, shape of positions + rates.

    Arguments:
        positions: m, integers or floats, in tokens.
        rates: per token; a number of at least 0, or a tensor that broadcasts against positions.
        boost: the extra at position 0.
    Source: the report's section 5.1, mechanism 1. Chapter: ExpoSB.
    """
    positions = check_positions("positions", positions)
    _check_rate("rates", rates, positions)
    boost = check_number("boost", boost)
    return 1 + boost * torch.exp(-rates * positions)


def band(head_dim: int, per_pair: bool = False) -> torch.Tensor:
    r"""The factor on each lane, 0.8 + 0.4 exp(-(l - D/4)^2 / (2 (D/8)^2)), l = 0 .. D-1.

    Arguments:
        head_dim: D, even.
        per_pair: True gives both lanes of a pair (2i, 2i+1) the factor of its middle, l = 2i + 1/2.
    Returns: [D] float64, on the CPU.
    Source: the report's section 5.1, mechanism 2. Chapter: ExpoSB.
    """
    head_dim = check_int("head_dim", head_dim, minimum=2, even=True)
    check_bool("per_pair", per_pair)
    lane = torch.arange(head_dim, dtype=torch.float64, device="cpu")
    if per_pair:
        lane = 2 * (lane // 2) + 0.5
    return 0.8 + 0.4 * torch.exp(-((lane - head_dim / 4) ** 2) / (2 * (head_dim / 8) ** 2))


def fade(distance: torch.Tensor, rate: torch.Tensor | float = 0.005, floor: float = 0.7) -> torch.Tensor:
    r"""The factor floor + (1 - floor) exp(-rate |distance|), which falls from 1 to the floor.

    Arguments:
        distance: a tensor, in tokens; its sign does not count.
        rate: per token; a number of at least 0, or a tensor that broadcasts against distance.
        floor: from 0 to 1, what is left far away.
    Source: the report's section 5.1, mechanism 3. Chapter: ExpoSB.
    """
    check_tensor("distance", distance)
    distance = distance if distance.is_floating_point() else distance.long()
    _check_rate("rate", rate, distance)
    floor = check_number("floor", floor, minimum=0)
    if floor > 1:
        raise ValueError(f"floor={floor} must be at most 1")
    return floor + (1 - floor) * torch.exp(-rate * distance.abs())


def hazard(scores: torch.Tensor, visible: torch.Tensor, rate: torch.Tensor | float = 0.0) -> torch.Tensor:
    r"""Exponential stick-breaking: a key survives the nearer ones' hazards and adds its own.

    r_ij = softplus(scores) + rate,   A_ij = (1 - exp(-r_ij)) exp(-sum of r_ik over the visible keys k nearer than j)

    Arguments:
        scores: [..., Tq, Tk] logits z.
        visible: bool, broadcastable to scores.
        rate: at least 0, added to each hazard, per key; 0 is stick-breaking attention, most recent key first.
    Returns: weights like scores, each at least 0, each row summing to at most 1.
    Source: ours; no paper defines it. Chapter: ExpoSB.
    """
    visible = check_visible(scores, visible)
    rate = check_number("rate", rate, minimum=0)

    hazards = (rate - logsigmoid(-scores)).masked_fill(~visible, 0.0)
    before = pad(hazards, (0, 1)).flip(-1).cumsum(-1).flip(-1)[..., 1:]  # of the keys nearer than j
    # log(1 - exp(-r)) = log((1 - exp(-rate)) + exp(-rate) sigmoid(z)): at rate 0 it is log sigmoid(z), without loss
    took = logsigmoid(scores)
    if rate > 0:
        took = torch.logaddexp(took - rate, torch.full_like(took, -rate).expm1().neg().log())
    return (took - before).exp().masked_fill(~visible, 0.0)


class GainedRotary(Rotary):
    """The `rotate` callable: RoPE, then the gain of the position and the factors of the lanes."""

    def __init__(self, inv_freq, num_heads, boost, fades, shares):
        super().__init__(inv_freq, "interleaved", 1.0)
        self.boost = boost
        self.decay_rates = nn.Parameter(torch.empty(num_heads)) if fades else None
        self.band_weights = nn.Parameter(torch.empty(num_heads)) if shares else None
        if shares:
            self.fix(lanes=band(2 * len(inv_freq), per_pair=shares == "pair"))
        self.reset_parameters()

    def reset_parameters(self):
        for parameter, start in ((self.decay_rates, 0.001), (self.band_weights, 1.0)):
            if parameter is not None:
                nn.init.constant_(parameter, start)

    def factors(self, x, positions):
        r"""What x [B, H, T, D] is multiplied by after the turn, broadcastable to it; positions [B or 1, T]."""
        dtype = accumulation_dtype(x)
        factor = torch.ones(1, 1, 1, 1, device=x.device, dtype=dtype)
        if self.decay_rates is not None:
            # without abs a step of training across 0 turns decay into growth, which overflows some hundred tokens on
            rates = self.decay_rates.to(dtype).abs()[:, None, None]
            factor = factor * gain(positions[:, None, :, None].to(dtype), rates, self.boost)  # [B or 1, H, T, 1]
        if self.band_weights is not None:
            factor = factor * self.band_weights.to(dtype)[:, None, None] * self.here("lanes", x)
        return factor

    def kernel_inputs(self, q):
        """What the twin reads besides q, k and positions: RoPE's, and the factors: rates, weights [H], the band [D]."""
        inputs = super().kernel_inputs(q)
        if self.decay_rates is not None:
            inputs |= {"rates": self.decay_rates.to(torch.float32).abs(), "boost": self.boost}
        if self.band_weights is not None:
            inputs |= {"weights": self.band_weights.to(torch.float32), "band": self.here("lanes", q)}
        return inputs

    def forward(self, q, k, at):
        dtype = accumulation_dtype(q)
        turned_q, turned_k = super().forward(q.to(dtype), k.to(dtype), at)
        by_q = self.factors(q, at.pos_q)
        by_k = by_q if at.pos_q is at.pos_k else self.factors(k, at.pos_k)
        return (turned_q * by_q).to(q.dtype), (turned_k * by_k).to(k.dtype)


class Fade(nn.Module):
    """The factor that fades with distance; the forms below say what it multiplies."""

    def __init__(self, num_heads, rate, floor, learn_rate):
        super().__init__()
        self.floor = floor
        self.num_heads, self.rate = num_heads, rate
        self.raw = nn.Parameter(torch.empty(num_heads)) if learn_rate else None  # softplus(raw), positive, is the rate
        self.reset_parameters()

    def reset_parameters(self):
        if self.raw is not None:
            nn.init.constant_(self.raw, self.rate + math.log(-math.expm1(-self.rate)))

    def rates(self, like):
        """The rate of each head [H], where `like` [B, H, ...] is, in the dtype of its logits."""
        dtype = accumulation_dtype(like)
        if self.raw is None:
            return torch.full((self.num_heads,), self.rate, device=like.device, dtype=dtype)
        return softplus(self.raw.to(dtype))

    def kernel_inputs(self, q, at):
        """What the kernel twins read besides q and k: a [H], the rates, and x [B, H, Tq], the floor."""
        floor = torch.full(q.shape[:3], self.floor, device=q.device, dtype=torch.float32)
        return {"a": self.rates(q).to(torch.float32), "x": floor}

    def factor(self, at, like):
        r"""The factor of each pair, [B or 1, H, Tq, Tk]."""
        dtype = accumulation_dtype(like)
        distance = distances(at)[:, None].to(dtype)
        return fade(distance, self.rates(like)[:, None, None], self.floor)


class FadedLogits(Fade):
    """The `weigh` callable of on="logits"."""

    kernel = "faded"  # its twin, a variant in posenc.kernels

    def forward(self, scores, at):
        return softmax(scores * self.factor(at, scores), at)


class FadedWeights(Fade):
    """The `weigh` callable of on="weights"."""

    no_kernel = "ExpoSB's fade stands on the weights, after the softmax, and the kernel's variants change logits only"

    def forward(self, scores, at):
        return softmax(scores, at) * self.factor(at, scores)


class FadedBias(Fade):
    """The `bias` callable of on="log"."""

    reads_scores = False  # of At: PyTorch's fused attention can add this bias
    kernel = "log_faded"

    def forward(self, q, k, at):
        return self.factor(at, q).log()


def exposb(
    head_dim: int, num_heads: int, *, gain: bool = True, band: bool = True, decay: bool = True, on: str = "logits",
    per_pair: bool = False, rate: float = 0.005, learn_rate: bool = False, base: float = 10000.0, boost: float = 0.2,
    floor: float = 0.7,
) -> Encoding:  # fmt: skip
    r"""ExpoSB, an `Encoding` at the places `rotate` and `weigh` (`rotate` and `bias` with on="log").

    Three mechanisms over RoPE, each with a switch; with all of them off it is RoPE.

    Arguments:
        head_dim: D, even. num_heads: H.
        gain: (1) queries and keys at position m grow by `gain`, with a learned rate a head, `decay_rates`, whose
            absolute value counts: the report sets no bound, and a negative rate would grow without one.
        band: (2) lanes are multiplied by `band` and by a learned number a head, `band_weights`.
        decay: (3) `fade`, the factor of a pair at its distance.
        on: what (3) multiplies: "logits" (the report), "weights" (rows then sum to less than 1), or "log", which adds
            the logarithm of the factor to the logits: the repaired form, a bias.
        per_pair: True gives the two lanes of a pair one factor, which keeps scores relative.
        rate, floor: of (3). learn_rate: True makes the rate a parameter, one a head.
        base, boost: of the rotation, and of (1).
    Source: a report, section 5; no paper. Chapter: ExpoSB.
    """
    head_dim = check_int("head_dim", head_dim, minimum=2, even=True)
    num_heads = check_int("num_heads", num_heads)
    switches = {"gain": gain, "band": band, "decay": decay, "learn_rate": learn_rate, "per_pair": per_pair}
    for name, value in switches.items():
        check_bool(name, value)
    check_choice("on", on, FORMS)
    rate = check_number("rate", rate, minimum=0)
    if learn_rate and rate == 0:
        raise ValueError(f"rate={rate} must be greater than 0 with learn_rate=True: softplus never reaches 0")
    boost = check_number("boost", boost)
    floor = check_number("floor", floor, above=0)
    if floor > 1:
        raise ValueError(f"floor={floor} must be at most 1")
    shares = ("pair" if per_pair else "lane") if band else None  # a factor of the band each
    places = {"rotate": GainedRotary(ladder(head_dim, base), num_heads, boost, gain, shares)}
    if decay:
        form = {"logits": FadedLogits, "weights": FadedWeights, "log": FadedBias}[on]
        places["bias" if on == "log" else "weigh"] = form(num_heads, rate, floor, learn_rate)
    return Encoding(**places, num_heads=num_heads, head_dim=head_dim)
