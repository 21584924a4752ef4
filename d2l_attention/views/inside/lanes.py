"""Where the parts of a part stand: those that read the same stand side by side, below it."""

from itertools import pairwise
from typing import NamedTuple

BESIDE = 3  # parts in a line


class Lanes(NamedTuple):
    """Rows are counted as by the arrows: inputs, calls with the heads among them, outputs."""

    lines: list[list[int]]  # from above to below
    arrows: list[tuple[int, int]]
    tracks: dict[int, int]  # of a row whose arrow goes past the next line: on which track it does


def lanes(num_in: int, num_between: int, num_out: int, arrows: list[tuple[int, int]]) -> Lanes:
    """Each part below all that it reads, as far up as that allows."""
    rows = num_in + num_between + num_out
    level = [0] * num_in + [1] * num_between
    for row in range(num_in, num_in + num_between):
        level[row] = 1 + max((level[source] for source, to in arrows if to == row), default=0)
    level += [max(level, default=0) + 1] * num_out
    lines = []
    read = {source for source, _ in arrows}
    for each in sorted(set(level)):
        # Inputs that nothing reads stand first, so that no arrow has to pass them.
        line = [row for row in range(rows) if level[row] == each]
        line.sort(key=lambda row: row < num_in and row in read)
        first = len(line) % BESIDE if each == 0 else BESIDE
        cuts = [0, *range(first or BESIDE, len(line), BESIDE), len(line)]
        lines += [line[one:end] for one, end in pairwise(cuts)]
    line_of = {row: number for number, line in enumerate(lines) for row in line}
    tracks: dict[int, int] = {}
    ends: list[int] = []  # of each track: the line where it is free again
    for source in sorted(line_of, key=line_of.__getitem__):
        start = line_of[source]
        end = max((line_of[to] for each, to in arrows if each == source), default=start)
        if end > start + 1:
            free = [track for track, until in enumerate(ends) if until <= start]
            track = free[0] if free else len(ends)
            ends[track : track + 1] = [end]
            tracks[source] = track
    return Lanes(lines, arrows, tracks)
