"""Memory is linear in the sequence: peaks measured in fresh processes."""

import subprocess
import sys

import pytest

MEASURE = """
import re, torch
from pathlib import Path
from d2l_attention import MultiHeadAttention
torch.set_num_threads(1)
layer = MultiHeadAttention(128, 2, 0.0)
def step(tokens):
    X = torch.randn(1, tokens, 128, requires_grad=True)
    lens = torch.tensor([tokens // 2])
    for valid_lens in (None, lens):
        for is_causal in (False, True):
            layer(X, X, X, valid_lens, is_causal=is_causal).sum().backward()
def peak():
    # Not getrusage: its peak is inherited from the process that started this one.
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024
step(64)  # makes the parameters and wakes the kernels
start = peak()
step(5120)
print(peak() - start)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")
def test_forward_and_backward_at_5120_tokens():
    """With all keys, a length, the future hidden, and both."""
    command = [sys.executable, "-c", MEASURE]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    grown = float(run.stdout)
    # A mask of (5120, 5120) would be 25 MiB, the scores of each of the 2 heads 100 MiB.
    assert 0 < grown < 90, f"{grown:.0f} MiB above the start"
