"""9.4: query heads that read another group's keys, where no special case shows it."""

import torch

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, heading, instead_of, normal


def grouped_attention_solution(queries, keys, values):
    share = queries.shape[1] // keys.shape[1]
    # (0, 1) becomes (0, 0, 1, 1); `repeat` would give (0, 1, 0, 1).
    keys, values = (X.repeat_interleave(share, dim=1) for X in (keys, values))
    weights = (queries @ keys.mT / keys.shape[-1] ** 0.5).softmax(dim=-1)
    return weights @ values


COMMENT = "    # (0, 1) becomes (0, 0, 1, 1); `repeat` would give (0, 1, 0, 1).\n"
COPIES, ROOT = "X.repeat_interleave(share, dim=1)", " / keys.shape[-1] ** 0.5"
READ = (
    "Of 4 heads in 2 groups your query heads read the values of groups 0, 1, 0, 1; they should "
    "read those of 0, 0, 1, 1. Neighbours share: the first two belong to group 0."
)
REPEATED = Mistake({COMMENT: "", COPIES: "X.repeat(1, share, 1, 1)"}, READ)


def probes(H, G):
    """Each head gives the number of a group: of the one whose values, or whose keys, it reads."""
    numbers, queries = torch.arange(float(G)), torch.ones(1, H, 1, 1)
    whose_values = queries, torch.ones(1, G, 1, 1), numbers.reshape(1, G, 1, 1)
    keys = 200 * torch.eye(G)[None, ..., None]  # of group g only key g fits
    return whose_values, (queries, keys, numbers[:, None].repeat(1, G, 1, 1))


def random_case(H, G, B, Q, K, D, V):
    return normal(H + G, (B, H, Q, D), (B, G, K, D), (B, G, K, V))


LINE_UP = (
    "Heads of queries and of keys do not line up. Each of the G heads of keys and values is needed "
    "H / G times."
)
VALUES, KEYS = probes(4, 2)
OTHERS = [(4, 1, 2, 3, 5, 4, 7), (3, 3, 2, 3, 5, 4, 7), (6, 2, 6, 4, 1, 3, 5)]
OTHERS = [random_case(*sizes) for sizes in (*OTHERS, (12, 4, 3, 2, 6, 1, 2))]
MANY = "With four heads in two groups each head reads the right ones, here not."

mend_the_groups = Exercise(
    **heading("9.4", "In the wrong group", "easy", minutes=6),
    section="Let heads share keys",
    hints=[
        "Which is the smallest H and G that neither test covers? Which head of keys should each "
        "head of queries read there?",
        "Give it H = 4, G = 2, one key, and values that are the number of their group: "
        "`torch.tensor([0.0, 1.0]).reshape(1, 2, 1, 1)`. Each head then tells what it read.",
        "(0, 1) should become (0, 0, 1, 1), not (0, 1, 0, 1). For G = H and for G = 1 there is no "
        "difference. PyTorch has a function for each of the two.",
    ],
    stub=authoring.with_mistakes(grouped_attention_solution, REPEATED, name="grouped_attention"),
    solution=grouped_attention_solution,
    explanation="`repeat` lays copies of all groups one after the other, `repeat_interleave` puts "
    "the copies of a group beside each other. With one group, or one head a group, both are "
    "the same, so a test of the two special cases is blind. A model trained from the beginning "
    "would not mind, either: only weights that were learned under another order show it.",
    cases=[
        Case(random_case(1, 1, 1, 2, 2, 4, 1)),
        Case(VALUES, "Here each head gives the number of the group whose values it reads."),
        Case(KEYS, "Here each head gives the number of the group whose keys it reads."),
        *(Case(inputs, MANY) for inputs in OTHERS),
        Case(authoring.in_dtype(OTHERS[2], torch.float64)),
    ],
    mistakes=[
        *instead_of(
            COPIES,
            {
                "X.tile((share, 1, 1))": READ,  # as `repeat` does, which is the untouched stub
                "(X if share == 1 else X[:, :1])": "All heads read the first group.",
                "(X if share == 1 else X.flip(1).repeat_interleave(share, dim=1))": "The right "
                "groups in reverse order: the first heads read the last group.",
                "(X if share == 1 else X.mean(dim=1, keepdim=True))": "The groups are mixed: each "
                "head should read only its own, not a mean of all.",
            },
        ),
        Mistake({ROOT: ""}, "The division by the root of D is missing; it was right."),
        Mistake({"dim=-1": "dim=-2"}, "Your softmax runs over the queries. It was right: -1."),
    ],
    shapes={None: f"As many heads as the queries. {LINE_UP}"},
    errors={"must match the size of tensor": LINE_UP},
    steps=[authoring.gradients_flow("queries", "keys", "values")],
)
