r"""One model, five encodings: the tables, figures and numbers of the report's comparison, from one frozen file.

Functions ending in `_numbers` return {name: text}. They also assert what the prose around the numbers tells, so that a
build fails whose results contradict it.
"""

import functools
import math
import statistics

import matplotlib.pyplot as plt
from IPython.display import Markdown

from posenc.lab.experiments import half_width, ignores_far, load_results, verdict
from posenc.lab.experiments.report import OBJECTIVES, REPORTED
from posenc.lab.explore import COLORS
from posenc.lab.figures.one_model import TITLES
from posenc.lab.pages import interval, pm, say_all, table
from posenc.lab.train import Settings, settings_for
from posenc.lab.train.trainer import learning_rate
from posenc.methods import METHODS

STD = 0.02  # what the rows of a learned table start with
#: arm -> the place that it takes, and what is done there.
WHERE = {
    "absolute": ("embed", "in each layer a sinusoid is added to what queries and keys are made from"),
    "standard": ("embed", "in each layer a row of a table is added to what queries, keys and values are made from"),
    "rope": ("rotate", "queries and keys are turned"),
    "exposb": ("rotate, weigh", "they are turned, amplified and filtered; a factor of distance multiplies the logits"),
    "rse": ("rotate, bias, weigh", "they are turned, distance costs, and keys break a stick, key 0 first"),
    "nope": ("none", "nothing"),
    "sinusoidal": ("embed", "a sinusoid is added once, to the embeddings"),
    "alibi": ("bias", "distance costs a fixed amount"),
    "stickbreaking": ("weigh", "keys break a stick, the last first (masked: key 0 first)"),
}
OUTCOMES = {"came true": "came true", "failed": "**failed**", "not decided": "not decided"}


def numbers():
    """Give the prose all its numbers; an assertion fails where the results contradict it."""
    sections = (
        setting_numbers,
        training_numbers,
        length_numbers,
        reach_numbers,
        verdict_numbers,
        row_numbers,
        rate_numbers,
    )
    for section in sections:
        say_all("one", section())


# --- the frozen file -------------------------------------------------------------------------------------------------


@functools.cache
def report() -> dict:
    """The frozen comparison. Errors: ValueError where an arm's places are not those that the page tells."""
    frozen = load_results("report_small")
    for objective in OBJECTIVES:
        if list(results(objective, frozen)["methods"]) != list(WHERE):
            raise ValueError(f"report_small must hold the arms {list(WHERE)} for {objective!r}; freeze it anew")
    return frozen


def results(objective: str, frozen: dict | None = None) -> dict:
    """The sweep of an objective."""
    return (report() if frozen is None else frozen)["objectives"][objective]["results"]


def lengths() -> tuple[str, str]:
    """The training length and the longest one of the test, as the scores name them."""
    return tuple(results("causal")["contrast"])


def losses(objective: str, arm: str, length: str) -> list[float]:
    """An arm's losses at a length, a number a seed."""
    return results(objective)["methods"][arm]["scores"][length]


def rises(objective: str, arm: str) -> list[float]:
    """What an arm's loss rises by from the training length to the longest, a number a seed."""
    return less(losses(objective, arm, lengths()[1]), losses(objective, arm, lengths()[0]))


def less(a, b) -> list[float]:
    """a - b, seed by seed: equal seeds start alike where they share weights, and read equal batches."""
    return [x - y for x, y in zip(a, b, strict=True)]


def below(values) -> bool:
    """Whether the whole 95% interval of a difference, a number a seed, lies below zero."""
    return statistics.fmean(values) + half_width(values) < 0


def mean(objective: str, arm: str, length: str) -> float:
    return statistics.fmean(losses(objective, arm, length))


def outcomes(objective: str) -> dict:
    """{arm: its `Verdict`}."""
    return {arm: verdict(results(objective), arm) for arm in WHERE}


# --- numbers ---------------------------------------------------------------------------------------------------------


def setting_numbers() -> dict:
    """What was trained, beside the report's sizes."""
    frozen, original = report(), settings_for("original")
    at, causal = frozen["settings"], results("causal")
    assert at["dim"] * 3 == original.dim and at["num_layers"] * 3 == original.num_layers
    assert original.length // at["length"] == 3
    return {
        "layers": f"{at['num_layers']}",
        "dim": f"{at['dim']}",
        "heads": f"{at['num_heads']}",
        "lanes": f"{at['dim'] // at['num_heads']}",
        "trained": f"{at['length']}",
        "tested": lengths()[1],
        "middle": f"{causal['lengths'][1]}",
        "steps": f"{at['steps']}",
        "batch": f"{at['batch']}",
        "read": f"{at['steps'] * at['batch'] * at['length'] / 1000:,.0f},000",
        "text": f"{frozen['corpus']['train_characters']:,}",
        "seeds": f"{len(frozen['seeds'])}",
        "windows": f"{at['windows']}",
        "targets": f"{at['targets']}",
        "parameters": f"{causal['methods']['nope']['parameters']:,}",
        "tolerance": f"{causal['tolerance']:g}",
        "commit": frozen["commit"][:8],
        "versions": frozen["versions"],
        "hash": frozen["corpus"]["sha256"][:16],
        "python": frozen["versions"].split(",")[0].rsplit(".", 1)[0],
        "held_back": f"{at['held_back']:,}",
    }


def training_numbers() -> dict:
    """What the models reach at the length they were trained at."""
    short = lengths()[0]
    start = {objective: {arm: mean(objective, arm, short) for arm in WHERE} for objective in OBJECTIVES}
    causal, masked = (sorted(start[objective], key=start[objective].get) for objective in OBJECTIVES)
    assert causal[0] == "stickbreaking" and set(causal[1:3]) == {"rope", "exposb"} and causal[-1] == "nope"
    assert set(masked[:3]) == {"rope", "exposb", "rse"} and masked[-1] == "stickbreaking"
    gains = {arm: less(losses("masked", arm, short), losses("masked", "nope", short)) for arm in WHERE if arm != "nope"}
    far = [arm for arm in gains if statistics.fmean(gains[arm]) < -0.5]
    assert far == ["rope", "exposb", "rse"]  # "three"
    rest = [arm for arm in REPORTED if arm not in far]
    assert rest == ["absolute", "standard"] and all(-0.2 < statistics.fmean(gains[arm]) < 0 for arm in rest)
    ends = [statistics.fmean(losses("causal", arm, short)) for arm in ("rope", "exposb")]
    assert abs(ends[0] - ends[1]) <= results("causal")["tolerance"]  # "they tie"
    return {
        **{f"start_{arm}": pm(losses("causal", arm, short)) for arm in (*REPORTED, "stickbreaking")},
        **{f"masked_{arm}": pm(losses("masked", arm, short)) for arm in ("rope", "exposb", "rse", "nope")},
        "gain_absolute": interval([-x for x in gains["absolute"]], 2),
        "gain_standard": interval([-x for x in gains["standard"]]),
        "gain_rope": interval([-x for x in gains["rope"]], 2),
    }


def length_numbers() -> dict:
    """What a context four times as long adds, and whether what holds reads the far."""
    causal, masked = ({arm: rises(objective, arm) for arm in WHERE} for objective in OBJECTIVES)
    tolerance = results("causal")["tolerance"]
    holding = [arm for arm in WHERE if statistics.fmean(causal[arm]) <= tolerance]
    assert holding == ["rse", "alibi", "stickbreaking"]  # "three hold"
    assert below(less(causal["standard"], causal["rope"]))  # RoPE rises more than the table
    more = less(causal["absolute"], causal["rope"])
    assert not below(more) and not below([-x for x in more])  # "not told apart"
    ends = less(losses("causal", "rope", lengths()[1]), losses("causal", "standard", lengths()[1]))
    assert not below(ends) and not below([-x for x in ends])  # and where they end is not told apart
    whole, cut = (
        {arm: [row[-1] for row in results("causal")["methods"][arm][kind]] for arm in WHERE}
        for kind in ("whole", "cut")
    )
    start = {arm: [row[0] for row in results("causal")["methods"][arm]["whole"]] for arm in WHERE}
    assert ignores_far(whole["rse"], cut["rse"])
    back = {arm: statistics.fmean(less(cut[arm], start[arm])) for arm in REPORTED}
    assert max(back["rope"], back["exposb"]) < tolerance < 0.5 < min(back["absolute"], back["standard"])
    *others, worst = sorted(masked["rse"])
    assert worst > 0.5 and sum(rise > tolerance for rise in masked["rse"]) == 2  # one bad, one a little
    return {
        **{f"rise_{arm}": interval(causal[arm], 2) for arm in ("rope", "exposb")},
        "rise_absolute": f"{statistics.fmean(causal['absolute']):.2f}",
        "mean_rope": f"{statistics.fmean(causal['rope']):.2f}",
        "masked_rise_standard": f"{statistics.fmean(masked['standard']):.2f}",
        "rise_more": interval(less(causal["rope"], causal["standard"]), 2),
        "end_rope": pm(losses("causal", "rope", lengths()[1])),
        "end_standard": pm(losses("causal", "standard", lengths()[1])),
        "rse_gap": f"{max(abs(x) for x in less(whole['rse'], cut['rse'])):.4f}",
        **{f"cut_{arm}": pm(cut[arm]) for arm in REPORTED if arm != "rse"},
        "rse_worst": f"{worst:.2f}",
        "rse_interval": interval(masked["rse"]),
        "rse_others": f"{min(others):.2f} to {max(others):.2f}".replace("-0.00", "0.00"),
    }


def reach_numbers() -> dict:
    """How far a target's farthest key stands: masked targets stand in the middle; what the masked sinusoids lose."""
    at, (short, long) = report()["settings"], map(int, lengths())
    farthest = (long + at["targets"]) // 2 - 1
    gained = {arm: mean("masked", "nope", lengths()[0]) - mean("masked", arm, lengths()[0]) for arm in WHERE}
    rise = {arm: statistics.fmean(rises("masked", arm)) for arm in WHERE}
    assert all(rise[arm] > gained[arm] > 0.05 for arm in ("absolute", "sinusoidal"))  # "lose more than they had gained"
    assert rise["alibi"] < 0.02 < gained["alibi"]  # "nearly flat"
    assert sum(rise[arm] < statistics.fmean(rises("causal", arm)) for arm in WHERE) > len(WHERE) / 2  # "most"
    return {
        "masked_reach": f"{farthest}",
        "masked_times": f"{farthest / (short - 1):.1f}",
        "causal_times": f"{(long - 1) / (short - 1):.0f}",
    }


def half_widths_from(tolerance: float, values) -> float:
    """How many half-widths of its interval a mean lies from the tolerance."""
    return abs(statistics.fmean(values) - tolerance) / half_width(values)


def verdict_numbers() -> dict:
    """How many predictions there were, and what became of them."""
    words = [each.outcome for objective in OBJECTIVES for each in outcomes(objective).values()]
    failed = [(o, arm) for o in OBJECTIVES for arm, each in outcomes(o).items() if each.outcome == "failed"]
    open_ones = [(o, arm) for o in OBJECTIVES for arm, each in outcomes(o).items() if each.outcome == "not decided"]
    assert failed == [("causal", "rse")] and open_ones == [("masked", "rse"), ("masked", "nope")]
    tolerance = results("causal")["tolerance"]
    away = {
        (objective, arm): half_widths_from(tolerance, rises(objective, arm))
        for objective in OBJECTIVES
        for arm, each in outcomes(objective).items()
        if each.outcome == "came true"
    }
    closest = sorted(away, key=away.get)[:4]
    assert {objective for objective, _ in closest} == {"masked"} and away[sorted(away, key=away.get)[4]] > 3
    *names, last = (TITLES[arm] for _, arm in closest)
    return {
        "predictions": f"{len(words)}",
        "predictions_held": f"{words.count('came true')}",
        "closest": f"{', '.join(names)} and {last}",
    }


def kept(objective: str) -> float:
    """What weight decay leaves of a parameter that never gets a gradient, at the table's learning rate."""
    frozen = results(objective)
    choice = frozen["choice"]["standard"]
    settings = Settings(**frozen["settings"] | {"lr": choice["lr"]})
    own = [choice["own"] * learning_rate(step, settings) for step in range(settings.steps)]
    return math.prod(1 - rate * settings.weight_decay for rate in own)


def rows(objective: str) -> list[float]:
    """The root mean square of each row of the first layer's table, the mean over seeds."""
    return [statistics.fmean(row) for row in zip(*results(objective)["methods"]["standard"]["rows"])]


def row_numbers() -> dict:
    """The table's rows within the training length and beyond."""
    trained, texts = int(lengths()[0]), {}
    for objective in OBJECTIVES:
        inside, outside = rows(objective)[:trained], rows(objective)[trained:]
        assert min(inside) > 8 * max(outside)  # "ten times" in the mean, and no row between
        assert abs(statistics.fmean(outside) / (STD * kept(objective)) - 1) < 0.02  # they only decay
        if objective == "causal":  # the masked ones are drawn, and checked above
            texts |= {
                "rows_causal": f"{statistics.fmean(inside):.2f}",
                "rows_causal_beyond": f"{statistics.fmean(outside):.4f}",
                "rows_causal_kept": f"{STD * kept(objective):.4f}",
            }
    small, at = report()["settings"], results("causal")["methods"]
    seconds = [t for o in OBJECTIVES for arm in results(o)["methods"].values() for t in arm["seconds"]]
    assert 15 <= min(seconds) and max(seconds) < 90 and 25 < statistics.median(seconds) < 35  # "half a minute"
    table_size = at["standard"]["parameters"] - at["nope"]["parameters"]
    assert table_size == small["num_layers"] * int(lengths()[1]) * small["dim"]
    share = 1 - trained / int(lengths()[1])
    return texts | {"rows_all": lengths()[1], "table_size": f"{table_size:,}", "rows_dead": f"{share:.0%}"}


def rate_numbers() -> dict:
    """Learning rates: how they were chosen, and which choice stands at the edge of what was tried."""
    rates = {objective: report()["objectives"][objective]["rates"] for objective in OBJECTIVES}
    edge = {objective: [arm for arm, which in rates[objective]["at_edge"].items()] for objective in OBJECTIVES}
    assert edge == {"causal": ["standard", "exposb", "rse"], "masked": ["standard", "rse"]}
    assert {tuple(which) for each in rates.values() for which in each["at_edge"].values()} == {("own",)}
    tried = [len(arm["trials"]) for each in rates.values() for arm in each["arms"].values()]
    return {
        "rate_seeds": f"{len(rates['causal']['seeds'])}",
        "rates_least": f"{min(tried)}",
        "rates_most": f"{max(tried)}",
        "edges": f"{sum(map(len, edge.values()))}",
        "own_edge": f"{rates['causal']['choice']['standard']['own']:g}",
    }


# --- tables and figures ----------------------------------------------------------------------------------------------


def link(arm: str) -> str:
    """An arm's name, linked to the page of its method; the report's own names are its words."""
    page = {"absolute": "sinusoidal", "standard": "learned"}.get(arm, arm)
    return f"[{TITLES[arm]}]({METHODS[page].page}.md)"


def arms_table() -> Markdown:
    """Each arm: where it acts, what it does there, what it learns."""
    causal = results("causal")["methods"]
    plain = causal["nope"]["parameters"]
    lines = [[link(arm), place, what, f"{causal[arm]['parameters'] - plain:,}"] for arm, (place, what) in WHERE.items()]
    return table(["arm", "place", "what it does", "numbers it learns"], lines)


def verdict_table(objective: str) -> Markdown:
    """Each arm's loss at both ends, its rise with the interval, and what became of the prediction."""
    lines, (short, long) = [], lengths()
    for arm, became in outcomes(objective).items():
        words = "a rise" if results(objective)["claims"][arm] == "rises" else "no rise"
        values = [f"{mean(objective, arm, length):.2f}" for length in (short, long)]
        lines.append([link(arm), *values, interval(rises(objective, arm)), words, OUTCOMES[became.outcome]])
    return table(["arm", f"at {short}", f"at {long}", "rise (95% interval)", "predicted", "became"], lines)


def rates_table() -> Markdown:
    """The rate of each arm, the factor on that of its own parameters, and how many were tried."""
    lines = []
    for arm in WHERE:
        cells = []
        for objective in OBJECTIVES:
            found = report()["objectives"][objective]["rates"]["arms"][arm]
            own = f"{found['choice']['own']:g}" if any(trial["own"] != 1 for trial in found["trials"]) else "–"
            edge = ", at the edge" if found["at_edge"] else ""
            cells += [f"{found['choice']['lr']:g}", own + edge, f"{len(found['trials'])}"]
        lines.append([link(arm), *cells])
    head = [f"{objective}: {what}" for objective in OBJECTIVES for what in ("rate", "times for its own", "tried")]
    return table(["arm", *head], lines)


def rows_figure():
    """The root mean square of each row of the table, causal beside masked."""
    plot, panels = plt.subplots(1, 2, figsize=(7.2, 2.8), layout="constrained", sharey=True)
    trained = int(lengths()[0])
    for objective, axes in zip(OBJECTIVES, panels):
        axes.plot(rows(objective), color=COLORS["blue"], linewidth=1.2)
        axes.axhline(STD, color=COLORS["gray"], linestyle=":", linewidth=1)
        axes.axvline(trained - 0.5, color=COLORS["purple"], linestyle="-.", linewidth=1)
        axes.annotate("never trained →", (trained + 4, 0.35), color=COLORS["purple"], fontsize="small")
        axes.annotate("at the start", (int(lengths()[1]), 0.025), color=COLORS["gray"], fontsize="small", ha="right")
        axes.set(title=objective, xlabel="position of the row", yscale="log")
    panels[0].set_ylabel("root mean square of a row")
    return plot
