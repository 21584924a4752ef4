"""The files that set the course up agree with each other, and make says what is wrong."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import d2l_attention

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
CONSTRAINTS = (ROOT / "constraints.txt").read_text("utf-8").splitlines()


def requirements(*extras):
    listed = PROJECT["dependencies"] + [
        line for extra in extras for line in PROJECT["optional-dependencies"][extra]
    ]
    return [line for line in listed if not line.startswith(PROJECT["name"])]


def test_conda_gets_the_same_requirements():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))
    python, pip, listed = environment["dependencies"]
    assert (python, pip) == ("python=3.11", "pip")
    assert sorted(listed["pip"]) == sorted(
        ["--constraint constraints.txt", "--editable .", *requirements("notebooks")]
    )


def test_the_package_alone_needs_torch_alone():
    assert [Requirement(line).name for line in PROJECT["dependencies"]] == ["torch"]


def test_the_image_of_a_larger_server_is_of_this_version_and_starts_the_same_server():
    folder = ROOT / "notebooks" / "publish" / "classroom" / "zero_to_jupyterhub"
    student = yaml.safe_load((folder / "values.yaml").read_text("utf-8"))["singleuser"]
    assert student["image"]["tag"] == d2l_attention.__version__
    image = (folder / "Dockerfile").read_text("utf-8")
    assert f"{student['image']['name']}:{student['image']['tag']}" in image
    assert "UNTESTED" in image  # until somebody has run it
    hub = (folder.parent / "jupyterhub_config.py").read_text("utf-8")
    python, option, module = student["cmd"]
    assert (python, option) == ("python", "-m") and f'"-m", "{module}"' in hub
    assert importlib.util.find_spec(module)


def test_every_constraint_is_a_plain_pin():
    plain = re.compile(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*")  # no local tag, no address
    assert [line for line in CONSTRAINTS if not plain.fullmatch(line)] == []
    names = [canonicalize_name(line.split("==")[0]) for line in CONSTRAINTS]
    assert len(set(names)) == len(names)


def test_every_requirement_is_pinned_to_a_version_that_it_allows():
    pins = {canonicalize_name(name): pin for name, pin in (c.split("==") for c in CONSTRAINTS)}
    for requirement in map(Requirement, requirements("notebooks", "dev", "nbgrader")):
        assert pins[canonicalize_name(requirement.name)] in requirement.specifier, requirement
    assert pins["torch"] == "2.13.0" and pins["d2l"] == "1.0.3"


def test_reading_a_notebook_compiles_no_grammar():
    """It would cost every program of Jupyter seconds, for a check that nobody asks for."""
    code = "import sys, nbformat; sys.exit('lark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_importing_the_package_needs_no_notebook_library():
    code = "import sys, d2l_attention; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    loaded = {name.partition(".")[0] for name in run.stdout.split()}
    assert "torch" in loaded
    assert loaded & {"matplotlib", "IPython", "ipywidgets", "anywidget", "jupytext"} == set()


def test_no_file_points_outside_the_project():
    folders = [ROOT / name for name in (".ci", ".github", "d2l_attention", "notebooks", "tests")]
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix != ".pyc"]
    for path in [*files, *ROOT.glob("*")]:
        if path.is_file():
            assert b"shared" + b"/" not in path.read_bytes(), path


def versions_that_ci_tries():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))
    matrix = workflow["jobs"]["test"]["strategy"]["matrix"]
    (pinned,) = matrix["torch"]
    oldest, newest = matrix["include"]
    return matrix["python"], [oldest["torch"], pinned, newest["torch"]]


def test_the_oldest_torch_is_the_same_everywhere_and_ci_tries_it():
    (torch,) = map(Requirement, PROJECT["dependencies"])
    pythons, (oldest, pinned, newest) = versions_that_ci_tries()
    assert str(torch.specifier) == f">={oldest.removesuffix('.0')}"
    assert f"torch=={pinned}" in CONSTRAINTS
    assert Version(oldest) < Version(pinned) < Version(newest)
    assert PROJECT["requires-python"] == f">={pythons[0]}"
    text = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert f"the course needs {torch.specifier}".replace(">=", "") in text  # a Mac with Intel
    assert f"PyTorch {oldest}, the oldest that is allowed" in text
    assert f"{pinned}, which is installed" in text and f"{newest}, the newest" in text


def test_ci_runs_the_command_of_the_readme():
    assert (ROOT / ".ci" / "run").read_text("utf-8").rstrip().endswith("make test")
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))
    assert {"run": ".ci/run"} in workflow["jobs"]["test"]["steps"]


# ---- make, in a copy that has nothing but the files it reads --------------------------------


@pytest.fixture
def clone(tmp_path):
    if shutil.which("make") is None or sys.platform == "win32":
        pytest.skip("no make here: python -m notebooks does the same")
    folder = tmp_path / "a clone"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture
def ready(clone):
    """A clone with what the set-up leaves behind, but an empty Python."""
    (clone / ".venv" / "bin").mkdir(parents=True)
    script(clone / ".venv" / "bin" / "python", "")
    (clone / ".venv" / ".made").write_text(f"{clone.resolve()}\n", "utf-8")
    for stamp in (".lab-stamp", ".test-stamp"):
        (clone / ".venv" / stamp).touch()
    return clone


def make(folder, *arguments, **environment):
    # Run from a test that make runs, it shall not take over that make's settings.
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "PIP_", "PYTHON"))}
    return subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env=kept | environment,
        capture_output=True,
        encoding="utf-8",
    )


def script(path, line):
    path.write_text(f"#!/bin/sh\n{line}\n", "utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def python(tmp_path):
    """The Python of this test, under a name without a space whatever its folder is called."""
    return script(tmp_path / "python", f'exec "{sys.executable}" "$@"')


def test_make_alone_lists_every_target(clone):
    (phony,) = re.findall(
        r"^\.PHONY: (help .*)$", (clone / "Makefile").read_text("utf-8"), re.MULTILINE
    )
    listed = re.findall(r"^  make (\w+) +\S+", make(clone).stdout, re.MULTILINE)
    assert sorted(listed) == sorted(phony.split())


def test_a_python_that_is_too_old_is_one_sentence(tmp_path, clone):
    run = make(clone, "lab", PYTHON=script(tmp_path / "python", "exit 1"))
    assert run.returncode != 0 and not (clone / ".venv").exists()
    assert run.stdout.startswith("The course needs Python 3.11 or newer; tried: ")
    assert run.stdout.count("\n") == 1 and "make lab PYTHON=/path/to/python3.11" in run.stdout


def test_a_python_without_venv_is_one_sentence(tmp_path, clone):
    (tmp_path / "ensurepip.py").write_text("raise ModuleNotFoundError('ensurepip')", "utf-8")
    python = script(tmp_path / "python", f'PYTHONPATH="{tmp_path}" exec "{sys.executable}" "$@"')
    run = make(clone, "test", PYTHON=python)
    assert run.returncode != 0 and not (clone / ".venv").exists()
    assert re.fullmatch(
        r"Python 3\S+ has no venv module\..*install.*make test again\.\n", run.stdout
    )


def test_no_network_is_one_sentence_and_leaves_no_stamp(clone, python):
    nowhere = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": "http://127.0.0.1:9",
        "PIP_RETRIES": "1",
    }
    run = make(clone, "lab", PYTHON=python, **nowhere)
    assert run.returncode != 0 and not (clone / ".venv" / ".lab-stamp").exists()
    assert "The package index cannot be reached." in run.stdout
    assert "make lab again" in run.stdout and "Traceback" not in run.stdout + run.stderr


def test_another_failure_of_pip_shows_the_end_of_its_log(clone, python):
    (clone / "pyproject.toml").write_text("this is no TOML", "utf-8")
    run = make(clone, "lab", PYTHON=python)
    assert run.returncode != 0 and not (clone / ".venv" / ".lab-stamp").exists()
    assert "pip could not install the course. The end of .venv/install.log:" in run.stdout
    assert "TOMLDecodeError" in run.stdout


@pytest.mark.parametrize("target", ["lab", "test"])
def test_a_second_call_installs_nothing(ready, target):
    plan = make(ready, "--dry-run", target).stdout
    assert f"-m notebooks {target}" in plan
    assert "pip" not in plan and "venv --clear" not in plan


def test_new_requirements_are_installed_into_the_same_environment(ready):
    later = (ready / ".venv" / ".lab-stamp").stat().st_mtime + 10
    os.utime(ready / "constraints.txt", (later, later))
    plan = make(ready, "--dry-run", "lab").stdout
    assert "pip" in plan and "venv --clear" not in plan


def test_a_moved_folder_gets_a_new_environment(ready):
    moved = ready.rename(ready.with_name("moved"))
    plan = make(moved, "--dry-run", "lab").stdout
    assert plan.index("venv --clear") < plan.index("-m pip") < plan.index("notebooks lab")


def test_another_torch_has_an_environment_of_its_own(tmp_path, ready):
    """It gets all other pins but that of setuptools, of which torch 2.11 needs an older one.

    This Python installs nothing: it copies itself where a venv goes.
    """
    venv = 'test "$2" != venv || { mkdir -p "$4/bin" && cp "$0" "$4/bin/python"; }'
    run = make(ready, "test", "TORCH=1.2.3", PYTHON=script(tmp_path / "python", venv))
    assert run.returncode == 0, run.stdout + run.stderr
    pins = (ready / ".venv-torch-1.2.3" / "pins.txt").read_text("utf-8").splitlines()
    expected = [re.sub("^torch==.*", "torch==1.2.3", line) for line in CONSTRAINTS]
    assert pins == [line for line in expected if not line.startswith("setuptools==")]
    plan = make(ready, "--dry-run", "test", "TORCH=1.2.3").stdout
    assert plan.split() == [".venv-torch-1.2.3/bin/python", "-m", "notebooks", "test"]
    make(ready, "clean")
    assert sorted(path.name for path in ready.iterdir()) == [
        "Makefile",
        "constraints.txt",
        "pyproject.toml",
    ]


@pytest.mark.parametrize(
    ("asked", "runs"),
    [
        ("lab LAB_ARGS=--no-browser", "lab --open work --no-browser"),
        ("lab LECTURE=1", "lab --open lecture"),
        ("lab DIR=notebooks", "lab --open notebooks"),
        ("test", "test"),
        ("test TORCH=2.13.0", "test"),  # the pinned one
        ("lint", "lint"),
        ("notebooks", "notebooks"),
        ("notebooks NB=03", "notebooks 03"),
        ("notebooks FORCE=1", "notebooks --force"),
        ("slides NB=03 FORCE=1", "slides --force 03"),
        ("site", "site"),
        ("bench", "bench"),
        ("bench FULL=1", "bench --full"),
    ],
)
def test_make_calls_the_front_door(ready, asked, runs):
    plan = make(ready, "--dry-run", *asked.split()).stdout
    assert plan.split() == [".venv/bin/python", "-m", "notebooks", *runs.split()]
