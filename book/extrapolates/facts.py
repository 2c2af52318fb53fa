r"""Extrapolates, or ignores?: the mask of the cut, two lines without it, and the numbers of the prose."""

import matplotlib.pyplot as plt
import numpy as np
import torch

from posenc.chapters.extrapolates.figures import runs
from posenc.lab.experiments.verdicts import EQUAL
from posenc.lab.train.measures import last_keys
from posenc.lab.write import say_all, set_up


def start():
    """Set figures up and give the prose what it says of model B, whose name it does not tell, and of the rule."""
    set_up(**{"font.size": 12, "axes.spines.top": False, "axes.spines.right": False})
    nope, a, b = map(runs, ("NoPE", "A", "B"))
    assert (nope.word, a.word, b.word) == ("breaks", "ignores", "extrapolates")
    rise, cut_rise = ((losses[:, -1] - nope.whole[:, 0]).mean() for losses in (nope.whole, nope.cut))
    assert nope.tolerance < cut_rise < 0.6 * rise  # the cut takes back a part
    assert abs(a.whole - a.whole[:, :1]).max() < 0.005 and abs(a.whole - a.cut).max() < 0.001
    far, cut = b.whole[:, -1].mean(), b.cut[:, -1].mean()
    say_all("extrapolates", {"equal": f"{EQUAL:.0%}", "needle_far": f"{far:.1%}", "needle_cut": f"{cut:.0%}"})


def whole_figure():
    """The losses of NoPE and of model A as the context grows, nothing cut."""
    _, axes = plt.subplots(figsize=(4.4, 2.5), layout="constrained")
    for name, look in (("NoPE", dict(color="0.45", marker="o")), ("A", dict(color="C0", marker="s", linewidth=3))):
        r = runs(name)
        axes.errorbar(r.lengths, r.whole.mean(0), r.whole.std(0, ddof=1), capsize=3, **look)
        words = "NoPE" if name == "NoPE" else "model A"
        axes.annotate(words, (r.lengths[0], r.whole[:, 0].mean()), (0, 9), textcoords="offset points")
    axes.set_xscale("log", base=2)
    axes.set_xticks(r.lengths, [f"{n}\nin training" if n == r.lengths[0] else str(n) for n in r.lengths])
    axes.set(xlabel="characters of context", ylabel="loss, nats", ylim=(1.25, 2.65))


def masks_figure():
    """Which keys each query sees, whole and cut, in a text of twelve tokens with a training window of four."""
    T, L = 12, 4
    past = torch.ones(T, T, dtype=torch.bool).tril()
    last = past & last_keys(T, L, "cpu")
    _, panels = plt.subplots(1, 2, figsize=(4.4, 2.4), layout="constrained", sharey=True)
    for axes, seen, title in zip(panels, (past, last), ("whole", f"cut to the last {L} keys")):
        shades = np.where(last, 1.0, np.where(seen, 0.45, 0.0))
        axes.pcolormesh(shades, cmap="Blues", vmin=0, vmax=1.4, edgecolors="0.85", linewidth=0.5)
        axes.set(aspect="equal", xlabel="key $j$", xticks=[0.5, T - 0.5], yticks=[0.5, T - 0.5])
        axes.set(xticklabels=["0", str(T - 1)], yticklabels=["0", str(T - 1)], title=title)
    panels[0].invert_yaxis()  # shared by both
    panels[0].set_ylabel("query $i$")
