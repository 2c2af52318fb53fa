r"""From an encoding to the kernels that compute it. Importing this imports no Triton, calling it does."""

import torch

from ..encoding import At
from ..errors import UnsupportedError


def attend(q, k, v, encoding, pos_q, pos_k, causal, mask, scale, gates=None):
    """`posenc.attention` by the kernels, for checked arguments: q and k are turned, then softmax or stick-breaking."""
    from . import cope, rotary, softmax, stickbreaking
    from .variants import VARIANTS

    at = At(pos_q, pos_k, None, gates)
    if encoding.rotate is not None:
        turn = encoding.rotate.kernel_inputs(q)
        if turn["inv_freq"].ndim == 3 or "rates" in turn or "weights" in turn:  # of each query head, which then has
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
            raise UnsupportedError(
                f"the variant {variant.kernel!r} reads positions that are numbers, here are axes={encoding.axes}"
            )
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
