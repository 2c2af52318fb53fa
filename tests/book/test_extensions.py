r"""What the book's own extensions hand on: vendored files, the cache of executed pages, what a build writes."""

import hashlib
import json
import os
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from posenc.lab.experiments import half_width, load_results
from posenc.lab.write import pm

ROOT = Path(__file__).resolve().parents[2]


def test_vendored_files_are_what_was_vendored():
    for entry in json.loads((ROOT / "book/_vendor/vendor.json").read_text("utf-8")):
        for name, digest in entry["files"].items():
            assert hashlib.sha256((ROOT / name).read_bytes()).hexdigest() == digest, (
                f"{name} differs: run `make vendor`"
            )


@pytest.fixture
def site_parts(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "book" / "_ext"))
    for name in ("POSENC_BOOK", "IPYTHONDIR"):
        monkeypatch.setenv(name, "")  # which the extension sets; put back afterwards
    return pytest.importorskip("site_parts", reason="Sphinx is missing: run `make test` once")


@pytest.fixture
def execution(site_parts):
    import execution

    yield execution
    execution.now.cache_clear()


def test_outputs_are_of_the_files_that_a_page_has_read(execution, tmp_path, monkeypatch):
    monkeypatch.setattr(execution, "ROOT", tmp_path)
    (tmp_path / "posenc").mkdir()
    source, other = tmp_path / "posenc" / "rope.py", tmp_path / "posenc" / "alibi.py"
    for path in (source, other):
        path.write_text("sign = 1")
        os.utime(path, (0, 0))
    os.utime(tmp_path / "posenc", (0, 0))
    record = execution.Record(tmp_path)
    record.keep("book/rope", {"posenc/rope.py": True, "posenc": False}, 1.0, cells="c")
    record.write()

    def fresh(name="book/rope", cells="c"):
        execution.now.cache_clear()
        return execution.Record(tmp_path).fresh(name, cells=cells)

    assert fresh() and not fresh(cells="other cells") and not fresh("book/alibi")
    other.write_text("sign = 2")
    assert fresh(), "a file that it has not read"
    source.write_text("sign = -1")
    assert not fresh()
    source.write_text("# a comment\nsign = 1")
    assert fresh()
    (tmp_path / "posenc" / "fox.py").write_text("")
    assert not fresh(), "a file in a folder that it has listed"
    monkeypatch.setenv("POSENC_PRESET", "lab")
    execution.settings.cache_clear()
    (tmp_path / "posenc" / "fox.py").unlink()
    assert not fresh()
    execution.settings.cache_clear()


def test_a_long_docstring_stands_folded_behind_its_code(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "book" / "_ext"))
    build = pytest.importorskip("sphinx.cmd.build").build_main
    (tmp_path / "code.py").write_text(
        'def long(x):\n    r"""What it is.\n\n    Arguments:\n        x: a < b.\n    """\n    check(x)\n'
    )
    include = ".. literalinclude:: code.py\n   :pyobject: long\n   :language: python\n\n"
    inside = ".. dropdown:: The code\n\n   .. literalinclude:: code.py\n      :language: python\n"
    (tmp_path / "index.rst").write_text("Title\n=====\n\n" + include + inside)
    (tmp_path / "conf.py").write_text('extensions = ["paperwork", "sphinx_design"]\n')
    assert build(["-q", "-W", str(tmp_path), str(tmp_path / "out")]) == 0
    page = (tmp_path / "out/index.html").read_text("utf-8")
    code, rest, folded = page.split("<details")
    assert "What it is." in code and "Arguments" not in code and '"""</span>' in code and "check" in code
    assert "<summary>More on <code>long</code></summary><pre>Arguments:\n    x: a &lt; b.</pre></details>" in rest
    assert "Arguments" in folded


def test_the_first_use_of_a_glossary_s_word_leads_there(site_parts):
    import glossary
    from docutils import nodes
    from sphinx import addnodes

    page = nodes.section()
    page += nodes.title("", "Lanes")
    page += nodes.paragraph("", "", nodes.literal("", "lane"), nodes.Text(" is code, “lanes” quoted, and many lanes"))
    page += nodes.paragraph("", "A lane, under a causal\nmask.")
    env = SimpleNamespace(docname="book/rope", doc2path=lambda _: ROOT / "book/notation.md", note_dependency=str)
    glossary.link_first_uses(SimpleNamespace(env=env), page)
    links = [(link["reftarget"], link.astext()) for link in page.findall(addnodes.pending_xref)]
    assert links == [("lane", "lanes"), ("causal mask", "causal\nmask")]
    assert page[1].astext() == "lane is code, “lanes” quoted, and many lanes"


def test_a_first_reading_takes_the_time_of_what_it_shows(site_parts):
    import minutes
    from docutils import nodes

    def section(title, *parts):
        return nodes.section("", nodes.title("", title), *parts)

    def words(count):
        return nodes.paragraph("", "word " * count)

    def fold():
        return nodes.container("", nodes.rubric("", "Why?"), words(99), design_component="dropdown")

    page = section("Page", words(9), nodes.math_block("", "a"), nodes.literal_block("", "a\n\nb"), fold())
    assert minutes.seconds(page) == pytest.approx(20 + 2 * 15 + 11 * 0.3)
    page += [section("Check yourself", fold()), section("Second reading", words(99))]
    assert minutes.seconds(page) == pytest.approx(20 + 2 * 15 + 113 * 0.3)


def test_a_number_is_read_from_the_file_that_it_names(site_parts):
    import sources

    runs = load_results("scaling")["schemes"]["yarn"]["text"]["before"]["whole"]
    assert sources.value_of("pm(scaling.schemes.yarn.text.before.whole[:, -1])") == (
        pm([run[-1] for run in runs]),
        ("scaling",),
    )
    assert sources.value_of("dec(mean(text.methods.rope.whole) - 100, 1)")[0].startswith("−9")
    arms = load_results("report_causal")["methods"]
    apart = np.subtract(*(arms[name]["scores"]["340"] for name in ("rope", "nope")))
    mean, low, high = map(
        float, re.findall(r"[\d.]+", sources.value_of('beside(report_causal, "rope", "nope", "340")')[0])
    )
    assert mean == round(apart.mean(), 3) and high - low > 2 * half_width(apart)  # windows count, too
    for text, named in {"scaling.schems": "'schems'", "nothing.x": "nothing", "1 + 1": "2"}.items():
        with pytest.raises(ValueError, match=named):
            sources.value_of(text)
