"""Replace detected values by placeholders that stay the same for a whole session.

A placeholder depends on the session, the kind and the value alone. So the same value has the same
placeholder for every agent, in every window and in every process, and nobody can compute the
value from it without the session's id.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from weft.detect.find import (
    PLACEHOLDER,
    Pattern,
    PatternTimeout,
    find,
    pattern_of,
    replace_found,
)
from weft.detect.kinds import Detection, kinds_named
from weft.late import late_pattern
from weft.values import Json, compact

WITHHELD = "withheld"
"""The kind of a text that could not be searched, so that all of it is taken out."""

_ROUNDS = 4
_LEAST_NUMBER = 1_000_000
_CACHED_LETTERS = 200_000
_TELLS = late_pattern(r"(?i)age|zip|post|plz|pin|acc|pass|licen|rout")
"""Names of fields that make a small number a value of a kind."""


class RedactionTargets(msgspec.Struct, frozen=True):
    """The values to replace: kinds, the author's patterns, and names of fields."""

    kinds: tuple[str, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    fields: tuple[tuple[str, ...], ...] = ()


@lru_cache(256)
def resolve_targets(
    kinds: tuple[str, ...], patterns: tuple[str, ...] = (), fields: tuple[str, ...] = ()
) -> RedactionTargets:
    """Resolve names, groups, regular expressions and field paths to values to replace."""
    return RedactionTargets(
        kinds_named(kinds),
        tuple(pattern_of(each) for each in patterns),
        tuple(tuple(each.split(".")) for each in fields),
    )


class TextCut(NamedTuple):
    """A stretch of a text, and the placeholder that stands there instead."""

    start: int
    end: int
    placeholder: str


class Redaction:
    """The values replaced so far in one session: `known` gives the value of each placeholder."""

    __slots__ = ("kinds", "known", "literals", "session", "timeouts", "wanted")

    def __init__(
        self,
        what: RedactionTargets,
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
            text = replace_cuts(text, cuts)
        return text

    def rounds(self, text: str) -> Iterator[list[TextCut]]:
        """The cuts of each round, until nothing is found: one cut can uncover another value."""
        for _ in range(_ROUNDS):
            cuts = self.cuts(text)
            if not cuts:
                return
            yield cuts
            text = replace_cuts(text, cuts)
        # a text that is not clean after that many rounds is withheld as a whole
        if self.cuts(text):
            yield [TextCut(0, len(text), self.placeholder(WITHHELD, text))]

    def cuts(self, text: str) -> list[TextCut]:
        """The cuts of one round, in order."""
        if not text:
            return []
        repeated = self._find_repeated(text)
        # these first; the next round looks for everything else
        if repeated:
            return repeated
        try:
            detections = found_in(text, self.wanted)
        except PatternTimeout as error:
            # nobody knows what the pattern would have found: the whole text is withheld
            self.timeouts.append(error.message)
            detections = (Detection(WITHHELD, 0, len(text), text),)
        return [
            TextCut(each.start, each.end, self.placeholder(each.kind, each.value))
            for each in detections
        ]

    def _find_repeated(self, text: str) -> list[TextCut]:
        """Values that once replaced a placeholder, wherever the text repeats them."""
        cuts: list[TextCut] = []
        for value, placeholder in self.literals:
            at = text.find(value) if value else -1
            while at >= 0:
                end = at + len(value)
                apart = all(end <= one.start or at >= one.end for one in cuts)
                if apart and _is_whole(text, at, end):
                    cuts.append(TextCut(at, end, placeholder))
                    self.kinds.setdefault("restored", set()).add(placeholder)
                    self.known[placeholder] = value
                at = text.find(value, end)
        return sorted(cuts)

    def placeholder(self, kind: str, value: Json) -> str:
        """The placeholder of a value of this kind in this session."""
        spelled = value if isinstance(value, str) else compact(value)
        placeholder = _placeholder(self.session, kind, spelled)
        self.known[placeholder] = value
        self.kinds.setdefault(kind, set()).add(placeholder)
        return placeholder

    def value(self, value: Json, path: tuple[str, ...] = ()) -> Json:
        """A JSON value with everything replaced; the very same object where nothing is."""
        if self.is_replaced(value, path):
            return self.placeholder(path[-1], value)
        match value:
            case bool() | None:
                return value
            case str():
                return self._leaf(value, path)
            case int():
                return self._number(value, path)
            case float():
                return value
            case dict():
                fields = {
                    self.text(name): self.value(each, (*path, name)) for name, each in value.items()
                }
                same = all(
                    one == other and fields[one] is value[other]
                    for one, other in zip(fields, value, strict=False)
                )
                # two names can become one placeholder
                return value if same and len(fields) == len(value) else fields
            case list():
                listed = [self.value(each, path) for each in value]
                same = all(one is other for one, other in zip(listed, value, strict=True))
                return value if same else listed

    def is_replaced(self, value: Json, path: tuple[str, ...]) -> bool:
        """Whether a value is replaced whatever it is: its field is named."""
        if not path or value is None:
            return False
        return self._is_field(path) and not _is_placeholder(value)

    def leaf_rounds(self, text: str, path: tuple[str, ...]) -> Iterator[list[TextCut]]:
        """The cuts of each round in a text that is the value of a field."""
        # a text can be JSON itself: its fields count too
        if self.wanted.fields and text[:1] in "{[" and len(text) > 2:
            inner = _parse_json(text)
            if isinstance(inner, dict | list):
                changed = self.value(inner, path)
                if changed is not inner:
                    yield [TextCut(0, len(text), compact(changed))]
                    return
        # the name of the field is read as a label in front of the value
        if path:
            label = _label(path)
            cuts = [
                cut._replace(start=cut.start - len(label), end=cut.end - len(label))
                for cut in self.cuts(label + text)
                if cut.start >= len(label)
            ]
            if cuts:
                yield cuts
                text = replace_cuts(text, cuts)
        yield from self.rounds(text)

    def _leaf(self, text: str, path: tuple[str, ...]) -> Json:
        after = text
        for cuts in self.leaf_rounds(text, path):
            after = replace_cuts(after, cuts)
        return text if after == text else after

    def _number(self, number: int, path: tuple[str, ...]) -> Json:
        """A number that is a value of a kind by its digits, such as a card's."""
        # small numbers are counts, unless their field tells otherwise
        if -_LEAST_NUMBER < number < _LEAST_NUMBER and not (path and _TELLS.search(path[-1])):
            return number
        spelled = str(number)
        label = _label(path)
        cuts = [cut for cut in self.cuts(label + spelled) if cut.start >= len(label)]
        if not cuts:
            return number
        # the whole number is the value: restoring it must give a number, not a text
        if cuts[0].end - cuts[0].start == len(spelled):
            self.known[cuts[0].placeholder] = number
            return cuts[0].placeholder
        return self.placeholder("number", number)

    def _is_field(self, path: tuple[str, ...]) -> bool:
        return any(path[-len(field) :] == field for field in self.wanted.fields)


def _label(path: tuple[str, ...]) -> str:
    """The label that the name of a field is; a bare `name` names the object that holds it."""
    if not path:
        return ""
    if path[-1].lower() != "name":
        return f"{path[-1]}: "
    return f"{path[-2] if len(path) > 1 else 'thing'}_name: "


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether a value is not merely a part of a longer word."""
    before = text[start - 1 : start].isalnum() and text[start].isalnum()
    return not before and not (text[end : end + 1].isalnum() and text[end - 1].isalnum())


def _is_placeholder(value: Json) -> bool:
    return isinstance(value, str) and PLACEHOLDER.fullmatch(value) is not None


def _parse_json(text: str) -> Json:
    try:
        return json.loads(text)  # type: ignore[no-any-return]
    except (ValueError, RecursionError):
        return None


def _placeholder(session: str, kind: str, value: str) -> str:
    name = "".join(each if each.isascii() and each.isalnum() else "_" for each in kind.upper())
    # the NUL keeps two pairs apart that read alike when joined
    data = f"{kind}\0{value}".encode("utf-8", "surrogatepass")
    key = hashlib.blake2b(session.encode("utf-8", "surrogatepass"), digest_size=32).digest()
    digest = hashlib.blake2b(data, key=key, digest_size=5).hexdigest()
    name = name.strip("_")[:40] or "VALUE"
    return f"<{name if len(name) > 1 and name[0].isalpha() else f'V_{name}'}_{digest}>"


def replace_cuts(text: str, cuts: Sequence[TextCut]) -> str:
    """Put placeholders in place of the cuts of a text."""
    parts: list[str] = []
    at = 0
    for cut in cuts:
        parts += (text[at : cut.start], cut.placeholder)
        at = cut.end
    return "".join((*parts, text[at:]))


def move_positions(ends: Sequence[int], cuts: Sequence[TextCut]) -> list[int]:
    """Map positions of a text, in order, to positions after its cuts.

    One inside a cut moves to its end.
    """
    places: list[int] = []
    shift = done = 0
    for end in ends:
        while done < len(cuts) and cuts[done].end <= end:
            cut = cuts[done]
            shift += len(cut.placeholder) - (cut.end - cut.start)
            done += 1
        place = end + shift
        if done < len(cuts) and cuts[done].start < end:
            place += len(cuts[done].placeholder) - (end - cuts[done].start)
        places.append(place)
    return places


def found_in(text: str, what: RedactionTargets) -> tuple[Detection, ...]:
    """The wanted values in a text. The values of a text seen before are remembered."""
    # a long text is not worth the memory
    if len(text) > _CACHED_LETTERS:
        return tuple(find(text, what.kinds, what.patterns))
    return _found_before(text, what)


@lru_cache(8192)
def _found_before(text: str, what: RedactionTargets) -> tuple[Detection, ...]:
    return tuple(find(text, what.kinds, what.patterns))


def restore_values(text: str, known: Mapping[str, Json]) -> tuple[str, dict[str, Json]]:
    """Put the values of its placeholders back into a text; return them with the placeholders."""
    used: dict[str, Json] = {}
    if "<" not in text:
        return text, used
    parts: list[str] = []
    at = 0
    for match in PLACEHOLDER.finditer(text):
        placeholder = match.group()
        if placeholder not in known:
            continue
        value = known[placeholder]
        used[placeholder] = value
        parts += (text[at : match.start()], value if isinstance(value, str) else compact(value))
        at = match.end()
    return "".join((*parts, text[at:])), used


def mask_secrets(text: str) -> str:
    """The text without keys, tokens and passwords that have a known form."""
    return replace_found(text, kinds_named(["secrets"]), lambda _: "[secret]")
