"""What flows back: what the chapter states beyond its comparisons, in plain loops (float64), against autograd.

Each method's formula beside autograd is the page's own code, tested in tests/lab/pages/test_gradients_page.py.
"""

import math

import pytest
import torch
from loops import attend, close, dot, inputs

import posenc
from posenc.lab.figures import gradients
from posenc.lab.pages import gradients as page
from posenc.several.exposb import exposb

B, H, T, D = 2, 2, 7, 4
PAIRS = [(b, h, i, j) for b in range(B) for h in range(H) for i in range(T) for j in range(i + 1)]
TAU = 1 / math.sqrt(D)


def wide(x):
    return torch.tensor(x, dtype=torch.float64)


def problem(seed=0):
    """q, k, v that want gradients, and the gradient of the output."""
    q, k, v = inputs(B, H, T, dim=D, seed=seed)
    dout = torch.randn(B, H, T, D, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + 100))
    return *(x.requires_grad_() for x in (q, k, v)), dout


def autograd(encoding, q, k, v, dout, **options):
    """Gradients of q, k, v and of the encoding's parameters, by name."""
    encoding = encoding.double()
    out = posenc.attention(q, k, v, encoding, **options)
    named = dict(q=q, k=k, v=v, **dict(encoding.named_parameters()))
    return dict(zip(named, torch.autograd.grad(out, list(named.values()), dout, allow_unused=True)))


def through_softmax(A, v, dout):
    """dA_ij = do_i . v_j, ds_ij = A_ij (dA_ij - sum over l of A_il dA_il), term by term."""
    ds = torch.zeros_like(A)
    for b, h, i, j in PAIRS:
        dA = [dot(dout[b, h, i].tolist(), v[b, h, l].tolist()) for l in range(i + 1)]
        mean = sum(A[b, h, i, l].item() * dA[l] for l in range(i + 1))
        ds[b, h, i, j] = A[b, h, i, j] * (dA[j] - mean)
    return ds


def solve(problem, logit):
    """A and ds of a softmax method with this logit (h, i, j, q_i, k_j)."""
    q, k, v, dout = (x.detach() for x in problem)
    A = attend(q, k, v, logit)[1]
    return A, through_softmax(A, v, dout)


def content(q_i, k_j):
    return TAU * dot(q_i, k_j)


def to_q_and_k(ds, q, k, extra_q=None, extra_k=None):
    """dq_i = tau sum_j ds_ij (k_j + extra), dk_j = tau sum_i ds_ij (q_i + extra), extras by (h, i, j)."""
    dq, dk = torch.zeros_like(q), torch.zeros_like(k)
    for b, h, i, j in PAIRS:
        beside_k = extra_q(h, i, j) if extra_q else 0
        beside_q = extra_k(h, i, j) if extra_k else 0
        dq[b, h, i] += TAU * ds[b, h, i, j] * (k[b, h, j] + beside_k)
        dk[b, h, j] += TAU * ds[b, h, i, j] * (q[b, h, i] + beside_q)
    return dq, dk


# Scores, and what reads no position


@pytest.mark.parametrize("name", ["nope", "alibi", "t5", "kerple", "fire", "rope", "shaw", "transformer_xl"])
def test_rows_sum_to_zero_under_a_softmax(name):
    options = {"nope": {}, "rope": {"head_dim": D}, "shaw": {"head_dim": D}, "transformer_xl": {"head_dim": D}}
    options = options.get(name, {}) | ({"num_heads": H} if name not in ("nope", "rope", "shaw") else {})
    q, k, v, dout = problem()
    ds, _ = gradients.logit_gradient(q, k, v, dout, posenc.make(name, **options).double())
    assert ds.abs().max() > 0.1
    close(ds.sum(-1), torch.zeros(B, H, T, dtype=torch.float64))


def test_rows_do_not_sum_to_zero_on_a_stick():
    ds, _ = gradients.logit_gradient(*problem(), posenc.make("stickbreaking"))
    assert ds.sum(-1)[:, :, 1:].abs().min() > 1e-3


def test_a_number_added_to_a_row_gets_no_gradient():
    q, k, v, dout = problem()
    added = torch.randn(T, 1, dtype=torch.float64, requires_grad=True)
    out = posenc.attention(q, k, v, posenc.Encoding(bias=lambda q, k, at: added))
    assert torch.autograd.grad(out, added, dout)[0].abs().max() < 1e-14


# By position


def embedded(encoding, x, positions, seed=3):
    """A layer's loss, and the gradient of its input: x + row, three matrices, NoPE."""
    source = torch.Generator().manual_seed(seed)
    matrices = torch.randn(3, D, D, generator=source, dtype=torch.float64)
    added = encoding.embed(x, positions)
    added.retain_grad()
    q, k, v = (added @ m for m in matrices)
    out = posenc.attention(q[:, None], k[:, None], v[:, None])
    out.square().sum().backward()
    return added.grad


def test_silent_rows_stay_under_adam_and_shrink_under_adamw():
    for optimizer, factor in ((torch.optim.Adam, 1.0), (torch.optim.AdamW, (1 - 0.1 * 0.01) ** 5)):
        encoding = posenc.make("learned", max_positions=9, dim=D).double()
        before = encoding.embed.table.detach().clone()
        step = optimizer(encoding.parameters(), lr=0.1, **({} if factor == 1 else {"weight_decay": 0.01}))
        for seed in range(5):
            step.zero_grad()
            embedded(encoding, torch.ones(2, 5, D, dtype=torch.float64), torch.arange(5)[None], seed)
            step.step()
        after = encoding.embed.table.detach()
        close(after[5:], before[5:] * factor)
        assert (after[:5] - before[:5] * factor).abs().min() > 1e-3


def test_a_sinusoid_has_no_parameters_but_its_code_has_a_gradient():
    encoding = posenc.make("sinusoidal")
    assert not list(encoding.parameters())
    code = posenc.sinusoidal.table(torch.arange(5.0, dtype=torch.float64), D).requires_grad_()
    x = torch.randn(2, 5, D, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    g = embedded(posenc.Encoding(embed=lambda x, positions: x + code), x, torch.arange(5)[None])
    close(code.grad, g[0] + g[1])
    assert code.grad.norm(dim=-1).min() > 0.1


# By offset


def test_shaw_keys_and_values():
    clip = 3
    encoding = posenc.make("shaw", head_dim=D, clip=clip, values=True).double()
    rows, values = encoding.bias.keys.detach(), encoding.bias.values.detach()

    def row(i, j):
        return min(max(j - i, -clip), clip) + clip

    p = problem()
    q, k, v, dout = (x.detach() for x in p)
    A, _ = solve(p, lambda h, i, j, q_i, k_j: content(q_i, k_j) + TAU * dot(q_i, rows[row(i, j)].tolist()))
    ds = torch.zeros_like(A)
    by_key, by_value = torch.zeros_like(rows), torch.zeros_like(values)
    for b, h, i, j in PAIRS:
        dA = [(dout[b, h, i] @ (v[b, h, l] + values[row(i, l)])).item() for l in range(i + 1)]
        ds[b, h, i, j] = A[b, h, i, j] * (dA[j] - sum(A[b, h, i, l].item() * dA[l] for l in range(i + 1)))
        by_key[row(i, j)] += TAU * ds[b, h, i, j] * q[b, h, i]
        by_value[row(i, j)] += A[b, h, i, j] * dout[b, h, i]
    got = autograd(encoding, *p)
    close(got["bias.keys"], by_key)
    close(got["bias.values"], by_value)
    dq, dk = to_q_and_k(ds, q, k, extra_q=lambda h, i, j: rows[row(i, j)])
    close(got["q"], dq)
    close(got["k"], dk)
    assert (got["bias.keys"][clip + 1 :] == 0).all(), "a causal model never reads the rows of the future"
    assert by_key.sum(0).abs().max() < 1e-12 < by_key.abs().max()


# By distance


def test_a_slope_gets_a_covariance_of_distance_and_worth():
    encoding = posenc.make("alibi", num_heads=H, learned=True).double()
    m = encoding.bias.slopes.tolist()
    p = problem()
    A, _ = solve(p, lambda h, i, j, q_i, k_j: content(q_i, k_j) - m[h] * (i - j))
    covariance = torch.zeros(H, dtype=torch.float64)
    for b in range(B):
        for h in range(H):
            for i in range(T):
                a = A[b, h, i, : i + 1]
                worth = p[2].detach()[b, h, : i + 1] @ p[3][b, h, i]
                d = i - torch.arange(i + 1.0, dtype=torch.float64)
                covariance[h] += (a * worth * d).sum() - (a * worth).sum() * (a * d).sum()
    close(autograd(encoding, *p)["bias.slopes"], -covariance)


@pytest.mark.parametrize("threshold", [4.0, 32.0])
def test_fire(threshold):
    torch.manual_seed(0)
    encoding = posenc.make("fire", num_heads=H, hidden=3, threshold=threshold).double()
    f = encoding.bias
    c, w, w0, n, n0 = f.c.item(), f.widen.weight[:, 0].tolist(), f.widen.bias.tolist(), f.narrow.weight, f.narrow.bias

    def share(i, j):
        return math.log1p(c * (i - j)) / (math.log1p(c * max(threshold, i)) + 1e-6)

    def hidden(x):
        return [a * x + b for a, b in zip(w, w0)]

    def logit(h, i, j, q_i, k_j):
        bent = [max(0.0, y) for y in hidden(share(i, j))]
        return content(q_i, k_j) + dot(n[h].tolist(), bent) + n0[h].item()

    p = problem()
    _, ds = solve(p, logit)
    dc = dl = 0.0
    dw, dw0 = [0.0] * 3, [0.0] * 3
    dn, dn0 = torch.zeros(H, 3, dtype=torch.float64), torch.zeros(H, dtype=torch.float64)
    for b, h, i, j in PAIRS:
        g, x, longest = ds[b, h, i, j].item(), share(i, j), max(threshold, i)
        dx = 0.0
        for unit, y in enumerate(hidden(x)):
            dn[h, unit] += g * max(0.0, y)
            if y > 0:
                dw[unit] += g * n[h, unit].item() * x
                dw0[unit] += g * n[h, unit].item()
                dx += g * n[h, unit].item() * w[unit]
        dn0[h] += g
        below = math.log1p(c * longest) + 1e-6
        dc += dx * ((i - j) / (1 + c * (i - j)) - x * longest / (1 + c * longest)) / below
        if i < threshold:
            dl += dx * -x * c / (1 + c * threshold) / below
        elif i == threshold:  # torch.maximum halves the gradient of a tie
            dl += 0.5 * dx * -x * c / (1 + c * threshold) / below
    got = autograd(encoding, *p)
    close(got["bias.c"], wide([dc]))
    close(got["bias.stretch"], wide([dl * threshold]))
    close(got["bias.widen.weight"][:, 0], wide(dw))
    close(got["bias.widen.bias"], wide(dw0))
    close(got["bias.narrow.weight"], dn)
    close(got["bias.narrow.bias"], dn0)
    assert dn0.abs().max() < 1e-12, "a constant on a head gets no gradient"


# Rotations


def turn(m, x, sign=1.0):
    """R(m) x in Python floats, D = 4 lanes in two pairs."""
    out = []
    for pair in range(D // 2):
        angle = sign * m * 10000 ** (-2 * pair / D)
        a, b = x[2 * pair].item(), x[2 * pair + 1].item()
        out += [a * math.cos(angle) - b * math.sin(angle), a * math.sin(angle) + b * math.cos(angle)]
    return torch.tensor(out, dtype=torch.float64)


def test_a_frequency_would_get_a_gradient_that_grows_with_distance():
    p = problem()
    q, k, v, dout = p
    w = posenc.rope.inv_freq(D, dtype=torch.float64).requires_grad_()
    encoding = posenc.Encoding(
        rotate=lambda q, k, at: (
            posenc.rope.rotate(q, at.pos_q[:, None], w),
            posenc.rope.rotate(k, at.pos_k[:, None], w),
        )
    )
    got = torch.autograd.grad(posenc.attention(q, k, v, encoding), w, dout)[0]
    A = posenc.attention(q, k, v, encoding, return_weights=True)[1].detach()
    ds = through_softmax(A, v.detach(), dout)
    expected = torch.zeros(D // 2, dtype=torch.float64)
    for b, h, i, j in PAIRS:
        a, c = turn(i, q[b, h, i]), turn(j, k[b, h, j])
        for pair in range(D // 2):  # q~ . k~ turns by (j - i) w: its slope is (j - i) (q~ x k~)
            cross = a[2 * pair + 1] * c[2 * pair] - a[2 * pair] * c[2 * pair + 1]
            expected[pair] += TAU * ds[b, h, i, j] * (j - i) * cross
    close(got, expected)


# Sticks


@pytest.mark.parametrize("current", [False, True], ids=["strictly past", "own key too"])
@pytest.mark.parametrize("order", ["recent", "first"])
def test_stick_breaking(order, current):
    p = problem()
    q, k, v, dout = (x.detach() for x in p)
    dq, dk = torch.zeros_like(q), torch.zeros_like(k)
    for b in range(B):
        for h in range(H):
            for i in range(T):
                keys = list(range(i + current))
                asked = keys[::-1] if order == "recent" else keys
                rest, beta, flow = 1.0, {}, {}
                for j in asked:
                    beta[j] = 1 / (1 + math.exp(-content(q[b, h, i].tolist(), k[b, h, j].tolist())))
                    flow[j] = beta[j] * rest * (dout[b, h, i] @ v[b, h, j]).item()  # A dA
                    rest *= 1 - beta[j]
                for place, j in enumerate(asked):
                    dz = (1 - beta[j]) * flow[j] - beta[j] * sum(flow[l] for l in asked[place + 1 :])
                    dq[b, h, i] += TAU * dz * k[b, h, j]
                    dk[b, h, j] += TAU * dz * q[b, h, i]
    got = autograd(posenc.make("stickbreaking", order=order, attend_current=current), *p)
    close(got["q"], dq)
    close(got["k"], dk)


def test_the_stick_formula_of_the_page():
    z = torch.randn(2, 5, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    seen = torch.rand(5, 9, generator=torch.Generator().manual_seed(2)) > 0.3
    dA = torch.randn(2, 5, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    for order in ("recent", "first"):
        A = posenc.stickbreaking.weigh(z, seen, order)
        expected = torch.autograd.grad(A, z, dA)[0]
        mine = gradients.stick_gradient(z.detach(), A.detach(), dA, order).masked_fill(~seen, 0.0)
        close(mine, expected)


def test_a_saturated_key_starves_what_lies_behind_it_and_softmax_starves_all():
    z = torch.zeros(1, 9, dtype=torch.float64)
    z[0, 5] = 20.0
    dA = torch.linspace(-1, 1, 9, dtype=torch.float64)[None]
    stick = posenc.stickbreaking.weigh(z, torch.ones(1, 9, dtype=torch.bool))
    on_stick = gradients.stick_gradient(z, stick, dA)[0]
    assert on_stick[:5].abs().max() < 1e-7 and on_stick[6:].abs().min() > 1e-2
    softmax = gradients.softmax_gradient(z.softmax(-1), dA)[0]
    assert softmax.abs().max() < 1e-7


# The report's two methods


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


@pytest.mark.parametrize("per_pair", [False, True], ids=["by lane", "by pair"])
@pytest.mark.parametrize("on", ["logits", "weights", "log"])
def test_exposb(on, per_pair):
    encoding = exposb(D, H, on=on, per_pair=per_pair, rate=0.2, learn_rate=True).double()
    with torch.no_grad():
        encoding.rotate.decay_rates.copy_(torch.tensor([0.03, 0.2]))
        encoding.rotate.band_weights.copy_(torch.tensor([0.9, 1.3]))
    rates, band = encoding.rotate.decay_rates.tolist(), encoding.rotate.band_weights.tolist()
    place = encoding.bias if on == "log" else encoding.weigh
    raw = place.raw.tolist()
    fade_rates = [math.log1p(math.exp(r)) for r in raw]
    lanes = [d + 0.5 - d % 2 if per_pair else d for d in range(D)]
    lanes = wide([0.8 + 0.4 * math.exp(-((d - D / 4) ** 2) / (2 * (D / 8) ** 2)) for d in lanes])

    def made(h, m, x):
        return turn(m, x) * lanes * band[h] * (1 + 0.2 * math.exp(-rates[h] * m))

    def factor(h, d):
        return 0.7 + 0.3 * math.exp(-fade_rates[h] * d)

    p = problem()
    q, k, v, dout = (x.detach() for x in p)
    product = {
        (b, h, i, j): content(made(h, i, q[b, h, i]).tolist(), made(h, j, k[b, h, j]).tolist()) for b, h, i, j in PAIRS
    }
    ds, dfactor = {}, {}
    for b in range(B):
        for h in range(H):
            for i in range(T):
                keys = range(i + 1)
                f = [factor(h, i - j) for j in keys]
                s = [product[b, h, i, j] for j in keys]
                logits = [x * y if on == "logits" else x + math.log(y) if on == "log" else x for x, y in zip(s, f)]
                total = sum(math.exp(x) for x in logits)
                A = [math.exp(x) / total for x in logits]
                dA = [(dout[b, h, i] @ v[b, h, j]).item() * (f[j] if on == "weights" else 1) for j in keys]
                mean = dot(A, dA)
                for j in keys:
                    dlogit = A[j] * (dA[j] - mean)
                    ds[b, h, i, j] = dlogit * (f[j] if on == "logits" else 1)
                    dfactor[b, h, i, j] = {
                        "logits": dlogit * s[j],
                        "log": dlogit / f[j],
                        "weights": A[j] * (dout[b, h, i] @ v[b, h, j]).item(),
                    }[on]
    drate, dband, dfade = (torch.zeros(H, dtype=torch.float64) for _ in range(3))
    dq = torch.zeros_like(q)
    for b, h, i, j in PAIRS:
        flow = ds[b, h, i, j] * product[b, h, i, j]
        dband[h] += 2 * flow / band[h]
        for m in (i, j):
            e = math.exp(-rates[h] * m)
            drate[h] += flow * -0.2 * m * e / (1 + 0.2 * e)
        d = i - j
        dfade[h] += dfactor[b, h, i, j] * -0.3 * d * math.exp(-fade_rates[h] * d) * sigmoid(raw[h])
        gained = lanes * band[h] * (1 + 0.2 * math.exp(-rates[h] * i))
        dq[b, h, i] += turn(i, gained * TAU * ds[b, h, i, j] * made(h, j, k[b, h, j]), -1)
    got = autograd(encoding, *p)
    close(got["rotate.band_weights"], dband, 1e-11)
    close(got["rotate.decay_rates"], drate, 1e-11)
    close(got["bias.raw" if on == "log" else "weigh.raw"], dfade, 1e-11)
    close(got["q"], dq, 1e-11)


# The explorables


def test_the_figure_by_offset_shows_the_sums():
    figure, _ = gradients.by_offset.fn(method="ALiBi", favored=6, extra=4)
    drawn = {trace["name"]: trace for trace in figure["data"]}
    q, k, v, dout = (x[:, :1] for x in gradients.example())
    slope = 2.0**-2
    logits = torch.full((gradients.LENGTH, gradients.LENGTH), -math.inf, dtype=torch.float64)
    for i in range(gradients.LENGTH):
        for j in range(i + 1):
            logits[i, j] = q[0, 0, i] @ k[0, 0, j] / math.sqrt(gradients.LANES) - slope * (i - j) + 4 * (i - j == 6)
    A = logits.softmax(-1)
    dA = dout[0, 0] @ v[0, 0].T
    ds = A * (dA - (A * dA).sum(-1, keepdim=True))
    sums = [sum(ds[i, i - d].item() for i in range(d, gradients.LENGTH)) for d in range(gradients.LENGTH)]
    cells = drawn["gradient of the logits"]["z"]
    close(cells[15, :16], ds[15, :16].flip(-1))
    assert cells[15, 16:].isnan().all()
    close(drawn["sum of a column"]["y"], wide(sums))


def test_the_figure_by_offset_keeps_what_is_nearer_on_a_stick_alone():
    for method in ("NoPE", "ALiBi", "RoPE"):
        for side in ("nearer", "farther"):
            plain, extra = page.side_sizes(method, side)
            assert extra < 0.1 * plain
    (near, near_8), (far, far_8) = (page.side_sizes("stick-breaking", side) for side in ("nearer", "farther"))
    assert near_8 > 0.9 * near and far_8 < 0.01 * far


@pytest.mark.parametrize("method", gradients.BY_POSITION)
def test_no_gradient_comes_from_the_future_or_from_beyond_a_text(method):
    g = gradients.input_gradient(method, 2, gradients.FULL, of=15)
    assert (g[:, 16:] == 0).all() and g[:, 15].norm(dim=-1).min() > 0
    lengths = gradients.texts(gradients.DRAWN)[1]
    g = gradients.input_gradient(method, 1, gradients.DRAWN)
    assert all((row[length:] == 0).all() for row, length in zip(g, lengths))
    assert (g.norm(dim=-1) > 0).sum() == lengths.sum()


def test_the_figure_by_position_shows_the_rows_gradient():
    """The probe's gradient is that of a learned table."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        model = posenc.lab.train.tiny.Decoder(
            gradients.WORDS, gradients.WIDTH, 2, 2, lambda layer: gradients.BY_POSITION["learned"]()
        ).double()
    tokens, lengths = gradients.texts(gradients.DRAWN)
    losses = torch.nn.functional.cross_entropy(model(tokens).transpose(1, 2), tokens.roll(-1, 1), reduction="none")
    (losses * (torch.arange(gradients.TEXT) < lengths[:, None])).sum().backward()
    g = gradients.input_gradient("learned", 2, gradients.DRAWN)
    close(g.sum(0), model.embed.table.grad)
    figure, words = gradients.by_position.fn(method="learned", layers=2, of=15, kind=gradients.DRAWN)
    traces = {trace["name"]: trace for trace in figure["data"]}
    rows = model.embed.table.grad.norm(dim=-1)
    close(traces["all together"]["y"], rows)
    assert words["first"] == pytest.approx((rows[0] / rows[-1]).item())
    visits = wide([(lengths > p).sum().item() for p in range(gradients.TEXT)])
    close(traces["text count"]["y"] / traces["text count"]["y"][0], visits / visits[0])
    one = gradients.input_gradient("learned", 2, gradients.DRAWN, of=15).norm(dim=-1).sum(0)
    cells = traces["gradient of one loss"]["z"]
    close(cells[15, :16], one[:16].clamp(min=gradients.FAINT).log10())
    assert cells[15, 16:].isnan().all()


def test_the_reach_of_a_loss():
    """Of nine rows before the last one, equal, nine tenths are nine; of a steep fall, the nearest."""
    assert gradients.reach(torch.ones(11)) == 9 and gradients.reach(10.0 ** torch.arange(5)) == 1
    assert gradients.reach(torch.ones(1)) == 0
