r"""Questions on rotations by learned generators: LieRE and ComRoPE."""

import math

import torch

from posenc.lab.exercises.bank.question import Question, number, options, vector
from posenc.lab.exercises.comrope import ap_generators, commutator_error, ld_generators, rotation, skew

F64 = torch.float64
J = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=F64)


def _normal(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def _relative_error(generators, shift):
    """The largest change of R(x)ᵀR(y) when x and y move, for generators [n, b, b]."""
    x, y = torch.tensor([[0.3, 1.0]], dtype=F64), torch.tensor([[1.2, -0.5]], dtype=F64)
    pair = lambda by: rotation(x + by, generators)[0].T @ rotation(y + by, generators)[0]  # noqa: E731
    return float((pair(torch.tensor(shift, dtype=F64)) - pair(0)).abs().max())


def count(draw):
    dim, block, axes = draw.choice([(64, 4, 2), (64, 8, 2), (48, 4, 3), (64, 16, 2)])
    free, blocks = block * (block - 1) // 2, dim // block
    P = torch.zeros(blocks, block, block)
    ap = int((ap_generators(P + 1.0 * torch.arange(block * block).view(block, block), axes).abs() > 0).sum()) // 2
    key = (blocks * axes * free, blocks * free, blocks * (free + axes - 1))
    return Question(
        f"A head has D = {dim} lanes in blocks of {block}, and {axes} axes. How many free numbers has a skew-symmetric block, and how many numbers that matter do LieRE (a generator for each axis), ComRoPE-AP (a block turns along one axis) and ComRoPE-LD (one generator, a factor for each axis) learn?",
        f"{free}; {key[0]}, {key[1]}, {key[2]}",
        (
            (1, f"b(b − 1)/2 = {free} in {blocks} blocks: {key[0]} and {key[1]}"),
            (1, f"LD: {free} + {axes} − 1 a block, since a number can go into θ or into P: {key[2]}"),
        ),
        {
            f"{blocks * (free + axes)} for LD": "one number a block is shared between θ and P",
            f"{blocks * block * block}": "P has more numbers than P − Pᵀ",
        },
        {"dim": dim, "block": block, "axes": axes},
        (free, *key, ap),
        1,
        5,
    )


def exponential_of_a_plane(draw):
    w, p = draw.choice([0.5, 1.0, 2.0]), draw.choice([1.0, 2.0, 3.0])
    key = rotation(torch.tensor([[p]], dtype=F64), (w * J)[None])[0].flatten().tolist()
    return Question(
        f"A = ω J with J = (0, −1; 1, 0) and ω = {w:g}. Derive exp({p:g} A) from the series, using J² = −1, and give it as numbers. Why does every skew-symmetric matrix have an exponential that keeps lengths?",
        f"{vector(key)} row by row",
        (
            (1, "even powers make cos, odd ones sin: cos(pω) 1 + sin(pω) J"),
            (1, vector(key)),
            (1, "exp(A)ᵀ exp(A) = exp(−A) exp(A) = 1"),
        ),
        {
            vector(
                (torch.eye(2, dtype=F64) + p * w * J).flatten().tolist()
            ): "the series was cut after its first step: this stretches",
            vector([key[0], key[2], key[1], key[3]]): "it turns backwards",
        },
        {"w": w, "p": p},
        tuple(key),
        1,
        5,
    )


def commuting(draw):
    a, b = draw.choice([1.0, 2.0]), draw.choice([1.0, 3.0])
    X, Y = torch.zeros(2, 3, 3, dtype=F64)
    X[1, 2], X[2, 1], Y[2, 0], Y[0, 2] = -a, a, -b, b
    key = float(commutator_error(torch.stack((X, Y))))
    shift = _relative_error(torch.stack((X, Y)), [2.0, 1.0])
    return Question(
        f"Two generators of three lanes: X turns lanes 1 and 2 by {a:g}, Y turns lanes 2 and 0 by {b:g} (each at unit speed times that number). Compute XY − YX and its largest entry. Is R(x)ᵀR(y) a function of y − x for them? What would make it one?",
        f"largest entry {number(key)}; no: moved by (2, 1), an entry changes by {number(shift)}",
        (
            (1, f"XY − YX turns lanes 0 and 1: largest entry {number(key)}"),
            (1, "exp(−A) exp(B) = exp(B − A) needs AB = BA"),
            (1, "commuting generators: separate planes, or multiples of one"),
        ),
        {"0": "rotations of a plane commute, those of space do not"},
        {"a": a, "b": b},
        (key,),
        2,
        7,
    )


def axial_partition(draw):
    blocks, axes = draw.choice([(4, 2), (6, 2), (6, 3)])
    P = _normal(blocks, 2, 2, seed=draw.randint(0, 9))
    made = ap_generators(P, axes)
    place = draw.randint(0, blocks - 1)
    error = max(float(commutator_error(made[j])) for j in range(blocks))
    own = float(made[place, place % axes, 1, 0])
    return Question(
        f"ComRoPE-AP with {blocks} blocks of two lanes and {axes} axes. Block {place} has P = ({vector(P[place][0].tolist())}, {vector(P[place][1].tolist())}). Along which axis does it turn, and by which frequency? Prove that all its generators commute. Which score can such a head not have?",
        f"axis {place % axes}, {number(own)}; commutators are {error:.0e}",
        (
            (1, f"block j belongs to axis j mod n: {place % axes}; P − Pᵀ has the entry {number(own)}"),
            (1, "the generators of the other axes are 0, and 0 commutes"),
            (1, "as axial RoPE: a sum of one function for each axis"),
        ),
        {
            number(float(P[place, 1, 0])): "P itself is no generator: subtract the transpose",
            f"axis {place // (blocks // axes)}"
            if place // (blocks // axes) != place % axes
            else "all axes": "blocks are dealt out in turn",
        },
        {"P": P[place].tolist(), "place": place, "axes": axes},
        (place % axes, own),
        2,
        6,
    )


def linear_dependence(draw):
    theta = [draw.choice([0.5, 1.0, 2.0]), draw.choice([1.5, 3.0])]
    w, p = draw.choice([0.5, 1.0]), [draw.randint(1, 3), draw.randint(1, 3)]
    P = w / 2 * J
    generators = ld_generators(torch.tensor(theta, dtype=F64), P)
    made = rotation(torch.tensor([p], dtype=F64), generators)[0]
    angle = w * (theta[0] * p[0] + theta[1] * p[1])
    across = [-theta[1], theta[0]]
    still = float((rotation(torch.tensor([across], dtype=F64), generators)[0] - torch.eye(2, dtype=F64)).abs().max())
    return Question(
        f"ComRoPE-LD, one block of two lanes with P − Pᵀ = {w:g} J and θ = {vector(theta)}. By which angle does a patch at {vector(p)} turn, and what is cos of it? In which direction may a patch move without turning at all? Which form of RoPE is this?",
        f"{number(angle)} radians, cos {number(made[0, 0])}; along {vector(across)}; the mixed form",
        (
            (1, f"ω θ·p = {number(angle)}; cos {number(made[0, 0])}"),
            (1, f"where θ·p = 0: along {vector(across)} (the rotation differs from 1 by {still:.0e})"),
            (1, "a pair with the frequencies ω θ: mixed RoPE"),
        ),
        {number(w * (theta[0] + theta[1]) * (p[0] + p[1])): "coordinates were added before they met θ"},
        {"theta": theta, "w": w, "p": p},
        (float(made[0, 0]), still),
        2,
        6,
    )


def on_a_line(draw):
    c = [draw.choice([1.0, 2.0]), draw.choice([3.0, 5.0])]
    generators = skew(_normal(2, 4, 4, seed=draw.randint(0, 5)))
    u = torch.tensor([1.0, draw.choice([0.0, 0.5, 1.0])], dtype=F64)
    place = lambda n: (n * u)[None]  # noqa: E731
    left = rotation(place(c[0]), generators)[0].T @ rotation(place(c[1]), generators)[0]
    gap = float((left - rotation(place(c[1] - c[0]), generators)[0]).abs().max())
    off = _relative_error(generators, [2.0, 1.0])
    return Question(
        f"Any two generators of four lanes, and tokens that all stand on one line through the origin, p = c u with u = {vector(u.tolist())}. Prove R(x)ᵀR(y) = R(y − x) for them. A test on text (one axis) says LieRE is relative: what does it miss?",
        f"on the line it holds to {gap:.0e}; off the line an entry changes by {number(off)}",
        (
            (1, "Σ p_a A_a = c A_u, multiples of one matrix"),
            (1, "a matrix commutes with its multiples, so the exponents subtract"),
            (
                1,
                f"off the line generators meet: moved by (2, 1), entries change by {number(off)}; test with places in the plane",
            ),
        ),
        {"it is relative everywhere": "only where generators commute"},
        {"c": c, "u": u.tolist()},
        (gap < 1e-9, off > 1e-3),
        3,
        8,
    )


def planes_of_a_block(draw):
    w = sorted(draw.sample([0.5, 1.0, 2.0, 3.0], 2))
    q, _ = torch.linalg.qr(_normal(4, 4, seed=draw.randint(0, 9)))
    A = q @ torch.block_diag(w[0] * J, w[1] * J) @ q.T
    p = draw.choice([1.0, 2.0])
    trace = float(rotation(torch.tensor([[p]], dtype=F64), A[None])[0].trace())
    return Question(
        f"A skew-symmetric A of four lanes has the eigenvalues ±{w[0]:g}i and ±{w[1]:g}i. What is the trace of exp({p:g} A)? Write R(p) with an orthogonal U and two planes. Which weights of the model could hold U, and what is then left of the method?",
        f"2 cos({p * w[0]:g}) + 2 cos({p * w[1]:g}) = {number(trace)}",
        (
            (1, "A = U Ω Uᵀ, so R = U exp(pΩ) Uᵀ: two rotations in planes"),
            (1, f"the trace does not see U: {number(trace)}"),
            (1, "W_q and W_k can hold Uᵀ: what is left is RoPE with these frequencies"),
        ),
        {
            number(
                2 * math.cosh(p * w[0]) + 2 * math.cosh(p * w[1])
            ): "real eigenvalues: those of a skew matrix are imaginary"
        },
        {"w": w, "p": p},
        (trace,),
        3,
        7,
    )


def right_line(draw):
    listing, letter = options(
        draw,
        "`torch.linalg.matrix_exp(P - P.mT)`",
        ["`torch.exp(P - P.mT)`", "`torch.linalg.matrix_exp(P + P.mT)`", "`torch.eye(b) + (P - P.mT)`"],
    )
    P = torch.tensor([[0.0, -draw.choice([0.5, 1.0])], [0.25, 0.0]], dtype=F64)
    angle = float(P[1, 0] - P[0, 1])
    key = rotation(torch.ones(1, 1, dtype=F64), skew(P)[None])[0].flatten().tolist()
    return Question(
        f"Which line makes a rotation out of any P [b, b]? What does each other one do to a vector's length? Compute it for P = ({vector(P[0].tolist())}, {vector(P[1].tolist())}).\n\n{listing}",
        f"({letter}): {vector(key)}",
        (
            (1, f"({letter}); entrywise exp is no product; P + Pᵀ stretches along its axes; 1 + A lengthens"),
            (1, f"an angle of {number(angle)}: {vector(key)}"),
        ),
        {vector(torch.exp(skew(P)).flatten().tolist()): "entry by entry"},
        {"P": P.tolist()},
        tuple(key),
        2,
        4,
    )


# Aloud


def say_why_learn(draw):
    n = draw.choice([2, 3])
    return Question(
        f"What can learned generators on {n} axes do that fixed frequencies cannot? What do they give up, and how would you see it in a trained model?",
        "directions and speeds from data; where generators don't commute, the shift",
        (
            (1, "directions, frequencies"),
            (1, "the relative property, unless they commute"),
            (2, "measure: commutators, scores under a shift off the line"),
        ),
        {"nothing is given up": "ask for R(x)ᵀR(y)"},
        {"n": n},
        (n,),
        2,
        4,
    )


def say_commute(draw):
    generators = skew(_normal(2, 4, 4, seed=draw.choice([1, 2])))
    key = float(commutator_error(generators))
    return Question(
        f"Two random generators have a commutator with an entry of {number(key)}. What follows for a shift? Give two ways to make generators commute by construction.",
        "exponents do not add; axial partition, or multiples of one",
        (
            (1, "no function of the difference"),
            (1, "AP"),
            (2, "LD; and what each restricts: no diagonal, one direction a block"),
        ),
        {"a penalty in the loss": "makes it small, not zero: say what remains"},
        {"e": key},
        (key,),
        2,
        4,
    )


def say_cost(draw):
    b = draw.choice([4, 8])
    return Question(
        f"What does a rotation by blocks of {b} cost more than RoPE's pairs, in training and at inference? Which part can be computed once?",
        f"{b} products a lane in place of two, and matrix exponentials",
        (
            (1, f"b = {b} multiplications a lane"),
            (1, "exponentials and their gradients in training"),
            (2, "fixed generators: the eigenbasis goes into W, RoPE is left"),
        ),
        {"nothing, matrices are small": "count for each token and head"},
        {"b": b},
        (b,),
        2,
        3,
    )


def say_text(draw):
    n = draw.choice([512, 2048])
    return Question(
        f"On a text of {n} tokens with one axis, is LieRE anything but RoPE in another basis? Argue.",
        "one generator: its planes are RoPE's pairs with learned frequencies",
        (
            (1, "one generator commutes with itself"),
            (1, "A = U Ω Uᵀ, U into W_q and W_k"),
            (2, "learned frequencies are what is new: compare with RoPE whose frequencies are learned"),
        ),
        {"it has more parameters, so more power": "the basis is already in W"},
        {"n": n},
        (n,),
        3,
        4,
    )


def say_precision(draw):
    p = draw.choice([1000.0, 4000.0])
    A = skew(_normal(4, 4, seed=3))
    R = rotation(torch.tensor([[p]]), A.float()[None])[0]
    gap = float((R.T @ R - torch.eye(4)).abs().max())
    return Question(
        f"A matrix exponential at position {p:g} in float32: what goes wrong, and which test shows it without the right answer?",
        f"RᵀR differs from 1 by {gap:.0e} here",
        (
            (1, "large arguments are squared many times"),
            (1, "RᵀR = 1 is a property, no reference is needed"),
            (2, "remedies: eigenvalues once, angles in float32, then cos and sin; or smaller positions"),
        ),
        {"compare with the paper's numbers": "nobody has them: test a property"},
        {"p": p},
        (gap,),
        3,
        3,
    )


PAPER = (
    count,
    exponential_of_a_plane,
    commuting,
    axial_partition,
    linear_dependence,
    on_a_line,
    planes_of_a_block,
    right_line,
)
ORAL = (say_why_learn, say_commute, say_cost, say_text, say_precision)
