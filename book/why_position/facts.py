r"""What the chapter on the need for position computes behind its prose: small demonstrations and its experiment."""

import functools

import matplotlib.pyplot as plt
import torch

import posenc
from posenc.chapters.why_position.figures import ORDERS, WORDS, outputs
from posenc.lab.experiments import ONE_A_PLACE, load_results, verdict
from posenc.lab.train import Settings
from posenc.lab.train.measures import held_out_windows
from posenc.lab.train.tasks import load_corpus
from posenc.lab.write import finish

FIRST_ORDER, OTHER_ORDER = "the dog bit a man", "the man bit a dog"
SHIFTED = {"rope": {"head_dim": 8}, "alibi": {"num_heads": 4}, "stickbreaking": {}}  # relative, at the layers' sizes
FROZEN = load_results("train_short_test_long", ONE_A_PLACE)


def print_outputs() -> None:
    r"""What one layer without position gives each word of a sentence, in two orders of its words."""
    order = ORDERS[OTHER_ORDER]
    before, after = (outputs(ORDERS[sentence], "none", "every key", 1) for sentence in (FIRST_ORDER, OTHER_ORDER))
    print(f"{'':8}{FIRST_ORDER:>24}    {OTHER_ORDER:>24}")
    for index, word in enumerate(WORDS):
        rows = (before[index], after[order.index(index)])
        cells = [", ".join(f"{x:6.2f}" for x in row[:3].tolist()) for row in rows]
        print(f"{word:8}{cells[0]:>24}    {cells[1]:>24}")


def shift_changes() -> dict[str, float]:
    r"""By how much a shift of all positions moves the output of relative methods and the sinusoid: {title: change}."""
    q, k, v = (torch.randn(1, 4, 12, 8) for _ in range(3))
    here, there = torch.arange(12), torch.arange(12) + 100
    changes = {}
    for name, options in SHIFTED.items():
        encoding = posenc.make(name, **options)
        moved = posenc.attention(q, k, v, encoding, pos_q=there) - posenc.attention(q, k, v, encoding, pos_q=here)
        changes[posenc.METHODS[name].title] = moved.abs().max().item()
    block = posenc.SelfAttention(32, 4, posenc.make("sinusoidal", embed_at="layer_qk"))
    with torch.no_grad():
        y = torch.randn(1, 12, 32)
        changes["Sinusoidal"] = (block(y, positions=there) - block(y, positions=here)).abs().max().item()
    return changes


def print_shift_changes() -> None:
    r"""The changes, a line each. Errors: AssertionError where a relative method moves or the sinusoid doesn't."""
    changes = shift_changes()
    for title, change in changes.items():
        print(f"{title:16} {change:.0e}")
    assert changes.pop("Sinusoidal") > 1e-3 and max(changes.values()) < 1e-12


def check_short(mean_of_past) -> None:
    r"""Hold the page's layer of means against `posenc.attention`. Errors: AssertionError where they differ."""
    x = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))
    no_query = torch.zeros(1, 1, 9, 4)
    theirs = posenc.attention(no_query, no_query, x[None, None])[0, 0]
    assert (mean_of_past(x) - theirs).abs().max() < 1e-6, "the layer of means is not attention with W_Q = 0"


def shares_of_places(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    r"""How much of each place is in the last output of one and of two layers with W_Q = 0, [count] each."""
    no_query, tokens = torch.zeros(1, 1, count, 2), torch.eye(count)[None, None]
    one = posenc.attention(no_query, no_query, tokens)
    return one[0, 0, -1], posenc.attention(no_query, no_query, one)[0, 0, -1]


def card_figure(count=6):
    r"""The card's picture: what is left of each place in the last output, after one layer and after two."""
    figure, panels = plt.subplots(1, 2, figsize=(4.4, 2.2), sharey=True, layout="constrained")
    for axes, shares, title in zip(panels, shares_of_places(count), ("one causal layer", "two causal layers")):
        axes.bar(range(1, count + 1), shares, color="#0072b2", width=0.7)
        axes.set_title(title)
        axes.set_xlabel("place in the text")
    panels[0].set_ylabel("share of the last output")
    return finish(figure)


def losses(method: str, kind: str = "whole") -> torch.Tensor:
    r"""Losses of a method [seeds, lengths]."""
    return torch.tensor(FROZEN["methods"][method][kind], dtype=torch.float64)


def shares(context, follower, contexts: int, prior) -> torch.Tensor:
    r"""Which character follows which context, as shares of its occurrences [contexts, V], with a prior on counts."""
    counts = torch.zeros(contexts, prior.shape[-1], dtype=torch.float64)
    counts.index_put_((context, follower), torch.ones(len(follower), dtype=torch.float64), accumulate=True)
    counts = counts + prior
    return counts / counts.sum(1, keepdim=True)


@functools.cache
def table_losses() -> tuple[float, float]:
    r"""Loss of a table of the last character and of one of the last two, on the targets of the experiment."""
    settings, corpus = Settings(**FROZEN["settings"]), load_corpus()
    V, text = len(corpus.vocabulary), corpus.train
    windows = held_out_windows(corpus.held_out, settings)
    last, before, targets = (windows[:, -settings.targets - k : windows.shape[1] - k] for k in (1, 2, 0))
    ones = shares(text[:-1], text[1:], V, torch.full((1, V), 0.1, dtype=torch.float64))
    rare = 5 * ones.repeat(V, 1)  # rare pairs lean on the last character
    twos = shares(text[:-2] * V + text[1:-1], text[2:], V * V, rare)
    return -ones[last, targets].log().mean().item(), -twos[before * V + last, targets].log().mean().item()


def numbers() -> dict[str, str]:
    r"""The verdict, and the losses of both tables. Errors: AssertionError where NoPE's is not between them."""
    (one, two), nope = table_losses(), losses("nope")[:, 0]
    assert two < nope.mean() < one and (nope > losses("nope", "early")[:, 0]).all()
    return {"one": f"{one:.3f}", "two": f"{two:.3f}", "verdict": verdict(FROZEN, "nope").words}


def print_sample() -> None:
    r"""What a trained model without position writes."""
    print(FROZEN["methods"]["nope"]["sample"][:240])
