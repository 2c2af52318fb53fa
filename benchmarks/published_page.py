r"""The book as a stranger's phone gets it: Lighthouse's scores.

    make measure                                                # all of it; needs Node 18.16 or newer and Chromium
    python benchmarks/published_page.py --pages rope --runs 1   # a quick look at one page: what costs

The site is served as GitHub Pages does, and no name but 127.0.0.1 resolves in the browser. Each score is the median of
the runs; "lost" are the audits that a run did not pass. Lighthouse simulates a slow 4G line and a slow processor for
`mobile`, a fast line and this processor for `desktop`: measure on a quiet machine.
"""

import functools
import gzip
import http.server
import itertools
import json
import os
import shutil
import statistics
import subprocess
import threading
from pathlib import Path
from urllib.parse import unquote, urlsplit

import record
from tqdm import tqdm

from posenc.lab.explore import BROWSER_ARGS, find_chromium

SITE = Path(__file__).resolve().parents[1] / "_build" / "html"
LIGHTHOUSE = "lighthouse@12.8.2"  # scores of two major versions can't be compared: take a new one, and measure anew

PAGES = ("index", "rope", "sinusoidal")  # where readers land, a chapter as they are, the heaviest
SCORES = ("performance", "accessibility", "best-practices", "seo")
INSIDE = [*BROWSER_ARGS, "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]


class Host(http.server.SimpleHTTPRequestHandler):
    r"""A folder as a static host serves it: text compressed, everything kept for ten minutes."""

    protocol_version = "HTTP/1.1"
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".js": "text/javascript"}

    def do_GET(self) -> None:
        path = Path(self.translate_path(unquote(urlsplit(self.path).path)))
        path = path / "index.html" if path.is_dir() else path
        if not path.is_file():
            return self.send_error(404)
        kind, content = self.guess_type(path), path.read_bytes()
        self.send_response(200)
        if kind.startswith(("text/", "application/json", "image/svg")):
            content = gzip.compress(content, 6, mtime=0)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "max-age=600")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_) -> None:
        pass


def lighthouse(url: str, preset: str, chromium: str) -> dict:
    r"""One run's report."""
    command = ["npx", "--yes", LIGHTHOUSE, url, "--output=json", "--output-path=stdout", "--quiet"]
    command += ["--disable-full-page-screenshot", "--no-enable-error-reporting"]
    command += ["--chrome-flags=--headless=new " + " ".join(f"'{a}'" if " " in a else a for a in INSIDE)]
    command += ["--preset=desktop"] if preset == "desktop" else []
    run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "CHROME_PATH": chromium})
    try:
        report = json.loads(run.stdout)
    except ValueError:
        raise SystemExit(f"Lighthouse gave no report for {url} ({preset}):\n{run.stderr[-2000:]}") from None
    if error := report.get("runtimeError"):
        raise SystemExit(f"Lighthouse could not load {url} ({preset}): {error['message']}")
    return report


def summary(reports: list[dict]) -> dict:
    r"""The median of each score over the runs, and the titles of audits that any run did not pass."""
    lost = set()
    for report, key in itertools.product(reports, SCORES):
        for audit in (report["audits"][ref["id"]] for ref in report["categories"][key]["auditRefs"]):
            if audit["score"] is not None and audit["score"] < 0.9:
                lost.add(f"{audit['title']} [{audit['id']}] {audit.get('displayValue', '')}".strip())
    scores = {key: statistics.median(100 * report["categories"][key]["score"] for report in reports) for key in SCORES}
    return {"scores": scores, "lost": sorted(lost)}


OPTIONS = {
    "--pages": {"nargs": "+", "default": PAGES, "metavar": "page", "help": f"chapters ({' '.join(PAGES)})"},
    "--runs": {"type": int, "default": 3, "help": "runs of Lighthouse a page and preset (default: 3)"},
}


def main() -> None:
    options = record.asked(__doc__, OPTIONS)
    pages = ["index.html" if name == "index" else f"book/{name}/index.html" for name in options.pages]
    chromium = os.environ.get("CHROME_PATH") or find_chromium()
    if missing := [page for page in pages if not (SITE / page).is_file()]:
        raise SystemExit(f"no {missing} in {SITE}: run `make html`, and name chapters of book/, such as rope")
    if not (shutil.which("npx") and chromium):
        raise SystemExit("Node.js 18.16 or newer (npx) and Chromium are needed: install them, or set CHROME_PATH")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Host, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found, base = {}, f"http://127.0.0.1:{server.server_port}/"
    for page, preset in tqdm(list(itertools.product(pages, ("mobile", "desktop"))), desc="Lighthouse"):
        found[f"{page}, {preset}"] = summary([lighthouse(base + page, preset, chromium) for _ in range(options.runs)])
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
