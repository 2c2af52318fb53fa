r"""What does a learned table of positions learn, and what are the rows worth that training never reached?

    python benchmarks/learned_table.py         # an hour of one core; finished cells are kept in runs/learned_table

Trains the nano model eight times as long as its preset, on windows of L = 32 characters, each way to bring position in
at the learning rates that it does best with (see `record.train_cells`). Losses are in nats per character of held-out
text.
    table      the trained rows 0 .. L-1 of the first seed; their likeness by offset before the first step and after the
               last: the cosine of rows p and p + d, averaged over p, the mean row taken away; and the length of every
               row, also of those that stand beyond L and get no gradient
    moved      the last L/4 of L/2 characters, the same ones at every shift, their ids moved to s .. s + L/2 - 1
    by_place   loss at each place of windows of 8 L characters, in bins of L/2
    stretched  loss on the last targets by context length: the trained table as it is ("beyond": rows that got
               no gradient), its first L rows resized to 2 and 8 L, and the sinusoid; each without and with a
               fine-tuning of 60 steps at the new length, with whole attention and with attention cut to L keys
    injected   loss at the training length of one way to bring a table in against another, tables of L rows

A pilot of one seed with the 300 steps of the preset came after the predictions but for the last, and before this run:
the table was level with NoPE still (2.463 nats each, the sinusoid 2.418), with little to measure. Hence the steps.

Writes results/learned_table.json. Chapter: Learned positions.
"""

import copy
import dataclasses

import record
import torch
from torch import nn
from torch.nn.functional import cosine_similarity

from posenc import Encoding
from posenc.embed.learned import learned, resize
from posenc.lab.experiments.run import HELD_BACK
from posenc.lab.train import settings_for, train_with
from posenc.lab.train.measures import held_out_windows, target_losses, validation
from posenc.lab.train.tasks import load_corpus

SETTINGS = settings_for("nano", steps=2400, windows=960, held_back=HELD_BACK)
LENGTH, DIM, LONGEST = SETTINGS.length, SETTINGS.dim, SETTINGS.lengths[-1]
RATES = [(lr, own) for lr in (3e-3, 6e-3, 1.2e-2) for own in (1.0, 10.0)]  # own: a factor for what brings position in
SHIFTS = list(range(0, 17, 2)) + list(range(17, 32)) + list(range(32, 65, 8))
TUNING_STEPS, TUNING_LR, TUNING_WARMUP = 60, 1e-3, 10
NARROW = 16
CUT = {"whole": "cut", "tuned": "tuned_cut"}
# Written before the first run, of three seeds at one rate for all.
PREDICTIONS = {
    "volume": "A sinusoid as quiet as a tenth of the embeddings leaves the model at NoPE. A table starts quieter "
    "still (std 0.02), but its rows grow: it ends below NoPE by more than 0.2 nats, and its rows at least five times "
    "as long as at the start.",
    "smooth": "Nothing asks neighbors to be alike, but the text does: centered likeness falls with the offset over "
    "the first ten, so the table finds by itself a part of what the sinusoid is given.",
    "cliff": "Rows beyond L keep the length that they started with, to one percent. Moving the same text onto them "
    "costs more than 0.3 nats, and the loss jumps within the first bin beyond L.",
    "stretched": "Resizing alone costs more than 0.2 nats at 2 L and more at 8 L: between two rows lies half a step, "
    "and heads that look one token back were trained on whole steps. It does harm on windows of L too.",
    "tuned": "After 60 steps the resized table at 2 L is within 0.1 of the loss that it had at L, and below the "
    "untrained rows with the same fine-tuning.",
    "concat": "Concatenating with as many lanes as the model has is within 0.05 nats of adding: it is the same set of "
    "functions with more parameters.",
    "layers": "A table in each layer is at least as good as one at the input, by less than 0.1 nats.",
    "patience": "The table has at least half of the sinusoid's gain over NoPE by now.",
}
INJECTED = {
    "nope": "no position",
    "sinusoidal": "the sinusoid, added at the input",
    "add": "one table, added at the input",
    "concat": f"one table of {DIM} lanes, concatenated to the embedding and projected back",
    "concat_narrow": f"one table of {NARROW} lanes, concatenated to the embedding and projected back",
    "layer_qk": "a table in each layer, added to what queries and keys are made from",
    "layer_qkv": "a table in each layer, added to what queries, keys and values are made from",
}


class Concatenate(nn.Module):
    """[x; p] W = x W_x + p W_p, started at x + a row of std 0.02, as adding starts."""

    def __init__(self, rows, dim, lanes):
        super().__init__()
        self.table = nn.Parameter(torch.randn(rows, lanes) * 0.02)
        self.mix = nn.Linear(dim + lanes, dim, bias=False)
        with torch.no_grad():
            self.mix.weight[:, :dim] = torch.eye(dim)
            self.mix.weight[:, dim:] = torch.randn(dim, lanes) / lanes**0.5

    def forward(self, x, positions):
        rows = self.table[positions].expand(len(x), -1, -1)
        return self.mix(torch.cat((x, rows), dim=-1))


def likeness(rows):
    """Mean cosine of rows p and p + d over p, for each offset d, the mean row taken away."""
    table = (rows - rows.mean(0)).double()
    alike = cosine_similarity(table[:, None], table[None], dim=-1)  # [L, L]
    return [alike.diagonal(d).mean().item() for d in range(len(rows))]


def at_rate(rate):
    """The settings at a pair of RATES."""
    return dataclasses.replace(SETTINGS, lr=rate[0], own=rate[1])


def train_table(rate, seed):
    """A model with a table as long as the longest test, and what its rows were and became."""
    tables = []

    def make_encoding(layer):
        encoding = learned(LONGEST, DIM)
        tables.append(encoding.embed.table.detach().clone())
        return encoding

    model, _ = train_with(make_encoding, at_rate(rate), seed, device="cpu", progress=False)
    trained = model.embed.table.detach()
    return model, {
        "rows": [[round(x, 3) for x in row] for row in trained[:LENGTH].tolist()],
        "centered": [likeness(tables[0][:LENGTH]), likeness(trained[:LENGTH])],
        "norms_start": tables[0].norm(dim=-1).tolist(),
        "norms": trained.norm(dim=-1).tolist(),
    }


def context_losses(model, windows, lengths, cut=None):
    """Losses of the last characters of the windows at each context length, [W, targets] each."""
    return [record.targets_of(model, windows, SETTINGS, length, cut=cut) for length in lengths]


def moved_losses(model, windows):
    """Losses of the last L/4 characters of half a window, [W, L/4] each, their ids moved by each of SHIFTS."""
    ids = torch.arange(LENGTH // 2)
    short = windows[:, -(len(ids) + 1) :]
    return [target_losses(model, short, positions=ids + s)[:, -(LENGTH // 4) :] for s in SHIFTS]


def means(rows):
    return [losses.mean().item() for losses in rows]


def fine_tune(model, length, seed):
    """A few steps at another length, as many tokens in each as in training."""
    steps, batch = range(TUNING_STEPS), max(1, SETTINGS.batch * LENGTH // length)
    rates = [TUNING_LR * min((step + 1) / TUNING_WARMUP, (TUNING_STEPS - step) / TUNING_STEPS) for step in steps]
    return record.fine_tune(model, "text", length, batch, rates, 10_000 + seed, fused=True)


def stretched(table_model, sinusoid, windows, seed):
    """Losses by context length of each way to reach beyond L, without and with fine-tuning; and those in blocks."""
    values, blocks = {}, {}
    for multiple in (2, 8):
        target = LENGTH * multiple
        resized = copy.deepcopy(table_model)
        resized.embed.table = nn.Parameter(resize(table_model.embed.table.detach()[:LENGTH], target))
        for arm, plain in {"beyond": table_model, "resized": resized, "sinusoidal": sinusoid}.items():
            name, found = f"{arm} {multiple}", {"lengths": [n for n in SETTINGS.lengths if n <= target]}
            tuned = fine_tune(copy.deepcopy(plain), target, seed)
            for kind, one in (("whole", plain), ("tuned", tuned)):
                rows = context_losses(one, windows, found["lengths"])
                blocks[f"{name} {kind}"] = record.in_blocks(rows[0], rows[-1])
                found |= {kind: means(rows), CUT[kind]: means(context_losses(one, windows, found["lengths"], LENGTH))}
            values[name] = found
    return values, blocks


MAKERS = {
    "nope": "nope",
    "sinusoidal": "sinusoidal",
    "add": lambda layer: learned(LENGTH, DIM),
    "concat": lambda layer: Encoding(embed=Concatenate(LENGTH, DIM, DIM)),
    "concat_narrow": lambda layer: Encoding(embed=Concatenate(LENGTH, DIM, NARROW)),
    "layer_qk": lambda layer: learned(LENGTH, DIM, embed_at="layer_qk"),
    "layer_qkv": lambda layer: learned(LENGTH, DIM, embed_at="layer_qkv"),
}


def measure_injected(arm, rate, seed):
    """One way to bring position in: its validation loss, and what the results hold of it."""
    windows = held_out_windows(load_corpus().held_out, SETTINGS)
    model, _ = train_with(MAKERS[arm], at_rate(rate), seed, device="cpu", progress=False)
    (losses,) = context_losses(model, windows, [LENGTH])
    return {
        "validation": validation(model, "text", SETTINGS),
        "scores": {"loss": losses.mean().item(), "in_blocks": record.in_blocks(losses)},
        "parameters": sum(p.numel() for p in model.parameters()),
    }


def measure_table(rate, sine_rate, seed):
    windows = held_out_windows(load_corpus().held_out, SETTINGS)
    table_model, values = train_table(rate, seed)
    sinusoid, _ = train_with("sinusoidal", at_rate(sine_rate), seed, device="cpu", progress=False)
    models = {"learned": table_model, "sinusoidal": sinusoid}
    moved = {name: moved_losses(model, windows) for name, model in models.items()}
    bins = {name: target_losses(model, windows).split(LENGTH // 2, dim=1) for name, model in models.items()}
    values["moved"], values["by_place"] = ({n: means(rows) for n, rows in part.items()} for part in (moved, bins))
    values["stretched"], blocks = stretched(table_model, sinusoid, windows, seed)
    blocks["moved by 0, by L"] = record.in_blocks(moved["learned"][0], moved["learned"][SHIFTS.index(LENGTH)])
    blocks["last bin within L, first beyond"] = record.in_blocks(*bins["learned"][1:3])
    return values | {"in_blocks": blocks}


def main():
    results = record.begun(__doc__, "learned_table", "nano", SETTINGS)
    shared = [rate for rate in RATES if rate[1] == 1]  # where there is nothing that learns position
    plain, tables = (("nope",), ("sinusoidal",)), [(arm,) for arm in INJECTED if arm not in ("nope", "sinusoidal")]
    cells = record.train_cells(plain, shared, measure_injected, "learned_table")
    cells |= record.train_cells(tables, RATES, measure_injected, "learned_table")
    all_rates = {arm: shared if (arm,) in plain else RATES for arm in INJECTED}
    rates = {arm: record.chosen_rate(cells, (arm,), tried) for arm, tried in all_rates.items()}
    todo = [(rates["add"], rates["sinusoidal"], seed) for seed in record.SEEDS]
    found = record.in_turn(todo, measure_table, "learned_table/table", "the table")
    studied = [found[cell] for cell in todo]
    blocks = [
        cell.pop("in_blocks") | {arm: cells[arm, rates[arm], seed]["scores"]["in_blocks"] for arm in INJECTED}
        for seed, cell in zip(record.SEEDS, studied)
    ]

    def injected(arm, seed):
        cell = cells[arm, rates[arm], seed]
        return {"loss": cell["scores"]["loss"], "parameters": cell["parameters"]}

    def scores(arm, rate):
        return [cells[arm, rate, seed]["validation"] for seed in record.CHOOSING]

    results |= {
        "question": __doc__.split("\n")[0],
        "definition": __doc__.split("\n\n", 2)[2],
        "prediction": PREDICTIONS,
        "seeds": list(record.SEEDS),
        "unit": "nats per character",
        "length": LENGTH,
        "lengths": SETTINGS.lengths,
        "shifts": SHIFTS,
        "tuning_steps": TUNING_STEPS,
        "arms": INJECTED,
        "rates": {
            arm: {"lr": rates[arm][0], "own": rates[arm][1]}
            | {"validation": {f"{lr:g}, own {own:g}": scores(arm, (lr, own)) for lr, own in tried}}
            for arm, tried in all_rates.items()
        },
        "lanes": {"concat": DIM, "concat_narrow": NARROW},
        **{key: [cell[key] for cell in studied[: 1 if key == "rows" else None]] for key in studied[0]},
        "about_blocks": record.IN_BLOCKS
        + "of an arm at L; else two, as the name says, or at L and at the length reached.",
        "in_blocks": {name: record.over_seeds([each[name] for each in blocks]) for name in blocks[0]},
        "injected": [{arm: injected(arm, seed) for arm in INJECTED} for seed in record.SEEDS],
    }
    record.write(results)


if __name__ == "__main__":
    main()
