# %% [markdown]
# # Lab: Stick-breaking
#
# {{badge}}
#
# You will
# - **build** stick-breaking attention three times: as a loop, in logs, and for a whole causal matrix,
# - **see** your own function break the stick while you move its logits,
# - **train** a small model that knows position from the order of asking alone, and test it beyond its training length.
#
# Time: about 40 minutes of yours, of which the computer works less than 3 on a CPU and 1 on a GPU. The
# chapter *Stick-breaking* has the derivation.

# %% tags=["install"]
# {{install}}

# %%
import math
import os
import textwrap

import matplotlib.pyplot as plt
import torch
from IPython.display import display
from ipywidgets import FloatSlider, IntSlider

import posenc
from posenc.lab.check import check, student_seed
from posenc.lab.experiments import load_results, verdict
from posenc.lab.experiments.plots import plot_short_long
from posenc.lab.explore import interact
from posenc.lab.train import pick_device, sample, settings_for, train
from posenc.lab.train.measures import short_long
from posenc.lab.train.tasks import load_corpus

preset = os.environ.get("POSENC_PRESET", "lab")
print("device:", pick_device())
print("preset:", preset)
seed = student_seed()  # 0, unless your teacher gave you one: %env POSENC_SEED=17 in a cell above
print("seed:", seed)
stickbreaking = posenc.make("stickbreaking")
posenc.explain_impl(stickbreaking)

# %% [markdown]
# ## 1. The stick
#
# A query owns a stick of length 1 and asks its keys one after the other, the most recent first. Key $j$ bites off the
# fraction $\beta_j = \sigma(z_j)$ of what reaches it:
#
# $$ A_j = \beta_j \prod_{k > j} (1 - \beta_k) $$
#
# **Exercise 1.** `logits` holds one number a key, the oldest first and the most recent last. Return the pieces in the
# same order. A plain loop is right here; keep the rest of the stick in a variable.

# %%
# {{exercise stick}}

# %% [markdown]
# Two keys match equally well. Which one gets more? Say it before you run the cell.

# %%
z = torch.tensor([2.0, -3.0, -3.0, 2.0, -3.0])
print("stick  ", [round(a, 3) for a in stick(z).tolist()])
print("softmax", [round(a, 3) for a in torch.softmax(z, dim=0).tolist()])

# %% [markdown]
# ## 2. In logs
#
# A product of hundreds of factors below one underflows. With $\log(1 - \sigma(z)) = -\mathrm{softplus}(z)$ and
# $\log\sigma(z) = z - \mathrm{softplus}(z)$ the weight becomes a sum:
#
# $$ \log A_j = z_j - \sum_{k \ge j} \mathrm{softplus}(z_k) $$
#
# **Exercise 2.** Return $\log A$ for a whole row, without a loop, and without forming a product. You need
# `torch.nn.functional.softplus`, `flip` and `cumsum` along the last dimension.

# %%
# {{exercise log_weights}}

# %%
loud = torch.full((400,), 3.0)
print("the oldest of 400 loud keys, loop:", stick(loud)[0].item(), " in logs:", round(log_weights(loud)[0].item(), 1))

# %% [markdown]
# ## 3. A causal matrix, and what is left
#
# **Exercise 3.** `scores` is $[\dots, T, T]$. Query $i$ asks the keys $i-1, i-2, \dots, 0$: *strictly* past, not
# itself. Return the weights and the remainder $\rho_i = \prod_{k<i}(1 - \beta_{ik})$. A key that a query may not see must
# neither take a piece nor break the stick. Row 0 asks nobody: weights exactly 0, remainder 1.
#
# Hint: `torch.ones(T, T, dtype=torch.bool).tril(-1)` is the strict past, and `masked_fill` puts a number where you say.

# %%
# {{exercise weigh}}

# %% [markdown]
# ## 4. See it
#
# Your `log_weights` under your hand: a query with twelve keys, two of which match. Before you move anything: what does
# the *offset* do to the softmax?

# %% mystnb={"image": {"alt": "The stick cut by your code, piece by piece, at one position of the sliders."}}
MATCHES = (3, 8)


def broken(match, offset, temperature):
    """The stick that your function breaks, beside the softmax of the same logits."""
    z = torch.full((12,), -2.0)
    z[list(MATCHES)] = match
    z = z / temperature + offset
    rows = {"your stick": log_weights(z).exp(), "softmax": torch.softmax(z, dim=0)}
    fig, axes = plt.subplots(2, 1, figsize=(8, 3), sharex=True, layout="constrained")
    for ax, (name, weights) in zip(axes, rows.items()):
        colors = ["tab:orange" if j in MATCHES else "tab:blue" for j in range(12)]
        ax.bar(range(12), weights, color=colors, hatch=["//" if j in MATCHES else "" for j in range(12)])
        ax.set(ylim=(0, 1), title=f"{name}: sum {weights.sum():.3f}")
    axes[1].set(xlabel="key (the most recent is 11; hatched: the two matches)", xticks=range(12))
    plt.show()


interact(
    broken,
    match=FloatSlider(2.0, min=-4, max=8, step=0.5, continuous_update=False),
    offset=FloatSlider(0.0, min=-6, max=6, step=0.5, continuous_update=False),
    temperature=FloatSlider(1.0, min=0.25, max=4, step=0.25, continuous_update=False),
)
# %% [markdown]
# The chapter's figure, drawn by your function: what more keys do to the weight of a match.

# %%
from posenc.chapters.stickbreaking import figures


def mine(z, visible, order, return_remainder):
    """Your log_weights in the form that the figure calls."""
    pieces = log_weights(z.masked_fill(~visible, -math.inf)).exp()
    return pieces, 1 - pieces.sum(-1)


display(figures.dilution.with_function(weigh=mine))

# %% [markdown]
# How far does a head look back? Your `weigh` on equal logits: the mean distance, and what is left.


# %%
def reach(offset, length):
    weights, rest = weigh(torch.full((length, length), float(offset)))
    last = weights[-1]
    distance = torch.arange(length - 1, -1, -1)
    mean = (last * distance).sum() / last.sum()
    print(f"nearest key {last[-2]:.3f}, mean distance {mean:.1f}, left over {rest[-1]:.3f}")


interact(
    reach,
    offset=FloatSlider(0.0, min=-8, max=4, step=0.5, continuous_update=False),
    length=IntSlider(256, min=16, max=512, step=16, continuous_update=False),
)
# %% [markdown]
# ## 5. The kernel
#
# Your `weigh` holds a matrix of $T \times T$ weights. The Triton kernel holds one block of it at a time and carries the log of the
# rest from block to block. Is it the same stick? And its gradients? *From formula to kernel* has its code.

# %%
from posenc.lab.check.trial import against


def mine(q, k, v):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    return weigh(scores.float())[0].to(v.dtype) @ v


_ = against(mine, posenc.make("stickbreaking"))

# %% [markdown]
# ## 6. Train
#
# Two small models with the same start and the same batches. **NoPE** has no position; only the causal mask tells it
# anything about order. **Stick-breaking** has no position either, and knows order from the way it asks. Both train on
# short windows and are tested on longer ones, on the same target characters.
#
# Predict before you run: which one has the lower loss at the training length, and which one rises beyond it?

# %% mystnb={"image": {"alt": "Loss against training step, one curve a model."}}
settings = settings_for(preset)
models, histories, own = {}, {}, {}
for method in ("nope", "stickbreaking"):
    models[method], histories[method] = train(method, preset=preset, seed=seed, live=True)
    own[f"{method}, mine"] = short_long(models[method], settings)
    seconds, device = histories[method]["seconds"], histories[method]["device"]
    print(f"{method}: last training loss {histories[method]['loss'][-1]:.3f}, {seconds:.0f} s on {device}")

# %% [markdown]
# *whole*: all the context. *cut*: the same model with its attention cut to the training window. Where the two agree, what
# is far away is not used, and a flat curve means "ignores", not "extrapolates".

# %%
print("context, characters       ", *[f"{n:7d}" for n in settings.lengths])
for name, losses in own.items():
    for kind in ("whole", "cut"):
        print(f"{name:20} {kind:5}", *[f"{value:7.3f}" for value in losses[kind]])

# %%
print(sample(models["stickbreaking"], prompt="The ", length=200))

# %% [markdown]
# How far do the trained heads look? Each gets one number: the mean distance of what it attends to, over a held-out
# text. Compare it with the training window: it explains why *whole* and *cut* agree as they do.


# %%
@torch.no_grad()
def looks_back(model, length):
    """Mean attended distance and mean weight in all, for each layer and head."""
    tokens = load_corpus().held_out[None, :length].to(pick_device())
    x = model.embedding(tokens) * model.dim**0.5
    positions = torch.arange(length, device=x.device)
    distance = positions[:, None] - positions[None, :]
    for number, block in enumerate(model.blocks):
        _, weights = block.attention(block.norm_attention(x), return_weights=True)  # [1, H, T, T]
        total = weights.sum((0, 2, 3))
        mean = (weights * distance).sum((0, 2, 3)) / total
        print(f"layer {number}: distance {[round(d, 1) for d in mean.tolist()]}", end=", ")
        print(f"weight a query {[round(w, 2) for w in (total / length).tolist()]}")
        x = block(x, positions)


looks_back(models["stickbreaking"], settings.lengths[-1])

# %% [markdown]
# Now beside the frozen results, five seeds of a longer training. Yours trained for fewer steps, so expect it higher.
# (At preset `nano`, which the book's own copy of this lab runs, the windows are shorter and yours is left out.)

# %% mystnb={"image": {"alt": "Loss on the same targets against context length, the frozen results with error bars, solid for the whole context and dashed with attention cut."}}
results = load_results("train_short_test_long")
print(textwrap.fill("Predicted: " + results["predictions"]["stickbreaking"], 100))
print(textwrap.fill("Verdict: " + verdict(results, "stickbreaking").words, 100))
same = settings.lengths == results["lengths"]  # other presets use other lengths: then not in one picture
plot_short_long(results, methods=["nope", "stickbreaking"], highlight="stickbreaking", own=own if same else None)

# %% [markdown]
# ## 7. Exercises
#
# **Exercise 4** (the gradient). Derive how each weight of a row moves with each logit,
# $G_{jk} = \partial A_j / \partial z_k$, and write it down without autograd: a key's own logit raises its share, the logit of a key
# asked before lowers it, the logit of a key behind does nothing.

# %%
# {{exercise jacobian}}

# %% [markdown]
# **Exercise 5** (on paper). The chapter's exercises *A geometric memory* and *Any weights you like*. Write your answers
# here.

# %% [markdown] nbgrader={"grade": true, "grade_id": "paper", "locked": false, "points": 4, "schema_version": 3, "solution": true, "task": false}
# All bites equal $\beta$: $A_{ij} = \beta(1-\beta)^{d-1}$ at distance $d$, mean distance $1/\beta$; half of the stick is
# gone after $\ln 2 / -\ln(1-\beta)$ keys; ALiBi needs the slope $-\ln(1-\beta)$.
#
# Any weights: $\beta_j = a_j / (1 - \sum_{k>j} a_k)$ and $z_j = \log \beta_j - \log(1-\beta_j)$. A softmax leaves
# nothing, so its oldest key has $\beta_0 = 1$, the logit $+\infty$.

# %% [markdown]
# **Exercise 6** (open). *Learn to look far.* A new head bites half of everything and looks two tokens back. Give all logits
# a negative start by composing stick-breaking with a constant bias, and train. Does the reach at the start change the loss
# at the end? Write your prediction down, then set `PREDICTED`. Try other offsets, and more than one seed before you believe a
# difference. To hold yours against the book's trained models: `posenc.lab.experiments.compare(make_encoding, "needle").figure()`, about a minute a seed.

# %%
OFFSET = -4.0
PREDICTED = False  # True once your prediction is written down


def far_sighted(layer):
    constant = posenc.Encoding(bias=lambda q, k, at: torch.full((1, 1, 1, 1), OFFSET, device=q.device))
    return posenc.compose(constant, posenc.make("stickbreaking"))


if PREDICTED:
    model, history = train(far_sighted, preset=preset, seed=seed)
    for name, run in ((f"offset {OFFSET:+g}", history), ("offset 0", histories["stickbreaking"])):
        tail = run["loss"][-20:]
        print(f"{name}: mean training loss of the last {len(tail)} steps {sum(tail) / len(tail):.3f}")
