"""The measurement of the built book: its host, its choice of pages, its medians, and that each regression is noticed.

Lighthouse runs in none of these: `python benchmarks/published_page.py` does that.
"""

import gzip
import json
import random
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import published_page as measured  # noqa: E402

PAGE = "<!doctype html><title>A page</title>" + "<p>What repeats is compressed.</p>" * 200


@pytest.fixture
def small_site(tmp_path):
    r"""A landing page that is a redirect, three chapters, states of explorables, a picture."""
    site = tmp_path / "site"
    for folder in ("book", "notebooks", "_static/explore"):
        (site / folder).mkdir(parents=True)
    (site / "index.html").write_text('<meta http-equiv="Refresh" content="0; url=book/intro.html" />')
    for name in ("intro", "rope", "alibi", "scaling"):
        (site / "book" / f"{name}.html").write_text(PAGE)
    noise = random.Random(0).randbytes(16_000)  # does not compress
    (site / "_static/explore/alibi.one.data.js").write_bytes(noise)
    (site / "book/alibi.html").write_text(PAGE + '<div data-src="alibi.one.data.js"></div>')
    (site / "_static/a.png").write_bytes(b"\x89PNG" + b"\0" * 4000)
    (tmp_path / "secret.html").write_text("outside of the site")
    return site


# ------------------------------------------------------------------------------------------------------------- the host


def get(url, **headers):
    r"""(status, headers, body as sent) of a request."""
    request = urllib.request.Request(url, headers={k.replace("_", "-"): v for k, v in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def test_the_host_compresses_text_once_and_leaves_pictures(small_site, monkeypatch):
    packed, real = [], gzip.compress
    monkeypatch.setattr(measured.gzip, "compress", lambda *a, **k: packed.append(1) or real(*a, **k))
    with measured.Host(small_site) as host:
        for _ in range(3):
            status, headers, body = get(host.url + "book/rope.html?v=1", Accept_Encoding="gzip, br")
        assert status == 200 and headers["Content-Encoding"] == "gzip" and headers["Vary"] == "Accept-Encoding"
        assert headers["Content-Type"] == "text/html; charset=utf-8" and int(headers["Content-Length"]) == len(body)
        assert gzip.decompress(body).decode() == PAGE and len(body) < len(PAGE) / 10
        assert len(packed) == 1
        plain = get(host.url + "book/rope.html")
        assert plain[2].decode() == PAGE and plain[1]["Content-Encoding"] is None
        picture = get(host.url + "_static/a.png", Accept_Encoding="gzip")
        assert picture[1]["Content-Encoding"] is None and len(picture[2]) == 4004
        assert picture[1]["Content-Type"] == "image/png" and len(packed) == 1


def test_the_host_knows_what_a_browser_holds_already(small_site):
    with measured.Host(small_site) as host:
        tag = get(host.url + "book/rope.html")[1]["ETag"]
        assert get(host.url + "book/rope.html", If_None_Match=tag)[::2] == (304, b"")
        (small_site / "book" / "rope.html").write_text(PAGE + "new")
    with measured.Host(small_site) as host:
        assert get(host.url + "book/rope.html", If_None_Match=tag)[0] == 200


@pytest.mark.parametrize("path", ["nothing.html", "../secret.html", "%2e%2e/secret.html", "book", "//etc/passwd"])
def test_the_host_gives_nothing_but_the_site(small_site, path):
    with measured.Host(small_site) as host:
        assert get(host.url + path)[0] == 404
        assert get(host.url)[0] == 200


# ------------------------------------------------------------------------------------------------------------ the pages


def test_pages_by_role_and_by_name(small_site):
    assert measured.choose(small_site, ["landing", "rope", "heaviest"]) == {
        "book/intro.html": "landing",
        "book/rope.html": "rope",
        "book/alibi.html": "heaviest",  # as long as the others, and with states
    }
    assert measured.choose(small_site, ["book/scaling"]) == {"book/scaling.html": "asked for"}
    assert set(measured.choose(small_site, ["all"])) == {
        f"book/{n}.html" for n in ("intro", "rope", "alibi", "scaling")
    }
    (small_site / "index.html").write_text(PAGE)
    assert measured.landing(small_site) == "index.html"


@pytest.mark.parametrize("name", ["ropes", "book/rpoe", "../secret"])
def test_an_unknown_page_is_named(small_site, name):
    with pytest.raises(measured.CannotMeasure, match=f"--pages {name}: the site holds no .*choose from landing, rope"):
        measured.choose(small_site, [name])


def test_what_is_missing_is_named_with_what_to_run(tmp_path, small_site, monkeypatch, capsys):
    def said(*argv):
        assert measured.main(list(argv)) == 2
        return capsys.readouterr().err

    assert "make html" in said("--site", str(tmp_path / "none"))
    assert "--runs=0 must be at least 1" in said("--site", str(small_site), "--runs", "0")
    monkeypatch.setattr(measured, "CLI", tmp_path / "cli.js")
    monkeypatch.setattr(measured.shutil, "which", lambda _: "/usr/bin/node")
    assert "npm ci --prefix benchmarks/lighthouse" in said("--site", str(small_site))
    monkeypatch.setattr(measured.shutil, "which", lambda _: None)
    assert "install Node.js" in said("--site", str(small_site))
    monkeypatch.setattr(measured, "check_tools", lambda: {})
    assert "is not there; run this without --check" in said(
        "--site", str(small_site), "--check", "--record", str(tmp_path / "no.json")
    )
    (tmp_path / "torn.json").write_text('{"pages": ')
    assert "is not JSON" in said("--site", str(small_site), "--check", "--record", str(tmp_path / "torn.json"))
    monkeypatch.setenv("CHROME_PATH", str(tmp_path / "chromium"))
    with pytest.raises(measured.CannotMeasure, match="CHROME_PATH=.*does not exist.*apt-get install chromium"):
        measured.check_chromium()


# ----------------------------------------------------------------------------------------------------- scores and times


def report(performance, lcp):
    r"""As much of a Lighthouse report as is read."""
    passed = {"id": "html-has-lang", "title": "Has a language", "score": 1}
    slow = {"id": "unused-css-rules", "title": "Reduce unused CSS", "score": 0, "displayValue": "Est savings of 9 KiB"}
    slow |= {"metricSavings": {"LCP": 300, "FCP": 0}, "details": {"items": [{"url": "http://127.0.0.1:1/a.css"}]}}
    name = {"id": "meta-description", "title": "No description", "score": 0}
    manual = {"id": "logical-tab-order", "title": "Tab order", "score": None}
    audits = {a["id"]: a for a in (passed, slow, name, manual)}
    audits |= {key: {"id": key, "title": key, "score": 1, "numericValue": lcp} for key in measured.METRICS}
    groups = {"performance": ["unused-css-rules"], "accessibility": ["html-has-lang", "logical-tab-order"]}
    groups |= {"best-practices": [], "seo": ["meta-description"]}
    scores = {"performance": performance, "accessibility": 1, "best-practices": 1, "seo": 0.91}
    return {
        "audits": audits,
        "categories": {
            key: {"score": scores[key], "auditRefs": [{"id": id, "weight": int(key == "seo")} for id in ids]}
            for key, ids in groups.items()
        },
        "environment": {"benchmarkIndex": 1500 + lcp},
    }


def test_each_score_and_metric_is_a_median_of_its_own():
    found = measured.summary([report(0.9, 300), report(0.7, 100), report(0.8, 900)])
    assert found["scores"] == {"performance": 80, "accessibility": 100, "best-practices": 100, "seo": 91}
    assert found["metrics"]["LCP"] == 300 and found["benchmark_index"] == 1800 and found["runs"] == 3


def test_audits_that_are_not_passed_are_kept_with_what_they_cost():
    found = measured.summary([report(0.9, 300)])["lost"]
    assert [row["audit"] for row in found] == ["unused-css-rules", "meta-description"]
    assert found[0]["savings"] == {"LCP": 300} and found[0]["where"] == ["a.css"]


def test_percentile_is_one_of_the_values():
    values = list(range(1, 41))
    assert measured.percentile(values, 0.95) == 38 and measured.percentile([7.0], 0.95) == 7.0
    assert measured.percentile(values[:-1], 0.95) == 38  # 37 of 39 are less than 95%
    assert measured.percentile(values[::-1], 0.5) == 20 and measured.percentile(values, 1.0) == 40


# ------------------------------------------------------------------------------------------------------------ the build


def test_a_command_is_timed_with_its_children(tmp_path):
    (tmp_path / "clone").mkdir()
    child = "import time; held = bytearray(150_000_000); time.sleep(1)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])"  # a child's child
    found = measured.timed([sys.executable, "-c", code], tmp_path / "clone", {}, "small")
    assert 150 < found["peak_MB"] < 600 and 1 <= found["seconds"] < 20


def test_a_build_that_fails_says_why(tmp_path):
    (tmp_path / "clone").mkdir()
    with pytest.raises(RuntimeError, match="(?s)the cold build failed with 3.*no such chapter"):
        measured.timed(
            [sys.executable, "-c", "print('no such chapter'); raise SystemExit(3)"], tmp_path / "clone", {}, "cold"
        )


def test_a_chapter_is_touched_below_its_cells_options():
    for options in ("", ":tags: [remove-cell]\n:name: a\n", "---\ntags: [remove-cell]\nmystnb:\n  a: 1\n---\n"):
        cell = "Text.\n\n```{code-cell} ipython3\n" + options
        rest = "import math\n```\n\n```{code-cell} ipython3\nx = 1\n```\n"
        assert measured.other_code(cell + rest) == cell + "# touched\n" + rest
        assert measured.other_text(cell + rest) == cell + rest + "\nOne sentence more.\n"
    with pytest.raises(ValueError, match="no code cell"):
        measured.other_code("Text.\n")
    assert "# touched" in measured.other_code((ROOT / "book" / "rope.md").read_text("utf-8"))


# ---------------------------------------------------------------------------------------------------------- regressions


def made_up():
    r"""A record in which all goals are reached."""
    lights = {
        "scores": {"performance": 97, "accessibility": 100, "best-practices": 100, "seo": 100},
        "metrics": {"FCP": 1200, "LCP": 1800, "TBT": 90, "CLS": 0.004, "SI": 1500},
        "benchmark_index": 1500,
        "runs": 3,
        "lost": [],
    }
    page = {
        "role": "rope",
        **{
            s: {"bytes": b, "requests": r, "largest": []}
            for s, b, r in zip(measured.STAGES, (100_000, 200_000, 700_000), (9, 14, 17))
        },
        "outside": [],
        "sliders": {"rope.one": {"m": {"median": 12.0, "p95": 20.0}, "n": {"median": 3.0, "p95": 5.0}}},
        "mobile": lights,
        "desktop": lights,
    }
    pages = {"book/intro.html": page | {"role": "landing", "sliders": {}}, "book/rope.html": page}
    pages["book/alibi.html"] = page | {"role": "heaviest"}
    build = {"cold": {"seconds": 500.0, "peak_MB": 2000}, "chapter": "book/rope.md"}
    return json.loads(json.dumps({"name": "published_page", "pages": pages, "build": build}))  # shares nothing


def changed(path, value):
    r"""A made-up record where one figure, given by its path, is `value`, or missing where `value` is None."""
    record = made_up()
    at = record
    for key in path[:-1]:
        at = at[key]
    assert path[-1] in at
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return record


ROPE = ("pages", "book/rope.html")
WORSE = {
    "bytes first": ((*ROPE, "first", "bytes"), 105_100, "bytes first"),
    "bytes scrolled": ((*ROPE, "scrolled", "bytes"), 211_000, "bytes scrolled"),
    "bytes used": ((*ROPE, "used", "bytes"), 736_000, "bytes used"),
    "requests first": ((*ROPE, "first", "requests"), 10, "requests first"),
    "requests scrolled": ((*ROPE, "scrolled", "requests"), 15, "requests scrolled"),
    "requests used": ((*ROPE, "used", "requests"), 18, "requests used"),
    "outside": ((*ROPE, "outside"), ["https://elsewhere.example/a.js"], "leaves the site"),
    "performance": ((*ROPE, "mobile", "scores", "performance"), 93, "mobile performance"),
    "desktop": ((*ROPE, "desktop", "scores", "performance"), 93, "desktop performance"),
    "accessibility": ((*ROPE, "mobile", "scores", "accessibility"), 99, "mobile accessibility"),
    "best practices": ((*ROPE, "mobile", "scores", "best-practices"), 99, "mobile best-practices"),
    "seo": ((*ROPE, "mobile", "scores", "seo"), 99, "mobile seo"),
    "no score": ((*ROPE, "mobile", "scores", "seo"), None, "mobile seo"),
    "FCP": ((*ROPE, "mobile", "metrics", "FCP"), 1400, "mobile FCP"),
    "LCP": ((*ROPE, "mobile", "metrics", "LCP"), 2100, "mobile LCP"),
    "TBT": ((*ROPE, "mobile", "metrics", "TBT"), 200, "mobile TBT"),
    "CLS": ((*ROPE, "mobile", "metrics", "CLS"), 0.02, "mobile CLS"),
    "SI": ((*ROPE, "mobile", "metrics", "SI"), 1900, "mobile SI"),
    "slider median": ((*ROPE, "sliders", "rope.one", "m", "median"), 18.5, "rope.one m median"),
    "slider p95": ((*ROPE, "sliders", "rope.one", "n", "p95"), 16.0, "rope.one n p95"),
    "slider gone": ((*ROPE, "sliders", "rope.one", "n"), None, "rope.one n: was not measured"),
    "page gone": (ROPE, None, "book/rope.html: was not measured"),
    "preset gone": ((*ROPE, "mobile"), None, "mobile: was not measured"),
    "build": (("build", "cold", "seconds"), 800.0, "build, cold"),
}
NOISE = {
    "bytes": ((*ROPE, "first", "bytes"), 104_900),
    "fewer bytes": ((*ROPE, "used", "bytes"), 1),
    "fewer requests": ((*ROPE, "first", "requests"), 3),
    "performance": ((*ROPE, "mobile", "scores", "performance"), 94),
    "LCP": ((*ROPE, "mobile", "metrics", "LCP"), 2060),
    "TBT": ((*ROPE, "mobile", "metrics", "TBT"), 189),
    "CLS": ((*ROPE, "mobile", "metrics", "CLS"), 0.013),
    "slider median": ((*ROPE, "sliders", "rope.one", "m", "median"), 17.9),
    "small slider": ((*ROPE, "sliders", "rope.one", "n", "median"), 7.9),
    "slider p95": ((*ROPE, "sliders", "rope.one", "m", "p95"), 39.0),
    "no build": (("build",), None),
    "audits": ((*ROPE, "mobile", "lost"), [{"audit": "unused-css-rules"}]),
}


@pytest.mark.parametrize("what", WORSE)
def test_each_regression_is_noticed(what):
    path, value, words = WORSE[what]
    found = measured.regressions(made_up(), changed(path, value))
    assert len(found) == 1 and words in found[0]


@pytest.mark.parametrize("what", NOISE)
def test_noise_is_no_regression(what):
    assert measured.regressions(made_up(), changed(*NOISE[what])) == []


def test_a_new_page_or_slider_is_no_regression():
    old = changed(ROPE, None)
    assert measured.regressions(old, made_up()) == []
    assert measured.regressions(changed((*ROPE, "sliders"), {}), made_up()) == []


def test_a_slower_machine_is_given_time_but_no_bytes():
    slow = made_up()
    for page in slow["pages"].values():
        for preset in measured.PRESETS:
            page[preset]["benchmark_index"] = 750
    for part in slow["pages"]["book/rope.html"]["sliders"]["rope.one"].values():
        part["median"] *= 2.9
    assert measured.regressions(made_up(), slow) == []
    slow["pages"]["book/rope.html"]["sliders"]["rope.one"]["m"]["median"] = 12 * 3.1
    slow["pages"]["book/rope.html"]["first"]["bytes"] = 106_000
    assert [line.split(":")[0] for line in measured.regressions(made_up(), slow)] == [
        "book/rope.html, bytes first",
        "book/rope.html, slider rope.one m median",
    ]
    fast = changed((*ROPE, "sliders", "rope.one", "m", "median"), 18.5)  # a faster machine is held to no less time
    for page in fast["pages"].values():
        page["mobile"]["benchmark_index"] = page["desktop"]["benchmark_index"] = 3000
    assert len(measured.regressions(made_up(), fast)) == 1


@pytest.mark.parametrize("what", ["outside", "performance", "accessibility", "best practices", "seo", "CLS"])
def test_a_goal_that_is_missed_is_said(what):
    path, value, _ = WORSE[what]
    assert measured.misses(made_up()) == []
    value = 0.021 if what == "CLS" else value
    assert len(measured.misses(changed(path, value))) == 1


def test_goals_of_bytes_and_sliders():
    for path, value in (
        ((*ROPE, "first", "bytes"), 150_001),
        ((*ROPE, "used", "bytes"), 900_001),
        ((*ROPE, "sliders", "rope.one", "m", "p95"), 33.4),
    ):
        assert len(measured.misses(changed(path, value))) == 1


# ---------------------------------------------------------------------------------------------------------- the command


@pytest.fixture
def command(small_site, tmp_path, monkeypatch):
    r"""command(new, *options) -> exit status, with `new` as what is measured; `command.record` is the file."""

    def run(new, *options):
        def measure(site, pages, runs, presets, with_sliders):
            return {p: {k: v for k, v in new["pages"][p].items() if with_sliders or k != "sliders"} for p in pages}

        monkeypatch.setattr(measured, "check_tools", lambda: {"lighthouse": "12.0.0"})
        monkeypatch.setattr(measured, "measure", measure)
        return measured.main(["--site", str(small_site), "--record", str(run.record), *options])

    run.record = tmp_path / "record.json"
    return run


def test_only_a_whole_run_is_written(command, capsys):
    for options in (["--runs", "2"], ["--pages", "rope"], ["--presets", "mobile"], ["--no-sliders"]):
        assert command(made_up(), *options) == 0 and not command.record.exists()
        assert "not written" in capsys.readouterr().out
    assert command(made_up()) == 0
    record = json.loads(command.record.read_text())
    assert record["pages"] == made_up()["pages"] and {"commit", "date", "machine", "versions", "command"} <= set(record)
    assert "Goals missed:\nnone" in capsys.readouterr().out


def test_the_record_of_this_folder_is_not_written_from_another_site(small_site, command, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(measured, "RESULTS", command.record)
    assert command(made_up()) == 0 and not command.record.exists()
    assert "is not this folder's build" in capsys.readouterr().out


def test_builds_and_chapters_measured_before_stay_in_the_record(command, monkeypatch):
    monkeypatch.setattr(measured, "builds", lambda: {"cold": {"seconds": 500.0, "peak_MB": 2000}})
    monkeypatch.setattr(measured, "lighthouse", lambda url, preset: {"url": url, "preset": preset})
    slow = {"scores": {"performance": 90, "accessibility": 100, "best-practices": 100, "seo": 100}}
    monkeypatch.setattr(measured, "summary", lambda runs: slow | {"metrics": {"CLS": 0}} if len(runs) == 1 else None)
    assert command(made_up(), "--build", "--chapters") == 0 and command(made_up()) == 0
    record = json.loads(command.record.read_text())
    assert record["build"]["cold"]["seconds"] == 500
    assert set(record["chapters"]["pages"]) == {f"book/{n}.html" for n in ("intro", "rope", "alibi", "scaling")}
    assert all(record[key]["commit"] and record[key]["date"] for key in ("build", "chapters"))
    assert measured.misses(record)[0] == "book/intro.html: mobile, one run, performance 90, goal 95"
    assert len(measured.misses(record)) == 4


def test_check_fails_on_a_regression_and_writes_nothing(command, capsys):
    assert command(made_up()) == 0
    before = command.record.read_text()
    assert command(made_up(), "--check") == 0
    worse = changed(*WORSE["requests first"][:2])
    assert command(worse, "--check") == 1
    assert "requests first: 10, was 9" in capsys.readouterr().out
    assert command(worse, "--check", "--pages", "landing", "--presets", "mobile", "--no-sliders") == 0
    assert command.record.read_text() == before


def test_check_notices_that_a_page_is_gone(command, small_site, capsys):
    assert command(made_up()) == 0
    (small_site / "book" / "alibi.html").unlink()
    assert command(made_up(), "--check") == 1
    assert "book/alibi.html: was not measured" in capsys.readouterr().out


# --------------------------------------------------------------------------------------------------------- in a browser

LIVE = """<!doctype html><title>Live</title><link rel="icon" href="data:,"><link rel="stylesheet" href="a.css">
<body style="margin:0"><div style="height:9000px"></div>
<figure><div data-explorable="one"><input type="range" name="m" min="0" max="9" value="3"></div></figure>
<img src="late.png" loading="lazy" width="10" height="10" alt="">
<script>
const figure = document.querySelector('figure'), input = figure.querySelector('input'), times = [];
input.addEventListener('input', (e) => setTimeout(() => times.push(performance.now() - e.timeStamp), 20));
const one = {id: 'one', figure, times, start: () => fetch('states.json').then(() => one)};
window.posencExplorables = {list: [one]};
OUTSIDE
</script>"""


@pytest.fixture
def live_site(tmp_path):
    site = tmp_path / "live"
    site.mkdir()
    (site / "index.html").write_text(LIVE.replace("OUTSIDE", ""))
    (site / "out.html").write_text(LIVE.replace("OUTSIDE", "new Image().src = 'http://elsewhere.invalid/a.png'"))
    (site / "a.css").write_text("p { color: red }\n" * 5000)
    Image.frombytes("L", (250, 200), random.Random(0).randbytes(50_000)).save(site / "late.png")
    (site / "states.json").write_text("[]")
    with measured.Host(site) as host:
        yield host.url


@pytest.mark.browser
def test_transfer_counts_compressed_bytes_by_stage(browser, live_site, monkeypatch):
    monkeypatch.setattr(measured, "QUIET", 0.4)
    found = measured.transfer(browser, live_site, "index.html")
    assert [found[stage]["requests"] for stage in measured.STAGES] == [2, 3, 4] and found["outside"] == []
    assert 1000 < found["first"]["bytes"] < 3000  # 85 kB of CSS that repeats, and headers
    assert 50_100 < found["scrolled"]["bytes"] - found["first"]["bytes"] < 51_000  # noise, sent as it is
    assert found["used"]["largest"][0][0] == "late.png"
    assert measured.transfer(browser, live_site, "out.html")["outside"] == ["http://elsewhere.invalid/a.png"]


@pytest.mark.browser
def test_each_slider_is_timed_to_the_state_drawn(browser, live_site):
    found = measured.sliders(browser, live_site, "index.html", 2)
    assert list(found) == ["one"] and list(found["one"]) == ["m"]
    assert 20 <= found["one"]["m"]["median"] <= found["one"]["m"]["p95"]
    assert found["one"]["m"]["median"] < 200
