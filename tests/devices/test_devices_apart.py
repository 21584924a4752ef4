"""The tests in this folder, on each device there is, in a process of their own: see conftest.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils import backend_registration

HERE = Path(__file__).parent
CHAPTERS = HERE / "test_chapters_on_device.py"
IN_PYTHON = hasattr(backend_registration, "_setup_privateuseone_for_python_backend")
DEVICES = [
    pytest.param("pretended", marks=pytest.mark.skipif(not IN_PYTHON, reason="an older PyTorch")),
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")),
    pytest.param(
        "mps", marks=pytest.mark.skipif(not torch.backends.mps.is_available(), reason="no MPS")
    ),
]


def on(name, *tests):
    """Run tests of this folder on the device, in a process of their own."""
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:nbval"]
    command += ["-p", "no:cacheprovider", *map(str, tests)]
    environment = os.environ | {"D2L_ATTENTION_DEVICE": name}
    done = subprocess.run(
        command, env=environment, capture_output=True, encoding="utf-8", timeout=3600
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    assert " passed" in done.stdout


@pytest.mark.parametrize("name", DEVICES)
def test_all_is_the_same_on(name):
    on(name, HERE, f"--ignore={CHAPTERS}")
