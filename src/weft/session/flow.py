"""Labels that follow: whose text had influence on a block, an event, a key or an artifact.

A label is three sets of names. `taint` names the sources whose text had influence: who wrote that
text may have written an order into it. `typed` names sources of which only values had influence
that cannot carry an order: numbers, dates, members of an enumeration. `secrets` are the labels of
`C.label`. Labels are joined by union, and nothing but content that leaves takes a label away.

A label is worked out when its event is stored, and stands there under `customMetadata.weft.flow`.
An event without one is the author's or the user's, except for results: nobody vouches for those.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import msgspec

from weft.content import KEY, FunctionResponse
from weft.late import late_pattern
from weft.values import Json, JsonObject

if TYPE_CHECKING:
    from weft.session.event import Event

Trust = Literal["untrusted", "typed", "trusted"]
"""What may be in a result: anybody's text, values that cannot instruct, or the author's word."""

Declared: TypeAlias = Trust | Mapping[str, Trust]
"""The trust of a tool's results, or by field; one that is not named is anybody's text."""

USER_WORDS = "said:user"
"""What a function is noted to have read that looked at the words of the user."""

FLOW = "flow"
"""Where the label stands among the notes of an event."""


class TrustLabel(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Whose text had influence, whose values, and which secrets; all empty: trusted and public."""

    taint: tuple[str, ...] = ()
    typed: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()

    def __or__(self, other: "TrustLabel") -> "TrustLabel":
        """The label of what was made from both."""
        if other is TRUSTED or self is other:
            return self
        return other if self is TRUSTED else _join(self, other)

    @property
    def is_trusted(self) -> bool:
        """Whether nobody's text or values from outside had influence."""
        return not self.taint and not self.typed

    def without_taint(self) -> "TrustLabel":
        """The same where somebody vouches for the text."""
        return TrustLabel(secrets=self.secrets) if self.secrets else TRUSTED

    def as_typed(self) -> "TrustLabel":
        """The same where only a value is left of it that cannot instruct."""
        return TrustLabel((), _unite(self.typed, self.taint), self.secrets)

    def __str__(self) -> str:
        parts = [f"untrusted {', '.join(self.taint)}"] if self.taint else []
        parts += [f"typed {', '.join(self.typed)}"] if self.typed else []
        return "; ".join([*parts, *(f"secret {name}" for name in self.secrets)]) or "trusted"


TRUSTED = TrustLabel()
"""The label of the author's texts and of the user's."""


def join_labels(labels: Iterable[TrustLabel]) -> TrustLabel:
    """The label of what was made from all of these."""
    return reduce(TrustLabel.__or__, labels, TRUSTED)


@lru_cache(4096)
def _join(one: TrustLabel, other: TrustLabel) -> TrustLabel:
    if one == other:
        return one
    taint, typed = _unite(one.taint, other.taint), _unite(one.typed, other.typed)
    return _make_label(taint, typed, _unite(one.secrets, other.secrets))


@lru_cache(4096)
def _make_label(
    taint: tuple[str, ...], typed: tuple[str, ...], secrets: tuple[str, ...]
) -> TrustLabel:
    """One object for equal labels: a join finds out by its identity that there is nothing to do."""
    return TrustLabel(taint, typed, secrets)


def _unite(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({*one, *other})) if other else one


class FieldTrust(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The fields of a tool's results that hold text of anybody's, and those that hold values."""

    taint: tuple[str, ...] = ()
    typed: tuple[str, ...] = ()


class FlowNote(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True
):
    """The label of an event as it is stored; of results also by tool and field.

    `keys` are labels of state keys and artifacts (`artifact:NAME`) that differ from the event's.
    `own_words` are a model's, by the number of the part, where handles were opened for the user.
    """

    taint: tuple[str, ...] = ()
    typed: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    results: dict[str, FieldTrust] | None = None
    keys: dict[str, TrustLabel] | None = None
    own_words: dict[str, str] | None = None

    @property
    def base(self) -> TrustLabel:
        """The label of the event apart from its results' own fields."""
        if not (self.taint or self.typed or self.secrets):
            return TRUSTED
        return _make_label(self.taint, self.typed, self.secrets)

    @property
    def label(self) -> TrustLabel:
        """The label of all that the event says."""
        return join_labels((self.base, *map(self._of_fields, self.results or ())))

    def of_result(self, tool: str) -> TrustLabel:
        """The label of a tool's result in the event."""
        base, own = self.base, self._of_fields(tool)
        return own if base is TRUSTED else base | own

    def of_key(self, key: str) -> TrustLabel:
        """The label of a key that the event wrote."""
        return self.keys[key] if self.keys and key in self.keys else self.label

    def _of_fields(self, tool: str) -> TrustLabel:
        fields = (self.results or {}).get(tool)
        return _name_fields(tool, fields) if fields is not None else TRUSTED

    def onto(self, metadata: JsonObject | None) -> JsonObject | None:
        """The metadata with this note; what stands there stays."""
        if self is NO_FLOW or self == NO_FLOW:
            return metadata
        if metadata is None:
            return (
                _spell_metadata(self)
                if self.results is None and self.keys is None and self.own_words is None
                else {KEY: {FLOW: _spell(self)}}
            )
        stored = metadata.get(KEY)
        notes = stored if isinstance(stored, dict) else {}
        return {**metadata, KEY: {**notes, FLOW: _spell(self)}}


NO_FLOW = FlowNote()


@lru_cache(4096)
def _name_fields(tool: str, fields: FieldTrust) -> TrustLabel:
    taint = tuple(f"{tool}.{name}" for name in fields.taint)
    typed = tuple(f"{tool}.{name}" for name in fields.typed)
    return _make_label(taint, typed, ()) if taint or typed else TRUSTED


def _spell(note: FlowNote) -> JsonObject:
    """The note as it is read back from a store."""
    return cast("JsonObject", msgspec.json.decode(msgspec.json.encode(note)))


class FlowMetadata(dict[str, Json]):
    """The metadata of an event with nothing but a label, made here; nobody changes it.

    Every step asks each new event for its label, and whether it has other notes: the type answers.
    """

    __slots__ = ("base", "note")

    def __init__(self, note: FlowNote) -> None:
        super().__init__({KEY: {FLOW: _spell(note)}})
        self.note, self.base = note, note.base

    def __reduce__(self) -> "tuple[type[FlowMetadata], tuple[FlowNote]]":
        return FlowMetadata, (self.note,)


@lru_cache(4096)
def _spell_metadata(note: FlowNote) -> JsonObject:
    return FlowMetadata(note)


@lru_cache(4096)
def spell_result(label: TrustLabel, tool: str, fields: FieldTrust) -> JsonObject:
    """The metadata of an event with one result; nobody changes it."""
    return FlowMetadata(FlowNote(label.taint, label.typed, label.secrets, {tool: fields}))


@lru_cache(4096)
def note_of(label: TrustLabel) -> FlowNote:
    """A label as an event keeps it."""
    return NO_FLOW if label is TRUSTED else FlowNote(label.taint, label.typed, label.secrets)


def has_only_flow(metadata: JsonObject) -> bool:
    """Whether metadata says nothing but a label, as that of most events that have some."""
    if type(metadata) is FlowMetadata:
        return True
    if len(metadata) != 1 or KEY not in metadata:
        return False
    notes = metadata[KEY]
    return type(notes) is dict and len(notes) == 1 and FLOW in notes


def flow_in(metadata: JsonObject | None) -> FlowNote | None:
    """The label in an event's metadata; None where there is none.

    One that cannot be read was not written here: nobody vouches for the event.
    """
    if type(metadata) is FlowMetadata:
        return metadata.note
    notes = metadata.get(KEY) if metadata is not None else None
    stored = notes.get(FLOW) if isinstance(notes, dict) else None
    if stored is None:
        return None
    known = _READ.get(id(stored))
    if known is not None and known[0] is stored:
        return known[1]
    try:
        note = msgspec.convert(stored, FlowNote)
    except msgspec.ValidationError:
        note = FlowNote(taint=("unreadable",))
    if len(_READ) >= _MOST_READ:
        _READ.clear()
    _READ[id(stored)] = (stored, note)
    return note


_MOST_READ = 1024

_READ: dict[int, tuple[object, FlowNote]] = {}
"""Notes that were read before, by the identity of their JSON, which nobody changes."""


def mark_imported(metadata: JsonObject | None) -> JsonObject:
    """The metadata of an event from outside: whatever label it claims, nobody vouches for it."""
    marked = FlowNote(taint=("imported",)).onto(metadata)
    assert marked is not None
    return marked


def flow_of(event: "Event") -> FlowNote:
    """The label of an event; of results that came without one, as of a tool nobody vouches for."""
    metadata = event.custom_metadata
    if type(metadata) is FlowMetadata:
        return metadata.note
    note = flow_in(metadata) if metadata is not None else None
    if note is not None:
        return note
    content = event.content
    results: list[FunctionResponse] = []
    files: set[str] = set()
    for part in (content.parts or ()) if content is not None else ():
        if part.function_response is not None:
            results.append(part.function_response)
        file = part.inline_data or part.file_data
        if file is not None and event.author == "user":
            files.add(f"file:{file.display_name or ''}")
    if not results and not files:
        return NO_FLOW
    return FlowNote(tuple(sorted(files)), results=describe_results(results))


def base_of(event: "Event") -> TrustLabel:
    """The label of an event apart from its results' own fields."""
    metadata = event.custom_metadata
    if type(metadata) is FlowMetadata:
        return metadata.base
    note = flow_of(event)
    return TRUSTED if note is NO_FLOW else note.base


# --- the leaves of a result

MOST_TYPED = 36
"""A text with more letters than this is never a value that cannot instruct."""

_DATE = late_pattern(
    r"\d{4}-\d{2}(?:-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?)?"
    r"|\d{1,2}:\d{2}(?::\d{2})?"
)

_ID = late_pattern(r"(?:[A-Za-z]{1,10}[-_:#]?)?[0-9A-Fa-f-]{1,36}")

_NUMBER = late_pattern(r"[+-]?\d{1,18}(?:[.,]\d{1,18})?%?")

_LARGEST = 10**MOST_TYPED

_NAME = late_pattern(r"[A-Za-z][A-Za-z0-9]{0,15}(?:[_-][A-Za-z0-9]{1,15}){0,2}_?")

OWN_RESULTS = frozenset(
    ("adk_framework", "adk_request_credential", "adk_request_confirmation", "adk_request_input")
)
"""Results that are a user's answers, not a tool's."""


class Leaf(msgspec.Struct, frozen=True, gc=False):
    """A value in a result: its field, where it stands, and how far it is to be trusted."""

    field: str
    path: tuple[str | int, ...]
    value: Json
    trust: Trust
    is_key: bool = False
    """Whether it is the name of a field, and not its value."""


def read_leaves(
    value: Json, trust: Declared, members: frozenset[str] = frozenset()
) -> Iterator[Leaf]:
    """The values in a result, each with the name of the field that it stands in.

    A key that is not like the name of a field is data. `members` are texts of which a schema says
    that nothing else may stand there.
    """
    yield from _read_leaves(value, trust, members, "result", ())


def _read_leaves(
    value: Json,
    trust: Declared,
    members: frozenset[str],
    field: str,
    path: tuple[str | int, ...],
) -> Iterator[Leaf]:
    if isinstance(value, dict):
        for name, each in value.items():
            inner = name
            if not is_field_name(name):
                inner = field
                judged = _judge(name, _trust_of(trust, field), members)
                yield Leaf(field, (*path, name), name, judged, True)
            yield from _read_leaves(each, trust, members, inner, (*path, name))
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from _read_leaves(each, trust, members, field, (*path, index))
    else:
        yield Leaf(field, path, value, _judge(value, _trust_of(trust, field), members))


@lru_cache(4096)
def is_field_name(name: str) -> bool:
    """Whether a key looks like the name of a field: a word or three, without blanks."""
    return _NAME.fullmatch(name) is not None


def _trust_of(trust: Declared, field: str) -> Trust:
    if isinstance(trust, str):
        return trust
    return trust.get(field, "untrusted")


def _judge(value: Json, trust: Trust, members: frozenset[str] = frozenset()) -> Trust:
    """How far a value is to be trusted in a field that is declared so."""
    if trust == "trusted":
        return trust
    if not isinstance(value, str):  # a number with more digits than that spells something
        return "untrusted" if type(value) is int and abs(value) > _LARGEST else "typed"
    if not value or value in members:
        return "typed"
    if len(value) > MOST_TYPED:
        return "untrusted"
    # signs and digits: most texts begin with a letter
    if value[0] <= "9" and (_DATE.fullmatch(value) or _NUMBER.fullmatch(value)):
        return "typed"
    if trust == "typed" and is_typed_text(value):
        return "typed"
    return "untrusted"


def is_typed_text(text: str) -> bool:
    """Whether a text is an id or a number, in which no order can stand."""
    return len(text) <= MOST_TYPED and _ID.fullmatch(text) is not None


def describe_fields(
    response: JsonObject, trust: Declared = "untrusted", members: frozenset[str] = frozenset()
) -> FieldTrust:
    """Which fields of a result hold text of anybody's, and which hold values only."""
    if trust == "trusted":
        return NO_FIELDS
    if len(response) == 1:  # as nearly always: one text
        ((name, only),) = response.items()
        plain = isinstance(trust, str) and trust == "untrusted"
        if isinstance(only, str) and plain and name in ("result", "error"):
            if name == "error":
                return _ONE_ERROR
            return _ONE_TYPED if _judge(only, "untrusted", members) == "typed" else _ONE_TEXT
    taint: set[str] = set()
    typed: set[str] = set()
    _gather_fields(response, trust, members, "result", taint, typed)
    return _make_fields(tuple(sorted(taint)), tuple(sorted(typed - taint)))


@lru_cache(4096)
def _make_fields(taint: tuple[str, ...], typed: tuple[str, ...]) -> FieldTrust:
    return FieldTrust(taint, typed)


def _gather_fields(
    value: Json,
    trust: Declared,
    members: frozenset[str],
    field: str,
    taint: set[str],
    typed: set[str],
) -> None:
    """The fields of a result, as `read_leaves` judges its values: this is done for every result.

    A field that has one text is not looked at again, so a list of like objects costs little.
    """
    kind = type(value)
    if kind in _SCALARS:
        if field not in taint:
            _gather_value(value, trust, members, field, taint, typed)
    elif kind is dict:
        inside: JsonObject = value  # type: ignore[assignment]
        for name, each in inside.items():
            inner = name
            if name not in taint and name not in typed and not is_field_name(name):
                inner = field
                _gather_fields(name, trust, members, field, taint, typed)
            kind = type(each)
            if kind not in _SCALARS:
                _gather_fields(each, trust, members, inner, taint, typed)
            elif trust == "untrusted" and (
                kind in _SMALL or (kind is int and -_LARGEST <= cast("int", each) <= _LARGEST)
            ):
                if inner not in taint and inner not in typed:
                    typed.add(inner)
            elif inner not in taint and (kind is str or inner not in typed):
                _gather_value(each, trust, members, inner, taint, typed)
    else:  # a list, or what stands for one
        listed: list[Json] = value  # type: ignore[assignment]
        for each in listed:
            if field not in taint or type(each) not in _SCALARS:
                _gather_fields(each, trust, members, field, taint, typed)


_SMALL: frozenset[type[object]] = frozenset((float, bool))

_SCALARS: frozenset[type[object]] = frozenset((str, int, float, bool, type(None)))


def _gather_value(
    value: Json,
    trust: Declared,
    members: frozenset[str],
    field: str,
    taint: set[str],
    typed: set[str],
) -> None:
    if value is None or value == "":
        return
    judged = _judge(value, trust if type(trust) is str else _trust_of(trust, field), members)
    if judged != "trusted":
        (taint if judged == "untrusted" else typed).add(field)


NO_FIELDS = FieldTrust()
"""Of a result that is the author's word."""

_ONE_TYPED = FieldTrust((), ("result",))

_ONE_TEXT = FieldTrust(("result",))

_ONE_ERROR = FieldTrust(("error",))


def describe_results(results: Iterable[FunctionResponse]) -> dict[str, FieldTrust] | None:
    """The fields of results that nobody vouches for, by tool."""
    fields: dict[str, FieldTrust] = {}
    for result in results:
        name = result.name or ""
        if name in OWN_RESULTS:
            continue
        fields[name] = unite_fields(fields.get(name), describe_fields(result.response or {}))
    return fields or None


def unite_fields(one: FieldTrust | None, other: FieldTrust) -> FieldTrust:
    """The fields of two results of one tool."""
    if one is None or one == other:
        return other
    taint = _unite(one.taint, other.taint)
    typed = tuple(name for name in _unite(one.typed, other.typed) if name not in taint)
    return FieldTrust(taint, typed)


def trust_in(note: FlowNote, tool: str) -> Declared:
    """The trust of a result's fields, as its event has it."""
    fields = (note.results or {}).get(tool)
    if fields is None:
        return "trusted" if note.results is not None else "untrusted"
    named: dict[str, Trust] = dict.fromkeys(fields.typed, "typed")
    return _StoredTrust({**named, **dict.fromkeys(fields.taint, "untrusted")})


class _StoredTrust(dict[str, Trust]):
    """The fields of a stored result: one that is not named was trusted."""

    def get(self, key: str, default: object = None) -> Trust:
        return super().get(key) or "trusted"


# --- keys and artifacts
