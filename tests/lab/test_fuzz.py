r"""Whatever stands in a file or an address: the right value or an error that names it, and no code is run.

Drawn by hypothesis: `profiles.py` says how many cases. Checkpoints and results are cut, altered and replaced.
"""

import argparse
import copy
import dataclasses
import io
import json
import math
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from profiles import cases

from posenc.lab.experiments import load_results, read_json, verdict, write_json
from posenc.lab.experiments.results import read_cell, read_results
from posenc.lab.explore.arrays import decode_arrays, encode_arrays
from posenc.lab.train import Settings, load, settings_for, train_with
from posenc.lab.train.checkpoints import FORMAT
from posenc.lab.train.command import change

# ------------------------------------------------------------------------------------------- the states of explorables

numbers = st.one_of(
    st.floats(-1e30, 1e30), st.floats(-30, 30), st.integers(-300, 70000).map(float), st.sampled_from([math.nan, 5e-324])
)
shapes = hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=5)


@pytest.mark.weekly
@cases(5)
@given(arrays=st.lists(hnp.arrays(np.float64, shapes, elements=numbers), min_size=1, max_size=6), precise=st.booleans())
@example(arrays=[np.array([0.0, 65535 * 5e-324, 4e-319])], precise=False)  # steps of 5e-324 would meet the gap's code
@example(arrays=[np.array([-1e38, 1e38])], precise=False)
def test_arrays_of_an_explorable_come_back_whatever_they_hold(arrays, precise):
    record = json.loads(json.dumps(encode_arrays(arrays, precise), allow_nan=False))
    for state, array in enumerate(arrays):  # off by less than 5e-4 or float32's share, whose smallest are coarser
        wide = 1e-7 * np.abs(np.nan_to_num(array)) + 1e-37 + (0 if precise else 5e-4)
        found = decode_arrays(record, state)
        assert found.shape == array.shape and np.array_equal(np.isnan(found), np.isnan(array))
        assert not (np.abs(found - array) > wide).any(), (found, array)


# --------------------------------------------------------------------------------------------------------- settings


@cases(3)
@given(text=st.one_of(st.text(max_size=30), st.from_regex(r"[a-z]{1,6}=[-\[\]0-9eE.,\" ]{0,12}", fullmatch=True)))
@example(text="steps=" + "[" * 100000)
@example(text="steps=" + "1" * 5000)
def test_a_setting_on_the_command_line_is_a_value_or_an_error(text):
    try:
        name, value = change(text)
    except argparse.ArgumentTypeError as error:
        assert "must be NAME=NUMBER" in str(error)
    else:
        assert text.startswith(name + "=") and (value == json.loads(text.partition("=")[2]) or value != value)


fields = [field.name for field in dataclasses.fields(Settings)]
wrong = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=4),
    st.integers(-5, 0),
    st.floats(),
    st.just(10**400),
    st.lists(st.one_of(st.integers(-3, 9), st.text(max_size=2), st.lists(st.integers())), max_size=4),
)


@cases(3)
@given(name=st.sampled_from(fields), value=wrong)
@example(name="multiples", value=[1, "a"])
@example(name="multiples", value=[[1], [2]])
def test_a_wrong_setting_is_named(name, value):
    try:
        settings = settings_for("nano", **{name: value})
    except (TypeError, ValueError) as error:
        assert name in str(error), error
    else:
        kept = getattr(settings, name)
        assert kept == value and (name == "multiples" or math.isfinite(min(kept, 10**300)))


# -------------------------------------------------------------------------------------------------------- checkpoints

TINY = settings_for("nano", dim=8, num_layers=1, num_heads=2, length=16, batch=2, steps=2, warmup=1, targets=4)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A finished run: (its file's bytes, the weights, a folder to damage it in)."""
    folder = tmp_path_factory.mktemp("fuzz")
    path = folder / "run.pt"
    train_with("rope", TINY, seed=3, progress=False, checkpoint=path)
    data = path.read_bytes()
    path.unlink()
    return data, torch.load(io.BytesIO(data), weights_only=True), folder


class Code:
    """Unpickled, it makes a file."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return (open, (self.marker, "w"))


def saved(value, **options):
    """The bytes that torch saves a value as."""
    out = io.BytesIO()
    torch.save(value, out, **options)
    return out.getvalue()


def refused(folder, data, readers=(load,), words="no whole"):
    """Each reader refuses these bytes, names the file, runs nothing and leaves it."""
    path = folder / "damaged.pt"
    path.write_bytes(data)
    for reader in readers:
        with pytest.raises(ValueError) as caught:
            reader(path)
        assert str(path) in str(caught.value) and words in str(caught.value), caught.value
    assert path.read_bytes() == data
    assert [file.name for file in folder.iterdir()] == ["damaged.pt"], "something was run or written"


def resumed(path):
    train_with("rope", TINY, seed=3, progress=False, checkpoint=path)


def same_state(a, b):
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same_state(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same_state, a, b))
    return type(a) is type(b) and a == b


@cases()
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_truncated_checkpoint_is_refused(made, share):
    data, _, folder = made
    refused(folder, data[: int(share * len(data))])


@cases()
@given(
    data=st.binary(max_size=200),
    start=st.sampled_from([b"", b"PK\x03\x04", b"PK\x05\x06", b"\x80\x02", b"{", b"GIF89a"]),
)
def test_foreign_bytes_are_no_checkpoint(made, data, start):
    refused(made[2], start + data)


def as_zip(**files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files.items():
            archive.writestr(name.replace("__", "/"), data)
    return out.getvalue()


def test_files_of_other_kinds_are_refused(made):
    _, state, folder = made
    marker = folder / "ran"

    for data in (
        as_zip(),
        as_zip(a="b"),
        as_zip(archive__data__pkl="x", archive__version="3\n"),
        pickle.dumps(Code(marker)),
        pickle.dumps(state),
        saved(state, _use_new_zipfile_serialization=False),
        saved(Code(marker)),
        saved(None),
        saved(torch.zeros(3)),
        saved({}),
        saved(state["model"]),
        saved(state | {"format": "posenc checkpoint 0"}),
        saved(state | {"losses": torch.zeros(3)}),
        saved({key: value for key, value in state.items() if key != "optimizer"}),
        saved({"format": FORMAT}),
        saved({"format": torch.zeros(2)}),
        saved(state | {"seconds": Code(marker)}),
        saved(state | {"model": Code(marker)}),
        saved([state]),
        as_zip(**{"archive__data.pkl": pickle.dumps(Code(marker)), "archive__version": "3\n"}),
        json.dumps({"format": FORMAT}).encode(),
    ):
        refused(folder, data, (load, resumed))
    (folder / "damaged.pt").unlink()
    for reader, error in ((load, ValueError), (resumed, IsADirectoryError)):
        with pytest.raises(error, match="no whole|is a folder"):
            reader(folder)
    with pytest.raises(FileNotFoundError, match="no such checkpoint"):
        load(folder / "nowhere.pt")


parts = ["config", "step", "losses", "seconds", "batches", "model", "optimizer", "format"]
others = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.just(10**30),
    st.floats(),
    st.text(max_size=5),
    st.just({}),
    st.just([]),
    st.just(torch.zeros(2)),
    st.just(torch.zeros(0)),
    st.just(torch.tensor([math.nan] * 3)),
    st.just({"a": torch.ones(2)}),
    st.just(torch.zeros(2, dtype=torch.long)),
)


@cases()
@given(part=st.sampled_from(parts), value=others)
def test_a_part_of_another_kind_is_refused(made, part, value):
    _, state, folder = made
    assume(not same_state(state[part], value))
    # Nothing tells two finite numbers of seconds, or two lists of two losses, apart.
    assume(not (part == "seconds" and type(value) in (int, float) and 0 <= value < math.inf))
    assume(
        not (part == "losses" and isinstance(value, torch.Tensor) and value.shape == (2,) and value.is_floating_point())
    )
    # The optimizer and the batches are for going on alone, so reading the model does not look into them.
    refused(folder, saved(state | {part: value}), (resumed,), words="")


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**9), 10**9), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=6,
)


@cases()
@given(key=st.sampled_from(["method", "options", "task", "seed", "corpus", "settings"]), data=st.data())
def test_facts_of_another_kind_are_refused(made, key, data):
    _, state, folder = made
    facts = json.loads(state["config"])
    value = data.draw(st.one_of(json_values, st.just(math.nan), st.just(10**400)))
    if key == "settings" and data.draw(st.booleans()):
        value = facts["settings"] | {data.draw(st.sampled_from([*fields, "more"])): value}
    assume(facts[key] != value and not (key == "corpus" and value is None) and not (key == "options" and not value))
    assume(not (key == "seed" and type(value) is int and value >= 0))  # another seed's model looks the same
    if key == "settings" and isinstance(value, dict):
        # What does not shape the model can't be told from its weights.
        assume(any(value.get(n) != facts["settings"][n] for n in ("dim", "num_layers")) or "more" in value)
    refused(folder, saved(state | {"config": json.dumps(facts | {key: value})}), (load, resumed), words="")


def test_deep_and_broken_facts_are_refused(made):
    _, state, folder = made
    deep = '{"settings": ' + "[" * 100000 + "]" * 100000 + "}"
    for config in (deep, "", "[]", "null", '{"settings": {}', "{}", '"x"', '{"settings": {"dim": NaN}}'):
        refused(folder, saved(state | {"config": config}), (load, resumed))


def test_weights_and_moments_of_another_shape_are_refused(made):
    """Without the look at shapes, the fused optimizer reads past the end of what it kept."""
    _, state, folder = made
    weights, moments = copy.deepcopy(state), copy.deepcopy(state)
    name = next(iter(weights["model"]))
    weights["model"][name] = torch.zeros(3)
    moments["optimizer"]["state"][0]["exp_avg"] = torch.zeros(1)
    renamed = state | {"model": {f"old.{key}": value for key, value in state["model"].items()}}
    for wrong_state, readers in ((weights, (load, resumed)), (renamed, (load, resumed)), (moments, (resumed,))):
        refused(folder, saved(wrong_state), readers, words="does not fit")
    facts = json.loads(state["config"])
    facts["settings"]["num_layers"] = 10**6  # which is found before so many are built
    refused(folder, saved(state | {"config": json.dumps(facts)}), words="num_layers=1000000")


def test_a_model_of_another_text_is_refused(made):
    _, state, folder = made
    facts = json.loads(state["config"]) | {"corpus": "0" * 64}
    refused(folder, saved(state | {"config": json.dumps(facts)}), words="another text")


# ------------------------------------------------------------------------------------------------------------ results


def sweep():
    """Small whole results of a sweep."""
    return {
        **{key: "x" for key in ("command", "commit", "versions", "machine")},
        "name": "flipflop",
        "settings": {"dim": 8},
        "seeds": [0, 1],
        "unit": "share",
        "tolerance": 0.05,
        "tests": {"in": "as trained", "far": "farther"},
        "contrast": ["in", "far"],
        "against": None,
        "claims": {"rope": "rises"},
        "predictions": {"rope": "It does."},
        "methods": {
            "rope": {"scores": {"in": [0.1, 0.2], "far": [0.3, 0.5]}},
            "nope": {"scores": {"in": [0.1, 0.2], "far": [0.3, 0.5]}, "seeds": [0, 1]},
        },
    }


CELL = {"scores": {"in": 0.1}, "final_train_loss": 1.5, "curve": [2.5, 1.5], "parameters": 99, "seconds": 0.5}


@cases(4)
@given(share=st.floats(0, 1, exclude_max=True), flip=st.one_of(st.none(), st.integers(0, 7)), cell=st.booleans())
def test_a_damaged_json_file_is_named_or_still_whole(tmp_path_factory, share, flip, cell):
    """Cut, or a bit flipped. A digit that became another digit can't be told: results are under version control."""
    path = tmp_path_factory.getbasetemp() / "fuzzed.json"
    whole = CELL if cell else sweep()
    write_json(path, whole)
    data = bytearray(path.read_bytes())
    at = int(share * len(data))
    if flip is None:
        data = data[:at]
    else:
        data[at] ^= 1 << flip
    path.write_bytes(data)
    try:
        found = read_cell(path) if cell else read_results(path, "flipflop")
    except ValueError as error:
        assert str(path) in str(error), error
        return
    if cell:
        assert isinstance(found["parameters"], int) and found.keys() >= CELL.keys() - {"scores"}
    else:
        for arm in found.get("claims", ()):
            assert math.isfinite(verdict(found, arm).change)
    assert flip is not None or found == whole


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "3",
        '"x"',
        "{",
        "{}" * 2,
        "[" * 100000,
        '{"a":' * 50000,
        '{"seconds": ' + "9" * 5000 + "}",
        "\ufeff{}",
        "not json",
        '{"scores": NaN}',
        '{"scores": {"in": Infinity}}',
        json.dumps(CELL | {"final_train_loss": math.nan}),
        json.dumps(CELL | {"scores": [1]}),
        json.dumps(CELL).replace("0.1", "1e999"),
        json.dumps(CELL | {"parameters": "99"}),
    ],
    ids=lambda text: text[:24] or "empty",
)
def test_a_foreign_json_file_is_named(tmp_path, text):
    path = tmp_path / "cell.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"cell\.json is damaged"):
        read_cell(path)
    with pytest.raises(ValueError, match=r"cell\.json"):
        read_results(path, "flipflop")
    path.write_bytes(struct.pack("<d", 1.5) + b"\xff\xfe")
    with pytest.raises(ValueError, match=r"cell\.json is damaged"):
        read_json(path)


def test_a_folder_or_nothing_is_named(tmp_path):
    with pytest.raises(OSError, match=str(tmp_path)):
        read_json(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_json(tmp_path / "nowhere.json")


def test_results_of_another_name_are_refused(tmp_path):
    path = tmp_path / "counting.json"
    write_json(path, sweep())
    assert read_results(path, "flipflop") == sweep()
    with pytest.raises(ValueError, match=r"counting\.json holds the results 'flipflop', not 'counting'"):
        read_results(path, "counting")


@cases(2)
@given(
    name=st.one_of(
        st.text(max_size=12), st.sampled_from(["../results/flipflop", "flipflop.json", "flipflop\n", "Flipflop"])
    )
)
def test_a_name_that_is_no_frozen_result_is_refused(name):
    assume(not (Path(__file__).parents[2] / "results" / f"{name}.json").is_file() or name != name.strip())
    with pytest.raises(FileNotFoundError, match="is no frozen result"):
        load_results(name)


def test_methods_of_results_without_any_are_refused():
    with pytest.raises(ValueError, match="methods='rope' is not known"):
        load_results("audit", ["rope"])
    some = load_results("practice", ["rope"])  # arms, and no claims about them
    assert list(some["methods"]) == ["rope"] and "claims" not in some
