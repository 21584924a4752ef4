"""3.1: one key has the largest product, another is nearest."""

from d2l_attention.exercises.authoring import Exercise, as_numbers, heading, number

KEY_0 = (
    "the largest dot product: key 0 has the smallest angle to the query, but a dot product also "
    "depends on the norm. Key 0 gets 2·1 + 1·1 = 3. Work out the other two in the same way."
)
KEY_1 = (
    "the largest dot product: key 1 has the largest sum of entries, but the query's numbers also "
    "count. Key 1 gets 2·0 + 1·4 = 4. Work out the other two in the same way, with their signs."
)
MISTAKES = {
    (0, 2): "both keys are found, the other way round: first the largest dot product.",
    (3, 1): "did you count from 1? The first key is key 0.",
    (2, 1): "the nearest key: key 1 lies 2 away in the first coordinate and 3 in the second. Add "
    "the squares of the differences, so that a minus and a plus do not cancel.",
    (2, 2): "the nearest key: key 2 lies 3 away in the first coordinate and 3 in the second. Add "
    "the squares of the differences; nearest is the key with the smallest sum.",
    **dict.fromkeys([(0, 0), (0, 1)], KEY_0),
    **dict.fromkeys([(1, 0), (1, 1), (1, 2)], KEY_1),
}


def not_a_key(attempt):
    got = as_numbers(attempt.answer)
    if got is None or got.numel() != 2 or tuple(got.flatten().tolist()) in {(2, 0), *MISTAKES}:
        return None
    return (
        "Give the keys' numbers (0, 1 or 2): which key has the largest product, and which is "
        "nearest? Not how large or how near."
    )


product_or_distance = Exercise(
    **heading("3.1", "Largest product, nearest key", "easy", minutes=3),
    section="Nearest key, largest product",
    solution=(2, 0),
    explanation="The dot products are 3, 4 and 8, the squared distances 1, 13 and 18: one key has "
    "the largest product, and it is the farthest of all. Its norm is large, and the dot "
    "product takes no fee for that.",
    hints=[
        "Dot product: multiply first with first, second with second, and add, minus signs "
        "included.",
        "Distance: subtract the key from the query, square both differences, add. No root is "
        "needed to compare.",
    ],
    steps=[
        not_a_key,
        number(
            [2, 0],
            mistakes=MISTAKES,
            counts={
                1: "There are two questions: give two numbers, such as `(0, 1)`.",
                4: "Give the keys' numbers (0, 1 or 2), not the keys themselves.",
            },
        ),
    ],
)
