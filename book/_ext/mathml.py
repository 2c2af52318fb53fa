r"""Formulas as MathML, made while the book is built: shown without a script, and read out by screen readers.

Temml (book/_vendor/temml) turns TeX into MathML; it is JavaScript and runs in V8 through mini-racer. The browser sets
MathML with the font that book/_ext/bundle.py cuts from STIX Two Math. A formula that Temml refuses is a warning.

Queries, keys, their positions, frequencies and distances have the colors that figures give them, where a letter means
that: q and k with an index everywhere, other letters on the pages that `SPEAKING` lists.
"""

import functools
import html
import re
from pathlib import Path

from docutils import nodes
from py_mini_racer import JSEvalException, MiniRacer
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

logger = logging.getLogger(__name__)

TEMML = Path(__file__).resolve().parents[1] / "_vendor" / "temml" / "temml.min.js"

# A letter that means two things on a page is on its list in neither: there k counts blocks, d begins a differential.
KIND = {"q": "query", "m": "query", "k": "key", "n": "key", "ω": "frequency", "d": "distance"}
SPEAKING = {
    "intro": "qkmn",
    "rope": "qkmnωd",
    "rope_closely": "qkmnωd",
    "exposb": "mnω",
    "scaling": "ωd",
    "sinusoidal": "ω",
    "rope2d": "qkω",
    "comrope": "ω",
    "alibi": "d",
    "rse": "d",
    "stickbreaking": "d",
}


@functools.cache
def temml() -> MiniRacer:
    engine = MiniRacer()
    engine.eval(TEMML.read_text("utf-8"))
    return engine


@functools.cache
def mathml(tex: str, display: bool) -> str:
    r"""The `<math>` element of a formula.

    Errors: ValueError with the formula and Temml's reason.
    """
    options = {"displayMode": display, "throwOnError": True, "strict": False}
    try:
        return temml().call("temml.renderToString", tex, options)
    except JSEvalException as error:
        reason = next((line for line in str(error).splitlines() if "ParseError" in line), str(error))
        raise ValueError(f"formula {tex!r}: {reason.strip()}") from error


def colored(formula: str, page: str) -> str:
    r"""The formula with the kind of what its letters stand for on a page as their class; posenc.css has the colors."""
    letters = SPEAKING.get(page.removesuffix("/index").split("/")[-1], "")

    def mark(found: re.Match) -> str:
        indexed, letter = found.groups(default="")
        return f'{indexed}<mi class="{KIND[letter]}">{letter}</mi>' if indexed or letter in letters else found[0]

    return re.sub(r"(<msub(?:sup)?>(?=<mi>[qk]<))?<mi>([qkmnωd])</mi>", mark, formula)


def wrap(tex: str) -> str:
    r"""Rows that stand in no environment are aligned, as Sphinx does for its other renderers."""
    outside = re.sub(r"\\begin\{(\w+\*?)\}.*\\end\{\1\}", "", tex, flags=re.DOTALL)
    return rf"\begin{{split}}{tex}\end{{split}}" if r"\\" in outside else tex


def render(node: nodes.Element, display: bool, page: str) -> str:
    tex = node.astext().strip()
    try:
        return colored(mathml(wrap(tex) if display and not node.get("nowrap") else tex, display), page)
    except ValueError as error:
        logger.warning("%s", error, location=node)
        return f"<code>{html.escape(tex)}</code>"


def visit_inline(self, node: nodes.math) -> None:
    formula = render(node, False, self.builder.current_docname)
    self.body.append(self.starttag(node, "span", "", CLASS="math") + formula + "</span>")
    after = node.next_node(descend=False, siblings=True)
    if isinstance(after, nodes.Text) and after.astext().startswith(tuple(".,;:!?)")):
        self.body.append("\u2060")  # a word joiner: no line begins with a full stop
    raise nodes.SkipNode


def visit_display(self, node: nodes.math_block) -> None:
    self.body.append(self.starttag(node, "div", CLASS="math"))
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append(render(node, True, self.builder.current_docname) + "</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    app.add_html_math_renderer("temml", (visit_inline, None), (visit_display, None))
