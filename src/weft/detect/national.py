"""Identity and tax numbers of many countries, recognised by shape and check digits.

A row is a shape, a check, and the words that must stand near where the shape is too common
to be believed alone. A number whose check digit is wrong is not reported.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from weft.detect.kinds import BEGIN, END, Span, is_near, labelled_values, words
from weft.detect.money import digits, iso7064, luhn, sum_weighted, verhoeff


def spain(spelled: str) -> bool:
    """The letter after the number of a DNI or NIE."""
    text = _plain(spelled)
    number = text[:-1].replace("X", "0").replace("Y", "1").replace("Z", "2")
    return _SPAIN[int(number) % 23] == text[-1]


def italy(spelled: str) -> bool:
    """The last letter of a codice fiscale."""
    text = _plain(spelled)
    total = 0
    for at, each in enumerate(text[:15]):
        value = int(each) if each.isdigit() else ord(each) - 65
        total += _ITALY_ODD[value] if at % 2 == 0 else value
    return chr(65 + total % 26) == text[15]


def uk(spelled: str) -> bool:
    """The prefixes that National Insurance gives out."""
    return _plain(spelled)[:2] not in {"BG", "GB", "KN", "NK", "NT", "TN", "ZZ"}


def nhs(spelled: str) -> bool:
    """The last digit of an NHS number, modulo 11."""
    numbers = digits(spelled)
    return (11 - sum_weighted(numbers, range(10, 1, -1)) % 11) % 11 == numbers[9]


def germany(spelled: str) -> bool:
    """The digits of a tax identification number: one twice or thrice, and ISO 7064."""
    numbers = digits(spelled)
    counts = sorted(numbers[:10].count(each) for each in set(numbers[:10]))
    return numbers[0] != 0 and counts[-1] in (2, 3) and iso7064(numbers)


def germany_card(spelled: str) -> bool:
    """The last digit of an identity card or passport, weights 7, 3, 1."""
    text = _plain(spelled)
    values = [int(each, 36) for each in text[:9]]
    return sum_weighted(values, (7, 3, 1) * 3) % 10 == int(text[9])


def france(spelled: str) -> bool:
    """The key of a social security number, modulo 97."""
    text = _plain(spelled).replace("2A", "19").replace("2B", "18")
    return text.isdigit() and 97 - int(text[:13]) % 97 == int(text[13:])


def india_person(spelled: str) -> bool:
    """The Verhoeff digit of an Aadhaar number."""
    return spelled[0] not in "01" and verhoeff(digits(spelled))


def singapore(spelled: str) -> bool:
    """The letter of an NRIC or FIN."""
    text = _plain(spelled)
    total = sum_weighted(digits(text), (2, 7, 6, 5, 4, 3, 2))
    total += {"T": 4, "G": 4, "M": 3}.get(text[0], 0)
    table = {"S": "JZIHGFEDCBA", "T": "JZIHGFEDCBA", "M": "KLJNPQRTUWX"}.get(text[0], "XWUTRQPNMLK")
    at = total % 11
    return table[10 - at if text[0] == "M" else at] == text[-1]


def australia_tax(spelled: str) -> bool:
    """The weighted sum of a tax file number, modulo 11."""
    return sum_weighted(digits(spelled), (1, 4, 3, 7, 5, 8, 6, 9, 10)) % 11 == 0


def australia_firm(spelled: str) -> bool:
    """The weighted sum of a business number, modulo 89."""
    numbers = digits(spelled)
    numbers[0] -= 1
    return sum_weighted(numbers, (10, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19)) % 89 == 0


def australia_health(spelled: str) -> bool:
    """The ninth digit of a Medicare number."""
    numbers = digits(spelled)
    return 2 <= numbers[0] <= 6 and sum_weighted(numbers, (1, 3, 7, 9) * 2) % 10 == numbers[8]


def poland(spelled: str) -> bool:
    """The date and the last digit of a PESEL."""
    numbers = digits(spelled)
    total = sum_weighted(numbers, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3))
    dated = _month_day(_two(numbers, 2) % 20, _two(numbers, 4))
    return dated and (10 - total % 10) % 10 == numbers[10]


def sweden(spelled: str) -> bool:
    """The date and the Luhn digit of a personnummer."""
    numbers = digits(spelled)[-10:]
    day = _two(numbers, 4)
    return _month_day(_two(numbers, 2), day - 60 if day > 60 else day) and luhn(numbers)


def finland(spelled: str) -> bool:
    """The date and the letter of a henkilötunnus."""
    numbers = digits(spelled[:6]) + digits(spelled[7:10])
    if not _month_day(_two(numbers, 2), _two(numbers, 0)):
        return False
    value = int("".join(map(str, numbers)))
    return "0123456789ABCDEFHJKLMNPRSTUVWXY"[value % 31] == spelled[-1].upper()


def norway(spelled: str) -> bool:
    """The date and both check digits of a fødselsnummer."""
    numbers = digits(spelled)
    day = _two(numbers, 0)
    first = (11 - sum_weighted(numbers, (3, 7, 6, 1, 8, 9, 4, 5, 2)) % 11) % 11
    second = (11 - sum_weighted(numbers, (5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11) % 11
    dated = _month_day(_two(numbers, 2), day - 40 if day > 40 else day)
    return dated and first == numbers[9] and second == numbers[10]


def denmark(spelled: str) -> bool:
    """The date of a CPR number; its check digit is no longer kept."""
    numbers = digits(spelled)
    return _month_day(_two(numbers, 2), _two(numbers, 0))


def brazil(spelled: str) -> bool:
    """Both check digits of a CPF."""
    numbers = digits(spelled)
    if len(set(numbers)) == 1:
        return False
    first = sum_weighted(numbers, range(10, 1, -1)) * 10 % 11 % 10
    second = sum_weighted(numbers, range(11, 1, -1)) * 10 % 11 % 10
    return first == numbers[9] and second == numbers[10]


def brazil_firm(spelled: str) -> bool:
    """Both check digits of a CNPJ."""
    numbers = digits(spelled)
    weights = (6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2)
    first = sum_weighted(numbers, weights[1:]) % 11
    second = sum_weighted(numbers, weights) % 11
    return [0 if each < 2 else 11 - each for each in (first, second)] == numbers[12:]


def portugal(spelled: str) -> bool:
    """The last digit of a NIF, modulo 11."""
    numbers = digits(spelled)
    rest = sum_weighted(numbers, range(9, 1, -1)) % 11
    return (0 if rest < 2 else 11 - rest) == numbers[8]


def netherlands(spelled: str) -> bool:
    """The eleven test of a BSN."""
    return sum_weighted(digits(spelled), (9, 8, 7, 6, 5, 4, 3, 2, -1)) % 11 == 0


def belgium(spelled: str) -> bool:
    """The key of a national register number, modulo 97."""
    text = "".join(map(str, digits(spelled)))
    check = int(text[9:])
    return check in (97 - int(text[:9]) % 97, 97 - int("2" + text[:9]) % 97)


def chile(spelled: str) -> bool:
    """The last digit of a RUT, modulo 11."""
    text = _plain(spelled)
    rest = (
        11
        - sum_weighted((int(each) for each in reversed(text[:-1])), (2, 3, 4, 5, 6, 7, 2, 3)) % 11
    )
    return {11: "0", 10: "K"}.get(rest, str(rest)) == text[-1]


def turkey(spelled: str) -> bool:
    """Both check digits of a TC kimlik number."""
    numbers = digits(spelled)
    tenth = (sum(numbers[0:9:2]) * 7 - sum(numbers[1:8:2])) % 10
    return numbers[0] != 0 and tenth == numbers[9] and sum(numbers[:10]) % 10 == numbers[10]


def korea(spelled: str) -> bool:
    """The date and the century of a resident registration number."""
    numbers = digits(spelled)
    return _month_day(_two(numbers, 2), _two(numbers, 4)) and 1 <= numbers[6] <= 8


def canada(spelled: str) -> bool:
    """The Luhn digit of a social insurance number."""
    numbers = digits(spelled)
    return numbers[0] not in (0, 8) and luhn(numbers)


def south_africa(spelled: str) -> bool:
    """The date and the Luhn digit of an identity number."""
    numbers = digits(spelled)
    return _month_day(_two(numbers, 2), _two(numbers, 4)) and numbers[10] < 3 and luhn(numbers)


def china(spelled: str) -> bool:
    """The last sign of a resident identity card."""
    text = spelled.upper()
    return "10X98765432"[sum_weighted(map(int, text[:17]), _CHINA) % 11] == text[17]


def hong_kong(spelled: str) -> bool:
    """The digit in brackets of an identity card."""
    text = _plain(spelled)
    letters = text.rstrip("A0123456789") if text[-1] == "A" else re.sub(r"\d", "", text)
    values = [36] * (2 - len(letters)) + [ord(each) - 55 for each in letters]
    values += [int(each) for each in text[len(letters) : -1]]
    check = 10 if text[-1] == "A" else int(text[-1])
    return (sum_weighted(values, range(9, 1, -1)) + check) % 11 == 0


def ireland(spelled: str) -> bool:
    """The letter of a PPS number."""
    text = _plain(spelled)
    total = sum_weighted(digits(text), range(8, 1, -1))
    if len(text) == 9 and text[8] != "W":
        total += (ord(text[8]) - 64) * 9
    return "WABCDEFGHIJKLMNOPQRSTUV"[total % 23] == text[7]


def switzerland(spelled: str) -> bool:
    """The last digit of an AHV number, as in EAN-13."""
    numbers = digits(spelled)
    return (10 - sum_weighted(numbers, (1, 3) * 6) % 10) % 10 == numbers[12]


def always(spelled: str) -> bool:
    """For shapes that say enough by themselves."""
    return bool(spelled)


def croatia(spelled: str) -> bool:
    """The ISO 7064 digit of an OIB."""
    return iso7064(digits(spelled))


def czechia(spelled: str) -> bool:
    """The date of a rodné číslo, and that it is a multiple of 11."""
    numbers = digits(spelled)
    month = _two(numbers, 2) % 50
    dated = _month_day(month - 20 if month > 20 else month, _two(numbers, 4))
    whole = int("".join(map(str, numbers)))
    return dated and (whole % 11 == 0 or (whole // 10 % 11 == 10 and numbers[9] == 0))


def romania(spelled: str) -> bool:
    """The date and the last digit of a CNP."""
    numbers = digits(spelled)
    rest = sum_weighted(numbers, (2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9)) % 11
    dated = _month_day(_two(numbers, 3), _two(numbers, 5))
    return dated and numbers[0] != 0 and (1 if rest == 10 else rest) == numbers[12]


def baltic(spelled: str) -> bool:
    """The date and the last digit of an isikukood or asmens kodas."""
    numbers = digits(spelled)
    rest = sum_weighted(numbers, (1, 2, 3, 4, 5, 6, 7, 8, 9, 1)) % 11
    if rest == 10:
        rest = sum_weighted(numbers, (3, 4, 5, 6, 7, 8, 9, 1, 2, 3)) % 11 % 10
    return _month_day(_two(numbers, 3), _two(numbers, 5)) and rest == numbers[10]


def israel(spelled: str) -> bool:
    """The Luhn digit of an identity number."""
    return luhn(digits(spelled))


def taiwan(spelled: str) -> bool:
    """The weighted sum of an identity number, its letter as two digits."""
    tens, ones = divmod(_TAIWAN.index(spelled[0].upper()) + 10, 10)
    return (tens + ones * 9 + sum_weighted(digits(spelled), (8, 7, 6, 5, 4, 3, 2, 1, 1))) % 10 == 0


def thailand(spelled: str) -> bool:
    """The last digit of an identity number, modulo 11."""
    numbers = digits(spelled)
    return (11 - sum_weighted(numbers, range(13, 1, -1)) % 11) % 10 == numbers[12]


def australia_company(spelled: str) -> bool:
    """The last digit of a company number, modulo 10."""
    numbers = digits(spelled)
    return (10 - sum_weighted(numbers, range(8, 0, -1)) % 10) % 10 == numbers[8]


class _Number(NamedTuple):
    shape: re.Pattern[str]
    check: Callable[[str], bool]
    near: re.Pattern[str] | None = None


def _shape(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?:{pattern})(?![\w])(?![.,-]\d)", re.IGNORECASE)


_LETTERED = (
    _Number(_shape(r"[XYZ][- ]?\d{7}[- ]?[A-HJ-NP-TV-Z]"), spain),
    _Number(_shape(r"[A-Z]{6}[\dL-V]{2}[ABCDEHLMPRST][\dL-V]{2}[A-Z][\dL-V]{3}[A-Z]"), italy),
    _Number(_shape(r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]"), uk),
    _Number(
        _shape(r"[CFGHJKLMNPRTVWXYZ][CFGHJKLMNPRTVWXYZ0-9]{8}\d"),
        germany_card,
        words(r"personalausweis\w{0,10}|ausweis\w{0,10}|identity card|id card|passport|reisepass"),
    ),
    _Number(re.compile(r"[A-Z]{3}[ABCFGHJLPT][A-Z]\d{4}[A-Z](?!\w)"), always),
    _Number(_shape(r"[STFGM]\d{7}[A-Z]"), singapore),
    _Number(_shape(r"[A-Z][12]\d{8}"), taiwan),
    _Number(re.compile(r"[A-Z]{1,2}\d{6}\([\dA]\)"), hong_kong),
    _Number(
        _shape(
            r"[A-Z][AEIOUX][A-Z]{2}\d{2}[01]\d[0-3]\d[HMX][A-Z]{2}[B-DF-HJ-NP-TV-Z]{3}[A-Z\d]\d"
        ),
        always,
    ),
)

_NUMBERED = (
    _Number(_shape(r"\d{8}[- ]?[A-HJ-NP-TV-Z]"), spain),
    _Number(_shape(r"\d{3}[ -]?\d{3}[ -]?\d{4}"), nhs, words(r"nhs|national health")),
    _Number(
        _shape(r"\d{2} ?\d{3} ?\d{3} ?\d{3}"),
        germany,
        words(r"steuer\w{0,20}|steuer-id\w{0,20}|tax id\w{0,15}|idnr|tin|identifikationsnummer"),
    ),
    _Number(
        _shape(r"[12] ?\d{2} ?(?:0[1-9]|1[0-2]|[2-9]\d) ?(?:\d{2}|2[AB]) ?\d{3} ?\d{3} ?\d{2}"),
        france,
    ),
    _Number(_shape(r"[2-9]\d{3}([ -])\d{4}\1\d{4}"), india_person),
    _Number(_shape(r"[2-9]\d{11}"), india_person, words(r"aadhaa?r|uidai?|uid")),
    _Number(_shape(r"\d{3} ?\d{3} ?\d{3}"), australia_tax, words(r"tfn|tax file(?: number)?")),
    _Number(_shape(r"\d{2} \d{3} \d{3} \d{3}"), australia_firm),
    _Number(_shape(r"\d{11}"), australia_firm, words(r"abn|australian business(?: number)?")),
    _Number(_shape(r"[2-6]\d{3} ?\d{5} ?\d(?:[ /-]?\d)?"), australia_health, words(r"medicare")),
    _Number(
        _shape(r"\d{11}"),
        poland,
        words(r"pesel|polish id\w{0,10}|national id\w{0,15}|id number"),
    ),
    _Number(_shape(r"(?:19|20)?\d{6}[-+]\d{4}"), sweden),
    _Number(_shape(r"\d{10}|\d{12}"), sweden, words(r"personnummer|person number|swedish")),
    _Number(_shape(r"[0-3]\d[01]\d{3}[-+ABCDEFYXWVU]\d{3}[0-9A-FHJ-NPR-Y]"), finland),
    _Number(_shape(r"[0-7]\d[01]\d{3} ?\d{5}"), norway),
    _Number(
        _shape(r"[0-3]\d[01]\d{3}[- ]?\d{4}"),
        denmark,
        words(r"cpr(?:-?(?:nr|nummer))?|danish|personnummer"),
    ),
    _Number(_shape(r"\d{3}\.\d{3}\.\d{3}-\d{2}"), brazil),
    _Number(_shape(r"\d{11}"), brazil, words(r"cpf")),
    _Number(_shape(r"\d{2}\.\d{3}\.\d{3}/\d{4}-\d{2}"), brazil_firm),
    _Number(_shape(r"[1-9]\d{2} ?\d{3} ?\d{3}"), portugal, words(r"nif|contribuinte")),
    _Number(
        _shape(r"\d{9}|\d{4}\.\d{2}\.\d{3}"),
        netherlands,
        words(r"bsn|burgerservice\w{0,8}|sofi\w{0,8}"),
    ),
    _Number(_shape(r"\d{2}\.\d{2}\.\d{2}-\d{3}\.\d{2}"), belgium),
    _Number(_shape(r"\d{1,2}\.\d{3}\.\d{3}-[\dK]"), chile),
    _Number(_shape(r"\d{7,8}-[\dK]"), chile, words(r"rut|run|chile\w{0,3}")),
    _Number(_shape(r"[1-9]\d{10}"), turkey, words(r"tc|t\.c\.|tckn|kimlik\w{0,5}|turkish")),
    _Number(_shape(r"\d{2}[01]\d[0-3]\d-[1-8]\d{6}"), korea),
    _Number(
        _shape(r"\d{3}[- ]?\d{3}[- ]?\d{3}"),
        canada,
        words(r"sin|social insurance(?: number)?"),
    ),
    _Number(_shape(r"\d{13}"), south_africa, words(r"id|identity|south africa\w{0,2}|rsa")),
    _Number(_shape(r"[1-9]\d{5}(?:19|20)\d{2}[01]\d[0-3]\d{4}[\dX]"), china),
    _Number(
        _shape(r"\d{7}[A-W][A-IW]?"),
        ireland,
        words(r"pps\w{0,2}|ppsn|personal public service"),
    ),
    _Number(
        _shape(r"\d{11}"),
        belgium,
        words(r"rijksregister\w{0,8}|registre national|niss|belg\w{0,4}"),
    ),
    _Number(_shape(r"\d{11}"), croatia, words(r"oib|osobni identifikacijski broj")),
    _Number(_shape(r"\d{6}/\d{4}"), czechia),
    _Number(_shape(r"[1-8]\d{12}"), romania, words(r"cnp|cod numeric personal")),
    _Number(_shape(r"[1-6]\d{10}"), baltic, words(r"isikukood|asmens kod\w{0,3}|personal code")),
    _Number(_shape(r"\d{8}-?\d"), israel, words(r"teudat zehut|israeli id|mispar zehut")),
    _Number(_shape(r"[1-8]-\d{4}-\d{5}-\d{2}-\d"), thailand),
    _Number(_shape(r"[1-8]\d{12}"), thailand, words(r"thai(?:land)?(?: id)?|tnin")),
    _Number(
        _shape(r"\d{3} ?\d{3} ?\d{3}"),
        australia_company,
        words(r"acn|australian company(?: number)?"),
    ),
    _Number(_shape(r"756\.?\d{4}\.?\d{4}\.?\d{2}"), switzerland),
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


def _month_day(month: int, day: int) -> bool:
    return 1 <= month <= 12 and 1 <= day <= 31


def _two(numbers: Sequence[int], at: int) -> int:
    return numbers[at] * 10 + numbers[at + 1]


def _plain(spelled: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "", spelled).upper()


_SPAIN = "TRWAGMYFPDXBNJZSQVHLCKE"

_ITALY_ODD = (
    1,
    0,
    5,
    7,
    9,
    13,
    15,
    17,
    19,
    21,
    2,
    4,
    18,
    20,
    11,
    3,
    6,
    8,
    12,
    14,
    16,
    10,
    22,
    25,
    24,
    23,
)

_CHINA = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)

_TAIWAN = "ABCDEFGHJKLMNPQRSTUVXYWZIO"

_SSN = re.compile(r"([0-9](?<![\w.+-][0-9])\d{2})([- .]?)(\d{2})\2(\d{4})(?![\w])(?!\.\d)(?!-\d)")

_SSN_WORDS = words(
    r"ssns?|social security(?: (?:number|no|num))?|itin|tax(?:payer)? id\w{0,10}|social"
)

_SAMPLES = frozenset({"078051120", "219099999"})
"""Numbers that were printed in advertisements, and so were never anybody's again."""


def look_for_ssns(text: str) -> Iterator[Span]:
    """Numbers in the ranges that are given out; without hyphens only next to a word for it."""
    for match in _SSN.finditer(text):
        area, between, group, serial = match.groups()
        if area in {"000", "666"} or group == "00" or serial == "0000":
            continue
        if area >= "900" and not _is_taxpayer(group):
            continue
        named = is_near(_SSN_WORDS, text, *match.span())
        if area + group + serial in _SAMPLES and not named:
            continue
        if between == "-" or named:
            yield Span(*match.span())


def _is_taxpayer(group: str) -> bool:
    """Whether a number from 900 on is one of those given to taxpayers without an SSN."""
    number = int(group)
    return 50 <= number <= 65 or 70 <= number <= 88 or 90 <= number <= 92 or 94 <= number <= 99


# A label, then what may stand between, then a value with a digit in it.
_LINK = (
    r"(?:[\s_-]{0,3}(?:numbers?|no\.?|num|nr\.?|id|#|code))?[\"']?\s{0,3}(?:is|was|are|:|=|\(|-|->)?"
    r"[\s\"']{0,4}"
)


def _compile_labelled(label: str, value: str) -> re.Pattern[str]:
    spaced = label.replace(" ", "[ _-]?")
    return re.compile(rf"(?i){BEGIN}(?:{spaced}){END}{_LINK}(?P<value>{value})(?![\w])")


_LICENCE = _compile_labelled(
    r"driv(?:er|ing)(?:'s|s|\u2019s)? (?:licen[cs]e|permit)|licen[cs]e (?:number|no\.?)|DLN?",
    r"(?=[A-Z -]{0,8}\d)[A-Z0-9]{1,14}(?:[- ]?[A-Z0-9]*\d[A-Z0-9]*){0,4}",
)

_PASSPORT = _compile_labelled(
    r"passports?|reisepass\w{0,6}|passeport|pasaporte|passaporto",
    r"(?=[A-Z]{0,9}\d)[A-Z0-9]{6,10}",
)

_PLATE = _compile_labelled(
    r"(?:licen[cs]e|number|registration|vehicle|car) (?:plates?|registration)|plates?"
    r"|kennzeichen|reg",
    r"(?=[A-Z0-9 -]{0,6}\d)(?=[A-Z0-9 -]{0,9}[A-Z])[A-Z0-9]{1,4}(?:[- ]?[A-Z0-9]{1,4}){1,2}",
)

_VEHICLE = re.compile(r"(?<!\w)(?=[A-Z0-9]{0,16}\d)[A-HJ-NPR-Z0-9]{17}(?!\w)")

_VEHICLE_WORDS = words(r"vin|vehicle identification\w{0,3}|chassis")

_RECORD = _compile_labelled(
    r"medical record|mrn|patient(?: id| number)|health (?:card|plan|insurance)|insurance (?:id"
    r"|policy)|policy",
    r"(?=[A-Z-]{0,5}\d)[A-Z0-9]{2,6}(?:-?[A-Z0-9]*\d[A-Z0-9]*){1,4}",
)


def look_for_licences(text: str) -> Iterator[Span]:
    """Driving licences after the words that say so: each state has its own shape."""
    return labelled_values(_LICENCE, text, "licen", "driv", "dl")


def look_for_passports(text: str) -> Iterator[Span]:
    """Passport numbers after the word."""
    return labelled_values(_PASSPORT, text, "pass", "pasap", "reisep")


def look_for_plates(text: str) -> Iterator[Span]:
    """Number plates after the words that say so, and the numbers of vehicles."""
    stems = ("plate", "licen", "number", "regist", "vehicle", "car", "kennzeichen", "reg")
    yield from labelled_values(_PLATE, text, *stems)
    lower = text.lower()
    if not any(each in lower for each in ("vin", "vehicle", "chassis")):
        return
    for match in _VEHICLE.finditer(text):
        if is_near(_VEHICLE_WORDS, text, *match.span()):
            yield Span(*match.span())


def look_for_records(text: str) -> Iterator[Span]:
    """Numbers of patients and insurances after the words that say so."""
    return labelled_values(
        _RECORD, text, "medical", "mrn", "patient", "health", "insurance", "policy"
    )
