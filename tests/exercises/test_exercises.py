"""Every exercise of the course through ``check`` itself, and its cells in the chapter."""

import ast
import inspect
import re
import textwrap
from functools import cache
from pathlib import Path

import pytest
import torch

from d2l_attention import exercises
from d2l_attention.exercises import check, hint, solution
from d2l_attention.exercises.engine.examine import examine
from d2l_attention.exercises.engine.registry import all_chapters

CHAPTERS = all_chapters()
EXERCISES = [exercise for chapter in CHAPTERS for exercise in chapter.exercises]
FUNCTIONS = [exercise for exercise in EXERCISES if callable(exercise.stub)]
# That every stub and solution gets its verdict, test_mistakes.py and test_nbgrader.py say.
ONE_A_CHAPTER = [chapter.exercises[-1] for chapter in CHAPTERS]
ROOT = Path(__file__).resolve().parents[2]

every_exercise = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
one_a_chapter = pytest.mark.parametrize("exercise", ONE_A_CHAPTER, ids=lambda exercise: exercise.id)


@pytest.fixture(autouse=True)
def one_thread_and_no_trace(tmp_path, monkeypatch):
    torch.set_num_threads(1)
    monkeypatch.setenv("D2L_ATTENTION_PROGRESS", str(tmp_path / "progress.json"))


def test_ids_are_unique_and_belong_to_their_chapter():
    ids = [exercise.id for exercise in EXERCISES]
    assert len(set(ids)) == len(ids) > 0
    for chapter in CHAPTERS:
        assert chapter.title
        assert {exercise.id.split(".")[0] for exercise in chapter.exercises} == {
            str(chapter.number)
        }


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


def definition(source, name):
    """The function or class ``name`` of a piece of Python, without comments and line breaks."""
    found = [node for node in statements(source) if getattr(node, "name", None) == name]
    return [ast.unparse(node) for node in found]


@cache
def statements(source):
    return ast.parse(textwrap.dedent(source)).body


@pytest.mark.parametrize("exercise", FUNCTIONS, ids=lambda exercise: exercise.id)
def test_the_chapter_hands_out_the_same_stub(exercise):
    (text,) = (ROOT / "notebooks" / "src").glob(f"{int(exercise.id.split('.')[0]):02d}_*.py")
    name = exercise.stub.__name__
    (stub,) = definition(inspect.getsource(exercise.stub), name)
    assert stub in definition(text.read_text("utf-8"), name)


def test_the_task_is_in_the_chapter_and_nowhere_else():
    for exercise in EXERCISES[1:]:  # 0.1 is part of the text that shows how exercises work
        (text,) = (ROOT / "notebooks" / "src").glob(f"{int(exercise.id.split('.')[0]):02d}_*.py")
        assert f"# **{exercise.id}** {exercise.title} · *{exercise.difficulty}" in text.read_text()
        assert not hasattr(exercise, "task")


@pytest.mark.parametrize("chapter", all_chapters(), ids=lambda chapter: str(chapter.number))
def test_each_exercise_names_the_section_that_teaches_it(chapter):
    (text,) = (ROOT / "notebooks" / "src").glob(f"{chapter.number:02d}_*.py")
    headings = set(re.findall(r"^# #{2,} (.+)$", text.read_text("utf-8"), re.MULTILINE))
    found = {exercise.id: exercise.section for exercise in chapter.exercises}
    assert {i: section for i, section in found.items() if section not in headings} == {}
