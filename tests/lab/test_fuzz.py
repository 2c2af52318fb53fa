r"""Whatever stands in a file or an address: the right value or an error that names it, and no code is run.

Drawn by hypothesis: `profiles.py` says how many cases. The states of explorables are read back by Python and by the
player's own script in a browser; checkpoints and results are cut, altered and replaced.
"""

import argparse
import base64
import copy
import dataclasses
import gzip
import io
import json
import math
import pickle
import re
import struct
import zipfile
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from profiles import cases
from states import fragment, parse

from posenc.lab.experiments import load_results, read_json, verdict, write_json
from posenc.lab.experiments.results import read_cell, read_results
from posenc.lab.explore import STATIC, explorable, slider
from posenc.lab.explore.arrays import decode_arrays, encode_arrays, same_fingerprint
from posenc.lab.figures import all_explorables
from posenc.lab.figures import load as load_explorable
from posenc.lab.figures.pictures import main
from posenc.lab.train import Settings, load, settings_for, train_with
from posenc.lab.train.checkpoints import FORMAT
from posenc.lab.train.command import change

# ------------------------------------------------------------------------------------------- the states of explorables

anything = st.one_of(
    st.floats(-1e30, 1e30),
    st.just(math.nan),
    st.just(-0.0),
    st.integers(-300, 300).map(float),
    st.integers(-(2**53), 2**53).map(float),
    st.floats(-1e-30, 1e-30),
    st.sampled_from([5e-324, 1e-300, 3e38, -3e38]),
)
plain_numbers = st.one_of(st.floats(-30, 30), st.just(math.nan), st.integers(-200, 70000).map(float))


@st.composite
def states_of(draw, elements=None):
    """One array a state, as an explorable's trace gives them: any shapes; spread, shifted, constant or repeated."""
    elements = draw(st.sampled_from([anything, plain_numbers])) if elements is None else elements
    shapes = hnp.array_shapes(min_dims=draw(st.integers(0, 1)), max_dims=2, min_side=0, max_side=5)
    shape = draw(shapes)
    same = draw(st.booleans())
    arrays = [
        draw(hnp.arrays(np.float64, shape if same else draw(shapes), elements=elements))
        for _ in range(draw(st.integers(1, 6)))
    ]
    shift, scale = draw(st.sampled_from([0.0, 1e6, -1e12])), draw(st.sampled_from([1.0, 1e-3, 1e-40]))
    arrays = [np.asarray(a * scale + shift) for a in arrays]
    again = draw(st.lists(st.integers(0, len(arrays) - 1), max_size=4))
    return arrays + [arrays[i].copy() for i in again]


def is_close(found, array, precise):
    """Within what `encode_arrays` promises: NaN where NaN was, numbers off by less than 5e-4 or float32's share."""
    real = array[~np.isnan(array)]
    assert found.shape == array.shape and np.array_equal(np.isnan(found), np.isnan(array))
    off = np.abs(found - array)[~np.isnan(array)]
    wide = 1e-7 * np.abs(real) + 1e-37  # float32, whose smallest numbers are coarser
    assert (off <= wide + (0 if precise else 5e-4)).all(), (found, array)


def exact_where_whole(found, arrays):
    real = np.concatenate([a[~np.isnan(a)] for a in arrays])
    if real.size and np.array_equal(real, np.round(real)) and real.max() - real.min() <= 65534:
        for back, array in zip(found, arrays):
            np.testing.assert_array_equal(back, array)


@cases(5)
@given(arrays=states_of(), precise=st.booleans())
@example(arrays=[np.array([0.0, 65535 * 5e-324, 4e-319])], precise=False)  # steps of 5e-324 would meet the gap's code
@example(arrays=[np.array([-1e38, 1e38])], precise=False)
def test_arrays_come_back_whatever_they_hold(arrays, precise):
    record = json.loads(json.dumps(encode_arrays(arrays, precise), allow_nan=False))
    found = [decode_arrays(record, state) for state in range(len(arrays))]
    for back, array in zip(found, arrays):
        is_close(back, array, precise)
    exact_where_whole(found, arrays)


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**9), 10**9), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=6,
)


@cases(2)
@given(values=st.lists(json_values, min_size=1, max_size=6))
def test_words_come_back_as_they_were(values):
    record = json.loads(json.dumps(encode_arrays(values)))
    for state, value in enumerate(values):
        found = decode_arrays(record, state)
        assert found == value and json.dumps(found) == json.dumps(value), "True is not 1"


@cases()
@given(arrays=states_of(plain_numbers), where=st.integers(0, 99), bad=st.sampled_from([math.inf, -math.inf, 1e300]))
def test_what_a_page_cannot_hold_is_refused(arrays, where, bad):
    """An infinity, or a number that float32 would make one."""
    array = next((a for a in arrays if a.size), None)
    assume(array is not None and len(arrays) > 1)
    array.flat[where % array.size] = bad
    with pytest.raises(ValueError, match="infinit|too large"):
        e = explorable(lambda m: dict(data=[dict(name="t", y=arrays[m])]), title="t", alt="t", m=range(len(arrays)))
        e.record()


@pytest.mark.parametrize("bad", [math.inf, -math.inf])
@pytest.mark.parametrize("place", [lambda v: {"text": ["a", v]}, lambda v: {"x": [[1, "a"], [v]]}, lambda v: {"x": v}])
def test_an_infinity_among_words_is_refused_by_name(place, bad):
    e = explorable(lambda m: dict(data=[dict(name="t", **place(bad))]), title="t", alt="t", m=range(2))
    with pytest.raises(ValueError, match="infinity; use NaN"):
        e.record()


# The player, in a browser: its own script reads what Python wrote

SHOW = """async ([prefix, markup, plotly, count]) => {
    document.body.innerHTML = markup;
    await posencExplorables.notebook(prefix, plotly);
    const [e] = posencExplorables.list;
    await e.start();
    const flat = (v) => ArrayBuffer.isView(v) || Array.isArray(v) ? Array.from(v, flat)
        : v === null || Number.isNaN(v) ? "NaN" : Object.is(v, -0) ? 0 : v; // both are gaps for plotly
    const out = [];
    for (let m = 0; m < count; m++) {
        e.set({m});
        await e.draw();
        const [trace] = e.figure.querySelector(".explorable-drawing").data;
        const held = ["y", "z", "text", "width"].filter((k) => k in trace);
        out.push(Object.fromEntries(held.map((k) => [k, flat(trace[k])])));
    }
    posencExplorables.list.length = 0;
    return out;
}"""
PLOTLY = "window.Plotly = {react: (sheet, data, layout) => Promise.resolve(Object.assign(sheet, {data, layout}))}"


@pytest.fixture(scope="module")
def player(browser):
    """show(e, count) -> what plotly is given at each value of the slider m, by the player's script."""
    context = browser.new_context()
    context.set_default_timeout(20_000)
    page = context.new_page()
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.set_content("<!doctype html><body></body>")
    page.add_script_tag(content=(STATIC / "player.js").read_text("utf-8"))
    plotly = base64.b64encode(gzip.compress(PLOTLY.encode())).decode()

    def show(e, count):
        body = e.body_html("fuzz", None, inline=True)
        markup = f'<figure class="explorable explorable-notebook" id="fuzz">{body}</figure>'
        found = page.evaluate(SHOW, ["fuzz", markup, plotly, count])
        assert not problems, problems
        return found

    yield show
    context.close()


def as_plain(value):
    """Numbers and NaN as the browser sends them."""
    if isinstance(value, list):
        return [as_plain(v) for v in value]
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


@pytest.mark.weekly
@pytest.mark.browser
@cases(0.7)
@given(arrays=states_of(plain_numbers), words=st.lists(st.text(max_size=5), min_size=2, max_size=4))
def test_the_player_reads_what_python_reads(player, arrays, words):
    rank = max(1, max(a.ndim for a in arrays))
    arrays = [a for a in arrays if a.ndim == rank]
    assume(len(arrays) > 1)
    kind = "z" if rank == 2 else "y"

    def figure(m):
        trace = {"name": "t", kind: arrays[m], "text": [words[m % len(words)], "&<>"], "width": [m, math.nan]}
        return dict(data=[trace])

    e = explorable(figure, title="t", alt="t", m=slider(range(len(arrays)), label="m"))
    shown = player(e, len(arrays))
    for m, found in enumerate(shown):
        for path, value in e.decode({"m": m})["t"].items():
            if path not in ("type", "name"):
                value = value.tolist() if isinstance(value, np.ndarray) else value
                if path == "text":
                    value = [word or " " for word in value]  # an empty label, as plotly takes it
                assert found[path] == as_plain(value), (m, path)


# --------------------------------------------------------------------------------------------- addresses and names

figures = [
    explorable(lambda a, b: dict(data=[]), title="t", alt="t", a=[-2.5, 1e-9, 7, 1e6], b=["x", "a,b:c&d=e%#", "ü ☃"]),
    explorable(lambda a: dict(data=[]), title="t", alt="t", a=range(-3, 9)),
]


@cases(3)
@given(e=st.sampled_from(figures), data=st.data())
def test_any_state_survives_its_link(e, data):
    state = {name: data.draw(st.sampled_from(s.values)) for name, s in e.sliders.items()}
    assert parse(e, fragment(e, **state)) == state
    other = "#other.one=a:3&" + fragment(e, **state)[1:] + "&=&x"
    assert parse(e, other) == state, "what belongs to other figures is passed over"


numbers = st.one_of(
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(0, 10**500).map(str),
    st.from_regex(r"[+-]?[0-9]{1,4}(\.[0-9]{0,3})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
).map(str)


@cases(3)
@given(e=st.sampled_from(figures), text=numbers)
@example(e=figures[0], text="1e999")
@example(e=figures[1], text="-" + "9" * 400)
def test_a_number_in_a_link_goes_to_the_nearest_value(e, text):
    found = parse(e, f"#{e.id}=a:{text.replace('+', '%2B')}")["a"]
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", text):
        assert found == e.sliders["a"].default
        return
    wanted = min(max(float(text), -1e7), 1e7)  # beyond the ends, and still told apart from them
    assert abs(found - wanted) == min(abs(v - wanted) for v in e.sliders["a"].values)


@pytest.mark.parametrize("text", ["٣", "³", "１", "1_0", "0x1", "inf", "nan", "", " 1", "1\n", "--1", "1e", "e1"])
def test_what_is_no_number_for_the_player_is_none_here(text):
    e = figures[1]
    assert parse(e, f"#{e.id}=a:{quote(text)}") == e.default_state()


@cases(3)
@given(id=st.one_of(st.text(max_size=20), st.from_regex(r"[a-z_.]{1,12}\.[a-z_]{1,8}", fullmatch=True)))
@example(id="rope.rotation_invariance\n")
@example(id="__init__.x")
@example(id="os.system")
@example(id="..rope.x")
@example(id="rope.__builtins__")
def test_a_name_that_is_no_explorable_is_refused(id):
    assume(id not in all_explorables())
    with pytest.raises(ValueError, match="explorable "):
        load_explorable(id)


@cases(2)
@given(
    one=st.text(alphabet="0123456789abcdef;:.-e", max_size=30), two=st.text(alphabet="0123456789;:.naif", max_size=30)
)
@example(one="ab;1:2", two="ab;1:2")
@example(one="ab;x:y:z", two="ab;1:2:3")
def test_a_damaged_fingerprint_is_another_one(one, two):
    """It stands in a picture's file: what can't be read is stale."""
    fresh = figures[1].fingerprint()
    for text in (one, two):
        assert same_fingerprint(text, fresh) in (True, False)
    assert isinstance(same_fingerprint(one, two), bool)
    assert same_fingerprint(fresh, fresh)


@pytest.mark.parametrize("arguments", [[], ["picture"], ["sizes", "x"], ["check", "x"], ["pictures", "nowhere.x"]])
def test_the_command_refuses_what_it_does_not_know(arguments, capsys):
    try:
        assert main(arguments) != 0
    except ValueError as error:
        assert "explorable" in str(error) and arguments[-1] in str(error)


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
