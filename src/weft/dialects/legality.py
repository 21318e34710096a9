"""Legality: what is wrong with a request, said before it is sent.

There are two degrees. A provider's rules are what it documents and what it was seen to refuse;
they depend on the model, and where nothing is known, nothing is said. Strict rules come on top:
requests that Weft makes also keep an order and a form that the most pedantic server takes. A
request is read in three steps: its head, its turns one by one, and its end. So a request that
goes on from another costs what is new in it.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias, cast

import msgspec

from weft.dialects.facts import facts_for
from weft.dialects.wire import at_path, escape, number
from weft.errors import with_article
from weft.values import Json, JsonObject

OPTION, MEDIA, SCHEMA, REQUEST = "WEFT702", "WEFT703", "WEFT701", "WEFT707"

MODEL = "WEFT706"
"""Under which code a finding is told: by what it is about."""


class Finding(NamedTuple):
    """A place as a JSON pointer, what is wrong there in a sentence, and what to type instead."""

    code: str
    pointer: str
    message: str
    hint: str = ""


Findings: TypeAlias = Iterator[Finding]


class TurnRules(Protocol):
    """What is wrong with the turns of a request, read one after the other.

    A session only grows, so the turns that stay are read once: the next request begins with a
    fork of what is known after them, and reads what is new.
    """

    def read(self, turn: JsonObject, at: str) -> Findings:
        """What one more turn, at that place, brings with it."""
        ...

    def end(self, wire: JsonObject) -> Findings:
        """What is wrong if the request ends here; `wire` is the whole of it."""
        ...

    def fork(self) -> "TurnRules":
        """A copy to read on with, which leaves this one as it is."""
        ...


class NoTurnRules:
    """Rules for a provider of which nothing is known: it takes any turns."""

    def read(self, turn: JsonObject, at: str) -> Findings:
        """Nothing."""
        return iter(())

    def end(self, wire: JsonObject) -> Findings:
        """Nothing."""
        return iter(())

    def fork(self) -> "NoTurnRules":
        """Itself, as it keeps nothing."""
        return self


class SeenIds:
    """Ids that occurred, in order. Forks share one table as long as they add the same ids."""

    __slots__ = ("_length", "_places")

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._length = 0

    def __contains__(self, value: str) -> bool:
        return self._places.get(value, self._length) < self._length

    def add(self, value: str) -> None:
        """Note one more."""
        if value in self:
            return
        place = self._places.get(value, len(self._places))
        if place != self._length:  # a fork has read on, and found other ids: they are not ours
            self._places = {one: at for one, at in self._places.items() if at < self._length}
        self._places[value] = self._length
        self._length += 1

    def fork(self) -> "SeenIds":
        """A copy, at no cost."""
        copy = SeenIds()
        copy._places, copy._length = self._places, self._length
        return copy


def is_plain(content: Json) -> bool:
    """Whether a turn is one text with something in it, as nearly every turn is."""
    if isinstance(content, list):
        block = content[0] if len(content) == 1 else None
        if not isinstance(block, dict) or block.keys() - _TEXT:
            return False
        content = block.get("text")
    return isinstance(content, str) and bool(content) and not content.isspace()


_TEXT = frozenset(("type", "text"))


# --- options


def refuse_range(wire: JsonObject, path: str, limits: tuple[float, float]) -> Findings:
    """A number at that path that is outside of what the provider takes."""
    value = number(at_path(wire, path))
    least, most = limits
    if value is not None and not least <= value <= most:
        yield Finding(
            OPTION,
            "/" + path.replace(".", "/"),
            f"`{path.rpartition('.')[2]}` is {value}, outside of {least:g} to {most:g}",
            f"give a number from {least:g} to {most:g}",
        )


def refuse_unsupported(
    fields: JsonObject, above: str, names: Mapping[str, Json], who: str
) -> Findings:
    """Options that are set and that this model takes only one value of, if any."""
    for name, only in names.items():
        value = fields.get(name)
        if value is not None and value != only and not (value == [] or value is False):
            yield Finding(
                OPTION, f"{above}/{name}", f"{who} does not take `{name}`", f"leave out `{name}`"
            )


def refuse_effort(effort: Json, pointer: str, model: str) -> Findings:
    """An effort that the model does not have; some write it in capitals."""
    known = facts_for(model).efforts
    if not isinstance(effort, str) or known is None or effort.lower() in known:
        return
    hint = f"use one of {', '.join(known)}" if known else "leave it out"
    yield Finding(OPTION, pointer, f"{model} has no effort `{effort}`", hint)


# --- tools and their pairs


_EMPTY_SCHEMA = 'write {"type": "object", "properties": {}}'


class DeclaredTool(msgspec.Struct, frozen=True):
    """A function that is declared: its place, its name, its schema and where that stands."""

    pointer: str
    name: str
    schema: Json
    at: str


def refuse_tools(tools: Sequence[DeclaredTool], pattern: str, most: int = 0) -> Findings:
    """What is wrong with the declarations, whatever the provider."""
    if most and len(tools) > most:
        message = f"there are {len(tools)} tools, and the provider takes {most}"
        yield Finding(REQUEST, "/tools", message, "leave some out, or narrow them to what is asked")
    seen: set[str] = set()
    for tool in tools:
        if not re.fullmatch(pattern, tool.name):
            message = f"`{tool.name}` is no name for a tool here"
            hint = "use letters, digits, _ and -, and not too many"
            yield Finding(REQUEST, f"{tool.pointer}/name", message, hint)
        if tool.name in seen:
            yield _declared_twice(tool.name, tool.pointer)
        seen.add(tool.name)
        if isinstance(tool.schema, dict) and not _is_object(tool.schema):
            yield _no_object_schema(tool.name, tool.at)


def _declared_twice(name: str, pointer: str) -> Finding:
    message = f"the tool `{name}` is declared twice"
    return Finding(REQUEST, f"{pointer}/name", message, "give each a name of its own")


def _no_object_schema(name: str, pointer: str) -> Finding:
    message = f"the parameters of `{name}` are no object's schema"
    return Finding(SCHEMA, pointer, message, _EMPTY_SCHEMA)


def _is_object(schema: JsonObject) -> bool:
    return not schema or schema.get("type") in ("object", "OBJECT")


def refuse_result(waiting: dict[str, str], call: str, pointer: str, hint: str) -> Findings:
    """Take a call that has its result off those that wait; a result of none is one too many."""
    if waiting.pop(call, None) is None:
        yield answers_no_call(call, pointer, hint)


def refuse_unanswered(waiting: dict[str, str], hint: str) -> Findings:
    """Calls that still wait for a result where none can come any more."""
    for call, pointer in waiting.items():
        yield no_result(call, pointer, hint)
    waiting.clear()


def refuse_undeclared(names: Sequence[Json], known: set[str], pointer: str) -> Findings:
    """A tool that must be called but is not there."""
    for name in names:
        if isinstance(name, str) and name not in known:
            message = f"the tool `{name}` must be called, and is not declared"
            yield Finding(REQUEST, pointer, message, "declare it, or name one that is")


# --- schemas that strict mode refuses


_UNSTRICT = "leave it out, or ask for it without strict"

_NEVER = (
    "oneOf", "allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas",
    "patternProperties", "unevaluatedProperties", "propertyNames", "minProperties",
    "maxProperties", "unevaluatedItems", "uniqueItems", "contains", "minContains", "maxContains",
    "default",
)  # fmt: skip

_MOST_OPTIONAL, _MOST_UNIONS = 24, 16

_UNTOLD = {
    "string": ("minLength", "maxLength"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": ("maxItems", "uniqueItems"),
}


def schema_nodes(schema: Json, pointer: str) -> Iterator[tuple[str, JsonObject]]:
    """Every schema inside a schema, with its place."""
    if not isinstance(schema, dict):
        return
    yield pointer, schema
    for key in ("properties", "$defs", "definitions"):
        nested = schema.get(key)
        for name, part in nested.items() if isinstance(nested, dict) else ():
            yield from schema_nodes(part, f"{pointer}/{key}/{escape(name)}")
    for key in ("items", "additionalProperties"):
        yield from schema_nodes(schema.get(key), f"{pointer}/{key}")
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        nested = schema.get(key)
        for at, part in enumerate(nested if isinstance(nested, list) else ()):
            yield from schema_nodes(part, f"{pointer}/{key}/{at}")


def refuse_untyped_arrays(schema: Json, pointer: str) -> Findings:
    """Arrays that do not say what is in them, which is refused even where nothing is strict."""
    for at, node in schema_nodes(schema, pointer):
        if node.get("type") == "array" and "items" not in node and "prefixItems" not in node:
            yield Finding(SCHEMA, at, "this array does not say what its items are", "add `items`")


def refuse_open_or_optional(schema: Json, pointer: str) -> Findings:
    """The strict mode that wants every object closed and every property required."""
    if isinstance(schema, dict) and "anyOf" in schema and "type" not in schema:
        yield Finding(
            SCHEMA, pointer, "a union cannot stand at the root of a strict schema", _UNSTRICT
        )
    for at, node in schema_nodes(schema, pointer):
        for key in _NEVER:
            if key in node:
                yield Finding(
                    SCHEMA, f"{at}/{key}", f"strict mode does not take `{key}`", _UNSTRICT
                )
        if "$ref" in node and node.keys() - {"$ref", "$defs"}:
            yield Finding(SCHEMA, at, "strict mode takes nothing beside a `$ref`", _UNSTRICT)
        properties = node.get("properties")
        if node.get("type") != "object" and not isinstance(properties, dict):
            continue
        if node.get("additionalProperties") is not False:
            yield _open_object(at)
        names = properties if isinstance(properties, dict) else {}
        required = node.get("required")
        for name in names:
            if not isinstance(required, list) or name not in required:
                message = f"strict mode wants `{name}` among the required"
                hint = "require it and let it be null, or ask without strict"
                yield Finding(SCHEMA, f"{at}/required", message, hint)


def refuse_open_or_bounded(schema: Json, pointer: str) -> Findings:
    """The strict mode that wants objects closed and knows no bounds for values."""
    for at, node in schema_nodes(schema, pointer):
        kind = node.get("type")
        for key in _UNTOLD.get(kind, ()) if isinstance(kind, str) else ():
            if key in node:
                message = f"strict mode does not take `{key}` of {with_article(str(kind))}"
                yield Finding(SCHEMA, f"{at}/{key}", message, "say it in the description")
        least = node.get("minItems")
        if isinstance(least, int) and least > 1:
            message = "strict mode takes no `minItems` above 1"
            yield Finding(SCHEMA, f"{at}/minItems", message, "say it in the description")
        if kind == "object" and node.get("additionalProperties") is not False:
            yield _open_object(at)
    if _recurs(schema):
        yield Finding(
            SCHEMA, pointer, "strict mode takes no schema that contains itself", _UNSTRICT
        )


def refuse_complexity(schemas: Sequence[Json], pointer: str) -> Findings:
    """More optional parameters, or more unions, than a request may hold a model to."""
    optional = unions = 0
    for _, node in (each for schema in schemas for each in schema_nodes(schema, "")):
        properties, required = node.get("properties"), node.get("required")
        if isinstance(properties, dict):
            optional += len(properties.keys() - _names(required))
        unions += "anyOf" in node or isinstance(node.get("type"), list)
    if optional > _MOST_OPTIONAL:
        message = f"{optional} parameters of strict tools are optional, and {_MOST_OPTIONAL} may be"
        yield Finding(SCHEMA, pointer, message, _UNSTRICT)
    if unions > _MOST_UNIONS:
        message = f"strict tools have {unions} unions, and {_MOST_UNIONS} may be"
        yield Finding(SCHEMA, pointer, message, _UNSTRICT)


def _names(value: Json) -> set[str]:
    return {str(name) for name in value} if isinstance(value, list) else set()


def _open_object(pointer: str) -> Finding:
    message = "strict mode wants this object closed"
    return Finding(SCHEMA, pointer, message, 'add "additionalProperties": false')


def _recurs(schema: Json) -> bool:
    """Whether a named part of the schema leads back to itself."""
    if not isinstance(schema, dict):
        return False
    named = {
        f"#/{key}/{name}": part
        for key in ("$defs", "definitions")
        if isinstance(definitions := schema.get(key), dict)
        for name, part in definitions.items()
    }
    leads = {
        ref: {str(node["$ref"]) for _, node in schema_nodes(part, "") if "$ref" in node}
        for ref, part in named.items()
    }
    for start in leads:
        reached: set[str] = set()
        pending = set(leads[start])
        while pending:
            ref = pending.pop()
            if ref not in reached:
                reached.add(ref)
                pending |= leads.get(ref, set())
        if start in reached:
            return True
    return any(node.get("$ref") == "#" for _, node in schema_nodes(schema, ""))


# --- strict: the form of a request


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
            yield _declared_twice(name, where)
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
            yield _no_object_schema(str(declared.get("name")), f"{at}/{key}")
    if not schemas and not form.tool:  # those that wrap a declaration let it have none
        yield Finding(SCHEMA, f"{at}/{form.schemas[0]}", "the schema is missing", _EMPTY_SCHEMA)


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
        yield Finding(SCHEMA, f"{at}/{last}", "the answer's schema is no object", _EMPTY_SCHEMA)
    for key in form.beside:
        if not asked.get(key):
            yield Finding(REQUEST, f"{at}/{key}", f"`{key}` must stand beside the schema", "set it")


# --- strict: the order of turns


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


# --- findings that providers and strict rules share


def no_role(role: Json, at: str, hint: str = "use user or assistant") -> Finding:
    """A role that the provider does not know."""
    return Finding(REQUEST, f"{at}/role", f"{role!r} is no role", hint)


def no_result(call: str, pointer: str, hint: str) -> Finding:
    """A call whose result does not follow."""
    return Finding(REQUEST, pointer, f"the call {call} has no result in the next turn", hint)


def answers_no_call(result: str, pointer: str, hint: str) -> Finding:
    """A result that nobody asked for."""
    message = f"the result of {result} answers no call of the turn before"
    return Finding(REQUEST, pointer, message, hint)


def two_calls(call: str, pointer: str, hint: str) -> Finding:
    """An id that a call before has already."""
    return Finding(REQUEST, pointer, f"two calls have the id {call}", hint)


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
