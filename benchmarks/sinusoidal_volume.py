r"""How loud must the sinusoid be? Train at several volumes, test on fixed targets, freeze the losses.

    python benchmarks/sinusoidal_volume.py

The embeddings of `posenc.tiny` have variance 1, so volume v puts the encoding at v / sqrt(2) of their length. Volume 0
is NoPE. Volume 1/sqrt(C) is the proportion that embeddings of variance 1 times sqrt(C) give.
Writes results/sinusoidal_volume.json, in the form of `posenc.train.load_results`. Chapter: Sinusoidal.
"""

import sys
from pathlib import Path

import torch
from tqdm import tqdm

from posenc import make
from posenc.train import KINDS, check_results, load_corpus, provenance, settings_for, short_long, train_with, write_json

SETTINGS = settings_for("lab")
DROWNED = SETTINGS.dim**-0.5
VOLUMES = (0.0, DROWNED, 0.3, 1.0)
SEEDS = range(3)


def measure(volume, seed):
    """The losses of one model, rounded."""
    model, _ = train_with(lambda layer: make("sinusoidal", volume=volume), SETTINGS, seed, device="cpu", progress=False)
    return {kind: [round(loss, 6) for loss in losses] for kind, losses in short_long(model, SETTINGS).items()}


def main():
    torch.set_num_threads(1)
    results = provenance("sinusoidal_volume", "lab", SETTINGS, load_corpus(), "python " + " ".join(sys.argv))
    facts = {"targets": SETTINGS.targets, "length": SETTINGS.length, "reach": SETTINGS.length - 1}
    cells = {}
    for seed, volume in tqdm([(seed, volume) for seed in SEEDS for volume in VOLUMES]):
        cells[seed, volume] = measure(volume, seed)
    results |= {
        "seeds": list(SEEDS),
        "lengths": SETTINGS.lengths,
        "unit": "nats per character",
        "definitions": {kind: text.format(**facts) for kind, text in KINDS.items()},
        "volumes": VOLUMES,
        "drowned": DROWNED,
        "methods": {
            f"{volume:.4f}": {kind: [cells[seed, volume][kind] for seed in SEEDS] for kind in KINDS}
            for volume in VOLUMES
        },
    }
    write_json(Path("results/sinusoidal_volume.json"), check_results(results))


if __name__ == "__main__":
    main()
