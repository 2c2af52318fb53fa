"""Exam questions at ten draws: finite numbers that follow the parameters, no wrong answer printed as the right one."""

import ast
import itertools
import re

import nbformat
import pytest
from lab_runs import ROOT, private

from posenc.lab import exam
from posenc.lab.check import bank
from posenc.lab.check.exercise import student_seed

private("rope/exam.md")
GOOD = """## Halves\npaper · 2 points · 3 minutes · easy\n- Draw: m in 3..9\n- Let: half = m / 2

Half of {{m}}?
- Key: Divide (1 p): **{{half:.1f}}** (1 p).
- Wrong: {{2 * m}}: doubled.
"""
FAULTS = [("paper ·", "papers ·", "3 points"), ("3..9", "3-9", "m in 3..9"), ("- Key:", "Key:", "- Key: ")]
FAULTS += [("(1 p).", ".", "must mark 2"), ("m / 2", "m / 0", "ZeroDivisionError"), ("m / 2", "math.inf", "finite")]
FAULTS += [("2 * m", "m / 2:.1f", "differ")]


@pytest.mark.parametrize("chapter", bank.chapters())
def test_the_numbers_of_a_chapters_questions(chapter):
    draws = [[bank.fill(asked, seed) for seed in range(10)] for asked in bank.read(chapter)]
    kinds = [asked[0].kind for asked in draws]
    assert kinds == (["paper"] if chapter in ("kernels", "pretrained") else ["paper"] * 6 + ["oral"] * 3)
    assert [asked[0].title for asked in draws if asked[0].draws and len({str(a.answers) for a in asked}) == 1] == []
    page = exam.page(exam.sheet([asked[0] for asked in draws], 0, key=True))
    assert page.count("<h2>") == len(draws) and not re.search(r"\{\{|\}\}|\$", page)


@pytest.mark.parametrize("chapter", bank.chapters())
def test_a_labs_question_has_the_numbers_of_its_key(chapter, monkeypatch):
    asked = bank.of_lab(chapter)
    answers = set()
    for values in itertools.product(*asked.draws.values()):  # no draw is taken back here
        filled = bank.with_numbers(asked, dict(zip(asked.draws, values)))
        wrong = {note.partition(": ")[0].strip("$") for note in filled.notes}
        assert len(wrong) == len(filled.notes) and not wrong & {*filled.answers, " and ".join(filled.answers)}, values
        answers.add(str(filled.answers))
    assert len(answers) >= 12
    monkeypatch.setenv("POSENC_SEED", "s4711")
    (cell,) = (
        cell for cell in nbformat.read(ROOT / "notebooks" / f"{chapter}.ipynb", 4).cells if "import ask" in cell.source
    )
    shown = eval(ast.unparse(ast.parse(cell.source).body[-1]), {"ask": bank.ask})
    assert shown.data == bank.told(bank.fill(asked, student_seed("s4711"))) and asked.text not in shown.data


@pytest.mark.parametrize("old, new, word", FAULTS)
def test_a_bad_question_is_named_with_what_would_be_right(old, new, word):
    with pytest.raises(ValueError, match="rope/exam.md, 'Halves'") as error:
        bank.fill(bank.parse(GOOD.replace(old, new), "rope")[0], 0)
    assert word in str(error.value)


def refused(arguments, capsys):
    with pytest.raises(SystemExit):
        exam.main(arguments)
    return capsys.readouterr().err


def test_a_sheet_makes_its_points_and_no_edited_one_is_lost(tmp_path, capsys):
    arguments = ["--points", "30", "--out", str(tmp_path), "--chapters", "rope", "alibi"]
    exam.main(arguments)
    exam.main(arguments)
    sheet, key = ((tmp_path / f"{name}-0.md").read_text("utf-8") for name in ("exam", "key"))
    assert sum(map(int, re.findall(r"^## .*\((\d+) points", sheet, re.M))) == 30
    assert "**Key.**" in key and "**Key.**" not in sheet
    (tmp_path / "exam-0.md").write_text("edited")
    assert "exam-0.md" in refused(arguments, capsys) and "'rope'" in refused([*arguments, "rop"], capsys)
    assert "999" in refused(["--points", "999"], capsys)
    assert "--kit" in refused(["--points", "9", "--kit", str(tmp_path)], capsys)
    assert (tmp_path / "exam-0.md").read_text("utf-8") == "edited"


def test_students_of_a_roster_get_the_questions_of_the_seed_with_numbers_of_their_own(tmp_path, capsys):
    (roster := tmp_path / "class.csv").write_text("id,seed\n17,\ns2,17\ns3,\n")
    every = sum(a.points for a in bank.read("rope") if a.kind == "paper" and not a.lab)  # the same questions, any seed
    arguments = ["--points", f"{every}", "--seed", "17", "--roster", str(roster), "--out", str(tmp_path)]
    arguments += ["--chapters", "rope"]
    exam.main(arguments)
    exam.main([*arguments[:3], "resit", *arguments[4:7], str(tmp_path / "again"), *arguments[8:]])
    files = ("key-17", "key-s2", "key-s3", "again/key-17")
    keys = [(tmp_path / f"{file}.md").read_text("utf-8").partition("\n")[2] for file in files]
    assert len({str(re.findall("^## .*", key, re.M)) for key in keys[:3]}) == 1
    one, same, other, resit = (sorted(re.findall(r"^\*\*Key.*", key, re.M)) for key in keys)
    assert one == same and len(one) == len(resit) == 5 and one not in (other, resit)
    assert "--out" in refused(arguments[:6], capsys)
    for rows, word in (("a/b,1", "'a/b'"), ("a,1\nA,2", "'A'"), ("a b,", "seed")):
        roster.write_text(f"id,seed\n{rows}\n")
        assert word in refused(arguments, capsys)
