"""The words of the built-in grammar: what each is in French, and what it goes together with.

*Kinds* keep the sentences sensible: an adjective describes, and a verb takes, only nouns that
share a kind with it. Every noun's own English singular is a kind too, so that the tables can
name single nouns. No English word has two translations that the sentence does not tell apart,
and no French noun has two genders.
"""

from typing import NamedTuple


class Noun(NamedTuple):
    english: str
    english_plural: str
    french: str
    french_plural: str
    gender: str  # "m" or "f"
    kinds: frozenset[str]


class Adjective(NamedTuple):
    english: str
    masculine: str
    before_vowel: str  # masculine singular before a vowel sound: un bel ami
    feminine: str
    masculine_plural: str
    feminine_plural: str
    position: str  # "before" or "after" the French noun
    kinds: frozenset[str]


class Verb(NamedTuple):
    english: str
    third: str  # she eats
    past: str | None  # None: it looks like the present, or French would not say a passé composé
    particle: str | None  # looks *for*
    present: dict[str, str]  # by French subject: je, il, nous, ils
    participle: str
    auxiliary: str  # avoir or être
    subjects: frozenset[str]
    objects: frozenset[str]

    @property
    def name(self) -> str:
        return f"{self.english} {self.particle}" if self.particle else self.english


def table(text: str) -> list[list[str]]:
    """The cells of a table in which ``|`` parts groups of columns and spaces part columns."""
    rows = [[group.split() for group in line.split("|")] for line in text.strip().splitlines()]
    return [groups[0] + [" ".join(group) for group in groups[1:]] for groups in rows]


def nouns(text: str) -> list[Noun]:
    return [Noun(*forms, frozenset([*kinds.split(), forms[0]])) for *forms, kinds in table(text)]


def adjectives(text: str) -> list[Adjective]:
    return [Adjective(*forms, frozenset(kinds.split())) for *forms, kinds in table(text)]


def verbs(text: str) -> list[Verb]:
    rows = [[None if cell == "-" else cell for cell in row] for row in table(text)]
    found = []
    for *english, french, subjects, objects in rows:
        *present, participle, auxiliary = french.split()
        by_subject = dict(zip(("je", "il", "nous", "ils"), present, strict=True))
        kinds = frozenset(subjects.split()), frozenset(objects.split())
        found.append(Verb(*english, by_subject, participle, auxiliary, *kinds))
    return found


# "own": may be mine; "kin": always somebody's; "national": may be French; "adult": may be old;
# "role": may be new or good at it; "inside": one can be in it; "goal": one goes and arrives à it.
NOUNS = nouns("""
boy boys garçon garçons m              | person national
girl girls fille filles f              | person national
man men homme hommes m                 | person adult national
woman women femme femmes f             | person adult national
king kings roi rois m                  | person adult role national
queen queens reine reines f            | person adult role national
teacher teachers professeur professeurs m | person adult role national own
doctor doctors médecin médecins m      | person adult role national own
student students étudiant étudiants m  | person role national own
friend friends ami amis m              | person adult role national own
nurse nurses infirmière infirmières f  | person adult role national
uncle uncles oncle oncles m            | person adult kin own
brother brothers frère frères m        | person kin own
sister sisters sœur sœurs f            | person kin own
actress actresses actrice actrices f   | person adult role national
hero heroes héros héros m              | person adult national
dog dogs chien chiens m                | animal own
cat cats chat chats m                  | animal own
horse horses cheval chevaux m          | animal own
bird birds oiseau oiseaux m            | animal own
cow cows vache vaches f                | animal own
mouse mice souris souris f             | animal
owl owls hibou hiboux m                | animal
bear bears ours ours m                 | animal
apple apples pomme pommes f            | food own
orange oranges orange oranges f        | food own
pear pears poire poires f              | food own
tomato tomatoes tomate tomates f       | food own
egg eggs œuf œufs m                    | food own
cake cakes gâteau gâteaux m            | food own
book books livre livres m              | text own
letter letters lettre lettres f        | text own
newspaper newspapers journal journaux m | text own
story stories histoire histoires f     | text own
hat hats chapeau chapeaux m            | clothes own
coat coats manteau manteaux m          | clothes own
dress dresses robe robes f             | clothes own
scarf scarves écharpe écharpes f       | clothes own
chair chairs chaise chaises f          | thing own
bag bags sac sacs m                    | thing own
umbrella umbrellas parapluie parapluies m | thing own
clock clocks horloge horloges f        | thing own
plate plates assiette assiettes f      | thing own
flower flowers fleur fleurs f          | plant own
tree trees arbre arbres m              | plant
car cars voiture voitures f            | vehicle own
boat boats bateau bateaux m            | vehicle own
plane planes avion avions m            | vehicle own
house houses maison maisons f          | place inside own
school schools école écoles f          | place inside goal own
church churches église églises f       | place inside goal
hotel hotels hôtel hôtels m            | place inside goal
hospital hospitals hôpital hôpitaux m  | place inside goal
castle castles château châteaux m      | place inside goal
village villages village villages m    | place inside goal own
garden gardens jardin jardins m        | place inside own
park parks parc parcs m                | place inside goal
island islands île îles f              | place
""")

ADJECTIVES = adjectives("""
beautiful beau bel belle beaux belles before | adult boy girl student animal clothes place text \
    plant vehicle
old vieux vieil vieille vieux vieilles before | adult animal clothes place text thing vehicle tree
new nouveau nouvel nouvelle nouveaux nouvelles before | role clothes text thing vehicle \
    hotel school house hospital church
big grand grand grande grands grandes before | place vehicle clothes tree dog horse bear bird cake
small petit petit petite petits petites before | person animal food clothes place text thing \
    vehicle plant
good bon bon bonne bons bonnes before        | role food text dog horse hotel school hospital
young jeune jeune jeune jeunes jeunes before | person animal
pretty joli joli jolie jolis jolies before   | girl woman queen actress clothes flower bird cat \
    plate bag clock boat house garden church castle village island park
fat gros gros grosse gros grosses before     | animal
red rouge rouge rouge rouges rouges after    | clothes thing vehicle flower apple tomato house
black noir noir noire noirs noires after     | clothes thing vehicle dog cat horse bird cow bear
white blanc blanc blanche blancs blanches after | clothes thing vehicle flower dog cat horse bird \
    cow mouse owl house church castle
green vert vert verte verts vertes after     | clothes thing vehicle apple pear tomato
blue bleu bleu bleue bleus bleues after      | clothes thing vehicle flower bird house
french français français française français françaises after | national book newspaper car dress \
    plane hotel village castle school
happy heureux heureux heureuse heureux heureuses after | person
sad triste triste triste tristes tristes after | person story letter
tired fatigué fatigué fatiguée fatigués fatiguées after | person dog cat horse cow bear bird
intelligent intelligent intelligent intelligente intelligents intelligentes after \
    | person dog cat horse owl mouse
famous célèbre célèbre célèbre célèbres célèbres after | person book story newspaper castle \
    church hotel island garden park village
strange étrange étrange étrange étranges étranges after | person animal food clothes place text \
    thing vehicle plant
expensive cher cher chère chers chères after | clothes thing vehicle hotel house cake book
empty vide vide vide vides vides after       | bag plate house church hotel school garden park \
    boat castle hospital plane
""")
# The second adjective of two: the small *red* hat.
STACKED = {"red", "black", "white", "green", "blue", "french"}
# Said of its noun only: 'la voiture est nouvelle' is not what English means by 'is new'.
NEVER_PREDICATE = {"new"}

# english third past particle | je il nous ils participle auxiliary | subjects | objects
ACTIONS = verbs("""
eat eats ate - | mange mange mangeons mangent mangé avoir             | person animal | food
buy buys bought - | achète achète achetons achètent acheté avoir      | person | food clothes \
    text thing vehicle flower dog cat horse cow house
read reads - - | lis lit lisons lisent lu avoir                       | person | text
write writes wrote - | écris écrit écrivons écrivent écrit avoir      | person | book letter story
see sees saw - | vois voit voyons voient vu avoir                     | person animal | person \
    animal food clothes thing plant vehicle place
look looks looked for | cherche cherche cherchons cherchent cherché avoir | person | person \
    animal clothes thing text hotel school
look looks looked at | regarde regarde regardons regardent regardé avoir | person animal | person \
    animal food clothes thing plant vehicle
listen listens listened to | écoute écoute écoutons écoutent écouté avoir | person | person bird \
    story
find finds found - | trouve trouve trouvons trouvent trouvé avoir     | person | animal food \
    clothes text thing flower
take takes took - | prends prend prenons prennent pris avoir          | person | food clothes \
    text thing flower boat plane
wear wears wore - | porte porte portons portent porté avoir           | person | clothes
open opens opened - | ouvre ouvre ouvrons ouvrent ouvert avoir        | person | book letter bag \
    umbrella
help helps helped - | aide aide aidons aident aidé avoir              | person | person
follow follows followed - | suis suit suivons suivent suivi avoir     | person animal | person \
    animal car
visit visits visited - | visite visite visitons visitent visité avoir | person | place
""")
HAVE, LIVE = verbs("""
have has - - | ai a avons ont eu avoir                            | person | kin friend animal \
    food clothes text thing vehicle house
live lives - - | habite habite habitons habitent habité avoir     | person |
""")
# Their objects are particular ones: 'she knows the doctor', 'I love my dog'.
STATES = verbs("""
love loves - - | aime aime aimons aiment aimé avoir               | person | person animal place \
    text clothes
know knows - - | connais connaît connaissons connaissent connu avoir | person | person place
""")
INTRANSITIVE = verbs("""
sing sings sang - | chante chante chantons chantent chanté avoir  | person bird |
work works worked - | travaille travaille travaillons travaillent travaillé avoir | person |
sleep sleeps slept - | dors dort dormons dorment dormi avoir      | person animal |
dance dances danced - | danse danse dansons dansent dansé avoir   | person |
fall falls fell - | tombe tombe tombons tombent tombé être        | person animal |
stay stays stayed - | reste reste restons restent resté être      | person animal |
leave leaves left - | pars part partons partent parti être        | person |
""")
GO, RETURN, ARRIVE = verbs("""
go goes went - | vais va allons vont allé être                    | person | goal
return returns returned - | retourne retourne retournons retournent retourné être | person | goal
arrive arrives arrived - | arrive arrive arrivons arrivent arrivé être | person | goal
""")
# By the English preposition that says where to; in French all take à.
MOVEMENTS = {"to": [GO, RETURN], "at": [ARRIVE]}
BE = {"je": ("am", "suis"), "il": ("is", "est"), "nous": ("are", "sommes"), "ils": ("are", "sont")}
AUXILIARIES = {
    "avoir": HAVE.present,
    "être": {subject: french for subject, (_, french) in BE.items()},
}
# What somebody says, thinks or knows; never negated: 'ne pense pas que' asks for a subjunctive.
REPORTING = verbs("""
say says - - | dis dit disons disent dit avoir                    | person |
think thinks - - | pense pense pensons pensent pensé avoir        | person |
know knows - - | sais sait savons savent su avoir                 | person |
""")

# masculine, feminine, each before a vowel sound, plural
DETERMINERS = {
    row[0]: dict(zip(("m", "f", "m vowel", "f vowel", "plural"), row[1:], strict=True))
    for row in table("""
the le la le la les
a un une un une -
this ce cette cet cette -
these - - - - ces
some - - - - des
any - - - - de
two - - - - deux
three - - - - trois
my mon ma mon mon mes
his son sa son son ses
her son sa son son ses
our notre notre notre notre nos
their leur leur leur leur leurs
""")
}
POSSESSIVES = ("my", "his", "her", "our", "their")

# English: French, the English word that counts most, kinds of what follows
PREPOSITIONS = {
    "in": ("dans", "in", "inside"),
    "on": ("sur", "on", "island boat"),
    "near": ("près de", "near", "place tree"),
    "behind": ("derrière", "behind", "house school church hotel castle hospital tree"),
    "in front of": ("devant", "front", "house school church hotel castle hospital tree"),
    "under": ("sous", "under", "tree"),
    "to": ("à", "to", "goal"),
    "at": ("à", "at", "goal"),
    "with": ("avec", "with", "person dog cat"),
    "of": ("de", "of", "place"),
}
# The garden *of the school*.
PARTS = [
    ("garden", "school castle hotel hospital church house"),
    ("church school doctor", "village island"),
    ("king queen", "island"),
]
ADVERB = ("often", "souvent")
TODAY, YESTERDAY = ("today", "aujourd'hui"), ("yesterday", "hier")
