"""Streamed answers that become one, and pieces of them found in a conversation again."""

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from weft.dialects.answers import LOOSE_TEXT, AnswerShape, add_counts
from weft.dialects.stream import DONE
from weft.dialects.wire import text_in
from weft.errors import ModelError
from weft.values import Json, JsonObject

# --- pieces that stand in a conversation already


def take_pieces(pieces: Sequence[JsonObject], gone: Sequence[JsonObject]) -> list[JsonObject]:
    """The pieces without those of an earlier part of the answer, which stand first in it.

    A client may have joined texts that follow each other, or cut one. A piece that is not there
    takes nothing away.
    """
    rest = [*pieces]
    for one in gone:
        key = next((key for key in (LOOSE_TEXT, "text") if isinstance(one.get(key), str)), "")
        place = next((at for at, other in enumerate(rest) if _is_same(one, other)), None)
        if place is not None:
            del rest[place]
        elif key:
            rest = _cut_text(rest, text_in(one.get(key)), key)
    return rest


def _is_same(one: JsonObject, other: JsonObject) -> bool:
    if one.get("type") != other.get("type"):
        return False
    for key in ("id", "signature", LOOSE_TEXT, "text"):
        if one.get(key):
            return one.get(key) == other.get(key)
    return one == other


def _cut_text(pieces: list[JsonObject], text: str, key: str) -> list[JsonObject]:
    """Take a text away at the start of the first pieces, which may have it in several."""
    rest = [*pieces]
    for at, piece in enumerate(pieces):
        own = piece.get(key)
        if not isinstance(own, str) or piece.get("thought") or "field" in piece:
            continue
        if own.startswith(text):
            rest[at] = {**piece, key: own[len(text) :]}
            return [one for one in rest if one.get(key) != ""]
        if not own or not text.startswith(own):
            return pieces
        rest[at] = {**piece, key: ""}
        text = text[len(own) :]
    return pieces


# --- streams


class AnswerWeave:
    """Streamed answers that become one stream, without the calls of one tool.

    As long as nothing is to be changed, bytes go on as they came. `name` is the tool whose calls
    are taken out, "" for none. `rewrite` changes each event that goes on. What cannot be read goes
    on as it came.
    """

    def __init__(self, form: AnswerShape, name: str, rewrite: "Rewrite | None" = None) -> None:
        self.form = form
        self.leg = 0
        """How many answers ended before this one."""
        self.hidden: set[int] = set()
        """The indexes of the calls that are taken out of this one."""
        self.closing: list[JsonObject] = []
        """The events that end it, held back until it is known whether another follows."""
        self.bodies: list[JsonObject] = []
        """The answers that ended, without those calls."""
        self.total: JsonObject = {}
        """What was counted for them."""
        self.identity: JsonObject = {}
        self.number: int | None = None
        self._name = name
        self._mark = name.encode()
        self._base = 0
        self._rewrite = rewrite
        self._active = rewrite is not None
        self._named = False
        self._done = False
        self._pending = b""
        self.is_readable = True
        """Whether each event was understood, so that the whole answer is known."""
        self.is_over = False
        """Whether the event came that ends the answer."""
        self._stream = form.stream()

    @property
    def is_changed(self) -> bool:
        """Whether anything was taken out, or put together."""
        return self._active

    def hides(self, name: str) -> bool:
        """Whether calls of a tool are taken out."""
        is_hidden = bool(name) and name == self._name
        self._active = self._active or is_hidden
        return is_hidden

    def place(self, index: int) -> int:
        """The index of a piece in the whole answer."""
        return self._base + index - sum(1 for one in self.hidden if one < index)

    def feed(self, data: bytes) -> bytes:
        """Take bytes as they come; those that go on to the client."""
        pending = self._pending + data if self._pending else data
        out: list[bytes] = []
        at = 0
        for match in _BLANK.finditer(pending):
            out.append(self._take(pending[at : match.end()]))
            at = match.end()
        self._pending = pending[at:]
        return b"".join(out)

    def _take(self, block: bytes) -> bytes:
        data = b"\n".join(_DATA.findall(block))
        if not data:
            return block
        if data.strip() == DONE.encode():
            self._stream.note_end()
            self._done = self.is_over = True
            return b"" if self._active else block
        try:
            event: Json = msgspec.json.decode(data)
        except ValueError:
            return block
        if not isinstance(event, dict):
            return block
        named = _EVENT.search(block)
        name = named[1].decode("utf-8", "replace") if named else ""
        self._named = named is not None
        try:
            self._stream.feed(name, event)
        except Exception:  # an error that the stream tells, or what nobody knows: it goes on
            self.is_readable = False
        self.is_over = self.is_over or self.form.is_end(event)
        if not self._active and not (self._name and self._mark in block):
            return block
        edited = self.form.edit_event(event, self)
        if not self._active:  # the word alone is not a call
            self.closing, self.number = [], None
            return block
        return self._spell_all(edited)

    def _spell_all(self, events: Sequence[JsonObject]) -> bytes:
        if self._rewrite is not None:
            events = [one for event in events for one in self._rewrite(event)]
        return b"".join(map(self.spell, events))

    def spell(self, event: JsonObject) -> bytes:
        """An event as the provider sends it."""
        kind = event.get("type")
        head = f"event: {kind}\n".encode() if self._named and isinstance(kind, str) else b""
        return head + b"data: " + msgspec.json.encode(event) + b"\n\n"

    def end_leg(self) -> tuple[bytes, JsonObject | None]:
        """The bytes that are still to go on, and the whole answer; None where it was cut off."""
        rest, self._pending = self._pending, b""
        rest = self._take(rest) if rest.strip() else rest
        return rest, self.read_answer()

    def read_answer(self) -> JsonObject | None:
        """The whole answer; None where it is cut off, or not understood."""
        if not self.is_readable:
            return None
        try:
            return self._stream.body()
        except ModelError:
            return None

    def begin_leg(self, body: JsonObject) -> None:
        """Go on with another answer after this one."""
        visible = self.form.hide_calls(body, self._name)
        pieces = self.form.open_turns(self.form.turns_of(visible))
        self._base += sum(1 for one in pieces if LOOSE_TEXT not in one)
        self.bodies.append(visible)
        self.total = add_counts(self.total, self.form.usage_of(body))
        if not self.leg:
            self.identity = {key: body[key] for key in ("id", "created") if key in body}
        self.leg += 1
        self._active = True
        self.hidden, self.closing, self._pending, self.is_over = set(), [], b"", False
        self._stream = self.form.stream()

    def close(self, body: JsonObject | None) -> bytes:
        """The bytes that end the answer; `body` is the last of the answers, if it is known."""
        if not self._active:
            return b""
        total: JsonObject = {}
        if body is not None:
            self.bodies.append(self.form.hide_calls(body, self._name))
            total = add_counts(self.total, self.form.usage_of(body))
        events = self._spell_all(self.form.close_events(self, total if self.leg else {}))
        return events + (f"data: {DONE}\n\n".encode() if self._done else b"")

    def spell_error(self, message: str) -> bytes:
        """The bytes that say that the answer failed on its way."""
        return self.spell(self.form.error_event(message))


Rewrite: TypeAlias = Callable[[JsonObject], list[JsonObject]]
"""What becomes of an event that goes on to the client."""

_BLANK = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_DATA = re.compile(rb"^data: ?([^\r\n]*)", re.MULTILINE)
_EVENT = re.compile(rb"^event: ?([^\r\n]*)", re.MULTILINE)
