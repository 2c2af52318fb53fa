"""What the tests of training share: tiny settings, and training in processes of its own."""

import json
import os
import signal
import subprocess
import sys
import time

from posenc.lab.train import Settings

TINY = Settings(
    dim=16, num_layers=1, num_heads=2, length=16, batch=4, steps=6, warmup=2, multiples=(1, 2, 4), windows=4, targets=8
)
TINY_TASK = {
    "dim": 16,
    "num_layers": 1,
    "num_heads": 2,
    "length": 32,
    "batch": 4,
    "steps": 4,
    "warmup": 1,
    "windows": 4,
}
LIMIT = 300  # seconds a process may take: it stops what hangs; each takes a few, on a busy machine many times that

# The command with a preset nano that takes no time, since a sweep takes its settings from a preset alone.
COMMAND = """
import json, sys
from posenc.lab.train import trainer as train
settings = json.loads(sys.argv[1])
train.PRESETS["nano"], train.PUZZLES["nano"] = train.Settings(**settings), settings
train.main(sys.argv[2:])
"""


def start(*arguments):
    """A process of this Python on one thread, its output kept for `finish`."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"}
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        env=environment,
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


def start_train(folder, settings, arguments, processes=1):
    """`python -m posenc.lab.train` with these settings for nano, under torchrun where there are more processes."""
    script = folder / "command.py"
    script.write_text(COMMAND)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", processes] if processes > 1 else []
    return start(*torchrun, script, json.dumps(settings), *arguments)


def workers(process):
    """The ids of the processes that torchrun has started."""
    found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
    return [int(number) for number in found]


def wait_for(condition, process):
    """Poll until condition() is true; the process must not end before."""
    until = time.monotonic() + LIMIT
    while not condition():
        assert process.poll() is None, finish(process, process.returncode)
        assert time.monotonic() < until, f"{process.args} took too long"
        time.sleep(0.01)
