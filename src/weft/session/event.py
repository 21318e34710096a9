"""An event: one fact of the session, with what it changes; and the state that it changes.

Field for field ADK's event, so that clients of either read the other's JSON. `audience`
is ours, at the top level where ADK ignores what it does not know; inside `actions`,
where ADK refuses it, nothing is ours.

State is the fold of the log's deltas, in four scopes. `app:` belongs to all users, `user:` to one
user, `temp:` to one invocation; anything else to the session. A value of None deletes its key.
"""

import functools
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Literal, TypeAlias, cast, get_args

import msgspec

from weft.content import Content, FunctionCall, FunctionResponse, Part, Value
from weft.errors import SessionError
from weft.late import late_pattern
from weft.misuse import explain_mistakes
from weft.session.flow import FlowMetadata, TrustLabel, flow_of, has_only_flow
from weft.session.provenance import BranchDelta, Provenance, provenance_in
from weft.values import Json, JsonObject, encode, require_json


class Compaction(Value, frozen=True):
    """A summary that stands for the events between two timestamps."""

    start_timestamp: float
    end_timestamp: float
    compacted_content: Content


class Actions(Value, frozen=True):
    """What an event does apart from being said."""

    state_delta: JsonObject = {}
    artifact_delta: dict[str, int] = {}
    transfer_to_agent: str | None = None
    transfer_reason: str | None = None
    escalate: bool | None = None
    skip_summarization: bool | None = None
    end_of_agent: bool | None = None
    agent_state: JsonObject | None = None
    compaction: Compaction | None = None
    rewind_before_invocation_id: str | None = None
    requested_auth_configs: JsonObject = {}
    requested_tool_confirmations: JsonObject = {}
    route: Json | None = None
    render_ui_widgets: Json | None = None
    set_model_response: Json | None = None

    def __reduce__(self) -> str | tuple[object, ...]:
        """A copy of an event without actions is written without them too."""
        return "NO_ACTIONS" if self is NO_ACTIONS else super().__reduce__()


class Usage(Value, frozen=True):
    """Tokens as the provider counted them; cached ones are part of `prompt_token_count`."""

    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    total_token_count: int | None = None
    cached_content_token_count: int | None = None
    thoughts_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    prompt_tokens_details: Json | None = None
    candidates_tokens_details: Json | None = None
    cache_tokens_details: Json | None = None
    tool_use_prompt_tokens_details: Json | None = None
    traffic_type: str | None = None


NO_ACTIONS = Actions()

EMPTY_ACTIONS = Actions()
"""No actions either, but an event with it says so in its JSON, as all do that the runtime makes."""


def new_id() -> str:
    """A fresh random id."""
    try:
        return _ids.pop()
    except IndexError:
        # Many at once: a thread that asks the system for a few bytes waits for its turn after it.
        first, *others = os.urandom(16 * _MANY_IDS).hex(" ", 16).split()
        _ids.extend(others)
        return first


_MANY_IDS = 64

_ids: list[str] = []

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ids.clear)  # else both processes would give the same ids


@explain_mistakes("Event(...)", change="the log only grows: an event that is there stays as it is")
class Event(Value, frozen=True):
    """One fact of the session: who, when, in which invocation and branch, what, and its effects."""

    author: str = ""
    content: Content | None = None
    invocation_id: str = ""
    id: str = msgspec.field(default_factory=new_id)
    timestamp: float = msgspec.field(default_factory=time.time)
    branch: str | None = None
    partial: bool | None = None
    turn_complete: bool | None = None
    error_code: str | None = None
    error_message: str | None = None
    usage: Usage | None = msgspec.field(default=None, name="usageMetadata")
    finish_reason: str | None = None
    long_running_tool_ids: tuple[str, ...] | None = None
    audience: Literal["user", "internal"] | None = None
    actions: Actions = NO_ACTIONS
    model_version: str | None = None
    custom_metadata: JsonObject | None = None
    interrupted: bool | None = None
    output: Json | None = None
    node_info: JsonObject | None = None
    isolation_scope: str | None = None
    grounding_metadata: JsonObject | None = None
    citation_metadata: JsonObject | None = None
    cache_metadata: JsonObject | None = None
    logprobs_result: JsonObject | None = None
    avg_logprobs: float | None = None
    input_transcription: JsonObject | None = None
    output_transcription: JsonObject | None = None
    turn_complete_reason: str | None = None
    interaction_id: str | None = None
    interaction_status: str | None = None
    environment_id: str | None = None
    live_session_resumption_update: JsonObject | None = None
    live_session_id: str | None = None
    go_away: JsonObject | None = None
    voice_activity: JsonObject | None = None
    sequence: int | None = None
    """Its place in the log, from 1, where a stream of events says so; it is never stored."""
    unread: JsonObject = {}
    """Fields that this version does not know, by JSON pointer; they are written back."""

    @property
    def text(self) -> str:
        """What was said, without thoughts."""
        content = self.content
        if content is None:
            return ""
        parts = content.parts
        if parts and len(parts) == 1 and not parts[0].thought:  # as nearly every event
            return parts[0].text or ""
        return content.text

    @property
    def calls(self) -> list[FunctionCall]:
        """The tool calls in this event."""
        parts = self.content.parts if self.content is not None else None
        return [p.function_call for p in parts or () if p.function_call is not None]

    @property
    def results(self) -> list[FunctionResponse]:
        """The tool results in this event."""
        parts = self.content.parts if self.content is not None else None
        return [p.function_response for p in parts or () if p.function_response is not None]

    @property
    def void(self) -> bool:
        """Whether what was said under this id so far does not count: it failed, or was rejected.

        Partial events have the id of the complete one that follows. One of them is void where
        the answer begins anew with it; or, without content, where no complete one will follow.
        """
        if self.error_code or (self.partial and self.interrupted):
            return True
        return self.is_noted and self.provenance.rejected is not None

    @property
    def provenance(self) -> Provenance:
        """What Weft keeps on this event. It is read from the metadata each time it is asked for."""
        return provenance_in(self.custom_metadata)

    @property
    def label(self) -> TrustLabel:
        """Whose text had influence on this event, recorded when it was stored."""
        return flow_of(self).label

    @property
    def is_noted(self) -> bool:
        """Whether Weft, or somebody else, keeps more with this event than its label."""
        metadata = self.custom_metadata
        if metadata is None or type(metadata) is FlowMetadata:
            return False
        return not has_only_flow(metadata)

    def is_final_response(self) -> bool:
        """Whether this event ends its agent's turn, as ADK defines it."""
        if self.actions.skip_summarization or self.long_running_tool_ids:
            return True
        parts = (self.content.parts if self.content is not None else None) or ()
        has_calls = has_results = False
        for part in parts:
            has_calls = has_calls or part.function_call is not None
            has_results = has_results or part.function_response is not None
        # an error ends the turn, also without words
        if self.error_code and not self.partial and not has_calls:
            return True
        if has_calls or has_results or self.partial:
            return False
        return not (parts and parts[-1].code_execution_result is not None)

    def to_json(self) -> bytes:
        """ADK's JSON for this event."""
        if not self.unread:
            try:
                return msgspec.json.encode(self)
            except (UnicodeEncodeError, RecursionError, TypeError):
                return encode(self, where=f"event {self.id}")
        known = msgspec.to_builtins(msgspec.structs.replace(self, unread={}))
        return encode(with_unknown(known, self.unread), where=f"event {self.id}")


# --- state: the fold of the deltas

Scope = Literal["session", "app", "user", "temp"]

_PREFIXES: tuple[tuple[str, Scope], ...] = (("app:", "app"), ("user:", "user"), ("temp:", "temp"))


def scope_of(key: str) -> Scope:
    """The scope a key lives in."""
    for prefix, scope in _PREFIXES:
        if key.startswith(prefix):
            return scope
    return "session"


def without_temp(state: Mapping[str, Json]) -> JsonObject:
    """The part of the state that outlives its invocation."""
    return {key: value for key, value in state.items() if not key.startswith("temp:")}


def without_shared(event: Event) -> Event:
    """The event as a copy of its session has it: it does not write again what others share."""
    delta = event.actions.state_delta
    own = {key: value for key, value in delta.items() if scope_of(key) in ("session", "temp")}
    if len(own) == len(delta):
        return event
    actions = msgspec.structs.replace(event.actions, state_delta=own)
    return msgspec.structs.replace(event, actions=actions)


def apply_delta(state: Mapping[str, Json], delta: Mapping[str, Json]) -> JsonObject:
    """The state after the delta; the one given is not changed."""
    after = {**state, **delta}
    for key, value in delta.items():
        if value is None:
            del after[key]
    return after


class State(MutableMapping[str, Json]):
    """A writable view of the state: what is written is kept apart, as a delta for an event.

    Reading gives a copy of a list or dict. One that is changed in place counts as written, so
    `state["seen"].append(x)` does what it says. Deleting leaves a tombstone, None.
    """

    __slots__ = ("_base", "_lent", "_written", "reads")

    def __init__(self, base: Mapping[str, Json] | None = None) -> None:
        self.reads: set[str] = set()
        """The keys that somebody looked at, and what else a context showed: `artifact:NAME`."""
        self._base: Mapping[str, Json] = base if base is not None else {}
        self._written: JsonObject = {}
        self._lent: JsonObject = {}

    @property
    def delta(self) -> JsonObject:
        """What was written so far; None stands for a key that was deleted."""
        for key, lent in self._lent.items():
            # it was changed in place since it was handed out
            if self._written.get(key, self._base.get(key)) != lent:
                self._written[key] = require_json(lent, where=f"state[{key!r}]")
        return self._written

    def __getitem__(self, key: str) -> Json:
        self.reads.add(key)
        if key in self._lent:
            return self._lent[key]
        if key in self._written:
            value = self._written[key]
        elif key in self._base:
            value = self._base[key]
        else:
            raise KeyError(key)
        # deleted: a tombstone is not a value
        if value is None:
            raise KeyError(key)
        if isinstance(value, (dict, list)):
            value = self._lent[key] = require_json(value, where=f"state[{key!r}]")
        return value

    def __setitem__(self, key: str, value: Json) -> None:
        if not isinstance(cast("object", key), str) or not key:
            raise SessionError(
                f"{key!r} is not a state key", where="state", hint="keys are non-empty strings"
            )
        self._lent.pop(key, None)
        self._written[key] = require_json(value, where=f"state[{key!r}]")

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self._lent.pop(key, None)
        self._written[key] = None

    def __contains__(self, key: object) -> bool:
        self.reads.add(cast("str", key))
        layer = self._written if key in self._written else self._base
        return layer.get(cast("str", key)) is not None

    def __iter__(self) -> Iterator[str]:
        for key, value in {**self._base, **self._written}.items():
            if value is not None:
                self.reads.add(key)  # a name may be anybody's text, as a value may
                yield key

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def to_dict(self) -> JsonObject:
        """All of it, as a plain dict."""
        return {key: self[key] for key in self}

    def __reduce__(self) -> "tuple[type[State], tuple[JsonObject]]":
        return State, (self.to_dict(),)  # a copy is a look at all of it

    def __repr__(self) -> str:
        return f"State({self.to_dict()!r})"


Forks: TypeAlias = Mapping[str, JsonObject]
"""What each open branch wrote for itself; None stands for a key that it deleted."""


def hold(event: Event, branch: str, delta: JsonObject) -> Event:
    """The event with its delta held on a branch, instead of being the session's."""
    metadata = Provenance(branch_delta=BranchDelta(branch, delta)).onto(event.custom_metadata)
    actions = msgspec.structs.replace(event.actions, state_delta={})
    return msgspec.structs.replace(event, actions=actions, custom_metadata=metadata)


def written_by(event: Event) -> JsonObject:
    """What an event wrote: to the session, on its branch, or for branches to begin with."""
    if event.custom_metadata is None or has_only_flow(event.custom_metadata):  # as most events
        return event.actions.state_delta
    notes = event.provenance
    if not notes.writes:
        return event.actions.state_delta
    written = {**event.actions.state_delta}
    for begun in (notes.forks or {}).values():
        written |= begun
    if notes.branch_delta is not None:
        written |= notes.branch_delta.delta
    return written


def forks_after(forks: Forks, notes: Provenance) -> Forks:
    """The open forks once an event with these notes is read."""
    if notes.closed is not None:
        below = f"{notes.closed}."
        forks = {name: own for name, own in forks.items() if not name.startswith(below)}
    if notes.forks:
        forks = {**forks, **notes.forks}
    if notes.branch_delta is not None:
        branch, delta = notes.branch_delta.branch, notes.branch_delta.delta
        forks = {**forks, branch: {**forks.get(branch, {}), **delta}}
    return forks


def seen_from(state: Mapping[str, Json], forks: Forks, branch: str) -> JsonObject:
    """The state as it is seen from a branch: what it and those around it wrote lies on top."""
    seen = dict(state)
    name = ""
    for segment in branch.split("."):
        name = f"{name}.{segment}" if name else segment
        own = forks.get(name)
        if own is not None:
            seen = apply_delta(seen, own)
    return seen


# --- events as JSON


def number_events(events: Iterable[Event], after: int) -> list[Event]:
    """The events with their places in the log, which has `after` events before them."""
    return [
        msgspec.structs.replace(event, sequence=place)
        for place, event in enumerate(events, after + 1)
    ]


_decoder = msgspec.json.Decoder(Event)


def read_event(data: bytes | str) -> Event:
    """The event that a JSON text holds; fields of other versions are kept in `unread`.

    Raises ValueError, or RecursionError, where it holds none.
    """
    try:
        return _decoder.decode(data)
    # unknown fields, or snake_case: the slow way sorts them out
    except msgspec.ValidationError as error:
        refused = error
    except msgspec.DecodeError:  # lone surrogates, which the fast reader does not know
        refused = None
    try:
        parsed: object = msgspec.json.decode(data)
    except msgspec.DecodeError:  # also where the unknown field stands before them
        parsed = json.loads(data)
    return event_from(parsed, refused)


def event_from(value: object, refused: msgspec.ValidationError | None = None) -> Event:
    """The event that a JSON value is, in whichever spelling; `refused` is the first complaint."""
    known, unknown = without_unknown(respell_fields(value, Event), Event)
    try:
        event = msgspec.convert(known, Event)
    except msgspec.ValidationError:
        if refused is not None:
            raise refused from None
        raise
    unread = cast("JsonObject", unknown)
    return msgspec.structs.replace(event, unread=unread) if unknown else event


_HUMP = late_pattern(r"(?=[A-Z])")


def respell_fields(value: object, kind: type[Value]) -> object:
    """The JSON of a `kind`, in camelCase and without nulls, as far as its fields are known."""
    if not isinstance(value, dict):
        return value
    names, inner = _spelling(kind)
    spelled: dict[str, object] = {}
    for key, field_value in cast("dict[str, object]", value).items():
        name = names.get(key, key)
        # ADK writes null for a field that is not set
        if field_value is None and name in names.values():
            continue
        within = inner.get(name)
        if within is not None and isinstance(field_value, list):
            field_value = [
                respell_fields(each, within) for each in cast("list[object]", field_value)
            ]
        elif within is not None:
            field_value = respell_fields(field_value, within)
        spelled[name] = field_value
    return spelled


@functools.cache
def _spelling(kind: type[Value]) -> tuple[dict[str, str], dict[str, type[Value]]]:
    """The JSON name of each field by its snake_case name, and the values that fields hold."""
    fields = msgspec.structs.fields(kind)
    names = {_HUMP.sub("_", field.encode_name).lower(): field.encode_name for field in fields}
    inner = {
        field.encode_name: kind_inside
        for field in fields
        if (kind_inside := _value_type(field.type))
    }
    # its type says only that they are objects
    if kind is FunctionResponse:
        inner["parts"] = Part
    return names, inner


def _value_type(tp: object) -> type[Value] | None:
    if isinstance(tp, type) and issubclass(tp, Value):
        return tp
    return next((kind_inside for arg in get_args(tp) if (kind_inside := _value_type(arg))), None)


def without_unknown(value: object, kind: type[Value]) -> tuple[object, dict[str, object]]:
    """The JSON of a `kind` with the fields that are known; and the others, by where they stood."""
    unknown: dict[str, object] = {}
    return _split_unknown(value, kind, "", unknown), unknown


def _split_unknown(
    value: object, kind: type[Value], where: str, unknown: dict[str, object]
) -> object:
    if not isinstance(value, dict):
        return value
    names, inner = _spelling(kind)
    fields = {*names.values()}
    known: dict[str, object] = {}
    for name, field_value in cast("dict[str, object]", value).items():
        # the escapes of a JSON pointer
        place = f"{where}/{name.replace('~', '~0').replace('/', '~1')}"
        within = inner.get(name)
        if name not in fields:
            unknown[place] = field_value
        elif within is not None and isinstance(field_value, list):
            listed = cast("list[object]", field_value)
            known[name] = [
                _split_unknown(one, within, f"{place}/{n}", unknown) for n, one in enumerate(listed)
            ]
        else:
            known[name] = (
                _split_unknown(field_value, within, place, unknown)
                if within is not None
                else field_value
            )
    return known


def with_unknown(value: object, unknown: Mapping[str, object]) -> object:
    """The JSON with the fields that were unknown when it was read, each where it stood."""
    for place, field_value in unknown.items():
        *steps, name = [s.replace("~1", "/").replace("~0", "~") for s in place.split("/")[1:]]
        inside = value
        for step in steps:
            if isinstance(inside, list | tuple):
                listed = cast("Sequence[object]", inside)
                inside = listed[int(step)] if int(step) < len(listed) else None
            elif isinstance(inside, dict):
                inside = cast("dict[str, object]", inside).setdefault(step, {})
        if isinstance(inside, dict):
            cast("dict[str, object]", inside)[name] = field_value
    return value
