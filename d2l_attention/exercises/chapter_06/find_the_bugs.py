"""6.5: three bugs, one of them silent where batch and heads are of one size."""

import torch

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, heading, instead_of, normal


def attend_in_heads_solution(queries, keys, values, mask, num_heads):
    q, k, v = (X.unflatten(-1, (num_heads, -1)).transpose(1, 2) for X in (queries, keys, values))
    scores = q @ k.mT / q.shape[-1] ** 0.5
    # (B, 1, Q, K): one mask a sentence, the same for each of its heads.
    weights = scores.masked_fill(~mask[:, None], -torch.inf).softmax(dim=-1)
    return (weights @ v).transpose(1, 2).reshape(queries.shape)


ROOT, MASK, MERGE = "q.shape[-1] ** 0.5", "~mask[:, None]", "transpose(1, 2).reshape(queries.shape)"
COMMENT = "    # (B, 1, Q, K): one mask a sentence, the same for each of its heads.\n"
CUT = "unflatten(-1, (num_heads, -1)).transpose(1, 2)"
BY_VIEW = {CUT: "reshape(len(X), num_heads, X.shape[1], -1)"}

SCALED_BY_ALL = Mistake(
    {ROOT: "queries.shape[-1] ** 0.5"},
    "The scores are divided by the root of D, the width of all heads together. A score sums up "
    "the products of one head.",
)
NO_AXIS = Mistake(
    {COMMENT: "", MASK: "~mask"},
    "Your mask has no axis for the heads. Beside scores (B, H, Q, K) a mask (B, Q, K) is read as "
    "(1, B, ...): where B = H nothing stops, and the second head of every sentence gets the second "
    "sentence's mask. (Where they differ and neither is 1, you see an error.)",
)
RESHAPED = Mistake(
    {f".{MERGE}": ".reshape(queries.shape)"},
    "A `reshape` of (B, H, Q, D / H) moves no number, so all of the first head comes out first, "
    "then all of the second. Which two axes have to change places before it?",
)


def random_case(seed, H, B, Q, K, D):
    """Every query sees the first key, and others by chance."""
    inputs = normal(seed, (B, Q, D), (B, K, D), (B, K, D))
    mask = normal(seed + 100, (B, Q, K))[0] > 0
    mask[..., 0] = True
    return (*inputs, mask, H)


# A single query: nothing to mix up in the merge. A single sentence: no mask to mix up.
SCALE = (
    torch.tensor([[[1.0, 2, 0, 1, 1, 1]]]),
    torch.tensor([[[1.0, 0, 1, 0, 1, 0], [0, 0, 0, 2, 0, 1]]]),
    torch.tensor([[[1.0, 2, 3, 4, 5, 6], [6, 8, 3, 5, 9, 1]]]),
    torch.ones(1, 1, 2, dtype=torch.bool),
    2,
)
# Each token sees itself alone: whatever the scores, the output has to be the values.
ITSELF = (
    torch.zeros(1, 3, 2),
    torch.zeros(1, 3, 2),
    torch.tensor([[[1.0, 2], [3, 4], [5, 6]]]),
    torch.eye(3, dtype=torch.bool)[None],
    2,
)
# Equal scores and one query a sentence: the output is the mean of the values that it sees.
VALUES = torch.tensor([[[2.0, 4], [6, 8]], [[10, 20], [30, 40]], [[1, 3], [5, 7]]])
SEES = torch.tensor([[[True, False]], [[True, True]], [[True, False]]])


def means(sentences):
    zeros = torch.zeros(sentences, 2, 2)
    return (zeros[:, :1], zeros, VALUES[:sentences], SEES[:sentences], 2)


MEANS = "All scores are 0 here, so each head gives the mean of what its sentence shows."
AS_MANY = "With two sentences and two heads your function is right, with other numbers it is not."
OTHERS = [(1, 2, 2, 4, 3, 6), (2, 3, 2, 3, 5, 6), (3, 1, 3, 2, 4, 5), (4, 5, 2, 4, 4, 5)]
STOPS_AT_ONE = {
    "": (
        "Your function stops at a single sentence with two heads. Look at the axes: where do your "
        "mask and your merge expect each of them?"
    )
}


def shapes(result, queries, *others):
    batch, Q, D = queries.shape
    H = others[-1]
    return {
        None: "The output is as long and as wide as the queries.",
        (batch, Q, D // H): "The heads should stand end to end: do not sum them.",
        (batch, Q, H, D // H): "The heads still have an axis: join the last two.",
        (batch, H, Q, D // H): "The merge is missing.",
        (batch, Q, D): "(B, Q, D)",
    }


find_the_bugs = Exercise(
    **heading("6.5", "It ran with two sentences and two heads", "medium", minutes=15),
    section="One mask for all heads",
    stub=authoring.with_mistakes(
        attend_in_heads_solution, SCALED_BY_ALL, NO_AXIS, RESHAPED, name="attend_in_heads"
    ),
    solution=attend_in_heads_solution,
    explanation="`queries` is still the uncut tensor, so its last axis is D; a head's is D / H. "
    "The mask was read as (1, B, Q, K): for three sentences and two heads that is an error, "
    "for B = H it silently gives head h the mask of sentence h. And `reshape` without "
    "`transpose` writes one head's answers to several queries into one token. Give every axis "
    "of a test its own size, and test equal sizes as well.",
    hints=[
        "One bug at a time. With a mask of `torch.eye(n, dtype=torch.bool)[None]` every token "
        "sees itself alone: what must come out, and what does? Then one query, one sentence.",
        "Ask three questions: how many products does one score sum up? In which order does "
        "`reshape` read (B, H, Q, D / H)? And whose mask does the second head get?",
        "Broadcasting lines axes up from the end: beside (B, H, Q, K), a mask (B, Q, K) lays its "
        "B on H. Run it with three sentences and two heads.",
    ],
    cases=[
        Case(SCALE, errors=STOPS_AT_ONE),
        Case(means(1)),
        Case(
            ITSELF,
            because="Each token sees itself alone here, so the output should be the values.",
            errors=STOPS_AT_ONE,
        ),
        Case(random_case(0, 2, 1, 5, 3, 14), errors=STOPS_AT_ONE),
        Case(means(2), MEANS),
        Case(means(3), AS_MANY),
        *(Case(random_case(*sizes), AS_MANY) for sizes in OTHERS),
    ],
    mistakes=[
        SCALED_BY_ALL,
        NO_AXIS,
        RESHAPED,
        *instead_of(
            f" / {ROOT}",
            {
                "": "The scores are not divided at all. The division stays; its number was wrong.",
                " / q.shape[-1]": "The scores are divided by the head's width, not by its root.",
            },
        ),
        *instead_of(
            f"masked_fill({MASK}, -torch.inf).softmax(dim=-1)",
            {
                "masked_fill(mask[:, None], -torch.inf).softmax(dim=-1)": "You hide what may be "
                "seen. True means 'may attend', and `masked_fill` writes where it is given True: "
                "`~mask` was no bug.",
                "softmax(dim=-1)": "The mask does nothing any more.",
            },
        ),
        Mistake(
            BY_VIEW,
            "The merge is right now, but the heads are cut by `view` alone; the cut was no bug.",
        ),
    ],
    shapes=shapes,
    steps=[authoring.gradients_flow("queries", "keys", "values")],
    pairs=False,  # the cases show one bug at a time
)
