"""Where to compute."""

import torch


def try_gpu(i: int = 0) -> torch.device:
    """The ``i``-th CUDA device, else Apple's MPS, else the CPU (D2L's ``try_gpu``)."""
    if i < 0:
        raise ValueError(f"i counts devices from 0, got {i}")
    if torch.cuda.device_count() > i:
        return torch.device(f"cuda:{i}")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")
