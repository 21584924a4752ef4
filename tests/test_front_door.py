"""``python -m notebooks``: each command runs what it should, also in a folder with an odd name."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from functools import partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from textwrap import dedent

import pytest

from notebooks import __main__ as door
from notebooks.publish.course import ROOT, texts
from tests import seen_alone

COMMANDS = ["lab", "changes", "test", "lint", "slides", "notebooks", "site", "bench"]
LEFT_OUT = ("PYTHONHOME", "PYTHONPATH", "JUPYTER_PATH", "JUPYTER_CONFIG_PATH")


@pytest.fixture
def call(monkeypatch):
    """Call the front door and get what it would run: (module, arguments, environment)."""
    runs = []

    def record(module, *arguments, **environment):
        runs.append((module, arguments, environment))

    def jupyterlab(arguments):
        runs.append(("jupyterlab", tuple(arguments), {}))

    monkeypatch.setattr(door, "run", record)
    monkeypatch.setattr("jupyterlab.labapp.main", jupyterlab)
    monkeypatch.chdir(ROOT)
    for name in (*LEFT_OUT, "JUPYTER_PREFER_ENV_PATH"):
        monkeypatch.setenv(name, "")  # given back after the test

    def call(*arguments):
        runs.clear()
        monkeypatch.setattr(sys, "argv", ["notebooks", *arguments])
        try:
            door.main()
        except SystemExit as end:
            assert not end.code, end.code
        return list(runs)

    return call


def test_nothing_to_do_is_a_list_of_the_commands(call, capsys):
    assert call() == []
    listed = capsys.readouterr().out.partition("COMMAND\n")[2].splitlines()
    assert [line.split()[0] for line in listed if line.startswith("    ") and line[4] != " "] == (
        COMMANDS
    )


@pytest.mark.parametrize("arguments", [["slidez"], ["lint", "--force"], ["lab", "--open", "src"]])
def test_what_is_unknown_is_refused(call, capsys, arguments):
    with pytest.raises(AssertionError, match="2"):
        call(*arguments)
    assert arguments[-1] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "modules", "end"),
    [
        ("", ["notebooks.publish.student_copies"], "work/00_start_here.ipynb"),
        (
            "--open lecture --port=9 --no-browser",
            ["notebooks.publish.lecture_copies"],
            "--port=9 --no-browser lecture/00_start_here.ipynb",
        ),
        ("--open=notebooks", [], "--ServerApp.root_dir=. notebooks/00_start_here.ipynb"),
    ],
    ids=["work", "lecture", "notebooks"],
)
def test_lab_delivers_the_copies_and_opens_them(call, arguments, modules, end):
    *before, (last, options, _) = call("lab", *arguments.split())
    assert [module for module, *_ in before] == modules and last == "jupyterlab"
    assert " ".join(options).endswith(end)


def test_only_this_environment_counts(call):
    call("lint")
    assert [name for name in LEFT_OUT[:3] if name in os.environ] == []
    assert os.environ["JUPYTER_PREFER_ENV_PATH"] == "1"
    os.environ["JUPYTER_CONFIG_PATH"] = "mine"
    call("lint")
    assert os.environ["JUPYTER_CONFIG_PATH"].split(os.pathsep) == [str(door.LAB_SETTINGS), "mine"]


@pytest.mark.parametrize("encoding", ["ascii", "cp1252:strict", ""])
def test_a_terminal_that_cannot_write_a_letter_gets_another(call, monkeypatch, encoding):
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    call("changes", "03")
    done = subprocess.run([sys.executable, "-c", "print('√ and é')"], capture_output=True)
    told = {"ascii": b"? and ?", "cp1252:strict": b"? and \xe9", "": "√ and é".encode()}
    assert done.stdout.strip() == told[encoding], done.stderr


def test_a_copy_beside_a_chapter_is_not_the_chapter(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notebooks").mkdir()
    for name in ("06_heads-Copy1", "06_heads", "06_heads.new", "Untitled"):
        (tmp_path / "notebooks" / f"{name}.ipynb").touch()
    assert door.chapter("06") == Path("notebooks/06_heads.ipynb")
    assert list(door.chapters()) == ["06"]


def test_the_test_is_lint_then_units_then_every_cell_then_the_browser(call, capsys):
    *lint, units, cells, browser = call("test")
    assert [module for module, *_ in lint] == ["ruff", "ruff", "mypy"]
    assert {module for module, *_ in (units, cells, browser)} == {"pytest"}
    assert "--ignore=tests/browser" in units[1] and browser[1][-1] == "tests/browser"
    chapters = [name for name in cells[1] if name.endswith(".ipynb")]
    assert sorted(Path(name).stem for name in chapters) == [text.stem for text in texts()]
    assert "D2L_ATTENTION_PROGRESS" in cells[2]
    assert parts_told(capsys) == ["Lint", "Unit tests", "Notebooks", "Browser"]


def parts_told(captured):
    times = captured.readouterr().out.partition("How long each part took:\n")[2].splitlines()
    return [line.split(maxsplit=1)[1] for line in times]


def test_the_first_part_that_fails_ends_the_test_with_its_code(monkeypatch, capfd):
    parts = {
        "Good": lambda: door.run("json.tool", "--help"),
        "Bad": lambda: door.run("json.tool", "--nonsense"),
        "Never": lambda: pytest.fail("it went on"),
    }
    monkeypatch.setattr(door, "TEST_PARTS", parts)
    with pytest.raises(SystemExit) as end:
        door.test()
    assert end.value.code == 2
    assert parts_told(capfd) == ["Good", "Bad, not to its end"]


LEAVES = """
    import json, os, sys, tempfile
    from pathlib import Path

    import IPython.paths, matplotlib
    from jupyter_core import paths

    left = [tempfile.mkdtemp(), matplotlib.get_cachedir(), IPython.paths.get_ipython_dir()]
    left += [paths.jupyter_config_dir(), paths.jupyter_data_dir(), paths.jupyter_runtime_dir()]
    left += [os.environ["XDG_CONFIG_HOME"], os.environ["XDG_CACHE_HOME"]]
    for folder in map(Path, left):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "left").touch()
    print(json.dumps(left))
    sys.exit(3)
"""


def test_what_the_tests_leave_is_gone_in_the_end(monkeypatch, capfd, tmp_path):
    (tmp_path / "leaves.py").write_text(dedent(LEAVES), "utf-8")
    part = partial(door.run, "leaves", PYTHONPATH=str(tmp_path))
    monkeypatch.setattr(door, "TEST_PARTS", {"Leaves": part})
    before = dict(os.environ)
    with pytest.raises(SystemExit):
        door.test()
    left = json.loads(capfd.readouterr().out.splitlines()[1])
    assert len(set(left)) == 8
    assert not any(Path(folder).exists() for folder in left)
    assert dict(os.environ) == before


def test_each_failure_says_what_to_type_to_see_it_alone(tmp_path):
    test = "def test_good(): ...\n\n\ndef test_bad():\n    assert 2 > 3\n"
    (tmp_path / "test_two.py").write_text(test, "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.seen_alone", "-p", "no:nbval"]
    ours = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=ours, capture_output=True, encoding="utf-8")
    (line,) = [line for line in done.stdout.splitlines() if "-m pytest" in line]
    assert line.strip() == f'{door.this_python()} -m pytest -p no:nbval "test_two.py::test_bad"'


def test_a_cell_that_fails_is_seen_with_its_chapter():
    name = "notebooks/05_bahdanau_attention.ipynb::Cell 29"
    assert seen_alone.to_type(name) == f"{door.this_python()} -m notebooks test 05"


def test_one_chapter_is_its_tests_its_cells_and_its_pages(call, capsys):
    runs = call("test", "06")
    tests, cells, browser = (arguments for module, arguments, _ in runs if module == "pytest")
    assert "[06_ or [6. or -6. or test_built_06" in tests
    assert [name for name in cells if name.endswith(".ipynb")] == [
        str(Path("notebooks", "06_multi_head_attention.ipynb"))
    ]
    assert "06_multi_head_attention" in browser
    assert "06: cells: (part 3 of 4)" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
def test_who_stops_the_program_stops_what_it_runs(tmp_path):
    (tmp_path / "sleeper.py").write_text(
        "import pathlib, time\n"
        "here = pathlib.Path(__file__).parent\n"
        "try:\n"
        "    (here / 'began').touch()\n"
        "    time.sleep(600)\n"
        "except KeyboardInterrupt:\n"
        "    (here / 'ended').touch()\n",
        "utf-8",
    )
    program = "from notebooks.__main__ import run; run('sleeper')"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    process = subprocess.Popen([sys.executable, "-c", program], env=environment)
    while not (tmp_path / "began").exists():
        time.sleep(0.05)
    process.terminate()
    process.wait(300)
    assert (tmp_path / "ended").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
def test_a_command_that_a_signal_ended_is_told_as_a_shell_tells_it(tmp_path, monkeypatch):
    (tmp_path / "ends.py").write_text("import os; os.kill(os.getpid(), 9)", "utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        door.run("ends")
    assert end.value.code == 128 + 9


@pytest.mark.parametrize(
    ("arguments", "runs"),
    [
        ("notebooks", ["notebooks.publish.build"]),
        ("notebooks 03 --force", ["notebooks.publish.build --force 03"]),
        ("slides 03 4", ["notebooks.publish.slides 03 04"]),
        ("changes 6", ["notebooks.publish.changes 06"]),
        ("slides --lecture weeks", ["notebooks.publish.slides --lecture weeks"]),
        ("bench", ["tests.benchmarks"]),
        ("bench --full", ["tests.benchmarks --full", "tests.benchmarks.lengths"]),
    ],
)
def test_arguments_arrive(call, arguments, runs):
    assert [" ".join([module, *given]) for module, given, _ in call(*arguments.split())] == runs


def test_a_plan_is_one_of_the_folder_that_the_command_is_called_in(call, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    ((_, (_, plan), _),) = call("slides", "--lecture", "mine.toml")
    assert Path(plan) == (tmp_path / "mine.toml").resolve() and Path.cwd() == ROOT


@pytest.mark.parametrize("command", ["changes", "test"])
def test_a_chapter_that_is_not_there(call, monkeypatch, command):
    monkeypatch.setattr(door, "run", lambda *_, **__: pytest.fail("it ran"))
    with pytest.raises(AssertionError, match="There is no chapter 99: give its number"):
        call(command, "99")


def test_the_site_comes_after_its_slides_into_an_empty_folder(call, monkeypatch):
    removed = []
    monkeypatch.setattr(shutil, "rmtree", lambda path, **_: removed.append(path))
    slides, sphinx = call("site")
    assert slides[0] == "notebooks.publish.slides" and sphinx[0] == "sphinx" and "-W" in sphinx[1]
    assert removed == [Path("build", "site"), Path("build", "doctrees")]


@pytest.mark.parametrize(
    ("module", "command", "what"),
    [
        ("jupyterlab", "lab", '-c constraints.txt -e ".[notebooks]"'),
        ("nbval", "test", '-c constraints.txt -e ".[dev]"'),
        ("d2l", "bench", "--no-deps -c constraints.txt d2l"),
    ],
)
def test_a_missing_package_is_a_sentence_with_the_command(call, monkeypatch, module, command, what):
    def find(name):
        return None if name == module else find_spec(name)

    monkeypatch.setattr("importlib.util.find_spec", find)
    with pytest.raises(AssertionError, match=f"^This Python lacks {module}. ") as said:
        call(command)
    assert f"-m pip install {what}" in str(said.value)
    monkeypatch.setattr(sys, "version_info", (3, 10, 13))
    with pytest.raises(AssertionError, match="^The course needs Python 3.11 or newer, and .*older"):
        call(command)


# ---- In a folder whose name has spaces and letters beyond ASCII ------------------------------


@pytest.fixture
def course(tmp_path):
    """A copy of what the student's copies and the lecture need, with two chapters."""
    folder = tmp_path / "né w course"
    unwanted = shutil.ignore_patterns("__pycache__", "*.ipynb", "[0-9]*.py")
    for name in ("d2l_attention", "notebooks"):
        shutil.copytree(ROOT / name, folder / name, ignore=unwanted)
    for chapter in ("00_start_here", "01_queries_keys_values"):
        shutil.copy(ROOT / "notebooks" / f"{chapter}.ipynb", folder / "notebooks")
        shutil.copy(ROOT / "notebooks" / "src" / f"{chapter}.py", folder / "notebooks" / "src")
    return folder


@pytest.mark.skipif(sys.platform == "win32", reason="there Ctrl-C is no signal to one process")
def test_jupyterlab_there_until_ctrl_c(course, tmp_path):
    """It serves the student's copies with the course's settings, and ends without a traceback."""
    lecture = [sys.executable, "-m", "notebooks.publish.lecture_copies"]
    subprocess.run(lecture, cwd=course, check=True)
    assert len(list((course / "lecture").glob("*.ipynb"))) == 2
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--no-browser", f"--port={port}", "--IdentityProvider.token=course"]
    folders = {
        f"JUPYTER{name}_DIR": str(tmp_path / name) for name in ("_CONFIG", "_DATA", "_RUNTIME")
    } | {"JUPYTERLAB_SETTINGS_DIR": str(tmp_path / "s"), "IPYTHONDIR": str(tmp_path / "i")}
    lab = subprocess.Popen(
        [sys.executable, "-m", "notebooks", "lab", *options],
        cwd=course,
        env=os.environ | folders,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    try:
        copies = [file["name"] for file in ask(lab, port, "contents")["content"]]
        plugin = "@jupyter-widgets/jupyterlab-manager:plugin"
        settings = ask(lab, port, f"settings/{plugin}", "/lab")["schema"]["properties"]
    finally:
        said, lost = press_ctrl_c(lab)
    assert sorted(copies) == ["00_start_here.ipynb", "01_queries_keys_values.ipynb"]
    assert settings["saveState"]["default"] is True
    # Python says of a Ctrl-C that it loses where it was lost.
    assert lab.returncode == 0 and ("Traceback" not in said or lost), said


def press_ctrl_c(lab):
    """What it printed until its end, and how many times it took no notice.

    Python loses a Ctrl-C that comes while it tidies up after a weak reference: one presses again.
    """
    for lost in count():
        lab.send_signal(signal.SIGINT)
        try:
            return lab.communicate(timeout=60)[0], lost
        except subprocess.TimeoutExpired:
            continue


def ask(lab, port, path, where=""):
    """The answer of JupyterLab's REST interface, as soon as there is one."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{where}/api/{path}", headers={"Authorization": "token course"}
    )
    while lab.poll() is None:
        try:
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)
        except OSError as error:
            if not isinstance(getattr(error, "reason", error), ConnectionError):
                raise
        time.sleep(0.2)
    pytest.fail(f"JupyterLab ended: {lab.communicate()[0]}")
