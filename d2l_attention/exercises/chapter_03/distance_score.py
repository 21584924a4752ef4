"""3.4: the Gaussian's score from squared norms."""

import torch
from torch import Tensor
from torch._C._functorch import get_unwrapped, is_batchedtensor

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, gradients_flow, instead_of
from d2l_attention.exercises.authoring.spy import Operations
from d2l_attention.exercises.chapter_03.all_scores import BATCHES


def distance_score(queries, keys):
    """The score -|q - k|²/2 of every pair: (*, Q, D), (*, K, D) -> (*, Q, K).

    The query [[2, 1]] and the keys [[1, 1], [0, 4]] give [[-0.5, -6.5]].
    """
    ...


def distance_score_solution(queries, keys):
    products = queries @ keys.transpose(-2, -1)
    query_term = queries.square().sum(dim=-1).unsqueeze(-1) / 2  # (*, Q, 1): one for a row
    key_term = keys.square().sum(dim=-1).unsqueeze(-2) / 2  # (*, 1, K): one for a column
    return products - query_term - key_term


def largest(made):
    """The shape of the largest tensor, also of those that `torch.vmap` hides."""
    shapes = [torch.Size()]
    for each in made:
        while isinstance(each, Tensor) and is_batchedtensor(each):
            each = get_unwrapped(each)
        shapes += [each.shape] if isinstance(each, Tensor) else []
    return max(shapes, key=torch.Size.numel)


def too_much_work(attempt):
    def made_for(num_queries, num_keys, size):
        with Operations() as watch:
            attempt(torch.ones(num_queries, size), torch.ones(num_keys, size))
        return [made for _, made in watch.seen]

    shape = largest(made_for(13, 17, 19))
    if shape.numel() >= 13 * 17 * 19:
        return (
            "The scores are right, but on the way there your function makes a tensor of shape "
            f"{tuple(shape)} for 13 queries and 17 keys of size 19: a whole vector for each pair. "
            "Expand the square; what is left for each pair is one number."
        )
    few = len(made_for(3, 3, 3))
    sizes = {"queries": (23, 3, 3), "keys": (3, 23, 3), "coordinates": (3, 3, 23)}
    loops = [over for over, larger in sizes.items() if len(made_for(*larger)) > few]
    if not loops:
        return None
    return (
        f"The scores are right, but the more {loops[0]} there are, the more operations your "
        f"function takes: a loop over the {loops[0]}. One matrix product does all pairs at once."
    )


# Products 3, 4, 8 and squared distances 1, 13, 18: no two mistakes give the same numbers.
ONE_QUERY = (torch.tensor([[2.0, 1.0]]), torch.tensor([[1.0, 1.0], [0.0, 4.0], [5.0, -2.0]]))
# As many queries as keys: a squared norm in the wrong place raises no error.
SQUARE = (torch.tensor([[2.0, 1.0], [0.0, 1.0]]), torch.tensor([[1.0, 1.0], [0.0, 4.0]]))
SEVERAL = (
    "For a single query your scores are right, for two they are not. Where does each squared "
    "length belong? A query's to its row: shape (Q, 1). A key's to its column: shape (1, K)."
)
BATCH = (
    "For one sentence your scores are right, for a batch they are not. Count axes from the end "
    "(-1, -2), and give the squared norms an axis of size 1 where the other side's count "
    "belongs: (*, Q, 1) and (*, 1, K)."
)
NOT_SQUARED = "Your distance is not squared, but the exponent of the Gaussian has its square."
SCORES = "products - query_term - key_term"
LENGTHS = "queries.norm(dim=-1).unsqueeze(-1) + keys.norm(dim=-1).unsqueeze(-2)"
INSTEAD = {
    f"2 * ({SCORES})": "Every score is twice what it should be: the Gaussian's exponent has a ½.",
    f"-({SCORES})": "The sign is wrong: your numbers are large for keys that are far away. A "
    "score is large for keys that are near.",
    f"-2 * ({SCORES})": "That is the squared distance, which is large for keys that are far away. "
    "The score turns it round, so that near keys score high: look at the Gaussian's exponent.",
    "-torch.cdist(queries, keys)": NOT_SQUARED,
    "-torch.cdist(queries, keys) / 2": NOT_SQUARED,
    "-torch.cdist(queries, keys, 1) / 2": "Your distance adds absolute differences, not squares.",
    f"({SCORES}).exp()": "That is the kernel; the score is its exponent. The softmax takes exp.",
    f"({SCORES}).softmax(dim=-1)": "These are the weights. The task asks for the scores before.",
    f"{SCORES} - products / 2": "The product of query and key counts only half: (q - k)² has a "
    "middle term with a 2, which the ½ cancels.",
    f"{SCORES} - query_term - key_term": "The squared norms count twice as much as they should: "
    "the ½ stands before all of (q - k)², and only the middle term has a 2 that it cancels.",
    f"-{SCORES}": "The middle term has the wrong sign: yours is the distance from q to minus k.",
    "products / keys.shape[-1] ** 0.5 - query_term - key_term": "You divide the product by √D. The "
    "Gaussian's score has no such factor.",
    "products": "That is the dot product; both squared norms are missing.",
    "products - key_term": "The query's squared norm is missing. A softmax would not notice, "
    "but the task asks for the score itself.",
    "products - query_term": "The squared norm of the keys is missing, so keys of large norm "
    "score too high. This changes the weights.",
    "products - (query_term + key_term) / keys.shape[-1]": "A squared norm is the sum of the "
    "squares, not their mean.",
    f"products - ({LENGTHS}) / 2": "You subtract the norms; their squares are needed.",
}

write_distance_score = Exercise(
    **authoring.heading("3.4", "Distances without the differences", "medium", minutes=10),
    section="From distance to dot product",
    stub=distance_score,
    solution=distance_score_solution,
    explanation="The square expands into q · k and two squared norms, one number a query and one "
    "a key. No vector for each pair is needed. The price: where q and k are long and close to "
    "each other, large numbers cancel, and float32 has only seven digits.",
    hints=[
        "Expand -|q - k|²/2 on paper. Which of the three terms depends on the pair?",
        "All q · k at once are one matrix product, `(*, Q, K)`. A query's squared norm belongs "
        "to all of its row, a key's to all of its column.",
        "Shape `(*, Q, 1)` spreads over a row's columns, `(*, 1, K)` over the rows; "
        "`unsqueeze(-1)` and `unsqueeze(-2)` make them.",
    ],
    cases=[
        Case(ONE_QUERY),
        Case(SQUARE, SEVERAL),
        Case((SQUARE[0], ONE_QUERY[1]), SEVERAL),
        *(Case(inputs, BATCH) for inputs in BATCHES),
    ],
    mistakes=[
        *instead_of(SCORES, INSTEAD),
        Mistake(
            {"sum(dim=-1).unsqueeze(-1)": "sum()", "sum(dim=-1).unsqueeze(-2)": "sum()"},
            "`.sum()` without an axis adds up the squares of all vectors. Each query and each key "
            "has a squared norm of its own: `dim=-1`.",
        ),
    ],
    shapes=lambda _, queries, keys: {
        keys.shape[:-1]: "Query i meets key i only, and a single query is copied.",
        (*keys.shape[:-1], keys.shape[-2]): "The keys' squared norms stand in a column, where "
        "broadcasting gives one to each query. The scores have a column for each key.",
        (*queries.shape[:-1], keys.shape[-2]): "(*, Q, K)",
    },
    steps=[gradients_flow(), too_much_work],
)
