# %% [markdown]
# # A tiny lab
# {{badge}}
#
# The smallest lab that has every kind of cell; the tests of the engine run it.

# %% tags=["install"]
# {{install}}

# %%
import os

import torch

import posenc.chapters
from posenc.lab.check import check

posenc.chapters.__path__.append(os.environ["TINY"])  # a real lab is a chapter of the book


# %% nbgrader={"grade": false, "grade_id": "angle", "locked": false, "schema_version": 3, "solution": true, "task": false}
def angle(positions, w):
    """The angle of each position at frequency w."""
    ### BEGIN SOLUTION
    return positions * w
    ### END SOLUTION


# %%
angle = check("tiny.angle", angle)

# %% nbgrader={"grade": true, "grade_id": "angle_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
# Graded: angle.
### BEGIN HIDDEN TESTS
from posenc.lab.check import require

require("tiny.angle")
### END HIDDEN TESTS

# %% [markdown]
# On paper: what is the angle at position 0?

# %% [markdown] nbgrader={"grade": true, "grade_id": "paper", "locked": false, "points": 1, "schema_version": 3, "solution": true, "task": false}
# Zero, whatever the frequency.

# %%
print("angles:", angle(torch.arange(4.0), 0.5).tolist())
