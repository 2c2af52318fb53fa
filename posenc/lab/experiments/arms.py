r"""What models of today add to a method: mixes over depth, RoPE dropped, sinks, scaled logits, QK-norm.

    python -m posenc.lab.experiments rates additions                 # then sweep additions --rates, and on the needle

Chapter: How to measure position.
"""

import functools
import math

import torch
from torch import nn

from posenc.encoding import Encoding, compose
from posenc.errors import check_choice
from posenc.lab.experiments.sweeps import Sweep, measure_needle, measure_text, needle_facts, text_facts
from posenc.lab.train import Settings
from posenc.layer import SelfAttention
from posenc.rotate.rope import rope
from posenc.weigh.sink import sink

KEPT = 0.8  # of the steps, after which `Dropped` drops: a fifth of them is left to recalibrate in


class Window(nn.Module):
    """A `weigh` callable: the softmax over the nearest `width` visible keys, the query's own among them."""

    def __init__(self, width):
        super().__init__()
        self.width = width

    def forward(self, scores, at):
        near = (at.pos_q[:, None, :, None] - at.pos_k[:, None, None, :]) < self.width
        return scores.masked_fill(~(at.visible & near), float("-inf")).softmax(-1)


class Dropped(nn.Module):
    r"""A `rotate` callable that acts in the first `steps` training passes and never again (DroPE, arXiv 2512.12167)."""

    def __init__(self, rotate, steps):
        super().__init__()
        self.rotate, self.steps = rotate, steps
        self.register_buffer("passed", torch.tensor(0))

    def forward(self, q, k, at):
        if self.training:
            self.passed += 1
        return self.rotate(q, k, at) if self.passed <= self.steps else (q, k)


class Scaled(nn.Module):
    r"""A `rotate` callable that multiplies the query at position n - 1 by log n / log L, then turns as another does.

    L is the training length, so the factor is 1 at its end. The logarithm is SSMax's (arXiv 2501.19399), whose factor
    is learned; this one is fixed.
    """

    def __init__(self, length, rotate=None):
        super().__init__()
        self.length, self.rotate = length, rotate

    def forward(self, q, k, at):
        factor = (at.pos_q + 1).to(q.dtype).log() / math.log(self.length)
        q = q * factor[:, None, :, None]
        return (q, k) if self.rotate is None else self.rotate(q, k, at)


def rope_of(settings: Settings) -> Encoding:
    """RoPE for the heads of these settings."""
    return rope(settings.dim // settings.num_heads)


def in_window(settings: Settings) -> Encoding:
    """RoPE that sees half of the training length."""
    return compose(rope_of(settings), Encoding(weigh=Window(settings.length // 2)))


def with_sink(encoding: Encoding, settings: Settings) -> Encoding:
    return compose(encoding, sink(settings.num_heads))


def every_fourth(one: Encoding, others: Encoding, layer: int) -> Encoding:
    """`one` in layers 3, 7, ..., `others` in those between."""
    return one if layer % 4 == 3 else others


# {arm: settings -> make_encoding}; what each layer attends with is `SelfAttention` but for those in `NORMED`
ARMS = {
    "nope": lambda settings: lambda layer: Encoding(),
    "rope": lambda settings: lambda layer: rope_of(settings),
    "mix": lambda settings: lambda layer: every_fourth(Encoding(), in_window(settings), layer),
    "mix_reversed": lambda settings: lambda layer: every_fourth(in_window(settings), Encoding(), layer),
    "dropped": lambda settings: (
        lambda layer: Encoding(rotate=Dropped(rope_of(settings).rotate, int(KEPT * settings.steps)))
    ),
    "nope_sink": lambda settings: lambda layer: with_sink(Encoding(), settings),
    "rope_sink": lambda settings: lambda layer: with_sink(rope_of(settings), settings),
    "nope_scaled": lambda settings: lambda layer: Encoding(rotate=Scaled(settings.length)),
    "rope_scaled": lambda settings: lambda layer: Encoding(rotate=Scaled(settings.length, rope_of(settings).rotate)),
    "nope_normed": lambda settings: lambda layer: Encoding(),
    "rope_normed": lambda settings: lambda layer: rope_of(settings),
}
NORMED = functools.partial(SelfAttention, qk_norm=True)


def recipe(arm: str, settings: Settings) -> tuple:
    r"""(make_encoding, {}, make_attention) of an arm, for `train_with`. Errors: ValueError for an unknown one."""
    check_choice("arm", arm, ARMS)
    return ARMS[arm](settings), {}, NORMED if arm.endswith("_normed") else SelfAttention


PREDICTIONS = {
    "nope": ("rises", "Eight times as many keys share one softmax."),
    "rope": ("rises", "Distances beyond the training window turn the slow pairs by angles never seen."),
    "mix": (
        "holds",
        "No rotated layer sees farther than in training. The layer without position sees eight times as many keys, but "
        "most of what helps has been read below it.",
    ),
    "mix_reversed": ("rises", "Three layers without position see eight times as many keys each."),
    "dropped": ("rises", "What is left is a model without position, and NoPE's loss rises."),
    "nope_sink": ("rises", "A query may look at nothing, but its sink does not grow with the number of keys."),
    "rope_sink": ("rises", "A sink takes weight from unseen distances no more than from seen ones."),
    "nope_scaled": ("holds", "Logits that grow with the logarithm of the number of keys keep the softmax as sharp."),
    "rope_scaled": ("rises", "Sharper logits sharpen wrong ones too: unseen angles are not mended."),
    "nope_normed": ("rises", "Bounded logits can be no sharper among more keys."),
    "rope_normed": ("rises", "The norm bounds the logits and leaves the angles unseen."),
}

NEEDLE = {
    "nope": ("rises", "The softmax spreads over eight times as many keys, against which it has only content."),
    "rope": ("rises", "The needle stands at a distance never seen."),
    "mix": ("rises", "Only the layer without position reaches a far needle, among eight times as many keys."),
    "mix_reversed": ("rises", "Three layers reach a far needle, among eight times as many keys."),
    "dropped": ("rises", "What is left has only content, as NoPE."),
    "nope_sink": ("rises", "It has only content, and a sink beside it."),
    "rope_sink": ("rises", "The needle stands at a distance never seen."),
    "nope_scaled": ("holds", "With logits that grow with the number of keys, content alone stays as sharp."),
    "rope_scaled": ("rises", "The needle stands at a distance never seen, however sharp the softmax."),
    "nope_normed": ("rises", "Bounded logits can be no sharper among more keys."),
    "rope_normed": ("rises", "The needle stands at a distance never seen."),
}
COMMON = {"arms": ARMS, "recipe": recipe, "changes": {"num_layers": 4}}
EXTRA = {
    "additions": Sweep(
        task="text",
        question="What do depth mixes, a dropped rotation, sinks, scaled logits and QK-norm do to longer contexts?",
        measure=measure_text,
        unit="nats per character",
        contrast=(),
        predictions=PREDICTIONS,
        headline="DroPE (arXiv 2512.12167): a pretrained model whose RoPE is dropped reads longer contexts after a "
        "short recalibration. SSMax (arXiv 2501.19399): logits that grow with log n keep attention sharp.",
        shows_not="What these do at the sizes and budgets they were made for.",
        facts=text_facts,
        **COMMON,
    ),
    "additions_needle": Sweep(
        task="needle",
        question="Is a far needle found with depth mixes, a dropped rotation, sinks, scaled logits or QK-norm?",
        measure=measure_needle,
        contrast=("in", "far"),
        predictions=NEEDLE,
        headline="DroPE (arXiv 2512.12167) and SSMax (arXiv 2501.19399) both report more needles found beyond the "
        "training length.",
        shows_not="Language: filler, keys and values are single tokens that share nothing with one another.",
        facts=needle_facts,
        **COMMON,
    ),
}
