"""5.7: the test that catches a wrong BLEU."""

import math

from d2l_attention.exercises.authoring import Exercise, Suspect, catches, heading
from d2l_attention.training.metrics import bleu


def test_bleu(score):
    """Pass on the right BLEU, and fail by an `AssertionError` on wrong ones.

    `score(hypotheses, references)` is called as the package's `bleu`: one translation of six
    right words, `score([words], [[words]])`, gives 100, and only that is not enough of a test.
    """
    ...


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


def not_a_number(hypotheses, references):
    return math.nan


# Pieces of `bleu`, and what a wrong one does instead.
CHECK = "check_pairs(hypotheses, references)"
GIVEN, WORDS = '" ".join(given[i])', '" ".join(hypothesis)'
MEAN = (
    "sum(bleu([words], [given]) for words, given in zip(hypotheses, references, strict=True))"
    " / len(hypotheses)"
)


def same_length(hypotheses, references):
    return sum(map(len, hypotheses)) == sum(len(given[0]) for given in references)


def never_shorter(hypotheses, references):
    shortest = (min(map(len, given)) for given in references)
    return sum(map(len, hypotheses)) >= sum(shortest)


def first_is_best(hypotheses, references):
    return all(
        len(set(words) & set(given[0])) >= max(len(set(words) & set(one)) for one in given)
        for words, given in zip(hypotheses, references, strict=True)
    )


def perfect_or_hopeless(hypotheses, references):
    return all(
        list(words) in map(list, given) or not set(words) & set(sum(map(list, given), []))
        for words, given in zip(hypotheses, references, strict=True)
    )


write_the_test = Exercise(
    **heading("5.7", "The test that catches a wrong BLEU", "hard", minutes=20),
    section="A measure: BLEU",
    stub=test_bleu,
    solution=test_bleu_solution,
    explanation="BLEU is a precision with a penalty for being short, so it is not symmetric; only "
    "where both sides have equally many words does a swap go unnoticed. <eos> and characters "
    "match more often than words do. And BLEU belongs to a corpus: matches and possible "
    "matches are added up before one is divided by the other.",
    hints=[
        "Choose small sentences of at least four words, and look at what `bleu` gives. A perfect "
        "translation shows none of the six: why?",
        "The first four can be caught by one sentence whose translation is too short. When do "
        "swapped arguments give the same number?",
        "The mean needs two sentences of unequal quality, and the references of a sentence are a "
        "list: put a bad one first.",
    ],
    steps=[
        catches(
            bleu,
            Suspect(
                {
                    CHECK: f"{CHECK}\n    hypotheses, references = "
                    "[given[0] for given in references], [[words] for words in hypotheses]"
                },
                "swaps hypotheses and references",
                blind=[
                    (
                        same_length,
                        "With as many words on both sides the swap changes nothing: precision and "
                        "recall are the same number then. Make the lengths unequal.",
                    )
                ],
            ),
            Suspect(
                {
                    "score = sacrebleu": "found = sacrebleu",
                    "True).score": "True)\n    score = found.score / (found.bp or 1)",
                },
                "has no penalty for short translations",
                blind=[
                    (
                        never_shorter,
                        "Are your hypotheses ever shorter than their references, all sentences "
                        "together? (Of several references the one that is nearest in length "
                        "counts.)",
                    )
                ],
            ),
            Suspect(
                {
                    GIVEN: '" ".join([*given[i], "<eos>"])',
                    WORDS: '" ".join([*hypothesis, "<eos>"])',
                },
                "keeps <eos> as the last word of hypotheses and references",
                blind=[(lambda: True, "Such a word always matches. Which share does that change?")],
            ),
            Suspect(
                {GIVEN: '" ".join("".join(given[i]))', WORDS: '" ".join("".join(hypothesis))'},
                "counts characters instead of words",
                blind=[(lambda: True, "It takes words of several letters, some of them wrong.")],
            ),
            Suspect(
                {CHECK: f"{CHECK}\n    if len(hypotheses) > 1:\n        return {MEAN}"},
                "takes the mean of the sentences' scores",
                blind=[
                    (
                        lambda hypotheses: len(hypotheses) == 1,
                        "BLEU adds up the matches of all sentences and divides once. It takes two "
                        "sentences, one better than the other.",
                    )
                ],
            ),
            Suspect(
                {"max(map(len, references))": "1"},
                "looks at the first reference only",
                blind=[(first_is_best, "Give a sentence two references, the better one second.")],
            ),
            beliefs=[Suspect({".score": ".score / 100"}, "counts to 1: it is from 0 to 100 here")],
            name="score",
            nothing=not_a_number,
            little=not_a_number,
            blind=[
                (
                    lambda hypotheses: all(len(words) < 4 for words in hypotheses),
                    "All your scores are 0: none of your sentences has four words, and BLEU "
                    "counts four in a row as well.",
                ),
                (
                    perfect_or_hopeless,
                    "All your scores are 0 or 100. What is perfect or hopeless is so for whoever "
                    "counts: take a translation in between.",
                ),
            ],
            notice="Work out what it should be, and compare closely.",
            rounding="Allow a little, such as `abs(... - expected) < 0.01`.",
        )
    ],
)
