r"""Explorables: what is stored is what the function returns, mistakes are caught, nothing slips into the page."""

import io
import itertools
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from posenc.lab.explore import core as explore
from posenc.lab.explore import explorable, slider, still

ROOT = Path(__file__).resolve().parents[2]


def wave(m, n=0, kind="sine"):
    x = np.linspace(0, 1, 5)
    data = [
        dict(name="wave", x=x, y=np.sin(m * x) if kind == "sine" else m * x),
        dict(name="other", type="bar", x=["a", "b"], y=[n, 2 * n]),
    ]
    return dict(data=data, layout=dict(xaxis=dict(range=[0, 1]))), {"top": float(m + n), "kind": kind}


def declare(fn=wave, **changes):
    arguments = dict(
        title="A wave",
        alt="A wave and a bar.",
        readout="top {top:.2f} ({kind})",
        depends={"wave": ["m", "kind"], "other": ["n"]},
        m=slider(range(5), default=2, label="m of the wave"),
        n=[0, 1, 5],
        kind=["sine", "line"],
    )
    return explorable(fn, **{**arguments, **changes})


# --- storing ---------------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        hnp.arrays(
            np.float64,
            hnp.array_shapes(min_dims=1, max_dims=2, max_side=5),
            elements=st.one_of(st.floats(-30, 30), st.just(math.nan), st.integers(-200, 200).map(float)),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_numbers_come_back(arrays):
    record = json.loads(json.dumps(explore.encode_arrays(arrays)))
    for state, array in enumerate(arrays):
        back = explore.decode_arrays(record, state)
        assert back.shape == array.shape
        # Spans above 58 are stored as float32, others in steps below 9e-4.
        np.testing.assert_allclose(back, array, atol=5e-4, rtol=1e-6, equal_nan=True)


@pytest.mark.parametrize(
    "values, kind",
    [
        ([[0, 1, 254]], "u1"),
        ([[-100, 154]], "u1"),
        ([[0, 255]], "u2"),
        ([[0, 65534]], "u2"),
        ([[0, 65535]], "f4"),
        ([[0.0, 0.5]], "u2"),
        ([[0.0, 58.5]], "u2"),
        ([[0.0, 59.5]], "f4"),
        ([[math.nan, math.nan]], "u1"),
        ([[3.25, 3.25]], "u2"),
        ([[]], "u1"),
    ],
)
def test_the_smallest_kind_that_is_exact_enough_is_chosen(values, kind):
    arrays = [np.array(v, dtype=np.float64) for v in values]
    record = explore.encode_arrays(arrays)
    assert record["type"] == kind
    np.testing.assert_allclose(explore.decode_arrays(record, 0), arrays[0], atol=5e-4)


def test_whole_numbers_come_back_exactly():
    array = np.array([0.0, 7.0, 65534.0, math.nan])
    np.testing.assert_array_equal(explore.decode_arrays(explore.encode_arrays([array]), 0), array)


def test_log_axes_keep_small_numbers():
    def tiny(m):
        y = np.array([1.0, 1e-7 * (m + 1)])
        return dict(data=[dict(name="t", y=y, x=[0, 1])], layout=dict(yaxis=dict(type="log")))

    e = explorable(tiny, title="t", alt="t", m=range(3))
    assert e.decode({"m": 2})["t"]["y"][1] == pytest.approx(3e-7, rel=1e-6)


def test_equal_arrays_are_stored_once():
    arrays = [np.arange(4.0), np.ones(4), np.arange(4.0)]
    record = explore.encode_arrays(arrays)
    assert len(explore.base64.b64decode(record["data"])) == 8
    np.testing.assert_array_equal(explore.decode_arrays(record, 2), arrays[2])


def test_text_comes_back():
    values = [["a", "<b>"], ["c"], ["a", "<b>"]]
    record = explore.encode_arrays(values)
    assert [explore.decode_arrays(record, s) for s in range(3)] == values


def test_every_state_comes_back():
    e = declare()
    for m in range(5):
        for n in (0, 1, 5):
            for kind in ("sine", "line"):
                state = dict(m=m, n=n, kind=kind)
                assert e._differs(e.evaluate(state), e.decode(state)) is None, state


def test_arrays_may_change_their_length():
    e = explorable(lambda m: dict(data=[dict(name="t", x=list(range(m)))]), title="t", alt="t", m=range(0, 6))
    for m in range(6):
        assert e.decode({"m": m})["t"]["x"].tolist() == list(range(m))


def test_a_trace_is_stored_over_its_own_sliders_only():
    tables = {t["item"]: t for t in declare().record()["tables"]}
    assert [group["of"] for group in tables["wave"]["groups"]] == [[[0, 1]], [[2, 1]]]
    assert [group["of"] for group in tables["other"]["groups"]] == [[[1, 1]]]
    assert len(explore.base64.b64decode(tables["other"]["arrays"]["y"]["data"])) == 3 * 2


def test_a_plotly_figure_is_as_good_as_a_dict():
    go = pytest.importorskip("plotly.graph_objects")

    def with_plotly(m, n=0, kind="sine"):
        figure, readouts = wave(m, n, kind)
        return go.Figure(figure), readouts

    state = dict(m=3, n=5, kind="line")
    assert declare()._differs(declare().evaluate(state), declare(with_plotly).evaluate(state)) is None


def test_torch_tensors_are_arrays():
    torch = pytest.importorskip("torch")
    e = explorable(lambda m: dict(data=[dict(name="t", y=torch.arange(3.0) * m)]), title="t", alt="t", m=range(3))
    assert e.decode({"m": 2})["t"]["y"].tolist() == [0, 2, 4]


# --- depends ---------------------------------------------------------------------------------------------------------


def shifted(m, n, shift):
    return dict(data=[dict(name="q", x=[m + shift]), dict(name="k", x=[n + shift])]), {"apart": m - n}


SHIFTED = dict(
    title="t",
    alt="t",
    readout="{apart:d}",
    m=range(0, 8),
    n=range(0, 8),
    shift=range(0, 5),
    depends={"q": [("m", "shift")], "k": [("n", "shift")], "readout": [("m", "-n")]},
)


def test_sums_and_differences_share_a_table():
    e = explorable(shifted, **SHIFTED)
    tables = {t["item"]: t for t in e.record()["tables"]}
    assert tables["q"]["groups"][0]["sums"] == list(range(12))
    assert tables["readout.apart"]["groups"][0]["sums"] == list(range(-7, 8))
    for state in e.random_states(30):
        assert e._differs(e.evaluate(state), e.decode(state)) is None, state


@pytest.mark.parametrize(
    "depends, message",
    [
        ({"q": ["m"]}, r"'q' \(x\).*moves with 'shift', which depends does not name"),
        ({"q": ["shift"]}, r"'q' \(x\).*moves with 'm', which depends does not name"),
        ({"q": [("m", "-shift")]}, r"'q' \(x\).*not a function of the sum of \[\['m', '-shift'\]\]"),
        ({"readout": ["m"]}, r"'readout.apart'.*moves with 'n'"),
        ({"readout": [("m", "n")]}, r"'readout.apart'.*not a function of the sum"),
    ],
)
def test_a_lie_in_depends_is_caught(depends, message):
    with pytest.raises(ValueError, match=message):
        explorable(shifted, **{**SHIFTED, "depends": {**SHIFTED["depends"], **depends}}).record()


def test_a_layout_that_moves_must_be_declared():
    def zoom(m):
        return dict(data=[dict(name="t", x=[1])], layout=dict(xaxis=dict(range=[0, m])))

    with pytest.raises(ValueError, match=r"'layout' \(xaxis.range\).*moves with 'm'"):
        explorable(zoom, title="t", alt="t", depends={"t": []}, m=range(1, 5)).record()
    e = explorable(zoom, title="t", alt="t", depends={"t": [], "layout": ["m"]}, m=range(1, 5))
    assert e.decode({"m": 3})["layout"]["xaxis.range"].tolist() == [0, 3]


def test_an_unseeded_function_is_caught():
    draw = np.random.default_rng()
    e = explorable(lambda m: dict(data=[dict(name="t", x=draw.random(3))]), title="t", alt="t", m=range(3))
    with pytest.raises(ValueError, match="does not return the same for the same values"):
        e.record()


def test_too_many_states_name_the_trace_and_the_count():
    e = explorable(shifted, title="t", alt="t", m=range(50), n=range(50), shift=range(2))
    with pytest.raises(ValueError, match=r"trace 'q' has 5,000 states, more than 2,000"):
        e.record()


def test_depends_must_name_traces_of_the_figure():
    with pytest.raises(ValueError, match=r"depends names 'wav', but the figure has \['wave'"):
        declare(depends={"wav": ["m"]}).record()


def test_each_state_has_the_same_traces():
    e = explorable(lambda m: dict(data=[dict(name=f"t{m}", x=[1])]), title="t", alt="t", m=range(3))
    with pytest.raises(ValueError, match="every state has the same traces"):
        e.record()


def test_a_slider_that_moves_nothing_is_found():
    e = declare(lambda m, n, kind: wave(m, 0, kind), depends={})
    assert e.moving("n") is None
    before, after = e.moving("m")
    assert {k for k in before if before[k] != after[k]} == {"m"}


# --- bad arguments ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes, error, message",
    [
        (dict(title=""), TypeError, "title must be a sentence, got ''"),
        (dict(alt=None), TypeError, "alt must be a sentence, got None"),
        (dict(readout=3), TypeError, "readout must be a text"),
        (dict(readout="{top!r}"), ValueError, r"\{top\} must be a plain name"),
        (dict(readout="{top.real}"), ValueError, "must be a plain name"),
        (dict(readout="{top:>9}"), ValueError, "readout format '>9'"),
        (dict(depends={"wave": "m"}), TypeError, r"depends\['wave'\] must be a list of slider names, got 'm'"),
        (
            dict(depends={"wave": ["q"]}),
            ValueError,
            r"depends\['wave'\] names 'q'; the sliders are \['m', 'n', 'kind'\]",
        ),
        (dict(depends={"wave": ["m", ("n", "m")]}), ValueError, "names 'm' twice"),
        (dict(depends={"wave": [("-m", "n")]}), ValueError, "names '-m'"),
        (dict(depends={"wave": [("m", "kind")]}), ValueError, "sums 'kind', whose values are words"),
        (dict(m=[1]), ValueError, "slider 'm': values has 1 entries"),
        (dict(m="abc"), TypeError, "slider 'm': values must be a range or a list"),
        (dict(m=3), TypeError, "slider 'm': values must be a range or a list"),
        (dict(m=[1, "a"]), TypeError, "slider 'm': values mixes numbers and strings"),
        (dict(m=[1, 1]), ValueError, "slider 'm': values holds an entry twice"),
        (dict(m=[1, math.inf]), TypeError, "slider 'm': values holds inf"),
        (dict(m=[False, True]), TypeError, "slider 'm': values holds False"),
        (
            dict(m=slider(range(3), default=9)),
            ValueError,
            r"slider 'm': default is 9, not one of its values \[0, 1, 2\]",
        ),
        (dict(m=slider(range(3), format="g")), TypeError, "slider 'm': format must be a function"),
        (dict(p=range(3)), TypeError, "slider 'p' is no parameter of wave"),
    ],
)
def test_bad_arguments(changes, error, message):
    with pytest.raises(error, match=message):
        declare(**changes)


def test_a_parameter_needs_a_slider_or_a_default():
    with pytest.raises(TypeError, match="parameter 'm' of wave has neither"):
        explorable(wave, title="t", alt="t", n=range(3))
    with pytest.raises(TypeError, match="fn must be a function"):
        explorable(3, title="t", alt="t", m=range(3))
    with pytest.raises(ValueError, match="no sliders"):
        explorable(wave, title="t", alt="t")


@pytest.mark.parametrize(
    "result, error, message",
    [
        (None, TypeError, "must return a plotly figure or a dict"),
        (dict(data=[dict(x=[1])]), ValueError, "trace 0 .scatter. has no name"),
        (dict(data=[dict(name="a"), dict(name="a")]), ValueError, "trace name 'a' is taken"),
        (dict(data=[dict(name="layout")]), ValueError, "trace name 'layout' is taken"),
        (dict(data=[dict(name="a", marker_color="red")]), ValueError, "'marker_color': write nested dicts"),
        (dict(data=[dict(name="a", x=[1, math.inf])]), ValueError, "'x' holds an infinity; use NaN"),
        (dict(data=[dict(name="a", x=object())]), TypeError, "a figure cannot hold"),
        (dict(data=[], config={}), ValueError, r"the figure has \['config'\]"),
        ((dict(data=[]), 3), TypeError, "must be a dict of readouts"),
    ],
)
def test_bad_figures(result, error, message):
    e = explorable(lambda m: result, title="t", alt="t", m=range(3))
    with pytest.raises(error, match=message):
        e.record()


def test_a_function_that_raises_names_the_state():
    e = explorable(lambda m: dict(data=[dict(name="t", x=[1 / (m - 1)])]), title="t", alt="t", m=range(3))
    with pytest.raises(RuntimeError, match=r"\(m=1\) raised ZeroDivisionError"):
        e.record()


def test_readouts_must_exist():
    with pytest.raises(ValueError, match=r"readout uses \{bottom\}, but the function returns \['kind', 'top'\]"):
        declare(readout="{bottom}").record()


# --- a student's own function ----------------------------------------------------------------------------------------


def turn(m, *, rotate=lambda v: v):
    return dict(data=[dict(name="t", x=[rotate(m)])])


def test_with_function_replaces_a_part():
    e = explorable(turn, title="t", alt="t", m=range(3)).with_function(rotate=lambda v: 10 * v)
    assert e.decode({"m": 2})["t"]["x"].tolist() == [20]
    with pytest.raises(TypeError, match=r"has no part 'turn'; it takes \['rotate'\]"):
        e.with_function(turn=abs)


def test_with_function_replaces_the_whole():
    e = explorable(turn, title="t", alt="t", m=range(3))
    own = e.with_function(lambda m: dict(data=[dict(name="t", x=[-m])]))
    assert own.decode({"m": 2})["t"]["x"].tolist() == [-2] and e.decode({"m": 2})["t"]["x"].tolist() == [2]
    with pytest.raises(TypeError, match="slider 'm' is no parameter"):
        e.with_function(lambda k: None)


# --- links -----------------------------------------------------------------------------------------------------------


def test_links_round_trip():
    e = declare()
    for state in e.random_states(40):
        assert e.parse(e.fragment(**state)) == state


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60))
def test_any_link_gives_a_state(text):
    e = declare()
    for fragment in (text, f"#{e.id}={text}", f"#{e.id}=m:{text},kind:{text},n:{text}"):
        state = e.parse(fragment)
        assert all(state[name] in s.values for name, s in e.sliders.items())


@pytest.mark.parametrize(
    "body, expected",
    [
        ("m:99", dict(m=4)),
        ("m:-1e9", dict(m=0)),
        ("m:2.4", dict(m=2)),
        ("m:inf", {}),
        ("m:1_0", {}),
        ("m:1e300", dict(m=4)),
        ("m:-1e300", dict(m=0)),
        ("m:1e999", dict(m=4)),
        ("m:\u0663", {}),  # a digit to Python, not to a browser
        ("m:+1.e0", dict(m=1)),
        ("m:", {}),
        ("n:3", dict(n=1)),
        ("kind:line", dict(kind="line")),
        ("kind:l%69ne", dict(kind="line")),
        ("kind:<script>", {}),
        ("x:3,m:1", dict(m=1)),
    ],
)
def test_links_are_clamped(body, expected):
    e = declare()
    assert e.parse(f"#{e.id}={body}") == {**e.default_state(), **expected}


def test_a_link_names_only_sliders():
    with pytest.raises(ValueError, match="has no slider 'q'"):
        declare().fragment(q=3)
    with pytest.raises(ValueError, match="slider 'm' has no value 77"):
        declare().fragment(m=77)


# --- the page --------------------------------------------------------------------------------------------------------

EVIL = "</script><img src=x onerror=alert(1)>\"'&\u2028"


def test_nothing_slips_into_the_page():
    e = explorable(
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
    for page in (e.body_html("p", EVIL), e.body_html("p", None, inline=True), e.data_js()):
        assert "<img src=x" not in page
        assert page.count("</script>") == (1 if "explorable-data" in page else 0)
        assert "\u2028" not in e.data_js()
    assert (
        json.loads(re.search(r"posencExplorable\(.*?, (\{.*\})\);", e.data_js(), re.S)[1])["figure"]["data"][0]["name"]
        == EVIL
    )


def test_the_markup_is_native():
    body = declare().body_html("p", "pic.svg")
    assert body.count('<input type="range"') == 3
    assert '<label for="p-m">m of the wave</label>' in body
    assert 'id="p-m" name="m" min="0" max="4" step="1" value="2" aria-valuetext="2"' in body
    assert 'aria-valuetext="sine"' in body
    assert '<p class="explorable-readout">top 2.00 (sine)</p>' in body
    assert re.search(r'<img [^>]*src="pic.svg" alt="A wave and a bar."[^>]*width="680" height="360"', body)


def test_readouts_in_words():
    e = declare(readout="{top:+.1f}|{top:.2e}|{top:.3g}|{top:.0%}|{top:d}|{kind}")
    assert e.readout_text({"top": 0.00001, "kind": "x"}) == "+0.0|1.00e-05|1e-05|0%|0|x"
    assert e.readout_text({"top": math.nan, "kind": ""}) == "–|–|–|–|–|"


def test_in_the_book_a_cell_shows_the_site_player(monkeypatch):
    e = declare()
    monkeypatch.setenv("POSENC_BOOK", "1")
    assert len(e._repr_html_()) < 10_000
    monkeypatch.delenv("POSENC_BOOK")
    page = e._repr_html_()
    assert "posencExplorables.notebook(" in page and "http" not in re.sub(r'"[A-Za-z0-9+/=]{1000,}"', "", page)
    markup = re.sub(r"<script\b.*?</script>", "", page, flags=re.DOTALL)  # the player knows how to write a frame
    assert markup.count("src=") == markup.count('src="data:image/png;base64,') == 1
    assert "<script src" not in page


def ink(items, height=360):
    """The pixels of a still picture as numbers from 0 (white) to 1."""
    image = matplotlib.image.imread(io.BytesIO(still.png(items, 680, height)))
    return 1 - image[..., :3].min(-1)


def test_still_picture_shows_the_students_function():
    e = declare()
    mine = e.with_function(lambda m, n=0, kind="sine": wave(-m, n, kind))
    one, other = ink(e.evaluate()), ink(mine.evaluate())
    assert one.shape == other.shape == (432, 816) and not np.array_equal(one, other)
    assert np.array_equal(one, ink(e.evaluate()))
    with pytest.raises(ValueError, match="trace 'a' is of type 'pie'; a still picture shows scatter, bar, heatmap"):
        still.png(explore.figure_leaves({"data": [{"type": "pie", "name": "a"}]}), 680, 360)


def traces():
    line = dict(name="a", x=[0.0, 1.0, 2.0], y=[0.5, 2.0, 1.0], mode="lines")
    bar = dict(name="a", type="bar", x=[0.0, 1.0], y=[1.0, 2.0])
    heat = dict(name="a", type="heatmap", x=[0.0, 1.0], y=[0.0, 1.0], z=[[0.0, 1.0], [2.0, 3.0]], showscale=False)
    marks = dict(name="a", x=[0.0, 1.0], y=[1.0, 2.0], mode="markers")
    return {
        "dash": (line, line | dict(line=dict(dash="dash"))),
        "fill": (line, line | dict(fill="toself")),
        "marker": (line, line | dict(mode="lines+markers")),
        "open": (marks, marks | dict(marker=dict(symbol="circle-open"))),
        "symbol": (marks, marks | dict(marker=dict(symbol="star"))),
        "color": (marks, marks | dict(marker=dict(color=["#ff0000", "rgba(0, 200, 0, 0.5)"]))),
        "text": (marks, marks | dict(mode="markers+text", text=["$ <b>one</b>", "two"])),
        "legend": (line, line | dict(showlegend=False)),
        "hidden": (line, line | dict(visible=False)),
        "across": (bar, dict(bar, x=bar["y"], y=bar["x"], orientation="h")),
        "base": (bar, bar | dict(base=0.5)),
        "pattern": (bar | dict(marker=dict(pattern=dict(shape=""))), bar | dict(marker=dict(pattern=dict(shape="/")))),
        "shape": (bar | dict(marker=dict(pattern=dict(shape="/"))), bar | dict(marker=dict(pattern=dict(shape="x")))),
        "colorscale": (heat, heat | dict(colorscale=[[0.0, "#000000"], [1.0, "#ff0000"]])),
        "limits": (heat, heat | dict(zmin=-9, zmax=9)),
    }


@pytest.mark.parametrize("what", traces())
def test_still_picture_draws_what_the_trace_says(what):
    one, other = (ink(explore.figure_leaves({"data": [trace], "layout": {}})) for trace in traces()[what])
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    "layout",
    [
        dict(range=[-3, 9]),
        dict(type="log"),
        dict(title=dict(text="token")),
        dict(tickvals=[0.5], ticktext=["half"]),
        dict(showticklabels=False),
        dict(visible=False),
        dict(domain=[0.5, 1]),
    ],
    ids=lambda layout: next(iter(layout)),
)
def test_still_picture_draws_what_the_axis_says(layout):
    data = [dict(name="a", x=[1.0, 2.0], y=[1.0, 2.0], mode="lines")]
    pictures = [ink(explore.figure_leaves({"data": data, "layout": {"yaxis": said}})) for said in ({}, layout)]
    assert not np.array_equal(*pictures)


def test_importing_explore_does_not_import_plotly():
    code = "import sys, posenc.lab.explore; sys.exit('plotly' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


# --- the book's explorables ------------------------------------------------------------------------------------------


def test_pictures_show_the_state_they_should():
    assert explore.stale_pictures() == []


def test_a_picture_of_another_state_is_found():
    one = declare()
    assert explore.same_fingerprint(one.fingerprint(), declare().fingerprint())
    noisy = declare(lambda m, n, kind: wave(m + 1e-9, n, kind))
    assert explore.same_fingerprint(one.fingerprint(), noisy.fingerprint())
    assert not explore.same_fingerprint(one.fingerprint(), declare(m=slider(range(5), default=3)).fingerprint())
    assert not explore.same_fingerprint(
        one.fingerprint(), declare(lambda m, n, kind: wave(m + 0.01, n, kind)).fingerprint()
    )
    assert not explore.same_fingerprint(one.fingerprint(), declare(n=slider([0, 1, 5], default=1)).fingerprint())


@pytest.mark.parametrize("id", sorted(explore.all_explorables()))
def test_each_slider_moves_the_drawing(id):
    e = explore.load(id)
    for name in e.sliders:
        assert e.moving(name), f"slider {name!r} of {id} never changes the drawing alone"
    assert len(e.data_js().encode()) <= explore.MAX_PAGE_BYTES


@pytest.mark.parametrize("id", sorted(explore.all_explorables()))
def test_still_picture_of_each_is_drawn_and_moves(id):
    e = explore.load(id)
    drawn = ink(e.evaluate(), e.height)
    assert 0.003 < (drawn > 0.2).mean() < 0.7
    others = (ink(e.evaluate(state), e.height) for state in e.random_states(9)[1:])
    assert not all(np.array_equal(drawn, other) for other in others), "other states, the same picture"


def look(trace):
    r"""What a trace's drawing shows besides its color."""
    kind = trace.get("type", "scatter")
    mode = trace.get("mode", "lines") if kind == "scatter" else kind
    said = [mode, trace.get("fill"), trace.get("opacity"), trace.get("marker.opacity")]
    if "lines" in mode:
        said += [trace.get("line.dash", "solid"), trace.get("line.width", 2)]
    if "markers" in mode:
        said += [trace.get("marker.symbol", "circle")]
    if "text" in mode or kind == "bar":
        said += [trace.get("text")]
    if kind == "bar":
        said += [
            trace.get("marker.pattern.shape"),
            trace.get("width"),
            re.findall(r"rgba.*", str(trace.get("marker.color"))),
        ]
    return str([part.tolist() if isinstance(part, np.ndarray) else part for part in said])


def told_by_color_alone(items):
    r"""Pairs of traces in one panel that only their colors tell apart."""
    shown = [
        (name, trace)
        for name, trace in items.items()
        if name not in ("layout", "readout") and trace.get("visible", True) is True and np.size(trace.get("x", [])) > 0
    ]
    for (one, a), (other, b) in itertools.combinations(shown, 2):
        panel = all(a.get(axis, axis[0]) == b.get(axis, axis[0]) for axis in ("xaxis", "yaxis"))
        colors = {str(t.get("line.color", t.get("marker.color"))) for t in (a, b)}
        if panel and len(colors) == 2 and look(a) == look(b):
            yield one, other


@pytest.mark.parametrize("id", sorted(explore.all_explorables()))
def test_nothing_is_told_by_color_alone(id):
    e = explore.load(id)
    for state in (e.default_state(), *e.random_states(3, seed=6)):
        assert list(told_by_color_alone(e.evaluate(state))) == [], state


def test_load_says_what_there_is():
    with pytest.raises(ValueError, match="write <module>.<name>"):
        explore.load("rope")
    with pytest.raises(ValueError, match="there is no posenc/lab/figures/nowhere.py"):
        explore.load("nowhere.x")


def test_interact_draws_once_where_no_kernel_answers(monkeypatch, capsys):
    from ipywidgets import IntSlider

    from posenc.lab.explore import interact

    calls = []
    monkeypatch.setenv("POSENC_BOOK", "1")
    assert interact(lambda **values: calls.append(values), m=IntSlider(7, min=0, max=9), kind=["a", "b"]) is None
    assert calls == [{"m": 7, "kind": "a"}]
    assert "Colab" in capsys.readouterr().out
