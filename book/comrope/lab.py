# %% [markdown]
# # Lab: Rotations that commute
#
# {{badge}}
#
# You will
# - **build** the rotations of LieRE from learned matrices, and the two ways of ComRoPE to make them commute,
# - **see** how scores begin to depend on the place, as two generators stop commuting under your hand,
# - **train** LieRE and ComRoPE on a question that only the relative place answers, and move the pictures away.
#
# Time: about 45 minutes of yours, of which the computer works less than 3 on a CPU. The chapter *Rotations that commute* has
# the proofs.

# %% tags=["install"]
# {{install}}

# %%
import dataclasses
import math
import os

import matplotlib.pyplot as plt
import torch
from IPython.display import display
from ipywidgets import FloatSlider, IntSlider, SelectionSlider

import posenc
from posenc.lab.check import check, student_seed
from posenc.lab.experiments import load_results
from posenc.lab.experiments.plots import plot_scores
from posenc.lab.explore import interact
from posenc.lab.train import pick_device
from posenc.lab.train.curve import plot_loss
from posenc.lab.train.glyphs import STUDY, draw_left, grid, share_right, tests, train_pictures

preset = os.environ.get("POSENC_PRESET", "lab")
print("device:", pick_device(), "(the models of this lab are so small that they train on the CPU anyway)")
print("preset:", preset)
seed = student_seed()  # 0, unless your teacher gave you one: %env POSENC_SEED=17 in a cell above
print("seed:", seed)
_ = posenc.explain_impl(posenc.make("comrope", head_dim=64, num_heads=4))

# %% [markdown]
# ## 1. A generator
#
# A rotation of more than two lanes is the exponential of a **skew-symmetric** matrix, $A^\top = -A$. To learn one, learn any matrix $P$
# and take $A = P - P^\top$: then every step of training keeps it skew-symmetric.
#
# **Exercise 1.** `P` is $[\dots, b, b]$, a stack of matrices. Hint: `.mT` transposes the last two axes, `.T` all of them.

# %%
# {{exercise skew}}

# %% [markdown]
# ## 2. The rotation
#
# LieRE has one generator for each axis, and turns a block of $b$ lanes at the position $p = (p_1, \dots, p_n)$ by
#
# $$ R(p) = \exp\Big(\sum_a p_a A_a\Big). $$
#
# **Exercise 2.** `positions` is $[T, n]$, integers or floats, `generators` is $[\dots, n, b, b]$. Return $[\dots, T, b, b]$, one matrix a token. Hints:
# first make the sums, with `positions[..., None, None]`, which is $[T, n, 1, 1]$, and `generators[..., None, :, :, :]`; then take the exponential of matrices,
# `torch.linalg.matrix_exp`. (If you make the sums by `einsum`, put `.contiguous()` behind it: `matrix_exp` asks for that.)

# %%
# {{exercise rotation}}

# %% [markdown]
# Two blocks with random generators, one of two lanes and one of four. Does your $R$ keep lengths, $R^\top R = I$? And does $R(x)^\top R(y)$
# depend on $y - x$ alone, as in RoPE? **Predict** all four answers, then run.


# %%
def relativity_error(generators, places):
    """The largest entry of R(x)^T R(y) - R(y - x) over all pairs of places [T, n], in one block [n, b, b]."""
    R = rotation(places, generators)
    pairs = (places[None] - places[:, None]).flatten(0, 1)  # y - x
    between = rotation(pairs, generators).unflatten(0, (len(places), len(places)))
    return (R[:, None].mT @ R[None] - between).abs().max().item()


generator = torch.Generator().manual_seed(0)
places = grid(5, 5).double()
for b in (2, 4):
    A = skew(torch.randn(2, b, b, generator=generator, dtype=torch.float64)) / 2
    R = rotation(places, A)
    lengths = (R.mT @ R - torch.eye(b)).abs().max()
    print(f"block of {b}: R^T R off by {lengths:.0e}, R(x)^T R(y) off by {relativity_error(A, places):.0e}")

# %% [markdown]
# ## 3. Do they commute?
#
# The theorem of the chapter: $R(x)^\top R(y) = R(y - x)$ for all $x$ and $y$ **if and only if** the generators commute, $A_i A_j = A_j A_i$.
#
# **Exercise 3.** `generators` is $[n, b, b]$. Return the largest absolute entry of $A_i A_j - A_j A_i$ over **all** pairs, as one number. Hint:
# `generators[:, None] @ generators[None]` holds all products.

# %%
# {{exercise commutator_error}}

# %% [markdown]
# ## 4. See it
#
# Two generators of one block. At `mix` 0 the second one is a multiple of the first, at 1 it is a matrix of its own. A key stands three rows below the query, and both
# move together along a straight line: at 0 degrees down the rows, at 90 along the columns. RoPE's score would stay level.
#
# **Predict** before you move anything. At `mix` 1, is there a direction in which the score stays level all the same? Is there a block size at which
# it does not matter how much you mix?


# %% mystnb={"image": {"alt": "Score of a query and a key three rows below it, against how far both have moved, at one position of the sliders."}}
def two_generators(mix, block):
    """Generators [2, b, b]: the second turns from a multiple of the first into one of its own."""
    P, Q = torch.randn(2, block, block, generator=torch.Generator().manual_seed(1), dtype=torch.float64) / block**0.5
    return torch.stack((skew(P), (1 - mix) * 0.7 * skew(P) + mix * skew(Q)))


def moved(mix, block, degrees):
    """The score of two tokens that move together, by your rotation."""
    A = two_generators(mix, block)
    steps, along = torch.linspace(0, 12, 97, dtype=torch.float64), math.radians(degrees)
    query = steps[:, None] * torch.tensor([math.cos(along), math.sin(along)], dtype=torch.float64)
    key = query + torch.tensor([3.0, 0.0], dtype=torch.float64)
    q, k = torch.randn(2, block, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    q, k = q / q.norm(), k / k.norm()
    score = ((rotation(query, A) @ q) * (rotation(key, A) @ k)).sum(-1)
    figure, axis = plt.subplots(figsize=(7, 2.8), layout="constrained")
    axis.plot(steps, score, color="#0072b2")
    axis.set(xlabel="how far both have moved, in patches", ylabel="score", ylim=(-1.05, 1.05))
    axis.set_title(f"A₁A₂ − A₂A₁ up to {float(commutator_error(A)):.2g}")
    plt.show()
    print(f"R(x)^T R(y) - R(y - x) on a grid of 5 x 5: up to {relativity_error(A, places):.1g}")


interact(
    moved,
    mix=FloatSlider(0.5, min=0, max=1, step=0.05, continuous_update=False),
    block=SelectionSlider(options=[2, 3, 4, 8], value=4, continuous_update=False),
    degrees=IntSlider(45, min=0, max=90, step=15, continuous_update=False),
)

# %% [markdown]
# ## 5. Commute by construction
#
# ComRoPE keeps blocks of any size, and chooses generators that cannot but commute. It has two forms.
#
# **AP**, axial partition: each block turns along one axis alone. Block $j$ belongs to axis $j \bmod n$; its generators for the other axes are 0.
#
# **Exercise 4.** `P` is $[m, b, b]$, a matrix for each of $m$ blocks, `axes` is $n$. Return the generators $[m, n, b, b]$, zeros where a block does not turn. Use your
# `skew`.

# %%
# {{exercise ap_generators}}

# %% [markdown]
# **LD**, linearly dependent: all generators of a block are multiples of one matrix,
#
# $$ A_a = \theta_a\,(P - P^\top), $$
#
# and $\theta$ is learned too.
#
# **Exercise 5.** `theta` is $[\dots, n]$ and `P` is $[\dots, b, b]$, with the same axes in front (heads, blocks). Return $[\dots, n, b, b]$. Look at the
# shapes before you multiply: where does the axis of the $n$ coordinates belong in $P - P^\top$?

# %%
# {{exercise ld_generators}}

# %% [markdown]
# Four blocks of four lanes, three ways. The last column asks what a way cannot see: the block moves by $(2, -1)$, and the number is how far $R$ of the first block moves away
# from $I$. For LD, $\theta = (1, 2)$.

# %%
P = torch.randn(2, 4, 4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64) / 2
theta = torch.tensor([1.0, 2.0], dtype=torch.float64).expand(4, 2)
ways = {"LieRE": skew(P).transpose(0, 1), "AP": ap_generators(P[0], 2), "LD": ld_generators(theta, P[0])}
for name, blocks in ways.items():  # [4 blocks, 2 axes, 4, 4]
    bracket = max(float(commutator_error(A)) for A in blocks)
    off = max(relativity_error(A, places) for A in blocks)
    step = (rotation(torch.tensor([[2, -1]]), blocks[0]) - torch.eye(4)).abs().max()
    print(f"{name:6} commutators up to {bracket:.0e}, R(x)^T R(y) off by up to {off:.0e}, a move seen as {step:.0e}")

# %% [markdown]
# What a block of LD is blind to, in the chapter's figure: the stripes are keys that it cannot tell apart.

# %%
from posenc.chapters.comrope import figures

display(figures.blind)

# %% [markdown]
# ## 6. The kernel
#
# A rotation of planes is done while a kernel loads queries and keys. A block of four lanes is a small matrix product, and its exponential a
# long series, so `posenc` leaves both to PyTorch: block products first, fused attention after. What serves this encoding on your machine, and does it
# give your numbers?

# %%
from posenc.lab.check.trial import against

torch.manual_seed(0)
encoding = posenc.make("comrope", head_dim=64, num_heads=4, form="ld", block=4)


def in_rows(count):
    """The first `count` patches of a picture that is 64 wide."""
    return torch.stack((torch.arange(count) // 64, torch.arange(count) % 64), -1)


def turn(x, R):
    """Block products: x [B, H, T, D] by R [H, m, T, b, b], one of the m blocks of b lanes after the other."""
    blocks = x.unflatten(-1, (R.shape[1], R.shape[-1])).to(R.dtype)  # [B, H, T, m, b]
    return torch.einsum("hmtij,bhtmj->bhtmi", R, blocks).flatten(-2).to(x.dtype)


def mine(q, k, v):
    P, theta = encoding.rotate.matrices.detach(), encoding.rotate.theta.detach().mT  # [H, m, b, b], [H, m, n]
    R = rotation(in_rows(q.shape[-2]).to(q.device), ld_generators(theta, P))
    return (turn(q, R) @ turn(k, R).mT / q.shape[-1] ** 0.5).softmax(-1) @ v


_ = posenc.explain_impl(encoding)
_ = against(mine, encoding, positions=in_rows, causal=False)

# %% [markdown]
# ## 7. Train
#
# A dot and a bar on 24 x 24 pixels, 6 x 6 patches: is the dot **left** of the bar? Only the relative place of two things answers this, not the place of either.

# %% mystnb={"image": {"alt": "Eight pictures of a dot and a bar, each with its answer."}}
figure, axes = plt.subplots(1, 8, figsize=(9, 1.5), layout="constrained")
drawn = draw_left(torch.Generator().manual_seed(seed), 8)
for axis, picture, answer in zip(axes, drawn.pictures, drawn.answers):
    axis.imshow(picture, cmap="gray_r")
    axis.set(title="left" if answer else "right", xticks=[], yticks=[])
plt.show()

# %% [markdown]
# Two models with the same start of all but the generators, and the same pictures. **LieRE** learns a generator for each block of eight lanes and each axis,
# **LD** one matrix a block and its $\theta$. Both are made of your functions.
#
# The tests: pictures like those of training; the same **moved**, at rows and columns 6 to 11 in place of 0 to 5; and pictures of 48 pixels, whose dot and bar
# stand **farther apart** than any in training. **Predict** before you run: which of the two gives other *answers* when the pictures are moved? Which one gives other
# *numbers*? What does either know of distances that training never showed?


# %% mystnb={"image": {"alt": "Loss against training step, one curve for each model."}}
class MyBlocks(torch.nn.Module):
    """At the place `rotate`: blocks of lanes, turned by your functions."""

    def __init__(self, head_dim, num_heads, form, block):
        super().__init__()
        blocks = head_dim // block
        shape = (num_heads, blocks, 2) if form == "LieRE" else (num_heads, blocks)
        self.form, self.P = form, torch.nn.Parameter(0.3 * torch.randn(*shape, block, block))
        self.theta = torch.nn.Parameter(torch.randn(num_heads, blocks, 2)) if form == "LD" else None

    def generators(self):
        """[H, m, n, b, b], as your `rotation` takes them."""
        if self.form == "LieRE":
            return skew(self.P)
        if self.form == "LD":
            return ld_generators(self.theta, self.P)
        return torch.stack([ap_generators(P, 2) for P in self.P])

    def forward(self, q, k, at):
        R = rotation(at.pos_q[0], self.generators())  # the same places in all pictures, for queries and keys
        return turn(q, R), turn(k, R)


def my_encoding(form, block=8):
    return lambda head_dim, num_heads: posenc.Encoding(rotate=MyBlocks(head_dim, num_heads, form, block), axes=2)


def settings_of(task):
    """As in the book; at preset nano stopped early, to see that it runs."""
    return dataclasses.replace(STUDY[task], steps=60, warmup=10) if preset == "nano" else STUDY[task]


TESTS = ("24", "24, moved", "48, farther apart")
asked = {name: tests("left", 992 if preset != "nano" else 124)[name] for name in TESTS}
models, right = {}, {}
for name in ("LieRE", "LD"):
    models[name], losses = train_pictures(my_encoding(name), "left", seed, settings_of("left"))
    figure = plot_loss(losses, title=name)
    figure.axes[0].set(ylabel="loss, nats per picture", ylim=(0, 1))
    display(figure)
    right[name] = {test: share_right(models[name], pictures) for test, pictures in asked.items()}

# %%
print(f"{'share of right answers':24}", *[f"{test:>18}" for test in asked])
for name, shares in right.items():
    print(f"  {name:22}", *[f"{share:18.3f}" for share in shares.values()])

# %% [markdown]
# An answer is the sign of a margin, the logit of *left* minus that of *right*. Look behind it: by how much do the margins change when a picture moves, measured by
# how much they differ from picture to picture? And did LieRE learn generators that commute, since the question is a relative one?


# %%
@torch.no_grad()
def margins(model, drawn):
    """The logit of left minus the logit of right, a number for each picture."""
    logits = model(drawn.pictures, drawn.positions)
    return logits[:, 1] - logits[:, 0]


for name, model in models.items():
    here, there = (margins(model, asked[test]) for test in TESTS[:2])
    print(f"{name:5} margins change by {((there - here).std() / here.std()).item():.1e} of their spread when moved")
    for layer, block in enumerate(model.blocks):
        every = block.attention.encoding.rotate.generators().detach().double().flatten(0, 1)  # [H m, 2, b, b]
        brackets = torch.stack([torch.as_tensor(commutator_error(A)) for A in every])
        off = torch.tensor([relativity_error(A, places) for A in every])
        print(f"  layer {layer}: median commutator {brackets.median():.0e}, R(x)^T R(y) off by {off.median():.0e}")

# %% [markdown]
# Beside the book's frozen results: five seeds each, at the best of three learning rates, blocks of eight lanes as here. Yours are the black marks. The second figure
# is another task, not trained here: which of 62 characters is it? **Compare** what moving costs in the two. Why might a question with two answers and wide margins
# forgive what a question with 62 does not? (At preset `nano`, which the book's own copy of this lab runs, training stops early, and yours are left out.)

# %% mystnb={"image": {"alt": "Share of right answers, LieRE and ComRoPE, at the places of training and moved, the frozen results with error bars."}}
frozen = load_results("pictures")
arms = {"liere": "liere 8", "comrope": "comrope ld"}  # as the book's other figures call them
for task, columns in (("left", TESTS), ("glyphs", TESTS[:2])):
    of_task = frozen["tasks"][task]["methods"]
    chosen = {method: of_task[arm] for method, arm in arms.items()}
    figure = plot_scores({"methods": chosen, "tests": columns, "unit": frozen["unit"]})
    axes = figure.axes[0]
    axes.set_title(task)
    if task == "left" and settings_of(task) == STUDY[task]:
        own = [
            axes.plot(range(len(shares)), list(shares.values()), marker, color="black", label=f"{name}, yours")[0]
            for marker, (name, shares) in zip("x*", right.items())
        ]
        axes.legend(handles=own, frameon=False)
    display(figure)
    for arm in arms.values():
        means = [sum(values) / len(values) for values in (of_task[arm]["scores"][test] for test in columns)]
        seeds = f"{task}, {arm}, mean of {len(frozen['seeds'])} seeds"
        print(f"{seeds:36}", "; ".join(f"{test}: {m:.3f}" for test, m in zip(columns, means)))
print(f"frozen: {frozen['command']} (commit {frozen['commit'][:8]})")

# %% [markdown]
# ## 8. Exercises
#
# **Exercise 6** (on paper).
#
# 1. *Count.* How many free numbers has a skew-symmetric block of $b$ lanes? A head has $D = 64$ lanes in blocks of 4, and two axes: how many numbers do LieRE, AP and LD
#    learn that matter? ($P$ has more, and in LD one number a block can go into $\theta$ or into $P$.)
# 2. *Planes.* Show that blocks of two lanes always commute. Which method of the chapter *Two axes and more* is LieRE with blocks of two?
# 3. *On a line.* Take any generators, and tokens that all stand on one straight line through the origin, $p = c\,u$. Show that $R(x)^\top R(y) = R(y - x)$ for
#    them. Why can then no test with tokens in one row tell LieRE from ComRoPE?
# 4. *A basis.* A skew-symmetric $A$ of four lanes is $A = U \Omega U^\top$, with $U$ orthogonal and $\Omega$ made of two planes that turn by $\omega_1$ and $\omega_2$. Write the $R(p)$ of an LD
#    block with it. Which matrices of the model could hold $U$ instead? What is then left of LD?

# %% [markdown] nbgrader={"grade": true, "grade_id": "paper", "locked": false, "points": 4, "schema_version": 3, "solution": true, "task": false}
# 1. $b(b-1)/2$, here 6, in 16 blocks. LieRE: $16 \cdot 2 \cdot 6 = 192$. AP: $16 \cdot 6 = 96$. LD: $16 \cdot (6 + 2 - 1) = 112$.
# 2. A skew-symmetric matrix of two lanes is $\omega J$ with the one $J = (0, -1; 1, 0)$, and $\omega J\,\omega' J = \omega' J\,\omega J$. So $R(p)$ turns the pair by
#    $\sum_a p_a \omega_a$: RoPE's mixed form.
# 3. $\sum_a p_a A_a = c \sum_a u_a A_a = c A_u$. One matrix commutes with its multiples, so $\exp(-c_x A_u) \exp(c_y A_u) = \exp((c_y - c_x) A_u)$. Tokens of row 0 are
#    such a line, so on them LieRE is relative whatever it learned.
# 4. $R(p) = U \exp((\theta \cdot p)\,\Omega)\,U^\top$: two planes, turned by $\omega_1\,\theta \cdot p$ and $\omega_2\,\theta \cdot p$. In a score, $q^\top R(x)^\top R(y) k$ has $U^\top q$ and $U^\top k$, so
#    $W_q$ and $W_k$ can hold $U^\top$. What is left is the mixed form of RoPE with $b/2$ pairs that share one direction $\theta$.

# %% [markdown]
# **Exercise 7** (open). *The method or the noise?* ComRoPE is trained with noise on the coordinates, half a patch at most here. Would LieRE with that noise
# stand the move too, when it reads letters? Write your prediction down, then set `PREDICTED`; it takes a minute or two. Try `FORM = "LD"` and `"AP"`, other blocks, and more than
# one seed before you believe a difference.

# %%
FORM, BLOCK, NOISE = "LieRE", 8, 0.5
PREDICTED = False  # True once your prediction is written down

if PREDICTED:
    model, _ = train_pictures(my_encoding(FORM, BLOCK), "glyphs", seed, settings_of("glyphs"), perturb=NOISE)
    letters = tests("glyphs")
    print(f"{FORM}, blocks of {BLOCK}, noise {NOISE:g}:", end=" ")
    print("; ".join(f"{test}: {share_right(model, letters[test]):.3f}" for test in TESTS[:2]))
