"""What the student sees of the exercises, and what is remembered of them."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from sample_exercise import an_exercise

import d2l_attention.exercises as engine
from d2l_attention.exercises import check, hint, progress, solution
from d2l_attention.exercises.authoring import number
from d2l_attention.exercises.engine import registry, store
from d2l_attention.exercises.engine.display import rich, where_to_go_on
from d2l_attention.exercises.engine.edits import renamed, source_of
from d2l_attention.exercises.engine.examine import examine
from d2l_attention.exercises.engine.registry import Chapter, sort_key

BY_HAND = an_exercise(
    id="4.1", stub=None, solution=0.75, cases=(), mistakes=(), steps=[number(0.75)]
)
TO_WRITE = an_exercise(id="4.2", hints=["First.", "Second.", "Third."])


@pytest.fixture(autouse=True)
def one_chapter(monkeypatch):
    monkeypatch.setattr(registry, "chapter_numbers", lambda: [4])
    chapter = Chapter(4, "Softmax", [BY_HAND, TO_WRITE])
    monkeypatch.setattr(registry, "load_chapter", {4: chapter}.__getitem__)


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """No answer below needs a process of its own."""
    monkeypatch.setattr(engine, "run", lambda exercise, answer: (examine(exercise, answer), ""))


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    file = tmp_path / "data" / "progress.json"
    monkeypatch.setenv("D2L_ATTENTION_PROGRESS", str(file))
    monkeypatch.setattr(engine, "_hints_given", {})
    return file


def test_unknown_ids_name_their_neighbours():
    assert "If it is your instructor's own, it is checked after" in check("50.1", 1).message
    assert "There is no exercise `4.77`. Did you mean `4.1`, `4.2`" in check("4.77", 1).message
    assert "`4.1`" in repr(check("4,1", 1)) and not check("4,1", 1).solved
    assert "in quotes" in check(4.1, 1).message
    assert "no exercise `77.1`" in repr(hint("77.1"))
    assert "no exercise `x`" in repr(solution("x"))


def test_order_of_ids():
    assert sorted(["4.10", "4.9", "10.1"], key=sort_key) == ["4.9", "4.10", "10.1"]


def test_check_without_an_answer_is_not_attempted():
    result = check("4.2")
    assert result.verdict.state == "not attempted"
    assert repr(result) == "4.2 · A softmax (easy, 1 minute)\nNot attempted yet."


def test_code_and_emphasis_become_html_and_nothing_else_does():
    assert rich("the *same* `a * b * c`") == "the <em>same</em> <code>a * b * c</code>"
    assert rich("2 * 3 * 4, a*b*c, an odd ` and <b>") == "2 * 3 * 4, a*b*c, an odd ` and &lt;b&gt;"


def test_hints_come_one_by_one():
    shown = [repr(hint("4.2")) for _ in range(4)]
    assert [text.split("\n")[0] for text in shown] == [
        f"4.2 · Hint {number} of 3" for number in (1, 2, 3, 3)
    ]
    assert "last hint" not in shown[1] and '`solution("4.2")`' in shown[2]
    assert hint("4.2")._repr_markdown_().startswith("**4.2 · Hint 3 of 3**\n\n")


def test_solution_shows_the_code_that_the_tests_run():
    assert solution("4.2")._repr_markdown_() == (
        "**4.2 · A softmax (easy, 1 minute)**\n\n"
        "```python\ndef blank(scores):\n    return scores.softmax(dim=-1)\n```\n\nBecause."
    )
    assert "answer = 0.75" in repr(solution("4.1"))


class Doubled:
    """Not another ``class Doubled``: Doubled(2) gives 4."""

    def __new__(cls, x):
        return 2 * x


def doubled_solution(x):
    """Not ``def doubled_solution(x)`` but this."""
    return doubled_solution(x - 1) + 2 if x else 0


@pytest.mark.parametrize("right", [Doubled, doubled_solution])
def test_a_solution_is_renamed_where_it_is_defined_and_nowhere_else(right):
    lines = source_of(right).splitlines()
    first, *others = renamed(source_of(right), right, "doubled").splitlines()
    assert first == lines[0].replace(right.__name__, "doubled")
    assert others == lines[1:]


def test_progress_is_kept_and_never_falls_back(own_progress):
    assert "0 solved   0 attempted" in repr(progress())
    assert "Go on with exercise 4.1, " in repr(progress())
    check("4.1", 0.5)
    assert json.loads(own_progress.read_text()) == {"4.1": "attempted"}
    check("4.1", 0.75)
    check("4.1", 0.5)
    check("4.2", "no function")
    assert json.loads(own_progress.read_text()) == {"4.1": "solved", "4.2": "attempted"}
    assert "4.1 ✓  4.2 …" in repr(progress())
    assert "Go on with exercise 4.2, " in repr(progress())  # the first after what is solved
    assert "<td" in progress()._repr_html_() and "4.1 ✓" in progress()._repr_html_()


@pytest.mark.parametrize(
    "content", [b"{", b"", b"\xff\xfe", b"[1]", b'{"4.1": 3}', b'{"4.1": []}', b"[" * 100000]
)
def test_a_damaged_file_is_set_aside(own_progress, content):
    own_progress.parent.mkdir()
    for number_ in (1, 2):
        own_progress.write_bytes(content)
        result = check("4.1", 0.75)
        aside = own_progress.with_name(f"progress.json.damaged-{number_}")
        assert result.solved and aside.name in repr(result) and aside.name in result._repr_html_()
        assert aside.read_bytes() == content
    assert json.loads(own_progress.read_text()) == {"4.1": "solved"}
    own_progress.write_bytes(content)
    assert "damaged-3" in repr(progress()) and "damaged" not in repr(progress())


def test_a_file_that_an_editor_saved_with_a_bom_is_none_that_is_damaged(own_progress):
    own_progress.parent.mkdir()
    own_progress.write_text('{"4.1": "solved"}', "utf-8-sig")
    assert "damaged" not in repr(check("4.2", "no function"))
    assert json.loads(own_progress.read_text()) == {"4.1": "solved", "4.2": "attempted"}


def test_a_folder_that_cannot_be_written_is_not_fatal(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("D2L_ATTENTION_PROGRESS", str(tmp_path / "file" / "progress.json"))
    result = check("4.1", 0.75)
    assert result.solved and "could not be saved" in repr(result)
    assert "could not be read" in repr(progress())


def test_without_the_variable_progress_lives_in_the_users_data_folder(monkeypatch):
    monkeypatch.delenv("D2L_ATTENTION_PROGRESS")
    assert store.path().name == "progress.json" and store.path().parent.name == "d2l-attention"


def test_notebooks_that_write_at_once_lose_nothing(own_progress):
    ids = [f"{chapter}.{number}" for number in range(20) for chapter in range(4)]
    with ThreadPoolExecutor(4) as notebooks:
        notes = list(notebooks.map(lambda exercise_id: store.record(exercise_id, "solved"), ids))
    assert notes == [None] * len(ids)
    assert json.loads(own_progress.read_text()) == dict.fromkeys(ids, "solved")
    assert not list(own_progress.parent.glob(".*.part"))


def test_a_folder_or_a_pipe_is_no_progress_file(tmp_path, monkeypatch):
    pipe, folder = tmp_path / "pipe", tmp_path / "folder"
    if hasattr(os, "mkfifo"):
        os.mkfifo(pipe)
    else:
        pipe.mkdir()
    folder.mkdir()
    for path in (pipe, folder):
        monkeypatch.setenv("D2L_ATTENTION_PROGRESS", str(path))
        assert "is not a file" in repr(check("4.1", 0.75)) and "is not a file" in repr(progress())
        assert path.exists()
    assert sorted(name.name for name in tmp_path.iterdir() if name.suffix != ".lock") == [
        "folder",
        "pipe",
    ]


def test_devices_are_left_alone(monkeypatch):
    for device in ("/dev/zero", "/dev/null"):
        monkeypatch.setenv("D2L_ATTENTION_PROGRESS", device)
        assert store.load() == ({}, f"Your progress cannot be shown: {device} is not a file.")


def test_home_and_links(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("D2L_ATTENTION_PROGRESS", "~/link.json")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    check("4.1", 0.75)
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "real.json").read_text()) == {"4.1": "solved"}


def test_a_newer_format_is_named_and_kept(own_progress):
    own_progress.parent.mkdir()
    own_progress.write_text('{"format": 2}')
    assert "written by a newer version of the course" in repr(check("4.1", 0.75))
    assert own_progress.read_text() == '{"format": 2}'


def test_what_is_too_large_is_left_alone(own_progress):
    own_progress.parent.mkdir()
    own_progress.write_text("1" * 2_000_000)
    assert "too large" in repr(check("4.1", 0.75)) and own_progress.stat().st_size == 2_000_000


def test_where_to_go_on_looks_back_only_at_the_end_and_says_when_all_is_done():
    three = [an_exercise(id=f"5.{k}", title=f"Step {k}") for k in (1, 2, 3)]
    chapters = [Chapter(4, "Softmax", [BY_HAND, TO_WRITE]), Chapter(5, "Later", three)]
    states = {"4.1": "solved", "5.1": "solved", "5.2": "attempted"}
    on = "Go on with exercise"
    assert where_to_go_on(chapters, states) == f"{on} 5.2, 'Step 2', in chapter 5."
    states |= {"5.2": "solved", "5.3": "solved"}
    assert where_to_go_on(chapters, states).startswith(f"{on} 4.2, ")
    assert where_to_go_on(chapters, states | {"4.2": "solved"}) == "All exercises are solved."
