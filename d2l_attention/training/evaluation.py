"""How well a trained model does on a set of sentence pairs."""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from d2l_attention.data import BOS, EOS, Pair, Vocab, make_batch
from d2l_attention.data.corpus import check_tokenized
from d2l_attention.models.decoding import greedy_decode
from d2l_attention.models.encoder_decoder import EncoderDecoder
from d2l_attention.training.metrics import (
    Link,
    align_by_attention,
    alignment_error_rate,
    bleu,
    exact_match,
)

BATCH_SIZE = 64


@dataclass(frozen=True)
class Evaluation:
    """``bleu`` from 0 to 100, ``exact_match`` a share; ``alignment_error_rate`` is ``None`` where
    the decoder has no attention, or nobody knows the alignments."""

    translations: list[list[str]]
    bleu: float
    exact_match: float
    alignment_error_rate: float | None

    def __str__(self) -> str:
        text = f"BLEU {self.bleu:5.1f}   exact {self.exact_match:.3f}"
        if self.alignment_error_rate is None:
            return text
        return f"{text}   alignment error rate {self.alignment_error_rate:.3f}"


def evaluate(
    model: nn.Module, pairs: Sequence[Pair], src_vocab: Vocab, tgt_vocab: Vocab
) -> Evaluation:
    """Translate every source greedily, and compare with all its references.

    The alignment error rate is that of the pairs whose alignment is known.

    Errors: ``ValueError`` where there are no pairs.
    """
    if not pairs:
        raise ValueError("pairs must not be empty")
    found = translate(model, [pair.source for pair in pairs], src_vocab, tgt_vocab)
    references = [pair.targets for pair in pairs]
    error_rate = None
    known = [pair for pair in pairs if pair.possible]
    if has_weights(model) and known:
        error_rate = alignment_error_rate(
            align(model, known, src_vocab, tgt_vocab),
            [pair.sure for pair in known],
            [pair.possible for pair in known],
        )
    return Evaluation(found, bleu(found, references), exact_match(found, references), error_rate)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode in this block; afterwards each module is in its mode of before, errors or not."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def translate(
    model: EncoderDecoder,
    sentences: Sequence[Sequence[str]],
    src_vocab: Vocab,
    tgt_vocab: Vocab,
) -> list[list[str]]:
    """Greedy translations of tokenized sentences, of up to 10 tokens + twice the source.

    They are made in eval mode; afterwards the model is in the mode it was in. Where threads share a
    model, put it in eval mode before.

    Errors: ``TypeError`` where a sentence is a string instead of a sequence of tokens.
    """
    check_tokenized("sentences", [sentences, *sentences])
    device = next(model.parameters()).device
    found = []
    for start in range(0, len(sentences), BATCH_SIZE):
        # A pair needs a target: an empty one, of which nothing is read.
        some = [Pair(tuple(tokens), ((),)) for tokens in sentences[start : start + BATCH_SIZE]]
        batch = make_batch(some, src_vocab, tgt_vocab)
        with evaluating(model):
            decoded = greedy_decode(
                model,
                batch.src.to(device),
                batch.src_lens.to(device),
                bos=tgt_vocab[BOS],
                eos=tgt_vocab[EOS],
                max_len=10 + 2 * batch.src.shape[1],
            )
        # The search is as long as the longest needs; a short one must not depend on the others.
        found += [
            tgt_vocab.to_tokens(numbers[: 10 + 2 * len(pair.source)])
            for numbers, pair in zip(decoded.sentences(), some, strict=True)
        ]
    return found


def has_weights(model: nn.Module) -> bool:
    """Whether the decoder can say where it looked."""
    # What ``torch.compile`` wraps round a decoder takes any argument.
    decoder = getattr(model.decoder, "_orig_mod", model.decoder)
    return "need_weights" in inspect.signature(decoder.forward).parameters


@torch.no_grad()
def align(
    model: nn.Module, pairs: Sequence[Pair], src_vocab: Vocab, tgt_vocab: Vocab
) -> list[set[Link]]:
    """Where attention looks most while the decoder reads each pair's own translation.

    With the model's translation instead, a wrong word would count as a wrong link.
    """
    device = next(model.parameters()).device
    links = []
    for start in range(0, len(pairs), BATCH_SIZE):
        some = pairs[start : start + BATCH_SIZE]
        batch = make_batch(some, src_vocab, tgt_vocab)
        inputs = (part.to(device) for part in (batch.src, batch.tgt_in, batch.src_lens))
        with evaluating(model):
            _, weights = model(*inputs, need_weights=True)
        links += [
            align_by_attention(weight, len(pair.source), len(pair.target))
            for weight, pair in zip(weights, some, strict=True)
        ]
    return links
