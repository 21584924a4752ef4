"""How French words change with what they agree with and what follows them."""

import unicodedata

from d2l_attention.data.lexicon import Adjective

# 'h' is silent in l'homme and l'histoire, yet le héros and le hibou keep their article whole.
ASPIRATED = ("héros", "hibou", "hiboux")
ELIDED = ("le", "la", "je", "ne", "de", "que")
CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}


def starts_with_vowel(word: str) -> bool:
    """Whether the word starts with a vowel sound: ami, école, œuf, histoire; not héros."""
    # The decomposed form (NFD) has the bare letter first, then its accent.
    first = unicodedata.normalize("NFD", word)[:1]
    return first in tuple("aeiouœh") and word not in ASPIRATED


def adjective_form(adjective: Adjective, gender: str, plural: bool, following: str = "") -> str:
    """The form for this gender and number; ``following`` is the next word if it is its noun."""
    if plural:
        return adjective.feminine_plural if gender == "f" else adjective.masculine_plural
    if gender == "f":
        return adjective.feminine
    return adjective.before_vowel if starts_with_vowel(following) else adjective.masculine


def participle_form(participle: str, gender: str, plural: bool) -> str:
    """mangé, mangée, mangés, mangées; an s is not doubled: pris."""
    form = participle + ("e" if gender == "f" else "")
    return form + ("s" if plural and not form.endswith("s") else "")


def elide(words: list[str]) -> list[str]:
    """Cut the final vowel of little words before a vowel sound: *l'*, *j'*, *n'*, *d'*, *qu'*."""
    following = [*words[1:], ""]
    return [
        word[:-1] + "'" if word in ELIDED and starts_with_vowel(after) else word
        for word, after in zip(words, following, strict=True)
    ]
