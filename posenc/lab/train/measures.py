r"""Measure a trained model fairly: fixed targets, attention cut, distance and number of keys apart.

    losses = short_long(model, Settings())                    # text: its loss as the context grows
    grid = distance_and_keys(model, Settings())               # what an unseen distance costs, what more keys cost
    wrong = task_errors(model, "flipflop", Settings())        # a puzzle: the share of wrong answers, in and out

Chapter: How to measure position.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from posenc.errors import UnsupportedError, check_choice, check_int
from posenc.lab.train.settings import Settings
from posenc.lab.train.tasks import IGNORE, TASKS, Batch, load_corpus, mask_characters
from posenc.lab.train.tiny import Model
from posenc.rotate.rope import inv_freq, rotate

# --------------------------------------------------------------------------------------------------------------- text

KINDS = {
    "whole": "Loss on the target characters: the last {targets} of each test window. The window ends at the same "
    "character at every context length and is lengthened on its left, so the targets are the same throughout.",
    "cut": "The same windows, targets and positions, but each query sees only its last {length} keys, itself included, "
    "in every layer: as many as in training. What is farther away can still pass on through depth, at most "
    "{reach} characters more with each layer.",
    "early": "The same target characters where a window starts with them: the first has one character before it, the "
    "last {targets}. It says what they cost with little context. A causal model cannot see what follows, so it is one "
    "number, whatever the window's length; it stands once for each length.",
    "chopped": "The usual way, which is unfair, for comparison: the longest windows chopped into pieces of the context "
    "length, every character of every piece counted. The characters are the same at each length, but the share of "
    "early ones falls as the pieces grow, so this falls too, even where distant context is no help.",
}

BLOCKS, BLOCK = 32, 30  # of so many windows short_long also gives the mean of each block


def check_windows(held_out: Tensor, settings: Settings) -> None:
    """Raise unless the held-out text has room for the test windows with targets that don't overlap."""
    longest = settings.lengths[-1]
    room = (len(held_out) - longest - 1) // max(1, settings.windows - 1)
    if len(held_out) <= longest or (settings.windows > 1 and room < settings.targets):
        raise ValueError(
            f"windows={settings.windows} of {longest} characters with {settings.targets} targets each don't fit into "
            f"{len(held_out)} held-out characters; fewer windows or shorter lengths would"
        )


def held_out_windows(held_out: Tensor, settings: Settings) -> Tensor:
    r"""The test windows [windows, longest + 1], spread evenly over the held-out text, their targets apart.

    A context of any length is the right end of such a window: windows[:, -(length + 1):].
    """
    check_windows(held_out, settings)
    longest = settings.lengths[-1]
    starts = torch.linspace(0, len(held_out) - longest - 1, settings.windows, dtype=torch.float64).long()
    return held_out[starts[:, None] + torch.arange(longest + 1)]


def some_windows(settings: Settings) -> Tensor:
    """Every other test window, or 48 of them where that is fewer: for what reads each of them many times."""
    return held_out_windows(load_corpus().held_out, settings)[:: max(2, settings.windows // 48)]


def last_keys(length, cut, device):
    """The mask [T, T] that leaves each query its last `cut` keys, itself included; None for all of them."""
    if cut is None:
        return None
    check_int("cut", cut)
    index = torch.arange(length, device=device)
    return index[:, None] - index[None, :] < cut  # causality hides the future


@torch.no_grad()
def target_losses(model: Model, windows: Tensor, cut: int | None = None, positions: Tensor | None = None) -> Tensor:
    r"""Loss of each character that the model predicts in windows [W, T + 1], in nats: [W, T] float32 on the CPU.

    The model reads the first T characters of a window and predicts the last T.

    Arguments:
        cut: None, or how many of its last keys (itself included) each query may see.
        positions: [T], default 0 .. T-1.
    """
    device = next(model.parameters()).device
    length = windows.shape[1] - 1
    mask = last_keys(length, cut, device)
    out = []
    for chunk in windows.split(max(1, 1024 // length)):
        chunk = chunk.to(device)
        logits = model(chunk[:, :-1], mask=mask, positions=positions)
        out.append(cross_entropy(logits.float().transpose(1, 2), chunk[:, 1:], reduction="none"))
    return torch.cat(out).cpu()


def short_long(model: Model, settings: Settings) -> dict:
    r"""Loss as the context grows beyond the training length, on fixed target characters: `KINDS` says what is what.

    Returns: {"lengths": settings.lengths, "whole": [...], "cut": [...]}, a loss in nats per character for each length.
        Of many windows, `BLOCKS` of `BLOCK` or more, also "blocks": {"whole": at each length the means over blocks of
        neighboring windows}, from which an interval can be drawn.
    Chapter: Why attention needs position.
    """
    windows = held_out_windows(load_corpus().held_out, settings)
    whole, cut, blocks = [], [], []
    for length in settings.lengths:
        read = windows[:, -(length + 1) :]
        rows = target_losses(model, read)[:, -settings.targets :]
        whole.append(rows.mean().item())
        blocks.append([round(part.mean().item(), 3) for part in rows.tensor_split(BLOCKS)])
        cut.append(target_losses(model, read, cut=settings.length)[:, -settings.targets :].mean().item())
    stored = {"blocks": {"whole": blocks}} if settings.windows >= BLOCKS * BLOCK else {}
    return {"lengths": settings.lengths, "whole": whole, "cut": cut, **stored}


def unfair_losses(model: Model, settings: Settings) -> dict:
    """{"early": [...], "chopped": [...]} of `KINDS`, a loss for each length, in nats per character."""
    windows = held_out_windows(load_corpus().held_out, settings)
    early = target_losses(model, windows[:, -(settings.targets + 1) :]).mean().item()
    chopped = []
    for length in settings.lengths:
        pieces = windows.unfold(1, length + 1, length)  # [W, n, length + 1]; what one predicts last the next reads
        chopped.append(target_losses(model, pieces.flatten(0, 1)).mean().item())
    return {"early": [early] * len(chopped), "chopped": chopped}


# ------------------------------------------------------------------------------------- distance, and number of keys


def gap_positions(keys: int, length: int, targets: int, gap: int = 0) -> Tensor:
    r"""Positions [keys] that move distance without adding keys, or add keys without moving distance.

    The last `length` tokens stand at 0 .. length - 1 and all before them at 0, so that no distance exceeds what was
    trained, however many keys there are. Then the last `targets` tokens, whose loss counts, move on by `gap`: their
    distance to everything before them grows by as much.
    """
    index = torch.arange(keys)
    return (index - (keys - length)).clamp(min=0) + gap * (index >= keys - targets)


def unseen_gaps(settings: Settings) -> list[int]:
    """Gaps to test, in tokens: none, then as far as each longer context reaches."""
    return [0] + [n - settings.length for n in settings.lengths if n > settings.length]


def key_cuts(settings: Settings) -> list[int]:
    """How many keys a query may see, in turn: 1, 2, 4, ... and the longest context."""
    longest = settings.lengths[-1]
    return [2**power for power in range(int(math.log2(longest)) + 1) if 2**power < longest] + [longest]


def distance_and_keys(model: Model, settings: Settings) -> dict:
    r"""Loss on the same targets at every number of keys (`settings.lengths`) and every unseen gap, each moved alone.

    Returns: {"keys": [...], "gaps": [...], "loss": [a list over gaps for each number of keys]}, nats per character.
    Half of the test windows are read, 48 of many. Chapter: How to measure position.
    """
    windows = some_windows(settings)
    device = next(model.parameters()).device
    keys = settings.lengths
    gaps = unseen_gaps(settings)
    loss = []
    for n in keys:
        places = [gap_positions(n, settings.length, settings.targets, gap).to(device) for gap in gaps]
        rows = [target_losses(model, windows[:, -(n + 1) :], positions=pos) for pos in places]
        loss.append([row[:, -settings.targets :].mean().item() for row in rows])
    return {"keys": keys, "gaps": gaps, "loss": loss}


def context_cut(model: Model, settings: Settings) -> dict:
    r"""Loss on the targets at the longest context with attention cut to fewer and fewer keys.

    Returns: {"cuts": [1, 2, 4, ..., longest], "loss": [...]}, nats per character. The windows are those of
    `distance_and_keys`.
    """
    windows = some_windows(settings)
    cuts = key_cuts(settings)
    loss = [target_losses(model, windows, cut=cut)[:, -settings.targets :].mean().item() for cut in cuts]
    return {"cuts": cuts, "loss": loss}


def loss_by_position(model: Model, settings: Settings, bins: int = 32) -> dict:
    r"""Mean loss of the characters at each place of the longest test windows, all of them, in bins.

    Returns: {"until": [the last position of each bin], "loss": [...]}, nats per character.
    """
    windows = held_out_windows(load_corpus().held_out, settings)
    loss = target_losses(model, windows).mean(0)  # [longest]
    parts = loss.tensor_split(bins)
    until = torch.arange(len(loss)).tensor_split(bins)
    return {"until": [int(part[-1]) for part in until], "loss": [part.mean().item() for part in parts]}


@torch.no_grad()
def masked_losses(model: Model, settings: Settings) -> dict:
    r"""Loss of an encoder on the same masked characters as the context around them grows on both sides.

    The characters that count stand in the middle `settings.targets` of each test window, and which of them are masked
    is drawn once for the longest window.
    Returns: {"lengths": settings.lengths, "whole": [...]}, nats per masked character; and "blocks" as `short_long`.
    """
    windows = held_out_windows(load_corpus().held_out, settings)[:, :-1]
    longest = windows.shape[1]
    batch = mask_characters(torch.Generator().manual_seed(0), windows)
    device = next(model.parameters()).device
    parts = min(BLOCKS, len(windows))
    losses, blocks = [], []
    for length in settings.lengths:
        left = (longest - length) // 2
        first = (longest - settings.targets) // 2 - left  # the same character at each length, odd ones too
        near = slice(first, first + settings.targets)
        sums, counts = [], []
        for tokens, targets in zip(batch.tokens.tensor_split(parts), batch.targets.tensor_split(parts)):
            logits = model(tokens[:, left : left + length].to(device))[:, near].float()
            answers = targets[:, left : left + length][:, near].to(device)
            sums.append(cross_entropy(logits.flatten(0, 1), answers.flatten(), ignore_index=IGNORE, reduction="sum"))
            counts.append((answers != IGNORE).sum())
        sums, counts = torch.stack(sums), torch.stack(counts)
        losses.append((sums.sum() / counts.sum()).item())
        blocks.append([round(loss, 3) for loss in (sums / counts).tolist()])
    stored = {"blocks": {"whole": blocks}} if settings.windows >= BLOCKS * BLOCK else {}
    return {"lengths": settings.lengths, "whole": losses, **stored}


# ------------------------------------------------------------------------------------------------------------ puzzles


@torch.no_grad()
def share_wrong(model: Model, batch: Batch, cut: int | None = None) -> float:
    r"""The share of wrong answers among the scored tokens of a `Batch`; cut: as in `target_losses`."""
    device = next(model.parameters()).device
    length = batch.tokens.shape[1]
    mask = last_keys(length, cut, device)
    chunks = batch.tokens.split(max(1, 1024 // length))  # small tensors are reused, large ones mapped anew each time
    answers = torch.cat([model(tokens.to(device), mask=mask).argmax(-1).cpu() for tokens in chunks])
    asked = batch.targets != IGNORE
    return ((answers != batch.targets) & asked).sum().item() / asked.sum().item()


def fixed_batch(task: str, settings: Settings, options: dict, sequences: int = 256, seed: int = 2**31) -> Batch:
    """The fixed batch that a test of a task is measured on: the same for every model."""
    generator = torch.Generator().manual_seed(seed)  # far from the seeds that training draws with
    return TASKS[task].batch(generator, sequences, **{"length": settings.length} | options)


def task_errors(model: Model, task: str, settings: Settings, sequences: int = 256) -> dict:
    r"""The share of wrong answers on each test of a puzzle: {"in": ..., "longer": ..., ...}."""
    check_choice("task", task, TASKS)
    tests = TASKS[task].tests(settings.length)
    return {name: share_wrong(model, fixed_batch(task, settings, o, sequences)) for name, o in tests.items()}


def needle_errors(model: Model, settings: Settings, sequences: int = 64) -> dict:
    r"""The share of wrong answers to the one question of needle retrieval, by context length and distance.

    Returns: {"contexts": settings.lengths, "distances": [...], "grid": rows over contexts of lists over distances,
        None where the needle would not fit, "cut_row": the longest context with attention cut to the training
        length}. The needles and the question are the same at every context and distance.
    """
    contexts = settings.lengths
    distances = needle_distances(settings)
    errors = {"contexts": contexts, "distances": distances, "grid": [], "cut_row": []}
    for context in contexts:
        row = []
        for distance in distances:
            if distance >= context:
                row.append(None)
                continue
            options = {"length": context, "distance": distance, "questions": 1}
            batch = fixed_batch("needle", settings, options, sequences)
            row.append(share_wrong(model, batch))
            if context == contexts[-1]:
                errors["cut_row"].append(share_wrong(model, batch, cut=settings.length))
        errors["grid"].append(row)
    return errors


def needle_distances(settings: Settings) -> list[int]:
    """Distances to test: up to the farthest that training asks for, then up to the end of each longer context."""
    length = settings.length
    return [4, length // 8, length // 4, length // 2, length - 6, *(context - 6 for context in settings.lengths[1:])]


def scores(model: Model, task: str, settings: Settings) -> dict:
    """One number for each test of any task, for the command `run`: a loss for text, else an error share."""
    if task == "text":
        losses = short_long(model, settings)
        return {f"{kind} {n}": losses[kind][i] for kind in ("whole", "cut") for i, n in enumerate(losses["lengths"])}
    if task == "masked":
        losses = masked_losses(model, settings)
        return {f"loss {n}": value for n, value in zip(losses["lengths"], losses["whole"])}
    return {f"error {name}": value for name, value in task_errors(model, task, settings).items()}


# ---------------------------------------------------------------------------------------------- to choose settings by


@torch.no_grad()
def validation(model: Model, task: str, settings: Settings) -> float:
    r"""How a model does on what no test shows and no training read, at the training length: less is better.

    Text: nats per character over the `settings.held_back` characters kept from training; the last `settings.targets`
    of windows whose targets meet. Masked: nats per masked character there. Puzzles: nats per answer on a batch drawn
    as the test "in" is, with a seed of its own; shares of wrong answers would tie.
    """
    check_choice("task", task, TASKS)
    if task not in ("text", "masked"):
        batch = fixed_batch(task, settings, {}, 1024, seed=2**31 + 1)
    elif settings.held_back <= settings.length:
        raise ValueError(f"held_back={settings.held_back} must be more than length={settings.length}, to measure there")
    else:
        kept = load_corpus().train[-settings.held_back :]
        if task == "text":
            windows = kept.unfold(0, settings.length + 1, settings.targets)
            return target_losses(model, windows)[:, -settings.targets :].mean().item()
        windows = kept.unfold(0, settings.length, settings.length)
        batch = mask_characters(torch.Generator().manual_seed(2**31 + 1), windows)
    logits = model(batch.tokens.to(next(model.parameters()).device)).float().cpu()
    return cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORE).item()


# ------------------------------------------------------------------------------------------------- trained RoPE heads


@torch.no_grad()
def head_scores(model: Model, settings: Settings, windows: int = 64, longest: int = 256) -> dict:
    r"""What the trained heads of a RoPE model make of distance.

    score: q.k / sqrt(D) of real pairs in held-out text, by distance, mean and standard deviation. Up to the training
        length the windows have that length; beyond, they have `longest` characters, and the model is already outside
        of what it was trained on.
    cos, sin: for each lane pair p, from all pairs of a query and an earlier key inside the training window: their mean
        score, if the same vectors stood at distance d, is the sum over p of cos_p cos(d w_p) + sin_p sin(d w_p). So
        content is held and distance alone moves.
    Returns: {"inv_freq": [D/2], "heads": [{"layer", "head", "mean": [longest], "std": [longest], "cos": [D/2], "sin"}]}
    """
    attention = [block.attention for block in model.blocks]
    if any(layer.encoding.places != ("rotate",) for layer in attention):
        raise UnsupportedError(f"model has encodings at {attention[0].encoding.places}, head_scores reads RoPE alone")
    held_out, length, head_dim = load_corpus().held_out, settings.length, attention[0].head_dim
    w = inv_freq(head_dim, dtype=torch.float64)

    def cut(size, count):
        starts = torch.linspace(0, len(held_out) - size, count, dtype=torch.float64).long()
        return held_out[starts[:, None] + torch.arange(size)].to(next(model.parameters()).device)

    def queries_and_keys(tokens):
        """[layer] -> q, k [B, H, T, D] in float64, not yet turned."""
        inputs = []
        hooks = [layer.register_forward_pre_hook(lambda module, args: inputs.append(args[0])) for layer in attention]
        model(tokens)
        for hook in hooks:
            hook.remove()
        return [
            [to(x).unflatten(-1, (-1, head_dim)).transpose(1, 2).double() for to in (layer.to_q, layer.to_k)]
            for layer, x in zip(attention, inputs)
        ]

    short, long = queries_and_keys(cut(length, windows * longest // length)), queries_and_keys(cut(longest, windows))
    heads = []
    for layer in range(len(attention)):
        mean, std = [], []  # [H] for each distance
        for (q, k), distances in ((short[layer], range(length)), (long[layer], range(length, longest))):
            at = torch.arange(q.shape[2], device=q.device)
            scores = rotate(q, at, w) @ rotate(k, at, w).transpose(-2, -1) / math.sqrt(head_dim)  # [B, H, T, T]
            for distance in distances:
                pairs = scores.diagonal(-distance, dim1=-2, dim2=-1).transpose(0, 1).flatten(1)  # [H, pairs]
                mean.append(pairs.mean(1))
                std.append(pairs.std(1))
        mean, std = torch.stack(mean, 1), torch.stack(std, 1)  # [H, longest]
        q, k = short[layer]
        seen = k.cumsum(2)  # the sum of q_i k_j over j <= i is q_i times this
        (qa, qb), (ka, kb) = (q[..., 0::2], q[..., 1::2]), (seen[..., 0::2], seen[..., 1::2])
        pairs = len(q) * length * (length + 1) / 2
        cos = (qa * ka + qb * kb).sum((0, 2)) / pairs / math.sqrt(head_dim)  # [H, D/2]
        sin = (qa * kb - qb * ka).sum((0, 2)) / pairs / math.sqrt(head_dim)
        for head in range(q.shape[1]):
            by_distance = {"mean": (mean[head], 4), "std": (std[head], 4), "cos": (cos[head], 5), "sin": (sin[head], 5)}
            rounded = {key: [round(v, digits) for v in row.tolist()] for key, (row, digits) in by_distance.items()}
            heads.append({"layer": layer, "head": head} | rounded)
    return {"inv_freq": [round(value, 8) for value in w.tolist()], "heads": heads}
