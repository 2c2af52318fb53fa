"""The tasks: each is solved again in plain loops from what a model may read, and its proportions are counted."""

import dataclasses
import math
import runpy

import pytest
import torch

from posenc.lab.train import tasks
from posenc.lab.train.tasks import IGNORE, KEYS, TASKS, Task, load_corpus

LENGTH = 64
MADE_UP = [name for name in TASKS if name not in ("text", "masked")]
SETTINGS = [(name, test) for name in MADE_UP for test in TASKS[name].tests(LENGTH)]


def batch(name, size=32, length=LENGTH, seed=0, **options):
    return TASKS[name].batch(torch.Generator().manual_seed(seed), size, **{"length": length, **options})


def in_words(name, tokens):
    return [TASKS[name].vocabulary[token] for token in tokens]


# ---------------------------------------------------------------------------------------------------------- solvers
# Each reads a prefix, as words, and says the next one, or None where it may be anything.


def solve_copy(read):
    if "|" not in read or "_" in read:
        return None
    string, written = read[1 : read.index("|")], read[read.index("|") + 1 :]
    return string[len(written)] if len(written) < len(string) else None


def solve_recall(read):
    last, before = read[-1], read[:-1]
    return before[before.index(last) + 1] if last.startswith("K") and last in before else None


def solve_flipflop(read):
    if len(read) % 2 == 0 or read[-1] != "r":
        return None
    bit = None
    for does, value in zip(read[:-1:2], read[1::2]):
        if does == "w":
            bit = value
    return bit


def solve_selective_copy(read):
    if "|" not in read or "_" in read:
        return None
    letters = [word for word in read[: read.index("|")] if word != "."]
    written = len(read) - read.index("|") - 1
    return letters[written] if written < len(letters) else None


def solve_counting(read):
    count, i = 0, 0
    while i < len(read):
        if read[i] == "?":
            if i == len(read) - 1:
                return str(count)
            i += 1  # the answer
        elif read[i] == "0":
            count = 0
        elif read[i] == "+":
            count += 1
            assert count <= 9
        else:
            assert read[i] == "."
        i += 1
    return None


def solve_needle(read):
    if not read[-1].startswith("?"):
        return None
    (needle,) = [word for word in read if len(word) == 2 and word[0] == read[-1][1]]
    return needle[1]


SOLVERS = {name: globals()[f"solve_{name}"] for name in MADE_UP}


@pytest.mark.parametrize("name, test", SETTINGS)
def test_solver_gives_every_target(name, test):
    """The targets follow from what was read before, are scored wherever they do, and stand next in the sequence."""
    tokens, targets = batch(name, size=8, **TASKS[name].tests(LENGTH)[test])
    assert (targets != IGNORE).any(dim=1).float().mean() > 0.75
    for row, wanted in zip(tokens.tolist(), targets.tolist()):
        words = in_words(name, row)
        for i, target in enumerate(wanted):
            answer = SOLVERS[name](words[: i + 1])
            assert answer == (None if target == IGNORE else TASKS[name].vocabulary[target]), (words[: i + 1], i)
            if target != IGNORE and i + 1 < len(row):
                assert row[i + 1] == target


@pytest.mark.parametrize("name", TASKS)
def test_batches(name):
    """Shapes, types, ranges; the same seed gives the same batch at every setting, another seed another one."""
    task = TASKS[name]
    tests = task.tests(LENGTH)
    assert next(iter(tests)) == "in" and set(tests) == set(task.words) and len(tests) > 1
    assert all(words.endswith(".") for words in task.words.values())
    for options in tests.values():
        length = options.get("length", LENGTH)
        first, other = (batch(name, 3, seed=seed, **options) for seed in (1, 2))
        torch.rand(1)  # the global generator must not matter
        same = batch(name, 3, seed=1, **options)
        assert first.tokens.shape == first.targets.shape == (3, length)
        assert first.tokens.dtype == first.targets.dtype == torch.int64
        for part in (first.tokens, first.targets[first.targets != IGNORE]):
            assert 0 <= part.min() and part.max() < len(task.vocabulary)
        assert torch.equal(first.tokens, same.tokens) and torch.equal(first.targets, same.targets)
        assert not torch.equal(first.tokens, other.tokens)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("length", [32, 33, 96, 256])
def test_other_lengths(name, length):
    for options in TASKS[name].tests(length).values():
        tokens, targets = batch(name, 2, **{"length": length, **options})
        assert tokens.shape == (2, options.get("length", length)) and (targets != IGNORE).any()


@pytest.mark.parametrize("name", TASKS)
def test_vocabulary(name):
    """Every token is a readable string of its own, and training says each of them."""
    vocabulary = TASKS[name].vocabulary
    assert isinstance(vocabulary, tuple) and len(set(vocabulary)) == len(vocabulary)
    assert all(word.isprintable() and word for word in vocabulary)
    if name in MADE_UP:
        assert set(batch(name, 512, **TASKS[name].tests(LENGTH)["in"]).tokens.unique().tolist()) == set(
            range(len(vocabulary))
        )


def test_import_loads_no_corpus():
    fresh = runpy.run_path(tasks.__file__)
    fresh["TASKS"]["copy"].example()
    assert fresh["load_corpus"].cache_info().currsize == 0


# ------------------------------------------------------------------------------------------------------- proportions


def share(hits, of, expected):
    """The share lies within four standard deviations of what is expected."""
    count, found = int(of.sum()), float((hits & of).sum() / of.sum())
    assert count > 500
    assert abs(found - expected) < 4 * math.sqrt(expected * (1 - expected) / count) + 1e-9, (found, expected, count)


def test_text_draws_as_ever():
    """The draws that the frozen results were trained on: starts from one randint, targets one character on."""
    train = load_corpus().train
    starts = torch.randint(len(train) - 64, (16, 1), generator=torch.Generator().manual_seed(5))
    chunk = train[starts + torch.arange(65)]
    tokens, targets = batch("text", 16, seed=5)
    assert torch.equal(tokens, chunk[:, :-1]) and torch.equal(targets, chunk[:, 1:])


@pytest.mark.parametrize("name", ["text", "masked"])
def test_text_option(name):
    """Windows come from the text given: here one in which each character tells its place."""
    text = torch.arange(90)
    tokens, targets = batch(name, 64, 32, text=text)
    if name == "text":
        assert torch.equal(targets, tokens + 1)
    else:
        kept = targets == IGNORE
        assert ((tokens - torch.arange(32))[kept].view(-1) < 90 - 32).all()
    held = load_corpus().held_out
    assert torch.equal(TASKS[name].tests(64)["held out"]["text"], held)


def test_masked_is_berts_rule():
    tokens, targets = batch("masked", 512)
    original = torch.where(targets == IGNORE, tokens, targets)
    letters, chosen = len(load_corpus().vocabulary), targets != IGNORE
    assert (chosen.sum(1) == round(0.15 * LENGTH)).all()
    assert (original < letters).all()  # the target is never [MASK]
    share(tokens == letters, chosen, 0.8)
    share((tokens == original), chosen, 0.1 + 0.1 / letters)
    share((tokens != original) & (tokens != letters), chosen, 0.1 * (1 - 1 / letters))
    assert chosen.float().mean(0).min() > 0.05  # at every place


def test_copy_lengths():
    for test, (low, high) in {"in": (1, 31), "longer 2x": (32, 63), "longer 4x": (64, 127)}.items():
        _, targets = batch("copy", 512, **TASKS["copy"].tests(LENGTH)[test])
        n = (targets != IGNORE).sum(1)
        assert n.min() >= low and n.max() <= high and n.float().mean() == pytest.approx((low + high) / 2, rel=0.1)
    assert (batch("copy", symbols=7).targets != IGNORE).sum(1).eq(7).all()


def test_recall_pairs():
    """Keys never repeat among the pairs; the rest of the sequence asks, any pair as likely as another."""
    for test, options in TASKS["recall"].tests(LENGTH).items():
        tokens, targets = batch("recall", 512, **options)
        n = ((targets != IGNORE).long().argmax(1)) // 2
        if test == "in":
            assert set(n.tolist()) == set(range(2, 17))
            share(n < 4, n > 0, math.log(4 / 2) / math.log(17 / 2))  # P(n) ~ 1 / n
        else:
            assert n.eq(options["pairs"]).all() and options["pairs"] == 16 * int(test[-2])
        assert ((targets != IGNORE).sum(1) == (tokens.shape[1] + 1) // 2 - n).all()
        for row, pairs in zip(tokens[:64].tolist(), n[:64].tolist()):
            keys, asked = row[: 2 * pairs : 2], row[2 * pairs :: 2]
            assert len(set(keys)) == pairs and set(asked) <= set(keys)
    often = [batch("recall", 512).tokens.eq(16 + key).any(1).float().mean() for key in (0, 7, 63)]
    assert often[0] > 2 * often[1] > 4 * often[2] > 0
    tokens, _ = batch("recall", 2000, pairs=4)
    share(tokens[:, 0] > tokens[:, 2], torch.ones(2000, dtype=torch.bool), 1 / 2)  # rare keys stand anywhere
    for pair in range(4):
        share(tokens[:, 8] == tokens[:, 2 * pair], torch.ones(2000, dtype=torch.bool), 1 / 4)


@pytest.mark.parametrize("test, ignore", [("in", 0.8), ("sparser", 0.98), ("denser", 0.1)])
def test_flipflop_rates(test, ignore):
    tokens, _ = batch("flipflop", 512, **TASKS["flipflop"].tests(LENGTH)[test])
    does, bits = tokens[:, ::2], tokens[:, 1::2]
    assert (does[:, 0] == 2).all() and (does[:, -1] == 4).all()
    inner = torch.ones_like(does, dtype=torch.bool)
    inner[:, 0] = inner[:, -1] = False
    for code, expected in ((3, ignore), (2, (1 - ignore) / 2), (4, (1 - ignore) / 2)):
        share(does == code, inner, expected)
    share(bits == 1, does != 4, 0.5)


@pytest.mark.parametrize("test, blanks", [("in", 2.0), ("denser", 0.5), ("sparser", 6.0), ("longer 2x", 2.0)])
def test_selective_copy_density(test, blanks):
    options = TASKS["selective_copy"].tests(LENGTH)[test]
    tokens, targets = batch("selective_copy", 512, **options)
    n, field = (targets != IGNORE).sum(1), (tokens == 17).long().argmax(1)
    assert (field == n + (n * blanks).long()).all()
    low, high = options.get("symbols", (1, 16))
    assert n.min() == low and n.max() == high
    first = torch.where(n == high)[0]  # a letter is as likely at the start of the field as anywhere
    inside = torch.arange(tokens.shape[1]) < field[first, None]
    assert (tokens[first] < 16)[inside].float().mean() == pytest.approx(1 / (1 + blanks), rel=0.02)


@pytest.mark.parametrize("test, passes", [("in", 0.6), ("sparser", 0.9), ("denser", 0.2)])
def test_counting_rates(test, passes):
    """Passes are as many as asked for, and the additions beyond nine that became passes; every count is asked."""
    tokens, targets = batch("counting", 512, **TASKS["counting"].tests(LENGTH)[test])
    answer = torch.cat((torch.zeros(512, 1, dtype=torch.bool), targets[:, :-1] != IGNORE), dim=1)
    commands = ~answer
    commands[:, 0] = False
    share(tokens == 12, commands, 0.1)
    others = commands & (tokens != 12)
    resets = (1 - passes) * 0.1
    share(tokens == 0, others, resets)
    count, full = 0, 0  # additions that a count of nine turned into passes, estimated by those that were free to fall
    free = torch.zeros_like(tokens, dtype=torch.bool)
    for b, row in enumerate(tokens.tolist()):
        for i, word in enumerate(row):
            free[b, i] = others[b, i] and count < 9
            if answer[b, i]:
                continue
            count = 0 if word == 0 else count + (word == 10)
            full += count == 9
    share(tokens == 11, free, passes)
    assert full > 0 and set(targets.unique().tolist()) == {IGNORE, *range(10)}


# ------------------------------------------------------------------------------------------------------------ needle


def needle_places(tokens, targets):
    """For each row: the distance of the first needle asked for, the first answer's place, the places of all needles."""
    for row, wanted in zip(tokens.tolist(), targets.tolist()):
        words = in_words("needle", row)
        answer = next(i for i, target in enumerate(wanted) if target != IGNORE) + 1
        needles = {word[0]: i for i, word in enumerate(words) if word[0] in "ABCDEFGH"}
        yield answer - needles[words[answer - 1][1]], answer, sorted(needles.values())


@pytest.mark.parametrize("test", TASKS["needle"].tests(LENGTH))
def test_needle_stands_where_asked(test):
    options = TASKS["needle"].tests(LENGTH)[test]
    tokens, targets = batch("needle", 64, **options)
    assert (targets != IGNORE).sum(1).eq(options.get("questions", 1)).all()
    low, high = options.get("distance", (2, 58))
    found = list(needle_places(tokens, targets))
    for distance, answer, needles in found:
        assert low <= distance <= high
        assert len(needles) == 4
        if test.startswith("near"):
            assert answer - needles[0] <= 58  # nor do the others lie farther than in training
    spread = [distance for distance, _, _ in found]
    assert max(spread) - min(spread) > 0.8 * (high - low)


@pytest.mark.parametrize(
    "options, expected",
    [({"distance": n}, n) for n in (2, 3, 10, 64)] + [({"depth": d}, n) for d, n in ((0, 64), (0.5, 33), (1, 2))],
    ids=lambda value: str(value),
)
def test_needle_stands_at_a_distance_or_depth(options, expected):
    tokens, targets = batch("needle", 64, **options)
    assert {distance for distance, _, _ in needle_places(tokens, targets)} == {expected}


@pytest.mark.parametrize("questions, most", [(1, 64), (4, 58)])
def test_needle_distances_are_uniform(questions, most):
    tokens, targets = batch("needle", 4000, questions=questions)
    found = torch.tensor([distance for distance, _, _ in needle_places(tokens, targets)])
    assert found.min() == 2 and found.max() == most
    for least in range(2, most - 12, 13):
        inside = (found >= least) & (found < least + 13)
        share(inside, torch.ones(4000, dtype=torch.bool), 13 / (most - 1))


def test_needle_stays_as_the_context_grows():
    """Near, the same seed gives the same end of the sequence at every length: only filler is added on the left."""
    tests = TASKS["needle"].tests(LENGTH)
    short = batch("needle", 16, **tests["near 1x"])
    for n in (2, 4, 8):
        long = batch("needle", 16, **tests[f"near {n}x"])
        assert torch.equal(long.tokens[:, -LENGTH:], short.tokens)
        assert torch.equal(long.targets[:, -LENGTH:], short.targets)
        assert (long.tokens[:, :-LENGTH] >= 80).all()  # filler


def test_needle_must_be_read():
    """Whoever does not see the needle is at chance, even knowing everything else."""
    tokens, targets = batch("needle", 4000)
    answer, everyone = targets[:, -1], torch.ones(4000, dtype=torch.bool)
    for value in range(8):
        share(answer == value, everyone, 1 / 8)
    share(answer == tokens[:, -1] - 72, everyone, 1 / 8)  # the key does not tell it
    needles = [[token - 8 for token in row if 8 <= token < 72] for row in tokens.tolist()]
    asked = (tokens[:, -1] - 72).tolist()
    others = [next(n % 8 for n in found if n // 8 != key) for found, key in zip(needles, asked)]
    share(answer == torch.tensor(others), everyone, 1 / 8)  # nor does another needle
    last = torch.tensor([found[-1] % 8 for found in needles])
    share(answer == last, everyone, 1 / 4 + 3 / 4 / 8)  # nor is the nearest needle asked for more than the others


# ---------------------------------------------------------------------------------------------- examples and errors


@pytest.mark.parametrize("name", TASKS)
def test_example_shows_the_answers(name):
    """The words in brackets are the targets, in order; what is read is all there."""
    task = TASKS[name]
    shown = task.example(40, seed=3)
    tokens, targets = batch(name, 1, 40, seed=3)
    answers = [task.vocabulary[target] for target in targets[0].tolist() if target != IGNORE]
    assert shown == task.example(40, seed=3) != task.example(40, seed=4) and "\n" not in shown
    if name == "text":
        assert shown == task.vocabulary[tokens[0, 0]] + "[" + "".join(answers) + "]"
    elif name == "masked":
        assert [shown[i + 1] for i, letter in enumerate(shown) if letter == "→"] == answers
    else:
        inside, found = False, []
        for word in shown.split(" "):
            inside = inside or word.startswith("[")
            if inside:
                found.append(word.strip("[]"))
            inside = inside and not word.endswith("]")
        assert found == answers
        assert shown.replace("[", "").replace("]", "").split(" ")[:40] == in_words(name, tokens[0].tolist())


def test_the_table_s_names_are_the_tasks():
    assert all(task.name == name and task.causal == (name != "masked") for name, task in TASKS.items())


@pytest.mark.parametrize(
    "name, options, error, words",
    [
        ("copy", {"generator": None}, TypeError, "generator=None .*torch.Generator"),
        ("copy", {"size": 0}, ValueError, "size=0"),
        ("copy", {"length": "16"}, TypeError, "length='16'"),
        ("flipflop", {"ignored": 0.5}, ValueError, "ignored=0.5 .*'ignore'"),
        ("text", {"text": torch.arange(64)}, ValueError, "length=64 .*64 characters"),
        ("masked", {"text": "abc"}, TypeError, "text.*'abc'"),
        ("copy", {"length": 2}, ValueError, "length=2 .*3"),
        ("copy", {"symbols": 32}, ValueError, "symbols=32 .*1 to 31.*length=64"),
        ("copy", {"symbols": (5, 4)}, ValueError, r"symbols=\(5, 4\)"),
        ("copy", {"symbols": (1, 2, 3)}, ValueError, r"symbols=\(1, 2, 3\).*pair"),
        ("recall", {"length": 7}, ValueError, "length=7 .*8"),
        ("recall", {"pairs": 17}, ValueError, "pairs=17 .*1 to 16.*length=64"),
        ("recall", {"pairs": KEYS + 1, "length": 8 * KEYS}, ValueError, f"pairs={KEYS + 1} .*1 to {KEYS}"),
        ("recall", {"pairs": 2.5}, TypeError, "pairs=2.5"),
        ("flipflop", {"ignore": 1.5}, ValueError, "ignore=1.5 .*0 to 1"),
        ("flipflop", {"ignore": "0.5"}, TypeError, "ignore='0.5'"),
        ("selective_copy", {"blanks": -1}, ValueError, "blanks=-1"),
        ("selective_copy", {"blanks": 70.0}, ValueError, "symbols.*length=64"),
        ("selective_copy", {"symbols": 17}, ValueError, "symbols=17 .*1 to 16"),
        ("counting", {"passes": -0.1}, ValueError, "passes=-0.1"),
        ("counting", {"asks": 2}, ValueError, "asks=2 .*0 to 1"),
        ("needle", {"distance": 65}, ValueError, "distance=65 .*2 to 64.*length=64"),
        ("needle", {"distance": 1}, ValueError, "distance=1 .*2 to 64"),
        ("needle", {"depth": 1.1}, ValueError, "depth=1.1 .*0 to 1"),
        ("needle", {"depth": 1, "distance": 9}, ValueError, "depth=1 .*distance=9"),
        ("needle", {"questions": 5}, ValueError, "questions=5 .*1 to 4.*needles=4"),
        ("needle", {"needles": 9}, ValueError, "needles=9 .*1 to 8"),
        ("needle", {"window": 65}, ValueError, "window=65 .*5 to 64.*length=64"),
        ("needle", {"window": 30, "distance": 31}, ValueError, "distance=31 .*window=30"),
        ("needle", {"length": 4}, ValueError, "length=4 .*needles=4"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_errors_name_the_argument(name, options, error, words):
    given = {"generator": torch.Generator(), "size": 2, "length": LENGTH} | options
    with pytest.raises(error, match=words):
        TASKS[name].batch(**given)


def test_needle_fits_the_least_length():
    """The least length that raises no error is enough, wherever the first needle lands."""
    for seed in range(20):
        tokens, targets = batch("needle", 16, 5, seed=seed)
        assert all(len(needles) == 4 for _, _, needles in needle_places(tokens, targets))


def test_a_task_of_your_own():
    task = dataclasses.replace(TASKS["copy"], name="mine", vocabulary=TASKS["copy"].vocabulary)
    assert isinstance(task, Task) and task.example(9) == TASKS["copy"].example(9)
    with pytest.raises(dataclasses.FrozenInstanceError):
        task.vocabulary = ()
    with pytest.raises(dataclasses.FrozenInstanceError):
        TASKS["text"].vocabulary = ()
