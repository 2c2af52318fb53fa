"""Learned positions: lookup, refusal and resizing in loops, against GPT-2, BERT, OPT and ViT of transformers."""

import math

import pytest
import torch
from loops import close
from torch.nn.functional import interpolate

from posenc.embed.learned import learned, resize


def numbers(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def with_table(rows, **options):
    """The encoding with these rows in its table."""
    encoding = learned(*rows.shape, **options).to(rows.dtype)
    with torch.no_grad():
        encoding.embed.table.copy_(rows)
    return encoding


def looked_up(x, rows, positions):
    """x + rows[positions] in loops over Python floats; positions is a list of lists."""
    out = torch.zeros_like(x)
    for b in range(x.shape[0]):
        for t in range(x.shape[1]):
            for c in range(x.shape[2]):
                out[b, t, c] = x[b, t, c].item() + rows[positions[b][t]][c].item()
    return out


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


# The construction


@pytest.mark.parametrize(
    "positions",
    [[[0, 1, 2, 3]] * 2, [[6, 2, 2, 0]] * 2, [[0, 1, 2, 3], [3, 4, 5, 6]]],
    ids=["in order", "any order, twice the same", "a row for each sequence"],
)
def test_embed_equals_the_construction(positions):
    x, rows = numbers(2, 4, 3), numbers(7, 3, seed=1)
    expected = looked_up(x, rows, positions)
    given = torch.tensor(positions)
    embed = with_table(rows).embed
    close(embed(x, given), expected)
    close(embed(x, given.double()), expected)  # whole numbers in floating point
    if positions[0] == positions[1]:
        close(embed(x, given[0]), expected)
        close(embed(x, given[:1]), expected)


@pytest.mark.parametrize("length, prefix", [(7, 0), (12, 0), (5, 0), (1, 0), (9, 2), (7, 2), (3, 2), (20, 6)], ids=str)
def test_resize_equals_the_construction(length, prefix):
    rows = numbers(7, 3)
    close(resize(rows, length, prefix=prefix), stretched(rows, length, prefix))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("old, new", [(5, 9), (5, 23), (9, 5), (64, 512), (2, 7), (1, 4)], ids=str)
def test_resize_equals_torch_with_aligned_corners(old, new, dtype):
    rows = numbers(old, 3, dtype=dtype)
    theirs = interpolate(rows.T[None], size=new, mode="linear", align_corners=True)[0].T
    close(resize(rows, new), theirs, 1e-12 if dtype == torch.float64 else 3e-5)


@pytest.mark.parametrize("old, new", [(6, 6), (5, 9), (4, 10)], ids=str)
def test_nearest_takes_the_nearer_row(old, new):
    rows = torch.arange(float(old))[:, None] * torch.tensor([1.0, -2.0])
    found = resize(rows, new, mode="nearest")
    for t in range(new):
        place = t * (old - 1) / (new - 1)
        assert abs(found[t, 0].item() - place) <= 0.5 + 1e-9
        assert found[t].tolist() in rows.tolist()


# What must hold


def test_table_starts_at_the_given_spread():
    torch.manual_seed(0)
    for std in (0.02, 0.3):
        table = learned(400, 256, std=std).embed.table
        assert abs(table.std().item() / std - 1) < 0.01 and abs(table.mean().item()) < std / 50
    assert (learned(4, 2, std=0).embed.table == 0).all()


# Independent implementations


def test_equals_gpt2():
    from transformers import GPT2Config, GPT2Model

    torch.manual_seed(0)
    config = GPT2Config(vocab_size=17, n_positions=12, n_embd=8, n_layer=1, n_head=2, embd_pdrop=0.0)
    model = GPT2Model(config).eval()
    seen = []
    model.h[0].register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    tokens, place = torch.randint(17, (2, 7)), torch.tensor([[0, 1, 2, 3, 4, 5, 6], [0, 0, 0, 3, 4, 10, 11]])
    with torch.no_grad():
        model(tokens, position_ids=place)
        encoding = with_table(model.wpe.weight)
        assert encoding.embed.table.shape == (12, 8)
        close(encoding.embed(model.wte(tokens), place), seen[0], 1e-7)


def test_equals_bert_before_its_layer_norm():
    from transformers.models.bert.configuration_bert import BertConfig
    from transformers.models.bert.modeling_bert import BertEmbeddings

    torch.manual_seed(0)
    config = BertConfig(vocab_size=17, hidden_size=8, max_position_embeddings=12, num_attention_heads=2)
    theirs = BertEmbeddings(config).eval()
    tokens, kinds = torch.randint(17, (2, 7)), torch.tensor([[0, 0, 0, 1, 1, 1, 1]] * 2)
    with torch.no_grad():
        content = theirs.word_embeddings(tokens) + theirs.token_type_embeddings(kinds)
        summed = with_table(theirs.position_embeddings.weight).embed(content, torch.arange(7))
        close(theirs.LayerNorm(summed), theirs(tokens, token_type_ids=kinds), 1e-6)


def test_opt_reads_two_rows_further_on():
    """Its table has two rows more than positions, and row p + 2 belongs to position p."""
    from transformers.models.opt.modeling_opt import OPTLearnedPositionalEmbedding

    torch.manual_seed(0)
    theirs = OPTLearnedPositionalEmbedding(12, 8)
    assert theirs.weight.shape == (14, 8)
    with torch.no_grad():
        found = theirs(torch.ones(1, 7, dtype=torch.long))
        close(with_table(theirs.weight).embed(torch.zeros(1, 7, 8), torch.arange(7) + 2), found)
