"""6.3: cut the last axis into heads. Every number carries its place, so that it can be traced."""

from typing import Any

import torch
from torch import Tensor

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_06 import split_mistakes as mistakes
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.helpers import because
from d2l_attention.exercises.show import show
from d2l_attention.exercises.steps import explains, holds, like, unlike


def split_heads(X, num_heads): ...


def split_heads_solution(X, num_heads):
    batch, n, num_hiddens = X.shape
    # Cut the last axis, where no number moves; only then bring the heads before the tokens.
    return X.reshape(batch, n, num_heads, num_hiddens // num_heads).transpose(1, 2)


def by_columns(X: Tensor, num_heads: int) -> Tensor:
    return torch.stack(X.chunk(num_heads, dim=-1), dim=1)


def marked(batch: int, n: int, num_hiddens: int) -> Tensor:
    """Number 213 stands in sentence 2, token 1, column 3."""
    sentences, tokens, columns = (
        torch.arange(size, dtype=torch.float32) for size in (batch, n, num_hiddens)
    )
    return 100 * sentences[:, None, None] + 10 * tokens[:, None] + columns


SMALL = (marked(1, 3, 4), 2)
ALL_SIZES_DIFFER = (torch.zeros(2, 5, 21), 3)  # B = 2, n = 5, H = 3, D / H = 7
CASES = [
    (marked(1, 1, 2), 2),
    (marked(1, 3, 3), 1),
    SMALL,
    (marked(2, 3, 4), 2),
    (marked(3, 2, 9), 3),
    (marked(2, 5, 6), 3),
    (marked(5, 7, 6).double(), 2),
    (marked(3, 6, 5).transpose(1, 2), 2),  # not contiguous
]
ERRORS = {
    "stack expects each tensor": (
        "Your pieces are not all of one size. Did you cut the tokens instead of the columns? The "
        "columns are the last axis, `dim=-1`."
    ),
    "is invalid for input": (
        "The sizes that you ask for hold more or fewer numbers than there are. D becomes H times "
        "D / H; B and n stay."
    ),
    "float": "A size has to be a whole number: `/` gives a float, `//` does not.",
}


def heads_in_their_axis(result: Any, X: Tensor, num_heads: int) -> str | None:
    """On sizes that all differ, so that a shape tells its story."""
    if isinstance(result, list | tuple):
        return (
            f"Your function returned a {type(result).__name__} of {len(result)} pieces. One "
            "tensor with an axis for the heads is asked for: `torch.stack` makes one, and its "
            "`dim` says where the new axis stands."
        )
    if not isinstance(result, Tensor):
        return None  # the next step tells
    batch, n, num_hiddens = X.shape
    width = num_hiddens // num_heads
    shapes = {
        (batch, n, num_heads, width): (
            "The cut is right, but each token still holds its heads. Bring the heads' axis before "
            "the tokens' one."
        ),
        (batch, n, width, num_heads): (
            "The last axis counts the heads, and the tokens stand before them. Cut D into H pieces "
            "of D / H, in this order, then bring the heads' axis before the tokens' one."
        ),
        (batch, num_heads, width, n): (
            "The last two axes have changed places: a head's row should be a token, its columns "
            "D / H numbers."
        ),
        (num_heads, batch, n, width): "The sentences come first, then the heads.",
        (batch * num_heads, n, width): (
            "The heads are folded into the batch axis, as the book's `transpose_qkv` does. Here "
            "they get an axis of their own."
        ),
        (batch, num_heads, n, num_hiddens): (
            "Every head has got all D columns: copies, no cut. A head owns D / H of them."
        ),
        (batch, width, n, num_heads): (
            "You have made D / H heads that are H wide. `num_heads` is the number of pieces, not "
            "their size."
        ),
        (batch, n, width): "That is a single head. All of them are asked for.",
        (1, num_heads, n, width): "Only one sentence comes out: the first?",
        tuple(X.shape): "The shape is still that of X.",
    }
    if result.shape == (batch, num_heads, n, width):
        return None
    why = shapes.get(tuple(result.shape), "One D / H vector for each head and token.")
    wanted = f"(B, H, n, D / H) = {(batch, num_heads, n, width)}"
    return f"Your result has shape {tuple(result.shape)}; it should be {wanted}. {why}"


def every_number_in_its_place(result: Tensor, X: Tensor, num_heads: int) -> str | None:
    right = by_columns(X, num_heads)
    if torch.equal(result, right):
        return None
    sentence, head, token, _ = (result != right).nonzero()[0].tolist()
    return (
        f"Row [{sentence}, {head}, {token}] of your result is head {head}'s part of token {token} "
        f"of sentence {sentence}, and should be {show(right[sentence, head, token])}; yours is "
        f"{show(result[sentence, head, token])}. (A number's digits tell where it stood: 213 is "
        "sentence 2, token 1, column 3.)"
    )


def gradient_comes_through(attempt: Attempt) -> str | None:
    if attempt(marked(1, 3, 4).requires_grad_(), 2).requires_grad:
        return None
    return (
        "The numbers are right, but no gradient comes through: your result is made of new numbers "
        "(`torch.tensor(...)`, `tolist`, `detach`). The projections could not learn."
    )


write_split_heads = Exercise(
    id="6.3",
    title="Cut into heads",
    task=(
        "Complete `split_heads(X, num_heads)`: from (B, n, D) to (B, H, n, D / H). The first head "
        "gets the first D / H columns of every token, the second the next, and so on. `num_heads` "
        "divides D. To see where numbers go, mark them: `10 * token + column`."
    ),
    difficulty="easy",
    minutes=6,
    hints=[
        "Three tokens, four columns, two heads: write down what the first head should hold. Then "
        "print what your function makes of it.",
        "`reshape` never moves a number: it reads them in order, row by row, and fills the new "
        "shape in order. Which axis can be cut in two without moving anything?",
        "After the cut the axes are (B, n, H, D / H). `transpose` swaps two of them, and does "
        "move numbers.",
    ],
    stub=split_heads,
    solution=split_heads_solution,
    explanation=(
        "The columns of one token lie side by side, so D can be cut into H times D / H without "
        "moving a number. Then the heads' axis changes places with the tokens'. A `view` straight "
        "to (B, H, n, D / H) has the right shape and fills it with the first tokens first: a head "
        "gets some tokens whole, and the other heads never see them."
    ),
    steps=[
        explains(ERRORS, [SMALL, ALL_SIZES_DIFFER]),
        holds(heads_in_their_axis, [ALL_SIZES_DIFFER]),
        like(by_columns, [SMALL, ALL_SIZES_DIFFER]),
        *(unlike(mistake, why, SMALL) for mistake, why in mistakes.MISTAKES.items()),
        because(
            "For one small sentence your function is right, for other sizes it is not.",
            like(by_columns, CASES),
        ),
        holds(every_number_in_its_place, CASES),
        gradient_comes_through,
    ],
    wrong=[
        Wrong(mistakes.view_alone, "`view` or `reshape` alone"),
        Wrong(mistakes.transposed_then_reshaped, "a `reshape` after a `transpose`"),
        Wrong(mistakes.interleaved, "every second column"),
        Wrong(mistakes.last_head_first, "has the last columns"),
        Wrong(mistakes.first_columns_for_all, "the same columns"),
        Wrong(mistakes.without_transpose, "each token still holds its heads"),
        Wrong(mistakes.heads_last, "The last axis counts the heads"),
        Wrong(mistakes.wrong_axes_transposed, "The last two axes have changed places"),
        Wrong(mistakes.heads_first, "The sentences come first"),
        Wrong(mistakes.folded_into_the_batch, "folded into the batch axis"),
        Wrong(mistakes.copied, "copies, no cut"),
        Wrong(mistakes.pieces_of_that_size, "not their size"),
        Wrong(mistakes.pieces_in_a_list, "`torch.stack` makes one"),
        Wrong(mistakes.tokens_cut, "Did you cut the tokens"),
        Wrong(mistakes.batch_mixed_in, "Row [0, 0, 1]"),
        Wrong(mistakes.divided_to_a_float, "A size has to be a whole number"),
        Wrong(mistakes.one_sentence_only, "Only one sentence comes out"),
        Wrong(mistakes.numbers_copied_out, "no gradient comes through"),
        Wrong(mistakes.single_precision, "is float32; for these inputs it should be float64"),
        Wrong(mistakes.without_return, "Is the `return` missing?"),
    ],
)
