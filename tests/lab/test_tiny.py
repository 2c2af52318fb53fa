"""Decoder and encoder: position enters at their encodings' places only, decoding step by step equals the full pass."""

import functools

import pytest
import torch

import posenc
from posenc import METHODS, Encoding
from posenc.lab.train import Settings, build, encoding_maker, settings_for
from posenc.lab.train.tiny import Decoder, Encoder
from posenc.lab.write import stirred
from posenc.methods import on_text

VOCABULARY, DIM, HEADS = 11, 16, 2
SETTINGS = Settings(dim=DIM, num_heads=HEADS, num_layers=2, length=80)
BLIND = ("nope", "sink")  # they take the keys as a bag
BOTH_WAYS = [name for name in on_text() if METHODS[name].both_ways or not METHODS[name].causal_only]
close = functools.partial(torch.testing.assert_close, rtol=0, atol=1e-12)


def model_of(kind, method, num_layers=2, **options):
    make_encoding = encoding_maker(method, SETTINGS, causal=kind.causal, options=options)
    torch.manual_seed(0)
    return kind(VOCABULARY, DIM, num_layers, HEADS, make_encoding).double().eval()


decoder, encoder = functools.partial(model_of, Decoder), functools.partial(model_of, Encoder)


def tokens(batch=2, length=9, seed=1):
    return torch.randint(VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(seed))


def moved_last(model):
    """How far the last output moves where two earlier tokens that differ are exchanged."""
    x = tokens()
    x[:, 1], x[:, 4] = 3, 7
    other = x.clone()
    other[:, [1, 4]] = x[:, [4, 1]]
    return (model(x)[:, -1] - model(other)[:, -1]).abs().max().item()


@pytest.mark.parametrize("method", on_text())
def test_one_layer_tells_the_order_of_the_past_where_it_has_position(method):
    """CoPE starts as NoPE, a learned table small; without position two layers and the causal mask tell order."""
    one = moved_last(stirred(decoder(method, 1)))
    assert one < 1e-12 if method in BLIND else one > 1e-4
    assert moved_last(decoder(method, 2)) > 1e-4


@pytest.mark.parametrize("method", on_text())
def test_decoding_step_by_step_in_windows_or_padded_is_the_full_pass(method):
    model, x = decoder(method), tokens(length=6)
    full = model(x)
    assert full.shape == (2, 6, VOCABULARY)
    other = x.clone()
    other[:, 4:] = (other[:, 4:] + 1) % VOCABULARY
    assert torch.equal(full[:, :4], model(other)[:, :4]) and (full - model(other))[:, 4:].abs().max() > 1e-3
    caches = model.new_caches()
    close(torch.cat([model(part, caches=caches) for part in x.split([2, 1, 1, 2], 1)], 1), full)
    padded, valid = torch.cat((torch.full((2, 3), 9), x), 1), torch.tensor([[False] * 3 + [True] * 6] * 2)
    positions = torch.tensor([[0, 0, 0, 0, 1, 2, 3, 4, 5]] * 2)
    close(model(padded, positions=positions, valid=valid)[:, 3:], full)
    for window in (None, 4):
        greedy = x
        for _ in range(4):
            greedy = torch.cat((greedy, model(greedy[:, -(window or 99) :])[:, -1].argmax(-1, keepdim=True)), 1)
        assert torch.equal(model.generate(x, 4, temperature=0, window=window), greedy)
    one, again, other = (model.generate(x, 20, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(one, again) and not torch.equal(one, other)


def test_methods_get_the_sizes_they_ask_for():
    rope = encoding_maker("rope", SETTINGS, options={"base": 9.0})
    assert rope(0) is not rope(0) and rope(0).rotate.inv_freq[1].item() == pytest.approx(9 ** (-1 / 4))
    assert encoding_maker("alibi", SETTINGS)(0).bias.slopes.shape == (HEADS,)
    fire, q = encoding_maker("fire", SETTINGS)(0), torch.zeros(1, HEADS, 1, DIM // HEADS)

    def bias(at, key):
        return fire.bias(q, q, posenc.At(torch.tensor([[at]]), torch.tensor([[key]]), None))

    torch.testing.assert_close(bias(20, 15), bias(5, 0))  # it divides by the position from a quarter of 80 on
    assert (bias(25, 20) - bias(5, 0)).abs().max() > 1e-4


def test_an_encoding_at_the_input_acts_once_and_leaves_the_other_places():
    both = posenc.compose(posenc.make("sinusoidal"), posenc.make("rope", head_dim=DIM // HEADS))
    made = [both, posenc.make("nope"), posenc.make("alibi", num_heads=HEADS)]
    model = Decoder(VOCABULARY, DIM, 3, HEADS, made.__getitem__)
    assert model.embed is both.embed
    assert [block.attention.encoding.places for block in model.blocks] == [("rotate",), (), ("bias",)]
    each = decoder("sinusoidal", embed_at="layer_qk")
    assert each.embed is None and all(block.attention.encoding.places == ("embed",) for block in each.blocks)
    assert (decoder("sinusoidal")(tokens()) - each(tokens())).abs().max() > 1e-3


ORDER = torch.tensor([3, 0, 8, 1, 7, 5, 2, 4, 6])


def moved(method, order):
    """How far an encoder's output on tokens in another order is from its output in that order."""
    model, x = encoder(method), torch.arange(9)[None]
    return (model(x[:, order]) - model(x)[:, order]).abs().max().item()


@pytest.mark.parametrize("method", BOTH_WAYS)
def test_an_encoder_sees_every_token_and_tells_order_by_its_encoding_alone(method):
    assert moved(method, ORDER) < 1e-12 if method in BLIND else moved(method, ORDER) > 1e-3
    if method == "alibi":  # which tells how far, and not which side
        assert moved(method, torch.arange(9).flip(0)) < 1e-12
    model, x = encoder(method), tokens(batch=1)
    for index in range(9):
        other = x.clone()
        other[0, index] = (other[0, index] + 1) % VOCABULARY
        assert ((model(other) - model(x)).abs().amax(-1) > 1e-9).all(), index


@pytest.mark.parametrize("off", [False, True])
def test_a_model_attends_with_what_it_is_given(off):
    switches = dict.fromkeys(("kv_shift", "qk_norm", "output_norm", "output_gate"), False) if off else {}
    model = build("fox", SETTINGS, seed=3, make_attention=functools.partial(posenc.FoxPro, **switches)).double().eval()
    caches, x = model.new_caches(), tokens(length=7)
    close(torch.cat([model(part, caches=caches) for part in x.split([3, 1, 1, 2], dim=1)], 1), model(x))
    plain, pro = build("fox", SETTINGS, seed=3).double().state_dict(), model.state_dict()
    assert plain.keys() == pro.keys() if off else plain.keys() < pro.keys()
    assert all(torch.equal(weight, pro[name]) for name, weight in plain.items())


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: Decoder(11, "16", 2, 2, lambda layer: Encoding()), TypeError, "dim='16'"),
        (lambda: Decoder(11, 16, 2, 3, lambda layer: Encoding()), ValueError, "num_heads=3.*dim=16"),
        (lambda: Decoder(11, 16, 2, 2, "rope"), TypeError, "make_encoding='rope'"),
        (lambda: Decoder(11, 16, 2, 2, lambda layer: None), TypeError, r"make_encoding\(0\).*Encoding"),
        (lambda: Decoder(11, 16, 2, 2, lambda layer: Encoding(), "FoxPro"), TypeError, "make_attention='FoxPro'"),
        (lambda: decoder("nope")(torch.zeros(3).long()), ValueError, r"tokens.*\[B, T\]"),
        (lambda: encoder("rope")(tokens(), caches=decoder("rope").new_caches()), posenc.UnsupportedError, "caches"),
        (lambda: decoder("nope").generate(tokens(length=0), 2), ValueError, "tokens"),
        (lambda: decoder("nope").generate(tokens(), 2, temperature=-1), ValueError, "temperature=-1"),
    ],
)
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("name", on_text())
def test_what_two_methods_share_starts_alike_for_a_seed(name):
    settings = settings_for("nano")
    first, second = build("nope", settings, seed=5).state_dict(), build(name, settings, seed=5).state_dict()
    assert all(torch.equal(first[key], second[key]) for key in first)
    again, other = (build(name, settings, seed=seed).state_dict() for seed in (5, 6))
    assert all(torch.equal(second[key], again[key]) for key in second)
    assert all(not torch.equal(second[key], other[key]) for key in second if key.endswith("to_q.weight"))
    if name in BOTH_WAYS:
        assert build(name, settings, "masked", seed=5).state_dict().keys() == second.keys()
