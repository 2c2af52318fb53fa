# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Lab: Find the bug
#
# {{badge}}
#
# You will
# - **audit** twelve pieces of code that run, raise no error, and are wrong,
# - **name** the fault of each, from a list and from what the audit measured,
# - **repair** each in one place, without breaking what was right.
#
# Time: about 75 minutes of yours; the computer needs a few seconds for an audit. The chapter *Auditing a proposal* has the thirteen
# questions, *Position in practice* the failures.
#
# If this lab is graded: write the answers yourself. You may look things up, talk about ideas, and read the chapter; don't copy code from anybody or
# anything, and don't call `posenc` for what you are asked to build. Name what helped you.

# %% tags=["install"]
# {{install}}

# %%
import torch

from posenc.audit import audit
from posenc.lab.exercises import ask, check, use_seed
from posenc.lab.exercises.find_the_bug import FAULTS, NAMED, broken, case, show

STUDENT_SEED = 0  # @param {type: "integer"}  the seed that your teacher gave you, or 0
seed = use_seed(STUDENT_SEED, "find_the_bug")  # another seed deals the cases in another order, with other numbers
print(f"{len(FAULTS)} cases, one fault each:")
for name, words in FAULTS.items():
    print(f"  {name:10} {words}")

# %% [markdown]
# ## 1. The bench
#
# `show(n)` prints the code of case $n$ and where it acts; `audit` asks it thirteen questions. Change `N`, and predict from the code which
# question will fail. `unseen` fails for a rotation or a bias that is right, too: past the trained length, new angles and biases are theirs by nature.

# %%
N = 1
show(N)
SOME = ["relative", "precision", "causality", "cache", "weights", "distance"]  # None asks all thirteen
print(audit(broken(N), case(N).place, questions=SOME))

# %% [markdown]
# The audit knows four of the faults not at all: all heads alike, a score that is too large, a row that sees nothing, and a short ladder are consistent
# with themselves. Each has a question of its own, which returns whether it is right and what it saw. Ask those that fit the place.

# %%
# The questions beyond the audit, of the same case; one for another place raises, since it gives other arguments.
for name, see in NAMED.items():
    try:
        print(f"{name:10}", *see(broken(N)))
    except Exception as error:
        print(f"{name:10} does not fit: {type(error).__name__}")

# %% [markdown]
# ## 2. Name the faults
#
# **Exercise 1.** Return a list of twelve names from the list above, case 1 first. Where two cases look alike, say to yourself which measurement tells
# them apart.


# %% nbgrader={"grade": false, "grade_id": "faults", "locked": false, "schema_version": 3, "solution": true, "task": false}
def faults():
    """The name of each case's fault, in the order of the cases."""
    ### BEGIN SOLUTION
    return [
        "padding",
        "ladder",
        "values",
        "precision",
        "stick",
        "scale",
        "shared",
        "decoding",
        "restart",
        "sign",
        "layout",
        "leak",
    ]
    ### END SOLUTION


# %%
faults = check("find_the_bug.faults", faults)

# %% nbgrader={"grade": true, "grade_id": "faults_test", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false}
# Graded: faults.
### BEGIN HIDDEN TESTS
from posenc.lab.exercises import require

require("find_the_bug.faults")
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Repair them
#
# For each case: run `show(n)`, copy the function into its cell in place of the stub, and change one thing. The check holds it against the right function, and
# names the fault that is still there, or a new one. Then audit your repair.

# %% [markdown]
# ### Case 1
#
# **Exercise 2.** Repair case 1. It runs as it is: `show(1)` prints it.


# %% nbgrader={"grade": false, "grade_id": "case_1", "locked": false, "schema_version": 3, "solution": true, "task": false}
def case_1(*given):
    """Case 1, repaired: write its own arguments in place of *given."""
    ### BEGIN SOLUTION
    scores, at = given
    scores = (scores / 1.5).masked_fill(~at.visible, float("-inf"))
    weights = scores.softmax(-1)
    return weights.nan_to_num(0.0)  # a row that sees nothing
    ### END SOLUTION


# %%
case_1 = check("find_the_bug.case_1", case_1)

# %% nbgrader={"grade": true, "grade_id": "case_1_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# Graded: case_1.
### BEGIN HIDDEN TESTS
from posenc.lab.exercises import require

require("find_the_bug.case_1")
### END HIDDEN TESTS

# %% [markdown]
# ### Case 2
#
# **Exercise 3.** Repair case 2. It runs as it is: `show(2)` prints it.


# %% nbgrader={"grade": false, "grade_id": "case_2", "locked": false, "schema_version": 3, "solution": true, "task": false}
def case_2(*given):
    """Case 2, repaired: write its own arguments in place of *given."""
    ### BEGIN SOLUTION
    x, positions = given
    dim = x.shape[-1]
    w = 1000 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angles = positions.double()[:, None] * w  # [T, D/2]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)
    ### END SOLUTION


# %%
case_2 = check("find_the_bug.case_2", case_2)

# %% nbgrader={"grade": true, "grade_id": "case_2_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# Graded: case_2.
### BEGIN HIDDEN TESTS
from posenc.lab.exercises import require

require("find_the_bug.case_2")
### END HIDDEN TESTS

# %% [markdown]
# ### Case 3
#
# **Exercise 4.** Repair case 3. It runs as it is: `show(3)` prints it.


# %% nbgrader={"grade": false, "grade_id": "case_3", "locked": false, "schema_version": 3, "solution": true, "task": false}
def case_3(*given):
    """Case 3, repaired: write its own arguments in place of *given."""
    ### BEGIN SOLUTION
    q, k, v, positions, causal = given

    def turn(x, at):
        dim = x.shape[-1]
        angles = at.double()[:, None] * 1000 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)

    queries, keys = q.shape[-2], k.shape[-2]
    scores = turn(q, positions[keys - queries :]) @ turn(k, positions).transpose(-2, -1) / q.shape[-1] ** 0.5
    if causal:
        hidden = torch.ones(queries, keys, dtype=torch.bool, device=q.device).triu(1 + keys - queries)
        scores = scores.masked_fill(hidden, float("-inf"))
    return scores.softmax(-1) @ v
    ### END SOLUTION


# %%
case_3 = check("find_the_bug.case_3", case_3)

# %% nbgrader={"grade": true, "grade_id": "case_3_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# Graded: case_3.
### BEGIN HIDDEN TESTS
from posenc.lab.exercises import require

require("find_the_bug.case_3")
### END HIDDEN TESTS

# %% [markdown]
# ### Case 4
#
# **Exercise 5.** Repair case 4. It runs as it is: `show(4)` prints it.


# %% nbgrader={"grade": false, "grade_id": "case_4", "locked": false, "schema_version": 3, "solution": true, "task": false}
def case_4(*given):
    """Case 4, repaired: write its own arguments in place of *given."""
    ### BEGIN SOLUTION
    return case_2(*given)  # right, both are the same
    ### END SOLUTION


# %%
case_4 = check("find_the_bug.case_4", case_4)

# %% nbgrader={"grade": true, "grade_id": "case_4_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# Graded: case_4.
### BEGIN HIDDEN TESTS
from posenc.lab.exercises import require

require("find_the_bug.case_4")
### END HIDDEN TESTS

# %% [markdown]
# ### Case 5
#
# **Exercise 6.** Repair case 5. It runs as it is: `show(5)` prints it.


# %% nbgrader={"grade": false, "grade_id": "case_5", "locked": false, "schema_version": 3, "solution": true, "task": false}
def case_5(*given):
    """Case 5, repaired: write its own arguments in place of *given."""
    ### BEGIN SOLUTION
    scores, at = given
    bites = (scores / 1.5).sigmoid() * at.visible
    left = torch.ones_like(bites[..., 0])
    weights = torch.zeros_like(bites)
    for j in range(scores.shape[-1] - 1, -1, -1):
        weights[..., j] = left * bites[..., j]
        left = left * (1 - bites[..., j])
    return weights
    ### END SOLUTION


# %%
case_5 = check("find_the_bug.case_5", case_5)

# %% nbgrader={"grade": true, "grade_id": "case_5_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# Graded: case_5.
### BEGIN HIDDEN TESTS
from posenc.lab.exercises import require

require("find_the_bug.case_5")
### END HIDDEN TESTS

# %% [markdown]
# ### Case 6
#
# **Exercise 7.** Repair case 6. It runs as it is: `show(6)` prints it.


# %% nbgrader={"grade": false, "grade_id": "case_6", "locked": false, "schema_version": 3, "solution": true, "task": false}
def case_6(*given):
    """Case 6, repaired: write its own arguments in place of *given."""
    ### BEGIN SOLUTION
    return case_3(*given)  # right, both are the same
    ### END SOLUTION


# %%
case_6 = check("find_the_bug.case_6", case_6)

# %% nbgrader={"grade": true, "grade_id": "case_6_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# Graded: case_6.
### BEGIN HIDDEN TESTS
from posenc.lab.exercises import require

require("find_the_bug.case_6")
### END HIDDEN TESTS

# %% [markdown]
# ### Case 7
#
# **Exercise 8.** Repair case 7. It runs as it is: `show(7)` prints it.


# %% nbgrader={"grade": false, "grade_id": "case_7", "locked": false, "schema_version": 3, "solution": true, "task": false}
def case_7(*given):
    """Case 7, repaired: write its own arguments in place of *given."""
    ### BEGIN SOLUTION
    pos_q, pos_k = given
    slopes = torch.tensor([2.0 ** (-4 * h / 4) for h in range(1, 5)])
    distance = pos_q[:, None] - pos_k[None, :]
    return -slopes[:, None, None] * distance
    ### END SOLUTION


# %%
case_7 = check("find_the_bug.case_7", case_7)

# %% nbgrader={"grade": true, "grade_id": "case_7_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# Graded: case_7.
### BEGIN HIDDEN TESTS
from posenc.lab.exercises import require

require("find_the_bug.case_7")
### END HIDDEN TESTS

# %% [markdown]
# ### Case 8
#
# **Exercise 9.** Repair case 8. It runs as it is: `show(8)` prints it.


# %% nbgrader={"grade": false, "grade_id": "case_8", "locked": false, "schema_version": 3, "solution": true, "task": false}
def case_8(*given):
    """Case 8, repaired: write its own arguments in place of *given."""
    ### BEGIN SOLUTION
    return case_3(*given)  # right, both are the same
    ### END SOLUTION


# %%
case_8 = check("find_the_bug.case_8", case_8)

# %% nbgrader={"grade": true, "grade_id": "case_8_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# Graded: case_8.
### BEGIN HIDDEN TESTS
from posenc.lab.exercises import require

require("find_the_bug.case_8")
### END HIDDEN TESTS

# %% [markdown]
# ### Case 9
#
# **Exercise 10.** Repair case 9. It runs as it is: `show(9)` prints it.


# %% nbgrader={"grade": false, "grade_id": "case_9", "locked": false, "schema_version": 3, "solution": true, "task": false}
def case_9(*given):
    """Case 9, repaired: write its own arguments in place of *given."""
    ### BEGIN SOLUTION
    return case_2(*given)  # right, both are the same
    ### END SOLUTION


# %%
case_9 = check("find_the_bug.case_9", case_9)

# %% nbgrader={"grade": true, "grade_id": "case_9_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# Graded: case_9.
### BEGIN HIDDEN TESTS
from posenc.lab.exercises import require

require("find_the_bug.case_9")
### END HIDDEN TESTS

# %% [markdown]
# ### Case 10
#
# **Exercise 11.** Repair case 10. It runs as it is: `show(10)` prints it.


# %% nbgrader={"grade": false, "grade_id": "case_10", "locked": false, "schema_version": 3, "solution": true, "task": false}
def case_10(*given):
    """Case 10, repaired: write its own arguments in place of *given."""
    ### BEGIN SOLUTION
    return case_7(*given)  # right, both are the same
    ### END SOLUTION


# %%
case_10 = check("find_the_bug.case_10", case_10)

# %% nbgrader={"grade": true, "grade_id": "case_10_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# Graded: case_10.
### BEGIN HIDDEN TESTS
from posenc.lab.exercises import require

require("find_the_bug.case_10")
### END HIDDEN TESTS

# %% [markdown]
# ### Case 11
#
# **Exercise 12.** Repair case 11. It runs as it is: `show(11)` prints it.


# %% nbgrader={"grade": false, "grade_id": "case_11", "locked": false, "schema_version": 3, "solution": true, "task": false}
def case_11(*given):
    """Case 11, repaired: write its own arguments in place of *given."""
    ### BEGIN SOLUTION
    x, positions = given
    dim = x.shape[-1]
    w = 1000 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angles = positions.double()[:, None] * w
    angles = torch.cat((angles, angles), dim=-1)  # [T, D]
    a, b = x.chunk(2, dim=-1)
    return x * angles.cos().to(x.dtype) + torch.cat((-b, a), dim=-1) * angles.sin().to(x.dtype)
    ### END SOLUTION


# %%
case_11 = check("find_the_bug.case_11", case_11)

# %% nbgrader={"grade": true, "grade_id": "case_11_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# Graded: case_11.
### BEGIN HIDDEN TESTS
from posenc.lab.exercises import require

require("find_the_bug.case_11")
### END HIDDEN TESTS

# %% [markdown]
# ### Case 12
#
# **Exercise 13.** Repair case 12. It runs as it is: `show(12)` prints it.


# %% nbgrader={"grade": false, "grade_id": "case_12", "locked": false, "schema_version": 3, "solution": true, "task": false}
def case_12(*given):
    """Case 12, repaired: write its own arguments in place of *given."""
    ### BEGIN SOLUTION
    return case_1(*given)  # right, both are the same
    ### END SOLUTION


# %%
case_12 = check("find_the_bug.case_12", case_12)

# %% nbgrader={"grade": true, "grade_id": "case_12_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# Graded: case_12.
### BEGIN HIDDEN TESTS
from posenc.lab.exercises import require

require("find_the_bug.case_12")
### END HIDDEN TESTS

# %% [markdown]
# ## 4. On paper
#
# **Exercise 14** (on paper). Take two of your cases that no test on short texts, in one forward pass and in float32, would have found. For each: which single test
# would have found it, what does it compare with what, and why need nobody know the right output?

# %%
# With a seed, the same question: it asks about your own cases.
ask("find_the_bug")

# %% [markdown] nbgrader={"grade": true, "grade_id": "paper", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# *decoding*: compare decoding token by token with one pass over the whole text; both come from the same code, so only their agreement is asked for.
#
# *precision*: compare bfloat16 at a far position with float32 at the same; or the same window near the start with one far out, whose weights must agree.
#
# Also good: *restart* (move a window across the place where positions begin again), *padding* (a row that sees nothing must give zeros).
