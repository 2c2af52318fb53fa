"""What the tests of training share: tiny settings, and commands in processes of their own."""

import json
import os
import subprocess
import sys

from posenc.lab.train import Settings

SIZES = {"dim": 16, "num_layers": 1, "num_heads": 2, "windows": 4}
TINY = Settings(**SIZES, length=16, batch=4, steps=6, warmup=2, multiples=(1, 2, 4), targets=8)
TINY_TASK = SIZES | {"length": 32, "batch": 4, "steps": 4, "warmup": 1}

# A command with a preset nano that takes no time, since a sweep takes its settings from a preset alone.
COMMAND = """
import importlib, json, sys
from posenc.lab.train import settings
sizes = json.loads(sys.argv[2])
settings.PRESETS["nano"], settings.PUZZLES["nano"] = settings.Settings(**sizes), sizes
importlib.import_module(f"posenc.lab.{sys.argv[1]}.command").main(sys.argv[3:])
"""


def under_torchrun(folder, package, sizes, arguments, processes=2):
    """Run `python -m posenc.lab.PACKAGE` with these sizes for nano on several processes; return what they print."""
    script = folder / "command.py"
    script.write_text(COMMAND)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", processes]
    done = subprocess.run(
        [sys.executable, *map(str, (*torchrun, script, package, json.dumps(sizes), *arguments))],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
