"""Adding a method is its files and two rows: a toy's are seen by everything that lists methods, and nothing else is."""

from pathlib import Path

import pytest
import torch

import posenc
from posenc.chapters.compare import facts as compare
from posenc.lab.experiments import plots
from posenc.lab.titles import TITLES, InBook
from posenc.lab.train import encoding_maker, settings_for


def factory(num_heads: int, *, rate: float = 0.3) -> posenc.Encoding:
    """A fixed penalty on the square root of the distance. Chapter: Four places."""

    def bias(q, k, at):
        far = (at.pos_q[:, None, :, None] - at.pos_k[:, None, None, :]).to(torch.promote_types(q.dtype, torch.float32))
        return -rate * far.abs().sqrt()

    return posenc.Encoding(bias=bias)


@pytest.fixture
def toy(monkeypatch):
    row = posenc.methods.Method(factory, "Toy", ("bias",), fails=("unseen",))
    monkeypatch.setitem(posenc.METHODS, "toy", row)
    monkeypatch.setitem(TITLES, "toy", InBook("four_places", "Subtract the root of the distance", "tomato", "1"))


def test_the_package_knows_it(toy):
    encoding = posenc.make("toy", num_heads=2)
    assert posenc.audit.audit(encoding).failures == ("unseen",)
    with pytest.raises(ValueError, match="Did you mean 'toy'"):
        posenc.make("toys")


def test_it_trains_and_plots(toy):
    assert encoding_maker("toy", settings_for("nano"))(0).places == ("bias",)
    assert plots.title("toy") == "Toy" and plots.look("toy") == {"color": "tomato", "marker": "1"}


def test_the_api_page_and_the_tables_show_it(toy, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "book" / "_ext")
    import docstrings

    source = [docstrings.MARK]
    docstrings.write_methods(None, "book/api", source)
    assert "### Toy" in source[0] and ".. autofunction:: posenc.toy.factory" in source[0]
    assert "Toy" in compare.text_table().data
