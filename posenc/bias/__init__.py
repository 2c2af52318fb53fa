r"""Methods that add to the scaled logits: `(q, k, at) -> broadcastable to [B, H, Tq, Tk]`."""
