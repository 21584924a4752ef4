"""What a process needs: memory at its peak, seconds to import. Each in fresh processes."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.timing import ROUNDS, Row

ROOT = Path(__file__).resolve().parents[2]  # from where tests and d2l_attention are found
PEAK = """
import sys, torch
from tests.benchmarks.footprint import peak
from d2l_attention import AdditiveAttention, MultiHeadAttention
torch.set_num_threads(1)
kind, tokens = sys.argv[1], int(sys.argv[2])
heads, pairs = MultiHeadAttention(512, 8, 0.0), AdditiveAttention(256, 0.0)
def act(n):
    if kind == "pairs":
        X = torch.randn(1, n, 256)
        with torch.no_grad():
            pairs(X, X, X)
    elif kind == "forward":
        with torch.no_grad():
            X = torch.randn(1, n, 512)
            start = peak()
            heads(X, X, X)
            return start
    else:
        X = torch.randn(1, n, 512, requires_grad=True)
        start = peak()
        heads(X, X, X).sum().backward()
        return start
act(64)  # makes the parameters and wakes the kernels
before = peak()
start = act(tokens) or before
print(peak() - start)
"""
IMPORT = """
import time
import torch
start = time.process_time()
import d2l_attention
print(time.process_time() - start)
"""


def rows(full: bool) -> Iterator[Row]:
    yield imports()
    if not sys.platform.startswith("linux"):
        return
    yield memory("forward", 16_384, 160)
    yield memory("with backward", 8_192, 160)
    if full:
        yield doubling("forward", 16_384)
        yield doubling("with backward", 8_192)
        yield memory("pairs", 1_024, 25, "additive, 1,024 x 1,024 x 256")


def peak() -> float:
    """The largest resident set of this process so far, in MiB."""
    # Not getrusage: its peak is inherited from the process that started this one.
    status = Path("/proc/self/status").read_text("utf-8")
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024


def fresh(code: str, *arguments) -> float:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True, cwd=ROOT)
    return float(done.stdout)


def memory(kind: str, tokens: int, goal: float, what: str | None = None) -> Row:
    what = what or f"multi-head, 512 wide, {tokens:,} tokens, {kind}"
    return Row(f"memory: {what}", [fresh(PEAK, kind, tokens)], goal, most=True, unit="MiB")


def doubling(kind: str, tokens: int) -> Row:
    grown = fresh(PEAK, kind, 2 * tokens) / fresh(PEAK, kind, tokens)
    return Row(f"memory: {tokens:,} tokens doubled, {kind}", [grown], 2.2, most=True, unit="times")


def imports() -> Row:
    measured = [fresh(IMPORT) for _ in range(ROUNDS)]
    return Row("import d2l_attention, beyond torch", measured, 0.1, most=True, unit="seconds")
