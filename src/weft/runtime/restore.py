"""Put values back in place of their placeholders, where the author of a policy allows it.

The model sees `<EMAIL_51ad1c0b3f>` and says so; a tool needs the address. What the model said
stays in the log as it said it. An event that holds values which were put back says which these
are, so that the next request has their placeholders again, found by a detector or not.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec

from weft.compiler.recall import policy_of
from weft.content import Content, Part
from weft.declare import Agent, Policy, RunConfig
from weft.declare.policy.transforms import Redact, Restore
from weft.session import Event, Session
from weft.values import Json, JsonObject, compact

if TYPE_CHECKING:
    from weft.detect import Redaction


class Restored(NamedTuple):
    """Arguments with their values put back, and the value of each placeholder that was there."""

    args: JsonObject
    used: JsonObject


class Spoken(NamedTuple):
    """An answer with its values put back, and the value of each placeholder that was there."""

    content: Content
    used: JsonObject


def restored_arguments(
    args: JsonObject, agent: Agent, config: RunConfig, session: Session
) -> Restored:
    """The arguments of a call as the tool is to get them."""
    policy = policy_of(agent, config)
    if not _allows(policy, "tools"):
        return Restored(args, {})
    known = _known(policy, session, compact(args))
    used: JsonObject = {}
    return Restored(cast("JsonObject", _value(args, known, used)), used)


def restored_answer(content: Content, policy: Policy, session: Session, *, is_json: bool) -> Spoken:
    """An answer as the user is to get it; in JSON a value is spelled as JSON wants it."""
    text = content.text
    if not _allows(policy, "answer"):
        return Spoken(content, {})
    from weft.detect import restored

    known = _known(policy, session, text)
    if is_json:
        known = {made: _in_json(value) for made, value in known.items()}
    used: JsonObject = {}
    parts: list[Part] = []
    for part in content.parts or ():
        if part.text and not part.thought:
            said, held = restored(part.text, known)
            used |= held
            part = msgspec.structs.replace(part, text=said) if held else part
        parts.append(part)
    if not used:
        return Spoken(content, {})
    return Spoken(Content(parts=tuple(parts), role=content.role), used)


def with_restored(metadata: JsonObject | None, used: JsonObject) -> JsonObject | None:
    """An event's metadata that says which values were put back."""
    if not used:
        return metadata
    held = (metadata or {}).get("weft")
    weft: JsonObject = {**held} if isinstance(held, dict) else {}
    before = weft.get("restored")
    weft["restored"] = {**(before if isinstance(before, dict) else {}), **used}
    return {**(metadata or {}), "weft": weft}


def _allows(policy: Policy, place: Restore) -> bool:
    return any(isinstance(one, Redact) and place in one.restore for one in policy.protections)


def _known(policy: Policy, session: Session, text: str) -> Mapping[str, Json]:
    """What the placeholders stand for; the log is looked through where this process made none."""
    from weft.detect import PLACEHOLDER, Redaction, wanted
    from weft.passes.redact_values import known_placeholders

    known = known_placeholders(session.events, session.id)
    if all(match.group() in known for match in PLACEHOLDER.finditer(text)):
        return known
    for step in policy.protections:
        if isinstance(step, Redact):
            what = wanted(step.kinds, step.patterns, step.fields)
            redaction = Redaction(what, session.id, known)
            for event in session.events:
                _look(event, redaction)
            redaction.value(dict(session.state))
    return known


def _look(event: Event, redaction: "Redaction") -> None:
    """Find the values of an event, for their placeholders' sake."""
    weft = (event.custom_metadata or {}).get("weft")
    held = weft.get("restored") if isinstance(weft, dict) else None
    if isinstance(held, dict):
        redaction.known.update(held)
    for part in (event.content.parts or ()) if event.content is not None else ():
        if part.text:
            redaction.text(part.text)
        if part.function_call is not None and part.function_call.args:
            redaction.value(part.function_call.args)
        if part.function_response is not None and part.function_response.response:
            redaction.value(part.function_response.response)


def _in_json(value: Json) -> str:
    """A value as it is spelled between the quotes of a text in JSON."""
    text = value if isinstance(value, str) else compact(value)
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _value(held: Json, known: Mapping[str, Json], used: JsonObject) -> Json:
    """A JSON value with what its placeholders stand for, of the type that it had."""
    match held:
        case str():
            if held in known:
                used[held] = known[held]
                return known[held]
            from weft.detect import restored

            said, more = restored(held, known)
            used |= more
            return said
        case dict():
            return {
                str(_value(name, known, used)): _value(each, known, used)
                for name, each in held.items()
            }
        case list():
            return [_value(each, known, used) for each in held]
        case _:
            return held
