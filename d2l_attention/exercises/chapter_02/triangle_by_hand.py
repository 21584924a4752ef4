"""2.1: similarities, weights and a prediction by hand."""

from d2l_attention.exercises.authoring import Attempt, Exercise, as_numbers, heading, number, show

GAUSSIAN = "that is the Gaussian kernel, for which every key counts. A triangle ends."
WEIGHTS = {
    (0, 1, 0): "the key 0 is in reach as well. Did you divide the distance by the width?",
    (0.5, 0.5, 0): "that is the boxcar. Under a triangle the nearer key counts more.",
    (3 / 7, 4 / 7, 0): "that is the parabola, 1 - x². The triangle is 1 - |x|.",
    (0.3546, 0.4018, 0.2437): GAUSSIAN,
    (0.3482, 0.5741, 0.0777): GAUSSIAN,
    (1 / 3, 0, 2 / 3): "you shared out the distances. First turn each into a similarity.",
    (2 / 3, 1 / 3, 0): "the key 0 got most. Measure all distances from the query.",
    (0.3072, 0.5065, 0.1863): "you took the softmax of the similarities. Divide by their sum.",
    (0, 2 / 3, 1 / 3): "these are in another order: the key 0 first, then the key 1, then the 3.",
    (1 / 3, 4 / 9, 2 / 9): "the key 3 still counts. A triangle of width 2 reaches 0 at distance 2.",
    (0.3, 0.7, 0): "one decimal is too coarse; round to three.",
    (1 / 3, 1 / 3, 1 / 3): "all keys count alike: that is the constant kernel.",
}
PREDICTIONS = {
    5: "your weights are right, but here you used the similarities, which sum to 1.5.",
    4: "that is the plain average of the values; your weights take no part in it.",
    2 / 3: "that is the average of the keys. The weights average the values.",
    10 / 9: "you divided by 3 as well. The weights sum to 1, so the weighted sum is the average.",
    2: "that is the value of the nearest key only. The key 0 has a share as well.",
    14 / 3: "you gave the weight of the key 0 to the value of the key 1, and the other way round.",
}
weights_are_right = number([1 / 3, 2 / 3, 0], mistakes=WEIGHTS)
prediction_is_right = number(10 / 3, tolerance=0.02, mistakes=PREDICTIONS)


def weights_and_prediction(attempt):
    got = as_numbers(attempt.answer)
    if got is None:
        return (
            "Give one flat list of four plain numbers, without quotes: the weights of the keys "
            f"0, 1 and 3, then the prediction. Your answer is {show(attempt.answer)}."
        )
    if got.numel() == 3:
        return "Your list holds three numbers; after the three weights comes the prediction."
    if got.numel() != 4:
        return f"Give four numbers, not {got.numel()}. A key out of reach has a weight as well."
    *weights, prediction = got.flatten().tolist()
    total = sum(weights)
    if min(abs(total - 1), abs(total - 100)) >= 0.02:  # `number` tells percentages
        return (
            f"Your weights {show(weights)} sum to {total:.3g}; the weights of a query sum to 1. "
            "Are they similarities still, which nothing has divided?"
        )
    if found := weights_are_right(Attempt(weights)):
        return f"Weights: {found}"
    found = prediction_is_right(Attempt(prediction))
    return f"Prediction: {found}" if found else None


triangle_by_hand = Exercise(
    **heading("2.1", "Three weights by hand", "easy", minutes=3),
    section="Nadaraya-Watson regression",
    hints=[
        "Make the chapter's table: distance, distance divided by the width, similarity, weight.",
        "The similarity is 1 - distance/2, never below 0. What do the three similarities sum to?",
    ],
    solution=[1 / 3, 2 / 3, 0, 10 / 3],
    explanation="The distances 1, 0, 2 give the similarities 0.5, 1, 0. Divided by their sum, 1.5, "
    "they are the weights 1/3, 2/3, 0, and the prediction is 6/3 + 2·2/3 = 10/3. The third key "
    "is exactly at the edge of the triangle, where the similarity reaches 0.",
    steps=[weights_and_prediction],
)
