#!/usr/bin/env python
"""Write notebooks/ from course/: the labs as students open them, without solutions, hidden tests and outputs; the
README's table of them; and the project's address wherever a file for people spells it.

python course/labs.py                write every lab, and the address (`make labs`)
python course/labs.py rope           write one
python course/labs.py --check        write nothing; exit 1 and name each lab that is out of step
python course/labs.py --points       list the graded cells and their points
python course/labs.py --course DIR   make an nbgrader course in DIR, with solutions and hidden tests
python course/labs.py --gradescope DIR   write an autograder zip for Gradescope, one a lab
python course/labs.py --kit DIR      write what a private repository holds: sources, solutions, and that course

With POSENC_COURSE=DIR the sources are read from such a kit, in place of course/.
"""

import argparse
import hashlib
import json
import os
import re
import sys
import tomllib
import zipfile
from pathlib import Path

import jupytext
import nbformat
from nbgrader.preprocessors import CheckCellMetadata, ClearHiddenTests, ClearMarkScheme, ClearOutput, ClearSolutions

from posenc.lab.exercises import marks
from posenc.lab.lift import names_in

ROOT = Path(__file__).resolve().parent.parent

INSTALL = """\
import subprocess
import sys
from pathlib import Path

if "google.colab" in sys.modules:  # anywhere else this cell does nothing
    # posenc, and what of its needs is not there; torch, numpy, ipywidgets and plotly stay as Colab has them
    wheel = "{wheel}"
    here = [path.resolve().as_uri() for path in Path().glob("posenc-*.whl")]  # a file that you put there yourself
    for place in [*here, "git+https://github.com/{repository}@{ref}", wheel]:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", f"posenc[{extras}] @ {{place}}"]
        tried = subprocess.run(pip, capture_output=True, text=True)
        if tried.returncode == 0:
            break
    else:
        print(f"posenc is NOT installed: {{tried.stderr.strip()[-300:]}}\\n")
        print("Run this cell again. If it says the same, your network blocks GitHub: on another one, download")
        print(f"{{wheel}}\\nPut the file into Files (the folder at the left edge), and run this cell again.")"""

# Stands at the top of the next cell, so that a lab without posenc stops there and says why.
GUARD = """\
from importlib.util import find_spec

if find_spec("posenc") is None:
    raise SystemExit(
        "posenc is not installed. In Colab, run the cell above: it says what to do. "
        "Elsewhere: pip install 'posenc[{extras}] @ git+https://github.com/{repository}@{ref}'"
    )

"""

SAVE = "In Colab, first choose File, *Save a copy in Drive*."  # a short paragraph describes no page to search engines

BADGE = "[**Open in Colab**](https://colab.research.google.com/github/{repository}/blob/{ref}/notebooks/{lab}.ipynb)"

# In a course the badge would open another notebook than the one that is collected.
HAND_IN = """\
**This is the notebook to hand in**: write into it, keep its name. In Colab: File, *Upload notebook*, and in the end
File, Download, *Download .ipynb*."""

NBGRADER_CONFIG = """\
import os

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "posenc"

# The labs train, and grading doesn't: cells with the tag skip-execution are left out. Where a student's copy has lost
# the tags they train the smallest models, on one core, with time for a slow machine.
os.environ["POSENC_PRESET"] = "nano"
os.environ["OMP_NUM_THREADS"] = "1"
# os.environ["POSENC_PARTIAL"] = "1"  # part of the points for a mistake that is named, as `--partial` of the grader gives
c.Execute.timeout = 600  # seconds a cell may take; nbgrader's own 30 are too few
c.Execute.startup_timeout = 120
c.OverwriteCells.add_missing_cells = True  # graded cells that a student deleted, or whose copy had none
"""


PRIVATE = (
    "course/ holds no lab here: the sources, with solutions and hidden tests, are in a private kit. "
    "Name its folder, POSENC_COURSE=DIR, to use them; course/README.md says how."
)

# What Gradescope runs: once where it builds the machine, and for each submission.
SETUP = """\
#!/usr/bin/env bash
set -e
apt-get update -q
apt-get install -y -q git python3.12-venv || apt-get install -y -q git python3.11-venv
$(command -v python3.12 || command -v python3.11) -m venv /autograder/venv
/autograder/venv/bin/python -m pip install -q --extra-index-url https://download.pytorch.org/whl/cpu \\
    "posenc[{extras}] @ git+https://github.com/{repository}@{ref}"
"""
AUTOGRADE = """\
#!/usr/bin/env bash
[ -d /autograder/source/exercises ] && export POSENC_COURSE=/autograder/source
/autograder/venv/bin/python -m posenc.lab.exercises /autograder/submission --lab {lab} \\
    --gradescope /autograder/results/results.json
true  # what could not be graded stands in results.json
"""

# What a kit's own README says.
KIT = """\
# Course material for {repository}, private
Made by `python course/labs.py --kit` in a copy of <https://github.com/{repository}>. Keep it where students can't read.

| here | what it is |
|---|---|
| `<lab>.py` | the source of a lab: text, stubs, solutions, hidden tests. Edit these |
| `<chapter>_solutions.md` | solutions of a chapter's exercises |
| `source/`, `nbgrader_config.py` | the nbgrader course made from the sources; this folder is its root |
| `exercises/<lab>.py` | none yet. A copy of `posenc/lab/exercises/<lab>.py` with cases or exercises of your own: it is taken in place of the public one |

In the public copy, with the path of this folder:
```
export POSENC_COURSE=/path/of/this/folder
make labs                                             # students' notebooks, from the sources here
.venv/bin/python course/labs.py --course $POSENC_COURSE      # the nbgrader course anew, from the sources here; a notebook that you edited is kept, and named
.venv/bin/python -m posenc.lab.exercises submissions/        # the grader, with the exercises here
```
"""
IGNORED = "gradebook.db\n/release/\n/submitted/\n/autograded/\n/feedback/\n"  # about students, or made again


def folder(root=ROOT):
    """Where the labs' sources lie: in course/, or in the private kit that POSENC_COURSE names."""
    kit = os.environ.get("POSENC_COURSE", "") if root == ROOT else ""
    if kit and not Path(kit).is_dir():
        raise SystemExit(f"POSENC_COURSE={kit!r} is no folder: name the one that --kit wrote, or unset it")
    return Path(kit) if kit else root / "course"


def sources(root=ROOT):
    """The labs' sources, sorted: every .py of their folder but this command, and the configuration in a kit."""
    return sorted(path for path in folder(root).glob("*.py") if path.stem not in ("labs", "nbgrader_config"))


def address(root=ROOT):
    """Where the project lives, from pyproject.toml: {"repository": "owner/name", "ref": "main"}, and a release's "wheel".

    The wheel is that of the release of this tag; of the latest one where `ref` is a branch, main or master.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    table = project["tool"]["posenc"]
    for key, form, example in (
        ("repository", r"[\w-]+/[\w.-]*\w", "'owner/name'"),
        ("ref", r"\w[\w.-]*", "the name of a branch or a tag without a slash, such as 'main' or 'v1.2'"),
    ):
        if not re.fullmatch(form, str(table.get(key))):
            raise SystemExit(f"pyproject.toml: [tool.posenc] {key} = {table.get(key)!r} must be {example}")
    release = "latest/download" if table["ref"] in ("main", "master") else f"download/{table['ref']}"
    wheel = f"posenc-{project['project']['version']}-py3-none-any.whl"
    return {
        "repository": table["repository"],
        "ref": table["ref"],
        "wheel": f"https://github.com/{table['repository']}/releases/{release}/{wheel}",
    }


# Files that people read where they lie, so that an address in them can't be filled in when they are used.
SPELLED = ("README.md", "CONTRIBUTING.md", "course/*.md", "book/*.md", "notebooks/*.ipynb", "CITATION.cff")


def relocated(text, old, new):
    """A text in which the project's address is the new one: its repository, and the ref in links and installs."""

    def place(found):
        before, ref = found.groups()
        return f"{before}{new['repository']}" + (f"{ref}{new['ref']}" if ref else "")

    text = re.sub(rf"https://github\.com/{re.escape(old)}/releases/\S+?\.whl", new["wheel"], text)
    ref = r"(?:(/blob/|/tree/|@)[\w.-]*\w)?"
    return re.sub(
        rf"(github\.com/(?:github/)?|colab\.research\.google\.com/github/){re.escape(old)}(?![\w-]){ref}", place, text
    )


def moved(root=ROOT):
    """The files that spell an address which pyproject.toml no longer has, {path: their text with the right one}.

    The address that they spell is read from CITATION.cff, which comes last: a run that was cut off goes on.
    """
    citation = root / "CITATION.cff"
    if not citation.exists():
        return {}
    old = re.search(r"^repository-code: https://github\.com/(\S+)$", citation.read_text(encoding="utf-8"), re.MULTILINE)
    if not old:
        raise SystemExit("CITATION.cff has no line 'repository-code: https://github.com/owner/name'")
    texts = {path: path.read_text(encoding="utf-8") for spelled in SPELLED for path in sorted(root.glob(spelled))}
    new = {path: relocated(text, old[1], address(root)) for path, text in texts.items()}
    return {path: text for path, text in new.items() if text != texts[path]}


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
    for place, fill in (("# {{install}}", INSTALL), ("{{badge}}", f"{badge}\n\n{SAVE}" if badge == BADGE else badge)):
        found = [cell for cell in notebook.cells if place in cell.source.splitlines()]
        if len(found) != 1:
            raise SystemExit(f"{source.name}: the line {place!r} must stand in exactly one cell, found {len(found)}")
        filled = fill.format(**address, lab=source.stem, extras=extras(source))
        found[0].source = found[0].source.replace(place, filled)
        if place == "# {{install}}":
            following = notebook.cells[notebook.cells.index(found[0]) + 1]
            following.source = GUARD.format(**address, extras=extras(source)) + following.source
    say_efforts(notebook, source.stem)
    for number, cell in enumerate(notebook.cells):
        cell.id = cell.metadata.get("nbgrader", {}).get("grade_id", f"cell-{number:02}")
    return notebook


def say_efforts(notebook, lab):
    """Write above each exercise how hard it is, how long it takes and what it is worth: the last line of its text."""
    worth = dict(points(notebook))
    before = None  # the last text
    for cell in notebook.cells:
        about = cell.metadata.get("nbgrader", {})
        name = about.get("grade_id")
        effort = marks.effort(lab, name) if about.get("solution") else None
        if effort:
            value = worth.get(f"{name}_test", worth.get(name))
            plural = "s" * (value != 1)
            before.source += (
                f"\n\n*{effort.difficulty.capitalize()}, about {effort.minutes} min, {value} point{plural}.*"
            )
        if cell.cell_type == "markdown" and not about:
            before = cell


TRAINS = re.compile(r"\b(train|train_with|train_pictures|against|compare)\(")


def skip_training(notebook):
    """Tag what no graded cell needs and what trains, with all that leans on it: nbgrader skips cells of this tag.

    In a notebook that a student opens the tag does nothing. Questions on paper are shown: a person grades the answers.
    """
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    names = [names_in(cell.source) for cell in cells]
    last = max((n for n, cell in enumerate(cells) if is_test(cell)), default=-1)
    kept, wanted = set(), set()  # cells of exercises and checks, and what these need
    for number, (cell, (bound, used)) in reversed(list(enumerate(zip(cells, names)))):
        graded = "nbgrader" in cell.metadata or re.search(r"\b(ask|check)\(", cell.source)
        if graded or (number < last and bound & wanted):
            kept.add(number)
            wanted |= used
    missing = set()  # names that what is skipped would have bound
    for number, (cell, (bound, used)) in enumerate(zip(cells, names)):
        if number not in kept and (number > last or TRAINS.search(cell.source) or used & missing):
            cell.metadata["tags"] = [*cell.metadata.get("tags", []), "skip-execution"]
            missing |= bound
        else:
            missing -= bound
    return notebook


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
        path = root / "notebooks" / f"{lab}.ipynb"
        if not path.exists():
            continue
        notebook = nbformat.read(path, as_version=4)
        title = notebook.cells[0].source.splitlines()[0].removeprefix("# Lab: ")
        rows.append(
            f"| {title} | {BADGE.format(**address(root), lab=lab).replace('**Open in Colab**', 'open in Colab')} |\n"
        )
    return re.sub(r"(?<=\| lab \| \|\n\|---\|---\|\n)(\|.*\n)+", "".join(rows), text)


def checksum(content):
    return hashlib.sha256(content.encode("utf-8")).hexdigest()


def write_new(directory, contents):
    """Write {path: text}, but over nothing that somebody edited; the files that were kept.

    DIR/.written.json has the sum of each file as it was last written here: what still has it is nobody's edit.
    """
    record, kept = directory / ".written.json", []
    written = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    for path, content in contents.items():
        name, old = path.relative_to(directory).as_posix(), path.read_text(encoding="utf-8") if path.exists() else None
        if old not in (None, content) and checksum(old) != written.get(name):
            kept.append(path)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8", newline="\n")
        written[name] = checksum(content)
    record.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8", newline="\n")
    return kept


def course(directory, root=ROOT, labs=None):
    """The files of an nbgrader course, one assignment a lab: DIR/source/<lab>/<lab>.ipynb and nbgrader_config.py."""
    read_all = {source.stem: read(source, address(root), HAND_IN) for source in labs or sources(root)}
    notebooks = {lab: text(skip_training(notebook)) for lab, notebook in read_all.items()}
    files = {directory / "source" / lab / f"{lab}.ipynb": content for lab, content in notebooks.items()}
    return files | {directory / "nbgrader_config.py": NBGRADER_CONFIG}


def kit(directory, root=ROOT, labs=None):
    """The files of a private kit: the course, the labs' sources, the written solutions, and what says how to use it."""
    files = {directory / "README.md": KIT.format(**address(root)), directory / ".gitignore": IGNORED}
    for path in [*(labs or sources(root)), *sorted(folder(root).glob("*_solutions.md"))]:
        files[directory / path.name] = path.read_text(encoding="utf-8")
    return files | course(directory, root, labs)


def write_gradescope(directory, root, labs):
    """Write DIR/<lab>.zip for each lab: Gradescope's two scripts, and the exercises of a private kit."""
    directory.mkdir(parents=True, exist_ok=True)
    for source in labs:
        about = address(root) | {"lab": source.stem, "extras": extras(source)}
        files = {"setup.sh": SETUP.format(**about), "run_autograder": AUTOGRADE.format(**about)}
        own = folder(root) / "exercises" / source.name
        if own.exists():
            files[f"exercises/{own.name}"] = own.read_text(encoding="utf-8")
        with zipfile.ZipFile(directory / f"{source.stem}.zip", "w") as archive:
            for name, content in files.items():
                entry = zipfile.ZipInfo(name)  # of no date: the same files make the same archive
                entry.external_attr = 0o755 << 16
                archive.writestr(entry, content)


def print_points(root, chosen):
    """The graded cells of each lab and their points."""
    for source in chosen:
        graded = points(read(source, address(root)))
        print(f"{source.stem}: {sum(p for _, p in graded)} points")
        for grade_id, value in graded:
            print(f"  {value:>3}  {grade_id}")
    return 0


def targets(root, chosen, everything):
    """What is written, in this order: (path, what it shall hold, what is wrong with it in words)."""
    for path, content in moved(root).items():
        yield path, content, "has another address than pyproject.toml"
    for source in chosen:
        state = f"is out of step with {source.parent.name}/{source.name}"
        yield root / "notebooks" / f"{source.stem}.ipynb", text(strip(read(source, address(root)))), state
    if everything and (root / "README.md").exists():
        yield root / "README.md", readme(root), "lists other labs"


def bring_up_to_date(root, chosen, everything, check):
    """Write what is out of step, or with `check` nothing; return in words what is, and what has no source."""
    stale = []
    for path, new, state in targets(root, chosen, everything):
        old, name = path.read_text(encoding="utf-8") if path.exists() else None, path.relative_to(root).as_posix()
        if new == old:
            continue
        if check:
            stale.append(f"{name} {'is missing' if old is None else state}; run `make labs`")
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(new, encoding="utf-8", newline="\n")
            print(f"wrote {name}")
    known = {path.stem for path in sources(root)}
    for target in sorted((root / "notebooks").glob("*.ipynb")) if everything and known else ():
        if target.stem not in known:
            stale.append(f"notebooks/{target.name} has no source course/{target.stem}.py")
    return stale


def main(arguments=None, root=ROOT):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labs", nargs="*", metavar="LAB", help="names of labs; default all")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--points", action="store_true")
    parser.add_argument("--course", type=Path, metavar="DIR")
    parser.add_argument("--kit", type=Path, metavar="DIR")
    parser.add_argument("--gradescope", type=Path, metavar="DIR")
    options = parser.parse_args(arguments)

    known = {path.stem: path for path in sources(root)}
    made = options.course or options.kit
    if not known:
        if options.labs or options.points or options.gradescope or made:
            parser.error(PRIVATE)
        print(f"{PRIVATE} Addresses and the README are looked after without them.", file=sys.stderr)
    unknown = [lab for lab in options.labs if lab not in known]
    if unknown:
        parser.error(f"no lab is called {unknown[0]!r}; there are {', '.join(known)}")
    chosen = [known[lab] for lab in options.labs or known]

    if options.points:
        return print_points(root, chosen)
    if options.gradescope:
        write_gradescope(options.gradescope, root, chosen)
        return 0
    if made:
        kept = write_new(made, (kit if options.kit else course)(made, root, chosen))
        print(f"wrote {made}: {', '.join(path.stem for path in chosen)}" + f", all but {len(kept)}" * bool(kept))
        for path in kept:
            print(f"kept {path}: it was edited; delete it to have it anew", file=sys.stderr)
        if options.kit and not options.labs:
            print(
                "To take the same out of the public copy: git rm 'course/*_solutions.md' 'course/*.py' ':!course/labs.py'"
            )
        return 1 if kept else 0

    stale = bring_up_to_date(root, chosen, everything=not options.labs, check=options.check)
    for line in stale:
        print(line, file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
