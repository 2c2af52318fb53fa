r"""Questions on kernels: tiles, sums that are carried, bytes and operations."""

import math

import torch

from posenc.lab.exercises.bank.question import Question, number, options
from posenc.lab.exercises.kernels import online_softmax, tile_kind
from posenc.weigh.stickbreaking import weigh

F64 = torch.float64


def _row(scores, values):
    """(log-sum-exp, softmax's mean of the values) of one row."""
    lse, mean = torch.empty(2, 1, dtype=F64)
    online_softmax(torch.tensor([scores], dtype=F64), torch.tensor(values, dtype=F64), 2, lse, mean)
    return float(lse), float(mean)


def _tiles(length, block_q, block_k):
    """How many tiles a causal kernel skips, computes whole, and computes under a mask."""
    starts = [(i, j) for i in range(0, length, block_q) for j in range(0, length, block_k)]
    kinds = [tile_kind(i, j, block_q, block_k, length) for i, j in starts]
    return [kinds.count(kind) for kind in ("skip", "whole", "mask")]


def _wasted(length, block):
    """The share of a causal kernel's computed entries that the mask throws away."""
    _, whole, mask = _tiles(length, block, block)
    return 1 - length * (length + 1) / 2 / ((whole + mask) * block * block)


def _stick(shares):
    """Pieces and the rest of a stick whose keys take these shares, oldest first."""
    z = torch.tensor([[math.log(share / (1 - share)) for share in shares]], dtype=F64)
    pieces, rest = weigh(z, torch.ones_like(z, dtype=torch.bool), return_remainder=True)
    return pieces[0].tolist(), float(rest.flatten()[0])


def by_hand(draw):
    powers, values = draw.sample([1, 2, 4, 8], 3), draw.sample([1, 2, 3, 5], 3)
    first, last = max(powers[:2]), max(powers)
    scores = [math.log(p) for p in powers]
    lse, mean = _row(scores, values)
    norm = math.exp(lse) / last
    forgotten = (sum(p * v for p, v in zip(powers[:2], values)) / first + powers[2] * values[2] / last) / norm
    wrong = {number(sum(values) / 3): "the plain mean: all scores were taken for equal"}
    if first != last:
        wrong[number(forgotten)] = "the old sum was not multiplied by r"
    return Question(
        f"Three keys have the scores ln {powers[0]}, ln {powers[1]}, ln {powers[2]} and the values {values[0]}, {values[1]}, {values[2]}. A kernel takes keys 0 and 1 as one block, then key 2. Give r at the second block, the final normalizer l under the final maximum, and the output.",
        f"r = {number(first / last)}, l = {number(norm)}, output {number(mean)}",
        (
            (1, f"m is ln {first}, then ln {last}: r = {number(first / last)}"),
            (1, f"l = r · {number(sum(powers[:2]) / first)} + {number(powers[2] / last)} = {number(norm)}"),
            (1, f"a is carried the same way; a/l = {number(mean)}"),
        ),
        wrong,
        {"powers": powers, "values": values},
        (first / last, norm, mean),
        1,
        7,
    )


def merge_two(draw):
    powers, values = draw.sample([1, 2, 3, 4, 6], 4), draw.sample([1, 2, 3, 4, 5], 4)
    halves = [_row([math.log(p) for p in powers[s]], values[s]) for s in (slice(0, 2), slice(2, 4))]
    lse, mean = _row([math.log(p) for p in powers], values)
    return Question(
        f"Two programs each did half of a row's keys. One returns the output {number(halves[0][1])} and the log-sum-exp ln {sum(powers[:2])}, the other {number(halves[1][1])} and ln {sum(powers[2:])}. Merge them: which output and which log-sum-exp has the whole row? What must programs hand on, if they split the keys of one query?",
        f"output {number(mean)}, log-sum-exp {number(lse)} = ln {sum(powers)}",
        (
            (1, f"weights of the halves: {sum(powers[:2])}/{sum(powers)} and {sum(powers[2:])}/{sum(powers)}"),
            (1, f"output {number(mean)}"),
            (1, f"ln {sum(powers)} = {number(lse)}; each hands on its output and one number a query"),
        ),
        {f"output {number((halves[0][1] + halves[1][1]) / 2)} as a plain mean": "the halves have different sums"},
        {"powers": powers, "values": values},
        (mean, lse),
        2,
        6,
    )


def bytes_of_scores(draw):
    heads, lanes, length = draw.choice([8, 16, 32]), draw.choice([64, 128]), draw.choice([4096, 8192, 16384, 32768])
    scores = torch.empty(heads, length, length, dtype=torch.float16, device="meta").nbytes / 2**20
    asked = 4 * torch.empty(heads, length, lanes, dtype=torch.float16, device="meta").nbytes / 2**20
    return Question(
        f"One sequence, {heads} heads of {lanes} lanes, {length:,} tokens, two bytes a number. How many MiB are queries, keys, values and output together, how many are the scores, and what is the ratio? At which length are the two equal?",
        f"{number(asked)} MiB, {number(scores)} MiB, ratio {number(scores / asked)}; equal at {4 * lanes} tokens",
        (
            (1, f"4 · H · T · D · 2 bytes = {number(asked)} MiB"),
            (1, f"H · T² · 2 bytes = {number(scores)} MiB"),
            (1, f"T/(4D) = {number(scores / asked)}, one at T = 4D = {4 * lanes}"),
        ),
        {
            f"{number(scores / heads)} MiB of scores": "of one head alone",
            f"ratio {number(scores * 4 / asked)}": "one of four tensors was counted, not all",
        },
        {"heads": heads, "lanes": lanes, "length": length},
        (asked, scores, scores / asked),
        1,
        5,
    )


def count_the_tiles(draw):
    block = draw.choice([16, 32])
    length = block * draw.choice([4, 6, 8])
    skip, whole, mask = _tiles(length, block, block)
    return Question(
        f"A causal kernel cuts {length} queries and keys into tiles of {block} × {block}. How many tiles does it skip, how many need no mask, how many need one? Which share of the computed entries is thrown away?",
        f"{skip} skipped, {whole} whole, {mask} with a mask; {number(_wasted(length, block))}",
        (
            (1, f"of {(length // block) ** 2} tiles {mask} stand on the diagonal"),
            (1, f"{whole} below it are whole, {skip} above it are skipped"),
            (
                1,
                f"on the diagonal {block}({block} − 1)/2 entries each are thrown away: a share of {number(_wasted(length, block))}",
            ),
        ),
        {
            f"{(length // block) ** 2} tiles": "nothing was skipped",
            number(1 / 2): "half of all pairs is hidden, but tiles above the diagonal are not computed",
        },
        {"length": length, "block": block},
        (skip, whole, mask, _wasted(length, block)),
        2,
        6,
    )


def smaller_tiles(draw):
    block, times = draw.choice([32, 64]), draw.choice([4, 8])
    length = block * times
    whole, half = _wasted(length, block), _wasted(length, block // 2)
    return Question(
        f"{length} tokens, causal, tiles of {block} × {block}. Which share of the computed entries is thrown away, and which with tiles half as wide in both directions? Why not go on, down to tiles of one entry?",
        f"{number(whole)}, then {number(half)}; small tiles read keys and values more often",
        (
            (1, f"{number(whole)}"),
            (1, f"twice as many tiles on the diagonal, a quarter of the waste in each: {number(half)}"),
            (1, "each block of queries reads all keys: half the block, twice the reading"),
        ),
        {
            f"{number(whole)} both times": "the diagonal is as long as before, but each tile wastes a quarter",
            f"{number(whole / 4)} after": "there are twice as many tiles on the diagonal",
        },
        {"length": length, "block": block},
        (whole, half),
        2,
        6,
    )


def how_often_rescaled(draw):
    tops = [draw.choice([1, 2, 3, 4, 5]) for _ in range(6)]
    rises = sum(top > max(tops[:n]) for n, top in enumerate(tops) if n)
    lse, _ = _row([float(top) for top in tops], [1.0] * 6)
    down = sorted(tops, reverse=True)
    return Question(
        f"The largest scores of six blocks are {', '.join(map(str, tops))}, each block has one key. At how many of the later five is r below 1? At how many, if the walk goes through them from the largest down ({', '.join(map(str, down))})? What is the log-sum-exp in either order?",
        f"{rises}; none; {number(lse)}",
        (
            (1, f"where a block's maximum passes all before: {rises}"),
            (1, "from the largest down: none"),
            (1, f"{number(lse)} both times: any order gives the softmax"),
        ),
        {
            f"{sum(b > a for a, b in zip(tops, tops[1:])) + 6}": "each block was held against the one before it; the running maximum counts"
        },
        {"tops": tops},
        (rises, 0, lse),
        1,
        5,
    )


def what_a_test_misses(draw):
    powers, values = draw.choice([[1, 2, 4], [1, 4, 8], [2, 3, 6]]), draw.sample([1, 2, 3, 5], 3)
    lse, right = _row([math.log(p) for p in powers], values)
    norm, last = math.exp(lse), powers[2]
    kept = sum(p * v for p, v in zip(powers[:2], values)) / powers[1]
    wrong = (kept + values[2]) / (norm / last)
    listing, letter = options(
        draw,
        "a row of several blocks, the last one not full",
        ["one block of many random rows", "a longer row whose first key has the largest score"],
    )
    return Question(
        f"A kernel forgets the factor r in front of the carried sum a, but not in front of l. Scores ln {powers[0]}, ln {powers[1]}, ln {powers[2]}, values {values[0]}, {values[1]}, {values[2]}; keys 0 and 1 are one block. What does it return, and what is right? Which test finds it?\n\n{listing}",
        f"{number(wrong)} in place of {number(right)}; ({letter})",
        (
            (1, f"right: {number(right)}"),
            (2, f"a = {number(kept)} + {values[2]}, l = {number(norm / last)}: {number(wrong)}"),
            (1, f"({letter}): r must be below 1 somewhere"),
        ),
        {f"{number(right)}: it cancels in the division": "a and l must carry the same factor"},
        {"powers": powers, "values": values},
        (wrong, right),
        3,
        8,
    )


def weight_from_a_number(draw):
    powers = draw.sample([1, 2, 3, 5, 7], 3)
    lse, _ = _row([math.log(p) for p in powers], [0, 0, 0])
    weight = math.exp(math.log(powers[1]) - lse)
    return Question(
        f"The forward pass kept one number for a query with scores ln {powers[0]}, ln {powers[1]}, ln {powers[2]}: which one, and how does the backward pass make the weight of key 1 from it, in any tile? How many numbers are kept for T queries, in place of how many?",
        f"the log-sum-exp {number(lse)}; e^(s − lse) = {number(weight)}; T in place of T²",
        (
            (1, f"ln {sum(powers)} = {number(lse)}"),
            (1, f"e^(ln {powers[1]} − {number(lse)}) = {number(weight)}, no other key is needed"),
            (1, "T numbers a head in place of T² weights; the scores are computed again"),
        ),
        {f"the maximum, {number(math.log(max(powers)))}": "it gives weights up to the row's sum alone"},
        {"powers": powers},
        (lse, weight),
        2,
        5,
    )


def operations_a_byte(draw):
    block, lanes, ridge = draw.choice([16, 32, 64, 128]), draw.choice([64, 128]), draw.choice([100, 150, 200, 300])
    length = 65536
    read = 2 * torch.empty(length, lanes, dtype=torch.float16, device="meta").nbytes
    intensity = 4 * block * length * lanes / read
    return Question(
        f"A program owns {block} queries and reads all keys and values ({lanes} lanes, two bytes a number) once; leave the rest out. A multiplication and an addition are two operations. How many operations does it make for a byte it reads? A GPU can do {ridge} in the time of one byte from its memory. What share of its speed is open at most, and for which block is it all?",
        f"{number(intensity)} operations a byte; {number(min(1, intensity / ridge))}; from {ridge} queries on",
        (
            (1, "4 · block · T · D operations: two products of 2 · block · T · D"),
            (1, f"4 · T · D bytes, so {number(intensity)} a byte: the block's size"),
            (1, f"at most {number(min(1, intensity / ridge))}; all from a block of {ridge} on"),
        ),
        {
            f"{number(intensity / 2)} operations a byte": "a multiplication and an addition are two",
            f"{number(intensity * lanes)} operations a byte": "lanes cancel: they are read as well",
        },
        {"block": block, "ridge": ridge},
        (intensity, min(1, intensity / ridge)),
        3,
        8,
    )


def a_stick_in_blocks(draw):
    share, block = draw.choice([0.2, 0.25, 0.5]), draw.choice([2, 4])
    pieces, rest = _stick([share] * (2 * block))
    wrong = block * share + block * share * (1 - share) ** block
    return Question(
        f"Stick-breaking in blocks of {block} keys, two blocks, each key takes {share} of what is left. What must be handed from the block that is asked first to the other, and what is left in the end? A kernel lets all keys of a block take from one and the same rest. What do its weights sum to, and what must they?",
        f"the product of (1 − β) of the block, {number((1 - share) ** block)}; left {number(rest)}; {number(wrong)} in place of {number(sum(pieces))}",
        (
            (1, f"handed on: {number((1 - share) ** block)}; left in the end {number(rest)}"),
            (1, f"right: weights sum to 1 − {number(rest)} = {number(sum(pieces))}"),
            (1, f"one rest for a block: {number(wrong)}, and another sum for each size of block"),
        ),
        {f"{number(2 * block * share)} as the sum": "no key had shortened the stick"},
        {"share": share, "block": block},
        (rest, sum(pieces), wrong),
        2,
        7,
    )


# Aloud


def say_why_one_kernel(draw):
    length = draw.choice([2048, 8192])
    scores = torch.empty(length, length, dtype=torch.float16, device="meta").nbytes / 2**20
    return Question(
        f"Why is attention as three PyTorch operations slow at {length:,} tokens, though it computes no more than one kernel does?",
        f"each head's scores, {number(scores)} MiB, are written and read again between them",
        (
            (1, "a kernel's numbers on the chip are gone when it ends"),
            (1, f"so {number(scores)} MiB a head go to memory and back, twice"),
            (2, "one kernel holds a tile, uses it up, forgets it"),
        ),
        {"it computes more": "the same products; on the diagonal even fewer are wasted"},
        {"length": length},
        (scores,),
        1,
        3,
    )


def say_maximum(draw):
    score = draw.choice([12, 20])
    largest = math.log(torch.finfo(torch.float16).max)
    return Question(
        f"The factor e^(−m) cancels in a/l. Why carry the maximum at all? Take a score of {score} in half precision.",
        f"e^{score} overflows: half precision ends at e^{number(largest)}",
        (
            (1, "it cancels in exact numbers"),
            (1, f"e^s passes the largest half from s = {number(largest)} on"),
            (2, "with the maximum off, no exponent is above 0 and l ≥ 1: nothing overflows, nothing is divided by 0"),
        ),
        {"for speed": "it costs a pass of comparisons; it is there for the range"},
        {"score": score},
        (largest,),
        2,
        3,
    )


def say_interpreter(draw):
    block = draw.choice([32, 64])
    skip, whole, mask = _tiles(4 * block, block, block)
    return Question(
        f"A kernel passes all tests in Triton's interpreter, tiles of {block}, rows of {4 * block} ({whole} whole tiles, {mask} with a mask). What is proven, and what can only a GPU show?",
        "indices, masks, the walk, gradients; not races, registers, rounding, speed",
        (
            (1, "programs run one after the other, in Python"),
            (1, "proven: the algebra, on these inputs; a row that is no multiple of the block is still missing"),
            (2, "not: two programs that write one place, tiles too large for the chip, a GPU's own rounding, speed"),
        ),
        {"speed, if it is timed long enough": "the interpreter's time says nothing of a GPU"},
        {"block": block},
        (skip, whole, mask),
        2,
        4,
    )


def say_backward(draw):
    powers = draw.sample([1, 2, 3, 5], 2)
    lse, _ = _row([math.log(p) for p in powers], [0, 0])
    return Question(
        f"What does the backward pass need that the forward pass must keep? Two scores, ln {powers[0]} and ln {powers[1]}: say it for them.",
        f"one number a query, the log-sum-exp {number(lse)}; weights are made again from it",
        (
            (1, f"ln {sum(powers)} = {number(lse)}"),
            (1, "A = e^(s − lse), in any tile, without the others"),
            (2, "products are done again: more operations, far fewer bytes"),
        ),
        {"the weights": "that would be T² numbers, which the kernel is there to avoid"},
        {"powers": powers},
        (lse,),
        2,
        3,
    )


def say_decoding(draw):
    block = draw.choice([16, 64])
    _, whole, mask = _tiles(block, block, block)
    return Question(
        f"Decoding asks with one query at a time; a program's tile has {block} rows. What is wasted, and how else can the work be split so that the GPU is full?",
        f"{block - 1} of {block} rows; split the keys among programs and merge their sums",
        (
            (1, f"{block - 1} rows of each tile are empty"),
            (1, "one program a head leaves most of the GPU idle"),
            (2, "several programs take parts of the keys and hand on output and log-sum-exp, which merge exactly"),
        ),
        {"the causal mask": "a last query sees every key: nothing is skipped"},
        {"block": block},
        (whole + mask,),
        3,
        4,
    )


PAPER = (
    by_hand,
    merge_two,
    bytes_of_scores,
    count_the_tiles,
    smaller_tiles,
    how_often_rescaled,
    what_a_test_misses,
    weight_from_a_number,
    operations_a_byte,
    a_stick_in_blocks,
)
ORAL = (say_why_one_kernel, say_maximum, say_interpreter, say_backward, say_decoding)
