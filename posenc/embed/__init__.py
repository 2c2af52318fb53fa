r"""Methods that act on the embeddings: `(x [B, T, C], pos) -> x`."""
