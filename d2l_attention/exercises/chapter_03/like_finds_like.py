"""3.7: weights by hand for the additive score."""

import torch
from torch import Tensor

from d2l_attention import additive_score
from d2l_attention.exercises.authoring import Exercise, heading, show

TOKENS = torch.tensor([[1.0, 1.0], [-1.0, 1.0]], dtype=torch.float64)
MARGIN = 0.01


def like_finds_like():
    """Parameters `W_q` (h, 2), `W_k` (h, 2) and `w_v` (h,) under which like finds like.

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
    if not isinstance(given, tuple | list) or len(given) != 3:
        return "Return three tensors: `return W_q, W_k, w_v`."
    for name, weights in zip(("W_q", "W_k", "w_v"), given, strict=True):
        if not isinstance(weights, Tensor):
            return f"`{name}` is a {type(weights).__name__}; write `torch.tensor(...)` around it."
        if not weights.is_floating_point():
            return f"`{name}` holds whole numbers; tanh wants decimals: write 1.0 for 1."
        if not weights.isfinite().all():
            return f"`{name}` holds numbers that are infinite or NaN."
    if given[2].ndim != 1 or len(given[2]) == 0:
        return (
            f"`w_v` has shape {tuple(given[2].shape)}; it is one row of numbers, (h,), a number "
            "for each of one or more hidden units. It comes last: `return W_q, W_k, w_v`."
        )
    h = len(given[2])
    for name, W in (("W_q", given[0]), ("W_k", given[1])):
        if W.shape != (h, 2):
            side = "It is transposed: a" if W.shape == (2, h) else "A"
            return (
                f"`{name}` has shape {tuple(W.shape)}; with h = {h} in `w_v` it should be ({h}, 2)."
                f" {side} row for each hidden unit, a column for each of the two numbers in (x, 1)."
            )
    return None


def why(W_q, W_k, w_v, first, second):
    """``first`` and ``second``: by how much queries 1 and -1 score higher on their own sign."""
    if not w_v.any():
        return "All of `w_v` is 0."
    for name, W, who in (("W_q", W_q, "queries"), ("W_k", W_k, "keys")):
        if not W[:, 0].any():
            told = f"the x of the {who} never gets in, so both look the same."
            return f"The first column of `{name}` is 0: {told}"
    if not (W_q[:, 1] + W_k[:, 1]).any():
        how = "the second columns of `W_q` and `W_k` add up to 0, so the constant cancels"
        if not W_q[:, 1].any():
            how = "the second columns are 0, so the constant 1 never gets in"
        return (
            f"No weights can do it in this way: {how}. Then the score is odd: other signs for "
            "query and key, the other sign for the score. What does that say about the pairs "
            "(1, 1) and (-1, -1)?"
        )
    units = torch.cat([W_q, W_k], dim=1)
    if (units == units[0]).all():
        same = "All your hidden units are the same, so together they are one, and with one"
        return (
            f"{same if len(units) > 1 else 'With a single hidden unit'} both queries rank the "
            "keys alike: a tanh only rises or only falls when the key changes. It takes at least "
            "two units, moved apart by the constant."
        )
    if max(first, second) <= -MARGIN:
        return (
            "Each query scores higher on the key of the other sign: right, but upside down. What "
            "turns all large scores into small ones?"
        )
    if max(abs(first), abs(second)) < MARGIN:
        inside = (TOKENS @ W_q.T).unsqueeze(1) + (TOKENS @ W_k.T)
        if inside.abs().min() <= 3:
            return "That is hardly a difference: it should be at least 0.01 for each query."
        return (
            "Your weights are so large that every tanh is at its end, 1 or -1, for every pair. The "
            "constant must leave it the middle for some."
        )
    best, other = ("1", "-1") if first > second else ("-1", "1")
    missed = "does so by less than 0.01" if min(first, second) > 0 else "does not"
    who = f"Query {best} prefers its own sign, query {other} {missed}."
    return (
        f"{who if max(first, second) >= MARGIN else 'Neither prefers its own sign by 0.01.'} Let "
        "the units see the sum of the two signs, 2, 0 or -2: the score should be high at both ends "
        "and low in the middle. Draw two tanh curves, moved apart: what are their sum and their "
        "difference?"
    )


find_the_weights = Exercise(
    **heading("3.7", "Like finds like", "hard", minutes=20),
    section="A bilinear score for unlike pairs",
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
