"""What several exercises of this chapter need to make their cases."""

from collections.abc import Sequence

import torch
from torch import Tensor

from d2l_attention.exercises.attempt import Attempt, Raised
from d2l_attention.exercises.compare import form_differs, value_differs
from d2l_attention.exercises.exercise import Step


def normal(seed: int, *shapes: Sequence[int]) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(*shape, generator=generator) for shape in shapes)


# A batch of two sentences that is small enough to be shown, and larger ones of unequal sizes,
# the last with two leading axes.
BATCHES = [
    (
        torch.tensor([[[2.0, 1.0]], [[0.0, 1.0]]]),
        torch.tensor([[[1.0, 1], [0, 4], [5, -2]], [[1.0, 2], [3, 0], [0, 1]]]),
    ),
    normal(0, (2, 3, 5), (2, 7, 5)),
    normal(1, (2, 3, 5, 7), (2, 3, 11, 7)),
]


def right_for(attempt: Attempt, oracle, inputs: tuple) -> bool:
    try:
        got = attempt(*inputs)
    except Raised:
        return False
    right = oracle(*inputs)
    return (form_differs(got, right) or value_differs(got, right, 1e-5)) is None


def also_right_for(oracle, cases: Sequence[tuple], why: str) -> Step:
    """``why`` where the function stops or errs in one of the cases, after smaller ones went well.

    An error is shown after ``why``, which names what usually causes it.
    """

    def step(attempt: Attempt) -> str | None:
        for inputs in cases:
            try:
                got = attempt(*inputs)
            except Raised as failure:
                return f"{why} {failure}"
            right = oracle(*inputs)
            if found := form_differs(got, right) or value_differs(got, right, 1e-4):
                return f"{why} {found} Smallest case that shows it: {attempt.case(inputs)}."
        return None

    return step
