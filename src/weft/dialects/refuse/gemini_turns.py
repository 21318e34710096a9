"""What Gemini refuses in the turns of a request."""

import re

from weft.dialects.gemini import UNREAD
from weft.dialects.refuse.finding import MEDIA, REQUEST, Finding, Findings, inner, objects
from weft.dialects.refuse.media import unread
from weft.values import JsonObject

_SHOWN = re.compile(r"image/(png|jpe?g|webp)|application/pdf|text/plain")
"""What a function may show beside its result."""
_PAIR = "answer every call in the very next turn"

Turn = tuple[str, str, list[tuple[str, JsonObject]]]
"""Its place, its role, and its parts with theirs; neighbours of one role are one turn."""


def bad_turns(wire: JsonObject, model: str) -> Findings:
    """Unknown roles, empty turns, media it cannot read, calls without results or signatures."""
    contents = objects(wire.get("contents"), "/contents")
    if not contents:
        yield Finding(REQUEST, "/contents", "there are no turns", "say something")
    turns: list[Turn] = []
    for at, content in contents:
        role = content.get("role", "user")
        if role not in ("user", "model", "function"):
            yield Finding(REQUEST, f"{at}/role", f"{role!r} is no role", "use user or model")
        parts = objects(content.get("parts"), f"{at}/parts")
        if not parts:
            yield Finding(REQUEST, f"{at}/parts", "this turn is empty", "say something")
        side = "model" if role == "model" else "user"
        if turns and turns[-1][1] == side:
            turns[-1][2].extend(parts)
        else:
            turns.append((at, side, list(parts)))
        for where, part in parts:
            yield from _part(part, where, model)
    yield from _pairs(turns)
    if re.match(r"gemini-[3-9]", model):
        yield from _unsigned(turns)


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


def _pairs(turns: list[Turn]) -> Findings:
    """As many results as calls, in the turn that follows them."""
    for index, (at, side, parts) in enumerate(turns):
        calls = [part for _, part in parts if "functionCall" in part]
        results = [part for _, part in parts if "functionResponse" in part]
        if side == "model" and calls:
            following = turns[index + 1][2] if index + 1 < len(turns) else []
            given = sum("functionResponse" in part for _, part in following)
            if given != len(calls) and (following or given):
                message = f"{len(calls)} calls stand here, and {given} results follow"
                yield Finding(REQUEST, at, message, _PAIR)
            if index == 0:
                message = "a call stands at the beginning, and nobody asked for it"
                yield Finding(REQUEST, at, message, "begin with a turn of the user")
        if side == "user" and results:
            before = turns[index - 1][2] if index else []
            if not any("functionCall" in part for _, part in before):
                yield Finding(REQUEST, at, "results stand here that answer no call", _PAIR)


def _unsigned(turns: list[Turn]) -> Findings:
    """The first call of each step since the user last spoke needs its signature."""
    start = 0
    for index, (_, side, parts) in enumerate(turns):
        if side == "user" and not any("functionResponse" in part for _, part in parts):
            start = index
    for _, side, parts in turns[start:]:
        calls = [(at, part) for at, part in parts if "functionCall" in part]
        if side == "model" and calls and not calls[0][1].get("thoughtSignature"):
            message = "this call has no signature, and the turn is not over"
            hint = "send it as it came, or with `skip_thought_signature_validator`"
            yield Finding(REQUEST, calls[0][0], message, hint)
