"""Who sees whom in a window, with global tokens and in BigBird, as masks: True = may attend."""

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from d2l_attention.attention.checks import check_whole
from d2l_attention.attention.masks import check_bool, check_offset


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
    offset = check_offset(offset)
    num_keys = offset + num_queries if num_keys is None else num_keys
    # No token is further away than all tokens: an int64 holds that.
    num_tokens = max(num_keys, offset + num_queries, 1)
    window = min(check_whole("window", window, 0), num_tokens)
    dilation = min(check_whole("dilation", dilation, 1), num_tokens)
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
    block_size = min(check_whole("block_size", block_size, 1), max(num_tokens, 1))
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

    Shape: (blocks, num_global + 2 * window + 1 + num_random at most) numbers of blocks, none twice
    in a row, -1 where there is none. Memory is linear in the number of blocks. With random links
    there is a number to draw for each pair of blocks: that time is quadratic, if short.

    Errors: ``ValueError`` for a window or number below 0.
    """
    window = min(check_whole("window", window, 0), num_blocks)
    num_global = min(check_whole("num_global", num_global, 0), num_blocks)
    check_whole("num_random", num_random, 0)
    block = torch.arange(num_blocks, device="cpu")
    beside = block[:, None] + torch.arange(-window, window + 1, device="cpu")
    beside = beside.masked_fill((beside < num_global) | (beside >= num_blocks), -1)
    first = block[:num_global].expand(num_blocks, -1)
    if num_random == 0 or num_blocks == 0:
        return torch.cat((first, beside), dim=1)
    # What writes down a graph (torch.export, jit.trace) would write the drawing into it, and each
    # run of the graph would draw other links. It follows one thread: in a second one they are drawn
    # now, and the graph holds them as numbers.
    sizes = int(num_blocks), int(window), int(num_global), num_random
    with ThreadPoolExecutor(1) as elsewhere:
        random = elsewhere.submit(draw_links, *sizes, seed).result()
    return torch.cat((first, beside, torch.tensor(random, device="cpu")), dim=1)


def draw_links(
    num_blocks: int, window: int, num_global: int, num_random: int, seed: int
) -> list[list[int]]:
    """The random links of each block, as ``draw_unseen`` draws them with this seed."""
    generator = torch.Generator().manual_seed(seed)
    sizes = num_blocks, window, num_global, num_random
    # A few rows at a time: of long texts (blocks, blocks) numbers would be the largest tensor.
    rows = torch.arange(num_blocks, device="cpu").split(64)
    return torch.cat([draw_unseen(each, *sizes, generator) for each in rows]).tolist()


def draw_unseen(
    rows: Tensor,
    num_blocks: int,
    window: int,
    num_global: int,
    num_random: int,
    generator: torch.Generator,
) -> Tensor:
    """For each of these blocks ``num_random`` others that it does not see yet, -1 if none is left.

    The largest of random numbers, those of seen blocks set below all others. Shape: (r,) ->
    (r, num_random at most).
    """
    block = torch.arange(num_blocks, device="cpu")
    seen = (block < num_global) | near(rows[:, None], block, window)
    # In one dtype, whatever the default is: another one would draw other links.
    lots = torch.rand(len(rows), num_blocks, generator=generator, device="cpu", dtype=torch.float32)
    lots, random = lots.masked_fill(seen, -1.0).topk(min(num_random, num_blocks))
    return random.masked_fill(lots < 0, -1)
