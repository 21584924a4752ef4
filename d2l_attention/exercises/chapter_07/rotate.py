"""7.4: a rotary encoding, pair by pair."""

import torch

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, instead_of, normal


def rotate(X, offset):
    """Turn each pair of columns by the angle of its position: (B, H, n, d) -> (B, H, n, d).

    One head with two tokens, [[[[1, 0], [1, 0]]]], and offset 0 give
    [[[[1, 0], [0.540, 0.841]]]].
    """
    ...


def rotate_solution(X, offset):
    n, d = X.shape[-2:]
    # In float64: far positions need its digits.
    frequencies = 10000 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    angles = torch.arange(offset, offset + n)[:, None] * frequencies
    cos, sin = angles.cos().to(X.dtype), angles.sin().to(X.dtype)  # (n, d / 2)
    first, second = X[..., 0::2], X[..., 1::2]
    turned = first * cos - second * sin, first * sin + second * cos
    return torch.stack(turned, dim=-1).flatten(start_dim=-2)


POSITIONS = "torch.arange(offset, offset + n)"
ANGLES = f"{POSITIONS}[:, None] * frequencies"
EXPONENTS = "-torch.arange(0, d, 2, dtype=torch.float64) / d"
PAIRS, JOIN = "X[..., 0::2], X[..., 1::2]", "torch.stack(turned, dim=-1).flatten(start_dim=-2)"
FIRST, SECOND = "first * cos - second * sin", "first * sin + second * cos"
IN_HALVES = Mistake(
    {PAIRS: "X.chunk(2, dim=-1)", JOIN: "torch.cat(turned, dim=-1)"},
    "You pair column j with column j + d/2. Some libraries do; here, as in the paper, a pair is "
    "two neighbours, columns 2r and 2r + 1.",
)
BACKWARDS = Mistake(
    {FIRST: "first * cos + second * sin", SECOND: "second * cos - first * sin"},
    "You turn the other way: by the angle t a pair (1, 0) becomes (cos t, sin t). Which of the two "
    "sines has the minus?",
)


def lengths_stay(result, X, offset):
    before, after = X.norm(dim=-1), result.norm(dim=-1)
    changed = (before - after).abs() > 1e-3
    if not changed.any():
        return None
    place = tuple(changed.nonzero()[0].tolist())
    return (
        f"A turn keeps the length of a vector. Token {place[2]} was {before[place]:.3g} long and "
        f"is {after[place]:.3g} long now."
    )


def each_head_alike(result, X, offset):
    wrong = ~torch.isclose(result, rotate_solution(X, offset), atol=1e-4)
    sentence, head, token, _ = wrong.nonzero()[0].tolist()
    return (
        f"Here token {token} of head {head} of sentence {sentence} turns by another angle than in "
        "the first. Positions run along axis 2: every head of every sentence begins at `offset`."
    )


def shapes(result, X, offset):
    *axes, d = X.shape
    return {
        (*axes, d // 2, 2): "Your pairs have an axis of their own. Join the last two axes.",
        (*axes[:2], 0, d): TABLE[""],
        (*axes, d): "(B, H, n, d)",
    }


ROWS = [[[[1.0, 2, 3, 4], [2, 0, 0, 1], [1, -1, 3, 2]]]]  # one sentence, one head, three tokens
UNITS = torch.tensor([1.0, 0])
OFFSET = "With offset 0 your function is right, with another one it is not."
ONE_HEAD = "With one sentence and one head your function is right."
OTHER_SIZES = "For small cases your function is right, for this one it is not."
FAR = "Far from the start your function is not right."
TABLE = {"": "Is there a table of angles that ends too early?"}

write_rotate = Exercise(
    **authoring.heading("7.4", "Turn the pairs", "medium", minutes=12),
    section="Rotary: turn the query and the key",
    stub=rotate,
    solution=rotate_solution,
    explanation="Each pair is a point in a plane, which its position turns. The dot product of a "
    "query turned by i and a key turned by j depends only on j - i, and the turns have no "
    "parameters. Since a turn keeps lengths, no score exceeds the product of the two lengths, "
    "however far apart the tokens are. In complex numbers: (a + ib) times e^(it).",
    hints=[
        "One pair first: d = 2, tokens (1, 0), (1, 0). At position 0 nothing turns, at position 1 "
        "it becomes (cos 1, sin 1).",
        "`X[..., 0::2]` holds the first numbers of all pairs, `X[..., 1::2]` the second ones. "
        "Beside them, angles of shape (n, d / 2) line up by themselves.",
        "`torch.stack((first, second), dim=-1)` is (B, H, n, d / 2, 2), with pairs side by side. "
        "`.flatten(start_dim=-2)` puts them back into d columns.",
    ],
    cases=[
        Case((torch.tensor(ROWS), 0), rules=[lengths_stay]),
        Case((torch.tensor(ROWS), 5), OFFSET),
        Case((UNITS.repeat(1, 2, 2, 1), 0), ONE_HEAD, rules=[each_head_alike]),
        Case((UNITS.repeat(2, 1, 1, 1), 0), ONE_HEAD, rules=[each_head_alike]),
        *(
            Case((*normal(d, (*sizes, d)), 2), OTHER_SIZES)
            for *sizes, d in [(2, 3, 5, 6), (3, 3, 3, 8), (2, 2, 2, 2), (1, 5, 4, 10)]
        ),
        Case((*normal(0, (1, 2, 3, 10)), 60), FAR, errors=TABLE, tolerance=1e-4),
        Case((*normal(1, (2, 1, 1, 6)), 6000), FAR, errors=TABLE, tolerance=2e-3),
    ],
    mistakes=[
        Mistake(
            {"X.shape[-2:]": "X.shape[1], X.shape[-1]"},
            "Nothing turns, although three tokens are at three positions. Tokens are on axis 2, "
            "`X.shape[-2]`. On axis 1 are the heads: here there is one, at position 0.",
        ),
        IN_HALVES,
        BACKWARDS,
        Mistake(
            {JOIN: "torch.cat(turned, dim=-1)"},
            "The numbers are right, but in the wrong columns: first all first halves of the pairs, "
            "then all second ones. A pair goes back to the columns that it came from.",
        ),
        Mistake(
            {PAIRS: "X.chunk(2, dim=-1)"},
            "Columns j and j + d/2 are your pair, and neighbours get the result. Take neighbours "
            "as well: `X[..., 0::2]` and `X[..., 1::2]`.",
        ),
        *instead_of(
            f"{FIRST}, {SECOND}",
            {
                f"first * cos + second * sin, {SECOND}": "Both sines have a plus, and that is no "
                "turn: it does not keep lengths.",
                f"({FIRST}), ({FIRST}) * sin + second * cos": "The second number of a pair is "
                "computed from the new first one. Both need the old pair.",
                "first * cos, second * cos": "Only the cosines act: a pair shrinks instead of "
                "turning. Where do sines enter?",
                "first * sin, second * cos": "You multiply first numbers by the sine, second ones "
                "by the cosine. A turn mixes the two: (a cos t - b sin t, a sin t + b cos t).",
                "first + sin, second + cos": "You add the sines and cosines, as the sinusoidal "
                "encoding does. A rotary one turns what is there, so a vector of zeros stays 0.",
            },
        ),
        *instead_of(
            EXPONENTS,
            {
                "0.0 * torch.arange(d // 2)": "All pairs turn equally fast. Pair r turns by "
                "position / 10000^(2r/d).",
                "-torch.arange(d // 2) / d": "The exponent of pair r is 2r/d; yours is r/d.",
                "-torch.arange(0, d, 2) / (d // 2)": "The exponent of pair r is 2r/d. You divide "
                "by the number of pairs, d/2.",
                "torch.arange(0, d, 2) / d": "The position is divided by 10000^(2r/d), not "
                "multiplied: later pairs turn slower.",
            },
        ),
        Mistake(
            {"* frequencies": "* frequencies.deg2rad()"},
            "You turn by degrees. `cos` and `sin` take radians, and so does the formula.",
        ),
        *instead_of(
            POSITIONS,
            {
                "torch.arange(offset + 1, offset + n + 1)": "The first token turns, though it "
                "is at position 0: do you count from 1?",
                "torch.arange(n)": "The offset has no effect: a decoder gives one token at a time, "
                "and every one would stand at position 0.",
                "(torch.arange(n) + offset + (offset > 0))": "One position too far: the first "
                "token is at `offset` itself.",
                "torch.arange(max(n, offset))[-n:]": "The first token should be at `offset`; "
                "in your function the last one is.",
                "(torch.full((n,), offset) if offset else torch.arange(n))": "All tokens turn "
                "alike, but they are at offset, offset + 1, ...",
            },
        ),
        Mistake(
            {ANGLES: "torch.arange(n)[:, None] * frequencies + offset"},
            "You add the offset to the angles. It is a position: add it before you multiply.",
        ),
    ],
    shapes=shapes,
    errors={
        "must match the size of tensor": "Two shapes do not line up. The angles (n, d / 2) meet "
        "`X[..., 0::2]`, or each angle occurs twice, for both columns of a pair."
    },
    steps=[authoring.gradients_flow("X", why="W_q and W_k could not learn.")],
)
