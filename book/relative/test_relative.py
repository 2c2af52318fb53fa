"""What the chapter Relative position computes and draws beside its text, by formulas and plain loops."""

import torch

from posenc.chapters.relative import figures


def test_four_terms_add_up_to_the_sum():
    def drawn(start):
        found = figures.four_terms.evaluate(dict(start=start))
        return [torch.tensor(found[name]["z"]) for name in figures.MAPS]

    a, b, c, d, total = maps = drawn(0)
    torch.testing.assert_close(total, a + b + c + d)
    torch.testing.assert_close(c, c[:1].expand_as(c))
    torch.testing.assert_close(d[1:, 1:], d[:-1, :-1], atol=1e-9, rtol=0)
    torch.testing.assert_close(drawn(figures.LAST), maps, atol=1e-9, rtol=0)
