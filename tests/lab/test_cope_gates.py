"""benchmarks/cope_gates.py: what it records of a trained model is what the model did."""

import cope_gates
import pytest
import torch

from posenc.bias.cope import positions
from posenc.lab.train import settings_for
from posenc.lab.train.tiny import build


@pytest.fixture
def model():
    model = build("cope", settings_for("nano"))
    for block in model.blocks:
        torch.nn.init.normal_(block.attention.encoding.bias.table, generator=torch.Generator().manual_seed(1))
    return model


@pytest.mark.parametrize("values, share", [([0.0, 0, 1, 1], 1.0), ([0.0, 1, 0, 1], 0.0), ([0.0, 2, 2, 4], 0.5)])
def test_explained_is_the_share_between_groups(values, share):
    groups = torch.tensor([0, 0, 1, 1])
    assert cope_gates.explained(torch.tensor(values, dtype=torch.float64), groups) == pytest.approx(share)


def test_gates_are_recorded_as_the_positions_sum_them(model):
    tokens = torch.arange(12)[None]
    past = torch.ones(12, 12).bool().tril()
    for gates, bias, scores in cope_gates.watched(model, tokens):
        assert torch.allclose(gates.flip(-1).cumsum(-1).flip(-1), positions(scores, past))
        assert gates[..., ~past].abs().max() == 0 and bias.shape == gates.shape


def test_a_bias_with_its_own_gates_is_the_same_and_with_others_is_not(model):
    tokens = torch.arange(12)[None]
    before = model(tokens)
    own = cope_gates.biases(model)

    def replaced(gates):
        for block, bias in zip(model.blocks, own):
            block.attention.encoding.bias = cope_gates.Replaced(bias, gates)
        return model(tokens)

    assert torch.allclose(replaced(lambda g: g), before, atol=1e-5)
    assert not torch.allclose(replaced(torch.ones_like), before, atol=1e-3)
