"""Wrong answers to 6.5, as students give them: bugs left, and good code mended."""

import torch


def cut(X, num_heads):
    return X.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def still_the_root_of_d(queries, keys, values, mask, num_heads):
    q, k, v = (cut(X, num_heads) for X in (queries, keys, values))
    scores = q @ k.mT / queries.shape[-1] ** 0.5
    weights = scores.masked_fill(~mask[:, None], -torch.inf).softmax(dim=-1)
    return (weights @ v).transpose(1, 2).reshape(queries.shape)


def merge_not_mended(queries, keys, values, mask, num_heads):
    q, k, v = (cut(X, num_heads) for X in (queries, keys, values))
    scores = q @ k.mT / q.shape[-1] ** 0.5
    weights = scores.masked_fill(~mask[:, None], -torch.inf).softmax(dim=-1)
    return (weights @ v).reshape(queries.shape)


def mask_not_mended(queries, keys, values, mask, num_heads):
    q, k, v = (cut(X, num_heads) for X in (queries, keys, values))
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~mask, -torch.inf)
    return (scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(queries.shape)


def only_the_merge_mended(queries, keys, values, mask, num_heads):
    q, k, v = (cut(X, num_heads) for X in (queries, keys, values))
    scores = (q @ k.mT / queries.shape[-1] ** 0.5).masked_fill(~mask, -torch.inf)
    return (scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(queries.shape)


def only_the_scale_mended(queries, keys, values, mask, num_heads):
    q, k, v = (cut(X, num_heads) for X in (queries, keys, values))
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~mask, -torch.inf)
    return (scores.softmax(dim=-1) @ v).reshape(queries.shape)


def with_mask(change):
    """Scale and merge mended, the mask changed."""

    def mask_changed(queries, keys, values, mask, num_heads):
        return mask_not_mended(queries, keys, values, change(mask, num_heads), num_heads)

    return mask_changed


def unmerged(queries, keys, values, mask, num_heads):
    q, k, v = (cut(X, num_heads) for X in (queries, keys, values))
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~mask[:, None], -torch.inf)
    return scores.softmax(dim=-1) @ v


def without_return(queries, keys, values, mask, num_heads):
    unmerged(queries, keys, values, mask, num_heads).transpose(1, 2).reshape(queries.shape)


def two_by_two(queries, keys, values, mask, num_heads):
    heads = unmerged(queries, keys, values, mask, num_heads)
    return torch.cat([heads[:, 0], heads[:, 1]], dim=-1)


def sentences_of_masks(mask, num_heads):
    return mask.repeat(num_heads, 1, 1).unflatten(0, (-1, num_heads))
