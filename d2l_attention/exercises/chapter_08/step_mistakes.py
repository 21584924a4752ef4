"""Wrong answers to 8.5, as students give them: bugs left, and good code mended."""

import torch

from d2l_attention.exercises.chapter_08.step_table import step_with


def joined(cache, key, value):
    return tuple(torch.cat(pair, dim=2) for pair in zip(cache, (key, value), strict=True))


def attend(query, keys, values):
    return (query @ keys.mT / query.shape[-1] ** 0.5).softmax(dim=-1) @ values


def only_the_position(query, key, value, cache, rotate):
    position = cache[0].shape[2]
    query, key, value = (rotate(X, offset=position) for X in (query, key, value))
    return attend(query, *joined(cache, key, value)), (key, value)


def only_the_cache(query, key, value, cache, rotate):
    query, key, value = (rotate(X, offset=0) for X in (query, key, value))
    keys, values = joined(cache, key, value)
    return attend(query, keys, values), (keys, values)


def position_and_cache(query, key, value, cache, rotate):
    position = cache[0].shape[2]
    query, key, value = (rotate(X, offset=position) for X in (query, key, value))
    keys, values = joined(cache, key, value)
    return attend(query, keys, values), (keys, values)


def values_and_cache(query, key, value, cache, rotate):
    query, key = (rotate(X, offset=0) for X in (query, key))
    keys, values = joined(cache, key, value)
    return attend(query, keys, values), (keys, values)


def position_and_values(query, key, value, cache, rotate):
    position = cache[0].shape[2]
    query, key = (rotate(X, offset=position) for X in (query, key))
    return attend(query, *joined(cache, key, value)), (key, value)


def heads_for_the_position(query, key, value, cache, rotate):
    position = cache[0].shape[1]
    query, key = (rotate(X, offset=position) for X in (query, key))
    keys, values = joined(cache, key, value)
    return attend(query, keys, values), (keys, values)


def batch_for_the_length(query, key, value, cache, rotate):
    position = len(cache[0])
    query, key, value = (rotate(X, offset=position) for X in (query, key, value))
    keys, values = joined(cache, key, value)
    return attend(query, keys, values), (keys, values)


def all_rotated_and_kept(query, key, value, cache, rotate):
    position = cache[0].shape[2]
    keys, values = joined(cache, key, value)
    keys = rotate(keys, offset=0)
    return attend(rotate(query, offset=position), keys, values), (keys, values)


def no_cache_returned(query, key, value, cache, rotate):
    return step_with()(query, key, value, cache, rotate)[0]


def without_return(query, key, value, cache, rotate):
    step_with()(query, key, value, cache, rotate)


def in_place(query, key, value, cache, rotate):
    position = cache[0].shape[2]
    query, key = (rotate(X, offset=position) for X in (query, key))
    cache[0], cache[1] = joined(cache, key, value)
    return attend(query, *cache), cache


def first_head_of_the_cache(query, key, value, cache, rotate):
    output, (keys, values) = step_with()(query, key, value, cache, rotate)
    return output, (keys[:, :1].expand_as(keys), values)


def joined_along_the_heads(query, key, value, cache, rotate):
    position = cache[0].shape[2]
    query, key = (rotate(X, offset=position) for X in (query, key))
    keys, values = torch.cat((cache[0], key), dim=1), torch.cat((cache[1], value), dim=1)
    return attend(query, keys, values), (keys, values)
