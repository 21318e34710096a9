"""Identity and tax numbers of many countries, told by shape and check digits.

A row is a shape, a check, and the words that must stand near where the shape is too common
to be believed alone. A number whose check digit is wrong is not reported.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from weft.detect.checksums import digits, iso7064, luhn, verhoeff, weighted
from weft.detect.found import Span
from weft.detect.near import is_near, words


class _Number(NamedTuple):
    shape: re.Pattern[str]
    check: Callable[[str], bool]
    near: re.Pattern[str] | None = None


def _shape(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?:{pattern})(?![\w])(?![.,-]\d)", re.IGNORECASE)


def _month_day(month: int, day: int) -> bool:
    return 1 <= month <= 12 and 1 <= day <= 31


def _two(numbers: Sequence[int], at: int) -> int:
    return numbers[at] * 10 + numbers[at + 1]


def _plain(spelled: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "", spelled).upper()


_SPAIN = "TRWAGMYFPDXBNJZSQVHLCKE"


def _spain(spelled: str) -> bool:
    text = _plain(spelled)
    number = text[:-1].replace("X", "0").replace("Y", "1").replace("Z", "2")
    return _SPAIN[int(number) % 23] == text[-1]


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


def _italy(spelled: str) -> bool:
    text = _plain(spelled)
    total = 0
    for at, each in enumerate(text[:15]):
        value = int(each) if each.isdigit() else ord(each) - 65
        total += _ITALY_ODD[value] if at % 2 == 0 else value
    return chr(65 + total % 26) == text[15]


def _uk(spelled: str) -> bool:
    return _plain(spelled)[:2] not in {"BG", "GB", "KN", "NK", "NT", "TN", "ZZ"}


def _nhs(spelled: str) -> bool:
    numbers = digits(spelled)
    return (11 - weighted(numbers, range(10, 1, -1)) % 11) % 11 == numbers[9]


def _germany(spelled: str) -> bool:
    numbers = digits(spelled)
    counts = sorted(numbers[:10].count(each) for each in set(numbers[:10]))
    return numbers[0] != 0 and counts[-1] in (2, 3) and iso7064(numbers)


def _germany_card(spelled: str) -> bool:
    text = _plain(spelled)
    values = [int(each, 36) for each in text[:9]]
    return weighted(values, (7, 3, 1) * 3) % 10 == int(text[9])


def _france(spelled: str) -> bool:
    text = _plain(spelled).replace("2A", "19").replace("2B", "18")
    return text.isdigit() and 97 - int(text[:13]) % 97 == int(text[13:])


def _india_person(spelled: str) -> bool:
    return spelled[0] not in "01" and verhoeff(digits(spelled))


def _singapore(spelled: str) -> bool:
    text = _plain(spelled)
    total = weighted(digits(text), (2, 7, 6, 5, 4, 3, 2))
    total += {"T": 4, "G": 4, "M": 3}.get(text[0], 0)
    table = {"S": "JZIHGFEDCBA", "T": "JZIHGFEDCBA", "M": "KLJNPQRTUWX"}.get(text[0], "XWUTRQPNMLK")
    at = total % 11
    return table[10 - at if text[0] == "M" else at] == text[-1]


def _australia_tax(spelled: str) -> bool:
    return weighted(digits(spelled), (1, 4, 3, 7, 5, 8, 6, 9, 10)) % 11 == 0


def _australia_firm(spelled: str) -> bool:
    numbers = digits(spelled)
    numbers[0] -= 1
    return weighted(numbers, (10, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19)) % 89 == 0


def _australia_health(spelled: str) -> bool:
    numbers = digits(spelled)
    return 2 <= numbers[0] <= 6 and weighted(numbers, (1, 3, 7, 9) * 2) % 10 == numbers[8]


def _poland(spelled: str) -> bool:
    numbers = digits(spelled)
    total = weighted(numbers, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3))
    dated = _month_day(_two(numbers, 2) % 20, _two(numbers, 4))
    return dated and (10 - total % 10) % 10 == numbers[10]


def _sweden(spelled: str) -> bool:
    numbers = digits(spelled)[-10:]
    day = _two(numbers, 4)
    return _month_day(_two(numbers, 2), day - 60 if day > 60 else day) and luhn(numbers)


def _finland(spelled: str) -> bool:
    numbers = digits(spelled[:6]) + digits(spelled[7:10])
    if not _month_day(_two(numbers, 2), _two(numbers, 0)):
        return False
    value = int("".join(map(str, numbers)))
    return "0123456789ABCDEFHJKLMNPRSTUVWXY"[value % 31] == spelled[-1].upper()


def _norway(spelled: str) -> bool:
    numbers = digits(spelled)
    day = _two(numbers, 0)
    first = (11 - weighted(numbers, (3, 7, 6, 1, 8, 9, 4, 5, 2)) % 11) % 11
    second = (11 - weighted(numbers, (5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11) % 11
    dated = _month_day(_two(numbers, 2), day - 40 if day > 40 else day)
    return dated and first == numbers[9] and second == numbers[10]


def _denmark(spelled: str) -> bool:
    numbers = digits(spelled)
    return _month_day(_two(numbers, 2), _two(numbers, 0))


def _brazil(spelled: str) -> bool:
    numbers = digits(spelled)
    if len(set(numbers)) == 1:
        return False
    first = weighted(numbers, range(10, 1, -1)) * 10 % 11 % 10
    second = weighted(numbers, range(11, 1, -1)) * 10 % 11 % 10
    return first == numbers[9] and second == numbers[10]


def _brazil_firm(spelled: str) -> bool:
    numbers = digits(spelled)
    weights = (6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2)
    first = weighted(numbers, weights[1:]) % 11
    second = weighted(numbers, weights) % 11
    return [0 if each < 2 else 11 - each for each in (first, second)] == numbers[12:]


def _portugal(spelled: str) -> bool:
    numbers = digits(spelled)
    rest = weighted(numbers, range(9, 1, -1)) % 11
    return (0 if rest < 2 else 11 - rest) == numbers[8]


def _netherlands(spelled: str) -> bool:
    return weighted(digits(spelled), (9, 8, 7, 6, 5, 4, 3, 2, -1)) % 11 == 0


def _belgium(spelled: str) -> bool:
    text = "".join(map(str, digits(spelled)))
    check = int(text[9:])
    return check in (97 - int(text[:9]) % 97, 97 - int("2" + text[:9]) % 97)


def _chile(spelled: str) -> bool:
    text = _plain(spelled)
    rest = 11 - weighted((int(each) for each in reversed(text[:-1])), (2, 3, 4, 5, 6, 7, 2, 3)) % 11
    return {11: "0", 10: "K"}.get(rest, str(rest)) == text[-1]


def _turkey(spelled: str) -> bool:
    numbers = digits(spelled)
    tenth = (sum(numbers[0:9:2]) * 7 - sum(numbers[1:8:2])) % 10
    return numbers[0] != 0 and tenth == numbers[9] and sum(numbers[:10]) % 10 == numbers[10]


def _korea(spelled: str) -> bool:
    numbers = digits(spelled)
    return _month_day(_two(numbers, 2), _two(numbers, 4)) and 1 <= numbers[6] <= 8


def _canada(spelled: str) -> bool:
    numbers = digits(spelled)
    return numbers[0] not in (0, 8) and luhn(numbers)


def _south_africa(spelled: str) -> bool:
    numbers = digits(spelled)
    return _month_day(_two(numbers, 2), _two(numbers, 4)) and numbers[10] < 3 and luhn(numbers)


_CHINA = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)


def _china(spelled: str) -> bool:
    text = spelled.upper()
    return "10X98765432"[weighted(map(int, text[:17]), _CHINA) % 11] == text[17]


def _hong_kong(spelled: str) -> bool:
    text = _plain(spelled)
    letters = text.rstrip("A0123456789") if text[-1] == "A" else re.sub(r"\d", "", text)
    values = [36] * (2 - len(letters)) + [ord(each) - 55 for each in letters]
    values += [int(each) for each in text[len(letters) : -1]]
    check = 10 if text[-1] == "A" else int(text[-1])
    return (weighted(values, range(9, 1, -1)) + check) % 11 == 0


def _ireland(spelled: str) -> bool:
    text = _plain(spelled)
    total = weighted(digits(text), range(8, 1, -1))
    if len(text) == 9 and text[8] != "W":
        total += (ord(text[8]) - 64) * 9
    return "WABCDEFGHIJKLMNOPQRSTUV"[total % 23] == text[7]


def _switzerland(spelled: str) -> bool:
    numbers = digits(spelled)
    return (10 - weighted(numbers, (1, 3) * 6) % 10) % 10 == numbers[12]


def _always(spelled: str) -> bool:
    """For shapes that say enough by themselves."""
    return bool(spelled)


_LETTERED = (
    _Number(_shape(r"[XYZ][- ]?\d{7}[- ]?[A-HJ-NP-TV-Z]"), _spain),
    _Number(_shape(r"[A-Z]{6}[\dL-V]{2}[ABCDEHLMPRST][\dL-V]{2}[A-Z][\dL-V]{3}[A-Z]"), _italy),
    _Number(_shape(r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]"), _uk),
    _Number(
        _shape(r"[CFGHJKLMNPRTVWXYZ][CFGHJKLMNPRTVWXYZ0-9]{8}\d"),
        _germany_card,
        words(r"personalausweis\w{0,10}|ausweis\w{0,10}|identity card|id card|passport|reisepass"),
    ),
    _Number(re.compile(r"[A-Z]{3}[ABCFGHJLPT][A-Z]\d{4}[A-Z](?!\w)"), _always),
    _Number(_shape(r"[STFGM]\d{7}[A-Z]"), _singapore),
    _Number(re.compile(r"[A-Z]{1,2}\d{6}\([\dA]\)"), _hong_kong),
    _Number(
        _shape(
            r"[A-Z][AEIOUX][A-Z]{2}\d{2}[01]\d[0-3]\d[HMX][A-Z]{2}[B-DF-HJ-NP-TV-Z]{3}[A-Z\d]\d"
        ),
        _always,
    ),
)
_NUMBERED = (
    _Number(_shape(r"\d{8}[- ]?[A-HJ-NP-TV-Z]"), _spain),
    _Number(_shape(r"\d{3}[ -]?\d{3}[ -]?\d{4}"), _nhs, words(r"nhs|national health")),
    _Number(
        _shape(r"\d{2} ?\d{3} ?\d{3} ?\d{3}"),
        _germany,
        words(r"steuer\w{0,20}|steuer-id\w{0,20}|tax id\w{0,15}|idnr|tin|identifikationsnummer"),
    ),
    _Number(
        _shape(r"[12] ?\d{2} ?(?:0[1-9]|1[0-2]|[2-9]\d) ?(?:\d{2}|2[AB]) ?\d{3} ?\d{3} ?\d{2}"),
        _france,
    ),
    _Number(_shape(r"[2-9]\d{3}([ -])\d{4}\1\d{4}"), _india_person),
    _Number(_shape(r"[2-9]\d{11}"), _india_person, words(r"aadhaa?r|uidai?|uid")),
    _Number(_shape(r"\d{3} ?\d{3} ?\d{3}"), _australia_tax, words(r"tfn|tax file(?: number)?")),
    _Number(_shape(r"\d{2} \d{3} \d{3} \d{3}"), _australia_firm),
    _Number(_shape(r"\d{11}"), _australia_firm, words(r"abn|australian business(?: number)?")),
    _Number(_shape(r"[2-6]\d{3} ?\d{5} ?\d(?:[ /-]?\d)?"), _australia_health, words(r"medicare")),
    _Number(
        _shape(r"\d{11}"), _poland, words(r"pesel|polish id\w{0,10}|national id\w{0,15}|id number")
    ),
    _Number(_shape(r"(?:19|20)?\d{6}[-+]\d{4}"), _sweden),
    _Number(_shape(r"\d{10}|\d{12}"), _sweden, words(r"personnummer|person number|swedish")),
    _Number(_shape(r"[0-3]\d[01]\d{3}[-+ABCDEFYXWVU]\d{3}[0-9A-FHJ-NPR-Y]"), _finland),
    _Number(_shape(r"[0-7]\d[01]\d{3} ?\d{5}"), _norway),
    _Number(
        _shape(r"[0-3]\d[01]\d{3}[- ]?\d{4}"),
        _denmark,
        words(r"cpr(?:-?(?:nr|nummer))?|danish|personnummer"),
    ),
    _Number(_shape(r"\d{3}\.\d{3}\.\d{3}-\d{2}"), _brazil),
    _Number(_shape(r"\d{11}"), _brazil, words(r"cpf")),
    _Number(_shape(r"\d{2}\.\d{3}\.\d{3}/\d{4}-\d{2}"), _brazil_firm),
    _Number(_shape(r"[1-9]\d{2} ?\d{3} ?\d{3}"), _portugal, words(r"nif|contribuinte")),
    _Number(
        _shape(r"\d{9}|\d{4}\.\d{2}\.\d{3}"),
        _netherlands,
        words(r"bsn|burgerservice\w{0,8}|sofi\w{0,8}"),
    ),
    _Number(_shape(r"\d{2}\.\d{2}\.\d{2}-\d{3}\.\d{2}"), _belgium),
    _Number(_shape(r"\d{1,2}\.\d{3}\.\d{3}-[\dK]"), _chile),
    _Number(_shape(r"\d{7,8}-[\dK]"), _chile, words(r"rut|run|chile\w{0,3}")),
    _Number(_shape(r"[1-9]\d{10}"), _turkey, words(r"tc|t\.c\.|tckn|kimlik\w{0,5}|turkish")),
    _Number(_shape(r"\d{2}[01]\d[0-3]\d-[1-8]\d{6}"), _korea),
    _Number(
        _shape(r"\d{3}[- ]?\d{3}[- ]?\d{3}"), _canada, words(r"sin|social insurance(?: number)?")
    ),
    _Number(_shape(r"\d{13}"), _south_africa, words(r"id|identity|south africa\w{0,2}|rsa")),
    _Number(_shape(r"[1-9]\d{5}(?:19|20)\d{2}[01]\d[0-3]\d{4}[\dX]"), _china),
    _Number(
        _shape(r"\d{7}[A-W][A-IW]?"), _ireland, words(r"pps\w{0,2}|ppsn|personal public service")
    ),
    _Number(_shape(r"756\.?\d{4}\.?\d{4}\.?\d{2}"), _switzerland),
)


_SITE = re.compile(
    r"[A-Za-z0-9](?<![\w.,-][A-Za-z0-9])"
    r"(?=[A-Za-z]{0,5}[ -]?[0-9])(?=(?:[ .\-/(]?[0-9A-Za-z]){7})"
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
