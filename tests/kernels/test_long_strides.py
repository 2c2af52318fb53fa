r"""The kernels on tensors that span more than 2^31 numbers, where an index in 32 bits points before their beginning.

The memory is asked for and never touched but where a number stands, so that the system lends it as pages of zeros: no
fixture may fill it here. `make kernel-report` finds such an index in what the compiler is given.
"""

from functools import partial

import pytest
import torch

pytest.importorskip("triton", reason="Triton is published for Linux only")

import posenc
from posenc.kernels import cope, rotary, softmax, stickbreaking

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
FAR = 2**31


def spread(x, dim):
    """The same numbers as a view whose last index along dim stands more than 2^31 numbers behind its first."""
    rest = [n for n in range(x.ndim) if n != dim]
    strides, size = [0] * x.ndim, 1
    for n in reversed(rest):
        strides[n], size = size, size * x.shape[n]
    strides[dim] = FAR // (x.shape[dim] - 1) + 3
    storage = torch.empty((x.shape[dim] - 1) * strides[dim] + size, dtype=x.dtype, device=x.device)
    view = storage.as_strided(x.shape, strides)
    assert (x.shape[dim] - 1) * view.stride(dim) > FAR and size < strides[dim]
    with torch.no_grad():
        view.copy_(x)
    return view.detach().requires_grad_(x.requires_grad)


def spread_rows(x, width=None, dtype=None, heads=None):
    """What the kernels write to, in place of `rows_first`: lanes that stand far apart."""
    shape = (x.shape[0], heads or x.shape[1], x.shape[2], width or x.shape[3])
    return spread(torch.zeros(shape, dtype=dtype or x.dtype, device=x.device), 3)


SLOPES = torch.tensor([0.5, 0.1], device=DEVICE)
TABLE = torch.linspace(-1, 1, 2 * 9, device=DEVICE).view(2, 9)
COUNTED = torch.linspace(-1, 1, 2 * 2 * 17 * 3, device=DEVICE).view(2, 2, 17, 3)
FACTORS = {"weights": torch.tensor([0.5, -2.0], device=DEVICE), "band": torch.linspace(0.5, 1.5, 16, device=DEVICE)}


def softmax_of(q, k, v, mask, pos_q, pos_k, **options):
    return softmax.attend(q, k, v, pos_q=pos_q, pos_k=pos_k, mask=mask, **options)


def table(q, k, v, mask, pos_q, pos_k):
    return softmax_of(q, k, v, mask, pos_q.long(), pos_k.long(), variant="table", table=TABLE, first=-5)


def stick(q, k, v, mask, pos_q, pos_k):
    at = {"pos_q": pos_q, "pos_k": pos_k}
    return stickbreaking.attend(q, k, v, mask=mask, variant="symmetric", a=SLOPES, **at)[0]


def rotation(q, k, v, mask, pos_q, pos_k, layout="half", **factors):
    return rotary.rotate(q, k, pos_q, pos_k, posenc.rope.inv_freq(12), layout, **factors)


CASES = {
    "linear": partial(softmax_of, variant="linear", a=SLOPES),
    "table": table,
    "turned inside": partial(softmax_of, inv_freq=posenc.rope.inv_freq(16)),
    "stick": stick,
    "cope": lambda q, k, v, mask, *_: cope.attend(q, k, v, COUNTED, mask=mask),
    "rotary": partial(rotation, layout="interleaved"),
    "rotary half": rotation,
    "rotary half with factors": partial(rotation, **FACTORS),
}


@pytest.mark.sample(8)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dims", [(3, 2, 1, 0), (2, 3, 3, 2)], ids=["lanes of q", "lanes of k"])
def test_a_tensor_may_span_more_than_2_31_numbers(monkeypatch, case, dims):
    """q, k, v and what reaches the output, each far along another dimension; outputs along their lanes: bit by bit."""
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(2, 2, 17, 16, generator=generator).to(DEVICE, torch.float16) for _ in range(4)]
    mask = (torch.rand(2, 1, 17, 17, generator=generator) < 0.8).to(DEVICE)
    pos = torch.rand(2, 17, generator=generator).cumsum(1).round().to(DEVICE)
    results = []
    for far in (False, True):
        q, k, v, dout = (x.clone() for x in tensors)
        at, seen = (pos, pos), mask
        if far:
            q, k, v, dout = (spread(x, dim) for x, dim in zip((q, k, v, dout), dims))
            at, seen = (spread(pos, 1), spread(pos, 0)), spread(mask, dims[0])
            for module in (cope, rotary, softmax, stickbreaking):
                monkeypatch.setattr(module, "rows_first", spread_rows)
        used = [x.requires_grad_() for x in (q, k, v)][: 2 if "rotary" in case else 3]
        out = CASES[case](q, k, v, seen, *at)
        out = out if isinstance(out, tuple) else (out,)
        results.append((*out, *torch.autograd.grad(out, used, [dout] * len(out))))
    for near, far in zip(*results, strict=True):
        assert torch.equal(near, far)
