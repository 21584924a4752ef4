"""Looks over the student's shoulder at tensors on their way, for 10.4 and 10.7."""

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class Watch(TorchFunctionMode):
    """Notes the largest tensor, which shapes met in one operation, and the fused kernel.

    It sees PyTorch's functions from above. One that looks from below, ``TorchDispatchMode``,
    would import the compiler first, which takes more than a second in every check.
    """

    def __init__(self) -> None:
        super().__init__()
        self.largest, self.fused = torch.Size([0]), False
        self.together: list[set[torch.Size]] = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        self.together.append({X.shape for X in args if isinstance(X, Tensor)})
        self.fused |= function is torch.nn.functional.scaled_dot_product_attention
        if isinstance(made, Tensor) and made.numel() > self.largest.numel():
            self.largest = made.shape
        return made
