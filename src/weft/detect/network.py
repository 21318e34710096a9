"""Addresses of machines."""

import re
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv6Address

from weft.detect.found import Span

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
_VERSION = re.compile(
    r"(?i)(?<!\w)(?:versions?|v|release|section|chapter|schema|build|firmware|driver)[ :=]{0,2}\Z"
)


def look_for_ips(text: str) -> Iterator[Span]:
    """Addresses of version 4 with four bytes, and of version 6 that can be read as one."""
    if text.count(".") >= 3:
        for match in _V4.finditer(text):
            if max(map(int, match.group().partition("/")[0].split("."))) > 255:
                continue
            if _VERSION.search(text[max(0, match.start() - 12) : match.start()]) is None:
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
