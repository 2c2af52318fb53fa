r"""Pack the built book to be unpacked and opened from disk, and check the pack: `make zip`.

`python book/offline.py` writes `_build/posenc-book.zip` and reads it again: each page, picture, script and style sheet
that something in it names must be inside. The same site gives the same bytes: names are sorted, and every file carries
the time in SOURCE_DATE_EPOCH, or else that of the commit.
"""

from __future__ import annotations

import argparse
import html
import os
import posixpath
import re
import subprocess
import time
import urllib.parse
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "_build" / "html"
ZIP = ROOT / "_build" / "posenc-book.zip"
TOP = "posenc-book/"  # the one folder that unpacking makes
# Nothing opens these, or the published site alone has a use for them.
LEFT_OUT = {".buildinfo", ".nojekyll", "objects.inv", "posenc.pdf", "posenc-book.zip", "404.html"}


def moment() -> tuple[int, ...]:
    r"""The time that all files carry, UTC; a zip can't hold one before 1980."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    if not seconds:
        found = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
        seconds = found.stdout.strip() or 0
    return max(time.gmtime(int(seconds))[:6], (1980, 1, 1, 0, 0, 0))


def pack(site: Path, to: Path) -> None:
    if not (site / "index.html").is_file():
        raise SystemExit(f"no built book in {site}: run `make html` first")
    files = {path.relative_to(site).as_posix(): path for path in site.rglob("*") if path.is_file()}
    when = moment()
    with zipfile.ZipFile(to, "w") as out:
        for name in sorted(files.keys() - LEFT_OUT):
            entry = zipfile.ZipInfo(TOP + name, when)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system, entry.external_attr = 3, 0o644 << 16  # as on Unix, wherever this runs
            out.writestr(entry, files[name].read_bytes(), compresslevel=9)


def references(name: str, text: str) -> list[str]:
    r"""What a page or a style sheet names: links, pictures, scripts, forms, states of explorables."""
    if name.endswith(".css"):
        return re.findall(r"url\(\s*[\"']?([^\"')]+)", text)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    found = re.findall(r"<[a-zA-Z][^>]*?\s(?:href|src|action)=\"([^\"]*)\"", text)
    states = re.findall(r"\sdata-src=\"([^\"]*)\"", text)
    up = "../" * name.count("/")
    return [html.unescape(address) for address in found] + [f"{up}_static/explore/{state}" for state in states]


def check(pack: Path) -> str:
    r"""Ends with what the pack lacks, by page, or returns what it holds in one line."""
    with zipfile.ZipFile(pack) as inside:
        outside = [name for name in inside.namelist() if not name.startswith(TOP)]
        names = {name.removeprefix(TOP) for name in inside.namelist()}
        wrong = {f"{name} is not in the folder {TOP}" for name in outside}
        count = 0
        for name in sorted(names):
            if not name.endswith((".html", ".css")):
                continue
            for address in references(name, inside.read(TOP + name).decode("utf-8")):
                parts = urllib.parse.urlsplit(address)
                if parts.scheme or address.startswith("#") or not address:
                    continue
                count += 1
                path = posixpath.normpath(posixpath.join(posixpath.dirname(name), urllib.parse.unquote(parts.path)))
                if parts.netloc or parts.path.startswith("/"):
                    wrong.add(f"{name}: {address} leads away from the folder")
                elif parts.path and path not in names:
                    wrong.add(f"{name}: {address} is not in the pack")
        if "index.html" not in names:
            wrong.add("index.html is not in the pack")
    if wrong:
        raise SystemExit("\n".join([f"{pack.name} has {len(wrong)} fault(s):", *sorted(wrong)[:40]]))
    return f"{pack.name}: {len(names)} files, {pack.stat().st_size / 1e6:.1f} MB, {count:,} links inside"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--site", type=Path, default=SITE, help="the built site (default: _build/html)")
    parser.add_argument("--zip", type=Path, default=ZIP, help="the pack (default: _build/posenc-book.zip)")
    arguments = parser.parse_args()
    pack(arguments.site.resolve(), arguments.zip.resolve())
    print(check(arguments.zip.resolve()))
