"""Multi-head attention cut over processes, put together from parts, for 10.7."""

from collections.abc import Callable
from functools import cache as once
from itertools import combinations

import torch
from torch import Tensor

# Which of D columns or rows a process has ------------------------------------------------------


def stretch(D: int, rank: int, num_processes: int) -> Tensor:
    return torch.arange(D).chunk(num_processes)[rank]


def every_other(D: int, rank: int, num_processes: int) -> Tensor:
    return torch.arange(rank, D, num_processes)


def first_stretch(D: int, rank: int, num_processes: int) -> Tensor:
    return stretch(D, 0, num_processes)


def next_stretch(D: int, rank: int, num_processes: int) -> Tensor:
    return stretch(D, (rank + 1) % num_processes, num_processes)


# How many heads a process has, and what its scores are divided by ------------------------------


def its_heads(num_heads: int, num_processes: int) -> int:
    return num_heads // num_processes


def all_heads(num_heads: int, num_processes: int) -> int:
    return num_heads


def one_head(num_heads: int, num_processes: int) -> int:
    return 1


def root_of_head(queries: Tensor, D: int, num_processes: int) -> float:
    return queries.shape[-1] ** 0.5


def root_of_share(queries: Tensor, D: int, num_processes: int) -> float:
    return (D // num_processes) ** 0.5


def root_of_all(queries: Tensor, D: int, num_processes: int) -> float:
    return D**0.5


def no_root(queries: Tensor, D: int, num_processes: int) -> float:
    return 1.0


# What a process projects ----------------------------------------------------------------------


def by_columns(X: Tensor, W: Tensor, mine: Tensor) -> Tensor:
    return X @ W[:, mine]


def linear_layers(X: Tensor, W: Tensor, mine: Tensor) -> Tensor:
    return X @ W[mine].mT


# How heads are cut, and put end to end ---------------------------------------------------------


def split(Y: Tensor, num_heads: int) -> Tensor:
    return Y.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def split_by_view(Y: Tensor, num_heads: int) -> Tensor:
    return Y.reshape(len(Y), num_heads, Y.shape[1], -1)


def merge(heads: Tensor) -> Tensor:
    return heads.transpose(1, 2).flatten(start_dim=2)


def merge_by_view(heads: Tensor) -> Tensor:
    return heads.reshape(len(heads), heads.shape[2], -1)


# Together --------------------------------------------------------------------------------------


def share_with(
    *,
    columns: Callable = stretch,
    rows: Callable = stretch,
    heads: Callable = its_heads,
    scale: Callable = root_of_head,
    project: Callable = by_columns,
    cut: Callable = split,
    join: Callable = merge,
    bias: str = "first",
    mean: bool = False,
) -> Callable:
    """Right but for the parts that are given."""

    def share_of_output(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
        D = W_q.shape[1]
        mine = columns(D, rank, num_processes)
        count = heads(num_heads, num_processes)
        queries, keys, values = (cut(project(X, W, mine), count) for W in (W_q, W_k, W_v))
        scores = queries @ keys.mT / scale(queries, D, num_processes)
        output = join(scores.softmax(dim=-1) @ values) @ W_o[rows(D, rank, num_processes)]
        if bias == "every" or (bias == "first" and rank == 0):
            output = output + b_o
        elif bias == "share":
            output = output + b_o / num_processes
        return output / num_processes if mean else output

    return share_of_output


right = share_with()


def inside_the_softmax(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    """Rows of the first three matrices, columns of X: each process has a part of every sum."""
    mine = stretch(W_q.shape[0], rank, num_processes)
    parts = X[..., mine], W_q[mine], W_k[mine], W_v[mine]
    return right(*parts, W_o, b_o * (rank == 0), num_heads, 0, 1)


TABLE = [
    (
        {"bias": "every"},
        "Every process adds b_o, so the sum of the shares has it {P} times. Add it in one "
        "process, or b_o / {P} in each.",
    ),
    ({"bias": "none"}, "b_o is missing. One of the processes has to add it."),
    (
        {"heads": all_heads},
        "You cut a process's D / P columns into H heads, so each head falls into pieces with a "
        "softmax of their own. Heads stay whole: a process has H / P of them, D / H wide.",
    ),
    (
        {"heads": one_head},
        "You treat a process's D / P columns as one head. It has H / P heads, each with a softmax "
        "of its own.",
    ),
    (
        {"columns": every_other},
        "A process takes every P-th column, some of each head. A head's score is a sum over all "
        "its columns, inside the softmax: heads have to stay whole. Take a stretch of columns.",
    ),
    (
        {"columns": every_other, "rows": every_other},
        "A process takes every P-th column, some of each head. A head's score is a sum over all "
        "its columns, inside the softmax: heads have to stay whole. Take a stretch of columns.",
    ),
    (
        {"rows": every_other},
        "The rows of W_o are not those of your heads. Row j takes column j of the heads put end to "
        "end: the same stretch as in W_q.",
    ),
    (
        {"rows": first_stretch},
        "All processes take the first rows of W_o. Row j takes column j of the heads put end to "
        "end: the same stretch as in W_q.",
    ),
    (
        {"rows": next_stretch},
        "The rows of W_o are those of another process's heads. Row j takes column j of the heads "
        "put end to end: the same stretch as in W_q.",
    ),
    (
        {"columns": first_stretch, "rows": first_stretch},
        "All processes do the same share: `rank` has no effect.",
    ),
    ({"columns": first_stretch}, "All processes take the first columns of W_q, W_k and W_v."),
    ({"scale": no_root}, "The division by the root of D / H is missing."),
    (
        {"scale": root_of_all},
        "You divide by the root of D, the width of all heads together. It is a head's, D / H.",
    ),
    (
        {"scale": root_of_share},
        "You divide by the root of D / P, a process's width. It is a head's, D / H, however many "
        "processes there are.",
    ),
    (
        {"project": linear_layers},
        "You cut the rows of W_q, W_k and W_v and turn them, as in a linear layer's `weight`. Here "
        "they are plain matrices, `X @ W_q`: an output is a column.",
    ),
    (
        {"cut": split_by_view},
        "You cut the heads by `view` alone, which mixes tokens: first cut the columns, then move "
        "the heads in front of the tokens.",
    ),
    (
        {"join": merge_by_view},
        "You put the heads end to end by `view` alone, which mixes tokens: first move the heads "
        "back behind the tokens.",
    ),
    (
        {"mean": True},
        "The shares are divided by the number of processes. They are added up, not averaged: each "
        "is a part of the sum over W_o's rows.",
    ),
]


@once
def candidates() -> list[tuple[Callable, str]]:
    """Every mistake alone, then two that can be made together."""
    found = [(share_with(**parts), why) for parts, why in TABLE] + [
        (
            inside_the_softmax,
            "You cut X by columns and W_q, W_k and W_v by rows. Then each process has a part of "
            "every score, and a softmax of a part is no part of the softmax. Every process has "
            "all of X, and some columns of the matrices.",
        )
    ]
    for (first, why), (second, _) in combinations(TABLE, 2):
        if not first.keys() & second.keys():
            found.append((share_with(**first, **second), f"{why} And that is not all."))
    return found
