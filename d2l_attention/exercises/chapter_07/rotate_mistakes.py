"""Wrong answers to 7.4, as students give them, and what to say of those that give numbers."""

import torch

from d2l_attention.exercises.chapter_07 import turning
from d2l_attention.exercises.chapter_07.turning import right, rotate_with

in_halves = rotate_with(pairs=turning.halves, join=turning.end_to_end)
cut_by_neighbours = rotate_with(join=turning.end_to_end)
cut_by_halves = rotate_with(pairs=turning.halves)
backwards = rotate_with(how_far=turning.backwards)
both_signs_plus = rotate_with(turn=turning.both_signs_plus)
one_after_the_other = rotate_with(turn=turning.one_after_the_other)
cosines_alone = rotate_with(turn=turning.cosines_alone)
entry_by_entry = rotate_with(turn=turning.entry_by_entry)
added = rotate_with(turn=turning.added)
one_frequency = rotate_with(how_far=turning.one_frequency)
half_the_exponent = rotate_with(how_far=turning.half_the_exponent)
divided_by_pairs = rotate_with(how_far=turning.divided_by_pairs)
multiplied = rotate_with(how_far=turning.multiplied)
in_degrees = rotate_with(how_far=turning.in_degrees)
from_1 = rotate_with(how_far=turning.from_1)
along_the_heads = rotate_with(axis=-3)


def unchanged(X, offset):
    return X.clone()


MISTAKES = {
    unchanged: (
        "Nothing turns, although three tokens stand at three positions. Tokens are on axis 2, "
        "`X.shape[-2]`. On axis 1 are the heads: here there is one, at position 0."
    ),
    in_halves: (
        "You pair column j with column j + d/2. Some libraries do; here, as in the paper, a pair "
        "is two neighbours, columns 2j and 2j + 1."
    ),
    cut_by_neighbours: (
        "The numbers are right, but in the wrong columns: first all first halves of the pairs, "
        "then all second ones. A pair goes back to the columns that it came from."
    ),
    cut_by_halves: (
        "You take column j and column j + d/2 as a pair, and put the result back as neighbours. "
        "Take neighbours, too: `X[..., 0::2]` and `X[..., 1::2]`."
    ),
    backwards: (
        "You turn the other way: by the angle t a pair (1, 0) becomes (cos t, sin t). Which of the "
        "two sines has the minus?"
    ),
    both_signs_plus: (
        "Both sines have a plus, and that is no turn: it does not keep lengths. (a, b) becomes "
        "(a cos t - b sin t, a sin t + b cos t)."
    ),
    one_after_the_other: (
        "The second number of a pair is computed from the new first one. Both need the old pair: "
        "keep it until both are done."
    ),
    cosines_alone: "Only the cosines act: a pair shrinks instead of turning. Where do sines enter?",
    entry_by_entry: (
        "You multiply first numbers by the sine, second ones by the cosine. A turn mixes the two: "
        "(a cos t - b sin t, a sin t + b cos t)."
    ),
    added: (
        "You add the sines and cosines. That is the encoding of 7.3; a rotary encoding turns what "
        "is there, so a vector of zeros stays 0."
    ),
    one_frequency: "All pairs turn equally fast. Pair j turns by position / 10000^(2j/d).",
    half_the_exponent: "The exponent of pair j is 2j/d; yours is j/d.",
    divided_by_pairs: "The exponent of pair j is 2j/d. You divide by the number of pairs, d/2.",
    multiplied: "The position is divided by 10000^(2j/d), not multiplied: later pairs turn slower.",
    in_degrees: "You turn by degrees. `cos` and `sin` take radians, and so does the formula.",
    from_1: "The first token turns, though it stands at position 0: do you count from 1?",
}


def by_angles(X, t):
    turned = turning.turn(*turning.neighbours(X), t.cos().to(X), t.sin().to(X))
    return turning.side_by_side(*turned)


def offset_ignored(X, offset):
    return right(X, 0)


def one_too_far(X, offset):
    return right(X, offset + 1 if offset else 0)


def all_at_the_offset(X, offset):
    if offset == 0:
        return right(X, 0)
    return torch.cat([right(X[:, :, i : i + 1], offset) for i in range(X.shape[2])], dim=2)


def offset_in_the_angle(X, offset):
    positions = torch.arange(X.shape[2])
    return by_angles(X, turning.angles(positions, X.shape[3]) + offset)


def offset_as_a_stop(X, offset):
    positions = torch.arange(max(X.shape[2], offset))[-X.shape[2] :]
    return by_angles(X, turning.angles(positions, X.shape[3]))


WITH_OFFSET = {
    offset_ignored: (
        "The offset has no effect: a decoder gives one token at a time, and every one would stand "
        "at position 0."
    ),
    one_too_far: "One position too far: the first token stands at `offset` itself.",
    offset_as_a_stop: "The first token should stand at `offset`; with you the last one ends there.",
    all_at_the_offset: "All tokens turn alike: they stand at offset, offset + 1, ...",
    offset_in_the_angle: (
        "You add the offset to the angles. It is a position: add it before the frequencies come in."
    ),
}


def pairs_left_apart(X, offset):
    first, second = turning.neighbours(right(X, offset))
    return torch.stack((first, second), dim=-1)


def angles_not_repeated(X, offset):
    t = turning.angles(torch.arange(offset, offset + X.shape[2]), X.shape[3]).to(X)
    swapped = turning.side_by_side(-X[..., 1::2], X[..., 0::2])
    return X * t.cos() + swapped * t.sin()


def written_into_the_input(X, offset):
    turned = right(X, offset)
    X[..., 0::2] = turned[..., 0::2]
    X[..., 1::2] = turned[..., 1::2]
    return X


def first_head_only(X, offset):
    result = X.clone()
    result[:, 0] = right(X[:, :1], offset)[:, 0]
    return result


def position_by_row(X, offset):
    rows = X.reshape(1, 1, -1, X.shape[-1])
    return right(rows, offset).view_as(X)


def single_precision(X, offset):
    return right(X.float(), offset)


def gradient_cut_off(X, offset):
    return right(X.detach(), offset)


def without_return(X, offset):
    right(X, offset)
