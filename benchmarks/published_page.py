r"""The book as a stranger's phone gets it: Lighthouse, bytes and requests, the times of sliders and of a build.

    npm ci --prefix benchmarks/lighthouse                       # once: Lighthouse, needs Node 18.16 or newer
    python benchmarks/published_page.py                         # needs `make html`; writes results/site/
    python benchmarks/published_page.py --build --chapters      # all of it: `make measure`
    python benchmarks/published_page.py --pages rope --runs 1 --presets mobile --audits     # a quick look: what costs
    python benchmarks/published_page.py --pages all             # every chapter
    python benchmarks/published_page.py --check                 # measure anew, fail where it is worse than the record

The site is served on this machine with gzip, `ETag` and the `Cache-Control` of GitHub Pages, over HTTP/1.1: browsers
speak HTTP/2 to encrypted servers only. No name but 127.0.0.1 resolves in the browser.

Pages: the landing page, the chapter on RoPE and the heaviest chapter, which is the one whose HTML and states of
explorables, compressed, are largest.

Lighthouse: each score and each metric is the median of the runs, each by itself. Times are simulated by Lighthouse: a
slow 4G line and a processor four times slower for `mobile`, a fast line and this processor for `desktop`.

With `--chapters`, each page of the menu gets one run more with `mobile`.

Transfer: a phone's screen of 412 x 823, an empty cache, response headers counted. "first" is what arrives before the
reader moves, "scrolled" after a scroll to the end, "used" after every explorable was started; each includes the last.

Measure on a quiet machine: whatever else runs on it is in every time.

Sliders: milliseconds from the input event to the state drawn, as the player keeps them in `times`. Each slider goes
through 40 random values alone while the others stand at their defaults, `--runs` times; the median over these passes of
each one's median and 95th percentile.

Build: `make html` in a clone of the last commit, with this environment's packages (and this folder's results/, where an
installed posenc looks for them). Memory is that of the process and its children together, looked at four times a
second; what they share counts once for each.

It is written to results/ when all of it was measured: the three pages, both presets, at least three runs.
"""

import argparse
import contextlib
import datetime
import gzip
import hashlib
import http.server
import json
import math
import os
import platform
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tqdm import tqdm

from posenc.errors import check_int, nearest
from posenc.lab.experiments import cpu_model, write_json
from posenc.lab.explore import BROWSER_ARGS, find_chromium

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "_build" / "html"
RESULTS = ROOT / "results" / "site" / "published_page.json"
LIGHTHOUSE = Path(__file__).parent / "lighthouse"
CLI = LIGHTHOUSE / "node_modules" / "lighthouse" / "cli" / "index.js"

PRESETS = ("mobile", "desktop")
ROLES = ("landing", "rope", "heaviest")
STAGES = ("first", "scrolled", "used")
SCORES = {"performance": "perf", "accessibility": "access", "best-practices": "best", "seo": "seo"}
METRICS = {
    "first-contentful-paint": "FCP",
    "largest-contentful-paint": "LCP",
    "total-blocking-time": "TBT",
    "cumulative-layout-shift": "CLS",
    "speed-index": "SI",
}
PHONE = {"width": 412, "height": 823}
STEPS = 40
QUIET = 1.0  # seconds without a request or an answer: the page has what it wants
INSIDE = [*BROWSER_ARGS, "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]

# What the book is held to on the mobile preset; a miss is printed, and decides nothing.
GOALS = {"performance": 95, "accessibility": 100, "best-practices": 100, "seo": 100}
GOAL_CLS, GOAL_BYTES, GOAL_P95 = 0.02, {"first": 150_000, "scrolled": 900_000, "used": 900_000}, 33.3


class CannotMeasure(Exception):
    """Something that the measurement needs is not here; the message says what to run."""


# -------------------------------------------------------------------------------------------------------- a static host

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".json": "application/json; charset=utf-8",
    ".ipynb": "application/json; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".xml": "application/xml",
    ".webmanifest": "application/manifest+json",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".webp": "image/webp",
    ".ico": "image/x-icon",
    ".woff": "font/woff",
    ".woff2": "font/woff2",
    ".pdf": "application/pdf",
}
COMPRESSED = {".html", ".css", ".js", ".mjs", ".json", ".ipynb", ".svg", ".txt", ".xml", ".webmanifest"}


class Host:
    r"""A folder served on 127.0.0.1 as a static host would: `with Host(folder) as host: host.url`."""

    def __init__(self, folder: Path):
        self.folder, self.files, self.lock = folder.resolve(), {}, threading.Lock()
        host = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self):
                found = host.file(unquote(urlsplit(self.path).path))
                if found is None:
                    return self.reply(404, {"Content-Type": "text/plain"}, b"not found")
                kind, etag, plain, packed = found
                headers = {"Content-Type": kind, "ETag": etag, "Cache-Control": "max-age=600"}
                if packed is not None:
                    headers["Vary"] = "Accept-Encoding"
                if self.headers.get("If-None-Match") == etag:
                    return self.reply(304, headers, None)
                if packed is not None and "gzip" in self.headers.get("Accept-Encoding", ""):
                    return self.reply(200, headers | {"Content-Encoding": "gzip"}, packed)
                return self.reply(200, headers, plain)

            do_HEAD = do_GET

            def reply(self, status, headers, body):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if body is not None:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if body is not None and self.command != "HEAD":
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = 64

            def handle_error(self, *_):  # a browser that is closed drops its connections
                if not isinstance(sys.exc_info()[1], ConnectionError):
                    super().handle_error(*_)

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"

    def file(self, path: str):
        r"""(type, etag, bytes, compressed bytes or None) of a path in the address, or None; each is read once."""
        at = self.folder / path.lstrip("/")
        at = (at / "index.html" if at.is_dir() else at).resolve()
        if not at.is_relative_to(self.folder) or not at.is_file():
            return None
        with self.lock:
            if at not in self.files:
                plain, ending = at.read_bytes(), at.suffix.lower()
                packed = gzip.compress(plain, 6, mtime=0) if ending in COMPRESSED else None
                etag = f'"{hashlib.sha256(plain).hexdigest()[:16]}"'
                self.files[at] = (TYPES.get(ending, "application/octet-stream"), etag, plain, packed)
            return self.files[at]

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


# ------------------------------------------------------------------------------------------------------------ the pages


def check_site(site: Path) -> Path:
    r"""The folder of a built book, or CannotMeasure."""
    if not (site / "index.html").is_file():
        hint = "run `make html` first, or name a built site with --site DIR"
        raise CannotMeasure(f"no built book in {site}: it holds no index.html; {hint}")
    return site


def landing(site: Path) -> str:
    r"""The page that index.html leads to, as a path in the site."""
    found = re.search(r"http-equiv=[\"']?refresh[\"']?[^>]*url=([^\"'> ]+)", (site / "index.html").read_text(), re.I)
    return found.group(1) if found else "index.html"


def chapters(site: Path) -> list[str]:
    r"""Every page that the book's menu leads to, as paths in the site."""
    return sorted(p.relative_to(site).as_posix() for f in ("book", "notebooks") for p in (site / f).glob("*.html"))


def weight(site: Path, page: str) -> int:
    r"""Compressed bytes of a page's HTML and of its explorables' states."""
    text = (site / page).read_text("utf-8")
    states = [site / "_static" / "explore" / name for name in set(re.findall(r'data-src="([^"]+)"', text))]
    return sum(len(gzip.compress(p.read_bytes(), 6)) for p in (site / page, *states) if p.is_file())


def choose(site: Path, wanted: list[str]) -> dict[str, str]:
    r"""{path: why it is measured} for the names given to --pages."""
    known = list(dict.fromkeys([landing(site), *chapters(site)]))
    if "book/rope.html" in known:
        heaviest = max((p for p in known if p not in (landing(site), "book/rope.html")), key=lambda p: weight(site, p))
    else:  # a small site of a few pages
        heaviest = max(known, key=lambda p: weight(site, p))
    named = {"landing": landing(site), "rope": "book/rope.html", "heaviest": heaviest}
    roles = {path: role for role, path in named.items()}
    out = {}
    for name in wanted:
        paths = known if name == "all" else [named.get(name, name if name.endswith(".html") else f"{name}.html")]
        for path in paths:
            if path not in known:
                hint = nearest(name, [*named, "all", *known])
                raise CannotMeasure(
                    f"--pages {name}: the site holds no {path}; choose from {', '.join([*named, 'all'])} or a path "
                    f"such as {known[-1].removesuffix('.html')}.{hint}"
                )
            out[path] = roles.get(path, "asked for")
    return out


# ----------------------------------------------------------------------------------------------------------- Lighthouse


def check_tools() -> dict[str, str]:
    r"""The versions of what is needed from outside Python, or CannotMeasure."""
    node = shutil.which("node")
    if node is None:
        raise CannotMeasure("no `node` on the PATH: install Node.js 18.16 or newer (`apt-get install nodejs npm`)")
    if not CLI.exists():
        raise CannotMeasure("Lighthouse is not installed: run `npm ci --prefix benchmarks/lighthouse`")
    chromium = check_chromium()
    said = [subprocess.run([tool, "--version"], capture_output=True, text=True).stdout for tool in (node, chromium)]
    package = json.loads((CLI.parents[1] / "package.json").read_text())
    found = re.search(r"\d+(\.\d+)+", said[1])
    return {
        "lighthouse": package["version"],
        "chromium": found.group(0) if found else said[1].strip(),
        "node": said[0].strip().lstrip("v"),
        "python": platform.python_version(),
    }


def check_chromium() -> str:
    r"""Where Chromium is: CHROME_PATH, or the system's; or CannotMeasure."""
    path = os.environ.get("CHROME_PATH") or find_chromium()
    if not path or not Path(path).exists():
        told = f"CHROME_PATH={path} does not exist" if path else "no Chromium found"
        raise CannotMeasure(f"{told}: `apt-get install chromium`, or Chrome on macOS, or set CHROME_PATH to one")
    return path


def lighthouse(url: str, preset: str) -> dict:
    r"""One run's report."""
    command = ["node", str(CLI), url, "--output=json", "--output-path=stdout", "--quiet"]
    command += ["--disable-full-page-screenshot", "--no-enable-error-reporting"]
    command += ["--chrome-flags=--headless=new " + " ".join(f"'{a}'" if " " in a else a for a in INSIDE)]
    command += ["--preset=desktop"] if preset == "desktop" else []
    environment = os.environ | {"CHROME_PATH": check_chromium()}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    try:
        report = json.loads(ran.stdout)
    except ValueError:
        raise RuntimeError(f"Lighthouse gave no report for {url} ({preset}):\n{ran.stderr[-2000:]}") from None
    if report.get("runtimeError"):
        raise RuntimeError(f"Lighthouse could not load {url} ({preset}): {report['runtimeError']['message']}")
    return report


def lost(report: dict) -> list[dict]:
    r"""The audits that are not passed, with what they would save; those that weigh in a score first."""
    out = []
    for category, group in report["categories"].items():
        for ref in group["auditRefs"]:
            audit = report["audits"][ref["id"]]
            if audit["score"] is None or audit["score"] >= 0.9 or ref.get("group") == "hidden":
                continue
            row = {"category": category, "audit": audit["id"], "title": audit["title"], "weight": ref["weight"]}
            row["score"] = audit["score"]
            if audit.get("displayValue"):
                row["value"] = audit["displayValue"].replace("\u00a0", " ")
            savings = {k: round(v, 3) for k, v in (audit.get("metricSavings") or {}).items() if v}
            if savings:
                row["savings"] = savings
            row["where"] = [where(item) for item in (audit.get("details") or {}).get("items", [])[:3]]
            out.append(row)
    return sorted(out, key=lambda row: (row["category"], -row["weight"], row["score"]))


def where(item: dict) -> str:
    r"""One item of an audit in a line: the element or the file, and what it costs."""
    node = item.get("node") or {}
    name = node.get("snippet") or item.get("url") or item.get("label") or item.get("groupLabel") or ""
    name = re.sub(r"https?://127\.0\.0\.1:\d+/", "", str(name))
    costs = ("wastedMs", "wastedBytes", "totalBytes", "transferSize", "duration", "total", "score")
    spent = [f"{key} {item[key]:.6g}" for key in costs if isinstance(item.get(key), (int, float))]
    return " ".join([name[:160], *spent]).strip()


def summary(reports: list[dict]) -> dict:
    r"""The median of each score and metric over the runs; the failed audits of the run nearest to it."""
    scores = {
        key: statistics.median(round(100 * r["categories"][key]["score"]) for r in reports)
        for key in SCORES
        if all(r["categories"][key]["score"] is not None for r in reports)
    }
    metrics = {
        short: round(statistics.median(r["audits"][long]["numericValue"] for r in reports), 4 if short == "CLS" else 0)
        for long, short in METRICS.items()
    }
    middle = min(
        reports, key=lambda r: abs(100 * (r["categories"]["performance"]["score"] or 0) - scores["performance"])
    )
    return {
        "scores": scores,
        "metrics": metrics,
        "benchmark_index": statistics.median(r["environment"]["benchmarkIndex"] for r in reports),
        "runs": len(reports),
        "lost": lost(middle),
    }


# ------------------------------------------------------------------------------------------------- transfer and sliders


class Wire:
    r"""What a page fetches: the bytes of each request as the network saw them, headers included."""

    def __init__(self, page, inside: str):
        self.inside, self.open, self.url, self.bytes, self.moved = inside, set(), {}, {}, time.monotonic()
        cdp = page.context.new_cdp_session(page)
        cdp.on("Network.requestWillBeSent", self._sent)
        cdp.on("Network.requestServedFromCache", lambda e: self._end(e, None))
        cdp.on("Network.loadingFinished", lambda e: self._end(e, e["encodedDataLength"]))
        cdp.on("Network.loadingFailed", lambda e: self._end(e, 0))
        cdp.send("Network.enable")

    def _sent(self, event):
        url = event["request"]["url"]
        if url.startswith(("data:", "blob:", "about:")):
            return
        self.moved = time.monotonic()
        if "redirectResponse" in event:  # the same request goes on to another address
            first = f"{event['requestId']} {len(self.url)}"
            self.url[first] = self.url[event["requestId"]]
            self.bytes[first] = event["redirectResponse"].get("encodedDataLength", 0)
        self.open.add(event["requestId"])
        self.url[event["requestId"]] = url

    def _end(self, event, size):
        id = event["requestId"]
        if id not in self.url:
            return
        self.moved = time.monotonic()
        if size is None:  # from the cache: no request
            self.open.discard(id)
            del self.url[id]
            self.bytes.pop(id, None)
        else:
            self.open.discard(id)
            self.bytes[id] = size

    def settle(self, page, limit=60.0):
        r"""Wait until nothing has been asked for or come in for a while."""
        end = time.monotonic() + limit
        while self.open or time.monotonic() - self.moved < QUIET:
            if time.monotonic() > end:
                raise RuntimeError(
                    f"the network did not fall silent in {limit:g} s: {[self.url[i] for i in self.open]}"
                )
            page.wait_for_timeout(100)

    def so_far(self) -> dict:
        parts = sorted(((round(b), self.url[i]) for i, b in self.bytes.items()), reverse=True)
        largest = [[url.removeprefix(self.inside), size] for size, url in parts[:5]]
        return {"bytes": sum(size for size, _ in parts), "requests": len(parts), "largest": largest}

    def outside(self) -> list[str]:
        return sorted({url for url in self.url.values() if not url.startswith(self.inside)})


SCROLL = """async () => {
    const wait = (ms) => new Promise((done) => setTimeout(done, ms));
    for (let y = 0; y < document.documentElement.scrollHeight; y += innerHeight * 0.7) {
        window.scrollTo({top: y, behavior: 'instant'});
        await wait(120);
    }
    window.scrollTo({top: document.documentElement.scrollHeight, behavior: 'instant'});
    await wait(300);
}"""

# A figure is started by being near, by a touch or by hand; here by hand, after it has been in sight.
START = """async () => {
    const until = performance.now() + 20000;
    const figures = [...document.querySelectorAll('[data-explorable]')];
    for (const body of figures) {
        body.scrollIntoView({block: 'center', behavior: 'instant'});
        body.dispatchEvent(new Event('pointerdown', {bubbles: true}));
        const list = () => (window.posencExplorables ? posencExplorables.list : []);
        const find = () => list().find((e) => e.id === body.dataset.explorable);
        while (!find()) {
            if (performance.now() > until) throw new Error(`${body.dataset.explorable} is not in posencExplorables`);
            await new Promise((done) => setTimeout(done, 50));
        }
        await find().start();
    }
    const slider = (i) => [i.name, Number(i.min), Number(i.max), Number(i.value)];
    return figures.map((body) => [
        body.dataset.explorable, [...body.querySelectorAll('input[type=range]')].map(slider)]);
}"""

TIME = """async ([id, k, values]) => {
    const e = posencExplorables.list.find((e) => e.id === id);
    e.figure.scrollIntoView({block: 'center', behavior: 'instant'});
    const input = e.figure.querySelectorAll('input[type=range]')[k];
    const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));  // painted
    const was = input.value;
    await frame();
    e.times.length = 0;
    for (const value of values) {
        const drawn = e.times.length;
        input.value = value;
        input.dispatchEvent(new Event('input', {bubbles: true}));
        for (let frames = 0; e.times.length === drawn && frames < 100; frames++) await frame();
    }
    const times = [...e.times];
    input.value = was;
    input.dispatchEvent(new Event('input', {bubbles: true}));
    await frame();
    return times;
}"""


def transfer(browser, host: str, path: str) -> dict:
    r"""Bytes and requests of one visit on a phone, by stage, and the requests that leave the site."""
    context = browser.new_context(viewport=PHONE, device_scale_factor=1.75, is_mobile=True, has_touch=True)
    try:
        page = context.new_page()
        wire = Wire(page, host)
        page.goto(host + path, wait_until="load")
        wire.settle(page)
        out = {"first": wire.so_far()}
        page.evaluate(SCROLL)
        wire.settle(page)
        out["scrolled"] = wire.so_far()
        page.evaluate(START)
        wire.settle(page)
        out["used"] = wire.so_far()
        return out | {"outside": wire.outside()}
    finally:
        context.close()


def percentile(values: list[float], share: float) -> float:
    r"""The smallest of the values that at least `share` of them do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def sliders(browser, host: str, path: str, passes: int) -> dict:
    r"""{explorable: {slider: {"median", "p95"}}} in ms, on a wide screen."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    try:
        page = context.new_page()
        page.goto(host + path, wait_until="load")
        out = {}
        for id, inputs in page.evaluate(START):
            out[id] = {}
            for k, (name, low, high, start) in enumerate(inputs):
                draw, at, values = random.Random(f"{id} {name}"), start, []
                for _ in range(STEPS):  # never the value that it stands at: nothing would have to be drawn
                    at = draw.choice([v for v in range(int(low), int(high) + 1) if v != at] or [int(low)])
                    values.append(at)
                runs = [page.evaluate(TIME, [id, k, values]) for _ in range(passes)]
                if any(len(times) != STEPS for times in runs):
                    raise RuntimeError(f"{path}: {id} timed {[len(t) for t in runs]} of {STEPS} moves of {name}")
                out[id][name] = {
                    "median": round(statistics.median(statistics.median(times) for times in runs), 1),
                    "p95": round(statistics.median(percentile(times, 0.95) for times in runs), 1),
                }
        return out
    finally:
        context.close()


@contextlib.contextmanager
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=check_chromium(), args=INSIDE)
        yield browser
        browser.close()


# ------------------------------------------------------------------------------------------------------------ the build


def timed(command: list[str], folder: Path, environment: dict, name: str) -> dict:
    r"""Seconds of a command, and the most memory that it and its children had at one time, in MB."""
    import psutil

    peak, started = 0, time.monotonic()
    with open(folder.parent / "build.log", "w") as log:
        process = psutil.Popen(command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT)
        while process.poll() is None:
            total = 0
            for one in [process, *process.children(recursive=True)]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    total += one.memory_info().rss
            peak = max(peak, total)
            time.sleep(0.25)
    if process.returncode:
        tail = (folder.parent / "build.log").read_text()[-3000:]
        raise RuntimeError(f"the {name} build failed with {process.returncode}:\n{tail}")
    return {"seconds": round(time.monotonic() - started, 1), "peak_MB": round(peak / 1e6)}


def other_text(text: str) -> str:
    r"""A chapter with a sentence more."""
    return text.rstrip("\n") + "\n\nOne sentence more.\n"


def other_code(text: str) -> str:
    r"""A chapter with a comment more in its first code cell, below the cell's options."""
    fence = r"(```\{code-cell\}[^\n]*\n(?:---\n.*?\n---\n|(?::[^\n]*\n)*))"
    new, count = re.subn(fence, r"\1# touched\n", text, count=1, flags=re.S)
    if not count:
        raise ValueError("the chapter has no code cell to touch")
    return new


def builds(chapter="book/rope.md") -> dict:
    r"""Times and memory of `make html` in a clone: cold, unchanged, one chapter's text touched, then its code."""
    ready, bin = ROOT / ".venv" / "ready", Path(sys.executable).parent
    with tempfile.TemporaryDirectory(prefix="posenc-build-") as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        # `-o`: the environment is there, whatever the clone's dates say.
        command = ["make", "-o", str(ready), "html", f"READY={ready}", f"BIN={bin}", f"PYTHON={sys.executable}"]
        environment = os.environ | {"PYTHONPATH": str(clone)}
        text = clone / chapter
        out = {}
        steps = {"cold": None, "unchanged": None, "text of one chapter": other_text, "code of one chapter": other_code}
        for name, change in tqdm(steps.items(), desc="builds (about 20 minutes on 2 cores)"):
            if change:
                text.write_text(change(text.read_text("utf-8")), "utf-8")
            out[name] = timed(command, clone, environment, name)
            tqdm.write(f"build, {name}: {out[name]['seconds']:g} s, {out[name]['peak_MB']:,} MB")
    return out | {"chapter": chapter}


# ------------------------------------------------------------------------------------------------------------ all of it


def facts(tools: dict) -> dict:
    r"""When, from which commit, on which machine."""
    git = [["git", "rev-parse", "HEAD"], ["git", "status", "--porcelain", "--untracked-files=no"]]
    said = [subprocess.run(c, cwd=ROOT, capture_output=True, text=True).stdout.strip() for c in git]
    return {
        "commit": (said[0] or "unknown") + (", with uncommitted changes" if said[1] else ""),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{cpu_model()}, {os.cpu_count()} cores, {platform.system()}",
        "versions": tools,
    }


def measure(site: Path, pages: dict[str, str], runs: int, presets, with_sliders=True) -> dict:
    r"""{path: what was measured} for each page."""
    count = len(pages) * (len(presets) * runs + 1 + with_sliders)
    out = {path: {"role": role} for path, role in pages.items()}
    # A run of Lighthouse takes about 12 s on the 2 cores that the record was made on, a visit about as long.
    print(f"{len(pages)} pages, {count} visits, about {math.ceil(count * 12 / 60)} minutes", file=sys.stderr)
    with Host(site) as host, tqdm(total=count, unit="visit") as bar:
        with chromium() as browser:
            for path in pages:
                bar.set_description(f"transfer, {path}")
                out[path] |= transfer(browser, host.url, path)
                bar.update()
                if with_sliders:
                    bar.set_description(f"sliders, {path}")
                    out[path]["sliders"] = sliders(browser, host.url, path, runs)
                    bar.update()
        for path in pages:
            for preset in presets:
                reports = []
                for _ in range(runs):
                    bar.set_description(f"Lighthouse {preset}, {path}")
                    reports.append(lighthouse(host.url + path, preset))
                    bar.update()
                out[path][preset] = summary(reports)
    return out


def each_chapter(site: Path) -> dict:
    r"""{path: scores and metrics} of every page, one run on the mobile preset each."""
    paths = choose(site, ["all"])
    out = {}
    with Host(site) as host:
        for path in tqdm(paths, desc="Lighthouse mobile, every chapter", unit="page"):
            found = summary([lighthouse(host.url + path, "mobile")])
            out[path] = {key: found[key] for key in ("scores", "metrics")}
    return {"pages": out}


def table(record: dict) -> str:
    r"""The record as text."""
    lines = []
    head = f"{'page':28} {'preset':8}" + "".join(f"{s:>7}" for s in SCORES.values())
    lines.append(head + "".join(f"{m + (' ms' if m != 'CLS' else ''):>9}" for m in METRICS.values()))
    for path, page in record["pages"].items():
        for preset in PRESETS:
            if preset in page:
                scores, metrics = page[preset]["scores"], page[preset]["metrics"]
                row = f"{path:28} {preset:8}" + "".join(f"{scores.get(s, math.nan):7.0f}" for s in SCORES)
                lines.append(row + "".join(f"{metrics[m]:9.{3 if m == 'CLS' else 0}f}" for m in METRICS.values()))
    if record.get("chapters"):
        chapters = record["chapters"]["pages"].values()
        lines += ["", f"{len(chapters)} pages, mobile, one run each: least, median"]
        for key, name in SCORES.items():
            values = [page["scores"][key] for page in chapters]
            lines.append(f"{name:28} {min(values):7.0f} {statistics.median(values):7.0f}")
    lines += ["", f"{'page':28} {'stage':9} {'kB':>8} {'requests':>9}  largest"]
    for path, page in record["pages"].items():
        for stage in STAGES:
            part = page[stage]
            largest = ", ".join(f"{url.rsplit('/', 1)[-1][:40]} {size / 1e3:.0f}" for url, size in part["largest"])
            lines.append(f"{path:28} {stage:9} {part['bytes'] / 1e3:8.1f} {part['requests']:9}  {largest}")
    if any(page.get("sliders") for page in record["pages"].values()):
        lines += ["", f"{'slider':56} {'median ms':>9} {'p95 ms':>7}"]
    for path, page in record["pages"].items():
        for id, found in page.get("sliders", {}).items():
            for name, t in found.items():
                lines.append(
                    f"{path.removesuffix('.html') + ' ' + id + ' ' + name:56} {t['median']:9.1f} {t['p95']:7.1f}"
                )
    if record.get("build"):
        lines += ["", f"{'build':24} {'seconds':>8} {'MB':>7}"]
        for name, part in record["build"].items():
            if isinstance(part, dict) and "seconds" in part:
                lines.append(f"{name:24} {part['seconds']:8.1f} {part['peak_MB']:7,}")
    lines += ["", "Goals missed:", *(misses(record) or ["none"])]
    return "\n".join(lines)


def misses(record: dict) -> list[str]:
    r"""Where the goals are not reached, in words."""
    out = []
    once = (record.get("chapters") or {"pages": {}})["pages"]
    phones = [(f"{path}: mobile, one run,", found) for path, found in once.items()]
    phones += [(f"{path}: mobile", page["mobile"]) for path, page in record["pages"].items() if "mobile" in page]
    for what, found in phones:
        for key, goal in GOALS.items():
            if found["scores"].get(key, 0) < goal:
                out.append(f"{what} {key} {found['scores'].get(key, 0):g}, goal {goal}")
        if found["metrics"]["CLS"] > GOAL_CLS:
            out.append(f"{what} CLS {found['metrics']['CLS']:.3f}, goal {GOAL_CLS}")
    for path, page in record["pages"].items():
        out += [f"{path}: a request leaves the site: {url}" for url in page["outside"]]
        for stage, goal in GOAL_BYTES.items():
            if page[stage]["bytes"] > goal:
                out.append(f"{path}: {stage} {page[stage]['bytes'] / 1e3:.0f} kB, goal {goal / 1e3:.0f}")
        for id, found in page.get("sliders", {}).items():
            for name, t in found.items():
                if t["p95"] > GOAL_P95:
                    out.append(f"{path}: {id} {name} p95 {t['p95']:.1f} ms, goal {GOAL_P95:g}")
    return out


def audits(record: dict) -> str:
    r"""The audits that were not passed, page by page."""
    lines = []
    for path, page in record["pages"].items():
        for preset in PRESETS:
            for row in page.get(preset, {}).get("lost", []):
                savings = ", ".join(f"{k} {v:g}" for k, v in row.get("savings", {}).items())
                note = "; ".join(filter(None, [row.get("value"), savings and f"saves {savings}"]))
                lines.append(f"{path} {preset}, {row['category']}: {row['title']} [{row['audit']}] {note}")
                lines += [f"    {item}" for item in row["where"] if item]
    return "\n".join(lines)


# ---------------------------------------------------------------------------------------------------------- regressions

# Bytes and requests hardly depend on the machine: 5% is a paragraph or a dependency's minor version; 2 kB spares small
# pages. A request more is always noticed. Lighthouse's performance moves by a point or two from run to run, the other
# three categories are the same each time, so there a point lost is a defect. Times depend on the machine: half as much
# again, and more on a machine that Lighthouse's own benchmark finds slower, but never less; 5 ms (sliders), 100 ms
# (blocking) and 0.01 (shift) are below what anyone sees. A p95 of 40 moves is two moves, so it gets twice the record.
MARGIN = {
    "bytes": (1.05, 2_000),
    "performance": 3,
    "other scores": 0,
    "FCP": (1.15, 150),
    "LCP": (1.15, 150),
    "SI": (1.25, 150),
    "TBT": (1.5, 100),
    "CLS": (1.0, 0.01),
    "median": (1.5, 5),
    "p95": (2.0, 10),
    "seconds": (1.5, 5),
}
OF_THE_MACHINE = {"TBT", "median", "p95", "seconds"}


def slowness(old: dict, new: dict) -> float:
    r"""How many times slower the machine of `new` is by Lighthouse's benchmark; 1 where it is faster or not known."""
    pairs = [
        (page[preset]["benchmark_index"], new["pages"][path][preset]["benchmark_index"])
        for path, page in old["pages"].items()
        for preset in PRESETS
        if preset in page and preset in new["pages"].get(path, {})
    ]
    return max(1.0, statistics.median(was / is_ for was, is_ in pairs)) if pairs else 1.0


def regressions(old: dict, new: dict) -> list[str]:
    r"""What is worse in `new` than in `old` by more than the margin, in words; both are whole records."""
    out, slower = [], slowness(old, new)

    def grown(what, key, before, after, unit=""):
        factor, least = MARGIN[key]
        limit = max(before * factor * (slower if key in OF_THE_MACHINE else 1), before + least)
        if after > limit:
            digits = 3 if key == "CLS" else 1 if key in ("median", "p95", "seconds") else 0
            out.append(
                f"{what}: {after:,.{digits}f}{unit}, was {before:,.{digits}f}, at most {limit:,.{digits}f} allowed"
            )

    for path, before in old["pages"].items():
        after = new["pages"].get(path)
        if after is None:
            out.append(f"{path}: was not measured; if it is gone, write the record anew")
            continue
        out += [f"{path}: a request leaves the site: {url}" for url in after["outside"]]
        for stage in STAGES:
            if stage not in before:
                continue
            grown(f"{path}, bytes {stage}", "bytes", before[stage]["bytes"], after[stage]["bytes"])
            if after[stage]["requests"] > before[stage]["requests"]:
                got, was = after[stage]["requests"], before[stage]["requests"]
                out.append(f"{path}, requests {stage}: {got}, was {was}, no more allowed")
        for preset in PRESETS:
            if preset not in before:
                continue
            if preset not in after:
                out.append(f"{path}, {preset}: was not measured")
                continue
            b, a = before[preset], after[preset]
            for key, was in b["scores"].items():
                margin = MARGIN["performance" if key == "performance" else "other scores"]
                if a["scores"].get(key, 0) < was - margin:
                    got = a["scores"].get(key, 0)
                    out.append(f"{path}, {preset} {key}: {got:g}, was {was:g}, at least {was - margin:g} wanted")
            for key, was in b["metrics"].items():
                grown(f"{path}, {preset} {key}", key, was, a["metrics"][key], "" if key == "CLS" else " ms")
        for id, found in before.get("sliders", {}).items():
            for name, was in found.items():
                got = after.get("sliders", {}).get(id, {}).get(name)
                if got is None:
                    out.append(f"{path}, slider {id} {name}: was not measured; if it is gone, write the record anew")
                    continue
                for key in ("median", "p95"):
                    grown(f"{path}, slider {id} {name} {key}", key, was[key], got[key], " ms")
    for name, was in (old.get("build") or {}).items():
        got = (new.get("build") or {}).get(name)
        if isinstance(was, dict) and "seconds" in was and got:
            grown(f"build, {name}", "seconds", was["seconds"], got["seconds"], " s")
    return out


# -------------------------------------------------------------------------------------------------------------- command


def read_record(path: Path) -> dict:
    r"""A record written before, or CannotMeasure."""
    try:
        record = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise CannotMeasure(f"nothing to compare with: {path} is not there; run this without --check first") from None
    except ValueError as error:
        raise CannotMeasure(f"{path} is not JSON ({error}); run this without --check to write it anew") from None
    if not isinstance(record, dict) or not isinstance(record.get("pages"), dict):
        raise CannotMeasure(f"{path} holds no record of this command; run it without --check to write it anew")
    return record


def part(record: dict, pages, presets, with_sliders: bool) -> dict:
    r"""What of a record was asked for: nothing else is missed in a comparison."""
    left_out = {preset for preset in PRESETS if preset not in presets} | (set() if with_sliders else {"sliders"})
    kept = {path: {k: v for k, v in page.items() if k not in left_out} for path, page in record["pages"].items()}
    return record | {"pages": {path: page for path, page in kept.items() if path in pages}}


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(
        prog="published_page.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--site", type=Path, default=SITE, help="the built book (default: _build/html)")
    parser.add_argument("--pages", nargs="+", help=f"{', '.join(ROLES)}, all, or paths such as book/alibi")
    parser.add_argument("--runs", type=int, default=3, help="runs of Lighthouse a page and preset (default: 3)")
    parser.add_argument("--presets", nargs="+", choices=PRESETS, default=list(PRESETS))
    parser.add_argument("--no-sliders", action="store_true", help="leave the sliders' times out")
    parser.add_argument("--audits", action="store_true", help="list the audits that were not passed")
    parser.add_argument("--build", action="store_true", help="measure builds in a fresh clone too")
    parser.add_argument("--chapters", action="store_true", help="one run with mobile on every page too")
    parser.add_argument("--check", action="store_true", help="compare with the record, write nothing")
    parser.add_argument("--record", type=Path, default=RESULTS, help="the record to write or to compare with")
    args = parser.parse_args(argv)
    try:
        check_int("--runs", args.runs)
        site = check_site(args.site.resolve())
        tools = check_tools()
        old = read_record(args.record) if args.check else None
        if args.check and not args.pages:
            pages = {path: page["role"] for path, page in old["pages"].items() if (site / path).is_file()}
            if not pages:
                raise CannotMeasure(f"{site} holds none of the pages of {args.record}")
        else:
            pages = choose(site, args.pages or list(ROLES))
    except (CannotMeasure, ValueError) as error:
        print(error, file=sys.stderr)
        return 2

    record = {
        "name": "published_page",
        "command": " ".join(["python benchmarks/published_page.py", *(argv or sys.argv[1:])]),
    }
    record |= facts(tools)
    record["pages"] = measure(site, pages, args.runs, args.presets, not args.no_sliders)
    made = {key: record[key] for key in ("commit", "date", "machine")}
    if args.chapters:
        record["chapters"] = each_chapter(site) | made
    if args.build:
        record["build"] = builds() | made
    print(table(record))
    if args.audits:
        print("\nAudits not passed:\n" + audits(record))
    if args.check:
        found = regressions(part(old, pages if args.pages else old["pages"], args.presets, not args.no_sliders), record)
        print("\nWorse than the record:", *(found or ["nothing"]), sep="\n")
        return 1 if found else 0

    whole = set(ROLES) <= {page["role"] for page in record["pages"].values()} and set(args.presets) == set(PRESETS)
    mine = args.record != RESULTS or site == SITE
    if whole and args.runs >= 3 and not args.no_sliders and mine:
        before = read_record(args.record) if args.record.exists() else {}
        for key in {"build", "chapters"} & set(before):  # these stay, with their own commit and date
            record.setdefault(key, before[key])
        write_json(args.record, record)
        print(f"\nwritten to {args.record}")
    else:
        why = "it is not a whole run" if mine else f"{site} is not this folder's build: name a file with --record"
        print(f"\nnot written to {args.record}: {why}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
