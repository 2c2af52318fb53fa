# %% [markdown]
# # Lab: Inside a pretrained model
#
# {{badge}}
#
# You will
# - **see** where the heads of a model that people use look, in a sentence of your own,
# - **find** what it costs to cut its attention, and which one key must stay,
# - **move** its positions beyond those of training, with nothing else changed, and slow its pairs down.
#
# Time: about 40 minutes of yours, of which the computer works about 3 on a CPU. The chapter *Inside a pretrained model* has the same questions
# at the full length.

# %% tags=["install"]
# {{install}}

# %%
import math
import os
from pydoc_data.topics import topics

import matplotlib.pyplot as plt
import torch
from ipywidgets import IntSlider
from torch.nn.functional import cross_entropy
from transformers import AttentionInterface

import posenc
from posenc.chapters.pretrained.facts import load_model
from posenc.lab.check import check, student_seed
from posenc.lab.experiments import load_results
from posenc.lab.explore import interact
from posenc.lab.train import pick_device

preset = os.environ.get("POSENC_PRESET", "lab")
device = pick_device()
print("device:", device)
print("preset:", preset)
seed = student_seed()  # 0, unless your teacher gave you one: %env POSENC_SEED=17 in a cell above
print("seed:", seed)
model, tokenizer = load_model(preset)  # some 100 or 270 MB; without a network a tiny random model, and it says so
model = model.to(device)
_ = posenc.explain_impl(posenc.make("rope", head_dim=64))

# %% [markdown]
# ## 1. What does its configuration say?

# %%
reading = posenc.configs.read(model.config)
layer = reading[0]
trained, base, dim = layer.trained, layer.rope.base, layer.head_dim
print(f"{len(reading)} layers; heads of {dim} lanes; base {base:,.0f}; trained with {trained:,} tokens")
for extent in reading.at(4 * trained):
    print(f"in {4 * trained:,} tokens: {extent.words}")

# %% [markdown]
# A pair is *slow* if it never came full circle in training: $2\pi\, b^{2i/D}$ tokens are more than the longest text had. What lies beyond is then new to it.
#
# **Exercise 1.** Which pairs are slow? Return a bool tensor $[D/2]$, the fastest pair first.

# %%
# {{exercise slow_pairs}}

# %%
slow = slow_pairs(base, dim, trained)
print(f"{int(slow.sum())} of {dim // 2} pairs never came full circle: from pair {int(slow.int().argmax())} on")

# %% [markdown]
# ## 2. Your own sentence
#
# **Predict** before you run. A head may look at the word before, at words of one meaning, at punctuation. In a model of hundreds of heads, what do most of
# them look at most of the time?

# %%
SENTENCE = "The cat sat on the mat, and the dog sat on the cat."  # write your own, up to some thirty words

tokens = tokenizer(SENTENCE)[:48]
model.set_attn_implementation("eager")  # the one that gives its weights away
with torch.no_grad():
    seen = model(torch.tensor([tokens], device=device), output_attentions=True).attentions
weights = torch.stack([layer[0].float().cpu() for layer in seen])  # [layers, heads, T, T]
print(" | ".join(tokenizer.pieces(tokens)))
print("weights:", list(weights.shape))

# %% [markdown]
# **Exercise 2.** `weights` is $[H, T, T]$, a layer's. Return $[H, 3]$: the mean weight that each head puts on the **first** token, on the query **itself**, on the token
# **before** it, over the queries from the third on. Hint: `diagonal(offset, dim1, dim2)`.

# %%
# {{exercise shares}}

# %% mystnb={"image": {"alt": "Three maps, a row a layer and a column a head: the share of weight on the first token, on the token itself, on the one before."}}
maps = torch.stack([shares(layer) for layer in weights])  # [layers, heads, 3]
figure, axes = plt.subplots(1, 3, figsize=(7.5, 4.2), layout="constrained", sharey=True)
for axis, part, name in zip(axes, maps.unbind(-1), ("the first token", "itself", "the one before")):
    image = axis.imshow(part, vmin=0, vmax=1, cmap="Blues", aspect="auto")
    axis.set(title=name, xlabel="head")
    best = divmod(int(part.argmax()), part.shape[1])
    print(f"{name:16} mean {part.mean():.2f}; most in layer {best[0]}, head {best[1]}: {part.max():.2f}")
axes[0].set_ylabel("layer")
figure.colorbar(image, ax=axes, label="share of weight")
plt.show()

# %% [markdown]
# One head at a time. Find one that looks at the token before, one that rests on the first token, and one of which you can say what it looks for.


# %% mystnb={"image": {"alt": "A map of one head's weights: a row a token that asks, a column a token that is asked."}}
def head_of(layer, head):
    """The weights of one head on your sentence."""
    pieces = tokenizer.pieces(tokens)
    figure, axis = plt.subplots(figsize=(5.4, 5), layout="constrained")
    axis.imshow(weights[layer, head], vmin=0, vmax=1, cmap="Blues")
    axis.set_xticks(range(len(pieces)), pieces, rotation=90)
    axis.set_yticks(range(len(pieces)), pieces)
    axis.set(xlabel="is looked at", ylabel="looks")
    plt.show()


interact(
    head_of,
    layer=IntSlider(0, min=0, max=len(weights) - 1, continuous_update=False),
    head=IntSlider(0, min=0, max=weights.shape[1] - 1, continuous_update=False),
)

# %% [markdown]
# ## 3. Cut its attention
#
# A sliding window: each query sees the nearest $W$ keys alone. Or those and the first few of the text, wherever it stands.
#
# **Exercise 3.** Return the mask $[T, T]$, True where a query (a row) sees a key (a column): the nearest `window`, its own among them, and the first `first` keys.

# %%
# {{exercise visible}}

# %% [markdown]
# **Exercise 4.** `logits` is $[T, V]$ for `tokens` $[T]$. Return the mean loss of the last `count` tokens, in nats. Mind which row tells which token.

# %%
# {{exercise last_loss}}

# %% [markdown]
# The model reads a text of Python's documentation, with your mask in each layer, and the last quarter is asked. **Predict**: which costs more, to lose all keys but
# the nearest quarter, or to lose the first key of the text besides?

# %%
length = 512 if preset != "nano" else 128
count = window = length // 4
text = "\n".join(topics.values())[seed * 10_000 :][: 8 * length]
text = torch.tensor(tokenizer(text)[:length], device=device)
kept = {"mask": None}


def ours(module, q, k, v, attention_mask, scaling, **options):
    """What each layer calls in place of its own attention."""
    output = posenc.attention(q, k, v, mask=kept["mask"], scale=scaling)
    return output.transpose(1, 2), None


AttentionInterface.register("ours", ours)
model.set_attn_implementation("ours")


@torch.no_grad()
def loss(mask=None, positions=None):
    """The loss of the last quarter of the text, in nats a token."""
    kept["mask"] = None if mask is None else mask.to(device)
    told = {} if positions is None else {"position_ids": positions[None].to(device)}
    return float(last_loss(model(text[None], use_cache=False, **told).logits[0].float(), text, count))


cut = {"all keys": None}
for first in (0, 1, 4):
    cut[f"the nearest {window}, and the first {first}"] = visible(length, window, first)
cuts = {name: loss(mask) for name, mask in cut.items()}
for name, value in cuts.items():
    print(f"{name:32} {value:6.3f} nats   {value - cuts['all keys']:+.3f}")

# %% [markdown]
# **Read it.** A softmax must put its weight somewhere. A head that finds nothing it wants rests on the first token, which every query sees; take that key away, and the
# weight goes to keys that say something. (A model of random weights has learned no such thing.) Here the first key stands at distances that
# training had. The chapter shows what becomes of it where it does not.
#
# ## 4. Distance alone
#
# To reach far distances one needs no long text: positions are numbers. Leave the text as it is, and move the last quarter away from the rest.
#
# **Exercise 5.** Return positions $[T]$: 0, 1, 2, ... for the tokens before the last `count`; then a gap, after which they are one apart again, and the last stands at `farthest`.

# %%
# {{exercise with_gap}}

# %% [markdown]
# **Predict** the order of four losses: no gap; a gap up to the last position of training; to twice and to four times that. And where between them does a model stand that
# cannot see what is before the gap at all?

# %%
gaps = {"no gap": cuts["all keys"]}
for times in (1, 2, 4):
    gaps[f"last at {times * trained - 1:,}"] = loss(positions=with_gap(length, count, times * trained - 1))
behind = torch.arange(length)[:, None] >= length - count
gaps["nothing before the gap"] = loss(~(behind & ~behind.mT))
for name, value in gaps.items():
    print(f"{name:24} {value:6.3f} nats   {value - gaps['no gap']:+.3f}")

# %% [markdown]
# ## 5. Hold them near
#
# The other way around: keep every key, and let none be farther away than training had it. What would be farther stands at position 0, all in one place.
#
# **Exercise 6.** Return positions $[T]$ that end at `limit`, one apart; the oldest tokens, which would come below 0, all have 0.

# %%
# {{exercise held_near}}

# %%
near = {"as they are": cuts["all keys"]}
for limit in (length // 2, length // 4):
    near[f"none farther than {limit}"] = loss(positions=held_near(length, limit))
for name, value in near.items():
    print(f"{name:24} {value:6.3f} nats   {value - near['as they are']:+.3f}")

# %% [markdown]
# ## 6. Slow its pairs down
#
# Position interpolation, NTK and YaRN let RoPE read four times its length, as the chapter *Longer than trained* tells. What do they cost a text that is short? **Predict** the order.

# %%
schemes = {
    "linear": posenc.scaling.linear(dim, 4.0, base=base),
    "NTK": posenc.scaling.ntk(dim, 4.0, base=base),
    "YaRN": posenc.scaling.yarn(dim, 4.0, trained=trained, base=base),
}
plain = posenc.scaling.linear(dim, 1.0, base=base)
price = {"as trained": cuts["all keys"]}
model.set_attn_implementation("sdpa")  # posenc.bridges compares with the model's own attention
for name, (frequencies, factor) in schemes.items():
    scheme = posenc.rope.rope(dim, layout="half", inv_freq=frequencies, attention_factor=factor)
    posenc.bridges.write_rope(model, scheme)
    model.set_attn_implementation("ours")
    price[name] = loss()
    model.set_attn_implementation("sdpa")
posenc.bridges.write_rope(model, posenc.rope.rope(dim, layout="half", inv_freq=plain[0]))
for name, value in price.items():
    print(f"{name:24} {value:6.3f} nats   {value - price['as trained']:+.3f}")

# %% [markdown]
# ## 7. Exercises
#
# **Exercise 7** (on paper).
#
# 1. A head has $D = 64$ and the base $100{,}000$. How many tokens does its slowest pair take for a full circle? How much of a circle has it turned after $8{,}192$ tokens?
# 2. In section 4 a gap moves the last quarter away. Which scores change, and which stay what they were? Why is that so with RoPE, and not with a learned table?
# 3. In section 5 the oldest keys stand all in one place. What can no head tell of them any more?
# 4. Linear interpolation by $s = 4$ brings $32{,}768$ tokens back to angles that training had. Why can it harm a short text all the same?

# %% [markdown] nbgrader={"grade": true, "grade_id": "paper", "locked": false, "points": 4, "schema_version": 3, "solution": true, "task": false}
# 1. $2\pi \cdot 100{,}000^{62/64} \approx 438{,}000$ tokens; $8{,}192$ of them are 0.019 of a circle, some $7°$.
# 2. Those of pairs with a query behind the gap and a key before it. A score of RoPE depends on the distance alone, and within either part no distance has changed. A
#    table has a row for each position, so all tokens behind the gap would read other rows.
# 3. Their order, and how far away each of them is: they differ by content alone.
# 4. Near tokens stand at a quarter of their distances, so fast pairs turn by angles between those that training had for neighbors: the word before is at distance ¼.

# %% [markdown]
# **Exercise 8** (open). Which token serves as a resting place? Put another in front of the text (a newline, a full stop, your name), and look whether the first key of section 3 is as
# important. Is it the token, or the place?

# %%
START = "\n"
PREDICTED = False  # True once your prediction is written down

if PREDICTED:
    started = torch.tensor(tokenizer(START), device=device)
    whole, text = text, torch.cat((started, text))[:length]
    model.set_attn_implementation("ours")
    for name, mask in cut.items():
        print(f"{name:32} {loss(mask):6.3f} nats")
    text = whole
