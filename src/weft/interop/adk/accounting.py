"""Whether a request of google-adk holds what its session holds: no more, and no less.

Only then may it be compiled anew. What a tool, a plugin or a callback has put into it is nowhere
in the session, and would be lost; what one has taken out would be back.
"""

from collections.abc import Iterable, Iterator

from weft.interop.adk.events import parts_of
from weft.interop.adk.objects import field, flag, text

QUOTED = "For context:"
"""How google-adk begins what another agent said."""

PAYLOADS = (
    "function_call", "function_response", "inline_data", "file_data", "executable_code",
    "code_execution_result",
)  # fmt: skip


def difference(contents: list[object], events: tuple[object, ...], agent: str) -> str:
    """Why the contents are not what the events say; "" where they are."""
    said = {text(part, "text") for part in _parts(events)}
    held = {kind for part in _parts(events) for kind in _payloads(part)}
    sent: set[str] = set()
    for content in contents:
        parts = parts_of(content)
        if parts and text(parts[0], "text").startswith(QUOTED):
            continue
        for part in parts:
            words = text(part, "text")
            sent.add(words)
            if words and words not in said:
                return "the request holds a text that its session does not"
            if not held.issuperset(_payloads(part)):
                return "the request holds something that its session does not"
    for event in events:
        if text(event, "author") not in ("user", agent):
            continue
        for part in _parts([event]):
            if not flag(part, "thought") and text(part, "text") and text(part, "text") not in sent:
                return "the request lacks a text that its session holds"
    return ""


def reaching_back(events: Iterable[object]) -> bool:
    """Whether an event takes back or sums up others."""
    names = ("compaction", "rewind_before_invocation_id")
    return any(field(field(event, "actions"), name) for event in events for name in names)


def _parts(events: Iterable[object]) -> Iterator[object]:
    for event in events:
        yield from parts_of(field(event, "content"))


def _payloads(part: object) -> Iterator[tuple[str, str]]:
    for kind in PAYLOADS:
        held = field(part, kind)
        if held is not None:
            yield kind, text(held, "name") or text(held, "file_uri") or text(held, "mime_type")
