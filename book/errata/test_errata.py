"""Mistakes in circulation: every row has its check, and the checks notice turned facts."""

import math
import re
import sys

import pytest
import torch

import posenc
from posenc.chapters.errata import facts as errata
from posenc.chapters.errata import later as errata_later
from posenc.lab.write import ROOT

CHECKS = {row.__name__: row for row in errata.ROWS}


def test_every_row_is_in_the_table_and_shows_the_check_of_its_name():
    text = (ROOT / "book" / "errata" / "index.md").read_text("utf-8")
    table = re.findall(r"^\| \[.+\]\(#err-(\w+)\) \|", text, re.M)
    shown = re.findall(r"^\(err-(\w+)\)=\n(?:(?!^\(err-).*\n)*?:pyobject: (\w+)$", text, re.M)
    assert table == list(CHECKS) and shown == [(label, label) for label in table]


# --- a fact turned around is noticed ---------------------------------------------------------------------------------

ROTATE, INV_FREQ, SLOPES = posenc.rope.rotate, posenc.rope.inv_freq, posenc.alibi.slopes
NORMAL = errata.normal
FLIPPED = errata.pair_frequencies().flip(0)

#: label -> what the check reads, and what to put there: a world in which the claim holds, or a wrong correction
TURNS = {
    "padded": ("rope.inv_freq", lambda dim, **options: INV_FREQ(128, **options)[: dim // 2]),
    "invariant": ("Encoding", lambda: posenc.alibi.alibi(1, symmetric=True)),
    "causal": ("layer", lambda x, causal: x.mean(2, keepdim=True).expand_as(x)),
    "slow": ("pair_frequencies", lambda: FLIPPED),
    "last": ("pair_frequencies", lambda: torch.tensor([1e-4])),
    "wavelength": ("pair_frequencies", lambda: 2 * math.pi / 10000 ** (torch.arange(192) / 192)),
    "fourier": ("pair_frequencies", lambda: torch.linspace(1, 0.1, 10)),
    "between": ("sinusoidal.table", lambda at, width: at[:, None] * torch.ones(width)),
    "unseen": ("rises", lambda method: torch.zeros(3)),
    "through": ("sinusoidal.table", lambda at, width: torch.zeros(len(at), width)),
    "fits": (
        "load_results",
        lambda name: {"methods": {k: {"whole": [[1.0], [1.1]]} for k in ("learned", "sinusoidal", "nope")}},
    ),
    "bert": ("shuffling_changes", lambda model: torch.tensor(1.0)),
    "concat": ("normal", lambda *shape, seed=0: 0 * NORMAL(*shape, seed=seed)),
    "xl": ("normal", lambda *shape, seed: NORMAL(*shape, seed=seed) * (seed not in (3, 4))),
    "t5": ("shuffling_changes", lambda model: torch.tensor(1.0)),
    "sign": ("rope.rotate", lambda x, at, w: ROTATE(x, at.abs(), w)),
    "exponent": ("rope.inv_freq", lambda dim, **options: INV_FREQ(dim, **options) * 10000 ** (2 / dim)),
    "minus": ("rope.inv_freq", lambda dim, **options: 1 / INV_FREQ(dim, **options)),
    "decay": ("rope.rotate", lambda x, at, w: ROTATE(x, at, w) * 0.999 ** at[:, None]),
    "extrapolates": ("rises", lambda method, kind="whole": torch.zeros(3)),
    "masked": ("masks_lanes", ROTATE),
    "partial": ("rope.rope", lambda head_dim, rotary_dim: None),
    "fast": ("LONGEST", errata_later.TRAINED + 1),
    "yarn": ("scaling.yarn", lambda dim, factor, trained: posenc.scaling.ntk(dim, factor)),
    "plus": ("alibi.bias", lambda i, j, slopes: (slopes * (i - j))[None, None]),
    "slopes": ("alibi.slopes", lambda n: torch.tensor([2 ** (-8 * h / n) for h in range(1, n + 1)])),
    "mild": ("alibi.slopes", lambda n: SLOPES(n).flip(0)),
    "free": ("alibi.bias", lambda i, j, slopes: torch.zeros(1, 1, len(i), len(j))),
    "today": ("recent_models", lambda: [posenc.configs.read({"model_type": "bloom"})]),
    "relative": ("gain", lambda positions: 1.2 * torch.ones_like(positions)),
    "multiply": ("fade", torch.ones_like),
    "rest": ("stickbreaking.weigh", lambda scores, visible, order: torch.sigmoid(scores)),
    "softmax": ("stickbreaking.weigh", lambda scores, visible, order: scores.softmax(-1)),
    "lengths": ("rises", lambda method: torch.zeros(3)),
    "softplus": ("one_guard", torch.nn.functional.softplus),
}


@pytest.mark.parametrize("label", TURNS)
def test_a_turned_fact_makes_the_check_fail(label, monkeypatch):
    *module, name = TURNS[label][0].split(".")
    home = sys.modules[CHECKS[label].__module__]
    monkeypatch.setattr(getattr(home, module[0]) if module else home, name, TURNS[label][1])
    with pytest.raises(AssertionError):
        CHECKS[label]()
