r"""Figures of the built book as the weekly run tries them: on the screens of a laptop and a phone."""

import pytest

from conftest import SITE
from posenc.chapters import all_explorables, load

pytestmark = [pytest.mark.browser, pytest.mark.weekly]


def shown() -> dict[str, list[str]]:
    r"""{page: the explorables that it shows by the directive}; each stands at the first page that has it."""
    left, out = sorted(all_explorables()), {}
    for path in sorted(SITE.glob("*/**/*.html")):
        text = path.read_text("utf-8")
        here = [id for id in left if f'data-src="{id}.' in text]
        if here:
            out[path.relative_to(SITE).as_posix()] = here
            left = [id for id in left if id not in here]
    return out


SHOWN = shown()


# A figure that waits for the answer to a question.
UNCOVER = "(id) => { posencExplorables.get(id).figure.classList.remove('explorable-waits'); }"


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
        document.activeElement.blur();  // whatever was in hand before
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
