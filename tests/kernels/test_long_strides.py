r"""The kernels on tensors that span more than 2^31 numbers, where an index in 32 bits points before their beginning.

The memory is asked for and never touched but where a number stands, so that the system lends it as pages of zeros: no
fixture may fill it here.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton", reason="Triton is published for Linux only")

import posenc
from posenc.kernels import cope, rotary, softmax, stickbreaking

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
FAR = 2**31
ROOT = Path(__file__).resolve().parents[2]


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


def table(q, k, v, pos_q, pos_k, mask):
    values = torch.linspace(-1, 1, 2 * 9, device=DEVICE).view(2, 9)
    return softmax.attend(
        q, k, v, pos_q=pos_q.long(), pos_k=pos_k.long(), mask=mask, variant="table", table=values, first=-5
    )


def linear(q, k, v, pos_q, pos_k, mask):
    a = torch.tensor([0.5, 0.1], device=DEVICE)
    return softmax.attend(q, k, v, pos_q=pos_q, pos_k=pos_k, mask=mask, variant="linear", a=a)


def turned(q, k, v, pos_q, pos_k, mask):
    return softmax.attend(q, k, v, pos_q=pos_q, pos_k=pos_k, mask=mask, inv_freq=posenc.rope.inv_freq(16))


def stick(q, k, v, pos_q, pos_k, mask):
    a = torch.tensor([0.5, 0.1], device=DEVICE)
    return stickbreaking.attend(q, k, v, pos_q=pos_q, pos_k=pos_k, mask=mask, variant="symmetric", a=a)[0]


def counting(q, k, v, pos_q, pos_k, mask):
    return cope.attend(q, k, v, torch.linspace(-1, 1, 2 * 2 * 17 * 3, device=DEVICE).view(2, 2, 17, 3), mask=mask)


def rotation(layout, **factors):
    def rotate(q, k, v, pos_q, pos_k, mask):
        factors_here = {name: value.to(DEVICE) for name, value in factors.items()}
        return rotary.rotate(q, k, pos_q, pos_k, posenc.rope.inv_freq(12), layout, **factors_here)

    return rotate


CASES = {
    "linear": linear,
    "table": table,
    "turned inside": turned,
    "stick": stick,
    "cope": counting,
    "rotary": rotation("interleaved"),
    "rotary half": rotation("half"),
    "rotary half with factors": rotation("half", weights=torch.tensor([0.5, -2.0]), band=torch.linspace(0.5, 1.5, 16)),
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
        out = CASES[case](q, k, v, *at, seen)
        out = out if isinstance(out, tuple) else (out,)
        results.append((*out, *torch.autograd.grad(out, used, [dout] * len(out))))
    for near, far in zip(*results, strict=True):
        assert torch.equal(near, far)


# -------------------------------------------------------------------------------------------- what the compiler is told


def narrow_products(ttir):
    """The 32-bit products in a kernel's first intermediate code, by name, but for those with a constant.

    What is constant when a kernel is compiled, such as the length of a block, makes an index of an index.
    """
    constants = set(re.findall(r"^\s*(%\w+) = arith\.constant ", ttir, re.M))
    products = re.findall(r"^\s*(%\w+) = arith\.muli (%\w+), (%\w+)[^:\n]* : (?:tensor<[\dx]+x)?i32\b", ttir, re.M)
    return [name for name, *factors in products if constants.isdisjoint(factors)]


STRIDED = """
import sys, torch
torch.set_num_threads(1)
sys.path += ["tests/kernels", "benchmarks"]
from kernel_report import compiling_for
from test_long_strides import CASES, narrow_products

def strided(*shape, dtype=torch.float16):
    wider = torch.zeros(*(n + 3 for n in shape), 3, dtype=dtype)  # so that no stride is 1, which the compiler drops
    return wider[(*(slice(n) for n in shape), 1)]

found = []
def take(name, cut, compile_it):
    found.append((name, narrow_products(compile_it().asm["ttir"])))

for case in sys.argv[1:]:
    q, k, v = (strided(2, 2, 17, 16).requires_grad_() for _ in range(3))
    pos, mask = strided(2, 17, dtype=torch.float32), strided(2, 1, 17, 17, dtype=torch.bool)
    with compiling_for("8.0", take):
        out = CASES[case](q, k, v, pos, pos, mask)
        out = out if isinstance(out, tuple) else (out,)
        torch.autograd.grad(out, [q, k], [strided(*x.shape) for x in out])
assert len(found) >= 2 * len(sys.argv[1:]), found
print([entry for entry in found if entry[1]])
"""


@pytest.mark.weekly
@pytest.mark.parametrize("case", [name for name in CASES if name != "rotary"])
def test_no_address_comes_from_a_product_in_32_bits(case):
    """Of numbers that are known at run time only, as indices and strides are, in what the compiler is given."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    run = subprocess.run(
        [sys.executable, "-c", STRIDED, case], capture_output=True, text=True, cwd=ROOT, env=environment
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "[]"


def test_a_product_in_32_bits_is_found():
    lines = [
        "    %c16_i32 = arith.constant 16 : i32 loc(#loc)",
        "    %i = arith.muli %n, %c16_i32 : i32 loc(#loc1)",  # an index: the constant is a block
        "    %at = arith.muli %rows, %strides : tensor<16x1xi64> loc(#loc2)",
        "    %lanes_3 = arith.muli %lanes, %strides_2 : tensor<1x16xi32> loc(#loc3)",
        "    %head = arith.muli %h, %stride : i32 loc(#loc4)",
    ]
    assert narrow_products("\n".join(lines[:3])) == []
    assert narrow_products("\n".join(lines)) == ["%lanes_3", "%head"]
