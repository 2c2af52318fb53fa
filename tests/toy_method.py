"""A method that the package lacks, put into both tables when pytest loads this as a plugin (`-p toy_method`)."""

import torch

from posenc import METHODS, Encoding
from posenc.lab.titles import TITLES, InBook
from posenc.methods import Method


def toy(num_heads: int, *, rate: float = 0.3) -> Encoding:
    """A fixed penalty on the square root of the distance. Chapter: Four places."""

    def bias(q, k, at):
        far = (at.pos_q[:, None, :, None] - at.pos_k[:, None, None, :]).to(torch.promote_types(q.dtype, torch.float32))
        return -rate * far.abs().sqrt()

    return Encoding(bias=bias)


METHODS["toy"] = Method(toy, "Toy", ("bias",), variants={"loud": {"rate": 2.0}}, fails=("unseen",))
TITLES["toy"] = InBook("four_places", "Subtract the root of the distance", "tomato", "1")
