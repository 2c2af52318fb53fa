r"""Explorables: what is stored is what the function returns, mistakes are named, nothing slips into the page."""

import itertools
import json
import math
import re

import numpy as np
import pytest

from posenc.lab.explore import declaration, explorable, slider, states
from posenc.lab.explore.arrays import decode_arrays, encode_arrays
from posenc.lab.explore.leaves import first_difference
from posenc.lab.explore.page import fill


def wave(m, n=0, kind="sine"):
    x = np.linspace(0, 1, 5)
    data = [
        dict(name="wave", x=x, y=np.sin(m * x) if kind == "sine" else m * x),
        dict(name="other", type="bar", x=["a", "b"], y=[n, 2 * n]),
    ]
    return dict(data=data, layout=dict(xaxis=dict(range=[0, 1]), height=200)), {"top": float(m + n), "kind": kind}


def declare(fn=wave, **changes):
    sliders = dict(m=slider(range(5), default=2, label="m of the wave"), n=[0, 1, 5], kind=["sine", "line"])
    words = dict(title="A wave", alt="A wave and a bar.", readout="top {top:.2f} ({kind})")
    return explorable(fn, **{**words, **sliders, **changes})


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


def groups(e):
    return {table["item"]: table["groups"] for table in e.record()["tables"]}


KINDS = {
    "u1": [[0, 1, 254], [-100, 154], [math.nan, math.nan], []],
    "u2": [[0, 255], [0, 65534, math.nan], [0.0, 0.5, math.nan], [3.25, 3.25], [0.0, 65534 * 9e-4]],
    "f4": [[0, 65535], [0.0, 65534.5 * 9e-4], [0.5, -float(np.finfo(np.float32).max)]],
}


@pytest.mark.parametrize("kind, array", [(kind, array) for kind, arrays in KINDS.items() for array in arrays])
def test_the_smallest_kind_that_is_exact_enough_is_chosen(kind, array):
    record = json.loads(json.dumps(encode_arrays([np.array(array, dtype=np.float64)])))
    exact = np.array_equal(array, np.round(array), equal_nan=True)
    assert record["type"] == kind
    np.testing.assert_allclose(decode_arrays(record, 0), array, atol=0 if exact else 4.6e-4, rtol=1e-7)


def test_every_state_comes_back():
    e = declare()
    assert all(
        comes_back(e, dict(m=m, n=n, kind=kind))
        for m, n, kind in itertools.product(range(5), (0, 5), e.sliders["kind"].values)
    )
    assert groups(e)["wave"] == [{"of": [[0, 1]]}, {"of": [[2, 1]]}] and groups(e)["other"] == [{"of": [[1, 1]]}]


def test_what_moves_in_one_state_only_is_found_and_rounding_is_no_movement():
    def rare(m, n):
        return dict(data=[dict(name="rare", x=[float(m == 30 and n == 30)]), dict(name="sum", y=[0.1 + m - m, 5])])

    e = small(rare, m=range(40), n=range(40))
    assert [*groups(e)] == ["rare"] and len(groups(e)["rare"]) == 2
    assert comes_back(e, dict(m=30, n=30)) and comes_back(e, dict(m=30, n=29))


@pytest.mark.parametrize("axis", ["y", "y2"])
def test_readouts_and_log_axes_keep_small_numbers(axis):
    def tiny(m):
        layout = {f"yaxis{axis[1:]}": dict(type="log")}
        return dict(**trace(y=[1.0, 1e-7 * (m + 1)], yaxis=axis), layout=layout), {"r": 1.5e-8 * m}

    drawn = small(tiny).decode({"m": 2})
    assert drawn["t"]["y"][1] == pytest.approx(3e-7, rel=1e-6)
    assert drawn["readout"]["r"] == pytest.approx(3e-8, rel=1e-6)


def shifted(m, n, shift):
    return dict(data=[dict(name="q", x=[m + shift]), dict(name="k", x=[n + shift])]), {"apart": m - n}


SHIFTED = dict(m=range(8), n=slider(range(8), default=3), shift=range(5))
SUMS = {"q": [("m", "shift")], "k": [("n", "shift")], "readout": [("m", "-n")]}


def test_sums_and_differences_share_a_table():
    e = small(shifted, **SHIFTED, depends=SUMS)
    assert groups(e)["q"] == [{"of": [[0, 1], [2, 1]], "sums": list(range(12))}]
    assert groups(e)["readout.apart"] == [{"of": [[0, 1], [1, -1]], "sums": list(range(-7, 8))}]
    assert all(comes_back(e, state) for state in e.random_states(30))


def test_a_lie_in_depends_is_caught():
    for depends, *words in (
        ({"q": []}, "'q' (x)", "moves with 'm', 'shift'"),
        ({"q": [("m", "-shift")]}, "'q' (x)", "sum of [['m', '-shift']]"),
        ({"readout": ["m"]}, "'readout.apart'", "moves with 'n'"),
    ):
        refused(ValueError, small(shifted, **SHIFTED, depends={**SUMS, **depends}).record, *words)


def test_an_unseeded_function_is_caught():
    draw = np.random.default_rng()
    refused(ValueError, small(lambda m: trace(x=draw.random(3))).record, "same for the same values")


def test_as_many_states_as_a_trace_may_have(monkeypatch):
    monkeypatch.setattr(states, "MAX_STATES", 40)
    assert small(shifted, **{**SHIFTED, "shift": range(2)}, depends={**SUMS, "k": ["n", "shift"]}).record()
    for depends, count in ({**SUMS, "q": ["m", "n"]}, 64), (None, 320):
        e = small(shifted, **SHIFTED, depends=depends)
        refused(ValueError, e.record, "'q'", f"{count} states", 40, "depends")


DECLARED = [
    (dict(fn=3), TypeError, ["fn", "3"]),
    (dict(id="a/b"), ValueError, ["id", "'a/b'", "<module>.<name>"]),
    (dict(readout="{top:>9}"), ValueError, ["'>9'", "{top}", ".3f"]),
    (dict(depends={"wave": "m"}), TypeError, ["depends['wave']", "'m'", "list"]),
    (dict(depends={"wave": ["q"]}), ValueError, ["depends['wave']", "'q'", "['m', 'n', 'kind']"]),
    (dict(depends={"wave": ["m", ("n", "m")]}), ValueError, ["'m' twice"]),
    (dict(depends={"wave": [("m", "kind")]}), ValueError, ["sums 'kind'"]),
    (dict(m=[1]), ValueError, ["slider 'm'", "1 entries", "at least 2"]),
    (dict(m=[1, math.inf]), TypeError, ["slider 'm'", "inf", "finite"]),
    (dict(m=slider(range(3), default=9)), ValueError, ["slider 'm'", "default", "9", "[0, 1, 2]"]),
    (dict(p=range(3)), TypeError, ["slider 'p'", "['kind', 'm', 'n']"]),
    (dict(fn=lambda m, n, kind, size: None), TypeError, ["parameter 'size'", "default"]),
]


@pytest.mark.parametrize("changes, error, words", DECLARED, ids=range(len(DECLARED)))
def test_a_mistake_in_a_declaration_is_named(changes, error, words):
    refused(error, lambda: declare(**changes), *words)


DRAWN = [
    (None, TypeError, ["'data'", "NoneType"]),
    (dict(data=[dict(x=[1])]), ValueError, ["trace 0", "name"]),
    (dict(data=[dict(name="a"), dict(name="a")]), ValueError, ["'a'", "uid"]),
    (trace(marker_size=3), ValueError, ["'marker_size'", "marker=dict(size=...)"]),
    (trace(line=dict(x=[1, math.inf])), ValueError, ["trace 't'", "'line.x'", "NaN"]),
    (trace(x=[1e39] * 20), ValueError, ["t, x", "1e+39", "too large"]),
    (trace(x=object()), TypeError, ["object", "lists"]),
    ((dict(data=[]), 3), TypeError, ["readouts", "int"]),
]


@pytest.mark.parametrize("result, error, words", DRAWN, ids=range(len(DRAWN)))
def test_a_mistake_in_a_figure_is_named(result, error, words):
    refused(error, small(lambda m: result).record, "test_explore.lambda", *words)


def test_what_the_figure_lacks_is_named():
    refused(ValueError, declare(depends={"wav": ["m"]}).record, "'wav'", "'wave', 'other'")
    refused(ValueError, declare(readout="{bottom}").record, "{bottom}", "['kind', 'top']")
    refused(RuntimeError, small(lambda m: trace(x=[1 / (m - 1)])).record, "m=1", "ZeroDivisionError")
    refused(ValueError, small(lambda m: dict(data=[dict(name=f"t{m}")])).record, "t1", {"m": 1}, "traces")


def test_readouts_in_words():
    template = "{x:+.1f}|{x:.2e}|{x:.3g}|{x:.0%}|{x:d}|{{}}"
    assert fill(template, {"x": 0.00001}) == "+0.0|1.00×10⁻⁵|10⁻⁵|0%|0|{}"
    assert fill(template, {"x": -1234567.0}) == "−1234567.0|−1.23×10⁶|−1.23×10⁶|−123456700%|−1234567|{}"
    assert fill(template, {"x": -1e-5}) == "0.0|−1.00×10⁻⁵|−10⁻⁵|0%|0|{}"
    assert fill("{x}|{x:.2f}|{x:d}", {"x": math.nan}) == "–|–|–" and fill("{x:.1f}!", {"x": np.array("w")}) == "w!"


def turn(m, size=1, *, rotate=lambda v: v):
    return trace(x=[rotate(m)])


def test_with_function_replaces_a_part():
    e = small(turn)
    own = e.with_function(rotate=lambda v: 10 * v)
    assert own.decode({"m": 2})["t"]["x"].tolist() == [20] and e.decode({"m": 2})["t"]["x"].tolist() == [2]
    assert (e.id, own.id) == ("test_explore.turn", "test_explore.turn.own")
    refused(TypeError, lambda: e.with_function(size=abs), "'size'", "['rotate']")


EVIL = "</script><img src=x onerror=alert(1)>\"'&\u2028"


def test_nothing_slips_into_the_page():
    def evil(m, kind):
        return dict(data=[dict(name=EVIL, x=[m], text=[EVIL])], layout=dict(title=dict(text=EVIL))), {"r": EVIL}

    m = slider(range(3), label=EVIL, format=lambda v: EVIL + str(v))
    e = small(evil, title=EVIL, alt=EVIL, readout="{r} " + EVIL, m=m, kind=[EVIL, "b"])
    for text in (e.body_html("p", EVIL), e.body_html("p", None, inline=True), e.data_js()):
        assert "<img src=x" not in text and text.count("</script>") == text.count("<script")
    assert "\u2028" not in e.data_js()
    assert json.loads(re.fullmatch(r"posencExplorable\(\"test_explore.evil\", (.*)\);\n", e.data_js())[1]) == e.record()


def test_each_control_is_a_native_input_with_a_label():
    body = declare(m=range(5)).body_html("p", "a.svg")
    assert '<label class="explorable-label" for="p-m">m</label>' in body and 'id="p-m" name="m" min="0" max="4"' in body
    for name, count in (("n", 3), ("kind", 2)):
        assert body.count(f'type="radio" name="p-{name}"') == count and f'aria-labelledby="p-{name}"' in body
    assert body.count(" checked>") == 2


def test_a_cell_of_a_notebook_brings_all_along(monkeypatch, tmp_path):
    monkeypatch.delenv("POSENC_BOOK", raising=False)
    monkeypatch.setattr(declaration, "PICTURES", tmp_path)
    assert "<img" not in declare()._repr_html_(), "an empty box, where nothing is drawn ahead"
    declare().picture().write_text("<svg/>")
    text = declare()._repr_html_()
    prefix = re.search('<figure [^>]*id="([^"]*)"', text)[1]
    assert f'posencExplorables.notebook("{prefix}", ' in text and prefix not in declare()._repr_html_()
    assert re.findall(r'<img [^>]*src="([^"]*)"', text) == ["data:image/svg+xml;base64,PHN2Zy8+"]
    assert "http" not in re.sub(r'"[A-Za-z0-9+/=]{1000,}"', "", text), "nothing is fetched"
