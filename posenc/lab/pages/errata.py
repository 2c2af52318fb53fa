r"""Mistakes in circulation: a check for each row, as the page shows it.

A check asserts both sides: what holds passes, and the claim fails. It returns {name: text}, the numbers of its row. All
compute in float64, from seed 0, and leave torch as it was.
"""

import functools
import json
import math

import torch

from posenc import alibi, learned, rope, scaling, sinusoidal, stickbreaking
from posenc.attention import attention
from posenc.bias.transformer_xl import transformer_xl
from posenc.encoding import Encoding
from posenc.lab.exercises.rope import masks_lanes, reads_pairs_writes_halves
from posenc.lab.experiments import half_width, load_results, mean_and_spread
from posenc.lab.pages import ROOT, say_all, seeded
from posenc.several.exposb import band, exposb, fade, gain
from posenc.several.rse import rse

ORDER = [2, 0, 1, 5, 4, 3]  # six tokens, shuffled
PREFIX = [3, 1, 4, 0, 2, 5]  # six tokens, the last where it was
TOKENS = [[7, 3, 42, 11, 5, 28]]
WIDTH = 384  # of the report's model
ROW = [0, 0.38, 0.72, 0.95, 0.99, 0.86, 0.56, 0.14]  # of the report's table, "dim 2"
ROW_THREE = [1, 0.93, 0.70, 0.33, -0.10, -0.51, -0.83, -0.99]  # "dim 3"
LAYERS = 6  # of the report's model
DISTANCES = (0, 1, 4, 16, 64, 256, 1024)
TRAINED, LONGEST = 4096, 32768  # positions


def numbers():
    """Give the prose every number of the page; an assertion fails where a claim holds."""
    for row in ROWS:
        say_all("errata", row())


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

    return run


# --- what the checks share -------------------------------------------------------------------------------------------


def tiny(value) -> str:
    """A difference by its power of ten: rounding, if all is well."""
    return "0" if value == 0 else f"{value:.0e}".replace("-", "−")


def normal(*shape, seed=0):
    """Random numbers, the same for the same seed, in float64."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


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
    stopped = {kind: torch.tensor(loss) for kind, loss in load_results("rope_lanes")["stopped"].items()}
    return {kind: (loss[:, -1] - loss[:, 0]).mean() for kind, loss in stopped.items()}


def shuffling_changes(model):
    """How far a model's outputs are from only moving along when its tokens are shuffled."""
    tokens = torch.tensor(TOKENS)
    with torch.no_grad():
        there = model(tokens[:, ORDER]).last_hidden_state
        return (there - model(tokens).last_hidden_state[:, ORDER]).abs().max()


def recent_models() -> list:
    """The rows from 2024 on in the book's table of shipped models."""
    rows = json.loads((ROOT / "book" / "shipped_models.json").read_text("utf-8"))["rows"]
    return [row for row in rows if row["year"] >= 2024]


def one_guard(x):
    """Softplus as the notes have it."""
    return torch.where(x > 15, x, (1 + x.exp()).log())


def farthest(frequency, trained, unseen):
    """The largest gap, on the circle, between an angle of a new position and the nearest trained one."""
    seen = (trained * frequency).remainder(2 * math.pi).sort().values
    seen = torch.cat((seen[-1:] - 2 * math.pi, seen, seen[:1] + 2 * math.pi))
    new = (unseen * frequency).remainder(2 * math.pi)
    after = torch.searchsorted(seen, new).clamp(1, len(seen) - 1)
    return torch.minimum((new - seen[after - 1]).abs(), (seen[after] - new).abs()).max()


# --- why position ----------------------------------------------------------------------------------------------------


@check
def invariant():
    """Without position a shuffled text has shuffled outputs, not the same ones."""
    x = normal(1, 1, 6, 8, seed=1)
    shuffled = layer(x[:, :, ORDER])
    equivariant = (shuffled - layer(x)[:, :, ORDER]).abs().max()
    in_place = (shuffled - layer(x)).abs().max()
    assert equivariant < 1e-12 and in_place > 0.1
    return {"equivariant": tiny(equivariant), "invariant": f"{in_place:.1f}"}


@check
def causal():
    """Under a causal mask one layer's last token is blind to the order of its prefix, two layers' is not."""
    x = normal(1, 1, 6, 8, seed=1)
    one = (layer(x[:, :, PREFIX], causal=True) - layer(x, causal=True))[:, :, -1].abs().max()
    twice = [layer(layer(y, causal=True), causal=True) for y in (x[:, :, PREFIX], x)]
    two = (twice[0] - twice[1])[:, :, -1].abs().max()
    assert one < 1e-12 and two > 1e-2
    return {"one_layer": tiny(one), "two_layers": f"{two:.2f}"}


# --- sinusoidal ------------------------------------------------------------------------------------------------------


@check
def slow():
    """The first pair is the fastest."""
    omega = pair_frequencies()
    assert abs(omega[0] - 1) < 1e-6 and (omega.diff() < 0).all()
    return {"first_wave": f"{2 * math.pi / omega[0]:.1f}", "last_wave": f"{2 * math.pi / omega[-1]:,.0f}"}


@check
def table():
    """No single frequency gives the report's row of "dim 2", and its last row is too fast."""
    row = torch.tensor(ROW)
    every = torch.linspace(0, math.pi, 100_001)[:, None]
    misfit = ((every * torch.arange(8)).sin() - row).abs().amax(-1).min()
    omega = pair_frequencies()[1]
    misfit_three = ((every * torch.arange(8)).cos() - torch.tensor(ROW_THREE)).abs().amax(-1).min()
    assert misfit > 2 * 0.005 and misfit_three > 2 * 0.005
    assert 0.95 < omega < 0.96 and abs(omega.sin() - row[1]) > 0.4
    sine, cosine = sinusoidal.table(torch.tensor([7.0]), WIDTH)[0, -2:].double().tolist()
    assert 50 * sine < 0.07 and cosine > 0.999  # the report's last row ends at .07
    return {
        "misfit": f"{misfit:.2f}",
        "misfit_three": f"{misfit_three:.2f}",
        "omega_one": f"{omega:.3f}",
        "dim_two": f"{omega.sin():.2f}",
        "dim_last": f"{sine:.4f}",
        "dim_very_last": f"{cosine:.6f}",
    }


@check
def last():
    """The last frequency is one step short of 1/10000."""
    ratio = pair_frequencies()[-1] * 10000
    assert abs(ratio - 10000 ** (2 / WIDTH)) < 1e-4 and ratio > 1.04
    ratio_64 = rope.inv_freq(64, dtype=torch.float64)[-1] * 10000
    assert ratio_64 > 1.3
    return {"last_ratio": f"{ratio:.2f}", "last_ratio_64": f"{ratio_64:.2f}"}


@check
def wavelength():
    """Over b^(2k/d) tokens a pair turns by one radian, over 2 pi times as many by a turn."""
    claimed = 10000 ** (2 * 10 / WIDTH)
    omega = pair_frequencies()[10]
    angle, turn = omega * claimed, 2 * math.pi / omega
    assert abs(angle - 1) < 1e-4 and abs(turn / claimed - 2 * math.pi) < 1e-3
    assert abs((omega * claimed).cos() - 1) > 0.4  # no turn, so the value has not come back
    return {
        "wave_width": f"{WIDTH}",
        "wave_claimed": f"{claimed:.2f}",
        "wave_true": f"{turn:.2f}",
        "wave_angle": f"{angle:.0f}",
    }


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
    turned = rope.rotate(table[10:11].float(), torch.tensor([-7]), pair_frequencies().float())[
        0
    ]  # (sin, cos) turn back
    mean = (table[0] + table[20]) / 2
    short, off = mean.norm() / table[10].norm(), (mean - table[10]).abs().max()
    assert (turned - table[17]).abs().max() < 1e-4 and short < 0.95 and off > 0.5
    return {
        "between_turned": tiny((turned - table[17]).abs().max()),
        "between_length": f"{short:.0%}",
        "between_off": f"{off:.1f}",
    }


@check
def unseen(method="sinusoidal"):
    """A model trained with the sinusoid gets worse beyond the training length."""
    study = load_results("train_short_test_long")
    rise = rises(method)
    assert (rise > 5 * study["tolerance"]).all()
    lengths = study["lengths"]
    return {
        "sin_rise": "{:.2f} ± {:.2f}".format(*mean_and_spread(rise)),
        "shortest": f"{lengths[0]}",
        "longest": f"{lengths[-1]}",
    }


@check
def through():
    """With all weights equal, what was added to a token still comes through its value; a rotation does not."""
    x, w_v = normal(1, 1, 6, 8), normal(8, 8, seed=1) / math.sqrt(8)

    def moves(encoding, added):
        outputs = []
        for start in (0, 7):
            at = torch.arange(6) + start
            token = x + sinusoidal.table(at.double(), 8) if added else x
            outputs.append(attention(torch.zeros_like(x), token, token @ w_v, encoding, pos_q=at))
        return (outputs[1] - outputs[0]).abs().max()

    added, turned = moves(Encoding(), True), moves(rope.rope(8), False)
    assert added > 0.1 and turned < 1e-12
    return {"through_added": f"{added:.1f}", "through_turned": tiny(turned)}


# --- learned ---------------------------------------------------------------------------------------------------------


@check
def count():
    """Six layers with a table each learn six times what one table learns."""
    one_table = [learned.learned(512, WIDTH)]
    six_tables = [learned.learned(512, WIDTH, embed_at="layer_qkv") for _ in range(6)]
    once, each = (sum(p.numel() for e in encodings for p in e.parameters()) for encodings in (one_table, six_tables))
    assert once == 512 * WIDTH and each == 6 * once
    return {"once": f"{once:,}", "each": f"{each:,}"}


@check
def missing():
    """The first position without a row is the number of rows."""
    table = learned.learned(1000, 4).embed
    answered = []
    for position in (998, 999, 1000, 1001):
        try:
            table(torch.zeros(1, 1, 4), torch.tensor([[position]]))
        except ValueError:
            break
        answered.append(position)
    assert answered == [998, 999] and position == 1000
    return {"missing_last": f"{answered[-1]}", "missing_first": f"{position}"}


@check
def fits():
    """In the book's text study the learned table ties with the sinusoid where both were trained."""
    runs = load_results("train_short_test_long")["methods"]
    loss = {name: torch.tensor(runs[name]["whole"])[:, 0] for name in ("learned", "sinusoidal", "nope")}
    gap = (loss["learned"] - loss["sinusoidal"]).tolist()
    assert abs(sum(gap) / len(gap)) < half_width(gap) and loss["nope"].min() > loss["learned"].max()
    return {f"fits_{name}": f"{values.mean():.2f}" for name, values in loss.items()}


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
    beside = torch.cat((word, place), dim=-1) @ project
    added = word @ project[:16] + place @ project[16:]
    assert (beside - added).abs().max() < 1e-12 and (beside - word @ project[:16]).abs().max() > 0.1
    return {"concat": tiny((beside - added).abs().max())}


# --- relative --------------------------------------------------------------------------------------------------------


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
        one, other = (
            model.decoder(input_ids=tokens, encoder_hidden_states=m).last_hidden_state
            for m in (memory, memory[:, ORDER])
        )
    cross = (one - other).abs().max()
    bias = model.get_parameter(tables[0])
    bias.data.mul_(5)  # a fresh table is faint
    encoder = shuffling_changes(model.encoder)
    bias.data.zero_()
    encoder_zero = shuffling_changes(model.encoder)
    assert cross < 1e-10 and encoder > 0.01 and encoder_zero < 1e-10
    return {
        "t5_tables": " and ".join(f"the {name.split('.')[0]}'s self-attention" for name in tables),
        "t5_cross": tiny(cross),
        "t5_encoder": f"{encoder:.2f}",
        "t5_zero": tiny(encoder_zero),
    }


# --- RoPE ------------------------------------------------------------------------------------------------------------


@check
def sign():
    """The score of query m and key n is that of a key turned by n - m."""
    w = rope.inv_freq(16, dtype=torch.float64)
    q, k = normal(2, 16, seed=5)
    m, n = 91, 17

    def turn(x, position):
        return rope.rotate(x[None], torch.tensor([position]), w)[0]

    score = turn(q, m) @ turn(k, n)
    right, wrong = (abs(score - q @ turn(k, offset)) for offset in (n - m, m - n))
    assert right < 1e-12 and wrong > 0.1
    return {"sign_right": tiny(right), "sign_wrong": f"{wrong:.1f}"}


@check
def exponent():
    """Counted from zero, i - 1 in the exponent makes all frequencies larger by one factor."""
    index = torch.arange(32)
    mixed = 10000.0 ** (-2 * (index - 1) / 64)
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
        far = torch.tensor(distance).expand(len(keys))
        return (q * rope.rotate(keys, far, w)).sum(-1) / 8

    def equal(distance):
        return scores(q, distance).mean()

    unrelated = [scores(k, distance) for distance in DISTANCES]
    spread, same = [s.std() for s in unrelated], [equal(distance) for distance in DISTANCES]
    assert max(abs(s.mean()) for s in unrelated) < 0.03 and max(spread) - min(spread) < 0.03
    assert same[-1] < same[0] / 2 and equal(40) < equal(100)
    return {
        "decay_pairs": f"{len(q):,}",
        "decay_low": f"{min(spread):.2f}",
        "decay_high": f"{max(spread):.2f}",
        "same_near": f"{same[0]:.1f}",
        "same_far": f"{same[-1]:.1f}",
        "same_40": f"{equal(40):.1f}",
        "same_100": f"{equal(100):.1f}",
    }


@check
def extrapolates(method="rope"):
    """RoPE gets worse beyond the training length, less with attention cut, and less with its pairs stopped."""
    rise, cut, lanes = rises(method), rises(method, "cut"), lane_rises()
    tolerance = load_results("train_short_test_long")["tolerance"]
    assert (rise > 5 * tolerance).all() and (cut < rise / 5).all()
    assert 0 < lanes["all"] < lanes["none"] / 2
    return {
        "rope_rise": "{:.2f} ± {:.2f}".format(*mean_and_spread(rise)),
        "rope_cut": "{:.2f} ± {:.2f}".format(*mean_and_spread(cut)),
        "lanes_none": f"{lanes['none']:.2f}",
        "lanes_all": f"{lanes['all']:.2f}",
    }


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
def backward():
    """Pairs read and halves written are sound forward; a backward that reads pairs of the gradient is not."""
    w, at = rope.inv_freq(8, dtype=torch.float64), torch.arange(5)
    cos, sin = (at[:, None] * w).cos(), (at[:, None] * w).sin()
    x, grad = normal(2, 5, 8, seed=3)
    y = normal(5, 8, seed=4)
    one, other = (reads_pairs_writes_halves(z, at, w) for z in (x, y))
    scores = one @ other.T - rope.rotate(x, at, w) @ rope.rotate(y, at, w).T

    leaf = x.clone().requires_grad_()
    reads_pairs_writes_halves(leaf, at, w).backward(grad)
    g1, g2 = grad[:, 0::2], grad[:, 1::2]
    claimed = torch.cat((g1 * cos + g2 * sin, g2 * cos - g1 * sin), dim=-1)
    g1, g2 = grad.chunk(2, dim=-1)
    mended = torch.stack((g1 * cos + g2 * sin, g2 * cos - g1 * sin), dim=-1).flatten(-2)
    off, mended_off = ((g - leaf.grad).abs().max() for g in (claimed, mended))
    assert scores.abs().max() < 1e-12 and off > 0.5 and mended_off < 1e-12

    def fits(heads, width):
        """Whether even lanes of [batch, 5 tokens, heads, 8] go with a table [5, width]."""
        try:
            return bool(torch.broadcast_shapes((2, 5, heads, 4), (5, width)))
        except RuntimeError:
            return False

    assert not fits(3, 8) and not fits(3, 4) and fits(5, 4)
    return {"halves_scores": tiny(scores.abs().max()), "backward": f"{off:.1f}", "backward_mended": tiny(mended_off)}


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
def fused(n=8192):
    """Rotated inside the loop over key blocks, each key turns once for each block of queries."""
    dim, block = 64, 64

    def turned_lanes(length):
        queries = keys = 0
        for _ in range(0, length, block):  # a program for each block of queries
            queries += block * dim  # turned before its loop
            for _ in range(0, length, block):
                keys += block * dim  # turned inside its loop
        return queries, keys

    queries, keys = turned_lanes(n)
    growth = sum(turned_lanes(2 * n)) / (queries + keys)
    assert queries == n * dim and keys == n * dim * (n // block)
    assert growth > 3.9
    return {"fused_growth": f"{growth:.2f}", "fused_n": f"{n:,}", "fused_again": f"{keys // (n * dim)}"}


@check
def padded():
    """A head of 80 in a tile of 128: other frequencies; a head of 64 fills its tile."""
    own, tile = rope.inv_freq(80, dtype=torch.float64), 10000.0 ** (-2 * torch.arange(40) / 128)
    off = int((tile / own > 1.1).sum())
    assert tile[-1] / own[-1] > 20 and off > 30
    return {"padded_times": f"{tile[-1] / own[-1]:.0f}", "padded_off": f"{off}"}


# --- longer than trained ---------------------------------------------------------------------------------------------


@check
def fast():
    """At long range it is the slow pairs that meet new angles."""
    w, lanes = rope.inv_freq(128, dtype=torch.float64), lane_rises()
    trained, new = torch.arange(float(TRAINED)), torch.arange(float(TRAINED), float(LONGEST))
    gaps = torch.stack([farthest(frequency, trained, new) for frequency in w])
    full = (TRAINED - 1) * w >= 2 * math.pi  # a whole turn within training
    assert gaps[full].max() < 0.05 and gaps[~full].min() > 0.2
    assert lanes["slow"] < lanes["none"] / 2 < lanes["fast"]
    return {
        "fast_full": f"{int(full.sum())}",
        "fast_open": f"{int((~full).sum())}",
        "fast_gap": f"{gaps[full].max():.2f}",
        "slow_gap": f"{gaps[~full].min():.2f}",
        "lanes_slow": f"{lanes['slow']:.2f}",
        "lanes_fast": f"{lanes['fast']:.2f}",
    }


@check
def yarn():
    """Raising the base is static NTK; YaRN turns pairs by other frequencies and scales the logits."""
    raised = rope.inv_freq(128, base=10000.0 * 8 ** (128 / 126), dtype=torch.float64)
    real, heat = scaling.yarn(128, 8.0, trained=TRAINED)
    static = scaling.ntk(128, 8.0)[0]
    assert (raised / static - 1).abs().max() < 1e-6
    differ = int(((raised / real - 1).abs() > 0.01).sum())
    most = torch.maximum(raised / real, real / raised).max()
    assert differ > 32 and most > 1.5 and heat**2 > 1.4
    return {"yarn_differ": f"{differ}", "yarn_most": f"{most:.1f}", "yarn_heat": f"{heat**2:.2f}"}


# --- ALiBi -----------------------------------------------------------------------------------------------------------


@check
def plus():
    """ALiBi subtracts: added, the farthest key would take all."""
    i, j = torch.arange(63, 64), torch.arange(64)
    minus = alibi.bias(i, j, torch.tensor([0.5]))[0, 0].softmax(-1)
    added = (0.5 * (i - j)).softmax(-1)
    assert minus.argmax() == 63 and added.argmax() == 0
    assert ((0.5 * j).softmax(-1) - minus).abs().max() < 1e-12
    assert added[63] < 1e-10 and abs(added[0] - minus[63]) < 1e-12
    return {"minus": f"{minus[63]:.0%}", "plus": tiny(added[63])}


@check
def slopes():
    """For 12 heads the released slopes are those of 8 and every other one of 16."""

    def by_formula(n):
        return torch.tensor([2 ** (-8 * h / n) for h in range(1, n + 1)])

    def released(n):
        lower = 2 ** math.floor(math.log2(n))
        return torch.cat((by_formula(lower), by_formula(2 * lower)[0::2][: n - lower]))

    agree = (alibi.slopes(16) - by_formula(16)).abs().max()
    twelve = alibi.slopes(12).double()
    shared = int(torch.isclose(twelve[:, None], by_formula(12)).sum())
    assert agree < 1e-6 and (twelve - released(12)).abs().max() < 1e-6
    assert shared < 12 and not torch.allclose(twelve.sort().values, by_formula(12).sort().values)
    return {
        "slopes_16": tiny(agree),
        "slopes_shared": f"{shared}",
        "slopes_last": ", ".join(f"{slope:.4f}" for slope in twelve[-4:]),
    }


@check
def mild():
    """The first head's slope is the steepest."""
    eight = alibi.slopes(8)
    assert eight.argmax() == 0 and (eight.diff() < 0).all() and eight[-1] == 2**-8
    return {"steep": f"{100 * eight[0]:.0f}", "mild": f"{100 * eight[-1]:.1f}"}


@check
def nth():
    """With n for the head the slopes grow, and no head has its own; counted from zero neither."""
    heads, eight = torch.arange(1.0, 9.0), alibi.slopes(8).double()
    literal, from_zero = 2 ** (-8 / heads), 2 ** -(heads - 1)
    assert (literal.diff() > 0).all() and (literal[1:] / literal[:-1]).std() > 0.1
    nth_where, zero_where = (int(torch.isclose(s, eight).sum()) for s in (literal, from_zero))
    assert nth_where == 0 and zero_where == 0 and from_zero[0] == 1
    shared = int(torch.isclose(literal[:, None], eight).sum())
    return {"nth_shared": f"{shared}", "nth_where": "no", "zero_where": "no"}


@check
def free():
    """Operations of one head: an addition for each visible score against six for each pair of lanes in q and in k."""

    def share(length, dim=64):
        at = torch.arange(length)
        additions = int((alibi.bias(at, at, torch.ones(1)) * torch.ones(length, length).tril() < 0).sum()) + length
        pairs = 2 * length * len(rope.inv_freq(dim))  # of q and of k: four products and two sums each
        return additions / (6 * pairs)

    short, long = share(256), share(2048)
    assert short < 0.5 and long > 2
    return {"free_short": "256", "free_long": "2,048", "free_less": f"{short:.0%}", "free_more": f"{long:.0%}"}


@check
def today():
    """No recent model of the book's table has ALiBi, its encoders rotate, and so did the better ones of our own."""
    rows = recent_models()
    with_alibi = sum("ALiBi" in row["encoding"] for row in rows)
    encoders = [row["encoding"] for row in rows if row["kind"] == "encoder"]
    masked = load_results("masked")["methods"]
    loss = {name: torch.tensor(masked[name]["scores"]["64"]) for name in ("learned", "rope")}
    assert with_alibi == 0 and encoders and all("RoPE" in encoding for encoding in encoders)
    assert loss["rope"].max() < loss["learned"].min() - 0.5
    return {"today_models": f"{len(rows)}", "today_alibi": f"{with_alibi}"} | {
        f"today_{name}": f"{values.mean():.2f}" for name, values in loss.items()
    }


# --- ExpoSB ----------------------------------------------------------------------------------------------------------


@check
def relative():
    """The gain by position and the band of lanes break it; a factor a pair does not."""
    w, near = rope.inv_freq(64, dtype=torch.float64), torch.arange(2000)
    q, k = (row.expand(2000, 64) for row in normal(2, 64, seed=7) / math.sqrt(8))

    def span(of_position=torch.ones_like, of_lane=1.0):
        """The range of one score at distance 5 as both positions move."""
        scores = 1.0
        for x, positions in ((q, near + 5), (k, near)):
            scores = scores * rope.rotate(x, positions, w) * of_position(positions[:, None].double()) * of_lane
        return scores.sum(-1).max() - scores.sum(-1).min()

    spans = {
        "rope": span(),
        "gain": span(gain),
        "band": span(of_lane=band(64)),
        "pair": span(of_lane=band(64, per_pair=True)),
    }
    assert spans["rope"] < 1e-10 and spans["pair"] < 1e-10
    assert spans["gain"] > 0.05 and spans["band"] > 0.05
    texts = {f"expo_{name}": tiny(value) if value < 1e-3 else f"{value:.2f}" for name, value in spans.items()}
    return texts | {"expo_text": f"{len(near):,}"}


@check
def boost():
    """At position 1000 the boost is still there."""
    at_1000 = gain(torch.tensor([1000.0]))[0]
    gone = int((gain(torch.arange(10_000.0)) < 1.01).nonzero()[0])
    assert at_1000 > 1.07 and gone > 2000
    return {"boost": f"{at_1000 - 1:.1%}", "boost_score": f"{at_1000**2 - 1:.1%}", "boost_gone": f"{gone:,}"}


@check
def extra():
    """Six layers, each with an encoding of its own, as the report builds them."""
    own = {"exposb": lambda: exposb(64, 6), "rse": lambda: rse(64)}
    total = {name: sum(p.numel() for _ in range(LAYERS) for p in make().parameters()) for name, make in own.items()}
    assert total == {"exposb": 72, "rse": 6}
    return {f"extra_{name}": f"{count}" for name, count in total.items()}


@check
def edges():
    """Lane 0 is two widths from the center, the last lane six."""
    first, end = band(64)[0], band(64)[-1]
    assert abs(first - (0.8 + 0.4 * math.exp(-2))) < 1e-6 and first > 0.85 and abs(end - 0.8) < 1e-6
    return {
        "edges_first": f"{first:.3f}",
        "edges_last": f"{end:.3f}",
        "edges_square": f"{first**2:.2f}",
        "edges_square_last": f"{end**2:.2f}",
    }


@check
def multiply():
    """A logit below zero rises when it is multiplied by a falling factor; a logarithm added falls always."""
    factor = fade(torch.tensor([0.0, 1000.0]))
    logits = {score: torch.full((2,), score) for score in (4.0, -4.0)}
    positive, negative = ((score * factor).softmax(-1) for score in logits.values())
    logs = [(score + factor.log()).softmax(-1) for score in logits.values()]
    far_over_near = [float(w[1] / w[0]) for w in (positive, negative, *logs)]
    assert far_over_near[0] < 1 < far_over_near[1]
    assert abs(far_over_near[2] - far_over_near[3]) < 1e-12 and far_over_near[2] < 1
    return {
        "multiply_positive": f"{far_over_near[0]:.0%}",
        "multiply_negative": f"{far_over_near[1]:.1f}",
        "multiply_log": f"{far_over_near[2]:.0%}",
    }


# --- RSE -------------------------------------------------------------------------------------------------------------


@check
def rest():
    """One remainder a block, less the sum of its pieces, hands out more than there is."""

    def as_claimed(beta, block):
        left, total = 1.0, 0.0
        for start in range(0, len(beta), block):
            pieces = (beta[start : start + block] * left).sum().item()  # one rest for the block
            total += pieces
            left = max(left * (1 - pieces), 1e-6)
        return total

    beta, sizes = torch.full((256,), 0.3), (16, 32, 64)
    blocks, single = [as_claimed(beta, block) for block in sizes], as_claimed(beta, 1)
    true = stickbreaking.weigh(beta.logit()[None], torch.ones(1, 256, dtype=torch.bool), order="first").sum()
    assert all(abs(total - 0.3 * block) < 0.01 for total, block in zip(blocks, sizes))
    assert single > 2 and abs(true - 1) < 1e-6
    return {
        "rest_blocks": ", ".join(f"{total:.1f}" for total in blocks),
        "rest_single": f"{single:.1f}",
        "rest_true": f"{true:.1f}",
    }


@check
def tracked(tokens=64, width=WIDTH):
    """A rest is multiplied once for each pair; a lookup reads the rows of its tokens, however long the table is."""

    def by_loop(z):
        beta, pieces, count = z.sigmoid(), torch.zeros_like(z), 0
        for i in range(len(z)):
            rest = 1.0
            for j in range(i + 1):  # key 0 first
                pieces[i, j] = beta[i, j] * rest
                rest, count = rest * (1 - beta[i, j]), count + 1
        return pieces, count

    z = normal(2 * tokens, 2 * tokens)
    (pieces, count), (_, twice) = by_loop(z[:tokens, :tokens]), by_loop(z)
    seen = torch.ones(tokens, tokens, dtype=torch.bool).tril()
    apart = (stickbreaking.weigh(z[:tokens, :tokens], seen, order="first") - pieces).abs().max()
    assert apart < 1e-12 and count == tokens * (tokens + 1) / 2 and twice / count > 3.9
    read = [torch.nn.Embedding(rows, width)(torch.arange(tokens)).numel() for rows in (512, 8192)]
    assert read == [tokens * width] * 2 and read[0] < 512 * width
    return {
        "tracked_apart": tiny(apart),
        "tracked_tokens": f"{tokens}",
        "tracked_pairs": f"{count:,}",
        "tracked_growth": f"{twice / count:.2f}",
        "tracked_read": f"{read[0]:,}",
        "tracked_claimed": f"{512 * width:,}",
    }


@check
def softmax():
    """A softmax forgets a constant and moves along with an order; a stick does neither."""
    z = normal(1, 12, seed=8)
    visible = torch.ones(1, 12, dtype=torch.bool)

    def stick(scores):
        return stickbreaking.weigh(scores, visible, order="first")

    soft = functools.partial(torch.softmax, dim=-1)
    soft_shift, stick_shift = ((f(z + 3) - f(z)).abs().max() for f in (soft, stick))
    soft_order, stick_order = ((f(z.flip(-1)).flip(-1) - f(z)).abs().max() for f in (soft, stick))
    assert soft_shift < 1e-12 and soft_order < 1e-12
    assert stick_shift > 0.1 and stick_order > 0.1
    return {
        "soft_shift": tiny(soft_shift),
        "soft_order": tiny(soft_order),
        "stick_shift": f"{stick_shift:.2f}",
        "stick_order": f"{stick_order:.2f}",
    }


#: The rows in the page's order; a row's label is its function's name.


@check
def lengths():
    """On text ExpoSB rises; RSE and the stick do not, but of a far needle RSE knows nothing."""
    up = {name: rises(name) for name in ("rse", "exposb", "stickbreaking")}
    assert up["exposb"].min() > 0.5 and max(up[name].abs().max() for name in ("rse", "stickbreaking")) < 0.05
    needle = load_results("needle")["methods"]
    missed = {name: torch.tensor(needle[name]["scores"]["far"]) for name in ("rse", "stickbreaking")}
    assert missed["rse"].min() > 0.8 and missed["stickbreaking"].max() < 0.1
    words = {name: mean_and_spread(values.tolist()) for name, values in up.items()}
    return {
        f"{name.replace('breaking', '')}_rise": f"{round(mean, 2) + 0.0:.2f} ± {spread:.2f}"
        for name, (mean, spread) in words.items()
    } | {f"{name.replace('breaking', '')}_missed": f"{wrong.mean():.0%}" for name, wrong in missed.items()}


@check
def softplus():
    """In float32 log(1 + e^x) is exactly 0 at -17, and so the row of a firm no is off; log1p is right."""
    x = torch.tensor(-17.0, dtype=torch.float32)
    notes, right = one_guard(x).item(), torch.log1p(x.exp()).item()
    true = math.log1p(math.exp(-17.0))
    assert notes == 0 and abs(right / true - 1) < 1e-6
    lost = 1 - math.exp(-1_000_000 * true)
    return {"softplus_notes": f"{notes:.0f}", "softplus_true": tiny(true), "softplus_million": f"{lost:.0%}"}


ROWS = (
    invariant,
    causal,
    slow,
    table,
    last,
    wavelength,
    fourier,
    between,
    unseen,
    through,
    count,
    missing,
    fits,
    bert,
    concat,
    xl,
    t5,
    sign,
    exponent,
    minus,
    decay,
    extrapolates,
    masked,
    backward,
    partial,
    fused,
    padded,
    fast,
    yarn,
    plus,
    slopes,
    mild,
    nth,
    free,
    today,
    relative,
    boost,
    extra,
    edges,
    multiply,
    rest,
    tracked,
    softmax,
    lengths,
    softplus,
)
