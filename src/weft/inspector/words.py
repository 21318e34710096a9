"""Parts of a log as the inspector shows them: texts, calls, results, media, and their times."""

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from weft.compiler.mask import Mask
from weft.content import Part
from weft.digest.acts import is_remark
from weft.jsonschema import shorten
from weft.late import late_pattern
from weft.session import Event, Session
from weft.values import Json, JsonObject, compact

SHORT = 300
"""Characters of arguments or of a result that stand in a list."""

FIRST = 140
"""Characters of the first message that a list or a title shows."""


_CONTEXT = late_pattern(
    r"\s*(?:<(environment_context|session_context|system[-_]reminder|current_datetime|"
    r"uploaded_files|user_instructions)>(?:(?!</\1>).)*</\1>\s*)+",
    re.DOTALL,
)
"""What programs write before the words of a person."""

_INSTRUCTIONS = "# AGENTS.md instructions"
"""How the message begins in which Codex sends the instructions of a repository."""


def title_of(session: Session) -> str:
    """What a person said first, without what programs write around it; else what was said first."""
    texts = [one.text for one in session.events if one.author == "user" and one.text]
    for text in texts:
        begin = _CONTEXT.match(text)
        words = text[begin.end() :] if begin is not None else text
        if words.strip() and not is_remark(words) and not words.startswith(_INSTRUCTIONS):
            return words.strip()
    return texts[0] if texts else ""


class MaskedTexts:
    """Texts and values as the film shows them: what the rules hide is hidden before they are cut.

    Half a value would be hidden from the rules, and not from readers.
    """

    def __init__(self, mask: Mask | None) -> None:
        self._mask = mask

    def text(self, text: str, longest: int = 0) -> str:
        """A text, cut where it is longer."""
        text = self._mask.text(text) if self._mask is not None else text
        return shorten(text, longest) if longest else text

    def value(self, value: Json) -> Json:
        """A JSON value."""
        return self._mask.value(value) if self._mask is not None else value

    def fields(self, answer: JsonObject) -> JsonObject:
        """Fields of ours with names and ids in them."""
        return self._mask.fields(answer) if self._mask is not None else answer

    def state(self, values: JsonObject) -> JsonObject:
        """State as the page shows it: each value as JSON, long ones cut."""
        values = self._mask.state(values) if self._mask is not None else values
        return {key: shorten(compact(value), 200) for key, value in values.items()}


def describe_part(part: Part, show: MaskedTexts, *, longest: int, place: int) -> JsonObject:
    """A part of an event as the page draws it."""
    kind = part.kind
    row: JsonObject = {"kind": kind, "part": place}
    if part.function_call is not None:
        call = part.function_call
        args = show.text(compact(show.value(call.args or {})), longest)
        return row | {"name": call.name or "", "id": call.id or "", "text": args}
    if part.function_response is not None:
        result = part.function_response
        text = show.text(compact(show.value(result.response or {})), longest)
        return row | {"name": result.name or "", "id": result.id or "", "text": text}
    if part.inline_data is not None:
        media = part.inline_data
        size = 3 * len(media.data or "") // 4
        return row | {"mime": media.mime_type or "", "size": size, "text": media.display_name or ""}
    if part.file_data is not None:
        file = part.file_data
        return row | {"mime": file.mime_type or "", "text": show.text(file.file_uri or "", 400)}
    if part.executable_code is not None:
        return row | {"text": show.text(part.executable_code.code or "", longest)}
    if part.code_execution_result is not None:
        return row | {"text": show.text(part.code_execution_result.output or "", longest)}
    if part.text is not None:
        return row | {"text": show.text(part.text, longest)}
    return row | {"text": ""}


def label_calls(event: Event, show: MaskedTexts) -> JsonObject:
    """The calls and the results of an event, each with its name and its short text."""
    rows: dict[str, list[Json]] = {"calls": [], "results": [], "media": []}
    for place, part in enumerate(parts_of(event)):
        kind = {"call": "calls", "result": "results", "media": "media"}.get(part.kind)
        if kind is not None:
            row = describe_part(part, show, longest=SHORT, place=place)
            rows[kind].append({name: row[name] for name in row if name != "kind"})
    return {**rows}


def parts_of(event: Event) -> Sequence[Part]:
    """The parts of an event."""
    return (event.content.parts if event.content is not None else None) or ()


class CallTiming(NamedTuple):
    """When a call was answered, how long its first piece and all of it took; 0 or None: unknown."""

    time: float = 0.0
    seconds: float | None = None
    first: float | None = None
    finish: str = ""
    retries: int = 0

    def to_json(self) -> JsonObject:
        """As the page draws it."""
        fields = {**self._asdict()}
        del fields["finish"]
        return fields


FIRST_TIME = 100_000_000
"""Smaller timestamps are only an order, as in recordings without times."""


def find_timings(session: Session, answers: Collection[str]) -> dict[str, CallTiming]:
    """How long each call took, by the event that answered it; `answers` are those events.

    An answer is stored when it is whole, so it took as long as lies between it and the event that
    its request followed.
    """
    timings: dict[str, CallTiming] = {}
    latest: dict[tuple[str, str], float] = {}
    before = 0.0
    for event in session.events:
        lane = (event.branch or "", event.isolation_scope or "")
        if event.id in answers and event.timestamp > FIRST_TIME:
            seconds = event.timestamp - latest.get(lane, before)
            known = latest.get(lane, before) > FIRST_TIME and seconds >= 0
            first = event.provenance.first_piece
            timings[event.id] = CallTiming(event.timestamp, seconds if known else None, first)
        latest[lane] = before = event.timestamp
    return timings
