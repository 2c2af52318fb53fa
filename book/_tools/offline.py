r"""Pack the built book to be unpacked and opened from disk, `_build/posenc-book.zip`: `make zip`.

The same site gives the same bytes: names are sorted, and every file carries
the time in SOURCE_DATE_EPOCH, or else that of the commit.
"""

import os
import subprocess
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SITE, ZIP = ROOT / "_build" / "html", ROOT / "_build" / "posenc-book.zip"
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


def pack(site: Path, to: Path) -> str:
    r"""Write the pack, and return what it holds in one line."""
    if not (site / "index.html").is_file():
        raise SystemExit(f"no built book in {site}: run `make html` first")
    found = {path.relative_to(site).as_posix(): path for path in site.rglob("*") if path.is_file()}
    files = {name: found[name] for name in sorted(found.keys() - LEFT_OUT)}
    when = moment()
    with zipfile.ZipFile(to, "w") as out:
        for name, path in files.items():
            entry = zipfile.ZipInfo(TOP + name, when)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system, entry.external_attr = 3, 0o644 << 16  # as on Unix, wherever this runs
            out.writestr(entry, path.read_bytes(), compresslevel=9)
    return f"{to.name}: {len(files)} files, {to.stat().st_size / 1e6:.1f} MB"


if __name__ == "__main__":
    print(pack(SITE, ZIP))
