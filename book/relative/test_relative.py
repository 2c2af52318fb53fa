"""What the chapter Relative position computes and draws beside its text, by formulas and plain loops."""

import torch

from posenc.chapters.relative import figures


def test_terms_read_what_they_say_and_the_strips_are_their_diagonals():
    found = figures.four_terms.evaluate(dict(distance=2))
    b, c, d = maps = [torch.as_tensor(found[name]["z"]) for name in figures.MAPS]
    torch.testing.assert_close(c, c[:1].expand_as(c))
    torch.testing.assert_close(d[1:, 1:], d[:-1, :-1], atol=1e-9, rtol=0)
    assert not torch.allclose(b[1:, 1:], b[:-1, :-1], atol=0.1)
    torch.testing.assert_close(figures._maps(56), torch.stack(maps), atol=1e-9, rtol=0)
    for name, drawn in zip(figures.MAPS, maps):
        strip = [float(drawn[j + 2, j]) for j in range(figures.TOKENS - 2)]
        torch.testing.assert_close(torch.as_tensor(found[f"{name} pulled out"]["z"])[0], drawn.new_tensor(strip))
        assert ("one" in found[f"verdict on {name}"]["text"][0]) == (max(strip) - min(strip) < 1e-6)
