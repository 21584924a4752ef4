"""9.3: the mask of a sliding window, with gaps and without a future."""

import torch
from torch import Tensor

from d2l_attention import causal_mask, combine_masks
from d2l_attention.exercises.chapter_09 import window_mistakes as mistakes
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.show import kind
from d2l_attention.exercises.steps import explains, holds
from d2l_attention.variants.masks import sliding_window_mask


def window_mask(n, window, dilation, is_causal): ...


def window_mask_solution(n, window, dilation, is_causal):
    query, key = torch.arange(n)[:, None], torch.arange(n)
    distance = query - key
    visible = (distance.abs() <= window * dilation) & (distance % dilation == 0)
    return visible & (distance >= 0) if is_causal else visible


def package(n: int, window: int, dilation: int, is_causal: bool) -> Tensor:
    mask = sliding_window_mask(n, window=window, dilation=dilation)
    return combine_masks(mask, causal_mask(n) if is_causal else None)


PLAIN, CAUSAL = (9, 3, 1, False), (9, 3, 1, True)
CASES = [
    PLAIN,
    CAUSAL,
    (9, 2, 3, False),
    (9, 2, 3, True),
    (8, 1, 2, True),
    (5, 0, 1, False),
    (5, 0, 2, True),
    (4, 7, 1, False),
    (4, 7, 3, True),
    (11, 3, 2, False),
    (11, 1, 4, True),
    (1, 3, 1, True),
    (0, 2, 1, False),
    (0, 2, 2, True),
]


def boolean_square(mask: object, n: int, *_: object) -> str | None:
    if mask is None:
        return "Your function returned `None`. Is the `return` missing?"
    if not isinstance(mask, Tensor):
        return f"A mask is a boolean tensor; yours is a {type(mask).__name__}."
    if mask.dtype != torch.bool:
        return (
            f"Your mask is {kind(mask.dtype)}. Here masks are bool, True = may attend: end with a "
            "comparison."
        )
    if mask.shape == (n, n):
        return None
    return (
        f"Your mask has shape {tuple(mask.shape)}; it should be {(n, n)}, a row for each query and "
        "a column for each key."
    )


def named(mask: Tensor, *inputs: object) -> str | None:
    """The first case that is wrong, by the mistake that makes the same mask."""
    right = package(*inputs)
    if torch.equal(mask, right):
        return None
    named = [*mistakes.WITHOUT_FUTURE, *mistakes.NAMED] if inputs[-1] else mistakes.NAMED
    for mistake, why in named:
        if torch.equal(mask, mistake(*inputs)):
            return why
    query, key = (mask != right).nonzero()[0].tolist()
    does, may = ("shows", "may not") if mask[query, key] else ("hides", "may")
    return f"Your mask {does} key {key} to query {query}, which {may} see it."


ERRORS = {
    "out of bounds": "A window ends where the sequence ends: cut it there.",
    "out of range": "A window ends where the sequence ends: cut it there.",
}

write_window_mask = Exercise(
    id="9.3",
    title="A window with gaps",
    task=(
        "Complete `window_mask(n, window, dilation, is_causal)`, a boolean mask (n, n), True = may "
        "attend. A token sees itself and `window` neighbours on each side, `dilation` places "
        "apart: with a window of 2 and a dilation of 3 token 7 sees 1, 4, 7, 10 and 13. With "
        "`is_causal` it sees no key after itself: `window + 1` keys are left. The window may be "
        "0, or longer than the sequence."
    ),
    difficulty="easy",
    minutes=8,
    hints=[
        "Whether a key is seen depends on its distance from the query alone. Make a matrix of "
        "distances first: two ranges, one of them with a second axis, of size 1, at the end.",
        "With gaps two conditions hold: the distance is at most so much, and it is a multiple of "
        "`dilation`. How far away is the last neighbour?",
        "`distance % dilation == 0` is right for negative distances, too. The sign of the distance "
        "tells the past from the future.",
    ],
    stub=window_mask,
    solution=window_mask_solution,
    explanation=(
        "The last neighbour stands `window * dilation` places away, and only multiples of the "
        "dilation are seen. Gaps count from the query, not from the beginning: each token has a "
        "grid of its own. The mask says who sees whom and saves nothing: it is (n, n) itself. Only "
        "code that never builds it costs n times window."
    ),
    steps=[
        explains(ERRORS, CASES),
        holds(boolean_square, CASES),
        holds(named, CASES),
    ],
    wrong=[
        Wrong(mistakes.both_sides_together, "on each side, not on both together"),
        Wrong(mistakes.last_neighbour_missing, "the last neighbour is missing"),
        Wrong(mistakes.one_neighbour_more, "one neighbour too many"),
        Wrong(mistakes.not_itself, "does not see itself"),
        Wrong(mistakes.turned_over, "turned over"),
        Wrong(mistakes.round_the_end, "comes round"),
        Wrong(mistakes.band_above_alone, "one side"),
        Wrong(mistakes.negative_start, "A start below 0"),
        Wrong(mistakes.always_causal, "one side only, as if"),
        Wrong(mistakes.flag_turned_over, "one side only, as if"),
        Wrong(mistakes.never_causal, "sees the future"),
        Wrong(mistakes.causal_the_wrong_way, "hides the past"),
        Wrong(mistakes.strictly_causal, "its own key"),
        Wrong(mistakes.causal_of_window_keys, "window + 1"),
        Wrong(mistakes.causal_of_both_sides, "does not grow"),
        Wrong(mistakes.dilation_ignored, "The dilation has no effect"),
        Wrong(mistakes.reach_without_gaps, "no gaps"),
        Wrong(mistakes.gaps_without_reach, "only as far as `window`"),
        Wrong(mistakes.gaps_from_the_beginning, "from the beginning"),
        Wrong(mistakes.sliced_from_the_edge, "cut off at 0"),
        Wrong(mistakes.queries_with_gaps, "from the beginning"),
        Wrong(mistakes.causal_loses_the_gaps, "no gaps"),
        Wrong(mistakes.no_window_is_everything, "A window of 0"),
        Wrong(mistakes.past_the_end, "cut it there"),
        Wrong(mistakes.as_numbers, "Here masks are bool"),
        Wrong(mistakes.additive, "Here masks are bool"),
        Wrong(mistakes.as_lists, "yours is a list"),
        Wrong(mistakes.with_a_batch, "it should be (9, 9)"),
        Wrong(mistakes.one_row, "it should be (9, 9)"),
        Wrong(mistakes.without_return, "Is the `return` missing?"),
    ],
)
