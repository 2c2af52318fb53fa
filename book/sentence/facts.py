r"""One sentence, every method: the numbers of its three experiments, and the table of what each card computes."""

from IPython.display import Markdown

from posenc.chapters.sentence.sentence import FILLER, NOTES, PRESETS, weights
from posenc.lab.titles import link
from posenc.lab.write import say_all, table
from posenc.methods import METHODS, on_text

SLOPES = (1 / 256, 1.0)  # the ends of ALiBi's slider
#: The words of the first sentence, as it is and with ten words before the last.
NEAR = PRESETS[0].split()
FAR = [*NEAR[:-1], *FILLER.split(), NEAR[-1]]


def numbers():
    """Give the prose its shares; an assertion fails where the weights contradict it."""
    for part in (twin_numbers, filler_numbers, slope_numbers):
        say_all("sentence", part())


def percent(share: float) -> str:
    """A share as the cards print it."""
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"


def twin_numbers() -> dict:
    """The last rose looks at the three."""
    words = PRESETS[1].split()
    roses = [i for i, word in enumerate(words) if word == "rose"]
    rows = {name: [weights(name, words)[-1, i].item() for i in roses] for name in on_text()}
    blind = [name for name, row in rows.items() if max(row) - min(row) < 1e-9]
    first = [name for name, row in rows.items() if row[0] > row[1] and name not in blind]
    turning = {"sinusoidal", "transformer_xl", "rope", "exposb"}  # the fastest pair has gone nearly once around
    assert blind == ["nope", "sink"] and set(first) == turning | {"rse", "inkling"}
    return {
        "nope_roses": percent(rows["nope"][0]),
        "rope_roses": " and ".join(percent(share) for share in rows["rope"][:2]),
    }


def filler_numbers() -> dict:
    """What ten words between leave of the look of `tired` at `it`."""
    shares = {name: [weights(name, words)[-1, 7].item() for words in (NEAR, FAR)] for name in on_text()}
    shares = {name: pair for name, pair in shares.items() if pair[1] == pair[1]}
    kept = {name: after / before for name, (before, after) in shares.items()}
    least, most = min(kept, key=kept.get), max(kept, key=kept.get)
    assert (least, most) == ("stickbreaking", "rse") and set(METHODS) - set(shares) >= {"learned"}
    words = {name: f"{percent(before)} to {percent(after)}" for name, (before, after) in shares.items()}
    return {name: words[name] for name in ("stickbreaking", "rse", "nope", "rope", "alibi")}


def slope_numbers() -> dict:
    """ALiBi at both ends of its fan, with the filler between."""
    flat, steep = (weights("alibi", FAR, slope)[-1] for slope in SLOPES)
    plain = weights("nope", FAR)[-1]
    looks = [row[:-1] / row[-1] for row in (steep, flat, plain)]  # beside that of the last word at itself
    assert (looks[0] < looks[1]).all() and (looks[1] < looks[2]).all()
    return {"flat": percent(flat[7].item()), "plain": percent(plain[7].item()), "steep": percent(steep[7].item())}


def notes_table() -> Markdown:
    """What each card computes."""
    rows = [[link(name), ", ".join(METHODS[name].places) or "none", NOTES[name]] for name in on_text()]
    return table(["method", "where position enters", "its numbers here"], rows)
