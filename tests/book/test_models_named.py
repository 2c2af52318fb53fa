"""What the pages say of single models, asked of the configurations and the code of transformers."""

import pytest
import torch

import posenc
from posenc import rope

transformers = pytest.importorskip("transformers")


def test_gemma_4_turns_the_fastest_quarter_of_a_head_without_a_window():
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    config = transformers.Gemma4TextConfig()
    window, full = (config.rope_parameters[f"{kind}_attention"] for kind in ("sliding", "full"))
    assert window == {"rope_type": "default", "rope_theta": 10_000.0}
    assert (full["rope_type"], full["partial_rotary_factor"], full["rope_theta"]) == ("proportional", 0.25, 1e6)
    theirs, factor = ROPE_INIT_FUNCTIONS["proportional"](config, layer_type="full_attention")
    assert theirs.shape == (256,) and factor == 1  # pairs of a head of 512
    assert theirs[:64].gt(0).all() and not theirs[64:].any()
    ours = rope.rope(512, base=1e6, rotary_dim=128, proportional=True, layout="half")
    x, at = torch.randn(1, 1, 12, 512), torch.arange(12)[None]
    turned = ours.rotate(x, x, posenc.encoding.At(at, at, None))[0]
    assert torch.allclose(turned, rope.rotate(x, at[0], theirs, "half"), atol=1e-5)


def test_transformers_permutes_the_lanes_of_deepseek_v3_and_v3_2_has_halves_in_its_indexer():
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import apply_rotary_pos_emb_interleave
    from transformers.models.deepseek_v32 import modeling_deepseek_v32

    q, k = torch.randn(2, 1, 1, 12, 16)
    at = torch.arange(12)
    angles = at[:, None] * rope.inv_freq(16)
    cos, sin = (torch.cat((x, x), -1)[None] for x in (angles.cos(), angles.sin()))
    lanes = torch.cat((torch.arange(0, 16, 2), torch.arange(1, 16, 2)))
    for x, theirs in zip((q, k), apply_rotary_pos_emb_interleave(q, k, cos, sin)):
        assert torch.allclose(theirs, rope.rotate(x, at, rope.inv_freq(16))[..., lanes], atol=1e-6)
    for x, theirs in zip((q, k), modeling_deepseek_v32.apply_rotary_pos_emb(q, k, cos, sin)):  # what the indexer calls
        assert torch.allclose(theirs, rope.rotate(x, at, rope.inv_freq(16), "half"), atol=1e-6)


def test_some_models_newer_than_the_table_rotate_nothing_and_roberta_counts_from_two():
    from transformers.models.roberta.modeling_roberta import RobertaEmbeddings

    assert transformers.GraniteMoeHybridConfig().position_embedding_type is None
    inkling = transformers.InklingConfig().get_text_config()
    assert not getattr(inkling, "rope_parameters", None) and inkling.d_rel and inkling.rel_extent
    ids = RobertaEmbeddings.create_position_ids_from_input_ids(torch.tensor([[5, 6, 7, 1, 1]]), 1)
    assert ids.tolist() == [[2, 3, 4, 1, 1]]


def test_t5_has_one_table_for_each_self_attention_stack_and_none_across():
    sizes = {"vocab_size": 19, "d_model": 32, "d_kv": 8, "d_ff": 16, "num_heads": 4, "num_layers": 3}
    t5 = transformers.T5Model(transformers.T5Config(**sizes))
    tables = [name for name, _ in t5.named_parameters() if "relative" in name or "position" in name]
    at = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    assert tables == [f"encoder.{at}", f"decoder.{at}"], "the first layer holds it for all"
