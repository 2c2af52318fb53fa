r"""Questions on scaling RoPE to longer contexts."""

import math

import torch

from posenc.lab.exercises.bank.question import Question, number, options, vector
from posenc.rotate.rope import inv_freq
from posenc.rotate.scaling import dynamic_ntk, linear, llama3, ntk, yarn

F64 = torch.float64


def divisors(draw):
    dim, factor, base = draw.choice([(8, 8, 10000), (8, 4, 10000), (6, 4, 500)])
    plain = inv_freq(dim, float(base))
    pi, nt = (plain / scheme(dim, float(factor), base=float(base))[0] for scheme in (linear, ntk))
    raised = base * factor ** (dim / (dim - 2))
    return Question(
        f"D = {dim}, base {base:,}, factor s = {factor}. By which number is each of the {dim // 2} frequencies divided by position interpolation, and by NTK scaling? Which new base is that, and which pair is treated alike by both?",
        f"interpolation {vector(pi)}; NTK {vector(nt)}; base {number(raised)}; the last pair",
        (
            (1, f"interpolation: all by {factor}"),
            (2, f"NTK: s^(2i/(D − 2)): {vector(nt)}"),
            (1, f"b s^(D/(D − 2)) = {number(raised)}; the last pair gets s in both"),
        ),
        {
            vector(
                [factor ** (2 * i / dim) for i in range(dim // 2)]
            ): "the base was raised by s alone: the last pair is divided by less than s"
        },
        {"dim": dim, "factor": factor, "base": base},
        (*pi.tolist(), *nt.tolist(), raised),
        1,
        6,
    )


def bands(draw):
    dim, trained, base = draw.choice([(128, 4096, 500000), (64, 8192, 100000), (128, 4096, 100000)])
    w, _ = llama3(dim, 8.0, trained=trained, base=float(base))
    ratio = inv_freq(dim, float(base)) / w
    kept, divided = int((ratio < 1 + 1e-4).sum()), int((ratio > 8 - 1e-3).sum())
    return Question(
        f"Llama 3's rule with low 1 and high 4: D = {dim}, base {base:,}, trained on {trained:,} tokens, factor 8. How many pairs are kept as they are, how many are divided by 8, how many lie between? Say in words which is which and why.",
        f"{kept} kept, {divided} divided by 8, {dim // 2 - kept - divided} between",
        (
            (1, f"kept: more than 4 turns within {trained:,} tokens"),
            (1, f"divided: less than 1 turn; {kept}, {divided}, {dim // 2 - kept - divided}"),
            (1, "a pair that went around often has seen all its angles; one that did not would meet new ones"),
        ),
        {f"{divided} kept, {kept} divided by 8, {dim // 2 - kept - divided} between": "fast and slow are swapped"},
        {"dim": dim, "trained": trained, "base": base},
        (kept, divided, dim // 2 - kept - divided),
        2,
        7,
    )


def new_angles(draw):
    dim, base, trained, factor = 128, draw.choice([10000, 500000]), draw.choice([4096, 8192]), draw.choice([2, 4])
    w = inv_freq(dim, float(base), dtype=F64)
    open_pairs = int((w * (trained - 1) < 2 * math.pi).sum())
    nt = ntk(dim, float(factor), base=float(base))[0].double()
    over = int(
        ((w * (trained - 1) < 2 * math.pi) & (nt * (factor * trained - 1) > w * (trained - 1) * (1 + 1e-4))).sum()
    )
    return Question(
        f"D = {dim}, base {base:,}, trained on {trained:,} tokens, run on {factor} times that. How many pairs did not go around in training? After NTK scaling by s = {factor}, how many of those still come to angles that training never reached? Why is s = {factor} not enough, and what does position interpolation cost instead?",
        f"{open_pairs} pairs; {over} of them still",
        (
            (1, f"ω (L − 1) < 2π: {open_pairs} pairs"),
            (1, f"they are slowed by s^(2i/(D − 2)) < s, all but the last: {over} go beyond"),
            (2, "a larger s; interpolation leaves none, but slows the fast pairs too: neighbors get closer together"),
        ),
        {"0": "NTK slows only the last pair by the full factor"},
        {"dim": dim, "base": base, "trained": trained, "factor": factor},
        (open_pairs, over),
        3,
        8,
    )


def yarn_temperature(draw):
    factor = draw.choice([2, 4, 8, 16, 32])
    _, attention_factor = yarn(64, float(factor), trained=4096)
    wrong = 0.1 * math.log2(factor) + 1
    return Question(
        f"YaRN with s = {factor} multiplies queries and keys by a number. Which one, and by what are the logits multiplied? Why should logits grow when a context does, and why is one number for all heads a compromise?",
        f"{number(attention_factor)}, logits by {number(attention_factor**2)}",
        (
            (1, f"0.1 ln s + 1 = {number(attention_factor)}"),
            (
                1,
                f"logits by its square, {number(attention_factor**2)}; more keys share the weight, a sharper softmax gives it back; heads differ in the spread of their logits",
            ),
        ),
        {
            number(wrong): "the logarithm is natural",
            number(math.sqrt(attention_factor)): "the number stands on q and on k, so it is squared, not rooted",
        },
        {"factor": factor},
        (attention_factor, attention_factor**2),
        2,
        4,
    )


def between_two_tokens(draw):
    factor = draw.choice([4, 8, 16])
    dim = 64
    plain, slowed = inv_freq(dim, dtype=F64), linear(dim, float(factor))[0].double()
    here, there = (float(torch.cos(w).mean()) for w in (plain, slowed))
    return Question(
        f"q = k has all pairs of the same length. The score of distance 1 relative to distance 0 is the mean of cos ω_i. It is {number(here)} for D = {dim}, base 10,000. What happens to it under position interpolation by {factor}, and what does it mean for telling neighbors apart? How does NTK's first pair compare?",
        f"it rises to {number(there)}; NTK leaves ω_0 = 1",
        (
            (1, f"each cos(ω/{factor}) is nearer to 1: {number(there)}"),
            (1, "distance 1 looks like distance 0: local order blurs, short training mends it"),
            (1, "NTK: the fastest pair is unchanged, cos 1"),
        ),
        {number(here / factor): "angles are divided, not scores"},
        {"factor": factor},
        (here, there),
        2,
        6,
    )


def growing_with_the_text(draw):
    trained, length = 4096, draw.choice([4096, 8192, 16384])
    other = draw.choice([2, 4])
    w, _ = dynamic_ntk(64, 1.0, length=length, trained=trained)
    new = dynamic_ntk(64, 1.0, length=length * other, trained=trained)[0]
    moved = float((w / new)[-1])
    return Question(
        f"Dynamic NTK chooses its factor from the current length (trained on {trained:,}). A cache holds keys turned when the text had {length:,} tokens; now it has {length * other:,}. By how much have the frequencies of the last pair changed, as a factor? Which property of RoPE is lost if the cache is kept, and what are the two remedies?",
        f"divided by {number(moved)}",
        (
            (1, f"the last pair is divided by the growth of s: {number(moved)}"),
            (1, "old keys turned by other frequencies: m ω′ − n ω is no function of m − n"),
            (1, "keep keys unrotated and turn them anew, or fix s for the whole text"),
        ),
        {"nothing, angles of old keys are already right": "they were right for another ladder"},
        {"length": length, "other": other, "trained": trained},
        (moved,),
        3,
        7,
    )


def base_change(draw):
    old, new, dim = 10000, draw.choice([100000, 500000, 1000000]), draw.choice([64, 128])
    trained = 4096
    turns = lambda base: int((inv_freq(dim, float(base), dtype=F64) * trained >= 2 * math.pi).sum())  # noqa: E731
    ratio = float(inv_freq(dim, float(old), dtype=F64)[-1] / inv_freq(dim, float(new), dtype=F64)[-1])
    return Question(
        f"A model with D = {dim} raises its base from {old:,} to {new:,} before its long training. By which factor does the slowest pair get slower? How many pairs go around within {trained:,} tokens before and after? What is the price?",
        f"{number(ratio)} times slower; {turns(old)} pairs before, {turns(new)} after",
        (
            (1, f"(b′/b)^((D − 2)/D) = {number(ratio)}"),
            (
                1,
                f"{turns(old)} and {turns(new)}; fewer pairs for fine distances, weights must be trained to the new ladder",
            ),
        ),
        {number(new / old): "the last exponent is (D − 2)/D, not 1"},
        {"new": new, "dim": dim},
        (ratio, turns(old), turns(new)),
        1,
        5,
    )


def cheapest_test(draw):
    factor = draw.choice([4, 8])
    listing, letter = options(
        draw,
        "the loss on the same last tokens, with the whole context and with attention cut to the trained length",
        [
            "the mean loss over all tokens of long texts, against that of short texts",
            "the loss on long texts before and after scaling, on whatever tokens each run reaches",
            "that the text it writes looks right",
        ],
    )
    w, _ = linear(64, float(factor))
    return Question(
        f"A model was scaled by {factor}. Which measurement tells whether it *uses* the longer context? Say what each other one mixes up. And give the new ω_0 of position interpolation.\n\n{listing}",
        f"({letter}); ω_0 = {number(w[0])}",
        (
            (1, f"({letter}): the same targets; if cutting costs nothing, nothing far was used"),
            (1, "other tokens have other difficulty: later tokens are easier with any context"),
        ),
        {"the mean loss falls, so it works": "later tokens are easier even for a windowed model"},
        {"factor": factor},
        (float(w[0]),),
        2,
        5,
    )


def ramp_ends(draw):
    dim, trained, base = draw.choice([(128, 4096, 10000), (64, 8192, 500000), (128, 8192, 500000)])
    ends = [dim * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base)) for turns in (32.0, 1.0)]
    plain = inv_freq(dim, float(base))
    made = plain / yarn(dim, 8.0, trained=trained, base=float(base))[0]
    kept = int((made < 1 + 1e-4).sum())
    full = int((made > 8 - 1e-3).sum())
    return Question(
        f"YaRN's ramp for D = {dim}, base {base:,}, trained on {trained:,} tokens, β = 32 and α = 1 turns, s = 8: at which (real) numbers of pairs does it start and end, which whole numbers does the code take, and how many pairs are kept, how many fully divided?",
        f"{number(ends[0])} and {number(ends[1])}, so {math.floor(ends[0])} and {math.ceil(ends[1])}; {kept} kept, {full} divided by 8",
        (
            (1, "turns L ω_i/2π = β solved for i"),
            (1, f"{number(ends[0])} down to {math.floor(ends[0])}, {number(ends[1])} up to {math.ceil(ends[1])}"),
            (1, f"{kept} kept, {full} divided"),
        ),
        {
            f"{math.ceil(ends[0])} and {math.floor(ends[1])}": "rounded inwards",
            number(dim * math.log(trained / 32.0) / (2 * math.log(base))): "2π is missing",
        },
        {"dim": dim, "trained": trained, "base": base},
        (kept, full),
        3,
        8,
    )


# Aloud


def say_two_reasons(draw):
    factor = draw.choice([2, 8])
    return Question(
        f"A RoPE model is run at {factor} times its length. Give two different reasons why it may fail, and an experiment that tells them apart.",
        "unseen angles of slow pairs; more keys in each softmax",
        (
            (1, "angles never seen"),
            (1, "number of keys: weight spreads"),
            (2, "same number of keys at larger distances, and more keys at seen distances"),
        ),
        {"the context window is full": "that names the symptom"},
        {"factor": factor},
        (factor,),
        2,
        4,
    )


def say_choose(draw):
    factor = draw.choice([2, 32])
    return Question(
        f"You must serve {factor} times the trained length, with {'no' if factor == 2 else 'a short'} training. Which scheme, which factor, what do you check first?",
        f"temperature {number(yarn(64, float(factor), trained=4096)[1])} for YaRN at this factor",
        (
            (1, "a choice with its reason"),
            (1, "a factor somewhat larger than the length ratio for NTK"),
            (2, "same targets, whole and cut; short texts must not suffer"),
        ),
        {"the newest": "name what it does to fast and slow pairs"},
        {"factor": factor},
        (yarn(64, float(factor), trained=4096)[1],),
        2,
        4,
    )


def say_short_texts(draw):
    factor = draw.choice([4, 8])
    change = float((inv_freq(64) - linear(64, float(factor))[0]).abs().max())
    return Question(
        f"After interpolation by {factor} the model got worse on short texts. Why, and which schemes avoid it, each at what price?",
        f"the fastest frequency changes by {number(change)}",
        (
            (1, "fast pairs are slowed too"),
            (1, "NTK, YaRN keep them"),
            (2, "dynamic: unchanged while short, but the cache; or short training on both"),
        ),
        {"because of rounding": "the ladder itself was changed"},
        {"factor": factor},
        (change,),
        2,
        3,
    )


def say_config(draw):
    factor = draw.choice([4.0, 8.0])
    ratio = float(ntk(64, factor)[0][-1] / inv_freq(64)[-1])
    return Question(
        f"A config.json says rope_theta 10000 and rope_scaling with factor {factor:g}, type 'dynamic'. A library ignores the type it does not know. What do short tests show, what do long ones?",
        f"short: nothing; long: the last pair should turn at {number(ratio)} of its frequency and does not",
        (
            (1, "short texts are the same by design"),
            (1, "long: unscaled angles"),
            (2, "a check: read the frequencies and compare, never trust the name; refuse unknown types"),
        ),
        {"an error": "a silently ignored key raises none"},
        {"factor": factor},
        (ratio,),
        2,
        3,
    )


def say_temperature(draw):
    n = draw.choice([8, 32])
    share = lambda keys, t: float((torch.tensor([4.0 * t] + [0.0] * (keys - 1))).softmax(-1)[0])  # noqa: E731
    return Question(
        f"One key is 4 logits above 500 others. What is its share, what among {n} times as many, and how large a temperature factor would restore it? Why is YaRN's number smaller?",
        f"{number(share(500, 1))}, {number(share(500 * n, 1))}; factor about {number(1 + math.log(n) / 4)}",
        (
            (1, "the two shares"),
            (1, f"4t = 4 + ln {n}"),
            (2, "spread of logits differs by head; YaRN's was fitted to perplexity of some models"),
        ),
        {"none needed, scores are relative": "the number of competitors is not"},
        {"n": n},
        (share(500, 1), share(500 * n, 1)),
        3,
        4,
    )


PAPER = (
    divisors,
    bands,
    new_angles,
    yarn_temperature,
    between_two_tokens,
    growing_with_the_text,
    base_change,
    cheapest_test,
    ramp_ends,
)
ORAL = (say_two_reasons, say_choose, say_short_texts, say_config, say_temperature)
