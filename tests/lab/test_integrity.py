"""Hints for a teacher: answers that call posenc, and code that looks alike. None of them costs a point."""

import nbformat
import pytest
from lab_runs import ROOT, labs

from posenc.lab.exercises import grade, integrity

ROTATE = """
def rotate(x, positions, inv_freq):
    '''Turn.'''
    angles = positions[..., None] * inv_freq
    c, s = angles.cos(), angles.sin()
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * c - b * s, a * s + b * c), dim=-1).flatten(-2)
"""
RENAMED = ROTATE.replace("angles", "theta").replace("'''Turn.'''", "# mine\n    ").replace("a, b", "u, v")
RENAMED = RENAMED.replace("a * c - b * s, a * s + b * c", "u * c - v * s, u * s + v * c")
OTHER = """
def rotate(x, positions, inv_freq):
    out = x.clone()
    for i, w in enumerate(inv_freq):
        turn = torch.polar(torch.ones_like(positions * w), positions * w)
        pair = torch.view_as_complex(x[..., 2 * i : 2 * i + 2].contiguous()) * turn
        out[..., 2 * i : 2 * i + 2] = torch.view_as_real(pair)
    return out
"""


def answers(lab):
    notebook = labs.read(ROOT / "course" / f"{lab}.py", labs.address())
    return [cell.source for cell in notebook.cells if cell.cell_type == "code" and not labs.is_test(cell)]


@pytest.mark.parametrize("lab", [path.stem for path in labs.sources()])
def test_an_honest_lab_gives_no_hint(lab):
    assert integrity.borrowed(answers(lab), lab) == []
    assert len(integrity.tokens(answers(lab), lab)) > 50


@pytest.mark.parametrize(
    "cell",
    [
        "import posenc\ndef rotate(x, p, w):\n    return posenc.rope.rotate(x, p, w)",
        "from posenc.rotate.rope import rotate as turn\ndef rotate(x, p, w):\n    return turn(x, p, w)",
        "import posenc as pe\ndef inner(*a):\n    return pe.rope.rotate(*a)\n\ndef rotate(*a):\n    return inner(*a)",
        "import posenc\nrotate = posenc.rope.rotate",
        "def rotate(x, p, w):\n    from posenc.rope import rotate as r\n    return r(x, p, w)",
    ],
)
def test_an_answer_that_calls_posenc_is_named(cell):
    (hint,) = integrity.borrowed([cell], "rope")
    assert "rotate" in hint and "posenc" in hint


@pytest.mark.parametrize(
    "cell",
    [
        "from posenc.lab.exercises import find",
        "from posenc.lab.exercises.rope import rotate_interleaved",
        "from posenc.lab.exercises import rope as r",
        "import posenc.lab.exercises.rope as r",
    ],
)
def test_an_import_of_the_checks_is_named(cell):
    assert any("checks" in hint for hint in integrity.borrowed([cell, ROTATE], "rope"))


def test_renamed_code_is_alike_and_another_way_is_not():
    one, same, other = (integrity.tokens([text], "rope") for text in (ROTATE, RENAMED, OTHER))
    assert integrity.similarity(one, same) == 1
    assert integrity.similarity(one, other) < 0.6
    assert integrity.similarity(one, []) == 0
    words = integrity.alike({"ada": ("rope", [ROTATE]), "bob": ("rope", [RENAMED]), "eve": ("rope", [OTHER])})
    assert words.index("ada  bob") < words.index("eve") and "hint" in words
    assert "no two" in integrity.alike({"ada": ("rope", [ROTATE]), "bob": ("alibi", [""])})


def test_hints_are_printed_and_cost_no_points(tmp_path, capsys):
    cell = (
        "import posenc\ndef window(m, p):\n    from posenc.lab.exercises.alibi import window as w\n    return w(m, p)"
    )
    for name in ("ada", "bob"):
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
        nbformat.write(notebook, tmp_path / f"{name}.ipynb")
    assert grade.main([str(tmp_path), "--lab", "alibi", "--similar"]) == 0
    said = capsys.readouterr().out
    assert said.count("alibi 2/7") == 2 and "hint: the answer window uses" in said
    assert "1.00" in said and "ada.ipynb" in said.splitlines()[-1]
