"""M-RoPE (arXiv 2409.12191, 2511.21631): one-axis RoPE on text, and ids and angles of transformers' own models."""

import math
from types import SimpleNamespace

import pytest
import torch
from loops import close, normal

import posenc
from posenc.rotate.mrope import dealt, mrope, positions_for
from posenc.rotate.rope import inv_freq
from posenc.rotate.rope import rotate as rotate_1d
from posenc.rotate.rope2d import rotate


def test_text_alone_is_rope():
    x, positions = normal(1, 2, 7, 16), positions_for([7])
    for interleaved in (False, True):
        turned = rotate(x, positions, dealt(16, (4, 2, 2), interleaved=interleaved), "half")
        close(turned, rotate_1d(x, torch.arange(7), inv_freq(16, 1e6, torch.float64), "half"))


def index_of(family, layout, seconds=None, tokens_per_second=1):
    r"""(ids [T, 3], rope_deltas) by transformers' `get_rope_index`, which reads the configuration alone."""

    class Model(torch.nn.Module):
        get_vision_position_ids = family.get_vision_position_ids

        class config:
            vision_config = SimpleNamespace(spatial_merge_size=1, tokens_per_second=tokens_per_second)

    kinds = [0 if isinstance(part, int) else 1 if part[0] == 1 else 2 for part in layout]
    index = torch.cat([torch.full((math.prod(part) if kind else part,), kind) for part, kind in zip(layout, kinds)])
    images, videos = (torch.tensor([p for p, k in zip(layout, kinds) if k == kind]) for kind in (1, 2))
    clock = {} if seconds is None else {"second_per_grid_ts": torch.tensor(seconds)}
    ids, deltas = family.get_rope_index(
        Model(), index[None], index[None], image_grid_thw=images, video_grid_thw=videos, **clock
    )
    return ids[:, 0].T, deltas.item()


def test_ids_and_angles_are_those_of_qwen2_vl_and_qwen3_vl():
    from transformers.models.qwen2_vl import modeling_qwen2_vl as two
    from transformers.models.qwen3_vl import modeling_qwen3_vl as three

    layout, sections, dim = [3, (1, 2, 4), 2, (1, 3, 2), 1], (4, 6, 6), 32
    ids = positions_for(layout)
    theirs, delta = index_of(two.Qwen2VLModel, [3, (1, 2, 4), 2, (1, 3, 2), 1])
    assert torch.equal(theirs, ids)
    assert len(ids) + delta == ids.max() + 1  # where decoding goes on

    x = normal(1, 2, len(ids), dim)
    angle = ids.T[:, None, :, None] * inv_freq(dim, 1e6, torch.float64)  # [3, 1, T, D/2]
    doubled = torch.cat((angle, angle), -1)
    expected, _ = two.apply_multimodal_rotary_pos_emb(x, x, doubled.cos(), doubled.sin(), list(sections))
    close(rotate(x, ids, dealt(dim, sections), "half"), expected)

    for sections in ((6, 5, 5), (8, 4, 4)):
        mixed = three.Qwen3VLTextRotaryEmbedding.apply_interleaved_mrope(None, angle.clone(), sections)
        close((ids[..., None].double() * dealt(dim, sections, interleaved=True)).sum(-2), mixed[0])


LONG = [3, (4, 2, 2), 2, (1, 2, 3), 1, (5, 3, 2), 2]  # two videos of more grids than rows or columns, and a picture


def test_words_after_a_video_start_past_its_largest_id_or_past_its_side():
    from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLModel

    for layout in ([3, (4, 2, 2), 2], LONG):
        ids, theirs = positions_for(layout, after="side"), index_of(Qwen2VLModel, layout)
        assert torch.equal(theirs[0], ids) and theirs[1] == ids.max() + 1 - len(ids)
    assert positions_for([3, (4, 2, 2), 2])[-2:, 0].tolist() == [7, 8]


@pytest.mark.parametrize("seconds", [1.0, 2.0])
def test_ids_by_the_clock_are_those_of_qwen2_5_vl(seconds):
    """For whole seconds; of others transformers 5.15 forgets the part."""
    from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel

    ids = positions_for(LONG, after="side", time_step=2 * seconds)
    assert torch.equal(index_of(Qwen2_5_VLModel, LONG, (seconds, seconds), tokens_per_second=2)[0], ids)


@pytest.mark.parametrize("seconds", [0.2, 0.5, 0.75, 1.0, 4 / 3, 2.0])
def test_ids_by_the_clock_are_those_of_the_formula(seconds):
    for after in ("largest", "side"):
        ids = positions_for([3, (6, 2, 3), 2], after=after, time_step=2 * seconds)
        times = [int(g * 2 * seconds + 1e-6) for g in range(6)]
        assert ids[3:39, 0].tolist() == [3 + time for time in times for _ in range(6)]
        assert ids[3:39, 1:].tolist() == [[3 + r, 3 + c] for _ in range(6) for r in range(2) for c in range(3)]
        word = 3 + (max(*times, 2) + 1 if after == "largest" else 3)
        assert ids[39:].tolist() == [[word] * 3, [word + 1] * 3]


@pytest.mark.parametrize("yarn", [False, True])
def test_a_quarter_of_a_head_turns_as_in_qwen3_5(yarn):
    """Heads of 256 lanes of which 64 turn, dealt in turn; with YaRN from 262,144 tokens by 4 too."""
    from transformers import Qwen3_5TextConfig
    from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5TextRotaryEmbedding, apply_rotary_pos_emb

    parameters = dict(rope_type="default", rope_theta=1e7, partial_rotary_factor=0.25, mrope_section=[11, 11, 10])
    ours = dict(rotary_dim=64, base=1e7)
    if yarn:
        parameters |= dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=262144)
        frequencies, factor = posenc.scaling.yarn(64, 4.0, trained=262144, base=1e7)
        ours = dict(inv_freq=frequencies, attention_factor=factor)
    theirs = Qwen3_5TextRotaryEmbedding(Qwen3_5TextConfig(head_dim=256, rope_parameters=parameters))
    encoding = posenc.make("mrope", head_dim=256, sections=(11, 11, 10), interleaved=True, **ours)
    ids = positions_for([3, (1, 5, 7), 4, (4, 2, 2), 1])
    q = normal(1, 2, len(ids), 256).float()
    expected, _ = apply_rotary_pos_emb(q, q, *theirs(q, ids.T[:, None]))
    close(encoding.rotate.turn(q, ids[None]), expected, 2e-5)
    assert not torch.allclose(mrope(256, (43, 43, 42), interleaved=True).rotate.turn(q, ids[None]), expected, atol=1.0)


def test_the_default_sections_are_those_of_qwen2_vl():
    assert (dealt(128) > 0).sum(-1).tolist() == [16, 24, 24]
    assert (dealt(8) > 0).sum(-1).tolist() == [2, 1, 1]
    fastest, slowest = dealt(128)[0, :16], dealt(128)[2, -24:]
    assert (fastest > 0).all() and (slowest > 0).all(), "the fastest to time, the slowest to columns"
