r"""Too many cases for each push: some of them there, the others once a week (`-m weekly`)."""

import pytest
import torch

CUDA = torch.cuda.is_available()


def sometimes(condition, *values, id=None):
    r"""A case of each push where the condition holds, elsewhere one of once a week."""
    return pytest.param(*values, id=id, marks=[] if condition else [pytest.mark.slow, pytest.mark.weekly])


def sample(cases, every: int, always=(), interpreted=False):
    r"""Each `every`-th case and those in `always`, the others once a week; on a GPU all of what is `interpreted`."""
    rows = [case if isinstance(case, tuple) else (case,) for case in cases]
    whole = interpreted and CUDA
    return [sometimes(whole or i % every == 0 or row[0] in always, *row) for i, row in enumerate(rows)]
