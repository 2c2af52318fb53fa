r"""Triton, imported here for all kernels, so that where it is missing one error says what brings it."""

try:
    import triton
    import triton.language as tl
except ModuleNotFoundError as error:
    words = "posenc.kernels needs Triton: on Linux, pip install 'posenc[kernels]'"
    raise ModuleNotFoundError(words, name="triton") from error

__all__ = ["tl", "triton"]
