r"""The process that pages are forked from: it imports torch, posenc and matplotlib while the book's builder starts."""

import functools
import os
import sys
from multiprocessing import forkserver
from pathlib import Path

AT_HAND = ["warm", "torch", "posenc", "posenc.chapters", "matplotlib.pyplot", "matplotlib_inline.backend_inline"]
AT_HAND += ["nbclient", "ipykernel.inprocess.manager", "debugpy", "execution"]
sys.modules["rfc3987_syntax"] = None  # jsonschema's check of addresses, a second to import: nothing here asks for it


@functools.cache
def start() -> None:
    r"""Start it, with what its pages find in their environment."""
    os.environ |= {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")])),
        "POSENC_BOOK": "1",  # displayed explorables use the site's player
        "IPYTHONDIR": str(Path(__file__).resolve().parents[2] / "_build/.ipython"),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",  # the debugger's warnings
    }
    forkserver.set_forkserver_preload(AT_HAND)
    forkserver.ensure_running()
