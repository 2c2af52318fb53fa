"""The benchmark of the kernels, as far as it runs without a GPU."""

import functools
import importlib.util
import sys
from pathlib import Path

import pytest
import torch

import posenc

pytestmark = pytest.mark.weekly

ROOT = Path(__file__).resolve().parents[2]
needs_triton = pytest.mark.skipif(sys.platform != "linux", reason="triton is published for Linux only")


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("benchmark_of_kernels", ROOT / "benchmarks" / "kernels.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@needs_triton
def test_all_arms_compute_the_same(bench, monkeypatch):
    """What is raced must be one function: each arm against the reference, in float32 (interpreted without a GPU)."""
    from torch.nn.attention import flex_attention as flex

    device = "cuda" if torch.cuda.is_available() else "cpu"
    monkeypatch.setattr(bench, "compiled_flex", lambda: flex.flex_attention)
    monkeypatch.setattr(
        bench, "causal_blocks", lambda n: flex.create_block_mask(bench.causal, None, None, n, n, device)
    )
    monkeypatch.setattr(bench, "HEADS", 2)
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, bench.HEADS, 40, 16, device=device)
    encodings = {name: make(q) for name, make in bench.MAKERS.items()}
    for name, arm in bench.ATTENTION.items():
        if name.startswith("fla"):  # its kernels take no float32: its references in PyTorch stand in
            (family,) = arm.args
            naive = getattr(importlib.import_module(f"fla.ops.{family}.naive"), f"naive_{family}")
            monkeypatch.setattr(bench, "fla_function", lambda _, naive=naive: naive)
        if name.startswith("SDPA"):  # its fused backends take no float32, its plain one stands in
            arm = functools.partial(bench.sdpa, "MATH")
        (method,) = [known for known in encodings if known in name] or ["softmax"]
        gates = bench.log_gates(*q.shape[:3:2], q.device) if method == "FoX" else None
        expected = posenc.attention(q, k, v, encodings[method], impl="torch", gates=gates)
        say = functools.partial("{}: {}".format, name)
        torch.testing.assert_close(arm(q, k, v), expected, rtol=1e-4, atol=1e-5, msg=say)

    at, copies = torch.arange(40, device=device), bench.turn("copy", q, k)()
    assert torch.equal(copies[0], q) and torch.equal(copies[1], k)
    for layout in ("interleaved", "half"):
        for turned, x in zip(bench.turn(f"rotary {layout}", q, k)(), (q, k)):
            expected = posenc.rope.rotate(x, at, posenc.rope.inv_freq(16).to(device), layout)
            torch.testing.assert_close(turned, expected, rtol=1e-4, atol=1e-5)


def ended(bench, monkeypatch):
    """What `main` says to the shell as it ends."""
    monkeypatch.setattr(sys, "argv", ["kernels.py", "--smoke"])
    with pytest.raises(SystemExit) as end:
        bench.main()
    return end.value.code


@needs_triton
@pytest.mark.skipif(torch.cuda.is_available(), reason="interprets")
def test_smoke_holds_kernels_against_the_reference_and_times_nothing_without_a_gpu(bench, monkeypatch, capsys):
    """Once as they are; then with a planted error, in a variant and in the sums along the stick."""
    from posenc.kernels import stickbreaking, variants

    few = [("softmax: linear", "float32", 16, bench.OWN), ("stickbreaking: plain", "float32", 16, bench.OWN)]
    few += [("stickbreaking: plain", "float32", 16, bench.PRODUCT)]
    assert set(few) <= set(bench.cases())
    monkeypatch.setattr(bench, "cases", lambda: few)
    assert ended(bench, monkeypatch) == 0
    assert "no speed is measured without a GPU" in capsys.readouterr().out

    wrong = variants.VARIANTS["linear"]._replace(grad=variants.plain_grad)  # a slope's gradient without the distance
    monkeypatch.setitem(variants.VARIANTS, "linear", wrong)
    real = stickbreaking.tl.cumsum
    monkeypatch.setattr(stickbreaking.tl, "cumsum", lambda x, axis, reverse=False: real(x, axis))  # a scan's known bug
    said = ended(bench, monkeypatch)
    assert isinstance(said, str) and said.count("failed: ") == 2 and "linear" in said  # which exits with 1
