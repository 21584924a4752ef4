"""Who sees whom in one call of attention: worked out once, used at every step of the call."""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from d2l_attention.attention._checks import check_lens_shape, check_valid_lens
from d2l_attention.attention.masks import attention_mask, causal_mask, combine_masks


@dataclass(frozen=True, eq=False)
class Visibility:
    """What ``valid_lens``, ``mask`` and ``is_causal`` say together, for scores (*, Q, K).

    The keys behind the first ``longest`` are seen by no query: they are cut off, and the masks
    here are those of the keys that stay. ``mask`` says everything where there was a mask or
    there were lengths (B, Q); otherwise ``lengths``, (B, ..., 1, longest), hides the padding,
    ``is_causal`` the future, and there is no matrix.

    ``seeing`` and ``seen`` tell which queries see anything and which keys are seen by any
    query. Shape: they broadcast to (*, Q) and (*, longest). ``None`` is always 'all'.
    """

    shape: tuple[int, ...]
    longest: int
    mask: Tensor | None
    lengths: Tensor | None
    is_causal: bool
    seeing: Tensor | None
    seen: Tensor | None

    def matrix(self, device: torch.device | str | None = None) -> Tensor | None:
        """Everything as one mask that broadcasts to (*, Q, longest)."""
        if not self.is_causal:
            return self.lengths if self.mask is None else self.mask
        return combine_masks(self.lengths, causal_mask(self.shape[-2], self.longest, device=device))

    def clear(self, queries: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        """The rows that take part, the others cut off or filled with zeros.

        Shape: queries (*, Q, D), keys (*, K, D'), values (*, K, V) -> K is now ``longest``.
        """
        return self.clear_queries(queries), *self.clear_pairs(keys, values)

    def clear_queries(self, queries: Tensor) -> Tensor:
        return clear(queries, self.seeing)

    def clear_pairs(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        one = keys is values  # as in self-attention: then once is enough
        keys = clear(self.cut(keys, axis=-2), self.seen)
        return keys, keys if one else clear(self.cut(values, axis=-2), self.seen)

    def any_head(self) -> "Visibility":
        """The same for inputs (B, n, D) of all heads: what takes part in one head takes part."""
        if self.seen is None or self.seen.ndim < 3:
            return self
        seeing = None if self.seeing is None else self.seeing.any(dim=1)
        return replace(self, seeing=seeing, seen=self.seen.any(dim=1))

    def cut(self, X: Tensor | None, axis: int = -1) -> Tensor | None:
        """``X`` without the keys that nobody sees; an axis of 1 serves any number of keys."""
        if X is None or X.shape[axis] in (1, self.longest):
            return X
        return X.narrow(axis, 0, self.longest)

    def widen(self, weights: Tensor) -> Tensor:
        """Weights (*, Q, longest) as (*, Q, K): keys that were cut off have weight 0."""
        missing = self.shape[-1] - self.longest
        return F.pad(weights, (0, missing)) if missing else weights  # a pad of 0 would copy


def visibility(
    scores_shape: tuple[int, ...],
    valid_lens: Tensor | None = None,
    mask: Tensor | None = None,
    is_causal: bool = False,
    device: torch.device | str | None = None,
) -> Visibility:
    """Check and combine what a layer was told about visibility; errors as ``attention_mask``."""
    *leading, num_queries, num_keys = scores_shape
    shortest, longest = num_keys, num_keys
    if valid_lens is not None:
        shortest, longest = check_valid_lens(valid_lens, num_keys)
        check_lens_shape(valid_lens, tuple(scores_shape))
    if is_causal:
        longest = min(longest, num_queries)
    # One key stays where there are any: what follows need not know of empty axes.
    longest = min(max(longest, 1), num_keys)

    if mask is not None or (valid_lens is not None and valid_lens.ndim == 2):
        whole = attention_mask(scores_shape, valid_lens, mask, is_causal, device)
        whole = whole[..., :longest] if whole.shape[-1] > longest else whole
        seeing, seen = whole.any(dim=-1), whole.any(dim=-2)
        return Visibility(tuple(scores_shape), longest, whole, None, False, seeing, seen)
    lengths = None
    if shortest < longest:
        # (B,) -> (B, ..., 1, 1), beside the positions of the keys that stay.
        positions = torch.arange(longest, device=valid_lens.device)
        lengths = positions < valid_lens.reshape(-1, *[1] * (len(leading) + 1))
    # Key 0 is in nobody's future, so a query sees something unless its length is 0.
    seeing = lengths.any(dim=-1) if shortest == 0 and lengths is not None else None
    # The last query sees the most: all that is left, but for padding.
    seen = None if lengths is None else lengths[..., 0, :]
    return Visibility(tuple(scores_shape), longest, None, lengths, is_causal, seeing, seen)


def clear(rows: Tensor, kept: Tensor | None) -> Tensor:
    """Zeros in the rows that take no part. Weight 0 is not enough: 0 times NaN is NaN.

    Shape: rows (*, n, D), kept bool, broadcastable to (*, n) -> (*, n, D).
    """
    return rows if kept is None else rows.masked_fill(~kept.unsqueeze(-1), 0.0)
