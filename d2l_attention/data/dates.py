"""Dates as people write them, to ISO 8601: a translation of characters, exact within seconds."""

import datetime
import random
from collections.abc import Sequence
from string import Formatter

from d2l_attention.data.corpus import Corpus, Link, Pair

MONTHS = "january february march april may june july august september october november december"
MONTHS = MONTHS.split()
WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
# Each can be read in one way only: no 5/3/2014, which is in March or in May.
FORMATS = [
    "{day} {month} {year}",
    "{month} {day}, {year}",
    "{weekday}, {day} {month} {year}",
    "{weekday} {month} {day} {year}",
    "{day:02}-{mon}-{year}",
    "{day}.{number}.{year}",
]
FIRST, LAST = datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)
NUM_DAYS = (LAST - FIRST).days + 1
YEAR, MONTH, DAY = range(0, 4), range(5, 7), range(8, 10)  # positions in 2014-05-03


def corpus(n: int, seed: int = 0) -> list[Pair]:
    """``n`` different dates between 1900 and 2099 in six formats, in characters.

    The same arguments give the same pairs. Sure links join a digit to itself, possible ones a
    month's digits to the letters of its name, and the 0 of 03 to the 3. The tag is the format.

    Errors: ``ValueError`` where ``n`` is negative or beyond the number of dates.
    """
    total = NUM_DAYS * len(FORMATS)
    if not 0 <= n <= total:
        raise ValueError(f"n must lie between 0 and {total}, got {n}")
    drawn = random.Random(seed).sample(range(total), n)
    days = [
        (FIRST + datetime.timedelta(i // len(FORMATS)), FORMATS[i % len(FORMATS)]) for i in drawn
    ]
    return [pair(date, written) for date, written in days]


def pair(date: datetime.date, written: str) -> Pair:
    fields = {
        "day": date.day,
        "number": date.month,
        "month": MONTHS[date.month - 1],
        "mon": MONTHS[date.month - 1][:3],
        "weekday": WEEKDAYS[date.weekday()],
        "year": date.year,
    }
    text, spans = "", {}
    for literal, name, spec, _ in Formatter().parse(written):
        start = len(text + literal)
        text += literal + format(fields[name], spec)
        spans[name] = range(start, len(text))

    sure = [*same_end(spans["year"], YEAR), *same_end(spans["day"], DAY)]
    sure += same_end(spans.get("number", ()), MONTH)
    possible = {(i, j) for name in ("month", "mon") for i in spans.get(name, ()) for j in MONTH}
    for name, iso in (("day", DAY), ("number", MONTH)):
        if len(spans.get(name, ())) == 1:
            possible.add((spans[name][0], iso[0]))
    return Pair(
        source=tuple(text),
        targets=(tuple(date.isoformat()),),
        sure=tuple(sorted(sure)),
        possible=tuple(sorted(possible.union(sure))),
        tags=frozenset({written}),
    )


def same_end(source: Sequence[int], iso: range) -> list[Link]:
    """The last digit is the last digit, the one before it the one before it."""
    return list(zip(reversed(source), reversed(iso), strict=False))


def splits(seed: int = 0, *, train: int = 4000, valid: int = 500, test: int = 500) -> Corpus:
    """Dates for training, validation and test; no date is in two of them in the same format."""
    pairs = tuple(corpus(train + valid + test, seed))
    return Corpus(
        origin="built-in dates, written out to ISO 8601",
        train=pairs[:train],
        valid=pairs[train : train + valid],
        test=pairs[train + valid :],
    )
