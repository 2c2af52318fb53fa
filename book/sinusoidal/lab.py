# %% [markdown]
# # Lab: Sinusoidal encoding
#
# {{badge}}
#
# You will
# - **build** the table of sines, the one rotation that moves it, and the first layer that adds it at the right volume,
# - **see** your own ladder of clocks while you turn its screws,
# - **train** a small model with it and without it, and test both beyond their training length.
#
# Time: about 35 minutes of yours, of which the computer works less than 3 on a CPU and 1 on a GPU. The chapter
# *Sinusoidal encoding* has the derivation.

# %% tags=["install"]
# {{install}}

# %%
import math
import os

import matplotlib.pyplot as plt
import torch
from IPython.display import display
from ipywidgets import IntSlider, SelectionSlider

import posenc
from posenc.lab.check import check, student_seed
from posenc.lab.experiments import load_results, verdict
from posenc.lab.experiments.plots import plot_short_long
from posenc.lab.explore import interact
from posenc.lab.train import pick_device, sample, settings_for, train
from posenc.lab.train.measures import short_long

preset = os.environ.get("POSENC_PRESET", "lab")
print("device:", pick_device())
print("preset:", preset)
seed = student_seed()  # 0, unless your teacher gave you one: %env POSENC_SEED=17 in a cell above
print("seed:", seed)
posenc.explain_impl(posenc.make("sinusoidal"))

# %% [markdown]
# ## 1. The table
#
# Clock $i$ turns by $\omega_i = b^{-2i/C}$ radians a token, and its hand stands in lanes $2i$ and $2i+1$ of $p_m$, the code of position $m$:
#
# $$ (p_m)_{2i} = \sin m\omega_i, \qquad (p_m)_{2i+1} = \cos m\omega_i, \qquad i = 0, \dots, C/2 - 1 $$
#
# **Exercise 1.** `positions` is a tensor of any shape, `[T]` or `[B, T]`, whole numbers or not. Return one row of
# `dim` numbers for each. Hint: `positions[..., None] * frequencies` makes all angles at once; `torch.stack` and
# `flatten` put each sine beside its cosine.

# %%
# {{exercise table}}

# %% [markdown]
# How long is one turn of each clock? Guess the last number before you run the cell. (Is it $2\pi \cdot 10000$?)

# %%
dim = 512
first, *_, last = (2 * math.pi * 10000 ** (2 * i / dim) for i in range(dim // 2))
print(f"first clock {first:.2f} tokens a turn, last clock {last:,.0f}, and 2 pi b is {2 * math.pi * 10000:,.0f}")

# %% [markdown]
# ## 2. One rotation
#
# In code the codes are rows, so a matrix stands on their right. The theorem says that one matrix moves them all:
#
# $$ p_{m+t}^\top = p_m^\top R(t) \quad \text{for every } m. $$
#
# **Exercise 2.** Build $R(t)$, of shape `[dim, dim]`: zeros, but for a 2 by 2 block for each clock. Which of the two sines
# carries the minus? Work it out for one clock on paper: $(\sin\alpha, \cos\alpha)$ times the block must give
# $(\sin(\alpha + t\omega_i), \cos(\alpha + t\omega_i))$.


# %% nbgrader={"grade": false, "grade_id": "rotation", "locked": false, "schema_version": 3, "solution": true, "task": false}
def rotation(offset, dim, base=10000.0):
    """R(t) for t = offset: [dim, dim], with table(m + t) = table(m) @ R(t)."""
    ### BEGIN SOLUTION
    matrix = torch.zeros(dim, dim)
    for i in range(dim // 2):
        angle = offset * base ** (-2 * i / dim)
        cos, sin = math.cos(angle), math.sin(angle)
        matrix[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor([[cos, -sin], [sin, cos]])
    return matrix
    ### END SOLUTION


# %%
rotation = check("sinusoidal.rotation", rotation)

# %% [markdown]
# The gift of the theorem: put $W = R(-3)$ between query and key, and every position scores highest with the one three
# back. Then put a random matrix there, and the same pair of offsets scores differently at every place.

# %%
code = table(torch.arange(100), 64)
scores = code @ rotation(-3, 64) @ code.T
print("queries 3 to 9 look at", scores.argmax(-1)[3:10].tolist())
W = torch.randn(64, 64, generator=torch.Generator().manual_seed(0)) / 8
for name, matrix in (("R(-3)", rotation(-3, 64)), ("random", W)):
    shifted = [(code[5 + s] @ matrix @ code[2 + s]).item() for s in (0, 1, 10, 50)]
    print(f"{name:6} score of the pair (5, 2), shifted by 0, 1, 10, 50:", [round(s, 2) for s in shifted])

# %% [markdown]
# ## 3. The volume
#
# The first layer of the original transformer multiplies the embeddings by $\sqrt{C}$ and adds the table:
#
# $$ \sqrt{C}\, x_m + p_m $$
#
# **Exercise 3.** `ids` is `[B, T]`, `weight` is `[V, C]`, and $x_m$ is its row for the token at position $m$. Return `[B, T, C]`.

# %%
# {{exercise embed}}

# %% [markdown]
# $\sqrt{C}$ belongs with weights of variance $1/C$. PyTorch's `nn.Embedding` starts at variance 1. One sentence of the
# same token forty times: how alike do its first and its last vector come out? Predict both numbers.

# %%
ids = torch.zeros(1, 40, dtype=torch.long)
for name, std in (("variance 1/C", 512**-0.5), ("variance 1  ", 1.0)):
    x = embed(ids, std * torch.randn(1, 512, generator=torch.Generator().manual_seed(0)))[0]
    print(f"{name}: cosine of the first and the last vector {torch.cosine_similarity(x[0], x[-1], dim=0):.4f}")

# %% [markdown]
# ## 4. See it
#
# Your `table` under your hand. Before you move anything: which lanes keep their stripes when only the base changes?

# %% mystnb={"image": {"alt": "Your table as a heat map beside its wavelengths, at one position of the sliders."}}
bases = SelectionSlider(
    options=[10.0, 100.0, 1e3, 1e4, 1e5, 1e6], value=1e4, description="base", continuous_update=False
)


def ladder(dim, base, context):
    """Your table as a picture, and the wavelengths of its clocks."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.2), layout="constrained")
    left.imshow(table(torch.arange(context), dim, base), aspect="auto", cmap="RdBu", vmin=-1, vmax=1)
    left.set(xlabel="lane", ylabel="position", title="your table")
    turns = [2 * math.pi * base ** (2 * i / dim) for i in range(dim // 2)]
    right.semilogy(range(dim // 2), turns, "o")
    right.axhline(context, color="0.4", ls="--")
    right.set(xlabel="clock i", ylabel="wavelength", ylim=(1, 1e7))
    right.set_title(f"{sum(t <= context for t in turns)} of {dim // 2} clocks turn fully in {context} tokens")
    plt.show()


interact(
    ladder,
    dim=IntSlider(32, min=4, max=96, step=4, continuous_update=False),
    base=bases,
    context=IntSlider(64, min=16, max=512, step=16, continuous_update=False),
)


# %% mystnb={"image": {"alt": "Inner products of your table against offset, at one position of the sliders."}}
def by_offset(back, m, base):
    """Scores of the code at position 0, and at m, moved by `back`, with the codes around it."""
    offset = torch.arange(-40, 41)
    fig, ax = plt.subplots(figsize=(8, 3), layout="constrained")
    for start, style in ((0, "-"), (m, "--")):
        row = table(torch.tensor([start]), 64, base) @ rotation(-back, 64, base)
        score = table(start + offset, 64, base) @ row[0] / 32
        ax.plot(offset, score, style, lw=5 if start == 0 else 2, label=f"from {start}")
    ax.set(xlabel="offset, tokens", ylabel="score over C/2", ylim=(-1.1, 1.1))
    ax.legend()
    plt.show()


interact(
    by_offset,
    back=IntSlider(0, min=0, max=30, continuous_update=False),
    m=IntSlider(20, min=1, max=300, continuous_update=False),
    base=bases,
)

# %% [markdown]
# The chapter's figure, its hands moved by your table: one clock, one rotation.

# %%
from posenc.chapters.sinusoidal import figures

display(figures.one_rotation.with_function(table=table))

# %% [markdown]
# ## 5. The kernel
#
# The sinusoid is added before attention begins, so no kernel ever sees a position: the one that serves it is that of plain attention.
# Here tokens with *your* table added go through a textbook softmax, and through the Triton kernel that never holds more than one block
# of the scores. *From formula to kernel* has its code.

# %%
from posenc.lab.check.trial import against, causal_softmax

_ = against(
    causal_softmax, posenc.make("sinusoidal"), embed=lambda x: x + table(torch.arange(x.shape[-2]), x.shape[-1])
)

# %% [markdown]
# ## 6. Train
#
# Two small models with the same start and the same batches. **NoPE** has no position; only the causal mask tells it
# anything about order. **Sinusoidal** adds the table to its embeddings, at the right volume. Both train on short windows
# and are tested on longer ones, on the same target characters.
#
# Predict before you run: which one has the lower loss at the training length? What does each do at twice that?

# %% mystnb={"image": {"alt": "Loss against training step, one curve a model."}}
settings = settings_for(preset)
models, histories, own = {}, {}, {}
for method in ("nope", "sinusoidal"):
    models[method], history = train(method, preset=preset, seed=seed, live=True)
    histories[method], own[f"{method}, mine"] = history, short_long(models[method], settings)
    print(f"{method}: last training loss {history['loss'][-1]:.3f}, {history['seconds']:.0f} s on {history['device']}")

# %% [markdown]
# *whole*: all the context. *cut*: the same model at the same positions, its attention cut to the training window. If the
# cut does not help, it is not the number of keys that hurts.

# %%
print("context, characters       ", *[f"{n:7d}" for n in settings.lengths])
for name, losses in own.items():
    for kind in ("whole", "cut"):
        print(f"{name:20} {kind:5}", *[f"{value:7.3f}" for value in losses[kind]])

# %% [markdown]
# Now the shortest test of all. Same windows of the training length, same characters, no extra context; but the model is
# told that the window starts at position `start`. A relative method would not notice. Predict both rows.

# %%
from posenc.lab.train.measures import held_out_windows, target_losses
from posenc.lab.train.tasks import load_corpus

windows = held_out_windows(load_corpus().held_out, settings)[:, -(settings.length + 1) :]
print("window starts at ", *[f"{start:7d}" for start in (0, 1, 8, 64, 512)])
for method, model in models.items():
    place = torch.arange(settings.length, device=pick_device())
    moved = [target_losses(model, windows, positions=place + start) for start in (0, 1, 8, 64, 512)]
    print(f"{method:17}", *[f"{loss[:, -settings.targets :].mean():7.3f}" for loss in moved])

# %% [markdown]
# The model writes 200 characters from "The ", once at positions that grow past what it has seen, once with its window
# kept at the training length. Where does the first one lose the thread?

# %%
for name, window in (("growing", None), ("window kept", settings.length)):
    print(f"--- {name}")
    print(sample(models["sinusoidal"], prompt="The ", length=200, window=window))

# %% [markdown]
# Now beside the frozen results, five seeds of a longer training. Yours trained for fewer steps, so expect it higher.
# (At preset `nano`, which the book's own copy of this lab runs, the windows are shorter and yours is left out.)

# %% mystnb={"image": {"alt": "Loss on the same targets against context length, the frozen results with error bars, solid for the whole context and dashed with attention cut."}}
results = load_results("train_short_test_long")
print("Predicted:", results["predictions"]["sinusoidal"])
print("Verdict:  ", verdict(results, "sinusoidal").words)
same = settings.lengths == results["lengths"]  # other presets use other lengths: then not in one picture
plot_short_long(results, methods=["nope", "sinusoidal"], highlight="sinusoidal", own=own if same else None)

# %% [markdown]
# ## 7. Exercises
#
# **Exercise 4** (in code). The score of query $m$ and key $n$ has four terms:
#
# $$ (x_m + p_m)^\top W (x_n + p_n) = x_m^\top W x_n + x_m^\top W p_n + p_m^\top W x_n + p_m^\top W p_n $$
#
# `x` is `[T, C]`, `W` is `[C, C]`, `positions` is `[T]`. Return all four, in this order, as `[4, T, T]`.

# %%
# {{exercise terms}}

# %% [markdown]
# Shift all positions by 10. Which of the four terms stay, with the identity for $W$, and with a random $W$?

# %%
x = torch.randn(6, 64, generator=torch.Generator().manual_seed(1))
names = ("content, content", "content, position", "position, content", "position, position")
for label, matrix in (("identity", torch.eye(64)), ("random", W)):
    change = (terms(x, matrix, torch.arange(6) + 10) - terms(x, matrix, torch.arange(6))).abs().amax((1, 2))
    print(label, {name: round(value, 3) for name, value in zip(names, change.tolist())})

# %% [markdown]
# **Exercise 5** (on paper). The chapter's exercises *Rotations compose*, *A sign that does no harm* and *Which matrices
# keep it relative*. Write your answers here.

# %% [markdown] nbgrader={"grade": true, "grade_id": "paper", "locked": false, "points": 4, "schema_version": 3, "solution": true, "task": false}
# Rotations compose: each block is a rotation by $t\omega_i$, angles add, the transpose turns back. Hence
# $p_m^\top p_{m+t} = p_0^\top R(m)\, R(-m-t)\, p_0 = p_0^\top R(-t)\, p_0$.
#
# The sign: all four survive, with $R(-t)$ in place of $R(t)$. It hurts where weights trained with the other sign are loaded.
#
# Relative for $C = 2$: $W = \begin{pmatrix} a & b \\ -b & a \end{pmatrix}$; in general one such block for each clock, $C$ free
# numbers of $C^2$.

# %% [markdown]
# **Exercise 6** (open). *How loud?* Train with the encoding at several volumes. Before you start, write down at which volume
# you expect it to be as good as none; embeddings of variance 1 times $\sqrt{C}$ correspond to `VOLUME = dim ** -0.5`.
# Run more than one seed before you believe a difference. Then do the same with `base`.

# %%
VOLUME, BASE = 0.1, 10000.0


def at_volume(layer):
    return posenc.make("sinusoidal", base=BASE, volume=VOLUME)


_, histories[f"volume {VOLUME:g}, base {BASE:g}"] = train(at_volume, preset=preset, seed=seed, progress=False)
for name, history in histories.items():
    tail = history["loss"][-20:]
    print(f"{name}: mean loss of the last {len(tail)} steps {sum(tail) / len(tail):.3f}")
