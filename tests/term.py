"""A lecturer's term from a fork to the gradebook, in a folder that it fills: `python tests/term.py DIR`.

A fork with an address of its own, a private kit with one exercise changed, the release, thirty submissions (right,
wrong in named ways, hostile, and what is no submission at all), marks from both graders, and the CSV for Moodle. Each
step asserts what course/README.md promises.
"""

import contextlib
import csv
import importlib.util
import io
import json
import os
import re
import shutil
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FORK, KIT, IN = "fork", "kit", "handed_in"
HOSTILE = {
    "loops": "def slopes(num_heads):\n    while True:\n        pass",
    "ends": "import os\n\ndef slopes(num_heads):\n    os._exit(0)",
    "kills": "import os, signal\n\ndef slopes(num_heads):\n    os.kill(os.getppid(), signal.SIGKILL)",
    "prints": "print('x' * 10_000_000)\n\ndef slopes(num_heads):\n    return input()",
    "lies": "import posenc.lab.exercises\nposenc.lab.exercises.judge = check = lambda *_: True\nslopes = lambda n: 7",
}


def variant(folder):
    """The teacher's own exercise: `window` of a head with half the slope, in the kit before anything reads it."""
    text = (ROOT / "posenc" / "lab" / "exercises" / "alibi.py").read_text("utf-8")
    mine = text.replace(
        "return math.ceil(-math.log(1 - share) / slope)", "return math.ceil(-2 * math.log(1 - share) / slope)"
    )
    assert mine != text
    (folder / KIT / "exercises").mkdir(parents=True)
    (folder / KIT / "exercises" / "alibi.py").write_text(mine, "utf-8")


def fork(folder):
    """The fork's `course/labs.py` as a module, once `make labs` has brought its address everywhere."""
    root = folder / FORK
    for name in ("course", "notebooks"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md", "CITATION.cff", "_toc.yml"):
        shutil.copy(ROOT / name, root)
    project = root / "pyproject.toml"
    text = re.sub(r'(?m)^repository = ".*"$', 'repository = "uni/positions"', project.read_text("utf-8"))
    project.write_text(text, "utf-8")
    spec = importlib.util.spec_from_file_location("labs", root / "course" / "labs.py")
    labs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(labs)
    assert labs.main([], root=root) == 0 and labs.main(["--check"], root=root) == 0
    assert "github.com/uni/positions@" in (root / "notebooks" / "alibi.ipynb").read_text("utf-8")
    return labs


def kit(folder, labs):
    """The kit, with the variant's solution written into its source, and its course anew; what was edited was kept."""
    there, root = folder / KIT, folder / FORK
    assert labs.main(["alibi", "--kit", str(there)], root=root) == 0
    source = there / "alibi.py"
    text = source.read_text("utf-8").replace(
        "math.log(1 / (1 - share)) / slope", "2 * math.log(1 / (1 - share)) / slope"
    )
    assert text != source.read_text("utf-8")
    source.write_text(text, "utf-8")
    config = there / "nbgrader_config.py"
    config.write_text(re.sub(r"(?m)^# (os.*POSENC_PARTIAL)", r"\1", config.read_text("utf-8")), "utf-8")
    os.environ["POSENC_COURSE"] = str(there)
    assert labs.main(["alibi", "--course", str(there)], root=root) == 1, "edited files are kept"
    (there / "source" / "alibi" / "alibi.ipynb").unlink()
    assert labs.main(["alibi", "--course", str(there)], root=root) == 1, "the configuration still is"


def release(folder):
    """nbgrader's API over the kit, once it has released the lab without a solution."""
    import nbformat
    from nbgrader.apps import NbGraderAPI
    from traitlets.config import PyFileConfigLoader

    config = PyFileConfigLoader("nbgrader_config.py", path=str(folder / KIT)).load_config()
    config.CourseDirectory.root, config.Exchange.root = str(folder / KIT), str(folder / "exchange")
    os.chdir(folder / KIT)
    api = NbGraderAPI(config=config)
    made = api.generate_assignment("alibi")
    assert made["success"], made["log"]
    notebook = nbformat.read(folder / KIT / "release" / "alibi" / "alibi.ipynb", as_version=4)
    code = "\n".join(cell.source for cell in notebook.cells)
    assert "math.log" not in code and "HIDDEN TESTS" not in code and "require(" not in code
    return api, notebook


def answers(labs, root):
    """{exercise: the teacher's own solution}."""
    cells = labs.read(labs.folder(root) / "alibi.py", labs.address(root)).cells
    return {cell.id: cell.source for cell in cells if cell.id in ("slopes", "bias", "window")}


def filled(released, solutions):
    import copy

    notebook = copy.deepcopy(released)
    for cell in notebook.cells:
        cell.source = solutions.get(cell.metadata.get("nbgrader", {}).get("grade_id"), cell.source)
    return notebook


def submissions(folder, released, solutions):
    """Hand in thirty notebooks, {student: points that they deserve or None}, and the roster of thirty-two students."""
    import nbformat

    from posenc.lab.exercises import find, of
    from posenc.lab.exercises.marks import partial

    points = {name: exercise.points for name, exercise in of("alibi").items()}
    whole, wanted, notebooks = sum(points.values()), {}, {}
    for number in range(8):
        notebooks[f"right{number}"], wanted[f"right{number}"] = filled(released, solutions), whole
    for name in points:
        for number, words in enumerate(list(find(f"alibi.{name}").mistakes)[:4]):
            student = f"{name}{number}"
            wrong = f"from posenc.lab.exercises import find\n{name} = find('alibi.{name}').mistakes[{words!r}]"
            notebooks[student] = filled(released, solutions | {name: wrong})
            wanted[student] = whole - points[name] + partial(f"alibi.{name}", find(f"alibi.{name}"), words)
    public = solutions["window"].replace("2 * math.log", "math.log")
    notebooks["copied"], wanted["copied"] = filled(released, solutions | {"window": public}), whole - points["window"]
    notebooks["idle"], wanted["idle"] = filled(released, {}), 0
    for kind, code in HOSTILE.items():
        notebooks[kind], wanted[kind] = filled(released, solutions | {"slopes": code}), whole - points["slopes"]
    for student in ("nobody", "other", "broken"):
        notebooks[student], wanted[student] = filled(released, solutions), None
    assert len(notebooks) == 30
    for student, notebook in notebooks.items():
        (folder / IN / student).mkdir(parents=True)
        nbformat.write(notebook, folder / IN / student / "alibi.ipynb")
    shutil.copy(folder / FORK / "notebooks" / "rope.ipynb", folder / IN / "other" / "alibi.ipynb")
    (folder / IN / "broken" / "alibi.ipynb").write_text("print('no notebook')", "utf-8")
    (folder / IN / "empty").mkdir()
    rows = [f"{student},{student}@uni.example" for student in [*wanted, "absent", "empty"] if student != "nobody"]
    (folder / "students.csv").write_text("First name,Email address\n" + "\n".join(rows) + "\n", "utf-8")
    return wanted


def command(*words):
    """The grader's command: (exit code, stdout, stderr)."""
    from posenc.lab.exercises import grade

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = grade.main([*map(str, words)])
    return code, out.getvalue(), err.getvalue()


def bad_input(folder):
    """What cannot be graded is told in words before anything is, and writes no file."""
    (folder / "bad.csv").write_text("First name\nAda\n", "utf-8")
    code, _, said = command(folder / IN, "--csv", folder / "bad_marks.csv", "--roster", folder / "bad.csv")
    assert code == 1 and "bad.csv" in said and "email address" in said and not (folder / "bad_marks.csv").exists()
    code, _, said = command(folder / IN / "empty")
    assert code == 1 and "no notebook" in said
    from posenc.lab.exercises import use_seed

    for seed in ("seventeen", -1, 2**31):
        try:
            use_seed(seed)
            raise AssertionError(f"seed {seed!r} was taken")
        except ValueError as error:
            assert "STUDENT_SEED" in str(error) and str(seed) in str(error)


def marks(folder, wanted):
    """Grade all of it into the gradebook's CSV: every mark is what it must be, and none is lost."""
    csv_file = folder / "marks.csv"
    words = [folder / IN, "--lab", "alibi", "--partial", "--limit", "8", "--json"]
    code, out, said = command(
        *words, "--csv", csv_file, "--roster", folder / "students.csv", "--answers", folder / "sheets"
    )
    assert code == 1, "three can't be graded, one is of nobody"
    records = {Path(record["file"]).parent.name: record for record in json.loads(out)}
    assert len(records) == 30
    found = {student: record.get("points") for student, record in records.items()}
    assert {s: p for s, p in found.items() if wanted[s] is not None} == {
        s: p for s, p in wanted.items() if p is not None
    }
    with open(csv_file, encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["First name", "Email address", "Lab alibi"]
    given = {row[0]: row[2] for row in rows}
    assert given == {
        student: f"{points:g}" for student, points in wanted.items() if points is not None
    } | dict.fromkeys(("other", "broken", "absent", "empty"), "")
    with open(folder / "marks_left_over.csv", encoding="utf-8", newline="") as file:
        left = {Path(row["file"]).parts[len((folder / IN).parts)]: row for row in csv.DictReader(file)}
    assert left.keys() == {"nobody", "other", "broken"} and left["nobody"]["points"] == f"{found['nobody']:g}"
    assert "rope" in left["other"]["why"] and "no notebook" in left["broken"]["why"]
    assert (folder / "sheets" / "alibi.md").exists()
    return records


def both_graders(folder, api, records):
    """nbgrader gives the same points, for a right notebook and for one with a named mistake."""
    from nbgrader.api import Gradebook

    for student in ("right0", "slopes1"):
        target = folder / KIT / "submitted" / student / "alibi"
        target.mkdir(parents=True)
        shutil.copy(folder / IN / student / "alibi.ipynb", target)
        result = api.autograde("alibi", student)
        assert result["success"], result["log"]
        with Gradebook(f"sqlite:///{folder / KIT / 'gradebook.db'}", "posenc") as book:
            assert book.find_submission("alibi", student).code_score == records[student]["points"], student


def main(folder):
    folder, start = Path(folder).resolve(), time.process_time()
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # nbgrader calls alembic
    variant(folder)
    os.environ["POSENC_COURSE"] = str(folder / KIT)
    import posenc.lab.exercises  # noqa: F401 (with the kit's exercises before the public ones)

    del os.environ["POSENC_COURSE"]
    labs = fork(folder)
    kit(folder, labs)
    api, released = release(folder)
    wanted = submissions(folder, released, answers(labs, folder / FORK))
    bad_input(folder)
    records = marks(folder, wanted)
    both_graders(folder, api, records)
    spent = time.process_time() - start + sum(os.times()[2:4])
    print(f"a term of {len(records)} submissions: every mark has its place; {spent:.0f} s of one core")


if __name__ == "__main__":
    main(sys.argv[1])
