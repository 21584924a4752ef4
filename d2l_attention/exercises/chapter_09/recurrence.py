"""9.5: causal linear attention as a recurrent network: one step, one state."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_09 import recurrence_mistakes as mistakes
from d2l_attention.exercises.chapter_09.recurrence_table import candidates, step_with
from d2l_attention.exercises.compare import form_differs
from d2l_attention.exercises.exercise import Exercise, Step, Wrong
from d2l_attention.exercises.helpers import alike, because, normal, one_by_one, row
from d2l_attention.exercises.show import show
from d2l_attention.variants import elu_plus_one, linear_attention


def linear_step(query, key, value, state, f): ...


def linear_step_solution(query, key, value, state, f):
    query, key = f(query), f(key)
    S, z = state
    S = S + key[..., :, None] * value[..., None, :]  # (B, H, D, V)
    z = z + key  # (B, H, D): what the weights sum to, once the query comes
    total = (query * z).sum(dim=-1, keepdim=True)
    return (query[..., None, :] @ S)[..., 0, :] / total, (S, z)


def one_plus_square(X: Tensor) -> Tensor:
    return 1 + X * X


class Sentence:
    """Queries, keys (B, H, T, D) and values (B, H, T, V) that come token by token."""

    def __init__(self, queries: Tensor, keys: Tensor, values: Tensor, f: Callable):
        self.rows, self.f = (queries, keys, values), f

    def inputs(self, t: int, state: Any) -> tuple:
        return (*(X[:, :, t] for X in self.rows), state, self.f)

    def empty(self) -> tuple[Tensor, Tensor]:
        _, keys, values = self.rows
        B, H, _, D = keys.shape
        return keys.new_zeros(B, H, D, values.shape[-1]), keys.new_zeros(B, H, D)

    def all_at_once(self) -> Tensor:
        """Weights one by one, and no future."""
        return linear_attention(*self.rows, is_causal=True, feature_map=self.f)

    def __len__(self) -> int:
        return self.rows[0].shape[2]


# D = V: a state that is turned round fits, and can be named.
SHORT = Sentence(
    row([1, 0], [2, 1], [0, 3]),
    row([1, 1], [0, 2], [2, -1]),
    row([2, 4], [6, 8], [-2, 0]),
    one_plus_square,
)
LONGER = [
    Sentence(*normal(seed, (B, H, T, D), (B, H, T, D), (B, H, T, V)), f)
    for seed, (B, H, T, D, V, f) in enumerate(
        [
            (2, 3, 5, 4, 7, elu_plus_one),
            (3, 1, 4, 6, 1, torch.exp),
            (1, 2, 1, 1, 3, elu_plus_one),
            (2, 2, 6, 2, 2, one_plus_square),
        ]
    )
]


def two_results(attempt: Attempt) -> str | None:
    inputs, result = next(one_by_one(attempt, SHORT))
    shown = f"Smallest case that shows it: {attempt.case(inputs)}."
    if result is None:
        return "Your function returned `None`. Is the `return` missing?"
    if not isinstance(result, tuple | list) or len(result) != 2:
        return "Return two results: the output, and the pair (S, z) for the next step."
    if not isinstance(result[1], tuple | list) or len(result[1]) != 2:
        return "The second result is the state for the next step, a pair (S, z)."
    if [getattr(X, "ndim", None) for X in result[1]] == [3, 4]:
        return "S and z have changed places in the state that you return: S comes first."
    if found := form_differs(result[0], inputs[2]):
        return f"The output of the first step: {found} {shown}"
    return None


def named(sentence: Sentence) -> Step:
    """The first step that goes wrong, and why."""

    def step(attempt: Attempt) -> str | None:
        wanted = sentence.all_at_once()
        for t, (inputs, (output, _)) in enumerate(one_by_one(attempt, sentence)):
            right = wanted[:, :, t]
            if alike(output, right):
                continue
            numbers = ""
            if right.numel() <= 4:
                numbers = f" Its output is {show(output)}; it should be {show(right)}."
            return (
                f"Token {t} goes wrong. {reason(attempt, t)}{numbers} Smallest case that shows it: "
                f"{attempt.case(inputs)}."
            )
        return None

    return step


def reason(attempt: Attempt, t: int) -> str:
    """The mistake of the table that gives the same outputs, if there is one."""
    mine = [output for _, (output, _) in one_by_one(attempt, SHORT)]
    if not all(map(alike, mine, SHORT.all_at_once().unbind(dim=2))):
        for wrong, why in candidates():
            theirs = (output for _, (output, _) in one_by_one(wrong, SHORT))
            if all(map(alike, mine, theirs)):
                return why
    if t == 0:
        return "The first token sees itself alone: its output has to be its value, as it is."
    return "Work out S and z of this step by hand: which keys and values are in them?"


def state_as_it_was(attempt: Attempt) -> str | None:
    list(one_by_one(attempt, SHORT))
    return attempt.changed and (
        "Your step writes into the state that it was given, as `S += ...` does. A beam search goes "
        f"on from one state in several ways: make a new one, `S = S + ...`. {attempt.changed}"
    )


def gradient_comes_through(attempt: Attempt) -> str | None:
    _, key, value, state, f = SHORT.inputs(1, SHORT.empty())
    output, _ = attempt(key, key.clone().requires_grad_(), value, state, f)
    if output.requires_grad:
        return None
    return (
        "The numbers are right, but no gradient reaches the keys. `.detach()`, `.tolist()` and "
        "`torch.tensor(...)` cut it off."
    )


MANY = "For one sentence and one head your step is right. For others it is not."

write_linear_step = Exercise(
    id="9.5",
    title="Attention with a fixed memory",
    task=(
        "Complete `linear_step(query, key, value, state, f)`, one token of causal linear "
        "attention. Query and key are (B, H, D), value (B, H, V). `f` is the feature map: it takes "
        "a query or a key and gives positive numbers of the same shape. The state is a pair: S (B, "
        "H, D, V), the sum of f(k) vᵀ over the tokens so far, and z (B, H, D), the sum of f(k). "
        "Both are zeros before the first token. Return the output (B, H, V) and the state for the "
        "next step, such a pair again. Step by step it should give what `linear_attention` gives "
        "for all tokens at once with `is_causal=True`."
    ),
    difficulty="medium",
    minutes=12,
    hints=[
        "What should come out for the first token, which sees itself alone? And what comes out, if "
        "the output is worked out before the token is in the state?",
        "The output is a weighted mean: f(q) times S has the weighted sum, f(q) times z the sum of "
        "the weights. Both sums run over D.",
        "`key[..., :, None] * value[..., None, :]` is (B, H, D, V). `query[..., None, :] @ S` is "
        "(B, H, 1, V).",
    ],
    stub=linear_step,
    solution=linear_step_solution,
    explanation=(
        "The sum over all pairs comes apart: f(q) stands in front, and after it comes a sum of "
        "keys and values that no query has to wait for. First the token goes into the state, then "
        "it asks, so that it sees itself. S and z are as large after a million tokens as after "
        "one, where a cache holds a million rows. The price: S has D V numbers, and what no longer "
        "fits into them is mixed up."
    ),
    steps=[
        two_results,
        named(SHORT),
        *(because(MANY, named(sentence)) for sentence in LONGER),
        state_as_it_was,
        gradient_comes_through,
    ],
    wrong=[
        Wrong(step_with(order="query first"), "asks before it is in the state"),
        Wrong(step_with(divide="not"), "Nothing is divided"),
        Wrong(step_with(divide="sum of z"), "the sum of z"),
        Wrong(step_with(divide="sum of the query"), "features of the query alone"),
        Wrong(step_with(divide="new key"), "newest key alone"),
        Wrong(step_with(query="plain"), "f is missing on the query"),
        Wrong(step_with(key="plain"), "f is missing on the key"),
        Wrong(step_with(query="plain", key="plain"), "f is missing on both"),
        Wrong(step_with(value="mapped"), "f acts on the value"),
        Wrong(step_with(key="twice"), "f acts twice on the key"),
        Wrong(step_with(S="new"), "S holds the newest token alone"),
        Wrong(step_with(z="new"), "z holds the newest key alone"),
        Wrong(step_with(S="new", z="new"), "nothing is added to"),
        Wrong(step_with(kept="old"), "never changes"),
        Wrong(step_with(kept="mean"), "divided before it is kept"),
        Wrong(step_with(S="turned"), "turned round"),
        Wrong(step_with(z="plain"), "z sums the keys without f"),
        Wrong(step_with(S="plain"), "S sums the keys without f"),
        Wrong(step_with(divide="softmax"), "a softmax"),
        Wrong(step_with(S="entry by entry"), "one by one"),
        Wrong(step_with(divide="not", query="plain", key="plain"), "And that is not all"),
        Wrong(step_with(scaled=True), "root of D"),
        Wrong(mistakes.state_alone, "a pair (S, z)"),
        Wrong(mistakes.three_results, "Return two results"),
        Wrong(mistakes.output_alone, "Return two results"),
        Wrong(mistakes.without_return, "Is the `return` missing?"),
        Wrong(mistakes.own_feature_map, "a feature map of your own"),
        Wrong(mistakes.in_place, "A beam search goes on"),
        Wrong(mistakes.all_heads_in_one, "For others it is not"),
        Wrong(mistakes.sums_over_the_batch, "For others it is not"),
        Wrong(mistakes.an_axis_too_many, "it should be (1, 1, 2)"),
        Wrong(mistakes.gradient_cut_off, "no gradient reaches the keys"),
        Wrong(mistakes.swapped_state, "have changed places"),
    ],
)
