"""12.10: scores divided by d instead of its root."""

import torch

from d2l_attention.exercises.chapter_12._blanks import noise
from d2l_attention.exercises.chapter_12._exhibit import exhibit


def attend(queries, keys, values):
    d = queries.shape[-1]
    scores = queries @ keys.mT / d**0.5  # (B, Q, K)
    return scores.softmax(dim=-1) @ values  # (B, Q, V)


def by_pytorch(queries, keys, values):
    return torch.nn.functional.scaled_dot_product_attention(queries, keys, values)


def test_scale_by_d(attend):
    """Pass where scores are divided by the root of D, and fail by an `AssertionError` otherwise.

    `attend(queries, keys, values)` takes tensors (B, Q, D), (B, K, D), (B, K, V) and returns
    (B, Q, V). A query (1, 1, 1, 1) and the keys (0, 0, 0, 0) and (1, 1, 1, 1) have the scores 0
    and 2.
    """
    ...


def test_scale_by_d_solution(attend):
    queries, keys = torch.ones(1, 1, 4), torch.tensor([[[0.0] * 4, [1.0] * 4]])
    weights = attend(queries, keys, torch.eye(2)[None])  # (1, 1, 2): the values show the weights
    torch.testing.assert_close(weights[0, 0], torch.tensor([0.0, 2.0]).softmax(dim=-1))


scale_by_d = exhibit(
    id="12.10",
    title="Divided by d instead of its root",
    difficulty="medium",
    minutes=8,
    right=attend,
    bug={"d**0.5": "d"},
    what="divides the scores by D instead of its root",
    sources=[
        "https://github.com/delzac/cntkx/issues/10",
        "https://github.com/lucidrains/vit-pytorch/issues/65",
        "https://github.com/esceptico/perceiver-io/issues/9",
    ],
    also_right=[by_pytorch],
    blind=[
        (
            lambda queries: queries.shape[-1] == 1,
            "Your queries have one number, and 1 is its own root. Take more.",
        ),
        (
            lambda values: (values == values[:, :1]).all(),
            "All your values are alike, and their average is the same whatever the weights are. "
            "With `torch.eye(K)` as values you see the weights.",
        ),
        (
            lambda queries, keys: not (queries.any() and keys.any()),
            "All your scores are 0, and 0 divided by anything is 0.",
        ),
    ],
    stub=test_scale_by_d,
    solution=test_scale_by_d_solution,
    explanation="Everything that one usually looks at is right: rows sum to one, the best key gets "
    "the largest weight, hidden keys get none. Only the weights are too even, and larger W_q and "
    "W_k make up for that, so training can learn around it. A test has to know a number: the "
    "scores 0 and 2 give weights of which one is e² times the other. `torch.eye(K)` as values "
    "shows the weights.",
    hints=[
        "No property will do, such as 'sums to one': both have it. You need a case whose weights "
        "you know.",
        "With the values `torch.eye(K)` the output is the weights.",
        "Or compare with `torch.nn.functional.scaled_dot_product_attention`.",
    ],
    test_options=noise(attend)
    | dict(
        notice="Its weights sum to one and have the right order; only how far they are apart is "
        "wrong. Work out a small case by hand, and compare the numbers."
    ),
)
