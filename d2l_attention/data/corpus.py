"""What both sources of sentences give: pairs, split into training, validation and test."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Link = tuple[int, int]


def check_tokenized(name: str, sentences: Iterable[Sequence]) -> None:
    """Raise ``TypeError`` for a string, which would be taken for a sequence of letters."""
    for sentence in sentences:
        if isinstance(sentence, str):
            raise TypeError(f"{name} must be sequences of tokens, got text: {sentence!r}")


@dataclass(frozen=True)
class Pair:
    """A sentence and what it is in the other language, in tokens.

    ``targets`` holds one translation or several; ``target`` is the first. The alignment of
    ``source`` and ``target`` is a list of links (source index, target index), in two parts as in
    Och and Ney (2003), section 5.1: ``sure`` links, on which everybody agrees, and ``possible``
    links, which contain the sure ones. Both are empty where nobody knows the alignment.

    ``tags`` names the phenomena in the sentence, ``attributions`` the authors (one entry per
    target), where the source of the data gives them.

    Errors: ``TypeError`` where a sentence is a string instead of a sequence of tokens,
    ``ValueError`` for a link to a token that is not there.
    """

    source: tuple[str, ...]
    targets: tuple[tuple[str, ...], ...]
    sure: tuple[Link, ...] = ()
    possible: tuple[Link, ...] = ()
    tags: frozenset[str] = frozenset()
    attributions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given = (self.source, self.targets, *self.targets)
        check_tokenized("source and targets", given)
        for i, j in (*self.sure, *self.possible):
            if not (0 <= i < len(self.source) and 0 <= j < len(self.target)):
                raise ValueError(
                    "a link is (source index, target index), counted from 0, in sentences of "
                    f"{len(self.source)} and {len(self.target)} tokens, got {(i, j)}"
                )

    @property
    def target(self) -> tuple[str, ...]:
        return self.targets[0]


@dataclass(frozen=True)
class Corpus:
    """Pairs in splits that share no source sentence.

    ``compositional``, where there is one, is a second test split: adjectives and nouns that are
    all in ``train``, but never together. ``origin`` says in a sentence where the pairs come from
    and under which licence.
    """

    origin: str
    train: tuple[Pair, ...]
    valid: tuple[Pair, ...]
    test: tuple[Pair, ...]
    compositional: tuple[Pair, ...] = ()
