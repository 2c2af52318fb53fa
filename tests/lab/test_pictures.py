"""The pictures that encodings of two axes are tried on, the model that reads them, and what the pages say of it."""

import dataclasses

import pytest
import torch

from posenc.chapters.rope2d import study as page
from posenc.lab.train import glyphs
from posenc.lab.train.glyphs import ARMS, FACES, STUDY, Table2d, Vision, draw_glyphs, draw_left, grid

RELATIVE = [arm for arm in ARMS if arm not in ("learned", "sinusoidal", "liere 4", "liere 8")]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def untrained(arm, pool="max"):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Vision(62, 64, 2, 4, lambda layer: ARMS[arm](16, 4), pool).double()


def test_faces_are_held_out_and_every_character_is_drawn():
    every = [face for split in FACES.values() for face in split]
    assert len(every) == len(set(every)) == 21
    for face in every:
        drawn = glyphs.sheet(face, 18, 28)
        ink = drawn.float().sum((1, 2)) / 255
        assert (ink > 5).all() and (drawn[:, 0] == 0).all()  # none is blank or cut off above
        assert len({letter.numpy().tobytes() for letter in drawn}) >= 60  # I and l may be alike


def test_the_dot_is_where_the_answer_says():
    drawn = draw_left(seeded(), 200)
    for picture, answer in zip(drawn.pictures, drawn.answers):
        columns = picture.sum(0)  # 8 in the two of the bar, 3 in the three of the dot
        assert sorted(columns[columns > 0].tolist()) == [3, 3, 3, 8, 8]
        dot, bar = (torch.where(columns == height)[0].float().mean() for height in (3, 8))
        assert (dot < bar) == bool(answer)
    far = draw_left(seeded(), 50, 48, apart=(24, 40)).pictures
    spread = [torch.where(picture.sum(0) > 0)[0] for picture in far]
    assert all(columns[-1] - columns[0] >= 24 for columns in spread)


def test_tests_are_the_same_each_time_and_move_places_alone():
    one, again = glyphs.tests("glyphs", 8), glyphs.tests("glyphs", 8)
    assert all(torch.equal(a, b) for name in one for a, b in zip(one[name], again[name]))
    near, moved, canvas = one["24"], one["24, moved"], one["on a canvas of 48"]
    assert torch.equal(near.pictures, moved.pictures) and torch.equal(moved.positions, near.positions + 6)
    assert torch.equal(canvas.pictures[:, 24:, 24:], near.pictures) and not canvas.pictures[:, :24].any()
    assert one["48, by index"].positions.max() == 11 and one["48, normalized"].positions.max() == 5.25
    assert torch.equal(glyphs.normalized(24), grid(6, 6))


@pytest.mark.parametrize("arm", ARMS)
def test_moving_all_patches_changes_what_is_not_relative(arm):
    model, asked = untrained(arm), glyphs.tests("glyphs", 4)["24"]
    here, there = (model(asked.pictures.double(), asked.positions.double() + by) for by in (0, 6))
    assert ((here - there).abs().max() < 1e-10) == (arm in RELATIVE)


def test_the_learned_table_is_read_between_its_rows_and_at_its_edge():
    embed = Table2d(5).double()
    at = torch.tensor([[2.0, 3.0], [2.5, 3.0], [2.25, 5.0], [9.0, -4.0]], dtype=torch.float64)
    rows = embed(torch.zeros(1, 4, 5, dtype=torch.float64), at[None])[0]
    table = embed.table
    expected = [table[2, 3], (table[2, 3] + table[3, 3]) / 2, 0.75 * table[2, 5] + 0.25 * table[3, 5], table[5, 0]]
    torch.testing.assert_close(rows, torch.stack(expected))


def test_arms_share_their_start_and_a_seed_gives_the_same_model():
    one, other = untrained("axial").state_dict(), untrained("comrope ld").state_dict()
    shared = one.keys() & other.keys()
    assert len(shared) > 20 and all(torch.equal(one[key], other[key]) for key in shared)
    given = {"settings": dataclasses.replace(STUDY["left"], steps=3, warmup=1, batch=4), "progress": False}
    first, again, other = (glyphs.train_pictures("mixed", "left", seed, **given)[1] for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: glyphs.train_pictures("axail"), ["arm='axail'", "axial"]),
        (lambda: glyphs.train_pictures("axial", "glyph"), ["task='glyph'", "glyphs"]),
        (lambda: glyphs.train_pictures("axial", perturb=-1), ["perturb=-1"]),
        (lambda: glyphs.train_pictures("axial", pool="mean"), ["pool='mean'", "max"]),
        (lambda: draw_glyphs(seeded(), 1, "train"), ["split='train'", "training"]),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises((TypeError, ValueError)) as error:
        call()
    assert all(word in str(error.value) for word in words), str(error.value)


def test_relative_arms_name_the_same_letters_when_all_patches_move():
    """What the theorem says; arms that are not relative do not."""
    assert {arm for arm in page.TITLES if not page.moved(arm).any()} == {arm for arm in RELATIVE}
