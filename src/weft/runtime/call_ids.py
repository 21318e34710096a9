"""Ids and names of calls: every call of a session has an id of its own, and a name that can go.

A call's result, the user's word that it may run and the log of the agent behind it are all found
by its id. Some providers give none, and some count from 0 in every answer.
"""

import re
from collections.abc import Container
from typing import cast

import msgspec

from weft.content import Part
from weft.session import Event
from weft.session.event import new_id
from weft.values import Strand

UNNAMED = "unnamed"
"""What a call without a name is called: no request can carry one that has none."""


_LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Names that every provider takes."""


def identified(
    parts: tuple[Part, ...], log: Strand[Event], taken: set[str], tools: Container[str] = ()
) -> tuple[Part, ...]:
    """The parts with a name and an id on each call: ours, where the provider's will not do.

    `taken` are the ids given in this invocation, whether they are in the log yet or not, and
    `tools` the names that may be called, which stay as they are.
    """
    made: list[Part] = []
    for part in parts:
        call = part.function_call
        if call is not None:
            call_id = call.id or ""
            if not call_id or call_id in taken or call_id in _known(log):
                call_id = f"adk-{new_id()}"
            taken.add(call_id)
            name = _named(call.name or "", tools)
            if call_id != call.id or name != call.name:
                call = msgspec.structs.replace(call, id=call_id, name=name)
                part = msgspec.structs.replace(part, function_call=call)
        made.append(part)
    return tuple(made)


def _named(name: str, tools: Container[str]) -> str:
    """The name; a model may make one up that no request can carry, and every later one would."""
    if name in tools or _LEGAL.fullmatch(name):
        return name
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or UNNAMED


def _known(log: Strand[Event]) -> set[str]:
    """The ids of the log's calls; looked up once, and kept up with the log."""
    known, seen = cast("tuple[set[str], int]", log.memo.get("call_ids", (set[str](), 0)))
    if seen < len(log):
        known.update(call.id or "" for event in log.since(seen) for call in event.calls)
        log.memo["call_ids"] = (known, len(log))
    return known
