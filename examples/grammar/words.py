"""The words of the generated sentences, and their forms."""

from __future__ import annotations

from dataclasses import dataclass

VOWELS = "aeiou"


@dataclass(frozen=True)
class Noun:
    """One countable noun."""

    one: str
    many: str


@dataclass(frozen=True)
class Verb:
    """The forms of one verb.

    ``objects`` names the nouns that it goes with: a key of NOUNS, "drink", "way" (where to), or "" for none.
    """

    base: str
    third: str
    past: str
    participle: str
    ing: str
    objects: str


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _plural(word: str) -> str:
    if word.endswith(("s", "x", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2] not in VOWELS:
        return word[:-1] + "ies"
    return word + "s"


def _noun(entry: str) -> Noun:
    one, _, many = entry.partition("/")
    return Noun(one, many or _plural(one))


def _nouns(text: str) -> tuple[Noun, ...]:
    return tuple(_noun(entry) for entry in text.split())


def _verb(entry: str, objects: str) -> Verb:
    """``base``, ``base/past`` or ``base/past/participle``; a + after the base doubles its last letter."""
    base, *irregular = entry.split("/")
    double, base = base.endswith("+"), base.rstrip("+")
    stem = base + base[-1] if double else base[:-1] if base.endswith("e") and base[-2] != "e" else base
    soft_y = base.endswith("y") and base[-2] not in VOWELS
    past = irregular[0] if irregular else (base[:-1] + "i" if soft_y else stem) + "ed"
    participle = irregular[1] if len(irregular) > 1 else past
    third = base + "es" if base.endswith("o") else _plural(base)
    return Verb(base, third, past, participle, stem + "ing", objects)


NOUNS = {
    "person": _nouns(
        "boy girl man/men woman/women child/children teacher student doctor nurse farmer friend brother sister uncle "
        "aunt neighbour driver baker artist engineer actor singer waiter lawyer guest officer editor king queen pilot"
    ),
    "animal": _nouns(
        "dog cat horse bird cow rabbit elephant owl monkey lion ant eagle goat mouse/mice fox tiger duck otter ape bear"
    ),
    "food": _nouns(
        "apple orange banana egg sandwich cake onion potato/potatoes tomato/tomatoes biscuit pizza olive carrot pear "
        "lemon omelette pancake cherry peach"
    ),
    "thing": _nouns(
        "book letter box umbrella lamp chair table bag hat key phone clock picture bottle coat basket ring newspaper "
        "envelope axe uniform map knife/knives shoe shirt ticket toy computer camera pencil blanket instrument"
    ),
    "vehicle": _nouns("car bicycle bus truck boat train aeroplane van taxi tractor"),
    "place": _nouns(
        "house school garden park shop office kitchen station library hospital museum church market factory hotel "
        "village island airport university theatre castle bank restaurant forest beach"
    ),
    "part": _nouns("door window wall roof gate floor fence"),
    "text": _nouns("letter story book poem song email report essay article message"),
    "event": _nouns("party concert meeting lesson game film exam interview"),
}
NOUNS["being"] = NOUNS["person"] + NOUNS["animal"]
NOUNS["goods"] = NOUNS["thing"] + NOUNS["food"] + NOUNS["vehicle"]

_VERBS = {
    "": "swim+/swam/swum sleep/slept work dance sing/sang/sung wait play sit+/sat smile laugh rest talk cry jump "
    "stand/stood speak/spoke/spoken arrive",
    "way": "go/went/gone walk run+/ran/run come/came/come travel+ return",
    "food": "eat/ate/eaten cook bake buy/bought like taste",
    "drink": "drink/drank/drunk like want need order",
    "goods": "buy/bought sell/sold want need find/found lose/lost like bring/brought steal/stole/stolen",
    "thing": "carry take/took/taken hold/held use hide/hid/hidden break/broke/broken drop+ forget+/forgot/forgotten "
    "wear/wore/worn clean make/made",
    "being": "see/saw/seen hear/heard watch follow love help feed/fed call draw/drew/drawn catch/caught remember",
    "person": "know/knew/known meet/met thank invite visit teach/taught answer believe ask",
    "vehicle": "drive/drove/driven wash repair stop+ choose/chose/chosen",
    "text": "write/wrote/written send/sent finish study learn understand/understood tell/told explain print",
    "part": "open close paint clean build/built repair touch",
    "place": "visit leave/left enjoy paint clean show/showed/shown",
    "event": "enjoy plan+ miss attend begin+/began/begun prepare",
}
VERBS = tuple(_verb(entry, objects) for objects, text in _VERBS.items() for entry in text.split())

STATES = _words("like taste want need love know believe understand remember hear see")  # never "is liking"
ACTIONS = tuple(verb for verb in VERBS if verb.base not in STATES)

ADJECTIVES = {
    "being": _words(
        "old young happy angry clever small big tired honest ugly hungry kind elegant lazy brave quiet shy intelligent "
        "unhappy friendly"
    ),
    "food": _words("fresh small big sweet ripe expensive cheap rotten warm cold excellent"),
    "thing": _words(
        "old new small big red blue green yellow black white heavy expensive cheap broken empty useful ugly "
        "beautiful unusual orange interesting"
    ),
    "place": _words("old new small big quiet beautiful empty famous ancient modern open ugly clean unusual"),
    "text": _words(
        "long short interesting boring important beautiful funny easy difficult useful unusual early honest"
    ),
}
ADJECTIVES["person"] = ADJECTIVES["animal"] = ADJECTIVES["being"]
ADJECTIVES["vehicle"] = ADJECTIVES["goods"] = ADJECTIVES["part"] = ADJECTIVES["thing"]
ADJECTIVES["event"] = ADJECTIVES["text"]

NAMES = _words(
    "Anna Tom Peter Maria David Emma Lucas Sarah Paul Laura James Alice Robert Julia Simon Clara Oscar Helen Martin "
    "Nora"
)
POSSESSIVES = _words("my your his her our their")
NUMBERS = _words("two three four five many several")
MODALS = _words("can must should may")
FREQUENCIES = _words("always often usually sometimes never")
DRINKS = _words("water milk coffee tea juice wine beer soup lemonade")  # not counted
WAYS = _phrases("home,to school,to work,to bed")
OBJECTS = _words("me you him her us them")  # pronouns
PLACES = _words("in near behind at")  # before a place
SPOTS = _words("on under behind near")  # before a thing

PAST_TIMES = _phrases(
    "yesterday,yesterday morning,yesterday evening,last week,last night,last month,last year,last summer,two days ago,"
    "three weeks ago,an hour ago,a year ago"
)
FUTURE_TIMES = _phrases(
    "tomorrow,tomorrow morning,tomorrow evening,next week,next month,next year,next summer,soon,in an hour,in two days"
)
PRESENT_TIMES = _phrases("every day,every morning,every evening,every week,every summer,on Mondays,on Sundays,at night")
NOW_TIMES = _phrases("now,right now,at the moment")

# Vowel letters that sound as consonants, and a silent h.
_A = ("uni", "use")
_AN = ("hour", "hon")


def article(before: str) -> str:
    """``a`` or ``an``, as the word after it wants."""
    if before.startswith(_A):
        return "a"
    return "an" if before[0] in VOWELS or before.startswith(_AN) else "a"
