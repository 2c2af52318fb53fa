r"""What the two pages on kernels compute behind their prose, and how their cells run where there is no Triton."""

import ast
import contextlib
import functools
import importlib.util
import tempfile
from pathlib import Path

import torch

import posenc
from posenc.errors import check_choice
from posenc.lab.experiments import load_results
from posenc.lab.experiments.plots import name_lines
from posenc.lab.pages import finish
from posenc.lab.write import table

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
HEAD = (  # of a table of compiled kernels
    *("kernel", "variant", "pass", "dtype", "head size", "tile", "warps, stages"),
    *("shared", "registers", "spilled", "tensor cores"),
)
MARK = "# needs Triton: "  # a cell that begins so needs it; its name follows
MARKS = {"rotary": 0.75, "three steps, D = 64": 32, "tiles, b = 64": 64, "tiles, b = 128": 128, "tiles, b = 256": 256}
STYLES = (("#6b7280", ":"), ("#0072b2", "-"), ("#c45500", "--"), ("#a8468a", "-."))
FORWARD, BOTH = "forward", "forward and backward"
T4_PLAIN = 8.1  # trillion operations a second without tensor cores
WITHOUT_BIAS = ("interleaved", "half", "gain and band", "axial", "M-RoPE", "mixed", "plain")  # variants of the families


def has_triton() -> bool:
    r"""Is Triton here? It is published for Linux only."""
    return importlib.util.find_spec("triton") is not None


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

    if not has_triton():
        get_ipython().input_transformers_cleanup.append(or_frozen)


@functools.cache
def functions(file: str) -> dict[str, ast.FunctionDef]:
    r"""Functions of a file of kernels, by name."""
    tree = ast.parse((Path(posenc.__file__).parent / "kernels" / file).read_text("utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


ONCE_A_ROW = ("shrink",)  # what kernels compute for each query or key of a tile, not for each pair


@functools.cache
def calls(file: str, function: str) -> tuple[str, ...]:
    r"""What a kernel calls in its source, with the calls of the jitted functions it calls in their place.

    Left out is what is computed once a row. Errors: KeyError where the file has no such function.
    """
    found = []
    for node in pairwise(functions(file)[function]):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            home = next((home for home in (file, "softmax.py") if name in functions(home)), None)
            found += (name,) if home is None else (name, *calls(home, name))
    return tuple(found)


def products(file: str, function: str) -> int:
    r"""How many matrix products a kernel computes for each tile: the calls of tl.dot that it reaches.

    Errors: KeyError where the file has no such function.
    """
    return calls(file, function).count("tl.dot")


def pairwise(node: ast.AST):
    r"""The nodes below, without statements that assign what is one number a row."""
    for child in ast.iter_child_nodes(node):
        targets = [ast.unparse(target) for target in getattr(child, "targets", ())]
        if not set(targets) & set(ONCE_A_ROW):
            yield child
            yield from pairwise(child)


def steps(statement: ast.stmt) -> int:
    r"""Operations of a statement on a tile: sums, products, comparisons and calls of Triton, each one a pair."""
    kinds = (ast.BinOp, ast.Compare, ast.Call, ast.AugAssign)
    return sum(isinstance(node, kinds) for node in ast.walk(statement))


def lookup_steps() -> dict[str, int]:
    r"""Operations that one position of CoPE's table costs a pair: of the hat, of the slope, of the table's gradient."""
    (looked_up,) = (node for node in ast.walk(functions("cope.py")["lookup"]) if isinstance(node, ast.For))
    (gathered,) = (node for node in ast.walk(functions("cope.py")["backward_q_kernel"]) if loops_over_positions(node))
    found = {}
    for statement in (*looked_up.body, *gathered.body):
        words = ast.unparse(getattr(statement, "target", getattr(statement, "targets", [statement])[0]))
        found[words] = steps(statement)
    return {"hat": found["away"] + found["value"], "slope": found["slope"], "table": found["more"]}


def loops_over_positions(node: ast.AST) -> bool:
    r"""Is it a loop over the positions of CoPE's table?"""
    return isinstance(node, ast.For) and ast.unparse(node.iter) == "range(positions)"


def contextual_work(positions: int, head_dim: int) -> dict[str, dict[str, dict[str, int]]]:
    r"""What one pair of a query and a key costs CoPE's kernels and the plain softmax's, by count of their source.

    Arguments: positions: P, rows of CoPE's table. head_dim: D, of q, k and v.
    Returns: {"softmax", "CoPE": {"forward", "backward": counts}}; products: operations of matrix products, 2 D each;
        exponentials; lookup: operations on the positions, on which a slope counts only where a gradient reads it. What
        both do alike beside the products (mask, largest, sum) is left out, and CoPE's running sum of gates.
    """
    each = lookup_steps()
    work = {}
    for name, file in (("softmax", "softmax.py"), ("CoPE", "cope.py")):
        work[name] = {}
        for direction, kernels in (("forward", ("forward",)), ("backward", ("backward_q", "backward_kv"))):
            made = [call for kernel in kernels for call in calls(file, f"{kernel}_kernel")]
            own = [node for kernel in kernels for node in ast.walk(functions(file)[f"{kernel}_kernel"])]
            lookup = made.count("lookup") * each["hat"] + made.count("grad_scores") * each["slope"]
            work[name][direction] = {
                "products": 2 * head_dim * made.count("tl.dot"),
                "exponentials": made.count("tl.exp") + made.count("tl.exp2"),
                "lookup": positions * (lookup + sum(map(loops_over_positions, own)) * each["table"]),
            }
    return work


def pairs_visited(length: int, block_q: int, block_k: int) -> int:
    r"""Pairs of a query and a key in the tiles that a causal kernel walks over, for one head."""
    ends = (min(start + block_q, length) for start in range(0, length, block_q))
    return sum(block_q * block_k * -(-end // block_k) for end in ends)


def tile_numbers(length: int = 128, block: int = 32) -> dict[str, str]:
    r"""Shares of what a causal kernel computes and hides, with tiles [block, block] and with tiles half as wide."""
    visible = length * (length + 1) // 2
    whole, half = (1 - visible / pairs_visited(length, b, b) for b in (block, block // 2))
    return {"wasted_whole": f"{whole:.0%}", "wasted_half": f"{half:.0%}"}


def first_numbers(heads: int, head_dim: int, scores: int, asked_for: int) -> dict[str, str]:
    r"""What the first reading counts, of bytes that the scores take and bytes that were asked for, and of tiles."""
    counted = {
        "heads": f"{heads}",
        "head_dim": f"{head_dim}",
        "scores": f"{scores / 2**30:.0f} GiB",
        "asked": f"{asked_for / 2**30:.0f} GiB",
        "ratio": f"{scores / asked_for:.0f}",
    }
    return counted | tile_numbers()


def product_numbers() -> dict[str, str]:
    r"""Matrix products of each pass."""
    forward, owns_q, owns_kv = (
        products("softmax.py", f"{name}_kernel") for name in ("forward", "backward_q", "backward_kv")
    )
    return {
        "forward": f"{forward}",
        "owns_q": f"{owns_q}",
        "owns_kv": f"{owns_kv}",
        "backward": f"{owns_q + owns_kv}",
        "one": f"{owns_q + owns_kv - 2}",  # s and dp are computed in both
        "table": f"{products('table.py', 'backward_table_kernel')}",
    }


@functools.cache
def report() -> dict:
    r"""The frozen report of compiled kernels."""
    report = load_results("kernel_report")
    return report | {"rows": [dict(zip(report["columns"], row)) for row in report["rows"]]}


def select(rows: list[dict], **columns) -> list[dict]:
    """The rows whose columns have these values; a value may be a tuple of several. `pass_` stands for "pass"."""
    choices = {name.rstrip("_"): value if isinstance(value, tuple) else (value,) for name, value in columns.items()}
    for name in choices if rows else ():
        check_choice("column", name, list(rows[0]))
    return [row for row in rows if all(row[name] in values for name, values in choices.items())]


def cells(row: dict) -> list[str]:
    """One row of the report as text, under `HEAD`."""
    block_q, block_k, warps, stages = row["tile"]
    start = [row["family"], row["variant"], row["pass"], row["dtype"], str(row["head_dim"])]
    start += [f"{block_q} x {block_k}", f"{warps}, {stages}"]
    if not row["compiles"]:
        return [*start, "does not compile", "", "", row["instructions"]]
    shared = f"{row['shared'] / KIB:.0f} of {CHIPS[row['capability']][1] // KIB} kB"
    cores = f"{row['tensor_cores']} {row['instructions']}" if row["tensor_cores"] else "no"
    return [*start, shared, str(row["registers"]), f"{row['spilled']} B" if row["spilled"] else "no", cores]


def markdown(lines) -> str:
    """A table of texts, the head first."""
    head, *rows = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head, "| " + " | ".join(["---"] * len(lines[0])) + " |", *rows])


def chip_table(rows: list[dict], hide: tuple = ()) -> str:
    r"""A Markdown table of rows of one compute capability, less the columns of `HEAD` to hide.

    Registers and spilled bytes are per thread; shared memory per block, of what the chip allows.
    """
    shown = [n for n, name in enumerate(HEAD) if name not in hide]
    return markdown([[line[n] for n in shown] for line in (HEAD, *map(cells, rows))])


def overview(rows: list[dict]) -> str:
    r"""A Markdown table with a line for each compute capability and dtype in rows: what its kernels take at most."""
    lines = [("capability", "GPUs", "dtype", "compile", "shared, at most", "spill", "tensor cores")]
    for capability, (names, limit) in CHIPS.items():
        for dtype in ("float16", "bfloat16", "float32"):
            mine = select(rows, capability=capability, dtype=dtype)
            good = [row for row in mine if row["compiles"]]
            if good:
                shared = max(row["shared"] for row in good)
                kinds = sorted({kind for row in good for kind in row["instructions"].split()})
                counts = (f"{len(good)} of {len(mine)}", f"{shared / KIB:.0f} of {limit // KIB} kB")
                spill = str(sum(row["spilled"] > 0 for row in good))
                lines.append((capability, names, dtype, *counts, spill, ", ".join(kinds) or "no"))
    return markdown(lines)


def report_overview():
    r"""The report in one table."""
    from IPython.display import Markdown

    return Markdown(overview(report()["rows"]))


def report_rows(capability: str) -> list[dict]:
    r"""Rows of the report for one generation: without a bias, in half precision, at head size 64."""
    return select(report()["rows"], capability=capability, dtype="float16", head_dim=64, variant=WITHOUT_BIAS)


def shown_rows(capability: str) -> list[dict]:
    r"""Those of `report_rows` that a table shows: one rotary kernel, with most registers, and all others."""
    rows = report_rows(capability)
    rotary = select(rows, family="rotary")
    return [max(rotary, key=lambda row: row["registers"]), *(row for row in rows if row not in rotary)]


def glue_reports() -> None:
    r"""Give the prose a table for each generation, as `k_report_7_5` and so on."""
    from IPython.display import Markdown
    from myst_nb import glue

    for capability in CHIPS:
        lines = chip_table(shown_rows(capability), hide=("dtype", "head size"))
        glue(f"k_report_{capability.replace('.', '_')}", Markdown(lines), display=False)


def report_numbers() -> dict[str, str]:
    r"""How many kernels were compiled, by which Triton, and what the rotary kernels of the tables take at most.

    Errors: AssertionError where one of these spills or uses tensor cores, or where generations have not equally many.
    """
    by_chip = [select(report_rows(capability), family="rotary") for capability in CHIPS]
    (count,) = set(map(len, by_chip))
    rows = sum(by_chip, [])
    assert not any(row["spilled"] or row["tensor_cores"] for row in rows)
    return {
        "report_triton": report()["triton"],
        "report_kernels": f"{len(report()['rows'])}",
        "report_rotary": f"{count}",
        "report_rotary_registers": f"{max(row['registers'] for row in rows)}",
        "report_rotary_shared": f"{max(row['shared'] for row in rows) / KIB:.0f}",
    }


@functools.cache
def speed() -> dict:
    r"""One run on one GPU, frozen: what was held against the reference, and milliseconds."""
    return load_results("kernels_smoke_h100_80gb_hbm3")


def speed_table():
    r"""Milliseconds of each arm that was timed at head size 64, forward and with the backward pass, by length."""
    places = [(way, length) for length in speed()["settings"]["lengths"] for way in (FORWARD, BOTH)]
    rows = {}
    for way, arm, length, head_dim, times in speed()["cells"]:
        if head_dim == 64 and (way, length) in places:
            rows.setdefault(arm, ["–"] * 4)[places.index((way, length))] = f"{times['median']:.2f}"
    head = ["arm", *(f"{way}, {length:,} tokens" for way, length in places)]
    return table(head, [[arm.replace("_", " "), *row] for arm, row in rows.items()])


def speed_numbers() -> dict[str, str]:
    r"""What the pages say of that run. Errors: AssertionError where a kernel was wrong or the words don't hold."""
    shares = [row[4]["share"] for row in speed()["checks"]]
    at = {tuple(row[:4]): row[4]["median"] for row in speed()["cells"]}
    assert max(shares) < 1  # "right"
    for size in [(length, head_dim) for length in (2048, 8192) for head_dim in (64, 128)]:
        assert all(at[way, "RoPE beforehand", *size] < at[way, "RoPE inside", *size] for way in (FORWARD, BOTH))
    flash = at[BOTH, "SDPA FLASH_ATTENTION", 8192, 64]
    ratios = {
        "plain": at[BOTH, "softmax", 8192, 64] / flash,
        "t5": at[BOTH, "T5", 8192, 64] / at[BOTH, "softmax", 8192, 64],
        "stick": at[BOTH, "stick-breaking", 8192, 64] / flash,
        "alibi": at[FORWARD, "ALiBi", 2048, 64] / at[FORWARD, "flex ALiBi", 2048, 64],
    }
    for size, name in ((64, "rotary"), (128, "rotary_128")):
        layouts = [(way, length) for way in ("half", "interleaved") for length in (2048, 8192)]
        times = [at["rotation", f"rotary {way}", n, size] / at["rotation", "copy", n, size] for way, n in layouts]
        ratios |= {f"{name}_least": min(times), f"{name}_most": max(times)}
    turns = [at[FORWARD, f"RoPE {way}", 8192, 64] for way in ("beforehand", "inside")]
    return {f"gpu_{name}": f"{value:.1f}" for name, value in ratios.items()} | {
        "gpu": speed()["settings"]["gpu"],
        "gpu_checks": f"{len(shares)}",
        "gpu_worst": f"{max(shares):.2f}",
        "gpu_at": "{heads} heads of size 64, {tokens:,} tokens".format(**speed()["settings"]),
        "gpu_long": f"{8192:,}",
        "gpu_turns": "{:.2f} and {:.2f} ms".format(*turns),
    }


def roofline_figure(gpus: dict[str, tuple[float, float]]):
    r"""What arithmetic and memory allow. Arguments: gpus: {name: (operations a second, bytes a second)}."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(4.4, 3.4), layout="constrained")
    intensity = [2 ** (n / 8) for n in range(-16, 89)]
    for (name, (peak, bandwidth)), (color, dash) in zip(gpus.items(), STYLES, strict=True):
        roof = [min(peak, x * bandwidth) / 1e12 for x in intensity]
        axes.loglog(intensity, roof, label=name, color=color, ls=dash, lw=2)
    for (words, x), foot in zip(MARKS.items(), (0.02, 0.02, 0.11, 0.2, 0.29), strict=True):  # no name over a line
        axes.axvline(x, foot, color="#9ca3af", lw=1)
        axes.annotate(words, (x, foot), (3, 0), axes.get_xaxis_transform(), textcoords="offset points")
    axes.set(xlabel="operations a byte", ylabel="trillion operations a second, at most", ylim=(0.01, 3000))
    name_lines(axes)
    return finish(figure)


def ridge_numbers(gpus: dict[str, tuple[float, float]]) -> dict[str, str]:
    r"""Where the rooflines bend, in operations a byte.

    Errors: AssertionError where a ridge is not right of tiles of 128 queries, as the prose says.
    """
    ridges = [peak / bandwidth for peak, bandwidth in gpus.values()]
    assert min(ridges) > MARKS["tiles, b = 128"], ridges
    return {
        "low_ridge": f"{min(ridges):.0f}",
        "high_ridge": f"{max(ridges):.0f}",
        "t4_plain": f"{T4_PLAIN}",
        "t4_ridge": f"{T4_PLAIN * 1e12 / gpus['T4'][1]:.0f}",
    }


# ------------------------------------------------------------------------------------------------------- first reading

SIDE, TILE, LEFT = 12, 3, 6  # of the drawn matrix, of a tile, of the tile that is held


def idea_figure():
    r"""What stands in memory: all scores with three kernels, one tile with one."""
    import matplotlib.pyplot as plt
    from matplotlib.patches import Rectangle

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


def plain(q, k, v):
    r"""Attention as the formula has it, causal, every score at once: q, k, v [..., T, D]."""
    hidden = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).triu(1)
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(hidden, -torch.inf)
    return scores.softmax(-1) @ v


#: Mistakes in one line of the softmax kernels: words -> (the line's right part, what a wrong kernel has there).
BREAKS = {
    "as it is": ("", ""),
    "no factor r before a": ("acc * shrink[:, None]", "acc"),
    "later keys not hidden": ('s = tl.where(ok, s, float("-inf"))', "s = tl.where(ok, s, s)"),
    "a term left out backward": (" - dot[:, None])", ")"),
}


@contextlib.contextmanager
def broken(right, wrong):
    r"""The module of the softmax kernels, with `wrong` wherever its source has `right`.

    Errors: ValueError where the source has no such part.
    """
    source = (Path(posenc.__file__).parent / "kernels" / "softmax.py").read_text("utf-8")
    if right not in source:
        raise ValueError(f"the softmax kernels have no {right!r}")
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
            out = kernels.attend(*x, scale=0.25, tile=(64, 64, 4, 1)) if ours else plain(*x)
            results.append((out, *torch.autograd.grad(out, x, dout)))
    return [(a - b).abs().max().item() for a, b in zip(*results)]


def print_verdict():
    r"""Print what the test says of the kernel and of three broken ones, at 64 and at 256 tokens."""
    lengths = (64, 256)
    print(f"{'largest error at':26}" + "".join(f"{tokens:13} tokens" for tokens in lengths))
    print(f"{'':26}" + "    output  gradients" * len(lengths))
    found = {}
    for words, change in BREAKS.items():
        errors = found[words] = [verdict_errors(tokens, *change) for tokens in lengths]
        print(f"{words:26}" + "".join(f"{output:10.0e}{max(gradients):11.0e}" for output, *gradients in errors))
    (right, right_long), (forgotten, forgotten_long), (unmasked, _), (backward, _) = found.values()
    assert max(right + right_long + forgotten) < 1e-5 < 0.1 < min(forgotten_long[0], *unmasked), "as the page says"
    assert max(backward[0], backward[3]) < 1e-5 < 0.1 < min(backward[1:3]), "in the gradients alone"
