r"""What the chapter on position in practice computes behind its prose: models, tables, and frozen losses."""

import functools
import json
import statistics
from pathlib import Path

import torch

from posenc.lab.experiments import load_results, mean_and_spread
from posenc.lab.experiments.plots import AMOUNT
from posenc.lab.explore import COLORS
from posenc.lab.pages import finish, stirred
from posenc.lab.train import build, encoding_maker, settings_for
from posenc.lab.write import table
from posenc.methods import METHODS, on_text

SAME = 1e-9  # relative differences below this are rounding
NEW_TOKENS = 16
NEAR = 5  # distances that training had: the first so many columns
COLUMNS = ("base", "rotary", "scaling", "nope_layers", "window", "trained")


@functools.cache
def frozen():
    r"""Frozen results of `practice`."""
    return load_results("practice")


@functools.cache
def needle():
    r"""Frozen results of `needle`."""
    return load_results("needle")


def small_settings():
    r"""Sizes of the chapter's small models."""
    return settings_for("nano")


def model_of(method: str, seed: int = 0):
    r"""A small decoder with random weights in double precision, its attention about as sharp as a trained one's."""
    options = {"std": 0.5} if method == "learned" else None  # a trained table is no longer as faint as at the start
    model = stirred(build(method, small_settings(), seed=seed, options=options)).double()
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


def in_words(names) -> str:
    r"""Titles of methods as they stand in a sentence."""
    titles = [METHODS[name].title for name in names]
    return titles[0] if len(titles) == 1 else ", ".join(titles[:-1]) + " and " + titles[-1]


def average(method: str, kind: str, key: str) -> float:
    r"""A frozen loss: mean over seeds."""
    return statistics.fmean(one[key] for one in frozen()["methods"][method][kind])


def cost(method: str, kind: str, key: str) -> float:
    r"""What a frozen loss adds to that of right ids and mask."""
    return average(method, kind, key) - average(method, kind, "right")


def restarted_above_cached(method: str) -> list[float]:
    r"""By how much restarted ids without a mask cost more than the worse ids against a cache, seed by seed."""
    runs = frozen()["methods"][method]
    return [
        packed["ids only"] - packed["right"] - max(cached["begun anew"], cached["always 0"]) + cached["right"]
        for packed, cached in zip(runs["packing"], runs["decoding"], strict=True)
    ]


def decoding_numbers() -> dict[str, str]:
    r"""What wrong ids cost a trained RoPE in decoding, and what the page compares that with.

    Errors: AssertionError where restarted ids cost ALiBi or the sinusoid less than ids off against a cache.
    """
    study = load_results("train_short_test_long")
    at_length = [losses[0] for losses in study["methods"]["rope"]["whole"]]
    swaps = [above for method in ("alibi", "sinusoidal") for above in restarted_above_cached(method)]
    assert min(swaps) > 0, swaps
    return {
        "steps": f"{frozen()['settings']['steps']}",
        "study_steps": f"{study['settings']['steps']}",
        "study_rope": f"{statistics.fmean(at_length):.2f}",
        "swap_low": f"{min(swaps):.2f}",
        "swap_high": f"{max(swaps):.2f}",
        "seeds": f"{len(frozen()['seeds'])}",
        "length": f"{frozen()['settings']['length']}",
        "new": f"{NEW_TOKENS}",
        "rope_right": f"{average('rope', 'decoding', 'right'):.2f}",
        "rope_anew": f"{average('rope', 'decoding', 'begun anew'):.2f}",
        "rope_zero": f"{average('rope', 'decoding', 'always 0'):.2f}",
    }


def kinds_numbers(reads: dict[str, bool], forgives: set[str]) -> dict[str, str]:
    r"""The methods in three kinds, in words.

    Arguments:
        reads: {method: whether its output depends on positions}.
        forgives: methods whose output a shift of all positions leaves alone.
    """
    return {
        "blind": in_words([m for m in on_text() if not reads[m]]),
        "relative": in_words([m for m in on_text() if m in forgives and reads[m]]),
        "strict": in_words([m for m in on_text() if m not in forgives]),
    }


def differences_table(models, batch, text, ways: dict[str, dict], forgives: set[str]):
    r"""For each model and way of giving ids and mask: by how much a text is off from the text alone.

    Arguments:
        models: {method: model}.
        batch: tokens [1, T] that end with the text.
        text: its tokens alone.
        ways: {words: options of the model's call}; the first gives wrong ids alone, the last all right.
        forgives: methods that a shift of all positions leaves alone, which wrong ids must not move.
    Errors: AssertionError where a model disagrees.
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


def padding_numbers(forgives: set[str]) -> dict[str, str]:
    r"""What wrong ids or a missing mask cost in a left-padded batch."""
    strict = [m for m in METHODS if m in frozen()["methods"] and m not in forgives]
    costs = [f"{cost(m, 'padding', 'mask only'):.3f} ({METHODS[m].title})" for m in strict]
    return {"padding_strict": ", ".join(costs), "padding_rope": f"{cost('rope', 'padding', 'ids only'):.2f}"}


def packing_numbers() -> dict[str, str]:
    r"""What a missing mask costs a trained RoPE in a packed row."""
    return {
        "packing_neither": f"{cost('rope', 'packing', 'neither'):.2f}",
        "packing_ids": f"{cost('rope', 'packing', 'ids only'):.2f}",
    }


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
    for words, (kind, key) in MISTAKES.items():
        row = [words]
        for method in SHOWN:
            added = [one[key] - one["right"] for one in frozen()["methods"][method][kind]]
            mean, spread = mean_and_spread(added)
            row.append("0" if max(map(abs, added)) < 5e-5 else f"{mean:.3f} ± {spread:.3f}")
        rows.append(row)
    return table(["mistake", *(METHODS[method].title for method in SHOWN)], rows)


#: Rows of the picture of ids: words -> (tokens, index in the tensor of the call, right id; None for a pad).
OCCASIONS = {
    "a cache": ("the cat sat | on it", (0, 1, 2, 0, 1), (0, 1, 2, 3, 4)),
    "left padding": ("pad pad | the cat sat", (0, 1, 2, 3, 4), (None, None, 0, 1, 2)),
    "a packed row": ("the cat sat | it rained", (0, 1, 2, 3, 4), (0, 1, 2, 0, 1)),
}


def ids_figure():
    r"""Index in the tensor of the call and right id, with a cache, under left padding and in a packed row."""
    import matplotlib.pyplot as plt
    from matplotlib.patches import Rectangle

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


def directions_table():
    r"""For each method whether it works without a causal mask, or with which option, or why not."""
    rows = []
    for name in on_text():
        method = METHODS[name]
        default = encoding_maker(name, small_settings())(0)
        if not default.causal_only:
            answer = "as it is"
        elif method.both_ways:
            both = encoding_maker(name, small_settings(), causal=False)(0)
            assert not both.causal_only, name
            answer = "with `" + ", ".join(f"{option}={value!r}" for option, value in method.both_ways.items()) + "`"
        else:
            answer = "no: " + default.causal_only
        rows.append([method.title, answer])
    return table(["method", "without a causal mask"], rows)


def needle_errors(method: str):
    r"""Wrong answers in percent [contexts, distances], means over seeds; NaN where there is no such distance."""
    import numpy as np

    return 100 * np.mean(np.array(needle()["methods"][method]["grid"], dtype=float), axis=0)


def needle_figure():
    r"""Wrong answers of each method, a row each: at the longest context by distance, and of near needles by context."""
    import matplotlib.pyplot as plt
    import numpy as np

    distances, contexts = needle()["distances"], needle()["contexts"]
    methods = sorted(needle()["methods"], key=lambda method: needle_errors(method)[-1, -1])
    errors = np.array([needle_errors(method) for method in methods])  # [methods, contexts, distances]
    panels = (
        (errors[:, -1], distances, f"at {contexts[-1]} tokens", "distance of the needle"),
        (errors[..., :NEAR].mean(-1), contexts, "near needle", "context"),
    )
    figure, axes = plt.subplots(
        1, 2, figsize=(4.4, 4), layout="constrained", sharey=True, width_ratios=(len(distances), len(contexts))
    )
    for axis, (wrong, columns, words, of) in zip(axes, panels):
        axis.pcolormesh(wrong, cmap=AMOUNT, vmin=0, vmax=100, edgecolors="0.85", linewidth=0.5)
        for (i, j), value in np.ndenumerate(wrong):
            if round(value):
                color = "white" if value > 60 else COLORS["ink"]
                axis.text(j + 0.5, i + 0.5, f"{value:.0f}", ha="center", va="center", color=color)
        axis.set_xticks(np.arange(len(columns)) + 0.5, columns, rotation=60)
        axis.set_yticks(np.arange(len(methods)) + 0.5, [METHODS[method].title for method in methods])
        axis.set_title(words)
        axis.set_xlabel(of)
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
    axes[0].axvline(NEAR, color=COLORS["ink"], linestyle="--")
    axes[0].invert_yaxis()
    return finish(figure)


def needle_numbers() -> dict[str, str]:
    r"""What the reading of the maps cites."""
    contexts = needle()["contexts"]
    sinusoidal, rope, alibi, nope = (needle_errors(name)[-1] for name in ("sinusoidal", "rope", "alibi", "nope"))
    assert sinusoidal[0] > 15 and rope[0] < 10 < 50 < rope[-1] and alibi[0] < 10 < 30 < alibi[-1] and nope.max() < 5
    return {
        "needle_trained": f"{contexts[0]}",
        "needle_longest": f"{contexts[-1]}",
        "needle_nope": f"{needle_errors('nope')[-1, -1]:.0f}",
    }


def shuffled_table():
    r"""Needles missed with right and with shuffled ids, in percent."""
    rows = []
    for method, runs in frozen()["needle"].items():
        cells = (mean_and_spread([100 * one[key] for one in runs]) for key in ("right", "shuffled"))
        rows.append([METHODS[method].title, *(f"{mean:.1f} ± {spread:.1f}" for mean, spread in cells)])
    return table(["method", "ids right", "ids shuffled"], rows)


def shipped(path: str | Path) -> dict:
    r"""The table of shipped models: {"as_of": date, "rows": a model each}."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


def shipped_table(models: dict):
    r"""The shipped models, a row each."""
    rows = []
    for row in models["rows"]:
        cells = [f"{row[key]:,}" if isinstance(row[key], int) else row[key] for key in COLUMNS]
        source = f"{{cite}}`{','.join(row['cite'])}`"
        rows.append([f"{row['model']} ({row['year']})", row["kind"], row["encoding"], *cells, source])
    head = [
        "model",
        "kind",
        "encoding",
        "base",
        "lanes turned",
        "scaling",
        "NoPE layers",
        "window",
        "trained",
        "source",
    ]
    return table(head, rows)


def shipped_numbers(models: dict) -> dict[str, str]:
    r"""How many of the shipped models do what."""
    rows = models["rows"]
    assert all("RoPE" in row["encoding"] for row in rows if row["year"] >= 2024)
    assert {row["nope_layers"] for row in rows} == {"none", "every fourth"}
    assert {row["year"] for row in rows if row["encoding"] == "ALiBi"} == {2022, 2023}
    return {
        "as_of": models["as_of"],
        "models": f"{len({row['model'] for row in rows})}",
        "rotary": f"{sum('RoPE' in row['encoding'] for row in rows)}",
        "mixed": f"{sum(row['nope_layers'] == 'every fourth' for row in rows)}",
        "windowed": f"{sum(row['window'] != 'none' for row in rows)}",
    }
