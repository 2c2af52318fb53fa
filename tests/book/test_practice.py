r"""Position in practice: the explorables, and what the chapter says of Transformers."""

import re
from pathlib import Path

import cases
import numpy as np
import pytest
import torch
from kit import solutions

import posenc
from posenc.lab.figures import practice
from posenc.lab.train.tiny import Decoder

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "book" / "practice.md").read_text("utf-8")


@pytest.fixture(scope="module")
def transformers():
    import transformers

    return transformers


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
    assert traces["by how much"]["text"] == [f"<b>off by −{n}</b>"]
    stairs, _ = pairs_off(practice.DECODING, practice.WRONG, practice.WRONG, n)
    assert stairs["by how much"]["text"] == [f"−{n}"] * 6  # of 3 new tokens, aligned at the top left
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
    bars, by_one, rings, *_ = figure["data"]
    assert bars["x"] == pytest.approx([1.0, 0.5]) and len(rings["x"]) == 4
    assert by_one["x"] == pytest.approx([0.5, 0.0])
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
    text = solutions("practice")
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
    solved = re.findall(r"^## (.+?) \(", solutions("practice"), re.M)
    assert len(titles) >= 3 and titles == solved
