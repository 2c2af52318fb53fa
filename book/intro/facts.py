r"""What the landing page shows beside its clock: the methods as cards, and how to cite."""

import functools
from html import escape

import torch
import yaml

from posenc import METHODS, attention, make
from posenc.chapters.four_places.figures import FOUR, WORDS
from posenc.chapters.sentence.sentence import LANES, PRESETS, weights
from posenc.chapters.teachers.facts import FIRST, book, parts, reading
from posenc.lab.titles import TITLES
from posenc.lab.write import ROOT, project, seeded
from posenc.methods import sizes

SHADES = 8
#: Parts of the book that can wait until they are needed.
WAIT = ("Proposals, audited", "Kernels")
SIDE = 7  # patches of the picture in which methods of several axes look around


def around(name: str) -> torch.Tensor:
    r"""Where the middle patch of a picture looks by a method of several axes, all patches alike: [SIDE, SIDE]."""
    grid = torch.cartesian_prod(torch.arange(SIDE), torch.arange(SIDE))
    grid = torch.nn.functional.pad(grid, (METHODS[name].axes - 2, 0)).double()  # one picture: time stands still
    few = {"base": 100.0, "sections": (4, 2, 2), "interleaved": True}  # so that a few patches matter
    options = sizes(name, num_heads=1, head_dim=LANES, length=SIDE) | (few if name == "mrope" else {})
    encoding = seeded(lambda: make(name, **options)).double()
    vector = torch.ones(1, 1, 1, LANES, dtype=torch.float64) / LANES**0.25
    k = vector.expand(1, 1, SIDE * SIDE, LANES)
    at = dict(pos_q=grid[len(grid) // 2][None], pos_k=grid)
    with torch.no_grad():
        shares = attention(vector, k, k, encoding, causal=False, scale=1.0, return_weights=True, **at)[1]
    return shares.view(SIDE, SIDE)


@functools.cache
def thumbnail(name: str) -> str:
    r"""A method's attention over the first preset sentence, or over a picture, as an SVG: a path for each shade."""
    shares = around(name) if METHODS[name].axes else weights(name, PRESETS[0].split())
    top = shares.max().item() if METHODS[name].axes else 0.35
    count, paths = len(shares), {}
    for i, row in enumerate(shares.tolist()):
        for j, share in enumerate(row):
            if shade := round(SHADES * min(1.0, share / top) ** 0.7):
                paths[shade] = paths.get(shade, "") + f"M{j} {i}h1v1h-1z"
    drawn = "".join(f'<path d="{d}" opacity="{shade / SHADES:.3g}"/>' for shade, d in sorted(paths.items()))
    return f'<svg class="method-map" viewBox="0 0 {count} {count}" aria-hidden="true">{drawn}</svg>'


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
    r"""A method: its map, its name, its idea, its places, and its lab, here and in Colab."""
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
        f'<li class="method" data-places="{" ".join(method.places)}">{thumbnail(name)}<div>'
        f'<a class="method-name" href="../{row.page}/index.html">{escape(method.title)}</a>'
        f"<p>{escape(row.idea)}</p><p>{places} {links}</p></div></li>"
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
