r"""A kernel beside a student's own function: the same numbers, and on a GPU their times. The labs' kernel step."""

import math
import os
from importlib.util import find_spec

import torch

from posenc.attention import attention
from posenc.encoding import Encoding
from posenc.impls import no_twin

HEADS, HEAD_DIM = 4, 64


def against(own, encoding=None, *, embed=None, positions=None, causal=True, length=40, gpu_length=2048):
    r"""Print how far the Triton kernel is from your own attention, in output and gradients; on a GPU also how fast.

    Without a GPU the kernel runs in Triton's interpreter, on a few tokens: TRITON_INTERPRET=1 is set for this process,
    which works as long as no kernel was imported before. Without Triton one line says so. Where no kernel serves the
    encoding, a line says why, and what PyTorch does stands beside your own.

    Arguments:
        own: your attention, (q [B, H, T, D], k, v) -> [B, H, T, D], on whatever device they are; it is called with 4
            heads of size 64, and with gates [B, H, T] as a fourth where the encoding reads them.
        encoding: the `Encoding` that it should equal; None is NoPE.
        embed: what is done to the tokens [B, H, T, D] before they serve as q, k and v, where the encoding is added.
        positions: None, or what makes the positions [T, n] of T tokens, for an encoding of n axes.
        causal: as in `attention`; `own` must be so too.
        length, gpu_length: tokens to compare, and to time on a GPU.
    Returns: the largest difference found, or None where the kernel can't run.
    """
    encoding = Encoding() if encoding is None else encoding
    missing = no_twin(encoding)
    if missing is None and find_spec("triton") is None:
        print("Triton is published for Linux only, and is not here: this step is left out.")
        return None
    cuda = torch.cuda.is_available()
    if missing is not None:
        print(f"No kernel for this: {missing}. What PyTorch does is set beside yours.")
    elif not cuda:
        os.environ["TRITON_INTERPRET"] = "1"  # read when a kernel is imported
    device = torch.device("cuda" if cuda else "cpu")
    encoding = encoding.to(device)
    posencs = _by(encoding, "triton" if missing is None else "auto", positions, causal)

    def inputs(batch, tokens, dtype):
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(3, batch, HEADS, tokens, HEAD_DIM, generator=generator)
        x = x if embed is None else torch.stack([embed(part) for part in x])
        tensors = [part.to(device, dtype) for part in x]
        if encoding.gates is not None:  # float32 in any case, as a block makes them
            size, activation = encoding.gates
            tensors.append(activation(torch.randn(batch, HEADS, tokens, *size, generator=generator)).to(device))
        return [part.requires_grad_() for part in tensors]

    tensors = inputs(1, length, torch.float32)
    results = []
    for function in (own, posencs):
        out = function(*tensors)
        results.append((out, *torch.autograd.grad(out.square().sum(), tensors)))
    where = torch.cuda.get_device_name() if cuda else "Triton's interpreter" if missing is None else "CPU"
    other = "the kernel" if missing is None else "posenc's"
    print(f"{where}, float32, {length} tokens. Largest difference between yours and {other}:")
    worst = 0.0
    names = ("output", "gradient of q", "gradient of k", "gradient of v", "gradient of gates")
    for name, mine, kernels in zip(names, *results):
        difference = float((mine - kernels).detach().abs().max())
        worst = max(worst, difference)
        print(f"  {name:17} {difference:.1e}  (numbers up to {float(kernels.detach().abs().max()):.1f})")
    if cuda:
        choices = {"yours": own, "reference": _by(encoding, "torch", positions, causal)}
        choices["kernel" if missing is None else "fastest"] = posencs
        _time(choices, inputs(4, gpu_length, torch.float16), where)
    elif missing is None:
        print("No GPU here, so nothing to time: the interpreter says that a kernel is right, not how fast it is.")
    return worst


def _by(encoding, impl, positions, causal):
    """`attention` as `own` is called: (q, k, v), and gates where the encoding reads them."""

    def by(q, k, v, gates=None):
        at = None if positions is None else positions(q.shape[2]).to(q.device)
        return attention(q, k, v, encoding, pos_q=at, gates=gates, causal=causal, impl=impl)

    return by


def _time(choices, inputs, where):
    from triton.testing import do_bench

    batch, heads, tokens, lanes = inputs[0].shape
    print(f"{where}, float16, batch {batch}, {heads} heads of {lanes}, {tokens:,} tokens. Median milliseconds:")
    for name, function in choices.items():
        forward = do_bench(lambda f=function: f(*inputs), quantiles=[0.5])
        both = do_bench(lambda f=function: torch.autograd.grad(f(*inputs).sum(), inputs), quantiles=[0.5])
        print(f"  {name:10} forward {forward:8.2f}   forward and backward {both:8.2f}")


def causal_softmax(q, k, v, bias=0.0):
    r"""Textbook attention, for a lab whose own part is only the bias: softmax(q.k / sqrt(D) + bias) v over the past."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]) + bias
    future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(future, float("-inf")).softmax(-1) @ v
