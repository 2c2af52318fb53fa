"""Imports run downward only: read from the source, functions' lazy ones included."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]

# From the ground up. A module may import what stands in a lower row, and in its own row what closes no circle.
LAYERS = [
    "errors",
    "encoding",
    "inputs",
    "positions",
    "fixed",
    "embed rotate bias weigh several kernels",
    "impls",
    "attention several.path",  # which has an attention of its own
    "layer",
    "foxpro",
    "methods",
    "audit bridges configs",
    "",  # posenc/__init__.py
    "lab",
    "chapters",
]
LAB = ["", "titles", "explore", "train", "experiments", "write", "check", "exam"]
#: chapter: those that it may import from.
ARROWS = {
    "alibi": ["rope"],
    "comrope": ["rope2d"],
    "errata": ["rope", "shipped"],
    "fox": ["cope"],
    "intro": ["four_places", "teachers"],
    "rse": ["exposb", "stickbreaking"],
    "scaling": ["sheet"],
}


def modules(root, package="posenc", folders="**"):
    """{"posenc.bias.alibi": its source's path} of a package's folder."""
    paths = {
        ".".join((package, *path.relative_to(root).with_suffix("").parts)): path
        for path in root.glob(f"{folders}/*.py")
    }
    return {name.removesuffix(".__init__"): path for name, path in paths.items()}


def chapters():
    """The modules of the chapters, without labs and tests; posenc.chapters lies in book/."""
    known = modules(ROOT / "book", "posenc.chapters", "[a-z]*")
    return {name: path for name, path in known.items() if path.name != "lab.py" and not path.name.startswith("test_")}


def imports(name, path, known):
    """(module, imported name or None) of each import of the package in a file, wherever it stands in it."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names if alias.name.split(".")[0] == name.split(".")[0])
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join(filter(None, [*package.split(".")[: len(package.split(".")) - node.level + 1], base]))
            if base.split(".")[0] != name.split(".")[0]:
                continue
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                yield (whole, None) if whole in known else (base, alias.name)


def layer(name):
    """Where a module stands, as a pair that compares: its row in LAYERS, then its row in LAB; what is run, on top."""
    if name.endswith(".__main__"):
        return len(LAYERS), 0
    inner = name.removeprefix("posenc").removeprefix(".")
    rows = [
        (part.count("."), row) for row, parts in enumerate(LAYERS) for part in parts.split(" ") if under(inner, part)
    ]
    assert rows, f"{name} has no place in LAYERS"
    room = inner.removeprefix("lab").removeprefix(".").split(".")[0]
    return max(rows)[1], LAB.index(room) if inner.startswith("lab") else 0


def under(inner, part):
    return inner == part or bool(part) and inner.startswith(f"{part}.")


def circle(edges):
    """A list of modules that import each other in a ring, or None."""
    finished, path = set(), []

    def visit(name):
        if name in path:
            return path[path.index(name) :] + [name]
        if name not in finished:
            path.append(name)
            for other in sorted(edges.get(name, ())):
                if ring := visit(other):
                    return ring
            finished.add(path.pop())
        return None

    return next((ring for name in sorted(edges) if (ring := visit(name))), None)


def faults(known):
    """What is wrong with the imports of {module: path}, in words."""
    edges = {name: set() for name in known}
    for name, path in known.items():
        for target, taken in imports(name, path, known):
            if target != name:
                edges[name].add(target)
            if (taken or target.rpartition(".")[2]).startswith("_") and (taken or "")[:2] != "__":
                yield f"{name} takes {target}.{taken}: make it public or move it"
            if layer(target) > layer(name):
                yield f"{name} imports {target}, which stands above it"
            own, other = (module.removeprefix("posenc.chapters.").split(".")[0] for module in (name, target))
            if (
                name.startswith("posenc.chapters.")
                and target.startswith("posenc.chapters.")
                and other not in [own, *ARROWS.get(own, [])]
            ):
                yield f"{name} imports {target}, of a chapter that it may not: move what both need to posenc.lab"
    if ring := circle(edges):
        yield "a circle: " + " -> ".join(ring)


def test_imports_run_downward_without_a_circle():
    assert not list(faults(modules(ROOT / "posenc") | chapters()))
    for chapter, others in ARROWS.items():
        text = "".join(path.read_text("utf-8") for path in (ROOT / "book" / chapter).glob("[!t]*.py"))
        assert all(f"posenc.chapters.{other}" in text for other in others), f"{chapter} imports less than ARROWS says"


def test_the_book_s_extensions_close_no_circle():
    known = {path.stem: path for path in (ROOT / "book" / "_ext").glob("*.py")}
    edges = {
        name: set(re.findall(r"^ *(?:from|import) (\w+)", path.read_text("utf-8"), re.M)) & {*known}
        for name, path in known.items()
    }
    assert edges["explorable"] and not circle(edges)
