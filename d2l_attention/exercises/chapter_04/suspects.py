"""Attention functions that the student's test of 4.7 has to accept, and others to reject."""

import torch

from d2l_attention import (
    attention_pooling,
    dot_product_attention,
    gaussian_score,
    length_mask,
    masked_softmax,
    scaled_dot_score,
)


def is_visible(keys, valid_lens):
    return length_mask(valid_lens, keys.shape[-2])  # (B, 1, K)


def cleared(keys_or_values, valid_lens):
    return keys_or_values.masked_fill(~is_visible(keys_or_values, valid_lens).mT, 0.0)


def by_distance(queries, keys, values, valid_lens):
    """Right, with scores of another kind."""
    scores = gaussian_score(queries, cleared(keys, valid_lens))
    return attention_pooling(scores, values, valid_lens)[0]


def no_mask(queries, keys, values, valid_lens):
    return dot_product_attention(queries, keys, values)


def mask_after_the_softmax(queries, keys, values, valid_lens):
    weights = scaled_dot_score(queries, keys).softmax(dim=-1)
    weights = weights.masked_fill(~is_visible(keys, valid_lens), 0.0)
    # The padding's values are gone for good: its keys alone give it away.
    return weights @ cleared(values, valid_lens)


def rows_instead_of_columns(queries, keys, values, valid_lens):
    row = torch.arange(queries.shape[-2])[:, None] < valid_lens[:, None, None]
    weights = scaled_dot_score(queries, keys).softmax(dim=-1)
    return weights.masked_fill(~row, 0.0) @ values


def one_key_too_many(queries, keys, values, valid_lens):
    lens = (valid_lens + 1).clamp(max=keys.shape[-2])
    return dot_product_attention(queries, keys, values, lens)


def at_least_one_key(queries, keys, values, valid_lens):
    return dot_product_attention(queries, keys, values, valid_lens.clamp(min=1))


def nan_let_through(queries, keys, values, valid_lens):
    return masked_softmax(scaled_dot_score(queries, keys), valid_lens) @ values


def nan_in_the_gradients(queries, keys, values, valid_lens):
    # The mask takes NaN out of the scores, but on the way back 0 meets the NaN in the keys.
    return attention_pooling(scaled_dot_score(queries, keys), values, valid_lens)[0]
