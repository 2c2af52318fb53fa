r"""Position in practice: a cache that forgets, for every method."""

import cases
import pytest
import torch

import posenc
from posenc.lab.train.tiny import Decoder


@pytest.mark.parametrize("name", posenc.methods.on_text())
def test_a_cache_that_forgets_wants_ids_that_count_on(name):
    r"""Dropping old keys equals a window over the whole text, if ids count tokens written."""
    window, tokens, index = 4, torch.randint(20, (1, 10)), torch.arange(10)
    model = Decoder(20, cases.DIM, 2, cases.HEADS, lambda layer: cases.encoding(name)).double().eval()
    with torch.no_grad():
        whole = model(tokens, mask=index[:, None] - index[None, :] < window)
        caches, steps = model.new_caches(), []
        for t in range(10):
            steps.append(model(tokens[:, t : t + 1], positions=torch.tensor([t]), caches=caches))
            for cache in caches:
                cache.crop(start=1 - window)
    assert torch.allclose(torch.cat(steps, dim=1), whole, atol=1e-10)
