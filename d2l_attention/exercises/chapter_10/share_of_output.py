"""10.7: what one of P processes computes of multi-head attention."""

import torch
from torch import Tensor

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, in_dtype, instead_of, normal


def share_of_output(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    """The share (B, n, D) of process `rank`, from X (B, n, D), the W (D, D) and b_o (D,).

    One token X = [[[2, 4]]], identity matrices, b_o = [1, 1], two heads and two processes:
    process 0 gives [[[3, 1]]], process 1 [[[0, 4]]]. The sum is [[[3, 5]]]. (b_o may be
    shared in another way: only the sum is asked for.)
    """
    ...


def share_of_output_solution(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    width = W_q.shape[1] // num_processes  # H / P whole heads
    mine = slice(rank * width, (rank + 1) * width)
    projected = (X @ W[:, mine] for W in (W_q, W_k, W_v))
    heads = num_heads // num_processes
    # (B, n, D / P) -> (B, n, H / P, D / H) -> (B, H / P, n, D / H)
    queries, keys, values = (Y.unflatten(-1, (heads, -1)).transpose(1, 2) for Y in projected)
    weights = (queries @ keys.mT / queries.shape[-1] ** 0.5).softmax(dim=-1)
    output = (weights @ values).transpose(1, 2).flatten(start_dim=2) @ W_o[mine]
    return output + b_o if rank == 0 else output


def added_up(share_of_output, X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    """The sum over all ranks; ``rank`` is a list of them. Of a wrong form: the first such share."""
    given = X, W_q, W_k, W_v, W_o, b_o, num_heads
    shares = [share_of_output(*given, each, num_processes) for each in rank]
    for share in shares:
        if not isinstance(share, Tensor) or (share.shape, share.dtype) != (X.shape, X.dtype):
            return share
    return sum(shares)


def shapes(share, X, *others):
    (batch, n, D), P = X.shape, others[-1]
    return {
        (batch, n, D // P): "Multiply your heads by your rows of W_o, and you have D numbers a "
        "token: a share of every column of the output. Shares are added, not put side by side.",
        (batch, n // P, D): "You cut the sequence. Here each process has all tokens.",
        (batch // P, n, D): "You cut the batch. Here each process has all sentences.",
        (batch, n, D): "(B, n, D)",
    }


def fair_shares(attempt):
    """What belongs to other processes is NaN here, and must not show, nor in the gradient of X."""
    X, *matrices, b_o, num_heads, ranks, num_processes = FOUR_PROCESSES
    for rank in ranks:
        others = torch.arange(X.shape[-1]) // (X.shape[-1] // num_processes) != rank
        W_q, W_k, W_v = (W.masked_fill(others, torch.nan) for W in matrices[:3])
        W_o = matrices[3].masked_fill(others[:, None], torch.nan)
        leaf = X.clone().requires_grad_()
        share = attempt(leaf, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes)
        gradient = torch.autograd.grad(share.sum(), leaf)[0]  # NaN if NaN is thrown away
        if share.isnan().any() or gradient.isnan().any():
            return (
                f"The shares add up to the right output, but process {rank} uses columns or rows "
                "of other processes, or multiplies by whole matrices and throws most of it away. "
                "Cut them first: a process holds no more than its share of them."
            )
    return None


def group(seed, P, H, D, B, n):
    X, *matrices, b_o = normal(seed, (B, n, D), *[(D, D)] * 4, (D,))
    # Scores of usual size: in a saturated softmax every rounding shows.
    return (X, *(W / D**0.5 for W in matrices), b_o, H, list(range(P)), P)


# Two processes with one head each, in numbers that fit on a page.
TWO = [(2 * X).round() + 0.0 if isinstance(X, Tensor) else X for X in group(1, 2, 2, 4, 1, 2)]
# Neither two nor three shares of D / 4 columns side by side look like a whole matrix.
FOUR_PROCESSES = group(6, 4, 8, 16, 1, 3)
OTHERS = "For two processes your shares are right, for another number they are not."

MINE, COLUMNS, ROWS = "slice(rank * width, (rank + 1) * width)", "W[:, mine]", "W_o[mine]"
COUNT, BIAS = "num_heads // num_processes", "output + b_o if rank == 0 else output"
SOME_OF_EACH = (
    "A process takes every P-th column, some of each head. A score is a sum over all columns of a "
    "head, inside the softmax: heads have to stay whole."
)
EVERY_OTHER = {COLUMNS: "W[:, rank::num_processes]"}

write_share_of_output = Exercise(
    **authoring.heading("10.7", "Heads over processes", "hard", minutes=15),
    section="Tensor parallel: split the heads",
    hints=[
        "Write attention for all heads first (6.4), with P = 1. Then: which columns of W_q make "
        "process 1's heads, if there are two processes and four heads?",
        "Heads end to end, times W_o: row j of W_o takes column j of the heads. A matrix product "
        "is a sum over j, and a sum can be cut anywhere. A softmax cannot.",
        "A share is multi-head attention with H / P heads and smaller matrices. Then b_o: what "
        "happens to it in the sum, if every process adds it?",
    ],
    stub=share_of_output,
    solution=share_of_output_solution,
    explanation="The softmax works inside a head, so a cut between heads needs nothing from the "
    "others. W_o is a sum over all heads' columns, and that sum is shared: one all-reduce for an "
    "attention. The bias is added once. Each process holds 1/P of the matrices, and of the cache.",
    cases=[
        Case((*TWO,), "The shares of both processes are added up here."),
        Case(group(0, 2, 4, 16, 1, 3)),  # 16: so that wrong numbers of heads fit, too
        Case(FOUR_PROCESSES, OTHERS),
        Case(group(1, 1, 3, 6, 2, 4), "A group of one process is a group, too."),
        Case(in_dtype(group(3, 3, 6, 12, 2, 5), torch.float64)),
    ],
    mistakes=[
        *instead_of(
            BIAS,
            {
                "output + b_o": "Every process adds b_o, so the sum of the shares has it P times.",
                "output": "b_o is missing. One of the processes has to add it.",
                f"({BIAS}) / num_processes": "Do not divide. They are added up, not averaged.",
            },
        ),
        *instead_of(
            COUNT,
            {
                "num_heads": "You cut a process's D / P columns into H heads, so each head falls "
                "into pieces with a softmax of their own. A process has H / P heads, D / H wide.",
                "1": "You treat a process's D / P columns as one head. It has H / P heads.",
            },
        ),
        Mistake(EVERY_OTHER, SOME_OF_EACH),
        Mistake(EVERY_OTHER | {ROWS: "W_o[rank::num_processes]"}, SOME_OF_EACH),
        *instead_of(
            ROWS,
            {
                "W_o[rank::num_processes]": "The rows of W_o are not those of your heads.",
                "W_o[:width]": "All processes take the first rows of W_o.",
                "W_o.roll(-width, 0)[mine]": "Your rows of W_o are another process's heads.",
            },
        ),
        Mistake({MINE: "slice(width)"}, "All processes do the same share: `rank` has no effect."),
        Mistake({COLUMNS: "W[:, :width]"}, "All processes take the first columns of W_q."),
        *instead_of(
            "queries.shape[-1] **",
            {
                "1 **": "The division by the root of D / H is missing.",
                "W_q.shape[1] **": "You divide by the root of D, the width of all heads together.",
                "width **": "You divide by the root of D / P, a process's width, not a head's.",
            },
        ),
        Mistake(
            {f"X @ {COLUMNS}": "X @ W[mine].mT"},
            "You cut rows of W_q, W_k and W_v, as in a linear layer's `weight`. Cut columns.",
        ),
        Mistake(
            {"unflatten(-1, (heads, -1)).transpose(1, 2)": "view(len(X), heads, X.shape[1], -1)"},
            "You cut the heads by `view`, which mixes tokens: cut the columns, then transpose.",
        ),
        Mistake(
            {".transpose(1, 2).flatten(start_dim=2)": ".reshape(len(X), X.shape[1], -1)"},
            "You put the heads end to end by `view`, which mixes tokens: transpose first.",
        ),
        Mistake(
            {f"X @ {COLUMNS}": "X[..., mine] @ W[mine]", COUNT: "num_heads", ROWS: "W_o"},
            "You cut X by columns. A softmax of a part of the score is no part of the softmax.",
        ),
    ],
    shapes=shapes,
    errors={
        "cannot be multiplied": "Each process has all of X: W_q, W_k and W_v are cut by columns, "
        "which gives D / P numbers a token. W_o takes those, so it is cut by rows.",
        "multiply up": "The columns cannot be cut into so many heads. A process has H / P of them.",
    },
    steps=[authoring.gradients_flow("X", "W_q", "W_k", "W_v", "W_o", "b_o"), fair_shares],
    run=added_up,
)
