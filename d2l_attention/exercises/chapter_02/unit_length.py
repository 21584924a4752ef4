"""2.7: for keys of length 1, the Gaussian score is the dot product and a constant."""

from d2l_attention.exercises.authoring import Attempt, Exercise, as_numbers, number, show

CONSTANTS = {
    -2.5: "you left out |k|² = 1. Both squares stay when the bracket is multiplied out.",
    -6: "the factor 1/2 belongs to |q|² + |k|², not to the dot product only.",
    3: "the sign is wrong: |q|² and |k|² make the distance larger, so the score lower.",
    0: "the score is not the dot product itself: something is left over, the same for each key.",
}
PRODUCTS = {
    (-2, -1, -0.8): "these are the Gaussian scores. The dot products are q · k.",
    (2, 1, 2): "you exchanged the two components of q.",
    (2, 4, 4.4): "these are 2 q · k. The factor 1/2 of the score takes the 2 away.",
}
constant_is_right = number(-3, mistakes=CONSTANTS)
products_are_right = number([1, 2, 2.2], mistakes=PRODUCTS)


def constant_and_products(attempt):
    got = as_numbers(attempt.answer)
    if got is None or got.numel() != 4:
        return (
            "Give one flat list of four numbers: c, then q · k for the keys (1, 0), (0, 1) and "
            f"(0.6, 0.8). Your answer is {show(attempt.answer)}."
        )
    constant, *products = got.flatten().tolist()
    if found := constant_is_right(Attempt(constant)):
        return f"c: {found}"
    found = products_are_right(Attempt(products))
    return f"Dot products: {found}" if found else None


keys_of_unit_length = Exercise(
    id="2.7",
    title="Keys of unit length",
    difficulty="medium",
    minutes=8,
    section="From distance to product",
    hints=[
        "|q - k|² is a dot product of q - k with itself. Multiply it out: three terms.",
        "-(|q|² - 2 q · k + |k|²)/2. Which two of the terms are the same for all three keys?",
    ],
    stub=None,
    solution=[-3, 1, 2, 2.2],
    explanation="-|q - k|²/2 = q · k - (|q|² + |k|²)/2. With |q|² = 5 and |k|² = 1 the constant is "
    "-3, and the scores are -2, -1 and -0.8. By distance and by dot product the same key wins, the "
    "last. For keys of equal length the dot product gives the weights of the Gaussian score.",
    steps=[constant_and_products],
)
