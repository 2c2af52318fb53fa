r"""Encodings in other people's attention: FlexAttention, PyTorch's fused function and models of transformers."""

import copy
import re
from pathlib import Path

import cases
import pytest
import torch
import transformers
from torch.nn.functional import scaled_dot_product_attention

import posenc
from posenc import UnsupportedError, bridges, make, scaling

BIASES = [
    name for name in cases.NAMES if cases.encoding(name).places == ("bias",) and cases.encoding(name).attend is None
]
FLEX = ["nope", "alibi", "alibi-symmetric", "alibi-learned", "t5", "t5-bidirectional", "kerple", "kerple-power"]
FLEX += ["fox", "penalty"]


def penalty_or(name):
    return posenc.rse.penalty(rate=0.3) if name == "penalty" else cases.encoding(name)


def inputs(queries=9, keys=9, dtype=torch.float64, heads_k=cases.HEADS, seed=0):
    generator = torch.Generator().manual_seed(seed)
    sizes = ((cases.HEADS, queries), (heads_k, keys), (heads_k, keys))
    return [torch.randn(2, h, t, cases.HEAD_DIM, dtype=torch.float64, generator=generator).to(dtype) for h, t in sizes]


def situations(name):
    """Options of `attention`: all at once that differs from a plain call, and a call without causality."""
    positions = torch.stack((torch.arange(9), torch.arange(9) * 3 + 5))
    padding = torch.ones(2, 1, 1, 9, dtype=torch.bool)
    padding[0, ..., :3] = False
    yield inputs(queries=7, heads_k=2), {"pos_q": positions[:, 2:], "pos_k": positions, "mask": padding}
    if not penalty_or(name).causal_only:
        yield inputs(queries=4), {"causal": False}


def off_by(out, expected, options):
    """The largest difference, of queries that see a key: what a fused function gives the others is its own affair."""
    rows = posenc.inputs.visible_keys(out, out.new_zeros(2, 1, 9, 1), options.get("causal", True), options.get("mask"))
    return (out - expected).masked_fill(~rows.any(-1, keepdim=True), 0).abs().max()


# --- FlexAttention and the additive bias ---------------------------------------------------------------------------


def by_the_mods(q, k, v, score_mod, mask_mod):
    """What FlexAttention defines, with every index a tensor that broadcasts: no compiler, so it is quick."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    index = torch.meshgrid(*(torch.arange(n) for n in scores.shape), indexing="ij")
    scores = scores if score_mod is None else score_mod(scores, *index)
    return scores.masked_fill(~mask_mod(*index), float("-inf")).softmax(-1) @ v


@pytest.mark.parametrize("name", FLEX)
def test_the_mods_equal_attention(name):
    for dtype, limit in ((torch.float64, 1e-12), (torch.float32, 2e-6)):
        for tensors, options in situations(name):
            q, k, v = (x.to(dtype) for x in tensors)
            made = penalty_or(name).to(dtype)
            gates = cases.gates(made, q, k)
            out = by_the_mods(q, k, v, *bridges.flex(made, q, k, gates=gates, **options))
            expected = posenc.attention(q, k, v, made, gates=gates, impl="torch", **options)
            assert out.dtype == dtype and off_by(out, expected, options) < limit


@pytest.mark.parametrize(
    "name, compiled", [("t5", False), *(pytest.param(name, True, marks=pytest.mark.weekly) for name in ("t5", "fox"))]
)
@torch.no_grad()
def test_flex_attention_takes_them(name, compiled):
    attend_flex = pytest.importorskip("torch.nn.attention.flex_attention")
    tensors, options = next(situations(name))
    q, k, v = (x.float() for x in tensors)
    made = cases.encoding(name)
    gates = cases.gates(made, q, k)
    score_mod, mask_mod = bridges.flex(made, q, k, gates=gates, **options)
    block_mask = attend_flex.create_block_mask(mask_mod, 2, None, q.shape[2], k.shape[2], device="cpu")
    attend = attend_flex.flex_attention
    attend = torch.compile(attend, dynamic=False) if compiled else attend  # else Inductor names what is not there
    out = attend(q, k, v, score_mod, block_mask, enable_gqa=True)
    expected = posenc.attention(q, k, v, made, gates=gates, impl="torch", **options)
    assert off_by(out, expected, options) < 2e-6


@pytest.mark.parametrize("name", ["nope", "penalty", *BIASES])
def test_the_additive_bias_equals_attention(name):
    for (q, k, v), options in situations(name):
        made = penalty_or(name).double()
        gates = cases.gates(made, q, k)
        bias = bridges.sdpa_bias(made, q, k, gates=gates, **options)
        assert bias.shape[1:] == (cases.HEADS, q.shape[2], k.shape[2]) and bias.dtype == q.dtype
        grouped = k.shape[1] != q.shape[1]
        out = scaled_dot_product_attention(q, k, v, attn_mask=bias, enable_gqa=grouped)
        expected = posenc.attention(q, k, v, made, gates=gates, impl="torch", **options)
        assert off_by(out, expected, options) < 1e-12


@pytest.mark.parametrize("name", ["alibi-learned", "t5", "kerple"])
def test_parameters_learn_through_both(name):
    q, k, v = inputs()
    made = penalty_or(name).double()

    def gradients(out):
        return torch.autograd.grad(out.square().sum(), list(made.parameters()))

    expected = gradients(posenc.attention(q, k, v, made, impl="torch"))
    for out in (
        scaled_dot_product_attention(q, k, v, attn_mask=bridges.sdpa_bias(made, q, k)),
        by_the_mods(q, k, v, *bridges.flex(made, q, k)),
    ):
        for ours, wanted in zip(gradients(out), expected):
            assert torch.allclose(ours, wanted, atol=1e-12) and wanted.abs().max() > 1e-3


def test_a_scale_is_what_a_counting_bias_reads():
    q, k, v = inputs()
    made = cases.encoding("cope").double()
    bias = bridges.sdpa_bias(made, q, k, scale=1.0)
    out = scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=1.0)
    assert torch.allclose(out, posenc.attention(q, k, v, made, scale=1.0, impl="torch"), atol=1e-12)
    assert not torch.allclose(bias, bridges.sdpa_bias(made, q, k))


@pytest.mark.parametrize("name", ["rope", "rope+alibi", "rope2d"])
def test_what_rotates_is_turned_first(name):
    made = cases.encoding(name).double()
    q, k, v = inputs(queries=4)
    at = {
        "pos_q": cases.along_a_line(torch.arange(5, 9), made.axes),
        "pos_k": cases.along_a_line(torch.arange(9), made.axes),
    }
    for bridge in (bridges.flex, bridges.sdpa_bias):
        with pytest.raises(UnsupportedError, match="turn"):
            bridge(made, q, k)
    turned_q, turned_k, rest = bridges.turn(made, q, k, **at)
    bias = bridges.sdpa_bias(rest, turned_q, turned_k)
    out = scaled_dot_product_attention(turned_q, turned_k, v, attn_mask=bias)
    assert torch.allclose(out, posenc.attention(q, k, v, made, impl="torch", **at), atol=1e-12)


@pytest.mark.parametrize(
    "name, bridge, reason",
    [
        ("stickbreaking", bridges.sdpa_bias, "weigh"),
        ("rse", lambda *given: bridges.flex(bridges.turn(*given)[2], *given[1:]), "weigh"),  # the stick is left over
        ("sinusoidal", bridges.sdpa_bias, "embed"),
        ("sinusoidal", bridges.turn, "embed"),
        ("shaw-values", bridges.flex, "gather"),
        ("path", bridges.turn, "attend"),
        ("fire", bridges.flex, "sdpa_bias"),
    ],
)
def test_what_a_bridge_does_not_serve_is_named(name, bridge, reason):
    q, k, _ = inputs()
    with pytest.raises(UnsupportedError, match=reason):
        bridge(cases.encoding(name).double(), q, k)


def test_no_encoding_is_nope():
    q, k, v = inputs()
    out = scaled_dot_product_attention(q, k, v, attn_mask=bridges.sdpa_bias(None, q, k))
    assert torch.allclose(out, posenc.attention(q, k, v, impl="torch"), atol=1e-12)
    assert bridges.turn(None, q, k)[:2] == (q, k)


@pytest.mark.parametrize("bridge", [bridges.flex, bridges.sdpa_bias])
def test_causal_only_methods_and_wrong_sizes_are_refused(bridge):
    q, k, _ = inputs()
    for encoding, options, error, words in (
        (make("alibi", num_heads=4), {"causal": False}, UnsupportedError, "causal"),
        (make("t5", num_heads=3), {}, ValueError, "num_heads=3"),
        ("alibi", {}, TypeError, "encoding"),
        (make("fox"), {}, ValueError, "gates"),
    ):
        with pytest.raises(error, match=words):
            bridge(encoding, q, k, **options)


# --- models of transformers ------------------------------------------------------------------------------------------


def model_of(kind, causal_lm=None, **options):
    """A model of transformers of this kind, with little in it."""
    sizes = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, vocab_size=40)
    config = getattr(transformers, f"{kind}Config")(**sizes | dict(pad_token_id=0) | options)
    torch.manual_seed(0)
    return getattr(transformers, f"{causal_lm or kind}ForCausalLM")(config).eval()


def llama(kind="Llama", **options):
    """One whose heads have 8 lanes, and whose weights are large enough to say something."""
    sizes = dict(head_dim=8, num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.3)
    return model_of(kind, **sizes | options)


def rope_of_llama():
    return make("rope", head_dim=8, layout="half")


def batch(pads=4, length=12):
    """Two texts of which the first has pads on its left: ids and mask as transformers wants them."""
    ids = torch.randint(3, 40, (2, length), generator=torch.Generator().manual_seed(1))
    valid = torch.ones_like(ids)
    valid[0, :pads] = 0
    return ids * valid, valid


def by_mask(valid):
    return (valid.cumsum(1) - 1).clamp(min=0)


@pytest.mark.parametrize("kind", ["Llama", "Mistral", "Qwen3"])
@torch.no_grad()
def test_rope_gives_the_logits_and_the_text_of_the_model_itself(kind):
    window = {"sliding_window": 5} if kind == "Mistral" else {}
    own, ours = llama(kind=kind, **window), bridges.attach(llama(kind=kind, **window), rope_of_llama())
    ids, valid = batch()
    packed = torch.cat((torch.arange(7), torch.arange(5)))[None]
    for options in (
        {},
        {"attention_mask": valid},
        {"attention_mask": valid, "position_ids": by_mask(valid)},
        {"position_ids": packed, "use_cache": False},  # transformers sees two texts in each row
    ):
        given = ids if "attention_mask" in options else ids.clamp(min=3)
        difference = own(given, **options).logits - ours(given, **options).logits
        assert difference[valid.bool()].abs().max() < 1e-5  # their angles are float32
    options = {"attention_mask": valid, "max_new_tokens": 12, "do_sample": False, "eos_token_id": None}
    text = own.generate(ids, **options)
    assert torch.equal(text, ours.generate(ids, **options))
    assert torch.equal(own.generate(ids, num_beams=3, **options), ours.generate(ids, num_beams=3, **options))
    assert len(set(text[:, 12:].flatten().tolist())) > 6, "texts that say something"


@pytest.mark.parametrize("name", ["t5", "rope+alibi", "rse"])
@torch.no_grad()
def test_a_llama_decodes_step_by_step_as_it_reads(name):
    model = bridges.attach(llama(), cases.encoding(name))
    ids, valid = batch()
    positions = by_mask(valid)
    whole = model(ids, attention_mask=valid, position_ids=positions).logits
    steps, cache = [], None
    for start, end in ((0, 7), *((t, t + 1) for t in range(7, 12))):
        at = {"attention_mask": valid[:, :end], "position_ids": positions[:, start:end]}
        out = model(ids[:, start:end], past_key_values=cache, use_cache=True, **at)
        cache = out.past_key_values
        steps.append(out.logits)
    assert torch.allclose(torch.cat(steps, dim=1)[valid.bool()], whole[valid.bool()], atol=2e-5)
    alone = model(ids[:1, 4:]).logits  # the padded row by itself
    assert torch.allclose(alone, whole[:1, 4:], atol=2e-5)
    bare = llama()(ids, attention_mask=valid, position_ids=positions).logits
    assert (bare - whole)[valid.bool()].abs().max() > 1e-2, "the encoding is what stands in the model"


@torch.no_grad()
def test_layers_have_encodings_of_their_own_that_are_saved_with_the_model():
    ids, _ = batch()
    parts = [make("alibi", num_heads=4, learned=True), make("alibi", num_heads=4, learned=True)]
    model = bridges.attach(llama(), parts)
    assert len([name for name, _ in model.named_parameters() if name.startswith("posenc")]) == 2
    twin, before = copy.deepcopy(model), model(ids).logits
    parts[1].bias.slopes *= 3
    assert not torch.equal(model(ids).logits, before) and torch.equal(twin(ids).logits, before)
    twin.load_state_dict(model.state_dict())
    assert torch.equal(twin(ids).logits, model(ids).logits)
    assert torch.equal(bridges.attach(llama(), parts[0])(ids).logits, before), "one for all layers"
    with pytest.raises(ValueError, match="3 encodings for 2 layers"):
        bridges.attach(llama(), [make("nope")] * 3)


@torch.no_grad()
def test_another_attention_set_later_is_refused():
    """The model's own rotation is silent by then, so it would compute NoPE."""
    model = bridges.attach(llama(), make("alibi", num_heads=4))
    model.set_attn_implementation("sdpa")
    with pytest.raises(UnsupportedError, match="sdpa.*posenc"):
        model(batch()[0])


@torch.no_grad()
def test_a_cropped_cache_goes_on_and_a_strange_one_is_refused():
    ids, _ = batch(pads=0)
    model = bridges.attach(llama(), rope_of_llama())
    cache = model(ids, use_cache=True).past_key_values
    cache.crop(8)
    assert torch.allclose(model(ids[:, 8:], past_key_values=cache).logits, model(ids).logits[:, 8:], atol=1e-5)
    filled = llama()(ids[:, :8], use_cache=True).past_key_values
    with pytest.raises(ValueError, match="8 keys"):
        model(ids[:, 8:], past_key_values=filled)


@pytest.mark.parametrize("name, reason", [("sinusoidal", "embed"), ("fox", "gates"), ("rope2d", "axes")])
def test_what_a_model_cannot_hold_is_named(name, reason):
    with pytest.raises(UnsupportedError, match=reason):
        bridges.attach(llama(), cases.encoding(name))


LATENT = dict(qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16, q_lora_rank=16, kv_lora_rank=16)
LATENT |= dict(n_routed_experts=4, num_experts_per_tok=2, n_group=1, topk_group=1, moe_intermediate_size=16)


def test_a_model_that_does_not_fit_is_named():
    gpt2 = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=9))
    for bridge, *given in ((bridges.attach, make("nope")), (bridges.read_rope,), (bridges.write_rope, rope_of_llama())):
        with pytest.raises(UnsupportedError, match="GPT2LMHeadModel.*rotary_emb"):
            bridge(gpt2, *given)
        with pytest.raises(TypeError, match="model must be a PreTrainedModel"):
            bridge("llama", *given)
    model = bridges.attach(llama(attention_dropout=0.1), make("nope"))
    with pytest.raises(UnsupportedError, match="dropout"):
        model.train()(batch()[0])
    with pytest.raises(ValueError, match="attach"):
        bridges.attach(model, make("nope"))
    for kind, options, reason in (
        ("Gemma2", {}, "softcap"),
        ("Doge", {}, "mask that is a bias"),
        ("HrmText", {"num_key_value_heads": 4}, "again in one forward"),
        ("GPTNeoX", {}, "past_key_values"),
        ("DeepseekV2", LATENT, "cosines"),
    ):
        with pytest.raises(UnsupportedError, match=reason):
            bridges.attach(model_of(kind, **options), make("nope"))


@torch.no_grad()
def test_a_model_that_gives_its_attention_no_position_ids_gets_them():
    """Ministral 3 and Persimmon name them in their signature and keep them."""
    ids, valid = batch()
    for kind in ("Ministral3", "Persimmon"):
        own, ours = llama(kind=kind), llama(kind=kind)
        bridges.attach(ours, bridges.read_rope(ours))
        difference = own(ids, attention_mask=valid).logits - ours(ids, attention_mask=valid).logits
        assert difference[valid.bool()].abs().max() < 1e-5
        options = {"attention_mask": valid, "max_new_tokens": 6, "do_sample": False, "eos_token_id": None}
        assert torch.equal(own.generate(ids, **options), ours.generate(ids, **options))


@torch.no_grad()
def test_latent_attention_turns_its_last_lanes():
    def latent():
        return llama(kind="DeepseekV3", **LATENT | dict(num_key_value_heads=4, head_dim=None))

    ids, _ = batch(pads=0)
    expected, model = latent()(ids).logits, latent()
    with pytest.raises(ValueError, match="head_dim=24.*must be 8"):
        bridges.attach(model, make("rope", head_dim=24, rotary_dim=8, layout="half"))
    assert not hasattr(model, "posenc") and torch.equal(model(ids).logits, expected)
    assert (bridges.attach(model, rope_of_llama())(ids).logits - expected).abs().max() < 1e-5
    both = bridges.attach(latent(), posenc.compose(rope_of_llama(), make("t5", num_heads=4)))
    assert (both(ids).logits - expected).abs().max() > 1e-2


@pytest.mark.parametrize("kind", ["Cohere2", "Gemma3Text"])
@torch.no_grad()
def test_layers_that_differ_ask_for_an_encoding_each(kind):
    """By their frequencies, or by whether they turn at all."""
    types = ["sliding_attention", "full_attention"]
    options = dict(num_hidden_layers=2, sliding_window=5, layer_types=types, no_rope_layers=[1, 0])

    def made():
        return model_of(kind, kind.removesuffix("Text"), head_dim=8, num_key_value_heads=2, **options)

    torch.manual_seed(0)
    own, ours, called = made(), made(), made()
    for model in (ours, called):
        model.load_state_dict(own.state_dict())
    with pytest.raises(UnsupportedError, match=r"\[0\] \(sliding.*alike; \[1\] \(full.*read_rope\(model, each=True\)"):
        bridges.attach(ours, rope_of_llama())
    if kind == "Gemma3Text":
        for bridge, *given in ((bridges.read_rope,), (bridges.write_rope, rope_of_llama())):
            with pytest.raises(UnsupportedError, match=r"each=True.*configs\.read"):
                bridge(ours, *given)
    each = bridges.read_rope(ours, each=True)
    assert [one.places for one in each] == [("rotate",), ("rotate",) if kind == "Gemma3Text" else ()]
    ids, _ = batch(pads=0)
    expected = own(ids).logits
    for model, encoding in ((ours, each), (called, lambda layer: each[layer])):
        assert (bridges.attach(model, encoding)(ids).logits - expected).abs().max() < 1e-5
    bridges.attach(own, [rope_of_llama()] * 2)


@pytest.mark.parametrize("kind", ["Cohere", "Glm"])
@torch.no_grad()
def test_lanes_are_paired_as_the_configuration_says(kind, monkeypatch):
    """A type that `posenc.configs` does not know is compared in both layouts."""
    ids, _ = batch(pads=0)
    expected = llama(kind=kind)(ids).logits
    for known in (True, False):
        if not known:
            monkeypatch.setattr(bridges.models, "read", lambda config: posenc.configs.read({}))
        read = bridges.read_rope(llama(kind=kind))
        assert read.rotate.layout == "interleaved"
        assert (bridges.attach(llama(kind=kind), read)(ids).logits - expected).abs().max() < 1e-5


@torch.no_grad()
def test_a_rotation_is_compared_with_what_the_layers_do():
    ids, _ = batch(pads=0)
    own, ours = llama(kind="NanoChat"), llama(kind="NanoChat")
    read = bridges.read_rope(ours)
    assert (read.rotate.inv_freq < 0).all(), "it turns the other way round"
    for model in (bridges.attach(ours, read), bridges.write_rope(llama(kind="NanoChat"), read)):
        assert (model(ids).logits - own(ids).logits).abs().max() < 1e-4
    with pytest.raises(UnsupportedError, match="layout='half'.*'interleaved' is right"):
        bridges.read_rope(llama(kind="Cohere"), "half")
    scaled = llama()
    scaled.model.rotary_emb.register_forward_hook(lambda module, given, out: (out[0] * 2, out[1]))
    with pytest.raises(UnsupportedError, match="neither"):
        bridges.read_rope(scaled)


# --- frequencies -----------------------------------------------------------------------------------------------------

SCHEMES = {
    "default": ({}, lambda: (posenc.rope.inv_freq(8, dtype=torch.float64), 1.0)),
    "yarn": ({"factor": 4.0}, lambda: scaling.yarn(8, 4.0, trained=64)),
    "dynamic": ({"factor": 2.0}, lambda: scaling.dynamic_ntk(8, 2.0, length=99, trained=64)),
}


@pytest.mark.parametrize("scheme", SCHEMES)
@torch.no_grad()
def test_frequencies_go_into_a_model_and_come_back(scheme):
    options, ours = SCHEMES[scheme]
    parameters = {"rope_type": scheme, "rope_theta": 10000.0, "original_max_position_embeddings": 64, **options}
    theirs = llama(rope_parameters=parameters, max_position_embeddings=64)
    frequencies, factor = ours()
    encoding = posenc.rope.rope(8, inv_freq=frequencies, attention_factor=factor, layout="half")
    ids = torch.randint(3, 40, (1, 99), generator=torch.Generator().manual_seed(1))
    expected = theirs(ids).logits
    written = bridges.write_rope(llama(), encoding)
    assert (written(ids).logits - expected).abs().max() < 1e-4
    assert (llama()(ids).logits - expected).abs().max() > 1e-3 or scheme == "default"
    for model in (written, theirs):
        read = bridges.read_rope(model)
        assert read.rotate.attention_factor == pytest.approx(factor)
        assert torch.allclose(read.rotate.inv_freq.double(), frequencies, rtol=1e-6)
        attached = bridges.attach(llama(), read)
        assert (attached(ids).logits - expected).abs().max() < 1e-4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_written_frequencies_survive_a_cast(dtype):
    """In either order, in a copy too; those that a cast has rounded are not read, and may be written anew."""
    frequencies, factor = scaling.yarn(8, 4.0, trained=64)
    encoding = posenc.rope.rope(8, inv_freq=frequencies, attention_factor=factor, layout="half")
    cast = llama().to(dtype)
    with pytest.raises(ValueError, match=f"{dtype}.*rounded.*write_rope"):
        bridges.read_rope(cast)
    for model in (bridges.write_rope(llama(), encoding).to(dtype), bridges.write_rope(cast, encoding)):
        for one in (model, copy.deepcopy(model)):
            read = bridges.read_rope(one).rotate
            assert (4096 * (read.inv_freq.double() - frequencies)).abs().max() < 1e-3
            assert read.attention_factor == factor
    assert (4096 * (llama().to(dtype).model.rotary_emb.inv_freq.double() - posenc.rope.inv_freq(8))).abs().max() > 0.05


def test_frequencies_that_do_not_fit_are_refused():
    for name in ("alibi", "rope+alibi", "rope2d"):
        with pytest.raises(UnsupportedError, match="posenc.rope.rope"):
            bridges.write_rope(llama(), cases.encoding(name))
    with pytest.raises(ValueError, match="16 lanes"):
        bridges.write_rope(llama(), make("rope", head_dim=16))


# --- what readers copy -----------------------------------------------------------------------------------------------


def test_the_blocks_of_the_readme_run():
    """One after the other, as someone pastes them; what they call equal is equal."""
    text = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    values = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), values)
    assert len(blocks) == 2 and "book/in_your_own_model/index.md" in text
    expected = posenc.attention(values["q"], values["k"], values["v"], values["both"], impl="torch")
    assert torch.allclose(values["out"], expected, atol=1e-5)
