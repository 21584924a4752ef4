"""What a head does in real models that combine forms which this course shows one by one."""

from typing import Any

from torch import Tensor

from d2l_attention.attention.masks import Visible, combine_masks
from d2l_attention.variants.grouped import GroupedDotProductAttention, InGroups, repeat_heads
from d2l_attention.variants.masks import sliding_window_mask
from d2l_attention.variants.sinks import SinkAttention


class GroupedSinkAttention(InGroups, SinkAttention):
    """``SinkAttention`` of H heads of queries to fewer heads of keys and values (gpt-oss).

    Shape: queries (B, H, Q, D), keys (B, G, K, D), values (B, G, K, V) -> (B, H, Q, V).
    """

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor, *masks: Any, **options: Any):
        keys, values = (repeat_heads(X, queries.shape[1]) for X in (keys, values))
        return super().attend(queries, keys, values, *masks, **options)


class _Windowed:
    """Before the class that attends: a query sees the last ``window`` tokens, itself included."""

    window: int

    def attend(
        self, queries: Tensor, keys: Tensor, values: Tensor, visible: Visible, *more: Any
    ) -> tuple[Tensor, Tensor | None]:
        sizes, device = (queries.shape[-2], keys.shape[-2]), queries.device
        near = sliding_window_mask(
            *sizes, window=self.window - 1, offset=visible.offset, device=device
        )
        near = combine_masks(visible.as_mask(sizes, device), near)
        near = near[(None,) * (queries.ndim - near.ndim)]
        inside = Visible.by_mask(near, visible.offset)
        return super().attend(*inside.clear(queries, keys, values), inside, *more)


class WindowedGroups(_Windowed, GroupedDotProductAttention):
    """Scaled dot-product attention in groups, within a window (Mistral).

    Shape: as ``GroupedDotProductAttention``. Used with ``is_causal=True``.
    """

    def __init__(self, window: int, dropout: float):
        super().__init__(dropout)
        self.window = window


class WindowedSinks(_Windowed, GroupedSinkAttention):
    """Attention with sinks, in groups, within a window (every other layer of gpt-oss).

    Shape: as ``GroupedSinkAttention``. Used with ``is_causal=True``.
    """

    def __init__(self, window: int, num_heads: int, dropout: float):
        super().__init__(num_heads, dropout)
        self.window = window
