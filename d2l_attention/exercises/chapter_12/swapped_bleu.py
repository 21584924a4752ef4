"""12.19: BLEU with its arguments swapped."""

import math
from collections import Counter

from d2l_attention.exercises.authoring import Suspect
from d2l_attention.exercises.chapter_12._exhibit import exhibit


def bleu(prediction, reference, k=2):
    words, wanted = prediction.split(), reference.split()
    score = math.exp(min(0, 1 - len(wanted) / len(words)))  # shorter than the reference: a penalty
    for n in range(1, k + 1):
        given = Counter(zip(*(words[i:] for i in range(n)), strict=False))
        right = given & Counter(zip(*(wanted[i:] for i in range(n)), strict=False))
        score *= (right.total() / max(given.total(), 1)) ** (0.5**n)
    return score


def test_order_of_arguments(bleu):
    """Pass where the prediction comes first, and fail by an `AssertionError` where it does not.

    `bleu(prediction, reference, k=2)` takes two sentences and returns the book's BLEU: exp(min(0,
    1 - words of the reference / words of the prediction)), times, for n = 1 to k, p_n to the
    power 1 / 2^n, where p_n is the share of the prediction's n-grams that the reference has.
    """
    ...


def test_order_of_arguments_solution(bleu):
    # Two right words of four: both precisions are 1, and only the penalty is left, 1 / e.
    assert math.isclose(bleu("le chat", "le chat est calme"), math.exp(-1))


swapped_bleu = exhibit(
    id="12.19",
    title="The reference as the prediction",
    difficulty="easy",
    minutes=8,
    right=bleu,
    bug={
        "words, wanted = prediction.split(), reference.split()":
        "words, wanted = reference.split(), prediction.split()"
    },
    what="takes the reference for the prediction",
    sources=["https://github.com/d2l-ai/d2l-en/issues/1780"],
    blind=[
        (
            lambda prediction, reference: prediction.count(" ") == reference.count(" "),
            "Your sentences all have as many words as their references. There the two orders give "
            "the same number.",
        )
    ],
    stub=test_order_of_arguments,
    solution=test_order_of_arguments_solution,
    explanation="For two sentences of one length BLEU is symmetric: as many n-grams on both "
    "sides, and no penalty. Only different lengths tell the order. Two arguments of one type can "
    "be swapped without an error; names in the call, `prediction=...`, would prevent it.",
    hints=[
        "For which pairs of sentences does the order not matter? Take others.",
        "A prediction that is a beginning of the reference: every n-gram is right, and the penalty "
        "is all that is left. Work it out by hand.",
    ],
    test_options=dict(
        notice="Work out one score by hand, of a prediction that is shorter than its reference.",
        beliefs=[
            Suspect({"math.exp(min(0, 1 - len(wanted) / len(words)))": "1.0"}, "has no penalty")
        ],
        little=lambda prediction, reference, k=2: 0.0,
        nothing=lambda prediction, reference, k=2: None,
    ),
)  # fmt: skip
