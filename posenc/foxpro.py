r"""The Pro block of the forgetting transformer: `SelfAttention` with four parts that can be switched off."""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import pad

from .bias.fox import fox
from .encoding import Encoding
from .errors import check_bool
from .inputs import accumulation_dtype
from .layer import SelfAttention


class HeadNorm(nn.Module):
    r"""RMSNorm of each head by itself: x [B, H, T, D] -> x / sqrt(mean of x^2 over D + eps) * weight [H, D]."""

    def __init__(self, num_heads, head_dim, eps):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.empty(num_heads, head_dim))
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.ones_(self.weight)

    def forward(self, x):
        y = x.to(accumulation_dtype(x))
        y = y * (y.square().mean(-1, keepdim=True) + self.eps).rsqrt()
        return (y * self.weight[:, None, :]).to(x.dtype)


class FoxPro(SelfAttention):
    r"""`SelfAttention` with K/V shift, QK-norm, an output norm and an output gate, each with a switch.

    k~_t = W_k x_t,  a_t = sigmoid(w_k.x_t),  k_t = a_t k~_(t-1) + (1 - a_t) k~_t     kv_shift, for v with its own w_v
    q_t <- RMSNorm(q_t),  k_t <- RMSNorm(k_t)                                         qk_norm, after the shift
    o_t = sum over j of softmax_j(q_t.k_j / sqrt(D) + D_tj) v_j                       attention, with FoX's decay D
    o_t <- RMSNorm(o_t)                                                               output_norm
    o_t <- sigmoid(W_g x_t) * o_t                                                     output_gate, lane by lane
    y_t = W_o o_t                                                                     of all heads side by side
    A norm runs over the D lanes of a head and scales them by D weights of that head, which start at 1. There is one
    number a_t for each head of keys; W_g has a row for each lane of each head. None of these maps has a bias.

    Arguments:
        dim, num_heads: C and H, see `SelfAttention`, as for the options not named here.
        encoding: default `fox()`. Any other is welcome: RoPE makes the paper's Transformer (Pro) of this block.
        kv_shift, qk_norm, output_norm, output_gate: False leaves the part out. Without all four this is
            `SelfAttention`. From one seed both start with the same weights, whatever the switches, and leave the same
            random numbers to what is made after them.
    The cache keeps keys and values as they are after shift and norm, and of the last token those before the shift:
    decoding gives what the full pass gives, token by token and in chunks.

    Convention: the token before is the last one before it that is not padding, zero where there is none. It is zero
    also where `mask` hides it: a token takes nothing over from one that it may not see, so rows of a packed mask equal
    the sequences alone. A key carries something of the token before it, so a window of n keys reaches n + 1 tokens.
    Where the sources differ: the authors' code (zhixuan-lin/forgetting-transformer, 883f260) is followed, with eps
    1e-5 in QK-norm and 1e-6 in the output norm. It zeroes what is padded before the shift, which comes to the same for
    padding on the left, the only one it supports. It shifts across a border of chunks for chunks of one token alone,
    refuses grouped queries, and starts its linear maps from a normal distribution with deviation 0.02, where PyTorch's
    own start stands here. Its change log says that the paper's models shared the D weights of QK-norm among the heads.
    fla's layer (fla-org/flash-linear-attention, bc3b101) has the output gate and QK-norm alone; grouped queries there
    norm the heads of keys by themselves, as here.
    Paper: arXiv 2503.02130, the Pro block. Chapter: FoX: a door that closes.
    """

    def __init__(
        self, dim: int, num_heads: int, encoding: Encoding | None = None, *, kv_shift: bool = True,
        qk_norm: bool = True, output_norm: bool = True, output_gate: bool = True, **options: Any,
    ) -> None:  # fmt: skip
        switches = {"kv_shift": kv_shift, "qk_norm": qk_norm, "output_norm": output_norm, "output_gate": output_gate}
        for name, value in switches.items():
            check_bool(name, value)
        super().__init__(dim, num_heads, fox() if encoding is None else encoding, **options)
        width = num_heads * self.head_dim
        with torch.random.fork_rng(devices=[]):  # all are drawn, kept or not: a switch changes no other weight
            _, seed = torch.randint(2**62, (2,), device="cpu").tolist()  # the first is the forget gates'
            torch.default_generator.manual_seed(seed)
            shifts = [nn.Linear(dim, self.num_kv_heads, bias=False) for _ in "kv"]
            gate = nn.Linear(dim, width, bias=False)
        self.to_shift_k, self.to_shift_v = shifts if kv_shift else (None, None)
        self.norm_q = HeadNorm(num_heads, self.head_dim, 1e-5) if qk_norm else None
        self.norm_k = HeadNorm(self.num_kv_heads, self.head_dim, 1e-5) if qk_norm else None
        self.norm_out = HeadNorm(num_heads, self.head_dim, 1e-6) if output_norm else None
        self.to_output_gate = gate if output_gate else None

    def before_attention(self, x, q, k, v, mask, valid, cache):
        r"""q, k and v after shift and norm."""
        if self.to_shift_k is not None:
            k, v = self.shift(x, k, v, mask, valid, cache)
        if self.norm_q is not None:
            q, k = self.norm_q(q), self.norm_k(k)
        return q, k, v

    def after_attention(self, x, out):
        r"""The output after norm and gate."""
        if self.norm_out is not None:
            out = self.norm_out(out)
        if self.to_output_gate is not None:
            out = out * self.to_output_gate(x).sigmoid().unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        return out

    def shift(self, x, k, v, mask, valid, cache):
        r"""k, v [B, Hkv, T, D] mixed with those of the token before; the cache is left the last token's, unmixed."""
        batch, _, length, _ = k.shape
        if valid is None:
            valid = torch.ones(batch, length, dtype=torch.bool, device=x.device)
        if cache is not None and len(cache):
            past = valid.new_ones(batch, len(cache)) if cache.valid is None else cache.valid
            valid = torch.cat((past, valid), dim=1)  # [B, Tk], all tokens up to now
        start = valid.shape[1] - length
        index = torch.arange(valid.shape[1], device=x.device)
        index = pad(index.where(valid, -1).cummax(1).values, (1, 0), value=-1)  # [B, 1 + Tk], the last token before t
        before = index[:, start:-1]  # [B, T], -1 where there is none
        seen = before >= 0
        if mask is not None:
            mask = mask.expand(batch, 1, length, valid.shape[1])[:, 0]
            seen = seen & mask.gather(2, before.clamp(min=0)[:, :, None])[:, :, 0]
        none = k.new_zeros(batch, k.shape[1], 1, k.shape[3])
        last = (none, none) if cache is None or cache.last is None else cache.last
        source = torch.cat((before, index[:, -1:]), dim=1) - start + 1  # [B, T + 1], 0 for one in the cache or none
        source = source.clamp(min=0)[:, None, :, None]
        mixed, kept = [], []
        for y, last_y, to_shift in zip((k, v), last, (self.to_shift_k, self.to_shift_v)):
            y = torch.cat((last_y, y), dim=2)  # [B, Hkv, 1 + T, D]
            earlier = y.gather(2, source.expand(*y.shape))
            kept.append(earlier[:, :, -1:])
            share = to_shift(x).to(accumulation_dtype(x)).sigmoid().transpose(1, 2)[..., None]  # [B, Hkv, T, 1]
            earlier = earlier[:, :, :-1].where(seen[:, None, :, None], 0.0)
            mixed.append((share * earlier + (1 - share) * y[:, :, 1:]).to(y.dtype))
        if cache is not None:
            cache.last = tuple(kept)
        return mixed
