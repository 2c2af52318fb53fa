r"""Which lanes break RoPE beyond its training length, and what each scheme of scaling does about it.

    python benchmarks/scaling.py surgery        # writes results/rope_surgery.json
    python benchmarks/scaling.py schemes        # writes results/scaling.json

Surgery: RoPE trained as usual at length L; only the test changes. Up to distance L - 1 scores are as trained. At
greater distances the stopped pairs of lanes keep the angle that they have at distance L - 1, the largest seen in
training, and the others turn on. Stopped are the `cutoff` slowest pairs, or the `cutoff` fastest, for every cutoff.

Schemes: the same trained models, tested at L, 2L, 4L and 8L with the frequencies that each scheme gives for that
length, "before" without any training and "after" a short fine-tuning at that length, which plain RoPE gets too. Loss
on the same target characters at every length, whole and with attention cut to L keys; loss by position at the longest;
"price", the loss at L of what the scheme makes for 8L. The same for models trained on the needle task: errors by
distance at 8L.

Finished seeds are kept in runs/.
Chapter: Longer than trained.
"""

import copy
import functools

import record
import torch
from rope_lanes import stopping
from torch.nn.functional import cross_entropy, interpolate
from tqdm import tqdm

from posenc import scaling
from posenc.lab.train import settings_for, train_with
from posenc.lab.train.measure import fixed_batch, held_out_windows, needle_distances, share_wrong, target_losses
from posenc.lab.train.tasks import IGNORE, TASKS, load_corpus
from posenc.rotate.rope import rope

SEEDS = range(3)
SETTINGS = {task: settings_for("study", task) for task in ("text", "needle")}
HEAD_DIM = {task: s.dim // s.num_heads for task, s in SETTINGS.items()}
BINS = 32
FINE_TUNING = {"steps": 60, "tokens a step": 1024, "lr": 1e-3}
NEW_BASE = 1e6  # Code Llama's

# Written before the run. The change meant is that of the loss on the targets from L to 8L.
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


def search(model, windows, factor, task):
    r"""LongRoPE's factors by a small search: the best of 36 ramps from 1 to s over the lanes, on training text.

    The paper searches each lane's factor by evolution, rising from lane to lane; a ramp has two numbers instead.
    """
    pairs, best = HEAD_DIM[task] // 2, (float("inf"), None)
    for start in range(0, pairs, 2):
        for width in (1, 2, 4, 6, 9, 12):
            share = ((torch.arange(pairs, dtype=torch.float64) - start) / width).clamp(0, 1)
            long = (factor**share).tolist()
            tried = scaled(model, frequencies("longrope", factor, task, long), task)
            loss = target_losses(tried, windows)[:, -SETTINGS[task].targets :].mean().item()
            best = min(best, (loss, long))
    return best[1]


def fine_tune(model, task, length, seed):
    """Go on training a copy of the model at another length, as many tokens a step as before."""
    model = copy.deepcopy(model).train()
    steps, batch = FINE_TUNING["steps"], FINE_TUNING["tokens a step"] // length
    optimizer = torch.optim.AdamW(model.parameters(), lr=FINE_TUNING["lr"], betas=(0.9, 0.99), weight_decay=0.01)
    draws = torch.Generator().manual_seed(1000 + seed)
    for step in range(steps):
        tokens, targets = TASKS[task].batch(draws, batch, length)
        loss = cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), ignore_index=IGNORE)
        for group in optimizer.param_groups:
            group["lr"] = FINE_TUNING["lr"] * min(1.0, (step + 1) / 10) * (1 - step / steps)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


def on_targets(model, windows, length, cut=None):
    s = SETTINGS["text"]
    return target_losses(model, windows[:, -(length + 1) :], cut=cut)[:, -s.targets :].mean().item()


def by_position(model, windows):
    return [part.mean().item() for part in target_losses(model, windows).mean(0).tensor_split(BINS)]


def measure_text(seed):
    """Every scheme before and after fine-tuning, for one model trained on text."""
    s, corpus = SETTINGS["text"], load_corpus()
    model, _ = train_with("rope", s, seed, device="cpu", progress=False)
    windows = held_out_windows(corpus.held_out, s)[::2]
    starts = torch.linspace(0, len(corpus.train) - s.lengths[-1] - 1, 16, dtype=torch.float64).long()
    training = corpus.train[starts[:, None] + torch.arange(s.lengths[-1] + 1)]
    found, longest = {}, s.lengths[-1]
    for scheme in tqdm(PREDICTIONS, desc=f"text, seed {seed}"):
        cell = {"before": {"whole": [], "cut": []}, "after": {"whole": [], "cut": []}}
        short = rope(HEAD_DIM["text"])  # what the schemes that follow the length use at L
        for length in s.lengths:
            factor = length / s.length
            long = [1.0] * (HEAD_DIM["text"] // 2) if scheme == "longrope" else None
            if long and factor > 1:
                long = search(model, training[:, -(length + 1) :], factor, "text")
            new = scaled(model, frequencies(scheme, factor, "text", long), "text")
            tuned = fine_tune(new, "text", length, seed)
            for name, one in (("before", new), ("after", tuned)):
                cell[name]["whole"].append(on_targets(one, windows, length))
                cell[name]["cut"].append(on_targets(one, windows, length, cut=s.length))
            if length == longest:
                for name, one in (("before", new), ("after", tuned)):
                    cell[name]["by_position"] = by_position(one, windows)
                    at_length = short if scheme in ("dynamic_ntk", "longrope") else one.blocks[0].attention.encoding
                    cell[name]["price"] = on_targets(record.with_encoding(one, at_length), windows, s.length)
                cell["factors"] = long
        found[scheme] = cell
    return found


def measure_needle(seed, long):
    """Errors by distance in the longest context, before and after fine-tuning, for one model trained on needles."""
    s = SETTINGS["needle"]
    model, _ = train_with("rope", s, seed, "needle", device="cpu", progress=False)
    longest, factor = s.lengths[-1], s.multiples[-1]
    found = {}
    for scheme in tqdm([name for name in PREDICTIONS if name != "dynamic_ntk"], desc=f"needle, seed {seed}"):
        new = scaled(model, frequencies(scheme, factor, "needle", long), "needle")
        tuned = fine_tune(new, "needle", longest, seed)
        found[scheme] = {}
        for name, one in (("before", new), ("after", tuned)):
            found[scheme][name] = []
            for distance in needle_distances(s):
                batch = fixed_batch("needle", s, {"length": longest, "distance": distance, "questions": 1}, 32)
                found[scheme][name].append(share_wrong(one, batch))
                if name == "before" and scheme == "plain":
                    found[scheme].setdefault("cut", []).append(share_wrong(one, batch, cut=s.length))
    return found


def measure_surgery(seed):
    s = SETTINGS["text"]
    model, _ = train_with("rope", s, seed, device="cpu", progress=False)
    windows = held_out_windows(load_corpus().held_out, s)[::2]
    pairs = HEAD_DIM["text"] // 2
    found = {}
    for kind in ("slow", "fast"):
        rows = []
        for cutoff in tqdm(range(pairs + 1), desc=f"{kind}, seed {seed}"):
            index = torch.arange(pairs)
            stopped = index >= pairs - cutoff if kind == "slow" else index < cutoff
            rows.append(by_position(record.with_encoding(model, stopping(stopped, s.length)), windows))
        found[kind] = rows
    found["cut"] = [
        part.mean().item() for part in target_losses(model, windows, cut=s.length).mean(0).tensor_split(BINS)
    ]
    plain = by_position(model, windows)
    if max(abs(a - b) for a, b in zip(plain, found["slow"][0])) > 1e-4:
        raise RuntimeError(f"with no pair stopped the losses {found['slow'][0]} must be RoPE's own, {plain}")
    return found


def until():
    return [int(part[-1]) for part in torch.arange(SETTINGS["text"].lengths[-1]).tensor_split(BINS)]


def surgery():
    s = SETTINGS["text"]
    results = record.begun("rope_surgery", "study", s)
    cells = [record.kept(f"rope_surgery/{seed}", measure_surgery, seed) for seed in SEEDS]
    return results | {
        "seeds": list(SEEDS),
        "unit": "nats per character",
        "definition": __doc__.split("\n\n")[2],
        "lengths": s.lengths,
        "until": until(),
        "cutoffs": list(range(HEAD_DIM["text"] // 2 + 1)),
        "stopped": {kind: [cell[kind] for cell in cells] for kind in ("slow", "fast")},  # [seed][cutoff][bin]
        "cut": [cell["cut"] for cell in cells],  # [seed][bin]
    }


def collect(cells, *path):
    """One list over seeds of what stands at a path in each cell."""
    return [functools.reduce(lambda value, key: value[key], path, cell) for cell in cells]


def schemes():
    s = SETTINGS["text"]
    results = record.begun("scaling", "study", s)
    text = [record.kept(f"scaling/text-{seed}", measure_text, seed) for seed in SEEDS]
    factors = [needle_factors(cell) for cell in text]
    needle = [record.kept(f"scaling/needle-{seed}", measure_needle, seed, factors[seed]) for seed in SEEDS]
    kept = ("whole", "cut", "by_position", "price")
    return results | {
        "seeds": list(SEEDS),
        "unit": "nats per character",
        "definition": __doc__.split("\n\n")[3],
        "predictions": PREDICTIONS,
        "lengths": s.lengths,
        "until": until(),
        "fine_tuning": FINE_TUNING,
        "distances": needle_distances(SETTINGS["needle"]),
        "needle_cut": collect(needle, "plain", "cut"),  # [seed][distance], plain RoPE with attention cut
        "new_base": NEW_BASE,
        "schemes": {
            scheme: {
                "text": {when: {key: collect(text, scheme, when, key) for key in kept} for when in ("before", "after")},
                # at one length the dynamic form is the static one
                "needle": {
                    when: collect(needle, scheme.removeprefix("dynamic_"), when) for when in ("before", "after")
                },
            }
            | ({"factors": collect(text, scheme, "factors")} if scheme == "longrope" else {})
            for scheme in PREDICTIONS
        },
    }


def needle_factors(text):
    """LongRoPE's factors from the search on text, brought to the needle model's number of pairs."""
    factors = torch.tensor(text["longrope"]["factors"])
    return interpolate(factors[None, None], HEAD_DIM["needle"] // 2, mode="linear", align_corners=True)[0, 0].tolist()


def main():
    what = record.asked(__doc__, {"what": {"choices": ("surgery", "schemes")}}).what
    record.write({"surgery": surgery, "schemes": schemes}[what]())


if __name__ == "__main__":
    main()
