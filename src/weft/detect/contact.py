"""E-mail addresses, telephone numbers and addresses on the web."""

import re
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv6Address

from weft.detect.kinds import Span, is_near, places, table, words

_LOCAL = re.compile(r"[\w!#$%&'*+/=?^`{|}~-]+(?:\.[\w!#$%&'*+/=?^`{|}~-]+)*\Z")

_DOMAIN = re.compile(
    r"(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,6}(?:xn--[a-zA-Z0-9-]{2,59}|[^\W\d_]{2,24})(?![\w-])"
)

_SPELLED = re.compile(
    r"[\[({]\s?(?:at|AT|@)\s?[\])}]\s?[\w-]{1,63}"
    r"(?:\s?[\[({]\s?(?:dot|DOT|\.)\s?[\])}]\s?[\w-]{1,63}|\.[\w-]{1,63}){1,4}"
)

_SPELLED_LOCAL = re.compile(r"[\w.+-]{1,64}\s?\Z")

_MOST_LOCAL = 64


def look_for_emails(text: str) -> Iterator[Span]:
    """Addresses with a host, and those spelled `name [at] host [dot] tld`."""
    at = text.find("@")
    while at >= 0:
        domain = _DOMAIN.match(text, at + 1)
        if domain is not None:
            local = _LOCAL.search(text[max(0, at - _MOST_LOCAL) : at])
            if local is not None:
                name = local.group().lstrip("'`*=|{/")
                if name:
                    yield Span(at - len(name), domain.end())
        at = text.find("@", at + 1)
    for match in _SPELLED.finditer(text):
        local = _SPELLED_LOCAL.search(text, max(0, match.start() - 66), match.start())
        if local is not None:
            yield Span(local.start(), match.end())


_SITE = re.compile(
    r"[0-9+(](?<![\w./#$€£+-][0-9+(])(?<!\d[,:][0-9+(])(?<![\w)] [-*/=] [0-9+(])"
    r"(?=[-0-9()+ ./\u2010-\u2013\u00a0]{6})"
)

_GROUPED = re.compile(
    r"(?P<plus>(?:\+[ ]?\d{1,3}|\+\(\d{1,3}\)|00(?=[1-9])[ ]?\d{1,3})[ .\-/]{0,2})?"
    r"(?:1[ .\-]?(?=\())?(?P<area>(?:\(\+?\d{1,5}\)[ .\-/]{0,2}){1,2})?"
    r"\d{1,12}(?:(?:/ |[ .\-/\u2010-\u2013\u00a0])\d{1,8}){0,6}"
    r"(?P<extension>,?[ ]?(?:x|ext\.?|extension)[ ]?\d{1,6})?"
    r"(?![\w@%€$£])(?!\.\w)(?![-/:]\d)"
)

_PHONE_WORDS = words(
    r"(?:tele)?phones?(?: (?:number|no))?",
    r"telefon\w{0,2}|tel|teléfono|téléphone|puhelin|móvil|portable|handy|celular|celulare",
    r"cell(?:ular)?|mobile|mob|fax|landline|hotline|pager|whatsapp|signal|viber|sms|voicemail",
    r"contact number|phoned|switchboard|call back|helpline",
)

_PHONE_HINTS = words(
    r"call(?:s|ed|ing)?|ring|dial(?:ed|led|ing)?|text(?:ed|ing)?|reach(?:ed)?|answer(?:s|ing|ed)?",
    r"contact(?:ed|ing)?|messages? (?:to|on|at|from)|desk|office|extension",
    r"registered(?: number| mobile)?|my (?:new )?number",
)

_LEADS_TO_DIGITS = re.compile(
    r"(?i)(?:\b(?:at|on|to|via|is|from|number|us|me|him|her|them)|[:=#(]) ?\Z"
)

_NOT_PHONE = words(
    r"ssn|iban|card|credit|debit|cc|account|acct|order|invoice|ticket|isbn|issn|doi|tracking"
    r"|serial",
    r"version|licen[cs]e|passport|zip(?: code)?|post(?:al)? code|id|ids|uuid|hash|sku|upc|ean",
    r"line|lines|row|rows|port|pid|bytes?|size|total|amount|price|reference|ref",
)

_DATE = re.compile(
    r"(?:19|20)\d\d[-./ ](?:0?[1-9]|1[0-2])[-./ ](?:[0-2]?\d|3[01])\b.{0,9}"
    r"|(?:[0-2]?\d|3[01])[-./ ](?:[0-2]?\d|3[01])[-./ ](?:19|20)\d\d\b.{0,9}"
    r"|(?:19|20)\d\d ?[-\u2013/] ?(?:19|20)\d\d"
)

_COMPACT_DATE = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])")

_VERSION = re.compile(r"\d{1,3}(?:\.\d{1,3}){1,3}")

_NORTH_AMERICA = re.compile(r"(?:1[ .-])?[2-9]\d\d[-./ ][2-9]\d\d[-. ]\d{4}")

_NATIONAL = re.compile(r"0\d{1,5}(?:[ .\-/\u00a0]\d{2,8}){1,5}")

_PAIRS = re.compile(r"0\d(?:[ .-]\d\d){4}|\d\d(?:[-]\d\d){3}")

_ENDS = re.compile(r"[-\s]{0,2}(?:\\?,)?\s?(?:office|fax|mobile|cell|home|work|tel|phone)\b", re.I)


def look_for_phones(text: str) -> Iterator[Span]:
    """Numbers in an international or national spelling; bare digits only next to a word for it."""
    last = 0
    for site in _SITE.finditer(text):
        if site.start() < last:
            continue
        match = _GROUPED.match(text, site.start())
        if match is None or len(match.group()) < 7:
            continue
        last = match.end()
        if _is_phone(match, text):
            yield Span(*match.span())


def _is_phone(match: re.Match[str], text: str) -> bool:
    spelled = match.group()
    body = spelled[: match.start("extension") - match.start()] if match["extension"] else spelled
    count = sum(each.isdigit() for each in body)
    if not 7 <= count <= 15 or _DATE.fullmatch(body) or _VERSION.fullmatch(body):
        return False
    start, end = match.span()
    if match["plus"] and match["plus"].startswith("+"):
        return count >= 8
    named = (
        is_near(_PHONE_WORDS, text, start, end)
        or _ENDS.match(text, end) is not None
        or _is_hinted(body, text, start, end)
    )
    if is_near(_NOT_PHONE, text, start, end, before=24) and not named:
        return False
    if (match["plus"] or match["extension"]) and count >= 9:
        return True
    grouped = not body.isdigit()
    if match["area"]:
        return grouped and count >= 8
    if grouped and count <= 12 and _strong(body, count):
        return True
    if not named:
        return False
    return _plausible(body, count)


def _is_hinted(body: str, text: str, start: int, end: int) -> bool:
    """Whether a word that only hints at telephones is near; bare digits must follow it closely."""
    if not is_near(_PHONE_HINTS, text, start, end):
        return False
    if not body.isdigit():
        return True
    if _COMPACT_DATE.fullmatch(body):
        return False
    return len(body) > 8 or _LEADS_TO_DIGITS.search(text, max(0, start - 8), start) is not None


def _strong(body: str, count: int) -> bool:
    """Whether the spelling alone says that this is a telephone number."""
    if _NORTH_AMERICA.fullmatch(body):
        return True
    if _PAIRS.fullmatch(body) and count in (8, 10):
        return True
    return 9 <= count <= 11 and _NATIONAL.fullmatch(body) is not None


def _plausible(body: str, count: int) -> bool:
    """Whether the groups are as people write them, next to a word that says what they are."""
    groups = re.split(r"\D+", body)
    if len(groups) == 1:
        return 7 <= count <= 12
    short = sum(len(each) < 2 for each in groups[1:])
    return short < 2 and max(map(len, groups)) <= 8


_SCHEMES = table(
    """
http https ftp ftps ws wss sftp ssh git mongodb mongodb+srv postgres postgresql mysql redis amqp
amqps
"""
)

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+]{1,12}\Z")

_REST = re.compile(r"[^\s<>\"'`|\\^{}\[\]]{2,2000}")

_TOP = re.compile(
    r"\.(?:com|org|net|edu|gov|info|biz|co|app|dev|eu|uk|de|fr|es|it|nl|be|ch|at|se|dk|fi|pt|cz"
    r"|hu|ie|jp|cn|br|ca|au|nz|us|ru|ua|gr|no|COM|ORG"
    r"|(?P<rare>[a-z]{2}|xyz|tech|online|site|shop|store|cloud|blog|club|live|news))"
    r"(?![\w@(=-])(?!\.[\w])(?:/[^\s<>\"'`|\\^{}\[\]]{0,2000})?"
)

_LABELS = re.compile(
    r"(?<![\w@./\\$:-])[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?){0,3}\Z"
)

_FILE_LIKE = re.compile(
    r"[\d.]+\.(?!com|net|org)\w"
    r"|(?:self|this|os|np|pd|cls|request|response|result|data|obj|e|conf|config|settings|env)\.",
    re.I,
)

_SITE_WORDS = words(
    r"(?:web ?)?sites?|home ?page|url|domain|visit|browse|host ?name|see|check out|go to"
)

_TRAILING = ".,;:!?)*'"


def look_for_urls(text: str) -> Iterator[Span]:
    """Addresses with a scheme or `www.`, and bare host names of common top-level domains.

    A host of a rarer domain looks like a name of code or a file: it needs a word for a site.
    """
    for at in places(text, "://"):
        scheme = _SCHEME.search(text[max(0, at - 14) : at])
        rest = _REST.match(text, at + 3)
        if scheme is not None and rest is not None and scheme.group().lower() in _SCHEMES:
            yield Span(at - len(scheme.group()), at + 3 + len(rest.group().rstrip(_TRAILING)))
    for at in places(text, "www."):
        rest = _REST.match(text, at)
        if rest is not None and "." in rest.group()[5:] and not text[at - 1 : at].isalnum():
            yield Span(at, at + len(rest.group().rstrip(_TRAILING)))
    for match in _TOP.finditer(text):
        begin = max(0, match.start() - 100)
        labels = _LABELS.search(text[begin : match.start()])
        if labels is None or _FILE_LIKE.match(text, begin + labels.start()) is not None:
            continue
        start = begin + labels.start()
        if match["rare"] is None or is_near(_SITE_WORDS, text, start, match.end(), before=16):
            yield Span(start, match.start() + len(match.group().rstrip(_TRAILING)))


_V4 = re.compile(
    r"[0-9](?<![0-9.][0-9])(?<!\d-[0-9])[0-9]{0,2}(?:\.[0-9]{1,3}){3}(?:/[0-9]{1,2})?(?![0-9])(?!\.[0-9])"
)

_V6 = re.compile(
    r":(?<!:::)[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){1,7}(?:\.[0-9]{1,3}){0,3}(?:%\w{1,15})?(?:/[0-9]{1,3})?(?![\w:])"
)

_V6_BEGIN = re.compile(r"(?<![\w:.])[0-9A-Fa-f]{0,4}\Z")

_MAC = re.compile(
    r"([:-])[0-9A-Fa-f]{2}(?:\1[0-9A-Fa-f]{2}){4}(?![\w:-])"
    r"|\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}(?![\w.])"
)

_HEX = re.compile(r"(?<![\w:.-])(?:[0-9A-Fa-f]{2}|[0-9A-Fa-f]{4})\Z")

_BEFORE_VERSION = re.compile(
    r"(?i)(?<!\w)(?:versions?|v|release|section|chapter|schema|build|firmware|driver)[ :=]{0,2}\Z"
)


def look_for_ips(text: str) -> Iterator[Span]:
    """Addresses of version 4 with four bytes, and of version 6 that can be read as one."""
    if text.count(".") >= 3:
        for match in _V4.finditer(text):
            if max(map(int, match.group().partition("/")[0].split("."))) > 255:
                continue
            if _BEFORE_VERSION.search(text[max(0, match.start() - 12) : match.start()]) is None:
                yield Span(*match.span())
    if text.count(":") >= 2:
        for match in _V6.finditer(text):
            begin = _V6_BEGIN.search(text[max(0, match.start() - 5) : match.start()])
            if begin is None:
                continue
            start = match.start() - len(begin.group())
            if _is_version_6(text[start : match.end()].partition("/")[0].partition("%")[0]):
                yield Span(start, match.end())


def _is_version_6(spelled: str) -> bool:
    if len(spelled) < 4 or spelled.count(":") < 2:
        return False
    try:
        address = IPv6Address(spelled)
    except AddressValueError:
        return False
    # `12::30` reads as an address but is a time or a slice; real ones say more.
    return len(spelled) >= 6 and address.packed != bytes(16)


def look_for_macs(text: str) -> Iterator[Span]:
    """Hardware addresses of six bytes."""
    for match in _MAC.finditer(text):
        begin = _HEX.search(text[max(0, match.start() - 5) : match.start()])
        if begin is not None and len(begin.group()) == (4 if match.group()[0] == "." else 2):
            yield Span(match.start() - len(begin.group()), match.end())
