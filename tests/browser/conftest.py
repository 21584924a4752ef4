"""A real JupyterLab in a real Chromium, for the tests in this folder.

Each process that runs tests has one of both. A test module says what to serve by overriding
``lab_folder`` and opens a ``Notebook`` of it, which is then ready to run. Where no Chromium is
installed the tests are skipped, but under CI (the environment variable is set) they fail.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from alone import put_alone
from filelock import FileLock
from site_build import build_site

ROOT = Path(__file__).parents[2]
TOKEN = "course"
# These end what hangs: ten times and more of what a quiet machine takes.
WAIT_SECONDS = 300
RUN_SECONDS = 1200
WINDOW = {"width": 1280, "height": 900}
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")
# Each window loads two pages of the browser's own for its address line, a second of work: off.
# Chromium takes the last list that it gets, so the rest repeats what Playwright switches off.
NO_FEATURES = (
    "WebUIOmniboxPopup WebUIOmniboxAimPopup "
    "AvoidUnnecessaryBeforeUnloadCheckSync DestroyProfileOnBrowserClose HttpsUpgrades "
    "HttpsFirstBalancedModeAutoEnable LensOverlay MediaRouter PaintHolding "
    "ThirdPartyStoragePartitioning AvoidCorsURLLoaderRestartOnRedirect OptimizationHints "
    "NetworkTimeServiceQuerying AimEnabled PreconnectToSearch"
).split()
CHROMIUM_FLAGS = [
    *"--no-sandbox --disable-gpu --disable-quic --no-first-run".split(),
    *"--disable-background-networking --disable-component-update --disable-sync".split(),
    f"--disable-features={','.join(NO_FEATURES)}",
]
# JupyterLab asks on its first start whether it may fetch news: nobody is here to answer.
SETTINGS = {"apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False}}


# Not awaited here: Playwright has no limit on how long a promise may take.
RUN_CELLS = """(numbers) => {
    const notebook = jupyterapp.shell.currentWidget.content;
    notebook.mode = "command";
    notebook.deselectAll();
    const cells = numbers?.map((number) => notebook.widgets[number]) ?? notebook.widgets;
    notebook.activeCellIndex = notebook.widgets.indexOf(cells[0]);
    for (const cell of cells) notebook.select(cell);
    window.haveRun = false;
    const run = jupyterapp.commands.execute("notebook:run-cell");
    run.finally(() => (window.haveRun = true));
}"""


class Lab:
    """A running JupyterLab; ``folder`` is what it serves."""

    def __init__(self, state: Path):
        self.folder, self.port, self.log = state / "served", free_port(), state / "lab.log"
        self.data = state / "data"
        self.folder.mkdir()
        self.data.mkdir()
        self.settings = state / "settings"
        self.forget_settings()
        environment = os.environ | {
            "PYTHONPATH": str(ROOT),  # the code under test is this tree's
            "JUPYTER_PREFER_ENV_PATH": "1",
            "JUPYTER_CONFIG_DIR": str(state / "config"),
            "JUPYTER_DATA_DIR": str(self.data),
            "JUPYTER_RUNTIME_DIR": str(state / "runtime"),
            "JUPYTERLAB_SETTINGS_DIR": str(self.settings),
            "JUPYTERLAB_WORKSPACES_DIR": str(state / "workspaces"),
            "IPYTHONDIR": str(state / "ipython"),
        }
        options = {
            "ServerApp.ip": "127.0.0.1",
            "ServerApp.port": self.port,
            "ServerApp.port_retries": 0,
            "IdentityProvider.token": TOKEN,
            "LabApp.expose_app_in_browser": True,
        }
        command = [sys.executable, "-m", "jupyterlab", "--allow-root", "--no-browser"]
        command += [f"--{name}={value}" for name, value in options.items()]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=log, stderr=log
            )

    def ask(self, path: str, method: str = "GET"):
        """The answer of JupyterLab's REST interface at ``path``."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            method=method,
            headers={"Authorization": f"token {TOKEN}"},
        )
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def is_up(self) -> bool:
        if self.process.poll() is not None:
            pytest.fail(f"JupyterLab ended by itself:\n{self.log.read_text('utf-8')}")
        try:
            return bool(self.ask("/api/status"))
        except OSError:
            return False

    def forget_kernels(self) -> None:
        """End every session, or the next test would get this one's kernel."""
        for session in self.ask("/api/sessions"):
            self.ask(f"/api/sessions/{session['id']}", "DELETE")

    def forget_settings(self) -> None:
        """Whatever earlier tests chose, such as the dark theme."""
        shutil.rmtree(self.settings, ignore_errors=True)
        for name, values in SETTINGS.items():
            file = self.settings / "@jupyterlab" / f"{name}.jupyterlab-settings"
            file.parent.mkdir(parents=True)
            file.write_text(json.dumps(values), "utf-8")

    def stop(self) -> None:
        """End it with all that it started. Asked to shut down, it waits for ever at times."""
        with suppress(psutil.NoSuchProcess):  # where it has ended by itself
            server = psutil.Process(self.process.pid)
            for process in [*server.children(recursive=True), server]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        self.process.wait()


class Notebook:
    """A notebook that is open in the browser, with a kernel that is ready.

    A page that shows JupyterLab already opens it there: loading JupyterLab takes seconds.
    """

    def __init__(self, lab: Lab, page, name: str):
        self.lab, self.page, self.name = lab, page, name
        address = f"http://127.0.0.1:{lab.port}/lab"
        if page.url.startswith(address):
            self.command("docmanager:open", path=name)
        else:
            page.goto(f"{address}/tree/{name}?token={TOKEN}&reset")
        page.wait_for_selector(".jp-NotebookPanel:visible .jp-Cell")  # others may be open
        # The page says 'Idle' before there is a kernel, and would then run nothing, silently.
        wait_until(self._kernel_is_ready, "the kernel is idle and connected")
        self._wait_for_status("Idle")

    def _kernel_is_ready(self) -> bool:
        kernels = [
            session["kernel"]
            for session in self.lab.ask("/api/sessions")
            if session["path"] == self.name
        ]
        return any(k["execution_state"] == "idle" and k["connections"] > 0 for k in kernels)

    def _wait_for_status(self, text: str) -> None:
        self.page.locator("#jp-main-statusbar", has_text=text).wait_for()

    def command(self, name: str, **arguments):
        """Do what a menu entry does; returns when it is done."""
        call = "([name, arguments]) => jupyterapp.commands.execute(name, arguments).then(() => {})"
        self.page.evaluate(call, [name, arguments])

    def run(self, numbers: list[int] | None = None) -> None:
        """Run the cells with these numbers, one after the other; without numbers, all cells."""
        self.page.evaluate(RUN_CELLS, numbers)
        self.page.wait_for_function("window.haveRun", timeout=RUN_SECONDS * 1000)
        wait_until(self._kernel_is_ready, "the kernel is idle after running cells")

    def close(self) -> None:
        """Nobody is asked whether what has changed is to be saved: it is not."""
        self.page.evaluate("jupyterapp.shell.currentWidget.dispose()")

    def use_theme(self, theme: str) -> None:
        """Light or Dark."""
        self.command("apputils:change-theme", theme=f"JupyterLab {theme}")
        light = "true" if theme == "Light" else "false"
        body = self.page.locator(f"body[data-jp-theme-light={light}]")
        body.wait_for(state="attached")

    def cells(self) -> list[dict]:
        """The cells as the file would hold them, outputs included."""
        return self.page.evaluate("jupyterapp.shell.currentWidget.content.model.toJSON().cells")

    def errors(self) -> list[str]:
        """Every error and every line on stderr that the cells show."""
        outputs = [output for cell in self.cells() for output in cell.get("outputs", [])]
        return [
            f"{output.get('ename', 'stderr')}: {output.get('evalue', output.get('text'))}"
            for output in outputs
            if output["output_type"] == "error" or output.get("name") == "stderr"
        ]

    def screenshot(self, name: str, locator=None) -> Path | None:
        """A picture for the eye, where the environment variable SCREENSHOTS names a folder."""
        folder = os.environ.get("SCREENSHOTS")
        if not folder:
            return None
        Path(folder).mkdir(parents=True, exist_ok=True)
        path = Path(folder) / f"{name}.png"
        (locator or self.page).screenshot(path=path)
        return path


def wait_until(condition, what: str, seconds: float = WAIT_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"waited {seconds} s in vain: {what}")
        time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _leaves_this_machine(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in ("http", "https", "ws", "wss") and parts.hostname != "127.0.0.1"


@pytest.fixture(scope="session")
def browser():
    """Chromium. Playwright's event loop would disturb other tests: see the order below."""
    path = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    if path is None:
        reason = f"no Chromium here (looked for {', '.join(CHROMIUM_NAMES)})"
        needed = os.environ.get("CI") and sys.platform == "linux"
        (pytest.fail if needed else pytest.skip)(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=CHROMIUM_FLAGS, timeout=WAIT_SECONDS * 1000
        )
        yield browser
        browser.close()


@contextmanager
def opened_pages(browser):
    """A function that opens pages (arguments: those of a Playwright browser context).

    In the end, no page may have asked for anything outside this machine.
    """
    contexts, urls = [], []

    def new_page(**options):
        context = browser.new_context(viewport=WINDOW, **options)
        context.set_default_timeout(WAIT_SECONDS * 1000)
        contexts.append(context)
        context.on("request", lambda request: urls.append(request.url))
        page = context.new_page()
        page.on("websocket", lambda websocket: urls.append(websocket.url))
        return page

    yield new_page
    for context in contexts:
        context.close()
    outside = [url for url in urls if _leaves_this_machine(url)]
    assert not outside, f"the page asked for {outside}"


@pytest.fixture
def new_page(browser):
    with opened_pages(browser) as new_page:
        yield new_page


@pytest.fixture(scope="session")
def empty_page(browser):
    """One for all tests of a view by itself: a new page takes longer than such a test."""
    with opened_pages(browser) as new_page:
        yield new_page()


@pytest.fixture
def shown(empty_page):
    """A function that shows a view alone, and gives its page; nothing may go wrong there."""
    wrong = []

    def ran_as_code(dialog):
        wrong.append(f"text ran as code: {dialog.message}")
        dialog.dismiss()

    listeners = {"dialog": ran_as_code, "pageerror": lambda error: wrong.append(str(error))}
    for event, listener in listeners.items():
        empty_page.on(event, listener)

    def show(view, color_scheme="light", script=""):
        empty_page.set_viewport_size(WINDOW)
        empty_page.emulate_media(color_scheme=color_scheme)
        put_alone(empty_page, view, script)
        return empty_page

    yield show
    for event, listener in listeners.items():
        empty_page.remove_listener(event, listener)
    assert not wrong


@pytest.fixture(scope="session")
def lab(browser, tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("lab"))
    try:
        wait_until(lab.is_up, "JupyterLab answers")
        yield lab
    finally:
        lab.stop()


@pytest.fixture(scope="module")
def lab_folder(tmp_path_factory) -> Path:
    """The folder that JupyterLab serves a copy of: test modules override this."""
    return tmp_path_factory.mktemp("notebooks")


@pytest.fixture(scope="module")
def served(lab, lab_folder) -> str:
    """Where JupyterLab finds the module's notebooks; it has forgotten the modules before."""
    lab.forget_settings()
    shutil.copytree(lab_folder, lab.folder / lab_folder.name)
    return lab_folder.name


@pytest.fixture(scope="session")
def site(tmp_path_factory, worker_id):
    """The site's folder. Of processes that share the tests, the first builds it for all."""
    shared = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        shared = shared.parent
    with FileLock(shared / "site.lock"):
        if not (shared / "site").exists():
            build_site(shared)
    return shared / "site"


# By seconds, for two processes that share the files. The first builds the site, meanwhile the other
# makes decks.
LONGEST_FIRST = (
    "test_site_pages.py test_decks.py test_chapters.py test_translator.py test_hub.py"
).split()


def pytest_collection_modifyitems(items):
    """Where other tests run in the same process, they run before any of these."""
    order = {name: number for number, name in enumerate(LONGEST_FIRST)}

    def place(item) -> tuple[bool, int]:
        return Path(__file__).parent in item.path.parents, order.get(item.path.name, len(order))

    items.sort(key=place)


def pytest_terminal_summary(terminalreporter):
    """Print what tests noted with ``record_property("latency", ...)``: measured, not judged."""
    reports = terminalreporter.getreports("passed")
    lines = [
        text for report in reports for name, text in report.user_properties if name == "latency"
    ]
    if lines:
        terminalreporter.section("latency in the browser")
        for line in lines:
            terminalreporter.line(line)
