"""ExpoSB against the formulas of the report that defines it, section 5, in loops; the hazards of its name."""

import itertools
import math

import pytest
import torch
from loops import attend, close, dot, inputs, ladder, turn

import posenc
from posenc.several.exposb import exposb, fade, gain, hazard

SWITCHES = {
    "none": dict(gain=False, band=False, decay=False),
    "gain": dict(gain=True, band=False, decay=False),
    "band": dict(gain=False, band=True, decay=False),
    "decay": dict(gain=False, band=False, decay=True),
    "all": {},
}


# The report's formulas, one number at a time


def report_vector(x, m, alpha, w, mechanisms, per_pair, base=10000.0, boost=0.2):
    """Mechanisms 1 and 2: cos and sin times the gain, then each lane times its factor and the head's weight."""
    D = len(x)
    y = turn(x, m, ladder(D, base), factor=1 + boost * math.exp(-alpha * m) if "gain" in mechanisms else 1.0)
    if "band" in mechanisms:
        for d in range(D):
            lane = 2 * (d // 2) + 0.5 if per_pair else d
            G = math.exp(-((lane - D / 4) ** 2) / (2 * (D / 8) ** 2))
            y[d] *= w * (0.8 + 0.4 * G)
    return y


def report_fade(distance, rate=0.005, floor=0.7):
    return floor + (1 - floor) * math.exp(-rate * abs(distance))


def report(alphas, ws, mechanisms, on="logits", per_pair=False, place=lambda t: t, rate=0.005, floor=0.7, **turn):
    """logit(h, i, j, q_i, k_j) and what happens to a row of weights; `place` gives the position of an index."""

    def logit(h, i, j, q_i, k_j):
        q_turned = report_vector(q_i, place(i), alphas[h], ws[h], mechanisms, per_pair, **turn)
        k_turned = report_vector(k_j, place(j), alphas[h], ws[h], mechanisms, per_pair, **turn)
        score = dot(q_turned, k_turned) / math.sqrt(len(q_i))
        f = report_fade(place(i) - place(j), rate, floor)
        if "decay" in mechanisms and on == "logits":
            score *= f
        if "decay" in mechanisms and on == "log":
            score += math.log(f)
        return score

    return logit


ALPHAS, WEIGHTS = [0.001, 0.02], [1.0, 1.3]


def made(mechanisms, **options):
    """The encoding with these mechanisms, float64, its learned numbers at ALPHAS and WEIGHTS."""
    switches = {name: name in mechanisms for name in ("gain", "band", "decay")}
    encoding = exposb(4, 2, **switches, **options).double()
    if "gain" in mechanisms:
        encoding.rotate.decay_rates.data = torch.tensor(ALPHAS, dtype=torch.float64)
    if "band" in mechanisms:
        encoding.rotate.band_weights.data = torch.tensor(WEIGHTS, dtype=torch.float64)
    return encoding


MECHANISMS = [c for n in range(4) for c in itertools.combinations(("gain", "band", "decay"), n)]


@pytest.mark.parametrize("mechanisms", MECHANISMS, ids=lambda m: "+".join(m) or "none")
@pytest.mark.parametrize("queries, keys, causal", [(5, 5, True), (2, 6, True), (4, 4, False)], ids=str)
def test_attention_equals_the_report(mechanisms, queries, keys, causal):
    q, k, v = inputs(queries=queries, keys=keys)
    out, weights = posenc.attention(q, k, v, made(mechanisms), causal=causal, return_weights=True)
    expected_out, expected = attend(q, k, v, report(ALPHAS, WEIGHTS, mechanisms), causal=causal)
    close(weights, expected)
    close(out, expected_out)


@pytest.mark.parametrize("per_pair", [False, True])
@pytest.mark.parametrize("on", ["logits", "log"])
def test_options_equal_the_report_at_any_positions(on, per_pair):
    q, k, v = inputs(queries=4)
    positions, every = [3.5, 40, 41, 700], ("gain", "band", "decay")
    options = dict(rate=0.02, floor=0.4, base=50.0, boost=0.5)
    encoding = made(every, on=on, per_pair=per_pair, **options)
    _, weights = posenc.attention(q, k, v, encoding, pos_q=torch.tensor(positions), return_weights=True)
    logit = report(ALPHAS, WEIGHTS, every, on, per_pair, positions.__getitem__, **options)
    close(weights, attend(q, k, v, logit)[1])


def test_all_off_is_rope_bit_for_bit():
    off = exposb(8, 2, **SWITCHES["none"])
    assert off.places == ("rotate",) and not list(off.parameters())
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        q, k, v = inputs(queries=9, dim=8, dtype=dtype)
        ours = posenc.attention(q, k, v, off, impl="torch")
        assert torch.equal(ours, posenc.attention(q, k, v, posenc.make("rope", head_dim=8), impl="torch"))


# What is learned


def test_a_rate_that_training_took_below_zero_still_decays():
    """Without this a step of Adam across 0 makes the gain grow with the position, without bound."""
    q, k, v = inputs(queries=6)
    outputs = []
    for sign in (1, -1):
        encoding = made(("gain",))
        encoding.rotate.decay_rates.data *= sign
        outputs.append(posenc.attention(q, k, v, encoding, pos_q=torch.arange(6) * 1000))
    close(*outputs)
    assert outputs[0].isfinite().all()


def test_parameters_are_those_of_the_switches():
    count = {name: sum(p.numel() for p in exposb(64, 6, **switch).parameters()) for name, switch in SWITCHES.items()}
    assert count == {"none": 0, "gain": 6, "band": 6, "decay": 0, "all": 12}


# What the name promises


def walk(row, rate):
    """Walk back from the last key: stop at a key with probability 1 - e^-(softplus(z) + rate)."""
    pieces, alive = [0.0] * len(row), 1.0
    for j in reversed(range(len(row))):
        if row[j] is not None:
            stay = math.exp(-rate) / (1 + math.exp(row[j]))
            pieces[j], alive = alive * (1 - stay), alive * stay
    return pieces


def everywhere(z):
    return torch.ones_like(z, dtype=torch.bool)


@pytest.mark.parametrize("rate", [0.0, 0.01, 2.0])
def test_attention_with_hazards_equals_the_walk(rate):
    q, k, v = inputs(queries=6)
    encoding = posenc.Encoding(weigh=lambda scores, at: hazard(scores, at.visible, rate))
    out, weights = posenc.attention(q, k, v, encoding, return_weights=True)
    no_turn = lambda h, i, j, q_i, k_j: dot(q_i, k_j) / 2  # noqa: E731
    expected_out, expected = attend(q, k, v, no_turn, lambda row: walk(row, rate))
    close(weights, expected)
    close(out, expected_out)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("rate", [0.0, 1e-30, 0.1, 100.0])
def test_extreme_logits_stay_finite_with_their_gradients(dtype, rate):
    z = torch.tensor([[1e4, -1e4, 80.0, -80.0, 0.0], [-1e4] * 5, [1e4] * 5], dtype=dtype, requires_grad=True)
    weights = hazard(z, everywhere(z), rate)
    assert weights.isfinite().all() and (weights >= 0).all() and (weights.sum(-1) <= 1 + 1e-6).all()
    assert weights[2, -1] == 1 and (weights[2, :-1] == 0).all()
    (grad,) = torch.autograd.grad(weights.square().sum(), z)
    assert grad.isfinite().all()


def test_a_rate_for_each_head():
    at, rates = torch.arange(5.0), torch.tensor([0.1, 1.0])
    assert gain(at, rates[:, None]).shape == (2, 5) and fade(at, rates[:, None]).shape == (2, 5)
    assert gain(at, rates[:, None])[1].tolist() == gain(at, 1.0).tolist()
