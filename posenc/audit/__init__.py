r"""Bring your own encoding and get a report: what holds, what fails, and the example that shows it.

    def my_rotation(x, positions): ...          # x [B, H, T, D], positions [T]

    print(posenc.audit.audit(my_rotation, "rotate"))

An audit looks for counterexamples. It finds no proof, and says nothing about whether a method learns. `model` asks a
whole model.
"""

from collections.abc import Callable, Iterable

import torch
from torch.overrides import TorchFunctionMode

from ..encoding import Encoding
from ..errors import check_bool, check_choice, check_int, check_number, shown
from . import beyond, lanes
from . import questions as asking
from .bench import QUESTIONS, Bench, Finding, Report, pair_of
from .by_hand import NotAsked, SubjectError, as_encoding, error_words
from .models import model as model

#: {question: the function called ask_QUESTION}
ASK = {q: getattr(room, f"ask_{q}") for room in (asking, lanes, beyond) for q in QUESTIONS if hasattr(room, f"ask_{q}")}


class Counted(TorchFunctionMode):
    """Counts the numbers that torch's functions write; views write nothing."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            given = [x for x in (*args, *(kwargs or {}).values()) if isinstance(x, torch.Tensor)]
            if out.untyped_storage().data_ptr() not in {x.untyped_storage().data_ptr() for x in given}:
                self.numbers += out.numel()
        return out


def cost_of(bench, length=128):
    """Learned numbers, and numbers written by one forward pass beside those of attention without position."""
    length = min(length, bench.length)
    parameters = sum(p.numel() for p in bench.encoding.parameters())
    x, counts = bench.tokens(length), []
    for one in (Bench(Encoding(), bench.settings), bench):
        one.layer(torch.float64)
        with Counted() as counted, torch.no_grad():
            one.run(x, torch.arange(length))
        counts.append(counted.numbers)
    ratio = counts[1] / counts[0]
    words = f"{parameters:,} learned numbers; writes {ratio:.2f} times as many numbers as attention without position"
    words += f" ({length} tokens; counted, not timed)"
    return {"parameters": parameters, "written_ratio": round(ratio, 3), "length": length, "words": words}


def audit(
    subject: Encoding | Callable, place: str | None = None, *, head_dim: int = 16, num_heads: int = 4,
    trained_length: int = 64, causal: bool = True, far: int = 4096, tolerance: float = 1e-4, decays: bool = False,
    questions: Iterable[str] | None = None, like: str | Encoding | Callable | None = None, name: str | None = None,
) -> Report:  # fmt: skip
    r"""Ask an encoding thirteen questions and report the answers, each with the example that shows a failure.

    Arguments:
        subject: an `Encoding`, or a callable as you have it at hand, with its `place`. A module is copied and cast
            along; one that a function merely refers to is used as it is. An `Encoding` with n axes is asked at places
            along a crooked line; "distance" and "unseen" do not apply to it.
        place: "embed": f(x [B, T, C], positions [T]) -> x, with C = num_heads head_dim;
            "rotate": f(x [B, H, T, D], positions [T]) -> x, called for queries and for keys;
            "bias": f(pos_q [Tq], pos_k [Tk]) -> what broadcasts to [H, Tq, Tk], added to the scaled logits;
            "weigh": f(scores [B, H, Tq, Tk], at) -> weights, with at.visible, at.pos_q and at.pos_k;
            "gather": f(weights [B, H, Tq, Tk], v [B, H, Tk, Dv], at) -> [B, H, Tq, Dv];
            "attention": f(q, k, v, positions [Tk], causal) -> [B, H, Tq, Dv], queries at the last Tq positions.
            None for an `Encoding`; what reads q, k and positions together goes in as Encoding(rotate=f).
        head_dim, num_heads: D and H of the vectors that it is asked about.
        trained_length: L, in tokens: "relative" is asked inside it, "finite" and "unseen" beyond it, to 8 L.
        causal: False audits without a causal mask; "causality" and "cache" are then not asked.
        far: where "precision" ends, in tokens; "relative" is asked of a window across it, too.
        tolerance: the largest change that counts as none. It lets pass what computes in float32 inside.
        decays: True where distance is claimed to be a penalty: "distance" then judges that claim. Otherwise it tells
            which keys win, as many methods learn it.
        questions: names from `QUESTIONS`, default all of them.
        like: asks "same" too: what the subject should compute, at home and farther out, in float64. A name from
            `posenc.METHODS` is made with the audit's sizes and the subject's learned numbers (both are moved a little,
            as some start at zero); an `Encoding`, or a callable of the same place, is used with its own.
        name: what the report calls the subject.
    Returns: a `Report`, the same each time: its random vectors are seeded.
    Errors: TypeError or ValueError naming the argument. What the subject raises is a finding, not an error.
    Chapter: Auditing a proposal.
    """
    encoding = as_encoding(subject, place)
    check_bool("causal", causal)
    check_bool("decays", decays)
    settings = {
        "head_dim": check_int("head_dim", head_dim, minimum=2, even=True),
        "num_heads": check_int("num_heads", num_heads),
        "trained_length": check_int("trained_length", trained_length, minimum=8),
        "causal": causal,
        "far": check_int("far", far, minimum=16),
        "tolerance": check_number("tolerance", tolerance, above=0),
        "decays": decays,
    }
    if not causal and encoding.causal_only:
        raise ValueError(f"causal=False: {encoding.causal_only}")
    if not isinstance(questions, list | tuple | set | None):
        raise TypeError(f"questions={shown(questions)} must be a list of names, or None for all")
    questions = tuple(QUESTIONS) if questions is None else tuple(questions)
    for question in questions:
        check_choice("questions", question, tuple(QUESTIONS))
    name = name or getattr(subject, "__name__", None) or type(subject).__name__

    bench = Bench(encoding, settings)
    pair = None if like is None else pair_of(bench, like, place)
    ask = ASK | {"same": lambda _: asking.ask_same(pair, like if isinstance(like, str) else "the other")}
    runs, findings = asking.ask_shape(bench), []
    for question in questions if like is None else (*questions, "same"):
        if question != "shape" and runs.verdict == "fails":
            findings.append(Finding(question, "not asked", None, "it does not run"))
            continue
        try:
            findings.append(runs if question == "shape" else ask[question](bench))
        except NotAsked as reason:
            findings.append(Finding(question, "not asked", None, str(reason)))
        except SubjectError as error:
            if question == "unseen":  # "finite" tells
                findings.append(Finding(question, "not asked", None, f"it refuses positions past {trained_length - 1}"))
            else:
                findings.append(Finding(question, "fails", None, "it raises an error", error_words(error)))
    cost = {"parameters": 0, "words": "not counted: it does not run"}
    if runs.verdict == "holds":
        try:
            cost = cost_of(bench)
        except SubjectError as error:
            cost["words"] = f"not counted: it raises an error ({error_words(error)})"
    places = encoding.places + (("attention",) if encoding.attend is not None else ())
    return Report(name, places, tuple(findings), cost, settings)
