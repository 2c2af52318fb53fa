"""The report's comparison: its arms, its command, and what its table never learns."""

import json

import pytest
import torch

import posenc
from posenc.lab.experiments import report
from posenc.lab.experiments.command import main
from posenc.lab.experiments.report import ARMS, OBJECTIVES, PREDICTIONS, REPORTED, run_report
from posenc.lab.train import build, settings_for, train_with
from posenc.lab.train.tiny import own_parameters
from posenc.lab.train.trainer import learning_rate

TINY = {"steps": 4, "warmup": 1, "windows": 4, "targets": 8, "dim": 8, "num_layers": 1, "num_heads": 2, "length": 16}


def test_the_arms_are_the_report_s():
    assert REPORTED == ("absolute", "standard", "rope", "exposb", "rse")
    settings = settings_for("original", **report.PRESETS["original"])
    assert (settings.dim, settings.num_heads, settings.num_layers, settings.length) == (384, 6, 6, 256)
    assert (settings.batch, settings.lr) == (8, 1e-4)
    small = settings_for("original", **report.PRESETS["small"])
    assert [size // 3 for size in (384, 6, 6, 256)] == [small.dim, small.num_heads, small.num_layers, small.length]
    for arm, (method, options) in ARMS.items():
        model = build(method, small, options=options)
        places = [block.attention.encoding.embed_at for block in model.blocks]
        asked = {"absolute": "layer_qk", "standard": "layer_qkv"}.get(arm)
        assert model.embed is not None if arm == "sinusoidal" else model.embed is None
        assert asked is None or places == [asked] * 2
        tables = [p for name, p in model.named_parameters() if name in own_parameters(model, small) and p.ndim == 2]
        assert [list(table.shape) for table in tables] == ([[4 * 85, 128]] * 2 if arm == "standard" else [])
    assert all(set(PREDICTIONS[objective]) == set(ARMS) for objective in OBJECTIVES)


def test_rows_of_the_table_beyond_the_training_length_only_decay():
    settings = settings_for("original", **report.PRESETS["small"] | TINY)
    method, options = ARMS["standard"]
    before = build(method, settings, options=options).blocks[0].attention.encoding.embed.table
    model, _ = train_with(method, settings, options=options, progress=False)
    after = model.blocks[0].attention.encoding.embed.table
    kept = torch.tensor(1.0, dtype=torch.float64)
    for step in range(settings.steps):
        kept *= 1 - learning_rate(step, settings) * settings.weight_decay
    torch.testing.assert_close(after[16:].double(), kept * before[16:].double(), rtol=1e-6, atol=0)
    moved = (after[:16] - kept.float() * before[:16]).abs().amax(-1)
    assert (moved > 1e-5).all()


@pytest.mark.weekly
def test_a_stopped_report_goes_on_and_comes_to_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("posenc.lab.experiments.rates.BEYOND", 0)
    arms, once, out = ["standard", "rope"], tmp_path / "once.json", tmp_path / "r.json"
    words = ["report", "--seeds", "2", "--arms", *arms, "--set", *(f"{name}={size}" for name, size in TINY.items())]
    main([*words, "--out", str(once)])
    sweep, calls = report.run_sweep, []

    def stops(*given, **more):
        calls.append(given[0])
        if len(calls) == 2:
            raise KeyboardInterrupt
        sweep(*given, **more)

    monkeypatch.setattr(report, "run_sweep", stops)
    with pytest.raises(KeyboardInterrupt):
        main([*words, "--out", str(out)])
    assert not out.exists()
    main([*words, "--out", str(out)])
    assert calls == ["report_causal", "report_masked", "report_masked"]  # the first was not trained again
    first, second = (json.loads(path.read_text()) for path in (once, out))
    assert list(second["objectives"]) == ["causal", "masked"] and second["settings"]["length"] == 16
    for objective, parts in second["objectives"].items():
        assert parts["rates"]["arms"] == first["objectives"][objective]["rates"]["arms"]
        methods = parts["results"]["methods"]
        assert list(methods) == arms and list(parts["results"]["tests"]) == ["16", "32", "64"]
        for arm, values in methods.items():
            others = first["objectives"][objective]["results"]["methods"][arm]
            assert values["scores"] == others["scores"] and values["curve"] == others["curve"]
            assert [len(rows) for rows in values["rows"]] == ([64, 64] if arm == "standard" else [0, 0])
        assert methods["rope"]["start"] == methods["standard"]["start"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["once.json", "once.svg", "r.json", "r.svg"]


@pytest.mark.parametrize(
    ("change", "words"), [({"preset": "smal"}, "preset='smal'"), ({"arms": ["rop"]}, "methods='rop'")]
)
def test_the_report_names_what_it_does_not_know(change, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        run_report(**{"preset": "small", "out": tmp_path / "r.json"} | change)
    assert not list(tmp_path.glob("*.json"))


def test_the_report_is_no_work_for_several_processes(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(posenc.errors.UnsupportedError, match="without torchrun"):
        run_report("small", tmp_path / "r.json")
