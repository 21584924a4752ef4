"""7.4: a rotary encoding, pair by pair."""

from typing import Any

import torch
from torch import Tensor

from d2l_attention import RotaryEncoding
from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_07 import rotate_mistakes as mistakes
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.helpers import because, none_of, normal
from d2l_attention.exercises.steps import agrees, explains, holds, like


def rotate(X, offset): ...


def rotate_solution(X, offset):
    n, d = X.shape[-2:]
    frequencies = 10000 ** (-torch.arange(0, d, 2) / d)
    angles = torch.arange(offset, offset + n)[:, None] * frequencies  # (n, d / 2)
    cos, sin = angles.cos().to(X.dtype), angles.sin().to(X.dtype)
    first, second = X[..., 0::2], X[..., 1::2]
    turned = first * cos - second * sin, first * sin + second * cos
    return torch.stack(turned, dim=-1).flatten(start_dim=-2)


def package(X: Tensor, offset: int) -> Tensor:
    return RotaryEncoding(X.shape[-1]).rotate(X, offset=offset)


ROWS = [[[[1.0, 2, 3, 4], [2, 0, 0, 1], [1, -1, 3, 2]]]]  # one sentence, one head, three tokens
SMALL = (torch.tensor(ROWS), 0)
FROM_5 = (torch.tensor(ROWS), 5)
HEADS = [
    (torch.tensor([[[[1.0, 0]], [[1, 0]]]]), 0),  # two heads, one token: at position 0
    (torch.tensor([[[[1.0, 0], [1, 0]], [[1, 0], [1, 0]]]]), 0),
    (torch.tensor([[[[1.0, 0]]], [[[1, 0]]]]), 0),  # two sentences
]
RANDOM = [
    (*normal(seed, shape), offset)
    for seed, (shape, offset) in enumerate(
        [((2, 3, 5, 6), 0), ((3, 3, 3, 6), 2), ((1, 2, 1, 10), 40), ((2, 2, 2, 2), 1)]
    )
]
EMPTY = [(torch.zeros(2, 3, 0, 4), 0), (torch.zeros(0, 3, 2, 4), 1)]
DOUBLE = [(X.double(), offset) for X, offset in RANDOM[:2]]

ERRORS = {
    "must match the size of tensor": (
        "Two shapes do not line up. d columns are d / 2 pairs, so there are (n, d / 2) angles: "
        "they meet `X[..., 0::2]`, or they stand twice, for both columns of a pair."
    ),
}


def pairs_in_their_columns(result: Any, X: Tensor, offset: int) -> str | None:
    *axes, d = X.shape
    if not isinstance(result, Tensor) or result.shape != (*axes, d // 2, 2):
        return None
    return (
        f"Your result has shape {tuple(result.shape)}: pairs have an axis of their own. Join the "
        "last two axes to d columns."
    )


def lengths_stay(result: Tensor, X: Tensor, offset: int) -> str | None:
    before, after = X.norm(dim=-1), result.detach().norm(dim=-1)
    if torch.allclose(before, after, atol=1e-3):
        return None
    place = tuple(((before - after).abs() > 1e-3).nonzero()[0].tolist())
    return (
        f"A turn keeps the length of a vector. Token {place[2]} was {before[place]:.3g} long and "
        f"is {after[place]:.3g} long now."
    )


def each_head_alike(result: Tensor, X: Tensor, offset: int) -> str | None:
    right = package(X, offset)
    if torch.allclose(result, right, atol=1e-4):
        return None
    sentence, head, token, _ = ((result - right).abs() > 1e-4).nonzero()[0].tolist()
    return (
        f"With one sentence and one head your function is right. Here token {token} of head {head} "
        f"of sentence {sentence} turns by another angle than in the first. Positions run along "
        "axis 2 alone: every head of every sentence begins at `offset`."
    )


def gradient_comes_through(attempt: Attempt) -> str | None:
    if attempt(SMALL[0].clone().requires_grad_(), 0).requires_grad:
        return None
    return (
        "The numbers are right, but no gradient reaches X, so W_q and W_k could not learn. "
        "`.detach()`, `.tolist()` and `torch.tensor(...)` cut it off."
    )


write_rotate = Exercise(
    id="7.4",
    title="Turn the pairs",
    task=(
        "Complete `rotate(X, offset)`, the rotary encoding of queries or keys X (B, H, n, d), d "
        "even. The first token of each head stands at position `offset`. Columns 2j and 2j + 1 "
        "are a pair (a, b), and at position p it becomes (a cos t - b sin t, a sin t + b cos t) "
        "with t = p / 10000^(2j/d). Shape and dtype stay."
    ),
    difficulty="medium",
    minutes=12,
    hints=[
        "One pair first: d = 2, tokens (1, 0), (1, 0). At position 0 nothing turns, at position 1 "
        "it becomes (cos 1, sin 1).",
        "`X[..., 0::2]` holds the first numbers of all pairs, `X[..., 1::2]` the second ones. "
        "Beside them, angles of shape (n, d / 2) line up by themselves.",
        "`torch.stack((first, second), dim=-1)` is (B, H, n, d / 2, 2), with pairs side by side. "
        "`.flatten(start_dim=-2)` puts them back into d columns.",
    ],
    stub=rotate,
    solution=rotate_solution,
    explanation=(
        "Each pair is a point in a plane, and its position turns it. The dot product of a query "
        "turned by i and a key turned by k knows i - k alone, so nothing has to be learned about "
        "places. A turn keeps lengths: no score grows because a token stands far away. As "
        "complex numbers it is one product: (a + ib) times e^(it)."
    ),
    steps=[
        explains(ERRORS, [SMALL]),
        holds(pairs_in_their_columns, [SMALL]),
        like(package, [SMALL]),
        none_of(mistakes.MISTAKES, SMALL),
        holds(lengths_stay, [SMALL]),
        agrees(package, [SMALL], tolerance=1e-4),
        none_of(mistakes.WITH_OFFSET, FROM_5),
        because(
            "With offset 0 your function is right, with another one it is not.",
            agrees(package, [FROM_5], tolerance=1e-4),
        ),
        because(
            "With one sentence and one head your function is right.",
            like(package, HEADS),
        ),
        holds(each_head_alike, HEADS),
        agrees(package, RANDOM, tolerance=1e-4),
        agrees(package, EMPTY),
        agrees(package, DOUBLE, tolerance=1e-4),
        gradient_comes_through,
    ],
    wrong=[
        Wrong(mistakes.in_halves, "You pair column j with column j + d/2"),
        Wrong(mistakes.cut_by_neighbours, "in the wrong columns"),
        Wrong(mistakes.cut_by_halves, "Take neighbours, too"),
        Wrong(mistakes.backwards, "You turn the other way"),
        Wrong(mistakes.both_signs_plus, "that is no turn"),
        Wrong(mistakes.one_after_the_other, "from the new first one"),
        Wrong(mistakes.cosines_alone, "Only the cosines act"),
        Wrong(mistakes.entry_by_entry, "A turn mixes the two"),
        Wrong(mistakes.added, "That is the encoding of 7.3"),
        Wrong(mistakes.one_frequency, "All pairs turn equally fast"),
        Wrong(mistakes.half_the_exponent, "yours is j/d"),
        Wrong(mistakes.divided_by_pairs, "the number of pairs"),
        Wrong(mistakes.multiplied, "not multiplied"),
        Wrong(mistakes.in_degrees, "You turn by degrees"),
        Wrong(mistakes.from_1, "do you count from 1?"),
        Wrong(mistakes.unchanged, "Nothing turns"),
        Wrong(mistakes.along_the_heads, "On axis 1 are the heads"),
        Wrong(mistakes.offset_ignored, "The offset has no effect"),
        Wrong(mistakes.one_too_far, "One position too far"),
        Wrong(mistakes.all_at_the_offset, "All tokens turn alike"),
        Wrong(mistakes.offset_in_the_angle, "You add the offset to the angles"),
        Wrong(mistakes.offset_as_a_stop, "the last one ends there"),
        Wrong(mistakes.pairs_left_apart, "pairs have an axis of their own"),
        Wrong(mistakes.angles_not_repeated, "Two shapes do not line up"),
        Wrong(mistakes.first_head_only, "head 1 of sentence 0"),
        Wrong(mistakes.position_by_row, "every head of every sentence"),
        Wrong(mistakes.written_into_the_input, "changes its input: `X`"),
        Wrong(mistakes.single_precision, "it should be float64"),
        Wrong(mistakes.gradient_cut_off, "no gradient reaches X"),
        Wrong(mistakes.without_return, "Is the `return` missing?"),
    ],
)
