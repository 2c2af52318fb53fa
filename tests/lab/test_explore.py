r"""Explorables: what is stored is what the function returns, mistakes are named, nothing slips into the page."""

import base64
import builtins
import functools
import html.parser
import itertools
import json
import math
import re
import sys

import numpy as np
import pytest
import torch

from posenc.lab.explore import declaration, explorable, interact, slider, states
from posenc.lab.explore.arrays import decode_arrays, encode_arrays
from posenc.lab.explore.leaves import as_array, draws_the_same, figure_leaves, first_difference, plain
from posenc.lab.explore.page import script_json


def wave(m, n=0, kind="sine"):
    x = np.linspace(0, 1, 5)
    data = [
        dict(name="wave", x=x, y=np.sin(m * x) if kind == "sine" else m * x),
        dict(name="other", type="bar", x=["a", "b"], y=[n, 2 * n]),
    ]
    return dict(data=data, layout=dict(xaxis=dict(range=[0, 1]), height=200)), {"top": float(m + n), "kind": kind}


def declare(fn=wave, **changes):
    arguments = dict(
        title="A wave",
        alt="A wave and a bar.",
        readout="top {top:.2f} ({kind})",
        m=slider(range(5), default=2, label="m of the wave"),
        n=[0, 1, 5],
        kind=["sine", "line"],
    )
    return explorable(fn, **{**arguments, **changes})


def small(fn, **options):
    r"""An explorable of which only the function matters."""
    return explorable(fn, **{**dict(title="t", alt="t", m=range(3)), **options})


def trace(**attributes):
    return dict(data=[dict(name="t", **attributes)])


def refused(error, call, *words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert str(word) in str(caught.value)


def comes_back(e, state):
    return first_difference(e.evaluate(state), e.decode(state)) is None


def tables(e):
    return {table["item"]: table for table in e.record()["tables"]}


# Numbers and words


def test_what_counts_as_an_array():
    matrix = np.array([[1.0, 2.0], [3.0, math.nan]])
    weights = torch.tensor(matrix, requires_grad=True)
    for value in ([[1, 2], [3, None]], (np.array([1, 2]), (3, None)), [*weights], weights, matrix.astype(np.float32)):
        assert as_array(value).dtype == np.float64
        np.testing.assert_array_equal(as_array(value), matrix)
    assert as_array(3).shape == as_array(np.uint8(3)).shape == () and as_array([]).shape == (0,)
    for value in ("a", ["a", 1], True, [np.True_, 1], [[1, 2], [3]], [1, [2]], [["1"]], None, {"x": 1}, range(3)):
        assert as_array(value) is None


def test_plain_values():
    tree = {1: (1.0, 0.12345678901, 1e15, math.nan, True, None, "a", np.float32(0.5), np.bool_(True), torch.ones(2))}
    assert repr(plain(tree)) == "{'1': [1, 0.1234568, 1000000000000000.0, None, True, None, 'a', 0.5, True, [1, 1]]}"


KINDS = {
    "u1": [[0, 1, 254], [-100, 154], [math.nan, math.nan], []],
    "u2": [[0, 255], [0, 65534, math.nan], [0.0, 0.5, math.nan], [3.25, 3.25], [0.0, 65534 * 9e-4]],
    "f4": [[0, 65535], [0.0, 65534.5 * 9e-4], [0.5, -float(np.finfo(np.float32).max)]],
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_smallest_kind_that_is_exact_enough_is_chosen(kind):
    for array in map(np.array, KINDS[kind]):
        record = json.loads(json.dumps(encode_arrays([array.astype(np.float64)])))
        assert record["type"] == kind, array
        exact = np.array_equal(array, np.round(array), equal_nan=True)
        np.testing.assert_allclose(decode_arrays(record, 0), array, atol=0 if exact else 4.6e-4, rtol=1e-7)


def packed(kind, *codes):
    return base64.b64encode(np.array(codes, dtype=kind).tobytes()).decode()


def test_the_form_that_the_player_reads():
    row = np.array([0.0, 2.0])
    whole = {"type": "u1", "min": 0.0, "step": 1.0}
    assert encode_arrays([row, row + 1]) == {**whole, "data": packed("u1", 0, 2, 1, 3), "shape": [2]}
    assert encode_arrays([row, row]) == {**whole, "data": packed("u1", 0, 2), "shape": [2], "index": 0}
    record = encode_arrays([row, row + 1, row, np.array([7.0])])
    assert record["shapes"] == [[2], [2], [1]] and record["index"] == packed("<u2", 0, 1, 0, 2)
    record = encode_arrays([np.array([0.5, math.nan, 1.5])])
    assert record["min"] == 0.5 and record["step"] == 1 / 65534 and record["data"] == packed("<u2", 0, 65535, 65534)
    assert encode_arrays([np.array([0.5, 1e-9])], precise=True)["data"] == packed("<f4", 0.5, 1e-9)
    assert encode_arrays(["b", ["ü"], "b"]) == {"type": "json", "rows": ["b", ["ü"]], "index": packed("<u2", 0, 1, 0)}


def test_which_values_draw_the_same():
    one, gap, empty = np.array([1.0]), np.array([1.0, math.nan]), np.zeros(0)
    for a, b in [(gap, gap + 5e-4), (empty, np.zeros((0, 3))), ("text", "text")]:  # JSON knows no shape of a [0, 3]
        assert draws_the_same(a, b) and draws_the_same(b, a)
    for a, b in [(one, one + 0.5), (one, one[None]), (empty, one), (one, "text"), (one, None), ("text", "Text")]:
        assert not draws_the_same(a, b) and not draws_the_same(b, a)


# States


def test_every_state_comes_back():
    e = declare()
    for m, n, kind in itertools.product(range(5), (0, 1, 5), ("sine", "line")):
        assert comes_back(e, dict(m=m, n=n, kind=kind))


@pytest.mark.parametrize(
    "values",
    [
        [[], [1], [1, 2.5]],
        [[1, 2], ["a", "b"], ["a", "c"]],
        ["none", "toself", "none"],
        [0.5, None, 2.5],
        [[[0.25, math.nan]], [[1, 2]], [[3, 4]]],
        [torch.arange(3.0), torch.ones(3), torch.zeros(3)],
    ],
    ids=["lengths", "numbers or words", "words", "missing", "matrices", "torch"],
)
def test_what_a_trace_may_hold_comes_back(values):
    e = small(lambda m: trace(x=values[m]))
    assert all(comes_back(e, {"m": m}) for m in range(3))


def test_a_trace_is_stored_over_its_own_sliders_only():
    stored = tables(declare())
    assert [group["of"] for group in stored["wave"]["groups"]] == [[[0, 1]], [[2, 1]]]
    assert [group["of"] for group in stored["other"]["groups"]] == [[[1, 1]]]
    assert len(base64.b64decode(stored["other"]["arrays"]["y"]["data"])) == 3 * 2
    # Declared: a readout's own entry stands over the one of all readouts.
    for depends in (None, {"readout": ["n"], "readout.a": ["m"]}):
        stored = tables(declare(lambda m, n, kind: (trace(), {"a": m, "b": n}), readout=None, depends=depends))
        assert [stored[f"readout.{key}"]["groups"] for key in "ab"] == [[{"of": [[0, 1]]}], [{"of": [[1, 1]]}]]


def test_what_moves_in_one_state_only_is_found_and_rounding_is_no_movement():
    def rare(m, n):
        return dict(data=[dict(name="rare", x=[float(m == 30 and n == 30)]), dict(name="sum", y=[0.1 + m - m, 5])])

    e = small(rare, m=range(40), n=range(40))
    assert [*tables(e)] == ["rare"] and len(tables(e)["rare"]["groups"]) == 2
    assert comes_back(e, dict(m=30, n=30)) and comes_back(e, dict(m=30, n=29))


@pytest.mark.parametrize("axis", ["y", "y2"])
def test_readouts_and_log_axes_keep_small_numbers(axis):
    def tiny(m):
        layout = {f"yaxis{axis[1:]}": dict(type="log")}
        return dict(**trace(y=[1.0, 1e-7 * (m + 1)], x=[0.5, 1e-7 * m], yaxis=axis), layout=layout), {"r": 1.5e-8 * m}

    drawn = small(tiny).decode({"m": 2})
    assert drawn["t"]["y"][1] == pytest.approx(3e-7, rel=1e-6)
    assert drawn["readout"]["r"] == pytest.approx(3e-8, rel=1e-6)
    assert tables(small(tiny))["t"]["arrays"]["x"]["type"] == "u2", "other axes take two bytes"


@pytest.mark.parametrize("count", [16, 17])
def test_large_arrays_that_never_change_are_packed(count):
    x = np.arange(count) / 32
    e = small(lambda m: trace(x=x), depends={"t": []})
    assert bool(e.record()["tables"]) is (count > 16) is ("x" not in e.record()["figure"]["data"][0])
    assert comes_back(e, {"m": 1})


def test_each_state_is_computed_once():
    calls = []

    def counted(m, n):
        calls.append((m, n))
        return dict(data=[dict(name="a", x=[m]), dict(name="b", x=[-m]), dict(name="c", x=[n])])

    e = small(counted, m=range(5), n=range(7))
    assert e.record() is e.record()
    assert len(calls) == 1 + 5 * 7 + 4  # what there is, all states, those that are checked
    calls.clear()
    assert small(counted, depends={"a": ["m"], "b": ["m"], "c": ["n"]}, m=range(5), n=range(7)).record()
    assert len(calls) == 1 + 5 + 7 + 1 + 24


def test_random_states_are_seeded_and_begin_with_the_default():
    e = declare()
    drawn = e.random_states(30)
    assert len(drawn) == 30 and drawn[0] == e.default_state() == {"m": 2, "n": 0, "kind": "sine"}
    assert drawn == declare().random_states(30) != declare().random_states(30, seed=1)
    assert all({state[name] for state in drawn} == set(s.values) for name, s in e.sliders.items())


# What depends on what


def shifted(m, n, shift):
    return dict(data=[dict(name="q", x=[m + shift]), dict(name="k", x=[n + shift])]), {"apart": m - n}


SHIFTED = dict(m=range(8), n=slider(range(8), default=3), shift=range(5))
SUMS = {"q": [("m", "shift")], "k": [("n", "shift")], "readout": [("m", "-n")]}


def test_sums_and_differences_share_a_table():
    e = small(shifted, **SHIFTED, depends=SUMS)
    assert tables(e)["q"]["groups"] == [{"of": [[0, 1], [2, 1]], "sums": list(range(12))}]
    assert tables(e)["readout.apart"]["groups"] == [{"of": [[0, 1], [1, -1]], "sums": list(range(-7, 8))}]
    assert all(comes_back(e, state) for state in e.random_states(30))


def test_sums_of_fractions_are_told_apart_by_nine_digits():
    values = dict(m=[0.1, 0.2, 1.23456789012], n=[0.0, 0.1, 0.2])
    e = small(lambda m, n: trace(x=[m + n]), **values, depends={"t": [("m", "n")]})
    assert tables(e)["t"]["groups"][0]["sums"] == [0.1, 0.2, 0.3, 0.4, 1.23456789, 1.33456789, 1.43456789]


def test_ways_to_say_what_a_trace_depends_on():
    for words in (["kind", "m"], ("kind", "m"), [("kind",), ["m"]]):
        assert declare(depends={"wave": words}).depends == declare(depends={"wave": ["m", "kind"]}).depends


@pytest.mark.parametrize(
    "depends, words",
    [
        ({"q": ["m"]}, ["'q' (x)", "moves with 'shift'"]),
        ({"q": ["shift"]}, ["'q' (x)", "moves with 'm'"]),
        ({"q": []}, ["'q' (x)", "moves with 'm', 'shift'"]),
        ({"q": [("m", "-shift")]}, ["'q' (x)", "sum of [['m', '-shift']]"]),
        ({"readout": ["m"]}, ["'readout.apart'", "moves with 'n'"]),
        ({"readout": [("m", "n")]}, ["'readout.apart'", "sum of [['m', 'n']]"]),
    ],
    ids=range(6),
)
def test_a_lie_in_depends_is_caught(depends, words):
    refused(ValueError, small(shifted, **SHIFTED, depends={**SUMS, **depends}).record, *words)


def test_a_layout_that_moves_is_found_or_declared():
    def zoom(m):
        return dict(data=[dict(name="t", x=[1])], layout=dict(xaxis=dict(range=[0, m])))

    refused(ValueError, small(zoom, depends={"t": []}).record, "'layout' (xaxis.range)", "moves with 'm'")
    for depends in ({"layout": ["m"]}, None):
        assert small(zoom, depends=depends).decode({"m": 2})["layout"]["xaxis.range"].tolist() == [0, 2]


def test_an_unseeded_function_is_caught():
    draw = np.random.default_rng()
    refused(ValueError, small(lambda m: trace(x=draw.random(3))).record, "same for the same values")


def test_as_many_states_as_a_trace_may_have(monkeypatch):
    assert states.MAX_STATES == 2000
    monkeypatch.setattr(states, "MAX_STATES", 40)
    assert small(shifted, **{**SHIFTED, "shift": range(2)}, depends={**SUMS, "k": ["n", "shift"]}).record()
    for depends, count in ({**SUMS, "q": ["m", "n"]}, 64), (None, 320):
        e = small(shifted, **SHIFTED, depends=depends)
        refused(ValueError, e.record, "'q'", f"{count} states", 40, "depends")


@pytest.mark.parametrize("other", ["traces", "readouts"])
def test_each_state_has_the_same_traces_and_readouts(other):
    def figure(m):
        return dict(data=[dict(name=f"t{m if other == 'traces' else 0}")]), {f"r{m if other == 'readouts' else 0}": 1}

    refused(ValueError, small(figure).record, "1", {"m": 1}, other)


# Mistakes are named


@pytest.mark.parametrize(
    "changes, error, words",
    [
        (dict(fn=3), TypeError, ["fn", "3"]),
        (dict(title=""), TypeError, ["wave", "title", "''"]),
        (dict(alt=None), TypeError, ["alt", "None"]),
        (dict(id="a/b"), ValueError, ["id", "'a/b'", "<module>.<name>"]),
        (dict(readout=3), TypeError, ["readout", "3"]),
        (dict(readout="{"), ValueError, ["readout='{'"]),
        (dict(readout="{top!r}"), ValueError, ["{top}", "plain name"]),
        (dict(readout="{top:>9}"), ValueError, ["'>9'", "{top}", ".3f"]),
        (dict(depends=3), TypeError, ["depends=3", "dict"]),
        (dict(depends={"wave": "m"}), TypeError, ["depends['wave']", "'m'", "list"]),
        (dict(depends={"wave": ["q"]}), ValueError, ["depends['wave']", "'q'", "['m', 'n', 'kind']"]),
        (dict(depends={"wave": [{"m"}]}), ValueError, ["{'m'}", "sliders are"]),
        (dict(depends={"wave": [[]]}), ValueError, ["depends['wave']", "[]"]),
        (dict(depends={"wave": ["m", ("n", "m")]}), ValueError, ["'m' twice"]),
        (dict(depends={"wave": [("-m", "n")]}), ValueError, ["'-m'"]),
        (dict(depends={"wave": [("m", "kind")]}), ValueError, ["sums 'kind'"]),
        (dict(m=[1]), ValueError, ["slider 'm'", "1 entries", "at least 2"]),
        (dict(m="abc"), TypeError, ["slider 'm'", "'abc'", "list"]),
        (dict(m=[1, "a"]), TypeError, ["slider 'm'", "[1, 'a']", "one kind"]),
        (dict(m=[1, 2, 3, 4, 5, 6, 6]), ValueError, ["slider 'm'", "twice", "..."]),
        (dict(m=[1, math.inf]), TypeError, ["slider 'm'", "inf", "finite"]),
        (dict(m=[False, True]), TypeError, ["slider 'm'", "False"]),
        (dict(m=slider(range(3), default=9)), ValueError, ["slider 'm'", "default", "9", "[0, 1, 2]"]),
        (dict(m=slider(range(3), format="g")), TypeError, ["slider 'm'", "format", "'g'"]),
        (dict(p=range(3)), TypeError, ["slider 'p'", "['kind', 'm', 'n']"]),
        (dict(fn=lambda m, n, kind, size: None), TypeError, ["parameter 'size'", "default"]),
    ],
    ids=range(26),
)
def test_a_mistake_in_a_declaration_is_named(changes, error, words):
    refused(error, lambda: declare(**changes), *words)


def test_an_explorable_needs_a_slider():
    refused(ValueError, lambda: explorable(wave, title="t", alt="t"), "wave", "no sliders")


@pytest.mark.parametrize(
    "result, error, words",
    [
        (None, TypeError, ["'data'", "NoneType"]),
        ({}, TypeError, ["'data'", "dict"]),
        (dict(data=[dict(x=[1])]), ValueError, ["trace 0", "name"]),
        (dict(data=[dict(name="a"), dict(name="a")]), ValueError, ["'a'", "uid"]),
        (dict(data=[dict(name="layout")]), ValueError, ["'layout'"]),
        (dict(data=[dict(name="readout.a")]), ValueError, ["'readout.a'"]),
        (trace(marker_size=3), ValueError, ["'marker_size'", "marker=dict(size=...)"]),
        (dict(data=[], layout=dict(x_y=1)), ValueError, ["layout", "'x_y'"]),
        (trace(line=dict(x=[1, math.inf])), ValueError, ["trace 't'", "'line.x'", "NaN"]),
        ((trace(), {"top": math.inf}), ValueError, ["'top'", "NaN"]),
        (trace(x=[1e39] * 20), ValueError, ["t, x", "1e+39", "too large"]),
        (trace(x=object()), TypeError, ["object", "lists"]),
        (dict(data=[], config={}), ValueError, ["['config']", "layout"]),
        ((dict(data=[]), 3), TypeError, ["readouts", "int"]),
    ],
    ids=range(14),
)
def test_a_mistake_in_a_figure_is_named(result, error, words):
    refused(error, small(lambda m: result).record, "test_explore.lambda", *words)


def test_what_the_figure_lacks_is_named():
    refused(ValueError, declare(depends={"wav": ["m"]}).record, "'wav'", "'wave', 'other'")
    refused(ValueError, declare(readout="{bottom}").record, "{bottom}", "['kind', 'top']")
    refused(RuntimeError, small(lambda m: trace(x=[1 / (m - 1)])).record, "m=1", "ZeroDivisionError")


# Sliders, readouts, functions


def test_words_label_and_start():
    e = declare(
        m=slider(np.array([0.5, 1.0, 2.0]), default=1, label="size"), n=slider([1, 2], format=lambda v: f"{v} tokens")
    )
    assert (e.sliders["m"].label, e.sliders["m"].words, e.sliders["m"].start) == ("size", ("0.5", "1", "2"), 1)
    assert (e.sliders["n"].label, e.sliders["n"].words) == ("n", ("1 tokens", "2 tokens"))
    assert e.sliders["kind"].words == ("sine", "line")
    assert e.default_state() == {"m": 1.0, "n": 1, "kind": "sine"}
    assert declare(m=slider([0.1, 0.1 + 0.2], default=0.3)).sliders["m"].start == 1
    for value in (77, "1"):
        refused(ValueError, lambda value=value: e.sliders["m"].index(value), "'m'", repr(value), "[0.5, 1.0, 2.0]")


@pytest.mark.parametrize(
    "template, value, words",
    [
        (None, 1.0, ""),
        ("{x}", 1e-9, "10⁻⁹"),
        ("{x:+.1f}|{x:.2e}|{x:.3g}|{x:.0%}|{x:d}|{{}}", 0.00001, "+0.0|1.00×10⁻⁵|10⁻⁵|0%|0|{}"),
        ("{x:+.1f}|{x:.2e}|{x:.3g}|{x:.0%}|{x:d}", -1234567.0, "−1234567.0|−1.23×10⁶|−1.23×10⁶|−123456700%|−1234567"),
        ("{x:+.1f}|{x:.0f}|{x:.3g}|{x:.0%}|{x:d}", -1e-5, "0.0|0|−10⁻⁵|0%|0"),
        ("{x}|{x:.2f}|{x:d}", math.nan, "–|–|–"),
        ("{x:d}", torch.tensor(3.0), "3"),
        ("{x:.1f}!", np.array("word"), "word!"),
        ("{x:.1f}", np.float32(0.5), "0.5"),
    ],
)
def test_readouts_in_words(template, value, words):
    assert declare(readout=template).readout_text({"x": value}) == words


def test_readouts_may_have_an_underscore_in_their_names():
    readouts = figure_leaves(trace(), {"top_k": 3, "all_of_it": "text"})["readout"]
    assert readouts == {"top_k": 3.0, "all_of_it": "text"}


def turn(m, size=1, *, rotate=lambda v: v):
    return trace(x=[rotate(m)])


def test_with_function_replaces_a_part():
    e = small(turn)
    own = e.with_function(rotate=lambda v: 10 * v)
    assert own.decode({"m": 2})["t"]["x"].tolist() == [20] and e.decode({"m": 2})["t"]["x"].tolist() == [2]
    assert own.id == e.id + ".own" and (own.title, own.depends, own.sliders) == (e.title, e.depends, e.sliders)
    for name in ("turn", "m", "size"):
        refused(TypeError, lambda name=name: e.with_function(**{name: abs}), repr(name), "['rotate']")


def test_an_explorable_goes_by_its_id_or_its_function():
    assert small(turn, id="rope.turn").id == "rope.turn"
    assert small(functools.partial(functools.partial(turn, size=2), rotate=abs)).id == "test_explore.turn"
    assert small(lambda **values: turn(**values)).id == "test_explore.lambda"
    assert repr(small(turn)) == "<explorable test_explore.turn: m>"


# Pages

EVIL = "</script><img src=x onerror=alert(1)>\"'&\u2028"


class Page(html.parser.HTMLParser):
    r"""The elements of a piece of markup, [(tag, attributes, text)]."""

    def __init__(self, markup):
        super().__init__()
        self.elements = []
        self.feed(markup)

    def handle_starttag(self, tag, attributes):
        self.elements.append([tag, dict(attributes), ""])

    def handle_data(self, data):
        self.elements[-1][2] += data

    def all(self, tag, **wanted):
        return [(a, text) for name, a, text in self.elements if name == tag and wanted.items() <= a.items()]


def test_nothing_slips_into_the_page():
    e = small(
        lambda m, kind: (
            dict(data=[dict(name=EVIL, x=[m], text=[EVIL])], layout=dict(title=dict(text=EVIL))),
            {"r": EVIL},
        ),
        title=EVIL,
        alt=EVIL,
        readout="{r} " + EVIL,
        m=slider(range(3), label=EVIL, format=lambda v: EVIL + str(v)),
        kind=[EVIL, "b"],
    )
    for text in (e.body_html("p", EVIL), e.body_html("p", None, inline=True), e.data_js()):
        assert "<img src=x" not in text and text.count("</script>") == text.count("<script")
    assert "\u2028" not in e.data_js() and "&" not in script_json("&")
    page = Page(e.body_html("p", EVIL))
    assert page.all("img")[0][0]["alt"] == page.all("div")[0][0]["data-alt"] == page.all("img")[0][0]["src"] == EVIL
    assert [text for _, text in page.all("span", **{"class": "explorable-label"})] == [EVIL, "kind"]
    assert page.all("span", **{"class": "explorable-chip"})[0][1] == EVIL + " " + EVIL
    assert EVIL + "0" in [text for _, text in page.all("span")]
    with pytest.raises(ValueError):
        script_json({"x": math.nan})


def test_the_states_stand_in_a_script():
    e = declare()
    assert json.loads(re.fullmatch(r"posencExplorable\(\"test_explore.wave\", (.*)\);\n", e.data_js())[1]) == e.record()
    inside = Page(e.body_html("p", None, inline=True)).all("script", type="application/json")
    assert json.loads(inside[0][1]) == e.record()
    assert e.record()["id"] == e.id and e.record()["readout"] == e.readout
    wanted = {"name": "m", "values": [0, 1, 2, 3, 4], "words": ["0", "1", "2", "3", "4"], "start": 2}
    assert e.record()["sliders"][0] == {**wanted, "label": "m of the wave"}


def test_each_control_is_a_native_input_with_a_label():
    page = Page(declare().body_html("p", "a.svg"))
    ((slider, _),) = page.all("input", type="range", min="0", step="1", autocomplete="off")
    assert (slider["name"], slider["max"], slider["value"], slider["aria-valuetext"]) == ("m", "4", "2", "2")
    assert [text for a, text in page.all("label") if a.get("for") == slider["id"]] == ["m of the wave"]
    for group, words in (("p-n", ["0", "1", "2"]), ("p-kind", ["sine", "line"])):
        buttons = page.all("input", type="radio", name=group)
        assert [a["value"] for a, _ in buttons] == [str(i) for i in range(len(words))]
        assert [text for _, text in page.all("span")].count(words[-1]) == 1
        assert ["checked" in a for a, _ in buttons] == [True] + [False] * (len(words) - 1)
        assert page.all("div", role="radiogroup", **{"aria-labelledby": group}) and page.all("span", id=group)
    assert "A wave" in page.all("div", role="group")[0][0]["aria-label"] and page.all("button", type="button")
    assert page.all("span", **{"class": "explorable-chip"})[0][1] == "top 2.00 (sine)"
    assert not Page(declare(readout=None).body_html("p", "a.svg")).all("p")


def test_the_picture_keeps_the_place_of_the_plot():
    picture = Page(declare().body_html("p", "a.svg")).all("img", alt="A wave and a bar.", src="a.svg", loading="lazy")
    empty = Page(declare().body_html("p", None)).all("svg", **{"aria-hidden": "true"})
    for (attributes, _), *_ in (picture, empty):
        assert (attributes["width"], attributes["height"]) == ("680", "200")
    assert "--plot: 200px" in Page(declare().body_html("p", None)).all("div")[0][0]["style"]


def test_a_cell_of_the_book_takes_the_site_s_player(monkeypatch, tmp_path):
    monkeypatch.setenv("POSENC_BOOK", "1")
    monkeypatch.setattr(declaration, "PICTURES", tmp_path)
    e = declare(lambda m, n, kind, *, a=1: wave(m, n, kind), id="some.wave")
    assert len(e._repr_html_()) < 10_000 and not Page(e._repr_html_()).all("img")
    (tmp_path / "some.wave.svg").write_text("<svg/>")
    assert Page(e._repr_html_()).all("img")[0][0]["src"] == "posenc-static/figures/some.wave.svg"
    assert not Page(e.with_function(a=2)._repr_html_()).all("img"), "a student's function never gets the book's picture"
    words = [text for _, _, text in Page(e._repr_html_()).elements]
    assert "A wave" in words and "A wave and a bar." in words


def test_a_cell_of_a_notebook_brings_all_along(monkeypatch):
    monkeypatch.delenv("POSENC_BOOK", raising=False)
    text = declare()._repr_html_()
    page = Page(text)
    prefix = page.all("figure")[0][0]["id"]
    assert f'posencExplorables.notebook("{prefix}", ' in text and prefix not in declare()._repr_html_()
    own = {a.get("id", a["name"]).removeprefix(prefix) for a, _ in page.all("input")}
    assert own == {"-m", "-n", "-kind"}
    assert page.all("img")[0][0]["src"].startswith("data:image/png;base64,iVBOR") and len(page.all("img")) == 1
    assert page.all("style") and page.all("figcaption")
    assert "http" not in re.sub(r'"[A-Za-z0-9+/=]{1000,}"', "", text), "nothing is fetched"
    assert not any("src" in a for a, _ in page.all("script"))


# Sliders over a drawing of matplotlib


@pytest.fixture
def shell(monkeypatch, tmp_path):
    r"""A session of IPython, as in a notebook; outside of the book."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    monkeypatch.delenv("POSENC_BOOK", raising=False)
    for where, name in ((builtins, "__IPYTHON__"), (builtins, "display"), (sys, "ps1"), (sys, "ps2"), (sys, "ps3")):
        monkeypatch.setattr(where, name, None, raising=False)  # the session sets them; taken away afterwards
    config = Config({"HistoryManager": {"enabled": False}})
    session = InteractiveShell.instance(config=config, ipython_dir=str(tmp_path))
    yield session
    session.restore_sys_module_state()
    InteractiveShell.clear_instance()


# The functions name a slider by themselves: from 1 to 9, so it starts in the middle.
def quiet(m, n=(1, 9)):
    pass


def loud(m, n=(1, 9)):
    print(m, n)


def drawing(m, n=(1, 9)):
    from IPython.display import display

    for name in ("first", "second"):
        display({"text/plain": "", "image/png": name}, raw=True)


def broken(m, n=(1, 9)):
    raise KeyError(m)


@pytest.mark.parametrize(
    "function, expected",
    [
        (quiet, {"text/plain": "quiet, with sliders"}),
        (loud, {"text/plain": "3 5\n"}),
        (drawing, {"text/plain": "drawing, with sliders", "image/png": "first"}),
        (broken, {"text/plain": "KeyError: 3"}),
    ],
)
def test_a_saved_notebook_shows_the_first_state_beside_the_sliders(shell, function, expected):
    from IPython.utils.capture import capture_output

    with capture_output() as captured:
        assert interact(function, m=[3, 4]) is None
    widget = "application/vnd.jupyter.widget-view+json"
    (output,) = [output.data for output in captured.outputs if widget in output.data]
    assert output.pop(widget)["model_id"] and output == expected


@pytest.mark.parametrize("version, calls", [("7.8.5", 3), ("8.0.0", 2), ("10.1.2", 2)])
def test_older_widgets_draw_once_more(shell, monkeypatch, version, calls):
    monkeypatch.setattr("ipywidgets.__version__", version)
    values = []
    interact(lambda m: values.append(m), m=[3, 4])
    assert values == [3] * calls


def test_the_book_shows_one_position(monkeypatch, capsys):
    monkeypatch.setenv("POSENC_BOOK", "1")
    assert interact(loud, m=[3, 4]) is None
    assert capsys.readouterr().out.startswith("3 5\n")
