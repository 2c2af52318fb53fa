r"""What a step of make shows: its time, pages done, warnings; the rest is in the log, which a failure names."""

import subprocess
import sys

from conftest import ROOT
from posenc.chapters._tools.step import Screen

SAYS = """
import sys
print("[IPKernelApp] WARNING | Kernel is running over TCP without encryption.")
print("rope.md:12: WARNING: undefined label")
sys.exit(int(sys.argv[1]))
"""


def test_a_step_shows_our_warnings_logs_the_rest_and_hands_on_a_failure(tmp_path):
    log = tmp_path / "a folder" / "build.log"
    command = [sys.executable, ROOT / "book" / "_tools" / "step.py", "build", log, sys.executable, "-c", SAYS]
    done, failed = (subprocess.run([*command, code], capture_output=True, text=True) for code in ("0", "3"))
    assert done.returncode == 0 and done.stderr == ""
    assert "undefined label" in done.stdout and "IPKernelApp" not in done.stdout and "IPKernelApp" in log.read_text()
    assert failed.returncode == 3 and str(log) in failed.stderr and "undefined label" in failed.stderr


def test_a_step_names_the_chapter_that_it_reads():
    screen = Screen("read")
    screen.read("reading sources... [ 40%] book/rope/index")
    assert screen.status == "reading sources, 40 % (rope)"
