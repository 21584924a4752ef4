"""3.4: the Gaussian's score from squared lengths."""

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from d2l_attention import gaussian_score
from d2l_attention.exercises.attempt import Attempt, Raised
from d2l_attention.exercises.chapter_03 import distance_mistakes as mistakes
from d2l_attention.exercises.chapter_03.cases import BATCHES, also_right_for
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.steps import agrees, like, unlike


def distance_score(queries, keys): ...


def distance_score_solution(queries, keys):
    products = queries @ keys.transpose(-2, -1)
    query_term = queries.square().sum(dim=-1).unsqueeze(-1) / 2  # (*, Q, 1): one for a row
    key_term = keys.square().sum(dim=-1).unsqueeze(-2) / 2  # (*, 1, K): one for a column
    return products - query_term - key_term


# Products 3, 4, 8 and squared distances 1, 13, 18: no two mistakes give the same numbers.
ONE_QUERY = (torch.tensor([[2.0, 1.0]]), torch.tensor([[1.0, 1.0], [0.0, 4.0], [5.0, -2.0]]))
# As many queries as keys: a squared length in the wrong place raises no error.
SQUARE = (torch.tensor([[2.0, 1.0], [0.0, 1.0]]), torch.tensor([[1.0, 1.0], [0.0, 4.0]]))
UNEQUAL = (SQUARE[0], ONE_QUERY[1])


class Watch(TorchDispatchMode):
    """Counts PyTorch's operations and keeps the shape of the largest tensor they make."""

    def __init__(self) -> None:
        super().__init__()
        self.operations, self.largest = 0, torch.Size()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        made = operation(*args, **(kwargs or {}))
        self.operations += 1
        if isinstance(made, Tensor) and made.numel() > self.largest.numel():
            self.largest = made.shape
        return made


def watched(attempt: Attempt, *sizes: int) -> Watch:
    num_queries, num_keys, size = sizes
    with Watch() as watch:
        attempt(torch.ones(num_queries, size), torch.ones(num_keys, size))
    return watch


def vector_for_each_pair(attempt: Attempt) -> str | None:
    largest = watched(attempt, 13, 17, 19).largest
    if largest.numel() < 13 * 17 * 19:
        return None
    return (
        "The scores are right, but on the way there your function makes a tensor of shape "
        f"{tuple(largest)} for 13 queries and 17 keys of size 19: a whole vector for each pair. "
        "Expand the square; what is left for each pair is one number."
    )


def loop(attempt: Attempt) -> str | None:
    few = watched(attempt, 3, 3, 3).operations
    for index, what in enumerate(("queries", "keys", "coordinates")):
        sizes = [3, 3, 3]
        sizes[index] = 23
        many = watched(attempt, *sizes).operations
        if many > few:
            return (
                f"The scores are right, but the more {what} there are, the more operations your "
                f"function takes: a loop over the {what}. One matrix product does all pairs at "
                "once."
            )
    return None


def a_length_in_the_wrong_place(attempt: Attempt) -> str | None:
    """Before the other steps: what broadcasting makes of it has many shapes."""
    try:
        scores = attempt(*ONE_QUERY)
    except Raised:
        return None  # the next step tells
    case = f"Smallest case that shows it: {attempt.case(ONE_QUERY)}."
    if isinstance(scores, Tensor) and scores.shape == (3,):
        return (
            "One query and three keys should give scores of shape (1, 3), a row for each query; "
            f"yours have shape (3,). Query i meets key i only, and a single query is copied. {case}"
        )
    if isinstance(scores, Tensor) and scores.shape == (3, 3):
        return (
            "One query and three keys give you scores of shape (3, 3): the keys' squared lengths "
            "stand in a column, where broadcasting gives one to each query. The scores have a "
            f"column for each key. {case}"
        )
    return None


def pairs_only(queries, keys):
    return -(queries - keys).square().sum(-1) / 2


def keys_lengths_in_a_column(queries, keys):
    squares = keys.square().sum(-1, keepdim=True) + queries.square().sum(-1, keepdim=True)
    return queries @ keys.mT - squares / 2


def queries_lengths_in_a_row(queries, keys):
    return queries @ keys.mT - (keys.square().sum(-1) + queries.square().sum(-1)) / 2


def one_sentence_only(queries, keys):
    lengths = queries.square().sum(1)[:, None] + keys.square().sum(1)[None, :]
    return queries @ keys.mT - lengths / 2


def key_lengths_without_an_axis(queries, keys):
    lengths = queries.square().sum(-1, keepdim=True) + keys.square().sum(-1)
    return queries @ keys.mT - lengths / 2


def all_differences(queries, keys):
    differences = queries.unsqueeze(-2) - keys.unsqueeze(-3)
    return -differences.pow(2).sum(-1) / 2


def the_packages_own(queries, keys):
    return gaussian_score(queries, keys)


def loop_over_the_queries(queries, keys):
    rows = [-(q.unsqueeze(-2) - keys).square().sum(-1) / 2 for q in queries.unbind(-2)]
    return torch.stack(rows, dim=-2)


def loop_over_coordinates(queries, keys):
    pairs = zip(queries.unbind(-1), keys.unbind(-1), strict=True)
    return -sum((q[..., :, None] - k[..., None, :]) ** 2 for q, k in pairs) / 2


write_distance_score = Exercise(
    id="3.4",
    title="Distances without the differences",
    task=(
        "Complete `distance_score(queries, keys)`: equal to `gaussian_score(queries, keys)` for "
        "`queries` (*, Q, D) and `keys` (*, K, D), but without a (Q, K, D) tensor on the way "
        "and without a loop. Squared lengths and a matrix product are enough."
    ),
    difficulty="medium",
    minutes=10,
    hints=[
        "Expand -|q - k|²/2 on paper. Which of the three terms depends on the pair?",
        "All q · k at once are one matrix product, `(*, Q, K)`. A query's squared length belongs "
        "to all of its row, a key's to all of its column.",
        "Shape `(*, Q, 1)` spreads over a row's columns, `(*, 1, K)` over the rows; "
        "`unsqueeze(-1)` and `unsqueeze(-2)` make them.",
    ],
    stub=distance_score,
    solution=distance_score_solution,
    explanation=(
        "The square expands into q · k and two squared lengths, one number a query and one a "
        "key. No vector for each pair is needed. The price: where q and k are long and close to "
        "each other, large numbers cancel, and float32 has only seven digits."
    ),
    steps=[
        a_length_in_the_wrong_place,
        like(gaussian_score, [ONE_QUERY]),
        *(unlike(mistake, why, ONE_QUERY) for mistake, why in mistakes.MISTAKES),
        agrees(gaussian_score, [ONE_QUERY]),
        also_right_for(
            gaussian_score,
            [SQUARE, UNEQUAL],
            "For a single query your scores are right, for two they are not. Where does each "
            "squared length belong? A query's to its row: shape (Q, 1). A key's to its column: "
            "shape (1, K).",
        ),
        also_right_for(
            gaussian_score,
            BATCHES,
            "For one sentence your scores are right, for a batch they are not. Count axes from "
            "the end (-1, -2), and give the squared lengths an axis of size 1 where the other "
            "side's count belongs: (*, Q, 1) and (*, 1, K).",
        ),
        vector_for_each_pair,
        loop,
    ],
    wrong=[
        Wrong(mistakes.without_the_half, "twice what it should be"),
        Wrong(mistakes.sign_forgotten, "The sign is wrong"),
        Wrong(mistakes.squared_distance, "That is the squared distance"),
        Wrong(mistakes.root_of_the_square, "minus the distance"),
        Wrong(mistakes.half_of_the_root, "is not squared"),
        Wrong(mistakes.kernel_itself, "That is the kernel"),
        Wrong(mistakes.product_not_doubled, "a middle term with a 2"),
        Wrong(mistakes.squares_not_halved, "twice as much as they should"),
        Wrong(mistakes.product_with_the_wrong_sign, "q and minus k"),
        Wrong(mistakes.product_scaled, "by √D"),
        Wrong(mistakes.products, "both squared lengths are missing"),
        Wrong(mistakes.query_term_left_out, "The softmax would not notice"),
        Wrong(mistakes.key_term_left_out, "the fee that long keys pay"),
        Wrong(mistakes.lengths_not_squared, "the squares of the lengths"),
        Wrong(mistakes.mean_of_the_squares, "not their mean"),
        Wrong(mistakes.sum_over_everything, "without an axis"),
        Wrong(mistakes.absolute_differences, "it should add squares"),
        Wrong(mistakes.weights_instead_of_scores, "These are the weights"),
        Wrong(pairs_only, "Query i meets key i only"),
        Wrong(keys_lengths_in_a_column, "stand in a column"),
        Wrong(queries_lengths_in_a_row, "Where does each squared length belong?"),
        Wrong(one_sentence_only, "for a batch they are not"),
        Wrong(key_lengths_without_an_axis, "for a batch they are not"),
        Wrong(all_differences, "a whole vector for each pair"),
        Wrong(the_packages_own, "a whole vector for each pair"),
        Wrong(loop_over_the_queries, "a loop over the queries"),
        Wrong(loop_over_coordinates, "a loop over the coordinates"),
    ],
)
