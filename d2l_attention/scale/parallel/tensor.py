"""Tensor parallel: a layer's parameters cut over processes, each with some of the heads.

Source: Shoeybi et al. (2019), 'Megatron-LM', section 3.
"""

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.nn.parameter import is_lazy

from d2l_attention.attention.multi_head import MultiHeadAttention
from d2l_attention.models.transformer_blocks import PositionWiseFFN

# PyTorch's engine is imported where it is used: it takes most of a second, and every process
# that is started would pay.


def split_heads_over(layer: MultiHeadAttention, mesh: DeviceMesh) -> MultiHeadAttention:
    """Leave each process of ``mesh`` with H / P heads of the layer, which is changed and returned.

    W_q, W_k and W_v are cut by their outputs, so that heads stay whole; W_o is cut by its inputs,
    so that each process has a share of every output, and the sum of the shares is the output.
    Inputs and outputs are the same on every process; weights are (B, H / P, Q, K), the heads of
    this process, and a mask or bias that differs from head to head is refused.

    The sum is one all-reduce. In the backward pass W_q, W_k and W_v each all-reduce the gradient of
    their inputs; Megatron, for self-attention alone, has them in one product and does it once.

    Errors: ``ValueError`` unless P divides the heads (and the groups, where there are), the
    parameters are made, and the attention in the heads has none: its would get the gradients
    of some heads only.
    """
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    check_share("num_heads", layer.num_heads, mesh)
    num_kv_heads = getattr(layer, "num_kv_heads", None)  # of grouped-query attention
    if num_kv_heads is not None:
        check_share("num_kv_heads", num_kv_heads, mesh)
    shared = [name for name, _ in layer.attention.named_parameters()]
    if shared:
        raise ValueError(f"all heads share parameters, got attention with {', '.join(shared)}")
    plan = {name: ColwiseParallel() for name in ("W_q", "W_k", "W_v")}
    distribute(layer, mesh, plan | {"W_o": RowwiseParallel()})
    layer.num_heads //= mesh.size()
    if num_kv_heads is not None:
        layer.num_kv_heads //= mesh.size()
    return layer


def split_ffn_over(ffn: PositionWiseFFN, mesh: DeviceMesh) -> PositionWiseFFN:
    """Leave each process of ``mesh`` with 1 / P of the hidden units; ``ffn`` itself is changed.

    The ReLU works unit by unit, so nothing is sent between the two layers: one all-reduce
    forward and one backward.

    Errors: ``ValueError`` unless P divides the hidden units and the parameters are made.
    """
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    check_share("ffn_num_hiddens", ffn.dense2.in_features, mesh)
    distribute(ffn, mesh, {"dense1": ColwiseParallel(), "dense2": RowwiseParallel()})
    return ffn


def distribute(layer: nn.Module, mesh: DeviceMesh, plan: dict) -> None:
    """Cut the parameters by PyTorch's engine, as planned."""
    from torch.distributed.tensor.parallel import parallelize_module

    missing = [name for name, parameter in layer.named_parameters() if is_lazy(parameter)]
    if missing:
        raise ValueError(f"call the layer once before it is split, it has no {missing[0]} yet")
    parallelize_module(layer, mesh, plan)


def check_share(name: str, count: int, mesh: DeviceMesh) -> None:
    if mesh.ndim != 1:
        raise ValueError(f"mesh must have one axis, got shape {tuple(mesh.shape)}")
    if count % mesh.size():
        raise ValueError(f"the {mesh.size()} processes must divide {name}, got {name}={count}")
