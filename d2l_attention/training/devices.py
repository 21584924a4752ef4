"""Where to compute, and what is drawn there."""

import os
from contextlib import AbstractContextManager

import torch

FROM_ENVIRONMENT = "D2L_ATTENTION_DEVICE"


def named_device(name: str) -> torch.device:
    """The device of this name. Errors: ``ValueError`` where there is none."""
    try:
        device = torch.device(name)
        count = torch.get_device_module(device).device_count()
    except RuntimeError as error:
        raise ValueError(f"device must be a name such as cpu, cuda:0 or mps, got {name}") from error
    if (device.index or 0) >= count:
        raise ValueError(f"there is no device {name} here, only {count} of type {device.type}")
    return device


def try_gpu(i: int | str = 0) -> torch.device:
    """The ``i``-th CUDA device, else Apple's MPS, else the CPU (D2L's ``try_gpu``).

    A name gives this device and no other: "cpu", "cuda", "cuda:1", "mps", whatever PyTorch knows.
    Where no name is given, that of the environment variable ``D2L_ATTENTION_DEVICE`` counts.

    Errors: ``ValueError`` for a number below 0, and for a device that is not on this machine.
    """
    if isinstance(i, str):
        return named_device(i)
    if i < 0:
        raise ValueError(f"i counts devices from 0, got {i}")
    if os.environ.get(FROM_ENVIRONMENT):
        return named_device(os.environ[FROM_ENVIRONMENT])
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
