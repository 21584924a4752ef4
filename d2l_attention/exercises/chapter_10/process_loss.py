"""10.6: the mean over the tokens of all processes, where gradients are averaged afterwards."""

import torch
from torch import Tensor

from d2l_attention.exercises import authoring
from d2l_attention.exercises.authoring import Case, Exercise, Mistake, alike, instead_of, show


def process_loss_solution(losses, valid_lens, all_reduce, num_processes):
    real = torch.arange(losses.shape[1]) < valid_lens[:, None]
    tokens = all_reduce(real.sum())  # of all processes
    # Gradients will be divided by the number of processes: make up for it.
    return losses.masked_fill(~real, 0.0).sum() * num_processes / tokens


def all_reduce_of(sums, given):
    """What a process is given; it notes in ``given`` what the process adds."""

    def all_reduce(x):
        mine = torch.as_tensor(x).detach().clone()
        given.append(mine)
        # Before a sum is known, anything but 0: somebody may divide by it.
        known = sums[len(given) - 1] if len(given) <= len(sums) else mine + (mine == 0)
        return known.clone() if isinstance(x, Tensor) else known.item()

    return all_reduce


def as_a_group(process_loss, losses, valid_lens):
    """The averaged loss and gradients, or what a group cannot do. Playing again finds the sums."""
    leaves, sums = [mine.clone().requires_grad_() for mine in losses], []
    for _ in range(4):  # a sum may depend on an earlier one
        given, results = [[] for _ in leaves], []
        for mine, lens, notes in zip(leaves, valid_lens, given, strict=True):
            results.append(process_loss(mine, lens, all_reduce_of(sums, notes), len(leaves)))
        columns = [*zip(*given, strict=False)]
        for column in columns:
            if len({x.shape for x in column}) > 1:
                shown = " and ".join(map(show, column))
                return f"`all_reduce` adds numbers, or tensors of one shape; it was given {shown}."
        sums = [sum(1 * x for x in column) for column in columns]
    calls = [len(notes) for notes in given]
    if len({*calls}) > 1:
        return (
            f"The processes call `all_reduce` {calls} times. A sum needs all of them, so some "
            "would wait for ever. Call it in every process, whatever its sequences hold."
        )
    for rank, result in enumerate(results):
        if not isinstance(result, Tensor) or not result.requires_grad or result.numel() != 1:
            return (
                f"Process {rank} returns {show(result)}. That should be one number, a tensor with "
                "its gradient; no gradient reaches its losses by `all_reduce` (no `.item()`)."
            )
    mean = sum(result.sum() for result in results) / len(results)
    return mean.item(), list(torch.autograd.grad(mean, leaves, materialize_grads=True))


def off(result, losses, valid_lens):
    right, wanted = as_a_group(process_loss_solution, losses, valid_lens)
    if not alike(result[0], right, 1e-5):
        return (
            f"Averaged over the processes your losses give {show(result[0])}; the mean over all "
            f"real tokens is {show(right)}."
        )
    pairs = enumerate(zip(result[1], wanted, strict=True))
    rank = next((rank for rank, pair in pairs if not alike(*pair, 1e-5)), 0)
    return (
        "The number is right, the gradients are not. Averaged over the processes, that of process "
        f"{rank} is {show(result[1][rank])}; it should be {show(wanted[rank])}: the same for each "
        "real token, 0 for padding. (No gradient comes with what `all_reduce` brings.)"
    )


def processes(*shares):
    """(losses, valid_lens), a list of processes each."""
    return tuple([torch.tensor(mine) for mine in side] for side in zip(*shares, strict=True))


# 16 over 4 tokens, in two processes.
TWO = processes(([[1.0, 2, 50], [3, 50, 50]], [2, 1]), ([[10.0, 60, 60]], [1]))
THREE = processes(
    ([[80.0, 80, 80]], [0]), ([[1.0, 2, 3], [4, 70, 70]], [3, 1]), ([[-5.0, 6, 90]], [2])
)
CALLED = (
    "    tokens = all_reduce(real.sum())  # of all processes\n"
    "    # Gradients will be divided by the number of processes: make up for it.\n"
)
DIVIDED = " * num_processes / tokens"
OWN_MEAN = Mistake(
    {CALLED: "", DIVIDED: " / real.sum()"},
    "That is the mean of the processes' means, 2 and 10. The token of process 1 counts as much as "
    "the three of process 0 together. Divide by the tokens of all processes.",
)

repair_process_loss = Exercise(
    **authoring.heading("10.6", "The mean of the means", "medium", minutes=10),
    section="Data parallel: split the batch",
    hints=[
        "Process 0 has tokens with losses 1, 2 and 3, process 1 one with 10. What is the mean of "
        "all four, and what is the mean of the two means?",
        "What does each process have to know of the others? One `all_reduce` brings it.",
        "Let process p return S_p. What is averaged is (S_0 + S_1 + ...) / num_processes. Which "
        "S_p makes this the sum of all losses divided by the tokens of all?",
    ],
    stub=authoring.with_mistakes(process_loss_solution, OWN_MEAN, name="process_loss"),
    solution=process_loss_solution,
    explanation="A mean of means gives a token more weight in a process with few. So each process "
    "divides its sum by the tokens of all, and multiplies by the number of processes, by which the "
    "averaging will divide. A process without a token returns 0 and needs no special case.",
    cases=[
        Case(TWO),
        Case(processes(([[2.0, 4, 60]], [2])), "One process is a group, too."),
        Case(processes(([[1.0, 9]], [1]), ([[5.0, 7]], [0]))),
        Case(THREE),
    ],
    mistakes=[
        Mistake({DIVIDED: " / real.sum().clamp(min=1)"}, OWN_MEAN.why),
        *instead_of(
            DIVIDED,
            {
                " / tokens": "That is half of it. You divide by the tokens of all, and averaging "
                "the gradients divides by the number of processes once more.",
                "": "That is the mean of the processes' sums. Divide by all processes' tokens.",
                " * num_processes": "That is the sum over all tokens. Divide by their number.",
                " * num_processes / real.sum().clamp(min=1)": "That is the mean of the processes' "
                "means, times two. Divide by the tokens of all.",
                " / tokens / num_processes": "You divide by the number of processes twice: "
                "averaging does it already.",
                " / len(losses)": "For a mean over tokens you divide by sequences.",
            },
        ),
        *instead_of(
            "real.sum())",
            {
                "len(losses))": "You divide by 3: 3 sequences, or the longest lengths?",
                "losses.numel())": "Instead of tokens you divide by all places, padding included.",
            },
        ),
        *instead_of(
            "losses.masked_fill(~real, 0.0).sum() * num_processes / tokens",
            {"losses.mean()": "That is the mean over all places, padding included."},
        ),
        Mistake({"< valid": "<= valid"}, "One token too many counts: the places begin at 0."),
    ],
    shapes=lambda result, *_: result if isinstance(result, str) else None,
    rules=[off],
    run=as_a_group,
    pairs=False,  # what is said refers to the numbers of the first case
)
