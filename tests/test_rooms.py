"""The rooms of the package: which room may import which. A room is a folder of d2l_attention.

And the house: what may stand at its root, how long a file may be, and that imports, which in
Python may run in circles as long as somebody comes first, do not.
"""

import ast
import importlib
import os
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "d2l_attention"
# The drawing of CONTRIBUTING: what stands on a line may import what stands below it.
DRAWING = re.search(r"```\n(classroom .*?)```", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.S)
LINES = [re.findall(r"\w+", line[:41]) for line in DRAWING[1].splitlines()]
ROOMS = sum(LINES, [])
# What is kept under its older name until 0.3, a line each, and the door of `exercises`.
OLDER = """
    training/spelling.py training/lookups.py training/indexed.py real_models/repeats.py
    exercises/grading.py exercises/__main__.py
""".split()
# These know less than what stands below them.
ALLOWED = {
    "data": {"system"},
    "models": {"attention"},
    "real_models": {"attention", "variants"},
    "testing": {"system"},
    "variants": {"attention"},
}


def imported(source, package):
    """The modules that Python text imports, at any depth of the code, by their whole names.

    ``package`` is where the text stands, for imports that begin with dots.
    """
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: -node.level + 1 or None] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names |= {f"{base}.{alias.name}" for alias in node.names}
    return names


def rooms_that(room):
    """The other rooms that the modules of ``room`` import, each with a file that does."""
    found = {}
    for path in sorted((PACKAGE / room).rglob("*.py")):
        if path.relative_to(PACKAGE).as_posix() in OLDER:
            continue
        package = ".".join(path.relative_to(PACKAGE.parent).parent.parts)
        for name in imported(path.read_text("utf-8"), package):
            parts = name.split(".")
            if parts[0] == PACKAGE.name:
                # A name of the package itself could come from any room: say from which.
                other = parts[1] if len(parts) > 1 and parts[1] in ROOMS else "the whole package"
                found[other] = str(path.relative_to(PACKAGE))
    found.pop(room, None)
    return found


def test_nothing_is_loose_and_no_room_is_unknown():
    inside = {path.name for path in PACKAGE.iterdir()} - {"__pycache__"}
    assert inside == {"__init__.py", *ROOMS}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_what_it_may(room):
    line = next(number for number, rooms in enumerate(LINES) if room in rooms)
    allowed = ALLOWED.get(room, set(sum(LINES[line + 1 :], [])))
    if room in ("classroom", "exercises", "views", "scale", "training"):
        allowed = allowed | {"the whole package"}
    wrong = {other: path for other, path in rooms_that(room).items() if other not in allowed}
    assert wrong == {}


@pytest.mark.parametrize("file", [each for each in OLDER if "__main__" not in each])
def test_an_older_name_gives_what_the_new_one_gives(file):
    old = importlib.import_module(f"d2l_attention.{file.removesuffix('.py').replace('/', '.')}")
    new = importlib.import_module(f"d2l_attention.{old.__doc__.split('``')[1]}")
    public = {name for name in vars(new) if not name.startswith("_")}
    assert public and all(getattr(old, name) is getattr(new, name) for name in public)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("import d2l_attention.views.plots", "d2l_attention.views.plots"),
        ("from d2l_attention import views", "d2l_attention.views"),
        ("from d2l_attention.views.plots import heatmap", "d2l_attention.views.plots.heatmap"),
        ("from . import masks", "d2l_attention.models.masks"),
        ("from .. import views", "d2l_attention.views"),
        ("from ..views.plots import heatmap", "d2l_attention.views.plots.heatmap"),
        ("def f():\n    from d2l_attention.views import plots", "d2l_attention.views.plots"),
    ],
)
def test_an_import_is_seen_however_it_is_written(line, name):
    assert imported(line, "d2l_attention.models") == {name}


# ---- Modules --------------------------------------------------------------------------------


def modules():
    """The file of each module of ours, by its whole name. The chapters' texts are no modules."""
    files = [*PACKAGE.rglob("*.py"), *(ROOT / "notebooks").rglob("*.py")]
    found = {}
    # A configuration is run by the program that it is for, an instructor's exercises by the engine.
    others = {path for path in files if path.name.endswith("_config.py")}
    others |= {path for path in files if "private_example" in path.parts}
    others |= set((ROOT / "notebooks" / "src").iterdir())
    for path in sorted(set(files) - others):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


MODULES = modules()


@cache
def imported_by(name):
    """The whole names that a module of ours imports, such as ``d2l_attention.data.dates.draw``."""
    package = name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]
    return imported(MODULES[name].read_text("utf-8"), package)


def test_imports_never_come_round():
    """Not even where an import stands in a function: two files that need each other are one."""
    graph = {}
    for name in MODULES:
        # What is no module is a name in one.
        found = {each if each in MODULES else each.rpartition(".")[0] for each in imported_by(name)}
        graph[name] = found & MODULES.keys()
    TopologicalSorter(graph).prepare()  # its error names those that stand in a circle


def test_what_checks_an_exercise_needs_nothing_of_what_its_author_needs():
    engine = [name for name in MODULES if name.startswith("d2l_attention.exercises.engine")]
    needed = set().union(*map(imported_by, [*engine, "d2l_attention.exercises.exercise"]))
    assert not [name for name in needed if name.startswith("d2l_attention.exercises.authoring")]


# Forgets all of ours before an import, so that it finds what it would find as the first; other
# libraries stay. A module that its package imports comes with the package, which is the first then.
EACH_AS_THE_FIRST = """
import importlib, sys
came_with = {}
for name in sys.argv[1:]:
    found = came_with.get(name.rpartition(".")[0], set())
    if name not in found:
        for known in found.union(*came_with.values()):
            sys.modules.pop(known, None)
        try:
            importlib.import_module(name)
        except Exception as error:
            print(f"{name}: {error!r}")
        ours = ("d2l_attention", "notebooks")
        found = {known for known in sys.modules if known.partition(".")[0] in ours}
    came_with[name] = found
import psutil
for process in psutil.Process().children():
    print(f"started: {process.cmdline()}")
"""


def test_each_module_can_be_the_first_that_is_imported_and_starts_nothing():
    command = [sys.executable, "-c", EACH_AS_THE_FIRST, *MODULES]
    ours = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=ours, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


def room_of(name):
    """``d2l_attention.views`` of ``d2l_attention.views.plots.heatmap``; all notebooks are one."""
    parts = name.split(".")
    return parts[0] if parts[0] == "notebooks" else ".".join(parts[:2])


def private_to_others(module, names):
    """Of the ``names`` that ``module`` imports: those that another room keeps for itself."""
    others = {name for name in names if room_of(name) != room_of(module)}
    ours = {name for name in others if name.partition(".")[0] in (PACKAGE.name, "notebooks")}
    underscored = {part for name in ours for part in name.split(".") if part.startswith("_")}
    return {part for part in underscored if not part.endswith("__")}


def test_what_begins_with_an_underscore_stays_in_its_room():
    found = {name: private_to_others(name, imported_by(name)) for name in MODULES}
    assert not any(found.values()), {name: names for name, names in found.items() if names}


def test_an_underscore_is_seen_in_a_module_and_in_a_name_and_not_at_home():
    names = {"d2l_attention.views._drawing.line", "d2l_attention.views.plots._axes", "torch._C"}
    assert private_to_others("d2l_attention.scale.roofline", names) == {"_drawing", "_axes"}
    assert private_to_others("notebooks.publish.page", names) == {"_drawing", "_axes"}
    assert private_to_others("d2l_attention.views.picture", names) == set()


def test_the_mechanism_is_as_small_as_the_readme_says():
    files = [*(PACKAGE / "attention").glob("*.py"), *(PACKAGE / "models").glob("*.py")]
    lines = sum(len(file.read_text("utf-8").splitlines()) for file in files)
    told = re.search(r"fewer than ([\d,]+)\s+lines", (ROOT / "README.md").read_text("utf-8"))
    assert lines < int(told[1].replace(",", "")) < lines + 1000


def test_a_file_can_be_read_at_one_go():
    """Of modules: a text is as long as its chapter, a file of tests as long as its tables."""
    lines = {name: path.read_text("utf-8").count("\n") for name, path in MODULES.items()}
    assert {name: count for name, count in lines.items() if count > 400} == {}


# ---- The root -------------------------------------------------------------------------------

AT_THE_ROOT = """
    .ci .devcontainer .gitattributes .github .gitignore CHANGELOG.md CONTRIBUTING.md LICENSE
    Makefile README.md constraints.txt d2l_attention environment.yml notebooks pyproject.toml tests
""".split()


def test_only_what_is_listed_stands_at_the_root():
    """Of what git keeps: a student's own files may stand there, too."""
    try:
        listed = subprocess.run(
            ["git", "ls-files"], cwd=ROOT, capture_output=True, encoding="utf-8"
        )
    except FileNotFoundError:
        pytest.skip("git is not installed")
    if listed.returncode:
        pytest.skip("this is no checkout of git's")
    assert {path.partition("/")[0] for path in listed.stdout.splitlines()} <= set(AT_THE_ROOT)
