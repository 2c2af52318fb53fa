"""What the labs ask for: the solutions beside the package, and beside numbers made by hand and by autograd."""

import math

import pytest
import torch
from torch.nn.functional import logsigmoid, normalize, softplus

import posenc
from posenc import alibi, cope, exposb, fox, learned, liere, rope, scaling, sinusoidal, stickbreaking
from posenc.lab.check import find, judge
from posenc.rotate import mrope, rope2d


def past(scores, diagonal=-1):
    return torch.ones(scores.shape[-2:], dtype=torch.bool).tril(diagonal)


def broken(order):
    def stick(logits):
        everything = torch.ones(1, len(logits), dtype=torch.bool)
        pieces, rest = stickbreaking.weigh(logits[None], everything, order, return_remainder=True)
        return (pieces[0], rest[0]) if order == "first" else pieces[0]

    return stick


def attend(method):
    """The package's attention, called as a kernel of the lab is."""

    def kernel(q, k, v, block_q, block_k, out, rest=None):
        out.copy_(posenc.attention(q[None], k[None], v[None], posenc.make(method), impl="torch")[0])
        if rest is not None:
            scores = q @ k.mT / math.sqrt(q.shape[-1])
            rest.copy_((-softplus(scores).masked_fill(~past(scores), 0.0).sum(-1)).exp())

    return kernel


def online_softmax(scores, values, block, lse, mean):
    lse.copy_(scores.logsumexp(-1))
    mean.copy_(scores.softmax(-1) @ values)


def yarn(dim, factor, trained, base):
    frequencies, attention_factor = scaling.yarn(dim, factor, trained=trained, base=base)
    return frequencies.float(), attention_factor


PACKAGE = {
    "alibi.slopes": alibi.slopes,
    "alibi.bias": alibi.bias,
    "comrope.skew": liere.skew,
    "cope.positions": cope.positions,
    "cope.lookup": cope.lookup,
    "exposb.lane_filter": exposb.band,
    "exposb.fade_logits": lambda scores, *how: scores * exposb.fade(*how),
    "exposb.fade_log": lambda scores, *how: scores + exposb.fade(*how).log(),
    "exposb.hazard_weights": lambda z, rate: exposb.hazard(z[None], torch.ones(1, len(z), dtype=torch.bool), rate)[0],
    "fox.decay": fox.decay,
    "kernels.unit_rows": lambda x, block, out: out.copy_(normalize(x, dim=-1)),
    "kernels.turn_halves": lambda x, at, w, block, out: out.copy_(rope.rotate(x.float(), at, w, layout="half")),
    "kernels.online_softmax": online_softmax,
    "kernels.attend": attend("nope"),
    "kernels.break_stick": attend("stickbreaking"),
    "learned.stretch": lambda table, length, prefix=0: learned.resize(table, length, prefix=prefix),
    "relative.shift": posenc.transformer_xl.shift,
    "relative.bucket": posenc.t5.bucket,
    "rope.inv_freq": rope.inv_freq,
    "rope.rotate": rope.rotate,
    "rope.rotate_half": lambda *x: rope.rotate(*x, layout="half"),
    "rope2d.axial_freqs": rope2d.axial,
    "rope2d.angles": rope2d.angles,
    "rope2d.rotate_axes": rope2d.rotate,
    "rope2d.positions_for": lambda layout: mrope.positions_for([p if isinstance(p, int) else (1, *p) for p in layout]),
    "rse.penalize": lambda z, *at: z + alibi.bias(*at[:2], torch.tensor([at[2]], dtype=z.dtype), symmetric=True)[0],
    "rse.stick": broken("first"),
    "scaling.linear": lambda dim, factor, base: scaling.linear(dim, factor, base=base)[0].float(),
    "scaling.ntk": lambda dim, factor, base: scaling.ntk(dim, factor, base=base)[0].float(),
    "scaling.yarn": yarn,
    "sinusoidal.table": sinusoidal.table,
    "stickbreaking.stick": broken("recent"),
    "stickbreaking.weigh": lambda scores: stickbreaking.weigh(scores, past(scores), return_remainder=True),
}


@pytest.mark.parametrize("name", PACKAGE)
def test_solution_is_what_the_package_computes(name):
    assert judge(find(name), PACKAGE[name]).right


def right(name):
    return find(name).reference


def normal(*shape, seed, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def test_alibi_window():
    for slope, share in ((0.3, 0.99), (0.01, 0.2), (1 / 256, 0.95)):
        n = right("alibi.window")(slope, share)
        assert 1 - math.exp(-slope * n) >= share > 1 - math.exp(-slope * (n - 1))


def test_cope_scores():
    q, k = torch.tensor([[2.0, 0.0], [0.0, 2.0]]), torch.tensor([[0.0, 0.0], [0.0, 0.0]])
    table = torch.tensor([[0.0, 0.0], [10.0, 100.0]])  # z at 1: 20 and 200; all gates are one half
    made = right("cope.cope_scores")(q, k, table)
    torch.testing.assert_close(made.tril(), torch.tensor([[10.0, 0.0], [200.0, 100.0]]))


def test_cope_sentence_logits_that_count_right_are_right_whatever_their_size():
    sure = lambda line: [math.inf if token in ".!?" else -11.0 - n % 7 for n, token in enumerate(line.split())]  # noqa: E731
    assert judge(find("cope.sentence_logits"), sure).right
    verdict = judge(find("cope.sentence_logits"), lambda line: sure(line)[1:])
    assert not verdict.right and "one logit a token" in verdict.message


def test_cope_positions_of_hidden_keys_are_nobodys_concern():
    hides = lambda logits, visible: cope.positions(logits, visible).masked_fill(~visible, -7.0)  # noqa: E731
    assert judge(find("cope.positions"), hides).right


def test_fox_gates():
    x, weight, bias = torch.tensor([[1.0, 2.0], [0.0, 0.0]]), torch.tensor([[3.0, -1.0]]), torch.tensor([-1.0])
    made = right("fox.log_forget")(x, weight, bias)  # one head, logits 0 and -1
    assert torch.allclose(made, torch.tensor([[0.5, 1 / (1 + math.e)]]).log()), made
    assert right("fox.log_forget")(x, weight, torch.tensor([-1000.0])).isfinite().all()
    slope, at = torch.tensor([0.25, 2.0]), torch.arange(7)
    gates = right("fox.alibi_gate")(slope).log()[:, None].expand(2, 7)
    seen = past(torch.zeros(7, 7), 0)
    assert torch.allclose(fox.decay(gates)[:, seen], alibi.bias(at, at, slope)[:, seen], atol=1e-5)


def test_fox_next_decay():
    gates = logsigmoid(normal(2, 9, seed=3))
    rows, c = fox.decay(gates), gates[:, :1]
    for t in range(1, 9):
        row, c = right("fox.next_decay")(c, gates[:, t])
        assert torch.allclose(row, rows[:, t, : t + 1], atol=1e-5), t


def test_rope_permutation():
    lanes, x, w, at = right("rope.permutation")(10), normal(3, 10, seed=4), rope.inv_freq(10), torch.arange(3) + 5
    assert torch.allclose(rope.rotate(x[:, lanes], at, w, layout="half"), rope.rotate(x, at, w)[:, lanes], atol=1e-5)


def test_rope_shift_error():
    q, one = torch.tensor([[2.0, 0.0]]), torch.tensor([1])
    # A code that stretches: the score is 4 at position 1, 36 at position 3.
    error = right("rope.shift_error")(lambda x, positions, w: x * positions[:, None], q, q, one, one, 2, None)
    assert float(error) == 32.0


def test_stick_by_rate_and_its_jacobian():
    s, d = normal(9, seed=11, dtype=torch.float64), torch.tensor([7.0, 6, 5, 4, 3, 2, 1, 0, 1], dtype=torch.float64)
    rate, jacobian = torch.tensor(0.3, dtype=torch.float64), torch.autograd.functional.jacobian
    true = jacobian(lambda r: broken("first")(s - r * d)[0], rate)
    assert torch.allclose(right("rse.by_rate")(s - rate * d, d), true)
    assert torch.allclose(right("stickbreaking.jacobian")(s), jacobian(broken("recent"), s))
    assert torch.allclose(right("stickbreaking.log_weights")(s), broken("recent")(s).log())
    logs = right("stickbreaking.log_weights")(torch.full((1000,), 2.0))
    assert torch.allclose(logs[0], 2.0 - 1000 * softplus(torch.tensor(2.0)), rtol=1e-5)


def test_scaling_by_hand():
    stopped = torch.tensor([False, True])
    angles = right("scaling.frozen_angles")(torch.tensor([2, 9]), torch.tensor([1.0, 0.5]), stopped, 5)
    assert torch.allclose(angles, torch.tensor([[2.0, 1.0], [9.0, 2.0]])), angles
    assert abs(float(right("scaling.pair_of_turns")(8, 3.0, 6 * math.pi * 10.0, 100.0)) - 2.0) < 1e-6
    kept = right("scaling.ramp")(128, 4096, 10000.0, 1.0, 32.0)
    assert (kept[:21] == 1).all() and (kept[46:] == 0).all() and abs(float(kept[33]) - 0.5) < 1e-6


def test_sinusoidal_rotation_and_terms():
    p = torch.arange(40)
    for k in (-3, 0, 11):
        moved = sinusoidal.table(p, 16) @ right("sinusoidal.rotation")(k, 16)
        assert torch.allclose(moved, sinusoidal.table(p + k, 16), atol=1e-4)
    x, A, code = normal(5, 8, seed=2), torch.eye(8).roll(1, 0), sinusoidal.table(torch.arange(5) + 3, 8)
    terms = right("sinusoidal.terms")(x, A, torch.arange(5) + 3)
    assert torch.allclose(terms.sum(0), (x + code) @ A @ (x + code).T, atol=1e-4)
    assert torch.allclose(terms[1], x @ A @ code.T, atol=1e-4)
    weight = normal(7, 8, seed=1) / 8**0.5
    out = right("sinusoidal.embed")(torch.tensor([[3, 3, 0]]), weight)
    assert torch.allclose(out[0] - 8**0.5 * weight[[3, 3, 0]], sinusoidal.table(torch.arange(3), 8), atol=1e-5)


def test_learned_count_and_fold():
    assert right("learned.count")(1024, 768, 12, "input") == 786_432
    assert right("learned.count")(10, 4, 3, "layer_qk") == right("learned.count")(10, 4, 3, "layer_qkv") == 120
    x, p, W = torch.ones(3, 4), torch.arange(6.0).reshape(3, 2), torch.arange(24.0).reshape(6, 4)
    torch.testing.assert_close(x @ W[:4] + right("learned.fold")(p, W), torch.cat((x, p), dim=-1) @ W)


def test_relative_shaw_term():
    q, table = torch.tensor([[2.0, 0, 0, 0], [0, 4.0, 0, 0]]), torch.arange(12.0).reshape(3, 4)
    made = right("relative.shaw_term")(q, table, torch.tensor([5, 9]), torch.tensor([2, 4, 5, 9, 30]))
    torch.testing.assert_close(made, torch.tensor([[0.0, 0.0, 4.0, 8.0, 8.0], [2.0, 2.0, 2.0, 10.0, 18.0]]))


def test_kernels_tile_kind():
    kinds = [right("kernels.tile_kind")(i, j, 16, 8, 40) for i in (0, 16, 32) for j in (0, 8, 16, 24, 32)]
    row = {"s": "skip", "w": "whole", "m": "mask"}
    assert kinds == [row[c] for c in "mmssswwmmsmmmmm"], kinds


def test_comrope_generators_and_rotations_are_those_of_the_package():
    torch.manual_seed(0)
    positions = torch.tensor([[0.0, 1.0], [2.0, -1.5], [0.3, 0.3]])
    for form in ("ap", "ld"):
        rotate = posenc.comrope.comrope(24, 2, form, block=4).rotate
        for head, P in enumerate(rotate.matrices):
            asked = (P, 2) if form == "ap" else (rotate.theta[head].mT, P)
            made = right(f"comrope.{form}_generators")(*asked)
            generators = rotate.generators()[head]  # [n, m, b, b]
            torch.testing.assert_close(made, generators.transpose(0, 1))
            turned = right("comrope.rotation")(positions, made)  # [m, T, b, b]
            torch.testing.assert_close(turned, liere.rotation(positions, generators).transpose(0, 1))


def test_comrope_commutator_error():
    turns = torch.zeros(3, 3, 3)  # about x, y and z: [X, Y] = Z
    for a, (i, j) in enumerate(((1, 2), (2, 0), (0, 1))):
        turns[a, i, j], turns[a, j, i] = -1.0, 1.0
    assert right("comrope.commutator_error")(turns) == 1
    assert right("comrope.commutator_error")(torch.stack((turns[0], turns[0], 3 * turns[1]))) == 3
    assert right("comrope.commutator_error")(torch.stack((turns[0], -2 * turns[0]))) == 0
