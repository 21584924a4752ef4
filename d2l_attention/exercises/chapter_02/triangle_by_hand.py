"""Exercise 2.1: similarities, weights and a prediction by hand."""

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_02.helpers import part
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.show import show
from d2l_attention.exercises.steps import as_numbers, number


def four_numbers(attempt: Attempt) -> str | None:
    got = as_numbers(attempt.answer)
    if got is None or got.ndim != 1:
        return (
            "Give one flat list of four plain numbers, without quotes: the weights of the keys "
            f"0, 1 and 3, then the prediction. Your answer is {show(attempt.answer)}."
        )
    if len(got) == 3:
        return "Your list holds three numbers; behind the three weights comes the prediction."
    if len(got) != 4:
        return (
            f"Your list holds {len(got)} numbers, not four: the weights of the keys 0, 1 and 3, "
            "then the prediction. A key out of reach has a weight as well."
        )
    return None


def weights_sum_to_one(attempt: Attempt) -> str | None:
    weights = as_numbers(attempt.answer)[:3]
    total = weights.sum().item()
    if min(abs(total - 1), abs(total - 100)) < 0.02:  # percentages come later
        return None
    return (
        f"Your weights {show(weights.tolist())} sum to {total:.3g}; the weights of a query sum to "
        "1. Are they similarities still, which nothing has divided?"
    )


WEIGHT_MISTAKES = {
    (0, 1, 0): (
        "the key 0 is at distance 1, and a triangle of width 2 reaches that far. Did you divide "
        "the distance by the width?"
    ),
    (0.5, 0.5, 0): (
        "the keys 0 and 1 count alike: that is the boxcar. Under a triangle the nearer counts more."
    ),
    (3 / 7, 4 / 7, 0): "that is the parabola, 1 - x². The triangle is 1 - |x|.",
    (0.3546, 0.4018, 0.2437): (
        "that is the Gaussian kernel, for which every key counts. The triangle ends at distance 2."
    ),
    (0.3482, 0.5741, 0.0777): (
        "that is the Gaussian kernel, of width 1, for which every key counts. The triangle ends."
    ),
    (1 / 3, 0, 2 / 3): (
        "you shared out the distances, so the farthest key got most. First turn each distance "
        "into a similarity."
    ),
    (2 / 3, 1 / 3, 0): (
        "the key 0 got most, but the query is 1: which key stands right there? Measure all "
        "distances from the query."
    ),
    (0.3072, 0.5065, 0.1863): (
        "you took the softmax of the similarities. A kernel has no need of exponentials: the "
        "key out of reach has similarity 0, and so weight 0."
    ),
    (
        0,
        2 / 3,
        1 / 3,
    ): "these are in another order: the key 0 first, then the key 1, then the key 3.",
    (1 / 3, 4 / 9, 2 / 9): (
        "in your table the key 3 still counts. A triangle of width 2 reaches 0 at distance 2."
    ),
    (0.3, 0.7, 0): "one decimal is too coarse; round to three.",
    (1 / 3, 1 / 3, 1 / 3): "all keys count alike: that is the constant kernel.",
}

PREDICTION_MISTAKES = {
    5.0: "your weights are right, but here you weighed with the similarities, which sum to 1.5.",
    4.0: "that is the plain average of the values; your weights take no part in it.",
    2
    / 3: "that is the average of the keys. The weights come from the keys and average the values.",
    10 / 9: "you divided by 3 as well. The weights sum to 1, so the weighted sum is the average.",
    2.0: "that is the value of the nearest key alone. The key 0 has a share too.",
    14 / 3: "you gave the weight of the key 0 to the value of the key 1, and the other way round.",
}

triangle_by_hand = Exercise(
    id="2.1",
    title="Three weights by hand",
    task=(
        "Keys 0, 1, 3 with values 6, 2, 4; triangle kernel of width 2; query 1. Give the weights "
        "of the three keys, in this order, and then the prediction: one list of four numbers."
    ),
    difficulty="easy",
    minutes=3,
    hints=[
        "Make the chapter's table: distance, distance divided by the width, similarity, weight.",
        "The similarity is 1 - distance/2, never below 0. What do the three similarities sum to?",
    ],
    stub=None,
    solution=[1 / 3, 2 / 3, 0, 10 / 3],
    explanation=(
        "The distances 1, 0, 2 give the similarities 0.5, 1, 0. Divided by their sum, 1.5, they "
        "are the weights 1/3, 2/3, 0, and the prediction is 6/3 + 2·2/3 = 10/3. The third key "
        "stands exactly at the edge of the triangle, where the similarity reaches 0."
    ),
    steps=[
        four_numbers,
        weights_sum_to_one,
        part(slice(3), "Weights", number([1 / 3, 2 / 3, 0], mistakes=WEIGHT_MISTAKES)),
        part(3, "Prediction", number(10 / 3, tolerance=0.02, mistakes=PREDICTION_MISTAKES)),
    ],
    wrong=[
        Wrong([0.5, 1, 0, 5], "similarities still, which nothing has divided?"),
        Wrong([0, 1, 0, 2], "Did you divide the distance by the width?"),
        Wrong([0.5, 0.5, 0, 4], "that is the boxcar"),
        Wrong([0.429, 0.571, 0, 3.714], "that is the parabola"),
        Wrong([0.355, 0.402, 0.244, 3.906], "that is the Gaussian kernel"),
        Wrong([1 / 3, 0, 2 / 3, 14 / 3], "you shared out the distances"),
        Wrong([2 / 3, 1 / 3, 0, 14 / 3], "Measure all distances from the query"),
        Wrong([0.307, 0.506, 0.186, 3.6], "softmax of the similarities"),
        Wrong([0.33, 0.67, 0, 5.0], "weighed with the similarities"),
        Wrong([0.33, 0.67, 0, 0.67], "the average of the keys"),
        Wrong([0.33, 0.67, 0, 1.11], "divided by 3 as well"),
        Wrong([33, 67, 0, 3.33], "looks like a percentage"),
        Wrong([0.33, 0.67, 0, 3.3], "very close"),
        Wrong([0, 0.667, 0.333, 2.667], "in another order"),
        Wrong([0.333, 0.444, 0.222, 3.778], "reaches 0 at distance 2"),
        Wrong([1 / 3, 2 / 3, 0], "behind the three weights comes the prediction"),
        Wrong([[1 / 3, 2 / 3, 0], 10 / 3], "one flat list"),
    ],
)
