"""What only teachers have: in course/, or in the private kit that POSENC_COURSE names; elsewhere its tests skip."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
COURSE = Path(os.environ.get("POSENC_COURSE") or ROOT / "course")
WHY = "the labs' sources and solutions are in a private kit: POSENC_COURSE=DIR runs these tests with it"

needs_sources = pytest.mark.skipif(not (COURSE / "rope.py").exists(), reason=WHY)


def solutions(page):
    """The solutions of a chapter's exercises, as text."""
    if not any(COURSE.glob("*_solutions.md")):
        pytest.skip(WHY)
    return (COURSE / f"{page}_solutions.md").read_text("utf-8")
