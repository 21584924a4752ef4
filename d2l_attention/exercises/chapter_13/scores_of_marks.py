"""13.8: which mark the query of each letter finds, by four matrices of two heads."""

import torch

from d2l_attention.exercises.authoring import Case, Exercise, Mistake, heading, instead_of, normal


def scores_of_marks(letters, W_v, W_o, W_q, W_k):
    """letters (n, D), a row each; W_v, W_q, W_k (D, d), W_o (d, D) -> scores (n, n).

    W_v and W_o are of the head that writes the marks, W_q and W_k of the head that looks for them.
    Row a, column b: the query of letter a with the key that is made from the mark of letter b,
    divided by the root of d. No norms. If d = 1 and all numbers are 2, the one score is 64.
    """
    ...


def scores_of_marks_solution(letters, W_v, W_o, W_q, W_k):
    marks = letters @ W_v @ W_o  # (n, D)
    queries, keys = letters @ W_q, marks @ W_k  # (n, d) each
    return queries @ keys.T / W_q.shape[1] ** 0.5


def random_case(seed, n, D, d):
    return normal(seed, (n, D), (D, d), (d, D), (D, d), (D, d))


# Two letters, two numbers each; every matrix does something else.
SMALL = (
    torch.tensor([[1.0, 0], [0, 1]]),
    torch.tensor([[1.0, 2], [0, 1]]),
    torch.tensor([[1.0, 0], [3, 1]]),
    torch.tensor([[2.0, 0], [1, 1]]),
    torch.tensor([[1.0, 1], [0, 2]]),
)
MARKS, QUERIES, KEYS = "letters @ W_v @ W_o", "letters @ W_q", "marks @ W_k"
SCORES, ROOT = "queries @ keys.T", "W_q.shape[1] ** 0.5"

write_scores_of_marks = Exercise(
    **heading("13.8", "Who looks for which mark?", "medium", minutes=10),
    section="All letters at once",
    hints=[
        "Three products with one vector became one score above. With all letters as the rows of a "
        "matrix, the same products serve: `letters @ W_q` are all queries.",
        "The head of layer 1 reads the letters and writes `letters @ W_v @ W_o`, (n, D). From "
        "these marks, and not from the letters, the keys are made.",
        "`queries @ keys.T` has a row for each query and a column for each key. Divide by the "
        "root of d, the columns of W_q.",
    ],
    stub=scores_of_marks,
    solution=scores_of_marks_solution,
    explanation="The keys of one head are made from what another one wrote: this is K-composition. "
    "As no step but products is left, all could be one matrix between two letters: "
    "W_q, then the transposes of W_k, W_o and W_v. Where its diagonal wins, each letter looks for "
    "tokens that have the same letter before them.",
    cases=[
        Case(SMALL),
        Case(random_case(0, 5, 4, 3), because="Here are 5 letters of 4 numbers, and d is 3."),
        Case(random_case(1, 7, 6, 2), because="Here are 7 letters of 6 numbers, and d is 2."),
    ],
    mistakes=[
        *instead_of(
            KEYS,
            {
                "letters @ W_k": "Your keys are made from the letters themselves. Layer 2 should "
                "find the *mark*: make them from what the head of layer 1 wrote.",
                "(letters + marks) @ W_k": "You add to each letter its own mark. The token that "
                "carries the mark is another letter: make the keys from the marks alone.",
                "marks @ W_q": "Your keys are made with W_q. That matrix is for the token that "
                "looks; W_k makes the keys.",
            },
        ),
        *instead_of(
            QUERIES,
            {
                "marks @ W_q": "Your queries are made from the marks. The letter that looks needs "
                "no mark: its query is made from its own vector.",
                "letters @ W_k": "Your queries are made with W_k. W_q is the matrix of the token "
                "that looks.",
            },
        ),
        Mistake(
            {QUERIES: "marks @ W_q", KEYS: "letters @ W_k"},
            "Here the query has the mark and the key has none. It is the other way round: the "
            "token that is looked at carries the mark.",
        ),
        *instead_of(
            MARKS,
            {
                "letters @ W_v @ W_o.T": "Your W_o is transposed. With rows as vectors, each "
                "matrix is multiplied from the right as it is.",
                "letters @ W_v.T @ W_o": "Your W_v is transposed. With rows as vectors, each "
                "matrix is multiplied from the right as it is.",
                "letters @ W_o @ W_v": "W_v comes first: it makes the value, from which W_o makes "
                "what is written.",
                "letters @ W_v": "Your mark is a value only. The head writes it with W_o.",
            },
        ),
        *instead_of(
            SCORES,
            {
                "keys @ queries.T": "Your table is transposed: a row for each query, a column for "
                "each key.",
                "queries @ keys": "The product of a query and a key is a number: transpose the "
                "keys.",
            },
        ),
        *instead_of(
            ROOT,
            {
                "1": "Divide by the root of d.",
                "W_q.shape[1]": "Divide by the *root* of d.",
            },
        ),
        Mistake(
            {ROOT: "W_q.shape[0] ** 0.5"},
            "You divide by the root of D, the size of a "
            "letter's vector. It is the root of d, the size of a query.",
        ),
        Mistake(
            {f"return {SCORES} / {ROOT}": f"return ({SCORES} / {ROOT}).softmax(dim=-1)"},
            "These are weights. The scores are asked for, before the softmax.",
        ),
    ],
    shapes={None: "A row for each query and a column for each key: (n, n)."},
    errors={
        "cannot be multiplied": "Rows are vectors: (n, D) @ (D, d) makes a query, key or value, "
        "and (n, d) @ (d, D) what a head writes.",
    },
)
