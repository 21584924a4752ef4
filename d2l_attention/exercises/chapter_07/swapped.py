"""7.2: two words change places. Which of the other words notice, and in which model?"""

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.show import show
from d2l_attention.exercises.steps import as_numbers

PLAIN = {
    3: (
        "nothing tells this model where a key stands. What does a sum of weighted values make of "
        "the order of its terms?"
    ),
    2: "that is the number of words that move. The task asks about the three that stay.",
    5: "that is all five words. The task asks about the three that stay.",
}
SINES = {
    0: (
        "the two words are added to other rows now, so their keys and values are new. Who reads "
        "them?"
    ),
    2: (
        "word 2 stands between them, at equal distances. But it reads sums of word and row, and "
        "both sums are new."
    ),
    5: PLAIN[5],
}
DISTANCES = {
    3: (
        "what does ALiBi know of a key? Its distance, here without a direction. To which word are "
        "the two that swap equally far?"
    ),
    0: "the words that swap are now nearer to some and farther from others.",
    1: (
        "one of the three does not notice, and two do. For which word do both distances stay as "
        "they were?"
    ),
    5: PLAIN[5],
}
CAUSAL = {
    0: (
        "nothing is added here, but the mask makes a difference: which words does word 2 see, "
        "before the swap and after it?"
    ),
    2: "words 2 and 4? Word 4 sees all five words, before and after: the same set.",
    3: "word 0 sees itself alone, and it has not moved.",
    5: PLAIN[5],
}
QUESTIONS = [
    ("Without positions", 0, PLAIN),
    ("With sines and cosines", 3, SINES),
    ("With ALiBi", 2, DISTANCES),
    ("With a causal mask", 1, CAUSAL),
]


def which_is_wrong(attempt: Attempt) -> str | None:
    got = as_numbers(attempt.answer)
    if got is None or got.numel() != 4:
        return (
            "Give four counts, one for each model, such as `(3, 3, 3, 3)`. Your answer is "
            f"{show(attempt.answer)}."
        )
    for value, (what, right, reasons) in zip(got.flatten().tolist(), QUESTIONS, strict=True):
        if value != right:
            otherwise = "three words stay, so the count is 0, 1, 2 or 3. Run it and count."
            return f"{what}, {show(value)}: {reasons.get(value, otherwise)}"
    return None


two_words_swapped = Exercise(
    id="7.2",
    title="Who notices the swap?",
    task=(
        "Five random words of 12 numbers enter `MultiHeadAttention(12, 3, 0.0)` as queries, keys "
        "and values. Then words 1 and 3 change places; 0, 2 and 4 stay. For how many of the three "
        "words that stay does the output change: as it is; with `PositionalEncoding(12, 0.0)` "
        "before it; with `positions=ALiBi(3)` instead; with nothing but `is_causal=True`? Predict; "
        "then measure. Give four counts, such as `(3, 3, 3, 3)`."
    ),
    difficulty="easy",
    minutes=10,
    hints=[
        "The swap: `Y = X[:, [0, 3, 2, 1, 4]]`. Count with "
        "`((layer(X, X, X) - layer(Y, Y, Y)).abs() > 1e-5).any(dim=-1)[0, [0, 2, 4]]`.",
        "Ask of each word that stays: which keys does it see, and what does it know of each key? "
        "Does the swap change that, or only the order of a list?",
    ],
    stub=None,
    solution=(0, 3, 2, 1),
    explanation=(
        "Attention sums over its keys, and a sum has no order: nobody notices. Sines and cosines "
        "change the two words themselves, so everybody notices. ALiBi knows distances only, and "
        "for word 2 both are 1 before and after; a rotary encoding would tell left from right. A "
        "causal mask tells an order without any encoding: word 2 sees word 3 where it saw word 1. "
        "Word 0 sees itself alone, and word 4 sees the same five."
    ),
    steps=[which_is_wrong],
    wrong=[
        Wrong((3, 3, 3, 3), "nothing tells this model"),
        Wrong((2, 3, 2, 1), "the number of words that move"),
        Wrong((5, 5, 5, 5), "all five words"),
        Wrong((0, 0, 2, 1), "Who reads them?"),
        Wrong((0, 2, 2, 1), "both sums are new"),
        Wrong((0, 5, 2, 1), "all five words"),
        Wrong((0, 3, 3, 1), "without a direction"),
        Wrong((0, 3, 0, 1), "nearer to some"),
        Wrong((0, 3, 1, 1), "do both distances stay"),
        Wrong((0, 3, 2, 0), "the mask makes a difference"),
        Wrong((0, 3, 2, 2), "the same set"),
        Wrong((0, 3, 2, 3), "sees itself alone"),
        Wrong((0, 3, 2.5, 1), "Run it and count"),
        Wrong((0, 3, 2), "Give four counts"),
        Wrong(3, "Give four counts"),
        Wrong("none", "Give four counts"),
    ],
)
