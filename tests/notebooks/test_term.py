"""A lecturer's whole term, tests/term.py, in a process of its own."""

import os
import subprocess
import sys

import pytest
from kit import needs_sources
from lab_runs import ROOT


@needs_sources
@pytest.mark.slow
@pytest.mark.weekly  # three minutes of a core; each step has tests of its own
def test_a_term_from_fork_to_gradebook_loses_no_mark(tmp_path):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("POSENC_")}
    words = [sys.executable, str(ROOT / "tests" / "term.py"), str(tmp_path / "term")]
    result = subprocess.run(words, capture_output=True, text=True, env=environment | {"OMP_NUM_THREADS": "1"})
    assert result.returncode == 0, result.stderr[-4000:]
    assert "30 submissions" in result.stdout
