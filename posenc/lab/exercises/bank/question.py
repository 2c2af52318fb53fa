r"""What a question of the bank is: a small function of a generator of random choices, with a key that posenc computes."""

import random
from collections.abc import Callable
from typing import NamedTuple


class Question(NamedTuple):
    r"""One question as one student reads it, and what the examiner holds.

    text: what is asked, in Markdown. key: the answer in a line. steps: ((points, what earns them), ...), the split.
    wrong: {a wrong answer as it would be written: what it tells}. given: the numbers drawn, by name. values: the numbers
    of the key, computed by posenc. difficulty: 1 (recall and compute), 2 (combine), 3 (argue). minutes: to answer.
    """

    text: str
    key: str
    steps: tuple
    wrong: dict
    given: dict
    values: tuple
    difficulty: int
    minutes: int

    @property
    def points(self) -> int:
        """What the question is worth."""
        return sum(points for points, _ in self.steps)


def number(value) -> str:
    """A number as a calculator's user would write it: four significant digits, whole numbers whole."""
    value = float(value) if abs(float(value)) > 1e-12 else 0.0
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e6 else f"{value:.4g}"


def vector(values) -> str:
    """Numbers in parentheses."""
    return "(" + ", ".join(number(value) for value in values) + ")"


def options(draw: random.Random, right: str, wrongs: list[str]) -> tuple[str, str]:
    r"""Lettered answers in a drawn order: (the list in Markdown, the letter of the right one)."""
    lines = [right, *wrongs]
    draw.shuffle(lines)
    text = "\n".join(f"- ({letter}) {line}" for letter, line in zip("abcdef", lines))
    return text, "abcdef"[lines.index(right)]


def solve(function: Callable[[float], float], target: float, low: float, high: float) -> float:
    r"""Where a monotonic function takes a value, between low > 0 and high, by bisection of the logarithm."""
    rises = function(high) > function(low)
    for _ in range(80):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if (function(middle) > target) == rises else (middle, high)
    return middle
