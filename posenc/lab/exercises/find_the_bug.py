r"""Twelve broken encodings: the lab *Find the bug* shows their code, the student names the fault and repairs it.

A seed deals the cases in another order and with other numbers. A case is its code as text: what is shown is what runs.
"""

import math
import random
from typing import NamedTuple

import torch

from posenc.audit import audit
from posenc.encoding import At
from posenc.lab.exercises.exercise import Exercise, Problem, student_seed

#: The faults that a case may have, and what each one means.
FAULTS = {
    "sign": "the past gains where it must lose",
    "layout": "lanes of one layout meet the angles of the other",
    "leak": "the future changes the weights of the past",
    "decoding": "with a cache, queries get the positions of the first tokens",
    "precision": "positions are rounded before the angles are made",
    "padding": "a query that sees nothing gives NaN, where it must give zeros",
    "shared": "all heads have one slope",
    "scale": "scores are not divided by the square root of D",
    "restart": "positions start again within a text",
    "ladder": "the frequencies fall half as far as they should",
    "values": "the values are turned, and keep their absolute position",
    "stick": "a row takes more than there is",
}

_ROTATE = """\
def case(x, positions):  # x [B, H, T, D], positions [T] -> like x
    dim = x.shape[-1]
    w = {base:g} ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angles = positions.double()[:, None] * w  # [T, D/2]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)
"""

_HALF = """\
def case(x, positions):  # x [B, H, T, D], positions [T] -> like x; lane i is paired with lane i + D/2
    dim = x.shape[-1]
    w = {base:g} ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angles = positions.double()[:, None] * w
    angles = torch.cat((angles, angles), dim=-1)  # [T, D]
    a, b = x.chunk(2, dim=-1)
    return x * angles.cos().to(x.dtype) + torch.cat((-b, a), dim=-1) * angles.sin().to(x.dtype)
"""

_BIAS = """\
def case(pos_q, pos_k):  # [Tq], [Tk] -> [H, Tq, Tk], added to the scaled scores of H = 4 heads
    slopes = torch.tensor([2.0 ** (-{steep:g} * h / 4) for h in range(1, 5)])
    distance = pos_q[:, None] - pos_k[None, :]
    return -slopes[:, None, None] * distance
"""

_WEIGH = """\
def case(scores, at):  # scores [B, H, Tq, Tk], at.visible [B, 1, Tq, Tk] -> weights like scores
    scores = (scores / {temperature:g}).masked_fill(~at.visible, float("-inf"))
    weights = scores.softmax(-1)
    return weights.nan_to_num(0.0)  # a row that sees nothing
"""

_STICK = """\
def case(scores, at):  # stick-breaking, the newest key first; scores [B, H, Tq, Tk] -> weights like scores
    bites = (scores / {temperature:g}).sigmoid() * at.visible
    left = torch.ones_like(bites[..., 0])
    weights = torch.zeros_like(bites)
    for j in range(scores.shape[-1] - 1, -1, -1):
        weights[..., j] = left * bites[..., j]
        left = left * (1 - bites[..., j])
    return weights
"""

_ATTENTION = """\
def case(q, k, v, positions, causal):  # q [B, H, Tq, D], k and v [B, H, Tk, D], positions [Tk]; Tq <= Tk
    def turn(x, at):
        dim = x.shape[-1]
        angles = at.double()[:, None] * {base:g} ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)

    queries, keys = q.shape[-2], k.shape[-2]
    scores = turn(q, positions[keys - queries:]) @ turn(k, positions).transpose(-2, -1) / q.shape[-1] ** 0.5
    if causal:
        hidden = torch.ones(queries, keys, dtype=torch.bool, device=q.device).triu(1 + keys - queries)
        scores = scores.masked_fill(hidden, float("-inf"))
    return scores.softmax(-1) @ v
"""


class Fault(NamedTuple):
    """One way to break a piece of code: its place, the code when right, and the line that becomes another."""

    place: str
    code: str
    right: str
    wrong: str


#: fault -> how it is made. The code differs from the right one in one place.
MADE = {
    "sign": Fault("bias", _BIAS, "return -slopes[:, None, None] * distance", "return slopes[:, None, None] * distance"),
    "layout": Fault("rotate", _HALF, "torch.cat((angles, angles), dim=-1)", "angles.repeat_interleave(2, dim=-1)"),
    "leak": Fault(
        "weigh",
        _WEIGH,
        """masked_fill(~at.visible, float("-inf"))
    weights = scores.softmax(-1)
""",
        """clamp(min=-1e4)
    weights = scores.softmax(-1) * at.visible
""",
    ),
    "decoding": Fault("attention", _ATTENTION, "positions[keys - queries:])", "positions[:queries])"),
    "precision": Fault("rotate", _ROTATE, "positions.double()[:, None] * w",
                       "positions.to(x.dtype)[:, None] * w.to(x.dtype)"),
    "padding": Fault("weigh", _WEIGH, "return weights.nan_to_num(0.0)  # a row that sees nothing", "return weights"),
    "shared": Fault("bias", _BIAS, "for h in range(1, 5)", "for h in (1, 1, 1, 1)"),
    "scale": Fault("attention", _ATTENTION, ".transpose(-2, -1) / q.shape[-1] ** 0.5", ".transpose(-2, -1)"),
    "restart": Fault("rotate", _ROTATE, "positions.double()[:, None] * w",
                     "(positions.double() % {window})[:, None] * w"),
    "ladder": Fault("rotate", _ROTATE, "torch.arange(0, dim, 2, dtype", "torch.arange(dim // 2, dtype"),
    "values": Fault("attention", _ATTENTION, "scores.softmax(-1) @ v", "scores.softmax(-1) @ turn(v, positions)"),
    "stick": Fault("weigh", _STICK, "left = left * (1 - bites[..., j])", "left = left * (1 - bites[..., j] / 2)"),
}  # fmt: skip


class Case(NamedTuple):
    """One broken piece of code: its fault's name, its place, the code as shown, and the code when right."""

    fault: str
    place: str
    broken: str
    right: str


def hunt(seed: int = 0) -> list[Case]:
    r"""The twelve cases in the order that a seed deals them, with its numbers."""
    names, numbers = list(MADE), _numbers(seed)
    random.Random(f"find_the_bug.{seed}").shuffle(names)
    cases = []
    for name in names:
        fault = MADE[name]
        broken = fault.code.replace(fault.right, fault.wrong)
        cases.append(Case(name, fault.place, broken.format(**numbers), fault.code.format(**numbers)))
    return cases


def _numbers(seed):
    """What a seed writes into the code."""
    draw = random.Random(f"find_the_bug.numbers.{seed}")
    return {
        "base": draw.choice([1000.0, 5000.0, 10000.0]),
        "steep": draw.choice([4.0, 6.0, 8.0]),
        "temperature": draw.choice([1.25, 1.5, 2.0]),
        "window": draw.choice([40, 50, 56]),
    }


def made(code: str):
    """The function `case` that a text defines."""
    space = {"torch": torch, "math": math}
    exec(code, space)
    return space["case"]


def show(number: int) -> None:
    r"""Print the code of a case, from 1 to 12, and the place it acts at. Errors: ValueError for another number."""
    one = case(number)
    print(f"# Case {number}, for audit(case_{number}, {one.place!r})")
    print(one.broken.replace("def case(", f"def case_{number}("))


def case(number: int) -> Case:
    r"""A case of the student's hunt. Errors: ValueError for a number that is not from 1 to 12."""
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= len(MADE):
        raise ValueError(f"number={number!r} must be a whole number from 1 to {len(MADE)}")
    return hunt(student_seed())[number - 1]


def broken(number: int):
    """The broken function of a case."""
    return made(case(number).broken)


# Questions that the audit does not ask: each takes a function and says whether it is right, and what it saw, in words.


def see_slopes(function) -> tuple[bool, str]:
    """Whether heads are biased by different amounts."""
    bias = function(torch.tensor([8]), torch.tensor([7]))
    each = bias.expand(-1, 1, 1).flatten().tolist()
    return len(set(each)) == len(each), f"at distance 1 the heads get {', '.join(f'{value:.4g}' for value in each)}"


def see_scale(function) -> tuple[bool, str]:
    """How sharp weights are where the content is random: the spread of scores, read back from the weights."""
    generator = torch.Generator().manual_seed(0)
    spread = []
    for dim in (16, 256):
        q, k = torch.randn(2, 1, 64, 64, dim, generator=generator, dtype=torch.float64)
        weights = function(q, k, torch.eye(64, dtype=torch.float64).expand(1, 64, 64, 64), torch.arange(64), False)
        spread.append(float(weights.log().std(-1).mean()))
    right = abs(spread[1] / spread[0] - 1) < 0.2
    return right, f"random scores have the spread {spread[0]:.2f} at D = 16 and {spread[1]:.2f} at D = 256"


def see_empty_row(function) -> tuple[bool, str]:
    """What a query gets that may see no key."""
    visible = torch.tensor([[False, False], [True, False]])[None, None]
    at = At(torch.arange(2)[None], torch.arange(2)[None], visible, None)
    row = function(torch.zeros(1, 1, 2, 2), at)[0, 0, 0]
    return bool((row == 0).all()), f"a query that sees nothing has the weights {row.tolist()}"


def see_ladder(function, dim: int = 64) -> tuple[bool, str]:
    """The base of the ladder of frequencies, read off a rotation by one position."""
    eye = torch.eye(dim, dtype=torch.float64)[:, None, None]
    cosines = torch.cat([function(lane[None], torch.tensor([1])) for lane in eye]).view(dim, dim).diagonal()
    w = cosines.acos().sort(descending=True).values[::2]  # each pair has two lanes
    steps = torch.log(w[:-1] / w[1:]).mean() * dim / 2
    base = math.exp(float(steps))
    return base > 900, f"pair i turns by b^(-2i/D) with b = {base:.4g}"


#: Faults that the audit does not know: the question that finds each one.
NAMED = {"shared": see_slopes, "scale": see_scale, "padding": see_empty_row, "ladder": see_ladder}


def findings(function, place: str) -> list[str]:
    r"""What is wrong with a function: the questions of the audit that fail, and those in `NAMED` that do."""
    report = audit(function, place, decays=place == "bias")
    wrong = list(report.failures)
    for name, see in NAMED.items():
        if MADE[name].place == place:
            try:
                wrong += [name] * (not see(function)[0])
            except (RuntimeError, ValueError, IndexError):
                wrong.append(name)
    return wrong


# The exercises: name all faults, then repair each case.

#: What else may go wrong in a repair: code -> ((words, the right line, the wrong line), ...).
SLIPS = {
    _ROTATE: (("it turns backwards", "a * cos - b * sin, a * sin + b * cos", "a * cos + b * sin, b * cos - a * sin"),),
    _HALF: (
        ("it turns backwards", "torch.cat((-b, a), dim=-1)", "torch.cat((b, -a), dim=-1)"),
        ("the sine is missing: lanes shrink", " + torch.cat((-b, a), dim=-1) * angles.sin().to(x.dtype)", ""),
    ),
    _BIAS: (
        ("the past loses, and so does the future: this is the symmetric form", "* distance\n", "* distance.abs()\n"),
        ("the future is clamped to 0: leave it to the causal mask", "* distance\n", "* distance.clamp(min=0)\n"),
    ),
    _WEIGH: (
        ("the temperature is gone", " / {temperature:g}", ""),
        ("a row that sees nothing gives every key the same", 'float("-inf")', "-1e9"),
    ),
    _STICK: (
        ("the oldest key is asked first now", "range(scores.shape[-1] - 1, -1, -1)", "range(scores.shape[-1])"),
        ("the temperature is gone", " / {temperature:g}", ""),
        ("hidden keys take from the stick: hide them before", ".sigmoid() * at.visible", ".sigmoid()"),
    ),
    _ATTENTION: (("the causal mask is gone", "if causal:", "if False:"),),
}  # fmt: skip


def deal(seed: int) -> dict:
    r"""The lab's exercises for a seed, {name: `Exercise`}: `faults`, then `case_1` to `case_12`."""
    cases = hunt(seed)
    names = [one.fault for one in cases]
    wrong = {
        "cases are counted from 1: the first name belongs to case 1": lambda: [names[-1], *names[:-1]],
        "the list stands backwards": lambda: names[::-1],
        "the names stand in the order of the list of faults: they go by case": lambda: list(FAULTS),
    }
    table = {
        "faults": Exercise(
            title="Exercise 1, faults",
            points=6,
            reference=lambda: list(names),
            cases=[()],
            mistakes=wrong,
            run=lambda function: _named(function, names),
        )
    }
    for number, one in enumerate(cases, start=1):
        code, slips = MADE[one.fault].code, {}
        slips["this is the code as it was: audit it again"] = code.replace(MADE[one.fault].right, MADE[one.fault].wrong)
        for name, fault in MADE.items():  # what may be broken while another thing is mended
            if fault.code == code and name != one.fault:
                slips[FAULTS[name]] = code.replace(fault.right, fault.wrong)
        slips |= {words: code.replace(right, wrong) for words, right, wrong in SLIPS[code]}
        table[f"case_{number}"] = Exercise(
            title=f"Exercise {number + 1}, case_{number}",
            points=1,
            reference=made(one.right),
            cases=_TRIED[one.place],
            tolerance=1e-5,
            mistakes={words: made(text.format(**_numbers(seed))) for words, text in slips.items()},
        )
    return table


def _named(function, names):
    """What the student's list says, or a `Problem` that counts."""
    answer = function()
    if answer is None or answer is ...:
        return answer
    if not isinstance(answer, (list, tuple)) or len(answer) != len(names):
        raise Problem(f"a list of {len(names)} names is expected, one a case.")
    unknown = [name for name in answer if name not in FAULTS]
    if unknown:
        raise Problem(f"{unknown[0]!r} is no fault of the list; there are {', '.join(FAULTS)}.")
    wrong = [str(i) for i, (name, right) in enumerate(zip(answer, names), start=1) if name != right]
    if wrong:
        raise Problem(f"{len(names) - len(wrong)} of {len(names)} are right; look again at {', '.join(wrong)}.", answer)
    return list(answer)


def _normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + 1000 * student_seed()))


def _turned():
    yield _normal(1, 2, 5, 8), torch.arange(5)
    yield _normal(2, 1, 4, 8, seed=1), torch.tensor([3, 60, 100, 900])
    yield _normal(1, 1, 3, 8, seed=2).half(), torch.tensor([1025, 2049, 3001])


def _biased():
    yield torch.arange(4), torch.arange(4)
    yield torch.tensor([7, 9]), torch.tensor([2, 5, 9, 11])


def _weighed():
    visible = torch.ones(5, 5, dtype=torch.bool).tril()[None, None]
    holes = visible.clone()
    holes[..., 0] = holes[..., 1, :] = False
    for number, seen in enumerate((visible, holes)):
        yield 2 * _normal(1, 2, 5, 5, seed=3 + number), At(torch.arange(5)[None], torch.arange(5)[None], seen, None)


def _attended():
    for queries, causal in ((6, True), (2, True), (1, True), (3, False)):
        q, k, v = (_normal(1, 2, n, 8, seed=5 + i) for i, n in enumerate((queries, 6, 6)))
        yield q, k, v, torch.arange(6) + 11, causal


_TRIED = {
    "rotate": lambda: list(_turned()),
    "bias": lambda: list(_biased()),
    "weigh": lambda: list(_weighed()),
    "attention": lambda: list(_attended()),
}
ON_PAPER = 2  # points
