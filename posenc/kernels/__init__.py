r"""Triton twins of the references: rotary, softmax and stick-breaking attention, forward and backward.

Importing this package imports no Triton; its modules do, when the first kernel is asked for. What is served is declared
in `served` and in `posenc.impls`, and nowhere tried and caught.
"""
