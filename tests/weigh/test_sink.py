"""A softmax with a sink: the formula in loops, and gpt-oss's own code."""

import math

import pytest
import torch
from loops import attend, dot
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward

import posenc
from posenc import attention, sink


def random(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def encoding(*logits):
    made = sink.sink(len(logits)).double()
    made.weigh.sinks.data = torch.tensor(logits, dtype=torch.float64)
    return made


def with_slot(logits, slot):
    """The softmax with one number more in its denominator; None is a key that is not visible."""
    powers = [0.0 if z is None else math.exp(z) for z in logits]
    total = sum(powers) + math.exp(slot)
    return [power / total for power in powers]


@pytest.mark.parametrize("slot", [-2.0, 0.0, 3.0], ids=str)
def test_equals_the_formula_in_loops(slot):
    q, k, v = random(1, 1, 4, 8), random(1, 1, 6, 8, seed=1), random(1, 1, 6, 5, seed=2)
    scaled = lambda h, i, j, q_i, k_j: dot(q_i, k_j) / math.sqrt(8)  # noqa: E731
    expected, weights = attend(q, k, v, scaled, weigh=lambda row: with_slot(row, slot))
    out, mine = attention(q, k, v, encoding(slot), return_weights=True)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(mine, weights, rtol=0, atol=1e-12)
    assert (mine.sum(-1) < 1).all()


def test_equals_gpt_oss():
    q, k, v = (random(2, h, 7, 8, seed=s).requires_grad_() for s, h in enumerate((4, 2, 2)))
    made = encoding(0.5, -1.0, 2.0, 0.0)

    class Module(torch.nn.Module):
        num_key_value_groups, sinks, training = 2, made.weigh.sinks, False

    hidden = torch.zeros(7, 7, dtype=torch.float64).masked_fill(~torch.ones(7, 7).bool().tril(), -math.inf)
    theirs = eager_attention_forward(Module(), q, k, v, hidden, 8**-0.5)[0].transpose(1, 2)
    mine = attention(q, k, v, made)
    torch.testing.assert_close(mine, theirs)
    direction, wanted = random(*mine.shape, seed=9), (q, k, v, made.weigh.sinks)
    for got, want in zip(*(torch.autograd.grad(out, wanted, direction) for out in (mine, theirs))):
        torch.testing.assert_close(got, want)


def test_an_empty_sink_is_a_softmax_and_a_full_one_takes_all():
    q, k, v = random(2, 2, 5, 8), random(2, 2, 5, 8, seed=1), random(2, 2, 5, 8, seed=2)
    plain = attention(q, k, v, impl="torch")
    torch.testing.assert_close(attention(q, k, v, encoding(-math.inf, -math.inf)), plain)
    assert attention(q, k, v, encoding(200.0, 200.0)).abs().max() < 1e-80


def test_bad_input_is_named():
    q = random(1, 2, 3, 4)
    for call, words in (
        (lambda: sink.sink(0), ["num_heads=0"]),
        (lambda: attention(q, q, q, sink.sink(3).double()), ["num_heads=3", "must be 2"]),
        (lambda: posenc.compose(sink.sink(2), posenc.stickbreaking.stickbreaking()), ["weigh"]),
    ):
        with pytest.raises(ValueError) as caught:
            call()
        assert all(word in str(caught.value) for word in words), str(caught.value)
