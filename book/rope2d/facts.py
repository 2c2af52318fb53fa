r"""What the page *Two axes and more* runs, and its reader need not see."""

import math

import matplotlib.pyplot as plt
import torch

import posenc
from posenc.lab.experiments.plots import signed
from posenc.lab.train.glyphs import CHARACTERS, grid
from posenc.lab.write import finish, seeded, table, typeset
from posenc.rotate.mrope import dealt
from posenc.rotate.rope import inv_freq
from posenc.rotate.rope2d import axial

WIDTHS = (6, 12)
LANES = 16
QWEN2 = dict(sections=(16, 24, 24), base=1e6)  # of a head of 128 lanes, as the models' configurations have it
QWEN3 = dict(sections=(24, 20, 20), base=5e5, interleaved=True)  # the defaults in transformers


def flat_score(distance):
    r"""What RoPE with 16 lanes gives equal contents at a distance: the mean cosine over its pairs."""
    return (distance * inv_freq(LANES, dtype=torch.float64)).cos().mean().item()


def print_flat() -> None:
    r"""Three pairs of patches in pictures of two widths: distance in the flattened row, and RoPE's score."""
    pairs = {
        "right neighbor": ((2, 1), (2, 2)),
        "neighbor below": ((2, 1), (3, 1)),
        "right edge, next left edge": ((2, -1), (3, 0)),
    }
    print(f"{'':27}" + "".join(f"{f'width {width}':>16}" for width in WIDTHS))
    for name, ((row, column), (below, across)) in pairs.items():
        line = f"{name:27}"
        for width in WIDTHS:
            distance = below * width + across % width - (row * width + column % width)
            line += f"{f'{distance} away, {flat_score(distance):.3f}':>16}"
        print(line)


def forms_figure():
    r"""One query in the middle, and the scores of one pair: flattened, along each axis, and oblique."""
    side, a = 11, math.radians(30)
    row, column = 0.7 * (grid(side, side) - side // 2).double().T
    phases = {
        "flattened": side * row + column,
        "along rows": row,
        "along columns": column,
        "along both": math.cos(a) * row + math.sin(a) * column,
    }
    figure, axes = plt.subplots(2, 2, figsize=(4.4, 4.4), layout="constrained", sharex=True, sharey=True)
    for axis, (name, phase) in zip(axes.flat, phases.items()):
        image = axis.imshow(phase.cos().view(side, side), cmap=signed(), vmin=-1, vmax=1)
        axis.plot(side // 2, side // 2, marker="D", color="black", markeredgecolor="white", markersize=8)
        axis.set(title=name, xticks=[0, 5, 10], yticks=[0, 5, 10], xlabel="column", ylabel="row")
        axis.label_outer()
    figure.colorbar(image, ax=axes, label="score, equal contents", shrink=0.6)
    return finish(figure)


def card_figure():
    r"""The frequencies of four pairs as arrows in the plane of rows and columns: axial, and a mixed head's start."""
    mixed = seeded(lambda: posenc.make("rope2d", head_dim=LANES, form="mixed", num_heads=4))
    sets = {"axial": axial(LANES), "mixed, one head": mixed.rotate.freqs.detach()[2]}
    figure, axes = plt.subplots(1, 2, figsize=(4.4, 2.6), layout="constrained", sharex=True, sharey=True)
    around = torch.linspace(0, 2 * math.pi, 100)
    for axis, (name, freqs) in zip(axes, sets.items()):
        freqs = freqs / freqs.norm(dim=0).sqrt()  # the root of the length spreads the slow ones
        for turn in (0.1, 1):
            axis.plot(turn**0.5 * around.sin(), turn**0.5 * around.cos(), color="0.85", lw=1, zorder=0)
            axis.annotate(f"{turn:g}", (-0.7 * turn**0.5, 0.7 * turn**0.5), ha="right", va="top")
        for n, (row, column) in enumerate(freqs.T.tolist()):
            look = dict(color=("#0072b2", "#c45500")[n % 2], linestyle=("-", "--")[n % 2], marker="os"[n % 2])
            axis.plot((0, column), (0, row), markevery=[1], markersize=6, **look)
        axis.set(xlim=(-1.15, 1.15), ylim=(1.15, -1.15), xticks=[], yticks=[], aspect="equal")
        axis.set(title=name, xlabel="rad a column")
        axis.spines[:].set_visible(False)
        axis.axhline(0, color="0.8", zorder=0)
        axis.axvline(0, color="0.8", zorder=0)
    axes[0].set_ylabel("rad a row")
    return finish(figure)


def fastest(axis, **options):
    r"""The largest frequency of time (0), row (1) or column (2), in radians a step, of a head of 128 lanes."""
    return dealt(128, **options)[axis].max().item()


def fast_table():
    r"""The fastest pair of each axis, its steps for a full turn, and what a step changes, for both dealings."""
    rows = []
    for axis, name in enumerate(("time", "row", "column")):
        speeds = (fastest(axis, **options) for options in (QWEN2, QWEN3))
        rows.append([name, *(cell for w in speeds for cell in (typeset(f"{w:.2g}"), f"{2 * math.pi / w:,.0f}"))])
    head = ["axis", "sections: fastest, rad a step", "steps a turn", "in turn: fastest, rad a step", "steps a turn"]
    return table(head, rows)


ARMS = ("none", "learned", "sinusoidal", "axial", "mixed", "axial, class token")


def study_numbers() -> dict[str, str]:
    r"""What the prose cites: radians across 32 columns, how many characters, and what guessing gets."""
    classes = len(CHARACTERS)
    return {"lost": f"{31 * fastest(2, **QWEN2):.4f}", "classes": f"{classes}", "guess": f"{1 / classes:.1%}"}
