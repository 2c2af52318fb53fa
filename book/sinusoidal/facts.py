r"""What the chapter on the sinusoidal encoding computes behind its prose: numbers and figures."""

import math

import matplotlib.pyplot as plt
import torch

from posenc.embed.sinusoidal import table
from posenc.lab.experiments import ONE_A_PLACE, load_results, verdict
from posenc.lab.experiments.plots import signed
from posenc.lab.write import finish, say_all, vector

BLUE, ORANGE, GREEN, GRAY = "#0072b2", "#c45500", "#00805a", "#6b7280"
BASE = 10_000
DIM = 64
CIRCULATED_ROW = (0, 0.38, 0.72, 0.95, 0.99, 0.86, 0.56, 0.14)  # "dim 2" of a table that is often copied


def numbers() -> None:
    r"""Give the prose the verdict, and what is computed but not by the page's own cells."""
    judged = verdict(load_results("train_short_test_long", ONE_A_PLACE), "sinusoidal")
    say_all("sin", failure_numbers() | ladder_numbers() | hand_numbers() | {"verdict": judged.words})


def number_share(position):
    r"""Share that content of squared length DIM keeps of a vector that also holds the bare position."""
    return DIM / (DIM + position**2)


def binary_codes() -> torch.Tensor:
    r"""Positions 0 to 31 in five lanes [32, 5]: lane m holds bit m."""
    return ((torch.arange(32)[:, None] >> torch.arange(5)) & 1).float()


def binary_jumps() -> torch.Tensor:
    r"""Distance between the binary codes of neighbors."""
    return binary_codes().diff(dim=0).norm(dim=-1)


def failure_numbers() -> dict[str, str]:
    r"""What the prose says of the three first ideas."""
    codes, jumps = binary_codes(), binary_jumps()
    return {
        "share": f"{number_share(64):.1%}",
        "step10": f"{1 / 9:.2f}",
        "step1000": f"{1 / 999:.3f}",
        "jump78": f"{jumps[7]:.2f}",
        "jump89": f"{jumps[8]:.2f}",
        "far715": f"{(codes[15] - codes[7]).norm():.2f}",
    }


def failure_figure():
    r"""Three first ideas, and what is wrong with each."""
    position, lengths = torch.arange(257.0), torch.arange(2, 101)
    figure, axes = plt.subplot_mosaic([[0, 1], [2, 2]], figsize=(4.4, 3.2), layout="constrained")
    axes[0].plot(position, number_share(position), color=BLUE)
    axes[0].set(xlabel="position m", ylabel="content", title="the number", ylim=(0, 1.05))
    axes[1].plot(lengths, 1 / (lengths - 1), color=ORANGE)
    axes[1].set(xlabel="sentence length T", ylabel="next step", title="the fraction", ylim=(0, 1.05))
    axes[2].bar(torch.arange(31) + 0.5, binary_jumps(), color=GREEN)
    axes[2].set(xlabel="from m to m + 1", ylabel="distance", title="the binary digits", ylim=(0, 2.5))
    return finish(figure)


def clocks_figure():
    r"""The encoding of position 5 as four clocks, with thin hands for the positions before it."""
    clocks = table(torch.arange(6), 8, base=100.0).unflatten(-1, (4, 2))  # [position, clock, (sin, cos)]
    figure, axes = plt.subplots(1, 4, figsize=(4.4, 1.8), layout="constrained")
    around = torch.linspace(0, 2 * math.pi, 100)
    for i, face in enumerate(axes):
        face.plot(around.sin(), around.cos(), color=GRAY, lw=1)
        for m in range(6):
            x, y = clocks[m, i].tolist()
            face.plot([0, x], [0, y], color=BLUE if m == 5 else GRAY, lw=3 if m == 5 else 0.8)
        face.plot(x, y, "o", color=BLUE)
        face.set(aspect="equal", xticks=[], yticks=[])
        face.set_title(f"clock {i}\nlanes {2 * i}, {2 * i + 1}")
        face.axis("off")
    return finish(figure)


def ladder_numbers() -> dict[str, str]:
    r"""The last wavelength, how many dimensions the lanes span, what one clock mistakes at 44, lengths, corrections."""
    singular = torch.linalg.svdvals(table(torch.arange(64.0, dtype=torch.float64), 64))
    energy = singular.square().cumsum(0) / singular.square().sum()
    here, start = table(torch.tensor([44, 0], dtype=torch.float64), 512)
    off, turns = (here - start).abs(), round(44 / (2 * math.pi))
    assert abs(44 - turns * 2 * math.pi) < 0.02 and off[:2].max() < 0.02 < 1 < off.max()  # whole turns
    every = torch.linspace(0, math.pi, 100_001)[:, None]
    misfit = ((every * torch.arange(8)).sin() - torch.tensor(CIRCULATED_ROW)).abs().amax(-1).min()
    return {
        "last512": f"{2 * math.pi * BASE ** (510 / 512):,.0f}",
        "last_claim": f"{2 * math.pi * BASE:,.0f}",
        "rank": f"{int((singular > 1e-6 * singular[0]).sum())}",
        "rank99": f"{int((energy < 0.99).sum()) + 1}",
        "alias_turns": f"{turns}",
        "alias_first": f"{off[:2].max():.2f}",
        "alias_all": f"{off.max():.1f}",
        # how many times longer than its code the content is, with the paper's embeddings and with PyTorch's
        "louder_paper": f"{math.sqrt(512) / start.norm():.2f}",
        "louder_torch": f"{512 / start.norm():.0f}",
        "misfit": f"{misfit:.2f}",  # of the best single frequency to the circulated row
    }


def hand_numbers() -> dict[str, str]:
    r"""The example by hand: C = 4, base 100, three tokens; their products; tensor2tensor's order of lanes."""
    places = torch.arange(3, dtype=torch.float64)
    codes, theirs = table(places, 4, 100.0), table(places, 4, 100.0, "concatenated")
    values = {f"hand_p{m}": vector(code) for m, code in enumerate(codes)}
    for m, n in ((0, 1), (1, 2), (0, 2)):
        terms = codes[m] * codes[n]
        values[f"hand_{m}{n}"] = f"{terms.sum():.3f}"
        values[f"hand_{m}{n}_terms"] = " + ".join(f"{t:.3f}" for t in terms.tolist()).replace("+ -", "− ")
    (s, c), (s1, c1) = codes[1, :2].tolist(), (math.sin(1), math.cos(1))
    values["hand_across"] = f"{s * c1:.3f} + {c * s1:.3f} = {s * c1 + c * s1:.3f}"
    values["hand_up"] = f"{c * c1:.3f} − {s * s1:.3f} = {c * c1 - s * s1:.3f}"
    values["hand_theirs"] = vector(theirs[1])
    return values


def check_short(sinusoid) -> None:
    r"""Assert that the page's own lines make posenc's table. sinusoid: the page's function, of m [T], C and a base."""
    for width, base in ((4, 100.0), (64, BASE)):
        m = torch.arange(50)
        torch.testing.assert_close(sinusoid(m, width, base), table(m.double(), width, base))


def card_figure(positions: int = 48, width: int = 32):
    r"""The card's picture: the codes of the first positions, a row each, fast lanes on the left."""
    figure, axes = plt.subplots(figsize=(4.4, 2.3), layout="constrained")
    axes.imshow(table(torch.arange(positions), width), aspect="auto", cmap=signed(), vmin=-1, vmax=1)
    axes.set(xlabel="lane: sine, cosine, sine, …", ylabel="position m")
    return finish(figure)
