"""7.3: sines and cosines, added. Embeddings of zeros show the encoding itself."""

from typing import Any

import torch
from torch import Tensor

from d2l_attention import PositionalEncoding
from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_07 import add_mistakes as mistakes
from d2l_attention.exercises.chapter_07 import sines
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.helpers import because, normal
from d2l_attention.exercises.show import show
from d2l_attention.exercises.steps import agrees, explains, holds, like


def add_positions(X, offset): ...


def add_positions_solution(X, offset):
    _, n, d = X.shape
    columns = torch.arange(d)
    # Column 2j + 1 takes the wavelength of column 2j.
    wavelengths = 10000 ** ((columns - columns % 2) / d)
    angles = torch.arange(offset, offset + n)[:, None] / wavelengths
    return X + torch.where(columns % 2 == 0, angles.sin(), angles.cos()).to(X.dtype)


def package(X: Tensor, offset: int) -> Tensor:
    return PositionalEncoding(X.shape[-1], 0.0, max_len=64)(X, offset=offset)


def close(got: Tensor, right: Tensor) -> bool:
    return torch.allclose(got.detach(), right.to(got.dtype), rtol=0, atol=1e-4)


ONES = (torch.ones(1, 2, 4), 0)
ROWS = (torch.zeros(1, 3, 4), 0)
WORD_BY_WORD = (torch.zeros(1, 1, 4), 3)
TWO_FROM_5 = (torch.zeros(1, 2, 4), 5)
SENTENCES = (torch.zeros(3, 2, 2), 0)
ODD = [(torch.zeros(1, 2, 3), 0), (torch.zeros(1, 2, 1), 0), (torch.zeros(1, 3, 5), 0)]
RANDOM = [
    (*normal(seed, shape), offset)
    for seed, (shape, offset) in enumerate(
        [((2, 3, 6), 0), ((3, 3, 6), 2), ((2, 5, 7), 0), ((1, 1, 9), 40), ((4, 4, 4), 1)]
    )
]
EMPTY = [(torch.zeros(2, 0, 4), 0), (torch.zeros(0, 3, 4), 1)]
DOUBLE = [(X.double(), offset) for X, offset in RANDOM[:2]]


def what_comes_back(result: Any, X: Tensor, offset: int) -> str | None:
    if not isinstance(result, Tensor) or result.shape == X.shape:
        return None  # the next step tells
    batch, n, d = X.shape
    shapes = {
        (n, d): "Those are the rows alone. They belong on X, the same for every sentence.",
        (1, n, d): "Those are the rows alone. They belong on X, the same for every sentence.",
        (batch, n, 2 * d): "The encoding is appended. It is added: the sum is as wide as X.",
    }
    why = shapes.get(tuple(result.shape), "A sum is as large as X.")
    return f"Your result has shape {tuple(result.shape)}; X has {tuple(X.shape)}. {why}"


def is_added(attempt: Attempt) -> str | None:
    """The result for ones, less the result for zeros, is ones."""
    zeros, offset = torch.zeros_like(ONES[0]), ONES[1]
    with_ones, with_zeros = attempt(*ONES), attempt(zeros, offset)
    if close(with_ones - with_zeros, ONES[0]):
        return None
    shown = f"Smallest case that shows it: {attempt.case(ONES)}."
    if close(with_ones, with_zeros):
        return (
            "Your function returns the encoding alone: whatever X holds, the result is the same, "
            f"so the words are gone. Return X plus the encoding. {shown}"
        )
    if close(with_zeros, zeros):
        return (
            "Zeros stay zeros: you multiply X by the encoding. Where a sine is 0, a word would be "
            f"wiped out. Add. {shown}"
        )
    if close(with_ones - with_zeros, 2 * ONES[0]):
        return (
            "You also multiply X by the root of d. The paper's embedding layer does that, before "
            f"the encoding; here X arrives as it should enter the sum. {shown}"
        )
    return (
        "X does not enter the sum as it is: for ones and for zeros your results should differ by "
        f"1 everywhere. They differ by {show(with_ones - with_zeros)}. {shown}"
    )


def rows(row, n: int, d: int) -> Tensor:
    return torch.tensor([[row(position, d) for position in range(n)]])


def named_rows(result: Tensor, X: Tensor, offset: int) -> str | None:
    """For embeddings of zeros, so that the result is the encoding."""
    _, n, d = X.shape
    if close(result, rows(sines.position_0, n, d)):
        return (
            "All words get the row of position 0. Positions run along axis 1; on axis 0 are the "
            "sentences, and here is one."
        )
    for row, why in sines.MISTAKES.items():
        if close(result, rows(row, n, d)):
            return (
                f"X is 0 here, so the result is your encoding, {show(result[0, 1])} in row 1: {why}"
            )
    if close(result, rows(sines.right, n, d) / d**0.5):
        return "You divide the encoding by the root of d. It is added as it is."
    return None


def first_differing_row(result: Tensor, X: Tensor, offset: int) -> str | None:
    right = package(X, offset)
    if close(result, right):
        return None
    sentence, token, column = ((result - right).abs() > 1e-4).nonzero()[0].tolist()
    return (
        f"Row {token}, column {column} of the encoding is "
        f"{show((result - X)[sentence, token, column].item())}; "
        f"at position {offset + token} it should be "
        f"{show((right - X)[sentence, token, column].item())}."
    )


def word_by_word(result: Tensor, X: Tensor, offset: int) -> str | None:
    if not close(result, package(X, 0)):
        return None
    return (
        f"A decoder gives one word at a time, here with offset {offset}, and your function adds "
        "the row of position 0: to each of them, whatever came before. Its position is `offset`."
    )


def counted_on(result: Tensor, X: Tensor, offset: int) -> str | None:
    shifts = {
        0: "The offset has no effect.",
        offset - 1: "You begin one position too early: the first word stands at `offset` itself.",
        offset + 1: "You begin one position too late: the first word stands at `offset` itself.",
    }
    for start, why in shifts.items():
        if close(result, package(X, start)):
            return why
    if X.shape[1] > 1 and close(result[:, 1:], result[:, :1]):
        return "All words get the row of the first one: they stand at offset, offset + 1, ..."
    if close(result, mistakes.offset_after_the_wavelength(X, offset)):
        return (
            "You add the offset to the angles, after the division. It is a position: add it "
            "before you divide by the wavelength."
        )
    return None


def every_sentence_alike(result: Tensor, X: Tensor, offset: int) -> str | None:
    if close(result, package(X, offset)):
        return None
    if close(result[:1], package(X[:1], offset)):
        return "The first sentence is right, the next ones are not: each begins at `offset` again."
    return None


ODD_ERROR = {
    "": (
        "Your function is right for an even d and stops at an odd one: there is one sine more than "
        "there are cosines. The last column is a sine without its cosine."
    )
}
SHORT = "With an offset your function is not right. Which rows are needed, and are they there?"


def odd_size(result: Tensor, X: Tensor, offset: int) -> str | None:
    if found := first_differing_row(result, X, offset):
        return (
            f"For an even d your function is right, for d = {X.shape[-1]} it is not. {found} An "
            "odd size ends on a sine, and the exponent stays 2j/d with d itself."
        )
    return None


def gradient_comes_through(attempt: Attempt) -> str | None:
    if attempt(torch.ones(1, 2, 4, requires_grad=True), 0).requires_grad:
        return None
    return (
        "The numbers are right, but no gradient reaches X, so the embeddings could not learn. "
        "`.detach()`, `.tolist()` and `torch.tensor(...)` cut it off."
    )


write_add_positions = Exercise(
    id="7.3",
    title="Add the positions",
    task=(
        "Complete `add_positions(X, offset)`: from embeddings X (B, n, d) to X plus the sinusoidal "
        "encoding, the same shape and dtype. The first word of each sentence stands at position "
        "`offset`, the second at `offset + 1`, and so on. Column 2j holds the sine and column "
        "2j + 1 the cosine of position / 10000^(2j/d). d may be odd: then the last column is a "
        "sine."
    ),
    difficulty="medium",
    minutes=10,
    hints=[
        "Give it zeros: `add_positions(torch.zeros(1, 4, 4), 0)` is the encoding itself, and you "
        "know its last row from 7.1.",
        "One angle for each position and column: a column of positions `[:, None]` divided by a "
        "row of wavelengths. Columns 2j and 2j + 1 share one: `columns - columns % 2`.",
        "`torch.where(columns % 2 == 0, angles.sin(), angles.cos())` interleaves, for an odd d as "
        "well.",
    ],
    stub=add_positions,
    solution=add_positions_solution,
    explanation=(
        "The rows depend on the position alone, so every sentence gets the same ones, and they are "
        "added: what comes out is still the word, moved a little. With `offset` a decoder that "
        "gives one word at a time gets the rows that it would get all at once."
    ),
    steps=[
        holds(what_comes_back, [SENTENCES]),
        like(package, [ONES, ROWS, SENTENCES]),
        is_added,
        holds(named_rows, [ROWS]),
        holds(first_differing_row, [ROWS]),
        holds(every_sentence_alike, [SENTENCES]),
        because(SHORT, like(package, [WORD_BY_WORD, TWO_FROM_5])),
        holds(word_by_word, [WORD_BY_WORD]),
        holds(counted_on, [TWO_FROM_5]),
        because(SHORT, holds(first_differing_row, [WORD_BY_WORD, TWO_FROM_5])),
        explains(ODD_ERROR, ODD),
        like(package, ODD),
        holds(odd_size, ODD),
        agrees(package, RANDOM, tolerance=1e-4),
        agrees(package, EMPTY),
        agrees(package, DOUBLE, tolerance=1e-4),
        gradient_comes_through,
    ],
    wrong=[
        Wrong(mistakes.encoding_alone, "returns the encoding alone"),
        Wrong(mistakes.encoding_alone_in_halves, "returns the encoding alone"),
        Wrong(mistakes.rows_without_a_batch, "Those are the rows alone"),
        Wrong(mistakes.appended, "The encoding is appended"),
        Wrong(mistakes.embedding_scaled, "multiply X by the root of d"),
        Wrong(mistakes.times_the_encoding, "you multiply X by the encoding"),
        Wrong(mistakes.scaled_encoding, "divide the encoding by the root"),
        Wrong(mistakes.rows_of(sines.in_halves), "all sines stand first"),
        Wrong(mistakes.rows_of(sines.cosine_first), "have changed places"),
        Wrong(mistakes.rows_of(sines.each_column_its_own), "a wavelength of its own"),
        Wrong(mistakes.rows_of(sines.half_the_exponent), "the exponent is j/d"),
        Wrong(mistakes.rows_of(sines.twice_the_exponent), "already doubled"),
        Wrong(mistakes.rows_of(sines.one_frequency), "equally fast"),
        Wrong(mistakes.rows_of(sines.multiplied), "not multiplied"),
        Wrong(mistakes.rows_of(sines.one_further), "the first token stands at position 0"),
        Wrong(mistakes.position_0_while_decoding, "the row of position 0: to each of them"),
        Wrong(mistakes.one_before, "one position too early"),
        Wrong(mistakes.one_behind, "one position too late"),
        Wrong(mistakes.all_at_the_offset, "All words get the row of the first"),
        Wrong(mistakes.offset_after_the_wavelength, "after the division"),
        Wrong(mistakes.rows_up_to_n, "Which rows are needed"),
        Wrong(mistakes.sentences_counted, "on axis 0 are the sentences"),
        Wrong(mistakes.first_sentence_only, "The first sentence is right"),
        Wrong(mistakes.sentences_run_on, "The first sentence is right"),
        Wrong(mistakes.book_without_odd_sizes, "right for an even d and stops"),
        Wrong(mistakes.last_sine_missing, "An odd size ends on a sine"),
        Wrong(mistakes.last_column_a_cosine, "An odd size ends on a sine"),
        Wrong(mistakes.odd_size_rounded_up, "with d itself"),
        Wrong(mistakes.written_into_the_input, "changes its input: `X`"),
        Wrong(mistakes.single_precision, "it should be float64"),
        Wrong(mistakes.gradient_cut_off, "no gradient reaches X"),
        Wrong(mistakes.without_return, "Is the `return` missing?"),
    ],
)
