"""Check every request as strictly as the strictest server would, at the cost of what is new.

A scripted model stands where a provider would; it must not be more patient. The laws of the
prompt are `weft.ir.prompt`'s, those of the wire `weft.dialects.legality`'s, and the law of the
prefix is Weft's own: what was sent once is sent again.

The strict rules come on top of what a provider documents. A field stands where this provider looks
for it, a declaration has a name and a schema, results follow their calls, turns alternate. The most
pedantic server takes such a request.
"""

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias, cast

import msgspec

from weft.diagnostics import Diagnostic, Origin, report
from weft.dialects.caching import without_marks
from weft.dialects.facts import DIALECTS, dialect_named
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
    model_name,
    no_object_schema,
    no_result,
    refusals_of,
    two_calls,
)
from weft.errors import IllegalRequest
from weft.ir import Feature, Item, Prompt, verify
from weft.ir.prompt import show_block
from weft.values import Json, JsonObject, compact


def check_request(dialect: str, wire: JsonObject, model: str = "") -> tuple[Diagnostic, ...]:
    """What the provider would answer with a 400, each with its place as a JSON pointer.

    `model` is for dialects whose requests do not name it. Nothing is said of what is not known.
    """
    return tuple(
        report(one.code, Origin("dialect", one.pointer or "/"), one.message, one.hint)
        for one in refusals_of(dialect_named(dialect), wire, model)
    )


class RequestChecker:
    """The strict rules of one dialect, held against each request in the order they come.

    Turns that the request before had are known by identity, which is how requests of one session
    share them. So a turn that somebody changed in place is not seen, nor an equal one with its
    keys in another order if shared turns follow it.
    """

    def __init__(self, dialect: str) -> None:
        self._dialect = dialect_named(dialect)
        self._trails: dict[View, _Trail] = {}

    def check(self, prompt: Prompt, wire: JsonObject) -> None:
        """Raise IllegalRequest, or InvalidPrompt, at the first rule that is broken."""
        traits = self._dialect.traits
        turns = _turns(wire, traits.turns)
        view = view_of(prompt)
        # taken out: a request that is refused leaves no trail to compare the next one with
        known = self._trails.pop(view, None) if view is not None else None
        model = model_name(wire, prompt.model)
        trail = known or _Trail()
        if trail.model != model:  # another model may have other rules
            trail.begin(model, self._dialect.strict_turns(model))
        # at the cost of the items that are new: those that were verified once are not looked at
        verify(prompt, step="model request")
        head = {**wire}
        del head[traits.turns]
        changed = head != trail.head
        if changed:
            _require_none(self._dialect.refuse_form(wire))
        before = trail.prompt
        goes_on = before is not None and self._goes_on(trail, head if changed else None, turns)
        start = trail.count_shared(turns)
        # taken before `read`, which puts the new turns in their place
        sent = trail.turns[start:]
        trail.read(turns, start, wire, f"/{traits.turns}")
        if sent and goes_on and before is not None:
            # only a dialect that merges turns may add to the last one
            parts = traits.parts if traits.merges_turns else ""
            check_prefix(before, sent, prompt, turns, start=start, key=traits.turns, parts=parts)
        trail.prompt, trail.head = prompt, head
        if view is not None:
            self._trails[view] = trail

    def _goes_on(
        self, trail: "_Trail", head: JsonObject | None, turns: Sequence[JsonObject]
    ) -> bool:
        """Whether system text and tools are as they were, so that the turns are read on them."""
        system = self._dialect.form.system
        keys = (system, "tools")
        if head is not None and any(trail.head.get(key) != head.get(key) for key in keys):
            return False
        if system or trail.turns[0] is turns[0]:
            return True
        first, now = trail.turns[0], turns[0]
        return first == now or "system" not in (first.get("role"), now.get("role"))


class _Trail:
    """The turns of a view's last request, and the rules as they stand after those that stay."""

    def __init__(self) -> None:
        self.prompt: Prompt | None = None
        self.head: JsonObject = {}
        self.turns: list[JsonObject] = []
        self.model: str | None = None

    def begin(self, model: str, rules: TurnRules) -> None:
        """Hold these rules against the turns, from the first on."""
        self.model = model
        self._fresh = rules
        self._settled = self._ahead = rules.fork()
        """The rules after all turns but the last, which may yet grow, and after all of them."""
        self._length = 0
        """How many turns the rules that are ahead have read."""

    def count_shared(self, turns: Sequence[JsonObject]) -> int:
        """How many turns the request repeats.

        Shared turns are the same objects, and comparing lists looks at that first.
        """
        start = min(len(self.turns), len(turns))
        while start and self.turns[start - 1] is not turns[start - 1]:
            start -= 1
        # turns before a shared one may still be new objects
        if self.turns[:start] != turns[:start]:
            pairs = enumerate(zip(self.turns, turns, strict=False))
            start = next(index for index, (old, new) in pairs if old != new)
        return start

    def read(self, turns: Sequence[JsonObject], start: int, wire: JsonObject, above: str) -> None:
        """Hold the rules against the turns that are new, and against the end."""
        if start >= self._length:
            rules, length = self._ahead, self._length
        elif start == self._length - 1 < len(turns):  # the last turn grew, or was said once
            rules, length = self._settled, start
        else:  # something was taken back: read all of it again
            rules, length = self._fresh.fork(), 0
        self.turns[start:] = turns[start:]
        for index in range(length, len(turns) - 1):
            _read_turn(rules, turns[index], f"{above}/{index}")
        if length < len(turns):
            self._settled, rules = rules, rules.fork()
            _read_turn(rules, turns[-1], f"{above}/{len(turns) - 1}")
        self._ahead, self._length = rules, len(turns)
        _require_none(rules.end(wire))


def _read_turn(rules: TurnRules, turn: Json, at: str) -> None:
    if not isinstance(turn, dict):
        raise _illegal(Finding(REQUEST, at, "this turn is not an object", "send turns as objects"))
    _require_none(rules.read(turn, at))


def _require_none(findings: Iterable[Finding]) -> None:
    """Refuse the request at the first finding."""
    for finding in findings:
        raise _illegal(finding)


def _illegal(finding: Finding) -> IllegalRequest:
    return IllegalRequest(finding.message, where=finding.pointer, hint=finding.hint)


def _turns(wire: JsonObject, key: str) -> list[JsonObject]:
    turns = wire.get(key)
    if not isinstance(turns, list) or not turns:
        raise _illegal(Finding(REQUEST, f"/{key}", "there are no turns", "say something"))
    return cast("list[JsonObject]", turns)


# --- the law of the prefix

View = tuple[str, str, str]
"""Whose view of which session: agent, the session's first event, and the branch it is in."""

_PREFIX = (
    "begin with the turns of the request before; two sessions whose events have the same ids need"
    " a model each"
)

_UNLOGGED = ("", "message")
"""Events of items that are in no log: what a pass put there, what `compile(message=)` was given."""


def view_of(prompt: Prompt) -> View | None:
    """Whose request this is, or None where nothing of it is in a log yet."""
    for item in prompt.items.between(0, 2):  # a pass may have put an opening before the first
        if item.event not in _UNLOGGED:
            return prompt.agent, item.event, _branch(prompt)
    return None


def _branch(prompt: Prompt) -> str:
    """The deepest branch in view, which is the agent's own as soon as it has spoken there."""
    if not prompt.features & Feature.BRANCHED:
        return ""
    return prompt.items.derive(_DeepestBranch).after(prompt.items.tail).branch


class _DeepestBranch(NamedTuple):
    """The longest branch of some items."""

    branch: str = ""

    def after(self, items: Sequence[Item]) -> "_DeepestBranch":
        """The longest once these items follow."""
        return _DeepestBranch(max((self.branch, *(item.branch for item in items)), key=len))


def check_prefix(
    before: Prompt,
    sent: Sequence[JsonObject],
    after: Prompt,
    turns: Sequence[JsonObject],
    *,
    start: int,
    key: str,
    parts: str,
) -> None:
    """Refuse turns that differ from those the request before had: `sent`, from `start` on.

    `parts` is where a turn's parts stand if the dialect merges turns: the last one may then have
    grown. A request that is shorter was rewound, summed up or cut to a budget.
    """
    if len(turns) < start + len(sent):
        return
    last = len(sent) - 1
    for index, old in enumerate(sent):
        new = turns[start + index]
        if _same(old, new) or (index == last and parts and _has_grown(old, new, parts)):
            continue
        if not _taken_back(before, after):
            message = "this turn was sent before and reads differently now"
            raise _illegal(Finding(REQUEST, f"/{key}/{start + index}", message, _PREFIX))
        return


def _same(old: Json, new: Json) -> bool:
    """Whether the turns are compared as equal: where to keep them does not count."""
    return old is new or compact(without_marks(old)) == compact(without_marks(new))


def _has_grown(old: JsonObject, new: JsonObject, parts: str) -> bool:
    """Whether the turn is the old one with more parts at its end."""
    sent, more = old.get(parts), new.get(parts)
    if not isinstance(sent, list) or not isinstance(more, list):
        return False
    return _same({**old, parts: sent}, {**new, parts: more[: len(sent)]})


def _taken_back(before: Prompt, after: Prompt) -> bool:
    """Whether the log gives a reason to change what was sent.

    A call got a later result, what closed the request was in no log, a value of the state that a
    policy shows was written again, a summary or a budget took the place of older items, a policy
    says that it edits them from now on, or no longer, as its condition says, or they were
    rewound: then nothing is left of them from there on.
    """
    if _left_out(before) != _left_out(after):
        return True
    late = False
    edited = {event for event, _ in _find_edited_items(after) ^ _find_edited_items(before)}
    olds, news = list(before.items), list(after.items)
    for index, (old, new) in enumerate(zip(olds, news, strict=False)):
        if old is new or (old.event == new.event and _item_texts(old) == _item_texts(new)):
            continue
        if old.event in _UNLOGGED or "summary" in (old.kind, new.kind) or old.kind == "state":
            return True
        if new.event in edited or _labels(new) - _labels(old):
            return True
        if old.event != new.event or new.last <= old.last:
            remaining = {item.event for item in news[index:]}
            return not any(item.event in remaining for item in olds[index:])
        late = True
    return late or len(news) < len(olds)


def _item_texts(item: Item) -> list[str]:
    """What an item says, whatever it counts for."""
    return [show_block(block) for block in item.blocks]


def _left_out(prompt: Prompt) -> set[str]:
    return {note.before.event for note in prompt.notes if note.after is None}


def _labels(item: Item) -> set[str]:
    return {label for block in item.blocks for label in block.labels}


def _find_edited_items(prompt: Prompt) -> set[tuple[str, str]]:
    """The events of items that a policy rewrote in this request, and why."""
    return {(note.before.event, note.reason) for note in prompt.notes if note.after is not None}


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


_PLACED = "put it where this provider looks for it"


def refuse_form(wire: JsonObject, form: RequestForm, own: Collection[str]) -> Findings:
    """A field that is another provider's, a tool or a schema that stands in no place of its own.

    `own` are the provider's fields for system text, turns and the answer's schema.
    """
    of_others = DIALECTS.fields().difference(own)
    for key in wire:
        if key in of_others:
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
            yield Finding(
                REQUEST, f"{at}/{key}", f"`{key}` is not a field of a declaration", _PLACED
            )
    for key in schemas:
        schema = declared[key]
        if not isinstance(schema, dict) or schema.get("type") not in ("object", "OBJECT"):
            yield no_object_schema(str(declared.get("name")), f"{at}/{key}")
    if not schemas and not form.tool:  # those that wrap a declaration let it have none
        yield Finding(SCHEMA, f"{at}/{form.schemas[0]}", "the schema is missing", EMPTY_SCHEMA)


def _refuse_answer_form(wire: JsonObject, form: RequestForm) -> Findings:
    """An answer's schema that is not an object, or lacks what must stand next to it."""
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
        yield Finding(SCHEMA, f"{at}/{last}", "the answer's schema is not an object", EMPTY_SCHEMA)
    for key in form.beside:
        if not asked.get(key):
            yield Finding(REQUEST, f"{at}/{key}", f"`{key}` must stand beside the schema", "set it")


# --- the order of turns


Side: TypeAlias = Literal["", "system", "user", "model"]


class PairedPart(msgspec.Struct, frozen=True):
    """A call or a result: its id, its tool where it says so, and its place in the turn."""

    id: str
    name: str
    at: str

    def __str__(self) -> str:
        return " ".join(filter(None, (self.name, self.id))) or "without a name"


class Outline(NamedTuple):
    """Who speaks in a turn, and which calls and results stand in it."""

    side: Side
    calls: tuple[PairedPart, ...] = ()
    results: tuple[PairedPart, ...] = ()
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
        self._waiting: tuple[PairedPart, ...] = ()
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
            yield self._refuse_unanswered(self._at)
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
                yield self._refuse_unanswered(at)
        # where each part is a turn of its own, the model may say more before the results come
        elif self._waiting and (self._answered or outline.side != "model" or not self._talks_on):
            yield self._refuse_unanswered(at)

    def _match(self, result: PairedPart, at: str) -> Findings:
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

    def _refuse_unanswered(self, at: str) -> Finding:
        return no_result(str(self._waiting[self._answered]), at, PAIRED)


# --- what a turn is made of


def outline_of(
    side: Side, calls: Sequence[PairedPart], results: Sequence[PairedPart], at: str
) -> Outline:
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
