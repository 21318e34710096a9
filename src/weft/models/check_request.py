"""Check every request as strictly as the strictest server would, at the cost of what is new.

A scripted model stands where a provider would; it must not be more patient. The laws of the
prompt are `weft.ir.verify`'s, those of the wire the provider's, and the law of the prefix is
Weft's own: what was sent once is sent again.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple, cast

import msgspec

from weft.codes import report
from weft.diagnostics import Diagnostic, Origin
from weft.dialects import dialect_named
from weft.dialects.caching import without_marks
from weft.errors import IllegalRequest
from weft.ir import Feature, Item, Prompt, verify
from weft.ir.show import show_block
from weft.values import Json, JsonObject, Strand, compact


class RequestChecker:
    """The laws of one dialect, held against each request in the order they come.

    Turns that the request before had are known by identity, which is how requests of one session
    share them. So a turn that somebody changed in place is not seen, nor an equal one with its
    keys in another order if shared turns follow it.
    """

    def __init__(self, dialect: str) -> None:
        self._fields = FIELDS[dialect]
        self._manners = MANNERS[dialect]
        self._trails: dict[View, _Trail] = {}

    def check(self, prompt: Prompt, wire: JsonObject) -> None:
        """Raise IllegalRequest, or InvalidPrompt, at the first law that is broken."""
        manners = self._manners
        turns = _turns(wire, manners.turns)
        view = view_of(prompt)
        known = self._trails.pop(view, None) if view is not None else None
        trail = known if known is not None else _Trail()
        _verify(prompt, trail.prompt)
        head = {**wire}
        del head[manners.turns]
        changed = head != trail.head
        if changed:
            check_head(wire, self._fields)
        before = trail.prompt
        goes_on = before is not None and self._goes_on(trail, head if changed else None, turns)
        start, gone = trail.share(turns)
        trail.extend(turns, manners)
        close(trail.standings[-1], f"/{manners.turns}/{len(turns) - 1}")
        if gone and goes_on and before is not None:
            check_prefix(
                before, gone, prompt, turns, start=start, key=manners.turns, parts=manners.parts
            )
        trail.prompt, trail.head = prompt, head
        if view is not None:
            self._trails[view] = trail

    def _goes_on(
        self, trail: "_Trail", head: JsonObject | None, turns: Sequence[JsonObject]
    ) -> bool:
        """Whether system text and tools are as they were, so that the turns are read on them."""
        keys = (self._fields.system, "tools")
        if head is not None and any(trail.head.get(key) != head.get(key) for key in keys):
            return False
        if self._fields.system or trail.turns[0] is turns[0]:
            return True
        first, now = trail.turns[0], turns[0]
        return first == now or "system" not in (first.get("role"), now.get("role"))


Side = Literal["", "system", "user", "model"]


class Named(NamedTuple):
    """A call or a result: its id, its tool where it says so, and its place in the turn."""

    id: str
    name: str
    at: str


class Turn(NamedTuple):
    """What a turn is, once read."""

    side: Side
    calls: tuple[Named, ...] = ()
    results: tuple[Named, ...] = ()
    paused: bool = False
    """Whether it ends with a part of the provider's own, from where the model can go on."""


class Manners(NamedTuple):
    """What a provider wants of turns.

    `alternates`: the user begins and nobody speaks twice in a row, so that the results of a
    turn stand in the next. `talks_on`: the model may say more between its calls and their
    results.
    """

    turns: str
    read: Callable[[JsonObject, str], Turn]
    parts: str = ""
    alternates: bool = False
    talks_on: bool = False


class _Trail:
    """The turns of a view's last request, and how the conversation stood after each."""

    def __init__(self) -> None:
        self.prompt: Prompt | None = None
        self.head: JsonObject = {}
        self.turns: list[JsonObject] = []
        self.standings: list[Standing] = []
        self.ids: list[tuple[str, ...]] = []
        self.seen: set[str] = set()

    def share(self, turns: Sequence[JsonObject]) -> tuple[int, list[JsonObject]]:
        """Keep what the request repeats; return how many turns, and those it does not have.

        Shared turns are the same objects, and comparing lists looks at that first.
        """
        start = min(len(self.turns), len(turns))
        while start and self.turns[start - 1] is not turns[start - 1]:
            start -= 1
        gone = self._cut(start)
        if self.turns != turns[:start]:
            pairs = enumerate(zip(self.turns, turns, strict=False))
            start = next(index for index, (old, new) in pairs if old != new)
            gone = self._cut(start) + gone
        return start, gone

    def _cut(self, start: int) -> list[JsonObject]:
        """Forget the turns from `start` on, and return them."""
        gone = self.turns[start:]
        if gone:
            for ids in self.ids[start:]:
                self.seen.difference_update(ids)
            del self.turns[start:], self.standings[start:], self.ids[start:]
        return gone

    def extend(self, turns: Sequence[JsonObject], manners: Manners) -> None:
        """Read the turns that are new."""
        standing = self.standings[-1] if self.standings else Standing()
        for index in range(len(self.turns), len(turns)):
            where = f"/{manners.turns}/{index}"
            if not isinstance(cast("object", turns[index]), dict):
                raise illegal(where, "this turn is no object", "turns are objects")
            turn = manners.read(turns[index], where)
            standing = follow(standing, turn, where, manners)
            for call in turn.calls:
                if call.id in self.seen:
                    raise illegal(where + call.at, f"the call id {call.id} occurs twice", _UNIQUE)
                if call.id:
                    self.seen.add(call.id)
            self.ids.append(tuple(call.id for call in turn.calls))
            self.standings.append(standing)
            self.turns.append(turns[index])


_UNIQUE = "a call id occurs once in a request"


def _turns(wire: JsonObject, key: str) -> list[JsonObject]:
    turns = wire.get(key)
    if not isinstance(turns, list) or not turns:
        raise illegal(f"/{key}", "the request has no turns", "there is something to answer")
    return cast("list[JsonObject]", turns)


def _verify(prompt: Prompt, before: Prompt | None) -> None:
    """Hold the laws of the IR against the items that were not settled before."""
    items = prompt.items
    if before is not None and before.items.shares(items):
        fresh = Strand(items.since(min(before.items.settled, items.settled)))
        prompt = msgspec.structs.replace(prompt, items=fresh)
    verify(prompt, step="model request", before=before)


_ONCE = "a tool is declared once, under a name"

_PLACED = "a field stands where this provider looks for it"


class Fields(NamedTuple):
    """Where a provider looks for the system text, the turns, tools and the answer's schema.

    `tool` names what wraps a declaration, `parameters` its schemas, `describes` its other
    fields. `answer` is the path to the answer's schema, `beside` what must stand next to it.
    """

    system: str
    turns: str
    needs: tuple[str, ...]
    tool: str
    parameters: tuple[str, ...]
    describes: tuple[str, ...]
    answer: tuple[str, ...]
    beside: tuple[str, ...]


FIELDS: dict[str, Fields] = {
    "gemini": Fields(
        system="systemInstruction",
        turns="contents",
        needs=(),
        tool="functionDeclarations",
        parameters=("parametersJsonSchema", "parameters"),
        describes=("name", "description", "behavior", "response", "responseJsonSchema"),
        answer=("generationConfig", "responseJsonSchema"),
        beside=("responseMimeType",),
    ),
    "anthropic": Fields(
        system="system",
        turns="messages",
        needs=("model", "max_tokens"),
        tool="",
        parameters=("input_schema",),
        describes=(
            "name", "description", "type", "strict", "cache_control", "input_examples",
            "defer_loading", "allowed_callers", "eager_input_streaming",
        ),
        answer=("output_config", "format", "schema"),
        beside=("type",),
    ),
    "openai-chat": Fields(
        system="",
        turns="messages",
        needs=("model",),
        tool="function",
        parameters=("parameters",),
        describes=("name", "description", "strict"),
        answer=("response_format", "json_schema", "schema"),
        beside=("name",),
    ),
    "openai-responses": Fields(
        system="instructions",
        turns="input",
        needs=("model",),
        tool="",
        parameters=("parameters",),
        describes=(
            "name", "description", "type", "strict", "defer_loading", "allowed_callers",
            "output_schema", "async",
        ),
        answer=("text", "format", "schema"),
        beside=("type", "name"),
    ),
}  # fmt: skip

_ANYONES = {
    key for fields in FIELDS.values() for key in (fields.system, fields.turns, fields.answer[0])
}


def check_head(wire: JsonObject, fields: Fields) -> None:
    """Refuse a field that is another provider's, a tool declared twice, a schema out of place."""
    own = (fields.system, fields.turns, fields.answer[0])
    for key in wire:
        if key in _ANYONES and key not in own:
            raise illegal(f"/{key}", f"`{key}` is another provider's field", _PLACED)
    for key in fields.needs:
        if not wire.get(key):
            raise illegal(f"/{key}", f"`{key}` is missing", _PLACED)
    if fields.system in wire and not wire[fields.system]:
        raise illegal(f"/{fields.system}", "the system text is empty", _PLACED)
    _check_answer(wire, fields)
    names: set[str] = set()
    for where, declared in _declared(wire, fields):
        name = declared.get("name")
        if not isinstance(name, str) or not name:
            raise illegal(f"{where}/name", "this tool has no name", _ONCE)
        if name in names:
            raise illegal(f"{where}/name", f"the tool `{name}` is declared twice", _ONCE)
        names.add(name)


def _declared(wire: JsonObject, fields: Fields) -> Iterator[tuple[str, JsonObject]]:
    """Each declaration of a function with its place; the provider's own tools pass."""
    tools = wire.get("tools", [])
    if not isinstance(tools, list):
        raise illegal("/tools", "the tools are no list", _PLACED)
    for index, tool in enumerate(tools):
        where = f"/tools/{index}"
        if not isinstance(tool, dict) or not tool:
            raise illegal(where, "this tool is empty", _PLACED)
        if tool.get("type", "function") not in ("function", "custom"):
            continue
        held: Json = tool.get(fields.tool) if fields.tool else tool
        if held is None and len(tool) == 1 and "type" not in tool and "name" not in tool:
            continue  # {"googleSearch": {}}, say
        many = isinstance(held, list)
        for at, declared in enumerate(held if isinstance(held, list) else [held]):
            place = where + (f"/{fields.tool}" if fields.tool else "") + (f"/{at}" if many else "")
            if not isinstance(declared, dict):
                raise illegal(place, "there is no declaration here", _PLACED)
            _check_parameters(declared, place, fields)
            yield place, declared


def _check_parameters(declared: JsonObject, where: str, fields: Fields) -> None:
    schemas = [key for key in fields.parameters if key in declared]
    if len(schemas) > 1:
        raise illegal(where, f"it has both {' and '.join(schemas)}", _PLACED)
    for key in declared:
        if key not in fields.describes and key not in fields.parameters:
            raise illegal(f"{where}/{key}", f"`{key}` is no field of a declaration", _PLACED)
    for key in schemas:
        schema = declared[key]
        if not isinstance(schema, dict) or schema.get("type") not in ("object", "OBJECT"):
            raise illegal(f"{where}/{key}", "parameters are an object's schema", _PLACED)
    if not schemas and not fields.tool:  # those that wrap a declaration let it have none
        raise illegal(f"{where}/{fields.parameters[0]}", "the schema is missing", _PLACED)


def _check_answer(wire: JsonObject, fields: Fields) -> None:
    """The answer's schema is an object, and what must stand beside it does."""
    *above, last = fields.answer
    held: Json = wire
    where = ""
    for key in above:
        held = held.get(key) if isinstance(held, dict) else None
        where += f"/{key}"
    if not isinstance(held, dict):
        return
    asked = last in held or "json_schema" in (held.get("type"), above[-1])
    if asked and not isinstance(held.get(last), dict):
        raise illegal(f"{where}/{last}", "the answer's schema is no object", _PLACED)
    for key in fields.beside if asked else ():
        if not held.get(key):
            raise illegal(f"{where}/{key}", f"`{key}` must stand beside the schema", _PLACED)


PAIRED = "every call is followed by its results, in call order and under its id"

_FILLED = "no turn is empty, and a part holds one thing"

_SPOKEN = "a role is one the provider knows, and calls are the model's, results the user's"

_ORDERED = "the user begins, then turns alternate"

_WORDS = frozenset(("text", "thinking", "redacted_thinking", "tool_use"))

_LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]+")

_GEMINI_PARTS = frozenset(
    ("text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode",
     "codeExecutionResult")
)  # fmt: skip


class Standing(NamedTuple):
    """Where a conversation stands: who spoke last, and which calls wait for results."""

    side: Side = ""
    waiting: tuple[Named, ...] = ()
    answered: int = 0
    paused: bool = False


def illegal(where: str, what: str, law: str) -> IllegalRequest:
    """The error for a broken law: the place as a JSON pointer, what is wrong, and the law."""
    return IllegalRequest(what, where=where, hint=f"the law: {law}")


def follow(before: Standing, turn: Turn, where: str, manners: Manners) -> Standing:
    """Where the conversation stands after the turn, if it may follow."""
    side, waiting, answered = turn.side, before.waiting, before.answered
    if side == "system" and before.side not in ("", "system"):
        if before.side != "user" or waiting:
            raise illegal(where, "a system turn stands in mid-conversation", _SPOKEN)
        return before  # the author has a word where it is the model's turn to speak
    if manners.alternates:
        if side == before.side:
            raise illegal(where, f"two turns of the {side} stand in a row", _ORDERED)
        if not before.side and side != "user":
            raise illegal(where, "the first turn is not the user's", _ORDERED)
    if turn.results:
        for result in turn.results:
            _match(result, waiting, answered, where)
            answered += 1
        if answered == len(waiting):
            waiting, answered = (), 0
        elif manners.alternates:
            raise _unanswered(waiting[answered], where)
    elif waiting and (answered or side != "model" or not manners.talks_on):
        raise _unanswered(waiting[answered], where)
    if turn.calls:
        waiting += turn.calls
    return Standing(side, waiting, answered, turn.paused)


def close(last: Standing, where: str) -> None:
    """Refuse a request that ends where there is nothing to answer."""
    if last.waiting:
        raise _unanswered(last.waiting[last.answered], where)
    if last.side != "user" and not last.paused:
        raise illegal(
            where,
            "the request ends with the model's own words",
            "the last turn is the user's, or results",
        )


def _match(result: Named, waiting: tuple[Named, ...], answered: int, where: str) -> None:
    place = where + result.at
    if answered == len(waiting):
        raise illegal(place, f"{_called('result', result)} answers no call before it", PAIRED)
    call = waiting[answered]
    if result.id != call.id or (result.name and result.name != call.name):
        late = any(result.id == other.id and result.id for other in waiting[answered:])
        what = "stands out of order" if late else "answers no call before it"
        said = f"{_called('result', result)} {what}: the next is due for {_named(call)}"
        raise illegal(place, said, PAIRED)


def _unanswered(call: Named, where: str) -> IllegalRequest:
    return illegal(where, f"the call of {_named(call)} has no result next to it", PAIRED)


def _called(what: str, named: Named) -> str:
    return f"the {what} {_named(named)}"


def _named(named: Named) -> str:
    return " ".join(filter(None, (named.name, named.id))) or "without a name"


def _read_gemini(turn: JsonObject, where: str) -> Turn:
    role = turn.get("role")
    if role not in ("user", "model"):
        raise illegal(f"{where}/role", f"{role!r} is no role", _SPOKEN)
    calls: list[Named] = []
    results: list[Named] = []
    for index, part in enumerate(_parts(turn, "parts", where)):
        text = part.get("text")
        if text and isinstance(text, str) and len(part) == 1:
            continue
        at = f"/parts/{index}"
        kinds = [kind for kind in part if kind in _GEMINI_PARTS]
        if len(kinds) > 1:
            raise illegal(where + at, f"this part holds {' and '.join(kinds)}", _FILLED)
        if "text" in part and not text and "thoughtSignature" not in part:
            raise illegal(where + at, "this part is empty", _FILLED)
        for kind, needed in (("inlineData", "data"), ("fileData", "fileUri")):
            if kind in part:
                _text(_object(part[kind], f"{where}{at}/{kind}"), needed, f"{where}{at}/{kind}")
        if "functionCall" in part:
            calls.append(_gemini_pair(part, "functionCall", "args", where, at))
        elif "functionResponse" in part:
            results.append(_gemini_pair(part, "functionResponse", "response", where, at))
    return _turn("user" if role == "user" else "model", calls, results, where)


def _gemini_pair(part: JsonObject, kind: str, held: str, where: str, at: str) -> Named:
    at = f"{at}/{kind}"
    pair = _object(part[kind], where + at)
    _object(pair.get(held, {}), f"{where}{at}/{held}")
    given = _text(pair, "id", where + at) if "id" in pair else ""
    return Named(given, _text(pair, "name", where + at), at)


def _read_anthropic(turn: JsonObject, where: str) -> Turn:
    role = turn.get("role")
    if role not in ("user", "assistant", "system"):
        raise illegal(f"{where}/role", f"{role!r} is no role", _SPOKEN)
    side: Side = "user" if role == "user" else "model" if role == "assistant" else "system"
    calls: list[Named] = []
    results: list[Named] = []
    content = turn.get("content")
    if isinstance(content, str) and content.strip():
        return Turn(side)
    blocks = _parts(turn, "content", where)
    worded = any(str(block.get("text", "")).strip() for block in blocks)
    for index, block in enumerate(blocks):
        at = f"/content/{index}"
        kind = _text(block, "type", where + at)
        if kind == "text":
            if not _text(block, "text", where + at) or not worded:
                raise illegal(where + at, "this block is blank", _FILLED)
        elif kind == "tool_use":
            call_id = _text(block, "id", where + at)
            if not _LEGAL_ID.fullmatch(call_id):
                raise illegal(f"{where}{at}/id", f"{call_id!r} is no id", PAIRED)
            _object(block.get("input"), f"{where}{at}/input")
            calls.append(Named(call_id, _text(block, "name", where + at), at))
        elif kind == "tool_result":
            if len(results) < index:
                raise illegal(where + at, "this result stands behind other blocks", PAIRED)
            results.append(Named(_text(block, "tool_use_id", where + at), "", at))
        elif kind == "thinking":
            _text(block, "signature", where + at)
            if side == "user":
                raise illegal(where + at, "this thought stands in the user's turn", _SPOKEN)
    turn_read = _turn(side, calls, results, where)
    own = side == "model" and blocks[-1].get("type") not in _WORDS
    return turn_read._replace(paused=True) if own else turn_read


def _read_chat(turn: JsonObject, where: str) -> Turn:
    role = turn.get("role")
    if role == "tool":
        if not isinstance(turn.get("content"), (str, list)):
            raise illegal(f"{where}/content", "this result has no content", _FILLED)
        return Turn("user", results=(Named(_text(turn, "tool_call_id", where), "", ""),))
    if role == "assistant":
        calls = tuple(
            _chat_call(_object(call, f"{where}/tool_calls/{index}"), where, index)
            for index, call in enumerate(_listed(turn, "tool_calls", where))
        )
        own = any(turn[key] for key in turn if key not in ("role", "content", "tool_calls"))
        if not calls and not own:
            _require_words(turn, where)
        return Turn("model", calls)
    if role not in ("system", "developer", "user"):
        raise illegal(f"{where}/role", f"{role!r} is no role", _SPOKEN)
    _require_words(turn, where)
    return Turn("user" if role == "user" else "system")


def _chat_call(call: JsonObject, where: str, index: int) -> Named:
    at = f"/tool_calls/{index}"
    if call.get("type") == "custom":
        custom = _object(call.get("custom"), f"{where}{at}/custom")
        name = _text(custom, "name", f"{where}{at}/custom")
        return Named(_text(call, "id", where + at), name, at)
    function = _object(call.get("function"), f"{where}{at}/function")
    _arguments(function, f"{where}{at}/function")
    name = _text(function, "name", f"{where}{at}/function")
    return Named(_text(call, "id", where + at), name, at)


def _read_responses(turn: JsonObject, where: str) -> Turn:
    kind = turn.get("type", "message")
    if kind == "function_call":
        _arguments(turn, where)
        called = Named(_text(turn, "call_id", where), _text(turn, "name", where), "")
        return Turn("model", calls=(called,))
    if kind == "function_call_output":
        if not isinstance(turn.get("output"), (str, list)):
            raise illegal(f"{where}/output", "this result has no output", _FILLED)
        return Turn("user", results=(Named(_text(turn, "call_id", where), "", ""),))
    if kind != "message":  # the provider's own item, which only it can read
        side: Side = "user" if _text(turn, "type", where).endswith("_output") else "model"
        return Turn(side, paused=kind != "reasoning")
    role = turn.get("role")
    if role not in ("system", "developer", "user", "assistant"):
        raise illegal(f"{where}/role", f"{role!r} is no role", _SPOKEN)
    _require_words(turn, where)
    return Turn("model" if role == "assistant" else "user" if role == "user" else "system")


MANNERS: dict[str, Manners] = {
    "gemini": Manners("contents", _read_gemini, parts="parts", alternates=True),
    "anthropic": Manners("messages", _read_anthropic, parts="content", alternates=True),
    "openai-chat": Manners("messages", _read_chat),
    "openai-responses": Manners("input", _read_responses, talks_on=True),
}
"""What each provider wants of turns; a dialect without an entry here is not checked."""


def _turn(side: Side, calls: list[Named], results: list[Named], where: str) -> Turn:
    if calls and side != "model":
        raise illegal(where + calls[0].at, "this call is not in the model's turn", _SPOKEN)
    if results and side != "user":
        raise illegal(where + results[0].at, "this result is in the model's turn", _SPOKEN)
    return Turn(side, tuple(calls), tuple(results))


def _require_words(turn: JsonObject, where: str) -> None:
    """Refuse a message that says nothing: no text, or no part, or a part without text."""
    content = turn.get("content")
    if isinstance(content, str) and content:
        return
    for index, part in enumerate(_parts(turn, "content", where)):
        at = f"{where}/content/{index}"
        if _text(part, "type", at) in ("text", "input_text", "output_text"):
            _text(part, "text", at)


def _arguments(call: JsonObject, where: str) -> None:
    text = _text(call, "arguments", where)
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise illegal(f"{where}/arguments", "the arguments are no JSON object", PAIRED)


def _parts(turn: JsonObject, key: str, where: str) -> list[JsonObject]:
    parts = turn.get(key)
    if not isinstance(parts, list) or not parts:
        raise illegal(f"{where}/{key}", "this turn is empty", _FILLED)
    found: list[JsonObject] = []
    for index, part in enumerate(parts):
        if not isinstance(part, dict) or not part:
            raise illegal(f"{where}/{key}/{index}", "this part is empty", _FILLED)
        found.append(part)
    return found


def _listed(turn: JsonObject, key: str, where: str) -> list[Json]:
    held = turn.get(key, [])
    if not isinstance(held, list) or (key in turn and not held):
        raise illegal(f"{where}/{key}", "this list is empty", _FILLED)
    return held


def _object(value: Json, where: str) -> JsonObject:
    if not isinstance(value, dict):
        raise illegal(where, "there is no object here", _FILLED)
    return value


def _text(held: JsonObject, key: str, where: str) -> str:
    value = held.get(key)
    if not isinstance(value, str) or not value:
        raise illegal(f"{where}/{key}", "there is no text here", _FILLED)
    return value


View = tuple[str, str, str]
"""Whose view of which session: agent, the session's first event, and the branch it is in."""

_LAW = (
    "a request begins with the turns of the one before; two sessions whose events have the same"
    " ids need a model each"
)

_UNLOGGED = ("", "message")
"""Events of items that are in no log: what a pass put there, what `compile(message=)` was given."""


def view_of(prompt: Prompt) -> View | None:
    """Whose request this is, or None where nothing of it is in a log yet."""
    items = prompt.items
    for index in range(min(len(items), 2)):  # a pass may have put an opening before the first
        event = items[index].event
        if event not in _UNLOGGED:
            return prompt.agent, event, _branch(prompt)
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
        if _same(old, new) or (index == last and parts and _grown(old, new, parts)):
            continue
        if not _taken_back(before, after):
            where = f"/{key}/{start + index}"
            raise illegal(where, "this turn was sent before and reads differently now", _LAW)
        return


def _same(old: Json, new: Json) -> bool:
    """Whether the turns are compared as equal: where to keep them is no part of them."""
    return old is new or compact(without_marks(old)) == compact(without_marks(new))


def _grown(old: JsonObject, new: JsonObject, parts: str) -> bool:
    """Whether the turn is the old one with more parts at its end."""
    held, more = old.get(parts), new.get(parts)
    if not isinstance(held, list) or not isinstance(more, list):
        return False
    return _same({**old, parts: held}, {**new, parts: more[: len(held)]})


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
    edited = {event for event, _ in _edited(after) ^ _edited(before)}
    olds, news = list(before.items), list(after.items)
    for index, (old, new) in enumerate(zip(olds, news, strict=False)):
        if old is new or (old.event == new.event and _item_texts(old) == _item_texts(new)):
            continue
        if old.event in _UNLOGGED or "summary" in (old.kind, new.kind) or old.kind == "state":
            return True
        if new.event in edited or _labels(new) - _labels(old):
            return True
        if old.event != new.event or new.last <= old.last:
            left = {item.event for item in news[index:]}
            return not any(item.event in left for item in olds[index:])
        late = True
    return late or len(news) < len(olds)


def _item_texts(item: Item) -> list[str]:
    """What an item says, whatever it counts for."""
    return [show_block(block) for block in item.blocks]


def _left_out(prompt: Prompt) -> set[str]:
    return {note.before.event for note in prompt.notes if note.after is None}


def _labels(item: Item) -> set[str]:
    return {label for block in item.blocks for label in block.labels}


def _edited(prompt: Prompt) -> set[tuple[str, str]]:
    """The events of items that a policy rewrote in this request, and why."""
    return {(note.before.event, note.reason) for note in prompt.notes if note.after is not None}


def check_request(dialect: str, wire: JsonObject, model: str = "") -> tuple[Diagnostic, ...]:
    """What the provider would answer with a 400, each with its place as a JSON pointer.

    `model` is for dialects whose requests do not name it. Nothing is said of what is not known.
    """
    return tuple(
        report(found.code, Origin("dialect", found.pointer or "/"), found.message, found.hint)
        for found in dialect_named(dialect).refusals(wire, model)
    )
