"""ExpoSB against the formulas of the report that defines it, section 5, in loops; what holds and what fails."""

import itertools
import math

import pytest
import torch
from loops import attend, close, dot, inputs, ladder, turn

import posenc
from posenc import exposb as module
from posenc.several.exposb import band, exposb, fade, gain, hazard
from posenc.weigh.stickbreaking import weigh

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
    positions = [3.5, 40, 41, 700]
    encoding = made(("gain", "band", "decay"), on=on, per_pair=per_pair, rate=0.02, floor=0.4, base=50.0, boost=0.5)
    _, weights = posenc.attention(q, k, v, encoding, pos_q=torch.tensor(positions), return_weights=True)
    logit = report(
        ALPHAS,
        WEIGHTS,
        ("gain", "band", "decay"),
        on,
        per_pair,
        positions.__getitem__,
        rate=0.02,
        floor=0.4,
        base=50.0,
        boost=0.5,
    )
    close(weights, attend(q, k, v, logit)[1])


def test_all_off_is_rope_bit_for_bit():
    off = exposb(8, 2, **SWITCHES["none"])
    assert off.places == ("rotate",) and not list(off.parameters())
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        q, k, v = inputs(queries=9, dim=8, dtype=dtype)
        ours = posenc.attention(q, k, v, off, impl="torch")
        assert torch.equal(ours, posenc.attention(q, k, v, posenc.make("rope", head_dim=8), impl="torch"))


# The numbers that the report gives, and those that it gives wrongly


def test_gain_is_a_fifth_at_the_start_and_far_from_gone_at_a_thousand():
    at = gain(torch.tensor([0.0, 1000.0, 3000.0], dtype=torch.float64))
    assert at[0] == 1.2
    assert round(at[1].item(), 3) == 1.074, "the report: back to baseline by about 1000"
    assert at[2] < 1.01


def test_fade_at_the_distances_of_the_report():
    f = fade(torch.tensor([0, 1, 5, 10, 50, 100, 500, 1000], dtype=torch.float64))
    expected = [1.0, 0.9985, 0.9926, 0.9854, 0.9336, 0.8820, 0.7246, 0.7020]
    assert [round(x, 4) for x in f.tolist()] == expected
    assert f[1] < 1, "the report: neighbors keep all"


def test_band_peaks_at_a_quarter_of_the_lanes():
    lanes = band(64)
    assert lanes.argmax() == 16 and abs(lanes[16] - 1.2) < 1e-15
    assert 0.8 <= lanes.min() and lanes.max() < 1.2 + 1e-12
    assert round(lanes[63].item(), 6) == 0.8 and round(lanes[0].item(), 3) == 0.854
    pairs = band(64, per_pair=True).view(32, 2)
    assert torch.equal(pairs[:, 0], pairs[:, 1])
    inside = torch.stack((band(64)[0::2], band(64)[1::2]))
    assert (pairs[:, 0] >= inside.amin(0) - 1e-3).all() and (pairs[:, 0] <= inside.amax(0) + 1e-3).all()


# What keeps scores relative


def scores(encoding, q, k, at_q, at_k):
    """q.k after `rotate`, with the query at each of at_q and the key at each of at_k."""
    at = posenc.At(torch.as_tensor(at_q)[None], torch.as_tensor(at_k)[None], None)
    turned_q, turned_k = encoding.rotate(q.expand(1, 1, len(at_q), -1), k.expand(1, 1, len(at_k), -1), at)
    return (turned_q * turned_k).sum(-1)[0, 0]


def spread(dim=64, offset=3, seed=0, **options):
    """By how much the score of one offset varies over positions, against |q||k|."""
    generator = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, 1, 1, 1, dim, dtype=torch.float64, generator=generator)
    at = torch.arange(0, 4000, 7)
    s = scores(exposb(dim, 1, **options).double(), q, k, at + offset, at)
    return ((s.max() - s.min()) / (q.norm() * k.norm())).item()


def test_gain_and_lanes_break_relativity_and_the_rest_keeps_it():
    off = dict(gain=False, band=False, decay=False)
    assert spread(**off) < 1e-12
    assert spread(**{**off, "band": True}, per_pair=True) < 1e-12
    assert 0.001 < spread(**{**off, "band": True}) < 0.02
    assert spread(**{**off, "gain": True}) > 0.01
    for on in module.FORMS:  # the fade reads the distance alone
        q, k, v = inputs(queries=9, dim=8)
        encoding = exposb(8, 2, gain=False, per_pair=True, on=on).double()
        at = torch.arange(9)
        close(posenc.attention(q, k, v, encoding, pos_q=at), posenc.attention(q, k, v, encoding, pos_q=at + 5000), 1e-9)


def test_lanes_add_a_term_that_turns_with_the_sum_of_the_positions():
    """score = sum over pairs of a q.R(n-m)k + e q.Z R(m+n) k, with Z = diag(1, -1)."""
    dim, m, n = 8, 37, 12
    q, k = torch.randn(2, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).tolist()
    c = band(dim).tolist()
    expected = 0.0
    for i in range(dim // 2):
        w = 10000.0 ** (-2 * i / dim)
        even, odd = c[2 * i] ** 2, c[2 * i + 1] ** 2
        (qa, qb), (ka, kb) = q[2 * i : 2 * i + 2], k[2 * i : 2 * i + 2]
        turn, sum_turn = (n - m) * w, (n + m) * w
        relative = qa * (ka * math.cos(turn) - kb * math.sin(turn)) + qb * (ka * math.sin(turn) + kb * math.cos(turn))
        mirrored = qa * (ka * math.cos(sum_turn) - kb * math.sin(sum_turn)) - qb * (
            ka * math.sin(sum_turn) + kb * math.cos(sum_turn)
        )
        expected += (even + odd) / 2 * relative + (even - odd) / 2 * mirrored
    only_band = exposb(dim, 1, **SWITCHES["band"]).double()
    actual = scores(only_band, torch.tensor(q, dtype=torch.float64), torch.tensor(k, dtype=torch.float64), [m], [n])
    close(actual, torch.tensor([expected], dtype=torch.float64))


def test_the_filter_per_pair_is_a_scaling_of_the_projections():
    """It commutes with the turn: scaling q and k before `rotate` gives the same, so no new function is reached."""
    q, k, v = inputs(queries=6, dim=8)
    c = band(8, per_pair=True)
    rope = posenc.make("rope", head_dim=8)
    filtered = exposb(8, 2, gain=False, decay=False, per_pair=True).double()
    close(posenc.attention(q, k, v, filtered), posenc.attention(q * c, k * c, v, rope))
    by_lane = exposb(8, 2, gain=False, decay=False).double()
    before = posenc.attention(q * band(8), k * band(8), v, rope)
    assert (posenc.attention(q, k, v, by_lane) - before).abs().max() > 1e-3


def test_gain_is_a_temperature_and_no_position():
    """It commutes with the turn too: early queries and keys are longer, their angles are RoPE's."""
    q, k, v = inputs(queries=6, dim=8)
    g = gain(torch.arange(6.0, dtype=torch.float64), float(torch.tensor(0.001)))[:, None]
    close(
        posenc.attention(q, k, v, exposb(8, 2, **SWITCHES["gain"]).double()),
        posenc.attention(q * g, k * g, v, posenc.make("rope", head_dim=8)),
    )


# The three forms of the fade


def only_fade(on, **options):
    return exposb(8, 2, gain=False, band=False, on=on, **options)


def test_on_logits_raises_a_far_key_whose_logit_is_negative_and_the_repaired_form_lowers_it():
    key_logits = torch.tensor([-4.0, -4.0, -4.0, -4.0], dtype=torch.float64)
    far = {}
    for on in module.FORMS:
        form = {"logits": module.FadedLogits, "weights": module.FadedWeights, "log": module.FadedBias}[on]
        part = form(1, 0.05, 0.7, False)
        at = posenc.At(torch.tensor([[60]]), torch.tensor([[0, 20, 40, 60]]), torch.ones(1, 1, 1, 4, dtype=torch.bool))
        z = key_logits.view(1, 1, 1, 4)
        weights = (z + part(z, z, at)).softmax(-1) if on == "log" else part(z, at)
        far[on] = weights[0, 0, 0].tolist()
    assert far["logits"][0] > 0.25 > far["logits"][-1], "equal logits of -4: the farthest key wins"
    for on in ("weights", "log"):
        assert far[on][0] < far[on][1] < far[on][2] < far[on][3]


def test_on_logits_the_sign_of_a_common_offset_decides_who_gains():
    """Softmax does not see a constant added to a row; the product does."""
    distance = torch.tensor([300.0, 100.0, 10.0, 0.0], dtype=torch.float64)
    f = fade(distance)
    for offset, sign in ((3.0, 1), (-3.0, -1)):
        weights = (f * offset).softmax(-1)
        assert (sign * weights.diff() > 0).all()
    close((f * 0.0).softmax(-1), torch.full((4,), 0.25, dtype=torch.float64))


def test_log_form_without_a_floor_is_alibi():
    distance = torch.arange(50.0, dtype=torch.float64)
    close(fade(distance, 0.25, 0).log(), -0.25 * distance)


# What is learned


@pytest.mark.parametrize("on", module.FORMS)
def test_every_learned_number_gets_a_gradient_and_matters(on):
    q, k, v = inputs(batch=1, queries=5)
    encoding = exposb(4, 2, on=on, learn_rate=True, rate=0.1).double()
    named = dict(encoding.named_parameters())
    place = "bias" if on == "log" else "weigh"
    assert set(named) == {"rotate.decay_rates", "rotate.band_weights", f"{place}.raw"}
    assert all(p.shape == (2,) for p in named.values())
    close(named["rotate.decay_rates"].detach(), torch.full((2,), 0.001, dtype=torch.float64), 1e-9)
    assert (named["rotate.band_weights"] == 1).all()
    close(getattr(encoding, place).rates(q).detach(), torch.full((2,), 0.1, dtype=torch.float64), 1e-7)

    def run(*values):
        return torch.func.functional_call(
            Attend(encoding), {f"encoding.{name}": value for name, value in zip(named, values)}, (q, k, v)
        )

    values = [p.detach().clone().requires_grad_() for p in named.values()]
    assert torch.autograd.gradcheck(run, values)
    out = run(*values)
    for i, name in enumerate(named):
        (grad,) = torch.autograd.grad(out.square().sum(), values[i], retain_graph=True)
        assert (grad.abs() > 1e-9).all(), name
        moved = [x.detach() * 1.5 if n == i else x.detach() for n, x in enumerate(values)]
        assert (run(*moved) - out).abs().max() > 1e-6, name


class Attend(torch.nn.Module):
    def __init__(self, encoding):
        super().__init__()
        self.encoding = encoding

    def forward(self, q, k, v):
        return posenc.attention(q, k, v, self.encoding)


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


def test_hazard_without_a_rate_is_stick_breaking():
    z = 5 * torch.randn(3, 2, 9, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for visible in (torch.ones(9, 9, dtype=torch.bool).tril(-1), torch.ones(9, 9, dtype=torch.bool).tril()):
        close(hazard(z, visible), weigh(z, visible))
    assert torch.equal(hazard(z, visible), hazard(z, visible, rate=0.0))


@pytest.mark.parametrize("rate", [0.0, 0.01, 2.0])
def test_attention_with_hazards_equals_the_walk(rate):
    q, k, v = inputs(queries=6)
    encoding = posenc.Encoding(weigh=lambda scores, at: hazard(scores, at.visible, rate))
    out, weights = posenc.attention(q, k, v, encoding, return_weights=True)
    no_turn = lambda h, i, j, q_i, k_j: dot(q_i, k_j) / 2  # noqa: E731
    expected_out, expected = attend(q, k, v, no_turn, lambda row: walk(row, rate))
    close(weights, expected)
    close(out, expected_out)


def test_hazard_without_matches_is_alibis_window():
    z = torch.full((1, 40), -80.0, dtype=torch.float64)
    rate, distance = 0.2, torch.arange(39.0, -1, -1, dtype=torch.float64)
    close(hazard(z, everywhere(z), rate)[0], (1 - math.exp(-rate)) * torch.exp(-rate * distance))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("rate", [0.0, 1e-30, 0.1, 100.0])
def test_extreme_logits_stay_finite_with_their_gradients(dtype, rate):
    z = torch.tensor([[1e4, -1e4, 80.0, -80.0, 0.0], [-1e4] * 5, [1e4] * 5], dtype=dtype, requires_grad=True)
    weights = hazard(z, everywhere(z), rate)
    assert weights.isfinite().all() and (weights >= 0).all() and (weights.sum(-1) <= 1 + 1e-6).all()
    assert weights[2, -1] == 1 and (weights[2, :-1] == 0).all()
    (grad,) = torch.autograd.grad(weights.square().sum(), z)
    assert grad.isfinite().all()


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_gradcheck_of_hazard(rate):
    z = torch.randn(2, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    visible = torch.ones(4, 5, dtype=torch.bool).tril(1)
    visible[2, 1] = False
    assert torch.autograd.gradcheck(lambda z: hazard(z, visible, rate), z)


def test_a_rate_for_each_head():
    at, rates = torch.arange(5.0), torch.tensor([0.1, 1.0])
    assert gain(at, rates[:, None]).shape == (2, 5) and fade(at, rates[:, None]).shape == (2, 5)
    assert gain(at, rates[:, None])[1].tolist() == gain(at, 1.0).tolist()


# Precision


def test_float32_parameters_serve_float64_to_its_last_digit():
    where = torch.tensor([[0, 3, 700]])
    here = posenc.At(where, where, None)
    x = torch.randn(1, 2, 3, 8, dtype=torch.float64)
    rates = torch.full((2,), 0.001).double()  # as float32 holds it
    factors = (1 + 0.2 * torch.exp(-rates[:, None] * where))[:, :, None] * band(8)
    turned = posenc.rope.rotate(x, where[:, None], posenc.rope.ladder(8, 10000.0)) * factors
    torch.testing.assert_close(exposb(8, 2).rotate(x, x, here)[0], turned, rtol=1e-14, atol=0)
    weigh = exposb(8, 2, learn_rate=True).weigh
    torch.testing.assert_close(weigh.rates(x), torch.nn.functional.softplus(weigh.raw.double()), rtol=1e-14, atol=0)


def test_half_precision_is_rounded_once():
    rough, positions = torch.randn(1, 4, 5, 8).half(), torch.arange(5)[None]
    turn, here = exposb(8, 4).rotate, posenc.At(positions, positions, None)
    assert torch.equal(turn(rough, rough, here)[0], turn(rough.float(), rough.float(), here)[0].half())


def test_a_floor_of_one_fades_nothing():
    q, k, v = inputs(heads=2, dim=8)
    still, none = exposb(8, 2, floor=1.0), exposb(8, 2, decay=False)
    close(posenc.attention(q, k, v, still), posenc.attention(q, k, v, none))


def test_what_the_kernel_is_told():
    q = torch.zeros(2, 4, 5, 8, dtype=torch.float16)
    values = exposb(8, 4, rate=0.25, floor=0.5).weigh.kernel_inputs(q, None)
    assert list(values) == ["a", "x"] and {value.dtype for value in values.values()} == {torch.float32}
    assert torch.equal(values["a"], torch.full((4,), 0.25)) and torch.equal(values["x"], torch.full((2, 4, 5), 0.5))
    assert {value.device.type for value in exposb(8, 4).weigh.kernel_inputs(q.to("meta"), None).values()} == {"meta"}
