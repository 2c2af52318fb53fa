"""What runs on GitHub: targets that are there, actions pinned by commit, and each target of `make help` once a week."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = {path.stem: path for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))}
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
TARGETS = {*re.findall(r"^([\w-]+):", MAKEFILE, flags=re.M), ".venv/ready"}


def steps(name: str) -> list[dict]:
    jobs = yaml.safe_load(WORKFLOWS[name].read_text("utf-8"))["jobs"].values()
    return [step for job in jobs for step in job["steps"]]


def targets(name: str) -> set[str]:
    commands = "\n".join(step.get("run", "") for step in steps(name))
    words = [word for line in re.findall(r"\bmake ([^;&|#)\n]+)", commands) for word in line.split()]
    return {word for word in words if "=" not in word}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_names_targets_that_are_there_and_actions_by_commit(name):
    assert targets(name) <= TARGETS
    actions = [step["uses"] for step in steps(name) if "uses" in step]
    assert [action for action in actions if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action)] == []


def test_every_target_of_the_help_runs_once_a_week():
    listed = set(re.findall(r"^(?:#   |## )make ([\w-]+)", MAKEFILE, flags=re.M))
    gate = {"lint", "test", "test-site", "test-browser", "test-grading", "test-all"}  # .ci/run, once a week too
    by_hand = {"faults"}
    assert "book" in listed and listed - gate - by_hand <= targets("weekly")
