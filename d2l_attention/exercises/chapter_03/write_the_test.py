"""3.6: a test that catches four wrong scores."""

import torch

from d2l_attention import scaled_dot_score
from d2l_attention.exercises.authoring import Exercise, Suspect, catches, heading


def test_score(implementation):
    """Pass on a right `implementation`, and fail by an `AssertionError` on broken ones.

    Queries (*, Q, D) and keys (*, K, D) give scores (*, Q, K); [[1.0, 2, 3, 4]] and
    [[1.0, 0, 0, 1], [0, 1, 0, 0]] give [[2.5, 1]].
    """
    ...


def test_score_solution(implementation):
    generator = torch.Generator().manual_seed(0)
    # Three queries, five keys, seven numbers each: whatever is mixed up shows.
    queries = torch.randn(2, 3, 7, generator=generator)
    keys = torch.randn(2, 5, 7, generator=generator)
    expected = queries @ keys.transpose(-2, -1) / 7**0.5
    torch.testing.assert_close(implementation(queries, keys), expected)


def scaled_dot(queries, keys):
    return queries @ keys.transpose(-2, -1) / keys.shape[-1] ** 0.5


WHOLE_NUMBERS = (
    "Your test calls the implementation with whole numbers; scores are computed with decimals. "
    "Write 1.0 for 1, or `torch.randn`."
)

write_the_test = Exercise(
    **heading("3.6", "The test that catches four wrong scores", "medium", minutes=12),
    section="Scaled dot-product attention",
    stub=test_score,
    solution=test_score_solution,
    explanation="The test needs expected scores worked out in another way, a comparison that "
    "allows for rounding, and sizes that all differ, such as 3 queries, 5 keys and 7 numbers. "
    "Two equal sizes may hide one of the four. `assert_close` compares the shapes as well.",
    hints=[
        "Make queries and keys, work out the expected scores yourself, and compare: "
        "`torch.testing.assert_close(implementation(queries, keys), expected)`.",
        "A mistake hides where two sizes are equal. Which ones must differ for each of the four?",
    ],
    errors={"same dtype": WHOLE_NUMBERS, "found Long": WHOLE_NUMBERS},
    steps=[
        catches(
            scaled_dot,
            Suspect({" / keys.shape[-1] ** 0.5": ""}, "does not divide at all"),
            Suspect({" ** 0.5": ""}, "divides by D instead of its root"),
            Suspect(
                {"shape[-1]": "shape[-2]"},
                "divides by the root of the number of keys",
                [
                    (
                        lambda keys: keys.shape[-2] == keys.shape[-1],
                        "You always give as many keys as a key has numbers: K = D. Use different "
                        "sizes.",
                    )
                ],
            ),
            Suspect(
                {"queries @ keys.": "keys @ queries."},
                "returns scores of shape (*, K, Q)",
                [
                    (
                        lambda queries, keys: queries.shape == keys.shape,
                        "You always give as many queries as keys, so (Q, K) and (K, Q) are one "
                        "shape. Use different sizes, and different tensors.",
                    )
                ],
            ),
            name="implementation",
            blind=[
                (
                    lambda queries, keys: not (queries @ keys.transpose(-2, -1)).any(),
                    "All your scores are 0, and 0 divided by anything is 0. Use other numbers.",
                ),
                (
                    lambda keys: keys.shape[-1] == 1,
                    "Your vectors hold one number each, so dividing by 1 or by its root changes "
                    "nothing.",
                ),
            ],
            also_right=[scaled_dot_score],
            beliefs=[
                Suspect(
                    {"keys.shape[-1]": "queries.shape[-2]"},
                    "divides by the root of the number of queries",
                ),
                Suspect(
                    lambda queries, keys: queries / keys.shape[-1] ** 0.5 @ keys.transpose(-2, -1),
                    "divides before the product, which gives the same but for the last digits "
                    "(`torch.testing.assert_close` allows for that)",
                ),
            ],
            # Not zeros: a test that expects them is told why they prove nothing.
            nothing=lambda queries, keys: torch.tensor([0.01]),
            little=lambda queries, keys: 0 * scaled_dot(queries, keys) + 0.01,
            little_why="It even passes where all scores are 0.01: it looks only at the shape, or "
            "at too little. Work out what the scores should be, and compare.",
        )
    ],
)
