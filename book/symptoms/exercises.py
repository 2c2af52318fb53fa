r"""The lab *Find the bug*: twelve codes as they should be, and three faults that each may have.

A fault is an edit of the right code, and a mistake of its `Exercise`. The student's seed draws one for each case: the
lab shows the code with it, asks for its name, one of `NAMES`, and for the code without it.
"""

import math

import torch

import posenc
from posenc.lab.check.exercise import Exercise, generator

NAMES = {
    "sign": "something turns, or counts, the other way",
    "ladder": "frequencies of another number of lanes",
    "layout": "lanes are paired, or laid out, in two ways",
    "lanes": "other lanes turn than should",
    "axis": "something is counted along the wrong axis",
    "narrow": "positions or frequencies are rounded to the dtype of the vectors",
    "offset": "new tokens are read as if nothing had been before them",
    "off by one": "a position, a distance or a border is one too many or too few",
    "pads": "pads are counted as tokens",
    "leak": "a query sees what it may not: the future, or another text",
    "after softmax": "what belongs before the softmax comes after it",
    "scale": "the scores are not divided by the root of D",
    "heads": "slopes of another number of heads",
}


def halves(x, positions, base):
    """Turn x [..., T, D] at positions [T], lane i with lane i + D/2."""
    pairs = x.shape[-1] // 2
    angles = positions[:, None] * base ** (-torch.arange(pairs) / pairs)
    angles = torch.cat((angles, angles), dim=-1)  # [T, D]
    a, b = x.chunk(2, dim=-1)
    return x * angles.cos() + torch.cat((-b, a), dim=-1) * angles.sin()


def part(x, positions, turning, base):
    """Turn the first `turning` lanes of x [..., T, D] at positions [T], neighbors with each other; leave the rest."""
    ladder = base ** (-torch.arange(0, turning, 2) / turning)
    turned = posenc.rope.rotate(x[..., :turning], positions, ladder)
    return torch.cat((turned, x[..., turning:]), dim=-1)


def neighbors(x, positions, base):
    """Turn neighbors among the lanes of x [..., T, D] at positions [T]; the result has the dtype of x."""
    ladder = base ** (-torch.arange(0, x.shape[-1], 2, dtype=torch.float64) / x.shape[-1])
    angles = positions[:, None] * ladder
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)


def embed(x, positions, base):
    """Add to x [B, T, C] the sinusoid of positions [T]: sine and cosine of each frequency side by side."""
    angles = positions[:, None] * base ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    code = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)  # [T, C]
    return x + code.to(x.dtype)


def decode(q, k, v, positions, base):
    """Attend with RoPE from q [B, H, Tq, D], the last tokens, to k and v [B, H, Tk, D] at positions [Tk]."""
    new, ladder = q.shape[-2], posenc.rope.inv_freq(q.shape[-1], base)
    q = posenc.rope.rotate(q, positions[-new:], ladder)
    k = posenc.rope.rotate(k, positions, ladder)
    return posenc.attention(q, k, v)


def mask(q, k, v):
    """Attend from q [B, H, Tq, D], the last tokens, to k and v [B, H, Tk, D]: each to itself and to what is before."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    queries, keys = scores.shape[-2:]
    seen = torch.ones(queries, keys).tril(keys - queries) > 0
    return scores.masked_fill(~seen, -math.inf).softmax(-1) @ v


def window(scores, distance, visible, size):
    """Weights of the nearest `size` keys, its own among them, of what a query sees: all [..., Tq, Tk]."""
    near = visible & (distance < size)
    return scores.masked_fill(~near, -math.inf).softmax(-1)


def ids(valid, new):
    """Ids [B, new] of the last `new` tokens of rows with valid [B, T]: 0 at pads, on the left, and 1 at tokens."""
    return (valid.cumsum(-1) - 1).clamp(min=0)[:, -new:]


def texts(ids):
    """What queries may see in packed rows, bool [B, 1, T, T]: ids [B, T] begin at 0 with each text."""
    text = (ids == 0).cumsum(-1)
    same = text[:, None, :, None] == text[:, None, None, :]
    return same & (torch.ones(same.shape[-2:]).tril() > 0)


def slopes(q, k, v, positions):
    """Attend with ALiBi from q [B, H, Tq, D], the last tokens, to k and v [B, H, Tk, D] at positions [Tk]."""
    bias = -posenc.alibi.slopes(q.shape[1])[:, None, None] * (positions[-q.shape[2] :, None] - positions).clamp(min=0)
    scores = q @ k.mT / math.sqrt(q.shape[3]) + bias
    future = torch.ones(scores.shape[2:]).triu(k.shape[2] - q.shape[2] + 1) > 0
    return scores.masked_fill(future, -math.inf).softmax(-1).to(v.dtype) @ v


def buckets(pos_q, pos_k, table):
    """T5's bias [H, Tq, Tk] of whole positions pos_q [Tq] and pos_k [Tk], from the learned table [H, 32]."""
    relative = pos_k - pos_q[:, None]  # key minus query
    return table[:, posenc.t5.bucket(relative, bidirectional=False)]


def decay(log_forget, queries):
    """FoX's bias [..., queries, Tk] of the last `queries` tokens: the sum of log_forget [..., Tk] behind each key."""
    sums = log_forget.cumsum(-1)
    return sums[..., -queries:, None] - sums[..., None, :]


def _draw(*shape):
    return torch.randn(shape, generator=generator())


def _tokens(new, keys, heads=2, lanes=8):
    return _draw(2, heads, new, lanes), *_draw(2, 2, heads, keys, lanes)


def _window(new, keys, size):
    distance = torch.arange(keys - new, keys)[:, None] - torch.arange(keys)
    return _draw(1, 2, new, keys), distance, distance >= 0, size


def _at(first, count, step=1):
    return first + step * torch.arange(count)


#: the right code -> the arguments that answers are tried with
ARGUMENTS = {
    halves: lambda: [(_draw(2, 5, 8), _at(3, 5), 1e4), (_draw(7, 12), _at(0, 7, 30), 5e5)],
    part: lambda: [(_draw(6, 16), _at(2, 6), 4, 1e4), (_draw(2, 5, 12), _at(0, 5, 9), 8, 1e3)],
    neighbors: lambda: [(_draw(5, 8).bfloat16(), _at(4091, 5), 1e4), (_draw(2, 6, 12), _at(3, 6), 1e4)],
    embed: lambda: [(_draw(2, 5, 8), _at(7, 5), 1e4), (_draw(3, 4, 6), _at(1, 4), 100.0)],
    decode: lambda: [(*_tokens(2, 7), _at(0, 7), 1e4), (*_tokens(5, 5), _at(9, 5, 2), 1e3)],
    mask: lambda: [_tokens(3, 8), _tokens(6, 6)],
    window: lambda: [_window(6, 6, 3), _window(2, 9, 4)],
    ids: lambda: [((_at(0, 9) >= torch.tensor([[0], [4]])).long(), 9), ((_at(0, 7) >= torch.tensor([[2]])).long(), 1)],
    texts: lambda: [(torch.tensor([[0, 1, 2, 0, 1, 0, 1, 2], [0, 1, 0, 1, 2, 3, 4, 5]]),), (_at(3, 5)[None],)],
    slopes: lambda: [(*_tokens(2, 7, heads=6), _at(0, 7)), (*_tokens(5, 5, heads=3), _at(4, 5, 2))],
    buckets: lambda: [(_at(5, 4), _at(0, 9), _draw(2, 32)), (_at(0, 6, 30), _at(0, 6, 30), _draw(3, 32))],
    decay: lambda: [(-_draw(2, 3, 7).abs(), 7), (-_draw(1, 2, 9).abs(), 2)],
}

#: case -> its faults, "name: what it is" -> the edits that make it
FAULTS = {
    "halves": {
        "layout: angles of neighbors": "torch.cat((angles, angles), dim=-1) -> angles.repeat_interleave(2, -1)",
        "sign: no lane of a pair gets the minus": "(-b, a) -> (b, a)",
        "ladder: the exponents end at one half": "/ pairs) -> / x.shape[-1])",
    },
    "part": {
        "lanes: the last ones turn": (
            "[..., :turning] -> [..., -turning:]",
            "(turned, x[..., turning:]) -> (x[..., :-turning], turned)",
        ),
        "ladder: its exponents count all lanes, not those that turn": "/ turning) -> / x.shape[-1])",
        "layout: lane i meets lane i + D/2": "positions, ladder) -> positions, ladder, layout='half')",
    },
    "neighbors": {
        "narrow: positions are rounded": "positions[:, None] -> positions[:, None].to(x.dtype)",
        "narrow: frequencies are rounded": "* ladder -> * ladder.to(x.dtype)",
        "sign: no lane of a pair gets the minus": "a * cos - b * sin -> a * cos + b * sin",
    },
    "embed": {
        "axis: each text gets one vector, by its row in the batch": "code.to -> code[: x.shape[0], None].to",
        "offset: positions begin at 0 in each call": "positions[:, None] -> torch.arange(x.shape[1])[:, None]",
        "layout: all sines come first, then all cosines": ("torch.stack -> torch.cat", ".flatten(-2) -> "),
    },
    "decode": {
        "offset: queries stand where the first keys do": "positions[-new:] -> positions[:new]",
        "off by one: queries stand one place too early": "positions[-new:] -> positions[-new:] - 1",
        "sign: keys turn backwards": "rotate(k, positions -> rotate(k, -positions",
    },
    "mask": {
        "offset: the triangle begins at the first key": "tril(keys - queries) -> tril()",
        "leak: the triangle shows the next token": "tril(keys - queries) -> tril(keys - queries + 1)",
        "after softmax: the future is hidden": "masked_fill(~seen, -math.inf).softmax(-1) -> softmax(-1).mul(seen)",
    },
    "window": {
        "off by one: a key too many": "distance < size -> distance <= size",
        "leak: nothing hides the future": "visible & (distance < size) -> distance < size",
        "after softmax: far keys are hidden once they have their share": (
            "~near, -math.inf).softmax(-1) -> ~visible, -math.inf).softmax(-1).mul(near)"
        ),
    },
    "ids": {
        "pads: the columns are counted": "valid.cumsum(-1) -> torch.ones_like(valid).cumsum(-1)",
        "offset: the new tokens get the first ids": "[:, -new:] -> [:, :new]",
        "axis: rows of the batch are counted": "valid.cumsum(-1) -> valid.cumsum(0)",
    },
    "texts": {
        "leak: earlier texts are seen": "== text[:, None, None, :] -> >= text[:, None, None, :]",
        "leak: nothing hides the future": "same & (torch.ones(same.shape[-2:]).tril() > 0) -> same",
        "off by one: a text begins with its second token": "(ids == 0) -> (ids == 1)",
    },
    "slopes": {
        "heads: the formula is that of a power of two": (
            "posenc.alibi.slopes(q.shape[1]) -> 2.0 ** (-8 * torch.arange(1, q.shape[1] + 1) / q.shape[1])"
        ),
        "after softmax: the penalty is taken off the weights": (
            " + bias -> ",
            ".to(v.dtype) -> .add(bias).to(v.dtype)",
        ),
        "scale: scores are too large for it": " / math.sqrt(q.shape[3]) -> ",
    },
    "buckets": {
        "offset: queries are counted from the first key": "pos_q[:, None] -> torch.arange(len(pos_q))[:, None]",
        "sign: it is query minus key": "pos_k - pos_q[:, None] -> pos_q[:, None] - pos_k",
        "off by one: each key stands one place nearer": "pos_k - pos_q[:, None] -> pos_k - pos_q[:, None] + 1",
    },
    "decay": {
        "offset: the gates of the new tokens alone are summed": (
            "log_forget.cumsum -> log_forget.index_fill(-1, torch.arange(log_forget.shape[-1] - queries), 0.0).cumsum"
        ),
        "sign: what is left grows with each gate that closes": "None] - sums -> None] + sums",
        "off by one: a key's own gate is counted": "- sums[..., None, :] -> - (sums - log_forget)[..., None, :]",
    },
}


def drawn(case):
    """The fault that the student's seed draws for a case, as "name: what it is"."""
    number, faults = list(FAULTS).index(case), list(FAULTS[case])
    return faults[int(torch.randint(len(faults), (), generator=generator(100 + number)))]


def faulty(case):
    """Print a case's code with the fault that the student's seed draws, and return it, a function."""
    wrong = EXERCISES[case].mistakes[drawn(case)]
    print(wrong.source)
    return wrong


def numbers():
    """The numbers that the student's seed draws: RoPE's base, heads that are no power of two, and a window's keys."""
    pick = torch.randint(60, (3,), generator=generator(99))
    return (1e3, 1e4, 5e4, 5e5)[pick[0] % 4], (3, 5, 6, 7)[pick[1] % 4], (3, 4, 5, 6, 7)[pick[2] % 5]


def _naming(case, number):
    """The exercise that asks for the name of a case's fault: of an answer is compared what kind of name it is."""

    def kind(answer):
        name, right = answer(), drawn(case).partition(":")[0]
        possible = name in [fault.partition(":")[0] for fault in FAULTS[case]]
        return "right" if name == right else "possible" if possible else "listed" if name in list(NAMES) else "none"

    def name_of_kind(wanted):
        return lambda: next(name for name in (*NAMES, "?") if kind(lambda name=name: name) == wanted)

    mistakes = {
        "such code may well have that fault, and this one has another": name_of_kind("possible"),
        "nothing here is a fault of that name": name_of_kind("listed"),
        "no fault of the list is called so": name_of_kind("none"),
    }
    right = name_of_kind("right")
    head = f'def {case}_fault():\n    """The name of the fault in case {number}, one of those listed above."""'
    right.source = f'{head}\n    return find("symptoms.{case}_fault").reference()'
    return Exercise(right, [()], mistakes=mistakes, run=kind, title=f"Case {number}, the fault")


ON_PAPER = 3  # points

EXERCISES = {}
for number, (reference, arguments) in enumerate(ARGUMENTS.items(), start=1):
    case = reference.__name__
    run = (lambda code, c, new: code(c, new).tril(c.shape[-1] - new)) if case == "decay" else None  # what a query sees
    tolerance = 0.05 if reference is neighbors else 1e-4  # in bfloat16 another order of rounding is no fault
    EXERCISES[f"{case}_fault"] = _naming(case, number)
    nothing = dict.fromkeys(FAULTS[case], 0.0)  # what was sent, sent back
    shared = {"run": run, "shares": nothing, "title": f"Case {number}, {case}"}
    EXERCISES[case] = Exercise(reference, arguments, tolerance, 2, FAULTS[case], **shared)
