"""Buffers whose numbers follow from a module's sizes, so that no checkpoint holds them."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

Makers = dict[str, Callable[[], Tensor]]


def keep_computed(module: nn.Module, **makers: Callable[[], Tensor]) -> None:
    """Register a buffer for each maker, a function that computes it on the CPU.

    They follow the module from device to device. In a module that was built on ``meta`` and given
    memory by ``to_empty`` they hold no numbers: they are computed anew whenever weights are loaded.
    That also brings back the digits which a model lost that was in half precision once.
    """
    # Rounded as when the module was built, also in one that has become ``double`` since.
    makers = {
        name: partial(_rounded, make, torch.get_default_dtype()) for name, make in makers.items()
    }
    for name, make in makers.items():
        module.register_buffer(name, make().to(torch.get_default_device()), persistent=False)
    module.register_load_state_dict_pre_hook(partial(_compute_anew, makers))


def _rounded(make: Callable[[], Tensor], dtype: torch.dtype) -> Tensor:
    numbers = make()
    return numbers.to(dtype) if numbers.is_floating_point() else numbers


def _compute_anew(makers: Makers, module: nn.Module, *_: object) -> None:
    for name, make in makers.items():
        old = module.get_buffer(name)
        device = torch.get_default_device() if old.is_meta else old.device
        setattr(module, name, make().to(device, old.dtype))
