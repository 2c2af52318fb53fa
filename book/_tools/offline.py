r"""Pack the built book to be unpacked and opened from disk, `_build/posenc-book.zip`: `make zip`."""

import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SITE, ZIP = ROOT / "_build" / "html", ROOT / "_build" / "posenc-book.zip"
TOP = "posenc-book/"  # the one folder that unpacking makes
# Nothing opens these, or the published site alone has a use for them.
LEFT_OUT = {".buildinfo", ".nojekyll", "objects.inv", "posenc.pdf", "posenc-book.zip", "404.html"}


def pack(site: Path, to: Path) -> str:
    r"""Write the pack, and return what it holds in one line."""
    if not (site / "index.html").is_file():
        raise SystemExit(f"no built book in {site}: run `make html` first")
    names = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()} - LEFT_OUT
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        for name in sorted(names):
            out.write(site / name, TOP + name)
    return f"{to.name}: {len(names)} files, {to.stat().st_size / 1e6:.1f} MB"


if __name__ == "__main__":
    print(pack(SITE, ZIP))
