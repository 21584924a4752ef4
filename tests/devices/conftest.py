"""The device that the tests in this folder compute on: ``D2L_ATTENTION_DEVICE`` names it.

Without a name there are two tests, which start the others for each device there is, in processes
of their own: the pretended accelerator stays with the process that registered it.

By hand: ``D2L_ATTENTION_DEVICE=pretended pytest tests/devices``, or ``cuda``, or ``mps``.
"""

import os
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

DEVICE = os.environ.get("D2L_ATTENTION_DEVICE")
STARTERS = ["test_devices_apart.py", "test_chapters_apart.py"]
ABOUT_THE_PRETENDED = "test_pretended.py"

if DEVICE is None:
    every = {path.name for path in Path(__file__).parent.glob("test_*.py")}
    collect_ignore = sorted(every - {*STARTERS})
elif DEVICE == "pretended":
    import pretended

    pretended.register()
    collect_ignore = STARTERS
else:
    collect_ignore = [*STARTERS, ABOUT_THE_PRETENDED]


# cuDNN rounds the products of a GRU to ten bits (TF32) unless it is told not to: its numbers then
# differ from the CPU's in the fifth digit.
torch.backends.cudnn.allow_tf32 = False


@pytest.fixture
def device():
    return torch.device(DEVICE)


@pytest.fixture(autouse=True)
def a_kernel_of_a_gpu(monkeypatch):
    """PyTorch's attention refuses what it refuses on some machine, also where this one bears it."""
    attend = F.scaled_dot_product_attention

    def strict(queries, keys, values, attn_mask=None, *more, **options):
        assert queries.numel() > 0 and keys.numel() > 0, "on some processors it ends Python"
        if attn_mask is not None and queries.device.type != "cpu":
            width, stride = attn_mask.shape[-1], attn_mask.stride(-1)
            assert width == keys.shape[-2] and stride == 1, "last dimension must be contiguous"
        return attend(queries, keys, values, attn_mask, *more, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", strict)
