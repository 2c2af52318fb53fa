"""The audit of whole models: models of twelve types are clean, each check finds the fault that it is for."""

import copy

import pytest
import torch
from torch import nn

import posenc
from posenc import audit
from posenc.audit.models import Trial

SIZES = dict(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
SIZES |= dict(intermediate_size=32, max_position_embeddings=64, pad_token_id=0, eos_token_id=1, bos_token_id=1)
OWN = dict(vocab_size=64, pad_token_id=0, eos_token_id=1, bos_token_id=1)
EIGHT, WINDOW = dict(head_dim=8), dict(sliding_window=6)
SPREAD = dict(initializer_range=0.3)  # as transformers draws them, weights are so small that no position would count
MODELS = {
    "gpt2": OWN | SPREAD | dict(n_embd=32, n_layer=2, n_head=4, n_positions=64),
    "opt": SIZES | dict(ffn_dim=32, word_embed_proj_dim=32, init_std=0.3),
    "bloom": OWN | SPREAD | dict(hidden_size=32, n_layer=2, n_head=4),
    "mpt": OWN | SPREAD | dict(d_model=32, n_layers=2, n_heads=4, max_seq_len=64),
    "gpt_neox": SIZES | SPREAD | dict(hidden_size=64),
    "llama": SIZES | SPREAD,
    "gemma2": SIZES | SPREAD | EIGHT | WINDOW,
    "gemma3_text": SIZES | SPREAD | EIGHT | WINDOW | dict(layer_types=["sliding_attention", "full_attention"]),
    "qwen3": SIZES | SPREAD | EIGHT,
    "cohere2": SIZES | SPREAD | WINDOW | dict(layer_types=["sliding_attention", "full_attention"]),
    "smollm3": SIZES | SPREAD | dict(no_rope_layers=[1, 0]),
    "gpt_oss": SIZES | SPREAD | EIGHT | WINDOW | dict(num_local_experts=4, num_experts_per_tok=2),
}
ABSOLUTE, NO_IDS, WINDOWED = ("gpt2", "opt"), ("bloom", "mpt"), ("gemma2", "gemma3_text", "cohere2", "gpt_oss")


def tiny(model_type, **changes):
    transformers = pytest.importorskip("transformers")
    config = transformers.CONFIG_MAPPING[model_type](**copy.deepcopy(MODELS[model_type]) | changes)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return transformers.AutoModelForCausalLM.from_config(config)


@pytest.mark.parametrize("model_type", MODELS)
def test_models_of_the_library_are_clean(model_type):
    report = audit.model(tiny(model_type), length=16)
    assert report.failures == (), str(report)
    others = {name: verdict for name, verdict in report.verdicts.items() if verdict != "holds"}
    expected = dict.fromkeys(("packed", "shift", "eviction", "half precision"), "not asked")
    if model_type in ABSOLUTE:
        expected = {"shift": "told", "half precision": "not asked"}
        assert "absolute" in report["shift"].words and report["shift"].difference > 0.1
        assert ("without position_ids" in report["left padding"].words) == (model_type == "gpt2"), "OPT counts the mask"
    elif model_type not in NO_IDS:
        expected = {"eviction": "not asked"} if model_type in WINDOWED else {}
        assert "cast by model.to" in report["half precision"].words
        assert model_type in WINDOWED or "turned anew" in report["eviction"].words
    assert others == expected
    by_ids = "ids that restart are enough" in report["packed"].words
    assert by_ids == (model_type not in ("opt", "gpt_oss", *NO_IDS)), "these two make their masks without the ids"
    assert model_type in NO_IDS or report.settings["position"] > 1000 * report.settings["tolerance"]


# ------------------------------------------------------------------------------------------------- one fault each


class Faulty(nn.Module):
    """A model of transformers with a fault: `fault(given, past)` changes what its forward is given."""

    def __init__(self, model, fault):
        super().__init__()
        self.model, self.config, self.fault = model, model.config, fault

    def forward(self, input_ids, attention_mask=None, position_ids=None, past_key_values=None, use_cache=None):
        past = 0 if past_key_values is None else past_key_values.get_seq_length()
        given = dict(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids)
        given |= dict(past_key_values=past_key_values, use_cache=use_cache)
        self.fault(given, past)
        return self.model(**given)


def counts_from_zero(given, past):
    if past:
        given["position_ids"] = torch.arange(given["input_ids"].shape[1])[None]


def counts_from_zero_unless_told(given, past):
    if given["position_ids"] is None:
        counts_from_zero(given, past)


def counts_the_padding(given, past):
    mask = given["attention_mask"]
    if mask is not None and mask.ndim == 2 and not mask.all():
        given["position_ids"] = None


def counts_from_the_end(given, past):
    mask = given["attention_mask"]
    if mask is not None and mask.ndim == 2 and not mask[:, -1].all():
        given["position_ids"] = torch.arange(mask.shape[1]).flip(0)[None]


def takes_the_first_rows_ids(given, past):
    if given["position_ids"] is not None:
        given["position_ids"] = given["position_ids"][:1]


def drops_the_mask_of_packing(given, past):
    if given["attention_mask"] is not None and given["attention_mask"].ndim == 4:
        given["attention_mask"] = None
        given["position_ids"] = None if given["position_ids"] is None else given["position_ids"] + 0
        given["use_cache"] = True  # with a cache the library looks for no packing in the ids


def counts_the_slots(given, past):
    if past:
        given["position_ids"] = past + torch.arange(given["input_ids"].shape[1])[None]


def aligns_with_the_first_key(given, past):
    new = given["input_ids"].shape[1]
    if past and new > 1:
        seen = torch.ones(new, past + new).tril() > 0
        given["attention_mask"] = torch.where(seen, 0.0, torch.finfo(torch.float32).min)[None, None]


def never_reads_ids(given, past):
    given["position_ids"] = None


def keeps_a_key_less(given, past):
    if given["use_cache"] and given["past_key_values"] is None:
        from transformers import DynamicCache

        config = copy.deepcopy(tiny("gemma2").config)
        config.sliding_window -= 1
        given["past_key_values"] = DynamicCache(config=config)


# the fault: (a model, the check that it is planted for, the others that fail of it, words of the cause)
PLANTED = {
    counts_from_zero: ("llama", "steps", {"windows", "left padding"}, "not read"),
    counts_from_zero_unless_told: ("llama", "steps", {"windows"}, "from 0"),
    counts_the_padding: ("gpt2", "left padding", set(), "count the padding"),
    counts_from_the_end: ("llama", "right padding", set(), "from the row's end"),
    takes_the_first_rows_ids: ("llama", "batch", set(), "one row"),
    keeps_a_key_less: ("gemma2", "steps", {"windows", "left padding"}, "window"),
    aligns_with_the_first_key: ("llama", "windows", set(), "first key"),
    drops_the_mask_of_packing: ("llama", "packed", set(), "the sequence before"),
    counts_the_slots: ("llama", "eviction", {"left padding"}, "slots"),
    never_reads_ids: ("llama", "shift", {"eviction"}, "not read"),
}


@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found_by_its_check(fault):
    model_type, check, others, cause = PLANTED[fault]
    layers = "n_layer" if model_type == "gpt2" else "num_hidden_layers"
    report = audit.model(Faulty(tiny(model_type, **{layers: 2}), fault), length=16)
    assert set(report.failures) == {check} | others, str(report)
    finding = report[check]
    assert finding.difference > 100 * report.settings["tolerance"] or fault is never_reads_ids
    assert cause in finding.cause and finding.symptom and finding.look
    assert all(words[:20] in str(report) for words in (finding.symptom, finding.cause, finding.look))


def narrow_cosines(rotary):
    whole = rotary.forward
    rotary.forward = lambda x, position_ids: [c.bfloat16().to(x.dtype) for c in whole(x, position_ids)]


def narrow_ids(rotary):
    whole = rotary.forward
    rotary.forward = lambda x, position_ids: whole(x, position_ids.bfloat16())


def narrow_angles_with_the_model(rotary):
    def forward(x, position_ids):
        angles = position_ids[..., None].to(x.dtype) * rotary.inv_freq.to(x.dtype)
        return torch.cat((angles, angles), -1).cos(), torch.cat((angles, angles), -1).sin()

    rotary.forward = forward


def narrow_frequencies(rotary):
    rotary.inv_freq = rotary.inv_freq.bfloat16().float()


NARROW = {
    narrow_cosines: {"shift"},
    narrow_ids: {"shift"},  # so wrong far out that float32 is no reference for half precision
    narrow_angles_with_the_model: {"half precision"},
    narrow_frequencies: {"half precision"},
}


@pytest.mark.parametrize("fault", NARROW, ids=lambda fault: fault.__name__)
def test_half_precision_where_it_must_not_be_is_found(fault):
    model = tiny("llama")
    fault(model.model.rotary_emb)
    report = audit.model(model, length=16)
    assert set(report.failures) == NARROW[fault], str(report)


# ------------------------------------------------------------------------------------------------ any other module


class Own(nn.Module):
    """A model of posenc's blocks."""

    def __init__(self, name, **options):
        super().__init__()
        self.encoding = posenc.make(name, **options)
        self.embedding, self.out = nn.Embedding(32, 32), nn.Linear(32, 32)
        self.layers = nn.ModuleList(posenc.SelfAttention(32, 4, self.encoding.in_layers()) for _ in range(2))


def run_own(model, ids, positions, mask, cache, keep):
    caches = cache or [posenc.KVCache() if keep else None for _ in model.layers]
    past, new = (caches[0].seen if keep else 0), ids.shape[1]
    positions = past + torch.arange(new)[None] if positions is None else positions
    x = posenc.embed_input(model.encoding, 2 * model.embedding(ids), positions)
    pairs = mask if mask is not None and mask.ndim == 4 else None
    valid = mask[:, -new:] if mask is not None and mask.ndim == 2 else None
    for layer, own in zip(model.layers, caches):
        x = x + layer(x, positions=positions, mask=pairs, valid=valid, cache=own)
    return model.out(x), caches if keep else None


def own(name, **options):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Own(name, **options)


@pytest.mark.parametrize(
    "name, options", [("rope", dict(head_dim=8)), ("learned", dict(max_positions=64, dim=32)), ("alibi", {})], ids=str
)
def test_a_module_of_ones_own(name, options):
    options = options or dict(num_heads=4)
    report = audit.model(own(name, **options), run_own, vocab=32, length=16, far=2000)
    assert report.failures == (), str(report)
    assert report["shift"].verdict == ("told" if name == "learned" else "holds")
    assert ("so far out" in report["half precision"].words) == (name == "learned"), "a table ends"
    held = {"batch", "right padding", "left padding", "steps", "windows", "packed"}
    assert all(report[check].verdict == "holds" for check in held)
    assert report["eviction"].verdict == "not asked" and "cache" in report["eviction"].words


def test_what_an_adapter_can_not_do_is_not_asked():
    def plain(model, ids, positions, mask, cache, keep):
        if positions is not None:
            raise NotImplementedError("it counts for itself")
        return run_own(model, ids, None, mask, None, False)[0]

    report = audit.model(own("alibi", num_heads=4), plain, vocab=32, length=16)
    assert report["steps"].verdict == "not asked" and "cache" in report["steps"].words
    assert report["shift"].verdict == "not asked" and "counts for itself" in report["shift"].words
    assert report["right padding"].verdict == "holds" and report.failures == ()


def test_the_model_is_left_as_it_was_and_the_report_is_the_same_twice():
    model = own("rope", head_dim=8).train()
    before = copy.deepcopy(model.state_dict())
    state = torch.random.get_rng_state()
    reports = [audit.model(model, run_own, vocab=32, length=16) for _ in range(2)]
    assert torch.equal(state, torch.random.get_rng_state()) and model.training
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())
    assert str(reports[0]) == str(reports[1]) and reports[0].findings == reports[1].findings
    lines = str(reports[0]).splitlines()
    assert max(map(len, lines)) <= audit.WIDTH and "Own" in lines[0]
    assert [name for name in audit.CHECKS if any(f" {name} " in line for line in lines)] == [*audit.CHECKS]


def test_the_tolerance_is_above_rounding_and_below_a_fault():
    model = tiny("llama")
    trial = Trial(model, None, 64, 16, 8000, None, 0)
    exact = trial.run(trial.ids, model=copy.deepcopy(trial.model).double())[0]
    rounding = (trial.full - exact).abs().max().item()
    assert 2 * rounding < trial.tolerance < 100 * rounding, (rounding, trial.tolerance)


def test_a_model_that_raises():
    def fails_with_a_cache(given, past):
        if past:
            raise RuntimeError("no such thing")

    report = audit.model(Faulty(tiny("llama"), fails_with_a_cache), length=16, checks=["steps", "batch"])
    assert report.failures == ("steps",) and "no such thing" in report["steps"].words
    with pytest.raises(ValueError, match="does not run.*no such thing"):
        audit.model(Faulty(tiny("llama"), lambda given, past: fails_with_a_cache(given, 1)))


@pytest.mark.parametrize(
    "options, error, words",
    [
        (dict(model=3), TypeError, "model=3"),
        (dict(call=3), TypeError, "call=3"),
        (dict(vocab=None), ValueError, "vocab=None"),
        (dict(vocab="many"), TypeError, "vocab='many'"),
        (dict(length=3), ValueError, "length=3"),
        (dict(far=0), ValueError, "far=0"),
        (dict(tolerance=0), ValueError, "tolerance=0"),
        (dict(checks=["step"]), ValueError, "'steps'"),
        (dict(call=lambda *given: "text"), TypeError, "call must return"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else str(value),
)
def test_bad_input_is_named(options, error, words):
    given = dict(model=own("alibi", num_heads=4), call=run_own, vocab=32) | options
    with pytest.raises(error, match=words):
        audit.model(**given)


def test_a_length_that_a_table_does_not_hold():
    with pytest.raises(ValueError, match="length=40"):
        audit.model(tiny("gpt2"), length=40)
    assert audit.model(tiny("gpt2"), length=32, checks=["batch"])["batch"].verdict == "holds"
