"""7.5: four bugs in ALiBi's bias. Small cases show them one at a time."""

import torch

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, heading, instead_of, show


def alibi_bias_solution(num_heads, num_queries, num_keys):
    slopes = 2.0 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)
    # The queries are the last of the tokens: the newest one stands at num_keys - 1.
    queries = torch.arange(num_keys - num_queries, num_keys)[:, None]
    keys = torch.arange(num_keys)
    bias = -slopes[:, None, None] * (queries - keys)
    return bias.masked_fill(keys > queries, -torch.inf)


COMMENT = "    # The queries are the last of the tokens: the newest one stands at num_keys - 1.\n"
HEADS, SLOPES = "torch.arange(1, num_heads + 1)", "2.0 ** (-8 * torch.arange(1, num_heads + 1)"
POSITIONS, DISTANCE = "torch.arange(num_keys - num_queries, num_keys)", "(queries - keys)"
OFF_BY_ONE = Mistake(
    {"keys > queries": "keys >= queries"},
    "No token sees itself, and the first sees nothing at all: its softmax is NaN. The mask is off "
    "by one: which of `>` and `>=` hides only the future?",
)
FROM_THE_OLDEST = Mistake(
    {COMMENT: "", POSITIONS: "torch.arange(num_queries)"},
    "There are fewer queries than keys here, as in decoding with a cache: the newest tokens ask. "
    "Your mask counts queries from position 0, as if the oldest did. The newest token should see "
    "all keys.",
)
SIGN = Mistake(
    {"-slopes": "slopes"},
    "Distant keys gain, near ones do not: the sign is wrong. Distance is a cost.",
)
FROM_0 = Mistake(
    {HEADS: "torch.arange(num_heads)"},
    "Your heads are counted from 0, so the first has the slope 1: the formula counts them from 1.",
)
AT_HOME = (
    "The last key is the query itself, at distance 0, and should cost nothing. Queries count from "
    "num_keys - num_queries, in the mask and in the distance."
)


def story(bias, num_heads, num_queries, num_keys):
    hidden = alibi_bias_solution(num_heads, num_queries, num_keys).isinf()
    if bias.isnan().any():
        return "Your bias holds NaN: 0 times infinity. Replace entries (`masked_fill`, `where`)."
    if (bias.isinf() & ~hidden).any():
        seen = show(~bias[0].isinf())
        return f"Your mask shows {seen}; the last query is the last token, and sees all keys."
    if (finite := bias[hidden & ~bias.isinf()]).numel():
        got = show(finite[0].item())
        return f"Hidden keys get {got}; they should get -inf, whose exponential is exactly 0."
    return None


def shapes(result, num_heads, num_queries, num_keys):
    return {
        (num_queries, num_keys): "There is no axis for the heads: each head has its own bias.",
        (num_heads, num_queries, num_keys): "(H, Q, K)",
    }


find_the_bugs = Exercise(
    **heading("7.5", "Far keys shout", "medium", minutes=12),
    section="ALiBi: pay for distance",
    stub=authoring.with_mistakes(
        alibi_bias_solution, FROM_0, FROM_THE_OLDEST, SIGN, OFF_BY_ONE, name="alibi_bias"
    ),
    solution=alibi_bias_solution,
    explanation="Heads were counted from 0, so the first had the slope 1, and the flattest slope "
    "was missing. Queries were counted from 0, which is right only where all tokens ask: a "
    "decoder that gives one token at a time asks from the end. The sign made far keys more "
    "attractive. And `>=` hid each token from itself, so the first had nothing to see.",
    hints=[
        "Print `alibi_bias(1, 3, 3)`: three tokens, all of them ask. Which keys should each see, "
        "and what should a key cost that is nearer than another?",
        "Print `alibi_bias(1, 1, 3)`, one step of a decoder: three tokens, the newest asks. At "
        "which position does it stand?",
        "For the slopes take `alibi_bias(2, 2, 2)`: 2^-4 and 2^-8. `torch.arange` begins at 0.",
    ],
    cases=[
        Case((1, 1, 1)),  # a single token shows the mask
        Case((1, 1, 3)),  # the newest token shows where queries stand, the sign, then the slope
        *(Case(sizes) for sizes in [(1, 3, 3), (1, 2, 5), (2, 2, 2), (8, 3, 5), (4, 4, 4)]),
    ],
    mistakes=[
        OFF_BY_ONE,
        FROM_THE_OLDEST,
        SIGN,
        FROM_0,
        *instead_of(
            "keys > queries",
            {
                "keys > queries + 1": "Each token sees the next one, which it is to predict. The "
                "mask is off by one.",
                "keys < queries": "Your mask is turned over: it hides the past.",
                "keys < 0": "No key is hidden: every token sees the future.",
            },
        ),
        *instead_of(
            POSITIONS,
            {
                "(torch.arange(num_queries) + max(num_keys - num_queries - 1, 0))": "Your queries "
                "stand one position too early. The last query is the last token: it sees all keys."
            },
        ),
        *instead_of(DISTANCE, {"(torch.arange(num_queries)[:, None] - keys)": AT_HOME}),
        *instead_of(
            f"{SLOPES} / num_heads)",
            {f"{SLOPES})": "The exponent is -8h/H: divide by the number of heads."},
        ),
    ],
    shapes=shapes,
    rules=[story],
    pairs=False,  # the cases show one bug at a time
)
