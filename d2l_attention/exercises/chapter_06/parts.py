"""Multi-head attention put together from parts, each of which can be exchanged for a wrong one.

What a student's function is compared with. Shapes: projected queries, keys, values (B, n, D);
in heads (B, H, n, D / H); ``visible`` bool, broadcastable to the scores (B, H, Q, K).
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from d2l_attention import length_mask

# Right parts ------------------------------------------------------------------------------


def each_its_own(inputs: Sequence[Tensor], matrices: Sequence[Tensor]) -> list[tuple]:
    return list(zip(inputs, matrices, strict=True))


def projected(X: Tensor, W: Tensor, num_heads: int) -> Tensor:
    return X @ W


def by_columns(X: Tensor, num_heads: int) -> Tensor:
    return torch.stack(X.chunk(num_heads, dim=-1), dim=1)


def root_of_width(queries: Tensor, keys: Tensor) -> float:
    return queries.shape[-1] ** 0.5


def for_all_heads(visible: Tensor, num_heads: int) -> Tensor:
    return visible[:, None]  # (B, 1, Q, K): one mask a sentence, the same for each head


def end_to_end(heads: Tensor) -> Tensor:
    return torch.cat(heads.unbind(dim=1), dim=-1)


def through(X: Tensor, W_o: Tensor) -> Tensor:
    # As many rows as X has columns, for heads that were summed.
    return X @ W_o[: X.shape[-1]]


# Wrong parts ------------------------------------------------------------------------------


def keys_as_values(inputs: Sequence[Tensor], matrices: Sequence[Tensor]) -> list[tuple]:
    (queries, keys, values), (W_q, W_k, W_v) = inputs, matrices
    same_size = keys.shape == values.shape
    return [(queries, W_q), (keys, W_k), (keys if same_size else values, W_v)]


def projected_keys_as_values(inputs: Sequence[Tensor], matrices: Sequence[Tensor]) -> list[tuple]:
    (queries, keys, _), (W_q, W_k, _) = inputs, matrices
    return [(queries, W_q), (keys, W_k), (keys, W_k)]


def one_matrix(inputs: Sequence[Tensor], matrices: Sequence[Tensor]) -> list[tuple]:
    W_q = matrices[0]
    pairs = zip(inputs, matrices, strict=True)
    return [(X, W_q if W.shape == W_q.shape else W) for X, W in pairs]


def turned(X: Tensor, W: Tensor, num_heads: int) -> Tensor:
    return X @ W.mT if W.shape[0] == W.shape[1] else X @ W


def not_projected(X: Tensor, W: Tensor, num_heads: int) -> Tensor:
    return X if W.shape[0] == W.shape[1] else X @ W


def first_head_for_all(X: Tensor, W: Tensor, num_heads: int) -> Tensor:
    return (X @ W.chunk(num_heads, dim=-1)[0]).repeat(1, 1, num_heads)


def by_view(X: Tensor, num_heads: int) -> Tensor:
    return X.reshape(len(X), num_heads, X.shape[1], X.shape[2] // num_heads)


def every_other_column(X: Tensor, num_heads: int) -> Tensor:
    return torch.stack([X[..., head::num_heads] for head in range(num_heads)], dim=1)


def root_of_all_heads(queries: Tensor, keys: Tensor) -> float:
    return (queries.shape[1] * queries.shape[-1]) ** 0.5


def on_heads(visible: Tensor, num_heads: int) -> Tensor:
    """Beside (B, H, Q, K) a mask (B, Q, K) passes for (1, H, Q, K) where B = H.

    Elsewhere it would stop with an error, which nobody overlooks: there it is right.
    """
    return visible if len(visible) == num_heads else visible[:, None]


def nothing_hidden(visible: Tensor, num_heads: int) -> Tensor:
    return torch.ones_like(visible)[:, None]


def turned_over(visible: Tensor, num_heads: int) -> Tensor:
    return ~visible[:, None]


def one_key_more(visible: Tensor, num_heads: int) -> Tensor:
    return torch.cat([torch.ones_like(visible[..., :1]), visible[..., :-1]], dim=-1)[:, None]


def longest_for_all(visible: Tensor, num_heads: int) -> Tensor:
    return visible.any(dim=0, keepdim=True)[:, None]


def reshaped(heads: Tensor) -> Tensor:
    return heads.reshape(len(heads), heads.shape[2], -1)


def columns_in_turn(heads: Tensor) -> Tensor:
    return heads.permute(0, 2, 3, 1).flatten(start_dim=2)


def summed(heads: Tensor) -> Tensor:
    return heads.sum(dim=1)


def averaged(heads: Tensor) -> Tensor:
    return heads.mean(dim=1)


def sum_for_each(heads: Tensor) -> Tensor:
    return heads.sum(dim=1).repeat(1, 1, heads.shape[1])


def mean_for_each(heads: Tensor) -> Tensor:
    return heads.mean(dim=1).repeat(1, 1, heads.shape[1])


def only_merged(X: Tensor, W_o: Tensor) -> Tensor:
    return X


def turned_out(X: Tensor, W_o: Tensor) -> Tensor:
    return through(X, W_o.mT if W_o.shape[0] == W_o.shape[1] else W_o)


# Together ---------------------------------------------------------------------------------


def attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    visible: Tensor,
    num_heads: int,
    *,
    split: Callable = by_columns,
    scale: Callable = root_of_width,
    hide: Callable = for_all_heads,
    axis: int = -1,
    too_late: bool = False,
    merge: Callable = end_to_end,
) -> Tensor:
    """From projected inputs and a mask (B, 1 or Q, K) to the merged heads.

    ``too_late`` hides keys after the softmax, where they have taken their share.
    """
    queries, keys, values = (split(X, num_heads) for X in (queries, keys, values))
    scores = queries @ keys.mT / scale(queries, keys)
    hidden = ~hide(visible, num_heads)
    if not too_late:
        scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    return merge(scores.softmax(dim=axis).masked_fill(hidden, 0.0) @ values)


def multi_head_with(
    *,
    take: Callable = each_its_own,
    project: Callable = projected,
    out: Callable = through,
    **parts: Callable | int,
) -> Callable:
    """Multi-head attention as 6.4 wants it, right but for the parts that are given."""

    def multi_head(queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens=None):
        if not isinstance(num_heads, int):
            raise TypeError(
                f"num_heads must be an int, got {type(num_heads).__name__}: the arguments are "
                "queries, keys, values, W_q, W_k, W_v, W_o, num_heads, valid_lens"
            )
        pairs = take((queries, keys, values), (W_q, W_k, W_v))
        inputs = (project(X, W, num_heads) for X, W in pairs)
        if valid_lens is None:
            visible = torch.ones(len(keys), 1, keys.shape[1], dtype=torch.bool)
        else:
            visible = length_mask(valid_lens, keys.shape[1])
        return out(attend(*inputs, visible, num_heads, **parts), W_o)

    return multi_head


right = multi_head_with()
