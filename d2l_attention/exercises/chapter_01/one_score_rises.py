"""1.3: what happens to a weight when its score rises."""

import math

from d2l_attention.exercises.authoring import Exercise, as_numbers, heading, number


def too_much(attempt):
    got = as_numbers(attempt.answer)
    if got is None or got.numel() != 1 or got.item() <= 1 or abs(got.item() - ADDED) < 0.005:
        return None
    if got.item() > 10:
        return f"{got.item():.4g} looks like a percentage. Weights are parts of 1: divide by 100."
    return f"{got.item():.4g} is more than 1, and a weight never is: all of them sum to 1."


ADDED = 1 / 3 + math.log(2)
DOUBLED = (
    "you doubled the weight. Its exponential doubles, but so does its part of the sum below: with "
    "2/3, 1/3 and 1/3 the weights would sum to 4/3."
)
MISTAKES = {
    2 / 3: DOUBLED,
    0.66: DOUBLED,
    ADDED: "you added ln 2 to the weight. It is the *score* that rises, and no weight exceeds 1.",
    1 / 3: "nothing changes when *all* scores rise. Here only one does.",
    0.25: "that is the new weight of each of the other two.",
    # 2/5 and, for the other logarithm, 0.4032: too near to be told apart.
    0.4016: "either the first key counts twice in your sum, with its old exponential and with the "
    "new one, or your logarithm is that to base 10 (`math.log` is the natural one).",
    ADDED / (1 + math.log(2)): "you added ln 2 to the weight and then divided by the sum. It is "
    "the *score* that rises, before the exponential.",
    (1 + math.log(2)) / 3: "you let the weight grow by a factor 1 + ln 2. By what factor does the "
    "exponential of the score grow?",
    math.log(2): "that is the rise of the score itself, ln 2. The weight comes out of the softmax.",
    math.e / (math.e + 2): "you raised the score by 1. `math.log(2)` is about 0.693.",
    math.e**2 / (math.e**2 + 2): "you raised the score by 2. The rise is ln 2, about 0.693.",
    1 / 3 + 2 / 9 * math.log(2): "that is the tangent: old weight plus slope times rise. The slope "
    "a(1 - a) holds for small steps; ln 2 is a large one.",
    1 / 5: "the first weight has fallen. Its score rose, so its weight must rise as well.",
    1: "as if the other two had lost everything. Their exponentials are still 1.",
}
THREE = "Give only the new weight of the first key. (All three should sum to 1: do yours?)"

one_score_rises = Exercise(
    **heading("1.3", "One score rises", "easy", minutes=3),
    section="Why attention can learn",
    solution=0.5,
    explanation="Adding ln 2 to a score doubles its exponential: 2, 1 and 1. The sum grows with "
    "it, to 4, so the weight grows from 1/3 to 2/4 and not to 2/3.",
    hints=[
        "Equal weights come from equal scores, and only differences count: call them all 0.",
        "What does adding ln 2 to a score do to its exponential? And to the sum of all three?",
    ],
    steps=[too_much, number(0.5, mistakes=MISTAKES, counts={3: THREE})],
)
