r"""The pages on kernels: their counts from the kernels' source, their tables from the frozen report."""

import collections
import re
from pathlib import Path

import pytest
import torch

import posenc
from posenc.lab.figures import load
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


def test_what_cope_costs_grows_with_its_positions_alone():
    few, many = page.contextual_work(8, 64), page.contextual_work(16, 64)
    for direction in ("forward", "backward"):
        assert few["softmax"][direction] == many["softmax"][direction] and not few["softmax"][direction]["lookup"]
        for part in ("products", "exponentials"):
            assert few["CoPE"][direction][part] == many["CoPE"][direction][part]
        assert 2 * few["CoPE"][direction]["lookup"] == many["CoPE"][direction]["lookup"] > 0
    assert page.contextual_work(8, 128)["CoPE"]["forward"]["products"] == 2 * few["CoPE"]["forward"]["products"]
    assert page.lookup_steps() == {"hat": 6, "slope": 10, "table": 6}  # counted by hand


def test_tiles_that_a_causal_kernel_walks_over_by_hand():
    assert page.pairs_visited(1, 32, 16) == 32 * 16
    assert page.pairs_visited(70, 32, 16) == 32 * 16 * (2 + 4 + 5)
    assert page.pairs_visited(64, 16, 16) == 16 * 16 * (1 + 2 + 3 + 4)


@pytest.mark.skipif(torch.cuda.is_available(), reason="counts what the interpreter does")
@pytest.mark.parametrize("name", ["softmax", "CoPE"])
def test_kernels_do_as_many_operations_as_the_page_counts(monkeypatch, name):
    """The kernels run in the interpreter, which counts: hats by their absolute values, each number of a tile one."""
    interpreter = pytest.importorskip("triton.runtime.interpreter", reason="Triton is published for Linux only")
    from posenc.kernels import cope, softmax

    block_q, block_k, length, lanes, positions = 32, 16, 70, 16, 5
    builder, done = interpreter.InterpreterBuilder, collections.Counter()

    def counting(what):
        method = getattr(builder, what)

        def counted(self, arg, *rest):
            if what == "create_dot":
                done[what] += 2 * arg.data.size * rest[0].data.shape[1]
            elif arg.data.shape == (block_q, block_k):
                done[what] += arg.data.size
            return method(self, arg, *rest)

        monkeypatch.setattr(builder, what, counted)

    for what in ("create_dot", "create_fabs", "create_exp", "create_exp2"):
        counting(what)
    q, k, v = (torch.randn(1, 1, length, lanes, requires_grad=True) for _ in range(3))
    tile, pairs = (block_q, block_k, 4, 1), page.pairs_visited(length, block_q, block_k)
    if name == "CoPE":
        out = cope.attend(q, k, v, torch.randn(1, 1, length, positions, requires_grad=True), tile=tile)
    else:
        out = softmax.attend(q, k, v, tile=tile)
    for direction, hats in (("forward", positions), ("backward", 4 * positions)):
        if direction == "backward":
            done.clear()
            out.sum().backward()
        counted = page.contextual_work(positions, lanes)[name][direction]
        assert done["create_dot"] == pairs * counted["products"]
        assert done["create_exp"] + done["create_exp2"] == pairs * counted["exponentials"]
        assert done["create_fabs"] == (pairs * hats if name == "CoPE" else 0)
        if name == "CoPE":  # the slopes that grad_scores reads are what is left
            slopes = {"forward": 0, "backward": 2}[direction] * positions
            assert counted["lookup"] == 6 * hats + 10 * slopes


def test_the_prose_knows_the_constants_of_the_stick():
    source = (KERNELS / "stickbreaking.py").read_text("utf-8")
    assert "\nSLICE = 1024 " in source and "SPENT = tl.constexpr(-64.0)" in source


def test_a_table_shows_one_rotary_kernel_the_widest():
    for capability in page.CHIPS:
        shown, rows = page.shown_rows(capability), page.report_rows(capability)
        rotary = [row["registers"] for row in rows if row["family"] == "rotary"]
        assert [row["registers"] for row in shown if row["family"] == "rotary"] == [max(rotary)]
        assert len(shown) == len(rows) - len(rotary) + 1


def test_the_rotary_sentence_is_refused_where_one_spills(monkeypatch):
    assert page.report_numbers()["report_rotary"] == "8"
    monkeypatch.setattr(page, "report_rows", lambda capability: [dict(family="rotary", spilled=4, tensor_cores=0)])
    with pytest.raises(AssertionError):
        page.report_numbers()


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


def test_the_formula_is_pytorchs():
    q, k, v = torch.randn(3, 9, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    wanted = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
    torch.testing.assert_close(page.plain(q, k, v), wanted)


def test_the_share_of_wasted_entries_is_that_of_the_explorable():
    drawn = [load("kernels.causal_blocks").evaluate({"block_q": b, "block_k": b}) for b in (32, 16)]
    said = [f"{each['readout']['wasted']:.0%}" for each in drawn]
    assert list(page.tile_numbers().values()) == said


def test_the_times_of_a_gpu_are_those_of_its_file():
    frozen = page.speed()
    cells = [line.strip("| ").split(" | ") for line in page.speed_table().data.split("\n")[2:]]
    assert {row[0] for row in cells} == {row[1].replace("_", " ") for row in frozen["cells"] if row[0] != "rotation"}
    (stick,) = (row[4] for row in frozen["cells"] if row[:4] == [page.BOTH, "stick-breaking", 8192, 64])
    assert [row[4] for row in cells if row[0] == "stick-breaking"] == [f"{stick['median']:.2f}"]
    assert page.speed_numbers()["gpu_checks"] == f"{len(frozen['checks'])}" and "–" in cells[-1]
