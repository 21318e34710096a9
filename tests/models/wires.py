"""Legal requests in every dialect, and ways to get at their calls, results and texts."""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import weft
from weft import Agent, Compiled, Event, Session
from weft.content import call_part, result_part, to_content
from weft.dialects import DIALECTS, dialect_named
from weft.dialects.strict import RequestChecker
from weft.testing import ScriptedModel

Wire = dict[str, Any]


def lookup(key: str) -> str:
    """Look a key up."""
    return key


def ping() -> str:
    """Answer."""
    return "pong"


def log(*turns: tuple[Any, ...]) -> list[Event]:
    """Events of one invocation: `(author, part, ...)`, results in a turn of the user's."""
    events: list[Event] = []
    for number, (author, *parts) in enumerate(turns, 1):
        answers = not isinstance(parts[0], str) and parts[0].function_response is not None
        role = "user" if author == "user" or answers else "model"
        events.append(
            Event(
                author=author,
                content=to_content(parts, role=role),
                invocation_id="i1",
                id=f"e{number}",
                timestamp=float(number),
            )
        )
    return events


TALK = log(
    ("user", "Look up a."),
    ("bot", "Looking.", call_part("lookup", {"key": "a"}, id="c1"), call_part("ping", {}, id="c2")),
    ("bot", result_part("lookup", {"result": "1"}, id="c1"), result_part("ping", {}, id="c2")),
    ("bot", "It is 1."),
    ("user", "And b?"),
    ("bot", call_part("lookup", {"key": "b"}, id="c3")),
    ("bot", result_part("lookup", {"error": "none"}, id="c3")),
)

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def asked(dialect: str, events: list[Event], **more: Any) -> Compiled:
    """The request a scripted model of that dialect would get."""
    more = {"instruction": "Be brief.", "tools": [lookup, ping], "output_schema": SCHEMA, **more}
    agent = Agent("bot", model=ScriptedModel([], dialect=dialect), **more)
    return weft.compile(agent, session=Session("s", events=events))


def turns_of(wire: Wire, dialect: str) -> list[Wire]:
    """The turns themselves, to be changed in place."""
    turns: list[Wire] = wire[dialect_named(dialect).traits.turns]
    return turns


def check(dialect: str, compiled: Compiled, change: Callable[[Wire], object]) -> None:
    """Check the request after a change to a copy of its wire."""
    wire = copy.deepcopy(compiled.wire)
    change(wire)
    RequestChecker(dialect).check(compiled.prompt, wire)


class Place(NamedTuple):
    """Something in a request: the list or object that holds it, and under which key."""

    holder: Any
    key: Any

    @property
    def value(self) -> Any:
        """What stands there."""
        return self.holder[self.key]

    @value.setter
    def value(self, value: Any) -> None:
        self.holder[self.key] = value

    def drop(self) -> None:
        """Take it out."""
        del self.holder[self.key]


class Found(NamedTuple):
    """What a request holds that can be planted with a fault."""

    calls: list[Place]
    results: list[Place]
    texts: list[Place]


CALL_ID = {"gemini": "id", "anthropic": "id", "openai-chat": "id", "openai-responses": "call_id"}
RESULT_ID = {
    "gemini": "id",
    "anthropic": "tool_use_id",
    "openai-chat": "tool_call_id",
    "openai-responses": "call_id",
}
"""Under which key a call and a result have the id."""


def found_in(wire: Wire, dialect: str) -> Found:
    """The calls, results and texts of a request."""
    found = Found([], [], [])
    turns = turns_of(wire, dialect)
    for index, turn in enumerate(turns):
        if dialect in ("gemini", "anthropic"):
            parts = turn["parts" if dialect == "gemini" else "content"]
            for at, part in enumerate(parts):
                kind = part.get("type") or next(iter(part))
                if kind in ("functionCall", "tool_use"):
                    found.calls.append(Place(parts, at))
                elif kind in ("functionResponse", "tool_result"):
                    found.results.append(Place(parts, at))
                elif kind == "text":
                    found.texts.append(Place(part, "text"))
        elif dialect == "openai-chat":
            found.calls.extend(
                Place(turn["tool_calls"], at) for at in range(len(turn.get("tool_calls", ())))
            )
            if turn["role"] == "tool":
                found.results.append(Place(turns, index))
            elif "tool_calls" not in turn:
                found.texts.extend(_texts(turn))
        elif turn.get("type") == "function_call":
            found.calls.append(Place(turns, index))
        elif turn.get("type") == "function_call_output":
            found.results.append(Place(turns, index))
        else:
            found.texts.extend(_texts(turn))
    return found


def _texts(turn: Wire) -> list[Place]:
    content = turn.get("content")
    if isinstance(content, str):
        return [Place(turn, "content")]
    return [Place(part, "text") for part in content or () if "text" in part]


def inner(place: Place, dialect: str) -> Wire:
    """The object that has a call's or a result's id."""
    held: Wire = place.value
    return next(iter(held.values())) if dialect == "gemini" else held


EVERY = tuple(DIALECTS)
