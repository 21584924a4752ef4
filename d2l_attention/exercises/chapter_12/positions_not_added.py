"""12.13: a positional encoding that is made and never added."""

import torch

from d2l_attention.exercises.authoring import Suspect
from d2l_attention.exercises.chapter_12._exhibit import exhibit


def embed(tokens, vectors, positions):
    X = vectors[tokens] * vectors.shape[1] ** 0.5  # (B, n, D)
    X = X + positions[: tokens.shape[1]]
    return X


def test_positions_arrive(embed):
    """Pass where a token's vector depends on its position; fail by an `AssertionError` otherwise.

    `embed(tokens, vectors, positions)` takes token numbers (B, n), the vectors of the vocabulary
    (V, D) and an encoding of the positions (max_len, D), and returns (B, n, D): each token's vector
    times the root of D, plus the row of its position.
    """
    ...


def test_positions_arrive_solution(embed):
    vectors, positions = torch.randn(5, 8), torch.randn(16, 8)
    X = embed(torch.tensor([[3, 3, 1]]), vectors, positions)
    torch.testing.assert_close(X[0, 1] - X[0, 0], positions[1] - positions[0])


positions_not_added = exhibit(
    id="12.13",
    title="Positions that never arrive",
    difficulty="easy",
    minutes=5,
    right=embed,
    bug={"X = X + positions[: tokens.shape[1]]": "X + positions[: tokens.shape[1]]"},
    what="adds the positions and forgets the sum",
    sources=["https://github.com/Lightning-AI/pytorch-lightning/issues/19138"],
    blind=[
        (
            lambda tokens: tokens.shape[1] == 1,
            "You give one token at a time: there is only one position.",
        ),
        (
            lambda positions: not positions.any(),
            "All your positions are 0: adding them changes nothing.",
        ),
    ],
    stub=test_positions_arrive,
    solution=test_positions_arrive_solution,
    explanation="The same token at two positions must differ by the difference of the two "
    "encodings. `X + P` without an assignment is a value that nobody keeps, and Python says "
    "nothing. A model without positions still trains, only worse.",
    hints=[
        "Which two rows of the output must differ only by their positions?",
        "Give the same token twice, such as `[[3, 3, 1]]`. By how much must its rows differ?",
    ],
    test_options=dict(
        beliefs=[
            Suspect(
                {" * vectors.shape[1] ** 0.5": ""},
                "does not multiply the vectors by the root of D",
            )
        ],
        notice="Give the same token at two positions: do their rows differ as they should?",
    ),
)
