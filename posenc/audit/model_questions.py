r"""The questions to a whole model, each a function of `models.Subject` that returns a finding."""

import copy

import torch

from .bench import Finding, decimals
from .by_hand import NotAsked, SubjectError

PADS, FAR = 5, 4096  # tokens on the left of a text that is padded; the farthest position that is asked


def ask_runs(s):
    s.begin()
    if not s.whole.isfinite().all():
        raise SubjectError("its logits are not finite")
    turned = torch.cat((s.ids[:1, :-1].flip(1), s.ids[:1, -1:]), dim=1)
    moved = s.off(s.run(turned)[:, -1], s.whole[:, -1])
    words = f"tokens before the last in reverse move its logits by {decimals(moved)} of their spread"
    words += ": too little for faults to show, its weights must be larger" * (moved <= 3 * s.tolerance)
    words += f"; beyond {s.stretched} tokens frequencies change, which is not asked" * ((s.stretched or 0) >= s.length)
    return Finding("runs", "told" if moved <= 3 * s.tolerance else "holds", moved, words)


def ask_batch(s):
    both = s.run(s.ids)
    return s.judge("batch", {f"row {i}": (both[[i]], s.run(s.ids[[i]])) for i in (0, 1)}, lambda case: "batch")


def padded(s):
    """A batch whose first text has pads on its left, its mask, its ids by the mask, and the text alone."""
    alone = s.ids[:1, PADS:]
    ids, mask = s.ids.clone(), torch.ones_like(s.ids)
    ids[0, :PADS], mask[0, :PADS] = s.pad, 0
    return ids, mask, (mask.cumsum(1) - 1).clamp(min=0), alone


def ask_padding(s):
    ids, mask, at, alone = padded(s)
    ways = {"ids by the mask": at, "the mask alone": None} if s.takes_ids else {"": None}
    expected = s.run(alone)
    cases = {way: (s.run(ids, positions, mask)[:1, PADS:], expected) for way, positions in ways.items()}

    def fault(way):
        others = ids.clone()
        others[0, :PADS] = s.changed[0, :PADS]
        one, other = (s.run(x, ways[way], mask)[:1, PADS:] for x in (ids, others))
        return "seen" if s.off(one, other) > s.tolerance / 10 else "counted"

    return s.judge("padding", cases, fault)


def ask_steps(s):
    sizes, (ids, mask, at, alone) = [1] * s.length, padded(s)
    cases = {way: (s.run(s.ids[:1], positions, sizes=sizes), s.whole) for way, positions in s.ways.items()}
    behind = s.run(ids, at if s.takes_ids else None, mask, sizes=[PADS + 2] + sizes[PADS + 2 :])[:1, PADS:]
    cases["behind pads"] = (behind, s.run(alone))
    return s.judge("steps", cases, lambda way: named_step(s, s.ways.get(way)))


def sees_ahead(s):
    """Whether, in one call, another last token moves what the model says of those before it."""
    text = torch.cat((s.ids[:1, :-1], s.changed[:1, -1:]), dim=1)
    return s.off(s.run(text)[:, :-1], s.whole[:, :-1]) > s.tolerance / 10


def named_step(s, positions):
    """The mistake that gives, in one call, what the model says of the last token alone behind a cache."""
    if sees_ahead(s):
        return "ahead"
    text, last, lowest = s.ids[:1], s.length - 1, torch.finfo(s.weights.dtype).min
    step = s.run(text, positions, sizes=[last, 1])[:, -1]
    if s.off(step, s.whole[:, -1]) <= s.tolerance:
        return "cache"
    for wrong in (0, last - 1, last + 1):
        at = s.at.clone()
        at[0, last] = wrong  # with a mask, or transformers would take it for another text
        if s.takes_ids and s.off(s.run(text, at, torch.ones_like(at))[:, -1], step) <= s.tolerance:
            return "step id", last, f"{wrong}" + ": ids begin anew in each call" * (wrong == 0)
    for hidden, words in ((last, "itself"), (last - 1, "the token before it"), (0, "the first token")):
        mask = torch.full((1, 1, s.length, s.length), lowest, dtype=s.weights.dtype).triu(1)
        mask[..., last, hidden] = lowest
        try:
            if s.off(s.run(text, None, mask)[:, -1], step) <= s.tolerance:
                return "step mask", last, words
        except SubjectError:  # it takes no mask of pairs
            break
    return "cache"


def ask_chunks(s):
    sizes = [s.length - 9, 2, 7]
    cases = {way: (s.run(s.ids[:1], positions, sizes=sizes), s.whole) for way, positions in s.ways.items()}
    return s.judge("chunks", cases, lambda way: "ahead" if sees_ahead(s) else "chunks")


def ask_generate(s, new=8):
    if s.own_call or not hasattr(s.model, "generate"):
        raise NotAsked("it has no generate of transformers")
    (ids, mask, *_), device, gaps = padded(s), s.weights.device, [(0.0, None)]
    told = {"max_new_tokens": new, "do_sample": False, "eos_token_id": None, "pad_token_id": s.pad}
    try:
        both = s.model.generate(ids.to(device), attention_mask=mask.to(device), **told).cpu()
        each = [s.model.generate(row.to(device), **told).cpu()[0] for row in (s.ids[:1, PADS:], s.ids[1:])]
    except Exception as error:
        raise SubjectError from error
    for row, alone in zip(both, each):  # where they part: how much less likely it finds the other's token
        for n in (row[-len(alone) :] != alone).nonzero()[:1, 0].tolist():
            logits = s.run(alone[None, :n])[0, -1] / s.spread
            gaps.append(((logits[alone[n]] - logits[row[n - len(alone)]]).abs().item(), n - len(alone) + new))
    gap, first = max(gaps)
    if gap <= s.tolerance:
        return Finding("generate", "holds", gap, f"{new} new tokens are the same")
    return s.fails("generate", gap, "generate", f"new token {first} is another, apart by {decimals(gap)} of the spread")


def ask_packed(s):
    if not s.takes_ids:
        raise NotAsked("it takes no position_ids, by which texts are told apart")
    first, row, changed = s.length // 3, s.ids[:1], s.ids[:1].clone()
    changed[:, :first] = s.changed[:1, :first]
    at = torch.cat((s.at[:, :first], s.at[:, : s.length - first]), dim=1)
    logits, moved = (s.run(text, at)[:, first:] for text in (row, changed))
    leaks = s.off(moved, logits) > s.tolerance / 10
    cases = {"the second text": (logits, s.run(row[:, first:]))}
    return s.judge("packed", cases, lambda case: "leak" if leaks else "packed")


def ask_shift(s):
    if not s.takes_ids:
        raise NotAsked("it takes no position_ids to move")
    if any(layer.method == "learned" or layer.query for layer in s.reading or ()):
        raise NotAsked("it reads places by design: by a learned table, or a factor on queries")
    cases = {f"ids moved by {s.length}": (s.run(s.ids[:1], s.at + s.length), s.whole)}
    found = s.judge("shift", cases, lambda case: "shift")
    known = s.reading is not None
    return found if known else found._replace(verdict="told", example="posenc.configs does not know its type")


def ask_turns(s):
    said = [layer for layer in s.reading or () if layer.inv_freq is not None and not layer.rope.dynamic]
    said = [layer.direction * layer.inv_freq.double() for layer in said]
    held = [  # buffers, and what posenc.bridges.write_rope leaves
        (name, value.cpu())
        for module in s.model.modules()
        for name, value in (*module._buffers.items(), *vars(module).items())
        if name.endswith("inv_freq") and not name.startswith("original") and torch.is_tensor(value)
    ]
    if not said or not held:
        raise NotAsked("it holds no inv_freq that stands still, or posenc.configs does not know its type")
    worst = (0.0, None, "")
    for name, value in held:
        offs = {(value.double().abs() - w.abs()).abs().max().item() * FAR: w for w in said if w.shape == value.shape}
        if offs and min(offs) >= worst[0]:
            fits = torch.equal(offs[min(offs)].bfloat16().abs().double(), value.double().abs())
            worst = (min(offs), torch.bfloat16 if fits else value.dtype, name)
    number, dtype, name = worst
    words = f"the angle of {name} at position {FAR} is off by {decimals(number)} radians"
    if number <= 0.01:
        return Finding("turns", "holds", number, words)
    return s.fails("turns", number, "other" if dtype == torch.float32 else ("rounded", dtype), words)


def far_of(s):
    """Ids that stand far apart, up to the length of training, and what the model says of a text at them."""
    if not s.takes_ids:
        raise NotAsked("it takes no position_ids, by which far positions are reached")
    if not s.exact:
        raise NotAsked(f"its weights are {s.weights.dtype} already; turns tells of its frequencies")
    far = s.at * ((min(s.trained, FAR) - 1) // (s.length - 1))
    return far, s.run(s.ids[:1], far, torch.ones_like(far))


def ask_half(s):
    far, expected = far_of(s)
    twin = copy.deepcopy(s.model)  # as if loaded in bfloat16: what is not saved stays as it is
    kept = [(m, name, m._buffers[name]) for m in twin.modules() for name in m._non_persistent_buffers_set]
    twin.to(torch.bfloat16)
    for module, name, buffer in kept:
        module._buffers[name] = buffer
    near = s.off(s.run(s.ids[:1], s.at, model=twin), s.whole)
    number = s.off(s.run(s.ids[:1], far, torch.ones_like(far), model=twin), expected)
    words = f"off by {decimals(near)} of the spread near, by {decimals(number)} with ids up to {far[0, -1]}"
    return Finding("half", "holds", number, words) if number <= 4 * near else s.fails("half", number, "half", words)


def ask_cast(s):
    (far, expected), twin = far_of(s), copy.deepcopy(s.model)
    for module in twin.modules():
        for name in module._non_persistent_buffers_set:
            buffer = module._buffers[name]
            if buffer is not None and buffer.is_floating_point() and buffer.numel() > 1:  # Gemma's scale is one number
                module._buffers[name] = buffer.bfloat16().to(buffer.dtype)
    number = s.off(s.run(s.ids[:1], far, torch.ones_like(far), model=twin), expected)
    words = f"what it rounds besides weights moves logits by {decimals(number)} of their spread, ids up to {far[0, -1]}"
    if number <= 100 * s.tolerance:
        return Finding("cast", "holds", number, words)
    return s.fails("cast", number, "cast", words)
