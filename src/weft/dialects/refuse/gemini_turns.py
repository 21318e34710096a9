"""What Gemini refuses in the turns of a request."""

import re
from typing import NamedTuple

from weft.dialects.gemini import UNREAD
from weft.dialects.refuse.finding import MEDIA, REQUEST, Finding, Findings, inner, is_plain, objects
from weft.dialects.refuse.media import unread
from weft.values import JsonObject

_SHOWN = re.compile(r"image/(png|jpe?g|webp)|application/pdf|text/plain")
"""What a function may show beside its result."""
_PAIR = "answer every call in the very next turn"


class _Side(NamedTuple):
    """Neighbouring contents of one role, which are one turn: what stands in it so far."""

    at: str
    side: str
    calls: int = 0
    results: int = 0
    unsigned: str = ""
    """Where its first call stands, if no signature stands at it or before it."""
    signed: bool = False


class GeminiTurns:
    """Unknown roles, empty turns, media it cannot read, calls without results or signatures."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._before: _Side | None = None
        self._open: _Side | None = None
        self._unsigned: tuple[str, ...] = ()

    def fork(self) -> "GeminiTurns":
        """A copy to read on with."""
        copy = GeminiTurns(self._model)
        copy._before, copy._open, copy._unsigned = self._before, self._open, self._unsigned
        return copy

    def read(self, turn: JsonObject, at: str) -> Findings:
        """One more content."""
        role = turn.get("role", "user")
        if role not in ("user", "model", "function"):
            yield Finding(REQUEST, f"{at}/role", f"{role!r} is no role", "use user or model")
        side = "model" if role == "model" else "user"
        if self._open is not None and self._open.side != side:
            yield from self._pair(self._before, self._open)
            self._close()
            self._open = None
        if self._open is None:
            self._open = _Side(at, side)
        if is_plain(turn.get("parts")):
            return
        listed = turn.get("parts")
        parts = (
            objects(listed, f"{at}/parts")
            if not isinstance(listed, list)
            else [
                (f"{at}/parts/{number}", part)
                for number, part in enumerate(listed)
                # Plain texts are never refused, and an agent in a loop says hundreds in one turn.
                if type(part) is dict and ("text" not in part or len(part) > 1)
            ]
        )
        if not parts and not listed:
            yield Finding(REQUEST, f"{at}/parts", "this turn is empty", "say something")
        for where, part in parts:
            yield from _part(part, where, self._model)
        self._open = _more(self._open, parts)

    def end(self, wire: JsonObject) -> Findings:
        """What the end of the conversation leaves open."""
        if self._open is None:
            yield Finding(REQUEST, "/contents", "there are no turns", "say something")
            return
        last = self.fork()
        yield from self._pair(last._before, self._open)
        last._close()
        if re.match(r"gemini-[3-9]", self._model):
            for at in last._unsigned:
                message = "this call has no signature, and the turn is not over"
                hint = "send it as it came, or with `skip_thought_signature_validator`"
                yield Finding(REQUEST, at, message, hint)

    def _close(self) -> None:
        """The open turn is over: the user's own words begin a new turn of signatures."""
        turn = self._open
        assert turn is not None
        if turn.side == "user" and not turn.results:
            self._unsigned = ()
        elif turn.side == "model" and turn.unsigned:
            self._unsigned = (*self._unsigned, turn.unsigned)
        self._before = turn

    def _pair(self, before: _Side | None, turn: _Side) -> Findings:
        """As many results as calls, in the turn that follows them."""
        if before is not None and before.calls and before.calls != turn.results:
            message = f"{before.calls} calls stand here, and {turn.results} results follow"
            yield Finding(REQUEST, before.at, message, _PAIR)
        if turn.calls and before is None:
            message = "a call stands at the beginning, and nobody asked for it"
            yield Finding(REQUEST, turn.at, message, "begin with a turn of the user")
        if turn.results and turn.side == "user" and (before is None or not before.calls):
            yield Finding(REQUEST, turn.at, "results stand here that answer no call", _PAIR)


def _more(turn: _Side, parts: list[tuple[str, JsonObject]]) -> _Side:
    """The turn with more parts; one signature holds for all that follows it in the answer."""
    calls, results, unsigned, signed = turn.calls, turn.results, turn.unsigned, turn.signed
    for where, part in parts:
        signed = signed or bool(part.get("thoughtSignature"))
        if "functionCall" in part and turn.side == "model":
            if not calls and not signed:
                unsigned = where
            calls += 1
        results += "functionResponse" in part
    return _Side(turn.at, turn.side, calls, results, unsigned, signed)


def _part(part: JsonObject, where: str, model: str) -> Findings:
    if not part:
        yield Finding(REQUEST, where, "this part is empty", "leave it out")
    for key in ("inlineData", "fileData"):
        kind = str(inner(part, key).get("mimeType", "")).lower()
        if key in part and UNREAD.match(kind):
            yield unread(kind, f"{where}/{key}/mimeType", "gemini")
    place = f"{where}/functionResponse/parts"
    shown = objects(inner(part, "functionResponse").get("parts"), place)
    if shown and re.match(r"gemini-(1|2)(\.|-)", model):
        message = f"{model} takes no media in a function's result"
        yield Finding(MEDIA, place, message, "send it in the user's turn that follows")
        return
    for at, media in shown:
        held = inner(media, "inlineData") or inner(media, "fileData")
        kind = str(held.get("mimeType", "")).lower()
        if kind and not _SHOWN.match(kind):
            yield unread(kind, at, "a function's result")
