r"""Draw it: the reader draws how a method's loss goes on beyond the training length, then sees how it went.

Shown by each chapter whose method was trained so. The numbers are the frozen ones of train_short_test_long.
"""

from math import log, log2

from posenc.lab.experiments.plots import mean_spread
from posenc.lab.experiments.results import load_results
from posenc.lab.explore.page import escape
from posenc.lab.titles import title

TITLE = "Draw the loss beyond the training length, then see it"
SEE = "Draw the loss with one stroke, then see what was measured."
ALT = (
    "Loss in nats per character against characters of context, up to the training length. Three points beyond it can "
    "be moved up and down; a button then draws what was measured, means and one standard deviation over seeds, another "
    "the same models with attention cut to the training window; a list adds other methods. Up to "
    "half the training length each query's attention is cut to so many keys; from the training length on the whole "
    "context is visible, and the target characters are always the same."
)
WIDTH, HEIGHT = 640, 330


def data(method: str = "rope") -> dict:
    r"""{method: its title, guess: nats of a uniform guess, known: [[length, mean], ...] below the training length,
    measured: [[length, mean, standard deviation], ...] from there on, cut: [[length, mean], ...] with attention cut,
    others: [[title, [[length, mean], ...]], ...], those that end highest first}."""
    results = load_results("train_short_test_long")
    lengths = results["lengths"]

    def means(name, kind, lengths):
        runs = (mean_spread([seed[i] for seed in results["methods"][name][kind]]) for i in range(len(lengths)))
        return [[n, *(round(value, 3) for value in pair)] for n, pair in zip(lengths, runs)]

    def pairs(rows):
        return [row[:2] for row in rows]

    others = [[title(name), pairs(means(name, "whole", lengths))] for name in results["methods"] if name != method]
    return {
        "method": title(method),
        "guess": round(log(results["corpus"]["vocabulary"]), 3),
        "known": [row for row in pairs(means(method, "context_cut", results["cuts"])) if 4 <= row[0] < lengths[0]],
        "measured": means(method, "whole", lengths),
        "cut": pairs(means(method, "cut", lengths)),
        "others": sorted(others, key=lambda row: -row[1][-1][1]),
    }


def picture(method: str = "rope") -> str:
    r"""The known part, and question marks where the reader draws."""
    shown = data(method)
    first, last = shown["known"][0][0], shown["measured"][-1][0]

    def at(n, loss):
        across = (log2(n) - log2(first)) / (log2(last) - log2(first))
        return f"{52 + across * (WIDTH - 80):.1f},{24 + (5 - loss) / 4 * (HEIGHT - 76):.1f}"

    def text(n, loss, words, anchor="middle"):
        x, y = at(n, loss).split(",")
        return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="currentColor">{escape(str(words))}</text>'

    points = [*shown["known"], shown["measured"][0][:2]]
    marks = [text(n, 0.72, n) for n, *_ in [*shown["known"], *shown["measured"]]]
    marks += [text(first, nats - 0.06, f"{nats}  ", "end") for nats in (1, 2, 3, 4, 5)]
    marks += [text(n, 3, "?") for n, *_ in shown["measured"][1:]]
    marks += [text(first, 5.2, "nats per character", "start")]
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(ALT)}" font-size="14">'
        f'<polyline points="{at(first, 5)} {at(first, 1)} {at(last, 1)}" fill="none" stroke="currentColor" '
        f'stroke-opacity="0.4"/><polyline points="{" ".join(at(*p) for p in points)}" fill="none" '
        f'stroke="currentColor" stroke-width="2.5"/>{"".join(marks)}'
        f"{text((first * last) ** 0.5, 0.45, 'characters of context, of which each query sees all')}</svg>"
    )
