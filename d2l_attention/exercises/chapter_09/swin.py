"""9.6: shifted windows of a feature map, and who is no neighbour in them."""

from typing import Any

import torch
from torch import Tensor

from d2l_attention.exercises.chapter_09 import swin_mistakes as mistakes
from d2l_attention.exercises.chapter_09 import swin_parts as parts
from d2l_attention.exercises.chapter_09.swin_parts import MASKS, WINDOWS, shifted_with
from d2l_attention.exercises.compare import form_differs
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.helpers import alike, because, normal
from d2l_attention.exercises.show import kind
from d2l_attention.exercises.steps import holds
from d2l_attention.variants import partition_windows
from d2l_attention.variants.swin import window_mask


def shifted_windows(X, window, shift): ...


def shifted_windows_solution(X, window, shift):
    B, R, C, D = X.shape
    down, across = R // window, C // window

    def partition(X):
        X = X.reshape(-1, down, window, across, window, X.shape[-1])
        return X.transpose(2, 3).reshape(-1, window**2, X.shape[-1])

    windows = partition(X.roll((-shift, -shift), dims=(1, 2)))
    # The last `shift` rows and columns of the moved map came in from the other side.
    row_came_in = torch.arange(R) >= R - shift
    column_came_in = torch.arange(C) >= C - shift
    regions = 2 * row_came_in[:, None] + 1 * column_came_in
    labels = partition(regions[None, :, :, None])[..., 0]
    return windows, labels[:, :, None] == labels[:, None, :]


def package(X: Tensor, window: int, shift: int) -> tuple[Tensor, Tensor]:
    rows, columns = X.shape[1:3]
    windows = partition_windows(X.roll((-shift, -shift), dims=(1, 2)), window)
    mask = window_mask(rows, columns, window, [shift, shift])
    if mask is None:
        num_windows = rows // window * (columns // window)
        mask = torch.ones(num_windows, window**2, window**2, dtype=torch.bool)
    return windows, mask


NUMBERED = torch.arange(16.0).reshape(1, 4, 4, 1)
SMALL, STILL = (NUMBERED, 2, 1), (NUMBERED, 2, 0)
THIRDS = [(torch.arange(36.0).reshape(1, 6, 6, 1), 3, shift) for shift in (1, 2)]
OTHERS = [
    (*normal(seed, shape), window, shift)
    for seed, (shape, window, shift) in enumerate(
        [
            ((1, 4, 6, 1), 2, 1),
            ((1, 9, 6, 5), 3, 1),
            ((2, 4, 4, 3), 2, 1),
            ((4, 8, 8, 4), 4, 2),
            ((3, 6, 9, 2), 3, 0),
            ((2, 2, 3, 1), 1, 0),
        ]
    )
]
DOUBLE = [(X.double(), window, shift) for X, window, shift in OTHERS[2:3]]


def two_results(result: Any, X: Tensor, window: int, shift: int) -> str | None:
    if result is None:
        return "Your function returned `None`. Is the `return` missing?"
    if not isinstance(result, tuple | list) or len(result) != 2:
        return "Return two results: the windows and the mask."
    windows, mask = package(X, window, shift)
    if found := form_differs(result[0], windows):
        return f"The windows: {found}"
    return no_mask(result[1], tuple(mask.shape), len(X))


def no_mask(mask: Any, shape: tuple[int, ...], num_maps: int) -> str | None:
    if not isinstance(mask, Tensor):
        why = " With a shift of 0 it is all True." if mask is None else ""
        return f"The mask is a boolean tensor; yours is a {type(mask).__name__}.{why}"
    if mask.dtype != torch.bool:
        return (
            f"Your mask is {kind(mask.dtype)}. Here masks are bool, True = may attend: 0 and -100, "
            "as in the code of the paper, are for adding."
        )
    if mask.shape == shape:
        return None
    why = "A window of w x w pixels has w² queries and w² keys."
    if num_maps > 1 and mask.shape == (num_maps * shape[0], *shape[1:]):
        why = "It is the same for each map: give it once."
    return f"Your mask has shape {tuple(mask.shape)}; it should be {shape}. {why}"


def named_windows(result: tuple, *inputs: Any) -> str | None:
    right, _ = package(*inputs)
    if alike(result[0], right):
        return None
    for wrong, why in WINDOWS:
        if alike(result[0], shifted_with(**wrong)(*inputs)[0]):
            return why
    number = int((result[0] != right).flatten(1).any(dim=1).nonzero()[0])
    if right.shape[-1] > 1:
        return f"Window {number} does not hold the pixels that it should."
    mine, wanted = (listed(windows[number]) for windows in (result[0], right))
    return f"Window {number} holds {mine}; it should hold {wanted}."


def listed(window: Tensor) -> str:
    return ", ".join(f"{number:.4g}" for number in window.flatten().tolist())


def named_mask(result: tuple, *inputs: Any) -> str | None:
    _, right = package(*inputs)
    if torch.equal(result[1], right):
        return None
    for wrong, why in MASKS:
        if torch.equal(result[1], shifted_with(**wrong)(*inputs)[1]):
            return why
    window, query, key = (result[1] != right).nonzero()[0].tolist()
    does, were = ("hides", "were") if right[window, query, key] else ("shows", "were not")
    return (
        f"In window {window} your mask {does} pixel {key} to pixel {query}, and they {were} "
        "neighbours before the map was moved."
    )


def maps_follow_each_other(result: tuple, *inputs: Any) -> str | None:
    if alike(result[0], shifted_with(partition=parts.maps_side_by_side)(*inputs)[0]):
        return (
            "With several maps the first windows of all of them come first in your result. All "
            "windows of a map come first, then those of the next."
        )
    return None


MANY = "For one square map of 4 by 4 your function is right. For others it is not."
NOT_HALF = "With a shift of half a window your function is right. With others it is not."

write_shifted_windows = Exercise(
    id="9.6",
    title="Windows that moved",
    task=(
        "Complete `shifted_windows(X, window, shift)` for feature maps X (B, R, C, D). First the "
        "map moves up and to the left by `shift` pixels; what falls off comes in at the far side. "
        "Then it is cut into windows of `window` by `window` pixels, row by row, and so are the "
        "pixels in them. Return the windows (B * W, window², D), all W windows of a map, then "
        "those of the next, and a boolean mask (W, window², window²), True = may attend: pixels of "
        "a window see each other, unless one came in at the far side of an axis and the other did "
        "not. R and C are multiples of `window`, twice as much or more; the shift is 0 up to "
        "`window - 1`."
    ),
    difficulty="medium",
    minutes=18,
    hints=[
        "Number the pixels of a map of 4 by 4 and move it on paper, with a shift of 1. Which four "
        "stand in the last window of 2 by 2, and where were they before?",
        "`X.reshape(B, R // w, w, C // w, w, D)` has the axes of a window apart, one for its rows "
        "and one for its columns. Which two have to be exchanged before they are joined?",
        "Give each pixel of the moved map a label: did its row come in, did its column? Those are "
        "four labels. Cut the labels into windows as you cut the map, and compare them in pairs.",
    ],
    stub=shifted_windows,
    solution=shifted_windows_solution,
    explanation=(
        "The last window of the small map holds pixels 15, 12, 3 and 0, the four corners: all in "
        "one window, and nobody may see anybody else. Each pixel sees itself, so no row of the "
        "mask is empty. Moving the map keeps all windows equally large and equally many; without "
        "the roll there would be smaller ones at the edges, and no single batch."
    ),
    steps=[
        holds(two_results, [SMALL]),
        holds(named_windows, [SMALL]),
        holds(named_mask, [SMALL]),
        because(NOT_HALF, holds(two_results, [STILL, *THIRDS])),
        because(NOT_HALF, holds(named_windows, [STILL, *THIRDS])),
        because(NOT_HALF, holds(named_mask, [STILL, *THIRDS])),
        because(MANY, holds(two_results, OTHERS)),
        because(MANY, holds(maps_follow_each_other, OTHERS[2:4])),
        because(MANY, holds(named_windows, OTHERS)),
        because(MANY, holds(named_mask, OTHERS)),
        holds(two_results, DOUBLE),
    ],
    wrong=[
        Wrong(shifted_with(partition=parts.reshaped_alone), "exchange axes 2 and 3"),
        Wrong(
            shifted_with(partition=parts.reshaped_alone, move=parts.as_it_is),
            "exchange axes 2 and 3",
        ),
        Wrong(shifted_with(partition=parts.a_pixel_of_each), "exchange axes 2 and 3"),
        Wrong(shifted_with(move=parts.as_it_is), "the shift has no effect"),
        Wrong(shifted_with(move=parts.down_and_right), "moves down and to the right"),
        Wrong(shifted_with(move=parts.up_alone), "not to the left"),
        Wrong(shifted_with(move=parts.left_alone), "and not up"),
        Wrong(shifted_with(move=parts.pushed_out), "Zeros come in"),
        Wrong(shifted_with(partition=parts.windows_by_columns), "Your windows follow each other"),
        Wrong(shifted_with(partition=parts.pixels_by_columns), "Inside a window"),
        Wrong(shifted_with(partition=parts.maps_side_by_side), "the first windows of all of them"),
        Wrong(shifted_with(regions=parts.one_region), "opposite sides of the map"),
        Wrong(shifted_with(visible=parts.apart), "turned over"),
        Wrong(shifted_with(regions=parts.sums_of_sides), "two regions have one label"),
        Wrong(shifted_with(regions=parts.either_side), "one region in your mask"),
        Wrong(shifted_with(regions=parts.corner_alone), "in both directions"),
        Wrong(shifted_with(regions=parts.rows_alone), "not what came in from the left"),
        Wrong(shifted_with(regions=parts.columns_alone), "not what came in from above"),
        Wrong(shifted_with(regions=parts.at_the_near_side), "cuts the first windows"),
        Wrong(shifted_with(regions=parts.the_rest_of_the_window), "not the last `window - shift`"),
        Wrong(shifted_with(regions=parts.moved_once_more), "once too often"),
        Wrong(shifted_with(regions=parts.every_window), "its old window alone"),
        Wrong(mistakes.windows_alone, "Return two results"),
        Wrong(mistakes.batch_left_apart, "The windows: Your result has shape (1, 4, 4, 1)"),
        Wrong(mistakes.squares_kept, "The windows: Your result has shape (4, 2, 2, 1)"),
        Wrong(mistakes.added_to_scores, "0 and -100"),
        Wrong(mistakes.mask_for_each_map, "the same for each map"),
        Wrong(mistakes.no_mask_without_shift, "With a shift of 0 it is all True"),
        Wrong(mistakes.labels_alone, "Your mask has shape (4, 4)"),
        Wrong(mistakes.rows_for_columns, "For others it is not"),
        Wrong(mistakes.shift_by_half, "With others it is not"),
        Wrong(mistakes.without_return, "Is the `return` missing?"),
    ],
)
