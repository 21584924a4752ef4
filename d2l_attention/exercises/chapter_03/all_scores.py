"""3.2: keys cut anew instead of turned, so that the shape is right and the scores are not."""

import torch

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, heading, instead_of, normal


def all_scores_solution(queries, keys):
    """Dot product of every query with every key: (*, Q, D), (*, K, D) -> (*, Q, K).

    The queries [[1, 2], [0, 1]] and keys [[1, 1], [3, 4]] give [[3, 11], [1, 4]].
    """
    scores = queries @ keys.transpose(-2, -1)  # (*, Q, D) times (*, D, K)
    return scores


PRODUCT = "queries @ keys.transpose(-2, -1)"
GIVEN = Mistake(
    {
        f"    scores = {PRODUCT}": "    *leading, K, D = keys.shape\n"
        "    turned = keys.reshape(*leading, D, K)\n"
        "    scores = queries @ turned"
    },
    "",
)
PAIRS = (
    "That is one score per query, that of query i with key i. But query 0 also meets key 1: 2 "
    "queries and 2 keys make 4 scores."
)
COPIED = "The shape is right, but your scores are those of query i with key i, copied."
INSTEAD = {
    "queries @ keys.reshape(*keys.shape[:-2], keys.shape[-1], keys.shape[-2])": "The numbers of "
    "your keys are still in their old order, cut into rows of another length. Column j of the "
    "second matrix has to be key j: exchange the two axes of `keys`.",
    "(queries * keys).sum(dim=-1)": PAIRS,
    "(queries * keys).sum(dim=-1, keepdim=True)": PAIRS,
    "torch.diag_embed((queries * keys).sum(-1))": "Your scores are 0 off the diagonal: query 0 "
    "never met key 1. Every query has to meet every key.",
    "(queries * keys).sum(-1, keepdim=True).expand(-1, len(keys))": COPIED,
    "(queries * keys).sum(-1).expand(len(queries), -1)": COPIED,
    "keys @ queries.transpose(-2, -1)": "Your scores have a row for each key and a column for "
    "each query; the task asks for the other way round, (Q, K).",
    "queries @ keys": "It is a matrix product, but your entry [0, 0] is query 0 times the keys' "
    "first column, which holds the first numbers of all keys. A key is a row.",
    "queries * keys.transpose(-2, -1)": "`*` still multiplies entry by entry, whether the keys "
    "are transposed or not. A score is a sum of D products.",
    "queries.transpose(-2, -1) @ keys": "You transposed the queries: your entry [0, 0] sums over "
    "the tokens. A score sums over the D numbers of one query and one key.",
    "torch.cosine_similarity(queries.unsqueeze(-2), keys.unsqueeze(-3), dim=-1)": "All pairs are "
    "there, but these are cosines, divided by both norms. The task asks for plain dot products.",
    f"{PRODUCT} / queries.shape[-1] ** 0.5": "All pairs are there, but you also divide by √D. "
    "The task asks for plain dot products.",
    f"({PRODUCT}).softmax(dim=-1)": "All pairs are there, but you also take the softmax. The task "
    "asks for the scores.",
}
ONE_SENTENCE = (
    "Your function may be right for a batch of sentences, but it is not for a single one, (Q, D). "
    "The `*` in (*, Q, D) stands for any leading axes, or none; `@` takes them all."
)
BATCH = (
    "For one sentence your scores are right, for a batch they are not. Every sentence needs its "
    "own product, so count axes from the end (-1, -2): the sentences come before them."
)
SQUARE = (torch.tensor([[1.0, 2.0], [0.0, 1.0]]), torch.tensor([[1.0, 1.0], [3.0, 4.0]]))
TWO_SENTENCES = (
    torch.tensor([[[2.0, 1.0]], [[0.0, 1.0]]]),
    torch.tensor([[[1.0, 1], [0, 4], [5, -2]], [[1.0, 2], [3, 0], [0, 1]]]),
)
BATCHES = [
    TWO_SENTENCES,
    normal(0, (2, 3, 5), (2, 7, 5)),
    normal(1, (2, 3, 5, 7), (2, 3, 11, 7)),
    normal(2, (3, 3, 3), (3, 3, 3)),
    authoring.in_dtype(TWO_SENTENCES, torch.float64),
]


def shapes(result, queries, keys):
    (*batch, Q, D), K = queries.shape, keys.shape[-2]
    return {
        (*batch, Q): f"Those are {Q} scores. {Q} queries that meet {K} keys make {Q * K}.",
        (*batch, Q, K, D): "Every query meets every key now, but there is still an axis for the D "
        "single products: a score is one number, their sum.",
        (*batch, Q, K): "(*, Q, K)",
    }


repair_the_scores = Exercise(
    **heading("3.2", "Who meets whom?", "easy", minutes=5),
    section="A batch at once",
    stub=authoring.with_mistakes(all_scores_solution, GIVEN, name="all_scores"),
    solution=all_scores_solution,
    explanation="`reshape` keeps the order of the numbers in memory and cuts it into rows of "
    "another length, so that a column holds numbers of several keys. `transpose(-2, -1)` "
    "exchanges the two axes, so that column j is key j, and leaves the leading axes where they "
    "are. Because both give the shape (*, D, K), a test of shapes cannot tell them apart. They "
    "agree only where K = 1 or D = 1, or by luck.",
    hints=[
        "Take the keys [[1, 1], [3, 4]] and write down `turned`. A matrix product multiplies rows "
        "by columns: which numbers does query 0 meet in column 0?",
        "Column 0 of `turned` should be key 0, (1, 1). `reshape` does not move any number.",
        "Which function of a tensor exchanges two axes, and which two should it be, counted from "
        "the end?",
    ],
    cases=[
        Case(SQUARE),
        Case(
            (SQUARE[0], torch.tensor([[1.0, 1.0], [3.0, 4.0], [5.0, 6.0]])),
            because="With as many queries as keys your scores are right, but with 2 queries and 3 "
            "keys they are not. Something in your code counts on Q = K.",
        ),
        *(Case(inputs, BATCH) for inputs in BATCHES),
    ],
    mistakes=instead_of(PRODUCT, INSTEAD),
    shapes=shapes,
    errors=dict.fromkeys(["out of range", "be a 3D tensor", "number of dimen"], ONE_SENTENCE),
    steps=[
        authoring.gradients_flow(
            why="Without them a model cannot learn what to ask for and what to offer."
        )
    ],
)
