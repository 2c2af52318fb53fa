r"""What mutation testing found untested in posenc/lab/explore/core.py: pages, notebooks and pictures in whole."""

import base64
import builtins
import functools
import gzip
import math
import os
import sys
from pathlib import Path

import pytest

import posenc.lab.figures
from posenc.lab.explore import core as explore
from posenc.lab.explore import explorable, slider, still


def tiny(m, word="a"):
    return dict(data=[dict(name="t", x=[m])], layout=dict(height=200)), {"r": m / 2}


def declare(fn=tiny, **changes):
    arguments = dict(title='One "X" & <ü>', alt="It's X.", readout="r = {r:.1f}", depends={"t": ["m"], "readout": []})
    sliders = dict(m=slider([1, 2], default=2, label="size <m>"), word=["a<b", "X/ü"])
    return explorable(fn, **{**arguments, **sliders, **changes})


def constant(m, word):
    return dict(data=[dict(name="t", x=[0])], layout=dict(height=200)), {"r": 1.0}


# --- pages -----------------------------------------------------------------------------------------------------------

CONTROLS = (
    '<p class="explorable-readout">r = 1.0</p>'
    '<div class="explorable-controls" role="group" aria-label="Sliders: One &quot;X&quot; &amp; &lt;ü&gt;">'
    '<div class="explorable-slider"><label for="p-m">size &lt;m&gt;</label>'
    '<span class="explorable-value" aria-hidden="true">2</span>'
    '<input type="range" id="p-m" name="m" min="0" max="1" step="1" value="1" aria-valuetext="2" autocomplete="off">'
    "</div>"
    '<div class="explorable-slider"><label for="p-word">word</label>'
    '<span class="explorable-value" aria-hidden="true">a&lt;b</span>'
    '<input type="range" id="p-word" name="word" min="0" max="1" step="1" value="0" aria-valuetext="a&lt;b" '
    'autocomplete="off"></div>'
    '<div class="explorable-tools"><button type="button" class="explorable-reset">Reset</button></div></div>'
)
STATES = (
    '{"id":"test_explore_pages.constant","sliders":[{"name":"m","values":[1,2],"words":["1","2"],"start":1},'
    r'{"name":"word","values":["a\u003cb","X/ü"],"words":["a\u003cb","X/ü"],"start":0}],'
    '"readout":"r = {r:.1f}","traces":["t"],'
    '"figure":{"data":[{"type":"scatter","name":"t","x":[0]}],"layout":{"height":200}},'
    '"tables":[{"item":"readout.r","target":["readout"],"groups":[],'
    '"arrays":{"r":{"type":"u1","min":1.0,"step":1.0,"data":"AA==","shape":[],"index":0}}}]}'
)
SIZE = 'width="680" height="200" style="min-height: min(200px, 28rem)"'
OPENED = (
    '<div class="explorable-body" data-explorable="test_explore_pages.constant" data-alt="It&#x27;s X.">'
    '<div class="explorable-plot">'
)
EMPTY = f'<svg class="explorable-picture" {SIZE} viewBox="0 0 680 200" aria-hidden="true"></svg></div>'
DATA = f'<script type="application/json" class="explorable-data">{STATES}</script></div>'
CAPTION = (
    '<figcaption><p><span class="caption-text">One &quot;X&quot; &amp; &lt;ü&gt;</span></p>'
    '<div class="legend"><details><summary>What to see</summary><p>It&#x27;s X.</p></details></div></figcaption>'
)


def image(source):
    return f'<img class="explorable-picture dark-light" src="{source}" alt="It&#x27;s X." {SIZE} loading="lazy"></div>'


def test_the_whole_body():
    made = declare(constant)
    assert made.controls_html("p") == CONTROLS
    assert declare(constant, readout=None).controls_html("p") == CONTROLS.removeprefix(
        '<p class="explorable-readout">r = 1.0</p>'
    )
    assert made.body_html("p", None) == f"{OPENED}{EMPTY}{CONTROLS}</div>"
    assert made.body_html("p", 'a"b.svg') == f"{OPENED}{image('a&quot;b.svg')}{CONTROLS}</div>"
    assert made.body_html("p", None, inline=True) == f"{OPENED}{EMPTY}{CONTROLS}{DATA}"


def test_the_whole_data_file():
    assert declare(constant).data_js() == f'posencExplorable("test_explore_pages.constant", {STATES});\n'


def test_states_are_json_that_stays_inside_a_script():
    assert explore._script_json("<X>&\u2028\u2029") == r'"\u003cX\u003e\u0026\u2028\u2029"'
    with pytest.raises(ValueError, match="not JSON compliant"):
        explore._script_json({"x": math.nan})


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    r"""Cells are drawn with known ids, and each explorable has a picture on disk."""
    monkeypatch.setattr(os, "urandom", bytes)
    monkeypatch.setattr(explore, "__file__", str(tmp_path / "posenc" / "lab" / "explore" / "core.py"))
    folder = tmp_path / "book" / "_static" / "figures"
    folder.mkdir(parents=True)
    for name in ("constant", "constant.own"):
        (folder / f"test_explore_pages.{name}.svg").write_text("<svg/>")
    return folder


def test_a_cell_of_the_book(drawn, monkeypatch):
    monkeypatch.setenv("POSENC_BOOK", "1")
    controls = CONTROLS.replace('"p-', '"explorable-00000000-')
    made = declare(constant)
    picture = image("posenc-static/figures/test_explore_pages.constant.svg")
    assert made._repr_html_() == f'<figure class="explorable">{OPENED}{picture}{controls}{DATA}{CAPTION}</figure>'
    empty = f'<figure class="explorable">{OPENED}{EMPTY}{controls}{DATA}{CAPTION}</figure>'
    # A student's own function never gets the book's picture.
    own = made.with_function(constant)._repr_html_()
    assert own == empty.replace("test_explore_pages.constant", "test_explore_pages.constant.own")
    (drawn / "test_explore_pages.constant.svg").unlink()
    assert made._repr_html_() == empty


@pytest.fixture
def ascii_by_default(monkeypatch):
    r"""A system whose text files are ASCII unless the program says otherwise."""

    def read_text(path, encoding=None):
        return path.read_bytes().decode(encoding or "ascii")

    monkeypatch.setattr(Path, "read_text", read_text)


def test_a_cell_of_a_notebook(drawn, ascii_by_default, monkeypatch, tmp_path):
    monkeypatch.delenv("POSENC_BOOK", raising=False)
    monkeypatch.setattr(still, "png", lambda items, width, height: f"{[*items]} {width} {height}".encode())
    monkeypatch.setattr(explore, "STATIC", tmp_path)
    (tmp_path / "player.css").write_text("/* ü */", "utf-8")
    (tmp_path / "player.js").write_text('"ü</script>"', "utf-8")
    (tmp_path / "plotly-cartesian.min.js").write_bytes(b"plotly")
    id = "explorable-00000000"
    controls = CONTROLS.replace('"p-', f'"{id}-')
    picture = base64.b64encode(b"['t', 'layout', 'readout'] 680 200").decode()
    plotly = base64.b64encode(gzip.compress(b"plotly", mtime=0)).decode()  # no date: the same cell, the same output
    assert declare(constant)._repr_html_() == (
        f'<figure class="explorable explorable-notebook" id="{id}">{OPENED}{image(f"data:image/png;base64,{picture}")}'
        f"{controls}{DATA}{CAPTION}</figure>"
        "<style>/* ü */</style>"
        '<script>(function(define, module, exports){\n"ü<\\/script>"\n})();\n'
        f'posencExplorables.notebook("{id}", "{plotly}");</script>'
    )


def test_links_escape_all_but_plain_letters():
    assert declare().fragment(word="X/ü") == "#test_explore_pages.tiny=word:X%2F%C3%BC"


# --- declaring -------------------------------------------------------------------------------------------------------


def parts(m, size=1, *, word="a", turn=abs):
    return dict(data=[dict(name="t", x=[turn(m)])])


def test_with_function_keeps_all_else():
    made = declare()
    own = made.with_function(constant)
    assert own.fn is constant and own.id == "test_explore_pages.tiny.own"
    for kept in ("title", "alt", "readout", "depends", "sliders"):
        assert getattr(own, kept) == getattr(made, kept)


@pytest.mark.parametrize("name", ["m", "size", "word", "q"])
def test_only_keyword_parameters_without_a_slider_are_parts(name):
    made = declare(parts, readout=None, depends=None)
    with pytest.raises(TypeError) as caught:
        made.with_function(**{name: 3})
    told = f"with_function: test_explore_pages.parts has no part {name!r}; it takes ['turn']"
    assert str(caught.value) == told
    assert made.with_function(turn=lambda m: -m).call({})[0]["data"][0]["x"] == [-2]


def test_a_function_with_some_arguments_filled_in_keeps_its_name():
    made = declare(functools.partial(functools.partial(parts, size=2), turn=abs), readout=None, depends=None)
    assert made.id == "test_explore_pages.parts" and made.module == "test_explore_pages"


def test_a_function_of_any_names_takes_every_slider():
    made = declare(lambda **values: tiny(**values))
    assert made.evaluate()["t"]["x"].tolist() == [2]


class Callable:
    def __call__(self, m, word):
        return tiny(m)


# A wrong call -> all that its error says.
MESSAGES = """
declare(Callable(), title="") -> explorable: title must be a sentence, got ''
declare(readout="{{r}} {r:>9}") -> tiny: readout format '>9' of {r}: use .3f, .2e, .4g, .0%, d, with or without +
declare(depends={"t": {8, 1}}) -> tiny: depends['t'] names 1; the sliders are ['m', 'word']
declare(depends={"t": frozenset([8, 1])}) -> tiny: depends['t'] names 1; the sliders are ['m', 'word']
explore.load("a.b.c") -> explorable 'a.b.c': write <module>.<name>, such as rope.rotation_invariance
"""
MESSAGES = [line.split(" -> ") for line in MESSAGES.strip().split("\n")]


@pytest.mark.parametrize("call, message", MESSAGES, ids=range(len(MESSAGES)))
def test_the_whole_message(call, message):
    with pytest.raises((TypeError, ValueError)) as caught:
        eval(call)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "said, meant",
    [
        (["word", "m"], ("m", "word")),
        ({"word", "m"}, ("m", "word")),
        ([("word",), ["m"]], ("m", "word")),
        ([["m", "-k"], "word"], (("m", "-k"), "word")),
        (["word", ("k", "m")], ("word", ("k", "m"))),
    ],
    ids=range(5),
)
def test_ways_to_say_what_a_trace_depends_on(said, meant):
    made = declare(lambda m, word, k: tiny(m), depends={"t": said}, k=range(3))
    assert made.depends == {"t": meant}


# --- all of them -----------------------------------------------------------------------------------------------------

WAVES = """
from posenc.lab.explore import explorable


def wave(m, *, rise=1):
    return dict(data=[dict(name="t", x=[0, 1], y=[0.25, rise * m])])


up = explorable(wave, title="t", alt="t", m=range(1, 3))
down = up.with_function(rise=-1)
fall = down
_tried = up.with_function(rise=9)
"""
RIPPLES = """
from posenc.lab.explore import explorable
from posenc.lab.figures.waves import up, wave


def ripple(m):
    return wave(m)


small = explorable(ripple, title="t", alt="t", m=range(3))
"""


@pytest.fixture
def figures(monkeypatch, tmp_path):
    r"""The book's figures are those of two small modules."""
    folder = tmp_path / "figures"
    folder.mkdir()
    (folder / "waves.py").write_text(WAVES)
    (folder / "ripples.py").write_text(RIPPLES)
    monkeypatch.setattr(posenc.lab.figures, "__path__", [str(folder)])
    yield
    for name in ("waves", "ripples"):
        sys.modules.pop(f"posenc.lab.figures.{name}", None)
        vars(posenc.lab.figures).pop(name, None)


def test_all_that_have_a_name_are_found(figures):
    found = explore.all_explorables()
    assert list(found) == ["ripples.small", "waves.down", "waves.fall", "waves.up"]
    assert all(isinstance(e, explore.Explorable) for e in found.values())
    assert found["waves.down"] is found["waves.fall"] and found["waves.up"].id == "waves.up"


def test_load_calls_it_what_it_was_asked_for(figures):
    for id in ("waves.up", "waves.down", "waves.fall", "waves.down"):
        assert explore.load(id).id == id


@pytest.mark.parametrize("name", ["nowhere", "wave"])
def test_load_says_what_the_module_has(figures, name):
    with pytest.raises(ValueError) as caught:
        explore.load(f"waves.{name}")
    told = f"explorable 'waves.{name}': posenc/lab/figures/waves.py has ['up', 'down', 'fall', '_tried']"
    assert str(caught.value) == told


# --- pictures --------------------------------------------------------------------------------------------------------


def picture(fingerprint):
    return f'<svg data-posenc-state="{fingerprint}"><text>ü</text></svg>'


def test_which_pictures_are_stale(figures, drawn, ascii_by_default):
    for left in drawn.iterdir():
        left.unlink()
    small, down, up = (explore.load(id) for id in ("ripples.small", "waves.down", "waves.up"))
    for id in ("waves.down", "waves.fall"):
        (drawn / f"{id}.svg").write_text("<svg/>", "utf-8")
    (drawn / "waves.up.svg").write_text(picture(down.fingerprint()), "utf-8")
    (drawn / "notes.txt").write_text("", "utf-8")
    for orphan in ("waves.over.svg", "alone.svg"):
        (drawn / orphan).write_text(picture(up.fingerprint()), "utf-8")
    draw = "run: python -m posenc.lab.explore pictures"
    orphans = [f"{name}.svg belongs to no explorable; delete it" for name in ("alone", "waves.over")]
    assert explore.stale_pictures() == [
        f"ripples.small has no picture; {draw} ripples.small",
        f"waves.down has no picture; {draw} waves.down",
        f"waves.fall has no picture; {draw} waves.fall",
        f"waves.up: the picture shows another state; {draw} waves.up",
        *orphans,
    ]
    for id, e in {"ripples.small": small, "waves.down": down, "waves.fall": down, "waves.up": up}.items():
        (drawn / f"{id}.svg").write_text(picture(e.fingerprint()), "utf-8")
    assert explore.stale_pictures() == orphans


def test_only_the_outer_svg_says_its_state():
    svg = "<svg ><svg ><svg ></svg></svg></svg>"
    assert explore._tidy_svg(svg, "a") == '<svg data-posenc-state="a" ><svg ><svg ></svg></svg></svg>\n'


@pytest.mark.parametrize("there", [True, False])
def test_chrome_of_a_mac_is_used_where_it_is(monkeypatch, there):
    mac = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
    monkeypatch.setattr("shutil.which", lambda asked: None)
    monkeypatch.setattr("os.path.exists", lambda path: path == mac and there)
    assert explore.find_chromium() == (mac if there else None)


def test_pictures_drawn_elsewhere_are_told_by_their_whole_path(monkeypatch, capsys, tmp_path):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(explore, "draw_pictures", lambda ids: [tmp_path / "a.svg", tmp_path / "here" / "b.svg"])
    assert explore.main(["pictures"]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'a.svg'}\nb.svg\n"


# --- sliders over a drawing of matplotlib ----------------------------------------------------------------------------


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


def shown(function, **sliders):
    r"""What a cell with `interact` shows: its one output, and the widget."""
    import ipywidgets
    from IPython.utils.capture import capture_output

    widgets = []

    class Recorded(ipywidgets.interactive):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            widgets.append(self)

    with pytest.MonkeyPatch.context() as patch, capture_output() as got:
        patch.setattr(ipywidgets, "interactive", Recorded)
        assert explore.interact(function, **sliders) is None
    widget = widgets[-1]
    view = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
    # The function under the sliders draws too; the cell's own output is the one with the sliders.
    outputs = [output for output in got.outputs if "application/vnd.jupyter.widget-view+json" in output.data]
    assert len(outputs) == 1
    data = dict(outputs[0].data)
    assert data.pop("application/vnd.jupyter.widget-view+json") == view
    return data, widget


# The function may name a slider by itself: from 1 to 9, so it starts in the middle.
def quiet(m, n=(1, 9)):
    pass


def loud(m, n=(1, 9)):
    print(m, n)


def drawing(m, n=(1, 9)):
    from IPython.display import display

    display({"text/plain": "words"}, raw=True)
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
    data, widget = shown(function, m=[3, 4])
    assert data == expected
    assert widget.kwargs == {"m": 3, "n": 5} and not widget.manual


@pytest.mark.parametrize("version, calls", [("7.8.5", 3), ("7.0", 3), ("8.0.0", 2), ("8.9", 2), ("10.1.2", 2)])
def test_older_widgets_draw_once_more(shell, monkeypatch, version, calls):
    monkeypatch.setattr("ipywidgets.__version__", version)
    seen = []
    explore.interact(lambda m: seen.append(m), m=[3, 4])
    assert seen == [3] * calls


def test_the_book_shows_one_position(monkeypatch, capsys):
    monkeypatch.setenv("POSENC_BOOK", "1")
    assert explore.interact(loud, m=[3, 4]) is None
    told = "One position of the sliders. Open the lab in Colab or JupyterLab to move them."
    assert capsys.readouterr().out == f"3 5\n{told}\n"


# --- mistakes in a declaration are named -----------------------------------------------------------------------------


def line(m, k=1):
    return {"data": [{"name": "t", "x": [m]}]}


@pytest.mark.parametrize(
    "depends, error, message",
    [
        (3, TypeError, r"line: depends=3 must be a dict of lists of slider names"),
        ({"t": [[]]}, ValueError, r"line: depends\['t'\] holds a sum of no sliders: \[\[\]\]"),
        ({"t": [{"m"}]}, ValueError, r"line: depends\['t'\] names \{'m'\}; the sliders are \['m'\]"),
        ({"t": {"m", 3}}, ValueError, r"line: depends\['t'\] names 3; the sliders are \['m'\]"),
    ],
)
def test_a_mistake_in_depends_is_named(depends, error, message):
    with pytest.raises(error, match=message):
        explore.explorable(line, title="t", alt="t", m=range(2), depends=depends)


def test_a_mistake_in_a_readout_is_named():
    with pytest.raises(ValueError, match=r"line: readout='\{': "):
        explore.explorable(line, title="t", alt="t", m=range(2), readout="{")


def test_a_partial_function_may_be_declared_and_its_mistakes_are_named():
    part = functools.partial(line, k=2)
    assert explore.explorable(part, title="t", alt="t", m=range(2)).record()
    with pytest.raises(TypeError, match="slider 'q' is no parameter of line"):
        explore.explorable(part, title="t", alt="t", m=range(2), q=range(3))


def test_a_number_too_large_for_a_page_is_named():
    def large(m):
        return {"data": [{"name": "a", "y": [1e39] * 20}]}, {"top_k": 1.0}

    with pytest.raises(ValueError, match=r"large: a, y: 1e\+39 is too large for a page"):
        explore.explorable(large, title="t", alt="t", m=range(3)).record()


def test_a_callable_object_goes_by_its_class():
    class Drawing:
        def __call__(self, m):
            return line(m)

    with pytest.raises(TypeError, match="slider 'q' is no parameter of Drawing"):
        explore.explorable(Drawing(), title="t", alt="t", m=range(2), q=range(3))
