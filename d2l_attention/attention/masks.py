"""Who may attend to whom, as boolean tensors: True means 'may attend'; the softmax under them.

The same convention as ``torch.nn.functional.scaled_dot_product_attention``. A mask
broadcasts to the scores, (*, Q, K): letters as in ``pooling.py``.

Here is also the door of every attention: inputs are checked and who sees whom is worked out, once.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from d2l_attention.attention.checks import as_whole, check_floats, check_same_size

Shape = tuple[int, ...]
INTEGERS = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}


def length_mask(valid_lens: Tensor, num_keys: int) -> Tensor:
    """Hide the padding: key ``j`` is visible where ``j < valid_lens``.

    Shape: valid_lens (B,) -> (B, 1, K), one length a sequence;
    (B, Q) -> (B, Q, K), one length a query.

    Errors: ``TypeError`` unless the lengths are integers, ``ValueError`` where one is
    negative or beyond ``num_keys``. On an accelerator the numbers are not read: there a negative
    length hides all keys, and a large one none.
    """
    check_valid_lens(valid_lens, num_keys)
    lens = valid_lens if valid_lens.ndim == 2 else valid_lens[:, None]
    return torch.arange(num_keys, device=lens.device) < lens[..., None]


def real_tokens(valid_lens: Tensor, shape: Shape) -> Tensor:
    """Which tokens of ``shape`` are no padding, with one length a sequence.

    Shape: valid_lens (B,), ``shape`` (B, *, n) -> bool (B, 1, ..., n).

    Errors: as ``length_mask``, and ``ValueError`` unless there is one length a sequence.
    """
    *leading, num_tokens = shape
    real = length_mask(valid_lens, num_tokens)
    if list(valid_lens.shape) != leading[:1]:
        raise ValueError(
            f"valid_lens must have shape {tuple(leading[:1])}, one length a sequence, "
            f"got {tuple(valid_lens.shape)}"
        )
    return real.reshape(*leading[:1], *[1] * (len(leading) - 1), num_tokens)


def causal_mask(
    num_queries: int,
    num_keys: int | None = None,
    *,
    offset: int = 0,
    device: torch.device | str | None = None,
) -> Tensor:
    """Hide the future: query ``i`` sees key ``j`` where ``j <= i + offset``.

    ``offset`` is the number of keys that stand before the first query: when tokens are
    generated one at a time, the new query is not at position 0. ``num_keys`` defaults to
    ``offset + num_queries``.

    Shape: (Q, K).
    """
    check_offset(offset)
    num_keys = offset + num_queries if num_keys is None else num_keys
    queries = torch.arange(offset, offset + num_queries, device=device)
    return torch.arange(num_keys, device=device) <= queries[:, None]


def combine_masks(*masks: Tensor | None) -> Tensor | None:
    """A key is visible where every mask says so; ``None`` hides nothing.

    Shape: any that broadcast together -> their common shape; no mask at all -> ``None``.

    Errors: ``TypeError`` for a mask that is not boolean.
    """
    combined = None
    for mask in masks:
        if mask is not None:
            check_bool(mask)
            combined = mask if combined is None else combined & mask
    return combined


def attention_mask(
    scores_shape: Shape,
    valid_lens: Tensor | None = None,
    mask: Tensor | None = None,
    is_causal: bool = False,
    device: torch.device | str | None = None,
    *,
    offset: int = 0,
) -> Tensor | None:
    """Everything a layer was told about visibility, as one mask for scores (*, Q, K).

    A key is visible where ``valid_lens``, ``mask`` and ``is_causal`` all say so. ``offset`` keys
    stand before the first query: see ``causal_mask``.

    Shape: at least two axes, broadcastable to ``scores_shape``; or ``None``: all visible.
    """
    if device is None:
        device = next((X.device for X in (valid_lens, mask) if isinstance(X, Tensor)), None)
    visible = Visible.of(scores_shape, valid_lens, mask, is_causal, offset, device)
    whole = visible.as_mask(scores_shape, device)
    if whole is None and valid_lens is not None:  # no length hides anything
        whole = valid_lens.new_ones((1,) * len(scores_shape), dtype=torch.bool)
    return whole


def masked_softmax(
    X: Tensor,
    valid_lens: Tensor | None = None,
    *,
    mask: Tensor | None = None,
    is_causal: bool = False,
    offset: int = 0,
) -> Tensor:
    """Softmax over the last axis that gives hidden entries exactly zero weight.

    Shape: X (*, Q, K) scores, valid_lens (B,) or (B, Q), mask bool -> (*, Q, K).

    A query that may attend to nothing gets weights of zero: not NaN (softmax of a row of
    -inf) and not uniform (softmax of a row of -1e6). ``X`` is left as it was. ``is_causal`` and
    ``offset``: see ``causal_mask``.

    Errors: ``TypeError`` unless the scores are floats, and those of ``attention_mask``.

    Source: D2L 11.3.2.1.
    """
    check_floats("X", X)
    return Visible.of(X.shape, valid_lens, mask, is_causal, offset, X.device).softmax(X)


class Visible(NamedTuple):
    """Who sees whom in one call, and which rows take no part.

    Query i sees key j unless the pair is ``hidden`` or, if ``is_causal``, j > i. ``lens`` is there
    where ``hidden`` holds lengths and nothing else. Weight 0 does not silence a row, since 0 times
    NaN is NaN: ``clear`` writes zeros to ``blind`` queries, which see nothing, and to ``unseen``
    keys, which no query sees.

    Shape: hidden bool (*, 1 or Q, K), the opposite of a mask, blind (*, 1 or Q, 1) and unseen
    (*, K, 1), broadcastable to the scores (*, Q, K); lens (B,); ``None`` hides nothing.
    """

    hidden: Tensor | None = None
    is_causal: bool = False
    lens: Tensor | None = None
    blind: Tensor | None = None
    unseen: Tensor | None = None
    offset: int = 0

    @classmethod
    def of(cls, scores_shape, valid_lens=None, mask=None, is_causal=False, offset=0, device=None):
        """What D2L's lengths, a mask, and causality behind ``offset`` keys say together.

        Errors: ``TypeError`` or ``ValueError`` for lengths, a mask or an offset that do not fit.
        """
        if len(scores_shape) < 2:
            raise ValueError(f"scores must have shape (*, Q, K), got {tuple(scores_shape)}")
        offset = check_offset(offset) if offset else 0
        num_queries, num_keys = scores_shape[-2:]
        shortest = num_keys if valid_lens is None else check_lens(valid_lens, scores_shape)
        if mask is not None:
            check_mask(mask, scores_shape)
        # With so few keys even the first query has none in its future.
        is_causal = is_causal and bool(num_keys > offset + 1)
        if mask is None and not is_causal and shortest == num_keys > 0:
            return Visible(offset=offset)
        # One length a sequence and the past have a way of their own, without a (Q, K) matrix. All
        # else becomes a mask, the past behind an offset as well: the kernel's past begins at key 0.
        only_lengths = mask is None and (valid_lens is None or valid_lens.ndim == 1)
        if only_lengths and not (is_causal and offset > 0):
            return cls._by_length(scores_shape, valid_lens, shortest, is_causal, offset, device)
        if valid_lens is not None:
            lens = valid_lens if valid_lens.ndim == 2 else valid_lens[:, None]
            lens = lens.reshape(len(lens), *[1] * (len(scores_shape) - 3), lens.shape[1], 1)
            real = torch.arange(num_keys, device=lens.device) < lens
            mask = real if mask is None else mask & real
        if is_causal:
            past = causal_mask(num_queries, num_keys, offset=offset, device=device)
            mask = past if mask is None else mask & past
        mask = mask[(None,) * (len(scores_shape) - mask.ndim)]
        return cls.by_mask(mask.expand(scores_shape) if 0 in scores_shape else mask, offset)

    @classmethod
    def _by_length(cls, scores_shape, valid_lens, shortest, is_causal, offset, device):
        """What lengths (B,) and causality say, without a (Q, K) matrix."""
        num_queries, num_keys = scores_shape[-2:]
        keys = torch.arange(num_keys, device=device)
        hidden = blind = unseen = None
        if valid_lens is not None:
            lens = valid_lens.reshape(-1, *[1] * (len(scores_shape) - 1))
            hidden = keys >= lens
            unseen = hidden.mT  # the same flags as a column, one for each key's row
            # Key 0 is in nobody's future: no query is blind unless its length is 0.
            blind = lens < 1 if shortest < 1 else None
        elif num_keys == 0:
            blind = torch.ones((1,) * len(scores_shape), dtype=torch.bool, device=device)
        if is_causal and num_keys > num_queries:  # else the last query sees all keys
            later = keys[:, None] >= num_queries
            unseen = later if unseen is None else unseen | later
        return Visible(hidden, is_causal, valid_lens, blind, unseen, offset)

    @classmethod
    def by_mask(cls, mask: Tensor, offset: int = 0) -> "Visible":
        """What a mask (*, Q, K) lets through, and nothing else."""
        hidden = ~mask
        blind, unseen = hidden.all(dim=-1, keepdim=True), hidden.all(dim=-2, keepdim=True).mT
        return Visible(hidden, blind=blind, unseen=unseen, offset=offset)

    @property
    def by_query(self) -> bool:
        """Whether ``hidden`` may differ from query to query. ``is_causal`` does not count."""
        return self.hidden is not None and self.lens is None

    def hidden_and_future(self, scores_shape: Shape, device: Any = None) -> Tensor | None:
        """``hidden``, and the future with it: broadcastable to (*, Q, K), or ``None``.

        Where ``is_causal``, the offset is 0: ``of`` makes a mask of any other past.
        """
        if not self.is_causal:
            return self.hidden
        num_queries, num_keys = scores_shape[-2:]
        keys = torch.arange(num_keys, device=device)
        future = keys > torch.arange(num_queries, device=device)[:, None]
        return future if self.hidden is None else self.hidden | future

    def as_mask(self, scores_shape: Shape, device: Any = None) -> Tensor | None:
        """One mask that says all, broadcastable to (*, Q, K); ``None`` hides nothing."""
        hidden = self.hidden_and_future(scores_shape, device)
        return None if hidden is None else ~hidden

    def clear(self, queries: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Zeros in the rows that take no part. A padded token is no key, but still a query."""
        return clear(queries, self.blind), *self.clear_pairs(keys, values)

    def clear_pairs(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """The same for keys and values. In self-attention they are one tensor: then once."""
        cleared = clear(keys, self.unseen)
        return cleared, cleared if values is keys else clear(values, self.unseen)

    def softmax(self, scores: Tensor) -> Tensor:
        """Weights (*, Q, K), exactly 0 where a key is hidden, and in the row of a blind query."""
        hidden = self.hidden_and_future(scores.shape, scores.device)
        if hidden is None:
            return scores.softmax(dim=-1)
        scores = scores.masked_fill(hidden, -math.inf)
        if self.blind is not None:  # a row of nothing but -inf would be NaN
            scores = scores.masked_fill(self.blind, 0.0)
        return scores.softmax(dim=-1).masked_fill(hidden, 0.0)


def clear(X: Tensor, rows: Tensor | None) -> Tensor:
    """Zeros in these rows of X, (*, n, D); rows bool, broadcastable to (*, n, 1).

    Where they have more heads than X: the rows that take part in no head.
    """
    if rows is None:
        return X
    if rows.ndim > X.ndim:  # (B, 1 or H, n, 1), and X is not split into heads yet
        rows = rows[:, 0] if rows.shape[1] == 1 else rows.all(dim=1)
    elif rows.ndim == 4 and rows.shape[1] > X.shape[1]:
        rows = rows.all(dim=1, keepdim=True)
    return X.masked_fill(rows, 0.0)


def zero_rows(X: Tensor, kept: Tensor | None) -> Tensor:
    """Zeros in all other rows of X, (*, n, D); kept bool, broadcastable to (*, n)."""
    return X if kept is None else clear(X, ~kept.unsqueeze(-1).to(X.device))


def check_attention_inputs(queries: Any, keys: Any, values: Any, *, same_size=False) -> Shape:
    """The shape of the scores, (*, Q, K), of queries (*, Q, D), keys (*, K, D'), values (*, K, V).

    Errors: ``TypeError`` unless all are floats, ``ValueError`` where they do not fit together;
    ``same_size`` asks for D = D'.
    """
    for name, given in (("queries", queries), ("keys", keys), ("values", values)):
        if not isinstance(given, Tensor) or not given.is_floating_point():
            check_floats(name, given)
    shapes = queries.shape, keys.shape, values.shape
    two_axes = queries.ndim >= 2 and keys.ndim >= 2 and values.ndim >= 2
    if not two_axes or not shapes[0][:-2] == shapes[1][:-2] == shapes[2][:-2]:
        what = "share their leading axes" if two_axes else "have at least two axes"
        raise ValueError(f"queries, keys and values must {what}, got {_by_name(shapes)}")
    if shapes[1][-2] != shapes[2][-2]:
        what = "come in pairs (same axis -2)"
        raise ValueError(f"keys and values must {what}, got {_by_name(shapes)}")
    if same_size and shapes[0][-1] != shapes[1][-1]:
        check_same_size(queries, keys)
    return (*shapes[0][:-1], shapes[1][-2])


def _by_name(shapes: tuple[Shape, Shape, Shape]) -> str:
    named = zip(("queries", "keys", "values"), map(tuple, shapes), strict=True)
    return ", ".join(f"{name} {shape}" for name, shape in named)


def check_valid_lens(valid_lens: Any, num_keys: int) -> int:
    """Raise unless ``valid_lens``, (B,) or (B, Q), holds integers from 0 to ``num_keys``.

    Returns the smallest, or -1 where the numbers are not read: see ``is_free_to_read``.
    """
    if not isinstance(valid_lens, Tensor) or valid_lens.dtype not in INTEGERS:
        if isinstance(valid_lens, Tensor):
            actual = f"{valid_lens.dtype}; write valid_lens.long() for int64"
        else:
            actual = type(valid_lens).__name__
        raise TypeError(f"valid_lens must be a tensor of integers, got {actual}")
    if valid_lens.ndim not in (1, 2):
        raise ValueError(
            f"valid_lens must have shape (B,) or (B, Q), got {tuple(valid_lens.shape)}"
        )
    if not is_free_to_read(valid_lens) or 0 in valid_lens.shape:
        return -1
    numbers = valid_lens.flatten().tolist()
    lowest, highest = min(numbers), max(numbers)
    if lowest < 0 or highest > num_keys:
        raise ValueError(
            f"valid_lens must lie between 0 and the number of keys, {num_keys}, "
            f"got values from {lowest} to {highest}"
        )
    return lowest


def check_lens(valid_lens: Any, scores_shape: Shape) -> int:
    """``check_valid_lens``, for lengths that are one a sequence of the scores, or one a query."""
    *leading, num_queries, num_keys = scores_shape
    shortest = check_valid_lens(valid_lens, num_keys)
    fits = bool(leading) and valid_lens.shape[0] == leading[0]
    if not fits or valid_lens.ndim == 2 and valid_lens.shape[1] not in (1, num_queries):
        raise ValueError(
            f"valid_lens {tuple(valid_lens.shape)} does not fit scores of shape "
            f"{tuple(scores_shape)}: expected (B,) or (B, Q)"
        )
    return shortest


def is_free_to_read(X: Tensor) -> bool:
    """Whether its numbers may decide what runs: on the CPU, in no graph and under no ``vmap``.

    Under ``vmap`` a tensor is a wrapper that stands for one row of the tensor in it.
    """
    in_graph = torch.compiler.is_compiling() or torch.jit.is_tracing()
    return X.is_cpu and not in_graph and torch.func.debug_unwrap(X) is X


def check_offset(offset: Any) -> int:
    """Return the number of keys before the first query, if it is one and an int64 can go on."""
    whole = as_whole(offset)
    if whole is None or whole < 0:
        raise ValueError(f"offset must be 0 or more, got {offset}")
    if whole >= 2**62:
        raise ValueError(f"offset must be below 2**62, got {offset}")
    return whole


def check_bool(mask: Any) -> None:
    """Raise unless the mask is boolean: 0/1 floats and additive masks are too easy to mix up."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        actual = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(
            f"mask must be a boolean tensor (True = may attend), got {actual}; "
            "write `mask.bool()` for ones and zeros, `scores_mask == 0` for an additive mask"
        )


def check_mask(mask: Any, scores_shape: Shape) -> None:
    """Raise unless the boolean mask broadcasts, without ambiguity, to the scores' shape."""
    check_bool(mask)
    sizes = zip(reversed(mask.shape), reversed(scores_shape), strict=False)
    one_meaning = mask.ndim in (1, 2, len(scores_shape))
    if not one_meaning or any([size not in (1, expected) for size, expected in sizes]):
        raise ValueError(
            f"mask of shape {tuple(mask.shape)} does not fit scores of shape "
            f"{tuple(scores_shape)}: "
            f"expected (Q, K) or {len(scores_shape)} axes, each of the scores' size or 1"
        )
