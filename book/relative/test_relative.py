"""What the chapter Relative position computes beside its text, by formulas and plain loops."""

import math

import torch

import posenc
from posenc.chapters.relative import facts as page


def test_shaw_as_written_by_loops():
    q, k, v, _ = page.samples()
    encoding = posenc.make("shaw", head_dim=page.D, clip=3, values=True).double()
    i, keys, values = 7, encoding.bias.keys.detach(), encoding.bias.values.detach()
    rows = [max(j - i, -3) + 3 for j in range(i + 1)]
    logits = [(q[1, 2, i] @ (k[1, 2, j] + keys[rows[j]])).item() / math.sqrt(page.D) for j in range(i + 1)]
    w = [math.exp(x) / sum(map(math.exp, logits)) for x in logits]
    wanted = sum(w[j] * (v[1, 2, j] + values[rows[j]]) for j in range(i + 1))
    torch.testing.assert_close(page.shaw_as_written(q, k, v, encoding)[1, 2, i], wanted)
