r"""What the book says of each method beside `posenc.METHODS`: its chapter and its lab, one line, its line in plots."""

from typing import NamedTuple

from posenc.methods import METHODS


class InBook(NamedTuple):
    r"""One row of `TITLES`.

    page: its chapter, a folder in book/; lab: its notebook's name, None where there is no lab; idea: what the method
    does, in one line; color and marker: its line in plots.
    """

    page: str
    idea: str
    color: str
    marker: str
    lab: str | None = None


TITLES = {
    "nope": InBook("why_position", "Nothing: words are told apart by content alone", "0.35", "o"),
    "sinusoidal": InBook("sinusoidal", "Add waves of many lengths to each word", "C0", "s", lab="sinusoidal"),
    "learned": InBook("learned", "Add a learned vector for each place", "C9", "P", lab="learned"),
    "shaw": InBook("relative", "Add a learned vector for each distance to the keys", "C3", "<", lab="relative"),
    "transformer_xl": InBook("relative", "Give distance a term of its own in the score", "C5", ">", lab="relative"),
    "t5": InBook("relative", "Add a learned number for each bucket of distances", "C6", "X", lab="relative"),
    "kerple": InBook("relative", "Subtract a learned logarithm of the distance", "C8", "p", lab="relative"),
    "fire": InBook("relative", "Let a small network turn distance into a bias", "C7", "h", lab="relative"),
    "rope": InBook("rope", "Turn query and key by position, neighboring lanes paired", "C1", "^", lab="rope"),
    "rope2d": InBook("rope2d", "Turn some pairs by row, others by column", "#b15928", "$+$", lab="rope2d"),
    "mrope": InBook(
        "rope2d", "Turn by time, height and width, half-apart lanes paired", "#6a3d9a", "$m$", lab="rope2d"
    ),
    "liere": InBook("comrope", "Turn in learned planes, on any number of axes", "#999900", "$L$", lab="comrope"),
    "comrope": InBook("comrope", "Learn turns that commute: only offsets count", "#1b9e77", "$C$", lab="comrope"),
    "alibi": InBook("alibi", "Subtract a slope times the distance", "C2", "D", lab="alibi"),
    "stickbreaking": InBook(
        "stickbreaking", "Each key breaks its piece off what nearer keys left", "C4", "v", lab="stickbreaking"
    ),
    "exposb": InBook("exposb", "Turn, boost early positions, fade with distance", "#b8860b", "*", lab="exposb"),
    "rse": InBook("rse", "Turn, subtract, and break a stick, all at once", "#006400", "d", lab="rse"),
    "cope": InBook("cope", "Count only the tokens that the query cares about", "#1f3b73", "H", lab="cope"),
    "fox": InBook("fox", "Let each word shut a gate on all before it", "#8c2d04", "8", lab="fox"),
    "inkling": InBook("moving_ruler", "Let the query choose its own curve of distance", "#54278f", "4"),
    "path": InBook("moving_ruler", "Reflect by each word on the way", "#00441b", "2"),
    "sink": InBook("moving_ruler", "Let a query look at nothing", "#67000d", "3"),
}


def title(arm: str) -> str:
    """How a figure calls a method, or an arm that is none."""
    return METHODS[arm].title if arm in METHODS else arm


def link(name: str) -> str:
    """A method's title, linked to its chapter from any other."""
    return f"[{METHODS[name].title}](../{TITLES[name].page}/index.md)"
