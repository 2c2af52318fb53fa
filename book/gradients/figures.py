r"""What flows back: the gradient of the logits, its sums by offset and by position, and two explorables of them."""

import functools
import math

import torch

from posenc.attention import attention
from posenc.chapters.gradients.exercises import softmax_gradient as softmax_gradient  # the page's other formula
from posenc.encoding import Encoding, compose
from posenc.lab.explore import COLORS, DIVERGING, SEQUENTIAL, explorable, slider
from posenc.lab.explore.parts import axis, bars, dots, heat, label, level, line, path
from posenc.lab.train.tiny import Decoder
from posenc.lab.write import seeded
from posenc.methods import make
from posenc.several.rse import rse


def stick_gradient(scores, weights, dweights, order="recent"):
    r"""The gradient of the logits z under stick-breaking, dz_j = (1 - beta_j) A_j dA_j - beta_j (sum of A dA behind j).

    Arguments:
        scores, weights, dweights: z, A and dA, [..., Tq, Tk]; weights are 0 where a key is not asked.
        order: "recent" asks the last key first, so that behind a key stand those before it; "first" the other way.
    """
    flow = weights * dweights
    total = flow.cumsum(-1) if order == "recent" else flow.flip(-1).cumsum(-1).flip(-1)
    beta = torch.sigmoid(scores)
    return (1 - beta) * flow - beta * (total - flow)


def sum_by_offset(ds):
    r"""The sums of ds [..., T, T] over the diagonals i - j = 0 .. T-1 of the past, [..., T]."""
    return torch.stack([ds.diagonal(-d, -2, -1).sum(-1) for d in range(ds.shape[-1])], dim=-1)


def logit_gradient(q, k, v, dout, encoding, extra=0.0):
    r"""The gradient ds [B, H, Tq, Tk] of the logits and the weights, by autograd: that of a bias of zeros.

    Arguments:
        q, k, v: as for `posenc.attention`.
        dout: the gradient of its output, [B, H, Tq, Dv].
        encoding: an `Encoding`; the bias of zeros is added to its own.
        extra: logits to add to that, broadcastable to [B, H, Tq, Tk].
    """
    zeros = q.new_zeros(*q.shape[:3], k.shape[2], requires_grad=True)

    def bias(q, k, at):
        own = encoding.bias(q, k, at) if encoding.bias is not None else 0.0
        return own + zeros + extra

    probed = Encoding(rotate=encoding.rotate, bias=bias, weigh=encoding.weigh, causal_only=encoding.causal_only)
    out, weights = attention(q, k, v, probed, return_weights=True)
    return torch.autograd.grad(out, zeros, dout)[0], weights.detach()


# By offset: one head of attention on seeded numbers

LENGTH, HEADS, LANES = 24, 4, 8
HEAD = 0  # ALiBi's steepest
FAVORED = (1, 3, 6, 9, 12, 16, 20)  # the offsets whose keys may get extra logits
EXTRA = (0, 4, 8)
LOWER = 2.5  # all logits are lowered by this, so that a stick reaches far; a softmax does not notice
BY_OFFSET = {
    "stick-breaking": lambda: make("stickbreaking", attend_current=True),
    "NoPE": lambda: Encoding(),
    "RoPE": lambda: make("rope", head_dim=LANES),
    "ALiBi": lambda: make("alibi", num_heads=HEADS),
    "RSE": lambda: rse(LANES, order="recent"),
}


def example():
    """Seeded q, k, v and dout, [1, H, T, D] each, float64."""
    source = torch.Generator().manual_seed(9)
    return torch.randn(4, 1, HEADS, LENGTH, LANES, generator=source, dtype=torch.float64)


def offsets_between(length):
    """i - j of every pair, [T, T]."""
    index = torch.arange(length)
    return index[:, None] - index


@functools.cache
def scored(method, favored, extra):
    r"""The gradient of one head's logits, [T, T]; the keys `favored` back have `extra` logits more."""
    more = extra * (offsets_between(LENGTH) == favored).double() - LOWER
    return logit_gradient(*example(), seeded(BY_OFFSET[method]).double(), more)[0][0, HEAD]


def sides(ds, favored):
    r"""Sizes of the gradients that are nearer than `favored`, and farther, in rows that reach so far."""
    offset, reached = offsets_between(LENGTH), torch.arange(LENGTH)[:, None] >= favored
    return [(ds.abs() * (reached & side)).sum().item() for side in (offset < favored, offset > favored)]


def sheared(ds):
    r"""[T, T] with a column for each offset i - j in place of a key; NaN where there is no key."""
    return torch.stack([torch.cat((row[: i + 1].flip(0), row[i + 1 :] * math.nan)) for i, row in enumerate(ds)])


APART = dict(xgap=1, ygap=1, hoverongaps=False)  # the cells of a map


def _scale(title, tickvals, ticktext, **place):
    """A level color bar inside the drawing."""
    title = dict(text=title, side="top")
    return dict(orientation="h", title=title, tickvals=tickvals, ticktext=ticktext, xpad=0, ypad=0, **place)


def _by_offset(method, favored, extra):
    ds = scored(method, favored, extra)
    plain = scored(method, favored, 0)
    index = torch.arange(LENGTH)
    rows, along, before = ds.sum(-1), sum_by_offset(ds), sum_by_offset(plain)
    left = favored < LENGTH / 2
    side = "middle right" if left else "middle left"
    stems = [x for row in rows.tolist() for x in (0, row, None)], [y for y in range(LENGTH) for y in (y, y, None)]
    column_sum = "all keys %{x} back: sum %{y:.2f}<extra></extra>"
    without = dict(hover=f"without extra logits, {column_sum}", yaxis="y2")
    edge = dict(line=dict(color=COLORS["gray"], width=1))
    row_sum = "query %{y}: its row sums to %{x:.2f}<extra></extra>"
    colors = dict(zmin=-0.4, zmid=0, zmax=0.4, colorscale=DIVERGING)
    colors |= dict(colorbar=_scale("gradient", [-0.4, 0.4], ["−0.4", "0.4"], x=0.92, y=0.02, len=0.16))
    colors |= dict(hover="query %{y}, the key %{x} back: gradient %{z:.2f}")
    words, at = ["■ with the extra logits", "□ without them"], [-1.6, -3.1]  # between two grid lines
    arrow = dict(symbol=["line-ew", "triangle-down"], size=14, color="ink")
    data = [
        heat("gradient of the logits", index, index, sheared(ds), **colors, **APART),
        line("stems", *stems, "purple", 3, xaxis="x2"),
        dots("sum of a row", rows, index, "purple", 6, hover=row_sum, xaxis="x2"),
        bars("sum without the extra logits", index, before, "rgba(107, 114, 128, 0.15)", marker=edge, **without),
        bars("sum of a column", index, along, "orange", hover=column_sum, yaxis="y2", width=0.45),
        path("favored", [favored] * 2, [LENGTH - 0.5, -1], "ink", 2, "dot", marker=arrow),
        label("what they get", favored + (1.8 if left else -1.8), -1.2, f"+{extra} here", "ink", side),
        label("bars in words", [LENGTH - 2] * 2, at, words, ["orange", "gray"], "middle left", halo=True, yaxis="y2"),
    ]
    ones = dict(tickvals=[-1, 1], ticktext=["−1", "1"])
    layout = dict(height=500, showlegend=False, margin=dict(t=24), barmode="overlay", bargap=0.2)
    layout |= dict(
        xaxis=axis(-0.6, LENGTH - 0.4, "how far back, i − j", domain=[0, 0.79], anchor="y2"),
        yaxis=axis(LENGTH - 0.4, -2.4, "query i", domain=[0.31, 1], tickvals=[0, 5, 10, 15, 20], zeroline=False),
        xaxis2=axis(-2, 2, dict(text="row sum", standoff=4), domain=[0.82, 1], anchor="y", tickangle=0, **ones),
        yaxis2=axis(-4.6, 3.8, "column sum", domain=[0, 0.26], tickvals=[-4, 0, 3], ticktext=["−4", "0", "3"]),
        meta=dict(phone=dict(margin=dict(t=8))),
    )
    kept = [now / was for now, was in zip(sides(ds, favored), sides(plain, favored))]
    return dict(data=data, layout=layout), {"near": kept[0], "far": kept[1]}


by_offset = explorable(
    _by_offset,
    id="gradients.by_offset",
    title="The gradient of the logits, by offset",
    alt="A map of the gradient of every logit: a row for each query, a column for each offset back to the key, so that "
    "a diagonal of the T × T matrix is a column here. Blue is negative, orange positive. At the right, a dot for "
    "the sum of each row: all on zero under a softmax. Below, the sum of each column, what a table by offset would "
    "receive, in front of a wide open bar, what it was without the extra logits. An arrow above the map marks the "
    "column whose keys get extra logits, and can be dragged. With eight of them, a softmax falls silent in every row "
    "that has such a key; a stick only to the right of it, at the keys farther away. Above stands what the extra "
    "logits multiply the size of the gradients by, on either side of the column.",
    readout="nearer keys: gradient × {near:.2f} · farther keys: gradient × {far:.2f}",
    handles={"favored": "favored"},
    method=slider(list(BY_OFFSET), label="method"),
    extra=slider(EXTRA, label="extra logits", default=4, format=lambda v: f"+{v}" if v else "none"),
    favored=slider(FAVORED, label="for the keys this far back", default=6),
)


# By position: an untrained decoder, whose input rows are probed

TEXT, TEXTS, WORDS, WIDTH = 24, 64, 12, 16
FULL, DRAWN = f"all of {TEXT} tokens", f"of 4 to {TEXT} tokens"
BY_POSITION = {
    "learned": lambda: make("learned", max_positions=TEXT, dim=WIDTH),
    "ALiBi": lambda: make("alibi", num_heads=2),
    "stick": lambda: make("stickbreaking", attend_current=True),
}
FAINT = 1e-2  # gradients below are drawn as this


def texts(kind):
    r"""Seeded texts: tokens [TEXTS, TEXT] and their lengths [TEXTS]; some tokens are more frequent than others."""
    source = torch.Generator().manual_seed(3)
    frequency = 1 / torch.arange(1.0, WORDS + 1)
    tokens = torch.multinomial(frequency.expand(TEXTS, -1), TEXT, replacement=True, generator=source)
    drawn = torch.randint(4, TEXT + 1, (TEXTS,), generator=source)
    return tokens, drawn if kind == DRAWN else torch.full((TEXTS,), TEXT)


@functools.cache
def losses_gradient(method, layers):
    r"""The gradient of each token's loss with respect to the input of each token, [TEXT, TEXTS, TEXT, WIDTH]."""
    rows = torch.zeros(TEXTS, TEXT, WIDTH, dtype=torch.float64, requires_grad=True)

    def encoding(layer):
        own = BY_POSITION[method]()
        if layer:
            return own
        if own.embed is None:
            return compose(Encoding(embed=lambda x, positions: x + rows), own)
        return Encoding(embed=lambda x, positions: own.embed(x, positions) + rows)

    model = seeded(lambda: Decoder(WORDS, WIDTH, layers, 2, encoding)).double()
    tokens = texts(FULL)[0]
    following = tokens.roll(-1, 1)  # of the last token too: of an untrained model any will do
    losses = torch.nn.functional.cross_entropy(model(tokens).transpose(1, 2), following, reduction="none")
    return torch.stack([torch.autograd.grad(loss, rows, retain_graph=True)[0] for loss in losses.sum(0)])


def input_gradient(method, layers, kind, of=None):
    r"""The gradient of the input of every token, [TEXTS, TEXT, WIDTH], of the loss of token `of`, or of all losses.

    Only tokens within a text's length have a loss. They are summed, not averaged.
    """
    counts = torch.arange(TEXT)[:, None] < texts(kind)[1]
    if of is not None:
        counts = counts & (torch.arange(TEXT)[:, None] == of)
    return (losses_gradient(method, layers) * counts[:, :, None, None]).sum(0)


def reach(sizes):
    r"""Of how many rows right before the last one the sizes add up to nine tenths of all before it; sizes [n]."""
    before = sizes[:-1].flip(0)
    return int((before.cumsum(0) < 0.9 * before.sum() - 1e-12).sum()) + 1 if len(before) else 0


def _by_position(method, layers, kind, of):
    counted = texts(kind)[1]
    position = torch.arange(TEXT)
    counts = (position[:, None] < counted)[:, :, None]
    one_loss = (losses_gradient(method, layers).norm(dim=-1) * counts).sum(1)  # [loss, row]
    g = input_gradient(method, layers, kind)
    one_by_one, together = g.norm(dim=-1).sum(0), g.sum(0).norm(dim=-1)
    visits = (counted[:, None] > position).sum(0)
    past = position[:, None] >= position
    powers = [-2, -1, 0, 1], ["0.01", "0.1", "1", "10"]  # in the corner that no loss reaches
    row = "row %{x}: gradient %{y:.2f}<extra></extra>"
    adds_up = "row %{x}: the sizes of each text's gradient add up to %{y:.2f}<extra></extra>"
    in_proportion = "row %{x}: in proportion to the texts that reach it<extra></extra>"
    rings, share = dict(size=6, symbol="circle-open"), one_by_one[0] * visits / visits[0]
    shades = torch.where(past, one_loss.clamp(min=FAINT).log10(), math.nan)
    colors = dict(zmin=math.log10(FAINT), zmax=1, colorscale=SEQUENTIAL)
    colors |= dict(colorbar=_scale("size of the gradient", *powers, x=0.78, y=0.96, yanchor="top", len=0.4))
    colors |= dict(hover="loss of token %{y}, row %{x}: gradient %{customdata:.2f}")
    colors |= dict(customdata=torch.where(past, one_loss, math.nan))
    names, hues = ["■ all together", "○ one by one", "╌ text count"], ["blue", "gray", "orange"]
    sides = ["middle right", "middle center", "middle left"]
    data = [
        heat("gradient of one loss", position, position, shades, **colors, **APART),
        level("loss of one token", of, -0.5, min(of + 1.5, TEXT - 0.5), "red"),
        bars("all together", position, together, "blue", hover=row, yaxis="y2"),
        path("one by one", position, one_by_one, "gray", 1, hover=adds_up, yaxis="y2", marker=rings),
        line("text count", position, share, "orange", 2, "dash", hover=in_proportion, yaxis="y2"),
        label("names", [-0.5, 12, TEXT - 0.5], [0.89 * MOST] * 3, names, hues, sides, yaxis="y2"),
    ]
    layout = dict(height=450, margin=dict(t=10), showlegend=False)
    layout |= dict(
        xaxis=axis(-0.6, TEXT - 0.4, "row of position p", anchor="y2"),
        yaxis=axis(TEXT - 0.4, -0.6, "loss of token i", domain=[0.42, 1], showgrid=False, zeroline=False),
        yaxis2=axis(0, MOST, "gradient", domain=[0, 0.37], tickvals=[0, 20, 40]),
        meta=dict(phone=dict(margin=dict(t=4), yaxis=dict(domain=[0.44, 1]), yaxis2=dict(domain=[0, 0.4]))),
    )
    rows = reach(one_loss[of, : of + 1])
    return dict(data=data, layout=layout), {"of": of, "rows": rows, "first": together[0].item() / together[-1].item()}


MOST = 70  # the axis of the sizes; above 55 stand the names

by_position = explorable(
    _by_position,
    id="gradients.by_position",
    title="The gradient of the input, by position",
    alt="A map: a row for the loss of each token, a column for each row of a table of positions, colored by the size "
    "of the gradient on a logarithmic scale. To the right of the diagonal it is empty: a loss says nothing to later "
    "positions. A red line to drag picks the loss of one token. Below, all losses: bars for what each row of the table "
    "gets from all texts together, open dots for the sizes of what the texts give it one by one, added up, a dashed "
    "line in proportion to the number of texts that are long enough to reach the row.",
    readout="loss of token {of} reaches {rows} rows (90%) · row 0 gets {first:.1f} × row 23",
    handles={"loss of one token": "of"},
    method=slider(list(BY_POSITION), label="method"),
    kind=slider([FULL, DRAWN], label="texts", default=DRAWN),
    layers=slider([1, 2], label="layers", default=2),
    of=slider(range(TEXT), label="loss of token", default=15),
)
