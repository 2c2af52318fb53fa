"""The compile report of the kernels: one of its problems. `make kernel-report`, once a week, says the rest."""

import os
import subprocess
import sys
from pathlib import Path

import kernel_report
import pytest


@pytest.mark.weekly
def test_a_tile_too_large_is_a_problem():
    """Four stages of 128 x 128 at head size 128 want more shared memory than 8.6 has."""
    pytest.importorskip("triton")
    call = "compile_rows('softmax', 'plain', '8.6', 'float16', 128, (128, 128, 8, 4), ['forward'])"
    code = f"from kernel_report import compile_rows, problems; print(*problems({call}))"
    here = {"cwd": Path(kernel_report.__file__).parent, "env": os.environ | {"TRITON_INTERPRET": "0"}}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, **here)
    assert run.stdout.count("shared memory") == 1, run.stderr
