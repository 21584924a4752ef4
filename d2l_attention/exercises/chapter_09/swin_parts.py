"""Windows and masks put together from parts, for 9.6, and what to say about wrong ones."""

from collections.abc import Callable

import torch
from torch import Tensor


def up_and_left(X: Tensor, shift: int) -> Tensor:
    return X.roll((-shift, -shift), dims=(1, 2))


def down_and_right(X: Tensor, shift: int) -> Tensor:
    return X.roll((shift, shift), dims=(1, 2))


def up_alone(X: Tensor, shift: int) -> Tensor:
    return X.roll(-shift, dims=1)


def left_alone(X: Tensor, shift: int) -> Tensor:
    return X.roll(-shift, dims=2)


def as_it_is(X: Tensor, shift: int) -> Tensor:
    return X


def pushed_out(X: Tensor, shift: int) -> Tensor:
    """Zeros come in where the other pixels should."""
    moved = torch.zeros_like(X)
    rows, columns = X.shape[1] - shift, X.shape[2] - shift
    moved[:, :rows, :columns] = X[:, shift:, shift:]
    return moved


def cut(X: Tensor, window: int) -> Tensor:
    """(B, R, C, D) -> (B, down, across, window, window, D)"""
    B, R, C, D = X.shape
    X = X.reshape(B, R // window, window, C // window, window, D)
    return X.permute(0, 1, 3, 2, 4, 5)


def row_by_row(X: Tensor, window: int) -> Tensor:
    return cut(X, window).reshape(-1, window**2, X.shape[-1])


def reshaped_alone(X: Tensor, window: int) -> Tensor:
    return X.reshape(-1, window**2, X.shape[-1])


def windows_by_columns(X: Tensor, window: int) -> Tensor:
    return cut(X, window).transpose(1, 2).reshape(-1, window**2, X.shape[-1])


def pixels_by_columns(X: Tensor, window: int) -> Tensor:
    return cut(X, window).transpose(3, 4).reshape(-1, window**2, X.shape[-1])


def a_pixel_of_each(X: Tensor, window: int) -> Tensor:
    """Every window-th pixel: a grid instead of a square."""
    B, R, C, D = X.shape
    X = X.reshape(B, window, R // window, window, C // window, D)
    return X.permute(0, 2, 4, 1, 3, 5).reshape(-1, window**2, D)


def maps_side_by_side(X: Tensor, window: int) -> Tensor:
    """The first windows of all maps first."""
    return cut(X, window).permute(1, 2, 0, 3, 4, 5).reshape(-1, window**2, X.shape[-1])


def sides(size: int, shift: int) -> Tensor:
    """1 for what came in at the far side, 0 for the others."""
    return (torch.arange(size) >= size - shift).long()


def four_regions(R: int, C: int, window: int, shift: int) -> Tensor:
    return 2 * sides(R, shift)[:, None] + sides(C, shift)


def one_region(R: int, C: int, window: int, shift: int) -> Tensor:
    return torch.zeros(R, C, dtype=torch.long)


def sums_of_sides(R: int, C: int, window: int, shift: int) -> Tensor:
    return sides(R, shift)[:, None] + sides(C, shift)


def corner_alone(R: int, C: int, window: int, shift: int) -> Tensor:
    return sides(R, shift)[:, None] * sides(C, shift)


def either_side(R: int, C: int, window: int, shift: int) -> Tensor:
    return sides(R, shift)[:, None] | sides(C, shift)


def rows_alone(R: int, C: int, window: int, shift: int) -> Tensor:
    return sides(R, shift)[:, None].expand(R, C)


def columns_alone(R: int, C: int, window: int, shift: int) -> Tensor:
    return sides(C, shift).expand(R, C)


def at_the_near_side(R: int, C: int, window: int, shift: int) -> Tensor:
    return four_regions(R, C, window, shift).flip(0, 1)


def the_rest_of_the_window(R: int, C: int, window: int, shift: int) -> Tensor:
    return four_regions(R, C, window, window - shift if shift else 0)


def moved_once_more(R: int, C: int, window: int, shift: int) -> Tensor:
    return four_regions(R, C, window, shift).roll((-shift, -shift), dims=(0, 1))


def every_window(R: int, C: int, window: int, shift: int) -> Tensor:
    """Each window of the map before the shift is a region."""
    down, across = torch.arange(R) // window, torch.arange(C) // window
    return (down[:, None] * C + across).roll((-shift, -shift), dims=(0, 1))


def together(labels: Tensor, window: int) -> Tensor:
    tokens = row_by_row(labels[None, ..., None], window)[..., 0]
    return tokens[:, :, None] == tokens[:, None]


def apart(labels: Tensor, window: int) -> Tensor:
    return ~together(labels, window)


def shifted_with(
    *,
    move: Callable = up_and_left,
    partition: Callable = row_by_row,
    regions: Callable = four_regions,
    visible: Callable = together,
) -> Callable:
    """``shifted_windows``, right but for the parts that are given."""

    def shifted_windows(X, window, shift):
        labels = regions(*X.shape[1:3], window, shift)
        return partition(move(X, shift), window), visible(labels, window)

    return shifted_windows


MIXED = (
    "Your windows mix pixels that are no square. After `reshape(B, R // w, w, C // w, w, D)` the "
    "two axes inside a window do not stand together: exchange axes 2 and 3 before you join them."
)
WINDOWS = [
    ({"partition": reshaped_alone}, MIXED),
    ({"partition": reshaped_alone, "move": as_it_is}, MIXED),
    ({"partition": a_pixel_of_each}, MIXED),
    ({"partition": a_pixel_of_each, "move": as_it_is}, MIXED),
    ({"move": as_it_is}, "Your windows are right for a shift of 0: the shift has no effect."),
    (
        {"move": down_and_right},
        "Your map moves down and to the right. It moves up and to the left: `roll` by a negative "
        "number.",
    ),
    (
        {"move": up_alone},
        "Your map moves up, and not to the left. Its rows are axis 1, its columns axis 2.",
    ),
    (
        {"move": left_alone},
        "Your map moves to the left, and not up. Its rows are axis 1, its columns axis 2.",
    ),
    (
        {"move": pushed_out},
        "Zeros come in at the far side. What falls off comes in there: `roll` does both.",
    ),
    (
        {"partition": windows_by_columns},
        "Your windows follow each other column by column. Here they go row by row.",
    ),
    (
        {"partition": pixels_by_columns},
        "Inside a window your pixels go column by column. Here they go row by row.",
    ),
]
MASKS = [
    (
        {"regions": one_region},
        "In your mask all pixels of a window see each other. At the edges a window holds pixels "
        "from opposite sides of the map, which are no neighbours.",
    ),
    ({"visible": apart}, "Your mask is turned over. True = may attend."),
    (
        {"regions": sums_of_sides},
        "In the last window two regions have one label: what came in from above and what came in "
        "from the left. Rows and columns make four regions, `2 * down + across`.",
    ),
    (
        {"regions": either_side},
        "All that came in is one region in your mask. From above, from the left and from both are "
        "three, which were never neighbours.",
    ),
    (
        {"regions": corner_alone},
        "Your mask keeps apart only what moved in both directions. What came in from above alone, "
        "or from the left alone, is no neighbour either.",
    ),
    (
        {"regions": rows_alone},
        "Your mask keeps apart what came in from above, and not what came in from the left.",
    ),
    (
        {"regions": columns_alone},
        "Your mask keeps apart what came in from the left, and not what came in from above.",
    ),
    (
        {"regions": at_the_near_side},
        "Your mask cuts the first windows. The map moves up and left, so what came in stands in "
        "the last rows and columns.",
    ),
    (
        {"regions": the_rest_of_the_window},
        "Your regions end at the wrong pixel: the last `shift` rows and columns came in, not the "
        "last `window - shift`. (With a shift of half a window both are the same.)",
    ),
    (
        {"regions": moved_once_more},
        "Your regions are moved once too often. What came in stands at the far side of the map "
        "that was moved: label that one, or label the map before and compare where pixels were.",
    ),
    (
        {"regions": every_window},
        "In your mask a pixel sees those of its old window alone. Shifted windows are there to "
        "join pixels of several: only what was never near is kept apart.",
    ),
]
