"""Mistakes in multi-head attention and what to say about each, alone or two at a time."""

from itertools import combinations

import torch

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_06 import parts
from d2l_attention.exercises.chapter_06.parts import multi_head_with, right
from d2l_attention.exercises.exercise import Step
from d2l_attention.exercises.helpers import alike


def small(queries, keys, values, W, num_heads: int, length: int) -> tuple:
    """One sentence of whole numbers, with one matrix for all four."""
    inputs = (torch.tensor([rows], dtype=torch.float32) for rows in (queries, keys, values))
    matrix = torch.tensor(W, dtype=torch.float32)
    return (*inputs, matrix, matrix, matrix, matrix, num_heads, torch.tensor([length]))


KEYS, VALUES, SAME, SHEAR = [[1, 0], [0, 1]], [[1, 2], [5, 8]], [[1, 0], [0, 1]], [[1, 1], [0, 1]]
WIDE_KEYS, WIDE_VALUES = [[1, 0, 0, 1], [0, 2, 1, 0]], [[1, 2, 3, 4], [5, 6, 7, 9]]
TO_SHOW = [
    small([[1, 2]], KEYS, VALUES, SAME, 2, 2),
    small([[1, 2]], KEYS, VALUES, SAME, 2, 1),
    small([[1, 2], [0, 1]], KEYS, VALUES, SAME, 2, 2),
    small([[1, 2]], KEYS, VALUES, SHEAR, 2, 2),
    small([[1, 2, 0, 1]], WIDE_KEYS, WIDE_VALUES, torch.eye(4).tolist(), 2, 2),
    small([[1, 2, 0, 1], [1, 1, 2, 0]], WIDE_KEYS, WIDE_VALUES, torch.eye(4).tolist(), 2, 2),
]

TABLE = [
    (
        {"split": parts.by_view, "merge": parts.reshaped},
        "You cut the heads by `view` or `reshape` alone, there and back. The shapes fit, but a "
        "head gets some tokens whole and never sees the others: no number moves without a "
        "`transpose`.",
    ),
    (
        {"split": parts.by_view},
        "You cut the heads by `view` or `reshape` alone. The shape fits, but no number moves: a "
        "head gets some tokens whole and never sees the others. Cut the last axis first, then "
        "bring the heads' axis before the tokens'.",
    ),
    (
        {"merge": parts.reshaped},
        "You merged the heads by `reshape` alone: (B, H, Q, D / H) is refilled in its old order, "
        "so a token's output holds one head's answers to several queries. Swap heads and tokens "
        "first.",
    ),
    (
        {"scale": parts.root_of_all_heads},
        "You divide the scores by the root of D, the width of all heads together. A score sums "
        "up the D / H products of one head.",
    ),
    (
        {"scale": lambda queries, keys: 1.0},
        "The division by the root of D / H is missing.",
    ),
    (
        {"scale": lambda queries, keys: queries.shape[-1]},
        "You divide by D / H itself. The spread of a score is its root.",
    ),
    (
        {"scale": lambda queries, keys: queries.shape[1] ** 0.5},
        "You divide by the root of the number of heads. A score sums up the D / H products of one "
        "head: the last axis, not axis 1.",
    ),
    (
        {"scale": lambda queries, keys: keys.shape[-2] ** 0.5},
        "You divide by the root of the number of keys. A score sums up D / H products, however "
        "many other keys there are.",
    ),
    (
        {"axis": 1},
        "Your softmax runs over the heads (`dim=1`), so heads compete for a key. Each head shares "
        "out its own attention over the keys: `dim=-1`.",
    ),
    (
        {"axis": -2},
        "Your softmax runs over the queries. Each query shares out its own attention over the "
        "keys: `dim=-1`.",
    ),
    (
        {"hide": parts.nothing_hidden},
        "`valid_lens` does nothing: the padding takes part.",
    ),
    (
        {"hide": parts.turned_over},
        "You hide the words and keep the padding. `valid_lens` counts, from the front, what may be "
        "seen.",
    ),
    (
        {"hide": parts.one_key_more},
        "One key too many takes part. Positions count from 0: length n shows keys 0 to n - 1.",
    ),
    (
        {"too_late": True},
        "You hide the padding after the softmax. By then it has taken its share of every row; hide "
        "the scores.",
    ),
    (
        {"merge": parts.summed},
        "You summed the heads. They stand end to end, D numbers a token, and W_o has D rows: a "
        "block of rows for each head.",
    ),
    (
        {"merge": parts.averaged},
        "You averaged the heads. They stand end to end, D numbers a token, and W_o has D rows: "
        "a block of rows for each head.",
    ),
    (
        {"merge": parts.sum_for_each},
        "You summed the heads, and copied the sum to get D numbers back. Concatenate them: every "
        "head keeps its own D / H numbers.",
    ),
    (
        {"merge": parts.mean_for_each},
        "You averaged the heads, and copied the mean to get D numbers back. Concatenate them: "
        "every head keeps its own D / H numbers.",
    ),
    (
        {"out": parts.only_merged},
        "W_o is missing: the heads stand end to end, but nothing mixes them.",
    ),
    (
        {"project": parts.first_head_for_all},
        "All your heads use the first head's columns of W_q, W_k and W_v, so all give the same. "
        "Head h owns the columns from h · D / H on.",
    ),
    (
        {"take": parts.projected_keys_as_values},
        "You average the keys: `values` and W_v never get in. Keys say where to look, values what "
        "is found there.",
    ),
    (
        {"take": parts.keys_as_values},
        "You multiply the keys by W_v: `values` never get in. Keys say where to look, values what "
        "is found there.",
    ),
    (
        {"take": parts.one_matrix},
        "You use W_q for the keys and the values as well. Each has its own matrix.",
    ),
    (
        {"project": parts.not_projected},
        "W_q, W_k and W_v are missing: you cut the inputs themselves into heads.",
    ),
    (
        {"project": parts.turned, "out": parts.turned_out},
        "You use the matrices turned, `X @ W.T`, as a linear layer stores them. Here they are "
        "plain: `X @ W`.",
    ),
    (
        {"project": parts.turned},
        "You use W_q, W_k and W_v turned, `X @ W.T`. Here they are plain: `X @ W`.",
    ),
    (
        {"out": parts.turned_out},
        "You use W_o turned, `X @ W_o.T`. Here it is plain: `X @ W_o`.",
    ),
    (
        {"split": parts.every_other_column, "merge": parts.columns_in_turn},
        "Your heads own every other column, there and back. Here the first head owns the first "
        "D / H, side by side: cut D into (H, D / H), in this order.",
    ),
    (
        {"split": parts.every_other_column},
        "Your heads own every other column. The first head should get the first D / H: cut D "
        "into (H, D / H), in this order.",
    ),
    (
        {"merge": parts.columns_in_turn},
        "Your merge takes one number from each head in turn. All D / H numbers of one head stand "
        "together: join the axes (H, D / H), in this order.",
    ),
]


def candidates() -> list[tuple[dict, str]]:
    """Every mistake alone, then every two that can be made together."""
    pairs = [
        ({**first, **second}, f"Two mistakes at once. {why} The other: {and_why}")
        for (first, why), (second, and_why) in combinations(TABLE, 2)
        if not first.keys() & second.keys()
    ]
    return [*TABLE, *pairs]


def smallest(wrong_parts: dict, otherwise: tuple) -> tuple:
    """A case that can be shown in full, if there is one in which the mistake matters."""
    mistake = multi_head_with(**wrong_parts)
    for case in TO_SHOW:
        if not alike(mistake(*case), right(*case)):
            return case
    return otherwise


def named(case: tuple) -> Step:
    """The result for ``case`` is none that one or two mistakes of the table give."""

    def step(attempt: Attempt) -> str | None:
        got = attempt(*case)
        if alike(got, right(*case)):
            return None
        for wrong_parts, why in candidates():
            if alike(got, multi_head_with(**wrong_parts)(*case)):
                shown = attempt.case(smallest(wrong_parts, case))
                return f"{why} Smallest case that shows it: {shown}."
        return None

    return step
