#!/usr/bin/env python
"""Write notebooks/ from the chapters' lab.py: the labs as students open them, without solutions, hidden tests and
outputs; and the README's table of them.

python book/_tools/labs.py                write every lab (`make labs`)
python book/_tools/labs.py rope           write one
python book/_tools/labs.py --check        write nothing; exit 1 and name each lab that is out of step
python book/_tools/labs.py --points       list the graded cells and their points
python book/_tools/labs.py --course DIR   make an nbgrader course in DIR, with solutions and hidden tests
"""

import argparse
import re
import sys
import tomllib
from pathlib import Path

import jupytext
import nbformat
from nbgrader.preprocessors import CheckCellMetadata, ClearHiddenTests, ClearMarkScheme, ClearOutput, ClearSolutions

from posenc.lab import check

ROOT = Path(__file__).resolve().parents[2]

INSTALL = """\
import sys

if "google.colab" in sys.modules:  # anywhere else this cell does nothing
    # posenc, and what of its needs is not there; torch, numpy, ipywidgets and plotly stay as Colab has them
    %pip install --quiet "posenc[{extras}] @ git+https://github.com/{repository}@{ref}\""""

BADGE = "[**Open in Colab**](https://colab.research.google.com/github/{repository}/blob/{ref}/notebooks/{lab}.ipynb)"

# In a course the badge would open another notebook than the one that is collected.
HAND_IN = """\
**This is the notebook to hand in**: write into it, keep its name. In Colab: File, *Upload notebook*, and in the end
File, Download, *Download .ipynb*."""

NBGRADER_CONFIG = """\
import os

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "posenc"

# The labs train. Grading wants what they define: the smallest models, on one core, with time for a slow machine.
os.environ["POSENC_PRESET"] = "nano"
os.environ["OMP_NUM_THREADS"] = "1"
c.Execute.timeout = 600  # seconds a cell may take; nbgrader's own 30 are too few
c.Execute.startup_timeout = 120
c.OverwriteCells.add_missing_cells = True  # graded cells that a student deleted, or whose copy had none
"""


def sources(root=ROOT):
    """The labs' sources, sorted; a lab is called as its folder, book/<lab>/lab.py."""
    return sorted((root / "book").glob("*/lab.py"))


def address(root=ROOT):
    """Where the project lives, from pyproject.toml: {"repository": "owner/name", "ref": "main"}."""
    table = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["posenc"]
    return {"repository": table["repository"], "ref": table["ref"]}


def extras(source):
    """What the lab in this file needs of posenc: Triton, which a CPU machine has to fetch, where it writes kernels."""
    return "book,kernels" if "import triton" in source.read_text(encoding="utf-8") else "book"


def read(source, address, badge=BADGE):
    """The lab with its solutions and hidden tests: placeholders filled, cell ids stable."""
    notebook = jupytext.read(source, fmt="py:percent")
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    for place, fill in (("# {{install}}", INSTALL), ("{{badge}}", badge)):
        found = [cell for cell in notebook.cells if place in cell.source.splitlines()]
        if len(found) != 1:
            raise SystemExit(f"{source}: the line {place!r} must stand in exactly one cell, found {len(found)}")
        filled = fill.format(**address, lab=source.parent.name, extras=extras(source))
        found[0].source = found[0].source.replace(place, filled)
    for cell in notebook.cells:
        cell.source = re.sub(
            r"^# {{solution (\w+)}}$", lambda found: solution(source.parent.name, found[1]), cell.source
        )
    for number, cell in enumerate(notebook.cells):
        cell.id = cell.metadata.get("nbgrader", {}).get("grade_id", f"cell-{number:02}")
    return notebook


def solution(lab, name):
    """The right function of an exercise, marked so that the student gets its head and its docstring."""
    stub, body = check.text(check.find(f"{lab}.{name}").reference)
    return f"{stub}\n    ### BEGIN SOLUTION\n{body}\n    ### END SOLUTION"


def strip(notebook):
    """What the student gets, by nbgrader's own preprocessors; a graded cell that held hidden tests only goes too."""
    for preprocessor in (CheckCellMetadata, ClearSolutions, ClearOutput, ClearHiddenTests, ClearMarkScheme):
        notebook, _ = preprocessor().preprocess(notebook, {})
    notebook.cells = [cell for cell in notebook.cells if not (is_test(cell) and is_empty(cell))]
    return notebook


def is_test(cell):
    """Whether a cell holds graded tests."""
    about = cell.metadata.get("nbgrader", {})
    return cell.cell_type == "code" and about.get("grade", False) and not about.get("solution", False)


def is_empty(cell):
    """Whether nothing but comments stands in a cell."""
    return all(not line.strip() or line.lstrip().startswith("#") for line in cell.source.splitlines())


def text(notebook):
    """The notebook as the bytes of a file hold it."""
    nbformat.validate(notebook)
    return nbformat.writes(notebook, version=nbformat.NO_CONVERT) + "\n"


def points(notebook):
    """The graded cells as a list of (grade_id, points)."""
    about = [cell.metadata.get("nbgrader", {}) for cell in notebook.cells]
    return [(a["grade_id"], a["points"]) for a in about if a.get("grade", False)]


def readme(root=ROOT):
    """The README with its table of labs written anew: a row for each, in the order of the table of contents."""
    text = (root / "README.md").read_text(encoding="utf-8")
    rows = []
    for lab in re.findall(r"file: notebooks/(\w+)", (root / "_toc.yml").read_text(encoding="utf-8")):
        notebook = read(root / "book" / lab / "lab.py", address(root))
        title = notebook.cells[0].source.splitlines()[0].removeprefix("# Lab: ")
        rows.append(
            f"| {title} | {BADGE.format(**address(root), lab=lab).replace('**Open in Colab**', 'open in Colab')} |\n"
        )
    return re.sub(r"(?<=\| lab \| \|\n\|---\|---\|\n)(\|.*\n)+", "".join(rows), text)


def write_course(directory, root=ROOT, labs=None):
    """Make an nbgrader course, one assignment a lab: DIR/source/<lab>/<lab>.ipynb and nbgrader_config.py."""
    for source in labs or sources(root):
        target = directory / "source" / source.parent.name / f"{source.parent.name}.ipynb"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text(read(source, address(root), HAND_IN)), encoding="utf-8", newline="\n")
    config = directory / "nbgrader_config.py"
    if not config.exists():
        config.write_text(NBGRADER_CONFIG, encoding="utf-8", newline="\n")


def main(arguments=None, root=ROOT):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labs", nargs="*", metavar="LAB", help="names of labs; default all")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--points", action="store_true")
    parser.add_argument("--course", type=Path, metavar="DIR")
    options = parser.parse_args(arguments)

    known = {path.parent.name: path for path in sources(root)}
    unknown = [lab for lab in options.labs if lab not in known]
    if unknown:
        parser.error(f"no lab is called {unknown[0]!r}; there are {', '.join(known)}")
    chosen = [known[lab] for lab in options.labs or known]

    if options.points:
        for source in chosen:
            graded = points(read(source, address(root)))
            print(f"{source.parent.name}: {sum(p for _, p in graded)} points")
            for grade_id, value in graded:
                print(f"  {value:>3}  {grade_id}")
        return 0
    if options.course:
        write_course(options.course, root, chosen)
        print(f"wrote {options.course}: {', '.join(path.parent.name for path in chosen)}")
        return 0

    stale = []
    for source in chosen:
        target = root / "notebooks" / f"{source.parent.name}.ipynb"
        new = text(strip(read(source, address(root))))
        old = target.read_text(encoding="utf-8") if target.exists() else None
        if new == old:
            continue
        if options.check:
            state = "missing" if old is None else f"out of step with book/{source.parent.name}/lab.py"
            stale.append(f"notebooks/{target.name} is {state}; run `make labs`")
        else:
            target.parent.mkdir(exist_ok=True)
            target.write_text(new, encoding="utf-8", newline="\n")
            print(f"wrote notebooks/{target.name}")
    if not options.labs and (root / "README.md").exists() and readme(root) != (root / "README.md").read_text("utf-8"):
        if options.check:
            stale.append("README.md lists other labs; run `make labs`")
        else:
            (root / "README.md").write_text(readme(root), encoding="utf-8", newline="\n")
            print("wrote README.md")
    if not options.labs:
        for target in sorted((root / "notebooks").glob("*.ipynb")):
            if target.stem not in known:
                stale.append(f"notebooks/{target.name} has no source book/{target.stem}/lab.py")
    for line in stale:
        print(line, file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
