# %% [markdown]
# # Lab: RSE
#
# {{badge}}
#
# You will
# - **build** the rotary stick-breaking encoding from its parts: a penalty on distance, and a stick broken from key 0 on,
# - **see** where your own functions make a head look, and find out by how much a penalty must grow to make it look near,
# - **train** two small models that differ in the order of asking alone, and read off what their $\lambda$ has learned.
#
# Time: about 45 minutes of yours, of which the computer works less than 3 on a CPU and 1 on a GPU. The chapter *RSE* has
# the derivation.

# %% tags=["install"]
# {{install}}

# %%
import math
import os

import matplotlib.pyplot as plt
import torch
from IPython.display import display
from ipywidgets import FloatSlider, SelectionSlider

import posenc
from posenc.lab.check import check, student_seed
from posenc.lab.explore import interact
from posenc.lab.train import pick_device, settings_for, train
from posenc.lab.train.measures import short_long
from posenc.rotate.rope import inv_freq, rotate

preset = os.environ.get("POSENC_PRESET", "lab")
print("device:", pick_device())
print("preset:", preset)
seed = student_seed()  # 0, unless your teacher gave you one: %env POSENC_SEED=17 in a cell above
print("seed:", seed)
_ = posenc.explain_impl(posenc.make("rse", head_dim=64))

# %% [markdown]
# ## 1. The penalty
#
# RSE turns queries and keys as RoPE does, and subtracts from each scaled score a penalty, the same rate for all heads:
#
# $$ z_{ij} = s_{ij} - \lambda\,|i - j| $$
#
# **Exercise 1.** `scores` is $[\dots, T_q, T_k]$; the positions are given, and need not be $0, 1, 2, \dots$ Keys may stand
# after the query.

# %%
# {{exercise penalize}}

# %% [markdown]
# ## 2. The stick, key 0 first
#
# A query owns a stick of length 1. In the report's order key 0 is asked first. Each key bites off the fraction
# $\beta_j = \sigma(z_j)$ of what reaches it, and leaves $1 - \beta_j$ of it:
#
# $$ A_j = \beta_j \prod_{k < j} (1 - \beta_k) $$
#
# **Exercise 2.** Return the pieces and what is left. A plain loop is right here.

# %%
# {{exercise stick}}

# %% [markdown]
# The report's kernel is described otherwise: all keys of a block take from the rest that reached the block, and the rest then
# loses the *sum of their pieces*. **Predict** what the weights of 128 keys sum to, when each bites 0.3 and a block has 16.

# %%
bites = torch.full((128,), 0.3)
rest, handed_out = 1.0, 0.0
for block in bites.split(16):
    pieces = block * rest
    handed_out += pieces.sum().item()
    rest = max(rest * (1 - pieces.sum().item()), 1e-6)
print(f"as described: the weights sum to {handed_out:.2f}")
print(f"your stick:   the weights sum to {stick(torch.logit(bites))[0].sum():.2f}")

# %% [markdown]
# ## 3. See it
#
# One query, a past of level content, a penalty: your two functions under your hand. **Predict** before you move anything: at
# $\lambda = 0.05$, does the query look at its neighbors? And which of the two sliders brings it nearer, *up* or *down*?

# %% mystnb={"image": {"alt": "Weights of one query over its past, cut by your stick, at one position of the sliders; a dotted line where the theorem puts the hill."}}
PAST = 128


def look(rate, content, order):
    """Where a query with a level past looks, by your stick: key 0 first, or the last key first (the row reversed)."""
    at = torch.arange(PAST)
    z = penalize(torch.full((1, PAST), content), at[-1:], at, rate)[0]
    pieces, left = stick(z if order == "key 0 first" else z.flip(0))
    pieces = pieces if order == "key 0 first" else pieces.flip(0)
    figure, axis = plt.subplots(figsize=(8, 3), layout="constrained")
    axis.bar(PAST - 1 - at, pieces, color="#0072b2", width=0.9)
    if order == "key 0 first" and rate > 0:
        hill = max(0.0, (content - math.log(math.expm1(rate))) / rate)
        if hill < PAST:
            axis.axvline(hill, color="#c45500", linestyle=":", label="the theorem's hill")
            axis.legend()
    axis.set(xlabel="distance of the key", ylabel="weight", xlim=(PAST, -1))
    axis.set_title(f"{order}: eight nearest keys {pieces[-8:].sum():.3f}, left over {float(left):.3f}")
    plt.show()


interact(
    look,
    rate=SelectionSlider(options=[0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.7, 1.0], value=0.05, description="lambda"),
    content=FloatSlider(0.0, min=-6, max=2, step=0.5, continuous_update=False),
    order=SelectionSlider(options=["key 0 first", "last key first"], value="key 0 first"),
)

# %% [markdown]
# The chapter's figure, with your stick in it:

# %%
from posenc.chapters.rse import figures


def mine(z, visible, order, return_remainder):
    """Your stick in the form that the figure calls."""
    pieces, left = stick(z[0] if order == "first" else z[0].flip(0))
    return (pieces if order == "first" else pieces.flip(0))[None], left[None]


display(figures.primacy.with_function(weigh=mine))

# %% [markdown]
# ## 4. Put together
#
# Rotation (from posenc), your penalty, your stick: this is all of RSE. It is a loop over rows, so it is slow, and it is right or
# wrong in one visible place. `compose` builds the same from posenc's parts.

# %%
RATE = 0.1


def attend(q, k, v):
    """RSE by your functions: q, k, v [B, H, T, D], causal, key 0 first."""
    length, dim = q.shape[-2:]
    at = torch.arange(length)
    q, k = (rotate(x, at, inv_freq(dim)) for x in (q, k))
    z = penalize(q @ k.transpose(-2, -1) / math.sqrt(dim), at, at, RATE)
    rows = []
    for i in range(length):
        pieces = torch.stack([stick(row)[0] for row in z[..., i, : i + 1].reshape(-1, i + 1)])
        rows.append(pieces.view(*z.shape[:-2], i + 1))
    return torch.stack([(row[..., None, :] @ v[..., : row.shape[-1], :])[..., 0, :] for row in rows], dim=-2)


q, k, v = (torch.randn(1, 2, 12, 8, generator=torch.Generator().manual_seed(n)) for n in range(3))
composed = posenc.compose(
    posenc.make("rope", head_dim=8),
    posenc.rse.penalty(RATE),
    posenc.make("stickbreaking", order="first", attend_current=True),
)
print(
    "yours against posenc's parts:", f"{(attend(q, k, v) - posenc.attention(q, k, v, composed)).abs().max().item():.0e}"
)

# %% [markdown]
# ## 5. The kernel
#
# The Triton kernel walks over blocks of keys and carries the log of the rest from block to block. Is it your stick, with its
# gradients? (The report's shared rest would show here at once.) *From formula to kernel* has its code.

# %%
from posenc.lab.check.trial import against


def on_any_device(q, k, v):
    return attend(*(x.float().cpu() for x in (q, k, v))).to(v.device, v.dtype)


_ = against(on_any_device, posenc.make("rse", head_dim=64, rate=RATE), length=20, gpu_length=64)

# %% [markdown]
# ## 6. Train
#
# Two models with the same start and the same batches. They differ in one thing: the order in which keys are asked. Both start
# at $\lambda = 0.01$. **Predict** before you run: which one has the lower loss? In which one will $\lambda$ have to grow?

# %% mystnb={"image": {"alt": "Loss against training step, one curve a model."}}
settings = settings_for(preset)
models, losses = {}, {}
for order in ("first", "recent"):
    models[order], history = train("rse", preset=preset, seed=seed, live=True, options={"order": order})
    losses[order] = short_long(models[order], settings)
    tail = history["loss"][-10:]
    print(f"order {order}: last training losses {sum(tail) / len(tail):.3f} nats per character")

# %% [markdown]
# *whole*: all the context. *cut*: the same model with its attention cut to the training window. With key 0 first, each new key in
# front is asked before all others. What does that do to the longer contexts?

# %%
print("context, characters ", *[f"{n:7d}" for n in settings.lengths])
for order, values in losses.items():
    for kind in ("whole", "cut"):
        print(f"{order:12} {kind:6}", *[f"{value:7.3f}" for value in values[kind]])

# %% [markdown]
# What has been learned? $\lambda$ in each layer, and the content $c = \ln(e^\lambda - 1)$ up to which a head with that $\lambda$ is local
# when key 0 is asked first. At the start both are the same everywhere.

# %%
for order, model in models.items():
    for name, value in model.named_parameters():
        if name.endswith("bias.raw"):
            rate = torch.nn.functional.softplus(value).item()
            print(f"{order:7} {name.split('.')[1]}: lambda {rate:.4f}, local for contents up to {value.item():+.2f}")

# %% [markdown]
# ## 7. Exercises
#
# **Exercise 3** (the gradient to $\lambda$). With $z_j = s_j - \lambda d_j$, how does each weight of a row move with $\lambda$? A key
# loses by its own distance, and gains by what those asked before it lose:
#
# $$ \frac{\partial A_j}{\partial \lambda} = A_j \Bigl( \sum_{k < j} \beta_k d_k - (1 - \beta_j)\, d_j \Bigr) $$
#
# Derive it, then write it without autograd.

# %%
# {{exercise by_rate}}

# %% [markdown]
# **Exercise 4** (the hill). All contents equal $c$, an endless past, key 0 first. At which distance is the weight largest? Where the
# formula gives a negative number, the nearest key has most: return 0. For which $\lambda$ is that?

# %%
# {{exercise peak}}
for content in (0.0, -2.0, -4.0):
    print(f"c = {content:+.0f}:", *(f"lambda {rate}: {peak(content, rate):6.1f}" for rate in (0.01, 0.1, 0.5, 1.0)))

# %% [markdown]
# **Exercise 5** (on paper). The chapter's exercises *One rest a block* and *Left and right*. Write your answers here.

# %% [markdown] nbgrader={"grade": true, "grade_id": "paper", "locked": false, "points": 4, "schema_version": 3, "solution": true, "task": false}
# One rest a block: the first block sums to $b\beta$, and the rest becomes $1 - b\beta$, negative once $b\beta > 1$. Two blocks sum to
# $b\beta + (1 - b\beta)\,b\beta = 1 - (1 - b\beta)^2$, which is below zero once $b\beta > 2$.
#
# Left and right: with $\beta_0$ the bite at distance 0 and $\beta_1$ at distance 1 on either side, right over left is
# $(1-\beta_1)(1-\beta_0) = 1 / \bigl((1 + e^{c-\lambda})(1 + e^{c})\bigr)$. It is above 0.9 only for $c$ below about $-2.2$, and the larger
# $\lambda$ the nearer to that bound. Under a softmax it is 1.

# %% [markdown]
# **Exercise 6** (open). *Give lambda a chance.* Train with key 0 first from a larger $\lambda$. Write down first where $\lambda$ will end and
# whether the loss falls; then set `PREDICTED`. Try more than one seed before you believe a difference.

# %%
START = 1.0
PREDICTED = False  # True once your prediction is written down

if PREDICTED:
    model, history = train("rse", preset=preset, seed=seed, options={"order": "first", "rate": START})
    own = short_long(model, settings)
    print(f"from lambda {START:g}:", *[f"{value:.3f}" for value in own["whole"]])
    print("from lambda 0.01:", *[f"{value:.3f}" for value in losses["first"]["whole"]])
    for name, value in model.named_parameters():
        if name.endswith("bias.raw"):
            print(name.split(".")[1], f"lambda {torch.nn.functional.softplus(value).item():.4f}")
