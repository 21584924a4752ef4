"""English and French side by side: phrases whose word alignment is known as they are built.

Everything here is plain grammar, without chance: the same words give the same phrase. A phrase
holds the English words in their order and the French words in theirs; each French word points at
the English words it stands for, wherever these end up in the sentence.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from d2l_attention.data.corpus import Pair
from d2l_attention.data.french import CONTRACTED, adjective_form, elide, starts_with_vowel
from d2l_attention.data.lexicon import DETERMINERS, POSSESSIVES, PREPOSITIONS, Adjective, Noun


@dataclass(eq=False)
class English:
    """One word. Two equal words of a sentence stay two, so that links can tell them apart."""

    text: str


@dataclass
class French:
    """One word and its links: at most one sure one, any number of possible ones.

    One and not more, so that whoever picks one English word for each French word can be right.
    """

    text: str
    sure: English | None = None
    possible: Sequence[English] = ()


@dataclass
class Phrase:
    """Words in both languages, the phenomena in them, and the pairs (adjective, noun)."""

    english: list[English] = field(default_factory=list)
    french: list[French] = field(default_factory=list)
    tags: set[str] = field(default_factory=set)
    described: set[tuple[str, str]] = field(default_factory=set)

    def __add__(self, other: "Phrase") -> "Phrase":
        """One after the other, in both languages."""
        return Phrase(
            self.english + other.english,
            self.french + other.french,
            self.tags | other.tags,
            self.described | other.described,
        )

    def tagged(self, *tags: str) -> "Phrase":
        return self + Phrase(tags=set(tags))

    def pair(self) -> Pair:
        """The finished sentence: little words elided and contracted, links as indices."""
        tags = set(self.tags)
        texts = elide([word.text for word in self.french])
        if any(text.endswith("'") for text in texts):
            tags.add("elision")
        elided = [
            French(text, word.sure, word.possible)
            for text, word in zip(texts, self.french, strict=True)
        ]
        french = contract(elided)
        if len(french) < len(elided):
            tags.add("contraction")

        index = {id(word): i for i, word in enumerate(self.english)}
        sure = {(index[id(word.sure)], j) for j, word in enumerate(french) if word.sure}
        possible = {(index[id(e)], j) for j, word in enumerate(french) for e in word.possible}
        return Pair(
            source=tuple(word.text for word in self.english),
            targets=(tuple(word.text for word in french),),
            sure=tuple(sorted(sure)),
            possible=tuple(sorted(sure | possible)),
            tags=frozenset(tags),
        )


def contract(words: list[French]) -> list[French]:
    """*de le* is written *du*. It surely stands for what the first did, possibly for both."""
    done: list[French] = []
    for word in words:
        text = CONTRACTED.get((done[-1].text, word.text)) if done else None
        if text is None:
            done.append(word)
            continue
        first = done.pop()
        links = [*first.possible, *word.possible, *([word.sure] if word.sure else [])]
        done.append(French(text, first.sure or word.sure, links))
    return done


def fixed(english: str, french: str, *tags: str, main: str | None = None) -> Phrase:
    """Words that always go together: 'in front of' is *devant*, 'near' is *près de*.

    The first French word surely stands for the ``main`` English word (the first, unless told);
    all other links are possible ones.
    """
    words = [English(text) for text in english.split()]
    best = next(word for word in words if main in (None, word.text))
    first, *others = french.split()
    target = [French(first, best, words), *(French(text, None, words) for text in others)]
    return Phrase(words, target, set(tags))


@dataclass(frozen=True)
class Pronoun:
    """A word that stands for a noun; ``person`` is the subject its verb agrees with: je, il, ...

    With no words it is a subject left out: 'she sings and *she* dances'.
    """

    english: str
    french: str
    person: str
    gender: str = "m"
    plural: bool = False
    nouns: tuple[Noun, ...] = ()

    def phrase(self, negated: bool = False) -> Phrase:
        return fixed(self.english, self.french) if self.english else Phrase()


@dataclass(frozen=True)
class NounPhrase:
    """Determiner, adjectives and noun; ``after`` is what follows the noun in both languages."""

    determiner: str
    noun: Noun
    adjectives: tuple[Adjective, ...] = ()
    plural: bool = False
    after: Phrase = field(default_factory=Phrase)

    @property
    def gender(self) -> str:
        return self.noun.gender

    @property
    def person(self) -> str:
        return "ils" if self.plural else "il"

    @property
    def nouns(self) -> tuple[Noun, ...]:
        return (self.noun,)

    def phrase(self, negated: bool = False) -> Phrase:
        """Both languages. The object of a negated verb loses its 'a': *pas de pomme*.

        Errors: ``ValueError`` where determiner and number do not fit.
        """
        words = self.adjectives_and_noun()
        article = "an" if words.english[0].text[0] in "aeiou" else "a"
        determiner = English(article if self.determiner == "a" else self.determiner)
        none_of_it = self.determiner == "any" or (negated and self.determiner == "a")
        noun_first = words.french[0].sure is words.english[-1]
        if none_of_it or (self.determiner == "some" and not noun_first):
            form = "de"  # pas de pommes; de belles pommes
            tags = {"pas de"} if none_of_it else set()
        else:
            form = self.determiner_form(words.french[0].text)
            tags = self.determiner_tags(form)
        return Phrase([determiner], [French(form, determiner)], tags) + words + self.after

    def adjectives_and_noun(self) -> Phrase:
        """'old red hats' is *vieux chapeaux rouges*: each adjective on its side of the noun."""
        noun = English(self.noun.english_plural if self.plural else self.noun.english)
        french = self.noun.french_plural if self.plural else self.noun.french
        words = Phrase([noun], [French(french, noun)])
        for i, adjective in enumerate(self.adjectives):
            word = English(adjective.english)
            # Where it stands after the noun, what follows makes no difference.
            form = adjective_form(adjective, self.gender, self.plural, words.french[0].text)
            words.english.insert(i, word)
            place = 0 if adjective.position == "before" else len(words.french)
            words.french.insert(place, French(form, word))
            words.tags.add(f"adjective {adjective.position}")
            words.described.add((adjective.english, self.noun.english))
            if form != adjective.masculine:
                words.tags.add("adjective agreement")
                if self.gender == "m" and not self.plural:
                    words.tags.add("vowel form")
        return words

    def determiner_form(self, following: str) -> str:
        forms = DETERMINERS[self.determiner]
        vowel = " vowel" if starts_with_vowel(following) else ""
        form = forms["plural" if self.plural else self.gender + vowel]
        if form == "-":
            number = "plural" if self.plural else "singular"
            raise ValueError(f"determiner {self.determiner!r} does not go with a {number} noun")
        return form

    def determiner_tags(self, form: str) -> set[str]:
        forms = DETERMINERS[self.determiner]
        tags = {"possessive"} if self.determiner in POSSESSIVES else set()
        if forms["m"] not in ("-", form):
            tags.add("determiner agreement")
        if form != forms["plural" if self.plural else self.gender]:
            tags.add("vowel form")
        return tags


@dataclass(frozen=True)
class Both:
    """Two noun phrases as one subject: plural, and feminine only if both are."""

    first: NounPhrase
    second: NounPhrase
    person: str = "ils"
    plural: bool = True

    @property
    def gender(self) -> str:
        return "f" if self.first.gender == self.second.gender == "f" else "m"

    @property
    def nouns(self) -> tuple[Noun, ...]:
        return self.first.nouns + self.second.nouns

    def phrase(self, negated: bool = False) -> Phrase:
        return self.first.phrase() + fixed("and", "et", "coordination") + self.second.phrase()


def prepositional(preposition: str, noun_phrase: NounPhrase) -> Phrase:
    """'near the church' is *près de l'église*."""
    french, main, _ = PREPOSITIONS[preposition]
    return fixed(preposition, french, main=main) + noun_phrase.phrase()
