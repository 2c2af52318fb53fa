r"""What is added to RoPE, and which verdicts are about the budget? Three seeds each, on text.

    python benchmarks/additions.py        # three hours of one core; finished cells are kept in runs/additions

Each model is the text study's, at the rates that its validation chose, and is tested as there: the loss on the same
characters, in nats, as the context before them grows, whole and with attention cut to L keys.
    added      RoPE; without it in the last layer; with a sink; with queries and keys normed (QK-norm)
    changed    the trained RoPE models: logits times ln(i + 1) / ln(L) for queries at i >= L, in the test alone; the
               rotation dropped and 60 more steps at L without it, as DroPE does, and the same steps with it
    longer     RoPE trained on windows of 8 L, as many characters a step
    budget     a method for each place, and none, with 4 and 16 times the steps
Writes results/additions.json. Chapter: Longer than trained.
"""

import copy
import dataclasses
import functools
import math

import record

import posenc
from posenc.lab.experiments import ONE_A_PLACE
from posenc.lab.train import train_with
from posenc.lab.train.measures import short_long

SEEDS = range(3)
SETTINGS = record.chosen("rope")
HEADS, HEAD_DIM = SETTINGS.num_heads, SETTINGS.dim // SETTINGS.num_heads
TUNING = [1e-3 * min(1.0, (step + 1) / 10) * (1 - step / 60) for step in range(60)]
BUDGETS = (4, 16)
# Written before the run, on the rise of the loss from L to 8 L; "like" is within 0.05 nats of RoPE's.
PREDICTIONS = {
    "last layer NoPE": "Two of three layers meet new angles: rises like RoPE's, or by less.",
    "sink": "A softmax that may look at nothing still meets new angles: like RoPE's.",
    "QK-norm": "Bounded logits cannot shout: a smaller rise than RoPE's.",
    "scaled logits": "They answer the number of keys, which is the smaller part of the rise: less by little.",
    "dropped": "No angle is left that could be new; what rises is what more keys cost: far less than RoPE's, from a "
    "higher loss at L.",
    "tuned": "Sixty steps at L show no new angle: like RoPE's.",
    "trained at 8 L": "Nothing is new up to 8 L: no rise, and the first fall with context of any model here.",
    "budget": "RoPE's and the sinusoid's rise stays or grows; ALiBi and stick-breaking hold at each budget.",
}


def rope(layer=0):
    return posenc.make("rope", head_dim=HEAD_DIM)


def louder(q, k, at):
    """RoPE whose queries grow with the logarithm of their number of keys beyond the training length."""
    q, k = rope().rotate(q, k, at)
    grown = (at.pos_q + 1).double().log() / math.log(SETTINGS.length)
    return q * grown.clamp(min=1.0)[:, None, :, None].to(q.dtype), k


TRAINED = {
    "RoPE": (rope, {}),
    "last layer NoPE": (lambda layer: posenc.Encoding() if layer == SETTINGS.num_layers - 1 else rope(), {}),
    "sink": (lambda layer: posenc.compose(rope(), posenc.make("sink", num_heads=HEADS)), {}),
    "QK-norm": (rope, {"make_attention": functools.partial(posenc.SelfAttention, qk_norm=True)}),
}


def tested(model):
    losses = short_long(model, SETTINGS)
    first, *_, last = losses["blocks"]["whole"]
    return {kind: losses[kind] for kind in ("whole", "cut")} | {"in_blocks": first + last}


def trained(arm, seed):
    """The losses of an arm of TRAINED; of RoPE's also those of its model, changed."""
    encoding, more = TRAINED[arm]
    model, _ = train_with(encoding, SETTINGS, seed, device="cpu", progress=False, **more)
    found = {arm: tested(model)}
    if arm == "RoPE":
        found["scaled logits"] = tested(record.with_encoding(model, posenc.Encoding(rotate=louder)))
        for name, encoding in (("dropped", posenc.Encoding()), ("tuned", rope())):
            new = record.with_encoding(copy.deepcopy(model), encoding)
            tuned = record.fine_tune(new, "text", SETTINGS.length, SETTINGS.batch, TUNING, 1000 + seed)
            found[name] = tested(tuned)
    return found


def longer(seed):
    n = SETTINGS.multiples[-1]
    long = dataclasses.replace(SETTINGS, length=n * SETTINGS.length, batch=SETTINGS.batch // n, multiples=(1,))
    return {"trained at 8 L": tested(train_with("rope", long, seed, device="cpu", progress=False)[0])}


def budget(method, factor, seed):
    settings = record.chosen(method)
    more = dataclasses.replace(settings, steps=factor * settings.steps)
    return {f"{method}, {more.steps} steps": tested(train_with(method, more, seed, device="cpu", progress=False)[0])}


def measure(kind, *cell):
    return {"trained": trained, "longer": longer, "budget": budget}[kind](*cell)


def main():
    facts = record.begun(__doc__, "additions", "study", SETTINGS)
    todo = [("trained", arm, seed) for seed in SEEDS for arm in TRAINED] + [("longer", seed) for seed in SEEDS]
    todo += [("budget", method, factor, seed) for factor in BUDGETS for seed in SEEDS for method in ONE_A_PLACE]
    cells = record.in_turn(todo, measure, "additions", "cells")
    arms = dict.fromkeys(arm for cell in todo for arm in cells[cell])
    losses = {arm: [cells[cell][arm] for cell in todo if arm in cells[cell]] for arm in arms}
    results = {
        "question": "What do additions to RoPE, and a longer training, change when the context grows?",
        "unit": "nats per character",
        "seeds": list(SEEDS),
        "choice": {"rope": {"lr": SETTINGS.lr}},
        "lengths": SETTINGS.lengths,
        "predictions": PREDICTIONS,
        "about_blocks": record.IN_BLOCKS + "whole, at the first length and then at the last.",
        "methods": {
            arm: {kind: [x[kind] for x in each] for kind in ("whole", "cut")}
            | {"in_blocks": record.over_seeds([x["in_blocks"] for x in each])}
            for arm, each in losses.items()
        },
    }
    record.write(facts | results)


if __name__ == "__main__":
    main()
