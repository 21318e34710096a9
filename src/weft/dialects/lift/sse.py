"""Server-sent events: bytes as they come in, events as soon as they are whole.

Nothing here knows where the bytes come from. However they are cut, also in the middle of a
character or between the two bytes of a line's end, the events are the same.
"""

import re

DONE = "[DONE]"
"""What some servers say instead of an event once everything is said."""

_MARK = "\ufeff"
_ONE = re.compile(r"(?:event: (.*)\n)?data: (\{.*)\n\n")
"""One whole event with its name and its data: what nearly every piece that comes in is."""


class Events:
    """A reader of one stream: feed it bytes, take the events that are whole by now.

    An event is its name, "" where it has none, and its data. Comments, ids and events without
    data are left out, and so is `[DONE]`: `done` says that it came.
    """

    __slots__ = ("_after_return", "_began", "_held", "done")

    def __init__(self) -> None:
        self._held = bytearray()
        self._began = False
        self._after_return = False
        self.done = False

    def feed(self, data: bytes) -> list[tuple[str, str]]:
        """Take some bytes; the events that they complete."""
        held = self._held
        if self._began and not held and not self._after_return:
            text = data.decode("utf-8", "replace")
            if "\r" in text:
                text = text.replace("\r\n", "\n")
            one = _ONE.fullmatch(text)
            if one is not None and "\r" not in text:
                return [(one[1] or "", one[2])]
        if self._after_return or b"\r" in data:
            data = self._with_newlines(data)
        seen = max(len(held) - 1, 0)
        held += data
        end = held.rfind(b"\n\n", seen)
        if end < 0:
            return []
        whole = held[:end].decode("utf-8", "replace")
        del held[: end + 2]
        return self._events(whole)

    def end(self) -> list[tuple[str, str]]:
        """The event that stands at the end of the stream without the empty line it should have."""
        whole = self._held.decode("utf-8", "replace")
        self._held.clear()
        return self._events(whole)

    def _with_newlines(self, data: bytes) -> bytes:
        """The bytes with one kind of line's end; it may have been cut between return and feed."""
        if self._after_return and data:
            data = data.removeprefix(b"\n")
            self._after_return = False
        self._after_return = self._after_return or data.endswith(b"\r")
        data = data.replace(b"\r\n", b"\n")
        return data.replace(b"\r", b"\n") if b"\r" in data else data

    def _events(self, whole: str) -> list[tuple[str, str]]:
        if not self._began:
            self._began = True
            whole = whole.removeprefix(_MARK)
        events: list[tuple[str, str]] = []
        for block in whole.split("\n\n"):
            if block[:7] == "data: {" and "\n" not in block:  # nearly every event of all
                events.append(("", block[6:]))
                continue
            name, _, rest = block.partition("\n")
            if rest[:7] == "data: {" and name[:7] == "event: " and "\n" not in rest:
                events.append((name[7:], rest[6:]))
                continue
            event = _event(block)
            if event[1] == DONE:
                self.done = True
            elif event[1] and not event[1].isspace():
                events.append(event)
        return events


def _event(block: str) -> tuple[str, str]:
    """The event that a few lines spell, by the letter of the specification."""
    name = ""
    data: list[str] = []
    for line in block.split("\n"):
        field, _, value = line.partition(":")
        if field == "data":
            data.append(value.removeprefix(" "))
        elif field == "event":
            name = value.removeprefix(" ")
    return name, "\n".join(data)
