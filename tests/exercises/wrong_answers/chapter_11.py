"""Answers to chapter 11 in a student's own voice: wrong ones with their words, and right ones."""

import numpy as np
import torch
from answers import right, wrong


@right("11.2")
def by_exclusion(query, key, window, num_first):
    forgotten = (query - key >= window) & (key >= num_first)
    return ~(forgotten | (key > query))


@wrong("11.2", "Use `&` and `|`")
def with_python_words(query, key, window, num_first):
    return key <= query and (query - key < window or key < num_first)


@wrong("11.2", "A comparison gives bool")
def as_numbers(query, key, window, num_first):
    return by_exclusion(query, key, window, num_first).float()


@right("11.3")
def head_after_head(W_q, W_uk):
    return torch.stack([q.T @ k for q, k in zip(W_q, W_uk, strict=True)])


@wrong("11.3", "For one head it was right")
def first_head_only(W_q, W_uk):
    return (W_q[0].T @ W_uk[0]).expand(len(W_q), -1, -1)


@wrong("11.3", "no gradient")
def absorbed_in_numpy(W_q, W_uk):
    return torch.from_numpy(np.einsum("hdi,hdl->hil", W_q.detach().numpy(), W_uk.detach().numpy()))


@right("11.4")
def head_by_head(scores, values, sinks):
    outputs = []
    for a, v, s in zip(scores, values, sinks, strict=True):
        rows = [torch.cat((row, s[None])).softmax(dim=0)[:-1] @ v for row in a]
        outputs.append(torch.stack(rows))
    return torch.stack(outputs)


@wrong("11.4", "it should be [[[4.364]]]")
def off_by_one(scores, values, sinks):
    column = torch.zeros_like(scores[..., :1])
    return torch.cat((scores, column), dim=-1).softmax(dim=-1)[..., :-1] @ values


@wrong("11.4", "no gradient reaches `sinks`")
def sinks_detached(scores, values, sinks):
    return head_by_head(scores, values, sinks.detach())


@right("11.5")
def step_by_einsum(query, key, value, beta, decay, state):
    state = torch.einsum("h,hdv->hdv", decay, state)
    error = value - torch.einsum("hd,hdv->hv", key, state)
    state = state + torch.einsum("h,hd,hv->hdv", beta, key, error)
    return torch.einsum("hd,hdv->hv", query, state), state


@wrong("11.5", "changes its input")
def faded_in_place(query, key, value, beta, decay, state):
    state *= decay[:, None, None]
    return step_by_einsum(query, key, value, beta, torch.ones_like(decay), state)


@wrong("11.5", "with a decay of 0.5 it is not")
def fades_the_value_too(query, key, value, beta, decay, state):
    return step_by_einsum(query, key, value * decay[:, None], beta, decay, state)


@right("11.6")
def by_einsum_of_halves(queries, keys, values, share):
    q, k = (X.unflatten(-1, (2, -1)) for X in (queries, keys))
    weights = (torch.einsum("bqhd,bkhd->hbqk", q, k) / q.shape[-1] ** 0.5).softmax(dim=-1)
    return (weights[0] - share * weights[1]) @ values


@wrong("11.6", "it should be")
def every_second_column(queries, keys, values, share):
    order = [*range(0, queries.shape[-1], 2), *range(1, queries.shape[-1], 2)]
    return by_einsum_of_halves(queries[..., order], keys[..., order], values, share)


@wrong("11.6", "no gradient reaches `share`")
def share_as_a_number(queries, keys, values, share):
    return by_einsum_of_halves(queries, keys, values, share.item())


def some(n=40, seed=1):
    return torch.randn(n, 8, generator=torch.Generator().manual_seed(seed))


@right("11.7")
def beginnings_alone(choose):
    queries, keys = some(seed=1), some(seed=2)
    whole = choose(queries, keys)
    for t in range(4, 40, 4):
        assert torch.equal(choose(queries[:t], keys[:t]), whole[:t, :t])
    for t in range(40):
        assert not whole[t, t + 1 :].any()
        moved_queries, moved_keys = queries.clone(), keys.clone()
        moved_queries[t:], moved_keys[t:] = some(seed=3)[t:], some(seed=4)[t:]
        assert (choose(moved_queries, moved_keys)[:t] == whole[:t]).all()


@wrong("11.7", "Let their future differ, too")
def keys_only(choose):
    queries, keys = some(seed=1), some(seed=2)
    mask = choose(queries, keys)
    assert not mask.triu(1).any()
    for t in range(1, 40):
        assert torch.equal(choose(queries, torch.cat((keys[:t], some(seed=3)[t:])))[:t], mask[:t])


@wrong("11.7", "too short")
def one_block_is_all(choose):
    mask = choose(some(8), some(8, 2))
    for t in range(1, 8):
        other = torch.cat((some(8)[:t], some(8, 3)[t:]))
        assert torch.equal(choose(other, some(8, 2))[:t], mask[:t])
    assert not mask.triu(1).any()


right("11.1")(torch.tensor([768, 48, 672]))
wrong("11.1", "for keys and values together")((768, 96, 672))
wrong("11.1", "Give 3 numbers")(768)
