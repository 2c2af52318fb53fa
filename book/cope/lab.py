# %% [markdown]
# # Lab: CoPE
# {{badge}}
#
# **You will** write the positions, the lookup and the logits of CoPE, set gates by hand until a head counts sentences, train a
# model with *your* functions on two puzzles, and read from its gates what it counts.
#
# **Time**: about 45 minutes. The machine computes for under three of them on a CPU, less on a GPU. The chapter *CoPE: counting
# what matters* of the book has the theory.

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
from posenc.lab.experiments import load_results
from posenc.lab.experiments.plots import plot_scores
from posenc.lab.explore import interact
from posenc.lab.train import pick_device, settings_for, train
from posenc.lab.train.measures import fixed_batch, task_errors
from posenc.lab.train.tasks import IGNORE, TASKS

preset = os.environ.get("POSENC_PRESET", "lab")  # "nano" takes seconds, "study" is what the book shows
seed = student_seed()  # 0, unless your teacher gave you one: %env POSENC_SEED=17 in a cell above
print(f"device: {pick_device()}, preset: {preset}, seed: {seed}")
_ = posenc.explain_impl(posenc.make("cope", head_dim=64))

# %% [markdown]
# ## Build it yourself
# In CoPE a query counts how many gates stand open from a key up to itself. Gates are made of content, so content decides what
# is counted: tokens, words, sentences.
#
# ### Exercise 1: the positions
# The gate of key $j$ for query $i$ is $g_{ij} = \sigma(s_{ij})$ with the logit $s_{ij}$, and 0 where $i$ may not see $j$. The position of
# key $j$ is
#
# $$p_{ij} = \sum_{k=j}^{i} g_{ik},$$
#
# both ends included. From logits `[..., Tq, Tk]` and `visible`, a mask that is True where a query may see a key, return $p$, in the
# shape of the logits. `visible` broadcasts to the logits; it is causal, and may hide more, such as padding. Only keys that
# a query may see are checked.
#
# Hint: `cumsum` runs from the left, `flip` turns a tensor around, `masked_fill(mask, 0.0)` puts a number where the mask is True.

# %%
# {{exercise positions}}
causal = torch.ones(4, 4, dtype=torch.bool).tril()
print("all gates open, last query:", positions(torch.full((4, 4), 30.0), causal)[-1].tolist())
print("all gates half open       :", positions(torch.zeros(4, 4), causal)[-1].tolist())

# %% [markdown]
# ### Exercise 2: the lookup
# A table holds a vector $e_c$ for each whole position $c = 0, \dots, P - 1$. The query asks all of them at once, $z_i[c] = q_i \cdot e_c$, and
# a position between two whole ones mixes their answers:
#
# $$z_i[p] = (1 - w)\, z_i[\lfloor p \rfloor] + w\, z_i[\lceil p \rceil], \qquad w = p - \lfloor p \rfloor.$$
#
# Positions beyond $P - 1$ count as $P - 1$. From `q` `[..., Tq, D]`, `table` `[P, D]` and `p` `[..., Tq, Tk]`, return
# `[..., Tq, Tk]`, in the dtype of `p`.
#
# Hint: `z.gather(-1, rows)` takes from each query's row of `z` the columns `rows`, which must be whole numbers, `long()`, and exist.

# %%
# {{exercise lookup}}
squares = torch.arange(5.0)[:, None] ** 2  # D = 1: row c holds c * c
print("at 0, 1.5, 2, 3.75, 99:", lookup(torch.ones(1, 1), squares, torch.tensor([[0, 1.5, 2, 3.75, 99]]))[0].tolist())

# %% [markdown]
# ### Exercise 3: the logits
# Put together, as the listing in the paper's appendix does it: the gates are made of the *scaled* products, and what is looked up is added
# to them as it is.
#
# $$s_{ij} = \frac{q_i \cdot k_j}{\sqrt D}, \qquad \text{logit}_{ij} = s_{ij} + z_i[p_{ij}].$$
#
# `q` and `k` are `[..., T, D]`, causal; the table `[P, D]` is shared by all heads. Use your two functions. What you return for keys after
# the query is not checked.

# %%
# {{exercise cope_scores}}
q, k = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(0))
print("last query, zero table:", [f"{x:.3f}" for x in cope_scores(q, k, torch.zeros(3, 8))[-1]], "(NoPE)")
print("last query, table of 1:", [f"{x:.3f}" for x in cope_scores(q, k, torch.ones(3, 8))[-1]])

# %% [markdown]
# ### Exercise 4: a head that counts sentences
# Now you choose the logits. A line is given as text with spaces between its tokens; `.`, `!` and `?` end a sentence. Return one logit a token, such that
# the position of each token, seen from the last one, is the number of sentence ends from it up to the last token, to 0.02. There are lines of fifty tokens among
# the checks.

# %%
# {{exercise sentence_logits}}
LINE = "the cat sat , it slept . the dog ran ! did it bark ? it did"
TOKENS = LINE.split()
rows = torch.as_tensor(sentence_logits(LINE)).expand(len(TOKENS), -1)
VISIBLE = torch.ones(len(TOKENS), len(TOKENS), dtype=torch.bool).tril()
print(" ".join(f"{token}[{p:.0f}]" for token, p in zip(TOKENS, positions(rows, VISIBLE)[-1])))

# %% [markdown]
# ## See it
# The gates under your hand: one slider for words, one for commas, one for sentence ends. Above, the positions by your function.
# Below, the weights by your lookup, where all contents are equal and the query asks for one row of the table.
#
# **Predict** before you move: the sliders count sentences and ask for row 1. Which tokens share the weight? Which ones do if words count
# too? And if every gate stands half open: can row 1 still be met?


# %% mystnb={"image": {"alt": "The position of each token of a line, as bars, and the weights of the query below, by your functions, at one position of the sliders."}}
def draw(words, commas, ends, row, query):
    """Positions and weights of one query, with the gates of three kinds of tokens set by hand."""
    kinds = [ends if token in (".", "!", "?") else commas if token == "," else words for token in TOKENS]
    logits = torch.logit(torch.tensor(kinds)).expand(len(TOKENS), -1)
    p = positions(logits, VISIBLE)[query : query + 1]
    table = torch.zeros(8, 1)
    table[row] = 6.0
    bias = lookup(torch.ones(1, 1), table, p).masked_fill(~VISIBLE[query : query + 1], float("-inf"))
    weights = torch.softmax(bias, -1)[0]
    figure, (above, below) = plt.subplots(2, 1, figsize=(9, 4), sharex=True, layout="constrained")
    above.bar(range(query + 1), p[0, : query + 1], color="#0072b2")
    above.axhline(row, color="#c45500", linestyle="--")
    above.set(ylabel="position", ylim=(0, 9))
    below.bar(range(query + 1), weights[: query + 1], color="#c45500", hatch="//")
    below.set(ylabel="weight", ylim=(0, 1), xticks=range(len(TOKENS)), xlim=(-0.6, len(TOKENS) - 0.4))
    below.set_xticklabels(TOKENS)
    above.set_title(f"query '{TOKENS[query]}' asks for row {row}; the farthest token stands at {p[0, 0]:.2f}")
    plt.show()


interact(
    draw,
    words=FloatSlider(value=0.0, min=0, max=1, step=0.05, description="words"),
    commas=FloatSlider(value=0.0, min=0, max=1, step=0.05, description="commas"),
    ends=FloatSlider(value=1.0, min=0, max=1, step=0.05, description="ends"),
    row=IntSlider(value=1, min=0, max=7, description="row asked"),
    query=IntSlider(value=len(TOKENS) - 1, min=0, max=len(TOKENS) - 1, description="query"),
)

# %% [markdown]
# ## The kernel
# Your logits are a matrix of $T \times T$ numbers, and so are the gates and the positions. The Triton kernel holds one block of them at a time: it
# walks along the keys from the newest to the oldest and carries the count of open gates from block to block. Are they the same
# numbers, and the same gradients? *From formula to kernel* has its code.

# %%
from posenc.lab.check.trial import against

made = posenc.make("cope", head_dim=64, num_positions=16)  # few rows, so that far keys meet the clamp
with torch.no_grad():
    made.bias.table.normal_(std=0.1, generator=torch.Generator().manual_seed(1))


def mine(q, k, v):
    logits = cope_scores(q, k, made.bias.table.detach().to(q))
    future = torch.ones(logits.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    return logits.masked_fill(future, float("-inf")).softmax(-1).to(v.dtype) @ v


_ = against(mine, made)

# %% [markdown]
# ## Train
# Two puzzles of the chapter. *Flip-flop*: one bit of memory, `w` writes the next bit, `i` ignores it, and after `r` the bit written last is
# wanted. *Counting*: `0` resets, `+` adds one, `.` passes, and after `?` the count is wanted.

# %%
for task in ("flipflop", "counting"):
    print(textwrap.fill(f"{task}: {TASKS[task].example(28, seed=3)}", 100))

# %% [markdown]
# Both are trained with RoPE and with *your* CoPE, from the same start and on the same sequences; the learning rates of each are those
# that the book's study chose for it. **Predict**: which tokens should a head of flip-flop count, so that the last write always stands at the same
# position? And a head of counting?


# %% mystnb={"image": {"alt": "Loss against training step, one curve a model and puzzle."}}
class MyCope(torch.nn.Module):
    """What stands at the place `bias`: called with q, k and what attention knows, the scaled products among it."""

    def __init__(self, head_dim, num_positions=64):
        super().__init__()
        self.table = torch.nn.Parameter(torch.zeros(num_positions, head_dim))

    def forward(self, q, k, at):
        self.gates = torch.sigmoid(at.scores.detach())  # kept for the pictures below
        return lookup(q, self.table, positions(at.scores, at.visible))


def my_cope(settings, num_positions=64):
    """make_encoding(layer) for `train`, with tables of this many rows."""
    head_dim = settings.dim // settings.num_heads
    return lambda layer: posenc.Encoding(bias=MyCope(head_dim, num_positions))


frozen = {task: load_results(task) for task in ("flipflop", "counting")}
models, errors = {}, {}
for task in frozen:
    for name in ("rope", "cope"):
        rates = frozen[task]["choice"][name]
        settings = settings_for(preset, task, **rates)
        encoding = my_cope(settings) if name == "cope" else name
        models[task, name], history = train(encoding, preset, seed, task=task, live=True, **rates)
        errors[task, name] = task_errors(models[task, name], task, settings)
        tail = sum(history["loss"][-10:]) / 10
        print(f"{task}, {name}: last loss {tail:.3f} nats an answer")

# %% [markdown]
# The share of wrong answers, in training's distribution (*in*) and outside of it:

# %%
for task in ("flipflop", "counting"):
    print(f"{task:12}" + "".join(f"{test:>12}" for test in errors[task, "rope"]))
    for name in ("rope", "cope"):
        print(f"{name:>12}" + "".join(f"{100 * share:11.1f}%" for share in errors[task, name].values()))

# %% [markdown]
# What do the gates of your model count? Each row is a head, each column a kind of token: the mean gate that queries
# which must answer hold over such keys. 1 counts, 0 does not.


# %% mystnb={"image": {"alt": "Two tables in gray: the mean gate of each head of your trained model over each kind of token, for flip-flop and counting."}}
def kinds_of(tokens, vocabulary):
    """The kind of each token [T]: an instruction is its own kind, a digit belongs to the instruction before it."""
    words = [vocabulary[token] for token in tokens]
    digits = {"w": "bit of w", "i": "bit of i", "r": "bit of r", "?": "answer"}
    return [digits.get(before, "reset") if word.isdigit() else word for before, word in zip([None, *words], words)]


@torch.no_grad()
def gates_by_kind(model, task):
    """The kinds of tokens, and the mean gate of each head over each of them: (names, [heads, kinds])."""
    settings = settings_for(preset, task)
    batch = fixed_batch(task, settings, {}, sequences=32)
    model(batch.tokens.to(pick_device()))
    kinds = [kinds_of(row.tolist(), TASKS[task].vocabulary) for row in batch.tokens]
    names = sorted({kind for row in kinds for kind in row})
    of_kind = torch.tensor([[names.index(kind) for kind in row] for row in kinds])  # [B, T]
    asks = (batch.targets != IGNORE)[:, :, None]  # [B, Tq, 1]
    past = torch.ones(settings.length, settings.length, dtype=torch.bool).tril()
    means = []
    for block in model.blocks:
        gates = block.attention.encoding.bias.gates.float().cpu()  # [B, H, Tq, Tk]
        pairs = [asks & past & (of_kind == number)[:, None, :] for number in range(len(names))]
        means.append(torch.stack([gates.transpose(0, 1)[:, chosen].mean(1) for chosen in pairs], dim=1))
    return names, torch.cat(means)


figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
for axis, task in zip(axes, ("flipflop", "counting")):
    names, means = gates_by_kind(models[task, "cope"], task)
    axis.imshow(means, cmap="Greys", vmin=0, vmax=1, aspect="auto")
    for (head, kind), value in zip(torch.cartesian_prod(*map(torch.arange, means.shape)).tolist(), means.flatten()):
        axis.text(kind, head, f"{value:.2f}", ha="center", va="center", color="white" if value > 0.5 else "black")
    heads = models[task, "cope"].blocks[0].attention.num_heads
    axis.set_yticks(range(len(means)), [f"layer {n // heads} head {n % heads}" for n in range(len(means))])
    axis.set_xticks(range(len(names)), names)
    axis.set_title(task)
plt.show()

# %% [markdown]
# **Read it.** A head whose gates are the same everywhere counts tokens, if slowly. In the first layer a gate sees one token alone, so it
# can't tell a written bit from an ignored one: there `bit of w` and `bit of i` are alike. Is there a head that counts what you predicted?
#
# Beside the book's frozen results: five seeds each, at rates that were chosen on other seeds. Shaw's is a table too, read at how many tokens back a
# key stands: it has rows, and no gates. (Preset `nano` has shorter sequences, so your models are left out there.)

# %% mystnb={"image": {"alt": "Share of wrong answers on each test of flip-flop and of counting: RoPE, CoPE and Shaw, five seeds each, your two models in black."}}
for task, part in frozen.items():
    tests = list(errors[task, "cope"])
    figure = plot_scores(part, tests, ["rope", "cope", "shaw"])
    axis = figure.axes[0]
    if settings_for(preset, task).length == part["settings"]["length"]:
        for name, mark, aside in (("rope", "x", -0.13), ("cope", "*", 0)):
            at = [n + aside for n in range(len(tests))]
            axis.plot(at, [errors[task, name][test] for test in tests], mark, color="black", markersize=9)
    axis.set_title(f"{task} (black: x your RoPE, * your CoPE)")
    display(figure)
    claim = f"{part['claims']['cope']}. {part['predictions']['cope']}"
    print(textwrap.fill(f"Predicted of cope, from {' to '.join(part['contrast'])}: {claim}", 100))

# %% [markdown]
# ## Exercises
# 1. **Easy.** The cell below trains counting with tables of 3 rows: all that is farther stands at row 2. Predict which tests suffer, then try 2, 8 and
#    64 rows, and more than one seed before you believe a difference.
# 2. **Harder.** A gate is made of the same product as the logit, so what is counted is also what attracts weight. Give `MyCope` keys of its own for
#    the gates: one more linear map in it, and gates $\sigma(q_i \cdot W k_j / \sqrt D)$. Which heads change what they count?
# 3. **On paper.** Below.
# 4. **Open.** Invent a puzzle that needs two counts at once, such as "the third word of the last sentence but one". How many heads or layers does your CoPE
#    need for it? What is the control that tells counting from looking up?

# %%
nano = settings_for("nano", "counting")
for num_positions in (3, 64):
    small, _ = train(my_cope(nano, num_positions), "nano", seed, task="counting", steps=60 if preset == "nano" else 300)
    shares = task_errors(small, "counting", nano, sequences=64)
    print(f"{num_positions:3} rows: " + ", ".join(f"{test} {100 * share:.0f}%" for test, share in shares.items()))

# %% [markdown]
# **On paper.**
#
# a) Equation 5 of the paper interpolates vectors: $e[p] = (1 - w)\, e_{\lfloor p \rfloor} + w\, e_{\lceil p \rceil}$, and the logit gets $q_i \cdot e[p_{ij}]$. Show that your
# `lookup` gives the same number. How many products of two vectors do $T$ queries over $T$ keys take in this way, how many in yours?
#
# b) A head has gates of 0.99 at sentence ends and of 0.01 elsewhere. Take a sentence end and a word shortly before it: they stand at nearly
# the same position, so the table adds nearly the same to both. By which factor is the weight of the end larger than that of the word? Can another
# table change that? What can?

# %% [markdown] nbgrader={"grade": true, "grade_id": "paper", "locked": false, "points": 4, "schema_version": 3, "solution": true, "task": false}
# a) A product is linear: $q \cdot ((1 - w)\, e_a + w\, e_b) = (1 - w)\, q \cdot e_a + w\, q \cdot e_b$, which mixes two of the numbers $z[c]$. One product a pair of
# query and key, about $T^2/2$ of them under the causal mask, against $P$ a query, $TP$ in all.
#
# b) The logit of a gate $g$ is $\ln(g / (1 - g))$: $\ln 99$ at the end, $-\ln 99$ at the word. They differ by $2 \ln 99 = 9.19$, so the weights by
# $99^2 = 9801$. The table sees the position alone, and the two positions differ by some 0.01, so no table of moderate size tells them apart: within a sentence
# the end takes all. Gates made of other keys than the logits would part the two uses; or the layer below writes what matters of a sentence into its end.
