r"""What do the trained gates of CoPE count? Train it with seed 0 on text and on two puzzles, and freeze the gates.

    python benchmarks/cope_gates.py

Writes results/cope_gates.json. Chapter: CoPE: counting what matters.
"""

import inspect

import record
import torch

from posenc.bias.cope import ContextualBias, lookup
from posenc.lab.train import settings_for, train_with
from posenc.lab.train.measures import fixed_batch, held_out_windows, task_errors
from posenc.lab.train.tasks import TASKS, load_corpus

# A line of the held-out text, as many characters as a training window; a new sentence starts in it.
LINE = "evaluated before the call is attempted.  Please refer to section"
QUERIES = (63,)
KINDS = {"space": " ", "line end": "\n", "mark": ".,;:!?", "quote or bracket": "\"'`()[]{}*_"}
OTHER = ("letter", "digit", "other")
PUZZLES = ("flipflop", "counting")


class Replaced(torch.nn.Module):
    """The bias of a trained CoPE with other gates: `gates` maps its own, [B, H, Tq, Tk], to those that are summed."""

    def __init__(self, bias, gates):
        super().__init__()
        self.bias, self.gates = bias, gates

    def forward(self, q, k, at):
        gates = self.gates(torch.sigmoid(at.scores)).masked_fill(~at.visible, 0.0)
        return lookup(q, self.bias.table, gates.flip(-1).cumsum(-1).flip(-1))


def biases(model):
    return [block.attention.encoding.bias for block in model.blocks]


@torch.no_grad()
def watched(model, tokens):
    r"""Run the model on tokens [B, T]: a list over layers of gates [B, H, T, T], 0 after the query."""
    layers = []

    def keep(module, args, output):
        layers.append(torch.sigmoid(args[2].scores).masked_fill(~args[2].visible, 0.0))

    hooks = [bias.register_forward_hook(keep) for bias in biases(model)]
    model(tokens)
    for hook in hooks:
        hook.remove()
    return layers


def kind_of(character):
    plain = "letter" if character.isalpha() else "digit" if character.isdigit() else "other"
    return next((kind for kind, members in KINDS.items() if character in members), plain)


def means_by(values, index, names):
    """The mean of the values whose index is that of a name, for each name that has some."""
    return {name: values[index == n].mean().item() for n, name in enumerate(names) if (index == n).any()}


def explained(values, groups):
    """The share of the variance of values [n] that lies between the means of their groups [n] of integers."""
    count = torch.zeros(int(groups.max()) + 1, dtype=torch.float64).index_add_(0, groups, torch.ones_like(values))
    total = torch.zeros_like(count).index_add_(0, groups, values)
    between = (count * (total / count.clamp(min=1) - values.mean()) ** 2).sum()
    return (between / ((values - values.mean()) ** 2).sum().clamp(min=1e-12)).item()


def text_heads(model, settings, windows):
    r"""Of each head: what it does on the line, and its habits over the pairs of real queries and keys in held-out text.

    gates: on the line, rows for the queries named in "queries", keys 0 .. i.
    mean: of the gates over all pairs, key not after query.
    by_kind: mean gate by the kind of the key's character.
    by_key: share of the variance of the gates between keys of different characters.
    beyond: share of the pairs whose position is P-1 or more.
    """
    tokens, corpus = windows[:, :-1], load_corpus()
    line = watched(model, corpus.encode(LINE)[None])
    names = (*KINDS, *OTHER)
    kinds = torch.tensor([names.index(kind_of(character)) for character in corpus.vocabulary])
    past = torch.ones(settings.length, settings.length).bool().tril()
    key = tokens[:, None, :].expand(-1, settings.length, -1)[:, past].flatten()
    heads = []
    for layer, gates in enumerate(watched(model, tokens)):
        last = biases(model)[layer].table.shape[-2] - 1
        for head in range(gates.shape[1]):
            flat = gates[:, head, past].flatten().double()
            p = gates[:, head].flip(-1).cumsum(-1).flip(-1)
            own = line[layer][0, head]
            heads.append(
                {
                    "layer": layer,
                    "head": head,
                    "gates": [[round(x, 3) for x in own[i, : i + 1].tolist()] for i in QUERIES],
                    "mean": flat.mean().item(),
                    "by_kind": means_by(flat, kinds[key], names),
                    "by_key": explained(flat, key),
                    "beyond": (p[:, past] >= last).double().mean().item(),
                }
            )
    return heads


def text_controls(model, settings, windows, heads):
    """Loss at the training length, in nats a character, with the gates or the table of the trained model replaced."""
    own = biases(model)
    means = torch.tensor([head["mean"] for head in heads]).view(len(own), 1, -1, 1, 1)
    rows, width = own[0].table.shape[-2:]
    arms = {
        "as trained": own,
        "each head's mean gate": [Replaced(bias, mean.expand_as) for bias, mean in zip(own, means)],
        "all gates 1": [Replaced(bias, torch.ones_like) for bias in own],
        "gates of the next head": [Replaced(bias, lambda g: g.roll(1, dims=1)) for bias in own],
        "table of zeros": [ContextualBias(width, rows, None) for _ in own],  # it starts at zero
    }
    losses = {}
    for words, replaced in arms.items():
        for block, bias in zip(model.blocks, replaced):
            block.attention.encoding.bias = bias
        losses[words] = record.target_loss(model, windows, settings, settings.length)
    return losses


@torch.no_grad()
def puzzle_heads(model, task, settings):
    r"""Of each head, on the puzzle's own test sequences: the mean gate by kind of key, for the queries that are asked
    for an answer."""
    batch = fixed_batch(task, settings, {}, sequences=64)
    tokens, asked = batch.tokens, batch.targets >= 0
    words = TASKS[task].vocabulary

    def kind_at(word, before):
        if before in ("w", "i", "r", "?"):
            return f"after {before}"
        return "reset" if task == "counting" and word == "0" else word  # a sequence begins with a reset

    rows = [[words[token] for token in row] for row in tokens.tolist()]
    kind = [[kind_at(*pair) for pair in zip(row, ["", *row])] for row in rows]
    names = sorted({name for row in kind for name in row})
    index = torch.tensor([[names.index(name) for name in row] for row in kind])
    past = torch.ones(tokens.shape[1], tokens.shape[1]).bool().tril() & asked[:, :, None]
    pairs = index[:, None, :].expand_as(past)[past]
    return [
        {"layer": layer, "head": head, "by_kind": means_by(gates[:, head][past], pairs, names)}
        for layer, gates in enumerate(watched(model, tokens))
        for head in range(gates.shape[1])
    ]


def main():
    settings = settings_for("study")
    results = record.begun(__doc__, "cope_gates", "study", settings)
    model, _ = train_with("cope", settings, 0, device="cpu")
    windows = held_out_windows(load_corpus().held_out, settings)[:, -(settings.length + 1) :]
    heads = text_heads(model, settings, windows)
    results |= {
        "seed": 0,
        "line": LINE,
        "queries": list(QUERIES),
        "definition": inspect.cleandoc(text_heads.__doc__),
        "heads": heads,
        "losses": text_controls(model, settings, windows, heads),
        "puzzles": {},
    }
    for task in PUZZLES:
        settings = settings_for("study", task)
        model, _ = train_with("cope", settings, 0, task, device="cpu")
        results["puzzles"][task] = {
            "rate": settings.lr,
            "steps": settings.steps,
            "wrong": task_errors(model, task, settings),
            "definition": inspect.cleandoc(puzzle_heads.__doc__),
            "heads": puzzle_heads(model, task, settings),
        }
    record.write(results)


if __name__ == "__main__":
    main()
