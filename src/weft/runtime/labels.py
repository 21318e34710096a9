"""Clearance in a run: which tools may get what carries a label, and what events carry one."""

import json
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, cast

import msgspec

from weft.compiler.protected import Whole
from weft.content import Content, Part
from weft.declare import Agent, Flow, Policy, Tool, agents_of
from weft.declare.policy_parts import Label, Redact, Restore
from weft.runtime.invocation import Invocation
from weft.runtime.place import ROOT
from weft.session import Event, Session
from weft.session.provenance import Provenance, provenance_in
from weft.values import Json, JsonObject, compact

if TYPE_CHECKING:
    from weft.detect import Redaction
    from weft.passes.copies import Copies
    from weft.passes.labels import Labelled


def part_of(invocation: Invocation) -> Whole | None:
    """The program and the session that the run's requests are parts of, where it has labels."""
    return Whole(invocation.labels, invocation.log.session)


async def labelled_texts(invocation: Invocation, cleared: tuple[str, ...]) -> dict[str, str] | None:
    """The texts of artifacts, where one of them may be labelled for who is cleared so far."""
    for label in invocation.labels:
        if label.name not in cleared and (label.artifacts or label.tools):
            return await invocation.surroundings.artifact_texts()
    return None


async def refusal(
    invocation: Invocation, tool: Tool, args: JsonObject, carried: AbstractSet[str] = frozenset()
) -> JsonObject | None:
    """The error for a call whose arguments carry a label that the tool is not cleared for.

    All arguments carry the labels in `carried`. Code may spell what it was given in any way, so
    its calls are not told apart by their values, nor are those of an agent that has seen what a
    label follows. Code itself may be given anything: it reaches nobody but by its calls and its
    result, and both carry what it was given.
    """
    if tool.runs_code:
        return None
    cleared = cleared_of(tool)
    hidden = tuple(label for label in invocation.labels if label.name not in cleared)
    if not hidden:
        return None
    # a tool that such values come from has them anyway: code may ask it for the next one
    uncleared = sorted({one.name for one in hidden if tool.name not in one.tools} & carried)
    if uncleared:
        listed = " and ".join(f"`{label}`" for label in uncleared)
        return {
            "error": f"this was made from what carries the label {listed}, which {tool.name} is"
            " not cleared for; call it before you have seen that, or from code that was not given"
            " it"
        }
    known = await known_labels(invocation, hidden)
    for name, value in args.items():
        labels = sorted({label for one in _labels_in(value, known.copies) for label in one})
        if labels:
            listed = " and ".join(f"`{label}`" for label in labels)
            return {
                "error": f"the argument `{name}` carries the label {listed}, which {tool.name} is"
                " not cleared for; call it without that value"
            }
    return None


def follow_labels(invocation: Invocation, secrets: tuple[str, ...]) -> set[str]:
    """Those of these labels that what was made from them carries, in whatever words."""
    if not secrets:
        return set()
    return {label.name for label in invocation.labels if label.follow and label.name in secrets}


async def labels_in(invocation: Invocation, value: Json) -> set[str]:
    """The labels of everything in a value that is known to carry one."""
    known = await known_labels(invocation, invocation.labels)
    return {label for labels in _labels_in(value, known.copies) for label in labels}


def cleared_of(tool: Tool) -> tuple[str, ...]:
    """The labels that a tool's arguments may carry; of an agent, those that all in it may see."""
    if not isinstance(tool.agent, Agent | Flow):
        return tool.cleared
    agents = agents_of(tool.agent)
    shared = set(agents[0].cleared).intersection(*(agent.cleared for agent in agents))
    return tuple(sorted({*shared, *tool.cleared}))


async def with_labels(invocation: Invocation, event: Event) -> Event:
    """The event with the labels of the values in it, as they are known now.

    What is gone from state later, or was in an older version of an artifact, is not in the log to
    be compared with; so the event itself says what it carries.
    """
    labels = follow_labels(invocation, event.label.secrets)
    if event.content is not None:
        known = await known_labels(invocation, invocation.labels)
        plain = cast("Json", msgspec.to_builtins(event.content))
        labels |= {label for one in _labels_in(plain, known.copies) for label in one}
    if not labels:
        return event
    labels |= {*(event.provenance.labels or ())}
    metadata = Provenance(labels=sorted(labels)).onto(event.custom_metadata)
    return msgspec.structs.replace(event, custom_metadata=metadata)


async def known_labels(invocation: Invocation, labels: tuple[Label, ...]) -> "Labelled":
    """What these labels are on in the session as it is now."""
    from weft.passes.labels import labelled_in

    texts = await labelled_texts(invocation, ())
    return labelled_in(
        labels,
        invocation.log.session.events,
        state=invocation.forks.state_at(ROOT),
        initial=invocation.log.session.initial,
        artifacts=texts or {},
    )


def _labels_in(value: Json, copies: "Copies") -> Iterator[tuple[str, ...]]:
    """The labels of everything that stands in a value."""
    if isinstance(value, str):
        yield from (hit.labels for hit in copies.hits(value))
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _labels_in(key, copies)
            yield from _labels_in(each, copies)
    elif value is not None and not isinstance(value, bool | int | float):  # a tuple, too
        for each in value:
            yield from _labels_in(each, copies)
    elif value is not None and not isinstance(value, bool):
        yield copies.in_number(value)


class Restored(msgspec.Struct, frozen=True):
    """Arguments with their values put back, and the value of each placeholder that was there."""

    args: JsonObject
    used: JsonObject


class Spoken(msgspec.Struct, frozen=True):
    """An answer with its values put back, and the value of each placeholder that was there."""

    content: Content
    used: JsonObject


def restored_arguments(args: JsonObject, policy: Policy, session: Session) -> Restored:
    """The arguments of a call as the tool is to get them."""
    if not _allows(policy, "tools"):
        return Restored(args, {})
    known = _resolve_placeholders(policy, session, compact(args))
    used: JsonObject = {}
    return Restored(cast("JsonObject", _value(args, known, used)), used)


def restored_answer(content: Content, policy: Policy, session: Session, *, is_json: bool) -> Spoken:
    """The answer with redacted values put back; in a JSON answer they are escaped for JSON."""
    text = content.text
    if not _allows(policy, "answer"):
        return Spoken(content, {})
    from weft.detect import restore_values

    known = _resolve_placeholders(policy, session, text)
    # a value with quotes in it would break the JSON
    if is_json:
        known = {placeholder: spell_in_json(value) for placeholder, value in known.items()}
    used: JsonObject = {}
    parts: list[Part] = []
    for part in content.parts or ():
        # thoughts are not shown to the user
        if part.text and not part.thought:
            text_with_values, values = restore_values(part.text, known)
            used |= values
            part = msgspec.structs.replace(part, text=text_with_values) if values else part
        parts.append(part)
    if not used:
        return Spoken(content, {})
    return Spoken(Content(parts=tuple(parts), role=content.role), used)


def with_restored(metadata: JsonObject | None, used: JsonObject) -> JsonObject | None:
    """An event's metadata that says which values were put back."""
    if not used:
        return metadata
    before = provenance_in(metadata).restored or {}
    return Provenance(restored={**before, **used}).onto(metadata)


def _allows(policy: Policy, place: Restore) -> bool:
    return any(isinstance(one, Redact) and place in one.restore for one in policy.protections)


def _resolve_placeholders(policy: Policy, session: Session, text: str) -> Mapping[str, Json]:
    """What the placeholders stand for. If this process made none of them, the log is read."""
    from weft.detect import PLACEHOLDER, Redaction, resolve_targets
    from weft.passes.redact import known_placeholders

    known = known_placeholders(session.events, session.id)
    # this process has redacted the values itself
    if all(match.group() in known for match in PLACEHOLDER.finditer(text)):
        return known
    for step in policy.protections:
        if isinstance(step, Redact):
            what = resolve_targets(step.kinds, step.patterns, step.fields)
            redaction = Redaction(what, session.id, known)
            for event in session.events:
                _look(event, redaction)
            redaction.value(dict(session.state))
    return known


def _look(event: Event, redaction: "Redaction") -> None:
    """Find the values of an event, for their placeholders' sake."""
    redaction.known.update(event.provenance.restored or {})
    for part in (event.content.parts or ()) if event.content is not None else ():
        if part.text:
            redaction.text(part.text)
        if part.function_call is not None and part.function_call.args:
            redaction.value(part.function_call.args)
        if part.function_response is not None and part.function_response.response:
            redaction.value(part.function_response.response)


def spell_in_json(value: Json) -> str:
    """A value as it is spelled between the quotes of a text in JSON."""
    text = value if isinstance(value, str) else compact(value)
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _value(value: Json, known: Mapping[str, Json], used: JsonObject) -> Json:
    """A JSON value with what its placeholders stand for, of the type that it had."""
    match value:
        case str():
            if value in known:
                used[value] = known[value]
                return known[value]
            from weft.detect import restore_values

            text, more = restore_values(value, known)
            used |= more
            return text
        case dict():
            return {
                str(_value(name, known, used)): _value(each, known, used)
                for name, each in value.items()
            }
        case list():
            return [_value(each, known, used) for each in value]
        case _:
            return value
