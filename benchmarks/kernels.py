r"""How fast are the kernels? Milliseconds and peak memory on a CUDA GPU, against what PyTorch offers.

    python benchmarks/kernels.py            lengths 1,024 to 32,768, head sizes 64 and 128, bfloat16 (half an hour)
    python benchmarks/kernels.py --smoke    two short lengths, to see that all runs

Causal, 16 heads, 32,768 tokens in all: the longer, the fewer sequences. Times are medians of `triton.testing.do_bench`
(which empties the L2 cache between calls) with the 20% and 80% quantiles; peak memory is that of one forward and
backward of one sequence, inputs and gradients included. "SDPA ..." is PyTorch's attention with that backend forced,
"flex ..." its FlexAttention, compiled, "eager ..." this package's reference, impl="torch". Prints one table and the
ratios to the targets; writes results/kernels_<GPU>.json after the last cell, and results/kernels_<GPU>.json.part after
each: started again, it goes on from there. Chapter: From formula to kernel.
"""

import argparse
import itertools
import json
import os
import platform
import re
import sys
from functools import cache, partial
from pathlib import Path

import torch
from torch.nn.functional import scaled_dot_product_attention
from tqdm import tqdm

import posenc
from posenc.lab.experiments import check_results, commit_of, cpu_model, write_json

ROOT = Path(__file__).resolve().parents[1]
HEADS, TOKENS = 16, 32768
LENGTHS = (1024, 2048, 4096, 8192, 16384, 32768)
HEAD_SIZES = (64, 128)
FORWARD, BOTH, MEMORY, ROTARY = "forward", "forward and backward", "peak memory", "rotation"
SMOKE = (256, 512)


# -------------------------------------------------------------------------------------------------- what is measured


def ours(make_encoding, q, k, v):
    return posenc.attention(q, k, v, make_encoding(q), impl="triton")


def eager(make_encoding, q, k, v):
    return posenc.attention(q, k, v, make_encoding(q), impl="torch")


def rope_inside(q, k, v):
    from posenc.kernels import softmax

    at = torch.arange(q.shape[2], device=q.device)
    inv_freq = posenc.rope.inv_freq(q.shape[3])
    return softmax.attend(q, k, v, pos_q=at, pos_k=at, inv_freq=inv_freq, scale=q.shape[3] ** -0.5)


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


def no_position(q):
    return None


def alibi(q):
    return posenc.alibi.alibi(HEADS)


@cache
def t5_on(device):
    return posenc.t5.t5(HEADS).to(device)


def t5(q):
    return t5_on(q.device)


def rope(q):
    return posenc.rope.rope(q.shape[3])


def stick(q):
    return posenc.stickbreaking.stickbreaking()


ATTENTION = {
    "softmax": partial(ours, no_position),
    "ALiBi": partial(ours, alibi),
    "T5": partial(ours, t5),
    "stick-breaking": partial(ours, stick),
    "RoPE beforehand": partial(ours, rope),
    "RoPE inside": rope_inside,
    "SDPA FLASH_ATTENTION": partial(sdpa, "FLASH_ATTENTION"),
    "SDPA CUDNN_ATTENTION": partial(sdpa, "CUDNN_ATTENTION"),
    "SDPA EFFICIENT_ATTENTION": partial(sdpa, "EFFICIENT_ATTENTION"),
    "flex softmax": partial(flex, False),
    "flex ALiBi": partial(flex, True),
    "eager softmax": partial(eager, no_position),
    "eager ALiBi": partial(eager, alibi),
    "eager stick-breaking": partial(eager, stick),
}
OURS = tuple(ATTENTION)[:6]
TURNING = ("rotary interleaved", "rotary half", "copy")


def turn(name, q, k):
    """A function that turns q and k, or copies them: the same bytes read and written."""
    if name == "copy":
        q_out, k_out = torch.empty_like(q), torch.empty_like(k)
        return lambda: (q_out.copy_(q), k_out.copy_(k))
    from posenc.kernels.rotary import rotate

    at, inv_freq = torch.arange(q.shape[2], device=q.device), posenc.rope.inv_freq(q.shape[3]).to(q.device)
    return lambda: rotate(q, k, at, at, inv_freq, name.split()[1])


def cells(lengths=LENGTHS, head_sizes=HEAD_SIZES, arms=None):
    """(what, arm, length, head size) of all that is measured, the short ones first."""
    every = [
        *itertools.product((FORWARD, BOTH, MEMORY), ATTENTION, lengths, head_sizes),
        *itertools.product((ROTARY,), TURNING, lengths, head_sizes),
    ]
    return sorted((cell for cell in every if arms is None or cell[1] in arms), key=lambda cell: cell[2])


def measure(cell):
    """Measure one cell: {"median", "low", "high"} in ms, or {"bytes"}."""
    from triton.testing import do_bench

    what, arm, length, head_dim = cell
    batch = 1 if what == MEMORY else max(1, TOKENS // length)
    generator = torch.Generator("cuda").manual_seed(0)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    q, k, v, dout = (
        torch.randn(batch, HEADS, length, head_dim, device="cuda", dtype=torch.bfloat16, generator=generator)
        for _ in range(4)
    )
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


# ----------------------------------------------------------------------------------------------- what is made of it


def measure_all(todo, settings, part, measure=measure):
    """Measure the cells that the file `part` does not hold yet, and write it after each. Returns its cells."""
    done = {"settings": settings, "cells": []}
    if part.exists():
        done = json.loads(part.read_text())
        if done["settings"] != json.loads(json.dumps(settings)):
            sys.exit(f"{part} was begun with other settings, versions or sources: go on with those or delete it")
    done["cells"] = [row for row in done["cells"] if "error" not in row[4]]  # what failed is tried again
    known = {tuple(row[:4]) for row in done["cells"]}
    for cell in tqdm([cell for cell in todo if cell not in known], desc="cells"):
        try:
            found = measure(cell)
        except Exception as error:  # out of memory, or a backend that does not serve this shape: said in the table
            found = {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"}
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        done["cells"].append([*cell, found])
        write_json(part, done)
    return done["cells"]


def speed(measured, what, slow, fast, length, head_dim):
    """How many times as fast as `slow` is `fast`? None where one of them was not measured."""
    times = [measured.get((what, arm, length, head_dim), {}).get("median") for arm in (slow, fast)]
    return None if None in times else times[0] / times[1]


def ratios(rows):
    """[target, what, length, head size, ratio, bound, met] for each target of the project that can be told."""
    measured = {tuple(row[:4]): row[4] for row in rows}
    found = []
    shapes = sorted({(length, head_dim) for _, _, length, head_dim in measured})
    for length, head_dim in shapes:
        for what in (FORWARD, BOTH):
            for arm in ("softmax", "ALiBi"):
                other = f"flex {arm}"
                ratio = speed(measured, what, other, arm, length, head_dim)
                found.append([f"{arm}: speed of {other}", what, length, head_dim, ratio, 1.0])
            ratio = speed(measured, what, "SDPA FLASH_ATTENTION", "stick-breaking", length, head_dim)
            found.append(["stick-breaking: speed of SDPA FLASH_ATTENTION", what, length, head_dim, ratio, 0.5])
        for arm in TURNING[:-1]:
            ratio = speed(measured, ROTARY, "copy", arm, length, head_dim)
            found.append([f"{arm}: bandwidth of a copy", ROTARY, length, head_dim, ratio, 0.85])
        for arm in OURS:
            own, half = (measured.get((MEMORY, arm, n, head_dim), {}).get("bytes") for n in (length, length // 2))
            if length == shapes[-1][0]:
                ratio = own / half if own and half else None
                found.append([f"{arm}: peak memory at twice the length", MEMORY, length, head_dim, ratio, 2.2])
    return [
        [*row, None if row[4] is None else bool(row[4] <= row[5] if row[1] == MEMORY else row[4] >= row[5])]
        for row in found
    ]


def shown(found):
    """What was measured in one cell, as text."""
    if "error" in found:
        return "out of memory" if "OutOfMemory" in found["error"] else found["error"][:40]
    if "bytes" in found:
        return f"{found['bytes'] / 2**20:.0f} MiB"
    return f"{found['median']:.3f} ({found['low']:.3f}-{found['high']:.3f})"


def text_table(head, lines):
    widths = [max(len(line[n]) for line in [head, *lines]) for n in range(len(head))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths)).rstrip() for line in [head, *lines])


def table(rows):
    """Everything measured as one plain-text table: a line for what, arm and head size, a column for each length."""
    measured = {tuple(row[:4]): row[4] for row in rows}
    lengths = sorted({row[2] for row in rows})
    lines = [
        [what, arm, str(head_dim), *(shown(measured.get((what, arm, n, head_dim), {"error": "-"})) for n in lengths)]
        for what, arm, head_dim in dict.fromkeys((row[0], row[1], row[3]) for row in rows)
    ]
    return text_table(["what (ms, MiB)", "arm", "head size", *(f"{n:,}" for n in lengths)], sorted(lines))


def ratio_table(found):
    """The ratios to the targets as plain text."""
    verdict = {True: "met", False: "MISSED", None: "not measured"}
    lines = [
        [target, what, f"{length:,}", str(head_dim), "-" if ratio is None else f"{ratio:.2f}", str(bound), verdict[met]]
        for target, what, length, head_dim, ratio, bound, met in found
    ]
    return text_table(["target", "what", "length", "head size", "ratio", "bound", ""], lines)


def slug(gpu):
    """The GPU's name for use in a file name: "NVIDIA H200" gives "h200"."""
    return re.sub(r"[^a-z0-9]+", "_", gpu.lower().replace("nvidia", "")).strip("_")


def provenance(gpu, settings):
    """What a reader needs to know about how the figures were made."""
    return {
        "name": f"kernels_{slug(gpu)}",
        "question": "How fast are the kernels on this GPU, and how much memory do they take?",
        "command": "python " + " ".join(sys.argv),
        "commit": settings["commit"],
        "versions": settings["versions"],
        "machine": f"{gpu}, {cpu_model()}, {os.cpu_count()} cores",
        "settings": settings,
    }


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--smoke", action="store_true", help=f"lengths {SMOKE} only; nothing is written to results/")
    parser.add_argument("--arms", nargs="+", choices=[*ATTENTION, *TURNING], help="these only; nothing is written")
    return parser.parse_args(arguments)


def main():
    chosen = parse()
    if not torch.cuda.is_available():
        sys.exit("benchmarks/kernels.py measures on a CUDA GPU, and PyTorch sees none here")
    import triton

    gpu = torch.cuda.get_device_name()
    lengths = SMOKE if chosen.smoke else LENGTHS
    settings = {
        "heads": HEADS,
        "tokens": TOKENS,
        "lengths": lengths,
        "head_sizes": HEAD_SIZES,
        "dtype": "bfloat16",
        "causal": True,
        "commit": commit_of(ROOT / "posenc", Path(__file__)),
        "gpu": gpu,
        "versions": f"Python {platform.python_version()}, torch {torch.__version__}, triton {triton.__version__}, "
        f"CUDA {torch.version.cuda}",
    }
    keep = not (chosen.smoke or chosen.arms)
    name = f"kernels_{slug(gpu)}" + ("" if keep else "_smoke" if chosen.smoke else "_some")
    part = ROOT / "results" / f"{name}.json.part"
    rows = measure_all(cells(lengths, HEAD_SIZES, chosen.arms), settings, part)
    found = ratios(rows)
    print(table(rows), "\n", ratio_table(found), sep="\n")
    if keep:
        write_json(part.with_suffix(""), check_results(provenance(gpu, settings) | {"cells": rows, "ratios": found}))
    part.unlink()
    failed = [row for row in rows if row[1] in (*OURS, *TURNING) and "error" in row[4]]
    sys.exit("\n".join(f"failed: {row}" for row in failed) if failed else 0)


if __name__ == "__main__":
    main()
