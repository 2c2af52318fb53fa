r"""Compare and choose: the tables of properties, costs and results, and the numbers that the guide to choosing says.

Functions ending in `_table` return Markdown, those ending in `_numbers` {name: text} for the prose. These also assert
what the prose around the numbers tells, so that a build fails whose results contradict it.
"""

import copy
import functools
import importlib.resources
import inspect
import platform
import statistics
import textwrap

import torch
from IPython.display import Markdown

from posenc.encoding import PLACES
from posenc.errors import UnsupportedError
from posenc.lab.experiments import SWEEPS, half_width, in_longer, load_results, mean_and_spread, verdict
from posenc.lab.experiments.plots import name_lines
from posenc.lab.experiments.verdicts import LEAST
from posenc.lab.pages import repository, say_all, seeded, stirred
from posenc.lab.titles import TITLES, link
from posenc.lab.train import Settings, build, encoding_maker, settings_for
from posenc.lab.train.curve import blank_figure
from posenc.lab.train.measure import held_out_windows, some_windows
from posenc.lab.train.tasks import IGNORE, TASKS, load_corpus, mask_characters
from posenc.lab.train.tiny import Decoder, Encoder
from posenc.lab.write import cell, interval, listed, table, typeset
from posenc.methods import METHODS, on_text

LENGTH, VOCABULARY, SHIFT = 24, 50, 100  # tokens, kinds of token, and how far all positions move
SWAPPED = (3, 11)  # the two tokens of the past that change places
NOTHING = 1e-9  # a change below this is rounding
SHORT, LONG = 256, 1024  # tokens, where memory is measured
LEARNED = 0.1  # more wrong answers than this within training's own setting: the puzzle was not learned
TEXT = "train_short_test_long"
CLAIMS = {"rises": "rise", "holds": "no rise", "falls": "fall", "stays": "no fall"}
#: place -> arithmetic and memory that a method there adds
ADDED = {
    "embed": ("$TC$, once for the model", "the table, $TC$ numbers, made anew in each call"),
    "rotate": (
        "about $6 TC$ a layer: four products and two sums for each pair of lanes of $q$ and $k$; in larger blocks more",
        "turned copies of $q$ and $k$, and a matrix for each larger block",
    ),
    "bias": (
        "about $HT^2$ a layer, one sum a pair, and what makes the bias",
        "the bias, $HT^2$ numbers, and where it is learned the weights beside it",
    ),
    "weigh": (
        "several times $HT^2$ a layer, in place of the softmax's own few times $HT^2$",
        "the steps from score to weight, $HT^2$ numbers each",
    ),
    "none: its own": (
        "about $7 T^2 C$ a layer: one more reflection of each query for each key",
        "the queries as they are at each key, several times $T^2 C$ numbers",
    ),
}


def numbers():
    """Give the prose every number of the page; an assertion fails where the results contradict it."""
    check_properties()
    check_verdicts()
    for section in (
        cost_numbers,
        study_numbers,
        short_numbers,
        near_numbers,
        counting_numbers,
        puzzle_numbers,
        masked_numbers,
    ):
        say_all("compare", section())
    say_all("compare", nope_numbers() | corpus_numbers())


# --- results and cells -----------------------------------------------------------------------------------------------


@functools.cache
def results() -> dict:
    """The frozen results of every experiment that compares methods."""
    return {name: load_results(name) for name in SWEEPS if not name.startswith("ablation")}


def absent(name: str, causal=True) -> str:
    """A dash, and why a method has no number there; causal: whether the experiment has a causal mask."""
    return "– (not in this run)" if causal or defined_both_ways(name) else "– (needs a causal mask)"


def defined_both_ways(name: str) -> bool:
    """Whether a method is defined without a causal mask, as it comes or with an option."""
    return not METHODS[name].causal_only or bool(METHODS[name].both_ways)


def judged(experiment: str, name: str) -> str:
    """The prediction and what became of it, in words."""
    result = results()[experiment]
    if name not in result["claims"]:
        return "no prediction"
    return f"{CLAIMS[result['claims'][name]]}: {verdict(result, name).outcome}"


def losses(name: str, kind: str, place: int) -> list:
    """A method's loss on text, a number a seed: `kind` is whole or cut, `place` an index of the lengths."""
    return [row[place] for row in results()[TEXT]["methods"][name][kind]]


def text_losses(kind: str, place: int) -> dict:
    """{method: its losses on text}."""
    return {name: losses(name, kind, place) for name in results()[TEXT]["methods"]}


def less(a, b) -> list:
    """a - b, seed by seed: seeds are paired, since equal seeds read equal batches. Arms that were added later and draw
    parameters of their own started from other weights than the rest."""
    return [x - y for x, y in zip(a, b)]


# --- what each method is ---------------------------------------------------------------------------------------------


def random_model(name: str, kind=Decoder, causal=True):
    """A random model of one layer around a method, in float64; causal=False takes what it is without a mask."""
    small = settings_for("study")
    model = seeded(lambda: kind(VOCABULARY, small.dim, 1, small.num_heads, encoding_maker(name, small, causal)))
    return stirred(model).double().eval()


def positions(name: str):
    """Positions [T], or [T, n] on a grid for a method with n axes."""
    index, axes = torch.arange(LENGTH), METHODS[name].axes
    return index if axes is None else torch.stack([index // 5**axis % 5 for axis in range(axes)], dim=-1)


@torch.no_grad()
def change(a, b) -> float:
    """The largest difference, in standard deviations of b."""
    return ((a - b).abs().max() / b.std()).item()


@functools.cache
@torch.no_grad()
def properties(name: str) -> dict:
    """What is measured of a method: {"shift", "shuffle", "swap": changes, "both ways": words}."""
    tokens, order = seeded(lambda: (torch.randint(VOCABULARY, (2, LENGTH)), torch.randperm(LENGTH)))
    swapped = torch.arange(LENGTH)
    swapped[list(SWAPPED)] = swapped[list(SWAPPED[::-1])]
    decoder, at = random_model(name), positions(name)
    plain = decoder(tokens, positions=at)
    return {
        "shift": change(decoder(tokens, positions=at + SHIFT), plain),
        "shuffle": change(decoder(tokens, positions=at[order]), plain),
        "swap": change(decoder(tokens[:, swapped], positions=at)[:, -1], plain[:, -1]),
        "both ways": without_mask(name, tokens, order),
    }


def without_mask(name: str, tokens, order) -> str:
    """Which options define a method without a causal mask, and what it then tells of the order; or "refused"."""
    method, at = METHODS[name], positions(name)
    try:
        random_model(name, Encoder)(tokens, positions=at)
        way = "as it is"
    except UnsupportedError:
        if not method.both_ways:
            return "refused"
        way = ", ".join(f"`{option}={value!r}`" for option, value in method.both_ways.items())
    encoder = random_model(name, Encoder, causal=False)
    plain, backwards = encoder(tokens, positions=at), torch.arange(LENGTH).flip(0)
    if change(encoder(tokens[:, order], positions=at), plain[:, order]) < NOTHING:
        return f"{way}: sees a bag"
    if change(encoder(tokens[:, backwards], positions=at), plain[:, backwards]) < NOTHING:
        return f"{way}: can't tell left from right"
    return f"{way}: tells order"


def kind_of(name: str) -> str:
    """What the changes say that a method is."""
    changes = properties(name)
    if changes["shuffle"] < NOTHING:
        return "reads no position"
    return "relative" if changes["shift"] < NOTHING else "absolute"


def size(value: float) -> str:
    """A change as its cell prints it: rounding by its power of ten."""
    return "0" if value == 0 else f"{value:.0e}" if value < 1e-3 else f"{value:.2f}"


def properties_table() -> Markdown:
    """What each method is, by what changes at the output of a random layer."""
    rows = []
    for name, method in METHODS.items():
        changes = properties(name)
        entered = ", ".join(f"`{place}`" for place in method.places) or ("its own" if own_attention(name) else "none")
        past = "no" if changes["swap"] < NOTHING else "yes"
        cells = [kind_of(name), size(changes["shift"]), size(changes["shuffle"]), past, changes["both ways"]]
        rows.append([link(name), entered, *cells])
    head = ["method", "places", "so it is", f"all positions + {SHIFT}", "positions shuffled"]
    return table([*head, "one causal layer tells past order", "without a mask"], rows)


def check_properties():
    """Assert what the page tells below its first table."""
    bags, by_order = {"nope", "sink"}, {"stickbreaking", "cope", "fox", "path"}
    assert {name for name in METHODS if properties(name)["swap"] < NOTHING} == bags
    assert {name for name in METHODS if kind_of(name) == "reads no position"} == bags | by_order
    distances = (
        "rope",
        "alibi",
        "shaw",
        "transformer_xl",
        "t5",
        "kerple",
        "rse",
        "inkling",
        "rope2d",
        "mrope",
        "comrope",
    )
    assert {kind_of(name) for name in distances} == {"relative"}
    # FIRE beyond its threshold; ExpoSB by its gain and its band; LieRE because its generators do not commute
    assert {kind_of(name) for name in ("sinusoidal", "learned", "fire", "exposb", "liere")} == {"absolute"}
    assert all(properties(name)["both ways"].endswith("bag") for name in bags)
    assert properties("alibi")["both ways"].endswith("right")


# --- what it costs ---------------------------------------------------------------------------------------------------


def places_table() -> Markdown:
    """Arithmetic and memory on paper, by place."""
    rows = []
    for place, added in ADDED.items():
        by_place = place in PLACES
        names = [name for name, row in METHODS.items() if (place in row.places if by_place else own_attention(name))]
        words = f"`{place}`" if by_place else place
        rows.append([words, *added, ", ".join(METHODS[name].title for name in names) or "–"])
    return table(["place", "arithmetic it adds", "memory it adds, in these references", "methods"], rows)


def own_attention(name: str) -> bool:
    """Whether a method fits none of the four places and brings an attention function, as it comes."""
    return encoding_maker(name, settings_for("study"))(0).attend is not None


@functools.cache
def parameters(name: str, preset: str) -> int:
    """The numbers that a model with this method learns."""
    return sum(p.numel() for p in build(name, settings_for(preset)).parameters())


@functools.cache
def saved_bytes(name: str, length: int) -> int:
    """Bytes that autograd saves of a model of one layer for its backward pass, weights aside; each storage once."""
    small = settings_for("study")
    options = (
        {"max_positions": length} if "max_positions" in inspect.signature(METHODS[name].factory).parameters else {}
    )
    maker = encoding_maker(name, small, options=options)
    model = seeded(lambda: Decoder(VOCABULARY, small.dim, 1, small.num_heads, maker))
    at = torch.arange(length)
    if METHODS[name].axes:
        at = torch.stack([at] * METHODS[name].axes, dim=-1)
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    storages = {}

    def pack(tensor):
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = model(torch.zeros(1, length, dtype=torch.long), positions=at)
    total = sum(nbytes for pointer, nbytes in storages.items() if pointer not in weights)
    del out  # only now, so that no storage was used twice
    return total


def costs_table() -> Markdown:
    """Learned numbers at two sizes, memory at two lengths, and speed beside plain PyTorch."""
    speed = load_results("training_speed")["ratio_to_plain"]
    rows = []
    for name in METHODS:
        learned = [f"{parameters(name, preset) - parameters('nope', preset):,}" for preset in ("study", "original")]
        memory = [f"{saved_bytes(name, length) / 2**20:.1f}" for length in (SHORT, LONG)]
        rows.append([link(name), *learned, *memory, f"{speed[name]:.2f}" if name in speed else "– (not timed)"])
    head = ["method", "learned numbers, small", "learned numbers, larger"]
    return table([*head, f"MiB kept, {SHORT} tokens", f"MiB kept, {LONG:,} tokens", "speed beside plain PyTorch"], rows)


def cost_numbers() -> dict:
    """Sizes of the two models, and who is heaviest and slowest."""
    texts = {}
    for preset in ("study", "original"):
        model = settings_for(preset)
        texts[preset] = f"{model.num_layers} layers, {model.dim} wide, {model.num_heads} heads"
        texts[f"{preset}_parameters"] = f"{parameters('nope', preset):,}"
    for name, method in METHODS.items():  # linear in the length where PyTorch's fused attention serves a method
        growth = saved_bytes(name, LONG) / saved_bytes(name, SHORT) / (LONG / SHORT)
        fused = set(method.places) <= {"embed", "rotate"} and not own_attention(name)
        assert growth < 1.2 if fused else growth > 1.5, name
    heaviest = max(METHODS, key=lambda name: saved_bytes(name, LONG))
    speed = load_results("training_speed")
    ratio, at = speed["ratio_to_plain"], speed["settings"]
    slowest = min((name for name in METHODS if name in ratio), key=ratio.get)
    return texts | {
        "heaviest": METHODS[heaviest].title,
        "heaviest_ratio": f"{saved_bytes(heaviest, LONG) / saved_bytes('nope', LONG):.0f}",
        "slowest": f"{METHODS[slowest].title} ({ratio[slowest]:.2f})",
        "speed_at": f"{at['num_layers']} layers, {at['dim']} wide, {at['num_heads']} heads, batches of {at['batch']} x "
        f"{at['length']} tokens, on a CPU",
    }


# --- what each method did --------------------------------------------------------------------------------------------


def factorial(name: str) -> dict:
    """What distance alone, keys alone and both add to the loss, each a list over seeds."""
    grids = results()[TEXT]["methods"][name]["distance_and_keys"]  # [seeds][keys][gaps]
    cells = {"distance": (0, -1), "keys": (-1, 0), "both": (-1, -1)}
    return {what: [grid[i][j] - grid[0][0] for grid in grids] for what, (i, j) in cells.items()}


def saved(name: str) -> list:
    """What cutting takes off a method's loss at the longest context, a number a seed."""
    return less(losses(name, "whole", -1), losses(name, "cut", -1))


def word_on_text(name: str) -> str:
    """The word for a method on text at the longest context, as `in_longer` gives it."""
    three = (losses(name, "whole", 0), losses(name, "whole", -1), losses(name, "cut", -1))
    return in_longer(*three, results()[TEXT]["tolerance"])


def word_on_needle(name: str) -> str:
    """The word for a method that is asked for a far needle, by its shares of wrong answers."""
    needle = results()["needle"]
    scores = needle["methods"][name]["scores"]
    return in_longer(scores["in"], scores["far"], scores["far, cut"], needle["tolerance"])


def signed(changes) -> str:
    """The mean of changes with its sign, without a minus before a zero."""
    return f"{statistics.mean(changes):+.2f}".replace("-0.00", "+0.00")


def verdict_table() -> Markdown:
    """A row for each method: its loss in training and what a longer context adds, far needles, and a word for each."""
    text, needle = results()[TEXT], results()["needle"]
    rows = []
    for name in judged_at_all():
        cells = ["–"] * 6
        if name in text["methods"]:
            start = losses(name, "whole", 0)
            rise = typeset(signed(less(losses(name, "whole", -1), start)))
            cells[:4] = [f"{statistics.mean(start):.2f}", rise, interval(saved(name)), f"*{word_on_text(name)}*"]
        if name in needle["methods"]:
            wrong = statistics.mean(needle["methods"][name]["scores"]["far"])
            cells[4:] = [f"{wrong:.0%}", f"*{word_on_needle(name)}*"]
        rows.append([link(name), *cells])
    near, far = text["lengths"][0], text["lengths"][-1]
    head = ["method", f"loss at {near}", f"to {far}", "cutting saves", "on text"]
    return table([*head, "far needles wrong", "on the needle"], rows)


def judged_at_all() -> list:
    """The methods that were run on text or on the needle."""
    return [name for name in on_text() if any(name in results()[run]["methods"] for run in (TEXT, "needle"))]


def check_verdicts():
    """Assert what the page tells beside the table of verdicts."""
    on_needle = {name: word_on_needle(name) for name in results()["needle"]["methods"]}
    assert "extrapolates" not in map(word_on_text, results()[TEXT]["methods"])
    pairs = {name: (word_on_text(name), on_needle[name]) for name in on_needle}
    assert {name for name, pair in pairs.items() if pair == ("ignores", "extrapolates")} == {"stickbreaking"}
    assert {name for name, pair in pairs.items() if pair == ("suffers", "extrapolates")} == {"shaw", "transformer_xl"}
    assert {name for name, pair in pairs.items() if pair == ("ignores", "breaks")} == {"rse"}
    assert {name for name, pair in pairs.items() if pair == ("suffers", "breaks")} == {"alibi"}
    assert {name for name, pair in pairs.items() if pair == ("breaks", "breaks")} == {"rope", "exposb"}
    open_cases = {name for name, pair in pairs.items() if "not decided" in pair}
    assert open_cases == {"kerple", "fox", "cope", "sinusoidal"} and pairs["t5"] == ("breaks", "extrapolates")
    assert statistics.mean(saved("transformer_xl")) > LEAST
    assert results()["needle"]["tolerance"] == results()[TEXT]["tolerance"]
    scores = results()["needle"]["methods"]
    wrong = {name: statistics.mean(scores[name]["scores"]["far"]) for name in ("t5", "alibi", "nope")}
    assert max(wrong["t5"], wrong["nope"]) < 0.03 and wrong["alibi"] > 0.25


def choices_table() -> Markdown:
    """The learning rate that validation chose for each method, and the factor on that of its own parameters."""
    rows = []
    for name in judged_at_all():
        cells = []
        for experiment in (TEXT, "needle"):
            choice = results()[experiment]["choice"][name]
            tried = load_results(f"rates_{experiment}")["arms"][name]["trials"]
            own = f"{choice['own']:g}" if any(trial["own"] != 1 for trial in tried) else "–"
            cells += [f"{choice['lr']:g}", own, str(len(tried))]
        rows.append([link(name), *cells])
    head = ["text: rate", "times for its own", "rates tried", "needle: rate", "times for its own", "rates tried"]
    return table(["method", *head], rows)


def counts_table() -> Markdown:
    """How many predictions about methods there were, and what became of them: a row for each experiment."""
    rows, words = [], ("came true", "failed", "not decided")
    for name, result in results().items():
        if set(result["methods"]) <= set(METHODS):
            became = [verdict(result, arm).outcome for arm in result["claims"]]
            title = (
                TASKS[result["task"]].title if name in puzzles() else {TEXT: "Text, long"}.get(name, name.capitalize())
            )
            rows.append([title, len(became), *(became.count(word) for word in words)])
    rows.append(["all", *map(sum, zip(*(row[1:] for row in rows)))])
    return table(["experiment", "predictions", *words], [list(map(str, row)) for row in rows])


def text_table() -> Markdown:
    """Loss on text as trained, at the longest context, and there with attention cut."""
    text = results()[TEXT]
    near, far = text["lengths"][0], text["lengths"][-1]
    rows = []
    for name in on_text():
        if name in text["methods"]:
            values = [losses(name, "whole", 0), losses(name, "whole", -1), losses(name, "cut", -1)]
            rows.append([link(name), *map(cell, values), judged(TEXT, name)])
        else:
            rows.append([link(name), *[absent(name)] * 4])
    head = ["method", f"loss at {near}, as trained", f"loss at {far}", f"loss at {far}, attention cut to {near}"]
    return table([*head, "predicted"], rows)


def factorial_table() -> Markdown:
    """What distances and keys add to the loss, moved one at a time."""
    rows = []
    for name in on_text():
        in_run = name in results()[TEXT]["methods"]
        rows.append([link(name), *(map(cell, factorial(name).values()) if in_run else [absent(name)] * 3)])
    return table(["method", "distance alone", "keys alone", "both"], rows)


def masked_table() -> Markdown:
    """Loss on masked characters, with attention both ways."""
    masked = results()["masked"]
    lengths = list(masked["tests"])
    rows = []
    for name in on_text():
        if name in masked["methods"]:
            scores = masked["methods"][name]["scores"]
            outcome = judged("masked", name) if name in masked["claims"] else "the one to beat"
            rows.append([link(name), *(cell(scores[length]) for length in lengths), outcome])
        else:
            rows.append([link(name), *[absent(name, causal=False)] * (len(lengths) + 1)])
    return table(["method", *(f"loss at {length}" for length in lengths), "predicted, beside NoPE"], rows)


def puzzles() -> list:
    """The experiments whose unit is a share of wrong answers."""
    return [name for name, result in results().items() if result["unit"].startswith("share")]


def ends(experiment: str, name: str) -> list:
    """The shares of wrong answers at both ends of an experiment's prediction: two lists over seeds."""
    result = results()[experiment]
    return [result["methods"][name]["scores"][column] for column in result["contrast"]]


def puzzle_cell(experiment: str, name: str) -> str:
    """Wrong answers in percent before and after, the difference, and the verdict."""
    if name not in results()[experiment]["methods"]:
        return absent(name)
    before, after = ends(experiment, name)
    a, b = (f"{100 * statistics.mean(values):.0f}" for values in (before, after))
    mean, spread = mean_and_spread(less(after, before))
    lines = [f"{a} → {b}", typeset(f"{round(100 * mean):+d} ± {100 * spread:.0f}")]
    solved = sum(value <= LEARNED for value in before)
    if solved < len(before):
        lines.append(f"learned by {solved} of {len(before)}")
    return "<br>".join([*(line.replace(" ", "\u00a0") for line in lines), judged(experiment, name)])


def puzzles_table() -> Markdown:
    """A column for each puzzle."""
    head = [f"{TASKS[results()[name]['task']].title}<br>{results()[name]['contrast'][1]}" for name in puzzles()]
    rows = [[link(name), *(puzzle_cell(puzzle, name) for puzzle in puzzles())] for name in on_text()]
    return table(["method", *head], rows)


def puzzle_notes() -> Markdown:
    """What each puzzle's test is, and what it does not show."""
    lines = []
    for name in puzzles():
        result = results()[name]
        test, limit = result["contrast"][1], result["shows_not"]
        words = result["tests"][test].rstrip(".")
        lines.append(
            f"- **{TASKS[result['task']].title}**, *{test}*: {words[0].upper()}{words[1:]}. "
            f"It doesn't show: {limit[0].lower()}{limit[1:]}"
        )
    return Markdown("\n".join(lines))


def volume_table() -> Markdown:
    """How loud a sinusoid must be."""
    volume = results()["sinusoidal_volume"]
    rows = []
    for arm, values in volume["methods"].items():
        outcome = judged("sinusoidal_volume", arm) if arm in volume["claims"] else "the one to beat"
        rows.append([f"{float(arm):g}", *(cell([row[i] for row in values["whole"]]) for i in (0, -1)), outcome])
    lengths = volume["lengths"]
    return table(["volume", f"loss at {lengths[0]}", f"loss at {lengths[-1]}", "predicted, beside volume 0"], rows)


def at_edge(name: str) -> bool:
    """Whether a choice of learning rates, for text or for the puzzles, lies at the end of what was tried."""
    return any(load_results(f"rates_{chosen}")["at_edge"].get(name) for chosen in (TEXT, "needle"))


def study_numbers() -> dict:
    """How long, how much, and over how many seeds the models of the study were trained."""
    text, settings = results()[TEXT], results()[TEXT]["settings"]
    fewest, *_, most = sorted(results()[name]["settings"]["steps"] for name in puzzles())
    (layers,) = {results()[name]["settings"]["num_layers"] for name in puzzles()}
    seeds = min(len(arm.get("seeds", r["seeds"])) for r in results().values() for arm in r["methods"].values())
    held_out, asked = load_corpus().held_out, Settings(**settings)
    masked = mask_characters(torch.Generator().manual_seed(0), held_out_windows(held_out, asked)[:, :-1]).targets
    middle = (masked.shape[1] - asked.targets) // 2
    return {
        "trained": f"{text['lengths'][0]}",
        "tested": f"{text['lengths'][-1]}",
        "tolerance": f"{text['tolerance']:g}",
        "budget": f"{settings['steps'] * settings['batch'] * settings['length'] / 1e6:.1f} million",
        "steps": f"{settings['steps']:,}",
        "corpus": f"{text['corpus']['characters'] / 1e6:.1f} million",
        "puzzle_steps": f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}",
        "puzzle_layers": f"{layers}",
        "fewest_seeds": f"{seeds}",
        "rate_seeds": f"{len(load_results(f'rates_{TEXT}')['seeds'])}",
        "rate_ties": f"{len(load_results('rates_needle')['ties'])}",
        "edge": listed(METHODS[name].title for name in text["methods"] if at_edge(name)),
        "unrun": listed(METHODS[name].title for name in on_text() if name not in text["methods"]),
        "targets": f"{asked.windows * asked.targets:,}",
        "targets_masked": f"{int((masked[:, middle : middle + asked.targets] != IGNORE).sum()):,}",
        "targets_few": f"{len(some_windows(asked)) * asked.targets:,}",
    }


# --- the guide to choosing -------------------------------------------------------------------------------------------


def level(values: dict) -> tuple[list, list]:
    """(the lowest with those that these seeds can't tell from it, all by mean), lowest first.

    Arguments: values: {method: [a number a seed]}. Not told from the lowest is what it ties with: the 95% interval of
    the difference, seed by seed, contains zero.
    """
    ranked = sorted(values, key=lambda name: statistics.mean(values[name]))
    gaps = {name: less(values[name], values[ranked[0]]) for name in ranked}
    return [name for name in ranked if statistics.mean(gaps[name]) <= half_width(gaps[name])], ranked


def with_score(name: str, values, percent: bool) -> str:
    """A method's title with its mean and spread, as a sentence gives them."""
    mean, spread = mean_and_spread(values)
    return (
        f"{METHODS[name].title} ({100 * mean:.0f} ± {100 * spread:.0f}%)"
        if percent
        else f"{METHODS[name].title} ({mean:.2f} ± {spread:.2f})"
    )


def ranking(values: dict, percent=True) -> tuple[list, str]:
    """Who is lowest or not told from it, and a sentence that says so and names the last."""
    top, ranked = level(values)
    words = f"lowest is {with_score(top[0], values[top[0]], percent)}"
    if len(top) > 1:
        rest = listed(with_score(name, values[name], percent) for name in top[1:])
        words += f", not told from it by these seeds {rest}"
    if len(top) < len(ranked):
        words += f"; highest in the mean is {with_score(ranked[-1], values[ranked[-1]], percent)}"
    return top, words


def puzzle_ranking(experiment: str, column: str | None = None) -> tuple[list, str]:
    """Who is best outside of training among those that learned the puzzle; a sentence also names who did not."""
    result = results()[experiment]
    inside, outside = result["contrast"]
    scores = {name: values["scores"] for name, values in result["methods"].items()}
    able = {
        name: score[column or outside] for name, score in scores.items() if statistics.mean(score[inside]) <= LEARNED
    }
    if not able:
        return [], "no method learned it at these rates, so what it does outside of training tells nothing"
    top, words = ranking(able)
    unable = [METHODS[name].title for name in scores if name not in able]
    return top, words + (f"; left out, since not learned at these rates: {listed(unable)}" if unable else "")


def gains() -> dict:
    """{method: (mean, spread)} of what it saves against NoPE at the training length."""
    start = text_losses("whole", 0)
    return {name: mean_and_spread(less(start["nope"], start[name])) for name in start if name != "nope"}


def rises() -> dict:
    """{method: (mean, spread)} of what its loss gains from the training length to the longest."""
    return {
        name: mean_and_spread(less(losses(name, "whole", -1), losses(name, "whole", 0)))
        for name in text_losses("whole", 0)
    }


def decision() -> Markdown:
    """The report's chart of when to use which method, its three questions first, as nested lists.

    Each branch starts with its arrow, a link to the evidence, and ends with what these results say beside the report.
    """
    tolerance, rise = results()[TEXT]["tolerance"], {name: mean for name, (mean, _) in rises().items()}
    start = {name: statistics.mean(values) for name, values in text_losses("whole", 0).items()}
    far = {name: statistics.mean(ends("needle", name)[1]) for name in results()["needle"]["methods"]}
    both = results()["masked"]["methods"]
    hidden = {name: statistics.mean(next(iter(values["scores"].values()))) for name, values in both.items()}
    finders = [name for name in sorted(far, key=far.get) if word_on_needle(name) == "extrapolates"]
    finders = [name for name in finders if word_on_text(name) in ("ignores", "suffers")]
    # what the branches say: who stays within the tolerance and who does not, and who is ahead
    assert all(rise[name] <= tolerance for name in ("fox", "stickbreaking", "alibi", "rse", *finders))
    assert all(rise[name] > 10 * tolerance for name in ("exposb", "rope"))
    assert all(far[name] <= tolerance for name in finders) and far["rope"] > 10 * tolerance
    assert max(start["shaw"], start["t5"], start["rope"]) < min(start["sinusoidal"], start["learned"])
    seekers, counters = ("stickbreaking", "transformer_xl"), ("stickbreaking", "fox")
    assert set(seekers) <= set(puzzle_ranking("recall")[0]) and set(counters) <= set(puzzle_ranking("counting")[0])
    learning = {name: parameters(name, "study") > parameters("nope", "study") for name in start}
    first = sorted(start, key=start.get)
    learned_ones = tuple(name for name in first if learning[name])[:3]
    assert [name for name in first if not learning[name]][:2] == ["stickbreaking", "rope"]
    sided = level({name: next(iter(values["scores"].values())) for name, values in both.items()})[0]
    assert not {"nope", "alibi"} & set(sided)  # "tell sides"

    def take(names, value="", report="", lost="") -> str:
        """The leaf: what did well here, of the kind that the branch asks for, and what the report says instead."""
        here = f"**{listed(link(name) for name in names)}**" + (f", {typeset(value)}" if value else "")
        return here + (f"<br>the report: {link(report)}, {typeset(lost)}" if report else "")

    grown = {name: f"{value:+.2f} nats" if abs(value) >= 0.005 else "0.00 nats" for name, value in rise.items()}
    calm = f"{grown['stickbreaking']} each, at a loss of {start['stickbreaking']:.2f} and {start['fox']:.2f}"
    assert grown["fox"] == grown["stickbreaking"] == grown["rse"]
    most = f"{max(far[name] for name in finders):.0%} wrong at most, and none breaks on text"
    flexible = "loss " + listed(f"{start[name]:.2f}" for name in learned_ones)
    simple = f"loss {start['stickbreaking']:.2f} and {start['rope']:.2f}; only RoPE keeps the softmax"
    adapts = take(("stickbreaking", "fox"), calm, "rse", f"{grown['rse']} too, at {start['rse']:.2f}")
    fixed = take(("alibi",), grown["alibi"], "exposb", grown["exposb"])
    found = take(finders, most, "rope", f"{far['rope']:.0%} wrong")
    flexible = take(learned_ones, flexible, "learned", f"{start['learned']:.2f}")
    simple = take(("stickbreaking", "rope"), simple, "sinusoidal", f"{start['sinusoidal']:.2f}")

    def wrong_each(puzzle, *names) -> str:
        """The wrong answers of some methods outside of a puzzle's training."""
        return listed(f"{statistics.mean(ends(puzzle, name)[1]):.1%}" for name in names) + " wrong"

    assert [results()[puzzle]["contrast"][1] for puzzle in ("recall", "counting")] == ["more 2x", "longer 4x"]
    looked_up = take(seekers, wrong_each("recall", *seekers) + " at twice the pairs of training")
    counted = take(counters, wrong_each("counting", *counters) + " in rows four times as long")
    sides = "telling sides: loss on hidden characters " + listed(f"{hidden[name]:.2f}" for name in sided)
    sides += f"; ALiBi, which does not, {hidden['alibi']:.2f}"
    branches = [
        (0, "", "", "Is the context ever longer than in training?"),
        (1, "yes", "#longer-than-in-training-and-what-counts-is-near", "Does what is near decide?"),
        (2, "yes, by a reach that adapts", "fox.md#one-verdict", adapts),
        (2, "yes, by a fixed reach", "alibi.md#one-verdict", fixed),
        (2, "no, something far", "#longer-than-in-training-and-what-counts-is-far", found),
        (1, "no", "#the-context-is-never-longer-than-in-training", "Most flexible, or simple?"),
        (2, "flexible: it learns numbers of its own", "relative.md", flexible),
        (2, "simple: it learns none", "rope.md", simple),
        (0, "", "", "Does something else decide?"),
        (1, "it looks both ways", "#it-looks-both-ways", take(sided, sides)),
        (1, "it looks things up", "#it-must-look-things-up-by-content", looked_up),
        (1, "it counts", "#it-must-count", counted),
        (1, "memory and speed", "#memory-and-speed-decide", take(("rope",), "or another at `embed` or `rotate`")),
    ]
    lines = []
    for depth, arrow, evidence, words in branches:
        way = f"[{arrow}]({evidence}) " if arrow else ""
        lines.append(f"{'  ' * depth}- {way}{words if way and words.startswith('**') else f'*{words}*'}")
    return Markdown("\n".join(["````{container} decision", *lines, "````"]))


def short_numbers() -> dict:
    """The context is never longer than in training."""
    tolerance, saved = results()[TEXT]["tolerance"], gains()
    behind = [name for name, (gain, spread) in saved.items() if gain - spread <= tolerance]
    assert behind == ["sink"]
    return {
        "short": ranking(text_losses("whole", 0), percent=False)[1],
        "least_gain": f"{min(gain for name, (gain, _) in saved.items() if name not in behind):.2f}",
        "most_gain": f"{max(gain for gain, _ in saved.values()):.2f}",
    }


def near_numbers() -> dict:
    """Longer than in training, and what counts is near."""
    tolerance, rise = results()[TEXT]["tolerance"], rises()
    start, whole, cut = text_losses("whole", 0), text_losses("whole", -1), text_losses("cut", -1)
    holding = [name for name in rise if verdict(results()[TEXT], name, "holds").outcome == "came true"]
    rising = [name for name in rise if verdict(results()[TEXT], name, "rises").outcome == "came true"]
    assert {"rope", "sinusoidal"} <= set(rising) and "alibi" in holding
    costs = [statistics.mean(less(cut[name], whole[name])) for name in holding]
    assert max(costs) <= tolerance  # none uses what is far
    assert abs(statistics.mean(less(cut["rope"], start["rope"]))) < tolerance
    assert statistics.mean(less(cut["sinusoidal"], start["sinusoidal"])) > 4 * tolerance
    back = [name for name in rising if statistics.mean(less(cut[name], start[name])) <= tolerance]
    kept = {name: statistics.mean(less(cut[name], start[name])) / rise[name][0] for name in rising if name not in back}
    most = sorted((name for name in kept if kept[name] > 0.5), key=kept.get)
    assert len(back) == len(kept) and most == ["learned", "sinusoidal", "fire"]  # "half"; who reads places
    apart = {what: statistics.mean(values) for what, values in factorial("rope").items()}
    assert apart["distance"] > apart["keys"]
    return {
        "holds": listed("{} ({:+.3f} ± {:.3f})".format(METHODS[name].title, *rise[name]) for name in holding),
        "breaks": listed("{} ({:+.2f} ± {:.2f})".format(METHODS[name].title, *rise[name]) for name in rising),
        "cutting": f"{max(abs(cost) for cost in costs):.3f}",
        "cut": ranking(cut, percent=False)[1],
        "cut_back": listed(METHODS[name].title for name in back),
        "cut_kept": listed(
            "{} ({}, cut {})".format(METHODS[name].title, *(signed(less(x[name], start[name])) for x in (whole, cut)))
            for name in sorted(kept, key=kept.get)
        ),
        "cut_most": listed(METHODS[name].title for name in most),
        "rope_whole": cell(whole["rope"]),
        "rope_cut": cell(cut["rope"]),
        "sinusoidal_cut": cell(cut["sinusoidal"]),
        **{f"rope_{what}": f"{mean:.2f}" for what, mean in apart.items()},
    }


def counting_numbers() -> dict:
    """What the text holds there, by the rule that counts."""
    rule, first, last = load_results("counting_rule"), 0, -1
    gains = less(rule["blocks"][first], rule["blocks"][last])
    assert statistics.mean(gains) - half_width(gains) > results()[TEXT]["tolerance"]
    trained = [
        losses(name, kind, place) for name in text_losses("whole", 0) for kind in ("whole", "cut") for place in (0, -1)
    ]
    assert rule["loss"][last] < min(map(min, trained)) and rule["loss"][first] > min(map(statistics.mean, trained))
    assert rule["lengths"] == results()[TEXT]["lengths"] and rule["targets"] == results()[TEXT]["target_characters"]
    return {
        "rule_first": f"{rule['loss'][first]:.2f}",
        "rule_last": f"{rule['loss'][last]:.2f}",
        "rule_gain": f"{statistics.mean(gains):.2f} ± {half_width(gains):.2f}",
        "rule_order": f"{rule['rule']['order']}",
        "rule_blocks": f"{len(gains)}",
        "rule_rivals": f"{len(text_losses('whole', 0))}",
        "rule_best": f"{min(map(min, trained)):.2f}",
    }


def counting_figure():
    """The loss of the rule that counts as the context grows, among those of all trained models."""
    rule, lengths, named = load_results("counting_rule"), results()[TEXT]["lengths"], ("stickbreaking",)
    figure, axes = blank_figure(4.4, 3.2)
    for name in text_losses("whole", 0):
        line = [statistics.mean(losses(name, "whole", place)) for place in range(len(lengths))]
        look = {"color": TITLES[name].color, "label": METHODS[name].title} if name in named else {"color": "0.8"}
        axes.plot(lengths, line, marker=TITLES[name].marker, markersize=4, **look)
    axes.plot(lengths, rule["loss"], "k-o", linewidth=2.5, label="the rule that counts")
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, [str(n) for n in lengths])
    axes.set(xlabel="context, characters", ylabel="loss, nats per character", ylim=(1.3, 1.9))
    name_lines(axes)
    return figure


def puzzle_numbers() -> dict:
    """What counts is far, is looked up, is to be picked out, or is to be counted."""
    needle = results()["needle"]["methods"]
    start = text_losses("whole", 0)
    top_far, far = puzzle_ranking("needle")
    assert (
        max(start, key=lambda name: statistics.mean(start[name])) == "nope"
    )  # last on text, and level with the first here
    assert {"nope", "t5"} <= set(top_far)
    top_bit, flipflop = puzzle_ranking("flipflop")
    assert {"sinusoidal", "rope", "alibi", "stickbreaking"} <= set(top_bit) and "highest" not in flipflop  # all tie
    assert statistics.mean(ends("selective_copy", "stickbreaking")[0]) > LEARNED
    top_count, counting = puzzle_ranking("counting")
    assert {"fox", "stickbreaking", "transformer_xl"} <= set(top_count)
    copied = {name: arm["scores"] for name, arm in results()["selective_copy"]["methods"].items()}
    able = {
        name: statistics.mean(score["sparser"])
        for name, score in copied.items()
        if statistics.mean(score["in"]) <= LEARNED
    }
    least = sorted(able, key=able.get)
    assert set(least[:2]) == {"cope", "shaw"} and able[least[1]] < LEARNED < able[least[2]] / 2
    best_cut = min(statistics.mean(values["scores"]["far, cut"]) for values in needle.values())
    assert all(set(results()[puzzle]["methods"]) == set(needle) for puzzle in puzzles())
    return {
        "learned": f"{LEARNED:.0%}",
        "needle": far,
        "needle_near": puzzle_ranking("needle", "near")[1],
        "needle_cut": f"{100 * best_cut:.0f}%",
        "recall": puzzle_ranking("recall")[1],
        "flipflop": flipflop,
        "selective_copy": puzzle_ranking("selective_copy")[1],
        "counting": counting,
        "copy_able": f"{len(able)}",
        "copy_run": f"{len(copied)}",
        "copy_best": f"{able[least[1]]:.0%}",
        "copy_next": f"{able[least[2]]:.0%}",
        "least": f"{LEAST:g}",
        **pick_numbers(),
    }


def pick_numbers() -> dict:
    """The evidence for the two methods that a question's answer chooses."""
    start, picks = text_losses("whole", 0), {"stick": "stickbreaking", "xl": "transformer_xl"}
    assert all("breaks" not in (word_on_text(name), word_on_needle(name)) for name in picks.values())
    gaps = less(start[picks["xl"]], start[picks["stick"]])
    assert 0 < min(gaps) and statistics.mean(gaps) <= results()[TEXT]["tolerance"]  # "with every seed, by less than"
    texts = {}
    for short, name in picks.items():
        texts |= {
            f"pick_{short}_start": f"{statistics.mean(start[name]):.2f}",
            f"pick_{short}_rise": signed(less(losses(name, "whole", -1), start[name])),
            f"pick_{short}_far": f"{statistics.mean(ends('needle', name)[1]):.0%}",
        }
    return texts


def masked_numbers() -> dict:
    """It looks both ways."""
    masked = results()["masked"]
    length, tolerance = next(iter(masked["tests"])), masked["tolerance"]
    hidden = {name: values["scores"][length] for name, values in masked["methods"].items()}
    order = ["t5", "transformer_xl", "shaw", "rope", "alibi", "sinusoidal", "nope", "stickbreaking"]
    for better, worse in zip(order, order[1:]):
        assert level({name: hidden[name] for name in (better, worse)})[0] == [better], (better, worse)
    gap, spread = mean_and_spread(less(hidden["alibi"], hidden["rope"]))
    assert gap - spread > tolerance
    refused = [method.title for name, method in METHODS.items() if properties(name)["both ways"] == "refused"]
    return {
        "masked": ranking(hidden, percent=False)[1],
        "refused": listed(refused),
        **{f"masked_{name}": cell(hidden[name]) for name in ("alibi", "sinusoidal", "stickbreaking", "nope")},
    }


def nope_numbers() -> dict:
    """You want no code for position at all."""
    rise, apart = rises()["nope"], factorial("nope")
    assert statistics.mean(apart["distance"]) == 0  # it reads no position
    saved = {
        name: statistics.mean(less(losses(name, "whole", -1), losses(name, "cut", -1))) for name in ("nope", "alibi")
    }
    assert 0.2 < saved["nope"] / rise[0] < 0.8  # only a part
    assert saved["alibi"] > 0  # hurt a little by what is far
    return {
        "nope_gain": f"{max(gain for gain, _ in gains().values()):.2f}",
        "nope_rise": "{:+.2f} ± {:.2f}".format(*rise),
        "nope_keys": f"{statistics.mean(apart['keys']):.2f}",
    }


# --- the raw data ----------------------------------------------------------------------------------------------------


@functools.cache
def files() -> dict:
    """{name: size in bytes} of every frozen result."""
    folder = importlib.resources.files("posenc.results")
    sizes = {item.name: len(item.read_bytes()) for item in folder.iterdir() if item.name.endswith(".json")}
    return {name.removesuffix(".json"): sizes[name] for name in sorted(sizes)}


@functools.cache
def everything() -> dict:
    """Every frozen result, those that compare no methods too."""
    return {name: load_results(name) for name in files()}


def files_table() -> Markdown:
    """The files to download."""
    rows = []
    for name, size_in_bytes in files().items():
        result = everything()[name]
        about = result.get("question") or " ".join(result["definition"].split(". ")[0].split()).strip(".") + "."
        rows.append([f"{{download}}`{name}.json <../results/{name}.json>`", about, f"{size_in_bytes / 1000:.0f} kB"])
    return table(["file", "what it asks", "size"], rows)


def runs_table() -> Markdown:
    """The command, seeds and commit that made each file."""
    rows = []
    for name, result in everything().items():
        seeds = result.get("seeds")
        arms = result.get("methods", {}).values() if seeds else ()
        counts = sorted({len(arm.get("seeds", seeds)) for arm in arms}) or ([len(seeds)] if seeds else ["–"])
        command = result["command"].replace("|", "\\|")
        rows.append([name, f"`{command}`", " or ".join(map(str, counts)), f"`{result['commit'][:10]}`"])
    return table(["result", "command", "seeds", "commit"], rows)


def print_settings():
    """Print settings, versions and machines in use, once for all results that share them."""
    for words in (settings_words, machine_words):
        groups = {}
        for name, result in everything().items():
            groups.setdefault(words(result), []).append(name)
        for about, names in groups.items():
            print(textwrap.fill(", ".join(names) + ":", 76))
            print(textwrap.fill(about, 76, initial_indent="    ", subsequent_indent="    ") + "\n")


def settings_words(result: dict) -> str:
    """A result's settings in one line."""
    return ", ".join(f"{key} {value}" for key, value in result["settings"].items())


def machine_words(result: dict) -> str:
    """The versions and the machine that made a result."""
    return f"{result['versions']}; {result['machine']}"


def corpus_numbers() -> dict:
    """Which text the results were made on, and whether this Python reads the same."""
    (digest,) = {result["corpus"]["sha256"] for result in everything().values() if "corpus" in result}  # one for all
    same = load_corpus().sha256 == digest
    version = platform.python_version()
    here = "reads the same" if same else f"is {version}, whose texts differ, so a rerun on it would too"
    return {"hash": digest[:16], "corpus_here": f"The Python that built this page {here}."}


def check_disagreements(disagreements, frozen: dict):
    """Assert that the page's `disagreements` names a method whose scores have moved, and none besides."""
    other, column = copy.deepcopy(frozen), frozen["contrast"][1]
    other["methods"]["rope"]["scores"][column] = [x + 0.5 for x in frozen["methods"]["rope"]["scores"][column]]
    assert disagreements(frozen, frozen) == []
    assert [line[:5] for line in disagreements(other, frozen)] == ["rope:"]


def tell_us() -> Markdown:
    """Where to send a result that contradicts the page."""
    return Markdown(
        f"**Tell us.** Open an issue at [github.com/{repository()}](https://github.com/{repository()}/issues) with "
        "your JSON file, the lines of `disagreements`, and what you would have expected. If you are right, the file is "
        "made anew, every page is built from it, and sentences that it contradicts stop the build until they are "
        "rewritten."
    )
