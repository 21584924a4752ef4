"""12.3: every decoded token gets position 0."""

import torch

from d2l_attention.exercises.authoring import Suspect, heading
from d2l_attention.exercises.chapter_12._exhibit import exhibit


def step(x, cache, positions):
    x = x + positions[len(cache)]  # (B, 1, D)
    cache.append(x)
    seen = torch.cat(cache, dim=1)  # (B, t + 1, D)
    weights = (x @ seen.mT / x.shape[-1] ** 0.5).softmax(dim=-1)
    return weights @ seen


def test_steps_equal_the_whole(step):
    """Pass where decoding step by step equals reading the whole; fail by an `AssertionError`.

    `step(x, cache, positions)` takes the vector of the next token (B, 1, D), the list of the
    tokens before it, `[]` at the start, and an encoding (max_len, D). It adds the position,
    appends to the list, and returns what self-attention (without matrices, divided by the root of
    D) gives for this token: (B, 1, D).
    """
    ...


def test_steps_equal_the_whole_solution(step):
    X, positions, cache = torch.randn(2, 5, 8), torch.randn(9, 8), []
    steps = torch.cat([step(X[:, t : t + 1], cache, positions) for t in range(5)], dim=1)
    whole = X + positions[:5]
    past = torch.ones(5, 5, dtype=torch.bool).tril()
    scores = (whole @ whole.mT / 8**0.5).masked_fill(~past, -torch.inf)
    torch.testing.assert_close(steps, scores.softmax(dim=-1) @ whole)


# Seen, too, at https://github.com/ml-explore/mlx-lm/issues/1699
# Seen, too, at https://github.com/ml-explore/mlx-lm/pull/93
position_zero = exhibit(
    **heading("12.3", "Right on the page, wrong in the chat", "hard", minutes=15),
    section="12.3 · Right on the page, wrong in the chat",
    right=step,
    bug={"positions[len(cache)]": "positions[0]"},
    what="gives every decoded token position 0",
    more=[
        Suspect(
            {"positions[len(cache)]": "positions[len(cache) + 1]"},
            "reads the position after the cache has grown, so that each is one too far",
        ),
        Suspect(
            {"cache.append(x)": "cache[:] = [*cache[-1:], x]"},
            "remembers only the last token",
            [(lambda cache: len(cache) <= 2, "Two steps do not show it: try three or more.")],
        ),
    ],
    blind=[
        (
            lambda cache: len(cache) == 1,
            "Each of your caches is empty: you try only the first step, and its position is 0.",
        ),
        (
            lambda positions: not positions.any(),
            "All your positions are 0: each position would do.",
        ),
    ],
    stub=test_steps_equal_the_whole,
    solution=test_steps_equal_the_whole_solution,
    explanation="Training reads whole sentences, and there every position is right; only decoding "
    "with a cache goes through `step`. The bug shows in no loss. Two ways to the same numbers, "
    "with and without the cache, is the test for every cache.",
    hints=[
        "The first step is right. What comes after it, and what should it equal?",
        "Work out the whole at once: positions added to all tokens, a causal mask, and one softmax "
        "for each row. Row t must equal step t.",
        "Give the same list `cache` to all steps, and collect what comes back with `torch.cat`.",
    ],
    test_options=dict(
        notice="Work out all steps at once, with a causal mask, and compare each step."
    ),
)
