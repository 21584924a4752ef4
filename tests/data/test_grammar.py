"""The built-in corpus: splits, errors, and rules of French that every sentence must keep.

The rules look at finished sentences with a small lexicon of this file's own: the grammar is not
asked what is right.
"""

import os
import subprocess
import sys
from random import Random

import pytest

from d2l_attention.data import grammar, lexicon
from d2l_attention.data.grammar import PHENOMENA, corpus, is_held_out, splits
from d2l_attention.data.sentences import sentence

ADJECTIVES = {adjective.english for adjective in lexicon.ADJECTIVES}
NOUNS = {form: n.english for n in lexicon.NOUNS for form in (n.english, n.english_plural)}


@pytest.fixture(scope="module")
def course():
    return splits()


def test_sizes_and_lengths(course):
    assert [len(split) for split in (course.train, course.valid, course.test)] == [8000, 500, 500]
    assert len(course.compositional) == 500
    lengths = [len(pair.source) for pair in course.test]
    assert min(lengths) == 3 and max(lengths) == 16
    assert sum(length >= 12 for length in lengths) >= 50


def test_no_source_is_in_two_splits(course):
    sources = [pair.source for split in all_splits(course) for pair in split]
    assert len(set(sources)) == len(sources)


def all_splits(course):
    return course.train, course.valid, course.test, course.compositional


def test_the_same_seed_gives_the_same_corpus_in_another_process(course):
    assert corpus(70, 3) == corpus(70, 3) != corpus(70, 4)
    assert corpus(50, 3) == corpus(70, 3)[:50]
    # Sets of strings have another order in a process with another hash seed.
    code = "from d2l_attention.data.grammar import corpus; print(*corpus(70, 3), sep='\\n')"
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONIOENCODING": "utf-8"}
    options = {"env": environment, "capture_output": True, "encoding": "utf-8", "check": True}
    lines = subprocess.run([sys.executable, "-c", code], **options).stdout.splitlines()
    for line, pair in zip(lines, corpus(70, 3), strict=True):
        assert line.partition(", tags=")[0] == str(pair).partition(", tags=")[0]


def test_every_word_is_learned_before_it_is_tested(course):
    seen = {word for pair in course.train for word in pair.source}
    assert {word for split in all_splits(course) for pair in split for word in pair.source} <= seen
    french = [{word for pair in split for word in pair.target} for split in all_splits(course)]
    assert len(set().union(*french) - french[0]) <= 3


def descriptions(pair):
    """The pairs (adjective, noun) that can be seen in the English words alone."""
    words, found = list(pair.source), set()
    for i, word in enumerate(words):
        before = i - 1
        while word in NOUNS and words[before] in ADJECTIVES:
            found.add((words[before], NOUNS[word]))
            before -= 1
        rest = [w for w in words[i + 1 : i + 4] if w != "not"]
        # The subject of 'is' only where it starts a clause: 'who saw the girl is sad' is not.
        starts = i == 1 or words[i - 2] in ("and", "but", "because", "that")
        if word in NOUNS and starts and rest[:1] in (["is"], ["are"]) and rest[1:]:
            if rest[1] in ADJECTIVES:
                found.add((rest[1], NOUNS[word]))
    return found


def test_the_compositional_pairs_are_new_and_their_words_are_not(course):
    known = {described for pair in course.train for described in descriptions(pair)}
    assert not any(is_held_out(*described) for described in known)
    shown = {described for pair in course.compositional for described in descriptions(pair)}
    new = {described for described in shown if is_held_out(*described)}
    assert len(new) >= 60
    assert {adjective for adjective, _ in new} <= {adjective for adjective, _ in known}
    assert {noun for _, noun in new} <= {noun for _, noun in known}
    found = [bool(descriptions(pair) & new) for pair in course.compositional]
    assert sum(found) >= 450  # the others describe the head of a longer subject


def test_compositional_errors_and_other_sizes(monkeypatch):
    small = splits(seed=5, train=13, valid=2, test=3)
    assert [len(split) for split in all_splits(small)] == [13, 2, 3, 3]
    assert corpus(0) == []
    with pytest.raises(ValueError, match="n must be 0 or more, got -1"):
        corpus(-1)
    monkeypatch.setattr(grammar, "LENGTHS", range(2, 3))
    monkeypatch.setattr(grammar, "PATIENCE", 300)
    with pytest.raises(ValueError, match="n = 5000 is too much, only .* sentences were found"):
        corpus(5000)


def test_one_sentence_has_one_translation():
    rng, translations = Random(2), {}
    for _ in range(3000):
        pair = sentence(rng).pair()
        assert translations.setdefault(pair.source, pair.target) == pair.target


# ---- The lexicon -------------------------------------------------------------------------------


def test_every_kind_that_is_asked_for_is_some_nouns_kind():
    kinds = set().union(*(noun.kinds for noun in lexicon.NOUNS))
    verbs = [*lexicon.ACTIONS, *lexicon.STATES, *lexicon.INTRANSITIVE, lexicon.HAVE, lexicon.GO]
    asked = set().union(*(adjective.kinds for adjective in lexicon.ADJECTIVES))
    asked |= set().union(*(verb.subjects | verb.objects for verb in verbs))
    asked |= {kind for *_, places in lexicon.PREPOSITIONS.values() for kind in places.split()}
    asked |= {kind for row in lexicon.PARTS for names in row for kind in names.split()}
    assert asked <= kinds
    assert lexicon.STACKED | lexicon.NEVER_PREDICATE <= ADJECTIVES


def test_no_word_has_two_genders_or_two_entries():
    for forms in (
        [form for noun in lexicon.NOUNS for form in {noun.english, noun.english_plural}],
        [form for noun in lexicon.NOUNS for form in {noun.french, noun.french_plural}],
        [adjective.english for adjective in lexicon.ADJECTIVES],
        [adjective.masculine for adjective in lexicon.ADJECTIVES],
    ):
        assert len(set(forms)) == len(forms)
    assert {noun.gender for noun in lexicon.NOUNS} == {"m", "f"}
    assert {adjective.position for adjective in lexicon.ADJECTIVES} == {"before", "after"}


# ---- Rules of French -----------------------------------------------------------------------------

# Own gender and number of every French noun: m or f, then s (singular) or p; x is both.
NOUN_FEATURES = """
ms garçon homme roi professeur médecin étudiant ami oncle frère chien chat cheval oiseau hibou œuf
ms gâteau livre journal chapeau manteau sac parapluie arbre bateau avion hôtel hôpital château
ms village jardin parc
mp garçons hommes rois professeurs médecins étudiants amis oncles frères chiens chats chevaux
mp oiseaux hiboux œufs gâteaux livres journaux chapeaux manteaux sacs parapluies arbres bateaux
mp avions hôtels hôpitaux châteaux villages jardins parcs
fs fille femme reine infirmière sœur actrice vache pomme orange poire tomate lettre histoire robe
fs écharpe chaise horloge assiette fleur voiture maison école église île
fp filles femmes reines infirmières sœurs actrices vaches pommes oranges poires tomates lettres
fp histoires robes écharpes chaises horloges assiettes fleurs voitures maisons écoles églises îles
mx héros ours
fx souris
"""
ADJECTIVE_FEATURES = """
ms beau bel vieux vieil nouveau nouvel grand petit bon joli gros noir blanc vert bleu français
ms heureux fatigué intelligent cher
mp beaux vieux nouveaux grands petits bons jolis gros noirs blancs verts bleus français heureux
mp fatigués intelligents chers
fs belle vieille nouvelle grande petite bonne jolie grosse noire blanche verte bleue française
fs heureuse fatiguée intelligente chère
fp belles vieilles nouvelles grandes petites bonnes jolies grosses noires blanches vertes bleues
fp françaises heureuses fatiguées intelligentes chères
xs jeune rouge triste célèbre étrange vide
xp jeunes rouges tristes célèbres étranges vides
"""
DETERMINER_FEATURES = """
ms le un ce cet mon son du au
fs la une cette ma sa
xs l' notre leur
xp les des ces deux trois mes ses nos leurs aux
xx de d'
"""
SILENT_H = {"homme", "hommes", "hôtel", "hôtels", "hôpital", "hôpitaux", "histoire", "histoires"}
SILENT_H |= {"horloge", "horloges", "heureux", "heureuse", "heureuses", "hier"}
SILENT_H |= {"habite", "habitons", "habitent", "habité"}
ELIDED = {"l'": ("le", "la"), "j'": ("je",), "n'": ("ne",), "d'": ("de",), "qu'": ("que",)}
CLITICS = {"ne", "n'", "le", "la", "l'", "les"}
AVOIR, ETRE = {"ai", "a", "avons", "ont"}, {"suis", "est", "sommes", "sont"}


def features(table):
    """Each word with the set of (gender, number) that it can have."""
    found = {}
    for row in table.strip().splitlines():
        (gender, number), *words = row.split()
        for word in words:
            found.setdefault(word, set()).update(
                (g, n) for g in gender.replace("x", "mf") for n in number.replace("x", "sp")
            )
    return found


NOUN = features(NOUN_FEATURES)
ADJECTIVE = features(ADJECTIVE_FEATURES)
DETERMINER = features(DETERMINER_FEATURES)


def vowel(word):
    return word in SILENT_H or word[0] in "aeiouéèêâîôœ"


@pytest.fixture(scope="module")
def pairs(course):
    return [*course.train[:4000], *course.compositional]


def shown(pair):
    return f"{' '.join(pair.source)} | {' '.join(pair.target)}"


def noun_phrases(words):
    """Start, end and possible (gender, number) of each determiner + adjectives + noun."""
    for j, word in enumerate(words):
        if word in NOUN:
            start, end = j - 1, j + 1
            while words[start] in ADJECTIVE:
                start -= 1
            while end < len(words) and words[end] in ADJECTIVE:
                end += 1
            fitting = set(DETERMINER[words[start]])
            if words[start] in ("mon", "son") and vowel(words[start + 1]):
                fitting.add(("f", "s"))
            for member in words[start + 1 : end]:
                fitting &= (NOUN if member in NOUN else ADJECTIVE)[member]
            yield start, end, fitting


def verb_after(words, place):
    """The finite verb, after *ne* and pronouns."""
    while words[place] in CLITICS:
        place += 1
    return words[place]


def test_the_features_cover_the_lexicon():
    assert set(NOUN) == {
        form for noun in lexicon.NOUNS for form in (noun.french, noun.french_plural)
    }
    assert set(ADJECTIVE) == {form for row in lexicon.ADJECTIVES for form in row[1:6]}
    assert all(len({gender for gender, _ in found}) == 1 for found in NOUN.values())


def test_alignments_are_in_range_and_leave_no_word_out(pairs):
    for pair in pairs:
        sure, possible = set(pair.sure), set(pair.possible)
        assert sure <= possible, shown(pair)
        assert len(sure) == len(pair.sure) and len(possible) == len(pair.possible), shown(pair)
        assert {i for i, _ in possible} == set(range(len(pair.source))), shown(pair)
        assert {j for _, j in possible} == set(range(len(pair.target))), shown(pair)
        # One English word for each French word can be all right.
        assert len({j for _, j in sure}) == len(sure), shown(pair)


def test_every_content_word_has_a_sure_link(pairs):
    little = {"do", "does", "for", "to", "at", "in", "of", "the"}
    petits = AVOIR | ETRE | {"de", "d'", "que", "qu'"}
    for pair in pairs:
        unsure = {pair.source[i] for i in range(len(pair.source))}
        unsure -= {pair.source[i] for i, _ in pair.sure}
        assert unsure <= little, shown(pair)
        linked = {j for _, j in pair.sure}
        rest = {word for j, word in enumerate(pair.target) if j not in linked}
        assert rest <= petits, shown(pair)


def test_elision_before_every_vowel_and_nowhere_else(pairs):
    whole = {word for words in ELIDED.values() for word in words}
    for pair in pairs:
        for word, after in zip(pair.target, [*pair.target[1:], ""], strict=True):
            if word.endswith("'"):
                assert word in ELIDED and vowel(after), shown(pair)
            elif word in whole:
                assert after and not vowel(after), shown(pair)
            assert (word, after) not in [("de", "le"), ("de", "les"), ("à", "le"), ("à", "les")]


def test_the_forms_before_a_vowel(pairs):
    for pair in pairs:
        for word, after in zip(pair.target, pair.target[1:], strict=False):
            if word in ("bel", "vieil", "nouvel", "cet"):
                assert vowel(after), shown(pair)
            if word in ("ce", "ma", "sa"):
                assert not vowel(after), shown(pair)
            if word in ("beau", "vieux", "nouveau") and NOUN.get(after) == {("m", "s")}:
                assert not vowel(after), shown(pair)


def test_determiner_adjectives_and_noun_agree(pairs):
    for pair in pairs:
        for _, _, fitting in noun_phrases(pair.target):
            assert fitting, shown(pair)


def test_the_verb_agrees_with_its_subject(pairs):
    for pair in pairs:
        words = pair.target
        for i, word in enumerate(words):
            if word in ("je", "j'"):
                assert verb_after(words, i + 1).endswith(("e", "s", "ai")), shown(pair)
            elif word in ("il", "elle"):
                assert verb_after(words, i + 1).endswith(("e", "t", "d", "a")), shown(pair)
                assert not verb_after(words, i + 1).endswith("nt"), shown(pair)
            elif word == "nous":
                assert verb_after(words, i + 1).endswith(("ons", "sommes")), shown(pair)
            elif word == "ils":
                assert verb_after(words, i + 1).endswith("nt"), shown(pair)
        for start, end, fitting in noun_phrases(words):
            following = words[end] if end < len(words) else "et"
            subject = start == 0 and following not in ("que", "qu'", "et", "de", "du")
            if subject or following == "qui":
                verb = verb_after(words, end + (following == "qui"))
                plural = {number for _, number in fitting} == {"p"}
                assert verb.endswith("nt") == plural, shown(pair)


def test_participles_agree(pairs):
    stems = ("allé", "arrivé", "parti", "tombé", "resté", "retourné")
    endings = {"elle": "e", "il": "", "je": "", "ils": "s", "nous": "s"}
    seen = set()
    for pair in pairs:
        words = [word for word in pair.target if word not in ("ne", "n'", "pas")]
        for before, auxiliary, participle in zip(words, words[1:], words[2:], strict=False):
            stem = next((stem for stem in stems if participle.startswith(stem)), None)
            if auxiliary in ETRE and stem and before in endings:
                assert participle == stem + endings[before], shown(pair)
                seen.add(participle)
            if auxiliary in AVOIR and before == "les":
                assert participle.endswith("s"), shown(pair)
    assert len(seen) >= 15


def test_tags_say_what_is_there(pairs):
    counts = dict.fromkeys(PHENOMENA, 0)
    for pair in pairs:
        for tag in pair.tags:
            counts[tag] += 1
        source, target = set(pair.source), set(pair.target)
        assert ("negation" in pair.tags) == ("not" in source), shown(pair)
        assert ("negation" in pair.tags) == ("pas" in target), shown(pair)
        assert ("elision" in pair.tags) == bool(target & set(ELIDED)), shown(pair)
        assert ("adverb" in pair.tags) == ("souvent" in target), shown(pair)
        assert ("possessive" in pair.tags) == bool(source & {"my", "his", "our", "their"}) or (
            "her" in source
        ), shown(pair)
        if source & {"him", "them", "it"}:
            assert "clitic" in pair.tags, shown(pair)
        if target & {"bel", "vieil", "nouvel", "cet"}:
            assert "vowel form" in pair.tags, shown(pair)
        if target & {"du", "au", "aux"}:
            assert "contraction" in pair.tags, shown(pair)
        if "any" in source:
            assert "pas de" in pair.tags, shown(pair)
    assert min(counts.values()) >= 100
