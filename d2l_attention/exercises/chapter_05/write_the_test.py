"""5.7: the test that catches a wrong BLEU. Its suspects are in ``scores.py``."""

from collections.abc import Callable
from typing import Any

from d2l_attention.exercises.attempt import Attempt, Raised
from d2l_attention.exercises.chapter_05 import weak_tests
from d2l_attention.exercises.chapter_05.scores import (
    BROKEN,
    eos_kept,
    mean_of_the_sentences,
    rounded,
    swapped,
    without_penalty,
)
from d2l_attention.exercises.exercise import Exercise, Step, Wrong
from d2l_attention.exercises.steps import fails_on, passes_on
from d2l_attention.training.metrics import bleu


def test_bleu(score): ...


def test_bleu_solution(score):
    right = "le chat dort sur le lit".split()
    short, wrong_word = right[:4], "le chat dort sur un lit".split()
    # All matches are right, but 4 words stand for 6: exp(1 - 6/4).
    assert abs(score([short], [[right]]) - 60.65) < 0.01
    # Words 11 of 12, pairs 8 of 10, triples 6 of 8, quadruples 4 of 6, over both sentences.
    expected = 100 * (11 / 12 * 8 / 10 * 6 / 8 * 4 / 6) ** 0.25
    assert abs(score([right, wrong_word], [[right], [right]]) - expected) < 0.01
    # One good reference is enough, wherever it stands.
    assert abs(score([right], [[wrong_word, right]]) - 100) < 0.01


class Spy:
    """The right score, with a memory of what it was given."""

    __name__ = "another_right_one"

    def __init__(self) -> None:
        self.calls: list[tuple[Any, Any]] = []

    def __call__(self, hypotheses: Any, references: Any) -> float:
        self.calls.append((hypotheses, references))
        return bleu(hypotheses, references)

    def values(self, score: Callable) -> list[float]:
        return [score(*call) for call in self.calls]


def accepts(attempt: Attempt, score: Callable) -> bool:
    try:
        attempt(score)
    except Raised:
        return False
    return True


def calls_the_score(attempt: Attempt) -> str | None:
    spy = Spy()
    try:
        attempt(spy)
    except Raised:
        return None  # the next steps tell
    if spy.calls:
        return None
    return "Your test passes without ever calling `score`, so it would accept anything."


EXPECTED = {
    swapped: "that of swapped arguments: hypotheses come first",
    mean_of_the_sentences: "the mean of the sentences' scores",
    without_penalty: "the score without the penalty for short translations",
    eos_kept: "the score with <eos> kept",
}


def share(hypotheses: Any, references: Any) -> float:
    return bleu(hypotheses, references) / 100


def expects_another_number(attempt: Attempt) -> str | None:
    if accepts(attempt, bleu):
        if accepts(attempt, rounded):
            return None
        return (
            "Your test wants every digit to agree: it fails on a right function that rounds to six "
            "of them. Allow a little, such as `abs(... - expected) < 0.01`."
        )
    if accepts(attempt, share):
        return "Your test expects a share from 0 to 1. BLEU counts from 0 to 100 here."
    for broken, what in EXPECTED.items():
        if accepts(attempt, broken):
            return f"Your test fails on the right function. What you expect is {what}."
    return None


def catches(broken: Callable, what: str, clue: str) -> Step:
    plain = fails_on(broken, what)

    def step(attempt: Attempt) -> str | None:
        found = plain(attempt)
        if found is None or not accepts(attempt, broken):
            return found
        return f"Your test passes on a function that {what}. {why_it_passes(attempt, broken, clue)}"

    return step


def why_it_passes(attempt: Attempt, broken: Callable, clue: str) -> str:
    """Do the inputs hide the mistake, or does the test not look?"""
    spy = Spy()
    attempt(spy)
    right, wrong = spy.values(bleu), spy.values(broken)
    if all(value > 99.99 or value < 0.01 for value in right):
        short = all(len(words) < 4 for hypotheses, _ in spy.calls for words in hypotheses)
        return (
            "All your scores are 0: none of your sentences has four words, and BLEU counts four "
            "in a row as well."
            if short
            else "All your scores are 0 or 100. What is perfect or hopeless is so for whoever "
            "counts: take a translation in between."
        )
    for good, bad in zip(right, wrong, strict=True):
        if abs(good - bad) > 0.1:
            return (
                f"On your inputs it gives {bad:.2f}, the right one {good:.2f}, and no `assert` "
                "of yours minds. Work out what it should be, and compare closely."
            )
    return f"Your inputs hide it: it gives the right numbers on them. {clue}"


write_the_test = Exercise(
    id="5.7",
    title="The test that catches a wrong BLEU",
    task=(
        "Write `test_bleu(score)` for functions that are called like the package's "
        "`bleu(hypotheses, references)`. It must pass on `bleu` and fail, by an `assert`, on each "
        "of six others: arguments swapped; no penalty for short translations; <eos> kept as a "
        "word on both sides; characters counted instead of words; the mean of the sentences' "
        "scores; the first reference only."
    ),
    difficulty="hard",
    minutes=20,
    hints=[
        "Choose small sentences of at least four words, and look at what `bleu` gives. A perfect "
        "translation shows none of the six: why?",
        "The first four can be caught by one sentence whose translation is too short. When do "
        "swapped arguments give the same number?",
        "The mean needs two sentences of unequal quality, and the references of a sentence are a "
        "list: put a bad one first.",
    ],
    stub=test_bleu,
    solution=test_bleu_solution,
    explanation=(
        "BLEU is a precision with a penalty for being short, so it is not symmetric; only where "
        "both sides have equally many words does a swap go unnoticed. <eos> and characters match "
        "more often than words do. And BLEU belongs to a corpus: matches and possible matches "
        "are added up before one is divided by the other."
    ),
    steps=[
        calls_the_score,
        expects_another_number,
        passes_on(bleu),
        *(catches(broken, what, clue) for broken, (what, clue) in BROKEN.items()),
    ],
    wrong=[
        Wrong(weak_tests.never_calls, "without ever calling `score`"),
        Wrong(weak_tests.perfect_and_hopeless, "All your scores are 0 or 100"),
        Wrong(weak_tests.equally_long, "With as many words on both sides"),
        Wrong(weak_tests.longer_than_the_reference, "ever shorter than their references"),
        Wrong(weak_tests.one_sentence, "It takes two sentences"),
        Wrong(weak_tests.one_reference, "the better one second"),
        Wrong(weak_tests.better_reference_first, "the better one second"),
        Wrong(weak_tests.far_too_tolerant, "compare closely"),
        Wrong(weak_tests.in_range, "no `assert` of yours minds"),
        Wrong(weak_tests.not_symmetric, "no `assert` of yours minds"),
        Wrong(weak_tests.every_digit, "every digit to agree"),
        Wrong(weak_tests.expects_the_swap, "that of swapped arguments"),
        Wrong(weak_tests.expects_the_mean, "What you expect is the mean"),
        Wrong(weak_tests.expects_no_penalty, "without the penalty for short translations"),
        Wrong(weak_tests.as_a_share, "from 0 to 100 here"),
        Wrong(weak_tests.flat_references, "references must be a list of sentences"),
        Wrong(weak_tests.text, "a hypothesis must be a list of tokens"),
        Wrong(weak_tests.under_four_words, "none of your sentences has four words"),
        Wrong(weak_tests.returns, "A test speaks by failing"),
        Wrong(weak_tests.raises_another_error, "let an `assert` say what is wrong"),
        Wrong(weak_tests.compares_with_itself, "no `assert` of yours minds"),
        Wrong(weak_tests.swallows_the_failure, "no `assert` of yours minds"),
    ],
)
