"""Whether a request of google-adk holds what its session holds: no more, and no less.

Only then may it be compiled anew. What a tool, a plugin or a callback has put into it is nowhere
in the session, and would be lost; what one has taken out would be back.
"""

from collections import Counter
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
    said = Counter(text(part, "text") for part in _parts(events))
    held = {kind for part in _parts(events) for kind in _payloads(part)}
    sent: Counter[str] = Counter()
    quoted: list[str] = []
    for content in contents:
        parts = parts_of(content)
        if parts and text(parts[0], "text").startswith(QUOTED):
            quoted += [text(part, "text") for part in parts]
            continue
        for part in parts:
            words = text(part, "text")
            sent[words] += 1
            if words and sent[words] > said[words]:
                return "the request holds a text that its session does not"
            if not held.issuperset(_payloads(part)):
                return "the request holds something that its session does not"
    mine = Counter(_words(event for event in events if text(event, "author") in ("user", agent)))
    theirs = _words(event for event in events if text(event, "author") not in ("user", agent))
    if mine - sent or not _in_order([*theirs], "\n".join(quoted)):
        return "the request lacks a text that its session holds"
    return ""


def _words(events: Iterable[object]) -> Iterator[str]:
    """What events say that is no thought."""
    for part in _parts(events):
        words = text(part, "text")
        if words.strip() and not flag(part, "thought"):
            yield words


def _in_order(pieces: list[str], whole: str) -> bool:
    """Whether all pieces stand in the whole; quick where they stand in their order."""
    at = 0
    for piece in pieces:
        found = whole.find(piece, at)
        if found < 0:
            found = whole.find(piece)
        if found < 0:
            return False
        at = found + len(piece)
    return True


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
