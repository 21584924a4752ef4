"""Several processes played in one, for 10.6: their sums are found by playing again."""

from typing import Any

import torch
from torch import Tensor

from d2l_attention.exercises.attempt import Attempt, Raised
from d2l_attention.exercises.compare import is_number
from d2l_attention.exercises.show import show

ROUNDS = 5  # a sum may depend on an earlier one, and that on another; nobody needs more


class WouldHang(Exception):
    """A real group could not do that, or would wait for ever; the text says why."""


class AllReduce:
    """What a process is given: the sum of what all give, as far as it is known."""

    __name__ = "all_reduce"

    def __init__(self, known: list):
        self.known, self.given = known, []

    def __call__(self, x: Any) -> Any:
        number = len(self.given)
        self.given.append(x.detach().clone() if isinstance(x, Tensor) else x)
        known = self.known[number] if number < len(self.known) else self.given[-1]
        return known.clone() if isinstance(known, Tensor) else known


def play(attempt: Attempt, processes: list[tuple]) -> list:
    """The results by rank. Errors: ``WouldHang``, and ``Raised`` as from ``attempt``."""
    known: list = []
    for _ in range(ROUNDS):
        calls = [AllReduce(known) for _ in processes]
        results, failures = [], []
        for mine, call in zip(processes, calls, strict=True):
            try:
                results.append(attempt(*mine, call, len(processes)))
            except Raised as failure:
                failures.append(failure)
        given = [call.given for call in calls]
        sums = [total(column) for column in zip(*given, strict=False)]
        if len(sums) == len(known) and all(map(equal, sums, known)):
            break
        known = sums
    # Not before: with sums that are not yet known, a right function may fail.
    if failures:
        raise failures[0]
    all_call_equally_often([len(calls) for calls in given])
    return results


def all_call_equally_often(counts: list[int]) -> None:
    most, least = counts.index(max(counts)), counts.index(min(counts))
    if counts[most] != counts[least]:
        raise WouldHang(
            f"Process {most} calls `all_reduce` {times(counts[most])}, process {least} "
            f"{times(counts[least])}. A sum needs all of them, so process {most} would wait for "
            "ever. Call it in every process, whatever its sequences hold."
        )


def total(column: tuple) -> Any:
    shapes = {tuple(x.shape) if isinstance(x, Tensor) else () for x in column}
    if len(shapes) > 1 or not all(isinstance(x, Tensor) or is_number(x) for x in column):
        shown = " and ".join(show(x) for x in column[:2])
        raise WouldHang(
            f"`all_reduce` adds numbers, or tensors of one shape; it was given {shown}."
        )
    return sum(x.long() if isinstance(x, Tensor) and x.dtype == torch.bool else x for x in column)


def equal(now: Any, before: Any) -> bool:
    return torch.equal(torch.as_tensor(now), torch.as_tensor(before))


def times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")
