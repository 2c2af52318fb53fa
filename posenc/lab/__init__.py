r"""What the book's pages and labs run on. Nothing in `posenc` itself imports it."""
