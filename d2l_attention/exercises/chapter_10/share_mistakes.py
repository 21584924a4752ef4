"""Wrong answers to 10.7 that no table makes, as students give them."""

import torch

from d2l_attention.exercises.chapter_10.shares import right, share_with, stretch


def all_in_process_0(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    if rank == 0:
        return right(X, W_q, W_k, W_v, W_o, b_o, num_heads, 0, 1)
    return torch.zeros_like(X)


def all_of_it_divided(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    return right(X, W_q, W_k, W_v, W_o, b_o, num_heads, 0, 1) / num_processes


def everything_but_the_last_step(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    """Projects all heads in each process; only W_o is cut."""
    D = W_q.shape[1]
    mine = stretch(D, rank, num_processes)
    heads = right(X, W_q, W_k, W_v, torch.eye(D).to(X), 0 * b_o, num_heads, 0, 1)
    return heads[..., mine] @ W_o[mine] + (b_o if rank == 0 else 0)


def rows_of_w_q(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    mine = stretch(W_q.shape[0], rank, num_processes)
    return right(X, W_q[mine], W_k[mine], W_v[mine], W_o, b_o, num_heads, 0, 1)


def columns_of_w_o(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    mine = stretch(W_q.shape[1], rank, num_processes)
    cut = W_q[:, mine], W_k[:, mine], W_v[:, mine], W_o[:, mine], b_o[mine]
    return right(X, *cut, num_heads // num_processes, 0, 1)


def whole_w_o(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    mine = stretch(W_q.shape[1], rank, num_processes)
    heads = heads_alone(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes)
    padded = torch.zeros(*X.shape[:-1], W_q.shape[1])
    padded[..., : len(mine)] = heads
    return padded @ W_o + (b_o if rank == 0 else 0)


def heads_alone(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    """Without W_o."""
    mine = stretch(W_q.shape[1], rank, num_processes)
    cut = W_q[:, mine], W_k[:, mine], W_v[:, mine]
    size = len(mine)
    nothing = torch.zeros(size).to(X)
    return right(X, *cut, torch.eye(size).to(X), nothing, num_heads // num_processes, 0, 1)


def all_columns_of_the_output(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    """Gathers outputs instead of adding shares: some columns of the whole output."""
    whole = right(X, W_q, W_k, W_v, W_o, b_o, num_heads, 0, 1)
    return whole[..., stretch(W_q.shape[1], rank, num_processes)]


def some_of_the_tokens(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    return right(X.chunk(num_processes, dim=1)[rank], W_q, W_k, W_v, W_o, b_o, num_heads, 0, 1)


def some_of_the_sentences(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    return right(X[rank::num_processes], W_q, W_k, W_v, W_o, b_o, num_heads, 0, 1)


def too_many_heads(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    return share_with(heads=lambda H, P: 2 * H)(
        X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes
    )


def a_list_of_shares(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    inputs = X, W_q, W_k, W_v, W_o, b_o, num_heads
    return [right(*inputs, r, num_processes) for r in range(num_processes)]


def no_gradient(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    with torch.no_grad():
        return right(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes)


def two_processes(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    return right(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, 2)


def bias_in_process_1(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    """Which is not there in a group of one."""
    b_o = b_o if rank == 1 else 0 * b_o
    mine = share_with(bias="none")(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes)
    return mine + b_o


def without_return(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes):
    right(X, W_q, W_k, W_v, W_o, b_o, num_heads, rank, num_processes)
