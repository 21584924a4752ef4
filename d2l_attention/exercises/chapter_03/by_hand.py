"""3.1 and 3.3: answers that are numbers."""

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.steps import as_numbers, number

# 3.1 --------------------------------------------------------------------------------------

PRODUCT = {
    0: "key 0 has the smallest angle to the query, but a dot product weighs length as well. Key 0 "
    "gets 2·1 + 1·1 = 3. Work out the other two in the same way.",
    1: "key 1 has the largest sum of entries, but the query's numbers count, too. Key 1 gets "
    "2·0 + 1·4 = 4. Work out the other two in the same way, with their signs.",
}
DISTANCE = {
    1: "key 1 lies 2 away in the first coordinate and 3 in the second. Add the squares of the "
    "differences, so that a minus and a plus do not cancel.",
    2: "key 2 lies 3 away in the first coordinate and 3 in the second. Add the squares of the "
    "differences; nearest is the key with the smallest sum.",
}


def says_why_the_pair_is_wrong(attempt: Attempt) -> str | None:
    got = as_numbers(attempt.answer)
    if got is None:
        return None
    pair = tuple(got.flatten().tolist())
    if len(pair) == 4:
        return "Give the keys' numbers (0, 1 or 2), not the keys themselves."
    if len(pair) == 1:
        return "There are two questions: give two numbers, such as `(0, 1)`."
    if len(pair) != 2:
        return None
    if pair == (0, 2):
        return "Both keys are found, the other way round: first the largest dot product."
    if pair == (3, 1):
        return "Did you count from 1? The first key is key 0."
    if not set(pair) <= {0, 1, 2}:
        return (
            "Give the keys' numbers (0, 1 or 2): which key has the largest product, and which is "
            "nearest? Not how large or how near."
        )
    by_product, by_distance = pair
    if by_product != 2:
        return f"Largest dot product: {PRODUCT[by_product]}"
    return f"Nearest: {DISTANCE[by_distance]}" if by_distance != 0 else None


product_or_distance = Exercise(
    id="3.1",
    title="Largest product, nearest key",
    task=(
        "The query is (2, 1); keys 0, 1 and 2 are (1, 1), (0, 4) and (5, -2). Which key has the "
        "largest dot product with the query, and which is nearest to it? Answer with the two "
        "keys' numbers in this order, such as `(0, 1)`."
    ),
    difficulty="easy",
    minutes=3,
    hints=[
        "Dot product: multiply first with first, second with second, and add, minus signs "
        "included.",
        "Distance: subtract the key from the query, square both differences, add. No root is "
        "needed to compare.",
    ],
    stub=None,
    solution=(2, 0),
    explanation=(
        "The dot products are 3, 4 and 8, the squared distances 1, 13 and 18: one key has the "
        "largest product, and it is the farthest of all. It is long, and the dot product takes "
        "no fee for that."
    ),
    steps=[says_why_the_pair_is_wrong, number([2, 0])],
    wrong=[
        Wrong((0, 0), "smallest angle"),
        Wrong((1, 0), "largest sum of entries"),
        Wrong((2, 1), "do not cancel"),
        Wrong((2, 2), "lies 3 away in the first coordinate"),
        Wrong((0, 2), "the other way round"),
        Wrong((3, 1), "count from 1"),
        Wrong((8, 1), "Not how large or how near"),
        Wrong([(5, -2), (1, 1)], "not the keys themselves"),
        Wrong(2, "give two numbers"),
        Wrong("2 and 0", "Give a list of numbers"),
    ],
)

# 3.3 --------------------------------------------------------------------------------------


def measured(attempt: Attempt) -> str | None:
    got = as_numbers(attempt.answer)
    if got is not None and got.numel() == 1 and 0 < abs(got.item() - 300) < 50:
        return (
            "That is about right and looks measured. Which exact number stands behind it? Take "
            "one term: `q_j = 1 + a` and `k_j = 1 + b`, with a and b of mean 0 and variance 1."
        )
    return None


shifted_entries = Exercise(
    id="3.3",
    title="When the mean is not 0",
    task=(
        "The entries of q and k are independent, with variance 1, but with mean 1 instead of 0. "
        "d = 100. Predict the variance of q · k, then measure it, then find the exact number on "
        "paper. Answer with the exact number."
    ),
    difficulty="easy",
    minutes=8,
    hints=[
        "Measure: `q = torch.randn(10_000, 100) + 1`, the same for k, and one dot product a row.",
        "The terms are still independent, so their variances still add. What is the variance "
        "of one?",
        "Write `q_j = 1 + a`, `k_j = 1 + b` and multiply out. The parts are uncorrelated: add "
        "their variances.",
    ],
    stub=None,
    solution=300,
    explanation=(
        "One term is (1 + a)(1 + b) = 1 + a + b + ab. The 1 does not vary; a, b and ab have "
        "variance 1 each and are uncorrelated. That is 3 for a term, 300 for 100 of them. So "
        "1/√d keeps the variance at 1 only where the mean is 0."
    ),
    steps=[
        measured,
        number(
            300,
            tolerance=0.05,
            mistakes={
                100: "that is the variance for mean 0. A term is now (1 + a)(1 + b) rather than "
                "ab: what does that add?",
                200: "a part is missing. Multiply out (1 + a)(1 + b): how many of its four parts "
                "vary?",
                400: "that is 100 times the mean of the squared term. A variance takes the "
                "square of the mean off.",
                10_300: "that is the mean of (q · k)². q · k has mean 100 now, and a variance "
                "takes the square of the mean off.",
                10_000: "that is 100². The squared mean of q · k is no spread, and variances of "
                "independent terms add: 100 times, not 100² times.",
                30_000: "variances of independent terms add: 100 times that of one term, not "
                "100² times.",
                101: "the shift is not simply added: it makes the other factor count. Multiply "
                "out (1 + a)(1 + b).",
                3: "that is the variance of one term. There are 100.",
                4: "that is the mean of one squared term. A variance takes the square of the "
                "mean off, and there are 100 terms.",
                10: "that is the standard deviation for mean 0. The task asks for the variance, "
                "and the mean is 1.",
                300**0.5: "that is the standard deviation. The variance is its square.",
                0: "there is spread: draw a few and look.",
            },
        ),
    ],
    wrong=[
        Wrong(100, "the variance for mean 0"),
        Wrong(200, "a part is missing"),
        Wrong(400, "the mean of the squared term"),
        Wrong(10_300, "takes the square of the mean off"),
        Wrong(10_000, "The squared mean of q · k is no spread"),
        Wrong(30_000, "not 100² times"),
        Wrong(101, "not simply added"),
        Wrong(3, "the variance of one term"),
        Wrong(4, "one squared term"),
        Wrong(10, "the standard deviation for mean 0"),
        Wrong(17.32, "the standard deviation"),
        Wrong(298.4, "looks measured"),
        Wrong(500, "too large"),
    ],
)
