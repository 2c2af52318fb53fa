"""Learned positions: lookup and resizing in loops, against GPT-2, OPT, ViT and DINOv2 of transformers."""

import math

import pytest
import torch
import transformers
from loops import close, normal
from torch.nn.functional import interpolate
from transformers.models.opt.modeling_opt import OPTLearnedPositionalEmbedding

from posenc.embed.learned import learned, resize


def with_table(rows):
    """The encoding with these rows in its table."""
    encoding = learned(*rows.shape).to(rows.dtype)
    encoding.embed.table.data.copy_(rows)
    return encoding


def stretched(rows, length, prefix=0):
    """Aligned corners: row t of the new ones stands at t (n - 1) / (m - 1) between the n old ones."""
    kept, old = rows[:prefix].tolist(), rows[prefix:].tolist()
    new = []
    for t in range(length - prefix):
        place = t * (len(old) - 1) / (length - prefix - 1) if length - prefix > 1 else 0.0
        left = min(math.floor(place + 1e-9), len(old) - 1)
        right = min(left + 1, len(old) - 1)
        share = place - left
        new.append([a + share * (b - a) for a, b in zip(old[left], old[right])])
    return torch.tensor(kept + new, dtype=torch.float64)


@pytest.mark.parametrize(
    "positions",
    [[[0, 1, 2, 3]] * 2, [[6, 2, 2, 0]] * 2, [[0, 1, 2, 3], [3, 4, 5, 6]]],
    ids=["in order", "any order, twice the same", "a row for each sequence"],
)
def test_embed_equals_the_construction(positions):
    x, rows, given = normal(2, 4, 3), normal(7, 3, seed=1), torch.tensor(positions)
    expected, embed = x.clone(), with_table(rows).embed
    for b in range(2):
        for t in range(4):
            for c in range(3):
                expected[b, t, c] += rows[positions[b][t]][c].item()
    close(embed(x, given), expected)
    close(embed(x, given.double()), expected)  # whole numbers in floating point
    if positions[0] == positions[1]:
        close(embed(x, given[0]), expected)
        close(embed(x, given[:1]), expected)


@pytest.mark.parametrize("length, prefix", [(7, 0), (12, 0), (5, 0), (1, 0), (9, 2), (7, 2), (3, 2), (20, 6)], ids=str)
def test_resize_equals_the_construction(length, prefix):
    rows = normal(7, 3)
    close(resize(rows, length, prefix=prefix), stretched(rows, length, prefix))


@pytest.mark.parametrize("old, new", [(9, 5), (64, 512), (1, 4)], ids=str)
def test_resize_equals_torch_with_aligned_corners(old, new):
    rows = normal(old, 3).float()
    theirs = interpolate(rows.T[None], size=new, mode="linear", align_corners=True)[0].T
    close(resize(rows, new), theirs, 3e-5)


@pytest.mark.parametrize("old, new", [(6, 6), (5, 9), (4, 10)], ids=str)
def test_nearest_takes_the_nearer_row(old, new):
    rows = torch.arange(float(old))[:, None] * torch.tensor([1.0, -2.0])
    for t, found in enumerate(resize(rows, new, mode="nearest").tolist()):
        assert abs(found[0] - t * (old - 1) / (new - 1)) <= 0.5 + 1e-9 and found in rows.tolist()


def test_table_starts_at_the_given_spread():
    for std in (0.02, 0.3):
        table = learned(400, 256, std=std).embed.table
        assert abs(table.std().item() / std - 1) < 0.01 and abs(table.mean().item()) < std / 50
    assert (learned(4, 2, std=0).embed.table == 0).all()


@torch.no_grad()
def test_equals_gpt2():
    config = transformers.GPT2Config(vocab_size=17, n_positions=12, n_embd=8, n_layer=1, n_head=2, embd_pdrop=0.0)
    model, seen = transformers.GPT2Model(config).eval(), []
    model.h[0].register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    tokens, place = torch.randint(17, (2, 7)), torch.tensor([[0, 1, 2, 3, 4, 5, 6], [0, 0, 0, 3, 4, 10, 11]])
    model(tokens, position_ids=place)
    close(with_table(model.wpe.weight).embed(model.wte(tokens), place), seen[0], 1e-7)


@torch.no_grad()
def test_opt_reads_two_rows_further_on():
    """Its table has two rows more than positions, and row p + 2 belongs to position p."""
    theirs = OPTLearnedPositionalEmbedding(12, 8)
    assert theirs.weight.shape == (14, 8)
    found = theirs(torch.ones(1, 7, dtype=torch.long))
    close(with_table(theirs.weight).embed(torch.zeros(1, 7, 8), torch.arange(7) + 2), found)
