# %% [markdown]
# # Lab: FoX
#
# {{badge}}
#
# You will
# - **build** forgetting attention: the gate, the decay that gates make, the constant gate that is ALiBi, and one step of decoding,
# - **see** what your own function leaves of each key while you open and close the doors of a line,
# - **train** FoX beside ALiBi on two puzzles, and look where the trained doors close.
#
# Time: about 45 minutes of yours, of which the computer works less than 3 on a CPU and 1 on a GPU. The
# chapter *FoX: a door that closes* has the theory.

# %% tags=["install"]
# {{install}}

# %%
import os

import matplotlib.pyplot as plt
import torch
from IPython.display import display
from ipywidgets import FloatSlider, IntSlider

import posenc
from posenc.encoding import Gates
from posenc.lab.check import check, student_seed
from posenc.lab.experiments import load_results
from posenc.lab.experiments.plots import plot_scores
from posenc.lab.explore import interact
from posenc.lab.train import pick_device, settings_for, train
from posenc.lab.train.measures import fixed_batch, share_wrong, task_errors
from posenc.lab.train.tasks import TASKS

preset = os.environ.get("POSENC_PRESET", "lab")
print("device:", pick_device())
print("preset:", preset)
seed = student_seed()  # 0, unless your teacher gave you one: %env POSENC_SEED=17 in a cell above
print("seed:", seed)
_ = posenc.explain_impl(posenc.make("fox"))

# %% [markdown]
# ## 1. The gate
#
# Every token owns a door a head. How far it leaves the door open is read off the token itself, by a linear map and a
# sigmoid:
#
# $$ f_t = \sigma(w_f \cdot x_t + b_f), \qquad 0 < f_t < 1 $$
#
# FoX never needs $f$, only $\log f$. A gate that is nearly shut has a logit far below zero, so take the logarithm where it
# cannot break.
#
# **Exercise 1.** `x` is $[\dots, T, C]$, `weight` $[H, C]$ and `bias` $[H]$, as `torch.nn.Linear` keeps them. Return
# $\log f$ of shape $[\dots, H, T]$ in float32, also where all three are in half precision. You need
# `torch.nn.functional.logsigmoid`.

# %%
# {{exercise log_forget}}

# %% [markdown]
# One head, one lane, $w_f = 1$, $b_f = 0$: from which logit on is the logarithm of the sigmoid lost, and yours not?

# %%
for logit in (0.0, -20.0, -80.0, -100.0):
    naive = torch.tensor(logit).sigmoid().log().item()
    mine = log_forget(torch.tensor([[logit]]), torch.ones(1, 1), torch.zeros(1)).item()
    print(f"logit {logit:6.0f}: log(sigmoid) {naive:9.3f}, yours {mine:9.3f}")

# %% [markdown]
# ## 2. The decay
#
# A door closes on all that was **before** its token. What is left of key $j$ when query $i$ comes has gone through the doors of
# $j+1, \dots, i$: their gates multiply, so their logs add up, and a difference of two running sums gives them all.
#
# $$ D_{ij} = \sum_{l=j+1}^{i} \log f_l = c_i - c_j, \qquad c_i = \sum_{l \le i} \log f_l $$
#
# $D$ is added to the scaled logits before the softmax. A key after the query gets $-\infty$.
#
# **Exercise 2.** From $\log f$ of shape $[\dots, T]$ make $D$ of shape $[\dots, T, T]$, queries in rows, without a loop.
# Where $\log f$ comes in half precision, make it float32 before you sum.
#
# Hint: `torch.ones(T, T, dtype=torch.bool, device=log_forget.device).triu(1)` is what lies above the diagonal.

# %%
# {{exercise decay}}
print(decay(torch.tensor([0.9, 0.5, 1.0, 0.1]).log()).exp())  # what is left of each key, by the gates 0.9, 0.5, 1, 0.1

# %% [markdown]
# Why float32? A line of 4,096 tokens, every gate with $\log f = -5/8$, which bfloat16 holds exactly. What stands
# between neighbors is then $-5/8$, wherever they are. Sum in bfloat16, and look at the last neighbors.

# %%
line = torch.full((4096,), -0.625, dtype=torch.bfloat16)
halves = line.cumsum(0)
print("last query, the key before it: summed in bfloat16", (halves[-1] - halves[-2]).item(), "| yours", end=" ")
print(decay(line)[-1, -2].item())

# %% [markdown]
# ## 3. The gate that is ALiBi
#
# Let every token have the same gate, whatever it says. Then $D_{ij} = (i - j) \log f$, a straight line in the distance: ALiBi,
# the other way round, is FoX with doors that do not read.
#
# **Exercise 3.** Which gate $f$ gives ALiBi's penalty $-m\,(i - j)$? `slope` is a tensor $[H]$ of slopes $m$.

# %%
# {{exercise alibi_gate}}


# %%
def constant(slopes, length):
    """Your decay of your constant gates: slopes [H] -> [H, length, length]."""
    return decay(alibi_gate(slopes).log()[:, None].expand(-1, length))


slopes = posenc.alibi.slopes(8)
print("gates of eight heads:", " ".join(f"{f:.3f}" for f in alibi_gate(slopes).tolist()))
at, past = torch.arange(200), torch.ones(200, 200, dtype=torch.bool).tril()
difference = constant(slopes, 200)[:, past] - posenc.alibi.bias(at, at, slopes)[:, past]
print(f"your decay against ALiBi's bias, 200 tokens: largest difference {difference.abs().max():.0e}")

# %% [markdown]
# ## 4. One step of decoding
#
# In decoding, one token comes at a time. Its query needs one row of $D$. To sum all gates again for that row costs as much as
# reading the whole text again. Keep the sums $c$ of the old tokens instead: the row costs one addition, and one
# subtraction a key.
#
# **Exercise 4.** `c` is $[\dots, n]$, the sums up to each of the old tokens, at least one. `log_forget` is $[\dots]$, the gate of the new
# token. Return the row of the new query, $[\dots, n + 1]$, its own key last, and the sums to keep for the next step, also $[\dots, n + 1]$.

# %%
# {{exercise next_decay}}

# %% [markdown]
# Token by token and all at once must agree. The first gate closes on nothing, so any number would do for it: try it.

# %%
gates = torch.nn.functional.logsigmoid(torch.randn(4, 300, generator=torch.Generator().manual_seed(1)) + 2)
rows, c, worst = decay(gates), gates[:, :1], 0.0
for t in range(1, 300):
    row, c = next_decay(c, gates[:, t])
    worst = max(worst, (row - rows[:, t, : t + 1]).abs().max().item())
print(f"300 tokens, four heads, step by step: largest difference to the whole {worst:.0e}")

# %% [markdown]
# ## 5. See it
#
# A line of six tokens, a slider for the gate of each. All contents match equally well, so a query's weights are its row of $D$
# after a softmax. **Predict** before you move anything: the query is token 4. Which of the six doors can you close without
# moving one of its weights? And if only door 3 is nearly shut: who has the weight of token 4, and who that of token 5?

# %% mystnb={"image": {"alt": "What your decay leaves of each key for every query, as a map, and the weights of one query as bars, at one position of the sliders."}}
WORDS = ["w", "1", "i", "0", "r", "1"]


def doors(query, **gates):
    """What your decay leaves of each key, and the weights of one query where all contents match equally well."""
    f = torch.tensor([gates[name] for name in sorted(gates)])
    rows = decay(f.log())
    weights = torch.softmax(rows[query], dim=-1)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    left.imshow(rows.exp(), cmap="Blues", vmin=0, vmax=1)
    for i in range(6):
        for j in range(i + 1):
            share = rows[i, j].exp().item()
            left.text(j, i, f"{share:.2f}", ha="center", va="center", color="white" if share > 0.6 else "black")
    left.axhspan(query - 0.5, query + 0.5, fill=False, edgecolor="#c45500", linewidth=2)
    names = [f"{n}: {word}" for n, word in enumerate(WORDS)]
    left.set(xlabel="key", ylabel="query", title="left of each key, exp D", xticks=range(6), yticks=range(6))
    left.set_yticklabels(names)
    right.bar(range(6), weights, color="#0072b2")
    right.plot(range(6), f, "_", color="#c45500", markersize=22, markeredgewidth=3, label="gate")
    right.set(ylim=(0, 1.25), xlabel="key", title=f"weights of query {query}", xticks=range(6))
    right.set_xticklabels(names)
    right.legend(frameon=False, loc="upper left")
    plt.show()


interact(
    doors,
    query=IntSlider(4, min=0, max=5, continuous_update=False),
    **{f"f{n}": FloatSlider(0.9, min=0.01, max=1, step=0.01, continuous_update=False) for n in range(6)},
)

# %% [markdown]
# The book's explorable of ALiBi, drawn by your two functions: nothing in it knows ALiBi's formula any more.

# %%
from posenc.chapters.alibi import figures


def from_gates(pos_q, pos_k, slopes):
    """ALiBi's bias [H, Tq, Tk] for queries at and after all keys, by your decay of your constant gates."""
    rows = constant(slopes, int(max(pos_q.max(), pos_k.max())) + 1)
    return rows[:, pos_q][:, :, pos_k]


display(figures.decay.with_function(bias=from_gates))

# %% [markdown]
# ## 6. The kernel
#
# Your `decay` is a matrix of $T \times T$ numbers a head. The Triton kernel reads two numbers instead, $c$ at the query and $c$ at
# the key, and subtracts where it needs the difference. The gradient of the gates comes back through the same sums, run
# backwards. Are they the same numbers? *From formula to kernel* has the code of its softmax.

# %%
from posenc.lab.check.trial import against, causal_softmax


def mine(q, k, v, gates):
    return causal_softmax(q, k, v, decay(gates).to(q.dtype))


_ = against(mine, posenc.make("fox"))

# %% [markdown]
# ## 7. Train
#
# Two puzzles. In **flip-flop**, `w` writes the bit that follows, `i` ignores its bit, and after `r` the bit written last is wanted.
# In **counting**, `0` resets, `+` adds one, `.` passes, and after `?` the count is wanted. The answers stand in brackets.

# %%
PUZZLES = ("flipflop", "counting")
for task in PUZZLES:
    print(f"{task:9}", TASKS[task].example(32))

# %% [markdown]
# Two models for each, with the same start and the same batches, both by your functions. They differ in one thing: in **ALiBi** the gates
# are constant, in **FoX** they are read off the token. **Predict** before you run: which puzzle can be solved by doors that do
# not read? And if FoX solves flip-flop, at which tokens will its doors be closed?


# %% mystnb={"image": {"alt": "Loss against training step, one curve for each model and puzzle."}}
class MyDecay(torch.nn.Module):
    """At the place `bias`: your decay of the gates that the block made."""

    def forward(self, q, k, at):
        return decay(at.gates)


class MyConstant(torch.nn.Module):
    """At the place `bias`: your decay of constant gates, one a head."""

    def forward(self, q, k, at):
        return constant(posenc.alibi.slopes(q.shape[1]).to(q.device), k.shape[2])


def my_fox(layer, start=0.0):
    """FoX by your functions; `start` is added to every logit of a gate."""

    def activation(raw):  # [B, H, T]: the block has multiplied by W_f and added b_f, so the weight here is the identity
        heads = raw.shape[1]
        weight, bias = torch.eye(heads, device=raw.device), torch.full((heads,), start, device=raw.device)
        return log_forget(raw.transpose(1, 2), weight, bias)

    return posenc.Encoding(bias=MyDecay(), gates=Gates(activation=activation), causal_only="doors close on the past")


ARMS = {"ALiBi": lambda layer: posenc.Encoding(bias=MyConstant()), "FoX": my_fox}
models, errors = {task: {} for task in PUZZLES}, {task: {} for task in PUZZLES}
for task in PUZZLES:
    for name, encoding in ARMS.items():
        models[task][name], history = train(encoding, preset, seed, task=task, live=True)
        errors[task][name] = task_errors(models[task][name], task, settings_for(preset, task))
        tail = history["loss"][-20:]
        print(f"{task}, {name}: mean loss of the last {len(tail)} steps {sum(tail) / len(tail):.3f} nats per answer")

# %% [markdown]
# The share of wrong answers. *in* is what training draws from; in the other tests something lies outside of it: the last write
# lies farther back (*sparser*), more tokens compete (*denser*), or the sequence is longer than any before.

# %%
for task, wrong in errors.items():
    print(f"{task:18}", *[f"{test:>9}" for test in wrong["FoX"]])
    for name, values in wrong.items():
        print(f"  {name:16}", *[f"{value:9.3f}" for value in values.values()])

# %% [markdown]
# Beside the book's frozen results: five seeds each, ALiBi and FoX at rates that were chosen on other seeds. Yours, at one
# rate for all, are the black marks. (At preset `nano` the sequences are shorter than the book's, so yours are left out.)

# %% mystnb={"image": {"alt": "Share of wrong answers on each test of the two puzzles, ALiBi and FoX, the frozen results with error bars."}}
for task in PUZZLES:
    frozen = load_results(task, ("alibi", "fox"))
    figure = plot_scores(frozen, list(errors[task]["FoX"]))
    axes = figure.axes[0]
    axes.set_title(task)
    if settings_for(preset, task).length == frozen["settings"]["length"]:
        own = [
            axes.plot(range(len(wrong)), list(wrong.values()), marker, color="black", label=f"{name}, yours")[0]
            for marker, (name, wrong) in zip("x*", errors[task].items())
        ]
        axes.legend(handles=own, frameon=False)
    axes.autoscale(axis="y")
    display(figure)
    for arm, values in frozen["methods"].items():
        solved = sum(wrong < 0.01 for wrong in values["scores"]["in"])
        print(f"{task}, {arm}: {solved} of {len(frozen['seeds'])} seeds below 1% wrong in distribution")
    print(f"frozen: {frozen['command']} (commit {frozen['commit'][:8]})")

# %% [markdown]
# ### Which doors closed?
#
# The mean gate of each head, by what the token is: near 1 the door stands open, near 0 all before is forgotten. **Look**
# for a head whose door is shut at one kind of token and open at the others. Is it the kind that you predicted: does the
# write close the door?


# %%
def kinds(task, tokens):
    """What each token is: {words: [B, T] bool}."""
    word = TASKS[task].vocabulary.index
    before = tokens.roll(1, 1)  # the first token is a write or a reset, whatever stands last
    before[:, 0] = -1
    if task == "flipflop":
        words = {w: tokens == word(w) for w in "wir"}
        return words | {f"bit of {w}": before == word(w) for w in "wir"}
    answer = before == word("?")
    return {"reset": (tokens == word("0")) & ~answer} | {w: tokens == word(w) for w in "+.?"} | {"answer": answer}


@torch.no_grad()
def gates_of(model, tokens):
    """The gate f of every token in every layer and head: [layers, B, T, H]."""
    gates, hooks = [], []
    for block in model.blocks:
        layer = block.attention.to_gates
        hooks.append(layer.register_forward_hook(lambda module, inputs, out: gates.append(out.float().sigmoid().cpu())))
    model(tokens.to(pick_device()))
    for hook in hooks:
        hook.remove()
    return torch.stack(gates)


for task in PUZZLES:
    tokens = fixed_batch(task, settings_for(preset, task), {}, 64).tokens
    gates, masks = gates_of(models[task]["FoX"], tokens), kinds(task, tokens)
    print(f"{task:18}", *[f"{kind:>9}" for kind in masks])
    for layer, of_layer in enumerate(gates):
        for head in range(of_layer.shape[-1]):
            means = [of_layer[..., head][mask].mean() for mask in masks.values()]
            print(f"  layer {layer}, head {head} ", *[f"{mean:9.3f}" for mean in means])

# %% [markdown]
# A door that closes need not be one that the answer needs. The control: hold every gate at the mean of its head's logits, so that doors no
# longer read, and ask again.


# %%
def without_reading(model, batch):
    """The share of wrong answers where every gate is held at its head's mean logit."""

    def held(module, inputs, out):
        return out.mean(dim=(0, 1), keepdim=True).expand_as(out)

    hooks = [block.attention.to_gates.register_forward_hook(held) for block in model.blocks]
    wrong = share_wrong(model, batch)
    for hook in hooks:
        hook.remove()
    return wrong


for task in PUZZLES:
    batch = fixed_batch(task, settings_for(preset, task), {})
    wrong = without_reading(models[task]["FoX"], batch)
    print(f"{task}: share wrong {errors[task]['FoX']['in']:.3f} as trained, {wrong:.3f} with gates that do not read")

# %% [markdown]
# ## 8. Exercises
#
# **Exercise 5** (on paper).
#
# 1. *The start.* A new block has $b_f = 0$ and small $w_f$. Which ALiBi is that, and how many of the nearest keys hold 95% of
#    the weight where contents are equal and the past is long? Which $b_f$ starts a head at the slope $m$?
# 2. *The first gate.* Show that $\log f_0$ has the gradient 0, whatever the loss.
# 3. *A shut door.* Let $f_t = 0$ in every head of every layer. Show that the outputs from $t$ on are those of the text cut off before $t$. Then let it
#    be 0 in the last layer only. Are they still?

# %% [markdown] nbgrader={"grade": true, "grade_id": "paper", "locked": false, "points": 4, "schema_version": 3, "solution": true, "task": false}
# 1. The gates are near $\sigma(0) = \tfrac12$, so $m = \ln 2$. The weights are $2^{-d-1}$, the nearest $n$ keys hold $1 - 2^{-n}$, and
#    95% need five. From $\sigma(b_f) = e^{-m}$ follows $b_f = -\ln(e^{m} - 1)$; for $m = 1/256$ it is about 5.5.
# 2. $D_{ij}$ sums $\log f_l$ over $l = j+1 \dots i$ with $j \ge 0$, so $l \ge 1$: no entry holds $\log f_0$. In $c_i - c_j$ it stands in
#    both and cancels.
# 3. For $i \ge t > j$ the sum holds $\log f_t = -\infty$, so the weight is 0. The queries from $t$ on see the keys from $t$ on alone, and the gates
#    between two of those are the same with and without what was before. By induction over the layers: the inputs from $t$ on depend on tokens from
#    $t$ on only, so do the outputs. With the door shut in the last layer only, no: in the layers below, the tokens from $t$ on have
#    read what was before, and carry it in their own values past the door.

# %% [markdown]
# **Exercise 6** (open). *Doors that start open.* At $b_f = 0$ every head starts by looking a few tokens back. Let the gates start near 1
# instead: `START` is added to every logit. Does flip-flop learn faster or slower? Write your prediction down, then set `PREDICTED`. Try other
# starts, and more than one seed before you believe a difference. To hold yours against the book's trained models: `posenc.lab.experiments.compare(make_encoding, "needle").figure()`, about a minute a seed.

# %%
START = 4.0
PREDICTED = False  # True once your prediction is written down

if PREDICTED:
    model, history = train(lambda layer: my_fox(layer, START), preset, seed, task="flipflop")
    wrong = task_errors(model, "flipflop", settings_for(preset, "flipflop"))
    for name, values in ((f"start {START:+g}", wrong), ("start 0", errors["flipflop"]["FoX"])):
        print(f"{name}:", ", ".join(f"{test} {value:.3f}" for test, value in values.items()))
