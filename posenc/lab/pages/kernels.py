r"""What the chapter on kernels computes behind its prose, and how its cells run where there is no Triton."""

import ast
import functools
import importlib.util
from pathlib import Path

import posenc
from posenc.lab.experiments import kernel_report, load_results
from posenc.lab.pages import finish

MARK = "# needs Triton: "  # a cell that begins so needs it; its name follows
MARKS = {"rotary": 0.75, "three steps, D = 64": 32, "tiles, b = 64": 64, "tiles, b = 128": 128, "tiles, b = 256": 256}
STYLES = (("#6b7280", ":"), ("#0072b2", "-"), ("#c45500", "--"), ("#a8468a", "-."))
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
    return kernel_report.load_report()


def report_overview():
    r"""The report in one table."""
    from IPython.display import Markdown

    return Markdown(kernel_report.overview(report()["rows"]))


def report_rows(capability: str) -> list[dict]:
    r"""Rows of the report for one generation: without a bias, in half precision, at head size 64."""
    return kernel_report.select(
        report()["rows"], capability=capability, dtype="float16", head_dim=64, variant=WITHOUT_BIAS
    )


def glue_reports() -> None:
    r"""Give the prose a table for each generation, as `k_report_7_5` and so on."""
    from IPython.display import Markdown
    from myst_nb import glue

    for capability in kernel_report.CHIPS:
        lines = kernel_report.table(report_rows(capability), hide=("dtype", "head size"))
        glue(f"k_report_{capability.replace('.', '_')}", Markdown(lines), display=False)


def report_numbers() -> dict[str, str]:
    r"""How many kernels were compiled, and by which Triton."""
    return {"report_triton": report()["triton"], "report_kernels": f"{len(report()['rows'])}"}


def roofline_figure(gpus: dict[str, tuple[float, float]]):
    r"""What arithmetic and memory allow. Arguments: gpus: {name: (operations a second, bytes a second)}."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.4))
    intensity = [2 ** (n / 8) for n in range(-16, 89)]
    for (name, (peak, bandwidth)), (color, dash) in zip(gpus.items(), STYLES, strict=True):
        roof = [min(peak, x * bandwidth) / 1e12 for x in intensity]
        axes.loglog(intensity, roof, label=name, color=color, ls=dash, lw=2)
    box = dict(facecolor="white", edgecolor="none", pad=1)
    for words, x in MARKS.items():
        axes.axvline(x, color="#9ca3af", lw=1)
        axes.text(x, 0.013, words, rotation=90, ha="center", va="bottom", fontsize=10, bbox=box)
    axes.set(xlabel="operations a byte", ylabel="trillion operations a second, at most", ylim=(0.01, 3000))
    axes.legend(loc="upper left")
    figure.tight_layout()
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
