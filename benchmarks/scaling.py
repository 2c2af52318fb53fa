r"""Which lanes break RoPE beyond its training length, and what each scheme of scaling does about it.

    python benchmarks/scaling.py surgery        # writes results/rope_surgery.json
    python benchmarks/scaling.py schemes        # writes results/scaling.json

Surgery: the RoPE models of the book's text study, trained anew; only the test changes. Up to distance L - 1 scores are
as trained. At greater distances the stopped pairs of lanes keep the angle that they have at distance L - 1, the largest
seen in training, and the others turn on. Stopped are the `cutoff` slowest pairs, or the `cutoff` fastest, for every
cutoff: the loss by place, on every fourth of the study's windows. Besides, on the targets of all windows at each
length: no pair, "slow" ones, whose wavelength exceeds L, "fast" ones, or all, which leaves no angle new, but more keys.

Schemes: the same trained models, tested at L, 2L, 4L and 8L with the frequencies that each scheme gives for that
length, "before" without any training and "after" a short fine-tuning at that length, which plain RoPE gets too. Loss
on the same target characters at every length, whole and with attention cut to L keys;
"price", the loss at L of what the scheme makes for 8L. The same for models trained on the needle task: errors by
distance at 8L.

Finished seeds are kept in runs/: the first takes a quarter of an hour of a core, the second twice as long.
Chapters: RoPE, Longer than trained.
"""

import copy
import math

import record
import torch
from torch.nn.functional import interpolate
from tqdm import tqdm

from posenc import Encoding, scaling
from posenc.lab.train import train_with
from posenc.lab.train.measures import fixed_batch, held_out_windows, needle_distances, share_wrong, target_losses
from posenc.lab.train.tasks import load_corpus
from posenc.rotate.rope import inv_freq, rope, rotate

SEEDS = record.SEEDS
SETTINGS = {"text": record.chosen("rope"), "needle": record.chosen("rope", "needle")}
HEAD_DIM = {task: s.dim // s.num_heads for task, s in SETTINGS.items()}
PAIRS = HEAD_DIM["text"] // 2
SLOW = int((2 * math.pi / inv_freq(HEAD_DIM["text"]) > SETTINGS["text"].length).sum())  # pairs that make no turn
BINS, WHEN = 32, ("before", "after")
UNTIL = [int(part[-1]) for part in torch.arange(SETTINGS["text"].lengths[-1]).tensor_split(BINS)]
FINE_TUNING = {"steps": 60, "tokens a step": 1024, "lr": 1e-3}
NEW_BASE = 1e6  # Code Llama's

# Written before the first run, of three seeds at one rate. The change meant is the loss on the targets at 8L less L's.
PREDICTIONS = {
    "plain": "Before: rises most. After: fine-tuning sees the new angles, so most of the rise goes.",
    "linear": "Before: no angle is new, but neighbors stand at an eighth of a token, which is new too: rises, less "
    "than plain. After: near the trained loss.",
    "ntk": "Before: fast lanes keep neighbors apart and the slowest lane stays within its seen angles: the smallest "
    "rise but for YaRN's. Some middle lanes still meet new angles.",
    "dynamic_ntk": "The same as ntk at every length, since all that differs is that it needs no choice of length.",
    "yarn": "Before: the smallest rise of those that need no search. With L = 64 no lane turns 32 times, so its ramp "
    "interpolates nearly all and it is closer to linear than in the paper.",
    "yarn_rotations": "Close to yarn: two ramps between the same ends.",
    "llama3": "Before: a rise like ntk's. It keeps lanes that turn 4 times within L, as its authors chose.",
    "longrope": "Before: at least as good as the best of the others, whose shapes its search can nearly reach.",
    "base": "Before: rises at L already, since every lane turns at a rate it was not trained with. After: the training "
    "repairs that, as Code Llama's did with many more steps.",
}


def frequencies(scheme, factor, task, long=None):
    """(inv_freq, attention_factor) of a scheme at `factor` times the trained length."""
    dim, trained = HEAD_DIM[task], SETTINGS[task].length
    return {
        "plain": lambda: scaling.linear(dim, 1.0),
        "linear": lambda: scaling.linear(dim, factor),
        "ntk": lambda: scaling.ntk(dim, factor),
        "dynamic_ntk": lambda: scaling.dynamic_ntk(dim, length=factor * trained, trained=trained),
        "yarn": lambda: scaling.yarn(dim, factor, trained=trained),
        "yarn_rotations": lambda: scaling.yarn(dim, factor, trained=trained, ramp="rotations"),
        "llama3": lambda: scaling.llama3(dim, factor, trained=trained, base=10000.0),
        "longrope": lambda: scaling.longrope(
            dim, factor, short=[1.0] * (dim // 2), long=long, length=factor * trained, trained=trained
        ),
        "base": lambda: scaling.linear(dim, 1.0, base=NEW_BASE),
    }[scheme]()


def scaled(model, pair, task):
    return record.with_encoding(model, rope(HEAD_DIM[task], inv_freq=pair[0], attention_factor=pair[1]))


def search(model, training, length):
    r"""LongRoPE's factors by a small search: the best of 36 ramps from 1 to s over the lanes, on training text.

    The paper searches each lane's factor by evolution, rising from lane to lane; a ramp has two numbers instead.
    """
    s, best = SETTINGS["text"], (float("inf"), None)
    factor = length / s.length
    for start in range(0, PAIRS, 2):
        for width in (1, 2, 4, 6, 9, 12):
            share = ((torch.arange(PAIRS, dtype=torch.float64) - start) / width).clamp(0, 1)
            long = (factor**share).tolist()
            tried = scaled(model, frequencies("longrope", factor, "text", long), "text")
            best = min(best, (record.target_loss(tried, training, s, length), long))
    return best[1]


def both(new, task, length, seed):
    """A model before and after a few more steps at another length, as many tokens a step as before."""
    steps, batch = FINE_TUNING["steps"], FINE_TUNING["tokens a step"] // length
    rates = [FINE_TUNING["lr"] * min(1.0, (step + 1) / 10) * (1 - step / steps) for step in range(steps)]
    return {"before": new, "after": record.fine_tune(copy.deepcopy(new), task, length, batch, rates, 1000 + seed)}


def by_position(model, windows, cut=None):
    return [part.mean().item() for part in target_losses(model, windows, cut=cut).mean(0).tensor_split(BINS)]


def measure_text(seed):
    """Every scheme before and after fine-tuning, for one model trained on text."""
    s, corpus = SETTINGS["text"], load_corpus()
    model, _ = train_with("rope", s, seed, device="cpu", progress=False)
    windows = held_out_windows(corpus.held_out, s)
    starts = torch.linspace(0, len(corpus.train) - s.lengths[-1] - 1, 16, dtype=torch.float64).long()
    training = corpus.train[starts[:, None] + torch.arange(s.lengths[-1] + 1)]
    found = {}
    for scheme in tqdm(PREDICTIONS, desc=f"text, seed {seed}"):
        cell, long = {when: {"whole": [], "cut": [], "in_blocks": []} for when in WHEN}, None
        for length in s.lengths:
            if scheme == "longrope":
                long = search(model, training, length) if length > s.length else [1.0] * PAIRS
            pair = frequencies(scheme, length / s.length, "text", long)
            models = both(scaled(model, pair, "text"), "text", length, seed)
            for when, one in models.items():
                losses = record.targets_of(one, windows, s, length)
                cell[when]["whole"].append(losses.mean().item())
                cell[when]["cut"].append(record.target_loss(one, windows, s, length, cut=s.length))
                if length in (s.lengths[0], s.lengths[-1]):
                    cell[when]["in_blocks"] += record.in_blocks(losses)
        for when, one in models.items():  # of the longest length
            follows = scheme in ("dynamic_ntk", "longrope")  # the length: at L these are plain
            at_length = rope(HEAD_DIM["text"]) if follows else one.blocks[0].attention.encoding
            cell[when]["price"] = record.target_loss(record.with_encoding(one, at_length), windows, s, s.length)
        found[scheme] = cell | {"factors": long}
    return found


def measure_needle(seed):
    """Errors by distance in the longest context, before and after fine-tuning, for one model trained on needles."""
    s, long = SETTINGS["needle"], needle_factors(record.kept(f"scaling/text-{seed}", measure_text, seed))
    model, _ = train_with("rope", s, seed, "needle", device="cpu", progress=False)
    longest, found = s.lengths[-1], {}
    asked = [{"length": longest, "distance": distance, "questions": 1} for distance in needle_distances(s)]
    batches = [fixed_batch("needle", s, options, 32) for options in asked]
    for scheme in tqdm([name for name in PREDICTIONS if name != "dynamic_ntk"], desc=f"needle, seed {seed}"):
        new = scaled(model, frequencies(scheme, s.multiples[-1], "needle", long), "needle")
        models = both(new, "needle", longest, seed)
        found[scheme] = {when: [share_wrong(one, batch) for batch in batches] for when, one in models.items()}
        if scheme == "plain":
            found[scheme]["cut"] = [share_wrong(new, batch, cut=s.length) for batch in batches]
    return found


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


def measure_surgery(seed):
    """The losses of one trained model with pairs stopped, by place and on the targets."""
    s = SETTINGS["text"]
    model, _ = train_with("rope", s, seed, device="cpu", progress=False)
    windows = held_out_windows(load_corpus().held_out, s)
    index, found = torch.arange(PAIRS), {"slow": [], "fast": []}
    for cutoff in tqdm(range(PAIRS + 1), desc=f"seed {seed}"):
        for kind, stopped in (("slow", index >= PAIRS - cutoff), ("fast", index < cutoff)):
            changed = record.with_encoding(model, stopping(stopped, s.length))
            found[kind].append(by_position(changed, windows[::4]))
    found["cut"], targets = by_position(model, windows[::4], cut=s.length), {}
    groups = {"none": index < 0, "slow": index >= PAIRS - SLOW, "fast": index < PAIRS - SLOW, "all": index >= 0}
    for name, stopped in groups.items():
        changed = record.with_encoding(model, stopping(stopped, s.length))
        targets[name] = [record.targets_of(changed, windows, s, length) for length in s.lengths]
    targets["cut"] = [record.targets_of(model, windows, s, length, cut=s.length) for length in s.lengths]
    means = {name: [losses.mean().item() for losses in each] for name, each in targets.items()}
    plain = [record.target_loss(model, windows, s, length) for length in s.lengths]
    if max(abs(a - b) for a, b in zip(plain, means["none"])) > 1e-4:
        raise RuntimeError(f"with no pair stopped the losses {means['none']} must be RoPE's own, {plain}")
    blocks = {name: record.in_blocks(each[0], each[-1]) for name, each in targets.items()}
    return found | {"targets": means, "in_blocks": blocks}


def surgery(results):
    s = SETTINGS["text"]
    found = record.in_turn([(seed,) for seed in SEEDS], measure_surgery, "rope_surgery", "seeds")
    cells = [found[seed,] for seed in SEEDS]
    return results | {
        "seeds": list(SEEDS),
        "unit": "nats per character",
        "definition": __doc__.split("\n\n")[2],
        "about_blocks": record.IN_BLOCKS + "at the first length and then at the last.",
        "lengths": s.lengths,
        "until": UNTIL,
        "cutoffs": list(range(PAIRS + 1)),
        "stopped": {kind: [cell[kind] for cell in cells] for kind in ("slow", "fast")},  # [seed][cutoff][bin]
        "cut": [cell["cut"] for cell in cells],  # [seed][bin]
        "slow_pairs": SLOW,
        "pairs": PAIRS,
        "targets": {name: [cell["targets"][name] for cell in cells] for name in cells[0]["targets"]},  # [seed][length]
        "in_blocks": {
            name: record.over_seeds([cell["in_blocks"][name] for cell in cells]) for name in cells[0]["targets"]
        },
    }


def measure_schemes(task, seed):
    return {"text": measure_text, "needle": measure_needle}[task](seed)


def schemes(results):
    s, found = SETTINGS["text"], {}
    for task in SETTINGS:
        found |= record.in_turn([(task, seed) for seed in SEEDS], measure_schemes, "scaling", f"seeds, {task}")
    text, needle = ([found[task, seed] for seed in SEEDS] for task in SETTINGS)
    kept = ("whole", "cut", "price")
    return results | {
        "seeds": list(SEEDS),
        "unit": "nats per character",
        "definition": __doc__.split("\n\n")[3],
        "about_blocks": record.IN_BLOCKS + "whole, at the first length and then at the last, before and then after.",
        "predictions": PREDICTIONS,
        "lengths": s.lengths,
        "fine_tuning": FINE_TUNING,
        "distances": needle_distances(SETTINGS["needle"]),
        "needle_cut": [cell["plain"]["cut"] for cell in needle],  # [seed][distance], plain RoPE with attention cut
        "new_base": NEW_BASE,
        "schemes": {
            scheme: {
                "text": {when: {key: [cell[scheme][when][key] for cell in text] for key in kept} for when in WHEN},
                "in_blocks": record.over_seeds(
                    [sum((cell[scheme][when]["in_blocks"] for when in WHEN), []) for cell in text]
                ),
                # at one length the dynamic form is the static one
                "needle": {when: [cell[scheme.removeprefix("dynamic_")][when] for cell in needle] for when in WHEN},
            }
            | ({"factors": [cell[scheme]["factors"] for cell in text]} if scheme == "longrope" else {})
            for scheme in PREDICTIONS
        },
    }


def needle_factors(text):
    """LongRoPE's factors from the search on text, brought to the needle model's number of pairs."""
    factors = torch.tensor(text["longrope"]["factors"])
    return interpolate(factors[None, None], HEAD_DIM["needle"] // 2, mode="linear", align_corners=True)[0, 0].tolist()


def main():
    what = record.asked(__doc__, {"what": {"choices": ("surgery", "schemes")}}).what
    name, measure = {"surgery": ("rope_surgery", surgery), "schemes": ("scaling", schemes)}[what]
    record.write(measure(record.facts(name, "study", SETTINGS["text"])))


if __name__ == "__main__":
    main()
