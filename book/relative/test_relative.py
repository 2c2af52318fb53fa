"""What the chapter Relative position computes and draws beside its text, by formulas and plain loops."""

import math

import pytest
import torch

import posenc
from posenc.chapters.relative import facts as page
from posenc.chapters.relative import figures


def test_shaw_as_written_by_loops():
    q, k, v, _ = page.samples()
    encoding = posenc.make("shaw", head_dim=page.D, clip=3, values=True).double()
    i, keys, values = 7, encoding.bias.keys.detach(), encoding.gather.values.detach()
    rows = [max(j - i, -3) + 3 for j in range(i + 1)]
    logits = [(q[1, 2, i] @ (k[1, 2, j] + keys[rows[j]])).item() / math.sqrt(page.D) for j in range(i + 1)]
    w = [math.exp(x) / sum(map(math.exp, logits)) for x in logits]
    wanted = sum(w[j] * (v[1, 2, j] + values[rows[j]]) for j in range(i + 1))
    torch.testing.assert_close(page.shaw_as_written(q, k, v, encoding)[1, 2, i], wanted)


@pytest.mark.parametrize("text", figures.TEXTS)
def test_four_terms_add_up_to_the_sum_under_the_cross(text):
    def drawn(moved=0):
        return figures.four_terms.evaluate(dict(text=text, query=5, key=3, moved=moved))

    a, b, c, d, total = maps = [torch.tensor(drawn()[name]["z"]) for name in figures.MAPS]
    torch.testing.assert_close(total, a + b + c + d)
    said = drawn()["readout"]
    assert said["sum"] == pytest.approx(total[5, 3].item())
    assert said["weight"] == pytest.approx(total[5, :6].softmax(-1)[3].item())
    torch.testing.assert_close(c, c[:1].expand_as(c))
    torch.testing.assert_close(d[1:, 1:], d[:-1, :-1], atol=1e-9, rtol=0)
    for name, of in zip(figures.MAPS, maps):
        torch.testing.assert_close(torch.tensor(drawn(10_000)[name]["z"]), of, atol=1e-6, rtol=0)
