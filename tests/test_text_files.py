"""Text is UTF-8 on every system: who reads or writes a file, or a process, says so."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ["notebooks/publish", "d2l_attention/data", "d2l_attention/views"]
FOLDERS += ["tests/browser", "tests/data", "tests/publish", "tests/testing", "tests/views"]


def without_encoding(source):
    """The lines that read or write text in whatever encoding the system has."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        method = function.attr if isinstance(function, ast.Attribute) else None
        named = {keyword.arg for keyword in node.keywords}
        if (
            (method == "read_text" and not node.args)
            or (method == "write_text" and len(node.args) < 2)
            or (method in ("run", "Popen", "check_output") and named & {"text", "errors"})
            or (getattr(function, "id", None) == "open" and not opens_bytes(node))
        ) and "encoding" not in named:
            found.append(node.lineno)
    return found


def opens_bytes(call):
    modes = [argument.value for argument in call.args[1:] if isinstance(argument, ast.Constant)]
    return any("b" in mode for mode in modes)


@pytest.mark.parametrize("folder", FOLDERS)
def test_text_files_are_utf8(folder):
    files = {path: path.read_text("utf-8") for path in (ROOT / folder).rglob("*.py")}
    assert files
    found = {str(path): without_encoding(source) for path, source in files.items()}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("path.read_text()", True),
        ("path.read_text('utf-8')", False),
        ("path.write_text(words)", True),
        ("path.write_text(words, encoding='utf-8')", False),
        ("subprocess.run(command, text=True)", True),
        ("subprocess.run(command, encoding='utf-8')", False),
        ("open(name)", True),
        ("open(name, 'rb')", False),
        ("Image.open(name)", False),
    ],
)
def test_the_search_sees_what_it_looks_for(code, is_found):
    assert bool(without_encoding(code)) == is_found
