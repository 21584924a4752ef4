"""Patterns cost what they see: peak memory, measured in a fresh process."""

import subprocess
import sys

import pytest

MEASURE = """
import re, sys, torch
from pathlib import Path
from d2l_attention.variants import *
torch.set_num_threads(1)
forms = {
    "window": lambda *X: sliding_window_attention(*X, window=128, is_causal=causal),
    "dilated": lambda *X: sliding_window_attention(*X, window=64, dilation=3, is_causal=causal),
    "global": lambda *X: global_local_attention(*X, window=128, num_global=3, is_causal=causal),
    "bigbird": lambda *X: bigbird_attention(
        *X, block_size=64, window=1, num_global=1, num_random=2, seed=0, is_causal=causal
    ),
}
def step(tokens):
    inputs = torch.randn(3, 1, 1, tokens, 64, requires_grad=True)
    form(*inputs.unbind()).sum().backward()
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024
causal = False  # twice the keys
for form in forms.values():
    step(64)
start = peak()
for form in forms.values():
    step(16384)
print(peak() - start)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")
def test_memory_forward_and_backward_at_16384_tokens():
    command = [sys.executable, "-c", MEASURE]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    # A (16384, 16384) mask alone would be 256 MiB, its scores 1,024 MiB.
    assert 0 < float(run.stdout) < 250, f"{run.stdout} MiB above the start"
