"""Identity and tax numbers of many countries, told by shape and check digits.

A row is a shape, a check, and the words that must stand near where the shape is too common
to be believed alone. A number whose check digit is wrong is not reported.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from weft.detect import national_checks as checks
from weft.detect.found import Span
from weft.detect.near import is_near, words


class _Number(NamedTuple):
    shape: re.Pattern[str]
    check: Callable[[str], bool]
    near: re.Pattern[str] | None = None


def _shape(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?:{pattern})(?![\w])(?![.,-]\d)", re.IGNORECASE)


_LETTERED = (
    _Number(_shape(r"[XYZ][- ]?\d{7}[- ]?[A-HJ-NP-TV-Z]"), checks.spain),
    _Number(
        _shape(r"[A-Z]{6}[\dL-V]{2}[ABCDEHLMPRST][\dL-V]{2}[A-Z][\dL-V]{3}[A-Z]"), checks.italy
    ),
    _Number(_shape(r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]"), checks.uk),
    _Number(
        _shape(r"[CFGHJKLMNPRTVWXYZ][CFGHJKLMNPRTVWXYZ0-9]{8}\d"),
        checks.germany_card,
        words(r"personalausweis\w{0,10}|ausweis\w{0,10}|identity card|id card|passport|reisepass"),
    ),
    _Number(re.compile(r"[A-Z]{3}[ABCFGHJLPT][A-Z]\d{4}[A-Z](?!\w)"), checks.always),
    _Number(_shape(r"[STFGM]\d{7}[A-Z]"), checks.singapore),
    _Number(_shape(r"[A-Z][12]\d{8}"), checks.taiwan),
    _Number(re.compile(r"[A-Z]{1,2}\d{6}\([\dA]\)"), checks.hong_kong),
    _Number(
        _shape(
            r"[A-Z][AEIOUX][A-Z]{2}\d{2}[01]\d[0-3]\d[HMX][A-Z]{2}[B-DF-HJ-NP-TV-Z]{3}[A-Z\d]\d"
        ),
        checks.always,
    ),
)
_NUMBERED = (
    _Number(_shape(r"\d{8}[- ]?[A-HJ-NP-TV-Z]"), checks.spain),
    _Number(_shape(r"\d{3}[ -]?\d{3}[ -]?\d{4}"), checks.nhs, words(r"nhs|national health")),
    _Number(
        _shape(r"\d{2} ?\d{3} ?\d{3} ?\d{3}"),
        checks.germany,
        words(r"steuer\w{0,20}|steuer-id\w{0,20}|tax id\w{0,15}|idnr|tin|identifikationsnummer"),
    ),
    _Number(
        _shape(r"[12] ?\d{2} ?(?:0[1-9]|1[0-2]|[2-9]\d) ?(?:\d{2}|2[AB]) ?\d{3} ?\d{3} ?\d{2}"),
        checks.france,
    ),
    _Number(_shape(r"[2-9]\d{3}([ -])\d{4}\1\d{4}"), checks.india_person),
    _Number(_shape(r"[2-9]\d{11}"), checks.india_person, words(r"aadhaa?r|uidai?|uid")),
    _Number(
        _shape(r"\d{3} ?\d{3} ?\d{3}"), checks.australia_tax, words(r"tfn|tax file(?: number)?")
    ),
    _Number(_shape(r"\d{2} \d{3} \d{3} \d{3}"), checks.australia_firm),
    _Number(
        _shape(r"\d{11}"), checks.australia_firm, words(r"abn|australian business(?: number)?")
    ),
    _Number(
        _shape(r"[2-6]\d{3} ?\d{5} ?\d(?:[ /-]?\d)?"), checks.australia_health, words(r"medicare")
    ),
    _Number(
        _shape(r"\d{11}"),
        checks.poland,
        words(r"pesel|polish id\w{0,10}|national id\w{0,15}|id number"),
    ),
    _Number(_shape(r"(?:19|20)?\d{6}[-+]\d{4}"), checks.sweden),
    _Number(_shape(r"\d{10}|\d{12}"), checks.sweden, words(r"personnummer|person number|swedish")),
    _Number(_shape(r"[0-3]\d[01]\d{3}[-+ABCDEFYXWVU]\d{3}[0-9A-FHJ-NPR-Y]"), checks.finland),
    _Number(_shape(r"[0-7]\d[01]\d{3} ?\d{5}"), checks.norway),
    _Number(
        _shape(r"[0-3]\d[01]\d{3}[- ]?\d{4}"),
        checks.denmark,
        words(r"cpr(?:-?(?:nr|nummer))?|danish|personnummer"),
    ),
    _Number(_shape(r"\d{3}\.\d{3}\.\d{3}-\d{2}"), checks.brazil),
    _Number(_shape(r"\d{11}"), checks.brazil, words(r"cpf")),
    _Number(_shape(r"\d{2}\.\d{3}\.\d{3}/\d{4}-\d{2}"), checks.brazil_firm),
    _Number(_shape(r"[1-9]\d{2} ?\d{3} ?\d{3}"), checks.portugal, words(r"nif|contribuinte")),
    _Number(
        _shape(r"\d{9}|\d{4}\.\d{2}\.\d{3}"),
        checks.netherlands,
        words(r"bsn|burgerservice\w{0,8}|sofi\w{0,8}"),
    ),
    _Number(_shape(r"\d{2}\.\d{2}\.\d{2}-\d{3}\.\d{2}"), checks.belgium),
    _Number(_shape(r"\d{1,2}\.\d{3}\.\d{3}-[\dK]"), checks.chile),
    _Number(_shape(r"\d{7,8}-[\dK]"), checks.chile, words(r"rut|run|chile\w{0,3}")),
    _Number(_shape(r"[1-9]\d{10}"), checks.turkey, words(r"tc|t\.c\.|tckn|kimlik\w{0,5}|turkish")),
    _Number(_shape(r"\d{2}[01]\d[0-3]\d-[1-8]\d{6}"), checks.korea),
    _Number(
        _shape(r"\d{3}[- ]?\d{3}[- ]?\d{3}"),
        checks.canada,
        words(r"sin|social insurance(?: number)?"),
    ),
    _Number(_shape(r"\d{13}"), checks.south_africa, words(r"id|identity|south africa\w{0,2}|rsa")),
    _Number(_shape(r"[1-9]\d{5}(?:19|20)\d{2}[01]\d[0-3]\d{4}[\dX]"), checks.china),
    _Number(
        _shape(r"\d{7}[A-W][A-IW]?"),
        checks.ireland,
        words(r"pps\w{0,2}|ppsn|personal public service"),
    ),
    _Number(
        _shape(r"\d{11}"),
        checks.belgium,
        words(r"rijksregister\w{0,8}|registre national|niss|belg\w{0,4}"),
    ),
    _Number(_shape(r"\d{11}"), checks.croatia, words(r"oib|osobni identifikacijski broj")),
    _Number(_shape(r"\d{6}/\d{4}"), checks.czechia),
    _Number(_shape(r"[1-8]\d{12}"), checks.romania, words(r"cnp|cod numeric personal")),
    _Number(
        _shape(r"[1-6]\d{10}"), checks.baltic, words(r"isikukood|asmens kod\w{0,3}|personal code")
    ),
    _Number(_shape(r"\d{8}-?\d"), checks.israel, words(r"teudat zehut|israeli id|mispar zehut")),
    _Number(_shape(r"[1-8]-\d{4}-\d{5}-\d{2}-\d"), checks.thailand),
    _Number(_shape(r"[1-8]\d{12}"), checks.thailand, words(r"thai(?:land)?(?: id)?|tnin")),
    _Number(
        _shape(r"\d{3} ?\d{3} ?\d{3}"),
        checks.australia_company,
        words(r"acn|australian company(?: number)?"),
    ),
    _Number(_shape(r"756\.?\d{4}\.?\d{4}\.?\d{2}"), checks.switzerland),
)


_SITE = re.compile(
    r"[A-Za-z0-9](?<![\w.,-][A-Za-z0-9])"
    r"(?=[A-Za-z]{0,5}[ .-]?[0-9])(?=(?:[ .\-/(]?[0-9A-Za-z]){7})"
)


def look_for_national_ids(text: str) -> Iterator[Span]:
    """Every number of the table whose check is right and whose words, if any, are near."""
    for site in _SITE.finditer(text):
        start = site.start()
        for number in _NUMBERED if "0" <= text[start] <= "9" else _LETTERED:
            match = number.shape.match(text, start)
            if match is None or not number.check(match.group()):
                continue
            if number.near is None or is_near(number.near, text, *match.span(), after=12):
                yield Span(*match.span())
