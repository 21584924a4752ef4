"""How fast attention can be on this machine: limited by its arithmetic or by its memory.

Source: Williams, Waterman and Patterson (2009), 'Roofline'.
"""

from dataclasses import dataclass

from d2l_attention.attention.checks import check_divides, check_whole


@dataclass(frozen=True)
class Roofline:
    """What a machine can do at most: operations a second, and bytes a second to memory."""

    flops_per_second: float
    bytes_per_second: float

    @property
    def ridge(self) -> float:
        """Operations a byte from which on arithmetic is the limit."""
        return self.flops_per_second / self.bytes_per_second

    def attainable(self, intensity: float) -> float:
        """Operations a second at ``intensity`` operations a byte: the roof."""
        return min(self.flops_per_second, self.bytes_per_second * intensity)


@dataclass(frozen=True)
class Work:
    """What a computation needs: operations, and bytes that go to or come from memory."""

    flops: float
    bytes: float

    @property
    def intensity(self) -> float:
        return self.flops / self.bytes


def attention_work(
    num_queries: int,
    num_keys: int,
    head_size: int,
    *,
    num_heads: int = 1,
    num_kv_heads: int | None = None,
    batch_size: int = 1,
    is_causal: bool = False,
    fused: bool = True,
    bytes_per_number: int = 4,
) -> Work:
    """Operations and bytes of one forward pass of attention.

    Two products take 2 D operations each for every pair of a query and a key that it sees; the
    softmax's few a pair are not counted. Queries, keys and values are read once, the output is
    written once. Without the fused kernel the matrix of scores passes through memory four times:
    written, read for the softmax, written as weights, read for the average.

    ``num_kv_heads`` is the number of key-value heads (1 = multi-query), ``num_heads`` unless given.
    Decoding with a cache is ``num_queries=1``: one query against all keys. ``is_causal`` takes
    the queries for the last of the tokens and counts no pair with a key of the future.

    Errors: ``ValueError`` for counts below 1, or groups that do not divide the heads.
    """
    num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
    counts = {
        "num_queries": num_queries,
        "num_keys": num_keys,
        "head_size": head_size,
        "num_heads": num_heads,
        "num_kv_heads": num_kv_heads,
        "batch_size": batch_size,
        "bytes_per_number": bytes_per_number,
    }
    for name, count in counts.items():
        check_whole(name, count)
    check_divides("num_kv_heads", num_kv_heads, "num_heads", num_heads)
    if is_causal and num_queries > num_keys:
        raise ValueError(f"is_causal needs a key for each query, got {num_queries} > {num_keys}")
    pairs = num_queries * num_keys
    if is_causal:
        pairs -= num_queries * (num_queries - 1) // 2
    numbers = head_size * (2 * num_queries * num_heads + 2 * num_keys * num_kv_heads)
    if not fused:
        numbers += 4 * num_heads * num_queries * num_keys  # masked or not, it is all there
    flops = 4 * pairs * head_size * num_heads
    return Work(batch_size * flops, batch_size * numbers * bytes_per_number)
