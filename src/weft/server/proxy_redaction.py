"""Values that a proxy keeps away from the provider: placeholders out, values back in the answer."""

import re
from collections.abc import Mapping
from copy import deepcopy

from weft.compaction.reading import RequestBody
from weft.declare.policy_parts import Redact
from weft.detect import Redaction, resolve_targets, restore_values
from weft.dialects.answers import AnswerShape
from weft.runtime.labels import spell_in_json
from weft.server.proxy_history import replace_wire
from weft.values import Json, JsonObject

_SEALED = frozenset(
    (
        *("id", "type", "role", "name", "model", "signature", "thinking", "data", "media_type"),
        *("encrypted_content", "tool_use_id", "call_id", "tool_call_id", "thoughtSignature"),
        *("thought_signature", "mimeType", "mime_type", "detail", "format", "file_id"),
    )
)
"""Fields that are not words, or that must come back as they were."""

_JSON_FIELDS = ("arguments", "partial_json")
"""Fields whose text is JSON: a value there is spelled as between its quotes."""

_MAY_BEGIN = re.compile(r"<[A-Z0-9_]{0,60}[a-f0-9]{0,10}$")
"""The end of a text that may be the beginning of a placeholder."""


def redact_body(
    body: RequestBody, rules: tuple[Redact, ...], secret: str, known: dict[str, Json]
) -> RequestBody:
    """The request with placeholders, of which `known` gets the values."""
    wire: Json = body.wire
    for rule in rules:
        what = resolve_targets(rule.kinds, rule.patterns, rule.fields)
        literals = [(value, key) for key, value in known.items() if isinstance(value, str)]
        wire = _redact(wire, "", Redaction(what, secret, known, literals))
    assert isinstance(wire, dict)
    return body if wire is body.wire else replace_wire(body, wire)


def _redact(value: Json, key: str, redaction: Redaction) -> Json:
    """The value with placeholders; the very same object where there is nothing to replace."""
    if key in _SEALED:
        return value
    if isinstance(value, str):
        if value.startswith("data:"):
            return value
        text = redaction.text(value)
        return value if text == value else text
    if isinstance(value, dict):
        fields = {name: _redact(one, name, redaction) for name, one in value.items()}
        return value if all(fields[name] is value[name] for name in value) else fields
    if isinstance(value, list):
        listed = [_redact(one, key, redaction) for one in value]
        same = all(one is other for one, other in zip(listed, value, strict=True))
        return value if same else listed
    return value


class ValueRestorer:
    """Puts values back into an answer, whole or as its pieces come."""

    def __init__(self, form: AnswerShape, known: Mapping[str, Json]) -> None:
        self._form = form
        self._known = known
        self._escaped = {key: spell_in_json(value) for key, value in known.items()}
        self._waiting: dict[str, tuple[JsonObject, str, str]] = {}

    def body(self, body: JsonObject) -> JsonObject:
        """A whole answer with the values."""
        value = self._restore(body, "")
        assert isinstance(value, dict)
        return value

    def _restore(self, value: Json, key: str) -> Json:
        if key in _SEALED and not isinstance(value, dict | list):
            return value
        if isinstance(value, str):
            return self._text(value, key)
        if isinstance(value, dict):
            if value.get("thought") is True or value.get("type") in ("thinking", "reasoning"):
                return value
            return {name: self._restore(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [self._restore(one, key) for one in value]
        return value

    def _text(self, text: str, key: str) -> str:
        known: Mapping[str, Json] = self._escaped if key in _JSON_FIELDS else self._known
        return restore_values(text, known)[0]

    def event(self, event: JsonObject) -> list[JsonObject]:
        """An event with the values; what may be half a placeholder waits for the rest of it."""
        copied = deepcopy(event)
        fields = [*self._form.text_fields(copied)]
        if not fields:
            return [*self._flush(), self.body(event)]
        for channel, holder, key in fields:
            before = self._waiting.pop(channel, None)
            text = (before[1] if before is not None else "") + str(holder[key])
            kind = "arguments" if self._is_json(copied, key) else key
            match = _MAY_BEGIN.search(text)
            tail = text[match.start() :] if match is not None else ""
            if tail:
                self._waiting[channel] = copied, tail, kind
            holder[key] = self._text(text[: len(text) - len(tail)], kind)
        return [copied]

    def _is_json(self, event: JsonObject, key: str) -> bool:
        return key in _JSON_FIELDS or "arguments" in str(event.get("type"))

    def _flush(self) -> list[JsonObject]:
        """What waited for nothing, in events like those that it came in."""
        events: list[JsonObject] = []
        for channel, (event, tail, _) in self._waiting.items():
            last = deepcopy(event)
            for field in self._form.text_fields(last):
                field.holder[field.key] = tail if field.channel == channel else ""
            events.append(last)
        self._waiting.clear()
        return events
