r"""The explorables of the chapter *When content moves the ruler*."""
