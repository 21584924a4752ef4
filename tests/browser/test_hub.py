"""JupyterHub with the course's configuration: log in, find one's own copies, fetch and hand in."""

import importlib.util
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from conftest import WAIT_SECONDS, free_port, wait_until

from notebooks.publish.course import texts

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "notebooks" / "publish" / "classroom" / "jupyterhub_config.py"
PASSWORD = "a password of the trial"


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
        wait_until(lambda: is_up(f"{address}/hub/login", process, state / "log"), "the hub answers")
        yield address, state
    finally:
        process.terminate()  # the hub ends its servers and its proxy
        try:
            process.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


def is_up(address: str, process: subprocess.Popen, log: Path) -> bool:
    assert process.poll() is None, f"no hub: {log.read_text('utf-8')[-3000:]}"
    try:
        urllib.request.urlopen(address, timeout=10)
    except OSError:
        return False
    return True


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
    from playwright.sync_api import TimeoutError  # with it come event loops: see the conftest

    page = new_page()
    page.goto(f"{address}/hub/login")
    page.fill("#username_input", "anna")
    page.fill("#password_input", PASSWORD)
    page.click("#login_submit")

    def has_arrived() -> bool:
        try:
            page.wait_for_url("**/user/anna/lab/tree/work/00_start_here.ipynb", timeout=20_000)
        except TimeoutError:  # on a busy machine the page that waits for the server gives up
            page.reload()
            return False
        return True

    wait_until(has_arrived, "the student's own server has started")
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    home = state / "homes" / "anna"
    assert len(list((home / "work").glob("[0-9]*.ipynb"))) == len(texts())
    page.get_by_role("menuitem", name="Nbgrader").click()
    page.get_by_role("menuitem", name="Assignment List").click()
    page.get_by_role("button", name="Fetch", exact=True).click()
    page.get_by_role("button", name="Submit", exact=True).click()
    page.locator("#submitted_assignments_list").get_by_text(name).first.wait_for()
    assert list((home / name).glob("*.ipynb"))  # beside work/, not in it
    nbgrader(state, course, "collect", name)
    assert list((course / "submitted" / "anna" / name).glob("*.ipynb"))
