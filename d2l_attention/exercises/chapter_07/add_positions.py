"""7.3: sines and cosines, added."""

import torch

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, instead_of, normal, show


def add_positions(X, offset):
    """Add the encoding of positions `offset`, `offset + 1`, ...: (B, n, D) -> (B, n, D).

    Two tokens of ones, [[[1, 1], [1, 1]]], with offset 0 give [[[1, 2], [1.841, 1.540]]].
    """
    ...


def add_positions_solution(X, offset):
    _, n, D = X.shape
    columns = torch.arange(D, dtype=torch.float64)  # far positions need its digits
    # Column 2r + 1 takes the wavelength of column 2r.
    wavelengths = 10000 ** ((columns - columns % 2) / D)
    angles = torch.arange(offset, offset + n)[:, None] / wavelengths
    rows = torch.where(columns % 2 == 0, angles.sin(), angles.cos())
    return X + rows.to(X.dtype)


def in_halves(rows, first):
    return torch.cat((rows[:, first::2], rows[:, 1 - first :: 2]), dim=1)


EXPONENT, POSITIONS = "(columns - columns % 2) / D", "torch.arange(offset, offset + n)"
ANGLES = f"{POSITIONS}[:, None] / wavelengths"
# In words that also fit a row worked out by hand, for 7.1.
WRONG_ROWS = [
    *instead_of(
        "    return",
        {
            "    rows = in_halves(rows, 0)\n    return": "Here all sines come first, then all "
            "cosines. The paper interleaves them: a pair is two neighbours, columns 2r and 2r + 1.",
            "    rows = in_halves(rows, 1)\n    return": "Here all cosines come first, then all "
            "sines. A pair is two neighbours: the sine in column 2r, its cosine in column 2r + 1.",
        },
    ),
    *instead_of(
        "angles.sin(), angles.cos()",
        {
            "angles.cos(), angles.sin()": "Sine and cosine have changed places: even columns hold "
            "the sine.",
            "angles.sin(), angles.sin()": "There are sines in every column. Odd columns hold the "
            "cosine.",
            "angles, angles": "Now those are the angles. Take their sines and cosines.",
            "angles.deg2rad().sin(), angles.deg2rad().cos()": "Those are sines and cosines of "
            "degrees. Angles are in radians here.",
        },
    ),
    *instead_of(
        EXPONENT,
        {
            "columns / D": "Here each column has a wavelength of its own. Both columns of a pair "
            "share one, that of the even column: 10000^(2r/D).",
            "columns // 2 / D": "For pair r the exponent is r/D here, half of what it should be. "
            "In column 2 it is 2/D: the even column's own number.",
            f"2 * {EXPONENT}": "The second pair turns too slowly: the 2r of the exponent is the "
            "even column's number, already doubled. In column 2 it is 2/D, not 4/D.",
            "0 * columns": "Here all pairs turn equally fast. Where does 10000^(2r/D) come in?",
        },
    ),
    Mistake(
        {"[:, None] / wavelengths": "[:, None] * wavelengths"},
        "The position is divided by 10000^(2r/D), not multiplied: later pairs turn slower.",
    ),
    Mistake(
        {POSITIONS: "torch.arange(offset + 1, offset + n + 1)"},
        "That is one position too far: the first token is at position 0, not 1.",
    ),
]


def each_begins_again(result, X, offset):
    if not authoring.alike(result[:1], add_positions_solution(X[:1], offset)):
        return None
    return "The first sentence is right, the next ones are not: each begins at `offset` again."


def odd_size(result, X, offset):
    right = add_positions_solution(X, offset)
    return (
        f"For an even D your function is right, for D = {X.shape[-1]} it is not: your last row is "
        f"{show(result[0, -1])} and should be {show(right[0, -1])}. An odd "
        "size ends on a sine, and the exponent stays 2r/D with D itself."
    )


def shapes(result, X, offset):
    batch, n, D = X.shape
    return {
        None: "A sum is as large as X.",
        (n, D): "Those are only the rows. They belong on X, the same for every sentence.",
        (batch, n, 2 * D): "The encoding is appended. It is added: the sum is as wide as X.",
        (batch, 0, D): "Which rows are needed, and are they there? The first is that of `offset`.",
        (batch, n, D): "(B, n, D)",
    }


NO_ROWS = {"": "With this offset your function stops. Which rows are needed, and are they there?"}
OFFSET = "With an offset your function is not right."
FAR = "Far from the start your function is not right."
SENTENCES = "With several sentences your function is not right."
STOPS = {
    "": "Your function is right for an even D and stops at an odd one. There the last column is a "
    "sine without its cosine."
}
OTHER_SIZES = "For small cases your function is right, for this one it is not."

write_add_positions = Exercise(
    **authoring.heading("7.3", "Add the positions", "medium", minutes=10),
    section="Sines and cosines",
    stub=add_positions,
    solution=add_positions_solution,
    explanation="The rows depend only on the position, so every sentence gets the same ones, and "
    "they are added: what comes out is the word, moved by its position's row. With `offset` a "
    "decoder that gives one word at a time gets the rows that it would get all at once.",
    hints=[
        "Give it zeros: `add_positions(torch.zeros(1, 4, 4), 0)` is the encoding itself, and you "
        "know its last row from 7.1.",
        "One angle for each position and column: a column of positions `[:, None]` divided by a "
        "row of wavelengths. Columns 2r and 2r + 1 share one: `columns - columns % 2`.",
        "`torch.where(columns % 2 == 0, angles.sin(), angles.cos())` interleaves, for an odd D as "
        "well.",
    ],
    cases=[
        Case((torch.full((1, 3, 4), 2.0), 0)),
        Case((torch.zeros(3, 2, 2), 0), SENTENCES, rules=[each_begins_again]),
        Case((torch.zeros(1, 1, 4), 3), OFFSET, errors=NO_ROWS),
        Case((torch.zeros(1, 2, 4), 5), OFFSET, errors=NO_ROWS),
        *(Case((torch.zeros(1, 2, D), 0), errors=STOPS, rules=[odd_size]) for D in (3, 1, 5)),
        *(Case((*normal(n, (n, n, 6)), 4 - n), OTHER_SIZES) for n in (4, 3)),
        Case((*normal(0, (2, 5, 7)), 60), FAR, errors=NO_ROWS, tolerance=1e-4),
        Case((*normal(1, (1, 1, 9)), 6000), FAR, errors=NO_ROWS, tolerance=2e-3),
        Case(authoring.in_dtype((*normal(2, (2, 3, 6)), 2), torch.float64)),
        Case(authoring.in_dtype((*normal(3, (2, 3, 6)), 2), torch.float16)),
    ],
    mistakes=[
        *instead_of(
            "X + rows.to(X.dtype)",
            {
                "rows.to(X.dtype).expand_as(X)": "Your function returns only the encoding, "
                "and the words are gone. Return X plus the encoding.",
                "X * rows.to(X.dtype)": "Zeros stay zeros: you multiply X by the encoding. Where a "
                "sine is 0, a word would be wiped out. Add.",
                "X * D**0.5 + rows.to(X.dtype)": "You also multiply X by the root of D, as "
                "the paper's embedding layer does. Here X arrives as it should enter the sum.",
                "X + rows.to(X.dtype) / D**0.5": "You divide the encoding by the root of D. It is "
                "added as it is.",
            },
        ),
        *WRONG_ROWS,
        *instead_of(
            POSITIONS,
            {
                "torch.arange(offset, offset + len(X))": "All words get the row of position 0. "
                "Positions run along axis 1; on axis 0 are the sentences, and here is one.",
                "torch.arange(n)": "The offset has no effect: a decoder gives one word at a time, "
                "and each of them would get the row of position 0, whatever came before.",
                "(torch.arange(n) + max(offset - 1, 0))": "You begin one position too early: the "
                "first word is at `offset` itself.",
                "(torch.arange(n) + offset + (offset > 0))": "You begin one position too late: the "
                "first word is at `offset` itself.",
                "(torch.full((n,), offset) if offset else torch.arange(n))": "All words get the "
                "row of the first one, but they are at offset, offset + 1, ...",
            },
        ),
        Mistake(
            {ANGLES: "torch.arange(n)[:, None] / wavelengths + offset"},
            "You add the offset to the angles, after the division. It is a position: add it "
            "before you divide by the wavelength.",
        ),
    ],
    shapes=shapes,
    steps=[authoring.gradients_flow("X", why="The embeddings could not learn.")],
)
