"""Slides: each script adds up, and a deck shows itself whole, slide by slide, with no network and on paper."""

import sys

import pytest
from lab_runs import ROOT
from pypdf import PdfReader

sys.path.insert(0, str(ROOT / "book"))
import slides  # noqa: E402

SESSIONS = sorted(path.stem for path in slides.SOURCES.glob("*.md"))

# What stands out of its slide, or of its own box; and figures with too little room.
FAULTS = """() => {
  const slide = document.querySelector(".slide.now"), edge = slide.getBoundingClientRect(), wrong = [];
  const bottom = slide.querySelector("footer").getBoundingClientRect().top;
  for (const e of slide.querySelectorAll(".inside > *, .inside .step > *")) {
    const box = e.getBoundingClientRect();
    const low = Math.max(box.bottom, ...[...e.querySelectorAll("*")].filter((x) => !x.closest("svg, .explorable-plot"))
      .map((x) => x.getBoundingClientRect()).filter((b) => b.height).map((b) => b.bottom));
    const name = `${e.tagName} ${e.textContent.slice(0, 40)}`;
    if (box.right > edge.right + 1 || low > bottom + 1) wrong.push(`${name} ends at ${low}`);
  }
  for (const e of slide.querySelectorAll(".explorable-plot, img.drawn"))
    if (e.offsetHeight < 200) wrong.push(`a figure of ${e.offsetHeight} px`);
  return wrong;
}"""


def test_there_are_six_sessions_of_fifty_minutes_with_all_that_a_script_needs():
    assert len(SESSIONS) == 6
    for session in SESSIONS:
        head, shown = slides.read(slides.SOURCES / f"{session}.md")  # which counts the minutes
        assert head["title"] and 9 <= len(shown) <= 12
        assert {what for slide in shown for what, _ in slide.script} == set(slides.SCRIPT)


@pytest.mark.parametrize(
    "change, words",
    [(("minutes: 2", "minutes: 3"), "51"), (("minutes: 2\n", ""), "slide 1.*minutes"), (("vote: ", "poll: "), "vote")],
)
def test_a_script_that_does_not_add_up_is_named(change, words, tmp_path):
    path = tmp_path / "position.md"
    path.write_text((slides.SOURCES / "position.md").read_text("utf-8").replace(*change, 1), "utf-8")
    with pytest.raises(SystemExit, match=f"position.md.*{words}"):
        slides.read(path)


def test_a_number_that_no_page_says_is_named():
    deck = slides.Deck("x", {"title": "X"}, [])
    with pytest.raises(SystemExit, match="x.md.*'nowhere'"):
        deck.filled("{glue:text}`nowhere`")


@pytest.mark.browser
@pytest.mark.slow
def test_a_deck_needs_no_network_and_no_slide_overflows(browser, tmp_path):
    path = slides.write("rope", tmp_path)
    asked, errors = [], []
    page = browser.new_page(viewport={"width": slides.WIDTH, "height": slides.HEIGHT})
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: message.type == "error" and errors.append(message.text))
    page.goto(path.as_uri())
    count, found = page.locator(".slide").count(), {}
    for number in range(1, count + 1):
        assert page.locator(".slide.now").get_attribute("id") == f"slide-{number}"
        figures = page.locator(".slide.now figure.explorable").count()
        page.wait_for_function(
            "n => document.querySelectorAll('.now .explorable-live .main-svg').length >= n", arg=figures
        )
        steps = page.locator(".slide.now .step").count()
        for _ in range(steps):
            page.keyboard.press("ArrowRight")
        assert page.locator(".slide.now .step.open").count() == steps
        found[number] = page.evaluate(FAULTS)
        page.keyboard.press("ArrowRight")
    assert not any(found.values()), found
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == [] and errors == []
    assert sum(url.startswith("file:") for url in asked) == 1, "the one file is all of it"
    page.keyboard.press("Home")
    with page.expect_popup() as popup:
        page.keyboard.press("s")
    popup.value.keyboard.press("ArrowRight")
    assert page.locator(".slide.now").get_attribute("id") == "slide-2"
    assert "predict" in popup.value.locator("body").inner_text()
    slides.print_pdf([path], browser)
    pages = PdfReader(path.with_suffix(".pdf")).pages
    assert len(pages) == count
    assert {(round(p.mediabox.width), round(p.mediabox.height)) for p in pages} == {(960, 540)}  # points: 16 to 9
