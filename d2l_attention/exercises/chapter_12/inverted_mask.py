"""12.7: a boolean mask that is read the other way."""

import torch

from d2l_attention.exercises.authoring import Suspect, heading
from d2l_attention.exercises.chapter_12._blanks import noise
from d2l_attention.exercises.chapter_12._exhibit import exhibit


def causal_attention(queries, keys, values):
    n = queries.shape[1]
    future = torch.ones(n, n, dtype=torch.bool).triu(diagonal=1)  # (n, n), True above the diagonal
    return torch.nn.functional.scaled_dot_product_attention(
        queries, keys, values, attn_mask=~future
    )  # (B, n, V)


def by_is_causal(queries, keys, values):
    attention = torch.nn.functional.scaled_dot_product_attention
    return attention(queries, keys, values, is_causal=True)


def test_inverted_mask(causal_attention):
    """Pass where no token sees a later one, and fail by an `AssertionError` otherwise.

    `causal_attention(queries, keys, values)` takes tensors (B, n, D), (B, n, D), (B, n, V) and
    returns (B, n, V). Token i should attend to the tokens 0 to i.
    """
    ...


def test_inverted_mask_solution(causal_attention):
    queries, keys, values = torch.randn(2, 5, 7), torch.randn(2, 5, 7), torch.randn(2, 5, 11)
    before = causal_attention(queries, keys, values)
    keys[:, 3:], values[:, 3:] = torch.randn(2, 2, 7), torch.randn(2, 2, 11)  # another future
    after = causal_attention(queries, keys, values)
    torch.testing.assert_close(after[:, :3], before[:, :3])


inverted_mask = exhibit(
    **heading("12.7", "Each token sees others, but which ones?", "easy", minutes=6),
    section="Six more exhibits",
    right=causal_attention,
    bug={"attn_mask=~future": "attn_mask=future"},
    what="hands over True for the future, where True means 'may attend'",
    also_right=[by_is_causal],
    more=[
        Suspect({"attn_mask=~future": "attn_mask=None"}, "has no mask at all"),
        Suspect(
            {"attn_mask=~future": "attn_mask=~(future & (torch.arange(n) == 0)[:, None])"},
            "hides the future from token 0, and from no other",
            [(lambda: True, "Token 0 is right there. Look at the tokens after it, too.")],
        ),
        Suspect(
            {"diagonal=1": "diagonal=2"},
            "shows each token the one that comes next",
            [(lambda: True, "Only the next token leaks. Change token t, and look at token t - 1.")],
        ),
    ],
    stub=test_inverted_mask,
    solution=test_inverted_mask_solution,
    explanation="Two runs that differ in nothing but the future must agree up to it. In PyTorch "
    "True means 'may attend' to `scaled_dot_product_attention` and 'ignore' to "
    "`nn.MultiheadAttention`. Nothing complains: shapes and sizes of the numbers look right, and "
    "the last token, which then sees nothing, gets zeros. So test what a mask does, not what is in "
    "it.",
    hints=[
        "What may change the output of token 2, and what may not?",
        "Call it twice, with other keys and values from token 3 on. The outputs of the tokens 0 to "
        "2 must be the same.",
        "A shorter one: with the values `torch.eye(n)` the output is the weights. Those above the "
        "diagonal must be 0.",
    ],
    test_options=noise(causal_attention)
    | dict(
        notice="What may token 0 see, and so what must its output be? Or change the last tokens: "
        "which outputs must stay?"
    ),
)
