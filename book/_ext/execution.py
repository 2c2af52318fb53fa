r"""Pages are executed, and the states of explorables computed, ahead of the reading, on all cores: in processes forked
from one that has torch, posenc and matplotlib at hand.

What they print goes to the execution cache, where the reading finds it. Beside it, `reads.json` holds for each page and
figure the files of this project that it has read: modules, results, folders that it has listed. What one of them says
now is compared with what it said then, so that a change runs again what it concerns and nothing else.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import json
import multiprocessing
import os
import platform
import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import nbformat
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from pictures import plots_config
from sphinx.application import Sphinx
from sphinx.util import logging

ROOT = Path(__file__).resolve().parents[2]
READ = ("posenc", "book", "results", "course", "benchmarks")  # folders whose files a page may read
AT_HAND = ["torch", "posenc", "matplotlib.pyplot", "myst_nb", "nbclient", "ipykernel.inprocess.manager"]
INLINE = "module://matplotlib_inline.backend_inline"
logger = logging.getLogger(__name__)


# --- what was read ---------------------------------------------------------------------------------------------------


@functools.cache
def now(name: str) -> str:
    r"""What a file says, or a folder holds: a hash; empty where it is gone."""
    path = ROOT / name
    if path.is_dir():
        said = "\n".join(sorted(entry.name for entry in path.iterdir() if entry.name[0] not in "._")).encode()
    else:
        said = path.read_bytes() if path.is_file() else None
    return "" if said is None else hashlib.sha256(said).hexdigest()[:16]


@functools.cache
def settings() -> str:
    r"""What every output depends on beside the project's files: preset, style of plots, versions."""
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("torch", "numpy", "matplotlib", "myst-nb")]
    said = [platform.python_version(), *versions, os.environ.get("POSENC_PRESET", ""), plots_config()]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:16]


def inside(path) -> str | None:
    r"""The name of a file of this project that a page may read, else None."""
    with contextlib.suppress(ValueError, TypeError, OSError):
        name = Path(os.path.realpath(os.fsdecode(path))).relative_to(ROOT)
        if name.parts and name.parts[0] in READ and "__pycache__" not in name.parts:
            return name.as_posix()
    return None


class Reads:
    r"""The files that this process reads from now on, with the modules that it has; all sources where it starts another
    process, whose reads nobody sees."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.others = False
        sys.addaudithook(self.hear)

    def hear(self, event: str, arguments: tuple) -> None:
        if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], str | bytes | os.PathLike):
            if name := inside(arguments[0]):
                self.names.add(name)
        elif event == "subprocess.Popen":
            self.others = True

    def found(self) -> dict[str, str]:
        modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        names = self.names | {name for path in modules if path and (name := inside(path))}
        if self.others:
            names |= {path.relative_to(ROOT).as_posix() for path in ROOT.glob("posenc/**/*.py")}
        return {name: now(name) for name in sorted(names) if now(name)}


class Record:
    r"""reads.json: {page or figure: {"files": {name: hash}, "settings": ..., "cells": ..., "seconds": ...}}."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "reads.json"
        self.entries = json.loads(self.path.read_text("utf-8")) if self.path.exists() else {}

    def fresh(self, name: str, cells: str = "") -> bool:
        entry = self.entries.get(name)
        return (
            entry is not None
            and (entry["cells"], entry["settings"]) == (cells, settings())
            and all(now(file) == said for file, said in entry["files"].items())
        )

    def keep(self, name: str, files: dict, seconds: float, cells: str = "") -> None:
        self.entries[name] = {"files": files, "settings": settings(), "cells": cells, "seconds": round(seconds, 2)}
        self.path.write_text(json.dumps(self.entries, indent=1, sort_keys=True), "utf-8")

    def files(self, name: str) -> list[Path]:
        return [ROOT / file for file in self.entries.get(name, {"files": ()})["files"]]

    def seconds(self, name: str) -> float:
        return self.entries.get(name, {"seconds": 1e9})["seconds"]


# --- in a forked process ---------------------------------------------------------------------------------------------


def run_cells(notebook, folder: Path) -> None:
    r"""Execute a notebook's cells in this process, by a kernel of IPython's; raises where a cell does."""
    from ipykernel.inprocess.manager import InProcessKernelManager
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionComplete, CellExecutionError
    from traitlets.config import Config

    os.chdir(folder)
    config = Config()
    exec(plots_config(), {"c": config})
    manager = InProcessKernelManager(config=config)
    manager.start_kernel()
    manager.kernel.shell.run_line_magic("matplotlib", "inline")
    for line in config.InteractiveShellApp.exec_lines:
        manager.kernel.shell.run_cell(line, silent=True)
    notebook.metadata["language_info"] = manager.kernel.language_info
    client, reader = manager.client(), NotebookClient(notebook, record_timing=False)
    client.start_channels()
    reader.reset_execution_trackers()
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type != "code" or not cell.source.strip():
            continue
        cell.outputs, reader.clear_before_next_output = [], False
        client.execute(cell.source)
        reply = client.get_shell_msg()["content"]
        with contextlib.suppress(CellExecutionComplete):  # all that the cell has said is read when the kernel is idle
            while True:
                reader.process_message(client.get_iopub_msg(), cell, index)
        if reply["status"] == "error" and "raises-exception" not in cell.metadata.get("tags", []):
            raise CellExecutionError.from_cell_and_msg(cell, reply)


def work(job: tuple[str, str, str]) -> tuple[str, str, dict, float, str]:
    r"""(name, what came of it, what was read, seconds, what went wrong) of a page's notebook, or of an explorable."""
    name, folder, given = job
    start, reads, made, wrong = time.monotonic(), Reads(), "", ""
    try:
        if given:
            notebook = nbformat.reads(given, as_version=4)
            run_cells(notebook, Path(folder))
            made = nbformat.writes(notebook)
        else:
            from posenc.lab.figures import load

            shown = load(name)
            made = shown.data_js()
            shown.body_html("", None)  # what it reads besides
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
    sys.stdout.flush()
    return name, made, reads.found(), time.monotonic() - start, wrong


# --- ahead of the reading --------------------------------------------------------------------------------------------


def folder_of(app: Sphinx) -> Path:
    return Path(app.doctreedir).parent / ".execution_cache"


def shown_on(text: str) -> list[str]:
    r"""The explorables that a page shows."""
    return re.findall(r"^`{3,}\{explorable\} (\S+)", text, re.MULTILINE)


def left_out(app: Sphinx, path: Path) -> bool:
    return any(path.relative_to(ROOT).match(each) for each in app.config.nb_execution_excludepatterns)


class Pages:
    r"""What is to be done for some pages: notebooks and explorables without outputs, or with those of other files."""

    def __init__(self, app: Sphinx, names: Iterable[str]) -> None:
        self.folder = folder_of(app)
        self.cache, self.record = get_cache(str(self.folder)), Record(self.folder)
        self.notebooks, self.figures, self.stale = {}, set(), set()
        for name in names:
            path = Path(app.env.doc2path(name))
            text = path.read_text("utf-8")
            markdown = path.suffix == ".md"
            figures = {id for id in (shown_on(text) if markdown else ()) if not self.drawn(id)}
            self.figures |= figures
            self.stale |= {name} if figures else set()
            if left_out(app, path) or (markdown and "{code-cell}" not in text):
                continue
            how = {"read_data": {"type": "plugin", "name": "myst_nb_md"}} if markdown else {}
            self.cache.add_nb_to_project(str(path), **how)
            notebook = self.cache.get_project_notebook(str(path)).nb
            _, cells = self.cache.create_hashed_notebook(notebook)
            kept = self.cache.get_cached_project_nb(str(path))
            if kept and self.record.fresh(name, cells):
                continue
            self.notebooks[name] = path, notebook, cells, kept
            self.stale.add(name)

    def states(self, id: str) -> Path:
        return self.folder / f"{id}.data.js"

    def drawn(self, id: str) -> bool:
        return self.states(id).exists() and self.record.fresh(id)

    def keep(self, name: str, made: str, files: dict, seconds: float) -> None:
        if name in self.figures:
            part = self.states(name).with_suffix(".part")
            part.write_text(made, "utf-8")
            part.replace(self.states(name))
            self.record.keep(name, files, seconds)
            return
        path, _, cells, _ = self.notebooks[name]
        bundle = CacheBundleIn(nbformat.reads(made, as_version=4), str(path), data={"execution_seconds": seconds})
        self.cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
        self.record.keep(name, files, seconds, cells)

    def run(self) -> None:
        r"""Figures, then pages; of each the longest first, so that none is left over for one core at the end."""
        for _, _, _, kept in self.notebooks.values():
            if kept:
                self.cache.remove_cache(kept.pk)
        for id in self.figures:
            self.states(id).unlink(missing_ok=True)
        jobs = [(id, "", "") for id in sorted(self.figures, key=self.record.seconds, reverse=True)]
        length = {name: (self.record.seconds(name), path.stat().st_size) for name, (path, *_) in self.notebooks.items()}
        for name in sorted(length, key=length.get, reverse=True):
            path, notebook, _, _ = self.notebooks[name]
            jobs.append((name, str(path.parent), nbformat.writes(notebook)))
        if not jobs:
            return
        os.environ |= {"MPLBACKEND": INLINE, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}  # the debugger's warnings
        forking = multiprocessing.get_context("forkserver")
        forking.set_forkserver_preload(AT_HAND)
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        with forking.Pool(min(len(jobs), cores), maxtasksperchild=1) as pool:
            for count, (name, made, files, seconds, wrong) in enumerate(pool.imap_unordered(work, jobs), 1):
                if wrong:  # left to the reading, which says so
                    logger.info("%s: %s", name, wrong)
                else:
                    self.keep(name, made, files, seconds)
                logger.info("executing pages... [%d of %d] %s", count, len(jobs), name)


def find_stale(app: Sphinx, env, added, changed, removed) -> list[str]:
    r"""Pages that Sphinx shall read again since a file that they ran on has changed."""
    now.cache_clear()
    return sorted(Pages(app, (env.found_docs - added - removed)).stale)


def execute_ahead(app: Sphinx, env, docnames: list[str]) -> None:
    now.cache_clear()
    Pages(app, docnames).run()


def configure(app: Sphinx, config) -> None:
    os.environ["POSENC_BOOK"] = "1"  # displayed explorables use the site's player
    place = Path(app.doctreedir).parent / ".ipython"  # of what the reading executes itself: what failed here
    os.environ["IPYTHONDIR"] = str(place)
    (place / "profile_default").mkdir(parents=True, exist_ok=True)
    (place / "profile_default" / "ipython_kernel_config.py").write_text(plots_config(), "utf-8")
    folder_of(app).mkdir(parents=True, exist_ok=True)
    config.nb_execution_cache_path = str(folder_of(app))
    if os.environ.get("LABS") == "1":
        config.nb_execution_excludepatterns = []


def setup(app: Sphinx) -> dict:
    app.connect("config-inited", configure)
    app.connect("env-get-outdated", find_stale)
    app.connect("env-before-read-docs", execute_ahead)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
