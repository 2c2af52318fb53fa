r"""Auditing a proposal: the numbers that the prose says of audits, and the tables of claims and libraries.

What a function is given, the page's visible cells have made. Functions ending in `_numbers` return {name: text}; they
also assert what the prose around the numbers tells.
"""

import functools
import re

import torch
from IPython.display import Markdown

from posenc.audit import audit
from posenc.audit.bench import percent
from posenc.audit.beyond import NEW
from posenc.audit.questions import SLOPE, WRONG
from posenc.bias.t5 import t5
from posenc.embed.learned import learned
from posenc.encoding import At
from posenc.lab.experiments import load_results
from posenc.lab.write import say_all, seeded, table
from posenc.methods import make
from posenc.several.exposb import exposb
from posenc.several.rse import rse

DIM = 16  # the head size of the page's audits
COLUMNS = ("relative", "precision", "weights", "finite", "unseen")  # what the table of libraries shows
SIGNS = {"holds": "yes", "fails": "**no**", "not asked": "–"}


def numbers():
    """Give the prose every number that needs nothing of the visible cells."""
    limits = {"new": f"{NEW}", "wrong": f"{WRONG}", "slope": f"{SLOPE:.0%}"}  # what the questions let pass
    say_all("audit", limits | rope_numbers() | library_numbers() | setting_numbers())


@functools.cache
def rope_report():
    """The audit of RoPE, which holds."""
    return audit(make("rope", head_dim=DIM), name="RoPE")


def rope_numbers() -> dict:
    """One that holds."""
    report = rope_report()
    assert report.failures == ("unseen",) and report["layout"].words == "interleaved"
    return {"rope_relative": f"{report['relative'].number:.0e}", "rope_lanes": f"{int(report['unseen'].number)}"}


def masked_numbers(report) -> dict:
    """One that doesn't: the audit of the report's kernel."""
    assert report.failures == ("relative", "norm", "layout", "unseen")
    return {"masked_relative": f"{report['relative'].number:.2f}", "masked_norm": f"{report['norm'].number:.0%}"}


#: What of ExpoSB is on in each audit, and which questions it fails.
MECHANISMS = {
    "none (RoPE)": ({}, ()),
    "gain by position": ({"gain": True}, ("relative", "norm")),
    "band of lanes": ({"band": True}, ("relative", "norm", "layout")),
    "band, a factor a pair": ({"band": True, "per_pair": True}, ("norm",)),
    "fade of logits": ({"decay": True}, ()),
    "all three": ({"gain": True, "band": True, "decay": True}, ("relative", "norm", "layout")),
}


def mechanisms() -> dict:
    """The audit of each mechanism of ExpoSB alone, and of all together: {what is on: report}."""
    off, asked = {"gain": False, "band": False, "decay": False}, ["relative", "norm", "layout", "weights"]
    return {name: audit(exposb(DIM, 4, **(off | on)), questions=asked) for name, (on, _) in MECHANISMS.items()}


def mechanisms_table(reports: dict) -> str:
    """`mechanisms` as a printed table. Errors: AssertionError where one fails in another way than the page tells."""
    lines = [f"{'mechanism':22s} {'relative':>9s}  {'norm':>8s}  layout"]
    for name, report in reports.items():
        assert report.failures == MECHANISMS[name][1], (name, report.failures)
        norm = percent(report["norm"].number)
        lines.append(f"{name:22s} {report['relative'].number:9.1e}  {norm:>8s}  {report['layout'].verdict}")
    return "\n".join(lines)


def stick_numbers(reports: dict, stick, fallback) -> dict:
    """Two stand-ins for a stick: {name: audit}, and two of the page's functions."""
    assert reports["one_rest_a_block"].failures == ("weights",)
    assert not reports["stick"].failures and not reports["fallback"].failures
    scores = torch.randn(1, 1, 16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    position = torch.arange(16)[None]
    past = At(position, position, torch.ones(1, 1, 16, 16, dtype=torch.bool).tril())
    apart = (fallback(scores, past) - stick(scores, past)).abs().max().item()
    return {"block_sum": f"{reports['one_rest_a_block']['weights'].number:.1f}", "apart": f"{apart:.2f}"}


def claims_table() -> Markdown:
    """The report, claim by claim."""
    whole = audit(exposb(64, 6), head_dim=64, num_heads=6, questions=["shape", "relative", "unseen"])
    stick = audit(rse(DIM), causal=False)
    layer = audit(learned(512, 384), head_dim=64, num_heads=6, questions=["shape"])
    assert whole["relative"].verdict == "fails" and stick["relative"].verdict == "holds"
    assert {report["unseen"].verdict for report in (whole, stick, rope_report())} == {"fails"}
    learn = f"{whole.cost['parameters']} a layer, {stick.cost['parameters']} a layer"
    raises = "which raises negative ones: no question here, see ExpoSB"
    unrun = "The text itself says that RSE's kernel did not run"
    rows = [
        ["RoPE is relative", "its PyTorch code, yes; its kernel, as we complete the excerpt, no, under both readings"],
        ["ExpoSB is relative", f"no: weights change by up to {whole['relative'].number:.2f} at its own sizes"],
        ["RSE is relative", "the definition, yes; so is the fallback, which is another method"],
        ["RoPE, ExpoSB, RSE extrapolate", "their turns leave the trained range: a promise, not a property"],
        ["ExpoSB has a strong locality bias", f"it multiplies logits, {raises}"],
        ["12 learned numbers for ExpoSB, 1 for RSE", f"{learn}; the report had wired half of the former"],
        ["196,608 for a learned table", f"{6 * layer.cost['parameters']:,}: six layers, each with a table of its own"],
        ["all are accelerated and fused", f"not asked: an audit times nothing. {unrun}"],
    ]
    return table(["claim", "what the audit says"], rows)


def check_essay(as_documented, as_computed, as_meant):
    """Assert what the page tells of the essay's three readings, beyond what its cell prints."""
    verdicts = [audit(code, "rotate", questions=["shape"])["shape"].verdict for code in (as_documented, as_computed)]
    assert verdicts == ["fails", "fails"] and audit(as_meant, "rotate").failures == ("unseen",)
    x = torch.randn(1, 5, 5, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    halves = torch.cat((x[..., 0::2], x[..., 1::2]), dim=-1)
    turned = as_computed(x, torch.arange(5))  # as many heads as tokens: no error any more
    assert torch.allclose(turned[:, 0], halves[:, 0])  # head 0 never turns, wherever the token stands
    assert not torch.allclose(turned[:, 1], halves[:, 1])


def gradient_numbers(essay) -> dict:
    """How far the essay's gradient is from the right one: `essay` is apply(x, positions, as_printed)."""
    x = torch.zeros(1, 4, 64, DIM, dtype=torch.float64, requires_grad=True)
    seed = torch.randn(x.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    wrong, right = (
        torch.autograd.grad(essay(x, torch.arange(64), as_printed), x, seed)[0].flatten()
        for as_printed in (True, False)
    )
    assert abs(wrong.norm() / right.norm() - 1) < 1e-12
    return {"cosine": f"{torch.cosine_similarity(wrong, right, dim=0).item():.2f}"}


def libraries_table() -> Markdown:
    """The frozen audits, by library."""
    frozen, rows = load_results("audit"), []
    for library, version in frozen["libraries"].items():
        rows.append([f"**{library}** {version}", *([""] * (len(COLUMNS) + 1))])
        for subject in frozen["subjects"].values():
            if subject["library"] == library:
                asked, words = subject["verdicts"], subject["words"]["layout"]
                layout = "–" if asked["layout"] == "not asked" else words.split(":")[0]
                rows.append([subject["what"], layout, *(SIGNS[asked[name]] for name in COLUMNS)])
    return table(["", "layout", *COLUMNS], rows)


def library_numbers() -> dict:
    """Where the libraries' functions first go wrong, and by how much.

    Errors: AssertionError where other questions fail, or functions, than those that the page tells of.
    """
    subjects = load_results("audit")["subjects"]
    examples = {key: subject["examples"] for key, subject in subjects.items()}
    sound = ("shape", "norm", "layout", "gradient", "causality", "cache", "batch")
    assert not any(subject["verdicts"][name] == "fails" for subject in subjects.values() for name in sound)
    assert subjects["deepseek_v3"]["words"]["layout"].startswith("reads interleaved, writes half-split")
    assert "precision" not in examples["llama"] and "precision" not in examples["fla-rotary"]
    assert examples["gpt2"]["finite"] == examples["xt-absolute"]["finite"]
    assert {key for key, s in subjects.items() if s["verdicts"]["weights"] == "fails"} == {"fla-retention"}

    def first(key, dtype):
        return re.search(rf"(?:^|, ){dtype} is first wrong at position (\d+)", examples[key]["precision"])[1]

    found = r"weight ([\d.]+) at home, ([\d.]+) with all positions moved by (\d+)"
    home, far, moved = map(float, re.search(found, examples["falcon"]["relative"]).groups())
    total = float(re.search(r"sum to ([\d.]+)", examples["fla-retention"]["weights"])[1])
    return {
        "ret_bf16": first("ret", "bf16"),
        "ret_fp16": first("ret", "fp16"),
        "bloom_bf16": first("bloom", "bf16"),
        "llama_bf16": first("llama-cast", "bf16"),
        "dynamic": first("xt-dynamic", "autocast to bf16"),
        "falcon_home": f"{home:.2f}",
        "falcon_far": f"{far:.2f}",
        "falcon_moved": f"{moved:,.0f}",
        "retention": f"{total:.1f}",
    }


def setting_numbers() -> dict:
    """The settings that decide an answer: FIRE's far positions, asserted, and T5's trained length."""
    fire, buckets = seeded(lambda: make("fire", num_heads=4)), seeded(lambda: t5(4))
    assert audit(fire, questions=["relative"]).failures == ("relative",)
    assert not audit(fire, far=64, questions=["relative"]).failures
    short, long = 64, 256
    assert audit(buckets, trained_length=short, questions=["unseen"]).failures == ("unseen",)
    assert not audit(buckets, trained_length=long, questions=["unseen"]).failures
    return {"t5_short": f"{short}", "t5_long": f"{long}"}
