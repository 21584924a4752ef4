"""Sentences and alignments that were checked by hand, each built from its parts."""

import pytest

from d2l_attention.data import lexicon
from d2l_attention.data.clauses import and_then, be, clause, predicate, that, who
from d2l_attention.data.grammar import PHENOMENA
from d2l_attention.data.phrases import Both, NounPhrase, fixed, prepositional
from d2l_attention.data.sentences import HER, HIM, SUBJECTS, THEM, pronoun_for

ADJECTIVE = {adjective.english: adjective for adjective in lexicon.ADJECTIVES}
SINGULAR = {noun.english: noun for noun in lexicon.NOUNS}
PLURAL = {noun.english_plural: noun for noun in lexicon.NOUNS}
VERB = {
    verb.name: verb
    for verb in [
        *[*lexicon.ACTIONS, *lexicon.STATES, *lexicon.INTRANSITIVE, lexicon.HAVE, lexicon.LIVE],
        *[lexicon.GO, lexicon.RETURN, lexicon.ARRIVE],
    ]
}
SAY = {verb.name: verb for verb in lexicon.REPORTING}
PRONOUN = {pronoun.english: pronoun for pronoun in [*SUBJECTS, HIM, HER, THEM]}


def np(text):
    """'the small red hat' as a noun phrase, 'she' as a pronoun, a noun phrase as it is."""
    if not isinstance(text, str):
        return text
    if text in PRONOUN:
        return PRONOUN[text]
    determiner, *adjectives, noun = text.split()
    plural = noun in PLURAL
    return NounPhrase(
        "a" if determiner == "an" else determiner,
        (PLURAL if plural else SINGULAR)[noun],
        tuple(ADJECTIVE[adjective] for adjective in adjectives),
        plural,
    )


def say(subject, verb, obj=None, **options):
    return clause(np(subject), VERB[verb], obj and np(obj), **options)


def is_(subject, adjective, **options):
    return be(np(subject), predicate(ADJECTIVE[adjective], np(subject)), **options)


def at(preposition, text):
    return prepositional(preposition, np(text))


PAST, NOT = {"past": True}, {"negated": True}
DENIED = PAST | NOT
OFTEN = {"adverb": fixed("often", "souvent")}
QUE = fixed("that", "que")


def sequel(subject, first, obj, second, **options):
    subject, obj = np(subject), np(obj)
    start = clause(subject, VERB[first], obj, **options)
    return and_then(start, subject, VERB[second], pronoun_for(obj), **options)


def then(first, english, french, second):
    return first + fixed(english, french) + second


CHECKED = {
    # articles, agreement, the adjective's place
    "the girl eats an apple | la fille mange une pomme": say("the girl", "eat", "an apple"),
    "a king buys two black horses | un roi achète deux chevaux noirs": say(
        "a king", "buy", "two black horses"
    ),
    "the woman wears a small red hat | la femme porte un petit chapeau rouge": say(
        "the woman", "wear", "a small red hat"
    ),
    "the women wear these old white dresses | les femmes portent ces vieilles robes blanches": say(
        "the women", "wear", "these old white dresses"
    ),
    "he has three expensive cars | il a trois voitures chères": say(
        "he", "have", "three expensive cars"
    ),
    "we see some strange birds | nous voyons des oiseaux étranges": say(
        "we", "see", "some strange birds"
    ),
    "we see some beautiful birds | nous voyons de beaux oiseaux": say(
        "we", "see", "some beautiful birds"
    ),
    "the young french teacher opens the letter | le jeune professeur français ouvre la lettre": say(
        "the young french teacher", "open", "the letter"
    ),
    "she knows the hotel | elle connaît l' hôtel": say("she", "know", "the hotel"),
    "this story is sad | cette histoire est triste": is_("this story", "sad"),
    "she is happy | elle est heureuse": is_("she", "happy"),
    "my uncle and his sister are tired | mon oncle et sa sœur sont fatigués": is_(
        Both(np("my uncle"), np("his sister")), "tired"
    ),
    "the queen and her sister are tired | la reine et sa sœur sont fatiguées": is_(
        Both(np("the queen"), np("her sister")), "tired"
    ),
    # before a vowel sound: bel, vieil, nouvel, cet, mon; h aspiré
    "the old man reads the newspaper | le vieil homme lit le journal": say(
        "the old man", "read", "the newspaper"
    ),
    "i see a beautiful bird | je vois un bel oiseau": say("i", "see", "a beautiful bird"),
    "i see a beautiful owl | je vois un beau hibou": say("i", "see", "a beautiful owl"),
    "the new student looks at the old heroes | le nouvel étudiant regarde les vieux héros": say(
        "the new student", "look at", "the old heroes"
    ),
    "we visit this hospital | nous visitons cet hôpital": say("we", "visit", "this hospital"),
    "this owl looks at this bear | ce hibou regarde cet ours": say(
        "this owl", "look at", "this bear"
    ),
    "i know my school | je connais mon école": say("i", "know", "my school"),
    "i know my old school | je connais ma vieille école": say("i", "know", "my old school"),
    "their friends love our island | leurs amis aiment notre île": say(
        "their friends", "love", "our island"
    ),
    # negation, pas de
    "she does not eat an apple | elle ne mange pas de pomme": say("she", "eat", "an apple", **NOT),
    "the girls do not eat any oranges | les filles ne mangent pas d' oranges": say(
        "the girls", "eat", "any oranges", **NOT
    ),
    "i do not have a good umbrella | je n' ai pas de bon parapluie": say(
        "i", "have", "a good umbrella", **NOT
    ),
    "he does not buy any old clocks | il n' achète pas de vieilles horloges": say(
        "he", "buy", "any old clocks", **NOT
    ),
    "they did not write a story | ils n' ont pas écrit d' histoire": say(
        "they", "write", "a story", **DENIED
    ),
    "the boy does not look for his dog | le garçon ne cherche pas son chien": say(
        "the boy", "look for", "his dog", **NOT
    ),
    # pronouns before the verb
    "i see him | je le vois": say("i", "see", "him"),
    "i love her | je l' aime": say("i", "love", "her"),
    "we look for her | nous la cherchons": say("we", "look for", "her"),
    "he does not listen to him | il ne l' écoute pas": say("he", "listen to", "him", **NOT),
    "she did not see him | elle ne l' a pas vu": say("she", "see", "him", **DENIED),
    "the girl takes the apple and eats it | la fille prend la pomme et la mange": sequel(
        "the girl", "take", "the apple", "eat"
    ),
    "the girl takes the cake and eats it | la fille prend le gâteau et le mange": sequel(
        "the girl", "take", "the cake", "eat"
    ),
    "they saw two women and followed them | ils ont vu deux femmes et les ont suivies": sequel(
        "they", "see", "two women", "follow", **PAST
    ),
    "she found the letters and opened them | elle a trouvé les lettres et les a ouvertes": sequel(
        "she", "find", "the letters", "open", **PAST
    ),
    # passé composé
    "she saw her | elle l' a vue": say("she", "see", "her", **PAST),
    "she left | elle est partie": say("she", "leave", **PAST),
    "my sisters fell | mes sœurs sont tombées": say("my sisters", "fall", **PAST),
    "the queen arrived at the castle | la reine est arrivée au château": say(
        "the queen", "arrive", **PAST
    )
    + at("at", "the castle"),
    "we went to the hotel | nous sommes allés à l' hôtel": say("we", "go", **PAST)
    + at("to", "the hotel"),
    # places, contractions, adverbs
    "we go to the park with our dog | nous allons au parc avec notre chien": say("we", "go")
    + at("to", "the park")
    + at("with", "our dog"),
    "he lives near the village | il habite près du village": say("he", "live")
    + at("near", "the village"),
    "i live near the church | j' habite près de l' église": say("i", "live")
    + at("near", "the church"),
    "they do not work behind the school | ils ne travaillent pas derrière l' école": say(
        "they", "work", **NOT
    )
    + at("behind", "the school"),
    "the cat is in front of the house | le chat est devant la maison": be(
        np("the cat"), at("in front of", "the house")
    ),
    "they return to the churches | ils retournent aux églises": say("they", "return")
    + at("to", "the churches"),
    "they are near the gardens | ils sont près des jardins": be(
        np("they"), at("near", "the gardens")
    ),
    "the bird often sings in this garden | l' oiseau chante souvent dans ce jardin": say(
        "the bird", "sing", **OFTEN
    )
    + at("in", "this garden"),
    "she does not often read the story | elle ne lit pas souvent l' histoire": say(
        "she", "read", "the story", **OFTEN, **NOT
    ),
    # two clauses, relative clauses
    "he is sad because he does not have a dog | il est triste parce qu' il n' a pas de chien": then(
        is_("he", "sad"), "because", "parce que", say("he", "have", "a dog", **NOT)
    ),
    "she knows that they arrive today | elle sait qu' ils arrivent aujourd'hui": clause(
        np("she"), SAY["know"]
    )
    + QUE
    + say("they", "arrive")
    + fixed("today", "aujourd'hui"),
    "we think that the car is old | nous pensons que la voiture est vieille": clause(
        np("we"), SAY["think"]
    )
    + QUE
    + is_("the car", "old"),
    "the girls who dance are young | les filles qui dansent sont jeunes": is_(
        who(np("the girls"), VERB["dance"]), "young"
    ),
    "the cows that do not sleep follow him | les vaches qui ne dorment pas le suivent": say(
        who(np("the cows"), VERB["sleep"], negated=True), "follow", "him"
    ),
    "the actresses who left love the king | les actrices qui sont parties aiment le roi": say(
        who(np("the actresses"), VERB["leave"], past=True), "love", "the king"
    ),
    "the pears that she ate are green | les poires qu' elle a mangées sont vertes": is_(
        that(np("the pears"), np("she"), VERB["eat"], past=True), "green"
    ),
    "the book that the boys read is famous | le livre que les garçons lisent est célèbre": is_(
        that(np("the book"), np("the boys"), VERB["read"]), "famous"
    ),
}


@pytest.mark.parametrize("checked", CHECKED)
def test_checked_by_hand(checked):
    pair = CHECKED[checked].pair()
    assert f"{' '.join(pair.source)} | {' '.join(pair.target)}" == checked


def test_the_list_is_long_and_shows_every_phenomenon():
    shown = {tag for phrase in CHECKED.values() for tag in phrase.pair().tags}
    assert len(CHECKED) >= 55
    assert shown | {"adverb", "two clauses", "coordination"} == set(PHENOMENA)


# Sure links, then those that are only possible: English word - French word.
ALIGNED = {
    "the woman wears a small red hat": ("0-0 1-1 2-2 3-3 4-4 6-5 5-6", ""),
    "she does not eat an apple": ("0-0 2-1 3-2 2-3 4-4 5-5", "1-2"),
    "they did not write a story": ("0-0 2-1 1-2 2-3 3-4 4-5 5-6", "3-2"),
    "she saw her": ("0-0 2-1 1-3", "1-2"),
    "we look for her": ("0-0 3-1 1-2", "2-2"),
    "the girl takes the apple and eats it": ("0-0 1-1 2-2 3-3 4-4 5-5 7-6 6-7", ""),
    "he lives near the village": ("0-0 1-1 2-2 3-3 4-4", "2-3"),
    "we go to the park with our dog": ("0-0 1-1 2-2 4-3 5-4 6-5 7-6", "3-2"),
    "the cat is in front of the house": ("0-0 1-1 2-2 4-3 6-4 7-5", "3-3 5-3"),
}


@pytest.mark.parametrize("source", ALIGNED)
def test_alignments_by_hand(source):
    pairs = {" ".join(pair.source): pair for pair in (p.pair() for p in CHECKED.values())}
    sure, possible = (
        {tuple(map(int, link.split("-"))) for link in links.split()} for links in ALIGNED[source]
    )
    assert set(pairs[source].sure) == sure
    assert set(pairs[source].possible) == sure | possible


def test_a_phrase_says_what_does_not_go_together():
    with pytest.raises(ValueError, match="'these' does not go with a singular noun"):
        NounPhrase("these", SINGULAR["dog"]).phrase()
    with pytest.raises(ValueError, match="'a' does not go with a plural noun"):
        NounPhrase("a", SINGULAR["dog"], plural=True).phrase()
    with pytest.raises(ValueError, match="'read' has no past"):
        say("she", "read", "the book", past=True)
