r"""Which tiles suit this GPU? Times tiles beside those that ship, and holds what each computes against them.

    python benchmarks/tiles.py      # on a CUDA GPU, about two minutes; writes results/tiles_<GPU>.json

bfloat16, causal, one sequence of 8,192 tokens, 16 heads. A forward is timed alone, a backward without its forward:
medians of `triton.testing.do_bench`. All tiles are compiled first, several at a time; then each is timed alone. "error"
is the norm of the difference to what the shipped tile gives, as a share of that. What ships is set by hand, in `tiles`
of the kernels' files. Chapter: Kernels without a GPU.
"""

import multiprocessing
import os
import platform
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from unittest import mock

import kernels as bench
import torch
from tqdm import tqdm

from posenc.kernels import softmax, stickbreaking
from posenc.kernels.common import Tile
from posenc.lab.experiments import commit_of, write_json

LENGTH = 8192
WIDE = [
    (128, 64, 8, 3),
    (128, 64, 8, 2),
    (128, 128, 8, 2),
    (64, 64, 4, 3),
    (64, 64, 4, 2),
    (128, 32, 8, 2),
    (64, 32, 4, 2),
]
DEEP = [
    (128, 64, 8, 1), (64, 64, 8, 1), (64, 64, 4, 1), (64, 64, 4, 2), (64, 64, 8, 2), (64, 128, 8, 1), (128, 64, 8, 2),
    (64, 32, 8, 1), (64, 32, 4, 1), (32, 64, 4, 1),
]  # fmt: skip
STICK = [
    (32, 32, 4, 1), (64, 32, 8, 1), (64, 32, 4, 1), (64, 64, 8, 1), (64, 64, 4, 1), (32, 64, 4, 1), (128, 32, 8, 1),
    (32, 32, 4, 2), (64, 32, 4, 2), (64, 16, 4, 1), (32, 32, 2, 1),
]  # fmt: skip
PROBLEMS = {  # (arm of kernels.py, forward or backward): (the kernels' file, tiles to try)
    ("ALiBi", "forward"): (softmax, WIDE),
    ("T5", "forward"): (softmax, WIDE),
    ("RoPE inside", "forward"): (softmax, [*WIDE[1:], (64, 64, 8, 1), (64, 32, 8, 1)]),
    ("softmax", "backward"): (softmax, DEEP),
    ("FoX", "backward"): (softmax, DEEP),
    ("T5", "backward"): (softmax, DEEP),
    ("stick-breaking", "forward"): (stickbreaking, [*WIDE[1:], (64, 64, 8, 2), (64, 32, 8, 2), (128, 32, 4, 2)]),
    ("stick-breaking", "backward"): (stickbreaking, STICK),
}


def prepared(arm, direction, head_dim, cut):
    """A function that runs the arm with these tiles, None for those that ship, and returns its tensors."""
    module, _ = PROBLEMS[arm, direction]
    shipped = module.tiles

    def chosen(*given, **more):
        pair = list(shipped(*given, **more))
        pair[direction == "backward"] = Tile(*cut)
        return tuple(pair)

    generator = torch.Generator("cuda").manual_seed(0)
    shape = (1, bench.HEADS, LENGTH, head_dim)
    q, k, v, dout = (torch.randn(shape, device="cuda", dtype=torch.bfloat16, generator=generator) for _ in range(4))
    for x in (q, k, v):
        x.requires_grad_(direction == "backward")
    patched = mock.patch.object(module, "tiles", shipped if cut is None else chosen)
    with patched:
        out = bench.ATTENTION[arm](q, k, v)

    def run():
        with patched:
            if direction == "forward":
                return (bench.ATTENTION[arm](q, k, v),)
            return torch.autograd.grad(out, (q, k, v), dout, retain_graph=True)

    return run


def compiled(task):
    """Run a task once, which leaves its kernels in Triton's cache: "" or the error."""
    try:
        prepared(*task)()
        torch.cuda.synchronize()
        return ""
    except Exception as error:  # a tile that does not fit, or that the compiler refuses
        return f"{type(error).__name__}: {str(error).strip().splitlines()[-1][:120]}"


def timed(task, expected):
    """{"ms", "error"} of a task whose kernels are compiled."""
    from triton.testing import do_bench

    run = prepared(*task)
    found = run()
    error = max(float((a.float() - b.float()).norm() / b.float().norm()) for a, b in zip(found, expected))
    return {"ms": round(do_bench(run, warmup=10, rep=60, return_mode="median"), 4), "error": round(error, 6)}


def tasks():
    """(arm, direction, head size, tile) of all that is tried, the shipped tile, None, first."""
    return [
        (*problem, head_dim, cut)
        for head_dim in bench.HEAD_SIZES
        for problem, (_, cuts) in PROBLEMS.items()
        for cut in (None, *cuts)
    ]


def compile_all():
    """Compile every task's kernels, in processes of their own: {task: what `compiled` says}."""
    workers = max(1, min(12, (os.cpu_count() or 1) - 2))
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        return dict(zip(tasks(), tqdm(pool.map(compiled, tasks()), total=len(tasks()), desc="compiled")))


def main():
    if not torch.cuda.is_available():
        sys.exit("benchmarks/tiles.py times on a CUDA GPU, and PyTorch sees none here")
    import triton

    failed, rows, expected = compile_all(), [], {}
    for task in tqdm(tasks(), desc="timed"):
        if task[3] is None and not failed[task]:
            expected[task[:3]] = [x.detach() for x in prepared(*task)()]
        if failed[task] or task[:3] not in expected:
            rows.append([*task, {"failed": failed[task] or "the shipped tile failed"}])
        else:
            rows.append([*task, timed(task, expected[task[:3]])])
    for row in rows:
        print(*row[:3], "shipped" if row[3] is None else row[3], row[4], sep="  ")
    gpu = torch.cuda.get_device_name()
    out = bench.ROOT / "results" / f"tiles_{bench.slug(gpu)}.json"
    facts = {
        "name": out.stem,
        "question": "Which tiles suit this GPU?",
        "command": "python benchmarks/tiles.py",
        "commit": commit_of(bench.ROOT / "posenc", Path(__file__)),
        "versions": f"Python {platform.python_version()}, torch {torch.__version__}, triton {triton.__version__}",
        "machine": gpu,
        "settings": {"heads": bench.HEADS, "length": LENGTH, "dtype": "bfloat16", "causal": True},
    }
    write_json(out, facts | {"rows": rows})


if __name__ == "__main__":
    main()
