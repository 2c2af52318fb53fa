# %% [markdown]
# # Lab: ALiBi
# {{badge}}
#
# **You will** write the slopes and the bias of ALiBi, measure how far each head sees, train a model with *your* bias and
# ask of it: does it extrapolate, or does it ignore?
#
# **Time**: about 40 minutes. The machine computes for under three of them on a CPU, less on a GPU. The chapter *ALiBi*
# of the book has the theory.

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
from posenc.lab.experiments import load_results
from posenc.lab.experiments.plots import plot_short_long
from posenc.lab.explore import interact
from posenc.lab.train import pick_device, sample, settings_for, train
from posenc.lab.train.measures import short_long

preset = os.environ.get("POSENC_PRESET", "lab")  # "nano" takes seconds, "study" is what the book shows
seed = student_seed()  # 0, unless your teacher gave you one: %env POSENC_SEED=17 in a cell above
print(f"device: {pick_device()}, preset: {preset}, seed: {seed}")
_ = posenc.explain_impl(posenc.make("alibi", num_heads=4))

# %% [markdown]
# ## Build it yourself
# ALiBi subtracts from each scaled logit a penalty that grows with the distance $i - j$ between query and key:
#
# $$z_{ij} = \frac{q_i \cdot k_j}{\sqrt D} - m_h\,(i - j).$$
#
# ### Exercise 1: the slopes
# For $H$ heads, a power of two, $m_h = 2^{-8h/H}$ with $h = 1, \dots, H$. For any other $H$, take the slopes for the
# power of two $p$ below $H$ and fill up with every other slope for $2p$, starting with its first.
#
# Write a function that returns a tensor `[H]` of float32. Hint: first write it for powers of two, then let it call itself.

# %%
# {{exercise slopes}}
print("12 heads:", " ".join(f"{m:.4f}" for m in slopes(12)))

# %% [markdown]
# ### Exercise 2: the bias
# From positions of the queries `[Tq]`, positions of the keys `[Tk]` and slopes `[H]`, make the bias `[H, Tq, Tk]`. Use the
# positions that you are given: they need not be 0, 1, 2, ... . Keys in the future are not your concern, the causal mask
# hides them.

# %%
# {{exercise bias}}
print(bias(torch.arange(4), torch.arange(4), slopes(2))[0])

# %% [markdown]
# ### Exercise 3: the window
# Let all contents be equal and the past be long. Then softmax turns the bias into the weights $(1 - e^{-m})\,e^{-md}$ at the
# distances $d = 0, 1, 2, \dots$ How many of the nearest keys hold a given share of the weight? Return the smallest whole
# number that suffices.

# %%
# {{exercise window}}
for h, m in enumerate(slopes(8).tolist(), start=1):
    print(f"head {h} of 8: half of the weight on {window(m, 0.5):4} keys, 95% on {window(m, 0.95):4}")

# %% [markdown]
# ## See it
# Your bias, at work. The dots are the weights of one query over content that is noise, except for one key that fits it: a
# needle. **Predict**: at which distance does the steepest of eight heads lose a needle that is 8 logits better than the rest?
# And the mildest?


# %% mystnb={"image": {"alt": "Weights of one query against distance, with your slopes and your bias, at one position of the sliders."}}
def draw(heads, head, distance, better):
    """The weights of the last of 400 queries, with a needle `distance` keys back that is `better` logits better."""
    keys = torch.arange(400)
    content = torch.randn(400, generator=torch.Generator().manual_seed(0))
    content[399 - distance] = better
    row = bias(keys[-1:], keys, slopes(heads))[min(head, heads) - 1, 0]
    weights = torch.softmax(content + row, -1)
    figure, axis = plt.subplots(figsize=(8, 3), layout="constrained")
    axis.semilogy(399 - keys, weights, ".", color="#c45500", label="weights")
    axis.semilogy(399 - keys, torch.softmax(row, -1), "--", color="#0072b2", label="with equal contents")
    axis.semilogy(distance, weights[399 - distance], "*", color="#c0392b", markersize=15, label="the needle")
    axis.set(xlabel="distance of the key", ylabel="weight", ylim=(1e-8, 2), xlim=(400, -5))
    axis.set_title(
        f"head {min(head, heads)} of {heads}: the needle holds {100 * weights[399 - distance]:.3g}% of the weight"
    )
    axis.legend(loc="upper left")
    plt.show()


interact(
    draw,
    heads=SelectionSlider(options=[2, 4, 8, 12, 16], value=8, description="heads"),
    head=IntSlider(value=1, min=1, max=16, description="head"),
    distance=IntSlider(value=40, min=0, max=399, description="distance"),
    better=IntSlider(value=8, min=0, max=20, description="better by"),
)

# %% [markdown]
# The book's explorable, with your two functions in it:

# %%
from posenc.chapters.alibi.figures import decay

display(decay.with_function(slopes=slopes, bias=bias))

# %% [markdown]
# ## The kernel
# Your bias is a matrix of $H \times T \times T$ numbers that is written to memory only to be read back once. The Triton kernel computes
# each of them where it is needed, from two positions and a slope. Are they the same numbers? *From formula to kernel* has its code.

# %%
from posenc.lab.check.trial import against, causal_softmax


def mine(q, k, v):
    at = torch.arange(q.shape[-2], device=q.device)
    return causal_softmax(q, k, v, bias(at, at, slopes(q.shape[1]).to(q.device)).to(q.dtype))


_ = against(mine, posenc.make("alibi", num_heads=4))

# %% [markdown]
# ## Train short, test long
# Two models, the same but for position: one with nothing (NoPE), one with *your* bias. Both are trained on short windows of
# Python's documentation. **Predict** before you run: which learns faster? Which one stands a text eight times as long?


# %% mystnb={"image": {"alt": "Loss against training step, one curve a model."}}
class MyBias(torch.nn.Module):
    """What stands at the place `bias`: called with q, k and the positions of both."""

    def __init__(self, slopes):
        super().__init__()
        self.slopes = slopes

    def forward(self, q, k, at):
        return bias(at.pos_q[0], at.pos_k[0], self.slopes.to(q.device))


settings = settings_for(preset)
encodings = {"my NoPE": "nope", "my ALiBi": lambda layer: posenc.Encoding(bias=MyBias(slopes(settings.num_heads)))}
models = {}
for name, encoding in encodings.items():
    models[name], history = train(encoding, preset, seed, live=True)
    print(f"{name}: final loss {sum(history['loss'][-10:]) / 10:.3f} nats per character")

# %%
print(sample(models["my ALiBi"], length=200, window=settings.length))

# %% [markdown]
# Now the test. The characters to predict stay the same; what grows is the text before them. Each model is tested twice: with
# all of it visible (*whole*), and with its attention *cut* to as many keys as it was trained with.

# %%
losses = {name: short_long(model, settings) for name, model in models.items()}
print("characters of context   " + "".join(f"{length:>9}" for length in settings.lengths))
for name, values in losses.items():
    for kind in ("whole", "cut"):
        print(f"{name:>16}, {kind:6}" + "".join(f"{value:9.3f}" for value in values[kind]))
for name, values in losses.items():
    gap = values["whole"][-1] - values["cut"][-1]
    print(f"{name}: what is far {'costs' if gap > 0 else 'saves'} {abs(gap):.3f} nats per character")

# %% [markdown]
# Beside the book's frozen results: five seeds each, trained for longer. (At preset `nano` the windows are shorter than the
# book's, so your models are left out of the drawing.)

# %% mystnb={"image": {"alt": "Loss on the same targets against context length, the frozen results with error bars, solid for the whole context and dashed with attention cut."}}
frozen = load_results("train_short_test_long")
comparable = settings.lengths == frozen["lengths"]
display(
    plot_short_long(frozen, methods=["nope", "rope", "alibi"], highlight="alibi", own=losses if comparable else None)
)
print(f"frozen: {frozen['command']} (commit {frozen['commit'][:8]})")

# %% [markdown]
# **Read it.** If *whole* and *cut* agree, the model makes nothing of what is far: it ignores. If *whole* lies above, what is far
# harms it. Only if *whole* lies below has the model extrapolated *and* gained by it.

# %% [markdown]
# ## Exercises
# 1. **Easy.** Give all heads the same slope, once the steepest, $1/2$, and once the mildest, $1/256$: put
#    one and the other in the cell below. Which one trains better? Which one fails more gently?
# 2. **Harder.** Replace the line by a logarithm: $-c \ln(1 + d)$. What is the window now? Does *whole* agree with *cut*?
# 3. **On paper.** Below.
# 4. **Open.** The text hardly rewards a long view. Invent a task that does, on which a model that ignores everything beyond
#    its training window must fail. What do you train, what do you test, and what is the control?
#    To hold a bias of yours against the book's trained models: `posenc.lab.experiments.compare(lambda layer: posenc.Encoding(bias=...), "needle").figure()`, about a minute a seed.

# %%
nano = settings_for("nano")
steps = 60 if preset == "nano" else 300
mine, _ = train(
    lambda layer: posenc.Encoding(bias=MyBias(torch.full((nano.num_heads,), 0.5))), "nano", seed, steps=steps
)
result = short_long(mine, nano)
print("whole", [f"{x:.3f}" for x in result["whole"]], " cut", [f"{x:.3f}" for x in result["cut"]])

# %% [markdown]
# **On paper.** Show that adding $+m_h\,j$ to the logits, instead of $-m_h\,(i - j)$, gives the same weights after softmax.
# Would it still, if each weight were the sigmoid of its logit?

# %% [markdown] nbgrader={"grade": true, "grade_id": "paper", "locked": false, "points": 3, "schema_version": 3, "solution": true, "task": false}
# $-m_h(i - j) = m_h\,j - m_h\,i$. In row $i$ the term $-m_h\,i$ is the same for all keys $j$, so it multiplies every
# exponential of the row by the same factor $e^{-m_h i}$, in the numerator and in the sum below it, and cancels. A sigmoid has
# no such sum: the term $-m_h\,i$ stays and lowers all weights of late queries.
