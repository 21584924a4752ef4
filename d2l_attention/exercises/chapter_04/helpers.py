"""Steps that several exercises of this chapter use."""

from collections.abc import Mapping

from torch import Tensor

from d2l_attention.exercises.exercise import Step
from d2l_attention.exercises.show import show
from d2l_attention.exercises.steps import holds


def not_these(mistakes: Mapping[float, str], case: tuple) -> Step:
    """The one number that comes out for ``case`` is none that a typical mistake gives."""

    def typical(result: Tensor, *_: Tensor) -> str | None:
        for wrong, why in mistakes.items():
            if abs(result.item() - wrong) < 1e-3:
                return f"Your function gives {show(result.item())}: {why}"
        return None

    return holds(typical, [case])
