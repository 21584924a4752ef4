"""Context parallel: one sequence cut over processes, its keys and values handed round a ring.

PyTorch's own, ``torch.distributed.tensor.experimental.context_parallel``, does this around the
fused kernels of GPUs; for the CPU's kernel it has no rule. Here is the same ring, written out.
"""

import math

import torch
import torch.distributed as dist
from torch import Tensor

from d2l_attention.attention.checks import check_same_size
from d2l_attention.attention.masks import causal_mask, check_attention_inputs
from d2l_attention.attention.scores import scaled_dot_score
from d2l_attention.scale.online_softmax import merge_partial, partial_attention


def share_sequence(X: Tensor) -> Tensor:
    """This process's stretch of the sequence; where P does not divide n, the first are longer.

    Shape: X (*, n, D) -> (*, about n / P, D).
    """
    return X.tensor_split(dist.get_world_size(), dim=-2)[dist.get_rank()]


def ring_attention(
    queries: Tensor, keys: Tensor, values: Tensor, *, is_causal: bool = False
) -> Tensor:
    """Attention of this process's queries to the keys of all processes.

    Shape: queries (*, Q, D), keys (*, K, D), values (*, K, V) -> (*, Q, V), where Q and K count
    this process's stretch of the sequence; the stretches stand in the order of the ranks.

    Keys and values go round: P - 1 times each process hands the stretch it holds to the next one
    and attends to the stretch it gets. All processes call this together, and ``backward`` of what
    it returns too. ``is_causal`` needs Q == K; a stretch of the future is handed on unread. Half
    precision is summed in single, gradients too, which travel so; all results are of the inputs'
    type.

    Errors: ``ValueError`` for shapes that do not fit together.

    Source: Liu et al. (2023), 'Ring Attention with Blockwise Transformers'.
    """
    check_attention_inputs(queries, keys, values)
    check_same_size(queries, keys)
    if is_causal and queries.shape[-2] != keys.shape[-2]:
        raise ValueError(
            "is_causal needs as many queries as keys on each process, "
            f"got queries {tuple(queries.shape)} and keys {tuple(keys.shape)}"
        )
    return Ring.apply(queries, keys, values, is_causal)


class Ring(torch.autograd.Function):
    """The ring once for the output, and once for the gradients."""

    @staticmethod
    def forward(ctx, queries, keys, values, is_causal):
        rank, size = dist.get_rank(), dist.get_world_size()
        lengths = all_lengths(keys)
        outputs, log_sums, held = [], [], [keys, values]
        for step in range(size):
            owner = (rank - step) % size  # whose keys are here
            if not is_causal or owner <= rank:
                mask = past(queries) if is_causal and owner == rank else None
                output, log_sum = partial_attention(queries, *held, mask)
                outputs.append(output)
                log_sums.append(log_sum)
            if step < size - 1:
                held = pass_on(held, lengths[owner - 1])
        output, log_sum = merge_partial(outputs, log_sums)
        ctx.save_for_backward(queries, keys, values, output, log_sum)
        ctx.lengths, ctx.is_causal = lengths, is_causal
        return output

    @staticmethod
    def backward(ctx, grad):
        if torch.is_grad_enabled():
            raise RuntimeError("ring_attention has no second derivative: leave create_graph out")
        queries, keys, values, output, log_sum = ctx.saved_tensors
        rank, size = dist.get_rank(), dist.get_world_size()
        wide = log_sum.dtype  # half precision is too little for sums
        grad_queries = torch.zeros_like(queries, dtype=wide)
        # A stretch of keys travels with its gradients, to which every process adds its part.
        held = [keys, values, *(torch.zeros_like(X, dtype=wide) for X in (keys, values))]
        for step in range(size):
            owner = (rank - step) % size
            if not ctx.is_causal or owner <= rank:
                mask = past(queries) if ctx.is_causal and owner == rank else None
                parts = gradients(grad, queries, *held[:2], mask, output, log_sum)
                grad_queries = grad_queries + parts[0]
                held[2:] = [held[2] + parts[1], held[3] + parts[2]]
            if step == size - 1:
                held = held[2:]  # the last step brings the gradients home
            held = pass_on(held, ctx.lengths[owner - 1])
        return *(X.to(queries.dtype) for X in (grad_queries, *held)), None


def gradients(grad, queries, keys, values, mask, output, log_sum) -> tuple[Tensor, ...]:
    """What these keys add to the gradients of queries, keys and values.

    The log-sum over *all* keys turns scores into the weights of the whole attention, so nothing
    of the forward pass need be kept. Source: Dao et al. (2022), appendix B.2.
    """
    inputs = (grad, queries, keys, values, output)
    grad, queries, keys, values, output = (X.to(log_sum.dtype) for X in inputs)
    scores = scaled_dot_score(queries, keys)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = (scores - log_sum[..., None]).exp()
    # The softmax's derivative: each weight times how far its gradient is above the mean.
    mean = (grad * output).sum(dim=-1, keepdim=True)
    grad_scores = weights * (grad @ values.mT - mean) / math.sqrt(queries.shape[-1])
    return grad_scores @ keys, grad_scores.mT @ queries, weights.mT @ grad


def past(queries: Tensor) -> Tensor:
    """Within its own stretch a query sees itself and what stands before it. (Q, Q)."""
    return causal_mask(queries.shape[-2], device=queries.device)


def all_lengths(keys: Tensor) -> list[int]:
    """How many keys each process has, by rank."""
    lengths = [keys.new_zeros((), dtype=torch.long) for _ in range(dist.get_world_size())]
    dist.all_gather(lengths, keys.new_tensor(keys.shape[-2], dtype=torch.long))
    return [length.item() for length in lengths]


def pass_on(held: list[Tensor], length: int) -> list[Tensor]:
    """Give the next process what we hold, and get what the one before us held: ``length`` rows."""
    rank, size = dist.get_rank(), dist.get_world_size()
    if size == 1:
        return held
    got = [X.new_empty(*X.shape[:-2], length, X.shape[-1]) for X in held]
    moves = [dist.P2POp(dist.isend, X.contiguous(), (rank + 1) % size) for X in held]
    moves += [dist.P2POp(dist.irecv, X, (rank - 1) % size) for X in got]
    for move in dist.batch_isend_irecv(moves):
        move.wait()
    return got
