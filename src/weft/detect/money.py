"""Payment cards, bank accounts and wallets."""

import re
from collections.abc import Iterable, Iterator, Sequence

from weft.detect.kinds import BEGIN, Span, is_near, labelled_values, table, words


def digits(text: str) -> list[int]:
    """The ASCII digits of a text, in order."""
    return [ord(each) - 48 for each in text if "0" <= each <= "9"]


def luhn(numbers: Sequence[int]) -> bool:
    """Whether the last digit is the Luhn check digit of the others."""
    total = sum(numbers[-1::-2])
    for each in numbers[-2::-2]:
        total += each * 2 - 9 if each > 4 else each * 2
    return total % 10 == 0


def mod97(text: str) -> bool:
    """Whether an account number leaves 1 modulo 97, its first four characters moved last."""
    moved = text[4:] + text[:4]
    return int("".join(str(int(each, 36)) for each in moved)) % 97 == 1


_CARD = re.compile(
    r"[0-9](?<![\w.,+$€£-][0-9])\d{3,5}(?:[ \-\u00a0]?\d{1,6}){1,5}(?![\w])(?!\.\d)(?!-\w)"
)

_CARD_WORDS = words(
    r"cards?(?: (?:number|no|num))?|credit|debit|cc|visa|master card|maestro|amex|american express",
    r"jcb|diners|discover|paid with|pay with|payment|charged?",
    r"pan|kreditkarte|karte|carte|tarjeta|carta|cartão|kort",
)

# What an issuer's numbers begin with, and how many digits they have.
_ISSUERS = (
    (re.compile(r"4"), (13, 16, 19)),
    (re.compile(r"5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720"), (16,)),
    (re.compile(r"3[47]"), (15,)),
    (re.compile(r"30[0-5]|3095|36|3[89]"), (14, 16, 19)),
    (re.compile(r"6011|622|64[4-9]|65"), (16, 19)),
    (re.compile(r"2131|1800"), (15,)),
    (re.compile(r"35"), (16, 17, 18, 19)),
    (re.compile(r"62|81"), (16, 17, 18, 19)),
    (re.compile(r"5018|5020|5038|5[0678]|6(?:304|39|7)"), (12, 13, 14, 15, 16, 17, 18, 19)),
    (re.compile(r"60|65|81|82|508"), (16,)),
    (re.compile(r"220[0-4]"), (16, 17, 18, 19)),
    (re.compile(r"9792|636|637|606282|3841"), (16,)),
)

_SHORT = 13


def look_for_cards(text: str) -> Iterator[Span]:
    """Numbers with a right check digit, of a known issuer or next to a word for a card."""
    for match in _CARD.finditer(text):
        spelled = match.group()
        numbers = digits(spelled)
        if not 12 <= len(numbers) <= 19 or not luhn(numbers):
            continue
        compact = "".join(map(str, numbers))
        if len(set(compact)) < 2:
            continue
        sure = len(compact) > _SHORT and _is_issued(compact)
        if sure or is_near(_CARD_WORDS, text, *match.span()):
            yield Span(*match.span())


def _is_issued(compact: str) -> bool:
    return any(
        len(compact) in lengths and begins.match(compact) is not None
        for begins, lengths in _ISSUERS
    )


_IBAN = re.compile(
    r"[A-Za-z](?<![A-Za-z0-9][A-Za-z])[A-Za-z][0-9]{2}"
    r"(?:[A-Za-z0-9]{11,30}(?![A-Za-z0-9])|(?:[ \-]?[A-Za-z0-9]{1,4}){3,8}(?![A-Za-z0-9]))"
)

_LENGTHS = {
    country: length
    for length, countries in {
        15: "NO",
        16: "BE",
        18: "DK FI FK FO GL NL SD",
        19: "MK SI",
        20: "AT BA EE KZ LT LU MN XK",
        21: "CH HR LI LV",
        22: "BG BH CR DE GB GE IE ME RS VA",
        23: "AE GI IL IQ OM SO TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST",
        26: "IS TR",
        27: "BI DJ FR GR IT MC MR SM",
        28: "AL AZ BY CY DO GT HN HU LB NI PL SV",
        29: "BR EG PS QA UA",
        30: "JO KW MU YE",
        31: "MT SC",
        32: "LC",
        33: "RU",
    }.items()
    for country in table(countries)
}


def look_for_ibans(text: str) -> Iterator[Span]:
    """Accounts of the right length for their country whose check digits are right."""
    at = 0
    while (match := _IBAN.search(text, at)) is not None:
        spelled = match.group()
        length = _LENGTHS.get(spelled[:2].upper(), 0)
        end = _after(spelled, length)
        at = match.start() + 4
        if end and _is_iban(spelled[:end]):
            at = match.start() + end
            yield Span(match.start(), at)


def _after(spelled: str, length: int) -> int:
    """The end of a number of letters and digits; 0 if there are fewer, or it is inside a group."""
    seen = 0
    for at, each in enumerate(spelled):
        if each.isalnum():
            seen += 1
            if seen == length:
                return at + 1 if not spelled[at + 1 : at + 2].isalnum() else 0
    return 0


def _is_iban(spelled: str) -> bool:
    compact = re.sub(r"[ \-]", "", spelled).upper()
    return _LENGTHS.get(compact[:2]) == len(compact) and mod97(compact)


_SWIFT = re.compile(r"(?<![\w])[A-Z]{4}([A-Z]{2})[A-Z0-9]{2}(?:[A-Z0-9]{3})?(?![\w])")

_OTHER_COUNTRIES = table("US CA AU JP CN IN HK SG KR NZ ZA MX AR CL TH MY")

_SWIFT_WORDS = words(r"swift(?: code)?|bic|bank identifier")

_ACCOUNT = re.compile(
    rf"(?i){BEGIN}(?:account[ _-]?(?:number|num|no\.?|#)"
    r"|(?:bank|checking|savings|current)[ _-]?account(?:[ _-]?(?:number|num|no\.?|#))?"
    r"|acct\.?[ _-]?(?:no\.?|number|num|#)?"
    r"|routing[ _-]?(?:number|num|no\.?)|sort[ _-]?code|aba)"
    r"[\"']?\s{0,3}(?:is|:|=|#|-)?[\s\"']{0,4}"
    r"(?P<value>\d[\d -]{4,20}\d)(?![\w])"
)


def look_for_swifts(text: str) -> Iterator[Span]:
    """Bank codes of eight or eleven characters next to a word that says so."""
    lower = text.lower()
    if not any(each in lower for each in ("swift", "bic", "bank id")):
        return
    for match in _SWIFT.finditer(text):
        country = match.group(1)
        is_country = country in _LENGTHS or country in _OTHER_COUNTRIES
        if is_country and is_near(_SWIFT_WORDS, text, *match.span(), after=12):
            yield Span(*match.span())


def look_for_accounts(text: str) -> Iterator[Span]:
    """Account, routing and sort numbers after the words that say so."""
    stems = ("bank", "check", "saving", "current", "acc", "routing", "sort", "aba")
    return labelled_values(_ACCOUNT, text, *stems)


_BASE58 = "[1-9A-HJ-NP-Za-km-z]"

_WALLET = re.compile(
    rf"\b(?:(?:bc1|tb1)[02-9ac-hj-np-z]{{11,71}}|[13]{_BASE58}{{25,34}}|0x[0-9a-fA-F]{{40}}"
    rf"|ltc1[02-9ac-hj-np-z]{{11,71}}|[LM]{_BASE58}{{26,33}}|r{_BASE58}{{24,34}}|T{_BASE58}{{33}}"
    rf"|addr1[02-9ac-hj-np-z]{{50,110}}|4[0-9AB]{_BASE58}{{93}}|D{_BASE58}{{33}}"
    rf"|X{_BASE58}{{33}})(?!\w)"
)

_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def look_for_wallets(text: str) -> Iterator[Span]:
    """Addresses of the common chains; those with a checksum must have a right one."""
    for match in _WALLET.finditer(text):
        if _is_wallet(match.group()):
            yield Span(*match.span())


def _is_wallet(spelled: str) -> bool:
    if spelled.startswith(("0x", "bc1", "tb1", "ltc1", "addr1")) or len(spelled) > 90:
        return True
    if spelled[0] == "r":  # another alphabet: held to digits and both cases instead
        return any(map(str.isdigit, spelled)) and spelled != spelled.lower()
    import hashlib

    number = 0
    for each in spelled:
        number = number * 58 + _ALPHABET.index(each)
    if number >> 200:
        return False
    raw = number.to_bytes(25)
    return hashlib.sha256(hashlib.sha256(raw[:-4]).digest()).digest()[:4] == raw[-4:]


_VERHOEFF_TIMES = (
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 9),
    (1, 2, 3, 4, 0, 6, 7, 8, 9, 5),
    (2, 3, 4, 0, 1, 7, 8, 9, 5, 6),
    (3, 4, 0, 1, 2, 8, 9, 5, 6, 7),
    (4, 0, 1, 2, 3, 9, 5, 6, 7, 8),
    (5, 9, 8, 7, 6, 0, 4, 3, 2, 1),
    (6, 5, 9, 8, 7, 1, 0, 4, 3, 2),
    (7, 6, 5, 9, 8, 2, 1, 0, 4, 3),
    (8, 7, 6, 5, 9, 3, 2, 1, 0, 4),
    (9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
)

_VERHOEFF_MOVES = (
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 9),
    (1, 5, 7, 6, 2, 8, 3, 0, 9, 4),
    (5, 8, 0, 3, 7, 9, 6, 1, 4, 2),
    (8, 9, 1, 6, 0, 4, 3, 5, 2, 7),
    (9, 4, 5, 3, 1, 2, 6, 8, 7, 0),
    (4, 2, 8, 6, 5, 7, 3, 9, 0, 1),
    (2, 7, 9, 3, 8, 0, 6, 4, 1, 5),
    (7, 0, 4, 6, 9, 1, 3, 2, 5, 8),
)


def verhoeff(numbers: Sequence[int]) -> bool:
    """Whether the last digit is the Verhoeff check digit of the others."""
    check = 0
    for place, each in enumerate(reversed(numbers)):
        check = _VERHOEFF_TIMES[check][_VERHOEFF_MOVES[place % 8][each]]
    return check == 0


def sum_weighted(numbers: Iterable[int], weights: Iterable[int]) -> int:
    """Sum the digits, each times its weight."""
    return sum(each * weight for each, weight in zip(numbers, weights, strict=False))


def iso7064(numbers: Sequence[int]) -> bool:
    """Whether the last digit is the ISO 7064 (mod 11, 10) check digit of the others."""
    product = 10
    for each in numbers[:-1]:
        total = (each + product) % 10 or 10
        product = total * 2 % 11
    return (11 - product) % 10 == numbers[-1]
