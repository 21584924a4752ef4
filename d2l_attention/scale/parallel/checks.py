"""Each way of sharing the work, against the same computation on one process.

Every function here runs on all processes of a group at once: ``run_processes(check_heads)``.
All begin with the same seed, so each process has the same model and the same batch.
"""

import math
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh

from d2l_attention.attention.multi_head import MultiHeadAttention
from d2l_attention.attention.pooling import dot_product_attention
from d2l_attention.models.transformer_blocks import PositionWiseFFN, TransformerEncoderBlock
from d2l_attention.scale.parallel.context import ring_attention, share_sequence
from d2l_attention.scale.parallel.data import data_parallel_gradients, squared_error
from d2l_attention.scale.parallel.tensor import split_ffn_over, split_heads_over

BOUND = 1e-5  # float32 adds up in another order


@dataclass(frozen=True)
class Check:
    """The largest differences from one process, over all processes."""

    name: str
    outputs: float
    gradients: float

    @property
    def passed(self) -> bool:
        return self.outputs < BOUND and self.gradients < BOUND


def check_all() -> list[Check]:
    return [
        check_data(),
        check_heads(),
        check_ffn(),
        check_context(is_causal=False),
        check_context(is_causal=True),
    ]


def check_data() -> Check:
    """A Transformer block on sequences of unequal lengths, an unequal number a process."""
    torch.manual_seed(0)
    size, length = dist.get_world_size(), 7
    block = TransformerEncoderBlock(12, 24, 2, 0.0)
    X, targets = torch.randn(2, 2 * size + 1, length, 12)
    valid_lens = torch.arange(len(X)) % length + 1
    whole = squared_error(block(X, valid_lens), targets)
    whole = whole[torch.arange(length) < valid_lens[:, None]].mean()
    whole.backward()
    expected = take_gradients(block)
    loss, shared = data_parallel_gradients(block, X, targets, valid_lens, squared_error)
    return compare("data parallel, Transformer block", [(loss, whole)], pairs(shared, expected))


def check_heads() -> Check:
    """Multi-head attention with padding, two heads on each process."""
    torch.manual_seed(0)
    size = dist.get_world_size()
    layer = MultiHeadAttention(6 * size, 2 * size, 0.0, bias=True)
    X, lens = torch.randn(3, 7, 5), torch.tensor([7, 4, 0])
    layer(X, X, X)  # makes the parameters
    return check_split(
        "tensor parallel, heads", layer, split_heads_over, X, lambda layer, X: layer(X, X, X, lens)
    )


def check_ffn() -> Check:
    """The network for each token, eleven hidden units on each process."""
    torch.manual_seed(0)
    ffn, X = PositionWiseFFN(11 * dist.get_world_size(), 5), torch.randn(3, 7, 5)
    ffn(X)
    return check_split("tensor parallel, FFN", ffn, split_ffn_over, X, lambda ffn, X: ffn(X))


def check_split(name, layer, split, X, call) -> Check:
    """One layer before and after ``split``: the same outputs, the same gradients."""
    X = X.requires_grad_()
    expected = call(layer, X)
    grad = torch.randn_like(expected)
    expected.backward(grad)
    expected_grads = take_gradients(layer) | {"X": X.grad}
    X.grad = None
    split(layer, init_device_mesh("cpu", (dist.get_world_size(),)))
    output = call(layer, X)
    output.backward(grad)
    # Parameters are cut, and so are their gradients: put together for the comparison.
    whole = {name: grad.full_tensor() for name, grad in take_gradients(layer).items()}
    gradients = pairs(whole | {"X": X.grad}, expected_grads)
    return compare(name, [(output, expected)], gradients)


def check_context(*, is_causal: bool) -> Check:
    """A sequence that the processes cannot cut into equal parts."""
    torch.manual_seed(0)
    length = 6 * dist.get_world_size() + 1
    queries, keys, values = (torch.randn(2, 3, length, size) for size in (5, 5, 7))
    whole = [X.clone().requires_grad_() for X in (queries, keys, values)]
    expected = dot_product_attention(*whole, is_causal=is_causal)
    grad = torch.randn_like(expected)
    expected.backward(grad)
    mine = [share_sequence(X).clone().requires_grad_() for X in (queries, keys, values)]
    output = ring_attention(*mine, is_causal=is_causal)
    output.backward(share_sequence(grad))
    return compare(
        f"context parallel{', causal' * is_causal}",
        [(output, share_sequence(expected))],
        [(X.grad, share_sequence(Y.grad)) for X, Y in zip(mine, whole, strict=True)],
    )


def take_gradients(layer: nn.Module) -> dict[str, Tensor]:
    """The gradients by name; the layer is left without any."""
    gradients = {name: parameter.grad for name, parameter in layer.named_parameters()}
    layer.zero_grad()
    return gradients


def pairs(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> list[tuple[Tensor, Tensor]]:
    return [(actual[name], expected[name]) for name in expected]


def compare(name: str, outputs: list, gradients: list) -> Check:
    """The largest difference of all pairs on all processes: each reports the same."""
    largest = torch.stack(
        [
            torch.stack([(a - b).abs().max() for a, b in given]).max()
            for given in (outputs, gradients)
        ]
    )
    largest = largest.nan_to_num(nan=math.inf)  # NaN is no maximum: it would be lost
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    return Check(name, *largest.tolist())
