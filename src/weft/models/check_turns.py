"""Read the turns of a request as its provider does, and refuse what it would refuse.

Each dialect has a reader that says whose turn it is and which calls and results stand in it;
an unknown role, an empty part or a call in the wrong turn is stopped there. `follow` then holds
the laws between turns, which differ only in a few facts.
"""

import json
import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from weft.errors import IllegalRequest
from weft.values import Json, JsonObject

Side = Literal["", "system", "user", "model"]

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
            _said(turn, where)
        return Turn("model", calls)
    if role not in ("system", "developer", "user"):
        raise illegal(f"{where}/role", f"{role!r} is no role", _SPOKEN)
    _said(turn, where)
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
    _said(turn, where)
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


def _said(turn: JsonObject, where: str) -> None:
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
