# %% [markdown]
# # Lab: Relative position
# {{badge}}
#
# **You will** write Shaw's term, Transformer-XL's shift trick and T5's buckets, train models with *your* functions, and see
# which entries of a trained table no training text has ever touched.
#
# **Time**: about 50 minutes. The machine computes for under three of them on a CPU, less on a GPU. The chapter *Relative
# position* of the book has the theory.

# %% tags=["install"]
# {{install}}

# %%
import math
import os

import matplotlib.pyplot as plt
import torch
from IPython.display import display
from ipywidgets import Checkbox, IntSlider, SelectionSlider

import posenc
from posenc.lab.check import check, student_seed
from posenc.lab.experiments import load_results
from posenc.lab.experiments.plots import plot_short_long
from posenc.lab.explore import interact
from posenc.lab.train import pick_device, settings_for, train
from posenc.lab.train.measures import short_long

preset = os.environ.get("POSENC_PRESET", "lab")  # "nano" takes seconds, "study" is what the book shows
seed = student_seed()  # 0, unless your teacher gave you one: %env POSENC_SEED=17 in a cell above
print(f"device: {pick_device()}, preset: {preset}, seed: {seed}")
_ = posenc.explain_impl(posenc.make("t5", num_heads=4))

# %% [markdown]
# ## Build it yourself
# Query $i$ and key $j$ stand at an **offset** $j - i$, key minus query: negative in the past.
#
# ### Exercise 1: Shaw's term
# Shaw's score is $q_i \cdot (k_j + a_{\operatorname{clip}(j - i)}) / \sqrt D$, with $\operatorname{clip}(\delta) = \max(-k, \min(k, \delta))$. Write
# the part with $a$ for one head: from queries `[Tq, D]`, a table `[2k + 1, D]` whose row $k$ belongs to offset $0$, and the positions of queries and keys,
# return $q_i \cdot a_{\operatorname{clip}(j - i)} / \sqrt D$ as `[Tq, Tk]`.
#
# Hint: multiply every query with every row first, then pick. `x.gather(1, rows)` takes from row $i$ of `x` the columns `rows[i]`.

# %%
# {{exercise shaw_term}}

# %% [markdown]
# ### Exercise 2: the shift trick
# One matrix product gives the scores of every query at every distance: `x` `[Tq, Tk]`, where column $c$ holds the score at distance $T_k - 1 - c$.
# The queries are the last $T_q$ of $T_k$ positions. Slide each row so that column $j$ holds the score at the distance from query to key $j$.
#
# By the trick: a column of zeros on the left, then `reshape` to $T_k + 1$ rows of $T_q$, drop the first row, `reshape` back. Only keys that a query may see are
# checked; what stands right of them, the causal mask hides. Let it work for tensors `[..., Tq, Tk]`.

# %%
# {{exercise shift}}
print("distances in falling order:\n", torch.arange(4).flip(0).expand(4, 4).tolist())
print("after your shift:\n", shift(torch.arange(4.0).flip(0).expand(4, 4)).int().tolist())

# %% [markdown]
# ### Exercise 3: T5's bucket
# For a direction with $N$ buckets, $e = N/2$ and $M$ = `max_distance`:
#
# $$\text{bucket}(d) = d \ \text{ if } d < e, \quad\text{else}\quad
# \min\!\Big(N - 1,\ e + \Big\lfloor \frac{\ln(d / e)}{\ln(M / e)}\,(N - e) \Big\rfloor\Big).$$
#
# With `bidirectional=False`, $N$ = `num_buckets`, $d = i - j$, and all keys ahead are in bucket 0. With `bidirectional=True`, each side has half: $N$ =
# `num_buckets // 2`, $d = |i - j|$, and keys *ahead* (not the query's own) get $N$ added.
#
# `relative` is key minus query, a tensor of integers of any shape. Hint: `torch.where` chooses number by number; keep the logarithm away from zero.
# (Where the logarithm should be a whole number, rounding down hangs on its last digit. Add `1e-9` before you do.)

# %%
# {{exercise bucket}}
near = torch.tensor([-200, -64, -16, -8, -7, -1, 0, 1, 17, 128])
print("key minus query", near.tolist())
print("encoder        ", bucket(near).tolist())
print("decoder        ", bucket(near, bidirectional=False).tolist())

# %% [markdown]
# ## See it
# Your staircase. **Predict**: how wide is the last step but one? What becomes of the near distances when you halve the buckets, and what when a second
# direction has to be served?


# %% mystnb={"image": {"alt": "The bucket of each offset as a staircase, by your function, at one position of the sliders."}}
def draw(buckets, longest, both):
    """The bucket of each offset, and how many offsets have one of their own."""
    offsets = torch.arange(-300, 301 if both else 1)
    found = bucket(offsets, buckets, longest, both)
    alone = sum(int((found == b).sum()) == 1 for b in range(buckets))
    figure, axis = plt.subplots(figsize=(8, 3), layout="constrained")
    axis.step(offsets, found, where="mid", color="#0072b2")
    axis.axvspan(-300, -longest, color="#c45500", alpha=0.12)
    axis.set(xlabel="offset: key minus query", ylabel="bucket", xlim=(-300, 300 if both else 0), ylim=(-0.5, buckets))
    axis.set_title(f"{alone} offsets have a bucket of their own; shaded: one bucket, however far")
    plt.show()


interact(
    draw,
    buckets=SelectionSlider(options=[8, 16, 32, 64], value=32, description="buckets"),
    longest=IntSlider(value=128, min=40, max=280, step=8, description="max distance"),
    both=Checkbox(value=False, description="both directions"),
)

# %% [markdown]
# The book's explorable, with your function in it:

# %%
from posenc.chapters.relative.figures import bucket_staircase

display(bucket_staircase.with_function(bucket=bucket))

# %% [markdown]
# ## The kernel
# Laid out, T5's bias is $H \times T \times T$ numbers made from a table of $H \times 32$. The Triton kernel reads for each pair the entry at its offset, where
# it is needed. Below, the table is laid out by *your* bucket. Are they the same numbers?

# %%
from posenc.lab.check.trial import against, causal_softmax

torch.manual_seed(0)
t5 = posenc.make("t5", num_heads=4)


def mine(q, k, v):
    at = torch.arange(q.shape[-2], device=q.device)
    offsets = at[None, :] - at[:, None]
    return causal_softmax(q, k, v, t5.bias.table.detach().to(q)[:, bucket(offsets, bidirectional=False)])


_ = against(mine, t5)

# %% [markdown]
# ## Train short, test long
# Three models, the same but for position: NoPE, one with *your* Shaw's term (a clip of 16), one with a table read through *your* bucket and shared by all layers.
# **Predict** before you run: which learns fastest? Which of the two tables has entries that training never touches?


# %% mystnb={"image": {"alt": "Loss against training step, one curve a model."}}
class MyShaw(torch.nn.Module):
    """What stands at the place `bias`: called with q, k and the positions of both."""

    def __init__(self, head_dim, clip=16):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(2 * clip + 1, head_dim) * 0.1)

    def forward(self, q, k, at):
        every = q.reshape(-1, q.shape[-1])  # queries of all sequences and heads, one below the other
        pos_q = at.pos_q[0].repeat(len(every) // q.shape[2])
        return shaw_term(every.float(), self.table, pos_q, at.pos_k[0]).view(*q.shape[:3], -1)


class MyT5(torch.nn.Module):
    """One number a head for each bucket."""

    def __init__(self, num_heads, num_buckets=32):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(num_heads, num_buckets) * 0.1)

    def forward(self, q, k, at):
        offsets = at.pos_k[0][None, :] - at.pos_q[0][:, None]
        return self.table[:, bucket(offsets, self.table.shape[1], bidirectional=False)]


settings = settings_for(preset)
torch.manual_seed(seed)
shared = posenc.Encoding(bias=MyT5(settings.num_heads))
before = shared.bias.table.detach().clone()
encodings = {
    "my NoPE": "nope",
    "my Shaw": lambda layer: posenc.Encoding(bias=MyShaw(settings.dim // settings.num_heads)),
    "my T5": lambda layer: shared,
}
fewer = {"steps": 150} if preset == "nano" else {}
models = {}
for name, encoding in encodings.items():
    models[name], history = train(encoding, preset, seed, live=True, **fewer)
    print(f"{name}: final loss {sum(history['loss'][-10:]) / 10:.3f} nats per character")

# %% [markdown]
# What the table has learned, head by head, against the distance. Entries that no training window can reach are drawn as crosses: they hold what they were
# initialized with (a little less, by weight decay).

# %% mystnb={"image": {"alt": "The trained table of your T5 bias, one line a head, against distance; crosses mark buckets that training never reached."}}
distances = torch.arange(2 * 128)
found = bucket(-distances, bidirectional=False)
reached = found[: settings.length].unique()
learned = shared.bias.table.detach().cpu()
figure, axis = plt.subplots(figsize=(8, 3.4), layout="constrained")
for head, color in zip(range(len(learned)), ("C0", "C1", "C2", "C3")):
    values = learned[head, found]
    known = torch.isin(found, reached)
    axis.plot(distances[known], values[known], "-", color=color, label=f"head {head}")
    axis.plot(distances[~known], values[~known], "x", color=color, markersize=3)
axis.set_xscale("symlog", linthresh=16)
axis.axvline(settings.length, color="0.6", linestyle=":")
axis.set(xlabel="distance", ylabel="bias, logits")
axis.legend(frameon=False, ncols=2)
plt.show()
never = sorted(set(range(32)) - set(reached.tolist()))
print(f"buckets never reached in windows of {settings.length}: {never}")
print(
    f"they moved by up to {(learned - before)[:, never].abs().max():.3f}, the others by up to "
    f"{(learned - before)[:, reached].abs().max():.3f}"
)

# %% [markdown]
# Now the test. The characters to predict stay the same; what grows is the text before them. Each model is tested twice: with all of it visible
# (*whole*), and with its attention *cut* to as many keys as it was trained with.

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
drawn = [name for name in ("nope", "rope", "shaw", "t5") if name in frozen["methods"]]
display(plot_short_long(frozen, methods=drawn, own=losses if comparable else None))
print(f"frozen: {frozen['command']} (commit {frozen['commit'][:8]})")

# %% [markdown]
# **Read it.** If *whole* lies above *cut*, what is far does harm. With Shaw no row is untrained, so only the *number* of keys can be at fault; with T5 an untrained
# entry of the table may be.

# %% [markdown]
# ## Exercises
# 1. **Easy.** The cell below copies T5's last trained bucket over those that were never reached, and tests again: predict what that changes. Then fill them with
#    something that falls with distance. Which does more: the trained row far away, or a penalty?
# 2. **Harder.** Write a causal attention with Transformer-XL's four terms, using your `shift` for $b$ and $d$ together, and hold it against
#    `posenc.make("transformer_xl", ...)`. Which two products do you need?
# 3. **On paper.** Below.
# 4. **Open.** Train with some of the terms $b$, $c$, $d$ and not the others. Which subset is Shaw's idea, which T5's? What must be equal for the comparison to be fair?

# %%
with torch.no_grad():
    kept = shared.bias.table.clone()
    shared.bias.table[:, never] = shared.bias.table[:, reached.max()][:, None].expand(-1, len(never))
    repaired = short_long(models["my T5"], settings)
    shared.bias.table[:] = kept
print("as trained", [f"{x:.3f}" for x in losses["my T5"]["whole"]])
print("repaired  ", [f"{x:.3f}" for x in repaired["whole"]])

# %% [markdown]
# **On paper.** Somebody adds a fifth term to Transformer-XL's score, $w \cdot q_i$, with a trained vector $w$ for each head. Show that it changes no weight. Why does
# the same not hold for $u \cdot k_j$?

# %% [markdown] nbgrader={"grade": true, "grade_id": "paper", "locked": false, "points": 3, "schema_version": 3, "solution": true, "task": false}
# In row $i$ the term $w \cdot q_i$ is the same for all keys $j$. It multiplies every exponential of the row by $e^{w \cdot q_i / \sqrt D}$, in the numerator and in the
# sum below it, and cancels. The term $u \cdot k_j$ differs from key to key: it lifts some keys above others, in every row by the same amount, and stays.
