r"""The book's explorables, one module a chapter. `posenc.explore` says how they are declared."""
