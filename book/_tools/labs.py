#!/usr/bin/env python
"""Write notebooks/ from the chapters' lab.py: the labs as students open them, without solutions, hidden tests and
outputs; and the README's table of them.

python book/_tools/labs.py                write every lab (`make labs`)
python book/_tools/labs.py rope           write one
python book/_tools/labs.py --check        write nothing; exit 1 and name each lab that is out of step
python book/_tools/labs.py --points       list the graded cells and their points
python book/_tools/labs.py --course DIR   make an nbgrader course in DIR, with solutions and hidden tests; what was
                                          changed there stays, exit 1, unless --force
python book/_tools/labs.py --kit DIR      move solutions and hidden tests out of a public fork, to DIR/book; with any of
                                          the above: the labs' sources are there. POSENC_KIT=DIR says it, too
"""

import argparse
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path

import jupytext
import nbformat
from nbgrader.preprocessors import CheckCellMetadata, ClearHiddenTests, ClearMarkScheme, ClearOutput, ClearSolutions

from posenc.lab import check
from posenc.lab.check import bank

ROOT = Path(__file__).resolve().parents[2]
PRIVATE = ("lab.py", "solutions.md", "exam.md")  # of a chapter, what a teacher may keep out of a public fork

INSTALL = """\
import sys

if "google.colab" in sys.modules:  # anywhere else this cell installs nothing
    # posenc, and what of its needs is not there; torch, numpy, ipywidgets and plotly stay as Colab has them
    %pip install --quiet "posenc[{extras}] @ git+https://github.com/{repository}@{ref}"
try:
    import posenc
except ImportError as error:
    words = (
        f"posenc is not installed ({{error}}). What is printed above says why. Run this cell again. "
        "Where it fails again, put one of these lines into a cell above this one, and run both.\\n"
        '%pip install "posenc[{extras}] @ https://github.com/{repository}/archive/{ref}.zip"  # where git is blocked\\n'
        "%pip install posenc-*.whl  # where GitHub is: first upload your teacher's file to the folder at the left"
    )
    raise RuntimeError(words) from None"""

# The cell after it. Without it Colab would advise to install a package of that name from elsewhere.
INSTALLED = """\
from importlib.util import find_spec

if not find_spec("posenc"):
    raise RuntimeError("posenc is not installed: the cell above says what to do")

"""

BADGE = "[**Open in Colab**](https://colab.research.google.com/github/{repository}/blob/{ref}/notebooks/{lab}.ipynb)"
SAVE = (
    "In Colab, first of all: File, *Save a copy in Drive*. Without it, what you write is gone when you close the page."
)

# In a course the badge would open another notebook than the one that is collected.
HAND_IN = """\
**This is the notebook to hand in**: write into it, keep its name. In Colab: File, *Upload notebook*, and in the end
File, Download, *Download .ipynb*."""

NBGRADER_CONFIG = """\
import os

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "posenc"

# The labs train. Grading wants what they define: the smallest models, untrained, one core, and time where it is slow.
os.environ["POSENC_PRESET"], os.environ["POSENC_STEPS"] = "nano", "0"
os.environ["OMP_NUM_THREADS"] = "1"
c.Execute.timeout = 600  # seconds a cell may take; nbgrader's own 30 are too few
c.Execute.startup_timeout = 120
c.OverwriteCells.add_missing_cells = True  # graded cells that a student deleted, or whose copy had none
"""


def sources(root=None):
    """The labs' sources, sorted, default here or in POSENC_KIT; a lab is called as its folder, book/<lab>/lab.py."""
    return sorted((Path(root or os.environ.get("POSENC_KIT") or ROOT) / "book").glob("*/lab.py"))


def address(root=ROOT):
    """Where the project lives, from pyproject.toml: {"repository": "owner/name", "ref": "main"}."""
    table = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["posenc"]
    return {"repository": table["repository"], "ref": table["ref"]}


def extras(source):
    """What the lab in this file needs of posenc: Triton, which a CPU machine has to fetch, where it writes kernels."""
    return "book,kernels" if "import triton" in source.read_text(encoding="utf-8") else "book"


def read(source, address, badge=f"{BADGE}\n\n{SAVE}"):
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
    install = next(n for n, cell in enumerate(notebook.cells) if "install" in cell.metadata.get("tags", []))
    after = next(cell for cell in notebook.cells[install + 1 :] if cell.cell_type == "code")
    after.source = INSTALLED + after.source
    notebook.cells = list(with_graded(source.parent.name, notebook.cells))
    for place, cell in enumerate(notebook.cells):
        if cell.metadata.get("nbgrader", {}).get("grade_id") == "paper":
            notebook.cells[place + 1 : place + 1] = with_numbers(source)
    for number, cell in enumerate(notebook.cells):
        cell.metadata.pop("lines_to_next_cell", None)  # jupytext's
        cell.id = cell.metadata.get("nbgrader", {}).get("grade_id", f"cell-{number:02}")
    worth = dict(points(notebook))
    for before, cell in zip(notebook.cells, notebook.cells[1:]):
        if before.cell_type == "markdown" and (value := worth.get(f"{cell.id}_test")):
            before.source += f"\n\n*Effort: {check.effort(value)}. Points: {value}.*"
    return notebook


def with_graded(lab, cells):
    """The cells of a lab: one that begins with `# {{exercise NAME}}` as two, the right function, of which the student
    gets head and docstring, and what checks it; and after each that checks an exercise the graded one, unless the lab
    writes its own."""
    own = {cell.metadata.get("nbgrader", {}).get("grade_id") for cell in cells}
    for cell in cells:
        if asked := re.match(r"# {{exercise (\w+)}}", cell.source):
            name = asked[1]
            stub, body = check.text(check.find(f"{lab}.{name}").reference)
            yield graded_cell(
                f"{stub}\n    ### BEGIN SOLUTION\n{body}\n    ### END SOLUTION", grade_id=name, solution=True
            )
            cell.source = f'{name} = check("{lab}.{name}", {name})' + cell.source[asked.end() :]
        yield cell
        for name in re.findall(rf'^\w+ = check\("{lab}\.(\w+)"', cell.source, re.MULTILINE):
            if (test := f"{name}_test") not in own:
                hidden = f'from posenc.lab.check import require\n\nrequire("{lab}.{name}")'
                hidden = f"# Graded: {name}.\n### BEGIN HIDDEN TESTS\n{hidden}\n### END HIDDEN TESTS"
                worth = check.find(f"{lab}.{name}").points
                yield graded_cell(hidden, grade=True, grade_id=test, locked=True, points=worth)


def with_numbers(source):
    """Two cells, where the exam.md beside a lab has a question for it: one that asks it, with numbers of the student's
    own and without the code of its key, and one for the answer."""
    if not source.with_name("exam.md").exists() or not (asked := bank.of_lab(source.parent.name, source.parent.parent)):
        return []
    bank.ask(asked.chapter, asked.posed)  # an error where the text itself needs that code
    code = f'''# @title On paper, too: a question with your numbers. Run this cell.
from posenc.lab.check import ask

ask(
    "{asked.chapter}",
    r"""{asked.posed}""",
)'''
    about = dict(grade=True, solution=True, grade_id="numbers", points=asked.points)
    answer = graded_cell(bank.fill(asked, 0).key, nbformat.v4.new_markdown_cell, **about)
    folded = {"cellView": "form", "jupyter": {"source_hidden": True}}
    return [nbformat.v4.new_code_cell(code, metadata=folded), answer]


def graded_cell(source, make=nbformat.v4.new_code_cell, **about):
    """A cell, of code if nothing else is said, of which nbgrader knows what stands in `about`."""
    about = {"grade": False, "locked": False, "schema_version": 3, "solution": False, "task": False} | about
    return make(source, metadata={"nbgrader": about})


def strip(notebook):
    """What the student gets, by nbgrader's own preprocessors; graded cells, which hold hidden tests alone, go, too."""
    for preprocessor in (CheckCellMetadata, ClearSolutions, ClearOutput, ClearHiddenTests, ClearMarkScheme):
        notebook, _ = preprocessor().preprocess(notebook, {})
    notebook.cells = [cell for cell in notebook.cells if not is_test(cell)]
    return notebook


def is_test(cell):
    """Whether a cell holds graded tests."""
    about = cell.metadata.get("nbgrader", {})
    return cell.cell_type == "code" and about.get("grade", False) and not about.get("solution", False)


def text(notebook):
    """The notebook as the bytes of a file hold it."""
    nbformat.validate(notebook)
    return nbformat.writes(notebook, version=nbformat.NO_CONVERT) + "\n"


def points(notebook):
    """The graded cells as a list of (grade_id, points)."""
    about = [cell.metadata.get("nbgrader", {}) for cell in notebook.cells]
    return [(a["grade_id"], a["points"]) for a in about if a.get("grade", False)]


def listed(root=ROOT):
    """{file: its text} of README.md and CITATION.cff, as far as there, with the project's address; the README with its
    table of labs written anew, a row for each in the order of the table of contents."""
    here = address(root)
    files = [path for path in (root / "README.md", root / "CITATION.cff") if path.exists()]
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    for path in texts:
        texts[path] = re.sub(
            r"(git\+|repository-code: )https://github\.com/[^\s@\"]+(@[^\s\"]+)?",
            lambda found: (
                found[1] + f"https://github.com/{here['repository']}" + f"@{here['ref']}" * (found[1] == "git+")
            ),
            texts[path],
        )
    rows = []
    for lab in re.findall(r"file: notebooks/(\w+)", (root / "_toc.yml").read_text("utf-8") if files else ""):
        notebook = nbformat.read(root / "notebooks" / f"{lab}.ipynb", as_version=4)
        title = notebook.cells[0].source.splitlines()[0].removeprefix("# Lab: ")
        rows.append(f"| {title} | {BADGE.format(**here, lab=lab).replace('**Open in Colab**', 'open in Colab')} |\n")
    table = r"(?<=\| lab \| \|\n\|---\|---\|\n)(\|.*\n)+"
    return {path: re.sub(table, "".join(rows), text) for path, text in texts.items()}


def write_listed(known, root=ROOT, check=False):
    """Write what `listed` gives. Returns lines as `write_notebooks` does, and names notebooks without a source."""
    stale = []
    for path, new in listed(root).items():
        if new == path.read_text(encoding="utf-8"):
            continue
        if check:
            stale.append(f"{path.name} has another address or other labs; run `make labs`")
        else:
            path.write_text(new, encoding="utf-8", newline="\n")
            print(f"wrote {path.name}")
    names = sorted(path.stem for path in (root / "notebooks").glob("*.ipynb"))
    return stale + [f"notebooks/{name}.ipynb has no source book/{name}/lab.py" for name in names if name not in known]


def changed(target, new, force):
    """Whether a file holds something else, which is not to be overwritten."""
    return not force and target.exists() and target.read_text(encoding="utf-8") != new


def move(kit, root=ROOT, force=False):
    """Move what a teacher keeps private from book/ to KIT/book. Returns a line for each file that stays."""
    left = []
    for source in sorted(path for name in PRIVATE for path in (root / "book").glob(f"*/{name}")):
        target = kit / source.relative_to(root)
        if changed(target, source.read_text(encoding="utf-8"), force):
            left.append(f"{source} stays, since {target} holds something else; --force overwrites that")
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(source, target)
        print(f"moved {source.relative_to(root)}")
    return left


def write_course(directory, labs, root=ROOT, force=False):
    """Make an nbgrader course, one assignment a lab: DIR/source/<lab>/<lab>.ipynb and nbgrader_config.py. Returns a
    line for each notebook that was changed there, by a teacher or by a later version of the book, and stays."""
    left = []
    for source in labs:
        target = directory / "source" / source.parent.name / f"{source.parent.name}.ipynb"
        new = text(read(source, address(root), HAND_IN))
        if changed(target, new, force):
            left.append(f"{target} stays: it was changed there, or here since it was written; --force overwrites it")
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(new, encoding="utf-8", newline="\n")
        print(f"wrote {target}")
    config = directory / "nbgrader_config.py"
    if not config.exists():
        config.write_text(NBGRADER_CONFIG, encoding="utf-8", newline="\n")
    return left


def write_notebooks(labs, root=ROOT, check=False):
    """Write the students' notebooks. Returns a line for each that would have to be, where they are checked only."""
    stale = []
    for source in labs:
        target = root / "notebooks" / f"{source.parent.name}.ipynb"
        new = text(strip(read(source, address(root))))
        old = target.read_text(encoding="utf-8") if target.exists() else None
        if new == old:
            continue
        if check:
            state = "missing" if old is None else f"out of step with book/{source.parent.name}/lab.py"
            stale.append(f"notebooks/{target.name} is {state}; run `make labs`")
        else:
            target.parent.mkdir(exist_ok=True)
            target.write_text(new, encoding="utf-8", newline="\n")
            print(f"wrote notebooks/{target.name}")
    return stale


def main(arguments=None, root=ROOT):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labs", nargs="*", metavar="LAB", help="names of labs; default all")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--points", action="store_true")
    parser.add_argument("--course", type=Path, metavar="DIR")
    kit = os.environ.get("POSENC_KIT") if root == ROOT else None
    parser.add_argument("--kit", type=Path, metavar="DIR", default=kit and Path(kit))
    parser.add_argument("--force", action="store_true", help="with --course and --kit: overwrite what differs")
    options = parser.parse_args(arguments)

    left = []
    if options.kit and options.kit.resolve().is_relative_to(root):
        parser.error(f"--kit {options.kit} lies in the fork, which is public; name a folder beside it")
    if options.kit and not (options.check or options.points):
        left = move(options.kit, root, options.force)
    if left:  # which of two sources holds is not ours to say
        return tell(left)
    known = {path.parent.name: path for path in sources(options.kit or root)}
    if not known:
        code = tell(
            [f"{(options.kit or root) / 'book'} holds no lab.py: name the folder of a teacher's kit, --kit DIR"]
        )
        return 0 if options.check else code
    unknown = [lab for lab in options.labs if lab not in known]
    if unknown:
        parser.error(f"no lab is called {unknown[0]!r}; there are {', '.join(known)}")
    chosen = [known[lab] for lab in options.labs or known]
    for source in chosen:
        exercises = check.of(source.parent.name) if source.parent.name in check.labs() else {}
        asked = {f"{name}_test": exercise.points for name, exercise in exercises.items()}
        given = dict(points(read(source, address(root))))
        given.pop("numbers", None)  # which come from exam.md
        if exercises and given != asked | {"paper": check.on_paper(source.parent.name)}:
            left.append(f"{source}: its points {given} must be those of exercises.py, ON_PAPER among them")
    if left:
        return tell(left)

    if options.points:
        for source in chosen:
            graded = points(read(source, address(root)))
            print(f"{source.parent.name}: {sum(p for _, p in graded)} points")
            for grade_id, value in graded:
                print(f"  {value:>3}  {grade_id}")
    elif options.course:
        left += write_course(options.course, chosen, root, options.force)
    else:
        left += write_notebooks(chosen, root, options.check)
        left += [] if options.labs else write_listed(known, root, options.check)
    return tell(left)


def tell(lines):
    """Print what was left undone; the exit code."""
    for line in lines:
        print(line, file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
