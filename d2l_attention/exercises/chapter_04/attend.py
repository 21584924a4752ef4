"""4.6: three bugs in four lines. Each is found by its own small case."""

import math

import torch
from torch import Tensor

from d2l_attention import dot_product_attention
from d2l_attention.exercises.chapter_04.helpers import not_these
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.steps import agrees, explains, holds, like, unlike


def attend(queries, keys, values, valid_lens):
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    hidden = torch.arange(keys.shape[1]) > valid_lens[:, None, None]
    scores[hidden.expand_as(scores)] = -1e6
    return scores.softmax(dim=1) @ values


def attend_solution(queries, keys, values, valid_lens):
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    hidden = torch.arange(keys.shape[1]) >= valid_lens[:, None, None]
    weights = scores.masked_fill(hidden, -1e6).softmax(dim=-1)
    return weights.masked_fill(hidden, 0.0) @ values


def equal_scores(values: list[float], length: int) -> tuple[Tensor, ...]:
    """One query that scores every key 0: the answer is the mean of the values it sees."""
    column = torch.tensor(values)[None, :, None]
    return torch.zeros(1, 1, 1), torch.zeros_like(column), column, torch.tensor([length])


def random_case(seed: int, Q: int, lens: list[int]) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    shapes = ((len(lens), Q, 7), (len(lens), 5, 7), (len(lens), 5, 11))
    return (*(torch.randn(shape, generator=generator) for shape in shapes), torch.tensor(lens))


ALL_VISIBLE = equal_scores([2.0, 4.0], 2)
TWO_OF_FOUR = equal_scores([2.0, 4.0, 9.0, 21.0], 2)
NOTHING = equal_scores([2.0, 4.0], 0)
LONG_QUERY = (
    torch.tensor([[[2.0, 0.0, 0.0, 0.0]]]),
    torch.tensor([[[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]]),
    torch.tensor([[[0.0], [1.0]]]),
    torch.tensor([2]),
)
ONE_SENTENCE = random_case(0, 2, [5])
BATCH = random_case(1, 2, [0, 3, 5])
SQUARE = random_case(2, 3, [4, 1, 5])  # as many sentences as queries: axes can be mixed up

STOPS_AT_THREE = {
    "Boolean value": (
        "Your function is right for one sentence. An `if` takes one yes or no, and three lengths "
        "give three."
    ),
    "": (
        "Your function is right for one sentence and stops at three. Look at the axes: (B,) "
        "lengths must line up with scores of (B, Q, K)."
    ),
}

WRONG_AXIS = {
    6.0: (
        "that is the sum of the values, though both keys score the same: each got weight 1. "
        "The softmax runs over an axis that is 1 long here. Which axis holds the keys?"
    ),
    0.0: "both keys are visible here, and the answer is 0. What is hidden, and should not be?",
}
WRONG_KEYS = {
    5.0: "that is the mean of three values. Length 2 shows keys 0 and 1; what about key 2?",
    9.0: (
        "that is the mean of all four values. Either no key is hidden (are queries?), or the "
        "score that you fill in is as high as that of the visible keys."
    ),
    2.0: "that is the first value alone. Length 2 shows keys 0 and 1.",
    15.0: "that is the mean of the last two values: you hide what should be visible.",
    1.5: (
        "the weights of the two visible keys sum to one half. The padding took its share in the "
        "softmax before you removed it."
    ),
}


def nothing_to_see(output: Tensor, *_: Tensor) -> str | None:
    if output.isnan().any():
        return (
            "A query with nothing to see gets NaN: its exponentials are all 0, and the softmax "
            "divides 0 by 0. Its answer should be 0."
        )
    if not output.any():
        return None
    return (
        f"A query with nothing to see gets {output.item():g}, from padding. All of its scores "
        "are equally low, and the softmax knows differences only. Its answer should be 0."
    )


def without_scale(queries, keys, values, valid_lens):
    return attend_solution(queries * queries.shape[-1] ** 0.5, keys, values, valid_lens)


def scaled_by_size(queries, keys, values, valid_lens):
    return attend_solution(queries / queries.shape[-1] ** 0.5, keys, values, valid_lens)


def scaled_by_keys(queries, keys, values, valid_lens):
    ratio = queries.shape[-1] / keys.shape[1]
    return attend_solution(queries * ratio**0.5, keys, values, valid_lens)


def fill_with_zero(queries, keys, values, valid_lens):
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    visible = torch.arange(keys.shape[1]) < valid_lens[:, None, None]
    return (scores * visible).softmax(dim=-1) @ values


def with_bugs(greater: bool = False, empty_rows: bool = False, axis: int = -1):
    """The given code with only some of its bugs left."""

    def still_wrong(queries, keys, values, valid_lens):
        scores = queries @ keys.mT / queries.shape[-1] ** 0.5
        lens = valid_lens[:, None, None]
        places = torch.arange(keys.shape[1])
        hidden = places > lens if greater else places >= lens
        weights = scores.masked_fill(hidden, -1e6).softmax(dim=axis)
        return (weights if empty_rows else weights.masked_fill(hidden, 0.0)) @ values

    return still_wrong


def minus_infinity(queries, keys, values, valid_lens):
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    hidden = torch.arange(keys.shape[1]) >= valid_lens[:, None, None]
    return scores.masked_fill(hidden, -math.inf).softmax(dim=-1) @ values


def mask_turned_over(queries, keys, values, valid_lens):
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    visible = torch.arange(keys.shape[1]) < valid_lens[:, None, None]
    return scores.masked_fill(visible, -1e6).softmax(dim=-1).masked_fill(visible, 0.0) @ values


def mask_after_the_softmax(queries, keys, values, valid_lens):
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    visible = torch.arange(keys.shape[1]) < valid_lens[:, None, None]
    return (scores.softmax(dim=-1) * visible) @ values


def mask_without_query_axis(queries, keys, values, valid_lens):
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    hidden = torch.arange(keys.shape[1]) >= valid_lens[:, None]
    return scores.masked_fill(hidden, -1e6).softmax(dim=-1).masked_fill(hidden, 0.0) @ values


def one_bare_if(queries, keys, values, valid_lens):
    if valid_lens == 0:
        return torch.zeros(len(queries), queries.shape[1], values.shape[2])
    return with_bugs(empty_rows=True)(queries, keys, values, valid_lens)


def weights_too(queries, keys, values, valid_lens):
    return dot_product_attention(queries, keys, values, valid_lens, need_weights=True)


find_the_bugs = Exercise(
    id="4.6",
    title="Three bugs",
    task=(
        "`attend(queries, keys, values, valid_lens)` has three bugs. Mend it. Shapes: queries "
        "(B, Q, D), keys (B, K, D), values (B, K, V), integer lengths (B,) from 0 to K, output "
        "(B, Q, V). A query with nothing to see gets the answer 0. The padding is finite."
    ),
    difficulty="medium",
    minutes=15,
    hints=[
        "One bug at a time, with small cases: one query, equal scores (queries and keys of "
        "zeros), so that each answer is a plain mean that you can do in your head.",
        "Three questions. Whose weights sum to 1? Which keys does a length of 2 show? What does "
        "a length of 0 give?",
        "The third bug needs one more line: no number that you fill in before the softmax makes "
        "a row of zeros.",
    ],
    stub=attend,
    solution=attend_solution,
    explanation=(
        "The softmax ran over the queries (`dim=1`) instead of the keys. `>` let one padding "
        "through: positions count from 0, so length 2 hides from position 2 on. And a row of "
        "-1e6 is a row of equal scores, so its weights have to be cleared after the softmax."
    ),
    steps=[
        like(dot_product_attention, [ALL_VISIBLE, ONE_SENTENCE]),
        not_these(WRONG_AXIS, ALL_VISIBLE),
        not_these(WRONG_KEYS, TWO_OF_FOUR),
        holds(nothing_to_see, [NOTHING]),
        agrees(dot_product_attention, [ALL_VISIBLE, TWO_OF_FOUR, NOTHING]),
        unlike(without_scale, "The division by the root of D was no bug.", LONG_QUERY),
        unlike(scaled_by_keys, "You divide by the root of K. That of D was no bug.", LONG_QUERY),
        unlike(scaled_by_size, "You divide by D; its root was no bug.", LONG_QUERY),
        agrees(dot_product_attention, [LONG_QUERY, ONE_SENTENCE]),
        explains(STOPS_AT_THREE, [BATCH]),
        agrees(dot_product_attention, [BATCH, SQUARE]),
    ],
    wrong=[
        Wrong(with_bugs(greater=True, empty_rows=True, axis=0), "Which axis holds the keys?"),
        Wrong(with_bugs(axis=1), "Which axis holds the keys?"),
        Wrong(with_bugs(greater=True, empty_rows=True), "the mean of three values"),
        Wrong(with_bugs(greater=True), "the mean of three values"),
        Wrong(with_bugs(empty_rows=True), "from padding"),
        Wrong(minus_infinity, "gets NaN"),
        Wrong(mask_turned_over, "the answer is 0. What is hidden"),
        Wrong(mask_after_the_softmax, "The padding took its share"),
        Wrong(without_scale, "the root of D was no bug"),
        Wrong(fill_with_zero, "the mean of all four values"),
        Wrong(scaled_by_keys, "the root of K"),
        Wrong(scaled_by_size, "You divide by D"),
        Wrong(mask_without_query_axis, "right for one sentence and stops at three"),
        Wrong(one_bare_if, "three lengths give three"),
        Wrong(weights_too, "returned a tuple"),
    ],
)
