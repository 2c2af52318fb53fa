"""What the tests of training share: tiny settings, and training in processes of its own."""

import json
import os
import signal
import subprocess
import sys
import time

from posenc.lab.train import Settings

SIZES = {"dim": 16, "num_layers": 1, "num_heads": 2, "windows": 4}
TINY = Settings(**SIZES, length=16, batch=4, steps=6, warmup=2, multiples=(1, 2, 4), targets=8)
TINY_TASK = SIZES | {"length": 32, "batch": 4, "steps": 4, "warmup": 1}
LIMIT = 300  # seconds a process may take: it stops what hangs; each takes a few, on a busy machine many times that

# A command with a preset nano that takes no time, since a sweep takes its settings from a preset alone.
COMMAND = """
import importlib, json, sys
from posenc.lab.train import settings
from posenc.lab.train.command import in_one_line
sizes = json.loads(sys.argv[2])
settings.PRESETS["nano"], settings.PUZZLES["nano"] = settings.Settings(**sizes), sizes
command = importlib.import_module(f"posenc.lab.{sys.argv[1]}.command")
sys.exit(in_one_line(lambda: command.main(sys.argv[3:])))
"""


def start(folder, package, sizes, arguments, processes=1, **environment):
    """`python -m posenc.lab.PACKAGE` with these sizes for nano, under torchrun where there are more processes.

    A process of this Python on one thread, its output kept for `finish`.
    """
    script = folder / "command.py"
    script.write_text(COMMAND)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", processes] if processes > 1 else []
    return subprocess.Popen(
        [sys.executable, *map(str, (*torchrun, script, package, json.dumps(sizes), *arguments))],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"} | environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def finish(process, wanted=0):
    """Wait for a process and return what it wrote, which must end as wanted: 0, or None for any failure."""
    try:
        output, _ = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        for worker in workers(process):
            os.kill(worker, signal.SIGKILL)
        process.kill()
        output, _ = process.communicate()
        raise AssertionError(f"{process.args} took more than {LIMIT} s:\n{output}") from None
    assert process.returncode == wanted if wanted is not None else process.returncode != 0, output
    return output


def kill_when(condition, process):
    """Poll until condition() is true, then kill -9; the process must not end before."""
    wait_for(condition, process)
    process.send_signal(signal.SIGKILL)
    finish(process, -signal.SIGKILL)


def workers(process):
    """The ids of the processes that torchrun has started."""
    ids = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
    return [int(number) for number in ids]


def wait_for(condition, process):
    """Poll until condition() is true; the process must not end before."""
    until = time.monotonic() + LIMIT
    while not condition():
        assert process.poll() is None, finish(process, process.returncode)
        assert time.monotonic() < until, f"{process.args} took too long"
        time.sleep(0.01)
