"""Which answers count as not begun, without being run."""

import pytest
import torch
from sample_exercise import SCORES, Given, Written, blank, softmax

from d2l_attention.exercises.engine.stubs import is_stub


def only_a_docstring(scores):
    """Give the softmax of the scores."""


def only_pass(scores):
    """Give the softmax of the scores."""
    pass


def only_a_refusal(scores):
    # to do
    raise NotImplementedError("write me")


def half_given(scores):
    scores = scores - scores.amax()
    return ...


def half_given_in_the_notebook(scores):
    """With a docstring and comments of its own."""
    # your turn:
    scores = scores - scores.amax()

    return ...


@pytest.mark.parametrize(
    ("answer", "stub", "expected"),
    [
        (None, None, True),
        (..., None, True),
        ([0.5, None], None, True),
        ((0.5, ...), None, True),
        ("a", None, False),
        ("?", "?", True),
        (0, 0, True),
        (False, 0, False),
        (0.5, None, False),
        ([0.5, 0.5], None, False),
        (blank, blank, True),
        (only_a_docstring, blank, True),
        (only_pass, blank, True),
        (only_a_refusal, blank, True),
        (half_given_in_the_notebook, half_given, True),
        (softmax, half_given, False),
        (Given, Given, True),
        (Given, blank, True),
        (Written, Given, False),
        (lambda scores: scores, blank, False),
        (torch.softmax, blank, False),
        (SCORES[0][0], None, False),
    ],
)
def test_stubs_are_recognised(answer, stub, expected):
    assert is_stub(answer, stub) is expected
