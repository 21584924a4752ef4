"""Memory is linear in the sequence: peaks measured in fresh processes."""

import os
import subprocess
import sys

import pytest

MEASURE = """
import re, sys, torch
from pathlib import Path
from d2l_attention import MultiHeadAttention
torch.set_num_threads(1)
tokens, causal, padded = int(sys.argv[1]), "causal" in sys.argv, "lens" in sys.argv
layer = MultiHeadAttention(128, 2, 0.0)
def step(X):
    lens = torch.tensor([X.shape[1] // 2]) if padded else None
    layer(X, X, X, lens, is_causal=causal).sum().backward()
step(torch.randn(1, 64, 128))  # makes the parameters and wakes the kernels
X = torch.randn(1, tokens, 128, requires_grad=True)
def peak():
    # Not getrusage: its peak is inherited from the process that started this one.
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024
start = peak()
step(X)
print(peak() - start)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")
@pytest.mark.parametrize("options", [(), ("causal",), ("lens",), ("causal", "lens")], ids="+".join)
def test_forward_and_backward_at_8192_tokens(options):
    command = [sys.executable, "-c", MEASURE, "8192", *options]
    # Freed memory goes back at once, so the peak is what is alive, busy machine or not.
    malloc = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
    run = subprocess.run(command, env=malloc, capture_output=True, encoding="utf-8", check=True)
    grown = float(run.stdout)
    # One (8192, 8192) mask of bools would be 64 MiB more, a matrix of floats a head 512.
    assert 0 < grown < 50, f"{grown:.0f} MiB above the start"
