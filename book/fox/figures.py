r"""The explorables of the chapter *FoX: a door that closes*."""

import math
from statistics import mean, stdev

from posenc.lab.experiments import load_results
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import axis, bars, held, label

CLASSES = dict(paragraph="paragraph end", sentence="period", word="space")  # the characters that end these
LEVELS = [n / 2 for n in range(1, 11)]  # logits that a door takes


def _left(taken):
    return f"{math.exp(-taken):.{int(taken > 4.65)}%}"


def _trained(paragraph, sentence, word):
    seeds, guess = load_results("fox_gates")["arms"]["fox"]["mean"], [paragraph, sentence, word]
    taken = [[-seed[kind] for seed in seeds] for kind in CLASSES.values()]
    means, yours, theirs = [mean(of) for of in taken], [-0.2, 0.8, 1.8], [0.2, 1.2, 2.2]
    spread = f"%{{y:.2f}} ± %{{customdata:.2f}} logits: mean ± standard deviation, {len(seeds)} seeds"
    said = [f"<b>{'most<br>' * (m == max(means))}{_left(m)}</b>" for m in means]
    asked, above = [f"<b>drag<br>{_left(g)}</b>" for g in guess], [g + 0.22 for g in guess]
    below = [n + side for side in (-0.25, 0.22) for n in range(3)]
    data = [
        bars("your guess", yours, guess, "rgba(42, 143, 201, 0.3)", width=0.36),
        bars("models", theirs, means, "orange", width=0.36, customdata=[stdev(of) for of in taken], hover=spread),
        label("what models leave", theirs, means, said, "orange", size=17, cliponaxis=False),
        label("whose", below, [0] * 6, ["you"] * 3 + ["models"] * 3, "ink", "bottom center", cliponaxis=False),
        *(held(f"guess: {name}", x, level, "blue") for name, x, level in zip(CLASSES, yours, guess)),
        label("what a guess leaves", yours, above, asked, "blue", size=14),
    ]
    names = dict(tickvals=[0, 1, 2], ticktext=[f"<br>ends of<br><b>{name}s</b>" for name in CLASSES], ticks="")
    left = dict(tickvals=[0, math.log(10), math.log(100)], ticktext=["100%", "10%", "1%"], tickfont=dict(size=13))
    layout = dict(height=420, showlegend=False, barmode="overlay", margin=dict(t=8, l=56, r=8))
    layout["xaxis"] = axis(-0.45, 2.45, tickfont=dict(size=13), showgrid=False, **names)
    layout["yaxis"] = axis(0, 6.4, dict(text="left of all before it", font=dict(size=14)), **left)
    return dict(data=data, layout=layout)


trained = explorable(
    _trained,
    title="Ends of paragraphs, sentences and words: what they leave",
    alt="Three pairs of bars: ends of paragraphs, of sentences, of words. The pale one is a guess to pull: the taller, "
    "the less is left of all that stands before. The full one is the mean over heads of trained models and held-out "
    "text, with the share that is left above it: tallest at ends of words, then of paragraphs, then of sentences.",
    see="Pull each bar to your guess: after which end is least left?",
    handles={f"guess: {name}": name for name in CLASSES},
    paragraph=slider(LEVELS, label="paragraphs", default=4, format=_left),
    sentence=slider(LEVELS, label="sentences", default=2.5, format=_left),
    word=slider(LEVELS, label="words", default=1, format=_left),
)
