"""A built-in English-French corpus whose word alignments are known exactly.

Sentences are drawn from a grammar of 58 nouns, 23 adjectives and 32 verbs: little enough to learn
in under a minute, and yet what makes translation more than a dictionary is there: agreement, word
order, elision, negation, pronouns before the verb, the passé composé. Everything is lower case,
without a full stop. There is no 'you', which may be *tu* or *vous*; where English does not tell
the gender (I, we, they, them) French takes the masculine; 'I read' is read as the present.
"""

import random
import zlib

from d2l_attention.data.corpus import Corpus, Pair
from d2l_attention.data.sentences import sentence

LENGTHS = range(3, 17)  # English words
PATIENCE = 10_000
# The tags, each with an example.
PHENOMENA = {
    "determiner agreement": "la pomme, ma pomme",
    "adjective agreement": "une petite pomme verte",
    "adjective before": "une petite pomme",
    "adjective after": "une pomme verte",
    "vowel form": "un bel ami, cet ami, mon école",
    "elision": "l' ami, j' aime, qu' elle",
    "contraction": "au village, près du village",
    "possessive": "mon ami",
    "negation": "elle ne chante pas",
    "pas de": "elle ne mange pas de pomme",
    "clitic": "elle la mange",
    "passé composé with avoir": "elle a chanté",
    "passé composé with être": "elle est partie",
    "participle agreement": "la pomme qu' elle a mangée",
    "predicate": "elle est petite",
    "adverb": "elle chante souvent",
    "relative clause": "la fille qui chante",
    "coordination": "la fille et le roi, elle chante et danse",
    "two clauses": "elle sait qu' il chante",
}


def corpus(n: int, seed: int = 0, *, unseen: bool = False) -> list[Pair]:
    """``n`` sentence pairs with different sources; the same arguments give the same pairs.

    One in eight of the pairs (adjective, noun) that make sense is held out (``is_held_out``) and
    in none of the sentences; with ``unseen`` every sentence has at least one of them instead.

    Errors: ``ValueError`` where ``n`` is negative or beyond what the grammar has to say.
    """
    if n < 0:
        raise ValueError(f"n must be 0 or more, got {n}")
    rng = random.Random(seed)
    pairs: dict[tuple[str, ...], Pair] = {}
    in_vain = 0
    while len(pairs) < n:
        phrase = sentence(rng)
        source = tuple(word.text for word in phrase.english)
        fits = unseen == any(is_held_out(*described) for described in phrase.described)
        if fits and len(source) in LENGTHS and source not in pairs:
            pairs[source] = phrase.pair()
            in_vain = 0
        elif (in_vain := in_vain + 1) > PATIENCE:
            raise ValueError(f"n = {n} is too much, only {len(pairs)} sentences were found")
    return list(pairs.values())


def is_held_out(adjective: str, noun: str) -> bool:
    """Whether these two (in English, singular) describe each other in no training sentence."""
    return zlib.crc32(f"{adjective} {noun}".encode()) % 8 == 0


def splits(seed: int = 0, *, train: int = 8000, valid: int = 500, test: int = 500) -> Corpus:
    """The course's corpus; its compositional split is as large as its test split."""
    pairs = tuple(corpus(train + valid + test, seed))
    return Corpus(
        origin="built-in English-French grammar",
        train=pairs[:train],
        valid=pairs[train : train + valid],
        test=pairs[train + valid :],
        compositional=tuple(corpus(test, seed, unseen=True)),
    )
