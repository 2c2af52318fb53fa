"""Mistakes in circulation: every row has its check, the checks notice turned facts, and the numbers come out twice."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "book" / "errata.md").read_text("utf-8")
CELL = re.compile(r"^```\{code-cell\} ipython3\n(?::tags: \[([\w-]+)\]\n)?(.*?)^```$", re.M | re.S)
PARTS = ["Claim", "Why it is believable", "What holds", "Check"]

#: label of a row -> its text, from the heading to the next label or chapter
ROWS = {
    label: re.split(r"^(?:\(err-\w+\)=|## .*)$", rest, maxsplit=1, flags=re.M)[0]
    for label, rest in re.findall(r"^\(err-(\w+)\)=\n(### .*?)(?=\Z|^\(err-\w+\)=)", PAGE, re.M | re.S)
}
SETUP = CELL.search(PAGE)[2]


@pytest.fixture(scope="module")
def page():
    """Run the page's cells in order: {"said": {name: text}, "before": {label: names before the row's cell}}."""
    import myst_nb

    kept, threads = myst_nb.glue, torch.get_num_threads()
    said, before, names = {}, {}, {}
    myst_nb.glue = lambda name, value, display=True: said.__setitem__(name.removeprefix("errata_"), value)
    try:
        exec(SETUP, names)
        for label, text in ROWS.items():
            before[label] = dict(names)
            exec(CELL.search(text)[2], names)
        yield {"said": said, "before": before, "names": names}
    finally:
        myst_nb.glue = kept
        torch.set_default_dtype(torch.float32)
        torch.set_num_threads(threads)


# --- the page --------------------------------------------------------------------------------------------------------


def test_there_are_thirty_rows_and_the_table_lists_them_in_order():
    assert "**recognize** thirty claims" in PAGE and len(ROWS) == 30
    table = re.findall(r"^\| \[.+\]\(#err-(\w+)\) \| .+ \(\{doc\}`(\w+)`\) \|$", PAGE, re.M)
    assert [label for label, _ in table] == list(ROWS)
    for label, chapter in table:
        assert f"{{doc}}`{chapter}`" in ROWS[label] or "{prf:ref}" in ROWS[label], f"{label} does not lead on"


@pytest.mark.parametrize("label", ROWS)
def test_a_row_has_four_parts_and_its_check(label, page):
    text = ROWS[label]
    assert re.findall(r"^([A-Z][\w ]+)\n: ", text, re.M) == PARTS
    cells = CELL.findall(text)
    assert len(cells) == 1 and cells[0][0] == "hide-cell"
    assert "assert " in cells[0][1]
    check = text[text.index("\nCheck\n") : text.index("```")]
    printed = re.findall(r"\{glue:text\}`errata_(\w+)`", check)
    assert printed, "the check prints no number"
    assert set(re.findall(r"\{glue:text\}`errata_(\w+)`", text)) <= set(page["said"])


def test_every_number_said_is_printed(page):
    assert set(page["said"]) == set(re.findall(r"\{glue:text\}`errata_(\w+)`", PAGE))


def test_sources_that_the_rows_name_are_in_the_bibliography():
    keys = {key for keys in re.findall(r"\{cite\}`([^`]+)`", PAGE) for key in keys.split(",")}
    known = re.findall(r"^@\w+\{(\w+),", (ROOT / "book" / "references.bib").read_text("utf-8"), re.M)
    assert keys <= set(known)


# --- a fact turned around is noticed ---------------------------------------------------------------------------------

#: label -> what stands in the cell, and what to put there: a world in which the claim holds, or a wrong correction
TURNED = {
    "invariant": ("encoding=Encoding()", "encoding=alibi.alibi(1, symmetric=True)"),
    "causal": ("layer(layer(y, causal=True), causal=True)", "layer(y, causal=True)"),
    "slow": ("one_step[1::2])", "one_step[1::2]).flip(0)"),
    "table": ("torch.tensor([0, 0.38, 0.72, 0.95, 0.99, 0.86, 0.56, 0.14])", "(0.4 * torch.arange(8)).sin()"),
    "last": ("rope.inv_freq(64, dtype=torch.float64)[-1]", "torch.tensor(1e-4)"),
    "fourier": ("sinusoidal.table(position, 64).double()", "torch.linalg.qr(normal(64, 64))[0]"),
    "unseen": ('rises("sinusoidal")', 'rises("stickbreaking")'),
    "count": ("for _ in range(6)", "for _ in range(1)"),
    "bert": ("bert.embeddings.position_embeddings.weight.data.zero_()", "pass"),
    "concat": ("place @ project[16:]", "place @ project[:16]"),
    "xl": ("normal(H, D, seed=", "0 * normal(H, D, seed="),
    "t5": ("t5.get_parameter(tables[0]).data.zero_()", "pass"),
    "sign": ("(n - m, m - n)", "(m - n, n - m)"),
    "exponent": ("(index - 1)", "index"),
    "decay": (".sum(-1) / 8\n", ".sum(-1) / 8 * 0.999**distance\n"),
    "extrapolates": ('rises("rope")', 'rises("stickbreaking")'),
    "masked": ("masks_lanes(", "rope.rotate("),
    "backward": ("reads_pairs_writes_halves(leaf, at, w)", "rope.rotate(leaf, at, w)"),
    "fused": ("        for _ in range(0, n, block):\n            keys", "        if True:\n            keys"),
    "fast": ("torch.arange(4096.0, 32768.0)", "torch.arange(0.0, 4096.0)"),
    "yarn": ("scaling.yarn(128, 8.0, trained=4096)", "scaling.ntk(128, 8.0)"),
    "plus": ("minus = alibi.bias", "minus = -alibi.bias"),
    "slopes": ("alibi.slopes(12)", "sentence(12)"),
    "mild": ("alibi.slopes(8)", "alibi.slopes(8).flip(0)"),
    "nth": ("2 ** (-8 / heads)", "2**-heads"),
    "relative": ("gain(positions[:, None].double())", "1.2"),
    "boost": ("gain(torch.tensor([1000.0]))", "gain(torch.tensor([1000.0]), rates=0.01)"),
    "multiply": ("logits * factor if", "logits + factor.log() if"),
    "rest": (
        "rest * (1 - pieces.sum().item()), 1e-6)",
        "rest * (1 - beta[start : start + block]).prod().item(), 1e-6)",
    ),
    "softmax": ('stickbreaking.weigh(scores, visible, order="first")', "scores.softmax(-1)"),
}


def test_every_row_is_turned_around():
    assert list(TURNED) == list(ROWS)


@pytest.mark.parametrize("label", TURNED)
def test_a_turned_fact_makes_the_check_fail(label, page):
    old, new = TURNED[label]
    cell = CELL.search(ROWS[label])[2]
    assert old in cell
    names = dict(page["before"][label], say=lambda *_: None)
    with pytest.raises(AssertionError):
        exec(cell.replace(old, new), names)


# --- the numbers, by another road ------------------------------------------------------------------------------------
# Loops, complex numbers and other libraries; of posenc nothing but the page's own random inputs.


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).numpy()


def attend(x, causal=False):
    """One layer of the page's attention, token by token."""
    wq, wk, wv = normal(3, 8, 8) / math.sqrt(8)
    out = []
    for i in range(len(x)):
        seen = range(i + 1) if causal else range(len(x))
        e = [math.exp((x[i] @ wq) @ (x[j] @ wk) / math.sqrt(8)) for j in seen]
        out.append(sum(a * (x[j] @ wv) for a, j in zip(e, seen)) / sum(e))
    return np.array(out)


def spun(x, m, w):
    """The vector turned, as complex numbers, one a pair."""
    return (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * np.multiply.outer(m, w))


def ladder(dim, base=10000.0):
    return np.array([base ** (-2 * i / dim) for i in range(dim // 2)])


def invariant():
    x, order = normal(1, 1, 6, 8, seed=1)[0, 0], [2, 0, 1, 5, 4, 3]
    assert np.abs(attend(x[order]) - attend(x)[order]).max() < 1e-12
    return {"invariant": f"{np.abs(attend(x[order]) - attend(x)).max():.1f}"}


def causal():
    x, prefix = normal(1, 1, 6, 8, seed=1)[0, 0], [3, 1, 4, 0, 2, 5]
    assert np.abs(attend(x[prefix], True)[-1] - attend(x, True)[-1]).max() < 1e-12
    two = attend(attend(x[prefix], True), True)[-1] - attend(attend(x, True), True)[-1]
    return {"two_layers": f"{np.abs(two).max():.2f}"}


def slow():
    return {"first_wave": f"{2 * math.pi:.1f}", "last_wave": f"{2 * math.pi * 10000 ** (382 / 384):,.0f}"}


def table():
    row = [0, 0.38, 0.72, 0.95, 0.99, 0.86, 0.56, 0.14]
    misfit = min(max(abs(math.sin(f * p) - v) for p, v in enumerate(row)) for f in np.arange(0, math.pi, 1e-4))
    omega = 10000 ** (-2 / 384)
    return {"misfit": f"{misfit:.2f}", "omega_one": f"{omega:.3f}", "dim_two": f"{math.sin(omega):.2f}"}


def last():
    return {"last_ratio": f"{10000 ** (2 / 384):.2f}", "last_ratio_64": f"{10000 ** (2 / 64):.2f}"}


def fourier():
    angles = np.outer(np.arange(64), ladder(64))
    values = np.linalg.svd(np.concatenate((np.sin(angles), np.cos(angles)), 1), compute_uv=False)
    waves = np.exp(2j * math.pi * np.outer(np.arange(64), np.arange(64)) / 64)  # the same span, complex
    assert np.allclose(waves.conj().T @ waves, 64 * np.eye(64))
    return {"rank": str((values > 1e-6 * values[0]).sum()), "fourier_rank": "64"}


def study(method, kind="whole"):
    results = json.loads((ROOT / "results" / "train_short_test_long.json").read_text("utf-8"))
    runs = results["methods"][method]
    rise = [long[-1] - start[0] for start, long in zip(runs["whole"], runs[kind])]
    return f"{np.mean(rise):.2f} ± {np.std(rise, ddof=1):.2f}"


def unseen():
    return {"sin_rise": study("sinusoidal"), "shortest": "64", "longest": "512"}


def count():
    return {"once": "196,608", "each": "1,179,648"}


def bert():
    """The table that stays is as large as the one that the report counts."""
    from transformers import BertConfig
    from transformers.models.bert.modeling_bert import BertEmbeddings, BertSelfAttention

    config = BertConfig(vocab_size=5, hidden_size=384, num_attention_heads=6)
    config._attn_implementation = "eager"
    assert BertEmbeddings(config).position_embeddings.weight.numel() == 196_608
    assert all(name[:3] in ("que", "key", "val") for name, _ in BertSelfAttention(config).named_parameters())
    return {}


def concat():
    word, project = normal(10, 16), normal(32, 24, seed=1)
    place = np.array([[(math.sin, math.cos)[c % 2](p * ladder(16)[c // 2]) for c in range(16)] for p in range(10)])
    both = np.concatenate((word, place), 1)
    for p in range(10):
        for c in range(24):
            beside = sum(both[p, i] * project[i, c] for i in range(32))
            apart = sum(word[p, i] * project[i, c] for i in range(16))
            assert abs(beside - apart - sum(place[p, i] * project[16 + i, c] for i in range(16))) < 1e-6
    return {}


def xl(names):
    """Term by term from section 3.3 of the paper, with the page's own u, v and W_R."""
    heads, length, lanes = 2, 12, 8
    q, k, _ = normal(3, 1, heads, length, lanes, seed=2)[:, 0]
    u, v = normal(heads, lanes, seed=3), normal(heads, lanes, seed=4)
    w_r = names["xl"].bias.w_r.detach().double().numpy().reshape(heads, lanes, heads * lanes)
    most = 0
    for h in range(heads):
        for i in range(length):
            scores = []
            for j in range(i + 1):
                clock = [f((i - j) * w) for w in ladder(heads * lanes) for f in (math.sin, math.cos)]
                r = w_r[h] @ clock
                scores.append((q[h, i] @ k[h, j], q[h, i] @ r, u[h] @ k[h, j], v[h] @ r))
            four, two = (np.exp(np.array(scores)[:, :n].sum(1) / math.sqrt(lanes)) for n in (4, 2))
            most = max(most, np.abs(four / four.sum() - two / two.sum()).max())
    return {"xl_two": f"{most:.1f}"}


def t5():
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Stack

    sizes = {"vocab_size": 9, "d_model": 8, "d_kv": 4, "d_ff": 8, "num_heads": 2, "num_layers": 3}
    for decoder in (False, True):
        config = T5Config(**sizes)
        config.is_decoder = decoder
        for i, block in enumerate(T5Stack(config).block):
            assert block.layer[0].SelfAttention.has_relative_attention_bias == (i == 0)
            assert not decoder or not block.layer[1].EncDecAttention.has_relative_attention_bias
    return {"t5_tables": "the encoder's self-attention and the decoder's self-attention"}


def sign():
    q, k = normal(2, 16, seed=5)
    w = ladder(16)
    score = (spun(q, 91, w) * spun(k, 17, w).conj()).real.sum()
    right, wrong = ((spun(q, 0, w) * spun(k, n, w).conj()).real.sum() for n in (17 - 91, 91 - 17))
    assert abs(score - right) < 1e-12
    return {"sign_wrong": f"{abs(score - wrong):.1f}"}


def exponent():
    return {"exponent": f"{10000 ** (2 / 64):.2f}"}


def decay():
    q, k = normal(2, 10_000, 64, seed=6)
    spread, same = [], []
    for distance in (0, 1, 4, 16, 64, 256, 1024):
        spread.append(((spun(q, 0, ladder(64)) * spun(k, distance, ladder(64)).conj()).real.sum(1) / 8).std(ddof=1))
        same.append(8 * np.cos(distance * ladder(64)).mean())  # what q = k has on average, exactly
    assert abs(same[-1] - 2.1) < 0.06 and same[0] == 8
    return {
        "decay_pairs": "10,000",
        "decay_low": f"{min(spread):.2f}",
        "decay_high": f"{max(spread):.2f}",
        "same_near": "8.0",
        "same_far": "2.1",
    }


def lanes(kind):
    stopped = json.loads((ROOT / "results" / "rope_lanes.json").read_text("utf-8"))["stopped"]
    return f"{np.mean([run[-1] - run[0] for run in stopped[kind]]):.2f}"


def extrapolates():
    return {
        "rope_rise": study("rope"),
        "rope_cut": study("rope", "cut").replace("-", "−"),
        "lanes_none": lanes("none"),
        "lanes_all": lanes("all"),
    }


def masked():
    scale = {m: [abs(math.cos(m * w) + s * math.sin(m * w)) for w in ladder(16) for s in (1, -1)] for m in range(64)}
    first = [scale[m][0] for m in range(64)]
    q, k = normal(2, 1, 16, seed=5)[:, 0]
    signed = {m: [math.cos(m * w) + s * math.sin(m * w) for w in ladder(16) for s in (1, -1)] for m in (0, 5, 40, 45)}
    one, two = (sum(q * signed[s + 5] * k * signed[s]) for s in (0, 40))
    return {
        "masked_low": f"{min(first):.2f}",
        "masked_high": f"{max(first):.2f}",
        "masked_shift": f"{abs(one - two):.1f}",
    }


def backward():
    """The forward as a matrix; its backward is the transpose."""
    grad, off = normal(2, 5, 8, seed=3)[1], 0
    for m in range(5):
        forward, claimed = np.zeros((8, 8)), np.zeros((8, 8))
        for i, w in enumerate(ladder(8)):
            c, s = math.cos(m * w), math.sin(m * w)
            forward[i, [2 * i, 2 * i + 1]], forward[4 + i, [2 * i, 2 * i + 1]] = (c, -s), (s, c)
            claimed[i, [2 * i, 2 * i + 1]], claimed[4 + i, [2 * i, 2 * i + 1]] = (c, s), (-s, c)
        off = max(off, np.abs(claimed @ grad[m] - forward.T @ grad[m]).max())
    return {"backward": f"{off:.1f}"}


def fused():
    turns = {n: 64 * n + 64 * n * n // 64 for n in (8192, 16384)}
    return {"fused_growth": f"{turns[16384] / turns[8192]:.2f}", "fused_n": "8,192", "fused_again": str(8192 // 64)}


def fast():
    open_, gap = [], {}
    for i, w in enumerate(ladder(128)):
        seen = np.exp(1j * np.arange(4096) * w)
        new = np.exp(1j * np.arange(4096, 32768) * w)
        if 4095 * w < 2 * math.pi:  # the nearest trained angle is the first or the last
            open_.append(i)
            passed = new[(np.arange(4096, 32768) * w % (2 * math.pi)) > 4095 * w]
            gap[i] = np.minimum(abs(np.angle(passed / seen[0])), abs(np.angle(passed / seen[-1]))).max()
        else:
            around = np.sort(np.angle(seen))
            index = np.searchsorted(around, np.angle(new)) % 4096
            near = [abs(np.angle(new * np.exp(-1j * around[index - k]))) for k in (0, 1)]
            gap[i] = np.minimum(*near).max()
    full = [i for i in gap if i not in open_]
    shares = {"fast_full": str(len(full)), "fast_open": str(len(open_)), "fast_gap": f"{max(gap[i] for i in full):.2f}"}
    rises = {"lanes_slow": lanes("slow"), "lanes_fast": lanes("fast")}
    return shares | rises | {"slow_gap": f"{min(gap[i] for i in open_):.2f}"}


def yarn():
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    parameters = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 8.0, "original_max_position_embeddings": 4096}
    config = LlamaConfig(
        hidden_size=512, num_attention_heads=4, head_dim=128, max_position_embeddings=4096, rope_parameters=parameters
    )
    theirs, heat = ROPE_INIT_FUNCTIONS["yarn"](config, device="cpu")
    raised = ladder(128, 10000 * 8 ** (128 / 126))
    ratio = raised / theirs.double().numpy()
    return {
        "yarn_differ": str((abs(ratio - 1) > 0.01).sum()),
        "yarn_most": f"{max(ratio.max(), 1 / ratio.min()):.1f}",
        "yarn_heat": f"{heat**2:.2f}",
    }


def plus():
    total = sum(math.exp(-0.5 * d) for d in range(64))
    return {"minus": f"{1 / total:.0%}", "plus": f"{math.exp(-0.5 * 63) / total:.0e}".replace("-", "−")}


def slopes():
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    theirs = build_alibi_tensor(torch.ones(1, 2, dtype=torch.long), 12, torch.float32)[:, 0, 1].tolist()
    formula = [2 ** (-8 * h / 12) for h in range(1, 13)]
    shared = sum(math.isclose(a, b, rel_tol=1e-6) for a in theirs for b in formula)
    return {"slopes_shared": str(shared), "slopes_last": ", ".join(f"{m:.4f}" for m in theirs[-4:])}


def mild():
    return {"steep": "50", "mild": f"{100 / 256:.1f}"}


def nth():
    right = {2.0**-h for h in range(1, 9)}
    shared = right & {2 ** (-8 / h) for h in range(1, 9)}
    in_place = [h for h in range(1, 9) if 2 ** (-8 / h) == 2.0**-h], [h for h in range(8) if 2.0**-h == 2.0 ** -(h + 1)]
    assert in_place == ([], [])
    return {"nth_shared": str(len(shared)), "nth_where": "no", "zero_where": "no"}


def relative():
    q, k = normal(2, 64, seed=7) / math.sqrt(8)
    w, m = ladder(64), np.arange(2000)
    a, b = spun(q, m + 5, w), spun(k, m, w)
    grown = [1 + 0.2 * np.exp(-0.001 * p) for p in (m + 5, m)]
    filtered = [0.8 + 0.4 * math.exp(-((d - 16) ** 2) / (2 * 8**2)) for d in range(64)]
    gained = grown[0] * grown[1] * (a * b.conj()).real.sum(1)
    even, odd = filtered[0::2], filtered[1::2]
    banded = (a.real * b.real) @ np.square(even) + (a.imag * b.imag) @ np.square(odd)
    return {"expo_gain": f"{np.ptp(gained):.2f}", "expo_band": f"{np.ptp(banded):.2f}", "expo_text": "2,000"}


def boost():
    at_1000 = 1 + 0.2 * math.exp(-1)
    gone = next(m for m in range(10_000) if 0.2 * math.exp(-0.001 * m) < 0.01)
    return {
        "boost": f"{at_1000 - 1:.1%}",
        "boost_score": f"{at_1000**2 - 1:.1%}",
        "boost_gone": f"{gone:,}",
        "neighbor": f"{0.7 + 0.3 * math.exp(-0.005):.2%}",
    }


def multiply():
    f = 0.7 + 0.3 * math.exp(-5)
    return {
        "multiply_positive": f"{math.exp(4 * f - 4):.0%}",
        "multiply_negative": f"{math.exp(-4 * f + 4):.1f}",
        "multiply_log": f"{f:.0%}",
    }


def rest():
    rest, single, true, left = 1.0, 0.0, 0.0, 1.0
    for _ in range(256):
        single, rest = single + 0.3 * rest, rest * (1 - 0.3 * rest)
        true, left = true + 0.3 * left, left * (1 - 0.3)
    blocks = ", ".join(f"{0.3 * block:.1f}" for block in (16, 32, 64))
    return {"rest_blocks": blocks, "rest_single": f"{single:.1f}", "rest_true": f"{true:.1f}"}


def softmax():
    def stick(scores):
        left, out = 1.0, []
        for z in scores:
            beta = 1 / (1 + math.exp(-z))
            out.append(beta * left)
            left *= 1 - beta
        return np.array(out)

    z = normal(1, 12, seed=8)[0]
    return {
        "stick_shift": f"{np.abs(stick(z + 3) - stick(z)).max():.2f}",
        "stick_order": f"{np.abs(stick(z[::-1])[::-1] - stick(z)).max():.2f}",
    }


ANEW = (
    invariant,
    causal,
    slow,
    table,
    last,
    fourier,
    unseen,
    count,
    bert,
    concat,
    xl,
    t5,
    sign,
    exponent,
    decay,
    extrapolates,
    masked,
    backward,
    fused,
    fast,
    yarn,
    plus,
    slopes,
    mild,
    nth,
    relative,
    boost,
    multiply,
    rest,
    softmax,
)
#: Numbers of models with random weights, which nothing else reproduces; the cell asserts them.
ONLY_THERE = {"bert", "t5_encoder"}


def test_every_row_is_computed_anew():
    assert [function.__name__ for function in ANEW] == list(ROWS)


@pytest.mark.parametrize("function", ANEW, ids=lambda function: function.__name__)
def test_the_numbers_come_out_again(function, page):
    found = function(page["names"]) if function is xl else function()
    assert {name: page["said"][name] for name in found} == found
    printed = re.findall(r"\{glue:text\}`errata_(\w+)`", ROWS[function.__name__])
    for name in set(printed) - set(found) - ONLY_THERE:
        text = page["said"][name].replace("−", "-")
        assert name in ("lanes_none",) or abs(float(text)) < 1e-6, f"{name} = {text} is no rounding error"


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
