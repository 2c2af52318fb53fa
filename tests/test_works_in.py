r"""The table of the API page: which method works in which of PyTorch's ways to run a model."""

import json

import pytest
import torch
from cases import DIM, HEADS, encoding
from works_in import DEFINITION, FILE, WAYS, WHY_NOT, one_process, tried, vmapped, x

import posenc

TABLE = json.loads(FILE.read_text("utf-8"))


@pytest.fixture(scope="module", autouse=True)
def group():
    with one_process():
        yield


@pytest.mark.parametrize("way", [way for way in WAYS if way not in ("compile", "export")])
@pytest.mark.parametrize("name", ["rope", "t5", "shaw"])
def test_the_table_says_what_comes_out(name, way):
    assert tried(name, way) == TABLE["table"][name][way]


def test_the_references_lines_work_under_vmap_for_all():
    for name in posenc.METHODS:
        vmapped(name, impl="torch")


@pytest.mark.weekly
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", posenc.METHODS)
def test_the_table_says_what_comes_out_of_every_method(name, way):
    assert tried(name, way) == TABLE["table"][name][way]


def test_the_table_is_whole_and_written_with_this_code():
    assert TABLE["definition"] == DEFINITION
    assert list(TABLE["table"]) == list(posenc.METHODS)
    assert all(list(row) == list(WAYS) for row in TABLE["table"].values())
    cells = {(name, way): cell for name, row in TABLE["table"].items() for way, cell in row.items()}
    assert {key: cell for key, cell in cells.items() if cell != "yes"} == {
        key: why for key, (_, why) in WHY_NOT.items()
    }


@pytest.mark.parametrize(
    "positions, words",
    [([0.0, 8.0], "max_positions=8"), ([0, 8], "max_positions=8"), ([-1, 0], "max_positions=8"), ([0, 1.5], "whole")],
)
def test_a_graph_reads_no_row_outside_of_the_table(positions, words):
    embed, at = posenc.make("learned", max_positions=8, dim=4).embed, torch.tensor(positions)
    torch._dynamo.reset()
    run = torch.compile(embed, fullgraph=True, dynamic=True, backend="eager")
    exported = torch.export.export(embed, (torch.zeros(1, 2, 4), at.clamp(0, 1))).module()
    for call, error in ((embed, ValueError), (run, RuntimeError), (exported, RuntimeError)):
        call(torch.zeros(1, 2, 4), at.clamp(0, 1).floor() if at.is_floating_point() else at.clamp(0, 1))
        with pytest.raises(error, match=words):
            call(torch.zeros(1, 2, 4), at)


@pytest.mark.weekly
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_step_of_decoding_compiles_into_one_graph(mode):
    torch._dynamo.reset()
    block = posenc.SelfAttention(DIM, HEADS, encoding("rope"))
    run, caches, tokens = torch.compile(block, fullgraph=True, backend="eager"), [posenc.KVCache() for _ in "ab"], x(4)
    with mode():
        for t in range(4):
            step = tokens[:, t : t + 1]
            torch.testing.assert_close(run(step, cache=caches[0]), block(step, cache=caches[1]))
