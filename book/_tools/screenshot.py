"""Take pictures of the book as built, `make screenshot`: the clock's still, the README's, what shared links show."""

import io

from PIL import Image
from playwright.sync_api import sync_playwright

from posenc.chapters.intro import clock
from posenc.lab.explore import BROWSER_ARGS, find_chromium
from posenc.lab.write import ROOT

SITE = ROOT / "_build/html"
PICTURE, LOOP, CARDS = ROOT / "book/_static/screenshot.png", ROOT / "book/clock.gif", ROOT / "book/_static/cards"
CARD = {"clock": "", "sentence": "", "sticks": "it:0.3,sleeps:0.15,cat:0.7", "draw_loss": "128:1.5,256:1.5,512:1.6"}


def states():
    """(state, how long it stands in ms): the bracket there and back, then one word alone."""
    start = {name: clock.data()[name] for name in clock.SHOWN}
    there = [{name: at + by for name, at in start.items()} for by in range(13)]
    alone = [start | {"m": start["m"] + by} for by in range(1, 5)]
    for state in (*there, *there[-2::-1], *alone, *alone[-2::-1], start):
        yield state, 900 if state in (start, there[-1], alone[-1]) else 140


def loop(page):
    """The clock at one state after the other, as a GIF."""
    page.goto((SITE / "index.html").as_uri())
    page.locator(".live-on").wait_for()
    view, frames, times = page.locator(".live-place"), [], []
    for state, pause in states():
        page.evaluate("(state) => posencExplorables.get('clock').set(state)", state)
        page.wait_for_timeout(120)
        frames.append(Image.open(io.BytesIO(view.screenshot())).convert("RGB"))
        times.append(pause)
    colors = frames[0].quantize(64)  # one palette: what stays does not flicker
    small = [frame.quantize(palette=colors, dither=Image.Dither.NONE) for frame in frames]
    small[0].save(LOOP, save_all=True, append_images=small[1:], duration=times, loop=0, optimize=True)


def card(page, id, state):
    """What a shared link to a figure's page shows, 1200 x 630."""
    page.goto((SITE / f"embed/{id}.html").as_uri() + (f"#{id}={state}" if state else ""))
    page.locator(".live-on").wait_for()
    page.wait_for_timeout(500)
    Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(128).save(CARDS / f"{id}.png", optimize=True)


if __name__ == "__main__":
    if not (SITE / "index.html").is_file():
        raise SystemExit(f"{SITE / 'index.html'} is not there: run `make html` first")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=BROWSER_ARGS)
        page = browser.new_page(viewport={"width": 1180, "height": 820})
        page.goto((SITE / "index.html").as_uri())
        page.locator(".live-on").wait_for()
        clock.STILL.write_text(page.locator(".live-place").inner_html(), "utf-8")
        page.screenshot(path=PICTURE)
        loop(browser.new_page(viewport={"width": 860, "height": 700}))
        for id, state in CARD.items():
            card(browser.new_page(viewport={"width": 1200, "height": 630}), id, state)
        browser.close()
