r"""The chapter on kernels: its counts from the kernels' source, its tables from the frozen report."""

import re
from pathlib import Path

import pytest

import posenc
from posenc.lab.experiments import kernel_report
from posenc.lab.pages import kernels as page

KERNELS = Path(posenc.__file__).parent / "kernels"
GPUS = {
    "T4": (65e12, 320e9),
    "A100 SXM 80 GB": (312e12, 2039e9),
    "H100 SXM": (989e12, 3350e9),
    "H200": (989e12, 4800e9),
}


def test_products_are_those_of_the_source():
    kernels = ("forward", "backward_q", "backward_kv")
    assert [page.products("softmax.py", f"{name}_kernel") for name in kernels] == [2, 3, 4]
    assert page.products("table.py", "backward_table_kernel") == 2
    with pytest.raises(KeyError):
        page.products("softmax.py", "no_such_kernel")


def test_the_prose_knows_the_constants_of_the_stick():
    source = (KERNELS / "stickbreaking.py").read_text("utf-8")
    assert "\nSLICE = 1024 " in source and "SPENT = tl.constexpr(-64.0)" in source


def test_the_report_has_rows_for_every_generation_and_no_problem():
    rows = page.report()["rows"]
    assert not kernel_report.problems(rows)
    for capability in kernel_report.CHIPS:
        picked = page.report_rows(capability)
        assert picked and {(row["capability"], row["dtype"], row["head_dim"]) for row in picked} == {
            (capability, "float16", 64)
        }


def test_ridges_by_hand():
    numbers = page.ridge_numbers(GPUS)
    assert (numbers["low_ridge"], numbers["high_ridge"], numbers["t4_ridge"]) == ("153", "295", "25")
    with pytest.raises(AssertionError):
        page.ridge_numbers({"T4": (10e12, 320e9)})


def test_a_roof_is_flat_right_of_its_ridge():
    (axes,) = page.roofline_figure(GPUS).axes
    roofs = [line.get_ydata() for line in axes.lines if len(line.get_ydata()) > 2]
    assert [max(roof) for roof in roofs] == [peak / 1e12 for peak, _ in GPUS.values()]
    with pytest.raises(ValueError):
        page.roofline_figure({"T4": GPUS["T4"]})


def test_a_marked_cell_prints_what_is_frozen(capsys):
    r"""Others run as they stand."""
    assert page.or_frozen(["x = 1\n"]) == ["x = 1\n"] and page.or_frozen([]) == []
    (line,) = page.or_frozen([f"{page.MARK}tiles\n", "import triton\n"])
    exec(line, {})
    assert re.search(r"softmax .* apart", capsys.readouterr().out)
