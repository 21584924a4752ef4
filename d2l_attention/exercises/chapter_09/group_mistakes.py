"""Wrong answers to 9.4, as students give them."""

import torch


def attend(queries, keys, values):
    return (queries @ keys.mT / keys.shape[-1] ** 0.5).softmax(dim=-1) @ values


def share_of(queries, keys):
    return queries.shape[1] // keys.shape[1]


def keys_alone(queries, keys, values):
    share = share_of(queries, keys)
    return attend(queries, keys.repeat_interleave(share, dim=1), values.repeat(1, share, 1, 1))


def values_alone(queries, keys, values):
    share = share_of(queries, keys)
    return attend(queries, keys.repeat(1, share, 1, 1), values.repeat_interleave(share, dim=1))


def other_way_of_repeating(queries, keys, values):
    share = share_of(queries, keys)
    shape = [len(keys), queries.shape[1], keys.shape[2], -1]
    keys, values = (X[:, None].expand(-1, share, -1, -1, -1).reshape(shape) for X in (keys, values))
    return attend(queries, keys, values)


def by_the_remainder(queries, keys, values):
    group = torch.arange(queries.shape[1]) % keys.shape[1]
    return attend(queries, keys[:, group], values[:, group])


def groups_as_the_number(queries, keys, values):
    num_groups = keys.shape[1]
    return attend(queries, *(X.repeat_interleave(num_groups, dim=1) for X in (keys, values)))


def along_the_tokens(queries, keys, values):
    share = share_of(queries, keys)
    return attend(queries, *(X.repeat_interleave(share, dim=2) for X in (keys, values)))


def along_the_batch(queries, keys, values):
    share = share_of(queries, keys)
    return attend(queries, *(X.repeat_interleave(share, dim=0) for X in (keys, values)))


def first_group_for_all(queries, keys, values):
    return attend(queries, keys[:, :1], values[:, :1])


def first_group_where_shared(queries, keys, values):
    if queries.shape[1] == keys.shape[1]:
        return attend(queries, keys, values)
    return attend(queries, keys[:, :1], values[:, :1])


def last_group_first(queries, keys, values):
    share = share_of(queries, keys)
    if share == 1:
        return attend(queries, keys, values)
    keys, values = (X.flip(1).repeat_interleave(share, dim=1) for X in (keys, values))
    return attend(queries, keys, values)


def mean_of_the_groups(queries, keys, values):
    if queries.shape[1] == keys.shape[1]:
        return attend(queries, keys, values)
    return attend(queries, *(X.mean(dim=1, keepdim=True) for X in (keys, values)))


def output_moved_alone(queries, keys, values):
    share, num_groups = share_of(queries, keys), keys.shape[1]
    output = attend(queries, *(X.repeat(1, share, 1, 1) for X in (keys, values)))
    return output.unflatten(1, (num_groups, share)).transpose(1, 2).flatten(1, 2)


def queries_moved_alone(queries, keys, values):
    share, num_groups = share_of(queries, keys), keys.shape[1]
    queries = queries.unflatten(1, (num_groups, share)).transpose(1, 2).flatten(1, 2)
    return attend(queries, *(X.repeat(1, share, 1, 1) for X in (keys, values)))


def one_head_a_group(queries, keys, values):
    return attend(queries[:, :: share_of(queries, keys)], keys, values)


def groups_left_apart(queries, keys, values):
    queries = queries.unflatten(1, (keys.shape[1], -1))
    return attend(queries, keys[:, :, None], values[:, :, None])


def not_scaled(queries, keys, values):
    share = share_of(queries, keys)
    keys, values = (X.repeat_interleave(share, dim=1) for X in (keys, values))
    return (queries @ keys.mT).softmax(dim=-1) @ values


def softmax_over_queries(queries, keys, values):
    share = share_of(queries, keys)
    keys, values = (X.repeat_interleave(share, dim=1) for X in (keys, values))
    return (queries @ keys.mT / keys.shape[-1] ** 0.5).softmax(dim=-2) @ values


def two_a_group(queries, keys, values):
    return attend(queries, *(X.repeat_interleave(2, dim=1) for X in (keys, values)))


def without_return(queries, keys, values):
    share = share_of(queries, keys)
    attend(queries, *(X.repeat_interleave(share, dim=1) for X in (keys, values)))
