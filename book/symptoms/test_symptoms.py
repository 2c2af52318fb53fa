"""The lab Find the bug: each fault is found by the audit that the lab shows, and both graders name it."""

import re

import pytest
from lab_runs import labs, private

from posenc.chapters.symptoms.exercises import EXERCISES, FAULTS, drawn, faulty
from posenc.lab.check import cells, require, submission

LAB = [cell.source for cell in labs.read(private("symptoms/lab.py"), labs.address()).cells]


@pytest.mark.sample(3)
@pytest.mark.parametrize("case", FAULTS)
def test_the_audit_that_the_lab_shows_fails_each_fault_and_not_the_repair(case):
    space, right = {}, EXERCISES[case]
    for source in LAB:
        if re.search(rf"^import math|^HOW =|^class Tiny|^def ask_{case}\(", source, re.M):
            exec(source.partition("\nprint(ask_")[0], space)
    failures = {words: space[f"ask_{case}"](wrong).failures for words, wrong in right.mistakes.items()}
    assert all(failures.values()) and space[f"ask_{case}"](right.reference).failures == (), failures


@pytest.mark.parametrize("seed", (3, 17))
def test_both_graders_judge_by_the_seed_and_name_the_fault_that_it_drew(seed, monkeypatch, capsys):
    monkeypatch.setenv("POSENC_SEED", str(seed))
    faults = {case: drawn(case) for case in FAULTS}
    code = [f"def {case}_fault(): return {fault.partition(':')[0]!r}" for case, fault in faults.items()]
    for case in FAULTS:
        faulty(case)
        code.append(capsys.readouterr().out)
    notebook = cells.Notebook("symptoms")
    notebook.run(["import math, torch, posenc", *code])
    monkeypatch.setattr(submission, "_submissions", {f"symptoms.{name}": notebook.space[name] for name in EXERCISES})
    for case, fault in faults.items():
        assert notebook.verdict(f"{case}_fault") == (1, ""), case
        assert notebook.verdict(case) == (0, f"not right yet: {fault}.")
        require(f"symptoms.{case}_fault")
        with pytest.raises(AssertionError, match=re.escape(fault)):
            require(f"symptoms.{case}")
