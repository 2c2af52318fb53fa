"""How large each room of the house may be, in lines: raising a number is a line in a diff."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
JUDGE = "__init__ __main__ cells exercise grade registry submission trial verdict".split()
#: room: (its files, the most lines that they may have together). A file is counted in the first room that names it.
ROOMS = {
    "kernels": (["posenc/kernels/*.py"], 2400),
    "judge": ([f"posenc/lab/exercises/{name}.py" for name in JUDGE], 900),
    "chapters": ([f"posenc/lab/{room}/**/*" for room in ("pages", "figures", "live", "exercises")], 18900),
    "lab": (["posenc/lab/**/*"], 7050),
    "package": (["posenc/**/*.py"], 5600),
    "tests": (["tests/**/*"], 17500),
    "benchmarks": (["benchmarks/*"], 3850),
    "book's tools": (["book/*.py", "book/_ext/*", "book/_static/*"], 4000),
    "results": (["results/**/*.json"], 14400),
}
LONGEST = 500  # lines of a file of Python
COUNTED = {".py", ".js", ".css", ".json"}


def lines():
    """{room: {file: its lines}}; what others wrote, in .min.js, is not counted."""
    rooms, seen = {}, set()
    for room, (patterns, _) in ROOMS.items():
        paths = {path for pattern in patterns for path in ROOT.glob(pattern) if path.suffix in COUNTED} - seen
        seen |= paths
        paths = {path for path in paths if not path.name.endswith(".min.js") and "vendor" not in path.parts}
        rooms[room] = {str(p.relative_to(ROOT)): p.read_text("utf-8").count("\n") for p in sorted(paths)}
    return rooms


def test_no_room_is_larger_than_it_may_be():
    table = {room: (sum(files.values()), ROOMS[room][1]) for room, files in lines().items()}
    print("\n".join(f"{room:14}{count:8}{most:8}" for room, (count, most) in table.items()))
    assert not {room: pair for room, pair in table.items() if pair[0] > pair[1]}


def test_no_file_of_python_is_longer_than_five_hundred_lines():
    long = {name: n for files in lines().values() for name, n in files.items() if name.endswith(".py") and n > LONGEST}
    assert not {name: n for name, n in long.items() if n > LONGEST}
