"""12.9: `view` where `transpose` is meant."""

import torch

from d2l_attention.exercises.chapter_12._blanks import noise
from d2l_attention.exercises.chapter_12._exhibit import exhibit


def self_attention(X, num_heads):
    B, n, D = X.shape
    heads = X.view(B, n, num_heads, D // num_heads).transpose(1, 2)  # (B, H, n, D / H)
    output = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
    return output.transpose(1, 2).reshape(B, n, D)


def by_einsum(X, num_heads):
    heads = X.unflatten(-1, (num_heads, -1))  # (B, n, H, D / H)
    scores = torch.einsum("bqhd,bkhd->bhqk", heads, heads) / heads.shape[-1] ** 0.5
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(dim=-1), heads).flatten(-2)


def test_view_for_transpose(self_attention):
    """Pass where each head sees its part of each token, and fail by an `AssertionError` otherwise.

    `self_attention(X, num_heads)` takes X (B, n, D), where D is a multiple of `num_heads`, and
    returns (B, n, D). Head 0 works with the first D / H numbers of each token, head 1 with the
    next, and so on; there are no parameters, and no positions.
    """
    ...


def test_view_for_transpose_solution(self_attention):
    X = torch.randn(2, 5, 6)
    other = X.clone()
    other[..., 3:] = torch.randn(2, 5, 3)  # for the second of two heads
    before, after = self_attention(X, 2), self_attention(other, 2)
    torch.testing.assert_close(after[..., :3], before[..., :3])


view_for_transpose = exhibit(
    id="12.9",
    title="A view instead of a transpose",
    difficulty="medium",
    minutes=10,
    right=self_attention,
    bug={
        "X.view(B, n, num_heads, D // num_heads).transpose(1, 2)": "X.view(B, num_heads, n, D // "
        "num_heads)",
        "output.transpose(1, 2).reshape": "output.reshape",
    },
    what="cuts the heads by a single `view` to (B, H, n, D / H)",
    sources=[
        "https://github.com/bentrevett/pytorch-seq2seq/issues/148",
        "https://github.com/harvardnlp/annotated-transformer/issues/118",
        "https://github.com/zhouhaoyi/Informer2020/issues/59",
        "https://github.com/jsbaan/transformer-from-scratch/pull/6",
        "https://github.com/hackiey/QAnet-pytorch/issues/2",
    ],
    also_right=[by_einsum],
    blind=[
        (
            lambda num_heads: num_heads == 1,
            "You always give one head, and with one head `view` is right. Give several.",
        ),
        (
            lambda X: X.shape[1] == 1,
            "You always give one token, and with one token `view` is right. Give several.",
        ),
    ],
    stub=test_view_for_transpose,
    solution=test_view_for_transpose_solution,
    explanation="`view` keeps the order of the numbers and only draws the borders elsewhere. With "
    "5 tokens and 2 heads, 'head 0' then holds the first half of the sentence, cut in pieces. The "
    "same `view` on the way back hides it: the shapes are right, and in one of the sources a "
    "model even learned to copy with half of it. Three properties see it: a head's output "
    "does not depend on the other heads' numbers; tokens in another order give outputs in that "
    "order; and a loop over the heads gives the same.",
    hints=[
        "`view` never moves a number. Where are a token's numbers after each of the two?",
        "On what does the output of head 0, the first D / H columns, depend, and on what not?",
        "Change the columns of head 1 in a copy of X: the columns of head 0 in the output must "
        "stay.",
    ],
    test_options=noise(self_attention)
    | dict(
        notice="Work it out head by head (`X.chunk(num_heads, dim=-1)`), or change one head's "
        "columns and look at the other's output."
    ),
)
