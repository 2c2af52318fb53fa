r"""Which implementation serves a call, decided from what each declares: nothing is tried and caught."""

import torch
from torch.nn.functional import scaled_dot_product_attention

from .encoding import Encoding
from .errors import UnsupportedError, check_choice, check_int
from .inputs import check_encoding
from .kernels.served import why_not_here

IMPLS = ("auto", "torch", "sdpa", "triton")


def choose_impl(impl, encoding, return_weights=False, device=None, dtype=torch.float32, head_dim=64, positions=()):
    r"""Return (implementation, reason) for `impl` in `IMPLS`, from what each declares to serve; nothing is tried."""
    check_choice("impl", impl, IMPLS)
    device = torch.device("cpu") if device is None else device
    no_triton = why_not(encoding, return_weights, device, dtype, head_dim, positions)
    if impl == "triton":
        if no_triton is not None:
            raise UnsupportedError(f"impl='triton': {no_triton}; impl='torch' (or 'auto') computes it")
        return "triton", f"asked for: {kernels_of(encoding)}"
    if impl == "torch":
        return "torch", "asked for"
    if encoding.attend is not None:
        no_sdpa = "the encoding brings an attention of its own, which PyTorch's fused attention does not compute"
    elif encoding.weigh is not None or encoding.bias is not None:
        place = "bias" if encoding.weigh is None else "weigh"
        no_sdpa = f"the encoding acts at {place!r}, which PyTorch's fused attention does not serve in every dtype"
    elif return_weights:
        no_sdpa = "return_weights=True asks for weights that fused attention never holds"
    else:
        before = getattr(encoding.rotate, "no_kernel", None)
        reason = "asked for" if impl == "sdpa" else "PyTorch's fused attention serves a softmax without bias"
        return "sdpa", reason + (f"; before it, {before}" if before else "")
    if impl == "sdpa":
        raise UnsupportedError(f"impl='sdpa': {no_sdpa}; impl='torch' (or 'auto') computes it")
    no_triton = no_triton or why_slower(device)
    if no_triton is None:
        return "triton", f"{no_sdpa}; in memory linear in the length, {kernels_of(encoding)}"
    elsewhere = "" if no_twin(encoding) else f" (elsewhere {kernels_of(encoding)})"
    return "torch", f"{no_sdpa}, and for Triton {no_triton}{elsewhere}"


def explain_impl(encoding=None, impl="auto", *, device=None, dtype=torch.float32, head_dim=64):
    r"""Print and return which implementation `attention` would take for this encoding, and why.

    Arguments:
        encoding, impl: as in `attention`.
        device: a torch.device or its name; default "cuda" where there is one, else "cpu".
        dtype, head_dim: of q, k and v.
    Errors: TypeError or ValueError naming the argument; UnsupportedError where `attention` would raise it.
    """
    encoding = Encoding() if encoding is None else encoding
    check_encoding(encoding)
    if not isinstance(device, torch.device | str | None):
        raise TypeError(f"device={device!r} must be a torch.device, its name or None, got {type(device).__name__}")
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"dtype={dtype!r} must be a torch.dtype such as torch.float32")
    check_int("head_dim", head_dim)
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    choice, reason = choose_impl(impl, encoding, device=device, dtype=dtype, head_dim=head_dim)
    line = f"impl={choice!r}: {reason}"
    print(line)
    return line


def why_not(encoding, return_weights, device, dtype, head_dim, positions=()):
    """Why the kernels don't compute attention with this encoding on this device; None where they do."""
    if any(p.requires_grad for p in positions):
        return "the positions ask for a gradient, which the kernels don't give"
    if return_weights:
        return "return_weights=True asks for weights that a kernel never holds"
    return no_twin(encoding) or why_not_here(device, dtype, head_dim)


def no_twin(encoding):
    """Why no kernel computes attention with this encoding, on whatever device; None where kernels do."""
    for place in ("attend", "rotate", "bias", "weigh"):
        function = getattr(encoding, place)
        if function is not None and not hasattr(function, "kernel"):
            reason = getattr(function, "no_kernel", None)
            return f"the encoding's {place!r} has no kernel" + (f": {reason}" if reason else "")
    if encoding.weigh is not None and getattr(encoding.bias, "kernel", None) == "cope":
        return "CoPE's kernel makes a softmax, the encoding has another choice at 'weigh'"
    if encoding.weigh is not None and encoding.bias is not None and encoding.weigh.kernel != "stickbreaking":
        return "the softmax kernel takes one variant, the encoding has one at 'bias' and one at 'weigh'"
    if encoding.weigh is not None and getattr(encoding.bias, "kernel", None) == "table":
        return "the stick-breaking kernel reads no table of biases; the softmax kernel does"
    return None


def kernels_of(encoding):
    """What the kernels do for this encoding, in words."""
    turn = "" if encoding.rotate is None else f"the rotary kernel {encoding.rotate.kernel_does}, "
    if getattr(encoding.bias, "kernel", None) == "cope":
        return f"{turn}CoPE's own kernel counts gates along the keys"
    stick = getattr(encoding.weigh, "kernel", None) == "stickbreaking"
    variant = getattr(encoding.bias if stick or encoding.weigh is None else encoding.weigh, "kernel", "plain")
    return f"{turn}the {'stick-breaking' if stick else 'softmax'} kernel takes the variant {variant!r}"


def why_slower(device):
    """Why impl="auto" leaves a device to PyTorch that the kernels would serve; None where it doesn't."""
    if device.type != "cuda":
        return "Triton's interpreter is for testing: it is slower than PyTorch"
    major, minor = torch.cuda.get_device_capability(device)
    if major < 8:
        return f"compute capability {major}.{minor} gets no tensor-core instructions, which PyTorch's products use"
    return None


def fused_softmax(q, k, v, at, scale, plain):
    """The softmax of q.k by PyTorch's fused function, which never holds the weights [B, H, Tq, Tk]."""
    if plain and q.shape[2] == k.shape[2]:
        return scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
    output = scaled_dot_product_attention(q, k, v, attn_mask=at.visible, scale=scale)
    return output.masked_fill(~at.visible.any(-1, keepdim=True), 0.0)  # a query that sees nothing
