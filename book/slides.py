r"""Write the slides of six sessions: `make slides`.

`python book/slides.py` reads course/slides/*.md and writes for each `slides/<session>.html`, one file that holds all
it needs, and `slides/<session>.pdf`, a page a slide, printed by Chromium. `python book/slides.py rope --no-pdf` writes
one.

A session is Markdown. Its head (YAML) has `title` and `numbers`, the functions `page.function` of posenc/lab/pages
whose numbers the slides say, as `{glue:text}`, like the book's pages. A line `---` parts slides. On a slide

    ## Title
    text, formulas, tables                     as in the book
    - [ ] an answer    - [x] the right one     voted on; the right one is marked with the first step
    ```{explorable} rope.rotation_invariance   a figure with sliders
    ```{drawn} rope.absolute_figure            a page's drawing; the block holds its alt text
    +++                                        what follows comes with the next press of a key
    ???                                        the speaker's script: lines `minutes: 5`, and `say:`, `predict:`,
                                               `vote:`, `reveal:`, `board:`

The slides are our own script and style sheet, some 80 lines each, and no reveal.js: that is some 200 kB for themes and
moves that are not used here, it scales a slide by a transform, under which a figure can't be taken in hand, and its
notes are a second file, which browsers keep apart from the first where both are opened from disk.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import html
import importlib
import io
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))
from bundle import FACE, STIX, cut_font, math_characters  # noqa: E402
from mathml import mathml, wrap  # noqa: E402

from posenc.lab.explore import STATIC  # noqa: E402
from posenc.lab.figures import load  # noqa: E402
from posenc.lab.pages import collected, say  # noqa: E402

SOURCES = ROOT / "course" / "slides"
TO = ROOT / "slides"
HERE = Path(__file__).parent
WIDTH, HEIGHT = 1280, 720
MINUTES = 50
SCRIPT = ("minutes", "say", "predict", "vote", "reveal", "board")
# Nothing may be fetched: all that a deck shows stands in it.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; font-src data:"


@dataclass
class Slide:
    r"""One slide: its Markdown in steps, and the speaker's script, [(what, words), ...]."""

    steps: list[str]
    script: list[tuple[str, str]] = field(default_factory=list)

    @property
    def minutes(self) -> int:
        return sum(int(words) for what, words in self.script if what == "minutes")


def read(path: Path) -> tuple[dict, list[Slide]]:
    r"""The head and the slides of a session.

    Errors: SystemExit, naming file and slide, for a slide without minutes, an unknown word of the script, a wrong sum.
    """
    _, head, body = re.split(r"^---\n", path.read_text("utf-8"), maxsplit=2, flags=re.MULTILINE)
    slides = []
    for number, text in enumerate(re.split(r"^---\n", body, flags=re.MULTILINE), start=1):
        shown, _, notes = text.partition("\n???\n")
        script = re.findall(r"^(\w+): (.+(?:\n(?!\w+: ).+)*)", notes, re.MULTILINE)
        slide = Slide(re.split(r"^\+\+\+\n", shown, flags=re.MULTILINE), script)
        unknown = [what for what, _ in script if what not in SCRIPT]
        if unknown or not slide.minutes:
            raise SystemExit(f"{path.name}, slide {number}: the script needs `minutes: N` and words of {SCRIPT}")
        slides.append(slide)
    total = sum(slide.minutes for slide in slides)
    if total != MINUTES:
        raise SystemExit(f"{path.name}: the slides' minutes sum to {total}, not to {MINUTES}")
    return yaml.safe_load(head), slides


def numbers(functions) -> dict[str, str]:
    r"""What these functions of posenc.lab.pages say; what one returns gets the page's name before its own."""
    with collected() as said:
        for function in functions:
            page, name = function.split(".")
            for key, value in (getattr(importlib.import_module(f"posenc.lab.pages.{page}"), name)() or {}).items():
                say(f"{page}_{key}", str(value))
    return said


def figure(id: str, prefix: str) -> str:
    r"""An explorable with its states and, until it is opened and on paper, its picture."""
    shown = load(id)
    picture = base64.b64encode(shown.pictures()[0].read_bytes()).decode()
    body = shown.body_html(prefix, f"data:image/svg+xml;base64,{picture}", inline=True)
    return f'<figure class="explorable explorable-notebook" id="{prefix}">{body}</figure>\n'


def drawn(function: str, alt: str) -> str:
    r"""What a function of posenc.lab.pages draws with matplotlib, as SVG."""
    import matplotlib.pyplot as plt

    page, name = function.split(".")
    picture = getattr(importlib.import_module(f"posenc.lab.pages.{page}"), name)() or plt.gcf()
    out = io.BytesIO()
    picture.savefig(out, format="svg", metadata={"Date": None})
    plt.close("all")
    source = base64.b64encode(out.getvalue()).decode()
    return f'<img class="drawn" src="data:image/svg+xml;base64,{source}" alt="{html.escape(" ".join(alt.split()))}">\n'


def answers(page: str) -> str:
    r"""Lists of [ ] and [x] as lettered answers."""

    def item(found: re.Match) -> str:
        kind = ' class="right"' if found[1] == "x" else ""
        return f"<li{kind}>"

    page = re.sub(r"<ul>(?=\s*<li>\[[ x]\])", '<ol class="answers">', page)
    page = re.sub(r'(<ol class="answers">.*?)</ul>', r"\1</ol>", page, flags=re.DOTALL)
    return re.sub(r"<li>\[([ x])\] ", item, page)


class Deck:
    r"""A session as HTML."""

    def __init__(self, name: str, head: dict, slides: list[Slide]):
        self.name, self.title, self.slides, self.figures = name, head["title"], slides, 0
        self.said = numbers(head.get("numbers", ()))
        self.markdown = MarkdownIt("commonmark").enable("table")
        self.markdown.use(dollarmath_plugin, renderer=lambda tex, how: self.formula(tex, how["display_mode"]))
        self.markdown.renderer.rules["fence"] = self.fence

    def formula(self, tex: str, display: bool) -> str:
        return mathml(wrap(tex.strip()) if display else tex.strip(), display)

    def fence(self, tokens, index, *_) -> str:
        words, inside = tokens[index].info.split(), tokens[index].content
        if words[:1] == ["{explorable}"]:
            self.figures += 1
            return figure(words[1], f"figure-{self.figures}")
        if words[:1] == ["{drawn}"]:
            return drawn(words[1], inside)
        return f"<pre><code>{html.escape(inside)}</code></pre>\n"

    def filled(self, text: str) -> str:
        r"""Markdown with its numbers. Errors: SystemExit for a number that nobody says."""

        def number(found: re.Match) -> str:
            if found[1] not in self.said:
                raise SystemExit(f"{self.name}.md: no number is called {found[1]!r}; there are {sorted(self.said)}")
            return self.said[found[1]]

        return re.sub(r"\{glue:text\}`(\w+)`", number, text)

    def slide(self, slide: Slide, number: int) -> str:
        first, *steps = (answers(self.markdown.render(self.filled(step))) for step in slide.steps)
        kind = "slide title" if number == 1 else "slide"
        later = "".join(f'<div class="step">{step}</div>' for step in steps)
        lines = ((what, self.markdown.renderInline(self.filled(words))) for what, words in slide.script)
        script = "".join(f"<p><b>{what}</b> {words}</p>" for what, words in lines)
        return (
            f'<section class="{kind}" id="slide-{number}"><div class="inside">{first}{later}</div>'
            f"<footer>{html.escape(self.title)} · {number} of {len(self.slides)}</footer>"
            f'<aside class="script" hidden>{script}</aside></section>\n'
        )

    def html(self) -> str:
        slides = "".join(self.slide(slide, number) for number, slide in enumerate(self.slides, start=1))
        face = FACE.format("posenc-math", "normal", 400, cut_font(STIX, math_characters([slides])))
        library = (STATIC / "plotly-cartesian.min.js").read_bytes()
        plotly = base64.b64encode(gzip.compress(library, 9, mtime=0)).decode()
        player = (STATIC / "player.js").read_text("utf-8").replace("</script", "<\\/script")
        return (
            '<!doctype html>\n<html lang="en" data-theme="light">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{html.escape(self.title)}</title>\n<style>{face}\n{(STATIC / 'player.css').read_text('utf-8')}\n"
            f"{(HERE / 'slides.css').read_text('utf-8')}</style>\n</head>\n<body>\n<main>\n{slides}</main>\n"
            f"<script>(function(define, module, exports){{\n{player}\n}})();</script>\n"
            f'<script>const PLOTLY = "{plotly}";\n{(HERE / "slides.js").read_text("utf-8")}</script>\n'
            "</body>\n</html>\n"
        )


def write(name: str, to: Path = TO, sources: Path = SOURCES) -> Path:
    r"""Write one session's slides; the file."""
    to.mkdir(parents=True, exist_ok=True)
    path = to / f"{name}.html"
    path.write_text(Deck(name, *read(sources / f"{name}.md")).html(), "utf-8")
    return path


def print_pdf(paths: list[Path], browser) -> None:
    r"""Print each deck beside it, a page a slide; its figures are their pictures."""
    page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
    for path in paths:
        page.goto(f"{path.resolve().as_uri()}?print")
        page.evaluate("document.fonts.ready")
        page.pdf(path=path.with_suffix(".pdf"), prefer_css_page_size=True, print_background=True)
    page.close()


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    known = sorted(path.stem for path in SOURCES.glob("*.md"))
    parser.add_argument("sessions", nargs="*", metavar="SESSION", help=f"default: all of {', '.join(known)}")
    parser.add_argument("--no-pdf", action="store_true", help="write the HTML alone (needs no Chromium)")
    parser.add_argument("--to", type=Path, default=TO, metavar="DIR")
    options = parser.parse_args(arguments)
    if unknown := set(options.sessions) - set(known):
        parser.error(f"no session is called {min(unknown)!r}; there are {', '.join(known)}")
    paths = [write(name, options.to) for name in options.sessions or known]
    if not options.no_pdf:
        from playwright.sync_api import sync_playwright

        from posenc.lab.explore import BROWSER_ARGS, find_chromium

        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=find_chromium(), args=BROWSER_ARGS)
            print_pdf(paths, browser)
            browser.close()
    print(f"wrote {options.to}: {', '.join(path.stem for path in paths)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
