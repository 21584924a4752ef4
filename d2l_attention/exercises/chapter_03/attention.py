"""3.5: the whole formula, with one wrong number in it."""

import torch

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, heading, instead_of, normal


def attention_solution(queries, keys, values):
    """Scaled dot-product attention: (B, Q, D), (B, K, D), (B, K, V) -> (B, Q, V).

    Where all scores are equal, the values [[1], [3]] give [2] for each query.
    """
    # keys.shape is (B, K, D): the vectors' size comes last, axis 1 is their number.
    scores = torch.bmm(queries, keys.transpose(1, 2)) / keys.shape[-1] ** 0.5
    return torch.bmm(scores.softmax(dim=-1), values)


COMMENT = "    # keys.shape is (B, K, D): the vectors' size comes last, axis 1 is their number.\n"
PRODUCT, ROOT = "torch.bmm(queries, keys.transpose(1, 2))", "keys.shape[-1] ** 0.5"
GIVEN = Mistake({COMMENT: "", ROOT: "keys.shape[1] ** 0.5"}, "")
POWERS_FIRST = (
    "Powers come first in Python, so `d ** 1 / 2` is half of the size d, and `x / d ** 1 / 2` is x "
    "divided by the size and then by 2. Write `d ** 0.5`."
)
OTHER_DIVISIONS = {
    " / keys.shape[-2] ** 0.5": "You still divide by the root of the number of keys. A score is a "
    "sum of products. How many products, and do they depend on the number of other keys?",
    "": "The wrong division is gone, but so is the right one: 1/√d is missing. The standard "
    "deviation of the scores grows with the vectors' size again.",
    " / keys.shape[-1]": "You divide by the size itself; then the scores of large vectors shrink "
    "and the weights are nearly equal. (Both sides divided by the root is the same thing.)",
    " / queries.shape[1] ** 0.5": "You divide by the root of the number of queries. A score's "
    "standard deviation depends on something else: count the products that one score sums up.",
    " / values.shape[-1] ** 0.5": "You divide by the root of the size of the values. They come in "
    "after the softmax and have no part in the scores.",
    " / keys.shape[0] ** 0.5": "You divide by the root of the batch's size, `shape[0]`. A score "
    "does not depend on the other sentences of the batch.",
    " / 16**0.5": "You divide by 4, the root of the 16 in the author's test. For vectors of "
    "another size it is another number, which the tensors' shape gives.",
    f" * {ROOT}": "You multiply by the root, but the scores are already too large.",
    " / (keys.shape[-1] ** 1 / 2)": POWERS_FIRST,
    " / keys.shape[-1] ** 1 / 2": POWERS_FIRST,
    " / keys.shape[-1] ** 2": "You divide by the square of the size, not its root.",
}
OTHER_SCORES = {
    f"{PRODUCT} / {PRODUCT}.std()": "You divide by the standard deviation that you measure, so "
    "one query's weights depend on all the others' scores. The size tells it beforehand.",
    "torch.cosine_similarity(queries[:, :, None], keys[:, None], dim=-1)": "You divide every "
    "vector by its own norm, which gives cosines. Divide all scores by one number, so that keys of "
    "large norm keep their large scores.",
}
OTHER_WEIGHTS = {
    "scores.softmax(dim=1)": "Your softmax runs over the queries. Each query shares out its own "
    "attention over the keys, the last axis.",
    "scores.softmax(dim=0)": "Your softmax runs over the batch, so sentences compete with each "
    "other. A query shares out its attention over its own keys, the last axis.",
    "scores": "The softmax is missing: you average with raw scores, which may be negative and do "
    "not sum to 1.",
}


def column(*rows):
    """A batch of vectors that hold one number each."""
    return torch.tensor(rows, dtype=torch.float32)[..., None]


# Two keys with the scores 3 and -1 and D = 3: the output is the weight of the first.
SMALL = torch.ones(1, 1, 3), torch.tensor([[[1.0, 1, 1], [-1, -1, 1]]]), column([1, 0])
KEYS = column([0, 1, 3])
OTHERS = [
    (column([1, 2]), KEYS, column([1, 2, 4])),
    (column([1]), KEYS, torch.tensor([[[1.0, 0], [2, 0], [4, 1]]])),
    (column([1], [2], [3]), column([0, 1], [1, 0], [2, 1]), column([1, 2], [3, 5], [0, 8])),
    normal(0, (2, 3, 7), (2, 5, 7), (2, 5, 11)),
    normal(1, (2, 4, 16), (2, 16, 16), (2, 16, 3)),
    authoring.in_dtype(normal(2, (3, 5, 2), (3, 4, 2), (3, 4, 6)), torch.float64),
]
AS_MANY = "Here are as many queries as keys, and each query still sees all keys."


def shapes(result, queries, keys, values):
    if isinstance(result, tuple | list):
        return "The task asks for the output only; you return more than one thing."
    B, Q, _ = queries.shape
    return {
        (B, Q, keys.shape[1]): "That is the shape of the weights, (B, Q, K). The last step, the "
        "average of the values, is missing.",
        (B, Q, values.shape[-1]): "(B, Q, V)",
    }


repair_the_attention = Exercise(
    **heading("3.5", "The author's test passed", "medium", minutes=8),
    section="Divide by the standard deviation",
    stub=authoring.with_mistakes(attention_solution, GIVEN, name="attention"),
    solution=attention_solution,
    explanation="`keys.shape[1]` is the number of keys, while the vectors' size is `shape[-1]`. In "
    "the author's test both were 16. So give every axis of a test its own size.",
    hints=[
        "Which three sizes does `keys.shape` hold, in order? Which of them are equal in the "
        "author's test?",
        "The variance of q · k is the number of products that it sums up.",
    ],
    cases=[
        Case(SMALL),
        *map(Case, OTHERS),
        # Where a mask that nobody asked for, or turned weights, would fit.
        Case((column([1, 2]), column([3, 1]), column([1, 0])), AS_MANY),
        Case(normal(3, (2, 4, 3), (2, 4, 3), (2, 4, 5)), AS_MANY),
    ],
    mistakes=[
        *instead_of(f" / {ROOT}", OTHER_DIVISIONS),
        *instead_of(f"{PRODUCT} / {ROOT}", OTHER_SCORES),
        *instead_of("scores.softmax(dim=-1)", OTHER_WEIGHTS),
        Mistake(
            {f" / {ROOT}": "", "scores.softmax(dim=-1)": f"scores.softmax(dim=-1) / {ROOT}"},
            "You divide after the softmax. By then it has saturated, and the division only "
            "shrinks the output. It is the scores that are too large.",
        ),
    ],
    shapes=shapes,
    steps=[authoring.gradients_flow()],
)
