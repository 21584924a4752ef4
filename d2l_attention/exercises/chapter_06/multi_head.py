"""6.4: all of multi-head attention. What can go wrong is named in ``multi_head_table.py``."""

from typing import Any

import torch
from torch import Tensor

from d2l_attention import masked_softmax
from d2l_attention.exercises.chapter_06 import multi_head_mistakes as mistakes
from d2l_attention.exercises.chapter_06.helpers import mask_on_heads
from d2l_attention.exercises.chapter_06.multi_head_table import named
from d2l_attention.exercises.chapter_06.parts import (
    longest_for_all,
    multi_head_with,
    on_heads,
    right,
)
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.helpers import because, normal
from d2l_attention.exercises.show import show
from d2l_attention.exercises.steps import agrees, explains, holds, like, unlike


def multi_head(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens): ...


def multi_head_solution(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens):
    projected = queries @ W_q, keys @ W_k, values @ W_v
    # (B, n, D) -> (B, n, H, D / H) -> (B, H, n, D / H)
    queries, keys, values = (X.unflatten(-1, (num_heads, -1)).transpose(1, 2) for X in projected)
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5  # the size of a head by now
    weights = masked_softmax(scores, valid_lens)
    return (weights @ values).transpose(1, 2).flatten(start_dim=2) @ W_o


def random_case(seed: int, H: int, lens: list[int], Q: int, K: int, *sizes: int) -> tuple:
    """``sizes`` of queries, keys, values, and of all heads together."""
    *inputs, D = sizes
    B = len(lens)
    shapes = [(B, n, size) for n, size in zip((Q, K, K), inputs, strict=True)]
    tensors = normal(seed, *shapes, *((size, D) for size in (*inputs, D)))
    # Scores of usual size: in a saturated softmax every rounding shows.
    matrices = (W / W.shape[0] ** 0.5 for W in tensors[3:])
    return (*tensors[:3], *matrices, H, torch.tensor(lens))


def equal_scores(values: list, num_heads: int, lens: list[int]) -> tuple:
    """One query that scores every key 0, and matrices that change nothing."""
    rows = torch.tensor(values)
    size = rows.shape[-1]
    zeros = torch.zeros_like(rows)
    return (zeros[:, :1], zeros, rows, *[torch.eye(size)] * 4, num_heads, torch.tensor(lens))


ONE_SENTENCE = random_case(0, 2, [3], 4, 5, 6, 6, 6, 6)
TWO_SENTENCES = [[[2.0, 4.0], [6.0, 8.0]], [[10.0, 20.0], [30.0, 40.0]]]
AS_MANY_AS_HEADS = equal_scores(TWO_SENTENCES, 2, [1, 2])
MORE_THAN_HEADS = equal_scores([*TWO_SENTENCES, [[1.0, 3.0], [5.0, 7.0]]], 2, [1, 2, 1])
NOTHING = equal_scores([[[2.0, 4.0], [6.0, 8.0]]], 2, [0])
OWN_SIZES = random_case(1, 3, [5, 2], 4, 5, 11, 7, 13, 6)
CASES = [
    random_case(2, 1, [3, 1], 2, 3, 5, 5, 5, 7),
    random_case(3, 5, [2, 3, 0], 1, 3, 4, 4, 4, 5),
    random_case(4, 3, [4, 1, 0], 3, 4, 6, 6, 6, 6),
]

ERRORS = {
    "cannot be multiplied": (
        "A matrix product does not fit. Was it W_o's? It takes D numbers a token, all heads end "
        "to end; heads that are still apart, or were summed or averaged, are D / H wide."
    ),
    "view size is not compatible": (
        "After a `transpose` the numbers no longer lie in the order of the axes, and `view` cannot "
        "join two of them. `reshape` and `flatten` can: they copy."
    ),
}
STOPS_AT_TWO = {
    "": (
        "Your function is right for one sentence and stops at two. Scores are (B, H, Q, K) here, "
        "or (B · H, Q, K) where heads are folded into the batch: lengths (B,) must line up."
    )
}


def merged_output(result: Any, *inputs: Any) -> str | None:
    """On sizes that all differ, so that a shape tells its story."""
    if isinstance(result, tuple | list):
        return "Only the output is asked for; you return more than one thing."
    if not isinstance(result, Tensor):
        return None  # the next step tells
    queries, keys, *_, num_heads, _ = inputs
    batch, num_queries, size = queries.shape
    width = size // num_heads
    shapes = {
        (batch, num_heads, num_queries, keys.shape[1]): (
            "Those are the weights. The average of the values, the merge and W_o are missing."
        ),
        (batch, num_heads, num_queries, width): (
            "The heads are still apart. Put them end to end, and multiply by W_o."
        ),
        (batch, num_queries, num_heads, width): (
            "The heads still have an axis. Join the last two, and multiply by W_o."
        ),
        (batch, num_queries, width): (
            "That is as wide as one head. Heads stand end to end, D numbers a token: they are "
            "neither summed nor averaged."
        ),
        (batch * num_heads, num_queries, width): (
            "The heads are still folded into the batch. Put them end to end, then W_o."
        ),
    }
    if result.shape == queries.shape:
        return None
    why = shapes.get(tuple(result.shape), "One vector of D numbers for each query.")
    return (
        f"Your result has shape {tuple(result.shape)}; it should be (B, Q, D) = "
        f"{tuple(queries.shape)}. {why}"
    )


def nothing_to_see(output: Tensor, *_: Any) -> str | None:
    if output.isnan().any():
        return "A sentence of length 0 gives NaN: its softmax divides 0 by 0. It should give 0."
    if not output.any():
        return None
    return (
        f"A sentence of length 0 gives {show(output)}, from padding. Its weights should be 0, as "
        "`masked_softmax` makes them."
    )


def residual(queries, *inputs):
    return queries + right(queries, *inputs)


SENTENCES = "For one sentence your function is right, for several it is not."
SIZES = (
    "For queries, keys and values of one size your function is right. Here each has a size of its "
    "own, and W_q (size, D) brings all to D."
)

write_multi_head = Exercise(
    id="6.4",
    title="Write multi-head attention",
    task=(
        "Complete `multi_head(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens)`: "
        "queries (B, Q, any size), keys and values (B, K, any size), W_q, W_k, W_v (size, D), W_o "
        "(D, D), lengths (B,) from 0 to K, output (B, Q, D). The W are plain matrices: "
        "`queries @ W_q`. The first head owns the first D / H columns. `masked_softmax(scores, "
        "valid_lens)` takes scores (B, H, Q, K), too."
    ),
    difficulty="medium",
    minutes=15,
    hints=[
        "Five steps: project, cut into heads (6.3), scaled dot-product attention in each head, "
        "heads end to end, W_o. Print the shape after each.",
        "`@`, `.mT` and `masked_softmax` work on the last two axes and leave (B, H) alone, so the "
        "middle step reads as it does without heads. How long is a query there?",
        "The way back is the way there, backwards: first swap heads and tokens, then join the "
        "last two axes with `flatten(start_dim=2)`.",
    ],
    stub=multi_head,
    solution=multi_head_solution,
    explanation=(
        "Inside a head nothing is new: scores over the root of the head's own size, softmax over "
        "the keys, average of the values. The lengths belong to sentences and hold for all of a "
        "sentence's heads. W_o sees all heads of a token at once, the only place where they meet."
    ),
    steps=[
        explains(ERRORS, [ONE_SENTENCE]),
        holds(merged_output, [ONE_SENTENCE]),
        like(right, [ONE_SENTENCE]),
        named(ONE_SENTENCE),
        unlike(
            residual,
            "You added the queries to the output, as a Transformer block does around this layer "
            "(chapter 8). Here the output stands alone.",
            ONE_SENTENCE,
        ),
        agrees(right, [ONE_SENTENCE]),
        explains(STOPS_AT_TWO, [AS_MANY_AS_HEADS]),
        mask_on_heads(
            multi_head_with(hide=on_heads), AS_MANY_AS_HEADS, MORE_THAN_HEADS, "(B, 1, K)"
        ),
        unlike(
            multi_head_with(hide=longest_for_all),
            "Every sentence gets the length of the longest. Each has its own padding.",
            AS_MANY_AS_HEADS,
        ),
        because(SENTENCES, agrees(right, [AS_MANY_AS_HEADS, MORE_THAN_HEADS])),
        like(right, [NOTHING]),
        holds(nothing_to_see, [NOTHING]),
        because(SIZES, agrees(right, [OWN_SIZES])),
        agrees(right, CASES, tolerance=1e-4),
    ],
    wrong=[
        Wrong(mistakes.summed_into_w_o, "You summed the heads"),
        Wrong(mistakes.summed, "heads that are still apart, or were summed"),
        Wrong(mistakes.averaged_and_repeated, "You averaged the heads"),
        Wrong(mistakes.scaled_by_all, "the root of D, the width of all heads"),
        Wrong(mistakes.not_scaled, "The division by the root of D / H is missing"),
        Wrong(mistakes.scaled_without_root, "divide by D / H itself"),
        Wrong(mistakes.softmax_over_the_heads, "runs over the heads"),
        Wrong(mistakes.softmax_over_the_queries, "runs over the queries"),
        Wrong(mistakes.without_w_o, "W_o is missing"),
        Wrong(mistakes.cut_by_view, "You cut the heads by `view`"),
        Wrong(mistakes.merged_by_reshape, "You merged the heads by `reshape`"),
        Wrong(mistakes.view_there_and_back, "there and back"),
        Wrong(mistakes.every_other_column, "every other column"),
        Wrong(mistakes.first_head_for_all, "the first head's columns"),
        Wrong(mistakes.averages_the_keys, "You average the keys"),
        Wrong(mistakes.one_matrix_for_all, "You use W_q for the keys"),
        Wrong(mistakes.queries_added, "You added the queries"),
        Wrong(mistakes.linear_layers, "matrices turned"),
        Wrong(mistakes.lengths_ignored, "padding takes part"),
        Wrong(mistakes.one_key_too_many, "One key too many"),
        Wrong(mistakes.hidden_too_late, "after the softmax"),
        Wrong(mistakes.cut_to_the_longest, "the length of the longest"),
        Wrong(mistakes.two_at_once, "Two mistakes at once"),
        Wrong(mistakes.lengths_on_heads, "no axis for the heads"),
        Wrong(mistakes.folded_with_repeat, "`repeat_interleave` makes 7 7 9 9"),
        Wrong(mistakes.folded_without_copies, "is right for one sentence and stops at two"),
        Wrong(mistakes.length_of_the_first, "for several it is not"),
        Wrong(mistakes.nothing_as_a_number, "returned a int"),
        Wrong(mistakes.finite_fill, "from padding"),
        Wrong(mistakes.infinite_fill, "gives NaN"),
        Wrong(mistakes.size_of_the_queries, "Here each has a size of its own"),
        Wrong(mistakes.view_after_transpose, "`view` cannot join"),
        Wrong(mistakes.heads_still_apart, "The heads are still apart"),
        Wrong(mistakes.without_return, "Is the `return` missing?"),
        Wrong(mistakes.weights_too, "more than one thing"),
    ],
)
