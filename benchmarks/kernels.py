r"""Are the kernels right on this GPU, and how fast are they, against what PyTorch and flash-linear-attention offer?

    python benchmarks/kernels.py --smoke    all tiles against the reference, then two lengths, in under eight minutes
    python benchmarks/kernels.py            speed alone: lengths 1,024 to 32,768, head sizes 64 and 128 (half an hour)

--smoke first holds every kernel, in every dtype that the GPU has and cut by every tile that ships for any GPU, against
the reference in float64, forward and backward, at lengths that fill no block; each family in a process of its own, so
that one that crashes takes no other with it. Stick-breaking is held so twice, once for each way to sum along the stick.
Then speed, the nearest first, until --budget seconds are over. It ends with an error where a kernel is wrong or fails.
Without a GPU, but with TRITON_INTERPRET=1, a few small cases are interpreted and nothing is timed.

Speed: bfloat16, causal, 16 heads, 32,768 tokens in all: the longer, the fewer sequences. Times are medians of
`triton.testing.do_bench` (which empties the L2 cache between calls) with the 20% and 80% quantiles; peak memory is that
of one forward and backward of one sequence, inputs and gradients included. "SDPA ..." is PyTorch's attention with that
backend forced, "flex ..." its FlexAttention, compiled, "fla ..." flash-linear-attention, "eager ..." this package's
reference, impl="torch". Prints and writes results/kernels_<GPU>.json, --smoke results/kernels_smoke_<GPU>.json.
It needs torch, Triton and numpy alone. Chapter: From formula to kernel.
"""

import argparse
import importlib
import itertools
import json
import math
import multiprocessing
import os
import platform
import re
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from unittest import mock

import torch
from torch.nn.functional import logsigmoid, scaled_dot_product_attention

import posenc

ROOT = Path(__file__).resolve().parents[1]
HEADS, TOKENS = 16, 32768
LENGTHS = (1024, 2048, 4096, 8192, 16384, 32768)
HEAD_SIZES = (64, 128)
FORWARD, BOTH, MEMORY, ROTARY = "forward", "forward and backward", "peak memory", "rotation"
SMOKE = (2048, 8192)
BUDGET, SHARE = 420, 0.6  # seconds of --smoke, and what part of them may go to correctness


# -------------------------------------------------------------------------------------------------- what is measured


def rope_inside(q, k, v):
    from posenc.kernels import softmax

    at = torch.arange(q.shape[2], device=q.device)
    inv_freq = posenc.rope.inv_freq(q.shape[3])
    return softmax.attend(q, k, v, pos_q=at, pos_k=at, inv_freq=inv_freq, scale=q.shape[3] ** -0.5)


@cache
def log_gates(batch, length, device):
    """FoX's log f, [B, H, T]: gates of one half to nearly one."""
    generator = torch.Generator(device).manual_seed(1)
    return logsigmoid(torch.randn(batch, HEADS, length, device=device, generator=generator) + 3)


@cache
def t5_on(device):
    return posenc.t5.t5(HEADS).to(device)


MAKERS = {  # the encoding of each method for q
    "softmax": lambda q: None,
    "ALiBi": lambda q: posenc.alibi.alibi(HEADS),
    "T5": lambda q: t5_on(q.device),
    "FoX": lambda q: posenc.make("fox"),
    "stick-breaking": lambda q: posenc.stickbreaking.stickbreaking(),
    "RoPE": lambda q: posenc.rope.rope(q.shape[3]),
}


def ours(method, impl, q, k, v):
    gates = log_gates(q.shape[0], q.shape[2], q.device) if method == "FoX" else None
    return posenc.attention(q, k, v, MAKERS[method](q), gates=gates, impl=impl)


@cache
def fla_function(name):
    return getattr(importlib.import_module(f"fla.ops.{name}.parallel"), f"parallel_{name}")


def fla(name, q, k, v):
    given = [x.transpose(1, 2) for x in (q, k, v)]  # its layout [B, T, H, D], in which `measure` makes them
    if name == "forgetting_attn":
        given.append(log_gates(q.shape[0], q.shape[2], q.device).transpose(1, 2).contiguous())
    out = fla_function(name)(*given)
    return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)


def sdpa(backend, q, k, v):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(getattr(SDPBackend, backend)):
        return scaled_dot_product_attention(q, k, v, is_causal=True)


@cache
def compiled_flex():
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=False)


def causal(b, h, i, j):
    return i >= j


@cache
def causal_blocks(length):
    from torch.nn.attention.flex_attention import create_block_mask

    return create_block_mask(causal, None, None, length, length, device="cuda")


def flex(alibi, q, k, v):
    slopes = posenc.alibi.slopes(HEADS).to(q.device, torch.float32)

    def linear(score, b, h, i, j):
        return score - slopes[h] * (i - j)

    return compiled_flex()(q, k, v, score_mod=linear if alibi else None, block_mask=causal_blocks(q.shape[2]))


ATTENTION = {
    **{name: partial(ours, name, "triton") for name in MAKERS if name != "RoPE"},
    "RoPE beforehand": partial(ours, "RoPE", "triton"),
    "RoPE inside": rope_inside,
    **{f"SDPA {name}_ATTENTION": partial(sdpa, f"{name}_ATTENTION") for name in ("FLASH", "CUDNN", "EFFICIENT")},
    "flex softmax": partial(flex, False),
    "flex ALiBi": partial(flex, True),
    "fla FoX": partial(fla, "forgetting_attn"),
    "fla stick-breaking": partial(fla, "stickbreaking_attn"),
    **{f"eager {name}": partial(ours, name, "torch") for name in ("softmax", "ALiBi", "stick-breaking")},
}
OURS = tuple(ATTENTION)[:7]
TURNING = ("rotary interleaved", "rotary half", "copy")


def turn(name, q, k):
    """A function that turns q and k, or copies them: the same bytes read and written."""
    if name == "copy":
        q_out, k_out = torch.empty_like(q), torch.empty_like(k)
        return lambda: (q_out.copy_(q), k_out.copy_(k))
    from posenc.kernels.rotary import rotate

    at, inv_freq = torch.arange(q.shape[2], device=q.device), posenc.rope.inv_freq(q.shape[3]).to(q.device)
    return lambda: rotate(q, k, at, at, inv_freq, name.split()[1])


def cells(lengths=LENGTHS, head_sizes=HEAD_SIZES):
    """(what, arm, length, head size) of all that is measured, the short ones first."""
    every = [
        *itertools.product((FORWARD, BOTH, MEMORY), ATTENTION, lengths, head_sizes),
        *itertools.product((ROTARY,), TURNING, lengths, head_sizes),
    ]
    return sorted(every, key=lambda cell: cell[2])


def smoke_cells():
    """What --smoke measures: first what compiles in a second, then, at one head size, what tunes or compiles longer."""
    slow = ("flex", "fla")
    wanted = [cell for cell in cells(SMOKE) if cell[0] != MEMORY and not cell[1].startswith("eager")]
    wanted = [cell for cell in wanted if cell[3] == 64 or not cell[1].startswith(slow)]
    return sorted(wanted, key=lambda cell: (cell[1].startswith(slow), cell[3]))


def measure(cell):
    """Measure one cell: {"median", "low", "high"} in ms, or {"bytes"}."""
    from triton.testing import do_bench

    what, arm, length, head_dim = cell
    batch = 1 if what == MEMORY else max(1, TOKENS // length)
    generator = torch.Generator("cuda").manual_seed(0)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    shape = (batch, length, HEADS, head_dim) if arm.startswith("fla") else (batch, HEADS, length, head_dim)
    q, k, v, dout = (torch.randn(shape, device="cuda", dtype=torch.bfloat16, generator=generator) for _ in range(4))
    if arm.startswith("fla"):  # which takes heads after tokens: no copy is timed
        q, k, v, dout = (x.transpose(1, 2) for x in (q, k, v, dout))
    if what == ROTARY:
        run = turn(arm, q, k)
    else:
        for x in (q, k, v):
            x.requires_grad_(what != FORWARD)
        run = partial(ATTENTION[arm], q, k, v)
        if what != FORWARD:
            forward = run

            def run():
                return torch.autograd.grad(forward(), (q, k, v), dout)

    run()  # compiles
    if what == MEMORY:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        run()
        torch.cuda.synchronize()
        return {"bytes": torch.cuda.max_memory_allocated() - before}
    median, low, high = do_bench(run, warmup=50, rep=200, quantiles=(0.5, 0.2, 0.8))
    return {"median": median, "low": low, "high": high}


# -------------------------------------------------------------------------------------------------- what is held to be


learned_alibi = partial(posenc.make, "alibi", num_heads=4, learned=True)
exposb = partial(posenc.make, "exposb", num_heads=4, learn_rate=True)
stick_of = partial(posenc.make, "stickbreaking")
ENCODINGS = {  # family and variant: what makes it for a head size, with 4 heads of queries and 2 of keys
    "softmax: plain": lambda d: None,
    "softmax: linear": lambda d: learned_alibi(),
    "softmax: symmetric, both ways": lambda d: learned_alibi(symmetric=True),
    "softmax: table": lambda d: posenc.make("t5", num_heads=4, num_buckets=8, max_distance=40),
    "softmax: faded": lambda d: exposb(head_dim=d, rate=0.05, floor=0.4),
    "softmax: log_faded, both ways": lambda d: exposb(head_dim=d, on="log", rate=0.1, gain=False),
    "softmax: decay": lambda d: posenc.make("fox"),
    "softmax: masked": lambda d: None,
    "stickbreaking: plain": lambda d: stick_of(),
    "stickbreaking: linear": lambda d: posenc.compose(learned_alibi(), stick_of()),
    "stickbreaking: remainder": lambda d: stick_of(remainder="current"),
    "stickbreaking: first, both ways": lambda d: stick_of(order="first"),
    "stickbreaking: masked": lambda d: stick_of(),
    "cope: plain": lambda d: posenc.make("cope", head_dim=d, num_positions=24),
    "cope: masked": lambda d: posenc.make("cope", head_dim=d, num_positions=24),
    "rotary: interleaved": lambda d: posenc.make("rope", head_dim=d),
    "rotary: half": lambda d: posenc.make("rope", head_dim=d, layout="half"),
    "rotary: partial": lambda d: posenc.make("rope", head_dim=d, rotary_dim=d // 4 * 2),
    "rotary: axial, both ways": lambda d: posenc.make("rope2d", head_dim=d),
    "rotary: mixed, both ways": lambda d: posenc.make("rope2d", head_dim=d, form="mixed", num_heads=4),
}
CHIPS = ("7.5", "8.0", "8.6", "8.9", "9.0", "10.0")
OWN, PRODUCT = "own tiles", "own tiles, sums by product"


def cases():
    """(name, dtype, head size, cut) of all that is held against the reference; cut: whose tiles, and which sums."""
    if not torch.cuda.is_available():  # interpreted, where each takes seconds
        names = ("softmax: linear", "softmax: table", "stickbreaking: plain", "cope: plain", "rotary: half")
        few = [(name, dtype, 16, OWN) for name in names for dtype in ("float32", "float16")]
        few += [("stickbreaking: plain", "float32", 16, PRODUCT), ("softmax: plain", "float16", 16, "tiles of 9.0")]
        return few
    dtypes = ["float16", "float32"] + ["bfloat16"] * (torch.cuda.get_device_capability() >= (8, 0))
    plain, sticks = [n for n in ENCODINGS if n.endswith("plain")], ["stickbreaking: plain", "stickbreaking: linear"]
    found = [(*case, OWN) for case in itertools.product(ENCODINGS, dtypes, HEAD_SIZES)]
    found += [(*case, OWN) for case in itertools.product(plain, dtypes, (40, 80))]
    found += [(*case, PRODUCT) for case in itertools.product(sticks, dtypes, HEAD_SIZES)]
    own = ".".join(map(str, torch.cuda.get_device_capability()))
    names = ("softmax: plain", "softmax: table", "stickbreaking: plain", "cope: plain", "rotary: half")
    for name, dtype, head_dim in itertools.product(names, dtypes[:2], HEAD_SIZES):
        seen = [shipped(name, own, dtype, head_dim)]
        for chip in CHIPS:
            if (cut := shipped(name, chip, dtype, head_dim)) not in seen:
                seen.append(cut)
                found.append((name, dtype, head_dim, f"tiles of {chip}"))
    return found


def shipped(name, chip, dtype, head_dim):
    """The tiles that a case is cut by on a GPU of this compute capability, forward and backward."""
    family, _, variant = name.partition(": ")
    module = importlib.import_module(f"posenc.kernels.{family}")
    chip, dtype = tuple(int(part) for part in chip.split(".")), getattr(torch, dtype)
    if family == "rotary":
        return module.tiles(chip, head_dim)
    more = {"heavy": variant == "table"} if family == "softmax" else {}
    return module.tiles(chip, dtype, head_dim)[0], module.tiles(chip, dtype, head_dim, **more)[1]


def outcome(impl, name, head_dim, held, dtype, device):
    """The output of a case and every gradient, in a dtype, of inputs that the dtype `held` holds."""
    torch.manual_seed(0)  # T5 and CoPE start from random numbers
    encoding = ENCODINGS[name](head_dim)
    queries, keys = (131, 197) if device == "cuda" else (37, 50)
    generator = torch.Generator().manual_seed(0)
    shapes = [(2, 4, queries, head_dim), (2, 2, keys, head_dim), (2, 2, keys, head_dim), (2, 4, queries, head_dim)]
    drawn = [torch.randn(shape, generator=generator) for shape in shapes]
    gates = logsigmoid(torch.randn(2, 4, keys, generator=generator) + 3)
    mask = torch.rand(queries, keys, generator=generator) < 0.7 if name.endswith("masked") else None
    q, k, v, dout = (x.to(held).to(device, dtype) for x in drawn)
    inputs, more = [x.requires_grad_() for x in (q, k, v)], {}
    if name == "softmax: decay":
        inputs.append(gates.to(device, torch.promote_types(dtype, torch.float32)).requires_grad_())
        more["gates"] = inputs[-1]
    if encoding is not None:
        encoding = encoding.to(device)
        inputs += encoding.parameters()
        if encoding.axes is not None:  # rows of eight
            at = torch.arange(keys, device=device)
            at = torch.stack((at // 8, at % 8), -1).float()
            more |= dict(pos_q=at[-queries:], pos_k=at)
    mask = mask if mask is None else mask.to(device)
    causal = not name.endswith("both ways")
    out = posenc.attention(q, k, v, encoding, causal=causal, mask=mask, impl=impl, **more)
    return [x.detach().double() for x in (out, *torch.autograd.grad(out, inputs, dout))]


def check_case(case):
    """Hold one case: {"share"}, the largest error as a share of what is allowed, or {"error"} or {"left out"}.

    Allowed is twice the reference's own error in this dtype, and one more rounding; all errors are norms over a tensor.
    """
    from triton.runtime.errors import OutOfResources

    from posenc.kernels import cope, rotary, softmax, stickbreaking

    name, dtype, head_dim, cut = case
    dtype, device = getattr(torch, dtype), "cuda" if torch.cuda.is_available() else "cpu"
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(stickbreaking, "BY_PRODUCT", cut == PRODUCT))
        if cut.startswith("tiles of "):
            chip = tuple(int(part) for part in cut.removeprefix("tiles of ").split("."))
            for module in (cope, rotary, softmax, stickbreaking):
                stack.enter_context(mock.patch.object(module, "capability", lambda device: chip))
        try:
            kinds = ("torch", torch.float64), ("torch", dtype), ("triton", dtype)
            exact, eager, mine = (outcome(impl, name, head_dim, dtype, d, device) for impl, d in kinds)
        except OutOfResources as error:
            return {"error": str(error)} if cut in (OWN, PRODUCT) else {"left out": "does not fit on this GPU"}
        except Exception as error:  # whatever it says belongs in the table
            return {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[-1][:200]}"}
    shares = []
    for n, (a, b, c) in enumerate(zip(mine, eager, exact)):
        own = n > 3  # gradients of parameters: sums over all pairs, in which the reference's errors may cancel
        slack = 1e-5 if dtype == torch.float32 else (1.0 if own else 0.3) * torch.finfo(dtype).eps
        allowed = 2 * (b - c).norm() + slack * c.norm() + 1e-5 * math.sqrt(c.numel()) * (10 if own else 1)
        shares.append(float((a - c).norm() / allowed))
    worst = max(shares)
    return {"share": round(worst, 3)} if math.isfinite(worst) else {"error": "not finite"}


def check_group(group, deadline):
    """Hold cases one after the other until time.time() is past the deadline: [[*case, found], ...]."""
    return [[*case, check_case(case) if time.time() < deadline else {"not run": "no time left"}] for case in group]


def isolated(group, deadline):
    """`check_group` in a process of its own, which may crash or hang."""
    pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    try:
        return pool.submit(check_group, group, deadline).result(timeout=max(deadline - time.time(), 0) + 60)
    except Exception as error:  # of the process: a case's own error is in its row
        for process in list(pool._processes.values()):
            process.kill()
        return [[*case, {"error": f"its process: {type(error).__name__} {error}"}] for case in group]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def check_all(todo, deadline, run):
    """Hold all cases, several families and dtypes at a time: rows [*case, found]. Own tiles come first."""
    groups = {}
    for case in todo:
        groups.setdefault((case[0].partition(":")[0], case[1], case[3].startswith("tiles")), []).append(case)
    with ThreadPoolExecutor(1 if run is check_group else max(1, min(8, (os.cpu_count() or 1) // 2))) as threads:
        return [row for rows in threads.map(lambda group: run(group, deadline), groups.values()) for row in rows]


def is_wrong(found):
    """Whether a case's kernel differs from the reference by more than is allowed, or fails."""
    return "error" in found or found.get("share", 0) > 1


# ----------------------------------------------------------------------------------------------- what is made of it


def measure_all(todo, deadline):
    """[*cell, what was measured] of each cell; past the deadline, in time.time(), what is left is not run."""
    rows = []
    for cell in todo:
        if time.time() > deadline:
            break
        try:
            found = measure(cell)
        except Exception as error:  # out of memory, or a backend that does not serve this shape: said in the table
            found = {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"}
        torch.cuda.empty_cache()
        rows.append([*cell, found])
        print(rows[-1], flush=True)
    return rows


def slug(gpu):
    """The GPU's name for use in a file name: "NVIDIA H200" gives "h200"."""
    return re.sub(r"[^a-z0-9]+", "_", gpu.lower().replace("nvidia", "")).strip("_")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="correctness, then two lengths")
    parser.add_argument("--budget", type=float, default=BUDGET, help=f"seconds that --smoke may take ({BUDGET})")
    chosen, started = parser.parse_args(), time.time()
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    if gpu is None and not (chosen.smoke and os.environ.get("TRITON_INTERPRET") == "1"):
        sys.exit("kernels.py measures on a CUDA GPU, and PyTorch sees none here (--smoke: set TRITON_INTERPRET=1)")
    import triton

    checks, failed = [], []
    if chosen.smoke:
        checks = check_all(cases(), started + SHARE * chosen.budget, check_group if gpu is None else isolated)
        failed = [row for row in checks if is_wrong(row[4])]
        print(*checks, sep="\n")
    if gpu is None:
        print("no speed is measured without a GPU")
    else:
        todo = smoke_cells() if chosen.smoke else cells()
        rows = measure_all(todo, started + chosen.budget if chosen.smoke else math.inf)
        print(f"{len(todo) - len(rows)} of {len(todo)} cells were not run")
        versions = f"Python {platform.python_version()}, torch {torch.__version__}, triton {triton.__version__}"
        versions += f", CUDA {torch.version.cuda}"
        commit = subprocess.getoutput(f"git -C '{ROOT}' describe --always --dirty --abbrev=40 --exclude='*'")
        cpu = re.search(r"model name\s*:\s*(.+)|$", Path("/proc/cpuinfo").read_text())[1] or platform.machine()
        about = {"commit": commit, "versions": versions}
        settings = dict(heads=HEADS, tokens=TOKENS, lengths=SMOKE if chosen.smoke else LENGTHS, head_sizes=HEAD_SIZES)
        results = about | {
            "name": f"kernels_{'smoke_' if chosen.smoke else ''}{slug(gpu)}",
            "question": "How fast are the kernels on this GPU, and are they right there?",
            "command": "python " + " ".join(sys.argv),
            "machine": f"{gpu}, {cpu}, {os.cpu_count()} cores",
            "settings": settings | dict(dtype="bfloat16", causal=True, gpu=gpu) | about,
            "cells": rows,
            "checks": checks,
        }
        text = json.dumps(results).replace("}], [", "}],\n [")  # a row a line; `write_json` of posenc.lab freezes it
        (ROOT / "results" / f"{results['name']}.json").write_text(text + "\n")
        failed += [row for row in rows if row[1] in (*OURS, *TURNING) and "error" in row[4]]
    sys.exit("\n".join(f"failed: {row}" for row in failed) if failed else 0)


if __name__ == "__main__":
    main()
