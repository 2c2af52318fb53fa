r"""The chapter on gradients: every formula against autograd, and what its prose concludes from training and figures."""

import math

import pytest
import torch

import posenc
from posenc.lab.figures.gradients import logit_gradient
from posenc.lab.pages import gradients as page


def test_every_formula_agrees_with_autograd():
    r"""`hold` refuses a formula that is off; here that all methods are there, each with what it learns."""
    rows = page.comparisons()
    titles = {posenc.METHODS[name].title for name in ("rope", "shaw", "t5", "fire", "exposb", "stickbreaking")}
    assert titles <= {row.method for row in rows} and len(page.comparison_table().data.splitlines()) == len(rows) + 2
    assert all(row.error_qk < page.PROMISED for row in rows)
    assert {row.method for row in rows if row.error is None} == {
        "NoPE",
        "ALiBi",
        "Sinusoidal",
        "RoPE",
        "Stick-breaking",
    }


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
        page.compared("ALiBi", "", "", by_autograd, *page.to_qk(ds))


def test_the_gradients_of_a_table_sum_to_zero():
    assert page.conserved() < 1e-12


def test_what_the_prose_concludes_of_the_bars():
    losses = page.losses()
    assert list(losses) == list(page.ENCODINGS) and page.failure_numbers()
    assert all(losses[name][1] > 0.8 for name in ("ALiBi, learned", "KERPLE")) and 0.4 < losses["Shaw"][1] < 0.8
    (axes,) = page.failure_figure().axes
    assert sorted(bar.get_width() for bar in axes.patches) == pytest.approx(
        sorted(x for pair in losses.values() for x in pair)
    )


def test_training_moves_nothing_but_the_encoding_and_no_generator():
    state, seen = torch.random.get_rng_state(), []
    before, after = page.learn(page.ENCODINGS["T5"], lambda step, encoding: seen.append(step))
    assert after < before and seen == list(range(page.STEPS))
    assert torch.equal(state, torch.random.get_rng_state())


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


def test_what_the_prose_concludes_of_rows_and_tokens():
    only = {method: page.row_sizes(method, 1, of=15) for method in ("learned", "stick")}
    assert all((sizes[16:] == 0).all() for sizes in only.values())
    assert only["learned"][:15].max() < 10 * only["learned"][:15].min()
    stick = page.row_sizes("stick", 1, of=23)
    assert stick[22] / stick[13] > 100


def test_visits_are_counted():
    by_offset, by_bucket, bucket = page.bucket_visits()
    assert by_bucket.sum() == by_offset.sum() == page.VISITED * (page.VISITED + 1) / 2
    assert by_offset[-1] == 1 and by_bucket.argmax() == 31 and (bucket == 31).sum() > 300
