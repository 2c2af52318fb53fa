r"""What each GPU gets: every kernel compiled ahead of time, on a machine without a GPU.

    make kernel-report        compile all, some minutes; print what they take and write results/kernel_report.json

Each public function is called as a user calls it, on small CPU tensors; what it would launch is compiled for each
compute capability instead of launched, and Triton's own `cuobjdump`, `nvdisasm` and `ptxas` say what came out.
Chapter: Kernels without a GPU.
"""

import os
import platform
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import record
import torch
from tqdm import tqdm

from posenc import kernels
from posenc.chapters.kernels.facts import CHIPS, overview
from posenc.errors import UnsupportedError, check_choice
from posenc.lab.experiments import commit_of, cpu_model

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
HEAD_SIZES = (64, 128)
BATCH, HEADS, LENGTH = 2, 16, 128  # multiples of 16, as in practice: Triton compiles other code for odd strides
COLUMNS = (
    *("family", "variant", "pass", "capability", "dtype", "head_dim"),
    *("tile", "compiles", "shared", "registers", "stack", "spilled", "tensor_cores", "instructions"),
    *("conversions", "atomics", "divisions", "exponentials", "narrow"),
)
KEY = COLUMNS[:6]
PER_SCORE = {  # what is counted in the loops over scores, as nvdisasm writes it
    "conversions": re.compile(r"(I2F|F2I)\.(?!F64)\S*[SU]64"),  # between 64-bit integers and floats
    "atomics": re.compile(r"(ATOM|ATOMG|ATOMS|RED|REDG)\b"),
    "divisions": re.compile(r"MUFU\.RCP"),
    "exponentials": re.compile(r"MUFU\.EX2"),
}
# As nvdisasm writes them: HMMA up to 8.9, HGMMA ("wgmma") on 9.0, UTCHMMA ("tcgen05") on 10.0.
TENSOR_CORES = re.compile(r"(HMMA|HGMMA|UTC\w*MMA)\b")
INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(\S+)([^;]*)")
LABEL = re.compile(r"^(\.L_x_\d+):")
KERNELS = Path(kernels.__file__).parent


# --------------------------------------------------------------------------------------------------- what is compiled


def rotary(q, k, v, positions, tile, variant):
    from posenc.kernels.rotary import rotate

    layout, shape, options = variant, (q.shape[3] // 2,), {}
    if variant == "gain and band":  # ExpoSB's, in its layout
        layout, band = "interleaved", torch.ones(q.shape[3])
        rates, weights = (torch.ones(HEADS, requires_grad=True) for _ in range(2))
        options = dict(rates=rates, boost=0.2, weights=weights, band=band)
    if variant in AXES:
        layout, shape = ("half" if variant == "M-RoPE" else "interleaved"), (AXES[variant], *shape)
        shape = (HEADS, *shape) if variant == "mixed" else shape
        positions = positions[:, None].expand(-1, AXES[variant]).float().contiguous()
    freqs = torch.ones(shape, requires_grad=variant == "mixed")
    turned = rotate(q, k, positions, positions, freqs, layout, tile=tile, **options)
    if options or freqs.requires_grad:  # else the backward is the forward with the sine's sign changed
        sum(x.sum() for x in turned).backward()


def given(q, positions):
    """What each variant of a score reads besides q and k, by its name."""
    where = dict(pos_q=positions, pos_k=positions)
    slope = where | dict(a=torch.ones(HEADS, requires_grad=True))
    faded = slope | dict(x=torch.ones(q.shape[:3]))
    return {
        "plain": {},
        "masked": dict(mask=torch.ones(1, 1, 1, LENGTH, dtype=torch.bool), variant="plain"),
        "linear": slope,
        "symmetric": slope,
        "table": where | dict(table=torch.ones(HEADS, 2 * LENGTH, requires_grad=True), first=-LENGTH),
        "faded": faded,
        "log_faded": faded,
        "decay": {name: torch.zeros(q.shape[:3], dtype=torch.float64, requires_grad=True) for name in "xy"},
    }


def softmax(q, k, v, positions, tile, variant):
    from posenc.kernels.softmax import attend

    turned = variant.endswith("turned inside")
    name = {"turned inside": "plain", "linear, turned inside": "linear"}.get(variant, variant)
    options = dict(variant=name) | given(q, positions)[name]
    if turned:
        options |= dict(pos_q=positions, pos_k=positions, inv_freq=torch.ones(q.shape[3] // 2))
    out = attend(q, k, v, scale=0.125, tile=tile, **options)
    if not turned:  # its backward is the plain one between two rotations
        out.sum().backward()


def stickbreaking(q, k, v, positions, tile, variant):
    from posenc.kernels.stickbreaking import attend

    options = dict(variant=variant) | given(q, positions)[variant]
    out, rest = attend(q, k, v, scale=0.125, order="recent", tile=tile, **options)
    (out.sum() + rest.sum()).backward()


def cope(q, k, v, positions, tile, variant):
    from posenc.kernels.cope import attend

    mask = given(q, positions)[variant].get("mask")
    table = torch.zeros(*q.shape[:3], 64, requires_grad=True)
    attend(q, k, v, table, scale=0.125, mask=mask, tile=tile).sum().backward()


AXES = {"axial": 2, "M-RoPE": 3, "mixed": 2}  # of the rotary kernel's variants; the frequencies of mixed are learned
CASES = {
    rotary: ("interleaved", "half", "gain and band", *AXES),
    softmax: (
        *("plain", "linear", "symmetric", "table", "faded", "log_faded", "decay", "masked"),
        *("turned inside", "linear, turned inside"),
    ),
    stickbreaking: ("plain", "linear", "symmetric", "masked"),
    cope: ("plain", "masked"),
}


# Compiled in float16 only, to keep the whole short: each adds little to another variant.
ADDED = {"symmetric", "table", "faded", "log_faded", "decay", "masked", "linear, turned inside", "gain and band", *AXES}


def jobs() -> list[tuple]:
    """(family, variant, capability, dtype, head size) of all that is compiled."""
    return [
        (call.__name__, variant, capability, dtype, head_dim)
        for capability in CHIPS
        for dtype in DTYPES
        for head_dim in HEAD_SIZES
        for call, variants in CASES.items()
        for variant in variants
        if (dtype != "bfloat16" or capability != "7.5") and (dtype == "float16" or variant not in ADDED)
    ]


# ---------------------------------------------------------------------------------------------------- how it compiles


@contextmanager
def compiling_for(capability, take, only=None):
    """Where a public function launches a kernel, compile it for this compute capability and hand it to `take`."""
    import triton
    from triton.backends.compiler import GPUTarget

    from posenc.kernels import common, cope, rotary, softmax, stickbreaking

    major, minor = (int(part) for part in capability.split("."))
    arch = 10 * major + minor

    def compile_only(kernel, blocks, times, cut, **arguments):
        name = kernel.__name__.removesuffix("_kernel")
        if only is None or name in only:
            grid = (blocks * times,)
            sizes = dict(blocks=blocks, BLOCK_Q=cut.block_q, BLOCK_K=cut.block_k)
            sizes |= dict(num_warps=cut.num_warps, num_stages=cut.num_stages)
            take(name, cut, lambda: kernel.warmup(grid=grid, **sizes, **arguments))

    driver = SimpleNamespace(
        get_current_target=lambda: GPUTarget("cuda", arch, 32),
        get_current_device=lambda: arch,  # Triton keeps what it compiled by device
        get_current_stream=lambda device: 0,
    )
    # An operator takes tensors and numbers alone, so no other launcher can be handed down to it.
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(triton.runtime.driver, "_active", driver))
        for module in (common, rotary):
            stack.enter_context(mock.patch.object(module, "check_here", lambda op, q: None))
        for module in (cope, rotary, softmax, stickbreaking):
            stack.enter_context(mock.patch.object(module, "launch", compile_only))
            stack.enter_context(mock.patch.object(module, "capability", lambda device: (major, minor)))
        yield


def tool(name, *arguments):
    """What one of Triton's own CUDA tools prints."""
    path = Path(find_spec("triton").origin).parent / "backends" / "nvidia" / "bin" / name
    return subprocess.run([path, *arguments], check=True, capture_output=True, text=True).stdout


def spilled_bytes(compiled):
    """Bytes of registers that a thread spills to memory, as `ptxas -v` counts them, under Triton's own options."""
    from triton.backends.nvidia.compiler import get_ptxas

    ptx = compiled.asm["ptx"]
    target = re.search(r"^\.target (\w+)", ptx, re.M)[1]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.ptx"
        file.write_text(ptx)
        command = [get_ptxas(compiled.metadata.target.arch).path, "-v", "-lineinfo", "--regAllocOptLevel=2"]
        command += [f"--gpu-name={target}", file, "-o", Path(folder) / "kernel.cubin"]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
    return max(int(size) for size in re.findall(r"(\d+) bytes spill", run.stdout + run.stderr))


def score_loops(sass) -> list[list[str]]:
    r"""The loops over tiles of scores, each the names of its instructions: the smallest around each exponential."""
    names, labels, loops = [], {}, []
    for line in sass.splitlines():
        if label := LABEL.match(line):
            labels[label[1]] = len(names)
        elif instruction := INSTRUCTION.match(line):
            names.append(instruction[1])
            target = re.search(r"\.L_x_\d+", instruction[2]) if instruction[1].startswith("BRA") else None
            if target and target[0] in labels:  # a branch back
                loops.append((labels[target[0]], len(names)))
    found = set()
    for at, name in enumerate(names):
        around = [(end - start, start, end) for start, end in loops if start <= at < end]
        if PER_SCORE["exponentials"].match(name) and around:
            found.add(min(around)[1:])
    return [names[start:end] for start, end in sorted(found)]


def per_score(sass, tile) -> dict[str, float | None]:
    r"""How many instructions of each kind in `PER_SCORE` one score costs, in the loop that has most; None without one.

    A kernel whose layout gives one score to two threads counts each twice, as it costs; what a branch may skip counts.
    """
    block_q, block_k, num_warps, _ = tile
    loops, scores = score_loops(sass), block_q * block_k / (32 * num_warps)  # of one thread
    return {
        kind: max((round(sum(map(bool, map(name.match, loop))) / scores, 2) for loop in loops), default=None)
        for kind, name in PER_SCORE.items()
    }


def narrow_products(ttir) -> int:
    r"""How many products of two variables that lead to an address are formed in 32 bits, where they may overflow."""
    made, found = {}, set()  # name: (where, operation, names it reads, the rest of the line)
    for at, line in enumerate(ttir.splitlines()):
        operation = re.match(r"\s*(%\w+)(?::\d+)? = \"?([\w.]+)\"?(.*?)(?: loc\(.*)?$", line)
        if not operation:
            continue
        name, kind, rest = operation.groups()
        made[name] = at, kind, re.findall(r"%\w+", rest), rest  # a name may come again, in another loop
        open_names, seen = [made[name][2][1]] if kind == "tt.addptr" else [], set()
        while open_names:
            name = open_names.pop()
            place, kind, operands, rest = made.get(name, (None, "an argument", [], ""))
            if name in seen or kind in ("tt.load", "tt.dot", "scf.for"):  # what is loaded is no index product
                continue
            seen.add(name)
            open_names += operands
            constant = any(made.get(operand, (0, ""))[1] == "arith.constant" for operand in operands)
            if kind == "arith.muli" and re.search(r"\b(?:\d+x)*i32\b", rest) and not constant:
                found.add(place)
    return len(found)


def read_compiled(compiled, tile):
    """What a compiled kernel takes: shared memory, registers, stack, spills, tensor-core and other instructions."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(compiled.asm["cubin"])
        usage = re.search(r"REG:(\d+) STACK:(\d+)", tool("cuobjdump", "-res-usage", file))
        sass = tool("nvdisasm", "-c", file)
    named = (INSTRUCTION.match(line) for line in sass.splitlines())
    cores = [core[1] for name in named if name and (core := TENSOR_CORES.match(name[1]))]
    stack = int(usage[2])
    return dict(
        compiles=True,
        shared=compiled.metadata.shared,
        registers=int(usage[1]),
        stack=stack,
        spilled=spilled_bytes(compiled) if stack else 0,  # a sine keeps a small array on the stack, which is no spill
        tensor_cores=len(cores),
        instructions=" ".join(sorted(set(cores))),
        **per_score(sass, tile),
        narrow=narrow_products(compiled.asm["ttir"]),
    )


def compile_rows(family, variant, capability, dtype, head_dim, tile=(), only=None) -> list[dict]:
    r"""Compile the kernels that one call launches: a row (a dict with the keys `COLUMNS`) for each.

    Arguments:
        family, variant, capability, dtype, head_dim: as in `jobs`.
        tile: in place of the tiles chosen for the capability.
        only: names of the passes, None for all.
    Errors: UnsupportedError where there is no Triton, or only its interpreter.
    """
    if find_spec("triton") is None:
        raise UnsupportedError("the report needs triton, published for Linux only")
    if os.environ.get("TRITON_INTERPRET") == "1":
        raise UnsupportedError("TRITON_INTERPRET=1 interprets kernels, the report compiles them: run it without")
    rows = []

    def take(name, cut, compile_it):
        row = dict.fromkeys(COLUMNS) | dict(family=family, variant=variant, capability=capability, dtype=dtype)
        row |= {"pass": name, "head_dim": head_dim, "tile": list(cut)}
        try:
            row |= read_compiled(compile_it(), cut)
        except Exception as error:  # whatever the compiler says belongs in the report
            row |= dict(compiles=False, instructions=f"{type(error).__name__}: {str(error).splitlines()[-1]}")
        rows.append(row)

    check_choice("capability", capability, CHIPS)
    calls = {(call.__name__, name): call for call, names in CASES.items() for name in names}
    shape = (BATCH, HEADS, LENGTH, head_dim)
    q, k, v = (torch.zeros(shape, dtype=DTYPES[dtype], requires_grad=True) for _ in range(3))
    with compiling_for(capability, take, only):
        calls[family, variant](q, k, v, torch.arange(LENGTH), tile, variant)
    return rows


# ------------------------------------------------------------------------------------------------------ what it says


def problems(rows: list[dict]) -> list[str]:
    r"""What is wrong with rows, a sentence each: kernels that don't compile, ask for more shared memory than the chip
    has, spill, lack tensor-core instructions, may overflow an index or convert 64-bit integers for each score.

    Only half types owe no spills (at head size 64; on 7.5 at 128 too, the table's gradient aside) and tensor cores.
    """
    faults = []
    for row in rows:
        name = " ".join(str(row[part]) for part in KEY)
        limit, half = CHIPS[row["capability"]][1], row["dtype"] != "float32"
        if not row["compiles"]:
            faults.append(f"{name} does not compile: {row['instructions']}")
            continue
        if row["shared"] > limit:
            faults.append(f"{name} asks for {row['shared']} bytes of shared memory, the chip has {limit}")
        small = row["head_dim"] == 64 or (row["capability"] == "7.5" and row["pass"] != "backward_table")
        if row["spilled"] and half and small:
            faults.append(f"{name} spills {row['spilled']} bytes a thread")
        if not row["tensor_cores"] and half and row["capability"] != "7.5" and row["family"] != "rotary":
            faults.append(f"{name} has no tensor-core instruction")
        if row["narrow"]:
            faults.append(f"{name} forms {row['narrow']} index products in 32 bits, which overflow in large tensors")
        if row["conversions"] and row["pass"] != "backward_table":  # which counts in whole numbers, to have one sum
            faults.append(f"{name} converts {row['conversions']:g} 64-bit integers a score")
    return faults


def main():
    record.asked(__doc__)
    todo = jobs()
    with ProcessPoolExecutor(initializer=torch.set_num_threads, initargs=(1,)) as pool:
        made = tqdm(pool.map(compile_rows, *zip(*todo)), total=len(todo), desc="compiling")
        rows = [row for found in made for row in found]
    keys = [tuple(row[part] for part in KEY) for row in rows]
    if len(set(keys)) < len(keys):
        raise RuntimeError(f"kernels compiled twice under one name: {sorted({k for k in keys if keys.count(k) > 1})}")
    report = {
        "name": "kernel_report",
        "question": "What does the compiler make of each kernel, for each GPU generation?",
        "command": "make kernel-report",
        "commit": commit_of(KERNELS),
        "versions": f"Python {platform.python_version()}, torch {torch.__version__}, triton {version('triton')}",
        "machine": f"{cpu_model()}, {os.cpu_count()} cores, no GPU needed",
        "settings": dict(batch=BATCH, heads=HEADS, length=LENGTH, causal=True),
        "triton": version("triton"),
        "columns": COLUMNS,
    }
    record.write(report | {"rows": [[row[name] for name in COLUMNS] for row in rows]})
    print(overview(rows).data)
    sys.exit("\n".join(problems(rows)) or 0)


if __name__ == "__main__":
    main()
