r"""Figures of the built book as the weekly run tries them: on a laptop and a phone, and by each handle."""

import math

import pytest
from conftest import SITE, missing

from posenc.lab.figures import all_explorables, load

pytestmark = [pytest.mark.browser, pytest.mark.weekly]


def shown() -> dict[str, list[str]]:
    r"""{page: the explorables that it shows by the directive}; each stands at the first page that has it."""
    left, out = sorted(all_explorables()), {}
    for path in sorted(SITE.glob("*/*.html")):
        text = path.read_text("utf-8")
        here = [id for id in left if f'data-src="{id}.' in text]
        if here:
            out[path.relative_to(SITE).as_posix()] = here
            left = [id for id in left if id not in here]
    return out


SHOWN = shown()


def shown_on(id: str) -> str:
    return next((page for page, ids in SHOWN.items() if id in ids), None) or missing(f"{id} is on no built page")


# A figure that waits for the answer to a question.
UNCOVER = "(id) => { posencExplorables.get(id).figure.querySelector('.explorable-cover button')?.click(); }"


@pytest.fixture(scope="module")
def kept(base, open_page):
    r"""kept(page) -> that page, open; it stays open until another is asked for."""
    last = {}

    def get(name):
        if name not in last:
            for page in last.values():
                page.context.close()
            last.clear()
            last[name] = open_page(base + name)
        return last[name]

    yield get
    for page in last.values():
        page.context.close()


@pytest.fixture(scope="module")
def figure(request, kept):
    r"""(explorable, page that shows it)"""
    e = load(request.param)
    page = kept(shown_on(e.id))
    page.evaluate(UNCOVER, e.id)
    page.evaluate("async (id) => { await posencExplorables.get(id).start(); }", e.id)
    yield e, page
    page.evaluate("(id) => posencExplorables.get(id).figure.querySelector('.explorable-reset').click()", e.id)


SCREENS = {"laptop": (1440, 780), "phone": (390, 664)}
FITS = """async (id) => {
    const e = posencExplorables.get(id), of = (what) => e.figure.querySelector(what).getBoundingClientRect();
    document.documentElement.dataset.whole = "";
    await e.start();
    const bar = document.querySelector('.bd-header-article'), free = innerHeight - bar.offsetHeight;
    const out = {free, all: of('.explorable-controls').bottom - of('.explorable-view').top, hidden: []};
    for (const control of e.controls) {
        const input = control.element.querySelector('input:not(:disabled)');
        if (!input) continue;
        document.activeElement.blur();  // whoever takes off a cover has the first control in hand
        e.figure.scrollIntoView({block: 'end', behavior: 'instant'});
        input.focus();
        await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        const plot = of('.explorable-plot'), own = control.element.getBoundingClientRect();
        const ends = Math.max(plot.bottom, own.bottom), under = own.top < plot.bottom - 1 && own.left < plot.right - 1;
        if (plot.top < bar.offsetHeight - 1 || ends > innerHeight + 1 || under) {
            out.hidden.push(control.element.dataset.name);
        }
    }
    return out;
}"""
HEIGHTS = """async ([id, states]) => {
    const e = posencExplorables.get(id), out = new Set();
    for (const state of states) {
        e.set(state);
        await posencExplorables.idle();
        out.add(Math.round(e.figure.getBoundingClientRect().height));
    }
    return [...out];
}"""


@pytest.mark.parametrize("page", SHOWN)
def test_picture_and_controls_are_on_one_screen_and_nothing_jumps(page, base, open_page):
    """On a phone the plot stays in sight beside the control in use; on a laptop all of both is in sight at once."""
    opened, wrong = open_page(base + page), []
    try:
        for screen, (width, height) in SCREENS.items():
            opened.set_viewport_size({"width": width, "height": height})
            opened.evaluate("() => posencExplorables.idle()")
            opened.evaluate("() => document.fonts.ready.then(() => null)")  # a face that comes late moves lines
            for id in SHOWN[page]:
                opened.evaluate(UNCOVER, id)
                got = opened.evaluate(FITS, id)
                if got["hidden"] or (screen != "phone" and got["all"] > got["free"] + 1):
                    wrong.append(f"{id} on the {screen}: {got}")
                heights = opened.evaluate(HEIGHTS, [id, load(id).random_states(12, seed=6)])
                if len(heights) > 1:
                    wrong.append(f"{id} jumps on the {screen}: heights {heights}")
        assert not wrong, wrong
    finally:
        opened.context.close()


REST = "() => posencExplorables.idle()"
DRAG = """([id, i]) => {
    const own = posencExplorables.get(id).figure.querySelectorAll('.explorable-handle')[i];
    const ring = own.getBoundingClientRect(), x = ring.x + ring.width / 2, y = ring.y + ring.height / 2;
    return {x, y, hidden: ring.width === 0, above: document.elementFromPoint(x, y) === own};
}"""


@pytest.mark.parametrize("figure", [id for ids in SHOWN.values() for id in ids if load(id).handles], indirect=True)
def test_each_handle_takes_the_figure_along(figure):
    """From the default state to another, by dragging the point to where that state has it."""
    e, page = figure
    for i, (trace, bound) in enumerate(e.handles.items()):
        for goal in e.random_states(12, seed=i)[1:]:
            start = {**goal, **{name: e.default_state()[name] for name in bound}}
            wanted = goal
            where = []
            for state in (wanted, start):
                page.evaluate("([id, state]) => posencExplorables.get(id).set(state)", [e.id, state])
                page.evaluate(REST)  # what is greyed, at rest, cannot be taken
                where.append(page.evaluate(DRAG, [e.id, i]))
            (to, at) = where
            if wanted == start or to["hidden"] or at["hidden"]:
                continue
            page.evaluate("(id) => posencExplorables.get(id).figure.scrollIntoView({block: 'start'})", e.id)
            page.evaluate(REST)
            now = page.evaluate(DRAG, [e.id, i])
            if not now["above"]:
                continue  # another ring lies over this one
            page.mouse.move(now["x"], now["y"])
            page.mouse.down()
            page.mouse.move(now["x"] + (to["x"] - at["x"]) / 2, now["y"] + (to["y"] - at["y"]) / 2)
            page.mouse.move(now["x"] + to["x"] - at["x"], now["y"] + to["y"] - at["y"])
            page.mouse.up()
            page.evaluate(REST)
            moved = page.evaluate(DRAG, [e.id, i])
            far = math.hypot(moved["x"] - now["x"] - to["x"] + at["x"], moved["y"] - now["y"] - to["y"] + at["y"])
            assert far <= 3, f"{e.id}: {trace} did not come along to {wanted}: {far:.0f} pixels away"
            break
        else:
            pytest.fail(f"{e.id}: no state tries the handle {trace}")
