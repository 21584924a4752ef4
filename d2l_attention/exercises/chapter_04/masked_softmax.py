"""4.2: the masked softmax itself, with all its traps."""

import torch

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, in_dtype, instead_of, normal


def my_masked_softmax(scores, mask):
    """Weights over the keys: scores and a boolean mask (*, Q, K) -> (*, Q, K).

    Scores [[0, 0, 5], [1, 2, 3]] with the mask [[True, True, False], [False, False, False]]
    give [[0.5, 0.5, 0], [0, 0, 0]].
    """
    ...


def my_masked_softmax_solution(scores, mask):
    lowest = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(~mask, lowest).softmax(dim=-1)
    # A row with nothing to attend to holds equal weights now.
    return weights.masked_fill(~mask, 0.0)


def random_case(seed, *shape):
    """Every query sees at least the first key."""
    scores, chance = normal(seed, shape, shape)
    return scores, (chance > 0) | (torch.arange(shape[-1]) == 0)


def first_only(*scores):
    return torch.tensor([scores]), torch.tensor([[True, False]])


SMALL = (torch.tensor([[1.0, 1], [1, 2]]), torch.tensor([[True, False], [True, True]]))
BLIND = (torch.tensor([[1.0, 2.0]]), torch.tensor([[False, False]]))
PARTLY_BLIND = (torch.zeros(2, 3), torch.tensor([[True, True, False], [False, False, False]]))
STOPS = "Your function works on one (Q, K) matrix and stops at a batch of them."
HIGH_PADDING = (
    "The hidden key scores 200. In an unmasked softmax it takes everything, and no division brings "
    "back what was rounded to 0; its bare exponential is infinite, and 0 times infinity is NaN."
)
LOW_WORD = "The visible key scores -200. Its bare exponential rounds to 0, and 0/0 is NaN."
HALF_PRECISION = "In half precision a number below -65504, assigned, is minus infinity."
LOWEST_WORD = "A visible score lower than the number that you hide with loses to the hidden key."
HIDE, CLEAR = "scores.masked_fill(~mask, lowest)", "weights.masked_fill(~mask, 0.0)"
NO_MASK = {HIDE: "scores", CLEAR: "weights"}
INFINITE = {"lowest)": "-torch.inf)", CLEAR: "weights"}

write_masked_softmax = Exercise(
    **authoring.heading("4.2", "Write the masked softmax", "medium", minutes=10),
    section="Build the masked softmax",
    stub=my_masked_softmax,
    solution=my_masked_softmax_solution,
    explanation="The first fill takes hidden keys out of the sum, in any type; the second clears "
    "rows in which nothing is left, and leaves all others as they are.",
    hints=[
        "The mask acts on the scores, before the softmax: which score has exponential 0?",
        "`scores.masked_fill(~mask, number)` makes a new tensor, and `torch.finfo(scores.dtype)` "
        "knows the type's lowest number. What does softmax give for a row of nothing else?",
        "A second `masked_fill`, on the weights, clears such a row.",
    ],
    cases=[
        Case(first_only(1.0, 3.0)),
        Case(SMALL),
        Case(random_case(0, 3, 5)),
        Case(random_case(1, 2, 3, 5), errors={"": STOPS}),
        Case(first_only(0.0, 200.0), HIGH_PADDING),
        Case(in_dtype(first_only(1.0, 2.0), torch.float16)),
        Case(in_dtype(random_case(3, 4, 4), torch.float64)),
        Case(first_only(-200.0, 0.0), LOW_WORD),
        Case(BLIND),
        Case(in_dtype(BLIND, torch.float16), HALF_PRECISION),
        Case(PARTLY_BLIND),
        Case(first_only(-3e38, 0.0), LOWEST_WORD),
    ],
    mistakes=[
        Mistake(NO_MASK, "The hidden key keeps the weight that it has without a mask."),
        *instead_of(
            HIDE,
            {
                "scores": "The hidden key still took its share of the softmax. Mask the scores, "
                "before the softmax, so that the visible keys share all of the weight.",
                "(scores * mask)": "Your hidden key has the score 0 now, whose exponential is 1: "
                "multiplying hides no score.",
            },
        ),
        Mistake(
            {"~mask": "mask"},
            "You hid the visible key and kept the hidden one: True means 'may attend' here.",
            everywhere=True,
        ),
        Mistake({"dim=-1": "dim=-2"}, "Columns sum to 1: your softmax runs over the queries."),
        Mistake({CLEAR: "weights"}, "A row with nothing to see has weights: it averages padding."),
        Mistake(INFINITE, "A query with nothing to see gets NaN: softmax divides 0 by 0. Give 0."),
    ],
    errors={
        "overflow": "Your number for 'minus infinity' does not fit into half precision, which ends "
        "at -65504: ask the type of the scores for its lowest number, or take infinity itself."
    },
    steps=[authoring.gradients_flow("scores", why="What makes the scores could not learn.")],
)
