r"""A bibliography whose labels read as the citations do: Press et al., 2022."""

import functools
import re
from collections import Counter

import pybtex.plugin
from pybtex.style.formatting.plain import Style
from pybtex.style.labels import BaseLabelStyle


def names(entry) -> str:
    r"""Family names of up to two authors, or the first and "et al."; a group is written out."""
    authors = entry.persons.get("author") or entry.persons["editor"]
    people = [re.sub("[{}]", "", " ".join(map(str, person.rich_last_names))) for person in authors]
    return people[0] + " et al." if len(people) > 2 else " and ".join(people)


class AuthorYearLabels(BaseLabelStyle):
    r"""Names and year; a letter where two entries would read alike."""

    def format_labels(self, sorted_entries):
        labels = [f"{names(entry)}, {entry.fields.get('year', 'undated')}" for entry in sorted_entries]
        times, seen = Counter(labels), Counter()
        for label in labels:
            seen[label] += 1
            yield label + ("abcdefghijklmnopqrstuvwxyz"[seen[label] - 1] if times[label] > 1 else "")


class BookStyle(Style):
    default_label_style = AuthorYearLabels


def setup(app):
    pybtex.plugin.register_plugin("pybtex.style.formatting", "book", BookStyle)
    # It asks each installed package for its plugins at each citation: 16 ms, some thousand times.
    pybtex.plugin.find_plugin = functools.cache(pybtex.plugin.find_plugin)
