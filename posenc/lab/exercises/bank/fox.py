r"""Questions on the forgetting transformer, FoX."""

import math

import torch

from posenc.attention import attention
from posenc.bias.alibi import slopes
from posenc.bias.fox import decay, fox
from posenc.lab.exercises.bank.question import Question, number, options, vector
from posenc.lab.exercises.fox import alibi_gate, log_forget

F64 = torch.float64


def _row(gates):
    """D of the last query."""
    return decay(torch.tensor(gates, dtype=F64).log(), queries=1)[-1].tolist()


def by_hand(draw):
    gates = draw.sample([0.5, 0.6, 0.8, 0.9], 4)
    key = _row(gates)
    own = [sum(math.log(g) for g in gates[j:]) for j in range(4)]
    return Question(
        f"Forget gates f_0 … f_3 = {vector(gates)}. Which number is added to the logits of keys 0 to 3 for query 3? By which factor is each key's weight cut (before the row is normalized)?",
        f"{vector(key)}; factors {vector([math.exp(x) for x in key])}",
        (
            (1, "D_ij = Σ of log f_l over l = j + 1 … i: gates after the key, the query's included"),
            (1, f"{vector(key)}, so the factors are products: {vector([math.exp(x) for x in key])}"),
        ),
        {
            vector(own): "the key's own gate is in it: a door closes on what was before it",
            vector(
                [sum(math.log(g) for g in gates[j:3]) for j in range(4)]
            ): "the query's gate is missing, or the key's is in its place",
        },
        {"gates": gates},
        tuple(key),
        1,
        5,
    )


def weights_with_gates(draw):
    gates, scores = [1.0, draw.choice([0.5, 0.25]), draw.choice([0.5, 0.8])], draw.sample([0.0, 1.0, 2.0], 3)
    key = (torch.tensor(scores, dtype=F64) + torch.tensor(_row(gates), dtype=F64)).softmax(-1).tolist()
    after = torch.tensor(scores, dtype=F64).softmax(-1) * torch.tensor(_row(gates), dtype=F64).exp()
    return Question(
        f"Query 2 has scaled scores {vector(scores)} with keys 0, 1, 2; the gates are f_1 = {gates[1]}, f_2 = {gates[2]}. Compute its weights. Why is it not the same to multiply the softmax's weights by the gates' products?",
        f"{vector(key)}",
        (
            (1, f"D = {vector(_row(gates))}"),
            (1, f"softmax of the sums: {vector(key)}"),
            (
                1,
                "after the softmax rows no longer sum to 1: the old keys' share would be lost, not given to the new ones",
            ),
        ),
        {vector(after.tolist()): "gates were multiplied into the weights after the softmax"},
        {"gates": gates, "scores": scores},
        tuple(key),
        2,
        6,
    )


def alibi_in_fox(draw):
    heads = draw.choice([4, 8, 16])
    h = draw.randint(1, heads // 2)
    m = slopes(heads)[h - 1].double()
    gate = float(alibi_gate(m))
    bias = -math.log(math.expm1(float(m)))
    check = float(
        log_forget(torch.zeros(1, 1, dtype=F64), torch.zeros(1, 1, dtype=F64), torch.tensor([bias], dtype=F64)).exp()
    )
    return Question(
        f"Which constant forget gate makes FoX the same as ALiBi's head {h} of {heads}? Which gate bias b gives it when the gate's weights are 0? What can FoX do that ALiBi cannot?",
        f"f = e^(−m) = {number(gate)}, b = −ln(e^m − 1) = {number(bias)}",
        (
            (1, f"m = {number(m)}, f = {number(gate)}"),
            (1, f"σ(b) = f: b = {number(bias)}"),
            (1, "f depends on the token: it may forget at a boundary and keep within"),
        ),
        {
            number(1 - float(m)): "1 − m is e^(−m) only to first order",
            number(-bias): "the sign of the logit: a large one keeps",
        },
        {"m": float(m)},
        (gate, bias, check),
        2,
        6,
    )


def half_life(draw):
    gate = draw.choice([0.9, 0.95, 0.99, 0.999])
    share = draw.choice([0.5, 0.9])
    key = math.ceil(math.log(1 - share) / math.log(gate))
    row = torch.tensor(_row([gate] * 20000), dtype=F64).softmax(-1)
    measured = int((row.flip(0).cumsum(0) < share).sum()) + 1
    return Question(
        f"All gates are {gate}, contents are equal, the past is long. How many of the nearest keys hold {share:.0%} of the weight? Which logit has the gate, and what does a change of the logit by 1 do to that window, about?",
        f"{key} keys; logit {number(math.log(gate / (1 - gate)))}; the window grows about e times",
        (
            (1, f"1 − f^n ≥ {share}: n = {key}"),
            (1, f"logit ln(f/(1 − f)) = {number(math.log(gate / (1 - gate)))}"),
            (1, "for f near 1, −ln f ≈ e^(−z): the window is proportional to e^z"),
        ),
        {
            number(key - 1): "rounded down",
            number(math.ceil(1 / (1 - gate))): "1/(1 − f) is the mean, about: it belongs to a share of 63 %",
        }
        if math.ceil(1 / (1 - gate)) != key
        else {number(key - 1): "rounded down"},
        {"gate": gate, "share": share},
        (measured,),
        2,
        6,
    )


def next_token(draw):
    logs = [draw.choice([-0.1, -0.2, -0.5]) for _ in range(4)]
    sums = [sum(logs[: i + 1]) for i in range(4)]
    new = draw.choice([-0.3, -0.7])
    row = decay(torch.tensor([*logs, new], dtype=F64))[-1].tolist()
    return Question(
        f"A cache holds the running sums c = {vector(sums)} of log f. A new token comes with log f = {new}. Give the new entry of c and the row D of the new query. How many numbers must be kept for each head and token, and why is the whole matrix never needed?",
        f"c_new = {number(sums[-1] + new)}, row {vector(row)}",
        (
            (1, f"c_new = {number(sums[-1] + new)}"),
            (1, f"D_j = c_new − c_j: {vector(row)}"),
            (1, "one number: differences of a running sum"),
        ),
        {
            vector(
                [*[x for x in decay(torch.tensor(logs, dtype=F64))[-1].tolist()], 0]
            ): "the new gate is missing: it closes on all old keys",
            number(new): "the sum was restarted",
        },
        {"logs": logs, "new": new},
        (sums[-1] + new, *row),
        2,
        6,
    )


def first_gate(draw):
    shift = draw.choice([-5.0, -2.0, -1.0])
    logs = torch.tensor([-0.3, -0.2, -0.9, -0.1], dtype=F64)
    moved = logs.clone()
    moved[0] += shift
    gap = float((decay(moved) - decay(logs)).nan_to_num(0.0).abs().max())
    return Question(
        f"Show that the first gate f_0 has no influence on any weight; it is moved by {shift:g} in the logarithm. What follows for its gradient, and for a gate at the first token of a *packed* second document?",
        f"largest change of D: {gap:.0e}; gradient 0",
        (
            (1, "D_ij sums gates l ≥ j + 1 ≥ 1"),
            (
                1,
                "so ∂/∂log f_0 = 0; the first gate of a second document does close on the first document, if that is visible",
            ),
        ),
        {"it closes on all": "there is nothing before it"},
        {"shift": shift},
        (gap < 1e-9,),
        1,
        4,
    )


def a_shut_door(draw):
    t = draw.choice([2, 3, 4])
    generator = torch.Generator().manual_seed(t)
    q, k, v = torch.randn(3, 1, 1, 6, 4, generator=generator, dtype=F64)
    gates = torch.full((1, 1, 6), -0.1, dtype=F64)
    gates[..., t] = -1e9
    whole = attention(q, k, v, fox(), gates=gates)[..., t:, :]
    cut = attention(*(x[..., t:, :] for x in (q, k, v)), fox(), gates=gates[..., t:])
    gap = float((whole - cut).abs().max())
    return Question(
        f"The gate of token {t} is 0 in every head of every layer. Prove that all outputs from there on are those of the text cut off before token {t}. And if it is 0 in the last layer only?",
        f"one layer: outputs differ by {gap:.0e}; in the last layer only, no: lower layers have carried the past across",
        (
            (1, f"for i ≥ {t} > j the sum holds −∞: weight 0"),
            (1, "induction over the layers: inputs from there on depend on what is behind the door only"),
            (1, "in the last layer only: the values behind the door hold what lower layers read before it"),
        ),
        {"yes, since the last layer decides": "information travels in the residual stream"},
        {"t": t},
        (gap < 1e-9,),
        3,
        7,
    )


def precision(draw):
    T, log = draw.choice([4096, 16384]), draw.choice([-0.001, -0.0005])
    sums = torch.full((T,), log, dtype=torch.bfloat16).cumsum(0)
    key = float(sums[-1])
    true = T * log
    step = 2.0 ** (math.floor(math.log2(abs(key))) - 7)
    exact = decay(torch.full((2,), log, dtype=F64))[1, 0].item()
    return Question(
        f"All log f are {log}. The running sum over {T:,} tokens is kept in bfloat16, eight significant binary digits. Near which value can it no longer grow by a single gate, and why? What becomes of D between neighbors there, which should be {number(exact)}?",
        f"numbers near {number(2.0 ** math.ceil(math.log2(abs(log) * 256)))} are spaced by more than twice |log f|; D becomes 0. The true sum is {number(true)}",
        (
            (1, f"spacing 2^(e − 7) at 2^e: once it exceeds 2·{abs(log)}, adding changes nothing"),
            (1, "differences of neighbors are 0: nothing is forgotten"),
            (1, "sum in float32, from the start"),
        ),
        {"it is exact, since gates are near 1": "the sum grows, and its spacing with it"},
        {"T": T, "log": log},
        (exact, step * 0 + true),
        3,
        7,
    )


def right_code(draw):
    listing, letter = options(
        draw,
        "`c = log_f.cumsum(-1); D = c[:, None] - c[None, :]`",
        [
            "`c = log_f.cumsum(-1); D = c[None, :] - c[:, None]`",
            "`c = log_f.cumprod(-1); D = c[:, None] - c[None, :]`",
            "`c = log_f.cumsum(-1); D = c[:, None] - (c - log_f)[None, :]`",
        ],
    )
    gates = draw.sample([0.5, 0.7, 0.9], 3)
    key = _row(gates)[0]
    return Question(
        f"`log_f` is [T] in float32. Which line makes D[i, j] (the future is masked later)? What is wrong with each other one? Check yours with f = {vector(gates)}: D[2, 0].\n\n{listing}",
        f"({letter}); D[2, 0] = {number(key)}",
        (
            (1, f"({letter}); the others: old keys gain; logs are multiplied; the key's own gate counts"),
            (1, f"ln f_1 + ln f_2 = {number(key)}"),
        ),
        {number(sum(math.log(g) for g in gates)): "f_0 is in it"},
        {"gates": gates},
        (key,),
        1,
        4,
    )


# Aloud


def say_idea(draw):
    f = draw.choice([0.5, 0.9])
    return Question(
        f"Explain FoX from a recurrent network's forget gate: what does a gate of {f} do to all that came before, and why is it a bias on logits in the end?",
        f"every older key's weight is multiplied by {f}, a bias of {number(math.log(f))}",
        (
            (1, "a gate closes on everything before it"),
            (1, "products become sums of logarithms"),
            (2, "softmax keeps relative weights; the bias is relative to content order, not to numbers of positions"),
        ),
        {"it deletes the token": "it weakens what came before, not itself"},
        {"f": f},
        (math.log(f),),
        1,
        3,
    )


def say_start(draw):
    b = draw.choice([0.0, 4.0])
    f = 1 / (1 + math.exp(-b))
    gate = float(
        log_forget(torch.zeros(1, 1, dtype=F64), torch.zeros(1, 1, dtype=F64), torch.tensor([b], dtype=F64)).exp()
    )
    return Question(
        f"A model starts with gate bias {b:g}. How far does it look at first, and what does that do to learning long dependencies?",
        f"f = {number(f)}: about {number(1 / (1 - f))} tokens on average",
        (
            (1, f"σ({b:g}) = {number(f)}"),
            (1, f"mean about 1/(1 − f) = {number(1 / (1 - f))}"),
            (2, "gradients from far keys are tiny at first; a higher start, or different starts by head"),
        ),
        {"all the way, nothing is forgotten yet": "a logit of 0 is a gate of one half"},
        {"b": b},
        (gate,),
        2,
        3,
    )


def say_positions(draw):
    n = draw.choice([10, 1000])
    return Question(
        f"Has FoX positions? Move a text by {n}. Then swap two old tokens. Which of the two changes its weights, and could you drop RoPE beside it?",
        "moving changes nothing; swapping does, through the gates between",
        (
            (1, "no number of a position enters"),
            (1, "order enters through which gates lie between"),
            (2, "an open gate does not tell order: with f = 1 it is NoPE; so an experiment with and without RoPE"),
        ),
        {"no positions, so order does not matter": "the sum over what lies between is order"},
        {"n": n},
        (n,),
        2,
        4,
    )


def say_long(draw):
    f = draw.choice([0.99, 0.999])
    left = math.exp(_row([f] * 2001)[0])
    return Question(
        f"A needle lies 2,000 tokens back, gates in between are {f}. What is left of its weight's factor? How must its logit compare?",
        f"{number(left)}: it must be {number(-math.log(left))} logits above the rest",
        (
            (1, f"{f}^2000 = {number(left)}"),
            (1, f"{number(-math.log(left))} logits"),
            (2, "so gates must be nearly 1 for this head: what in the data would teach that"),
        ),
        {"softmax finds it anyway": "compute the price in logits"},
        {"f": f},
        (left,),
        2,
        3,
    )


def say_kernel(draw):
    T = draw.choice([4096, 32768])
    return Question(
        f"FoX's D for {T:,} tokens is a matrix [T, T]. Why does a fused kernel need only a vector, and what does its backward return for the gates?",
        f"c has {T:,} numbers, D would have {T * T:,}",
        (
            (1, "D_ij = c_i − c_j"),
            (1, "row sums minus column sums of the gradient of logits give ∂c"),
            (2, "∂log f is the reversed running sum of ∂c"),
        ),
        {"the matrix is sparse": "it is full, and of rank two"},
        {"T": T},
        (T,),
        3,
        4,
    )


PAPER = (
    by_hand,
    weights_with_gates,
    alibi_in_fox,
    half_life,
    next_token,
    first_gate,
    a_shut_door,
    precision,
    right_code,
)
ORAL = (say_idea, say_start, say_positions, say_long, say_kernel)
