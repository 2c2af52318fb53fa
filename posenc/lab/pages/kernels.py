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
STYLES = (("#6b7280", ":"), ("#0072b2", "-"), ("#d55e00", "--"), ("#7b3294", "-."))
T4_PLAIN = 8.1  # trillion operations a second without tensor cores
WITHOUT_BIAS = ("interleaved", "half", "plain")  # variants of the families


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


def products(file: str, function: str) -> int:
    r"""How many matrix products a kernel computes for each tile: the calls of tl.dot in it and in `online`.

    Errors: KeyError where the file has no such function.
    """
    calls = [ast.unparse(node.func) for node in ast.walk(functions(file)[function]) if isinstance(node, ast.Call)]
    return calls.count("tl.dot") + (products(file, "online") if "online" in calls else 0)


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
