"""A seed for each student: other numbers, and other answers where an exercise has variants."""

import pytest
import torch

from posenc.lab import check as checks
from posenc.lab.check import judge

RANDOM = ["rope.rotate", "rope.shift_error", "sinusoidal.embed", "sinusoidal.terms", "stickbreaking.weigh"]
EVERY = [f"{lab}.{name}" for lab in checks.labs() for name in checks.of(lab)]


def tensors(name):
    """The floating numbers of an exercise's cases, in one row."""
    found = [
        x.double().flatten() for case in checks.find(name).arguments() for x in case if isinstance(x, torch.Tensor)
    ]
    return torch.cat(found)


@pytest.mark.parametrize("name", RANDOM)
def test_two_students_are_asked_with_different_numbers(name, monkeypatch):
    monkeypatch.delenv("POSENC_SEED", raising=False)
    default = tensors(name)
    monkeypatch.setenv("POSENC_SEED", "17")
    seventeen = tensors(name)
    assert torch.equal(seventeen, tensors(name)), "the same seed gives the same numbers"
    monkeypatch.setenv("POSENC_SEED", "18")
    assert not torch.equal(default, seventeen) and not torch.equal(seventeen, tensors(name))


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", EVERY)
def test_right_stays_right_and_mistakes_keep_their_names(name, monkeypatch):
    monkeypatch.setenv("POSENC_SEED", "1234567")
    exercise = checks.find(name).seeded()
    assert judge(exercise, exercise.reference).right
    for words, wrong in exercise.mistakes.items():
        assert judge(exercise, wrong).mistake == words


@pytest.mark.parametrize("bad", ["a b", "-1", "1.5", "²"])
def test_a_seed_that_is_none_is_named(bad, monkeypatch):
    monkeypatch.setenv("POSENC_SEED", bad)
    with pytest.raises(ValueError, match="POSENC_SEED="):
        checks.student_seed()


def test_a_students_id_is_a_seed_and_the_same_on_every_machine():
    assert checks.student_seed("s4711") == checks.student_seed(" S4711") == 494980850
    assert checks.student_seed("17") == 17 and 0 < checks.student_seed("20231234567") < 2**31
