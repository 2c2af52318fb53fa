r"""Explorables in a notebook's cell, and sliders over a drawing of matplotlib."""

import base64
import gzip
import json
import os
from collections.abc import Callable
from typing import Any

from posenc.lab.explore.page import STATIC


def packed_plotly() -> str:
    r"""What the player's model calls "plotly"."""
    return base64.b64encode(gzip.compress((STATIC / "plotly-cartesian.min.js").read_bytes(), 9, mtime=0)).decode()


def figure_html(prefix: str, inside: str) -> str:
    r"""A figure that brings its style and player along: Colab shows each output in a frame of its own."""
    player = (STATIC / "player.js").read_text("utf-8").replace("</script", "<\\/script")
    return (
        f'<figure class="explorable explorable-notebook" id="{prefix}">{inside}</figure>'
        f"<style>{(STATIC / 'player.css').read_text('utf-8')}</style>"
        # With `define` and `module` hidden, a require.js on the page (VS Code, old Jupyter) is left alone.
        f"<script>(function(define, module, exports){{\n{player}\n}})();\n"
        f'posencExplorables.notebook({json.dumps(prefix)}, "{packed_plotly()}");</script>'
    )


def interact(function: Callable, **sliders: Any) -> None:
    r"""`ipywidgets.interact` that leaves a picture, at the sliders' first values, where no kernel answers.

    A saved notebook carries the picture beside the sliders, so GitHub shows it; the built book shows nothing else.

    Arguments:
        function: draws with matplotlib; called with the sliders' values by name.
        sliders: widgets, or whatever `ipywidgets.interact` takes.
    """
    import ipywidgets
    from IPython.display import display

    widgets = ipywidgets.interactive(function, {"manual": True}, **sliders).kwargs_widgets
    start = {widget._kwarg: widget.get_interact_value() for widget in widgets}
    if os.environ.get("POSENC_BOOK"):
        function(**start)
        print("One position of the sliders. Open the lab in Colab or JupyterLab to move them.")
        return
    picture = _output(function, start)
    widget = ipywidgets.interactive(function, **sliders)
    view = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
    display({**picture, "application/vnd.jupyter.widget-view+json": view}, raw=True)
    if int(ipywidgets.__version__.split(".")[0]) < 8:  # Colab's draws only when it displays itself
        widget.update()


def _output(function: Callable, values: dict) -> dict:
    r"""What the function draws and prints, by mime type: shown in place of the sliders where no kernel answers."""
    from IPython.utils.capture import capture_output

    try:
        with capture_output() as captured:
            function(**values)
    except Exception as error:  # a student's function may raise anything; the sliders show it in full
        return {"text/plain": f"{type(error).__name__}: {error}"}
    name = getattr(function, "__name__", type(function).__name__)
    output = {"text/plain": captured.stdout or f"{name}, with sliders"}
    pictures = [part.data["image/png"] for part in captured.outputs if "image/png" in part.data]
    return output | ({"image/png": pictures[0]} if pictures else {})
