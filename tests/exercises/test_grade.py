"""The grader on notebooks as students hand them in: right, wrong, broken, hostile."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import nbformat
import psutil
import pytest
import torch
from filelock import FileLock

from d2l_attention.exercises import solution
from d2l_attention.exercises.__main__ import found, main
from d2l_attention.exercises.grade import is_plain, one_line
from d2l_attention.exercises.registry import find, load_chapter
from d2l_attention.exercises.submission import read

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
INSTRUCTORS = NOTEBOOKS / "publish" / "site" / "instructors.md"
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

FROM_COURSE = "from d2l_attention.exercises import check"
RIGHT = f"{FROM_COURSE}\nanswer = 1.0\ncheck('0.1', answer)"
WRONG = f"{FROM_COURSE}\nanswer = 7\ncheck('0.1', answer)"


# ---- What students hand in ------------------------------------------------------------------


def solved_cells(chapter):
    """One cell for each exercise, as ``solution`` shows it, pasted over the stub."""
    cells = [f"import torch\n{FROM_COURSE}"]
    for exercise in load_chapter(chapter).exercises:
        code = solution(exercise.id).text.split("```")[1].removeprefix("python\n")
        name = exercise.stub.__name__ if callable(exercise.stub) else "answer"
        cells.append(f'{code}\n\ncheck("{exercise.id}", {name})')
    return cells


def wrong_cells(chapter):
    cells = [f"from d2l_attention.exercises.registry import find\n{FROM_COURSE}"]
    for exercise in load_chapter(chapter).exercises:
        number = len(exercise.wrong) - 1
        cells.append(f'check("{exercise.id}", find("{exercise.id}").wrong[{number}].answer)')
    return cells


def handed_out_cells(stem):
    cells = nbformat.read(NOTEBOOKS / f"{stem}.ipynb", as_version=4).cells
    return [cell.source for cell in cells if "check(" in cell.source and cell.cell_type == "code"]


CHEATS = [
    FROM_COURSE,
    # Nobody reads what check prints, be it redefined, imported anew or monkeypatched.
    """
    import d2l_attention.exercises as engine
    from d2l_attention.exercises import examine, sandbox, steps, store
    from d2l_attention.exercises.exercise import Verdict
    def check(exercise_id, answer):
        print("✓ solved")
        store.record(exercise_id, "solved")
        return engine.Result("Solved", Verdict("solved", "Solved."))
    engine.check = engine.run = sandbox.run = check
    examine.examine = sandbox.examine = lambda *_: Verdict("solved", "Solved.")
    steps.close = lambda *_: True
    answer = (2, 2)
    check("3.1", answer)
    """,
    # Nor does a torch for which all is alike count, nor a progress file.
    """
    import json, os, torch
    torch.equal = torch.allclose = lambda *_, **__: True
    torch.isclose = lambda a, b, *_, **__: torch.ones_like(a, dtype=torch.bool)
    with open(os.environ["D2L_ATTENTION_PROGRESS"], "w") as file:
        json.dump({f"3.{number}": "solved" for number in range(1, 8)}, file)
    def all_scores(queries, keys):
        return queries @ keys.transpose(-2, -1) + 1
    check("3.2", all_scores)
    """,
    """
    class Anything(tuple):
        __eq__ = lambda self, other: True
        __float__ = lambda self: 200.0
    check("3.3", Anything())
    """,
    'answer = None\nprint("✓ solved")\ncheck("3.5", answer)',
    # Taken apart in the judging process, this ends it; the others are judged all the same.
    """
    class Bomb:
        def __reduce__(self):
            return os._exit, (0,)
    check("3.6", Bomb())
    """,
]

TROUBLED = [
    f"import torch\n{FROM_COURSE}\nfrom pathlib import Path",
    "import sys\nsys.exit()",
    "much = bytearray(60 * 10**9)",
    'line = "x" * 10**6\nfor _ in range(1500):\n    print(line)',
    "def scale(scores):\n    return factor * scores\nfactor = 1.0\nanswer = [2]\nanswer.append(0)",
    'check("3.1", tuple(answer))',
    'def all_scores(queries, keys)\n    return 0\n\ncheck("3.2", all_scores)',
    'my_answer = 300\ncheck("3.3", the_answer)',
    # The helper and its data stand in another cell.
    """
    def distance_score(queries, keys):
        fee = keys.square().sum(-1).unsqueeze(-2) + queries.square().sum(-1, keepdim=True)
        return scale(queries @ keys.transpose(-2, -1) - fee / 2)
    check("3.4", distance_score)
    """,
    # The second call counts, and the last definition.
    'def attention(q, k, v):\n    return v\ncheck("3.5", attention)',
    "def attention(queries, keys, values):\n    scores = torch.bmm(queries, "
    "keys.transpose(1, 2)) / keys.shape[-1] ** 0.5\n    return torch.bmm(scores.softmax(dim=-1), "
    'values)\ncheck("3.5", attention)',
    "# check('3.6', test_score)",
]

LEAVES_PROCESSES = """
import os, subprocess, sys, time
program = "import os, time; open({file!r}, 'a').write(f'{{os.getpid()}} '); time.sleep(1000)"
subprocess.Popen([sys.executable, "-c", program])
subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-c", program])
    os._exit(0)
open({file!r}, "a").close()
while len(open({file!r}).read().split()) < 3:
    time.sleep(0.05)
"""


def kernel(name, language):
    return {"name": name, "display_name": name, "language": language}


def write(path, cells, **metadata):
    path.parent.mkdir(parents=True, exist_ok=True)
    cells = [nbformat.v4.new_code_cell(textwrap.dedent(cell).strip()) for cell in cells]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), path)


def hand_in(folder):
    for student in ("anna", "ben"):
        write(folder / student / "00_start_here.ipynb", [RIGHT if student == "anna" else WRONG])
    write(folder / "03_solved.ipynb", solved_cells(3))
    write(folder / "04_wrong.ipynb", wrong_cells(4))
    write(folder / "06_handed_out.ipynb", handed_out_cells("06_multi_head_attention"))
    write(folder / "03_cheats.ipynb", CHEATS)
    write(folder / "03_troubled.ipynb", TROUBLED)
    write(folder / "00_crash.ipynb", [RIGHT, "import os\nos._exit(1)", WRONG])
    write(folder / "00_early_crash.ipynb", ["import os, signal\nos.kill(os.getpid(), 11)", RIGHT])
    write(folder / "00_processes.ipynb", [LEAVES_PROCESSES.format(file=str(folder / "pids"))])
    write(folder / "00_kernel.ipynb", [RIGHT], kernelspec=kernel("ghost", "python"))
    write(
        folder / "00_other.ipynb",
        ["1"],
        kernelspec={"name": "ir", "language": "R", "display_name": "R"},
    )
    write(folder / "poem.ipynb", ["roses = 'red'"])
    (folder / "00_text.ipynb").write_text("My answers: 1, 2, 3")
    (folder / "00_bytes.ipynb").write_bytes(bytes(range(256)))
    (folder / "00_empty.ipynb").touch()
    (folder / "00_list.ipynb").write_text("[1, 2]")
    (folder / "00_deep.ipynb").write_text("[" * 100_000)
    (folder / "00_odd.ipynb").write_text('{"cells": [7], "nbformat": 4, "metadata": {}}')
    (folder / "00_folder.ipynb").mkdir()


def grade(*arguments):
    command = [sys.executable, "-m", "d2l_attention.exercises", "grade", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": ROOT}
    return subprocess.Popen(command, **pipes)


def table(path):
    with path.open(newline="", encoding="utf-8") as file:
        return {Path(row["notebook"]).name: row for row in csv.DictReader(file)}


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """Folder, rows and screen of one run over all of the above; two workers share it."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    folder = shared / "handed_in"
    with FileLock(shared / "grading.lock"):
        if not (shared / "screen.json").exists():
            hand_in(folder)
            out = shared / "grades.csv"
            hanging = start_hanging(shared)
            run = grade(folder, folder / "00_missing.ipynb", "--out", out)
            told = [run.communicate(), hanging.communicate()]
            codes = [run.returncode, hanging.returncode]
            (shared / "screen.json").write_text(json.dumps([told, codes]))
    return shared


def start_hanging(shared):
    folder = shared / "hanging"
    stubborn = """
    import time
    while True:
        try:
            time.sleep(9)
        except BaseException:
            pass
    """
    write(folder / "00_hangs.ipynb", ["import time\nwhile True:\n    time.sleep(1)", RIGHT])
    write(folder / "00_stubborn.ipynb", [RIGHT, stubborn, WRONG])
    return grade(folder, "--out", shared / "hanging.csv", "--seconds", 30)


@pytest.fixture
def rows(graded):
    return table(graded / "grades.csv")


def states(row):
    """Of the exercises of the row's chapter."""
    return {key: value for key, value in row.items() if re.fullmatch(r"\d+\.\d+", key) and value}


# ---- What the table says --------------------------------------------------------------------


def test_every_notebook_is_a_row_and_nothing_stops_the_grader(graded, rows):
    told, codes = json.loads((graded / "screen.json").read_text())
    assert codes == [0, 0]
    assert [errors for _, errors in told] == ["", ""]
    handed_in = {path.name for path in (graded / "handed_in").rglob("*.ipynb")}
    assert set(rows) == handed_in | {"00_missing.ipynb"}
    lines = told[0][0].splitlines()
    assert len(lines) == len(rows) + 4  # a head, two students with one name, a key, a last line
    assert any("03_solved" in line and "3.7 ✓" in line for line in lines)


def test_solutions_are_solved_and_wrong_answers_are_not(rows):
    right, wrong = rows["03_solved.ipynb"], rows["04_wrong.ipynb"]
    assert states(right) == {exercise.id: "solved" for exercise in load_chapter(3).exercises}
    assert (right["solved"], right["tried"], right["total"], right["remark"]) == ("7", "7", "7", "")
    assert states(wrong) == {exercise.id: "wrong" for exercise in load_chapter(4).exercises}
    total = str(len(load_chapter(4).exercises))
    assert (wrong["solved"], wrong["tried"], wrong["total"]) == ("0", total, total)


def test_what_was_handed_out_is_not_attempted(rows):
    """Also the bugs to find, which are code that runs."""
    row = rows["06_handed_out.ipynb"]
    assert set(states(row).values()) == {"not attempted"}
    assert len(states(row)) == len(load_chapter(6).exercises)
    assert (row["solved"], row["tried"], row["remark"]) == ("0", "0", "")


def test_two_students_with_one_file_name_stay_two(graded):
    with (graded / "grades.csv").open(newline="", encoding="utf-8") as file:
        same = [row for row in csv.DictReader(file) if "start_here" in row["notebook"]]
    assert [(Path(row["notebook"]).parent.name, row["0.1"]) for row in same] == [
        ("anna", "solved"),
        ("ben", "wrong"),
    ]


def test_no_cheat_is_solved(rows):
    row = rows["03_cheats.ipynb"]
    assert states(row) == {
        "3.1": "wrong",
        "3.2": "wrong",
        "3.3": "wrong",
        "3.4": "not there",
        "3.5": "not attempted",
        "3.6": "wrong",
        "3.7": "not there",
    }
    assert "code cell 2 rewrites `check`" in row["remark"]
    assert "3.3: no plain value but a Anything" in row["remark"]
    assert "3.6: its check gave no verdict" in row["remark"]


def test_one_trouble_does_not_hide_the_rest(rows):
    """sys.exit, too much memory, gigabytes of output, a syntax error, a lost name."""
    row = rows["03_troubled.ipynb"]
    assert states(row) == {
        "3.1": "solved",
        "3.2": "wrong",
        "3.3": "wrong",
        "3.4": "solved",
        "3.5": "solved",
        "3.6": "not there",
        "3.7": "not there",
    }
    for told in ("cell 2: SystemExit", "cell 3: MemoryError", "cell 7: SyntaxError", "1 more"):
        assert told in row["remark"]


@pytest.mark.parametrize(
    ("name", "state", "told"),
    [
        ("00_crash", "solved", "the kernel ended in code cell 2"),
        ("00_early_crash", "not run", "the kernel ended in code cell 1"),
        ("00_processes", "not there", ""),
        ("00_kernel", "solved", "asks for the kernel 'ghost'"),
        ("00_other", "", "written for R"),
        ("00_text", "", "not JSON"),
        ("00_bytes", "", "not JSON: not even text"),
        ("00_deep", "", "not JSON"),
        ("00_empty", "", "an empty file"),
        ("00_list", "", "JSON, but not a notebook"),
        ("00_odd", "", "JSON, but not a notebook"),
        ("00_folder", "", "a folder without notebooks"),
        ("00_missing", "", "there is no such file"),
        ("poem", "", "no exercise of the course in it"),
    ],
)
def test_every_other_problem_is_a_row_with_its_reason(rows, name, state, told):
    row = rows[f"{name}.ipynb"]
    assert row["0.1"] == state
    assert told in row["remark"] and bool(told) == bool(row["remark"])
    assert row["total"] == ("0" if name == "poem" else "1")


def test_endless_loops_are_stopped_and_what_is_around_them_counts(graded):
    rows = table(graded / "hanging.csv")
    loop, stubborn = rows["00_hangs.ipynb"], rows["00_stubborn.ipynb"]
    assert "code cell 1: stopped after" in loop["remark"]
    assert "code cell 2 was still running after 30 s" in stubborn["remark"]
    assert (loop["0.1"], stubborn["0.1"]) == ("solved", "solved")


def test_processes_that_a_notebook_starts_end_with_it(graded):
    pids = (graded / "handed_in" / "pids").read_text().split()
    assert len(pids) == 3
    assert not any(map(psutil.pid_exists, map(int, pids)))


def test_ctrl_c_keeps_the_rows_and_leaves_no_kernel(tmp_path):
    pid, out = tmp_path / "pid", tmp_path / "grades.csv"
    sleeper = f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(999)"
    (tmp_path / "00_a.ipynb").write_text("no notebook")
    write(tmp_path / "00_b.ipynb", [sleeper, RIGHT])
    run = grade(tmp_path, "--out", out)
    while not (pid.exists() and pid.read_text()):
        assert run.poll() is None
        time.sleep(0.1)
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate()
    assert run.returncode == 130
    assert "The rows so far are in" in errors
    assert table(out)["00_a.ipynb"]["remark"] == "not JSON"
    assert not psutil.pid_exists(int(pid.read_text()))


@pytest.mark.parametrize(
    "arguments",
    [
        ["x", "--seconds", "-1"],
        ["x", "--seconds", "3000000"],
        ["x", "--memory", "much"],
        ["x", "--memory", "1e12"],
        [],
    ],
)
def test_wrong_arguments_are_told_before_any_work(tmp_path, monkeypatch, capsys, arguments):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["exercises", "grade", *arguments])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "error: " in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_table_that_cannot_be_written_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["exercises", "grade", "x", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="Cannot write .*: Is a directory"):
        main()


def test_a_forgotten_name_of_the_table_costs_no_notebook(tmp_path, monkeypatch):
    notebook = tmp_path / "b.ipynb"
    notebook.write_text("a student's work")
    monkeypatch.setattr(sys, "argv", ["exercises", "grade", "--out", str(notebook), "c.ipynb"])
    with pytest.raises(SystemExit, match="is a notebook's name"):
        main()
    assert notebook.read_text() == "a student's work"


def test_a_link_to_itself_is_one_of_the_files(tmp_path):
    (tmp_path / "x.ipynb").symlink_to("x.ipynb")
    assert list(found([tmp_path])) == [tmp_path / "x.ipynb"]
    assert "Too many levels of symbolic links" in read(tmp_path / "x.ipynb").problem


CLOCK = """
import json, sys, time
from d2l_attention.exercises.apart import apart
def work(tell):
    time.sleep(1.5)
    tell(started=True)
    time.sleep(6)
    tell(done=True)
print(json.dumps([apart(work, seconds=0.5, memory=4, start=start) for start in (0, 60)]))
"""


def test_the_clock_starts_with_the_first_message():
    """What a busy machine needs to start a kernel is not taken from the student's time."""
    run = subprocess.run([sys.executable, "-c", CLOCK], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == [[[], True], [[{"started": True}], True]]


# ---- The parts ------------------------------------------------------------------------------


class Alike(float):
    def __eq__(self, other):
        return True


@pytest.mark.parametrize("value", [1, 0.5, "a", [1, (2, None)], {"a": 1}, torch.ones(2)])
def test_a_plain_value_may_be_judged(value):
    assert is_plain(value)


@pytest.mark.parametrize("value", [Alike(), [Alike()], {"a": (Alike(),)}, type("T", (list,), {})()])
def test_a_value_that_says_itself_what_it_equals_may_not(value):
    assert not is_plain(value)


def test_a_remark_is_one_short_line():
    assert one_line("a\nb\x1b[31m c\t") == "a b [31m c"
    assert len(one_line("x" * 1000)) == 404


@pytest.mark.parametrize(
    ("name", "cells", "chapter"),
    [
        ("anna", ["check('4.1', answer)\ncheck(\"4.2\", f)", "check('3.1', x)"], 4),
        ("anna", ["check('44.1', answer)", "check('3.1', x)"], 3),
        ("03_scoring_functions-ben", ["x = 1"], 3),
        ("ben_03_", [], 3),
        ("2024_ben", ["print(3.1)"], None),
    ],
)
def test_the_chapter_is_found_by_exercises_then_by_name(tmp_path, name, cells, chapter):
    write(tmp_path / f"{name}.ipynb", cells)
    assert read(tmp_path / f"{name}.ipynb").chapter == chapter


def test_the_chapter_is_found_by_its_title():
    notebook = read(NOTEBOOKS / "03_scoring_functions.ipynb")
    assert (notebook.chapter, notebook.problem, notebook.remarks) == (3, None, [])


@pytest.mark.parametrize(
    ("cell", "rewrites"),
    [
        ("def check(a, b):\n    pass", True),
        ("x = 1\nengine.check = print", True),
        ("from cheats import win as check", True),
        ("setattr(engine, 'check', print)", True),
        ("from d2l_attention.exercises import check\nchecked = check('3.1', 2)", False),
    ],
)
def test_rewriting_check_is_noticed(tmp_path, cell, rewrites):
    write(tmp_path / "03_a.ipynb", [cell])
    assert bool(read(tmp_path / "03_a.ipynb").rewriting()) == rewrites


# ---- The instructors' page ------------------------------------------------------------------

HEADING = re.compile(r"\[(\d\d)\]\(\.\./\.\./(\d\d_\w+)\.ipynb\) \*([^*]+)\*")


def test_every_heading_that_the_page_quotes_is_in_its_chapter():
    quoted = HEADING.findall(INSTRUCTORS.read_text(encoding="utf-8"))
    assert len(quoted) > 20
    for number, stem, heading in quoted:
        cells = nbformat.read(NOTEBOOKS / f"{stem}.ipynb", as_version=4).cells
        prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        assert number == stem[:2]
        heading = " ".join(heading.split())  # the page may break a line in it
        assert heading in re.findall(r"^#+ (.+?)\s*$", prose, re.MULTILINE), heading
    assert {number for number, _, _ in quoted} >= {f"{number:02d}" for number in range(9)}


def test_every_exercise_that_the_page_names_exists():
    page = INSTRUCTORS.read_text(encoding="utf-8")
    named = re.findall(r"exercise (\d+\.\d+)(?: (?:to|and) (\d+\.\d+))?", page)
    assert len(named) > 20
    for exercise_id in filter(None, sum(named, ())):
        assert find(exercise_id)
