"""Clauses: a subject and its verb, with all that French moves to another place."""

from dataclasses import replace

from d2l_attention.data.french import adjective_form, participle_form
from d2l_attention.data.lexicon import AUXILIARIES, BE, Adjective, Verb
from d2l_attention.data.phrases import Both, English, French, NounPhrase, Phrase, Pronoun, fixed

Subject = Pronoun | NounPhrase | Both


def clause(
    subject: Subject,
    verb: Verb,
    obj: Pronoun | NounPhrase | None = None,
    *,
    past: bool = False,
    negated: bool = False,
    adverb: Phrase | None = None,
    moved: NounPhrase | None = None,
) -> Phrase:
    """Subject, verb, object. French puts a pronoun before the verb, and two words around both.

    ``moved`` is an object that was said before: 'the apple *that* she ate'.
    """
    singular = subject.person == "il"
    helper = [English("did" if past else "does" if singular else "do")] if negated else []
    no = [English("not")] if negated else []
    main = English(english_form(verb, singular, past, negated))
    particle = [English(verb.particle)] if verb.particle else []
    adverb = adverb or Phrase()
    target = obj.phrase(negated) if obj else Phrase()
    clitic = isinstance(obj, Pronoun)

    participle: list[French] = []
    if past:
        auxiliary = AUXILIARIES[verb.auxiliary][subject.person]
        finite = French(auxiliary, helper[0] if helper else None, [main])
        said_before = subject if verb.auxiliary == "être" else obj if clitic else moved
        participle = [French(agree(verb.participle, said_before), main, particle)]
    else:
        finite = French(verb.present[subject.person], main, helper + particle)

    before, behind = (target.french, []) if clitic else ([], target.french)
    words = Phrase(
        [*helper, *no, *adverb.english, main, *particle, *target.english],
        [*surround([*before, finite], no), *adverb.french, *participle, *behind],
        target.tags | adverb.tags,
        target.described,
    )
    if negated:
        words = words.tagged("negation")
    if clitic:
        words = words.tagged("clitic")
    if past:
        words = words.tagged(f"passé composé with {verb.auxiliary}")
        if participle[0].text != verb.participle:
            words = words.tagged("participle agreement")
    return subject.phrase() + words


def english_form(verb: Verb, singular: bool, past: bool, negated: bool) -> str:
    if negated:
        return verb.english
    if past and verb.past is None:
        raise ValueError(f"verb {verb.english!r} has no past in the lexicon")
    return verb.past if past else verb.third if singular else verb.english


def agree(participle: str, with_whom: Subject | None) -> str:
    if with_whom is None:
        return participle
    return participle_form(participle, with_whom.gender, with_whom.plural)


def surround(words: list[French], no: list[English]) -> list[French]:
    """Put *ne* and *pas* around the words, if there is a 'not' that they stand for."""
    return [French("ne", *no), *words, French("pas", *no)] if no else words


def be(subject: Subject, complement: Phrase, *, negated: bool = False) -> Phrase:
    """'The house is red', 'the house is not near the church'."""
    english, french = BE[subject.person]
    verb = English(english)
    no = [English("not")] if negated else []
    words = Phrase([verb, *no], surround([French(french, verb)], no))
    return subject.phrase() + (words.tagged("negation") if negated else words) + complement


def predicate(adjective: Adjective, subject: Subject) -> Phrase:
    """An adjective after 'to be': it agrees with its subject from afar."""
    form = adjective_form(adjective, subject.gender, subject.plural)
    phrase = fixed(adjective.english, form, "predicate")
    phrase.described = {(adjective.english, noun.english) for noun in subject.nouns}
    return phrase if form == adjective.masculine else phrase.tagged("adjective agreement")


def who(head: NounPhrase, verb: Verb, obj: NounPhrase | None = None, **options) -> NounPhrase:
    """'The boy *who eats an apple*': the head does it, *qui*."""
    english = "who" if "person" in head.noun.kinds else "that"
    pronoun = Pronoun(english, "qui", head.person, head.gender, head.plural)
    return followed(head, clause(pronoun, verb, obj, **options).tagged("relative clause"))


def that(head: NounPhrase, subject: Subject, verb: Verb, **options) -> NounPhrase:
    """'The apple *that she eats*': it is done to the head, *que*."""
    relative = fixed("that", "que", "relative clause")
    return followed(head, relative + clause(subject, verb, moved=head, **options))


def followed(head: NounPhrase, after: Phrase) -> NounPhrase:
    return replace(head, after=head.after + after)


def and_then(first: Phrase, subject: Subject, verb: Verb, obj: Pronoun, **options) -> Phrase:
    """'She takes the apple *and eats it*': the subject is said once, the verb agrees twice."""
    unsaid = Pronoun("", "", subject.person, subject.gender, subject.plural)
    second = clause(unsaid, verb, obj, **options)
    return first + fixed("and", "et", "coordination") + second
