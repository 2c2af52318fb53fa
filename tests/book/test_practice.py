r"""Position in practice: the table of shipped models, its explorables, and a cache that forgets, for every method."""

import re

import cases
import numpy as np
import pytest
import torch
from test_book import BOOK

import posenc
from posenc.lab.figures import practice
from posenc.lab.pages import practice as page
from posenc.lab.train.tiny import Decoder

ROWS = {row["model"]: row for row in page.shipped(BOOK / "shipped_models.json")["rows"]}


@pytest.mark.parametrize("model", ROWS)
def test_a_row_is_whole_and_the_page_cites_its_sources(model):
    row = ROWS[model]
    assert row["kind"] in ("encoder", "decoder", "encoder-decoder") and 2017 <= row["year"] <= 2026
    assert all(value or value == 0 for value in row.values()), "write 'not stated', 'none' or a dash"
    rotates = "RoPE" in row["encoding"]
    assert (row["rotary"] == "–") != rotates, "a dash where nothing turns, and nowhere else"
    if row["rotary"][0].isdigit():
        turned, all_lanes = map(int, row["rotary"].split(" of "))
        assert 0 < turned < all_lanes and turned % 2 == 0
    text = (BOOK / "practice.md").read_text("utf-8")
    cited = {key for keys in re.findall(r"\{cite(?::\w+)?\}`([^`]+)`", text) for key in keys.split(",")}
    assert row["cite"] and set(row["cite"]) <= cited


def base(config):
    return int(config.rope_parameters["rope_theta"])


def trained(config):
    return config.max_position_embeddings


def lanes(config):
    head = config.hidden_size // config.num_attention_heads
    return f"{int(head * config.rope_parameters['partial_rotary_factor'])} of {head}"


def two_bases(config):
    local, full = (int(config.rope_parameters[f"{kind}_attention"]["rope_theta"]) for kind in ("sliding", "full"))
    return f"{local:,} in window layers, {full:,} in full ones"


def often(config, kind="sliding_attention"):
    """How often a kind of layer comes, in the words of the table."""
    full = [place for place, name in enumerate(config.layer_types) if name == "full_attention"]
    period = full[1] - full[0]
    count = config.layer_types[:period].count(kind)
    words = {(1, 2): "every other layer", (2, 3): "two layers of three", (5, 6): "five layers of six"}
    return words[count, period]


def full_layers(config):
    assert config.layer_types[:8] == [*["sliding_attention"] * 3, "full_attention"] * 2
    return "every fourth"


def without_rope(config):
    assert config.no_rope_layers[:8] == [1, 1, 1, 0] * 2
    return "every fourth"


# model: (configuration class, {cell: what its defaults say})
DEFAULTS = {
    "BERT": ("BertConfig", {"trained": lambda c: f"128, then {c.max_position_embeddings}"}),
    "GPT-2": ("GPT2Config", {"trained": lambda c: c.n_positions}),
    "GPT-J": (
        "GPTJConfig",
        {"trained": lambda c: c.n_positions, "rotary": lambda c: f"{c.rotary_dim} of {c.n_embd // c.n_head}"},
    ),
    "GPT-NeoX-20B": ("GPTNeoXConfig", {"trained": trained, "base": base, "rotary": lanes}),
    "phi-1.5": ("PhiConfig", {"trained": trained, "base": base, "rotary": lanes}),
    "MPT-7B": ("MptConfig", {"trained": lambda c: c.max_seq_len}),
    "LLaMA": ("LlamaConfig", {"trained": trained, "base": base}),
    "Mistral 7B": ("MistralConfig", {"base": base, "window": lambda c: f"{c.sliding_window:,} in every layer"}),
    "Gemma 2": (
        "Gemma2Config",
        {
            "trained": trained,
            "base": base,
            "window": lambda c: f"{c.sliding_window:,} in {often(c, 'sliding_attention')}",
        },
    ),
    "Gemma 3 (4B to 27B)": ("Gemma3TextConfig", {"base": two_bases, "window": lambda c: f"1,024 in {often(c)}"}),
    "ModernBERT": ("ModernBertConfig", {"base": two_bases, "window": lambda c: f"{c.local_attention} in {often(c)}"}),
    "DeepSeek-V3": (
        "DeepseekV3Config",
        {"base": base, "rotary": lambda c: f"{c.qk_rope_head_dim} of {c.qk_rope_head_dim + c.qk_nope_head_dim}"},
    ),
    "gpt-oss": (
        "GptOssConfig",
        {
            "base": base,
            "scaling": lambda c: (
                f"YaRN by {c.rope_parameters['factor']:.0f} from "
                f"{c.rope_parameters['original_max_position_embeddings']:,}"
            ),
            "window": lambda c: f"{c.sliding_window} in {often(c)}",
        },
    ),
    "Command R7B": (
        "Cohere2Config",
        {"window": lambda c: f"{c.sliding_window:,} in the layers with RoPE", "nope_layers": full_layers},
    ),
    "SmolLM3": ("SmolLM3Config", {"nope_layers": without_rope}),
    "Llama 4 Scout": (
        "Llama4TextConfig",
        {
            "base": base,
            "nope_layers": without_rope,
            "window": lambda c: f"chunks of {c.attention_chunk_size:,} in the layers with RoPE",
        },
    ),
}


@pytest.mark.parametrize("model", DEFAULTS)
def test_a_row_agrees_with_the_defaults_of_transformers(model):
    import transformers

    name, facts = DEFAULTS[model]
    config = getattr(transformers, name)()
    assert {cell: ROWS[model][cell] for cell in facts} == {cell: fact(config) for cell, fact in facts.items()}


def pairs_off(situation, ids, mask, n):
    figure, readout = practice.ids.fn(situation, ids, mask, n)
    counts = tuple(readout[name] for name in ("tokens", "pairs", "seen", "hidden"))
    return {trace["name"]: trace for trace in figure["data"]}, counts


def test_only_a_restart_breaks_pairs_and_mended_ids_and_mask_leave_nothing_over():
    n = 5
    new = practice.TOKENS - n
    traces, counts = pairs_off(practice.DECODING, practice.WRONG, practice.MENDED, n)
    z = traces["offset off by"]["z"].numpy()
    assert counts[:2] == (new, n * new)
    assert (z[n:, :n] == -n).all() and (z[:n, :n][np.tril_indices(n)] == 0).all()
    for situation in (practice.PADDING, practice.PACKING):
        assert pairs_off(situation, practice.WRONG, practice.MENDED, n)[1][:2] == (new, 0)
        assert pairs_off(situation, practice.MENDED, practice.MENDED, n)[1] == (0, 0, 0, 0)


@pytest.mark.parametrize("situation", [practice.PADDING, practice.PACKING])
def test_the_explorable_tells_what_the_package_does(situation):
    """Where it counts no pair as off and none seen in excess, RoPE gives each text what it gives it alone."""
    names, right, wrong, seen_right, _ = practice.given(situation, 4)
    q, k, v = torch.randn(3, 1, 2, practice.TOKENS, 8, dtype=torch.float64)
    rope = posenc.make("rope", head_dim=8)
    real = torch.tensor([name != "pad" for name in names])
    expected = posenc.attention(q, k, v, rope, pos_q=right, pos_k=right, mask=seen_right)
    found = posenc.attention(q, k, v, rope, pos_q=wrong, pos_k=wrong, mask=seen_right)
    assert torch.allclose(found[:, :, real], expected[:, :, real])
    alone = posenc.attention(q[:, :, 4:], k[:, :, 4:], v[:, :, 4:], rope)
    assert torch.allclose(found[:, :, 4:], alone)


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
