"""The lab Find the bug: each fault is found by the audit or by a question of its own, and each repair passes."""

import pytest

from posenc.lab.exercises import find_the_bug as bugs
from posenc.lab.exercises import judge
from posenc.lab.exercises.bank import command

BY_THE_AUDIT = {
    "sign": "distance",
    "layout": "relative",
    "leak": "causality",
    "decoding": "cache",
    "precision": "precision",
    "restart": "relative",
    "values": "relative",
    "stick": "weights",
}
HARMLESS = {"unseen"}  # past the trained length, new angles and biases are theirs by nature


@pytest.mark.parametrize("name", bugs.MADE)
def test_each_fault_is_one_change_and_is_found_and_its_repair_passes(name):
    fault = bugs.MADE[name]
    assert fault.code.count(fault.right) == 1
    (one,) = [one for one in bugs.hunt(0) if one.fault == name]
    assert set(bugs.findings(bugs.made(one.right), one.place)) <= HARMLESS
    seen = set(bugs.findings(bugs.made(one.broken), one.place)) - HARMLESS
    assert BY_THE_AUDIT.get(name, name) in seen
    assert (name in BY_THE_AUDIT) != (name in bugs.NAMED)


@pytest.mark.parametrize("seed", [0, 1, 17, 1234567])
def test_a_seed_deals_all_faults_and_its_repairs_pass(seed, monkeypatch):
    monkeypatch.setenv("POSENC_SEED", str(seed))
    cases = bugs.hunt(seed)
    assert {one.fault for one in cases} == set(bugs.FAULTS) == set(bugs.MADE)
    assert cases == bugs.hunt(seed)
    for name, exercise in bugs.deal(seed).items():
        assert judge(exercise, exercise.reference).right
        for words, wrong in exercise.mistakes.items():
            assert judge(exercise, wrong).mistake == words, name
    for number, one in enumerate(cases, start=1):
        exercise = bugs.deal(seed)[f"case_{number}"]
        assert "as it was" in judge(exercise, bugs.broken(number)).mistake
        assert judge(exercise, bugs.made(one.right)).right


def test_hunts_differ():
    orders = {tuple(one.fault for one in bugs.hunt(seed)) for seed in range(20)}
    codes = {one.broken for seed in range(20) for one in bugs.hunt(seed) if one.fault == "ladder"}
    assert len(orders) == 20 and len(codes) == 3


def test_the_key_of_a_seed_names_each_fault():
    text = command.key_of_lab("find_the_bug", 5)
    assert all(f"case {n}: {one.fault};" in text for n, one in enumerate(bugs.hunt(5), start=1))


def test_naming_counts_and_says_where_without_giving_the_name():
    exercise, names = bugs.deal(5)["faults"], [one.fault for one in bugs.hunt(5)]
    assert judge(exercise, lambda: names).right
    two = [names[1], names[0], *names[2:]]
    message = judge(exercise, lambda: two).message
    assert "10 of 12" in message and "1, 2" in message and names[0] not in message
    assert "12 names" in judge(exercise, lambda: names[:3]).message
    assert "'nothing'" in judge(exercise, lambda: ["nothing", *names[1:]]).message
    assert judge(exercise, lambda: None).undone


def test_a_case_is_shown_as_it_runs(capsys, monkeypatch):
    monkeypatch.setenv("POSENC_SEED", "3")
    bugs.show(4)
    said = capsys.readouterr().out
    assert "def case_4(" in said and bugs.hunt(3)[3].broken.partition("\n")[2] in said
    assert bugs.hunt(3)[3].fault not in said.partition("\n")[0]
    for bad in (0, 13, True, 1.5):
        with pytest.raises(ValueError, match="number="):
            bugs.case(bad)
