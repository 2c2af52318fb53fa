r"""What the small models are trained and tested on: text, and seven tasks that separate methods.

    task = TASKS["flipflop"]
    print(task.example())                                       # w 1 i 0 r [1] ...: the answers in brackets
    tokens, targets = task.batch(torch.Generator().manual_seed(0), size=32, length=64)
    for name, options in task.tests(64).items():                # "in", and what lies outside of training
        task.batch(generator, 32, **{"length": 64, **options})

The same seed gives the same batch. A target that is `IGNORE` is not scored.

Chapter: How to measure position.
"""

import functools
import hashlib
import inspect
import itertools
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from posenc.errors import check_int, check_number, check_tensor, nearest

IGNORE = -100  # what torch's cross_entropy leaves out by default


class Batch(NamedTuple):
    r"""What the model reads, and what it should say."""

    tokens: Tensor  # [B, T] int64
    targets: Tensor  # [B, T] int64: at i the token to say after tokens[:, :i+1] (masked: the one at i), or IGNORE


@dataclass(frozen=True)
class Task:
    r"""Something to learn: a generator of batches, and the settings in which it is tested.

    Fields:
        name: its key in `TASKS`.
        spelled: one readable string a token, or a function that gives them, so that importing loads no text.
        make: make(generator, size, *, length, **options) -> Batch. Use `batch`, which checks the arguments.
        tests: tests(length) -> {name: options} for a training length. The first, "in", is what training draws from;
            in the others something lies outside of it. Options may hold a length of their own.
        words: what each of these tests changes.
        causal: False where a model may look both ways.
    """

    name: str
    spelled: tuple[str, ...] | Callable
    make: Callable
    tests: Callable
    words: dict[str, str]
    causal: bool = True

    @property
    def vocabulary(self):
        """One readable string a token."""
        return self.spelled() if callable(self.spelled) else self.spelled

    def batch(self, generator, size, length, **options):
        r"""`size` sequences of `length` tokens, drawn with a torch.Generator on the CPU and nothing else."""
        if not isinstance(generator, torch.Generator) or generator.device.type != "cpu":
            raise TypeError(f"generator={generator!r} must be a torch.Generator on the CPU")
        check_int("size", size)
        check_int("length", length)
        known = list(inspect.signature(self.make).parameters)[3:]
        for name in options.keys() - known:
            known = f"known: {', '.join(known)}.{nearest(name, known)}"
            raise ValueError(f"{name}={options[name]!r} is no option of task {self.name!r}; {known}")
        return self.make(generator, size, length=length, **options)

    def example(self, length=32, seed=0, **options):
        r"""One sequence to read: the answers that are scored stand in brackets; in a masked text, read→answer."""
        batch = self.batch(torch.Generator().manual_seed(seed), 1, length, **options)
        tokens, targets = (part[0].tolist() for part in batch)
        words = [self.vocabulary[token] for token in tokens]
        between = "" if self.name in ("text", "masked") else " "
        if not self.causal:
            answers = [None if target == IGNORE else self.vocabulary[target] for target in targets]
            pairs = zip(words, answers)
            return between.join(f"[{w.replace('[MASK]', 'MASK')}→{answer}]" if answer else w for w, answer in pairs)
        scored = [False] + [target != IGNORE for target in targets]
        words += [self.vocabulary[target] for target in targets[-1:] if target != IGNORE]
        shown = []
        for asked, group in itertools.groupby(zip(scored, words), key=lambda pair: pair[0]):
            part = between.join(word for _, word in group)
            shown.append(f"[{part}]" if asked else part)
        return between.join(shown)


# ----------------------------------------------------------------------------------------------------------- corpus


class Corpus(NamedTuple):
    r"""Text as numbers: `vocabulary` is the string of all characters, `train` and `held_out` index into it."""

    name: str
    sha256: str  # of the text after repeats are dropped, so of what is really trained and tested on
    vocabulary: str
    train: Tensor  # [characters] int64
    held_out: Tensor

    def encode(self, text):
        """Characters to a tensor [T]. Errors: ValueError naming a character that the corpus lacks."""
        if strange := set(text) - set(self.vocabulary):
            raise ValueError(f"text holds {min(strange)!r}, which is none of the corpus's characters")
        return torch.tensor([self.vocabulary.index(character) for character in text], dtype=torch.long)

    def decode(self, tokens):
        """A tensor [T] (or a list) to characters."""
        return "".join(self.vocabulary[int(token)] for token in tokens)


@functools.cache
def load_corpus():
    r"""The documentation topics that `help()` prints, from Python's own `pydoc_data.topics`: nothing is downloaded.

    Topics quote each other, so a paragraph that was already there is dropped: else a fifth of the text would stand
    on both sides of the split. Whole topics are then dealt to training and, until a tenth of the characters is
    reached, to the held-out part; always in the same way. The text differs between versions of Python; its sha256
    tells which one a result is about.

    Errors: FileNotFoundError where this Python lacks the module.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError:
        where = "some distributions pack it apart; a Python from python.org, conda, uv or pyenv has it"
        raise FileNotFoundError(f"pydoc_data.topics, the corpus, is missing from this Python; {where}") from None
    before, texts = set(), {}
    for topic in sorted(topics):
        paragraphs = [p for p in re.split(r"\n[ \t]*\n", topics[topic].strip("\n")) if p.strip()]
        new = list(dict.fromkeys(p for p in paragraphs if " ".join(p.split()) not in before))
        before.update(" ".join(p.split()) for p in new)
        if new:
            texts[topic] = "\n\n".join(new) + "\n\n\n"
    order = sorted(texts)
    random.Random(0).shuffle(order)
    total, held_out, held_names = sum(map(len, texts.values())), 0, set()
    for topic in order:
        if held_out < total / 10 and len(texts[topic]) < total / 20:  # the longest topics go to training
            held_names.add(topic)
            held_out += len(texts[topic])
    parts = ["".join(texts[topic] for topic in order if (topic in held_names) == side) for side in (False, True)]
    text = "".join(parts)
    vocabulary = "".join(sorted(set(text)))
    index = {character: i for i, character in enumerate(vocabulary)}
    train, held_out = (torch.tensor([index[character] for character in part]) for part in parts)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return Corpus("pydoc_data.topics", digest, vocabulary, train, held_out)


@functools.cache
def characters():
    """The corpus's characters, the newline made visible."""
    return tuple("⏎" if character == "\n" else character for character in load_corpus().vocabulary)


def draw_starts(generator, size, length, text):
    """The text, by default the part for training, and where `size` windows in it start [size, 1]."""
    text = load_corpus().train if text is None else text
    check_tensor("text", text, "[characters] of integers", ndim=1)
    if len(text) <= length:
        raise ValueError(f"length={length} must be less than the {len(text)} characters of text")
    starts = torch.randint(len(text) - length, (size, 1), generator=generator)
    return text, starts


def make_text(generator, size, *, length, text=None):
    text, starts = draw_starts(generator, size, length, text)
    chunk = text[starts + torch.arange(length + 1)]  # [B, length + 1]
    return Batch(chunk[:, :-1], chunk[:, 1:])


def make_masked(generator, size, *, length, text=None):
    text, starts = draw_starts(generator, size, length, text)
    return mask_characters(generator, text[starts + torch.arange(length)])


def mask_characters(generator: torch.Generator, original: Tensor) -> Batch:
    """BERT's rule (arXiv 1810.04805) on characters [B, T]: 15% of each row are asked for.

    Of these 80% are replaced by [MASK], 10% by a random character, and 10% stay as they are.
    """
    size, length = original.shape
    count = max(1, round(0.15 * length))
    places = torch.rand(size, length, generator=generator).topk(count).indices
    fate = torch.rand(size, count, generator=generator)
    letters = len(characters())
    other = torch.randint(letters, (size, count), generator=generator)
    answers = original.gather(1, places)
    read = torch.where(fate < 0.8, letters, torch.where(fate < 0.9, other, answers))  # `letters` is [MASK]'s number
    targets = torch.full_like(original, IGNORE).scatter(1, places, answers)
    return Batch(original.scatter(1, places, read), targets)


def text_tests(length):
    held_out = load_corpus().held_out
    tests = {"in": {}, "held out": {"text": held_out}}
    return tests | {f"longer {n}x": {"text": held_out, "length": n * length} for n in (2, 4, 8)}


TIMES = {2: "twice", 4: "four times", 8: "eight times"}
UNREAD = "Topics that training never read"
TEXT_WORDS = {"in": "The text of training, windows of the training length.", "held out": f"{UNREAD}."}
TEXT_WORDS |= {f"longer {n}x": f"{UNREAD}, windows {times} as long." for n, times in TIMES.items()}

# ------------------------------------------------------------------------------------------------------ made up tasks

LETTERS = tuple("abcdefghijklmnop")


def next_token(sequence, scored, length):
    r"""A Batch from sequences [B, length or length + 1] and which of their tokens are scored (bool)."""
    targets = torch.where(scored, sequence, IGNORE)[:, 1:]
    if targets.shape[1] < length:
        targets = torch.cat((targets, targets.new_full((len(targets), 1), IGNORE)), dim=1)
    return Batch(sequence[:, :length], targets)


def as_range(name, value, low, high, why):
    """(least, most) from a number or a pair. Errors: TypeError, ValueError unless low <= least <= most <= high."""
    pair = value if isinstance(value, (tuple, list)) else (value, value)
    if len(pair) != 2:
        raise ValueError(f"{name}={value!r} must be a number or a pair (least, most)")
    for part in pair:
        check_int(name, part, minimum=0)
    if low > high:
        raise ValueError(f"{name}={value!r} is impossible: {why}")
    if not low <= pair[0] <= pair[1] <= high:
        raise ValueError(f"{name}={value!r} must lie within {low} to {high}: {why}")
    return pair


def draw(generator, pair, size):
    """Whole numbers [size] between the two, both included."""
    return torch.randint(pair[0], pair[1] + 1, size, generator=generator)


def check_share(name, value):
    check_number(name, value, minimum=0)
    if value > 1:
        raise ValueError(f"{name}={value} is a probability: it must lie within 0 to 1")


# copy (Jelassi et al., arXiv 2402.01032): symbols 0 .. 15, then
START, BAR, PAD = 16, 17, 18


def make_copy(generator, size, *, length, symbols=None):
    check_int("length", length, minimum=3)
    most = (length - 1) // 2
    symbols = (1, most) if symbols is None else symbols
    pair = as_range("symbols", symbols, 1, most, f"a copy of n symbols takes 2 n + 1 tokens of length={length}")
    n = draw(generator, pair, (size, 1))
    string = torch.randint(len(LETTERS), (size, pair[1]), generator=generator)
    at = torch.arange(length + 1)  # [N]
    answer = (at > n + 1) & (at <= 2 * n + 1)  # [B, N]
    which = torch.where(answer, at - n - 2, at - 1).clamp(0, pair[1] - 1)
    sequence = string.gather(1, which)
    sequence = sequence.masked_fill(at == 0, START).masked_fill(at == n + 1, BAR).masked_fill(at > 2 * n + 1, PAD)
    return next_token(sequence, answer, length)


def copy_tests(length):
    most = (length - 1) // 2
    twice, four_times = (2 * length - 1) // 2, (4 * length - 1) // 2
    tests = {"in": {}, "longer 2x": {"length": 2 * length, "symbols": (most + 1, twice)}}
    return tests | {"longer 4x": {"length": 4 * length, "symbols": (twice + 1, four_times)}}


# recall, of many queries (Arora et al., arXiv 2312.04927): values 0 .. 15, then the keys
KEYS = 64


def make_recall(generator, size, *, length, pairs=None):
    check_int("length", length, minimum=8)
    pairs = (2, min(length // 4, KEYS // 4)) if pairs is None else pairs
    why = f"n pairs and as many questions take 4 n tokens of length={length}, and there are {KEYS} keys"
    low, high = as_range("pairs", pairs, 1, min(length // 4, KEYS), why)
    # Few pairs are drawn often (P(n) ~ 1/n): drawn evenly, the many hide from a model that there is anything to find.
    n = (low * ((high + 1) / low) ** torch.rand(size, 1, generator=generator)).long().clamp(max=high)
    # Common and rare keys (key i has weight (i + 1)^-1.5): looking up is learned on a few common keys in hundreds of
    # steps, where on keys all as common it takes thousands. The order of a row's keys is random again.
    chance = torch.rand(size, KEYS, generator=generator).log() * torch.arange(1, KEYS + 1) ** 1.5
    order = torch.rand(size, high, generator=generator).masked_fill(torch.arange(high) >= n, 2.0).argsort(1)
    keys = chance.topk(high).indices.gather(1, order) + len(LETTERS)
    values = torch.randint(len(LETTERS), (size, high), generator=generator)
    questions = (torch.rand(size, length // 2 + 1, generator=generator) * n).long()  # any of the n pairs
    at = torch.arange(length + 1).expand(size, -1)
    pair = at // 2  # those of the questions counted on
    question = pair >= n
    which = torch.where(question, questions.gather(1, pair), pair.clamp(max=high - 1))
    sequence = torch.where(at % 2 == 0, keys.gather(1, which), values.gather(1, which))
    return next_token(sequence, question & (at % 2 == 1), length)


def recall_tests(length):
    most = min(length // 4, KEYS // 4)
    return {"in": {}} | {f"more {n}x": {"length": max(length, 4 * n * most), "pairs": n * most} for n in (1, 2, 3, 4)}


# flipflop (Liu et al., arXiv 2306.00946): bits 0, 1, then
WRITE, SKIP, READ = 2, 3, 4


def make_flipflop(generator, size, *, length, ignore=0.8):
    check_int("length", length, minimum=3)
    check_share("ignore", ignore)
    steps = (length + 1) // 2
    chance = torch.rand(size, steps, generator=generator)
    bits = torch.randint(2, (size, steps), generator=generator)
    does = torch.where(chance < ignore, SKIP, torch.where(chance < (1 + ignore) / 2, WRITE, READ))
    does[:, 0], does[:, -1] = WRITE, READ
    last = torch.where(does == WRITE, torch.arange(steps), 0).cummax(1).values  # the step of the last write
    bits = torch.where(does == READ, bits.gather(1, last), bits)
    scored = torch.stack((torch.zeros_like(does, dtype=torch.bool), does == READ), dim=2)
    return next_token(torch.stack((does, bits), dim=2).flatten(1), scored.flatten(1), length)


def longer(length):
    return {f"longer {n}x": {"length": n * length} for n in (2, 4)}


def flipflop_tests(length):
    return {"in": {}, "sparser": {"ignore": 0.98}, "denser": {"ignore": 0.1}} | longer(length)


# selective_copy (Gu and Dao, arXiv 2312.00752; CoPE, arXiv 2405.18719): symbols 0 .. 15, then
BLANK, SEPARATOR, PADDING = 16, 17, 18


def make_selective_copy(generator, size, *, length, symbols=None, blanks=2.0):
    check_int("length", length, minimum=4)
    check_number("blanks", blanks, minimum=0)
    symbols = (1, int(length / (2 + blanks))) if symbols is None else symbols
    why = f"n symbols among {blanks} n blanks and their copy take {2 + blanks} n tokens of length={length}"
    low, high = as_range("symbols", symbols, 1, int(length / (2 + blanks)), why)
    n = draw(generator, (low, high), (size, 1))
    field = n + (n * blanks).long()  # [B, 1] how many symbols and blanks
    string = torch.randint(len(LETTERS), (size, high), generator=generator)
    at = torch.arange(length + 1)
    rank = torch.rand(size, length + 1, generator=generator).masked_fill(at >= field, 2.0).argsort(1).argsort(1)
    symbol = rank < n  # n places of the field, all choices as likely
    answer = (at > field) & (at <= field + n)
    which = torch.where(answer, at - field - 1, symbol.cumsum(1) - 1).clamp(0, high - 1)
    sequence = torch.where(symbol | answer, string.gather(1, which), BLANK)
    sequence = sequence.masked_fill(at == field, SEPARATOR).masked_fill(at > field + n, PADDING)
    return next_token(sequence, answer, length)


def selective_copy_tests(length):
    most = length // 4
    return {
        "in": {},
        "denser": {"symbols": (1, most), "blanks": 0.5},
        "sparser": {"symbols": (1, most), "blanks": 6.0, "length": 8 * most},
        "longer 2x": {"symbols": (most + 1, 2 * most), "length": 2 * length},
        "longer 4x": {"symbols": (2 * most + 1, 4 * most), "length": 4 * length},
    }


# counting (after CoPE, arXiv 2405.18719): digits 0 .. 9, where the digit 0 also resets, then
ADD, PASS, ASK = 10, 11, 12


def make_counting(generator, size, *, length, passes=0.6, asks=0.1, resets=0.1):
    check_int("length", length, minimum=3)
    for name, share in (("passes", passes), ("asks", asks), ("resets", resets)):
        check_share(name, share)
    steps = length + 1
    ask = torch.rand(size, steps, generator=generator) < asks
    skip = torch.rand(size, steps, generator=generator) < passes
    reset = torch.rand(size, steps, generator=generator) < resets
    does = torch.where(ask, ASK, torch.where(skip, PASS, torch.where(reset, 0, ADD)))
    does[:, 0] = 0
    sums = (does == ADD).cumsum(1)
    count = sums - torch.where(does == 0, sums, 0).cummax(1).values  # additions since the last reset
    does = does.masked_fill((does == ADD) & (count > 9), PASS)
    ask = does == ASK
    place = torch.arange(steps) + ask.cumsum(1) - ask.long()  # each question before it took a token more
    sequence = torch.zeros(size, 2 * steps, dtype=torch.long).scatter(1, place, does)
    scored = torch.zeros(size, 2 * steps, dtype=torch.bool).scatter(1, (place + 1) * ask, ask)
    sequence = sequence.scatter(1, (place + 1) * ask, count.clamp(max=9) * ask)  # the first token is 0 anyway
    scored[:, 0] = False
    return next_token(sequence[:, :steps], scored[:, :steps], length)


def counting_tests(length):
    tests = {"in": {}, "sparser": {"passes": 0.9}, "denser": {"passes": 0.2}, "rarely asked": {"asks": 0.02}}
    return tests | longer(length)


# needle (RULER, arXiv 2404.06654): values 0 .. 7, then needles A0, A1 ... H7, then the questions ?A ... ?H, then filler
NEEDLE_VALUES = NEEDLE_KEYS = FILLERS = 8
FIRST_NEEDLE = NEEDLE_VALUES
FIRST_QUESTION = FIRST_NEEDLE + NEEDLE_KEYS * NEEDLE_VALUES
FIRST_FILLER = FIRST_QUESTION + NEEDLE_KEYS


def make_needle(generator, size, *, length, distance=None, needles=4, questions=1, window=None):
    r"""Hide needles, each a key with its value in one token, in filler; at the end ask for some, each once.

    Arguments:
        needles: how many there are, with different keys.
        questions: how many of them are asked for.
        distance: how many tokens the first answer stands after its needle, a number or a pair (least, most) to draw
            from. 2 is right before the question. Default: anywhere in the context.
        window: no needle lies farther back than this distance. Default: all of the context.
    """
    as_range("needles", needles, 1, NEEDLE_KEYS, f"there are {NEEDLE_KEYS} keys, each for one needle")
    as_range("questions", questions, 1, needles, f"each of needles={needles} is asked for once")
    far = first = length + 2 - 2 * questions  # where the first answer stands in the sequence
    why = f"length={length} with questions={questions} leaves no more"
    if window is not None:
        far, why = as_range("window", window, needles + 1, far, why)[0], f"window={window} ends there"
    if far < needles + 1:
        raise ValueError(f"length={length} is too short for needles={needles} and questions={questions}")
    low, high = as_range("distance", (2, far) if distance is None else distance, 2, far, why)

    # What does not depend on the length is drawn first, and the filler from the right: a longer context then asks
    # for the same needles.
    keys = torch.rand(size, NEEDLE_KEYS, generator=generator).argsort(1)[:, :needles]
    values = torch.randint(NEEDLE_VALUES, (size, needles), generator=generator)
    first_distance = draw(generator, (low, high), (size, 1))
    places = torch.arange(2, far + 1)
    free = torch.rand(size, len(places), generator=generator).masked_fill(places == first_distance, 2.0)
    others = free.argsort(1)[:, : needles - 1] + 2
    sequence = torch.randint(FILLERS, (length + 1, size), generator=generator).flip(0).T + FIRST_FILLER
    at = first - torch.cat((first_distance, others), dim=1)  # [B, needles]
    sequence = sequence.scatter(1, at, FIRST_NEEDLE + NEEDLE_VALUES * keys + values)
    ends = first + 2 * torch.arange(questions)
    sequence[:, ends - 1] = FIRST_QUESTION + keys[:, :questions]
    sequence[:, ends] = values[:, :questions]
    scored = torch.zeros_like(sequence, dtype=torch.bool)
    scored[:, ends] = True
    return next_token(sequence, scored, length)


def needle_tests(length):
    near = length - 6  # the farthest that training sees: the questions take the rest
    nears = {f"near {n}x": {"length": n * length, "distance": (2, near), "window": near} for n in (1, 2, 4, 8)}
    fars = {f"far {n}x": {"length": n * length, "distance": (near + 1, n * length)} for n in (2, 4, 8)}
    return {"in": {"questions": 4}} | nears | fars


NEEDLE_WORDS = tuple(str(value) for value in range(NEEDLE_VALUES))
NEEDLE_WORDS += tuple(f"{key}{value}" for key in "ABCDEFGH" for value in range(NEEDLE_VALUES))
NEEDLE_WORDS += (*(f"?{key}" for key in "ABCDEFGH"), *"stuvwxyz")
NEAR, FAR = "the needles no farther back than in training", "the needle asked for farther back than any in training"
LONGER = {f"longer {n}x": f"Sequences {TIMES[n]} as long." for n in (2, 4)}

# A task is read in a few lines.
# fmt: off
TASKS = {task.name: task for task in (
    Task("text", characters, make_text, text_tests, TEXT_WORDS),
    Task("masked", lambda: (*characters(), "[MASK]"), make_masked, text_tests, TEXT_WORDS, causal=False),
    Task("copy", (*LETTERS, "<", "|", "_"), make_copy, copy_tests, {
        "in": "Strings of any length that fits the training window.",
        "longer 2x": "Strings longer than any in training, up to twice as long.",
        "longer 4x": "Strings more than twice as long as any in training, up to four times.",
    }),
    Task("recall", (*LETTERS, *(f"K{i}" for i in range(KEYS))), make_recall, recall_tests, {
        "in": "From two pairs to the most that training holds, few more often than many.",
        "more 1x": "Always the most pairs that training holds.", "more 2x": "Twice the most pairs that training holds.",
        "more 3x": "Three times the most pairs that training holds.",
        "more 4x": "Four times the most pairs that training holds.",
    }),
    Task("flipflop", ("0", "1", "w", "i", "r"), make_flipflop, flipflop_tests, {
        "in": "Four of five instructions are to be ignored.",
        "sparser": "Nearly all instructions are to be ignored, so the last write lies far back.",
        "denser": "Nearly all instructions are writes and reads, so many writes compete.",
        **LONGER,
    }),
    Task("selective_copy", (*LETTERS, ".", "|", "_"), make_selective_copy, selective_copy_tests, {
        "in": "Two blanks to a letter.",
        "denser": "One blank to two letters.",
        "sparser": "Six blanks to a letter.",
        "longer 2x": "More letters than in training, up to twice as many, two blanks to each.",
        "longer 4x": "More than twice as many letters as in training, up to four times, two blanks to each.",
    }),
    Task("counting", (*"0123456789", "+", ".", "?"), make_counting, counting_tests, {
        "in": "Three of five instructions pass.", "sparser": "Nine of ten instructions pass.",
        "denser": "One of five instructions passes.",
        "rarely asked": "Two questions in a hundred tokens where training has ten: few answers to count on from.",
        **LONGER,
    }),
    Task("needle", NEEDLE_WORDS, make_needle, needle_tests, {
        "in": "Four needles anywhere in a context of the training length, all of them asked for.",
        "near 1x": "One question, at the training length.",
        **{f"near {n}x": f"{times.capitalize()} the context, {NEAR}." for n, times in TIMES.items()},
        **{f"far {n}x": f"{times.capitalize()} the context, {FAR}." for n, times in TIMES.items()},
    }),
)}
# fmt: on
