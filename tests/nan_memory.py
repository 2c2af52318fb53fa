r"""Memory that holds NaN wherever a kernel may not look: what the tests of the kernels run on."""

import math

import pytest
import torch


@pytest.fixture(autouse=True)
def nan_buffers():
    """Whatever torch.empty returns holds NaN: what a kernel doesn't write, or reads before it is written, shows.

    A module whose tests all want this imports it.
    """
    torch.use_deterministic_algorithms(True)
    assert torch.utils.deterministic.fill_uninitialized_memory and torch.empty(1).isnan()
    yield
    torch.use_deterministic_algorithms(False)


def inside_nan(x):
    """The same numbers as a view into a larger buffer of NaN, with no stride that a contiguous tensor would have."""
    batch, heads, length, lanes = x.shape
    buffer = torch.full((batch, length + 2, heads + 1, 2 * lanes + 3), math.nan, dtype=x.dtype, device=x.device)
    view = buffer[:, 1 : length + 1, :heads, 1 : 2 * lanes : 2].transpose(1, 2)
    with torch.no_grad():
        view.copy_(x)
    return view.detach().requires_grad_()
