"""Sentence pairs: a built-in grammar with known alignments, and files from Tatoeba."""

from pathlib import Path

from d2l_attention.data import grammar, tatoeba
from d2l_attention.data.batches import Batch, data_loader, link_matrix, make_batch
from d2l_attention.data.corpus import Corpus, Pair
from d2l_attention.data.vocabulary import BOS, EOS, PAD, UNK, Vocab

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "UNK",
    "Batch",
    "Corpus",
    "Pair",
    "Vocab",
    "data_loader",
    "link_matrix",
    "load",
    "make_batch",
]


def load(source: str | Path | None = None) -> Corpus:
    """The corpus called ``"grammar"``, or a Tatoeba file by its path.

    Without a source it is the built-in grammar, and a line says so. A path where no file is
    raises: whoever named a file does not want to train on something else.

    Errors: those of ``tatoeba.read``.
    """
    if source is None:
        print("No file of sentence pairs given: this is the built-in English-French grammar.")
    if source in (None, "grammar"):
        return grammar.splits()
    return tatoeba.splits(source)
