"""From a trained encoder-decoder to sentences: greedy and beam search, a batch at a time.

A model here has ``encoder(source, source_lens)`` and a ``decoder`` with
``init_state(encoded, source_lens)``, ``decoder(tokens, state) -> (logits, state)`` and
``select(state, index)``, which picks sentences of the batch. Where the decoder has an
``embedding``, its size is that of the target vocabulary.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from d2l_attention.attention.checks import check_whole
from d2l_attention.models.encoder_decoder import EncoderDecoder


@dataclass(frozen=True)
class Decoded:
    """What a search found.

    ``tokens`` (B, T) without <bos>, padded with <eos> after the end; ``lens`` (B,) counts
    the tokens before <eos>; ``scores`` (B,) are log-probabilities; ``weights`` (B, T, S) are
    the attention weights behind each token where they were asked for, zero after the end, and
    ``None`` otherwise and for a decoder without attention. They are read from the decoder after
    each step: of threads that share a model, one searches at a time.
    """

    tokens: Tensor
    lens: Tensor
    scores: Tensor
    weights: Tensor | None

    def sentences(self) -> list[list[int]]:
        """The tokens of each sentence, as lists without <eos>."""
        rows = zip(self.tokens.tolist(), self.lens.tolist(), strict=True)
        return [row[:length] for row, length in rows]


@torch.no_grad()
def greedy_decode(
    model: EncoderDecoder,
    source: Tensor,
    source_lens: Tensor | None,
    *,
    bos: int,
    eos: int,
    max_len: int,
    need_weights: bool = False,
) -> Decoded:
    """The most likely token at each step, until every sentence has ended or is ``max_len`` long.

    Shape: source (B, S), source_lens (B,). ``need_weights`` collects the attention weights. A
    search changes no mode: it drops out as well, unless the model is in eval mode.

    Errors: ``ValueError`` where ``bos`` or ``eos`` is no token number of the target or ``max_len``
    no whole number from 1 on, and the encoder's for a source or lengths that do not fit.
    """
    bos, eos = check_ends(model.decoder, bos, eos)
    max_len = check_whole("max_len", max_len, 1)
    state = model.decoder.init_state(model.encoder(source, source_lens), source_lens)
    batch = len(source)
    token = source.new_full((batch, 1), bos)
    ended = torch.zeros(batch, dtype=torch.bool, device=source.device)
    scores = torch.zeros(batch, device=source.device, dtype=torch.float32)
    chosen, looks = [], []
    for _ in range(max_len):
        logits, state = model.decoder(token, state)
        log_probs, token = log_probabilities(logits).max(dim=-1)  # (B, 1)
        token = token.masked_fill(ended[:, None], eos)
        scores = scores + log_probs[:, 0].masked_fill(ended, 0.0)
        chosen.append(token)
        step = getattr(model.decoder, "attention_weights", None) if need_weights else None
        if step is not None:
            looks.append(step)
        ended = ended | (token[:, 0] == eos)
        if ended.all():
            break
    weights = torch.cat(looks, dim=1) if looks else None
    return decoded(torch.cat(chosen, dim=1), scores, weights, eos)


@torch.no_grad()
def beam_search(
    model: EncoderDecoder,
    source: Tensor,
    source_lens: Tensor | None,
    *,
    bos: int,
    eos: int,
    max_len: int,
    beam_size: int = 4,
    length_penalty: float = 0.75,
    need_weights: bool = False,
) -> Decoded:
    """Keep the ``beam_size`` best beginnings of each sentence and extend them all at once.

    Sentences compete by log-probability / length ** ``length_penalty``: without it the shortest
    would win, because every token makes a sentence less likely. ``scores`` are these normalised
    ones. A finished sentence that was once in the beam competes to the end, also when longer
    beginnings, which may still get worse, have pushed it out. A beam of 1 is greedy search.
    ``need_weights`` collects the attention weights.

    Shape: source (B, S), source_lens (B,).

    Errors: those of ``greedy_decode``; ``ValueError`` unless ``beam_size`` is a whole number from 1
    on.

    Source: D2L 10.8, equation 10.8.4.
    """
    bos, eos = check_ends(model.decoder, bos, eos)
    max_len = check_whole("max_len", max_len, 1)
    beam_size = check_whole("beam_size", beam_size, 1)
    state = model.decoder.init_state(model.encoder(source, source_lens), source_lens)
    batch = len(source)
    # Beam b * beam_size + i is the i-th beginning of sentence b.
    sentences = torch.arange(batch, device=source.device)
    state = model.decoder.select(state, sentences.repeat_interleave(beam_size))
    first = sentences[:, None] * beam_size  # (B, 1)

    tokens = source.new_full((batch * beam_size, 1), bos)
    # All beams of a sentence begin alike, so at first only one of them counts.
    scores = torch.full((batch, beam_size), -torch.inf, device=source.device, dtype=torch.float32)
    scores[:, 0] = 0.0
    counts = source.new_zeros(batch * beam_size)  # tokens so far, <eos> included
    ended = torch.zeros(batch * beam_size, dtype=torch.bool, device=source.device)
    weights = kept = None
    for _ in range(max_len):
        logits, state = model.decoder(tokens[:, -1:], state)
        log_probs = log_probabilities(logits[:, -1])
        # A sentence that has ended goes on with <eos>, for nothing.
        log_probs = log_probs.masked_fill(ended[:, None], -torch.inf)
        log_probs[:, eos] = log_probs[:, eos].masked_fill(ended, 0.0)
        counts = counts + ~ended
        total = scores[..., None] + log_probs.unflatten(0, (batch, beam_size))
        ranked = total / counts.view(batch, beam_size, 1).to(total.dtype) ** length_penalty
        normalised, best = ranked.flatten(start_dim=1).topk(beam_size)  # (B, beam_size)
        scores = total.flatten(start_dim=1).gather(1, best)

        parent = (first + best // log_probs.shape[-1]).flatten()
        token = (best % log_probs.shape[-1]).flatten()
        step = getattr(model.decoder, "attention_weights", None) if need_weights else None
        if step is not None:
            weights = step if weights is None else torch.cat((weights, step), dim=1)
            weights = weights[parent]
        tokens = torch.cat((tokens[parent], token[:, None]), dim=1)
        state, counts = model.decoder.select(state, parent), counts[parent]
        ended = ended[parent] | (token == eos)
        finished = normalised.masked_fill(~ended.view(batch, beam_size), -torch.inf)
        kept = better(kept, best_beams(tokens, finished, weights, eos), eos)
        if ended.all():
            break
    return better(kept, best_beams(tokens, normalised, weights, eos), eos)


def log_probabilities(logits: Tensor) -> Tensor:
    """In single precision or better: in half, two logits that differ would often become one."""
    return logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def best_beams(tokens: Tensor, scores: Tensor, weights: Tensor | None, eos: int) -> Decoded:
    """Of each sentence's beams the one with the highest score.

    Shape: tokens (B * beams, 1 + T) with <bos>, scores (B, beams), weights (B * beams, T, S).
    """
    score, beam = scores.max(dim=1)
    row = torch.arange(len(scores), device=beam.device) * scores.shape[1] + beam
    return decoded(tokens[row, 1:], score, None if weights is None else weights[row], eos)


def better(kept: Decoded | None, new: Decoded, eos: int) -> Decoded:
    """Sentence by sentence the one with the higher score; ``kept``, the shorter, is padded."""
    if kept is None:
        return new
    wins = ~(new.scores <= kept.scores)  # so NaN wins: nobody shall overlook it
    more = new.tokens.shape[1] - kept.tokens.shape[1]
    tokens = torch.where(wins[:, None], new.tokens, F.pad(kept.tokens, (0, more), value=eos))
    weights = new.weights
    if weights is not None and kept.weights is not None:
        old = F.pad(kept.weights, (0, 0, 0, more))
        weights = torch.where(wins[:, None, None], weights, old)
    scores = torch.where(wins, new.scores, kept.scores)
    return decoded(tokens, scores, weights, eos)


def decoded(tokens: Tensor, scores: Tensor, weights: Tensor | None, eos: int) -> Decoded:
    """A search's result, without the looks that a decoder took after the end of a sentence."""
    lens = (tokens != eos).sum(dim=1)
    if weights is not None:
        after = torch.arange(tokens.shape[1], device=lens.device) > lens[:, None]  # (B, T)
        weights = weights.masked_fill(after[..., None], 0.0)
    return Decoded(tokens, lens, scores, weights)


def check_ends(decoder: Any, bos: int, eos: int) -> tuple[int, int]:
    """``bos`` and ``eos`` as integers, if they are numbers of the decoder's vocabulary."""
    ends = check_whole("bos", bos, 0), check_whole("eos", eos, 0)
    words = getattr(getattr(decoder, "embedding", None), "num_embeddings", None)
    for name, end in zip(("bos", "eos"), ends, strict=True):
        if words is not None and end >= words:
            raise ValueError(f"{name} must be below the size of the vocabulary, {words}, got {end}")
    return ends
