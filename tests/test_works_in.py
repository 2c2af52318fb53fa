r"""The table of the API page: which method works in which of PyTorch's ways to run a model."""

import re
import sys
from pathlib import Path

import pytest
import torch
from cases import DIM, HEADS, encoding
from samples import sample
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from works_in import DEFINITION, WAYS, WHY_NOT, compiled, near, one_process, read, tried, vmapped, x

import posenc

sys.path.insert(0, str(Path(__file__).parents[1] / "book" / "_ext"))
import docstrings  # noqa: E402

TABLE = read()


@pytest.fixture(scope="module", autouse=True)
def group():
    with one_process():
        yield


LONG = ("compile", "export")  # seconds each


@pytest.mark.parametrize("way", [way for way in WAYS if way not in LONG])
@pytest.mark.parametrize("name", ["rope", "t5", "shaw"])
def test_the_table_says_what_comes_out(name, way):
    assert tried(name, way) == TABLE["table"][name][way]


def test_the_references_lines_work_under_vmap_for_all():
    for name in posenc.METHODS:
        vmapped(name, impl="torch")


@pytest.mark.slow
@pytest.mark.parametrize("way", LONG)
@pytest.mark.parametrize("name", ["learned", "rse"])
def test_the_table_says_what_comes_out_of_a_graph(name, way):
    assert tried(name, way) == TABLE["table"][name][way]


@pytest.mark.slow
@pytest.mark.weekly
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", posenc.METHODS)
def test_the_table_says_what_comes_out_of_every_method(name, way):
    assert tried(name, way) == TABLE["table"][name][way]


@pytest.mark.slow
@pytest.mark.skipif(" " in torch.__file__, reason="PyTorch's compiler links no library below a folder with a space")
@pytest.mark.parametrize("name", sample(["rse", "rope", "learned"], every=3))
def test_pytorchs_own_compiler_gives_the_same(name):
    compiled(name, backend="inductor")


def test_the_table_is_whole_and_written_with_this_code():
    assert TABLE["definition"] == DEFINITION
    assert list(TABLE["table"]) == list(posenc.METHODS)
    assert all(list(row) == list(WAYS) for row in TABLE["table"].values())
    cells = {(name, way): cell for name, row in TABLE["table"].items() for way, cell in row.items()}
    assert {key: cell for key, cell in cells.items() if cell != "yes"} == {
        key: why for key, (_, why) in WHY_NOT.items()
    }


def test_the_api_page_shows_the_table():
    page = [(Path(__file__).parents[1] / "book" / "api.md").read_text("utf-8")]
    docstrings.write_methods(None, "book/api", page)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page[0].splitlines() if line[:1] == "|"]
    assert rows[0] == ["Method", *WAYS]
    notes = dict(re.findall(r"^- (note \d+): (.+)$", page[0], re.M)) | {"yes": "yes"}
    titles = {row.title: list(TABLE["table"][name].values()) for name, row in posenc.METHODS.items()}
    assert {title: [notes[cell] for cell in cells] for title, *cells in rows[2:]} == titles
    assert DEFINITION in page[0]


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


def test_a_shared_table_is_sharded_before_the_layers_that_share_it():
    """As the docstring of `t5` says: then each layer leaves it alone, and its gradient is the sum of the layers'."""

    def layers():
        torch.manual_seed(0)
        shared = encoding("t5")
        return torch.nn.Sequential(*(posenc.SelfAttention(DIM, HEADS, shared) for _ in range(3)))

    expected, model, mesh = layers(), layers(), init_device_mesh("cpu", (1,))
    for part in (model[0].encoding.bias, *model, model):
        fully_shard(part, mesh=mesh)
    for made in (expected, model):
        made(x(9)).square().sum().backward()
    near(model(x(9)), expected(x(9)))
    wanted = dict(expected.named_parameters())
    assert len(wanted) == 13
    for name, parameter in model.named_parameters():
        near(parameter.grad.full_tensor(), wanted[name].grad)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_step_of_decoding_compiles_into_one_graph(mode):
    torch._dynamo.reset()
    block = posenc.SelfAttention(DIM, HEADS, encoding("rope"))
    run, caches, tokens = torch.compile(block, fullgraph=True, backend="eager"), [posenc.KVCache() for _ in "ab"], x(4)
    with mode():
        for t in range(4):
            step = tokens[:, t : t + 1]
            torch.testing.assert_close(run(step, cache=caches[0]), block(step, cache=caches[1]))
