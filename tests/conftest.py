"""What every test runs under: one torch thread, a fixed seed, no clock."""

import os
import signal

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)

# In the background of a shell Ctrl-C is ignored, by all that is started from there as well: the
# tests that press it need it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# On a machine with a GPU: D2L_ATTENTION_TEST_DEVICE=cuda pytest tests -k "not browser"
if "D2L_ATTENTION_TEST_DEVICE" in os.environ:
    torch.set_default_device(os.environ["D2L_ATTENTION_TEST_DEVICE"])

# No deadline: two busy cores can make any example slow. Derandomised: CI repeats itself.
settings.register_profile("course", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("course")


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
