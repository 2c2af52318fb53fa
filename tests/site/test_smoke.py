r"""Each page of the built book in a real browser, once: it loads, the console is clean, nothing leaves the machine, axe
finds nothing, a phone scrolls no way but down, and each figure starts and holds Python's numbers.

Nothing here waits for a time: fonts, pictures and the player say when they are done.
"""

import re

import numpy as np
import pytest
from conftest import SITE, missing

from posenc.lab.explore.leaves import figure_leaves
from posenc.lab.figures import all_explorables, load

pytestmark = pytest.mark.browser

PAGES = [
    path.relative_to(SITE).as_posix()
    for path in [*sorted(SITE.glob("[bn]*/*.html")), *sorted(SITE.glob("embed/*.html"))[:1]]
] or ["book/intro.html"]  # where nothing is built, one test that says so

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
    figure.figure.querySelector('.explorable-cover button')?.click(); // a figure that waits for an answer
    figure.set(state);
    await posencExplorables.idle();
    const said = ({element}) => element.querySelector('input[type=range]')?.getAttribute('aria-valuetext')
        ?? element.querySelector('input:checked').parentElement.textContent;
    const plain = (v) => (ArrayBuffer.isView(v) ? Array.from(v) : Array.isArray(v) ? v.map(plain)
        : Object(v) === v ? Object.fromEntries(Object.entries(v).map(([k, w]) => [k, plain(w)])) : v);
    const {data, layout: {template, ...layout}} = figure.figure.querySelector('.explorable-drawing');
    return {data: plain(data), layout: plain(layout), readout: figure.readout(), said: figure.controls.map(said)};
}"""
# What the tooltips of a few points say, some of them where the axis has a tick, and what the trace holds there.
HOVER = """(id) => {
    const sheet = posencExplorables.get(id).figure.querySelector('.js-plotly-plot'), out = [];
    const own = (list, at) => (at !== undefined && Object(list) === list ? list[at] : list);
    const few = (list) => list.filter((_, n) => n % Math.ceil(list.length / 3) === 0);
    for (const trace of sheet._fullData.filter((trace) => trace.visible === true && trace.hovertemplate)) {
        const {x, y, z, text, customdata, marker, index, hovertemplate: template} = trace;
        const axis = (which) => sheet._fullLayout[trace[`${which}axis`].replace(which, `${which}axis`)];
        const named = (which, p) => Boolean(axis(which).ticktext) && axis(which).tickvals.includes(p[which]);
        const point = (at, r, c) => {
            const [held, words, size] = [customdata, text, marker?.size].map((list) => own(own(list, r), c));
            return {at, x: x[c ?? r], y: y[r], z: z?.[r][c], text: words, customdata: held, 'marker.size': size};
        };
        const points = z ? [...z].flatMap((row, r) => Array.from(row, (_, c) => point([r, c], r, c)))
            : Array.from(x, (_, at) => point(at, at));
        const words = ['x', 'y'].filter((which) => points.every((p) => named(which, p)))
            .filter((which) => !/[0-9]/.test(axis(which).ticktext)); // a name for each point
        const chosen = new Set([...few(points), ...few(points.filter((p) => named('x', p) || named('y', p)))]);
        for (const held of chosen) {
            Plotly.Fx.unhover(sheet); // else the next tooltip waits
            Plotly.Fx.hover(sheet, [{curveNumber: index, pointNumber: held.at}], trace.xaxis + trace.yaxis);
            const shown = sheet.querySelector('.hoverlayer .nums')?.textContent;
            if (shown !== undefined) out.push({template, shown, held, words}); // a gap has none
        }
    }
    Plotly.Fx.unhover(sheet);
    return out;
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
                found = ["" if word == " " else word for word in found]  # as the player writes an empty label
            if not close(value, found):
                wrong.append(f"{e.id} at {state}: {item}.{path} is {found}, not {value}")
    wanted = e.readout_text(readouts)
    if e.readout and not same_words(got["readout"], wanted):
        wrong.append(f"{e.id} at {state}: says {got['readout']!r}, not {wanted!r}")
    words = [s.words[s.index(state[name])] for name, s in e.sliders.items()]
    if got["said"] != words:
        wrong.append(f"{e.id} at {state}: its controls say {got['said']}, not {words}")
    return wrong


def told_wrong(template: str, shown: str, held: dict, words: list[str]) -> list[str]:
    r"""Where a tooltip says anything else than its trace holds, to the last digit. plotly's `%{x}` is where a bar with
    a base ends and, where an axis names its ticks, a name; a format that it can't read is left out."""
    plain, *parts = re.split(r"%\{([^}:]+):?([^}]*)\}", re.sub("<[^>]*>", "", template))
    pattern = re.escape(plain) + "".join(f"(.*){re.escape(after)}" for after in parts[2::3])
    if not (found := re.fullmatch(pattern, shown.replace("\u200b", ""))):
        return [f"{shown!r} is not {template!r}"]
    wrong = []
    for path, spec, word in zip(parts[::3], parts[1::3], found.groups()):
        name, _, place = path.rstrip("]").partition("[")
        value = held[name][int(place)] if place else held[name]
        try:
            got, unit = number(word.replace(",", ""))
            right = len(word) < 12 and abs(got - value * (100 if spec.endswith("%") else 1)) <= 0.51 * unit
        except (TypeError, ValueError):
            right = word == re.sub("<[^>]*>", "", str(value)) or (path in words and not spec)
        wrong += [] if right else [f"{shown!r}: {path} is {value!r}"]
    return wrong


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.weekly)], ids=["", "whole"])
def test_a_page(name, whole, base, open_page):
    r"""Each figure at two states; `whole`: at twenty, and axe once more, in the dark on a phone."""
    page = open_page(base + name)
    try:
        assert page.evaluate(LOADED) == []
        page.evaluate(REACHED)
        assert axe(page, code=name in ("book/rope.html", "notebooks/rope.html")) == []
        reserved = page.evaluate(HEIGHTS)
        shown = page.evaluate(START)
        assert page.evaluate(HEIGHTS) == reserved, "something moved as the drawings came"
        wrong = []
        for id in shown:
            e = load(id)
            for state in reversed(e.random_states(20 if whole else 2, seed=2)):
                wrong += differences(e, state, page.evaluate(SET, [id, state]))
                for tooltip in page.evaluate(HOVER, id):
                    wrong += [f"{id} at {state}: {fault}" for fault in told_wrong(**tooltip)]
        assert wrong == []
        page.set_viewport_size({"width": 360, "height": 740})
        assert page.evaluate(SIDEWAYS) == []
        if whole:
            page.evaluate(DARK)
            page.evaluate(REACHED)
            assert axe(page, code=False) == []
        assert page.log.problems == []
    finally:
        page.context.close()


def test_every_explorable_is_on_a_page(site):
    text = "".join(path.read_text("utf-8") for path in site.glob("book/*.html"))
    assert [id for id in all_explorables() if f'data-src="{id}.' not in text] == []
