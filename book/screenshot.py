"""Take the README's picture: the explorable of the RoPE chapter as built, `make screenshot`."""

from pathlib import Path

from playwright.sync_api import sync_playwright

from posenc.lab.explore import BROWSER_ARGS, find_chromium

ROOT = Path(__file__).parents[1]

if __name__ == "__main__":
    page_file = ROOT / "_build/html/book/rope.html"
    if not page_file.is_file():
        raise SystemExit(f"{page_file} is not there: run `make html` first")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=BROWSER_ARGS)
        page = browser.new_page(viewport={"width": 1180, "height": 900})
        page.goto(page_file.as_uri())
        figure = page.locator("figure.explorable").first
        figure.scroll_into_view_if_needed()
        figure.locator(".js-plotly-plot .main-svg").first.wait_for()
        page.wait_for_timeout(500)
        page.screenshot(path=ROOT / "book/_static/screenshot.png")
        browser.close()
