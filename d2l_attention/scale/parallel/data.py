"""Data parallel: every process holds the whole model and takes some of the sequences.

After ``backward`` the gradients are averaged over the processes, so that all take the same step.
Accelerate puts PyTorch's ``DistributedDataParallel`` around the model for this.

Source: Li et al. (2020), 'PyTorch Distributed: Experiences on Accelerating Data Parallel Training'.
"""

from collections.abc import Callable

import torch.distributed as dist
from accelerate import Accelerator
from torch import Tensor, nn

from d2l_attention.attention.masks import length_mask


def share_batch(X: Tensor) -> Tensor:
    """This process's sequences: every P-th, which shares out long and short ones alike.

    Shape: X (B, *) -> (about B / P, *).
    """
    return X[dist.get_rank() :: dist.get_world_size()]


def shared_token_mean(losses: Tensor, valid_lens: Tensor) -> Tensor:
    """A loss whose mean over the processes is the mean over all real tokens of the whole batch.

    Shape: losses (B, n), one a token, of this process's sequences; valid_lens (B,) -> ().

    The mean of the processes' own means would give a token in a process with few tokens more
    weight than one in a process with many. So each process divides by the tokens of all, and
    multiplies by P what will be divided by P when gradients are averaged.
    """
    real = length_mask(valid_lens, losses.shape[1])[:, 0]  # (B, n)
    tokens = real.sum()
    dist.all_reduce(tokens)
    tokens = tokens.clamp(min=1)  # without any token the loss is 0
    total = losses.masked_fill(~real, 0.0).sum()
    return total * dist.get_world_size() / tokens


def data_parallel_gradients(
    model: nn.Module, X: Tensor, targets: Tensor, valid_lens: Tensor, loss: Callable
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of the whole batch and its gradients, each process computing its own sequences.

    Shape: X (B, n, any size), targets (B, n, any size), valid_lens (B,), the same on every
    process. ``model(X, valid_lens)`` predicts the targets and ``loss(predictions, targets)`` is
    (B, n), one number a token.

    Errors: ``ValueError`` where there are fewer sequences than processes.
    """
    if len(X) < dist.get_world_size():
        raise ValueError(
            f"each of {dist.get_world_size()} processes needs a sequence, got X {tuple(X.shape)}"
        )
    accelerator = Accelerator(cpu=X.device.type == "cpu")
    parallel = accelerator.prepare(model)
    model.zero_grad()
    X, targets, valid_lens = (share_batch(part) for part in (X, targets, valid_lens))
    mine = shared_token_mean(loss(parallel(X, valid_lens), targets), valid_lens)
    accelerator.backward(mine)  # and here the processes talk
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    return accelerator.reduce(mine.detach(), "mean"), gradients


def squared_error(predictions: Tensor, targets: Tensor) -> Tensor:
    """(B, n, D), (B, n, D) -> (B, n)."""
    return (predictions - targets).square().sum(dim=-1)
