"""The chapter *RoPE, looked at closely*: its four codes, its theorem, and what its figures compute."""

import math
import re

import pytest
import torch
from lab_runs import private
from test_book import BOOK

from posenc.rotate.rope import inv_freq, rotate

PAGE = (BOOK / "rope_closely" / "index.md").read_text("utf-8")


def test_which_codes_are_harmless_and_the_solutions_know():
    """The page defines its codes and does not run them: their answers stand in the solutions."""
    names = {"torch": torch, "rotate": rotate, "inv_freq": inv_freq}
    for cell in re.findall(r"^```\{code-cell\} ipython3\n(.*?)^```$", PAGE, re.M | re.S):
        if "def code_e" in cell or "def judge_code" in cell:
            exec(re.sub(r"^:tags:.*\n", "", cell), names)
    solutions = private("rope_closely/solutions.md").read_text("utf-8")
    for letter, answers in {"E": (True, False), "F": (True, True), "G": (False, False), "H": (True, True)}.items():
        assert names["judge_code"](names[f"code_{letter.lower()}"]) == answers
        row = re.search(rf"^\| {letter} \|.*\| (\w+) \| (\w+) \|[^|]*\|$", solutions, re.M)
        assert row.groups() == tuple("yes" if answer else "no" for answer in answers)
    assert not re.search(r"judge_code\(code_\w\)", PAGE), "the page must not run them"
    for block in re.findall(r"^```python\n(.*?)^```$", solutions, re.M | re.S):
        exec(block, names)


@pytest.mark.parametrize("distance", [0, 3, 1000])
def test_the_theorem_for_pairs_of_any_length_and_uniform_angle(distance):
    r"""Var s = 1/2 sum_i E|q_i|^2 E|k_i|^2, with a query that is anything but rotation invariant."""
    draws, generator = 20_000, torch.Generator().manual_seed(0)
    lengths = torch.tensor([0.5, 1.0, 2.0, 3.0], dtype=torch.float64)
    phase = 2 * math.pi * torch.rand(draws, 4, dtype=torch.float64, generator=generator)
    k = torch.stack((lengths * phase.cos(), lengths * phase.sin()), dim=-1).flatten(-2)
    q = torch.randn(draws, 8, dtype=torch.float64, generator=generator).abs()
    at = torch.full((draws,), distance)
    scores = (rotate(q, at, inv_freq(8)) * k).sum(-1)
    variance = (q.square().unflatten(-1, (4, 2)).sum(-1).mean(0) * lengths**2).sum() / 2
    assert abs(scores.mean()) < 4 * (variance / draws).sqrt() and abs(scores.var() / variance - 1) < 0.05
