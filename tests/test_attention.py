"""attention() against plain loops, the four places and what is said about them."""

import copy
import math
import os
import re

import numpy as np
import pytest
import torch
from cases import equals_loops
from loops import attend, close, dot, gradients_agree, normal
from torch.utils._python_dispatch import TorchDispatchMode

import posenc
from posenc import Encoding, attention
from posenc.encoding import Gates
from posenc.methods import sizes


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("queries, keys", [(5, 5), (2, 5), (1, 7), (6, 4)])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_equals_plain_loops(causal, queries, keys, kv_heads):
    q, k, v = normal(2, 4, queries, 6), normal(2, kv_heads, keys, 6, seed=1), normal(2, kv_heads, keys, 3, seed=2)
    mask = torch.rand(queries, keys, generator=torch.Generator().manual_seed(3)) > 0.3

    def logit(h, i, j, q_i, k_j):
        return dot(q_i, k_j) / math.sqrt(6) if mask[i + queries - keys, j] else None

    own = [h * kv_heads // 4 for h in range(4)]  # the head of keys that each head of queries reads
    expected, _ = attend(q, k[:, own], v[:, own], logit, causal=causal)
    close(attention(q, k, v, causal=causal, mask=mask), expected)


def test_bias_is_added_after_scaling():
    tensors, bias = [normal(1, 2, 4, 9, seed=s) for s in range(3)], normal(2, 4, 4, seed=3)
    for scale in (None, 0.7):

        def logit(h, i, j, q_i, k_j, factor=scale or 1 / 3):
            return factor * dot(q_i, k_j) + bias[h, i, j].item()

        equals_loops(Encoding(bias=lambda q, k, at: bias), tensors, logit, scale=scale)


def test_bias_sees_rotated_and_repeated_queries_and_keys():
    seen = {}

    def bias(q, k, at):
        seen.update(q=q, k=k, at=at)
        return torch.zeros(1, 1, 1, 1, dtype=q.dtype)

    q, k = normal(1, 4, 3, 8), normal(1, 2, 3, 8, seed=1)
    attention(q, k, k, posenc.compose(posenc.make("rope", head_dim=8), Encoding(bias=bias)))
    frequencies = posenc.rope.inv_freq(8, dtype=torch.float64)
    turned = posenc.rope.rotate(k.repeat_interleave(2, dim=1), torch.arange(3), frequencies)
    assert torch.equal(seen["k"], turned)
    assert torch.equal(seen["q"], posenc.rope.rotate(q, torch.arange(3), frequencies))
    assert seen["at"].visible.shape == (1, 1, 3, 3) and seen["at"].gates is None


def test_causality_goes_by_index_not_by_position():
    q, k, v = normal(1, 1, 4, 8), normal(1, 1, 4, 8, seed=1), normal(1, 1, 4, 8, seed=2)
    backwards = torch.tensor([3, 2, 1, 0])
    _, weights = attention(q, k, v, posenc.make("rope", head_dim=8), pos_q=backwards, return_weights=True)
    assert torch.equal(weights[0, 0] > 0, torch.ones(4, 4, dtype=torch.bool).tril())


def test_one_set_of_positions_serves_queries_and_keys():
    q, k, v = normal(1, 1, 4, 8), normal(1, 1, 4, 8, seed=1), normal(1, 1, 4, 8, seed=2)
    rope, at = posenc.make("rope", head_dim=8), torch.tensor([0, 3, 4, 9])
    both = attention(q, k, v, rope, pos_q=at, pos_k=at)
    assert torch.equal(attention(q, k, v, rope, pos_q=at), both)
    assert torch.equal(attention(q, k, v, rope, pos_k=at), both)
    assert not torch.equal(attention(q, k, v, rope), both)


def test_compose_joins_places_and_shares_parts():
    rope, alibi = posenc.make("rope", head_dim=8), posenc.make("alibi", num_heads=2, learned=True)
    both = posenc.compose(rope, alibi, posenc.make("sinusoidal", embed_at="layer_qk"))
    assert both.places == ("embed", "rotate", "bias")
    assert both.embed_at == "layer_qk"
    assert both.causal_only == alibi.causal_only
    assert both.bias is alibi.bias and len(list(both.parameters())) == 1
    assert posenc.compose().places == () == posenc.compose(Encoding()).places
    q, swapped = normal(1, 2, 5, 8), posenc.compose(alibi, rope)
    assert torch.equal(attention(q, q, q, posenc.compose(rope, alibi)), attention(q, q, q, swapped))


def test_an_implementation_serves_or_is_refused_and_auto_takes_what_serves(capsys):
    q = normal(1, 2, 5, 8)
    half, alibi = q.bfloat16(), posenc.make("alibi", num_heads=2)
    assert torch.equal(attention(q, q, q, alibi, impl="auto"), attention(q, q, q, alibi, impl="sdpa"))
    assert torch.equal(attention(half, half, half, alibi), attention(half, half, half, alibi, impl="torch"))
    line = posenc.explain_impl(posenc.make("rope", head_dim=8))
    assert capsys.readouterr().out.strip() == line and "'sdpa'" in line
    with pytest.raises(posenc.UnsupportedError, match="300"):
        posenc.explain_impl(impl="triton", device="cpu", head_dim=300)
    with pytest.raises(posenc.UnsupportedError, match="float64.*impl='torch'"):
        attention(q, q, q, posenc.make("rope", head_dim=8), impl="triton")
    for x, encoding, weights in ((half, alibi, False), (q, posenc.make("stickbreaking"), False), (q, None, True)):
        with pytest.raises(posenc.UnsupportedError, match="impl='sdpa'.*impl='torch'"):
            attention(x, x, x, encoding, impl="sdpa", return_weights=weights)


@pytest.mark.parametrize("causal", (True, False), ids=("causal", "both-ways"))
@pytest.mark.parametrize("masked", (True, False), ids=("mask", "no-mask"))
@pytest.mark.parametrize("queries,keys", ((7, 7), (3, 7), (7, 3)), ids=str)
@pytest.mark.parametrize("name", ("nope", "rope", "t5+rope"))
def test_fused_attention_returns_what_the_reference_returns(name, queries, keys, masked, causal):
    q, k, v = (normal(2, heads, length, 8).requires_grad_() for heads, length in ((4, queries), (2, keys), (2, keys)))
    mask = torch.rand(queries, keys, generator=torch.Generator().manual_seed(1)) < 0.6 if masked else None
    if masked:
        mask[0] = False  # a query that sees nothing
    rope, t5 = posenc.make("rope", head_dim=8), posenc.make("t5", num_heads=4, bidirectional=True)
    encoding = {"nope": None, "rope": rope, "t5+rope": posenc.compose(t5, rope)}[name]
    learned = () if encoding is None else tuple(encoding.parameters())
    places = {"pos_q": torch.arange(queries) + 40, "pos_k": torch.arange(keys) + 5} if queries != keys else {}
    results, out_grad = [], normal(2, 4, queries, 8)
    for impl in ("torch", "sdpa"):
        out = attention(q, k, v, encoding, causal=causal, mask=mask, scale=0.7, impl=impl, **places)
        results.append((out, *torch.autograd.grad(out, (q, k, v, *learned), out_grad)))
    for name, a, b in zip(("output", "q", "k", "v", "table")[: len(results[0])], *results):
        assert (a - b).abs().max() < 1e-12, name
    if masked:
        assert not results[1][0][:, :, 0].any()


def test_a_method_that_brings_its_attention_gets_everything():
    given = {}
    own = Encoding(attend=lambda *args, **options: given.update(args=args, **options), gates=Gates())
    q, gates = normal(1, 2, 3, 4), normal(1, 2, 3)
    options = dict(pos_q=torch.arange(3), pos_k=torch.arange(3) + 1, causal=False, mask=torch.ones(3, 3).bool())
    options |= dict(scale=0.3, gates=gates, impl="torch", return_weights=True)
    attention(q, q, q, own, **options)
    assert given.pop("args") == (q, q, q, own)
    assert given == options


def test_what_gathers_is_told_the_weights_and_the_values_of_each_head():
    seen, alibi = {}, posenc.make("alibi", num_heads=4)

    def gather(weights, v, at):
        seen.update(weights=weights, v=v, at=at)
        return 2 * weights @ v

    q, k, v = normal(2, 4, 3, 8), normal(2, 2, 5, 8, seed=1), normal(2, 2, 5, 6, seed=2)
    both = posenc.compose(alibi, Encoding(gather=gather))
    out, weights = attention(q, k, v, both, return_weights=True, pos_k=torch.arange(5) + 7, pos_q=torch.arange(3))
    plain, expected = attention(q, k, v, alibi, return_weights=True, pos_k=torch.arange(5) + 7, pos_q=torch.arange(3))
    torch.testing.assert_close(out, 2 * plain)
    assert torch.equal(weights, expected) and seen["weights"] is weights
    assert torch.equal(seen["v"], v.repeat_interleave(2, dim=1)) and seen["at"].pos_k[0, 0] == 7
    assert both.places == ("bias", "gather") and both.without("gather").places == ("bias",)
    assert posenc.explain_impl(both).startswith("impl='torch'")
    for impl in ("sdpa", "triton"):
        with pytest.raises(posenc.UnsupportedError, match=f"impl='{impl}'.*'gather'"):
            attention(q, k, v, Encoding(gather=gather), impl=impl)


def test_which_implementation_and_why(monkeypatch):
    monkeypatch.setattr(posenc.impls, "why_not", lambda *_: None)
    monkeypatch.setattr(posenc.impls, "why_slower", lambda device, *_: "it is slow" if device.type == "cpu" else None)
    alibi = posenc.make("alibi", num_heads=2)
    alone = Encoding(bias=lambda q, k, at: at.scores)  # says nothing of what it reads
    for encoding, dtype, wanted, words in (
        (alibi, torch.float32, "sdpa", "bias.*it is slow"),
        (alibi, torch.float16, "torch", "'bias'.*it is slow"),
        (alone, torch.float32, "torch", "reads_scores"),
    ):
        choice, reason = posenc.impls.choose_impl("auto", encoding, dtype=dtype)
        assert choice == wanted and re.search(words, reason)
    for there, device, choice in ((True, "cuda", "triton"), (False, "cpu", "sdpa")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert posenc.explain_impl(alibi) == posenc.explain_impl(alibi, device=device)
        assert posenc.explain_impl(alibi).startswith(f"impl='{choice}'")
    with pytest.raises(ValueError, match="device='cuda'.*GPU"):
        posenc.explain_impl(device="cuda")


@pytest.mark.parametrize("scale", [-0.3, 0.0, -1e-46, np.float32(-0.5)], ids=str)
def test_a_scale_of_any_sign_gives_what_the_reference_gives(scale):
    q, k, v = (torch.randn(2, 4, 20, 8, generator=torch.Generator().manual_seed(s)) for s in range(3))
    mask = torch.rand(20, 20, generator=torch.Generator().manual_seed(3)) > 0.3
    encodings = [posenc.make(name, head_dim=8) for name in ("rope", "shaw")]  # shaw's bias reads q, unscaled
    for options in ({}, {"causal": False}, {"mask": mask}, *({"encoding": encoding} for encoding in encodings)):
        expected = attention(q.double(), k.double(), v.double(), scale=scale, impl="torch", **options).detach()
        for dtype, far in ((torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 0.1)):
            for impl in ("auto",) if options.get("encoding") is encodings[1] else ("auto", "sdpa"):
                out = attention(*(x.to(dtype) for x in (q, k, v)), scale=scale, impl=impl, **options)
                torch.testing.assert_close(out.double(), expected, rtol=0, atol=far)


@pytest.mark.skipif(
    not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1", reason="no kernel runs"
)
@pytest.mark.parametrize("name", ["alibi", "stickbreaking", "cope"])
def test_the_kernels_take_a_scale_of_any_sign(name):
    pytest.importorskip("triton")
    encoding = posenc.make(name, **posenc.methods.sizes(name, num_heads=2, head_dim=16, length=20))
    q, k, v = (normal(1, 2, 20, 16, seed=s).float().requires_grad_() for s in range(3))
    for scale in (-0.3, 0.0):
        theirs, mine = (attention(q, k, v, encoding, scale=scale, impl=impl) for impl in ("torch", "triton"))
        gradients_agree(mine, theirs, (q, k, v), rtol=0, atol=2e-5)


def test_weights_are_float32_where_q_is_rougher():
    for dtype, wanted in ((torch.float16, torch.float32), (torch.bfloat16, torch.float32), (torch.float64,) * 2):
        q = normal(1, 2, 5, 8).to(dtype)
        out, weights = attention(q, q, q, return_weights=True)
        assert (out.dtype, weights.dtype) == (dtype, wanted)


def test_the_block_attends_as_it_was_made_to():
    x, encoding = normal(2, 5, 8), posenc.make("rope", head_dim=4)
    block = posenc.SelfAttention(8, 2, encoding, scale=0.3, impl="torch", causal=False).double()
    out, weights = block(x, return_weights=True)
    q, k, v = (to(x).unflatten(-1, (2, 4)).transpose(1, 2) for to in (block.to_q, block.to_k, block.to_v))
    expected, own = attention(q, k, v, encoding, scale=0.3, causal=False, return_weights=True)
    torch.testing.assert_close(weights, own)
    torch.testing.assert_close(out, block.to_out(expected.transpose(1, 2).flatten(2)))
    assert not any("bias" in name for name, _ in block.named_parameters())
    names = {name for name, _ in posenc.SelfAttention(8, 2, bias=True).named_parameters()}
    assert {f"to_{name}.bias" for name in ("q", "k", "v", "out")} < names


def test_padding_hides_and_a_mask_hides_more_in_one_pass_and_in_steps():
    x, valid = torch.randn(2, 8, 8), torch.tensor([[False] * 3 + [True] * 5, [True] * 8])
    window = torch.ones(8, 8).bool().triu(-2)
    block = posenc.SelfAttention(8, 2, posenc.make("alibi", num_heads=2))
    padded, both = valid[:, None, None, :], valid[:, None, None, :] & window
    for options, wanted in (({}, padded), ({"mask": window}, both), ({"mask": both}, both)):
        expected = block(x, mask=wanted)
        torch.testing.assert_close(block(x, valid=valid, **options), expected)
        cache, steps = posenc.KVCache(), []
        for now in (slice(0, 4), slice(4, 5), slice(5, 8)):
            mask = {} if not options else {"mask": options["mask"][..., now, : now.stop]}
            steps.append(block(x[:, now], valid=valid[:, now], cache=cache, **mask))
        assert torch.equal(cache.valid, valid) and cache.positions.tolist() == [[0, 0, 0, *range(5)], [*range(8)]]
        torch.testing.assert_close(torch.cat(steps, 1), expected)
    with pytest.raises(ValueError, match=r"mask .*\[4, 8\]"):
        block(x, valid=valid, mask=window[:4])


def held(cache):
    """What a cache holds, as (k, v, positions, valid, gates)."""
    return cache.k, cache.v, cache.positions, cache.valid, cache.gates


@pytest.mark.parametrize("gradients", (True, False), ids=("with-gradients", "without"))
def test_a_cache_holds_what_was_appended_whatever_its_room(gradients):
    k, v, positions, gates = normal(2, 3, 20, 4), normal(2, 3, 20, 5), torch.arange(20).expand(2, 20), normal(2, 6, 20)
    valid = torch.rand(2, 20, generator=torch.Generator().manual_seed(0)) < 0.5
    cache, at = posenc.KVCache(), 0
    assert held(cache) == (None,) * 5
    with torch.set_grad_enabled(gradients):
        for more in (3, 1, 1, 7, 1, 1, 6):
            now, at = slice(at, at + more), at + more
            told = valid[:, now] if at > 4 else None  # nobody speaks of padding at first
            cache.append(k[:, :, now], v[:, :, now], positions[:, now], told, gates[:, :, now])
            assert len(cache) == at
    valid[:, :4] = True
    assert all(torch.equal(a, b) for a, b in zip(held(cache), (k, v, positions, valid, gates)))
    cache.crop(stop=-2)
    cache.crop(start=5)
    cache.reorder(torch.tensor([1, 1, 0]))
    cache.append(
        *(x[[1, 1, 0]] for x in (k[:, :, 18:], v[:, :, 18:], positions[:, 18:])), gates=gates[[1, 1, 0], :, 18:]
    )
    valid[:, 18:] = True
    wanted = (k[:, :, 5:], v[:, :, 5:], positions[:, 5:], valid[:, 5:], gates[:, :, 5:])
    assert all(torch.equal(a, b[[1, 1, 0]]) for a, b in zip(held(cache), wanted))
    assert (len(cache), cache.seen) == (15, 20)
    with pytest.raises(ValueError, match="cache .*batch of 3 with 3 heads of 4 lanes.*batch of 2"):
        cache.append(k[:, :, :1], v[:, :, :1], positions[:, :1])


def test_caches_do_not_write_into_what_is_not_theirs():
    k = normal(1, 2, 9, 4)
    for order in ("nnnn", "ngnn", "nngn", "gngn"):  # without gradients, with
        cache, at = posenc.KVCache(), torch.arange(2)[None]
        for turn, mode in enumerate(order):
            with torch.set_grad_enabled(mode == "g"):
                cache.append(k[:, :, 2 * turn : 2 * turn + 2], k[:, :, 2 * turn : 2 * turn + 2], at)
            at += 2  # in place, as a loop does that counts
        assert torch.equal(cache.k, k[:, :, :8]) and cache.positions.tolist() == [[*range(8)]]
    twin = copy.copy(cache)
    with torch.no_grad():
        twin.append(k[:, :, :1], k[:, :, :1], at[:, :1])
        cache.append(k[:, :, 8:], k[:, :, 8:], at[:, :1])
    assert torch.equal(cache.k, k) and torch.equal(twin.k[:, :, 8:], k[:, :, :1])


@pytest.mark.parametrize("name", ("rope", "fire"))
def test_positions_count_on_where_a_cache_was_cut(name):
    """Both ends: a window that rolls, and a last token taken back."""
    encoding = {"rope": posenc.make("rope", head_dim=8), "fire": posenc.make("fire", num_heads=2, threshold=3.0)}[name]
    block, x, cache = posenc.SelfAttention(16, 2, encoding).double(), normal(1, 7, 16), posenc.KVCache()
    index = torch.arange(7)
    whole = block(x, mask=index[:, None] - index < 4)
    steps = []
    for t in range(7):
        block(x[:, (t + 1) % 7, None], cache=cache)  # a wrong guess
        cache.crop(stop=-1)
        steps.append(block(x[:, t : t + 1], cache=cache))
        cache.crop(start=-3)
    torch.testing.assert_close(torch.cat(steps, 1), whole)


def test_a_call_that_is_refused_leaves_the_cache_alone():
    block, cache, x = posenc.SelfAttention(16, 2), posenc.KVCache(), torch.randn(2, 3, 16)
    block(x, cache=cache)
    with pytest.raises(ValueError, match="mask"):
        block(x, cache=cache, mask=torch.ones(3, 5).bool())
    for rows in (torch.tensor([0, 2]), torch.tensor([-1]), torch.tensor([0.0])):
        with pytest.raises(ValueError, match="rows=.* 0 to 1"):
            cache.reorder(rows)
    assert len(cache) == 3 and cache.k.shape[0] == 2


@pytest.mark.parametrize("causal", (True, False), ids=("causal", "both-ways"))
def test_a_bias_may_be_a_number_or_have_few_dimensions(causal):
    q, k = normal(1, 2, 3, 4), normal(1, 2, 5, 4, seed=1)
    plain = attention(q, k, k, causal=causal, impl="torch")
    for flat in (2, 0.1, torch.tensor(0.1), torch.full((5,), 0.1), torch.full((2, 1, 1), 0.1)):

        def bias(q, k, at, flat=flat):
            return flat

        for impl, bias.reads_scores in (("torch", True), ("sdpa", False)):  # the same for all keys: it changes nothing
            torch.testing.assert_close(attention(q, k, k, Encoding(bias=bias), causal=causal, impl=impl), plain)


def test_a_fraction_behind_whole_numbers_stays_one_in_a_cache():
    cache, k = posenc.KVCache(), normal(2, 3, 5, 4)
    cache.append(k, k, torch.arange(5).expand(2, 5))
    with torch.no_grad():
        cache.append(k[:, :, :1], k[:, :, :1], torch.full((2, 1), 6.5))
    assert cache.positions[:, -1].tolist() == [6.5, 6.5]


def test_an_encoding_without_a_place_shares_the_others():
    both = posenc.compose(posenc.make("rope", head_dim=8), posenc.make("alibi", num_heads=2))
    assert both.without("rotate").places == ("bias",) and both.without("rotate").bias is both.bias
    assert both.without("bias").causal_only == both.causal_only
    with pytest.raises(ValueError, match="place='weigh'.*'rotate'"):
        both.without("weigh")


def test_queries_and_keys_can_be_normalized():
    x, normed = normal(1, 5, 16), posenc.SelfAttention(16, 2, qk_norm=True).double()
    out = normed(x)
    with torch.no_grad():
        normed.to_q.weight *= 50  # lost in the norm
    torch.testing.assert_close(normed(x), out, rtol=1e-5, atol=1e-5)


TWINS = [  # the encoding, what its line says of its own, whether kernels compute it
    (posenc.make("rope", head_dim=8), "rotary kernel turns.*'plain'", True),
    (posenc.compose(posenc.fox.fox(), posenc.make("stickbreaking")), "stick.*kernel.*'decay'", True),
    (posenc.cope.cope(8, 4), "CoPE's own kernel", True),
    (posenc.make("exposb", head_dim=8, num_heads=2), "rotary kernel.*'faded'", True),
    (posenc.inkling.inkling(4), "'bias'.*Inkling.*curve", False),
    (posenc.path.path(8), "'attend'.*PaTH.*between", False),
    (posenc.sink.sink(2), "'weigh'.*sink.*no key", False),
    (posenc.shaw.shaw(8, values=True).without("bias"), "'gather'.*Shaw.*weights", False),
]


@pytest.mark.parametrize("encoding, words, served", TWINS, ids=range(len(TWINS)))
def test_each_case_is_told_with_its_kernel_or_why_there_is_none(encoding, words, served):
    if served:
        assert re.search(words, posenc.explain_impl(encoding, "triton", device="cpu"))
        return
    with pytest.raises(posenc.UnsupportedError, match=words):
        posenc.explain_impl(encoding, "triton", device="cpu")


SINUSOID = posenc.make("sinusoidal")


def test_a_block_refuses_what_acts_before_the_first_layer():
    for encoding in (SINUSOID, posenc.learned.learned(9, 16)):
        with pytest.raises(ValueError, match=r"encoding.*in_layers.*posenc\.embed_input"):
            posenc.SelfAttention(16, 4, encoding)
    with pytest.raises(ValueError, match="dim=12.*16"):
        posenc.SelfAttention(16, 4, posenc.learned.learned(9, 12, embed_at="layer_qk"))


def test_an_encoding_in_two_parts_is_the_model_that_is_made_of_parts():
    alibi, x = posenc.make("alibi", num_heads=4), torch.randn(2, 5, 16)
    both, positions = posenc.compose(SINUSOID, alibi), torch.arange(5) + 3
    whole, parts = (posenc.SelfAttention(16, 4, layers) for layers in (both.in_layers(), alibi))
    parts.load_state_dict(whole.state_dict())
    at_input = posenc.embed_input(both, x, positions)
    assert torch.equal(at_input, SINUSOID.embed(x, positions[None])) and (at_input - x).abs().max() > 0.1
    assert torch.equal(at_input, posenc.embed_input(both.at_input(), x, positions.expand(2, 5)))
    expected = parts(posenc.embed_input(SINUSOID, x, positions), positions=positions)
    torch.testing.assert_close(whole(at_input, positions=positions), expected)
    for nothing in (None, alibi, both.in_layers(), posenc.make("sinusoidal", embed_at="layer_qk")):
        assert posenc.embed_input(nothing, x, positions) is x


def test_the_parts_keep_what_the_whole_says():
    gated = posenc.compose(posenc.learned.learned(9, 16), posenc.make("path", head_dim=4))
    layers = gated.in_layers()
    for name in ("gates", "attend", "causal_only", "head_dim", "axes"):
        assert getattr(layers, name) is getattr(gated, name), name
    assert layers.dim is None and gated.at_input().dim == 16 and gated.at_input().embed is gated.embed
    assert layers.in_layers() is layers and layers.at_input().places == ()
    axes = posenc.compose(Encoding(embed=lambda x, at: x, axes=2), posenc.make("rope2d", head_dim=8))
    assert axes.in_layers().axes == axes.at_input().axes == 2


#: How many a call of 4 heads and 32 tokens takes. On a GPU each is a launch, for which small calls wait.
OPERATORS = {"nope": 5, "rope": 37, "alibi": 17, "t5": 31, "kerple": 24, "fire": 36, "shaw": 22, "fox": 22, "cope": 51}
OPERATORS |= {"stickbreaking": 41, "rse": 83, "exposb": 98, "transformer_xl": 120}


class Counter(TorchDispatchMode):
    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **kwargs or {})


@pytest.mark.parametrize("name", OPERATORS)
def test_a_call_takes_few_operators(name):
    encoding = posenc.make(name, **sizes(name, num_heads=4, head_dim=16, length=32))
    gates = None if encoding.gates is None else -torch.rand(1, 4, 32)
    q, k, v = torch.randn(3, 1, 4, 32, 16)
    with torch.no_grad(), Counter() as counter:
        attention(q, k, v, encoding, gates=gates)
    assert counter.count <= 1.1 * OPERATORS[name]
