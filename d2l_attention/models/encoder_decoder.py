"""An encoder and a decoder as one model, and its losses: for a GRU and a Transformer alike.

Letters in the ``Shape`` lines: B batch, S source tokens, T target tokens, N target vocabulary.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from d2l_attention.attention.checks import check_floats
from d2l_attention.attention.masks import real_tokens
from d2l_attention.models.checks import check_tokens

LEFT_OUT = -100  # the label that PyTorch's losses ignore


class EncoderDecoder(nn.Module):
    """Encoder and decoder as one model, for training with teacher forcing (D2L 10.6).

    Shape: source (B, S), target (B, T) as it is fed in, source_lens (B,) -> logits (B, T, N);
    with ``need_weights`` also weights (B, T, S).

    Errors: ``ValueError`` or ``TypeError`` for what encoder or decoder do not take.
    """

    encoder: Any  # modules, with the methods that ``decoding`` lists
    decoder: Any

    def __init__(self, encoder: nn.Module, decoder: nn.Module):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_lens: Tensor | None = None,
        *,
        need_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        state = self.decoder.init_state(self.encoder(source, source_lens), source_lens)
        if need_weights:
            logits, _, weights = self.decoder(target, state, need_weights=True)
            return logits, weights
        return self.decoder(target, state)[0]


def sequence_loss(logits: Tensor, labels: Tensor, valid_lens: Tensor) -> Tensor:
    """Mean cross-entropy over the real tokens: padding counts neither above nor below.

    Shape: logits (B, T, N), labels (B, T), valid_lens (B,) -> a number. No real token: 0.

    The mean is over tokens, not over sentences: a long sentence weighs more than a short one.
    A label of -100, which ``F.cross_entropy`` ignores, counts as padding does. The sum is taken in
    float32 or better, and so is the number: float16 ends at 65,504.

    Errors: ``ValueError`` unless labels are token numbers and the shapes fit, ``TypeError`` unless
    logits are floats and lengths integers.
    """
    check_floats("logits", logits)
    check_tokens("labels", labels)
    if logits.ndim != 3:
        raise ValueError(f"logits must have shape (B, T, N), got {tuple(logits.shape)}")
    if logits.shape[:2] != labels.shape:
        raise ValueError(
            f"labels must have shape {tuple(logits.shape[:2])} as the logits, "
            f"got {tuple(labels.shape)}"
        )
    real = real_tokens(valid_lens, labels.shape) & (labels != LEFT_OUT)  # (B, T)
    # Padding is left out rather than multiplied by 0: a loss of NaN times 0 is NaN.
    scores = logits[real].to(torch.promote_types(logits.dtype, torch.float32))
    total = F.cross_entropy(scores, labels[real].long(), reduction="sum")
    return total / real.sum().clamp(min=1)


def guidance_loss(weights: Tensor, links: Tensor) -> Tensor:
    """How far attention is from known alignments: -log of the weight on the right words.

    Shape: weights (B, T, S) with gradient, links bool (B, T, S), True where target t comes
    from source s -> a number, in float32 or better as ``sequence_loss``. Target words without a
    link do not count. The slope, which a small weight makes large, is of the weights' dtype:
    float16 ends at 65,504.

    Source: Chen et al. (2016), *Guided Alignment Training*; Liu et al. (2016).
    """
    check_floats("weights", weights)
    if links.dtype != torch.bool or links.shape != weights.shape:
        raise ValueError(
            f"links must be bool of shape {tuple(weights.shape)}, "
            f"got {links.dtype} of shape {tuple(links.shape)}"
        )
    linked = links.any(dim=-1)  # (B, T)
    weights = weights.to(torch.promote_types(weights.dtype, torch.float32))
    on_target = weights.masked_fill(~links, 0.0).sum(dim=-1)  # times 0, NaN would stay NaN
    # No weight at all has a loss and no slope. (clamp's own, at its bound, depends on PyTorch.)
    tiny = torch.finfo(weights.dtype).tiny
    losses = -on_target.masked_fill(on_target <= tiny, tiny).log() * linked
    return losses.sum() / linked.sum().clamp(min=1)
