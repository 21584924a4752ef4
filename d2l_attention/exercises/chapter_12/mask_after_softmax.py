"""12.2: a mask after the softmax."""

import torch

from d2l_attention.exercises.chapter_12._blanks import noise
from d2l_attention.exercises.chapter_12._exhibit import exhibit


def attend(queries, keys, values, mask):
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5  # (B, Q, K)
    weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    return weights @ values  # (B, Q, V)


def by_pytorch(queries, keys, values, mask):
    attention = torch.nn.functional.scaled_dot_product_attention
    return attention(queries, keys, values, attn_mask=mask)


def test_mask_after_softmax(attend):
    """Pass where the visible keys share all the weight, and fail by an `AssertionError` otherwise.

    `attend(queries, keys, values, mask)` takes tensors (B, Q, D), (B, K, D), (B, K, V) and a mask
    (B, Q, K), True where a query may attend (to one key at least), and returns the output
    (B, Q, V). In both implementations a hidden value changes nothing: look at the others.
    """
    ...


def test_mask_after_softmax_solution(attend):
    queries, keys, values = torch.randn(2, 3, 7), torch.randn(2, 5, 7), torch.randn(2, 5, 11)
    mask = (torch.arange(5) < 2).expand(2, 3, 5)
    short = attend(queries, keys[:, :2], values[:, :2], mask[..., :2])  # without the padding
    torch.testing.assert_close(attend(queries, keys, values, mask), short)


mask_after_softmax = exhibit(
    id="12.2",
    title="The mask after the softmax",
    difficulty="easy",
    minutes=6,
    right=attend,
    bug={
        "scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)": "scores.softmax(dim=-1)"
        ".masked_fill(~mask, 0.0)"
    },
    what="takes the softmax over all keys and hides some of them afterwards",
    sources=[
        "https://github.com/ilivans/tf-rnn-attention/issues/11",
        "https://github.com/huggingface/pytorch-image-models/pull/2236",
        "https://github.com/abisee/pointer-generator/issues/88",
    ],
    also_right=[by_pytorch],
    blind=[
        (
            lambda mask: mask.all(),
            "Your mask hides nothing. Hide some keys, so that it matters when that happens.",
        ),
    ],
    stub=test_mask_after_softmax,
    solution=test_mask_after_softmax_solution,
    explanation="A sentence with padding must give what it gives without. Hidden after the "
    "softmax, the padding has no weight, but it has taken its share: what is left sums to less "
    "than one. A test that changes hidden values passes, because their weight is 0. A softmax, the "
    "mask, and a division by what is left is right again.",
    hints=[
        "Hidden keys get the weight 0 either way. What happens to the weights of the others?",
        "Let all values be 1: the output is the sum of the weights. Or cut the hidden keys off, "
        "and compare: padding must change nothing.",
    ],
    test_options=noise(attend)
    | dict(
        notice="That hidden values change nothing is true of both. Do the visible keys share a "
        "weight of 1?"
    ),
)
