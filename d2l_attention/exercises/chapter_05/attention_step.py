"""5.3: one step of additive attention, from the decoder's state to the context."""

from typing import Any

import torch
from torch import Tensor

from d2l_attention import additive_score, length_mask, masked_softmax
from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_05 import attention_mistakes as mistakes
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.helpers import because, none_of, normal
from d2l_attention.exercises.rules import near_one
from d2l_attention.exercises.show import show
from d2l_attention.exercises.steps import agrees, explains, holds, like


def attention_step(hidden, states, valid_lens, W_q, W_k, w_v): ...


def attention_step_solution(hidden, states, valid_lens, W_q, W_k, w_v):
    query, keys = hidden @ W_q.T, states @ W_k.T  # (B, A) and (B, S, A)
    # Without the axis in the middle the batch would line up with the source words.
    scores = torch.tanh(query[:, None] + keys) @ w_v  # (B, S)
    padding = torch.arange(states.shape[1]) >= valid_lens[:, None]
    weights = scores.masked_fill(padding, -torch.inf).softmax(dim=-1)
    return (weights[:, None] @ states)[:, 0], weights


def package_step(hidden, states, valid_lens, W_q, W_k, w_v) -> tuple[Tensor, Tensor]:
    query, keys = hidden @ W_q.mT, states @ W_k.mT
    scores = additive_score(query[:, None], keys, w_v)
    weights = masked_softmax(scores, mask=length_mask(valid_lens, states.shape[1]))
    return (weights @ states)[:, 0], weights[:, 0]


def random_case(seed: int, lens: list[int], sizes: tuple[int, int, int]) -> tuple[Tensor, ...]:
    """``sizes`` are S source words, H and A."""
    (S, H, A), B = sizes, len(lens)
    shapes = (B, H), (B, S, H), (A, H), (A, H), (A,)
    hidden, states, *weights = normal(seed, *shapes)
    return hidden, states, torch.tensor(lens), *weights


W_Q = torch.tensor([[1.0, 2.0], [0.0, 1.0]])
W_K = torch.tensor([[1.0, 0.0], [-1.0, 1.0]])
W_V = torch.tensor([2.0, -1.0])
ONE = (
    torch.tensor([[1.0, 0.0]]),
    torch.tensor([[[1.0, 0.0], [-1.0, 2.0]]]),
    torch.tensor([2]),
    W_Q,
    W_K,
    W_V,
)
# H = A, so that matrices may be mixed up; two words of padding, so that masks may be, too.
PADDED = (
    torch.tensor([[1.0, 0.0], [0.0, -1.0]]),
    torch.tensor([[[1.0, 0.0], [-1.0, 2.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 1.0], [2.0, 0.0]]]),
    torch.tensor([3, 1]),
    W_Q,
    W_K,
    W_V,
)
UNEQUAL = [random_case(0, [5], (5, 7, 3)), random_case(1, [2, 5, 1], (5, 3, 7))]
AS_MANY_SENTENCES_AS_WORDS = [
    random_case(3, [1, 2], (2, 2, 2)),
    random_case(2, [3, 1, 2], (3, 5, 2)),
]


def two_results(result: Any, hidden: Tensor, states: Tensor, *_: Tensor) -> str | None:
    """What the shapes give away."""
    wanted = hidden.shape, states.shape[:2]
    if isinstance(result, Tensor) and result.shape == wanted[0]:
        return (
            "Your function returns one tensor. Return the weights, too: `return context, weights`."
        )
    tensors = isinstance(result, tuple | list) and all(isinstance(part, Tensor) for part in result)
    if not tensors or len(result) != 2:
        return None  # the next step tells
    context, weights = result
    if wanted[0] != wanted[1] and (weights.shape, context.shape) == wanted:
        return "The two results are swapped: first the context (B, H), then the weights (B, S)."
    if weights.shape == (*wanted[1], 1) and (weights == 1).all():
        return (
            "All your weights are 1: the softmax runs over an axis of size 1. Your scores are "
            "(B, S, 1), so the source words stand on axis 1."
        )
    if context.shape == states.shape:
        return (
            "Your first result still has one vector for each source word. The context is their "
            "sum, (B, H)."
        )
    shapes = zip(("first", "second"), result, wanted, strict=True)
    return next(filter(None, (extra_axis(*entry) for entry in shapes)), None)


def extra_axis(which: str, got: Tensor, wanted: torch.Size) -> str | None:
    if got.ndim == len(wanted) or got.numel() != wanted.numel():
        return None
    return (
        f"Your {which} result has shape {tuple(got.shape)}; it should be {tuple(wanted)}. An axis "
        "of size 1 is left over, that of the single query: take it away."
    )


def softmax_per_sentence(result: tuple[Tensor, Tensor], *_: Any) -> str | None:
    weights = result[1]
    if weights.isnan().any():
        return (
            f"Your weights are {show(weights)}. NaN comes from 0 times infinity, and from a row "
            "whose scores are all -inf."
        )
    if near_one(weights.sum(dim=1)) or not near_one(weights.sum(dim=0)):
        return None
    return (
        f"Your weights are {show(weights)}: each column of (B, S) sums to 1. The softmax runs over "
        "the batch, so sentences compete with each other. Each row has to sum to 1: `dim=-1`."
    )


ERRORS = {
    "non-singleton dimension 1": (
        "Queries (B, A) and keys (B, S, A) do not line up: axes are counted from the end, so the "
        "sentences of the one meet the source words of the other. The query needs an axis of size "
        "1 for the words."
    ),
    "non-singleton dimension 0": (
        "Positions (S,) and lengths (B,) do not line up. Which of them has to become a column?"
    ),
}


def gradients(attempt: Attempt) -> str | None:
    hidden, states, lens, *weights = PADDED
    leaves = [weight.clone().requires_grad_() for weight in weights]
    result, _ = attempt(hidden, states, lens, *leaves)
    if result.requires_grad:
        found = torch.autograd.grad(result.sum(), leaves, allow_unused=True)
        if all(gradient is not None for gradient in found):
            return None
    return (
        "The numbers are right, but no gradient reaches `W_q`, `W_k` and `w_v`, so the model could "
        "not learn where to look. `.item()`, `.tolist()`, `.detach()` and `torch.tensor(...)` cut "
        "it off."
    )


write_attention_step = Exercise(
    id="5.3",
    title="One step of attention",
    task=(
        "Complete `attention_step(hidden, states, valid_lens, W_q, W_k, w_v)`: what the decoder's "
        "state before a step, `hidden` (B, H), sees of the encoder's `states` (B, S, H). Scores "
        "are w_v · tanh(W_q s + W_k h), with `W_q` and `W_k` of shape (A, H) and `w_v` (A,). "
        "Return the context (B, H) and the weights (B, S). Lengths (B,) are 1 or more; what lies "
        "behind them gets no weight. The padding is finite."
    ),
    difficulty="medium",
    minutes=10,
    hints=[
        "Three lines: scores (B, S), weights (B, S), context (B, H). Who is the query, and what "
        "are the values?",
        "The projected query is (B, A), the keys are (B, S, A). `query[:, None]` is (B, 1, A): "
        "one query for all words of its own sentence.",
        "The padding's scores become `-torch.inf` before a softmax over the words. For the "
        "context, `weights[:, None] @ states` is (B, 1, H).",
    ],
    stub=attention_step,
    solution=attention_step_solution,
    explanation=(
        "The decoder's state is the query, the encoder's states are keys and values. The axis of "
        "size 1 lets every query meet the words of its own sentence alone. The softmax runs over "
        "the words, after the padding is hidden; there is no softmax over the batch, because "
        "sentences have nothing to say to each other."
    ),
    steps=[
        holds(two_results, [ONE]),
        like(package_step, [ONE]),
        holds(softmax_per_sentence, [ONE]),
        none_of(mistakes.SEEN_WITH_ONE, ONE),
        explains(ERRORS, [PADDED]),
        holds(two_results, [PADDED]),
        like(package_step, [PADDED]),
        holds(softmax_per_sentence, [PADDED]),
        none_of(mistakes.SEEN_WITH_PADDING, PADDED),
        agrees(package_step, [ONE, PADDED]),
        because(
            "With A = H your function is right; with other sizes it is not.",
            agrees(package_step, UNEQUAL),
        ),
        because(
            "Where there are as many sentences as source words your function is wrong, without an "
            "error. Which axes line up there by chance?",
            agrees(package_step, AS_MANY_SENTENCES_AS_WORDS),
        ),
        gradients,
    ],
    wrong=[
        Wrong(mistakes.softmax_over_the_batch, "The softmax runs over the batch"),
        Wrong(mistakes.softmax_over_the_batch_without_mask, "The softmax runs over the batch"),
        Wrong(mistakes.infinity_times_0, "0 times infinity"),
        Wrong(mistakes.no_mask, "The padding gets attention"),
        Wrong(mistakes.mask_after_the_softmax, "the padding took its share"),
        Wrong(mistakes.without_tanh, "The tanh is missing"),
        Wrong(mistakes.matrices_swapped, "`W_q` and `W_k` are swapped"),
        Wrong(mistakes.not_transposed, "as they lie"),
        Wrong(mistakes.tanh_of_the_score, "Your tanh stands outside"),
        Wrong(mistakes.sigmoid_for_tanh, "You took the sigmoid"),
        Wrong(mistakes.one_matrix_for_both, "One matrix serves for both"),
        Wrong(mistakes.without_projections, "never get in"),
        Wrong(mistakes.dot_product, "Those are dot products"),
        Wrong(mistakes.multiplied, "The additive score adds them"),
        Wrong(mistakes.scaled_as_well, "the root of A"),
        Wrong(mistakes.context_of_the_keys, "averages the projected keys"),
        Wrong(mistakes.scores_for_weights, "which makes weights of them, is missing"),
        Wrong(mistakes.softmax_over_everything, "All weights of the batch together"),
        Wrong(mistakes.padding_scores_0, "You gave the padding the score 0"),
        Wrong(mistakes.padding_states_0, "A key of zeros has a score, too"),
        Wrong(mistakes.one_word_too_many, "The first padding behind the words"),
        Wrong(mistakes.last_word_hidden, "The last word gets no attention"),
        Wrong(mistakes.mask_turned_over, "Your mask is turned over"),
        Wrong(mistakes.lined_up_with_the_batch, "The query needs an axis"),
        Wrong(mistakes.lengths_not_in_a_column, "has to become a column"),
        Wrong(mistakes.lines_up_by_luck, "as many sentences as source words"),
        Wrong(mistakes.axis_of_size_1, "an axis of size 1"),
        Wrong(mistakes.weights_with_a_query_axis, "Your second result has shape"),
        Wrong(mistakes.context_with_a_query_axis, "Your first result has shape"),
        Wrong(mistakes.context_alone, "returns one tensor"),
        Wrong(mistakes.results_swapped, "The two results are swapped"),
        Wrong(mistakes.not_averaged, "one vector for each source word"),
        Wrong(mistakes.masked_in_place, "changes its input: `states`"),
        Wrong(mistakes.detached, "no gradient reaches"),
    ],
)
