r"""From window to window: the text study's losses with attention cut, and with distance and keys moved alone.

    python benchmarks/text_blocks.py             # an hour; finished parts are kept in runs/text_blocks

Trains the study's models again, since it kept their means alone. Some come out as other models, likely since processors
round otherwise: from those stands here what a cut or a move adds in each block. Writes results/text_blocks.json.
Chapter: How to measure position.
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
    """The means of blocks of windows, in one list: cut, what each move adds; and by how much another model is off."""
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
    moves = [part.mean().item() for losses in added for part in losses.tensor_split(FEW)]
    if max(off) < 1e-4:
        return record.in_blocks(cut) + moves
    saved = record.in_blocks(record.targets_of(model, windows, settings, settings.lengths[-1]) - cut)
    return [whole - less for whole, less in zip(frozen["blocks"][seed]["whole"][-1], saved)] + moves + [max(off)]


def main():
    results = record.begun(__doc__, "text_blocks", "study", record.chosen("rope"))
    cells = record.in_turn(itertools.product(TEXT["methods"], record.SEEDS), measure, "text_blocks", "cells")
    again = {arm: max(sum(cells[arm, seed][80:]) for seed in record.SEEDS) for arm in TEXT["methods"]}
    results |= {
        "question": "How much do the text study's numbers change with the windows that are read?",
        "unit": "nats per character",
        "seeds": list(record.SEEDS),
        "about_blocks": record.IN_BLOCKS + "32 at the longest context with attention cut to the training length; then "
        "what distance, keys and both add, 16 each of three windows. other_models: arms that, trained again, are not "
        "the study's, and by how much a number differs.",
        "in_blocks": {
            arm: record.over_seeds([cells[arm, seed][:80] for seed in record.SEEDS]) for arm in TEXT["methods"]
        },
        "other_models": {arm: off for arm, off in again.items() if off},
    }
    record.write(results)


if __name__ == "__main__":
    main()
