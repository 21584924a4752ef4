"""3.7: weights by hand for the additive score."""

from collections.abc import Callable

import torch
from torch import Tensor

from d2l_attention import additive_score
from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.exercise import Exercise, Step, Wrong
from d2l_attention.exercises.show import show

TOKENS = torch.tensor([[1.0, 1.0], [-1.0, 1.0]], dtype=torch.float64)
NAMES = ("W_q", "W_k", "w_v")
MARGIN = 0.01


def like_finds_like(): ...


def like_finds_like_solution():
    # Both units see the sum of the two signs, 2, 0 or -2, moved by 1 up or down. Their
    # difference is largest in the middle, where the signs differ; w_v turns that over.
    W = torch.tensor([[1.0, 0.5], [1.0, -0.5]])
    return W, W, torch.tensor([-1.0, 1.0])


def wrong_form(attempt: Attempt) -> str | None:
    given = attempt()
    if given is None:
        return "Your function returned `None`. Is the `return` missing?"
    if not isinstance(given, tuple | list) or len(given) != 3:
        return "Return three tensors: `return W_q, W_k, w_v`."
    for name, weights in zip(NAMES, given, strict=True):
        if not isinstance(weights, Tensor):
            return f"`{name}` is a {type(weights).__name__}; write `torch.tensor(...)` around it."
        if not weights.is_floating_point():
            return f"`{name}` holds whole numbers; tanh wants decimals: write 1.0 for 1."
        if not weights.isfinite().all():
            return f"`{name}` holds numbers that are infinite or NaN."
    return wrong_shapes(*given)


def wrong_shapes(W_q: Tensor, W_k: Tensor, w_v: Tensor) -> str | None:
    if w_v.ndim != 1:
        return (
            f"`w_v` has shape {tuple(w_v.shape)}; it is one row of numbers, (h,), a number for "
            "each hidden unit. It comes last: `return W_q, W_k, w_v`."
        )
    h = len(w_v)
    if h == 0:
        return "With h = 0 there is no hidden unit at all."
    for name, W in (("W_q", W_q), ("W_k", W_k)):
        if W.shape == (h, 2):
            continue
        if W.shape == (2, h):
            return (
                f"`{name}` has shape (2, {h}): it stands on its side. A row for each hidden unit, "
                "a column for each of the two numbers in (x, 1): (h, 2)."
            )
        return f"`{name}` has shape {tuple(W.shape)}; with h = {h} in `w_v` it should be ({h}, 2)."
    return None


Find = Callable[[Tensor, Tensor, Tensor, Tensor], str | None]


def where_it_fails(find: Find) -> Step:
    """A step that asks ``find(W_q, W_k, w_v, scores)`` what is wrong, and shows the scores."""

    def step(attempt: Attempt) -> str | None:
        W_q, W_k, w_v = (weights.detach().cpu().double() for weights in attempt())
        scores = additive_score(TOKENS @ W_q.T, TOKENS @ W_k.T, w_v)
        if min(preferences(scores)) >= MARGIN:
            return None
        table = f"(rows: queries 1 and -1; columns: keys 1 and -1) are {show(scores.tolist())}"
        found = find(W_q, W_k, w_v, scores)
        return f"Your scores {table}. {found}" if found else None

    return step


def preferences(scores: Tensor) -> tuple[float, float]:
    """By how much each query scores higher on its own sign than on the other."""
    return (scores[0, 0] - scores[0, 1]).item(), (scores[1, 1] - scores[1, 0]).item()


@where_it_fails
def nobody_is_heard(W_q: Tensor, W_k: Tensor, w_v: Tensor, scores: Tensor) -> str | None:
    if not w_v.any():
        return "All of `w_v` is 0."
    for name, W, who in (("W_q", W_q, "queries"), ("W_k", W_k, "keys")):
        if not W[:, 0].any():
            return (
                f"The first column of `{name}` is 0: the x of the {who} never gets in, so both "
                "look the same."
            )
    return None


@where_it_fails
def constant_unused(W_q: Tensor, W_k: Tensor, w_v: Tensor, scores: Tensor) -> str | None:
    if not W_q[:, 1].any() and not W_k[:, 1].any():
        how = "the second columns are 0, so the constant 1 never gets in"
    elif not (W_q[:, 1] + W_k[:, 1]).any():
        how = "the second columns of `W_q` and `W_k` add up to 0, so the constant cancels"
    else:
        return None
    return (
        f"No weights can do it in this way: {how}. Then the score is odd: other signs for query "
        "and key, the other sign for the score. What does that say about the pairs (1, 1) and "
        "(-1, -1)?"
    )


@where_it_fails
def one_unit(W_q: Tensor, W_k: Tensor, w_v: Tensor, scores: Tensor) -> str | None:
    units = torch.cat([W_q, W_k], dim=1)
    if len(units) == 1:
        count = "With a single hidden unit"
    elif (units == units[0]).all():
        count = "All your hidden units are the same, so together they are one, and with one"
    else:
        return None
    return (
        f"{count} both queries rank the keys alike: a tanh only rises or only falls when the key "
        "changes. It takes at least two units, moved apart by the constant."
    )


@where_it_fails
def upside_down(W_q: Tensor, W_k: Tensor, w_v: Tensor, scores: Tensor) -> str | None:
    if max(preferences(scores)) > -MARGIN:
        return None
    return (
        "Each query scores higher on the key of the other sign: right, but upside down. What "
        "turns all large scores into small ones?"
    )


@where_it_fails
def hardly_a_difference(W_q: Tensor, W_k: Tensor, w_v: Tensor, scores: Tensor) -> str | None:
    if max(map(abs, preferences(scores))) >= MARGIN:
        return None
    inside = (TOKENS @ W_q.T).unsqueeze(1) + (TOKENS @ W_k.T).unsqueeze(0)
    if inside.abs().min() > 3:
        return (
            "Your weights are so large that every tanh is at its end, 1 or -1, for every pair. "
            "The constant must leave it the middle for some."
        )
    return "That is hardly a difference: it should be at least 0.01 for each query."


@where_it_fails
def not_both(W_q: Tensor, W_k: Tensor, w_v: Tensor, scores: Tensor) -> str | None:
    first, second = preferences(scores)
    best, other = ("1", "-1") if first > second else ("-1", "1")
    who = f"Query {best} prefers its own sign, query {other} does not."
    if max(first, second) < MARGIN:
        who = "Neither query prefers its own sign by 0.01."
    return (
        f"{who} Let the units see the sum of the two signs, 2, 0 or -2: the score should be high "
        "at both ends and low in the middle. Draw two tanh curves, moved apart: what are their "
        "sum and their difference?"
    )


def ones():
    return torch.ones(2, 2), torch.ones(2, 2), torch.ones(2)


def constant_left_out():
    W = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [2.0, 0.0]])
    return W, W, torch.tensor([1.0, 1.0, -0.3])


def constant_cancels():
    W_q, W_k = torch.tensor([[1.0, 0.5], [1.0, -0.5]]), torch.tensor([[1.0, -0.5], [1.0, 0.5]])
    return W_q, W_k, torch.tensor([-1.0, 1.0])


def single_unit():
    return torch.tensor([[1.0, 0.5]]), torch.tensor([[1.0, 0.5]]), torch.tensor([1.0])


def other_sign():
    W = torch.tensor([[1.0, 0.5], [1.0, -0.5]])
    return W, W, torch.tensor([1.0, -1.0])


def identity():
    return torch.eye(2), torch.eye(2), torch.ones(2)


def one_side_only():
    W = torch.tensor([[1.0, 0.5], [1.0, -0.5]])
    return W, W, torch.tensor([1.0, 1.0])


def far_too_large():
    W = torch.tensor([[10.0, 50.0], [10.0, -50.0]])
    return W, W, torch.tensor([-1.0, 1.0])


def hardly_any():
    W = torch.tensor([[0.01, 0.5], [0.01, -0.5]])
    return W, W, torch.tensor([-1.0, 1.0])


def query_not_heard():
    W_q, W_k = torch.tensor([[0.0, 0.5], [0.0, -0.5]]), torch.tensor([[1.0, 0.5], [1.0, -0.5]])
    return W_q, W_k, torch.tensor([-1.0, 1.0])


def on_its_side():
    W = torch.tensor([[1.0, 1.0, 0.3], [0.5, -0.5, 0.1]])
    return W, W, torch.tensor([-1.0, 1.0, 0.0])


def w_v_as_a_column():
    W, _, w_v = like_finds_like_solution()
    return W, W, w_v[:, None]


def whole_numbers():
    W = torch.tensor([[2, 1], [2, -1]])
    return W, W, torch.tensor([-1, 1])


def lists():
    return [[1.0, 0.5], [1.0, -0.5]], [[1.0, 0.5], [1.0, -0.5]], [-1.0, 1.0]


def w_v_forgotten():
    W, _, _ = like_finds_like_solution()
    return W, W


find_the_weights = Exercise(
    id="3.7",
    title="Like finds like",
    task=(
        "Two tokens, x = 1 and x = -1, are each other's queries and keys, written (x, 1). Write "
        "`like_finds_like()` that returns `W_q` (h, 2), `W_k` (h, 2) and `w_v` (h,), with an h of "
        "your choice, so that under the additive score each query scores higher, by at least "
        "0.01, on the key of its own sign. Then say why no weights can do it without the "
        "constant 1."
    ),
    difficulty="hard",
    minutes=20,
    hints=[
        "Give `W_q` and `W_k` first columns of 1. Then a unit sees the sum of the two signs: 2 "
        "or -2 for like, 0 for unlike. The score should be high at both ends.",
        "One tanh rises throughout. Two of them, moved apart by the constant and subtracted, "
        "make a bump or a dip.",
        "Sketch tanh(s + 1) and tanh(s - 1) over s = -2, 0, 2. Which difference is low in the "
        "middle?",
    ],
    stub=like_finds_like,
    solution=like_finds_like_solution,
    explanation=(
        "tanh(s - 1) - tanh(s + 1) is -1.52 at s = 0, where the signs differ, and -0.23 at both "
        "ends. Without the constant the score is odd: a(-q, -k) = -a(q, k). If query 1 prefers "
        "key 1, a(1, 1) > a(1, -1); change all signs, and -a(-1, -1) > -a(-1, 1), so query -1 "
        "prefers key 1 as well."
    ),
    steps=[
        wrong_form,
        nobody_is_heard,
        constant_unused,
        one_unit,
        upside_down,
        hardly_a_difference,
        not_both,
    ],
    wrong=[
        Wrong(ones, "All your hidden units are the same"),
        Wrong(constant_left_out, "the constant 1 never gets in"),
        Wrong(constant_cancels, "so the constant cancels"),
        Wrong(single_unit, "With a single hidden unit"),
        Wrong(other_sign, "upside down"),
        Wrong(identity, "does not"),
        Wrong(one_side_only, "Query 1 prefers its own sign, query -1 does not"),
        Wrong(far_too_large, "every tanh is at its end"),
        Wrong(hardly_any, "at least 0.01"),
        Wrong(query_not_heard, "the x of the queries never gets in"),
        Wrong(on_its_side, "stands on its side"),
        Wrong(w_v_as_a_column, "it is one row of numbers"),
        Wrong(whole_numbers, "write 1.0 for 1"),
        Wrong(lists, "`W_q` is a list"),
        Wrong(w_v_forgotten, "Return three tensors"),
    ],
)
