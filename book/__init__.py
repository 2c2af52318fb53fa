r"""The book's chapters, a folder each: `posenc.chapters.rope` is book/rope/.

    facts.py        what the page's hidden cells call, and its numbers come from
    figures.py      its explorables; `posenc.lab.explore` says how they are declared
    exercises.py    a table `EXERCISES` of what its lab is checked with; `posenc.lab.check` says how
    NAME.py, .js    a live figure called NAME: see `load_live`

Beside them lie the text (index.md), the lab's source (lab.py), the worked solutions and the tests.
"""

import importlib
from pathlib import Path
from types import ModuleType

from posenc.lab.explore import Explorable


def all_explorables() -> dict[str, Explorable]:
    r"""Every explorable of the book, by id (`rope.rotation_invariance`), sorted."""
    return {id: e for path in files("figures.py") for id, e in sorted(_explorables(path.parent.name).items())}


def load(id: str) -> Explorable:
    r"""The explorable called `id`, such as `rope.rotation_invariance`.

    Raises ValueError for an id that is not there, with those that are.
    """
    chapter, _, name = id.partition(".")
    if not chapter.isidentifier() or not name.isidentifier() or chapter.startswith("_"):
        raise ValueError(f"explorable {id!r}: write <chapter>.<name>, such as rope.rotation_invariance")
    try:
        explorables = _explorables(chapter)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(f"{__name__}.{chapter}"):
            raise
        raise ValueError(f"explorable {id!r}: there is no book/{chapter}/figures.py") from None
    if id not in explorables:
        raise ValueError(f"explorable {id!r}: book/{chapter}/figures.py has {list(explorables)}")
    return explorables[id]


def _explorables(chapter: str) -> dict[str, Explorable]:
    r"""The explorables that a chapter declares, by id. Those it imports go by the id of their own."""
    explorables = {}
    for name, value in vars(importlib.import_module(f"{__name__}.{chapter}.figures")).items():
        if isinstance(value, Explorable) and value.id.startswith(f"{chapter}.") and not name.startswith("_"):
            if value.id != f"{chapter}.{name}":
                raise ValueError(
                    f"explorable {value.id!r} is called {name!r}: declare it with id={f'{chapter}.{name}'!r}"
                )
            explorables[value.id] = value
    return explorables


def live_scripts() -> dict[str, Path]:
    r"""{name: script} of the live figures."""
    return {path.stem: path for path in files("*.js")}


def load_live(name: str) -> ModuleType:
    r"""The module of a live figure: what no table of states can hold, drawn in the page by a script of its own.

    A live figure is a module of a chapter, book/<chapter>/<name>.py, with

        TITLE, SEE, ALT one line; a dozen words on what to do and to watch; one or two sentences on what it shows and
                        what to do with it; or {argument: them}
        data()          what the script gets: plain JSON, computed by `posenc`
        picture()       an SVG of how it stands before it is touched, as text: seen before, without scripts and in print
        EAGER           if True, the page itself brings the script, which then draws before the reader stirs
        SHOWN           if a `{predict}` box may set it: {name: (lowest, highest value)}; `place` then gets an event
                        "set", whose `detail` is {name: value}

    and beside it a script <name>.js, which calls

        posencLive("<name>", function (place, data, make) { ...; return repaint; });

    `place` is an empty element; `make(tag, class, attributes)` makes an element of HTML; `repaint`, if returned, is
    called when the theme changes. An address `#<name>=key:value,...` comes as "set", too; a figure that writes such
    ones gives `ready`, `changed` and `link` to `posencExplorables.get("<name>")` and calls its `writeLink`. Colors
    come from the custom properties --x-text, --x-muted, --x-line, --x-ground, --x-accent, and --x-blue, --x-orange,
    --x-green, --x-purple of player.css, so that most scripts need none. The script is a classic one (it works from
    `file://`), asks nothing of the network, moves nothing by itself, works by keyboard, and computes in closed form
    what `posenc` computes: a browser test holds it against `posenc`. A chapter shows it by ``{live} <name>``.

    Raises ValueError for a name that has none, with those there are.
    """
    scripts = live_scripts()
    if name not in scripts:
        raise ValueError(f"live figure {name!r}: there are {sorted(scripts)}")
    return importlib.import_module(f"{__name__}.{scripts[name].parent.name}.{name}")


def files(name: str) -> list[Path]:
    r"""A file that chapters have, such as figures.py, of each that has it, sorted."""
    return sorted(path for folder in __path__ for path in Path(folder).glob(f"[a-z]*/{name}"))
