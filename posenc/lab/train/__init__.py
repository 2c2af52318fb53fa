r"""Tiny models, what they are trained on, the trainer, and fair tests of what it trained."""
