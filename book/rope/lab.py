# %% [markdown]
# # Lab: RoPE
#
# {{badge}}
#
# You will
# - **build** the frequencies, the rotation in both layouts, and the permutation between them,
# - **measure** that shifting all positions changes no score, and catch a code for which it does,
# - **train** a small model with your own rotation, and test it beyond its training length.
#
# Time: about 30 minutes of yours, of which the computer works less than 3 on a CPU and 1 on a GPU. The chapter *RoPE* has the
# derivation.

# %% tags=["install"]
# {{install}}

# %%
import math
import os

import matplotlib.pyplot as plt
import torch
from IPython.display import display
from ipywidgets import Dropdown, IntSlider, SelectionSlider

import posenc
from posenc.chapters.rope.exercises import (
    masks_lanes,
    pairs_of_one_angles_of_other,
    reads_pairs_writes_halves,
    turns_backwards,
)
from posenc.lab.check import check, student_seed
from posenc.lab.experiments import load_results, verdict
from posenc.lab.experiments.plots import plot_short_long
from posenc.lab.explore import interact
from posenc.lab.train import pick_device, settings_for, train
from posenc.lab.train.measures import short_long

preset = os.environ.get("POSENC_PRESET", "lab")
print("device:", pick_device())
print("preset:", preset)
seed = student_seed()  # 0, unless your teacher gave you one: %env POSENC_SEED=17 in a cell above
print("seed:", seed)
posenc.explain_impl(posenc.make("rope", head_dim=64))

# %% [markdown]
# ## 1. The ladder of frequencies
#
# Pair $i$ of lanes turns by $\omega_i = b^{-2i/D}$ radians a token, $i = 0, \dots, D/2 - 1$.
#
# **Exercise 1.** Return them as a tensor `[dim/2]`, the fastest first. Hint: `torch.arange(0, dim, 2)` is $2i$.

# %%
# {{exercise inv_freq}}

# %% [markdown]
# A large model has $D = 128$. How many of its 64 pairs turn at least once in 4,096 tokens? Guess, then run. What becomes of the
# number when the base is 500,000?

# %%
for base in (10000.0, 500000.0):
    wavelengths = 2 * math.pi / inv_freq(128, base)
    print(f"base {base:9,.0f}: {int((wavelengths <= 4096).sum())} of 64 pairs turn at least once in 4,096 tokens")

# %% [markdown]
# ## 2. Turn: the interleaved layout
#
# Lanes $2i$ and $2i+1$ are a pair $(a, b)$. At position $m$ it becomes
#
# $$ (a \cos m\omega_i - b \sin m\omega_i,\ \ a \sin m\omega_i + b \cos m\omega_i). $$
#
# **Exercise 2.** `x` is `[..., T, D]`, `positions` is `[T]`, `inv_freq` is `[D/2]`. Hints: `positions[..., None] * inv_freq` makes all
# angles at once; `x[..., 0::2]` are the even lanes; `torch.stack` and `flatten` weave two halves together.

# %%
# {{exercise rotate}}

# %% [markdown]
# ## 3. Turn: the half-split layout
#
# Now lane $i$ and lane $i + D/2$ are a pair. Nothing else changes.
#
# **Exercise 3.** The same signature. Hint: `x.chunk(2, dim=-1)`, and `torch.cat` at the end.

# %%
# {{exercise rotate_half}}

# %% [markdown]
# ## 4. From one layout to the other
#
# **Exercise 4.** Return the lanes `[dim]`, whole numbers, such that for every `x`, positions and frequencies
#
# `rotate_half(x[..., lanes], positions, w)` equals `rotate(x, positions, w)[..., lanes]`.
#
# Where must lane 0 of the half-split vector be read from? Lane 1? Lane `dim // 2`?

# %%
# {{exercise permutation}}

# %% [markdown]
# That is how weights are converted. A toy head with random weights, in the interleaved layout: its rows are permuted, it runs in the
# half-split layout, and its scores stay. Forget the permutation, and they don't.

# %%
generator = torch.Generator().manual_seed(0)
tokens = torch.randn(6, 32, generator=generator)
W_q, W_k = torch.randn(2, 16, 32, generator=generator) / 32**0.5
w, at, lanes = inv_freq(16, 10000.0), torch.arange(6), permutation(16)


def scores(turn, W_q, W_k):
    return turn(tokens @ W_q.T, at, w) @ turn(tokens @ W_k.T, at, w).T


native = scores(rotate, W_q, W_k)
print(f"permuted rows:  scores off by {(scores(rotate_half, W_q[lanes], W_k[lanes]) - native).abs().max():.1e}")
print(f"same rows:      scores off by {(scores(rotate_half, W_q, W_k) - native).abs().max():.1e}")

# %% [markdown]
# ## 5. Does a shift change a score?
#
# **Exercise 5.** `rotate` is any code for the rotation, `q` is `[Tq, D]`, `k` is `[Tk, D]`. Compute all scores
# $\tilde q_m^\top \tilde k_n$ at `pos_q`, `pos_k`, and once more with every position moved by `shift`. Return the largest change, as one number.

# %%
# {{exercise shift_error}}

# %% [markdown]
# Now your two rotations, and the four codes of the chapter. Say first which of the six keep their scores.

# %%
q, k = torch.randn(2, 12, 16, dtype=torch.float64, generator=generator)
at, w = torch.arange(12.0, dtype=torch.float64), inv_freq(16, 10000.0).double()
codes = (rotate, rotate_half, reads_pairs_writes_halves, pairs_of_one_angles_of_other, turns_backwards, masks_lanes)
for code in codes:
    print(f"{code.__name__:30s} shifted by 1000: {float(shift_error(code, q, k, at, at, 1000, w)):.0e}")

# %% [markdown]
# ## 6. See it
#
# Your `rotate` under your hand. Which sliders move the arrows but not the score?


# %% mystnb={"image": {"alt": "A query arrow and a key arrow, turned by your code, at one position of the sliders."}}
def arrows(m, n, shift, pair):
    """One pair of lanes of a query and a key, turned by your code."""
    q, k = torch.randn(2, 1, 16, generator=torch.Generator().manual_seed(5))
    w, lanes = inv_freq(16, 10000.0), slice(2 * pair, 2 * pair + 2)
    turned = [rotate(x, torch.tensor([float(p + shift)]), w)[0, lanes] for x, p in ((q, m), (k, n))]
    fig, ax = plt.subplots(figsize=(4, 4), layout="constrained")
    for (x, y), color, name in zip(turned, ("tab:blue", "tab:orange"), ("q", "k")):
        ax.annotate("", (x, y), (0, 0), arrowprops={"arrowstyle": "->", "color": color, "lw": 2})
        ax.annotate(name, (1.1 * x, 1.1 * y), color=color)
    ax.set(xlim=(-2.5, 2.5), ylim=(-2.5, 2.5), aspect="equal", xlabel=f"lane {2 * pair}", ylabel=f"lane {2 * pair + 1}")
    ax.set_title(f"score of this pair {float(turned[0] @ turned[1]):+.4f}")
    plt.show()


interact(
    arrows,
    m=IntSlider(7, min=0, max=40, continuous_update=False),
    n=IntSlider(3, min=0, max=40, continuous_update=False),
    shift=IntSlider(0, min=0, max=100, continuous_update=False),
    pair=IntSlider(1, min=0, max=7, continuous_update=False),
)

# %% [markdown]
# Does RoPE decay? 200 draws of a query and a key, turned by your code. Try `random`, then `q = k`, then `made for 40`: a key
# built so that its own query scores it highest at distance 40.


# %% mystnb={"image": {"alt": "Mean and spread of the score against distance, with your rotation, at one position of the sliders."}}
def by_distance(kind, dim, base):
    """Mean and spread of the score against distance."""
    generator, distances = torch.Generator().manual_seed(0), torch.arange(128)
    q, k = torch.randn(2, 200, 1, dim, generator=generator)
    w = inv_freq(dim, base)
    if kind != "random":
        k = q if kind == "q = k" else rotate(q, torch.tensor([40]), w)
    turned = rotate(q.expand(-1, 128, -1), distances, w)
    score = (turned * k).sum(-1) / dim**0.5  # [200, 128]
    mean, spread = score.mean(0), score.std(0)
    fig, ax = plt.subplots(figsize=(8, 3), layout="constrained")
    ax.fill_between(distances, mean - spread, mean + spread, alpha=0.3, label="mean ± spread")
    ax.plot(distances, mean, "k", label="mean")
    ax.set(xlabel="distance m − n", ylabel="score", ylim=(-4, 13))
    ax.legend()
    plt.show()


interact(
    by_distance,
    kind=Dropdown(options=["random", "q = k", "made for 40"]),
    dim=SelectionSlider(options=[16, 32, 64, 128], value=64, continuous_update=False),
    base=SelectionSlider(options=[100.0, 1e4, 5e5], value=1e4, continuous_update=False),
)

# %% [markdown]
# The chapter's figure, its arrows turned by your code.

# %%
from posenc.chapters.rope import figures

display(figures.rotation_invariance.with_function(rotate=rotate))

# %% [markdown]
# ## 7. The kernel
#
# On a GPU the rotation is one small program, run for every block of tokens: it computes the angles once, turns all heads by them, and
# its backward is the same program with the other sign of the sine. Is it your rotation? Guess how large the differences are, and
# why they are not zero. *From formula to kernel* has its code.

# %%
from posenc.lab.check.trial import against, causal_softmax


def mine(q, k, v):
    at, w = torch.arange(q.shape[-2], device=q.device), inv_freq(q.shape[-1], 10000.0).to(q.device)
    return causal_softmax(rotate(q, at, w).to(q.dtype), rotate(k, at, w).to(k.dtype), v)


_ = against(mine, posenc.make("rope", head_dim=64))

# %% [markdown]
# ## 8. Train
#
# Two small models with the same start and the same batches. **NoPE** has no position; only the causal mask tells it anything about order.
# The other one turns its queries and keys **by your `rotate`**. Both train on short windows and are tested on longer ones, on the same
# target characters.
#
# Predict before you run: which one has the lower loss at the training length? What does each do at eight times that, and what does
# cutting its attention to the training window change?

# %% mystnb={"image": {"alt": "Loss against training step, one curve a model."}}
settings = settings_for(preset)
head_dim = settings.dim // settings.num_heads


def my_rope(layer):
    """An encoding at the place `rotate`, made of your two functions."""

    def turn(q, k, at):
        w = inv_freq(head_dim, 10000.0).to(q.device)
        return rotate(q, at.pos_q[0], w), rotate(k, at.pos_k[0], w)  # positions [T], the same for the whole batch

    return posenc.Encoding(rotate=turn)


models, own = {}, {}
for name, method in (("NoPE, mine", "nope"), ("RoPE, mine", my_rope)):
    models[name], history = train(method, preset=preset, seed=seed, live=True)
    own[name] = short_long(models[name], settings)
    print(f"{name}: last training loss {history['loss'][-1]:.3f}, {history['seconds']:.0f} s on {history['device']}")

# %%
print("context, characters", *[f"{n:7d}" for n in settings.lengths])
for name, losses in own.items():
    for kind in ("whole", "cut"):
        print(f"{name:12} {kind:6}", *[f"{value:7.3f}" for value in losses[kind]])

# %% [markdown]
# Now beside the frozen results, several seeds of a longer training. Yours trained for fewer steps, so expect it higher.
# (At preset `nano`, which the book's own copy of this lab runs, the windows are shorter and yours is left out.)

# %% mystnb={"image": {"alt": "Loss on the same targets against context length, the frozen results with error bars, solid for the whole context and dashed with attention cut."}}
results = load_results("train_short_test_long")
print("Predicted:", results["predictions"]["rope"])
print("Verdict:  ", verdict(results, "rope").words)
same = settings.lengths == results["lengths"]  # other presets use other lengths: then not in one picture
plot_short_long(results, methods=["nope", "rope"], highlight="rope", own=own if same else None)

# %% [markdown]
# ## 9. Exercises
#
# **Exercise 6** (on paper). The chapter's exercises *One more token*, *Who turns which way*, *A key for distance d* and *A base for a context*. Write your
# answers here.

# %% [markdown] nbgrader={"grade": true, "grade_id": "paper", "locked": false, "points": 4, "schema_version": 3, "solution": true, "task": false}
# One more token: $n - m = 1$; pair 0 gives $-\sin 1 \approx -0.841$, pair 1 gives $\cos 0.01 \approx 1.000$, in all $0.158$.
#
# Who turns which way: $q^\top R(m)^\top R(-n) k = q^\top R(-(m + n)) k$ depends on the sum, and a shift by $s$ moves it by $2s$. With both signs flipped:
# $R(m - n)$, relative again.
#
# A key for distance d: $k = R(d)\,q$, by Cauchy and Schwarz; the score at distance $d$ is then $|q|^2$, and no other distance exceeds it.
#
# A base for a context: $2\pi b^{126/128} = 8192$ gives $b \approx 1461$; half of the pairs: $2\pi b^{62/128} = 8192$ gives $b \approx 2.7 \cdot 10^6$.

# %% [markdown]
# **Exercise 7** (open). *Which pairs does a model need?* Keep the fast pairs only, or the slow ones only; the other lanes then carry content without
# position. Write down first which one loses more at the training length, and which one holds better beyond it. Run more than one
# seed before you believe a difference. To hold yours against the book's trained models: `posenc.lab.experiments.compare(some_pairs, "needle").figure()`, about a minute a seed.

# %%
KEEP = slice(0, head_dim // 4)  # the faster half of the head_dim/2 pairs; slice(head_dim // 4, None) is the slower half


def some_pairs(layer):
    frequencies = posenc.rope.inv_freq(head_dim, dtype=torch.float64)
    return posenc.make("rope", head_dim=head_dim, inv_freq=frequencies[KEEP])


model, _ = train(some_pairs, preset=preset, seed=seed, progress=False)
some = short_long(model, settings)
for name, losses in (("all pairs", own["RoPE, mine"]), (f"pairs {KEEP.start} to {KEEP.stop}", some)):
    print(f"{name:14}", *[f"{value:7.3f}" for value in losses["whole"]])
