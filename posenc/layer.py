r"""The block for your own model: projections, grouped queries, an encoding and a cache."""

import math

import torch
from torch import Tensor, nn

from .attention import attention
from .encoding import Encoding
from .errors import check_bool, check_choice, check_device, check_int, check_number, check_tensor, readable, shown
from .impls import IMPLS
from .inputs import accumulation_dtype, batched_mask, check_encoding, check_sizes
from .positions import batched_positions


class KVCache:
    r"""Keys, values, positions, padding and gates of the tokens of one layer, for decoding step by step.

    k, v: [B, Hkv, T, D] and [B, Hkv, T, Dv]; positions: [B, T] or [B, T, n]; valid: [B, T], False at padding, None as
    long as nobody spoke of padding; gates: [B, H, T] where the encoding reads them. All None while it is empty. Read
    them, and change them by `append`, `crop` and `reorder`.
    Keys are held turned where the encoding's `rotate` says `turns_alone`: a key's turn depends on its own position
    alone, as RoPE's does. Else they are held as they are before `rotate`, so that a scheme whose angles depend on the
    length can turn them anew.
    Without gradients a step writes its own tokens alone, into room that doubles when it is full.
    """

    AXES = {"k": 2, "v": 2, "positions": 1, "valid": 1, "gates": 2}  # the axis of each that counts tokens

    def __init__(self) -> None:
        self.k = self.v = self.positions = self.valid = self.gates = None
        self.last = None  # what `FoxPro` keeps: k and v of the last token, [B, Hkv, 1, D] each, before its shift
        self.rooms = {}  # each of the five is a view of the first tokens of its room
        self.dropped = 0  # tokens that `crop` has cut in front

    def __len__(self):
        return 0 if self.k is None else self.k.shape[2]

    def __copy__(self):
        other = KVCache()
        self.rooms = {}  # two caches that go on from here may not write into one room
        other.__dict__.update(self.__dict__, rooms={})
        return other

    @property
    def seen(self):
        """How many tokens there have been, those too that `crop` has cut in front: where the next one stands."""
        return self.dropped + len(self)

    def check_fits(self, batch, heads, head_dim, device):
        """Raise ValueError unless keys of this batch, heads, size and device can follow those held."""
        new, held = (batch, heads, head_dim, device), None
        if self.k is not None:
            held = (*self.k.shape[:2], self.k.shape[3], self.k.device)
        if held not in (None, new):
            words = "a batch of {} with {} heads of {} lanes on {}"
            raise ValueError(
                f"cache holds keys of {words.format(*held)} and can't take those of {words.format(*new)}: give each "
                f"layer and each batch a KVCache of its own"
            )

    def append(
        self, k: Tensor, v: Tensor, positions: Tensor, valid: Tensor | None = None, gates: Tensor | None = None
    ) -> tuple:
        r"""Add k, v [B, Hkv, T, D], positions [B, T] or [B, T, n], and valid [B, T] and gates [B, H, T] where there are
        any; return all five as held now. Errors: ValueError where k is of another batch, head count or device."""
        past = len(self)
        self.check_fits(*k.shape[:2], k.shape[3], k.device)
        if valid is None and self.valid is not None:
            valid = self.valid.new_ones(k.shape[0], k.shape[2])
        elif valid is not None and self.valid is None and past:
            self.valid = valid.new_ones(k.shape[0], past)
        new = {"k": k, "v": v, "positions": positions, "valid": valid, "gates": gates}
        for name, x in new.items():
            setattr(self, name, None if x is None else self.extended(name, x))
        return self.k, self.v, self.positions, self.valid, self.gates

    def extended(self, name, new):
        """What is held of `name` and behind it `new`, in its room where that has place."""
        old, axis, room = getattr(self, name), KVCache.AXES[name], self.rooms.get(name)
        if old is None:
            return new.clone() if name in ("positions", "valid") else new  # whose owner may go on counting in them
        past, more = old.shape[axis], new.shape[axis]
        if torch.is_grad_enabled() or torch.compiler.is_compiling() or old.dtype != new.dtype:  # fractions after wholes
            self.rooms.pop(name, None)
            return torch.cat((old, new), dim=axis)
        if room is None or past + more > room.shape[axis] or room.is_inference() != torch.is_inference_mode_enabled():
            room = torch.cat((old, new, torch.empty_like(old), torch.empty_like(new)), dim=axis)
            self.rooms[name] = room
        else:
            room.narrow(axis, past, more).copy_(new)
        return room.narrow(axis, 0, past + more)

    def crop(self, *, start: int = 0, stop: int | None = None) -> None:
        r"""Keep tokens start to stop, counted as a slice counts: stop=-1 forgets the last one, start=-W keeps W.

        Positions stay as they are, and by default the next token goes on counting from those it comes after. Errors:
        ValueError where `FoxPro`, whose shift reads it, would lose the last token.
        """
        kept = range(len(self))[start:stop]
        if self.last is not None and len(self) - 1 not in kept:
            raise ValueError(f"stop={stop}: FoxPro's shift reads the token before, so the last one must be kept")
        self.dropped += kept.start
        self.change(lambda x, axis: x.narrow(axis, kept.start, len(kept)))

    def reorder(self, rows: Tensor) -> None:
        r"""Take `rows` [B'] of the batch: which row each new row goes on from, as in a beam search."""
        check_tensor("rows", rows, "[B'] of integers", ndim=1)
        batch = 0 if self.k is None else self.k.shape[0]
        if rows.is_floating_point() or (readable(rows) and not ((0 <= rows) & (rows < batch)).all()):
            raise ValueError(f"rows={shown(rows.tolist())} must be integers from 0 to {batch - 1}, rows of the batch")
        self.change(lambda x, axis: x.index_select(0, rows))
        self.last = None if self.last is None else tuple(x.index_select(0, rows) for x in self.last)

    def change(self, function):
        """Put function(x, its axis of tokens) in the place of each of the five, and give up their rooms."""
        self.rooms = {}
        for name, axis in KVCache.AXES.items():
            if (x := getattr(self, name)) is not None:
                setattr(self, name, function(x, axis))


class ToGates(nn.Linear):
    """The linear map that gates are made by: its bias starts at 0."""

    def reset_parameters(self):
        super().reset_parameters()
        nn.init.zeros_(self.bias)


class SelfAttention(nn.Module):
    r"""Multi-head self-attention with an encoding, grouped queries and a cache: the block for your own model.

    Arguments:
        dim: C, the width of the model.
        num_heads: H; `head_dim` defaults to C / H.
        encoding: an `Encoding` of its own or shared with other layers; None is NoPE.
        num_kv_heads: heads of k and v, a divisor of H; default H.
        causal, scale, impl: see `attention`.
        bias: True gives the four linear maps one.
        qk_norm: True divides each query and key by the root mean square of its D lanes and multiplies it by learned
            weights [D], before it turns (arXiv 2302.05442, with RMS norm as Qwen3 does).
    An encoding with `embed_at="input"` embeds in the model, before the first layer, and is refused here: see
    `embed_input`. So is one that is made for another number of heads, or another head_dim. For one that reads gates
    the block makes them from its input, one linear map a head and the encoding's activation: for FoX log f =
    logsigmoid(x W_f + b_f), in float32. The bias starts at 0, where f is near 1/2; padding closes no gate.
    Chapter: Four places.
    """

    def __init__(
        self, dim: int, num_heads: int, encoding: Encoding | None = None, *, num_kv_heads: int | None = None,
        head_dim: int | None = None, causal: bool = True, scale: float | None = None, bias: bool = False,
        qk_norm: bool = False, impl: str = "auto",
    ) -> None:  # fmt: skip
        super().__init__()
        dim = check_int("dim", dim)
        num_heads = check_int("num_heads", num_heads)
        if head_dim is None and dim % num_heads:
            raise ValueError(f"num_heads={num_heads} must divide dim={dim}, or give head_dim")
        head_dim = check_int("head_dim", dim // num_heads if head_dim is None else head_dim)
        num_kv_heads = check_int("num_kv_heads", num_heads if num_kv_heads is None else num_kv_heads)
        if num_heads % num_kv_heads:
            raise ValueError(f"num_kv_heads={num_kv_heads} must divide num_heads={num_heads}")
        if encoding is not None:
            check_encoding(encoding)
            check_sizes(encoding, dim=dim, num_heads=num_heads, head_dim=head_dim)
            if encoding.embed is not None and encoding.embed_at == "input":
                raise ValueError(
                    f"encoding, with places={encoding.places}, adds to the embeddings, which no layer does: give the "
                    f"layers encoding.in_layers(), and call posenc.embed_input(encoding, x, positions) before the first"
                )
        for name, value in (("causal", causal), ("bias", bias), ("qk_norm", qk_norm)):
            check_bool(name, value)
        if scale is not None:
            scale = check_number("scale", scale)
        check_choice("impl", impl, IMPLS)
        self.dim, self.num_heads, self.num_kv_heads, self.head_dim = dim, num_heads, num_kv_heads, head_dim
        self.causal, self.scale, self.impl = causal, scale, impl
        self.encoding = Encoding() if encoding is None else encoding
        self.to_q = nn.Linear(dim, num_heads * head_dim, bias=bias)
        self.to_k = nn.Linear(dim, num_kv_heads * head_dim, bias=bias)
        self.to_v = nn.Linear(dim, num_kv_heads * head_dim, bias=bias)
        self.to_out = nn.Linear(num_heads * head_dim, dim, bias=bias)
        self.norm_q, self.norm_k = (nn.RMSNorm(head_dim, eps=1e-6) if qk_norm else None for _ in "qk")
        if self.encoding.gates is not None:
            with torch.random.fork_rng(devices=[]):  # with random numbers of its own: all else starts as without gates
                torch.default_generator.manual_seed(int(torch.randint(2**62, (), device="cpu")))
                self.to_gates = ToGates(dim, num_heads * math.prod(self.encoding.gates.size))

    def forward(
        self,
        x: Tensor,
        *,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        valid: Tensor | None = None,
        cache: KVCache | None = None,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        r"""Mix the tokens of x [B, T, C].

        Arguments:
            positions: [T] or [B, T] (or with n axes last); default counts on from the tokens that the cache has seen:
                once you have given some, give them at each step. Where `valid` is given, now or to the cache, the
                default counts what is valid in each row, on from the last valid token held.
            mask: as in `attention`, over all keys including cached ones.
            valid: [B, T] bool, False at padding; kept with the cache.
            cache: a `KVCache`, extended in place.
        Returns: [B, T, C], or (that, weights [B, H, T, Tk]) with `return_weights`.
        """
        positions, mask = self.told(x, positions, mask, valid, cache)
        batch, length, _ = x.shape
        xqk = xv = x
        if self.encoding.embed is not None and self.encoding.embed_at != "input":
            xqk = self.encoding.embed(x, positions)
            xv = xqk if self.encoding.embed_at == "layer_qkv" else x
        q = self.to_q(xqk).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # [B, H, T, D]
        k = self.to_k(xqk).unflatten(-1, (self.num_kv_heads, -1)).transpose(1, 2)  # [B, Hkv, T, D]
        v = self.to_v(xv).unflatten(-1, (self.num_kv_heads, -1)).transpose(1, 2)

        pos_k, gates = positions, None
        if self.encoding.gates is not None:
            size, activation = self.encoding.gates
            raw = self.to_gates(x).to(accumulation_dtype(x)).unflatten(-1, (self.num_heads, *size)).transpose(1, 2)
            gates = activation(raw)  # [B, H, T] or [B, H, T, n]
            if valid is not None:
                gates = gates.masked_fill(~valid.view(batch, 1, length, *(1 for _ in size)), 0.0)
        q, k, v = self.before_attention(x, q, k, v, mask, valid, cache)
        encoding = self.encoding
        if cache is not None:
            if getattr(encoding.rotate, "turns_alone", False):  # each key turns once, when it comes
                turned = encoding.rotate.turn(torch.cat((q, k), dim=1), positions)
                q, k = turned.split((self.num_heads, self.num_kv_heads), dim=1)
                encoding = encoding.without("rotate")
            pos_all = positions.expand(batch, *positions.shape[1:])
            k, v, pos_k, valid, gates = cache.append(k, v, pos_all, valid, gates)
        if valid is not None:
            padding = valid[:, None, None, :]  # [B, 1, 1, Tk]
            mask = padding if mask is None else padding & mask
        told = dict(pos_q=positions, pos_k=pos_k, mask=mask, gates=gates, return_weights=return_weights)
        result = attention(q, k, v, encoding, **told, causal=self.causal, scale=self.scale, impl=self.impl)
        out, weights = result if return_weights else (result, None)
        out = self.to_out(self.after_attention(x, out).transpose(1, 2).flatten(2))  # [B, T, C]
        return (out, weights) if return_weights else out

    def told(self, x, positions, mask, valid, cache):
        """Check what `forward` is given, before anything is kept; return positions and mask in their whole shapes."""
        check_tensor("x", x, f"[B, T, {self.dim}]", ndim=3, floating=True)
        if x.shape[-1] != self.dim:
            raise ValueError(f"x must have shape [B, T, {self.dim}], got {list(x.shape)}")
        if cache is not None and not isinstance(cache, KVCache):
            raise TypeError(f"cache={shown(cache)} must be a KVCache or None, got {type(cache).__name__}")
        batch, length, _ = x.shape
        if cache is not None:
            cache.check_fits(batch, self.num_kv_heads, self.head_dim, x.device)
        if mask is not None:
            keys = length if cache is None else len(cache) + length
            mask = batched_mask(mask, batch, length, keys, x.device)
        if valid is not None:
            if not isinstance(valid, Tensor):
                raise TypeError(f"valid={shown(valid)} must be a bool tensor of shape {[batch, length]}")
            if valid.shape != (batch, length) or valid.dtype != torch.bool:
                got = f"got {valid.dtype} {list(valid.shape)}"
                raise ValueError(f"valid must be bool of shape {[batch, length]}, {got}")
            check_device("valid", valid, x.device)
        if positions is None and self.encoding.axes is None:
            positions = counted(x, valid, cache)
        elif positions is None:
            raise ValueError(f"positions=None: this encoding needs positions of shape [T, {self.encoding.axes}]")
        return batched_positions("positions", positions, batch, length, self.encoding.axes, x.device), mask

    def before_attention(self, x, q, k, v, mask, valid, cache):
        r"""For blocks made from this one: q [B, H, T, D], k and v [B, Hkv, T, D] as cache and attention get them."""
        return (q, k, v) if self.norm_q is None else (self.norm_q(q), self.norm_k(k), v)

    def after_attention(self, x, out):
        r"""For blocks made from this one: what attention gives, out [B, H, T, D], as it goes into `to_out`."""
        return out


def counted(x, valid, cache):
    """Where the tokens of x [B, T, C] stand by default, [T], or [B, T] where padding, which does not count, is told."""
    past, start = (None, 0) if cache is None else (cache.valid, cache.seen)
    if valid is None and past is None:
        return torch.arange(start, start + x.shape[1], device=x.device)
    if past is not None and past.shape[1]:
        start = cache.positions.where(past, -1).amax(1, keepdim=True) + 1
    valid = torch.ones_like(x[..., 0], dtype=torch.bool) if valid is None else valid
    return start + (valid.cumsum(1) - 1).clamp(min=0)


def embed_input(encoding: Encoding, x: Tensor, positions: Tensor) -> Tensor:
    r"""The embeddings with what the encoding adds before the first layer; x itself where it adds nothing there.

        x = embed_input(encoding, embedding(tokens), positions)
        layers = [SelfAttention(dim, num_heads, encoding.in_layers()) for _ in range(4)]

    A model whose parts are apart needs no `in_layers`: embed_input(sinusoidal(), ...), and layers with alibi(8).

    Arguments:
        encoding: an `Encoding`, None is NoPE.
        x: [B, T, C] embeddings.
        positions: [T] or [B, T] (or with n axes last), those that the layers get: with a cache they count on from it.
    Returns: [B, T, C].
    Chapter: Four places.
    """
    encoding = Encoding() if encoding is None else encoding
    check_encoding(encoding)
    check_tensor("x", x, "[B, T, C]", ndim=3, floating=True)
    positions = batched_positions("positions", positions, *x.shape[:2], encoding.axes, x.device)
    if encoding.embed is None or encoding.embed_at != "input":
        return x
    check_sizes(encoding, dim=x.shape[2])
    return encoding.embed(x, positions)
