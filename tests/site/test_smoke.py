r"""Each page of the built book in a real browser, once: it loads, the console is clean, nothing leaves the machine, axe
finds nothing, a phone scrolls no way but down, and each figure starts and holds Python's numbers.

Nothing here waits for a time: fonts, pictures and the player say when they are done.
"""

import numpy as np
import pytest

from conftest import built_pages, missing
from posenc.chapters import all_explorables, load
from posenc.lab.explore.leaves import figure_leaves

pytestmark = pytest.mark.browser

# Where nothing is built, one test that says so.
PAGES = [*built_pages("book", "notebooks"), *built_pages("embed")[:1]] or ["book/intro/index.html"]

LOADED = """async () => {
    // Sections that have not been laid out yet would lie over each other.
    for (const section of document.querySelectorAll('section')) section.style.contentVisibility = 'visible';
    const wrong = [];
    for (const picture of document.images) {
        picture.loading = 'eager';
        await picture.decode().catch(() => wrong.push(`broken: ${picture.src}`));
        const words = picture.alt.trim().replace(/.*\\.(svg|png|gif)$/, ''); // else Sphinx names the file
        if (!picture.closest('a, button') && !words) wrong.push(`no words for ${picture.src}`);
    }
    for (const math of document.querySelectorAll('span.math, div.math')) {
        if (!math.querySelector('math') || math.querySelector('merror, .temml-error')) wrong.push(math.outerHTML);
    }
    const faces = {'.bd-article': 'posenc-text', math: 'posenc-math'};
    for (const face of Object.keys(faces).filter((what) => document.querySelector(what)).map((what) => faces[what])) {
        if (!(await document.fonts.load(`16px ${face}`)).length) wrong.push(`${face} is no face of the page`);
    }
    await document.fonts.ready;
    dispatchEvent(new Event('keydown')); // the reader begins
    return wrong;
}"""
# What scrolls sideways must be reached by keyboard; site.js sees to it bit by bit, when the page is at rest.
REACHED = """async () => {
    const left = () => [...document.querySelectorAll('.bd-article :is(pre, .math, .pst-scrollable-table-container)')]
        .some((place) => place.scrollWidth > place.clientWidth && place.tabIndex < 0);
    while (left()) await new Promise((done) => requestAnimationFrame(done));
}"""
HEIGHTS = "() => [...document.querySelectorAll('figure.explorable')].map((figure) => figure.offsetHeight)"
START = """async () => {
    if (!window.posencExplorables) return [];
    const list = posencExplorables.list;
    await Promise.all(list.map((figure) => figure.start()));
    await posencExplorables.idle();
    return list.filter((figure) => figure.controls).map((figure) => figure.id);
}"""
SET = """async ([id, state]) => {
    const figure = posencExplorables.get(id);
    figure.figure.classList.remove('explorable-waits'); // one whose answer is missing
    figure.set(state);
    await posencExplorables.idle();
    const said = ({element}) => element.querySelector('input[type=range]')?.getAttribute('aria-valuetext')
        ?? element.querySelector('input:checked').parentElement.textContent;
    const plain = (v) => (ArrayBuffer.isView(v) ? Array.from(v) : Array.isArray(v) ? v.map(plain)
        : Object(v) === v ? Object.fromEntries(Object.entries(v).map(([k, w]) => [k, plain(w)])) : v);
    const {data, layout: {template, ...layout}} = figure.figure.querySelector('.explorable-drawing');
    return {data: plain(data), layout: plain(layout), readout: figure.readout(), said: figure.controls.map(said)};
}"""
SIDEWAYS = """async () => {
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const wide = document.documentElement.scrollWidth, out = (e) => e.getBoundingClientRect().right > innerWidth + 1;
    const culprits = [...document.querySelectorAll('.bd-main *')].filter(out).slice(0, 5);
    return wide <= 360 ? [] : [`${wide} pixels wide`, ...culprits.map((element) => element.outerHTML.slice(0, 120))];
}"""


DARK = """async () => {
    document.documentElement.dataset.theme = 'dark';
    await window.posencExplorables?.idle();
}"""


def axe(page, code: bool) -> list[str]:
    r"""What axe-core finds. A drawing is one picture with words to a screen reader, thousands of elements to axe; a
    formula is the browser's; the colors of code are asked for where `code` is true: they are the same on each page."""
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        missing("axe is missing: .venv/bin/pip install axe-playwright-python")
    without = [[".explorable-drawing"], ["math"], *([] if code else [["pre"]])]
    options = {"rules": {"target-size": {"enabled": True}}, "resultTypes": ["violations"]}  # WCAG 2.2 is left out else
    found = Axe().run(page, context={"exclude": without}, options=options).response["violations"]
    faults = [(v, node["html"]) for v in found for node in v["nodes"]]
    # A heading of a table that is a formula: axe counts no MathML as text, browsers hand it to screen readers.
    faults = [(v, markup) for v, markup in faults if not (v["id"] == "empty-table-header" and "<math" in markup)]
    return [f"{v['impact']} {v['id']}: {v['help']}: {markup[:300]}" for v, markup in faults[:10]]


AS_PYTHON = str.maketrans("−⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "--0123456789")


def number(word: str) -> tuple[float, float]:
    r"""The number that a word of a readout is, and one unit of its last digit.

    Errors: ValueError where it is none.
    """
    digits, _, power = word.translate(AS_PYTHON).strip("().,;%×").replace("×10", "e").partition("e")
    return float(f"{digits}e{power or 0}"), 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))


def same_words(one: str, two: str) -> bool:
    r"""Equal but for one unit of the last digit of a number: readouts are stored in four bytes."""
    try:
        pairs = [(number(left), number(right)) for left, right in zip(one.split(), two.split()) if left != right]
    except ValueError:
        return False
    return len(one.split()) == len(two.split()) and all(abs(a - b) <= 1.01 * unit for (a, _), (b, unit) in pairs)


def close(expected, got) -> bool:
    if not isinstance(expected, np.ndarray):
        return expected == got
    if expected.size == 0:
        return isinstance(got, np.ndarray) and got.size == 0
    return (
        isinstance(got, np.ndarray)
        and expected.shape == got.shape
        and np.allclose(expected, got, atol=1e-3, rtol=1e-6, equal_nan=True)
    )


def differences(e, state: dict, got: dict) -> list[str]:
    r"""Where plotly holds, or the page says, anything else than the Python function at a state."""
    expected, wrong = e.evaluate(state), []
    readouts = expected.pop("readout")
    held = figure_leaves({"data": got["data"], "layout": got["layout"]})
    scaled = any(path.endswith(".scaleanchor") for path in expected["layout"])
    for item, leaves in expected.items():
        for path, value in leaves.items():
            if item == "layout" and (path == "height" or (scaled and path.endswith((".range", ".domain")))):
                continue  # the page decides the size, plotly how axes that share a scale fill it
            found = held[item].get(path)
            if path == "text" and isinstance(found, list):
                # The player writes an empty label as a space.
                found, value = (["" if word == " " else word for word in words] for words in (found, value))
            if not close(value, found):
                wrong.append(f"{e.id} at {state}: {item}.{path} is {found}, not {value}")
    wanted = e.readout_text(readouts)
    if e.readout and not same_words(got["readout"], wanted):
        wrong.append(f"{e.id} at {state}: says {got['readout']!r}, not {wanted!r}")
    words = [s.words[s.index(state[name])] for name, s in e.sliders.items()]
    if got["said"] != words:
        wrong.append(f"{e.id} at {state}: its controls say {got['said']}, not {words}")
    return wrong


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.weekly)], ids=["", "whole"])
def test_a_page(name, whole, base, open_page):
    r"""Each figure at two states; `whole`: at twenty, and axe once more, in the dark on a phone."""
    page = open_page(base + name)
    assert page.evaluate(LOADED) == []
    page.evaluate(REACHED)
    assert axe(page, code=name in ("book/rope/index.html", "notebooks/rope.html")) == []
    reserved = page.evaluate(HEIGHTS)
    shown = page.evaluate(START)
    assert page.evaluate(HEIGHTS) == reserved, "something moved as the drawings came"
    wrong = []
    for id in shown:
        e = load(id)
        for state in reversed(e.random_states(20 if whole else 2, seed=2)):
            wrong += differences(e, state, page.evaluate(SET, [id, state]))
    assert wrong == []
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate(SIDEWAYS) == []
    if whole:
        page.evaluate(DARK)
        page.evaluate(REACHED)
        assert axe(page, code=False) == []
    assert page.log.problems == []


def test_every_explorable_is_on_a_page(site):
    text = "".join(path.read_text("utf-8") for path in site.glob("book/*/*.html"))
    assert [id for id in all_explorables() if f'data-src="{id}.' not in text] == []
