"""6.5: three bugs, one of them silent where batch and heads are of one size."""

from typing import Any

import torch
from torch import Tensor

from d2l_attention.exercises.chapter_06 import parts
from d2l_attention.exercises.chapter_06 import three_bugs_mistakes as mistakes
from d2l_attention.exercises.chapter_06.helpers import mask_on_heads
from d2l_attention.exercises.compare import form_differs
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.helpers import because, normal
from d2l_attention.exercises.show import show
from d2l_attention.exercises.steps import agrees, explains, holds, like, unlike


def attend_in_heads(queries, keys, values, mask, num_heads):
    q, k, v = (X.unflatten(-1, (num_heads, -1)).transpose(1, 2) for X in (queries, keys, values))
    scores = q @ k.mT / queries.shape[-1] ** 0.5
    weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    return (weights @ v).reshape(queries.shape)


def attend_in_heads_solution(queries, keys, values, mask, num_heads):
    q, k, v = (X.unflatten(-1, (num_heads, -1)).transpose(1, 2) for X in (queries, keys, values))
    scores = q @ k.mT / q.shape[-1] ** 0.5
    # (B, 1, Q, K): one mask a sentence, the same for each of its heads.
    weights = scores.masked_fill(~mask[:, None], -torch.inf).softmax(dim=-1)
    return (weights @ v).transpose(1, 2).reshape(queries.shape)


def with_parts(**wrong_parts):
    """The right function but for the parts that are given."""

    def mended_in_part(queries, keys, values, mask, num_heads):
        return parts.attend(queries, keys, values, mask, num_heads, **wrong_parts)

    return mended_in_part


right = with_parts()


def random_case(seed: int, H: int, B: int, Q: int, K: int, D: int) -> tuple:
    """Every query sees the first key, and others by chance."""
    inputs = normal(seed, (B, Q, D), (B, K, D), (B, K, D))
    mask = normal(seed + 100, (B, Q, K))[0] > 0
    mask[..., 0] = True
    return (*inputs, mask, H)


# A single query: nothing to mix up in the merge. A single sentence: no mask to mix up.
SCALE = (
    torch.tensor([[[1.0, 2, 0, 1, 1, 1]]]),
    torch.tensor([[[1.0, 0, 1, 0, 1, 0], [0, 0, 0, 2, 0, 1]]]),
    torch.tensor([[[1.0, 2, 3, 4, 5, 6], [6, 8, 3, 5, 9, 1]]]),
    torch.ones(1, 1, 2, dtype=torch.bool),
    2,
)
# Each token sees itself alone: whatever the scores, the output has to be the values.
ITSELF = (
    torch.zeros(1, 3, 2),
    torch.zeros(1, 3, 2),
    torch.tensor([[[1.0, 2], [3, 4], [5, 6]]]),
    torch.eye(3, dtype=torch.bool)[None],
    2,
)
# Equal scores and one query a sentence: the output is the mean of the values that it sees.
VALUES = torch.tensor([[[2.0, 4], [6, 8]], [[10, 20], [30, 40]], [[1, 3], [5, 7]]])
SEES = torch.tensor([[[True, False]], [[True, True]], [[True, False]]])
AS_MANY_AS_HEADS = (torch.zeros(2, 1, 2), torch.zeros(2, 2, 2), VALUES[:2], SEES[:2], 2)
MORE_THAN_HEADS = (torch.zeros(3, 1, 2), torch.zeros(3, 2, 2), VALUES, SEES, 2)
# One query, one of two keys to be seen: nothing to mix up but the meaning of the mask.
ONE_OF_TWO = (torch.zeros(1, 1, 2), torch.zeros(1, 2, 2), VALUES[:1], SEES[:1], 2)
SHAPES = random_case(0, 2, 1, 5, 3, 14)
CASES = [
    random_case(1, 2, 2, 4, 3, 6),
    random_case(2, 3, 2, 3, 5, 6),
    random_case(3, 1, 3, 2, 4, 5),
    random_case(4, 5, 2, 5, 3, 5),
]

AS_MANY = "With two sentences and two heads your function is right, with other numbers it is not."
STOPS_AT_ONE = {
    "": (
        "Your function stops at a single sentence with two heads, five queries and three keys. "
        "Look at the axes: where do your mask and your merge expect each of them?"
    )
}


def in_one_tensor(result: Any, queries: Tensor, *inputs: Any) -> str | None:
    *_, num_heads = inputs
    batch, num_queries, size = queries.shape
    if not isinstance(result, Tensor) or result.shape == queries.shape:
        return None
    width = size // num_heads
    shapes = {
        (batch, num_heads, num_queries, width): "The merge is missing.",
        (batch, num_queries, num_heads, width): "The heads still have an axis: join the last two.",
        (batch, num_queries, width): "The heads should stand end to end: do not sum them.",
    }
    why = shapes.get(tuple(result.shape), "The output is as long and as wide as the queries.")
    return (
        f"Your result has shape {tuple(result.shape)}; it should be (B, Q, D) = "
        f"{tuple(queries.shape)}. {why}"
    )


def output_is_the_values(output: Any, *inputs: Any) -> str | None:
    values = inputs[2]
    if (found := form_differs(output, values)) or torch.allclose(output, values):
        return found
    return (
        f"Each token sees itself alone here, so the output should be the values. Yours is "
        f"{show(output)}."
    )


def mean_of_what_is_seen(output: Any, *inputs: Any) -> str | None:
    expected = right(*inputs)
    if (found := form_differs(output, expected)) or torch.allclose(output, expected):
        return found
    sentence, _, head = (~torch.isclose(output, expected)).nonzero()[0].tolist()
    return (
        f"All scores are 0 here, so each head gives the mean of what its sentence shows. Head "
        f"{head} of sentence {sentence} gives {show(output[sentence, 0, head].item())}; it should "
        f"be {show(expected[sentence, 0, head].item())}."
    )


def first_sentence_for_all(visible: Tensor, num_heads: int) -> Tensor:
    return visible[:1, None]


# Parts, what to say where only they are wrong, and a case in which other bugs do not show.
MISTAKES = [
    (
        {"scale": parts.root_of_all_heads},
        "The scores are divided by the root of D, the width of all heads together. A score sums "
        "up the products of one head.",
        SCALE,
    ),
    (
        {"scale": lambda queries, keys: 1.0},
        "The scores are not divided at all. The division stays; its number was wrong.",
        SCALE,
    ),
    (
        {"scale": lambda queries, keys: queries.shape[-1]},
        "The scores are divided by the head's width, not by its root.",
        SCALE,
    ),
    (
        {"scale": lambda queries, keys: queries.shape[1] ** 0.5},
        "The scores are divided by the root of the number of heads. A score sums up D / H "
        "products: the width of one head.",
        SCALE,
    ),
    (
        {"hide": parts.turned_over},
        "You hide what may be seen. True means 'may attend', and `masked_fill` writes where it is "
        "given True: `~mask` was no bug.",
        ONE_OF_TWO,
    ),
    ({"hide": parts.nothing_hidden}, "The mask does nothing any more.", ONE_OF_TWO),
    (
        {"merge": parts.reshaped},
        "Each token sees itself alone here, so the output should be the values. Yours is "
        "[1, 3], [5, 2], [4, 6]: all of the first head, then all of the second. A `reshape` of "
        "(B, H, Q, D / H) moves no number. Which two axes have to change places first?",
        ITSELF,
    ),
    (
        {"split": parts.by_view},
        "Each token sees itself alone here, so the output should be the values. The merge is "
        "right now, but the heads are cut by `view` alone; the cut was no bug.",
        ITSELF,
    ),
    (
        {"split": parts.by_view, "merge": parts.reshaped},
        "Cut and merged by `reshape` alone, there and back: a head gets some tokens whole and "
        "never sees the others. The cut was no bug; the merge has to undo it.",
        SHAPES,
    ),
    (
        {"merge": parts.columns_in_turn},
        "Your merge takes one number from each head in turn. All of one head stands together, "
        "as it was cut: only heads and tokens change places.",
        SHAPES,
    ),
    (
        {"axis": 1},
        "Your softmax runs over the heads. Over the keys, the last axis, it was no bug.",
        SHAPES,
    ),
    (
        {"hide": first_sentence_for_all},
        "All sentences get the mask of the first one.",
        AS_MANY_AS_HEADS,
    ),
]


find_the_bugs = Exercise(
    id="6.5",
    title="It ran with two sentences and two heads",
    task=(
        "`attend_in_heads(queries, keys, values, mask, num_heads)` gets projected queries (B, Q, "
        "D), keys and values (B, K, D), and a boolean mask (B, Q, K), True = may attend, in which "
        "each query sees at least one key; the output is (B, Q, D), heads end to end. Its author "
        "ran it with two sentences and two heads, and no error came. It has three bugs. Mend it."
    ),
    difficulty="medium",
    minutes=15,
    hints=[
        "One bug at a time. With a mask of `torch.eye(n, dtype=torch.bool)[None]` every token "
        "sees itself alone: what must come out, and what does? Then one query, one sentence.",
        "Ask three questions: how many products does one score sum up? In which order does "
        "`reshape` read (B, H, Q, D / H)? And whose mask does the second head get?",
        "Broadcasting lines axes up from the end: beside (B, H, Q, K), a mask (B, Q, K) lays its "
        "B on H. Run it with three sentences and two heads.",
    ],
    stub=attend_in_heads,
    solution=attend_in_heads_solution,
    explanation=(
        "`queries` is still the uncut tensor, so its last axis is D; a head's is D / H. The mask "
        "was read as (1, B, Q, K): for three sentences and two heads that is an error, for B = H "
        "it silently gives head h the mask of sentence h. And `reshape` without `transpose` writes "
        "one head's answers to several queries into one token. Give every axis of a test its own "
        "size, and test equal sizes as well."
    ),
    steps=[
        explains(STOPS_AT_ONE, [SHAPES]),
        holds(in_one_tensor, [SHAPES]),
        like(right, [SHAPES]),
        *(unlike(with_parts(**wrong), why, case) for wrong, why, case in MISTAKES),
        holds(output_is_the_values, [ITSELF]),
        agrees(right, [ONE_OF_TWO, SCALE, SHAPES]),
        mask_on_heads(
            with_parts(hide=parts.on_heads), AS_MANY_AS_HEADS, MORE_THAN_HEADS, "(B, Q, K)"
        ),
        holds(mean_of_what_is_seen, [AS_MANY_AS_HEADS]),
        because(AS_MANY, agrees(right, [MORE_THAN_HEADS, *CASES])),
    ],
    wrong=[
        Wrong(mistakes.still_the_root_of_d, "the root of D, the width of all heads"),
        Wrong(mistakes.only_the_merge_mended, "the root of D, the width of all heads"),
        Wrong(mistakes.merge_not_mended, "all of the first head, then all of the second"),
        Wrong(mistakes.only_the_scale_mended, "all of the first head, then all of the second"),
        Wrong(mistakes.mask_not_mended, "Your mask has no axis for the heads"),
        Wrong(with_parts(scale=lambda q, k: 1.0), "not divided at all"),
        Wrong(with_parts(scale=lambda q, k: q.shape[-1]), "not by its root"),
        Wrong(with_parts(scale=lambda q, k: q.shape[1] ** 0.5), "the number of heads"),
        Wrong(with_parts(split=parts.by_view), "the cut was no bug"),
        Wrong(with_parts(split=parts.by_view, merge=parts.reshaped), "there and back"),
        Wrong(with_parts(merge=parts.columns_in_turn), "one number from each head in turn"),
        Wrong(with_parts(merge=parts.summed), "do not sum them"),
        Wrong(with_parts(axis=1), "Your softmax runs over the heads"),
        Wrong(mistakes.without_return, "Is the `return` missing?"),
        Wrong(mistakes.unmerged, "The merge is missing"),
        Wrong(mistakes.with_mask(lambda mask, H: ~mask[:, None]), "You hide what may be seen"),
        Wrong(
            mistakes.with_mask(lambda mask, H: mask[None]), "Your mask has no axis for the heads"
        ),
        Wrong(mistakes.with_mask(mistakes.sentences_of_masks), "in the wrong order"),
        Wrong(mistakes.with_mask(lambda mask, H: mask[:, :, None]), "stops at a single sentence"),
        Wrong(mistakes.with_mask(lambda mask, H: mask[:1, None]), "the mask of the first one"),
        Wrong(mistakes.with_mask(lambda mask, H: mask.any(dim=0)), "it should be 2"),
        Wrong(mistakes.two_by_two, "with other numbers it is not"),
        Wrong(
            mistakes.with_mask(lambda mask, H: torch.ones_like(mask[:, None])),
            "does nothing any more",
        ),
    ],
)
