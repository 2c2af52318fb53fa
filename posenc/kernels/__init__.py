r"""Triton twins of the references: rotary, softmax and stick-breaking attention, forward and backward.

Importing this package imports no Triton; its modules do, when the first kernel is asked for. What is served is declared
here, in `why_not`, and nowhere tried and caught.
"""

import os
from importlib.util import find_spec

import torch

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
MAX_HEAD_DIM = 128


def why_not_here(device, dtype, head_dim):
    """Why the kernels don't serve this device, dtype and head size; None where they do."""
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if find_spec("triton") is None:
        return "the package triton is not installed (it is published for Linux only)"
    if device.type != "cuda" and not (device.type == "cpu" and interpreted):
        return (
            f"the tensors are on {device.type!r}; served are CUDA devices, and the CPU through Triton's interpreter "
            f"(TRITON_INTERPRET=1)"
        )
    if dtype not in DTYPES:
        return f"the dtype is {dtype}; served are float32, float16 and bfloat16"
    if dtype == torch.bfloat16 and interpreted:
        return "Triton's interpreter multiplies bfloat16 wrongly; it serves float32 and float16"
    if device.type == "cuda" and not interpreted:
        major, minor = torch.cuda.get_device_capability(device)
        if (major, minor) < (7, 5):
            return f"the GPU has compute capability {major}.{minor}; served are 7.5 and above"
        if dtype == torch.bfloat16 and major < 8:
            return f"bfloat16 needs compute capability 8.0, the GPU has {major}.{minor}; it serves float16 and float32"
    if not 1 <= head_dim <= MAX_HEAD_DIM:
        return f"the head size is {head_dim}; served are 1 to {MAX_HEAD_DIM} (below 16 padded to 16)"
    return None


def why_not(encoding, return_weights, device, dtype, head_dim, positions=()):
    """Why the kernels don't compute attention with this encoding on this device; None where they do."""
    if any(p.requires_grad for p in positions):
        return "the positions ask for a gradient, which the kernels don't give"
    if return_weights:
        return "return_weights=True asks for weights that a kernel never holds"
    for place in ("rotate", "bias", "weigh"):
        function = getattr(encoding, place)
        if function is not None and not hasattr(function, "kernel"):
            return f"the encoding's {place!r} has no kernel"
    if encoding.weigh is not None and encoding.bias is not None and encoding.weigh.kernel != "stickbreaking":
        return "the softmax kernel takes one variant, the encoding has one at 'bias' and one at 'weigh'"
    if encoding.weigh is not None and getattr(encoding.bias, "kernel", None) == "table":
        return "the stick-breaking kernel reads no table of biases; the softmax kernel does"
    if encoding.rotate is not None and encoding.rotate.inv_freq.requires_grad:
        return "the frequencies ask for a gradient, which the rotary kernel does not give"
    return why_not_here(device, dtype, head_dim)


def why_slower(device):
    """Why impl="auto" leaves a device to PyTorch that the kernels would serve; None where it doesn't."""
    if device.type != "cuda":
        return "Triton's interpreter is for testing: it is slower than PyTorch"
    major, minor = torch.cuda.get_device_capability(device)
    if major < 8:
        return f"compute capability {major}.{minor} gets no tensor-core instructions, which PyTorch's products use"
    return None


def attend(q, k, v, encoding, pos_q, pos_k, causal, mask, scale):
    """`posenc.attention` by the kernels, for checked arguments: q and k are turned, then softmax or stick-breaking."""
    from ..encoding import At
    from . import rotary, softmax, stickbreaking

    if encoding.rotate is not None:
        turn = encoding.rotate
        if turn.kernel == "torch":  # ExpoSB: a product beside the turn, with numbers of each query head
            groups = q.shape[1] // k.shape[1]
            k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
            q, k = turn(q, k, At(pos_q, pos_k, None))
        else:
            q, k = rotary.rotate(q, k, pos_q, pos_k, turn.inv_freq, turn.layout, turn.attention_factor)
    options = dict(pos_q=pos_q, pos_k=pos_k, causal=causal, mask=mask, scale=scale)
    weigh = encoding.weigh
    stick = weigh is not None and weigh.kernel == "stickbreaking"
    variant = encoding.bias if stick or weigh is None else weigh  # what scores get, at whichever place it stands
    if variant is not None:
        options |= dict(variant=variant.kernel, **variant.kernel_inputs(q))
    if not stick:
        return softmax.attend(q, k, v, **options)

    options |= dict(order=weigh.order, attend_current=weigh.attend_current)
    out, remainder = stickbreaking.attend(q, k, v, **options)
    if weigh.remainder == "current" and k.shape[2]:  # what is left of the stick goes to the query's own value
        queries, keys = q.shape[2], k.shape[2]
        index = torch.arange(queries, device=q.device)
        own = index + keys - queries  # a negative one has no key
        own_seen = own >= 0
        own = own.clamp(min=0)
        if mask is not None:
            own_seen = own_seen & mask.expand(-1, 1, queries, keys)[:, :, index, own]
        values = v.index_select(2, own).repeat_interleave(q.shape[1] // v.shape[1], dim=1)
        out = (out + (remainder * own_seen)[..., None] * values).to(v.dtype)
    return out
