"""The lab From formula to kernel: real Triton kernels that go wrong, each named; and what surrounds them.

`posenc.lab.exercises.kernels` knows the mistakes as PyTorch functions. Here the lab's own solutions are broken, a line
each, and run through Triton's interpreter, which must be chosen before Triton is imported: so in a process of its own.
"""

import json
import os
import subprocess
import sys

import pytest
from kit import COURSE, WHY
from lab_runs import errors, labs, printed, run_here

from posenc.lab.exercises import kernels, submission

if not (COURSE / "kernels.py").exists():
    pytest.skip(WHY, allow_module_level=True)

LAB = labs.read(COURSE / "kernels.py", labs.address())
SOURCE = {cell.id: cell.source for cell in LAB.cells if cell.cell_type == "code"}
STUB = {cell.id: cell.source for cell in labs.strip(labs.read(COURSE / "kernels.py", labs.address())).cells}
ALL = list(kernels.EXERCISES)
KERNELS = [name for name in ALL if name != "tile_kind"]

HIDE = '        s = tl.where(rows[:, None] >= cols[None, :], s, float("-inf"))\n'
END = "tl.minimum(T, first + BLOCK_Q)"
KEEP = "        log_rest += tl.sum(kept, axis=1)\n"
REST = "    tl.store(rest_ptr + tl.program_id(1) * rest_head_stride + rows, tl.exp(log_rest), mask=rows < T)\n"

# (exercise, what its solution has, what stands there instead, what the check says)
WRONG = {
    # unit_rows
    "store without mask": (
        "unit_rows",
        "x / length, mask=cols < D)",
        "x / length)",
        "length)` writes outside of out, in 3 places. Is there a mask",
    ),
    "load without mask": (
        "unit_rows",
        ", mask=cols < D, other=0.0)",
        ")",
        "cols * x_col)` reads outside of x, in 3 places. Is there a mask",
    ),
    "row 0 only": ("unit_rows", "tl.program_id(0)", "0", "out[1, 0] is never written; 10 of 15 numbers are missing"),
    "no root": ("unit_rows", "tl.sqrt(tl.sum(x * x))", "tl.sum(x * x)", "the square root is missing"),
    "sum of the row": ("unit_rows", "tl.sqrt(tl.sum(x * x))", "tl.sum(x)", "you divide by the sum of the row"),
    "mean": ("unit_rows", "tl.sum(x * x)", "tl.sum(x * x) / D", "the root of the mean of the squares"),
    "mean over block": ("unit_rows", "tl.sum(x * x)", "tl.sum(x * x) / BLOCK", "you divide by BLOCK"),
    "no column stride": (
        "unit_rows",
        ("cols * x_col", "cols * out_col"),
        ("cols", "cols"),
        "the column stride is left out",
    ),
    "no row stride": (
        "unit_rows",
        ("row * x_row", "row * out_row"),
        ("row * D", "row * D"),
        "the row stride is left out",
    ),
    "far off": ("unit_rows", "row * x_row", "row * x_row * 100000", "reads far outside of all tensors"),
    "into the input": (
        "unit_rows",
        ("out_ptr + row * out_row", "cols * out_col"),
        ("x_ptr + row * x_row", "cols * x_col"),
        "it writes into its input x",
    ),
    "unknown name": ("unit_rows", "x / length,", "x / lenght,", "raises NameError: name 'lenght' is not defined"),
    # turn_halves
    "sign": (
        "turn_halves",
        ("a * cos - b * sin", "a * sin + b * cos"),
        ("a * cos + b * sin", "b * cos - a * sin"),
        "the sign of the sine is flipped",
    ),
    "neighbors": (
        "turn_halves",
        ("lanes[None, :] * x_col", "D // 2 * x_col", "lanes[None, :] * out_col", "D // 2 * out_col"),
        ("2 * lanes[None, :] * x_col", "x_col", "2 * lanes[None, :] * out_col", "out_col"),
        "pairs of the other layout",
    ),
    "index": (
        "turn_halves",
        "tl.load(positions_ptr + rows, mask=rows < T, other=0).to",
        "rows.to",
        "rows turn by their index; load their positions",
    ),
    "index in block": (
        "turn_halves",
        "tl.load(positions_ptr + rows, mask=rows < T, other=0).to",
        "tl.arange(0, BLOCK).to",
        "rows turn by their index inside of the block",
    ),
    "one position": (
        "turn_halves",
        "positions_ptr + rows,",
        "positions_ptr + rows * 0 + tl.program_id(0),",
        "all rows of a block turn by one position",
    ),
    "half angles": (
        "turn_halves",
        ("position[:, None] * frequency[None, :]", "(angle)"),
        (
            "position[:, None].to(x_ptr.dtype.element_ty) * frequency[None, :].to(x_ptr.dtype.element_ty)",
            "(angle.to(tl.float32))",
        ),
        "the angles are in half precision",
    ),
    "half cosine": (
        "turn_halves",
        ".to(tl.float32)\n    frequency",
        ".to(x_ptr.dtype.element_ty)\n    frequency",
        "the positions are in half precision",
    ),
    "used again": (
        "turn_halves",
        ("    at_out =", "tl.store(at_out, a * cos - b * sin"),
        ("    a = a * cos - b * sin\n    at_out =", "tl.store(at_out, a"),
        "the second half is turned with the first after its turn",
    ),
    "swapped": (
        "turn_halves",
        ("    cos = tl.cos", "    sin = tl.sin"),
        ("    sin = tl.cos", "    cos = tl.sin"),
        "sine and cosine are swapped",
    ),
    "lanes without mask": (
        "turn_halves",
        "(rows[:, None] < T) & (lanes[None, :] < D // 2)",
        "rows[:, None] < T",
        "reads outside of x, in",
    ),
    "one program": ("turn_halves", "tl.program_id(0) * BLOCK + ", "", "is never written"),
    # online_softmax
    "acc kept": ("online_softmax", "acc * old", "acc", "the normalizer is rescaled, the accumulator is not"),
    "l kept": ("online_softmax", "l * old", "l", "the accumulator is rescaled, the normalizer is not"),
    "both kept": ("online_softmax", ("acc * old", "l * old"), ("acc", "l"), "nothing is rescaled"),
    "no maximum": ("online_softmax", "tl.maximum(m, tl.max(s))", "0.0 * tl.max(s)", None),
    "plain exp": (
        "online_softmax",
        ("m = -float", "tl.maximum(m, tl.max(s))", "m + tl.log(l)"),
        ("m = 0.0  #", "m", "tl.log(l)"),
        "no maximum is subtracted",
    ),
    "starts at 0": ("online_softmax", 'm = -float("inf")', "m = 0.0", "the running maximum starts at 0"),
    "other=0": ("online_softmax", 'other=-float("inf")', "other=0.0", "load them with other=-inf"),
    "no other": ("online_softmax", ', other=-float("inf")', "", "load them with other=-inf"),
    "last block": (
        "online_softmax",
        ("l * old + ", "acc * old + ", "tl.maximum(m, tl.max(s))"),
        ("", "", "tl.max(s)"),
        "only the last block counts",
    ),
    "lse m": ("online_softmax", "m + tl.log(l)", "m", "lse is the maximum alone"),
    "lse log l": ("online_softmax", "m + tl.log(l)", "tl.log(l)", "lse is log l alone"),
    "lse l": ("online_softmax", "m + tl.log(l)", "l", "lse is the normalizer"),
    "not divided": ("online_softmax", "acc / l", "acc", "not divided by the normalizer"),
    "tail read": ("online_softmax", ", mask=cols < T, other=0.0", "", "reads outside of values"),
    # attend
    "no scale": ("attend", 'ee") * scale', 'ee")', "not divided by sqrt(D)"),
    "strict": ("attend", ">= cols", "> cols", "a query sees its own key too"),
    "one too far": ("attend", "rows[:, None] >= cols", "rows[:, None] + 1 >= cols", "causal off by one"),
    "one too far, tail hidden": (
        "attend",
        "rows[:, None] >= cols[None, :]",
        "(rows[:, None] + 1 >= cols[None, :]) & (cols[None, :] < T)",
        "causal off by one: a query does not see the key after its own",
    ),
    "no mask": ("attend", HIDE, "", "i >= j is miss"),
    "no mask, whole walk": ("attend", (HIDE, END), ("", "T"), "queries see the future, and the padding"),
    "no mask but the tail": (
        "attend",
        ("rows[:, None] >= cols[None, :]", END),
        ("cols[None, :] < T", "T"),
        "queries see the future: the mask",
    ),
    "mask after": (
        "attend",
        (HIDE, "tl.dot(p.to"),
        ("", "tl.dot(tl.where(rows[:, None] >= cols[None, :], p, 0.0).to"),
        "the mask comes after the exponential",
    ),
    "mask after, whole walk": (
        "attend",
        (HIDE, "tl.dot(p.to", END),
        ("", "tl.dot(tl.where(rows[:, None] >= cols[None, :], p, 0.0).to", "T"),
        "the mask comes after the exponential",
    ),
    "local indices": (
        "attend",
        "rows[:, None] >= cols[None, :]",
        "(rows - first)[:, None] >= (cols - start)[None, :]",
        "counted from the start of their blocks",
    ),
    "attend, acc kept": ("attend", "acc * old[:, None]", "acc", "the normalizer is rescaled, the accumulator is not"),
    "attend, l kept": ("attend", "l * old", "l", "the accumulator is rescaled, the normalizer is not"),
    "attend, both kept": ("attend", ("acc * old[:, None]", "l * old"), ("acc", "l"), "nothing is rescaled"),
    "attend, not divided": ("attend", "acc / l[:, None]", "acc", "not divided by the normalizer"),
    "attend, store unmasked": ("attend", ", mask=rows[:, None] < T)\n", ")\n", "writes outside of out"),
    "attend, keys unmasked": (
        "attend",
        "tl.load(k_ptr + at_k, mask=cols[:, None] < T, other=0.0)",
        "tl.load(k_ptr + at_k)",
        "`k = tl.load(k_ptr + at_k)` reads outside of k",
    ),
    "attend, values unmasked": (
        "attend",
        "tl.load(v_ptr + at_k, mask=cols[:, None] < T, other=0.0)",
        "tl.load(v_ptr + at_k)",
        "`v = tl.load(v_ptr + at_k)` reads outside of v",
    ),
    "one head": ("attend", "tl.program_id(1) * head_stride", "0", "is never written"),
    # break_stick
    "shared rest": ("break_stick", " + before + ", " + ", "all keys of a block take from one rest"),
    "fresh rest": ("break_stick", KEEP, "", "each block starts with a whole stick"),
    "last block's rest": ("break_stick", "log_rest +=", "log_rest =", "handed what the last block left alone"),
    "oldest block first": ("break_stick", "(last - n) * BLOCK_K", "n * BLOCK_K", "the walk goes from the oldest block"),
    "oldest key first": ("break_stick", ", reverse=True", "", "inside of a block the oldest key comes first"),
    "from key 0": (
        "break_stick",
        ("(last - n) * BLOCK_K", ", reverse=True"),
        ("n * BLOCK_K", ""),
        "the walk goes from key 0",
    ),
    "own share": ("break_stick", "reverse=True) - kept", "reverse=True)", "a key's own share is taken off"),
    "own key": ("break_stick", "rows[:, None] > cols", "rows[:, None] >= cols", "a query asks its own key"),
    "future breaks": ("break_stick", "tl.where(past, -softplus, 0.0)", "-softplus", "still break the stick"),
    "future shares": ("break_stick", "tl.where(past, tl.exp(log_a), 0.0)", "tl.exp(log_a)", "future get a share"),
    "log of the rest": ("break_stick", "tl.exp(log_rest), mask", "log_rest, mask", "the log of the rest"),
    "taken": ("break_stick", "tl.exp(log_rest), mask", "1 - tl.exp(log_rest), mask", "what was taken, not"),
    "stick, no scale": ("break_stick", 'ee") * scale', 'ee")', "not divided by sqrt(D)"),
    "rest unmasked": ("break_stick", "tl.exp(log_rest), mask=rows < T)", "tl.exp(log_rest))", "writes outside of rest"),
    "rest forgotten": ("break_stick", REST, "", "rest[0, 0] is never written"),
}

# What remains to be seen where addresses are not looked at, as on a GPU.
UNWATCHED = {
    "store without mask": "it writes outside of out, in 9 places",
    "load without mask": "out[0, 0] is NaN. What lies outside of the inputs is NaN here",
    "attend, values unmasked": "is NaN. What lies outside",
    "rest unmasked": "it writes outside of rest",
    "shared rest": "all keys of a block take from one rest",
}

WORK = """
import os, sys, json, linecache
os.environ["TRITON_INTERPRET"] = "1"
import torch, triton, triton.language as tl
from posenc.lab.exercises import find, judge, kernels
torch.set_num_threads(1)
for key, (exercise, source, watched) in json.load(sys.stdin).items():
    linecache.cache[key] = (len(source), None, source.splitlines(True), key)
    space = {"__name__": "__main__", "torch": torch, "triton": triton, "tl": tl}
    exec(compile(source, key, "exec"), space)
    if not watched:
        kernels._Watch.look = lambda *arguments: None
    verdict = judge(find("kernels." + exercise), space[exercise])
    print(json.dumps([key, verdict.right, verdict.undone, verdict.message]), flush=True)
"""

# Ahead of time, for GPUs that are not here: the solutions compile, the compiler's error on a stub is read as undone.
COMPILE = """
import os, sys, json, linecache
os.environ.pop("TRITON_INTERPRET", None)
import torch, triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from posenc.lab.exercises import kernels
for key, (exercise, source, capability) in json.load(sys.stdin).items():
    linecache.cache[key] = (len(source), None, source.splitlines(True), key)
    space = {"__name__": "__main__", "torch": torch, "triton": triton, "tl": tl}
    exec(compile(source, key, "exec"), space)
    kernel = space[exercise + "_kernel"]
    sizes = {"BLOCK": 32, "HALF": 32, "D": 64, "BLOCK_Q": 64, "BLOCK_K": 32}
    fixed = {n: v for n, v in sizes.items() if n in kernel.arg_names and not (n == "D" and "BLOCK" in kernel.arg_names)}
    types = {n: "constexpr" if n in fixed else "*fp32" if n.endswith("_ptr") else "i32" for n in kernel.arg_names}
    types |= {n: t for n, t in {"scale": "fp32", "positions_ptr": "*i64"}.items() if n in types}
    types |= {n: "*fp16" for n in ("q_ptr", "k_ptr", "v_ptr", "out_ptr") if n in types and "q_ptr" in types}
    code = triton.compiler.ASTSource(kernel, types, constexprs=fixed)
    try:
        triton.compile(code, target=GPUTarget("cuda", capability, 32))
        outcome = "compiled"
    except Exception as error:
        try:
            kernels._explain(error)
        except NotImplementedError:
            outcome = "undone"
        except kernels.Problem as problem:
            outcome = problem.words
    print(json.dumps([key, outcome]), flush=True)
"""


def broken(exercise, old, new):
    """The solution of an exercise with parts replaced, each of which it must have."""
    source = SOURCE[exercise]
    for a, b in zip([old] if isinstance(old, str) else old, [new] if isinstance(new, str) else new):
        assert a in source, f"the solution of {exercise} has no {a!r}"
        source = source.replace(a, b)
    return source


def work(code, sources, **environment):
    """Run code on {key: (exercise, source, ...)} in a process of its own: {key: what it says}."""
    pytest.importorskip("triton", reason="Triton comes for Linux only")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    result = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(sources), capture_output=True, text=True, env=environment
    )
    assert result.returncode == 0, result.stderr
    return {key: rest for key, *rest in map(json.loads, result.stdout.splitlines())}


@pytest.fixture(scope="module")
def verdicts():
    sources = {f"right {name}": (name, SOURCE[name], True) for name in ALL}
    sources |= {f"stub {name}": (name, STUB[name], True) for name in ALL}
    sources |= {key: (exercise, broken(exercise, old, new), True) for key, (exercise, old, new, _) in WRONG.items()}
    for key in UNWATCHED:
        exercise, old, new, _ = WRONG[key]
        sources[f"unwatched {key}"] = exercise, broken(exercise, old, new), False
    return work(WORK, sources)


@pytest.mark.slow
@pytest.mark.parametrize("key", WRONG)
def test_a_wrong_kernel_is_named(key, verdicts):
    words = WRONG[key][3]
    right, undone, message = verdicts[key]
    assert not right and not undone
    assert message.startswith("not right yet: ") and message.count("\n") == 0
    assert words is None or words in message, message


@pytest.mark.slow
@pytest.mark.parametrize("key", UNWATCHED)
def test_it_is_named_too_where_addresses_are_not_looked_at(key, verdicts):
    right, undone, message = verdicts[f"unwatched {key}"]
    assert not right and not undone and UNWATCHED[key] in message, message


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_solutions_are_right_and_stubs_undone(name, verdicts):
    assert verdicts[f"right {name}"][:2] == [True, False], verdicts[f"right {name}"]
    assert verdicts[f"stub {name}"] == [False, True, "not done yet."]


def test_three_kernels_at_least_are_tried_for_each_exercise():
    tried = [exercise for exercise, *_ in WRONG.values()]
    assert all(tried.count(name) >= 3 for name in KERNELS)


@pytest.mark.slow
def test_every_mistake_that_the_check_knows_was_seen_in_a_kernel(verdicts):
    """But for the mask left out where the walk ends with the last block that a query reaches."""
    said = " ".join(message for _, _, message in verdicts.values())
    known = [words for name in KERNELS for words in kernels.EXERCISES[name].mistakes]
    (unseen,) = [words for words in known if words not in said]
    assert "i >= j" in unseen


@pytest.mark.slow
@pytest.mark.parametrize("capability", [75, 90])
def test_solutions_compile_for_gpus_and_stubs_are_told_from_errors(capability, tmp_path):
    sources = {f"right {name}": (name, SOURCE[name], capability) for name in KERNELS}
    sources |= {f"stub {name}": (name, STUB[name], capability) for name in KERNELS}
    wrong = SOURCE["attend"].replace("tl.trans(k)", "tl.transposed(k)")
    said = work(COMPILE, sources | {"wrong": ("attend", wrong, capability)}, TRITON_CACHE_DIR=str(tmp_path))
    for name in KERNELS:
        assert said[f"right {name}"] == ["compiled"]
        assert said[f"stub {name}"] == ["undone"]
    assert "tl.transposed(k)" in said["wrong"][0] and "does not compile: " in said["wrong"][0]


def test_lab_runs_through_where_there_is_no_triton(monkeypatch):
    """As on macOS and Windows: one line says so, no cell raises, the checks say why nothing runs."""
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.setitem(sys.modules, "triton.language", None)
    monkeypatch.setattr(submission, "_submissions", {})
    ran = run_here(LAB)
    assert not [name for name in errors(ran) if not name.endswith("_test")]
    assert printed(ran).count("There is no Triton on this system") == 1
    assert printed(ran).count(kernels.NO_TRITON[:-1]) == len(KERNELS)
    assert not errors(run_here(labs.strip(labs.read(COURSE / "kernels.py", labs.address()))))


def test_checks_import_no_triton():
    code = "import torch, sys; torch_brings = 'triton' in sys.modules; "
    code += (
        "import posenc.lab.exercises.kernels as k; k.EXERCISES; sys.exit('triton' in sys.modules and not torch_brings)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
