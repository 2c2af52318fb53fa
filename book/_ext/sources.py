r"""A number that names its source: {r}`pm(text.methods.rope.whole[:, -1])` is read from the frozen results.

The role's text is an expression over the files of results/, each by its name or an alias: what is looked up in them by
a dot or in brackets, lists as arrays, joined by arithmetic and by FUNCTIONS. The built page links the number to the
file.
"""

import functools
import re

import numpy as np
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxRole

from posenc.lab.experiments import load_results
from posenc.lab.write import ROOT, beside, interval, pm, project, typeset

#: Shorter names of files that many pages read.
ALIASES = {"text": "train_short_test_long"}
#: Besides arithmetic. dec(x, 2) is a number, or the mean of an array, with two decimals; pct(x) likewise in percent.
#: beside(report_causal, "rope", "nope", "340") is one arm less another in a test, with windows in its interval.
FUNCTIONS = {"pm": pm, "interval": interval, "mean": np.mean, "min": np.min, "max": np.max, "len": len, "abs": np.abs}
FUNCTIONS |= {
    "dec": lambda x, digits: f"{np.mean(x):.{digits}f}",
    "pct": lambda x, digits=0: f"{np.mean(x):.{digits}%}",
    "beside": lambda frozen, *which: beside(frozen._value, *which),
}


class Frozen:
    r"""A frozen result, or what stands in it: frozen.methods.rope, or frozen["methods"]["rope"]; lists are arrays."""

    def __init__(self, value, where):
        self._value, self._where = value, where

    def __getitem__(self, key):
        if not isinstance(self._value, dict) or key not in self._value:
            known = list(self._value) if isinstance(self._value, dict) else "no names"
            raise ValueError(f"{self._where} has no {key!r}; it has {known}")
        return opened(self._value[key], f"{self._where}.{key}")

    __getattr__ = __getitem__

    def __len__(self):
        return len(self._value)


def opened(value, where):
    r"""What an expression sees of a value: names to go on from, an array of numbers, or the value itself."""
    if isinstance(value, dict):
        return Frozen(value, where)
    return np.array(value) if isinstance(value, list) else value


class Files(dict):
    r"""The names that an expression may use, and which files it read."""

    def __init__(self):
        super().__init__(FUNCTIONS)
        self.read = []

    def __missing__(self, name):
        name = ALIASES.get(name, name)
        if not (ROOT / "results" / f"{name}.json").is_file():
            raise ValueError(f"{name} is neither a file of results/ nor one of {sorted(FUNCTIONS)}")
        self.read.append(name)
        return Frozen(load_results(name), name)


@functools.cache
def value_of(text: str) -> tuple[str, tuple[str, ...]]:
    r"""(the number in words, the files that it was read from). Errors: ValueError that says what is wrong."""
    files = Files()
    try:
        value = eval(text, {"__builtins__": {"__import__": __import__}}, files)  # numpy imports when first used
    except (SyntaxError, TypeError, LookupError, AttributeError) as error:
        raise ValueError(f"{{r}}`{text}`: {error}") from error
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, int | float | str) or not files.read:
        raise ValueError(f"{{r}}`{text}` is {value!r}: it must be a number or a text from a file of results/")
    return typeset(str(value)), tuple(files.read)


class NumberRole(SphinxRole):
    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        try:
            words, files = value_of(self.text)
        except ValueError as error:
            return [], [self.inliner.reporter.error(str(error), line=self.lineno)]
        for name in files:
            self.env.note_dependency(str(ROOT / "results" / f"{name}.json"))
        source = f"results/{files[0]}.json"
        address = "https://github.com/{repository}/blob/{ref}/".format(**project()) + source
        said = re.sub(r"\s+", " ", self.text)
        return [nodes.reference("", words, refuri=address, classes=["number"], reftitle=f"{source}: {said}")], []


def setup(app: Sphinx) -> None:
    app.add_role("r", NumberRole())
