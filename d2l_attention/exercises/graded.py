"""What the test cells of an assignment call: it takes nothing else from the student's notebook.

A test that used the notebook's own `display` or `check` would fail where a cell of the student
gives these names another meaning.
"""

from typing import Any

from IPython.display import display

from d2l_attention.exercises import judge


def graded(exercise_id: str, answer: Any, points: int) -> float:
    """Show what ``check`` says; what the answer is worth, of so many points.

    Errors: ``AssertionError`` where it is worth nothing.
    """
    result = judge(exercise_id, answer)
    display(result)
    return result.points(points)
