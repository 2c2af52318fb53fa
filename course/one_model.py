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
# # Lab: One model, five encodings
# {{badge}}
#
# **You will** choose encodings, train the same small model with each, draw its curves, find the rows of a table that nothing ever
# trained, and read a verdict from seeds.
#
# **Time**: about 35 minutes. The machine computes for under three of them on a CPU. The chapter *One model, five encodings* has
# the frozen runs that yours stand beside.

# %% tags=["install"]
# {{install}}

# %%
import os

import matplotlib.pyplot as plt
import torch
from IPython.display import display
from ipywidgets import Dropdown, IntSlider

from posenc.lab.exercises import check, student_seed
from posenc.lab.experiments import load_results
from posenc.lab.experiments.report import ARMS, PRESETS
from posenc.lab.explore import interact
from posenc.lab.train import build, pick_device, settings_for, train
from posenc.lab.train.measure import masked_losses, short_long
from posenc.lab.train.trainer import learning_rate

preset = os.environ.get("POSENC_PRESET", "lab")  # "nano" trains for seconds
seed = student_seed()  # 0, unless your teacher gave you one: %env POSENC_SEED=17 in a cell above
print("device:", pick_device())
print(f"preset: {preset}, seed: {seed}")

# %% [markdown]
# ## 1. Who gets a position?
# ### Exercise 1: queries and keys, not values
# The report's *absolute* adds a position vector in each layer to what queries and keys are made from, and not to what values are made
# from. Write the three projections of `x` with positions `p`, both `[T, C]`; weights are stored as `nn.Linear` stores them.


# %% nbgrader={"grade": false, "grade_id": "project", "locked": false, "schema_version": 3, "solution": true, "task": false}
def project(x, p, w_q, w_k, w_v):
    """x, p [T, C], weights [C, C] -> (q, k, v), [T, C] each."""
    ### BEGIN SOLUTION
    return (x + p) @ w_q.T, (x + p) @ w_k.T, x @ w_v.T
    ### END SOLUTION


# %%
project = check("one_model.project", project)
x, p = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(seed))
w = torch.randn(3, 8, 8, generator=torch.Generator().manual_seed(seed + 1))
moved = [(a - b).abs().max().item() for a, b in zip(project(x, p, *w), project(x, p.flip(0), *w))]
print("positions reversed:", ", ".join(f"{name} changes by {size:.2f}" for name, size in zip("qkv", moved)))

# %% nbgrader={"grade": true, "grade_id": "project_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# Graded: project.
### BEGIN HIDDEN TESTS
from posenc.lab.exercises import require

require("one_model.project")
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Choose and train
# Nine arms are there. Three of them train here, causal and masked: change `chosen` as you like, three at a time. Each gets the
# learning rates that were the best for it in the chapter's runs. **Predict** before you run: which arm learns fastest when it may look
# ahead (masked), and which hardly learns?

# %%
print("arms:", *ARMS)
chosen = ["standard", "rope", "rse"]
base = "nano" if preset == "nano" else "original"
size = {"steps": 60, "warmup": 10} if preset == "nano" else PRESETS["small"] | {"steps": 300, "windows": 48}
settings = settings_for(base, **size)
frozen = load_results("report_small")["objectives"]
tasks = {"causal": "text", "masked": "masked"}

# %% mystnb={"image": {"alt": "Training loss against the step, causal on the left and masked on the right, a curve an arm."}}
models, curves = {}, {}
for objective, task in tasks.items():
    for arm in chosen:
        method, options = ARMS[arm]
        rates = {} if preset == "nano" else frozen[objective]["results"]["choice"][arm]
        model, history = train(method, base, seed, task=task, options=options, **size | rates)
        models[objective, arm], curves[objective, arm] = model, history["loss"]


def smooth(losses, width=10):
    """The mean of each `width` losses, as in the chapter's curves."""
    count = len(losses) // width * width or len(losses)
    return torch.tensor(losses[:count]).view(-1, min(width, count)).mean(-1)


STYLES = dict(zip(ARMS, ("-", "--", "-.", ":", (0, (8, 3)), "-", "--", "-.", ":")))
figure, panels = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained", sharey=True)
for (objective, arm), losses in curves.items():
    panels[list(tasks).index(objective)].plot(smooth(losses), linestyle=STYLES[arm], label=arm)
    print(f"{objective} {arm:14} last losses {smooth(losses)[-1]:.3f}")
for objective, axis in zip(tasks, panels):
    axis.set(title=objective, xlabel="steps / 10")
panels[0].set_ylabel("training loss, nats")
panels[1].legend()
plt.show()

# %% [markdown]
# ## 3. Train short, test long
# The same target characters, with up to four times the context of training around them (at preset `nano` up to eight times). **Predict**: which of your arms hold?

# %% mystnb={"image": {"alt": "Loss on the same targets against the length of the context, causal on the left and masked on the right, a line an arm."}}
figure, panels = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
measured = {}
for (objective, arm), model in models.items():
    axis = panels[list(tasks).index(objective)]
    found = short_long(model, settings)["whole"] if objective == "causal" else masked_losses(model, settings)["loss"]
    measured[objective, arm] = found
    axis.plot(settings.lengths, found, marker="o", linestyle=STYLES[arm], label=arm)
    print(f"{objective} {arm:14}", *[f"{n}: {loss:.3f}" for n, loss in zip(settings.lengths, found)])
for objective, axis in zip(tasks, panels):
    axis.set_xscale("log", base=2)
    axis.set_xticks(settings.lengths, [str(n) for n in settings.lengths])
    axis.set(title=objective, xlabel="characters of context")
panels[0].set_ylabel("loss, nats")
panels[1].legend()
plt.show()

# %% [markdown]
# One seed is no verdict. Beside yours, five seeds of twice as many steps:

# %%
for objective, arm in measured:
    scores = frozen[objective]["results"]["methods"][arm]["scores"]
    means = {n: torch.tensor(values).mean().item() for n, values in scores.items()}
    print(f"frozen, {objective} {arm:14}", *[f"{n}: {loss:.3f}" for n, loss in means.items()])

# %%
from posenc.lab.figures.one_model import curves as all_curves

display(all_curves)  # all nine arms of the chapter

# %% [markdown]
# ## 4. The rows that never trained
# ### Exercise 2: find them
# A table has rows for the longest test, and training stands on the first few alone. A row without a gradient is only shrunk by weight
# decay, each step by the factor $1 - \text{rate} \cdot \text{decay}$: in the end `after = kept * before`, but for rounding. Which rows
# of a table `[N, C]` are like that, in all their entries?


# %% nbgrader={"grade": false, "grade_id": "never_trained", "locked": false, "schema_version": 3, "solution": true, "task": false}
def never_trained(before, after, kept):
    """Tables [N, C] before and after training -> N booleans, True for a row that only decayed."""
    ### BEGIN SOLUTION
    return torch.isclose(after, kept * before, rtol=1e-4, atol=1e-7).all(-1)
    ### END SOLUTION


# %%
never_trained = check("one_model.never_trained", never_trained)

# %% mystnb={"image": {"alt": "The root mean square of each row of the table before and after training: beyond the training length both lie at the same low level."}}
method, options = ARMS["standard"]
rates = {} if preset == "nano" else frozen["causal"]["results"]["choice"]["standard"]
table_settings = settings_for(base, **size | rates)
start = build(method, table_settings, "text", seed, options)
trained = models.get(("causal", "standard"))
if trained is None:  # you chose other arms
    trained, _ = train(method, base, seed, options=options, **size | rates)
before, after = (m.blocks[0].attention.encoding.embed.table.detach().cpu() for m in (start, trained))
kept = 1.0
for step in range(table_settings.steps):
    kept *= 1 - table_settings.own * learning_rate(step, table_settings) * table_settings.weight_decay
rows = never_trained(before, after, kept)
print(f"{int(rows.sum())} of {len(rows)} rows never trained; the training length is {settings.length}")
figure, axis = plt.subplots(figsize=(8, 3), layout="constrained")
axis.plot(before.square().mean(-1).sqrt(), "--", color="0.5", label="before")
axis.plot(after.square().mean(-1).sqrt(), color="#0072b2", label="after")
axis.axvline(settings.length - 0.5, color="#a8468a", linestyle="-.")
axis.set(xlabel="position of the row", ylabel="root mean square", yscale="log")
axis.legend()
plt.show()

# %% nbgrader={"grade": true, "grade_id": "never_trained_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
# Graded: never_trained.
### BEGIN HIDDEN TESTS
from posenc.lab.exercises import require

require("one_model.never_trained")
### END HIDDEN TESTS

# %% [markdown]
# ## 5. A verdict from seeds
# ### Exercise 3: a paired interval
# Equal seeds start alike and read the same batches, so a bad seed is bad for both. Take the differences $a - b$, seed by seed. Return their
# mean and *half* of the 95% interval's width, $t \cdot s / \sqrt{n}$, with $s$ the standard deviation of a sample and Student's $t$ given.


# %% nbgrader={"grade": false, "grade_id": "paired_interval", "locked": false, "schema_version": 3, "solution": true, "task": false}
def paired_interval(a, b, t):
    """Two lists, one number a seed -> (mean, half of the width of the interval) of a - b, two numbers."""
    ### BEGIN SOLUTION
    differences = torch.tensor(a, dtype=torch.float64) - torch.tensor(b, dtype=torch.float64)
    return differences.mean().item(), t * differences.std().item() / len(a) ** 0.5
    ### END SOLUTION


# %%
paired_interval = check("one_model.paired_interval", paired_interval)
arms = frozen["causal"]["results"]["methods"]
mean, half = paired_interval(arms["rope"]["scores"]["85"], arms["standard"]["scores"]["85"], 2.776)
print(f"RoPE less standard, at the training length: {mean:.3f} ({mean - half:.3f} to {mean + half:.3f})")

# %% nbgrader={"grade": true, "grade_id": "paired_interval_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
# Graded: paired_interval.
### BEGIN HIDDEN TESTS
from posenc.lab.exercises import require

require("one_model.paired_interval")
### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 4: what became of it
# A *rise* of more than the tolerance was predicted. It *came true* where all of the interval, mean - half to mean + half, lies
# above the tolerance, and *failed* where none of it does. Otherwise it is *not decided*.


# %% nbgrader={"grade": false, "grade_id": "became", "locked": false, "schema_version": 3, "solution": true, "task": false}
def became(mean, half, tolerance):
    """What became of the prediction of a rise: "came true", "failed" or "not decided"."""
    ### BEGIN SOLUTION
    if mean - half > tolerance:
        return "came true"
    return "failed" if mean + half <= tolerance else "not decided"
    ### END SOLUTION


# %%
became = check("one_model.became", became)
for objective in tasks:
    for arm, values in frozen[objective]["results"]["methods"].items():
        mean, half = paired_interval(values["scores"]["340"], values["scores"]["85"], 2.776)
        ends = f"({mean - half:6.3f} to {mean + half:6.3f})"
        print(f"{objective} {arm:14} rises by {mean:6.3f} {ends}: a rise {became(mean, half, 0.05)}")

# %% nbgrader={"grade": true, "grade_id": "became_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# Graded: became.
### BEGIN HIDDEN TESTS
from posenc.lab.exercises import require

require("one_model.became")
### END HIDDEN TESTS


# %% mystnb={"image": {"alt": "The rise of one arm for each of the first seeds as dots, with the mean and its 95% interval."}}
# See it: how many seeds does a verdict need? Move to masked RSE.
def draw(arm, seeds):
    """The rise of the first seeds, masked, with the interval of their mean."""
    scores = frozen["masked"]["results"]["methods"][arm]["scores"]
    a, b = scores["340"][:seeds], scores["85"][:seeds]
    mean, half = paired_interval(a, b, (12.706, 4.303, 3.182, 2.776)[seeds - 2])
    figure, axis = plt.subplots(figsize=(7, 2.2), layout="constrained")
    axis.plot([y - x for x, y in zip(b, a)], [1] * seeds, "o", color="#c45500")
    axis.errorbar([mean], [0], xerr=[half], fmt="D", color="#0072b2", capsize=3)
    axis.axvline(0.05, color="#a8468a", linestyle="-.")
    axis.set(xlim=(-1, 2), ylim=(-0.7, 1.7), xlabel="rise from 85 to 340 characters, nats")
    axis.set_yticks([0, 1], ["interval", "seeds"])
    axis.set_title(f"{arm}, {seeds} seeds: a rise {became(mean, half, 0.05)}")
    plt.show()


interact(
    draw,
    arm=Dropdown(options=list(ARMS), value="rope", description="arm"),
    seeds=IntSlider(value=3, min=2, max=5, description="seeds"),
)

# %% [markdown]
# ## Exercises
# 1. **Easy.** Choose `["absolute", "sinusoidal", "standard"]` above and run on. Does it matter that *absolute* is added in each layer?
# 2. **Harder.** Make the missing arm: a learned table added once, to the embeddings (`"learned"` without options), or stick-breaking
#    without a rotation masked from the last key on. Train it at three rates before you compare.
# 3. **On paper.** Below.
# 4. **Open.** RSE's causal line is flat. Does it use what is far? Measure with attention cut (`short_long(model, settings)["cut"]`).

# %% [markdown]
# **On paper.** A model with *absolute* has one layer, no residual and no bias in its projections. All tokens of a window are the same word. Show that its output is
# the same at every position, whatever the position vectors are. Does this hold for *standard*?

# %% [markdown] nbgrader={"grade": true, "grade_id": "paper", "locked": false, "points": 3, "schema_version": 3, "solution": true, "task": false}
# With *absolute* a value is $v_j = W_V x_j$, without a position, so here all values are one vector $v$. The weights of a query are positive
# and sum to one, however positions shape them, so each output is $\sum_j A_{ij} v = v$. With *standard* $v_j = W_V (x + p_j)$ differs from
# key to key, so outputs differ wherever weights do. The assumption that enters is that weights sum to one: a stick with a remainder would break it.
