"""Adding a method is its files and one row: a toy row is seen by everything that lists methods, and nothing else is."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import toy_method
from hypothesis import find

import posenc
from posenc.lab.experiments import plots
from posenc.lab.pages import compare
from posenc.lab.train import encoding_maker, settings_for

ROOT = Path(__file__).parents[1]
ROW = posenc.METHODS.pop("toy")  # the import above added it, as the plugin does


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setitem(posenc.METHODS, "toy", ROW)


@pytest.mark.weekly
def test_the_tests_for_all_methods_run_on_it():
    """Invariants and audit take it and its variant from the row; the files that it lacks are named."""
    files = ["tests/test_methods.py", "tests/test_audit.py", "tests/test_package.py"]
    command = [sys.executable, "-m", "pytest", "-v", "-p", "toy_method", "-p", "no:cacheprovider", "-k", "toy", *files]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    passed = re.findall(r"(\S+)::(\S+) PASSED", output)
    for file in files[:2]:
        assert [name for path, name in passed if path == file], output[-3000:]
    assert any("toy-loud" in name for _, name in passed)
    failed = re.findall(r"(\S+) FAILED +\[", output)
    assert failed == ["tests/test_package.py::test_same_name_same_method[toy]"], output[-3000:]


def test_the_drawn_properties_draw_it(toy):
    properties = runpy.run_path(str(ROOT / "tests" / "test_properties.py"))
    assert "toy" in properties["IN_ATTENTION"]
    drawn = properties["options"]("toy", 2, 4)
    assert find(drawn, lambda options: "rate" in options) == {"num_heads": 2, "rate": 2.0}


def test_the_package_knows_it(toy):
    encoding = posenc.make("toy", num_heads=2)
    assert posenc.audit.audit(encoding).failures == ("unseen",)
    with pytest.raises(ValueError, match="Did you mean 'toy'"):
        posenc.make("toys")


def test_it_trains_and_plots(toy):
    assert encoding_maker("toy", settings_for("nano"))(0).places == ("bias",)
    assert plots.title("toy") == "Toy" and plots.look("toy") == {"color": "tomato", "marker": "1"}


def test_the_api_page_and_the_tables_show_it(toy, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "book" / "_ext")
    import docstrings

    monkeypatch.setattr(toy_method.toy, "__module__", "toy_method")
    source = [docstrings.MARK]
    docstrings.write_methods(None, "book/api", source)
    assert "### Toy" in source[0] and ".. autofunction:: posenc.toy.toy" in source[0]
    assert "Toy" in compare.text_table().data
