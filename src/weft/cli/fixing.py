"""Mend what is only misspelt: where one name is near, and the text stands in the files once."""

import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from weft.cli.findings import shown
from weft.cli.placing import Sources
from weft.diagnostics import Diagnostic

_MEANT = re.compile(r'^did you mean [`"]([^`"]+)[`"]\?$')
_VARIABLE = re.compile(r"`\{([^}?.\[]+)")
_KEY = re.compile(r"(?:decides by|shows|goes over|names the agent) `([^`.\[]+)")
_LABEL = re.compile(r'^(?:eq|ne)\("(.+)"\)$')


class Change(NamedTuple):
    """A text that is replaced, and the finding that says so."""

    file: Path
    old: str
    new: str
    finding: Diagnostic


def changes_for(found: Iterable[Diagnostic], sources: Sources) -> list[Change]:
    """The findings that can be mended, each with its place; what is not sure is left alone."""
    changes: list[Change] = []
    for one in found:
        pair = _pair(one)
        if pair is None:
            continue
        old, new = pair
        places = [file for file, text in sources.texts.items() for _ in range(text.count(old))]
        if len(places) == 1 and all(change.old != old for change in changes):
            changes.append(Change(places[0], old, new, one))
    return changes


def applied(changes: Iterable[Change], sources: Sources) -> dict[Path, str]:
    """The files that change, with their new text."""
    texts: dict[Path, str] = {}
    for change in changes:
        text = texts.get(change.file, sources.texts[change.file])
        texts[change.file] = text.replace(change.old, change.new)
    return texts


def difference(file: Path, before: str, after: str) -> str:
    """What changes in a file, as a unified diff."""
    name = shown(file)
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), name, name, n=1
    )
    return "".join(lines)


def _pair(found: Diagnostic) -> tuple[str, str] | None:
    """What stands in the file, and what was meant."""
    meant = _MEANT.match(found.hint)
    if meant is None:
        return None
    variable = _VARIABLE.search(found.message)
    if found.code == "WEFT105" and variable is not None:
        return f"{{{variable[1]}", f"{{{meant[1]}"
    key = _KEY.search(found.message)
    if key is not None:
        return f'"{key[1]}"', f'"{meant[1]}"'
    label = _LABEL.match(found.origin.name)
    if found.code == "WEFT403" and label is not None:
        return f'"{label[1]}"', f'"{meant[1]}"'
    return None
