"""9.3: the mask of a sliding window, with gaps and without a future."""

import torch
from torch import Tensor

from d2l_attention.exercises.authoring import Case, Exercise, Mistake, heading, instead_of


def window_mask(n, window, dilation, is_causal):
    """Boolean mask (n, n), True = may attend: `window` neighbours, `dilation` positions apart.

    Three tokens, a window of 1, a dilation of 2, not causal:
    [[True, False, True], [False, True, False], [True, False, True]].
    """
    ...


def window_mask_solution(n, window, dilation, is_causal):
    distance = torch.arange(n)[:, None] - torch.arange(n)
    near = distance.abs() <= window * dilation
    visible = near & (distance % dilation == 0)
    return visible & (distance >= 0) if is_causal else visible


REACH, GAPS = "<= window * dilation", " & (distance % dilation == 0)"
RETURN = "return visible & (distance >= 0) if is_causal else visible"
BOTH = "there were no other. Without `is_causal` a token sees neighbours on both."
FROM_THE_BEGINNING = (
    "Your gaps count from the beginning of the sequence, `... % dilation == 0` of a position. They "
    "count from the query: the distance is a multiple of `dilation`."
)


def shapes(mask, *_):
    if isinstance(mask, Tensor) and mask.dtype != torch.bool:
        return f"Your mask is {mask.dtype}. Here masks are bool, True = may attend."
    return {None: "A row for each query, a column for each key."}


CASES = [(9, 3, 1, False), (9, 3, 1, True), (9, 2, 3, False), (9, 2, 3, True)]
CASES += [(5, 0, 1, False), (5, 0, 2, True), (4, 7, 1, False), (4, 7, 3, True)]
CASES += [(8, 1, 2, True), (11, 3, 2, False), (11, 1, 4, True), (1, 3, 1, True), (60, 7, 5, False)]

write_window_mask = Exercise(
    **heading("9.3", "A window with gaps", "easy", minutes=8),
    section="The window as a mask",
    hints=[
        "Whether a key is seen depends only on its distance from the query. Make a matrix of "
        "distances first: two ranges, one of them with a second axis, of size 1, at the end.",
        "With gaps two conditions hold: the distance is at most so much, and it is a multiple of "
        "`dilation`. How far away is the last neighbour?",
        "`distance % dilation == 0` is also right for negative distances. The sign of the distance "
        "tells the past from the future.",
    ],
    stub=window_mask,
    solution=window_mask_solution,
    explanation="The last neighbour is `window * dilation` positions away, and gaps count from "
    "the query. The mask itself is (n, n): only code that never builds it costs n times window.",
    cases=[Case(inputs) for inputs in CASES],
    mistakes=[
        *instead_of(
            REACH,
            {
                "<= window // 2 * dilation": "Your window is half as long as it should be: "
                "`window` counts the neighbours on each side, not on both together.",
                "< window * dilation": "`<` where `<=` belongs: the last neighbour is missing, "
                "which is `window * dilation` positions away.",
                "<= (window + 1) * dilation": "There is one neighbour too many on each side: the "
                "last one is `window * dilation` positions away.",
                "<= (window - is_causal) * dilation": "With `is_causal` one key is missing: "
                "`window` neighbours in front and the token itself are window + 1 keys.",
                "<= window * (1 + is_causal) * dilation": "With `is_causal` your window is twice "
                "as long. What it loses on one side does not grow on the other.",
                "<= window": "There are gaps, but your window reaches only as far as `window` "
                "positions. The last of `window` neighbours is `window * dilation` positions away.",
                "<= (window or n) * dilation": "A window of 0 is a window: the token sees itself. "
                "(`window or n` and `if window:` take 0 for no window.)",
            },
        ),
        *instead_of(
            "near &",
            {
                "(distance != 0) & near &": "A token does not see itself. It does, always.",
                "(torch.arange(n)[:, None] >= window * dilation) & near &": "A start below 0 "
                "counts from the end, so the first rows of your mask are wrong. Compare distances "
                "instead of slicing.",
            },
        ),
        Mistake(
            {"distance.abs()": "torch.minimum(distance % n, -distance % n)"},
            "Your window comes round: the first tokens see the last ones. A sequence has two ends.",
        ),
        *instead_of(
            RETURN,
            {
                f"return ~({RETURN[7:]})": "Your mask is inverted: what is near is hidden, what "
                "is far is visible. True = may attend.",
                "return visible & (distance >= 0)": f"Your window has one side only, as if {BOTH}",
                "return visible & (distance <= 0)": f"Your window has one side only, as if {BOTH}",
                "return visible": "`is_causal` is True, and your mask sees the future.",
                RETURN.replace(">=", "<="): "With `is_causal` your mask hides the past and shows "
                "the future. Rows are queries: key <= query.",
                RETURN.replace(">=", ">"): "With `is_causal` a token does not see its own key. It "
                "should: key <= query.",
            },
        ),
        Mistake({"window * dilation": "window", GAPS: ""}, "The dilation has no effect."),
        *instead_of(
            GAPS,
            {
                "": "Your window has no gaps: a token sees only every `dilation`-th key.",
                f"{GAPS[:3]}({GAPS[3:]} | is_causal)": "With `is_causal` your window has no gaps.",
                " & (torch.arange(n) % dilation == 0)": FROM_THE_BEGINNING,
                " & (torch.arange(n)[:, None] % dilation == 0)": FROM_THE_BEGINNING,
                " & ((torch.arange(n) - (torch.arange(n)[:, None] - window * dilation)"
                ".clamp(min=0)) % dilation == 0)": "In the first rows a slice that is cut off at 0 "
                "begins at the wrong position: its steps of `dilation` then miss the query itself.",
            },
        ),
    ],
    shapes=shapes,
    errors={"out of": "A window ends where the sequence ends: cut it there."},
)
