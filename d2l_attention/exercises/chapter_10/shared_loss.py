"""10.6: the mean over the tokens of all processes, where gradients are averaged afterwards."""

import math

import torch
from torch import Tensor

from d2l_attention.exercises.attempt import Attempt
from d2l_attention.exercises.chapter_10 import loss_mistakes as mistakes
from d2l_attention.exercises.chapter_10.group import WouldHang, play
from d2l_attention.exercises.exercise import Exercise, Step, Wrong
from d2l_attention.exercises.helpers import normal
from d2l_attention.exercises.show import show


def process_loss(losses, valid_lens, all_reduce, num_processes):
    real = torch.arange(losses.shape[1]) < valid_lens[:, None]
    return losses.masked_fill(~real, 0.0).sum() / real.sum()


def process_loss_solution(losses, valid_lens, all_reduce, num_processes):
    real = torch.arange(losses.shape[1]) < valid_lens[:, None]
    tokens = all_reduce(real.sum())  # of all processes
    # Gradients will be divided by the number of processes: make up for it.
    return losses.masked_fill(~real, 0.0).sum() * num_processes / tokens


Processes = list[tuple[Tensor, Tensor]]


def processes(*shares: tuple[list, list[int]]) -> Processes:
    return [(torch.tensor(losses), torch.tensor(lens)) for losses, lens in shares]


def random_group(seed: int, length: int, *lens: list[int]) -> Processes:
    shapes = [(len(mine), length) for mine in lens]
    group = zip(normal(seed, *shapes), map(torch.tensor, lens), strict=True)
    return [
        (losses.masked_fill(torch.arange(length) >= mine[:, None], math.nan), mine)
        for losses, mine in group
    ]


TWO = processes(
    ([[1.0, 2.0, 50.0], [3.0, 50.0, 50.0]], [2, 1]),
    ([[10.0, 60.0, 60.0]], [1]),
)
EQUAL = processes(([[1.0, 3.0]], [2]), ([[5.0, 7.0]], [2]))
ONE = processes(([[2.0, 4.0, 60.0]], [2]))
NO_TOKEN = processes(([[1.0, 3.0]], [2]), ([[5.0, 7.0]], [0]))
WITH_NAN = processes(([[1.0, math.nan]], [1]), ([[5.0, 7.0]], [2]))
GROUPS = [
    random_group(0, 5, [5, 3], [1, 1], [4, 2]),
    random_group(1, 4, [1], [4, 0, 2], [0], [3, 3]),
    random_group(2, 7, [7, 1, 5, 2, 6]),
]

# For TWO: 16 over 4 tokens, in two processes.
MISTAKES = {
    6.0: (
        "that is the mean of the processes' means, 2 and 10. The token of process 1 counts as much "
        "as the three of process 0 together. Each should count the same: divide by the tokens of "
        "all processes."
    ),
    2.0: (
        "half of it. You divide by the tokens of all, and averaging the gradients divides by the "
        "number of processes once more. Make up for that."
    ),
    8.0: "that is the mean of the processes' sums. Divide by the tokens of all processes.",
    16.0: "that is the sum over all tokens. Divide by the tokens of all processes.",
    12.0: (
        "that is the mean of the processes' means, times two. `num_processes` makes up for the "
        "averaging, but the tokens to divide by are those of all processes."
    ),
    1.0: (
        "divided by the number of processes twice: averaging does it already. Multiply, so that "
        "it cancels."
    ),
    6.5: "you divide by sequences. Divide by the tokens of all processes.",
    16 / 3: (
        "you divide by 3, where there are 4 tokens: 3 sequences, or the longest lengths? Count the "
        "real tokens."
    ),
    16 / 9: "you divide by all places, padding included. Count the real tokens.",
    (156 / 6 + 130 / 3) / 2: "that is the mean over all places, padding included.",
}


def process_by_process(group: Processes) -> str:
    return "; ".join(
        f"process {rank} has `losses = {show(losses)}, valid_lens = {show(lens)}`"
        for rank, (losses, lens) in enumerate(group)
    )


def mean_over_tokens(group: Processes) -> float:
    tokens = [row[:n] for losses, lens in group for row, n in zip(losses, lens, strict=True)]
    return torch.cat(tokens).mean().item()


def on(group: Processes, why: str = "", *, named: bool = False) -> Step:
    """The number and the gradients for this group; ``why`` stands before what is found."""

    def step(attempt: Attempt) -> str | None:
        leaves = [(losses.clone().requires_grad_(), lens) for losses, lens in group]
        try:
            results = play(attempt, leaves)
        except WouldHang as hang:
            found = str(hang)
        else:
            found = no_loss(results) or wrong_number(results, group, named)
            found = found or wrong_gradients(results, leaves)
        if found is None:
            return None
        return f"{why}{found} Smallest case that shows it: {process_by_process(group)}."

    return step


def no_loss(results: list) -> str | None:
    for rank, result in enumerate(results):
        if result is None:
            return "Your function returned `None`. Is the `return` missing?"
        if not isinstance(result, Tensor):
            return (
                f"Process {rank} returns {show(result)}, a {type(result).__name__}. Nothing can "
                "learn from that: return a tensor, with its gradient (no `.item()`)."
            )
        if result.numel() != 1:
            return f"Process {rank} returns shape {tuple(result.shape)}; a loss is one number."
        if not result.requires_grad:
            return (
                f"Process {rank} returns {show(result)}, and no gradient reaches its losses: "
                "`all_reduce` passes none back. Use it for what needs no gradient, and let each "
                "process have the losses of its own sequences."
            )
    return None


def wrong_number(results: list[Tensor], group: Processes, named: bool) -> str | None:
    got = sum(result.item() for result in results) / len(results)
    right = mean_over_tokens(group)
    if math.isclose(got, right, rel_tol=1e-4, abs_tol=1e-5):
        return None
    said = f"Averaged over the processes your losses give {show(got)}"
    if math.isnan(got) and any(int(lens.sum()) == 0 for _, lens in group):
        return (
            f"{said}: a process without a real token divides 0 by 0. Where all processes together "
            "count, there is always one."
        )
    if math.isnan(got):
        return f"{said}. NaN stands in the padding, and 0 times NaN is NaN: replace it."
    for wrong, why in MISTAKES.items() if named else ():
        if math.isclose(got, wrong, rel_tol=1e-3):
            return f"{said}; it should be {show(right)}: {why}"
    return f"{said}; the mean over all real tokens is {show(right)}."


def wrong_gradients(results: list[Tensor], leaves: Processes) -> str | None:
    count = sum(int(lens.sum()) for _, lens in leaves)
    for rank, (result, (losses, lens)) in enumerate(zip(results, leaves, strict=True)):
        (got,) = torch.autograd.grad(result, losses, allow_unused=True)
        got = torch.zeros_like(losses) if got is None else got / len(results)
        real = torch.arange(losses.shape[1]) < lens[:, None]
        if torch.allclose(got, real / count):
            continue
        if got[~real].any():
            return (
                "The number is right, the gradients are not: padding gets one. Nothing that "
                "stands there may be learned from."
            )
        return (
            "The number is right, the gradients are not. Averaged over the processes, each of "
            f"{count} tokens should get 1/{count} = {show(1 / count)}; those of process {rank} "
            f"get {show(got)}. What `all_reduce` brings adds to the number, and no gradient comes "
            "with it."
        )
    return None


repair_process_loss = Exercise(
    id="10.6",
    title="The mean of the means",
    task=(
        "Data parallel: `process_loss(losses, valid_lens, all_reduce, num_processes)` runs in each "
        "process, with the losses (B, n) of its own sequences, one a token, padding behind, and "
        "their lengths (B,). Each process takes the gradient of what it returns; then the "
        "gradients are averaged over the processes. They should be those of the mean over all "
        "real tokens of all processes. The given code is right only where every process has "
        "equally many. Mend it. `all_reduce(x)` gives every process the sum of their x; no "
        "gradient passes through it. A process may have no real token at all; not all of them."
    ),
    difficulty="medium",
    minutes=10,
    hints=[
        "Process 0 has tokens with losses 1, 2 and 3, process 1 one with 10. What is the mean of "
        "all four, and what is the mean of the two means?",
        "What does each process have to know of the others to divide by the right number? One "
        "`all_reduce` brings it.",
        "Let process p return S_p. What is averaged is (S_0 + S_1 + ...) / num_processes. Which "
        "S_p makes this the sum of all losses divided by the tokens of all?",
    ],
    stub=process_loss,
    solution=process_loss_solution,
    explanation=(
        "A mean of means gives a token in a process with few tokens more weight than one in a "
        "process with many. So each process divides its sum by the tokens of all, and multiplies "
        "by the number of processes what the averaging will divide by it. A process without a "
        "token returns 0, takes part in the `all_reduce` all the same, and needs no special case."
    ),
    steps=[
        on(TWO, named=True),
        on(EQUAL, "Where all processes have equally many tokens the given code was right. "),
        on(ONE, "One process is a group, too. "),
        on(NO_TOKEN),
        on(WITH_NAN),
        *(on(group) for group in GROUPS),
    ],
    wrong=[
        Wrong(mistakes.never_nan, "the mean of the processes' means, 2 and 10"),
        Wrong(mistakes.whole_count, "divides by the number of processes once more"),
        Wrong(mistakes.sum_alone, "the mean of the processes' sums"),
        Wrong(mistakes.sum_times_processes, "the sum over all tokens"),
        Wrong(mistakes.own_mean_times_processes, "times two"),
        Wrong(mistakes.divided_by_processes, "twice"),
        Wrong(mistakes.by_sequences, "you divide by sequences"),
        Wrong(mistakes.by_all_sequences, "3 sequences"),
        Wrong(mistakes.by_places, "you divide by all places"),
        Wrong(mistakes.all_places, "the mean over all places"),
        Wrong(mistakes.everything_summed, "no gradient reaches its losses"),
        Wrong(mistakes.number_of_all_gradient_of_one, "The number is right, the gradients are not"),
        Wrong(mistakes.early_return, "would wait for ever"),
        Wrong(mistakes.padding_multiplied, "0 times NaN is NaN"),
        Wrong(mistakes.one_token_too_many, "the mean over all real tokens is"),
        Wrong(mistakes.python_number, "no `.item()`"),
        Wrong(mistakes.count_of_the_first, "the longest lengths"),
        Wrong(mistakes.two_processes, "One process is a group, too"),
        Wrong(mistakes.unequal_shapes, "tensors of one shape"),
        Wrong(mistakes.in_place, "padding gets one"),
        Wrong(mistakes.without_return, "Is the `return` missing?"),
    ],
)
