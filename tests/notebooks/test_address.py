"""A fork changes its address in pyproject.toml, and `make labs` brings it everywhere; the built book follows."""

import re
import shutil
import subprocess

import pytest
from lab_runs import ROOT, labs

OLD = labs.address()
NEW = {"repository": f"someone/our-{OLD['repository'].split('/')[1]}", "ref": f"term-{OLD['ref']}"}


def move(root, old, new):
    """Change the address in the one place that says it."""
    project = root / "pyproject.toml"
    text = project.read_text("utf-8")
    for key in ("repository", "ref"):
        text = text.replace(f'{key} = "{old[key]}"', f'{key} = "{new[key]}"')
    project.write_text(text, "utf-8")


def tracked():
    """The text files of the repository that hold an address of GitHub's, as paths from its root."""
    words = ["git", "grep", "--untracked", "-lIE", r"github\.com/|googlecolab|raw\.githubusercontent|github\.io"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.fixture
def fork(tmp_path):
    """A copy of what a fork has: all files that name GitHub, and what `course/labs.py` reads."""
    for name in {*tracked(), "pyproject.toml", "_toc.yml"} | {str(p.relative_to(ROOT)) for p in labs.sources()}:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def spelling(root, address):
    """{file: lines that spell an address}, its tests and generated data apart."""
    files = [path for path in root.rglob("*") if path.is_file() and "tests" not in path.relative_to(root).parts]
    found = {}
    for path in files:
        lines = path.read_text("utf-8", errors="replace").splitlines()
        hits = [line for line in lines if re.search(rf"(?<![\w-]){re.escape(address['repository'])}(?![\w-])", line)]
        if hits and path.name != "pyproject.toml":
            found[path.relative_to(root).as_posix()] = hits
    return found


def test_a_new_address_reaches_every_file_that_spells_one_and_the_way_back_is_exact(fork, capsys):
    before = {path: path.read_bytes() for path in fork.rglob("*") if path.is_file()}
    spelled = spelling(fork, OLD)
    assert {"README.md", "CITATION.cff", "book/teachers.md", "notebooks/rope.ipynb"} <= spelled.keys()
    move(fork, OLD, NEW)
    assert labs.main(["--check"], root=fork) == 1
    said = capsys.readouterr().err
    assert all(name in said for name in ("README.md", "CITATION.cff", "book/teachers.md", "notebooks/rope.ipynb"))

    assert labs.main([], root=fork) == 0
    assert spelling(fork, OLD) == {} and spelling(fork, NEW).keys() == spelled.keys()
    refs = re.findall(
        rf"{NEW['repository']}(?:/blob/|/tree/|@)([\w.-]*\w)", "\n".join(sum(spelling(fork, NEW).values(), []))
    )
    assert len(refs) > 30 and set(refs) == {NEW["ref"]}
    assert labs.main(["--check"], root=fork) == 0, capsys.readouterr().err

    move(fork, NEW, OLD)
    assert labs.main([], root=fork) == 0
    assert {path: path.read_bytes() for path in before} == before


def test_the_address_of_another_project_stays():
    wheel = "https://github.com/a/b/releases/latest/download/p-1.whl"
    text = f"{wheel} github.com/a/b github.com/a/b-c github.com/x/a/b git+https://github.com/a/b@main"
    new = {"repository": "n/m", "ref": "v1", "wheel": "W"}
    wanted = "W github.com/n/m github.com/a/b-c github.com/x/a/b git+https://github.com/n/m@v1"
    assert labs.relocated(text, "a/b", new) == wanted


@pytest.mark.parametrize("key, value", [("repository", "https://github.com/a/b"), ("repository", "a"), ("ref", "a/b")])
def test_an_address_of_another_form_is_refused_by_name(fork, key, value):
    move(fork, OLD, OLD | {key: value})
    with pytest.raises(SystemExit, match=rf"{key}.*{re.escape(value)}"):
        labs.main(["--check"], root=fork)


@pytest.mark.parametrize("file", ["pyproject.toml", "CITATION.cff"])
def test_the_execution_cache_of_a_built_book_follows_the_address(file, fork, monkeypatch):
    """Executed pages print it: links to Colab, the command that clones, how to cite."""
    monkeypatch.syspath_prepend(str(ROOT / "book" / "_ext"))
    site_parts = pytest.importorskip("site_parts", reason="Sphinx is missing: run `make test` once")
    monkeypatch.setattr(site_parts, "ROOT", fork)
    monkeypatch.setattr(site_parts, "sources", lambda: [])
    before = site_parts.sources_hash()
    assert site_parts.sources_hash() == before
    if file == "pyproject.toml":
        move(fork, OLD, NEW)
    else:
        (fork / file).write_text((fork / file).read_text("utf-8").replace("version:", "version: 9"), "utf-8")
    assert site_parts.sources_hash() != before
