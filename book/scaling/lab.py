# %% [markdown]
# # Lab: Longer than trained
#
# {{badge}}
#
# You will
# - **operate** on a trained model and find out which pairs of lanes break it beyond its training length,
# - **build** linear scaling, NTK scaling and YaRN yourself,
# - **run** the model at eight times its length under each of them, without and with a short fine-tuning.
#
# Time: about 40 minutes of yours, of which the computer works less than 3 on a CPU and 1 on a GPU. The chapter *Longer than trained*
# has the derivations.

# %% tags=["install"]
# {{install}}

# %%
import copy
import math
import os

import matplotlib.pyplot as plt
import torch
from IPython.display import display
from ipywidgets import Dropdown, IntSlider, SelectionSlider
from torch.nn.functional import cross_entropy

import posenc
from posenc.lab.check import check, student_seed
from posenc.lab.experiments import load_results
from posenc.lab.explore import interact
from posenc.lab.train import pick_device, settings_for, train
from posenc.lab.train.measures import held_out_windows, target_losses
from posenc.lab.train.tasks import TASKS, load_corpus
from posenc.rotate.rope import inv_freq, rope

preset = os.environ.get("POSENC_PRESET", "lab")
print("device:", pick_device())
print("preset:", preset)
seed = student_seed()  # 0, unless your teacher gave you one: %env POSENC_SEED=17 in a cell above
print("seed:", seed)

# %% [markdown]
# ## 1. A model, and where it fails
#
# A small model with plain RoPE, trained on short windows. Then its loss on the same target characters as the context grows: *whole*, and
# *cut*, with each query limited to as many keys as in training. Say first at which length the two part.

# %% mystnb={"image": {"alt": "Loss against training step."}}
settings = settings_for(preset)
L, lengths = settings.length, settings.lengths
head_dim = settings.dim // settings.num_heads
model, history = train("rope", preset=preset, seed=seed, live=True)
windows = held_out_windows(load_corpus().held_out, settings)[:: 2 if preset != "nano" else 4]


def loss_at(model, length, cut=None):
    """Loss on the target characters with `length` characters of context."""
    return target_losses(model, windows[:, -(length + 1) :], cut=cut)[:, -settings.targets :].mean().item()


print("context", *[f"{n:6d}" for n in lengths])
print("whole  ", *[f"{loss_at(model, n):6.3f}" for n in lengths])
print("cut    ", *[f"{loss_at(model, n, cut=L):6.3f}" for n in lengths])

# %% [markdown]
# How often did each pair of lanes turn in training? Pairs below one turn are *open*: they have not seen their whole circle.

# %%
w = inv_freq(head_dim)
turns = L * w / (2 * math.pi)
print("turns in training:", *[f"{r:.2g}" for r in turns])
print(f"open: {int((turns < 1).sum())} of {len(turns)} pairs")

# %% [markdown]
# ## 2. Surgery
#
# At distance $d$ pair $i$ has turned by $d\,\omega_i$. Training showed distances up to $L - 1$. For surgery, some pairs *stop*: up to $L - 1$ they turn as
# ever; at all greater distances they keep the angle that they have at $L - 1$.
#
# **Exercise 1.** `distance` has any shape `[...]`, `inv_freq` is `[D/2]`, `stopped` is `[D/2]`, true or false. Return the angles `[..., D/2]`. Hints:
# `distance.clamp(max=...)`, `torch.where`, and `[..., None]` for one more axis.

# %%
# {{exercise frozen_angles}}

# %% [markdown]
# Now inside the model, in every layer. A rotation of $q$ and $k$ cannot cap distances, so the score is written out as a sum over pairs:
# $\cos$ and $\sin$ of *your* angles, times what content makes of them. It is put in as a bias that adds the wanted score and takes the plain product away.
#
# Guess both columns before you run: what does stopping the open pairs do, and what does stopping the others?


# %%
def with_encoding(model, encoding):
    """A copy of the model with one encoding in every layer."""
    model = copy.deepcopy(model)
    for block in model.blocks:
        block.attention.encoding = encoding
    return model


def surgery(stopped):
    """An encoding with RoPE's scores, but for your angles."""

    def bias(q, k, at):
        angles = frozen_angles(
            (at.pos_q[0, :, None] - at.pos_k[0, None, :]).clamp(min=0), w.to(q), stopped.to(q.device), L
        )
        cos, sin = angles.cos(), angles.sin()  # [T, T, D/2]
        wanted = 0
        for i in range(len(w)):
            (qa, qb), (ka, kb) = ((x[..., 2 * i, None], x[..., 2 * i + 1, None]) for x in (q, k))
            same, across = qa @ ka.mT + qb @ kb.mT, qa @ kb.mT - qb @ ka.mT
            wanted = wanted + cos[..., i] * same + sin[..., i] * across
        return (wanted - q @ k.mT) / math.sqrt(q.shape[-1])

    return posenc.Encoding(bias=bias)


fast = turns >= 1
print(f"loss at {lengths[-1]}")
for name, stopped in {"none": fast & ~fast, "the open pairs": ~fast, "the others": fast, "all": fast | ~fast}.items():
    print(f"stopped: {name:15s} {loss_at(with_encoding(model, surgery(stopped)), lengths[-1]):.3f}")

# %% [markdown]
# The frozen results have the same with more training and several seeds, for every number of stopped pairs. Where does the blue line stop falling, and how many
# pairs are open there?

# %% mystnb={"image": {"alt": "Frozen results: loss beyond the training length against the number of pairs stopped, from the slow end and from the fast end."}}
frozen = load_results("rope_surgery")
beyond = torch.tensor(frozen["until"]) >= frozen["lengths"][0]
fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
for kind in ("slow", "fast"):
    by_seed = torch.tensor(frozen["stopped"][kind])[..., beyond].mean(-1)  # [seeds, cutoffs]
    ax.errorbar(frozen["cutoffs"], by_seed.mean(0), by_seed.std(0), marker="o", capsize=2, label=f"from the {kind} end")
ax.set(xlabel="pairs stopped", ylabel="loss beyond the trained length")
ax.legend()
plt.show()

# %% [markdown]
# ## 3. Linear scaling
#
# **Exercise 2.** All frequencies $b^{-2i/D}$, divided by the factor $s$. Return `[dim/2]`, the fastest first.

# %%
# {{exercise linear}}

# %% [markdown]
# ## 4. NTK scaling
#
# **Exercise 3.** Raise the base instead, so that the first frequency stays and the *last* one is divided by exactly $s$. You need an exponent; derive it, or take it from the
# chapter.

# %%
# {{exercise ntk}}

# %% [markdown]
# ## 5. YaRN, in three steps
#
# A pair that turned often in training is kept, a pair that did not finish a turn is divided by $s$, and a ramp joins them. The released code makes the ramp linear in the *number
# of the pair*. Its ends are the pairs that turn $\beta = 32$ times and $\alpha = 1$ time.
#
# **Exercise 4.** Which pair turns `turns` times within `trained` tokens? Solve $\text{trained} \cdot b^{-2i/D} / 2\pi = \text{turns}$ for $i$. Return a number, with its fraction.

# %%
# {{exercise pair_of_turns}}

# %% [markdown]
# **Exercise 5.** The part of each frequency that is *kept*, `[dim/2]`: 1 up to the pair that turns `beta` times, 0 from the pair that turns `alpha` times, linear in $i$ between them.
# Round the ends outwards (`math.floor`, `math.ceil`) and keep them between 0 and `dim - 1`.

# %%
# {{exercise ramp}}

# %% [markdown]
# **Exercise 6.** Now the whole: what is kept stays, the rest of each frequency is divided by `factor`. And the temperature, $0.1 \ln s + 1$, as the second value that
# you return. Use $\alpha = 1$ and $\beta = 32$.

# %%
# {{exercise yarn}}

# %% [markdown]
# ## 6. See it
#
# Your three schemes under your hand. Above, what each divides every pair by; below, the largest angle at the target length, over the largest that training showed: above 1 is unseen, unless
# the pair went all the way around (hollow). For which length does YaRN's ramp fall back to pair 0?


# %% mystnb={"image": {"alt": "Divisors of each pair under your three schemes, and the largest angles at the target length, at one position of the sliders."}}
def divisors(dim, factor, trained, base):
    """What your schemes do to each pair."""
    plain = inv_freq(dim, base)
    mine = {
        "linear": linear(dim, factor, base),
        "NTK": ntk(dim, factor, base),
        "YaRN": yarn(dim, factor, trained, base)[0],
    }
    closed = trained * plain / (2 * math.pi) >= 1
    fig, (above, below) = plt.subplots(2, 1, figsize=(7, 5), layout="constrained", sharex=True)
    for (name, now), marker in zip(mine.items(), "s^D"):
        line = above.plot(plain / now, marker=marker, markersize=4, label=name)[0]
        largest, pairs = factor * now / plain, torch.arange(len(plain))
        below.plot(pairs, largest, color=line.get_color(), linewidth=0.8)
        below.plot(pairs[closed], largest[closed], marker, color=line.get_color(), fillstyle="none")
        below.plot(pairs[~closed], largest[~closed], marker, color=line.get_color())
    below.axhline(1, color="0.5", linestyle=":")
    above.set(ylabel="divided by", yscale="log", ylim=(0.9, 40))
    below.set(ylabel="largest angle over\nlargest in training", xlabel="pair, fast to slow", ylim=(0, factor + 0.5))
    above.legend()
    plt.show()


interact(
    divisors,
    dim=SelectionSlider(options=[24, 64, 128], value=128, continuous_update=False),
    factor=IntSlider(8, min=2, max=32, continuous_update=False),
    trained=SelectionSlider(options=[64, 512, 4096, 8192], value=4096, continuous_update=False),
    base=SelectionSlider(options=[1e4, 5e5], value=1e4, continuous_update=False),
)

# %% [markdown]
# A score of one query with itself, turned by your frequencies, against distance. Which scheme keeps the sharp peak at 0? Which one looks like the plain curve, stretched?


# %% mystnb={"image": {"alt": "Score of a vector with itself against distance, plain and under one of your schemes, at one position of the sliders."}}
def stretched(scheme, factor):
    """Mean cosine over pairs by distance, plain and scaled."""
    d, plain = torch.arange(256.0), inv_freq(64)
    now = {"linear": linear, "NTK": ntk}[scheme](64, factor, 1e4) if scheme != "YaRN" else yarn(64, factor, 256, 1e4)[0]
    fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
    for name, frequencies, style in (("plain", plain, "--"), (scheme, now, "-")):
        ax.plot(d, (d[:, None] * frequencies).cos().mean(-1), style, label=name)
    ax.set(xlabel="distance", ylabel="score of q = k")
    ax.legend()
    plt.show()


interact(
    stretched,
    scheme=Dropdown(options=["linear", "NTK", "YaRN"]),
    factor=IntSlider(8, min=2, max=16, continuous_update=False),
)

# %% [markdown]
# The chapter's temperature, whose $c$ is your $0.1$.

# %%
from posenc.chapters.scaling import figures

display(figures.temperature)

# %% [markdown]
# ## 7. The kernel
#
# There is none to write: the rotary kernel takes any frequencies and any factor. One line makes your YaRN an encoding, on a GPU too.

# %%
frequencies, factor = yarn(64, 8.0, 4096, 1e4)
_ = posenc.explain_impl(rope(64, inv_freq=frequencies, attention_factor=factor))

# %% [markdown]
# ## 8. At eight times the length
#
# The model of section 1, its weights untouched, under each scheme at each length. Predict: which of yours rises least? Does any of them end below the model with attention cut?


# %%
def scheme_at(name, factor):
    """The encoding of a scheme at `factor` times the trained length: yours, and two of posenc's."""
    one = 1.0
    frequencies, temperature = {
        "plain": lambda: (inv_freq(head_dim), one),
        "linear, mine": lambda: (linear(head_dim, factor, 1e4), one),
        "NTK, mine": lambda: (ntk(head_dim, factor, 1e4), one),
        "YaRN, mine": lambda: yarn(head_dim, factor, L, 1e4),
        "Llama 3.1": lambda: posenc.scaling.llama3(head_dim, factor, trained=L, base=1e4),
    }[name]()
    return rope(head_dim, inv_freq=frequencies, attention_factor=temperature)


names = ("plain", "linear, mine", "NTK, mine", "YaRN, mine", "Llama 3.1")
own = {}
print("context     ", *[f"{n:6d}" for n in lengths])
for name in names:
    own[name] = [loss_at(with_encoding(model, scheme_at(name, n / L)), n) for n in lengths]
    print(f"{name:12}", *[f"{value:6.3f}" for value in own[name]])

# %% [markdown]
# Now a short fine-tuning at the new length, for plain RoPE too: it meets the new angles there, so what remains of the difference is what the scheme is worth once you can train.

# %%
FINE_TUNING = history["settings"].steps // 5


def fine_tune(model, length, steps=FINE_TUNING):
    """Train a copy of the model a little more, with 1,024 characters a step, at another length."""
    model = copy.deepcopy(model).train()
    device = next(model.parameters()).device
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.01)
    draws = torch.Generator().manual_seed(1000 + seed)
    for step in range(steps):
        tokens, targets = TASKS["text"].batch(draws, 1024 // length, length)
        loss = cross_entropy(model(tokens.to(device)).flatten(0, 1), targets.to(device).flatten())
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * min(1.0, (step + 1) / 10) * (1 - step / steps)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


for name in ("plain", "YaRN, mine"):
    tuned = fine_tune(with_encoding(model, scheme_at(name, lengths[-1] / L)), lengths[-1])
    print(f"{name:12} at {lengths[-1]}: before {own[name][-1]:.3f}, after {loss_at(tuned, lengths[-1]):.3f}")

# %% [markdown]
# Beside the frozen results, several seeds of a longer training. Black is yours, where the lengths are the same (preset `lab`).

# %% mystnb={"image": {"alt": "Frozen results: loss against context length for plain RoPE, linear, NTK, YaRN and Llama 3.1 before fine-tuning."}}
frozen = load_results("scaling")
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for (name, arm), marker in zip(zip(names, ("plain", "linear", "ntk", "yarn", "llama3")), "os^Dv"):
    by_seed = torch.tensor(frozen["schemes"][arm]["text"]["before"]["whole"])  # [seeds, lengths]
    ax.errorbar(frozen["lengths"], by_seed.mean(0), by_seed.std(0), marker=marker, capsize=2, label=name.split(",")[0])
    if lengths == frozen["lengths"]:
        ax.plot(lengths, own[name], "k:", marker=marker)
ax.set_xscale("log", base=2)
ax.set_xticks(frozen["lengths"], [str(n) for n in frozen["lengths"]])
ax.set(xlabel="context, characters", ylabel="loss on the same targets")
ax.legend()
plt.show()
for arm in ("linear", "ntk", "yarn", "llama3"):
    print(f"{arm}: predicted: {frozen['predictions'][arm]}")

# %% [markdown]
# ## 9. Exercises
#
# **Exercise 7** (on paper). The chapter's exercises *Four divisors*, *Three bands*, *An s that is large enough* and *The spread behind 0.1*. Write your answers here.

# %% [markdown] nbgrader={"grade": true, "grade_id": "paper", "locked": false, "points": 4, "schema_version": 3, "solution": true, "task": false}
# Four divisors: $8^{2i/6}$, so $1, 2, 4, 8$; $b' = 10^4 \cdot 8^{8/6} = 160\,000$; for the second pair $\kappa^{2/8} = 8$, $b' = 10^4 \cdot 4096$.
#
# Three bands: pairs 0 to 28 turn more than 4 times and are kept, pairs 35 to 63 are divided by 8, six lie between. With $\beta = 32$ only pairs 0 to 18 are kept: ten more.
#
# An s that is large enough: pairs 46 to 62 meet new angles. Pair 46 sets the bound, $s^{92/126} = 8$, $s \approx 17.3$. Fast pairs are then slowed by more than with $s = 8$.
#
# The spread behind 0.1: $\sigma^2 = 5$, $\sigma \approx 2.2$; $n$ well above $e^{\sigma^2} \approx 150$; a factor for each head, $1 + \ln s/\sigma_h^2$, measured or learned.

# %% [markdown]
# **Exercise 8** (open). *A scheme of your own.* Divisors `[head_dim/2]` for eight times the length. What is below is a start: it slows open pairs alone, and all by the same. Say first
# what yours should do better and at which length it should show; then measure with more than one seed.


# %%
def my_divisors(factor):
    """What to divide each frequency by."""
    return torch.where(turns < 1, factor, 1.0)


def my_scheme(factor, temperature=1.0):
    return rope(head_dim, inv_freq=w / my_divisors(factor), attention_factor=temperature)


print("context     ", *[f"{n:6d}" for n in lengths])
print("yours       ", *[f"{loss_at(with_encoding(model, my_scheme(n / L)), n):6.3f}" for n in lengths])
print("YaRN        ", *[f"{value:6.3f}" for value in own["YaRN, mine"]])
