import torch

from posenc.lab.exercises import Exercise


def angle(positions, w):
    return positions * w


ON_PAPER = 1  # points

EXERCISES = {
    "angle": Exercise(
        title="Exercise 1, angle",
        points=2,
        reference=angle,
        cases=[(torch.tensor([0.0, 1.0, 5.0]), 0.5), (torch.tensor([2.0, -3.0]), 0.1)],
        mistakes={
            "the sign of the angle is flipped": lambda positions, w: -positions * w,
            "positions are off by one": lambda positions, w: (positions + 1) * w,
            "it divides by the frequency": lambda positions, w: positions / w,
        },
    )
}
