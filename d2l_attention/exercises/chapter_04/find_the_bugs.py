"""4.6: three bugs in four lines. Each is found by its own small case."""

import torch

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, heading, instead_of, normal


def attend_solution(queries, keys, values, valid_lens):
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    hidden = torch.arange(keys.shape[1]) >= valid_lens[:, None, None]
    weights = scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(dim=-1)
    return weights.masked_fill(hidden, 0.0) @ values


LOWEST, CLEAR = "torch.finfo(scores.dtype).min", "weights.masked_fill(hidden, 0.0)"
INFINITE = {LOWEST: "-torch.inf", CLEAR: "weights"}
HIDE = f"scores.masked_fill(hidden, {LOWEST})"
OVER_QUERIES = Mistake(
    {"dim=-1": "dim=1"},
    "That is the sum of the values: each key got weight 1. Which axis holds the keys?",
)
ONE_TOO_MANY = Mistake(
    {">=": ">"}, "That is the mean of three values. Length 2 shows keys 0 and 1; what about key 2?"
)
FROM_PADDING = Mistake(
    {CLEAR: "weights"},
    "A query with nothing to see gets an answer from padding: all its scores are equally low.",
)


def equal_scores(*values, length):
    """One query that scores every key 0: the answer is the mean of the values it sees."""
    column = torch.tensor(values)[None, :, None]
    return torch.zeros(1, 1, 1), torch.zeros_like(column), column, torch.tensor([length])


def random_case(seed, Q, lens):
    B = len(lens)
    return *normal(seed, (B, Q, 7), (B, 5, 7), (B, 5, 11)), torch.tensor(lens)


KEYS = torch.tensor([[[1.0, 0, 0, 0], [0, 0, 0, 0]]])
VALUES = torch.tensor([[[1.0], [5]]])
LONG_QUERY = (2 * KEYS[:, :1], KEYS, VALUES, torch.tensor([2]))
LOW_WORD = (-1e19 * KEYS[:, :1], 1e19 * KEYS, VALUES, torch.tensor([1]))  # the padding scores 0
STOPS_AT_THREE = {
    "Boolean value": "An `if` takes one yes or no, and three lengths give three.",
    "": "Your function is right for one sentence and stops at three: (B,) lengths must line up "
    "with scores of (B, Q, K).",
}

find_the_bugs = Exercise(
    **heading("4.6", "Three bugs", "medium", minutes=15),
    section="Build the masked softmax",
    stub=authoring.with_mistakes(
        attend_solution, OVER_QUERIES, ONE_TOO_MANY, FROM_PADDING, name="attend"
    ),
    solution=attend_solution,
    explanation="The softmax ran over the queries (`dim=1`) instead of the keys. `>` let one "
    "padding through: positions count from 0, so length 2 hides from position 2 on. And a row of "
    "equally low scores is a row of equal weights: they are cleared after the softmax.",
    hints=[
        "One bug at a time, with small cases: one query, equal scores (queries and keys of "
        "zeros), so that each answer is a plain mean that you can do in your head.",
        "Three questions. Whose weights sum to 1? Which keys does a length of 2 show? What does "
        "a length of 0 give?",
        "The third bug needs one more step: no number that you fill in before the softmax makes "
        "a row of zeros.",
    ],
    cases=[
        Case(equal_scores(2.0, 4.0, length=2)),
        Case(equal_scores(2.0, 4.0, 9.0, 21.0, length=2)),
        Case(equal_scores(2.0, 4.0, length=0)),
        Case(LONG_QUERY),
        Case(random_case(0, 2, [5])),
        Case(random_case(1, 2, [0, 3, 5]), errors=STOPS_AT_THREE),
        Case(random_case(2, 3, [4, 1, 5])),  # B = Q: axes can be mixed up without an error
        Case(random_case(3, 5, [4, 0])),  # Q = K
        Case(LOW_WORD, "A word may score less than what you hide with: then padding wins."),
    ],
    mistakes=[
        OVER_QUERIES,
        ONE_TOO_MANY,
        FROM_PADDING,
        Mistake({">=": "<"}, "Both keys are visible, and the answer is 0. What is hidden?"),
        Mistake(
            {HIDE: "scores", CLEAR: "weights"},
            "That is the mean of all four values. Is no key hidden, or hidden with a usual score?",
        ),
        Mistake({HIDE: "scores"}, "The padding took its share in the softmax. Hide the scores."),
        Mistake(INFINITE, "A query with nothing to see gets NaN: its softmax divides 0 by 0."),
        *instead_of(
            "queries.shape[-1] ** 0.5",
            {
                "1": "The division by the root of D was no bug.",
                "keys.shape[1] ** 0.5": "You divide by the root of K. That of D was no bug.",
            },
        ),
    ],
    steps=[authoring.gradients_flow("queries", "keys", "values")],
    pairs=False,  # the cases show one bug at a time
)
