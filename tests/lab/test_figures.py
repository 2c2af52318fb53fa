r"""The book's explorables: found by their ids, their pictures show their state, no color alone carries a meaning."""

import itertools
import random
import re
import sys

import numpy as np
import pytest

import posenc.chapters
from posenc.chapters import all_explorables, load
from posenc.chapters._tools import stills as pictures
from posenc.lab.explore import declaration
from posenc.lab.explore.leaves import first_difference
from posenc.lab.explore.sliders import within

every_figure = pytest.mark.parametrize("id", [*all_explorables()])

WAVES = """
from posenc.lab.explore import explorable


def wave(m, *, rise=1):
    return dict(data=[dict(name="t", x=[0, 1], y=[0.25, rise * m])])


up = explorable(wave, id="waves.up", title="t", alt="t", m=range(1, 3))
own = up.with_function(rise=9)
"""
RIPPLES = """
from posenc.lab.explore import explorable
from posenc.chapters.waves.figures import up, wave

small = explorable(wave, id="ripples.small", title="t", alt="t", m=range(3))
"""


@pytest.fixture
def figures(monkeypatch, tmp_path):
    r"""The book's figures are those of two small chapters, and their pictures stand in an empty folder."""
    for chapter, text in (("waves", WAVES.replace("own = up", "_own = up")), ("ripples", RIPPLES)):
        (tmp_path / chapter).mkdir()
        (tmp_path / chapter / "figures.py").write_text(text)
    monkeypatch.setattr(posenc.chapters, "__path__", [str(tmp_path)])
    monkeypatch.setattr(declaration, "PICTURES", tmp_path)
    yield tmp_path
    for name in ("waves", "ripples"):
        sys.modules.pop(f"posenc.chapters.{name}", None)
        sys.modules.pop(f"posenc.chapters.{name}.figures", None)
        vars(posenc.chapters).pop(name, None)


def refused(call, *words):
    with pytest.raises(ValueError) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


def test_each_is_found_where_it_is_declared(figures):
    assert [*all_explorables()] == ["ripples.small", "waves.up"]
    assert all(load(id) is e and e.id == id for id, e in all_explorables().items())


@pytest.mark.parametrize(
    "id, words",
    [
        ("waves", ["'waves'", "<chapter>.<name>"]),
        ("a.b.c", ["'a.b.c'", "<chapter>.<name>"]),
        ("nowhere.x", ["'nowhere.x'", "book/nowhere/figures.py"]),
        ("waves.down", ["'waves.down'", "['waves.up']"]),
        ("ripples.up", ["'ripples.up'", "['ripples.small']"]),
    ],
)
def test_load_says_what_there_is(figures, id, words):
    refused(lambda: load(id), *words)


def test_a_name_other_than_the_id_is_refused(figures):
    (figures / "ripples" / "figures.py").write_text(RIPPLES.replace("small = ", "smaller = "))
    refused(all_explorables, "'ripples.small'", "id='ripples.smaller'")


# Pictures


@pytest.mark.weekly
def test_pictures_show_the_state_they_should():
    owned = {e.picture() for e in all_explorables().values()}
    assert pictures.stale() == {} and not {*declaration.PICTURES.glob("*.svg")} - owned


def test_which_pictures_are_stale(figures):
    assert [*pictures.stale()] == ["ripples.small", "waves.up"]
    small, up = (load(id) for id in ("ripples.small", "waves.up"))
    for e in (small, up):
        e.picture().write_text(pictures.tidy("<svg >ü</svg>", small.fingerprint()), "utf-8")
    (complaint,) = pictures.stale().values()
    assert "waves.up.svg shows another state" in complaint and "stills.py waves.up" in complaint
    up.picture().write_text(pictures.tidy("<svg ></svg>", up.fingerprint()), "utf-8")
    assert pictures.stale() == {}


# Each of the book's


def moving(e, name):
    r"""Whether two states that differ in slider `name` alone draw differently."""
    for state in e.random_states(40, seed=1):
        before = e.evaluate(state)
        others = [value for value in e.sliders[name].values if value != state[name]]
        random.Random(name).shuffle(others)
        for value in others[:20]:
            after = within(e.sliders, {**state, name: value})  # another slider may limit it
            if after[name] == value and first_difference(before, e.evaluate(after)):
                return True
    return False


@every_figure
def test_each_slider_moves_the_drawing(id):
    e = load(id)
    for name in e.sliders:
        assert moving(e, name), f"slider {name!r} of {id} never changes the drawing alone"


def look(trace):
    r"""What a trace's drawing shows besides its color."""
    kind = trace["type"]
    mode = trace.get("mode", "lines") if kind == "scatter" else kind
    parts = [mode, trace.get("fill"), trace.get("opacity"), trace.get("marker.opacity")]
    if "lines" in mode:
        parts += [trace.get("line.dash", "solid"), trace.get("line.width", 2)]
    if "markers" in mode:
        parts += [trace.get("marker.symbol", "circle")]
    if "text" in mode or kind == "bar":
        parts += [trace.get("text")]
    if kind == "bar":
        faint = re.findall(r"rgba.*", str(trace.get("marker.color")))
        parts += [trace.get("marker.pattern.shape"), trace.get("width"), faint]
    return str([part.tolist() if isinstance(part, np.ndarray) else part for part in parts])


def by_color_alone(items):
    r"""Pairs of traces in one panel that only their colors tell apart."""
    traces = [
        (name, trace)
        for name, trace in items.items()
        if name not in ("layout", "readout") and trace.get("visible", True) is True and np.size(trace.get("x", [])) > 0
    ]
    for (one, a), (other, b) in itertools.combinations(traces, 2):
        panel = all(a.get(axis, axis[0]) == b.get(axis, axis[0]) for axis in ("xaxis", "yaxis"))
        colors = {str(t.get("line.color", t.get("marker.color"))) for t in (a, b)}
        if panel and len(colors) == 2 and look(a) == look(b):
            yield one, other


def lost(trace):
    r"""What a trace's tooltip asks for and the trace does not hold."""
    for path in re.findall(r"%\{([^}:]+)", trace.get("hovertemplate", "")):
        name, place = re.fullmatch(r"([\w.]+)(?:\[(\d+)\])?", path).groups()
        if name not in trace or (place and int(place) >= np.shape(trace[name])[-1]):
            yield path


@every_figure
def test_nothing_is_told_by_color_alone_and_tooltips_tell_what_is_there(id):
    e = load(id)
    for state in (e.default_state(), *e.random_states(3, seed=6)):
        items = e.evaluate(state)
        assert list(by_color_alone(items)) == [], state
        assert [path for trace in items.values() for path in lost(trace)] == [], state
