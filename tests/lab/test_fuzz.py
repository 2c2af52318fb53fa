r"""Whatever stands in a file or an address: the right value or an error that names it, and no code is run.

Drawn by hypothesis: `profiles.py` says how many cases. The states of explorables are read back by Python and by the
player's own script in a browser; results are cut, altered and replaced.
"""

import base64
import gzip
import json
import math
import re
from urllib.parse import quote

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from profiles import cases
from states import fragment, parse

from posenc.lab.explore import STATIC, explorable, slider
from posenc.lab.explore.arrays import decode_arrays, encode_arrays, same_fingerprint
from posenc.lab.figures import all_explorables
from posenc.lab.figures import load as load_explorable
from posenc.lab.figures.pictures import main

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


# ------------------------------------------------------------------------------------------------------------ results
