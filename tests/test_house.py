"""How large each room of the house may be, in lines: raising a number is a line in a diff."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
#: room: (its files, the most lines that they may have together). A file is counted in the first room that names it.
ROOMS = {
    "labs": (["book/*/lab.py", "book/_tools/labs.py"], 5757),
    "tests": (["tests/**/*", "book/*/test_*.py", "conftest.py"], 15651),
    "kernels": (["posenc/kernels/*.py"], 2400),
    "lab": (["posenc/lab/**/*"], 8599),
    "package": (["posenc/**/*.py"], 6680),
    "chapters": (["book/__init__.py", "book/[a-z]*/*.py", "book/[a-z]*/*.js"], 16577),
    "benchmarks": (["benchmarks/*"], 3692),
    "book's tools": (["book/_ext/*", "book/_static/*", "book/_tools/*.py"], 4145),
    "results": (["results/**/*.json"], 14358),
}
LONGEST = 500  # lines of a file of Python
CHAPTER = 1200  # lines of a chapter's Python, without its lab and its tests
COUNTED = {".py", ".js", ".css", ".json"}


def lines():
    """{room: {file: its lines}}; what others wrote, in .min.js, is not counted."""
    rooms, seen = {}, set()
    for room, (patterns, _) in ROOMS.items():
        paths = {path for pattern in patterns for path in ROOT.glob(pattern) if path.suffix in COUNTED} - seen
        seen |= paths
        paths = {path for path in paths if not path.name.endswith(".min.js") and "_vendor" not in path.parts}
        rooms[room] = {str(p.relative_to(ROOT)): p.read_text("utf-8").count("\n") for p in sorted(paths)}
    return rooms


def test_no_room_is_larger_than_it_may_be():
    table = {room: (sum(files.values()), ROOMS[room][1]) for room, files in lines().items()}
    print("\n".join(f"{room:14}{count:8}{most:8}" for room, (count, most) in table.items()))
    assert not {room: pair for room, pair in table.items() if pair[0] > pair[1]}


def test_no_file_of_python_is_longer_than_five_hundred_lines():
    files = {name: n for room, files in lines().items() if room != "labs" for name, n in files.items()}
    assert not {name: n for name, n in files.items() if name.endswith(".py") and n > LONGEST}


def test_no_chapter_is_longer_than_it_may_be():
    chapters = {}
    for name, count in lines()["chapters"].items():
        chapters[name.split("/")[1]] = chapters.get(name.split("/")[1], 0) + count * name.endswith(".py")
    assert not {name: count for name, count in chapters.items() if count > CHAPTER}
