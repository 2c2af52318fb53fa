r"""What flows back: the gradient of the logits, its sums by offset and by position, and an explorable of it."""

import functools

import torch

from posenc.attention import attention
from posenc.chapters.gradients.exercises import softmax_gradient as softmax_gradient  # the page's other formula
from posenc.encoding import Encoding, compose
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, bars, held, label, line
from posenc.lab.train.tiny import Decoder
from posenc.lab.write import seeded
from posenc.methods import make


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
HEAD = 0  # the one that is drawn
FAVORED = (6, 8, 10, 12, 14, 16)  # the offsets whose keys may get extra logits
EXTRA = range(0, 9, 2)
LOWER = 2.5  # all logits are lowered by this, so that a stick reaches far; a softmax does not notice
BY_OFFSET = {"stick-breaking": lambda: make("stickbreaking", attend_current=True), "softmax": lambda: Encoding()}
HEARD = 2  # a gradient of more times what it was is drawn as so much


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


def _heard(method, favored, extra):
    index = torch.arange(LENGTH)
    reached = index[:, None] >= favored
    now, before = (sum_by_offset(scored(method, favored, more).abs() * reached) for more in (extra, 0))
    near, far = (a / b for a, b in zip(*(sides(scored(method, favored, more), favored) for more in (extra, 0))))
    others = index != favored
    times = (now / before)[others]
    edge = dict(color="rgba(0, 0, 0, 0)", line=dict(color=COLORS["gray"], width=1.5))
    top = 2.9 + extra / 5
    side, place = (1.1, "middle right") if favored < LENGTH / 2 else (-1.1, "middle left")

    def group(name, x, times):
        shown = f"{times:.1f}" if times > 0.095 else f"{times:.2g}"
        return label(name, x, 2.45, f"{name}<br><b>× {shown}</b>", "orange", "middle center", 19)

    data = [
        bars("before", index[others], torch.ones(LENGTH - 1), marker=edge),
        bars(
            "gradient",
            index[others],
            times.clamp(max=HEARD),
            "orange",
            customdata=times.tolist(),
            hover="× %{customdata:.2f}",
        ),
        bars("the key", [favored], [HEARD], "blue", marker=dict(pattern=dict(shape="/")), width=0.8),
        group("nearer", (favored - 1) / 2, near),
        group("farther", (favored + LENGTH) / 2, far),
        line("stick of the knob", [favored] * 2, [HEARD, top], "blue", 4),
        held("extra logits", favored, top, "blue", "circle", 16),
        label("in words", favored + side, top, f"<b>+{extra} logits</b>: drag", "blue", place, 15),
    ]
    layout = dict(height=400, showlegend=False, margin=dict(t=8, l=12, r=12), barmode="overlay", bargap=0.2) | dict(
        xaxis=axis(
            -0.7, LENGTH - 0.3, "tokens back; outlined: as loud as without extra logits", tickvals=[0, 6, 12, 18]
        ),
        yaxis=axis(0, 4.8, tickvals=[]),
        meta=dict(phone=dict(xaxis=dict(title=dict(text="tokens back; outlined: without extra logits")))),
    )
    return dict(data=data, layout=layout)


heard = explorable(
    _heard,
    title="Which keys still hear the loss",
    alt="A row of keys by how far back they stand. The hatched one, with a knob on a stick to drag, gets extra logits: "
    "as many as the knob is high. Of each other key a bar says how large its gradient still is, in an outline as tall "
    "as without extra logits, from the queries that see the hatched key; the nearer and the farther keys' factor is "
    "printed over them. Under a softmax all bars sink as the knob rises. On a stick only those of the farther keys do.",
    see="Drag the knob up: whose bars sink?",
    handles={"extra logits": ("favored", "extra")},
    method=slider(list(BY_OFFSET), label="method"),
    favored=slider(FAVORED, label="keys this far back", default=6),
    extra=slider(EXTRA, label="get so many logits more", default=2),
)


# By position: an untrained decoder, whose input rows are probed

TEXT, TEXTS, WORDS, WIDTH = 24, 64, 12, 16
BY_POSITION = {
    "learned": lambda: make("learned", max_positions=TEXT, dim=WIDTH),
    "stick": lambda: make("stickbreaking", attend_current=True),
}


def texts():
    r"""Seeded texts: tokens [TEXTS, TEXT]; some tokens are more frequent than others."""
    frequency = 1 / torch.arange(1.0, WORDS + 1)
    return torch.multinomial(frequency.expand(TEXTS, -1), TEXT, True, generator=torch.Generator().manual_seed(3))


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
    tokens = texts()
    following = tokens.roll(-1, 1)  # of the last token too: of an untrained model any will do
    losses = torch.nn.functional.cross_entropy(model(tokens).transpose(1, 2), following, reduction="none")
    return torch.stack([torch.autograd.grad(loss, rows, retain_graph=True)[0] for loss in losses.sum(0)])


def input_gradient(method, layers, of=slice(None)):
    r"""The gradient of the input of every token, [TEXTS, TEXT, WIDTH], of the loss of token `of`, or the sum of all."""
    return losses_gradient(method, layers)[of].reshape(-1, TEXTS, TEXT, WIDTH).sum(0)
