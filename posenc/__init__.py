r"""Positional encodings for transformers: readable references behind one attention function.

posenc.attention assembles an encoding from five places (embed, rotate, bias, weigh, gather); start reading there. Wrong
arguments raise TypeError or ValueError naming the argument, its value and what would be right.
"""

from . import audit, bridges, configs
from .attention import attention
from .bias import alibi, cope, fire, fox, inkling, kerple, shaw, t5, transformer_xl
from .embed import learned, sinusoidal
from .encoding import At, Encoding, compose, softmax
from .errors import UnsupportedError
from .foxpro import FoxPro
from .impls import explain_impl
from .layer import KVCache, SelfAttention, embed_input
from .methods import METHODS, make
from .rotate import comrope, liere, mrope, rope, rope2d, scaling
from .several import exposb, path, rse
from .weigh import sink, stickbreaking

__version__ = "0.1.0"

__all__ = [
    "METHODS", "At", "Encoding", "FoxPro", "KVCache", "SelfAttention", "UnsupportedError", "alibi", "attention",
    "audit", "bridges", "compose", "comrope", "configs", "cope", "embed_input", "explain_impl", "exposb", "fire", "fox",
    "inkling", "kerple", "learned", "liere", "make", "mrope", "path", "rope", "rope2d", "rse", "scaling", "shaw",
    "sink", "sinusoidal", "softmax", "stickbreaking", "t5", "transformer_xl",
]  # fmt: skip
