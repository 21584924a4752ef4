"""Where to compute, and what is drawn there."""

from contextlib import AbstractContextManager

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


def seed_generators(device: torch.device, seed: int) -> None:
    """Seed what draws on ``device``, its generator and the CPU's, and no other device's."""
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)


def own_randomness(device: torch.device) -> AbstractContextManager[None]:
    """Give back, after the block, the generators that ``seed_generators`` seeds as they were."""
    others = [] if device.type == "cpu" else [device]
    return torch.random.fork_rng(others, device_type=device.type)
