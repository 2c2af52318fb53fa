r"""Partial rotary, p-RoPE and xPos, trained; what each lane pair of a trained RoPE model does; low precision.

    python benchmarks/rope_closely.py            # ten minutes; finished parts are kept in runs/rope_closely

The forms are small models, each at the learning rate that it does best with (see `record.train_cells`); lanes and
precision are those of the text study's RoPE. Writes results/rope_closely.json. Chapter: RoPE, looked at closely.
"""

import dataclasses
import inspect

import record
import torch

from posenc import Encoding
from posenc.chapters.rope_closely.figures import ROUNDED, turn_rounded
from posenc.lab.experiments.run import HELD_BACK
from posenc.lab.train import settings_for, train_with
from posenc.lab.train.measures import head_scores, held_out_windows, validation
from posenc.lab.train.tasks import load_corpus
from posenc.rotate.rope import inv_freq, rope, rotate, xpos

SETTINGS = record.chosen("rope")
D = SETTINGS.dim // SETTINGS.num_heads
SHIFTS = [0, 128, 256, 512, 2048, 8192, 32_768]
RATES = (3e-3, 6e-3, 1.2e-2, 2.4e-2)
NANO = settings_for("nano", windows=960, held_back=HELD_BACK)  # the arms are trained at this: 6 pairs a head
SIZE = NANO.dim // NANO.num_heads
ARMS = {
    "rope": ("RoPE, all 6 pairs", lambda layer: rope(SIZE)),
    "p67": ("p-RoPE, the 4 fastest pairs", lambda layer: rope(SIZE, rotary_dim=8, proportional=True)),
    "p33": ("p-RoPE, the 2 fastest pairs", lambda layer: rope(SIZE, rotary_dim=4, proportional=True)),
    "squeezed33": ("the ladder squeezed into 2 pairs", lambda layer: rope(SIZE, rotary_dim=4)),
    "xpos": ("xPos, B = 16", lambda layer: xpos(SIZE, scale_base=NANO.length / 2)),
}
# Written before the first run, of three seeds at one rate. Each is on the change from RoPE, by seed: in the loss at the
# training length ("short"), or at eight times that ("long"). A change counts beyond the tolerance.
TOLERANCE = 0.05
PREDICTIONS = [
    ("p67", "short", "holds", "Four pairs still hold wavelengths far beyond the window."),
    ("p33", "short", "holds", "Both wavelengths are shorter than the window, and most attention is near."),
    ("p33", "long", "falls", "No pair that turns has an unseen angle left, so most of RoPE's rise is gone."),
    ("squeezed33", "long", "stays", "The squeezed ladder keeps a slow pair, whose angles beyond the window are new."),
    ("xpos", "short", "holds", "Within the window a model can make up for the decay by larger queries and keys."),
    ("xpos", "long", "falls", "Far scores fade; but the slow pairs, whose angles are new, fade least."),
]


class Lanes(torch.nn.Module):
    """RoPE with frequencies of its own and some pairs taken out of the score."""

    def __init__(self, frequencies, kept):
        super().__init__()
        self.frequencies, self.kept = frequencies, kept.repeat_interleave(2)

    def forward(self, q, k, at):
        q, k = (rotate(x, p[:, None], self.frequencies) for x, p in ((q, at.pos_q), (k, at.pos_k)))
        return q * self.kept.to(q.dtype), k


def loss(model, windows, encoding=None, positions=None):
    """Loss on the targets within the training length, with another encoding in every layer."""
    model = model if encoding is None else record.with_encoding(model, encoding)
    return record.target_loss(model, windows, SETTINGS, SETTINGS.length, positions=positions)


def lane_losses(model, windows):
    r"""Loss with each pair, or a pair and all slower ones, unturned (frequency 0), and with each pair taken out."""
    w, every = inv_freq(D, dtype=torch.float64), torch.arange(D // 2)
    one = torch.ones(D // 2, dtype=torch.float64)

    def without(pairs, turned):
        off = torch.where(pairs, 0.0, 1.0).double()
        return loss(model, windows, Encoding(rotate=Lanes(w * off if turned else w, one if turned else off)))

    return {
        "unturned": [without(every == p, True) for p in every],
        "unturned_from": [without(every >= p, True) for p in (3, 6, 9)],
        "removed": [without(every == p, False) for p in every],
    }


def shifted_losses(model, windows):
    """Loss with all positions moved by each of SHIFTS, for each way to round on the way to cos and sin."""

    def encoding(where):
        def turn(q, k, at):
            w = inv_freq(D, dtype=torch.float64)
            return tuple(turn_rounded(x, p[:, None], w, where) for x, p in ((q, at.pos_q), (k, at.pos_k)))

        return Encoding(rotate=turn)

    positions = torch.arange(SETTINGS.length)
    return {where: [loss(model, windows, encoding(where), positions + shift) for shift in SHIFTS] for where in ROUNDED}


@torch.no_grad()
def lane_energy(model, held, count=64):
    r"""Mean square of each pair's part of the score, and how much of it is the same whatever the text says.

    The part of pair p in q.k / sqrt(D), less its mean over the keys that the query sees, since softmax ignores that.
    Its mean square over pairs of a query and a visible key, in squared logits, is "energy". The mean square of what is
    left when the part is averaged over windows, at the same places of query and key, is "position".
    """
    length = SETTINGS.length
    starts = torch.linspace(0, len(held) - length, count, dtype=torch.float64).long()
    tokens = held[starts[:, None] + torch.arange(length)]
    layers, inputs = [block.attention for block in model.blocks], []
    hooks = [layer.register_forward_pre_hook(lambda module, args: inputs.append(args[0])) for layer in layers]
    model(tokens)
    for hook in hooks:
        hook.remove()
    w, at = inv_freq(D, dtype=torch.float64), torch.arange(length)
    visible = torch.ones(length, length, dtype=torch.float64).tril()
    keys = visible.sum(-1, keepdim=True)
    found = []
    for number, (layer, x) in enumerate(zip(layers, inputs)):
        q, k = (to(x).unflatten(-1, (-1, D)).transpose(1, 2).double() for to in (layer.to_q, layer.to_k))
        q, k = (rotate(x, at, w).unflatten(-1, (-1, 2)) for x in (q, k))  # [B, H, T, D/2, 2]
        for head in range(q.shape[1]):
            parts = torch.einsum("bipc,bjpc->bpij", q[:, head], k[:, head]) / D**0.5
            parts = (parts - (parts * visible).sum(-1, keepdim=True) / keys) * visible
            energy = parts.square().mean(0).sum((-2, -1)) / visible.sum()
            position = parts.mean(0).square().sum((-2, -1)) / visible.sum()
            found.append({"layer": number, "head": head, "energy": energy.tolist(), "position": position.tolist()})
    return found


def measure_lanes(seed):
    """What a trained RoPE model's pairs do, and what rounding does to it."""
    corpus = load_corpus()
    model, _ = train_with("rope", SETTINGS, seed, device="cpu", progress=False)
    windows = held_out_windows(corpus.held_out, SETTINGS)[::4]
    scores = head_scores(model, SETTINGS)
    energies = lane_energy(model, corpus.held_out)
    return {
        "lanes": {"trained": loss(model, windows)} | lane_losses(model, windows),
        "shifted": shifted_losses(model, windows),
        "heads": [score | energy for score, energy in zip(scores["heads"], energies)],
        "inv_freq": scores["inv_freq"],
    }


def measure_arm(name, rate, seed):
    """The loss at each context length of an arm."""
    settings = dataclasses.replace(NANO, lr=rate)
    model, _ = train_with(ARMS[name][1], settings, seed, device="cpu", progress=False)
    windows = held_out_windows(load_corpus().held_out, NANO)
    losses = [record.targets_of(model, windows, NANO, length) for length in NANO.lengths]
    scores = {"losses": [each.mean().item() for each in losses], "in_blocks": record.in_blocks(losses[0], losses[-1])}
    return {"validation": validation(model, "text", NANO), "scores": scores}


def main():
    results = record.begun(__doc__, "rope_closely", "study", SETTINGS)
    lanes = [record.kept(f"rope_closely/lanes-{seed}", measure_lanes, seed) for seed in record.SEEDS]
    cells = record.train_cells([(name,) for name in ARMS], RATES, measure_arm, "rope_closely/arms")
    arms = {name: record.arm_results(cells, (name,), RATES) for name in ARMS}
    results |= {
        "seeds": list(record.SEEDS),
        "arm_settings": dataclasses.asdict(NANO),
        "lengths": NANO.lengths,
        "unit": "nats per character",
        "tolerance": TOLERANCE,
        "predictions": [dict(zip(("arm", "at", "claim", "why"), row)) for row in PREDICTIONS],
        "arms": {name: words for name, (words, _) in ARMS.items()},
        "rates": {name: {key: found[key] for key in ("rate", "validation")} for name, found in arms.items()},
        "losses": {name: found["scores"]["losses"] for name, found in arms.items()},
        "in_blocks": {name: record.over_seeds(found["scores"]["in_blocks"]) for name, found in arms.items()},
        "about_blocks": record.IN_BLOCKS + "those of the arms, at the first length and then at the last.",
        "lanes": {kind: [cell["lanes"][kind] for cell in lanes] for kind in lanes[0]["lanes"]},
        "shifts": SHIFTS,
        "shifted": {where: [cell["shifted"][where] for cell in lanes] for where in ROUNDED},
        "question": "What does each pair of lanes do in a trained RoPE model, and what do partial forms, xPos and low "
        "precision change?",
        "energy_definition": " ".join(lane_energy.__doc__.split("\n\n")[1].split()),
        "heads": lanes[0]["heads"],
        "inv_freq": lanes[0]["inv_freq"],
        "scores_definition": inspect.cleandoc(head_scores.__doc__),
        "heads_seed": record.SEEDS[0],
    }
    record.write(results)


if __name__ == "__main__":
    main()
