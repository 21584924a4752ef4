"""1.1 and 1.3: answers that are numbers."""

import math

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.steps import as_numbers, number

# 1.1 --------------------------------------------------------------------------------------

TOO_LONG = {
    32.0: "32: you weighted the values with the exponentials themselves. They sum to 4, and "
    "weights sum to 1: one step is missing.",
    32 / 3: "10.67: you divided by the number of keys. Divide by the sum of the exponentials, "
    "so that the weights sum to 1.",
}


def not_one_output(attempt: Attempt) -> str | None:
    got = as_numbers(attempt.answer)
    if got is None or got.numel() != 3:
        return None
    if abs(got.sum() - 1) < 0.01:
        return "These look like the three weights. One step is left: what do they weigh?"
    if abs(got.sum() - 4) < 0.01:
        return "These look like the exponentials. Weights sum to 1; then they weigh the values."
    return "Give one number: attention pooling *adds* the three weighted values."


def outside_the_hull(attempt: Attempt) -> str | None:
    got = as_numbers(attempt.answer)
    if got is None or got.numel() != 1 or 4 <= got.item() <= 10:
        return None
    for wrong, why in TOO_LONG.items():
        if abs(got.item() - wrong) < 0.01:
            return why
    return (
        f"{got.item():.4g} cannot be right, whatever the scores: weights that are not negative "
        "and sum to 1 keep the output between the smallest value, 4, and the largest, 10. Add "
        "up your three weights."
    )


pool_by_hand = Exercise(
    id="1.1",
    title="Attention by hand",
    task=(
        "One query scores 0, 0 and ln 2 on three keys. Their values are 4, 8 and 10. Take the "
        "softmax of the scores, pool the values, and give the output as a number."
    ),
    difficulty="easy",
    minutes=2,
    hints=[
        "Softmax, step one: the exponential of each score. The exponential of 0 is not 0.",
        "Step two: divide the three exponentials by their sum. Do your weights sum to 1 now?",
        "Then multiply each value by its weight, and add.",
    ],
    stub=None,
    solution=8.0,
    explanation=(
        "The exponentials are 1, 1 and 2, their sum is 4, the weights are 1/4, 1/4 and 1/2. The "
        "output is 1 + 2 + 5: between the smallest and the largest value, nearer to the one "
        "with the best score."
    ),
    steps=[
        not_one_output,
        outside_the_hull,
        number(
            8.0,
            mistakes={
                10.0: "that is the third value alone, as if the other two keys had weight 0. A "
                "score of 0 is not a weight of 0: take the exponentials before you divide.",
                22 / 3: "that is the plain mean of the values. The third key has the best score "
                "and deserves more than a third.",
                10 * math.log(2): "you used the scores as weights. They are not even weights: "
                "what do they sum to?",
                (12 + 10 * math.log(2)) / (2 + math.log(2)): "the first two scores went through "
                "the exponential, the third did not: the exponential of ln 2 is 2.",
                (12 + 10 * math.e**2) / (2 + math.e**2): "you took the exponential of 2. The "
                "third score is ln 2, the number whose exponential is 2.",
                (12 + 10 * math.e) / (2 + math.e): "you took the exponential of 1. The third "
                "score is ln 2, the natural logarithm.",
                6.5: "the largest weight stands at the first value. The third key has the best "
                "score.",
                7.5: "the largest weight stands at the second value. The third key has the best "
                "score.",
                6.8: "the better the score, the smaller your weight: the sign in the exponential "
                "has turned.",
                5.0: "that is the last of the three terms. The other two keys have their say too.",
            },
        ),
    ],
    wrong=[
        Wrong(10, "A score of 0 is not a weight of 0"),
        Wrong(7.333, "the plain mean"),
        Wrong(32, "one step is missing"),
        Wrong(10.67, "divided by the number of keys"),
        Wrong(6.93, "used the scores as weights"),
        Wrong(7.03, "the exponential of ln 2 is 2"),
        Wrong(9.15, "took the exponential of 2"),
        Wrong(6.8, "the sign in the exponential"),
        Wrong(6.5, "stands at the first value"),
        Wrong([0.25, 0.25, 0.5], "look like the three weights"),
        Wrong([1, 1, 2], "look like the exponentials"),
        Wrong([1, 2, 5], "*adds* the three"),
        Wrong(3.3, "keep the output between"),
        Wrong(0.5, "keep the output between"),
        Wrong("8", "Give a number"),
    ],
)

# 1.3 --------------------------------------------------------------------------------------


def not_one_weight(attempt: Attempt) -> str | None:
    got = as_numbers(attempt.answer)
    if got is None or got.numel() == 1:
        return None
    if got.numel() == 2:
        return "Give one number only: the new weight, as you measured it."
    if abs(got.sum() - 1) > 0.01:
        return (
            f"Your weights sum to {got.sum().item():.4g}. Whatever happens to the scores, the "
            "softmax makes them sum to 1. And give only the weight of the first key."
        )
    return "These sum to 1, as weights should. Give only the new weight of the first key."


def more_than_everything(attempt: Attempt) -> str | None:
    got = as_numbers(attempt.answer)
    if got is None or got.numel() != 1 or got.item() <= 1:
        return None
    if abs(got.item() - (1 / 3 + math.log(2))) < 0.005:
        return (
            "1.026: you added ln 2 to the weight. It is the *score* that rises; the softmax turns "
            "scores into weights, and no weight exceeds 1."
        )
    if got.item() > 10:
        return f"{got.item():.4g} looks like a percentage. Weights are parts of 1: divide by 100."
    return f"{got.item():.4g} is more than 1, and a weight never is: all of them sum to 1."


DOUBLED = (
    "you doubled the weight. Its exponential doubles, but so does its part of the sum below: with "
    "2/3, 1/3 and 1/3 the weights would sum to 4/3."
)

one_score_rises = Exercise(
    id="1.3",
    title="One score rises",
    task=(
        "Three keys share the attention: each has weight 1/3. Now the score of the first key "
        "rises by ln 2; the other two scores stay. Predict the new weight of the first key, then "
        "measure it with `softmax`. Answer with the weight."
    ),
    difficulty="easy",
    minutes=3,
    hints=[
        "Equal weights come from equal scores, and only differences count: call them all 0.",
        "What does adding ln 2 to a score do to its exponential? And to the sum of all three?",
    ],
    stub=None,
    solution=0.5,
    explanation=(
        "Adding ln 2 to a score doubles its exponential: 2, 1 and 1. The sum grows with it, to 4, "
        "so the weight grows from 1/3 to 2/4 and not to 2/3. What the first key wins, the other "
        "two lose."
    ),
    steps=[
        not_one_weight,
        more_than_everything,
        number(
            0.5,
            mistakes={
                2 / 3: DOUBLED,
                0.66: DOUBLED,
                1 / 3: "nothing changes when *all* scores rise. Here one does, and the "
                "differences between scores change.",
                0.25: "that is the new weight of each of the other two.",
                # 2/5 and, for the other logarithm, 0.4032: too near to be told apart.
                0.4016: "either the first key counts twice in your sum, with its old exponential "
                "and with the new one, or your logarithm is that to base 10 (`math.log` is the "
                "natural one).",
                (1 / 3 + math.log(2)) / (1 + math.log(2)): "you added ln 2 to the weight and then "
                "divided by the sum. It is the *score* that rises, before the exponential.",
                (1 + math.log(2)) / 3: "you let the weight grow by a factor 1 + ln 2. Exponentials "
                "come first: by what factor does the exponential of the score grow?",
                math.log(2): "that is the rise of the score itself, ln 2. The weight comes out of "
                "the softmax.",
                math.e / (math.e + 2): "you raised the score by 1. In Python the natural "
                "logarithm of 2 is `math.log(2)`, about 0.693.",
                math.e**2 / (math.e**2 + 2): "you raised the score by 2. The rise is ln 2, about "
                "0.693.",
                1 / 3 + 2 / 9 * math.log(2): "that is the tangent: old weight plus slope times "
                "rise. The slope a(1 - a) holds for small steps; ln 2 is a large one.",
                1 / 5: "the first weight has fallen. Its score rose, so its weight must, too.",
                1.0: "as if the other two had lost everything. Their exponentials are still 1.",
            },
        ),
    ],
    wrong=[
        Wrong(2 / 3, "would sum to 4/3"),
        Wrong(1.026, "It is the *score* that rises"),
        Wrong(1 / 3, "nothing changes when *all* scores rise"),
        Wrong(0.25, "each of the other two"),
        Wrong(0.4, "counts twice in your sum"),
        Wrong(0.403, "to base 10"),
        Wrong(0.693, "ln 2"),
        Wrong(0.576, "raised the score by 1"),
        Wrong(0.787, "raised the score by 2"),
        Wrong(0.487, "the tangent"),
        Wrong([2 / 3, 1 / 3, 1 / 3], "Your weights sum to 1.333"),
        Wrong([0.5, 0.25, 0.25], "only the new weight of the first"),
        Wrong(50, "looks like a percentage"),
        Wrong(1.33, "more than 1, and a weight never is"),
    ],
)
