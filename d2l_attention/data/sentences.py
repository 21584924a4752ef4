"""Sensible sentences, drawn at random: who may do what to whom, and how often."""

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from d2l_attention.data import lexicon
from d2l_attention.data.clauses import Subject, and_then, be, clause, predicate, that, who
from d2l_attention.data.lexicon import Adjective, Noun, Verb
from d2l_attention.data.phrases import Both, NounPhrase, Phrase, Pronoun, fixed, prepositional

PERSON = frozenset({"person"})
ANIMATE = PERSON | {"animal"}
EVERYTHING = ANIMATE | {"food", "text", "clothes", "thing", "plant", "vehicle", "place"}
SUBJECTS = [
    Pronoun("i", "je", "je"),
    Pronoun("he", "il", "il"),
    Pronoun("she", "elle", "il", "f"),
    Pronoun("we", "nous", "nous", plural=True),
    Pronoun("they", "ils", "ils", plural=True),
]
HIM, HER = Pronoun("him", "le", "il"), Pronoun("her", "la", "il", "f")
THEM = Pronoun("them", "les", "ils", plural=True)
# Determiners of a singular and of a plural noun phrase, by what it is for; "own": a possessive.
# Where there are none for a plural, there is no plural.
USES = {
    "subject": ("the the the own this a", "the the own these two some"),
    "object": ("the a a own this", "the some own these two three"),
    "negated": ("a a the own", "any any the own"),
    "definite": ("the the own this", "the own these"),
    "place": ("the the own this", ""),
    "goal": ("the the own", ""),
    "had": ("a", "some two three"),
    "not had": ("a", "any"),
}
JOINTS = [("and", "et"), ("but", "mais"), ("because", "parce que")]
# 'She finds the letter and reads it': what may follow from what.
SEQUELS = {
    "look for": ("find",),
    "find": ("eat", "read", "wear", "open", "take"),
    "buy": ("eat", "read", "wear", "open"),
    "take": ("eat", "read", "wear", "open"),
    "see": ("follow", "help", "take", "buy", "visit", "listen to", "look at"),
}
SOCIABLE = {"sing", "work", "dance", "stay", "leave"}
WHERE = ("in", "in", "in", "near", "near", "on", "behind", "in front of", "under")


def sentence(rng: random.Random) -> Phrase:
    """One clause, or two joined in one of three ways."""
    return rng.choices((one_clause, sequel, reported, joined), (68, 10, 9, 13))[0](rng)


def one_clause(rng: random.Random) -> Phrase:
    forms = (acting, doing, moving, having, knowing, living, described, located)
    return rng.choices(forms, (10, 3, 2, 1.5, 1.5, 0.5, 3, 1.5))[0](rng)


def joined(rng: random.Random) -> Phrase:
    """'The girl is happy because she has two cats'; what somebody does is no such reason."""
    english, french = rng.choice(JOINTS)
    second = rng.choice((having, knowing, described)) if english == "because" else one_clause
    return one_clause(rng) + fixed(english, french, "two clauses") + second(rng)


def reported(rng: random.Random) -> Phrase:
    """'The king thinks that ...'"""
    said = fixed("that", "que", "two clauses") + one_clause(rng)
    return clause(draw_subject(rng, PERSON), rng.choice(lexicon.REPORTING)) + said


def sequel(rng: random.Random) -> Phrase:
    """'The girl takes the apple and eats it.'"""
    subject, past = draw_subject(rng, PERSON), rng.random() < 0.4
    verbs = {verb.name: verb for verb in lexicon.ACTIONS if verb.past or not past}
    first = verbs[rng.choice(list(SEQUELS))]
    then = [verbs[name] for name in SEQUELS[first.name] if name in verbs]
    nouns = [n for n in nouns_of(first.objects) if any(n.kinds & verb.objects for verb in then)]
    obj = draw_noun_phrase(rng, nouns, "object")
    second = rng.choice([verb for verb in then if verb.objects & obj.noun.kinds])
    start = clause(subject, first, obj, past=past)
    return and_then(start, subject, second, pronoun_for(obj), past=past)


def pronoun_for(said: NounPhrase) -> Pronoun:
    """him, her, it or them, with the gender of the noun it stands for."""
    if said.plural:
        return replace(THEM, gender=said.gender)
    pronoun = HER if said.gender == "f" else HIM
    return pronoun if "person" in said.noun.kinds else replace(pronoun, english="it")


# ---- Clauses -----------------------------------------------------------------------------------


def acting(rng: random.Random) -> Phrase:
    """'She often eats an apple in the garden.'"""
    subject = draw_subject(rng, ANIMATE)
    verb = rng.choice([verb for verb in lexicon.ACTIONS if verb.subjects & kinds_of(subject)])
    past, negated = draw_manner(rng, verb)
    if verb.english != "eat" and rng.random() < 0.3:
        obj = rng.choice((HIM, HER, THEM) if verb.objects & PERSON else (THEM,))
        anywhere = True
    else:
        obj = draw_object(rng, others(nouns_of(verb.objects), subject), negated)
        anywhere = "place" not in obj.noun.kinds and not obj.after.english
    often = draw_often(rng, past)
    phrase = clause(subject, verb, obj, past=past, negated=negated, adverb=often)
    phrase += draw_place(rng) if anywhere and rng.random() < 0.3 else Phrase()
    return phrase if often else phrase + draw_time(rng, past)


def doing(rng: random.Random) -> Phrase:
    """'The boy sleeps under the tree.'"""
    subject = draw_subject(rng, ANIMATE)
    verb = rng.choice([verb for verb in lexicon.INTRANSITIVE if verb.subjects & kinds_of(subject)])
    past, negated = draw_manner(rng, verb)
    often = draw_often(rng, past)
    phrase = clause(subject, verb, past=past, negated=negated, adverb=often)
    if verb.english in SOCIABLE and rng.random() < 0.35:
        phrase += draw_company(rng, subject)
    phrase += draw_place(rng) if verb.english != "leave" and rng.random() < 0.6 else Phrase()
    return phrase if often else phrase + draw_time(rng, past)


def moving(rng: random.Random) -> Phrase:
    """'We go to the island with our friends.'"""
    subject, preposition = draw_subject(rng, PERSON), rng.choice(("to", "to", "at"))
    verb = rng.choice(lexicon.MOVEMENTS[preposition])
    past, negated = draw_manner(rng, verb)
    phrase = clause(subject, verb, past=past, negated=negated)
    phrase += draw_place(rng, preposition, "goal")
    phrase += draw_company(rng, subject) if rng.random() < 0.3 else Phrase()
    return phrase + draw_time(rng, past)


def having(rng: random.Random) -> Phrase:
    """'He has two sisters and no dog' is 'he does not have a dog'."""
    subject, negated = draw_subject(rng, PERSON), rng.random() < 0.4
    nouns = others(nouns_of(lexicon.HAVE.objects), subject)
    obj = draw_noun_phrase(rng, nouns, "not had" if negated else "had")
    return clause(subject, lexicon.HAVE, obj, negated=negated)


def knowing(rng: random.Random) -> Phrase:
    """'The boy loves his dog.'"""
    subject, verb = draw_subject(rng, PERSON), rng.choice(lexicon.STATES)
    obj = draw_noun_phrase(rng, others(nouns_of(verb.objects), subject), "definite")
    return clause(subject, verb, obj, negated=rng.random() < 0.2)


def living(rng: random.Random) -> Phrase:
    """'They live near the church.'"""
    home = draw_place(rng, rng.choice(("in", "in", "near")))
    return clause(draw_subject(rng, PERSON), lexicon.LIVE, negated=rng.random() < 0.2) + home


def described(rng: random.Random) -> Phrase:
    """'The flowers are not red.'"""
    subject = draw_subject(rng, EVERYTHING, "definite", plain=True)
    kinds = kinds_of(subject)
    fitting = [adjective for adjective in lexicon.ADJECTIVES if adjective.kinds & kinds]
    fitting = [
        adjective for adjective in fitting if adjective.english not in lexicon.NEVER_PREDICATE
    ]
    return be(subject, predicate(rng.choice(fitting), subject), negated=rng.random() < 0.25)


def located(rng: random.Random) -> Phrase:
    """'The old boat is near the island.'"""
    subject = draw_subject(rng, EVERYTHING - {"place", "plant"}, "definite")
    outside = "vehicle" in kinds_of(subject)
    preposition = rng.choice(("near", "behind", "in front of") if outside else WHERE)
    return be(subject, draw_place(rng, preposition), negated=rng.random() < 0.2)


# ---- Parts of clauses --------------------------------------------------------------------------


@cache
def nouns_of(kinds: frozenset[str]) -> list[Noun]:
    return [noun for noun in lexicon.NOUNS if noun.kinds & kinds]


@cache
def adjectives_of(noun: Noun) -> list[Adjective]:
    return [adjective for adjective in lexicon.ADJECTIVES if adjective.kinds & noun.kinds]


def others(nouns: list[Noun], than: Subject) -> list[Noun]:
    return [noun for noun in nouns if noun not in than.nouns]


def kinds_of(subject: Subject) -> frozenset[str]:
    """What all nouns of the subject are; a pronoun is a person."""
    kinds = [noun.kinds for noun in subject.nouns]
    return frozenset.intersection(*kinds) if kinds else PERSON


def draw_subject(
    rng: random.Random, kinds: frozenset[str], use: str = "subject", *, plain: bool = False
) -> Subject:
    """A pronoun, two people or a noun phrase; a ``plain`` one has no adjectives."""
    if rng.random() < (0.4 if kinds <= ANIMATE else 0.15):
        return rng.choice(SUBJECTS)
    people = nouns_of(PERSON)
    if rng.random() < 0.1:
        first, second = rng.sample(people, 2)
        return Both(
            draw_noun_phrase(rng, [first], use, plain=plain),
            draw_noun_phrase(rng, [second], use, plain=plain),
        )
    nouns = people if rng.random() < 0.4 else nouns_of(kinds)
    subject = draw_noun_phrase(rng, nouns, use, plain=plain)
    return draw_relative(rng, subject) if rng.random() < 0.15 else subject


def draw_object(rng: random.Random, nouns: Sequence[Noun], negated: bool) -> NounPhrase:
    noun = rng.choice(nouns)
    if negated:
        return draw_noun_phrase(rng, [noun], "definite" if "person" in noun.kinds else "negated")
    obj = draw_noun_phrase(rng, [noun], "object")
    return draw_relative(rng, obj) if obj.determiner == "the" and rng.random() < 0.2 else obj


def draw_noun_phrase(
    rng: random.Random, nouns: Sequence[Noun], use: str = "definite", *, plain: bool = False
) -> NounPhrase:
    noun, (singulars, plurals) = rng.choice(nouns), USES[use]
    plural = plurals != "" and rng.random() < 0.3
    determiner = rng.choice((plurals if plural else singulars).split())
    if "kin" in noun.kinds and use not in ("had", "not had"):
        determiner = "own"
    if determiner == "own":
        determiner = rng.choice(lexicon.POSSESSIVES) if "own" in noun.kinds else "the"
    adjectives = () if plain else draw_adjectives(rng, noun)
    wholes = [
        frozenset(whole.split()) for parts, whole in lexicon.PARTS if noun.english in parts.split()
    ]
    after = Phrase()
    if wholes and determiner == "the" and rng.random() < 0.3:
        after = prepositional("of", NounPhrase("the", rng.choice(nouns_of(wholes[0]))))
    return NounPhrase(determiner, noun, adjectives, plural, after)


def draw_adjectives(rng: random.Random, noun: Noun) -> tuple[Adjective, ...]:
    """None, one, or two of which French puts one on each side: *un petit chapeau rouge*."""
    if rng.random() < 0.5:
        return ()
    first = rng.choice(adjectives_of(noun))
    stacked = [second for second in adjectives_of(noun) if second.english in lexicon.STACKED]
    if first.position == "before" and stacked and rng.random() < 0.3:
        return first, rng.choice(stacked)
    return (first,)


def draw_relative(rng: random.Random, head: NounPhrase) -> NounPhrase:
    """'The boy who sings', 'the apple that she ate'; not 'the king of the island that she ...'."""
    if head.after.english:
        return head
    kinds = head.noun.kinds
    if kinds & ANIMATE and rng.random() < 0.5:
        verb = rng.choice([verb for verb in lexicon.INTRANSITIVE if verb.subjects & kinds])
        past, negated = draw_manner(rng, verb)
        return who(head, verb, past=past, negated=negated)
    verbs = [*lexicon.ACTIONS, *lexicon.STATES]
    verb = rng.choice([verb for verb in verbs if verb.objects & kinds])
    subject = rng.choice(SUBJECTS)
    if rng.random() < 0.4:
        subject = draw_noun_phrase(rng, others(nouns_of(PERSON), head))
    past, negated = draw_manner(rng, verb)
    return that(head, subject, verb, past=past, negated=negated)


def draw_manner(rng: random.Random, verb: Verb) -> tuple[bool, bool]:
    """Whether it is past, and whether it is denied."""
    return verb.past is not None and rng.random() < 0.4, rng.random() < 0.25


def draw_often(rng: random.Random, past: bool) -> Phrase | None:
    return fixed(*lexicon.ADVERB, "adverb") if not past and rng.random() < 0.2 else None


def draw_place(rng: random.Random, preposition: str = "", use: str = "place") -> Phrase:
    preposition = preposition or rng.choice(WHERE)
    nouns = nouns_of(frozenset(lexicon.PREPOSITIONS[preposition][2].split()))
    return prepositional(preposition, draw_noun_phrase(rng, nouns, use))


def draw_company(rng: random.Random, subject: Subject) -> Phrase:
    kinds = frozenset(lexicon.PREPOSITIONS["with"][2].split())
    return prepositional("with", draw_noun_phrase(rng, others(nouns_of(kinds), subject)))


def draw_time(rng: random.Random, past: bool) -> Phrase:
    """'yesterday' or 'today', now and then."""
    words = lexicon.YESTERDAY if past else lexicon.TODAY
    return fixed(*words) if rng.random() < 0.12 else Phrase()
