# %% [markdown]
# # Lab: Two axes and more
#
# {{badge}}
#
# You will
# - **build** RoPE on several axes: the frequencies, the angles, the rotation, and the three ids of a text that holds pictures,
# - **see** what a query looks for on a picture of nine by nine patches, and what it cannot look for,
# - **train** a small vision transformer with your rotation, and ask it about letters at places that it never saw.
#
# Time: about 45 minutes of yours, of which the computer works less than 3 on a CPU. The chapter *Two axes and more* has the
# theory.

# %% tags=["install"]
# {{install}}

# %%
import dataclasses
import math
import os

import matplotlib.pyplot as plt
import torch
from IPython.display import display
from ipywidgets import Dropdown, IntSlider

import posenc
from posenc.lab.check import check, student_seed
from posenc.lab.experiments import load_results
from posenc.lab.experiments.plots import plot_scores
from posenc.lab.explore import interact
from posenc.lab.train import pick_device
from posenc.lab.train.curve import plot_loss
from posenc.lab.train.glyphs import STUDY, draw_glyphs, grid, share_right, tests, train_pictures

preset = os.environ.get("POSENC_PRESET", "lab")
print("device:", pick_device(), "(the models of this lab are so small that they train on the CPU anyway)")
print("preset:", preset)
seed = student_seed()  # 0, unless your teacher gave you one: %env POSENC_SEED=17 in a cell above
print("seed:", seed)
_ = posenc.explain_impl(posenc.make("rope2d", head_dim=64))

# %% [markdown]
# ## 1. The frequencies
#
# A patch stands at a row and a column, so a position has $n = 2$ coordinates; in a video it has three. The **axial** form gives
# each pair of lanes one axis. The $D/2$ pairs are dealt out in turn: pair $nt + a$ turns along axis $a$, by
#
# $$ \omega_t = b^{-2nt/D}, \qquad t = 0, \dots, \tfrac{D}{2n} - 1 $$
#
# radians a step of that axis, and not at all along the others.
#
# **Exercise 1.** Return them as a tensor $[n, D/2]$ of float32: a row for each axis, a column for each pair. In each column one
# number is not 0.

# %%
# {{exercise axial_freqs}}
print(axial_freqs(16, 2, 100.0))

# %% [markdown]
# ## 2. The angles
#
# However the frequencies are dealt, the angle of pair $i$ at the position $p = (p_0, \dots, p_{n-1})$ is a sum over the axes:
#
# $$ \varphi_i(p) = \sum_a p_a\, \omega_{a,i} $$
#
# A class token is no patch and stands nowhere. `posenc` writes this as NaN: a token with NaN in **any** coordinate is not
# turned, so all its angles are 0.
#
# **Exercise 2.** `positions` is $[\dots, T, n]$, integers or floats, `freqs` is $[n, P]$. Return the angles $[\dots, T, P]$ in the dtype
# of `freqs`. Hints: `positions.isnan().any(-1, keepdim=True)` finds the tokens without a place, `masked_fill` fills them. A sum of
# products over the last axis of one tensor and the first of another is `@`.

# %%
# {{exercise angles}}

# %% [markdown]
# Three patches and a token without a place, eight lanes. Which columns change from the first row to the second? Which from
# the second to the third?

# %%
places = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [math.nan, math.nan]])
print(angles(places, axial_freqs(8, 2, 100.0)))

# %% [markdown]
# ## 3. The rotation
#
# From here on it is RoPE. Lanes $2i$ and $2i+1$, neighbors, are the pair $(a, b)$ that becomes
#
# $$ (a \cos\varphi_i - b \sin\varphi_i,\ \ a \sin\varphi_i + b \cos\varphi_i). $$
#
# **Exercise 3.** `x` is $[\dots, T, D]$, `positions` and `freqs` as before, $P = D/2$. Use your `angles`. Hints: `x[..., 0::2]` are the
# even lanes; `torch.stack` on a new last axis and `flatten(-2)` weave two halves together.

# %%
# {{exercise rotate_axes}}

# %% [markdown]
# Move all patches of a picture by seven rows and minus three columns. What becomes of the scores between two patches? And of the scores
# between the class token, which has no place, and the patches? Guess both, then run.

# %%
generator = torch.Generator().manual_seed(0)
patches, w = grid(4, 5).double(), axial_freqs(16, 2, 100.0).double()
nowhere = torch.full((1, 2), math.nan, dtype=torch.float64)
q, k = torch.randn(2, 21, 16, generator=generator, dtype=torch.float64)  # a class token and 20 patches


def scores(patches):
    at = torch.cat((nowhere, patches))
    return rotate_axes(q, at, w) @ rotate_axes(k, at, w).T


change = (scores(patches + torch.tensor([7, -3])) - scores(patches)).abs()
print(f"two patches: largest change {change[1:, 1:].max():.0e}")
print(f"class token and patch: largest change {change[0, 1:].max():.2f}")

# %% [markdown]
# ## 4. A text that holds pictures
#
# M-RoPE gives each token of such a text three ids: time, row, column.
#
# - A **word** has the same number on all three. Text alone is then plain RoPE.
# - A **picture** starts at the next number $s$. Its patch at row $r$ and column $c$ has the ids $(s, s + r, s + c)$; a picture that stands still
#   has one time for all its patches.
# - What **follows** a picture starts one past the largest id so far.
#
# **Exercise 4.** `layout` is a list of parts in order: a whole number $n$ stands for $n$ words, a pair `(rows, columns)` for a picture, whose
# patches stand row by row. Return the ids $[T, 3]$, int64. Hints: `isinstance(part, int)`;
# `torch.cartesian_prod(torch.arange(rows), torch.arange(columns))` are a picture's rows and columns.

# %%
# {{exercise positions_for}}

# %% [markdown]
# Your ids, drawn. Change the layout: where does the text go on after a picture that is wide, high, or one patch small?

# %% mystnb={"image": {"alt": "The three ids of each token of a text with a picture: equal in words, apart in the picture."}}
LAYOUT = [4, (3, 6), 5]
ids = positions_for(LAYOUT)
figure, axis = plt.subplots(figsize=(7, 2.8), layout="constrained")
for column, (name, look) in enumerate((("time", "o-"), ("row", "s--"), ("column", "x:"))):
    axis.plot(ids[:, column], look, markersize=5, label=name)
axis.set(xlabel="token", ylabel="id")
axis.legend(frameon=False)
plt.show()

# %% [markdown]
# ## 5. See it
#
# A query on a picture of nine by nine patches, and its score with a key at each patch, all by your `rotate_axes`. The keys have one
# content; it is the query's own, or random. `degrees` turns the frequencies: pairs that knew rows alone then know an oblique direction,
# as the **mixed** form learns it. **Predict** before you move anything: which sliders move the pattern, which turn it, and which one changes
# nothing?

# %% mystnb={"image": {"alt": "Scores of one query with keys at each of nine by nine patches, as a map, at one position of the sliders."}}
BLANK = torch.ones(16)  # each pair of lanes holds (1, 1)


def turned_freqs(degrees):
    """The axial frequencies with their two axes turned: [2, 8]."""
    a = math.radians(degrees)
    return torch.tensor([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]]) @ axial_freqs(16, 2, 10.0)


def score_map(row, column, move, degrees, content):
    """Your scores of the query at (row, column) with a key at each patch, all moved by as many rows and columns."""
    w, patches = turned_freqs(degrees), grid(9, 9) + move
    q = BLANK if content == "the query's own" else torch.randn(16, generator=torch.Generator().manual_seed(3))
    query = rotate_axes(q[None], torch.tensor([[row + move, column + move]]).float(), w)
    found = (rotate_axes(BLANK.expand(81, -1), patches, w) @ query[0] / 4).view(9, 9)
    figure, axis = plt.subplots(figsize=(5.2, 4.4), layout="constrained")
    picture = axis.imshow(found, cmap="PuOr", vmin=-4, vmax=4)
    axis.plot(column, row, "k*", markersize=14)
    best = divmod(int(found.argmax()), 9)
    axis.set(
        xlabel="column", ylabel="row", title=f"largest score {found.max():.2f}, at row {best[0]}, column {best[1]}"
    )
    figure.colorbar(picture, label="score")
    plt.show()


interact(
    score_map,
    row=IntSlider(4, min=0, max=8, continuous_update=False),
    column=IntSlider(4, min=0, max=8, continuous_update=False),
    move=IntSlider(0, min=0, max=40, continuous_update=False),
    degrees=IntSlider(0, min=0, max=90, step=15, continuous_update=False),
    content=Dropdown(options=["the query's own", "random"]),
)

# %% [markdown]
# At 0 degrees the map is a cross: in the query's own row the score never falls far below half of the largest, however far the key, since half of the
# pairs see no columns. Can another content make a spot of it? In the axial form, take four patches at the corners of any rectangle: their scores with
# one query are tied to each other. The paper part asks for the reason.

# %%
contents = torch.randn(1000, 2, 16, generator=torch.Generator().manual_seed(1))
corners, middle = torch.tensor([[0.0, 0.0], [0.0, 3.0], [2.0, 0.0], [2.0, 3.0]]), torch.tensor([[5.0, 1.0]])
for degrees in (0, 45):
    w = turned_freqs(degrees)
    found = (rotate_axes(contents[:, :1], middle, w) * rotate_axes(contents[:, 1:].expand(-1, 4, -1), corners, w)).sum(
        -1
    ) / 4
    tie = (found[:, 0] - found[:, 1] - found[:, 2] + found[:, 3]).abs()
    print(f"{degrees} degrees: |upper left - upper right - lower left + lower right| up to {tie.max():.1e}")

# %% [markdown]
# The chapter's figure, its map drawn by your `angles`: one pair of lanes at a time, or all.

# %%
from posenc.chapters.rope2d import figures

display(figures.map.with_function(angles=angles))

# %% [markdown]
# ## 6. The kernel
#
# The rotation is one program over a block of tokens, whatever the number of axes: it adds up the angle of a pair, and turns all heads by it. The first line
# below says what `posenc.attention` takes on this machine when nothing is asked for. Then the Triton kernel stands beside yours, on the
# patches of a picture, without a causal mask. Is it your rotation?

# %%
from posenc.lab.check.trial import against


def in_rows(count):
    """The first `count` patches of a picture that is 64 wide."""
    return torch.stack((torch.arange(count) // 64, torch.arange(count) % 64), -1)


def mine(q, k, v):
    at, w = in_rows(q.shape[-2]).to(q.device), axial_freqs(q.shape[-1], 2, 100.0).to(q.device)
    q, k = rotate_axes(q, at, w).to(q.dtype), rotate_axes(k, at, w).to(k.dtype)
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v


_ = posenc.explain_impl(posenc.make("rope2d", head_dim=64))
_ = against(mine, posenc.make("rope2d", head_dim=64), positions=in_rows, causal=False)

# %% [markdown]
# ## 7. Train
#
# Letters of the fonts that come with matplotlib, 24 pixels on a side, cut into 6 x 6 patches. Which of 62 characters is it? The faces of the test
# are never shown in training.

# %% mystnb={"image": {"alt": "Twelve letters of several faces and sizes, shifted a little."}}
figure, axes = plt.subplots(1, 12, figsize=(9, 1), layout="constrained")
for axis, letter in zip(axes, draw_glyphs(torch.Generator().manual_seed(seed), 12).pictures):
    axis.imshow(letter, cmap="gray_r")
    axis.axis("off")
plt.show()

# %% [markdown]
# Two models with the same start and the same letters. **none** knows no places: to it a picture is a bag of patches. **mine** turns queries and
# keys by your `rotate_axes`. Both read their answer off the largest number of each lane over all patches.
#
# Then the test: the same letters, once at the rows and columns of training, 0 to 5, and once **moved** to 6 to 11, where no patch ever was. **Predict** before you
# run: which model names more letters? What does moving cost each of them?


# %% mystnb={"image": {"alt": "Loss against training step, one curve for each model."}}
def my_axial(head_dim, num_heads):
    """An encoding at the place `rotate`, made of your functions."""

    def turn(q, k, at):
        w = axial_freqs(head_dim, 2, 100.0).to(q.device)
        return rotate_axes(q, at.pos_q[:, None], w), rotate_axes(k, at.pos_k[:, None], w)  # positions [B or 1, 1, T, 2]

    return posenc.Encoding(rotate=turn, axes=2)


settings = STUDY["glyphs"]
if preset == "nano":  # to see that it runs; it learns little
    settings = dataclasses.replace(settings, steps=60, warmup=10)
asked = {name: tests("glyphs", 992 if preset != "nano" else 124)[name] for name in ("24", "24, moved")}
ARMS = {"none": lambda head_dim, num_heads: posenc.Encoding(axes=2), "mine": my_axial}
models, right = {}, {}
for name, arm in ARMS.items():
    models[name], losses = train_pictures(arm, "glyphs", seed, settings)
    figure = plot_loss(losses, title=name)
    figure.axes[0].set(ylabel="loss, nats per letter", ylim=(0, 4.5))
    display(figure)
    right[name] = {test: share_right(models[name], pictures) for test, pictures in asked.items()}

# %%
print(f"{'share of right answers':24}", *[f"{test:>10}" for test in asked])
for name, shares in right.items():
    print(f"  {name:22}", *[f"{share:10.3f}" for share in shares.values()])

# %% [markdown]
# Beside the book's frozen results: five seeds each, at the best of three learning rates. Yours are the black marks. A learned table of places stands
# beside the two. What happens to it when the patches are moved? (At preset `nano`, which the book's own copy of this lab runs,
# training stops early, and yours are left out.)

# %% mystnb={"image": {"alt": "Share of letters named rightly, at the places of training and moved, the frozen results with error bars."}}
frozen = load_results("pictures")
of_letters = frozen["tasks"]["glyphs"]["methods"]
arms = {"nope": "none", "rope2d": "axial", "learned": "learned"}  # as the book's other figures call them
chosen = {method: of_letters[arm] for method, arm in arms.items()}
figure = plot_scores({"methods": chosen, "tests": list(asked), "unit": frozen["unit"]})
axes = figure.axes[0]
if settings == STUDY["glyphs"]:
    own = [
        axes.plot(range(len(shares)), list(shares.values()), marker, color="black", label=f"{name}, yours")[0]
        for marker, (name, shares) in zip("x*", right.items())
    ]
    axes.legend(handles=own, frameon=False)
display(figure)
for arm in arms.values():
    means = [sum(values) / len(values) for values in (of_letters[arm]["scores"][test] for test in asked)]
    print(f"{arm:8} mean of {len(frozen['seeds'])} seeds: {means[0]:.3f}, moved {means[1]:.3f}")
print(f"frozen: {frozen['command']} (commit {frozen['commit'][:8]})")

# %% [markdown]
# ## 8. Exercises
#
# **Exercise 5** (on paper).
#
# 1. *The ladder.* For $D = 64$, two axes and base 100, how many steps $t$ are there, and what is the slowest frequency? After how many
#    patches has that pair turned once?
# 2. *The tie.* Show that in the axial form, whatever the contents $q$ and $k$, the scores of one query with keys of one content at the corners of a
#    rectangle obey: upper left minus upper right minus lower left plus lower right is 0. Why can then no content make a query look for the patch one row down
#    and one column right, and for no other? What of the proof fails in the mixed form?
# 3. *Without a place.* Show that the score of a class token that is not turned with a patch at $p$ depends on $p$ itself. What does a model that reads its answer
#    off that token do with a moved picture?
# 4. *By hand.* Give the ids of the first patch, the last patch and the last word of `[3, (4, 6), 1]`. Where would the last word stand if it went on at the
#    number of patches?

# %% [markdown] nbgrader={"grade": true, "grade_id": "paper", "locked": false, "points": 4, "schema_version": 3, "solution": true, "task": false}
# 1. $t = 0, \dots, 15$, and $\omega_{15} = 100^{-15/16} \approx 0.0133$, so once around takes $2\pi / 0.0133 \approx 471$ patches.
# 2. Each pair turns along one axis, so the score is $f(r) + g(c)$: the pairs of rows make $f$, those of columns make $g$. The four corners give
#    $f(r) + g(c) - f(r) - g(c') - f(r') - g(c) + f(r') + g(c') = 0$. If all patches but
#    the one at $(1, 1)$ scored the same $c$, it would score $c + c - c = c$ too: what a query gains by the row, it gains at $(1, 0)$ as well. In the
#    mixed form a pair's score is a cosine of $p_0 \omega_0 + p_1 \omega_1$, which is no sum of a function of $p_0$ and one of $p_1$.
# 3. $q^\top R(p)\,k$ has nothing to subtract $p$ from. Moving the picture by $d$ turns each key once more, $q^\top R(p + d)\,k$, so the scores change, and with
#    them what the token reads: the answer may change though no two patches moved against each other.
# 4. First patch $(3, 3, 3)$, last patch $(3, 6, 8)$, last word $(9, 9, 9)$. By the number of patches it would stand at 27.

# %% [markdown]
# **Exercise 6** (open). *A class token.* Vision transformers often read their answer off a class token instead of the largest numbers of the patches. It stands
# nowhere, so it is not turned. What does moving the letters cost now? Write your prediction down, then set `PREDICTED`. What would you change so that
# the token costs nothing?

# %%
PREDICTED = False  # True once your prediction is written down

if PREDICTED:
    model, _ = train_pictures(my_axial, "glyphs", seed, settings, pool="token")
    with_token = {test: share_right(model, pictures) for test, pictures in asked.items()}
    for name, shares in (("class token", with_token), ("largest numbers", right["mine"])):
        print(f"{name:16}", ", ".join(f"{test}: {share:.3f}" for test, share in shares.items()))
