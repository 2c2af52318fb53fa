r"""What mutation testing found untested in posenc/lab/explore/core.py: whole messages, odd values, the commands."""

import base64
import hashlib
import itertools
import math

import numpy as np
import pytest
import torch

from posenc.lab.explore import core as explore
from posenc.lab.explore import explorable, slider


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


def added(m, n, X=0):
    return dict(data=[dict(name="a", x=[m + n]), dict(name="b", x=[m - 2 * X])])


def sums(**changes):
    return explorable(added, **{**dict(title="t", alt="t", m=range(3), n=range(3)), **changes})


def appears(m):
    return dict(data=[dict(name=name) for name in "ab"[: m + 1]])


count = itertools.count()


def never_the_same(m):
    return flat(x=[next(count)])


def holds(data, layout):
    return dict(traces=["a"], tables=[], figure=dict(data=[data], layout=layout))


class Odd:
    def __repr__(self):
        return "odd"


class Plotly:
    """A trace as plotly's own classes hand it on."""

    def to_plotly_json(self):
        return dict(name="a", type="bar", x=[1, 2])


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
one(flat(x=range(3))).record()
    -> test_explore_closely.lambda: a figure cannot hold range(0, 3) of type range; use numbers, strings, lists, dicts
one(flat(x=["a", math.inf])).record()
    -> test_explore_closely.lambda: a figure holds an infinity; use NaN for a gap
one((flat(), {"top": math.inf})).record()
    -> test_explore_closely.lambda: readout: 'top' holds an infinity; use NaN for a gap
one(dict(data=[dict(name="a"), dict(name=3, type="bar")])).record()
    -> test_explore_closely.lambda: trace 1 (bar) has no name; give each trace its own
explore.encode_arrays([np.array([1.0, -1e39, math.nan])])
    -> -1e+39 is too large for a page, which holds float32
declare(fn=lambda m, n, kind: {}["x"]).record()
    -> test_explore_closely.lambda(m=0, n=0, kind='sine') raised KeyError: 'x'
explorable(appears, title="t", alt="t", m=range(2)).record()
    -> test_explore_closely.appears: trace ['b'] appears only at {'m': 1}; every state has the same traces
explorable(never_the_same, title="t", alt="t", m=range(2)).record()
    -> test_explore_closely.never_the_same: 'a' (x) at {'m': 0}: the function does not return the same for the same
    values
sums(depends={"b": [("m", "-X")]}, X=range(1, 3)).record()
    -> test_explore_closely.added: 'b' (x) at {'m': 0, 'n': 0, 'X': 1}: it is not a function of the sum of
    [['m', '-X']]; the function is called with the first at the sum, the others at 0
sums(m=range(41), n=range(0, 2050, 41), depends={"a": [("m", "n")]}).record()
    -> test_explore_closely.added: trace 'a' has 2,050 states, more than 2,000; declare its sliders in depends, or give
    the sliders fewer values
declare(m=range(50), n=range(50), depends={"wave": ["m"], "other": ["n"]}).record()
    -> test_explore_closely.wave: 'readout.top' has 5,000 states, more than 2,000; declare its sliders in depends, or
    give the sliders fewer values
declare().decode({}, holds(dict(x_y=1), {}))
    -> a: attribute 'x_y': write nested dicts, x=dict(y=...)
declare().decode({}, holds({}, dict(x_y=1)))
    -> layout: attribute 'x_y': write nested dicts, x=dict(y=...)
explore.load("rope") -> explorable 'rope': write <module>.<name>, such as rope.rotation_invariance
explore.load("nowhere.x") -> explorable 'nowhere.x': there is no posenc/lab/figures/nowhere.py
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
        ([torch.tensor([1.0, 2.0], requires_grad=True)], [[1.0, 2.0]]),
        ([2**70], [2.0**70]),
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
    [
        "a",
        ["a", 1],
        [True, 1],
        [np.True_, 1],
        True,
        np.bool_(True),
        [[1, 2], [3]],
        [[1], ["a"]],
        [1, [2]],
        None,
        {"x": 1},
        {"dtype": "f8"},
        np.array(["a"]),
        [object],
        [{}],
        [["1", "2"]],
        [[True, 1]],
        range(3),
    ],
    ids=repr,
)
def test_what_is_no_array(value):
    assert explore._array(value) is None


@pytest.mark.parametrize(
    "value, expected",
    [
        (1.0, "1"),
        (0.12345678901, "0.1234568"),
        (1e15, "1000000000000000.0"),
        (-2.0, "-2"),
        (math.nan, "None"),
        (True, "True"),
        (None, "None"),
        ("a", "'a'"),
        ((1, 2.5), "[1, 2.5]"),
        (np.float64(0.5), "0.5"),
        (np.int64(3), "3"),
        (np.float32(0.5), "0.5"),
        (np.bool_(True), "True"),
        (np.array([1.0, 0.5]), "[1, 0.5]"),
        (torch.tensor([1.0, 0.5]), "[1, 0.5]"),
        ({1: (2.0,)}, "{'1': [2]}"),
        (999999999999999.0, "999999999999999"),
    ],
)
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


def test_text_that_never_changes_is_stored_once():
    assert explore.encode_arrays(["a", "a"]) == {"type": "json", "rows": ["a"], "index": 0}
    assert explore.encode_arrays([{"a": 1}, {"a": 2.0}]) == {"type": "json", "rows": [{"a": 1}, {"a": 2}]}


def test_gaps_alone_are_stored_as_whole_numbers():
    record = explore.encode_arrays([np.array([math.nan, math.nan])])
    data = base64.b64encode(bytes([255, 255])).decode()
    assert record == {"type": "u1", "min": 0.0, "step": 1.0, "data": data, "shape": [2], "index": 0}


@pytest.mark.parametrize("span, kind", [(65534 * 9e-4, "u2"), (65534.5 * 9e-4, "f4")])
def test_where_two_bytes_no_longer_do(span, kind):
    assert explore.encode_arrays([np.array([0.0, span])])["type"] == kind


def test_the_largest_number_of_four_bytes_is_stored():
    largest = float(np.finfo(np.float32).max)
    record = explore.encode_arrays([np.array([0.5, -largest])])
    assert explore.decode_arrays(record, 0).tolist() == [0.5, -largest]


@pytest.mark.parametrize(
    "one, two, same",
    [
        ([1.0, math.nan], [1.0, math.nan], True),
        ([1.0], [1.0005], True),
        ([1.0], [1.5], False),
        ([1.0], [[1.0]], False),
        ([], np.zeros((0, 3)), True),  # JSON knows no shape of an empty heat map
        ([], [1.0], False),
        ([1.0], [], False),
        ([1.0, 2.0], "text", False),
        ("text", [1.0, 2.0], False),
        ([1.0], None, False),
        ("text", "text", True),
        ("text", "Text", False),
    ],
)
def test_which_values_draw_the_same(one, two, same):
    one, two = (v if v is None or isinstance(v, str) else np.array(v) for v in (one, two))
    assert explore._same(one, two) is same


def test_traces_of_plotly_and_frames_are_taken():
    leaves = explore.figure_leaves(dict(data=[Plotly()], frames=[]))
    assert leaves["a"].pop("x").tolist() == [1, 2]
    assert leaves == {"a": {"name": "a", "type": "bar"}, "layout": {}, "readout": {}}


def test_readouts_may_have_an_underscore_in_their_names():
    readouts = explore.figure_leaves(flat(), {"top_k": 3, "all_of_it": "text", "gap": None})["readout"]
    assert readouts == {"top_k": 3.0, "all_of_it": "text", "gap": None}
    assert isinstance(readouts["top_k"], np.ndarray) and readouts["top_k"].dtype == np.float64


# What a page holds


def packed(kind, *codes):
    return base64.b64encode(np.array(codes, dtype=kind).tobytes()).decode()


def tiny(m, kind):
    line = dict(name="line", x=[0.5, math.nan], y=[m, m + 1], line=dict(color="red", width=3))
    bar = dict(name="bar", type="bar", x=["a", kind], y=list(range(17)))
    layout = dict(xaxis=dict(title=dict(text="x")), yaxis=dict(range=[0, m]))
    return dict(data=[line, bar], layout=layout), {"half": m / 2, "kind": kind}


def test_the_whole_record():
    made = explorable(
        tiny,
        title="t",
        alt="t",
        readout="{half} {kind}",
        depends={"line": ["m"], "bar": ["kind"], "layout": ["m"], "readout": ["kind"], "readout.half": ["m"]},
        m=[1, 2],
        kind=slider(["sine", "line"], default="line", format=str.upper),
    )
    whole = {"type": "u1", "min": 0.0, "step": 1.0}
    m, kind = ([{"of": [[k, 1]]}] for k in range(2))
    assert made.record() == {
        "id": "test_explore_closely.tiny",
        "sliders": [
            {"name": "m", "values": [1, 2], "words": ["1", "2"], "start": 0},
            {"name": "kind", "values": ["sine", "line"], "words": ["SINE", "LINE"], "start": 1},
        ],
        "readout": "{half} {kind}",
        "traces": ["line", "bar"],
        "figure": {
            "data": [
                {"type": "scatter", "name": "line", "x": [0.5, None], "line": {"color": "red", "width": 3}},
                {"type": "bar", "name": "bar"},
            ],
            "layout": {"xaxis": {"title": {"text": "x"}}},
        },
        "tables": [
            {
                "item": "line",
                "target": ["data", 0],
                "groups": m,
                "arrays": {"y": {**whole, "min": 1.0, "data": packed("u1", 0, 1, 1, 2), "shape": [2]}},
            },
            {
                "item": "bar",
                "target": ["data", 1],
                "groups": kind,
                "arrays": {
                    "x": {"type": "json", "rows": [["a", "sine"], ["a", "line"]]},
                    "y": {**whole, "data": packed("u1", *range(17)), "shape": [17], "index": 0},
                },
            },
            {
                "item": "layout",
                "target": ["layout"],
                "groups": m,
                "arrays": {"yaxis.range": {**whole, "data": packed("u1", 0, 1, 0, 2), "shape": [2]}},
            },
            {
                "item": "readout.half",
                "target": ["readout"],
                "groups": m,
                "arrays": {"half": {**whole, "type": "f4", "data": packed("<f4", 0.5, 1), "shape": []}},
            },
            {
                "item": "readout.kind",
                "target": ["readout"],
                "groups": kind,
                "arrays": {"kind": {"type": "json", "rows": ["sine", "line"]}},
            },
        ],
    }


@pytest.mark.parametrize("count, stored", [(16, False), (17, True)])
def test_from_which_size_an_array_that_never_changes_is_packed(count, stored):
    x = np.arange(count) / 32
    made = explorable(lambda m: flat(x=x), title="t", alt="t", depends={"a": []}, m=range(2))
    assert bool(made.record()["tables"]) is stored is ("x" not in made.record()["figure"]["data"][0])
    np.testing.assert_allclose(made.decode({"m": 1})["a"]["x"], x, atol=5e-4)


def test_an_attribute_may_be_numbers_in_one_state_and_text_in_another():
    made = explorable(lambda m: flat(x=[[1, 2], ["a", "b"], ["a", "c"]][m]), title="t", alt="t", m=range(3))
    first = made.decode({"m": 0})["a"]["x"]
    assert first.dtype == np.float64 and first.tolist() == [1, 2]
    assert [made.decode({"m": m})["a"]["x"] for m in (1, 2)] == [["a", "b"], ["a", "c"]]


def test_a_text_that_moves_is_stored():
    made = explorable(lambda m: flat(fill=["none", "toself"][m]), title="t", alt="t", m=range(2))
    assert [made.decode({"m": m})["a"]["fill"] for m in range(2)] == ["none", "toself"]


def test_sums_of_fractions_are_told_apart_by_nine_digits():
    made = sums(m=[0.1, 0.2, 1.23456789012], n=[0.0, 0.1, 0.2], depends={"a": [("m", "n")], "b": ["m"]})
    table = next(t for t in made.record()["tables"] if t["item"] == "a")
    assert table["groups"] == [
        {"of": [[0, 1], [1, 1]], "sums": [0.1, 0.2, 0.3, 0.4, 1.23456789, 1.33456789, 1.43456789]}
    ]


def test_the_second_of_a_sum_is_at_zero_whatever_its_default():
    made = sums(n=slider(range(3), default=2), depends={"a": [("m", "n")], "b": ["m"]})
    assert [made.decode({"m": 1, "n": n})["a"]["x"].tolist() for n in range(3)] == [[1], [2], [3]]


def test_a_slider_of_a_difference_may_have_any_name():
    made = explorable(
        lambda m, X: flat(x=[m - X]), title="t", alt="t", depends={"a": [("m", "-X")]}, m=range(3), X=range(3)
    )
    assert made.record()["tables"][0]["groups"] == [{"of": [[0, 1], [1, -1]], "sums": [-2, -1, 0, 1, 2]}]


def test_every_slider_that_depends_does_not_name_is_named():
    made = sums(depends={"a": []})
    state = next(s for s in made.random_states(24) if s["m"] + s["n"])
    with pytest.raises(ValueError) as caught:
        made.record()
    assert str(caught.value) == (
        f"test_explore_closely.added: 'a' (x) at {state}: it moves with 'm', 'n', which depends does not name for it"
    )


def test_as_many_states_as_a_trace_may_have(monkeypatch):
    monkeypatch.setattr(explore, "MAX_STATES", 9)
    assert [len(t["groups"]) for t in sums().record()["tables"]] == [2, 2]
    with pytest.raises(ValueError, match="trace 'a' has 12 states, more than 9;"):
        sums(n=range(4)).record()


def test_how_often_the_function_is_called():
    calls = []

    def counted(m, n):
        calls.append((m, n))
        return dict(data=[dict(name="a", x=[m]), dict(name="b", x=[-m]), dict(name="c", x=[n])])

    depends = {"a": ["m"], "b": ["m"], "c": ["n"]}
    made = explorable(counted, title="t", alt="t", depends=depends, m=range(5), n=range(7))
    assert made.record() is made.record()
    # What there is; the values of m, once for two traces; those of n; the layout; the random states that are checked.
    assert len(calls) == 1 + 5 + 7 + 1 + 24


def test_two_states_that_a_slider_tells_apart():
    made = explorable(
        lambda m, n, k: flat(x=[m if n == 9 else 0]),
        title="t",
        alt="t",
        depends={"a": ["m", "n"]},
        m=range(30),
        n=range(10),
        k=range(30),
    )
    before, after = made.moving("m")
    assert before == next(state for state in made.random_states(40, seed=1) if state["n"] == 9)
    assert after == {**before, "m": after["m"]} != before
    assert [made.moving("m") for _ in range(3)] == 3 * [(before, after)]
    seen = []
    made.decode = lambda state: seen.append(state) or {}
    assert made.moving("k") is None and len(seen) == 40 * (1 + 20)


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
    assert made.parse("#x=m:1&test_explore_closely.wave=m:2,kind:%C3%BC%2C%3A&y=") == {"m": 2.0, "n": 0, "kind": "ü,:"}
    assert made.parse("test_explore_closely%2Ewave=m:2")["m"] == 2.0


@pytest.mark.parametrize(
    "body, expected",
    [
        ("m:3E0", dict(m=3)),
        ("m:30e-1", dict(m=3)),
        ("kind:a=b", dict(kind="a=b")),
        ("kind:a:c", dict(kind="a:c")),
        ("kind:%FF,m:1", dict(m=1)),
    ],
)
def test_links_written_by_hand(body, expected):
    made = declare(kind=["sine", "a=b", "a:c"])
    assert made.parse(f"#{made.id}={body}") == {**made.default_state(), **expected}


@pytest.mark.parametrize(
    "readout, value, text",
    [
        (None, 1.0, ""),
        ("{x}", 0.5, "0.5"),
        ("{x}", 1e-9, "1e-09"),
        ("{x:d}", np.array(3.0), "3"),
        ("{x:d}", torch.tensor(3.0), "3"),
        ("{x}!", np.array("word"), "word!"),
        ("{x:.1f}", np.float32(0.5), "0.5"),
    ],
)
def test_readouts_of_any_kind_in_words(readout, value, text):
    assert declare(readout=readout).readout_text({"x": value}) == text


def test_another_function_has_another_id():
    own = declare().with_function(lambda m, n, kind: wave(m))
    assert own.id == "test_explore_closely.wave.own"


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
        ("a;1:2:10", True),
        ("a;1.001:2:10", True),
        ("a;1:2.001:10", True),
        ("a;1.002:2:10", False),
        ("a;1:2.002:10", False),
        ("b;1:2:10", False),
        ("a", False),
        ("a;1:2:10;0:0:0", False),
        ("a;1:2", False),
        ("a;1:2:ten", False),
    ],
)
def test_fingerprints_agree_up_to_rounding(other, same):
    assert explore.same_fingerprint("a;1:2:10", other) is same
    assert explore.same_fingerprint("a;1:2:1e6", "a;10:2:1e6") and not explore.same_fingerprint("a;1:2:9", "a;10:2:9")


def test_fingerprints_agree_up_to_the_tolerance_itself():
    assert explore.same_fingerprint("a;0:0:99900", "a;1:0:99900")  # 0.001 + 1e-5 * 99900 = 1
    assert explore.same_fingerprint("a;0:0:99900", "a;0:-1:99900")
    assert not explore.same_fingerprint("a;0:0:99900", "a;0:-1.000001:99900")


def test_what_a_fingerprint_says():
    shapes = [dict(type="line", x0=0, line=dict(width=1, dash="dot"))]
    made = one((dict(data=flat(x=[0.5, math.nan, -1.25], y=[1, 2, 3])["data"], layout=dict(shapes=shapes)), {"r": 1}))
    rest = (
        '[["a", "name", "a"], ["a", "type", "scatter"], ["a", "x", [3], 1], ["a", "y", [1, 2, 3]], '
        '["layout", "shapes", [{"line": {"dash": "dot", "width": 1}, "type": "line", "x0": 0}]]]'
    )
    digest = hashlib.sha256(rest.encode()).hexdigest()[:16]
    assert made.fingerprint() == f"{digest};-0.75:{0.5 * math.cos(1) - 1.25 * math.cos(2.4):.6g}:1.75"


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
    usage = "usage: python -m posenc.lab.explore pictures [id ...] | check | sizes [id ...]\n"
    assert capsys.readouterr().err == 2 * usage
