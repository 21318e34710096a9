"""Legality: what is wrong with a request, said before it is sent.

A provider's rules are what it documents and what it was seen to refuse; they depend on the model,
and where nothing is known, nothing is said. A request is read in three steps: its head, its turns
one by one, and its end. So a request that goes on from another costs what is new in it. What Weft
asks of its own requests on top of that is in `strict.py`.

A dialect says what is wrong with one head and with one turn. At the end of this file that is asked
of whole requests: the head is read once, the turns as they come.
"""

import base64
import binascii
import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import msgspec

from weft.dialects.facts import dialect_named, facts_for, is_misspelt, is_own, suggestion, wire_name
from weft.dialects.schema_subset import SchemaRules
from weft.dialects.track import LoweringReport
from weft.dialects.wire import at_path, drop_fields, escape, number, placed_objects
from weft.errors import with_article
from weft.ir import MediaBlock, Prompt
from weft.media import type_by_content
from weft.values import Json, JsonObject, digest

if TYPE_CHECKING:
    from weft.dialects.base import Dialect
    from weft.dialects.track import Lowered


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

    def read(self, turn: JsonObject, at: str) -> Iterable[Finding]:
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

    def add(self, value: str) -> bool:
        """Note one more; False where it occurred already."""
        places, length = self._places, self._length
        place = places.get(value, len(places))
        if place < length:
            return False
        if place != length:  # a fork has read on, and found other ids: they are not ours
            self._places = places = {one: at for one, at in places.items() if at < length}
        places[value] = length
        self._length = length + 1
        return True

    def fork(self) -> "SeenIds":
        """A copy, at no cost."""
        copy = SeenIds()
        copy._places, copy._length = self._places, self._length
        return copy


def is_plain(content: Json) -> bool:
    """Whether a turn is texts with something in them, as nearly every turn is."""
    # by their types alone: this is asked of every turn of a long log
    if type(content) is not list:
        return type(content) is str and bool(content) and not content.isspace()
    for block in content:
        if type(block) is not dict or len(block) != 2 or block.get("type") != "text":
            return False
        text = block.get("text")
        if type(text) is not str or not text or text.isspace():
            return False
    return bool(content)


def only_block(content: Json) -> JsonObject | None:
    """The one block of a turn, if it has just one."""
    block = content[0] if type(content) is list and len(content) == 1 else None
    return block if type(block) is dict else None


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


def refuse_unsupported(fields: JsonObject, names: Mapping[str, Json], who: str) -> Findings:
    """Options that are set and that this model takes only one value of, if any."""
    for name, only in names.items():
        value = fields.get(name)
        if value is not None and value != only and not (value == [] or value is False):
            yield Finding(
                OPTION, f"/{name}", f"{who} does not take `{name}`", f"leave out `{name}`"
            )


def refuse_effort(effort: Json, pointer: str, model: str) -> Findings:
    """An effort that the model does not have; some write it in capitals."""
    known = facts_for(model).efforts
    if not isinstance(effort, str) or known is None or effort.lower() in known:
        return
    hint = f"use one of {', '.join(known)}" if known else "leave it out"
    yield Finding(OPTION, pointer, f"{model} has no effort `{effort}`", hint)


# --- media
#
# Where a provider has no place for it, a text stands there that names what is missing, so that the
# model can say so instead of guessing.

IMAGES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
"""The image types that all of the providers with a list of their own accept."""

PDF = "application/pdf"


def reads_media(kind: str, model: str) -> bool:
    """Whether a model reads media of this type, as far as is known of it."""
    media = facts_for(model).media
    family = "pdf" if kind == PDF else kind.partition("/")[0]
    return media is None or family not in ("image", "pdf", "audio", "video") or family in media


def missing_media(block: MediaBlock, report: LoweringReport) -> str:
    """The text that stands for media which cannot be carried, reported."""
    place = "the model's own turn" if block.role == "model" else "a message"
    carrier = "an address" if block.uri is not None else "data"
    report.lose(
        "WEFT703",
        block.origin,
        f"{report.dialect} cannot carry {block.mime_type} as {carrier} in {place}",
        "convert the media, or send it in a user message",
    )
    named = block.name or block.uri
    return (
        f"[{block.mime_type} {named}: not carried]"
        if named
        else f"[{block.mime_type}: not carried]"
    )


_CONVERT = "convert the media, or describe it in words"


def unread_media(kind: str, pointer: str, who: str) -> Finding:
    """Media of a type that is not read there."""
    return Finding(MEDIA, pointer, f"{who} does not read {kind or 'media'} here", _CONVERT)


def refuse_mistaken_type(kind: str, data: object, pointer: str) -> Findings:
    """Data that is an image or a document, but not the one it is said to be."""
    actual = _type_by_content(data)
    if not actual or kind not in (*IMAGES, PDF):
        return
    if actual != kind:
        message = f"this is said to be {kind}, and is {actual}"
        yield Finding(MEDIA, pointer, message, f"write {actual}")


def _type_by_content(data: object) -> str:
    if not isinstance(data, str):
        return ""
    try:
        start = base64.b64decode(data[:16], validate=True)
    except (binascii.Error, ValueError):
        return ""
    return type_by_content(start)


def type_in_url(url: object) -> str:
    """The type of what a data URL holds; empty where it is none."""
    if not isinstance(url, str) or not url.startswith("data:"):
        return ""
    return url[5:].partition(",")[0].partition(";")[0].lower()


def type_by_name(url: object) -> str:
    """The type that the end of an address tells of."""
    if not isinstance(url, str):
        return ""
    import mimetypes  # few requests have media

    return mimetypes.guess_type(url.partition("?")[0])[0] or ""


# --- tools and their pairs


class Spelling(msgspec.Struct, frozen=True):
    """What a provider takes as the name of a tool, or as the id of a call."""

    illegal: re.Pattern[str]
    longest: int
    first: re.Pattern[str] | None = None
    """What it must begin with, where not every letter will do."""

    def is_legal(self, text: str) -> bool:
        """Whether the provider takes the text."""
        begins = self.first is None or self.first.match(text)
        return bool(text and begins and len(text) <= self.longest and not self.illegal.search(text))

    def legal(self, text: str) -> str:
        """The text itself where it is legal, else one made of it that nobody else has.

        A log may come from another provider, or another program. It depends on the text alone,
        so that a call and its result, and one request and the next, agree.
        """
        if self.is_legal(text):
            return text
        # the hash tells it from another text that would come to the same letters
        mark = digest(text.encode("utf-8", "surrogatepass"))[:8]
        known = self.illegal.sub("_", text)[: self.longest - len(mark) - 2]
        spelled = f"{known}_{mark}"
        return spelled if self.first is None or self.first.match(spelled) else f"_{spelled}"


ANYTHING_BUT = re.compile(r"[^a-zA-Z0-9_-]")
"""What most providers refuse in a name."""


EMPTY_SCHEMA = 'write {"type": "object", "properties": {}}'


class DeclaredTool(msgspec.Struct, frozen=True):
    """A function that is declared: its place, its name, its schema and where that stands."""

    pointer: str
    name: str
    schema: Json
    at: str
    strict: bool = False


def refuse_tools(tools: Sequence[DeclaredTool], names: Spelling, most: int = 0) -> Findings:
    """What is wrong with the declarations, whatever the provider."""
    if most and len(tools) > most:
        message = f"there are {len(tools)} tools, and the provider takes {most}"
        yield Finding(REQUEST, "/tools", message, "leave some out, or narrow them to what is asked")
    seen: set[str] = set()
    for tool in tools:
        if not names.is_legal(tool.name):
            message = f"`{tool.name}` is not a name for a tool here"
            hint = "use letters, digits, _ and -, and not too many"
            yield Finding(REQUEST, f"{tool.pointer}/name", message, hint)
        if tool.name in seen:
            yield declared_twice(tool.name, tool.pointer)
        seen.add(tool.name)
        if isinstance(tool.schema, dict) and not _is_object(tool.schema):
            yield no_object_schema(tool.name, tool.at)


def declared_twice(name: str, pointer: str) -> Finding:
    """A name that a tool before has already."""
    message = f"the tool `{name}` is declared twice"
    return Finding(REQUEST, f"{pointer}/name", message, "give each a name of its own")


def no_object_schema(name: str, pointer: str) -> Finding:
    """Parameters whose schema is of something else than an object."""
    message = f"the parameters of `{name}` are no object's schema"
    return Finding(SCHEMA, pointer, message, EMPTY_SCHEMA)


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


def refuse_schema(schema: Json, pointer: str, rules: SchemaRules, *, strict: bool) -> Findings:
    """What the provider is known to refuse of a schema; more of it where it is strict."""
    if rules.typed_arrays:
        yield from _refuse_untyped_arrays(schema, pointer)
    if not strict:
        return
    if rules.complete and isinstance(schema, dict) and "anyOf" in schema and "type" not in schema:
        message = "a union cannot stand at the root of a strict schema"
        yield Finding(SCHEMA, pointer, message, _UNSTRICT)
    for at, node in schema_nodes(schema, pointer):
        yield from _refuse_keywords(node, at, rules)
        yield from _refuse_open_object(node, at, rules)
    if rules.cycles == "none" and _recurs(schema):
        message = "strict mode takes no schema that contains itself"
        yield Finding(SCHEMA, pointer, message, _UNSTRICT)


def _refuse_untyped_arrays(schema: Json, pointer: str) -> Findings:
    for at, node in schema_nodes(schema, pointer):
        if node.get("type") == "array" and "items" not in node and "prefixItems" not in node:
            yield Finding(SCHEMA, at, "this array does not say what its items are", "add `items`")


def _refuse_keywords(node: JsonObject, at: str, rules: SchemaRules) -> Findings:
    """Keywords that strict mode does not take, and references that do not stand alone."""
    for key in rules.refused:
        if key in node:
            yield Finding(SCHEMA, f"{at}/{key}", f"strict mode does not take `{key}`", _UNSTRICT)
    kind = node.get("type")
    for key in rules.refused_of_type.get(kind, ()) if isinstance(kind, str) else ():
        if key in node:
            message = f"strict mode does not take `{key}` of {with_article(str(kind))}"
            yield Finding(SCHEMA, f"{at}/{key}", message, "say it in the description")
    least, most = node.get("minItems"), rules.most_min_items
    if most is not None and isinstance(least, int) and least > most:
        message = f"strict mode takes no `minItems` above {most}"
        yield Finding(SCHEMA, f"{at}/minItems", message, "say it in the description")
    if rules.complete and "$ref" in node and node.keys() - {"$ref", "$defs"}:
        yield Finding(SCHEMA, at, "strict mode takes nothing beside a `$ref`", _UNSTRICT)


def _refuse_open_object(node: JsonObject, at: str, rules: SchemaRules) -> Findings:
    """An object that is not closed, or that lets properties be left out where none may be."""
    properties = node.get("properties") if rules.complete else None
    if node.get("type") != "object" and not isinstance(properties, dict):
        return
    if node.get("additionalProperties") is not False:
        message = "strict mode wants this object closed"
        yield Finding(SCHEMA, at, message, 'add "additionalProperties": false')
    required = node.get("required")
    for name in properties if isinstance(properties, dict) else ():
        if not isinstance(required, list) or name not in required:
            message = f"strict mode wants `{name}` among the required"
            hint = "require it and let it be null, or ask without strict"
            yield Finding(SCHEMA, f"{at}/required", message, hint)


def refuse_complexity(schemas: Sequence[Json], pointer: str, rules: SchemaRules) -> Findings:
    """More optional parameters, or more unions, than a request may hold a model to."""
    optional = unions = 0
    for _, node in (each for schema in schemas for each in schema_nodes(schema, "")):
        properties, required = node.get("properties"), node.get("required")
        if isinstance(properties, dict):
            optional += len(properties.keys() - _names(required))
        unions += "anyOf" in node or isinstance(node.get("type"), list)
    if optional > rules.most_optional > 0:
        message = (
            f"{optional} parameters of strict tools are optional, and {rules.most_optional} may be"
        )
        yield Finding(SCHEMA, pointer, message, _UNSTRICT)
    if unions > rules.most_unions > 0:
        message = f"strict tools have {unions} unions, and {rules.most_unions} may be"
        yield Finding(SCHEMA, pointer, message, _UNSTRICT)


def _names(value: Json) -> set[str]:
    return {str(name) for name in value} if isinstance(value, list) else set()


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


# --- findings that providers and strict rules share


def no_role(role: Json, at: str, hint: str = "use user or assistant") -> Finding:
    """A role that the provider does not know."""
    return Finding(REQUEST, f"{at}/role", f"{role!r} is not a role", hint)


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


# --- whole requests


def refusals_of(dialect: "Dialect", wire: JsonObject, model: str = "") -> tuple[Finding, ...]:
    """What would be refused of a wire; `model` where the request does not name it."""
    wire = dialect.spell(wire)
    rules = dialect.turn_rules(model_name(wire, model))
    findings = list(_refused_head(dialect, wire, model))
    key = dialect.traits.turns
    for at, turn in placed_objects(wire.get(key), f"/{key}"):
        findings += rules.read(turn, at)
    return (*findings, *rules.end(wire))


class TurnJudge:
    """What would be refused of a conversation that grows, in words; each turn is read once.

    Of the last turns some may change when it grows: marks for the cache move on. So it keeps what
    it knew before these.
    """

    NEWEST = 6
    """How many turns may change."""

    def __init__(self, dialect: "Dialect", wire: JsonObject, model: str) -> None:
        self._dialect = dialect
        self._rules = dialect.turn_rules(model_name(wire, model))
        self._turns: list[Json] = []
        self._problems: set[str] = set()
        self._before: TurnJudge | None = None
        """The same before the newest turns."""

    def fork(self, length: int) -> "TurnJudge | None":
        """A copy to read on with, which has read at most this many turns; None for none of them."""
        if length < len(self._turns):
            return self._before.fork(length) if self._before is not None else None
        judge = TurnJudge.__new__(TurnJudge)
        judge._dialect, judge._rules, judge._before = (
            self._dialect,
            self._rules.fork(),
            self._before,
        )
        judge._turns, judge._problems = self._turns[:], set(self._problems)
        return judge

    def read(self, wire: JsonObject) -> set[str]:
        """What is wrong with the turns of a request that begins with those that were read."""
        key, read = self._dialect.traits.turns, self._rules.read
        turns = wire.get(key)
        listed = turns if isinstance(turns, list) else []
        fresh = self._dialect.spell({key: listed[len(self._turns) :]})[key]
        newest = max(len(self._turns), len(listed) - self.NEWEST)
        for index, turn in enumerate(fresh if isinstance(fresh, list) else (), len(self._turns)):
            if index == newest:
                self._before = None
                self._before = self.fork(index)
            if isinstance(turn, dict):
                self._problems |= {one.message for one in read(turn, f"/{key}/{index}")}
            self._turns.append(turn)
        head = drop_fields(wire, key)
        whole: JsonObject = {**self._dialect.spell(head), key: self._turns}
        return self._problems | {one.message for one in self._rules.fork().end(whole)}


def findings_in(lowered: "Lowered", model: str) -> tuple[Finding, ...]:
    """What would be refused of a lowered request; what stays of it is read once."""
    dialect = dialect_named(lowered.dialect)
    head = judged_head(dialect, lowered, model)
    # a request without turns is looked at in any case: most providers refuse it
    if not head.judges_turns and (lowered.final or lowered.rest):
        return head.findings
    return (*head.findings, *_refused_turns(dialect, lowered, head.name))


class JudgedHead(msgspec.Struct, frozen=True):
    """What is wrong with a head, kept with it; and whether the turns after it are looked at."""

    findings: tuple[Finding, ...]
    name: str
    """The name that the provider is given for the model."""
    judges_turns: bool


def judged_head(dialect: "Dialect", lowered: "Lowered", model: str) -> JudgedHead:
    """What would be refused of everything but the conversation."""
    head = lowered.head
    slot = (JudgedHead, dialect.traits.name, model)
    judged = head.memo.of(slot)
    if judged is None:
        name = model_name(head.wire, model)
        findings = _wrong_with_head(dialect, lowered, model, name)
        judged = head.memo[slot] = JudgedHead(findings, name, dialect.judges_turns(name))
    return judged


def _wrong_with_head(
    dialect: "Dialect", lowered: "Lowered", model: str, name: str
) -> tuple[Finding, ...]:
    head, of = lowered.head, lowered.head.of
    findings: list[Finding] = []
    # without these nothing in it is the author's but the model and a text
    if of.tools or of.config or of.output or not is_model_taken(dialect, model):
        findings += _refused_head(dialect, head.wire, model)
    if not head.lead or not dialect.judges_turns(name):
        return tuple(findings)
    turns = dialect.turn_rules(name)
    for index, entry in enumerate(head.lead):
        findings += turns.read(entry.wire, f"/{lowered.turns}/{index}")
    return tuple(findings)


@functools.lru_cache(maxsize=256)
def is_model_taken(dialect: "Dialect", model: str) -> bool:
    """Whether a head that asks for nothing but the model is taken."""
    head = dialect.lower(Prompt(model, "")).head
    return not any(True for _ in _refused_head(dialect, head.wire, model))


def _refused_head(dialect: "Dialect", wire: JsonObject, model: str) -> Findings:
    """What would be refused of everything but the turns, the model's name included."""
    name = model_name(wire, model)
    if is_own(model) and is_misspelt(name):  # other servers name models as they like
        hint = suggestion(name) or "check the name in the provider's list of models"
        yield Finding(MODEL, "/model", f"there is no model `{name}`", hint)
    yield from dialect.refuse_head(wire, name)


class _JudgedTurns:
    """The rules after the turns that stay, and what is wrong with those."""

    def __init__(self, rules: TurnRules) -> None:
        self.lock = Lock()
        self.rules = rules
        self.length = 0
        self.findings: list[Finding] = []
        self.earlier: _JudgedTurns | None = None
        """The same after fewer turns, for requests that are asked about after later ones."""


def _refused_turns(dialect: "Dialect", lowered: "Lowered", name: str) -> tuple[Finding, ...]:
    """What would be refused of the conversation; turns that stay are read once."""
    track, final = lowered.track, lowered.final
    first, above = len(lowered.lead), f"/{lowered.turns}"
    slot = (_JudgedTurns, dialect.traits.name, name, first)
    judged = track.memo.of(slot)
    if judged is None:
        judged = track.memo[slot] = _JudgedTurns(dialect.turn_rules(name))
    with judged.lock:  # to the end: what a fork was made of must not grow meanwhile
        if judged.length > final:  # an older request, asked about after a newer one
            earlier = judged.earlier
            if earlier is None or earlier.length > final:
                earlier = judged.earlier = _JudgedTurns(dialect.turn_rules(name))
            judged = earlier
        read, findings = judged.rules.read, judged.findings
        fresh = islice(track.wires, judged.length, final)
        for index, wire in enumerate(fresh, first + judged.length):
            findings += read(wire, f"{above}/{index}")
            judged.length += 1
        rules, later = judged.rules.fork(), list[Finding]()
        for index, entry in enumerate(lowered.rest, start=first + judged.length):
            later += rules.read(entry.wire, f"{above}/{index}")
        later += rules.end(lowered.wire)
        return (*judged.findings, *later)


def model_name(wire: JsonObject, model: str) -> str:
    """The name the provider is given: the request's own, or the one in its address."""
    named = wire.get("model")
    return wire_name(named if isinstance(named, str) else model)
