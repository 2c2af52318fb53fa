r"""From window to window: the text study's losses with attention cut, and with distance and keys moved alone.

    python benchmarks/text_blocks.py             # an hour; finished parts are kept in runs/text_blocks

Trains the study's models again, each the same to the last digit, since it kept their means alone. Writes
results/text_blocks.json. Chapter: How to measure position.
"""

import itertools

import record
import torch

from posenc.lab.experiments import load_results
from posenc.lab.train import train_with
from posenc.lab.train.measures import gap_positions, held_out_windows, some_windows, target_losses
from posenc.lab.train.tasks import load_corpus

TEXT = load_results("train_short_test_long")
MOVED = ((0, -1), (-1, 0), (-1, -1))  # distance, keys, both: places among the study's numbers of keys, and gaps
FEW = 16  # blocks of the few windows that these are moved in


def measure(arm, seed):
    """The means of blocks of windows of an arm with one seed, in one list: cut, and what each move adds."""
    settings, frozen = record.chosen(arm), TEXT["methods"][arm]
    model, _ = train_with(arm, settings, seed, device="cpu", progress=False)
    windows, few = held_out_windows(load_corpus().held_out, settings), some_windows(settings)
    cut = record.targets_of(model, windows, settings, settings.lengths[-1], cut=settings.length)

    def moved(keys, gap):
        length, gap = settings.lengths[keys], TEXT["gaps"][gap]
        places = gap_positions(length, settings.length, settings.targets, gap)
        return target_losses(model, few[:, -(length + 1) :], positions=places)[:, -settings.targets :]

    start, grid = moved(0, 0), torch.tensor(frozen["distance_and_keys"][seed])
    added = [moved(*at) - start for at in MOVED]
    before = [frozen["cut"][seed][-1], *(grid[at] - grid[0, 0] for at in MOVED)]
    off = [abs(float(now.mean() - then)) for now, then in zip([cut, *added], before)]
    assert max(off) < 1e-4, f"{arm}, seed {seed}: not the study's own model, off by {off}"
    return record.in_blocks(cut) + [part.mean().item() for losses in added for part in losses.tensor_split(FEW)]


def main():
    results = record.begun(__doc__, "text_blocks", "study", record.chosen("rope"))
    cells = record.in_turn(itertools.product(TEXT["methods"], record.SEEDS), measure, "text_blocks", "cells")
    results |= {
        "question": "How much do the text study's numbers change with the windows that are read?",
        "unit": "nats per character",
        "seeds": list(record.SEEDS),
        "about_blocks": record.IN_BLOCKS + "32 at the longest context with attention cut to the training length; then "
        "what distance, keys and both add, 16 each of three windows.",
        "in_blocks": {arm: record.over_seeds([cells[arm, seed] for seed in record.SEEDS]) for arm in TEXT["methods"]},
    }
    record.write(results)


if __name__ == "__main__":
    main()
