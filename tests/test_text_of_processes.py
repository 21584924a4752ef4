"""What a process says is read as UTF-8 on every system. Of files, ruff's PLW1514 asks the same."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ["d2l_attention", "notebooks", "tests"]


def without_encoding(source):
    """The lines that start a process and read its text in whatever encoding the system has."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    named = {call: {keyword.arg for keyword in call.keywords} for call in calls}
    return [
        call.lineno
        for call, names in named.items()
        if getattr(call.func, "attr", None) in ("run", "Popen", "check_output")
        and names & {"text", "errors", "universal_newlines"}
        and "encoding" not in names
    ]


@pytest.mark.parametrize("folder", FOLDERS)
def test_processes_are_read_as_utf8(folder):
    files = {path: path.read_text("utf-8") for path in (ROOT / folder).rglob("*.py")}
    assert files
    found = {str(path): without_encoding(source) for path, source in files.items()}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("subprocess.run(command, text=True)", True),
        ("subprocess.Popen(command, errors='replace')", True),
        ("subprocess.run(command, encoding='utf-8')", False),
        ("subprocess.run(command)", False),
    ],
)
def test_the_search_sees_what_it_looks_for(code, is_found):
    assert bool(without_encoding(code)) == is_found
