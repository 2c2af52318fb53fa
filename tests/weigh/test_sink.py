"""A softmax with a sink: the formula in loops, and gpt-oss's own code."""

import math

import pytest
import torch
from cases import equals_loops
from loops import dot, gradients_agree, normal
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward

from posenc import attention, sink


def encoding(*logits):
    made = sink.sink(len(logits)).double()
    made.weigh.sinks.data = torch.tensor(logits, dtype=torch.float64)
    return made


@pytest.mark.parametrize("slot", [-2.0, 0.0, 3.0], ids=str)
def test_equals_the_formula_in_loops(slot):
    """The softmax with one number more in its denominator."""

    def logit(h, i, j, q_i, k_j):
        return dot(q_i, k_j) / math.sqrt(8)

    def weigh(logits):
        powers = [0.0 if z is None else math.exp(z) for z in logits]
        return [power / (sum(powers) + math.exp(slot)) for power in powers]

    equals_loops(encoding(slot), (normal(1, 1, 4, 8), normal(1, 1, 6, 8, seed=1), normal(1, 1, 6, 5)), logit, weigh)


def test_equals_gpt_oss():
    q, k, v = (normal(2, h, 7, 8, seed=s).requires_grad_() for s, h in enumerate((4, 2, 2)))
    made = encoding(0.5, -1.0, 2.0, 0.0)

    class Module(torch.nn.Module):
        num_key_value_groups, sinks, training = 2, made.weigh.sinks, False

    hidden = torch.zeros(7, 7, dtype=torch.float64).masked_fill(~torch.ones(7, 7).bool().tril(), -math.inf)
    theirs = eager_attention_forward(Module(), q, k, v, hidden, 8**-0.5)[0].transpose(1, 2)
    gradients_agree(attention(q, k, v, made), theirs, (q, k, v, made.weigh.sinks))


def test_an_empty_sink_is_a_softmax_and_a_full_one_takes_all():
    q, k, v = (normal(2, 2, 5, 8, seed=s) for s in range(3))
    plain = attention(q, k, v, impl="torch")
    torch.testing.assert_close(attention(q, k, v, encoding(-math.inf, -math.inf)), plain)
    assert attention(q, k, v, encoding(200.0, 200.0)).abs().max() < 1e-80
