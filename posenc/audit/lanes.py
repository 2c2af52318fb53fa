r"""Questions to a rotation: does it keep lengths, and which lanes turn together."""

import math

import torch

from .bench import Finding, at_most, decimals, percent, unlike, worst_at
from .by_hand import NotAsked


def ask_norm(bench):
    """A rotation keeps lengths."""
    if bench.exact.rotate is None:
        raise NotAsked("it turns no vectors")
    positions = torch.arange(bench.length)
    x = bench.random(1, bench.num_heads, bench.length, bench.head_dim)
    worst, example = 0.0, ""
    for kind, y in zip(("query", "key"), bench.rotate(x, positions)):
        ratio = (y.norm(dim=-1) / x.norm(dim=-1)).nan_to_num(math.inf)
        change = (ratio - 1).abs()
        if change.max() > worst:
            worst = change.max().item()
            place = worst_at(change)
            times, _ = unlike(ratio[place].item(), 1.0)
            example = f"a {kind} at position {place[2]}, head {place[1]}, becomes {times} times as long"
    words = f"lengths are kept to {worst:.2g}"
    return at_most("norm", worst, bench.tolerance, words, f"lengths change by up to {percent(worst)}", example)


def groups_of(matrices):
    """Lanes that meet, as sorted tuples: connected parts of where the matrices are not zero."""
    lanes = len(matrices[0])
    meets = torch.stack([m.abs() > 1e-5 for m in matrices]).any(0)
    meets = meets | meets.T | torch.eye(lanes, dtype=torch.bool)
    for _ in range(lanes.bit_length()):
        meets = (meets.double() @ meets.double()) > 0
    return sorted({tuple(row.nonzero().flatten().tolist()) for row in meets})


def name_of(pairs):
    """The name of a way to pair lanes."""
    flat = sorted(lane for pair in pairs for lane in pair)
    if pairs == [(a, a + 1) for a in flat[::2]]:
        return "interleaved"
    if pairs == [(a, b) for a, b in zip(flat[: len(pairs)], flat[len(pairs) :])]:
        return "half-split"
    return "pairs " + ", ".join(map(str, pairs[:3])) + ("..." if len(pairs) > 3 else "")


def fixed_lanes(bench, start):
    """Raise NotAsked where lanes can't be followed from position 0 on; start [D, D] is what happens to them there."""
    x, positions = bench.random(1, bench.num_heads, 2, bench.head_dim), torch.tensor([1, 2])
    one, many = bench.rotate(3 * x, positions)[0], 3 * bench.rotate(x, positions)[0]
    if (one - many).abs().max() > bench.tolerance:
        raise NotAsked("it is not linear, so lanes can't be told apart")
    if torch.linalg.matrix_rank(start, rtol=1e-6) < bench.head_dim:
        raise NotAsked("at position 0 it loses lanes, so what follows can't be told from a reordering")


def bent_block(matrices, groups, tolerance):
    r"""(how far, position, lanes, their products [b, b]) of the first block that is no rotation; None where all are.

    matrices: {position: [D, D]}. A rotation times a number is let pass: "norm" asks for that.
    """
    for group in groups:
        for position, matrix in matrices.items():
            block = matrix[list(group)][:, list(group)]
            square = block.T @ block
            bent = (square - square.trace() / len(group) * torch.eye(len(group))).abs().max().item()
            if bent > tolerance:
                return bent, position, group, square
    return None


def ask_layout(bench):
    """Send one lane at a time through the rotation and see where it comes out."""
    if bench.exact.rotate is None:
        raise NotAsked("it turns no vectors")
    positions = sorted({1, 3, bench.length - 1})
    start, *later = bench.matrices(torch.tensor([0, *positions])).transpose(0, 1)  # each [2, D, D]
    apart = (start[0] - start[1]).abs()
    if apart.max() > bench.tolerance:
        words = "queries and keys come out in different lanes"
        return Finding("layout", "fails", None, words, f"lane {worst_at(apart)[1]} at position 0")
    fixed_lanes(bench, start[0])
    back = torch.linalg.inv(start[0])
    into = [back @ m[0] for m in later]  # in the lanes of the input
    out = [m[0] @ back for m in later]  # in those of the output
    groups, of_keys = groups_of(into), groups_of([back @ m[1] for m in later])
    if groups != of_keys:
        ours, theirs = ([g for g in lanes if len(g) > 1] for lanes in (groups, of_keys))
        words = f"queries turn as {name_of(ours)}, keys as {name_of(theirs)}"
        return Finding("layout", "fails", None, words, f"lane {ours[0][0] if ours else theirs[0][0]}")
    moved = [g for g in groups if any((m[list(g)][:, list(g)] - torch.eye(len(g))).abs().max() > 1e-6 for m in into)]
    if not moved:
        raise NotAsked("it leaves every vector as it is")
    single = [g for g in moved if len(g) == 1]
    if single:
        lane = single[0][0]
        factors = ", ".join(f"{unlike(m[lane, lane].item(), 1.0)[0]} at {p}" for p, m in zip(positions, into))
        whole = "lanes never mix: each is scaled, none turns" if len(single) == len(moved) else "some lanes only scale"
        return Finding("layout", "fails", len(single), whole, f"lane {lane} is multiplied by {factors}")
    turned = [g for g in groups_of(out) if len(g) > 1]
    bent = bent_block(dict(zip(positions, out)), turned, bench.tolerance)
    if bent is not None:
        number, position, group, products = bent
        sizes = products.diagonal().sqrt()
        longest, shortest = unlike(sizes.max().item(), sizes.min().item())
        product = decimals(products.triu(1).abs().max().item())
        example = f"at position {position} unit vectors in lanes {group} get lengths from {shortest} to {longest}"
        example += f" and products of up to {product}"
        words = f"{name_of(moved)}, but the lanes of a pair do not turn as one"
        return Finding("layout", "fails", number, words, example)
    return named_layout(moved, turned, bench.head_dim)


def named_layout(moved, turned, head_dim):
    """The finding of a right rotation: how its lanes meet, in the input and in the output."""
    largest = max(len(g) for g in moved)
    if {len(g) for g in moved} != {2}:
        return Finding("layout", "holds", largest, f"blocks of up to {largest} lanes turn together")
    lanes = sum(len(g) for g in moved)
    words = name_of(moved)
    if turned != moved:
        words = f"reads {words}, writes {name_of(turned)}"
    words += "" if lanes == head_dim else f", {lanes} of {head_dim} lanes"
    if turned != moved:
        words += ": harmless while queries and keys share it"
    return Finding("layout", "holds", 2, words)
