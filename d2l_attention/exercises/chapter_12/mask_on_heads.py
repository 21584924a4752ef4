"""12.2: a mask (B, Q, K) that lands on the heads."""

import torch

from d2l_attention.exercises.authoring import Suspect, heading
from d2l_attention.exercises.chapter_12._blanks import noise
from d2l_attention.exercises.chapter_12._exhibit import exhibit


def attend(queries, keys, values, mask):
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5  # (B, H, Q, K)
    scores = scores.masked_fill(~mask[:, None], -torch.inf)  # mask (B, 1, Q, K): for all heads
    return scores.softmax(dim=-1) @ values  # (B, H, Q, V)


def by_pytorch(queries, keys, values, mask):
    attention = torch.nn.functional.scaled_dot_product_attention
    return attention(queries, keys, values, attn_mask=mask.unsqueeze(1))


def test_mask_on_heads(attend):
    """Pass where each sentence has its own mask, and fail by an `AssertionError` otherwise.

    `attend(queries, keys, values, mask)` takes tensors (B, H, Q, D), (B, H, K, D), (B, H, K, V)
    and a mask (B, Q, K), True where a query may attend, the same for all heads of a sentence. It
    returns (B, H, Q, V). Each query may attend to one key at least. Where B and H differ and
    neither is 1, the broken one raises an error: find the case where it is silent.
    """
    ...


def test_mask_on_heads_solution(attend):
    B = H = 2
    queries, keys, values = (torch.randn(B, H, n, 7) for n in (3, 5, 5))
    mask = (torch.arange(5) < torch.tensor([2, 5])[:, None, None]).expand(B, 3, 5)
    together = attend(queries, keys, values, mask)
    for i in range(B):
        alone = attend(*(X[i : i + 1] for X in (queries, keys, values, mask)))
        torch.testing.assert_close(together[i : i + 1], alone)


# Seen, too, at https://github.com/lucidrains/graph-transformer-pytorch/pull/2
mask_on_heads = exhibit(
    **heading("12.2", "Right in the tests, wrong in the batch", "hard", minutes=12),
    section="12.2 · Right in the tests, wrong in the batch",
    right=attend,
    bug={
        "~mask[:, None], -torch.inf)  # mask (B, 1, Q, K): for all heads": "~mask, -torch.inf)  # "
        "mask (B, Q, K): for all heads"
    },
    what="lays the mask of sentence h on head h (an error unless B equals H, or one of them is 1)",
    more=[
        Suspect(
            {"~mask[:, None]": "~mask[: queries.shape[1]]"},
            "lays the mask of sentence h on head h, and keeps the shape where B is larger than H",
        ),
        Suspect(
            {"~mask[:, None]": "~mask[:1, None]"},
            "gives all sentences the mask of the first",
            [(lambda: True, "The first sentence is right there. Look at the others, too.")],
        ),
    ],
    also_right=[by_pytorch],
    blind=[
        (
            lambda queries: queries.shape[0] == 1,
            "You always give one sentence, and one mask fits all heads. Give several.",
        ),
        (
            lambda mask: (mask == mask[:1]).all(),
            "Your sentences have the same mask, so it does not matter whose mask a head gets. Let "
            "them differ.",
        ),
    ],
    stub=test_mask_on_heads,
    solution=test_mask_on_heads_solution,
    explanation="Broadcasting fills axes from the right, so (B, Q, K) beside (B, H, Q, K) is read "
    "as (1, B, Q, K). Where B and H differ and neither is 1, that is an error, which everyone "
    "sees; where they are equal, as 8 sentences and 8 heads, it runs, and sentences get each "
    "other's masks. Sizes that all differ are the right habit, and here the wrong one. A sentence "
    "must give in a batch what it gives by itself: a test that needs no formula.",
    hints=[
        "Broadcasting lines up axes from the right. With which axis of (B, H, Q, K) does the B of "
        "a mask (B, Q, K) line up?",
        "With several sentences and heads it is silent only where B equals H, and wrong only where "
        "the sentences' masks differ.",
        "Take B = H = 2 and other lengths for each sentence, and compare each sentence in the "
        "batch with the same sentence alone.",
    ],
    test_options=noise(attend)
    | dict(
        notice="Compare each sentence with what it gives alone, in a batch of one: all its heads."
    ),
)
