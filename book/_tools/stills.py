r"""The static pictures of the explorables, which stand on a page before the player draws.

python book/_tools/stills.py [rope.rotation_invariance ...]   draw them; without names those that are stale (needs
                                                              Chromium; `make pictures`)
"""

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from posenc.chapters import all_explorables, load
from posenc.lab.explore import BROWSER_ARGS, STATIC, Explorable, find_chromium
from posenc.lab.explore.arrays import same_fingerprint
from posenc.lab.explore.page import PICTURE_WIDTH, escape

STATE = re.compile(r'data-posenc-state="([^"]*)"')


def stale() -> dict[str, str]:
    r"""{id: what is wrong} for each explorable whose committed picture is missing or shows another state."""
    complaints = {}
    for id, e in all_explorables().items():
        path, run = e.picture(), f"run: python book/_tools/stills.py {id}"
        state = STATE.search(path.read_text("utf-8")) if path.exists() else None
        if state is None:
            complaints[id] = f"{id} has no picture {path.name}; {run}"
        elif not same_fingerprint(state[1], e.fingerprint()):
            complaints[id] = f"{id}: {path.name} shows another state; {run}"
    return complaints


def draw(explorables: Iterable[Explorable]) -> Iterable[Path]:
    r"""Draw the static pictures of these explorables with Chromium."""
    from playwright.sync_api import sync_playwright

    css = (STATIC / "player.css").read_text("utf-8") + ".explorable-picture{min-height:0 !important}"
    css += f" .explorable-plot{{width:{PICTURE_WIDTH}px}}"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=BROWSER_ARGS)
        for e in explorables:
            page = browser.new_page(viewport={"width": 1000, "height": 900})
            page.set_content(
                f'<!doctype html><html data-theme="light"><style>{css}</style>'
                f'<body><figure class="explorable">{e.body_html("picture", None, inline=True)}</figure></body></html>'
            )
            page.add_script_tag(path=str(STATIC / "plotly-cartesian.min.js"))
            page.add_script_tag(content=(STATIC / "player.js").read_text("utf-8"))
            svg = page.evaluate("""async () => {
                await posencExplorables.list[0].start();
                const url = await Plotly.toImage(document.querySelector('.explorable-drawing'), {format: 'svg'});
                return decodeURIComponent(url.slice(url.indexOf(',') + 1));
            }""")
            page.close()
            e.picture().write_text(tidy(svg, e.fingerprint()), "utf-8")
            yield e.picture()
        browser.close()


def tidy(svg: str, fingerprint: str) -> str:
    r"""Plotly's SVG without its random ids and its weight, with the fingerprint on the root element."""
    for random in sorted(set(re.findall(r'id="(?:clip|topdefs-|defs-|legend|g)?([0-9a-f]{6})', svg))):
        svg = svg.replace(random, "posenc")
    svg = re.sub(r"\btrace[0-9a-f]{6}\b", "trace", svg)
    svg = re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), svg)
    svg = svg.replace("<svg ", f'<svg data-posenc-state="{escape(fingerprint)}" ', 1)
    return svg.strip() + "\n"


if __name__ == "__main__":
    for path in draw([load(id) for id in sys.argv[1:] or stale()]):
        print(path)
