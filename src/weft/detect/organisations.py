"""What tells a firm or a place from a person of the same name."""

import re

from weft.detect._name_words import ORGANISATION
from weft.detect.tables import table

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
