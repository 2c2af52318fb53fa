"""Decoder and encoder: position enters at their encodings' places only, decoding step by step equals the full pass."""

import functools
import math

import pytest
import torch

import posenc
from posenc import METHODS, Encoding
from posenc.lab.pages import stirred
from posenc.lab.train import Settings, build, encoding_maker, settings_for
from posenc.lab.train.tiny import Decoder, Encoder
from posenc.methods import on_text

VOCABULARY, DIM, HEADS = 11, 16, 2
BLIND = ("nope", "sink")  # they take the keys as a bag
BOTH_WAYS = [name for name in on_text() if METHODS[name].both_ways or not METHODS[name].causal_only]


def decoder(method, num_layers=2, **options):
    make_encoding = encoding_maker(method, Settings(dim=DIM, num_heads=HEADS), options=options)
    torch.manual_seed(0)
    model = Decoder(VOCABULARY, DIM, num_layers, HEADS, make_encoding)
    return model.double().eval()


def encoder(method, num_layers=2):
    make_encoding = encoding_maker(method, Settings(dim=DIM, num_heads=HEADS), causal=False)
    torch.manual_seed(0)
    return Encoder(VOCABULARY, DIM, num_layers, HEADS, make_encoding).double().eval()


def tokens(batch=2, length=9, seed=1):
    return torch.randint(VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(seed))


def swapped(x):
    """x with two earlier tokens exchanged that differ."""
    x = x.clone()
    x[:, [1, 4]] = x[:, [4, 1]]
    return x


@pytest.mark.parametrize("method", on_text())
def test_logits_have_a_row_for_each_token(method):
    assert decoder(method)(tokens()).shape == (2, 9, VOCABULARY)
    assert decoder(method)(tokens(length=1)).shape == (2, 1, VOCABULARY)


def test_one_causal_layer_without_position_ignores_the_order_of_the_past_and_two_do_not():
    x = tokens()
    x[:, 1], x[:, 4] = 3, 7
    for method in BLIND:
        last = {depth: [decoder(method, depth)(y)[:, -1] for y in (x, swapped(x))] for depth in (1, 2)}
        torch.testing.assert_close(*last[1], rtol=0, atol=1e-12)
        assert (last[2][0] - last[2][1]).abs().max() > 1e-3


@pytest.mark.parametrize("method", [name for name in on_text() if name not in BLIND])
def test_one_layer_with_position_tells_the_order_of_the_past(method):
    x = tokens()
    x[:, 1], x[:, 4] = 3, 7
    model = stirred(decoder(method, 1))  # CoPE starts as NoPE
    assert (model(x)[:, -1] - model(swapped(x))[:, -1]).abs().max() > 1e-4  # a learned table starts small


@pytest.mark.parametrize("method", on_text())
def test_the_future_changes_nothing(method):
    model, x = decoder(method), tokens()
    other = x.clone()
    other[:, 5:] = (other[:, 5:] + 1) % VOCABULARY
    assert torch.equal(model(x)[:, :5], model(other)[:, :5])
    assert (model(x)[:, 5:] - model(other)[:, 5:]).abs().max() > 1e-3


@pytest.mark.parametrize("method", on_text())
def test_cached_decoding_equals_the_full_pass(method):
    model, x = decoder(method), tokens(length=5)
    caches = model.new_caches()
    steps = torch.cat([model(x[:, :2], caches=caches)] + [model(x[:, t : t + 1], caches=caches) for t in (2, 3, 4)], 1)
    torch.testing.assert_close(steps, model(x), rtol=0, atol=1e-12)

    greedy = x
    for _ in range(6):
        greedy = torch.cat((greedy, model(greedy)[:, -1].argmax(-1, keepdim=True)), 1)
    assert torch.equal(model.generate(x, 6, temperature=0), greedy)


@pytest.mark.parametrize("method", on_text())
def test_windowed_generation_sees_the_last_tokens_at_positions_from_zero(method):
    model, x = decoder(method), tokens(length=5)
    greedy = x
    for _ in range(6):
        greedy = torch.cat((greedy, model(greedy[:, -4:])[:, -1].argmax(-1, keepdim=True)), 1)
    assert torch.equal(model.generate(x, 6, temperature=0, window=4), greedy)


def test_generation_is_seeded_and_follows_the_temperature():
    model, x = decoder("rope"), tokens(batch=1, length=3)
    assert torch.equal(model.generate(x, 20, seed=3), model.generate(x, 20, seed=3))
    assert not torch.equal(model.generate(x, 20, seed=3), model.generate(x, 20, seed=4))
    assert torch.equal(model.generate(x, 20, temperature=1e-6), model.generate(x, 20, temperature=0))
    assert torch.equal(model.generate(x, 0), x)


@pytest.mark.parametrize("method", on_text())
def test_left_padding_changes_nothing(method):
    model, x = decoder(method), tokens(batch=1, length=6)
    padded = torch.cat((torch.full((1, 3), 9), x), dim=1)
    valid = torch.tensor([[False] * 3 + [True] * 6])
    positions = torch.tensor([[0, 0, 0, 0, 1, 2, 3, 4, 5]])
    torch.testing.assert_close(model(padded, positions=positions, valid=valid)[:, 3:], model(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", on_text())
def test_embeddings_enter_with_variance_one_whatever_the_method(method):
    torch.manual_seed(0)
    model = Decoder(500, 64, 1, 2, encoding_maker(method, Settings(dim=64, num_heads=2)))
    seen = []
    model.blocks[0].register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    x = torch.arange(500)[None]
    model(x, positions=torch.zeros(1, 500, dtype=torch.long))
    code = torch.tensor([0.0, 1.0]).repeat(32) if method == "sinusoidal" else torch.zeros(64)  # position 0
    code = model.embed.table[0] if method == "learned" else code
    embedded = seen[0] - code
    assert abs(embedded.var().item() - 1) < 0.05
    torch.testing.assert_close(embedded[0], model.embedding.weight * math.sqrt(64))


def test_fire_begins_to_divide_by_the_query_s_position_at_a_quarter_of_the_training_length():
    made = encoding_maker("fire", Settings(dim=DIM, num_heads=HEADS, length=80))(0)
    q = torch.zeros(1, HEADS, 1, DIM // HEADS)

    def bias(at, key):
        return made.bias(q, q, posenc.At(torch.tensor([[at]]), torch.tensor([[key]]), None))

    torch.testing.assert_close(bias(20, 15), bias(5, 0))
    assert (bias(25, 20) - bias(5, 0)).abs().max() > 1e-4


def test_an_encoding_at_the_input_acts_once():
    once, each = decoder("sinusoidal"), decoder("sinusoidal", embed_at="layer_qk")
    assert once.embed is not None and all(block.attention.encoding.places == () for block in once.blocks)
    assert each.embed is None and all(block.attention.encoding.places == ("embed",) for block in each.blocks)
    x = tokens()
    assert (once(x) - each(x)).abs().max() > 1e-3
    assert (once(x) - once(x, positions=torch.arange(9) + 5)).abs().max() > 1e-3


def test_what_is_left_after_the_input_keeps_the_other_places():
    both = posenc.compose(posenc.make("sinusoidal"), posenc.make("rope", head_dim=DIM // HEADS))
    torch.manual_seed(0)
    model = Decoder(VOCABULARY, DIM, 2, HEADS, lambda layer: both)
    assert model.embed is both.embed
    assert [block.attention.encoding.places for block in model.blocks] == [("rotate",)] * 2
    gated = posenc.compose(posenc.make("sinusoidal"), posenc.make("fox"))
    model = Decoder(VOCABULARY, DIM, 1, HEADS, lambda layer: gated)
    assert model.blocks[0].attention.encoding.gates is gated.gates and model(tokens()).isfinite().all()


def test_each_layer_gets_the_encoding_made_for_it():
    made = [posenc.make("nope"), posenc.make("rope", head_dim=DIM // HEADS), posenc.make("alibi", num_heads=HEADS)]
    model = Decoder(VOCABULARY, DIM, 3, HEADS, made.__getitem__)
    assert [block.attention.encoding for block in model.blocks] == made


# -------------------------------------------------------------------------------------------------------- the encoder


def moved(method, order):
    """How far an encoder's output on tokens in another order is from its output in that order."""
    model, x = encoder(method), torch.arange(9)[None].expand(2, -1)
    return (model(x[:, order]) - model(x)[:, order]).abs().max().item()


ORDER = torch.tensor([3, 0, 8, 1, 7, 5, 2, 4, 6])


def test_an_encoder_without_position_is_permutation_equivariant():
    for method in BLIND:
        assert moved(method, ORDER) < 1e-12 and moved(method, torch.arange(9).flip(0)) < 1e-12
    causal, x = decoder("nope"), torch.arange(9)[None]
    assert (causal(x[:, ORDER]) - causal(x)[:, ORDER]).abs().max() > 1e-3  # the causal mask tells order


@pytest.mark.parametrize("method", [name for name in BOTH_WAYS if name not in BLIND])
def test_an_encoder_with_position_is_not(method):
    assert moved(method, ORDER) > 1e-3


def test_symmetric_alibi_tells_how_far_and_not_which_side():
    backwards = torch.arange(9).flip(0)
    assert moved("alibi", backwards) < 1e-12
    assert all(moved(method, backwards) > 1e-3 for method in ("sinusoidal", "rope", "stickbreaking"))


@pytest.mark.parametrize("method", BOTH_WAYS)
def test_an_encoder_sees_every_token_from_every_token(method):
    model, x = encoder(method), tokens(batch=1)
    before = model(x)
    for index in range(9):
        other = x.clone()
        other[0, index] = (other[0, index] + 1) % VOCABULARY
        assert ((model(other) - before).abs().amax(-1) > 1e-9).all(), index


@pytest.mark.parametrize("method", on_text())
def test_an_encoder_has_the_decoder_s_blocks_and_weights(method):
    a, b = encoder(method).state_dict(), decoder(method).state_dict()
    assert a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


@pytest.mark.parametrize("method", [name for name, row in METHODS.items() if row.causal_only])
def test_a_method_that_needs_the_causal_mask_says_so(method):
    causal = encoding_maker(method, Settings(dim=DIM, num_heads=HEADS))
    assert METHODS[method].causal_only
    with pytest.raises(posenc.UnsupportedError, match="causal=False"):
        Encoder(VOCABULARY, DIM, 2, HEADS, causal)(tokens())


def pro(switches=None, layers=2):
    """A decoder of FoX with `FoxPro` in SelfAttention's place."""
    settings = Settings(dim=DIM, num_heads=HEADS, num_layers=layers)
    return build("fox", settings, seed=3, make_attention=functools.partial(posenc.FoxPro, **(switches or {}))).double()


def test_a_model_attends_with_what_it_is_given():
    model, x = pro().eval(), tokens(length=7)
    assert all(type(block.attention) is posenc.FoxPro for block in model.blocks)
    caches = model.new_caches()
    steps = torch.cat([model(part, caches=caches) for part in x.split([3, 1, 1, 2], dim=1)], 1)
    torch.testing.assert_close(steps, model(x), rtol=0, atol=1e-12)
    torch.testing.assert_close(model.generate(x, 3, temperature=0), model.generate(x, 3, temperature=0, window=99))


def test_the_switches_of_a_block_leave_all_other_weights_as_they_start():
    plain = build("fox", Settings(dim=DIM, num_heads=HEADS, num_layers=2), seed=3).double().state_dict()
    off = dict.fromkeys(("kv_shift", "qk_norm", "output_norm", "output_gate"), False)
    whole, none = pro().state_dict(), pro(off).state_dict()
    assert none.keys() == plain.keys() < whole.keys()
    assert all(torch.equal(weight, none[name]) and torch.equal(weight, whole[name]) for name, weight in plain.items())


def test_an_encoder_refuses_caches():
    assert not hasattr(Encoder, "generate") and not hasattr(Encoder, "new_caches")
    with pytest.raises(posenc.UnsupportedError, match="caches"):
        encoder("rope")(tokens(), caches=decoder("rope").new_caches())


# ---------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: Encoder(11, 16, 0, 2, lambda layer: Encoding()), ValueError, "num_layers=0"),
        (lambda: Decoder(0, 16, 2, 2, lambda layer: Encoding()), ValueError, "vocab_size=0"),
        (lambda: Decoder(11, "16", 2, 2, lambda layer: Encoding()), TypeError, "dim='16'"),
        (lambda: Decoder(11, 16, 0, 2, lambda layer: Encoding()), ValueError, "num_layers=0"),
        (lambda: Decoder(11, 16, 2, 3, lambda layer: Encoding()), ValueError, "num_heads=3.*dim=16"),
        (lambda: Decoder(11, 16, 2, 2, "rope"), TypeError, "make_encoding='rope'"),
        (lambda: Decoder(11, 16, 2, 2, lambda layer: None), TypeError, r"make_encoding\(0\).*Encoding"),
        (lambda: Decoder(11, 16, 2, 2, lambda layer: Encoding(), "FoxPro"), TypeError, "make_attention='FoxPro'"),
        (lambda: decoder("nope")([1, 2]), TypeError, "tokens"),
        (lambda: decoder("nope")(torch.zeros(3).long()), ValueError, r"tokens.*\[B, T\]"),
        (lambda: decoder("nope")(tokens(), caches=[]), ValueError, "caches"),
        (lambda: decoder("nope").generate(tokens(length=0), 2), ValueError, "tokens"),
        (lambda: decoder("nope").generate(tokens(), -1), ValueError, "length=-1"),
        (lambda: decoder("nope").generate(tokens(), 2, temperature=-1), ValueError, "temperature=-1"),
        (lambda: decoder("nope").generate(tokens(), 2, seed="a"), TypeError, "seed='a'"),
        (lambda: decoder("nope").generate(tokens(), 2, window=0), ValueError, "window=0"),
    ],
)
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


FIXED = (
    "log_r1",
    "log_r2",
    ".c",
    "stretch",
    "decay_rates",
    "band_weights",
    ".raw",
    "to_gates.bias",
    "bias.table",
    "weigh.sinks",
)  # parameters that start as given


@pytest.mark.parametrize("name", on_text())
def test_what_two_methods_share_starts_alike_for_a_seed(name):
    settings = settings_for("nano")
    first, second = build("nope", settings, seed=5).state_dict(), build(name, settings, seed=5).state_dict()
    assert first.keys() <= second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)
    again, other = (build(name, settings, seed=seed).state_dict() for seed in (5, 6))
    assert all(torch.equal(second[key], again[key]) for key in second)
    random = [key for key in second.keys() - first.keys() if not key.endswith(FIXED)]
    assert all(not torch.equal(second[key], other[key]) for key in random)
