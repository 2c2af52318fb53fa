r"""The questions whose answer is found by running the subject twice, and what it writes."""

import math

import torch

from ..layer import KVCache
from .bench import Finding, at_most, decimals, percent, unlike, unravel, worst_at
from .by_hand import NotAsked, SubjectError, error_words

WRONG = 0.05  # a weight in a narrow dtype that is off by more than this is no rounding
STEP = 1e-3  # of finite differences; some subjects compute in float32 inside
SLOPE = 1e-2  # largest disagreement of a gradient, as a share of its largest entry


def ask_shape(bench):
    """It runs at all: three sequences, integer and float positions."""
    positions = torch.arange(5)
    x = bench.tokens(5).expand(3, -1, -1)
    for at in (positions, positions.double()):
        try:
            out, _ = bench.run(x, at)
        except SubjectError as error:
            kind = "whole" if at is positions else "float"
            words = f"it does not run in float64 on three sequences of 5 tokens at {kind} positions"
            if at is not positions:  # a table is right to ask for whole numbers
                return Finding("shape", "holds", None, f"it runs at whole positions alone ({error_words(error)})")
            return Finding("shape", "fails", None, words, error_words(error))
        if not out.isfinite().all():
            return Finding("shape", "fails", None, "its output is not finite", "positions 0 to 4")
    return Finding("shape", "holds", None, "it runs in float64 on several sequences, at whole and at float positions")


def ask_relative(bench):
    """Shift all positions, inside the trained length and, if that is accepted, far beyond; no weight may change."""
    size = max(4, bench.length // 4)
    beyond = max(1, bench.far - size // 2)  # the window lies across `far`: a counter that wraps there shows
    x, positions = bench.tokens(size), torch.arange(size)
    before = bench.outcome(x, positions)
    worst, example, farthest = 0.0, "", 0
    for shift in sorted({1, bench.length // 2, bench.length - size, beyond}):
        try:
            after = bench.outcome(x, positions, shift=shift)
        except SubjectError:
            if shift == beyond:  # a table's end
                break
            raise
        change = (after - before).abs().nan_to_num(math.inf)
        farthest = shift
        if change.max() > worst:
            worst = change.max().item()
            _, head, i, j = place = worst_at(change)
            pair = f"query {i}, key {j}, head {head}: weight" if bench.shows == "weight" else f"token {i}: output"
            home, away = unlike(before[place].item(), after[place].item(), 4)
            by = bench.line(torch.tensor(0), shift).tolist()
            example = f"{pair} {home} at home, {away} with all positions moved by {by}"
    what = bench.shows
    exact = "" if worst < 1e-9 else ", as in float32"
    words = f"moving all positions by up to {farthest} changes no {what} by more than {worst:.2g}{exact}"
    broken = f"moving all positions by up to {farthest} changes a {what} by {worst:.2g}"
    return at_most("relative", worst, bench.tolerance, words, broken, example)


def disagreement(compute, leaves, generator, samples):
    r"""The worst entry of the gradient of compute() as autograd and finite differences have it.

    leaves: {name: tensor that requires a gradient}. Returns (share of the largest entry, words).
    """
    weight = None

    def loss():
        nonlocal weight
        out = compute()
        if weight is None:
            weight = torch.randn(out.shape, dtype=torch.float64, generator=generator)
        return (out * weight).sum()

    value, grads = loss(), [None] * len(leaves)
    if value.requires_grad:
        grads = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
    worst, words = 0.0, ""
    for (name, leaf), grad in zip(leaves.items(), grads):
        grad = torch.zeros_like(leaf) if grad is None else grad
        flat, numbers = leaf.detach().view(-1), {}
        for index in torch.randperm(len(flat), generator=generator)[:samples].tolist():
            old, ends = flat[index].item(), []
            for step in (STEP, -STEP):
                flat[index] = old + step  # shares memory with the leaf
                ends.append(loss().item())
            flat[index] = old
            numbers[index] = (ends[0] - ends[1]) / (2 * STEP)
        largest = max([grad.abs().max().item(), *map(abs, numbers.values()), 1e-6])
        for index, number in numbers.items():
            claimed = grad.reshape(-1)[index].item()
            off = abs(claimed - number) / largest
            if not off <= worst:
                place = ", ".join(map(str, unravel(index, leaf.shape)))
                ours, theirs = unlike(claimed, number, 4)
                words = f"{name}[{place}]: backward says {ours}, finite differences {theirs}"
                worst = off if off == off else math.inf
    return worst, words


def ask_gradient(bench):
    """Autograd, or a backward pass written by hand, against finite differences of the forward pass."""
    generator = bench.generator()
    worst, example = 0.0, ""
    size = min(6, bench.length)
    positions = torch.arange(size)
    parameters = {n: p for n, p in bench.exact.named_parameters() if p.requires_grad}
    x = bench.tokens(size).requires_grad_()
    trials = [(lambda: bench.run(x, positions)[0], {"tokens": x} | parameters, 8)]
    if bench.exact.rotate is not None:
        vector = bench.random(1, bench.num_heads, size, bench.head_dim).requires_grad_()
        trials.insert(0, (lambda: torch.cat(bench.rotate(vector, positions)), {"x": vector}, 32))
    for compute, leaves, samples in trials:
        try:
            off, words = disagreement(compute, leaves, generator, samples)
        except RuntimeError as error:  # raised by the backward pass
            return Finding("gradient", "fails", None, "the backward pass raises", error_words(error))
        if off > worst:
            worst, example = off, words
    what = "inputs and parameters" if parameters else "inputs"
    words = f"backward and finite differences agree for {what}, to {worst:.2g} of the largest entry"
    broken = f"the backward pass is off by {percent(worst, 0)} of the largest entry"
    return at_most("gradient", worst, SLOPE, words, broken, example)


def ask_precision(bench):
    """Tokens at ever larger positions look at each other and back at the first ones, in narrow dtypes."""
    width = min(16, bench.length)
    x = bench.tokens(width)
    dtypes = {"float32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "autocast to bf16": None}

    def window(start, dtype):
        """The outcome of tokens from `start` on, behind the first ones where a cache can hold those."""
        cache = KVCache() if bench.weighs else None
        if bench.weighs and start:
            bench.run(x, torch.arange(width), cache=cache, dtype=dtype)
        return bench.outcome(x, torch.arange(start, start + width), cache=cache, dtype=dtype).double()

    def off(name, start, right):
        """The largest error for each token of the window, [width]."""
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtypes[name] is None):
            out = window(start, dtypes[name] or torch.float32)
        return ((out - right) / right.abs().max().clamp(min=1)).abs().amax((0, 1, 3)).nan_to_num(math.inf)

    starts = [0, *(2**p for p in range(5, 40) if 2**p < bench.far - width), bench.far - width]
    first, worst, before = {}, dict.fromkeys(dtypes, 0.0), 0
    for start in starts:
        try:
            right = window(start, torch.float64)
        except SubjectError:  # a table's end
            if start == 0:
                raise
            break
        reached = start + width - 1
        for name in dtypes:
            error = off(name, start, right)
            worst[name] = max(worst[name], error.max().item())
            if name not in first and error.max() > WRONG:
                place = start
                for between in range(before + width, start, width):  # where, since the last window that was right?
                    closer = off(name, between, window(between, torch.float64))
                    if closer.max() > WRONG:
                        place, error = between, closer
                        break
                first[name] = place + int((error > WRONG).nonzero()[0])
        before = reached - width + 1
    errors = ", ".join(f"{name} {value:.2g}" for name, value in worst.items())
    what = "a weight" if bench.shows == "weight" else "an output"
    words = f"worst error of {what} up to position {reached}: {errors}"
    if not first:
        return Finding("precision", "holds", None, words)
    example = ", ".join(f"{name} is first wrong at position {p}" for name, p in first.items())
    return Finding("precision", "fails", min(first.values()), words, example)


def ask_causality(bench):
    """Change the future, watch the past."""
    if not bench.causal:
        raise NotAsked("it is audited without a causal mask")
    size = min(12, bench.length)
    cut = size // 2
    x, positions = bench.tokens(size), torch.arange(size)
    changed = x.clone()
    changed[:, cut:] = -3 * changed[:, cut:].flip(1)  # other directions, other lengths
    moved = (bench.run(changed, positions)[0] - bench.run(x, positions)[0])[:, :cut].abs().amax((0, 2))
    number = moved.max().item()
    first = int((moved > 1e-9).nonzero()[0]) if number > 1e-9 else 0
    example = f"tokens from {cut} on change, and the output of token {first} moves by {moved[first].item():.2g}"
    words = "changing the future leaves the past as it was"
    return at_most("causality", number, 1e-9, words, "the past moves", example)


def ask_cache(bench):
    """Step by step and in chunks at their offsets, against all at once."""
    if not bench.causal:
        raise NotAsked("without a causal mask there is nothing to decode step by step")
    size = min(12, bench.length)
    x, positions = bench.tokens(size), torch.arange(size)
    whole = bench.run(x, positions)[0]
    worst, example = 0.0, ""
    for words, parts in (("one token at a time", [1] * size), ("in two chunks", [size // 3, size - size // 3])):
        cache, pieces = KVCache(), []
        for part, at in zip(x.split(parts, 1), positions.split(parts)):
            try:
                pieces.append(bench.run(part, at, cache=cache)[0])
            except SubjectError as error:
                if bench.exact.attend is None:
                    raise
                raise NotAsked(f"it takes no fewer queries than keys ({error_words(error)})") from None
        off = (torch.cat(pieces, 1) - whole).abs().amax((0, 2)).nan_to_num(math.inf)
        if off.max() > worst:
            worst = off.max().item()
            first = int((off > bench.tolerance).nonzero()[0]) if worst > bench.tolerance else 0
            example = f"{words}, token {first} is off by {off[first].item():.2g}"
    words = f"token by token and in chunks it is the full pass to {worst:.2g}"
    return at_most("cache", worst, bench.tolerance, words, f"decoding differs by {worst:.2g}", example)


def ask_batch(bench):
    """Two sequences in one call, at shared positions and each at its own, against each in a call of its own."""
    size = min(8, bench.length // 2)
    x, near = 2 * bench.random(2, size, bench.head_dim * bench.num_heads), torch.arange(size)
    own = torch.stack((near, 2 * near + 1))  # with other gaps: what is relative can't see a shift
    worst, example = 0.0, ""
    for where, positions in (("both at the same positions", near), ("each at positions of its own", own)):
        together = bench.run(x, positions)[0]
        alone = torch.cat([bench.run(x[i : i + 1], row)[0] for i, row in enumerate(positions.expand(2, -1))])
        off = (together - alone).abs().amax(-1).nan_to_num(math.inf)
        if off.max() > worst:
            worst = off.max().item()
            row, token = worst_at(off)
            example = f"{where}, token {token} of row {row} is off by {worst:.2g}"
    words = f"two rows in one call are each row alone, to {worst:.2g}"
    return at_most("batch", worst, bench.tolerance, words, "a row in a batch is not the row alone", example)


def ask_weights(bench):
    """Rows of weights: no negative entry, nothing above 1 in sum, nothing on hidden keys."""
    size = bench.length
    x, positions = bench.tokens(size), torch.arange(size)
    _, weights = bench.run(x, positions)
    if weights is None:
        weights = bench.weights(*bench.random(2, 1, bench.num_heads, size, bench.head_dim), bench.gates(size))
    sums, lowest = weights.sum(-1), weights.min().item()
    hidden = weights.triu(1).abs().max().item() if bench.causal else 0.0
    highest = sums.max().item()
    if lowest < -1e-9 or hidden > 1e-9 or not highest <= 1 + bench.tolerance:
        place = worst_at(sums)
        example = f"query {place[2]}, head {place[1]}: its weights sum to {unlike(highest, 1.0, 2)[0]}"
        if hidden > 1e-9:
            _, _, i, j = worst_at(weights.triu(1).abs())
            example = f"query {i} gives key {j}, which it must not see, {decimals(hidden)}"
        elif lowest < -1e-9:
            sums_too = f"; {example}" if highest > 1 + bench.tolerance else ""
            example = f"a weight of {decimals(lowest)}{sums_too}"
        return Finding("weights", "fails", highest, "rows are no shares of one whole", example)
    words = f"rows sum to {decimals(sums.min().item(), 2)} at least, {highest:.2f} at most"
    return Finding("weights", "holds", highest, words)


def ask_distance(bench):
    """One query looks back at keys that all say what it says: what then differs between them is distance alone."""
    if bench.exact.axes is not None:
        raise NotAsked("it does not apply: with several axes, keys are not in one order from near to far")
    if bench.exact.places == ("embed",) and bench.exact.attend is None:
        raise NotAsked("learned projections decide what becomes of what it adds")
    size = bench.length
    same = bench.random(1, bench.num_heads, 1, bench.head_dim).expand(-1, -1, size, -1)
    gates = bench.gates(1)
    gates = None if gates is None else gates.expand(-1, -1, size, *gates.shape[3:])
    weights = bench.weights(same, same, gates)[0, :, -1].flip(-1)  # [H, T], by distance
    return judged_decay(weights) if bench.decays else told_distance(weights)


def heads_in_words(chosen):
    """Which heads are chosen; chosen: [H] bool."""
    heads = chosen.nonzero().flatten().tolist()
    return "every head" if chosen.all() else f"head{'s' * (len(heads) > 1)} {', '.join(map(str, heads))}"


def told_distance(weights):
    """The finding that says which quarter of the keys wins, head by head; weights [H, T], by distance."""
    quarter = weights.shape[1] // 4
    near, far = weights[:, :quarter].sum(-1), weights[:, -quarter:].sum(-1)
    lead = torch.where((near - far).abs() > 1e-6 * (near.abs() + far.abs()), near - far, 0.0)
    if not lead.any():
        return Finding("distance", "told", 0.0, "at equal content neither the nearest keys win nor the farthest")
    parts = []
    for end, wins in (("the nearest keys win", lead > 0), ("the farthest keys win", lead < 0), ("neither", lead == 0)):
        parts += [f"{end} in {heads_in_words(wins)}"] if wins.any() else []
    head = int(lead.abs().argmax())
    shares = f"head {head} gives the {quarter} nearest {decimals(near[head].item())}"
    shares += f", the {quarter} farthest {decimals(far[head].item())}"
    return Finding("distance", "told", lead.min().item(), f"at equal content {', '.join(parts)}; {shares}")


def judged_decay(weights):
    """The finding for a claimed decay; weights [H, T], by distance. A stick gives a token itself none: from 1 on."""
    before, after = weights[:, 1:-1], weights[:, 2:]
    gain = (after - before) - 1e-6 * before.abs()
    if gain.max() > 0:
        head, step = worst_at(gain)
        near, far = unlike(before[head, step].item(), after[head, step].item())
        example = f"head {head}: a key {step + 1} tokens away gets {near}, one {step + 2} away {far}"
        words = "at equal content a farther key gets more, although decay is claimed"
        return Finding("distance", "fails", gain.max().item(), words, example)
    fall = (weights[:, 1] - weights[:, -1]) / weights[:, 1]
    if not fall.min() > 1e-6:
        head = int(fall.argmin())
        words = "at equal content a head weighs all distances alike, although decay is claimed"
        example = f"head {head}: {decimals(weights[head, 1].item())} one token away and {weights.shape[1] - 1} away"
        return Finding("distance", "fails", fall.min().item(), words, example)
    words = "at equal content no key gets more than a nearer one, and the farthest gets less than the nearest"
    return Finding("distance", "holds", fall.min().item(), words)


def ask_same(pair, name):
    """Weights, or outputs where those agree, of two benches: at home, in a short row, far apart and far out."""
    bench, home = pair[0], torch.arange(pair[0].length)
    worst, reached, example, heads = 0.0, 0, "", torch.zeros(bench.num_heads, dtype=torch.bool)
    for at in (home, home[-5:], torch.arange(math.isqrt(8 * bench.length)) ** 2, torch.arange(8) + bench.far):
        try:
            outputs, weights = zip(*(one.run(bench.tokens(len(at)), at) for one in pair))
        except SubjectError:  # a table's end
            if at is home:
                raise
            continue
        equal = any(w is None for w in weights) or bool((weights[0] - weights[1]).abs().max() <= bench.tolerance)
        mine, theirs = (x.reshape(-1, *x.shape[-2:]) for x in (outputs if equal else weights))  # [H or 1, Tq, Tk or C]
        reached, change = int(at[-1]), (mine - theirs).abs().nan_to_num(math.inf)
        worst, wrong = max(worst, change.max().item()), change > bench.tolerance
        heads |= wrong.flatten(1).any(1) & (not equal)
        if wrong.any() and not example:
            i, j = wrong.any(0).nonzero()[0].tolist()
            h, places = int(wrong[:, i, j].nonzero()[0]), bench.line(at).tolist()
            where = f"token at {places[i]}" if equal else f"query at {places[i]}, key at {places[j]}, head {h}"
            example = "first {}: {}, not {}".format(where, *unlike(mine[h, i, j].item(), theirs[h, i, j].item(), 4))
    what, where = ("a weight", f", in {heads_in_words(heads)}") if heads.any() else ("an output", "")
    broken = f"{what} is not that of {name}, by up to {worst:.2g}{where}"
    words = f"weights and outputs are those of {name}, to {worst:.2g}, up to position {reached}"
    return at_most("same", worst, bench.tolerance, words, broken, example)
