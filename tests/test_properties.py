r"""What must hold for every method at any shape, dtype, mask and position: drawn by hypothesis, not chosen by us.

The tests of each module check its equation at chosen shapes; here each method is built anew with drawn sizes and
options and compared with plain loops over the formula, and its implementations with each other.
"""

import math
import os
from functools import partial
from typing import NamedTuple

import pytest
import torch
from cases import gates
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loops import bucket, close, dot, ladder, network, pair, sinusoid, slopes, softplus, stick, turn
from loops import softmax as plain_softmax

import posenc
from posenc import rope, rse, scaling, stickbreaking

WEEKLY = os.environ.get("HYPOTHESIS_PROFILE") == "weekly"  # more cases, and others each time
cases = settings(
    max_examples=600 if WEEKLY else 20,
    derandomize=not WEEKLY,
    print_blob=WEEKLY,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],  # a shared machine is no reason to fail
)

whole = st.integers
flag = st.booleans()
base = st.sampled_from([10.0, 100.0, 10000.0, 5e5])
layout = st.sampled_from(rope.LAYOUTS)
order = st.sampled_from(stickbreaking.ORDERS)


def pairs(dim):
    """An even number of lanes, at most dim."""
    return whole(1, dim // 2).map(lambda half: 2 * half)


def schemes(dim):
    """Drawn frequencies of a scaling scheme: (inv_freq [dim/2], attention_factor); tests/rotate has every scheme."""
    yarn = partial(scaling.yarn, max(dim, 4))
    found = st.builds(yarn, st.floats(1, 32), trained=whole(8, 9000), base=base, ramp=st.sampled_from(scaling.RAMPS))
    return found.map(lambda found: (found[0][: dim // 2], found[1]))


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
    per_head, lanes = {"num_heads": st.just(heads)}, {"head_dim": st.just(dim)}
    even = whole(2, 16).map(lambda half: 2 * half)
    factor, rate = st.floats(1, 8), st.floats(1e-4, 0.1)
    switches = dict(gain=flag, band=flag, decay=flag, on=st.sampled_from(["logits", "weights", "log"]))
    return {
        "nope": {},
        "shaw": lanes | dict(clip=whole(1, 9), values=flag),
        "transformer_xl": per_head | lanes | dict(dim=even, base=base),
        "t5": per_head | dict(num_buckets=even, max_distance=whole(17, 200), bidirectional=flag),
        "kerple": per_head | dict(form=st.sampled_from(["log", "power"])),
        "fire": per_head | dict(hidden=whole(1, 6), threshold=st.floats(0.5, 3000)),
        "rope": lanes
        | dict(base=base, layout=layout, rotary_dim=pairs(dim), proportional=flag, attention_factor=st.floats(0.5, 2))
        | dict(values=flag),
        "scaled rope": lanes | dict(scheme=schemes(dim), layout=layout),
        "xpos": lanes
        | dict(base=base, gamma=st.floats(0.1, 2), scale_base=st.floats(400, 2000), layout=layout, center=flag),
        "dynamic": lanes | dict(factor=factor, trained=whole(1, 2 * FAR), layout=layout),
        "alibi": per_head | dict(symmetric=flag, learned=flag),
        "stickbreaking": dict(order=order, attend_current=flag, remainder=st.sampled_from(["drop", "current"])),
        "exposb": per_head
        | lanes
        | switches
        | dict(per_pair=flag, rate=rate, learn_rate=flag, base=base, boost=st.floats(0, 1), floor=st.floats(0.1, 1)),
        "rse": lanes | dict(base=base, rate=st.floats(1e-4, 1), order=order, rotation=flag, penalty=flag, stick=flag),
        "penalty": {"rate": st.floats(1e-4, 1)},
    }


FAR = 2000  # the farthest position, unless a case says otherwise
MORE = {"scaled rope": scaled, "xpos": rope.xpos, "dynamic": follows, "penalty": rse.penalty}  # beside METHODS
EMBEDS = ("sinusoidal", "learned")  # which attention never sees: tests/embed
PLANAR = {name for name, row in posenc.METHODS.items() if row.axes}  # whose positions are no numbers: tests/rotate
IN_ATTENTION = [name for name in (*posenc.METHODS, *MORE) if name not in EMBEDS and name not in PLANAR]
ON_A_TABLE = ("shaw", "t5", "inkling")  # these ask for whole numbers as positions
FROM_ZERO = ("fire", "exposb")  # these read the position itself, which counts from 0


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

    def tensors(self):
        """q, k, v, seeded; v is one lane wider than q where the method allows."""
        generator = torch.Generator().manual_seed(self.seed)
        wide = self.dim if self.options.get("values") else self.dim + 1
        shapes = [(self.heads, self.queries, self.dim), (self.kv_heads, self.keys, self.dim)]
        shapes.append((self.kv_heads, self.keys, wide))
        return [torch.randn(self.batch, *shape, dtype=torch.float64, generator=generator) for shape in shapes]

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
    sizes, seed = (batch, heads, kv_heads, queries, keys, dim), draw(whole(0, 2**20))
    return Case(name, given, seed, *sizes, pos_q, pos_k, causal, draw(st.sampled_from(masks)))


def _fractions(rows):
    return any(isinstance(position, float) for row in rows for position in row)


def seen_by(table, case):
    """Positions [B, T] as lists of numbers."""
    length = table.shape[-1]
    return table.expand(case.batch, length).tolist()


def frequencies_of(case):
    """RoPE's, with zeros where pairs of a whole ladder don't turn."""
    o = case.options
    pairs, lanes = o["rotary_dim"] // 2, case.dim if o["proportional"] else o["rotary_dim"]
    return ladder(lanes, o["base"], pairs) + [0.0] * (lanes // 2 - pairs)


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
            return rotated(frequencies_of(case), o["layout"], o["attention_factor"])
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


def carried(case, encoding, value, m, n):
    """What a value at n brings to a query at m, where values have positions."""
    if case.name == "rope":
        return turn(value, n - m, frequencies_of(case), case.options["layout"])
    return [a + b for a, b in zip(value, encoding.gather.values[clipped(case.options, m, n)].tolist())]


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
                        value = carried(case, encoding, value, m, ns[j])
                    out[b, h, i] += weight * torch.tensor(value, dtype=torch.float64)
    return out, weights


@pytest.mark.parametrize("name", [name for name in IN_ATTENTION if name in drawn_options(2, 2)])
@cases
@given(data=st.data())
def test_attention_equals_plain_loops(name, data):
    drawn = data.draw(case([name], longest=5))
    encoding = drawn.encoding()
    out, weights = drawn.attend(encoding, return_weights=True)
    expected_out, expected = by_loops(drawn, encoding)
    close(weights, expected, 1e-8)
    close(out, expected_out, 1e-7)


@cases
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


@cases
@given(drawn=case())
def test_each_implementation_that_serves_a_case_gives_the_same(drawn):
    encoding, expected = drawn.encoding(), drawn.attend()
    close(drawn.attend(encoding, impl="auto"), expected, 1e-10)
    hides = encoding.bias is not None and getattr(encoding.bias, "reads_scores", True)  # the scores, from whom it reads
    if hides or {"weigh", "gather"} & {*encoding.places} or encoding.attend is not None:
        with pytest.raises(posenc.UnsupportedError, match="impl='sdpa'"):
            drawn.attend(encoding, impl="sdpa")
    else:
        close(drawn.attend(encoding, impl="sdpa"), expected, 1e-10)


@st.composite
def sticks(draw):
    """(scores [..., Tq, Tk], visible that broadcasts to it): any logits, any mask."""
    shape = (*draw(st.lists(whole(1, 3), max_size=3)), draw(whole(1, 4)), draw(whole(1, 6)))
    size = draw(st.sampled_from([0.1, 3.0, 40.0, 1e4]))
    generator = torch.Generator().manual_seed(draw(whole(0, 2**20)))
    scores = size * torch.randn(shape, dtype=torch.float64, generator=generator)
    own = [draw(st.sampled_from([1, n])) for n in shape[:-2]]
    visible = torch.rand(*own, *shape[-2:], generator=generator) < draw(st.sampled_from([0.0, 0.5, 1.0]))
    return scores, visible


@cases
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
