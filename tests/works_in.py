r"""Which method works in which of PyTorch's ways to run a model: the table that the API page shows.

    python tests/works_in.py

tries each and keeps what comes out in results/works_in.json; tests/test_works_in.py compares. A cell is "yes", or the
reason why not from `WHY_NOT`; what fails and has no reason there is an error.
"""

import contextlib
import functools
import tempfile
from pathlib import Path

import torch
from cases import DIM, HEAD_DIM, HEADS, Block, along_a_line, encoding, gates
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.export import Dim
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import posenc
from posenc.lab.experiments import commit_of, cpu_model, write_json

FILE = Path(__file__).resolve().parents[1] / "results" / "works_in.json"
DEFINITION = (
    "An attention layer with each method's defaults, float32, on the CPU, against the same layer run as it is: "
    "outputs, and gradients where it trains. compile: torch.compile(fullgraph=True, dynamic=True) with the backend "
    "`eager`, one graph for T = 16, 33 and 2, a second one for 1. export: torch.export with T between 1 and 4096. "
    "DDP: DistributedDataParallel, gloo, one process. FSDP2: fully_shard, one process. checkpointing: "
    "torch.utils.checkpoint, use_reentrant=False. vmap: torch.vmap of posenc.attention over q, k, v and gates."
)
ONE_BY_ONE = "no: its loop goes through the keys one by one, so that each length is a graph of its own"
NO_GRADIENT = 'with impl="torch": PyTorch\'s fused attention has no gradient for a learned bias that vmap batches'
WHY_NOT = {  # {(method, way): (what the error says, the reason)}
    ("path", "compile"): ("graphs for three lengths", ONE_BY_ONE),
    ("path", "export"): ("specialized it to be a constant", ONE_BY_ONE),
    ("shaw", "vmap"): ("not differentiable", NO_GRADIENT),
    ("transformer_xl", "vmap"): ("not differentiable", NO_GRADIENT),
    ("inkling", "vmap"): ("not differentiable", NO_GRADIENT),
}


def block(name):
    torch._dynamo.reset()
    return Block(name, dtype=torch.float32)


def x(length, batch=2):
    return torch.randn(batch, length, DIM, generator=torch.Generator().manual_seed(length))


def near(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def trained(model, run, length=16):
    r"""Output and gradients of every parameter."""
    model.zero_grad()
    out = run(x(length))
    out.square().sum().backward()
    return [out.detach(), *(p.grad.clone() for p in model.parameters())]


def compiled(name):
    r"""One graph at T = 16 that serves other lengths too; PyTorch itself makes one more where a length is 1."""
    from torch._dynamo.testing import CompileCounterWithBackend  # which takes seconds to import

    model = block(name)
    graphs = CompileCounterWithBackend("eager")
    run = torch.compile(model, fullgraph=True, dynamic=True, backend=graphs)
    near(trained(model, run), trained(model, model))
    for length in (33, 2):
        near(run(x(length)), model(x(length)))
    assert graphs.frame_count == 1, f"{graphs.frame_count} graphs for three lengths"
    near(run(x(1)), model(x(1)))


def exported(name):
    model = block(name).eval()
    length = Dim("T", min=1, max=4096)
    run = torch.export.export(model, (x(16),), dynamic_shapes=({1: length},)).module()
    for length in (16, 33, 2, 1):
        near(run(x(length)), model(x(length)))


def ddp(name):
    model = block(name)
    near(trained(model, DistributedDataParallel(model)), trained(model, model))


def fsdp2(name):
    expected, model = block(name), block(name)
    fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
    near(model(x(16)), expected(x(16)))
    model(x(16)).square().sum().backward()
    expected(x(16)).square().sum().backward()
    for found, wanted in zip(model.parameters(), expected.parameters()):
        near(found.grad.full_tensor(), wanted.grad)


def checkpointed(name):
    model = block(name)
    run = functools.partial(checkpoint, model, use_reentrant=False)
    near(trained(model, lambda x: run(x.requires_grad_())), trained(model, model))


def vmapped(name, impl="auto"):
    r"""`attention` over a batch of batches, [3, B, H, T, D]."""
    made = encoding(name)
    q, k, v = (torch.randn(3, 2, HEADS, 9, HEAD_DIM, generator=torch.Generator().manual_seed(s)) for s in range(3))
    own = gates(made, q[0], k[0])
    positions = along_a_line(torch.arange(9), made.axes)

    def run(q, k, v, gates=None):
        return posenc.attention(q, k, v, made, gates=gates, pos_q=positions, pos_k=positions, impl=impl)

    given = (q, k, v) if own is None else (q, k, v, torch.stack([own, own.flip(2), own.flip(1)]))
    near(torch.vmap(run)(*given), torch.stack([run(*one) for one in zip(*given)]))


WAYS = {"compile": compiled, "export": exported, "DDP": ddp, "FSDP2": fsdp2}
WAYS |= {"checkpointing": checkpointed, "vmap": vmapped}


def tried(name, way):
    r""" "yes", or why not. Errors: whatever a way that has no reason in `WHY_NOT` raises."""
    part, reason = WHY_NOT.get((name, way), (None, None))
    try:
        WAYS[way](name)
    except Exception as error:
        if part is None or part not in str(error):
            raise
        return reason
    return "yes"


@contextlib.contextmanager
def one_process():
    r"""A process group of this process alone, which DDP and FSDP2 ask for."""
    with tempfile.TemporaryDirectory() as folder:
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
        try:
            yield
        finally:
            torch.distributed.destroy_process_group()


if __name__ == "__main__":
    with one_process():
        table = {name: {way: tried(name, way) for way in WAYS} for name in posenc.METHODS}
    whole = {
        "name": "works_in",
        "command": "python tests/works_in.py",
        "commit": commit_of("posenc"),
        "versions": f"torch {torch.__version__}, posenc {posenc.__version__}",
        "machine": cpu_model(),
        "settings": {"num_heads": HEADS, "head_dim": HEAD_DIM},
        "definition": DEFINITION,
        "table": table,
    }
    write_json(FILE, whole)
