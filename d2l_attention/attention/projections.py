"""Linear layers that learn the size of their input from it, and the matrix in a linear layer."""

import torch
from torch import Tensor, nn


class LazyLinear(nn.LazyLinear):
    """``nn.LazyLinear`` that can be trained whatever its first batch came under.

    What is made under ``torch.inference_mode`` never gets a gradient, and PyTorch does not say so.
    Before the first call there are no weights: what is written to ``weight.data`` is lost.

    Shape: X (*, any size) -> (*, out_features).
    """

    def initialize_parameters(self, input: Tensor) -> None:
        if torch.func.debug_unwrap(input) is not input:  # PyTorch's own would end Python
            raise RuntimeError("this layer has no weights yet: call it once outside torch.func")
        with torch.inference_mode(False):
            super().initialize_parameters(input)


def matrix_of(linear: nn.Module, X: Tensor) -> Tensor:
    """The matrix W by which a linear layer without bias multiplies inputs like X.

    Errors: ``ValueError`` for a layer with a bias.

    A layer that is hooked, wrapped (LoRA), quantised or given another ``forward`` (Accelerate) does
    something else than its ``weight`` says: there W is what it makes of the unit vectors.

    Shape: X (*, in_features) -> (out_features, in_features).
    """
    if isinstance(getattr(linear, "bias", None), Tensor):
        raise ValueError("this projection must be a matrix alone, got a linear layer with a bias")
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    changed = "forward" in vars(linear) or any(getattr(linear, name) for name in hooks)
    if type(linear) is nn.Linear and not changed:
        return linear.weight
    return linear(torch.eye(X.shape[-1], dtype=X.dtype, device=X.device)).mT
