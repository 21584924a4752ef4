"""Dates, against Python's own reading of them and by hand."""

import datetime

import pytest

from d2l_attention.data import dates
from d2l_attention.data.dates import FORMATS, corpus, pair, splits

BY_HAND = [
    (FORMATS[0], "3 may 2014", "2014-05-03"),
    (FORMATS[1], "may 3, 2014", "2014-05-03"),
    (FORMATS[2], "saturday, 3 may 2014", "2014-05-03"),
    (FORMATS[3], "saturday may 3 2014", "2014-05-03"),
    (FORMATS[4], "03-may-2014", "2014-05-03"),
    (FORMATS[5], "3.5.2014", "2014-05-03"),
    (FORMATS[5], "31.12.1999", "1999-12-31"),
    (FORMATS[2], "thursday, 29 february 1996", "1996-02-29"),
]


@pytest.mark.parametrize(("written", "source", "target"), BY_HAND)
def test_by_hand(written, source, target):
    found = pair(datetime.date.fromisoformat(target), written)
    assert "".join(found.source) == source
    assert "".join(found.target) == target
    assert found.tags == {written}


def test_links_by_hand():
    found = pair(datetime.date(2014, 5, 3), "{day} {month} {year}")  # 3 may 2014, 2014-05-03
    assert found.sure == ((0, 9), (6, 0), (7, 1), (8, 2), (9, 3))
    month = {(i, j) for i in (2, 3, 4) for j in (5, 6)}
    assert set(found.possible) == set(found.sure) | month | {(0, 8)}
    found = pair(datetime.date(2014, 12, 3), "{day}.{number}.{year}")  # 3.12.2014, 2014-12-03
    assert found.sure == ((0, 9), (2, 5), (3, 6), (5, 0), (6, 1), (7, 2), (8, 3))
    assert set(found.possible) - set(found.sure) == {(0, 8)}


def test_every_date_can_be_read_back():
    months = {name: i for i, name in enumerate(dates.MONTHS, 1)}
    months |= {name[:3]: i for name, i in months.items()}
    for found in corpus(600, 2):
        text = "".join(found.source).replace(",", " ").replace("-", " ").replace(".", " ")
        words = [word for word in text.split() if word not in dates.WEEKDAYS]
        *day_month, year = words
        if not day_month[0].isdigit():
            day_month.reverse()
        day, month = day_month
        date = datetime.date(int(year), months.get(month) or int(month), int(day))
        assert date.isoformat() == "".join(found.target)
        assert all(w == dates.WEEKDAYS[date.weekday()] for w in text.split() if w not in words)


def test_links_join_equal_digits_and_stay_in_range():
    for found in corpus(600, 3):
        assert set(found.sure) <= set(found.possible)
        assert all(found.source[i] == found.target[j] for i, j in found.sure)
        assert all(0 <= i < len(found.source) for i, _ in found.possible)
        linked = {j for _, j in found.possible}
        assert linked == {0, 1, 2, 3, 5, 6, 8, 9}  # all but the hyphens
        assert len({j for _, j in found.sure}) == len(found.sure)


def test_a_pure_function_without_repetition():
    assert corpus(300, 1) == corpus(300, 1) != corpus(300, 2)
    many = corpus(20_000, 0)
    assert len({found.source for found in many}) == 20_000
    assert {tag for found in many for tag in found.tags} == set(FORMATS)


def test_splits_share_nothing():
    course = splits(train=700, valid=13, test=17)
    assert [len(split) for split in (course.train, course.valid, course.test)] == [700, 13, 17]
    everything = [*course.train, *course.valid, *course.test]
    assert len({found.source for found in everything}) == 730
    assert course.compositional == ()


@pytest.mark.parametrize("n", [-1, 10**7])
def test_errors(n):
    with pytest.raises(ValueError, match=f"between 0 and 438294, got {n}"):
        corpus(n)
