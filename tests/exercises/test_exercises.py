"""Every exercise of the course through ``check`` itself, and its cells in the chapter."""

import re
from functools import cache

import pytest
import torch

from d2l_attention import exercises
from d2l_attention.exercises import check, hint, solution
from d2l_attention.exercises.engine.examine import examine
from d2l_attention.exercises.engine.registry import all_chapters
from notebooks.publish.course import texts
from notebooks.publish.text import read_text

CHAPTERS = all_chapters()
EXERCISES = [exercise for chapter in CHAPTERS for exercise in chapter.exercises]
# That every stub and solution gets its verdict, test_mistakes.py and test_nbgrader.py say.
ONE_A_CHAPTER = [chapter.exercises[-1] for chapter in CHAPTERS]

every_exercise = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
one_a_chapter = pytest.mark.parametrize("exercise", ONE_A_CHAPTER, ids=lambda exercise: exercise.id)


@pytest.fixture(autouse=True)
def one_thread_and_no_trace(tmp_path, monkeypatch):
    torch.set_num_threads(1)
    monkeypatch.setenv("D2L_ATTENTION_PROGRESS", str(tmp_path / "progress.json"))


@every_exercise
def test_says_what_is_asked(exercise):
    texts = [exercise.title, exercise.explanation, *exercise.hints]
    assert all(text.strip() for text in texts)
    assert len(set(exercise.hints)) == len(exercise.hints)


@one_a_chapter
def test_stub_is_not_attempted_yet_and_leaves_no_trace(exercise, tmp_path):
    result = check(exercise.id, exercise.stub)
    assert result.verdict.state == "not attempted"
    assert not result.solved
    assert "Not attempted yet" in repr(result)
    assert not list(tmp_path.iterdir())


@one_a_chapter
def test_solution_is_solved(exercise, monkeypatch):
    # Here: that answers travel to a worker is test_exercises_sandbox.py's.
    monkeypatch.setattr(exercises, "run", lambda *given: (examine(*given), ""))
    result = check(exercise.id, exercise.solution)
    assert result.solved, result.message
    assert exercise.explanation in result.message


@every_exercise
def test_hints_and_solution_can_be_shown(exercise):
    shown = [hint(exercise.id).text for _ in exercise.hints]
    assert all(
        given.startswith(written) for given, written in zip(shown, exercise.hints, strict=True)
    )
    page = solution(exercise.id)
    assert exercise.explanation in page.text
    code = page.text.split("```")[1].removeprefix("python\n")
    if callable(exercise.solution):
        # Pasted over the cell, it defines the name that the cell checks.
        assert f"def {exercise.stub.__name__}(" in code
        exec(code, {"torch": torch, "nn": torch.nn})
    else:
        assert code.strip() == f"answer = {exercise.solution!r}"


@cache
def page_of(number):
    """What the text of a chapter makes: the headings, and the ids that its cells check."""
    (text,) = (text for text in texts() if int(text.stem[:2]) == number)
    source = "\n".join(cell.source for cell in read_text(text).cells)
    headings = re.findall(r"^#{2,} (.+)$", source, re.MULTILINE)
    return headings, re.findall(r'^check\("([\d.]+)", \w+\)$', source, re.MULTILINE)


@every_exercise
def test_the_chapter_has_the_task_once_and_the_section_that_teaches_it(exercise):
    headings, checked = page_of(int(exercise.id.split(".")[0]))
    assert checked.count(exercise.id) == 1
    assert exercise.section in headings, (
        f"{exercise.id}: section= is required, a heading of the chapter that teaches what the "
        f"exercise asks for, got {exercise.section!r}"
    )
