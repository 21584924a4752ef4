"""Every exercise of the course, with all its wrong answers, through ``check`` itself."""

import pytest
import torch

from d2l_attention.exercises import check, hint, solution
from d2l_attention.exercises.registry import all_chapters

CHAPTERS = all_chapters()
EXERCISES = [exercise for chapter in CHAPTERS for exercise in chapter.exercises]
WRONG = [
    pytest.param(exercise, wrong, id=f"{exercise.id}-{getattr(wrong.answer, '__name__', number)}")
    for exercise in EXERCISES
    for number, wrong in enumerate(exercise.wrong, start=1)
]

every_exercise = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)


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
    texts = [exercise.title, exercise.task, exercise.explanation, *exercise.hints]
    assert all(text.strip() for text in texts)
    assert len(set(exercise.hints)) == len(exercise.hints)
    assert len(exercise.wrong) >= 3, "give at least three wrong answers"


@every_exercise
def test_stub_is_not_attempted_yet_and_leaves_no_trace(exercise, tmp_path):
    result = check(exercise.id, exercise.stub)
    assert result.verdict.state == "not attempted"
    assert not result.solved
    assert "Not attempted yet" in repr(result)
    assert not list(tmp_path.iterdir())


@every_exercise
def test_solution_is_solved(exercise):
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
        exec(code, {"torch": torch})
    else:
        assert code.strip() == f"answer = {exercise.solution!r}"


@pytest.mark.parametrize(("exercise", "wrong"), WRONG)
def test_wrong_answer_gets_its_diagnosis(exercise, wrong):
    result = check(exercise.id, wrong.answer)
    assert result.verdict.state == "not yet", result.message
    assert wrong.diagnosis in result.message
