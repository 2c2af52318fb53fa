r"""The explorables of the chapter *FoX: a door that closes*."""

import torch

from posenc.bias.fox import decay
from posenc.chapters.cope.figures import two_gates
from posenc.lab.experiments import load_results
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import axis

LEVELS = [float(f"{m}e-{n}") for n in (4, 3, 2, 1) for m in (1, 1.4, 2, 3, 5, 7) if n < 4 or m > 2] + [1.0]


def _trained(letter, space):
    results, shown = load_results("fox_gates"), slice(2, -1)  # from the first word to the last
    mean = {kind: torch.tensor(of_heads) for kind, of_heads in results["arms"]["fox"]["heads"][0].items()}
    most = (mean["letter"] - mean["space"]).argmax()  # the head whose doors differ most
    gates = torch.tensor(results["passage_gates"], dtype=torch.float64).flatten(0, 1)[most].exp()
    return two_gates(
        results["passage"][shown],
        lambda gates: decay(gates.log(), 1)[0],
        gates[shown].tolist(),
        letter,
        space,
        (([1.6, 1.95], [0.4, 0.4]), ([1.6, 1.95], [0.06, 0.06])),
        floor=-125,
        panel=2,
        rows=3,
        across=(0, 1),  # above the staircases, which can't rise over 0
        right=3.5,
        height=500,
        yaxis=axis(-150, 4, "D, logits", domain=[0, 0.58], tickvals=[-100, -50, 0], showgrid=False),
        yaxis2=axis(-4, 0.2, "gate", domain=[0.67, 1], anchor="x2", type="log", dtick=1, showgrid=False),
    )


trained = explorable(
    _trained,
    title="Two doors for a trained head",
    alt="A line of held-out text, over it what is left of each character for the last one, in logits: two staircases "
    "that rise to 0 at the right. A trained head's, thick, is flat along words, with a high step at each space. The "
    "thin one has two gates, for letters and marks and for spaces and line ends, two bars to pull. Alike they make a "
    "straight line; with spaces all but shut and letters wide open no pale gap is left to the head's.",
    readout="two gates leave the oldest {mine:.0f} · the head {head:.0f} · {apart:.1f} logits apart on average",
    handles={"gate of each letter": "letter", "gate of each space": "space"},
    letter=slider([level for level in LEVELS if level >= 0.1], label="letter", default=0.2),
    space=slider(LEVELS, label="space", default=0.2),
)
