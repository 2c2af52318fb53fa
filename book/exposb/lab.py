# %% [markdown]
# # Lab: ExpoSB
# {{badge}}
#
# **You will** build three factors that a report proposes, measure which of its claims they keep, repair the one that
# does the opposite of what it says, and train models with both forms.
#
# **Time**: about 40 minutes. The machine computes for under three of them on a CPU, less on a GPU. The chapter *ExpoSB*
# of the book has the theory.

# %% tags=["install"]
# {{install}}

# %%
import math
import os

import matplotlib.pyplot as plt
import torch
from IPython.display import display
from ipywidgets import Dropdown, FloatSlider, IntSlider

import posenc
from posenc.lab.check import check, student_seed
from posenc.lab.explore import interact
from posenc.lab.train import pick_device, settings_for, train
from posenc.lab.train.measures import short_long
from posenc.several.exposb import fade

preset = os.environ.get("POSENC_PRESET", "lab")  # "nano" takes seconds, "study" is what the book shows
seed = student_seed()  # 0, unless your teacher gave you one: %env POSENC_SEED=17 in a cell above
print(f"device: {pick_device()}, preset: {preset}, seed: {seed}")
_ = posenc.explain_impl(posenc.exposb.exposb(64, 4))

# %% [markdown]
# ## Build it yourself
# ### Exercise 1: the band
# Lane $l$ of $D$ is multiplied by $c_l = 0.8 + 0.4\,e^{-(l - D/4)^2 / (2 (D/8)^2)}$, $l = 0, \dots, D - 1$. With `per_pair` both
# lanes of a pair $(2i, 2i + 1)$ get the factor of the middle between them, $l = 2i + \tfrac12$.
#
# Return a tensor `[D]` of float64.

# %%
# {{exercise lane_filter}}
print("by lane:", [f"{c:.3f}" for c in lane_filter(8, False).tolist()])
print("by pair:", [f"{c:.3f}" for c in lane_filter(8, True).tolist()])

# %% [markdown]
# Does your band keep scores relative? One query and one key, always 5 tokens apart, at many positions. **Predict** which of the
# two lines is flat.


# %% mystnb={"image": {"alt": "The score of one offset against the position of the key: with your filter by lane it wiggles, by pair it is flat."}}
def one_offset(head_dim, offset):
    """The score of one query and one key `offset` apart, at the positions 0 .. 200, with your band."""
    q, k = torch.randn(2, head_dim, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    at = torch.arange(201)
    frequencies = posenc.rope.inv_freq(head_dim, dtype=torch.float64)
    figure, axis = plt.subplots(figsize=(8, 3), layout="constrained")
    for per_pair, look in ((False, "-"), (True, "--")):
        c = lane_filter(head_dim, per_pair)
        turned_q = posenc.rope.rotate(q.expand(201, -1), at + offset, frequencies) * c
        turned_k = posenc.rope.rotate(k.expand(201, -1), at, frequencies) * c
        score = (turned_q * turned_k).sum(-1) / math.sqrt(head_dim)
        label = f"by {'pair' if per_pair else 'lane'}: moves by {(score.max() - score.min()).item():.2g}"
        axis.plot(at, score, look, label=label)
    axis.set(xlabel="position of the key", ylabel="score", title=f"offset {offset}, D = {head_dim}")
    axis.legend(loc="upper right")
    plt.show()


interact(
    one_offset,
    head_dim=Dropdown(options=[8, 16, 32, 64, 128], value=16, description="D"),
    offset=IntSlider(value=5, min=0, max=60, description="offset"),
)

# %% [markdown]
# ### Exercise 2: the fade, as the report has it
# Logits `[..., Tq, Tk]` are multiplied by $\varphi + (1 - \varphi)\,e^{-a \lvert d\rvert}$: `rate` is $a$, `floor` is $\varphi$, `distance` is
# $d$, query minus key, of any sign. Return logits.

# %%
# {{exercise fade_logits}}

# %% [markdown]
# **Predict**: eight keys with the same logit of $-3$. Which of them gets most of the weight, the nearest or the farthest? Then run.

# %%
distance = torch.tensor([700.0, 600, 500, 400, 300, 200, 100, 0])
for level in (3.0, -3.0):
    weights = fade_logits(torch.full((8,), level), distance, 0.005, 0.7).softmax(-1)
    print(f"all logits {level:+.0f}, farthest first:", [f"{w:.3f}" for w in weights.tolist()])

# %% [markdown]
# ### Exercise 3: repair it
# A factor on the *weight* of a key is a term in its *logit*: its logarithm. Write the form that adds it. Every key then loses by its
# distance, whatever its logit.

# %%
# {{exercise fade_log}}
for level in (3.0, -3.0):
    weights = fade_log(torch.full((8,), level), distance, 0.005, 0.7).softmax(-1)
    print(f"all logits {level:+.0f}, farthest first:", [f"{w:.3f}" for w in weights.tolist()])

# %% [markdown]
# ### Exercise 4: what the name promises
# One query walks from its nearest key, the *last* of the row, into the past. At key $j$ the walk meets the hazard
# $r_j = \operatorname{softplus}(z_j) + \lambda$: it ends there with probability $1 - e^{-r_j}$, if it has survived all nearer keys,
# which it does with probability $\exp(-\sum_{k > j} r_k)$. Return the weights `[K]` of a row of logits `[K]`.

# %%
# {{exercise hazard_weights}}
for rate in (0.0, 0.1, 1.0):
    weights = hazard_weights(torch.full((6,), -2.0), rate)
    print(f"rate {rate:3}, farthest first:", [f"{w:.3f}" for w in weights.tolist()], f"sum {weights.sum():.3f}")

# %% [markdown]
# ## See it
# Your functions on one row: content is noise around a level that softmax does not see. **Predict**: at which level do the two forms agree best
# in what they do to far keys? What does the hazard form do at a level of $-6$, with and without a rate?


# %% mystnb={"image": {"alt": "Weights of one query against distance: without a fade, with your fade on logits and on log, and with your hazards."}}
def draw(level, rate, floor, lam):
    """Weights of the last of 300 queries, averaged over windows of ten keys."""
    z = level + torch.randn(300, generator=torch.Generator().manual_seed(0))
    distance = torch.arange(299.0, -1, -1)
    rows = {
        "without": z.softmax(-1),
        "on logits": fade_logits(z, distance, rate, floor).softmax(-1),
        "on log": fade_log(z, distance, rate, floor).softmax(-1),
        "hazards": hazard_weights(z, lam),
    }
    figure, axis = plt.subplots(figsize=(8, 3.2), layout="constrained")
    for (name, weights), look in zip(rows.items(), ("k:", "-", "--", "-.")):
        label = f"{name}: nearest 30 hold {100 * weights[-30:].sum():.0f}%"
        axis.semilogy(distance.view(30, 10).mean(-1), weights.view(30, 10).mean(-1), look, label=label)
    axis.set(xlabel="distance of the key", ylabel="weight", ylim=(1e-6, 1), xlim=(300, -5))
    axis.legend(loc="lower left")
    plt.show()


interact(
    draw,
    level=FloatSlider(value=0, min=-6, max=6, step=1, description="level"),
    rate=FloatSlider(value=0.02, min=0, max=0.1, step=0.005, readout_format=".3f", description="rate"),
    floor=FloatSlider(value=0.3, min=0.1, max=1, step=0.1, description="floor"),
    lam=FloatSlider(value=0.02, min=0, max=0.2, step=0.01, description="lambda"),
)

# %% [markdown]
# The book's explorable, with your factor in it, taken from what your repaired form adds to a logit of zero:

# %%
from posenc.chapters.exposb.figures import fading


def mine(distance, rate=0.005, floor=0.7):
    return fade_log(torch.zeros_like(distance), distance, rate, floor).exp()


display(fading.with_function(fade=mine))

# %% [markdown]
# ## The kernel
# Your factor is a matrix of $T \times T$ numbers. The Triton kernel makes each of them from the distance of its pair, inside the loop. Are they the
# same? *From formula to kernel* has its code.

# %%
from posenc.lab.check.trial import against

TURN = posenc.rope.inv_freq(64)


def my_attention(q, k, v):
    at = torch.arange(q.shape[-2], device=q.device)
    q, k = posenc.rope.rotate(q, at, TURN), posenc.rope.rotate(k, at, TURN)
    scores = (q @ k.transpose(-2, -1)).float() / math.sqrt(q.shape[-1])
    faded = fade_logits(scores, (at[:, None] - at[None, :]).float(), 0.005, 0.7)
    return faded.masked_fill(at[:, None] < at[None, :], -math.inf).softmax(-1).to(v.dtype) @ v


_ = against(my_attention, posenc.exposb.exposb(64, 4, gain=False, band=False))

# %% [markdown]
# ## Train
# Three small models over the same rotation: RoPE alone, *your* fade on logits, and *your* repaired form, both with a much steeper rate than the
# report's, so that the window of the training feels it. **Predict**: which has the lowest loss at the training length? Which one rises least on longer text?


# %% mystnb={"image": {"alt": "Loss against training step, one curve a model."}}
RATE, FLOOR = 0.1, 0.2


class OnLogits(torch.nn.Module):
    """What stands at the place `weigh`: called with the scaled scores and the positions."""

    def forward(self, scores, at):
        distance = (at.pos_q[0, :, None] - at.pos_k[0, None, :]).float()
        return posenc.encoding.softmax(fade_logits(scores, distance, RATE, FLOOR), at)


class OnLog(torch.nn.Module):
    """What stands at the place `bias`."""

    def forward(self, q, k, at):
        distance = (at.pos_q[0, :, None] - at.pos_k[0, None, :]).float()
        return fade_log(torch.zeros_like(distance), distance, RATE, FLOOR)


settings = settings_for(preset)
steps = 100 if preset == "nano" else settings.steps
turn = posenc.make("rope", head_dim=settings.dim // settings.num_heads)
encodings = {
    "RoPE": "rope",
    "my fade on logits": lambda layer: posenc.compose(turn, posenc.Encoding(weigh=OnLogits())),
    "my fade on log": lambda layer: posenc.compose(turn, posenc.Encoding(bias=OnLog())),
}
models = {}
for name, encoding in encodings.items():
    models[name], history = train(encoding, preset, seed, steps=steps, live=True)
    print(f"{name}: final loss {sum(history['loss'][-10:]) / 10:.3f} nats per character")

# %%
losses = {name: short_long(model, settings) for name, model in models.items()}
print("characters of context      " + "".join(f"{length:>9}" for length in settings.lengths))
for name, values in losses.items():
    for kind in ("whole", "cut"):
        print(f"{name:>18}, {kind:6} " + "".join(f"{value:9.3f}" for value in values[kind]))

# %% [markdown]
# **Read it.** *whole* lets a model see all of the longer text, *cut* only as many keys as in training. One seed says little: the book's chapter has several,
# with error bars. What you can see here is a large effect or none.

# %% [markdown]
# ## Exercises
# 1. **Easy.** Set `FLOOR` to $0.001$: what method is the repaired form now? Does *whole* agree with *cut*?
# 2. **Harder.** The gain $1 + 0.2\,e^{-0.001 m}$ is not relative. Give queries $e^{\kappa m}$ and keys $e^{-\kappa n}$ instead, check with the
#    sliders above that scores are relative, and find the largest $\kappa$ that float32 stands at $10^5$ tokens.
# 3. **On paper.** Below.
# 4. **Open.** Take a claim of any proposal that a minute of computing could decide, and decide it.

# %%
print("the report's factor at the distances 1, 100, 1000:", fade(torch.tensor([1.0, 100.0, 1000.0])).tolist())

# %% [markdown]
# **On paper.** Two keys have the same logit $z$; one is near, with the factor $1$, one is far, with the factor $f < 1$. How do their weights compare on logits and on log? What
# happens to each comparison when $5$ is added to all logits of the row?

# %% [markdown] nbgrader={"grade": true, "grade_id": "paper", "locked": false, "points": 3, "schema_version": 3, "solution": true, "task": false}
# On logits the ratio far to near is $e^{fz} / e^{z} = e^{-(1 - f)z}$: below one for $z > 0$, above one for $z < 0$. Adding $5$ makes it
# $e^{-(1 - f)(z + 5)}$, smaller by $e^{-5(1 - f)}$, so the far key loses more, and its gain may become a loss. On log it is $e^{z} f / e^{z} = f$, below one
# for every $z$, and adding $5$ cancels.
