"""Clearance in a run: which tools may get what carries a label, and what events carry one."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import msgspec

from weft.compiler.labels import Whole
from weft.content import encode
from weft.declare import Agent, Flow, Tool, agents_of
from weft.declare.policy.transforms import Label
from weft.runtime.invocation import Invocation
from weft.session import Event
from weft.values import Json, JsonObject

if TYPE_CHECKING:
    from weft.passes.copies import Copies
    from weft.passes.labelled import Labelled


def part_of(invocation: Invocation) -> Whole | None:
    """The program and the session that the run's requests are parts of, where it has labels."""
    return Whole(invocation.labels, invocation.session) if invocation.labels else None


async def labelled_texts(invocation: Invocation, cleared: tuple[str, ...]) -> dict[str, str] | None:
    """The texts of artifacts, where one of them may be labelled for who is cleared so far."""
    for label in invocation.labels:
        if label.name not in cleared and (label.artifacts or label.tools):
            return await invocation.artifact_texts()
    return None


async def refusal(invocation: Invocation, tool: Tool, args: JsonObject) -> JsonObject | None:
    """What a call is told whose arguments carry a label that the tool is not cleared for."""
    cleared = cleared_of(tool)
    hidden = tuple(label for label in invocation.labels if label.name not in cleared)
    if not hidden:
        return None
    known = await known_labels(invocation, hidden)
    for name, value in args.items():
        labels = sorted({label for one in _found(value, known.copies) for label in one})
        if labels:
            said = " and ".join(f"`{label}`" for label in labels)
            return {
                "error": f"the argument `{name}` carries the label {said}, which {tool.name} is not"
                " cleared for; call it without that value"
            }
    return None


def cleared_of(tool: Tool) -> tuple[str, ...]:
    """The labels that a tool's arguments may carry: of an agent, those that all in it may see."""
    if not isinstance(tool.agent, Agent | Flow):
        return tool.cleared
    agents = agents_of(tool.agent)
    shared = set(agents[0].cleared).intersection(*(agent.cleared for agent in agents))
    return tuple(sorted({*shared, *tool.cleared}))


async def noted(invocation: Invocation, event: Event) -> Event:
    """The event with the labels of the values in it, as they are known now.

    What is gone from state later, or was in an older version of an artifact, is not in the log to
    be compared with; so the event itself says what it carries.
    """
    if event.content is None:
        return event
    known = await known_labels(invocation, invocation.labels)
    plain = cast("Json", msgspec.json.decode(encode(event.content, where=f"event {event.id}")))
    labels = sorted({label for one in _found(plain, known.copies) for label in one})
    if not labels:
        return event
    metadata = dict(event.custom_metadata or {})
    held = metadata.get("weft")
    metadata["weft"] = {**(held if isinstance(held, dict) else {}), "labels": [*labels]}
    return msgspec.structs.replace(event, custom_metadata=metadata)


async def known_labels(invocation: Invocation, labels: tuple[Label, ...]) -> "Labelled":
    """What these labels are on in the session as it is now."""
    from weft.passes.labelled import labelled_in

    texts = await labelled_texts(invocation, ())
    return labelled_in(
        labels,
        invocation.session.events,
        state=invocation.state,
        initial=invocation.session.initial,
        artifacts=texts or {},
    )


def _found(value: Json, copies: "Copies") -> Iterator[tuple[str, ...]]:
    """The labels of everything that stands in a value."""
    if isinstance(value, str):
        yield from (hit.labels for hit in copies.hits(value))
    elif isinstance(value, dict):
        for key, held in value.items():
            yield from _found(key, copies)
            yield from _found(held, copies)
    elif isinstance(value, list):
        for held in value:
            yield from _found(held, copies)
    elif value is not None and not isinstance(value, bool):
        yield copies.in_number(value)
