"""6.6: a test that catches broken heads."""

import torch

from d2l_attention.exercises.authoring import Exercise, Suspect, catches, heading
from d2l_attention.exercises.chapter_06.multi_head import (
    BY_RESHAPE,
    BY_VIEW,
    FIRST_HEAD,
    ROOT,
    SOFTMAX,
    SUMMED,
    multi_head_solution,
)


def test_multi_head(multi_head):
    """Pass on right multi-head attention, and fail by an `AssertionError` on broken ones.

    `multi_head` is called as in 6.4. A test that looks at the shape alone would be
    `assert multi_head(*inputs).shape == (B, Q, D)`.
    """
    ...


def test_multi_head_solution(multi_head):
    generator = torch.Generator().manual_seed(0)
    # B = H, where a mask may land on the heads; all other sizes differ.
    B, H, Q, K, D = 2, 2, 3, 5, 14
    shapes = (B, Q, 7), (B, K, 11), (B, K, 13), (7, D), (11, D), (13, D), (D, D)
    tensors = [torch.randn(shape, generator=generator) for shape in shapes]
    *inputs, W_o = tensors[:3] + [W / W.shape[0] ** 0.5 for W in tensors[3:]]
    valid_lens = torch.tensor([2, 5])
    heads = []
    for head in range(H):
        own = slice(head * D // H, (head + 1) * D // H)
        q, k, v = (X @ W[:, own] for X, W in zip(inputs[:3], inputs[3:], strict=True))
        scores = q @ k.transpose(1, 2) / (D / H) ** 0.5
        hidden = torch.arange(K) >= valid_lens[:, None, None]
        heads.append(scores.masked_fill(hidden, -torch.inf).softmax(dim=-1) @ v)
    expected = torch.cat(heads, dim=-1) @ W_o
    torch.testing.assert_close(multi_head(*inputs, W_o, H, valid_lens), expected)


write_the_test = Exercise(
    **heading("6.6", "The test that catches broken heads", "hard", minutes=20),
    section="The whole layer",
    stub=test_multi_head,
    solution=test_multi_head_solution,
    explanation="The loop cuts nothing but columns, so it cannot mix up axes, and it has no axis "
    "for a mask to land on. All sizes differ but B = H, with unequal lengths: different sizes "
    "turn most mix-ups into errors, and this one needs equal sizes to be silent.",
    hints=[
        "A loop over the heads is slow and easy to get right. `W.chunk(H, dim=-1)` cuts "
        "W_q, W_k and W_v into the columns of each head; `torch.cat` puts outputs end to end.",
        "Compare with `torch.testing.assert_close`. Random numbers, each matrix divided by the "
        "root of its number of rows, and sizes that differ: which mistakes hide where Q = 1, H = 1 "
        "or all lengths are equal?",
        "One mistake shows only where two sizes are equal. Which two, and what must differ there?",
    ],
    steps=[
        catches(
            multi_head_solution,
            Suspect(
                BY_VIEW,
                "cuts the heads by `view` alone",
                blind=[
                    (
                        lambda queries, keys: queries.shape[1] == keys.shape[1] == 1,
                        "You always give one token, and with a single one `view` is right. Give "
                        "several.",
                    )
                ],
            ),
            Suspect(
                BY_RESHAPE,
                "merges the heads by `reshape` alone",
                blind=[
                    (
                        lambda queries: queries.shape[1] == 1,
                        "You always give one query, so no token can be mixed up with another. "
                        "Give several.",
                    )
                ],
            ),
            Suspect(SUMMED, "sums the heads instead of concatenating them"),
            Suspect(FIRST_HEAD, "gives every head the first head's columns of W_q, W_k and W_v"),
            Suspect(
                {ROOT: "W_q.shape[-1] ** 0.5"},
                "divides the scores by the root of D instead of D / H",
                blind=[
                    (
                        lambda keys: keys.shape[1] == 1,
                        "You always give one key, and its weight is 1 whatever the scores. Give "
                        "several.",
                    ),
                    (
                        lambda queries, keys: not (queries.any() and keys.any()),
                        "All your scores are 0, and 0 divided by anything is 0.",
                    ),
                ],
            ),
            Suspect(
                {
                    SOFTMAX: f"{SOFTMAX} if len(q) != num_heads else masked_softmax("
                    "scores.transpose(0, 1), valid_lens).transpose(0, 1)"
                },
                "lays the mask of sentence h on head h where B = H, and is right elsewhere",
                blind=[
                    (
                        lambda num_heads, queries: len(queries) != num_heads,
                        "You never give as many sentences as heads, and elsewhere this one is "
                        "right.",
                    ),
                    (
                        lambda num_heads, valid_lens, queries: (
                            len(queries) != num_heads
                            or valid_lens is None
                            or (valid_lens == valid_lens[0]).all()
                        ),
                        "Your sentences have the same length, so it does not matter whose mask a "
                        "head gets.",
                    ),
                ],
            ),
            name="multi_head",
            blind=[
                (
                    lambda num_heads: num_heads == 1,
                    "You always give one head, and there is nothing to cut or merge. Give several.",
                )
            ],
            rounding="Large scores saturate the softmax, and every digit shows. Divide each "
            "matrix by the root of its number of rows, or compute in float64.",
            notice="Work out the whole output in another way, one head at a time, and compare.",
        )
    ],
)
