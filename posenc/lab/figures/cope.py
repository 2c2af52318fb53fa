r"""The explorables of the chapter *CoPE: counting what matters*."""
