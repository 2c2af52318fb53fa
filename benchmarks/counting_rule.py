r"""What is far context worth on the text of the study? A rule that counts reads the study's own targets.

    python benchmarks/counting_rule.py            # some minutes

The rule is `posenc.lab.train.counting`: a table of order 6 of the training text, and the longest repeat within the
context. LEAST and DOUBT were chosen on the validation text that the study holds back, at its longest context, before
the held-out text was read: `--choose` prints that table. Writes results/counting_rule.json. Chapter: Compare and
choose.
"""

import argparse
import dataclasses
import math
import statistics
from itertools import product
from pathlib import Path

import torch
from tqdm import tqdm

from posenc.lab.experiments import check_results, load_results, provenance, six_digits, write_json
from posenc.lab.train import Settings, counting
from posenc.lab.train.measure import BLOCKS, held_out_windows
from posenc.lab.train.tasks import load_corpus

TEXT = "train_short_test_long"


def losses(tables, windows, length, targets, vocabulary):
    """The loss in nats of the last characters of each window, which see what a model sees of so long a context."""
    for window in tqdm(windows, desc=f"{length} characters", leave=False):
        start = len(window) - 1 - length
        ends = range(len(window) - targets, len(window))
        yield statistics.mean(
            -math.log(counting.by_rule(tables, window[start:end], window[end], vocabulary)) for end in ends
        )


def choose(tables, held_back, settings, vocabulary):
    """Print the loss on validation text for each pair of constants."""
    windows = held_out_windows(held_back, dataclasses.replace(settings, windows=240)).tolist()
    for counting.LEAST, counting.DOUBT in product((2, 3, 4, 5), (4, 8, 16, 32)):
        loss = statistics.mean(losses(tables, windows, settings.lengths[-1], 8, vocabulary))
        print(f"LEAST {counting.LEAST}, DOUBT {counting.DOUBT:2}: {loss:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--choose", action="store_true", help="print the losses on validation text and stop")
    asked = parser.parse_args()
    study, corpus = load_results(TEXT), load_corpus()
    if corpus.sha256 != study["corpus"]["sha256"]:
        raise SystemExit(f"the text of this Python is not the study's, which was made with {study['versions']}")
    settings = Settings(**study["settings"])
    train, held_back = corpus.train[: -settings.held_back], corpus.train[-settings.held_back :]
    tables, vocabulary = counting.count(train.tolist()), len(corpus.vocabulary)
    if asked.choose:
        return choose(tables, held_back, settings, vocabulary)
    windows, rows = held_out_windows(corpus.held_out, settings).tolist(), []
    for length in settings.lengths:
        of_windows = torch.tensor(list(losses(tables, windows, length, settings.targets, vocabulary)))
        rows.append([block.mean().item() for block in of_windows.tensor_split(BLOCKS)])
    results = provenance("counting_rule", "study", settings, "python benchmarks/counting_rule.py") | {
        "question": "What is a context longer than the training window worth to a rule that counts?",
        "unit": "nats per character",
        "rule": {"order": counting.ORDER, "least": counting.LEAST, "doubt": counting.DOUBT},
        "lengths": settings.lengths,
        "targets": settings.windows * settings.targets,
        "loss": [statistics.mean(row) for row in rows],
        "blocks": rows,  # [lengths, BLOCKS], means over neighboring windows
    }
    write_json(Path("results/counting_rule.json"), check_results(six_digits(results)))
    gains = [first - last for first, last in zip(rows[0], rows[-1])]
    print([round(value, 3) for value in results["loss"]], statistics.mean(gains), statistics.stdev(gains) / BLOCKS**0.5)


if __name__ == "__main__":
    main()
