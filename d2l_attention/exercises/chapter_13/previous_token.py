"""13.6: of all heads of a model, the one that looks at the token before."""

import torch

from d2l_attention.exercises.authoring import Case, Exercise, heading, instead_of, normal


def previous_token_head(weights):
    """weights (L, H, n, n) of L layers with H heads -> (layer, head), two ints from 0 on.

    The head that looks most at the token before, over all tokens that have one. Token i looks at
    token j with weights[l, h, i, j]: the map [[1, 0, 0], [1, 0, 0], [0, 1, 0]] always looks there.
    """
    ...


def previous_token_head_solution(weights):
    scores = weights.diagonal(-1, dim1=-2, dim2=-1).mean(dim=-1)  # (L, H)
    return divmod(int(scores.argmax()), weights.shape[1])


def head(*rows):
    """Weights in tenths."""
    return torch.tensor(rows) / 10


BEFORE = head([10, 0, 0, 0], [7, 3, 0, 0], [1, 7, 2, 0], [1, 1, 7, 1])
ITSELF = head([10, 0, 0, 0], [1, 9, 0, 0], [0, 1, 9, 0], [0, 0, 1, 9])
FIRST = head([10, 0, 0, 0], [10, 0, 0, 0], [9, 1, 0, 0], [9, 0, 1, 0])
AHEAD = head([1, 9, 0, 0], [0, 1, 9, 0], [0, 0, 1, 9], [0, 0, 1, 9])  # an encoder's
LATE = head([10, 0, 0, 0], [0, 10, 0, 0], [5, 0, 5, 0], [0, 0, 10, 0])
EVEN = head([10, 0, 0, 0], [5, 5, 0, 0], [4, 3, 3, 0], [3, 3, 2, 2])


PAIRS = (
    torch.tensor(
        [[[[1, 0], [0.4, 0.6]], [[1, 0], [0.9, 0.1]]], [[[1, 0], [0.3, 0.7]], [[1, 0], [0.2, 0.8]]]]
    ),
)


def layers(*several):
    return (torch.stack([torch.stack(each) for each in several]),)


def random_case(seed, L, H, n, layer, head):
    """Causal weights by chance, and one head that prefers the token before."""
    (scores,) = normal(seed, (L, H, n, n))
    scores[layer, head] += 3 * torch.ones(n, n).tril(-1).triu(-1)
    hidden = ~torch.ones(n, n, dtype=torch.bool).tril()
    return (scores.masked_fill(hidden, -torch.inf).softmax(dim=-1),)


FLAT = "divmod(int(scores.argmax()), weights.shape[1])"
DIAGONAL = "weights.diagonal(-1, dim1=-2, dim2=-1).mean(dim=-1)"

find_previous_token_head = Exercise(
    **heading("13.6", "Find the head that looks back", "medium", minutes=12),
    section="Two scores for a head",
    pairs=False,
    hints=[
        "Where in a map (n, n) are the weights of each token on the token before? Draw one for "
        "n = 4.",
        "They are the diagonal below the main one: `weights[..., i, i - 1]` for i = 1 to n - 1. "
        "Their mean is a score for each head, (L, H).",
        "`diagonal(-1, dim1=-2, dim2=-1)` takes them all. `argmax()` counts through all entries, "
        "one layer after the other: divide by H; the rest is the head.",
    ],
    stub=previous_token_head,
    solution=previous_token_head_solution,
    explanation="A mean over the diagonal below the main one asks exactly for this habit. A head "
    "that looks at the first token, or at itself, gets a low score. In the chapter's model of "
    "two layers such a head is the first half of induction: it writes at each token what came "
    "before it. A score says where a head looks, not what the model would lose without it: for "
    "that it is taken away.",
    cases=[
        Case(PAIRS),
        Case(layers([ITSELF], [BEFORE]), because="Here are 2 layers of one head, and 4 tokens."),
        Case(layers([BEFORE, FIRST]), because="Here is one layer of two heads, and 4 tokens."),
        Case(layers([FIRST, FIRST], [AHEAD, BEFORE]), because="Here are 2 layers of 2 heads."),
        Case(layers([FIRST, EVEN], [AHEAD, LATE], [EVEN, BEFORE]), because="Here are 3 layers."),
        Case(random_case(0, 2, 5, 6, 1, 3), because="Here are 2 layers of 5 heads."),
        Case(random_case(2, 3, 4, 20, 0, 1), because="Here are 3 layers of 4 heads."),
    ],
    mistakes=[
        *instead_of(
            DIAGONAL,
            {
                "weights.diagonal(0, dim1=-2, dim2=-1).mean(dim=-1)": "You look at the main "
                "diagonal: how much a token looks at itself.",
                "weights.diagonal(1, dim1=-2, dim2=-1).mean(dim=-1)": "You look at the diagonal "
                "above the main one: the token *after*. Rows are the tokens that look.",
                "weights[..., -1, -2]": "You look at the last token only. One token is not a "
                "habit: take the mean over all that have a token before them.",
                "weights[..., 0].mean(dim=-1)": "You look at the first column: how much all look "
                "at token 0.",
                "weights.diagonal(-1, dim1=-2, dim2=-1).amax(dim=-1)": "You take the largest of a "
                "head's weights on the token before. One token is not a habit: take the mean.",
            },
        ),
        *instead_of(
            FLAT,
            {
                "divmod(int(scores.argmax()), weights.shape[0])": "You divide by the number of "
                "layers. A layer has H entries: divide by `weights.shape[1]`.",
                f"{FLAT}[::-1]": "The layer comes first, then the head.",
                "tuple(i + 1 for i in divmod(int(scores.argmax()), weights.shape[1]))": "Count "
                "layers and heads from 0.",
                "(int(scores.mean(dim=1).argmax()), int(scores.mean(dim=0).argmax()))": "You "
                "choose layer and head apart from each other. The best head need not be in the "
                "layer that is best on average.",
            },
        ),
    ],
    shapes=lambda *_: "Return two whole numbers, `(layer, head)`.",
    errors={
        "out of range": "`diagonal` with the last two axes: `dim1=-2, dim2=-1`.",
        "only one element": "`argmax()` without `dim` gives one number, counted through all heads.",
        "converted to Scalar": "`argmax()` without `dim` gives one number, counted through all.",
    },
)
