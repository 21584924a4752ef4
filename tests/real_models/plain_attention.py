"""Attention as a student writes it, and as it must be for models that want more."""

import torch


def plain(queries, keys, values, mask=None):
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(dim=-1)
    return weights @ values


def uniform(queries, keys, values, *, mask=None):
    seen = torch.ones_like(queries @ keys.mT) if mask is None else mask.to(queries)
    return (seen / seen.sum(dim=-1, keepdim=True)) @ values


def whole(queries, keys, values, *, mask=None, bias=None, sinks=None, softcap=None):
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    if sinks is not None:
        extra = sinks[:, None, None].expand(*scores.shape[:-1], 1)
        scores = torch.cat((scores, extra), dim=-1)
    weights = scores.softmax(dim=-1)[..., : keys.shape[-2]]
    return weights @ values, weights
