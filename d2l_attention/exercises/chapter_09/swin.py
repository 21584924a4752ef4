"""9.6: shifted windows of a feature map, and who is not a neighbour in them."""

import torch
import torch.nn.functional as F  # noqa: F401, for a mistake

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, instead_of, normal, show


def shifted_windows(X, window, shift):
    """Windows (B * W, window², D) of the moved maps X (B, R, C, D), and mask (W, window², window²).

    A map of 2 by 2, [[[[1], [2]], [[3], [4]]]], with a window of 1 and a shift of 0 gives the
    windows [[[1]], [[2]], [[3]], [[4]]] and the mask [[[True]], [[True]], [[True]], [[True]]].
    """
    ...


def shifted_windows_solution(X, window, shift):
    _, R, C, _ = X.shape

    def partition(X, order=(0, 1, 3, 2, 4, 5)):  # the axes inside a window come together
        X = X.reshape(len(X), R // window, window, C // window, window, X.shape[-1])
        return X.permute(order).reshape(-1, window**2, X.shape[-1])

    moved = X.roll((-shift, -shift), dims=(1, 2))
    windows = partition(moved)
    # The last `shift` rows and columns of the moved map came in from the other side.
    row_came_in = torch.arange(R) >= R - shift
    column_came_in = torch.arange(C) >= C - shift
    regions = 2 * row_came_in[:, None] + 1 * column_came_in
    labels = partition(regions[None, :, :, None])[..., 0]
    return windows, labels[:, :, None] == labels[:, None, :]


MOVED, ORDER = "X.roll((-shift, -shift), dims=(1, 2))", "(0, 1, 3, 2, 4, 5)"
REGIONS = "2 * row_came_in[:, None] + 1 * column_came_in"
MIXED = (
    "Your windows mix pixels that form no square. After `reshape(B, R // w, w, C // w, w, D)` the "
    "two axes inside a window do not stand together: exchange axes 2 and 3 before you join them."
)
ORDERS = {
    "(0, 1, 2, 3, 4, 5)": MIXED,
    "(0, 2, 4, 1, 3, 5)": MIXED,
    "(0, 3, 1, 2, 4, 5)": "Your windows follow each other column by column. Here they go row by "
    "row.",
    "(0, 1, 3, 4, 2, 5)": "Inside a window your pixels go column by column. Here they go row by "
    "row.",
    "(1, 3, 0, 2, 4, 5)": "With several maps the first windows of all of them come first in your "
    "result. All windows of a map come first, then those of the next.",
}


def shapes(result, X, window, shift):
    if not isinstance(result, tuple | list) or len(result) != 2:
        return None if result is None else "Return two results: the windows and the mask."
    right = shifted_windows_solution(X, window, shift)
    if getattr(result[0], "shape", None) == right[0].shape:
        if getattr(result[1], "dtype", None) != torch.bool:
            return (
                f"Your mask is {show(result[1])}. Here masks are bool, True = may "
                "attend: 0 and -100 are for adding. With a shift of 0 it is all True."
            )
        if len(result[1]) == len(right[0]) != len(right[1]):
            return "Your mask is the same for each map: give it once, not for all windows."
    return None


def first_wrong(result, *inputs):
    """In a window, or in the mask of one."""
    right, mask = shifted_windows_solution(*inputs)
    if not authoring.alike(result[0], right):
        number = int((result[0] != right).flatten(1).any(dim=1).nonzero()[0])
        mine, wanted = (show(windows[number].mT) for windows in (result[0], right))
        return f"Window {number} holds {mine}; it should hold {wanted}."
    window, query, key = (result[1] != mask).nonzero()[0].tolist()
    does, were = ("hides", "were") if mask[window, query, key] else ("shows", "were not")
    return (
        f"In window {window} your mask {does} pixel {key} to pixel {query}, and they {were} "
        "neighbours before the map was moved."
    )


NUMBERED = [torch.arange(float(size * size)).reshape(1, size, size, 1) for size in range(7)]
OTHERS = [((1, 4, 6, 1), 2, 1), ((1, 9, 6, 5), 3, 1), ((2, 4, 4, 3), 2, 1), ((4, 8, 8, 4), 4, 2)]
OTHERS += [((3, 6, 9, 2), 3, 0), ((2, 2, 3, 1), 1, 0), ((1, 10, 15, 2), 5, 4)]
OTHERS = [(*normal(seed, shape), *sizes) for seed, (shape, *sizes) in enumerate(OTHERS)]
MANY = "For one square map your function is right. For others it is not."
NOT_HALF = "With a shift of half a window your function is right. With others it is not."

write_shifted_windows = Exercise(
    **authoring.heading("9.6", "Windows that moved", "medium", minutes=18),
    section="Swin: windows in a grid",
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
    explanation="The last window of the small map holds pixels 15, 12, 3 and 0, the four corners: "
    "each may see only itself. Moving the map keeps all windows equally large and equally "
    "many; without the roll there would be smaller ones at the edges, and no single batch.",
    cases=[
        Case((NUMBERED[4], 2, 1)),
        *(
            Case((NUMBERED[s], w, shift), NOT_HALF)
            for s, w, shift in [(4, 2, 0), (6, 3, 1), (6, 3, 2)]
        ),
        *(Case(inputs, MANY) for inputs in OTHERS),
        Case(authoring.in_dtype(OTHERS[2], torch.float64)),
    ],
    mistakes=[
        *instead_of(ORDER, ORDERS),
        *(Mistake({"(moved)": f"(moved, {order})"}, why) for order, why in ORDERS.items()),
        *instead_of(
            MOVED,
            {
                "X": "Your windows are right for a shift of 0: the shift has no effect.",
                "X.roll((shift, shift), dims=(1, 2))": "Your map moves down and to the right. It "
                "moves up and to the left: `roll` by a negative number.",
                "X.roll(-shift, dims=1)": "Your map moves up, and not to the left, axis 2.",
                "X.roll(-shift, dims=2)": "Your map moves to the left, and not up, axis 1.",
                "F.pad(X[:, shift:, shift:], (0, 0, 0, shift, 0, shift))": "Zeros come in at the "
                "far side. What falls off comes in there: `roll` does both.",
            },
        ),
        *instead_of(
            REGIONS,
            {
                "torch.zeros(R, C)": "In your mask all pixels of a window see each other. At the "
                "edges a window holds pixels from opposite sides of the map, which are not "
                "neighbours.",
                "1 * row_came_in[:, None] + 1 * column_came_in": "In the last window two regions "
                "have one label: what came in from above and what came in from the left. Rows and "
                "columns make four regions, `2 * down + across`.",
                "row_came_in[:, None] | column_came_in": "All that came in is one region in your "
                "mask. From above, from the left and from both are three, which were never "
                "neighbours.",
                "row_came_in[:, None] & column_came_in": "Your mask keeps apart only what moved in "
                "both directions. What came in only from above, or only from the left, is not a "
                "neighbour either.",
                "row_came_in[:, None].expand(R, C)": "Your mask keeps apart what came in from "
                "above, and not what came in from the left.",
                "column_came_in.expand(R, C)": "Your mask keeps apart what came in from the left, "
                "and not what came in from above.",
                f"({REGIONS}).flip(0, 1)": "Your mask cuts the first windows. The map moves up and "
                "left, so what came in stands in the last rows and columns.",
                f"({REGIONS}).roll((-shift, -shift), dims=(0, 1))": "Your regions are moved once "
                "too often. What came in stands at the far side of the map that was moved: label "
                "that one, or label the map before and compare where pixels were.",
                "(torch.arange(R)[:, None] // window * C + torch.arange(C) // window)"
                ".roll((-shift, -shift), dims=(0, 1))": "In your mask a pixel sees only those of "
                "its old window. Shifted windows are there to join pixels of several: only what "
                "was never near is kept apart.",
            },
        ),
        Mistake(
            {"R - shift": "R - -shift % window", "C - shift": "C - -shift % window"},
            "Your regions end at the wrong pixel: the last `shift` rows and columns came in, not "
            "the last `window - shift`. (With a shift of half a window both are the same.)",
        ),
        Mistake({"] == labels": "] != labels"}, "Your mask is inverted. True = may attend."),
    ],
    shapes=shapes,
    rules=[first_wrong],
    steps=[authoring.gradients_flow("X")],
)
