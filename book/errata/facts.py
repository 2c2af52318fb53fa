r"""Mistakes in circulation: a check for each row, as the page shows it.

A check asserts both sides: what holds passes, and the claim fails. It returns {name: text}, the numbers of its row that
stand in no file. All compute in float64, from seed 0, and leave torch as it was.
"""

import functools
import math

import torch

from posenc import rope, sinusoidal
from posenc.attention import attention
from posenc.bias.transformer_xl import transformer_xl
from posenc.chapters.rope.exercises import masks_lanes
from posenc.encoding import Encoding
from posenc.lab.experiments import half_width, load_results
from posenc.lab.write import normal, say_all, seeded

ORDER = [2, 0, 1, 5, 4, 3]  # six tokens, shuffled
PREFIX = [3, 1, 4, 0, 2, 5]  # six tokens, the last where it was
TOKENS = [[7, 3, 42, 11, 5, 28]]
WIDTH = 384  # of the report's model
DISTANCES = (0, 1, 4, 16, 64, 256, 1024)
ROWS = []  # every check, in the page's order


def numbers():
    """Give the prose every number of the page; an assertion fails where a claim holds."""
    for row in ROWS:
        say_all("errata", row() or {})


def check(function):
    """A row's check: in float64 and from seed 0, while torch's default and random numbers stay as they were."""

    @functools.wraps(function)
    def run(*arguments):
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            return seeded(lambda: function(*arguments))
        finally:
            torch.set_default_dtype(default)

    ROWS.append(run)
    return run


def tiny(value) -> str:
    """A difference by its power of ten: rounding, if all is well."""
    return "0" if value == 0 else f"{value:.0e}".replace("-", "−")


def layer(x, causal=False, encoding=None):
    """One layer of attention with fixed random projections; x [1, 1, T, 8]."""
    w = normal(3, 8, 8) / math.sqrt(8)
    return attention(x @ w[0], x @ w[1], x @ w[2], encoding or Encoding(), causal=causal)


def pair_frequencies(width=WIDTH):
    """The sinusoid's frequencies, read off the table itself: each pair is (sin, cos) of its angle at position 1."""
    one_step = sinusoidal.table(torch.tensor([1.0]), width)[0].double()
    return torch.atan2(one_step[0::2], one_step[1::2])


def rises(method: str, kind="whole"):
    """[seeds]: the loss at the longest context less that at the training length, in the book's text study."""
    runs = load_results("train_short_test_long")["methods"][method]
    return torch.tensor(runs[kind])[:, -1] - torch.tensor(runs["whole"])[:, 0]


def lane_rises() -> dict:
    """{lanes stopped: mean rise of the loss} of RoPE, with some of its pairs stopped beyond training."""
    stopped = {kind: torch.tensor(loss) for kind, loss in load_results("rope_surgery")["targets"].items()}
    return {kind: (loss[:, -1] - loss[:, 0]).mean() for kind, loss in stopped.items()}


def shuffling_changes(model):
    """How far a model's outputs are from only moving along when its tokens are shuffled."""
    tokens = torch.tensor(TOKENS)
    with torch.no_grad():
        there = model(tokens[:, ORDER]).last_hidden_state
        return (there - model(tokens).last_hidden_state[:, ORDER]).abs().max()


@check
def invariant():
    """Without position a shuffled text has shuffled outputs, not the same ones."""
    x = normal(1, 1, 6, 8, seed=1)
    plain, shuffled = layer(x), layer(x[:, :, ORDER])
    equivariant, in_place = ((shuffled - other).abs().max() for other in (plain[:, :, ORDER], plain))
    assert equivariant < 1e-12 and in_place > 0.1
    return {"equivariant": tiny(equivariant), "invariant": f"{in_place:.1f}"}


@check
def causal():
    """Under a causal mask one layer's last token is blind to the order of its prefix, two layers' is not."""
    x = normal(1, 1, 6, 8, seed=1)
    once = [layer(y, causal=True) for y in (x[:, :, PREFIX], x)]
    twice = [layer(y, causal=True) for y in once]
    one, two = ((ours - theirs)[:, :, -1].abs().max() for ours, theirs in (once, twice))
    assert one < 1e-12 and two > 1e-2
    return {"one_layer": tiny(one), "two_layers": f"{two:.2f}"}


@check
def slow():
    """The first pair is the fastest."""
    omega = pair_frequencies()
    assert abs(omega[0] - 1) < 1e-6 and (omega.diff() < 0).all()
    return {"first_wave": f"{2 * math.pi / omega[0]:.1f}", "last_wave": f"{2 * math.pi / omega[-1]:,.0f}"}


@check
def last():
    """The last frequency is one step short of 1/10000."""
    ratio, ratio_64 = (w[-1] * 10000 for w in (pair_frequencies(), rope.inv_freq(64, dtype=torch.float64)))
    assert abs(ratio - 10000 ** (2 / WIDTH)) < 1e-4 and ratio > 1.04 and ratio_64 > 1.3
    return {"last_ratio": f"{ratio:.2f}", "last_ratio_64": f"{ratio_64:.2f}"}


@check
def wavelength():
    """Over b^(2k/d) tokens a pair turns by one radian, over 2 pi times as many by a turn."""
    claimed, omega = 10000 ** (2 * 10 / WIDTH), pair_frequencies()[10]
    angle, turn = omega * claimed, 2 * math.pi / omega
    assert abs(angle - 1) < 1e-4 and abs(turn / claimed - 2 * math.pi) < 1e-3
    assert abs((omega * claimed).cos() - 1) > 0.4  # no turn, so the value has not come back
    return {"wave_claimed": f"{claimed:.2f}", "wave_true": f"{turn:.2f}", "wave_angle": f"{angle:.0f}"}


@check
def fourier():
    """Frequencies of equal ratios, not equal steps: at 64 positions they span far less than 64 dimensions."""
    position = torch.arange(64.0)
    ladder = sinusoidal.table(position, 64).double()
    angle = 2 * math.pi * position[:, None] * torch.arange(33.0) / 64
    basis = torch.cat((angle.cos(), angle[:, 1:32].sin()), dim=1)  # sin is zero at the first and last frequency
    rank, basis_rank = (int(torch.linalg.matrix_rank(lanes, rtol=1e-6)) for lanes in (ladder, basis))
    assert rank < 40 and basis_rank == 64 == ladder.shape[1] == basis.shape[1]
    omega = pair_frequencies()
    assert (omega[1:] / omega[:-1]).std() < 1e-6 < omega.diff().std()
    return {"rank": f"{rank}", "fourier_rank": f"{basis_rank}"}


@check
def between():
    """A step is a rotation of each pair; the mean of two places is no place between them."""
    table = sinusoidal.table(torch.arange(40.0), WIDTH).double()
    turned = rope.rotate(table[10:11].float(), torch.tensor([-7]), pair_frequencies().float())[0]
    rotated = (turned - table[17]).abs().max()  # (sin, cos) turn back
    mean = (table[0] + table[20]) / 2
    short, off = mean.norm() / table[10].norm(), (mean - table[10]).abs().max()
    assert rotated < 1e-4 and short < 0.95 and off > 0.5
    return {"between_turned": tiny(rotated), "between_length": f"{short:.0%}", "between_off": f"{off:.1f}"}


@check
def unseen(method="sinusoidal"):
    """A model trained with the sinusoid gets worse beyond the training length."""
    assert (rises(method) > 5 * load_results("train_short_test_long")["tolerance"]).all()


@check
def through():
    """With all weights equal, what was added to a token still comes through its value; a rotation does not."""
    x, w_v = normal(1, 1, 6, 8), normal(8, 8, seed=1) / math.sqrt(8)

    def output(encoding, added, at):
        token = x + sinusoidal.table(at.double(), 8) if added else x
        return attention(torch.zeros_like(x), token, token @ w_v, encoding, pos_q=at)

    here, there = torch.arange(6), torch.arange(7, 13)
    arms = (Encoding(), True), (rope.rope(8), False)
    added, turned = ((output(*arm, there) - output(*arm, here)).abs().max() for arm in arms)
    assert added > 0.1 and turned < 1e-12
    return {"through_added": f"{added:.1f}", "through_turned": tiny(turned)}


@check
def fits():
    """In the book's text study the learned table ties with the sinusoid where both were trained."""
    runs = load_results("train_short_test_long")["methods"]
    loss = {name: torch.tensor(runs[name]["whole"])[:, 0] for name in ("learned", "sinusoidal", "nope")}
    gap = (loss["learned"] - loss["sinusoidal"]).tolist()
    assert abs(sum(gap) / len(gap)) < half_width(gap) and loss["nope"].min() > loss["learned"].max()


@check
def bert():
    """BERT's positions are in its embeddings: another attention leaves them there."""
    from transformers import BertConfig, BertModel

    sizes = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = BertModel(BertConfig(**sizes, intermediate_size=64, initializer_range=0.2)).double().eval()
    assert not any("position" in name for name, _ in model.encoder.named_parameters())
    with_table = shuffling_changes(model)
    model.embeddings.position_embeddings.weight.data.zero_()
    without = shuffling_changes(model)
    assert with_table > 0.1 and without < 1e-10
    return {"bert": f"{with_table:.1f}", "bert_zero": tiny(without)}


@check
def concat():
    """Concatenation followed by a matrix is a sum of two projections."""
    word, place = normal(10, 16), sinusoidal.table(torch.arange(10.0), 16).double()
    project = normal(32, 24, seed=1)
    beside, alone = torch.cat((word, place), dim=-1) @ project, word @ project[:16]
    apart = (beside - (alone + place @ project[16:])).abs().max()
    assert apart < 1e-12 and (beside - alone).abs().max() > 0.1
    return {"concat": tiny(apart)}


@check
def xl():
    """Transformer-XL's weights need all four terms of its score."""
    heads, length, dim = 2, 12, 8
    q, k, v = normal(3, 1, heads, length, dim, seed=2)
    encoding = transformer_xl(heads, dim).double()
    bias = encoding.bias
    with torch.no_grad():
        bias.u.copy_(normal(heads, dim, seed=3))
        bias.v.copy_(normal(heads, dim, seed=4))
        _, whole = attention(q, k, v, encoding, return_weights=True)
        offsets = torch.arange(length)[:, None] - torch.arange(length)
        rows = sinusoidal.table(offsets.flatten().double(), heads * dim).double() @ bias.w_r.T
        rows = rows.view(length, length, heads, dim).movedim(2, 0)  # W_R R_(i-j), [H, T, T, D]
        a = torch.einsum("bhid,bhjd->bhij", q, k)
        b = torch.einsum("bhid,hijd->bhij", q, rows)
        c = torch.einsum("hd,bhjd->bhj", bias.u, k)[:, :, None]
        d = torch.einsum("hd,hijd->hij", bias.v, rows)
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        logits = [(terms / math.sqrt(dim)).masked_fill(future, -torch.inf) for terms in (a + b + c + d, a + b)]
    four_off, two_off = ((scores.softmax(-1) - whole).abs().max() for scores in logits)
    assert four_off < 1e-6 and two_off > 0.1
    return {"xl_four": tiny(four_off), "xl_two": f"{two_off:.1f}"}


@check
def t5():
    """T5's encoder and decoder each have a relative table in their self-attention, and none across."""
    from transformers import T5Config, T5Model

    sizes = {"vocab_size": 50, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_heads": 4, "num_layers": 2}
    model = T5Model(T5Config(**sizes, dropout_rate=0.0)).double().eval()
    tables = [name for name, _ in model.named_parameters() if "relative" in name or "position" in name]
    assert [name.split(".")[0] for name in tables] == ["encoder", "decoder"]
    assert all(".SelfAttention.relative_attention_bias" in name for name in tables)
    memory, tokens = normal(1, 6, 32), torch.tensor(TOKENS)
    with torch.no_grad():
        read = [model.decoder(tokens, encoder_hidden_states=m)[0] for m in (memory, memory[:, ORDER])]
    cross = (read[0] - read[1]).abs().max()
    bias = model.get_parameter(tables[0])
    bias.data.mul_(5)  # a fresh table is faint
    encoder = shuffling_changes(model.encoder)
    bias.data.zero_()
    without = shuffling_changes(model.encoder)
    assert cross < 1e-10 and encoder > 0.01 and without < 1e-10
    names = " and ".join(f"the {name.split('.')[0]}'s self-attention" for name in tables)
    return {"t5_tables": names, "t5_cross": tiny(cross), "t5_encoder": f"{encoder:.2f}", "t5_zero": tiny(without)}


@check
def sign():
    """The score of query m and key n is that of a key turned by n - m."""
    w = rope.inv_freq(16, dtype=torch.float64)
    (q, k), m, n = normal(2, 16, seed=5), 91, 17

    def turn(x, position):
        return rope.rotate(x[None], torch.tensor([position]), w)[0]

    score = turn(q, m) @ turn(k, n)
    right, wrong = (abs(score - q @ turn(k, offset)) for offset in (n - m, m - n))
    assert right < 1e-12 and wrong > 0.1
    return {"sign_right": tiny(right), "sign_wrong": f"{wrong:.1f}"}


@check
def exponent():
    """Counted from zero, i - 1 in the exponent makes all frequencies larger by one factor."""
    mixed = 10000.0 ** (-2 * (torch.arange(32) - 1) / 64)
    factor = mixed / rope.inv_freq(64, dtype=torch.float64)
    assert rope.inv_freq(64)[0] == 1 and mixed[0] > 1.3
    assert (factor - 10000 ** (2 / 64)).abs().max() < 1e-9
    return {"exponent": f"{factor[0]:.2f}"}


@check
def minus():
    """With the minus a neighbor's score is near the own one; without, it is anything."""
    q = torch.ones(1, 64)
    right = rope.inv_freq(64, dtype=torch.float64)
    kept = [(rope.rotate(q, torch.tensor([1]), w) @ q.T).item() / 64 for w in (right, 1 / right)]
    assert right.max() <= 1 and kept[0] > 0.9 and kept[1] < 0.5
    return {"minus_last": f"{(1 / right).max():,.0f}", "minus_right": f"{kept[0]:.0%}", "minus_wrong": f"{kept[1]:.0%}"}


@check
def decay():
    """Scores of unrelated queries and keys stay as they are at any distance; those of equal ones fall."""
    w = rope.inv_freq(64, dtype=torch.float64)
    q, k = normal(2, 10_000, 64, seed=6)

    def scores(keys, distance):
        return (q * rope.rotate(keys, torch.tensor(distance).expand(len(keys)), w)).sum(-1) / 8

    unrelated = [scores(k, distance) for distance in DISTANCES]
    spread = [s.std() for s in unrelated]
    near, at_40, at_100, far = (scores(q, distance).mean() for distance in (0, 40, 100, DISTANCES[-1]))
    assert max(abs(s.mean()) for s in unrelated) < 0.03 and max(spread) - min(spread) < 0.03
    assert far < near / 2 and at_40 < at_100
    same = {"same_near": near, "same_far": far, "same_40": at_40, "same_100": at_100}
    texts = {name: f"{score:.1f}" for name, score in same.items()}
    return texts | {"decay_pairs": f"{len(q):,}", "decay_low": f"{min(spread):.2f}", "decay_high": f"{max(spread):.2f}"}


@check
def extrapolates(method="rope"):
    """RoPE gets worse beyond the training length, less with attention cut, and less with its pairs stopped."""
    rise, cut, lanes = rises(method), rises(method, "cut"), lane_rises()
    assert (rise > 5 * load_results("train_short_test_long")["tolerance"]).all() and (cut < rise / 5).all()
    assert 0 < lanes["all"] < lanes["none"] / 2


@check
def masked():
    """Masked even and odd lanes never meet: lengths change, and scores with the place."""
    w, at = rope.inv_freq(16, dtype=torch.float64), torch.arange(64)
    lone = torch.zeros(64, 16)
    lone[:, 0] = 1
    factors = masks_lanes(lone, at, w).norm(dim=-1)
    assert (masks_lanes(lone, at, w)[:, 1:] == 0).all() and (rope.rotate(lone, at, w)[9:10, 1].abs() > 0.1).all()
    assert factors.min() < 0.1 and factors.max() > 1.4
    q, k = normal(2, 1, 16, seed=5)
    by_mask, by_rope = (
        [(turn(q, at[[s + 5]], w) * turn(k, at[[s]], w)).sum() for s in (0, 40)] for turn in (masks_lanes, rope.rotate)
    )
    shift = abs(by_mask[0] - by_mask[1])
    assert shift > 0.5 and abs(by_rope[0] - by_rope[1]) < 1e-12
    return {"masked_low": f"{factors.min():.2f}", "masked_high": f"{factors.max():.2f}", "masked_shift": f"{shift:.1f}"}


@check
def partial():
    """Half-split rotation of three lanes, with tables cut to three, changes lengths; of four lanes it does not."""
    x, w = normal(100, 4), rope.inv_freq(4, dtype=torch.float64)

    def turn(x):
        lanes, half = x.shape[-1], x.shape[-1] // 2
        angle = torch.cat((w, w))[:lanes] * 3.0  # position 3, in tables made for four lanes
        other = torch.cat((-x[:, half:], x[:, :half]), dim=-1)
        return x * angle.cos() + other * angle.sin()

    changed = [(turn(x[:, :lanes]).norm(dim=-1) / x[:, :lanes].norm(dim=-1) - 1).abs().max() for lanes in (3, 4)]
    assert changed[0] > 0.05 and changed[1] < 1e-12
    try:
        rope.rope(4, rotary_dim=3)
    except ValueError:
        return {"partial_norm": f"{changed[0]:.0%}", "partial_four": tiny(changed[1])}
    raise AssertionError("an odd number of lanes was accepted")


@check
def fused(n=8192, dim=64, block=64):
    """Rotated inside the loop over key blocks, each key turns once for each block of queries."""

    def turned_lanes(length):
        queries = keys = 0
        for _ in range(0, length, block):  # a program for each block of queries
            queries += block * dim  # turned before its loop
            for _ in range(0, length, block):
                keys += block * dim  # turned inside its loop
        return queries, keys

    queries, keys = turned_lanes(n)
    growth = sum(turned_lanes(2 * n)) / (queries + keys)
    assert queries == n * dim and keys == n * dim * (n // block) and growth > 3.9
    return {"fused_growth": f"{growth:.2f}", "fused_n": f"{n:,}", "fused_again": f"{keys // (n * dim)}"}


@check
def padded():
    """A head of 80 in a tile of 128: other frequencies; a head of 64 fills its tile."""
    own, tile = rope.inv_freq(80, dtype=torch.float64), 10000.0 ** (-2 * torch.arange(40) / 128)
    off = int((tile / own > 1.1).sum())
    assert tile[-1] / own[-1] > 20 and off > 30
    return {"padded_times": f"{tile[-1] / own[-1]:.0f}", "padded_off": f"{off}"}
