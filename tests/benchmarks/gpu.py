"""Attention on a GPU: ``python -m tests.benchmarks.gpu``. Not tried yet: no GPU was at hand.

Multi-head attention in bfloat16, 1,024 wide, 16 heads, from 1k to 64k tokens. Seconds are taken by
CUDA events; operations are given as a share of a large matrix product's, in the same run.
"""

import statistics
import sys
from collections.abc import Callable

import torch

from d2l_attention import MultiHeadAttention

LENGTHS = [2**power for power in range(10, 17)]
SIZE, HEADS, SQUARE, ROUNDS = 1024, 16, 8192, 7


def seconds(act: Callable[[], object]) -> float:
    """The median of some rounds, by events in the GPU's own queue."""
    act()  # wakes the kernels
    spent = []
    for _ in range(ROUNDS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        act()
        end.record()
        torch.cuda.synchronize()
        spent.append(start.elapsed_time(end) / 1000)
    return statistics.median(spent)


def operations(n: int, *, causal: bool, backward: bool) -> float:
    """Additions and multiplications: four projections, scores and averages of the values."""
    pairs = n * n / 2 if causal else n * n
    return (3 if backward else 1) * (8 * n * SIZE**2 + 4 * pairs * SIZE)


def main() -> None:
    if not torch.cuda.is_available():
        sys.exit("gpu.py: no CUDA device here; `make bench` is the benchmark for the CPU")
    options = {"device": "cuda", "dtype": torch.bfloat16}
    matrix = torch.randn(SQUARE, SQUARE, **options)
    peak = 2 * SQUARE**3 / seconds(lambda: matrix @ matrix)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    print(f"matrix product, {SQUARE} x {SQUARE}: {peak / 1e12:.0f} TFLOP/s\n")
    print("tokens    causal  forward ms  of peak   with backward ms  of peak   peak MiB")
    layer = MultiHeadAttention(SIZE, HEADS, 0.0)
    layer(*[torch.zeros(1, 1, SIZE)] * 3)  # makes the lazy weights
    layer.to(**options)
    for n in LENGTHS:
        X = torch.randn(1, n, SIZE, **options, requires_grad=True)
        for causal in (False, True):

            def forward(X=X, causal=causal):
                with torch.no_grad():
                    layer(X, X, X, is_causal=causal)

            def both(X=X, causal=causal):
                layer.zero_grad()
                X.grad = None
                layer(X, X, X, is_causal=causal).sum().backward()

            torch.cuda.reset_peak_memory_stats()
            once, there_and_back = seconds(forward), seconds(both)
            share, share_back = (
                operations(n, causal=causal, backward=backward) / spent / peak
                for backward, spent in ((False, once), (True, there_and_back))
            )
            print(
                f"{n:6d}    {causal!s:6}  {once * 1e3:10.2f}  {share:7.0%}   "
                f"{there_and_back * 1e3:16.2f}  {share_back:7.0%}   "
                f"{torch.cuda.max_memory_allocated() / 2**20:8.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
