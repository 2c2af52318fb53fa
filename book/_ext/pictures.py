r"""Pictures: plots that cells draw come in two layouts, and every picture keeps its place until it comes."""

from __future__ import annotations

import re
from pathlib import Path

import imagesize
from sphinx.application import Sphinx

from posenc.lab.pages.phone import MARK

# How plots are saved: without ground, so that the page's shows through, and the same at every build.
SAVED = {"facecolor": "none", "bbox_inches": "tight", "metadata": {"Date": None}}
NARROW = "(max-width: 600px)"  # pixels of the window


def figure_style() -> dict:
    r"""matplotlib's settings in every executed page and lab: the colors of the explorables, no frame, no ground."""
    from posenc.lab.explore import COLORS

    named = [COLORS[name] for name in ("blue", "orange", "green", "purple", "red", "sky", "yellow", "gray", "ink")]
    ink = ("text.color", "axes.labelcolor", "axes.titlecolor", "xtick.labelcolor", "ytick.labelcolor")
    return {
        "axes.prop_cycle": f"cycler('color', {[*named, '#7a4a12']})",
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "savefig.facecolor": "none",
        "legend.facecolor": "none",
        "legend.frameon": False,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": COLORS["gray"],
        "xtick.color": COLORS["gray"],
        "ytick.color": COLORS["gray"],
        "grid.color": COLORS["gray"],
        "grid.alpha": 0.3,
        "font.size": 12,
        "svg.hashsalt": "posenc",
        **dict.fromkeys(ink, COLORS["ink"]),
    }


def plots_config() -> str:
    r"""The configuration of every kernel that the build starts: plots in this style, as SVG, in both layouts."""
    settings = {"figure_formats": {"svg"}, "print_figure_kwargs": SAVED, "rc": figure_style()}
    lines = [f"c.InlineBackend.{name} = {value!r}\n" for name, value in settings.items()]
    both = "from posenc.lab.pages import phone; phone.install(); del phone"
    return "".join([*lines, f"c.InteractiveShellApp.exec_lines = [{both!r}]\n"])


def drawings(path: Path | None) -> list[str]:
    r"""The one or two drawings that a file of SVG holds, the wide one first; none of another file."""
    if path is None or path.suffix != ".svg" or not path.exists():
        return []
    return path.read_text("utf-8").split(MARK)


def of_phone(name: str) -> str:
    return name.removesuffix(".svg") + ".phone.svg"


def size(drawing: str) -> str:
    r"""The attributes that keep a drawing's place; matplotlib counts in points."""
    width, height = re.search(r'<svg[^>]*\bwidth="([\d.]+)pt" height="([\d.]+)pt"', drawing).groups()
    return f' width="{float(width) * 4 / 3:.0f}" height="{float(height) * 4 / 3:.0f}"'


def place_images(app: Sphinx, pagename, templatename, context, doctree) -> None:
    r"""Fetch pictures as the reader comes near, keep their place until then, and offer plots in both layouts."""
    sources = {f"_images/{quoted}": Path(app.srcdir, path) for path, quoted in app.builder.images.items()}

    def mend(found: re.Match) -> str:
        tag = found[0]
        if "loading=" in tag:
            return tag
        address = re.search(r'src="([^"]*)"', tag)[1]
        source = sources.get(address.lstrip("./"))
        if len(drawn := drawings(source)) == 2:
            wide, narrow = map(size, drawn)
            return (
                f'<picture><source media="{NARROW}" srcset="{of_phone(address)}"{narrow} />'
                f'<img loading="lazy" decoding="async"{wide}{tag[4:]}</picture>'
            )
        measured = imagesize.get(source) if source and "style=" not in tag and source.exists() else (-1, -1)
        place = ' width="{:.0f}" height="{:.0f}"'.format(*measured) if min(measured) > 0 else ""
        return f'<img loading="lazy" decoding="async"{place}{tag[4:]}'

    context["body"] = re.sub(r"<img\b[^>]*>", mend, context.get("body") or "")


def part(app: Sphinx, error: Exception | None) -> None:
    r"""Give each layout of a plot a file of its own."""
    for path in [] if error else Path(app.outdir, "_images").glob("*.svg"):
        if len(drawn := drawings(path)) == 2:
            path.with_name(of_phone(path.name)).write_text(drawn[1], "utf-8")
            path.write_text(drawn[0], "utf-8")


def setup(app: Sphinx) -> dict:
    app.connect("html-page-context", place_images)
    app.connect("build-finished", part)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
