"""The chapter *RoPE, looked at closely*: its four codes, its theorem, its results and its explorables."""

import math
import re
from pathlib import Path

import pytest
import torch

from posenc.lab.figures import rope_closely as figures
from posenc.lab.pages import rope_closely as page
from posenc.rotate.rope import inv_freq, rotate

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "book" / "rope_closely.md").read_text("utf-8")
CELLS = re.findall(r"^```\{code-cell\} ipython3\n(.*?)^```$", PAGE, re.M | re.S)


@pytest.fixture
def codes():
    """What the two cells of *Find the harmless bug* define."""
    names = {"torch": torch, "rotate": rotate, "inv_freq": inv_freq}
    for cell in CELLS:
        if "def code_e" in cell or "def judge_code" in cell:
            exec(re.sub(r"^:tags:.*\n", "", cell), names)
    return names


@pytest.mark.parametrize(
    "code, verdict",
    [
        ("right", (True, True)),
        ("code_e", (True, False)),
        ("code_f", (True, True)),
        ("code_g", (False, False)),
        ("code_h", (True, True)),
    ],
)
def test_which_codes_are_harmless(codes, code, verdict):
    assert codes["judge_code"](codes[code]) == verdict


def test_the_answers_are_in_the_solutions_and_the_page_runs_none_of_the_codes(codes):
    solutions = (ROOT / "course" / "rope_closely_solutions.md").read_text("utf-8")
    for letter, (relative, same) in {"E": (1, 0), "F": (1, 1), "G": (0, 0), "H": (1, 1)}.items():
        row = re.search(rf"^\| {letter} \|.*\| (\w+) \| (\w+) \|[^|]*\|$", solutions, re.M)
        assert row.groups() == tuple(("no", "yes")[answer] for answer in (relative, same))
    assert not re.search(r"judge_code\(code_\w\)", PAGE), "the page must not run them"


def test_the_code_of_the_solutions_runs(codes):
    solutions = (ROOT / "course" / "rope_closely_solutions.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", solutions, re.M | re.S)
    assert len(blocks) == 2
    for block in blocks:
        exec(block, codes)  # they assert


def test_every_exercise_has_a_solution():
    solutions = (ROOT / "course" / "rope_closely_solutions.md").read_text("utf-8")
    titles = re.findall(r"^```\{exercise\} (.+)$", PAGE, re.M)
    assert len(titles) == 5 and [t for t in titles if f"\n## {t} (" not in solutions] == []


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


def test_one_rounding_at_a_time():
    w, at = inv_freq(16, dtype=torch.float64), torch.tensor([0, 255, 256, 257, 2049])
    exact = (at.double()[:, None] * w).cos()
    errors = {where: (figures.rounded_cos_sin(at, w, where)[0] - exact).abs().amax(1) for where in figures.ROUNDED}
    assert errors["positions in bf16"][:3].max() == 0 and errors["positions in bf16"][3] > 0.1
    assert errors["positions in fp16"][:4].max() == 0 and errors["positions in fp16"][4] > 0.1
    assert errors["float32 angles"].max() < 2e-4
    assert 1e-4 < errors["cos and sin in bf16"].max() < 1.01 * 2**-9
    assert errors["frequencies in bf16"][4] > errors["frequencies in fp16"][4] > 0.01
    x = torch.randn(5, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    off = (figures.turn_rounded(x, at, w, "float32 angles") - rotate(x, at, w)).abs().max()
    assert 0 < off < 1e-3


def test_errors_are_of_the_size_that_the_chapter_says():
    bf16, fp16 = (figures.octave_errors("positions", dtype) for dtype in ("bf16", "fp16"))
    first = figures.OCTAVES[0]
    for errors, exact in ((bf16, 8), (fp16, 11)):  # up to 2^8 and 2^11
        assert errors[: exact - first].max() == 0 and errors[exact - first, 0] > 0.5
    assert fp16[16 - first].isnan().any(), "infinity has no cosine"
    assert figures.octave_errors("cos and sin", "bf16").max() < 1.01 * 2**-9
    angles = figures.octave_errors("the angle", "float32").amax(1)
    assert angles[11 - first] < 3e-4 < 1e-2 < angles[-1]
    frequencies = figures.octave_errors("frequencies", "bf16")
    assert frequencies[:, 0].max() == 0, "the frequency 1 needs no rounding"
    assert frequencies[5, 8] > 1.9 * frequencies[4, 8]


def test_the_window_shows_what_is_computed():
    figure, readout = figures._precision("positions", "bf16", 9, 8)
    exact, computed = (figure["data"][i] for i in range(2))
    w = 10_000 ** (-8 / 64)
    assert exact["y"][0].item() == pytest.approx(math.cos(512 * w))
    assert computed["y"][:4].tolist() == pytest.approx([math.cos(p * w) for p in (512, 512, 512, 516)])
    assert readout["position"] == "512"


@pytest.mark.parametrize("encoding, far", [("RoPE", 1), ("p-RoPE", 1), ("xPos", 0.53)])
def test_the_band_is_flat_but_for_xpos(encoding, far):
    scores = figures._scores(encoding, 512)
    assert abs(scores[:, 0].std() - 1) < 0.12 and abs(scores[:, -1].std() - far) < 0.12


def test_an_aimed_key_peaks_where_it_is_aimed():
    q = torch.randn(2_000, figures.DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    w = inv_freq(figures.DIM, dtype=torch.float64)
    k = rotate(q, torch.full((len(q),), 40.0), w)
    drawn = torch.stack([(rotate(q, torch.full((len(q),), float(d)), w) * k).sum(-1).mean() for d in range(65)])
    every, fast, slow, _ = figures.aimed_scores(40, 64)
    torch.testing.assert_close(every, drawn / drawn.max(), atol=0.02, rtol=0)
    assert every.argmax() == 40 and fast[36] < 0.6 and slow[36] > 0.98


def test_results_are_those_of_the_figures_model():
    results = page.results()
    energy, position = page.head_energy()
    assert energy.shape == position.shape == (figures.HEADS, figures.PAIRS)
    assert len(results["seeds"]) >= 3 and results["settings"]["length"] == figures.WINDOW
    assert (position >= 0).all() and (position <= energy).all()
    assert {row["arm"] for row in results["predictions"]} <= set(page.arms())
