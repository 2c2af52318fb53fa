"""What the chapter Relative position computes and draws beside its text, by formulas and plain loops."""

import pytest
import torch

from posenc.chapters.relative import figures


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
