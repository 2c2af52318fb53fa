"""The tasks: each is solved again in plain loops from what a model may read, and its proportions are counted."""

import math

import pytest
import torch

from posenc.lab.train.tasks import IGNORE, TASKS, load_corpus

LENGTH = 64
MADE_UP = [name for name in TASKS if name not in ("text", "masked")]
SETTINGS = [(name, test) for name in MADE_UP for test in TASKS[name].tests(LENGTH)]


def batch(name, size=32, length=LENGTH, seed=0, **options):
    return TASKS[name].batch(torch.Generator().manual_seed(seed), size, **{"length": length, **options})


def in_words(name, tokens):
    return [TASKS[name].vocabulary[token] for token in tokens]


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
    assert (targets != IGNORE).any(dim=1).float().mean() > 0.5
    for row, wanted in zip(tokens.tolist(), targets.tolist()):
        words = in_words(name, row)
        for i, target in enumerate(wanted):
            answer = SOLVERS[name](words[: i + 1])
            assert answer == (None if target == IGNORE else TASKS[name].vocabulary[target]), (words[: i + 1], i)
            if target != IGNORE and i + 1 < len(row):
                assert row[i + 1] == target


@pytest.mark.parametrize("name", TASKS)
def test_batches(name):
    """Shapes and ranges at other lengths too; the same seed gives the same batch, another seed another one."""
    task = TASKS[name]
    assert task.name == name and task.causal == (name != "masked") and len(set(task.vocabulary)) == len(task.vocabulary)
    for training in (33, LENGTH):
        tests = task.tests(training)
        assert next(iter(tests)) == "in" and set(tests) == set(task.words) and len(tests) > 1
        for options in tests.values():
            options = {"length": training} | options
            first, same, other = (batch(name, 3, seed=seed, **options) for seed in (1, 1, 2))
            assert first.tokens.shape == first.targets.shape == (3, options["length"])
            for part in (first.tokens, first.targets[first.targets != IGNORE]):
                assert part.dtype == torch.int64 and 0 <= part.min() and part.max() < len(task.vocabulary)
            assert torch.equal(first.tokens, same.tokens) and torch.equal(first.targets, same.targets)
            assert not torch.equal(first.tokens, other.tokens)
    if name in MADE_UP:  # training says each of them
        assert set(batch(name, 512, **task.tests(LENGTH)["in"]).tokens.unique().tolist()) == {
            *range(len(task.vocabulary))
        }


def share(hits, of, expected):
    """The share lies within four standard deviations of what is expected."""
    count, found = int(of.sum()), float((hits & of).sum() / of.sum())
    assert count > 500
    assert abs(found - expected) < 4 * math.sqrt(expected * (1 - expected) / count) + 1e-9, (found, expected, count)


@pytest.mark.parametrize("name", ["text", "masked"])
def test_text_is_read_from_where_it_is_said(name):
    """In this text each character tells its place; the draws are those that the frozen results were trained on."""
    text = torch.arange(90)
    tokens, targets = batch(name, 64, 32, seed=5, text=text)
    starts = torch.randint(90 - 32, (64, 1), generator=torch.Generator().manual_seed(5))
    kept = targets == IGNORE if name == "masked" else targets == tokens + 1
    assert torch.equal(tokens[kept], (starts + torch.arange(32))[kept]) and kept.float().mean() > 0.8
    assert torch.equal(TASKS[name].tests(64)["held out"]["text"], load_corpus().held_out)


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


def test_recall_pairs():
    """Keys never repeat among the pairs; the rest of the sequence asks, any pair as likely as another."""
    for test, options in TASKS["recall"].tests(LENGTH).items():
        tokens, targets = batch("recall", 512, **options)
        n = ((targets != IGNORE).long().argmax(1)) // 2
        if test == "in":
            share(n < 4, n > 0, math.log(4 / 2) / math.log(17 / 2))  # P(n) ~ 1 / n
        else:
            assert n.eq(options["pairs"]).all() and options["pairs"] == 16 * int(test[-2])
        for row, pairs in zip(tokens[:64].tolist(), n[:64].tolist()):
            keys, asked = row[: 2 * pairs : 2], row[2 * pairs :: 2]
            assert len(set(keys)) == pairs and set(asked) <= set(keys)
    tokens, _ = batch("recall", 2000, pairs=4)
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


def test_needle_stays_as_the_context_grows():
    """Near, the same seed gives the same end of the sequence at every length: only filler is added on the left."""
    tests = TASKS["needle"].tests(LENGTH)
    short = batch("needle", 16, **tests["near 1x"])
    for n in (2, 4, 8):
        long = batch("needle", 16, **tests[f"near {n}x"])
        assert torch.equal(long.tokens[:, -LENGTH:], short.tokens)
        assert torch.equal(long.targets[:, -LENGTH:], short.targets)
        assert (long.tokens[:, :-LENGTH] >= 80).all()  # filler


@pytest.mark.parametrize(
    "name, options, error, words",
    [
        ("copy", {"generator": None}, TypeError, "generator=None .*torch.Generator"),
        ("flipflop", {"ignored": 0.5}, ValueError, "ignored=0.5 .*'ignore'"),
        ("text", {"text": torch.arange(64)}, ValueError, "length=64 .*64 characters"),
        ("copy", {"symbols": 32}, ValueError, "symbols=32 .*1 to 31.*length=64"),
        ("recall", {"pairs": 17}, ValueError, "pairs=17 .*1 to 16.*length=64"),
        ("selective_copy", {"blanks": 70.0}, ValueError, "symbols.*length=64"),
        ("needle", {"distance": 65}, ValueError, "distance=65 .*2 to 64.*length=64"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_errors_name_the_argument(name, options, error, words):
    given = {"generator": torch.Generator(), "size": 2, "length": LENGTH} | options
    with pytest.raises(error, match=words):
        TASKS[name].batch(**given)
