r"""The chapter on gradients: wrong formulas are refused, and its examples by hand."""

import math

import pytest
import torch

import posenc
from posenc.lab.figures.gradients import logit_gradient
from posenc.lab.pages import gradients as page


@pytest.mark.parametrize("name", ["softmax_gradient", "inv_freq", "stick_gradient"])
def test_a_wrong_formula_is_refused(name, monkeypatch):
    right = getattr(page, name)
    monkeypatch.setattr(page, name, lambda *arguments, **options: 1.001 * right(*arguments, **options))
    compare = {"softmax_gradient": page.shaw, "inv_freq": page.rope, "stick_gradient": page.stick}[name]
    with pytest.raises(AssertionError):
        compare()


def test_a_parameter_without_a_formula_is_refused():
    by_autograd, ds = page.softmax_side(posenc.make("alibi", num_heads=page.H, learned=True))
    with pytest.raises(AssertionError, match="slopes"):
        page.hold("ALiBi", "", "", by_autograd, *page.to_qk(ds))


def test_the_row_by_hand():
    r"""q = (2, 0, 0, 0) on three keys: softmax weights 1/4, 1/2, 1/4, and bites of 1/2, 2/3, 1/2 on a stick."""
    double = torch.float64
    q = torch.tensor([2.0, 0, 0, 0], dtype=double).view(1, 1, 1, 4).requires_grad_()
    k = torch.tensor([[0, 1, 0, 0], [math.log(2), 0, 0, 1], [0, 0, 1, 0]], dtype=double).view(1, 1, 3, 4)
    v = torch.eye(4, dtype=double)[:3].view(1, 1, 3, 4)
    dout = torch.tensor([2.0, 0, -4, 0], dtype=double).view(1, 1, 1, 4)
    soft = logit_gradient(q, k, v, dout, posenc.Encoding())[0].flatten()
    stick = logit_gradient(q, k, v, dout, posenc.make("stickbreaking", attend_current=True))[0].flatten()
    (dq,) = torch.autograd.grad(posenc.attention(q, k, v), q, dout)
    assert torch.allclose(soft, torch.tensor([5 / 8, 1 / 4, -7 / 8], dtype=double))
    assert torch.allclose(stick, torch.tensor([1 / 12, -1 / 9, -13 / 12], dtype=double))
    assert torch.allclose(dq.flatten(), torch.tensor([math.log(2) / 8, 5 / 16, -7 / 16, 1 / 8], dtype=double))


def test_visits_are_counted():
    by_offset, by_bucket, bucket = page.bucket_visits()
    assert by_bucket.sum() == by_offset.sum() == page.VISITED * (page.VISITED + 1) / 2
    assert by_offset[-1] == 1 and by_bucket.argmax() == 31 and (bucket == 31).sum() > 300
