r"""What the two pages on kernels compute behind their prose, and how their cells run where there is no Triton."""

import contextlib
import functools
import importlib.util
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from matplotlib.patches import Rectangle
from torch.nn.functional import scaled_dot_product_attention as formula

import posenc
from posenc.lab.experiments import load_results
from posenc.lab.write import finish, table

PAGES = ("kernels", "kernels_closely")
KIB = 1024
CHIPS = {  # compute capability: (GPUs that have it, shared memory that one block may ask for, in bytes)
    "7.5": ("T4", 64 * KIB),
    "8.0": ("A100", 163 * KIB),
    "8.6": ("RTX 30, A10", 99 * KIB),
    "8.9": ("RTX 40, L4", 99 * KIB),
    "9.0": ("H100, H200", 227 * KIB),
    "10.0": ("B200", 227 * KIB),
}
MARK = "# needs Triton: "  # a cell that begins so needs it; its name follows
FORWARD, BOTH = "forward", "forward and backward"
#: One run on one GPU: what was held against the reference, and milliseconds.
SPEED = load_results("kernels_smoke_h100_80gb_hbm3")


def print_frozen(name: str) -> None:
    r"""Print what a marked cell printed on Linux."""
    print(load_results("kernels_page")["outputs"][name], end="")


def or_frozen(lines: list[str]) -> list[str]:
    r"""A cell's lines, or where it is marked one line that prints what it printed on Linux."""
    if not lines or not lines[0].startswith(MARK):
        return lines
    name = lines[0].removeprefix(MARK).strip()
    return [f"from {__name__} import print_frozen; print_frozen({name!r})\n"]


def freeze_without_triton() -> None:
    r"""Where there is no Triton, let this notebook's marked cells print what is frozen."""
    from IPython import get_ipython

    if importlib.util.find_spec("triton") is None:  # it is published for Linux only
        get_ipython().input_transformers_cleanup.append(or_frozen)


HAT, SLOPE, SUM = 6, 10, 6  # operations a pair on a position of CoPE's table; SUM: of the table's gradient
#: What a kernel asks of one pair, counted in its source: matrix products, exponentials, operations on one position.
COUNTED = {
    "softmax": {"forward": (2, 1, 0), "backward": (3 + 4, 2, 0)},  # backward in two kernels
    "CoPE": {"forward": (2, 2, HAT), "backward": (5 + 4, 6, 3 * HAT + 2 * SLOPE + SUM)},
}


def contextual_work(positions: int, head_dim: int) -> dict[str, dict[str, dict[str, int]]]:
    r"""{"softmax", "CoPE": {"forward", "backward": what a pair of a query and a key costs there}}.

    Arguments: positions: P, rows of CoPE's table. head_dim: D. Counted are operations of matrix products, 2 D each,
    exponentials, and operations on the positions ("lookup"), on which a slope counts only where a gradient reads it.
    Left out is what both do alike beside the products (mask, largest, sum), and CoPE's running sum of gates.
    """
    per, names = (2 * head_dim, 1, positions), ("products", "exponentials", "lookup")
    return {
        name: {way: {what: a * b for what, a, b in zip(names, per, counts)} for way, counts in ways.items()}
        for name, ways in COUNTED.items()
    }


def pairs_visited(length: int, block_q: int, block_k: int) -> int:
    r"""Pairs of a query and a key in the tiles that a causal kernel walks over, for one head."""
    ends = (min(start + block_q, length) for start in range(0, length, block_q))
    return sum(block_q * block_k * -(-end // block_k) for end in ends)


def tile_numbers(length: int = 128, block: int = 32) -> dict[str, str]:
    r"""Shares of what a causal kernel computes and hides, with tiles [block, block] and with tiles half as wide."""
    visible = length * (length + 1) // 2
    whole, half = (1 - visible / pairs_visited(length, b, b) for b in (block, block // 2))
    return {"wasted_whole": f"{whole:.0%}", "wasted_half": f"{half:.0%}"}


@functools.cache
def report() -> list[dict]:
    r"""The rows of the frozen report of compiled kernels."""
    report = load_results("kernel_report")
    return [dict(zip(report["columns"], row)) for row in report["rows"]]


def overview(rows: list[dict]):
    r"""A Markdown table with a line for each compute capability and dtype in rows: what its kernels take at most."""
    lines = []
    for capability, (names, limit) in CHIPS.items():
        for dtype in ("float16", "bfloat16", "float32"):
            mine = [row for row in rows if (row["capability"], row["dtype"]) == (capability, dtype)]
            good = [row for row in mine if row["compiles"]]
            if good:
                shared = f"{max(row['shared'] for row in good) / KIB:.0f} of {limit / KIB:.0f} kB"
                kinds = sorted({kind for row in good for kind in row["instructions"].split()})
                spill = sum(row["spilled"] > 0 for row in good)
                compiled = f"{len(good)} of {len(mine)}"
                lines.append([capability, names, dtype, compiled, shared, spill, ", ".join(kinds) or "no"])
    return table(["capability", "GPUs", "dtype", "compile", "shared, at most", "spill", "tensor cores"], lines)


def speed_table():
    r"""Milliseconds of each arm that was timed at head size 64, forward and with the backward pass, by length."""
    places = [(way, length) for length in SPEED["settings"]["lengths"] for way in (FORWARD, BOTH)]
    rows = {}
    for way, arm, length, head_dim, times in SPEED["cells"]:
        if head_dim == 64 and (way, length) in places:
            rows.setdefault(arm, ["–"] * 4)[places.index((way, length))] = f"{times['median']:.2f}"
    head = ["arm", *(f"{way}, {length:,} tokens" for way, length in places)]
    return table(head, [[arm.replace("_", " "), *row] for arm, row in rows.items()])


def speed_numbers() -> dict[str, str]:
    r"""What the pages say of that run. Errors: AssertionError where a kernel was wrong or the words don't hold."""
    shares = [row[4]["share"] for row in SPEED["checks"]]
    at = {tuple(row[:4]): row[4]["median"] for row in SPEED["cells"]}
    assert max(shares) < 1  # "right"
    for size in [(length, head_dim) for length in (2048, 8192) for head_dim in (64, 128)]:
        assert all(at[way, "RoPE beforehand", *size] < at[way, "RoPE inside", *size] for way in (FORWARD, BOTH))
    plain, flash = at[BOTH, "softmax", 8192, 64], at[BOTH, "SDPA FLASH_ATTENTION", 8192, 64]
    ratios = {
        "plain": plain / flash,
        "t5": at[BOTH, "T5", 8192, 64] / plain,
        "stick": at[BOTH, "stick-breaking", 8192, 64] / flash,
        "alibi": at[FORWARD, "ALiBi", 2048, 64] / at[FORWARD, "flex ALiBi", 2048, 64],
    }
    for size, name in ((64, "rotary"), (128, "rotary_128")):
        layouts = [(way, length) for way in ("half", "interleaved") for length in (2048, 8192)]
        times = [at["rotation", f"rotary {way}", n, size] / at["rotation", "copy", n, size] for way, n in layouts]
        ratios |= {f"{name}_least": min(times), f"{name}_most": max(times)}
    turns = [at[FORWARD, f"RoPE {way}", 8192, 64] for way in ("beforehand", "inside")]
    return {name: f"{value:.1f}" for name, value in ratios.items()} | {
        "worst": f"{max(shares):.2f}",
        "turns": "{:.2f} and {:.2f} ms".format(*turns),
    }


# ------------------------------------------------------------------------------------------------------- first reading

SIDE, TILE, LEFT = 12, 3, 6  # of the drawn matrix, of a tile, of the tile that is held


def idea_figure():
    r"""What stands in memory: all scores with three kernels, one tile with one."""
    figure, panels = plt.subplots(1, 2, figsize=(4.4, 2.6), layout="constrained", sharey=True)
    for axes, words in zip(panels, ("three kernels: all scores", "one kernel: one tile")):
        for i in range(SIDE):
            for j in range(SIDE):
                kept = j <= i and (axes is panels[0] or (LEFT <= j < LEFT + TILE and i >= SIDE - TILE))
                look = dict(facecolor="#0072b2" if kept else "none", edgecolor="#d1d5db", linewidth=0.6)
                axes.add_patch(Rectangle((j, i), 1, 1, **look))
        axes.set(xlim=(0, SIDE), ylim=(SIDE, 0), aspect="equal", xlabel="keys", xticks=[], yticks=[], title=words)
        axes.spines[:].set_visible(True)
    top = SIDE - TILE
    for start in range(0, LEFT, TILE):
        panels[1].add_patch(Rectangle((start, top), TILE, TILE, fill=False, edgecolor="#6b7280", linewidth=1.2))
        for side in (1, -1):
            ends = (top + 0.3, top + TILE - 0.3)[::side]
            panels[1].plot((start + 0.3, start + TILE - 0.3), ends, color="#6b7280", lw=1.2)
    arrow = dict(arrowstyle="->", color="#c45500", lw=2)
    panels[1].annotate("", (SIDE - 0.2, top - 0.5), (0.2, top - 0.5), arrowprops=arrow)
    panels[0].set_ylabel("queries")
    return finish(figure)


#: Mistakes in one line of the softmax kernels: words -> (the line's right part, what a wrong kernel has there).
BREAKS = {
    "as it is": ("", ""),
    "no factor r before a": ("acc * shrink[:, None]", "acc"),
    "later keys not hidden": ('s = tl.where(ok, s, float("-inf"))', "s = tl.where(ok, s, s)"),
    "a term left out backward": (" - dot[:, None])", ")"),
}


@contextlib.contextmanager
def broken(right, wrong):
    r"""The module of the softmax kernels, with `wrong` wherever its source has `right`."""
    source = (Path(posenc.__file__).parent / "kernels" / "softmax.py").read_text("utf-8")
    assert right in source, right
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "softmax.py"
        path.write_text(source.replace(right, wrong) if right else source, "utf-8")
        spec = importlib.util.spec_from_file_location("posenc.kernels.broken", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


def verdict_errors(tokens, right="", wrong=""):
    r"""How far a softmax kernel in float32, on tiles of 64 x 64, is from the formula in float64: [output, dq, dk, dv].

    Arguments: tokens: T. right, wrong: a part of its source, and what stands there instead.
    """
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(1, 1, tokens, 16, generator=generator) for _ in range(4)]
    results = []
    with broken(right, wrong) as kernels:
        for dtype in (torch.float32, torch.float64):
            *x, dout = (tensor.to(dtype) for tensor in inputs)
            x = [tensor.requires_grad_() for tensor in x]
            ours = dtype == torch.float32
            out = kernels.attend(*x, scale=0.25, tile=(64, 64, 4, 1)) if ours else formula(*x, is_causal=True)
            results.append((out, *torch.autograd.grad(out, x, dout)))
    return [(a - b).abs().max().item() for a, b in zip(*results)]


def print_verdict():
    r"""Print what the test says of the kernel and of three broken ones, at 64 and at 128 tokens."""
    lengths = (64, 128)
    print(f"{'largest error at':26}" + "".join(f"{tokens:13} tokens" for tokens in lengths))
    print(f"{'':26}" + "    output  gradients" * len(lengths))
    found = {}
    for words, change in BREAKS.items():
        errors = found[words] = [verdict_errors(tokens, *change) for tokens in lengths]
        print(f"{words:26}" + "".join(f"{output:10.0e}{max(gradients):11.0e}" for output, *gradients in errors))
    (right, right_long), (forgotten, forgotten_long), (unmasked, _), (backward, _) = found.values()
    assert max(right + right_long + forgotten) < 1e-5 < 0.1 < min(forgotten_long[0], *unmasked), "as the page says"
    assert max(backward[0], backward[3]) < 1e-5 < 0.1 < min(backward[1:3]), "in the gradients alone"
