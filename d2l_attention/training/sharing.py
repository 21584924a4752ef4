"""Which batch comes next, and which of its rows are this process's."""

import itertools
from collections.abc import Callable, Iterator

import torch
from accelerate import Accelerator, skip_first_batches
from torch.utils.data import DataLoader

from d2l_attention.data import Batch, Pair


def share(accelerator: Accelerator, collate: Callable, rows: list[Pair]) -> Batch:
    """This process's rows of the batch: every n-th, which shares out long and short ones alike.

    Accelerate's own sharing fills the last batch up with sentences from the first.
    """
    mine = rows[accelerator.process_index :: accelerator.num_processes]
    if mine:
        return collate(mine)
    # More processes than rows: a sentence of no length, since gradients are averaged over all.
    batch = collate(rows[:1])
    nothing = {"tgt_lens": torch.zeros_like(batch.tgt_lens), "links": batch.links & False}
    return batch._replace(**nothing)


def batches(loader: DataLoader, order: torch.Generator, seed: int, done: int) -> Iterator[Batch]:
    """Pass after pass over the data, without end, as if ``done`` batches had been read."""
    first, skipped = divmod(done, len(loader))
    for number in itertools.count(first):
        order.manual_seed(seed + number)
        yield from skip_first_batches(loader, skipped if number == first else 0)
