"""5.3: one step of additive attention, from the decoder's state to the context."""

import torch

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, in_dtype, instead_of, normal


def attention_step(hidden, states, valid_lens, W_q, W_k, w_v):
    """One look of `hidden` (B, D) at `states` (B, K, D): context (B, D) and weights (B, K).

    W_q and W_k (M, D) are stored as in `nn.Linear`, w_v is (M,), and valid_lens (B,) counts the
    words of each sentence, from 1 to K.

    If w_v is 0, all scores are 0: states [[[2, 4], [6, 8], [9, 9]]] and the length 2 give the
    context [[4, 6]] and the weights [[0.5, 0.5, 0]].
    """
    ...


def attention_step_solution(hidden, states, valid_lens, W_q, W_k, w_v):
    query, keys = hidden @ W_q.T, states @ W_k.T  # (B, M) and (B, K, M)
    # Without the axis in the middle the batch would line up with the source words.
    scores = torch.tanh(query[:, None] + keys) @ w_v  # (B, K)
    padding = torch.arange(states.shape[1]) >= valid_lens[:, None]
    weights = scores.masked_fill(padding, -torch.inf).softmax(dim=-1)
    return (weights[:, None] @ states)[:, 0], weights


def random_case(seed, lens, K, D, M):
    B = len(lens)
    hidden, states, *weights = normal(seed, (B, D), (B, K, D), (M, D), (M, D), (M,))
    return hidden, states, torch.tensor(lens), *weights


WEIGHTS = (
    torch.tensor([[1.0, 2], [0, 1]]),
    torch.tensor([[1.0, 0], [-1, 1]]),
    torch.tensor([2.0, -1]),
)
FIRST, SECOND = [[1.0, 0], [-1, 2], [0, 1]], [[0.0, 1], [1, 1], [2, 0]]
ONE = (torch.tensor([[1.0, 0]]), torch.tensor([FIRST]), torch.tensor([3]), *WEIGHTS)
# D = M, so that matrices may be mixed up; two words of padding, so that masks may be, too.
PADDED = (
    torch.tensor([[1.0, 0], [0, -1]]),
    torch.tensor([FIRST, SECOND]),
    torch.tensor([3, 1]),
    *WEIGHTS,
)
# Both words have the score -10,000, the padding +10,000.
LOW = (
    torch.tensor([[0.0]]),
    torch.tensor([[[20.0], [30], [-40]]]),
    torch.tensor([2]),
    *(torch.ones(1, 1), torch.ones(1, 1), torch.tensor([-1e4])),
)
UNEQUAL = "With M = D your function is right; with other sizes it is not."
BY_CHANCE = "There are as many sentences as source words. Which axes line up here by chance?"
LOW_SCORES = (
    "The words' scores are -10,000 here, and the padding's is 10,000. Hide it with `-torch.inf`, "
    "below any score, and leave the exponentials to `softmax`."
)


PROJECT, SUM = "hidden @ W_q.T, states @ W_k.T", "torch.tanh(query[:, None] + keys) @ w_v"
HIDDEN = "scores.masked_fill(padding, -torch.inf)"
RESULT = "(weights[:, None] @ states)[:, 0], weights"
TURNED = "Your mask is turned over: the words are hidden, the padding is visible."
OVER_THE_BATCH = (
    "The softmax runs over the batch: each column of your weights (B, K) sums to 1, so sentences "
    "compete with each other. Each row has to sum to 1: `dim=-1`."
)

write_attention_step = Exercise(
    **authoring.heading("5.3", "One step of attention", "medium", minutes=10),
    section="The decoder, line by line",
    stub=attention_step,
    solution=attention_step_solution,
    explanation="The decoder's state is the query, the encoder's states are keys and values. The "
    "axis of size 1 lets every query meet the words of its own sentence only. The softmax runs "
    "over the words, after the padding is hidden; there is no softmax over the batch, because "
    "sentences have nothing to say to each other.",
    hints=[
        "Write the shapes down, from (B, D) and (B, K, D) to (B, K) and the context (B, D). Who "
        "is the query, and what are the values?",
        "The projected query is (B, M), the keys are (B, K, M). `query[:, None]` is (B, 1, M): "
        "one query for all words of its own sentence.",
        "The padding's scores become `-torch.inf` before a softmax over the words. For the "
        "context, `weights[:, None] @ states` is (B, 1, D).",
    ],
    cases=[
        Case(ONE),
        Case(PADDED),
        *(
            Case(random_case(*sizes), UNEQUAL)
            for sizes in [(0, [5], 5, 7, 3), (1, [2, 4], 5, 3, 7)]
        ),
        *(
            Case(random_case(*sizes), BY_CHANCE)
            for sizes in [(3, [1, 2], 2, 2, 2), (2, [3, 1, 2], 3, 5, 2)]
        ),
        Case(in_dtype(random_case(4, [4, 3, 1], 6, 2, 5), torch.float64)),
        Case(LOW, LOW_SCORES),
    ],
    mistakes=[
        *instead_of(
            SUM,
            {
                "(query[:, None] + keys) @ w_v": "The tanh is missing. Without it a score is a "
                "number for the query plus one for the key, the query's cancels in the softmax, "
                "and every state of the decoder looks at the same word.",
                "torch.tanh((query[:, None] + keys) @ w_v)": "Your tanh stands outside: tanh(w_v · "
                "(...)). It belongs to the M hidden numbers, before w_v sums them up.",
                "(query[:, None] * keys).sum(dim=-1)": "Those are dot products of query and key. "
                "The additive score is w_v · tanh(W_q s + W_k h).",
            },
        ),
        *instead_of(
            PROJECT,
            {
                "hidden @ W_k.T, states @ W_q.T": "`W_q` and `W_k` are swapped. The decoder's "
                "state asks, so it goes through `W_q`; the encoder's states are the keys.",
                "hidden @ W_q, states @ W_k": "You multiply by `W_q` and `W_k` as they lie. They "
                "have the shape (M, D), as the weights of `nn.Linear`: W s is `hidden @ W.T` for "
                "rows.",
                "hidden, states": "`W_q` and `W_k` never get in: query and keys have to be "
                "projected before they are added.",
            },
        ),
        Mistake({HIDDEN: "scores.masked_fill(~padding, -1e6)"}, TURNED),
        *instead_of(
            RESULT,
            {
                "(weights[:, None] @ keys)[:, 0], weights": "Your weights are right, but the "
                "context averages the projected keys. The values are the encoder's states "
                "themselves.",
                "(weights[:, None] @ states)[:, 0]": "Your function returns one tensor. Return the "
                "weights, too: `return context, weights`.",
                "weights, (weights[:, None] @ states)[:, 0]": "The two results are swapped: first "
                "the context (B, D), then the weights (B, K).",
                "weights[:, None] @ states, weights": "Your first result has shape (B, 1, D). The "
                "axis of size 1 is that of the single query: take it away.",
            },
        ),
        Mistake(
            {
                f"{HIDDEN}.softmax(dim=-1)": "scores[..., None].softmax(dim=-1)",
                RESULT: "(weights * states).sum(dim=1), weights",
            },
            "All your weights are 1: the softmax runs over an axis of size 1. Your scores are "
            "(B, K, 1), so the source words stand on axis 1.",
        ),
        *instead_of(
            f"{HIDDEN}.softmax(dim=-1)",
            {
                "scores.masked_fill(padding, 0.0)": "You average with the scores as they are. They "
                "may be negative and sum to anything: the softmax, which makes weights of them, is "
                "missing.",
                f"{HIDDEN}.softmax(dim=0).nan_to_num()": OVER_THE_BATCH,
                "scores.softmax(dim=-1)": "The padding gets attention: where does `valid_lens` "
                "come in? Mask the scores, before the softmax.",
                "scores.softmax(dim=-1) * ~padding": "The padding's weights are gone, but the row "
                "no longer sums to 1: the padding took its share in the softmax. Mask the scores, "
                "before the softmax.",
                "(scores * ~padding).softmax(dim=-1)": "You gave the padding the score 0. The "
                "exponential of 0 is 1, so it still takes part. Which score has exponential 0?",
            },
        ),
        *instead_of(
            ">= valid_lens[:, None]",
            {
                "> valid_lens[:, None]": "The first padding behind the words gets attention: a "
                "length of 1 shows word 0 only.",
                "< valid_lens[:, None]": TURNED,
            },
        ),
    ],
    errors={
        "non-singleton dimension 1": "Queries (B, M) and keys (B, K, M) do not line up: axes are "
        "counted from the end, so the sentences of the one meet the source words of the other. "
        "The query needs an axis of size 1 for the words.",
        "non-singleton dimension 0": "Positions (K,) and lengths (B,) do not line up. Which of "
        "them has to become a column?",
    },
    steps=[authoring.gradients_flow(why="The weights could not learn.")],
)
