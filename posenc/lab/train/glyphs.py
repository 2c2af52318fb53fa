r"""Pictures for encodings of two axes: glyphs of fonts, a dot and a bar, and a small vision transformer to read them.

The fonts come with matplotlib, so nothing is downloaded. Whole faces are held out: a model is tested on letters whose
shapes it never saw. Chapters: Two axes and more, Rotations that commute.
"""

import functools
import math
import os
import string
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import matplotlib
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from posenc.embed.sinusoidal import table
from posenc.encoding import Encoding
from posenc.errors import check_choice, check_int, check_number
from posenc.lab.train.settings import Settings, in_few_steps
from posenc.lab.train.tiny import Block
from posenc.lab.train.trainer import adam, descend
from posenc.layer import embed_input
from posenc.rotate.comrope import comrope
from posenc.rotate.liere import liere
from posenc.rotate.rope2d import rope2d

PATCH, SIDE = 4, 24  # pixels: of a patch, of the pictures in training
ROWS = SIDE // PATCH
CHARACTERS = string.digits + string.ascii_uppercase + string.ascii_lowercase
SIZES = (16, 17, 18, 19, 20)  # of the letters, in pixels, on a picture of 24
SHIFT = 4  # pixels: how far a letter may stand from one corner of where it may be
# The faces of matplotlib's fonts that hold all 62 characters; families are split, so that none is wholly new.
FACES = {
    "test": ("DejaVuSans-Oblique", "DejaVuSerif-Bold", "STIXGeneralItalic", "cmss10"),
    "validation": ("DejaVuSerif-Italic", "cmr10"),
    "training": (
        *("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-BoldOblique", "DejaVuSerif", "DejaVuSerif-BoldItalic"),
        *("DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSansMono-Oblique", "DejaVuSansMono-BoldOblique"),
        *("STIXGeneral", "STIXGeneralBol", "STIXGeneralBolIta", "cmb10", "cmmi10", "cmtt10"),
    ),
}
CLASSES = {"glyphs": len(CHARACTERS), "left": 2}


class Pictures(NamedTuple):
    r"""pictures [B, S, S] in 0 .. 1; positions [B or 1, T, 2] (row, column) of their patches; answers [B]."""

    pictures: Tensor
    positions: Tensor
    answers: Tensor


def grid(rows: int, columns: int) -> Tensor:
    """Positions [rows columns, 2] of the patches of a picture, row by row, float32."""
    return torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).float()


def normalized(side: int) -> Tensor:
    """As `grid` for a picture of this side, measured in patches of a training picture: interpolation."""
    return (grid(side // PATCH, side // PATCH) + 0.5) * SIDE / side - 0.5


@functools.cache
def sheet(face: str, size: int, side: int) -> Tensor:
    """The 62 characters of a face [62, side, side], uint8, on one baseline, `size` pixels to the em."""
    font = ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{face}.ttf"), size)
    drawn = torch.empty(len(CHARACTERS), side, side, dtype=torch.uint8)
    for index, character in enumerate(CHARACTERS):
        image = Image.new("L", (side, side))
        ImageDraw.Draw(image).text((side / 2, side / 2 + 0.35 * size), character, font=font, fill=255, anchor="ms")
        drawn[index] = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).view(side, side)
    return drawn


def draw_glyphs(generator: torch.Generator, count: int, split: str = "training", side: int = SIDE) -> Pictures:
    r"""Letters of the faces of a split, any size of `SIZES`, shifted by up to half of `SHIFT` pixels each way.

    side: of the pictures; the same letters are drawn with more pixels where it is larger.
    Returns: `Pictures`, with positions by index.
    """
    check_choice("split", split, FACES)
    scale = side / SIDE
    faces, space = FACES[split], side + round(SHIFT * scale)

    def some(high):
        return torch.randint(high, (count,), generator=generator)

    which, answers, sizes = some(len(faces)), some(len(CHARACTERS)), some(len(SIZES))
    down, right = some(space - side + 1), some(space - side + 1)
    pictures = torch.stack(
        [
            sheet(faces[f], round(SIZES[s] * scale), space)[a, y : y + side, x : x + side]
            for f, a, s, y, x in torch.stack((which, answers, sizes, down, right), 1).tolist()
        ]
    )
    return Pictures(pictures.float() / 255, grid(side // PATCH, side // PATCH)[None], answers)


def draw_left(generator: torch.Generator, count: int, side: int = SIDE, low: int = 0, apart: tuple = (4, 16)):
    r"""A dot of 3 x 3 pixels and a bar of 8 x 2: is the dot left (1) or right (0) of the bar?

    side: of the pictures; low: both stand below and right of this pixel; apart: least and largest distance between
    their middles, in pixels along the row.
    """

    def some(least, most):  # both ends in; may differ from picture to picture
        return least + (torch.rand(count, generator=generator) * (most - least + 1)).long()

    distance, answers = some(apart[0], apart[1]), torch.randint(2, (count,), generator=generator)
    first = some(torch.full((count,), low + 2), side - 3 - distance)  # the column of whichever stands left
    dot_x, bar_x = (torch.where(answers == left, first, first + distance) for left in (1, 0))
    dot_y, bar_y = some(low + 1, side - 2), some(low + 4, side - 4)
    y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    dot = ((y - dot_y[:, None, None]).abs() <= 1) & ((x - dot_x[:, None, None]).abs() <= 1)
    up, across = y - bar_y[:, None, None], x - bar_x[:, None, None]
    bar = (up >= -4) & (up < 4) & (across >= -1) & (across < 1)
    return Pictures((dot | bar).float(), grid(side // PATCH, side // PATCH)[None], answers)


def on_canvas(drawn: Pictures, side: int) -> Pictures:
    """The same pictures in the lower right corner of a larger blank one."""
    canvas = torch.zeros(len(drawn.pictures), side, side)
    canvas[:, -drawn.pictures.shape[1] :, -drawn.pictures.shape[2] :] = drawn.pictures
    return Pictures(canvas, grid(side // PATCH, side // PATCH)[None], drawn.answers)


def tests(task: str, count: int = 992) -> dict:
    r"""The tests of a task by name, each `Pictures`; the same ones at every call.

    Patches "moved" are those of the first test at places that training never showed, 6 rows down and 6 columns right;
    on the canvas of 48 they stand at the same places (on that of 32 at two rows and columns less far), and blank
    patches lie around them.
    """
    check_choice("task", task, CLASSES)

    def seeded():
        return torch.Generator().manual_seed(2**31)

    if task == "left":
        near = draw_left(seeded(), count)
        canvas = {"48, farther apart": draw_left(seeded(), count, 2 * SIDE, apart=(SIDE, 40))}
    else:
        near = draw_glyphs(seeded(), count, "test")
        canvas = {}
        for side in (32, 48):
            larger = draw_glyphs(seeded(), count, "test", side)
            canvas[f"{side}, by index"] = larger
            canvas[f"{side}, normalized"] = larger._replace(positions=normalized(side)[None])
        canvas["on a canvas of 32"] = on_canvas(near, 32)
    moved = near._replace(positions=near.positions + ROWS)
    return {"24": near, "24, moved": moved, "on a canvas of 48": on_canvas(near, 2 * SIDE)} | canvas


class Table2d(nn.Module):
    """The `embed` of a learned table of places on two axes, read between its rows; beyond its edge, at the edge."""

    def __init__(self, dim):
        super().__init__()
        self.table = nn.Parameter(torch.randn(ROWS, ROWS, dim) * 0.5**0.5)

    def forward(self, x, positions):
        last = len(self.table) - 1
        places = positions.clamp(0, last)
        low = places.floor().long().clamp(max=last - 1)
        (down, right), (y, x0) = (places - low).unsqueeze(-2).unbind(-1), low.unbind(-1)
        above = self.table[y, x0] * (1 - right) + self.table[y, x0 + 1] * right
        below = self.table[y + 1, x0] * (1 - right) + self.table[y + 1, x0 + 1] * right
        return x + above * (1 - down) + below * down


class Sinusoid2d(nn.Module):
    """The `embed` of sines and cosines of two axes: the row in one half of the lanes, the column in the other."""

    def forward(self, x, positions):
        return x + torch.cat([table(p.float(), x.shape[-1] // 2) for p in positions.unbind(-1)], -1)


class Vision(nn.Module):
    r"""A vision transformer: patches of 4 x 4 pixels, blocks of attention without a causal mask, a head.

    Arguments:
        classes, dim, num_layers, num_heads: of the head, and of the blocks.
        make_encoding: make_encoding(layer) -> the `Encoding` of that layer, for positions of two axes.
        pool: what the head reads: "max", the largest number of each lane over the patches, whatever their places; or
            "token", a class token in front, which has no place (NaN).
    """

    def __init__(self, classes, dim, num_layers, num_heads, make_encoding, pool="max"):
        super().__init__()
        check_choice("pool", pool, ("max", "token"))
        with torch.random.fork_rng(devices=[]):  # with random numbers of their own: all else starts alike for a seed
            torch.default_generator.manual_seed(int(torch.randint(2**62, (), device="cpu")))
            encodings = [make_encoding(layer) for layer in range(num_layers)]
        self.patch = nn.Linear(PATCH**2, dim)
        self.norm_patch = nn.LayerNorm(dim)
        self.blocks = nn.ModuleList(Block(dim, num_heads, e.in_layers(), causal=False) for e in encodings)
        self.at_input = encodings[0].at_input()
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)
        self.token = nn.Parameter(torch.randn(1, 1, dim)) if pool == "token" else None

    def forward(self, pictures, positions):
        """Logits [B, classes] of pictures [B, S, S], their patches at positions [B or 1, T, 2]."""
        patches = pictures.unfold(1, PATCH, PATCH).unfold(2, PATCH, PATCH).flatten(3).flatten(1, 2)  # [B, T, 16]
        x = embed_input(self.at_input, self.norm_patch(self.patch(patches)), positions)
        if self.token is not None:
            x = torch.cat((self.token.expand(len(x), -1, -1), x), 1)
            nowhere = torch.full((len(positions), 1, 2), math.nan, device=positions.device)
            positions = torch.cat((nowhere, positions), 1)
        for block in self.blocks:
            x = block(x, positions)
        x = self.norm(x)
        return self.head(x.amax(1) if self.token is None else x[:, 0])


# What each arm makes of (head_dim, num_heads). Learned generators start where the fastest of a block of 8 turns by
# about 1.5 radians a patch, near the fastest of "axial".
ARMS = {
    "none": lambda head_dim, num_heads: Encoding(axes=2),
    "learned": lambda head_dim, num_heads: Encoding(embed=Table2d(head_dim * num_heads), axes=2),
    "sinusoidal": lambda head_dim, num_heads: Encoding(embed=Sinusoid2d(), axes=2),
    "axial": lambda head_dim, num_heads: rope2d(head_dim),
    "mixed": lambda head_dim, num_heads: rope2d(head_dim, "mixed", num_heads=num_heads),
    "liere 2": functools.partial(liere, block=2),
    "liere 4": functools.partial(liere, block=4),
    "liere 8": functools.partial(liere, block=8),
    "comrope ap": functools.partial(comrope, form="ap", block=8),
    "comrope ld": functools.partial(comrope, form="ld", block=8),
}
STUDY = {
    task: Settings(dim=64, num_layers=2, length=ROWS**2, batch=64, steps=steps)
    for task, steps in (("glyphs", 600), ("left", 300))
}


def train_pictures(
    arm: str | Callable,
    task: str = "glyphs",
    seed: int = 0,
    settings: Settings | None = None,
    *,
    perturb: float = 0.0,
    pool: str = "max",
    progress: bool = True,
) -> tuple[Vision, list]:
    r"""Train a `Vision` on pictures drawn anew for each step.

    Arguments:
        arm: a name in `ARMS`, or what makes an `Encoding` of (head_dim, num_heads).
        task: "glyphs", which of 62 characters; "left", is the dot left of the bar.
        seed: of the weights and of the pictures, each: two arms with one seed start with the same shared weights.
        settings: default `STUDY` of the task.
        perturb: spread of normal noise on the coordinates, in patches, cut at half a patch: one draw a step and patch.
        pool: see `Vision`.
    Returns: (model, losses).
    Errors: TypeError, ValueError naming the argument; FloatingPointError where a loss is no finite number.
    """
    check_choice("task", task, CLASSES)
    if not callable(arm):
        check_choice("arm", arm, ARMS)
    check_int("seed", seed, minimum=0)
    check_number("perturb", perturb, minimum=0)
    settings = in_few_steps(STUDY[task] if settings is None else settings)
    make = ARMS.get(arm, arm) if isinstance(arm, str) else arm
    heads = settings.dim // settings.num_heads, settings.num_heads
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        shape = (CLASSES[task], settings.dim, settings.num_layers, settings.num_heads)
        model = Vision(*shape, lambda layer: make(*heads), pool)
    optimizer = adam(model, settings)
    generator, noise = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(seed)
    draw, losses = draw_glyphs if task == "glyphs" else draw_left, []
    quiet = not progress or "POSENC_BOOK" in os.environ
    for _ in tqdm(range(settings.steps), arm if isinstance(arm, str) else "your encoding", disable=quiet):
        pictures, positions, answers = draw(generator, settings.batch)
        if perturb:
            positions = positions + (perturb * torch.randn(positions.shape, generator=noise)).clamp(-0.5, 0.5)
        descend(cross_entropy(model(pictures, positions), answers), model, optimizer, losses, settings)
    return model.eval(), losses


@torch.no_grad()
def share_right(model: Vision, asked: Pictures) -> float:
    """The share of pictures that a model names rightly."""
    right = 0
    for part in torch.arange(len(asked.answers)).split(124):
        positions = asked.positions if len(asked.positions) == 1 else asked.positions[part]
        right += (model(asked.pictures[part], positions).argmax(-1) == asked.answers[part]).sum().item()
    return right / len(asked.answers)
