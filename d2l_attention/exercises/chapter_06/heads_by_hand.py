"""6.1: two heads worked out on paper."""

import math

from d2l_attention.exercises.authoring import Exercise, heading, number

COUNTS = {
    1: "That is one number. The heads' outputs are not summed or averaged: they stand end to "
    "end, one number from each head.",
    3: "That is a number for each token. One query is asked about: its output has one number "
    "from each head.",
    4: "That is four numbers for two heads. A head averages its own column of the values only: "
    "the first head the first numbers, the second head the second.",
    6: "That is a number for each head and token: the weights? Each head goes on to average its "
    "own column of the values, and gives one number.",
}


def one_head(first, second, third):
    """What one row of exponentials gives for both columns of the values."""
    total = first + second + third
    return (8 * first + 4 * second) / total, (9 * second + 6 * third) / total


R2, R4 = 2 ** math.sqrt(1 / 2), 4 ** math.sqrt(1 / 2)  # exponentials of scores over √2
MISTAKES = {
    one_head(2, 4, 1): "you added up both products, ln 2 and 2 ln 2, to one score a token: that is "
    "a single head of size 2. Each head has scores of its own, from its own column.",
    one_head(R2, R4, 1): "that is what a single head of size 2 gives, scaled by √2. Two heads have "
    "two rows of weights.",
    (one_head(R2, 1, 1)[0], one_head(1, R4, 1)[1]): "you divided the scores by √2, the root of "
    "both sizes together. Each head has size 1: divide by the root of that.",
    (one_head(1, 4, 1)[0], one_head(2, 1, 1)[1]): "each head has averaged the other's values. The "
    "first head owns the first numbers of query, keys and values, the second head the second.",
    (5, 6): "the first head is right. The second has the query 2, not 1: its score for the second "
    "token is 2 times ln 2.",
    (6, 6): "the queries have changed heads. The query is (1, 2): the first head asks with 1, the "
    "second with 2.",
    (7, 5): "both heads are right, the other way round: the first head stands first.",
    (4, 5): "those are plain means. The scores of a head differ, so its weights do.",
    (8, 9): "you took the value of the best key alone. A softmax gives the other two keys "
    "something, too: the exponential of 0 is 1.",
    (20, 42): "those are sums with the exponentials as weights. Divide them by the row's sum.",
    (8 * math.log(2), 18 * math.log(2)): "you used the scores as weights. Take their exponentials, "
    "and divide by the sum.",
    (20 / 3, 36 / 5): "it looks as if a token with the score 0 were missing. The exponential of 0 "
    "is 1: it takes its share.",
}

heads_by_hand = Exercise(
    **heading("6.1", "Two heads by hand", "easy", minutes=5),
    section="Multi-head attention in one formula",
    hints=[
        "Write down what the first head sees: one query, three keys, three values, each a single "
        "number. Then the same for the second.",
        "A score is a product divided by the root of the head's size, and that is √1. The "
        "exponential of ln 2 is 2, that of 2 ln 2 is 4.",
        "The exponentials are 2, 1, 1 in the first head and 1, 4, 1 in the second. Each head "
        "divides by its own sum and averages its own values.",
    ],
    solution=[5, 7],
    explanation="The first head has the weights 1/2, 1/4, 1/4 and gives 4 + 1 + 0 = 5. The second "
    "has 1/6, 4/6, 1/6 and gives 0 + 6 + 1 = 7. One looks most at the first token and the other at "
    "the second, at the same time. A single head has one row of weights for both columns.",
    steps=[number([5, 7], tolerance=0.006, mistakes=MISTAKES, counts=COUNTS)],
)
