r"""What the page *FoX: a door that closes* runs, and its reader need not see."""
