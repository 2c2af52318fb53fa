r"""Numbers that a method fixes when it is made: exact in one place, and at hand wherever the model is."""

import torch
from torch import nn

from .inputs import accumulation_dtype, angle_dtype


class FixedNumbers(nn.Module):
    r"""A base for places that hold numbers nobody trains: RoPE's frequencies, ALiBi's slopes.

    Each number stays an attribute of its name on the CPU, as it was given: it is no parameter and no buffer, so that
    `half` does not round it, `to_empty` does not empty it and no checkpoint holds it. A place reads `here(name, x)`, a
    copy where x is, in the dtype of logits, or `exact(name, x)`, in that of angles. Copies are made when the model
    moves (`to`, `cuda`, `to_empty`), else by the first call, and no later call moves one between devices. Numbers must
    be made with `device="cpu"`: then a model may be built under `torch.device("meta")`, as Hugging Face's
    `from_pretrained` does.
    """

    def __init__(self):
        super().__init__()
        self.names, self.copies = [], {}  # copies: {(name, device, dtype): (number, its version, its copy)}

    def fix(self, **numbers):
        r"""Hold numbers, tensors by name. An `nn.Parameter` becomes one of this module: `here` casts it.

        Errors: ValueError for a number without values, made under `torch.device("meta")`.
        """
        for name, value in numbers.items():
            if not isinstance(value, nn.Parameter):
                if value.is_meta:
                    raise ValueError(f"{name} is on the device 'meta' and has no values: make it with device='cpu'")
                self.names.append(name)
                value = value.cpu().contiguous()
            setattr(self, name, value)

    def here(self, name, x):
        """The numbers called `name` where x is: on its device, in float32 (float64 where x is float64)."""
        return self.copy_at(name, x.device, accumulation_dtype(x))

    def exact(self, name, x):
        """The numbers called `name` where x is, as angles need them: in float64, see `angle_dtype`."""
        return self.copy_at(name, x.device, angle_dtype(x))

    def copy_at(self, name, device, dtype):
        exact = getattr(self, name)
        if name not in self.names or exact.requires_grad or (exact.device, exact.dtype) == (device, dtype):
            return exact.to(device, dtype)
        held, version, copy = self.copies.get((name, device, dtype), (None, None, None))
        if held is not exact or version != version_of(exact):  # none yet, or of numbers that have changed
            if torch.compiler.is_compiling():  # a graph may not keep anything
                return exact.to(device, dtype)
            with torch.inference_mode(False):  # what is made within could not be trained with later
                copy = exact.to(device, dtype)
            if type(copy) is type(exact) and not torch._C._functorch.is_functorch_wrapped_tensor(copy):
                self.copies[name, device, dtype] = exact, version_of(exact), copy  # else a trace's, that ends with it
        return copy

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        moved = fn(torch.empty(0, device="cpu", dtype=torch.float32))  # says where the model goes
        dtypes = {dtype for _, _, dtype in self.copies} | {accumulation_dtype(moved), angle_dtype(moved)}
        self.copies.clear()
        for dtype in dtypes - ({torch.float64} if moved.device.type == "mps" else set()):  # which has none
            for name in self.names:
                self.copy_at(name, moved.device, dtype)
        return self

    def __getstate__(self):
        return self.__dict__ | {"copies": {}}  # a file or a copy of the model makes its own


def version_of(tensor):
    """How often a tensor was written to; None where that is not counted or, in a graph, not asked."""
    return None if torch.compiler.is_compiling() or tensor.is_inference() else tensor._version
