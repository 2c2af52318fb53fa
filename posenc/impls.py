r"""Which implementation serves a call, decided from what each declares: nothing is tried and caught."""

import torch
from torch.nn.functional import scaled_dot_product_attention

from .encoding import PLACES, At, Encoding
from .errors import UnsupportedError, check_choice, check_int, shown
from .inputs import check_bias, check_encoding
from .kernels.served import why_not_here

IMPLS = ("auto", "torch", "sdpa", "triton")
EXACT = (torch.float32, torch.float64)  # dtypes in which a bias added by the fused function loses nothing
MANY_SCORES = 2**26  # of one head: 256 MiB in float32. From here on memory decides, and a kernel holds none of them


def choose_impl(
    impl, encoding, return_weights=False, device=None, dtype=torch.float32, head_dim=64, positions=(), lengths=None
):
    r"""(implementation, reason) for `impl`, from what each declares; lengths: (queries, keys), None for many."""
    check_choice("impl", impl, IMPLS)
    device = torch.device("cpu") if device is None else device
    if impl == "torch":
        return "torch", "asked for"
    if impl == "triton":
        no_triton = why_not(encoding, return_weights, device, dtype, head_dim, positions)
        if no_triton is not None:
            raise UnsupportedError(f"impl='triton': {no_triton}; impl='torch' (or 'auto') computes it")
        return "triton", f"asked for: {kernels_of(encoding)}"
    no_sdpa = why_not_fused(encoding, return_weights, dtype)
    if no_sdpa is None and (impl == "sdpa" or encoding.bias is None):
        reason = "asked for" if impl == "sdpa" else "PyTorch's fused attention serves a softmax without bias"
        return "sdpa", reason + before_it(encoding)
    if impl == "sdpa":
        raise UnsupportedError(f"impl='sdpa': {no_sdpa}; impl='torch' (or 'auto') computes it")
    no_triton = why_not(encoding, return_weights, device, dtype, head_dim, positions)
    no_triton = no_triton or why_slower(device, encoding, dtype, head_dim, lengths)
    if no_triton is None:
        why = no_sdpa or "PyTorch's fused attention would hold the bias of every score"
        return "triton", f"{why}; in memory linear in the length, {kernels_of(encoding)}"
    elsewhere = "" if no_twin(encoding) else f" (elsewhere {kernels_of(encoding)})"
    if no_sdpa is None:
        why = f"PyTorch's fused attention adds the bias, in {dtype} as exactly as the reference"
        return "sdpa", f"{why}, and for Triton {no_triton}{elsewhere}{before_it(encoding)}"
    return "torch", f"{no_sdpa}, and for Triton {no_triton}{elsewhere}"


def why_not_fused(encoding, return_weights, dtype):
    """Why PyTorch's fused attention does not compute attention with this encoding; None where it does."""
    if encoding.attend is not None:
        return "the encoding brings an attention of its own, which PyTorch's fused attention does not compute"
    if encoding.weigh is not None:
        return "the encoding acts at 'weigh', and PyTorch's fused attention makes a softmax"
    if encoding.gather is not None:
        return "the encoding acts at 'gather', and PyTorch's fused attention adds up values as they are"
    if return_weights:
        return "return_weights=True asks for weights that fused attention never holds"
    if encoding.bias is None:
        return None
    if getattr(encoding.bias, "reads_scores", True):
        return "the encoding's 'bias' reads the scores (or says no reads_scores=False), which fused attention hides"
    if dtype not in EXACT:
        return f"the encoding acts at 'bias', which PyTorch's fused attention would round to {dtype}"
    return None


def before_it(encoding):
    """What is computed before PyTorch's fused attention, in words; "" where nothing needs a word."""
    before = getattr(encoding.rotate, "no_kernel", None)
    return f"; before it, {before}" if before else ""


def explain_impl(
    encoding: Encoding | None = None, impl: str = "auto", *, device: torch.device | str | None = None,
    dtype: torch.dtype = torch.float32, head_dim: int = 64, queries: int | None = None, keys: int | None = None,
) -> str:  # fmt: skip
    r"""Print and return which implementation `attention` would take for this encoding, and why.

    Arguments:
        encoding, impl: as in `attention`.
        device: a torch.device or its name; default "cuda" where there is one, else "cpu".
        dtype, head_dim: of q, k and v.
        queries, keys: how many of each; default many queries, and as many keys as queries.
    Errors: TypeError or ValueError naming the argument; UnsupportedError where `attention` would raise it.
    """
    encoding = Encoding() if encoding is None else encoding
    check_encoding(encoding)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"dtype={shown(dtype)} must be a torch.dtype such as torch.float32")
    head_dim = check_int("head_dim", head_dim)
    if not isinstance(device, torch.device | str | None):
        raise TypeError(f"device={shown(device)} must be a torch.device, its name or None, got {type(device).__name__}")
    try:
        device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError:
        raise ValueError(f"device={shown(device)} is no device that PyTorch knows, such as 'cuda' or 'cpu'") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError("device='cuda': PyTorch finds no GPU here, and which kernels serve depends on which it is")
    for name, length in (("queries", queries), ("keys", keys)):
        if length is not None:
            check_int(name, length)
    lengths = None if queries is None else (queries, queries if keys is None else keys)
    choice, reason = choose_impl(impl, encoding, device=device, dtype=dtype, head_dim=head_dim, lengths=lengths)
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
    for place in ("attend", *PLACES[1:]):
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
    turn = "" if encoding.rotate is None else "the rotary kernel turns q and k, "
    if getattr(encoding.bias, "kernel", None) == "cope":
        return f"{turn}CoPE's own kernel counts gates along the keys"
    stick = getattr(encoding.weigh, "kernel", None) == "stickbreaking"
    variant = getattr(encoding.bias if stick or encoding.weigh is None else encoding.weigh, "kernel", "plain")
    return f"{turn}the {'stick-breaking' if stick else 'softmax'} kernel takes the variant {variant!r}"


def why_slower(device, encoding, dtype, head_dim, lengths=None):
    """Why impl="auto" leaves to PyTorch what the kernels would serve; None where it doesn't. Decided from counts."""
    if device.type != "cuda":
        return "Triton's interpreter is for testing: it is slower than PyTorch"
    major, minor = torch.cuda.get_device_capability(device)
    if major < 8:
        return f"compute capability {major}.{minor} gets no tensor-core instructions, which PyTorch's products use"
    if dtype == torch.float32 and (lengths is None or lengths[0] * lengths[1] < MANY_SCORES):
        return f"float32 runs as multiply-adds, on no tensor core (from {MANY_SCORES:,} scores on, memory decides)"
    rows = tile_rows(encoding, (major, minor), dtype, head_dim)
    if lengths is not None and 2 * lengths[0] <= rows:
        return f"queries={lengths[0]} would fill {lengths[0]} of a tile's {rows} rows, and the others idle"
    return None


def tile_rows(encoding, capability, dtype, head_dim):
    """How many queries a tile of the forward kernel has that computes attention with this encoding."""
    from .kernels import cope, softmax, stickbreaking  # what imports Triton

    kernel = cope if getattr(encoding.bias, "kernel", None) == "cope" else softmax
    kernel = stickbreaking if getattr(encoding.weigh, "kernel", None) == "stickbreaking" else kernel
    return kernel.tiles(capability, dtype, head_dim)[0].block_q


def fused_softmax(q, k, v, bias, at, scale, causal, mask):
    """The softmax of q.k and a bias by PyTorch's fused function, which never holds the weights [B, H, Tq, Tk]."""
    queries, keys = q.shape[2], k.shape[2]
    all_seen = mask is None and keys > 0 and (queries == 1 or not causal)  # a single query is the last
    bias = None if bias is None else check_bias(bias(q, k, at), q, keys).to(q.dtype)
    if scale < torch.finfo(torch.float32).tiny:  # PyTorch's kernels mask by -inf and then multiply: 0 makes it NaN
        q, scale = q * scale, 1.0
    if bias is None and (all_seen or (mask is None and causal and queries == keys)):
        return scaled_dot_product_attention(q, k, v, is_causal=not all_seen, scale=scale)
    allowed = at.visible if bias is None else bias
    if bias is not None and not all_seen:
        allowed = allowed.masked_fill(~at.visible, float("-inf"))
    output = scaled_dot_product_attention(q, k, v, attn_mask=allowed, scale=scale)
    if all_seen or (mask is None and causal and queries <= keys):
        return output
    seen = at.visible if bias is None else ~allowed.isneginf()
    return output.masked_fill(~seen.any(-1, keepdim=True), 0.0)  # a query that sees nothing


def by_kernels(q, k, v, encoding, pos_q, pos_k, causal, mask, scale, gates=None):
    """`posenc.attention` by the kernels, for checked arguments: q and k are turned, then softmax or stick-breaking."""
    from .kernels import cope, rotary, softmax, stickbreaking  # what imports Triton
    from .kernels.variants import VARIANTS

    at = At(pos_q, pos_k, None, gates)
    if encoding.rotate is not None:
        turn = encoding.rotate.kernel_inputs(q)
        if turn["inv_freq"].ndim == 3 or {"rates", "weights"} & turn.keys():  # of each query head, which then has
            groups = q.shape[1] // k.shape[1]  # keys of its own: mixed frequencies, ExpoSB
            k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
        q, k = rotary.rotate(q, k, pos_q, pos_k, **turn)
    if encoding.bias is not None and encoding.bias.kernel == "cope":  # which counts along the keys: a kernel of its own
        return cope.attend(q, k, v, **encoding.bias.kernel_inputs(q, at), mask=mask, scale=scale)
    options = dict(causal=causal, mask=mask, scale=scale)
    if encoding.axes is None:  # no variant reads positions with axes
        options.update(pos_q=pos_q, pos_k=pos_k)
    weigh = encoding.weigh
    stick = weigh is not None and weigh.kernel == "stickbreaking"
    variant = encoding.bias if stick or weigh is None else weigh  # what scores get, at whichever place it stands
    if variant is not None:
        if encoding.axes is not None and {"delta", "table"} & set(VARIANTS[variant.kernel].reads):
            raise UnsupportedError(f"the variant {variant.kernel!r} reads numbers, here are axes={encoding.axes}")
        options.update(variant=variant.kernel, **variant.kernel_inputs(q, at))
    if not stick:
        return softmax.attend(q, k, v, **options)

    options.update(order=weigh.order, attend_current=weigh.attend_current)
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
