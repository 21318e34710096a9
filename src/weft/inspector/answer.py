"""The answer to a request as the inspector shows it: what was said, how long it took, its bill.

Where a recording has times of its own, those count; else they are those of the log.
"""

from collections.abc import Sequence

from weft.errors import UsageError
from weft.inspector.inspection import Inspection
from weft.inspector.words import SHORT, CallTiming, MaskedTexts, describe_part, parts_of
from weft.jsonschema import shorten
from weft.replay.receipt import compare_bill_of
from weft.replay.steps import AnsweredStep
from weft.session import Event
from weft.values import Json, JsonObject, compact

LONGEST = 20_000
"""Characters of one part of an answer that are shown."""

LARGEST_MEDIA = 8_000_000
"""Letters of base64 that are sent to the page at once."""


def describe_answer(inspection: Inspection, number: int) -> JsonObject:
    """The answer of one call, with what it took and what it cost."""
    step = inspection.step(number)
    event, show = step.event, MaskedTexts(inspection.mask)
    notes = event.provenance
    timing = inspection.timings.get(event.id, CallTiming())
    return {
        "number": number,
        "agent": show.text(event.author),
        "index": step.place,
        "model": notes.model or event.model_version or _model_of(step),
        "finish": event.finish_reason or timing.finish,
        "error": show.text(": ".join(filter(None, (event.error_code, event.error_message)))),
        "rejected": show.text(notes.rejected or ""),
        "attempts": list[Json](notes.attempts or ()),
        "fallback": list[Json](notes.fallback or ()),
        **timing.to_json(),
        "parts": [
            describe_part(part, show, longest=LONGEST, place=place)
            for place, part in enumerate(parts_of(event))
        ],
        "results": _find_results(inspection.session.events, step.place, show),
        "bill": compare_bill_of(event, step, inspection.model).to_json(),
    }


def read_media(inspection: Inspection, event: str, place: int) -> JsonObject:
    """A picture, a sound or a document of an event: its type, and its base64 text."""
    answer_event = next((one for one in inspection.session.events if one.id == event), None)
    parts = parts_of(answer_event) if answer_event is not None else ()
    summary = answer_event.actions.compaction if answer_event is not None else None
    if summary is not None:  # a request has what took the place of what was said before
        parts = summary.compacted_content.parts or ()
    media = parts[place].inline_data if place < len(parts) else None
    if media is None:
        raise UsageError("there is no such file in the log", where="inspector")
    if media.data and len(media.data) > LARGEST_MEDIA:
        raise UsageError(
            f"the file has {len(media.data):,} letters of base64, more than the page shows",
            where="inspector",
            hint="read it from the session: weft sessions export",
        )
    return {
        "mime": media.mime_type or "",
        "data": media.data or "",
        "name": media.display_name or "",
    }


def _model_of(step: AnsweredStep) -> str:
    return step.request.prompt.model if step.request is not None else ""


def _find_results(events: Sequence[Event], place: int, show: MaskedTexts) -> JsonObject:
    """What the calls of an answer returned, by their ids, with the event that has it."""
    wanted = {call.id for call in events[place].calls if call.id}
    facts: JsonObject = {}
    for index in range(place + 1, len(events)):
        if not wanted:
            break
        for result in events[index].results:
            if result.id in wanted:
                wanted.discard(result.id)
                text = show.text(compact(show.value(result.response or {})))
                facts[result.id or ""] = {"index": index, "text": shorten(text, 4 * SHORT)}
    return facts
