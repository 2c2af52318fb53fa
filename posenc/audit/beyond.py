r"""Questions past the trained length: does it stay finite, and in the range of training."""

import math
import re

import torch

from ..attention import attention
from .bench import Finding, decimals, worst_at
from .by_hand import NotAsked, SubjectError, error_words

NEW = 0.2  # a logit, or a unit vector, this far from all that training showed counts as unseen


def ask_finite(bench):
    """Windows past the trained length, up to eight times as far, and a last query that looks back at all keys."""
    width = min(16, bench.length)
    x = bench.tokens(width)

    def last_row(length):
        """The output of the last of `length` tokens; a window alone sees short distances only."""
        q, k = (bench.random(1, bench.num_heads, size, bench.head_dim) for size in (1, length))
        at = bench.line(torch.arange(length))[None]
        options = dict(pos_q=at[:, -1:], pos_k=at, causal=bench.causal, gates=bench.gates(length))
        try:
            return attention(q, k, k, bench.exact, **options)
        except Exception as error:
            raise SubjectError from error

    for factor in (1, 2, 4, 8):
        start = factor * bench.length - (width if factor > 1 else 0)
        end = start + width - 1
        trials = [(f"position {end}", f"positions {start} to {end}", bench.outcome, (x, torch.arange(start, end + 1)))]
        if bench.exact.attend is None:  # a whole attention function may want as many queries as keys
            far = f"distance {factor * bench.length - 1}"
            trials.append((far, f"a query that sees keys up to {far}", last_row, (factor * bench.length,)))
        for limit, where, compute, given in trials:
            try:
                out = compute(*given)
            except SubjectError as error:
                words, said = f"it refuses {limit}", error_words(error)
                if any(bench.length <= int(n) <= 8 * bench.length + 16 for n in re.findall(r"\d+", said)):
                    return Finding("finite", "holds", start, f"{words} and names the limit: {said}")
                return Finding("finite", "fails", start, f"{words} in words that name no limit", said)
            if not out.isfinite().all():
                return Finding("finite", "fails", start, "it is not finite", where)
    return Finding("finite", "holds", None, f"finite up to position {8 * bench.length - 1}")


def unseen_angles(bench):
    """(lanes, words, example) where lanes stand past the trained length as they never stood within it, or None."""
    near, far = torch.arange(bench.length), torch.arange(bench.length, 8 * bench.length)
    steps = far[:: max(1, len(far) // 64)]
    trained, new = (bench.matrices(p)[0].permute(2, 0, 1) for p in (near, steps))  # [D, T, D], a lane each
    gaps = torch.cdist(new, trained).amin(-1).nan_to_num(math.inf)  # [D, steps]
    lanes = (gaps.amax(-1) > NEW).nonzero().flatten().tolist()
    if not lanes:
        return None
    away = int(steps[int(gaps[lanes[-1]].argmax())])
    words = f"{len(lanes)} of {bench.head_dim} lanes are turned by angles not trained on"
    return len(lanes), words, f"lane {lanes[-1]}, {away} tokens away"


def additions(bench):
    r"""{place: (values within, values beyond the trained length)}, each [rows, T], of a bias and of an embedding."""
    encoding, tables = bench.exact, {}

    def biases(length):
        """Of one query at every distance, [H, length], its own as zero: a softmax sees differences alone."""
        q, k = bench.random(2, 1, bench.num_heads, 1, bench.head_dim)
        at = bench.at(torch.tensor([length - 1]), torch.arange(length))
        b = encoding.bias(q, k.expand(-1, -1, length, -1), at)
        b = torch.broadcast_to(b, (1, bench.num_heads, 1, length))[0, :, 0].flip(-1).double()
        return b - b[:, :1]

    def vectors(start, end):
        """What is added at positions, [C, T]."""
        x = torch.zeros(1, end - start, bench.head_dim * bench.num_heads, dtype=torch.float64)
        return encoding.embed(x, torch.arange(start, end)[None])[0].T

    try:
        if encoding.bias is not None:
            tables["bias"] = biases(bench.length), biases(8 * bench.length)[:, bench.length :]
        if encoding.embed is not None:
            tables["embed"] = vectors(0, bench.length), vectors(bench.length, 8 * bench.length)
    except Exception as error:
        raise SubjectError from error
    return tables


def unseen_values(bench, place, trained, new):
    """(rows, words, example) where rows of a bias or an embedding leave the range of training, or None."""
    row, where = ("head", "distance") if place == "bias" else ("lane", "position")
    low, high = trained.amin(-1, keepdim=True), trained.amax(-1, keepdim=True)
    beyond = torch.maximum(low - new, new - high)
    beyond = beyond if place == "bias" else beyond / trained.abs().max()
    familiar = (new == low) | (new == high)  # an infinite penalty, too, may be what training showed
    beyond = torch.where(familiar, 0.0, beyond).nan_to_num(math.inf, posinf=math.inf)
    rows = int((beyond.amax(-1) > NEW).sum())
    if not rows:
        return None
    r, d = worst_at(beyond)
    span = f"trained on {decimals(low[r].item(), 2)} to {decimals(high[r].item(), 2)}"
    example = f"{row} {r} at {where} {d + bench.length}: {decimals(new[r, d].item(), 2)}, {span}"
    return rows, f"{rows} of {len(new)} {row}s leave the range of training", example


def unseen_parameters(bench, trained, new):
    """(how many, words, "") of the learned numbers that only values past the trained length read, or None."""
    parameters = [p for p in bench.exact.parameters() if p.requires_grad]
    if not parameters or not new.requires_grad:
        return None
    near, far = (torch.autograd.grad(x.square().sum(), parameters, allow_unused=True) for x in (trained, new))
    count = 0
    for a, b in zip(near, far):
        if a is not None and b is not None:
            least = 1e-9 * b.abs().max()  # what cancels leaves noise
            count += int(((b.abs() > least) & (a.abs() <= least)).sum())
    return (count, f"{count} learned numbers are read that training never reached", "") if count else None


def ask_unseen(bench):
    """What a model meets past the trained length that no weight was trained on: values, and learned numbers."""
    if bench.exact.axes is not None:
        raise NotAsked("it does not apply: with several axes, training reaches a box of offsets and not one length")
    turns = bench.exact.rotate is not None
    news = [unseen_angles(bench)] if turns else []
    tables = additions(bench)
    news += [unseen_values(bench, place, *values) for place, values in tables.items()]
    news += [unseen_parameters(bench, *values) for values in tables.values()]
    kinds = ["turns"] * turns + [{"bias": "biases", "embed": "vectors"}[place] for place in tables]
    if not kinds:
        raise NotAsked("at its place no turn, bias or vector can be read")
    news = [new for new in news if new is not None]
    if not news:
        return Finding("unseen", "holds", 0, f"its {' and '.join(kinds)} stay in the range of training")
    number, words, example = zip(*news)
    return Finding("unseen", "fails", number[0], "; ".join(words), "; ".join(filter(None, example)))
