r"""The picture of attention with its places, and the explorable of the chapter that names them.

`python -m posenc.chapters.four_places.figures` writes book/_static/four-places-<places>.svg: the path of attention for
the pages that explain it, and for the others a strip with their own places lit. On the path a lit place is filled, has
a heavy border, bold text and an arrow from the word "position"; another is dashed and says what stands there instead.
The fifth, gather, is the plain sum of values where it is not lit, as nearly everywhere.
"""

import functools
from pathlib import Path

import torch

from posenc import attention, embed_input, make
from posenc.encoding import PLACES
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, bars, held, label, path
from posenc.methods import METHODS

#: For each place: what stands there when an encoding leaves it empty, and what an encoding does there.
WORDS = {
    "embed": ("x as it is", "x + PE(i)"),
    "rotate": ("q, k as they are", "turn q and k"),
    "bias": ("nothing added", "+ bias(i, j)"),
    "weigh": ("softmax", "another rule"),
    "gather": ("sum of weights · v", "v by its offset"),
}
FOUR = PLACES[:-1]  # those on the way to the weights
TOP = {"embed": 72, "rotate": 194, "bias": 304, "weigh": 364, "gather": 426}
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
            _text(300, 37, "[T, C]", "dim small"),
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
            *_gather("gather" in lit),
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


def _gather(on):
    """The last step: a place where it is lit, else the sum as it always is."""
    words = WORDS["gather"][0]
    right, bottom, box = (360, 466, _place("gather", ["gather"])) if on else (335, 460, _step(130, 426, 200, words, 34))
    return _wire(f"M440 172 V442 H{right}"), box, _wire(f"M230 {bottom} V478")


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


def strip(lit):
    r"""The four places in a row as SVG text, for light and dark ground; those named in `lit` are filled."""
    parts = []
    for n, place in enumerate(FOUR):
        left, middle = 2 + 112 * n, 46 + 112 * n
        ground, ink = ("#0b3d6e", "#ffffff") if place in lit else ("none", "#76808c")
        look = f'fill="{ground}" stroke="#76808c" stroke-width="{1 if place in lit else 1.5}"'
        parts.append(f'<rect x="{left}" y="2" width="88" height="30" rx="8" {look}/>')
        bold = ' font-weight="700"' if place in lit else ""
        parts.append(f'<text x="{middle}" y="22.5" fill="{ink}" text-anchor="middle"{bold}>{place}</text>')
        if n:
            parts.append(
                f'<path d="M{left - 21} 17h14m-5 -4 5 4 -5 4" fill="none" stroke="#76808c" stroke-width="1.8"/>'
            )
    font = "font-family=\"system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif\" font-size=\"16\""
    size = f'viewBox="0 0 428 34" width="428" height="34" role="img" {font}'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<title>{title(lit)}</title>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def write(folder):
    r"""Write the paths and the strips into `folder`."""
    paths = {"none": (), "all": FOUR, "gather": ("gather",)}
    strips = {place: (place,) for place in FOUR} | {"row": FOUR, "rse": FOUR[1:]}
    strips |= {"-".join(pair): pair for pair in (("bias", "weigh"), ("rotate", "weigh"))}
    for draw, wanted in ((diagram, paths), (strip, strips)):
        for name, lit in wanted.items():
            (Path(folder) / f"four-places-{name}.svg").write_text(draw(lit), encoding="utf-8")


# The explorable: one sentence, one method a place, the same words at other positions.

SENTENCE = ("the", "dog", "bit", "the", "man")
DIM, HEADS = 8, 8  # ALiBi's first of eight slopes is 1/2
LAST = 20  # the last position that is drawn
#: A method for each place: its name in `METHODS` and its options. All heads have the same content; the first is drawn.
METHOD = {
    "embed": ("sinusoidal", {}),
    "rotate": ("rope", {"head_dim": DIM}),
    "bias": ("alibi", {"num_heads": HEADS}),
    "weigh": ("stickbreaking", {"attend_current": True}),
}


@functools.cache
def weights(place, start):
    r"""What the last word gives to each word of the sentence, [T], when the first stands at position `start`."""
    generator = torch.Generator().manual_seed(7)
    vectors = {word: torch.randn(DIM, generator=generator, dtype=torch.float64) for word in dict.fromkeys(SENTENCE)}
    w_q, w_k = 0.35 * torch.randn(2, DIM, DIM, generator=generator, dtype=torch.float64)
    name, options = METHOD[place]
    encoding = make(name, **options)
    positions = start + torch.arange(len(SENTENCE))
    x = embed_input(encoding, torch.stack([vectors[word] for word in SENTENCE])[None], positions)  # [1, T, C]
    q, k = ((x @ w.T)[:, None].expand(-1, HEADS, -1, -1) for w in (w_q, w_k))
    return attention(q, k, k, encoding.in_layers(), pos_q=positions, pos_k=positions, return_weights=True)[1][0, 0, -1]


def _shift(start):
    slots = list(range(len(SENTENCE)))
    ghost = dict(marker=dict(line=dict(color=COLORS["gray"], width=2)), width=0.72)
    columns, rows = slots * len(FOUR), [-row for row in range(len(FOUR)) for _ in slots]
    first = [1.1 * weight for place in FOUR for weight in weights(place, 0).tolist()]
    said, hues, data = [], [], [bars("at position 0", columns, first, "rgba(0, 0, 0, 0)", base=rows, **ghost)]
    for row, place in enumerate(FOUR):
        now = weights(place, start)
        moved = (now - weights(place, 0)).abs().max().item() > 1e-9
        word, hue, hatch = ("moved", "orange", "/") if moved else ("same", "blue", "")
        said, hues = [*said, f"<b>{word}</b>" if start else ""], [*hues, hue]
        look = dict(marker=dict(pattern=dict(shape=hatch)), customdata=now.tolist(), width=0.56, base=[-row] * 5)
        data += [bars(place, slots, (1.1 * now).tolist(), hue, hover="%{customdata:.3f}", **look)]
    off, bold = dict(cliponaxis=False), dict(ticktext=[f"<b>{place}</b>" for place in FOUR])
    here, beside = [start + slot for slot in slots], (start + 5, "right") if start < 10 else (start - 1, "left")
    data += [
        label("verdict", [4.65] * 4, [0.35 - row for row in range(4)], said, hues, "middle right", 16, **off),
        path("where it stood", slots, [0] * 5, "gray", 1, panel=2, marker=dict(symbol="square-open", size=12)),
        path("the sentence", here, [0] * 5, "blue", 3, panel=2, marker=dict(symbol="square", size=12)),
        held("first word", start, 0, "blue", "square", 16, panel=2),
        label("hand", beside[0], 0, "drag", "ink", f"middle {beside[1]}", 14, True, panel=2),
    ]
    heads = [f"<b>{word}</b><br>{start + slot}" for slot, word in enumerate(SENTENCE)]
    ways = [f"<b>{place}</b><br>{METHODS[METHOD[place][0]].title}" for place in FOUR]
    plain, thin = dict(showgrid=False, zeroline=False, ticks=""), dict(width=1, color=COLORS["gray"])
    rows = dict(ticktext=ways, tickfont=dict(size=13))
    layout = dict(
        dict(height=440, showlegend=False, margin=dict(t=4, b=8), barmode="overlay", meta=dict(phone=dict(yaxis=bold))),
        xaxis=axis(-0.6, 6.1, tickvals=slots, ticktext=heads, side="top", tickfont=dict(size=14), **plain),
        yaxis=axis(-3.06, 1, domain=[0, 0.72], tickvals=[0.35 - n for n in range(4)], **rows, **plain),
        xaxis2=axis(-0.8, LAST + 0.8, anchor="y2", tickvals=[0, 5, 10, 15, 20], side="top", tickfont=dict(size=12)),
        yaxis2=axis(-1, 1, domain=[0.87, 0.95], visible=False),
        shapes=[dict(type="line", x0=-0.5, x1=4.5, y0=-n, y1=-n, line=thin) for n in range(len(FOUR))],
    )
    return dict(data=data, layout=layout)


shift = explorable(
    _shift,
    title="One sentence, a method at each place",
    alt="The sentence the dog bit the man as five squares on a line of positions from 0 to 20; it can be dragged "
    "along. Below, four rows, one method a place: embed, rotate, bias, weigh. In each a bar for a word: what the last "
    "word, man, gives to it; outlines show the same from position 0. Wherever the sentence moves, embed's bars leave "
    "their outlines, and those of the other three stay.",
    see="Drag the sentence along: whose bars leave their outlines?",
    handles={"first word": "start"},
    start=slider(range(LAST + 2 - len(SENTENCE)), label="first word stands at", play=True),
)

if __name__ == "__main__":
    write(Path(__file__).parents[1] / "_static")
