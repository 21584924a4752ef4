"""Chapter 9's comparison: every question has one answer, and the forms cost what they should."""

import pytest
import torch

from d2l_attention.experiments import lookups
from d2l_attention.experiments.lookups import (
    DIGITS,
    NO_QUESTION,
    PATHS,
    RANGES,
    Answerer,
    commonest_digit,
    forms,
    main,
    shares_by_path,
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


def test_each_start_draws_its_own_random_links():
    name = "4 random and a window"
    masks = [forms(64, seed)[name][1] for seed in (0, 1, 1)]
    assert not torch.equal(masks[0], masks[1]) and torch.equal(masks[1], masks[2])


class Knowing:
    """Knows a question's digit where its statement is linked, and names none elsewhere."""

    def __init__(self, mask):
        self.mask = mask

    def __call__(self, letters, digits):
        scores = torch.zeros(*letters.shape, DIGITS + 1)
        for b, row in enumerate(letters.tolist()):
            for q, letter in enumerate(row):
                stated = [i for i in range(len(row)) if i != q and row[i] == letter][0]
                linked = self.mask is None or self.mask[q, stated]
                scores[b, q, digits[b, stated] if linked else DIGITS] = 1
        return scores


def test_far_questions_are_split_by_the_path_of_their_statement():
    shares = shares_by_path(Knowing(None), 16)
    assert list(shares) == list(PATHS) and shares["linked"] == (1.0, 1.0)
    shares = shares_by_path(Knowing(forms(16)["2 global and a window"][1]), 16)
    assert shares["linked"][1] == 1.0 and shares["two layers"][1] == 0.0
    assert shares["linked"][0] + shares["two layers"][0] == pytest.approx(1)
    shares = shares_by_path(Knowing(forms(16)["4 random and a window"][1]), 16)  # links of one way
    assert shares["linked"][1] == 1.0 and shares["two layers"][1] == shares["no path"][1] == 0.0
    shares = shares_by_path(Knowing(forms(16)["window"][1]), 16)  # two layers reach 8, far is 9
    assert shares["no path"] == (1.0, 0.0)


def test_the_commonest_digit_is_counted_text_by_text():
    _, digits, answers, distances = texts(200, 24, torch.Generator().manual_seed(7))
    right = asked = 0
    for row in range(200):
        stated = [digit for digit in digits[row].tolist() if digit < DIGITS]
        commonest = max(range(DIGITS), key=stated.count)
        far = answers[row][distances[row] > 8]
        right, asked = right + (far == commonest).sum().item(), asked + len(far)
    assert commonest_digit(24) == pytest.approx(right / asked)


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
    split = iter([(0.07, 1.0), (0.08, 0.9)])
    monkeypatch.setattr(
        lookups, "shares_by_path", lambda model, n: dict.fromkeys(PATHS, next(split))
    )
    lookups.table(64, 2, 1, ["window"])
    row, guesser = capsys.readouterr().out.splitlines()[1:]
    by_path = 3 * ["7%", "to", "8%:", "90%", "to", "100%"]
    assert row.split() == ["window"] + 3 * ["50", "to", "75%"] + by_path
    assert guesser == "the commonest digit answers 19% of the questions farther away"
