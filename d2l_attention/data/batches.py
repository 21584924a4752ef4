"""Pairs to tensors: numbered, padded to a common length, with the true lengths beside."""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Sampler

from d2l_attention.data.corpus import Pair
from d2l_attention.data.vocabulary import BOS, EOS, PAD, Vocab

POOL = 20  # batches that are sorted by length together


class Batch(NamedTuple):
    """B pairs with at most S source and T target tokens, end of sentence included.

    The decoder reads ``tgt_in``, which starts with <bos>, and is to say ``tgt_out``, which ends
    with <eos>. ``links`` marks which source tokens each token of ``tgt_out`` stands for: its sure
    links, or where it has none its possible ones; <eos> stands for <eos>. A pair without an
    alignment has no links at all.
    """

    src: Tensor  # (B, S)
    src_lens: Tensor  # (B,)
    tgt_in: Tensor  # (B, T)
    tgt_out: Tensor  # (B, T)
    tgt_lens: Tensor  # (B,)
    links: Tensor  # (B, T, S), bool


def make_batch(pairs: Sequence[Pair], src_vocab: Vocab, tgt_vocab: Vocab) -> Batch:
    """The pairs as one batch, in their order; of several targets the first.

    Errors: ``ValueError`` where there are no pairs.
    """
    if not pairs:
        raise ValueError("pairs must not be empty")
    src = [src_vocab[[*pair.source, EOS]] for pair in pairs]
    tgt = [tgt_vocab[[BOS, *pair.target, EOS]] for pair in pairs]
    src_lens = torch.tensor([len(numbers) for numbers in src])
    tgt_lens = torch.tensor([len(numbers) - 1 for numbers in tgt])
    links = torch.zeros(len(pairs), int(tgt_lens.max()), int(src_lens.max()), dtype=torch.bool)
    linked = [(b, j, i) for b, pair in enumerate(pairs) for i, j in best_links(pair)]
    if linked:
        links[tuple(torch.tensor(linked).T)] = True
    return Batch(
        padded(src, src_vocab[PAD]),
        src_lens,
        padded([numbers[:-1] for numbers in tgt], tgt_vocab[PAD]),
        padded([numbers[1:] for numbers in tgt], tgt_vocab[PAD]),
        tgt_lens,
        links,
    )


def best_links(pair: Pair) -> list[tuple[int, int]]:
    """For each target token its sure links, else its possible ones; the two ends are linked."""
    if not pair.possible:
        return []
    surely = {j for _, j in pair.sure}
    unsure = [(i, j) for i, j in pair.possible if j not in surely]
    return [*pair.sure, *unsure, (len(pair.source), len(pair.target))]


def link_matrix(pair: Pair) -> torch.Tensor:
    """The true alignment as a picture for heat maps: 1 for sure links, 1/2 for possible ones.

    Shape: (T, S), targets down, as attention weights.
    """
    links = torch.zeros(len(pair.target), len(pair.source))
    for i, j in pair.possible:
        links[j, i] = 0.5
    for i, j in pair.sure:
        links[j, i] = 1.0
    return links


def padded(sentences: list[list[int]], value: int) -> Tensor:
    longest = max(len(numbers) for numbers in sentences)
    return torch.tensor([numbers + [value] * (longest - len(numbers)) for numbers in sentences])


class SimilarLengths(Sampler[list[int]]):
    """Batches of indices in a random order, each of sentences that are about equally long.

    Sentences are shuffled, sorted by length within a pool of some batches, and the batches are
    shuffled. Less of each batch is padding, and less of it is by chance.
    """

    drop_last = False  # Accelerate asks for this, and for `batch_size`, to share batches out.

    def __init__(self, lengths: Sequence[int], batch_size: int, generator: torch.Generator):
        self.lengths, self.batch_size, self.generator = lengths, batch_size, generator

    def __len__(self) -> int:
        return math.ceil(len(self.lengths) / self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        order, pool = self.shuffled(len(self.lengths)), POOL * self.batch_size
        batches = []
        for start in range(0, len(order), pool):
            near = sorted(order[start : start + pool], key=self.lengths.__getitem__)
            batches += [near[i : i + self.batch_size] for i in range(0, len(near), self.batch_size)]
        # A batch that is not full stays last: Accelerate counts on it.
        full = len(order) // self.batch_size
        yield from (batches[i] for i in self.shuffled(full))
        yield from batches[full:]

    def shuffled(self, n: int) -> list[int]:
        device = self.generator.device
        return torch.randperm(n, generator=self.generator, device=device).tolist()


def data_loader(
    pairs: Sequence[Pair],
    src_vocab: Vocab,
    tgt_vocab: Vocab,
    batch_size: int,
    *,
    generator: torch.Generator | None = None,
    by_length: bool = False,
) -> DataLoader:
    """Batches of the pairs; a pair with several targets comes once with each of them.

    With a ``generator`` every pass is shuffled anew: the same seed gives the same batches in the
    same order. Without one the order is that of the pairs, after all of them the other targets.

    ``by_length`` shuffles so that a batch holds sentences of similar length. In batches of real
    text padding then takes a quarter of the positions instead of a half. On the built-in corpus a
    step takes three quarters of the time, and the model becomes as good.

    Errors: ``ValueError`` where there are no pairs, no positive ``batch_size``, or no
    ``generator`` to shuffle ``by_length`` with.
    """
    if not pairs:
        raise ValueError("pairs must not be empty")
    if batch_size < 1:
        raise ValueError(f"batch_size must be positive, got {batch_size}")
    if by_length and generator is None:
        raise ValueError("by_length shuffles, so it needs a generator, got None")
    rows = list(pairs)  # The alignment is that of the first target; the others have none.
    rows += [Pair(pair.source, (target,)) for pair in pairs for target in pair.targets[1:]]
    if by_length:
        lengths = [len(row.source) for row in rows]
        order = {"batch_sampler": SimilarLengths(lengths, batch_size, generator)}
    else:
        order = {"batch_size": batch_size, "shuffle": generator is not None}
    return DataLoader(
        rows,
        collate_fn=partial(make_batch, src_vocab=src_vocab, tgt_vocab=tgt_vocab),
        # A loader draws a number at every pass; never from the global generator.
        generator=generator or torch.Generator(device=torch.get_default_device()),
        **order,
    )
