"""7.5: four bugs in ALiBi's bias. Small cases show them one at a time."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from d2l_attention import ALiBi, causal_mask
from d2l_attention.exercises.chapter_07 import alibi_mistakes as mistakes
from d2l_attention.exercises.chapter_07.alibi_mistakes import alibi_with
from d2l_attention.exercises.exercise import Exercise, Wrong
from d2l_attention.exercises.show import show
from d2l_attention.exercises.steps import agrees, holds, like


def alibi_bias(num_heads, num_queries, num_keys):
    slopes = 2.0 ** (-8 * torch.arange(num_heads) / num_heads)
    queries = torch.arange(num_queries)[:, None]
    keys = torch.arange(num_keys)
    bias = slopes[:, None, None] * (queries - keys)
    return bias.masked_fill(keys >= queries, -torch.inf)


def alibi_bias_solution(num_heads, num_queries, num_keys):
    slopes = 2.0 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)
    # The queries are the last of the tokens: the newest one stands at num_keys - 1.
    queries = torch.arange(num_keys - num_queries, num_keys)[:, None]
    keys = torch.arange(num_keys)
    bias = -slopes[:, None, None] * (queries - keys)
    return bias.masked_fill(keys > queries, -torch.inf)


def package(num_heads: int, num_queries: int, num_keys: int) -> Tensor:
    offset = num_keys - num_queries
    visible = causal_mask(num_queries, num_keys, offset=offset)
    bias = ALiBi(num_heads).bias(num_queries, num_keys, offset=offset)
    return bias.masked_fill(~visible, -torch.inf)


SQUARE, NEWEST, LAST_TWO, TWO_HEADS = (1, 3, 3), (1, 1, 3), (1, 2, 5), (2, 2, 2)
CASES = [SQUARE, NEWEST, LAST_TWO, TWO_HEADS, (8, 3, 5), (4, 4, 4), (16, 1, 1), (2, 1, 7)]


def infinite_where_hidden(bias: Tensor, *sizes: int) -> str | None:
    if bias.isnan().any():
        return "Your bias holds NaN: 0 times infinity. Replace entries (`masked_fill`, `where`)."
    if bias.isinf().any() or not (bias < -100).any():
        return None
    return (
        f"Hidden keys get {show(bias.min().item())}; they should get -inf, whose exponential is "
        "exactly 0."
    )


def visible(bias: Tensor) -> Tensor:
    return ~bias[0].isinf()


def only_the_past(bias: Tensor, *sizes: int) -> str | None:
    """For as many queries as keys."""
    seen, whole = visible(bias), torch.ones_like(visible(bias))
    patterns = [
        (whole.tril(), None),
        (
            whole.tril(-1),
            "No token sees itself, and the first sees nothing at all: its softmax is NaN. The mask "
            "is off by one: which of `>` and `>=` hides the future alone?",
        ),
        (
            whole.tril(1),
            "Each token sees the next one, which it is to predict. The mask is off by one.",
        ),
        (whole.triu(), "The past is hidden, the future visible: your mask is turned over."),
        (whole.triu(1), "The past is hidden, the future visible: your mask is turned over."),
        (whole, "No key is hidden: every token sees the future."),
    ]
    for pattern, why in patterns:
        if torch.equal(seen, pattern):
            return why
    return f"Rows are queries; your mask shows them {show(seen)}. Query i sees keys 0 to i."


def newest_sees_all(bias: Tensor, num_heads: int, num_queries: int, num_keys: int) -> str | None:
    """For fewer queries than keys, where the square case went well."""
    seen = visible(bias)
    right = causal_mask(num_queries, num_keys, offset=num_keys - num_queries)
    if torch.equal(seen, right):
        return None
    if torch.equal(seen, causal_mask(num_queries, num_keys)):
        return (
            "There are fewer queries than keys here, as in decoding with a cache: the newest "
            "tokens ask. Your mask counts queries from position 0, as if the oldest did. The "
            "newest token should see all keys."
        )
    return f"Your mask shows {show(seen)}; the last query is the last token, and sees all keys."


def near_costs_least(bias: Tensor, num_heads: int, num_queries: int, num_keys: int) -> str | None:
    finite = bias[~bias.isinf()]
    # Adding 0 turns -0.0 into 0.0.
    shown = f"The newest query's bias is {show(bias[0, -1] + 0.0)}."
    if not finite.any() and num_keys > 1:
        return f"Distance costs nothing. {shown}"
    if bias[0, -1, -1] != 0:
        return (
            f"{shown} The last key is the query itself, at distance 0, and should cost nothing. "
            "Queries count from num_keys - num_queries, in the mask and in the distance."
        )
    if (finite > 0).any():
        return (
            f"{shown} Distant keys gain, near ones do not: the sign is wrong. Distance is a cost, "
            "taken from the score."
        )
    steps = bias[0, -1].diff()
    if not torch.allclose(steps, steps[:1].expand_as(steps), atol=1e-6):
        return f"{shown} Each step of distance should cost the same."
    return None


def right_slopes(bias: Tensor, num_heads: int, *sizes: int) -> str | None:
    """For two queries and two keys: the slope is the cost of one step."""
    slopes = -bias[:, 1, 0]
    if torch.allclose(slopes, ALiBi(num_heads).slopes, rtol=1e-3):
        return None
    for wrong, why in mistakes.SLOPES.items():
        if torch.allclose(slopes, wrong(num_heads), rtol=1e-3):
            return f"Your slopes are {show(slopes)}. {why}"
    return f"Your slopes are {show(slopes)}; {num_heads} heads have 2^-4 and 2^-8."


def remaining(*bugs: str) -> Callable[..., Any]:
    """The given code with only these of its bugs left."""
    parts = {
        "slopes": {"slopes": mistakes.from_0},
        "offset": {"first_query": lambda num_queries, num_keys: 0},
        "sign": {"sign": 1},
        "mask": {"hidden": lambda queries, keys: keys >= queries},
    }
    return alibi_with(**{name: part for bug in bugs for name, part in parts[bug].items()})


find_the_bugs = Exercise(
    id="7.5",
    title="Far keys shout",
    task=(
        "`alibi_bias(num_heads, num_queries, num_keys)` should give what ALiBi adds to the scores "
        "of causal self-attention, (H, Q, K). Of num_keys tokens the last num_queries ask. A key "
        "at distance n costs m times n; head h of H = 1, 2, 4, 8, ... heads, counted from 1, has "
        "the slope m = 2^(-8h/H). Keys that come after their query get -inf. There are four bugs. "
        "Mend them."
    ),
    difficulty="medium",
    minutes=12,
    hints=[
        "Print `alibi_bias(1, 3, 3)`: three tokens, all of them ask. Which keys should each see, "
        "and what should a key cost that is nearer than another?",
        "Print `alibi_bias(1, 1, 3)`, one step of a decoder: three tokens, the newest asks. At "
        "which position does it stand?",
        "For the slopes take `alibi_bias(2, 2, 2)`: 2^-4 and 2^-8. `torch.arange` begins at 0.",
    ],
    stub=alibi_bias,
    solution=alibi_bias_solution,
    explanation=(
        "Heads were counted from 0, so the first had the slope 1, and the flattest slope was "
        "missing. Queries were counted from 0, which is right only where all tokens ask: a decoder "
        "that gives one token at a time asks from the end. The sign made far keys "
        "more attractive. And `>=` hid each token from itself, so the first had nothing to see."
    ),
    steps=[
        like(package, [(2, 3, 3), LAST_TWO]),
        holds(infinite_where_hidden, [SQUARE]),
        holds(only_the_past, [SQUARE]),
        holds(newest_sees_all, [NEWEST, LAST_TWO]),
        holds(near_costs_least, [SQUARE, NEWEST, LAST_TWO]),
        holds(right_slopes, [TWO_HEADS]),
        agrees(package, CASES),
    ],
    wrong=[
        Wrong(remaining("mask", "offset", "sign"), "off by one: which of"),
        Wrong(remaining("mask"), "off by one: which of"),
        Wrong(remaining("offset", "sign", "slopes"), "counts queries from position 0"),
        Wrong(remaining("offset"), "counts queries from position 0"),
        Wrong(remaining("sign", "slopes"), "the sign is wrong"),
        Wrong(remaining("sign"), "the sign is wrong"),
        Wrong(remaining("slopes"), "heads are counted from 0"),
        Wrong(
            alibi_with(hidden=lambda queries, keys: keys > queries + 1), "Each token sees the next"
        ),
        Wrong(alibi_with(hidden=lambda queries, keys: keys < queries), "turned over"),
        Wrong(alibi_with(hidden=lambda queries, keys: keys < 0), "No key is hidden"),
        Wrong(alibi_with(first_query=lambda Q, K: K - Q + 1), "Each token sees the next"),
        Wrong(alibi_with(first_query=lambda Q, K: max(K - Q - 1, 0)), "Your mask shows"),
        Wrong(mistakes.offset_in_the_mask_alone, "in the mask and in the distance"),
        Wrong(mistakes.without_distance, "Distance costs nothing"),
        Wrong(mistakes.squared_distance, "should cost the same"),
        Wrong(mistakes.a_billion, "whose exponential is exactly 0"),
        Wrong(mistakes.infinity_times_0, "0 times infinity"),
        Wrong(alibi_with(slopes=mistakes.of_8_heads), "the slopes of 8 heads"),
        Wrong(alibi_with(slopes=mistakes.not_divided), "divide by the number of heads"),
        Wrong(alibi_with(slopes=mistakes.reversed_order), "the other way round"),
        Wrong(alibi_with(slopes=mistakes.growing), "Slopes above 1"),
        Wrong(alibi_with(slopes=mistakes.same_for_all), "All heads have one slope"),
        Wrong(mistakes.one_head_only, "it should be (2, 3, 3)"),
        Wrong(mistakes.without_return, "Is the `return` missing?"),
    ],
)
