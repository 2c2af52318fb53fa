r"""Where a result comes from: command, commit, versions, machine, settings, text, and what it started from."""

import dataclasses
import functools
import hashlib
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import numpy
import torch

from posenc.lab.train import Settings, build
from posenc.lab.train.tasks import load_corpus


def provenance(name: str, preset: str, settings: Settings, command: str) -> dict:
    """What a reader needs to know about how a result was made."""
    corpus = load_corpus()
    modules = [module.__file__ for name, module in sys.modules.items() if name.startswith("posenc.")]
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, numpy {numpy.__version__}"
    return {
        "name": name,
        "command": command,
        "commit": commit_of(*filter(None, modules)),
        "versions": f"{versions}, posenc {importlib.metadata.version('posenc')}",
        "machine": f"{cpu_model()}, {os.cpu_count()} cores, one thread a run",
        "preset": preset,
        "settings": settings.as_dict() if isinstance(settings, Settings) else dataclasses.asdict(settings),
        "corpus": {
            "name": corpus.name,
            "sha256": corpus.sha256,
            "characters": len(corpus.train) + len(corpus.held_out),
            "train_characters": len(corpus.train),
            "held_out_characters": len(corpus.held_out),
            "vocabulary": len(corpus.vocabulary),
        },
    }


def start_of(method, settings: Settings, task: str, seed: int, options: dict | None = None) -> str:
    """The sha256 of the initial parameters that a model shares with NoPE's: names, shapes and bytes, in order."""
    shared, digest = dict(build("nope", settings, task).named_parameters()), hashlib.sha256()
    for name, tensor in build(method, settings, task, seed, options).named_parameters():
        if name in shared:
            digest.update(f"{name} {list(tensor.shape)} ".encode() + tensor.detach().numpy().tobytes())
    return digest.hexdigest()


def commit_of(*paths: str | Path) -> str:
    """The commit that these files of ours stand at, and which of them have changed since."""
    git = functools.partial(subprocess.run, capture_output=True, text=True, cwd=Path(__file__).parent)
    commit = git(["git", "rev-parse", "HEAD"]).stdout.strip() or "unknown"
    changes = git(["git", "status", "--porcelain", "--", *map(str, paths)]).stdout.splitlines()
    return commit + (f", with changes in {', '.join(line[3:] for line in changes)}" if changes else "")


def cpu_model() -> str:
    """The processor's name, as far as the system tells."""
    try:
        return re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text()).group(1).strip()
    except (OSError, AttributeError):
        return platform.processor() or platform.machine()
