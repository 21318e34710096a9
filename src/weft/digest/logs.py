"""A log: its ends and its trouble stay, and what repeats is said once, with how often."""

import re

from weft.digest.lines import Line, bookends
from weft.digest.trouble import GRAVE_WEIGHT, trouble_in

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_VARYING = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-fA-F]{8,}\b|\d+")
_FIRST = 3
"""How many of the first and of the last grave lines matter as much as the ends do."""
_WORST = 90.0
_CONTEXT = 2
"""How many lines around trouble gain by it."""


def log_lines(text: str) -> list[Line]:
    """The lines with their weights, runs of lines that differ only in numbers as one."""
    lines = _without_repeats(_COLOUR.sub("", text).splitlines())
    weights = bookends(lines)
    trouble = [trouble_in(line) for line in lines]
    grave = [index for index, found in enumerate(trouble) if found >= GRAVE_WEIGHT]
    for index in (*grave[:_FIRST], *grave[-_FIRST:]):
        weights[index] = _WORST
    for index, found in enumerate(trouble):
        if found >= GRAVE_WEIGHT:
            for near in range(max(0, index - _CONTEXT), min(len(lines), index + _CONTEXT + 1)):
                weights[near] = max(weights[near], 4.0 - abs(near - index))
    return [
        Line(line, max(weight, found))
        for line, weight, found in zip(lines, weights, trouble, strict=True)
    ]


def _without_repeats(lines: list[str]) -> list[str]:
    out: list[str] = []
    start = 0
    while start < len(lines):
        kind = _VARYING.sub("0", lines[start][:1_000])
        end = start + 1
        while end < len(lines) and _VARYING.sub("0", lines[end][:1_000]) == kind:
            end += 1
        if end - start > 2 and kind.strip():
            out.append(f"{lines[start]} (x {end - start})")
        else:
            out += lines[start:end]
        start = end
    return out
