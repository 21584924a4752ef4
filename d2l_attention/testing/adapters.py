"""One way to call every attention: D2L's layers, PyTorch's, and plain functions."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class Attention:
    """What the properties call: ``attention(queries, keys, values, valid_lens, is_causal)``.

    Shape: queries (B, Q, size), keys (B, K, size), values (B, K, size), valid_lens (B,)
    -> (B, Q, any size).
    """

    call: Callable[..., Tensor]
    takes_lengths: bool
    takes_causal: bool
    module: nn.Module | None
    dtype: torch.dtype = torch.float32

    def __call__(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        valid_lens: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        # Dropout draws the same numbers in every call: two calls can be compared while training.
        torch.manual_seed(0)
        inputs = (X.to(self.dtype) for X in (queries, keys, values))
        return self.call(*inputs, valid_lens, is_causal).float()

    def differs(self, name: str, mine: Tensor, expected: Tensor) -> str | None:
        """What to say where two results are not the same up to rounding."""
        if mine.shape != expected.shape:
            return f"{name}: the shape is {tuple(mine.shape)} instead of {tuple(expected.shape)}"
        if not torch.isfinite(mine).all():
            return f"{name}: there is NaN or infinity in the output"
        gap = (mine - expected).abs().max().item() if mine.numel() else 0.0
        rounding = max(1e-4, 10 * torch.finfo(self.dtype).eps)
        if gap > rounding * (1 + expected.abs().max().item()):
            return f"{name}: the largest difference is {gap:.3g}"
        return None


def adapted(attention: Callable[..., object]) -> Attention:
    """The attention with one signature, by what its own asks for.

    Understood are ``valid_lens`` and ``is_causal`` (this course and D2L), ``mask`` or
    ``attn_mask`` with True = may attend ((B, Q, K), or (Q, K) for what is only causal), and
    ``torch.nn.MultiheadAttention``, where True = ignore. An output may come with weights behind.

    Errors: ``TypeError`` unless it can be called with queries, keys and values.
    """
    if not callable(attention):
        raise TypeError(f"attention must be a layer or a function, got {type(attention).__name__}")
    module = attention if isinstance(attention, nn.Module) else None
    if isinstance(attention, nn.MultiheadAttention):
        return Attention(_of_pytorch(attention), True, True, module)
    function = attention.forward if isinstance(attention, nn.Module) else attention
    try:
        parameters = inspect.signature(function).parameters
    except ValueError as error:
        raise TypeError(f"{attention} does not say its arguments: wrap it in a function") from error
    names = list(parameters)
    if len(names) < 3:
        raise TypeError(f"attention must take queries, keys and values, got parameters {names}")
    mask = next((name for name in ("mask", "attn_mask") if name in names), None)
    lengths, causal = "valid_lens" in names, "is_causal" in names

    def call(queries, keys, values, valid_lens, is_causal):
        options = {}
        if lengths:
            options["valid_lens"] = valid_lens
        if causal:
            options["is_causal"] = is_causal
        if mask is not None:
            shape = (*queries.shape[:-1], keys.shape[-2])
            hidden_by = None if lengths else valid_lens
            options[mask] = visible(shape, hidden_by, is_causal=is_causal and not causal)
            if options[mask] is None and parameters[mask].default is inspect.Parameter.empty:
                options[mask] = torch.ones(shape, dtype=torch.bool)
        return _output(attention(queries, keys, values, **options))

    return Attention(call, lengths or mask is not None, causal or mask is not None, module)


def _of_pytorch(layer: nn.MultiheadAttention) -> Callable[..., Tensor]:
    def call(queries, keys, values, valid_lens, is_causal):
        shape = (*queries.shape[:-1], keys.shape[-2])
        causal = visible(shape[1:], is_causal=is_causal)
        padding = visible(shape, valid_lens)
        ignored = dict(
            attn_mask=None if causal is None else ~causal,
            key_padding_mask=None if padding is None else ~padding[:, 0],
        )
        if not layer.batch_first:
            queries, keys, values = (X.transpose(0, 1) for X in (queries, keys, values))
        output = _output(layer(queries, keys, values, need_weights=False, **ignored))
        return output if layer.batch_first else output.transpose(0, 1)

    return call


def visible(
    shape: tuple[int, ...], valid_lens: Tensor | None = None, *, is_causal: bool = False
) -> Tensor | None:
    """Who may attend to whom, (B, Q, K) or (Q, K), True = may; None where all may.

    Plain on purpose: what tests a layer uses none of the layer's code.
    """
    past = torch.ones(shape[-2:], dtype=torch.bool).tril() if is_causal else None
    if valid_lens is None:
        return past
    words = (torch.arange(shape[-1]) < valid_lens[:, None, None]).expand(shape)
    return words if past is None else words & past


def _output(result: object) -> Tensor:
    output = result[0] if isinstance(result, tuple) else result
    if not isinstance(output, Tensor):
        raise TypeError(f"attention must return a tensor, got {type(output).__name__}")
    return output


def batch(
    size: int, num_queries: int, num_keys: int, num_sentences: int = 3, seed: int = 0
) -> list[Tensor]:
    """Random queries, keys and values. Shape: (B, Q, size), (B, K, size), (B, K, size)."""
    generator = torch.Generator().manual_seed(seed)
    lengths = (num_queries, num_keys, num_keys)
    return [torch.randn(num_sentences, n, size, generator=generator) for n in lengths]
