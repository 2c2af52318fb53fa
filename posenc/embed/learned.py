r"""Learned absolute positions: one trained row of a table for each position, added to the embeddings."""

import torch
from torch import nn

from ..encoding import Encoding
from ..errors import check_choice, check_int, check_number, check_tensor, check_values
from ..inputs import accumulation_dtype
from ..positions import whole


def resize(table: torch.Tensor, length: int, mode: str = "linear", prefix: int = 0) -> torch.Tensor:
    r"""Stretch or squeeze a table of positions to another number of rows.

    The first and the last row stay where they are; new row t is read at t (N - 1) / (length - 1) of the old ones. (With
    `prefix` rows kept apart, N and length count the others.)

    Arguments:
        table: [N, C], rows in the order of their positions.
        length: how many rows the result has, `prefix` included.
        mode: "linear" mixes the two neighbors, "nearest" takes the nearer one (of two equally near, the even one).
        prefix: how many rows at the front stand for no place (a class token) and are kept as they are.
    Returns: [length, C]; the same numbers where length = N.
    Convention: corners aligned, as torch.nn.functional.interpolate(..., align_corners=True). For positions on one line:
        where a picture's patches stand row by row, the end of a row would run into the next one.
    Paper: the practice of ViT, arXiv 2010.11929, section 3.2. Chapter: Learned positions.
    """
    check_tensor("table", table, "[N, C]", ndim=2, floating=True)
    prefix = check_int("prefix", prefix, minimum=0)
    length = check_int("length", length, minimum=prefix + 1)
    check_choice("mode", mode, ("linear", "nearest"))
    kept, rows = table[:prefix], table[prefix:]  # [prefix, C], [n, C]
    if not len(rows):
        raise ValueError(f"prefix={prefix} leaves none of the {len(table)} rows of table to resize")
    place = torch.linspace(0, len(rows) - 1, length - prefix, dtype=torch.float64, device=table.device)
    if mode == "nearest":
        return torch.cat((kept, rows[place.round().long()]))
    left = place.floor().long()
    right = (left + 1).clamp(max=len(rows) - 1)
    share = (place - left).to(accumulation_dtype(table))[:, None]
    return torch.cat((kept, (rows[left] * (1 - share) + rows[right] * share).to(table.dtype)))


class LearnedTable(nn.Module):
    """The `embed` callable: x + table[positions]."""

    def __init__(self, max_positions, dim, std):
        super().__init__()
        self.std = std
        self.table = nn.Parameter(torch.empty(max_positions, dim))
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.normal_(self.table, std=self.std)

    def forward(self, x, positions):
        rows, positions = len(self.table), whole("positions", positions)
        good = (positions >= 0) & (positions < rows)
        must = f"max_positions={rows}: the table has rows 0 to {rows - 1} and nothing beyond"

        def words():
            wrong = positions.max().item() if positions.max() >= rows else positions.min().item()
            return f"positions hold {wrong}, but {must}; posenc.learned.resize makes a longer one"

        check_values(good, must, words)
        return x + self.table[positions].to(x.dtype)


def learned(max_positions: int, dim: int, *, embed_at: str = "input", std: float = 0.02) -> Encoding:
    r"""Learned absolute positions, an `Encoding` at the place `embed`.

    Arguments:
        max_positions: N, how many positions there are; a position outside 0 .. N-1 is refused.
        dim: C, the width of the model.
        embed_at: "input" adds once to the embeddings (BERT, GPT-2: N C parameters in the model); "layer_qkv" in each
            layer to what queries, keys and values are made from, "layer_qk" to queries and keys alone: with an
            encoding of its own each layer then trains N C parameters.
        std: of the normal distribution that the table starts from; 0.02 is BERT's, whose embeddings start at 0.02 too.
            Those of `posenc.lab.train.tiny` stand at variance 1: there a table of 0.02 begins quietly and has to grow.
    Errors: TypeError, ValueError naming the argument; whole numbers are asked for as positions. On a GPU and in a
        compiled or exported model, where looking would wait, a position outside is an assertion's RuntimeError or the
        error of a CUDA kernel.
    Paper: arXiv 1705.03122, section 3.1; arXiv 1810.04805 (BERT). Chapter: Learned positions.
    """
    max_positions = check_int("max_positions", max_positions)
    dim = check_int("dim", dim)
    std = check_number("std", std, minimum=0)
    return Encoding(embed=LearnedTable(max_positions, dim, std), embed_at=embed_at, dim=dim)
