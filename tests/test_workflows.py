"""What runs on GitHub: nothing unpinned, no right that a job doesn't need, nothing that runs without end."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
each = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
# The one job that may do more than read: it has no checkout and runs nothing of ours.
MORE_THAN_READ = {("pages", "publish"): {"pages": "write", "id-token": "write"}}


def problems(text, stem=""):
    r"""What is wrong with a workflow, in words."""
    flow, out = yaml.safe_load(text), []
    out += ["sets no permissions for the whole"] if flow.get("permissions") != {} else []
    triggers = flow[True]  # YAML 1.1 reads `on` so
    out += ["runs with secrets on strangers' code"] if {"pull_request_target", "workflow_run"} & set(triggers) else []
    for line in text.splitlines():
        used = re.match(r"\s*(?:- )?uses:\s*(.*)", line)
        if used and not re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used.group(1)):
            out.append(f"not pinned by a commit with its version behind it: {used.group(1)}")
    for name, job in flow["jobs"].items():
        allowed = MORE_THAN_READ.get((stem, name), {"contents": "read"})
        if job.get("permissions") != allowed:
            out.append(f"{name}: permissions are {job.get('permissions')}, {allowed} is enough")
        out += [] if "timeout-minutes" in job else [f"{name}: no timeout"]
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                if step.get("with", {}).get("persist-credentials") is not False:
                    out.append(f"{name}: the checkout leaves its credentials behind")
            if "${{" in step.get("run", ""):
                out.append(f"{name}: a command is put together from an expression: {step['run']}")
    return out


@each
def test_workflow_is_pinned_and_confined(path):
    assert problems(path.read_text("utf-8"), path.stem) == []


SOUND = """
on: { push: }
permissions: {}
jobs:
  one:
    runs-on: ubuntu-latest
    timeout-minutes: 5
    permissions: { contents: read }
    steps:
      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1
        with: { persist-credentials: false }
      - run: make test
"""
UNSOUND = {
    "a tag": ("@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1", "@v7", "not pinned"),
    "no version": (" # v7.0.1", "", "not pinned"),
    "a short hash": ("b1 # v7.0.1", " # v7.0.1", "not pinned"),
    "rights of the whole": ("permissions: {}", "permissions: { contents: read }", "for the whole"),
    "rights of a job": ("contents: read", "contents: write", "is enough"),
    "no rights": ("    permissions: { contents: read }\n", "", "is enough"),
    "no end": ("    timeout-minutes: 5\n", "", "no timeout"),
    "credentials": ("persist-credentials: false", "fetch-depth: 0", "credentials"),
    "strangers": ("on: { push: }", "on: { pull_request_target: }", "strangers"),
    "injection": ("run: make test", 'run: echo "${{ github.head_ref }}"', "expression"),
}


@pytest.mark.parametrize("what", UNSOUND)
def test_each_unsound_workflow_is_noticed(what):
    before, after, words = UNSOUND[what]
    assert problems(SOUND) == [] and SOUND.count(before) == 1
    assert [words in found for found in problems(SOUND.replace(before, after))] == [True]


def test_one_action_has_one_version_everywhere():
    found = {}
    for path in WORKFLOWS:
        for action, version in re.findall(r"uses: ([\w./-]+)@(.*)", path.read_text("utf-8")):
            found.setdefault(action, set()).add(version)
    assert found and {action: versions for action, versions in found.items() if len(versions) > 1} == {}


@each
def test_workflow_runs_what_is_there(path):
    """Targets of make, scripts and folders that a step names."""
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.M)) | {".venv/ready"}
    for job in yaml.safe_load(path.read_text("utf-8"))["jobs"].values():
        for step in job["steps"]:
            words = shlex.split(step.get("run", ""))
            if words[:1] == ["make"]:
                assert set(words[1:]) <= targets, step["run"]
            for word in words:
                if re.fullmatch(r"(\.ci|tests|benchmarks)/[\w./-]+", word):
                    assert (ROOT / word).exists(), step["run"]


def test_updates_come_for_all_that_is_pinned():
    config = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text("utf-8"))
    held = {u["package-ecosystem"]: u for u in config["updates"]}
    assert config["version"] == 2 and set(held) == {"github-actions", "pip", "npm"}
    for update in held.values():
        assert update["schedule"] == {"interval": "weekly"} and len(update["groups"]) == 1
        assert (ROOT / update["directory"].lstrip("/")).is_dir()
    assert (ROOT / held["npm"]["directory"].lstrip("/") / "package-lock.json").exists()
