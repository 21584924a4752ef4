"""7.6: a test that catches wrong relative positions."""

import torch

from d2l_attention.exercises.authoring import Exercise, Suspect, catches, heading, with_mistakes
from d2l_attention.exercises.chapter_07.rotate import BACKWARDS, IN_HALVES, rotate_solution

turn = rotate_solution
in_halves = with_mistakes(rotate_solution, IN_HALVES)
backwards = with_mistakes(rotate_solution, BACKWARDS)


def attend_solution(queries, keys, values, first_query, first_key):
    q, k = turn(queries, first_query), turn(keys, first_key)
    scores = q @ k.mT / queries.shape[-1] ** 0.5
    return scores.softmax(dim=-1) @ values


def another_right_one(queries, keys, values, first_query, first_key):
    """Only distances count, so the keys may as well stand at 0; the last digits differ."""
    return attend_solution(queries, keys, values, first_query - first_key, 0)


def turn_all_pairs(values, first):
    """An odd number of columns leaves the last one as it is: an error would give it away."""
    even = values.shape[-1] // 2 * 2
    return torch.cat((turn(values[..., :even], first), values[..., even:]), dim=-1)


def test_rotary(attend):
    """Pass on right rotary attention, and fail by an `AssertionError` on broken ones.

    `attend` is called with (queries, keys, values, first_query, first_key). A test that looks only
    at the shape would be `assert attend(*inputs, 4, 1).shape == (B, H, Q, V)`.
    """
    ...


def test_rotary_solution(attend):
    generator = torch.Generator().manual_seed(0)
    B, H, Q, K, D, V = 2, 3, 5, 7, 6, 4
    shapes = (B, H, Q, D), (B, H, K, D), (B, H, K, V)
    queries, keys, values = (torch.randn(shape, generator=generator) for shape in shapes)

    def as_complex(X, first):  # a pair is a complex number, and its position turns it
        pairs = torch.view_as_complex(X.reshape(*X.shape[:-1], D // 2, 2))
        positions = torch.arange(first, first + X.shape[-2])[:, None]
        angles = positions / 10000 ** (torch.arange(0, D, 2) / D)
        return pairs * torch.polar(torch.ones_like(angles), angles)

    q, k = as_complex(queries, 11), as_complex(keys, 3)
    scores = (q @ k.mH).real / D**0.5
    expected = scores.softmax(dim=-1) @ values
    torch.testing.assert_close(attend(queries, keys, values, 11, 3), expected)
    # Both moved on by the same number of positions: nothing changes.
    torch.testing.assert_close(attend(queries, keys, values, 16, 8), expected)


write_the_test = Exercise(
    **heading("7.6", "The test that knows where tokens stand", "hard", minutes=20),
    section="A shift is a rotation",
    stub=test_rotary,
    solution=test_rotary_solution,
    explanation="The expected output is worked out in complex numbers, with other code than the "
    "pairs of 7.4: a query times the conjugate of a key has the difference of their angles. "
    "Moving both on is the idea of the encoding, but no full test: who counts from 0, or "
    "forgets the root of D, passes it. Starts that differ and are not 0 make the rest visible.",
    hints=[
        "Your `rotate` of 7.4 and three lines of attention give the output that should come back. "
        "Compare with `torch.testing.assert_close`.",
        "A right implementation does not notice when queries and keys both move on by 5. That "
        "catches some of the six. Which of them keep this property?",
        "Which mistakes hide where both begin at 0, where there is one key, where D = 2, or where "
        "the values have one column?",
    ],
    steps=[
        catches(
            attend_solution,
            Suspect({"turn(keys, first_key)": "keys"}, "turns only the queries"),
            Suspect(
                {"@ values": "@ turn_all_pairs(values, first_key)"},
                "turns the values as well",
                [
                    (
                        lambda values: values.shape[-1] == 1,
                        "Your values have one column; a turn needs a pair.",
                    )
                ],
            ),
            Suspect({"turn(keys": "backwards(keys"}, "turns queries one way and keys the other"),
            Suspect(
                {"turn(keys": "in_halves(keys"},
                "pairs columns 2r and 2r + 1 of queries, but r and r + d/2 of keys",
                [
                    (
                        lambda queries: queries.shape[-1] == 2,
                        "With D = 2 there is a single pair. Give more columns.",
                    )
                ],
            ),
            Suspect(
                {"queries, first_query": "queries, 0", "keys, first_key": "keys, 0"},
                "ignores first_query and first_key and counts both from 0",
                [
                    (
                        lambda first_query, first_key: first_query == first_key == 0,
                        "Your queries and keys always begin at position 0. A decoder's newest "
                        "query does not.",
                    ),
                    (
                        lambda first_query, first_key: first_query == first_key,
                        "Your queries and keys always begin at the same position, and the scores "
                        "depend only on the distance: it is as if they began at 0.",
                    ),
                ],
            ),
            Suspect(
                {" / queries.shape[-1] ** 0.5": ""}, "leaves out the division by the root of D"
            ),
            name="attend",
            blind=[
                (
                    lambda keys: keys.shape[2] == 1,
                    "You always give one key, and its weight is 1 whatever the scores. Give "
                    "several.",
                ),
                (
                    lambda queries, keys: not (queries.any() and keys.any()),
                    "All your scores are 0, wherever the tokens stand.",
                ),
            ],
            also_right=[another_right_one],
            beliefs=[
                Suspect({"turn(": "in_halves("}, "pairs columns j and j + D/2", everywhere=True),
                Suspect({"turn(": "backwards("}, "turns the other way than 7.4", everywhere=True),
            ],
            notice="What holds for a right one may hold for a broken one as well. Work out the "
            "whole output in another way, and compare.",
        )
    ],
)
