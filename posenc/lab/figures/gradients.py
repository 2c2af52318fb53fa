r"""What flows back: the gradient of the logits, its sums by offset and by position, and two explorables of them."""

import functools
import math

import torch

from posenc.attention import attention
from posenc.encoding import Encoding, compose
from posenc.lab.exercises.gradients import softmax_gradient as softmax_gradient  # the page's other formula
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.train.tiny import Decoder
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

LENGTH, HEADS, LANES = 32, 4, 8
FAVORED = 6  # the offset that gets extra logits
QUERIES = (7, 15, 23, 31)
BY_OFFSET = {
    "NoPE": lambda: Encoding(),
    "T5": lambda: make("t5", num_heads=HEADS),
    "KERPLE": lambda: make("kerple", num_heads=HEADS),
    "RoPE": lambda: make("rope", head_dim=LANES),
    "ALiBi": lambda: make("alibi", num_heads=HEADS),
    "stick-breaking": lambda: make("stickbreaking", attend_current=True),
    "RSE, recent first": lambda: rse(LANES, order="recent"),
}


def example():
    """Seeded q, k, v and dout, [1, H, T, D] each, float64."""
    source = torch.Generator().manual_seed(9)
    return torch.randn(4, 1, HEADS, LENGTH, LANES, generator=source, dtype=torch.float64)


def _seeded(make_encoding):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return make_encoding().double()


def offsets_between(length):
    """i - j of every pair, [T, T]."""
    index = torch.arange(length)
    return index[:, None] - index


@functools.cache
def _scored(method, extra):
    distance = offsets_between(LENGTH)
    ds, weights = logit_gradient(*example(), _seeded(BY_OFFSET[method]), extra * (distance == FAVORED).double())
    return ds[0], weights[0]  # [H, T, T]


def _by_offset(method, head, query, extra):
    ds, weights = (x[head - 1] for x in _scored(method, extra))
    offset = torch.arange(LENGTH)
    row, row_weights = (x[query, : query + 1].flip(-1) for x in (ds, weights))
    data = [
        dict(
            type="bar", name="weight of the key", x=offset[: query + 1], y=row_weights, marker=dict(color=COLORS["sky"])
        ),
        dict(
            type="bar",
            name="gradient of its logit",
            x=offset[: query + 1],
            y=row,
            yaxis="y2",
            marker=dict(color=COLORS["blue"]),
        ),
        dict(
            type="bar",
            name="sum over all queries",
            x=offset,
            y=sum_by_offset(ds),
            yaxis="y3",
            marker=dict(color=COLORS["orange"]),
        ),
    ]
    layout = dict(
        height=520,
        xaxis=dict(range=[-1, LENGTH], title=dict(text="offset i − j"), anchor="y3"),
        yaxis=dict(range=[0, 1.05], domain=[0.7, 1], title=dict(text="weight")),
        yaxis2=dict(range=[-1, 1], domain=[0.36, 0.64], title=dict(text="query i")),
        yaxis3=dict(range=[-6.8, 6.8], domain=[0, 0.3], title=dict(text="all queries")),
    )
    size = row.abs()
    words = {
        "method": method,
        "query": query,
        "total": f"{row.sum().item():+.3f}".replace("-", "−") if abs(row.sum().item()) > 5e-4 else "0",
        "nearer": size[:FAVORED].sum().item(),
        "farther": size[FAVORED + 1 :].sum().item(),
        "slope": f"{-(ds * offsets_between(LENGTH)).sum().item():+.2f}".replace("-", "−"),
    }
    return dict(data=data, layout=layout), words


by_offset = explorable(
    _by_offset,
    id="gradients.by_offset",
    title="The gradient of the logits, by offset",
    alt="Three rows of bars against the offset from the query back to the key. Above, the weights of one query. In the "
    "middle, the gradient of its logits, of both signs. Below, these gradients summed over all queries with that "
    "offset: what a table by offset would receive.",
    readout=f"{{method}}, query {{query}}: the row of gradients sums to {{total}}; sizes nearer than offset {FAVORED} "
    f"add up to {{nearer:.3f}}, farther to {{farther:.3f}}; a slope would get {{slope}}",
    depends={
        "sum over all queries": ["method", "head", "extra"],
        "readout.method": ["method"],
        "readout.query": ["query"],
        "readout.slope": ["method", "head", "extra"],
    },
    method=slider(list(BY_OFFSET), label="method"),
    head=slider(range(1, HEADS + 1), label="head"),
    query=slider(QUERIES, label="query position i", default=23),
    extra=slider([0, 2, 4, 6, 8], label=f"extra logits at offset {FAVORED}", default=0),
)


# By position: an untrained decoder, whose input rows are probed

TEXT, TEXTS, WORDS, WIDTH = 32, 64, 12, 16
EVERY = "every token"
ONE = {f"token {p}": p for p in (7, 15, 23, 31)}
FULL, DRAWN = f"all of {TEXT} tokens", f"of 4 to {TEXT} tokens"
BY_POSITION = {
    "NoPE": lambda: Encoding(),
    "sinusoidal": lambda: make("sinusoidal"),
    "learned": lambda: make("learned", max_positions=TEXT, dim=WIDTH),
    "RoPE": lambda: make("rope", head_dim=WIDTH // 2),
    "ALiBi": lambda: make("alibi", num_heads=2),
    "stick-breaking": lambda: make("stickbreaking", attend_current=True),
}


def texts(kind):
    r"""Seeded texts: tokens [TEXTS, TEXT] and their lengths [TEXTS]; some tokens are more frequent than others."""
    source = torch.Generator().manual_seed(3)
    frequency = 1 / torch.arange(1.0, WORDS + 1)
    tokens = torch.multinomial(frequency.expand(TEXTS, -1), TEXT, replacement=True, generator=source)
    drawn = torch.randint(4, TEXT + 1, (TEXTS,), generator=source)
    return tokens, drawn if kind == DRAWN else torch.full((TEXTS,), TEXT)


@functools.cache
def input_gradient(method, layers, of, kind):
    r"""The gradient of the loss with respect to the input of every token, [TEXTS, TEXT, WIDTH].

    of: EVERY, or the key in `ONE` of the token whose loss alone counts. Losses are summed over the tokens of a text.
    """
    rows = torch.zeros(TEXTS, TEXT, WIDTH, dtype=torch.float64, requires_grad=True)

    def encoding(layer):
        own = BY_POSITION[method]()
        if layer or own.embed is None:
            return own if layer else compose(Encoding(embed=lambda x, positions: x + rows), own)
        return Encoding(embed=lambda x, positions: own.embed(x, positions) + rows)

    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        model = Decoder(WORDS, WIDTH, layers, 2, encoding).double()
    tokens, lengths = texts(kind)
    following = tokens.roll(-1, 1)  # of the last token too: of an untrained model any will do
    losses = torch.nn.functional.cross_entropy(model(tokens).transpose(1, 2), following, reduction="none")
    counts = torch.arange(TEXT) < lengths[:, None]
    if of != EVERY:
        counts = counts & (torch.arange(TEXT) == ONE[of])
    return torch.autograd.grad(losses[counts].sum(), rows)[0]


def _by_position(method, layers, of, kind):
    g = input_gradient(method, layers, of, kind)
    position = torch.arange(TEXT)
    one_by_one, together = g.norm(dim=-1).sum(0), g.sum(0).norm(dim=-1)
    visits = (texts(kind)[1][:, None] > position).sum(0)

    def drawn(values):
        return [math.log10(x) if x > 1e-6 else math.nan for x in values.tolist()]

    data = [
        dict(
            type="scatter",
            name="sizes added up",
            x=position,
            y=drawn(one_by_one),
            mode="lines+markers",
            line=dict(color=COLORS["gray"], width=1, dash="dash"),
            marker=dict(size=6, symbol="circle-open"),
        ),
        dict(
            type="scatter",
            name="size of the sum, the row's gradient",
            x=position,
            y=drawn(together),
            mode="lines+markers",
            line=dict(color=COLORS["blue"], width=2),
            marker=dict(size=6),
        ),
        dict(
            type="bar",
            name="texts with a token there",
            x=position,
            y=visits,
            yaxis="y2",
            marker=dict(color=COLORS["orange"]),
        ),
    ]
    layout = dict(
        height=460,
        xaxis=dict(range=[-1, TEXT], title=dict(text="position p"), anchor="y2"),
        yaxis=dict(
            range=[-3.2, 2.4],
            domain=[0.36, 1],
            title=dict(text="gradient"),
            tickvals=[-3, -2, -1, 0, 1, 2],
            ticktext=["0.001", "0.01", "0.1", "1", "10", "100"],
        ),
        yaxis2=dict(range=[0, TEXTS + 4], domain=[0, 0.28], title=dict(text="texts")),
    )
    silent = int((together == 0).sum())
    return dict(data=data, layout=layout), {
        "silent": f"{silent} of {TEXT} rows get exactly 0" if silent else "no row gets 0",
        "first": together[0].item(),
        "last": together[-1].item(),
    }


by_position = explorable(
    _by_position,
    id="gradients.by_position",
    title="The gradient of the input, by position",
    alt="Above, on a logarithmic scale, the gradient that a row of positions receives, against the position: the size "
    "of the sum over all texts (full dots), below the sizes added up one by one (open dots). Below, bars: how many "
    "texts have a token at that position. With the loss of one token, nothing stands to the right of it.",
    readout="{silent}; row 0 gets {first:.3f}, the last row {last:.3f}",
    depends={"texts with a token there": ["kind"], "readout.silent": ["method", "layers", "of", "kind"]},
    method=slider(list(BY_POSITION), label="method", default="learned"),
    layers=slider([1, 2], label="layers"),
    of=slider([EVERY, *ONE], label="whose loss counts"),
    kind=slider([FULL, DRAWN], label="texts", default=DRAWN),
)
