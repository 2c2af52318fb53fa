"""Learned positions: lookup, refusal and resizing in loops, against GPT-2, BERT, OPT and ViT of transformers."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loops import attend, close, dot
from torch.nn.functional import interpolate

import posenc
from posenc.embed.learned import learned, resize
from posenc.lab.train.tiny import Decoder

T, V = TypeError, ValueError
quick = settings(max_examples=80, derandomize=True, deadline=None)


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


def test_resize_is_not_torch_without_aligned_corners():
    rows = torch.arange(4.0)[:, None]
    theirs = interpolate(rows.T[None], size=8, mode="linear", align_corners=False)[0].T
    assert (resize(rows, 8) - theirs).abs().max() > 0.15
    steps = resize(rows, 8)[:, 0].diff()
    close(steps, torch.full((7,), 3 / 7), 1e-6)  # ours keeps all steps equal, theirs shortens the first and the last
    assert theirs[1, 0] - theirs[0, 0] < 0.3 < theirs[2, 0] - theirs[1, 0]


@pytest.mark.parametrize("old, new", [(6, 6), (5, 9), (4, 10)], ids=str)
def test_nearest_takes_the_nearer_row(old, new):
    rows = torch.arange(float(old))[:, None] * torch.tensor([1.0, -2.0])
    found = resize(rows, new, mode="nearest")
    for t in range(new):
        place = t * (old - 1) / (new - 1)
        assert abs(found[t, 0].item() - place) <= 0.5 + 1e-9
        assert found[t].tolist() in rows.tolist()


@pytest.mark.parametrize("embed_at, moves", [("layer_qk", "qk"), ("layer_qkv", "qkv"), ("input", "")])
def test_in_a_layer_it_reaches_queries_keys_and_values_as_said(embed_at, moves):
    torch.manual_seed(0)
    encoding = with_table(numbers(9, 8, seed=1), embed_at=embed_at)
    layer = posenc.SelfAttention(8, 2, encoding).double()
    x, place = numbers(1, 5, 8, seed=2), torch.arange(2, 7)
    there = x + encoding.embed.table[place]
    q, k, v = (
        to(there if name in moves else x).unflatten(-1, (2, 4)).transpose(1, 2)
        for name, to in (("q", layer.to_q), ("k", layer.to_k), ("v", layer.to_v))
    )
    out, _ = attend(q, k, v, lambda h, i, j, a, b: dot(a, b) / 2)
    close(layer(x, positions=place), layer.to_out(out.transpose(1, 2).flatten(2)))


# What must hold


@quick
@given(old=st.integers(1, 40), new=st.integers(1, 90), prefix=st.integers(0, 3), seed=st.integers(0, 99))
def test_any_resize_keeps_the_prefix_the_ends_and_the_bounds(old, new, prefix, seed):
    rows = numbers(prefix + old, 2, seed=seed)
    found = resize(rows, prefix + new, prefix=prefix)
    assert found.shape == (prefix + new, 2)
    assert torch.equal(found[:prefix], rows[:prefix])
    close(found[prefix], rows[prefix])
    if new > 1:
        close(found[-1], rows[-1])
    assert found[prefix:].max() <= rows[prefix:].max() + 1e-12 and found[prefix:].min() >= rows[prefix:].min() - 1e-12
    climb = rows[prefix:].sort(dim=0).values
    assert (resize(climb, new).diff(dim=0) >= -1e-12).all(), "a table that climbs must go on climbing"


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("rows, prefix", [(1, 0), (7, 0), (197, 1), (512, 0)], ids=str)
def test_same_size_is_the_same_table(rows, prefix, mode):
    table = numbers(rows, 4, dtype=torch.float32)
    assert torch.equal(resize(table, rows, mode=mode, prefix=prefix), table)


def test_resizing_there_and_back_returns_every_row_when_new_rows_fall_on_old_ones():
    rows = numbers(9, 3)
    close(resize(rows, 33)[::4], rows)
    close(resize(resize(rows, 33), 9), rows)


def test_resize_of_half_precision_rounds_the_result_only():
    rows = numbers(5, 64, dtype=torch.bfloat16)
    found, exact = resize(rows, 300), resize(rows.double(), 300)
    assert found.dtype == torch.bfloat16
    close(found.double(), exact.to(torch.bfloat16).double(), 2**-7)
    assert ((found.double() - exact).abs() <= exact.abs() * 2**-8 + 1e-6).all()


def test_gradcheck():
    rows = numbers(5, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda rows: resize(rows, 8, prefix=1), (rows,))
    x, encoding = numbers(2, 3, 2, seed=1).requires_grad_(), with_table(numbers(5, 2))
    at = torch.tensor([[0, 1, 1], [4, 0, 2]])

    def embed(x, rows):
        return torch.func.functional_call(encoding.embed, {"table": rows}, (x, at))

    assert torch.autograd.gradcheck(embed, (x, rows))


@pytest.mark.parametrize("embed_at", ["input", "layer_qkv"])
def test_gradient_reaches_the_rows_that_were_used_and_no_other(embed_at):
    torch.manual_seed(0)
    model = Decoder(11, 16, 2, 2, lambda layer: learned(10, 16, embed_at=embed_at))
    model(torch.randint(11, (2, 6)), positions=torch.tensor([0, 1, 2, 5, 6, 7])).square().sum().backward()
    used = torch.tensor([0, 1, 2, 5, 6, 7])
    tables = [module.table for module in model.modules() if hasattr(module, "table")]
    assert len(tables) == (1 if embed_at == "input" else 2)
    for table in tables:
        assert (table.grad[used].abs().sum(1) > 0).all()
        rest = torch.ones(10, dtype=torch.bool).index_fill(0, used, False)
        assert (table.grad[rest] == 0).all()


def test_a_row_used_twice_gets_both_gradients():
    encoding, upstream = with_table(numbers(4, 3)), numbers(2, 3, 3, seed=1)
    encoding.embed(numbers(2, 3, 3), torch.tensor([[0, 2, 2], [2, 1, 0]])).backward(upstream)
    close(encoding.embed.table.grad[2], upstream[0, 1] + upstream[0, 2] + upstream[1, 0])


def test_rows_beyond_the_training_length_only_decay():
    """No gradient, so AdamW moves them by its weight decay alone; Adam without it leaves them as they are."""
    for decay in (0.0, 0.1):
        encoding, start = with_table(numbers(6, 3)), numbers(6, 3)
        optimizer = torch.optim.AdamW(encoding.parameters(), lr=0.05, weight_decay=decay)
        for _ in range(7):
            optimizer.zero_grad()
            encoding.embed(numbers(1, 4, 3, seed=1), torch.arange(4)).square().sum().backward()
            optimizer.step()
        close(encoding.embed.table[4:], start[4:] * (1 - 0.05 * decay) ** 7, 1e-15)
        assert (encoding.embed.table[:4] - start[:4]).abs().min() > 0.01


@pytest.mark.parametrize(
    "embed_at, tables", [("input", 1), ("layer_qk", 6), ("layer_qkv", 6)], ids=["input", "layer_qk", "layer_qkv"]
)
def test_parameters_are_counted(embed_at, tables):
    def count(make_encoding):
        with torch.device("meta"):  # counted, not filled
            return sum(p.numel() for p in Decoder(7, 384, 6, 6, make_encoding).parameters())

    added = count(lambda layer: learned(512, 384, embed_at=embed_at)) - count(lambda layer: posenc.Encoding())
    assert added == tables * 512 * 384 == {1: 196_608, 6: 1_179_648}[tables]
    with torch.device("meta"):
        shared = learned(512, 384, embed_at=embed_at)
    assert count(lambda layer: shared) - count(lambda layer: posenc.Encoding()) == 196_608


def test_table_starts_at_the_given_spread():
    torch.manual_seed(0)
    for std in (0.02, 0.3):
        table = learned(400, 256, std=std).embed.table
        assert abs(table.std().item() / std - 1) < 0.01 and abs(table.mean().item()) < std / 50
    assert (learned(4, 2, std=0).embed.table == 0).all()


# Refused


@pytest.mark.parametrize(
    "positions, words",
    [
        ([0, 1, 8], ["8", "max_positions=8", "0 to 7", "resize"]),
        ([500, 1, 9], ["500", "max_positions=8"]),
        ([-1, 0, 1], ["-1", "max_positions=8"]),
        ([0, 1, 1.5], ["positions", "1.5", "whole"]),
        ([0, 1, float("nan")], ["positions", "nan", "whole"]),
    ],
    ids=str,
)
def test_position_without_a_row_is_refused_with_both_numbers(positions, words):
    encoding = learned(8, 4)
    with pytest.raises(ValueError) as error:
        encoding.embed(numbers(1, 3, 4, dtype=torch.float32), torch.tensor(positions))
    assert all(word in str(error.value) for word in words), str(error.value)


def test_last_row_is_within():
    encoding = learned(8, 4)
    assert encoding.embed(torch.zeros(1, 8, 4), torch.arange(8)).shape == (1, 8, 4)


def test_decoding_ends_where_the_table_ends():
    torch.manual_seed(0)
    model = Decoder(11, 16, 2, 2, lambda layer: learned(8, 16)).eval()
    prompt = torch.zeros(1, 3, dtype=torch.long)
    assert model.generate(prompt, 6).shape == (1, 9)  # the last token drawn is never read
    with pytest.raises(ValueError, match="positions hold 8, but max_positions=8"):
        model.generate(prompt, 7)


x = torch.zeros(2, 5, 4)
at = torch.arange(5)
rows = torch.zeros(6, 4)
CASES = {
    "max_positions-type": (lambda: learned(8.0, 4), T, ["max_positions=8.0", "int"]),
    "max_positions-range": (lambda: learned(0, 4), V, ["max_positions=0", "at least 1"]),
    "dim-type": (lambda: learned(8, "4"), T, ["dim='4'", "int"]),
    "dim-range": (lambda: learned(8, -1), V, ["dim=-1", "at least 1"]),
    "embed_at": (lambda: learned(8, 4, embed_at="layer"), V, ["embed_at='layer'", "layer_qkv"]),
    "std-type": (lambda: learned(8, 4, std=None), T, ["std=None", "number"]),
    "std-range": (lambda: learned(8, 4, std=-0.1), V, ["std=-0.1", "at least 0"]),
    "std-nan": (lambda: learned(8, 4, std=float("nan")), V, ["std=nan", "finite"]),
    "make-missing": (lambda: posenc.make("learned", dim=4), T, ["max_positions"]),
    "x-type": (lambda: learned(8, 4).embed([1], at), T, ["x ", "[B, T, 4]"]),
    "x-rank": (lambda: learned(8, 4).embed(x[0], at), V, ["x ", "[B, T, 4]", "[5, 4]"]),
    "x-integers": (lambda: learned(8, 4).embed(x.long(), at), T, ["x ", "floating"]),
    "x-width": (lambda: learned(8, 3).embed(x, at), V, ["dim=3", "[2, 5, 4]"]),
    "positions-type": (lambda: learned(8, 4).embed(x, 5), T, ["positions", "5"]),
    "positions-bool": (lambda: learned(8, 4).embed(x, at > 2), T, ["positions", "bool"]),
    "positions-size": (lambda: learned(8, 4).embed(x, at[:4]), V, ["positions", "[4]", "[2, 5]"]),
    "positions-batch": (lambda: learned(8, 4).embed(x, at.expand(3, 5)), V, ["positions", "[3, 5]"]),
    "positions-rank": (lambda: learned(8, 4).embed(x, at.expand(2, 5, 5)), V, ["positions", "[2, 5, 5]"]),
    "resize-table-type": (lambda: resize([1], 3), T, ["table", "[N, C]", "list"]),
    "resize-table-rank": (lambda: resize(rows[0], 3), V, ["table", "[N, C]", "[4]"]),
    "resize-table-integers": (lambda: resize(rows.long(), 3), T, ["table", "floating", "int64"]),
    "resize-length-type": (lambda: resize(rows, 3.0), T, ["length=3.0", "int"]),
    "resize-length-range": (lambda: resize(rows, 0), V, ["length=0", "at least 1"]),
    "resize-length-prefix": (lambda: resize(rows, 2, prefix=2), V, ["length=2", "at least 3"]),
    "resize-mode": (lambda: resize(rows, 3, mode="linaer"), V, ["mode='linaer'", "Did you mean 'linear'"]),
    "resize-prefix-type": (lambda: resize(rows, 3, prefix=1.0), T, ["prefix=1.0", "int"]),
    "resize-prefix-range": (lambda: resize(rows, 3, prefix=-1), V, ["prefix=-1", "at least 0"]),
    "resize-prefix-all": (lambda: resize(rows, 9, prefix=6), V, ["prefix=6", "6 rows"]),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_named(name):
    call, error, words = CASES[name]
    with pytest.raises(error) as raised:
        call()
    assert all(word in str(raised.value) for word in words), str(raised.value)


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


def test_vit_keeps_its_class_row_too_but_spaces_the_others_otherwise():
    from transformers.models.vit.configuration_vit import ViTConfig
    from transformers.models.vit.modeling_vit import ViTEmbeddings

    config = ViTConfig(hidden_size=4, image_size=32, patch_size=8, num_attention_heads=2)  # 4 x 4 patches and a class
    theirs = ViTEmbeddings(config).eval()
    ramp = torch.arange(4.0).repeat(4)[:, None].expand(16, 4)  # the column of each patch
    with torch.no_grad():
        theirs.position_embeddings.copy_(torch.cat((torch.full((1, 4), 9.0), ramp))[None])
        found = theirs.interpolate_pos_encoding(torch.zeros(1, 1 + 64, 4), 64, 64)[0]
    assert found.shape == (65, 4) and torch.equal(found[0], torch.full((4,), 9.0))
    ours = resize(torch.cat((torch.full((1, 1), 9.0), torch.arange(4.0)[:, None])), 9, prefix=1)
    assert ours[0] == 9 and ours[1] == 0 and ours[-1] == 3
    assert (found[1:9, 0] - ours[1:, 0]).abs().max() > 0.1  # bicubic, corners not aligned
