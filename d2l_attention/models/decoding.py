"""From a trained encoder-decoder to sentences: greedy and beam search, a batch at a time.

A model here has ``encoder(source, source_lens)`` and a ``decoder`` with
``init_state(encoded, source_lens)``, ``decoder(tokens, state) -> (logits, state)`` and
``select(state, index)``, which picks sentences of the batch.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from d2l_attention.models.encoder_decoder import EncoderDecoder


@dataclass(frozen=True)
class Decoded:
    """What a search found.

    ``tokens`` (B, T) without <bos>, padded with <eos> after the end; ``lens`` (B,) counts
    the tokens before <eos>; ``scores`` (B,) are log-probabilities; ``weights`` (B, T, S) are
    the attention weights behind each token where they were asked for, ``None`` otherwise and
    for a decoder without attention.
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
    source_lens: Tensor,
    *,
    bos: int,
    eos: int,
    max_len: int,
    need_weights: bool = False,
) -> Decoded:
    """The most likely token at each step, until every sentence has ended or is ``max_len`` long.

    Shape: source (B, S), source_lens (B,). ``need_weights`` collects the attention weights.
    """
    check_max_len(max_len)
    state = model.decoder.init_state(model.encoder(source, source_lens), source_lens)
    batch = len(source)
    token = source.new_full((batch, 1), bos)
    ended = torch.zeros(batch, dtype=torch.bool, device=source.device)
    scores = torch.zeros(batch, device=source.device)
    chosen, looks = [], []
    for _ in range(max_len):
        logits, state = model.decoder(token, state)
        log_probs, token = logits.log_softmax(dim=-1).max(dim=-1)  # (B, 1)
        token = token.masked_fill(ended[:, None], eos)
        scores = scores + log_probs[:, 0].masked_fill(ended, 0.0)
        chosen.append(token)
        step = getattr(model.decoder, "attention_weights", None) if need_weights else None
        if step is not None:
            looks.append(step)
        ended = ended | (token[:, 0] == eos)
        if ended.all():
            break
    tokens = torch.cat(chosen, dim=1)
    weights = torch.cat(looks, dim=1) if looks else None
    return Decoded(tokens, (tokens != eos).sum(dim=1), scores, weights)


@torch.no_grad()
def beam_search(
    model: EncoderDecoder,
    source: Tensor,
    source_lens: Tensor,
    *,
    bos: int,
    eos: int,
    max_len: int,
    beam_size: int = 4,
    length_penalty: float = 0.75,
    need_weights: bool = False,
) -> Decoded:
    """Keep the ``beam_size`` best beginnings of each sentence and extend them all at once.

    Finished sentences compete by log-probability / length ** ``length_penalty``: without it
    the shortest would win, because every token makes a sentence less likely. ``scores`` are
    these normalised ones. A beam of 1 is greedy search. ``need_weights`` collects the attention
    weights.

    Shape: source (B, S), source_lens (B,). Source: D2L 10.8, equation 10.8.4.
    """
    check_max_len(max_len)
    if beam_size < 1:
        raise ValueError(f"beam_size must be 1 or more, got {beam_size}")
    batch = len(source)
    # Beam b * beam_size + i is the i-th beginning of sentence b.
    source = source.repeat_interleave(beam_size, dim=0)
    source_lens = source_lens.repeat_interleave(beam_size, dim=0)
    state = model.decoder.init_state(model.encoder(source, source_lens), source_lens)
    first = torch.arange(batch, device=source.device)[:, None] * beam_size  # (B, 1)

    tokens = source.new_full((batch * beam_size, 1), bos)
    # All beams of a sentence begin alike, so at first only one of them counts.
    scores = torch.full((batch, beam_size), -torch.inf, device=source.device)
    scores[:, 0] = 0.0
    counts = scores.new_zeros(batch * beam_size)  # tokens so far, <eos> included
    ended = torch.zeros(batch * beam_size, dtype=torch.bool, device=source.device)
    weights = None
    for _ in range(max_len):
        logits, state = model.decoder(tokens[:, -1:], state)
        log_probs = logits[:, -1].log_softmax(dim=-1)
        # A sentence that has ended goes on with <eos>, for nothing.
        log_probs = log_probs.masked_fill(ended[:, None], -torch.inf)
        log_probs[:, eos] = log_probs[:, eos].masked_fill(ended, 0.0)
        counts = counts + ~ended
        total = scores[..., None] + log_probs.unflatten(0, (batch, beam_size))
        ranked = total / counts.view(batch, beam_size, 1) ** length_penalty
        best = ranked.flatten(start_dim=1).topk(beam_size).indices  # (B, beam_size)
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
        if ended.all():
            break
    normalised = scores / counts.view(batch, beam_size) ** length_penalty
    score, best_beam = normalised.max(dim=1)
    winner = first[:, 0] + best_beam
    tokens = tokens[winner, 1:]
    weights = None if weights is None else weights[winner]
    return Decoded(tokens, (tokens != eos).sum(dim=1), score, weights)


def check_max_len(max_len: int) -> None:
    if max_len < 1:
        raise ValueError(f"max_len must be 1 or more, got {max_len}")
