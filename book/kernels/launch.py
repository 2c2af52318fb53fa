r"""Launch a student's kernel where whatever it reads or writes beside its tensors shows.

Every input lies in a larger memory full of NaN and every output is full of another NaN, so that what is read outside,
written outside or never written is seen. In Triton's interpreter each address is looked at as well.
"""

import os
import sys
import traceback

import torch
from torch import Tensor
from torch.nn.functional import pad

from posenc.lab.check.exercise import Problem
from posenc.lab.check.judging import argument_names

NO_TRITON = "there is no Triton on this system, it comes for Linux only: open this lab in Colab to run kernels"


class _WithoutTriton:
    """Stands in for `triton` and `triton.language` where they cannot be installed: kernels are defined, not run."""

    constexpr = None

    def jit(self, kernel):
        return self

    __getitem__ = jit  # by its grid

    def __call__(self, *arguments, **options):
        raise RuntimeError(NO_TRITON)

    cdiv = next_power_of_2 = __call__


without_triton = _WithoutTriton()

MARGIN = 64  # elements on each side of a tensor's last two axes; as long as the longest block of the cases
_NEVER = {torch.float32: (torch.int32, 0x7FC0BEEF), torch.float16: (torch.int16, 0x7EEF)}  # a NaN of our own


def _place(x):
    """A copy of x amid a larger memory full of NaN, its axes in the order in which x has them."""
    order = sorted(range(x.ndim), key=lambda axis: -x.stride(axis))
    margins = [MARGIN if place >= x.ndim - 2 else 1 for place in range(x.ndim)]
    around = [margin for margin in reversed(margins) for _ in ("before", "behind")]
    memory = pad(x.permute(order), around, value=float("nan") if x.is_floating_point() else 10**6).to(_device())
    inner = memory[tuple(slice(margin, -margin) for margin in margins)]
    return inner.permute([order.index(axis) for axis in range(x.ndim)])


def _memory(x):
    """All numbers of the memory that x lies in, in a row."""
    return torch.empty(0, dtype=x.dtype, device=x.device).set_(x.untyped_storage())


def _bits(x):
    return x.view(_NEVER[x.dtype][0]) if x.dtype in _NEVER else x


def _own(x):
    """Which numbers of the memory are x's own."""
    own = torch.zeros_like(_memory(x), dtype=torch.bool)
    own.as_strided(x.shape, x.stride(), x.storage_offset()).fill_(True)
    return own


def _outside(out):
    """How many numbers around an output were written."""
    return int(((_bits(_memory(out)) != _NEVER[out.dtype][1]) & ~_own(out)).sum())


def _device():
    return "cuda" if torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1" else "cpu"


def launch(*outputs):
    """An `Exercise.run`: outputs are functions from the case's first tensor to one like an output of the launcher."""

    def run(launcher, *case):
        outs = [_place(output(case[0])) for output in outputs]
        for out in outs:
            _bits(_memory(out)).fill_(_NEVER[out.dtype][1])
        arguments = [_place(x) if isinstance(x, Tensor) else x for x in case] + outs
        names = argument_names(launcher, len(arguments))
        named = {name: x for name, x in zip(names, arguments) if isinstance(x, Tensor)}
        before = {name: _bits(_memory(x)).clone() for name, x in named.items()}
        with _Watch(named) as watch:
            try:
                with torch.device(_device()):
                    launcher(*arguments)
                if outs[0].is_cuda:
                    torch.cuda.synchronize()
            except Exception as error:
                _explain(error)
        words = watch.seen or _trouble(named, before, names[-len(outs) :])
        # What was written outside belongs to the mistake, so then all of the memory is compared.
        values = tuple((_memory(out) if _outside(out) else out.clone()).cpu() for out in outs)
        if words:
            raise Problem(words, values)
        return values

    return run


def _trouble(named, before, outputs):
    """What a launch has done to memory that it should not have, in words, or None."""
    for name, old in before.items():
        if name not in outputs and not torch.equal(_bits(_memory(named[name])), old):
            return f"it writes into its input {name}; only the outputs are yours to write."
    for name in outputs:
        out = named[name]
        if many := _outside(out):
            asked = "Has tl.store its mask, and do offsets use the strides?"
            return f"it writes outside of {name}, in {many} places. {asked}"
        missing = (_bits(out.contiguous()) == _NEVER[out.dtype][1]).nonzero()
        if len(missing):
            many = f"{len(missing)} of {out.numel()} numbers are missing"
            return f"{name}{missing[0].tolist()} is never written; {many}. Has each program a part of its own?"
        lost = out.isnan().nonzero()
        if len(lost):
            asked = "has each tl.load its mask? Or are infinities subtracted?"
            return f"{name}{lost[0].tolist()} is NaN. What lies outside of the inputs is NaN here: {asked}"
    return None


class _Watch:
    """While open, looks at each address that Triton's interpreter loads from or stores to.

    `seen` says the first access outside of the launcher's tensors. One that leaves their memory altogether is stopped:
    it could end Python. Without the interpreter, or with one that is built otherwise, nothing is watched.
    """

    def __init__(self, named):
        self.seen, self.real = None, None
        self.tensors = {
            name: (x.untyped_storage().data_ptr(), x.element_size(), _own(x).cpu().numpy())
            for name, x in named.items()
            if not x.is_cuda
        }
        self.module = sys.modules.get("triton.runtime.interpreter")

    def __enter__(self):
        if _device() == "cpu" and hasattr(self.module, "_interpreter"):
            self.real, self.module._interpreter = self.module._interpreter, self
        return self

    def __exit__(self, *_):
        if self.real is not None:
            self.module._interpreter = self.real

    def __getattr__(self, name):
        return getattr(self.real, name)

    def load(self, pointers, mask, *rest):
        self.look("reads", pointers[mask])
        return self.real.load(pointers, mask, *rest)

    def store(self, pointers, value, mask):
        self.look("writes", pointers[mask])
        return self.real.store(pointers, value, mask)

    def look(self, does, pointers):
        pointers = pointers.astype("int64")
        reached = pointers < 0
        for name, (start, size, own) in self.tensors.items():
            index = (pointers - start) // size
            here = (index >= 0) & (index < len(own))
            reached |= here
            outside = here & ~own[index.clip(0, len(own) - 1)]
            if outside.any() and self.seen is None:
                self.seen = f"{_source_line()}{does} outside of {name}, in {int(outside.sum())} places. {_ADVICE}"
        if not reached.all():
            raise Problem(f"{_source_line()}{does} far outside of all tensors. {_ADVICE}")


_ADVICE = "Is there a mask, does it cover this block's tail, and do the offsets use the strides?"


def _source_line(error=None):
    """The kernel's line that runs now, or that raised `error`, in quotes."""
    frames = traceback.extract_stack() if error is None else traceback.extract_tb(error.__traceback__)
    folder = os.path.dirname(sys.modules["triton"].__file__)
    outer = [f.line for f in frames if f.line and not f.filename.startswith(folder) and f.filename != __file__]
    return f"`{outer[-1 if error is None else 0]}` " if outer else "it "


def _explain(error):
    """Raise what a launch raised again, in words: Triton wraps the errors of a kernel in its own."""
    chain = [error]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    last = chain[-1]
    source, node = getattr(last, "src", None), getattr(last, "node", None)
    line = source.splitlines()[node.lineno - 1].strip() if source and hasattr(node, "lineno") else ""
    for inner in chain:
        if isinstance(inner, Problem):
            raise inner
        if "NotImplementedError" in line or isinstance(inner, NotImplementedError) and not inner.args:
            raise NotImplementedError from error
    if line:  # the compiler's, on a GPU
        raise Problem(f"`{line}` does not compile: {last.error_message or type(last).__name__}") from error
    if len(chain) > 1:
        words = (str(last).strip().splitlines() or [""])[0][:160]
        raise Problem(f"{_source_line(last)}raises {type(last).__name__}: {words}") from error
    raise error
