"""Auditing a proposal: numbers of the frozen audits, and sentences that sound code would contradict."""

import json
import re

import pytest
import torch

from posenc import rope
from posenc.lab.pages import ROOT, audit

FROZEN = json.loads((ROOT / "results" / "audit.json").read_text("utf-8"))


def rotation(x, positions, as_printed=False):
    return rope.rotate(x, positions, rope.inv_freq(x.shape[-1], dtype=x.dtype))


def test_the_table_has_each_library_and_each_subject():
    rows = [line.strip("| ").split(" | ") for line in audit.libraries_table().data.split("\n")[2:]]
    assert len(rows) == len(FROZEN["libraries"]) + len(FROZEN["subjects"])
    cells = {row[0]: row[2:] for row in rows if len(row) > 2 and not row[0].startswith("**")}
    for subject in FROZEN["subjects"].values():
        fails = [subject["verdicts"][name] == "fails" for name in audit.COLUMNS]
        assert [cell == "**no**" for cell in cells[subject["what"]]] == fails, subject["what"]


def test_numbers_are_those_of_the_file():
    numbers = audit.library_numbers()
    assert numbers["subjects"] == str(len(FROZEN["subjects"])) and numbers["date"] == FROZEN["date"]
    words = FROZEN["subjects"]["bloom"]["examples"]["precision"]
    assert f"bf16 is first wrong at position {numbers['bloom_bf16']}" in words
    words = FROZEN["subjects"]["falcon"]["examples"]["relative"]
    home, far = (float(text) for text in re.search(r"weight (\S+) at home, (\S+) with", words).groups())
    assert (numbers["falcon_home"], numbers["falcon_far"]) == (f"{home:.2f}", f"{far:.2f}")


def test_an_example_in_other_words_is_refused():
    with pytest.raises(ValueError, match="example='all is well'"):
        audit.figures_in("all is well", r"sum to ([\d.]+)")


def test_a_sound_rotation_contradicts_what_is_told_of_the_kernel_and_the_essay():
    with pytest.raises(AssertionError):
        audit.masked_numbers(audit.rope_report())
    with pytest.raises(AssertionError):
        audit.check_essay(rotation, rotation, rotation)


def test_each_mechanism_has_a_line_and_none_can_stand_for_another():
    reports = audit.mechanisms()
    assert [line[:22].strip() for line in audit.mechanisms_table(reports).split("\n")[1:]] == list(reports)
    audit.check_mechanisms(reports)
    for told in ("none (RoPE)", "gain by position", "band of lanes", "band, a factor a pair", "fade of logits"):
        other = "gain by position" if told != "gain by position" else "band of lanes"
        with pytest.raises(AssertionError):
            audit.check_mechanisms(reports | {told: reports[other]})


def test_a_right_gradient_is_at_cosine_one_and_a_turned_one_is_not():
    assert audit.gradient_numbers(rotation) == {"cosine": "1.00"}
    back = audit.gradient_numbers(lambda x, at, as_printed: rotation(x, -at if as_printed else at))
    assert float(back["cosine"]) < 0.9


def test_a_gradient_of_another_length_is_refused():
    with pytest.raises(AssertionError):
        audit.gradient_numbers(lambda x, at, as_printed: rotation(x, at) * (2 if as_printed else 1))


def test_claims_say_what_the_audits_counted():
    lines = audit.claims_table().data.split("\n")
    assert len(lines) == 10 and any("1,179,648" in line for line in lines)  # 6 x 512 x 384


def test_random_numbers_outside_go_on_as_before():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    audit.setting_numbers()
    assert torch.equal(torch.rand(3), expected)


def test_every_number_of_the_prose_is_said_once(monkeypatch):
    names = []
    monkeypatch.setattr(audit, "say_all", lambda page, texts: names.extend(f"{page}_{name}" for name in texts))
    audit.numbers()
    text = (ROOT / "book" / "audit.md").read_text("utf-8")
    here = ["masked_relative", "masked_norm", "block_sum", "blocks", "block_sums", "apart", "cosine"]
    names += [f"audit_{name}" for name in here]  # of what visible cells have made
    assert len(names) == len(set(names)) and set(names) == set(re.findall(r"\{glue:text\}`(\w+)`", text))
