"""What all three sources of sentences give: pairs, split into training, validation and test."""

from dataclasses import dataclass

Link = tuple[int, int]


@dataclass(frozen=True)
class Pair:
    """A sentence and what it is in the other language, in tokens.

    ``targets`` holds one translation or several; ``target`` is the first. The alignment of
    ``source`` and ``target`` is a list of links (source index, target index), in two parts as in
    Och and Ney (2003), section 5.1: ``sure`` links, on which everybody agrees, and ``possible``
    links, which contain the sure ones. Both are empty where nobody knows the alignment.

    ``tags`` names the phenomena in the sentence, ``attributions`` the authors (one entry per
    target), where the source of the data gives them.
    """

    source: tuple[str, ...]
    targets: tuple[tuple[str, ...], ...]
    sure: tuple[Link, ...] = ()
    possible: tuple[Link, ...] = ()
    tags: frozenset[str] = frozenset()
    attributions: tuple[str, ...] = ()

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
