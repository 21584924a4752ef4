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
    "window": SlidingWindowAttention(128, 0.0),
    "dilated": SlidingWindowAttention(64, 0.0, dilation=3),
    "global": GlobalLocalAttention(128, 3, 0.0),
    "bigbird": BigBirdAttention(64, 1, 1, 2, 0.0, seed=0),
}
def step(tokens):
    inputs = torch.randn(3, 1, 1, tokens, 64, requires_grad=True)
    form(*inputs.unbind(), is_causal=causal).sum().backward()
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
    run = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    # A (16384, 16384) mask alone would be 256 MiB, its scores 1,024 MiB.
    assert 0 < float(run.stdout) < 250, f"{run.stdout} MiB above the start"
