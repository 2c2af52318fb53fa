r"""How to measure position: its two opening figures, the card of an experiment, and checks of its prose.

Functions ending in `_numbers` return {name: text}. These and the checks assert what the prose tells, so that a build
fails whose results contradict it.
"""

import functools
import importlib.resources
import re
import textwrap
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import torch
from IPython.display import Markdown

from posenc.lab.experiments import ONE_A_PLACE, load_results, plots, verdict
from posenc.lab.titles import title
from posenc.lab.train import Settings
from posenc.lab.train.measures import fixed_batch
from posenc.lab.train.tasks import IGNORE, NEEDLE_VALUES, TASKS, load_corpus
from posenc.lab.write import ROOT, finish, say_all, set_up, table, typeset
from posenc.methods import METHODS

TEXT, MASKED, VOLUME = "train_short_test_long", "masked", "sinusoidal_volume"
PUZZLES = ["flipflop", "selective_copy", "counting", "recall", "needle"]
WINDOWS = 16  # the first windows of each length, in the unfair figure


def start():
    """Set figures up, check what the prose tells, and give it what is neither computed in sight nor frozen."""
    set_up(**{"font.size": 12, "axes.spines.top": False, "axes.spines.right": False})
    check_puzzles()
    for section in (unfair_numbers, flipflop_numbers, prediction_numbers):
        say_all("measure", section())


@functools.cache
def results(name: str) -> dict:
    """The frozen results of an experiment, of one method for each place."""
    return load_results(name) if name == VOLUME else load_results(name, ONE_A_PLACE)


def text_settings() -> Settings:
    """The settings of the models on text."""
    return Settings(**results(TEXT)["settings"])


def losses(method: str, kind: str = "whole") -> np.ndarray:
    """A method's losses on text, [seeds, ...]."""
    return np.array(results(TEXT)["methods"][method][kind])


def scores(name: str, method: str, test: str) -> np.ndarray:
    """A method's shares of wrong answers in a test of a puzzle, [seeds]."""
    return np.array(results(name)["methods"][method]["scores"][test])


def outcome(name: str, method: str) -> str | None:
    """What became of a prediction, or None where there was none."""
    return verdict(results(name), method).outcome if method in results(name)["claims"] else None


def follower_table(contexts, kinds: int, followers, vocabulary: int, lean):
    """How often each character follows each context, [kinds, vocabulary], smoothed towards `lean`."""
    counts = torch.zeros(kinds, vocabulary)
    counts.index_put_((contexts, followers), torch.ones(len(followers)), accumulate=True)
    counts = counts + 5 * lean
    return counts / counts.sum(1, keepdim=True)


@functools.cache
def table_losses() -> dict:
    """{what it looks at: the loss of each held-out character} of three tables of counts."""
    corpus = load_corpus()
    size, train, held_out = len(corpus.vocabulary), corpus.train, corpus.held_out
    start = torch.zeros(len(train) - 2, dtype=torch.long)
    none = follower_table(start, 1, train[2:], size, torch.full((1, size), 0.1 / size))
    one = follower_table(train[1:-1], size, train[2:], size, none)
    two = follower_table(train[:-2] * size + train[1:-1], size * size, train[2:], size, one.repeat(size, 1))
    return {
        "no character": -none.log()[0, held_out[2:]],
        "the last one": -one.log()[held_out[1:-1], held_out[2:]],
        "the last two": -two.log()[held_out[:-2] * size + held_out[1:-1], held_out[2:]],
    }


def table_rises() -> dict:
    """{what it looks at: its loss at each length}, each length on other text: the unfair test."""
    lengths = results(TEXT)["lengths"]
    return {name: [loss[: WINDOWS * n].mean().item() for n in lengths] for name, loss in table_losses().items()}


def unfair_figure():
    """Three tables of counts on new windows for each length, and one model on a chopped text."""
    lengths = results(TEXT)["lengths"]
    _, (left, right) = plt.subplots(1, 2, figsize=(4.4, 2.7), layout="constrained")
    rises = table_rises()
    for (name, values), shade, marker in zip(rises.items(), ("0.6", "0.4", "0.1"), "os^"):
        left.plot(lengths, values, marker=marker, color=shade)
        left.annotate(name, (lengths[0], values[0]), (0, -14), textcoords="offset points")
    left.set(title="three models", ylabel="loss, nats per character", ylim=(min(values) - 0.2, None))
    right.plot(lengths, losses("stickbreaking", "chopped").mean(0), "C4-v")
    right.set(title="one model", ylabel="loss")
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_xticks(lengths, [str(n) for n in lengths])
        axes.set_xlabel("context, characters")


def windows_figure():
    """Three ways to lengthen a context, as bars: what is read, what counts, and what starts a piece."""
    ways = {  # {way: what is read, and what counts of it, for n characters of context: (start, length) each}
        "new windows: other targets": lambda n: ([(0, n)], [(0, n)]),
        "chopped: fewer early ones": lambda n: ([(start, n) for start in range(0, 64, n)],) * 2,
        "fixed targets": lambda n: ([(64 - n, n)], [(60, 4)]),
    }
    _, panels = plt.subplots(3, 1, figsize=(4.4, 3.3), layout="constrained", sharex=True)
    for axes, (name, spans) in zip(panels, ways.items()):
        for row, n in enumerate((8, 16, 32, 64)):
            read, counted = spans(n)
            axes.broken_barh([(a, b - 0.4) for a, b in read], (row - 0.4, 0.8), color="0.8")
            axes.broken_barh([(a, b - 0.4) for a, b in counted], (row - 0.4, 0.8), color="#e08a3c")
            if name != "fixed targets":
                axes.broken_barh([(a, 2) for a, _ in read], (row - 0.4, 0.8), color="#0b3c5d")
        axes.set(yticks=[], ylim=(3.6, -0.6), xlim=(0, 64))
        axes.set_title(name, loc="left")
        axes.spines["left"].set_visible(False)
    panels[-1].set(xticks=[], xlabel="place in the text")


def unfair_numbers() -> dict:
    """A failure that asks for it."""
    rises = table_rises()
    span = {name: max(values) - min(values) for name, values in rises.items()}
    assert min(span["the last one"], span["the last two"]) > results(TEXT)["tolerance"]  # it shows
    assert all(values[2] > values[0] for values in rises.values())  # "higher at four times the length"
    chopped, whole = losses("stickbreaking", "chopped"), losses("stickbreaking")
    assert (chopped[:, -1] < chopped[:, 0] - 0.01).all()  # neither improves nor degrades:
    assert np.abs(whole[:, -1] - losses("stickbreaking", "cut")[:, -1]).max() < 0.005
    assert abs(verdict(results(TEXT), "stickbreaking").change) < 0.001
    return {"moved_one": f"{span['the last one']:.2f}", "moved_two": f"{span['the last two']:.2f}"}


def show(name: str, **options):
    """Print one sequence of a task, with what is asked for."""
    print(textwrap.fill(TASKS[name].example(**options), 60))


def flipflop_numbers() -> dict:
    """How many answers the sparse test of flip-flop asks for, and the rule of three for them."""
    asked = fixed_batch("flipflop", Settings(**results("flipflop")["settings"]), TASKS["flipflop"].tests(64)["sparser"])
    answers = int((asked.targets != IGNORE).sum())
    return {"bit_answers": f"{answers}", "bit_most": f"{3 / answers:.1%}"}


def check_puzzles():
    """Assert what the page ranks and compares of the puzzles beside their verdicts."""

    def mean(name, method, test):
        return scores(name, method, test).mean()

    methods = list(results("needle")["methods"])
    bit, nope = partial(mean, "flipflop"), partial(scores, "flipflop", "nope")
    assert max(bit(method, "sparser") for method in methods if method != "nope") < 0.02
    assert (nope("sparser") < nope("in")).all() and (nope("denser") > nope("in")).all()
    assert bit("stickbreaking", "longer 4x") < bit("alibi", "longer 4x") < 0.01
    assert 0.05 < bit("rope", "longer 4x") < bit("sinusoidal", "longer 4x")

    letters = partial(mean, "selective_copy")
    assert min(scores("selective_copy", "nope", "in")) > 0.2 and min(scores("selective_copy", "sinusoidal", "in")) > 0.1
    assert abs(letters("nope", "sparser") - letters("nope", "in")) < 0.02 and letters("stickbreaking", "in") > 0.1
    assert max(letters("rope", "in"), letters("alibi", "in")) < 0.1
    assert verdict(results("selective_copy"), "stickbreaking").outcome == "not decided"
    assert letters("sinusoidal", "sparser") > letters("rope", "sparser") > letters("alibi", "sparser")

    count = partial(mean, "counting")
    assert max(count("stickbreaking", test) for test in results("counting")["tests"]) < 0.001
    assert count("alibi", "longer 4x") < 0.1 < 0.3 < count("rope", "longer 4x")
    assert count("alibi", "sparser") > 2 * count("alibi", "in")

    pairs = {method: np.array(arm["by_pairs"]) for method, arm in results("recall")["methods"].items()}
    most = sorted(pairs, key=lambda method: pairs[method][:, -1].mean())  # at four times the pairs
    assert most[:2] == ["stickbreaking", "alibi"] and pairs["alibi"][:, -1].mean() > 0.5

    needle = partial(mean, "needle")
    assert max(needle(method, "in") for method in methods) < 0.03  # all have learned it
    assert min(needle(method, "far, cut") for method in methods) > 0.7
    assert needle("rope", "near") < 0.1 < 0.4 < needle("rope", "far")
    assert abs(needle("sinusoidal", "near") - needle("sinusoidal", "far")) < 0.05 < needle("sinusoidal", "near")
    assert needle("alibi", "near") < 0.05 < 0.2 < needle("alibi", "far") < min(0.5, needle("rope", "far"))


def language_figure():
    """Causal and masked models at the training length."""
    return plots.plot_language(results(TEXT), results(MASKED))


def scores_figure(name: str):
    """The share of wrong answers in each test of a puzzle."""
    return plots.plot_scores(results(name))


def needle_figure():
    """A panel a method: wrong answers against the distance of the needle, at each length of the context."""
    found = results("needle")
    contexts, distances = found["contexts"], found["distances"]
    farthest, guess = contexts[0] - 6, 1 - 1 / NEEDLE_VALUES
    lines = [("_", "-", "0.5", 1)] * (len(contexts) - 2) + [("shorter contexts", "-", "0.5", 1)]
    lines += [(f"context {contexts[-1]}", "-", "C0", 3), ("that, attention cut", "--", "C1", 1.5)]
    figure, panels = plt.subplots(3, 2, figsize=(4.4, 5), layout="constrained", sharex=True, sharey=True)
    for axes, (method, arm) in zip(panels.flat, found["methods"].items()):
        grid = np.array(arm["grid"], dtype=float).mean(0)  # NaN where the needle is farther than the context
        for wrong, (words, dash, color, width) in zip([*grid, np.mean(arm["cut_row"], 0)], lines):
            axes.plot(distances, wrong, dash, color=color, lw=width, marker="o", ms=2 * width + 1, label=words)
        axes.axvline(farthest, color="0.5", ls="-.", lw=1, label="farthest in training")
        axes.axhline(guess, color="0.5", ls=":", lw=1)
        axes.set_title(title(method), loc="left")
        axes.set(xscale="log", ylim=(-0.04, 1), yticks=[0, 0.5, guess], yticklabels=["0", "50%", "guess"])
    ends = [distances[0], farthest, distances[-1]]
    axes.set_xticks(ends, map(str, ends))
    axes.minorticks_off()
    panels[1, 1].tick_params(labelbottom=True)
    panels[2, 1].axis("off")
    panels[2, 1].legend(*axes.get_legend_handles_labels(), loc="center")
    figure.supxlabel("distance of the needle, tokens", size="medium")
    figure.supylabel("wrong answers", size="medium")
    return finish(figure)


def recall_figure():
    """The share of wrong answers by the number of pairs."""
    return plots.plot_recall(results("recall"))


def card(name: str) -> Markdown:
    """Predictions and verdicts of an experiment, and what it does not show."""

    def label(arm):
        return METHODS[arm].title if arm in METHODS else f"{float(arm):.3g}"

    result, text = results(name), results(TEXT)
    start, end = result.get("contrast", (text["lengths"][0], text["lengths"][-1]))
    against = result.get("against")
    if against:
        span = f"From {'volume ' * (against not in METHODS)}{label(against)} to each"
    elif "contrast" in result:
        span = f"From *{start}* to *{end}*"
    else:
        span = f"From {start} to {end} characters of context"
    rows, full = [], []
    for arm, claim in result["claims"].items():
        values, judged = result["methods"][arm], verdict(result, arm)
        if "contrast" in result:
            first = result["methods"][against]["scores"][end] if against else values["scores"][start]
            last = values["scores"][end]
        else:
            first, last = np.array(values["whole"]).T[[0, -1]]
        ends = [f"{np.mean(first):.3f}", f"{np.mean(last):.3f}"]
        change = typeset(f"{round(judged.change, 3) + 0.0:.3f} ± {judged.spread:.3f}")  # no minus before a zero
        rows.append([label(arm), claim, f"**{judged.outcome}**", *ends, change])
        full.append(f"- *{result['predictions'][arm]}* {judged.words}")
    lines = [f"{span}: {result['unit']}. A change counts beyond {result['tolerance']:g}.", ""]
    lines.append(table(["", "predicted", "verdict", "from", "to", "change"], rows).data)
    lines += ["", "```{dropdown} Why we predicted this, and the verdicts in full", *full, "```", ""]
    lines.append(f"**What it does not show.** {result['shows_not']}")
    return Markdown("\n".join(lines))


def prediction_numbers() -> dict:
    """How many predictions came true."""
    tally = [outcome(name, method) for name in (TEXT, MASKED, *PUZZLES) for method in results(TEXT)["methods"]]
    words = {"held": "came true", "failed": "failed", "spread": "not decided"}
    counts = {name: tally.count(word) for name, word in words.items()}
    return {name: f"{count}" for name, count in (counts | {"all": sum(counts.values())}).items()}


def read_by(name: str) -> str:
    """Links to the chapters whose files name a frozen result: in quotes, or in a role of their text."""
    names = "text|" * (name == TEXT) + name
    read = re.compile(rf'"{name}"{"|on_windows" * (name == "text_blocks")}|\{{r\}}`[^`]*\b({names})\.')
    files = [path for path in sorted((ROOT / "book").glob("[a-z]*/*")) if path.suffix in (".md", ".py")]
    files.remove(ROOT / "book/measure/facts.py")  # which names them for the table of files
    chapters = dict.fromkeys(path.parent.name for path in files if read.search(path.read_text("utf-8")))
    return ", ".join(f"[{chapter}](../{chapter}/index.md)" for chapter in chapters)


INHERITED = ("additions", "practice", "rope_surgery", "scaling", "text_blocks")  # files with rates of the study
UNTRAINED = ("counting_rule", "cpu_speed", "training_speed")  # files of speeds, and of a rule that counts
SEVERAL = ("practice", "rope_closely", "rope_surgery", "text_blocks")  # files whose parts count different targets


def files_table():
    """Each frozen file to download: what it asks, what its numbers rest on, what made it, and who reads it."""
    rows = []
    names = (item.name for item in importlib.resources.files("posenc.results").iterdir())
    for name in sorted(name.removesuffix(".json") for name in names if name.endswith(".json")):
        result = load_results(name)
        about = result.get("question") or " ".join(result["definition"].split(". ")[0].split()).strip(".") + "."
        arms = next((result[key] for key in ("methods", "arms", "schemes", "trials", "in_blocks") if key in result), {})
        seeds, settings, of_arms = result.get("seeds", ()), result["settings"], [*arms.values()]
        counts = {len(arm.get("seeds", seeds)) for arm in of_arms if seeds and isinstance(arm, dict)}
        counts = sorted(counts) or [len(seeds) or "–"]
        counts = [1] if "seed" in result else counts
        rates = "one for all" if "lr" in settings else "–"
        rates = "chosen" if "choice" in result or "held_back" in settings else rates
        rates = "chosen by two of these seeds" if "rates" in result else "–" if name in UNTRAINED else rates
        rates = "the study's" if name in INHERITED else rates
        if other := re.search(r"--rates results/rates_(\w+)\.json", result["command"]):
            rates += f" on {other[1]}" * (other[1] != name)
        text = result.get("unit", "").startswith("nats")
        windows = settings.get("windows", len(result.get("texts", ())))
        targets = f"{windows * settings['targets']:,}" if text else "–"
        masked = "about 15% of " * (text and result.get("task") == MASKED)
        targets = "several" if name in SEVERAL else masked + targets
        blocks = any("blocks" in arm or "in_blocks" in arm for arm in [*of_arms, result])
        drawn = "seeds, windows" if blocks else "seeds"
        file = f"{{download}}`{name}.json <../../results/{name}.json>`"
        commit = result["commit"][:10] + " …" * (len(result["commit"]) > 40)
        made = f"`{result['command'].replace('|', chr(92) + '|')}` at `{commit}`"
        row = [
            len(arms) or "–",
            " or ".join(map(str, counts)),
            rates,
            targets,
            drawn if len(seeds) > 1 else "texts" if "texts" in result else "windows" if "blocks" in result else "–",
        ]
        rows.append([file, *row, read_by(name) or "–", about, made])
    return table(["file", "arms", "seeds", "rates", "targets", "interval", "pages", "what it asks", "made by"], rows)
