"""Effects: what models were asked for requests, as the log keeps it.

The runtime performs them and appends each as an event with `customMetadata.weft.effect`: its
kind, the fingerprint of what was asked, and the outcome, or why there is none. Passes find the
outcome by its fingerprint, so a session is recompiled offline to the same bytes.
"""

from collections.abc import Mapping
from typing import NamedTuple

from weft.compiler.build import hidden_by_rewind
from weft.session import Event
from weft.values import JsonObject, Strand


class _Known(NamedTuple):
    """The effects of a log's first `read` events, by fingerprint."""

    read: int
    found: dict[str, JsonObject]


def effects_of(log: Strand[Event]) -> Mapping[str, JsonObject]:
    """The effects in a log by fingerprint, the newest of each; what was read is kept with it."""
    held = log.memo.get("effects")
    known = held if isinstance(held, _Known) and held.read <= log.settled else _Known(0, {})
    if known.read == log.settled:
        return known.found
    fresh = log.since(known.read)[: log.settled - known.read]
    if any(event.actions.rewind_before_invocation_id for event in fresh):
        found = _not_rewound(log.since(0)[: log.settled])
    else:
        new = {
            str(effect.get("fingerprint")): effect
            for event in fresh
            if (effect := effect_of(event))
        }
        found = {**known.found, **new} if new else known.found
    log.memo["effects"] = _Known(log.settled, found)
    return found


def _not_rewound(events: list[Event]) -> dict[str, JsonObject]:
    """The effects that still hold: what was written into state and taken back does not."""
    hidden = hidden_by_rewind(events)
    return {
        str(effect.get("fingerprint")): effect
        for index, event in enumerate(events)
        if (effect := effect_of(event)) is not None
        if index not in hidden or not effect.get("key")
    }


def effect_of(event: Event) -> JsonObject | None:
    """The effect an event records, or None."""
    weft = (event.custom_metadata or {}).get("weft")
    effect = weft.get("effect") if isinstance(weft, dict) else None
    return effect if isinstance(effect, dict) else None
