r"""Methods that turn queries and keys before their product: `(q, k, at) -> q, k`."""
