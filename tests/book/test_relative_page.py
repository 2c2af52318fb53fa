"""What the chapter Relative position says of other people's models, held against their code."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention


@pytest.fixture(scope="module")
def t5():
    from transformers import T5Config, T5Model

    torch.manual_seed(0)
    sizes = {"vocab_size": 19, "d_model": 32, "d_kv": 8, "d_ff": 16, "num_heads": 4, "num_layers": 3}
    return T5Model(T5Config(**sizes, dropout_rate=0.0)).eval()


def attentions(stack):
    """{"SelfAttention": [...], "EncDecAttention": [...]}: the attentions of a stack, layer by layer."""
    layers = {"SelfAttention": [], "EncDecAttention": []}
    for name, module in stack.named_modules():
        kind = name.rpartition(".")[2]
        if kind in layers:
            layers[kind].append(module)
    return layers


def test_t5_has_one_table_for_each_self_attention_stack_and_none_from_decoder_to_encoder(t5):
    assert len(attentions(t5.encoder)["SelfAttention"]) == len(attentions(t5.decoder)["EncDecAttention"]) == 3
    for stack in (t5.encoder, t5.decoder):
        holds = [hasattr(module, "relative_attention_bias") for module in attentions(stack)["SelfAttention"]]
        assert holds == [True, False, False], "the first layer holds it for all"
    assert not any(hasattr(m, "relative_attention_bias") for m in attentions(t5.decoder)["EncDecAttention"])
    tables = [name for name, _ in t5.named_parameters() if "relative" in name or "position" in name]
    assert len(tables) == 2, tables


def test_t5_reads_the_encoders_output_in_any_order(t5):
    tokens, memory, order = torch.randint(19, (1, 5)), torch.randn(1, 7, 32), torch.randperm(7)
    with torch.no_grad():
        one, two = (
            t5.decoder(input_ids=tokens, encoder_hidden_states=x).last_hidden_state for x in (memory, memory[:, order])
        )
        other = t5.decoder(input_ids=tokens.flip(1), encoder_hidden_states=memory).last_hidden_state
    torch.testing.assert_close(one, two, rtol=0, atol=1e-5)
    assert (one - other.flip(1)).abs().max() > 1e-3, "its own text it reads in order"


def test_t5_divides_by_nothing(t5):
    layer = attentions(t5.decoder)["EncDecAttention"][0]
    x, memory = torch.randn(1, 3, 32), torch.randn(1, 6, 32)
    split = [f(y).view(1, -1, 4, 8).transpose(1, 2) for f, y in ((layer.q, x), (layer.k, memory), (layer.v, memory))]
    with torch.no_grad():
        theirs = layer(x, key_value_states=memory)[0]
        right, divided = (
            layer.o(scaled_dot_product_attention(*split, scale=scale).transpose(1, 2).flatten(2))
            for scale in (1.0, None)
        )
    torch.testing.assert_close(theirs, right, rtol=0, atol=1e-5)
    assert (theirs - divided).abs().max() > 1e-3
