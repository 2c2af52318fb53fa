"""The benchmark of the kernels, as far as it runs without a GPU."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

variants = pytest.importorskip("posenc.kernels.variants", reason="Triton is published for Linux only")
BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "kernels.py"


@pytest.mark.weekly
@pytest.mark.skipif(torch.cuda.is_available(), reason="interprets")
def test_smoke_holds_kernels_against_the_reference_and_says_which_is_wrong(monkeypatch):
    spec = importlib.util.spec_from_file_location("benchmark_of_kernels", BENCHMARK)
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    few = [("softmax: linear", "float32", 16, bench.OWN), ("stickbreaking: plain", "float32", 16, bench.PRODUCT)]
    assert set(few) <= set(bench.cases())
    monkeypatch.setattr(bench, "cases", lambda: few)
    monkeypatch.setattr(sys, "argv", ["kernels.py", "--smoke"])
    wrong = variants.VARIANTS["linear"]._replace(grad=variants.plain_grad)  # without the distance
    for count in (0, 1):
        with pytest.raises(SystemExit) as end:
            bench.main()
        assert str(end.value.code).count("failed: ") == count
        monkeypatch.setitem(variants.VARIANTS, "linear", wrong)
