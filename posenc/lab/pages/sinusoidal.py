r"""What the chapter on the sinusoidal encoding computes behind its prose: numbers and figures."""

import functools
import math

import numpy as np
import torch

from posenc.embed.sinusoidal import table
from posenc.lab.experiments import ONE_A_PLACE, load_results, verdict
from posenc.lab.experiments.plots import plot_volume, signed
from posenc.lab.pages import finish, say_all
from posenc.lab.write import pm
from posenc.rotate.rope import inv_freq

BLUE, ORANGE, GREEN, GRAY = "#0072b2", "#c45500", "#00805a", "#6b7280"
BASE = 10_000
DIM = 64
FAR = 1_000_001  # positions whose rounding is measured
CIRCULATED_ROW = (0, 0.38, 0.72, 0.95, 0.99, 0.86, 0.56, 0.14)  # "dim 2" of a table that is often copied


def numbers() -> None:
    r"""Give the prose all its numbers but those that its own cells compute."""
    parts = (failure_numbers, ladder_numbers, volume_ratios, hand_numbers, results_numbers, volume_numbers)
    for part in (*parts, rounding_numbers, mistake_numbers):
        say_all("sin", part())


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
    import matplotlib.pyplot as plt

    position, lengths = torch.arange(257.0), torch.arange(2, 101)
    figure, axes = plt.subplot_mosaic([[0, 1], [2, 2]], figsize=(4.4, 3.9), layout="constrained")
    axes[0].plot(position, number_share(position), color=BLUE)
    axes[0].set(xlabel="position m", ylabel="share of content", title="the number", ylim=(0, 1.05))
    axes[1].plot(lengths, 1 / (lengths - 1), color=ORANGE)
    axes[1].set(xlabel="sentence length T", ylabel="step to the next", title="the fraction", ylim=(0, 1.05))
    axes[2].bar(torch.arange(31) + 0.5, binary_jumps(), color=GREEN)
    axes[2].set(xlabel="from m to m + 1", ylabel="distance of the codes", title="the binary digits", ylim=(0, 2.5))
    return finish(figure)


def clocks_figure():
    r"""The encoding of position 5 as four clocks, with thin hands for the positions before it."""
    import matplotlib.pyplot as plt

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
    r"""The last wavelength, as it is and as it is often given, and how many dimensions the lanes span."""
    singular = torch.linalg.svdvals(table(torch.arange(64.0, dtype=torch.float64), 64))
    energy = singular.square().cumsum(0) / singular.square().sum()
    return {
        "last512": f"{2 * math.pi * BASE ** (510 / 512):,.0f}",
        "last_claim": f"{2 * math.pi * BASE:,.0f}",
        "rank": f"{int((singular > 1e-6 * singular[0]).sum())}",
        "rank99": f"{int((energy < 0.99).sum()) + 1}",
    } | alias_numbers(44)


def alias_numbers(position: int) -> dict[str, str]:
    r"""How near the first pair is, after whole turns, to what it was at 0, and how far the farthest lane is."""
    here, start = table(torch.tensor([position, 0], dtype=torch.float64), 512)
    off = (here - start).abs()
    assert abs(position - round(position / (2 * math.pi)) * 2 * math.pi) < 0.02  # whole turns
    assert off[:2].max() < 0.02 < 1 < off.max()
    return {
        "alias_turns": f"{round(position / (2 * math.pi))}",
        "alias_first": f"{off[:2].max():.2f}",
        "alias_all": f"{off.max():.1f}",
    }


def volume_ratios(width: int = 512) -> dict[str, str]:
    r"""How many times longer than its code the content is, with the paper's embeddings and with PyTorch's."""
    code = table(torch.tensor([30.0], dtype=torch.float64), width).norm().item()
    return {"louder_paper": f"{math.sqrt(width) / code:.2f}", "louder_torch": f"{width / code:.0f}"}


def hand_numbers() -> dict[str, str]:
    r"""The example by hand: C = 4, base 100, three tokens; their products; tensor2tensor's order of lanes."""

    def words(x):
        return "(" + ", ".join(f"{v:.3f}" for v in x.tolist()) + ")"

    places = torch.arange(3, dtype=torch.float64)
    codes, theirs = table(places, 4, 100.0), table(places, 4, 100.0, "concatenated")
    values = {f"hand_p{m}": words(code) for m, code in enumerate(codes)}
    for m, n in ((0, 1), (1, 2), (0, 2)):
        terms = codes[m] * codes[n]
        values[f"hand_{m}{n}"] = f"{terms.sum():.3f}"
        values[f"hand_{m}{n}_terms"] = " + ".join(f"{t:.3f}" for t in terms.tolist()).replace("+ -", "− ")
    (s, c), (s1, c1) = codes[1, :2].tolist(), (math.sin(1), math.cos(1))
    values["hand_across"] = f"{s * c1:.3f} + {c * s1:.3f} = {s * c1 + c * s1:.3f}"
    values["hand_up"] = f"{c * c1:.3f} − {s * s1:.3f} = {c * c1 - s * s1:.3f}"
    values["hand_theirs"] = words(theirs[1])
    return values


def check_short(sinusoid) -> None:
    r"""Assert that the page's own lines make posenc's table. sinusoid: the page's function, of m [T], C and a base."""
    for width, base in ((4, 100.0), (64, BASE)):
        m = torch.arange(50)
        torch.testing.assert_close(sinusoid(m, width, base), table(m.double(), width, base))


def card_figure(positions: int = 48, width: int = 32):
    r"""The card's picture: the codes of the first positions, a row each, fast lanes on the left."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(4.4, 2.3), layout="constrained")
    axes.imshow(table(torch.arange(positions), width), aspect="auto", cmap=signed(), vmin=-1, vmax=1)
    axes.set(xlabel="lane: sine, cosine, sine, …", ylabel="position m")
    return finish(figure)


def worst_rounding(start: int, stop: int) -> torch.Tensor:
    r"""The largest error of angles in single precision over these positions, for each clock."""
    positions, frequencies = torch.arange(start, stop)[:, None], inv_freq(DIM, BASE, torch.float64)
    single, exact = (positions.to(dtype) * frequencies.to(dtype) for dtype in (torch.float32, torch.float64))
    return torch.stack([(f(single) - f(exact)).abs().amax(0) for f in (torch.sin, torch.cos)]).amax(0)


def rounding_numbers() -> dict[str, str]:
    r"""The largest errors of single precision, near and far, and that of the first clock."""
    near = worst_rounding(0, 4097)
    step = 50_000
    far = torch.stack([worst_rounding(start, min(start + step, FAR)) for start in range(0, FAR, step)]).amax(0)
    return {"err_4k": f"{near.max():.1e}", "err_1m": f"{far.max():.1e}", "err_first": f"{far[0]:.0e}"}


@functools.cache
def frozen():
    r"""Frozen results of `train_short_test_long`, a method for each place."""
    return load_results("train_short_test_long", ONE_A_PLACE)


def losses(name: str, kind: str = "whole") -> np.ndarray:
    r"""Losses of a method [seeds, lengths]."""
    return np.array(frozen()["methods"][name][kind])


def rise(name: str, kind: str = "whole") -> np.ndarray:
    r"""By how much the loss rises from the training length to the longest, seed by seed."""
    return losses(name, kind)[:, -1] - losses(name, kind)[:, 0]


def results_numbers() -> dict[str, str]:
    r"""What the reading of the results cites."""
    results = frozen()
    settings, lengths, seen = results["settings"], results["lengths"], losses("sinusoidal")
    cut = losses("sinusoidal", "cut").mean(0)
    assert (seen[:, 1] > losses("nope")[:, 1]).all() and cut[1] >= seen[:, 1].mean() and (np.diff(cut)[1:] < 0).all()
    assert rise("sinusoidal", "cut").mean() > results["tolerance"] > rise("rope", "cut").mean()
    return {
        "prediction": results["predictions"]["sinusoidal"],
        "verdict": verdict(results, "sinusoidal").words,
        "layers": f"{settings['num_layers']}",
        "dim": f"{settings['dim']}",
        "short": f"{lengths[0]}",
        "long": f"{lengths[-1]}",
        "double": f"{lengths[1]}",
        "seeds": f"{len(results['seeds'])}",
        "gain": pm(losses("nope")[:, 0] - seen[:, 0], 3),
        "jump": pm(seen[:, 1] - seen[:, 0], 3),
        "cut_share": f"{rise('sinusoidal', 'cut').mean() / rise('sinusoidal').mean():.0%}",
        "cut_saved": f"{1 - rise('sinusoidal', 'cut').mean() / rise('sinusoidal').mean():.0%}",
        "whole_double": f"{seen[:, 1].mean():.2f}",
        "cut_double": f"{cut[1]:.2f}",
        "cut_long": f"{cut[-1]:.2f}",
        "cut_rise": pm(rise("sinusoidal", "cut"), 3),
        "nope_cut_rise": pm(rise("nope", "cut"), 3),
        "rope_rise": pm(rise("rope", "cut"), 3),
    }


@functools.cache
def volume():
    r"""Frozen results of `sinusoidal_volume`."""
    return load_results("sinusoidal_volume")


def at_volume(index: int, place: int = 0) -> np.ndarray:
    r"""Loss at one of the volumes, seed by seed, at the training length or another one."""
    level = f"{volume()['volumes'][index]:.4f}"
    return np.array(volume()["methods"][level]["whole"])[:, place]


def volume_numbers() -> dict[str, str]:
    r"""What the reading of the volumes cites."""
    results = volume()
    none, _, quiet, _, right, loud, loudest = map(at_volume, range(len(results["volumes"])))
    assert ((none - quiet) > 0).all() and (none - quiet).mean() < 0.1 * (none - right).mean()  # drowned: hardly a gain
    assert abs((right - loud).mean()) < 0.02 < 0.1 < (loudest - right).mean() and (loudest < none).all()
    longest = [at_volume(index, -1).mean() for index in range(len(results["volumes"]))]
    assert longest[2:] == sorted(longest[2:])  # louder is worse
    return {
        "volume_steps": f"{results['settings']['steps']}",
        "volume_seeds": f"{len(results['seeds'])}",
        "volume_quiet": pm(quiet, 3),
        "volume_none": pm(none, 3),
        "volume_right": pm(right, 3),
        "volume_loud": pm(loud, 3),
        "volume_loudest": pm(loudest, 3),
        "volume_long_none": f"{at_volume(0, -1).mean():.2f}",
        "volume_long_right": f"{at_volume(4, -1).mean():.2f}",
        "volume_long_loudest": f"{at_volume(-1, -1).mean():.2f}",
        "volume_longest": f"{results['lengths'][-1]}",
        "volume_saved": pm(none - quiet, 3),  # paired by seed
        "volume_left": f"{(none - quiet).mean() / (none - right).mean():.0%}",
    }


def volume_figure():
    r"""Loss against the volume of the encoding."""
    return plot_volume(volume())


def misfit() -> float:
    r"""By how much the best single frequency misses the circulated row."""
    every = torch.linspace(0, math.pi, 100_001)[:, None]
    return ((every * torch.arange(8)).sin() - torch.tensor(CIRCULATED_ROW)).abs().amax(-1).min().item()


def print_misfit() -> None:
    r"""Check the circulated row."""
    print(f"best single frequency for that row: still off by {misfit():.2f}")


def mistake_numbers() -> dict[str, str]:
    r"""What the corrections cite."""
    return {"misfit": f"{misfit():.2f}", "w1_384": f"{BASE ** (-2 / 384):.3f}"}
