r"""What the landing page shows beside its clock: the methods as cards, and how to cite."""

from html import escape

import yaml

from posenc import METHODS
from posenc.chapters import load_live
from posenc.chapters.four_places.figures import FOUR, WORDS
from posenc.chapters.teachers.facts import book, parts, reading
from posenc.lab.titles import TITLES
from posenc.lab.write import ROOT, project

#: What to take in hand first: a live figure, its page, a title.
STARS = (
    ("sentence", "sentence", "One sentence, every method"),
    ("sticks", "stickbreaking", "Break a stick by hand"),
    ("draw_loss", "rope", "Draw a loss, then see it"),
)
#: What a learner reads first, in this order.
FIRST = ("ten_lines", "why_position", "four_places", "extrapolates", "sinusoidal", "rope", "alibi")
FIRST += ("stickbreaking", "measure", "compare")
#: Parts of the book that can wait until they are needed.
WAIT = ("Proposals, audited", "Kernels")


def stars():
    r"""The figures to begin with, each by its picture."""
    from IPython.display import HTML

    links = (
        f'<a href="../{page}/index.html#fig-{name.replace("_", "-")}" aria-label="{words}">'
        f"{load_live(name).picture()}<b>{words}</b></a>"
        for name, page, words in STARS
    )
    return HTML(f'<div class="stars">{"".join(links)}</div>')


def choice() -> str:
    r"""The way through attention with its four places as buttons: each leaves the cards of its methods."""

    def button(place, words):
        count = sum(place in (*method.places, "all") for method in METHODS.values())
        return (
            f'<label class="place"><input type="radio" name="place" value="{place}" autocomplete="off"'
            f"{' checked' * (place == 'all')}><span><b>{place}</b> {count}<small>{escape(words)}</small></span></label>"
        )

    steps = zip(("x →", "→ q, k, v →", "→ q · k / √D →", "→"), FOUR)
    flow = (f'<span class="step">{escape(words)}</span>{button(place, WORDS[place][1])}' for words, place in steps)
    legend = "<legend>Where position enters: choose a place</legend>"
    return f'<fieldset class="places">{legend}{"".join(flow)}{button("all", "methods")}</fieldset>'


def card(name: str) -> str:
    r"""A method: its name, its idea, its places, and its lab, here and in Colab."""
    method, row, links = METHODS[name], TITLES[name], ""
    if row.lab:
        title, place = escape(method.title), f"blob/{project()['ref']}/notebooks/{row.lab}.ipynb"
        links = (
            f'<a href="../../notebooks/{row.lab}.html" aria-label="Lab: {title}">lab</a> '
            f'<a href="https://colab.research.google.com/github/{project()["repository"]}/{place}" '
            f'aria-label="Colab: {title}">Colab</a>'
        )
    places = " + ".join(method.places)
    return (
        f'<li class="method" data-places="{" ".join(method.places)}">'
        f'<a class="method-name" href="../{row.page}/index.html">{escape(method.title)}</a>'
        f"<p>{escape(row.idea)}</p><p>{places} {links}</p></li>"
    )


def methods():
    r"""All methods as cards, and the buttons that choose among them; style sheets alone make them work."""
    from IPython.display import HTML

    return HTML(f'<div class="methods">{choice()}<ul class="method-cards">{"".join(map(card, METHODS))}</ul></div>')


def stop(name: str) -> str:
    r"""A chapter on the map: its title, linked, and the minutes of its first reading."""
    return f"[{book()[name].title}](../{name}/index.md) ({{minutes}}`{name}`\u00a0min)"


def way():
    r"""The learner's map: chapters to read first, then those of each part, at last what can wait."""
    from IPython.display import Markdown

    then = {part: [stop(name) for name in chapters if name not in FIRST] for part, chapters in parts().items()}
    lines = [":::::{div} way", f"**First** ({reading(FIRST)} hours)", ""]
    lines += [f"{number}. {stop(name)}" for number, name in enumerate(FIRST, 1)]
    lines += ["", "**Then, as you like**", ""]
    lines += [f"- *{part}*: {', '.join(stops)}" for part, stops in then.items() if stops and part not in WAIT]
    waiting = [stop for part in WAIT for stop in then[part]]
    lines += [f"- *Never mind, until you need it*: {', '.join(waiting)}", ":::::"]
    return Markdown("\n".join(lines))


def cite():
    r"""How to cite the book, in BibTeX, from CITATION.cff."""
    told = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    authors, year = " and ".join(author["name"] for author in told["authors"]), str(told["date-released"])[:4]
    fields = {"author": f"{{{authors}}}", "title": told["title"], "year": year, "version": told["version"]}
    fields["url"] = told["repository-code"]
    print("@software{posenc,\n" + "".join(f"  {key} = {{{value}}},\n" for key, value in fields.items()) + "}")
