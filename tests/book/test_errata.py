"""Mistakes in circulation: every row has its check, the checks notice turned facts, and numbers come out twice."""

import functools
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from posenc import alibi as alibi_method
from posenc.lab.pages import errata

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "book" / "errata.md").read_text("utf-8")
PARTS = ["Claim", "Why it is believable", "What holds", "Check"]

#: label of a row -> its text, from the heading to the next label or chapter
ROWS = {
    label: re.split(r"^(?:\(err-\w+\)=|### .*)$", rest, maxsplit=1, flags=re.M)[0]
    for label, rest in re.findall(r"^\(err-(\w+)\)=\n(#### .*?)(?=\Z|^\(err-\w+\)=)", PAGE, re.M | re.S)
}


@functools.cache
def numbers(label):
    """What a row's check returns."""
    return getattr(errata, label)()


# --- the page --------------------------------------------------------------------------------------------------------


def test_every_row_is_in_the_table_and_has_a_check_of_its_name():
    table = re.findall(r"^\| \[.+\]\(#err-(\w+)\) \| .+ \(\{doc\}`(\w+)`\) \|$", PAGE, re.M)
    assert [label for label, _ in table] == list(ROWS) == [row.__name__ for row in errata.ROWS]
    for label, chapter in table:
        assert f"{{doc}}`{chapter}`" in ROWS[label] or "{prf:ref}" in ROWS[label], f"{label} does not lead on"


@pytest.mark.parametrize("label", ROWS)
def test_a_row_shows_its_check_and_prints_what_it_returns(label):
    text = ROWS[label]
    assert re.findall(r"^([A-Z][\w ]+)\n: ", text, re.M) == PARTS
    assert re.findall(r"^:pyobject: (\w+)$", text, re.M) == [label]
    check = text[text.index("\nCheck\n") : text.index("````")]
    assert set(numbers(label)) & set(re.findall(r"\{glue:text\}`errata_(\w+)`", check)), "the check prints no number"


def test_every_number_is_said_once_and_printed():
    names = [name for label in ROWS for name in numbers(label)]
    assert len(names) == len(set(names)) and set(names) == set(re.findall(r"\{glue:text\}`errata_(\w+)`", PAGE))


def test_a_check_leaves_torch_as_it_was():
    default, state = torch.get_default_dtype(), torch.get_rng_state()
    errata.bert()
    assert torch.get_default_dtype() == default and torch.equal(torch.get_rng_state(), state)


def test_sources_that_the_rows_name_are_in_the_bibliography():
    keys = {key for keys in re.findall(r"\{cite\}`([^`]+)`", PAGE) for key in keys.split(",")}
    known = re.findall(r"^@\w+\{(\w+),", (ROOT / "book" / "references.bib").read_text("utf-8"), re.M)
    assert keys <= set(known)


# --- a fact turned around is noticed ---------------------------------------------------------------------------------

ROTATE, INV_FREQ, SLOPES = errata.rope.rotate, errata.rope.inv_freq, errata.alibi.slopes
LEARNED, NORMAL, GAIN = errata.learned.learned, errata.normal, errata.gain
FLIPPED = errata.pair_frequencies().flip(0)

#: label -> what the check reads, and what to put there: a world in which the claim holds, or a wrong correction
TURNS = {
    "padded": ("rope.inv_freq", lambda dim, **options: INV_FREQ(128, **options)[: dim // 2]),
    "invariant": ("Encoding", lambda: alibi_method.alibi(1, symmetric=True)),
    "causal": ("layer", lambda x, causal: x.mean(2, keepdim=True).expand_as(x)),
    "slow": ("pair_frequencies", lambda: FLIPPED),
    "table": ("ROW", [math.sin(0.4 * position) for position in range(8)]),
    "last": ("pair_frequencies", lambda: torch.tensor([1e-4])),
    "wavelength": ("pair_frequencies", lambda: 2 * math.pi / 10000 ** (torch.arange(192) / 192)),
    "fourier": ("pair_frequencies", lambda: torch.linspace(1, 0.1, 10)),
    "between": ("sinusoidal.table", lambda at, width: at[:, None] * torch.ones(width)),
    "unseen": ("rises", lambda method: torch.zeros(3)),
    "through": ("sinusoidal.table", lambda at, width: torch.zeros(len(at), width)),
    "count": ("learned.learned", lambda positions, width, **each: LEARNED(positions // (6 if each else 1), width)),
    "missing": ("learned.learned", lambda rows, dim: LEARNED(rows + 1, dim)),
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
    "backward": ("reads_pairs_writes_halves", ROTATE),
    "partial": ("rope.rope", lambda head_dim, rotary_dim: None),
    "fast": ("LONGEST", errata.TRAINED + 1),
    "yarn": ("scaling.yarn", lambda dim, factor, trained: errata.scaling.ntk(dim, factor)),
    "plus": ("alibi.bias", lambda i, j, slopes: (slopes * (i - j))[None, None]),
    "slopes": ("alibi.slopes", lambda n: torch.tensor([2 ** (-8 * h / n) for h in range(1, n + 1)])),
    "mild": ("alibi.slopes", lambda n: SLOPES(n).flip(0)),
    "nth": ("alibi.slopes", lambda n: 2 ** (-8 / torch.arange(1.0, n + 1))),
    "free": ("alibi.bias", lambda i, j, slopes: torch.zeros(1, 1, len(i), len(j))),
    "today": ("recent_models", lambda: [{"encoding": "ALiBi", "kind": "decoder"}]),
    "relative": ("gain", lambda positions: 1.2 * torch.ones_like(positions)),
    "boost": ("gain", lambda positions: GAIN(10 * positions)),
    "extra": ("LAYERS", 1),
    "edges": ("band", lambda dim: torch.full((dim,), 0.8)),
    "multiply": ("fade", torch.ones_like),
    "rest": ("stickbreaking.weigh", lambda scores, visible, order: torch.sigmoid(scores)),
    "tracked": ("stickbreaking.weigh", lambda scores, visible, order: scores.sigmoid() * visible),
    "softmax": ("stickbreaking.weigh", lambda scores, visible, order: scores.softmax(-1)),
    "lengths": ("rises", lambda method: torch.zeros(3)),
    "softplus": ("one_guard", torch.nn.functional.softplus),
}


@pytest.mark.parametrize("label", TURNS)
def test_a_turned_fact_makes_the_check_fail(label, monkeypatch):
    *module, name = TURNS[label][0].split(".")
    monkeypatch.setattr(getattr(errata, module[0]) if module else errata, name, TURNS[label][1])
    with pytest.raises(AssertionError):
        getattr(errata, label)()


@pytest.mark.parametrize("row", [errata.unseen, errata.extrapolates], ids=["unseen", "extrapolates"])
def test_a_method_that_holds_does_not_rise_and_one_without_results_is_refused(row):
    with pytest.raises(AssertionError):
        row("stickbreaking")
    with pytest.raises(KeyError, match="haystack"):
        row("haystack")


# --- the numbers, by another road ------------------------------------------------------------------------------------
# Closed forms, the frozen files and other libraries, nothing of posenc, whose functions are tested in their place.


def ladder(dim, base=10000.0):
    return np.array([base ** (-2 * i / dim) for i in range(dim // 2)])


def study(method, kind="whole"):
    results = json.loads((ROOT / "results" / "train_short_test_long.json").read_text("utf-8"))
    runs = results["methods"][method]
    rise = [long[-1] - start[0] for start, long in zip(runs["whole"], runs[kind])]
    return f"{round(np.mean(rise), 2) + 0.0:.2f} ± {np.std(rise, ddof=1):.2f}"


def lanes(kind):
    stopped = json.loads((ROOT / "results" / "rope_lanes.json").read_text("utf-8"))["stopped"]
    return f"{np.mean([run[-1] - run[0] for run in stopped[kind]]):.2f}"


#: label -> numbers of its check that a line of arithmetic gives
BY_HAND = {
    "softplus": {"softplus_true": f"{math.exp(-17):.0e}".replace("-", "−")},
    "lengths": {"rse_rise": study("rse"), "exposb_rise": study("exposb")},
    "extra": {"extra_exposb": "72", "extra_rse": "6"},
    "edges": {
        "edges_first": f"{0.8 + 0.4 * math.exp(-2):.3f}",
        "edges_square": f"{(0.8 + 0.4 * math.exp(-2)) ** 2:.2f}",
    },
    "free": {"free_less": f"{257 / 2 / (6 * 64):.0%}", "free_more": f"{2049 / 2 / (6 * 64):.0%}"},
    "padded": {"padded_times": f"{10000 ** (78 / 80 - 78 / 128):.0f}"},
    "minus": {"minus_last": f"{10000 ** (62 / 64):,.0f}"},
    "missing": {"missing_last": "999", "missing_first": "1000"},
    "wavelength": {
        "wave_claimed": f"{10000 ** (20 / 384):.2f}",
        "wave_true": f"{2 * math.pi * 10000 ** (20 / 384):.2f}",
    },
    "slow": {"first_wave": f"{2 * math.pi:.1f}", "last_wave": f"{2 * math.pi * 10000 ** (382 / 384):,.0f}"},
    "table": {
        "omega_one": f"{10000 ** (-2 / 384):.3f}",
        "dim_two": f"{math.sin(10000 ** (-2 / 384)):.2f}",
        "dim_last": f"{math.sin(7 * 10000 ** (-382 / 384)):.4f}",
    },
    "tracked": {"tracked_pairs": f"{64 * 65 // 2:,}", "tracked_read": f"{64 * 384:,}"},
    "last": {"last_ratio": f"{10000 ** (2 / 384):.2f}", "last_ratio_64": f"{10000 ** (2 / 64):.2f}"},
    "unseen": {"sin_rise": study("sinusoidal")},
    "count": {"once": f"{512 * 384:,}", "each": f"{6 * 512 * 384:,}"},
    "exponent": {"exponent": f"{10000 ** (2 / 64):.2f}"},
    "decay": {f"same_{name}": f"{8 * np.cos(m * ladder(64)).mean():.1f}" for name, m in (("near", 0), ("far", 1024))},
    "extrapolates": {"rope_rise": study("rope"), "rope_cut": study("rope", "cut"), "lanes_all": lanes("all")},
    "fused": {"fused_growth": f"{(1 + 256) * 2 / (1 + 128):.2f}", "fused_again": str(8192 // 64)},
    "fast": {"fast_full": str((4095 * ladder(128) >= 2 * math.pi).sum()), "lanes_slow": lanes("slow")},
    "plus": {"minus": f"{1 / sum(math.exp(-0.5 * d) for d in range(64)):.0%}"},
    "mild": {"steep": "50", "mild": f"{100 / 256:.1f}"},
    "boost": {"boost": f"{0.2 * math.exp(-1):.1%}"},
    "multiply": {
        "multiply_positive": f"{math.exp(4 * (0.7 + 0.3 * math.exp(-5)) - 4):.0%}",
        "multiply_negative": f"{math.exp(-4 * (0.7 + 0.3 * math.exp(-5)) + 4):.1f}",
    },
    "rest": {"rest_blocks": ", ".join(f"{0.3 * block:.1f}" for block in (16, 32, 64)), "rest_true": "1.0"},
}


@pytest.mark.parametrize("label", BY_HAND)
def test_the_numbers_come_out_again(label):
    assert {name: numbers(label)[name] for name in BY_HAND[label]} == BY_HAND[label]


def test_the_fast_pairs_meet_no_new_angle_and_the_slow_ones_do():
    """As complex numbers: how far an unseen position's angle is from the nearest trained one."""
    gap = {}
    for i in (0, 20, 63):
        seen, new = (np.exp(1j * np.arange(*span) * ladder(128)[i]) for span in ((0, 4096), (4096, 32768, 7)))
        gap[i] = max(abs(np.angle(seen / angle)).min() for angle in new)
    assert gap[0] < 0.05 and gap[20] < 0.05 < 0.2 < gap[63]
    assert (
        gap[0] <= float(numbers("fast")["fast_gap"]) + 0.005 and gap[63] >= float(numbers("fast")["slow_gap"]) - 0.005
    )


def test_yarn_in_another_library_has_these_frequencies():
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    parameters = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 8.0, "original_max_position_embeddings": 4096}
    config = LlamaConfig(
        hidden_size=512, num_attention_heads=4, head_dim=128, max_position_embeddings=4096, rope_parameters=parameters
    )
    theirs, heat = ROPE_INIT_FUNCTIONS["yarn"](config, device="cpu")
    ratio = ladder(128, 10000 * 8 ** (128 / 126)) / theirs.double().numpy()
    assert numbers("yarn") == {
        "yarn_differ": str((abs(ratio - 1) > 0.01).sum()),
        "yarn_most": f"{max(ratio.max(), 1 / ratio.min()):.1f}",
        "yarn_heat": f"{heat**2:.2f}",
    }


def test_slopes_of_another_library_are_these():
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    theirs = build_alibi_tensor(torch.ones(1, 2, dtype=torch.long), 12, torch.float32)[:, 0, 1].tolist()
    assert numbers("slopes")["slopes_last"] == ", ".join(f"{slope:.4f}" for slope in theirs[-4:])


# --- the exercises ---------------------------------------------------------------------------------------------------


def test_the_solutions_run():
    text = (ROOT / "course" / "errata_solutions.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "errata_solutions.md", "exec"), {})  # they assert


def test_the_check_of_the_second_exercise_cannot_fail():
    body = PAGE[PAGE.index("```{exercise} A check that fails") :]
    names = {}
    exec(re.sub(r"^    ", "", re.search(r"(?:^    .*\n)+", body, re.M)[0], flags=re.M), names)
    x = np.arange(4.0)
    assert all(names["is_relative"](encode, x) for encode in (lambda x, m: x + m, lambda x, m: x * m**2))


def test_the_exercise_has_one_true_statement():
    weights = [np.exp([s * d for s, d in zip([0.5] * 8, row)]) for row in (range(8), range(-7, 1))]
    assert np.allclose(*(w / w.sum() for w in weights))  # (a)
    assert round(2 * math.pi * 10000 ** (62 / 64)) == 47117 != 62832 == round(2 * math.pi * 10000)  # (b)
    assert ladder(64, 500_000.0)[0] == ladder(64)[0]  # (c)
