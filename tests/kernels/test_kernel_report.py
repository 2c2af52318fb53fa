"""The compile report of the kernels: it is current, says what the project demands, and can be made again; and the
benchmark of the kernels, as far as it runs without a GPU."""

import functools
import importlib.util
import json
import os
import runpy
import subprocess
import sys
import types
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

import posenc
from posenc import UnsupportedError
from posenc.lab.experiments import kernel_report as report
from posenc.lab.experiments import load_results

pytestmark = pytest.mark.weekly

ROOT = Path(__file__).resolve().parents[2]
needs_triton = pytest.mark.skipif(sys.platform != "linux", reason="triton is published for Linux only")


@pytest.fixture(scope="module")
def rows():
    return report.load_report()["rows"]


# ------------------------------------------------------------------------------------------------- the frozen report


@needs_triton
def test_the_frozen_report_is_of_these_launches(rows, monkeypatch):
    """Which kernels each call launches for each GPU, cut by which tiles: what the hash of the sources does not hold."""
    monkeypatch.setattr(report, "BATCH", 1)
    monkeypatch.setattr(report, "HEADS", 2)
    launches = set()
    for job in report.jobs():
        report.launch_each(lambda name, cut, _, job=job: launches.add((*job[:2], name, *job[2:], tuple(cut))), *job)
    assert launches == {(*(row[part] for part in report.KEY), tuple(row["tile"])) for row in rows}


def test_the_frozen_report_holds_everything_once(rows):
    every = ("forward", "backward_q", "backward_kv")
    kernels = {"rotary": ("rotary",), "turned": every[:1], "other": every, "table": (*every, "backward_table")}
    kernels |= dict.fromkeys(("gain and band", "mixed"), ("rotary", "rotary_backward"))
    wanted = set()
    for family, variant, capability, dtype, head_dim in report.jobs():
        kind = "rotary" if family == "rotary" else "turned" if "turned" in variant else "other"
        kind = variant if variant in kernels else kind
        wanted |= {(family, variant, name, capability, dtype, head_dim) for name in kernels[kind]}
    assert len(rows) == len(wanted)
    assert {tuple(row[name] for name in report.KEY) for row in rows} == wanted
    assert {row["capability"] for row in rows} == {"7.5", "8.0", "8.6", "8.9", "9.0", "10.0"}
    assert not report.select(rows, capability="7.5", dtype="bfloat16")
    for variant in ("plain", "linear"):
        assert report.select(rows, variant=variant, capability="8.0", dtype="float16", head_dim=64)


def test_every_gpu_gets_what_the_project_demands(rows):
    limits = {"7.5": 64, "8.0": 163, "8.6": 99, "8.9": 99, "9.0": 227, "10.0": 227}  # kB of shared memory a block
    for row in rows:
        name = [row[part] for part in report.KEY]
        half, turing = row["dtype"] != "float32", row["capability"] == "7.5"
        assert row["compiles"] is True, (name, row["instructions"])
        assert row["shared"] <= limits[row["capability"]] * 1024, name
        if half and (row["head_dim"] == 64 or (turing and row["pass"] != "backward_table")):
            assert row["spilled"] == 0, name
        if half and row["family"] != "rotary":
            assert (row["tensor_cores"] == 0) == turing, name
        assert 0 < row["registers"] <= 255, name
    assert report.problems(rows) == []


def test_the_goals_hold_where_they_are_counted(rows):
    """No 64-bit conversion a score (but of the table, which counts in whole numbers), no index product in 32 bits."""
    for row in rows:
        name = [row[part] for part in report.KEY]
        assert not row["narrow"] and (not row["conversions"] or row["pass"] == "backward_table"), name
        assert row["code"] is not None, name


WRONG = {
    "does not compile": dict(compiles=False, instructions="PTXASError: no"),
    "shared memory": dict(shared=99 * 1024 + 1),
    "spills 4 bytes": dict(spilled=4),
    "no tensor-core": dict(tensor_cores=0),
    "converts 1 64-bit": dict(conversions=1.0),
    "forms 2 index products in 32 bits": dict(narrow=2),
}


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_row_is_a_problem(rows, words):
    (row,) = report.select(
        rows, family="softmax", variant="plain", pass_="forward", capability="8.6", dtype="float16", head_dim=64
    )
    assert report.problems([row]) == []
    (problem,) = report.problems([row | WRONG[words]])
    assert problem.startswith("softmax plain forward 8.6 float16 64") and words in problem


def test_the_table_shows_what_a_gpu_gets(rows):
    mine = report.select(rows, capability="8.0", dtype="float16", head_dim=64, family=("softmax", "stickbreaking"))
    head, line, *lines = report.table(mine, hide=("dtype", "head size")).split("\n")
    assert len(lines) == len(mine) and line.count("---") == len(report.HEAD) - 2
    assert "tensor cores" in head and "dtype" not in head and "float16" not in lines[0]
    assert all("of 163 kB" in line and "HMMA" in line for line in lines)
    with pytest.raises(ValueError, match="hide='warps'"):
        report.table(mine, hide=("warps",))
    with pytest.raises(ValueError, match="column='gpu'"):
        report.select(rows, gpu="T4")


def test_the_overview_counts(rows):
    head, line, *lines = report.overview(rows).split("\n")
    assert len(lines) == 3 * len(report.CHIPS) - 1  # no bfloat16 on 7.5
    (line,) = (line for line in lines if line.startswith("| 9.0 |") and "bfloat16" in line)
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    mine = report.select(rows, capability="9.0", dtype="bfloat16")
    spilled = sum(row["spilled"] > 0 for row in mine)
    assert cells[3] == f"{len(mine)} of {len(mine)}" and cells[5] == str(spilled) and "HGMMA" in cells[6]


def test_the_report_is_read_without_triton(monkeypatch):
    monkeypatch.setattr(posenc, "kernels", posenc.kernels)
    for name in [name for name in sys.modules if name.split(".")[0] == "triton" or name.startswith("posenc.kernels")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "triton", None)
    fresh = types.SimpleNamespace(**runpy.run_path(report.__file__))
    assert len(fresh.table(fresh.load_report()["rows"])) > 10_000


# --------------------------------------------------------------------------------------------------- compiled anew


def compile_anew(*calls):
    """The rows of calls of `compile_rows`, from a process that has the compiler (here, kernels may be interpreted)."""
    code = (
        "import json, sys, torch; torch.set_num_threads(1); "
        "from posenc.lab.experiments.kernel_report import compile_rows; "
        "print(json.dumps([row for call in json.loads(sys.argv[1]) for row in compile_rows(*call)]))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-c", code, json.dumps(calls)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


SAMPLE = [
    ["rotary", "interleaved", "7.5", "float16", 64],
    ["rotary", "gain and band", "8.0", "float16", 64],
    ["rotary", "mixed", "9.0", "float16", 64],
    ["softmax", "plain", "8.0", "float16", 64],
    ["softmax", "plain", "9.0", "bfloat16", 64],
    ["stickbreaking", "plain", "8.6", "float16", 64],
]
# A compile that must fail the report: four stages of 128 x 128 at head size 128 want more than 8.6 has.
TOO_LARGE = ["softmax", "plain", "8.6", "float16", 128, [128, 128, 8, 4], ["forward"]]


SASS = """
        /*0000*/                   I2F.S64 R1, R2 ;
.L_x_0:
        /*0010*/                   I2F.S64 R1, R2 ;
.L_x_1:
        /*0020*/                   I2F.S64 R40, R44 ;
        /*0030*/              @!P2 F2I.S64.TRUNC R40, R44 ;
        /*0040*/                   I2F.F64.S64 R40, R44 ;
        /*0050*/                   I2FP.F32.S32 R40, R44 ;
        /*0060*/                   MUFU.EX2 R40, R44 ;
        /*0070*/              @!P2 BRA `(.L_x_9) ;
        /*0080*/                   MUFU.EX2 R40, R44 ;
        /*0090*/               @P1 BRA `(.L_x_1) ;
        /*00a0*/                   MUFU.RCP R40, R44 ;
        /*00b0*/              @P1 BRA `(.L_x_0) ;
.L_x_2:
        /*00c0*/                   MUFU.EX2 R40, R44 ;
        /*00d0*/                   REDG.E.ADD.64.STRONG.GPU desc[UR42][R62.64], R20 ;
        /*00e0*/                   REDUX.OR UR5, R4 ;
        /*00f0*/               @P1 BRA `(.L_x_2) ;
.L_x_9:
        /*0100*/                   ATOMG.E.ADD PT, R4, desc[UR4][R2.64], R5 ;
"""


def test_instructions_are_counted_in_the_loops_over_scores():
    """Two loops with two scores a thread: what stands before, around or after them costs a score nothing."""
    assert list(map(len, report.score_loops(SASS))) == [8, 4]
    found = report.per_score(SASS, (8, 8, 1, 1))
    assert found == {"conversions": 1.0, "atomics": 0.5, "divisions": 0.0, "exponentials": 1.0}
    assert set(report.per_score("", (8, 8, 1, 1)).values()) == {None}


TTIR = """
  tt.func public @f(%q_ptr: !tt.ptr<f16> loc("q_ptr"(#loc)), %stride: i32 {tt.divisibility = 16} loc("stride"(#loc))) {
    %c64_i32 = arith.constant 64 : i32 loc(#loc5)
    %0 = tt.get_program_id x : i32 loc(#loc8)
    %1 = arith.muli %0, %c64_i32 : i32 loc(#loc9)
    %2 = arith.extsi %stride : i32 to i64 loc(#loc9)
    %3 = arith.extsi %1 : i32 to i64 loc(#loc9)
    %4 = arith.muli %3, %2 : i64 loc(#loc9)
    %5 = arith.muli %0, %stride : i32 loc(#loc9)
    %q = tt.addptr %q_ptr, %4 : !tt.ptr<f16>, i64 loc(#loc10)
    scf.for %n = %0 to %1 step %1 {
      %6 = arith.muli %n, %stride : tensor<4xi32> loc(#loc9)
      %7 = arith.addi %6, %6 : tensor<4xi32> loc(#loc9)
      %8 = tt.addptr %q, %7 : tensor<4x!tt.ptr<f16>>, tensor<4xi32> loc(#loc10)
    }
    scf.for %n = %0 to %1 step %1 {
      %6 = arith.addi %n, %1 : i32 loc(#loc9)
      %8 = tt.addptr %q, %6 : !tt.ptr<f16>, i32 loc(#loc10)
    }
"""


def test_index_products_in_32_bits_are_found():
    """One of four products: the others are with a constant, in 64 bits, and of no address."""
    assert report.narrow_products(TTIR) == 1
    assert report.narrow_products(TTIR.replace("tensor<4xi32> loc(#loc9)", "tensor<4xi64> loc(#loc9)")) == 0


def test_the_goals_are_counted(rows):
    counts = dict(conversions=0.0, atomics=0.0, divisions=0.0, exponentials=1.0, narrow=0)
    (row,) = report.select(
        rows, family="softmax", variant="plain", pass_="forward", capability="8.0", dtype="float16", head_dim=64
    )
    wrong = [row | counts | {name: 1} for name in ("conversions", "atomics", "divisions", "narrow")]
    lines = report.goals([row | counts, *wrong, row | dict(narrow=None)]).split("\n")[2:]
    assert len(lines) == len(report.GOALS) and all("4 of 5 | softmax plain forward" in line for line in lines)
    divides = row | counts | dict(divisions=1.0, family="stickbreaking")
    assert "| 1 of 1 | - |" in report.goals([divides]).split("\n")[4]


def test_a_code_is_of_all_that_a_row_follows_from(monkeypatch):
    code, tile = report.code_of(TTIR, "8.0", (64, 64, 4, 1)), (64, 64, 4, 1)
    renamed = TTIR.replace("%n", "%other").replace("#loc9", "#loc11") + "#loc11 = loc(unknown)\n"
    assert report.code_of(renamed, "8.0", tile) == code
    others = [(TTIR.replace(*change), "8.0", tile) for change in (("addi", "subi"), ("= 16", "= 8"))]
    others += [(TTIR, "9.0", tile), (TTIR, "8.0", (64, 32, 4, 1))]
    assert code not in [report.code_of(*other) for other in others]
    monkeypatch.setattr(report, "version", lambda _: "0")
    assert report.code_of(TTIR, "8.0", tile) != code


STANDS = """
import json, torch; torch.set_num_threads(1)
from unittest import mock
from triton.backends.nvidia.compiler import CUDABackend
from posenc.lab.experiments import kernel_report as report
job = ("rotary", "half", "8.0", "float16", 64)
(row,) = report.compile_rows(*job)
never = mock.Mock(side_effect=RuntimeError("compiled once more"))
def anew(known, job=job):
    with mock.patch.object(report, "read_compiled", never), mock.patch.object(CUDABackend, "make_llir", never):
        return report.compile_rows(*job, known=known)[0]
stands = anew([row | {"registers": 7}])
changed = anew([row | {"code": "0"}])
print(json.dumps([row, stands, changed]))
"""


@pytest.mark.weekly
@needs_triton
def test_a_row_stands_where_its_code_does(tmp_path):
    """Not with Triton's cache warm, nor cold: what is known is neither compiled on nor read again."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", STANDS], capture_output=True, text=True, cwd=ROOT, env=environment)
    assert run.returncode == 0, run.stderr
    row, stands, changed = json.loads(run.stdout)
    assert stands == row | {"registers": 7}
    assert changed["compiles"] is False and "compiled once more" in changed["instructions"]
    assert row["compiles"] and row["narrow"] is not None and row["exponentials"] is None


def test_an_interrupted_report_goes_on(rows, tmp_path, monkeypatch):
    """What a run had made before it was interrupted stands, a half-written last line does not."""
    monkeypatch.setattr(report, "PART", tmp_path / "part")
    assert report.known_rows() == rows
    report.PART.write_text(json.dumps(rows[0] | {"code": "new"}) + "\n" + '{"family": "ro')
    assert report.known_rows() == [*rows, rows[0] | {"code": "new"}]


def same_as_frozen(rows, anew):
    if version("triton") != report.load_report()["triton"]:
        pytest.skip(f"the report is of triton {report.load_report()['triton']}, here is {version('triton')}")
    columns = load_results("kernel_report")["columns"]
    for row in anew:
        (frozen,) = report.select(rows, **{name: row[name] for name in report.KEY})
        assert {name: row[name] for name in columns} == {name: frozen[name] for name in columns}


@pytest.mark.weekly
@needs_triton
def test_a_sample_compiles_to_what_is_frozen_and_a_tile_too_large_is_a_problem(rows):
    *sample, too_large = compile_anew(*SAMPLE, TOO_LARGE)
    (problem,) = report.problems([too_large])
    assert "shared memory" in problem and "101376" in problem
    same_as_frozen(rows, sample)


@needs_triton
@pytest.mark.weekly
@pytest.mark.parametrize("family", ["rotary", "softmax", "stickbreaking"])
@pytest.mark.parametrize("capability", report.CHIPS)
def test_each_gpu_gets_what_is_frozen(rows, family, capability):
    """One dtype and head size, no masks, no rotation inside: `make kernel-report` does the rest, in ten minutes."""
    jobs = [job for job in report.jobs() if job[0] == family and job[2:] == (capability, "float16", 64)]
    same_as_frozen(rows, compile_anew(*(job for job in jobs if job[1] in ("half", "plain", "linear"))))


@needs_triton
def test_the_report_refuses_the_interpreter(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(UnsupportedError, match="TRITON_INTERPRET=1"):
        report.compile_rows("softmax", "plain", "8.0", "float16", 64)


# ----------------------------------------------------------------------------------------- the benchmark, without a GPU


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("benchmark_of_kernels", ROOT / "benchmarks" / "kernels.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@needs_triton
def test_all_arms_compute_the_same(bench, monkeypatch):
    """What is raced must be one function: each arm against the reference, in float32 (interpreted without a GPU)."""
    from torch.nn.attention import flex_attention as flex

    device = "cuda" if torch.cuda.is_available() else "cpu"
    monkeypatch.setattr(bench, "compiled_flex", lambda: flex.flex_attention)
    monkeypatch.setattr(
        bench, "causal_blocks", lambda n: flex.create_block_mask(bench.causal, None, None, n, n, device)
    )
    monkeypatch.setattr(bench, "HEADS", 2)
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, bench.HEADS, 40, 16, device=device)
    encodings = {"softmax": None, "ALiBi": bench.alibi(q), "stick-breaking": bench.stick(q), "RoPE": bench.rope(q)}
    encodings |= {"T5": bench.t5(q), "FoX": posenc.make("fox")}
    for name, arm in bench.ATTENTION.items():
        if name.startswith("fla"):  # its kernels take no float32: its references in PyTorch stand in
            (family,) = arm.args
            naive = getattr(importlib.import_module(f"fla.ops.{family}.naive"), f"naive_{family}")
            monkeypatch.setattr(bench, "fla_function", lambda _, naive=naive: naive)
        if name.startswith("SDPA"):  # its fused backends take no float32, its plain one stands in
            arm = functools.partial(bench.sdpa, "MATH")
        (method,) = [known for known in encodings if known in name] or ["softmax"]
        gates = bench.log_gates(*q.shape[:3:2], q.device) if method == "FoX" else None
        expected = posenc.attention(q, k, v, encodings[method], impl="torch", gates=gates)
        say = functools.partial("{}: {}".format, name)
        torch.testing.assert_close(arm(q, k, v), expected, rtol=1e-4, atol=1e-5, msg=say)

    at, copies = torch.arange(40, device=device), bench.turn("copy", q, k)()
    assert torch.equal(copies[0], q) and torch.equal(copies[1], k)
    for layout in ("interleaved", "half"):
        for turned, x in zip(bench.turn(f"rotary {layout}", q, k)(), (q, k)):
            expected = posenc.rope.rotate(x, at, posenc.rope.inv_freq(16).to(device), layout)
            torch.testing.assert_close(turned, expected, rtol=1e-4, atol=1e-5)


def fake(cell):
    """Ours takes 1 ms a 1,024 tokens, everything else 1.5 ms; "eager" does not fit from 16,384 on."""
    what, arm, length, head_dim = cell
    if arm.startswith("eager") and length >= 16384:
        raise MemoryError("too large")
    if what == "peak memory":
        return {"bytes": length * head_dim * 1000}
    milliseconds = length / 1024 * (1.0 if arm in ("softmax", "ALiBi", "rotary half") else 1.5)
    return {"median": milliseconds, "low": 0.9 * milliseconds, "high": 1.1 * milliseconds}


@pytest.fixture
def measure_all(bench, tmp_path, monkeypatch):
    """measure_all(measure) -> the rows of all cells; the file that holds them on the way is left out."""
    with monkeypatch.context() as patch:
        patch.setattr(bench, "write_json", lambda path, value: None)
        yield lambda measure: bench.measure_all(bench.cells(), {}, tmp_path / "none.part", measure=measure)


def test_the_benchmark_covers_what_the_project_demands(bench):
    cells = bench.cells()
    assert len(cells) == len(set(cells)) == (3 * len(bench.ATTENTION) + len(bench.TURNING)) * 6 * 2
    assert [length for _, _, length, _ in cells] == sorted(length for _, _, length, _ in cells)
    assert {length for _, _, length, _ in cells} == {1024, 2048, 4096, 8192, 16384, 32768}
    smoke = bench.smoke_cells()
    assert set(smoke) < set(bench.cells(bench.SMOKE)) and {length for _, _, length, _ in smoke} == set(bench.SMOKE)
    assert {arm for _, arm, _, _ in smoke} == {a for a in (*bench.ATTENTION, *bench.TURNING) if "eager" not in a}
    slow = [arm.startswith(("flex", "fla")) for _, arm, _, _ in smoke]
    assert slow == sorted(slow) and any(slow)


def test_ratios_and_verdicts(bench, measure_all):
    rows = measure_all(fake)
    ratios = {tuple(row[:4]): tuple(row[4:]) for row in bench.ratios(rows)}
    assert ratios["softmax: speed of flex softmax", "forward", 1024, 64] == (1.5, 1.0, True)
    flash = "stick-breaking: speed of SDPA FLASH_ATTENTION"
    assert ratios[flash, "forward and backward", 32768, 128] == (1.0, 0.5, True)
    assert ratios["rotary half: bandwidth of a copy", "rotation", 4096, 64] == (1.5, 0.85, True)
    assert ratios["ALiBi: peak memory at twice the length", "peak memory", 32768, 64] == (2.0, 2.2, True)
    assert {length for target, _, length, _ in ratios if "twice" in target} == {32768}

    def slow(cell):
        return fake(cell) | ({"median": 9e9} if cell[1] in ("softmax", "stick-breaking", "rotary half") else {})

    def hungry(cell):
        return {"bytes": cell[2] ** 2} if cell[0] == "peak memory" else fake(cell)

    def missed(measure):
        return {row[0] for row in bench.ratios(measure_all(measure)) if row[6] is False}

    assert missed(slow) == {"softmax: speed of flex softmax", flash, "rotary half: bandwidth of a copy"}
    assert missed(hungry) == {f"{arm}: peak memory at twice the length" for arm in bench.OURS}

    unmeasured = bench.ratios([row for row in rows if "flex" not in row[1]])
    assert [row[4:] for row in unmeasured if "flex" in row[0]] == [[None, 1.0, None]] * 48


def test_tables(bench, measure_all):
    rows = measure_all(fake)
    table, ratios = bench.table(rows), bench.ratio_table(bench.ratios(rows))
    head, *lines = table.split("\n")
    assert head.split()[-6:] == ["1,024", "2,048", "4,096", "8,192", "16,384", "32,768"]
    assert len(lines) == 2 * (3 * len(bench.ATTENTION) + len(bench.TURNING))
    (line,) = (line for line in lines if line.startswith("forward  ") and "  softmax  " in line and "  64  " in line)
    assert line.split()[3] == "1.000" and line.split()[4] == "(0.900-1.100)"
    assert "MemoryError: too large" in table
    assert "1.50   1.0    met" in ratios and "MISSED" not in ratios


def test_an_interrupted_run_goes_on(bench, tmp_path):
    part, cells, asked = tmp_path / "x.part", [c for c in bench.cells() if c[1] == "softmax"], []

    def interrupted(cell):
        if len(asked) == 5:
            raise KeyboardInterrupt
        asked.append(cell)
        return {"error": "RuntimeError: once"} if len(asked) == 2 else fake(cell)

    with pytest.raises(KeyboardInterrupt):
        bench.measure_all(cells, {"a": [1]}, part, measure=interrupted)
    assert len(json.loads(part.read_text())["cells"]) == 5

    again = []
    rows = bench.measure_all(cells, {"a": [1]}, part, measure=lambda cell: again.append(cell) or fake(cell))
    assert sorted(again) == sorted([asked[1], *cells[5:]])  # what failed is tried again
    assert {tuple(row[:4]) for row in rows} == set(cells) and len(rows) == len(cells)
    with pytest.raises(SystemExit, match="other settings"):
        bench.measure_all(cells, {"a": [2]}, part, measure=fake)


def test_the_benchmark_says_what_it_needs(bench, monkeypatch):
    monkeypatch.setattr(bench.torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    for arguments in ([], ["--smoke"]):
        with pytest.raises(SystemExit, match="CUDA"):
            bench.main(arguments)
    with pytest.raises(SystemExit, match="2"):
        bench.parse(["--budget", "short"])
    assert bench.slug("NVIDIA H200") == "h200" and bench.slug("NVIDIA GeForce RTX 4090") == "geforce_rtx_4090"


@pytest.fixture
def pretended(bench, tmp_path, monkeypatch):
    """A GPU that is not there: `fake` measures, nothing is held against the reference; results go to a folder."""
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    monkeypatch.setattr(bench.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(bench.torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(bench.torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    monkeypatch.setattr(bench.torch.cuda, "get_device_capability", lambda *_: (9, 0))
    monkeypatch.setattr(bench, "measure_all", functools.partial(bench.measure_all, measure=fake))
    if importlib.util.find_spec("triton") is None:
        monkeypatch.setitem(sys.modules, "triton", types.SimpleNamespace(__version__="0"))
    monkeypatch.setattr("importlib.resources.files", lambda package: tmp_path / "results")


def ended(bench, *arguments):
    """What `main` says to the shell as it ends."""
    with pytest.raises(SystemExit) as end:
        bench.main(list(arguments))
    return end.value.code


def test_the_benchmark_writes_results_that_load(bench, tmp_path, monkeypatch, pretended):
    monkeypatch.setattr(sys, "argv", ["benchmarks/kernels.py"])
    assert ended(bench) == 0
    assert [file.name for file in (tmp_path / "results").iterdir()] == ["kernels_h200.json"]
    results = load_results("kernels_h200")
    assert results["name"] == "kernels_h200" and "NVIDIA H200" in results["machine"]
    assert len(results["cells"]) == len(bench.cells()) and not results["not_run"]


@needs_triton
def test_smoke_covers_every_shipped_tile(bench, pretended):
    """On an H200: every kernel in every dtype by its own tiles, and by all others that ship."""
    cases = bench.cases()
    assert len(cases) == len(set(cases))
    own = {case[:3] for case in cases if case[3] == bench.OWN}
    names = {f"{family}: {variant}" for family, variants in bench.FAMILIES.items() for variant in variants}
    assert own >= {(n, d, h) for n in names for d in report.DTYPES for h in report.HEAD_SIZES}
    held = {
        (case[0], *case[1:3], bench.shipped(*case[:1], "9.0", *case[1:3])) for case in cases if case[3] == bench.OWN
    }
    for name, dtype, head_dim, cut in cases:
        if cut.startswith("tiles of"):
            held.add((name, dtype, head_dim, bench.shipped(name, cut.removeprefix("tiles of "), dtype, head_dim)))
    for name in ("softmax: plain", "softmax: table", "stickbreaking: plain", "cope: plain", "rotary: half"):
        for dtype in ("float16", "float32"):
            for chip in report.CHIPS:
                for head_dim in report.HEAD_SIZES:
                    assert (name, dtype, head_dim, bench.shipped(name, chip, dtype, head_dim)) in held
    assert {case[3] for case in cases if case[0] == "stickbreaking: plain"} >= {bench.OWN, bench.PRODUCT}


def test_smoke_lists_what_its_budget_left_out(bench, tmp_path, monkeypatch, pretended, capsys):
    """With no budget nothing is run, and all is said; with one, all is."""
    held = []
    monkeypatch.setattr(bench, "cases", lambda: [("softmax: plain", "float16", 64, bench.OWN)])
    monkeypatch.setattr(bench, "check_case", lambda case: held.append(case) or {"share": 0.5})
    monkeypatch.setattr(bench, "isolated", bench.check_group)
    assert ended(bench, "--smoke", "--budget", "0") == 0 and not held
    results = load_results("kernels_smoke_h200")
    assert results["checks"] == [["softmax: plain", "float16", 64, bench.OWN, {"not run": "no time left"}]]
    assert [tuple(cell) for cell in results["not_run"]] == bench.smoke_cells() and not results["cells"]
    assert capsys.readouterr().out.count("not run: ") == len(bench.smoke_cells())

    assert ended(bench, "--smoke") == 0 and len(held) == 1
    results = load_results("kernels_smoke_h200")
    assert len(results["cells"]) == len(bench.smoke_cells()) and not results["not_run"]
    assert results["constructions"] == {"scan": "not run", "product": "not run"}
    assert results["command"].startswith("python ") and results["commit"] and "torch" in results["versions"]


@needs_triton
@pytest.mark.skipif(torch.cuda.is_available(), reason="interprets")
def test_smoke_holds_kernels_against_the_reference_and_times_nothing_without_a_gpu(bench, monkeypatch, capsys):
    """Once as they are; then with a planted error, in a variant and in the sums along the stick."""
    from posenc.kernels import stickbreaking, variants

    few = [("softmax: linear", "float32", 16, bench.OWN), ("stickbreaking: plain", "float32", 16, bench.OWN)]
    few += [("stickbreaking: plain", "float32", 16, bench.PRODUCT)]
    assert set(few) <= set(bench.cases())
    monkeypatch.setattr(bench, "cases", lambda: few)
    assert ended(bench, "--smoke") == 0
    out = capsys.readouterr().out
    assert "no speed is measured without a GPU" in out and "WRONG" not in out
    assert "by scan: agrees" in out and "by product: agrees" in out

    wrong = variants.VARIANTS["linear"]._replace(grad=variants.plain_grad)  # a slope's gradient without the distance
    monkeypatch.setitem(variants.VARIANTS, "linear", wrong)
    real = stickbreaking.tl.cumsum
    monkeypatch.setattr(stickbreaking.tl, "cumsum", lambda x, axis, reverse=False: real(x, axis))  # a scan's known bug
    said = ended(bench, "--smoke")
    assert isinstance(said, str) and said.count("failed: ") == 2 and "linear" in said  # which exits with 1
    out = capsys.readouterr().out
    assert out.count("WRONG") == 2 and "by scan: differs" in out and "by product: agrees" in out


@needs_triton
@pytest.mark.weekly
@pytest.mark.skipif(torch.cuda.is_available(), reason="interprets")
def test_smoke_runs_from_the_shell():
    command = [sys.executable, ROOT / "benchmarks" / "kernels.py", "--smoke"]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    assert "no speed is measured without a GPU" in run.stdout and "by product: agrees" in run.stdout


def crash(case):
    os._exit(3)


def test_a_process_that_crashes_takes_only_its_own_cases(bench, monkeypatch):
    """As a kernel may that writes where it may not."""
    if sys.platform != "linux":
        pytest.skip("forks, as a module of tests is no script")
    context = bench.multiprocessing.get_context("fork")
    monkeypatch.setattr(bench.multiprocessing, "get_context", lambda _: context)
    monkeypatch.setitem(sys.modules, bench.__name__, bench)
    case = ("rotary: half", "float16", 64, bench.OWN)
    monkeypatch.setattr(bench, "check_case", lambda case: {"share": 0.5})
    assert bench.isolated([case], bench.time.time() + 60) == [[*case, {"share": 0.5}]]
    monkeypatch.setattr(bench, "check_case", crash)
    (row,) = bench.isolated([case], bench.time.time() + 60)
    assert "its process" in row[4]["error"] and bench.is_wrong(row[4])
