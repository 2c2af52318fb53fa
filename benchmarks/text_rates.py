r"""Trained on short windows of text, tested on long ones: seven methods, each with the best of three learning rates.

    python benchmarks/text_rates.py     # 63 models, two at a time: about half an hour

The sweep train_short_test_long has one learning rate for all. Here seeds 0 and 1 are trained at each of three, and the
rate with the least validation loss is trained with the other seeds. Validation characters are held-out ones that no
test counts. Finished runs are kept in runs/text_rates; all of them, those at rates that were not chosen too, stand in
results/text_rates.json. Chapters: FoX, CoPE.
"""

import argparse
import os
from pathlib import Path

import torch
from contextual import METHODS, RATES, SEEDS, arm_results, train_cells

from posenc.lab.experiments import SWEEPS, check_results, provenance, six_digits, write_json
from posenc.lab.train import settings_for, train_with
from posenc.lab.train.measure import held_out_windows, short_long, target_losses
from posenc.lab.train.tasks import load_corpus

ARMS = [arm for arm in METHODS if arm != "open"]
ONE_RATE = SWEEPS["train_short_test_long"]
# Written before the run, with the results at the one rate known.
PREDICTION = (
    "Each method does at the best of three rates what it did at one: what rose from the training length to the longest "
    "context by more than 0.05 nats rises, what held holds; and FoX's loss at the longest context differs by less than "
    "0.01 nats from its loss with the attention cut to the training length."
)


def validation_windows(settings):
    """Windows [4 W, length + 1] of held-out text, none of whose characters a test counts."""
    windows, length = held_out_windows(load_corpus().held_out, settings), settings.length
    return windows[:, 2 * length : 6 * length + 1].unfold(1, length + 1, length).flatten(0, 1)


def run(task, arm, rate, seed):
    """Train one model, and its losses at each context, whole and cut: the numbers of one cell."""
    torch.set_num_threads(1)
    settings = settings_for("study", lr=rate)
    model, _ = train_with(arm, settings, seed, device="cpu", progress=False)
    losses = short_long(model, settings)
    scores = {
        **{str(length): losses["whole"][n] for n, length in enumerate(settings.lengths)},
        **{f"{length}, cut": losses["cut"][n] for n, length in enumerate(settings.lengths)},
    }
    validation = target_losses(model, validation_windows(settings)).mean().item()
    return six_digits({"validation": validation, "scores": scores})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    settings = settings_for("study")
    facts = provenance("text_rates", "study", settings, "python benchmarks/text_rates.py")
    cells = train_cells([("text", arm) for arm in ARMS], run, Path("runs/text_rates"), arguments.workers)
    results = facts | {
        "question": "What does a longer context do to the loss, each method at its best learning rate?",
        "unit": "nats per character",
        "seeds": list(SEEDS),
        "rates": list(RATES),
        "tolerance": ONE_RATE.tolerance,
        "steps": settings.steps,
        "lengths": settings.lengths,
        "contrast": [str(settings.lengths[0]), str(settings.lengths[-1])],
        "against": None,
        "prediction": PREDICTION,
        "claims": {arm: ONE_RATE.predictions[arm][0] for arm in ARMS},
        "predictions": {arm: ONE_RATE.predictions[arm][1] for arm in ARMS},
        "headline": "FoX (arXiv 2503.02130): trained on 16,384 tokens, better than a transformer with RoPE on long "
        "texts and beyond the training length.",
        "shows_not": "That anybody uses a far context: this text hardly rewards it, so what holds may only ignore.",
        "methods": {arm: arm_results(cells, "text", arm) for arm in ARMS},
    }
    write_json(Path("results/text_rates.json"), check_results(results))


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    main()
