"""13.4: one new query meets a cache of keys, and the triangle begins in the wrong corner."""

import torch

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, heading, instead_of, normal


def attend_to_cache_solution(queries, keys, values):
    Q, K = queries.shape[-2], keys.shape[-2]
    past = torch.ones(Q, K, dtype=torch.bool, device=queries.device).tril(K - Q)
    attention = torch.nn.functional.scaled_dot_product_attention
    return attention(queries, keys, values, attn_mask=past)


TRIANGLE = (
    "    Q, K = queries.shape[-2], keys.shape[-2]\n"
    "    past = torch.ones(Q, K, dtype=torch.bool, device=queries.device).tril(K - Q)\n"
)
EARLY = (
    "Your queries are too early. The queries are the last tokens of the text, and `is_causal=True` "
    "takes them for the first: query 0 then sees key 0 only. Of Q queries and K keys, query 0 is "
    "token K - Q."
)
TOP_LEFT = Mistake({TRIANGLE: "", "attn_mask=past": "is_causal=True"}, EARLY)


def random_case(seed, B, H, Q, K, d):
    return normal(seed, (B, H, Q, d), (B, H, K, d), (B, H, K, d))


def means(Q, *numbers):
    """All scores are 0: each query gives the mean of the values that it sees."""
    values = torch.tensor(numbers).reshape(1, 1, -1, 1)
    return torch.zeros(1, 1, Q, 1), torch.zeros_like(values), values


PROMPT, ONE_NEW, TWO_NEW = means(3, 2.0, 4, 9), means(1, 2.0, 4, 9), means(2, 2.0, 4, 9, 1)
MORE = "All scores are 0 here, so a query gives the mean of the values that it sees."

repair_new_queries = Exercise(
    **heading("13.4", "The wrong corner", "medium", minutes=12),
    section="Put your own attention in",
    hints=[
        "Run it with all scores 0: each query then gives the mean of the values that it sees. "
        "Try 3 queries and 3 keys, then 1 query and 3 keys.",
        "`is_causal=True` is the mask `torch.ones(Q, K).tril()`. Print it for Q = 1 and K = 3. "
        "Which token of the text is this query?",
        "With Q queries at the end of K tokens, query i is token K - Q + i, and it sees the keys "
        "0 to K - Q + i. `tril` takes a number that moves the diagonal; hand the mask over as "
        "`attn_mask`.",
    ],
    stub=authoring.with_mistakes(attend_to_cache_solution, TOP_LEFT, name="attend_to_cache"),
    solution=attend_to_cache_solution,
    explanation="PyTorch's `is_causal` puts the triangle in the upper left corner. While the "
    "prompt is read there are as many queries as keys, and this is right. With a cache the "
    "queries are the last tokens, and the triangle belongs in the lower right corner. To leave "
    "the mask out for a single query is right, too, and it fails as soon as several new tokens "
    "come at once, as in chunked prefill and speculative decoding.",
    cases=[
        Case(PROMPT, because=f"Here are as many queries as keys, a whole prompt. {MORE}"),
        Case(ONE_NEW, because=f"Here one new query meets three keys. {MORE}"),
        Case(TWO_NEW, because=f"Here two new queries meet four keys. {MORE}"),
        Case(random_case(0, 2, 3, 5, 5, 4), because="Here is a whole prompt of 5 tokens."),
        Case(random_case(1, 2, 3, 1, 7, 4), because="Here one new query meets 7 keys."),
        Case(random_case(2, 3, 2, 4, 9, 5), because="Here four new queries meet 9 keys."),
        Case(authoring.in_dtype(random_case(3, 2, 2, 3, 8, 4), torch.float64)),
    ],
    mistakes=[
        Mistake(
            {TRIANGLE: "", "attn_mask=past": "is_causal=queries.shape[-2] > 1"},
            "For one new query it is right now. Several new ones at once still begin in the upper "
            "left corner: the first of them sees key 0 only.",
        ),
        Mistake(
            {TRIANGLE: "", "attn_mask=past": "is_causal=queries.shape[-2] == keys.shape[-2]"},
            "Your new queries have no mask where there are fewer queries than keys. For one it is "
            "right; of two, the first sees the second, which comes after it.",
        ),
        Mistake(
            {TRIANGLE: "", ", attn_mask=past": ""},
            "There is no mask any more: in a prompt the first token sees the last.",
        ),
        Mistake(
            {
                TRIANGLE: "    Q = queries.shape[-2]\n"
                "    keys, values = keys[..., -Q:, :], values[..., -Q:, :]\n",
                "attn_mask=past": "is_causal=True",
            },
            "You throw away the keys of the cache: a new query should see all tokens before it.",
        ),
        *instead_of(
            ".tril(K - Q)",
            {
                ".tril()": EARLY,  # as the untouched stub
                ".tril(Q - K)": "Your diagonal moves to the wrong side: K - Q, not Q - K.",
                ".tril(K - Q - 1)": "A token does not see itself. Query i is token K - Q + i, and "
                "sees this one, too.",
                ".tril(K - Q + 1)": "Each query sees one token too many: the one after itself.",
                ".triu(K - Q)": "Your triangle is the upper one: a query sees what comes after it.",
                ".tril(1 - Q)": "The diagonal moves by K - Q, from the upper left corner on.",
            },
        ),
        Mistake({"attn_mask=past": "attn_mask=~past"}, "True means 'may attend' here."),
        Mistake(
            {"dtype=torch.bool": "dtype=queries.dtype"},
            "Your mask is made of floats, and those are added to the scores. A boolean mask hides.",
        ),
    ],
    shapes={None: "One output for each query, (B, H, Q, d)."},
    errors={
        "is_causal": "Give either `attn_mask` or `is_causal`, not both.",
        "must match": "The mask has the shape (Q, K): a row for each query.",
        "broadcast shape": "The mask has the shape (Q, K): a row for each query.",
        "expanded size": "The mask has the shape (Q, K): a row for each query.",
    },
    steps=[authoring.gradients_flow("queries", "keys", "values")],
)
