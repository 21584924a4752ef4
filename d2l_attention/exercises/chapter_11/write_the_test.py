"""11.7: a test that catches a choice of blocks that knows the future."""

import torch

from d2l_attention.exercises.authoring import Exercise, Suspect, catches, heading


def test_choice_is_causal(choose):
    """Pass where the choice is causal, and fail by an `AssertionError` where it is not.

    `choose(queries, keys)` takes two tensors (n, D), n a multiple of 4, and returns a boolean mask
    (n, n), True = may attend. A test that looks only at the shape would be
    `assert choose(torch.randn(12, 8), torch.randn(12, 8)).shape == (12, 12)`.
    """
    ...


def test_choice_is_causal_solution(choose):
    generator = torch.Generator().manual_seed(0)
    queries, keys, other_queries, other_keys = torch.randn(4, 32, 8, generator=generator)
    mask = choose(queries, keys)
    assert not mask.triu(1).any()
    for t in range(1, 32):
        # Another future of queries and keys: the rows before it must be the same.
        changed = choose(
            torch.cat((queries[:t], other_queries[t:])), torch.cat((keys[:t], other_keys[t:]))
        )
        assert torch.equal(changed[:t], mask[:t])


def two_best_blocks(queries, keys):
    """Each query sees the two best whole blocks of 4 before its own, and its own up to itself."""
    n, numbers = len(keys), torch.arange(len(keys) // 4)
    means = keys.unflatten(0, (-1, 4)).mean(dim=1)  # (blocks, D)
    own = (torch.arange(n) // 4)[:, None]  # (n, 1)
    scores = (queries @ means.T).masked_fill(numbers >= own, -torch.inf)
    best = scores.topk(min(2, n // 4), dim=-1).indices
    chosen = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, best, True)
    chosen = (chosen & (numbers < own)) | (numbers == own)
    return chosen.repeat_interleave(4, dim=-1) & torch.ones(n, n, dtype=torch.bool).tril()


def one_best_block(queries, keys):
    """Another right one, which compares by distance."""
    n = len(keys)
    mask = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        start = i // 4 * 4
        mask[i, start : i + 1] = True
        if start:
            means = keys[:start].unflatten(0, (-1, 4)).mean(dim=1)
            block = int((means - queries[i]).norm(dim=-1).argmin())
            mask[i, 4 * block : 4 * block + 4] = True
    return mask


TOO_SHORT = (
    "Your sequences are too short: with {} tokens or fewer there is nothing to choose. Take 24."
)

SAME_QUERIES = "Your queries are the same in all calls. Let their future differ, too."

write_the_test = Exercise(
    **heading("11.7", "A choice that knows the future", "hard", minutes=25),
    section="Chosen blocks: a mean hides the best key",
    hints=[
        "Two things can leak: the mask may show a later key, and the choice of earlier blocks may "
        "depend on what comes later.",
        "Change queries and keys from position t on. Which rows of the mask must stay exactly as "
        "they were?",
        "One of the broken ones is right at the last position of each block, and one everywhere "
        "but in long texts. So try every t, and several blocks.",
    ],
    stub=test_choice_is_causal,
    solution=test_choice_is_causal_solution,
    explanation="A mask without a True above the diagonal is not enough. In three of the broken "
    "ones no query ever sees a later key, and yet the later tokens decide which earlier ones "
    "it sees. So the test asks the question of chapter 4 of the mask itself: another future, "
    "the same past. In training such a leak looks like progress.",
    steps=[
        catches(
            two_best_blocks,
            Suspect(
                {" & torch.ones(n, n, dtype=torch.bool).tril()": ""},
                "shows each query all of its own block",
            ),
            Suspect(
                {"numbers >= own, -torch.inf": "numbers > own, -torch.inf"},
                "lets the own block compete, by a mean that holds later keys",
                [
                    (lambda queries: queries.shape[0] <= 12, TOO_SHORT.format(12)),
                    (
                        lambda: True,
                        "No query sees a later key here. Compare the rows before t of two masks "
                        "whose keys differ from t on, for every t.",
                    ),
                ],
            ),
            Suspect(
                {"(queries @ means.T)": "(queries @ means.T).softmax(dim=0)"},
                "compares the blocks after a softmax over the queries, the later ones too",
                [
                    (lambda queries: queries.shape[0] <= 12, TOO_SHORT.format(12)),
                    (lambda queries, first: torch.equal(queries, first["queries"]), SAME_QUERIES),
                ],
            ),
            Suspect(
                {
                    "(queries @ means.T)": "(queries.unflatten(0, (-1, 4)).mean(dim=1)"
                    ".repeat_interleave(4, dim=0) @ means.T)"
                },
                "chooses once for all queries of a block, by their mean",
                [
                    (lambda queries: queries.shape[0] <= 12, TOO_SHORT.format(12)),
                    (lambda queries, first: torch.equal(queries, first["queries"]), SAME_QUERIES),
                ],
            ),
            name="choose",
            also_right=(one_best_block,),
            little=lambda queries, keys: (torch.rand(len(keys), len(keys)) < 0.5).tril(),
            little_why="It even passes where the mask is drawn by lot below the diagonal. Compare "
            "the masks of two calls that differ in the future.",
            notice="Change queries and keys from a position on, and compare the rows before it.",
        )
    ],
    seconds=20.0,
)
