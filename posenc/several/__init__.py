r"""Methods that act at more than one place."""
