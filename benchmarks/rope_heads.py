r"""What do the trained heads of a RoPE model make of distance? Train one with seed 0, and freeze its mean scores.

    python benchmarks/rope_heads.py

Writes results/rope_heads.json, as `posenc.lab.train.measure.head_scores` returns it. Chapter: RoPE.
"""

import inspect
import sys
from pathlib import Path

import torch

from posenc.lab.experiments import check_results, provenance, write_json
from posenc.lab.train import settings_for, train_with
from posenc.lab.train.measure import head_scores


def main():
    torch.set_num_threads(1)
    settings = settings_for("study")
    model, _ = train_with("rope", settings, 0, device="cpu")
    results = provenance("rope_heads", "study", settings, "python " + " ".join(sys.argv))
    results |= {"seed": 0, "definition": inspect.cleandoc(head_scores.__doc__)} | head_scores(model, settings)
    write_json(Path("results/rope_heads.json"), check_results(results))


if __name__ == "__main__":
    main()
