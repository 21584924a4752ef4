"""Wrong answers to 9.5, as students give them, beside those of ``recurrence_table.py``."""

from d2l_attention.exercises.chapter_09.recurrence_table import step_with
from d2l_attention.variants import elu_plus_one


def parts(query, key, value, state, f):
    """Query, and the state with the token in it."""
    query, key = f(query), f(key)
    S = state[0] + key[..., :, None] * value[..., None, :]
    return query, S, state[1] + key


def ask(query, S, z):
    return (query[..., None, :] @ S)[..., 0, :] / (query * z).sum(dim=-1, keepdim=True)


def state_alone(query, key, value, state, f):
    _, S, z = parts(query, key, value, state, f)
    return S, z


def three_results(query, key, value, state, f):
    query, S, z = parts(query, key, value, state, f)
    return ask(query, S, z), S, z


def output_alone(query, key, value, state, f):
    return ask(*parts(query, key, value, state, f))


def without_return(query, key, value, state, f):
    ask(*parts(query, key, value, state, f))


def own_feature_map(query, key, value, state, f):
    query, S, z = parts(query, key, value, state, elu_plus_one)
    return ask(query, S, z), (S, z)


def in_place(query, key, value, state, f):
    query, key = f(query), f(key)
    S, z = state
    S += key[..., :, None] * value[..., None, :]
    z += key
    return ask(query, S, z), (S, z)


def all_heads_in_one(query, key, value, state, f):
    query, S, z = parts(query, key, value, state, f)
    S = S.sum(dim=1, keepdim=True).expand_as(S)
    return ask(query, S, z), (S, z)


def sums_over_the_batch(query, key, value, state, f):
    query, S, z = parts(query, key, value, state, f)
    return ask(query, S, z.sum(dim=0, keepdim=True).expand_as(z)), (S, z)


def an_axis_too_many(query, key, value, state, f):
    query, S, z = parts(query, key, value, state, f)
    return ask(query, S, z)[..., None, :], (S, z)


def gradient_cut_off(query, key, value, state, f):
    return step_with()(query, key.detach(), value, state, f)


def swapped_state(query, key, value, state, f):
    query, S, z = parts(query, key, value, state, f)
    return ask(query, S, z), (z, S)
