r"""What the page *CoPE: counting what matters* runs, and its reader need not see."""
