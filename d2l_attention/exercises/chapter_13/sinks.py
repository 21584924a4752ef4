"""13.2: two more lines, so that gpt-oss runs: a sink for each head."""

import torch

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, instead_of, no_nan, normal


def attend_with_sinks(queries, keys, values, mask=None, sinks=None):
    """queries (B, H, Q, d), keys (B, H, K, d), values (B, H, K, v) -> outputs and weights.

    Outputs are (B, H, Q, v), weights (B, H, Q, K). mask is boolean, True = may attend. sinks (H,)
    are one more score of each row, the same for all queries of a head. Both may be None. The
    scores 0, 0 and the sink 0 give the weights 1/3, 1/3.
    """
    ...


def attend_with_sinks_solution(queries, keys, values, mask=None, sinks=None):
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    if sinks is not None:
        column = sinks[:, None, None].expand(*scores.shape[:-1], 1)  # (B, H, Q, 1)
        scores = torch.cat((scores, column), dim=-1)  # (B, H, Q, K + 1)
    weights = scores.softmax(dim=-1)[..., : keys.shape[2]]
    return weights @ values, weights


def random_case(seed, H, B, n, d, v):
    """A causal text of n tokens."""
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    queries, keys, values, sinks = normal(seed, (B, H, n, d), (B, H, n, d), (B, H, n, v), (H,))
    return queries, keys, values, mask, sinks


ONE = (
    torch.tensor([[[[2.0, 0, 0, 0]]]]),
    torch.tensor([[[[1.0, 0, 0, 0], [2, 0, 0, 0]]]]),  # scores 1 and 2
    torch.tensor([[[[4.0], [8]]]]),
    None,
    torch.tensor([3.0]),
)
PLAIN = *ONE[:4], None
MASKED = *ONE[:3], torch.tensor([[True, False]]), ONE[4]
EMPTY = *ONE[:3], torch.tensor([[False, False]]), ONE[4]
# As many queries as heads: a sink on the wrong axis fits.
TWO = (
    torch.zeros(1, 2, 2, 1),
    torch.zeros(1, 2, 2, 1),
    torch.tensor([[[[1.0], [2]], [[3], [5]]]]),
    None,
    torch.tensor([0.0, 2.0]),
)
SIZES = random_case(0, 3, 2, 5, 4, 7)
CAT, COLUMN = "torch.cat((scores, column), dim=-1)", "sinks[:, None, None]"
CUT = "[..., : keys.shape[2]]"

write_sinks = Exercise(
    **authoring.heading("13.2", "A softmax that keeps something back", "medium", minutes=12),
    section="Other architectures",
    hints=[
        "A sink is one more score of each row. It takes a share of the softmax, and this share "
        "meets no value.",
        "`torch.cat` puts a column of sinks, (B, H, Q, 1), after the scores. After the softmax "
        "the column is cut off.",
        "The column is `sinks[:, None, None].expand(B, H, Q, 1)`. It comes after the mask, so "
        "that the mask does not meet it. Nothing is divided after the cut.",
    ],
    stub=attend_with_sinks,
    solution=attend_with_sinks_solution,
    explanation="Only two lines and a cut are new, and with them gpt-oss runs on your function. A "
    "row of weights sums to one minus the share of the sink. A head that finds nothing can "
    "give its weight to the sink, and its output is then almost 0. A query that may see no key "
    "gets zeros, without a rule of its own, because the sink takes all.",
    cases=[
        Case(PLAIN),
        Case(ONE, because="Without sinks it was right. Here is a sink of 3."),
        Case(MASKED, because="Without a mask it was right. Here key 1 is hidden."),
        Case(EMPTY, because="Here all keys are hidden, and the sink takes all."),
        Case(TWO, because="Here are two heads and two queries, and each head has its own sink."),
        Case(SIZES, because="Here is a causal mask for 2 texts and 3 heads."),
        Case(authoring.in_dtype(SIZES, torch.float64)),
    ],
    mistakes=[
        *instead_of(
            CAT,
            {
                "torch.cat((scores, torch.zeros_like(column)), dim=-1)": "Your extra score is 0. "
                "It should be the sink of the head.",
                "torch.cat((scores, column / queries.shape[-1] ** 0.5), dim=-1)": "You divide the "
                "sink by the root of d. It is learned as it is.",
                "torch.cat((scores, column.exp()), dim=-1)": "You take the exponential of the "
                "sink. The softmax does this already.",
                "torch.cat((scores, column.log()), dim=-1)": "You take the logarithm of the sink. "
                "It is a score like the others.",
                "scores + column": "Your weights are those without a sink. Did you add the sink to "
                "all scores? That changes no weight: it is one more score, beside them. Or did you "
                "divide by the sum after the cut? Rows should sum to less than one.",
            },
        ),
        Mistake(
            {CUT: "[..., -keys.shape[2] :]"},
            "You cut off the first column. The sink is the last one in your scores.",
        ),
        *instead_of(
            COLUMN,
            {
                "sinks[:, None]": "Your sinks are on the axis of the queries. With as many "
                "queries as heads no error tells. A head's sink needs the shape (H, 1, 1).",
                "sinks[:1, None, None]": "All heads get the sink of the first one.",
                "sinks.mean()": "All heads get the mean of the sinks. Each has its own.",
            },
        ),
        *instead_of(
            "~mask",
            {
                "mask": "Your mask is read the wrong way: True means 'may attend'.",
                "~mask & False": "Your mask hides nothing.",
            },
        ),
        Mistake({" / queries.shape[-1] ** 0.5": ""}, "The division by the root of d is missing."),
        Mistake({"softmax(dim=-1)": "softmax(dim=-2)"}, "Your softmax runs over the queries."),
        Mistake({"weights @ values, weights": "weights, weights @ values"}, "Outputs come first."),
    ],
    shapes={None: "Return two results: outputs (B, H, Q, v) and weights (B, H, Q, K)."},
    errors={
        "cannot be multiplied": "The weights have a column too many for the values: cut the "
        "sink's off after the softmax.",
        "Expected size for first two dimensions": "The weights have a column too many for the "
        "values: cut the sink's off after the softmax.",
        "Tensors must have same number of dimensions": "`torch.cat` joins tensors of the same "
        "number of axes: the sinks become (B, H, Q, 1) first.",
        "Sizes of tensors must match": "The column of sinks needs the shape (B, H, Q, 1).",
        "must match the size": "The mask knows nothing of the sink's column. Hide first, and put "
        "the sink beside the scores afterwards.",
        "NoneType": "Mask and sinks may be `None`, each of them.",
    },
    rules=[lambda results, *_: no_nan(results[1])],
    steps=[authoring.gradients_flow("queries", "keys", "values", "sinks")],
)
