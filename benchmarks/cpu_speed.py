r"""What does a positional encoding from `posenc` cost on a CPU, beside the same lines written by hand?

    python benchmarks/cpu_speed.py [--write]

Three questions, each asked in turns so that a busy machine slows both sides alike, on one thread, in processor time:
training a decoder (4 layers, 128 wide, 4 heads) whose attention is `SelfAttention`, or a block written by hand for that
one method, with its tables made once for the length; one step of decoding behind 4,096 cached tokens; one call of
`attention` for one query and 64 keys, beside `scaled_dot_product_attention`. --write keeps results/cpu_speed.json.
Chapter: In your own model.
"""

import functools
import math
import statistics
import time

import record
import torch
from torch import nn
from torch.nn.functional import logsigmoid, pad, scaled_dot_product_attention
from tqdm import tqdm
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
        "nope": {},
        "rope": {"head_dim": DIM // HEADS, "layout": "half"},
        "alibi": {"num_heads": HEADS},
        "t5": {"num_heads": HEADS},
        "stickbreaking": {"attend_current": True},
    }
    return posenc.make(method, **arguments[method])


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
        for to, source in zip(
            (*twin.attention.to_qkv, twin.attention.to_out), (own.to_q, own.to_k, own.to_v, own.to_out)
        ):
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


def in_turns(functions, rounds, repeat=1):
    """Seconds of processor time of each function, [rounds] for each, the functions taking turns."""
    seconds = [[] for _ in functions]
    for turn in range(rounds + 3):
        for function, own in zip(functions, seconds):
            started = time.process_time()
            for _ in range(repeat):
                function()
            if turn >= 3:
                own.append((time.process_time() - started) / repeat)
    return seconds


def ratio(above, below):
    """The median over rounds of above / below, rounds paired."""
    return round(statistics.median(a / b for a, b in zip(above, below)), 3)


def measure(methods):
    trained, pairs = {}, [(method, length) for method in methods for length in BATCHES]
    for method, length in tqdm(pairs, desc="training"):
        ours, hand = in_turns(training(method, length), ROUNDS)
        trained.setdefault(method, {})[str(length)] = {
            "tokens_per_second": round(BATCHES[length] * length / statistics.median(ours)),
            "by_hand": round(BATCHES[length] * length / statistics.median(hand)),
            "ratio": ratio(hand, ours),
        }
    nope, rope = in_turns([decoding(None), decoding(posenc.make("rope", head_dim=64))], 40, repeat=4)
    ours, theirs = in_turns(calling(), 30, repeat=CALLS)
    return {
        "training": trained,
        "decoding": {"nope": statistics.median(nope), "rope": statistics.median(rope), "ratio": ratio(rope, nope)},
        "call": {"ours": statistics.median(ours), "sdpa": statistics.median(theirs), "ratio": ratio(ours, theirs)},
    }


def main():
    keep = {"action": "store_true", "help": "keep results/cpu_speed.json"}
    methods = {"nargs": "+", "choices": METHODS, "default": METHODS}
    options = record.asked(__doc__, {"--write": keep, "--methods": methods})
    settings = settings_for("study", num_layers=LAYERS, dim=DIM, num_heads=HEADS)
    results = record.begun("cpu_speed", "study", settings)
    found = measure(options.methods)
    for method, lengths in found["training"].items():
        print(f"{method:14}" + "".join(f"  T={length}: {of['ratio']:.2f} of by hand" for length, of in lengths.items()))
    step, call = found["decoding"], found["call"]
    print(f"decoding behind {CACHED}: rope takes {step['ratio']:.2f} times NoPE's {step['nope']:.2e} s")
    print(f"one call: {call['ours']:.1e} s, {call['ratio']:.1f} times SDPA's")
    if options.write:
        about = {"definition": __doc__.split("\n\n")[2], "rounds": ROUNDS, "cached": CACHED}
        record.write(results | about | found)


if __name__ == "__main__":
    main()
