r"""What is timed on a CPU: two models that compute the same."""

import cpu_speed
import pytest
import torch


@pytest.mark.weekly
@pytest.mark.parametrize("method", cpu_speed.METHODS)
def test_training_by_hand_takes_the_same_steps(method):
    losses = [torch.stack([step() for _ in range(4)]) for step in cpu_speed.training(method, 64)]
    assert losses[0][-1] < losses[0][0] - 0.1
    torch.testing.assert_close(*losses, rtol=0, atol=1e-3)
