"""What the chapter Relative position computes beside its text, by formulas and plain loops."""

import math

import torch

import posenc
from posenc.lab.pages import relative as page


def test_parameters_by_their_formulas():
    counts = page.parameter_counts()
    del counts["FIRE"]
    assert counts == {
        "Learned, once at the input": (512 * 768, 512 * 768),
        "Shaw, keys": (33 * 64, 12 * 33 * 64),
        "Shaw, keys and values": (2 * 33 * 64, 12 * 2 * 33 * 64),
        "Transformer-XL": (768 * 768 + 2 * 768, 12 * (768 * 768 + 2 * 768)),
        "T5, shared": (32 * 12, 32 * 12),
        "KERPLE": (2 * 12, 12 * 2 * 12),
        "ALiBi": (0, 0),
    }


def test_shaw_as_written_by_loops():
    q, k, v, _ = page.samples()
    encoding = posenc.make("shaw", head_dim=page.D, clip=3, values=True).double()
    i, keys, values = 7, encoding.bias.keys.detach(), encoding.bias.values.detach()
    rows = [max(j - i, -3) + 3 for j in range(i + 1)]
    logits = [(q[1, 2, i] @ (k[1, 2, j] + keys[rows[j]])).item() / math.sqrt(page.D) for j in range(i + 1)]
    w = [math.exp(x) / sum(map(math.exp, logits)) for x in logits]
    wanted = sum(w[j] * (v[1, 2, j] + values[rows[j]]) for j in range(i + 1))
    torch.testing.assert_close(page.shaw_as_written(q, k, v, encoding)[1, 2, i], wanted)


def test_what_training_never_showed():
    first, last = page.lengths()[0], page.lengths()[-1]
    rows = page.unseen_rows()
    assert rows["XL's distances"] == (first, last - first) and rows["Shaw's rows"] == (17, 0)
    assert sum(rows["T5's buckets"]) == 32, "the decoder's buckets are all in use at the end"
