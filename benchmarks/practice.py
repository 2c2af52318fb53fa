r"""What do wrong position ids cost a trained model? Train the text study's models anew, and give them ids that are off.

    python benchmarks/practice.py        # an hour of one core; finished models are kept in runs/practice

Losses in nats per character, of the same characters under every kind of ids:
    new        the last 16 of 64 characters, their ids off by each of `offsets` against their prefix
    all        32 characters, all their ids moved by each of `shifts`, as left padding does
    decoding   as new: ids right, begun anew at 0, or 0 for each
    padding    32 characters right of 32 line breaks: with ids and mask right, by turns without one of them
    packing    32 characters behind 32 of another text: with ids and mask right, by turns without one of them
Share of wrong answers of models trained to find needles, at the training length:
    needle     with ids right, and with the same ids dealt out at random to the tokens of each sequence
None stands where the method refuses. Writes results/practice.json. Chapter: Position in practice.
"""

import inspect

import record
import torch
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from posenc.lab.experiments import load_results
from posenc.lab.train import train_with
from posenc.lab.train.measures import fixed_batch, held_out_windows
from posenc.lab.train.tasks import IGNORE, load_corpus

CHOICE = load_results("train_short_test_long")["choice"]
SETTINGS = record.chosen("nope")
LENGTH, NEW, HALF = SETTINGS.length, 16, SETTINGS.length // 2
OFFSETS = [-48, -40, -32, -24, -16, -12, -8, -6, -4, -3, -2, -1, 0]
SHIFTS = [0, 1, 2, 4, 8, 12, 16, 24, 32]
PROBED = ("sinusoidal", "rope", "alibi")


@torch.no_grad()
def loss(model, tokens, targets, scored, **how):
    """Mean loss of the last `scored` characters, or None where the method refuses such ids."""
    try:
        logits = model(tokens, **how)
    except ValueError:
        return None
    return cross_entropy(logits[:, -scored:].flatten(0, 1), targets[:, -scored:].flatten()).item()


def measure(method, seed):
    options = {"max_positions": LENGTH} if method == "learned" else None
    model, _ = train_with(method, record.chosen(method), seed, device="cpu", progress=False, options=options)
    corpus = load_corpus()
    windows = held_out_windows(corpus.held_out, SETTINGS)[:, -(LENGTH + 1) :]
    tokens, targets = windows[:, :-1], windows[:, 1:]
    ids = torch.arange(LENGTH)
    prefix = LENGTH - NEW

    def decoded(new_ids):
        return loss(model, tokens, targets, NEW, positions=torch.cat((ids[:prefix], new_ids)))

    values = {"new": [decoded(ids[prefix:] + offset) for offset in OFFSETS]}
    new_ids = {"right": ids[prefix:], "begun anew": ids[:NEW], "always 0": ids[:1].expand(NEW)}
    values["decoding"] = {words: decoded(own) for words, own in new_ids.items()}

    short, wanted = tokens[:, -HALF:], targets[:, -HALF:]
    values["all"] = [loss(model, short, wanted, HALF, positions=ids[:HALF] + shift) for shift in SHIFTS]

    line_break = corpus.vocabulary.index("\n")
    padded = torch.cat((torch.full_like(short, line_break), short), dim=1)
    valid = (ids >= HALF).expand(len(padded), -1)
    own = (valid.long().cumsum(1) - 1).clamp(min=0)  # ids counted by the mask
    other = tokens.roll(1, 0)[:, -HALF:]
    packed = torch.cat((other, short), dim=1)
    again = torch.cat((ids[:HALF], ids[:HALF]))
    apart = (ids[:, None] // HALF) == (ids[None, :] // HALF)
    kinds = (("padding", padded, own, {"valid": valid}), ("packing", packed, again, {"mask": apart}))
    for kind, sequence, right, mask in kinds:
        given = {"right": (right, mask), "mask only": (ids, mask), "ids only": (right, {}), "neither": (ids, {})}
        values[kind] = {
            words: loss(model, sequence, wanted, HALF, positions=at, **how) for words, (at, how) in given.items()
        }
    return values


def measure_needle(method, seed):
    settings = record.chosen(method, "needle")
    model, _ = train_with(method, settings, seed, task="needle", device="cpu", progress=False)
    batch = fixed_batch("needle", settings, {"questions": 4})
    asked = batch.targets != IGNORE
    shuffled = torch.rand(batch.tokens.shape, generator=torch.Generator().manual_seed(0)).argsort(1)

    @torch.no_grad()
    def share_wrong(positions):
        said = model(batch.tokens, positions=positions).argmax(-1)
        return ((said != batch.targets) & asked).sum().item() / asked.sum().item()

    return {"right": share_wrong(torch.arange(settings.length)), "shuffled": share_wrong(shuffled)}


def as_lists(found):
    """What each seed found: lists as they are, of dicts one dict of lists."""
    return {key: [one[key] for one in found] for key in found[0]} if isinstance(found[0], dict) else found


def main():
    results = record.begun(__doc__, "practice", "study", SETTINGS) | {
        "question": "What do wrong position ids cost a trained model?",
        "unit": "nats per character",
        "definition": inspect.cleandoc(__doc__),
        "seeds": list(record.SEEDS),
        "choice": CHOICE,
        "offsets": OFFSETS,
        "shifts": SHIFTS,
        "methods": {},
    }
    for method in tqdm(CHOICE):
        found = [record.kept(f"practice/{method}-{seed}", measure, method, seed) for seed in record.SEEDS]
        by_kind = {kind: as_lists([one[kind] for one in found]) for kind in found[0]}
        results["methods"][method] = {"scores": {"right": by_kind["decoding"]["right"]}} | by_kind
    results["needle"] = {
        method: as_lists(
            [record.kept(f"practice/needle-{method}-{s}", measure_needle, method, s) for s in record.SEEDS]
        )
        for method in tqdm(PROBED, "needle")
    }
    record.write(results)


if __name__ == "__main__":
    main()
