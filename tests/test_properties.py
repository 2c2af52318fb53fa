r"""What must hold for every method at any shape, dtype, mask and position: drawn by hypothesis, not chosen by us.

The tests of each module check its equation at chosen shapes; here each method is built anew with drawn sizes and
options and compared with plain loops over the formula, with itself under a change that must not matter, or with a
bound.
`profiles.py` says how many cases are drawn.
"""

import copy
import math
from functools import partial
from typing import NamedTuple

import pytest
import torch
from cases import gates
from hypothesis import assume, given
from hypothesis import strategies as st
from loops import bucket, close, dot, ladder, network, pair, sinusoid, slopes, softplus, stick, turn
from loops import softmax as plain_softmax
from profiles import cases

import posenc
from posenc import rope, rse, scaling, sinusoidal, stickbreaking
from posenc.several.exposb import hazard

# ------------------------------------------------------------------------------------------------- drawing an encoding

whole = st.integers
flag = st.booleans()
base = st.sampled_from([10.0, 100.0, 10000.0, 5e5])
layout = st.sampled_from(rope.LAYOUTS)
order = st.sampled_from(stickbreaking.ORDERS)


def pairs(dim):
    """An even number of lanes, at most dim."""
    return whole(1, dim // 2).map(lambda half: 2 * half)


def schemes(dim):
    """Drawn frequencies of every scaling scheme: (inv_freq [dim/2], attention_factor)."""
    factor, trained, ramps = st.floats(1, 32), whole(8, 9000), st.sampled_from(scaling.RAMPS)
    lanes = max(dim, 4)
    some = [
        st.builds(partial(scaling.linear, lanes), factor, base=base),
        st.builds(partial(scaling.ntk, lanes), factor, base=base),
        st.builds(partial(scaling.dynamic_ntk, lanes), factor, length=whole(0, 20000), trained=trained, base=base),
        st.builds(partial(scaling.yarn, lanes), factor, trained=trained, base=base, ramp=ramps),
        st.builds(partial(scaling.llama3, lanes), factor, trained=trained, base=base),
    ]
    return st.one_of(some).map(lambda found: (found[0][: dim // 2], found[1]))


def scaled(head_dim, scheme, layout):
    return posenc.make("rope", head_dim=head_dim, inv_freq=scheme[0], attention_factor=scheme[1], layout=layout)


def follows(head_dim, factor, trained, layout):
    scheme = partial(scaling.dynamic_ntk, head_dim, factor, trained=trained)
    return scaling.dynamic(head_dim, scheme, layout=layout)


def options(name, heads, dim):
    """What a factory is called with, drawn: as told below, else one of the variants in its row of METHODS."""
    told = drawn_options(heads, dim)
    if name in told:
        return st.fixed_dictionaries(told[name])
    sizes = posenc.methods.sizes(name, num_heads=heads, head_dim=dim, length=FAR + 1)
    variants = ({}, *posenc.METHODS[name].variants.values())
    return st.sampled_from([sizes | v for v in variants if v.get("num_heads", heads) == heads])


def drawn_options(heads, dim):
    """{name: what its options are drawn from} of the methods whose formulas are told here too."""
    both = {"num_heads": st.just(heads), "head_dim": st.just(dim)}
    return {
        "nope": {},
        "sinusoidal": {
            "base": base,
            "layout": st.sampled_from(sinusoidal.LAYOUTS),
            "volume": st.floats(0, 3),
            "embed_at": st.sampled_from(["input", "layer_qk", "layer_qkv"]),
        },
        "learned": {
            "max_positions": st.just(FAR + 1),
            "dim": st.just(heads * dim),
            "std": st.just(0.5),
            "embed_at": st.sampled_from(["input", "layer_qk", "layer_qkv"]),
        },
        "shaw": {"head_dim": both["head_dim"], "clip": whole(1, 9), "values": flag},
        "transformer_xl": both | {"dim": whole(1, 6).map(lambda half: 2 * half), "base": base},
        "t5": {
            "num_heads": both["num_heads"],
            "num_buckets": whole(2, 16).map(lambda half: 2 * half),
            "max_distance": whole(17, 200),
            "bidirectional": flag,
        },
        "kerple": {"num_heads": both["num_heads"], "form": st.sampled_from(["log", "power"])},
        "fire": {"num_heads": both["num_heads"], "hidden": whole(1, 6), "threshold": st.floats(0.5, 3000)},
        "rope": {
            "head_dim": both["head_dim"],
            "base": base,
            "layout": layout,
            "rotary_dim": pairs(dim),
            "proportional": flag,
            "attention_factor": st.floats(0.5, 2),
        },
        "scaled rope": {"head_dim": both["head_dim"], "scheme": schemes(dim), "layout": layout},
        "xpos": {
            "head_dim": both["head_dim"],
            "base": base,
            "gamma": st.floats(0.1, 2),
            "scale_base": st.floats(400, 2000),
            "layout": layout,
        },
        "dynamic": {
            "head_dim": both["head_dim"],
            "factor": st.floats(1, 8),
            "trained": whole(1, 2 * FAR),
            "layout": layout,
        },
        "alibi": {"num_heads": both["num_heads"], "symmetric": flag, "learned": flag},
        "stickbreaking": {"order": order, "attend_current": flag, "remainder": st.sampled_from(["drop", "current"])},
        "exposb": both
        | {
            "gain": flag,
            "band": flag,
            "decay": flag,
            "on": st.sampled_from(["logits", "weights", "log"]),
            "per_pair": flag,
            "rate": st.floats(1e-4, 0.1),
            "learn_rate": flag,
            "base": base,
            "boost": st.floats(0, 1),
            "floor": st.floats(0.1, 1),
        },
        "rse": {
            "head_dim": both["head_dim"],
            "base": base,
            "rate": st.floats(1e-4, 1),
            "order": order,
            "rotation": flag,
            "penalty": flag,
            "stick": flag,
        },
        "penalty": {"rate": st.floats(1e-4, 1)},
    }


FAR = 2000  # the farthest position, unless a case says otherwise
MORE = {"scaled rope": scaled, "xpos": rope.xpos, "dynamic": follows, "penalty": rse.penalty}  # beside METHODS
EMBEDS = ("sinusoidal", "learned")
PLANAR = {name for name, row in posenc.METHODS.items() if row.axes}  # whose positions are no numbers: tests/rotate
IN_ATTENTION = [name for name in (*posenc.METHODS, *MORE) if name not in EMBEDS and name not in PLANAR]
ON_A_TABLE = ("shaw", "t5", "learned", "inkling")  # these ask for whole numbers as positions
FROM_ZERO = ("fire", "exposb", "learned")  # these read the position itself, which counts from 0


def built(name, given, seed):
    """The encoding in float64, with drawn numbers where it learns them."""
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        encoding = MORE[name](**given) if name in MORE else posenc.make(name, **given)
    for part, parameter in encoding.double().named_parameters():
        if part.split(".")[-1] in ("u", "v", "keys", "values", "table", "band_weights", "w_r"):
            parameter.data.normal_(generator=generator)
        elif part.split(".")[-1] in ("log_r1", "log_r2"):
            parameter.data.uniform_(-3, 0.5, generator=generator)
        elif part.endswith("decay_rates"):
            parameter.data.uniform_(-0.01, 0.01, generator=generator)  # the absolute value counts
    return encoding


class Case(NamedTuple):
    """A method with drawn options, and what it attends over."""

    name: str
    options: dict
    seed: int
    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    dim: int
    pos_q: torch.Tensor
    pos_k: torch.Tensor
    causal: bool
    masked: str

    def tensors(self, dtype=torch.float64, seed=0):
        """q, k, v, seeded; v is one lane wider than q where the method allows."""
        generator = torch.Generator().manual_seed(self.seed + 1000 * seed)
        wide = self.dim if self.options.get("values") else self.dim + 1
        shapes = [(self.heads, self.queries, self.dim), (self.kv_heads, self.keys, self.dim)]
        shapes.append((self.kv_heads, self.keys, wide))
        return [torch.randn(self.batch, *shape, dtype=torch.float64, generator=generator).to(dtype) for shape in shapes]

    def mask(self):
        """A drawn mask in one of the shapes that are allowed, or None."""
        shape = {
            "none": None,
            "all": (self.batch, 1, self.queries, self.keys),
            "pairs": (self.queries, self.keys),
            "keys": (self.batch, 1, 1, self.keys),
            "queries": (1, 1, self.queries, 1),
        }[self.masked]
        if shape is None:
            return None
        return torch.rand(shape, generator=torch.Generator().manual_seed(self.seed + 1)) > 0.3

    def visible(self):
        """What each query may see, [B, Tq, Tk], by loops."""
        out = torch.ones(self.batch, self.queries, self.keys, dtype=torch.bool)
        mask = self.mask()
        for i in range(self.queries):
            for j in range(self.keys):
                out[:, i, j] = not self.causal or j <= i + self.keys - self.queries
        return out if mask is None else out & mask.expand(self.batch, 1, self.queries, self.keys)[:, 0]

    def encoding(self):
        return built(self.name, self.options, self.seed)

    def attend(self, encoding=None, tensors=None, **changes):
        given = {"pos_q": self.pos_q, "pos_k": self.pos_k, "causal": self.causal, "mask": self.mask(), "impl": "torch"}
        encoding = self.encoding() if encoding is None else encoding
        q, k, v = tensors or self.tensors()
        return posenc.attention(q, k, v, encoding, **given | {"gates": gates(encoding, q, k)} | changes)


def rows(name, length, far):
    """Strategy of the positions of one sequence: a run, a run with gaps, repeats in any order, fractions."""
    low = 0 if name in FROM_ZERO else -far
    counted = st.lists(whole(low, far), min_size=length, max_size=length)
    kinds = [
        whole(low, far - length).map(lambda start: list(range(start, start + length))),
        counted.map(sorted),
        counted,
        whole(low, far).map(lambda one: [one] * length),
    ]
    if name not in ON_A_TABLE:
        kinds.append(st.lists(st.floats(low, far, width=32), min_size=length, max_size=length))
    return st.one_of(kinds)


@st.composite
def case(draw, names=tuple(IN_ATTENTION), longest=7, far=FAR, masks=("none", "all", "pairs", "keys", "queries")):
    name = draw(st.sampled_from(names))
    batch, kv_heads = draw(whole(1, 3)), draw(whole(1, 2))
    heads, dim = kv_heads * draw(whole(1, 3)), 2 * draw(whole(1 if name != "dynamic" else 2, 4))
    keys = draw(whole(1, longest))
    queries = draw(st.one_of(st.just(keys), whole(1, keys if name == "inkling" else longest)))
    given = draw(options(name, heads, dim))
    if name == "t5":
        given["num_buckets"] = max(given["num_buckets"], 4)
    causal = True
    if not built(name, given, 0).causal_only:
        causal = draw(flag)
    per_row = draw(st.sampled_from([1, batch]))
    together = [draw(rows(name, max(queries, keys), far)) for _ in range(per_row)]
    # Queries are the last of the keys, as in decoding, or stand anywhere.
    if draw(flag):
        pos_q, pos_k = [row[len(row) - queries :] for row in together], [row[len(row) - keys :] for row in together]
    else:
        pos_q = [draw(rows(name, queries, far)) for _ in range(per_row)]
        pos_k = [row[:keys] for row in together]
    pos_q, pos_k = (torch.tensor(p, dtype=torch.float64 if _fractions(p) else torch.long) for p in (pos_q, pos_k))
    if per_row == 1 and draw(flag):
        pos_q, pos_k = pos_q[0], pos_k[0]
    return Case(
        name,
        given,
        draw(whole(0, 2**20)),
        batch,
        heads,
        kv_heads,
        queries,
        keys,
        dim,
        pos_q,
        pos_k,
        causal,
        draw(st.sampled_from(masks)),
    )


def _fractions(rows):
    return any(isinstance(position, float) for row in rows for position in row)


def seen_by(table, case):
    """Positions [B, T] as lists of numbers."""
    length = table.shape[-1]
    return table.expand(case.batch, length).tolist()


# ------------------------------------------------------------------------------------------- the formulas, a pair each


def score_of(case, encoding):  # noqa: C901  (a case for each method)
    """score(h, m, n, q, k, longest): the logit of a pair at positions m and n, by the method's formula."""
    o, root, bias = case.options, math.sqrt(case.dim), encoding.bias

    def plain(h, m, n, q, k, longest):
        return dot(q, k) / root

    def rotated(frequencies, layout="interleaved", factor=1.0):
        def score(h, m, n, q, k, longest):
            return dot(turn(q, m, frequencies, layout, factor), turn(k, n, frequencies, layout, factor)) / root

        return score

    def beside(other, penalty):
        return lambda h, m, n, q, k, longest: other(h, m, n, q, k, longest) + penalty(h, m, n, q, k)

    match case.name:
        case "nope" | "stickbreaking":
            return plain
        case "shaw":
            return beside(plain, lambda h, m, n, q, k: dot(q, bias.keys[clipped(o, m, n)].tolist()) / root)
        case "transformer_xl":

            def three(h, m, n, q, k):
                rows = bias.w_r[h * case.dim : (h + 1) * case.dim].tolist()
                far = [dot(row, sinusoid(m - n, o["dim"], o["base"])) for row in rows]
                return (dot(q, far) + dot(bias.u[h].tolist(), k) + dot(bias.v[h].tolist(), far)) / root

            return beside(plain, three)
        case "t5":

            def looked_up(h, m, n, q, k):
                return bias.table[h, bucket(n - m, o["num_buckets"], o["max_distance"], o["bidirectional"])].item()

            return beside(plain, looked_up)
        case "kerple":

            def kernel(h, m, n, q, k):
                r1, r2 = math.exp(bias.log_r1[h].item()), math.exp(bias.log_r2[h].item())
                if o["form"] == "log":
                    return -r1 * math.log(1 + r2 * abs(m - n))
                return -r1 * abs(m - n) ** r2

            return beside(plain, kernel)
        case "fire":
            c = bias.c.item()

            def share(h, m, n, q, k):
                x = math.log(c * abs(m - n) + 1) / (math.log(c * max(o["threshold"], m) + 1) + 1e-6)
                return network(bias, h, x)

            return beside(plain, share)
        case "rope":
            pairs, lanes = o["rotary_dim"] // 2, case.dim if o["proportional"] else o["rotary_dim"]
            frequencies = ladder(lanes, o["base"], pairs) + [0.0] * (lanes // 2 - pairs)
            return rotated(frequencies, o["layout"], o["attention_factor"])
        case "scaled rope":
            return rotated(o["scheme"][0].tolist(), o["layout"], o["scheme"][1])
        case "dynamic":

            def follow(h, m, n, q, k, longest):
                scale = 1 + o["factor"] * (max((longest + 1) / o["trained"], 1) - 1)
                frequencies = ladder(case.dim, 10000.0 * scale ** (case.dim / (case.dim - 2)))
                return rotated(frequencies, o["layout"])(h, m, n, q, k, longest)

            return follow
        case "xpos":

            def shrunk(h, m, n, q, k, longest):
                w = ladder(case.dim, o["base"])
                q, k = turn(q, m, w, o["layout"]), turn(k, n, w, o["layout"])
                total = 0.0
                for i in range(case.dim // 2):
                    zeta = (2 * i / case.dim + o["gamma"]) / (1 + o["gamma"])
                    a, b = pair(i, case.dim, o["layout"])
                    total += zeta ** ((m - n) / o["scale_base"]) * (q[a] * k[a] + q[b] * k[b])
                return total / root

            return shrunk
        case "alibi":
            steepness = bias.slopes.tolist()
            close(bias.slopes.double(), torch.tensor(slopes(case.heads), dtype=torch.float64), 1e-7)
            distance = abs if o["symmetric"] else float
            return beside(plain, lambda h, m, n, q, k: -steepness[h] * distance(m - n))
        case "penalty":
            rate = softplus(bias.raw.item())
            assert math.isclose(rate, o["rate"], rel_tol=1e-4)
            return beside(plain, lambda h, m, n, q, k: -rate * abs(m - n))
        case "rse":
            other = rotated(ladder(case.dim, o["base"])) if o["rotation"] else plain
            if not o["penalty"]:
                return other
            rate = softplus(bias.raw.item())
            return beside(other, lambda h, m, n, q, k: -rate * abs(m - n))
        case "exposb":
            return gained(case, encoding)
    raise AssertionError(f"no formula for {case.name}")


def clipped(o, m, n):
    return max(-o["clip"], min(o["clip"], n - m)) + o["clip"]


def faded(o, encoding, h, m, n):
    """Factor (3) of ExpoSB."""
    rate = o["rate"]
    if o["learn_rate"]:
        rate = softplus((encoding.weigh or encoding.bias).raw[h].item())
    return o["floor"] + (1 - o["floor"]) * math.exp(-rate * abs(m - n))


def gained(case, encoding):
    o, D, rotate = case.options, case.dim, encoding.rotate

    def vector(x, m, h):
        x = turn(x, m, ladder(D, o["base"]))
        if o["gain"]:
            x = [v * (1 + o["boost"] * math.exp(-abs(rotate.decay_rates[h].item()) * m)) for v in x]
        if o["band"]:
            lanes = [2 * (d // 2) + 0.5 if o["per_pair"] else d for d in range(D)]
            shape = [0.8 + 0.4 * math.exp(-((d - D / 4) ** 2) / (2 * (D / 8) ** 2)) for d in lanes]
            x = [v * s * rotate.band_weights[h].item() for v, s in zip(x, shape)]
        return x

    def score(h, m, n, q, k, longest):
        z = dot(vector(q, m, h), vector(k, n, h)) / math.sqrt(D)
        if not o["decay"] or o["on"] == "weights":
            return z
        f = faded(o, encoding, h, m, n)
        return z * f if o["on"] == "logits" else z + math.log(f)

    return score


def weigh(case, encoding, logits, own, h, m, ns):
    """Weights of one row; own is the query's index among the keys, m and ns its position and the keys'."""
    o = case.options
    if case.name == "stickbreaking":
        asked = [None if j == own and not o["attend_current"] else z for j, z in enumerate(logits)]
        pieces, rest = stick(asked, o["order"])
        if o["remainder"] == "current" and 0 <= own < len(logits) and logits[own] is not None:
            pieces[own] += rest
        return pieces
    if case.name == "rse" and o["stick"]:
        return stick(logits, o["order"])[0]
    weights = plain_softmax(logits)
    if case.name == "exposb" and o["decay"] and o["on"] == "weights":
        return [w * faded(o, encoding, h, m, n) for w, n in zip(weights, ns)]
    return weights


def by_loops(case, encoding):
    """Output and weights of attention, one number at a time."""
    q, k, v = case.tensors()
    groups = case.heads // case.kv_heads
    visible, score = case.visible(), score_of(case, encoding)
    longest = case.pos_k.max().item()
    out = torch.zeros(case.batch, case.heads, case.queries, v.shape[-1], dtype=torch.float64)
    weights = torch.zeros(case.batch, case.heads, case.queries, case.keys, dtype=torch.float64)
    for b, (ms, ns) in enumerate(zip(seen_by(case.pos_q, case), seen_by(case.pos_k, case))):
        for h in range(case.heads):
            keys, values = k[b, h // groups].tolist(), v[b, h // groups].tolist()
            for i, (m, query) in enumerate(zip(ms, q[b, h].tolist())):
                logits = [
                    score(h, m, n, query, key, longest) if visible[b, i, j] else None
                    for j, (n, key) in enumerate(zip(ns, keys))
                ]
                own = i + case.keys - case.queries
                for j, weight in enumerate(weigh(case, encoding, logits, own, h, m, ns)):
                    weights[b, h, i, j] = weight
                    value = values[j]
                    if case.options.get("values"):
                        more = encoding.bias.values[clipped(case.options, m, ns[j])].tolist()
                        value = [a + b for a, b in zip(value, more)]
                    out[b, h, i] += weight * torch.tensor(value, dtype=torch.float64)
    return out, weights


# ------------------------------------------------------------------------------------------------ every method at once


@pytest.mark.parametrize("name", [name for name in IN_ATTENTION if name in drawn_options(2, 2)])
@cases()
@given(data=st.data())
def test_attention_equals_plain_loops(name, data):
    drawn = data.draw(case([name], longest=5))
    encoding = drawn.encoding()
    out, weights = drawn.attend(encoding, return_weights=True)
    expected_out, expected = by_loops(drawn, encoding)
    close(weights, expected, 1e-8)
    close(out, expected_out, 1e-7)


@pytest.mark.parametrize("name", EMBEDS)
@cases(0.5)
@given(data=st.data())
def test_embeddings_equal_plain_loops(name, data):
    batch, length, width = data.draw(whole(1, 3)), data.draw(whole(1, 7)), 2 * data.draw(whole(1, 6))
    given, seed = data.draw(options(name, 1, width)), data.draw(whole(0, 2**20))
    per_row = data.draw(st.sampled_from([1, batch]))
    positions = [data.draw(rows(name, length, FAR)) for _ in range(per_row)]
    x = torch.randn(batch, length, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    encoding = built(name, given, seed)
    assert encoding.embed_at == given["embed_at"]
    found = encoding.embed(x, torch.tensor(positions, dtype=torch.float64 if _fractions(positions) else torch.long))
    for b in range(batch):
        for t, position in enumerate(positions[b % per_row]):
            for c in range(width):
                if name == "learned":
                    added = encoding.embed.table[position, c].item()
                elif given["layout"] == "interleaved":
                    angle = position * given["base"] ** (-(c - c % 2) / width)
                    added = given["volume"] * (math.cos(angle) if c % 2 else math.sin(angle))
                else:
                    step = (c % (width // 2)) / max(width // 2 - 1, 1)
                    angle = position * given["base"] ** -step
                    added = given["volume"] * (math.sin(angle) if c < width // 2 else math.cos(angle))
                assert math.isclose(found[b, t, c].item(), x[b, t, c].item() + added, abs_tol=1e-9)


def held_otherwise(x, how):
    """The same numbers as x, laid out otherwise in memory."""
    if how == "transposed":
        out = x.transpose(-1, -2).contiguous().transpose(-1, -2)
    elif how == "every second":
        out = x.new_full((*x.shape[:-1], 2 * x.shape[-1]), float("nan"))[..., ::2]
        out.copy_(x)
    elif how == "in the middle":
        out = x.new_full([n + 2 for n in x.shape], float("nan"))[tuple(slice(1, n + 1) for n in x.shape)]
        out.copy_(x)
    else:  # as a projection leaves it: [B, T, H, D]
        out = x.movedim(1, -2).contiguous().movedim(-2, 1) if x.ndim == 4 else x.clone()
    assert torch.equal(out, x)
    return out


@cases()
@given(
    drawn=case(),
    how=st.lists(st.sampled_from(["transposed", "every second", "in the middle", "projected"]), min_size=5, max_size=5),
)
def test_the_layout_in_memory_does_not_matter(drawn, how):
    encoding, tensors = drawn.encoding(), drawn.tensors()
    pos_q, pos_k = (p if p.ndim == 2 else p[None] for p in (drawn.pos_q, drawn.pos_k))
    pos_q, pos_k = (held_otherwise(p.double(), h) for p, h in zip((pos_q, pos_k), how[3:]))
    other = [held_otherwise(x, h) for x, h in zip(tensors, how)]
    kept = [x.clone() for x in other]
    close(drawn.attend(encoding, other, pos_q=pos_q, pos_k=pos_k), drawn.attend(encoding, tensors), 1e-10)
    assert all(torch.equal(x, y) for x, y in zip(other, kept)), "the inputs are the caller's"


TOLERANCES = {torch.float32: 2e-3, torch.float16: 3e-2, torch.bfloat16: 2e-1}


@cases()
@given(drawn=case(far=400), dtype=st.sampled_from([torch.float64, *TOLERANCES]))
def test_what_goes_in_as_a_dtype_comes_out_as_it(drawn, dtype):
    """And is near what float64 makes of the same rounded numbers, with the parameters of a float32 model."""
    encoding = drawn.encoding().to(torch.float64 if dtype == torch.float64 else torch.float32)
    tensors = drawn.tensors(dtype=dtype)
    out, weights = drawn.attend(encoding, tensors, return_weights=True)
    assert out.dtype == dtype and weights.dtype == torch.promote_types(dtype, torch.float32)
    assert out.shape == (drawn.batch, drawn.heads, drawn.queries, tensors[2].shape[-1])
    assert out.isfinite().all()
    exact = drawn.attend(copy.deepcopy(encoding).double(), [x.double() for x in tensors])
    close(out.double(), exact, TOLERANCES.get(dtype, 0) * max(1.0, exact.abs().max().item()))


@cases()
@given(drawn=case(masks=("none", "all", "keys")), loud=st.sampled_from([1e-3, 1.0, 50.0]))
def test_gradients_are_finite_and_nothing_flows_to_what_nobody_sees(drawn, loud):
    encoding = drawn.encoding().float()
    tensors = [(loud * x).float().requires_grad_() for x in drawn.tensors()]
    out = drawn.attend(encoding, tensors)
    out.square().sum().backward()
    for x in tensors:
        assert x.grad is not None and x.grad.isfinite().all()
    for part, parameter in encoding.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), part
    unseen = ~drawn.visible().any(1)  # [B, Tk]
    for x in tensors[1:]:
        assert (x.grad.transpose(1, 2)[unseen] == 0).all()
    assert (tensors[0].grad.transpose(1, 2)[~drawn.visible().any(2)] == 0).all()


@cases()
@given(drawn=case())
def test_each_implementation_that_serves_a_case_gives_the_same(drawn):
    encoding, expected = drawn.encoding(), drawn.attend()
    close(drawn.attend(encoding, impl="auto"), expected, 1e-10)
    hides = encoding.bias is not None and getattr(encoding.bias, "reads_scores", True)  # the scores, from whom it reads
    if hides or encoding.weigh is not None or encoding.attend is not None:
        with pytest.raises(posenc.UnsupportedError, match="impl='sdpa'"):
            drawn.attend(encoding, impl="sdpa")
    else:
        close(drawn.attend(encoding, impl="sdpa"), expected, 1e-10)


# ------------------------------------------------------------------------------------------------------------- a cache


@st.composite
def decoding(draw):
    """A block of a drawn method, how it is fed and how the sequences are padded at the left."""
    name = draw(st.sampled_from([name for name in (*IN_ATTENTION, *EMBEDS) if name != "dynamic"]))
    kv_heads = draw(whole(1, 2))
    heads, dim = kv_heads * draw(whole(1, 2)), 2 * draw(whole(1, 3))
    given = draw(options(name, heads, dim))
    if name == "t5":
        given["num_buckets"] = max(given["num_buckets"], 4)
    chunks = draw(st.lists(whole(1, 4), min_size=1, max_size=5))
    pads = draw(st.lists(whole(0, 3), min_size=1, max_size=3))
    start = draw(whole(0, FAR - sum(chunks)))
    return name, given, heads, kv_heads, dim, chunks, pads, start, draw(whole(0, 2**20))


def block(name, given, heads, kv_heads, dim, seed):
    """forward(x, positions, **options) of one layer with a drawn encoding, in float64."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        encoding = built(name, given, seed)
        layers = encoding.in_layers()
        layer = posenc.SelfAttention(heads * dim, heads, layers, num_kv_heads=kv_heads, head_dim=dim).double()

    def forward(x, positions, **options):
        x = posenc.embed_input(encoding, x, positions)
        return layer(x, positions=positions, **options)

    return forward


@cases()
@given(drawn=decoding())
def test_decoding_with_a_cache_equals_the_full_pass(drawn):
    name, given, heads, kv_heads, dim, chunks, pads, start, seed = drawn
    forward = block(name, given, heads, kv_heads, dim, seed)
    length, batch = sum(chunks), len(pads)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, length, heads * dim, dtype=torch.float64, generator=generator)
    valid = torch.arange(length) >= torch.tensor(pads)[:, None]
    positions = start + (valid.cumsum(-1) - 1).clamp(min=0)
    cache, steps, at = posenc.KVCache(), [], 0
    for size in chunks:
        now = slice(at, at + size)
        steps.append(forward(x[:, now], positions[:, now], valid=valid[:, now], cache=cache))
        at += size
        assert len(cache) == at
    whole_pass = forward(x, positions, valid=valid)
    close(torch.cat(steps, dim=1)[valid], whole_pass[valid], 1e-9)
    for b, pad in enumerate(pads):  # and padding is as good as not being there
        if pad < length:
            alone = forward(x[b : b + 1, pad:], positions[b : b + 1, pad:])
            close(alone[0], whole_pass[b, pad:], 1e-9)


# ---------------------------------------------------------------------------------------------------------- rotations

leading = st.lists(whole(1, 3), min_size=0, max_size=3)


@st.composite
def turning(draw):
    """(x [..., T, D], positions, frequencies, layout, factor, dtype) for `rope.rotate`."""
    dim = 2 * draw(whole(1, 6))
    shape, length = draw(leading), draw(whole(1, 6))
    lanes = draw(pairs(dim))
    frequencies, factor = draw(schemes(lanes)) if draw(flag) else (rope.ladder(lanes, draw(base)), 1.0)
    own = shape if draw(flag) else [draw(st.sampled_from([1, n])) for n in shape]
    own = own[draw(whole(0, len(own))) :]
    count = math.prod(own) * length
    numbers = draw(
        st.one_of(
            st.lists(whole(-(10**5), 10**5), min_size=count, max_size=count),
            st.lists(st.floats(-1e4, 1e4, width=32), min_size=count, max_size=count),
        )
    )
    positions = torch.tensor(numbers, dtype=torch.float64 if isinstance(numbers[0], float) else torch.long)
    seed, dtype = draw(whole(0, 2**20)), draw(st.sampled_from([torch.float64, *TOLERANCES]))
    x = torch.randn(*shape, length, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)
    return x, positions.reshape(*own, length), frequencies, draw(layout), factor


@cases()
@given(drawn=turning())
def test_a_rotation_keeps_norms_passes_other_lanes_and_is_undone_by_its_negative(drawn):
    x, positions, frequencies, layout, factor = drawn
    before = x.clone()
    out = rope.rotate(x, positions, frequencies, layout, factor)
    lanes = 2 * len(frequencies)
    slack = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}[x.dtype]
    assert out.dtype == x.dtype and out.shape == x.shape and torch.equal(x, before)
    assert torch.equal(out[..., lanes:], x[..., lanes:])
    turned, still = out[..., :lanes].double(), x[..., :lanes].double()
    close(turned.norm(dim=-1), factor * still.norm(dim=-1), slack * 12)
    for i in range(lanes // 2):  # and of each pair by itself
        a, b = pair(i, lanes, layout)
        close(turned[..., [a, b]].norm(dim=-1), factor * still[..., [a, b]].norm(dim=-1), slack * 8)
    exact = rope.rotate(x.double(), positions, frequencies, layout, factor)  # angles never pass through half precision
    close(out.double(), exact, slack * 8 + (0 if x.dtype == torch.float64 else 0.08))
    back = rope.rotate(out, -positions, frequencies, layout, 1 / factor)
    close(back.double(), x.double(), slack * 8)
    if layout == "interleaved":  # the other layout is the same up to the order of lanes
        order = [*range(0, lanes, 2), *range(1, lanes, 2)]
        half = rope.rotate(x[..., [*order, *range(lanes, x.shape[-1])]], positions, frequencies, "half", factor)
        assert torch.equal(half[..., :lanes], out[..., order])


@cases()
@given(half=whole(2, 64), factor=st.floats(1, 1000), b=base, trained=whole(8, 10**6), times=st.floats(0, 4))
def test_scaled_frequencies_fall_and_lie_between_plain_and_divided(half, factor, b, trained, times):
    dim, length = 2 * half, round(times * trained)
    plain = rope.ladder(dim, b)
    scale = 1 + factor * (max(length / trained, 1) - 1)
    each = {
        "linear": (scaling.linear(dim, factor, base=b), factor),
        "ntk": (scaling.ntk(dim, factor, base=b), factor),
        "dynamic_ntk": (scaling.dynamic_ntk(dim, factor, length=length, trained=trained, base=b), scale),
        "yarn": (scaling.yarn(dim, factor, trained=trained, base=b), factor),
        "yarn rotations": (scaling.yarn(dim, factor, trained=trained, base=b, ramp="rotations"), factor),
        "llama3": (scaling.llama3(dim, factor, trained=trained, base=b), factor),
    }
    for name, ((frequencies, temperature), most) in each.items():
        assert frequencies.dtype == torch.float64 and frequencies.shape == (dim // 2,), name
        assert (frequencies <= plain * (1 + 1e-12)).all() and (frequencies >= plain / most * (1 - 1e-12)).all(), name
        assert (frequencies.diff() <= 0).all(), name
        assert temperature == (1.0 if "yarn" not in name else 0.1 * math.log(factor) + 1.0), name
    # Position interpolation is what its name says: the position is divided, not the frequency.
    x = torch.randn(3, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(dim))
    at = torch.tensor([0.0, 7.0, float(length % 1000)], dtype=torch.float64)
    close(rope.rotate(x, at, each["linear"][0][0]), rope.rotate(x, at / factor, plain), 1e-9)


@cases()
@given(drawn=case(["dynamic"]), beyond=whole(1, 100))
def test_dynamic_scaling_waits_for_the_trained_length(drawn, beyond):
    """Up to it the encoding is RoPE; beyond, the frequencies follow the largest key position."""
    o, longest = drawn.options, drawn.pos_k.max().item() + 1
    trained = max(1, math.ceil(longest))
    plain = posenc.make("rope", head_dim=drawn.dim, layout=o["layout"]).double()
    at_rest = follows(drawn.dim, o["factor"], trained, o["layout"])
    close(drawn.attend(at_rest), drawn.attend(plain), 0)
    beyond = max(1, trained) + beyond
    pos_k = torch.cat((drawn.pos_k[..., :-1], torch.full_like(drawn.pos_k[..., -1:], beyond - 1)), dim=-1)
    scheme = scaling.dynamic_ntk(drawn.dim, o["factor"], length=beyond, trained=trained)
    fixed = scaled(drawn.dim, scheme, o["layout"])
    close(drawn.attend(at_rest, pos_k=pos_k), drawn.attend(fixed, pos_k=pos_k), 1e-12)


# ------------------------------------------------------------------------------------------------------ bias and stick


@cases()
@given(
    name=st.sampled_from(["alibi", "symmetric", "kerple", "penalty", "faded"]),
    heads=whole(1, 20),
    seed=whole(0, 999),
    at=st.floats(-1000, 1000, width=32),
    far=st.lists(st.floats(0, 1e5, width=32), min_size=2, max_size=9),
)
def test_a_penalty_starts_at_0_and_grows_with_distance(name, heads, seed, at, far):
    given = {
        "alibi": ("alibi", {"num_heads": heads}),
        "symmetric": ("alibi", {"num_heads": heads, "symmetric": True}),
        "kerple": ("kerple", {"num_heads": heads, "form": ["log", "power"][seed % 2]}),
        "penalty": ("penalty", {}),
        "faded": ("exposb", {"head_dim": 4, "num_heads": heads, "gain": False, "band": False, "on": "log"}),
    }[name]
    encoding = built(*given, seed)
    far = sorted({0.0, *far})
    q = torch.zeros(1, heads, 1, 4, dtype=torch.float64)
    k = torch.zeros(1, heads, len(far), 4, dtype=torch.float64)
    sides = (-1, 1) if name != "alibi" else (-1,)  # plain ALiBi is not defined for the future
    for side in sides:
        pos_k = at + side * torch.tensor([far], dtype=torch.float64)
        here = torch.tensor([[at]], dtype=torch.float64)
        penalty = encoding.bias(q, k, posenc.At(here, pos_k, None)).expand(1, heads, 1, len(far))[0, :, 0]
        assert (penalty[:, 0] == 0).all() and (penalty <= 0).all()
        assert (penalty.diff(dim=-1) <= 0).all()
        apart = torch.tensor(far).diff() > 1e-2
        if name in ("alibi", "symmetric", "penalty"):
            assert (penalty.diff(dim=-1)[:, apart] < 0).all()
    if name == "alibi" and heads & (heads - 1) == 0:  # the first head is the steepest
        assert (encoding.bias.slopes.diff() < 0).all()


@st.composite
def sticks(draw):
    """(scores [..., Tq, Tk], visible that broadcasts to it): any logits, any mask."""
    shape = (*draw(leading), draw(whole(1, 4)), draw(whole(1, 6)))
    size = draw(st.sampled_from([0.1, 3.0, 40.0, 1e4]))
    generator = torch.Generator().manual_seed(draw(whole(0, 2**20)))
    scores = size * torch.randn(shape, dtype=torch.float64, generator=generator)
    own = [draw(st.sampled_from([1, n])) for n in shape[:-2]]
    visible = torch.rand(*own, *shape[-2:], generator=generator) < draw(st.sampled_from([0.0, 0.5, 1.0]))
    return scores, visible


@cases()
@given(drawn=sticks(), order=order, dtype=st.sampled_from([torch.float64, torch.float32]))
def test_a_stick_is_broken_into_pieces_and_a_rest(drawn, order, dtype):
    scores, visible = drawn[0].to(dtype), drawn[1]
    weights, rest = stickbreaking.weigh(scores, visible, order, return_remainder=True)
    slack = 1e-12 if dtype == torch.float64 else 1e-5
    assert weights.dtype == rest.dtype == dtype and weights.shape == scores.shape and rest.shape == scores.shape[:-1]
    assert (weights >= 0).all() and (rest >= 0).all() and (weights[~visible.expand_as(weights)] == 0).all()
    close(weights.sum(-1) + rest, torch.ones_like(rest), slack)
    flat, seen = scores.double().flatten(0, -2), visible.expand_as(scores).flatten(0, -2)
    for row, asked, pieces, left in zip(flat, seen, weights.flatten(0, -2), rest.flatten()):
        expected, expected_left = stick([z if a else None for z, a in zip(row.tolist(), asked.tolist())], order)
        close(pieces.double(), torch.tensor(expected, dtype=torch.float64), slack)
        assert math.isclose(left.item(), expected_left, abs_tol=slack)
    other = "first" if order == "recent" else "recent"
    close(stickbreaking.weigh(scores.flip(-1), visible.flip(-1), other).flip(-1), weights, slack)


@cases()
@given(drawn=sticks(), rate=st.floats(0, 5))
def test_a_hazard_adds_to_what_the_nearer_keys_left(drawn, rate):
    scores, visible = drawn
    weights = hazard(scores, visible, rate)
    assert (weights >= 0).all() and (weights.sum(-1) <= 1 + 1e-9).all()
    for row, asked, found in zip(
        scores.flatten(0, -2), visible.expand_as(scores).flatten(0, -2), weights.flatten(0, -2)
    ):
        left = 1.0
        for j in reversed(range(len(row))):
            z = row[j].item()
            risk = softplus(z) + rate if asked[j] else 0.0
            assert math.isclose(found[j].item(), -math.expm1(-risk) * left, abs_tol=1e-9)
            left *= math.exp(-risk)


@cases()
@given(first=case(["rope", "nope", "xpos"]), second=case(["alibi", "t5", "kerple", "shaw", "penalty"]))
def test_compose_knows_no_order(first, second):
    given = dict(second.options)
    given |= {"num_heads": first.heads} if "num_heads" in given else {}
    given |= {"head_dim": first.dim, "values": False} if "head_dim" in given else {}
    one, two = first.encoding(), built(second.name, given, second.seed)
    both, swapped = posenc.compose(one, two), posenc.compose(two, one)
    assert both.places == swapped.places == tuple(p for p in posenc.encoding.PLACES if p in one.places + two.places)
    pos_q, pos_k = first.pos_q.round().long(), first.pos_k.round().long()  # T5 and Shaw look them up
    options = {"pos_q": pos_q, "pos_k": pos_k, "causal": True}
    assert torch.equal(first.attend(both, **options), first.attend(swapped, **options))
    close(first.attend(posenc.compose(one, posenc.Encoding()), **options), first.attend(one, **options), 0)
    with pytest.raises(posenc.UnsupportedError, match="'bias'"):
        posenc.compose(both, two)


def what_a_kernel_adds(part, q, m, n, score):
    """Scores [B or 1, H, Tq, Tk] as the kernel of this part makes them from what it is handed, here in one piece."""
    given, delta = part.kernel_inputs(q, None), (m[:, None, :, None] - n[:, None, None, :]).double()
    if part.kernel == "table":
        row = (-delta - given["first"]).long().clamp(0, given["table"].shape[1] - 1)  # outside it is constant
        return score + given["table"].double()[torch.arange(q.shape[1])[None, :, None, None], row]
    a = given["a"].double()[:, None, None]
    if part.kernel in ("linear", "symmetric"):
        return score - a * (delta if part.kernel == "linear" else delta.abs())
    floor = given["x"].double()[..., None]
    factor = floor + (1 - floor) * torch.exp(-a * delta.abs())
    return score * factor if part.kernel == "faded" else score + factor.log()


@cases()
@given(drawn=case(["alibi", "t5", "penalty", "exposb"]))
def test_what_a_kernel_is_handed_makes_the_same_scores(drawn):
    encoding = drawn.encoding()
    bias = getattr(encoding.bias, "kernel_inputs", None) and encoding.bias
    part = bias or (getattr(encoding.weigh, "kernel_inputs", None) and encoding.weigh)
    assume(part is not None and hasattr(part, "kernel"))
    q, k = drawn.tensors()[:2]
    k = k.repeat_interleave(drawn.heads // drawn.kv_heads, dim=1)
    m, n = (torch.tensor(seen_by(p, drawn), dtype=p.dtype) for p in (drawn.pos_q, drawn.pos_k))
    at = posenc.At(m, n, drawn.visible()[:, None])
    if drawn.name == "t5" and not drawn.options["bidirectional"]:  # a later key is hidden, and not in the table
        n = torch.minimum(n, m.amin(-1, keepdim=True))
        at = at._replace(pos_k=n)
    plain = q @ k.transpose(-2, -1)
    if part.kernel == "faded":
        expected = posenc.softmax(what_a_kernel_adds(part, q, m, n, plain), at)
        close(part(plain, at), expected, 1e-4)
    else:
        expected = what_a_kernel_adds(part, q, m, n, plain)
        close((plain + part(q, k, at)).expand_as(expected), expected, 1e-4 * max(1.0, expected.abs().max().item()))
