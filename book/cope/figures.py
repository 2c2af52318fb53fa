r"""The explorable of the chapter *CoPE: counting what matters*."""

from posenc.lab.experiments import load_results
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import axis, bars, held, label, line

TRAINED_GATES = load_results("cope_gates")
# Of all heads the one whose gates on held-out text favor spaces over letters most.
WORDIEST = max(TRAINED_GATES["heads"], key=lambda head: head["by_kind"]["space"] - head["by_kind"]["letter"])
LEVELS = [n / 20 for n in range(21)]
SLOTS, WIDTHS, GRIPS = (0.35, 0.88), (0.46, 0.24), (0.06, 0.7)  # of letters and of spaces
ENDS = tuple(slot + width / 2 for slot, width in zip(SLOTS, WIDTHS))
ROW = 0.06  # of gates whose characters stand in one row


def name_of(head):
    return f"layer {head['layer'] + 1}, head {head['head'] + 1}"


def _trained(letter, space):
    text, gates = TRAINED_GATES["line"], WORDIEST["gates"][-1]
    letters, spaces = ([(g, c) for g, c in zip(gates, text) if c.isspace() == blank] for blank in (False, True))
    count = len(letters) * letter + len(spaces) * space
    low, high, (same,) = min(letters)[0], max(letters)[0], {g for g, _ in spaces}
    heights = sorted({round(g / ROW) for g, _ in letters})
    rows = ["".join(c for g, c in letters if round(g / ROW) == height) for height in heights] + [
        "␣\u2009␣\u2009␣\u2009␣\u2009␣<br>" * (len(spaces) // 5)
    ]
    x, y = [SLOTS[0]] * len(heights) + [SLOTS[1]], [height * ROW for height in heights] + [same]
    said = [f"<b>to {high:.2f}</b>", f"<b>from {low:.2f}</b>"]
    data = [
        bars("two gates", SLOTS, [letter, space], "rgba(42, 143, 201, 0.25)", width=WIDTHS),
        *(line(f"level {n}", [GRIPS[n], ENDS[n]], [level] * 2, "blue", 2) for n, level in enumerate((letter, space))),
        label("trained head", x, y, rows, "orange", "middle center", 16),
        label("its ends", [SLOTS[0] + 0.05] * 2, [high, low], said, "ink", "middle right", 14),
        label("its spaces", SLOTS[1], same + 0.06, f"<b>all {same:.2f}</b>", "ink", "top center", 15),
        held("gate of each letter", GRIPS[0], letter, "blue"),
        held("gate of each space", GRIPS[1], space, "blue"),
        label("grips", GRIPS, [letter + 0.03, space + 0.03], ["<b>drag</b>"] * 2, "blue", size=14),
        label("their sum", 0, 1.23, f"<b>you count: {count:.0f}</b>", "blue", "middle right", 17),
        label("its sum", 1, 1.23, f"<b>the head: {sum(gates):.0f}</b>", "orange", "middle left", 17),
    ]
    plain = dict(tickfont=dict(size=15), showgrid=False, ticks="")
    layout = dict(height=480, showlegend=False, barmode="overlay", margin=dict(t=8, l=12, r=44))
    layout["xaxis"] = axis(0, 1, tickvals=SLOTS, ticktext=["letters", "spaces"], domain=[0.1, 0.9], **plain)
    layout["yaxis"] = axis(0, 1.28, tickvals=[0, 1], ticktext=["0<br>shut", "1<br>open"], side="right", **plain)
    layout["meta"] = dict(phone=dict(xaxis=dict(domain=[0, 1])))
    return dict(data=data, layout=layout)


trained = explorable(
    _trained,
    title="How far a trained head opens its gate, character by character",
    alt="Two columns, letters and spaces of a line of real text, each as high as a trained head opens its gate for it, "
    "to the nearest row. Letters are scattered, none is all shut or open; the spaces stand together in between. "
    "Behind them pale bars, the reader's gates, to pull; above, what these gates and those of the head count.",
    see="Pull letters and spaces: count words, then characters. What fits the head?",
    handles={"gate of each letter": "letter", "gate of each space": "space"},
    letter=slider(LEVELS, label="letters"),
    space=slider(LEVELS, label="spaces", default=1),
)
