"""Every number that a page's prose asks for by name is given by its module or by the page, and none in vain."""

import importlib
import re
from pathlib import Path

import myst_nb
import pytest

from posenc.lab import pages

pytestmark = pytest.mark.weekly

BOOK = Path(__file__).resolve().parents[3] / "book"


MODULES = {path.stem for path in Path(pages.__file__).parent.glob("[a-z]*.py")}


def says_all(name):
    r"""Whether the module says every number of its page but those that the page says itself, by name."""
    page = BOOK / f"{name}.md"
    has_numbers = hasattr(importlib.import_module(f"posenc.lab.pages.{name}"), "numbers")
    return has_numbers and page.exists() and "say_all(" not in page.read_text("utf-8")


@pytest.mark.parametrize("name", sorted(filter(says_all, MODULES)))
def test_prose_and_module_agree_on_names(name, monkeypatch):
    values = {}
    monkeypatch.setattr(myst_nb, "glue", lambda name, value, display: values.__setitem__(name, value))
    importlib.import_module(f"posenc.lab.pages.{name}").numbers()
    assert [key for key, value in values.items() if isinstance(value, str) and not value.strip()] == []
    text = (BOOK / f"{name}.md").read_text("utf-8")
    wanted = set(re.findall(r"\{glue:text\}`(\w+)|^`{3,}\{glue:md\} (\w+)", text, re.M))
    wanted = {inline or block for inline, block in wanted}
    given = set(values) | set(re.findall(r"^ *say\(\"(\w+)\"", text, re.M))
    assert sorted(wanted - given) == [] and sorted(given - wanted) == []
