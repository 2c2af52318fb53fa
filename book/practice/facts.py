r"""What the chapter on position in practice computes behind its prose: models, tables, and frozen losses."""

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.patches import Rectangle

from posenc.chapters.practice import figures
from posenc.lab.experiments import judge, load_results
from posenc.lab.explore import COLORS
from posenc.lab.train import build, settings_for
from posenc.lab.write import cell, finish, pm, stirred, table
from posenc.methods import METHODS

FROZEN = load_results("practice")
SAME = 1e-9  # relative differences below this are rounding


def model_of(method: str, seed: int = 0):
    r"""A small decoder with random weights in double precision, its attention about as sharp as a trained one's."""
    options = {"std": 0.5} if method == "learned" else None  # a trained table is no longer as faint as at the start
    model = stirred(build(method, settings_for("nano"), seed=seed, options=options)).double()
    with torch.no_grad():
        for block in model.blocks:
            block.attention.to_q.weight *= 2
            block.attention.to_k.weight *= 2
    return model


def off_by(logits, wanted) -> float:
    r"""The size of the difference, in units of the spread of what is wanted."""
    return ((logits - wanted).pow(2).mean().sqrt() / wanted.std()).item()


def same_or(value: float) -> str:
    r"""A relative difference, or that there is none."""
    return "same" if value < SAME else f"{value:.2f}" if value >= 0.005 else f"{value:.0e}"


def costs(method: str, kind: str, key: str) -> np.ndarray:
    r"""What a mistake adds to the loss of right ids and mask, seed by seed."""
    losses = FROZEN["methods"][method][kind]
    return np.subtract(losses[key], losses["right"])


def numbers() -> dict[str, str]:
    r"""What ids by index cost, and what RoPE pays for the needle's ids dealt out at random."""
    for method in ("rope", "alibi"):  # the order that the text tells
        cached = np.minimum(*(costs(method, "decoding", key) for key in ("begun anew", "always 0")))
        restarted, pads = costs(method, "packing", "ids only"), costs(method, "padding", "ids only")
        assert (cached > restarted).all() and (restarted > 2 * pads).all()
    most = [np.array(figures.added(method, figures.NEW, 32)) for method in ("kerple", "rse", "fire", "alibi", "rope")]
    assert all((paid > most[-1]).all() for paid in most[:-1])
    shuffled = (100 * np.subtract(FROZEN["needle"]["rope"]["shuffled"], FROZEN["needle"]["rope"]["right"])).tolist()
    assert judge(shuffled, 0.0, "rises") == "came true"
    strict = {METHODS[m].title: costs(m, "padding", "mask only") for m in ("sinusoidal", "learned", "fire")}
    words = ", ".join(f"{cost.mean():.3f} ± {cost.std(ddof=1):.3f} ({title})" for title, cost in strict.items())
    return {"padding_strict": words, "shuffled_rope": pm(shuffled, 1)}


def differences_table(models, batch, text, ways: dict[str, dict], forgives: set[str]):
    r"""For each model and way of giving ids and mask: by how much a text that ends a batch is off from the text alone.

    ways: {words: options of the model's call}; the first gives wrong ids alone, the last all right.
    forgives: methods that a shift of all positions leaves alone, which wrong ids must not move.
    """
    first, *others, right = ways
    rows = []
    for method, model in models.items():
        alone = model(text)
        errors = {way: off_by(model(batch, **how)[:, -text.shape[1] :], alone) for way, how in ways.items()}
        assert errors[right] < SAME and all(errors[way] > SAME for way in others), (method, errors)
        assert (errors[first] < SAME) == (method in forgives), (method, errors)  # as the theorem says
        rows.append([METHODS[method].title, *map(same_or, errors.values())])
    return table(["method", *ways], rows)


def padding_table(models, padded, text, valid, by_index, by_mask, forgives: set[str]):
    r"""Left padding: ids counted by index or by mask, pads hidden or seen."""
    ways = {
        "ids by index, pads hidden": dict(valid=valid, positions=by_index),
        "ids by mask, pads seen": dict(positions=by_mask),
        "both right": dict(valid=valid, positions=by_mask),
    }
    return differences_table(models, padded, text, ways, forgives)


def packing_table(models, packed, text, apart, counted_on, restarted, forgives: set[str]):
    r"""Two texts in a row: kept apart by a mask, by ids that restart, by neither or both."""
    ways = {
        "mask only": dict(mask=apart, positions=counted_on),
        "ids only": dict(positions=restarted),
        "neither": dict(positions=counted_on),
        "both": dict(mask=apart, positions=restarted),
    }
    return differences_table(models, packed, text, ways, forgives)


#: Mistakes whose cost is frozen: words -> (occasion, state).
MISTAKES = {
    "cached: ids always 0": ("decoding", "always 0"),
    "cached: ids begun anew": ("decoding", "begun anew"),
    "padded: ids by index, pads hidden": ("padding", "mask only"),
    "padded: ids right, pads seen": ("padding", "ids only"),
    "packed: mask alone": ("packing", "mask only"),
    "packed: restarted ids alone": ("packing", "ids only"),
    "packed: neither": ("packing", "neither"),
}
SHOWN = ("rope", "alibi", "sinusoidal", "nope")


def costs_table():
    r"""What each mistake adds to the loss of trained models: mean and spread of the differences seed by seed."""
    rows = []
    for words, mistake in MISTAKES.items():
        added = [costs(method, *mistake) for method in SHOWN]
        rows.append([words, *("0" if abs(one).max() < 5e-5 else cell(one, 3) for one in added)])
    return table(["mistake", *(METHODS[method].title for method in SHOWN)], rows)


#: Rows of the picture of ids: words -> (tokens, index in the tensor of the call, right id; None for a pad).
OCCASIONS = {
    "a cache": ("the cat sat | on it", (0, 1, 2, 0, 1), (0, 1, 2, 3, 4)),
    "left padding": ("pad pad | the cat sat", (0, 1, 2, 3, 4), (None, None, 0, 1, 2)),
    "a packed row": ("the cat sat | it rained", (0, 1, 2, 3, 4), (0, 1, 2, 0, 1)),
}


def ids_figure():
    r"""Index in the tensor of the call and right id, with a cache, under left padding and in a packed row."""
    figure, panels = plt.subplots(len(OCCASIONS), 1, figsize=(4.4, 3.7), layout="constrained")
    for axes, (words, (text, index, right)) in zip(panels, OCCASIONS.items()):
        border = len(text.split("|")[0].split())
        for at, (token, number, wanted) in enumerate(zip(text.replace("|", "").split(), index, right)):
            wrong = wanted is not None and number != wanted
            axes.add_patch(Rectangle((at + 0.03, 2.05), 0.94, 0.9, facecolor="#e5e7eb", edgecolor="#6b7280"))
            look = dict(ha="center", va="center")
            axes.text(at + 0.5, 2.5, token, **look)
            axes.text(at + 0.5, 1.5, f"{number}", color="#c45500" if wrong else COLORS["ink"], **look)
            bold = {"weight": "bold"} if wrong else {}
            axes.text(at + 0.5, 0.5, "–" if wanted is None else f"{wanted}", **bold, **look)
        axes.axvline(border, color="#0072b2", linestyle="--", lw=2)
        axes.set(xlim=(0, len(index)), ylim=(0, 3), xticks=[], title=words)
        axes.set_yticks([2.5, 1.5, 0.5], ["token", "index", "right id"])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    return finish(figure)


def shuffled_table():
    r"""Needles missed with right and with shuffled ids, in percent."""
    rows = []
    for method, runs in FROZEN["needle"].items():
        cells = (pm([100 * wrong for wrong in runs[key]], 1) for key in ("right", "shuffled"))
        rows.append([METHODS[method].title, *cells])
    return table(["method", "ids right", "ids shuffled"], rows)
