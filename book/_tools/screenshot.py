"""Take the README's pictures from the book as built, `make screenshot`: the landing page, and its clock in motion."""

import io

from PIL import Image
from playwright.sync_api import sync_playwright

from posenc.chapters.intro.figures import two_hands
from posenc.lab.explore import BROWSER_ARGS, find_chromium
from posenc.lab.write import ROOT

SITE = ROOT / "_build/html"
PICTURE, LOOP = ROOT / "book/_static/screenshot.png", ROOT / "book/clock.gif"
LIVE = "figure.explorable-live"


def states():
    """(state, how long it stands in ms): the bracket there and back, then one word alone."""
    start = two_hands.default_state()
    there = [start | {"shift": shift} for shift in two_hands.sliders["shift"].values]
    alone = [start | {"m": m} for m in range(start["m"] + 1, start["m"] + 5)]
    for state in (*there, *there[-2::-1], *alone, *alone[-2::-1], start):
        yield state, 900 if state in (start, there[-1], alone[-1]) else 140


def loop(page):
    """The clock at one state after the other, as a GIF."""
    page.goto((SITE / "embed/intro.two_hands.html").as_uri())
    page.mouse.move(5, 5)
    page.locator(LIVE).wait_for()
    view, frames, times = page.locator(".explorable-view"), [], []
    for state, pause in states():
        page.evaluate("([id, state]) => posencExplorables.get(id).set(state)", [two_hands.id, state])
        page.wait_for_timeout(120)
        frames.append(Image.open(io.BytesIO(view.screenshot())).convert("RGB"))
        times.append(pause)
    colors = frames[0].quantize(64)  # one palette: what stays does not flicker
    small = [frame.quantize(palette=colors, dither=Image.Dither.NONE) for frame in frames]
    small[0].save(LOOP, save_all=True, append_images=small[1:], duration=times, loop=0, optimize=True)


if __name__ == "__main__":
    if not (SITE / "index.html").is_file():
        raise SystemExit(f"{SITE / 'index.html'} is not there: run `make html` first")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=BROWSER_ARGS)
        page = browser.new_page(viewport={"width": 1180, "height": 820})
        page.goto((SITE / "index.html").as_uri())
        page.mouse.move(5, 5)
        page.locator(LIVE).first.wait_for()
        page.wait_for_timeout(500)
        page.screenshot(path=PICTURE)
        loop(browser.new_page(viewport={"width": 760, "height": 700}))
        browser.close()
