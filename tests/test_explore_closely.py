r"""What mutation testing found untested in posenc/explore.py: whole messages, odd values, the commands."""

import base64
import math

import numpy as np
import pytest
import torch

from posenc import explore
from posenc.explore import explorable, slider


def wave(m, n=0, kind="sine"):
    x = np.linspace(0, 1, 5)
    data = [dict(name="wave", x=x, y=np.sin(m * x)), dict(name="other", type="bar", x=["a", "b"], y=[n, 2 * n])]
    return dict(data=data), {"top": float(m + n), "kind": kind}


def declare(fn=wave, **changes):
    arguments = dict(title="A wave", alt="A wave and a bar.", readout="top {top:.2f}", m=range(5), n=[0, 1, 5])
    return explorable(fn, **{**arguments, "kind": ["sine", "line"], **changes})


def one(figure):
    return explorable(lambda m: figure, title="t", alt="t", m=range(3))


def flat(**trace):
    return dict(data=[dict(name="a", **trace)])


def fails(m):
    return {}["x"]


def only_plain(m, /):
    return dict(data=[])


class Odd:
    def __repr__(self):
        return "odd"


# A wrong call -> all that its error says. Indented lines go on.
MESSAGES = """
declare(fn=3) -> fn must be a function of slider values, got 3
declare(title=" ") -> wave: title must be a sentence, got ' '
declare(alt=3) -> wave: alt must be a sentence, got 3
explorable(wave, title="t", alt="t") -> wave: no sliders; pass at least one, such as m=range(0, 51)
declare(readout=3) -> wave: readout must be a text such as 'score {score:.3f}', got 3
declare(readout="{top!r}") -> wave: readout field {top} must be a plain name of a readout
declare(readout="{top.real}") -> wave: readout field {top.real} must be a plain name of a readout
declare(readout="{top:>9}")
    -> wave: readout format '>9' of {top}: use .3f, .2e, .4g, .0%, d, with or without +
declare(readout="{bottom}").record()
    -> test_explore_closely.wave: readout uses {bottom}, but the function returns ['kind', 'top']
declare(depends={"wave": "m"}) -> wave: depends['wave'] must be a list of slider names, got 'm'
declare(depends={"wave": 3}) -> wave: depends['wave'] must be a list of slider names, got 3
declare(depends={"wave": [3]}) -> wave: depends['wave'] names 3; the sliders are ['m', 'n', 'kind']
declare(depends={"wave": ["m", ("n", "m")]}) -> wave: depends['wave'] names 'm' twice
declare(depends={"wave": [("m", "kind")]}) -> wave: depends['wave'] sums 'kind', whose values are words
declare(m=[1]) -> slider 'm': values has 1 entries; a slider needs at least 2
declare(m="ab") -> slider 'm': values must be a range or a list of numbers or strings, got 'ab'
declare(m=b"ab") -> slider 'm': values must be a range or a list of numbers or strings, got b'ab'
declare(m=3) -> slider 'm': values must be a range or a list of numbers or strings, got 3
declare(m=[1, "a"]) -> slider 'm': values mixes numbers and strings: [1, 'a']; use one kind
declare(m=[1, 2, 3, 4, 5, 6, 6]) -> slider 'm': values holds an entry twice: [1, 2, 3, 4, 5, 6, ...]
declare(m=[1, 2, 3, 4, 5, 5]) -> slider 'm': values holds an entry twice: [1, 2, 3, 4, 5, 5]
declare(m=[1, math.inf]) -> slider 'm': values holds inf; use finite numbers, or strings
declare(m=[1, None]) -> slider 'm': values holds None; use finite numbers, or strings
declare(m=slider(range(3), default=9)) -> slider 'm': default is 9, not one of its values [0, 1, 2]
declare(m=slider(range(3), format="g")) -> slider 'm': format must be a function of the value, got 'g'
declare(p=range(3)) -> wave: slider 'p' is no parameter of wave, which takes ['kind', 'm', 'n']
explorable(wave, title="t", alt="t", n=range(3))
    -> wave: parameter 'm' of wave has neither a slider nor a default
declare().fragment(q=3) -> test_explore_closely.wave has no slider 'q'; it has ['m', 'n', 'kind']
declare().fragment(m=77) -> slider 'm' has no value 77; it takes [0, 1, 2, 3, 4]
declare().fragment(m="1") -> slider 'm' has no value '1'; it takes [0, 1, 2, 3, 4]
declare().with_function(k=3) -> with_function: test_explore_closely.wave has no part 'k'; it takes none
declare().with_function(lambda m, n: None)
    -> test_explore_closely.wave: slider 'kind' is no parameter of <lambda>, which takes ['m', 'n']
declare(depends={"wav": ["m"]}).record()
    -> test_explore_closely.wave: depends names 'wav', but the figure has ['wave', 'other', 'layout', 'readout.top',
    'readout.kind']
explorable(fails, title="t", alt="t", m=range(3)).record()
    -> test_explore_closely.fails(m=0) raised KeyError: 'x'
one((dict(data=[]), 3)).call({})
    -> test_explore_closely.lambda: the second part of the result must be a dict of readouts, got int
one(3).record()
    -> test_explore_closely.lambda: the function must return a plotly figure or a dict with 'data' and
    'layout', got int
one({}).record()
    -> test_explore_closely.lambda: the function must return a plotly figure or a dict with 'data' and
    'layout', got dict
one(dict(data=[], config={})).record()
    -> test_explore_closely.lambda: the figure has ['config']; only 'data' and 'layout' are used
one(dict(data=[dict(x=[1])])).record()
    -> test_explore_closely.lambda: trace 0 (scatter) has no name; give each trace its own
one(dict(data=[dict(name="a"), dict(name="a")])).record()
    -> test_explore_closely.lambda: trace name 'a' is taken; give each trace its own (or a uid)
one(dict(data=[dict(name="readout")])).record()
    -> test_explore_closely.lambda: trace name 'readout' is taken; give each trace its own (or a uid)
one(flat(marker_size_ref=3)).record()
    -> test_explore_closely.lambda: trace 'a': attribute 'marker_size_ref': write nested dicts,
    marker=dict(size_ref=...)
one(flat(line=dict(x=[math.inf]))).record()
    -> test_explore_closely.lambda: trace 'a': 'line.x' holds an infinity; use NaN for a gap
one(dict(data=[], layout=dict(x_y=1))).record()
    -> test_explore_closely.lambda: layout: attribute 'x_y': write nested dicts, x=dict(y=...)
one(flat(x=Odd())).record()
    -> test_explore_closely.lambda: a figure cannot hold odd of type Odd; use numbers, strings, lists, dicts
explore.load("rope") -> explorable 'rope': write <module>.<name>, such as rope.rotation_invariance
explore.load("nowhere.x") -> explorable 'nowhere.x': there is no posenc/figures/nowhere.py
"""
MESSAGES = [line.split(" -> ") for line in MESSAGES.strip().replace("\n    ", " ").split("\n")]


@pytest.mark.parametrize("call, message", MESSAGES, ids=range(len(MESSAGES)))
def test_the_whole_message(call, message):
    with pytest.raises((TypeError, ValueError, RuntimeError)) as caught:
        eval(call)
    assert str(caught.value) == message


# Values


@pytest.mark.parametrize(
    "value, expected",
    [
        ([1, 2.5, None], [1.0, 2.5, math.nan]),
        ((1, 2), [1.0, 2.0]),
        (3, 3.0),
        (np.float32(2.5), 2.5),
        (np.array([1, 2], dtype=np.uint8), [1.0, 2.0]),
        ([[1, 2], [3, 4]], [[1.0, 2.0], [3.0, 4.0]]),
        ([np.array([1, 2]), (3, 4)], [[1.0, 2.0], [3.0, 4.0]]),
        ([torch.tensor([1, 2]), torch.tensor([3, 4])], [[1.0, 2.0], [3.0, 4.0]]),
        (torch.tensor([0.5, 1.5], requires_grad=True), [0.5, 1.5]),
        ({"dtype": "i2", "bdata": base64.b64encode(np.array([1, -2], "<i2").tobytes()).decode()}, [1.0, -2.0]),
        (
            {"dtype": "f8", "bdata": base64.b64encode(np.arange(4.0).tobytes()).decode(), "shape": "2, 2"},
            [[0.0, 1.0], [2.0, 3.0]],
        ),
        (
            {"dtype": "f8", "bdata": base64.b64encode(np.arange(4.0).tobytes()).decode(), "shape": [4, 1]},
            [[0.0], [1.0], [2.0], [3.0]],
        ),
    ],
)
def test_what_counts_as_an_array(value, expected):
    array = explore._array(value)
    assert array.dtype == np.float64 and array.shape == np.shape(expected)
    np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize(
    "value",
    ["a", ["a", 1], [True, 1], True, np.bool_(True), [[1, 2], [3]], [[1], ["a"]], [1, [2]], None, {"x": 1},
     {"dtype": "f8"}, np.array(["a"]), [object], [{}]],
    ids=repr,
)  # fmt: skip
def test_what_is_no_array(value):
    assert explore._array(value) is None


@pytest.mark.parametrize(
    "value, expected",
    [
        (1.0, "1"), (0.12345678901, "0.1234568"), (1e15, "1000000000000000.0"), (-2.0, "-2"), (math.nan, "None"),
        (True, "True"),
        (None, "None"), ("a", "'a'"), ((1, 2.5), "[1, 2.5]"), (np.float64(0.5), "0.5"),
        (np.array([1.0, 0.5]), "[1, 0.5]"),
        (torch.tensor([1.0, 0.5]), "[1, 0.5]"), ({1: (2.0,)}, "{'1': [2]}"), (999999999999999.0, "999999999999999"),
    ],
)  # fmt: skip
def test_plain_values(value, expected):
    assert repr(explore._plain(value)) == expected


@pytest.mark.parametrize(
    "value, expected",
    [(3, "3"), (3.0, "3"), (0.1, "0.1"), (-2.5, "-2.5"), (1e15, "1000000000000000.0"), (1e14, "100000000000000")],
)
def test_numbers_in_links(value, expected):
    assert explore._number(value) == expected


def test_what_is_stored_of_arrays():
    row = np.array([0.0, 2.0])
    record = explore.encode_arrays([row, row + 1])
    data = base64.b64encode(bytes([0, 2, 1, 3])).decode()
    assert record == {"type": "u1", "min": 0.0, "step": 1.0, "data": data, "shape": [2]}
    record = explore.encode_arrays([row, row])
    assert record["index"] == 0 and record["shape"] == [2]
    record = explore.encode_arrays([row, row + 1, row, np.array([7.0])])
    assert record["shapes"] == [[2], [2], [1]]
    assert base64.b64decode(record["index"]) == np.array([0, 1, 0, 2], "<u2").tobytes()
    record = explore.encode_arrays([np.array([0.5, math.nan, 1.5])])
    assert (record["type"], record["min"], record["step"]) == ("u2", 0.5, 1 / 65534)
    assert base64.b64decode(record["data"]) == np.array([0, 65535, 65534], "<u2").tobytes()
    record = explore.encode_arrays([np.array([0.5, 1e-9])], precise=True)
    assert (record["type"], record["min"], record["step"]) == ("f4", 0.0, 1.0)
    assert base64.b64decode(record["data"]) == np.array([0.5, 1e-9], "<f4").tobytes()
    assert explore.encode_arrays(["b", ["ü"], "b"]) == {
        "type": "json",
        "rows": ["b", ["ü"]],
        "index": base64.b64encode(np.array([0, 1, 0], "<u2").tobytes()).decode(),
    }


def test_which_axes_are_logarithmic():
    layout = {"xaxis.type": "log", "yaxis2.type": "log"}
    assert explore._on_log("x", {}, layout) and explore._on_log("y", {"yaxis": "y2"}, layout)
    assert not explore._on_log("y", {}, layout) and not explore._on_log("z", {}, {"zaxis.type": "log"})
    assert not explore._on_log("x", {"xaxis": "x2"}, layout)


# Sliders, links, states


def test_words_label_and_start():
    made = declare(m=slider([0.5, 1.0, 2.0], default=1, label="size"), n=slider([1, 2], format=lambda v: f"{v} tokens"))
    assert (made.sliders["m"].label, made.sliders["m"].words, made.sliders["m"].start) == ("size", ("0.5", "1", "2"), 1)
    assert (made.sliders["n"].label, made.sliders["n"].words) == ("n", ("1 tokens", "2 tokens"))
    assert made.sliders["kind"].words == ("sine", "line")
    assert made.default_state() == {"m": 1.0, "n": 1, "kind": "sine"}
    assert declare(m=slider(np.array([1, 2]))).sliders["m"].values == (1, 2)


def test_links_say_numbers_and_words():
    made = declare(kind=["a b", "ü,:"], m=[0.25, 2.0])
    assert made.fragment(m=2, kind="ü,:") == "#test_explore_closely.wave=m:2,kind:%C3%BC%2C%3A"
    assert made.parse("#x=m:1&test_explore_closely.wave=m:2,kind:%C3%BC%2C%3A&y=") == {
        "m": 2.0,
        "n": 0,
        "kind": "ü,:",
    }
    assert made.parse("test_explore_closely%2Ewave=m:2")["m"] == 2.0


def test_random_states_are_seeded_and_begin_with_the_default():
    made = declare()
    states = made.random_states(30)
    assert len(states) == 30 and states[0] == made.default_state()
    assert states == declare().random_states(30) != declare().random_states(30, seed=1)
    for name, s in made.sliders.items():
        assert {state[name] for state in states} == set(s.values)


def test_an_explorable_shows_its_name():
    assert repr(declare()) == "<explorable test_explore_closely.wave: m, n, kind>"


# Pictures and commands


def test_the_picture_of_one_shows_the_state_it_should():
    made = explore.load("alibi." + next(k for k in explore.all_explorables() if k.startswith("alibi."))[6:])
    found = explore._STATE.search(made.picture().read_text("utf-8"))
    assert found and explore.same_fingerprint(found.group(1), made.fingerprint())


@pytest.mark.parametrize(
    "other, same",
    [
        ("a;1:2:10", True), ("a;1.001:2:10", True), ("a;1:2.001:10", True), ("a;1.002:2:10", False),
        ("a;1:2.002:10", False), ("b;1:2:10", False), ("a", False), ("a;1:2:10;0:0:0", False),
    ],
)  # fmt: skip
def test_fingerprints_agree_up_to_rounding(other, same):
    assert explore.same_fingerprint("a;1:2:10", other) is same
    assert explore.same_fingerprint("a;1:2:1e6", "a;10:2:1e6") and not explore.same_fingerprint("a;1:2:9", "a;10:2:9")


def test_plotlys_svg_is_tidied():
    svg = ' <svg class="m"><g id="clipab12cd-1"/><a href="#clipab12cd-1" d="M1.23456,2.5001L30.000,4.12"/></svg> '
    assert explore._tidy_svg(svg, "a;1:2<") == (
        '<svg data-posenc-state="a;1:2&lt;" class="m"><g id="clipposenc-1"/>'
        '<a href="#clipposenc-1" d="M1.23,2.5L30,4.12"/></svg>\n'
    )


def test_chromium_is_found_under_each_name(monkeypatch):
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        monkeypatch.setattr("shutil.which", lambda asked, name=name: f"/bin/{name}" if asked == name else None)
        assert explore.find_chromium() == f"/bin/{name}"
    monkeypatch.setattr("shutil.which", lambda asked: None)
    monkeypatch.setattr("os.path.exists", lambda path: False)
    assert explore.find_chromium() is None
    monkeypatch.setattr("os.path.exists", lambda path: True)
    assert explore.find_chromium() == "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"


def test_the_commands(monkeypatch, capsys, tmp_path):
    shown = {"a.b": declare()}
    monkeypatch.setattr(explore, "all_explorables", lambda: shown)
    monkeypatch.setattr(explore, "load", lambda id: shown[id])
    monkeypatch.setattr(explore, "stale_pictures", lambda: [])
    assert explore.main(["check"]) == 0
    assert capsys.readouterr().out == "1 pictures show the state they should\n"
    monkeypatch.setattr(explore, "stale_pictures", lambda: ["a.b has no picture", "c"])
    assert explore.main(["check"]) == 1
    assert capsys.readouterr().out == "a.b has no picture\nc\n"
    for arguments in (["sizes"], ["sizes", "a.b"]):
        assert explore.main(arguments) == 0
        lines = capsys.readouterr().out.split("\n")
        size = len(shown["a.b"].data_js().encode())
        assert lines[0] == (
            f"test_explore_closely.wave: {size:,} bytes; "
            "states: {'wave': 30, 'other': 30, 'readout.top': 30, 'readout.kind': 30}"
        )
        assert lines[1].startswith("    wave.y: u2, ") and lines[1].endswith(" bytes")
    monkeypatch.setattr(explore, "draw_pictures", lambda ids: [tmp_path / id for id in ids])
    monkeypatch.chdir(tmp_path)
    assert explore.main(["pictures", "x", "y"]) == 0
    assert capsys.readouterr().out == "x\ny\n"
    assert explore.main([]) == explore.main(["draw"]) == 2
    usage = "usage: python -m posenc.explore pictures [id ...] | check | sizes [id ...]\n"
    assert capsys.readouterr().err == 2 * usage
