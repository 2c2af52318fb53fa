"""Every number that a page's prose asks for by name is given by the page's module, and none in vain."""

import importlib
import re
from pathlib import Path

import myst_nb
import pytest

BOOK = Path(__file__).resolve().parents[3] / "book"


@pytest.mark.parametrize("name", ["scaling", "rope", "relative"])
def test_prose_and_module_agree_on_names(name, monkeypatch):
    values = {}
    monkeypatch.setattr(myst_nb, "glue", lambda name, value, display: values.__setitem__(name, value))
    importlib.import_module(f"posenc.lab.pages.{name}").numbers()
    text = (BOOK / f"{name}.md").read_text("utf-8")
    asked = re.findall(r"\{glue:(?:text|md)?\}`(\w+)", text)
    assert sorted(set(asked) - set(values)) == [] and sorted(set(values) - set(asked)) == []
    assert [key for key, value in values.items() if not value.strip()] == []
