"""What several exercises of this chapter use to make and to judge their cases."""

from typing import Any

from torch import Tensor

from d2l_attention.exercises.rules import rows_sum_to_one


def one_tensor(output: Any, queries_or_scores: Tensor, *inputs: Tensor) -> str | None:
    """For outputs (Q, V): what two results and a forgotten axis of queries look like."""
    if isinstance(output, tuple | list) and len(output) == 2:
        return "Your function returns two results. Only the output is asked for, one row a query."
    size = inputs[-1].shape[-1]
    if isinstance(output, Tensor) and output.shape in ((size,), (1, size)):
        return (
            f"{len(queries_or_scores)} queries ask, and one output comes back. Every query has a "
            "row of weights of its own."
        )
    return None


def rows_of_weights(output: Tensor, *_: Tensor) -> str | None:
    """For cases with the identity as values."""
    found = rows_sum_to_one(output)
    return found and f"The values here are the identity, so the output is your weights. {found}"


OTHER_DTYPE = (
    "The same numbers in float64 go wrong. A tensor that your code makes itself is float32 unless "
    "you say otherwise: give it the dtype of the inputs (`torch.zeros_like`, `dtype=values.dtype`)."
)
