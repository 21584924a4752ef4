"""Answers to chapter 11 in a student's own voice: wrong ones with their words, and right ones."""

import numpy as np
import torch

from d2l_attention.variants import delta_rule_step

# 11.2 -------------------------------------------------------------------------------------


def with_nested_where(query, key, window, num_first):
    seen = torch.where(key < num_first, True, query - key < window)
    return torch.where(key > query, False, seen)


def by_exclusion(query, key, window, num_first):
    forgotten = (query - key >= window) & (key >= num_first)
    return ~(forgotten | (key > query))


def with_python_words(query, key, window, num_first):
    return key <= query and (query - key < window or key < num_first)


def as_numbers(query, key, window, num_first):
    return by_exclusion(query, key, window, num_first).float()


def first_before_all(query, key, window, num_first):
    return (key <= query) & (query - key < window) | (key < num_first)


def window_on_both_sides(query, key, window, num_first):
    return ((query - key).abs() < window) | ((key < num_first) & (key <= query))


# 11.3 -------------------------------------------------------------------------------------


def by_einsum(W_q, W_uk):
    return torch.einsum("hdi,hdl->hil", W_q, W_uk)


def head_after_head(W_q, W_uk):
    return torch.stack([q.T @ k for q, k in zip(W_q, W_uk, strict=True)])


def first_head_only(W_q, W_uk):
    return (W_q[0].T @ W_uk[0]).expand(len(W_q), -1, -1)


def absorbed_in_numpy(W_q, W_uk):
    return torch.from_numpy(np.einsum("hdi,hdl->hil", W_q.detach().numpy(), W_uk.detach().numpy()))


def in_float32(W_q, W_uk):
    return by_einsum(W_q.float(), W_uk.float())


# 11.4 -------------------------------------------------------------------------------------


def one_column_more(scores, values, sinks):
    column = sinks[:, None, None].expand(*scores.shape[:2], 1)
    weights = torch.cat((scores, column), dim=-1).softmax(dim=-1)[..., :-1]
    return weights @ values


def head_by_head(scores, values, sinks):
    outputs = []
    for a, v, s in zip(scores, values, sinks, strict=True):
        rows = [torch.cat((row, s[None])).softmax(dim=0)[:-1] @ v for row in a]
        outputs.append(torch.stack(rows))
    return torch.stack(outputs)


def off_by_one(scores, values, sinks):
    column = torch.zeros_like(scores[..., :1])
    return torch.cat((scores, column), dim=-1).softmax(dim=-1)[..., :-1] @ values


def sink_with_a_value(scores, values, sinks):
    column = sinks[:, None, None].expand(*scores.shape[:2], 1)
    weights = torch.cat((column, scores), dim=-1).softmax(dim=-1)
    return weights[..., 1:] @ values + weights[..., :1]


def sinks_detached(scores, values, sinks):
    return one_column_more(scores, values, sinks.detach())


# 11.5 -------------------------------------------------------------------------------------


def step_by_einsum(query, key, value, beta, decay, state):
    state = torch.einsum("h,hdv->hdv", decay, state)
    error = value - torch.einsum("hd,hdv->hv", key, state)
    state = state + torch.einsum("h,hd,hv->hdv", beta, key, error)
    return torch.einsum("hd,hdv->hv", query, state), state


def step_by_the_package(query, key, value, beta, decay, state):
    return delta_rule_step(query, key, value, beta, decay, state)


def only_the_output(query, key, value, beta, decay, state):
    return step_by_einsum(query, key, value, beta, decay, state)[0]


def faded_in_place(query, key, value, beta, decay, state):
    state *= decay[:, None, None]
    return step_by_einsum(query, key, value, beta, torch.ones_like(decay), state)


def fades_the_value_too(query, key, value, beta, decay, state):
    return step_by_einsum(query, key, value * decay[:, None], beta, decay, state)


# 11.6 -------------------------------------------------------------------------------------


def weights_of_both(queries, keys):
    d = queries.shape[-1] // 2
    first = (queries[..., :d] @ keys[..., :d].transpose(1, 2) * d**-0.5).softmax(-1)
    second = (queries[..., d:] @ keys[..., d:].transpose(1, 2) * d**-0.5).softmax(-1)
    return first, second


def two_outputs(queries, keys, values, share):
    first, second = weights_of_both(queries, keys)
    return first @ values - share * (second @ values)


def by_einsum_of_halves(queries, keys, values, share):
    q, k = (X.unflatten(-1, (2, -1)) for X in (queries, keys))
    weights = (torch.einsum("bqhd,bkhd->hbqk", q, k) / q.shape[-1] ** 0.5).softmax(dim=-1)
    return (weights[0] - share * weights[1]) @ values


def shared_out(queries, keys, values, share):
    first, second = weights_of_both(queries, keys)
    return ((1 - share) * first - share * second) @ values


def every_second_column(queries, keys, values, share):
    order = [*range(0, queries.shape[-1], 2), *range(1, queries.shape[-1], 2)]
    return two_outputs(queries[..., order], keys[..., order], values, share)


def share_as_a_number(queries, keys, values, share):
    return two_outputs(queries, keys, values, share.item())


# 11.7 -------------------------------------------------------------------------------------


def some(n=40, seed=1):
    return torch.randn(n, 8, generator=torch.Generator().manual_seed(seed))


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


def futures_of_both(choose):
    for seed in range(3):
        queries, keys = some(32, seed), some(32, seed + 10)
        for t in range(1, 32):
            tail = some(32, seed + 20)[t:]
            new = choose(torch.cat((queries[:t], tail)), torch.cat((keys[:t], -tail)))
            old = choose(queries, keys)
            assert int((new[:t] != old[:t]).sum()) == 0
            assert not old[:t, t:].any()


def shape_only(choose):
    assert choose(some(), some()).shape == (40, 40)


def triangle_only(choose):
    assert not choose(some(seed=1), some(seed=2)).triu(1).any()


def keys_only(choose):
    queries, keys = some(seed=1), some(seed=2)
    mask = choose(queries, keys)
    assert not mask.triu(1).any()
    for t in range(1, 40):
        assert torch.equal(choose(queries, torch.cat((keys[:t], some(seed=3)[t:])))[:t], mask[:t])


def one_block_is_all(choose):
    mask = choose(some(8), some(8, 2))
    for t in range(1, 8):
        other = torch.cat((some(8)[:t], some(8, 3)[t:]))
        assert torch.equal(choose(other, some(8, 2))[:t], mask[:t])
    assert not mask.triu(1).any()


RIGHT = {
    "11.1": [(768.0, 48.0, 672.0), torch.tensor([768, 48, 672])],
    "11.2": [with_nested_where, by_exclusion],
    "11.3": [by_einsum, head_after_head],
    "11.4": [one_column_more, head_by_head],
    "11.5": [step_by_einsum, step_by_the_package],
    "11.6": [two_outputs, by_einsum_of_halves],
    "11.7": [beginnings_alone, futures_of_both],
}
WRONG = {
    "11.1": [
        ((384, 48, 672), "A token leaves a key and a value"),
        ((768, 96, 672), "for keys and values together"),
        ((768, 48, 3072), "without windows"),
        ((768, 42, 672), "turned key is missing"),
        (768, "Give 3 numbers"),
    ],
    "11.2": [
        (with_python_words, "Use `&` and `|`"),
        (as_numbers, "A comparison gives bool"),
        (first_before_all, "binds before"),
        (window_on_both_sides, "should be False"),
    ],
    "11.3": [
        (first_head_only, "For one head it was right"),
        (absorbed_in_numpy, "no gradient"),
        (in_float32, "float64"),
    ],
    "11.4": [
        (off_by_one, ""),
        (sink_with_a_value, ""),
        (sinks_detached, "no gradient reaches `sinks`"),
    ],
    "11.5": [
        (only_the_output, "Your function ret"),
        (faded_in_place, "changes its input"),
        (fades_the_value_too, "with a decay of 0.5 it is not"),
    ],
    "11.6": [
        (shared_out, ""),
        (every_second_column, ""),
        (share_as_a_number, "no gradient reaches `share`"),
    ],
    "11.7": [
        (shape_only, ""),
        (triangle_only, "compete"),
        (keys_only, "Let their future differ, too"),
        (one_block_is_all, "too short"),
    ],
}
