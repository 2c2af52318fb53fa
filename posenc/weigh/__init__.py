r"""Methods that stand in place of the softmax: `(scores [B, H, Tq, Tk], at) -> weights`."""
