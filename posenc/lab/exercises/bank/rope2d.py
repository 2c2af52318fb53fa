r"""Questions on RoPE with two axes and more."""

import math

import torch

from posenc.lab.exercises.bank.question import Question, number, options, vector
from posenc.lab.exercises.rope2d import angles, axial_freqs, positions_for, rotate_axes

F64 = torch.float64


def ladder(draw):
    dim, axes, base = draw.choice([(32, 2, 100), (64, 2, 100), (48, 3, 1000), (64, 2, 10000)])
    freqs = axial_freqs(dim, axes, float(base)).double()
    slowest, steps = float(freqs[freqs > 0].min()), dim // (2 * axes)
    return Question(
        f"Axial RoPE with D = {dim}, {axes} axes, base {base:,}. How many steps t has the ladder of each axis, what is its slowest frequency, and after how many patches has that pair gone around once? Why is the ladder of each axis shorter than RoPE's?",
        f"{steps} steps; {number(slowest)}; {number(2 * math.pi / slowest)} patches",
        (
            (1, f"D/(2n) = {steps} steps, ω_t = b^(−2nt/D)"),
            (1, f"{number(slowest)}, {number(2 * math.pi / slowest)} patches; the D/2 pairs are shared among the axes"),
        ),
        {number(base ** (-(dim - 2) / dim)): "this is the ladder of one axis: the exponent is 2nt/D"},
        {"dim": dim, "axes": axes, "base": base},
        (steps, slowest, 2 * math.pi / slowest),
        1,
        5,
    )


def by_hand(draw):
    x, p = [draw.randint(1, 5) for _ in range(4)], [draw.randint(1, 4), draw.randint(5, 9)]

    def turn(place):
        rows = torch.tensor([x], dtype=F64), torch.tensor([place], dtype=F64)
        return rotate_axes(*rows, torch.eye(2, dtype=F64))[0].tolist()

    key = turn(p)
    return Question(
        f"D = 4, two axes, so one step with ω = 1: pair (0, 1) turns with the row, pair (2, 3) with the column. Turn x = {vector(x)} at row {p[0]}, column {p[1]}.",
        vector(key),
        ((1, f"angles {p[0]} and {p[1]} radians"), (1, vector(key))),
        {vector(turn(p[::-1])): "row and column are swapped", vector(turn([-a for a in p])): "it turns backwards"},
        {"x": x, "p": p},
        tuple(key),
        1,
        5,
    )


def ids_of_a_picture(draw):
    layout = [draw.randint(2, 5), (draw.randint(2, 4), draw.randint(3, 6)), draw.randint(1, 3)]
    ids = positions_for(layout)
    first, last, word = (
        ids[layout[0]].tolist(),
        ids[layout[0] + layout[1][0] * layout[1][1] - 1].tolist(),
        ids[-1].tolist(),
    )
    count = layout[0] + layout[1][0] * layout[1][1] + layout[2] - 1
    return Question(
        f"M-RoPE gives (time, row, column) to each token. A text has {layout[0]} words, a picture of {layout[1][0]} × {layout[1][1]} patches, {layout[2]} more words. Give the ids of the first patch, the last patch and the last word. Why is text unchanged by the three axes, and where would the last word stand if tokens were counted?",
        f"{vector(first)}, {vector(last)}, {vector(word)}; counted: {count}",
        (
            (1, f"a picture starts one after the text: {vector(first)}"),
            (1, f"its last patch {vector(last)}; text goes on one past the largest id: {vector(word)}"),
            (1, f"a word has one number on all axes, so all pairs turn as in RoPE; counted it would be {count}"),
        ),
        {vector([count] * 3): "the patches were counted: the picture takes as many ids as its longer side"},
        {"layout": [layout[0], list(layout[1]), layout[2]]},
        (*first, *last, *word),
        2,
        6,
    )


def rectangle(draw):
    generator = torch.Generator().manual_seed(draw.randint(0, 9))
    r, c = draw.randint(1, 3), draw.randint(1, 3)
    freqs = axial_freqs(8, 2, 100.0).double()
    q, k = torch.randn(2, 1, 8, generator=generator, dtype=F64)
    corners = torch.tensor([[0, 0], [0, c], [r, 0], [r, c]], dtype=F64)
    scores = (
        rotate_axes(k.expand(4, 8), corners, freqs) @ rotate_axes(q, torch.zeros(1, 2, dtype=F64), freqs)[0]
    ).tolist()
    tie = scores[0] - scores[1] - scores[2] + scores[3]
    mixed = torch.randn(2, 4, generator=generator, dtype=F64)
    other = (
        rotate_axes(k.expand(4, 8), corners, mixed) @ rotate_axes(q, torch.zeros(1, 2, dtype=F64), mixed)[0]
    ).tolist()
    free = other[0] - other[1] - other[2] + other[3]
    return Question(
        f"Axial form: a query scores keys of one content at the corners of a rectangle, {r} rows by {c} columns. Three scores are {vector(scores[:3])} (upper left, upper right, lower left). What is the fourth? Prove it. What can a head therefore not look for, and does it hold in the mixed form?",
        f"{number(scores[3])}; in the mixed form not (the combination is {number(free)} there)",
        (
            (1, "each pair turns along one axis, so the score is f(row) + g(column)"),
            (1, f"lower right = upper right + lower left − upper left = {number(scores[3])}"),
            (1, "one patch down *and* across, and no other"),
            (1, "mixed: a cosine of a sum of both is no such sum"),
        ),
        {number(scores[1] + scores[2] + scores[0]): "the upper left counts negative"},
        {"scores": scores[:3]},
        (scores[3], tie),
        3,
        8,
    )


def larger_pictures(draw):
    side, larger = draw.choice([(16, 32), (14, 28), (24, 48)])
    dim, base = 64, draw.choice([100, 10000])
    freqs = axial_freqs(dim, 2, float(base)).double()
    w = freqs[0][freqs[0] > 0]
    key = int((w * (side - 1) < 2 * math.pi).sum())
    return Question(
        f"Trained on {side} × {side} patches (D = {dim}, base {base:,}), tested on {larger} × {larger}. How many of an axis's {len(w)} pairs did not go around in training and meet new angles? Name two remedies and what each costs.",
        f"{key} of {len(w)}",
        (
            (1, f"ω_t ({side} − 1) < 2π"),
            (1, f"{key} pairs"),
            (
                1,
                "scale positions to the trained grid (neighbors get closer), or train with random sizes and offsets; a smaller base leaves fewer",
            ),
        ),
        {number(2 * key): "both axes were counted", "0": "no formula ends there, but angles are new"},
        {"side": side, "dim": dim, "base": base},
        (key,),
        2,
        6,
    )


def without_a_place(draw):
    shift = draw.choice([1, 2, 4])
    freqs = axial_freqs(8, 2, 100.0).double()
    made = angles(torch.tensor([[float("nan")] * 2, [shift, 0.0]], dtype=F64), freqs)
    q = k = torch.tensor([[1.0, 0, 0, 0, 0, 0, 0, 0]], dtype=F64)
    score = lambda row: float(rotate_axes(k, torch.tensor([[row, 0.0]], dtype=F64), freqs) @ q.T)  # noqa: E731
    return Question(
        f"A class token has no place and is not turned: q = (1, 0, …). A patch with k = (1, 0, …) moves from row 0 to row {shift}; pair 0 has ω = 1 along rows. Which scores does it get before and after? What does it mean for a classifier that reads the class token, and what are two ways out?",
        f"{number(score(0))} and {number(score(shift))}",
        (
            (1, f"cos 0 and cos {shift}: {number(score(0))}, {number(score(shift))}"),
            (1, "q^T R(p) k depends on p itself: moved pictures read differently"),
            (1, "average over patches; turn nothing for it on either side; a learned bias for it"),
        ),
        {number(1.0) + " both times": "not turned does not mean not moved: the patch is turned"},
        {"shift": shift, "angle": float(made[0].abs().sum())},
        (score(0), score(shift)),
        2,
        6,
    )


def right_angles(draw):
    p = [draw.randint(1, 4), draw.randint(5, 8)]
    listing, letter = options(
        draw,
        "`(positions[..., None] * freqs).sum(-2)`",
        [
            "`(positions[..., None] * freqs).prod(-2)`",
            "`positions.norm(dim=-1)[..., None] * freqs[0]`",
            "`(positions.flip(-1)[..., None] * freqs).sum(-2)`",
        ],
    )
    freqs = torch.tensor([[1.0, 0.0, 0.5], [0.0, 1.0, 0.25]], dtype=F64)
    key = angles(torch.tensor([p], dtype=F64), freqs)[0].tolist()
    return Question(
        f"`positions` is [T, 2], `freqs` [2, P], a row an axis. Which line makes the angles? Say what each other one gets wrong. Compute them for position {vector(p)} and freqs (1, 0, 0.5), (0, 1, 0.25).\n\n{listing}",
        f"({letter}): {vector(key)}",
        (
            (
                1,
                f"({letter}); product: an axis at 0 stops all; norm: direction is lost; flip: rows and columns swapped",
            ),
            (1, vector(key)),
        ),
        {vector([p[1], p[0], 0.5 * p[1] + 0.25 * p[0]]): "axes are swapped"},
        {"p": p},
        tuple(key),
        2,
        4,
    )


def shift_of_a_picture(draw):
    move = [draw.randint(1, 9), draw.randint(1, 9)]
    freqs = axial_freqs(16, 2, 100.0).double()
    q, k = torch.randn(2, 4, 16, generator=torch.Generator().manual_seed(7), dtype=F64)
    at = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=F64)
    score = lambda by: rotate_axes(q, at + by, freqs) @ rotate_axes(k, at + by, freqs).T  # noqa: E731
    gap = float((score(torch.tensor(move, dtype=F64)) - score(0)).abs().max())
    turned = float((rotate_axes(q, at.flip(-1), freqs) @ rotate_axes(k, at.flip(-1), freqs).T - score(0)).abs().max())
    return Question(
        f"All patches move by {vector(move)}. Do scores change? Prove it for any frequencies, mixed ones too. Now the picture is mirrored at its diagonal (rows become columns): is that invariant?",
        f"moved: {gap:.0e}; mirrored: scores change by up to {number(turned)}",
        (
            (1, "angles are linear in p, so the difference of angles depends on the difference of places"),
            (1, "rotations of one plane add their angles, pair by pair"),
            (1, "mirrored: rows and columns have pairs of their own, so no"),
        ),
        {"no, only in one dimension": "linearity is all that the proof uses"},
        {"move": move},
        (gap < 1e-9, turned > 1e-3),
        2,
        5,
    )


# Aloud


def say_why_two(draw):
    side = draw.choice([14, 32])
    return Question(
        f"A picture of {side} × {side} patches is read row by row with ordinary RoPE. What do two vertical neighbors look like to it? Why two axes?",
        f"{side} tokens apart, as far as the other end of a row",
        (
            (1, f"distance {side}"),
            (1, "depends on the width: another picture, another distance"),
            (2, "two axes: neighbors are one step on either; shown with ids"),
        ),
        {"the model learns it": "for one width only"},
        {"side": side},
        (side,),
        1,
        3,
    )


def say_axial_or_mixed(draw):
    n = draw.choice([2, 3])
    return Question(
        f"Axial or mixed frequencies, for {n} axes? What can a mixed pair do that no sum of axial ones can, and what does it cost?",
        "a mixed pair turns along a direction: it can look diagonally",
        (
            (1, "axial: f(row) + g(column)"),
            (1, "mixed: cosines of p·ω, a direction for each pair"),
            (2, "learned frequencies: parameters, start, and other sizes of pictures"),
        ),
        {"mixed is always better": "what decides is a task and a budget"},
        {"n": n},
        (n,),
        2,
        4,
    )


def say_video(draw):
    frames = draw.choice([8, 16])
    rows = positions_for([2, (2, 2), 1])
    return Question(
        f"How would you number {frames} frames of a video between words? What happens to the numbers after it, and what if frames come at another rate?",
        f"time counts frames, rows and columns repeat; a still picture gives {vector(rows[2].tolist())} to its first patch",
        (
            (1, "time axis by frame"),
            (1, "text goes on past the largest id"),
            (2, "rate: ids by seconds keep meaning, ids by frame do not"),
        ),
        {"count patches": "then a second of video is as far as a chapter"},
        {"frames": frames},
        tuple(rows[2].tolist()),
        2,
        4,
    )


def say_base(draw):
    base = draw.choice([100, 10000])
    w = axial_freqs(64, 2, float(base)).double()
    slow = float(w[w > 0].min())
    return Question(
        f"Why do vision models take a base of 100 where text takes 10,000? Use the slowest pair for D = 64 and base {base:,}.",
        f"once around in {number(2 * math.pi / slow)} patches",
        (
            (1, f"{number(2 * math.pi / slow)} patches"),
            (1, "pictures are some tens of patches wide"),
            (2, "pairs slower than the picture carry almost no position; but larger pictures need some"),
        ),
        {"to save memory": "the base costs nothing"},
        {"base": base},
        (slow,),
        2,
        3,
    )


def say_test(draw):
    d = draw.choice([1, 3])
    return Question(
        f"Which three tests do you run on a new 2D encoding before training? Take a shift by {d} patches as the first.",
        "shift invariance, norms, telling rows from columns",
        (
            (1, "all places moved: no weight changes"),
            (1, "norms are kept"),
            (2, "a mirrored picture must differ; sizes beyond training; a token without a place gives no NaN"),
        ),
        {"the accuracy": "it hides signs and swaps"},
        {"d": d},
        (d,),
        2,
        3,
    )


PAPER = (
    ladder,
    by_hand,
    ids_of_a_picture,
    rectangle,
    larger_pictures,
    without_a_place,
    right_angles,
    shift_of_a_picture,
)
ORAL = (say_why_two, say_axial_or_mixed, say_video, say_base, say_test)
