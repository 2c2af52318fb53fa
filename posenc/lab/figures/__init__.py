r"""The book's explorables, one module a chapter. `posenc.lab.explore` says how they are declared."""
