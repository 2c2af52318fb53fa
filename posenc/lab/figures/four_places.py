r"""The diagram of attention with its four places, one SVG for each place that is lit.

python -m posenc.lab.figures.four_places writes book/_static/four-places-<place>.svg. A lit place is filled, has a heavy
border, bold text and an arrow from the word "position"; another is dashed and says what stands there instead.
"""

from pathlib import Path

from posenc.encoding import PLACES

#: For each place: what stands there when an encoding leaves it empty, and what an encoding does there.
WORDS = {
    "embed": ("x as it is", "x + PE(i)"),
    "rotate": ("q, k as they are", "turn q and k"),
    "bias": ("nothing added", "+ bias(i, j)"),
    "weigh": ("softmax", "another rule"),
}
TOP = {"embed": 72, "rotate": 194, "bias": 304, "weigh": 364}
HEIGHT = 40
STYLE = (
    "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif;font-size:16px;fill:#1f2933}"
    ".step{fill:#eef1f4;stroke:#52606d;stroke-width:1.5}"
    ".off{fill:#ffffff;stroke:#7b8794;stroke-width:1.5;stroke-dasharray:5 4}"
    ".on{fill:#0b3d6e;stroke:#000000;stroke-width:3.5}"
    ".wire{stroke:#52606d;stroke-width:1.8;fill:none;marker-end:url(#tip)}"
    ".enter{stroke:#000000;stroke-width:3.5;fill:none;marker-end:url(#heavy)}"
    ".dim{fill:#52606d}.light{fill:#ffffff;font-weight:700}.bold{font-weight:700}.small{font-size:14px}"
    ".mid{text-anchor:middle}.end{text-anchor:end}"
)


def diagram(lit):
    r"""The diagram as SVG text, with the places named in `lit` lit.

    Errors: ValueError for a name that is no place.
    """
    for place in lit:
        if place not in PLACES:
            raise ValueError(f"lit={lit!r}: {place!r} is no place; the places are {', '.join(PLACES)}")
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 520 508" width="520" height="508" role="img">',
            f"<title>{title(lit)}</title>",
            f"<style>{STYLE}</style>",
            "<defs>",
            _tip("tip", 6, "#52606d"),
            _tip("heavy", 4, "#000000"),
            "</defs>",
            '<rect x="1" y="1" width="518" height="506" rx="14" fill="#ffffff" stroke="#cbd2d9" stroke-width="1.5"/>',
            '<g transform="translate(20 2)">',
            _step(170, 14, 120, "x"),
            _text(300, 37, "[B, T, C]", "dim small"),
            _wire("M230 46 V68"),
            _place("embed", lit),
            _wire("M230 112 V122 H170 V138"),
            _wire("M230 112 V122 H290 V138"),
            _wire("M230 112 V122 H440 V138"),
            _step(130, 140, 80, "q"),
            _step(250, 140, 80, "k"),
            _step(400, 140, 80, "v"),
            _wire("M170 172 V190"),
            _wire("M290 172 V190"),
            _place("rotate", lit),
            _wire("M170 234 V247"),
            _wire("M290 234 V247"),
            _step(130, 249, 200, "scores  q · k / √D", 34),
            _wire("M230 283 V300"),
            _place("bias", lit),
            _wire("M230 344 V360"),
            _place("weigh", lit),
            _wire("M230 404 V424"),
            _wire("M440 172 V442 H335"),
            _step(130, 426, 200, "sum of weights · v", 34),
            _wire("M230 460 V478"),
            _text(230, 492, "out", "mid"),
            "</g>",
            "</svg>\n",
        ]
    )


def title(lit):
    r"""The diagram in words, for its title and for alt text."""
    if not lit:
        return "Attention from x to out; position enters at none of its four places"
    return f"Attention from x to out; position enters at {', '.join(place for place in PLACES if place in lit)}"


def _place(place, lit):
    top, on = TOP[place], place in lit
    middle = top + HEIGHT / 2 + 5.5
    shape = f'<rect x="105" y="{top}" width="250" height="{HEIGHT}" rx="8" class="{"on" if on else "off"}"/>'
    words = [
        _text(118, middle, place, "light" if on else "dim"),
        _text(343, middle, WORDS[place][on], "light end" if on else "dim end"),
    ]
    if on:
        words += [_text(-10, middle, "position", "bold"), f'<path class="enter" d="M70 {middle - 5.5} H98"/>']
    return "\n".join([shape, *words])


def _step(left, top, width, words, height=32):
    box = f'<rect x="{left}" y="{top}" width="{width}" height="{height}" rx="4" class="step"/>'
    return box + _text(left + width / 2, top + height / 2 + 5.5, words, "mid")


def _text(x, y, words, kind):
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{words}</text>'


def _wire(path):
    return f'<path class="wire" d="{path}"/>'


def _tip(name, size, color):
    return (
        f'<marker id="{name}" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="{size}" markerHeight="{size}" '
        f'orient="auto"><path d="M0 0 L10 5 L0 10 z" fill="{color}"/></marker>'
    )


def write(folder):
    r"""Write the diagram for no place, each place and all places into `folder`; return the paths."""
    paths = []
    for name, lit in [("none", ()), *((place, (place,)) for place in PLACES), ("all", PLACES)]:
        path = Path(folder) / f"four-places-{name}.svg"
        path.write_text(diagram(lit), encoding="utf-8")
        paths.append(path)
    return paths


if __name__ == "__main__":
    for path in write(Path(__file__).parents[3] / "book" / "_static"):
        print(path.name)
