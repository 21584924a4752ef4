"""Who may attend to whom, as boolean tensors: True means 'may attend'.

The same convention as ``torch.nn.functional.scaled_dot_product_attention``. A mask
broadcasts to the scores, (*, Q, K): letters as in ``functional.py``.
"""

import torch
from torch import Tensor

from d2l_attention.checks import check_valid_lens


def length_mask(valid_lens: Tensor, num_keys: int) -> Tensor:
    """Hide the padding: key ``j`` is visible where ``j < valid_lens``.

    Shape: valid_lens (B,) -> (B, 1, K), one length a sequence;
    (B, Q) -> (B, Q, K), one length a query.

    Errors: ``TypeError`` unless the lengths are integers, ``ValueError`` where one is
    negative or beyond ``num_keys``.
    """
    check_valid_lens(valid_lens, num_keys)
    positions = torch.arange(num_keys, device=valid_lens.device)
    lens = valid_lens if valid_lens.ndim == 2 else valid_lens[:, None]
    return positions < lens[..., None]


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
    if offset < 0:
        raise ValueError(f"offset must be 0 or more, got {offset}")
    num_keys = offset + num_queries if num_keys is None else num_keys
    queries = torch.arange(num_queries, device=device)[:, None]
    return torch.arange(num_keys, device=device) <= queries + offset


def sliding_window_mask(
    num_queries: int,
    num_keys: int | None = None,
    *,
    window: int,
    dilation: int = 1,
    offset: int = 0,
    device: torch.device | str | None = None,
) -> Tensor:
    """Hide what is far: a query sees itself and ``window`` neighbours on each side.

    Query ``i`` stands at position ``i + offset``. Its neighbours are ``dilation`` apart: it sees
    key ``j`` where ``|j - i - offset| <= window * dilation`` and the distance is a multiple of
    ``dilation``. Combined with ``causal_mask`` that leaves ``window + 1`` keys.

    Shape: (Q, K); ``num_keys`` defaults to ``offset + num_queries``.

    Errors: ``ValueError`` for a window or offset below 0, or a dilation below 1.

    Source: Beltagy, Peters and Cohan (2020), Longformer, section 3.1.
    """
    check_whole("window", window, 0)
    check_whole("dilation", dilation, 1)
    check_whole("offset", offset, 0)
    num_keys = offset + num_queries if num_keys is None else num_keys
    i = torch.arange(offset, offset + num_queries, device=device)[:, None]
    j = torch.arange(num_keys, device=device)
    # Comparisons alone: a (Q, K) matrix of distances would take eight times the memory.
    return near(i, j, window * dilation) & (j % dilation == i % dilation)


def near(i: Tensor, j: Tensor, reach: int) -> Tensor:
    """Whether positions ``i`` and ``j``, which broadcast together, are ``reach`` apart or less."""
    return (i - reach <= j) & (j <= i + reach)


def global_tokens_mask(is_global: Tensor) -> Tensor:
    """Some tokens see all others and are seen by all others.

    Another mask gives what the other tokens see: ``local | global_tokens_mask(is_global)``.

    Shape: bool (n,) -> (n, n), True where the query or the key is global.

    Errors: ``TypeError`` unless boolean, ``ValueError`` unless of one axis.

    Source: Beltagy, Peters and Cohan (2020), Longformer, section 3.1.
    """
    check_bool(is_global)
    if is_global.ndim != 1:
        raise ValueError(f"is_global must have shape (n,), got {tuple(is_global.shape)}")
    return is_global[:, None] | is_global


def bigbird_mask(
    num_tokens: int, *, block_size: int, window: int, num_global: int, num_random: int, seed: int
) -> Tensor:
    """BigBird's three kinds of links, between blocks of ``block_size`` tokens.

    A block sees itself and ``window`` blocks on each side; the first ``num_global`` blocks see
    all and are seen by all; and every other block sees ``num_random`` blocks more, drawn from
    those it does not see yet. Where fewer are left, it sees them all. Another number of blocks
    gives other random links.

    Shape: (n, n).

    Errors: as ``bigbird_blocks``, and ``ValueError`` for a block size below 1.

    Source: Zaheer et al. (2020), BigBird, section 2.
    """
    check_whole("block_size", block_size, 1)
    num_blocks = -(-num_tokens // block_size)  # the last block may be shorter
    table = bigbird_blocks(
        num_blocks, window=window, num_global=num_global, num_random=num_random, seed=seed
    )
    # One column more collects the -1, which Python takes for the last.
    blocks = torch.zeros(num_blocks, num_blocks + 1, dtype=torch.bool, device="cpu")
    blocks[torch.arange(num_blocks, device="cpu")[:, None], table] = True
    blocks[:num_global] = True
    tokens = blocks[:, :-1].repeat_interleave(block_size, 0).repeat_interleave(block_size, 1)
    return tokens[:num_tokens, :num_tokens]


def bigbird_blocks(
    num_blocks: int, *, window: int, num_global: int, num_random: int, seed: int
) -> Tensor:
    """Which blocks each block sees in ``bigbird_mask``; the global blocks see all the others, too.

    Shape: (blocks, num_global + 2 * window + 1 + num_random) numbers of blocks, none twice in a
    row, -1 where there is none.

    Errors: ``ValueError`` for a window or number below 0.
    """
    check_whole("window", window, 0)
    check_whole("num_global", num_global, 0)
    check_whole("num_random", num_random, 0)
    block = torch.arange(num_blocks, device="cpu")
    beside = block[:, None] + torch.arange(-window, window + 1, device="cpu")
    beside = beside.masked_fill((beside < num_global) | (beside >= num_blocks), -1)
    first = block[:num_global].expand(num_blocks, -1)
    seen = (block < num_global) | near(block[:, None], block, window)
    # The largest of random numbers, those of seen blocks set below all others.
    generator = torch.Generator().manual_seed(seed)
    lots = torch.rand(num_blocks, num_blocks, generator=generator, device="cpu")
    lots, random = lots.masked_fill(seen, -1.0).topk(min(num_random, num_blocks))
    return torch.cat((first, beside, random.masked_fill(lots < 0, -1)), dim=1)


def combine_masks(*masks: Tensor | None) -> Tensor | None:
    """A key is visible where every mask says so; ``None`` hides nothing.

    Shape: any that broadcast together -> their common shape; no mask at all -> ``None``.

    Errors: ``TypeError`` for a mask that is not boolean.
    """
    given = [mask for mask in masks if mask is not None]
    for mask in given:
        check_bool(mask)
    combined = None
    for mask in given:
        combined = mask if combined is None else combined & mask
    return combined


def check_whole(name: str, number: int, lowest: int) -> None:
    """Raise unless the argument ``name`` is a whole number, ``lowest`` or more."""
    if not isinstance(number, int) or number < lowest:
        raise ValueError(f"{name} must be a whole number from {lowest} on, got {number!r}")


def check_bool(mask: Tensor) -> None:
    """Raise unless the mask is boolean: 0/1 floats and additive masks are too easy to mix up."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        actual = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(
            f"mask must be a boolean tensor (True = may attend), got {actual}; "
            "write `mask.bool()` for ones and zeros, `scores_mask == 0` for an additive mask"
        )


def attention_mask(
    scores_shape: tuple[int, ...],
    valid_lens: Tensor | None = None,
    mask: Tensor | None = None,
    is_causal: bool = False,
    device: torch.device | str | None = None,
) -> Tensor | None:
    """Everything a layer was told about visibility, as one mask for scores (*, Q, K).

    ``valid_lens`` counts along the first axis of the scores, B. A ``mask`` is (K,), (Q, K) or
    has as many axes as the scores: with scores (B, H, Q, K) a mask of three axes could mean
    batch or heads, so it is refused.

    Shape: at least two axes, broadcastable to ``scores_shape``; or ``None``: all visible.
    """
    if len(scores_shape) < 2:
        raise ValueError(f"scores must have shape (*, Q, K), got {tuple(scores_shape)}")
    *leading, num_queries, num_keys = scores_shape
    if mask is not None:
        check_mask_shape(mask, tuple(scores_shape))
        mask = mask[None] if mask.ndim == 1 else mask
    lengths = None
    if valid_lens is not None:
        lengths = length_mask(valid_lens, num_keys)
        check_lens_shape(valid_lens, tuple(scores_shape))
        lengths = lengths.reshape(lengths.shape[0], *[1] * (len(leading) - 1), *lengths.shape[1:])
    causal = causal_mask(num_queries, num_keys, device=device) if is_causal else None
    return combine_masks(mask, lengths, causal)


def check_lens_shape(valid_lens: Tensor, scores_shape: tuple[int, ...]) -> None:
    """Raise unless the lengths are one a sequence of the scores, or one a query."""
    *leading, num_queries, _ = scores_shape
    fits = bool(leading) and valid_lens.shape[0] == leading[0]
    if not fits or valid_lens.ndim == 2 and valid_lens.shape[1] not in (1, num_queries):
        raise ValueError(
            f"valid_lens {tuple(valid_lens.shape)} does not fit scores of shape {scores_shape}: "
            "expected (B,) or (B, Q)"
        )


def check_mask_shape(mask: Tensor, scores_shape: tuple[int, ...]) -> None:
    """Raise unless the boolean mask broadcasts, without ambiguity, to the scores' shape."""
    check_bool(mask)
    sizes = zip(reversed(mask.shape), reversed(scores_shape), strict=False)
    one_meaning = mask.ndim in (1, 2, len(scores_shape))
    if not one_meaning or any(size not in (1, expected) for size, expected in sizes):
        raise ValueError(
            f"mask of shape {tuple(mask.shape)} does not fit scores of shape {scores_shape}: "
            f"expected (Q, K) or {len(scores_shape)} axes, each of the scores' size or 1"
        )
