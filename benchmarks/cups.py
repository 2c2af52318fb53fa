r"""Three cups that are swapped again and again: which one stands first? One layer of attention, seven methods.

    python benchmarks/cups.py              # twenty minutes of one core; runs are kept in runs/cups

A sequence names the three cups, then swaps of two places. After each swap the model says which cup stands at the first
place. Swaps do not commute, so no sum over them tells the answer; a product of reflections does. Each method gets the
best of three learning rates by the validation loss of two seeds; all runs stand in results/cups.json. Chapter: When
content moves the ruler.
"""

import math

import record
import torch
from torch.nn.functional import cross_entropy

from posenc.lab.train import settings_for
from posenc.lab.train.tiny import Decoder, encoding_maker

RATES = (1e-3, 3e-3, 1e-2)
METHODS = ("nope", "rope", "alibi", "stickbreaking", "cope", "fox", "path")
SWAPS = ((0, 1), (0, 2), (1, 2))
LENGTHS = (8, 16, 32)  # swaps; training has 8
SETTINGS = settings_for(
    "study", "flipflop", dim=48, num_layers=1, num_heads=4, length=11, targets=8, steps=600, batch=64
)
TOLERANCE = 0.05
# Written before the run, on the share of wrong answers after eight swaps, and on its change to four times as many.
PREDICTIONS = {
    "nope": ("in", "wrong", "A bag of swaps does not tell what they make together."),
    "rope": ("in", "wrong", "One layer weighs the swaps by where they stand, and then adds: no product of them."),
    "alibi": ("in", "wrong", "As RoPE: what is added does not depend on the order enough."),
    "stickbreaking": (
        "in",
        "wrong",
        "It may find the last swap that touched the first place, but not what it brought.",
    ),
    "cope": ("in", "wrong", "Gates are added up, and a sum does not know the order of its terms."),
    "fox": ("in", "wrong", "As CoPE: the decay is a sum of what lies between."),
    "path": ("in", "right", "A swap of two places is a reflection, and PaTH multiplies reflections in their order."),
}
LONGER = ("path", "rises", "A reflection that is learned a little wrong is multiplied 32 times instead of 8.")


def make(generator, size, swaps):
    """Tokens [B, 3 + swaps]: cups 0, 1, 2 and swaps 3, 4, 5; and answers [B, swaps], the cup at the first place."""
    which = torch.randint(len(SWAPS), (size, swaps), generator=generator)
    cups, answers = torch.arange(3).repeat(size, 1), []
    orders = torch.tensor([[1, 0, 2], [2, 1, 0], [0, 2, 1]])
    for step in which.T:
        cups = cups.gather(1, orders[step])
        answers.append(cups[:, 0])
    return torch.cat((torch.arange(3).repeat(size, 1), which + 3), dim=1), torch.stack(answers, dim=1)


def run(method, rate, seed):
    """Train one model: its validation loss, and the share of wrong answers to the last eight swaps at each length."""
    torch.manual_seed(seed)
    model = Decoder(6, SETTINGS.dim, SETTINGS.num_layers, SETTINGS.num_heads, encoding_maker(method, SETTINGS))
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=SETTINGS.weight_decay)
    generator = torch.Generator().manual_seed(seed)
    for step in range(SETTINGS.steps):
        tokens, answers = make(generator, SETTINGS.batch, LENGTHS[0])
        loss = cross_entropy(model(tokens)[:, 3:, :3].flatten(0, 1), answers.flatten())
        cosine = 0.55 + 0.45 * math.cos(math.pi * step / SETTINGS.steps)  # down to a tenth
        record.descend(loss, model, optimizer, rate * min(1, (step + 1) / SETTINGS.warmup) * cosine, SETTINGS.clip)
    with torch.no_grad():
        tokens, answers = make(torch.Generator().manual_seed(2**31 + 1), 512, LENGTHS[0])
        validation = cross_entropy(model(tokens)[:, 3:, :3].flatten(0, 1), answers.flatten()).item()
        scores = {}
        for length in LENGTHS:
            tokens, answers = make(torch.Generator().manual_seed(2**31), 512, length)
            wrong = model(tokens)[:, 3:, :3].argmax(-1) != answers
            scores[str(length)] = wrong[:, -LENGTHS[0] :].float().mean().item()
    return {"validation": validation, "scores": scores}


def main():
    facts = record.begun(__doc__, "cups", "study", SETTINGS)
    cells = record.train_cells([(method,) for method in METHODS], RATES, run, "cups")
    found = {method: record.arm_results(cells, (method,), RATES) for method in METHODS}
    results = {
        "question": "Which cup stands first after a row of swaps? What is asked for is a product, in one layer.",
        "unit": "share of wrong answers",
        "seeds": list(record.SEEDS),
        "rates": list(RATES),
        "lengths": list(LENGTHS),
        "chance": 2 / 3,
        "tests": {str(length): f"{length} swaps; the answers to the last eight count" for length in LENGTHS},
        "tolerance": TOLERANCE,
        "predicted": {name: list(row) for name, row in PREDICTIONS.items()},
        "predicted_longer": list(LONGER),
        "headline": "PaTH (arXiv 2505.16381) can solve a problem that is complete for NC1, which RoPE at a fixed "
        "depth cannot, unless TC0 = NC1.",
        "shows_not": "Language: nothing here says how often a text asks for a product.",
        "methods": {
            method: {key: found[method][key] for key in ("rate", "validation", "scores")} for method in METHODS
        },
    }
    record.write(facts | results)


if __name__ == "__main__":
    main()
