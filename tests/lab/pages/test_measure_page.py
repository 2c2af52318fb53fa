"""How to measure position: what its opening figure counts, and names that are refused."""

import pytest
import torch

from posenc.lab.pages import measure


def test_a_table_of_counts_is_a_distribution_that_knows_the_text():
    text = torch.tensor([0, 1, 0, 1, 0, 1, 0, 2])
    table = measure.follower_table(text[:-1], 3, text[1:], 3, torch.full((3, 3), 0.01))
    assert torch.allclose(table.sum(1), torch.ones(3))
    assert table[0].argmax() == 1 and table[1].argmax() == 0 and (table > 0).all()


def test_an_experiment_without_a_file_a_task_without_a_name_and_a_prediction_that_nobody_made():
    with pytest.raises((ValueError, FileNotFoundError), match="haystack"):
        measure.results("haystack")
    with pytest.raises(KeyError, match="haystack"):
        measure.show("haystack")
    assert measure.outcome("masked", "nope") is None
