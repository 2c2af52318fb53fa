r"""What a step of make shows: its time, pages done, warnings; the rest is in the log, which a failure names."""

import subprocess
import sys

from conftest import ROOT

SAYS = """
import sys
print("executing pages... [3 of 4] book/rope.md")
print("[IPKernelApp] WARNING | Kernel is running over TCP without encryption.")
print("rope.md:12: WARNING: undefined label")
sys.exit(int(sys.argv[1]))
"""


def step(log, code):
    command = [sys.executable, ROOT / "book" / "step.py", "build", log, sys.executable, "-c", SAYS, str(code)]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_step_shows_its_time_and_our_warnings_and_logs_the_rest(tmp_path):
    log = tmp_path / "a folder" / "build.log"
    done = step(log, 0)
    assert done.returncode == 0 and done.stderr == ""
    assert "undefined label" in done.stdout and "IPKernelApp" not in done.stdout
    assert done.stdout.splitlines()[-1].split()[::2] == ["build", "s"]
    assert "IPKernelApp" in log.read_text() and "[3 of 4]" in log.read_text()


def test_a_step_that_fails_hands_on_the_code_and_names_the_log(tmp_path):
    failed = step(tmp_path / "build.log", 3)
    assert failed.returncode == 3
    assert str(tmp_path / "build.log") in failed.stderr and "undefined label" in failed.stderr
