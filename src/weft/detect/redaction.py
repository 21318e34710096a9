"""Replace what is found by placeholders that stay the same for a whole session.

A placeholder is made of the session, the kind and the value alone, so the same value is the same
placeholder for every agent, in every window and in every process, and nobody who sees one can
tell the value without the session's id.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from weft.detect.find import PLACEHOLDER, find
from weft.detect.found import Found
from weft.detect.kinds import kinds_named
from weft.detect.patterns import Pattern, PatternTimeout, pattern_of
from weft.values import Json, compact

WITHHELD = "withheld"
"""The kind of a text that could not be looked through, so that all of it is taken out."""

_ROUNDS = 4
_LEAST_NUMBER = 1_000_000
_CACHED_LETTERS = 200_000
_TELLS = re.compile(r"(?i)age|zip|post|plz|pin|acc|pass|licen|rout")
"""Names of fields that make a small number a value of a kind."""


class Wanted(msgspec.Struct, frozen=True):
    """What is looked for: kinds of values, the author's patterns, and names of fields."""

    kinds: tuple[str, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    fields: tuple[tuple[str, ...], ...] = ()


@lru_cache(256)
def wanted(
    kinds: tuple[str, ...], patterns: tuple[str, ...] = (), fields: tuple[str, ...] = ()
) -> Wanted:
    """What names, groups, expressions and paths of fields stand for."""
    return Wanted(
        kinds_named(kinds),
        tuple(pattern_of(each) for each in patterns),
        tuple(tuple(each.split(".")) for each in fields),
    )


class Cut(NamedTuple):
    """A stretch of a text, and the placeholder that stands there instead."""

    start: int
    end: int
    placeholder: str


class Redaction:
    """What was replaced so far, for one session: `known` gives the value of each placeholder."""

    __slots__ = ("kinds", "known", "literals", "session", "timeouts", "wanted")

    def __init__(
        self,
        what: Wanted,
        session: str,
        known: dict[str, Json],
        literals: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.wanted = what
        self.session = session
        self.known = known
        self.literals = literals
        """Values with their placeholders that are replaced wherever they stand."""
        self.kinds: dict[str, set[str]] = {}
        """The placeholders that were made, by kind."""
        self.timeouts: list[str] = []

    def text(self, text: str) -> str:
        """The text with everything replaced."""
        for cuts in self.rounds(text):
            text = replaced(text, cuts)
        return text

    def rounds(self, text: str) -> Iterator[list[Cut]]:
        """What to cut, again and again until nothing is found: one cut can uncover another."""
        for _ in range(_ROUNDS):
            cuts = self.cuts(text)
            if not cuts:
                return
            yield cuts
            text = replaced(text, cuts)
        if self.cuts(text):
            yield [Cut(0, len(text), self.placeholder(WITHHELD, text))]

    def cuts(self, text: str) -> list[Cut]:
        """What to cut out of a text, in order."""
        if not text:
            return []
        spoken = self._spoken(text)
        if spoken:
            return spoken
        try:
            found = _found(text, self.wanted)
        except PatternTimeout as error:
            self.timeouts.append(error.message)
            found = (Found(WITHHELD, 0, len(text), text),)
        return [
            Cut(each.start, each.end, self.placeholder(each.kind, each.value)) for each in found
        ]

    def _spoken(self, text: str) -> list[Cut]:
        """Values that were put back in place of a placeholder, wherever they are said again."""
        cuts: list[Cut] = []
        for value, placeholder in self.literals:
            at = text.find(value) if value else -1
            while at >= 0:
                end = at + len(value)
                apart = all(end <= one.start or at >= one.end for one in cuts)
                if apart and _is_whole(text, at, end):
                    cuts.append(Cut(at, end, placeholder))
                    self.kinds.setdefault("restored", set()).add(placeholder)
                    self.known[placeholder] = value
                at = text.find(value, end)
        return sorted(cuts)

    def placeholder(self, kind: str, value: Json) -> str:
        """What stands for a value of this kind in this session."""
        spelled = value if isinstance(value, str) else compact(value)
        made = _placeholder(self.session, kind, spelled)
        self.known[made] = value
        self.kinds.setdefault(kind, set()).add(made)
        return made

    def value(self, held: Json, path: tuple[str, ...] = ()) -> Json:
        """A JSON value with everything replaced; the very same where nothing is."""
        if path and held is not None and self._is_field(path) and not _is_placeholder(held):
            return self.placeholder(path[-1], held)
        match held:
            case bool() | None:
                return held
            case str():
                return self._leaf(held, path)
            case int():
                return self._number(held, path)
            case float():
                return held
            case dict():
                made = {
                    self.text(name): self.value(each, (*path, name)) for name, each in held.items()
                }
                same = all(
                    one == other and made[one] is held[other]
                    for one, other in zip(made, held, strict=False)
                )
                return held if same and len(made) == len(held) else made
            case list():
                listed = [self.value(each, path) for each in held]
                same = all(one is other for one, other in zip(listed, held, strict=True))
                return held if same else listed

    def _leaf(self, text: str, path: tuple[str, ...]) -> Json:
        if self.wanted.fields and text[:1] in "{[" and len(text) > 2:
            inner = _parsed(text)
            if isinstance(inner, dict | list):
                made = self.value(inner, path)
                if made is not inner:
                    return compact(made)
        if path:
            label = _label(path)
            cuts = [
                cut._replace(start=cut.start - len(label), end=cut.end - len(label))
                for cut in self.cuts(label + text)
                if cut.start >= len(label)
            ]
            if cuts:
                text = replaced(text, cuts)
        after = self.text(text)
        return text if after == text else after

    def _number(self, number: int, path: tuple[str, ...]) -> Json:
        """A number that is a value of a kind by its digits, such as a card's."""
        if -_LEAST_NUMBER < number < _LEAST_NUMBER and not (path and _TELLS.search(path[-1])):
            return number
        spelled = str(number)
        label = _label(path)
        found = [cut for cut in self.cuts(label + spelled) if cut.start >= len(label)]
        if not found:
            return number
        made = found[0].placeholder
        if found[0].end - found[0].start == len(spelled):
            self.known[made] = number
            return made
        return self.placeholder("number", number)

    def _is_field(self, path: tuple[str, ...]) -> bool:
        return any(path[-len(field) :] == field for field in self.wanted.fields)


def _label(path: tuple[str, ...]) -> str:
    """What the name of a field says of its value; a bare `name` is that of whatever holds it."""
    if not path:
        return ""
    if path[-1].lower() != "name":
        return f"{path[-1]}: "
    return f"{path[-2] if len(path) > 1 else 'thing'}_name: "


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether a value is not merely a part of a longer word."""
    before = text[start - 1 : start].isalnum() and text[start].isalnum()
    return not before and not (text[end : end + 1].isalnum() and text[end - 1].isalnum())


def _is_placeholder(held: Json) -> bool:
    return isinstance(held, str) and PLACEHOLDER.fullmatch(held) is not None


def _parsed(text: str) -> Json:
    try:
        return json.loads(text)  # type: ignore[no-any-return]
    except (ValueError, RecursionError):
        return None


def _placeholder(session: str, kind: str, value: str) -> str:
    name = "".join(each if each.isascii() and each.isalnum() else "_" for each in kind.upper())
    data = f"{kind}\0{value}".encode("utf-8", "surrogatepass")
    key = hashlib.blake2b(session.encode("utf-8", "surrogatepass"), digest_size=32).digest()
    made = hashlib.blake2b(data, key=key, digest_size=5).hexdigest()
    name = name.strip("_")[:40] or "VALUE"
    return f"<{name if len(name) > 1 and name[0].isalpha() else f'V_{name}'}_{made}>"


def replaced(text: str, cuts: Sequence[Cut]) -> str:
    """The text with its cuts made."""
    parts: list[str] = []
    at = 0
    for cut in cuts:
        parts += (text[at : cut.start], cut.placeholder)
        at = cut.end
    return "".join((*parts, text[at:]))


def moved(ends: Sequence[int], cuts: Sequence[Cut]) -> list[int]:
    """Where places of a text are once its cuts are made; one inside a cut goes to its end."""
    made: list[int] = []
    for end in ends:
        shift = 0
        for cut in cuts:
            if cut.start >= end:
                break
            shift += len(cut.placeholder) - (min(cut.end, end) - cut.start)
        made.append(end + shift)
    return made


def found_in(text: str, what: Wanted) -> tuple[Found, ...]:
    """What of the wanted stands in a text; a text seen before is not looked through again."""
    return _found(text, what)


def _found(text: str, what: Wanted) -> tuple[Found, ...]:
    if len(text) > _CACHED_LETTERS:
        return tuple(find(text, what.kinds, what.patterns))
    return _found_before(text, what)


@lru_cache(8192)
def _found_before(text: str, what: Wanted) -> tuple[Found, ...]:
    return tuple(find(text, what.kinds, what.patterns))


def restored(text: str, known: Mapping[str, Json]) -> tuple[str, dict[str, Json]]:
    """The text with the values of its placeholders put back, and which these were."""
    used: dict[str, Json] = {}
    if "<" not in text:
        return text, used
    parts: list[str] = []
    at = 0
    for match in PLACEHOLDER.finditer(text):
        made = match.group()
        if made not in known:
            continue
        held = known[made]
        used[made] = held
        parts += (text[at : match.start()], held if isinstance(held, str) else compact(held))
        at = match.end()
    return "".join((*parts, text[at:])), used
