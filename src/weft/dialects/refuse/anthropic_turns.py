"""What Anthropic refuses in the turns of a request, and in its marks for the cache."""

import re

from weft.dialects.media import IMAGES, PDF
from weft.dialects.refuse.finding import (
    MEDIA,
    OPTION,
    REQUEST,
    Finding,
    Findings,
    SeenIds,
    inner,
    is_plain,
    objects,
)
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
_NAMES_TOOLS = frozenset(("tool_addition", "tool_reference", "tool_search_tool_result"))
"""Blocks that load a tool which was declared to be loaded later."""
_PAIR = "answer every call in the very next turn, and nothing else"


class AnthropicTurns:
    """Empty turns, broken pairs, media it cannot read, a last word that is put in its mouth."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._waiting: dict[str, str] = {}
        self._seen = SeenIds()
        self._marks: list[tuple[str, bool]] = []
        self._last: tuple[str, JsonObject] | None = None
        self._blank: tuple[Finding, ...] = ()
        """What is wrong with a blank answer, unless it is the last turn: a beginning may be."""
        self._names_tools = False

    def fork(self) -> "AnthropicTurns":
        """A copy to read on with."""
        copy = AnthropicTurns(self._model)
        copy._waiting, copy._seen = dict(self._waiting), self._seen.fork()
        copy._marks, copy._last = list(self._marks), self._last
        copy._blank, copy._names_tools = self._blank, self._names_tools
        return copy

    def read(self, turn: JsonObject, at: str) -> Findings:
        """One more message."""
        if self._blank:
            yield from self._blank
        self._blank = ()
        role = turn.get("role")
        if role in ("user", "assistant") and not self._waiting and is_plain(turn.get("content")):
            self._last = (at, turn)
            return
        if role not in ("user", "assistant", "system"):
            yield Finding(REQUEST, f"{at}/role", f"{role!r} is no role", "use user or assistant")
        elif role == "system" and re.match(_NO_LATE_SYSTEM, self._model):
            text = f"{self._model} takes no system text in mid-conversation"
            yield Finding(REQUEST, f"{at}/role", text, "put it before the conversation")
        yield from _blocks(turn, at)
        yield from self._pairs(turn, at)
        self._last = (at, turn)
        if role == "assistant":
            self._blank = tuple(_blank(turn, at))
        for where, block in objects(turn.get("content"), f"{at}/content"):
            inside = objects(block.get("content"), f"{where}/content")
            if block.get("type") == "tool_result":
                self._marks += _marks_in(inside)
            self._marks += _marks_in([(where, block)])
            kinds = {str(part.get("type")) for _, part in (*inside, (where, block))}
            self._names_tools = self._names_tools or bool(kinds & _NAMES_TOOLS)

    def end(self, wire: JsonObject) -> Findings:
        """What the end of the conversation leaves open."""
        if self._last is None:
            yield Finding(REQUEST, "/messages", "there are no turns", "say something")
        else:
            if self._waiting and self._last[1].get("role") != "assistant":
                yield from unanswered(dict(self._waiting), _PAIR)
            yield from _last_word(wire, *self._last, self._model)
        yield from self._bad_marks(wire)
        listed = objects(wire.get("tools"), "/tools")
        later = [tool for _, tool in listed if tool.get("defer_loading") is True]
        if listed and len(later) == len(listed) and not self._names_tools:
            message = "every tool is loaded later"
            yield Finding(REQUEST, "/tools", message, "load one of them at once")

    def _pairs(self, turn: JsonObject, at: str) -> Findings:
        """Every call is answered in the next turn of the user, which may come in pieces."""
        role, waiting = turn.get("role"), self._waiting
        blocks = objects(turn.get("content"), f"{at}/content")
        if role == "system":
            return
        if role == "assistant":
            if waiting:
                yield from unanswered(waiting, _PAIR)
            for where, block in blocks:
                if block.get("type") == "tool_use":
                    call = str(block.get("id"))
                    if call in self._seen:
                        message = f"two calls have the id {call}"
                        yield Finding(REQUEST, f"{where}/id", message, _PAIR)
                    self._seen.add(call)
                    waiting[call] = where
            return
        results = [(where, one) for where, one in blocks if one.get("type") == "tool_result"]
        for where, block in results:
            yield from answered(waiting, str(block.get("tool_use_id")), where, _PAIR)
        if waiting and not results:
            yield from unanswered(waiting, _PAIR)

    def _bad_marks(self, wire: JsonObject) -> Findings:
        """At most four marks for the cache, those that last longer first."""
        system = wire.get("system")
        head = objects(wire.get("tools"), "/tools")
        if not isinstance(system, str):
            head += objects(system, "/system")
        marks = [*_marks_in(head), *self._marks, *_marks_in([("", wire)])]
        if len(marks) > _MOST_MARKS:
            message = f"there are {len(marks)} cache marks, and {_MOST_MARKS} may be"
            yield Finding(REQUEST, marks[_MOST_MARKS][0], message, "leave some out")
        short = False
        for where, long in marks:
            if long and short:
                message = "a cache mark for an hour stands behind one for five minutes"
                yield Finding(REQUEST, where, message, "put those that last longer first")
            short = short or not long


def _marks_in(places: list[tuple[str, JsonObject]]) -> list[tuple[str, bool]]:
    """The marks for the cache at these places, each with whether it is for an hour."""
    return [
        (f"{where}/cache_control", mark.get("ttl") == "1h")
        for where, block in places
        if isinstance(mark := block.get("cache_control"), dict)
    ]


def _blank(message: JsonObject, at: str) -> Findings:
    """A turn that says nothing."""
    content = message.get("content")
    if isinstance(content, str):
        if not content.strip():
            yield Finding(REQUEST, f"{at}/content", "this turn is blank", "say something")
    elif not objects(content, ""):
        yield Finding(REQUEST, f"{at}/content", "this turn is empty", "say something")


def _blocks(message: JsonObject, at: str) -> Findings:
    if message.get("role") != "assistant":
        yield from _blank(message, at)
    blocks = objects(message.get("content"), f"{at}/content")
    for where, block in blocks:
        kind = block.get("type")
        text = str(block.get("text") or "")
        if kind == "text" and (not text or (len(blocks) == 1 and not text.strip())):
            yield Finding(REQUEST, f"{where}/text", "this text is blank", "leave it out")
        elif kind == "thinking" and not block.get("signature"):
            message_ = "this thinking has no signature, so it was not the model's own"
            yield Finding(REQUEST, f"{where}/signature", message_, "send it as it came, or as text")
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


def _last_word(wire: JsonObject, at: str, message: JsonObject, model: str) -> Findings:
    """A beginning of the answer that is written for the model."""
    if message.get("role") != "assistant":
        return
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
