"""``python -m tests.benchmarks.flex``: a window as a mask, as blocks, and in flex_attention.

Chapter 9's times, as multiples of plain attention's. It needs a C++ compiler and takes a minute.
Without ``torch.compile``, ``flex_attention`` forms all scores and saves nothing; on a CPU it is for
the forward pass only.
"""

import time

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from d2l_attention.variants import SlidingWindowAttention
from d2l_attention.variants.masks import sliding_window_mask


def times(n: int = 4096, w: int = 128, rounds: int = 31) -> dict[str, float]:
    """The median of ``rounds`` interleaved rounds, for each form."""

    def near(batch, head, i, j):  # the mask as a function
        return (i - j).abs() <= w

    q, k, v = torch.randn(3, 1, 1, n, 64)
    dense = sliding_window_mask(n, window=w)
    blocks = create_block_mask(near, 1, 1, n, n, device="cpu")
    window, compiled = SlidingWindowAttention(w, dropout=0.0), torch.compile(flex_attention)
    forms = {
        "plain": lambda: F.scaled_dot_product_attention(q, k, v),
        "dense mask": lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=dense),
        "our window": lambda: window(q, k, v),
        "block mask": lambda: compiled(q, k, v, block_mask=blocks),
    }
    took = {name: [] for name in forms}
    for _ in range(rounds + 1):  # the first round compiles
        for name, form in forms.items():
            started = time.process_time()
            with torch.no_grad():
                form()
            took[name].append(time.process_time() - started)
    medians = {name: torch.tensor(spent[1:]) for name, spent in took.items()}
    return {name: (spent / medians["plain"]).median().item() for name, spent in medians.items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, multiple in times().items():
        print(f"{name:12} {multiple:.2f}")
