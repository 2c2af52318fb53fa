r"""How to measure position: its two opening figures, the card of an experiment, and the numbers of its prose.

Functions ending in `_numbers` return {name: text}. They also assert what the prose around the numbers tells, so that a
build fails whose results contradict it.
"""

import functools
import textwrap

import matplotlib.pyplot as plt
import numpy as np
import torch
from IPython.display import Markdown

from posenc.lab.experiments import ONE_A_PLACE, judge, load_results, plots, verdict
from posenc.lab.figures.measure import added
from posenc.lab.pages import say_all, set_up
from posenc.lab.train import Settings
from posenc.lab.train.measure import fixed_batch, gap_positions
from posenc.lab.train.tasks import IGNORE, TASKS, load_corpus
from posenc.lab.write import table, typeset
from posenc.methods import METHODS

STYLE = {"font.size": 12, "axes.spines.top": False, "axes.spines.right": False}
TEXT, MASKED, VOLUME = "train_short_test_long", "masked", "sinusoidal_volume"
PUZZLES = ["flipflop", "selective_copy", "counting", "recall", "needle"]
WINDOWS = 16  # the first windows of each length, in the unfair figure
#: experiment -> its name in the table of verdicts, where that is not its own
SHORT_NAMES = {TEXT: "Text, long", MASKED: "Masked", "selective_copy": "Selective copy", "flipflop": "Flip-flop"}
OUTCOMES = {"came true": "came true", "failed": "**failed**", "not decided": "open", None: "–"}


def start():
    """Set figures up and give the prose its numbers: all that the page's first cell does."""
    set_up(**STYLE)
    numbers()


def numbers():
    """Give the prose every number that the visible cells don't compute."""
    sections = (
        text_numbers,
        unfair_numbers,
        factorial_numbers,
        cut_numbers,
        early_numbers,
        masked_numbers,
        flipflop_numbers,
        selective_copy_numbers,
        counting_numbers,
        recall_numbers,
        needle_numbers,
        prediction_numbers,
    )
    for section in sections:
        say_all("measure", section())
    check_by_hand()


# --- results ---------------------------------------------------------------------------------------------------------


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


def scores(name: str) -> dict:
    """{method: {test: [seeds]}} of an experiment with tests."""
    arms = results(name)["methods"]
    return {method: {test: np.array(v) for test, v in arm["scores"].items()} for method, arm in arms.items()}


def outcome(name: str, method: str) -> str | None:
    """What became of a prediction, or None where there was none."""
    return verdict(results(name), method).outcome if method in results(name)["claims"] else None


def number(value: float) -> str:
    """Three digits, without a minus before a zero."""
    return typeset(f"{value:.3f}".replace("-0.000", "0.000"))


# --- the opening figures ---------------------------------------------------------------------------------------------


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
    _, panels = plt.subplots(3, 1, figsize=(4.4, 3.3), layout="constrained", sharex=True)
    for axes, name in zip(panels, ("new windows: other targets", "chopped: fewer early ones", "fixed targets")):
        for row, n in enumerate((8, 16, 32, 64)):
            if name.startswith("new"):
                spans, counted = [(0, n)], [(0, n)]
            elif name.startswith("chopped"):
                spans = counted = [(start, n) for start in range(0, 64, n)]
            else:
                spans, counted = [(64 - n, n)], [(60, 4)]
            axes.broken_barh([(a, b - 0.4) for a, b in spans], (row - 0.4, 0.8), color="0.8")
            axes.broken_barh([(a, b - 0.4) for a, b in counted], (row - 0.4, 0.8), color="#e08a3c")
            if not name.startswith("fixed"):
                axes.broken_barh([(a, 2) for a, _ in spans], (row - 0.4, 0.8), color="#0b3c5d")
        axes.set(yticks=[], ylim=(3.6, -0.6), xlim=(0, 64))
        axes.set_title(name, loc="left")
        axes.spines["left"].set_visible(False)
    panels[-1].set(xticks=[], xlabel="place in the text")


def unfair_numbers() -> dict:
    """A failure that asks for it."""
    rises, lengths = table_rises(), results(TEXT)["lengths"]
    span = {name: max(values) - min(values) for name, values in rises.items()}
    assert min(span["the last one"], span["the last two"]) > results(TEXT)["tolerance"]  # it shows
    assert all(values[2] > values[0] for values in rises.values())  # "higher at four times the length"
    chopped = losses("stickbreaking", "chopped")
    assert (chopped[:, -1] < chopped[:, 0] - 0.01).all()
    gap = np.abs(losses("stickbreaking")[:, -1] - losses("stickbreaking", "cut")[:, -1]).max()
    assert gap < 0.005 and abs(verdict(results(TEXT), "stickbreaking").change) < 0.001  # neither improves nor degrades
    return {
        "moved_one": f"{span['the last one']:.2f}",
        "moved_two": f"{span['the last two']:.2f}",
        "chopped_short": f"{chopped[:, 0].mean():.3f}",
        "chopped_long": f"{chopped[:, -1].mean():.3f}",
        "stick_gap": f"{gap:.4f}",
        "four": f"{lengths[2]}",
    }


# --- text ------------------------------------------------------------------------------------------------------------


def text_numbers() -> dict:
    """Lengths, targets and steps; what a longer context adds to two losses; volumes."""
    text = results(TEXT)
    rises = {name: (losses(name)[:, -1] - losses(name)[:, 0]).mean() for name in ("rope", "alibi")}
    return {
        "length": f"{text['lengths'][0]}",
        "longest": f"{text['lengths'][-1]}",
        "targets": f"{text['settings']['targets']}",
        "volume_steps": f"{results(VOLUME)['settings']['steps']}",
        **{f"rise_{name}": f"{rise:.2f}" for name, rise in rises.items()},
        **volume_numbers(),
    }


def volume_numbers() -> dict:
    """What the sinusoid saves against NoPE in training's own window, at 1/sqrt(C) of its volume and at volume one."""
    volume = results(VOLUME)
    none, quiet, full = (
        np.mean([row[0] for row in volume["methods"][f"{v:.4f}"]["whole"]])
        for v in (0, volume["settings"]["dim"] ** -0.5, 1)
    )
    assert none - quiet < 0.2 * (none - full)
    width = volume["settings"]["dim"]
    return {
        "drowned": f"{none - quiet:.2f}",
        "loud": f"{none - full:.2f}",
        "quiet": f"{width**-0.5:.1f}",
        "width": f"{width}",
    }


def factorial_numbers() -> dict:
    """What distance alone, eight times the keys alone, and both add to the loss."""
    text = results(TEXT)
    parts = {name: added(text, name, text["lengths"][-1], text["gaps"][-1]) for name in text["methods"]}
    far, many, both = ({name: values[place] for name, values in parts.items()} for place in range(3))
    for name in ("nope", "stickbreaking"):
        assert np.abs(far[name]).max() < 1e-5  # to the last digit: no position enters
    for name in ("rope", "sinusoidal"):
        assert far[name].mean() > 5 * many[name].mean() and far[name].mean() > 0.5
    assert max(many, key=lambda name: many[name].mean()) == "nope"
    assert 0.02 < many["alibi"].mean() < 0.15 and 0.02 < far["alibi"].mean() < 0.15
    assert np.abs(many["stickbreaking"]).max() < 0.01
    mid_gap = text["gaps"][-2]
    mid = added(text, "rope", text["lengths"][-1], mid_gap)[0].mean()
    assert mid > far["rope"].mean() + 0.1  # "RoPE pays more" there
    assert min(many["alibi"].mean(), far["alibi"].mean()) > (losses("alibi")[:, -1] - losses("alibi")[:, 0]).mean()
    interaction = (both["rope"] - far["rope"] - many["rope"]).mean()
    rise = losses("rope")[:, -1] - losses("rope")[:, 0]
    assert interaction > 0.2 and both["rope"].mean() < rise.mean() - 0.1  # below the rise at natural distances
    return {
        **{f"far_{name}": f"{far[name].mean():.2f}" for name in ("rope", "sinusoidal", "alibi")},
        **{f"many_{name}": f"{many[name].mean():.2f}" for name in ("rope", "sinusoidal", "nope", "alibi")},
        "mid_rope": f"{mid:.2f}",
        "mid_gap": f"{mid_gap}",
        "interaction_rope": f"{interaction:.2f}",
    }


def cut_numbers() -> dict:
    """From how many keys on nothing is gained."""
    text = results(TEXT)
    cuts, length = text["cuts"], text["lengths"][0]
    curve = {name: losses(name, "context_cut").mean(0) for name in text["methods"]}  # [cuts]
    half, trained = cuts.index(length // 2), cuts.index(length)
    for name in ("rope", "alibi", "stickbreaking"):
        assert abs(curve[name][half] - curve[name][trained]) < 0.02
        assert curve[name][half] - curve[name].min() < (0.01 if name == "stickbreaking" else 0.02)
    assert all(curve[name].argmin() <= trained for name in ("nope", "sinusoidal", "rope", "alibi"))
    return {"half": f"{cuts[half]}"}


def found_numbers(worst: float, E: float, flips: float) -> dict:
    """What visible cells found: the law's largest error, what a start costs, the share of flipped comparisons."""
    return {"law_error": f"{worst:.4f}", "law_E": f"{E:.1f}", "flips": f"{flips:.0%}"}


def check_by_hand():
    """Assert the two examples that the page computes by hand."""
    assert gap_positions(6, 4, 1, 3).tolist() == [0, 0, 0, 1, 2, 6]
    mean, spread = np.mean([0.02, 0.06, 0.10]), np.std([0.02, 0.06, 0.10], ddof=1)
    assert abs(mean - 0.06) < 1e-9 and abs(spread - 0.04) < 1e-9
    assert judge([0.02, 0.06, 0.10], 0.05, "rises") == "not decided"


def early_numbers() -> dict:
    """The same targets at the start and at the end of a window."""
    early, late = losses("stickbreaking", "early")[:, 0], losses("stickbreaking")[:, 0]
    assert (early > late).all()
    return {"early": f"{early.mean():.3f}", "late": f"{late.mean():.3f}"}


def masked_numbers() -> dict:
    """Causal and masked."""
    length = str(results(TEXT)["lengths"][0])
    hidden = {name: tests[length] for name, tests in scores(MASKED).items()}
    means = {name: values.mean() for name, values in hidden.items()}
    causal = {name: losses(name)[:, 0].mean() for name in means}
    assert min(causal, key=causal.get) == max(means, key=means.get) == "stickbreaking"  # lowest there, highest here
    assert (hidden["stickbreaking"] > hidden["nope"]).all()
    assert min(means, key=means.get) == "rope"
    share = (means["nope"] - means["alibi"]) / (means["nope"] - means["rope"])
    assert share > 0.5
    return {"masked_alibi_share": f"{share:.0%}"}


# --- puzzles ---------------------------------------------------------------------------------------------------------


def show(name: str, **options):
    """Print one sequence of a task, with what is asked for."""
    print(textwrap.fill(TASKS[name].example(**options), 60))


def print_settings():
    """Print size, seeds and batches of the models, on text and on puzzles."""
    for name, members in (("text", [TEXT, MASKED]), ("puzzles", PUZZLES)):
        group = [results(member) for member in members]
        settings = group[0]["settings"]
        steps = sorted({result["settings"]["steps"] for result in group})
        (seeds,) = {len(result["seeds"]) for result in group}
        size = f"{settings['num_layers']} layers, width {settings['dim']}, {settings['num_heads']} heads"
        print(f"{name}: {size}, {seeds} seeds,")
        span = " to ".join(map(str, steps[:: max(1, len(steps) - 1)]))
        print(f"    {span} batches of {settings['batch']} x {settings['length']}")


def flipflop_numbers() -> dict:
    """Flip-flop."""
    bit = scores("flipflop")
    assert max(tests["sparser"].mean() for method, tests in bit.items() if method != "nope") < 0.02
    nope = bit["nope"]
    assert (nope["sparser"] < nope["in"]).all() and (nope["denser"] > nope["in"]).all()
    assert max(values.max() for values in bit["stickbreaking"].values()) < 0.001
    longer = {method: tests["longer 4x"].mean() for method, tests in bit.items()}
    assert longer["alibi"] < 0.01 < 0.05 < longer["rope"] < longer["sinusoidal"]
    assert [outcome("flipflop", method) for method in bit].count("failed") == 4
    asked = fixed_batch("flipflop", Settings(**results("flipflop")["settings"]), TASKS["flipflop"].tests(64)["sparser"])
    answers = int((asked.targets != IGNORE).sum())
    return {
        "bit_answers": f"{answers}",
        "bit_most": f"{3 / answers:.1%}",
        "bit_sinusoidal": f"{longer['sinusoidal']:.2f}",
        "bit_rope": f"{longer['rope']:.2f}",
        "bit_alibi": f"{longer['alibi']:.3f}",
    }


def selective_copy_numbers() -> dict:
    """Selective copy."""
    letters = scores("selective_copy")
    for method in ("nope", "stickbreaking"):
        assert letters[method]["in"].mean() > 0.3  # not learned
        assert abs((letters[method]["sparser"] - letters[method]["in"]).mean()) < 0.02  # and blind to blanks
    sparser = {method: tests["sparser"].mean() for method, tests in letters.items()}
    for method, most in (("sinusoidal", 0.2), ("rope", 0.2), ("alibi", 0.1)):
        assert letters[method]["in"].mean() < most and outcome("selective_copy", method) == "came true"
    assert sparser["sinusoidal"] > sparser["rope"] > sparser["alibi"]
    return {
        **{f"letters_{method}": f"{letters[method]['in'].mean():.2f}" for method in ("nope", "stickbreaking")},
        **{f"letters_{method}": f"{sparser[method]:.2f}" for method in ("sinusoidal", "rope", "alibi")},
    }


def counting_numbers() -> dict:
    """Counting."""
    count = {method: {test: v.mean() for test, v in tests.items()} for method, tests in scores("counting").items()}
    assert all(outcome("counting", method) == "came true" for method in count)
    assert max(count["stickbreaking"].values()) < 0.001
    assert count["alibi"]["longer 4x"] < 0.1 < 0.3 < count["rope"]["longer 4x"]
    assert max(tests["in"] for method, tests in count.items() if method != "nope") < 0.05
    assert count["alibi"]["sparser"] > 2 * count["alibi"]["in"]
    return {
        "count_rope": f"{count['rope']['longer 4x']:.2f}",
        "count_alibi": f"{count['alibi']['longer 4x']:.2f}",
        "count_sparser": f"{count['alibi']['sparser']:.2f}",
        "count_in": f"{count['alibi']['in']:.2f}",
    }


def recall_numbers() -> dict:
    """Recall, by the number of pairs."""
    recall = results("recall")
    most = recall["trained_pairs"]
    trained, double, quadruple = (recall["pairs"].index(factor * most) for factor in (1, 2, 4))
    errors = {method: np.array(arm["by_pairs"]) for method, arm in recall["methods"].items()}  # [seeds, pairs]
    assert min(errors, key=lambda method: errors[method][:, double].mean()) == "stickbreaking"
    stick, nope = errors["stickbreaking"], errors["nope"][:, trained].mean()
    following = min(values[:, quadruple].mean() for method, values in errors.items() if method != "stickbreaking")
    assert stick[:, quadruple].max() < 0.06 and stick[:, double].max() < 0.01
    assert following > 0.5 and nope > 0.5
    return {
        "recall_stick": f"{stick[:, quadruple].mean():.2f}",
        "recall_next": f"{following:.2f}",
        "recall_nope": f"{nope:.2f}",
    }


def needle_numbers() -> dict:
    """The needle, near and far."""
    wrong = {method: {test: v.mean() for test, v in tests.items()} for method, tests in scores("needle").items()}
    assert max(tests["in"] for tests in wrong.values()) < 0.03  # all have learned it
    assert min(tests["far, cut"] for tests in wrong.values()) > 0.7
    assert max(wrong, key=lambda method: losses(method)[:, 0].mean()) == "nope"  # the highest loss on text
    for method in ("nope", "stickbreaking"):
        assert wrong[method]["far"] < 0.05 and outcome("needle", method) == "failed"
    rope, sinusoidal, alibi = (wrong[method] for method in ("rope", "sinusoidal", "alibi"))
    assert rope["near"] < 0.1 < 0.4 < rope["far"]
    assert abs(sinusoidal["near"] - sinusoidal["far"]) < 0.05 < sinusoidal["near"]
    assert alibi["near"] < 0.05 < 0.2 < alibi["far"] < rope["far"] and alibi["far"] < 0.5
    short = {"nope": "nope", "stickbreaking": "stick"}
    near = {"rope": "rope", "sinusoidal": "sin", "alibi": "alibi"}
    return {
        **{f"{name}_far": f"{wrong[method]['far']:.2f}" for method, name in (short | near).items()},
        **{f"{name}_cut": f"{wrong[method]['far, cut']:.2f}" for method, name in short.items()},
        **{f"{name}_near": f"{wrong[method]['near']:.2f}" for method, name in near.items()},
    }


def factorial_figure():
    """What distance alone, keys alone and both add to the loss."""
    return plots.plot_distance_and_keys(results(TEXT))


def language_figure():
    """Causal and masked models at the training length."""
    return plots.plot_language(results(TEXT), results(MASKED))


def scores_figure(name: str):
    """The share of wrong answers in each test of a puzzle."""
    return plots.plot_scores(results(name))


def recall_figure():
    """The share of wrong answers by the number of pairs."""
    return plots.plot_recall(results("recall"))


# --- predictions -----------------------------------------------------------------------------------------------------


def label(arm: str) -> str:
    """A method's title, or a volume."""
    return METHODS[arm].title if arm in METHODS else f"{float(arm):.3g}"


def card(name: str) -> Markdown:
    """Predictions and verdicts of an experiment, and what it does not show."""
    result = results(name)
    start, end = result.get("contrast", (results(TEXT)["lengths"][0], results(TEXT)["lengths"][-1]))
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
            first, last = ([row[place] for row in values["whole"]] for place in (0, -1))
        change = f"{number(judged.change)} ± {number(judged.spread)}"
        rows.append(
            [label(arm), claim, f"**{judged.outcome}**", f"{np.mean(first):.3f}", f"{np.mean(last):.3f}", change]
        )
        full.append(f"- *{result['predictions'][arm]}* {judged.words}")
    lines = [f"{span}: {result['unit']}. A change counts beyond {result['tolerance']:g}.", ""]
    lines.append(table(["", "predicted", "verdict", "from", "to", "change"], rows).data)
    lines += ["", "```{dropdown} Why we predicted this, and the verdicts in full", *full, "```", ""]
    lines.append(f"**What it does not show.** {result['shows_not']}")
    return Markdown("\n".join(lines))


def outcomes() -> dict:
    """{experiment: {method: what became of its prediction, None where there was none}}."""
    names = [TEXT, MASKED, *PUZZLES]
    return {name: {method: outcome(name, method) for method in results(TEXT)["methods"]} for name in names}


def outcomes_table() -> Markdown:
    """The verdicts, a row for each experiment and a column for each method."""
    rows = [
        [SHORT_NAMES.get(name, name.capitalize()), *(OUTCOMES[word] for word in by_method.values())]
        for name, by_method in outcomes().items()
    ]
    return table(["experiment", *(METHODS[method].title for method in results(TEXT)["methods"])], rows)


def prediction_numbers() -> dict:
    """How many predictions came true."""
    tally = [word for by_method in outcomes().values() for word in by_method.values() if word]
    assert "failed" in tally
    rise = (losses("nope")[:, -1] - losses("nope")[:, 0]).mean()
    assert 0.2 < (losses("nope")[:, -1] - losses("nope", "cut")[:, -1]).mean() / rise < 0.8  # "only some"
    return {
        "held": f"{tally.count('came true')}",
        "failed": f"{tally.count('failed')}",
        "spread": f"{tally.count('not decided')}",
        "all": f"{len(tally)}",
    }
