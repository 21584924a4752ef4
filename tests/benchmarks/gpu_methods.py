"""Multi-head attention of four hands with the same weights, for the benchmark on a GPU."""

import importlib.util

import torch
from torch import nn

from d2l_attention import MultiHeadAttention
from tests.benchmarks.gpu_timing import without_gradients
from tests.benchmarks.other_implementations import ByHand
from tests.d2l_oracle import load_d2l

HIDING = {  # lengths, causal
    "plain": (False, False),
    "lengths": (True, False),
    "causal": (False, True),
    "lengths and causal": (True, True),
}

Call = tuple[nn.Module, tuple, dict]  # a method, its inputs, its options


def multi_head_calls(
    device: torch.device, dtype: torch.dtype, shape: tuple[int, ...], lengths: bool, causal: bool
) -> dict[str, Call]:
    """Of each method, with the same weights: the module, its inputs, its options."""
    batch, n, size, heads = shape
    X = torch.randn(batch, n, size, device=device, dtype=dtype, requires_grad=True)
    lens = torch.randint((n + 1) // 2, n + 1, (batch,)).to(device) if lengths else None
    hand = ByHand(size, heads).to(device, dtype)
    ours = MultiHeadAttention(size, heads, 0.0)
    peer = nn.MultiheadAttention(size, heads, bias=False, batch_first=True).to(device, dtype)
    ours(*[torch.zeros(1, 1, size)] * 3)  # makes the lazy weights
    ours.to(device, dtype).load_state_dict(hand.state_dict())
    with torch.no_grad():
        peer.in_proj_weight.copy_(torch.cat([hand.W_q.weight, hand.W_k.weight, hand.W_v.weight]))
        peer.out_proj.weight.copy_(hand.W_o.weight)
    positions = torch.arange(n, device=device)
    # PyTorch's layer hides where a mask is True.
    hidden = {"need_weights": False}
    if lengths:
        hidden["key_padding_mask"] = positions >= lens[:, None]
    if causal:
        hidden |= {"attn_mask": positions > positions[:, None], "is_causal": True}
    calls = {
        "by hand": (hand, (X, X, X), {"valid_lens": lens, "is_causal": causal}),
        "ours": (ours, (X, X, X), {"valid_lens": lens, "is_causal": causal}),
        "torch": (peer, (X, X, X), hidden),
    }
    if has_d2l():
        book = load_d2l().MultiHeadAttention(size, heads, 0.0)
        book(*[torch.zeros(1, 1, size)] * 3, None)
        book.to(device, dtype).load_state_dict(hand.state_dict())
        rows = lens
        if causal:  # a length for each query
            rows = (positions + 1).expand(batch, n)
            rows = torch.minimum(rows, lens[:, None]) if lengths else rows
        calls["d2l"] = (book, (X, X, X), {"valid_lens": rows})
    return calls


def has_d2l() -> bool:
    return importlib.util.find_spec("d2l") is not None


def differences(calls: dict[str, Call]) -> dict[str, float]:
    """The largest difference of each method's output from the layer by hand."""
    outputs = {}
    for method, (module, inputs, options) in calls.items():
        try:
            output = without_gradients(module, *inputs, **options)()
        except torch.OutOfMemoryError:
            continue
        outputs[method] = output[0] if isinstance(output, tuple) else output
    hand = outputs.pop("by hand", None)
    return {name: (X - hand).abs().max().item() for name, X in outputs.items() if hand is not None}
