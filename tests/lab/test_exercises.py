"""What the labs ask for, where it is no function of the package: held against numbers made by hand and by autograd."""

import math

import torch

import posenc
from posenc.lab.exercises import find, judge


def right(name):
    return find(name).reference


def normal(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_alibi_window():
    for slope, share in ((0.3, 0.99), (0.01, 0.2), (1 / 256, 0.95)):
        n = right("alibi.window")(slope, share)
        assert 1 - math.exp(-slope * n) >= share > 1 - math.exp(-slope * (n - 1))


def test_cope_scores():
    q, k = torch.tensor([[2.0, 0.0], [0.0, 2.0]]), torch.tensor([[0.0, 0.0], [0.0, 0.0]])
    table = torch.tensor([[0.0, 0.0], [10.0, 100.0]])  # z at 1: 20 and 200; all gates are one half
    made = right("cope.cope_scores")(q, k, table)
    torch.testing.assert_close(made.tril(), torch.tensor([[10.0, 0.0], [200.0, 100.0]]))


def test_cope_sentence_logits():
    logits = right("cope.sentence_logits")("no . yes ! we , they ? " + "word " * 500)
    assert torch.allclose(
        torch.sigmoid(logits.double()).flip(0).cumsum(0).flip(0)[:9],
        torch.tensor([3.0, 3, 2, 2, 1, 1, 1, 1, 0], dtype=torch.float64),
        atol=1e-6,
    )


def test_cope_sentence_logits_that_count_right_are_right_whatever_their_size():
    sure = lambda line: [math.inf if token in ".!?" else -11.0 - n % 7 for n, token in enumerate(line.split())]  # noqa: E731
    assert judge(find("cope.sentence_logits"), sure).right
    verdict = judge(find("cope.sentence_logits"), lambda line: sure(line)[1:])
    assert not verdict.right and "one logit a token" in verdict.message


def test_cope_lookup_that_reads_beyond_the_table_is_told_so():
    def runs_off(q, table, p):
        low = p.clamp(max=len(table) - 1).floor().long()
        z = q @ table.T
        return z.gather(-1, low) + (p - low) * (z.gather(-1, low + 1) - z.gather(-1, low))

    assert "row that is not there" in judge(find("cope.lookup"), runs_off).message


def test_cope_positions_of_hidden_keys_are_nobodys_concern():
    def hides(logits, visible):
        return right("cope.positions")(logits, visible).masked_fill(~visible, -7.0)

    assert judge(find("cope.positions"), hides).right


def test_fox_log_forget():
    x, weight, bias = torch.tensor([[1.0, 2.0], [0.0, 0.0]]), torch.tensor([[3.0, -1.0]]), torch.tensor([-1.0])
    made = right("fox.log_forget")(x, weight, bias)  # one head, logits 0 and -1
    assert torch.allclose(made, torch.tensor([[0.5, 1 / (1 + math.e)]]).log()), made
    assert right("fox.log_forget")(x, weight, torch.tensor([-1000.0])).isfinite().all()


def test_fox_alibi_gate():
    slope = torch.tensor([0.25, 2.0])
    gates = right("fox.alibi_gate")(slope).log()[:, None].expand(2, 7)
    at = torch.arange(7)
    past = torch.ones(7, 7, dtype=torch.bool).tril()
    assert torch.allclose(posenc.fox.decay(gates)[:, past], posenc.alibi.bias(at, at, slope)[:, past], atol=1e-5)


def test_fox_next_decay():
    gates = torch.nn.functional.logsigmoid(normal(2, 9, seed=3))
    rows, c = posenc.fox.decay(gates), gates[:, :1]
    for t in range(1, 9):
        row, c = right("fox.next_decay")(c, gates[:, t])
        assert torch.allclose(row, rows[:, t, : t + 1], atol=1e-5), t
    assert torch.allclose(c, gates.cumsum(-1), atol=1e-5)


def test_rope_permutation():
    lanes = torch.as_tensor(right("rope.permutation")(10))
    x, w = torch.randn(3, 10, generator=torch.Generator().manual_seed(4)), posenc.rope.inv_freq(10)
    half = posenc.rope.rotate(x[:, lanes], torch.arange(3) + 5, w, layout="half")
    assert torch.allclose(half, posenc.rope.rotate(x, torch.arange(3) + 5, w)[:, lanes], atol=1e-5)


def test_rope_shift_error():
    q = torch.tensor([[2.0, 0.0]])
    one = torch.tensor([1])
    # A code that stretches: the score is 4 at position 1, 36 at position 3.
    error = right("rope.shift_error")(lambda x, positions, w: x * positions[:, None], q, q, one, one, 2, None)
    assert float(error) == 32.0


def test_rse_penalize():
    made = right("rse.penalize")(torch.zeros(2, 3), torch.tensor([4, 1]), torch.tensor([1, 4, 9]), 0.5)
    assert torch.allclose(made, torch.tensor([[-1.5, 0.0, -2.5], [0.0, -1.5, -4.0]])), made


def test_rse_stick():
    pieces, rest = right("rse.stick")(torch.tensor([3.0, 0.25, 1.0]).log())  # bites 3/4, 1/5, 1/2
    assert torch.allclose(pieces, torch.tensor([0.75, 0.05, 0.1]), atol=1e-6), pieces
    assert abs(float(rest) - 0.1) < 1e-6
    pieces, rest = right("rse.stick")(torch.full((40,), -0.5))
    assert abs(float(pieces.sum() + rest) - 1) < 1e-5


def test_rse_by_rate():
    s = torch.randn(9, generator=torch.Generator().manual_seed(11), dtype=torch.float64)
    d = torch.tensor([7.0, 6, 5, 4, 3, 2, 1, 0, 1], dtype=torch.float64)
    rate = torch.tensor(0.3, dtype=torch.float64)
    true = torch.autograd.functional.jacobian(lambda r: right("rse.stick")(s - r * d)[0], rate)
    assert torch.allclose(right("rse.by_rate")(s - rate * d, d), true)


def test_scaling_frozen_angles():
    angles = right("scaling.frozen_angles")(
        torch.tensor([2, 9]), torch.tensor([1.0, 0.5]), torch.tensor([False, True]), 5
    )
    assert torch.allclose(angles, torch.tensor([[2.0, 1.0], [9.0, 2.0]])), angles


def test_scaling_pair_of_turns():
    assert abs(float(right("scaling.pair_of_turns")(8, 3.0, 6 * math.pi * 10.0, 100.0)) - 2.0) < 1e-6


def test_scaling_ramp():
    kept = right("scaling.ramp")(128, 4096, 10000.0, 1.0, 32.0)
    assert torch.allclose(kept[:21].float(), torch.ones(21)) and torch.allclose(kept[46:].float(), torch.zeros(18))
    assert abs(float(kept[33]) - 0.5) < 1e-6


def test_sinusoidal_rotation():
    p = torch.arange(40)
    for k in (-3, 0, 11):
        moved = posenc.sinusoidal.table(p, 16) @ right("sinusoidal.rotation")(k, 16)
        assert torch.allclose(moved, posenc.sinusoidal.table(p + k, 16), atol=1e-4)


def test_sinusoidal_embed():
    weight = torch.randn(7, 8, generator=torch.Generator().manual_seed(1)) / 8**0.5
    out = right("sinusoidal.embed")(torch.tensor([[3, 3, 0]]), weight)
    assert torch.allclose(out[0, 0] - 8**0.5 * weight[3], torch.tensor([0.0, 1] * 4), atol=1e-5)
    assert torch.allclose(
        out[0, 1] - out[0, 0], (posenc.sinusoidal.table(torch.arange(2), 8).diff(dim=0))[0], atol=1e-5
    )


def test_sinusoidal_terms():
    x, A = torch.randn(5, 8, generator=torch.Generator().manual_seed(2)), torch.eye(8).roll(1, 0)
    sum = x + posenc.sinusoidal.table(torch.arange(5) + 3, 8)
    terms = right("sinusoidal.terms")(x, A, torch.arange(5) + 3)
    assert torch.allclose(terms.sum(0), sum @ A @ sum.T, atol=1e-4)
    assert torch.allclose(terms[1], x @ A @ posenc.sinusoidal.table(torch.arange(5) + 3, 8).T, atol=1e-4)


def test_stickbreaking_stick():
    pieces = right("stickbreaking.stick")(torch.tensor([3.0, 0.25, 1.0]).log())  # bites 3/4, 1/5, 1/2
    assert torch.allclose(pieces, torch.tensor([0.3, 0.1, 0.5]), atol=1e-6), pieces
    assert right("stickbreaking.stick")(torch.zeros(40)).sum() <= 1


def test_stickbreaking_log_weights():
    logs = right("stickbreaking.log_weights")(torch.full((1000,), 2.0))
    assert torch.isfinite(logs).all()
    assert torch.allclose(logs[0], 2.0 - 1000 * torch.nn.functional.softplus(torch.tensor(2.0)), rtol=1e-5)


def test_stickbreaking_jacobian():
    row = torch.randn(8, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    true = torch.autograd.functional.jacobian(right("stickbreaking.stick"), row)
    assert torch.allclose(right("stickbreaking.jacobian")(row), true)


def test_learned_count():
    assert right("learned.count")(1024, 768, 12, "input") == 786_432
    assert right("learned.count")(10, 4, 3, "layer_qk") == right("learned.count")(10, 4, 3, "layer_qkv") == 120


def test_learned_fold():
    p, W = torch.arange(6.0).reshape(3, 2), torch.arange(24.0).reshape(6, 4)
    x = torch.ones(3, 4)
    torch.testing.assert_close(x @ W[:4] + right("learned.fold")(p, W), torch.cat((x, p), dim=-1) @ W)


def test_relative_shaw_term():
    q, table = torch.tensor([[2.0, 0, 0, 0], [0, 4.0, 0, 0]]), torch.arange(12.0).reshape(3, 4)
    made = right("relative.shaw_term")(q, table, torch.tensor([5, 9]), torch.tensor([2, 4, 5, 9, 30]))
    torch.testing.assert_close(made, torch.tensor([[0.0, 0.0, 4.0, 8.0, 8.0], [2.0, 2.0, 2.0, 10.0, 18.0]]))


def test_kernels_turn_halves():
    x, at, w = normal(7, 10, seed=4), torch.arange(7) + 100, posenc.rope.inv_freq(10)
    for block in (2, 8):
        out = torch.full_like(x, float("nan"))
        right("kernels.turn_halves")(x, at, w, block, out)
        assert torch.allclose(out, posenc.rope.rotate(x, at, w, layout="half"), atol=1e-4), block


def test_kernels_attend():
    q, k, v = (2 * normal(2, 37, 16, seed=n) for n in (7, 8, 9))
    wanted = posenc.attention(q[None], k[None], v[None], posenc.make("nope"), impl="torch")[0]
    for blocks in ((16, 16), (16, 64), (32, 16)):
        out = torch.full_like(q, float("nan"))
        right("kernels.attend")(q, k, v, *blocks, out)
        assert torch.allclose(out, wanted, atol=1e-4), blocks


def test_kernels_break_stick():
    q, k, v = (2 * normal(2, 37, 16, seed=n) for n in (7, 8, 9))
    wanted = posenc.attention(q[None], k[None], v[None], posenc.make("stickbreaking"), impl="torch")[0]
    for blocks in ((16, 16), (16, 64), (32, 16)):
        out, rest = torch.full_like(q, float("nan")), torch.full((2, 37), float("nan"))
        right("kernels.break_stick")(q, k, v, *blocks, out, rest)
        assert torch.allclose(out, wanted, atol=1e-4), blocks
        right("kernels.break_stick")(q, k, torch.ones_like(v), *blocks, out, rest)
        assert torch.allclose(out[..., 0] + rest, torch.ones(2, 37), atol=1e-5)


def test_kernels_tile_kind():
    kinds = [right("kernels.tile_kind")(i, j, 16, 8, 40) for i in (0, 16, 32) for j in (0, 8, 16, 24, 32)]
    row = {"s": "skip", "w": "whole", "m": "mask"}
    assert kinds == [row[c] for c in "mmssswwmmsmmmmm"], kinds


def test_rope2d_positions_for():
    ids = right("rope2d.positions_for")([1, (2, 3), (1, 1), 2])
    picture = [[1, 1, 1], [1, 1, 2], [1, 1, 3], [1, 2, 1], [1, 2, 2], [1, 2, 3]]
    assert ids.tolist() == [[0, 0, 0], *picture, [4, 4, 4], [5, 5, 5], [6, 6, 6]]


def test_comrope_generators_and_rotations_are_those_of_the_package():
    torch.manual_seed(0)
    positions = torch.tensor([[0.0, 1.0], [2.0, -1.5], [0.3, 0.3]])
    for form in ("ap", "ld"):
        rotate = posenc.comrope.comrope(24, 2, form, block=4).rotate
        for head, P in enumerate(rotate.matrices):
            made = (
                right("comrope.ap_generators")(P, 2)
                if form == "ap"
                else right("comrope.ld_generators")(rotate.theta[head].mT, P)
            )
            generators = rotate.generators()[head]  # [n, m, b, b]
            torch.testing.assert_close(made, generators.transpose(0, 1))
            turned = right("comrope.rotation")(positions, made)  # [m, T, b, b]
            torch.testing.assert_close(turned, posenc.liere.rotation(positions, generators).transpose(0, 1))


def test_comrope_commutator_error():
    turns = torch.zeros(3, 3, 3)  # about x, y and z: [X, Y] = Z
    for a, (i, j) in enumerate(((1, 2), (2, 0), (0, 1))):
        turns[a, i, j], turns[a, j, i] = -1.0, 1.0
    assert right("comrope.commutator_error")(turns) == 1
    assert right("comrope.commutator_error")(torch.stack((turns[0], turns[0], 3 * turns[1]))) == 3
    assert right("comrope.commutator_error")(torch.stack((turns[0], -2 * turns[0]))) == 0
