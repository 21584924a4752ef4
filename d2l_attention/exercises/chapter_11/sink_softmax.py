"""11.4: a softmax with a sink, right on what was tried, with three bugs."""

import torch

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, heading, instead_of, normal


def attend_with_sink_solution(scores, values, sinks):
    sinks = sinks[:, None, None]  # (H, 1, 1)
    maximum = torch.maximum(scores.amax(dim=-1, keepdim=True), sinks)
    weights = (scores - maximum).exp()
    total = weights.sum(dim=-1, keepdim=True) + (sinks - maximum).exp()
    return weights / total @ values


HEADS = Mistake(
    {"sinks[:, None, None]  # (H, 1, 1)": "sinks[:, None]"},
    "The sinks meet the wrong axis: (H, 1) beside (H, Q, 1) gives each *query* a sink. With as "
    "many queries as heads no error tells. A head's sink needs the shape (H, 1, 1).",
)
SHIFT = Mistake(
    {"(sinks - maximum).exp()": "sinks.exp()"},
    "The maximum is taken from the scores and not from the sink. Both belong to one sum, so both "
    "must be measured from the same maximum.",
)
ONLY_SCORES = Mistake(
    {"torch.maximum(scores.amax(dim=-1, keepdim=True), sinks)": "scores.amax(-1, keepdim=True)"},
    "A row in which all scores are -inf gives NaN: -inf minus -inf. The sink is a score like the "
    "others, and the maximum has to know it.",
)


def random_case(seed, H, Q, K, V):
    return normal(seed, (H, Q, K), (H, K, V), (H,))


ONE = torch.tensor([[[2.0, 1.0]]]), torch.tensor([[[4.0], [8.0]]]), torch.tensor([0.5])
EMPTY = torch.full((1, 1, 2), -torch.inf), ONE[1], ONE[2]
TWO = (
    torch.tensor([[[3.0, 1.0], [2.0, 0.0]], [[1.0, 3.0], [2.5, 0.0]]]),
    torch.tensor([[[1.0], [2.0]], [[3.0], [5.0]]]),
    torch.tensor([0.0, 2.0]),
)
LARGE = ONE[0] * 500, ONE[1], torch.tensor([999.0])
OTHERS = random_case(0, 3, 4, 5, 7)

repair_sink_softmax = Exercise(
    **heading("11.4", "A leaking sink", "medium", minutes=12),
    section="A sink of its own",
    pairs=False,
    hints=[
        "Take one head, one query and the scores 2 and 1. Work out the weights by hand from the "
        "formula, and print what the code makes of each line.",
        "What becomes of a row that may see nothing, where all scores are -inf? It should be 0.",
        "Write the shape behind each line for H = 2 heads and Q = 3 queries.",
    ],
    stub=authoring.with_mistakes(
        attend_with_sink_solution, HEADS, SHIFT, ONLY_SCORES, name="attend_with_sink"
    ),
    solution=attend_with_sink_solution,
    explanation="The sink is one score more of every row. So it takes part in the maximum, it is "
    "measured from the maximum, and it has a head's axis. The first bug is hidden where no row "
    "is empty, the second where the maximum is 0, the third where there is one head.",
    cases=[
        Case(ONE),
        Case(EMPTY, because="Here a query may see nothing, and its answer should be 0."),
        Case(TWO, because="Here are two heads and two queries, and each head has its own sink."),
        Case(OTHERS, because="Here are three heads and four queries."),
        Case(LARGE, because="Here the scores and the sink are large."),
        Case(authoring.in_dtype(OTHERS, torch.float64)),
    ],
    mistakes=[
        SHIFT,
        ONLY_SCORES,
        HEADS,
        *instead_of(
            " + (sinks - maximum).exp()",
            {"": "The sink is missing from the sum: this is the plain softmax."},
        ),
        Mistake(
            {"dim=-1, keepdim=True) + ": "dim=-2, keepdim=True) + "},
            "Your sum runs over the queries. It was right: over the keys, the last axis.",
        ),
    ],
    shapes={None: "One answer for each head and query, (H, Q, V)."},
    errors={"must match the size": "The sinks do not line up: (H, 1, 1) fits beside (H, Q, K)."},
    steps=[authoring.gradients_flow("scores", "values", "sinks")],
)
