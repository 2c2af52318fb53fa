r"""What the chapter on position in practice computes behind its prose: models, tables, and frozen losses."""

import functools
import json
import statistics
from pathlib import Path

import torch

from posenc.lab.experiments import load_results, mean_and_spread
from posenc.lab.pages import finish, stirred, table
from posenc.lab.train import build, encoding_maker, settings_for
from posenc.methods import METHODS, on_text

SAME = 1e-9  # relative differences below this are rounding
NEW_TOKENS = 16
NEEDLE_BORDER = 4.5  # right of it distances are longer than any in training: between two columns
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


def decoding_numbers() -> dict[str, str]:
    r"""What wrong ids cost a trained RoPE in decoding."""
    return {
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


def needle_figure(across: int = 2):
    r"""A map for each method: wrong answers by the length of the context and the distance of the needle."""
    import matplotlib.pyplot as plt
    import numpy as np

    results, methods = needle(), [method for method in METHODS if method in needle()["methods"]]
    down = -(-len(methods) // across)
    figure, axes = plt.subplots(down, across, figsize=(9, 2.5 * down), layout="constrained", squeeze=False)
    for axis in axes.flat[len(methods) :]:
        axis.set_axis_off()
    for axis, method in zip(axes.flat, methods):
        errors = needle_errors(method)
        axis.imshow(errors, cmap="cividis_r", vmin=0, vmax=100, aspect="auto")
        for (i, j), value in np.ndenumerate(errors):
            if not np.isnan(value):
                color = "white" if value > 50 else "black"
                axis.text(j, i, f"{value:.0f}", ha="center", va="center", color=color, fontsize=10)
        axis.axvline(NEEDLE_BORDER, color="black", linestyle="--")
        axis.set_title(METHODS[method].title)
        axis.set_xticks(range(len(results["distances"])), results["distances"])
        axis.set_yticks(range(len(results["contexts"])), results["contexts"])
    for axis in axes[:, 0]:
        axis.set_ylabel("context")
    figure.supxlabel("distance of the needle, tokens")
    return finish(figure)


def needle_numbers() -> dict[str, str]:
    r"""What the reading of the maps cites."""
    contexts = needle()["contexts"]
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
    return {
        "as_of": models["as_of"],
        "models": f"{len({row['model'] for row in rows})}",
        "rotary": f"{sum('RoPE' in row['encoding'] for row in rows)}",
        "mixed": f"{sum(row['nope_layers'] == 'every fourth' for row in rows)}",
        "windowed": f"{sum(row['window'] != 'none' for row in rows)}",
    }
