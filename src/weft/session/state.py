"""State: the fold of the log's deltas, in four scopes.

`app:` belongs to all users, `user:` to one user, `temp:` to one invocation; anything else
to the session. A delta value of None deletes its key.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Literal, TypeAlias, cast

import msgspec

from weft.errors import SessionError
from weft.session.event import Event
from weft.session.provenance import BranchDelta, Provenance
from weft.values import Json, JsonObject, require_json

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

    __slots__ = ("_base", "_lent", "_written")

    def __init__(self, base: Mapping[str, Json] | None = None) -> None:
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
        if key in self._lent:
            return self._lent[key]
        if key in self._written:
            value = self._written[key]
        elif key in self._base:
            value = self._base[key]
        else:
            raise KeyError(key)
        # deleted: a tombstone is no value
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
        layer = self._written if key in self._written else self._base
        return layer.get(cast("str", key)) is not None

    def __iter__(self) -> Iterator[str]:
        for key, value in {**self._base, **self._written}.items():
            if value is not None:
                yield key

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def to_dict(self) -> JsonObject:
        """All of it, as a plain dict."""
        return {key: self[key] for key in self}

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
