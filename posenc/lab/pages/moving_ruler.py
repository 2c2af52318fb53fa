r"""What the page *When content moves the ruler* runs, and its reader need not see."""
