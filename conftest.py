r"""Shared fixtures: the built site, served on this machine only, and a browser that reaches nothing else."""

import collections
import functools
import http.server
import os
import re
import threading
from pathlib import Path

import pytest
import torch
from places import FOLDERS

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # Triton reads it when a kernel is imported: before any test module is

torch.manual_seed(0)  # for what test modules draw as they are imported

ROOT = Path(__file__).resolve().parent
SITE = Path(os.environ.get("POSENC_SITE", ROOT / "_build" / "html"))


def pytest_addoption(parser):
    parser.addoption(
        "--place", choices=FOLDERS, help="this place's tests alone, and its methods' share of the common ones"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    r"""What a test or its fixtures draw without a generator of their own is the same in each run and any order."""
    torch.manual_seed(0)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    r"""Leave to the weekly run what `sample` leaves out. With --place, keep tests/PLACE and, of the tests for all
    methods, those named after a method of that place."""
    cases = collections.Counter()
    for item in items:
        if (sample := item.get_closest_marker("sample")) and not torch.cuda.is_available():
            function = item.nodeid.split("[")[0]
            if cases[function] % sample.args[0]:
                item.add_marker(pytest.mark.weekly)
            cases[function] += 1
    if not (place := config.getoption("--place")):
        return
    methods = {path.stem for path in (ROOT / "posenc" / place).glob("[a-z]*.py")}

    def belongs(item) -> bool:
        if item.path.parent.name == "tests":
            return hasattr(item, "callspec") and not methods.isdisjoint(re.split(r"[-+]", item.callspec.id))
        return item.path.is_relative_to(ROOT / "tests" / place)

    kept = [item for item in items if belongs(item)]
    config.hook.pytest_deselected(items=[item for item in items if not belongs(item)])
    items[:] = kept


def built_pages(*folders: str) -> list[str]:
    r"""The built pages in these folders of the site, without those that only lead on from an old address."""
    paths = sorted(path for folder in folders for path in (SITE / folder).glob("**/*.html"))
    return [path.relative_to(SITE).as_posix() for path in paths if "moved.js" not in path.read_text("utf-8")]


def missing(what: str):
    r"""Something the browser tests need is not here: in CI a failure, elsewhere a skip that says what to run."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(what)


@pytest.fixture(scope="session")
def site() -> Path:
    r"""The built site's folder: POSENC_SITE, or `_build/html`."""
    if not (SITE / "index.html").exists():
        missing(f"no built book in {SITE}: run `make html` first")
    return SITE


@pytest.fixture(scope="session")
def base(site):
    r"""The address at which the built site is served."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 128  # a page asks for dozens of files at once; beyond five a busy machine refuses some

        def handle_error(self, *_):
            pass  # a page that is left stops listening

    server = Server(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


@pytest.fixture(scope="session")
def browser():
    r"""Headless Chromium."""
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        missing("Playwright for Python is missing: run `make test` once, or .venv/bin/pip install playwright")
    from posenc.lab.explore import BROWSER_ARGS, find_chromium

    with sync_playwright() as playwright:
        try:
            chromium = playwright.chromium.launch(executable_path=find_chromium(), args=BROWSER_ARGS)
        except Error as error:
            missing(
                "no Chromium: install it (`apt-get install chromium`, or Chrome on macOS), "
                f"or run `.venv/bin/playwright install chromium` ({str(error).splitlines()[0]})"
            )
        yield chromium
        chromium.close()


class Log:
    r"""What went wrong on a page: failed requests, requests that leave the machine, errors on the console."""

    def __init__(self, page):
        self.problems: list[str] = []
        page.on("console", lambda m: self.problems.append(f"console: {m.text}") if m.type == "error" else None)
        page.on("pageerror", lambda e: self.problems.append(f"error: {e}"))
        page.on("requestfailed", lambda r: self.problems.append(f"failed: {r.url}, {r.failure}"))
        page.on("response", lambda r: self.problems.append(f"{r.status}: {r.url}") if r.status >= 400 else None)
        page.on("dialog", lambda d: (self.problems.append(f"dialog: {d.message}"), d.dismiss()))
        page.on("request", lambda r: self._inside(r.url))

    def _inside(self, url: str) -> None:
        if not url.startswith(("http://127.0.0.1:", "file:", "data:", "blob:", "about:")):
            self.problems.append(f"leaves the site: {url}")


@pytest.fixture
def open_page(browser):
    r"""open_page(url, dark=, scripts=, width=, height=) -> a loaded page with `page.log`, closed after the test."""
    contexts = []

    def open_(url, dark=False, scripts=True, width=1280, height=900):
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            java_script_enabled=scripts,
            reduced_motion="reduce",
        )
        contexts.append(context)
        # Nothing but this machine answers.
        context.set_default_timeout(0)  # the only clock is the limit of a whole test
        context.route(
            lambda url: not url.startswith(("http://127.0.0.1:", "file:", "data:")), lambda route: route.abort()
        )
        page = context.new_page()
        page.log = Log(page)
        page.goto(url)
        return page

    yield open_
    for context in contexts:
        context.close()
