"""11.3: one matrix for two: the projection of the keys, absorbed into that of the queries."""

import torch

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, in_dtype, instead_of, normal


def absorb(W_q, W_uk):
    """One matrix for each head: W_q (H, d, D), W_uk (H, d, L) -> M (H, D, L).

    The score of a token x (D,) and a latent c (L,) is (x W_q^T) . (c W_uk^T) = x M c^T. With
    W_q = [[[2, 0]]] and W_uk = [[[3, 5]]] (one head, d = 1) M is [[[6, 10], [0, 0]]].
    """
    ...


def absorb_solution(W_q, W_uk):
    return W_q.mT @ W_uk  # (H, D, d) @ (H, d, L)


SQUARE = normal(0, (1, 3, 3), (1, 3, 3))  # all sizes equal: a turned matrix fits, and is named
HEADS = normal(1, (2, 3, 3), (2, 3, 3))
SIZES = normal(2, (3, 4, 7), (3, 4, 5))
PRODUCT = "W_q.mT @ W_uk"

write_absorb = Exercise(
    **authoring.heading("11.3", "Absorb the projection", "medium", minutes=10),
    section="The absorbed form",
    hints=[
        "Write the score with a transpose: for rows a and b, the product a . b is a b^T.",
        "(x W_q^T) (c W_uk^T)^T = x W_q^T W_uk c^T. Which part of it depends on neither x nor c?",
        "`.mT` exchanges the last two axes, and `@` multiplies head by head.",
    ],
    stub=absorb,
    solution=absorb_solution,
    explanation="x W_q^T W_uk c^T: the two matrices in the middle are known before any token "
    "comes. M is (D, L), but it is a product of a (D, d) and a (d, L) matrix, so its rank is at "
    "most d. With D = 7,168, L = 512 and d = 128 M has 3.7 million numbers and the two factors "
    "have less than a million. So models keep the factors and apply them one after the other.",
    cases=[
        Case(SQUARE),
        Case(HEADS, because="For one head it was right, for two it is not."),
        Case(SIZES, because="With equal sizes it was right, with d = 4, D = 7, L = 5 it is not."),
        Case(in_dtype(SIZES, torch.float64)),
    ],
    mistakes=[
        *instead_of(
            PRODUCT,
            {
                "W_q @ W_uk": "W_q is not transposed. The sum of the score runs over d, the rows "
                "of both matrices.",
                "W_q @ W_uk.mT": "Your sum runs over the columns. The sum of the score runs over "
                "d, the rows of both matrices.",
                "W_uk.mT @ W_q": "Your matrix is transposed: rows belong to x, columns to c.",
                "W_q.mT @ W_uk / W_q.shape[-2] ** 0.5": "You divide by the root of d. The score "
                "here is the plain product, the softmax's scale comes later.",
                "W_q * W_uk": "`*` multiplies entry by entry. The score sums over d.",
            },
        ),
        Mistake(
            {PRODUCT: "(W_q.mT @ W_uk).sum(dim=0, keepdim=True).expand(len(W_q), -1, -1)"},
            "The heads are summed. Each head keeps a matrix of its own.",
        ),
    ],
    shapes={None: "M is (H, D, L): a row for each number of x, a column for each of c."},
    errors={"must match": "The product does not fit: d is the middle axis of both matrices."},
    steps=[authoring.gradients_flow("W_q", "W_uk")],
)
