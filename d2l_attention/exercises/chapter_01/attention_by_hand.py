"""1.1: attention pooling worked out on paper."""

import math

from d2l_attention.exercises.authoring import Exercise, as_numbers, heading, number


def no_average(attempt):
    got = as_numbers(attempt.answer)
    if got is None or got.numel() != 1 or 4 <= got.item() <= 10:
        return None
    if any(abs(got.item() - known) < 0.005 for known in (32, 32 / 3)):
        return None
    return (
        f"{got.item():.4g} cannot be right, whatever the scores: weights that sum to 1 and are not "
        "negative keep the output between the smallest value, 4, and the largest, 10."
    )


MISTAKES = {
    32: "you weighted the values with the exponentials themselves. They sum to 4, and weights sum "
    "to 1: one step is missing.",
    32 / 3: "you divided by the number of keys. Divide by the sum of the exponentials.",
    10: "that is the third value, as if the other two keys had weight 0. A score of 0 is not a "
    "weight of 0: take the exponentials before you divide.",
    22 / 3: "that is the plain mean of the values. The third key deserves more than a third.",
    10 * math.log(2): "you used the scores as weights. What do they sum to?",
    7.03: "the first two scores went through the exponential, the third did not: the "
    "exponential of ln 2 is 2.",
    9.148: "you took the exponential of 2. The third score is ln 2, whose exponential is 2.",
    8.304: "you took the exponential of 1. The third score is ln 2, the natural logarithm.",
    6.5: "you gave the largest weight to the first value. The third key has the best score.",
    7.5: "you gave the largest weight to the second value. The third key has the best score.",
    6.8: "the better the score, the smaller your weight: the sign in the exponential is wrong.",
    5: "that is the last of the three terms. The other two keys have their say too.",
}
THREE = (
    "These look like the three weights, the exponentials or the weighted values. Give one number: "
    "attention pooling *adds* the three weighted values."
)

pool_by_hand = Exercise(
    **heading("1.1", "Attention by hand", "easy", minutes=2),
    section="Attention pooling in one formula",
    solution=8.0,
    explanation="The exponentials 1, 1 and 2 sum to 4, so the weights are 1/4, 1/4 and 1/2. The "
    "output is 1 + 2 + 5: nearer to 10, the value of the best key, than to the smallest, 4.",
    hints=[
        "Softmax, step one: the exponential of each score. The exponential of 0 is not 0.",
        "Step two: divide the three exponentials by their sum. Do your weights sum to 1 now?",
        "Then multiply each value by its weight, and add.",
    ],
    steps=[no_average, number(8.0, mistakes=MISTAKES, counts={3: THREE})],
)
