"""How much code a call of a layer runs through, and how many operations reach the device.

A student reads ``MultiHeadAttention.forward`` and follows one call to its end: few lines, few
calls, few files. And what is checked, resolved or cleared twice shows up as operations that the
same layer written by hand does not have.
"""

import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import d2l_attention
from d2l_attention import MultiHeadAttention
from tests.benchmarks.other_implementations import ByHand

B, N, D, H = 2, 11, 15, 3
PACKAGE = str(Path(d2l_attention.__file__).parent)
LENS = torch.tensor([N, 6])
MASK = torch.arange(B * N * N).reshape(B, N, N) % 3 > 0
# Lines and calls of ours at most.
LIMITS = {
    "plain": ({}, 80, 20),
    "causal": ({"is_causal": True}, 115, 32),
    "lengths": ({"valid_lens": LENS}, 115, 32),
    "lengths and causal": ({"valid_lens": LENS, "is_causal": True}, 115, 32),
    "a mask": ({"mask": MASK}, 115, 32),
    "weights": ({"need_weights": True}, 115, 32),
    "all": ({"valid_lens": LENS, "is_causal": True, "mask": MASK, "need_weights": True}, 115, 32),
}
# Operations more than by hand, at most: forward and backward.
MORE = {"plain": 2, "causal": 2, "lengths": 8, "lengths and causal": 10}


def traced(call):
    """The lines, calls and files of the package that a call runs through."""
    lines, calls = set(), []

    def see(frame, event, argument):
        file = frame.f_code.co_filename
        if not file.startswith(PACKAGE):
            return None
        if event == "call":
            calls.append(frame.f_code.co_qualname)
        if event == "line":
            lines.add((file, frame.f_lineno))
        return see

    before = sys.gettrace()
    sys.settrace(see)
    try:
        call()
    finally:
        sys.settrace(before)
    return len(lines), len(calls), {file for file, _ in lines}


class Operations(TorchDispatchMode):
    """Counts what reaches the device, views left out."""

    def __init__(self):
        super().__init__()
        self.seen = Counter()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        aten = torch.ops.aten
        is_view = operation.is_view or operation in (aten._unsafe_view.default, aten.detach.default)
        self.seen[str(operation)] += not is_view
        return operation(*args, **(kwargs or {}))


def heads():
    layer = MultiHeadAttention(D, H, 0.0)
    layer(*[torch.zeros(1, 1, D)] * 3)
    return layer


@pytest.mark.parametrize("way", LIMITS)
def test_a_call_can_be_read(way):
    options, most_lines, most_calls = LIMITS[way]
    layer, X = heads(), torch.randn(B, N, D)
    layer(X, X, X, **options)
    lines, calls, files = traced(lambda: layer(X, X, X, **options))
    assert lines <= most_lines and calls <= most_calls and len(files) <= 4, (lines, calls, files)


@pytest.mark.parametrize("same", [True, False], ids=["self-attention", "cross-attention"])
@pytest.mark.parametrize("lens", [[N, 6], [N, 0]], ids=["padded", "an empty sentence"])
@pytest.mark.parametrize("way", MORE)
def test_hardly_more_operations_than_by_hand(way, lens, same):
    options = dict(LIMITS[way][0])
    if "valid_lens" in options:
        options["valid_lens"] = torch.tensor(lens)
    ours, by_hand = heads(), ByHand(D, H)
    X = torch.randn(B, N, D, requires_grad=True)
    inputs = (X, X, X) if same else (X, *(torch.randn(B, N, D, requires_grad=True) for _ in "kv"))
    counts = []
    for layer in (ours, by_hand):
        layer(*inputs, **options)
        with Operations() as counted:
            layer(*inputs, **options).sum().backward()
        counts.append(counted.seen)
    more = counts[0].total() - counts[1].total()
    assert more <= MORE[way], (counts[0] - counts[1], counts[1] - counts[0])
