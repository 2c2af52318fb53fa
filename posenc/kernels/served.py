r"""Which devices, dtypes and head sizes the kernels serve. Importing this imports no Triton."""

import os
from importlib.util import find_spec

import torch

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
MAX_HEAD_DIM = 128
# Asked once: it takes as long as a small attention, and torch 2.7's compiler can't trace the question, cached or not.
INSTALLED = find_spec("triton") is not None


def why_not_here(device, dtype, head_dim):
    """Why the kernels don't serve this device, dtype and head size; None where they do."""
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if device.type != "cuda" and not (device.type == "cpu" and interpreted):
        return (
            f"the tensors are on {device.type!r}; served are CUDA devices, and the CPU through Triton's interpreter "
            f"(TRITON_INTERPRET=1)"
        )
    if not INSTALLED:
        return "the package triton is not installed: on Linux, pip install 'posenc[kernels]'"
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
