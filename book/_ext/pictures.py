r"""Pictures: the style of plots that cells draw, and the place of every picture, which it keeps until it comes."""

import re
from pathlib import Path

import imagesize
from sphinx.application import Sphinx

# How plots are saved: without ground, so that the page's shows through, and the same at every build.
SAVED = {"facecolor": "none", "bbox_inches": "tight", "pad_inches": 0.02, "metadata": {"Date": None}}


def figure_style() -> dict:
    r"""matplotlib's settings in every executed page and lab: the colors of the explorables, no frame, no ground."""
    from posenc.lab.explore import COLORS

    named = [COLORS[name] for name in ("blue", "orange", "green", "purple", "red", "sky", "yellow", "gray", "ink")]
    clear = ("figure.facecolor", "axes.facecolor", "savefig.facecolor", "legend.facecolor")
    gray = ("axes.edgecolor", "xtick.color", "ytick.color", "grid.color")
    ink = ("text.color", "axes.labelcolor", "axes.titlecolor", "xtick.labelcolor", "ytick.labelcolor")
    return {
        "axes.prop_cycle": f"cycler('color', {[*named, '#7a4a12']})",
        "legend.frameon": False,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "grid.alpha": 0.3,
        "font.size": 10,
        "axes.titlesize": "medium",
        "svg.hashsalt": "posenc",
        **dict.fromkeys(clear, "none"),
        **dict.fromkeys(gray, COLORS["gray"]),
        **dict.fromkeys(ink, COLORS["ink"]),
    }


def plots_config() -> str:
    r"""The configuration of every kernel that the build starts: plots in this style, as SVG."""
    settings = {"figure_formats": {"svg"}, "print_figure_kwargs": SAVED, "rc": figure_style()}
    return "".join(f"c.InlineBackend.{name} = {value!r}\n" for name, value in settings.items())


def place_images(app: Sphinx, pagename, templatename, context, doctree) -> None:
    r"""Fetch pictures as the reader comes near, and keep their place until then."""
    sources = {f"_images/{quoted}": Path(app.srcdir, path) for path, quoted in app.builder.images.items()}

    def mend(found: re.Match) -> str:
        tag = found[0]
        if "loading=" in tag:
            return tag
        address = re.search(r'src="([^"]*)"', tag)[1]
        source = sources.get(address.lstrip("./"))
        measured = imagesize.get(source) if source and "style=" not in tag and source.exists() else (-1, -1)
        place = ' width="{:.0f}" height="{:.0f}"'.format(*measured) if min(measured) > 0 else ""
        return f'<img loading="lazy" decoding="async"{place}{tag[4:]}'

    context["body"] = re.sub(r"<img\b[^>]*>", mend, context.get("body") or "")


def setup(app: Sphinx) -> None:
    app.connect("html-page-context", place_images)
