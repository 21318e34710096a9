"""What Anthropic refuses in the turns of a request, and in its marks for the cache."""

import re
from collections.abc import Iterator

from weft.dialects.media import IMAGES, PDF
from weft.dialects.refuse.finding import MEDIA, OPTION, REQUEST, Finding, Findings, inner, objects
from weft.dialects.refuse.media import mistaken, unread
from weft.dialects.refuse.tools import answered, unanswered
from weft.values import JsonObject

_LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]+")
_FOREIGN = frozenset(
    ("image_url", "input_audio", "input_text", "input_image", "input_file", "output_text", "file",
     "audio", "video")
)  # fmt: skip
_MOST_MARKS = 4
_UNFILLED = r"claude-((opus|sonnet|haiku)-4-[6-9]|[a-z]+-[5-9])"
_NO_LATE_SYSTEM = r"claude-(instant|2|3|(opus|sonnet|haiku)-4(-[0-7])?(-2025\d+)?$)"
_ANSWERED = frozenset(("text", "thinking", "redacted_thinking"))
_PAIR = "answer every call in the very next turn, and nothing else"


def bad_turns(wire: JsonObject, model: str) -> Findings:
    """Empty turns, broken pairs, media it cannot read, a last word that is put in its mouth."""
    messages = objects(wire.get("messages"), "/messages")
    if not messages:
        yield Finding(REQUEST, "/messages", "there are no turns", "say something")
    for at, message in messages:
        role = message.get("role")
        if role not in ("user", "assistant", "system"):
            yield Finding(REQUEST, f"{at}/role", f"{role!r} is no role", "use user or assistant")
        elif role == "system" and re.match(_NO_LATE_SYSTEM, model):
            text = f"{model} takes no system text in mid-conversation"
            yield Finding(REQUEST, f"{at}/role", text, "put it before the conversation")
        yield from _blocks(message, at, last=message is messages[-1][1])
    yield from _pairs(messages)
    yield from _last_word(wire, messages, model)
    yield from _marks(wire)


def _blocks(message: JsonObject, at: str, *, last: bool) -> Findings:
    content = message.get("content")
    if isinstance(content, str):
        if not content.strip() and not (last and message.get("role") == "assistant"):
            yield Finding(REQUEST, f"{at}/content", "this turn is blank", "say something")
        return
    blocks = objects(content, f"{at}/content")
    if not blocks and not (last and message.get("role") == "assistant"):
        yield Finding(REQUEST, f"{at}/content", "this turn is empty", "say something")
    for where, block in blocks:
        kind = block.get("type")
        text = str(block.get("text") or "")
        if kind == "text" and (not text or (len(blocks) == 1 and not text.strip())):
            yield Finding(REQUEST, f"{where}/text", "this text is blank", "leave it out")
        elif kind == "tool_use" and not _LEGAL_ID.fullmatch(str(block.get("id"))):
            message_ = f"{block.get('id')!r} is no id for a call"
            yield Finding(REQUEST, f"{where}/id", message_, "use letters, digits, _ and -")
        elif kind in ("image", "document"):
            yield from _media(block, where)
        elif kind == "tool_result":
            for inside, part in objects(block.get("content"), f"{where}/content"):
                if part.get("type") in ("image", "document"):
                    yield from _media(part, inside)
                elif str(part.get("type")) in _FOREIGN:
                    yield unread(str(part.get("type")), inside, "anthropic")
        elif isinstance(kind, str) and kind in _FOREIGN:
            yield unread(kind, where, "anthropic")


def _media(block: JsonObject, where: str) -> Findings:
    source = inner(block, "source")
    kind, data = str(source.get("media_type", "")), source.get("data")
    pointer = f"{where}/source/media_type"
    if source.get("type") == "base64":
        takes = IMAGES if block.get("type") == "image" else {PDF}
        if kind not in takes:
            yield unread(kind, pointer, f"an {block.get('type')} block of anthropic")
        yield from mistaken(kind, data, pointer)
    elif source.get("type") == "text" and kind != "text/plain":
        yield unread(kind, pointer, "a text document of anthropic")
    elif source.get("type") == "url" and not str(source.get("url", "")).startswith("http"):
        hint = "give an https address, or the data itself"
        yield Finding(MEDIA, f"{where}/source/url", "this is no address on the web", hint)


def _pairs(messages: list[tuple[str, JsonObject]]) -> Findings:
    """Every call is answered in the next turn of the user, which may come in several pieces."""
    waiting: dict[str, str] = {}
    seen: set[str] = set()
    for at, message in messages:
        role = message.get("role")
        blocks = objects(message.get("content"), f"{at}/content")
        if role == "system":
            continue
        if role == "assistant":
            if waiting:
                yield from unanswered(waiting, _PAIR)
            for where, block in blocks:
                if block.get("type") == "tool_use":
                    call = str(block.get("id"))
                    if call in seen:
                        yield Finding(
                            REQUEST, f"{where}/id", f"two calls have the id {call}", _PAIR
                        )
                    seen.add(call)
                    waiting[call] = where
            continue
        for where, block in blocks:
            if block.get("type") == "tool_result":
                call = str(block.get("tool_use_id"))
                yield from answered(waiting, call, where, _PAIR)
        if waiting and not any(block.get("type") == "tool_result" for _, block in blocks):
            yield from unanswered(waiting, _PAIR)
    if waiting and messages[-1][1].get("role") != "assistant":
        yield from unanswered(waiting, _PAIR)


def _last_word(wire: JsonObject, messages: list[tuple[str, JsonObject]], model: str) -> Findings:
    """A beginning of the answer that is written for the model."""
    if not messages or messages[-1][1].get("role") != "assistant":
        return
    at, message = messages[-1]
    content = message.get("content")
    blocks = objects(content, f"{at}/content")
    begun = isinstance(content, str) or (bool(blocks) and blocks[-1][1].get("type") == "text")
    kinds = {str(block.get("type")) for _, block in blocks}
    if not begun or kinds - _ANSWERED:  # an answer of its own that it was to go on with
        return
    if re.match(_UNFILLED, model):
        hint = "end with a turn of the user"
        yield Finding(REQUEST, at, f"{model} does not go on with words put in its mouth", hint)
    elif inner(wire, "thinking").get("type") == "enabled":
        hint = "end with a turn of the user, or leave out thinking"
        yield Finding(OPTION, at, "an answer that is begun cannot be thought about", hint)
    text = content if isinstance(content, str) else str(blocks[-1][1].get("text"))
    if text != text.rstrip():
        message_ = "the beginning of the answer ends in white space"
        yield Finding(REQUEST, f"{at}/content", message_, "strip it")


def _marks(wire: JsonObject) -> Findings:
    """At most four marks for the cache, those that last longer first."""
    marks = list(_marked(wire))
    if len(marks) > _MOST_MARKS:
        message = f"there are {len(marks)} cache marks, and {_MOST_MARKS} may be"
        yield Finding(REQUEST, marks[_MOST_MARKS][0], message, "leave some out")
    short = False
    for where, mark in marks:
        long = mark.get("ttl") == "1h"
        if long and short:
            message = "a cache mark for an hour stands behind one for five minutes"
            yield Finding(REQUEST, where, message, "put those that last longer first")
        short = short or not long


def _marked(wire: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    turns = objects(wire.get("messages"), "/messages")
    places = [*objects(wire.get("tools"), "/tools"), *objects(wire.get("system"), "/system")]
    for at, message in turns:
        for where, block in objects(message.get("content"), f"{at}/content"):
            if block.get("type") == "tool_result":
                places += objects(block.get("content"), f"{where}/content")
            places.append((where, block))
    places.append(("", wire))
    for where, held in places:
        mark = held.get("cache_control")
        if isinstance(mark, dict):
            yield f"{where}/cache_control", mark
