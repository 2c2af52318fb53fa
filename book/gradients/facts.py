r"""What the chapter on gradients computes behind its prose: an encoding trained alone, each formula against autograd.

Every comparison below writes the chapter's formula out, from weights A, queries, keys and the gradient of the output;
autograd goes through `posenc` and uses none of them.
"""

import functools
import math

import matplotlib.pyplot as plt
import torch

import posenc
from posenc.chapters.gradients import figures
from posenc.chapters.gradients.figures import logit_gradient, softmax_gradient, stick_gradient, sum_by_offset
from posenc.lab.experiments.plots import signed
from posenc.lab.write import finish, seeded, table
from posenc.rotate.rope import inv_freq, rotate
from posenc.several.rse import rse

BLUE, ORANGE, GRAY = "#0072b2", "#c45500", "#6b7280"

# The task of the first figure: move the value three tokens back, with fixed matrices and a trained encoding.
LENGTH, WIDTH, BACK, STEPS = 16, 8, 3, 150
# A choice: what may learn nothing, a rate, a row for each distance or a function. Of methods with gates the map that
# makes these would learn from the tokens too, which is no longer the encoding alone.
ENCODINGS = {
    "NoPE": lambda: posenc.Encoding(),
    "sinusoidal": lambda: posenc.make("sinusoidal"),
    "RoPE": lambda: posenc.make("rope", head_dim=WIDTH),
    "stick-breaking": lambda: posenc.make("stickbreaking"),
    "ALiBi, learned": lambda: posenc.make("alibi", num_heads=1, learned=True),
    "KERPLE": lambda: posenc.make("kerple", num_heads=1),
    "Shaw": lambda: posenc.make("shaw", head_dim=WIDTH),
    "FIRE": lambda: posenc.make("fire", num_heads=1, threshold=16.0),
    "T5": lambda: posenc.make("t5", num_heads=1),
    "Transformer-XL": lambda: posenc.make("transformer_xl", num_heads=1, head_dim=WIDTH),
    "learned": lambda: posenc.make("learned", max_positions=LENGTH, dim=WIDTH),
}
CANNOT = ["NoPE", "sinusoidal", "RoPE", "stick-breaking"]
CAN = ["FIRE", "T5", "Transformer-XL", "learned"]

# The comparisons with autograd.
B, H, T, D, TAU = 2, 4, 24, 8, 1 / math.sqrt(8)
SPOTS = 32  # rows of the learned table
BUCKETS, MAX_DISTANCE = 8, 16  # of T5
PROMISED = 1e-11  # no formula may be off by more


def wish(encoding, source, to_q, to_k):
    r"""The loss of one batch of random tokens."""
    x = torch.randn(8, LENGTH, WIDTH, generator=source, dtype=torch.float64)
    placed = x if encoding.embed is None else encoding.embed(x, torch.arange(LENGTH)[None])
    out = posenc.attention((placed @ to_q)[:, None], (placed @ to_k)[:, None], x[:, None], encoding)[:, 0]
    return (out[:, BACK:] - x[:, :-BACK]).square().mean()


def evaluate(encoding, to_q, to_k) -> float:
    r"""The mean loss of ten batches that training does not see."""
    source = torch.Generator().manual_seed(9)
    with torch.no_grad():
        return sum(wish(encoding, source, to_q, to_k).item() for _ in range(10)) / 10


def learn(make_encoding, watch=None) -> tuple[float, float]:
    r"""The loss before and after training an encoding alone; `watch(step, encoding)` sees its gradients."""
    encoding = seeded(make_encoding).double()
    source = torch.Generator().manual_seed(0)
    to_q, to_k = torch.randn(2, WIDTH, WIDTH, generator=source, dtype=torch.float64) / (2 * math.sqrt(WIDTH))
    before, parameters = evaluate(encoding, to_q, to_k), list(encoding.parameters())
    if not parameters:
        return before, before
    optimizer = torch.optim.Adam(parameters, lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        wish(encoding, source, to_q, to_k).backward()
        if watch:
            watch(step, encoding)
        optimizer.step()
    return before, evaluate(encoding, to_q, to_k)


@functools.cache
def losses() -> dict[str, tuple[float, float]]:
    r"""{encoding: loss before and after}."""
    return {name: learn(make_encoding) for name, make_encoding in ENCODINGS.items()}


def failure_figure():
    r"""Bars of the loss before and after training the encoding alone."""
    figure, axes = plt.subplots(figsize=(4.4, 2.6), layout="constrained")
    places = range(len(losses()))
    axes.barh(places, [before for before, _ in losses().values()], color="none", edgecolor=GRAY)
    axes.barh(places, [after for _, after in losses().values()], color=BLUE, height=0.5)
    axes.set_yticks(places, losses())
    axes.invert_yaxis()
    axes.set_xlabel("mean squared distance")
    return finish(figure)


def failure_numbers() -> dict[str, str]:
    r"""What the prose says of the bars. Errors: AssertionError where others stay put or solve the task."""
    assert [name for name, (before, after) in losses().items() if before == after] == CANNOT
    assert [name for name, (_, after) in losses().items() if after < 0.05] == CAN
    return {"shaw": f"{losses()['Shaw'][1]:.2f}"}


def idea_figure():
    r"""The gradients of the logits of one head, and two ways to read them."""
    source = torch.Generator().manual_seed(2)
    example = torch.randn(4, 1, 1, 20, 8, generator=source, dtype=torch.float64)
    ds, _ = logit_gradient(*example, posenc.Encoding())
    along = sum_by_offset(ds)[0, 0]
    panels = [["matrix", "table"], ["matrix", "slope"]]
    figure, axes = plt.subplot_mosaic(panels, figsize=(4.4, 2.9), layout="constrained")
    past = ds[0, 0].masked_fill(torch.ones(20, 20).triu(1).bool(), math.nan)
    image = axes["matrix"].imshow(past, cmap=signed(), vmin=-0.6, vmax=0.6)
    scale = axes["matrix"].inset_axes([0.54, 0.92, 0.44, 0.05])  # in the half that no query sees
    figure.colorbar(image, scale, orientation="horizontal", extend="both")
    scale.set_xticks([-0.5, 0, 0.5], ["−0.5", "0", "0.5"])
    axes["matrix"].set(xlabel="key j", ylabel="query i", yticks=range(0, 20, 5))
    axes["table"].bar(range(20), along, color=BLUE)
    axes["slope"].bar(range(20), -along * torch.arange(20), color=ORANGE)
    axes["slope"].set(xlabel="offset i − j")
    for panel, words in zip(axes, ("gradient of each logit", "summed by offset", "times −offset")):
        axes[panel].set_title(words)
    return finish(figure)


def offset_numbers() -> dict[str, str]:
    r"""By how much extra logits on one key shrink the gradients around it: with a softmax, and on a stick."""
    plain, extra = (
        {name: figures.sides(figures.scored(name, 6, more), 6) for name in ("softmax", "stick-breaking")}
        for more in (0, 8)
    )
    (near, far), (near_stick, far_stick) = ([a / b for a, b in zip(plain[name], extra[name])] for name in plain)
    nope = {"near_nope": f"{near:,.0f}", "far_nope": f"{far:,.0f}"}
    return nope | {"near_stick": f"{1 / near_stick:.0%}", "far_stick": f"{far_stick:,.0f}"}


def position_numbers() -> dict[str, str]:
    r"""How much more row 0 gets than the last one, and how a stick's gradient falls with the distance."""
    given = ("learned", 2), ("stick", 1, 23)
    rows, stick = (figures.input_gradient(*those).sum(0).norm(dim=-1) for those in given)
    return {"first_row": f"{rows[0] / rows[-1]:.1f}", "stick_reach": f"{stick[22] / stick[13]:,.0f}"}


# Each formula against autograd


def draw() -> list[torch.Tensor]:
    r"""q, k, v and the gradient of the output, [B, H, T, D], from torch's default generator."""
    return [torch.randn(B, H, T, D, dtype=torch.float64) for _ in range(4)]


Q, K, V, DO = seeded(draw, 1)
DA = DO @ V.mT  # the gradient of the weights
AT, OMEGA = torch.arange(T), inv_freq(D, dtype=torch.float64)
AWAY = (AT[:, None] - AT).double()  # i - j
TURNED = rotate(Q, AT, OMEGA), rotate(K, AT, OMEGA)


def grads(encoding) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    r"""Weights, and the gradients by autograd: of q, of k and of the parameters by name."""
    q, k = (x.clone().requires_grad_() for x in (Q, K))
    encoding = encoding.double()
    out, A = posenc.attention(q, k, V, encoding, return_weights=True)
    leaves = {"q": q, "k": k} | dict(encoding.named_parameters())
    by_autograd = torch.autograd.grad(out, list(leaves.values()), DO)
    return A.detach(), {name.split(".")[-1]: g for name, g in zip(leaves, by_autograd)}


def softmax_side(encoding) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    r"""The gradients by autograd, and ds by the formula for a softmax."""
    A, by_autograd = grads(encoding)
    return by_autograd, softmax_gradient(A, DA)


def to_qk(ds, q=Q, k=K) -> tuple[torch.Tensor, torch.Tensor]:
    r"""The gradients of q and k through the score."""
    return TAU * ds @ k, TAU * ds.mT @ q


def turned_back(ds) -> list[torch.Tensor]:
    r"""The gradients of q and k through a score of turned vectors."""
    return [rotate(x, -AT, OMEGA) for x in to_qk(ds, *TURNED)]


def by_head(x) -> torch.Tensor:
    r"""The sum over batch, queries and keys, one number a head."""
    return x.sum((0, 2, 3))


def hold(method: str, parameters: str, reads: str, by_autograd, dq, dk, **formulas) -> list[str]:
    r"""Hold what was derived against autograd, for q, k and each parameter by name: a row of the table.

    Arguments: parameters, reads: what is learned, and what its gradient sums over, in words.
    Errors: AssertionError where a formula is off, or a parameter has none.
    """
    error = max(((by_autograd[name] - formulas[name]).abs().max().item() for name in formulas), default=None)
    both = max((by_autograd["q"] - dq).abs().max().item(), (by_autograd["k"] - dk).abs().max().item())
    assert both < PROMISED and (error is None or error < PROMISED), (method, error, both)
    assert {"q", "k", *formulas} == set(by_autograd), (method, set(by_autograd))
    return [method, parameters, reads, "—" if error is None else f"{error:.0e}", f"{both:.0e}"]


def without_parameters(method: str, encoding, words="none") -> list[str]:
    r"""NoPE, and ALiBi with fixed slopes."""
    by_autograd, ds = softmax_side(encoding)
    return hold(method, words, "—", by_autograd, *to_qk(ds))


def by_position() -> list[list[str]]:
    r"""x = E + row, one matrix each for q, k and v; positions are drawn, so that some rows have no visitor."""
    E, spots = torch.randn(B, T, D, dtype=torch.float64), torch.randint(SPOTS - 2, (B, T))
    maps = torch.randn(3, D, D, dtype=torch.float64) / math.sqrt(D)
    learned = posenc.make("learned", max_positions=SPOTS, dim=D).double().embed.table
    codes = posenc.sinusoidal.table(torch.arange(SPOTS, dtype=torch.float64), D).requires_grad_()
    silent = torch.bincount(spots.flatten(), minlength=SPOTS) == 0
    table_rows = []
    for rows in (codes, learned):
        x = E + rows[spots]
        qx, kx, vx = ((x @ m)[:, None] for m in maps)
        out, A = posenc.attention(qx, kx, vx, return_weights=True)
        of_x, of_rows = torch.autograd.grad(out, (x, rows), DO[:, :1])
        A, qx, kx, vx = (y.detach()[:, 0] for y in (A, qx, kx, vx))
        ds = softmax_gradient(A, DO[:, 0] @ vx.mT)
        g = TAU * ds @ kx @ maps[0].T + TAU * ds.mT @ qx @ maps[1].T + A.mT @ DO[:, 0] @ maps[2].T
        sums = torch.zeros(SPOTS, D, dtype=torch.float64).index_add(0, spots.flatten(), g.flatten(0, 1))
        errors = [(of_rows - sums).abs().max().item(), (of_x - g).abs().max().item()]
        assert max(errors) < PROMISED and silent.any() and (of_rows[silent] == 0).all(), errors
        assert of_rows[~silent].norm(dim=-1).min() > 0.01  # of the sinusoid too: a derivative that nobody asks for
        table_rows.append([f"{error:.0e}" for error in errors])
    (_, fixed), trained = table_rows
    return [
        ["Sinusoidal", "none: fixed", "—", "—", fixed],
        ["Learned", "rows $P_p$", "by position, over the batch", *trained],
    ]


def transformer_xl() -> list[str]:
    r"""Two vectors a head, and the map of the sinusoids."""
    encoding = posenc.make("transformer_xl", num_heads=H, head_dim=D)
    by_autograd, ds = softmax_side(encoding)
    bias = encoding.bias
    waves = posenc.sinusoidal.table(AWAY.flatten(), H * D).unflatten(0, (T, T))  # R_(i-j)
    r = (waves @ bias.w_r.detach().T).unflatten(-1, (H, D))  # [T, T, H, D]
    u, v = bias.u.detach()[:, None], bias.v.detach()[:, None]
    dq, dk = to_qk(ds)
    dq, dk = dq + TAU * torch.einsum("bhij,ijhd->bhid", ds, r), dk + TAU * ds.sum(2)[..., None] * u
    formulas = {
        "u": TAU * torch.einsum("bhij,bhjd->hd", ds, K),
        "v": TAU * torch.einsum("bhij,ijhd->hd", ds, r),
        "w_r": TAU * torch.einsum("bhij,bhid,ijc->hdc", ds, Q + v, waves).flatten(0, 1),
    }
    reads = "over all pairs; by offset through $R$"
    return hold("Transformer-XL", "$u, v, W_R$", reads, by_autograd, dq, dk, **formulas)


def t5() -> list[str]:
    r"""A number for each bucket."""
    by_autograd, ds = softmax_side(posenc.make("t5", num_heads=H, num_buckets=BUCKETS, max_distance=MAX_DISTANCE))
    bucket = posenc.t5.bucket((-AWAY).long(), BUCKETS, MAX_DISTANCE, bidirectional=False)
    by_bucket = torch.stack([by_head(ds * (bucket == n)) for n in range(BUCKETS)], -1)
    return hold("T5", "$t_{h,n}$", "by offset, summed in a bucket", by_autograd, *to_qk(ds), table=by_bucket)


def learned_alibi() -> list[str]:
    r"""A slope a head."""
    by_autograd, ds = softmax_side(posenc.make("alibi", num_heads=H, learned=True))
    return hold("ALiBi, learned", "$m_h$", "by distance", by_autograd, *to_qk(ds), slopes=by_head(-AWAY * ds))


def kerple(form: str) -> list[str]:
    r"""Two numbers a head."""
    encoding = posenc.make("kerple", num_heads=H, form=form)
    by_autograd, ds = softmax_side(encoding)
    r1, r2 = (p.detach().exp()[:, None, None] for p in (encoding.bias.log_r1, encoding.bias.log_r2))
    away = AWAY.abs()
    if form == "log":
        b, by_r2 = -r1 * torch.log1p(r2 * away), -r1 * r2 * away / (1 + r2 * away)
    else:
        b = -r1 * away**r2
        by_r2 = b * r2 * away.clamp(min=1).log()
    formulas = {"log_r1": by_head(ds * b), "log_r2": by_head(ds * by_r2)}
    return hold(f"KERPLE, {form}", r"$\ln r_1, \ln r_2$", "by distance", by_autograd, *to_qk(ds), **formulas)


def rope() -> list[str]:
    r"""No parameters; gradients are turned back."""
    by_autograd, ds = softmax_side(posenc.make("rope", head_dim=D))
    return hold("RoPE", "none: frequencies are fixed", "—", by_autograd, *turned_back(ds))


def stick() -> list[str]:
    r"""Stick-breaking: no parameters."""
    A, by_autograd = grads(posenc.make("stickbreaking"))
    dz = stick_gradient(TAU * Q @ K.mT, A, DA) * (AWAY > 0)
    return hold("Stick-breaking", "none", "—", by_autograd, *to_qk(dz))


def penalized_stick(order: str) -> list[str]:
    r"""RSE: one rate."""
    encoding = rse(D, rate=0.1, order=order)
    A, by_autograd = grads(encoding)
    q, k = TURNED
    z = TAU * q @ k.mT - encoding.bias.rate.item() * AWAY.abs()
    dz = stick_gradient(z, A, DA, order) * (AWAY >= 0)
    raw = -(dz * AWAY).sum() * encoding.bias.raw.detach().sigmoid()
    parameter = r"$\lambda$, through a softplus"
    return hold(f"RSE, {order}", parameter, "by distance", by_autograd, *turned_back(dz), raw=raw)


def comparison_table():
    r"""Formulas of the chapter against autograd, a row each. Errors: AssertionError where one is off."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(1)
        draw()  # as the problem does, so that what follows is drawn apart from it
        rows = [
            without_parameters("NoPE", posenc.Encoding()),
            without_parameters("ALiBi", posenc.make("alibi", num_heads=H), "none: slopes are fixed"),
            *by_position(),
            transformer_xl(),
            t5(),
            learned_alibi(),
            kerple("log"),
            kerple("power"),
            rope(),
            stick(),
            penalized_stick("first"),
            penalized_stick("recent"),
        ]
    return table(["method", "parameters", "their gradient", "error there", "error in $q, k$"], rows)


def conserved() -> float:
    r"""What the gradients of T5's table sum to, over its buckets: the largest of the heads."""
    encoding = posenc.make("t5", num_heads=H, num_buckets=BUCKETS, max_distance=MAX_DISTANCE)
    return grads(encoding)[1]["table"].sum(-1).abs().max().item()


def visits_numbers() -> dict[str, str]:
    r"""Shares of T5's last bucket and of offset zero in one causal text of 512, and where the last one begins."""
    bucket = posenc.t5.bucket(-torch.arange(512), 32, 128, bidirectional=False)
    share = torch.zeros(32).index_add(0, bucket, 512.0 - torch.arange(512)) / (512 * 513 / 2)
    return {
        "last_bucket": f"{share[31]:.0%}",
        "last_first": f"{(bucket == 31).nonzero()[0].item()}",
        "zero_bucket": f"{share[0]:.1%}",
    }
