"""The front door, the same on every system: ``python -m notebooks COMMAND``.

It installs nothing. Where there is make, the Makefile builds .venv first and then comes here.
"""

from __future__ import annotations  # an old Python reads on, to the sentence that it is old

import argparse
import importlib.util
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
# Tests run side by side on two cores: more threads would only wait for each other.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
# Tests start hundreds of Pythons, also where somebody wishes each to compile all files anew.
COMPILED_ONCE = {"PYTHONDONTWRITEBYTECODE": ""}
# JupyterLab would ask about news and look for updates: the course works offline. And it would
# save a notebook without its views, which are then gone when it is opened again.
LAB_SETTINGS = ROOT / "notebooks" / "publish" / "jupyterlab"
# What pip installs, and the modules that tell whether it is there.
STUDENT = '-c constraints.txt -e ".[notebooks]"'
DEVELOPER = '-c constraints.txt -e ".[dev]"'
# The book's own package, which tests compare with. Its requirements are years old.
BOOK = "--no-deps -c constraints.txt d2l"
MODULES = {
    STUDENT: ["torch", "jupyterlab", "jupytext", "ipywidgets", "nbdime"],
    DEVELOPER: ["ruff", "mypy", "pytest", "nbval", "xdist", "sphinx"],
    BOOK: ["d2l"],
}
# Each names a folder where what the tests run would leave something: caches of matplotlib and of
# torch.compile, IPython's history, a browser's settings, the files of a process that is killed.
LEFT_IN = (
    "TMPDIR TEMP TMP XDG_CACHE_HOME XDG_CONFIG_HOME MPLCONFIGDIR "
    "IPYTHONDIR JUPYTER_CONFIG_DIR JUPYTER_DATA_DIR JUPYTER_RUNTIME_DIR npm_config_cache"
).split()


def main() -> None:
    arguments, for_lab = parser().parse_known_args()
    if arguments.command is None:
        parser().print_help()
        return
    if for_lab and arguments.command is not lab:
        parser().error(f"unrecognized arguments: {' '.join(for_lab)}")
    options = {name: value for name, value in vars(arguments).items() if name != "command"}
    if arguments.command is lab:
        options["for_jupyterlab"] = for_lab
    os.chdir(ROOT)
    only_this_environment()
    write_on_any_terminal()
    try:
        arguments.command(**options)
    except KeyboardInterrupt:
        sys.exit(130)


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(prog="python -m notebooks", allow_abbrev=False)
    whole.set_defaults(command=None)
    commands = whole.add_subparsers(title="commands", metavar="COMMAND")

    def add(command):
        sentence = command.__doc__.partition("\n")[0].rstrip(".")
        added = commands.add_parser(
            command.__name__, help=sentence, description=command.__doc__, allow_abbrev=False
        )
        added.set_defaults(command=command)
        return added

    add(lab).add_argument(
        "--open",
        dest="folder",
        choices=["work", "lecture", "notebooks"],
        default="work",
        help="your copies, copies with the lecturer's notes, or the originals (default: work)",
    )
    changed = add(changes)
    changed.add_argument("number", metavar="NN", type=two_digits, help="the chapter, as in 03")
    changed.add_argument("--merge", action="store_true", help="put your work into it")
    numbers = dict(nargs="*", metavar="NN", type=two_digits, help="these chapters, as in 03")
    add(test).add_argument("numbers", **numbers)
    add(lint)
    for command in (slides, notebooks):
        added = add(command)
        added.add_argument("numbers", **numbers)
        added.add_argument("--force", action="store_true", help="also what is up to date")
        if command is slides:
            added.add_argument(
                "--lecture",
                metavar="PLAN",
                type=from_here,
                help="one deck from several chapters: a plan's file",
            )
    add(site).add_argument("--pdf", action="store_true", help="also for paper: build/pdf")
    add(bench).add_argument("--full", action="store_true", help="all, a quarter of an hour")
    return whole


def two_digits(number: str) -> str:
    return number.zfill(2)


def from_here(plan: str) -> str:
    """A file is one of the folder that the command is called in, not of the course's."""
    return str(Path(plan).resolve()) if Path(plan).suffix else plan


# ---- The commands: the first line of each docstring is what the list says of it --------------


def lab(folder: str, for_jupyterlab: list[str]) -> None:
    """Open the course in JupyterLab, your own copies in work/.

    More arguments are JupyterLab's, such as --no-browser or --port=8890.
    """
    need(STUDENT)
    say("Opening the course ...")
    if folder == "work":
        run("notebooks.publish.student_copies")
    elif folder == "lecture":
        run("notebooks.publish.lecture_copies")
    say("JupyterLab opens in your browser. Leave this window open; Ctrl-C twice ends the session.")
    command = ["--log-level=ERROR"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # in a container everybody is root
    if folder == "notebooks":
        # Served from the top, Jupytext sees its settings in pyproject.toml when it opens a text.
        command.append("--ServerApp.root_dir=.")
    # In this process, so that Ctrl-C and every other end reach JupyterLab itself.
    from jupyterlab.labapp import main as open_jupyterlab

    sys.exit(open_jupyterlab([*command, *for_jupyterlab, f"{folder}/00_start_here.ipynb"]))


def changes(number: str, merge: bool) -> None:
    """Say what is new in a chapter that you have changed, or put your work into it."""
    need(STUDENT)
    chapter(number)
    run("notebooks.publish.changes", number, *["--merge"] * merge)


def test(numbers: list[str] = ()) -> None:
    """Check everything, or all that concerns these chapters: lint, tests, cells, the browser."""
    need(DEVELOPER, BOOK)
    parts = TEST_PARTS
    if numbers:
        parts = {"Lint": lint}
        for path in map(chapter, numbers):
            for name, part in CHAPTER_PARTS.items():
                parts[f"{path.stem[:2]}: {name}"] = partial(part, path)
    seconds = {}
    try:
        with leaving_nothing():
            for place, (name, part) in enumerate(parts.items(), start=1):
                say(f"{name}: (part {place} of {len(parts)})")
                start, remark = time.monotonic(), ", not to its end"
                try:
                    part()
                    remark = ""
                finally:
                    seconds[name + remark] = round(time.monotonic() - start)
    finally:
        say("How long each part took:")
        for name, took in seconds.items():
            say(f"{took // 60:4d}:{took % 60:02d}  {name}")


@contextmanager
def leaving_nothing():
    """What runs here finds other folders than home and that for temporary files, until its end."""
    with tempfile.TemporaryDirectory(prefix="d2l-", ignore_cleanup_errors=True) as away:
        folders = {name: str(Path(away, name)) for name in LEFT_IN}
        for folder in folders.values():
            Path(folder).mkdir()
        with mock.patch.dict(os.environ, folders):
            yield


def chapter(number: str) -> Path:
    """The notebook of a chapter; ends with a sentence where there is none."""
    if number in chapters():
        return chapters()[number]
    sys.exit(f"There is no chapter {number}: give its number, for example 03.")


def chapters() -> dict[str, Path]:
    """All notebooks by number, without the copies that JupyterLab can have made beside them."""
    paths = sorted(Path("notebooks").glob("[0-9][0-9]_*.ipynb"))
    return {path.name[:2]: path for path in paths if re.fullmatch(r"\w+", path.stem)}


def lint() -> None:
    """Look for mistakes and for format with ruff, and check the core's types."""
    need(DEVELOPER)
    run("ruff", "check", "--quiet", ".")
    run("ruff", "format", "--check", ".")
    run("mypy")


def slides(numbers: list[str], force: bool, lecture: str | None = None) -> None:
    """Write one file a chapter for the lecture room, no network needed: build/slides."""
    need(DEVELOPER)
    options = ["--force"] * force + (["--lecture", lecture] if lecture else [])
    run("notebooks.publish.slides", *options, *numbers, **ONE_THREAD)


def notebooks(numbers: list[str], force: bool) -> None:
    """Bring notebooks/ up to notebooks/src/."""
    need(STUDENT)
    run("notebooks.publish.build", *["--force"] * force, *numbers)


def site(pdf: bool = False) -> None:
    """Write the whole course as pages to read, for any web server or none: build/site."""
    slides([], force=False)
    for made in ("site", "doctrees"):
        shutil.rmtree(Path("build", made), ignore_errors=True)
    say("Site:")
    pages = ["notebooks/publish/site", "build/site"]
    options = ["-W", "--keep-going", "-q", "-b", "html", "-d", "build/doctrees"]
    run("sphinx", *options, *pages, **ONE_THREAD)
    if pdf:
        say("Printing, a minute or two:")
        run("notebooks.publish.site.paper")
    say("Open build/site/index.html.")


def bench(full: bool) -> None:
    """Measure the speed against d2l and PyTorch, in two minutes."""
    need(DEVELOPER, BOOK)
    run("tests.benchmarks", *["--full"] * full)
    if full:
        run("tests.benchmarks.lengths")


# ---- The parts of the test -------------------------------------------------------------------


# A file's tests stay in one process; xdist would begin with the file that has most tests.
IN_OUR_ORDER = "--dist", "loadfile", "--no-loadscope-reorder"


def unit_tests() -> None:
    pytest(
        3,
        *(*IN_OUR_ORDER, "-p", "no:nbval", "--ignore=tests/browser"),  # that of tests/conftest.py
    )


def every_notebook_cell() -> None:
    # The longest come first, or a core would wait for one of them at the end.
    long = "12 05 13 08 11 06 07 02 10 09".split()
    paths = chapters()
    run_cells([paths.pop(number) for number in long if number in paths] + [*paths.values()], 3)


def run_cells(notebooks: list[Path], workers: int) -> None:
    """Run each cell again and compare what it prints with what is stored."""
    pytest(
        workers,
        *(*IN_OUR_ORDER, "-p", "tests.notebook_times", "--nbval", "--nbval-current-env"),
        *("--nbval-sanitize-with", "tests/nbval_sanitize.cfg", *map(str, notebooks)),
        D2L_ATTENTION_PROGRESS=str(ROOT / "build" / "nobody.json"),
    )


def browser_tests() -> None:
    # In the order of tests/browser/conftest.py.
    # A third browser would cost what it spares.
    pytest(2, *IN_OUR_ORDER, "-rs", "-p", "no:nbval", "tests/browser")


def tests_of_chapter(notebook: Path) -> None:
    """What it builds, its exercises with their mistakes, its rules, its minutes."""
    number = notebook.name[:2]
    ids = f"[{number}_", f"[{int(number)}.", f"-{int(number)}.", f"test_built_{number}"
    places = "built", "exercises", "test_notebooks.py", "publish/test_plan.py"
    pytest(
        2,
        *("-p", "no:nbval", "-k", " or ".join(ids)),
        *(f"tests/{place}" for place in places),
        "tests/publish/test_minutes.py::test_all_that_is_announced_is_what_the_clock_says",
    )


def cells_of_chapter(notebook: Path) -> None:
    run_cells([notebook], 1)


def browser_of_chapter(notebook: Path) -> None:
    places = "test_chapters.py", "test_decks.py", "test_site_pages.py"
    pytest(
        2,
        *("-rs", "-p", "no:nbval", "-k", notebook.stem),
        *(f"tests/browser/{place}" for place in places),
    )


CHAPTER_PARTS = {
    "tests": tests_of_chapter,
    "cells": cells_of_chapter,
    "browser": browser_of_chapter,
}
TEST_PARTS = {
    "Lint": lint,
    "Unit tests": unit_tests,
    "Notebooks": every_notebook_cell,
    "Browser": browser_tests,
}


def pytest(workers: int, *arguments: str, **environment: str) -> None:
    """Run tests in so many processes: of three on two cores, one works while others wait."""
    options = "-q", "-n", str(workers), "-p", "tests.seen_alone"
    run("pytest", *options, *arguments, **ONE_THREAD, **COMPILED_ONCE, **environment)


# ---- How a command is run --------------------------------------------------------------------


def only_this_environment() -> None:
    """Only what is installed here counts, the kernel named python3, too."""
    for name in ("JUPYTER_PATH", "PYTHONHOME", "PYTHONPATH"):
        os.environ.pop(name, None)
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
    more = os.environ.get("JUPYTER_CONFIG_PATH")
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join([str(LAB_SETTINGS), *filter(None, [more])])


def write_on_any_terminal() -> None:
    """One that cannot write a letter gets '?' for it, from here and from all that is run."""
    encoding = os.environ.get("PYTHONIOENCODING", "").partition(":")[0]
    os.environ["PYTHONIOENCODING"] = f"{encoding}:replace"
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def need(*installed: str) -> None:
    """End with a sentence and the pip command where a package is missing, or this Python is old."""
    if sys.version_info < (3, 11):  # noqa: UP036
        sys.exit(f"The course needs Python 3.11 or newer, and {sys.executable} is older.")
    for what in installed:
        missing = [name for name in MODULES[what] if importlib.util.find_spec(name) is None]
        if missing:
            sys.exit(
                f"This Python lacks {', '.join(missing)}. In the course's folder, this "
                f"installs what is missing:\n  {this_python()} -m pip install {what}"
            )


def this_python() -> str:
    """How this Python is called from the course's folder."""
    python = Path(sys.executable)
    short = python.relative_to(ROOT) if python.is_relative_to(ROOT) else python
    return f'"{short}"' if " " in str(short) else str(short)


def run(module: str, *arguments: str, **environment: str) -> None:
    """Run a module in a Python of its own; end with its exit code where that is not 0."""
    command = [sys.executable, "-m", module, *arguments]
    process = subprocess.Popen(command, env=os.environ | environment)
    # Who stops this program stops what it runs, too. (Ctrl-C reaches both by itself.)
    interruption = signal.SIGTERM if os.name == "nt" else signal.SIGINT
    before = signal.signal(signal.SIGTERM, lambda *_: process.send_signal(interruption))
    try:
        code = process.wait()
    except KeyboardInterrupt:
        process.wait()  # it heard Ctrl-C as well, and ends in its own way
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
    if code:
        sys.exit(code if code > 0 else 128 - code)  # as a shell tells it, where a signal ended it


def say(sentence: str) -> None:
    print(sentence, flush=True)  # before what the command says, into a file as well


if __name__ == "__main__":
    main()
