"""JupyterHub with the course's configuration: log in, find one's own copies, fetch and hand in."""

import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from conftest import WAIT_SECONDS

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "notebooks" / "publish" / "classroom" / "jupyterhub_config.py"
PASSWORD = "a password of the trial"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A running hub for a trial: its address and its folder."""
    missing = [name for name in ("jupyterhub", "nbgrader") if not importlib.util.find_spec(name)]
    proxy = Path(sys.executable).with_name("configurable-http-proxy")
    if missing or not proxy.exists():
        reason = f"the extra 'classroom' is not installed: {missing or proxy.name}"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    state = tmp_path_factory.mktemp("hub")
    address = f"http://127.0.0.1:{free_port()}"
    settings = {
        "D2L_ATTENTION_TRIAL": PASSWORD,
        "D2L_ATTENTION_HUB": str(state),
        "D2L_ATTENTION_HUB_URL": address,
        "D2L_ATTENTION_HUB_PORT": str(free_port()),
        "D2L_ATTENTION_PROXY": f"http://127.0.0.1:{free_port()}",
    }
    with (state / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterhub", "-f", str(CONFIG)],
            env=os.environ | settings,
            cwd=state,
            stdout=log,
            stderr=log,
        )
    try:
        wait_for(f"{address}/hub/login", process, state / "log")
        yield address, state
    finally:
        process.terminate()  # the hub ends its servers and its proxy
        try:
            process.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


def wait_for(address: str, process: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=10)
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    raise AssertionError(f"no hub: {log.read_text('utf-8')[-3000:]}")


def log_in(page, address: str, name: str) -> None:
    page.goto(f"{address}/hub/login")
    page.fill("#username_input", name)
    page.fill("#password_input", PASSWORD)
    page.click("#login_submit")
    page.wait_for_url("**/lab/tree/work/**", timeout=WAIT_SECONDS * 1000)
    page.wait_for_selector(".jp-Notebook .jp-Cell, .jp-Document")


def nbgrader(state: Path, course: Path, *arguments: str) -> str:
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"JUPYTER_CONFIG_PATH": str(state / "config"), "PATH": programs}
    run = subprocess.run(
        [sys.executable, "-m", "nbgrader", *arguments],
        cwd=course,
        env=environment,
        capture_output=True,
        encoding="utf-8",
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout + run.stderr


@pytest.fixture(scope="module")
def assignment(hub, tmp_path_factory):
    """Chapter 1's exercises, released to the class: the course's folder and the name."""
    _, state = hub
    course = tmp_path_factory.mktemp("course")
    command = [sys.executable, "-m", "d2l_attention.exercises", "nbgrader", "01", str(course)]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    (source,) = (course / "source").iterdir()
    nbgrader(state, course, "generate_assignment", source.name)
    nbgrader(state, course, "release_assignment", source.name)
    return course, source.name


def test_a_student_finds_copies_fetches_and_hands_in(hub, assignment, new_page):
    address, state = hub
    course, name = assignment
    page = new_page()
    log_in(page, address, "anna")
    assert page.url.endswith("/user/anna/lab/tree/work/00_start_here.ipynb")
    home = state / "homes" / "anna"
    assert len(list((home / "work").glob("[0-9]*.ipynb"))) == 14
    page.get_by_role("menuitem", name="Nbgrader").click()
    page.get_by_role("menuitem", name="Assignment List").click()
    page.get_by_role("button", name="Fetch", exact=True).click()
    page.get_by_role("button", name="Submit", exact=True).click()
    page.locator("#submitted_assignments_list").get_by_text(name).first.wait_for()
    assert list((home / name).glob("*.ipynb"))  # beside work/, not in it
    nbgrader(state, course, "collect", name)
    assert list((course / "submitted" / "anna" / name).glob("*.ipynb"))


def test_what_a_student_changed_stays_and_the_news_open_first(hub, new_page):
    address, state = hub
    log_in(new_page(), address, "ben")
    work = state / "homes" / "ben" / "work"
    mine = work / "01_queries_keys_values.ipynb"
    mine.write_text(mine.read_text("utf-8").replace("## Why attention?", "## My words"), "utf-8")
    delivered = work / ".delivered.json"  # as if an older version had been delivered
    old = delivered.read_text("utf-8").replace('"01_queries_keys_values.ipynb": "', '"01": "')
    delivered.write_text(old, "utf-8")
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            "from pathlib import Path\n"
            "from notebooks.publish.classroom.server import prepare\n"
            "print(prepare(Path.cwd()))",
        ],
        cwd=work.parent,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert run.stdout.strip() == "what_is_new.md"
    assert "## My words" in mine.read_text("utf-8")
    news = (work / "what_is_new.md").read_text("utf-8")
    assert "01_queries_keys_values.new.ipynb" in news and "python -m notebooks changes 01" in news
