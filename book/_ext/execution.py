r"""Pages are executed, and the states of explorables computed, on all cores, in processes forked from the one that
`warm` starts. Pages are read in the order in which they are done, meanwhile.

What they print goes to the execution cache, where the reading finds it. Beside it, `reads.json` holds for each page and
figure the files of this project that it has read: modules that it has imported, results, sources that it shows, folders
that it has listed. What one of them says now is compared with what it said then, so that a change runs again what it
concerns and nothing else; of a module that is only imported, a changed comment concerns nobody.
"""

import ast
import contextlib
import functools
import gc
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
import warm
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from myst_nb.core.read import read_myst_markdown_notebook
from pictures import plots_config
from sphinx.application import Sphinx
from sphinx.util import logging

ROOT = Path(__file__).resolve().parents[2]
READ = ("posenc", "book", "results", "benchmarks", "pyproject.toml", "CITATION.cff")  # what a page may read
logger = logging.getLogger(__name__)


# --- what was read ---------------------------------------------------------------------------------------------------


def short(said: str | bytes) -> str:
    return hashlib.sha256(said.encode() if isinstance(said, str) else said).hexdigest()[:16]


@functools.cache
def now(name: str, imported: bool = False) -> str:
    r"""What a file says, or a folder holds, as a hash: of a module that is imported, what Python makes of it."""
    path = ROOT / name
    if path.is_dir():
        return short("\n".join(sorted(entry.name for entry in path.iterdir() if entry.name[0] not in "._")))
    if not path.is_file():
        return "gone"
    return short(ast.dump(ast.parse(path.read_bytes(), name)) if imported else path.read_bytes())


@functools.cache
def settings() -> str:
    r"""What every output depends on beside the project's files: preset, style of plots, versions."""
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("torch", "numpy", "matplotlib", "myst-nb")]
    said = [platform.python_version(), *versions, os.environ.get("POSENC_PRESET", ""), plots_config()]
    return short("\n".join(said))


def inside(path) -> str | None:
    r"""The name of a file of this project that a page may read, else None."""
    with contextlib.suppress(ValueError, TypeError, OSError):
        name = Path(os.path.realpath(os.fsdecode(path))).relative_to(ROOT)
        if name.parts and name.parts[0] in READ and "__pycache__" not in name.parts:
            return name.as_posix()
    return None


class Reads:
    r"""The files that this process reads from now on, with the modules that it has; all modules where it starts another
    Python, whose reads nobody sees."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.others = False
        sys.addaudithook(self.hear)

    def hear(self, event: str, arguments: tuple) -> None:
        if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], str | bytes | os.PathLike):
            if sys._getframe(1).f_code.co_filename.startswith("<frozen importlib"):
                return
            if name := inside(arguments[0]):
                self.names.add(name)
        elif event == "subprocess.Popen" and "python" in Path(os.fsdecode(arguments[0])).name:
            self.others = True

    def found(self) -> dict[str, bool]:
        r"""{file: whether it was imported and not read besides}."""
        read = dict.fromkeys(self.names, False)
        paths = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        if self.others:
            paths += [*ROOT.glob("posenc/**/*.py"), *ROOT.glob("book/[a-z]*/[!t]*.py")]
        return {name: True for path in paths if path and (name := inside(path))} | read


class Record:
    r"""reads.json: {page or figure: {"modules": {name: hash}, "files": {name: hash}, "text": hash, "cells": hash,
    "settings": hash, "seconds": ...}}, where text and cells are those of a page."""

    def __init__(self, folder: Path) -> None:
        self.path, self.start = folder / "reads.json", time.time()
        self.entries = json.loads(self.path.read_text("utf-8")) if self.path.exists() else {}

    def fresh(self, name: str, **of_page: str) -> bool:
        r"""Whether nothing has changed of what a page or figure has read; of_page: a page's text or cells now."""
        entry = self.entries.get(name)
        return (
            entry is not None
            and all(entry[key] == said for key, said in {"settings": settings(), **of_page}.items())
            and all(now(file) == said for file, said in entry["files"].items())
            and all(now(file, True) == said for file, said in entry["modules"].items())
        )

    def hash(self, name: str, imported: bool) -> str:
        r"""What a file says now; nothing that it can say again where it was written since the build began."""
        path = ROOT / name
        return "changed" if path.is_file() and path.stat().st_mtime > self.start else now(name, imported)

    def keep(self, name: str, reads: dict[str, bool], seconds: float, **of_page: str) -> None:
        self.entries[name] = {
            "modules": {file: self.hash(file, True) for file in sorted(reads) if reads[file]},
            "files": {file: self.hash(file, False) for file in sorted(reads) if not reads[file]},
            "settings": settings(),
            "seconds": round(seconds, 2),
            **of_page,
        }

    def write(self) -> None:
        self.path.write_text(json.dumps(self.entries, sort_keys=True), "utf-8")

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
    for stream in (manager.kernel.stdout, manager.kernel.stderr):
        stream.flush_interval = 86_400  # a cell's end flushes, too; every fifth of a second would cut a line
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


def outputs(name: str, page: tuple[str, str] | None) -> str:
    r"""A page's notebook with its outputs, of (folder, notebook); of a figure the script that holds its states."""
    if page:
        notebook = nbformat.reads(page[1], as_version=4)
        run_cells(notebook, Path(page[0]))
        return nbformat.writes(notebook)
    from posenc.chapters import load

    shown = load(name)
    shown.body_html("", None)  # what it reads besides
    return shown.data_js()


def work(job: dict[str, tuple | None]) -> list[tuple[str, str, dict, float, str]]:
    r"""[(name, what came of it, what was read, seconds, what went wrong)] of a page, or of the figures of a chapter,
    which import the same."""
    done, reads = [], Reads()
    gc.freeze()  # torch's objects stay: no search for cycles need look at them again
    for name, page in job.items():
        start, made, wrong = time.monotonic(), "", ""
        try:
            made = outputs(name, page)
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
        done.append((name, made, reads.found(), time.monotonic() - start, wrong))
    sys.stdout.flush()
    return done


# --- ahead of the reading --------------------------------------------------------------------------------------------


def folder_of(app: Sphinx) -> Path:
    return Path(app.doctreedir).parent / ".execution_cache"


class Pages:
    r"""What is to be done for some pages: notebooks and explorables without outputs, or with those of other files."""

    def __init__(self, app: Sphinx, names: Iterable[str]) -> None:
        self.folder = folder_of(app)
        self.cache, self.record = get_cache(str(self.folder)), Record(self.folder)
        self.notebooks, self.figures, self.needs, self.turn = {}, set(), {}, {}
        for name in names:
            path = Path(app.env.doc2path(name))
            text = path.read_text("utf-8")
            markdown = path.suffix == ".md"
            shown = re.findall(r"^`{3,}\{explorable\} (\S+)", text, re.MULTILINE) if markdown else []
            figures = {id for id in shown if not (self.states(id).exists() and self.record.fresh(id))}
            self.figures |= figures
            self.needs[name] = figures
            left_out = any(path.relative_to(ROOT).match(each) for each in app.config.nb_execution_excludepatterns)
            if left_out or (markdown and "{code-cell}" not in text):
                continue
            if self.record.fresh(name, text=short(text)):
                continue
            notebook = read_myst_markdown_notebook(text, path=path) if markdown else nbformat.reads(text, 4)
            _, cells = self.cache.create_hashed_notebook(notebook)
            if self.record.fresh(name, cells=cells):
                self.record.entries[name]["text"] = short(text)
                continue
            self.notebooks[name] = path, notebook, {"text": short(text), "cells": cells}
            self.needs[name] = {name, *figures}
        self.record.write()

    def states(self, id: str) -> Path:
        return self.folder / f"{id}.data.js"

    def keep(self, name: str, made: str, reads: dict[str, bool], seconds: float) -> None:
        if name in self.figures:
            self.states(name).write_text(made, "utf-8")
            self.record.keep(name, reads, seconds)
            return
        path, _, of_page = self.notebooks[name]
        bundle = CacheBundleIn(nbformat.reads(made, as_version=4), str(path), data={"execution_seconds": seconds})
        self.cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
        self.record.keep(name, reads, seconds, **of_page)

    def forget(self) -> None:
        r"""Outputs of other files must not be shown where a page fails now."""
        for name, (_, notebook, _) in self.notebooks.items():
            self.record.entries.pop(name, None)
            with contextlib.suppress(KeyError):
                self.cache.remove_cache(self.cache.match_cache_notebook(notebook).pk)
        for id in self.figures:
            self.record.entries.pop(id, None)
            self.states(id).unlink(missing_ok=True)
        self.record.write()

    def jobs(self) -> list[dict[str, tuple | None]]:
        r"""Figures, then pages; of each the longest first, so that none is left over for one core at the end."""
        chapters: dict[str, dict] = {}
        for id in sorted(self.figures):
            chapters.setdefault(id.split(".")[0], {})[id] = None
        figures = sorted(chapters.values(), key=lambda job: -sum(map(self.record.seconds, job)))
        texts = {name: (str(path.parent), nbformat.writes(book)) for name, (path, book, _) in self.notebooks.items()}
        pages = sorted(texts, key=lambda name: (-self.record.seconds(name), -len(texts[name][1])))
        return figures + [{name: texts[name]} for name in pages]

    def start(self) -> None:
        r"""Start all jobs; `turn` has each name's until `wait` has taken what came of it."""
        jobs = self.jobs()
        self.forget()
        if not jobs:
            return
        self.turn = {name: number for number, job in enumerate(jobs) for name in job}
        self.all = len(self.turn)
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.pool = multiprocessing.get_context("forkserver").Pool(min(len(jobs), cores), maxtasksperchild=1)
        self.done = self.pool.imap_unordered(work, jobs)

    def wait(self, page: str) -> None:
        r"""Take what came of jobs until all is there that a page needs."""
        while any(name in self.turn for name in self.needs.get(page, ())):
            for name, made, reads, seconds, wrong in next(self.done):
                if wrong:  # left to the reading, which says so
                    logger.info("%s: %s", name, wrong)
                else:
                    self.keep(name, made, reads, seconds)
                del self.turn[name]
                logger.info("executing pages... [%d of %d] %s", self.all - len(self.turn), self.all, name)
            self.record.write()
            if not self.turn:
                self.pool.terminate()


def find_stale(app: Sphinx, env, added, changed, removed) -> list[str]:
    r"""Pages that Sphinx shall read again since a file that they ran on has changed."""
    now.cache_clear()
    pages = Pages(app, (env.found_docs - added - removed))
    return sorted(name for name, needs in pages.needs.items() if needs)


def execute_ahead(app: Sphinx, env, docnames: list[str]) -> None:
    now.cache_clear()
    pages = Pages(app, docnames)
    pages.start()
    docnames.sort(key=lambda page: max((pages.turn[name] for name in pages.needs[page]), default=-1))
    app.connect("source-read", lambda app, page, source: pages.wait(page))


def configure(app: Sphinx, config) -> None:
    warm.start()
    folder_of(app).mkdir(parents=True, exist_ok=True)
    config.nb_execution_cache_path = str(folder_of(app))
    if os.environ.get("LABS") == "1":
        config.nb_execution_excludepatterns = []


def setup(app: Sphinx) -> None:
    gc.set_threshold(50_000, 20, 20)  # a book's trees are millions of objects: the search for cycles took a fifth
    app.connect("config-inited", configure)
    app.connect("env-get-outdated", find_stale)
    app.connect("env-before-read-docs", execute_ahead)
