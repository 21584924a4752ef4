"""Attention layers and functions against d2l 1.0.3 and against PyTorch written by hand.

Layers by hand share their weights with ours: ``ByHand`` of other_implementations.py.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import nn

from d2l_attention import (
    AdditiveAttention,
    DotProductAttention,
    MultiHeadAttention,
    dot_product_attention,
)
from tests.benchmarks.other_implementations import ByHand
from tests.benchmarks.timing import Row, faster, share
from tests.d2l_oracle import load_d2l

PLAIN, LENGTHS, LENGTHS_AND_CAUSAL = "", "lengths, ", "lengths and causal, "  # what hides keys


WAYS = (PLAIN, LENGTHS, LENGTHS_AND_CAUSAL)


def rows(full: bool) -> Iterator[Row]:
    # Microseconds: checks and zeroed rows show.
    for hides, beside_d2l, of_hand in zip(WAYS, (1.2, 1.35, 1.25), (0.90, 0.85, 0.85), strict=True):
        yield multi_head(2, 10, 100, 5, goal=beside_d2l, hides=hides)
        yield by_hand(2, 10, 100, 5, goal=1 / of_hand, hides=hides)
    for hides, of_hand in zip(WAYS, (0.97, 0.95, 0.95), strict=True):
        yield by_hand(32, 128, 256, 8, goal=1 / of_hand, hides=hides)
    yield multi_head(32, 128, 256, 8, goal=1.5, hides=LENGTHS)
    yield against_torch(32, 128, 256, 8)
    yield by_hand(1, 4096, 512, 8, goal=1 / 0.97, hides=PLAIN)
    for n, goal in ((128, 1.05), (1024, 1.05)):
        yield against_fused(n, goal)
    yield weights_asked(128)
    yield weights_asked(1024)
    yield additive(False, goal=6)
    yield additive(True, goal=4)
    if full:
        yield multi_head(1, 4096, 512, 8, goal=2.4, hides=PLAIN)
        for hides in WAYS:
            yield by_hand(8, 1024, 512, 8, goal=1 / 0.97, hides=hides)
        for hides in (LENGTHS, LENGTHS_AND_CAUSAL):  # plain is in the short table
            yield by_hand(1, 4096, 512, 8, goal=1 / 0.97, hides=hides)
        yield causal_core(False, goal=6)
        yield causal_core(True, goal=5)
        yield against_fused(4096, 1.05)


def learn(module, *inputs, **options) -> None:
    """Forward and backward, with gradients for the inputs."""
    module.zero_grad()
    for tensor in inputs:
        tensor.grad = None
    module(*inputs, **options).sum().backward()


def hidden(batch: int, n: int, hides: str) -> tuple[torch.Tensor | None, bool]:
    """The lengths, None where there are none, and ``is_causal``."""
    lens = None if hides == PLAIN else torch.randint(n // 2, n + 1, (batch,))
    return lens, hides == LENGTHS_AND_CAUSAL


def multi_head(batch: int, n: int, size: int, heads: int, goal: float, hides: str) -> Row:
    book, layer = (
        load_d2l().MultiHeadAttention(size, heads, 0.0),
        MultiHeadAttention(size, heads, 0.0),
    )
    X = torch.randn(batch, n, size, requires_grad=True)
    lens, is_causal = hidden(batch, n, hides)
    options = {"valid_lens": lens, "is_causal": is_causal}
    # The book's layer takes a length for each query.
    past = torch.minimum(torch.arange(1, n + 1), lens[:, None]) if is_causal else lens
    book(X, X, X, past), layer(X, X, X, **options)
    book.load_state_dict(layer.state_dict(), strict=True)
    expected = book(X, X, X, past)
    torch.testing.assert_close(expected, layer(X, X, X, **options), atol=1e-4, rtol=1e-4)
    return faster(
        f"multi-head, {hides}{(batch, n, size, heads)}, with backward / d2l",
        lambda: learn(book, X, X, X, valid_lens=past),
        lambda: learn(layer, X, X, X, **options),
        goal,
    )


def by_hand(batch: int, n: int, size: int, num_heads: int, goal: float, hides: str) -> Row:
    hand, layer = ByHand(size, num_heads), MultiHeadAttention(size, num_heads, 0.0)
    X = torch.randn(batch, n, size, requires_grad=True)
    lens, is_causal = hidden(batch, n, hides)
    options = {"valid_lens": lens, "is_causal": is_causal}
    layer(X, X, X)
    hand.load_state_dict(layer.state_dict(), strict=True)
    expected = hand(X, X, X, **options)
    torch.testing.assert_close(expected, layer(X, X, X, **options), atol=1e-4, rtol=1e-4)
    return share(
        f"multi-head, {hides}{(batch, n, size, num_heads)}, with backward / by hand",
        lambda: learn(layer, X, X, X, **options),
        lambda: learn(hand, X, X, X, **options),
        goal,
    )


def against_torch(batch: int, n: int, size: int, num_heads: int) -> Row:
    """PyTorch's own layer, asked for no weights, on the same lengths."""
    layer = MultiHeadAttention(size, num_heads, 0.0)
    peer = nn.MultiheadAttention(size, num_heads, bias=False, batch_first=True)
    X = torch.randn(batch, n, size, requires_grad=True)
    lens = torch.randint(n // 2, n + 1, (batch,))
    layer(X, X, X, lens)
    state = layer.state_dict()
    with torch.no_grad():
        peer.in_proj_weight.copy_(torch.cat([state[f"W_{name}.weight"] for name in "qkv"]))
        peer.out_proj.weight.copy_(state["W_o.weight"])

    def theirs():
        padding = torch.arange(n) >= lens[:, None]
        return peer(X, X, X, key_padding_mask=padding, need_weights=False)[0]

    def ours():
        return layer(X, X, X, lens)

    def step(module, forward):
        module.zero_grad()
        X.grad = None
        forward().sum().backward()

    torch.testing.assert_close(theirs(), ours(), atol=1e-4, rtol=1e-4)
    return share(
        f"multi-head, lengths, {(batch, n, size, num_heads)} / torch.nn.MultiheadAttention",
        lambda: step(layer, ours),
        lambda: step(peer, theirs),
        1.05,
    )


def heads(n: int, batch: int = 1, num_heads: int = 8, size: int = 64) -> list[torch.Tensor]:
    return [torch.randn(batch, num_heads, n, size, requires_grad=True) for _ in range(3)]


def causal_core(backward: bool, goal: float, n: int = 4096) -> Row:
    book, layer = load_d2l().DotProductAttention(0.0), DotProductAttention(0.0)
    inputs = [X.detach()[0].requires_grad_(backward) for X in heads(n)]
    past = torch.arange(1, n + 1).repeat(len(inputs[0]), 1)
    with torch.no_grad():
        expected, output = book(*inputs, past), layer(*inputs, is_causal=True)
        torch.testing.assert_close(expected, output, atol=1e-5, rtol=1e-4)

    def peer():
        learn(book, *inputs, valid_lens=past) if backward else book(*inputs, past)

    def ours():
        if backward:
            learn(layer, *inputs, is_causal=True)
        else:
            layer(*inputs, is_causal=True)

    what = f"causal core, {n} tokens, {'with backward' if backward else 'forward'} / d2l"
    return faster(what, peer, ours, goal)


def against_fused(n: int, goal: float) -> Row:
    inputs = [X.detach() for X in heads(n)]
    return share(
        f"causal core, {n} tokens, forward / fused PyTorch by hand",
        lambda: dot_product_attention(*inputs, is_causal=True),
        lambda: F.scaled_dot_product_attention(*inputs, is_causal=True),
        goal,
    )


def weights_asked(n: int) -> Row:
    inputs = [X.detach() for X in heads(n)]
    return share(
        f"weights asked for, {n} tokens / fused without",
        lambda: dot_product_attention(*inputs, need_weights=True),
        lambda: F.scaled_dot_product_attention(*inputs),
        2.2,
    )


def additive(backward: bool, goal: float, batch: int = 8, n: int = 128, size: int = 256) -> Row:
    book, layer = load_d2l().AdditiveAttention(size, 0.0), AdditiveAttention(size, 0.0)
    inputs = [torch.randn(batch, n, size, requires_grad=True) for _ in range(3)]
    lens = torch.full((batch,), n)
    book(*inputs, lens), layer(*inputs, lens)
    book.load_state_dict(layer.state_dict(), strict=True)

    def step(module):
        if backward:
            learn(module, *inputs, valid_lens=lens)
        else:
            with torch.no_grad():
                module(*inputs, lens)

    what = f"additive, {(batch, n, n, size)}, {'with backward' if backward else 'forward'} / d2l"
    return faster(what, lambda: step(book), lambda: step(layer), goal)
