"""Steps that ask more of a function than results equal to the solution's."""

import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from d2l_attention.exercises.engine.attempt import Attempt
from d2l_attention.exercises.engine.compare import alike
from d2l_attention.exercises.engine.ladder import right_result
from d2l_attention.exercises.exercise import Case, Rule, Step


def holds(rule: Rule, *cases: Case) -> Step:
    """``rule(result, *inputs)`` finds nothing on ``cases``, the exercise's own or others.

    For what must hold whatever the solution gives; a rule may count on the form of a result
    only where a case of the exercise has the same inputs.
    """

    def step(attempt: Attempt) -> str | None:
        for case in cases:
            if found := rule(attempt.play(case.inputs), *case.inputs):
                shown = case.shown or attempt.as_code(case.inputs)
                found = f"{case.because} {found}".strip()
                return f"{found} Smallest case that shows it: {shown}."
        return None

    return step


def gradients_flow(*names: str, why: str = "They could not learn.") -> Step:
    """The gradients with respect to these inputs, or all, are the solution's, on every case.

    ``why`` says in a sentence what goes wrong where none arrives.
    """

    def step(attempt: Attempt) -> str | None:
        for case in attempt.exercise.cases:
            if found := wrong_gradient(attempt, case.inputs, names, why):
                return f"{found} Smallest case that shows it: {attempt.as_code(case.inputs)}."
        return None

    return step


def wrong_gradient(attempt: Attempt, inputs: tuple, names: Sequence[str], why: str) -> str | None:
    chosen = [
        index
        for index, X in enumerate(inputs)
        if isinstance(X, Tensor) and X.is_floating_point()
        if not names or attempt.names[index] in names
    ]
    right, theirs = gradients(lambda *X: right_result(attempt.exercise, X), inputs, chosen)
    if not right:
        return None
    try:
        with warnings.catch_warnings():
            # That the inputs want gradients is the check's doing, not the student's.
            warnings.filterwarnings("ignore", ".*requires_grad", UserWarning)
            got, mine = gradients(lambda *X: attempt.play(X), inputs, chosen)
    except RuntimeError:
        return (
            "The numbers are right, but the backward pass breaks off: a tensor that it still needs "
            "was overwritten in place (`x[...] = ...`, `x *= ...`, `masked_fill_`)."
        )
    if not got:
        return (
            "The numbers are right, but no gradient comes through: your result is made of new "
            f"numbers (`torch.tensor(...)`, `tolist`, `item`, `detach`, `no_grad`). {why}"
        )
    for index, wanted, found in zip(chosen, theirs, mine, strict=True):
        name = f"`{attempt.names[index]}`"
        if wanted is None or not wanted.any():
            if found is not None and not found.isfinite().all():
                return f"The numbers are right, but the gradient of {name} is {worst(found)}."
            continue
        if found is None or not found.any():
            return f"The numbers are right, but no gradient reaches {name}. {why}"
        if not found.isfinite().all() and wanted.isfinite().all():
            return f"The numbers are right, but the gradient of {name} is {worst(found)}."
        if not alike(found, wanted, 1e-3):
            return (
                f"The numbers are right, but the gradient of {name} is not: a part of the "
                "computation does not pass it on (`detach`, `.data`, `no_grad`, `tolist`)."
            )
    return None


def worst(gradient: Tensor) -> str:
    return "NaN" if gradient.isnan().any() else "infinite"


def gradients(function: Callable, inputs: tuple, chosen: Sequence[int]) -> tuple[bool, list]:
    """Whether a gradient comes through at all, and the gradients of the chosen inputs."""
    leaves = list(inputs)
    for index in chosen:
        leaves[index] = inputs[index].clone().requires_grad_()
    result = function(*leaves)
    outputs = [X for X in (result if isinstance(result, tuple | list) else [result])]
    outputs = [X for X in outputs if isinstance(X, Tensor) and X.requires_grad]
    if not outputs:
        return False, [None] * len(chosen)
    # Other weights for each number: a plain sum of a softmax has no gradient.
    total = sum(
        (X * torch.linspace(1, 2, X.numel(), dtype=X.dtype).reshape(X.shape)).sum() for X in outputs
    )
    wanted = [leaves[index] for index in chosen]
    return True, list(torch.autograd.grad(total, wanted, allow_unused=True))
