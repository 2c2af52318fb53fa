r"""What the book's pages and labs run on. Nothing in `posenc` itself imports it."""

from importlib.util import find_spec

BRINGS = ("matplotlib", "PIL", "plotly", "ipywidgets", "tqdm")  # what the extra "book" brings
MISSING = [name for name in BRINGS if find_spec(name) is None]
if MISSING:
    raise ModuleNotFoundError(f"posenc.lab needs {', '.join(MISSING)}: pip install 'posenc[book]'", name=MISSING[0])
