"""What several exercises of this chapter use to make and to judge their cases."""

from collections.abc import Callable

from d2l_attention.exercises.attempt import Attempt, Raised
from d2l_attention.exercises.exercise import Step
from d2l_attention.exercises.helpers import alike


def stops(attempt: Attempt, case: tuple) -> bool:
    try:
        attempt(*case)
    except Raised:
        return True
    return False


def mask_on_heads(mistake: Callable, equal: tuple, unequal: tuple, shape: str) -> Step:
    """Sentence h's mask on head h, named by what the student wrote.

    Two mistakes give the same numbers where batch and heads are ``equal`` in size: an axis
    that is missing, which stops where they are ``unequal``, and copies in the wrong order.
    """

    def step(attempt: Attempt) -> str | None:
        if not alike(attempt(*equal), mistake(*equal)):
            return None
        if stops(attempt, unequal):
            why = (
                f"Your mask has no axis for the heads. Beside scores (B, H, Q, K) a mask {shape} "
                "is read as (1, B, ...): where B = H nothing stops, and the second head of every "
                "sentence gets the second sentence's mask. (Where they differ, you see an error.)"
            )
        else:
            why = (
                "Your copies of the masks stand in the wrong order: the second head of the first "
                "sentence gets the second sentence's mask. With the heads folded into the batch, "
                "the first sentence comes H times before the second: of lengths 7 and 9 "
                "`repeat_interleave` makes 7 7 9 9, `repeat` 7 9 7 9."
            )
        return f"{why} Smallest case that shows it: {attempt.case(equal)}."

    return step
