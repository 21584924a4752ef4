"""Chapter 9's comparison: every question has one answer, and the forms cost what they should."""

import pytest
import torch

from d2l_attention.experiments import lookups
from d2l_attention.experiments.lookups import (
    DIGITS,
    NO_QUESTION,
    RANGES,
    Answerer,
    forms,
    main,
    shares_right,
    texts,
    train,
)


def test_each_question_has_one_statement_with_its_answer_at_its_distance():
    letters, digits, answers, distances = texts(5, 14, torch.Generator().manual_seed(3))
    for row in range(5):
        for q in range(14):
            others = [i for i in range(14) if i != q and letters[row, i] == letters[row, q]]
            assert len(others) == 1
            stated = others[0]
            if digits[row, q] == DIGITS:
                assert digits[row, stated] == answers[row, q] < DIGITS
                assert distances[row, q] == abs(stated - q)
            else:
                assert answers[row, q] == NO_QUESTION and distances[row, q] == 0


def test_the_ranges_share_out_all_questions():
    _, _, answers, distances = texts(3, 22, torch.Generator().manual_seed(0))
    inside = sum(
        ((distances >= first) & (distances <= (last or 22))).sum()
        for first, last in RANGES.values()
    )
    assert inside == (answers != NO_QUESTION).sum() == 3 * 11


def test_all_but_plain_have_about_nine_links():
    masks = {name: mask for name, (_, mask) in forms(64).items() if mask is not None}
    links = {name: mask.sum().item() / 64 for name, mask in masks.items()}
    assert len(links) == 4 and all(6.5 < each < 9 for each in links.values()), links


@pytest.mark.parametrize("name", forms(2))
def test_every_form_trains(name):
    model = train(name, 10, seed=0, steps=2)
    assert set(shares_right(model, 10)) == set(RANGES)
    assert all(parameter.isfinite().all() for parameter in model.parameters())


def test_no_look_passes_a_mask():
    """With each token alone, another text elsewhere changes no score."""
    torch.manual_seed(0)
    model = Answerer(6, forms(6)["plain"][0], torch.eye(6, dtype=torch.bool))
    letters, digits, _, _ = texts(2, 6, torch.Generator().manual_seed(1))
    mixed = letters.clone()
    mixed[0, 1:], mixed[1, 1:] = letters[1, 1:], letters[0, 1:]
    torch.testing.assert_close(model(letters, digits)[:, 0], model(mixed, digits)[:, 0])


@pytest.mark.parametrize(
    ("arguments", "words"), [(["--tokens", "7"], "must be even"), (["linea"], "no form 'linea'")]
)
def test_wrong_arguments_are_named(monkeypatch, capsys, arguments, words):
    monkeypatch.setattr("sys.argv", ["lookups", *arguments])
    with pytest.raises(SystemExit):
        main()
    assert words in capsys.readouterr().err


def test_the_table_gives_lowest_and_highest(monkeypatch, capsys):
    found = iter([0.5, 0.75])
    monkeypatch.setattr(lookups, "train", lambda *given: None)
    monkeypatch.setattr(
        lookups, "shares_right", lambda model, n: dict.fromkeys(RANGES, next(found))
    )
    lookups.table(64, 2, 1, ["window"])
    assert capsys.readouterr().out.splitlines()[1].split() == ["window"] + 3 * ["50", "to", "75%"]
