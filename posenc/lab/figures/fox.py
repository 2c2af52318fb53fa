r"""The explorables of the chapter *FoX: a door that closes*."""
