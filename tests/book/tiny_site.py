r"""A site of one page, built by Sphinx with the book's own directives and scripts in a few seconds."""

import io
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXT = str(ROOT / "book" / "_ext")


def build(folder: Path, page: str) -> tuple[str, str]:
    r"""(the page's HTML, Sphinx's warnings) for this MyST text; the site stands in folder/out."""
    if EXT not in sys.path:
        sys.path.insert(0, EXT)
    pytest.importorskip("myst_parser", reason="Sphinx is missing: run `make test` once")
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    source, warnings = folder / "source", io.StringIO()
    source.mkdir(parents=True)
    (source / "index.md").write_text(page, "utf-8")
    (source / "conf.py").write_text(
        "extensions = ['myst_parser', 'explorable', 'predict']\n"
        "myst_enable_extensions = ['dollarmath', 'tasklist']\n"
        "html_theme = 'basic'\n"
        f"html_static_path = [{str(ROOT / 'book' / '_static')!r}]\n"
        "html_css_files = ['posenc.css', 'predict.css']\n"
        "html_js_files = [('predict.js', {'defer': 'defer'})]\n"
        "numfig = True\n"
        "def setup(app):\n"
        f"    app.add_config_value('nb_execution_cache_path', {str(folder)!r}, '')\n",
        "utf-8",
    )
    with patch_docutils(str(source)), docutils_namespace():
        app = Sphinx(source, source, folder / "out", folder / "trees", "html", {}, io.StringIO(), warnings)
        app.build()
    return (folder / "out" / "index.html").read_text("utf-8"), warnings.getvalue()
