"""Derived from each exercise: its solution, its stub, its mistakes; and answers in other voices."""

import dataclasses
import importlib

import pytest
import torch
from answers import RIGHT, WRONG
from sample_exercise import SCORES, an_exercise, softmax

from d2l_attention.exercises.authoring import Case, Mistake, new
from d2l_attention.exercises.engine import ladder
from d2l_attention.exercises.engine.edits import AuthorError, wrong_function
from d2l_attention.exercises.engine.examine import examine
from d2l_attention.exercises.engine.registry import all_chapters
from d2l_attention.exercises.engine.verify import verified

for chapter in all_chapters():  # whose answers then stand in RIGHT and WRONG
    importlib.import_module(f"wrong_answers.chapter_{chapter.number:02d}")
# A slow machine is no mistake: minutes, where a student has seconds.
EXERCISES = [
    dataclasses.replace(exercise, seconds=600)
    for chapter in all_chapters()
    for exercise in chapter.exercises
]

# With this scope all that is asked of one exercise comes in a row, while its outcomes are known.
every_exercise = pytest.mark.parametrize(
    "exercise", EXERCISES, ids=lambda exercise: exercise.id, scope="module"
)


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="class")
def each_of_ours_runs_once():
    """What a solution and its wrong functions give on a case is kept for the next answer.

    They are the same for every answer to an exercise: without this, most of the time goes there.
    """
    known, run = {}, ladder.outcome

    def outcome(exercise, function, inputs):
        key = exercise.id, function, id(inputs)
        if not any(inputs is case.inputs for case in exercise.cases):  # they stay: so do their ids
            return run(exercise, function, inputs)
        if key not in known:
            known[key] = run(exercise, function, inputs)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ladder, "outcome", outcome)
        yield


def not_told(exercise, wrong):
    """Of wrong answers with the words that each should get: those that get others."""
    failures = []
    for answer, words in wrong:
        verdict = examine(exercise, answer)
        if verdict.state != "not yet" or words not in verdict.message:
            name = getattr(answer, "__name__", answer)
            failures.append(f"{name} should be told {words!r}, got {verdict}")
    return "\n".join(failures)


@every_exercise
@pytest.mark.usefixtures("each_of_ours_runs_once")
class TestEachExercise:
    def test_solution_and_stub(self, exercise):
        assert verified(exercise)
        solved = examine(exercise, exercise.solution)
        assert solved.state == "solved", solved.message
        assert examine(exercise, exercise.stub).state == "not attempted"

    def test_each_mistake_gets_its_own_words(self, exercise):
        made = [(wrong_function(exercise.solution, each), each.why) for each in exercise.mistakes]
        assert not not_told(exercise, made)

    def test_wrong_in_a_voice_of_its_own(self, exercise):
        wrong = WRONG[exercise.id]
        assert len(wrong) >= 2
        assert not not_told(exercise, wrong)

    def test_right_in_another_voice(self, exercise):
        right = RIGHT[exercise.id]
        assert len(right) >= 1
        for answer in right:
            verdict = examine(exercise, answer)
            assert verdict.state == "solved", f"{answer}: {verdict.message}"


def test_no_answers_to_what_nobody_asks():
    ids = {exercise.id for exercise in EXERCISES}
    assert set(WRONG) == set(RIGHT) == ids


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        (Mistake({"dim=1": "dim=0"}, ""), "4.99: `dim=1` does not occur in `softmax`"),
        (Mistake({"s": "t"}, ""), "occurs 6 times in `softmax`"),
        (Mistake({"dim=-1": "dim=1"}, ""), "changes nothing"),
        (Mistake({"dim=-1": "dim="}, ""), "cannot be read any more"),
        (Mistake({"dim=-1": "dim=np.argmin"}, ""), "uses an unknown name, `np`"),
        (Mistake(lambda scores: scores.softmax(-1), ""), "changes nothing"),
    ],
)
def test_an_edit_that_does_not_do_what_its_author_meant(mistake, told):
    exercise = an_exercise(mistakes=[mistake])
    with pytest.raises(AuthorError, match="4.99") as error:
        verified(exercise)
    assert told in str(error.value)
    # A student never sees it.
    assert examine(exercise, softmax).state == "solved"
    assert examine(exercise, lambda scores: scores).state == "not yet"


def test_a_mistake_has_a_short_name_that_its_sentence_does_not_change():
    verdict = examine(an_exercise(), lambda scores: scores.softmax(dim=0))
    assert verdict.mistake == "`dim=0` instead of `dim=-1`"
    assert Mistake({" @ W_o": ""}, "").short_name == "without `@ W_o`"
    assert Mistake({"a": "b"}, "", name="letters").short_name == "letters"
    assert examine(an_exercise(), lambda scores: scores * 7).mistake is None


@every_exercise
def test_no_two_mistakes_of_an_exercise_have_one_name(exercise):
    names = [mistake.short_name for mistake in exercise.mistakes]
    assert len(set(names)) == len(names)


def test_two_mistakes_on_the_first_case_only():
    SQUARE = (torch.tensor([[1.0, 2.0], [0.0, 5.0]]),)
    exercise = an_exercise(cases=[Case(SQUARE)])
    both = examine(exercise, lambda scores: 2 * scores.softmax(dim=0)).message
    assert "Two mistakes at once: Your softmax runs over the queries. And: Your weights" in both
    exercise = an_exercise(cases=[Case((torch.ones(2, 2),)), Case(SQUARE, because="Larger.")])
    later = examine(exercise, lambda scores: (scores + 0 * scores[0, 0]).softmax(dim=0)).message
    assert "Not yet. Larger. Your softmax runs over the queries." in later
    assert "Smallest case that shows it: `scores = [[1, 2], [0, 5]]`" in later


def test_a_mistake_that_shows_earlier_is_not_run_on_later_cases():
    """There it may never end, as 1.4's 'only the best two keys' on a share below one half."""
    seen = []

    def wrong(scores):
        seen.append(tuple(scores.shape))
        return scores

    def right_on_the_first(scores):
        return scores.softmax(-1) * (1 if len(scores) == 1 else 2)

    exercise = an_exercise(mistakes=[Mistake(wrong, "No softmax at all.")])
    assert "Your function gives" in examine(exercise, right_on_the_first).message
    assert set(seen) == {(1, 2)}


def test_a_mistake_is_shown_on_a_case_that_can_be_read():
    large, small = (torch.randn(6, 6),), (torch.tensor([[1.0], [2.0]]),)
    exercise = an_exercise(cases=[Case(large)], show=[SCORES[0], small])
    told = examine(exercise, lambda scores: scores.softmax(dim=0)).message
    assert "Smallest case that shows it: `scores = [[1, 2]]`" in told


def test_errors_and_shapes_are_explained():
    exercise = an_exercise(
        errors={"no attribute": "Tensors have other methods."},
        shapes={(2, 1): "It lies on its side.", (1, 2): "(Q, K)"},
    )
    assert "Tensors have other methods. Your code" in examine(exercise, lambda s: s.soft()).message
    told = examine(exercise, lambda scores: scores.softmax(-1).T).message
    assert "has shape (2, 1); it should be (Q, K) = (1, 2). It lies on its side." in told


def one_by_one(step, rows):
    total = torch.zeros(())
    for row in rows:
        total = step(row, total)
    return total


def add(row, total):
    return total + row.sum()


def test_an_answer_that_is_used_more_than_once_in_a_case():
    exercise = an_exercise(
        solution=add,
        cases=[Case((torch.tensor([[1.0, 2], [3, 4]]),))],
        mistakes=[Mistake({"total + ": ""}, "You forget what was before.")],
        run=one_by_one,
    )
    assert examine(exercise, lambda row, total: row.sum() + total).state == "solved"
    told = examine(exercise, lambda row, total: row.sum()).message
    assert (
        "You forget what was before. Smallest case that shows it: `rows = [[1, 2], [3, 4]]`" in told
    )
    assert "could not be called" in examine(exercise, lambda row: row.sum()).message


def test_the_example_for_authors_begins_a_new_exercise(tmp_path, monkeypatch):
    monkeypatch.setattr(new, "EXERCISES", tmp_path)
    (tmp_path / "chapter_03").mkdir()
    told = new.write_new("3.9", "zero_query", "A title")
    assert f"{tmp_path / 'chapter_03' / 'zero_query.py'} has" in told and "# **3.9** ·" in told
    with pytest.raises(FileExistsError):
        new.write_new("3.9", "zero_query", "A title")
    with pytest.raises(ValueError, match="such as zero_query, got 3.9 zero-query"):
        new.write_new("3.9", "zero-query", "A title")
    monkeypatch.syspath_prepend(tmp_path / "chapter_03")
    exercise = importlib.import_module("zero_query").write_zero_query
    assert (exercise.id, exercise.title) == ("3.9", "A title")
    assert exercise.stub.__name__ == "zero_query"
    assert verified(exercise) and len(exercise.mistakes) == 8
    assert examine(exercise, exercise.solution).state == "solved"
    assert examine(exercise, exercise.stub).state == "not attempted"
    for mistake in exercise.mistakes:
        assert mistake.why in examine(exercise, wrong_function(exercise.solution, mistake)).message
