"""How long things take, compared in one run.

A shared machine changes its speed from minute to minute, and all that runs beside it shows in the
seconds. So contenders take turns, process CPU time is counted, and what is reported is the median
of the ratios within a turn.
"""

import re
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # from where tests and d2l_attention are found
ROUNDS = 7
SECONDS_A_TURN = 0.02  # what is shorter is repeated: a clock has its grain


@dataclass
class Row:
    """One line of the table. A goal is reached from its side on: above, or below with ``most``."""

    what: str
    values: list[float]  # one a round
    goal: float
    most: bool = False  # the goal is an upper bound
    unit: str = "times faster"

    @property
    def value(self) -> float:
        return statistics.median(self.values)

    @property
    def reached(self) -> bool:
        return self.value <= self.goal if self.most else self.value >= self.goal

    def __str__(self) -> str:
        spread = f"({min(self.values):.2f} to {max(self.values):.2f})" if self.values[1:] else ""
        bound = "at most" if self.most else "at least"
        verdict = "" if self.reached else "   not reached"
        return (
            f"{self.what:62s}{self.value:8.2f}  {spread:18s}{self.unit}, "
            f"goal {bound} {self.goal:g}{verdict}"
        )


def faster(
    what: str, peer: Callable[[], object], ours: Callable[[], object], goal: float, rounds=ROUNDS
) -> Row:
    """How many times faster ours is than the peer, in each round. Both run once beforehand."""
    return Row(what, ratios(peer, ours, rounds), goal)


def share(
    what: str, ours: Callable[[], object], peer: Callable[[], object], goal: float, rounds=ROUNDS
) -> Row:
    """Ours takes at most ``goal`` times as long as the peer."""
    return Row(what, ratios(ours, peer, rounds), goal, most=True, unit="times its time")


def ratios(first: Callable[[], object], second: Callable[[], object], rounds: int) -> list[float]:
    """The first's seconds over the second's, once a round."""
    first(), second()
    repeats = ceil(SECONDS_A_TURN / max(1e-9, min(seconds(first), seconds(second))))
    return [seconds(first, repeats) / seconds(second, repeats) for _ in range(rounds)]


def peak() -> float:
    """The largest resident set of this process so far, in MiB, on Linux."""
    # Not getrusage: its peak is inherited from the process that started this one.
    status = Path("/proc/self/status").read_text("utf-8")
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024


def seconds(act: Callable[[], object], repeats: int = 1) -> float:
    started = time.process_time()
    for _ in range(repeats):
        act()
    return time.process_time() - started
