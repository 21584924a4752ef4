"""10.7: what one of P processes computes of multi-head attention. Mistakes: ``shares.py``."""

from typing import Any

import torch
from torch import Tensor

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_10 import share_mistakes as mistakes
from d2l_attention.exercises.chapter_10.shares import (
    all_heads,
    candidates,
    every_other,
    first_stretch,
    inside_the_softmax,
    linear_layers,
    merge_by_view,
    next_stretch,
    no_root,
    one_head,
    right,
    root_of_all,
    root_of_share,
    share_with,
    split_by_view,
)
from d2l_attention.exercises.chapter_10.watch import Watch
from d2l_attention.exercises.compare import form_differs, value_differs
from d2l_attention.exercises.exercise import Exercise, Step, Wrong
from d2l_attention.exercises.helpers import alike, because, normal
from d2l_attention.exercises.steps import explains


def share_of_output(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes): ...


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


def whole(X: Tensor, *parameters: Any) -> Tensor:
    return right(X, *parameters, 0, 1)


def group(seed: int, P: int, H: int, D: int, B: int, n: int) -> tuple:
    """X, the matrices, b_o, the number of heads, and the number of processes."""
    X, W_q, W_k, W_v, W_o, b_o = normal(seed, (B, n, D), *[(D, D)] * 4, (D,))
    # Scores of usual size: in a saturated softmax every rounding shows.
    return (X, *(W / D**0.5 for W in (W_q, W_k, W_v, W_o)), b_o, H, P)


def small_numbers(seed: int, *shape: int) -> Tensor:
    return torch.randint(-1, 3, shape, generator=torch.Generator().manual_seed(seed)).float()


# Two processes with one head each, in numbers that fit on a page.
TWO = (
    small_numbers(0, 1, 2, 4),
    *(small_numbers(seed, 4, 4) for seed in range(1, 5)),
    torch.tensor([1.0, 2.0, 3.0, 4.0]),
    2,
    2,
)
FOUR_HEADS = group(0, 2, 4, 16, 1, 3)  # 16: so that wrong numbers of heads fit, too
# Neither two nor three shares of D / 4 columns side by side look like a whole matrix.
FOUR_PROCESSES = group(6, 4, 8, 16, 1, 3)
GROUPS = [
    FOUR_PROCESSES,
    group(1, 1, 3, 6, 2, 4),
    group(2, 3, 3, 6, 3, 2),
    group(3, 3, 6, 12, 2, 5),
    group(4, 4, 4, 4, 4, 1),
    tuple(X.double() if isinstance(X, Tensor) else X for X in group(5, 2, 2, 6, 2, 3)),
]

ERRORS = {
    "cannot be multiplied": (
        "A matrix product does not fit. Each process has all of X: W_q, W_k and W_v are cut by "
        "columns, which gives D / P numbers a token. W_o takes those, so it is cut by rows."
    ),
    "multiply up": "The columns cannot be cut into so many heads. A process has H / P of them.",
    "is invalid for input": (
        "The numbers cannot be cut that way. A process has D / P columns, H / P heads of D / H."
    ),
}


USED = ("columns of W_q", "columns of W_k", "columns of W_v", "rows of W_o")
OTHERS = "For two processes your shares are right, for another number they are not."


def ranks(inputs: tuple) -> list[tuple]:
    *given, num_processes = inputs
    return [(*given, rank, num_processes) for rank in range(num_processes)]


def told(attempt: Attempt, inputs: tuple, found: str) -> str:
    case = attempt.case(inputs[:-1])
    processes = "one process" if inputs[-1] == 1 else f"{inputs[-1]} processes"
    return f"{found} Smallest case that shows it: {processes}, {case}."


def shapes(inputs: tuple) -> Step:
    """Of each share, with the stories that wrong ones tell."""
    X, num_processes = inputs[0], inputs[-1]
    batch, n, D = X.shape
    stories = {
        (batch, n, D // num_processes): (
            "That is D / P numbers a token. Multiply your heads by your rows of W_o, and you have "
            "D numbers: a share of every column of the output. Shares are added, not put side by "
            "side."
        ),
        (batch, n // num_processes, D): (
            "You cut the sequence. That is another way to share; here each process has all tokens, "
            "and some of the heads."
        ),
        (batch // num_processes, n, D): (
            "You cut the batch, as data parallel does. Here each process has all sentences, and "
            "some of the heads."
        ),
    }

    def step(attempt: Attempt) -> str | None:
        for mine in ranks(inputs):
            result = attempt(*mine)
            found = form_differs(result, X)
            if found and isinstance(result, Tensor):
                found = f"{found} {stories.get(tuple(result.shape), '')}".strip()
            if found:
                return told(attempt, inputs, found)
        return None

    return step


def added_up(function: Any, inputs: tuple) -> Tensor:
    return sum(function(*mine) for mine in ranks(inputs))


def sums(inputs: tuple, *, named: bool = False) -> Step:
    """The shares add up to what one process gives alone."""

    def step(attempt: Attempt) -> str | None:
        got, expected = added_up(attempt, inputs), whole(*inputs[:-1])
        if (found := value_differs(got, expected, 1e-4)) is None:
            return None
        for wrong, why in candidates() if named else ():
            if alike(got, added_up(wrong, inputs)):
                return told(attempt, inputs, why.format(P=inputs[-1]))
        found = found.replace("Your function gives", "Your shares add up to")
        return told(attempt, inputs, found.replace("of your result", "of your shares' sum"))

    return step


def fair_shares(inputs: tuple) -> Step:
    """Which columns and rows has a process used? The gradients of its share tell."""
    *given, num_heads, num_processes = inputs
    X, whole_matrix = given[0].shape, given[1].shape
    width = whole_matrix[0] // num_processes

    def step(attempt: Attempt) -> str | None:
        for rank in range(num_processes):
            leaves = [tensor.clone().requires_grad_() for tensor in given]
            with Watch() as watch:
                share = attempt(*leaves, num_heads, rank, num_processes)
            if not share.requires_grad:
                return (
                    "The numbers are right, but no gradient reaches the matrices of process "
                    f"{rank}: they could not learn."
                )
            # Squares, because the gradient of a plain sum may vanish.
            found = torch.autograd.grad(share.square().sum(), leaves[1:5], allow_unused=True)
            for what, gradient in zip(USED, found, strict=True):
                axis = 1 if "rows" in what else 0
                used = 0 if gradient is None else int(gradient.any(dim=axis).sum())
                if used != width:
                    return (
                        f"The shares add up to the right output, but process {rank} uses {used} "
                        f"{what}; its share is {width} of {whole_matrix[0]}. Each process does its "
                        "own heads and nothing else, or nothing is saved."
                    )
            if any({X, whole_matrix} <= shapes for shapes in watch.together):
                return (
                    f"The shares add up to the right output, but process {rank} multiplies X by a "
                    f"whole matrix {tuple(whole_matrix)} and throws most of it away. Cut the "
                    "matrices first: a process holds no more than its share of them."
                )
        return None

    return step


def wrong_parts(diagnosis: str, **parts: Any) -> Wrong:
    return Wrong(share_with(**parts), diagnosis)


write_share_of_output = Exercise(
    id="10.7",
    title="Heads over processes",
    task=(
        "Complete `share_of_output(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes)`: "
        "what process `rank` of P computes of multi-head self-attention over X (B, n, D). The "
        "shares (B, n, D) of all processes are then added up (an all-reduce), and the sum is the "
        "whole output. The W are plain matrices (D, D), as in `X @ W_q`; b_o (D,) is added behind "
        "W_o, there is no other bias and no mask. P divides H, and the first head owns the first "
        "D / H columns. Process `rank` has its D / P columns of W_q, W_k and W_v and its D / P "
        "rows of W_o, and uses no others."
    ),
    difficulty="hard",
    minutes=15,
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
    explanation=(
        "The softmax works inside a head, so a cut between heads needs nothing from the others. "
        "W_o is a sum over all heads' columns, and that sum is what the processes share: one "
        "all-reduce a layer. The bias belongs to the sum, so it is added once. Each process holds "
        "1/P of the matrices, and of the cache."
    ),
    steps=[
        explains(ERRORS, ranks(TWO)),
        shapes(TWO),
        sums(TWO, named=True),
        explains(ERRORS, ranks(FOUR_HEADS)),
        shapes(FOUR_HEADS),
        sums(FOUR_HEADS, named=True),
        *(because(OTHERS, step(inputs)) for inputs in GROUPS for step in (shapes, sums)),
        fair_shares(FOUR_PROCESSES),
    ],
    wrong=[
        wrong_parts("Every process adds b_o", bias="every"),
        wrong_parts("b_o is missing", bias="none"),
        wrong_parts("each head falls into pieces", heads=all_heads),
        wrong_parts("as one head", heads=one_head),
        wrong_parts("takes every P-th column", columns=every_other),
        wrong_parts("takes every P-th column", columns=every_other, rows=every_other),
        wrong_parts("The rows of W_o are not those of your heads", rows=every_other),
        wrong_parts("All processes take the first rows", rows=first_stretch),
        wrong_parts("another process's heads", rows=next_stretch),
        wrong_parts("`rank` has no effect", columns=first_stretch, rows=first_stretch),
        wrong_parts("the first columns of W_q", columns=first_stretch),
        wrong_parts("The division by the root", scale=no_root),
        wrong_parts("the width of all heads together", scale=root_of_all),
        wrong_parts("a process's width", scale=root_of_share),
        wrong_parts("as in a linear layer's `weight`", project=linear_layers),
        wrong_parts("You cut the heads by `view`", cut=split_by_view),
        wrong_parts("end to end by `view`", join=merge_by_view),
        wrong_parts("They are added up, not averaged", mean=True),
        wrong_parts("And that is not all", bias="every", scale=root_of_all),
        Wrong(mistakes.columns_of_w_o, "a share of every column"),
        Wrong(mistakes.rows_of_w_q, "cut by columns"),
        Wrong(inside_the_softmax, "no part of the softmax"),
        Wrong(mistakes.whole_w_o, "All processes take the first rows"),
        Wrong(mistakes.heads_alone, "Multiply your heads by your rows"),
        Wrong(mistakes.all_columns_of_the_output, "Shares are added"),
        Wrong(mistakes.some_of_the_tokens, "You cut the sequence"),
        Wrong(mistakes.some_of_the_sentences, "You cut the batch"),
        Wrong(mistakes.too_many_heads, "so many heads"),
        Wrong(mistakes.all_in_process_0, "process 0 uses 16 columns of W_q"),
        Wrong(mistakes.all_of_it_divided, "process 0 uses 16 columns of W_q"),
        Wrong(mistakes.everything_but_the_last_step, "throws most of it away"),
        Wrong(mistakes.a_list_of_shares, "it should return a tensor"),
        Wrong(mistakes.no_gradient, "no gradient reaches"),
        Wrong(mistakes.two_processes, "for another number they are not"),
        Wrong(mistakes.bias_in_process_1, "one process"),
        Wrong(mistakes.without_return, "Is the `return` missing?"),
    ],
)
