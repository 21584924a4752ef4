"""How long things take, compared in one run.

A shared machine changes its speed from minute to minute, and all that runs beside it shows in the
seconds. So contenders take turns, process CPU time is counted, and what is reported is the median
of the ratios within a turn.
"""

import statistics
import time
from collections.abc import Callable


def compare(peer: Callable[[], object], ours: Callable[[], object], rounds: int = 7) -> list[float]:
    """How many times faster ours is than the peer, in each round. Both run once beforehand."""
    peer(), ours()
    return [seconds(peer) / seconds(ours) for _ in range(rounds)]


def seconds(act: Callable[[], object]) -> float:
    started = time.process_time()
    act()
    return time.process_time() - started


def report(what: str, ratios: list[float], goal: float) -> None:
    low, high = min(ratios), max(ratios)
    print(f"{what:48s}{statistics.median(ratios):6.2f}  ({low:.2f} to {high:.2f})   goal {goal}")
