r"""How fast does the decoder train beside a plain PyTorch transformer? Tokens per second, measured in turns.

    make training-speed

Every model is 4 layers deep, 128 wide with 4 heads, reads batches of 32 x 128 tokens and is trained by the same fused
AdamW on the CPU. "plain" is `torch.nn.TransformerEncoder` with a causal mask: no position, no dropout, no biases,
GELU, pre-norm, as the decoder here. The models take turns, one step each, so that a busy machine slows them all alike.
Writes results/training_speed.json. Chapter: Compare and choose.
"""

import statistics
import time

import record
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from posenc import METHODS
from posenc.lab.train import encoding_maker, settings_for
from posenc.lab.train.tiny import Decoder

VOCABULARY, ROUNDS = 103, 24
SETTINGS = settings_for("study", num_layers=4, dim=128, num_heads=4, length=128, batch=32)


class Plain(nn.Module):
    """What a PyTorch user writes first: embedding, `nn.TransformerEncoder` under a causal mask, head."""

    def __init__(self):
        super().__init__()
        options = dict(dropout=0.0, activation="gelu", batch_first=True, norm_first=True, bias=False)
        layer = nn.TransformerEncoderLayer(SETTINGS.dim, SETTINGS.num_heads, 4 * SETTINGS.dim, **options)
        self.embedding = nn.Embedding(VOCABULARY, SETTINGS.dim)
        self.blocks = nn.TransformerEncoder(layer, SETTINGS.num_layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(SETTINGS.dim)
        self.head = nn.Linear(SETTINGS.dim, VOCABULARY, bias=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(SETTINGS.length))

    def forward(self, tokens):
        return self.head(self.norm(self.blocks(self.embedding(tokens), mask=self.mask, is_causal=True)))


def stepper(model, batch):
    """A function that trains the model by one step and returns its loss."""
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def step():
        loss = cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        record.descend(loss, model, optimizer, 1e-3)
        return loss.detach()

    return step


def main():
    threads = torch.get_num_threads()
    facts = record.begun(__doc__, "training_speed", "study", SETTINGS)
    torch.set_num_threads(threads)  # it is asked what a reader's machine does
    facts["machine"] = facts["machine"].replace("one thread a run", f"{threads} threads")
    torch.manual_seed(0)
    batch = torch.randint(VOCABULARY, (SETTINGS.batch, SETTINGS.length + 1))
    models = {"plain": Plain()}
    for method in METHODS:
        make_encoding = encoding_maker(method, SETTINGS)
        models[method] = Decoder(VOCABULARY, SETTINGS.dim, SETTINGS.num_layers, SETTINGS.num_heads, make_encoding)
    times = record.in_turns([stepper(model, batch) for model in models.values()], ROUNDS, time.perf_counter)
    seconds, tokens = dict(zip(models, times)), SETTINGS.batch * SETTINGS.length
    results = facts | {
        "definition": __doc__.split("\n\n")[2],
        "unit": "tokens per second",
        "rounds": ROUNDS,
        "tokens_per_second": {name: round(tokens / statistics.median(values)) for name, values in seconds.items()},
        "ratio_to_plain": {name: record.ratio(seconds["plain"], values) for name, values in seconds.items()},
        "parameters": {name: sum(p.numel() for p in model.parameters()) for name, model in models.items()},
    }
    record.write(results)
    print(results["tokens_per_second"], results["ratio_to_plain"], sep="\n")


if __name__ == "__main__":
    main()
