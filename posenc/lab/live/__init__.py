r"""Live figures: what no table of states can hold, drawn in the page by a script of its own.

A live figure is a module here, `posenc/lab/live/<name>.py`, with

    TITLE, ALT      one line; one or two sentences on what it shows and what to do with it
    data()          what the script gets: plain JSON, computed by `posenc`
    picture()       an SVG of how it stands before it is touched, as text: seen before, without scripts and in print
    SHOWN           if a `{predict}` box may set it: {name: (lowest, highest value)}; `place` then gets an event "set",
                    whose `detail` is {name: value}

and a script `posenc/lab/live/static/<name>.js`, which calls

    posencLive("<name>", function (place, data, make) { ...; return repaint; });

`place` is an empty element; `make(tag, class, attributes)` makes an element of HTML; `repaint`, if returned, is called
when the theme changes. Colors come from the custom properties --x-text, --x-muted, --x-line, --x-ground, --x-accent,
and --x-blue, --x-orange, --x-green, --x-purple of player.css, so that most scripts need none. The script is a classic
one (it works from `file://`), asks nothing of the network, moves nothing by itself, works by keyboard, and computes in
closed form what `posenc` computes: a browser test holds it against `posenc`. The chapter shows it by the directive
``{live} <name>``.
"""

import importlib
from pathlib import Path
from types import ModuleType

STATIC = Path(__file__).parent / "static"


def load_live(name: str) -> ModuleType:
    r"""The module of a live figure. Raises ValueError for a name that has none, with those there are."""
    names = sorted(path.stem for path in STATIC.glob("*.js"))
    if name not in names:
        raise ValueError(f"live figure {name!r}: there are {names}")
    return importlib.import_module(f"{__name__}.{name}")
