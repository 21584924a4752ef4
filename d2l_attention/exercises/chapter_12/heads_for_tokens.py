"""12.11: each token attends within itself."""

import torch

from d2l_attention.exercises.chapter_12._exhibit import exhibit


def attend(queries, keys, values):
    q, k, v = (X.transpose(1, 2) for X in (queries, keys, values))  # (B, H, n, D)
    output = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    return output.transpose(1, 2)  # (B, n, H, D)


def by_einsum(queries, keys, values):
    scores = torch.einsum("bqhd,bkhd->bhqk", queries, keys) / queries.shape[-1] ** 0.5
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(dim=-1), values)


def test_heads_for_tokens(attend):
    """Pass where tokens attend to each other, and fail by an `AssertionError` otherwise.

    `attend(queries, keys, values)` takes three tensors (B, n, H, D), n tokens with H heads each,
    and returns the output (B, n, H, D). In each head each token attends to all n tokens.
    """
    ...


def test_heads_for_tokens_solution(attend):
    queries, keys, values = (torch.randn(2, 5, 3, 7) for _ in range(3))
    before = attend(queries, keys, values)
    values[:, 0] = torch.randn(2, 3, 7)  # another first token
    after = attend(queries, keys, values)
    assert ((after - before).abs().amax(dim=(2, 3)) > 1e-4).all(), "a token does not notice"


heads_for_tokens = exhibit(
    id="12.11",
    title="Every token by itself",
    difficulty="medium",
    minutes=8,
    right=attend,
    bug={
        "(X.transpose(1, 2) for X in (queries, keys, values))  # (B, H, n, D)": "queries, keys, "
        "values  # (B, n, H, D)",
        "output.transpose(1, 2)": "output",
    },
    what="compares a token's query with that token's keys only, head with head (an error where the "
    "numbers of queries and keys differ)",
    sources=[
        "https://github.com/NVlabs/FoundationStereo/pull/217",
        "https://github.com/aipixel/AEMatter/issues/3",
    ],
    also_right=[by_einsum],
    blind=[
        (
            lambda queries: queries.shape[1] == 1,
            "You always give one token, which has no other to attend to. Give several.",
        ),
        (
            lambda values: (values == values[:1, :1, :1]).all(),
            "All your values are alike, and their average is the same whoever attends to whom. "
            "Let the tokens differ.",
        ),
    ],
    stub=test_heads_for_tokens,
    solution=test_heads_for_tokens_solution,
    explanation="`scaled_dot_product_attention` attends over the last axis but one. In (B, n, H, "
    "D) these are the heads: they are taken for tokens, and no token sees another. Shapes and "
    "sums of weights are right, and no size has to be special. What attention is for is the test: "
    "change one token, and the others must notice.",
    hints=[
        "What does attention do that a layer applied to each token does not?",
        "Change token 0. Whose output must change?",
        "Keep the outputs of a first call, change the values of token 0, call again: each token's "
        "output must be another.",
    ],
    test_options=dict(
        notice="Change the values of token 0: must the outputs of the other tokens stay, or change?"
    ),
)
