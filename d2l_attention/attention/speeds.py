"""How fast rotary positions turn: the one table, which longer contexts change (chapter 11)."""

import torch
from torch import Tensor


def rotary_speeds(head_size: int, base: float = 10000) -> Tensor:
    """The angle by which each pair turns from one position to the next: base^(-2j / head_size).

    Shape: (head_size / 2,), in float64 on the CPU: in float32 the angle at position 100,000 is
    off by 0.005, and not every device has float64.

    Source: Su et al. (2021), section 3.2.2; Xiong et al. (2023), section 2.1, for a larger base.
    """
    columns = torch.arange(0, head_size, 2, dtype=torch.float64, device="cpu")
    return base ** (-columns / head_size)
