"""Forks: state that a branch writes for itself, until somebody takes it over or drops it.

Elements of a map and branches of a race run at once, so what they write is not yet the
session's. It travels on their events apart from the deltas that the state is the fold of, and
whoever stands on the branch sees it laid over the state. All of this is read from the log:

    {"forks": {branch: {key: value}}}            branches begin, each with this
    {"held": {"branch": ..., "delta": {...}}}    an event of a branch wrote this
    {"closed": branch}                           what stood below it is over
"""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from weft.session.event import Event
from weft.session.state import apply_delta
from weft.values import Json, JsonObject

Forks: TypeAlias = Mapping[str, JsonObject]
"""What each open branch wrote for itself; None stands for a key that it deleted."""


def hold(event: Event, branch: str, delta: JsonObject) -> Event:
    """The event with its delta held on a branch, instead of being the session's."""
    metadata = dict(event.custom_metadata or {})
    weft = metadata.get("weft")
    record: JsonObject = {"branch": branch, "delta": delta}
    metadata["weft"] = {**(weft if isinstance(weft, dict) else {}), "held": record}
    actions = msgspec.structs.replace(event.actions, state_delta={})
    return msgspec.structs.replace(event, actions=actions, custom_metadata=metadata)


def written_by(event: Event) -> JsonObject:
    """What an event wrote: to the session, on its branch, or for branches to begin with."""
    weft = _weft(event)
    if not weft or ("held" not in weft and "forks" not in weft):
        return event.actions.state_delta
    written = {**event.actions.state_delta}
    for own in (*_record(event, "forks").values(), _record(event, "held").get("delta")):
        if isinstance(own, dict):
            written |= own
    return written


def forks_after(forks: Forks, event: Event) -> Forks:
    """The open forks once an event is read."""
    if not _weft(event):
        return forks
    opened, held = _record(event, "forks"), _record(event, "held")
    closed = _weft(event).get("closed")
    if isinstance(closed, str):
        forks = {name: own for name, own in forks.items() if not name.startswith(f"{closed}.")}
    if opened:
        begun = {name: own for name, own in opened.items() if isinstance(own, dict)}
        forks = {**forks, **begun}
    branch, delta = held.get("branch"), held.get("delta")
    if isinstance(branch, str) and isinstance(delta, dict):
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


def _weft(event: Event) -> JsonObject:
    weft = event.custom_metadata.get("weft") if event.custom_metadata is not None else None
    return weft if isinstance(weft, dict) else {}


def _record(event: Event, name: str) -> JsonObject:
    held = _weft(event).get(name)
    return held if isinstance(held, dict) else {}
