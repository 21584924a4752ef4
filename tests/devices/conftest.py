"""The device that the tests in this folder compute on: ``D2L_ATTENTION_DEVICE`` names it.

Without a name there is one test, which starts the others for each device there is, in a process
of their own: the pretended accelerator stays with the process that registered it.

By hand: ``D2L_ATTENTION_DEVICE=pretended pytest tests/devices``, or ``cuda``, or ``mps``.
"""

import os
from pathlib import Path

import pytest
import torch

DEVICE = os.environ.get("D2L_ATTENTION_DEVICE")
STARTER, ABOUT_THE_PRETENDED = "test_devices_apart.py", "test_pretended.py"

if DEVICE is None:
    every = {path.name for path in Path(__file__).parent.glob("test_*.py")}
    collect_ignore = sorted(every - {STARTER})
elif DEVICE == "pretended":
    import pretended

    pretended.register()
    collect_ignore = [STARTER]
else:
    collect_ignore = [STARTER, ABOUT_THE_PRETENDED]


@pytest.fixture
def device():
    return torch.device(DEVICE)
