"""13.1: the attention of a real model: heads in groups, and a mask that may be missing."""

import torch

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, in_dtype, instead_of, normal


def attend_in_groups(queries, keys, values, mask=None):
    """queries (B, H, Q, d), keys (B, G, K, d), values (B, G, K, v) -> outputs (B, H, Q, v).

    mask is None or boolean, broadcastable to (B, H, Q, K), True = may attend. H is a multiple of
    G. With H = 4 and G = 2 the query heads 0 and 1 read group 0, the heads 2 and 3 read group 1.
    """
    ...


def attend_in_groups_solution(queries, keys, values, mask=None):
    share = queries.shape[1] // keys.shape[1]
    keys = keys.repeat_interleave(share, dim=1)  # (B, H, K, d)
    values = values.repeat_interleave(share, dim=1)  # (B, H, K, v)
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(dim=-1) @ values


def random_case(seed, H, G, B, n, d, v):
    """A causal text of n tokens."""
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    return *normal(seed, (B, H, n, d), (B, G, n, d), (B, G, n, v)), mask


ONE_HEAD = (
    torch.tensor([[[[2.0, 0], [0, 2]]]]),
    torch.tensor([[[[1.0, 0], [3, 1]]]]),
    torch.tensor([[[[4.0, 2], [8, 6]]]]),
    torch.tensor([[True, False], [True, True]]),
)
NO_MASK = *ONE_HEAD[:3], None
# One key: its weight is 1, so each head gives the value that it reads.
GROUPS = (
    torch.ones(1, 4, 1, 1),
    torch.ones(1, 2, 1, 1),
    torch.tensor([5.0, 7.0]).reshape(1, 2, 1, 1),
    None,
)
# Equal values: each head gives the number of the group whose key it finds.
KEYS = (
    torch.ones(1, 4, 1, 1),
    torch.tensor([[50.0, 0], [0, 50]]).reshape(1, 2, 2, 1),
    torch.tensor([[5.0, 7.0], [5.0, 7.0]]).reshape(1, 2, 2, 1),
    None,
)
SIZES = random_case(0, 6, 2, 3, 5, 4, 7)
LENGTHS = *SIZES[:3], torch.arange(5) < torch.tensor([2, 5, 3])[:, None, None, None]
FILL, KEY_COPIES = "masked_fill(~mask, -torch.inf)", "keys.repeat_interleave(share, dim=1)"
VALUE_COPIES = "values.repeat_interleave(share, dim=1)"

write_groups = Exercise(
    **authoring.heading("13.1", "Your attention, in groups", "easy", minutes=10),
    section="Put your own attention in",
    hints=[
        "Attention as in chapter 3, with the mask of chapter 4. Only one thing is new: keys and "
        "values have G heads, and the queries have H.",
        "How many query heads share a group? Copy each head of keys and of values so many times, "
        "such that the copies of a group are neighbours.",
        "`keys.repeat_interleave(H // G, dim=1)` makes the heads 0, 0, 1, 1 of the heads 0, 1. "
        "Hidden scores become -inf before the softmax, and only where there is a mask.",
    ],
    stub=attend_in_groups,
    solution=attend_in_groups_solution,
    explanation="This is all that a Llama or a Qwen needs from an attention function. The library "
    "calls it once in each layer, and hands over the queries and keys after they were rotated. "
    "`use_attention` copies the groups before it calls your function. This one does it itself, "
    "so it can be used where nobody copies them.",
    cases=[
        Case(NO_MASK),
        Case(ONE_HEAD, because="Without a mask it was right. Here query 0 may not see key 1."),
        Case(GROUPS, because="Here 4 query heads share 2 groups, and there is one key."),
        Case(KEYS, because="Here 4 query heads share 2 groups of two keys."),
        Case(SIZES, because="Here is a causal mask for 3 texts, 6 heads and 2 groups."),
        Case(LENGTHS, because="Here each text has a length of its own, mask (B, 1, 1, K)."),
        Case(in_dtype(SIZES, torch.float64)),
    ],
    mistakes=[
        *instead_of(
            " / queries.shape[-1] ** 0.5", {"": "The division by the root of d is missing."}
        ),
        *instead_of(
            FILL,
            {
                "masked_fill(mask, -torch.inf)": "Your mask is read the wrong way: you hide what "
                "may be seen. True means 'may attend'.",
                "masked_fill(~mask, 0.0)": "A score of 0 is not a weight of 0: e^0 is 1. A hidden "
                "score has to be -inf.",
                "masked_fill(~mask.mT, -torch.inf)": "Your mask is transposed: its rows belong to "
                "the queries.",
                "masked_fill(~mask, -torch.inf) + ~mask * -torch.inf": "Your row is NaN: 0 times "
                "-inf is NaN, wherever the mask is True. `masked_fill` does not multiply.",
                "softmax(dim=-1) * mask": "You hide after a softmax: hidden keys have then "
                "taken their share.",
                "masked_fill(~mask & False, -torch.inf)": "Your mask hides nothing. `masked_fill` "
                "returns a new tensor: keep what it returns.",
            },
        ),
        *instead_of(
            VALUE_COPIES,
            {
                "values.repeat(1, share, 1, 1)": "Your heads read the values of groups 0, 1, 0, 1. "
                "They should read 0, 0, 1, 1: copies of a group are neighbours."
            },
        ),
        *instead_of(
            KEY_COPIES,
            {
                "keys.repeat(1, share, 1, 1)": "Your heads meet the keys of groups 0, 1, 0, 1. "
                "They should meet 0, 0, 1, 1: copies of a group are neighbours."
            },
        ),
        Mistake(
            {
                KEY_COPIES: "keys.repeat(1, share, 1, 1)",
                VALUE_COPIES: "values.repeat(1, share, 1, 1)",
            },
            "Your heads read the groups 0, 1, 0, 1. They should read 0, 0, 1, 1: the copies of a "
            "group are neighbours, and `repeat_interleave` puts them so.",
        ),
        Mistake({"dim=-1)": "dim=-2)"}, "Your softmax runs over the queries, not the keys."),
        Mistake({".softmax(dim=-1)": ""}, "The softmax is missing."),
    ],
    shapes={None: "One output for each query head and query, (B, H, Q, v)."},
    errors={
        "must match": "The heads do not line up: G heads of keys beside H heads of queries. Each "
        "group is needed H / G times.",
        "NoneType": "The mask may be `None`: then everything may be seen.",
    },
    steps=[authoring.gradients_flow("queries", "keys", "values")],
)
