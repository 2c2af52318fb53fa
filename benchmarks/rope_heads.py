r"""What do the trained heads of a RoPE model make of distance? Train one with seed 0, and freeze its mean scores.

    python benchmarks/rope_heads.py

Writes results/rope_heads.json, as `posenc.lab.train.measures.head_scores` returns it. Chapter: RoPE.
"""

import inspect

import record

from posenc.lab.train import train_with
from posenc.lab.train.measures import head_scores


def main():
    settings = record.chosen("rope")
    facts = record.begun(__doc__, "rope_heads", "study", settings)
    model, _ = train_with("rope", settings, 0, device="cpu")
    about = {"seed": 0, "definition": inspect.cleandoc(head_scores.__doc__)}
    record.write(facts | about | head_scores(model, settings))


if __name__ == "__main__":
    main()
