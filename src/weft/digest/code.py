"""Source code: signatures, imports and the first line of what documents them stay."""

import re

from weft.digest.lines import Line, bookends
from weft.digest.trouble import GRAVE

_SIGNATURE = re.compile(
    r"\s*(?:export |default |public |private |protected |static |final |abstract |pub )*"
    r"(?:async )?(?:def|class|function|func|fn|interface|struct|enum|trait|impl|type|module)\b"
    r"|\s*@\w[\w.]*"
)
_IMPORT = re.compile(r"\s*(?:from \S+ import|import |#include|use \w|require\(|const .*require\()")
_QUOTES = ('"""', "'''", 'r"""', "/**", "///")
_NUMBER = re.compile(r"\s*\d+(?:[:|\t]| {2})")


def is_numbered(text: str) -> bool:
    """Whether most lines have numbers of their own."""
    lines = text.splitlines()[:100]
    return sum(_NUMBER.match(line) is not None for line in lines) * 10 > len(lines) * 6


def code_lines(text: str) -> list[Line]:
    """The lines with their weights; numbers in front of them are not looked at."""
    lines = text.splitlines()
    weights = bookends(lines)
    out: list[Line] = []
    signed = False
    for line, end in zip(lines, weights, strict=True):
        bare = _NUMBER.sub("", line[:400], count=1)
        documented = signed and bare.strip().startswith(_QUOTES)
        weight = end
        signed = _SIGNATURE.match(bare) is not None
        if signed:
            weight = max(weight, 6.0)
        elif documented:
            weight = max(weight, 2.5)
        elif _IMPORT.match(bare):
            weight = max(weight, 1.0)
        elif GRAVE.search(bare) is not None:
            weight = max(weight, 3.0)
        elif bare.strip() in ("", "}", ")", "]", "});", "};"):
            weight = min(weight, 0.1)
        out.append(Line(line, weight))
    return out
