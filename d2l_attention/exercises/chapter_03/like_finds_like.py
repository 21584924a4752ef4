"""3.7: weights by hand for the additive score."""

import torch
from torch import Tensor

from d2l_attention import additive_score
from d2l_attention.exercises.authoring import Exercise, heading, show

TOKENS = torch.tensor([[1.0, 1.0], [-1.0, 1.0]], dtype=torch.float64)
MARGIN = 0.01


def like_finds_like():
    """Weights `W_q` (h, 2), `W_k` (h, 2) and `w_v` (h,) under which like finds like.

    With h = 1 and all weights 1 the scores are [[1.00, 0.96], [0.96, 0.00]] (rows: queries 1 and
    -1; columns: keys 1 and -1). Query 1 prefers its own sign, query -1 does not.
    """
    ...


def like_finds_like_solution():
    # Both units see the sum of the two signs, 2, 0 or -2, moved by 1 up or down. Their
    # difference is largest in the middle, where the signs differ; w_v turns that over.
    W = torch.tensor([[1.0, 0.5], [1.0, -0.5]])
    return W, W, torch.tensor([-1.0, 1.0])


def like_does_not_find_like(attempt):
    given = attempt()
    if found := wrong_form(given):
        return found
    W_q, W_k, w_v = (weights.detach().cpu().double() for weights in given)
    scores = additive_score(TOKENS @ W_q.T, TOKENS @ W_k.T, w_v)
    own = (scores[0, 0] - scores[0, 1]).item(), (scores[1, 1] - scores[1, 0]).item()
    if min(own) >= MARGIN:
        return None
    table = f"(rows: queries 1 and -1; columns: keys 1 and -1) are {show(scores.tolist())}"
    return f"Your scores {table}. {why(W_q, W_k, w_v, *own)}"


def wrong_form(given):
    weights = given if isinstance(given, tuple | list) else [given]
    shapes = [tuple(each.shape) for each in weights if is_decimal(each)]
    if len(weights) == len(shapes) == 3 and shapes[2]:
        h = shapes[2][0]
        if h > 0 and shapes == [(h, 2), (h, 2), (h,)]:
            return None
    return (
        "Return three tensors of decimals, `return W_q, W_k, w_v`: `W_q` and `W_k` have a row for "
        "each hidden unit, a column for each of the two numbers in (x, 1), (h, 2); `w_v` has a "
        f"number for each hidden unit, (h,). The shapes of yours: {show(shapes)}."
    )


def is_decimal(given):
    return isinstance(given, Tensor) and given.is_floating_point() and given.isfinite().all()


def why(W_q, W_k, w_v, first, second):
    """``first`` and ``second``: by how much queries 1 and -1 score higher on their own sign."""
    if not (W_q[:, 1] + W_k[:, 1]).any():
        return (
            "No weights can do it in this way: the second columns of `W_q` and `W_k` are 0, or add "
            "up to 0, so the constant 1 never gets in. Then the score is odd: other signs for "
            "query and key, the other sign for the score. What does that say about the pairs (1, "
            "1) and (-1, -1)?"
        )
    units = torch.cat([W_q, W_k], dim=1)
    if (units == units[0]).all():
        return (
            "With a single hidden unit, or several that are all the same, both queries rank the "
            "keys alike: a tanh only rises or only falls when the key changes. It takes at least "
            "two units, moved apart by the constant."
        )
    if max(first, second) <= -MARGIN:
        return (
            "Each query scores higher on the key of the other sign: right, but upside down. What "
            "turns all large scores into small ones?"
        )
    return (
        "Each query should score higher on its own sign, by 0.01 at least. Let the units see the "
        "sum of the two signs, 2, 0 or -2: the score should be high at both ends and low in the "
        "middle. Draw two tanh curves, moved apart: what are their sum and their difference?"
    )


find_the_weights = Exercise(
    **heading("3.7", "Like finds like", "hard", minutes=20),
    section="A query that looks for something else",
    stub=like_finds_like,
    solution=like_finds_like_solution,
    explanation="tanh(s - 1) - tanh(s + 1) is -1.52 at s = 0, where the signs differ, and -0.23 at "
    "both ends. Without the constant the score is odd: a(-q, -k) = -a(q, k). If query 1 "
    "prefers key 1, a(1, 1) > a(1, -1); change all signs, and -a(-1, -1) > -a(-1, 1), so query "
    "-1 prefers key 1 as well.",
    hints=[
        "Give `W_q` and `W_k` first columns of 1. Then a unit sees the sum of the two signs: 2 "
        "or -2 for like, 0 for unlike. The score should be high at both ends.",
        "One tanh rises throughout. Two of them, moved apart by the constant and subtracted, "
        "make a bump or a dip.",
        "Sketch tanh(s + 1) and tanh(s - 1) over s = -2, 0, 2. Which difference is low in the "
        "middle?",
    ],
    steps=[like_does_not_find_like],
)
