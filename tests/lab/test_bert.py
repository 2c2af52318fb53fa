"""posenc inside a BERT of transformers, tiny and random: what it knows of order, and that its attention is ours."""

import pytest
import torch

import posenc
from posenc.errors import UnsupportedError
from posenc.lab.train.bert import encode_bert

transformers = pytest.importorskip("transformers")


def small_bert():
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=40,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=24,
        attn_implementation="eager",
    )
    return transformers.BertModel(config).double().eval()


TOKENS = torch.randint(1, 40, (2, 12), generator=torch.Generator().manual_seed(1))
ORDER = torch.randperm(12, generator=torch.Generator().manual_seed(2))


@torch.no_grad()
def states(model, tokens, **how):
    return model(tokens, use_cache=False, **how).last_hidden_state


@pytest.mark.parametrize("silence", [True, False])
def test_nope_is_equivariant_once_the_table_is_silent_and_not_before(silence):
    model = encode_bert(small_bert(), lambda layer: posenc.make("nope"), silence=silence)
    apart = (states(model, TOKENS[:, ORDER]) - states(model, TOKENS)[:, ORDER]).abs().max()
    assert (apart < 1e-12) == silence and (silence or apart > 1e-3)


@pytest.mark.parametrize("causal", [False, True])
def test_with_rope_a_layer_attends_as_posenc_does(causal):
    rope = posenc.make("rope", head_dim=16)
    model = encode_bert(small_bert(), lambda layer: rope, causal)
    inner, x = model.encoder.layer[0].attention.self, torch.randn(2, 12, 32, dtype=torch.float64)
    heads = [project(x).view(2, 12, 2, 16).transpose(1, 2) for project in (inner.query, inner.key, inner.value)]
    expected = posenc.attention(*heads, rope, causal=causal, impl="torch").transpose(1, 2).reshape(2, 12, 32)
    torch.testing.assert_close(inner(x)[0], expected)
    assert not torch.allclose(states(model, TOKENS[:, ORDER]), states(model, TOKENS)[:, ORDER])


def test_without_an_encoding_and_with_its_table_it_is_the_model_that_it_was():
    plain = states(small_bert(), TOKENS)
    model = encode_bert(small_bert(), lambda layer: posenc.make("nope"), silence=False)
    torch.testing.assert_close(states(model, TOKENS), plain)


def test_a_causal_one_does_not_look_ahead():
    model = encode_bert(small_bert(), lambda layer: posenc.make("rope", head_dim=16), causal=True)
    other = TOKENS.clone()
    other[:, 8:] = 3
    torch.testing.assert_close(states(model, other)[:, :8], states(model, TOKENS)[:, :8])


@pytest.mark.parametrize("causal", [False, True])
def test_padding_changes_nothing_for_the_tokens_that_are_there(causal):
    model = encode_bert(small_bert(), lambda layer: posenc.make("rope", head_dim=16), causal)
    there = torch.arange(12).expand(2, 12) < 9
    other = torch.where(there, TOKENS, 5)
    padded = [states(model, tokens, attention_mask=there.long())[:, :9] for tokens in (TOKENS, other)]
    torch.testing.assert_close(*padded)
    torch.testing.assert_close(padded[0], states(model, TOKENS[:, :9]))


@pytest.mark.parametrize("place, moves", [("layer_qk", False), ("layer_qkv", True)])
def test_values_have_a_position_in_standard_and_none_in_absolute(place, moves):
    model = encode_bert(small_bert(), lambda layer: posenc.make("sinusoidal", embed_at=place))
    word = torch.randn(1, 1, 32, dtype=torch.float64).expand(1, 12, 32)  # one token, everywhere
    output = model.encoder.layer[0].attention.self(word)[0]
    assert ((output - output[:, :1]).abs().max() > 1e-6) == moves


def test_what_does_not_fit_is_refused():
    with pytest.raises(UnsupportedError, match="BertModel"):
        encode_bert(torch.nn.Linear(2, 2), lambda layer: posenc.make("nope"))
    with pytest.raises(UnsupportedError, match="layer_qk"):
        encode_bert(small_bert(), lambda layer: posenc.make("sinusoidal"))
    inner = encode_bert(small_bert(), lambda layer: posenc.make("nope")).encoder.layer[0].attention.self
    with pytest.raises(UnsupportedError, match="use_cache"):
        inner(torch.zeros(1, 3, 32, dtype=torch.float64), past_key_values=object())
