r"""The audit of a whole model: those of a library, tiny and random, and planted faults, each named."""

import re

import attach_kinds
import pytest
import torch
import transformers
from torch import nn

import posenc
from posenc.audit.models import MODEL_QUESTIONS

torch.set_num_threads(1)

#: type: {question that it fails: why the library's model does}, as of 5.15.
LIBRARY = {
    "llama": {"cast": "frequencies are a buffer that is not saved: model.to(bfloat16) rounds it"},
    "mistral": {"cast": "as Llama's"},
    "gemma3_text": {"cast": "as Llama's, of either kind of layer"},
    "smollm3": {"cast": "as Llama's"},
    "deepseek_v3": {"cast": "as Llama's"},
    "gpt_neox": {},  # of two lanes, which turn by one radian, a cast rounds nothing
    "bloom": {},
    "gpt2": {"padding": "called with a mask and no ids it counts columns; generate makes ids"},
    "falcon": {"cast": "as Llama's", "packed": "its mask is made without position_ids, which part texts elsewhere"},
    "gpt_oss": {"cast": "as Llama's", "packed": "as Falcon's"},
}


@pytest.mark.parametrize("kind", LIBRARY)
def test_models_of_a_library_pass_but_for_what_is_listed(kind):
    model = attach_kinds.tiny(kind)
    report = posenc.audit.model(model, length=16)
    assert set(report.failures) == set(LIBRARY[kind]), str(report)
    assert report["runs"].verdict == "holds" and "told" not in report.verdicts.values()
    not_asked = {name for name, verdict in report.verdicts.items() if verdict == "not asked"}
    assert not_asked == {
        "bloom": {"packed", "shift", "turns", "half", "cast"},  # it takes no position_ids
        "gpt2": {"shift", "turns"},
    }.get(kind, set())
    for name in report.failures:
        assert report[name].cause and f"modeling_{kind.removesuffix('_text')}.py:" in report[name].line
    assert all(module.training is False for module in model.modules())


def changed(model, change):
    """Let change(ids, told) act on what the model is called with, where told are the arguments by name."""

    def hook(module, args, told):
        change(args[0] if args else told["input_ids"], told)

    model.register_forward_pre_hook(hook, with_kwargs=True)


def length_of(told):
    past = told.get("past_key_values")
    return 0 if past is None else past.get_seq_length()


def begins_anew(ids, told):
    if length_of(told):
        told["position_ids"] = torch.arange(ids.shape[1])[None]


def forgets_ids(ids, told):
    told.pop("position_ids", None)


def hides_itself(ids, told):
    if length_of(told):
        mask = told.get("attention_mask")
        mask = torch.ones(len(ids), length_of(told) + ids.shape[1]) if mask is None else mask.clone()
        mask[:, -1] = 0
        told["attention_mask"] = mask


def sees_all(ids, told):
    if told.get("attention_mask") is None and not told.get("use_cache"):
        told["attention_mask"] = torch.ones(ids.shape)


def looks_ahead(ids, told):
    if not told.get("use_cache"):
        told["attention_mask"] = torch.zeros(len(ids), 1, ids.shape[1], ids.shape[1])


def reads_rows(ids, told):
    """A table sliced by the batch in place of the tokens: batch_first."""
    told["position_ids"] = torch.arange(ids.shape[0])[:, None].expand(ids.shape)


def ends_at_20(model):
    """A table of angles that ends, and is read at its last row from there on."""
    model.model.rotary_emb.register_forward_pre_hook(lambda module, x: (x[0], x[1].clamp(max=20)))


def rounds_frequencies(model):
    model.model.rotary_emb.inv_freq = model.model.rotary_emb.inv_freq.bfloat16().float()


def rounds_positions(model):
    """To the dtype of what is turned."""
    model.model.rotary_emb.register_forward_pre_hook(lambda module, x: (x[0], x[1].to(x[0].dtype).float()))


FAULTS = {
    "ids restart": ("qwen2", begins_anew, "steps", "token at 15 is read at id 0: ids begin anew"),
    "ids by column": ("gpt2", forgets_ids, "padding", "ids count pads"),
    "ids by column, written": ("gpt2", forgets_ids, "generate", "ids"),
    "mask off by one": ("qwen2", hides_itself, "steps", "mask off by one.*not see itself"),
    "packing leak": ("qwen2", sees_all, "packed", "sees the one before it"),
    "a look ahead": ("qwen2", looks_ahead, "steps", "not causal"),
    "ids by row": ("gpt2", reads_rows, "batch", "made for one row"),
    "a table that ends": ("qwen2", ends_at_20, "shift", "read as places"),
    "rounded frequencies": ("qwen2", rounds_frequencies, "turns", "rounded the frequencies to torch.bfloat16"),
    "rounded positions": ("qwen2", rounds_positions, "half", "in bfloat16"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found_and_named(fault):
    kind, change, question, cause = FAULTS[fault]
    model = attach_kinds.tiny(kind)
    change(model) if question in ("turns", "half", "shift") else changed(model, change)
    report = posenc.audit.model(model, length=16, questions=[question])
    assert report.failures == (question,), str(report)
    finding = report[question]
    assert [one.name for one in report.findings] == ["runs", question] and finding.number > 1e-3
    assert re.search(cause, finding.cause), finding
    assert "likely: " in str(report) and "look at modeling_" in str(report)


def test_a_model_that_was_cast_is_named_and_kept_as_it_is():
    model = attach_kinds.tiny("qwen2").to(torch.bfloat16).train()
    report = posenc.audit.model(model)
    assert report.failures == ("turns",) and "bfloat16" in report["turns"].cause, str(report)
    assert report["half"].verdict == report["cast"].verdict == "not asked" and "turns" in report["cast"].words
    assert model.training and model.model.norm.training and model.dtype == torch.bfloat16


def test_frequencies_that_follow_the_length_are_named():
    told = {
        "max_position_embeddings": 16,
        "rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0},
    }
    torch.manual_seed(0)
    model = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**attach_kinds.sizes_of("qwen2") | told))
    report = posenc.audit.model(model, length=20, questions=["steps", "chunks"])
    assert report.failures == ("steps", "chunks") and "beyond 16 tokens" in report["steps"].cause, str(report)
    assert "beyond 16" in posenc.audit.model(model, length=16, questions=["runs"])["runs"].words


def test_a_configuration_that_is_not_in_force_is_named():
    model = attach_kinds.tiny("qwen2")
    model.config.rope_parameters = {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e4}
    report = posenc.audit.model(model, questions=["turns"])
    assert report.failures == ("turns",) and "after loading" in report["turns"].cause
    written = posenc.make("rope", head_dim=8, layout="half", inv_freq=posenc.scaling.linear(8, 8.0)[0])
    assert not posenc.audit.model(posenc.bridges.write_rope(model, written), questions=["turns"]).failures


class Small(nn.Module):
    """A model that is not the library's: one layer of ours, whose new tokens count on from its cache."""

    def __init__(self, encoding):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.head = nn.Embedding(40, 32), nn.Linear(32, 40)
        self.layer = posenc.SelfAttention(32, 4, encoding)
        nn.init.normal_(self.embed.weight, std=3.0)


def call_small(model, ids, *, position_ids, attention_mask, past_key_values, use_cache):
    cache = past_key_values or (posenc.KVCache() if use_cache else None)
    valid, mask = None, None
    if attention_mask is not None and attention_mask.ndim == 2:
        valid = attention_mask[:, -ids.shape[1] :].bool()
    elif attention_mask is not None:
        mask = attention_mask == 0
    if position_ids is not None and cache is None and valid is None and mask is None:
        text = (position_ids.diff(dim=1) != 1).cumsum(1)
        text = torch.cat((torch.zeros_like(text[:, :1]), text), dim=1)
        mask = (text[:, :, None] == text[:, None])[:, None]
    x = model.embed(ids)
    return model.head(x + model.layer(x, positions=position_ids, valid=valid, mask=mask, cache=cache)), cache


def test_any_module_is_asked_through_a_call():
    report = posenc.audit.model(Small(posenc.make("rope", head_dim=8)), call_small)
    assert not report.failures, str(report)
    assert report["shift"].verdict == "told" and report["shift"].number < 1e-4
    assert report["generate"].verdict == report["turns"].verdict == "not asked"
    assert str(posenc.audit.model(Small(posenc.make("rope", head_dim=8)), call_small)) == str(report)
    assert posenc.audit.model(Small(None), call_small)["runs"].verdict == "told", "without position"

    def aligned(model, ids, **told):
        """The causal mask of PyTorch's is_causal: its triangle stands at the first key."""
        past = told["past_key_values"]
        keys = ids.shape[1] + (len(past) if past else 0)
        if past and ids.shape[1] > 1:
            told["attention_mask"] = torch.ones(ids.shape[1], keys).tril().log().expand(1, 1, -1, -1)
        return call_small(model, ids, **told)

    report = posenc.audit.model(Small(posenc.make("rope", head_dim=8)), aligned)
    assert report.failures == ("chunks",) and "first key" in report["chunks"].cause


def test_what_it_raises_is_a_finding():
    def raises(model, ids, **told):
        raise IndexError("index out of range in self")

    report = posenc.audit.model(Small(None), raises)
    assert report.failures == ("runs",) and "index out of range" in report["runs"].example
    assert set(report.verdicts) == set(MODEL_QUESTIONS)


BART = transformers.BartConfig(vocab_size=9, d_model=16, encoder_layers=1, decoder_layers=1, max_position_embeddings=8)
#: words of an error: what is given besides a right model, or in its place.
BAD = {
    "subject=BartFor.*without an encoder": {"subject": transformers.BartForConditionalGeneration(BART)},
    "subject='llama' must be a model": {"subject": "llama"}, "subject=Small must be a causal": {"subject": Small(None)},
    "call=3 must be a function": {"call": 3}, "length=4 must be at least 16": {"length": 4},
    "tolerance=0 must be greater": {"tolerance": 0},
    "questions=3 must be a list": {"questions": 3}, "questions='step'.*'steps'": {"questions": ["step"]},
}  # fmt: skip


@pytest.mark.parametrize("words", BAD)
def test_wrong_arguments_are_named(words):
    with pytest.raises((TypeError, ValueError), match=words):
        posenc.audit.model(**{"subject": attach_kinds.tiny("gpt2")} | BAD[words])
