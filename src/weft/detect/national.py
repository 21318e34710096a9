"""Identity and tax numbers of many countries, recognised by shape and check digits.

A row is a shape, a check, and the words that must stand near where the shape is too common
to be believed alone. A number whose check digit is wrong is not reported.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from weft.detect.kinds import BEGIN, END, Span, is_near, labelled_values, words
from weft.detect.money import digits, iso7064, luhn, sum_weighted, verhoeff

Check = Callable[[str], bool]
"""Whether a number of the right shape, as it is spelled, can be one that was given out."""

DigitCheck = Callable[[Sequence[int]], bool]
"""The same by the digits alone."""


def check_digits(*checks: DigitCheck) -> Check:
    """The check of a number by its digits, which all of these must hold of."""

    def holds(spelled: str) -> bool:
        numbers = digits(spelled)
        return all(check(numbers) for check in checks)

    return holds


def check_sum(weights: Iterable[int], modulus: int, *, plus: int = 0) -> DigitCheck:
    """Check that the digits, each times its weight, sum up to a multiple of the modulus."""
    weights = tuple(weights)
    return lambda numbers: (sum_weighted(numbers, weights) + plus) % modulus == 0


def check_date(
    month: int, day: int, *, months: Sequence[int] = (0,), days: Sequence[int] = (0,)
) -> DigitCheck:
    """Check that a month and a day begin at these digits.

    What is added to one of them says something else, such as the century.
    """

    def holds(numbers: Sequence[int]) -> bool:
        is_month = any(1 <= _two(numbers, month) - more <= 12 for more in months)
        return is_month and any(1 <= _two(numbers, day) - more <= 31 for more in days)

    return holds


def _two(numbers: Sequence[int], at: int) -> int:
    return numbers[at] * 10 + numbers[at + 1]


def _plain(spelled: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "", spelled).upper()


# --- checks by letters


def is_spanish(spelled: str) -> bool:
    """The letter after the number of a DNI or NIE."""
    text = _plain(spelled)
    number = text[:-1].replace("X", "0").replace("Y", "1").replace("Z", "2")
    return _SPAIN[int(number) % 23] == text[-1]


def is_italian(spelled: str) -> bool:
    """The last letter of a codice fiscale."""
    text = _plain(spelled)
    total = 0
    for at, each in enumerate(text[:15]):
        value = int(each) if each.isdigit() else ord(each) - 65
        total += _ITALY_ODD[value] if at % 2 == 0 else value
    return chr(65 + total % 26) == text[15]


def is_german_card(spelled: str) -> bool:
    """The last digit of an identity card or passport, weights 7, 3, 1."""
    return check_sum((*(7, 3, 1) * 3, -1), 10)([int(each, 36) for each in _plain(spelled)])


def is_french(spelled: str) -> bool:
    """The key of a social security number, modulo 97."""
    text = _plain(spelled).replace("2A", "19").replace("2B", "18")
    return 97 - int(text[:13]) % 97 == int(text[13:])


def is_singaporean(spelled: str) -> bool:
    """The letter of an NRIC or FIN."""
    text = _plain(spelled)
    total = sum_weighted(digits(text), (2, 7, 6, 5, 4, 3, 2))
    total += {"T": 4, "G": 4, "M": 3}.get(text[0], 0)
    table = {"S": "JZIHGFEDCBA", "T": "JZIHGFEDCBA", "M": "KLJNPQRTUWX"}.get(text[0], "XWUTRQPNMLK")
    at = total % 11
    return table[10 - at if text[0] == "M" else at] == text[-1]


def is_finnish(spelled: str) -> bool:
    """The date and the letter of a henkilötunnus."""
    numbers = digits(spelled[:6]) + digits(spelled[7:10])
    value = int("".join(map(str, numbers)))
    return check_date(2, 0)(numbers) and (
        "0123456789ABCDEFHJKLMNPRSTUVWXY"[value % 31] == spelled[-1].upper()
    )


def is_chilean(spelled: str) -> bool:
    """The last digit of a RUT, modulo 11."""
    text = _plain(spelled)
    rest = (
        11
        - sum_weighted((int(each) for each in reversed(text[:-1])), (2, 3, 4, 5, 6, 7, 2, 3)) % 11
    )
    return {11: "0", 10: "K"}.get(rest, str(rest)) == text[-1]


def is_chinese(spelled: str) -> bool:
    """The last sign of a resident identity card, in which X is ten."""
    numbers = [10 if each in "Xx" else int(each) for each in spelled]
    return check_sum((*_CHINA, 1), 11, plus=-1)(numbers)


def is_from_hong_kong(spelled: str) -> bool:
    """The digit in brackets of an identity card."""
    text = _plain(spelled)
    letters = text[:-1].rstrip("0123456789")
    values = [36] * (2 - len(letters)) + [ord(each) - 55 for each in letters]
    values += [int(each, 16) for each in text[len(letters) :]]
    return check_sum(range(9, 0, -1), 11)(values)


def is_irish(spelled: str) -> bool:
    """The letter of a PPS number."""
    text = _plain(spelled)
    total = sum_weighted(digits(text), range(8, 1, -1))
    if len(text) == 9 and text[8] != "W":
        total += (ord(text[8]) - 64) * 9
    return "WABCDEFGHIJKLMNOPQRSTUV"[total % 23] == text[7]


def is_taiwanese(spelled: str) -> bool:
    """The weighted sum of an identity number, its letter as two digits."""
    numbers = [*divmod(_TAIWAN.index(spelled[0].upper()) + 10, 10), *digits(spelled)]
    return check_sum((1, 9, 8, 7, 6, 5, 4, 3, 2, 1, 1), 10)(numbers)


# --- checks by digits alone


def is_german(numbers: Sequence[int]) -> bool:
    """The digits of a tax identification number: one twice or thrice, and ISO 7064."""
    counts = sorted(numbers[:10].count(each) for each in set(numbers[:10]))
    return counts[-1] in (2, 3) and iso7064(numbers)


def is_brazilian(numbers: Sequence[int]) -> bool:
    """Both check digits of a CPF."""
    first = sum_weighted(numbers, range(10, 1, -1)) * 10 % 11 % 10
    second = sum_weighted(numbers, range(11, 1, -1)) * 10 % 11 % 10
    return len(set(numbers)) > 1 and [first, second] == numbers[9:]


def is_brazilian_firm(numbers: Sequence[int]) -> bool:
    """Both check digits of a CNPJ."""
    weights = (6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2)
    first = sum_weighted(numbers, weights[1:]) % 11
    second = sum_weighted(numbers, weights) % 11
    return [0 if each < 2 else 11 - each for each in (first, second)] == numbers[12:]


def is_portuguese(numbers: Sequence[int]) -> bool:
    """The last digit of a NIF, modulo 11."""
    rest = sum_weighted(numbers, range(9, 1, -1)) % 11
    return (0 if rest < 2 else 11 - rest) == numbers[8]


def is_belgian(numbers: Sequence[int]) -> bool:
    """The key of a national register number, modulo 97."""
    text = "".join(map(str, numbers))
    check = int(text[9:])
    return check in (97 - int(text[:9]) % 97, 97 - int("2" + text[:9]) % 97)


def is_turkish(numbers: Sequence[int]) -> bool:
    """Both check digits of a TC kimlik number."""
    tenth = (sum(numbers[0:9:2]) * 7 - sum(numbers[1:8:2])) % 10
    return tenth == numbers[9] and sum(numbers[:10]) % 10 == numbers[10]


def is_swedish(numbers: Sequence[int]) -> bool:
    """The date and the Luhn digit of a personnummer, whose year may have its century."""
    return check_date(2, 4, days=(0, 60))(numbers[-10:]) and luhn(numbers[-10:])


def is_czech(numbers: Sequence[int]) -> bool:
    """Whether a rodné číslo is a multiple of 11."""
    whole = int("".join(map(str, numbers)))
    return whole % 11 == 0 or (whole // 10 % 11 == 10 and numbers[9] == 0)


def is_romanian(numbers: Sequence[int]) -> bool:
    """The last digit of a CNP."""
    rest = sum_weighted(numbers, (2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9)) % 11
    return (1 if rest == 10 else rest) == numbers[12]


def is_baltic(numbers: Sequence[int]) -> bool:
    """The last digit of an isikukood or asmens kodas."""
    rest = sum_weighted(numbers, (1, 2, 3, 4, 5, 6, 7, 8, 9, 1)) % 11
    if rest == 10:
        rest = sum_weighted(numbers, (3, 4, 5, 6, 7, 8, 9, 1, 2, 3)) % 11 % 10
    return rest == numbers[10]


def is_thai(numbers: Sequence[int]) -> bool:
    """The last digit of an identity number, modulo 11."""
    return (11 - sum_weighted(numbers, range(13, 1, -1)) % 11) % 10 == numbers[12]


class _Number(NamedTuple):
    shape: re.Pattern[str]
    check: Check | None = None
    near: re.Pattern[str] | None = None


def _shape(pattern: str) -> re.Pattern[str]:
    # ASCII alone: the checks know no other digits
    return re.compile(rf"(?a:{pattern})(?!\w)(?![.,-]\d)", re.IGNORECASE)


_BUSINESS = check_sum((10, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19), 89, plus=-10)
"""The check of an Australian business number, whose first digit counts as one less."""

_LETTERED = (
    _Number(_shape(r"[XYZ][- ]?\d{7}[- ]?[A-HJ-NP-TV-Z]"), is_spanish),
    _Number(_shape(r"[A-Z]{6}[\dL-V]{2}[ABCDEHLMPRST][\dL-V]{2}[A-Z][\dL-V]{3}[A-Z]"), is_italian),
    # the National Insurance number of the United Kingdom, in the prefixes that are given out
    _Number(
        _shape(
            r"(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2}"
            r" ?[A-D]"
        )
    ),
    _Number(
        _shape(r"[CFGHJKLMNPRTVWXYZ][CFGHJKLMNPRTVWXYZ0-9]{8}\d"),
        is_german_card,
        words(r"personalausweis\w{0,10}|ausweis\w{0,10}|identity card|id card|passport|reisepass"),
    ),
    # the PAN of India
    _Number(re.compile(r"[A-Z]{3}[ABCFGHJLPT][A-Z][0-9]{4}[A-Z](?!\w)")),
    _Number(_shape(r"[STFGM]\d{7}[A-Z]"), is_singaporean),
    _Number(_shape(r"[A-Z][12]\d{8}"), is_taiwanese),
    _Number(re.compile(r"[A-Z]{1,2}[0-9]{6}\([0-9A]\)"), is_from_hong_kong),
    # the CURP of Mexico
    _Number(
        _shape(
            r"[A-Z][AEIOUX][A-Z]{2}\d{2}[01]\d[0-3]\d[HMX][A-Z]{2}[B-DF-HJ-NP-TV-Z]{3}[A-Z\d]\d"
        ),
    ),
)

_NUMBERED = (
    _Number(_shape(r"\d{8}[- ]?[A-HJ-NP-TV-Z]"), is_spanish),
    _Number(
        _shape(r"\d{3}[ -]?\d{3}[ -]?\d{4}"),
        check_digits(check_sum(range(10, 0, -1), 11)),
        words(r"nhs|national health"),
    ),
    _Number(
        _shape(r"[1-9]\d ?\d{3} ?\d{3} ?\d{3}"),
        check_digits(is_german),
        words(r"steuer\w{0,20}|steuer-id\w{0,20}|tax id\w{0,15}|idnr|tin|identifikationsnummer"),
    ),
    _Number(
        _shape(r"[12] ?\d{2} ?(?:0[1-9]|1[0-2]|[2-9]\d) ?(?:\d{2}|2[AB]) ?\d{3} ?\d{3} ?\d{2}"),
        is_french,
    ),
    # the Aadhaar number of India
    _Number(_shape(r"[2-9]\d{3}([ -])\d{4}\1\d{4}"), check_digits(verhoeff)),
    _Number(_shape(r"[2-9]\d{11}"), check_digits(verhoeff), words(r"aadhaa?r|uidai?|uid")),
    _Number(
        _shape(r"\d{3} ?\d{3} ?\d{3}"),
        check_digits(check_sum((1, 4, 3, 7, 5, 8, 6, 9, 10), 11)),
        words(r"tfn|tax file(?: number)?"),
    ),
    _Number(_shape(r"\d{2} \d{3} \d{3} \d{3}"), check_digits(_BUSINESS)),
    _Number(
        _shape(r"\d{11}"), check_digits(_BUSINESS), words(r"abn|australian business(?: number)?")
    ),
    _Number(
        _shape(r"[2-6]\d{3} ?\d{5} ?\d(?:[ /-]?\d)?"),
        check_digits(check_sum((*(1, 3, 7, 9) * 2, -1), 10)),
        words(r"medicare"),
    ),
    _Number(
        _shape(r"\d{11}"),
        check_digits(
            check_date(2, 4, months=range(0, 100, 20)), check_sum((*(1, 3, 7, 9) * 2, 1, 3, 1), 10)
        ),
        words(r"pesel|polish id\w{0,10}|national id\w{0,15}|id number"),
    ),
    _Number(_shape(r"(?:19|20)?\d{6}[-+]\d{4}"), check_digits(is_swedish)),
    _Number(
        _shape(r"\d{10}|\d{12}"),
        check_digits(is_swedish),
        words(r"personnummer|person number|swedish"),
    ),
    _Number(_shape(r"[0-3]\d[01]\d{3}[-+ABCDEFYXWVU]\d{3}[0-9A-FHJ-NPR-Y]"), is_finnish),
    # the fødselsnummer of Norway
    _Number(
        _shape(r"[0-7]\d[01]\d{3} ?\d{5}"),
        check_digits(
            check_date(2, 0, days=(0, 40)),
            check_sum((3, 7, 6, 1, 8, 9, 4, 5, 2, 1), 11),
            check_sum((5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1), 11),
        ),
    ),
    _Number(
        _shape(r"[0-3]\d[01]\d{3}[- ]?\d{4}"),
        check_digits(check_date(2, 0)),
        words(r"cpr(?:-?(?:nr|nummer))?|danish|personnummer"),
    ),
    _Number(_shape(r"\d{3}\.\d{3}\.\d{3}-\d{2}"), check_digits(is_brazilian)),
    _Number(_shape(r"\d{11}"), check_digits(is_brazilian), words(r"cpf")),
    _Number(_shape(r"\d{2}\.\d{3}\.\d{3}/\d{4}-\d{2}"), check_digits(is_brazilian_firm)),
    _Number(
        _shape(r"[1-9]\d{2} ?\d{3} ?\d{3}"), check_digits(is_portuguese), words(r"nif|contribuinte")
    ),
    _Number(
        _shape(r"\d{9}|\d{4}\.\d{2}\.\d{3}"),
        check_digits(check_sum((9, 8, 7, 6, 5, 4, 3, 2, -1), 11)),
        words(r"bsn|burgerservice\w{0,8}|sofi\w{0,8}"),
    ),
    _Number(_shape(r"\d{2}\.\d{2}\.\d{2}-\d{3}\.\d{2}"), check_digits(is_belgian)),
    _Number(_shape(r"\d{1,2}\.\d{3}\.\d{3}-[\dK]"), is_chilean),
    _Number(_shape(r"\d{7,8}-[\dK]"), is_chilean, words(r"rut|run|chile\w{0,3}")),
    _Number(
        _shape(r"[1-9]\d{10}"),
        check_digits(is_turkish),
        words(r"tc|t\.c\.|tckn|kimlik\w{0,5}|turkish"),
    ),
    # the resident registration number of Korea
    _Number(_shape(r"\d{2}[01]\d[0-3]\d-[1-8]\d{6}"), check_digits(check_date(2, 4))),
    _Number(
        _shape(r"[1-79]\d{2}[- ]?\d{3}[- ]?\d{3}"),
        check_digits(luhn),
        words(r"sin|social insurance(?: number)?"),
    ),
    _Number(
        _shape(r"\d{10}[0-2]\d{2}"),
        check_digits(check_date(2, 4), luhn),
        words(r"id|identity|south africa\w{0,2}|rsa"),
    ),
    _Number(_shape(r"[1-9]\d{5}(?:19|20)\d{2}[01]\d[0-3]\d{4}[\dX]"), is_chinese),
    _Number(
        _shape(r"\d{7}[A-W][A-IW]?"),
        is_irish,
        words(r"pps\w{0,2}|ppsn|personal public service"),
    ),
    _Number(
        _shape(r"\d{11}"),
        check_digits(is_belgian),
        words(r"rijksregister\w{0,8}|registre national|niss|belg\w{0,4}"),
    ),
    _Number(_shape(r"\d{11}"), check_digits(iso7064), words(r"oib|osobni identifikacijski broj")),
    _Number(
        _shape(r"\d{6}/\d{4}"), check_digits(check_date(2, 4, months=(0, 20, 50, 70)), is_czech)
    ),
    _Number(
        _shape(r"[1-8]\d{12}"),
        check_digits(check_date(3, 5), is_romanian),
        words(r"cnp|cod numeric personal"),
    ),
    _Number(
        _shape(r"[1-6]\d{10}"),
        check_digits(check_date(3, 5), is_baltic),
        words(r"isikukood|asmens kod\w{0,3}|personal code"),
    ),
    _Number(
        _shape(r"\d{8}-?\d"), check_digits(luhn), words(r"teudat zehut|israeli id|mispar zehut")
    ),
    _Number(_shape(r"[1-8]-\d{4}-\d{5}-\d{2}-\d"), check_digits(is_thai)),
    _Number(_shape(r"[1-8]\d{12}"), check_digits(is_thai), words(r"thai(?:land)?(?: id)?|tnin")),
    _Number(
        _shape(r"\d{3} ?\d{3} ?\d{3}"),
        check_digits(check_sum((*range(8, 0, -1), 1), 10)),
        words(r"acn|australian company(?: number)?"),
    ),
    # the AHV number of Switzerland, with the check digit of EAN-13
    _Number(_shape(r"756\.?\d{4}\.?\d{4}\.?\d{2}"), check_digits(check_sum((1, 3) * 6 + (1,), 10))),
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
            if match is None or (number.check is not None and not number.check(match.group())):
                continue
            if number.near is None or is_near(number.near, text, *match.span(), after=12):
                yield Span(*match.span())


_SPAIN = "TRWAGMYFPDXBNJZSQVHLCKE"

_ITALY_ODD = (
    1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23,
)  # fmt: skip
"""What the signs in odd places of a codice fiscale count, by their values."""

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
