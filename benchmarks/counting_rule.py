r"""What is far context worth on the text of the study? A rule that counts reads the study's own targets.

    python benchmarks/counting_rule.py            # some minutes

The rule: a table of order 6 of the training text, and the longest repeat within the context. LEAST, of 2 to 5, and
DOUBT, of 4 to 32, were chosen on the validation text that the study holds back, at its longest context, before the
held-out text was read. Writes results/counting_rule.json. Chapter: Compare and choose.
"""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence

import record
import torch
from tqdm import tqdm

from posenc.lab.experiments import load_results
from posenc.lab.train import Settings
from posenc.lab.train.measures import BLOCKS, held_out_windows
from posenc.lab.train.tasks import load_corpus

TEXT = "train_short_test_long"
ORDER = 6  # characters before the next one that the table goes by
LEAST = 3  # characters in a row that must have stood in the context before
DOUBT = 16  # a repeat of n characters gets the share n / (n + DOUBT) of the prediction: chosen on validation text


def count(text: Sequence[int]) -> list[dict]:
    r"""For each n up to ORDER: what followed each n characters of the text, {the n characters: Counter}."""
    tables = [defaultdict(Counter) for _ in range(ORDER + 1)]
    for i, following in enumerate(text):
        for n in range(min(ORDER, i) + 1):
            tables[n][tuple(text[i - n : i])][following] += 1
    return tables


def by_table(tables: list[dict], context: Sequence[int], character: int, vocabulary: int) -> float:
    r"""The probability of a character after a context, by what followed its last characters in the counted text.

    p_n = (count + k p_(n-1)) / (total + k), k how many characters followed those n: Witten and Bell (1991), method C
    """
    p = 1 / vocabulary
    for n in range(min(ORDER, len(context)) + 1):
        seen = tables[n].get(tuple(context[len(context) - n :]))
        if not seen:
            break
        p = (seen[character] + len(seen) * p) / (seen.total() + len(seen))
    return p


def longest_repeat(context: Sequence[int]) -> tuple[int, list[int]]:
    r"""The longest end of the context that stood in it before: its length, and what followed it each time."""
    end, n, at = len(context), 0, list(range(1, len(context)))
    while at:
        longer = [i for i in at if i > n and context[i - n - 1] == context[end - n - 1]]
        if not longer:
            break
        n, at = n + 1, longer
    return n, [context[i] for i in at] if n else []


def by_rule(tables: list[dict], context: Sequence[int], character: int, vocabulary: int) -> float:
    r"""The table's probability, mixed with what followed the longest repeat in the context, if it is long enough."""
    p = by_table(tables, context, character, vocabulary)
    n, followed = longest_repeat(context)
    if n < LEAST:
        return p
    share = n / (n + DOUBT)
    return (1 - share) * p + share * followed.count(character) / len(followed)


def losses(tables, windows, length, targets, vocabulary):
    """The loss in nats of the last characters of each window, which see what a model sees of so long a context."""
    for window in tqdm(windows, desc=f"{length} characters", leave=False):
        start = len(window) - 1 - length
        ends = range(len(window) - targets, len(window))
        yield statistics.mean(-math.log(by_rule(tables, window[start:end], window[end], vocabulary)) for end in ends)


def main():
    study, corpus = load_results(TEXT), load_corpus()
    if corpus.sha256 != study["corpus"]["sha256"]:
        raise SystemExit(f"the text of this Python is not the study's, which was made with {study['versions']}")
    settings = Settings(**study["settings"])
    facts = record.begun(__doc__, "counting_rule", "study", settings)
    tables, vocabulary = count(corpus.train[: -settings.held_back].tolist()), len(corpus.vocabulary)
    windows, rows = held_out_windows(corpus.held_out, settings).tolist(), []
    for length in settings.lengths:
        of_windows = torch.tensor(list(losses(tables, windows, length, settings.targets, vocabulary)))
        rows.append([block.mean().item() for block in of_windows.tensor_split(BLOCKS)])
    results = facts | {
        "question": "What is a context longer than the training window worth to a rule that counts?",
        "unit": "nats per character",
        "rule": {"order": ORDER, "least": LEAST, "doubt": DOUBT},
        "lengths": settings.lengths,
        "targets": settings.windows * settings.targets,
        "loss": [statistics.mean(row) for row in rows],
        "blocks": rows,  # [lengths, BLOCKS], means over neighboring windows
    }
    record.write(results)


if __name__ == "__main__":
    main()
