r"""Which pairs of lanes break RoPE beyond its training length? Stop some at the last angle seen; freeze the losses.

    python benchmarks/rope_lanes.py        # ten minutes of a core a seed; finished ones are kept in runs/rope_lanes

Trains the RoPE models of the book's text study anew, and changes only the test: up to distance L - 1, with L the
training length, scores are as trained. At greater distances the stopped pairs keep the angle of distance L - 1, and the
other pairs go on. "slow" are the pairs whose wavelength exceeds L. With "all" pairs stopped no angle is new, and what
is left is the number of keys.
Writes results/rope_lanes.json. Chapter: RoPE.
"""

import math

import record
import torch

from posenc import Encoding
from posenc.lab.train import train_with
from posenc.lab.train.measures import held_out_windows
from posenc.lab.train.tasks import load_corpus
from posenc.rotate.rope import inv_freq, rotate

SETTINGS = record.chosen("rope")


def stopping(stopped, length):
    r"""An encoding with RoPE's scores up to distance length - 1; beyond, the pairs `stopped` [D/2] turn no farther.

    It sits at `bias`, where all that is needed is known: it adds the wanted score and takes the plain one away.
    """

    def bias(q, k, at):
        w = inv_freq(q.shape[-1], dtype=torch.float64).to(q.device)
        pos_q, pos_k = at.pos_q[:, None], at.pos_k[:, None]  # [B, 1, T]
        near = rotate(q, pos_q, w) @ rotate(k, pos_k, w).transpose(-2, -1)
        held = rotate(q, torch.full_like(pos_q, length - 1), w * stopped)
        far = rotate(held, pos_q, w * ~stopped) @ rotate(k, pos_k, w * ~stopped).transpose(-2, -1)
        distance = pos_q[..., :, None] - pos_k[..., None, :]
        wanted = torch.where(distance < length, near, far)
        return (wanted - q @ k.transpose(-2, -1)) / math.sqrt(q.shape[-1])

    return Encoding(bias=bias)


def losses(model, windows, encoding=None, cut=None):
    """Loss on the targets at each context length, in nats per character, with another encoding in every layer."""
    model = model if encoding is None else record.with_encoding(model, encoding)
    return [record.target_loss(model, windows, SETTINGS, length, cut=cut) for length in SETTINGS.lengths]


SLOW = 2 * math.pi / inv_freq(SETTINGS.dim // SETTINGS.num_heads) > SETTINGS.length


def measure(seed):
    """The losses of one trained model with each group of pairs stopped."""
    model, _ = train_with("rope", SETTINGS, seed, device="cpu", progress=False)
    windows = held_out_windows(load_corpus().held_out, SETTINGS)
    groups = {"none": torch.zeros_like(SLOW), "slow": SLOW, "fast": ~SLOW, "all": torch.ones_like(SLOW)}
    found = {name: losses(model, windows, stopping(group, SETTINGS.length)) for name, group in groups.items()}
    trained = losses(model, windows)
    if max(abs(a - b) for a, b in zip(trained, found["none"])) > 1e-4:
        raise RuntimeError(f"with no pair stopped the losses {found['none']} must be RoPE's own, {trained}")
    return found | {"cut": losses(model, windows, cut=SETTINGS.length)}


def main():
    facts = record.begun(__doc__, "rope_lanes", "study", SETTINGS)
    found = record.in_turn([(seed,) for seed in record.SEEDS], measure, "rope_lanes", "seeds")
    cells = [found[seed,] for seed in record.SEEDS]
    results = facts | {
        "seeds": list(record.SEEDS),
        "choice": {"rope": {"lr": SETTINGS.lr}},
        "lengths": SETTINGS.lengths,
        "unit": "nats per character",
        "definition": __doc__.split("\n\n")[2],
        "slow_pairs": int(SLOW.sum()),
        "pairs": SETTINGS.dim // SETTINGS.num_heads // 2,
        "stopped": {name: [cell[name] for cell in cells] for name in cells[0]},
    }
    record.write(results)


if __name__ == "__main__":
    main()
