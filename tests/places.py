"""The folders of methods in `posenc` and in `tests`; `test_package.py` holds them against files and Makefile."""

FOLDERS = ("embed", "rotate", "bias", "weigh", "several")
