"""The lab From formula to kernel: real Triton kernels that go wrong, each named; and what surrounds them.

Its exercises.py knows the mistakes in PyTorch. Here the lab's own solutions are broken, a line each, and run
through Triton's interpreter, which must be chosen before Triton is imported: so in a process of its own.
"""

import json
import subprocess
import sys

import pytest
import torch
from lab_runs import errors, labs, printed, private, run_here

import posenc
from posenc.chapters.kernels import exercises as kernels
from posenc.chapters.kernels import launch
from posenc.lab.check import submission

LAB = labs.read(private("kernels/lab.py"), labs.address())
SOURCE = {cell.id: cell.source for cell in LAB.cells if cell.cell_type == "code"}
UNDONE = labs.strip(labs.read(private("kernels/lab.py"), labs.address()))
STUB = {cell.id: cell.source for cell in UNDONE.cells}
SEEN = "rows[:, None] >= cols[None, :]"
KERNELS = [name for name in kernels.EXERCISES if name != "tile_kind"]

# exercise -> (what the check says, what its solution has -> what stands there instead, ...)
WRONG = {
    "unit_rows": [
        ("length)` writes outside of out, in 3 places. Is there a mask", "x / length, mask=cols < D) -> x / length)"),
        ("cols * x_col)` reads outside of x, in 3 places. Is there a mask", ", mask=cols < D, other=0.0) -> )"),
        ("out[1, 0] is never written; 10 of 15 numbers are missing", "tl.program_id(0) -> 0"),
        ("the square root is missing", "tl.sqrt(tl.sum(x * x)) -> tl.sum(x * x)"),
        ("the column stride is left out", "cols * x_col -> cols", "cols * out_col -> cols"),
        ("reads far outside of all tensors", "row * x_row -> row * x_row * 100000"),
        ("into its input x", "out_ptr + row * out_row -> x_ptr + row * x_row", "cols * out_col -> cols * x_col"),
        ("raises NameError: name 'lenght' is not defined", "x / length, -> x / lenght,"),
    ],
    "turn_halves": [
        ("positions are in half", ".to(tl.float32)\n    frequency -> .to(x_ptr.dtype.element_ty)\n    frequency"),
        ("reads outside of x, in", "(rows[:, None] < T) & (lanes[None, :] < D // 2) -> rows[:, None] < T"),
    ],
    "online_softmax": [("load them with other=-inf", 'other=-float("inf") -> other=0.0')],
    "attend": [
        ("queries see the future: the mask", f"{SEEN} -> cols[None, :] < T", "tl.minimum(T, first + BLOCK_Q) -> T"),
        ("reads outside of v", "tl.load(v_ptr + at_k, mask=cols[:, None] < T, other=0.0) -> tl.load(v_ptr + at_k)"),
        ("is never written", "tl.program_id(1) * head_stride -> 0"),
    ],
    "break_stick": [
        ("a key's own share is taken off", "reverse=True) - kept -> reverse=True)"),
        ("writes outside of rest", "tl.exp(log_rest), mask=rows < T) -> tl.exp(log_rest))"),
    ],
}
WORK = """
import os, sys, json, linecache
os.environ["TRITON_INTERPRET"] = "1"
import torch, triton, triton.language as tl
from posenc.lab.check import find, judge
torch.set_num_threads(1)
for key, (exercise, source) in json.load(sys.stdin).items():
    linecache.cache[key] = (len(source), None, source.splitlines(True), key)
    space = {"__name__": "__main__", "torch": torch, "triton": triton, "tl": tl}
    exec(compile(source, key, "exec"), space)
    verdict = judge(find("kernels." + exercise), space[exercise])
    print(json.dumps([key, verdict.right, verdict.undone, verdict.message]), flush=True)
"""


def broken(exercise, edits):
    """The solution of an exercise with parts replaced, each of which it must have."""
    source = SOURCE[exercise]
    for edit in edits:
        old, _, new = edit.partition(" -> ")
        assert old in source, f"the solution of {exercise} has no {old!r}"
        source = source.replace(old, new)
    return source


def work(sources):
    """Judge {key: (exercise, source)} in a process of its own: {key: what it says}."""
    pytest.importorskip("triton", reason="Triton comes for Linux only")
    command = [sys.executable, "-c", WORK]
    result = subprocess.run(command, input=json.dumps(sources), capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return {key: rest for key, *rest in map(json.loads, result.stdout.splitlines())}


def test_solutions_are_right_and_stubs_undone():
    sources = {f"right {name}": (name, SOURCE[name]) for name in kernels.EXERCISES}
    sources |= {f"stub {name}": (name, STUB[name]) for name in kernels.EXERCISES}
    for key, (right, undone, _) in work(sources).items():
        assert (right, undone) == (key.startswith("right"), key.startswith("stub")), key


@pytest.mark.weekly
def test_each_wrong_kernel_is_named():
    asked = {words: (exercise, broken(exercise, edits)) for exercise, rows in WRONG.items() for words, *edits in rows}
    for words, (right, undone, message) in work(asked).items():
        assert not right and not undone and message.startswith("not right yet: ") and "\n" not in message
        assert words in message, (asked[words], message)


def test_lab_runs_through_where_there_is_no_triton(monkeypatch):
    """As on macOS and Windows: one line says so, no cell raises, the checks say why nothing runs."""
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.setitem(sys.modules, "triton.language", None)
    monkeypatch.setattr(submission, "_submissions", {})
    ran = run_here(LAB)
    assert not [name for name in errors(ran) if not name.endswith("_test")]
    assert printed(ran).count("There is no Triton on this system") == 1
    assert printed(ran).count(launch.NO_TRITON[:-1]) == len(KERNELS)
    assert not errors(run_here(UNDONE))


@pytest.mark.weekly
def test_trial_tells_how_far_a_function_is_from_the_kernel_or_from_pytorch(capsys):
    from posenc.lab.check.trial import against, causal_softmax

    assert against(causal_softmax) < 1e-4
    out = capsys.readouterr().out
    assert "gradient of k" in out and ("nothing to time" in out or torch.cuda.is_available())
    forgetting = [lambda q, k, v, gates, s=s: causal_softmax(q, k, v, posenc.fox.decay(s * gates)) for s in (1, 0.5)]
    assert against(forgetting[0], posenc.make("fox")) < 1e-4 and "gradient of gates" in capsys.readouterr().out
    assert against(forgetting[1], posenc.make("fox")) > 1e-2


def test_trial_says_so_without_triton(monkeypatch, capsys):
    from posenc.lab.check import trial

    monkeypatch.setattr(trial, "find_spec", lambda _: None)
    assert trial.against(trial.causal_softmax) is None
    assert "Linux only" in capsys.readouterr().out
