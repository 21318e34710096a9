"""Strict rules: the form and the order that requests of Weft's own keep.

They come on top of what a provider documents. A field stands where this provider looks for it, a
declaration has a name and a schema, results follow their calls, turns alternate. The most pedantic
server takes such a request.
"""

import json
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeAlias, cast

import msgspec

from weft.dialects.legality import (
    EMPTY_SCHEMA,
    REQUEST,
    SCHEMA,
    Finding,
    Findings,
    SeenIds,
    TurnRules,
    answers_no_call,
    declared_twice,
    no_object_schema,
    no_result,
    two_calls,
)
from weft.values import Json, JsonObject

# --- the form of a request


class RequestForm(msgspec.Struct, frozen=True):
    """Where a provider looks for the system text, for tools and for the answer's schema."""

    system: str = ""
    """The field of the system text; empty where it is among the turns."""
    needs: tuple[str, ...] = ()
    """Fields that no request is without."""
    tool: str = ""
    """What wraps a declaration; empty where nothing does."""
    schemas: tuple[str, ...] = ("parameters",)
    """Fields of a declaration that hold its schema, of which it has one."""
    describes: tuple[str, ...] = ("name", "description")
    """The other fields of a declaration."""
    answer: tuple[str, ...] = ()
    """The path to the answer's schema; empty where none can be asked for."""
    beside: tuple[str, ...] = ()
    """What must stand next to the answer's schema."""


FIELDS_OF_ONE = frozenset(
    ("systemInstruction", "contents", "generationConfig", "system", "messages", "output_config",
     "response_format", "instructions", "input", "text")
)  # fmt: skip
"""Fields for system text, turns and the answer's schema: each dialect knows some of them."""

_PLACED = "put it where this provider looks for it"


def refuse_form(wire: JsonObject, form: RequestForm, turns: str) -> Findings:
    """A field that is another provider's, a tool or a schema that stands in no place of its own."""
    own = (form.system, turns, *form.answer[:1])
    for key in wire:
        if key in FIELDS_OF_ONE and key not in own:
            yield Finding(REQUEST, f"/{key}", f"`{key}` is another provider's field", _PLACED)
    for key in form.needs:
        if not wire.get(key):
            yield Finding(REQUEST, f"/{key}", f"`{key}` is missing", "set it")
    if form.system in wire and not wire[form.system]:
        yield Finding(REQUEST, f"/{form.system}", "the system text is empty", "leave it out")
    yield from _refuse_answer_form(wire, form)
    tools = wire.get("tools", [])
    if not isinstance(tools, list):
        yield Finding(REQUEST, "/tools", "the tools are no list", "send a list of tools")
        return
    seen: set[str] = set()
    for index, tool in enumerate(tools):
        yield from _refuse_tool_form(tool, f"/tools/{index}", form, seen)


def _refuse_tool_form(tool: Json, at: str, form: RequestForm, seen: set[str]) -> Findings:
    """A declaration that has no name, no schema, or fields that nobody reads."""
    if not isinstance(tool, dict) or not tool:
        yield Finding(REQUEST, at, "this tool is empty", "leave it out")
        return
    if tool.get("type", "function") not in ("function", "custom"):
        return  # one of the provider's own
    wrapped: Json = tool.get(form.tool) if form.tool else tool
    if wrapped is None and len(tool) == 1 and "type" not in tool and "name" not in tool:
        return  # {"googleSearch": {}}, say
    above = f"{at}/{form.tool}" if form.tool else at
    many = isinstance(wrapped, list)
    for index, declared in enumerate(wrapped if isinstance(wrapped, list) else [wrapped]):
        where = f"{above}/{index}" if many else above
        if not isinstance(declared, dict):
            yield Finding(REQUEST, where, "there is no declaration here", _PLACED)
            continue
        yield from _refuse_schema_form(declared, where, form)
        name = declared.get("name")
        if not isinstance(name, str) or not name:
            yield Finding(REQUEST, f"{where}/name", "this tool has no name", "give it one")
        elif name in seen:
            yield declared_twice(name, where)
        else:
            seen.add(name)


def _refuse_schema_form(declared: JsonObject, at: str, form: RequestForm) -> Findings:
    schemas = [key for key in form.schemas if key in declared]
    if len(schemas) > 1:
        message = f"`{schemas[1]}` and `{schemas[0]}` stand together"
        yield Finding(SCHEMA, at, message, "leave out one of them")
    for key in declared:
        if key not in form.describes and key not in form.schemas:
            yield Finding(REQUEST, f"{at}/{key}", f"`{key}` is no field of a declaration", _PLACED)
    for key in schemas:
        schema = declared[key]
        if not isinstance(schema, dict) or schema.get("type") not in ("object", "OBJECT"):
            yield no_object_schema(str(declared.get("name")), f"{at}/{key}")
    if not schemas and not form.tool:  # those that wrap a declaration let it have none
        yield Finding(SCHEMA, f"{at}/{form.schemas[0]}", "the schema is missing", EMPTY_SCHEMA)


def _refuse_answer_form(wire: JsonObject, form: RequestForm) -> Findings:
    """An answer's schema that is no object, or lacks what must stand beside it."""
    if not form.answer:
        return
    *above, last = form.answer
    asked: Json = wire
    for key in above:
        asked = asked.get(key) if isinstance(asked, dict) else None
    if not isinstance(asked, dict):
        return
    at = "/" + "/".join(above)
    if last not in asked and "json_schema" not in (asked.get("type"), *above):
        return
    if not isinstance(asked.get(last), dict):
        yield Finding(SCHEMA, f"{at}/{last}", "the answer's schema is no object", EMPTY_SCHEMA)
    for key in form.beside:
        if not asked.get(key):
            yield Finding(REQUEST, f"{at}/{key}", f"`{key}` must stand beside the schema", "set it")


# --- the order of turns


Side: TypeAlias = Literal["", "system", "user", "model"]


class Named(msgspec.Struct, frozen=True):
    """A call or a result: its id, its tool where it says so, and its place in the turn."""

    id: str
    name: str
    at: str

    def __str__(self) -> str:
        return " ".join(filter(None, (self.name, self.id))) or "without a name"


class Outline(NamedTuple):
    """Who speaks in a turn, and which calls and results stand in it."""

    side: Side
    calls: tuple[Named, ...] = ()
    results: tuple[Named, ...] = ()
    paused: bool = False
    """Whether it ends with a part of the provider's own, from where the model can go on."""


class Misshapen(Exception):
    """A turn that cannot be read on; `finding` says why."""

    def __init__(self, pointer: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.finding = Finding(REQUEST, pointer, message, hint)


PAIRED = "send the results right after their calls, in the same order"

_ALTERNATE = "let turns alternate, the user's first"


class StrictTurns:
    """The provider's rules, and then the order that requests of our own keep.

    Results follow their calls, in call order and under their ids. Where turns are merged they
    alternate, and the user begins. The last word is not the model's.
    """

    __slots__ = (
        "_alternates", "_answered", "_at", "_ids", "_outline", "_paused", "_rules", "_side",
        "_talks_on", "_waiting",
    )  # fmt: skip

    def __init__(
        self,
        rules: TurnRules,
        outline: Callable[[JsonObject, str], Outline],
        *,
        alternates: bool,
        talks_on: bool,
    ) -> None:
        self._rules = rules
        self._outline = outline
        self._alternates = alternates
        self._talks_on = talks_on
        self._at = ""
        self._side: Side = ""
        self._paused = False
        self._waiting: tuple[Named, ...] = ()
        self._answered = 0
        self._ids = SeenIds()

    def fork(self) -> "StrictTurns":
        """A copy to read on with."""
        fork = StrictTurns.__new__(StrictTurns)  # every request makes one: no work twice
        fork._rules, fork._ids = self._rules.fork(), self._ids.fork()
        fork._outline, fork._at = self._outline, self._at
        fork._alternates, fork._talks_on = self._alternates, self._talks_on
        fork._side, fork._paused = self._side, self._paused
        fork._waiting, fork._answered = self._waiting, self._answered
        return fork

    def read(self, turn: JsonObject, at: str) -> Findings:
        """One more turn."""
        yield from self._rules.read(turn, at)
        try:
            outline = self._outline(turn, at)
        except Misshapen as problem:
            yield problem.finding
            return
        self._at = at
        if outline.side == "system" and self._side not in ("", "system"):
            # the author may have a word where it is the model's turn to speak, and only there
            if self._side != "user" or self._waiting:
                message = "a system turn stands in mid-conversation"
                yield Finding(REQUEST, at, message, "put it first, or where the model is to answer")
            return
        if self._alternates and outline.side == self._side:
            message = f"two turns of the {outline.side} stand in a row"
            yield Finding(REQUEST, at, message, _ALTERNATE)
        elif self._alternates and not self._side and outline.side != "user":
            yield Finding(REQUEST, at, "the first turn is not the user's", _ALTERNATE)
        if outline.results or self._waiting:
            yield from self._pair(outline, at)
        self._waiting += outline.calls
        self._side, self._paused = outline.side, outline.paused
        for call in outline.calls:
            if call.id in self._ids:
                yield two_calls(call.id, at + call.at, PAIRED)
            # gemini's calls need no id, and two without one do not clash
            if call.id:
                self._ids.add(call.id)

    def end(self, wire: JsonObject) -> Findings:
        """What the end of the conversation leaves open."""
        yield from self._rules.end(wire)
        if self._waiting:
            yield self._unanswered(self._at)
        elif self._side != "user" and not self._paused:
            message = "the request ends with the model's own words"
            yield Finding(
                REQUEST, self._at, message, "end with a turn of the user, or with results"
            )

    def _pair(self, outline: Outline, at: str) -> Findings:
        """Results of the calls before them, in call order; nothing else between the two."""
        if outline.results:
            for result in outline.results:
                yield from self._match(result, at + result.at)
                self._answered += 1
            if self._answered >= len(self._waiting):
                self._waiting, self._answered = (), 0
            elif self._alternates:
                yield self._unanswered(at)
        # where each part is a turn of its own, the model may say more before the results come
        elif self._waiting and (self._answered or outline.side != "model" or not self._talks_on):
            yield self._unanswered(at)

    def _match(self, result: Named, at: str) -> Findings:
        if self._answered >= len(self._waiting):
            yield answers_no_call(str(result), at, PAIRED)
            return
        call = self._waiting[self._answered]
        if result.id == call.id and result.name in ("", call.name):
            return
        late = any(result.id == other.id != "" for other in self._waiting[self._answered :])
        if late:
            message = f"the result of {result} stands out of order: the next is due for {call}"
            yield Finding(REQUEST, at, message, PAIRED)
        else:
            yield answers_no_call(str(result), at, PAIRED)

    def _unanswered(self, at: str) -> Finding:
        return no_result(str(self._waiting[self._answered]), at, PAIRED)


# --- what a turn is made of


def outline_of(side: Side, calls: Sequence[Named], results: Sequence[Named], at: str) -> Outline:
    """The outline of a turn whose calls are the model's, and its results the user's."""
    if calls and side != "model":
        message = "this call is not in the model's turn"
        raise Misshapen(at + calls[0].at, message, "let the model's turn have it")
    if results and side != "user":
        message = "this result is in the model's turn"
        raise Misshapen(at + results[0].at, message, "let the user's turn have it")
    return Outline(side, tuple(calls), tuple(results))


def require_parts(turn: JsonObject, key: str, at: str) -> list[JsonObject]:
    """The parts of a turn, of which there is one, and none is empty."""
    parts = turn.get(key)
    if not isinstance(parts, list) or not parts:
        raise Misshapen(f"{at}/{key}", "this turn is empty", "say something")
    for index, part in enumerate(parts):
        if not isinstance(part, dict) or not part:
            raise Misshapen(f"{at}/{key}/{index}", "this part is empty", "leave it out")
    return cast("list[JsonObject]", parts)


def require_words(turn: JsonObject, at: str) -> None:
    """Refuse a message that says nothing: no text, no part, or a part without text."""
    content = turn.get("content")
    if isinstance(content, str) and content:
        return
    for index, part in enumerate(require_parts(turn, "content", at)):
        place = f"{at}/content/{index}"
        if require_text(part, "type", place) in ("text", "input_text", "output_text"):
            require_text(part, "text", place)


def require_object(value: Json, at: str) -> JsonObject:
    """An object that must be there."""
    if not isinstance(value, dict):
        raise Misshapen(at, "there is no object here", "send an object")
    return value


def require_text(value: JsonObject, key: str, at: str) -> str:
    """A text that must be there."""
    text = value.get(key)
    if not isinstance(text, str) or not text:
        raise Misshapen(f"{at}/{key}", "there is no text here", "send a text")
    return text


def require_arguments(call: JsonObject, at: str) -> None:
    """Refuse arguments that are not the text of a JSON object."""
    text = require_text(call, "arguments", at)
    try:
        arguments: Json = json.loads(text)
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        message = "the arguments are no JSON object"
        raise Misshapen(f"{at}/arguments", message, "send an object as text")
