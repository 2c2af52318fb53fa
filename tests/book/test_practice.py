r"""Position in practice: the table of shipped models, the explorables, and what the chapter says of Transformers."""

import re
from pathlib import Path

import cases
import numpy as np
import pybtex.database
import pytest
import torch

import posenc
from posenc.lab.figures import practice
from posenc.lab.pages import practice as page
from posenc.lab.train.tiny import Decoder

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "book" / "practice.md").read_text("utf-8")
SHIPPED = page.shipped(ROOT / "book" / "shipped_models.json")
ROWS = {row["model"]: row for row in SHIPPED["rows"]}
COLUMNS = ["model", "year", "kind", "encoding", "base", "rotary", "scaling", "nope_layers", "window", "trained", "cite"]

each_row = pytest.mark.parametrize("row", SHIPPED["rows"], ids=lambda row: row["model"])


# ------------------------------------------------------------------------------------------------- the table of models


def test_the_table_is_dated_and_no_model_stands_twice():
    assert re.fullmatch(r"[A-Z][a-z]+ 20\d\d", SHIPPED["as_of"])
    assert len(ROWS) == len(SHIPPED["rows"]) >= 20
    assert [row["year"] for row in SHIPPED["rows"]] == sorted(row["year"] for row in SHIPPED["rows"])


@each_row
def test_a_row_is_whole(row):
    assert list(row) == COLUMNS
    assert row["kind"] in ("encoder", "decoder", "encoder-decoder")
    assert 2017 <= row["year"] <= 2026
    for key, value in row.items():
        assert value or value == 0, f"{key} is empty: write 'not stated', 'none' or a dash"
    rotates = "RoPE" in row["encoding"]
    assert (row["rotary"] == "–") != rotates, "a dash where nothing turns, and nowhere else"
    if row["base"] == "–":
        assert not rotates and row["encoding"] != "sinusoidal"
    if row["rotary"][0].isdigit():
        turned, all_lanes = map(int, row["rotary"].split(" of "))
        assert 0 < turned < all_lanes and turned % 2 == 0


@each_row
def test_a_row_has_sources_that_the_page_cites(row):
    known = pybtex.database.parse_file(str(ROOT / "book" / "references.bib"), "bibtex").entries
    cited = {key for keys in re.findall(r"\{cite(?::\w+)?\}`([^`]+)`", PAGE) for key in keys.split(",")}
    assert row["cite"] and set(row["cite"]) <= set(known), "a key that is not in references.bib"
    assert set(row["cite"]) <= cited, "a key that the page names nowhere"


@pytest.fixture(scope="module")
def transformers():
    import transformers

    return transformers


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
def test_a_row_agrees_with_the_defaults_of_transformers(model, transformers):
    name, facts = DEFAULTS[model]
    config = getattr(transformers, name)()
    assert {cell: ROWS[model][cell] for cell in facts} == {cell: fact(config) for cell, fact in facts.items()}


# ------------------------------------------------------------------------- what the chapter says of other people's code


def test_t5_has_a_bias_in_both_self_attentions_and_none_across(transformers):
    config = transformers.T5Config(d_model=16, d_kv=4, d_ff=16, num_layers=2, num_heads=2, vocab_size=10)
    model = transformers.T5Model(config)
    assert model.encoder.block[0].layer[0].SelfAttention.has_relative_attention_bias
    assert model.decoder.block[0].layer[0].SelfAttention.has_relative_attention_bias
    tables = [name for name, _ in model.named_parameters() if "relative_attention_bias" in name]
    assert len(tables) == 2, "one table for all layers of each side"
    for block in model.decoder.block:
        assert not block.layer[1].EncDecAttention.has_relative_attention_bias


def test_roberta_counts_from_two(transformers):
    from transformers.models.roberta.modeling_roberta import RobertaEmbeddings

    ids = RobertaEmbeddings.create_position_ids_from_input_ids(torch.tensor([[5, 6, 7, 1, 1]]), 1)
    assert ids.tolist() == [[2, 3, 4, 1, 1]]


# ---------------------------------------------------------------------------------------------------------- explorables


def pairs_off(situation, ids, mask, n):
    figure, readout = practice.ids.fn(situation, ids, mask, n)
    counts = tuple(readout[name] for name in ("tokens", "pairs", "seen", "hidden"))
    return {trace["name"]: trace for trace in figure["data"]}, counts


@pytest.mark.parametrize("situation", [practice.DECODING, practice.PADDING, practice.PACKING])
@pytest.mark.parametrize("n", [2, 6])
def test_mended_ids_and_mask_leave_nothing_over(situation, n):
    traces, counts = pairs_off(situation, practice.MENDED, practice.MENDED, n)
    assert counts == (0, 0, 0, 0)
    assert not len(traces["seen, must not be"]["x"]) and not len(traces["hidden, must be seen"]["x"])


def test_only_a_restart_breaks_pairs():
    n = 5
    new = practice.TOKENS - n
    traces, counts = pairs_off(practice.DECODING, practice.WRONG, practice.MENDED, n)
    z = traces["offset off by"]["z"].numpy()
    assert counts[:2] == (new, n * new)
    assert set(traces["by how much"]["text"]) == {f"−{n}"} and len(traces["by how much"]["x"]) == n * new
    assert traces["ids that are wrong"]["x"] == [*range(n, practice.TOKENS)]
    assert [re.sub(r"<.*?>", "", t) for t in traces["ids that are wrong"]["text"]] == [str(i) for i in range(new)]
    assert (z[n:, :n] == -n).all() and (z[:n, :n][np.tril_indices(n)] == 0).all()
    for situation in (practice.PADDING, practice.PACKING):
        assert pairs_off(situation, practice.WRONG, practice.MENDED, n)[1][:2] == (new, 0)


@pytest.mark.parametrize("situation", [practice.PADDING, practice.PACKING])
def test_the_explorable_tells_what_the_package_does(situation):
    """Where it counts no pair as off and none seen in excess, RoPE gives each text what it gives it alone."""
    names, right, wrong, seen_right, _ = practice.given(situation, 4)
    q, k, v = torch.randn(3, 1, 2, practice.TOKENS, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rope = posenc.make("rope", head_dim=8)
    real = torch.tensor([name != "pad" for name in names])
    expected = posenc.attention(q, k, v, rope, pos_q=right, pos_k=right, mask=seen_right)
    found = posenc.attention(q, k, v, rope, pos_q=wrong, pos_k=wrong, mask=seen_right)
    assert torch.allclose(found[:, :, real], expected[:, :, real])
    alone = posenc.attention(q[:, :, 4:], k[:, :, 4:], v[:, :, 4:], rope)
    assert torch.allclose(found[:, :, 4:], alone)


RESULTS = {
    "offsets": [-32, -16, -8, -4, -2, -1, 0],
    "shifts": [0, 1, 2, 4, 8, 16, 32],
    "methods": {
        "rope": {"new": [[2.0, 1.9, 1.8, 1.7, 1.6, 1.5, 1.0]] * 2, "all": [[1.0] * 7] * 2},
        "learned": {
            "new": [[1.5, 1.4, 1.3, 1.2, 1.1, 1.0, 1.0]] * 2,
            "all": [[1.0, 1.1, 1.1, 1.2, 1.2, 1.3, None]] * 2,
        },
    },
}


def test_the_bars_are_what_the_offsets_add():
    def told(which, off):
        figure, readout = practice.wrong_ids.fn(which, off, results=RESULTS)
        return figure, (readout["most"], readout["spared"], readout["refused"])

    figure, said = told(practice.NEW, 32)
    assert said == ("RoPE +1.00", 0, 0)
    bars, rings = figure["data"]
    assert bars["x"] == pytest.approx([0.5, 1.0]) and len(rings["x"]) == 4
    assert told(practice.ALL, 32)[1] == ("RoPE 0.00", 1, 1)
    assert told(practice.NEW, 0)[1][1:] == (2, 0)


# ------------------------------------------------------------------------------ the checklist, for every method at once


@pytest.mark.parametrize("name", posenc.methods.on_text())
def test_a_cache_that_forgets_wants_ids_that_count_on(name):
    r"""Dropping old keys equals a window over the whole text, if ids count tokens written."""
    torch.manual_seed(0)
    window = 4
    model = Decoder(20, cases.DIM, 2, cases.HEADS, lambda layer: cases.encoding(name)).double().eval()
    tokens = torch.randint(20, (1, 10), generator=torch.Generator().manual_seed(1))
    index = torch.arange(10)
    with torch.no_grad():
        whole = model(tokens, mask=index[:, None] - index[None, :] < window)
        caches, steps = model.new_caches(), []
        for t in range(10):
            steps.append(model(tokens[:, t : t + 1], positions=torch.tensor([t]), caches=caches))
            for cache in caches:
                cache.crop(start=1 - window)
    assert torch.allclose(torch.cat(steps, dim=1), whole, atol=1e-10)


def test_solutions_run():
    """Each block of code in the instructor's solutions runs, and its assertions hold."""
    text = (ROOT / "course" / "practice_solutions.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) == 2
    was = torch.is_grad_enabled()
    try:
        for block in blocks:
            exec(compile(block, "practice_solutions.md", "exec"), {})
    finally:
        torch.set_grad_enabled(was)


def test_every_exercise_of_the_page_has_a_solution():
    titles = re.findall(r"^```\{exercise\} (.+)$", PAGE, re.M)
    solved = re.findall(r"^## (.+?) \(", (ROOT / "course" / "practice_solutions.md").read_text("utf-8"), re.M)
    assert len(titles) >= 3 and titles == solved
