"""What flows back: what the chapter states beyond its own comparisons, in plain loops (float64), against autograd."""

import math

import pytest
import torch
from loops import attend, close, dot, inputs

import posenc
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


def autograd(encoding, q, k, v, dout):
    """Gradients of q, k, v and of the encoding's parameters, by name."""
    encoding = encoding.double()
    out = posenc.attention(q, k, v, encoding)
    named = dict(q=q, k=k, v=v, **dict(encoding.named_parameters()))
    return dict(zip(named, torch.autograd.grad(out, list(named.values()), dout, allow_unused=True)))


def content(q_i, k_j):
    return TAU * dot(q_i, k_j)


def test_shaw_keys_and_values():
    clip = 3
    encoding = posenc.make("shaw", head_dim=D, clip=clip, values=True).double()
    rows, values = encoding.bias.keys.detach(), encoding.gather.values.detach()

    def row(i, j):
        return min(max(j - i, -clip), clip) + clip

    p = problem()
    q, k, v, dout = (x.detach() for x in p)
    A = attend(q, k, v, lambda h, i, j, q_i, k_j: content(q_i, k_j) + TAU * dot(q_i, rows[row(i, j)].tolist()))[1]
    by_key, by_value, dq, dk = (torch.zeros_like(x) for x in (rows, values, q, k))
    for b, h, i, j in PAIRS:
        dA = [(dout[b, h, i] @ (v[b, h, l] + values[row(i, l)])).item() for l in range(i + 1)]
        ds = A[b, h, i, j] * (dA[j] - dot(A[b, h, i, : i + 1].tolist(), dA))
        by_key[row(i, j)] += TAU * ds * q[b, h, i]
        by_value[row(i, j)] += A[b, h, i, j] * dout[b, h, i]
        dq[b, h, i] += TAU * ds * (k[b, h, j] + rows[row(i, j)])
        dk[b, h, j] += TAU * ds * q[b, h, i]
    got = autograd(encoding, *p)
    close(got["bias.keys"], by_key)
    close(got["gather.values"], by_value)
    close(got["q"], dq)
    close(got["k"], dk)
    assert (got["bias.keys"][clip + 1 :] == 0).all(), "a causal model never reads the rows of the future"
    assert by_key.sum(0).abs().max() < 1e-12 < by_key.abs().max()


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
    q, k, v, dout = (x.detach() for x in p)
    A = attend(q, k, v, logit)[1]
    dc = dl = 0.0
    dw, dw0 = [0.0] * 3, [0.0] * 3
    dn, dn0 = torch.zeros(H, 3, dtype=torch.float64), torch.zeros(H, dtype=torch.float64)
    for b, h, i, j in PAIRS:
        dA = (v[b, h, : i + 1] @ dout[b, h, i]).tolist()
        g = A[b, h, i, j].item() * (dA[j] - dot(A[b, h, i, : i + 1].tolist(), dA))
        x, longest, dx = share(i, j), max(threshold, i), 0.0
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


def turn(m, x, sign=1.0):
    """R(m) x in Python floats, D = 4 lanes in two pairs."""
    out = []
    for pair in range(D // 2):
        angle = sign * m * 10000 ** (-2 * pair / D)
        a, b = x[2 * pair].item(), x[2 * pair + 1].item()
        out += [a * math.cos(angle) - b * math.sin(angle), a * math.sin(angle) + b * math.cos(angle)]
    return torch.tensor(out, dtype=torch.float64)


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
        dfade[h] += dfactor[b, h, i, j] * -0.3 * d * math.exp(-fade_rates[h] * d) / (1 + math.exp(-raw[h]))
        gained = lanes * band[h] * (1 + 0.2 * math.exp(-rates[h] * i))
        dq[b, h, i] += turn(i, gained * TAU * ds[b, h, i, j] * made(h, j, k[b, h, j]), -1)
    got = autograd(encoding, *p)
    close(got["rotate.band_weights"], dband, 1e-11)
    close(got["rotate.decay_rates"], drate, 1e-11)
    close(got["bias.raw" if on == "log" else "weigh.raw"], dfade, 1e-11)
    close(got["q"], dq, 1e-11)
