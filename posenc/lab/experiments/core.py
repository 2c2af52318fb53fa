r"""The experiments: what is trained and measured for each, what was predicted, what came out.

    results = load_results("flipflop")            # frozen, from results/flipflop.json
    verdict(results, "rope").words                # held, failed or within the spread, with the numbers

    python -m posenc.lab.train sweep flipflop         # makes it anew

Chapter: How to measure position.
"""

import dataclasses
import datetime
import functools
import importlib.metadata
import importlib.resources
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy
import torch
from torch import distributed
from tqdm import tqdm

from posenc.errors import check_choice, nearest
from posenc.lab.train import measure, read_checkpoint, sample, settings_for, train_with
from posenc.lab.train.measure import KINDS
from posenc.lab.train.tasks import TASKS, load_corpus
from posenc.methods import METHODS

# Written before the study ran: what theory or the papers say, and how large a rise from the training length to eight
# times that counts as one. "holds": by no more than TOLERANCE nats per character. "rises": by more.
TOLERANCE = 0.05
PREDICTIONS = {
    "nope": (
        "rises",
        "Nothing tells the model how far away a key is, so eight times as many keys share one softmax that was trained "
        "with 64: attention thins out and the loss rises. The causal mask tells order at depth, so it should train.",
    ),
    "sinusoidal": (
        "rises",
        "Positions beyond 63 add vectors to the embeddings that training never showed, so the loss rises, although the "
        "paper hoped that the sinusoid may extrapolate. Cutting attention does not help: the vectors remain unseen.",
    ),
    "learned": (
        "rises",
        "Rows beyond 63 never got a gradient: they hold what they were drawn as, so the loss rises. Cutting attention "
        "does not help, since the rows are added to the targets themselves.",
    ),
    "shaw": (
        "holds",
        "Beyond the clip of 16 every offset reads the same row, so no row is unseen at any length. Only the number of "
        "keys is new, and near keys have rows of their own to win by.",
    ),
    "transformer_xl": (
        "rises",
        "Its sinusoid of the distance enters through a learned matrix, which was fitted to distances up to 63 only.",
    ),
    "t5": (
        "holds",
        "Distances from 64 on read buckets that training hardly showed or never, but all distances from 128 on read "
        "one number, which started near 0; trained biases of near keys stand above it.",
    ),
    "kerple": (
        "holds",
        "A logarithmic penalty: every distance has one, and distant keys lose to near ones, as the paper says.",
    ),
    "fire": ("holds", "The network only sees shares from 0 to 1, all of which training showed, as the paper says."),
    "rope": (
        "rises",
        "Distances beyond 63 turn the slow lane pairs by angles that training never showed, so the loss rises. "
        "Cutting attention to 64 keys takes those distances away, and the loss stays.",
    ),
    "alibi": (
        "holds",
        "Distant keys are penalized ever more, so the loss holds at eight times the length, as the paper says. If it "
        "is the same with attention cut, then it holds because what is far is ignored.",
    ),
    "stickbreaking": (
        "holds",
        "Near keys take their share first and no position is ever unseen, so the loss holds or improves with length, "
        "as the paper says. If it is the same with attention cut, then nothing far away is used.",
    ),
    "exposb": (
        "rises",
        "Its angles are RoPE's, unseen beyond 63. The factor on logits lies between 0.7 and 1 and penalizes no key.",
    ),
    "rse": (
        "rises",
        "The stick is broken from the first key on: with eight times as many keys in front, the near ones are asked "
        "last, and training showed no reason to let the early ones pass.",
    ),
}


class Sweep(NamedTuple):
    r"""One experiment: a task, what each trained model is asked, and what was predicted.

    measure(model, settings) returns {"scores": {column: number}, ...}, all of it kept for each seed. A prediction for
    an arm is (claim, why) on the change of `unit` from one column to another, `contrast`; or, with `against`, from
    that arm to this one in the column `contrast[1]`, where None is the training length. arms: {name: (method, its
    options)}, default the methods with a prediction.
    """

    task: str
    question: str
    measure: Callable
    unit: str
    contrast: tuple
    tolerance: float
    predictions: dict
    headline: str  # the paper's, cited
    shows_not: str
    against: str | None = None
    arms: dict | None = None
    facts: Callable = lambda settings: {}  # what stands once in the results


def rounded(value):
    """Numbers to six digits, in lists and dicts too."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(item) for item in value]
    return round(value, 6) if isinstance(value, float) else value


def measure_text(model, settings):
    losses = measure.short_long(model, settings)
    cell = {kind: losses[kind] for kind in KINDS}
    return cell | {
        "distance_and_keys": measure.distance_and_keys(model, settings)["loss"],
        "context_cut": measure.context_cut(model, settings)["loss"],
        "by_position": measure.loss_by_position(model, settings)["loss"],
    }


def text_facts(settings):
    facts = {"targets": settings.targets, "length": settings.length, "reach": settings.length - 1}
    longest = settings.lengths[-1]
    return {
        "lengths": settings.lengths,
        "target_characters": settings.windows * settings.targets,
        "definitions": {kind: text.format(**facts) for kind, text in KINDS.items()},
        "gaps": measure.unseen_gaps(settings),
        "cuts": measure.key_cuts(settings),
        "until": [int(part[-1]) for part in torch.arange(longest).tensor_split(32)],
    }


def measure_volume(model, settings):
    losses = measure.short_long(model, settings)
    scores = {str(length): losses["whole"][i] for i, length in enumerate(losses["lengths"])}
    return {"scores": scores} | {kind: losses[kind] for kind in KINDS}


def measure_masked(model, settings):
    found = measure.masked_losses(model, settings)
    return {"scores": {str(n): value for n, value in zip(found["lengths"], found["loss"])}}


def puzzle(task):
    """What a sweep over a puzzle measures: the share of wrong answers on each of its tests."""
    return lambda model, settings: {"scores": measure.task_errors(model, task, settings)}


def measure_needle(model, settings):
    found = measure.needle_errors(model, settings)
    far = [distance >= settings.length for distance in found["distances"]]

    def mean(row, wanted):
        values = [value for value, is_far in zip(row, far) if value is not None and is_far == wanted]
        return sum(values) / len(values)

    first, last, cut = found["grid"][0], found["grid"][-1], found["cut_row"]
    scores = {
        "in": mean(first, False),
        "near": mean(last, False),
        "far": mean(last, True),
        "near, cut": mean(cut, False),
        "far, cut": mean(cut, True),
    }
    return {"scores": scores, "grid": found["grid"], "cut_row": cut}


def needle_facts(settings):
    trained, longest = settings.length - 6, settings.lengths[-1]
    tests = {
        "in": f"context {settings.length}, the needle within the trained distance, {trained} tokens",
        "near": f"context {longest}, the needle within the trained distance",
        "far": f"context {longest}, the needle farther back than any in training",
        "near, cut": f"as near, attention cut to {settings.length} keys",
        "far, cut": f"as far, attention cut to {settings.length} keys",
    }
    return {"tests": tests, "contexts": settings.lengths, "distances": measure.needle_distances(settings)}


def measure_recall(model, settings):
    scores = measure.task_errors(model, "recall", settings)
    return {"scores": scores, "by_pairs": [measure.share_wrong(model, batch) for batch in recall_batches(settings)]}


def most_pairs(settings):
    """The most pairs of key and value that training holds."""
    return TASKS["recall"].tests(settings.length)["more 1x"]["pairs"]


def recall_pairs(settings):
    """Numbers of pairs to test with, the most of training among them."""
    most = most_pairs(settings)
    return [most // 4, most // 2, most, most * 3 // 2, *(n * most for n in (2, 3, 4))]


def recall_batches(settings):
    for pairs in recall_pairs(settings):
        length = max(settings.length, 4 * pairs)
        yield measure.fixed_batch("recall", settings, {"length": length, "pairs": pairs}, 128)


# ExpoSB and RSE taken apart. The names of the arms are those of the parts that are switched on.
BARE = {"gain": False, "band": False, "decay": False}
PARTS = {
    "nope": ("nope", {}),
    "rope": ("rope", {}),
    "exposb": ("exposb", {}),
    "exposb_gain": ("exposb", BARE | {"gain": True}),
    "exposb_band": ("exposb", BARE | {"band": True}),
    "exposb_pairs": ("exposb", BARE | {"band": True, "per_pair": True}),
    "exposb_logits": ("exposb", BARE | {"decay": True}),
    "exposb_weights": ("exposb", BARE | {"decay": True, "on": "weights"}),
    "exposb_log": ("exposb", BARE | {"decay": True, "on": "log"}),
    "rse": ("rse", {}),
    "rse_recent": ("rse", {"order": "recent"}),
    "rse_softmax": ("rse", {"stick": False}),
    "rse_penalty": ("rse", {"rotation": False, "stick": False}),
    "rse_stick": ("rse", {"rotation": False, "penalty": False}),
    "stickbreaking": ("stickbreaking", {}),
}

VOLUMES = (0.0, 0.03, 96**-0.5, 0.3, 1.0, 3.0, 10.0)

SWEEPS = {
    "train_short_test_long": Sweep(
        task="text",
        question="What does a context longer than the training window do to the loss on the same characters?",
        measure=measure_text,
        unit="nats per character",
        contrast=(),
        tolerance=TOLERANCE,
        predictions=PREDICTIONS,
        headline="ALiBi (arXiv 2108.12409): trained at 1024, it matches a sinusoidal model trained at 2048 on 2048 "
        "tokens. Stick-breaking (arXiv 2410.17980): trained at 2048, perplexity still improves to 16384.",
        shows_not="That anybody uses a far context: this text hardly rewards it, so what holds may only ignore.",
        facts=text_facts,
    ),
    "masked": Sweep(
        task="masked",
        question="Does position help to fill in hidden characters, where no causal mask gives order away?",
        measure=measure_masked,
        unit="nats per masked character",
        contrast=(None, None),
        against="nope",
        tolerance=0.05,
        predictions={
            "sinusoidal": ("falls", "Without position the encoder sees a bag of characters. Any position beats that."),
            "learned": ("falls", "As the sinusoid: each place has a vector, here one that training chooses."),
            "shaw": ("falls", "A vector for each of the nearest offsets, sides told apart: what filling in asks for."),
            "transformer_xl": ("falls", "Distance with its sign enters by two terms; neighbors and sides are told."),
            "t5": ("falls", "One number for each near offset, sides told apart. It steers without looking at content."),
            "rope": ("falls", "It tells the distance and the side of each neighbor, all that a bag lacks."),
            "alibi": (
                "falls",
                "The symmetric form tells how far a neighbor is but not on which side; half of the order should still "
                "beat none.",
            ),
            "stickbreaking": (
                "falls",
                "Breaking the stick from the first key on favors early keys, which is some order. It names no "
                "neighbor, so it should gain less than the others.",
            ),
            "exposb": ("falls", "It rotates as RoPE does, and its factors are near 1 at these lengths."),
            "rse": ("falls", "It rotates, which tells neighbors and sides; the stick adds an order."),
        },
        headline="BERT (arXiv 1810.04805) trains with this rule and adds learned positions; its paper has no arm "
        "without them.",
        shows_not="What a long training gives: at this budget the models mostly learn letter statistics of neighbors.",
        facts=lambda settings: {
            "tests": {str(n): f"context {n}, the characters that count in its middle" for n in settings.lengths}
        },
    ),
    "needle": Sweep(
        task="needle",
        question="Is a needle found in a longer context, near and far, and does cutting the attention help or hurt?",
        measure=measure_needle,
        unit="share of wrong answers",
        contrast=("in", "far"),
        tolerance=0.05,
        predictions={
            "nope": ("rises", "The softmax spreads over eight times as many keys, against which it has only content."),
            "sinusoidal": ("rises", "Every token of the longer context stands at a position never seen."),
            "learned": ("rises", "Every token of the longer context adds a row that never got a gradient."),
            "shaw": (
                "holds",
                "All offsets beyond the clip are one, in training too: a far needle looks like a nearer one.",
            ),
            "transformer_xl": ("rises", "The needle stands at a distance that its matrix was never fitted to."),
            "t5": ("rises", "The farthest buckets were never trained, and eight times as many keys share the softmax."),
            "kerple": ("rises", "The penalty grows slowly, but so do the keys, and each costs the needle a share."),
            "fire": ("rises", "Its shares are seen, but keys eight times as many stand between needle and question."),
            "rope": ("rises", "The needle stands at a distance never seen."),
            "alibi": ("rises", "The penalty on a far key exceeds what its content can bring back."),
            "stickbreaking": (
                "rises",
                "Keys nearer than the needle each take a little of the stick; over hundreds of them it adds up.",
            ),
            "exposb": ("rises", "The needle stands at a distance never seen, as with RoPE."),
            "rse": ("rises", "The needle is penalized by its distance, which is also new to the rotation."),
        },
        headline="RULER (arXiv 2404.06654): most long-context models fall well short of their claimed length on "
        "retrieval that goes beyond the plain needle.",
        shows_not="Language: filler, keys and values are single tokens that share nothing with one another.",
        facts=needle_facts,
    ),
    "flipflop": Sweep(
        task="flipflop",
        question="Is the last written bit still found when nearly everything after it is to be ignored?",
        measure=puzzle("flipflop"),
        unit="share of wrong answers",
        contrast=("in", "sparser"),
        tolerance=0.05,
        predictions={
            "nope": ("rises", "It has no way to prefer the last write over an earlier one but by depth."),
            "sinusoidal": ("rises", "The last write stands farther back than usual; absolute positions glitch there."),
            "learned": ("rises", "As the sinusoid: the paper on CoPE reports most errors for absolute positions."),
            "shaw": ("rises", "Beyond its clip all writes look equally far, so the last one is not told from others."),
            "transformer_xl": ("rises", "It tells distances, but must learn that nearer writes win at each of them."),
            "t5": ("rises", "Far buckets are shared by many offsets, so two far writes may look equally far."),
            "rope": ("rises", "The paper on CoPE reports it: good in distribution, glitches when writes are sparse."),
            "alibi": ("rises", "The penalty prefers near keys, ignored ones too, over a far write."),
            "stickbreaking": ("holds", "Ignored keys need not take anything, then the last write takes all."),
            "exposb": ("rises", "As RoPE: glitches when the last write stands at an unusual distance."),
            "rse": ("rises", "Earlier writes are asked before the last one, and only the penalty speaks for it."),
        },
        headline="CoPE (arXiv 2405.18719), error in / out of distribution: absolute 6.8% / 21.7%, RoPE 1.8% / 20.3%, "
        "CoPE 0% / 4.9%.",
        shows_not="The paper's scale: its sequences are eight times as long and its models larger.",
    ),
    "selective_copy": Sweep(
        task="selective_copy",
        question="Are scattered letters copied when the blanks between them are more than in training?",
        measure=puzzle("selective_copy"),
        unit="share of wrong answers",
        contrast=("in", "sparser"),
        tolerance=0.05,
        predictions={
            "nope": ("rises", "More keys share the softmax."),
            "sinusoidal": ("rises", "Answers stand at positions that training never showed."),
            "learned": ("rises", "Answers stand at positions whose rows never got a gradient."),
            "shaw": ("rises", "Beyond the clip it cannot tell which letter comes next in order."),
            "transformer_xl": ("rises", "The letters stand at distances that training never showed."),
            "t5": ("rises", "The letters stand at distances whose buckets training never or hardly showed."),
            "rope": ("rises", "The letters stand at distances that training never showed."),
            "alibi": ("rises", "The letters stand farther back, and the penalty grows with distance."),
            "stickbreaking": ("holds", "Blanks need not take anything, so their number does not matter."),
            "exposb": ("rises", "The letters stand at distances that training never showed, as with RoPE."),
            "rse": ("rises", "The letters stand farther back: penalized, and at angles never seen."),
        },
        headline="CoPE (arXiv 2405.18719), Tables 2 and 3: CoPE copies without an error in and out of distribution, "
        "absolute positions and RoPE do not.",
        shows_not="Which of position, distance and number of keys is to blame: they grow together here.",
    ),
    "counting": Sweep(
        task="counting",
        question="Is the count since the last reset right when a sequence is four times as long as in training?",
        measure=puzzle("counting"),
        unit="share of wrong answers",
        contrast=("in", "longer 4x"),
        tolerance=0.05,
        predictions={
            "nope": ("rises", "Counting by an average over the context depends on how long the context is."),
            "sinusoidal": ("rises", "Positions beyond the training window are new."),
            "learned": ("rises", "Positions beyond the training window have rows that never got a gradient."),
            "shaw": ("holds", "What matters since the last reset is near, within the clip or shortly beyond."),
            "transformer_xl": ("rises", "Distances beyond the training window are new to its matrix."),
            "t5": ("holds", "What matters is near and has buckets of its own; what is far shares one."),
            "rope": ("rises", "Distances beyond the training window are new, though few are needed."),
            "alibi": ("holds", "What is far is penalized, and what matters since the last reset is near."),
            "stickbreaking": ("holds", "The last reset takes what is left of the stick, whatever lies before it."),
            "exposb": ("rises", "Distances beyond the training window are new, as with RoPE."),
            "rse": ("rises", "All that lies before the last reset is asked first, and there is four times as much."),
        },
        headline="CoPE (arXiv 2405.18719), counting task: CoPE and relative positions count well in distribution, "
        "absolute positions worst.",
        shows_not="Counting beyond nine, or several counters at once.",
    ),
    "recall": Sweep(
        task="recall",
        question="How many pairs of key and value can be held in the context and looked up?",
        measure=measure_recall,
        unit="share of wrong answers",
        contrast=("in", "more 2x"),
        tolerance=0.05,
        predictions={
            "nope": ("rises", "A value must be joined to the key before it, which without position takes depth."),
            "sinusoidal": ("rises", "The second half of the pairs stands at positions never seen."),
            "learned": ("rises", "The second half of the pairs stands at rows that never got a gradient."),
            "shaw": ("rises", "The previous key is told by its own row, but more pairs share one softmax."),
            "transformer_xl": ("rises", "The pairs asked for stand at distances never seen."),
            "t5": ("rises", "The pairs asked for stand in buckets that training hardly showed."),
            "rope": ("rises", "The pairs asked for stand at distances never seen."),
            "alibi": ("rises", "Pairs far back are penalized, and all are asked for."),
            "stickbreaking": ("holds", "The key takes the stick by content, at any distance."),
            "exposb": ("rises", "The pairs asked for stand at distances never seen, as with RoPE."),
            "rse": ("rises", "The pairs asked for stand at distances never seen by its rotation."),
        },
        headline="Arora et al. (arXiv 2312.04927): attention solves multi-query recall at any number of pairs that "
        "they train, convolutions and recurrences need width that grows with it.",
        shows_not="Recall at the number of pairs trained for: more pairs also mean longer contexts here.",
        facts=lambda settings: {"pairs": recall_pairs(settings), "trained_pairs": most_pairs(settings)},
    ),
    "ablation_text": Sweep(
        task="text",
        question="Which part of ExpoSB and of RSE changes the loss, beside the rotation that both start from?",
        measure=measure_volume,
        unit="nats per character",
        contrast=(None, None),
        against="rope",
        tolerance=0.03,
        predictions={
            "nope": ("rises", "Without rotation and mask alone, order is told by depth only."),
            "exposb": ("stays", "Each part changes scores by a fifth or less, and the projections can undo that."),
            "exposb_gain": ("stays", "All queries and keys of the window grow by nearly the same fifth."),
            "exposb_band": ("stays", "Constant factors on lanes, which the projections can undo."),
            "exposb_pairs": ("stays", "The same, a pair at a time."),
            "exposb_logits": ("stays", "Within 64 tokens the factor is at least 0.9."),
            "exposb_weights": ("stays", "The farthest weight loses a tenth, and the row with it."),
            "exposb_log": ("stays", "The farthest key loses a tenth of a nat of its logit."),
            "rse": ("rises", "Early keys claim first, and what predicts the next character is near."),
            "rse_recent": ("falls", "Rotation and the order that language models gain from, as stick-breaking did."),
            "rse_softmax": ("stays", "A penalty of a hundredth of a nat a token, which training may move."),
            "rse_penalty": ("rises", "One slope for all heads tells distance worse than the rotation."),
            "rse_stick": ("rises", "The order of the stick is the only position, and it starts at the wrong end."),
            "stickbreaking": ("falls", "It did in the first sweep, by which this claim is no prediction but a check."),
        },
        headline="The report that defines ExpoSB and RSE names its training setup and prints no loss, seed or held-out "
        "text.",
        shows_not="What longer training or a wider model makes of the parts.",
        arms=PARTS,
        facts=lambda settings: {
            **{key: value for key, value in text_facts(settings).items() if key in ("lengths", "definitions")},
            "tests": {str(n): f"context {n}" for n in settings.lengths},
        },
    ),
    "ablation_needle": Sweep(
        task="needle",
        question="Which part of ExpoSB and of RSE lets a needle be found beyond the training window?",
        measure=measure_needle,
        unit="share of wrong answers",
        contrast=("in", "far"),
        tolerance=0.05,
        predictions={
            arm: (
                "rises",
                {
                    "nope": "The softmax spreads over eight times as many keys.",
                    "exposb": "Its angles are RoPE's, and no part of it was made for unseen ones.",
                    "rse_recent": "Nearer keys are asked first and each takes a little.",
                    "rse_penalty": "The penalty on a far key exceeds what its content brings back.",
                    "rse_stick": "More keys are asked before the needle when it stands later in the context.",
                    "stickbreaking": "As in the sweep over methods.",
                }.get(arm, "The needle stands at a distance that the rotation never showed."),
            )
            for arm in PARTS
        },
        headline="The report claims length extrapolation for RoPE, ExpoSB and RSE alike, and shows no test of it.",
        shows_not="Language: filler, keys and values are single tokens that share nothing with one another.",
        arms=PARTS,
        facts=needle_facts,
    ),
    "sinusoidal_volume": Sweep(
        task="text",
        question="How loud must the sinusoid be beside the embeddings?",
        measure=measure_volume,
        unit="nats per character",
        contrast=(None, None),
        against="0.0000",
        tolerance=0.05,
        predictions={
            f"{volume:.4f}": (claim, why)
            for volume, claim, why in zip(
                VOLUMES[1:],
                ("stays", "stays", "falls", "falls", "falls", "stays"),
                (
                    "Far below the embeddings it is drowned: NoPE.",
                    "What embeddings of variance 1, multiplied by sqrt(C), leave of it: drowned, nearly NoPE.",
                    "A third of the embeddings' size is heard.",
                    "As loud as the embeddings, as the paper's scaling makes it.",
                    "Louder than the characters, which are still heard.",
                    "The characters are drowned: no better than NoPE, which at least reads them.",
                ),
            )
        },
        headline="Attention is all you need (arXiv 1706.03762) multiplies embeddings by sqrt(C) and gives no reason.",
        shows_not="Longer training, in which embeddings may grow until the balance is right.",
        arms={f"{volume:.4f}": ("sinusoidal", {"volume": volume}) for volume in VOLUMES},
        facts=lambda settings: {
            **{key: value for key, value in text_facts(settings).items() if key in ("lengths", "definitions")},
            "tests": {str(n): f"context {n}" for n in settings.lengths},
            "volumes": VOLUMES,
            "drowned": 96**-0.5,
        },
    ),
}


class Verdict(NamedTuple):
    r"""What became of a prediction.

    outcome: "held", "failed" or "within the spread"; change and spread: mean and standard deviation over seeds of what
    the prediction is about, for text the loss at the longest context less that at the training length; gap (text
    only): mean over seeds of (whole - cut) at the longest context, and gap_spread its standard deviation; words: a
    sentence with these numbers.
    """

    outcome: str
    change: float
    spread: float
    gap: float
    gap_spread: float
    words: str


def mean_and_spread(values):
    """Mean and sample standard deviation of one number a seed (0.0 for a single seed)."""
    values = numpy.asarray(values, dtype=float)
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0


def changes(results, arm):
    """For each seed, the change that the prediction for this arm is about."""
    values = results["methods"][arm]
    if "contrast" not in results:
        return [row[-1] - row[0] for row in values["whole"]]
    start, end = results["contrast"]
    before = results["methods"][results["against"]]["scores"][end] if results["against"] else values["scores"][start]
    return [b - a for a, b in zip(before, values["scores"][end])]


CLAIMS = {
    "rises": "a rise of more than",
    "holds": "no rise of more than",
    "falls": "a fall of more than",
    "stays": "no fall of more than",
}


def judge(change, spread, tolerance, claim):
    """ "held", "failed" or "within the spread"."""
    moved = -change if claim in ("falls", "stays") else change
    if moved - spread > tolerance:
        return "held" if claim in ("rises", "falls") else "failed"
    if moved + spread <= tolerance:
        return "failed" if claim in ("rises", "falls") else "held"
    return "within the spread"


def verdict(results, method, claim=None):
    r"""Whether the prediction for `method` held, from the numbers in `results`.

    "rises" holds where the change minus the spread exceeds the tolerance and fails where the change plus the spread
    doesn't reach it; "holds" is the other way around; "falls" and "stays" are the same for the change's negative. In
    between the seeds don't tell: "within the spread".

    Arguments: claim: "rises", "holds", "falls" or "stays", default the prediction that was frozen with the results.
    Returns: a `Verdict`. Errors: ValueError for a method that the results lack or an unknown claim.
    """
    check_choice("method", method, list(results["methods"]))
    claim = results["claims"][method] if claim is None else claim
    check_choice("claim", claim, CLAIMS)
    values, tolerance = results["methods"][method], results["tolerance"]
    change, spread = mean_and_spread(changes(results, method))
    outcome = judge(change, spread, tolerance, claim)
    digits = 3 if max(abs(change), spread) >= 5e-4 else 4
    moved = f"{'rises' if change > 0 else 'falls'} by {abs(change):.{digits}f} ± {spread:.{digits}f}"
    ends = f"Predicted was {CLAIMS[claim]} {tolerance:g}"
    lies = f"{'that lies ' if outcome == 'within the spread' else ''}{outcome}."
    title = METHODS[method].title if method in METHODS else method
    if "contrast" in results:
        start, end = results["contrast"]
        if results["against"]:
            other = METHODS[results["against"]].title if results["against"] in METHODS else results["against"]
            words = f"{title}: beside {other} the {results['unit']} {moved}. {ends}: {lies}"
        else:
            words = f"{title}: from {start!r} to {end!r} the {results['unit']} {moved}. {ends}: {lies}"
        return Verdict(outcome, change, spread, 0.0, 0.0, words)
    whole, cut = numpy.array(values["whole"]), numpy.array(values["cut"])  # [seeds, lengths]
    gap, gap_spread = mean_and_spread(whole[:, -1] - cut[:, -1])
    shortest, longest = results["lengths"][0], results["lengths"][-1]
    beside = (
        "level with" if abs(gap) < 5e-4 else f"{abs(gap):.3f} ± {gap_spread:.3f} nats {'above' if gap > 0 else 'below'}"
    )
    words = (
        f"{title}: from {shortest} to {longest} characters of context the loss {moved} nats per character, and ends "
        f"{beside} the same model with its attention cut to {shortest} keys. {ends} nats: {lies}"
    )
    return Verdict(outcome, change, spread, gap, gap_spread, words)


# ------------------------------------------------------------------------------------------------------------ results


# None, and then a method for each of the four places: what pages show that need no more than that.
ONE_A_PLACE = ("nope", "sinusoidal", "rope", "alibi", "stickbreaking")


def load_results(name, methods=None):
    r"""Read frozen results by name, the file name in results/ without its ending; `methods` keeps these arms alone.

    Every one holds ["command"], ["commit"], ["versions"], ["machine"], ["settings"]. A sweep also holds ["seeds"],
    ["question"], ["unit"], ["predictions"][arm], ["claims"][arm], ["headline"], ["shows_not"], and for each of
    ["methods"] lists over seeds: ["scores"][test] for a puzzle or "masked", with ["tests"][test] in words; for
    "train_short_test_long" and "sinusoidal_volume" [kind] with kind in `KINDS`, each a list over ["lengths"], in nats
    per character. An arm that was added later, see ["added"], names ["seeds"] of its own.

    Errors: FileNotFoundError for an unknown name; ValueError where a file is not what it should be, or lacks a method.
    """
    folder = importlib.resources.files("posenc.results")
    known = sorted(item.name.removesuffix(".json") for item in folder.iterdir() if item.name.endswith(".json"))
    if name not in known:
        raise FileNotFoundError(f"name={name!r} is no frozen result; there are {known}.{nearest(name, known)}")
    results = read_results(folder / f"{name}.json", name)
    if methods is None:
        return results
    for arm in methods:
        check_choice("methods", arm, list(results.get("methods", {})))
    kept = {
        key: {a: v for a, v in results[key].items() if a in methods}
        for key in ("methods", "claims", "predictions")
        if key in results
    }
    return results | kept


def read_results(path, name):
    r"""The results called `name` in a file. Errors: ValueError naming a file that is damaged or holds others."""
    results = read_json(path)
    try:
        check_results(results)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if results["name"] != name:
        raise ValueError(f"{path} holds the results {results['name']!r}, not {name!r}")
    return results


def check_results(results):
    """Return `results` if it is whole: provenance there, every list of the right length, every number finite."""
    if not isinstance(results, dict):
        raise ValueError(f"results must be a dict, not {type(results).__name__}")
    name = results.get("name")
    for key in ("name", "command", "commit", "versions", "machine", "settings"):
        if not results.get(key):
            raise ValueError(f"results {name!r} lack {key!r}")
    check_finite(results, f"results {name!r}:")
    if "methods" not in results and "claims" not in results:
        return results

    seeds, lengths = part(results, "seeds", list, []), part(results, "lengths", list, [])
    for method, values in part(results, "methods", dict).items():
        if not isinstance(values, dict):
            raise ValueError(f"results {name!r}: {method} must hold a dict, not {values!r:.60}")
        scores = part(values, "scores", dict, {}, f"results {name!r}: {method} ")
        rows = {kind: values[kind] for kind in KINDS if kind in values} | scores
        if not rows:
            raise ValueError(f"results {name!r}: {method} has no scores")
        own = part(values, "seeds", list, seeds, f"results {name!r}: {method} ")
        for kind, row in rows.items():
            flat = isinstance(row, list) and (kind in KINDS or not any(isinstance(each, list) for each in row))
            if not flat or not is_numbers(row):
                raise ValueError(f"results {name!r}: {method} {kind} must be a list of numbers, not {row!r:.60}")
            if len(row) != len(own):
                raise ValueError(f"results {name!r}: {method} {kind} has {len(row)} seeds, not {len(own)}")
            if kind in KINDS and any(not isinstance(each, list) or len(each) != len(lengths) for each in row):
                raise ValueError(f"results {name!r}: {method} {kind} has a row that isn't {lengths}: {row}")
        if "tests" in results and set(scores) != set(part(results, "tests", dict)):
            raise ValueError(f"results {name!r}: {method} has scores for {list(scores)}")
    if "claims" in results:
        check_claims(results)
    return results


def check_claims(results):
    """Raise ValueError unless a sweep's results hold what `verdict` reads."""
    name, methods = results["name"], results["methods"]
    part(results, "unit", str)
    part(results, "predictions", dict)
    if not is_numbers(results.get("tolerance")):
        raise ValueError(f"results {name!r}: tolerance={results.get('tolerance')!r:.60} must be a number")
    contrast, against = results.get("contrast"), results.get("against")
    if against is not None and against not in list(methods):
        raise ValueError(f"results {name!r} lack {against!r:.60}, which the others are compared with")
    if contrast is not None:
        start, end = contrast if isinstance(contrast, list) and len(contrast) == 2 else (None, None)
        named = isinstance(end, str) and (isinstance(start, str) or against is not None)
        if not named or "against" not in results:
            raise ValueError(f"results {name!r}: contrast={contrast!r:.60} must name two tests, or one and `against`")
    for method, claim in part(results, "claims", dict).items():
        if method not in methods or claim not in list(CLAIMS):
            raise ValueError(f"results {name!r}: {method} can't have the claim {claim!r:.60}")
        for arm in filter(None, (method, against)):
            held = methods[arm] if contrast is None else methods[arm].get("scores", {})
            for test in ("whole", "cut") if contrast is None else filter(None, contrast):
                if test not in held:
                    raise ValueError(f"results {name!r}: {arm} lacks {test!r:.60}")


def part(results, key, kind, default=None, where=None):
    """results[key]; ValueError naming it unless it is a `kind`."""
    value = results.get(key, default)
    if not isinstance(value, kind):
        where = f"results {results.get('name')!r}: " if where is None else where
        raise ValueError(f"{where}{key!r} must be a {kind.__name__}, not {value!r:.60}")
    return value


def check_finite(value, where):
    """Raise ValueError, naming where, for a number in nested dicts and lists that is infinite, NaN or beyond floats."""
    todo = [(value, where)]
    while todo:
        value, where = todo.pop()
        if isinstance(value, dict):
            todo += [(item, f"{where} {key}") for key, item in value.items()]
        elif isinstance(value, list):
            todo += [(item, where) for item in value]
        elif type(value) in (int, float) and not is_numbers(value):
            raise ValueError(f"{where} holds {value!r:.60}")


def is_numbers(value):
    """Whether nested lists hold nothing but finite numbers."""
    todo = [value]
    while todo:
        value = todo.pop()
        if isinstance(value, list):
            todo += value
        elif type(value) not in (int, float) or not -1e300 < value < 1e300:
            return False
    return True


def provenance(name, preset, settings, command):
    """What a reader needs to know about how a result was made."""
    corpus = load_corpus()
    git = functools.partial(subprocess.run, capture_output=True, text=True, cwd=Path(__file__).parent)
    commit = git(["git", "rev-parse", "HEAD"]).stdout.strip() or "unknown"
    loaded = [module.__file__ for name, module in sys.modules.items() if name.startswith("posenc.")]
    changed = git(["git", "status", "--porcelain", "--", __file__, *filter(None, loaded)]).stdout.split("\n")
    if any(changed):
        commit += f", with changes in {', '.join(line[3:] for line in changed if line)}"
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, numpy {numpy.__version__}"
    return {
        "name": name,
        "command": command,
        "commit": commit,
        "versions": f"{versions}, posenc {importlib.metadata.version('posenc')}",
        "machine": f"{cpu_model()}, {os.cpu_count()} cores, one thread a run",
        "preset": preset,
        "settings": dataclasses.asdict(settings),
        "corpus": {
            "name": corpus.name,
            "sha256": corpus.sha256,
            "characters": len(corpus.train) + len(corpus.held_out),
            "train_characters": len(corpus.train),
            "held_out_characters": len(corpus.held_out),
            "vocabulary": len(corpus.vocabulary),
        },
    }


def cpu_model():
    """The processor's name, as far as the system tells."""
    try:
        return re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text()).group(1).strip()
    except (OSError, AttributeError):
        return platform.processor() or platform.machine()


def write_json(path, value):
    """Write a file in one move: a reader or an interruption finds the old one or the new one, never a half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".writing")
    partial.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(partial, path)


# ----------------------------------------------------------------------------------------------------------- a sweep


def run_cell(sweep, arm, seed, settings, checkpoint=None):
    """Train and test one arm with one seed on the CPU: the numbers of one cell of a sweep."""
    started = time.perf_counter()
    method, options = (sweep.arms or {}).get(arm, (arm, {}))
    model, history = train_with(
        method, settings, seed, sweep.task, device="cpu", progress=False, checkpoint=checkpoint, options=options
    )
    cell = rounded(sweep.measure(model, settings))
    cell["final_train_loss"] = round(float(numpy.mean(history["loss"][-max(1, settings.steps // 10) :])), 6)
    cell["curve"] = [round(float(numpy.mean(history["loss"][i : i + 10])), 4) for i in range(0, settings.steps, 10)]
    cell["parameters"] = sum(parameter.numel() for parameter in model.parameters())
    if sweep.task == "text" and seed == 0 and sweep.arms is None:
        cell["sample"] = sample(model, window=settings.length)
        cell["sample_long"] = sample(model, length=400)
    cell["seconds"] = round(time.perf_counter() - started, 1)
    return cell


def run_sweep(name, preset, seeds, methods, out, command, add=False):
    r"""Train every arm with `seeds` seeds, one CPU thread each, and write `out` when all are there.

    Each finished cell is a file in the folder `out`.cells, so the same command goes on where it was stopped. Under
    torchrun the cells are dealt to the processes, and the first one writes `out`. `add` puts the arms into the
    results that are there, which must have been made with the same settings, corpus and versions.
    """
    check_choice("name", name, SWEEPS)
    sweep = SWEEPS[name]
    known = arms_of(sweep)
    arms = known if methods is None else list(dict.fromkeys(methods))
    for arm in arms:
        check_choice("methods", arm, known)
    torch.set_num_threads(1)
    settings = settings_for(preset, sweep.task)
    results = provenance(name, preset, settings, command)
    there = read_results(out, name) if add else None
    if add:
        for key in ("settings", "versions", "corpus"):
            if there.get(key) != json.loads(json.dumps(results[key])):
                raise ValueError(f"{out} was made with other {key}, {there[key]}; nothing can be added to it")
        if set(arms) & set(there["methods"]):
            raise ValueError(f"methods={arms}: {out} already holds {sorted(set(arms) & set(there['methods']))}")
    if sweep.against and sweep.against not in (there["methods"] if add else arms):
        raise ValueError(f"methods={arms} must hold {sweep.against!r}, which {name} compares the others with")
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    folder = out.with_name(out.name + ".cells")
    same = {key: results[key] for key in ("settings", "versions", "corpus")}
    begun, commits = folder / f"begun-{rank}.json", []
    for file in sorted(folder.glob("begun-*.json")):
        saved = read_json(file, {"same": dict, "commit": str})
        if saved["same"] != json.loads(json.dumps(same)):
            raise ValueError(
                f"{folder} was begun with other settings, corpus or versions; go on with those or delete it"
            )
        commits.append(saved["commit"])
    results["commit"] = ", gone on with at ".join(dict.fromkeys([*commits, results["commit"]]))
    if not begun.exists():
        write_json(begun, {"same": same, "commit": results["commit"]})

    cells = [(arm, seed) for seed in range(seeds) for arm in arms]
    for cell in cells:
        if cell_file(folder, *cell).exists():
            read_cell(cell_file(folder, *cell))  # refuses a damaged one before anything is trained
    todo = [cell for cell in cells[rank::world] if not cell_file(folder, *cell).exists()]
    if len(todo) < len(cells[rank::world]):
        done = len(cells[rank::world]) - len(todo)
        print(f"{folder}: {done} finished runs found, {len(todo)} to go", file=sys.stderr)
    for arm, seed in tqdm(todo, desc=f"{name}, process {rank}" if world > 1 else name, position=rank):
        checkpoint = cell_file(folder, arm, seed).with_suffix(".pt")
        if checkpoint.exists():
            read_checkpoint(checkpoint)  # refuses a damaged one before anything is trained
        write_json(cell_file(folder, arm, seed), run_cell(sweep, arm, seed, settings, checkpoint))
        checkpoint.unlink()
    if world > 1:
        distributed.init_process_group("gloo", timeout=datetime.timedelta(days=2))
        distributed.barrier()
        distributed.destroy_process_group()
        if rank:
            return
    found = {cell: read_cell(cell_file(folder, *cell)) for cell in cells}
    kept_once = ("parameters", "sample", "sample_long")
    for cell, values in found.items():  # one that is whole, but of something else
        if columns(values, kept_once) != columns(found[cells[0]], kept_once):
            raise ValueError(
                f"{cell_file(folder, *cell)} holds {columns(values, kept_once)}, not as the others "
                f"{columns(found[cells[0]], kept_once)}; move it away and run again"
            )
    start, end = sweep.contrast or (None, None)
    results |= {
        "task": sweep.task,
        "question": sweep.question,
        "seeds": list(range(seeds)),
        "unit": sweep.unit,
        "tolerance": sweep.tolerance,
        "claims": {arm: sweep.predictions[arm][0] for arm in arms if arm in sweep.predictions},
        "predictions": {arm: sweep.predictions[arm][1] for arm in arms if arm in sweep.predictions},
        "headline": sweep.headline,
        "shows_not": sweep.shows_not,
        **({"contrast": [start, end or str(settings.length)], "against": sweep.against} if sweep.contrast else {}),
        **({"tests": TASKS[sweep.task].words} if "scores" in found[cells[0]] else {}),
        **sweep.facts(settings),
        "methods": {},
    }
    for arm in arms:
        first = found[arm, 0]
        values = {key: first[key] for key in kept_once if key in first}
        for key in first.keys() - kept_once - {"scores"}:
            values[key] = [found[arm, seed][key] for seed in range(seeds)]
        if "scores" in first:
            values["scores"] = {
                column: [found[arm, seed]["scores"][column] for seed in range(seeds)] for column in first["scores"]
            }
        results["methods"][arm] = dict(sorted(values.items()))
    whole = check_results(added(there, results) if add else results)
    write_json(out, whole)
    shutil.rmtree(folder)
    for arm in results["claims"]:
        print(verdict(whole, arm).words)


def added(there, results):
    """The results `there` with the arms of `results`, each with its seeds, and a note of where they come from."""
    for arm in results["methods"]:
        results["methods"][arm]["seeds"] = results["seeds"]
    note = {key: results[key] for key in ("command", "commit", "machine", "seeds")} | {"arms": list(results["methods"])}
    both = {key: there[key] | results[key] for key in ("claims", "predictions", "methods")}
    arms = [arm for arm in arms_of(SWEEPS[there["name"]]) if arm in both["methods"]]
    both = {key: {arm: values[arm] for arm in arms if arm in values} for key, values in both.items()}
    return there | both | {"added": [*there.get("added", []), note]}


def arms_of(sweep):
    """The arms of a sweep: its own, or the methods that it has a prediction for or compares with."""
    return list(sweep.arms or [name for name in METHODS if name in sweep.predictions or name == sweep.against])


def cell_file(folder, arm, seed):
    return folder / f"{arm}-{seed}.json"


def columns(values, without):
    """What a cell holds a number of, in order."""
    return sorted({*values} - {*without}), sorted(values.get("scores", {}))


def read_cell(path):
    r"""A finished cell of a sweep. Errors: as `read_json`."""
    cell = read_json(path, {"final_train_loss": float, "curve": list, "parameters": int, "seconds": float})
    try:
        check_finite(cell, "it:")
        part(cell, "scores", dict, {}, "")
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}); move it away and run again") from error
    return cell


def read_json(path, parts=None):
    r"""A JSON file of ours: a dict, with `parts` {key: type}.

    Errors: ValueError naming a file that is damaged or another; OSError for one that can't be read.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError(f"it holds a {type(found).__name__}, not a dict")
        for key, kind in (parts or {}).items():
            part(found, key, kind, where="")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged ({error}); move it away and run again") from error
    return found
