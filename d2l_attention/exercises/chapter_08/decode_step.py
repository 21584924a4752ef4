"""8.5: one step of decoding with a cache, right for the first token alone."""

from typing import Any

import torch
from torch import Tensor

from d2l_attention import dot_product_attention
from d2l_attention.attention.positional import RotaryEncoding
from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_08 import step_mistakes as mistakes
from d2l_attention.exercises.chapter_08.step_table import candidates, step_with
from d2l_attention.exercises.compare import form_differs
from d2l_attention.exercises.exercise import Exercise, Step, Wrong
from d2l_attention.exercises.helpers import alike, because, normal, one_by_one, row
from d2l_attention.exercises.show import show


def decode_step(query, key, value, cache, rotate):
    query, key, value = (rotate(X, offset=0) for X in (query, key, value))
    pairs = zip(cache, (key, value), strict=True)
    keys, values = (torch.cat((old, new), dim=2) for old, new in pairs)
    weights = (query @ keys.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
    return weights @ values, (key, value)


def decode_step_solution(query, key, value, cache, rotate):
    position = cache[0].shape[2]  # as many tokens stand before this one
    query, key = (rotate(X, offset=position) for X in (query, key))
    pairs = zip(cache, (key, value), strict=True)
    keys, values = (torch.cat((old, new), dim=2) for old, new in pairs)
    weights = (query @ keys.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
    return weights @ values, (keys, values)


class Rotate:
    """Rotary positions as the student's step gets them, with a name to be shown by."""

    __name__ = "rotate"

    def __init__(self, head_size: int):
        self.positions = RotaryEncoding(head_size)

    def __call__(self, X: Tensor, *, offset: int) -> Tensor:
        return self.positions.rotate(X, offset=offset)


class Sentence:
    """Queries, keys and values (B, H, T, D) of a sentence that is written step by step."""

    def __init__(self, queries: Tensor, keys: Tensor, values: Tensor):
        self.rows = queries, keys, values
        self.rotate = Rotate(queries.shape[-1])

    def inputs(self, t: int, cache: Any) -> tuple:
        return (*(X[:, :, t : t + 1] for X in self.rows), cache, self.rotate)

    def empty(self) -> list[Tensor]:
        return [X[:, :, :0] for X in self.rows[1:]]

    def all_at_once(self) -> Tensor:
        """Full attention with a causal mask: what no cache may change."""
        queries, keys, values = self.rows
        queries, keys = self.rotate(queries, offset=0), self.rotate(keys, offset=0)
        return dot_product_attention(queries, keys, values, is_causal=True)

    def __len__(self) -> int:
        return self.rows[0].shape[2]


SHORT = Sentence(
    row([1, 0], [1, 1], [2, 1]), row([1, 1], [0, 2], [1, -1]), row([2, 4], [6, 8], [1, 0])
)
LONGER = [
    Sentence(*normal(seed, *[(B, H, T, D)] * 3))
    for seed, (B, H, T, D) in enumerate([(2, 3, 5, 4), (3, 1, 4, 6), (1, 2, 1, 2)])
]


def two_results(attempt: Attempt) -> str | None:
    inputs, result = next(one_by_one(attempt, SHORT))
    if result is None:
        return "Your function returned `None`. Is the `return` missing?"
    if not isinstance(result, tuple | list) or len(result) != 2:
        return "Return two results: the output, and the cache for the next step."
    found = form_differs(result[0], inputs[2])
    return found and f"The output of the first step: {found}"


def named(sentence: Sentence) -> Step:
    """The first step that goes wrong, and why."""

    def step(attempt: Attempt) -> str | None:
        wanted, mine = sentence.all_at_once(), []
        for t, (inputs, (output, _)) in enumerate(one_by_one(attempt, sentence)):
            mine.append(output)
            right = wanted[:, :, t : t + 1]
            if alike(output, right):
                continue
            numbers = ""
            if right.numel() <= 4:
                numbers = (
                    f" Its output is {show(output)}; all tokens at once, with a causal mask, give "
                    f"{show(right)}."
                )
            return (
                f"Token {t} goes wrong. {reason(attempt, t)}{numbers} Smallest case that shows "
                f"it: {attempt.case(inputs)}."
            )
        return None

    return step


def reason(attempt: Attempt, t: int) -> str:
    """The mistake of the table that gives the same outputs, if there is one."""
    mine = [output for _, (output, _) in one_by_one(attempt, SHORT)]
    if not all(map(alike, mine, SHORT.all_at_once().split(1, dim=2))):
        for wrong, why in candidates():
            theirs = (output for _, (output, _) in one_by_one(wrong, SHORT))
            if all(map(alike, mine, theirs)):
                return why
    if t == 0:
        return "The first token sees itself alone: its output has to be its value, as it is."
    return "Play this step through by hand: which keys does it see, and at which positions?"


def cache_as_it_was(attempt: Attempt) -> str | None:
    list(one_by_one(attempt, SHORT))
    return attempt.changed and (
        "Your step changes the cache that it was given. A beam search goes on from one cache in "
        f"several ways: make a new one, as `torch.cat` does. {attempt.changed}"
    )


MANY = "For one sentence and one head your step is right. For others it is not."

repair_decode_step = Exercise(
    id="8.5",
    title="Right for one token",
    task=(
        "`decode_step(query, key, value, cache, rotate)` gets a new token's query, key and value, "
        "(B, H, 1, D) each, and a cache: the pair `(keys, values)` of the n tokens before it, "
        "(B, H, n, D) each. At the first step n = 0. It returns the output (B, H, 1, D) and the "
        "cache for the next step, such a pair again. `rotate(X, offset=p)` gives X (B, H, m, D) "
        "rotary positions p, p + 1, and so on. Step by step `decode_step` should give what causal "
        "self-attention with rotary positions gives for all tokens at once. Its first token is "
        "right. It has three bugs, and one of them shows only once another is mended."
    ),
    difficulty="medium",
    minutes=15,
    hints=[
        "Write down the shapes of `keys` in steps 1, 2 and 3, and the position that each token is "
        "given. What is special about the first step?",
        "How does a step know at which position its token stands? And what must the next step "
        "find in its cache?",
        "At position 0 `rotate` changes nothing. Look again at what it is applied to, once "
        "positions count: who asks where something stands, and who is only read?",
    ],
    stub=decode_step,
    solution=decode_step_solution,
    explanation=(
        "The cache's length is the new token's position. Old keys keep the turn that they were "
        "given, each at its own place, so the cache grows by one row and nothing in it is touched. "
        "Values are not turned: what is read says nothing of where it stood. For the first token "
        "all three bugs are invisible: position 0 turns nothing, and there is nothing to forget."
    ),
    steps=[
        two_results,
        named(SHORT),
        *(because(MANY, named(sentence)) for sentence in LONGER),
        cache_as_it_was,
    ],
    wrong=[
        Wrong(mistakes.only_the_position, "only the newest token"),
        Wrong(mistakes.only_the_cache, "Every token is given the same position"),
        Wrong(mistakes.position_and_cache, "You rotate the values, too"),
        Wrong(mistakes.values_and_cache, "Every token is given the same position"),
        Wrong(mistakes.position_and_values, "only the newest token"),
        Wrong(mistakes.heads_for_the_position, "Every token is given the same position"),
        Wrong(mistakes.batch_for_the_length, "its output has to be its value"),
        Wrong(mistakes.all_rotated_and_kept, "rotates the old keys again"),
        Wrong(step_with(key_position="again"), "rotates the old keys again"),
        Wrong(step_with(kept="old"), "never grows"),
        Wrong(step_with(kept="swapped"), "have changed places"),
        Wrong(step_with(seen="old"), "does not see itself"),
        Wrong(step_with(seen="new"), "sees itself alone"),
        Wrong(step_with(query_position="none", key_position="none"), "the same position, or none"),
        Wrong(step_with(query_position="same"), "The query is at position 0"),
        Wrong(step_with(key_position="same"), "The key is at position 0"),
        Wrong(step_with(query_position="next"), "one place behind its own key"),
        Wrong(step_with(joined="key in front"), "in opposite orders"),
        Wrong(step_with(joined="value in front"), "in opposite orders"),
        Wrong(step_with(scale=False), "The division by the root"),
        Wrong(mistakes.no_cache_returned, "Return two results"),
        Wrong(mistakes.without_return, "Is the `return` missing?"),
        Wrong(mistakes.in_place, "A beam search goes on from one cache"),
        Wrong(mistakes.first_head_of_the_cache, "For others it is not"),
        Wrong(mistakes.joined_along_the_heads, "It happened for"),
    ],
)
