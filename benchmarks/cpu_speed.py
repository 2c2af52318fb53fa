r"""What does a positional encoding from `posenc` cost on a CPU, beside the same lines written by hand?

    python benchmarks/cpu_speed.py [--write]

Three questions, each asked in turns so that a busy machine slows both sides alike, on one thread, in processor time:
training a decoder (4 layers, 128 wide, 4 heads) whose attention is `SelfAttention`, or a block written by hand for that
one method, with its tables made once for the length; one step of decoding behind 4,096 cached tokens; one call of
`attention` for one query and 64 keys, beside `scaled_dot_product_attention`. --write keeps results/cpu_speed.json.
Chapter: In your own model.
"""

import functools
import itertools
import json
import math
import statistics
import time

import record
import torch
from torch import nn
from torch.nn.functional import logsigmoid, pad, scaled_dot_product_attention
from training_speed import stepper

import posenc
from posenc.bias.alibi import slopes
from posenc.bias.t5 import bucket
from posenc.lab.train import settings_for
from posenc.lab.train.tiny import Decoder

VOCABULARY, HEADS, DIM, LAYERS = 103, 4, 128, 4
BATCHES = {64: 16, 256: 4}  # by length: 1,024 tokens a step
METHODS = ("nope", "rope", "alibi", "t5", "stickbreaking")
ROUNDS, CACHED, CALLS = 30, 4096, 300


class ByHand(nn.Module):
    """What a PyTorch user writes for one method and one length: no checks, no options, tables made once."""

    def __init__(self, method, length, table):
        super().__init__()
        self.method = method
        self.to_qkv = nn.ModuleList(nn.Linear(DIM, DIM, bias=False) for _ in "qkv")
        self.to_out = nn.Linear(DIM, DIM, bias=False)
        place = torch.arange(length)
        later = place[None, :] > place[:, None]
        angles = place[:, None] * 10000 ** (-torch.arange(0, DIM // HEADS, 2) / (DIM // HEADS))
        penalty = -slopes(HEADS)[:, None, None] * (place[:, None] - place[None, :])
        self.register_buffer("later", later, persistent=False)
        self.register_buffer("cos", torch.cat((angles, angles), -1).cos(), persistent=False)
        self.register_buffer("sin", torch.cat((angles, angles), -1).sin(), persistent=False)
        self.register_buffer("penalty", penalty.masked_fill(later, float("-inf"))[None], persistent=False)
        self.register_buffer("rows", bucket(place[None, :] - place[:, None], bidirectional=False), persistent=False)
        self.table = table

    def turn(self, x):
        a, b = x.chunk(2, dim=-1)
        return x * self.cos + torch.cat((-b, a), dim=-1) * self.sin

    def forward(self, x, **_):
        q, k, v = (to(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for to in self.to_qkv)
        if self.method == "rope":
            q, k = self.turn(q), self.turn(k)
        if self.method == "alibi":
            out = scaled_dot_product_attention(q, k, v, attn_mask=self.penalty)
        elif self.method == "t5":
            bias = self.table(self.rows).permute(2, 0, 1)[None].masked_fill(self.later, float("-inf"))
            out = scaled_dot_product_attention(q, k, v, attn_mask=bias)
        elif self.method == "stickbreaking":
            scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(self.later, float("-inf"))
            kept = logsigmoid(-scores)
            before = pad(kept[..., 1:], (0, 1)).flip(-1).cumsum(-1).flip(-1)
            out = (logsigmoid(scores) + before).exp() @ v
        else:
            out = scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.to_out(out.transpose(1, 2).flatten(2))


def encoding(method):
    """The method's encoding as the hand-written block computes it: RoPE in halves, sticks with the query's own key."""
    arguments = {
        **{"alibi": {"num_heads": HEADS}, "t5": {"num_heads": HEADS}},
        "rope": {"head_dim": DIM // HEADS, "layout": "half"},
        "stickbreaking": {"attend_current": True},
    }
    return posenc.make(method, **arguments.get(method, {}))


def training(method, length):
    """Two steppers, ours and the one by hand; both models start from the same weights and compute the same."""
    torch.manual_seed(0)
    shared = encoding(method)  # one T5 table for all layers
    ours, hand = (Decoder(VOCABULARY, DIM, LAYERS, HEADS, lambda layer: shared) for _ in "ab")
    hand.load_state_dict(ours.state_dict())
    table = None
    if method == "t5":
        table = nn.Embedding(*shared.bias.table.T.shape, _weight=shared.bias.table.detach().T.clone())
    for block, twin in zip(ours.blocks, hand.blocks):
        own = block.attention
        twin.attention = ByHand(method, length, table)
        matrices = (*twin.attention.to_qkv, twin.attention.to_out)
        for to, source in zip(matrices, (own.to_q, own.to_k, own.to_v, own.to_out)):
            to.weight = nn.Parameter(source.weight.detach().clone())
    batch = torch.randint(VOCABULARY, (BATCHES[length], length + 1))
    with torch.no_grad():
        difference = (ours(batch[:, :-1]) - hand(batch[:, :-1])).abs().max().item()
    if difference > 1e-3:
        raise AssertionError(f"{method} at {length}: by hand it differs by {difference:.1e}")
    return stepper(ours, batch), stepper(hand, batch)


def decoding(encoding):
    """A function that decodes one token behind `CACHED` others with one block of 8 heads of 64 lanes."""
    torch.manual_seed(0)
    block = posenc.SelfAttention(512, 8, encoding)
    cache, x = posenc.KVCache(), torch.randn(1, CACHED, 512)
    with torch.no_grad():
        block(x, cache=cache)

    @torch.no_grad()
    def step():
        block(x[:, :1], cache=cache)

    return step


def calling():
    """Two functions: one call of `attention`, and the same by `scaled_dot_product_attention`."""
    q, k, v = torch.randn(1, 4, 1, 32), torch.randn(1, 4, 64, 32), torch.randn(1, 4, 64, 32)
    functions = posenc.attention, scaled_dot_product_attention
    return [torch.no_grad()(functools.partial(function, q, k, v)) for function in functions]


def measure():
    trained = {method: {} for method in METHODS}
    for method, (length, batch) in itertools.product(METHODS, BATCHES.items()):
        ours, hand = record.in_turns(training(method, length), ROUNDS, time.process_time)
        trained[method][str(length)] = {
            "tokens_per_second": round(batch * length / statistics.median(ours)),
            "by_hand": round(batch * length / statistics.median(hand)),
            "ratio": record.ratio(hand, ours),
        }
    steps = decoding(None), decoding(posenc.make("rope", head_dim=64))
    nope, rope = record.in_turns(steps, 40, time.process_time, repeat=4)
    ours, theirs = record.in_turns(calling(), 30, time.process_time, repeat=CALLS)
    median = statistics.median
    return {
        "training": trained,
        "decoding": {"nope": median(nope), "rope": median(rope), "ratio": record.ratio(rope, nope)},
        "call": {"ours": median(ours), "sdpa": median(theirs), "ratio": record.ratio(ours, theirs)},
    }


def main():
    options = record.asked(__doc__, {"--write": {"action": "store_true", "help": "keep results/cpu_speed.json"}})
    settings = settings_for("study", num_layers=LAYERS, dim=DIM, num_heads=HEADS)
    results, found = record.facts("cpu_speed", "study", settings), measure()
    print(json.dumps(found, indent=1))
    if options.write:
        about = {"definition": __doc__.split("\n\n")[2], "rounds": ROUNDS, "cached": CACHED}
        record.write(results | about | found)


if __name__ == "__main__":
    main()
