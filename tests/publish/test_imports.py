"""No two files import each other, so any of them may be read and imported first."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def module_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported(path, modules):
    """Those of ``modules`` that a file imports, at any depth of its code."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inside & modules or {node.module}
    return found & modules


@pytest.mark.parametrize("folder", ["notebooks/publish", "d2l_attention/views"])
def test_no_two_files_import_each_other(folder):
    files = {module_of(path): path for path in (ROOT / folder).rglob("*.py")}
    imports = {name: imported(path, files.keys()) for name, path in files.items()}
    assert any(imports.values())
    TopologicalSorter(imports).prepare()  # raises CycleError, with the circle
