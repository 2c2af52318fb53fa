# %% [markdown]
# # Lab: Find the bug
#
# {{badge}}
#
# Twelve codes, each with one fault. None raises an error. You will
# - **predict** from its code what a fault breaks,
# - **ask** the code with `posenc.audit`, and read the counterexample,
# - **name** the fault, and **repair** it.
#
# Time: about 75 minutes of yours, of which the computer works about one. Each case begins with what people saw, and links to the entry of
# the chapter *Symptoms* that tells of it. Your code is for the same task, and may go wrong in another way.

# %% tags=["install"]
# {{install}}

# %%
import math

import torch

import posenc
from posenc.audit import QUESTIONS, audit
from posenc.chapters.symptoms.exercises import NAMES, faulty, numbers
from posenc.lab.check import check, find, student_seed

torch.set_num_threads(1)  # what is asked here is small
seed = student_seed()  # 0, unless your teacher gave you one: %env POSENC_SEED=17 in a cell above
base, heads, size = numbers()
print("seed:", seed)
print(f"your numbers: RoPE's base is {base:g}, there are {heads} heads, a window holds {size} keys")

# %% [markdown]
# Your number draws the faults, so two neighbors hunt different ones. **If you have one, leave the line `%env POSENC_SEED=17` in the notebook
# that you hand in**, in a cell above the first one: names are graded by it.
#
# These are the names. A fault has one of them.

# %%
for name, words in NAMES.items():
    print(f"{name:14}{words}")

# %% [markdown]
# **How each case goes.** Run the first cell: it prints the code as it reached you. The line below `def` says what it should do. Read it, and
# say which questions of the audit will fail, and which will hold. Then run the second cell, and see. Where the audit says *holds*, that
# is a clue, too. `same` sets the code beside the book's own: it tells that something is wrong, and where first, but not what. The other questions
# know no right answer. Three are left out here: `gradient`, and `finite` and `unseen`, which tell of lengths beyond training.
#
# Then return the name, as in `return "sign"`, and write the code as it should be: copy what was printed, and mend it. When your repair is
# right, ask it, too: `print(ask_halves(halves))` in a cell of yours. Nothing should fail.

# %%
HOW = {"head_dim": 16, "num_heads": heads}
HOW["questions"] = [question for question in QUESTIONS if question not in ("gradient", "finite", "unseen")]

# %% [markdown]
# ## Case 1. Gibberish of the right shape
#
# Weights were converted from one library to another. Every shape fits, nothing is raised, and the model writes gibberish. The rotation was
# rewritten on the way. ([*GGUF or NeoX weights give garbage:
# rotate_half*](../book/symptoms/index.md#gguf-or-neox-weights-give-garbage-rotate_half))
#
# **Predict**: A rotation keeps lengths, and only the difference of two positions counts. Which of the two does this code still do?

# %%
halves_sent = faulty("halves")


# %%
def ask_halves(code):
    right = posenc.make("rope", head_dim=16, base=base, layout="half")
    return audit(lambda x, at: code(x, at, base), "rotate", like=right, name="halves", **HOW)


print(ask_halves(halves_sent))

# %%
# {{exercise halves_fault}}

# %%
# {{exercise halves}}

# %% [markdown]
# ## Case 2. Worse with every page
#
# A model of which half of each head turns reads a page well. The longer the text, the more the output drifts away from the original's.
# ([*partial_rotary_factor: a part of the head turns*](../book/symptoms/index.md#partial_rotary_factor-a-part-of-the-head-turns))
#
# **Predict**: Can any question but `same` fail here? Read what `layout` says, even where it holds: how many lanes, and how they meet.

# %%
part_sent = faulty("part")


# %%
def ask_part(code):
    right = posenc.make("rope", head_dim=16, rotary_dim=8, base=base)
    return audit(lambda x, at: code(x, at, 8, base), "rotate", like=right, name="part", **HOW)


print(ask_part(part_sent))

# %%
# {{exercise part_fault}}

# %%
# {{exercise part}}

# %% [markdown]
# ## Case 3. Right in float32
#
# In float32 all is well. Served in bfloat16, the model confuses what stands side by side, and only far into a long document. ([*Positions
# in bfloat16: far tokens share a place*](../book/symptoms/index.md#positions-in-bfloat16-far-tokens-share-a-place))
#
# **Predict**: Up to which position does bfloat16 count? If `precision` fails, is it there, or somewhere else?

# %%
neighbors_sent = faulty("neighbors")


# %%
def ask_neighbors(code):
    right = posenc.make("rope", head_dim=16, base=base)
    return audit(lambda x, at: code(x, at, base), "rotate", like=right, name="neighbors", **HOW)


print(ask_neighbors(neighbors_sent))

# %%
# {{exercise neighbors_fault}}

# %%
# {{exercise neighbors}}

# %% [markdown]
# ## Case 4. A bag of words
#
# A model was built after an old tutorial. It trains, slowly, and treats a sentence as a bag of words. ([*Every token gets the same vector:
# `x.size(0)`, batch_first*](../book/symptoms/index.md#every-token-gets-the-same-vector-xsize0-batch_first))
#
# **Predict**: An embedding need not be relative, so that is not asked. What do `cache` and `batch` ask that a single forward pass does not?

# %%
embed_sent = faulty("embed")


# %%
def ask_embed(code):
    right = posenc.make("sinusoidal", base=base)
    how = HOW | {"questions": [question for question in HOW["questions"] if question != "relative"]}
    return audit(lambda x, at: code(x, at, base), "embed", like=right, name="embed", **how)


print(ask_embed(embed_sent))

# %%
# {{exercise embed_fault}}

# %%
# {{exercise embed}}

# %% [markdown]
# ## Case 5. The first token is fine
#
# The prompt is read well and the first new token is good. From the second on the model talks nonsense. ([*First token fine, then
# garbage*](../book/symptoms/index.md#first-token-fine-then-garbage))
#
# **Predict**: Think of one new query and eight keys: where does the query stand?

# %%
decode_sent = faulty("decode")


# %%
def ask_decode(code):
    right = posenc.make("rope", head_dim=16, base=base)
    return audit(lambda q, k, v, at, causal: code(q, k, v, at, base), "attention", like=right, name="decode", **HOW)


print(ask_decode(decode_sent))

# %%
# {{exercise decode_fault}}

# %%
# {{exercise decode}}

# %% [markdown]
# ## Case 6. A triangle of ones
#
# The loss in training is very low, or decoding goes wrong. Somewhere a triangle of ones hides the future. ([*is_causal=True with a KV
# cache*](../book/symptoms/index.md#is_causaltrue-with-a-kv-cache))
#
# **Predict**: Draw the triangle for two queries and five keys. Then for five and five.

# %%
mask_sent = faulty("mask")


# %%
def ask_mask(code):
    return audit(lambda q, k, v, at, causal: code(q, k, v), "attention", like="nope", name="mask", **HOW)


print(ask_mask(mask_sent))

# %%
# {{exercise mask_fault}}

# %%
# {{exercise mask}}

# %% [markdown]
# ## Case 7. A window that slides
#
# Ported to another library, a model with a sliding window gives logits that are close, and never equal. ([*sliding_window, window_size off
# by one*](../book/symptoms/index.md#sliding_window-window_size-off-by-one))
#
# **Predict**: What does a row of weights sum to? And what does the query at position 0 see?

# %%
window_sent = faulty("window")


# %%
def ask_window(code):
    rule = posenc.configs.read({"model_type": "mistral", "sliding_window": size})[0]

    def distance(at):
        return (at.pos_q[:, :, None] - at.pos_k[:, None, :])[:, None]  # [B, 1, Tq, Tk]

    def right(scores, at):
        seen = rule.visible(int(at.pos_k.max()) + 1)[at.pos_q[0]][:, at.pos_k[0]]
        return scores.masked_fill(~seen, -math.inf).softmax(-1)

    how = HOW | {"far": 512}
    return audit(
        lambda scores, at: code(scores, distance(at), at.visible, size), "weigh", like=right, name="window", **how
    )


print(ask_window(window_sent))

# %%
# {{exercise window_fault}}

# %%
# {{exercise window}}

# %% [markdown]
# ## A model to be told
#
# Cases 8 and 9 are at none of the four places: they make what a model is told. So a whole model is asked, one layer with a sinusoid. Where its
# caller gives no ids, it takes those of `ids`; what a token sees is up to `texts`. Whichever of the two is not yours is right.
# What the report calls *likely* is a guess from what it sees, and may be wrong. The lines that it points to are the package's, which are right: yours
# stand here.


# %%
class Tiny(torch.nn.Module):
    def __init__(self, **yours):
        super().__init__()
        torch.manual_seed(0)
        self.ids, self.texts = (yours.get(name, find(f"symptoms.{name}").reference) for name in ("ids", "texts"))
        self.words, self.sinusoid = torch.nn.Embedding(40, 32), posenc.make("sinusoidal")
        self.layer, self.head = posenc.SelfAttention(32, 4, causal=False), torch.nn.Linear(32, 40)


def call(model, tokens, *, position_ids, attention_mask, past_key_values, use_cache):
    cache = posenc.KVCache() if past_key_values is None else past_key_values
    (batch, new), held = tokens.shape, len(cache)
    valid = torch.ones(batch, held + new, dtype=torch.long) if attention_mask is None else attention_mask
    at = model.ids(valid, new) if position_ids is None else position_ids
    sees = model.texts(torch.cat((cache.positions, at), dim=1) if held else at)[:, :, -new:]
    x = posenc.embed_input(model.sinusoid, model.words(tokens), at)
    x = x + model.layer(x, positions=at, mask=sees, valid=valid[:, -new:] > 0, cache=cache)
    return model.head(x), cache


# %% [markdown]
# ## Case 8. Alone it is right
#
# A prompt alone gets a good answer. In a batch, padded on the left, or one token at a time, it gets another. ([*Generation differs with
# padding*](../book/symptoms/index.md#generation-differs-with-padding))
#
# **Predict**: The ids say where a token stands in its own text. What are those of a text behind three pads?

# %%
ids_sent = faulty("ids")


# %%
def ask_ids(code):
    return posenc.audit.model(Tiny(ids=code), call, questions=["batch", "padding", "steps", "chunks"])


print(ask_ids(ids_sent))

# %%
# {{exercise ids_fault}}

# %%
# {{exercise ids}}

# %% [markdown]
# ## Case 9. It knows the other document
#
# Short texts are packed into one row, to train faster. The model learns to use a text's neighbor, or sees what it is to predict. ([*Packed
# texts leak: position_ids, cu_seqlens*](../book/symptoms/index.md#packed-texts-leak-position_ids-cu_seqlens))
#
# **Predict**: Write down who may see whom in the row 0 1 2 0 1. Then follow the code.

# %%
texts_sent = faulty("texts")


# %%
def ask_texts(code):
    return posenc.audit.model(Tiny(texts=code), call, questions=["batch", "padding", "steps", "chunks", "packed"])


print(ask_texts(texts_sent))

# %%
# {{exercise texts_fault}}

# %%
# {{exercise texts}}

# %% [markdown]
# ## Case 10. A penalty for distance
#
# Weights trained with ALiBi run in code of one's own. The text is fluent and a little off, and no error says why. ([*ALiBi slopes: `12` or
# `40` heads, tensor parallel*](../book/symptoms/index.md#alibi-slopes-12-or-40-heads-tensor-parallel))
#
# **Predict**: ALiBi claims that distance is a penalty, so `distance` judges that here. In which heads is `same` wrong, and from which pair
# on?

# %%
slopes_sent = faulty("slopes")


# %%
def ask_slopes(code):
    how = dict(like="alibi", decays=True, name="slopes", **HOW)
    return audit(lambda q, k, v, at, causal: code(q, k, v, at), "attention", **how)


print(ask_slopes(slopes_sent))

# %%
# {{exercise slopes_fault}}

# %%
# {{exercise slopes}}

# %% [markdown]
# ## Case 11. Worse at writing than at reading
#
# A decoder with T5's bias is right when it reads the whole text, and worse when it writes. ([*T5: relative_attention_bias with a
# cache*](../book/symptoms/index.md#t5-relative_attention_bias-with-a-cache))
#
# **Predict**: Which questions move positions? Which give fewer queries than keys?

# %%
buckets_sent = faulty("buckets")


# %%
def ask_buckets(code):
    right = posenc.make("t5", num_heads=heads)
    torch.nn.init.normal_(right.bias.table, generator=torch.Generator().manual_seed(seed))
    table = right.bias.table.detach().double()
    return audit(lambda pos_q, pos_k: code(pos_q, pos_k, table), "bias", like=right, name="buckets", **HOW)


print(ask_buckets(buckets_sent))

# %%
# {{exercise buckets_fault}}

# %%
# {{exercise buckets}}

# %% [markdown]
# ## Case 12. Doors that close
#
# A forgetting transformer reads well. Decoded token by token it forgets nothing, or the wrong things. ([*FoX: one token at a time, `q_len =
# 1`*](../book/symptoms/index.md#fox-one-token-at-a-time-q_len--1))
#
# **Predict**: The gate of a token closes on what is before it, not on itself. What should stand on the diagonal?

# %%
decay_sent = faulty("decay")


# %%
def ask_decay(code):
    right = posenc.make("fox")
    mine = posenc.Encoding(bias=lambda q, k, at: code(at.gates, q.shape[2]), gates=right.gates, causal_only="as FoX")
    return audit(mine, like=right, name="decay", **HOW)


print(ask_decay(decay_sent))

# %%
# {{exercise decay_fault}}

# %%
# {{exercise decay}}

# %% [markdown]
# ## On paper
#
# Most projects test an encoding by one forward pass of one short text, in float32, and look whether the loss falls. Which of your twelve faults would
# pass that test? Take three of them that do, and write for each the cheapest test that names it, in one sentence: what is changed, and what must
# stay. Which fault would you not have found by the audit's other questions, without `same`?

# %% [markdown] nbgrader={"grade": true, "grade_id": "paper", "locked": false, "points": 3, "schema_version": 3, "solution": true, "task": false}
# What passes depends on the seed. All that concerns a cache (offset), a batch (pads, axis), packed rows (leak into another text), half precision (narrow)
# and great length (ladder) passes; a leak into the future passes with a loss that is too good.
#
# Offset: decode token by token, and nothing may change. Pads: put five pads before a text, and its logits stay. Leak: change the last token, and the
# outputs before it stay. Narrow: compare bfloat16 with float64 at position 4000. Layout, sign: move all positions by 100, and no weight changes.
#
# Without a right code to compare with, these stay hidden: ladder, lanes, heads, off by one in a distance, and scale. Each is a sound encoding, and another one.
