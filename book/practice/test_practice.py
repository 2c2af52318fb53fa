r"""Position in practice: the table of shipped models, its explorables, and a cache that forgets, for every method."""

import re

import cases
import pytest
import torch
from test_book import BOOK

import posenc
from posenc.chapters.practice import facts as page
from posenc.lab.train.tiny import Decoder

ROWS = {row["model"]: row for row in page.MODELS["rows"]}


def test_every_row_is_whole_and_the_page_cites_its_sources():
    text = (BOOK / "practice" / "index.md").read_text("utf-8")
    cited = {key for keys in re.findall(r"\{cite(?::\w+)?\}`([^`]+)`", text) for key in keys.split(",")}
    for model, row in ROWS.items():
        assert all(value or value == 0 for value in row.values()), f"{model}: write 'not stated', 'none' or a dash"
        assert (row["rotary"] == "–") != ("RoPE" in row["encoding"]), f"{model}: a dash where nothing turns"
        assert set(row["cite"]) <= cited, model


def often(config):
    """How often a sliding window comes, in the words of the table."""
    full = [place for place, name in enumerate(config.layer_types) if name == "full_attention"]
    windows = config.layer_types[: full[1] - full[0]].count("sliding_attention")
    return {1: "every other layer", 2: "two layers of three", 5: "five layers of six"}[windows]


def lanes(config):
    head = config.hidden_size // config.num_attention_heads
    return f"{int(head * config.rope_parameters['partial_rotary_factor'])} of {head}"


def two_bases(config):
    local, full = (int(config.rope_parameters[f"{kind}_attention"]["rope_theta"]) for kind in ("sliding", "full"))
    return f"{local:,} in window layers, {full:,} in full ones"


def every_fourth(config):
    kinds = getattr(config, "no_rope_layers", None) or [kind != "full_attention" for kind in config.layer_types]
    return "every fourth" if kinds[:8] == [1, 1, 1, 0] * 2 else kinds


def base(config):
    return int(config.rope_parameters["rope_theta"])


def trained(config):
    return config.max_position_embeddings


#: model: (configuration class, cell = what its defaults say)
DEFAULTS = {
    "BERT": ("Bert", dict(trained=lambda c: f"128, then {c.max_position_embeddings}")),
    "GPT-2": ("GPT2", dict(trained=lambda c: c.n_positions)),
    "GPT-J": ("GPTJ", dict(rotary=lambda c: f"{c.rotary_dim} of {c.n_embd // c.n_head}")),
    "GPT-NeoX-20B": ("GPTNeoX", dict(trained=trained, base=base, rotary=lanes)),
    "phi-1.5": ("Phi", dict(trained=trained, base=base, rotary=lanes)),
    "MPT-7B": ("Mpt", dict(trained=lambda c: c.max_seq_len)),
    "LLaMA": ("Llama", dict(trained=trained, base=base)),
    "Mistral 7B": ("Mistral", dict(base=base, window=lambda c: f"{c.sliding_window:,} in every layer")),
    "Gemma 2": ("Gemma2", dict(trained=trained, base=base, window=lambda c: f"{c.sliding_window:,} in {often(c)}")),
    "Gemma 3 (4B to 27B)": ("Gemma3Text", dict(base=two_bases, window=lambda c: f"1,024 in {often(c)}")),
    "ModernBERT": ("ModernBert", dict(base=two_bases, window=lambda c: f"{c.local_attention} in {often(c)}")),
    "DeepSeek-V3": (
        "DeepseekV3",
        dict(base=base, rotary=lambda c: f"{c.qk_rope_head_dim} of {c.qk_rope_head_dim + c.qk_nope_head_dim}"),
    ),
    "gpt-oss": ("GptOss", dict(base=base, window=lambda c: f"{c.sliding_window} in {often(c)}")),
    "Command R7B": (
        "Cohere2",
        dict(nope_layers=every_fourth, window=lambda c: f"{c.sliding_window:,} in the layers with RoPE"),
    ),
    "SmolLM3": ("SmolLM3", dict(nope_layers=every_fourth)),
    "Llama 4 Scout": ("Llama4Text", dict(base=base, nope_layers=every_fourth)),
}


@pytest.mark.parametrize("model", DEFAULTS)
def test_a_row_agrees_with_the_defaults_of_transformers(model):
    import transformers

    name, facts = DEFAULTS[model]
    config = getattr(transformers, f"{name}Config")()
    assert {cell: ROWS[model][cell] for cell in facts} == {cell: fact(config) for cell, fact in facts.items()}


@pytest.mark.parametrize("name", posenc.methods.on_text())
def test_a_cache_that_forgets_wants_ids_that_count_on(name):
    r"""Dropping old keys equals a window over the whole text, if ids count tokens written."""
    window, tokens, index = 4, torch.randint(20, (1, 10)), torch.arange(10)
    model = Decoder(20, cases.DIM, 2, cases.HEADS, lambda layer: cases.encoding(name)).double().eval()
    with torch.no_grad():
        whole = model(tokens, mask=index[:, None] - index[None, :] < window)
        caches, steps = model.new_caches(), []
        for t in range(10):
            steps.append(model(tokens[:, t : t + 1], positions=torch.tensor([t]), caches=caches))
            for cache in caches:
                cache.crop(start=1 - window)
    assert torch.allclose(torch.cat(steps, dim=1), whole, atol=1e-10)
