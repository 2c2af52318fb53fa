import torch

from posenc.lab.check import Exercise


def angle(positions, w):
    return positions * w


ON_PAPER = 1  # points

EXERCISES = {
    "angle": Exercise(
        points=2,
        reference=angle,
        cases=[(torch.tensor([0.0, 1.0, 5.0]), 0.5), (torch.tensor([2.0, -3.0]), 0.1)],
        mistakes={
            "the sign of the angle is flipped": "positions -> -positions",
            "positions are off by one": "positions -> (positions + 1)",
            "it divides by the frequency": "* w -> / w",
        },
    )
}
