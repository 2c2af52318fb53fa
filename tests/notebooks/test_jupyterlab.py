"""A lab in a real JupyterLab and a real browser, with no network: it runs, and its sliders move."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

import pytest
from conftest import ROOT

pytestmark = [pytest.mark.weekly, pytest.mark.browser]

LAB = "rope"
TOKEN = "only-for-this-test"
RUN = 600_000  # milliseconds: a lab takes half a minute, on a busy machine many times that
SOON = 120_000
OPTIONS = [
    *("--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1", "--ServerApp.port=0"),
    f"--IdentityProvider.token={TOKEN}",
    *("--LabApp.expose_app_in_browser=True", "--LabApp.extension_manager=readonly"),
]
SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "notebook-extension/tracker": {"windowingMode": "none"},  # cells out of sight are drawn too
}


@pytest.fixture(scope="module")
def jupyterlab(tmp_path_factory):
    """The address of a JupyterLab over a folder with a copy of one lab."""
    home, work = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("work")
    shutil.copy(ROOT / "notebooks" / f"{LAB}.ipynb", work)
    for name, values in SETTINGS.items():
        path = home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    folders = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "runtime"}
    folders |= {
        "IPYTHONDIR": "ipython",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
    }
    environment = {name: str(home / folder) for name, folder in folders.items()}
    environment |= {"POSENC_PRESET": "nano", "OMP_NUM_THREADS": "1"}
    log = (home / "log").open("w+")
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *OPTIONS, f"--ServerApp.root_dir={work}"],
        env={**os.environ, **environment},
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield wait_for_address(server, home)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(timeout=60)
        with contextlib.suppress(ProcessLookupError):  # kernels that stayed
            os.killpg(server.pid, signal.SIGKILL)


def wait_for_address(server, home):
    """Wait until the server answers; its port stands in the file that it writes for `jupyter server list`."""
    ends = time.monotonic() + SOON / 1000
    while time.monotonic() < ends:
        assert server.poll() is None, (home / "log").read_text()
        for path in (home / "runtime").glob("jpserver-*.json"):
            with contextlib.suppress(ValueError, OSError):  # half written, or not listening yet
                address = f"http://127.0.0.1:{json.loads(path.read_text())['port']}"
                urllib.request.urlopen(f"{address}/api/status?token={TOKEN}", timeout=5).close()
                return address
        time.sleep(0.2)
    pytest.fail((home / "log").read_text())


@pytest.fixture(scope="module")
def ran(jupyterlab, open_page):
    """The lab in JupyterLab, all of its cells run once."""
    page = open_page(f"{jupyterlab}/lab/tree/{LAB}.ipynb?token={TOKEN}")
    page.set_default_timeout(SOON)
    idle = "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
    page.wait_for_function(idle, timeout=SOON)
    page.evaluate(
        "() => { jupyterapp.commands.execute('notebook:run-all-cells').then(() => { window.done = true; }); }"
    )
    page.wait_for_function("() => window.done", timeout=RUN)
    yield page
    page.context.close()


def cells(page):
    return page.evaluate("() => jupyterapp.shell.currentWidget.content.model.toJSON().cells")


def place(page, words):
    """The number of the first code cell that holds these words."""
    return next(i for i, cell in enumerate(cells(page)) if cell["cell_type"] == "code" and words in cell["source"])


def drag(page, handle, across, share):
    """Drag with the mouse to a share of the width of `across`."""
    handle.scroll_into_view_if_needed()
    start, track = handle.bounding_box(), across.bounding_box()
    page.mouse.move(start["x"] + start["width"] / 2, start["y"] + start["height"] / 2)
    page.mouse.down()
    page.mouse.move(track["x"] + share * track["width"], track["y"] + track["height"] / 2, steps=5)
    page.mouse.up()


def test_every_cell_ran_without_an_error_and_without_the_network(ran):
    code = [
        cell for cell in cells(ran) if cell["cell_type"] == "code" and "install" not in cell["metadata"].get("tags", [])
    ]
    assert len(code) > 10 and all(cell["execution_count"] for cell in code)
    outputs = [output for cell in code for output in cell["outputs"]]
    assert [output for output in outputs if output["output_type"] == "error"] == []
    assert [line for line in ran.log.problems if line.startswith("leaves the site")] == []


def test_slider_of_a_widget_redraws_the_picture(ran):
    cell = ran.locator(".jp-Cell").nth(place(ran, "interact("))
    picture, slider = cell.locator("img"), cell.locator(".widget-slider").first
    before, words = picture.get_attribute("src"), slider.locator(".widget-readout").inner_text()
    drag(ran, slider.locator(".noUi-handle"), slider.locator(".noUi-target"), 0.9)
    changed = "([node, old]) => { const img = node.querySelector('img'); return img && img.src !== old; }"
    ran.wait_for_function(changed, arg=[cell.element_handle(), before])
    assert slider.locator(".widget-readout").inner_text() != words


def test_slider_of_an_explorable_redraws_the_plot(ran):
    figure = ran.locator("figure.explorable-notebook").first
    figure.scroll_into_view_if_needed()
    drawing = figure.locator(".explorable-drawing")
    drawing.locator("svg.main-svg").first.wait_for()
    state = "(node) => JSON.stringify(node.data.map((trace) => [Array.from(trace.x), Array.from(trace.y)]))"
    before, readout = drawing.evaluate(state), figure.locator(".explorable-readout").inner_text()
    slider = figure.locator("[data-name=n] input[type=range]")  # a shift of both would leave the readout as it is
    was = slider.input_value()
    drag(ran, slider, slider, 0.9)
    assert slider.input_value() != was
    ran.wait_for_function(f"([node, old]) => ({state})(node) !== old", arg=[drawing.element_handle(), before])
    assert figure.locator(".explorable-readout").inner_text() != readout
    assert figure.locator(".explorable-picture").is_hidden(), "the still picture makes way"
