"""What single words and the words before them say: a given name, a title, a cue, a firm, a place.

The word lists are data files. `names.py` puts together what is said here, word by word.
"""

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

from weft.detect.kinds import capitals, table, word_lists

_CAPITALS = capitals()

_WORD_LISTS = word_lists("names")
COMMON = frozenset(_WORD_LISTS["given"])
AMBIGUOUS = frozenset(_WORD_LISTS["ambiguous"])
SURNAMES = frozenset(_WORD_LISTS["surnames"])
SURNAME_WORDS = frozenset(_WORD_LISTS["surname words"])
SURE_ENDS = tuple(_WORD_LISTS["sure ends"])
SURNAME_ENDS = (*SURE_ENDS, *_WORD_LISTS["ends"])
TITLES = frozenset(_WORD_LISTS["titles"])
PARTICLES = frozenset(_WORD_LISTS["particles"])
NOT_NAMES = frozenset(_WORD_LISTS["not names"])
ORGANISATION = frozenset(_WORD_LISTS["organisation"])


class Word(NamedTuple):
    """A capitalised word, and how the tables spell it."""

    text: str
    low: str
    start: int
    end: int


_CUE = re.compile(
    r"(?:\b(?:called|i am|i['\u2019]m|this is|calls? me|named|née|sincerely|regards|cheers"
    r"|signed|attn|dear|hi|hello|hey|says"
    r"|said|shouted at|by|under|kid|son|daughter|brother|sister|wife|husband|partner|friend"
    r"|colleague|boss|patient|guardian|mother|father|cousin|uncle|aunt|nephew|niece|neighbou?r"
    r"|girlfriend|boyfriend|roommate|classmate|coworker|co-worker"
    r"|employee|customer|passenger|add|starring|meet|met|ask(?:ed)?|told|tell|contact|known as"
    r"|follow up with|features|featuring|commenter|author|singer|actor|actress|novelist|poet"
    r"|guitarist|drummer|nurse|attorney|lawyer|supervisor"
    r"|(?:speak|talk(?:ed)?|spoke) (?:to|with)|belongs to|assistant to|tribute to|songwriter"
    r"|producer|heard"
    r"|(?:correct|change) it to|given|founders)|name|user)"
    r"(?: is|['\u2019]s| was)?[\s:>,?\-\"\u201c(]{1,6}$",
    re.IGNORECASE,
)

_CUE_ENDS = table(
    """
called am i'm i\u2019m is was me named née sincerely regards cheers signed attn dear hi hello hey
says said at by under kid son daughter brother sister wife husband partner friend colleague boss
patient guardian mother father cousin uncle aunt nephew niece neighbor neighbour girlfriend
boyfriend roommate classmate coworker co-worker employee customer passenger add starring meet met
ask asked told tell contact as with features featuring commenter author singer actor actress
novelist poet guitarist drummer nurse attorney lawyer supervisor to songwriter producer heard
given founders
"""
)

_STRONG = re.compile(
    r"(?:name(?: is|'s|\u2019s| was)?|\bnamed (?:him|her)|\bcalls? me|\bi['\u2019]m|née"
    r"|was called|directed by|written by|\bsays|\bsaid|\bsaid [^\W\d_]{2,20} to|\bshouted at"
    r"|\b(?:my|your|his|her|our|their) (?:kid|son|daughter|brother|sister|wife|husband|partner"
    r"|friend|colleague|boss|mother|father|cousin|uncle|aunt|nephew|niece|girlfriend|boyfriend)"
    r"|\bsurname(?: is)?|account\? user|name on it is|everyone calls me)[\s:=?\"'\u201c]{1,6}$",
    re.IGNORECASE,
)

_STRONG_ENDS = (
    "name", "is", "'s", "\u2019s", "was", "him", "her", "me", "'m", "\u2019m", "née", "called",
    "by", "says", "said", "to", "at", "user", "kid", "son", "er", "wife", "husband", "partner",
    "friend", "colleague", "boss", "cousin", "uncle", "aunt", "nephew", "niece",
)  # fmt: skip

_BEFORE_NAME = re.compile(
    r"(?:(?P<whose>[^\W\d_]+(?:['\u2019]s)?)[ _-]?)?name(?: is|['\u2019]s| was)?"
    r"[\s:=?>,\-\"'\u201c(]{1,6}\Z",
    re.IGNORECASE,
)

_WHOSE = table(
    """
my your his her their our its the a an whose this that and or is of in under with by real new
first last full given family middle maiden sur fore nick legal billing birth user customer client
patient employee passenger guest member owner author driver student contact recipient sender
holder cardholder beneficiary applicant candidate person people traveler traveller attendee
participant spouse doctor teacher friend colleague
"""
)
"""Whose name it is where it is a person's."""

_PARTICLES = re.compile(r"(?<!\w)(?:(?:van|von|der|den|de|da|das|dos|del|della|di|ten|ter|zu) )+\Z")

_GREETING = re.compile(r"(?i)(?:\A|[\n.!?>\"])\s*(?:hi|hello|hey|dear)\s\Z")

_GREETINGS = ("hi ", "hello ", "hey ", "dear ")

_GREETED = re.compile(r"[,!.]|\s*(?:\n|\Z)")

_GROUPS = table("all team everyone everybody there folks support sir madam guys friends colleagues")

_KIN = re.compile(
    r"['\u2019]s (?:kid|son|daughter|brother|sister|wife|husband|mother|father|mom|dad|parents"
    r"|birthday|cousin|uncle|aunt|girlfriend|boyfriend|killers?|boss|funeral|wedding)\b"
)

_CALLED_OUT = re.compile(r"[a-z]{2,},\s\Z")

_POSTAL = re.compile(
    r"[^\n]*(?:\n[^\n]*){0,3}?\n[> ?]*(?:\d|Apt|Suite|PSC|Unit|Phone|E-?mail|Tel|Mobile)", re.I
)

PEOPLE = re.compile(
    r"(?i)\b(?:founders|members|attendees|participants|children|kids|siblings|students|employees"
    r"|guests|friends|players|speakers|names|people|colleagues|sons|daughters|sisters|brothers"
    r"|authors|parents|passengers|patients|contacts)(?: (?:are|were))?:?\s\Z"
)
"""What stands in front of a list of people."""

_SPEAKER = re.compile(rf"(?m)^[> ]{{0,3}}([{_CAPITALS}][^\W\d_]+):(?=[ \"\u201c])")

_LOOSE_TITLES = frozenset(
    {"sister", "brother", "general", "president", "don", "fr", "father", "col", "gen"}
)


def is_cued(before: str) -> bool:
    """Whether what stands in front is often followed by a name."""
    last = before.rstrip(' \t\n:>,?-"\u201c(').rsplit(None, 1)[-1:]
    if not last:
        return False
    low = last[0].lower().lstrip("(\"'\u201c>")
    if low not in _CUE_ENDS and not low.endswith(("name", "user", "'s", "\u2019s")):
        return False
    return _CUE.search(before) is not None and not _is_of_thing(before)


def particles(before: str) -> int:
    """How many characters in front of a surname are its particles, as in `van der Berg`."""
    if before[-1:] != " " or before[:-1].rpartition(" ")[2] not in PARTICLES:
        return 0
    match = _PARTICLES.search(before)
    return len(match.group()) if match is not None else 0


def measure_title(before: str) -> int:
    """Measure the title before a name; 0 if there is none."""
    if before[-1:] != " ":
        return 0
    words = before[:-1].replace("\n", " ").rsplit(" ", 3)
    taken = 1
    while len(words) > 1 and words[-1] in PARTICLES:
        taken += len(words.pop()) + 1
    last = words[-1].lstrip("(\"'\u201c>")
    low = last.rstrip(".").lower()
    if low not in TITLES:
        return 0
    return len(last) + taken if last.endswith(".") or low not in _LOOSE_TITLES else 0


def is_announced(before: str) -> bool:
    """Whether what stands in front can only be followed by a name."""
    last = before[-24:].rstrip(" :=?\"'\u201c\n\t").lower()
    if not last.endswith(_STRONG_ENDS) or _is_of_thing(before):
        return False
    return _STRONG.search(before) is not None


def _is_of_thing(before: str) -> bool:
    """Whether a word in front says that the name is not a person's: `city name`, `fileName`."""
    match = _BEFORE_NAME.search(before)
    if match is None:
        return False
    if match["whose"] is None:
        return "=" in match.group()
    whose = match["whose"].lower()
    return (
        whose not in _WHOSE
        and whose.removesuffix("s") not in _WHOSE
        and whose[-2:-1] not in "'\u2019"
    )


def is_addressed(low: str, before: str, after: str) -> bool:
    """Whether a word is greeted, called out at the end of a sentence, or somebody's relative."""
    if _KIN.match(after) is not None:
        return True
    if low in _GROUPS:
        return False
    if before[-6:].lower().endswith(_GREETINGS) and _GREETING.search(before) is not None:
        return _GREETED.match(after) is not None
    return after[:1] in {"!", "?"} and _CALLED_OUT.search(before) is not None


def speakers(text: str) -> list[str]:
    """The words that stand before a colon at the beginning of a line."""
    return _SPEAKER.findall(text) if ":" in text else []


def is_above_address(text: str, start: int, end: int) -> bool:
    """Whether a stretch is all there is on its line, and an address or a number follows."""
    begins = text.rfind("\n", 0, start) + 1
    if text[begins:start].strip(" >?") or text[end : end + 1] != "\n":
        return False
    return _POSTAL.match(text[end : end + 240]) is not None


_GAELIC = re.compile(r"(?:Mc|O['\u2019])[A-Z][a-z]")


@lru_cache(8192)
def fold(word: str) -> str:
    """The word in lower case without accents and without the possessive, as tables spell it."""
    spelled = word[:-2] if word.endswith(("'s", "\u2019s")) else word
    if spelled.isascii():
        return spelled.lower()
    split = unicodedata.normalize("NFKD", spelled.lower())
    plain = "".join(each for each in split if not unicodedata.combining(each))
    return plain.translate(_LETTERS)


_LETTERS = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ß": "ss", "æ": "ae"})


def bare(word: Word) -> str:
    """The word without its possessive."""
    return word.text[:-2] if word.text.endswith(("'s", "\u2019s")) else word.text


def without_possessive(word: Word) -> int:
    """The end of the word without its possessive."""
    return word.start + len(bare(word))


def is_given(word: Word) -> bool:
    """Whether the word is a given name that is known, or two of them with a hyphen."""
    first, _, second = word.low.partition("-")
    return word.low in COMMON or (bool(second) and first in COMMON and second in COMMON)


def looks_like_surname(word: Word) -> bool:
    """Whether the word is a surname that is known, or ends as surnames do."""
    spelled = bare(word)
    if word.low in NOT_NAMES or len(spelled) < 3:
        return False
    return word.low in SURNAMES or (len(spelled) > 4 and spelled.lower().endswith(SURNAME_ENDS))


def is_surely_surname(word: Word) -> bool:
    """Whether the word is a surname and hardly anything else."""
    spelled = bare(word)
    if word.low in NOT_NAMES or spelled.isupper():
        return False
    if word.low in SURNAMES:
        return word.low not in SURNAME_WORDS
    if len(spelled) < 6:
        return False
    return spelled.lower().endswith(SURE_ENDS) or _GAELIC.match(spelled) is not None


_LEGAL = (
    r"(?:j?\.?d\.o\.o|s\.r\.o|v\.o\.s|a\.s|k\.s|o\.s|s\.p|d\.d|S\.L|S\.A|S\.p\.A|S\.r\.l|e\.V|A/S"
    r"|GmbH|KG|AG|AB|HB|Oyj?|ry|BV|B\.V|NV|N\.V|VOF|Ltd|Limited|LLC|LLP|PLC|Inc|Corp|Co|Zrt|Kft"
    r"|Nyrt|Kht|Bt|SRL|SCS|PFA|ASA?|ApS|SPA|Kkt|Şti|Incorporated)"
)

_FIRM = re.compile(
    rf",? (?:(?:and|&|og|et|y|e|en|und|och|és) \w{{2,20}} )?{_LEGAL}(?!\w)"
    r"|,? (?:and|&|og|et|y|e|und|och|és) (?:Sons?|Co|Partners?|Associates|Söhne|Sønn?er|Søn|Fils"
    r"|Hijos|Filhos|[Aa]sociados|társa|Brothers|Daughters|Cie)(?!\w)"
)

_FORM = re.compile(rf"{_LEGAL}\Z")

_PLACES = table(
    """
north south east west new port lake mount fort cape san santa saint sainte são puerto nueva nuevo
vieja viejo upper lower bad sankt mt
"""
)

_FIRST_OF_PLACE = re.compile(r"(?:\A|\W)(\w{2,6})\.? \Z")


def is_firm(words: list[str], after: str) -> bool:
    """Whether words with what follows them are as in the name of a firm."""
    if any(each in ORGANISATION for each in words):
        return True
    return _FORM.match(words[-1]) is not None or _FIRM.match(after) is not None


def is_place(first: str, before: str) -> bool:
    """Whether a name begins as places do: `San Diego`, `Port Douglas`, `North Adams`."""
    if first in _PLACES:
        return True
    match = _FIRST_OF_PLACE.search(before[-9:])
    return match is not None and match[1][0].isupper() and match[1].lower() in _PLACES
