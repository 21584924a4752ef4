"""12.8: NaN where a query may attend to nothing."""

import torch

from d2l_attention.exercises.authoring import Suspect, heading
from d2l_attention.exercises.chapter_12._blanks import nan
from d2l_attention.exercises.chapter_12._exhibit import exhibit


def attend(queries, keys, values, mask):
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5  # (B, Q, K)
    weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    weights = weights.masked_fill(~mask, 0.0)  # a row of -inf is NaN by now
    return weights @ values  # (B, Q, V)


def by_exponentials(queries, keys, values, mask):
    scores = torch.where(mask, queries @ keys.mT / queries.shape[-1] ** 0.5, -torch.inf)
    largest = scores.amax(dim=-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
    exponentials = (scores - largest).exp()
    return exponentials @ values / exponentials.sum(dim=-1, keepdim=True).clamp(min=1e-30)


def test_nothing_to_see(attend):
    """Pass where a query without keys gets zeros, and fail by an `AssertionError` otherwise.

    `attend(queries, keys, values, mask)` takes tensors (B, Q, D), (B, K, D), (B, K, V) and a mask
    (B, Q, K), True where a query may attend, and returns the output (B, Q, V). A query that may
    attend to no key at all gets the output 0.
    """
    ...


def test_nothing_to_see_solution(attend):
    queries, keys, values = torch.randn(1, 2, 7), torch.randn(1, 3, 7), torch.randn(1, 3, 11)
    mask = torch.tensor([[[True, True, False], [False, False, False]]])
    assert torch.equal(attend(queries, keys, values, mask)[0, 1], torch.zeros(11))


EMPTY_TO_ZERO = "    weights = weights.masked_fill(~mask, 0.0)  # a row of -inf is NaN by now\n"

# Seen, too, at https://github.com/pytorch/pytorch/issues/103749
nothing_to_see = exhibit(
    **heading("12.8", "NaN, from one row", "easy", minutes=6),
    section="Six more exhibits",
    right=attend,
    bug={EMPTY_TO_ZERO: ""},
    what="gives NaN to a query that may attend to nothing",
    also_right=[by_exponentials],
    blind=[
        (
            lambda mask: mask.any(dim=-1).all(),
            "Each of your queries sees a key, and then nothing is wrong. Hide all keys from one "
            "of them.",
        )
    ],
    stub=test_nothing_to_see,
    solution=test_nothing_to_see_solution,
    explanation="The softmax of a row of -inf is 0/0. `torch.equal` and "
    "`torch.testing.assert_close` notice NaN; a test of the form 'no entry is larger than' does "
    "not, because every comparison with NaN is False. One such row is enough: the gradient of a "
    "mean over the batch is NaN, and after the next step so are the matrix of the values and all "
    "that comes after it.",
    hints=[
        "What is the softmax of a row in which all scores are -inf?",
        "Make a mask with a row of False, and compare that query's output with zeros.",
        "Mind how you compare: with NaN each of `<`, `>` and `==` is False, so "
        "`not (output > 0).any()` is True.",
    ],
    test_options=nan(attend)
    | dict(
        beliefs=[
            Suspect(
                {"-torch.inf": "-1e6", EMPTY_TO_ZERO: ""},
                "gives such a query the mean of all values",
            )
        ],
        notice="Do you look at the row of the query that sees nothing?",
    ),
)
