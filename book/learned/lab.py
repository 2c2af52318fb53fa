# %% [markdown]
# # Lab: Learned positions
# {{badge}}
#
# **You will** write the lookup that refuses what it has no row for, stretch a table without touching its class row, count
# what a table costs, and train a model with *your* table to see what its rows become.
#
# **Time**: about 40 minutes. The machine computes for under three of them on a CPU, less on a GPU. The chapter *Learned
# positions* of the book has the theory.

# %% tags=["install"]
# {{install}}

# %%
import copy
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
from posenc.lab.train import pick_device, settings_for, train
from posenc.lab.train.measures import held_out_windows, short_long, target_losses
from posenc.lab.train.tasks import load_corpus

preset = os.environ.get("POSENC_PRESET", "lab")  # "nano" takes seconds, "study" is what the book shows
seed = student_seed()  # 0, unless your teacher gave you one: %env POSENC_SEED=17 in a cell above
print(f"device: {pick_device()}, preset: {preset}, seed: {seed}")
_ = posenc.explain_impl(posenc.make("learned", max_positions=64, dim=96))

# %% [markdown]
# ## Build it yourself
# A learned encoding is a table $P$ with one row $p_i$ for each position $i$. What the first layer sees is $x_i + p_i$, the
# embedding of the token at position $i$ plus the row of that position.
#
# ### Exercise 1: the lookup
# From a table `[N, C]` and whole numbers `[T]` or `[B, T]`, return the rows, `[T, C]` or `[B, T, C]`. Raise a `ValueError` for
# a position that has no row, below 0 as well as beyond N - 1, and say in its message *which* position and *how many* rows.
#
# Hint: try `torch.eye(3)[torch.tensor([-1])]` before you begin.

# %%
# {{exercise lookup}}
try:
    lookup(torch.eye(3), torch.tensor([0, 3]))
except ValueError as error:
    print("refused:", error)

# %% [markdown]
# ### Exercise 2: stretch it
# A table of $N$ positions shall serve $N'$. The first row stays first and the last stays last, and in between the new row $i$
# is read at $u = i\,\frac{N - 1}{N' - 1}$ of the old ones: between two neighbors, mixed in proportion.
#
# The first `prefix` rows stand for no place (a class token, say). They stay in front as they are, and `length` counts them.

# %%
# {{exercise stretch}}
print("one class row and 0 1 2 3, stretched to one and seven:")
print(stretch(torch.tensor([[9.0], [0.0], [1.0], [2.0], [3.0]]), 8, prefix=1)[:, 0])

# %% [markdown]
# ### Exercise 3: what it costs
# A table can stand at the input, once (`"input"`), or each layer can have one of its own, which it adds to what its queries
# and keys are made from (`"layer_qk"`), or its values too (`"layer_qkv"`). How many parameters are that?

# %%
# {{exercise count}}
print(f"512 positions, width 384, six layers: {count(512, 384, 6, 'input'):,} at the input,")
print(f"{count(512, 384, 6, 'layer_qkv'):,} with a table in each layer")

# %% [markdown]
# ## See it
# Your `stretch` on a table that you can read: a row is a point on a circle, one turn in 16 positions, and the class row stands
# in the middle. **Predict** before you move the sliders: where do the new points lie, on the circle or inside it? What
# happens to the class row when the prefix is forgotten?


# %% mystnb={"image": {"alt": "Old rows as rings on a circle and new rows as dots on the chords between them, with the class row as a star in the middle."}}
def draw(length, prefix):
    """A table of 8 points on half a circle behind one class row, stretched by your function."""
    angle = torch.linspace(0, torch.pi, 8)
    old = torch.cat((torch.zeros(1, 2), torch.stack((angle.cos(), angle.sin()), dim=-1)))
    new = stretch(old, 1 + length, prefix=prefix)
    figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
    axis.plot(*old.T, "o", mfc="none", mec="#6b7280", ms=11, label="old rows")
    axis.plot(*new.T, ".-", color="#0072b2", lw=0.8, label="new rows")
    axis.plot(*new[0], "*", color="#c0392b", ms=14, label="first new row")
    axis.set(aspect="equal", xlim=(-1.2, 2.3), ylim=(-0.2, 1.2), xlabel="lane 0", ylabel="lane 1")
    inside = (1 - new[1:].norm(dim=-1)).max()
    axis.set_title(f"{length} positions; deepest inside the circle: {inside:.3f}")
    axis.legend(loc="upper right")
    plt.show()


interact(
    draw,
    length=IntSlider(value=20, min=2, max=60, description="positions"),
    prefix=SelectionSlider(options=[0, 1], value=1, description="prefix"),
)

# %% [markdown]
# The book's explorable, with your function: how much of the class row is in each of the first rows.

# %%
from posenc.chapters.learned.figures import resizing

display(resizing.with_function(resize=stretch))

# %% [markdown]
# There is no kernel section in this lab: an addition before attention needs none, and attention itself never sees a position.

# %% [markdown]
# ## Train
# Three models, the same but for position: the sinusoid, *your* table at the input, and a table of yours in each layer, for
# queries and keys. The tables have rows for the longest test, but training shows them short windows only. **Predict** before
# you run: a table can say all that the sinusoid says. Will it have learned to, in so few steps? Which of your two is quicker?
# How long will row 0 be afterwards, and how long the last row?


# %% mystnb={"image": {"alt": "Loss against training step, one curve a model."}}
class MyTable(torch.nn.Module):
    """What stands at the place `embed`: called with x [B, T, C] and positions [B or 1, T]."""

    def __init__(self, max_positions, dim):
        super().__init__()
        self.table = torch.nn.Parameter(0.02 * torch.randn(max_positions, dim))

    def forward(self, x, positions):
        return x + lookup(self.table, positions)


settings = settings_for(preset)
length, longest = settings.length, settings.lengths[-1]
encodings = {
    "sinusoidal": "sinusoidal",
    "my table": lambda layer: posenc.Encoding(embed=MyTable(longest, settings.dim)),
    "mine, each layer": lambda layer: posenc.Encoding(embed=MyTable(longest, settings.dim), embed_at="layer_qk"),
}
models, losses = {}, {}
for name, encoding in encodings.items():
    models[name], history = train(encoding, preset, seed, live=True)
    losses[name] = short_long(models[name], settings)
    print(f"{name}: final loss {sum(history['loss'][-10:]) / 10:.3f}, on the test {losses[name]['whole'][0]:.3f}")
table = models["my table"].embed.table.detach().cpu()

# %% [markdown]
# What did the rows become? On the left the length of each, on the right the cosine of every two of those that were trained.

# %% mystnb={"image": {"alt": "Left: the length of each row, long for trained positions and short beyond. Right: a heat map of the cosine of every two trained rows."}}
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.plot(table.norm(dim=-1), color="#0072b2")
left.axvline(length - 0.5, color="0.5", ls="--")
left.set(xlabel="row", ylabel="length of the row", title="dashed: the training length", ylim=(0, None))
rows = table[:length] - table[:length].mean(0)
unit = rows / rows.norm(dim=-1, keepdim=True)
drawn = right.imshow(unit @ unit.T, cmap="RdBu", vmin=-1, vmax=1)
right.set(xlabel="row", ylabel="row", title="cosine, mean row taken away")
figure.colorbar(drawn, ax=right)
plt.show()

# %% [markdown]
# **The cliff.** The same characters, half a window of them, with ids that start at `first`. Predict the row of your table.

# %%
windows = held_out_windows(load_corpus().held_out, settings)
device = pick_device()
ids = torch.arange(length // 2, device=device)
starts = (0, length // 4, length // 2, 3 * length // 4, length, longest - length // 2)
print("first id         ", *[f"{first:7d}" for first in starts])
for name, model in models.items():
    moved = [target_losses(model, windows[:, -(len(ids) + 1) :], positions=ids + first) for first in starts]
    print(f"{name:17}", *[f"{loss[:, len(ids) // 2 :].mean():7.3f}" for loss in moved])

# %% [markdown]
# **Resizing.** Take the trained rows, stretch them to twice and eight times the length with *your* function, and test without
# any further training. Which is better there, the stretched rows or the untrained ones?


# %%
def with_rows(model, rows):
    """A copy of the model with another table."""
    model = copy.deepcopy(model)
    model.embed.table = torch.nn.Parameter(rows.to(device))
    return model


def loss_at(model, context):
    """Loss of the last characters of the test windows, with that much context."""
    return target_losses(model, windows[:, -(context + 1) :])[:, -settings.targets :].mean().item()


print(f"at {length} characters, as trained: {loss_at(models['my table'], length):.3f}")
for multiple in (2, 8):
    stretched = with_rows(models["my table"], stretch(table[:length], multiple * length))
    print(
        f"at {multiple * length}: untrained rows {loss_at(models['my table'], multiple * length):.3f}, "
        f"stretched {loss_at(stretched, multiple * length):.3f}; "
        f"stretched, but read at {length}: {loss_at(stretched, length):.3f}"
    )

# %% [markdown]
# Beside the book's frozen results: several seeds each, trained for longer, and still the table has hardly begun: free rows ask
# for patience, as the chapter says. Raise `steps` in `train(...)` if you have some. (At preset `nano` the windows are shorter than the
# book's, so your models are left out of the drawing.)

# %% mystnb={"image": {"alt": "Loss on the same targets against context length, the frozen results with error bars, solid for the whole context and dashed with attention cut."}}
frozen = load_results("train_short_test_long")
comparable = settings.lengths == frozen["lengths"]
display(
    plot_short_long(
        frozen, methods=["nope", "sinusoidal", "learned"], highlight="learned", own=losses if comparable else None
    )
)
print(f"frozen: {frozen['command']} (commit {frozen['commit'][:8]})")

# %% [markdown]
# ## Exercises
# **Exercise 4** (in code): *concatenating is adding*. Put the row $p_i$ of a table `[N, K]` behind the embedding $x_i$ and
# project both to $W_1 x_i + W_2\,p_i$. In code vectors are rows, so `weight`, `[C + K, C]`, holds $W_1^\top$ above $W_2^\top$. Return the
# table `[N, C]` that gives the same by adding: what is added to $W_1 x_i$ at each position.

# %%
# {{exercise fold}}
source = torch.Generator().manual_seed(1)
x, rows, weight = (torch.randn(*shape, generator=source) for shape in ((5, 8), (5, 3), (11, 8)))
appended, added = torch.cat((x, rows), dim=-1) @ weight, x @ weight[:8] + fold(rows, weight)
print("largest difference:", (appended - added).abs().max().item())

# %% [markdown]
# **Exercise 5** (easy). Start the table at standard deviation 1 instead of 0.02. What do the rows beyond the training length look
# like then, and what does the cliff?
#
# **Exercise 6** (open). Make the cliff go away without a longer window: during training, let every window start at a random id,
# so that all rows get their turn. What does it cost at the training length? State what you expect before you start.

# %%
STD = 1.0
nano = settings_for("nano", steps=60 if preset == "nano" else 300)
loud, _ = train(
    lambda layer: posenc.make("learned", max_positions=nano.lengths[-1], dim=nano.dim, std=STD),
    "nano",
    seed,
    steps=nano.steps,
)
norms = loud.embed.table.detach().norm(dim=-1)
print(f"trained rows {norms[: nano.length].mean():.2f}, rows beyond {norms[nano.length :].mean():.2f} long")
print("whole", [f"{x:.3f}" for x in short_long(loud, nano)["whole"]])

# %% [markdown]
# **On paper.** A model is trained with windows of 512 and a table of 1,024 rows. (a) What gradient do the rows from 512 on
# receive? (b) What are they after training with AdamW, learning rate 0.001 at every one of 100,000 steps, weight decay 0.1, if
# they started at 0.02? (c) Somebody resizes the whole table to 2,048 rows and fine-tunes there. What have they stretched?

# %% [markdown] nbgrader={"grade": true, "grade_id": "paper", "locked": false, "points": 3, "schema_version": 3, "solution": true, "task": false}
# (a) None: the loss does not contain them, so their gradient is exactly zero.
#
# (b) Only the weight decay acts, a factor $1 - 0.001 \cdot 0.1$ a step, $(1 - 10^{-4})^{100000} \approx e^{-10} \approx 4.5 \cdot 10^{-5}$ in
# the end: about $10^{-6}$, as good as zero.
#
# (c) Half of it is untrained. New rows 0 to about 1,023 read the trained ones, those beyond read noise or zeros. Cut the table to
# its trained rows first, then stretch.
