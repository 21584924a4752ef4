"""6.3: cut the last axis into heads. Every number carries its place, so that it can be traced."""

import torch

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, gradients_flow, instead_of, show


def split_heads(X, num_heads):
    """Cut the last axis into heads: (B, n, D) -> (B, H, n, D / H).

    One sentence of two tokens, [[[1, 2, 3, 4], [5, 6, 7, 8]]], and two heads give
    [[[[1, 2], [5, 6]], [[3, 4], [7, 8]]]].
    """
    ...


def split_heads_solution(X, num_heads):
    batch, n, num_hiddens = X.shape
    # Cut the last axis, where no number moves; only then bring the heads before the tokens.
    return X.reshape(batch, n, num_heads, num_hiddens // num_heads).transpose(1, 2)


def marked(batch, n, num_hiddens):
    """Number 213 stands in sentence 2, token 1, column 3."""
    sentences, tokens, columns = (
        torch.arange(size, dtype=torch.float32) for size in (batch, n, num_hiddens)
    )
    return 100 * sentences[:, None, None] + 10 * tokens[:, None] + columns


def shapes(result, X, num_heads):
    batch, n, D = X.shape
    H, width = num_heads, D // num_heads
    return {
        None: "One D / H vector for each head and token.",
        (batch, n, D): "The shape is still that of X.",
        (batch, width, n, H): "You have made D / H heads that are H wide. `num_heads` is the "
        "number of pieces, not their size.",
        (batch, H, n, D): "Every head has got all D columns: copies, no cut.",
        (batch * H, n, width): "The heads are folded into the batch axis, as the book's "
        "`transpose_qkv` does. Here they get an axis of their own.",
        (batch, H, width, n): "The last two axes have changed places: a row should be a token.",
        (batch, n, width, H): "The last axis counts the heads. Cut D into H pieces of D / H, in "
        "this order, then bring the heads' axis before the tokens' one.",
        (batch, n, H, width): "The cut is right, but each token still holds its heads. Bring the "
        "heads' axis before the tokens' one.",
        (batch, H, n, width): "(B, H, n, D / H)",
    }


def every_number_in_its_place(result, X, num_heads):
    right = split_heads_solution(X, num_heads)
    sentence, head, token, _ = (result != right).nonzero()[0].tolist()
    return (
        f"Row [{sentence}, {head}, {token}] of your result is head {head}'s part of token {token} "
        f"of sentence {sentence}, and should be {show(right[sentence, head, token])}; yours is "
        f"{show(result[sentence, head, token])}. (A number's digits tell where it stood: 213 is "
        "sentence 2, token 1, column 3.)"
    )


OTHERS = [
    (marked(1, 1, 2), 2),
    (marked(2, 3, 4), 2),
    (marked(2, 5, 6), 3),
    (marked(5, 7, 6).double(), 2),
    (marked(3, 6, 5).transpose(1, 2), 2),  # not contiguous
]
OTHER_SIZES = "For one small sentence your function is right, for other sizes it is not."

write_split_heads = Exercise(
    **authoring.heading("6.3", "Cut into heads", "easy", minutes=6),
    section="All heads in one product",
    stub=split_heads,
    solution=split_heads_solution,
    explanation="The columns of one token lie side by side, so D can be cut into H times D / H "
    "without moving a number. Then the heads' axis changes places with the tokens'. A `view` "
    "straight to (B, H, n, D / H) has the right shape and fills it with the first tokens "
    "first: a head gets some tokens whole, and the other heads never see them.",
    hints=[
        "Three tokens, four columns, two heads: write down what the first head should hold. Then "
        "print what your function makes of it.",
        "`reshape` never moves a number: it reads them in order, row by row, and fills the new "
        "shape in order. Which axis can be cut in two without moving anything?",
        "After the cut the axes are (B, n, H, D / H). `transpose` swaps two of them, and does "
        "move numbers.",
    ],
    cases=[
        Case((torch.zeros(2, 5, 21), 3)),  # B = 2, n = 5, H = 3, D / H = 7: a shape tells its story
        Case((marked(1, 3, 4), 2)),
        *(Case(inputs, OTHER_SIZES) for inputs in OTHERS),
    ],
    mistakes=instead_of(
        "reshape(batch, n, num_heads, num_hiddens // num_heads).transpose(1, 2)",
        {
            "reshape(batch, num_heads, n, num_hiddens // num_heads)": "Your result has the right "
            "shape and the wrong numbers: the first head begins with the first token's first "
            "columns, then its next ones, as if they were another token. A `view` or `reshape` "
            "alone moves no number, it only refills the shape in the old order. Cut the last axis "
            "first, then swap two axes.",
            "mT.reshape(batch, num_heads, n, num_hiddens // num_heads)": "Each row of your result "
            "mixes several tokens: a `reshape` after a `transpose` reads the turned matrix, column "
            "by column. First cut the last axis, then transpose.",
            "unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)": "With two heads, your first one "
            "gets every second column: 0, 2, ... Its columns should be the first D / H: cut D into "
            "(H, D / H), in this order.",
        },
    ),
    shapes=shapes,
    errors={
        "stack expects each tensor": "Your pieces are not all of one size. Did you cut the tokens "
        "instead of the columns? The columns are the last axis, `dim=-1`.",
        "is invalid for input": "The sizes that you ask for hold more or fewer numbers than there "
        "are. D becomes H times D / H; B and n stay.",
        "float": "A size has to be a whole number: `/` gives a float, `//` does not.",
    },
    rules=[every_number_in_its_place],
    steps=[gradients_flow("X", why="The projections could not learn.")],
)
